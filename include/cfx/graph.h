/* Graphs: a program at rest, as nodes of six kinds.
 *
 * A node is in exactly one graph, which owns it: its name, arguments and metadata live as long as
 * the graph, and an erased node may still be looked at. Arguments are values in which nodes stand
 * for the tensors they compute; they change only through functions, so that users and arguments
 * always mirror each other. Graphs belong to the scope. One that nobody changes may be read by many
 * threads at once. */
#ifndef CFX_GRAPH_H
#define CFX_GRAPH_H

#include <cfx/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cfx_opcode {
    CFX_PLACEHOLDER,
    CFX_GET_ATTR,
    CFX_CALL_FUNCTION,
    CFX_CALL_METHOD,
    CFX_CALL_MODULE,
    CFX_OUTPUT
} cfx_opcode;

/* One node used by another. The uses of a node are linked in the order its users came; those of a
 * user in the order its inputs appear in args, then kwargs. x + x is one use. */
typedef struct cfx_use {
    cfx_node *node, *user;
    struct cfx_use *next;       /* the next user of node */
    struct cfx_use *next_input; /* the next input of user */
    struct cfx_use *prev_, *prev_input_;
    cfx_list *long_; /* the long list of the user's arguments where node comes first; or NULL */
    int64_t place_;  /* the place there */
    bool several_;   /* it comes again */
} cfx_use;

/* One step of a program. Read freely, change through functions. */
struct cfx_node {
    const char *name;
    cfx_opcode op;
    cfx_target target; /* target.name is its text for every opcode */
    cfx_value args;    /* a tuple */
    cfx_value kwargs;  /* a dict */
    const char *type;  /* the annotation, as Python writes it, or NULL */
    cfx_dict *meta;    /* NULL while empty; keys are listed at cfx_node_set_meta */
    cfx_graph *graph;
    cfx_node *prev, *next; /* NULL at the ends */
    cfx_use *users, *inputs; /* walk them with cfx_each_user and cfx_each_input */
    int num_users;
    bool erased;
    void *user; /* set: whatever its reader wants to find again; copies have none */
};

/* ---- make ------------------------------------------------------------------------------------ */

/* An empty graph; scope. */
CFX_API cfx_graph *cfx_graph_new(void);
/* What the caller hangs on a graph, to find it again: a handle of another language. Copies have
 * none; NULL unless set. */
CFX_API void cfx_graph_set_user(cfx_graph *g, void *user);
CFX_API void *cfx_graph_user(const cfx_graph *g);
/* A node at the insert point. args is a tuple (or None for none), kwargs a dict (or None); both are
 * kept. name NULL: from the target. The bad node, with an error, on a wrong kind of argument. */
CFX_API cfx_node *cfx_graph_create(cfx_graph *g, cfx_opcode op, cfx_target target, cfx_value args,
                                   cfx_value kwargs, const char *name, const char *type);
/* A call in one line, as Python writes it: cfx_graph_call(g, "torch.add", x, 1, CFX_KW(alpha, 2)).
 * The target is a function ("torch.add", "operator.add", "getattr"), an overload
 * ("aten.add.Tensor") or a method ("Tensor.relu"). An unknown name below torch, operator,
 * aten or Tensor is an error that tells the nearest ones; names of other libraries and of torch.ops
 * are taken as they are. */
CFX_API cfx_node *cfx_graph_call_from(cfx_site at, cfx_graph *g, const char *target, cfx_args args);
#define cfx_graph_call(g, target, ...)                                                             \
    cfx_graph_call_from(CFX_HERE, g, target, CFX_ARGS(__VA_ARGS__))
/* A placeholder without a default. */
CFX_API cfx_node *cfx_graph_input(cfx_graph *g, const char *name);
/* The same for each opcode. A default makes "placeholder(default=...)": pass CFX_NONE and
 * has_default false for none. */
CFX_API cfx_node *cfx_graph_placeholder(cfx_graph *g, const char *name, const char *type,
                                        bool has_default, cfx_value fallback);
CFX_API cfx_node *cfx_graph_get_attr(cfx_graph *g, const char *path);
CFX_API cfx_node *cfx_graph_call_function(cfx_graph *g, const char *target, cfx_value args,
                                          cfx_value kwargs);
CFX_API cfx_node *cfx_graph_call_method(cfx_graph *g, const char *method, cfx_value args,
                                        cfx_value kwargs);
CFX_API cfx_node *cfx_graph_call_module(cfx_graph *g, const char *path, cfx_value args,
                                        cfx_value kwargs);
CFX_API cfx_node *cfx_graph_output(cfx_graph *g, cfx_value result);
/* The target that a text names: an overload ("torch.ops.aten.add.Tensor", "aten.add.Tensor"), a
 * spelling ("torch.add", "operator.getitem") or, where the registry has neither, the bare name. The
 * text is interned in g. */
CFX_API cfx_target cfx_graph_target(cfx_graph *g, const char *text);
/* A copy of a node at the insert point; nodes in its arguments go through `map` (NULL: kept as they
 * are, which needs the same graph). Name, type and metadata come along. */
typedef cfx_value cfx_node_map_fn(cfx_node *n, void *user);
CFX_API cfx_node *cfx_graph_copy_node(cfx_graph *g, cfx_node *n, cfx_node_map_fn *map, void *user);
/* Copies all nodes of `from` at the insert point. `values` maps nodes of `from` to values of g:
 * what is in it already is not copied (this is how a graph is inlined), what is copied is added.
 * Returns the mapped result of `from`, whose output node is not copied. */
CFX_API cfx_value cfx_graph_copy_into(cfx_graph *g, cfx_graph *from, cfx_dict *values);
/* A copy of the whole graph; scope. */
CFX_API cfx_graph *cfx_graph_copy(cfx_graph *g);

/* ---- look ------------------------------------------------------------------------------------ */

CFX_API int64_t cfx_graph_len(const cfx_graph *g);    /* number of nodes */
CFX_API cfx_node *cfx_graph_first(const cfx_graph *g); /* NULL when empty; borrowed */
CFX_API cfx_node *cfx_graph_last(const cfx_graph *g);
/* The next node that is not erased: iteration stays valid whatever is done to the graph. */
CFX_API cfx_node *cfx_node_after(const cfx_node *n);
CFX_API cfx_node *cfx_node_before(const cfx_node *n);
#define cfx_each_node(g, n)                                                                        \
    for (cfx_node *n = cfx_graph_first(g); n; n = cfx_node_after(n))
/* The node called so, in constant time; NULL when there is none. */
CFX_API cfx_node *cfx_graph_find(const cfx_graph *g, const char *name);
/* All nodes of an opcode and target (NULL: any) in graph order, as a list of nodes; scope. */
CFX_API cfx_value cfx_graph_find_nodes(cfx_graph *g, cfx_opcode op, const char *target);
/* The output node, or NULL. */
CFX_API cfx_node *cfx_graph_output_node(const cfx_graph *g);
/* "call_function"; static. */
CFX_API const char *cfx_opcode_name(cfx_opcode op);
/* for each user u of n (u->user), for each input u of n (u->node). The users may not change on the
 * way: go over cfx_node_users(n) then, which is a list of its own; scope. */
#define cfx_each_user(n, u) for (const cfx_use *u = (n)->users; u; u = u->next)
#define cfx_each_input(n, u) for (const cfx_use *u = (n)->inputs; u; u = u->next_input)
CFX_API cfx_value cfx_node_users(const cfx_node *n);
CFX_API cfx_value cfx_node_inputs(const cfx_node *n);
/* User or input number k, in k steps; NULL past the end. Borrowed. */
CFX_API cfx_node *cfx_node_user(const cfx_node *n, int k);
CFX_API cfx_node *cfx_node_input(const cfx_node *n, int k);
/* Whether a comes before b; constant time; both of one graph. */
CFX_API bool cfx_node_precedes(const cfx_node *a, const cfx_node *b);
/* Whether the node does more than compute its result: placeholder, output, in-place calls, asserts,
 * random numbers, modules unknown. Such are never dead. */
CFX_API bool cfx_node_is_impure(const cfx_node *n);
/* Structural equality: same nodes in the same order, names aside. */
CFX_API bool cfx_graph_equal(const cfx_graph *a, const cfx_graph *b);
/* A hash that equal graphs share. */
CFX_API uint64_t cfx_graph_hash(const cfx_graph *g);
/* Whether the graph is well-formed; torch.fx's message as an error where not, or one about a
 * function of torch's that is not known. owner may be NULL. */
CFX_API bool cfx_graph_lint(cfx_graph *g, const cfx_module *owner);

/* Whether a call is of this operator. A bare name is the operator in whatever spelling: "relu" is
 * torch.relu, torch.nn.functional.relu, the method relu and aten.relu.default, but not relu_, which
 * is "relu_": torch.relu_, x.relu_(), aten.relu_.default and F.relu(x, inplace=True). A name with a
 * dot is one function ("torch.relu", "operator.add", "F.gelu") or overload ("aten.add.Tensor", all
 * of them: "aten.add"). The call of a module is of its type: "Linear", "nn.Linear". False for nodes
 * that call nothing. */
CFX_API bool cfx_node_is(const cfx_node *n, const char *name);
/* The same for a target alone, whose arguments are not seen. */
CFX_API bool cfx_target_is(cfx_target t, const char *name);
/* Whether n is x[i], and x[i] for a number i: how several results are taken apart. */
CFX_API bool cfx_node_is_getitem(const cfx_node *n);
CFX_API bool cfx_node_takes_result(const cfx_node *n);
/* "cond" where n calls torch.ops.higher_order.cond, an operator that takes sub-graphs; NULL for
 * other nodes. Borrowed. */
CFX_API const char *cfx_node_higher_order(const cfx_node *n);

/* n.format_node(), "%add : [num_users=1] = call_function[target=operator.add](args = (%x, %y),
 * kwargs = {})", and print(graph), one such line a node; scope. */
CFX_API const char *cfx_node_format(const cfx_node *n);
CFX_API const char *cfx_graph_str(const cfx_graph *g);

/* ---- what a node computes -------------------------------------------------------------------- */

typedef enum cfx_result_kind {
    CFX_RESULT_UNKNOWN, /* nothing is noted of it, or it is None */
    CFX_RESULT_TENSOR,
    CFX_RESULT_INT,     /* a number, or an expression over sizes that are symbols */
    CFX_RESULT_BOOL,
    CFX_RESULT_FLOAT,
    CFX_RESULT_OBJECT,  /* of a TorchScript class */
    CFX_RESULT_SEVERAL  /* a tuple or list */
} cfx_result_kind;

/* The result of a node without its numbers. Borrowed from the node's metadata: good until that
 * changes. */
typedef struct cfx_result {
    cfx_result_kind kind;
    cfx_value value; /* as it is noted, in "val": a tensor without numbers, or, where sizes are
                        symbols, a dict (shape, stride, dtype, device, requires_grad, offset); an
                        expression, or as text a relation; a tuple of such */
    cfx_dtype dtype; /* from here on: tensors */
    int ndim;
    const int64_t *shape, *stride; /* NULL where some are symbols: ask for each */
    cfx_device device;
    bool requires_grad;
} cfx_result;

/* What n computes; of kind UNKNOWN where nothing is noted (cfx_program_infer finds out). */
CFX_API cfx_result cfx_node_result(const cfx_node *n);
/* The same of a value: a tensor, real or fake, or what metadata has for one. */
CFX_API cfx_result cfx_result_of(cfx_value v);
/* A size or stride of a tensor: an int, or an expression. A stride that is not noted is that of a
 * tensor in one piece. dim counts from the end where it is negative; None where there is no such
 * dimension; scope. */
CFX_API cfx_value cfx_result_size(const cfx_result *r, int dim);
CFX_API cfx_value cfx_result_stride(const cfx_result *r, int dim);
/* How many there are (1 unless SEVERAL), and number i. */
CFX_API int64_t cfx_result_count(const cfx_result *r);
CFX_API cfx_result cfx_result_item(const cfx_result *r, int64_t i);
/* Whether two results are noted alike: kinds, dtypes, sizes, strides, devices, expressions. */
CFX_API bool cfx_result_equal(const cfx_result *a, const cfx_result *b);
/* "f32[2, s77]", "int 3", "(f32[2], i64[2])"; scope. */
CFX_API const char *cfx_result_text(const cfx_result *r);

/* ---- change ---------------------------------------------------------------------------------- */

/* New nodes go before or after n; NULL: at the start (before) or the end (after). Several come in
 * the order they are made, also after n, where torch.fx turns them round. Returns the insert point
 * there was, to be set back with cfx_graph_set_insert. */
typedef struct cfx_insert {
    cfx_node *before; /* NULL: at the end */
} cfx_insert;
CFX_API cfx_insert cfx_graph_insert_before(cfx_graph *g, cfx_node *n);
CFX_API cfx_insert cfx_graph_insert_after(cfx_graph *g, cfx_node *n);
CFX_API void cfx_graph_set_insert(cfx_graph *g, cfx_insert point);
#define CFX_INSERT_BEFORE(g, n) CFX_INSERT_(g, cfx_graph_insert_before(g, n), __LINE__)
#define CFX_INSERT_AFTER(g, n) CFX_INSERT_(g, cfx_graph_insert_after(g, n), __LINE__)
#define CFX_INSERT_(g, point, line)                                                                \
    for (cfx_insert CFX_NAME_(cfx_held_, line) = (point), *CFX_NAME_(cfx_go_, line) =              \
             &CFX_NAME_(cfx_held_, line);                                                          \
         CFX_NAME_(cfx_go_, line); cfx_graph_set_insert(g, CFX_NAME_(cfx_held_, line)),            \
             CFX_NAME_(cfx_go_, line) = NULL)

/* Takes a node out. An error, and nothing done, when it still has users. */
CFX_API bool cfx_graph_erase(cfx_node *n);
/* Moves n before or after `at`, in the same graph. */
CFX_API bool cfx_node_move_before(cfx_node *n, cfx_node *at);
CFX_API bool cfx_node_move_after(cfx_node *n, cfx_node *at);
/* Replaces all arguments (a tuple and a dict; None for none), or one; the values are kept. */
CFX_API bool cfx_node_set_args(cfx_node *n, cfx_value args);
CFX_API bool cfx_node_set_kwargs(cfx_node *n, cfx_value kwargs);
CFX_API bool cfx_node_set_arg(cfx_node *n, int i, cfx_value v);
CFX_API bool cfx_node_set_kwarg(cfx_node *n, const char *key, cfx_value v);
CFX_API bool cfx_node_insert_arg(cfx_node *n, int i, cfx_value v);
/* Another target for the same arguments; and another kind of node with it. */
CFX_API bool cfx_node_set_target(cfx_node *n, cfx_target target);
CFX_API bool cfx_node_set_call(cfx_node *n, cfx_opcode op, cfx_target target);
/* Another annotation; copied into the graph. NULL removes it. */
CFX_API void cfx_node_set_type(cfx_node *n, const char *type);
/* A new name, made unique. */
CFX_API void cfx_node_rename(cfx_node *n, const char *name);
/* Just this name, be it a word that Python has for itself ("input"). False, with an error, when it
 * is no identifier or another node's. */
CFX_API bool cfx_node_set_name(cfx_node *n, const char *name);
/* Puts `with`, a node or a tensor that stands for one (cfx_proxy), wherever n is used (with may
 * itself use n). A filter may spare users. Returns how many users changed. */
typedef bool cfx_node_filter(cfx_node *user, void *data);
CFX_API int cfx_node_replace_with(cfx_node *n, cfx_value with);
#define cfx_node_replace(n, with) cfx_node_replace_with(n, CFX_V(with))
/* The same, and `with`, which must have no metadata of its own, gets that of n (propagate_meta). 0,
 * with an error, where it has some. */
CFX_API int cfx_node_replace_with_meta(cfx_node *n, cfx_value with);
CFX_API int cfx_node_replace_if(cfx_node *n, cfx_node *with, cfx_node_filter *keep, void *data);
/* Replaces one input of n. */
CFX_API bool cfx_node_replace_input(cfx_node *n, cfx_node *old, cfx_node *with);
/* Sets a metadata entry; keeps the value. Known keys: "val" (a fake tensor: shape and dtype of the
 * result), "tensor_meta" (a dict: shape, dtype, stride, requires_grad, memory_format),
 * "nn_module_stack" (a dict: key to (path, type)), "stack_trace" (text), "source" (the C file and
 * line, "mlp.c:4"), "from_node", "constant" (of a placeholder of an exported module: a tuple of the
 * one value that callers have to pass), "custom" (the user's own). */
CFX_API void cfx_node_set_meta(cfx_node *n, const char *key, cfx_value v);
CFX_API cfx_value cfx_node_get_meta(const cfx_node *n, const char *key);
/* Removes a metadata entry; whether there was one. */
CFX_API bool cfx_node_remove_meta(cfx_node *n, const char *key);
/* Erases nodes without users that are pure, last first. Returns how many. */
CFX_API int cfx_graph_eliminate_dead_code(cfx_graph *g);
/* The same where the caller says which nodes have to stay though no one uses them: torch.fx's
 * is_impure_node. It is asked of placeholders too, and not of the output, which stays. */
typedef bool cfx_impure_fn(const cfx_node *n, void *user);
CFX_API int cfx_graph_eliminate_dead_code_by(cfx_graph *g, cfx_impure_fn *is_impure, void *user);
/* Makes the graph take and give nested values, as torch.fx's pytree code generation does: `names`,
 * a list, are the arguments that callers pass; `in_spec`, a tuple, has for each what
 * cfx_tree_flatten gives (an ellipsis for an argument that is one placeholder), or, as exported
 * modules have it, is (a tuple of those by position, a dict of those by name); `out_spec` is the
 * shape of the result, None where it is given as it is. The leaves are the placeholders, in order.
 * None in the place of a spec: not known, which can be printed but not run. Keeps its arguments;
 * names None takes it all back. */
CFX_API void cfx_graph_set_tree(cfx_graph *g, cfx_value names, cfx_value in_spec,
                                cfx_value out_spec);
/* What was set: (names, in_spec, out_spec), or None; scope. */
CFX_API cfx_value cfx_graph_tree(const cfx_graph *g);
/* How the code of a graph is written and what its callers pass: torch.fx's CodeGen. Functions that
 * are NULL do as usual. Lists, texts and values that they return belong to the scope. */
typedef struct cfx_codegen {
    /* on_generate_code: other lines for those of the body, a list of texts that end in a newline;
     * "# COUNTER: 3\n" comes before what node number 3 became, and is taken out afterwards. */
    cfx_value (*body)(const struct cfx_codegen *self, cfx_value lines);
    /* gen_fn_def: the lines before the body; parameters is a list of texts, "x : int = 1", returns
     * the annotation of the result, " -> int", or "". */
    const char *(*head)(const struct cfx_codegen *self, cfx_value parameters, const char *returns);
    /* generate_output: the last line, for the result as it would be written. */
    const char *(*result)(const struct cfx_codegen *self, const char *result);
    /* process_inputs, process_outputs: what callers pass as a list of what placeholders take; what
     * the graph gave as callers see it. */
    cfx_value (*inputs)(const struct cfx_codegen *self, cfx_args args);
    cfx_value (*outputs)(const struct cfx_codegen *self, cfx_value result);
    bool boxed; /* forward takes one list, which it empties */
    void *user;
} cfx_codegen;
/* Sets it, until another is set; the struct is the caller's and must stay. NULL: none. Returns the
 * one there was. */
CFX_API const cfx_codegen *cfx_graph_set_codegen(cfx_graph *g, const cfx_codegen *c);
/* torch.fx's _BoxedCodeGen. */
CFX_API extern const cfx_codegen cfx_codegen_boxed;
/* Puts the nodes in a topological order, keeping the present one where it can. False, with an
 * error, when there is a cycle. */
CFX_API bool cfx_graph_sort(cfx_graph *g);

/* Called when a node is made, erased, or replaced for a user. NULL fields are skipped. The struct
 * is the caller's and must stay until it is removed. */
typedef struct cfx_graph_hooks {
    void (*created)(struct cfx_graph_hooks *self, cfx_node *n);
    void (*erased)(struct cfx_graph_hooks *self, cfx_node *n);
    void (*replaced)(struct cfx_graph_hooks *self, cfx_node *old, cfx_node *with, cfx_node *user);
    void *user;
    struct cfx_graph_hooks *next_;
} cfx_graph_hooks;
CFX_API void cfx_graph_add_hooks(cfx_graph *g, cfx_graph_hooks *hooks);
CFX_API void cfx_graph_remove_hooks(cfx_graph *g, cfx_graph_hooks *hooks);

#ifdef __cplusplus
}
#endif
#endif
