/* Modules: numbers get names.
 *
 * A module has a type, parameters, buffers, children and a forward function. The same forward runs,
 * traces, exports and differentiates. Modules belong to the scope like any result; a parent keeps
 * its children, and what a module holds it keeps. A module is for one thread at a time, for hooks
 * and buffers change as it runs; threads that share a model share a program, or have copies.
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

typedef struct cfx_graph cfx_graph;

/* The general form of a forward function: arguments bound to the signature, one value for each name
 * in it (a tuple for *args, a dict for **kwargs). The result is a value of the current scope. */
typedef cfx_value cfx_forward_fn(cfx_module *self, cfx_args args);

/* A module. Read freely what is here, change it through functions; the fields marked "set" may be
 * set by whoever made the module. */
struct cfx_module {
    cfx_obj head;
    const char *type;      /* "Linear"; how it prints and what a graph calls it */
    const char *path;      /* set: "torch.nn.modules.linear.Linear"; the name given for yours */
    const char *name;      /* its name in the parent it was added to last, "" for a root */
    const char *signature; /* "x, mask=None" */
    cfx_dict *parameters;  /* name to tensor, or to None where registered without one */
    cfx_dict *buffers;
    cfx_dict *attrs;       /* plain attributes: constants of any kind */
    cfx_graph *graph;      /* not NULL: a GraphModule, run by its graph */
    bool training;         /* true at first, as in PyTorch; see cfx_module_train */
    bool leaf;             /* set: traced as one call_module; a layer of cfx's own */
    bool impure;           /* set: has effects beside its result, so a call is never dead */
    void *user;            /* set: for forward functions of yours; see cfx_module_keep_object */
    const char *(*extra_repr)(const cfx_module *self); /* set: "in_features=4, ..."; scope */
    struct cfx__module *own_;
};

/* ---- make ------------------------------------------------------------------------------------ */

/* The forward functions that cfx_module_new takes, by number of tensors. */
typedef cfx_tensor *cfx_forward_1(cfx_module *self, cfx_tensor *a);
typedef cfx_tensor *cfx_forward_2(cfx_module *self, cfx_tensor *a, cfx_tensor *b);
typedef cfx_tensor *cfx_forward_3(cfx_module *self, cfx_tensor *a, cfx_tensor *b, cfx_tensor *c);

/* A module of your own: its type name ("Net", or its path with it: "my.models.Net"), forward and
 * signature ("x, mask=None, *args, **kwargs", with annotations as in Python: "x : torch.Tensor";
 * "-> torch.Tensor" may follow). A forward that is NULL makes a module that only holds others, as
 * nn.Module() does: its calls fail. Scope. Bad, with an error, where the signature cannot be
 * read. */
CFX_API cfx_module *cfx_module_new_n(const char *type, cfx_forward_fn *forward,
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
    return cfx_module_new_n(t, f, s);
}
inline cfx_module *cfx_module_new(const char *t, decltype(nullptr), const char *s) {
    return cfx_module_new_n(t, nullptr, s);
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
        cfx_forward_fn *: cfx_module_new_n,                                                        \
        void *: cfx_module_new_n,                                                                  \
        cfx_forward_1 *: cfx_module_new_1,                                                         \
        cfx_forward_2 *: cfx_module_new_2,                                                         \
        cfx_forward_3 *: cfx_module_new_3)(type, forward, signature)
#endif

/* Adds a child; keeps it. Replaces one of the same name. Returns the child. PyTorch's errors for a
 * name that is empty, has a dot in it, or is an attribute already. */
CFX_API cfx_module *cfx_nn_add(cfx_module *parent, const char *name, cfx_module *child);
/* Adds a parameter; keeps it. NULL registers the name without a tensor. Where it can have one, its
 * gradient is asked for, as nn.Parameter does; a result of recorded calls is refused. */
CFX_API void cfx_nn_parameter(cfx_module *m, const char *name, cfx_tensor *value);
/* Adds a buffer; keeps it. Those that are not persistent stay out of the state dict. */
CFX_API void cfx_nn_buffer(cfx_module *m, const char *name, cfx_tensor *value, bool persistent);

/* Keeps an object of the caller's (cfx/object.h) with the module, in the place of the one kept
 * before, and lets `user` be its data: what the module carries is freed by the object's type when
 * the last of the module and its copies is gone. None: keeps none. */
CFX_API void cfx_module_keep_object(cfx_module *m, cfx_value object);
/* The object that is kept, borrowed, or None. */
CFX_API cfx_value cfx_module_object(const cfx_module *m);

/* A deep copy, as copy.deepcopy makes it: tensors, children, attributes, hooks and, of a
 * GraphModule, the graph. What is shared inside m is shared inside the copy. Scope. */
CFX_API cfx_module *cfx_module_copy(const cfx_module *m);

/* ---- look ------------------------------------------------------------------------------------ */

/* The number of children; child i in order of insertion and its name there, borrowed; NULL past the
 * end. */
CFX_API int cfx_module_count(const cfx_module *m);
CFX_API cfx_module *cfx_module_child(const cfx_module *m, int i);
CFX_API const char *cfx_module_child_name(const cfx_module *m, int i);
/* The module at a dotted path ("layers.0.attn"; "" is m itself); borrowed. NULL, without an error,
 * when there is none. */
CFX_API cfx_module *cfx_module_find(const cfx_module *m, const char *path);
/* The parameter, buffer, attribute or child at a dotted path; borrowed. None when there is none. */
CFX_API cfx_value cfx_module_attr(const cfx_module *m, const char *path);
/* Whether there is something at a dotted path, be it None. */
CFX_API bool cfx_module_has(const cfx_module *m, const char *path);
/* Sets the parameter or buffer that is at a dotted path, or else a plain attribute (a child, where
 * the value is a module); keeps the value. Parents that are missing are made. */
CFX_API void cfx_module_set_attr(cfx_module *m, const char *path, cfx_value value);
/* Removes the child, parameter, buffer or attribute at a path; whether there was one. */
CFX_API bool cfx_module_remove(cfx_module *m, const char *path);
/* What print(module) shows; scope. */
CFX_API const char *cfx_module_str(const cfx_module *m);
/* Calls visit(path, module, user) for m and everything below, parents first, each module once. */
typedef void cfx_visit_fn(const char *path, cfx_module *m, void *user);
CFX_API void cfx_module_walk(cfx_module *m, cfx_visit_fn *visit, void *user);

/* Name to tensor, in PyTorch's order, as a new dict; scope. The first two list each tensor once,
 * the state dict every name there is; buffers that are not persistent are not in it. */
CFX_API cfx_dict *cfx_module_named_parameters(const cfx_module *m);
CFX_API cfx_dict *cfx_module_named_buffers(const cfx_module *m);
CFX_API cfx_dict *cfx_module_state_dict(const cfx_module *m);
/* The same with a prefix before each name ("encoder.") and, where `recurse` is false, of m alone.
 */
typedef enum cfx_named { CFX_NAMED_PARAMETERS = 1, CFX_NAMED_BUFFERS, CFX_NAMED_STATE } cfx_named;
CFX_API cfx_dict *cfx_module_named(const cfx_module *m, cfx_named what, const char *prefix,
                                   bool recurse);
/* Dotted path ("" is m itself) to module, each once; scope. */
CFX_API cfx_dict *cfx_module_named_modules(cfx_module *m);
/* Copies the tensors of a state dict into those of the module (a fake one is replaced, and the
 * tensor kept). Names that are missing or too many are an error unless `strict` is false, a shape
 * that differs always is: PyTorch's message names them all, and nothing is changed. */
CFX_API bool cfx_module_load_state_dict_from(cfx_site at, cfx_module *m, const cfx_dict *state,
                                             bool strict);
#define cfx_module_load_state_dict(m, state, strict)                                               \
    cfx_module_load_state_dict_from(CFX_HERE, m, state, strict)
/* The names that a state dict misses and those it has too many: (missing, unexpected), two lists;
 * scope. */
CFX_API cfx_value cfx_module_state_keys(const cfx_module *m, const cfx_dict *state);

/* ---- the whole tree -------------------------------------------------------------------------- */

/* Calls fn(module, user) for everything below m, then for m: model.apply(fn). */
typedef void cfx_apply_fn(cfx_module *m, void *user);
CFX_API void cfx_module_apply(cfx_module *m, cfx_apply_fn *fn, void *user);
/* Converts all floating-point parameters, gradients and buffers: model.to(torch.float64). The
 * tensors stay the same objects. */
CFX_API void cfx_module_to(cfx_module *m, cfx_dtype dtype);
/* Brings all parameters, gradients and buffers to a device: model.to("cuda"). The tensors stay the
 * same objects. An error where there is no such device. */
CFX_API void cfx_module_to_device(cfx_module *m, const char *device);
/* Asks for gradients of all parameters, or no longer: model.requires_grad_(on). */
CFX_API void cfx_module_requires_grad(cfx_module *m, bool on);
/* Forgets the gradients of all parameters. */
CFX_API void cfx_module_zero_grad(cfx_module *m);
/* The number of elements of all parameters, each counted once. */
CFX_API int64_t cfx_module_numel(const cfx_module *m);
/* Sets `training` here and in everything below: model.train(), model.eval(). */
CFX_API void cfx_module_train(cfx_module *m, bool training);

/* ---- hooks ----------------------------------------------------------------------------------- */

/* What a hook sees of a call. */
typedef struct cfx_event {
    cfx_module *module;
    cfx_args args; /* as given by the caller; keywords in args.kw, if the hook asked for them */
    cfx_value out; /* the result; None in a pre-hook, and after a forward that failed */
    void *user;
    cfx_value grad_in, grad_out; /* in backward hooks: a tuple, None where no gradient is */
    cfx_node *node;              /* in hooks on nodes of a graph: the node; NULL elsewhere */
} cfx_event;

/* A hook returns CFX_NONE to leave things as they are. Otherwise its value takes the place of
 *   the positional arguments (pre-hook): a tuple, or one value for one argument; with_kwargs: a
 *       tuple of both, (args, kwargs);
 *   the result (forward hook), and later hooks see it;
 *   grad_out (backward pre-hook) or grad_in (backward hook): a tuple as long. */
typedef cfx_value cfx_hook_fn(cfx_event *e);
/* The handle of a hook, to take it off with. It belongs to the scope; the module keeps the hook. */
typedef struct cfx_hook_handle cfx_hook_handle;

typedef enum cfx_hook_kind {
    CFX_FORWARD_PRE,
    CFX_FORWARD,
    CFX_BACKWARD_PRE,
    CFX_BACKWARD,
    CFX_NODE /* a node of a GraphModule: see cfx_node_hook in run.h */
} cfx_hook_kind;

typedef struct cfx_hook_options {
    bool prepend;     /* before the hooks there are */
    bool with_kwargs; /* args.kw is filled */
    bool always_call; /* forward hooks: also after an error in forward or in another hook */
} cfx_hook_options;

/* Calls fn at each call of the module at a path below m ("" is m itself):
 *     cfx_hook(m, "fc1", show, NULL)    cfx_hook(m, "fc1", show, NULL, .prepend = true)
 * Hooks run in the order they were added, global ones before a module's own, and what is added or
 * taken off meanwhile counts from the next call on. NULL, with an error, where there is no such
 * module. Backward hooks run when the gradient of all that the module gave (pre), or of all that it
 * took, is there. */
CFX_API cfx_hook_handle *cfx_hook_from(cfx_site at, cfx_hook_kind kind, cfx_module *m,
                                       const char *path, cfx_hook_fn *fn, void *user,
                                       cfx_hook_options options);
#define cfx_pre_hook(m, path, fn, ...) CFX_HOOK_(CFX_FORWARD_PRE, m, path, fn, __VA_ARGS__, )
#define cfx_hook(m, path, fn, ...) CFX_HOOK_(CFX_FORWARD, m, path, fn, __VA_ARGS__, )
#define cfx_backward_pre_hook(m, path, fn, ...)                                                    \
    CFX_HOOK_(CFX_BACKWARD_PRE, m, path, fn, __VA_ARGS__, )
#define cfx_backward_hook(m, path, fn, ...) CFX_HOOK_(CFX_BACKWARD, m, path, fn, __VA_ARGS__, )
#define CFX_HOOK_(kind, m, path, fn, user, ...)                                                    \
    cfx_hook_from(CFX_HERE, kind, m, path, fn, user, CFX_OPTIONS(cfx_hook_options, __VA_ARGS__))
/* The same for every module of this thread: cfx_global_hook(CFX_FORWARD, fn, user). */
CFX_API cfx_hook_handle *cfx_global_hook_from(cfx_site at, cfx_hook_kind kind, cfx_hook_fn *fn,
                                              void *user, cfx_hook_options options);
#define cfx_global_hook(kind, fn, ...) CFX_GLOBAL_HOOK_(kind, fn, __VA_ARGS__, )
#define CFX_GLOBAL_HOOK_(kind, fn, user, ...)                                                      \
    cfx_global_hook_from(CFX_HERE, kind, fn, user, CFX_OPTIONS(cfx_hook_options, __VA_ARGS__))
/* Takes a hook off; a second time does nothing. */
CFX_API void cfx_hook_remove(cfx_hook_handle *handle);
/* The number of hooks on m itself, of all kinds. */
CFX_API int cfx_hook_count(const cfx_module *m);

/* ---- call ------------------------------------------------------------------------------------ */

/* Calls the child at a dotted path, with hooks, in a scope of its own: only the result gets out. */
CFX_API cfx_value cfx_call_value_from(cfx_site at, cfx_module *self, const char *child,
                                      cfx_args args);
/* Calls the module itself, as model(x) does. */
CFX_API cfx_value cfx_forward_value_from(cfx_site at, cfx_module *m, cfx_args args);
/* The same for results of one tensor. */
CFX_API cfx_tensor *cfx_call_from(cfx_site at, cfx_module *self, const char *child, cfx_args args);
CFX_API cfx_tensor *cfx_forward_from(cfx_site at, cfx_module *m, cfx_args args);
#define cfx_call(self, child, ...) cfx_call_from(CFX_HERE, self, child, CFX_ARGS(__VA_ARGS__))
#define cfx_call_value(self, child, ...)                                                           \
    cfx_call_value_from(CFX_HERE, self, child, CFX_ARGS(__VA_ARGS__))
#define cfx_forward(m, ...) cfx_forward_from(CFX_HERE, m, CFX_ARGS(__VA_ARGS__))
#define cfx_forward_value(m, ...) cfx_forward_value_from(CFX_HERE, m, CFX_ARGS(__VA_ARGS__))
/* A parameter or buffer of self by name, as self.weight is read in a forward; borrowed. NULL where
 * it is None. cfx_attr_value is the same for attributes of any kind. */
#define cfx_attr(self, name) cfx_attr_from(CFX_HERE, self, name)
#define cfx_attr_value(self, name) cfx_attr_value_from(CFX_HERE, self, name)
CFX_API cfx_tensor *cfx_attr_from(cfx_site at, cfx_module *self, const char *name);
CFX_API cfx_value cfx_attr_value_from(cfx_site at, cfx_module *self, const char *name);

#ifdef __cplusplus
}
#endif
#endif
