/* export: converts an ATen program to calls of onnx:: operators, which write.c writes.
 *
 * Invariant: a rule gives exactly the operator's result, including dtype and shape, at all sizes of
 * the program. Rules are tables, one for each family of operators (rules_*.c). Operators with a
 * rule are not decomposed; all others are, down to Core ATen. Nodes that then have no rule are all
 * listed in one error.
 *
 * Dynamic sizes, and arithmetic on them, are tensors of one integer, i64[1]. */
#ifndef CFX__ONNX_EXPORT_H
#define CFX__ONNX_EXPORT_H

#include <cfx/ops.h>

#include "../run/run.h"
#include "../tensor/tensor.h"
#include "onnx.h"

enum { CFX__ONNX_OPSET = 20, CFX__ONNX_IR = 9 };

/* A graph that is being exported. */
typedef struct cfx__onnx_export {
    const cfx_program *from;
    cfx_program *to;
    cfx_module *module;    /* the new graph's; constants of a sub-graph are attributes of it */
    cfx_graph *graph;
    const cfx_node *node;  /* the node whose turn it is */
    const cfx__schema *schema; /* of the operator that it calls */
    cfx_value args[CFX_MAX_ARGS]; /* bound to it; nodes among them are those of the old graph */
    cfx_value *values;     /* by id of the old node: a node of the new graph, or a tuple of such;
                              None where there is nothing, bad where the node is lacking */
    cfx_dict *constants;   /* small ones by what they hold */
    cfx_dict *lacking;     /* nodes that have no form in ONNX, and why: a line each */
    struct cfx__onnx_export *outer; /* NULL: it is the whole */
} cfx__onnx_export;

/* What a rule gives: a node of the new graph, a tuple of nodes and Nones for several results, None
 * for nothing. Bad, with an error. `op` is the operator beside it in the table. */
typedef cfx_value cfx__onnx_rule_fn(cfx__onnx_export *x, cfx_op *op);

typedef struct cfx__onnx_rule {
    const char *name; /* "aten.add.Tensor" */
    cfx__onnx_rule_fn *fn;
    cfx_op *op;
} cfx__onnx_rule;

typedef struct cfx__onnx_rules {
    const cfx__onnx_rule *rows;
    int n;
} cfx__onnx_rules;
extern const cfx__onnx_rules cfx__onnx_rules_math, cfx__onnx_rules_logic, cfx__onnx_rules_shape,
    cfx__onnx_rules_index, cfx__onnx_rules_reduce, cfx__onnx_rules_create, cfx__onnx_rules_nn,
    cfx__onnx_rules_window, cfx__onnx_rules_boxes, cfx__onnx_rules_quant, cfx__onnx_rules_sizes,
    cfx__onnx_rules_complex, cfx__onnx_rules_data;
/* Whether the rule for the operator holds for complex numbers, too (rules_complex.c). */
bool cfx__export_holds_for_pairs(const char *name);
#define CFX__ONNX_RULES(rows) {rows, COUNT(rows)}

/* ---- what rules read ------------------------------------------------------------------------- */

/* Argument i of the operator as the old graph has it. */
static inline cfx_value cfx__export_arg(const cfx__onnx_export *x, int i) { return x->args[i]; }
static inline bool cfx__export_flag(const cfx__onnx_export *x, int i) {
    return x->args[i].tag == CFX_TAG_BOOL && cfx_as_bool(x->args[i]);
}
/* What the node computes, and what is given for argument i. */
cfx_result cfx__export_result(const cfx__onnx_export *x);
cfx_result cfx__export_given(const cfx__onnx_export *x, int i);
/* Argument i as a value of the new graph; None where it is left out. */
cfx_value cfx__export_in(cfx__onnx_export *x, int i);
/* The same in a dtype; a number becomes a tensor of it. */
cfx_value cfx__export_as(cfx__onnx_export *x, int i, cfx_dtype d);
/* Whether argument i is a tensor of complex numbers, which has one dimension more in the new
 * graph. */
bool cfx__export_is_pairs(const cfx__onnx_export *x, int i);
/* A dimension, counted from the front. */
int cfx__export_dim(int64_t dim, int ndim);
/* Argument i as integers into out[CFX_MAX_DIMS]; -1, with an error, where one is no number. */
int cfx__export_ints(cfx__onnx_export *x, int i, int64_t *out);
/* Whether size i of a result is the number n. */
bool cfx__export_is_size(const cfx_result *r, int dim, int64_t n);
/* Whether anything reads result i of the node. */
bool cfx__export_is_read(const cfx__onnx_export *x, int64_t i);
/* Records why the node has no form in ONNX; bad. */
cfx_value cfx__export_lacks(const char *fmt, ...) CFX_PRINTF(1, 2);

/* ---- what rules make ------------------------------------------------------------------------- */

/* A call of an onnx:: operator; bad, with an error. */
cfx_value cfx__export_put(cfx__onnx_export *x, cfx_op *op, cfx_args a);
#define RULE(name) static cfx_value name(cfx__onnx_export *x, cfx_op *op)
#define PUT(name, ...) cfx__export_put(x, &cfx_op_onnx_##name, CFX_ARGS(__VA_ARGS__))
/* Item i of what such a call gives; how many it has is noted of it ("onnx_results"), so that those
 * that nothing uses are not forgotten. */
cfx_value cfx__export_item(cfx__onnx_export *x, cfx_value v, int i);
/* x cast to a dtype, from what it has. */
cfx_value cfx__export_cast(cfx__onnx_export *x, cfx_value v, cfx_dtype from, cfx_dtype to);
/* Constants: a tensor, a number of a dtype, integers as i64[n], one integer as i64[1]. */
cfx_value cfx__export_tensor(cfx__onnx_export *x, cfx_tensor *t);
cfx_value cfx__export_number(cfx__onnx_export *x, cfx_value number, cfx_dtype d);
cfx_value cfx__export_i64(cfx__onnx_export *x, int n, const int64_t *v);
static inline cfx_value cfx__export_one(cfx__onnx_export *x, int64_t v) {
    return cfx__export_i64(x, 1, &v);
}

/* ---- sizes (rules_sizes.c) ------------------------------------------------------------------- */

/* Sizes, or other integers, as i64[n]: a constant, or the parts put together. */
cfx_value cfx__export_sizes(cfx__onnx_export *x, cfx_value list);
/* One as i64[1], and as a tensor without dimensions in a dtype. */
cfx_value cfx__export_size(cfx__onnx_export *x, cfx_value v);
cfx_value cfx__export_scalar(cfx__onnx_export *x, cfx_value v, cfx_dtype d);
/* The sizes of a value of the new graph, of which the result is known. */
cfx_value cfx__export_shape(cfx__onnx_export *x, cfx_value v, const cfx_result *r);

/* ---- the whole ------------------------------------------------------------------------------- */

/* Exports the nodes of a graph, values of its placeholders being set: what its output gives, as a
 * tuple. Bad, with an error. */
cfx_value cfx__export_nodes(cfx__onnx_export *x, cfx_graph *g);
/* The program in ONNX's operators; scope. Its results are followed by what it writes to its tensors
 * and inputs. Bad, with an error that names each node which has no form there (export.c). */
cfx_program *cfx__onnx_exported(const cfx_program *p);
/* Higher-order operators (export_control.c). */
cfx_value cfx__export_control(cfx__onnx_export *x, const char *name);

#endif
