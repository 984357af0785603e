/* What the tests of convolutions in tiles share: sizes and images that look random. */
#ifndef CFX__CONV_TILE_TEST_H
#define CFX__CONV_TILE_TEST_H

#include "conv_tile.h"

#include "numbers.h"

/* The next number in [low, high]. */
static inline int64_t conv_draw(int64_t low, int64_t high) {
    return low + test_draw((uint32_t)(high - low + 1));
}

/* n integers from -8 to 8, and room behind them for a whole vector; the caller frees. */
static inline float *conv_numbers(int64_t n) {
    float *x = cfx__alloc0((size_t)(n + TILE_WIDEST) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)conv_draw(-8, 8);
    return x;
}

#endif
