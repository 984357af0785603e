/* Autocast: a region of a program in which some operators compute in a lower precision and some in
 * float32, whatever they are given. A dispatch mode that converts arguments; the lists are
 * PyTorch's, by the name of the operator. */
#include "run.h"

/* The low ones are those of every device; of the others some are for CPUs, the last few for GPUs
 * alone. */
static const char low[] =
    " conv1d conv2d conv3d bmm mm linalg_vecdot baddbmm addmm addbmm linear _convolution "
    "convolution matmul conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu "
    "scaled_dot_product_attention _native_multi_head_attention ";
static const char full[] =
    " avg_pool3d binary_cross_entropy grid_sampler polar prod quantile nanquantile stft cdist "
    "trace view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr "
    "ormqr pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d reflection_pad1d "
    "reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss "
    "cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss "
    "smooth_l1_loss cross_entropy_loss l1_loss huber_loss margin_ranking_loss "
    "soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div "
    "multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 "
    "fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn "
    "fft_irfftn fft_hfft fft_ihfft linalg_cond linalg_matrix_rank linalg_solve "
    "linalg_cholesky linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv "
    "linalg_householder_product linalg_tensorinv linalg_tensorsolve geqrf linalg_qr "
    "linalg_svd linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex ";
static const char widest[] = " cat stack index_copy ";
static const char full_on_gpu[] =
    " acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow "
    "softplus layer_norm native_layer_norm group_norm norm nuclear_norm cosine_similarity "
    "pdist renorm logsumexp softmax log_softmax cumprod cumsum dist sum ";

static bool among(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

/* The dtype that an operator's floats are converted to; -1: none. */
static int wanted(const cfx__autocast *c, const char *op, cfx_args a) {
    if (among(low, op))
        return c->dtype;
    if (among(full, op) || (c->gpu && among(full_on_gpu, op)))
        return CFX_F32;
    if (!among(widest, op))
        return -1;
    for (int i = 0; i < a.n; i++) {
        bool list = a.v[i].tag == CFX_TAG_LIST;
        for (int64_t k = 0; k < (list ? a.v[i].list->len : 1); k++) {
            cfx_value v = list ? a.v[i].list->items[k] : a.v[i];
            if (v.tag == CFX_TAG_TENSOR && v.tensor->dtype == CFX_F32)
                return CFX_F32;
        }
    }
    return c->dtype;
}

/* Floats are converted, doubles and everything else left alone. */
static cfx_value converted(cfx_value v, cfx_dtype to) {
    if (v.tag == CFX_TAG_LIST) {
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < v.list->len; i++)
            cfx_list_append(list.list, converted(v.list->items[i], to));
        return list;
    }
    if (v.tag != CFX_TAG_TENSOR || !cfx__dtype_is_float(v.tensor->dtype) ||
        v.tensor->dtype == CFX_F64 || v.tensor->dtype == to)
        return v;
    return cfx_op_do_from((cfx_site){0}, cfx_op_find("aten.to.dtype"),
                          CFX_ARGS(v, cfx_dtype_value(to)));
}

static cfx_value handle(cfx_mode *self, cfx_target t, cfx_args a) {
    const cfx__autocast *c = self->user;
    cfx__op_info *info = t.op ? cfx__op_info_of(t.op) : NULL;
    int to = info && !c->silent ? wanted(c, info->schema->name, a) : -1;
    if (to < 0 || a.n > CFX_MAX_ARGS)
        return cfx_mode_forward(self, t, a);
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < a.n; i++)
        args[i] = converted(a.v[i], (cfx_dtype)to);
    return cfx_mode_forward(self, t, (cfx_args){a.n, args, a.kw});
}

void cfx__autocast_begin(cfx__autocast *c) {
    c->outer = NULL;
    for (cfx_mode *m = cfx__dispatcher()->dispatch_modes; m && !c->outer; m = m->below_)
        if (m->handle == handle && !((cfx__autocast *)m->user)->silent)
            c->outer = m->user;
    if (c->outer)
        c->outer->silent = true;
    c->mode = (cfx_mode){.handle = handle, .user = c};
    cfx_dispatch_mode_push(&c->mode);
}

void cfx__autocast_end(cfx__autocast *c) {
    cfx_dispatch_mode_pop();
    if (c->outer)
        c->outer->silent = false;
}
