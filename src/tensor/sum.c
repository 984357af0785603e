/* Checksums of bytes, computed in 64-bit lanes at the speed of memory. They detect accidental
 * changes and distinguish different files; they are not secure against deliberate collisions. */
#include "packed.h"

enum { PIECE = 1 << 20, LANES = 8, LINE = LANES * 8 };

static uint64_t step(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u; /* odd: nothing is lost, and */
    return h << 31 | h >> 33;             /* what is high comes down again */
}

static uint64_t sum_piece(const unsigned char *p, size_t size) {
    uint64_t lanes[LANES], h = size;
    for (int i = 0; i < LANES; i++)
        lanes[i] = (uint64_t)i + 1;
    for (; size >= LINE; size -= LINE, p += LINE)
        for (int i = 0; i < LANES; i++) {
            uint64_t word;
            memcpy(&word, p + i * 8, 8);
            lanes[i] = step(lanes[i], word);
        }
    for (int i = 0; i < LANES; i++)
        h = cfx__hash_mix(h, lanes[i]);
    for (size_t i = 0; i < size; i++)
        h = cfx__hash_mix(h, p[i]);
    return h;
}

typedef struct {
    const unsigned char *data;
    size_t size;
    uint64_t *sums;
} summing;

static void sum_pieces(void *arg, int64_t begin, int64_t end) {
    const summing *s = arg;
    for (int64_t i = begin; i < end; i++) {
        const size_t at = (size_t)i * PIECE, left = s->size - at;
        s->sums[i] = sum_piece(s->data + at, left < PIECE ? left : PIECE);
    }
}

uint64_t cfx__packed_sum(const void *p, size_t size) {
    const int64_t n = (int64_t)((size + PIECE - 1) / PIECE);
    uint64_t h = size;
    summing s = {p, size, cfx__alloc((size_t)n * sizeof *s.sums)};
    cfx__parallel(n, 1, sum_pieces, &s);
    for (int64_t i = 0; i < n; i++)
        h = cfx__hash_mix(h, s.sums[i]);
    cfx__free(s.sums);
    return h;
}
