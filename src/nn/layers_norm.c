/* Norms and dropout. */
#include <cfx/ops.h>

#include "layer.h"

/* ---- make ------------------------------------------------------------------------------------ */

static void scale_and_shift(cfx_module *m, int ndim, const int64_t *shape, bool scale, bool shift) {
    cfx_nn_parameter(m, "weight", scale ? cfx__layer_init_full(ndim, shape, 1) : NULL);
    cfx_nn_parameter(m, "bias", shift ? cfx__layer_init_full(ndim, shape, 0) : NULL);
}

/* BatchNorm and InstanceNorm: running statistics beside scale and shift. */
static void make_tracking(cfx_module *m, const cfx__layer_options *o) {
    int64_t n = cfx__layer_option_int(o, "num_features");
    bool affine = cfx__layer_option_on(o, "affine"),
         track = cfx__layer_option_on(o, "track_running_stats");
    scale_and_shift(m, 1, &n, affine, affine);
    cfx_nn_buffer(m, "running_mean", track ? cfx__layer_init_full(1, &n, 0) : NULL, true);
    cfx_nn_buffer(m, "running_var", track ? cfx__layer_init_full(1, &n, 1) : NULL, true);
    cfx_nn_buffer(m, "num_batches_tracked",
                  track ? cfx_full(cfx_list_value(0, NULL), 0, CFX_KW(dtype, cfx_i64)) : NULL,
                  true);
}

/* LayerNorm and RMSNorm: over the last dimensions, of sizes given as a number or a list. */
static void make_layer_norm(cfx_module *m, const cfx__layer_options *o) {
    cfx_value v = cfx__layer_option(o, "normalized_shape");
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    int64_t n = list ? cfx_as_list(v)->len : 1, shape[CFX_MAX_DIMS];
    if (n > CFX_MAX_DIMS || (!list && v.tag != CFX_TAG_INT)) {
        cfx__layer_fail(o, TYPE, "%s: normalized_shape must be sizes, not %s", m->type,
                        cfx_value_repr(v));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        shape[i] = cfx_integer(list ? cfx_as_list(v)->items[i] : v);
    v = cfx_ints_value(n, shape);
    v.tag = CFX_TAG_TUPLE;
    cfx_module_set_attr(m, "normalized_shape", v);
    bool affine = cfx__layer_option_on(o, "elementwise_affine");
    cfx_nn_parameter(m, "weight", affine ? cfx__layer_init_full((int)n, shape, 1) : NULL);
    if (!strcmp(m->type, "LayerNorm"))
        cfx_nn_parameter(m, "bias",
                         affine && cfx__layer_option_on(o, "bias")
                             ? cfx__layer_init_full((int)n, shape, 0)
                             : NULL);
}

static void make_group_norm(cfx_module *m, const cfx__layer_options *o) {
    int64_t groups = cfx__layer_option_int(o, "num_groups"),
            n = cfx__layer_option_int(o, "num_channels");
    if (groups <= 0 || n % groups)
        cfx__layer_fail(o, VALUE, "num_channels (%lld) must be divisible by num_groups (%lld)",
                        (long long)n, (long long)groups);
    else
        scale_and_shift(m, 1, &n, cfx__layer_option_on(o, "affine"),
                        cfx__layer_option_on(o, "affine"));
}

static void make_dropout(cfx_module *m, const cfx__layer_options *o) {
    (void)m;
    double p = cfx__layer_option_float(o, "p");
    if (!(p >= 0 && p <= 1))
        cfx__layer_fail(o, VALUE, "dropout probability has to be between 0 and 1, but got %s",
                        cfx_value_repr(cfx__layer_option(o, "p")));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Whether the input has as many dimensions as the layer is for: dims + 2, or one less where
 * `fewer`. */
static bool dims_fit(const cfx_module *self, cfx_value input, bool fewer) {
    int want = self->own_->layer->dims + 2;
    const cfx_tensor *t = input.tag == CFX_TAG_TENSOR ? cfx_as_tensor(input) : NULL;
    if (!t || (t->head.flags & CFX__TRACED) || t->ndim == want || (fewer && t->ndim == want - 1))
        return true;
    if (fewer)
        cfx_fail(CFX_VALUE_ERROR, cfx__site(), "expected %dD or %dD input (got %dD input)",
                 want - 1, want, t->ndim);
    else
        cfx_fail(CFX_VALUE_ERROR, cfx__site(), "expected %dD input (got %dD input)", want,
                 t->ndim);
    return false;
}

static cfx_value forward_batch_norm(cfx_module *self, cfx_args a) {
    if (!dims_fit(self, a.v[0], self->own_->layer->dims == 1))
        return cfx_bad();
    cfx_value count = cfx_module_attr(self, "num_batches_tracked"), momentum;
    momentum = cfx_module_attr(self, "momentum");
    bool batch = self->training || cfx_is_none(cfx_module_attr(self, "running_mean"));
    if (self->training && !cfx_is_none(count))
        cfx_add_(count, 1);
    if (cfx_is_none(momentum)) /* a plain average over all batches */
        momentum =
            cfx_float(self->training && count.tag == CFX_TAG_TENSOR && cfx_as_tensor(count)->data
                          ? 1 / cfx__tensor_number(cfx_as_tensor(count), 0)
                          : 0);
    return cfx__layer_torch(
        "torch.nn.functional.batch_norm", a.v[0], cfx__layer_attr(self, "running_mean"),
        cfx__layer_attr(self, "running_var"), cfx__layer_attr(self, "weight"),
        cfx__layer_attr(self, "bias"), batch, momentum, cfx_module_attr(self, "eps"));
}

static cfx_value forward_instance_norm(cfx_module *self, cfx_args a) {
    if (!dims_fit(self, a.v[0], true))
        return cfx_bad();
    bool alone = a.v[0].tag == CFX_TAG_TENSOR &&
                 !(cfx_as_tensor(a.v[0])->head.flags & CFX__TRACED) &&
                 cfx_as_tensor(a.v[0])->ndim == self->own_->layer->dims + 1;
    bool batch = self->training || cfx_is_none(cfx_module_attr(self, "running_mean"));
    cfx_value v = alone ? cfx__layer_torch("Tensor.unsqueeze", a.v[0], 0) : a.v[0];
    v = cfx__layer_torch("torch.nn.functional.instance_norm", v,
                         cfx__layer_attr(self, "running_mean"),
                         cfx__layer_attr(self, "running_var"), cfx__layer_attr(self, "weight"),
                         cfx__layer_attr(self, "bias"), batch, cfx_module_attr(self, "momentum"),
                         cfx_module_attr(self, "eps"));
    return alone ? cfx__layer_torch("Tensor.squeeze", v, 0) : v;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define TRACKING(name, n, options, run)                                                            \
    {                                                                                              \
        name, options,                                                                             \
            "{num_features}, eps={eps}, momentum={momentum}, affine={affine}, "                    \
            "track_running_stats={track_running_stats}",                                           \
            .make = make_tracking, .forward = run, .dims = n                                       \
    }
#define BATCH_NORM(name, n)                                                                        \
    TRACKING("batchnorm." name, n,                                                                 \
             "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",       \
             forward_batch_norm)
#define INSTANCE_NORM(name, n)                                                                     \
    TRACKING("instancenorm." name, n,                                                              \
             "num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False",     \
             forward_instance_norm)
#define DROPOUT(name, call)                                                                        \
    {                                                                                              \
        "dropout." name, "p=0.5, inplace=False", "p={p}, inplace={inplace}", call,                 \
            .make = make_dropout                                                                   \
    }

const cfx__layer cfx__layers_norm[] = {
    BATCH_NORM("BatchNorm1d", 1),
    BATCH_NORM("BatchNorm2d", 2),
    BATCH_NORM("BatchNorm3d", 3),
    INSTANCE_NORM("InstanceNorm1d", 1),
    INSTANCE_NORM("InstanceNorm2d", 2),
    INSTANCE_NORM("InstanceNorm3d", 3),
    {"normalization.LayerNorm", "normalized_shape, eps=1e-05, elementwise_affine=True, bias=True",
     "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}",
     "torch.nn.functional.layer_norm(input, normalized_shape, weight, bias, eps)",
     .make = make_layer_norm},
    {"normalization.RMSNorm", "normalized_shape, eps=None, elementwise_affine=True",
     "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}",
     "torch.nn.functional.rms_norm(input, normalized_shape, weight, eps)", .make = make_layer_norm},
    {"normalization.GroupNorm", "num_groups, num_channels, eps=1e-05, affine=True",
     "{num_groups}, {num_channels}, eps={eps}, affine={affine}",
     "torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)",
     .make = make_group_norm},
    {"normalization.LocalResponseNorm", "size, alpha=0.0001, beta=0.75, k=1.0",
     "{size}, alpha={alpha}, beta={beta}, k={k}",
     .call = "torch.nn.functional.local_response_norm(input, size, alpha, beta, k)"},
    DROPOUT("Dropout", "torch.nn.functional.dropout(input, p, training, inplace)"),
    DROPOUT("Dropout1d", "torch.nn.functional.dropout1d(input, p, training, inplace)"),
    DROPOUT("Dropout2d", "torch.nn.functional.dropout2d(input, p, training, inplace)"),
    DROPOUT("Dropout3d", "torch.nn.functional.dropout3d(input, p, training, inplace)"),
    DROPOUT("AlphaDropout", "torch.nn.functional.alpha_dropout(input, p, training)"),
    DROPOUT("FeatureAlphaDropout", "torch.nn.functional.feature_alpha_dropout(input, p, training)"),
    {0},
};
