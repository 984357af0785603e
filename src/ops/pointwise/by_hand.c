/* Loops over the functions of vec16.h. */
#include "by_hand.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include "../vec16.h"
#define WIDE __attribute__((target("avx512f,avx512dq")))

bool by_hand_runs(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

/* A loop, and one whose result is aligned to lines of the cache and goes past it. */
#define BY_HAND(name)                                                                              \
    WIDE static void name##_loop(void *const *p, int64_t n, const void *params) {                  \
        float *to = p[0];                                                                          \
        const float *from = p[1];                                                                  \
        int64_t i = 0;                                                                             \
        (void)params;                                                                              \
        for (; i + 16 <= n; i += 16)                                                               \
            _mm512_storeu_ps(to + i, name##16(_mm512_loadu_ps(from + i)));                         \
        const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);                                   \
        if (rest)                                                                                  \
            _mm512_mask_storeu_ps(to + i, rest, name##16(_mm512_maskz_loadu_ps(rest, from + i)));  \
    }                                                                                              \
    WIDE static void name##_stream(void *const *p, int64_t n, const void *params) {                \
        float *to = p[0];                                                                          \
        const float *from = p[1];                                                                  \
        const int64_t whole = n & -(int64_t)16;                                                    \
        for (int64_t i = 0; i < whole; i += 16)                                                    \
            _mm512_stream_ps(to + i, name##16(_mm512_loadu_ps(from + i)));                         \
        void *const rest[] = {to + whole, (float *)from + whole};                                  \
        name##_loop(rest, n - whole, params);                                                      \
    }                                                                                              \
    const pointwise_by_hand by_hand_##name = {name##_loop, name##_stream};
#else
#define BY_HAND(name) const pointwise_by_hand by_hand_##name;
bool by_hand_runs(void) { return false; }
#endif

BY_HAND(exp)
BY_HAND(log)
BY_HAND(tanh)
BY_HAND(sigmoid)
BY_HAND(silu)
BY_HAND(erf)
BY_HAND(gelu)
