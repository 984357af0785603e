/* Kernels for each kind of machine, and panels of narrow weights. Start at narrow_tile. */
#include "narrow.h"
#include "widths.h"
#include "../../tensor/packed.h"
#include "../ops.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define UNROLL _Pragma("GCC unroll 16")

typedef void narrow_fn(const narrow_panels *p, int64_t panel, const float *a, int64_t row,
                       float *c);

/* Bytes of a panel's numbers, in whole words. */
static int64_t panel_size(const narrow_panels *p) {
    const int64_t each = 32 / p->bits; /* numbers of a word */
    return (p->k + each - 1) / each * (int64_t)sizeof(uint32_t) * tile_width();
}

const char *narrow_panel_at(const narrow_panels *p, int64_t panel) {
    return (const char *)p->numbers + panel * panel_size(p);
}

/* Number i of each word as a vector of floats: shifted up to the sign and down again. */
#define SHIFTED(name, v, up, down)                                                                 \
    __builtin_convertvector((ints_##name)((v) << (up)) >> (down), vec_##name)
#define NIBBLE_w16(v, i) SHIFTED(w16, v, 28 - 4 * (i), 28)
#define NIBBLE_w32(v, i) SHIFTED(w32, v, 28 - 4 * (i), 28)
#define NIBBLE_w64(v, i) ((vec_w64)picked((__m512i)((v) >> 4 * (i))))
#define BYTE_w16(v, i) SHIFTED(w16, v, 24 - 8 * (i), 24)
#define BYTE_w32(v, i) SHIFTED(w32, v, 24 - 8 * (i), 24)
#define BYTE_w64(v, i) SHIFTED(w64, v, 24 - 8 * (i), 24)

#if defined(__x86_64__)
/* The lowest four bits pick one of sixteen numbers. */
__attribute__((target("avx512f"))) INLINE __m512 picked(__m512i v) {
    const __m512 numbers = _mm512_set_ps(-1, -2, -3, -4, -5, -6, -7, -8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_permutexvar_ps(v, numbers);
}
#endif

#define BODY "narrow.inc"
#include "widths.inc"

void narrow_tile(const narrow_panels *p, int64_t panel, int rows, const float *a, int64_t row,
                 float *c) {
    const int bits = p->bits == 8;
    BY_WIDTH(vector_bytes(), kernels, [bits][rows - 1])(p, panel, a, row, c);
}

void narrow_unpack(const narrow_panels *p, int64_t panel, int64_t at, int64_t length, float *to) {
    const int64_t width = tile_width(), groups = p->k / p->group;
    for (int64_t end = at + length, n; at < end; at += n, to += n * width) {
        const int64_t g = at / p->group, rest = (g + 1) * p->group - at;
        const float *scales = p->scales + (panel * groups + g) * width;
        n = end - at < rest ? end - at : rest;
        BY_WIDTH(vector_bytes(), unpack)(p, narrow_panel_at(p, panel), scales, at, n, to);
    }
}

void narrow_column(const narrow_panels *p, int64_t j, float *to) {
    const int64_t width = tile_width(), panel = j / width, groups = p->k / p->group;
    const char *numbers = narrow_panel_at(p, panel);
    const float *scales = p->scales + panel * groups * width + j % width;
    for (int64_t i = 0; i < p->k; i++) {
        const int each = 32 / p->bits;
        const uint32_t word = ((const uint32_t *)numbers)[i / each * width + j % width];
        const int number = (int)(word << (32 - p->bits * (i % each + 1))) >> (32 - p->bits);
        to[i] = (float)number * scales[i / p->group * width];
    }
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct {
    const cfx__narrow *w;
    narrow_panels *to;
    char *numbers;
    float *scales;
    atomic_bool over; /* a number needs more than 4 bits */
} packing;

/* The numbers of result j from i on in a word. Those of 4 bits that are stored two to a byte are 8
 * more there than they are. */
static uint32_t word_of(packing *p, int64_t j, int64_t i) {
    const cfx__narrow *w = p->w;
    const int bits = p->to->bits;
    const int64_t each = 32 / bits, count = w->k - i < each ? w->k - i : each;
    uint32_t word = 0;
    if (w->integers->dtype == CFX_U8) {
        memcpy(&word, w->integers->data + (j * w->k + i) / 2, (size_t)(count + 1) / 2);
        return word ^ 0x88888888u;
    }
    const int8_t *from = (const int8_t *)w->integers->data + j * w->integers->stride[0];
    for (int64_t q = 0; q < count; q++) {
        const int number = from[(i + q) * w->integers->stride[1]];
        if (bits == 4 && (number < -8 || number > 7))
            p->over = true;
        word |= ((uint32_t)number & ((1u << bits) - 1)) << bits * q;
    }
    return word;
}

static void pack_numbers(packing *p, int64_t panel, int64_t first, int64_t cols) {
    const int64_t width = tile_width(), each = 32 / p->to->bits;
    char *to = p->numbers + panel * panel_size(p->to);
    if (cols < width)
        memset(to, 0, (size_t)panel_size(p->to));
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < p->w->k; i += each)
            ((uint32_t *)to)[i / each * width + j] = word_of(p, first + j, i);
}

static void pack_range(void *arg, int64_t begin, int64_t end) {
    packing *p = arg;
    const int64_t width = tile_width(), groups = p->to->k / p->to->group;
    const float *scales = (const float *)p->w->scales->data;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = panel * width;
        const int64_t cols = p->to->n - first < width ? p->to->n - first : width;
        float *to = p->scales + first * groups;
        pack_numbers(p, panel, first, cols);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t j = 0; j < width; j++)
                to[g * width + j] = j >= cols                  ? 0
                                    : p->w->scales->numel == 1 ? scales[0]
                                                               : scales[(first + j) * groups + g];
    }
}

bool narrow_takes(const cfx__narrow *w) {
    const bool whole = w->group == w->k || (w->group > 0 && w->k % w->group == 0);
    const bool packed = w->integers->dtype == CFX_U8;
    return whole && w->n > 0 && w->k > 0 && (w->group % 8 == 0 || w->group == w->k) &&
           (packed ? w->bits == 4 && w->k % 2 == 0 && cfx__tensor_is_contiguous(w->integers)
                   : w->integers->dtype == CFX_I8) &&
           w->integers->numel == (packed ? w->n * w->k / 2 : w->n * w->k) && w->integers->storage &&
           w->scales->dtype == CFX_F32 && cfx__tensor_is_contiguous(w->scales) &&
           (w->scales->numel == 1 || w->scales->numel == w->n * (w->k / w->group));
}

/* What the panels are made of, beside the integers: of scales, what they are. */
static uint64_t key_of(const cfx__narrow *w) {
    const int64_t facts[] = {w->bits, w->n, w->k, w->group, w->integers->offset,
                             w->integers->stride[0], w->integers->stride[1]};
    const uint32_t *scales = (const uint32_t *)w->scales->data;
    uint64_t key = cfx__packed_key("narrow", COUNT(facts), facts);
    for (int64_t i = 0; i < w->scales->numel; i++)
        key = cfx__hash_mix(key, scales[i]);
    return key;
}

/* Panels to be made: numbers, then scales. */
typedef struct {
    const cfx__narrow *w;
    narrow_panels *to;
    int64_t numbers; /* bytes */
    uint64_t key;
    size_t size;
} panel_form;

static cfx__packed *make_panels(void *user) {
    const panel_form *of = user;
    const int64_t width = tile_width(), n = (of->w->n + width - 1) / width;
    cfx__packed *form = cfx__packed_new(of->w->integers->storage, of->key, of->size);
    if (!form)
        return NULL;
    packing p = {of->w, of->to, form->data, (float *)((char *)form->data + of->numbers), false};
    cfx__parallel(n, 1 + 65536 / (of->w->k * width), pack_range, &p);
    if (!p.over)
        return form;
    cfx_drop(form);
    return NULL;
}

bool narrow_pack(const cfx__narrow *w, narrow_panels *to, cfx__packed **form) {
    const int64_t width = tile_width(), n = (w->n + width - 1) / width;
    *to = (narrow_panels){.bits = w->bits, .k = w->k, .n = w->n, .group = w->group};
    const int64_t numbers = (n * panel_size(to) + 63) / 64 * 64;
    const int64_t scales = n * (w->k / w->group) * width;
    panel_form p = {w, to, numbers, key_of(w), (size_t)(numbers + scales * (int64_t)sizeof(float))};
    *form = cfx__packed_get(w->integers->storage, p.key, p.size, make_panels, &p);
    if (!*form)
        return false;
    to->numbers = (*form)->data;
    to->scales = (const float *)((char *)(*form)->data + numbers);
    return true;
}
