/* Streaming stores, for results too large for the caches: a line that is written completely this
 * way is not read from memory first. */
#include "stream.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define STREAM(name, unit, vector, bytes, load, store)                                             \
    __attribute__((target(unit))) static int64_t name(char *dst, const char *src, int64_t n) {     \
        const int64_t whole = n & -(int64_t)(bytes);                                               \
        for (int64_t i = 0; i < whole; i += (bytes))                                               \
            store((vector *)(dst + i), load((const vector *)(src + i)));                           \
        return whole;                                                                              \
    }
STREAM(stream_64, "avx512f", __m512i, 64, _mm512_loadu_si512, _mm512_stream_si512)
STREAM(stream_32, "avx", __m256i, 32, _mm256_loadu_si256, _mm256_stream_si256)
STREAM(stream_16, "sse2", __m128i, 16, _mm_loadu_si128, _mm_stream_si128)

/* The bytes that were written; stores need a destination aligned to their width. */
static int64_t stream_whole(char *dst, const char *src, int64_t n) {
    const uintptr_t off = (uintptr_t)dst;
    if ((off & 63) == 0 && __builtin_cpu_supports("avx512f"))
        return stream_64(dst, src, n);
    if ((off & 31) == 0 && __builtin_cpu_supports("avx"))
        return stream_32(dst, src, n);
    return (off & 15) == 0 ? stream_16(dst, src, n) : 0;
}

void cfx__stream_end(void) { _mm_sfence(); }
#else
static int64_t stream_whole(char *dst, const char *src, int64_t n) {
    (void)dst, (void)src, (void)n;
    return 0;
}

void cfx__stream_end(void) {}
#endif

enum { STREAM_FROM = 16 << 20 }; /* what second-level caches of several cores hold */

bool cfx__streams(int64_t bytes) { return bytes >= STREAM_FROM; }

bool cfx__streams_rows(int64_t rows, int64_t bytes) {
    return bytes % 64 == 0 && cfx__streams(rows * bytes);
}

void cfx__stream_out(void *dst, const void *src, int64_t bytes) {
    const int64_t whole = stream_whole(dst, src, bytes);
    memcpy((char *)dst + whole, (const char *)src + whole, (size_t)(bytes - whole));
}
