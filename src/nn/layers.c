/* Layers: PyTorch's modules over the functions of torch.nn.functional. A layer is a leaf for the
 * tracer, keeps its numbers as plain attributes, and draws its initial values as PyTorch does. */
#include <cfx/layers.h>
#include <cfx/ops.h>

#include "nn.h"

#include <math.h>

/* ---- what layers share ----------------------------------------------------------------------- */

static cfx_module *layer(const char *type, const char *path, cfx_forward_fn *forward,
                         const char *signature) {
    cfx_module *m = cfx_module_new_args(type, forward, signature);
    m->path = path;
    m->leaf = true;
    return m;
}

static void set_int(cfx_module *m, const char *name, int64_t i) {
    cfx_module_set_attr(m, name, cfx_int(i));
}

static cfx_value get(const cfx_module *m, const char *name) { return cfx_module_attr(m, name); }

static int64_t get_int(const cfx_module *m, const char *name) { return cfx_integer(get(m, name)); }

static const char *text_of(const cfx_module *m, const char *name) {
    return cfx_value_repr(get(m, name));
}

/* A tuple of n integers, `given` for each or `one` for all. */
static cfx_value ints(int n, const int64_t *given, int64_t one) {
    int64_t v[3];
    for (int i = 0; i < n; i++)
        v[i] = given && given[i] ? given[i] : one;
    cfx_value t = cfx_ints_value(n, v);
    t.tag = CFX_TAG_TUPLE;
    return t;
}

static cfx_tensor *uniform(int ndim, const int64_t *shape, double bound) {
    cfx_tensor *t = cfx_tensor_new(CFX_F32, ndim, shape, NULL);
    return cfx_uniform_(t, -bound, bound);
}

static cfx_tensor *filled(int64_t n, double value) { return cfx_full(cfx_list(n), value); }

/* A parameter of the running module as its forward reads it: traced while tracing. */
static cfx_value own(cfx_module *self, const char *name) {
    return cfx_attr_value_at((cfx_where){0}, self, name);
}

/* ---- Linear ---------------------------------------------------------------------------------- */

static cfx_value linear_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.linear", a.v[0], own(self, "weight"), own(self, "bias"));
}

static const char *linear_repr(const cfx_module *m) {
    return cfx__format("in_features=%s, out_features=%s, bias=%s", text_of(m, "in_features"),
                       text_of(m, "out_features"), cfx_is_none(get(m, "bias")) ? "False" : "True");
}

cfx_module *cfx_nn_linear_with(cfx_nn_linear_args a) {
    cfx_module *m = layer("Linear", "torch.nn.modules.linear.Linear", linear_forward, "input");
    double bound = a.in_features > 0 ? 1 / sqrt((double)a.in_features) : 0;
    m->extra_repr = linear_repr;
    set_int(m, "in_features", a.in_features);
    set_int(m, "out_features", a.out_features);
    cfx_nn_parameter(m, "weight", uniform(2, (int64_t[]){a.out_features, a.in_features}, bound));
    cfx_nn_parameter(m, "bias", a.no_bias ? NULL : uniform(1, &a.out_features, bound));
    return m;
}

/* ---- Conv1d, Conv2d, Conv3d ------------------------------------------------------------------ */

static cfx_value conv_forward(cfx_module *self, cfx_args a) {
    static const char *const names[] = {"torch.conv1d", "torch.conv2d", "torch.conv3d"};
    int64_t dims = get(self, "kernel_size").list->len;
    return cfx_py(names[dims - 1], a.v[0], own(self, "weight"), own(self, "bias"),
                  get(self, "stride"), get(self, "padding"), get(self, "dilation"),
                  get(self, "groups"));
}

static bool all_equal(cfx_value tuple, int64_t to) {
    for (int64_t i = 0; i < tuple.list->len; i++)
        if (cfx_integer(tuple.list->items[i]) != to)
            return false;
    return true;
}

static const char *conv_repr(const cfx_module *m) {
    cfx__text t = {0};
    cfx__text_printf(&t, "%s, %s, kernel_size=%s, stride=%s", text_of(m, "in_channels"),
                     text_of(m, "out_channels"), text_of(m, "kernel_size"), text_of(m, "stride"));
    if (!all_equal(get(m, "padding"), 0))
        cfx__text_printf(&t, ", padding=%s", text_of(m, "padding"));
    if (!all_equal(get(m, "dilation"), 1))
        cfx__text_printf(&t, ", dilation=%s", text_of(m, "dilation"));
    if (get_int(m, "groups") != 1)
        cfx__text_printf(&t, ", groups=%s", text_of(m, "groups"));
    if (cfx_is_none(get(m, "bias")))
        cfx__text_puts(&t, ", bias=False");
    return cfx__text_take(&t);
}

cfx_module *cfx_nn_conv_with(int dims, cfx_nn_conv_args a) {
    static const char *const paths[] = {"torch.nn.modules.conv.Conv1d",
                                        "torch.nn.modules.conv.Conv2d",
                                        "torch.nn.modules.conv.Conv3d"};
    cfx_module *m =
        layer(strrchr(paths[dims - 1], '.') + 1, paths[dims - 1], conv_forward, "input");
    int64_t groups = a.groups ? a.groups : 1, shape[5] = {a.out_channels, a.in_channels / groups};
    if (a.in_channels % groups || a.out_channels % groups) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_where){0}, "%s must be divisible by groups",
                 a.in_channels % groups ? "in_channels" : "out_channels");
        return m;
    }
    int64_t fan_in = shape[1];
    cfx_value kernel = ints(dims, a.kernel_sizes, a.kernel_size);
    for (int i = 0; i < dims; i++) {
        shape[2 + i] = cfx_integer(kernel.list->items[i]);
        fan_in *= shape[2 + i];
    }
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    m->extra_repr = conv_repr;
    set_int(m, "in_channels", a.in_channels);
    set_int(m, "out_channels", a.out_channels);
    set_int(m, "groups", groups);
    cfx_module_set_attr(m, "kernel_size", kernel);
    cfx_module_set_attr(m, "stride", ints(dims, a.strides, a.stride ? a.stride : 1));
    cfx_module_set_attr(m, "padding", ints(dims, a.paddings, a.padding));
    cfx_module_set_attr(m, "dilation", ints(dims, a.dilations, a.dilation ? a.dilation : 1));
    cfx_nn_parameter(m, "weight", uniform(2 + dims, shape, bound));
    cfx_nn_parameter(m, "bias", a.no_bias ? NULL : uniform(1, &a.out_channels, bound));
    return m;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static cfx_value batch_norm_forward(cfx_module *self, cfx_args a) {
    cfx_value count = get(self, "num_batches_tracked");
    bool batch = self->training || cfx_is_none(get(self, "running_mean"));
    if (self->training && !cfx_is_none(count))
        cfx_add_(count, 1);
    return cfx_py("torch.nn.functional.batch_norm", a.v[0], own(self, "running_mean"),
                  own(self, "running_var"), own(self, "weight"), own(self, "bias"), batch,
                  get(self, "momentum"), get(self, "eps"));
}

static const char *batch_norm_repr(const cfx_module *m) {
    return cfx__format("%s, eps=%s, momentum=%s, affine=%s, track_running_stats=%s",
                       text_of(m, "num_features"), text_of(m, "eps"), text_of(m, "momentum"),
                       cfx_is_none(get(m, "weight")) ? "False" : "True",
                       cfx_is_none(get(m, "running_mean")) ? "False" : "True");
}

cfx_module *cfx_nn_batch_norm_with(int dims, cfx_nn_norm_args a) {
    static const char *const paths[] = {"torch.nn.modules.batchnorm.BatchNorm1d",
                                        "torch.nn.modules.batchnorm.BatchNorm2d",
                                        "torch.nn.modules.batchnorm.BatchNorm3d"};
    const char *path = paths[dims - 1];
    cfx_module *m = layer(strrchr(path, '.') + 1, path, batch_norm_forward, "input");
    int64_t n = a.num_features;
    m->extra_repr = batch_norm_repr;
    set_int(m, "num_features", n);
    cfx_module_set_attr(m, "eps", cfx_float(a.eps ? a.eps : 1e-5));
    cfx_module_set_attr(m, "momentum", cfx_float(a.momentum ? a.momentum : 0.1));
    cfx_nn_parameter(m, "weight", a.no_affine ? NULL : filled(n, 1));
    cfx_nn_parameter(m, "bias", a.no_affine ? NULL : filled(n, 0));
    bool none = a.no_running_stats;
    cfx_nn_buffer(m, "running_mean", none ? NULL : filled(n, 0), true);
    cfx_nn_buffer(m, "running_var", none ? NULL : filled(n, 1), true);
    cfx_nn_buffer(m, "num_batches_tracked",
                  none ? NULL : cfx_tensor_new(CFX_I64, 0, NULL, &(int64_t){0}), true);
    return m;
}

static cfx_value layer_norm_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.layer_norm", a.v[0], get(self, "normalized_shape"),
                  own(self, "weight"), own(self, "bias"), get(self, "eps"));
}

static const char *layer_norm_repr(const cfx_module *m) {
    return cfx__format("%s, eps=%s, elementwise_affine=%s", text_of(m, "normalized_shape"),
                       text_of(m, "eps"), cfx_is_none(get(m, "weight")) ? "False" : "True");
}

cfx_module *cfx_nn_layer_norm_with(int n, const int64_t *shape, cfx_nn_norm_args a) {
    cfx_module *m = layer("LayerNorm", "torch.nn.modules.normalization.LayerNorm",
                          layer_norm_forward, "input");
    cfx_value sizes = cfx_ints_value(n, shape);
    m->extra_repr = layer_norm_repr;
    sizes.tag = CFX_TAG_TUPLE;
    cfx_module_set_attr(m, "normalized_shape", sizes);
    cfx_module_set_attr(m, "eps", cfx_float(a.eps ? a.eps : 1e-5));
    cfx_nn_parameter(m, "weight", a.no_affine ? NULL : cfx_full(sizes, 1.0));
    cfx_nn_parameter(m, "bias", a.no_affine ? NULL : cfx_full(sizes, 0.0));
    return m;
}

/* ---- pooling --------------------------------------------------------------------------------- */

static cfx_value max_pool2d_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.max_pool2d", a.v[0], get(self, "kernel_size"),
                  get(self, "stride"), get(self, "padding"), get(self, "dilation"),
                  get(self, "ceil_mode"));
}

static cfx_value avg_pool2d_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.avg_pool2d", a.v[0], get(self, "kernel_size"),
                  get(self, "stride"), get(self, "padding"), get(self, "ceil_mode"));
}

static const char *max_pool2d_repr(const cfx_module *m) {
    return cfx__format("kernel_size=%s, stride=%s, padding=%s, dilation=%s, ceil_mode=%s",
                       text_of(m, "kernel_size"), text_of(m, "stride"), text_of(m, "padding"),
                       text_of(m, "dilation"), text_of(m, "ceil_mode"));
}

static const char *avg_pool2d_repr(const cfx_module *m) {
    return cfx__format("kernel_size=%s, stride=%s, padding=%s", text_of(m, "kernel_size"),
                       text_of(m, "stride"), text_of(m, "padding"));
}

static cfx_module *pool(cfx_module *m, cfx_nn_pool_args a) {
    set_int(m, "kernel_size", a.kernel_size);
    set_int(m, "stride", a.stride ? a.stride : a.kernel_size);
    set_int(m, "padding", a.padding);
    set_int(m, "dilation", a.dilation ? a.dilation : 1);
    cfx_module_set_attr(m, "ceil_mode", cfx_bool(a.ceil_mode));
    return m;
}

cfx_module *cfx_nn_max_pool2d_with(cfx_nn_pool_args a) {
    cfx_module *m = layer("MaxPool2d", "torch.nn.modules.pooling.MaxPool2d", max_pool2d_forward,
                          "input");
    m->extra_repr = max_pool2d_repr;
    return pool(m, a);
}

cfx_module *cfx_nn_avg_pool2d_with(cfx_nn_pool_args a) {
    cfx_module *m = layer("AvgPool2d", "torch.nn.modules.pooling.AvgPool2d", avg_pool2d_forward,
                          "input");
    m->extra_repr = avg_pool2d_repr;
    return pool(m, a);
}

static cfx_value adaptive_avg_pool2d_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.adaptive_avg_pool2d", a.v[0], get(self, "output_size"));
}

static const char *adaptive_repr(const cfx_module *m) {
    return cfx__format("output_size=%s", text_of(m, "output_size"));
}

cfx_module *cfx_nn_adaptive_avg_pool2d(int64_t height, int64_t width) {
    cfx_module *m = layer("AdaptiveAvgPool2d", "torch.nn.modules.pooling.AdaptiveAvgPool2d",
                          adaptive_avg_pool2d_forward, "input");
    m->extra_repr = adaptive_repr;
    cfx_module_set_attr(m, "output_size", cfx_tuple(height, width));
    return m;
}
