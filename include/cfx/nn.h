/* Modules: numbers get names.
 *
 * A module has a type, parameters, buffers, children and a forward function. The same forward runs,
 * traces, exports and differentiates. Modules belong to the scope like any result; a parent keeps
 * its children, and what a module holds it keeps.
 *
 *     static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
 *         return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
 *     }
 *     cfx_module *mlp = cfx_module_new("MLP", forward, "x");
 *     cfx_nn_add(mlp, "fc1", cfx_nn_linear(4, 8)); */
#ifndef CFX_NN_H
#define CFX_NN_H

#include <cfx/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_module cfx_module;
typedef struct cfx_graph cfx_graph;
typedef struct cfx_hook_entry cfx_hook_entry;

/* The general form of a forward function: arguments bound to the signature, one value each. */
typedef cfx_value cfx_forward_fn(cfx_module *self, cfx_args args);

/* A module. Read freely what is here, change it through functions. */
struct cfx_module {
    cfx_obj head;
    const char *type;       /* "Linear"; how it prints and what a graph calls it */
    const char *path; /* "torch.nn.modules.linear.Linear", or the type alone for user modules */
    const char *name;       /* its name in its parent, "" for a root; borrowed from the parent */
    const char *signature;  /* "x, mask=None" */
    cfx_dict *parameters;   /* name to tensor, or None where registered without one */
    cfx_dict *buffers;
    cfx_list *children;     /* of module entries: see cfx_module_child */
    cfx_graph *graph;       /* not NULL: a GraphModule, run by its graph */
    bool training;
    bool leaf;              /* a layer of cfx's own: traced as one call_module */
    void *user;             /* for forward functions of the caller's */
    struct cfx__module *own_;
};

/* ---- make ---------------------------------------------------------------------------------- */

/* The forward functions that cfx_module_new takes, by number of tensors. */
typedef cfx_tensor *cfx_forward_1(cfx_module *self, cfx_tensor *a);
typedef cfx_tensor *cfx_forward_2(cfx_module *self, cfx_tensor *a, cfx_tensor *b);
typedef cfx_tensor *cfx_forward_3(cfx_module *self, cfx_tensor *a, cfx_tensor *b, cfx_tensor *c);

/* A module of your own: its type name, forward and signature ("x, mask=None, *args, **kwargs", with
 * annotations as in Python: "x : torch.Tensor"; "-> torch.Tensor" may follow). Scope. */
CFX_API cfx_module *cfx_module_new_args(const char *type, cfx_forward_fn *forward,
                                        const char *signature);
CFX_API cfx_module *cfx_module_new_1(const char *type, cfx_forward_1 *forward,
                                     const char *signature);
CFX_API cfx_module *cfx_module_new_2(const char *type, cfx_forward_2 *forward,
                                     const char *signature);
CFX_API cfx_module *cfx_module_new_3(const char *type, cfx_forward_3 *forward,
                                     const char *signature);
#ifdef __cplusplus
extern "C++" {
inline cfx_module *cfx_module_new(const char *t, cfx_forward_fn *f, const char *s) {
    return cfx_module_new_args(t, f, s);
}
inline cfx_module *cfx_module_new(const char *t, cfx_forward_1 *f, const char *s) {
    return cfx_module_new_1(t, f, s);
}
inline cfx_module *cfx_module_new(const char *t, cfx_forward_2 *f, const char *s) {
    return cfx_module_new_2(t, f, s);
}
inline cfx_module *cfx_module_new(const char *t, cfx_forward_3 *f, const char *s) {
    return cfx_module_new_3(t, f, s);
}
}
#else
#define cfx_module_new(type, forward, signature)                                                   \
    _Generic((forward),                                                                            \
        cfx_forward_fn *: cfx_module_new_args,                                                     \
        cfx_forward_1 *: cfx_module_new_1,                                                         \
        cfx_forward_2 *: cfx_module_new_2,                                                         \
        cfx_forward_3 *: cfx_module_new_3)(type, forward, signature)
#endif

/* Adds a child; keeps it. Replaces one of the same name. Returns the child. */
CFX_API cfx_module *cfx_nn_add(cfx_module *parent, const char *name, cfx_module *child);
/* Adds a parameter; keeps it. NULL registers the name without a tensor. */
CFX_API void cfx_nn_parameter(cfx_module *m, const char *name, cfx_tensor *value);
/* Adds a buffer; keeps it. Those that are not persistent stay out of the state dict. */
CFX_API void cfx_nn_buffer(cfx_module *m, const char *name, cfx_tensor *value, bool persistent);

/* ---- look ---------------------------------------------------------------------------------- */

/* The number of children, and child i in order of insertion; borrowed. */
CFX_API int cfx_module_count(const cfx_module *m);
CFX_API cfx_module *cfx_module_child(const cfx_module *m, int i);
/* The module at a dotted path ("layers.0.attn"; "" is m itself); borrowed. NULL, without an error,
 * when there is none. */
CFX_API cfx_module *cfx_module_find(const cfx_module *m, const char *path);
/* The parameter, buffer or attribute at a dotted path; borrowed. None when there is none. */
CFX_API cfx_value cfx_module_attr(const cfx_module *m, const char *path);
/* Sets the parameter, buffer or plain attribute at a dotted path; keeps the value. Parents that are
 * missing are made. */
CFX_API void cfx_module_set_attr(cfx_module *m, const char *path, cfx_value value);
/* Removes the child, parameter, buffer or attribute at a path; whether there was one. */
CFX_API bool cfx_module_remove(cfx_module *m, const char *path);
/* What print(module) shows; scope. */
CFX_API const char *cfx_module_str(const cfx_module *m);
/* Calls visit(path, module, user) for m and everything below, parents first, each module once. */
CFX_API void cfx_module_walk(cfx_module *m,
                             void (*visit)(const char *path, cfx_module *m, void *user),
                             void *user);

/* ---- call ---------------------------------------------------------------------------------- */

/* Calls a child by name, with hooks, in a scope of its own: only the result gets out. */
CFX_API cfx_value cfx_call_at(cfx_where at, cfx_module *self, const char *child, cfx_args args);
/* Calls the module itself, as model(x) does. */
CFX_API cfx_value cfx_forward_at(cfx_where at, cfx_module *m, cfx_args args);
/* The same for results of one tensor. */
CFX_API cfx_tensor *cfx_call_tensor_at(cfx_where at, cfx_module *self, const char *child,
                                       cfx_args args);
CFX_API cfx_tensor *cfx_forward_tensor_at(cfx_where at, cfx_module *m, cfx_args args);
#define cfx_call(self, child, ...) cfx_call_tensor_at(CFX_HERE, self, child, CFX_ARGS(__VA_ARGS__))
#define cfx_call_value(self, child, ...) cfx_call_at(CFX_HERE, self, child, CFX_ARGS(__VA_ARGS__))
#define cfx_forward(m, ...) cfx_forward_tensor_at(CFX_HERE, m, CFX_ARGS(__VA_ARGS__))
#define cfx_forward_value(m, ...) cfx_forward_at(CFX_HERE, m, CFX_ARGS(__VA_ARGS__))
/* A parameter or buffer of self by name, as self.weight is read in a forward; borrowed. */
#define cfx_attr(self, name) cfx_attr_at(CFX_HERE, self, name)
CFX_API cfx_tensor *cfx_attr_at(cfx_where at, cfx_module *self, const char *name);

#ifdef __cplusplus
}
#endif
#endif
