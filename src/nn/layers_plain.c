/* Layers without parameters, embeddings and containers. */
#include <cfx/layers.h>
#include <cfx/ops.h>

#include "nn.h"

static cfx_module *layer(const char *path, cfx_forward_fn *forward) {
    cfx_module *m = cfx_module_new_args(strrchr(path, '.') + 1, forward, "input");
    m->path = path;
    m->leaf = true;
    return m;
}

/* ---- activations ----------------------------------------------------------------------------- */

/* The function an activation is, with `inplace` where it can be asked for. */
static cfx_value in_place_forward(cfx_module *self, cfx_args a) {
    const char *name = cfx_text(cfx_module_attr(self, "function_"));
    return cfx_py(name, a.v[0], CFX_KW(inplace, cfx_module_attr(self, "inplace")));
}

static const char *in_place_repr(const cfx_module *m) {
    return cfx_integer(cfx_module_attr(m, "inplace")) ? "inplace=True" : "";
}

static cfx_module *in_place_layer(const char *path, const char *function, bool inplace) {
    cfx_module *m = layer(path, in_place_forward);
    m->extra_repr = in_place_repr;
    cfx_module_set_attr(m, "inplace", cfx_bool(inplace));
    cfx_module_set_attr(m, "function_", cfx_string_value(function));
    return m;
}

cfx_module *cfx_nn_relu_with(cfx_nn_activation_args a) {
    return in_place_layer("torch.nn.modules.activation.ReLU", "torch.nn.functional.relu",
                          a.inplace);
}

cfx_module *cfx_nn_silu_with(cfx_nn_activation_args a) {
    return in_place_layer("torch.nn.modules.activation.SiLU", "torch.nn.functional.silu",
                          a.inplace);
}

static cfx_value sigmoid_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("torch.sigmoid", a.v[0]);
}

static cfx_value tanh_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("torch.tanh", a.v[0]);
}

static cfx_value gelu_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("torch.nn.functional.gelu", a.v[0]);
}

static cfx_value identity_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return a.v[0];
}

static cfx_value flatten_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("Tensor.flatten", a.v[0], 1, -1);
}

static const char *gelu_repr(const cfx_module *m) {
    (void)m;
    return "approximate='none'";
}

static const char *flatten_repr(const cfx_module *m) {
    (void)m;
    return "start_dim=1, end_dim=-1";
}

cfx_module *cfx_nn_sigmoid(void) {
    return layer("torch.nn.modules.activation.Sigmoid", sigmoid_forward);
}

cfx_module *cfx_nn_tanh(void) { return layer("torch.nn.modules.activation.Tanh", tanh_forward); }

cfx_module *cfx_nn_gelu(void) {
    cfx_module *m = layer("torch.nn.modules.activation.GELU", gelu_forward);
    m->extra_repr = gelu_repr;
    return m;
}

cfx_module *cfx_nn_identity(void) {
    return layer("torch.nn.modules.linear.Identity", identity_forward);
}

cfx_module *cfx_nn_flatten(void) {
    cfx_module *m = layer("torch.nn.modules.flatten.Flatten", flatten_forward);
    m->extra_repr = flatten_repr;
    return m;
}

static cfx_value softmax_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.softmax", a.v[0], cfx_module_attr(self, "dim"));
}

static const char *softmax_repr(const cfx_module *m) {
    return cfx__format("dim=%s", cfx_value_repr(cfx_module_attr(m, "dim")));
}

cfx_module *cfx_nn_softmax(int64_t dim) {
    cfx_module *m = layer("torch.nn.modules.activation.Softmax", softmax_forward);
    m->extra_repr = softmax_repr;
    cfx_module_set_attr(m, "dim", cfx_int(dim));
    return m;
}

/* ---- dropout --------------------------------------------------------------------------------- */

static cfx_value dropout_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.dropout", a.v[0], cfx_module_attr(self, "p"), self->training,
                  cfx_module_attr(self, "inplace"));
}

static const char *dropout_repr(const cfx_module *m) {
    return cfx__format("p=%s, inplace=%s", cfx_value_repr(cfx_module_attr(m, "p")),
                       cfx_value_repr(cfx_module_attr(m, "inplace")));
}

cfx_module *cfx_nn_dropout_with(cfx_nn_dropout_args a) {
    cfx_module *m = layer("torch.nn.modules.dropout.Dropout", dropout_forward);
    if (!(a.p >= 0 && a.p <= 1))
        cfx_fail(CFX_VALUE_ERROR, (cfx_where){0},
                 "dropout probability has to be between 0 and 1, but got %s",
                 cfx_value_repr(cfx_float(a.p)));
    m->extra_repr = dropout_repr;
    cfx_module_set_attr(m, "p", cfx_float(a.p ? a.p : 0.5));
    cfx_module_set_attr(m, "inplace", cfx_bool(a.inplace));
    return m;
}

/* ---- embedding ------------------------------------------------------------------------------- */

static cfx_value embedding_forward(cfx_module *self, cfx_args a) {
    return cfx_py("torch.nn.functional.embedding", a.v[0],
                  cfx_attr_value_at((cfx_where){0}, self, "weight"));
}

static const char *embedding_repr(const cfx_module *m) {
    return cfx__format("%s, %s", cfx_value_repr(cfx_module_attr(m, "num_embeddings")),
                       cfx_value_repr(cfx_module_attr(m, "embedding_dim")));
}

cfx_module *cfx_nn_embedding(int64_t num_embeddings, int64_t embedding_dim) {
    cfx_module *m = layer("torch.nn.modules.sparse.Embedding", embedding_forward);
    m->extra_repr = embedding_repr;
    cfx_module_set_attr(m, "num_embeddings", cfx_int(num_embeddings));
    cfx_module_set_attr(m, "embedding_dim", cfx_int(embedding_dim));
    cfx_nn_parameter(m, "weight", cfx_randn(num_embeddings, embedding_dim));
    return m;
}

/* ---- containers ------------------------------------------------------------------------------ */

static cfx_value sequential_forward(cfx_module *self, cfx_args a) {
    cfx_value v = a.v[0];
    for (int i = 0; i < cfx_module_count(self); i++)
        v = cfx_call_at((cfx_where){0}, self, cfx_module_child_name(self, i), CFX_ARGS(v));
    return v;
}

static cfx_value not_called(cfx_module *self, cfx_args a) {
    (void)a;
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_where){0},
             "Module [%s] is missing the required \"forward\" function", self->type);
    return cfx_bad();
}

static cfx_module *numbered(const char *path, cfx_forward_fn *forward, int n,
                            cfx_module *const *modules) {
    cfx_module *m = layer(path, forward);
    m->leaf = false;
    for (int i = 0; i < n; i++)
        cfx_nn_add(m, cfx__format("%d", i), modules[i]);
    return m;
}

cfx_module *cfx_nn_sequential_of(int n, cfx_module *const *modules) {
    return numbered("torch.nn.modules.container.Sequential", sequential_forward, n, modules);
}

cfx_module *cfx_nn_module_list(int n, cfx_module *const *modules) {
    return numbered("torch.nn.modules.container.ModuleList", not_called, n, modules);
}

cfx_module *cfx_nn_module_dict(void) {
    return numbered("torch.nn.modules.container.ModuleDict", not_called, 0, NULL);
}
