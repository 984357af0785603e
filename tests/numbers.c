/* Tensors of known numbers: see numbers.h. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>

static cfx_tensor *filled(int ndim, const int64_t *shape, double (*number)(int64_t i)) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    float *v = malloc((size_t)(n ? n : 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)number(i);
    cfx_tensor *t = cfx_tensor_new(CFX_F32, ndim, shape, v);
    free(v);
    return t;
}

static double wave(int64_t i) { return sin((double)i); }

static double whole(int64_t i) { return (double)((i * 37 + 11) % 17 - 8); }

cfx_tensor *test_waves(int ndim, const int64_t *shape) { return filled(ndim, shape, wave); }

cfx_tensor *test_numbers(cfx_dtype dtype, int ndim, const int64_t *shape) {
    cfx_tensor *t = filled(ndim, shape, whole);
    return dtype == CFX_F32 ? t : cfx_to(t, cfx_dtype_value(dtype));
}

cfx_tensor *test_noise(cfx_dtype dtype, int ndim, const int64_t *shape) {
    const bool pairs = dtype == CFX_C64 || dtype == CFX_C128;
    int64_t n = 1 + pairs;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = test_draw_real();
    cfx_tensor *t = cfx_tensor_new(pairs ? CFX_C128 : CFX_F64, ndim, shape, v);
    free(v);
    return cfx_to(t, cfx_dtype_value(dtype));
}

bool test_check_numbers(const cfx_tensor *t, int n, const double *want, cfx_site at) {
    bool held = true;
    for (int i = 0; i < n; i++)
        held &= test_check_near(cfx_tensor_get(t, i), want[i], 2e-6, at, "element");
    return held;
}
