/* Sampling at the places that a grid names, and the grids of affine maps. */
#include "../back.h"
#include "../dense.h"

#include <math.h>

CFX_FAMILY(POOL);

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { PIECE = 64, MOST_TAPS = 16 };

typedef struct {
    int dims, mode, padding;
    bool align;
    int64_t batch, channels, in[3], out[3]; /* a missing dimension has size 1 */
    const void *x, *grid;
    void *y;          /* the result, or backward its gradient */
    void *gx, *ggrid; /* the gradients made backward, where wanted */
} sample;

#define T float
#define FN(x) x##_f32
#define FLOOR floorf
#define ROUND nearbyintf
#define MOD fmodf
#define ABS fabsf
#include "grid.inc"
#define T double
#define FN(x) x##_f64
#define FLOOR floor
#define ROUND nearbyint
#define MOD fmod
#define ABS fabs
#include "grid.inc"

static bool shapes_fit(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *grid, int dims) {
    const char *xs = cfx__shape_text(x->ndim, x->shape);
    const char *gs = cfx__shape_text(grid->ndim, grid->shape);
    if (x->ndim != dims + 2 || grid->ndim != x->ndim)
        op_fail(c,
                "grid_sampler(): expected %dD input and grid with same number of dimensions, but "
                "got input with sizes %s and grid with sizes %s",
                dims + 2, xs, gs);
    else if (x->shape[0] != grid->shape[0])
        op_fail(c,
                "grid_sampler(): expected grid and input to have same batch size, but got input "
                "with sizes %s and grid with sizes %s",
                xs, gs);
    else if (grid->shape[dims + 1] != dims)
        op_fail(c,
                "grid_sampler(): expected grid to have size %d in last dimension, but got grid "
                "with sizes %s",
                dims, gs);
    for (int d = 2; d < x->ndim && !op_failed(); d++)
        if (x->shape[d] == 0)
            op_fail(c,
                    "grid_sampler(): expected input to have non-empty spatial dimensions, but "
                    "input has sizes %s with dimension %d being empty",
                    xs, d);
    return !op_failed();
}

static bool ways_fit(cfx_op_call *c, int64_t mode, int64_t padding, int dims) {
    if (mode == BICUBIC && dims == 3)
        op_fail(c, "grid_sampler(): bicubic interpolation only supports 4D input");
    else if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
        op_fail(c, "grid_sampler(): there is no interpolation mode %lld with padding mode %lld",
                (long long)mode, (long long)padding);
    return !op_failed();
}

static bool dtypes_fit(cfx_op_call *c, const cfx_tensor *x, const cfx_tensor *grid, int dims) {
    if (x->dtype != grid->dtype)
        op_fail(c,
                "grid_sampler(): expected input and grid to have same dtype, but input has %s and "
                "grid has %s",
                cfx_dtype_name(x->dtype), cfx_dtype_name(grid->dtype));
    else if (!cfx__dtype_is_float(x->dtype))
        op_fail_as(NOT_IMPLEMENTED, c, "\"grid_sampler_%dd_cpu%s\" not implemented for '%s'", dims,
                   dims == 2 ? "_kernel_impl" : "", cfx__dtype_title(x->dtype));
    return !op_failed();
}

/* Arguments from number `at` on: input, grid, mode, padding, align_corners. */
static bool read_sample(cfx_op_call *c, int at, int dims, sample *s) {
    const cfx_tensor *x = arg_tensor(c, at), *grid = arg_tensor(c, at + 1);
    int64_t mode = arg_int(c, at + 2), padding = arg_int(c, at + 3);
    if (!shapes_fit(c, x, grid, dims) || !ways_fit(c, mode, padding, dims) ||
        !dtypes_fit(c, x, grid, dims))
        return false;
    *s = (sample){.dims = dims,
                  .mode = (int)mode,
                  .padding = (int)padding,
                  .align = arg_bool(c, at + 4),
                  .batch = x->shape[0],
                  .channels = x->shape[1],
                  .in = {1, 1, 1},
                  .out = {1, 1, 1}};
    for (int d = 0; d < dims; d++) {
        s->in[3 - dims + d] = x->shape[2 + d];
        s->out[3 - dims + d] = grid->shape[1 + d];
    }
    return true;
}

static void shape_sample(cfx_op_call *c) {
    int dims = (int)(intptr_t)c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    sample s;
    c->out[0] = &cfx__tensor_bad;
    if (!read_sample(c, 0, dims, &s))
        return;
    int64_t shape[5] = {s.batch, s.channels};
    memcpy(shape + 2, s.out + 3 - dims, (size_t)dims * sizeof *shape);
    out_new(c, 0, x->dtype, dims + 2, shape);
}

static void kernel_sample(cfx_op_call *c) {
    sample s;
    if (!read_sample(c, 0, (int)(intptr_t)c->op->row, &s) || !c->out[0]->numel)
        return;
    s.x = arg_tensor(c, 0)->data;
    s.grid = arg_tensor(c, 1)->data;
    s.y = c->out[0]->data;
    int64_t rows = s.batch * s.out[0] * s.out[1];
    double work = (double)s.out[2] * ((double)s.channels * (s.mode == BICUBIC ? 16 : 8) + 20);
    cfx__parallel(rows, cfx__grain(work), c->out[0]->dtype == CFX_F32 ? rows_f32 : rows_f64, &s);
}

static void grad_sample(cfx_back *b) {
    cfx_op *op = b->op->row == (const void *)3 ? &cfx_op_grid_sampler_3d_backward
                                               : &cfx_op_grid_sampler_2d_backward;
    cfx_value grads = cfx_op_do(op, b->gout[0], b->args[0], b->args[1], b->args[2], b->args[3],
                                b->args[4],
                                cfx_list(cfx_bool(b->needs[0]), cfx_bool(b->needs[1])));
    back_give_at(b, 0, grads, 0);
    back_give_at(b, 1, grads, 1);
}

CFX_OP(grid_sampler_2d) = {"aten::grid_sampler_2d(Tensor input, Tensor grid, int "
                           "interpolation_mode, int padding_mode, bool "
                           "align_corners) -> Tensor",
                           "torch.grid_sampler_2d",
                           .shape = shape_sample,
                           .kernel = kernel_sample,
                           .row = (const void *)2,
                           .dtypes = CFX_IN_FLOAT,
                           .effects = CFX_CONTIGUOUS_ARGS, GRAD(sample, READ(0) | READ(1)),
                           .out = "out"};
CFX_OP(grid_sampler_3d) = {"aten::grid_sampler_3d(Tensor input, Tensor grid, int "
                           "interpolation_mode, int padding_mode, bool "
                           "align_corners) -> Tensor",
                           "torch.grid_sampler_3d",
                           .shape = shape_sample,
                           .kernel = kernel_sample,
                           .row = (const void *)3,
                           .dtypes = CFX_IN_FLOAT,
                           .effects = CFX_CONTIGUOUS_ARGS, GRAD(sample, READ(0) | READ(1)),
                           .out = "out"};

static void shape_sample_back(cfx_op_call *c) {
    const int dims = (int)(intptr_t)c->op->row;
    sample s;
    if (!read_sample(c, 1, dims, &s))
        return;
    int64_t shape[5] = {s.batch, s.channels};
    memcpy(shape + 2, s.out + 3 - dims, (size_t)dims * sizeof *shape);
    const cfx_tensor *g = arg_tensor(c, 0);
    const cfx_dtype d = arg_tensor(c, 1)->dtype;
    if (g->dtype != d || g->ndim != dims + 2 ||
        memcmp(g->shape, shape, (size_t)g->ndim * sizeof *shape)) {
        op_fail(c, "grid_sampler_%dd_backward: expected grad_output of sizes %s and dtype %s, but "
                   "got %s and %s",
                dims, cfx__shape_text(dims + 2, shape), cfx_dtype_name(d),
                cfx__shape_text(g->ndim, g->shape), cfx_dtype_name(g->dtype));
        return;
    }
    if (arg_count(c, 6) != 2) {
        op_fail(c, "grid_sampler_%dd_backward: output_mask needs two values", dims);
        return;
    }
    for (int i = 0; i < 2; i++) {
        const cfx_tensor *t = arg_tensor(c, 1 + i);
        if (cfx_integer(cfx_as_list(c->args[6])->items[i]))
            out_new(c, i, t->dtype, t->ndim, t->shape);
    }
}

static void kernel_sample_back(cfx_op_call *c) {
    sample s;
    if (!read_sample(c, 1, (int)(intptr_t)c->op->row, &s))
        return;
    s.x = arg_tensor(c, 1)->data;
    s.grid = arg_tensor(c, 2)->data;
    s.y = arg_tensor(c, 0)->data;
    s.gx = c->out[0] ? c->out[0]->data : NULL;
    s.ggrid = c->out[1] ? c->out[1]->data : NULL;
    for (int i = 0; i < 2; i++)
        if (c->out[i])
            cfx__tensor_fill(c->out[i], cfx_int(0));
    cfx__parallel(s.batch, 1, arg_tensor(c, 1)->dtype == CFX_F32 ? back_f32 : back_f64, &s);
}

CFX_OP(grid_sampler_2d_backward) = {
    "aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
    "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, "
    "Tensor)",
    NULL, .shape = shape_sample_back, .kernel = kernel_sample_back, .row = (const void *)2,
    .dtypes = CFX_IN_FLOAT, .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};
CFX_OP(grid_sampler_3d_backward) = {
    "aten::grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
    "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, "
    "Tensor)",
    NULL, .shape = shape_sample_back, .kernel = kernel_sample_back, .row = (const void *)3,
    .dtypes = CFX_IN_FLOAT, .effects = CFX_CONTIGUOUS_ARGS, .out = "out"};

static void decompose_grid_sampler(cfx_op_call *c) {
    const cfx_tensor *x = arg_tensor(c, 0);
    sample s;
    if (!read_sample(c, 0, x->ndim == 5 ? 3 : 2, &s))
        return;
    cfx_value *a = c->args;
    c->out[0] = x->ndim == 4 ? cfx_grid_sampler_2d(a[0], a[1], a[2], a[3], a[4])
                             : cfx_grid_sampler_3d(a[0], a[1], a[2], a[3], a[4]);
}

CFX_OP(grid_sampler) = {
    "aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
    "align_corners) -> Tensor",
    "torch.grid_sampler", .decompose = decompose_grid_sampler, .effects = CFX_COMPOSITE,
    .autocast = CFX_CAST_F32};

/* ---- affine_grid_generator ------------------------------------------------------------------ */

static void shape_affine(cfx_op_call *c) {
    const cfx_tensor *theta = arg_tensor(c, 0);
    int64_t size[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, size), dims = n - 2;
    c->out[0] = &cfx__tensor_bad;
    if (op_failed())
        return;
    if (n != 4 && n != 5) {
        op_fail(c, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
        return;
    }
    if (theta->ndim != 3 || theta->shape[0] != size[0] || theta->shape[1] != dims ||
        theta->shape[2] != dims + 1) {
        op_fail(c, "Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.",
                dims, dims, dims + 1, cfx__shape_text(n, size),
                cfx__shape_text(theta->ndim, theta->shape));
        return;
    }
    if (!cfx__dtype_is_float(theta->dtype)) {
        op_fail(c, "Expected theta to have floating point dtype, but got %s",
                cfx_dtype_name(theta->dtype));
        return;
    }
    int64_t shape[5] = {size[0]};
    memcpy(shape + 1, size + 2, (size_t)dims * sizeof *shape);
    shape[dims + 1] = dims;
    out_new(c, 0, theta->dtype, dims + 2, shape);
}

static void kernel_affine(cfx_op_call *c) {
    const cfx_tensor *theta = arg_tensor(c, 0);
    cfx_tensor *out = c->out[0];
    int64_t size[CFX_MAX_DIMS];
    int dims = arg_ints(c, 1, size) - 2;
    if (!out->numel)
        return;
    if (out->dtype == CFX_F32)
        affine_f32((float *)out->data, (const float *)theta->data, dims, size, arg_bool(c, 2));
    else
        affine_f64((double *)out->data, (const double *)theta->data, dims, size, arg_bool(c, 2));
}

/* The result is a linear map of theta: each of its rows meets the places of the plain grid. */
static void grad_affine(cfx_back *b) {
    const cfx_tensor *theta = back_arg(b, 0), *out = b->out[0];
    const int dims = out->ndim - 2;
    cfx_value sizes = b->args[1];
    cfx_tensor *eye = cfx_eye(dims, dims + 1, CFX_KW(dtype, cfx_dtype_value(theta->dtype)));
    cfx_tensor *plain = cfx_affine_grid_generator(cfx_expand(eye, sizes_of(theta)), sizes,
                                                  b->args[2]);
    cfx_tensor *one = cfx_constant_pad_nd(plain, cfx_list(0, 1), 1);
    const int64_t n = theta->shape[0];
    back_give(b, 0, cfx_bmm(cfx_mT(cfx_reshape(b->gout[0], cfx_list(n, -1, dims))),
                            cfx_reshape(one, cfx_list(n, -1, dims + 1))));
}

CFX_OP(affine_grid_generator) = {
    "aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    "torch.affine_grid_generator",
    .shape = shape_affine,
    .kernel = kernel_affine,
    .dtypes = CFX_IN_FLOAT,
    .effects = CFX_CONTIGUOUS_ARGS, GRAD(affine, 0), .core = core_affine_grid_generator,
    .out = "out"};

static void decompose_affine_backward(cfx_op_call *c) {
    cfx_tensor *grad = arg_tensor(c, 0);
    int64_t size[CFX_MAX_DIMS], dims = arg_ints(c, 1, size) - 2;
    if (op_failed() || grad->ndim != dims + 2) {
        op_fail(c, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
        return;
    }
    cfx_tensor *theta = cfx_new_empty(grad, cfx_list(size[0], dims, dims + 1));
    if (op_failed())
        return;
    cfx_value args[] = {CFX_V(theta), c->args[1], c->args[2]}, gin[COUNT(args)];
    back_apply(c, &cfx_op_affine_grid_generator, args, 1, (cfx_tensor *[]){grad},
               (cfx_tensor *[]){grad}, 1, gin);
    c->out[0] = tensor_of(gin[0]);
}

CFX_OP(affine_grid_generator_backward) = {
    "aten::affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> "
    "Tensor",
    NULL, .decompose = decompose_affine_backward, .effects = CFX_COMPOSITE};
