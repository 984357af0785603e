/* Arithmetic of sizes in decompositions that PyTorch writes down: where sizes vary, who records a
 * program sees where it is done, and in which order. */
#ifndef CFX__OPS_SIZES_H
#define CFX__OPS_SIZES_H

#include "ops.h"

static inline int64_t size_do(const char *function, int64_t a, int64_t b) {
    return cfx_integer(cfx_py_from((cfx_site){0}, function, CFX_ARGS(a, b)));
}

/* a * b, neither negative; where that is no number, as sizes of several tensors may give, a size
 * that no tensor has. */
static inline int64_t size_product(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

#define SIZE_DOES(name, function, expression)                                                      \
    static inline int64_t size_##name(int64_t a, int64_t b) {                                      \
        return cfx__dispatcher()->recorder ? size_do("operator." function, a, b) : (expression);   \
    }
SIZE_DOES(plus, "add", a + b)
SIZE_DOES(minus, "sub", a - b)
SIZE_DOES(times, "mul", size_product(a, b))
SIZE_DOES(over, "floordiv", a / b) /* a is not negative, b is positive */
SIZE_DOES(modulo, "mod", (a % b + b) % b)
#undef SIZE_DOES

/* a / b, no integer. */
static inline double size_ratio(int64_t a, int64_t b) {
    return cfx_number(cfx_py_from((cfx_site){0}, "operator.truediv", CFX_ARGS(a, b)));
}

/* Whether the number is a size that varies, in the program that is recorded. */
static inline bool size_varies(int64_t n) {
    const cfx__dispatch *d = cfx__dispatcher();
    return d->varies && d->varies(n);
}

#endif
