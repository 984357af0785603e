/* rewrite: where a graph becomes a better graph.
 *
 * Invariant: what is given is never changed; a rewritten program is new and computes the same. */
#ifndef CFX__REWRITE_H
#define CFX__REWRITE_H

#include <cfx/rewrite.h>

#include "../run/run.h"
#include "../trace/worlds.h"

/* ---- memory (alias.c) ------------------------------------------------------------------------ */

/* Which nodes of a graph may share memory, and what of it is written to. */
typedef struct cfx__alias {
    const cfx_graph *graph;
    uint32_t *root; /* by id: a node of the same memory */
    uint8_t *flags; /* by id of a root */
    size_t len;
} cfx__alias;

void cfx__alias_open(cfx__alias *a, const cfx_graph *g);
void cfx__alias_close(cfx__alias *a);
/* The graph is that of a region: what it is given and what it gives is written to outside. */
void cfx__alias_write_outside(cfx__alias *a);
/* Notes with each sub-graph of a GraphModule whether that is so: cfx__alias_open heeds it. */
void cfx__alias_note_outside(cfx_module *m);
/* Whether something writes to what n computes; whether it, or a view of it, is a result. Nodes that
 * came later are not written to. */
bool cfx__alias_written(const cfx__alias *a, const cfx_node *n);
bool cfx__alias_escapes(const cfx__alias *a, const cfx_node *n);
/* Whether another node may be of the same memory; whether two are. */
bool cfx__alias_shared(const cfx__alias *a, const cfx_node *n);
bool cfx__alias_same(const cfx__alias *a, const cfx_node *n, const cfx_node *m);
/* A number that nodes of the same memory share, below the number of nodes. */
uint32_t cfx__alias_memory(const cfx__alias *a, const cfx_node *n);
/* Whether it is a view of an input, parameters and the like among them. */
bool cfx__alias_of_input(const cfx__alias *a, const cfx_node *n);
/* Whether what the operator gives may be an argument, or a view of one. */
bool cfx__alias_views(cfx_op *op);

/* ---- running a graph again (rerun.c) --------------------------------------------------------- */

/* What the caller says of an operator: which of its decompositions it has, -1: none; and whether it
 * stays whole. */
typedef struct cfx__own_row {
    const cfx_op *op;
    int row;
    bool kept;
} cfx__own_row;
typedef struct cfx__own_rows {
    VEC(cfx__own_row) asked;
} cfx__own_rows;

/* Nodes of the program, or of sub-graphs of it, whose operators stay whole: what they are made of
 * depends on sizes that vary. */
typedef VEC(const cfx_node *) cfx__undivided;
bool cfx__rerun_is_undivided(const cfx__undivided *all, const cfx_node *n);

typedef struct cfx__rerun {
    cfx__recorder recorder; /* first */
    const cfx_program *program; /* NULL: an execution is run again */
    const cfx_execution *given; /* whose inputs the placeholders are; NULL: what is noted of them */
    cfx_module *from, *to;  /* a GraphModule of it, and what receives children and constants */
    const cfx__worlds *worlds; /* whose sizes are those of world k */
    int k;
    int sizes_used;         /* sizes of the node at hand that depend on data, so far */
    cfx_value *values;      /* by id of the node of the old graph; counted */
    cfx_decompose_options options;
    cfx__own_rows *own;     /* rows of options.own; of all runs that have these options */
    const cfx__undivided *undivided; /* NULL: none */
    const cfx_node *constant; /* a node made of a constant, which no input stands for; NULL: none */
    bool whole;             /* operators stay as they are, but views of what is written to */
    bool foreign;           /* so do all but foreign ones */
    cfx_value operands;     /* of a sub-graph: pairs for its inputs where nothing is noted of them:
                               their values now, where they stay, and what is noted of the nodes
                               that are given */
    int placed;             /* placeholders so far */
    cfx__alias alias;       /* of the old graph, where operators stay whole or are kept */
    const int *order;       /* placeholder number order[i] comes i-th; NULL: as they are */
    VEC(cfx_tensor *) inputs; /* what placeholders gave, NULL where no tensor; by old number */
} cfx__rerun;

/* Whether operators stay whole, all or some: those that may view what is written to do not. */
static inline bool cfx__rerun_keeps(const cfx__rerun *run) {
    return run->whole || run->options.keep.tag == CFX_TAG_LIST;
}

/* Runs the graph of run->from on fake tensors; its results, before they are nodes. False, with an
 * error that names the node. */
bool cfx__rerun_graph(cfx__rerun *run, cfx_value *result);
void cfx__rerun_done(cfx__rerun *run);
/* One node of it; what it gives is noted. False, with an error that names the node. */
bool cfx__rerun_node(cfx__rerun *run, cfx_node *n);
void cfx__rerun_set(cfx__rerun *run, const cfx_node *n, cfx_value v);
/* Arguments with the values of their nodes in place of them; scope. */
cfx_value cfx__rerun_filled(cfx__rerun *run, cfx_value v);
/* A tensor with the sizes and strides that the program notes for what n gives; NULL: none are. */
cfx_tensor *cfx__rerun_noted(const cfx__rerun *run, const cfx_node *n);
/* What runs may lie otherwise than in the program (rerun_lies.c). A view of it whose strides came
 * out otherwise is a copy, then; PyTorch gives up here. */
bool cfx__rerun_is_no_view(const cfx__rerun *run, const cfx_node *call, const cfx_op *op,
                           cfx_args a);
/* Before the storage behind t is read by strides, or as another dtype: it lies as in the program,
 * also where what it was made of came out in another order. */
void cfx__rerun_lay(cfx__rerun *run, const cfx_tensor *t);
/* What a call made, lying as it does in the program where something writes to it: what views it,
 * and what copies it instead, follows from that, and a write to a copy would be lost. */
cfx_value cfx__rerun_laid(cfx__rerun *run, const cfx_node *n, cfx_value v);
/* A copy of the node with its arguments as they are now; its results from its metadata. */
cfx_value cfx__rerun_copied(cfx__rerun *run, const cfx_node *n, cfx_args a);
/* Makes run->recorder one that makes nodes in g (asked.c). */
void cfx__rerun_record(cfx__rerun *run, cfx_graph *g);
/* A higher-order operator: sub-graphs are rewritten too, or written out where nothing is left to
 * decide (rerun_higher.c). */
cfx_value cfx__rerun_higher(cfx__rerun *run, const cfx_node *n, cfx_args a);
/* The results of a new node, in the shape of `like`, as values that the program can go on with. */
cfx_value cfx__rerun_results(cfx__rerun *run, cfx_node *made, cfx_value like);
/* The nodes of a graph, made again where the run is; what the graph gives. Scope; bad, with an
 * error. */
cfx_value cfx__rerun_inline(cfx__rerun *run, cfx_module *m, cfx_site at, cfx_args given);
/* A sub-graph of its own, for `from`: calls are recorded in it until it is closed, with what it
 * gives as nodes (bad: it is left out), and put under its name in the new module. False, with an
 * error. */
void cfx__rerun_child_open(cfx__rerun *sub, const cfx__rerun *run, cfx_module *from);
bool cfx__rerun_child_close(cfx__rerun *sub, cfx__rerun *run, const char *name, cfx_value out);
/* What a sub-graph, or an attribute of one that is written out, is called where others are beside
 * it: true_graph_1 for a second true_graph_0. Scope. */
const char *cfx__rerun_free_name(const cfx__rerun *run, const char *name);
/* A while_loop of a decomposition (cfx__recorder.loop), and a Loop of ONNX: written out where it is
 * known how often it goes round, else a while_loop (rerun_loop.c). */
cfx_value cfx__rerun_while(cfx__recorder *r, cfx_site at, cfx__body *test, cfx__body *body,
                           cfx_value carried, cfx_value rest);
cfx_value cfx__rerun_onnx_loop(cfx__rerun *run, const cfx_node *n, cfx_args a);
/* What the recorder is told of sizes that depend on data. */
int64_t cfx__rerun_data_size(cfx__recorder *r);
/* The symbol that the node that is run again notes for the next such size; NULL: it notes none. */
const cfx__symbol *cfx__rerun_data_symbol(cfx__rerun *run);
int64_t cfx__rerun_part_size(cfx__recorder *r, int64_t n);
/* And of numbers: whether the node that is run again is given a size that varies and is n now. */
bool cfx__rerun_varies(cfx__recorder *r, int64_t n);

/* ---- foreign operators (lower.c) ------------------------------------------------------------- */

/* Whether a GraphModule or a sub-graph of it calls a foreign operator, or one that only foreign
 * programs have. */
bool cfx__is_foreign(const cfx_module *m);
/* A program with its foreign operators replaced by what they are made of, all others left whole;
 * scope. Bad, with an error. */
cfx_program *cfx__open_foreign(const cfx_program *p);
/* The graph of an execution with its foreign operators replaced by what they are made of at the
 * sizes of its inputs, as a GraphModule with the same placeholders; scope. NULL, with or without an
 * error, where that cannot be told before it runs. */
cfx_module *cfx__lower_execution(const cfx_execution *e);

#endif
