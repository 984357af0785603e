/* Calls: operators that are neither layers, steps of loops nor views; each is written as loops
 * of its own. Start at the table. */
#include <cfx/ops.h>

#include "calls.h"

/* ---- copies ---------------------------------------------------------------------------------- */

/* Where element `at` in the order of a shape lies: "at / 8 % 4 * 64 + at % 8"; scope. */
static const char *place_of(const cfx__c_ref *r) {
    cfx__text t = {0};
    int64_t below = 1;
    for (int i = r->ndim - 1; i >= 0; below *= r->shape[i--]) {
        if (r->shape[i] == 1)
            continue;
        cfx__text_puts(&t, t.len ? " + at" : "at");
        if (below != 1)
            cfx__text_printf(&t, " / %lld", (long long)below);
        cfx__text_printf(&t, " %% %lld * %lld", (long long)r->shape[i], (long long)r->stride[i]);
    }
    return t.len ? cfx__text_take(&t) : "0";
}

/* Copies elements in their order to a tensor of another shape. */
static void copy_flat(cfx__c_unit *u, const cfx__c_ref *to, const cfx__c_ref *from) {
    const bool ordered = cfx__c_is_contiguous(to);
    const cfx__c_ref *of = ordered ? from : to; /* whose dims are gone through */
    int64_t stride[CFX_MAX_DIMS];
    if (!ordered && !cfx__c_is_contiguous(from)) {
        cfx__c_pointer(u->c, from, "from", false);
        cfx__c_pointer(u->c, to, "to", true);
        cfx__c_line(u->c, "for (int64_t at = 0; at < %lld; at++)", (long long)cfx__c_count(to));
        cfx__c_line(u->c, "    to[%s] = from[%s];", place_of(to), place_of(from));
        return;
    }
    cfx__strides_contiguous(of->ndim, of->shape, stride);
    cfx__c_copy(u->c, cfx__c_ref_like(u->c, to, of->ndim, of->shape, ordered ? stride : to->stride),
                cfx__c_ref_like(u->c, from, of->ndim, of->shape, ordered ? from->stride : stride));
}

/* Elements in their order, in another shape: reshape, contiguous, expand that is not a look. */
static void put_copy(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    if (!x || cfx__c_slot(u, u->slot)->n != 1) {
        cfx__c_refuse(u, "%s of a value without memory", cfx_op_name(k->op));
        return;
    }
    bool same = x->ndim == out->ndim;
    for (int i = 0; same && i < x->ndim; i++)
        same = x->shape[i] == out->shape[i];
    bool spread = x->ndim <= out->ndim; /* broadcast, as expand gives it */
    for (int i = 0; spread && i < x->ndim; i++)
        spread = x->shape[i] == 1 || x->shape[i] == out->shape[out->ndim - x->ndim + i];
    if (same || (spread && cfx__c_count(x) != cfx__c_count(out)))
        cfx__c_copy(u->c, out, x);
    else if (cfx__c_count(x) == cfx__c_count(out))
        copy_flat(u, out, x);
    else
        cfx__c_refuse(u, "%s is no copy", cfx_op_name(k->op));
}

/* A look that is no kernel of the plan's, as into a constant: where it looks, over the memory of x,
 * is copied. Several looks, and those that are copies, have other ways. */
static bool put_look(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    cfx_value args[CFX_MAX_ARGS];
    if (!x || cfx__c_slot(u, u->slot)->n != 1)
        return false;
    cfx_tensor *over = cfx_tensor_fake(x->dtype, x->ndim, x->shape, x->stride);
    int64_t before = 0;                 /* elements of its memory */
    if (k->op->effects & CFX_STORAGE) { /* which counts from where that begins */
        const cfx_value v = k->step->bound[0], is = cfx__c_filled(u, v);
        const cfx__plan_kernel *made =
            v.tag == CFX_TAG_NODE ? &u->plan->kernels[cfx__c_maker(u->plan, (int)v.spare)] : NULL;
        const bool copied = made && made->kind == CFX__PLAN_CALL && made->op->view;
        if (x->where == CFX__C_WEIGHT || copied || is.tag != CFX_TAG_TENSOR ||
            !cfx__plan_lies_like(over, cfx_as_tensor(is)))
            return false;
        over = cfx_as_tensor(is);
        before = over->offset;
    }
    args[0] = cfx_tensor_value(over);
    for (int i = 1; i < k->step->nbound; i++)
        args[i] = cfx__c_filled(u, k->step->bound[i]);
    const cfx_value v = cfx__op_call_bound((cfx_site){0}, k->op, args);
    const cfx_tensor *t = cfx_ok() && v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (!cfx_ok())
        cfx__error_forgive();
    if (!t || t->storage != over->storage || !cfx__c_may_look(x, (cfx_dtype)t->dtype))
        return false;
    cfx__c_ref *from = cfx__c_ref_like(u->c, x, t->ndim, t->shape, t->stride);
    from->dtype = (cfx_dtype)t->dtype;
    from->at =
        (x->at - before) * cfx_dtype_size(x->dtype) / cfx_dtype_size(from->dtype) + t->offset;
    if (from->at < 0)
        return false;
    cfx__c_copy(u->c, out, from);
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

int cfx__c_ints(cfx_value v, int64_t *out) {
    if (v.tag == CFX_TAG_INT) {
        out[0] = cfx_integer(v);
        return 1;
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return 0;
    const cfx_list *l = cfx_as_list(v);
    for (int64_t i = 0; i < l->len && i < CFX_MAX_DIMS; i++)
        out[i] = cfx_integer(l->items[i]);
    return (int)l->len;
}

cfx_value cfx__c_filled(const cfx__c_unit *u, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return cfx_is_bad(u->plan->constants[v.spare]) ? u->plan->given[v.spare]
                                                       : u->plan->constants[v.spare];
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__c_filled(u, cfx_as_list(v)->items[i]));
    return out;
}

/* A value with the numbers that slots are known to be in their places; scope. */
static cfx_value settled(const cfx__c_unit *u, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        const cfx_value is = u->plan->constants[v.spare];
        return cfx_is_bad(is) || is.tag == CFX_TAG_TENSOR ? v : is;
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), settled(u, cfx_as_list(v)->items[i]));
    return out;
}

/* Numbers of a step that only running could tell, as where a symbol stands for one. */
static bool knows_numbers(const cfx__c_unit *u, const cfx__run_step *s) {
    for (int i = 0; i < s->nbound; i++)
        if (s->bound[i].tag == CFX_TAG_NODE && !u->refs[s->bound[i].spare].n &&
            cfx_is_bad(u->plan->constants[s->bound[i].spare]))
            return false;
    return true;
}

/* ---- what has none --------------------------------------------------------------------------- */

const char *cfx__c_reason(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    if (op->effects & CFX_RANDOM)
        return "draws random numbers";
    if (op->effects & CFX_DATA_SHAPE)
        return "gives sizes that depend on data";
    if (s->nrets == 1 && s->rets[0].type == CFX__T_SCALAR)
        return "gives a number that only a run can tell";
    return NULL;
}

/* Forms that move elements without a look at them, which complex numbers have too. */
static bool takes_complex(cfx__c_form *put) {
    cfx__c_form *const forms[] = {put_copy,
                                  cfx__c_call_index,
                                  cfx__c_call_gather,
                                  cfx__c_call_embedding,
                                  cfx__c_call_index_select,
                                  cfx__c_call_cat,
                                  cfx__c_call_flip,
                                  cfx__c_call_roll,
                                  cfx__c_call_copy,
                                  cfx__c_call_put_part,
                                  cfx__c_call_empty,
                                  cfx__c_call_repeat,
                                  cfx__c_call_fold,
                                  cfx__c_call_fft};
    for (int i = 0; i < COUNT(forms); i++)
        if (forms[i] == put)
            return true;
    return false;
}

static bool has_complex(const cfx__c_refs *r) {
    for (int i = 0; i < r->n; i++)
        if (cfx__dtype_is_complex(r->refs[i].dtype))
            return true;
    return false;
}

/* Whether a call reads or gives complex numbers. */
static bool is_complex(cfx__c_unit *u, const cfx__run_step *s) {
    bool found = has_complex(cfx__c_slot(u, u->slot));
    for (int i = 0; i < s->nbound && !found; i++) {
        const cfx_value v = s->bound[i];
        found = v.tag == CFX_TAG_NODE && has_complex(cfx__c_slot(u, (int)v.spare));
        found |=
            v.tag == CFX_TAG_COMPLEX ||
            (v.tag == CFX_TAG_TENSOR && cfx__dtype_is_complex((cfx_dtype)cfx_as_tensor(v)->dtype));
    }
    return found;
}

/* Whether all tensors of a call have a place, and dtypes that C has. */
static bool has_places(cfx__c_unit *u, const cfx__run_step *s) {
    const cfx__c_refs *out = cfx__c_slot(u, u->slot);
    for (int i = 0; i < out->n; i++)
        if (out->refs[i].where != CFX__C_NOWHERE && !cfx__c_type(out->refs[i].dtype))
            return false;
    for (int i = 0; i < s->nbound; i++) {
        const bool tensor = cfx__c_filled(u, s->bound[i]).tag == CFX_TAG_TENSOR;
        const cfx__c_ref *r = tensor ? cfx__c_arg(u, s->bound[i]) : NULL;
        if (tensor && (!r || !cfx__c_type(r->dtype)))
            return false;
    }
    return true;
}

/* ---- what forms take ------------------------------------------------------------------------- */

/* Whether nobody reads result number 1 or above of a node: statistics are results of their own. */
static bool takes_first(const cfx_program *p, const cfx_node *n) {
    (void)p;
    cfx_each_user(n, u) {
        const cfx_value args = u->user->args;
        const cfx_value at = cfx_len(args) > 1 ? cfx_at(args, 1) : cfx_none();
        if (at.tag != CFX_TAG_INT || cfx_integer(at) > 0)
            return false;
    }
    return true;
}

static bool takes_real(const cfx_program *p, const cfx_node *n) {
    (void)p;
    cfx_each_input(n, u) {
        const cfx_result r = cfx_node_result(u->node);
        if (r.kind == CFX_RESULT_TENSOR && cfx__dtype_is_complex(r.dtype))
            return false;
    }
    return true;
}

/* Whether no index is a mask. */
static bool takes_numbers(const cfx_program *p, const cfx_node *n) {
    (void)p;
    const cfx_value list = cfx_len(n->args) > 1 ? cfx_at(n->args, 1) : cfx_none();
    const cfx_list *indices = cfx__c_several(list);
    for (int64_t i = 0; indices && i < indices->len; i++) {
        const cfx_value v = indices->items[i];
        const cfx_result r =
            v.tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(v)) : (cfx_result){0};
        if (r.kind == CFX_RESULT_TENSOR && r.dtype == CFX_BOOL)
            return false;
    }
    return true;
}

/* Not all calls of these are loops. */
static bool takes_none(const cfx_program *p, const cfx_node *n) {
    (void)p, (void)n;
    return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const cfx_op *op;
    cfx__c_form *put;
    cfx__c_condition *takes; /* what is not taken is made of other calls (ready.c); NULL: all is */
} table[] = {
    {&cfx_op_linear, cfx__c_call_product, takes_real},
    {&cfx_op_mm, cfx__c_call_product, takes_real},
    {&cfx_op_addmm, cfx__c_call_product, takes_real},
    {&cfx_op_bmm, cfx__c_call_product, takes_real},
    {&cfx_op_baddbmm, cfx__c_call_product, takes_real},
    {&cfx_op_convolution, cfx__c_call_product, NULL},
    {&cfx_op_conv1d, cfx__c_call_product, NULL},
    {&cfx_op_conv2d, cfx__c_call_product, NULL},
    {&cfx_op_conv3d, cfx__c_call_product, NULL},
    {&cfx_op_conv1d_padding, cfx__c_call_product, NULL},
    {&cfx_op_conv2d_padding, cfx__c_call_product, NULL},
    {&cfx_op_conv3d_padding, cfx__c_call_product, NULL},
    {&cfx_op_conv_transpose1d, cfx__c_call_product, NULL},
    {&cfx_op_conv_transpose2d_input, cfx__c_call_product, NULL},
    {&cfx_op_conv_transpose3d_input, cfx__c_call_product, NULL},
    {&cfx_op_clone, put_copy, NULL},
    {&cfx_op_contiguous, put_copy, NULL},
    {&cfx_op_reshape, put_copy, NULL},
    {&cfx_op__to_copy, put_copy, NULL},
    {&cfx_op_to_dtype, put_copy, NULL},
    {&cfx_op_to_dtype_layout, put_copy, NULL},
    {&cfx_op_to_device, put_copy, NULL},
    {&cfx_op_to_other, put_copy, NULL},
    {&cfx_op_masked_fill_Tensor, cfx__c_call_noted, takes_none},
    {&cfx_op_nansum, cfx__c_call_noted, takes_none},
    {&cfx_op_count_nonzero, cfx__c_call_noted, takes_none},
    {&cfx_op_count_nonzero_dim_IntList, cfx__c_call_noted, takes_none},
    {&cfx_op_sum, cfx__c_call_fold, NULL},
    {&cfx_op_sum_dim_IntList, cfx__c_call_fold, NULL},
    {&cfx_op_mean, cfx__c_call_fold, NULL},
    {&cfx_op_mean_dim, cfx__c_call_fold, NULL},
    {&cfx_op_amax, cfx__c_call_fold, NULL},
    {&cfx_op_amin, cfx__c_call_fold, NULL},
    {&cfx_op_max, cfx__c_call_fold, NULL},
    {&cfx_op_min, cfx__c_call_fold, NULL},
    {&cfx_op_prod, cfx__c_call_fold, NULL},
    {&cfx_op_prod_dim_int, cfx__c_call_fold, NULL},
    {&cfx_op_any, cfx__c_call_fold, NULL},
    {&cfx_op_any_dim, cfx__c_call_fold, NULL},
    {&cfx_op_any_dims, cfx__c_call_fold, NULL},
    {&cfx_op_all, cfx__c_call_fold, NULL},
    {&cfx_op_all_dim, cfx__c_call_fold, NULL},
    {&cfx_op_all_dims, cfx__c_call_fold, NULL},
    {&cfx_op_var_correction, cfx__c_call_var, NULL},
    {&cfx_op_std_correction, cfx__c_call_var, NULL},
    {&cfx_op_linalg_vector_norm, cfx__c_call_norm, NULL},
    {&cfx_op__softmax, cfx__c_call_softmax, NULL},
    {&cfx_op__log_softmax, cfx__c_call_softmax, NULL},
    {&cfx_op__safe_softmax, cfx__c_call_softmax, NULL},
    {&cfx_op_softmax_int, cfx__c_call_softmax, NULL},
    {&cfx_op_log_softmax_int, cfx__c_call_softmax, NULL},
    {&cfx_op_batch_norm, cfx__c_call_batch_norm, NULL},
    {&cfx_op__native_batch_norm_legit_no_training, cfx__c_call_batch_norm, takes_first},
    {&cfx_op__native_batch_norm_legit_no_stats, cfx__c_call_batch_norm, takes_first},
    {&cfx_op_native_group_norm, cfx__c_call_group_norm, takes_first},
    {&cfx_op_native_layer_norm, cfx__c_call_noted, takes_first},
    {&cfx_op_group_norm, cfx__c_call_group_norm, NULL},
    {&cfx_op_floor_divide, cfx__c_call_division, NULL},
    {&cfx_op_remainder_Scalar, cfx__c_call_division, NULL},
    {&cfx_op_remainder_Tensor, cfx__c_call_division, NULL},
    {&cfx_op_fmod_Scalar, cfx__c_call_division, NULL},
    {&cfx_op_fmod_Tensor, cfx__c_call_division, NULL},
    {&cfx_op_div_Scalar_mode, cfx__c_call_division, NULL},
    {&cfx_op_div_Tensor_mode, cfx__c_call_division, NULL},
    {&cfx_op_clamp_Tensor, cfx__c_call_clamp, NULL},
    {&cfx_op_embedding, cfx__c_call_embedding, NULL},
    {&cfx_op_index_Tensor, cfx__c_call_index, NULL},
    {&cfx_op_index_put, cfx__c_call_index_put, takes_numbers},
    {&cfx_op_gather, cfx__c_call_gather, NULL},
    {&cfx_op_scatter_src, cfx__c_call_scatter, NULL},
    {&cfx_op_scatter_value, cfx__c_call_scatter, NULL},
    {&cfx_op_scatter_add, cfx__c_call_scatter, NULL},
    {&cfx_op_scatter_reduce, cfx__c_call_scatter, NULL},
    {&cfx_op_scatter_reduce_two, cfx__c_call_scatter, NULL},
    {&cfx_op_index_select, cfx__c_call_index_select, NULL},
    {&cfx_op_cat, cfx__c_call_cat, NULL},
    {&cfx_op_constant_pad_nd, cfx__c_call_pad, takes_real},
    {&cfx_op_flip, cfx__c_call_flip, NULL},
    {&cfx_op_roll, cfx__c_call_roll, NULL},
    {&cfx_op_tril, cfx__c_call_triangle, takes_real},
    {&cfx_op_triu, cfx__c_call_triangle, takes_real},
    {&cfx_op_full_like, cfx__c_call_fill, NULL},
    {&cfx_op_zeros_like, cfx__c_call_fill, NULL},
    {&cfx_op_ones_like, cfx__c_call_fill, NULL},
    {&cfx_op_new_zeros, cfx__c_call_fill, NULL},
    {&cfx_op_new_ones, cfx__c_call_fill, NULL},
    {&cfx_op_new_full, cfx__c_call_fill, NULL},
    {&cfx_op_fill_Scalar, cfx__c_call_fill, NULL},
    {&cfx_op_full, cfx__c_call_fill, NULL},
    {&cfx_op_zeros, cfx__c_call_fill, NULL},
    {&cfx_op_ones, cfx__c_call_fill, NULL},
    {&cfx_op_empty_like, cfx__c_call_empty, NULL},
    {&cfx_op_new_empty, cfx__c_call_empty, NULL},
    {&cfx_op_empty_memory_format, cfx__c_call_empty, NULL},
    {&cfx_op_copy, cfx__c_call_copy, NULL},
    {&cfx_op_fill_Tensor, cfx__c_call_copy, NULL},
    {&cfx_op_slice_scatter, cfx__c_call_put_part, NULL},
    {&cfx_op_select_scatter, cfx__c_call_put_part, NULL},
    {&cfx_op_max_pool2d, cfx__c_call_pool, NULL},
    {&cfx_op_max_pool2d_with_indices, cfx__c_call_pool, NULL},
    {&cfx_op_max_pool3d_with_indices, cfx__c_call_pool, NULL},
    {&cfx_op_avg_pool2d, cfx__c_call_pool, NULL},
    {&cfx_op_avg_pool3d, cfx__c_call_pool, NULL},
    {&cfx_op__adaptive_avg_pool2d, cfx__c_call_adaptive, NULL},
    {&cfx_op__adaptive_avg_pool3d, cfx__c_call_adaptive, NULL},
    {&cfx_op_adaptive_avg_pool2d, cfx__c_call_adaptive, NULL},
    {&cfx_op_adaptive_max_pool2d, cfx__c_call_adaptive, NULL},
    {&cfx_op_adaptive_max_pool3d, cfx__c_call_adaptive, NULL},
    {&cfx_op_upsample_nearest2d, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_nearest2d_vec, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_nearest1d, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_nearest1d_vec, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_nearest3d, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_nearest3d_vec, cfx__c_call_nearest, NULL},
    {&cfx_op_upsample_bilinear2d, cfx__c_call_bilinear, NULL},
    {&cfx_op_upsample_bilinear2d_vec, cfx__c_call_bilinear, NULL},
    {&cfx_op_grid_sampler_2d, cfx__c_call_grid, NULL},
    {&cfx_op_grid_sampler_3d, cfx__c_call_grid, NULL},
    {&cfx_op_cumsum, cfx__c_call_scan, takes_real},
    {&cfx_op_cumprod, cfx__c_call_scan, NULL},
    {&cfx_op_logcumsumexp, cfx__c_call_scan, NULL},
    {&cfx_op_cummax, cfx__c_call_scan_best, NULL},
    {&cfx_op_cummin, cfx__c_call_scan_best, NULL},
    {&cfx_op_argmax, cfx__c_call_best, NULL},
    {&cfx_op_argmin, cfx__c_call_best, NULL},
    {&cfx_op_max_dim, cfx__c_call_best, NULL},
    {&cfx_op_min_dim, cfx__c_call_best, NULL},
    {&cfx_op_sort, cfx__c_call_sort, NULL},
    {&cfx_op_sort_stable, cfx__c_call_sort, NULL},
    {&cfx_op_topk, cfx__c_call_top, NULL},
    {&cfx_op_kthvalue, cfx__c_call_pick, NULL},
    {&cfx_op_median_dim, cfx__c_call_pick, NULL},
    {&cfx_op_nanmedian_dim, cfx__c_call_pick, NULL},
    {&cfx_op_mode, cfx__c_call_pick, NULL},
    {&cfx_op_histc, cfx__c_call_histc, NULL},
    {&cfx_op_arange, cfx__c_call_arange, NULL},
    {&cfx_op_arange_start, cfx__c_call_arange, NULL},
    {&cfx_op_arange_start_step, cfx__c_call_arange, NULL},
    {&cfx_op_repeat, cfx__c_call_repeat, NULL},
    {&cfx_op__grouped_mm, cfx__c_call_grouped, NULL},
    {&cfx_op_grouped_mm_fallback, cfx__c_call_grouped, NULL},
    {&cfx_op__embedding_bag, cfx__c_call_bag, NULL},
    {&cfx_op__embedding_bag_forward_only, cfx__c_call_bag, NULL},
    {&cfx_op__fft_c2c, cfx__c_call_fft, NULL},
    {&cfx_op_linalg_lu_factor_ex, cfx__c_call_lu, NULL},
    {&cfx_op__linalg_solve_ex, cfx__c_call_lu, NULL},
    {&cfx_op_linalg_inv_ex, cfx__c_call_lu, NULL},
    {&cfx_op__linalg_det, cfx__c_call_lu, NULL},
    {&cfx_op__linalg_slogdet, cfx__c_call_lu, NULL},
    {&cfx_op_linalg_cholesky_ex, cfx__c_call_cholesky, NULL},
    {&cfx_op_cholesky, cfx__c_call_cholesky, NULL},
    {&cfx_op_linalg_solve_triangular, cfx__c_call_triangular, NULL},
    {&cfx_op_cholesky_solve, cfx__c_call_triangular, NULL},
    {&cfx_op_linalg_qr, cfx__c_call_qr, NULL},
    {&cfx_op_lu_unpack, cfx__c_call_lu_unpack, NULL},
    {&cfx_op_linalg_lu_solve, cfx__c_call_lu_solve, NULL},
    {&cfx_op__linalg_eigh, cfx__c_call_eigh, NULL},
    {&cfx_op_scaled_dot_product_attention, cfx__c_call_attention, cfx__c_takes_attention},
    {&cfx_op__scaled_dot_product_flash_attention_for_cpu, cfx__c_call_attention,
     cfx__c_takes_attention},
    {&cfx_op_lstm_input, cfx__c_call_recurrent, cfx__c_takes_recurrent},
    {&cfx_op_gru_input, cfx__c_call_recurrent, cfx__c_takes_recurrent},
    {&cfx_op_rnn_tanh_input, cfx__c_call_recurrent, cfx__c_takes_recurrent},
    {&cfx_op_rnn_relu_input, cfx__c_call_recurrent, cfx__c_takes_recurrent},
};

static int find(const cfx_op *op) {
    for (int i = 0; i < COUNT(table); i++)
        if (table[i].op == op)
            return i;
    return -1;
}

bool cfx__c_call_known(const cfx_op *op) { return find(op) >= 0; }

bool cfx__c_call_updates(const cfx_op *op) {
    const int i = find(op);
    return op->effects & CFX_UPDATE || (i >= 0 && table[i].put == cfx__c_call_put_part);
}

bool cfx__c_takes(const cfx_program *p, const cfx_node *n) {
    const int i = find(n->target.op);
    return i < 0 || !table[i].takes || table[i].takes(p, n);
}

bool cfx__c_call_is_product(const cfx_op *op) {
    const int i = find(op);
    return i >= 0 && table[i].put == cfx__c_call_product;
}

void cfx__c_call(cfx__c_unit *u, const cfx__plan_kernel *kernel) {
    const int i = find(kernel->op);
    cfx_value bound[CFX_MAX_ARGS];
    cfx__run_step step = *kernel->step;
    cfx__plan_kernel known = *kernel, *k = &known;
    for (int a = 0; a < step.nbound; a++)
        bound[a] = settled(u, step.bound[a]);
    step.bound = bound;
    known.step = &step;
    const char *why = i < 0 ? cfx__c_reason(k->op) : NULL;
    if (why)
        cfx__c_refuse(u, "%s %s", cfx_op_name(k->op), why);
    else if (!cfx__c_slot(u, u->slot)->n || !knows_numbers(u, k->step))
        cfx__c_refuse(u, "%s depends on numbers that only a run can tell", cfx_op_name(k->op));
    else if (!has_places(u, k->step))
        cfx__c_refuse(u, "%s is of tensors that have no form in C", cfx_op_name(k->op));
    else if (is_complex(u, k->step) &&
             !(i >= 0 ? takes_complex(table[i].put)
                      : k->op->view || (k->op->effects & CFX_LOOPS && !u->c->card)))
        cfx__c_refuse(u, "%s has no form in C for complex numbers", cfx_op_name(k->op));
    else if (i >= 0)
        table[i].put(u, k);
    else if (k->op->view) {
        if (!put_look(u, k)) {
            if (k->op == &cfx_op_as_strided)
                cfx__c_refuse(u, "%s looks at memory that has no place", cfx_op_name(k->op));
            else
                put_copy(u, k);
        }
    } else if (k->op->effects & CFX_LOOPS)
        cfx__c_call_noted(u, k);
    else
        cfx__c_refuse(u, "%s has no form in C", cfx_op_name(k->op));
}
