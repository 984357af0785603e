/* graph: where a program rests.
 *
 * Invariant: a node is in exactly one graph; users mirror arguments at all times (one cfx_use for
 * each pair of a node and a node it is used by, in the order of registration on one side and of
 * appearance on the other); order keys grow along the list; the index holds each node that is not
 * erased under its opcode and target. Arguments are frozen values. Everything lives in the graph's
 * arena but values, which are counted.
 *
 * A failed call that should have made a node gives cfx__node_bad (no graph, erased), one that
 * should have made a graph cfx__graph_bad (empty), and one that should have made a program
 * cfx__program_bad; every function takes them and does nothing. NULL is no program, graph or node:
 * functions that change something record an error, functions that look answer NULL, 0 or false. */
#ifndef CFX__GRAPH_H
#define CFX__GRAPH_H

#include <cfx/program.h>

#include <pthread.h>

#include "../nn/nn.h"

/* ---- frozen values -------------------------------------------------------------------------- */

/* The value as a frozen one; one count, which the caller owns. Lists and dicts are copied unless
 * they are frozen already. A bad value, with an error, where v is or holds what no node may: a bad
 * value, a keyword, a dict with a node in a key. */
cfx_value cfx__graph_freeze(cfx_value v);
/* Whether every key is a name that can be written in a call; else there is an error. */
bool cfx__graph_keywords_fit(const cfx_dict *kwargs);
/* The frozen value with each node in it replaced by fn(node), which hands over one count; one
 * count, which the caller owns. v itself when nothing changes. Bad when fn returns bad. */
typedef cfx_value cfx__node_fn(cfx_node *n, void *user);
cfx_value cfx__node_map(cfx_value v, cfx__node_fn *fn, void *user);
/* Calls fn for every node in v, in order, dict keys left out. */
typedef void cfx__node_visit(cfx_node *n, void *user);
void cfx__node_each(cfx_value v, cfx__node_visit *fn, void *user);
/* Whether v is or holds a node. */
bool cfx__node_within(cfx_value v);

/* ---- names ---------------------------------------------------------------------------------- */

/* One name that was asked for, whether given out or not. */
typedef struct cfx__name {
    uint32_t len, hash;
    int32_t number; /* 12 of "add_12"; what `count` of the base became when it was given out */
    int32_t count;  /* the last number that went to a name with this one as base */
    int32_t skip;   /* see names.c */
    bool used, reserved;
    struct cfx__name *base; /* "add" of "add_12"; set when it is given out */
    cfx_node *node;         /* the node called so, or NULL */
    char text[];
} cfx__name;

/* torch.fx's _Namespace. Zero is empty. */
typedef struct cfx__namespace {
    struct cfx__name_slot {
        cfx__name *name;
        uint32_t hash;
    } *slots;
    size_t len, cap;
    cfx__arena arena;
} cfx__namespace;

void cfx__namespace_release(cfx__namespace *ns);
/* Makes room for n names. */
void cfx__namespace_reserve(cfx__namespace *ns, size_t n);
/* A unique identifier made from the candidate; lives as long as the namespace. Reserved words get a
 * number unless reserved_too (the name is for the reserved thing itself). */
const char *cfx__name_create(cfx__namespace *ns, const char *candidate, bool reserved_too);
/* The same in two steps: the record of a candidate made an identifier, and a name from it. */
cfx__name *cfx__name_candidate(cfx__namespace *ns, const char *candidate);
cfx__name *cfx__name_give(cfx__namespace *ns, cfx__name *candidate);
/* A name of another namespace, given out here too; it is free here. */
cfx__name *cfx__name_copy(cfx__namespace *ns, const cfx__name *name);
/* Just this name, be it reserved, whether or not it was given out; NULL for no identifier. */
cfx__name *cfx__name_take(cfx__namespace *ns, const char *text);
cfx__name *cfx__name_find(const cfx__namespace *ns, const char *text);    /* NULL when missing */
/* No name was given out. */
void cfx__namespace_forget(cfx__namespace *ns);
bool cfx__name_is_identifier(const char *text, size_t len);
bool cfx__name_is_dotted(const char *text); /* identifiers with dots between them, or one alone */
bool cfx__name_reserved(const char *text);
/* "MaxPool" to "max_pool". */
void cfx__name_snake_case(cfx__text *out, const char *text);

/* ---- graphs --------------------------------------------------------------------------------- */

typedef struct cfx__node cfx__node;

/* All nodes of one opcode and target, in order of creation. */
typedef struct cfx__target_row {
    cfx_target target;     /* target.name is interned in the graph */
    cfx__name *candidate;  /* what nodes of this row are called by default */
    cfx__node *first, *last;
    struct cfx__target_row *next; /* of the same opcode */
    uint32_t id;           /* number in the graph */
} cfx__target_row;

/* What is behind a cfx_node. */
struct cfx__node {
    cfx_node pub; /* first: a cfx_node * points here */
    uint64_t order;
    uint32_t id;  /* number in graph->made */
    cfx__name *name;
    cfx_use *last_user;
    const cfx_node *mark; /* the user that last_user is of, as far as it is known */
    uint32_t origin; /* the id of the node that it was recorded from, plus 1; 0: none */
    bool stale; /* its arguments or target changed since its result was noted */
    bool refused; /* its operator refuses what it is given, whatever is noted; copies too */
    bool bare; /* its result was noted by a text, without strides */
    uint32_t line; /* of the text that it was read from, copies too; 0: none */
    cfx__target_row *row;
    cfx__node *row_prev, *row_next;
};

enum { CFX__OPCODES = CFX_OUTPUT + 1 };

/* How a graph takes and gives nested values: see cfx_graph_set_tree. Values are counted. */
typedef struct cfx__graph_tree {
    cfx_value names;
    cfx_value in_spec;
    cfx_value out_spec;
} cfx__graph_tree;

struct cfx_graph {
    cfx_obj head;
    cfx_node *first, *last;
    int64_t len;
    cfx_node *insert; /* new nodes go before it; NULL: at the end */
    uint64_t version; /* counts changes: who plans ahead looks whether it moved */
    uint64_t noted;   /* counts changes of what is noted of results */
    VEC(cfx__node *) made; /* every node there ever was, by id */
    cfx__namespace names;
    cfx__map targets[CFX__OPCODES]; /* text to cfx__target_row */
    cfx__target_row *rows[CFX__OPCODES];
    uint32_t nrows;
    cfx_use *spare_uses;
    cfx_value no_args, no_kwargs; /* what nodes without have; not counted there */
    cfx_graph_hooks *hooks;
    const cfx_module *owner;  /* the GraphModule, which outlives this pointer's use or clears it */
    VEC(cfx_graph *) foreign; /* graphs whose nodes were used here; counted */
    bool borrows, lent;       /* uses nodes of a graph that keeps this one; has such a user */
    VEC(struct cfx__graph_branch {
        const char *name; /* in the arena */
        cfx_graph *graph; /* counted */
    })
    subgraphs; /* branches that tracing made and get_attr nodes name; a GraphModule makes
                  children of them */
    const cfx_codegen *codegen; /* the user's; NULL: none */
    void *user;                 /* the user's own */
    cfx__graph_tree *tree; /* NULL: arguments are placeholders as they are */
    cfx__arena arena;
    bool prepared_lock;
    bool shared_writes; /* a sub-graph: what it is given or gives is written to outside of it; as a
                           pass found it (cfx__alias_note_outside) */
    cfx_dict *values; /* node to value, of the last run that kept them; counted, NULL: none */
    void *prepared; /* what executors made of the graph (see src/run/run.h); dropped with it */
};

extern cfx_node *const cfx__node_bad;
extern cfx_graph cfx__graph_bad;

static inline cfx__node *cfx__node_of(const cfx_node *n) { return (cfx__node *)n; }

/* The node that a value is or stands for (a traced tensor: see cfx_proxy), or NULL. */
cfx_node *cfx__traced_node(cfx_value v);
/* The name of a node, "None" where there is none. */
const char *cfx__node_name(const cfx_node *n);
/* Whether there is a node (not NULL, not bad); an error otherwise, unless one is recorded. */
bool cfx__node_given(const cfx_node *n);
bool cfx__graph_given(const cfx_graph *g);
bool cfx__program_given(cfx_site at, const cfx_program *p);
/* Whether there is a program that gives something: its graph has an output, with which its
 * signature is in line then. */
bool cfx__program_whole(cfx_site at, const cfx_program *p);

/* The number that a source in a guard stands for (cfx__guard_lookup), of a cfx_dict of inputs,
 * tensors and numbers, by the names of their placeholders. */
bool cfx__guard_source(const char *source, size_t len, void *inputs_by_name, int64_t *out);

/* Names for all nodes anew: first all but inputs are without one (begin), then each is called as it
 * was but for its number. */
void cfx__graph_rename_begin(cfx_graph *g);
void cfx__node_rename_again(cfx_node *n);

/* The row for a target, made when missing; target.fn and op are taken over by a new row. */
cfx__target_row *cfx__graph_row(cfx_graph *g, cfx_opcode op, cfx_target target);
/* The row for a target given as text, which is looked up in the registry the first time. */
cfx__target_row *cfx__graph_row_named(cfx_graph *g, cfx_opcode op, const char *text);
/* cfx_graph_create for a target whose row is known. */
cfx_node *cfx__graph_create(cfx_graph *g, cfx_opcode op, cfx__target_row *row, cfx_value args,
                            cfx_value kwargs);
/* A node at the insert point with a name that is given out already. It has no arguments yet, not
 * even empty ones: cfx__node_put_args has to follow. */
cfx__node *cfx__graph_append(cfx_graph *g, cfx_opcode op, cfx__target_row *row, cfx__name *name);
void cfx__target_row_add(cfx__target_row *row, cfx__node *n);
void cfx__target_row_remove(cfx__node *n);
/* Takes n out of the list, and puts it before `at` (NULL: at the end). */
void cfx__node_unlink(cfx_graph *g, cfx_node *n);
void cfx__node_link(cfx_graph *g, cfx_node *n, cfx_node *at);
/* Gives all nodes fresh order keys, after the list was put in order by hand. */
void cfx__graph_renumber(cfx_graph *g);

/* Sets all of the target but its name, which is the row's; an object in it is kept. */
void cfx__node_put_target(cfx_node *n, cfx_target target);
/* Sets arguments that are frozen; takes over their counts. Uses are brought in line. */
void cfx__node_put_args(cfx_node *n, cfx_value args, cfx_value kwargs);
void cfx__node_drop_uses(cfx_node *n);
/* Sends every node in n's arguments through fn. */
void cfx__node_map_args(cfx_node *n, cfx__node_fn *fn, void *user);
/* The same for inputs that others take the place of, and hooks are told: fn gives the other, or the
 * node itself. One call for all of them, where cfx_node_replace would go over n for each. */
void cfx__node_replace_inputs(cfx_node *n, cfx__node_fn *fn, void *user);
/* Makes n, which has no arguments yet, the copy of another node: every node in its arguments goes
 * through fn, which gives a node for a node. */
void cfx__node_clone_args(cfx_node *n, const cfx_node *from, cfx__node_fn *fn, void *user);

/* Whether two nodes of a graph are the same call of the same nodes; such have one hash. */
bool cfx__node_alike(const cfx_node *a, const cfx_node *b);
uint64_t cfx__node_hash(const cfx_node *n);
/* The results that are noted are those of the graph as it is: nothing is stale. */
void cfx__graph_settle(cfx_graph *g);
/* Notes whether the tensor that a node stands for wants a gradient; whether an input does where
 * nothing is said of it. */
void cfx__result_set_grad(cfx_node *n, bool wanted);
bool cfx__input_learns(cfx_input_kind kind, cfx_dtype dtype);
/* What PyTorch calls the input for a parameter, buffer or constant at a path; scope. */
const char *cfx__input_name(cfx_input_kind kind, const char *target);
/* Metadata that says where a node is from ("stack_trace", "nn_module_stack", "torch_fn", "custom"
 * and the like), of the node whose work n does; or only what n has none of. */
void cfx__node_set_origin(cfx_node *n, const cfx_node *from);
void cfx__node_add_origin(cfx_node *n, const cfx_node *from);
/* Whether a path of "nn_module_stack" is how PyTorch says that a node belongs to no module. */
bool cfx__path_is_no_module(const char *path);
/* Erases nodes that no one uses and that need not stay, last first. Returns how many. */
int cfx__graph_sweep(cfx_graph *g, bool (*stays)(const cfx_node *n));

/* Forgets the tree. And what it says: what argument number i has to look like (None: not known). */
void cfx__graph_drop_tree(cfx_graph *g);
/* Whether a spec is that of (args, kwargs), as exported programs have it; whether that is what a
 * tree says, and not that there are two arguments, a tuple and a dict: the names tell. */
bool cfx__tree_is_call(cfx_value spec);
bool cfx__graph_tree_is_call(const cfx__graph_tree *t);
cfx_value cfx__graph_tree_spec(const cfx__graph_tree *t, int64_t i);
/* What a graph takes, by its placeholders or its tree; the caller owns it (cfx__signature_free). */
cfx__signature *cfx__graph_signature(const cfx_graph *g);

/* The branch called so, or NULL; adds one, which g keeps. */
cfx_graph *cfx__graph_subgraph(const cfx_graph *g, const char *name);
void cfx__graph_add_subgraph(cfx_graph *g, const char *name, cfx_graph *sub);

/* Makes g the graph of m, which keeps it; g knows its owner until m lets go of it. */
void cfx__graph_own(cfx_graph *g, cfx_module *m);

/* What is behind a program. */
struct cfx__program {
    cfx__arena arena; /* texts of the signature */
    uint64_t seen;    /* what cfx__program_see noted */
    uint64_t sound;   /* what cfx__program_sound noted */
    bool bound_lock;
    void *bound;      /* see cfx__program_bound */
    uint64_t synced;  /* cfx__graph_edges of what the signature is in line with; 0: nothing yet */
    pthread_mutex_t lock; /* held while it is brought in line: programs run in many threads */
    void *prepared;   /* packed weights beside its file; counted. See src/pack/prepared.c */
    VEC(cfx_input_spec) inputs;
    VEC(cfx_output_spec) outputs;
    VEC(cfx_module_call) calls;
    VEC(const cfx_node *) placeholders; /* of each input; NULL: not known yet */
    int held; /* inputs in front that are known to be parameters, buffers and constants */
    VEC(int) numbers; /* by id of a node: the input that it is the placeholder of, if it is one */
    VEC(const cfx_node *) results;      /* of each output; NULL: a plain value, or not known */
};

/* Notes which input a placeholder is. (signature.c) */
void cfx__program_number(struct cfx__program *own, const cfx_node *n, size_t number);

extern cfx_program cfx__program_bad; /* without inputs, results and tensors */

/* Takes over how modules were called. The nodes in it go through map (bad: what is not in the new
 * graph; the call is then not preserved); NULL: those of the same names. */
void cfx__program_copy_calls(cfx_program *to, const cfx_program *from, cfx_node_map_fn *map,
                             void *user);
/* Forgets what was said of the program's own trees, which changed. */
void cfx__program_forget_trees(cfx_program *p);
/* Whether what a module took and gave is known and still in the graph. */
bool cfx__module_call_known(const cfx_module_call *c);
/* Exchanges all that two programs are, but for who keeps them. */
void cfx__program_swap(cfx_program *a, cfx_program *b);
/* Where the tensor of a parameter, buffer or constant is kept: the state or the constants. */
cfx_dict *cfx__program_tensors(const cfx_program *p, const cfx_input_spec *spec);
/* Notes a version of a program's graph as good to run; whether it is the one noted last. */
void cfx__program_see(cfx_program *p, uint64_t version);
bool cfx__program_seen(const cfx_program *p, uint64_t version);
/* Notes that a program as it is has no problems; whether that was noted of it as it is. */
void cfx__program_sound(const cfx_program *p);
bool cfx__program_is_sound(const cfx_program *p);
/* The object in which the run room keeps what the program's inputs stand for; the caller owns a
 * count. NULL: none yet. And putting another in its place, which is kept. */
void *cfx__program_bound(cfx_program *p);
void cfx__program_bind(cfx_program *p, void *bound);

/* "cond" of torch.ops.higher_order.cond; NULL for the text of another target. */
const char *cfx__higher_order(const char *target);
/* Whether n calls torch.ops.higher_order.NAME. False for every other node. */
bool cfx__higher_is(const cfx_node *n, const char *name);
/* The operator that a node calls, "relu", or "relu_" where it writes to its argument (see
 * cfx_node_is); NULL for other nodes. Static, borrowed or scope. */
const char *cfx__node_operator(const cfx_node *n);
/* Whether a function is known, or may be: false for a name below torch or operator that is neither
 * an operator's nor one of the few functions that do something else. */
bool cfx__target_known(cfx_target t);
/* Whether a node may have it: a function that nobody knows has a name that can be written in a
 * call; else there is an error. */
bool cfx__target_fits(cfx_opcode op, cfx_target t);
/* cfx_graph_lint without the names of functions: what can be drawn and put in order. *where (or
 * NULL) is set to the node that is wrong. */
bool cfx__graph_lint(cfx_graph *g, const cfx_module *owner, const cfx_node **where);
/* The text of a target as format_node shows it: torch.ops.aten.add.Tensor. */
void cfx__target_text(cfx__text *out, cfx_target t);
/* One argument as format_node shows it: %x for nodes, str() for the rest. */
void cfx__node_format_arg(cfx__text *out, cfx_value v);
void cfx__node_format(cfx__text *out, const cfx_node *n);

/* The input whose memory a result is in, by the schema's marks; NULL: it has memory of its own. */
const cfx_node *cfx__node_aliased(const cfx_node *n);
/* Whether something that n is given has that size: data decided it before. */
bool cfx__result_size_given(const cfx_node *n, cfx_value size);
/* The bytes of a result, symbols being as cfx_program_cost takes them. */
int64_t cfx__result_bytes(const cfx_result *r, const cfx_dict *sizes);

/* The FLOPs of one call, from what is noted of its arguments; 0 where that does not tell. For nodes
 * of a graph that was made of another: a plan's. */
int64_t cfx__node_flops(const cfx_node *n, const cfx_dict *sizes);
/* Whether n prints, or begins or ends a region that is timed: it runs when its turn comes, and not
 * before. */
bool cfx__node_logs(const cfx_node *n);
/* Sets all metadata of `from` at `to`, which keeps what it has besides. */
void cfx__node_copy_meta(cfx_node *to, const cfx_node *from);
/* What a node gives for argument i of a schema, by position, by keyword or by default. */
cfx_value cfx__node_arg(const cfx_node *n, const cfx__schema *s, int i);
/* Whether a node that calls op writes to argument i; see cfx__op_writes. */
bool cfx__node_writes(const cfx_node *n, cfx_op *op, int i);
/* Whether it updates statistics that the operator's schema does not mark. */
bool cfx__node_updates(const cfx_node *n, cfx_op *op);

/* Whether the invariant above holds, at length; for tests. An error says what does not. */
bool cfx__graph_check(const cfx_graph *g);

#endif
