/* nn: where numbers get names.
 *
 * Invariant: a module keeps its children, tensors and attributes; a name is in at most one of its
 * parameters, buffers, attributes and children. Modules form a tree or share branches; a module
 * below itself is refused when it is added. NULL is no module, cfx__module_bad that of a failed
 * call: every function takes them, changes nothing and records an error. A module whose signature
 * could not be read is a module whose calls fail (own_->signature is NULL). */
#ifndef CFX__NN_H
#define CFX__NN_H

#include <cfx/grad.h>
#include <cfx/nn.h>

#include "../dispatch/dispatch.h"

/* ---- signatures ----------------------------------------------------------------------------- */

typedef enum cfx__signature_param_kind {
    CFX__POSITIONAL,   /* x */
    CFX__VAR_ARGS,     /* *args */
    CFX__KEYWORD_ONLY, /* after *args or a bare star */
    CFX__VAR_KEYWORDS  /* **kwargs */
} cfx__signature_param_kind;

typedef struct cfx__signature_param {
    const char *name; /* without stars */
    const char *type; /* the annotation, or NULL */
    cfx__signature_param_kind kind;
    bool has_default;
    cfx_value fallback; /* counted by the signature */
} cfx__signature_param;

typedef struct cfx__signature {
    int n, npositional, nrequired; /* required: positional ones without a default */
    cfx__signature_param *params;
    const char *returns; /* the annotation of the result, or NULL */
    bool has_keyword_only;
    cfx__arena arena;
} cfx__signature;

/* Reads "x, y : int = 2, *args, **kwargs -> torch.Tensor". NULL, with an error that shows the text
 * and the column, when it is malformed. The caller owns the result. */
cfx__signature *cfx__signature_parse(const char *text);
void cfx__signature_free(cfx__signature *s);
/* Binds arguments as Python does, one value for each parameter: *args as a tuple, **kwargs as a
 * dict. Values are borrowed or belong to the scope. False, with Python's words about fn
 * ("MLP.forward"), when they do not fit. `self`: fn has a self, which Python counts. */
bool cfx__signature_bind(const cfx__signature *s, cfx_site at, const char *fn, bool self,
                         cfx_args a, cfx_value *out);

/* ---- modules -------------------------------------------------------------------------------- */

struct cfx_hook_handle {
    cfx_obj head;
    cfx_module *module; /* borrowed; NULL: a global one, or taken off, or the module is gone */
    bool on;            /* it is in a list */
    bool stays;         /* a copy of the module does not get it: `user` is not the caller's */
    cfx_hook_kind kind;
    cfx_hook_fn *fn;
    void *user;
    cfx_hook_options options;
    cfx_site at; /* where it was put on */
    const char *selector; /* CFX_NODE: which nodes; as long as the module */
};

typedef VEC(cfx_hook_handle *) cfx__hook_list; /* counted, in order, all kinds in one list */

/* What the graph room does for a module that has a graph. */
typedef struct cfx__module_graph_owner {
    void (*gone)(cfx_graph *g);                  /* the module lets go of it */
    void (*copy)(cfx_module *to, cfx_graph *g);  /* `to` gets a copy of it */
} cfx__module_graph_owner;

/* What modules are below one, by name. Modules that stand for calls of one module share theirs. */
typedef struct cfx__module_children {
    int refs;
    VEC(struct cfx__module_child {
        cfx_string *name;   /* counted */
        cfx_module *module; /* counted */
    })
    all;
    cfx__map index; /* name to its number + 1 */
} cfx__module_children;

struct cfx__module {
    cfx__signature *signature; /* NULL: it could not be read, or the arguments go through raw */
    bool raw;                  /* forward binds for itself: GraphModules */
    int arity;                 /* 0: forward_args; else the number of tensors */
    union {
        cfx_forward_fn *args;
        cfx_forward_1 *one;
        cfx_forward_2 *two;
        cfx_forward_3 *three;
    } forward;
    cfx__module_children *children; /* counted */
    cfx_dict *transient;  /* names of buffers that are not persistent; NULL: none */
    cfx__hook_list hooks;
    cfx_string *name;     /* what module.name points to */
    const struct cfx__layer *layer; /* the row it was made from; NULL: the user's own */
    const cfx__module_graph_owner *graph_owner; /* NULL where there is no graph */
    cfx_object *object;   /* what module.user is of, counted; NULL: the caller's care */
    cfx__arena arena;     /* type, path, signature */
};

extern cfx_module cfx__module_bad; /* empty; its calls give bad values */
/* Whether there is a module (not NULL, not bad); an error otherwise, unless one is recorded. */
bool cfx__module_given(const cfx_module *m);
/* A module whose forward gets its arguments as the caller gave them (positional, then args.kw). */
cfx_module *cfx__module_new_raw(const char *type, cfx_forward_fn *forward);
/* Sets the graph of a GraphModule; keeps it. */
void cfx__module_set_graph(cfx_module *m, cfx_graph *g, const cfx__module_graph_owner *owner);
/* What `from` has at a path becomes the same thing at the path `as` of m, shared; parents that are
 * missing are made, plain tensors become buffers. True when m has it already. */
bool cfx__module_adopt(cfx_module *m, const char *as, const cfx_module *from, const char *path);
/* Whether a call of m does more than compute its result, by what its layers are told: activations
 * in place, dropout and statistics in training, embeddings that are kept short. */
bool cfx__module_has_effect(const cfx_module *m);
/* The module at a path, made of empty ones where it is missing; borrowed. NULL with an error. */
cfx_module *cfx__module_make(cfx_module *m, const char *path);
/* From now on m and `with` have the same children, whichever of them they are added to. */
void cfx__module_share_children(cfx_module *m, cfx_module *with);
/* A text that lives as long as the module: for `path` and the like. */
const char *cfx__module_text(cfx_module *m, const char *text);
/* The direct child, parameter, buffer or attribute called name[0..len); false where none is. */
bool cfx__module_get(const cfx_module *m, const char *name, size_t len, cfx_value *out);

/* ---- the layer --------------------------------------------------------------------------- */

/* How a caller came to a module: the name that it has below another. NULL: it had the module. */
typedef struct cfx__nn_way {
    const cfx_module *from;
    const char *name;
} cfx__nn_way;

/* A later room installs itself here for the calling thread, and sees calls of modules and reads of
 * attributes before they happen; "super" is cfx__module_call and cfx__module_read. The struct is
 * the caller's; `below` is the layer there was. */
typedef struct cfx__nn_layer {
    cfx_value (*call)(struct cfx__nn_layer *self, cfx_site at, cfx_module *m, cfx__nn_way way,
                      cfx_args a);
    cfx_value (*attr)(struct cfx__nn_layer *self, cfx_site at, cfx_module *m, const char *path);
    struct cfx__nn_layer *below;
} cfx__nn_layer;

/* What this thread knows of modules. */
typedef struct cfx__nn_state {
    cfx__nn_layer *layer;
    cfx__hook_list hooks; /* the global ones */
} cfx__nn_state;

cfx__nn_state *cfx__nn_state_get(void);

void cfx__nn_push(cfx__nn_layer *layer);
void cfx__nn_pop(cfx__nn_layer *layer);
/* Calls a module: pre-hooks, binding, forward, hooks, in a scope of its own. Keywords: in a.kw. */
cfx_value cfx__module_call(cfx_site at, cfx_module *m, cfx_args a);
/* Calls it with values that are bound to the signature already: hooks see them as given by
 * position. */
cfx_value cfx__module_call_bound(cfx_site at, cfx_module *m, const cfx_value *bound);
/* Calls a module that has hooks, or any while there are global ones; `run` is its forward. */
typedef cfx_value cfx__module_run_fn(cfx_site at, cfx_module *m, cfx_args a);
cfx_value cfx__module_call_hooked(cfx_site at, cfx_module *m, cfx_args a, cfx__module_run_fn *run);
/* The hooks on nodes that the module's graph has now, kept by the scope; an array that the caller
 * frees. NULL where there are none. */
cfx_hook_handle **cfx__module_node_hooks(const cfx_module *m, size_t *n);
/* The same hook on another module. */
void cfx__hook_copy(cfx_module *to, const cfx_hook_handle *h);
void cfx__hook_list_free(cfx__hook_list *list);
/* self.path as Python reads it: AttributeError where there is nothing. Borrowed. */
cfx_value cfx__module_read(cfx_site at, cfx_module *m, const char *path);

#endif
