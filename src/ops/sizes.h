/* Arithmetic of sizes in decompositions that PyTorch writes down: where sizes vary, who records a
 * program sees where it is done, in which order, and by which argument it is used. So what is
 * computed stays a value until it is one. */
#ifndef CFX__OPS_SIZES_H
#define CFX__OPS_SIZES_H

#include <cfx/ops.h>

#include "ops.h"

static inline cfx_value size_do(const char *function, cfx_value a, cfx_value b) {
    return cfx_py_from((cfx_site){0}, function, CFX_ARGS(a, b));
}

/* a * b, neither negative; where that is no number, as sizes of several tensors may give, a size
 * that no tensor has. */
static inline int64_t size_product(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

#define SIZE_DOES(name, function, expression)                                                      \
    static inline cfx_value size_##name##_from(cfx_value x, cfx_value y) {                         \
        int64_t a = cfx_integer(x), b = cfx_integer(y);                                            \
        return cfx__dispatcher()->recorder ? size_do("operator." function, x, y)                   \
                                           : cfx_int(expression);                                  \
    }
SIZE_DOES(plus, "add", a + b)
SIZE_DOES(minus, "sub", a - b)
SIZE_DOES(product, "mul", size_product(a, b))
SIZE_DOES(over, "floordiv", a / b) /* a is not negative, b is positive */
SIZE_DOES(modulo, "mod", (a % b + b) % b)
#undef SIZE_DOES

/* a * b; PyTorch's tracer does not write down a product with 1. */
static inline cfx_value size_times_from(cfx_value a, cfx_value b) {
    return cfx_integer(a) == 1 ? b : cfx_integer(b) == 1 ? a : size_product_from(a, b);
}

static inline cfx_value size_negative(cfx_value a) {
    return cfx__dispatcher()->recorder ? cfx_py_from((cfx_site){0}, "operator.neg", CFX_ARGS(a))
                                       : cfx_int(-cfx_integer(a));
}

#define size_plus(a, b) size_plus_from(CFX_V(a), CFX_V(b))
#define size_minus(a, b) size_minus_from(CFX_V(a), CFX_V(b))
#define size_times(a, b) size_times_from(CFX_V(a), CFX_V(b))
#define size_over(a, b) size_over_from(CFX_V(a), CFX_V(b))
#define size_modulo(a, b) size_modulo_from(CFX_V(a), CFX_V(b))

/* The size of a dimension of t, which says that it is. */
static inline cfx_value size_of(const cfx_tensor *t, int i) {
    return cfx__dispatcher()->recorder ? cfx_sym_size(t, i) : cfx_int(t->shape[i]);
}

/* All sizes of t: a list. */
static inline cfx_value size_list(const cfx_tensor *t) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < t->ndim; i++)
        cfx_list_append(cfx_as_list(list), size_of(t, i));
    return list;
}

/* The product of n sizes, from the first to the last. */
static inline cfx_value size_all(int n, const cfx_value *sizes) {
    cfx_value all = cfx_int(1);
    for (int i = 0; i < n; i++)
        all = size_times(all, sizes[i]);
    return all;
}

/* The same of all but number `open` of a list. */
static inline cfx_value size_but(cfx_value sizes, int open) {
    cfx_value all = cfx_int(1);
    for (int i = 0; i < cfx_as_list(sizes)->len; i++)
        if (i != open)
            all = size_times(all, cfx_at(sizes, i));
    return all;
}

/* a / b, no integer. */
static inline cfx_value size_ratio(int64_t a, int64_t b) {
    return size_do("operator.truediv", cfx_int(a), cfx_int(b));
}

/* Whether the number is a size that varies, in the program that is recorded. */
static inline bool size_varies(int64_t n) {
    const cfx__dispatch *d = cfx__dispatcher();
    return d->varies && d->varies(n);
}

#endif
