/* The operators that resample: sizes, checks, rows. */
#include "../back.h"
#include "upsample.h"

#include <math.h>

CFX_FAMILY(POOL);

typedef struct {
    int64_t in[3], out[3];
    double scale[3]; /* the user's; 0 where there is none */
    bool align;
} sizes;

static const char *const letters[] = {"D", "H", "W"};

static bool fits(cfx_op_call *c, const resample_row *r, const sizes *s, int ndim,
                 const int64_t *shape, int given) {
    if (given != r->dims) {
        op_fail(c, "It is expected output_size equals to %d, but got size %d", r->dims, given);
        return false;
    }
    if (ndim != r->dims + 2) {
        op_fail(c, "It is expected input_size equals to %d, but got size %d", r->dims + 2, ndim);
        return false;
    }
    bool some = true;
    cfx__text in = {0}, out = {0};
    for (int d = 3 - r->dims; d < 3; d++) {
        some &= s->in[d] > 0 && s->out[d] > 0;
        cfx__text_printf(&in, "%s%s: %lld", in.len ? ", " : "", letters[d], (long long)s->in[d]);
        cfx__text_printf(&out, "%s%s: %lld", out.len ? ", " : "", letters[d], (long long)s->out[d]);
    }
    const char *in_text = cfx__text_take(&in), *out_text = cfx__text_take(&out);
    if (!some) {
        op_fail(c,
                "Input and output sizes should be greater than 0, but got input (%s) %soutput (%s)",
                in_text, r->dims == 1 ? "and " : "", out_text);
        return false;
    }
    if (shape[1] == 0) {
        op_fail(c, "Non-empty %dD data tensor expected but got a tensor with sizes %s", r->dims + 2,
                cfx__shape_text(ndim, shape));
        return false;
    }
    return true;
}

/* output_size and scale_factors, of which exactly one is given. */
static bool read_vec(cfx_op_call *c, const resample_row *r, const cfx_tensor *x, int64_t *size,
                     int *given, sizes *s) {
    int at = r->mode <= NEAREST_EXACT ? 2 : 3;
    bool sized = !arg_is_none(c, 1), scaled = !arg_is_none(c, at);
    if (sized == scaled) {
        op_fail(c, "Must specify exactly one of output_size and scale_factors");
        return false;
    }
    if (sized) {
        *given = arg_ints(c, 1, size);
        return !op_failed();
    }
    *given = (int)arg_count(c, at);
    if (*given != r->dims || x->ndim != r->dims + 2)
        return true; /* fits says so */
    for (int k = 0; k < r->dims; k++) {
        double f = cfx_number(cfx_as_list(c->args[at])->items[k]), n = (double)x->shape[k + 2] * f;
        s->scale[3 - r->dims + k] = f;
        size[k] = cfx__int64_of(n);
    }
    return true;
}

static bool read_args(cfx_op_call *c, const resample_row *r, sizes *s) {
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t size[CFX_MAX_DIMS], full[CFX_MAX_DIMS];
    int given, ndim = x->ndim;
    *s = (sizes){{1, 1, 1}, {1, 1, 1}, {0}, false};
    bool aligns = r->mode > NEAREST_EXACT;
    if (r->backward)
        ndim = arg_ints(c, 2, full);
    else
        memcpy(full, x->shape, (size_t)ndim * sizeof *full);
    if (r->vec) {
        if (!read_vec(c, r, x, size, &given, s))
            return false;
        s->align = aligns && arg_bool(c, 2);
    } else {
        given = arg_ints(c, 1, size);
        int at = r->backward ? 3 : 2;
        s->align = aligns && arg_bool(c, at);
        for (int k = 0; k < r->dims; k++)
            if (!arg_is_none(c, at + aligns + k))
                s->scale[3 - r->dims + k] = arg_float(c, at + aligns + k);
    }
    if (op_failed())
        return false;
    for (int k = 0; k < r->dims; k++) {
        s->in[3 - r->dims + k] = ndim == r->dims + 2 ? full[k + 2] : 0;
        s->out[3 - r->dims + k] = given == r->dims ? size[k] : 0;
    }
    return fits(c, r, s, ndim, full, given);
}

static bool computable(cfx_op_call *c, const resample_row *r, cfx_dtype d) {
    const char *title = op_title(c);
    bool ok = cfx__dtype_is_float(d) || d == CFX_U8;
    if (!ok && strstr(title, "_backward"))
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s%s\" not implemented for '%s'",
                   title + (*title == '_' && r->mode > NEAREST_EXACT),
                   strstr(title, "_aa_") ? "_cpu" : "", cfx__dtype_title(d));
    else if (!ok)
        op_fail_as(NOT_IMPLEMENTED, c, "\"compute_indices_weights_%s\" not implemented for '%s'",
                   r->mode <= NEAREST_EXACT ? "nearest"
                   : r->mode == LINEAR      ? "linear"
                                            : "cubic",
                   cfx__dtype_title(d));
    return ok;
}

static void shape_resample(cfx_op_call *c) {
    const resample_row *r = c->op->row;
    const cfx_tensor *x = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS];
    sizes s;
    c->out[0] = &cfx__tensor_bad;
    if (!read_args(c, r, &s) || !computable(c, r, x->dtype))
        return;
    if (!r->backward) {
        shape[0] = x->shape[0];
        shape[1] = x->shape[1];
        memcpy(shape + 2, s.out + 3 - r->dims, (size_t)r->dims * sizeof *shape);
    } else {
        bool same = x->ndim == r->dims + 2;
        arg_ints(c, 2, shape);
        for (int d = 0; same && d < x->ndim; d++) {
            int64_t want = d < 2 ? shape[d] : s.out[3 - r->dims + d - 2];
            if (x->shape[d] == want)
                continue;
            op_fail(
                c,
                "Expected grad_output to have the same shape as output; output.size(%d) = %lld but "
                "got grad_output.size(%d) = %lld",
                d, (long long)want, d, (long long)x->shape[d]);
            return;
        }
        if (!same) {
            op_fail(c, "Expected grad_output to be a tensor of dimension %d but got: dimension %d",
                    r->dims + 2, x->ndim);
            return;
        }
    }
    out_format(c, 0, x->dtype, r->dims + 2, shape, x);
}

/* Bytes are resampled as floats and rounded. */
static void put_bytes(cfx_tensor *out, const cfx_tensor *from) {
    const float *p = (const float *)from->data;
    uint8_t *q = (uint8_t *)out->data;
    for (int64_t i = 0; i < out->numel; i++) {
        float v = rintf(p[i]);
        q[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static void kernel_resample(cfx_op_call *c) {
    const resample_row *row = c->op->row;
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    bool nearest = row->mode <= NEAREST_EXACT && !row->backward;
    cfx_dtype as = nearest ? d : d == CFX_F64 ? CFX_F64 : CFX_F32;
    const cfx_tensor *x = cfx__tensor_contiguous_as(arg_tensor(c, 0), as);
    cfx_tensor *y = dense_out_as(c, 0, as);
    sizes s;
    if (op_failed() || !read_args(c, row, &s) || !c->out[0]->numel)
        return;
    resample r = {.x = x->data, .y = y->data};
    cfx_dtype math = d == CFX_F64 ? CFX_F64 : CFX_F32;
    for (int k = 0; k < 3; k++) {
        resample_mode mode = k < 3 - row->dims ? NEAREST : row->mode;
        if (!axis_make(c, &r.axis[k], mode, math, s.in[k], s.out[k], s.align, s.scale[k]))
            return;
    }
    r.in_plane = s.in[0] * s.in[1] * s.in[2];
    r.out_plane = s.out[0] * s.out[1] * s.out[2];
    r.planes = y->shape[0] * y->shape[1];
    resample_run(c, &r, as, row->backward);
    if (op_failed())
        return;
    if (d != CFX_U8 || as == d) {
        dense_done(c, 0, y);
        return;
    }
    cfx_tensor *bytes = dense_out(c, 0);
    if (op_failed())
        return;
    put_bytes(bytes, y);
    dense_done(c, 0, bytes);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Resampling is linear: its gradient is its transpose, and the transpose's is resampling. */
static void grad_resample(cfx_back *b) {
    static cfx_op *const forward[6][3] = {
        [NEAREST] = {&cfx_op_upsample_nearest1d, &cfx_op_upsample_nearest2d,
                     &cfx_op_upsample_nearest3d},
        [NEAREST_EXACT] = {&cfx_op__upsample_nearest_exact1d, &cfx_op__upsample_nearest_exact2d,
                           &cfx_op__upsample_nearest_exact3d},
        [LINEAR] = {&cfx_op_upsample_linear1d, &cfx_op_upsample_bilinear2d,
                    &cfx_op_upsample_trilinear3d},
        [CUBIC] = {NULL, &cfx_op_upsample_bicubic2d},
        [LINEAR_AA] = {NULL, &cfx_op__upsample_bilinear2d_aa},
        [CUBIC_AA] = {NULL, &cfx_op__upsample_bicubic2d_aa}};
    static cfx_op *const transposed[6][3] = {
        [NEAREST] = {&cfx_op_upsample_nearest1d_backward, &cfx_op_upsample_nearest2d_backward,
                     &cfx_op_upsample_nearest3d_backward},
        [NEAREST_EXACT] = {&cfx_op__upsample_nearest_exact1d_backward,
                           &cfx_op__upsample_nearest_exact2d_backward,
                           &cfx_op__upsample_nearest_exact3d_backward},
        [LINEAR] = {&cfx_op_upsample_linear1d_backward, &cfx_op_upsample_bilinear2d_backward,
                    &cfx_op_upsample_trilinear3d_backward},
        [CUBIC] = {NULL, &cfx_op_upsample_bicubic2d_backward},
        [LINEAR_AA] = {NULL, &cfx_op__upsample_bilinear2d_aa_backward},
        [CUBIC_AA] = {NULL, &cfx_op__upsample_bicubic2d_aa_backward}};
    const resample_row *r = b->op->row;
    const bool aligns = r->mode > NEAREST_EXACT;
    int at = r->backward ? 3 : 2, n = 0; /* where align_corners and the scales stand */
    cfx_value args[8];
    args[n++] = cfx_tensor_value(b->gout[0]);
    if (r->backward) {
        args[n++] = b->args[1];
    } else {
        args[n++] = cfx_ints_value(r->dims, b->out[0]->shape + 2);
        args[n++] = sizes_of(back_arg(b, 0));
    }
    if (aligns)
        args[n++] = b->args[at++];
    for (int k = 0; k < r->dims; k++) {
        cfx_value v = b->args[r->vec ? at : at + k];
        args[n++] = r->vec && !cfx_is_none(v) ? cfx_as_list(v)->items[k] : v;
    }
    cfx_op *op = (r->backward ? forward : transposed)[r->mode][r->dims - 1];
    b->gin[0] = cfx_op_do_from(b->at, op, (cfx_args){n, args, NULL});
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define RESAMPLES(name, dims, mode)                                                                \
    static const resample_row name##_row = {#name, dims, mode, false, false};                      \
    static const resample_row name##_vec = {#name, dims, mode, true, false};                       \
    static const resample_row name##_back = {#name, dims, mode, false, true};
RESAMPLES(nearest1d, 1, NEAREST)
RESAMPLES(nearest2d, 2, NEAREST)
RESAMPLES(nearest3d, 3, NEAREST)
RESAMPLES(exact1d, 1, NEAREST_EXACT)
RESAMPLES(exact2d, 2, NEAREST_EXACT)
RESAMPLES(exact3d, 3, NEAREST_EXACT)
RESAMPLES(linear1d, 1, LINEAR)
RESAMPLES(bilinear2d, 2, LINEAR)
RESAMPLES(trilinear3d, 3, LINEAR)
RESAMPLES(bicubic2d, 2, CUBIC)
RESAMPLES(bilinear2d_aa, 2, LINEAR_AA)
RESAMPLES(bicubic2d_aa, 2, CUBIC_AA)

#define BY(r)                                                                                      \
    .shape = shape_resample, .kernel = kernel_resample, .row = &r, GRAD(resample, 0)

CFX_OP(upsample_nearest1d) = {
    "aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> "
    "Tensor",
    "torch._C._nn.upsample_nearest1d", BY(nearest1d_row), .core = core_nearest, .out = "out"};
CFX_OP(upsample_nearest1d_vec) = {
    "aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(nearest1d_vec), .core = core_nearest, .core_early = true};
CFX_OP(upsample_nearest2d) = {
    "aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, "
    "float? scales_w=None) -> Tensor",
    "torch._C._nn.upsample_nearest2d", BY(nearest2d_row), .core = core_nearest, .out = "out"};
CFX_OP(upsample_nearest2d_vec) = {
    "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(nearest2d_vec), .out = "vec_out"};
CFX_OP(upsample_nearest3d) = {
    "aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, "
    "float? scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn.upsample_nearest3d", BY(nearest3d_row), .core = core_nearest, .out = "out"};
CFX_OP(upsample_nearest3d_vec) = {
    "aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(nearest3d_vec), .core = core_nearest, .core_early = true};
CFX_OP(_upsample_nearest_exact1d) = {
    "aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) "
    "-> Tensor",
    "torch._C._nn._upsample_nearest_exact1d", BY(exact1d_row), .core = core_nearest_exact,
    .out = "out"};
CFX_OP(_upsample_nearest_exact1d_vec) = {
    "aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(exact1d_vec), .core = core_nearest_exact, .core_early = true};
CFX_OP(_upsample_nearest_exact2d) = {
    "aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? "
    "scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn._upsample_nearest_exact2d", BY(exact2d_row), .core = core_nearest_exact,
    .out = "out"};
CFX_OP(_upsample_nearest_exact2d_vec) = {
    "aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(exact2d_vec), .core = core_nearest_exact, .core_early = true};
CFX_OP(_upsample_nearest_exact3d) = {
    "aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? "
    "scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn._upsample_nearest_exact3d", BY(exact3d_row), .core = core_nearest_exact,
    .out = "out"};
CFX_OP(_upsample_nearest_exact3d_vec) = {
    "aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? "
    "scale_factors) -> Tensor",
    NULL, BY(exact3d_vec), .core = core_nearest_exact, .core_early = true};
CFX_OP(upsample_linear1d) = {
    "aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? "
    "scales=None) -> Tensor",
    "torch._C._nn.upsample_linear1d", BY(linear1d_row), .core = core_linear_resample, .out = "out"};
CFX_OP(upsample_linear1d_vec) = {
    "aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor",
    NULL, BY(linear1d_vec), .core = core_linear_resample, .core_early = true};
CFX_OP(upsample_bilinear2d) = {
    "aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? "
    "scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn.upsample_bilinear2d", BY(bilinear2d_row), .quantized = CFX_QUANTIZED_MEAN,
    .out = "out"};
CFX_OP(upsample_bilinear2d_vec) = {
    "aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor",
    NULL, BY(bilinear2d_vec), .quantized = CFX_QUANTIZED_MEAN, .out = "vec_out"};
CFX_OP(upsample_trilinear3d) = {
    "aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, "
    "float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn.upsample_trilinear3d", BY(trilinear3d_row), .out = "out"};
CFX_OP(upsample_trilinear3d_vec) = {
    "aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor",
    NULL, BY(trilinear3d_vec), .core = core_linear_resample, .core_early = true};
CFX_OP(upsample_bicubic2d) = {
    "aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? "
    "scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn.upsample_bicubic2d", BY(bicubic2d_row), .out = "out"};
CFX_OP(upsample_bicubic2d_vec) = {
    "aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor",
    NULL, BY(bicubic2d_vec), .core = core_cubic, .core_early = true};
CFX_OP(_upsample_bilinear2d_aa) = {
    "aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
    "float? scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn._upsample_bilinear2d_aa", BY(bilinear2d_aa_row), .out = "out"};
CFX_OP(_upsample_bilinear2d_aa_vec) = {
    "aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool "
    "align_corners, float[]? scale_factors) -> Tensor",
    NULL, BY(bilinear2d_aa_vec), .core = core_bilinear_aa, .core_early = true};
CFX_OP(_upsample_bicubic2d_aa) = {
    "aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
    "float? scales_h=None, float? scales_w=None) -> Tensor",
    "torch._C._nn._upsample_bicubic2d_aa", BY(bicubic2d_aa_row), .out = "out"};
CFX_OP(_upsample_bicubic2d_aa_vec) = {
    "aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool "
    "align_corners, float[]? scale_factors) -> Tensor",
    NULL, BY(bicubic2d_aa_vec), .core = core_bicubic_aa, .core_early = true};
CFX_OP(upsample_nearest1d_backward) = {
    "aten::upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] "
    "input_size, float? scales=None) -> Tensor",
    NULL, BY(nearest1d_back), .out = "grad_input"};
CFX_OP(upsample_nearest2d_backward) = {
    "aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] "
    "input_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    NULL, BY(nearest2d_back), .out = "grad_input"};
CFX_OP(upsample_nearest3d_backward) = {
    "aten::upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] "
    "input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
    NULL, BY(nearest3d_back), .out = "grad_input"};
CFX_OP(_upsample_nearest_exact1d_backward) = {
    "aten::_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] output_size, "
    "SymInt[3] input_size, float? scales=None) -> Tensor",
    NULL, BY(exact1d_back), .out = "grad_input"};
CFX_OP(_upsample_nearest_exact2d_backward) = {
    "aten::_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, "
    "SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> Tensor",
    NULL, BY(exact2d_back), .out = "grad_input"};
CFX_OP(_upsample_nearest_exact3d_backward) = {
    "aten::_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] output_size, "
    "SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) "
    "-> Tensor",
    NULL, BY(exact3d_back), .out = "grad_input"};
CFX_OP(upsample_linear1d_backward) = {
    "aten::upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] "
    "input_size, bool align_corners, float? scales=None) -> Tensor",
    NULL, BY(linear1d_back), .out = "grad_input"};
CFX_OP(upsample_bilinear2d_backward) = {
    "aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] "
    "input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    NULL, BY(bilinear2d_back), .out = "grad_input"};
CFX_OP(upsample_trilinear3d_backward) = {
    "aten::upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] "
    "input_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? "
    "scales_w=None) -> Tensor",
    NULL, BY(trilinear3d_back), .out = "grad_input"};
CFX_OP(upsample_bicubic2d_backward) = {
    "aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] "
    "input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    NULL, BY(bicubic2d_back), .out = "grad_input"};
CFX_OP(_upsample_bilinear2d_aa_backward) = {
    "aten::_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] output_size, "
    "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> "
    "Tensor",
    NULL, BY(bilinear2d_aa_back), .out = "grad_input"};
CFX_OP(_upsample_bicubic2d_aa_backward) = {
    "aten::_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, "
    "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> "
    "Tensor",
    NULL, BY(bicubic2d_aa_back), .out = "grad_input"};
