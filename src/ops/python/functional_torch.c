/* torch.functional: the functions of torch that are Python's own, with arguments of their own, over
 * the operators they end in. What only takes several tensors one by one (einsum, broadcast_tensors)
 * is a spelling of the operator instead. */
#include <cfx/ops.h>

#include "functional.h"

CFX_FAMILY(VIEW);

/* ---- split, meshgrid ------------------------------------------------------------------------- */

/* Both give tuples, where the operators give lists. */
static cfx_value as_tuple(cfx_value v) {
    return v.tag == CFX_TAG_LIST ? cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items) : v;
}

/* (tensor, split_size_or_sections, dim) */
static void functional_split(cfx_op_call *c) {
    bool sections = c->args[1].tag == CFX_TAG_LIST || c->args[1].tag == CFX_TAG_TUPLE;
    c->result = as_tuple(sections ? cfx_split_with_sizes(c->args[0], c->args[1], c->args[2])
                                  : cfx_split(c->args[0], c->args[1], c->args[2]));
}

static void functional_meshgrid(cfx_op_call *c) {
    c->result = as_tuple(arg_is_none(c, 1)
                             ? cfx_meshgrid(c->args[0])
                             : cfx_meshgrid(c->args[0], CFX_KW(indexing, c->args[1])));
}

/* ---- norm: (input, p, dim, keepdim, out, dtype) ---------------------------------------------- */

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

static void functional_norm(cfx_op_call *c) {
    cfx_value p = c->args[1], dim = c->args[2], keepdim = c->args[3];
    const char *word = cfx_text(p);
    if (!arg_is_none(c, 4)) {
        op_fail_as(NOT_IMPLEMENTED, c, "norm with out=: copy the result there");
        return;
    }
    cfx_value dims = cfx_is_none(dim) || is_list(dim) ? dim : cfx_list(dim);
    bool vector = !word || (!strcmp(word, "fro") && (!is_list(dim) || cfx_as_list(dim)->len <= 2));
    if (vector) {
        c->out[0] = cfx_linalg_vector_norm(c->args[0], word || cfx_is_none(p) ? CFX_V(2) : p, dims,
                                           keepdim, CFX_KW(dtype, c->args[5]));
        return;
    }
    if (cfx_is_none(dims)) {
        dims = cfx_list_value(0, NULL);
        for (int i = 0; i < arg_tensor(c, 0)->ndim; i++)
            cfx_list_append(cfx_as_list(dims), cfx_int(i));
    }
    c->out[0] = cfx_linalg_matrix_norm(c->args[0], p, dims, keepdim, CFX_KW(dtype, c->args[5]));
}

/* ---- products and distances ------------------------------------------------------------------ */

/* (a, b, dims, out): the last `dims` of a with the first of b, or two lists. */
static void functional_tensordot(cfx_op_call *c) {
    cfx_value dims = c->args[2], from = cfx_list_value(0, NULL), to = cfx_list_value(0, NULL);
    const cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (is_list(dims) && cfx_as_list(dims)->len == 2) {
        from = cfx_at(dims, 0);
        to = cfx_at(dims, 1);
    } else if (dims.tag != CFX_TAG_INT) {
        op_fail(c, "tensordot expects dims to be int or tuple[list[int], list[int]] or "
                   "list[list[int]] containing two lists, but got dims=%s", cfx_value_repr(dims));
        return;
    } else {
        int64_t n = cfx_integer(dims);
        if (n < 0 || n > a->ndim || n > b->ndim) {
            op_fail(c, "tensordot expects dims %s, but got dims=%lld",
                    n < 0 ? ">= 0" : "< ndim_a or ndim_b", (long long)n);
            return;
        }
        for (int64_t i = 0; i < n; i++) {
            cfx_list_append(cfx_as_list(from), cfx_int(i - n));
            cfx_list_append(cfx_as_list(to), cfx_int(i));
        }
    }
    c->out[0] = cfx_tensordot(c->args[0], c->args[1], from, to);
}

static void functional_cdist(cfx_op_call *c) {
    static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary",
                                        "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"};
    int mode = 0;
    while (mode < COUNT(modes) && strcmp(modes[mode], cfx_text(c->args[3])))
        mode++;
    if (mode == COUNT(modes)) {
        op_fail_as(VALUE, c, "%s is not a valid value for compute_mode", cfx_text(c->args[3]));
        return;
    }
    c->out[0] = cfx_cdist(c->args[0], c->args[1], c->args[2], mode ? cfx_int(mode) : cfx_none());
}

static void functional_stft(cfx_op_call *c) {
    cfx_value v = cfx_op_do_from(c->at, &cfx_op_stft_center, (cfx_args){c->nargs, c->args, NULL});
    c->out[0] = cfx_is_bad(v) ? NULL : cfx_as_tensor(v);
}

/* ---- unique ---------------------------------------------------------------------------------- */

/* What was asked for of values, inverse and counts: the values alone, or a tuple. */
static void give_unique(cfx_op_call *c, cfx_value all, bool inverse, bool counts) {
    if (cfx_is_bad(all))
        c->result = all;
    else if (inverse && counts)
        c->result = all;
    else if (inverse || counts)
        c->result = cfx_tuple(cfx_at(all, 0), cfx_at(all, inverse ? 1 : 2));
    else
        c->result = cfx_at(all, 0);
}

/* (input, sorted, return_inverse, return_counts, dim) */
static void functional_unique(cfx_op_call *c) {
    cfx_value x = c->args[0];
    cfx_value all = arg_is_none(c, 4)
                        ? cfx_aten__unique2(x, c->args[1], c->args[2], c->args[3])
                        : cfx_unique_dim(x, c->args[4], c->args[1], c->args[2], c->args[3]);
    give_unique(c, all, arg_bool(c, 2), arg_bool(c, 3));
}

/* (input, return_inverse, return_counts, dim) */
static void functional_unique_consecutive(cfx_op_call *c) {
    cfx_value all = cfx_unique_consecutive(c->args[0], c->args[1], c->args[2], c->args[3]);
    give_unique(c, all, arg_bool(c, 1), arg_bool(c, 2));
}

/* ---- rows ------------------------------------------------------------------------------------ */

CFX_OP(python_split) = {"python::split(Tensor tensor, t split_size_or_sections, int dim=0) -> t",
                        "torch.functional.split", FUNCTIONAL(split)};
CFX_OP(python_meshgrid) = {"python::meshgrid(Tensor[] tensors, *, str? indexing=None) -> t",
                           "torch.functional.meshgrid", FUNCTIONAL(meshgrid)};

CFX_FAMILY(REDUCE);
CFX_OP(python_norm) = {"python::norm(Tensor input, t p='fro', t dim=None, bool keepdim=False, "
                       "Tensor? out=None, ScalarType? dtype=None) -> Tensor",
                       "torch.functional.norm torch.norm Tensor.norm", FUNCTIONAL(norm)};

CFX_FAMILY(LINEAR);
CFX_OP(python_tensordot) = {
    "python::tensordot(Tensor a, Tensor b, t dims=2, Tensor? out=None) -> Tensor",
    "torch.functional.tensordot", FUNCTIONAL(tensordot)};
CFX_OP(python_cdist) = {"python::cdist(Tensor x1, Tensor x2, float p=2., str "
                        "compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
                        "torch.functional.cdist", FUNCTIONAL(cdist)};
CFX_OP(python_stft) = {
    "python::stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
    "window=None, bool center=True, str pad_mode='reflect', bool normalized=False, bool? "
    "onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    "torch.functional.stft", FUNCTIONAL(stft)};

CFX_FAMILY(INDEX);
CFX_OP(python_unique) = {
    "python::unique(Tensor input, bool sorted=True, bool return_inverse=False, bool "
    "return_counts=False, int? dim=None) -> t",
    "torch.functional.unique", FUNCTIONAL(unique)};
CFX_OP(python_unique_consecutive) = {
    "python::unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> t",
    "torch.functional.unique_consecutive", FUNCTIONAL(unique_consecutive)};
