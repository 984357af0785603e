/* Containers: modules by number or name, and lists of parameters. */
#include <cfx/layers.h>

#include "../base/given.h"
#include "nn.h"

static cfx_value sequential_forward(cfx_module *self, cfx_args a) {
    cfx_value v = a.v[0];
    for (int i = 0; i < cfx_module_count(self) && !cfx_is_bad(v); i++)
        v = cfx_forward_value_from(cfx__site(), cfx_module_child(self, i), CFX_ARGS(v));
    return v;
}

static cfx_module *container(const char *path, cfx_forward_fn *forward) {
    cfx_module *m = cfx_module_new_n(strrchr(path, '.') + 1, forward, "input");
    m->path = path;
    return m;
}

static cfx_module *numbered(cfx_module *m, int n, cfx_module *const *modules) {
    if (n > 0 && !cfx__given((cfx_site){0}, modules, "list of modules"))
        return &cfx__module_bad;
    for (int i = 0; i < n; i++)
        cfx_nn_append(m, modules[i]);
    return m;
}

cfx_module *cfx_nn_append(cfx_module *list, cfx_module *child) {
    size_t mark = cfx_scope_open();
    cfx_nn_add(list, cfx__text_format("%d", cfx_module_count(list)), child);
    cfx_scope_close(mark);
    return child;
}

cfx_module *cfx_nn_sequential_of(int n, cfx_module *const *modules) {
    return numbered(container("torch.nn.modules.container.Sequential", sequential_forward), n,
                    modules);
}

cfx_module *cfx_nn_module_list(int n, cfx_module *const *modules) {
    return numbered(container("torch.nn.modules.container.ModuleList", NULL), n, modules);
}

cfx_module *cfx_nn_module_dict(void) {
    return container("torch.nn.modules.container.ModuleDict", NULL);
}

/* "(0): Parameter containing: [torch.float32 of size 2x3]", a line each; a ParameterDict names the
 * type of tensor in the old way. */
static const char *parameters_repr(const cfx_module *m) {
    static const char *const old[CFX_DTYPE_END] = {[CFX_F16] = "HalfTensor",
                                                     [CFX_F32] = "FloatTensor",
                                                     [CFX_F64] = "DoubleTensor",
                                                     [CFX_BF16] = "BFloat16Tensor",
                                                     [CFX_I64] = "LongTensor"};
    bool dict = !strcmp(m->type, "ParameterDict");
    cfx__text t = {0};
    for (int64_t i = 0; i < m->parameters->len; i++) {
        const cfx_tensor *p = cfx_as_tensor(m->parameters->entries[i].value);
        const char *type = dict && p && old[p->dtype] ? old[p->dtype] : NULL;
        cfx__text_printf(&t, "%s  (%s): Parameter containing: [torch.%s of size ", i ? "\n" : "",
                         cfx_text(m->parameters->entries[i].key),
                         type ? type : cfx_dtype_name(p ? p->dtype : CFX_F32));
        for (int d = 0; p && d < p->ndim; d++)
            cfx__text_printf(&t, "%s%lld", d ? "x" : "", (long long)p->shape[d]);
        cfx__text_putc(&t, ']');
    }
    return t.len ? cfx__text_take(&t) : "";
}

cfx_module *cfx_nn_parameter_list(int n, cfx_tensor *const *tensors) {
    if (n > 0 && !cfx__given((cfx_site){0}, tensors, "list of parameters"))
        return &cfx__module_bad;
    cfx_module *m = container("torch.nn.modules.container.ParameterList", NULL);
    m->extra_repr = parameters_repr;
    for (int i = 0; i < n; i++)
        cfx_nn_parameter(m, cfx__text_format("%d", i), tensors[i]);
    return m;
}

cfx_module *cfx_nn_parameter_dict(void) {
    cfx_module *m = container("torch.nn.modules.container.ParameterDict", NULL);
    m->extra_repr = parameters_repr;
    return m;
}
