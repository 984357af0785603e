/* Arithmetic of sizes in decompositions that PyTorch writes down: where sizes vary, who records a
 * program sees where it is done, and in which order. */
#ifndef CFX__OPS_SIZES_H
#define CFX__OPS_SIZES_H

#include "ops.h"

static inline int64_t size_do(const char *function, int64_t a, int64_t b) {
    return cfx_integer(cfx_py_from((cfx_site){0}, function, CFX_ARGS(a, b)));
}

static inline int64_t size_times(int64_t a, int64_t b) {
    return cfx__dispatcher()->recorder ? size_do("operator.mul", a, b) : a * b;
}

/* b is not 0. */
static inline int64_t size_over(int64_t a, int64_t b) {
    return cfx__dispatcher()->recorder ? size_do("operator.floordiv", a, b) : a / b;
}

#endif
