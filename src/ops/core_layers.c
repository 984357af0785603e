/* Default decompositions of what layers call: dropout, normalisation, attention. */
#include "core.h"

#include <cfx/ops.h>

CORE(dropout) { /* input, p, train */
    if (!arg_bool(c, 2) || arg_float(c, 1) == 0)
        c->out[0] = DO(clone, arg_tensor(c, 0));
    else
        c->out[0] = cfx_tensor_at(DO_ALL(native_dropout, c->args[0], c->args[1], true), 0);
}

/* The parts of a complex number are the last dimension of another view. */
static void part(cfx_call *c, int which) {
    cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = t;
    if (cfx__is_complex(t->dtype))
        c->out[0] = DO(select_int, DO(view_as_real, t), t->ndim, which);
}
CORE(real) { part(c, 0); }
CORE(imag) { part(c, 1); }
CORE(positive) { c->out[0] = arg_tensor(c, 0); }

CORE(conj) { /* of a real number: itself */
    cfx_tensor *t = arg_tensor(c, 0);
    c->out[0] = cfx__is_complex(t->dtype) ? DO(_conj, t) : t;
}

/* v, g, dim: v divided by its length over all dims but one. */
CORE(_weight_norm_interface) {
    cfx_tensor *v = arg_tensor(c, 0), *g = arg_tensor(c, 1);
    int dim = arg_dim(c, 2, v->ndim);
    int64_t dims[CFX_MAX_DIMS], n = 0;
    for (int i = 0; i < v->ndim; i++)
        if (i != dim)
            dims[n++] = i;
    cfx_tensor *length = DO(linalg_vector_norm, v, 2, cfx_ints_value(n, dims), true);
    c->out[0] = DO(mul_Tensor, v, DO(div_Tensor, g, core_to(c, length, g->dtype)));
    c->out[1] = length;
}

/* Values alone: PyTorch asks for the vectors too when it traces. */
CORE(linalg_eigvalsh) {
    c->out[0] = cfx_tensor_at(DO_ALL(_linalg_eigh, c->args[0], c->args[1]), 0);
}
CORE(linalg_svdvals) {
    c->out[0] = cfx_tensor_at(DO_ALL(_linalg_svd, c->args[0], CFX_KW(driver, c->args[1])), 1);
}

/* ---- padding in a ring ----------------------------------------------------------------------- */

static int64_t no_less(int64_t a) { return a > 0 ? a : 0; }

static cfx_tensor *part_of(cfx_call *c, cfx_tensor *t, int dim, int64_t from, int64_t to) {
    return DO(slice_Tensor, t, dim, from, to);
}

static void copy_part(cfx_call *c, cfx_tensor *to, cfx_tensor *from) {
    if (!op_failed())
        cfx_inplace_call(c->at, cfx_fn_find("copy"), CFX_ARGS(to, from));
}

/* self, pad: written in place, first the middle, then the ends from what is there. */
CORE(_pad_circular) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t pad[CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, pad) / 2;
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    for (int i = 0; i < n; i++)
        shape[t->ndim - 1 - i] += pad[2 * i] + pad[2 * i + 1];
    cfx_tensor *out = DO(new_empty, t, cfx_ints_value(t->ndim, shape)), *to = out, *from = t;
    for (int i = 0; i < n; i++) {
        int dim = t->ndim - 1 - i;
        int64_t l = pad[2 * i], r = pad[2 * i + 1];
        to = part_of(c, to, dim, no_less(l), shape[dim] - no_less(r));
        from = part_of(c, from, dim, no_less(-l), t->shape[dim] - no_less(-r));
    }
    copy_part(c, to, from);
    for (int i = 0; i < n && !op_failed(); i++) {
        int dim = t->ndim - 1 - i;
        int64_t l = pad[2 * i], r = pad[2 * i + 1], end = shape[dim];
        if (l > 0) {
            to = part_of(c, out, dim, 0, l);
            copy_part(c, to, part_of(c, out, dim, end - l - no_less(r), end - no_less(r)));
        }
        if (r > 0) {
            to = part_of(c, out, dim, end - r, end);
            copy_part(c, to, part_of(c, out, dim, no_less(l), no_less(l) + r));
        }
    }
    c->out[0] = out;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* Places of n pixels from -1 to 1, or of their middles. */
static cfx_tensor *pixel_places(cfx_call *c, int64_t n, bool corners) {
    cfx_tensor *theta = arg_tensor(c, 0);
    double end = n <= 1 ? 0 : corners ? 1 : (double)(n - 1) / (double)n;
    return DO(linspace, -end, end, n, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)theta->dtype)),
              CFX_KW(device, cfx_device_value(theta->device)));
}

/* theta, size, align_corners */
CORE(affine_grid_generator) {
    cfx_tensor *theta = arg_tensor(c, 0), *sum = NULL;
    int64_t size[CFX_MAX_DIMS], view[CFX_MAX_DIMS];
    int dims = arg_ints(c, 1, size) - 2;
    cfx_tensor *axes[4];
    if (op_failed() || dims < 2 || dims > 3)
        return;
    for (int k = 0; k < dims; k++) { /* the last dimension of the image comes first */
        for (int i = 0; i <= dims; i++)
            view[i] = i == dims - 1 - k ? size[dims + 1 - k] : 1;
        axes[k] = DO(view, pixel_places(c, size[dims + 1 - k], arg_bool(c, 2)),
                     cfx_ints_value(dims + 1, view));
    }
    for (int i = 0; i <= dims; i++)
        view[i] = 1;
    axes[dims] = DO(ones, cfx_ints_value(dims + 1, view),
                    CFX_KW(dtype, cfx_dtype_value((cfx_dtype)theta->dtype)),
                    CFX_KW(device, cfx_device_value(theta->device)));
    for (int k = 0; k <= dims; k++)
        axes[k] = DO(constant_pad_nd, axes[k], cfx_list(k, dims - k), 0.0);
    for (int k = 0; k <= dims; k++)
        sum = sum ? DO(add_Tensor, sum, axes[k]) : axes[k];
    cfx_tensor *base = DO(view, sum, cfx_list(-1, dims + 1, 1));
    cfx_tensor *turned = DO(unsqueeze, DO(permute, theta, cfx_list(0, 2, 1)), 1);
    cfx_tensor *grid = DO(sum_dim_IntList, DO(mul_Tensor, base, turned), cfx_list(-2));
    view[0] = size[0];
    memcpy(view + 1, size + 2, (size_t)dims * sizeof *view);
    view[dims + 1] = dims;
    c->out[0] = DO(view, grid, cfx_ints_value(dims + 2, view));
}

/* Those whose decompose column is PyTorch's already. */
static void own(cfx_call *c) { c->op->decompose(c); }

const core_row core_layers[] = {
    {&cfx_op_dropout, core_dropout, true},
    {&cfx_op_native_batch_norm, own, true},
    {&cfx_op__scaled_dot_product_flash_attention_for_cpu, own, false},
    {&cfx_op__weight_norm_interface, core__weight_norm_interface, false},
    {&cfx_op_linalg_eigvalsh, core_linalg_eigvalsh, true},
    {&cfx_op_linalg_svdvals, core_linalg_svdvals, true},
    {&cfx_op__pad_circular, core__pad_circular, true},
    {&cfx_op_affine_grid_generator, core_affine_grid_generator, false},
    {&cfx_op_positive, core_positive, true},
    {&cfx_op_conj, core_conj, true},
    {&cfx_op_real, core_real, true},
    {&cfx_op_imag, core_imag, true},
    {0}};
