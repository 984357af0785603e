/* The kernels of generated C as tests call them. Files src/compile/kernel_*_test.c are compiled
 * once for each width of vectors (NAME_VECTOR: 64, 32, 16 bytes, 0: plain C); where the machine has
 * no such vectors, a test has nothing to do. */
#ifndef CFX__KERNEL_TEST_H
#define CFX__KERNEL_TEST_H

#include "test.h"

#include <cfx/ops.h>

#include "pack.h"

#include "../tensor/tensor.h"

#include "kernels/base.c"
#include "kernels/math.c"
#include "kernels/half.c"
#include "kernels/complex.c"
#include "kernels/tile.c"
#include "kernels/product.c"
#include "kernels/rows.c"
#include "kernels/matmul.c"
#include "kernels/attention.c"
#include "kernels/recurrent.c"
#include "kernels/conv.c"
#include "kernels/depthwise.c"
#include "kernels/int8.c"
#include "kernels/narrow.c"
#include "kernels/sort.c"
#include "kernels/top.c"
#include "kernels/pick.c"
#include "kernels/grid.c"
#include "kernels/linalg.c"
#include "kernels/eigen.c"
#include "kernels/fft.c"
#include "kernels/winograd.c"
#include "kernels/transposed.c"

#define KERNEL_PASTE(name, width) name##_##width
#define KERNEL_NAME(name, width) KERNEL_PASTE(name, width)
/* TEST(name), called kernel_name_64 and so on. */
#define KERNEL_TEST(name) KERNEL_BODY(name, KERNEL_NAME(kernel_##name, NAME_VECTOR))
#define KERNEL_BODY(name, full)                                                                    \
    static void body_##name(void);                                                                 \
    TEST(full) {                                                                                   \
        if (kernel_runs())                                                                         \
            body_##name();                                                                         \
    }                                                                                              \
    static void body_##name(void)

static inline bool kernel_runs(void) {
#if NAME_VECTOR == 64
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#elif NAME_VECTOR == 32
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

/* Numbers that float32 sums exactly, so that any order of adding gives the same. */
static inline float *kernel_numbers(int64_t n, int salt) {
    float *x = cfx__alloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7 + salt * 5 + i / 11) % 13 - 6);
    return x;
}

#endif
