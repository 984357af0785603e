/* layer: what one layer of torch.nn is.
 *
 * Invariant: one row is one layer. Its constructor is the Python signature in `options`; what the
 * caller gives is bound to it, `make` adds parameters and children, and every option that `make`
 * did not turn into something else is an attribute of the same name. */
#ifndef CFX__LAYER_H
#define CFX__LAYER_H

#include <cfx/layers.h>

#include "nn.h"

/* The options of a layer that is being made: bound to the row's signature. */
typedef struct cfx__layer_options {
    const struct cfx__layer *row;
    const cfx__signature *signature;
    cfx_value *values; /* one for each parameter of the signature */
    cfx_site at;
} cfx__layer_options;

typedef struct cfx__layer {
    const char *path;    /* below torch.nn.modules: "activation.ELU" */
    const char *options; /* the constructor's parameters, as Python writes them */
    /* extra_repr: {alpha} is the value, {mode!r} its repr, [groups] is ", groups=2" where the value
     * is not the default. */
    const char *shows;
    /* What forward calls: "torch.nn.functional.elu(input, alpha, inplace)"; names are inputs,
     * `training`, 'words', or what the module has. NULL: see `forward`. */
    const char *call;
    const char *inputs; /* the signature of forward; NULL: "input" */
    void (*make)(cfx_module *m, const cfx__layer_options *o);
    cfx_forward_fn *forward;
    int dims;         /* of the space it works in; 0: no matter */
    const char *each; /* options that become tuples of `dims` (paddings: 2 * dims) numbers */
    bool open;        /* no leaf: traced through */
} cfx__layer;

/* The tables, each ended by a row without a path. */
extern const cfx__layer cfx__layers_linear[], cfx__layers_conv[], cfx__layers_norm[],
    cfx__layers_pool[], cfx__layers_plain[], cfx__layers_sparse[], cfx__layers_rnn[],
    cfx__layers_attention[], cfx__layers_loss[];

/* "conv.Conv2d": where below torch.nn.modules PyTorch has the layer called `type`; NULL: it is none
 * of its layers. */
const char *cfx__layer_path(const char *type);

/* ---- for make -------------------------------------------------------------------------------- */

/* An option by name: one that the row's signature has. */
cfx_value cfx__layer_option(const cfx__layer_options *o, const char *name);
int64_t cfx__layer_option_int(const cfx__layer_options *o, const char *name);
double cfx__layer_option_float(const cfx__layer_options *o, const char *name);
bool cfx__layer_option_on(const cfx__layer_options *o, const char *name);
/* An option as a tuple of n numbers: one number stands for all. Bad, with an error, otherwise. */
cfx_value cfx__layer_option_tuple(const cfx__layer_options *o, const char *name, int n);
/* Records PyTorch's words about an option, at the line of the caller. */
#define cfx__layer_fail(o, kind, ...) cfx_fail(CFX_##kind##_ERROR, (o)->at, __VA_ARGS__)

/* A parameter of float32 drawn from U(-bound, bound), or full of a number, of these sizes. */
cfx_tensor *cfx__layer_init_uniform(int ndim, const int64_t *shape, double bound);
cfx_tensor *cfx__layer_init_full(int ndim, const int64_t *shape, double value);
/* Kaiming's uniform numbers as PyTorch's layers draw them (a = sqrt(5)). */
cfx_tensor *cfx__layer_init_kaiming(int ndim, const int64_t *shape);
/* Xavier's uniform numbers for a matrix. */
cfx_tensor *cfx__layer_init_xavier(int64_t rows, int64_t columns);

/* ---- for forward ----------------------------------------------------------------------------- */

/* Calls torch's function `name` at the line of the module's caller. */
#define cfx__layer_torch(name, ...) cfx_py_from(cfx__site(), name, CFX_ARGS(__VA_ARGS__))
/* What self has by that name as its forward reads it: traced while tracing. */
static inline cfx_value cfx__layer_attr(cfx_module *self, const char *name) {
    return cfx_attr_value_from(cfx__site(), self, name);
}
/* A plain attribute as a number. */
static inline int64_t cfx__layer_attr_int(cfx_module *self, const char *name) {
    return cfx_integer(cfx_module_attr(self, name));
}
static inline bool cfx__layer_attr_is(cfx_module *self, const char *name, const char *text) {
    const char *have = cfx_text(cfx_module_attr(self, name));
    return have && !strcmp(have, text);
}
/* The call that a row describes: the forward of most layers. */
cfx_value cfx__layer_call(cfx_module *self, cfx_args a);

#endif
