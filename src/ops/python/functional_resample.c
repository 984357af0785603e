/* torch.nn.functional: interpolation, grids, windows and pools, which pick an operator by the
 * number of dimensions or by a mode that is given as text. */
#include <cfx/ops.h>

#include "functional.h"

#include <math.h>

CFX_FAMILY(POOL);

enum { MOST_DIMS = 3 };

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* One number for all of n dimensions, or a number for each, as a list of n. */
static cfx_value for_each_dim(cfx_value v, int n) {
    if (is_sequence(v))
        return cfx_list_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), v);
    return list;
}

/* ---- interpolate ----------------------------------------------------------------------------- */

/* (input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias) */
typedef struct {
    int dims;        /* spatial ones */
    cfx_value size;  /* a list, or None */
    cfx_value scale; /* a list, or None */
    const char *mode;
    cfx_value align;
    bool antialias;
} interpolation;

static bool is_linear(const char *mode) {
    return !strcmp(mode, "linear") || !strcmp(mode, "bilinear") || !strcmp(mode, "bicubic") ||
           !strcmp(mode, "trilinear");
}

/* A list of as many numbers as there are spatial dimensions. */
static bool fits_dims(cfx_op_call *c, const interpolation *s, cfx_value v, const char *what,
                      const char *form) {
    if (!is_sequence(v) || cfx_as_list(v)->len == s->dims)
        return true;
    const cfx_tensor *x = arg_tensor(c, 0);
    op_fail_as(VALUE, c,
               "Input and %s must have the same number of spatial dimensions, but got input with "
               "spatial dimensions of %s and %s of %s. Please provide input tensor in (N, C, d1, "
               "d2, ...,dK) format and %s.",
               !strcmp(what, "output size") ? "output" : what,
               cfx_value_repr(cfx_ints_value(s->dims < 0 ? 0 : s->dims, x->shape + 2)), what,
               cfx_value_repr(v), form);
    return false;
}

/* The sizes that scale factors come to. */
static cfx_value scaled_sizes(const cfx_op_call *c, const interpolation *s) {
    const cfx_tensor *x = arg_tensor(c, 0);
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < s->dims; i++) {
        double size = floor((double)x->shape[i + 2] * cfx_number(cfx_at(s->scale, i)));
        cfx_list_append(cfx_as_list(list), cfx_int(cfx_integer(cfx_float(size))));
    }
    return list;
}

static bool read_interpolation(cfx_op_call *c, interpolation *s) {
    const cfx_tensor *x = arg_tensor(c, 0);
    *s = (interpolation){.dims = x->ndim - 2, .mode = arg_text(c, 3), .align = c->args[4],
                         .antialias = arg_bool(c, 6)};
    if (!is_linear(s->mode) && !arg_is_none(c, 4)) {
        op_fail_as(VALUE, c, "align_corners option can only be set with the interpolating modes: "
                   "linear | bilinear | bicubic | trilinear");
        return false;
    }
    if (is_linear(s->mode) && arg_is_none(c, 4))
        s->align = cfx_bool(false);
    bool sized = !arg_is_none(c, 1), scaled = !arg_is_none(c, 2);
    if (sized == scaled) {
        op_fail_as(VALUE, c, "%s size or scale_factor should be defined",
                   sized ? "only one of" : "either");
        return false;
    }
    if (!fits_dims(c, s, c->args[1], "output size", "output size in (o1, o2, ...,oK) format") ||
        !fits_dims(c, s, c->args[2], "scale_factor", "scale_factor in (s1, s2, ...,sK) format"))
        return false;
    bool again = !arg_is_none(c, 5) && arg_bool(c, 5);
    if (again && sized) {
        op_fail_as(VALUE, c, "recompute_scale_factor is not meaningful with an explicit size.");
        return false;
    }
    bool smooth = x->ndim == 4 && (!strcmp(s->mode, "bilinear") || !strcmp(s->mode, "bicubic"));
    if (s->antialias && !smooth) {
        op_fail_as(VALUE, c, "Anti-alias option is restricted to bilinear and bicubic modes and "
                   "requires a 4-D tensor as input");
        return false;
    }
    s->size = sized ? for_each_dim(c->args[1], s->dims) : cfx_none();
    s->scale = scaled ? for_each_dim(c->args[2], s->dims) : cfx_none();
    if (scaled && (again || !strcmp(s->mode, "area"))) {
        s->size = scaled_sizes(c, s);
        s->scale = cfx_none();
    }
    return true;
}

/* The operator for a mode and a number of spatial dimensions, 1 to 3; NULL: there is none. */
static cfx_op *resampler(const interpolation *s) {
    static const struct {
        const char *mode;
        cfx_op *op[MOST_DIMS];
    } table[] = {
        {"nearest",
         {&cfx_op_upsample_nearest1d_vec, &cfx_op_upsample_nearest2d_vec,
          &cfx_op_upsample_nearest3d_vec}},
        {"nearest-exact",
         {&cfx_op__upsample_nearest_exact1d_vec, &cfx_op__upsample_nearest_exact2d_vec,
          &cfx_op__upsample_nearest_exact3d_vec}},
        {"linear", {&cfx_op_upsample_linear1d_vec, NULL, NULL}},
        {"bilinear", {NULL, &cfx_op_upsample_bilinear2d_vec, NULL}},
        {"trilinear", {NULL, NULL, &cfx_op_upsample_trilinear3d_vec}},
        {"bicubic", {NULL, &cfx_op_upsample_bicubic2d_vec, NULL}},
    };
    if (s->antialias)
        return !strcmp(s->mode, "bilinear") ? &cfx_op__upsample_bilinear2d_aa_vec
                                            : &cfx_op__upsample_bicubic2d_aa_vec;
    for (int i = 0; i < COUNT(table) && s->dims >= 1 && s->dims <= MOST_DIMS; i++)
        if (!strcmp(table[i].mode, s->mode))
            return table[i].op[s->dims - 1];
    return NULL;
}

static cfx_tensor *average_area(cfx_op_call *c, const interpolation *s) {
    cfx_tensor *x = arg_tensor(c, 0);
    return s->dims == 1   ? cfx_adaptive_avg_pool1d(x, s->size)
           : s->dims == 2 ? cfx_adaptive_avg_pool2d(x, s->size)
                          : cfx_adaptive_avg_pool3d(x, s->size);
}

/* Why no operator was found, in PyTorch's words. */
static void refuse_mode(cfx_op_call *c, const interpolation *s) {
    static const struct {
        const char *mode;
        int ndim;
    } wants[] = {{"linear", 3}, {"bilinear", 4}, {"trilinear", 5}};
    for (int i = 0; i < COUNT(wants) && s->dims >= 1 && s->dims <= MOST_DIMS; i++)
        if (!strcmp(wants[i].mode, s->mode)) {
            op_fail_as(NOT_IMPLEMENTED, c, "Got %dD input, but %s mode needs %dD input",
                       s->dims + 2, s->mode, wants[i].ndim);
            return;
        }
    op_fail_as(NOT_IMPLEMENTED, c,
               "Input Error: Only 3D, 4D and 5D input Tensors supported (got %dD) for the modes: "
               "nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got %s)",
               s->dims + 2, s->mode);
}

static void functional_interpolate(cfx_op_call *c) {
    interpolation s;
    if (!read_interpolation(c, &s))
        return;
    if (!strcmp(s.mode, "area") && s.dims >= 1 && s.dims <= MOST_DIMS) {
        c->out[0] = average_area(c, &s);
        return;
    }
    cfx_op *op = resampler(&s);
    if (!op) {
        refuse_mode(c, &s);
        return;
    }
    cfx_value v = is_linear(s.mode) ? cfx_op_do(op, c->args[0], s.size, s.align, s.scale)
                                    : cfx_op_do(op, c->args[0], s.size, s.scale);
    c->out[0] = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* The number of a name among those given; -1, with an error, when it is none of them. */
static int64_t number_of(cfx_op_call *c, int i, const char *const *names, const char *error) {
    const char *text = arg_text(c, i);
    for (int k = 0; text && names[k]; k++)
        if (!strcmp(text, names[k]))
            return k;
    op_fail_as(VALUE, c, "%s, but got: '%s'", error, text ? text : "None");
    return -1;
}

static void functional_grid_sample(cfx_op_call *c) {
    static const char *const modes[] = {"bilinear", "nearest", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    int64_t mode = number_of(c, 2, modes,
                             "nn.functional.grid_sample(): expected mode to be 'bilinear', "
                             "'nearest' or 'bicubic'");
    int64_t padding = mode < 0 ? -1
                               : number_of(c, 3, paddings,
                                           "nn.functional.grid_sample(): expected padding_mode to "
                                           "be 'zeros', 'border', or 'reflection'");
    bool align = !arg_is_none(c, 4) && arg_bool(c, 4);
    if (padding >= 0)
        c->out[0] = cfx_grid_sampler(c->args[0], c->args[1], mode, padding, align);
}

static void functional_affine_grid(cfx_op_call *c) {
    bool align = !arg_is_none(c, 2) && arg_bool(c, 2);
    c->out[0] = cfx_affine_grid_generator(c->args[0], c->args[1], align);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void functional_unfold(cfx_op_call *c) {
    c->out[0] = cfx_im2col(c->args[0], for_each_dim(c->args[1], 2), for_each_dim(c->args[2], 2),
                           for_each_dim(c->args[3], 2), for_each_dim(c->args[4], 2));
}

static void functional_fold(cfx_op_call *c) {
    c->out[0] = cfx_col2im(c->args[0], for_each_dim(c->args[1], 2), for_each_dim(c->args[2], 2),
                           for_each_dim(c->args[3], 2), for_each_dim(c->args[4], 2),
                           for_each_dim(c->args[5], 2));
}

/* ---- pools ----------------------------------------------------------------------------------- */

#define ADAPTIVE_MAX_POOL(dims)                                                                    \
    static void functional_adaptive_max_pool##dims##d(cfx_op_call *c) {                            \
        cfx_value v = cfx_adaptive_max_pool##dims##d(c->args[0], c->args[1]);                      \
        c->result = arg_bool(c, 2) || cfx_is_bad(v) ? v : cfx_at(v, 0);                            \
    }
ADAPTIVE_MAX_POOL(1)
ADAPTIVE_MAX_POOL(2)
ADAPTIVE_MAX_POOL(3)

/* The power mean of windows, times their size: (sum of x^p)^(1/p). */
static void lp_pool(cfx_op_call *c, int dims) {
    double p = arg_float(c, 1), count = 1;
    cfx_value kernel = for_each_dim(c->args[2], dims);
    cfx_value stride = arg_is_none(c, 3) ? cfx_list_value(0, NULL) : for_each_dim(c->args[3], dims);
    for (int64_t i = 0; i < cfx_as_list(kernel)->len; i++)
        count *= cfx_number(cfx_as_list(kernel)->items[i]);
    cfx_tensor *powers = cfx_pow(c->args[0], p);
    cfx_value padding = for_each_dim(cfx_int(0), dims);
    cfx_tensor *mean = dims == 1   ? cfx_avg_pool1d(powers, kernel, stride, padding, c->args[4])
                       : dims == 2 ? cfx_avg_pool2d(powers, kernel, stride, padding, c->args[4])
                                   : cfx_avg_pool3d(powers, kernel, stride, padding, c->args[4]);
    mean = cfx_mul(cfx_sign(mean), cfx_relu(cfx_abs(mean)));
    c->out[0] = cfx_pow(cfx_mul(mean, count), 1 / p);
}

static void functional_lp_pool1d(cfx_op_call *c) { lp_pool(c, 1); }
static void functional_lp_pool2d(cfx_op_call *c) { lp_pool(c, 2); }
static void functional_lp_pool3d(cfx_op_call *c) { lp_pool(c, 3); }

/* ---- embedding bags -------------------------------------------------------------------------- */

/* (input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
 * per_sample_weights, include_last_offset, padding_idx): rows of a matrix of indices are bags. */
static void functional_embedding_bag(cfx_op_call *c) {
    static const char *const modes[] = {"sum", "mean", "max", NULL};
    const cfx_tensor *input = arg_tensor(c, 0);
    int64_t mode = number_of(c, 6, modes, "mode has to be one of sum, mean or max");
    if (mode < 0)
        return;
    if (!arg_is_none(c, 3)) {
        op_fail_as(NOT_IMPLEMENTED, c, "embedding_bag with max_norm changes its weight: call "
                   "embedding_renorm_ first");
        return;
    }
    cfx_value indices = c->args[0], offsets = c->args[2], weights = c->args[8];
    if (input->ndim == 2) {
        if (!arg_is_none(c, 2)) {
            op_fail_as(VALUE, c, "if input is 2D, then offsets has to be None, as input is treated "
                       "is a mini-batch of fixed length sequences. However, found offsets of type "
                       "%s", cfx_value_type_name(offsets));
            return;
        }
        offsets = cfx_tensor_value(cfx_arange(0, input->numel, input->shape[1]));
        indices = cfx_tensor_value(cfx_reshape(indices, cfx_list(-1)));
        if (!arg_is_none(c, 8))
            weights = cfx_tensor_value(cfx_reshape(weights, cfx_list(-1)));
    } else if (arg_is_none(c, 2)) {
        op_fail_as(VALUE, c, "offsets has to be a 1D Tensor but got None");
        return;
    }
    cfx_value v = cfx_op_do(&cfx_op_embedding_bag_padding_idx, c->args[1], indices, offsets,
                            c->args[5], mode, c->args[7], weights, c->args[9], c->args[10]);
    c->out[0] = cfx_is_bad(v) ? NULL : cfx_tensor_at(v, 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

CFX_OP(python_interpolate) = {
    "python::interpolate(Tensor input, t size=None, t scale_factor=None, str mode='nearest', bool? "
    "align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    "torch.nn.functional.interpolate", FUNCTIONAL(interpolate)};
CFX_OP(python_grid_sample) = {
    "python::grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
    "bool? align_corners=None) -> Tensor",
    "torch.nn.functional.grid_sample", FUNCTIONAL(grid_sample)};
CFX_OP(python_affine_grid) = {
    "python::affine_grid(Tensor theta, t size, bool? align_corners=None) -> Tensor",
    "torch.nn.functional.affine_grid", FUNCTIONAL(affine_grid)};
CFX_FAMILY(VIEW);
CFX_OP(python_unfold) = {
    "python::unfold(Tensor input, t kernel_size, t dilation=1, t padding=0, t stride=1) -> Tensor",
    "torch.nn.functional.unfold", FUNCTIONAL(unfold)};
CFX_OP(python_fold) = {
    "python::fold(Tensor input, t output_size, t kernel_size, t dilation=1, t padding=0, t "
    "stride=1) -> Tensor",
    "torch.nn.functional.fold", FUNCTIONAL(fold)};
CFX_FAMILY(POOL);
CFX_OP(python_adaptive_max_pool1d) = {
    "python::adaptive_max_pool1d(Tensor input, int[1] output_size, bool return_indices=False) -> t",
    "torch.nn.functional.adaptive_max_pool1d", FUNCTIONAL(adaptive_max_pool1d)};
CFX_OP(python_adaptive_max_pool2d) = {
    "python::adaptive_max_pool2d(Tensor input, int[2] output_size, bool return_indices=False) -> t",
    "torch.nn.functional.adaptive_max_pool2d", FUNCTIONAL(adaptive_max_pool2d)};
CFX_OP(python_adaptive_max_pool3d) = {
    "python::adaptive_max_pool3d(Tensor input, int[3] output_size, bool return_indices=False) -> t",
    "torch.nn.functional.adaptive_max_pool3d", FUNCTIONAL(adaptive_max_pool3d)};
CFX_OP(python_lp_pool1d) = {
    "python::lp_pool1d(Tensor input, Scalar norm_type, t kernel_size, t stride=None, bool "
    "ceil_mode=False) -> Tensor",
    "torch.nn.functional.lp_pool1d", FUNCTIONAL(lp_pool1d)};
CFX_OP(python_lp_pool2d) = {
    "python::lp_pool2d(Tensor input, Scalar norm_type, t kernel_size, t stride=None, bool "
    "ceil_mode=False) -> Tensor",
    "torch.nn.functional.lp_pool2d", FUNCTIONAL(lp_pool2d)};
CFX_OP(python_lp_pool3d) = {
    "python::lp_pool3d(Tensor input, Scalar norm_type, t kernel_size, t stride=None, bool "
    "ceil_mode=False) -> Tensor",
    "torch.nn.functional.lp_pool3d", FUNCTIONAL(lp_pool3d)};
CFX_FAMILY(INDEX);
CFX_OP(python_embedding_bag) = {
    "python::embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? "
    "max_norm=None, float norm_type=2, bool scale_grad_by_freq=False, str mode='mean', bool "
    "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? "
    "padding_idx=None) -> Tensor",
    "torch.nn.functional.embedding_bag", FUNCTIONAL(embedding_bag)};
