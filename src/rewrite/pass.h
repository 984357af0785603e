/* What passes share: calls by the names of their arguments, tensors that never change, and which
 * nodes share memory. One pass is one file, pass_*.c; passes.c lists them. */
#ifndef CFX__PASS_H
#define CFX__PASS_H

#include <cfx/pass.h>

#include "rewrite.h"

/* ---- calls (pass.c) -------------------------------------------------------------------------- */

/* The overload that n calls; NULL where it calls none, or one that refuses what it is given. */
cfx_op *cfx__call_op(const cfx_node *n);
/* Whether n calls an overload of the ATen function called so: "linear". */
bool cfx__call_is(const cfx_node *n, const char *name);
/* Whether n is a convolution that is not transposed, or says so by an argument. */
bool cfx__call_convolves(const cfx_node *n);
/* Whether n is dropout that is switched off, or drops with probability 0. */
bool cfx__call_drops_nothing(const cfx_node *n);
/* The argument of that name, its default where it is not given; None where the overload has none.
 * Borrowed, or scope. */
cfx_value cfx__call_arg(const cfx_node *n, const char *name);
/* The node that is given for it; NULL where there is none, or something else. */
cfx_node *cfx__call_node(const cfx_node *n, const char *name);
/* Sets an argument that is given by position or by keyword, or left out. */
bool cfx__call_set(cfx_node *n, const char *name, cfx_value v);
/* A call of an ATen overload ("aten.linear.default") before `at`, with the origin of `like`. */
cfx_node *cfx__call_new(cfx_node *at, const cfx_node *like, const char *op, cfx_value args,
                        cfx_value kwargs);
/* A call of a layer with a weight, by the names of its arguments. */
typedef struct cfx__call_layer {
    const char *input, *weight, *bias; /* bias: NULL where it takes none */
    int axis;     /* the dimension of the weight that counts the results; -1: none alone does, as in
                     transposed convolutions with groups */
    bool product; /* of matrices; else a convolution */
} cfx__call_layer;
bool cfx__call_layer_of(const cfx_node *n, cfx__call_layer *out);
/* n is not in one piece any more: views of it, and of views of it, that would need that may copy
 * from now on. */
void cfx__loosen_views(cfx_node *n);

/* Gives a layer another tensor for one of its arguments: in the place of the old one where nothing
 * else uses that, else as a parameter of its own, called `fallback` where there was none. */
bool cfx__call_set_tensor(cfx_program *p, cfx_node *layer, const char *name, cfx_tensor *t,
                          const char *fallback);

/* Options, as texts and numbers. */
const char *cfx__pass_text(const cfx_dict *options, const char *name);
int64_t cfx__pass_int(const cfx_dict *options, const char *name);
double cfx__pass_float(const cfx_dict *options, const char *name);
/* Whether one of the selectors of option `keep`, '+' between them, picks n. */
bool cfx__pass_keeps(const char *keep, const cfx_node *n);
/* The calls that option `nodes`, a selector, picks, as a list: those that give a tensor, of floats
 * where that is asked for. An error where a selector other than "*" picks none. */
cfx_value cfx__pass_nodes(const cfx_program *p, const cfx_dict *options, bool floats);

/* Calls fn for the program's graph and the graphs inside it; the sum of what it returns. */
typedef int cfx__graph_fn(cfx_program *p, cfx_module *m, const cfx_dict *options);
int cfx__pass_graphs(cfx_program *p, const cfx_dict *options, cfx__graph_fn *fn);

/* ---- where nodes come from (manager.c) ------------------------------------------------------- */

/* In "from_node" metadata: what the node called so came from itself, `earlier`, is kept with it;
 * nothing where that is None. */
void cfx__source_add(cfx_dict *from, const char *name, cfx_value earlier);

/* ---- nodes that others take the place of (pass.c) -------------------------------------------- */

/* For passes that go over a graph in order: what n stands for is in the arguments of a later node
 * when that is visited, so that a call of many nodes is changed once. */
typedef struct cfx__forward {
    cfx_node **with; /* by id; NULL: itself */
    size_t len;
    VEC(cfx_node *) gone;
} cfx__forward;

void cfx__forward_open(cfx__forward *f, const cfx_graph *g);
/* Every node is visited, in order, before something is asked of its arguments. */
void cfx__forward_visit(cfx__forward *f, cfx_node *n);
/* From now on `with`, which comes before n, stands for it. */
void cfx__forward_to(cfx__forward *f, cfx_node *n, cfx_node *with);
/* Erases the nodes that others stand for; how many there were. */
int cfx__forward_close(cfx__forward *f);

/* The tensor of a parameter, buffer or constant that nothing writes to; NULL where n is none. */
cfx_tensor *cfx__program_constant(const cfx_program *p, const cfx__alias *a, const cfx_node *n);

/* ---- batch norms (pass_batch_norm.c) --------------------------------------------------------- */

/* What a batch norm that does not learn does to each channel: x * scale + shift; in float64. */
typedef struct cfx__affine {
    cfx_tensor *scale, *shift;
} cfx__affine;

/* Made of the norm's tensors, of which weight and bias may be NULL; false where it cannot be told.
 */
bool cfx__affine_of(cfx__affine *a, cfx_tensor *mean, cfx_tensor *var, cfx_tensor *weight,
                    cfx_tensor *bias, cfx_value eps);
/* The weight and the bias (NULL: none) of a layer whose results go through it; dimension `dim` of
 * the weight counts them. Scope. */
void cfx__affine_apply(const cfx__affine *a, int dim, cfx_tensor **weight, cfx_tensor **bias);

/* ---- passes ---------------------------------------------------------------------------------- */

extern const cfx_pass cfx__pass_dead_code, cfx__pass_remove_noops, cfx__pass_common,
    cfx__pass_fold_constants, cfx__pass_fold_batch_norm, cfx__pass_merge_linears,
    cfx__pass_merge_convolutions, cfx__pass_prune, cfx__pass_normalize, cfx__pass_simplify,
    cfx__pass_recognize, cfx__pass_remove_asserts, cfx__pass_check_nan, cfx__pass_check_range,
    cfx__pass_log, cfx__pass_time, cfx__pass_remove_logging, cfx__pass_shapes, cfx__pass_to_dtype,
    cfx__pass_specialize, cfx__pass_group_layers, cfx__pass_group_pointwise,
    cfx__pass_group_rotary, cfx__pass_inline, cfx__pass_reinplace, cfx__pass_functionalize,
    cfx__pass_channels_last, cfx__pass_tie_weights, cfx__pass_untie_weights,
    cfx__pass_annotate_types;

/* The rules of simplify and of recognize; scope. */
cfx_rules *cfx__rules_simplifying(void);
cfx_rules *cfx__rules_recognizing(void);

#endif
