/* Rewriting: decomposition, dynamic shapes, patterns and rules. */
#ifndef CFX_REWRITE_H
#define CFX_REWRITE_H

#include <cfx/program.h>
#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Core ATen of a program, like ExportedProgram.run_decompositions(): functionalises writes
 * (mutated buffers and inputs become results, which come first) and decomposes operators outside
 * of Core ATen. `keep` is a list of operators not to decompose ("aten.linear.default" or
 * "linear"), or None; what updates statistics unmarked by its schema (batch_norm) and dropout are
 * decomposed all the same, as in PyTorch. A user-defined operator that mutates arguments, without
 * a functional form, becomes a call of torch.ops.higher_order.auto_functionalized_v2, which runs
 * it on copies and returns them. An operator that is composite at only some of the program's sizes
 * is not decomposed, or refused where it must be. A new program; scope. Bad, with an error that
 * names the node, where it cannot be decomposed, for example because a sub-graph mutates its
 * operands. */
CFX_API cfx_program *cfx_decompose(const cfx_program *p, cfx_value keep);
/* The same; other operators stay whole, but composite views: run_decompositions({}). */
CFX_API cfx_program *cfx_program_functionalize(const cfx_program *p);
/* Makes sizes of inputs dynamic: {"in0.0": "batch", "in1.0": "batch"}, inputs by number or name;
 * equal names are one symbol. Other sizes are inferred at many sizes at once, and constants
 * derived from these sizes (in views, masks, ranges) are computed from them; the program gets
 * ranges. Scope. Bad, with an error that names the node that works at one size only, or the
 * invalid size. */
CFX_API cfx_program *cfx_make_dynamic(const cfx_program *p, const cfx_dict *sizes);

/* A user-defined decomposition: like the `decompose` column of a cfx_op, fn sets c->out by
 * calling other operators. A call for which it sets no result is left whole. */
typedef struct cfx_decomposition {
    const char *op; /* by name, as in `keep`: "aten.gelu.default", or "gelu" for all overloads */
    cfx_op_fn *fn;
} cfx_decomposition;
typedef struct cfx_decompose_options {
    cfx_value keep;               /* operators to leave whole, as above */
    const cfx_decomposition *own; /* the first row of an operator counts, before PyTorch's table */
    int nown;
    bool only_own;                /* every other operator is left whole */
} cfx_decompose_options;
/* run_decompositions(table) with user-defined entries in addition to PyTorch's table or, with
 * only_own, instead of it. An unknown operator, or one whose decomposition contains itself, is
 * an error that names it. */
CFX_API cfx_program *cfx_decompose_by(const cfx_program *p, cfx_decompose_options options);

/* Replaces foreign operators, such as those of .onnx files, by ATen, and recognised patterns by
 * PyTorch's operators for them. A program without foreign operators is returned unchanged;
 * scope. Bad, with an error that names the node, where the result of a node depends on values
 * known only at run time. */
CFX_API cfx_program *cfx_to_aten(const cfx_program *p);

/* ---- patterns -------------------------------------------------------------------------------- */

/* A pattern or a replacement is a function (a module, which is traced; see cfx_module_new), a
 * graph, or a text in the syntax of generated code with nested calls: "mul(x, sigmoid(x))". Its
 * inputs, the free names of a text, match any value; its results are replaced.
 *
 * A pattern matches every spelling of a function (torch.relu, F.relu, x.relu(),
 * torch.ops.aten.relu.default), but in-place forms are separate; arguments are compared by the
 * schema, given by position, by keyword or by default. In functions and graphs, as in torch.fx,
 * numbers must be equal and of the same type, and arguments in order. In texts numbers are
 * compared with a tolerance, x + y matches y + x, and two names may match one value. */
typedef struct cfx_source {
    const char *text;
    cfx_graph *graph;
    cfx_module *module;
} cfx_source;

static inline cfx_source cfx_source_text(const char *text) {
    cfx_source s = {text, NULL, NULL};
    return s;
}
static inline cfx_source cfx_source_graph(cfx_graph *graph) {
    cfx_source s = {NULL, graph, NULL};
    return s;
}
static inline cfx_source cfx_source_module(cfx_module *module) {
    cfx_source s = {NULL, NULL, module};
    return s;
}

/* A match of a pattern. */
typedef struct cfx_found {
    cfx_node *anchor;       /* what the pattern's result stands for, the first of several */
    cfx_dict *nodes;        /* node of the pattern to the value it stands for */
    cfx_value replacements; /* the nodes that were put there, a list */
} cfx_found;

/* All matches, in graph order; no node is in two, unless requested. */
typedef struct cfx_matches {
    cfx_obj head;
    int len;
    cfx_found *items;
    cfx_graph *pattern; /* whose nodes the keys of `nodes` are */
} cfx_matches;

/* The value matched by the pattern's node of that name, borrowed; None where there is no such
 * node. */
CFX_API cfx_value cfx_found_get(const cfx_found *f, const char *name);

/* How to search and replace; zero means torch.fx's replace_pattern(). */
typedef struct cfx_replace_options {
    /* False: this one is left as it is. */
    bool (*filter)(const cfx_found *f, cfx_graph *g, void *user);
    /* Makes the replacement for a match, instead of the one given; it may belong to the scope. */
    cfx_graph *(*replacement)(const cfx_found *f, cfx_graph *g, void *user);
    bool ignore_literals; /* any number fits any other */
    bool match_output;      /* the results of the pattern are those of the whole graph */
    bool match_placeholder; /* an input of the pattern stands for one of the graph's alone */
    bool overlapping;       /* a node may be part of several places; not where they are replaced */
    void *user;
} cfx_replace_options;

/* Finds a pattern in a GraphModule: values inside a match are not used outside, replacing it by
 * one node would not create a cycle, and the first of overlapping matches counts. Scope. Bad,
 * with an error, where the pattern is invalid: dead code, empty, an unknown operator. */
CFX_API cfx_matches *cfx_find_pattern_in(cfx_module *gm, cfx_source pattern,
                                         cfx_replace_options options);
/* Finds a pattern and replaces each match. The replacement takes the inputs of the pattern (by
 * position; a text by name) and has as many results. New nodes are ATen overloads where the old
 * ones were, with the same source lines. If the replacement is a module, unused children are
 * then removed, as in torch.fx. Returns the matches; scope. Bad, with an error, where it does
 * not match; replacements made before stay. */
CFX_API cfx_matches *cfx_replace_pattern_in(cfx_module *gm, cfx_source pattern,
                                            cfx_source replacement, cfx_replace_options options);

/* cfx_replace_pattern(gm, "relu(x)", "sigmoid(x)"): pattern and replacement are texts, graphs or
 * modules. */
#define cfx_find_pattern(gm, pattern)                                                              \
    cfx_find_pattern_in(gm, CFX_SOURCE(pattern), cfx_replace_plainly())
#define cfx_replace_pattern(gm, pattern, replacement)                                              \
    cfx_replace_pattern_in(gm, CFX_SOURCE(pattern), CFX_SOURCE(replacement), cfx_replace_plainly())

static inline cfx_replace_options cfx_replace_plainly(void) {
    cfx_replace_options o = {NULL, NULL, false, false, false, false, NULL};
    return o;
}

/* Whether node n matches a text: cfx_match(n, "mul(x, sigmoid(x))", &x, &s). The pointers
 * receive the nodes matched by the names of the text, in order of appearance, then those of its
 * calls except n, in order of evaluation; a name whose value is not a node does not match. Inner
 * values may have other users. False, with an error, where the text is not a pattern. */
CFX_API bool cfx_match_nodes(cfx_node *n, const char *text, ...);
#define cfx_match(n, ...) cfx_match_nodes(n, __VA_ARGS__, (cfx_node **)NULL)

/* ---- rules ----------------------------------------------------------------------------------- */

/* Many patterns at once. A file of rules has one in each block:
 *
 *     gelu_tanh:  x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * 0.7978845608))
 *             -> gelu(x, approximate='tanh')
 *         where dtype(x) in (f32, bf16)
 *
 * Patterns are texts as above; `s := sigmoid(x)` gives a value inside one a name, (sin(x), cos(x))
 * has two results, `_` is anything. Numbers that names stand for may be computed with in the
 * result: x * a * b -> x * (a * b). Conditions follow `where`, several may: dtype(x), rank(x),
 * shape(x), numel(x), len(l), users(x), number(a), int(a), none(a), tensor(x), constant(x), abs(a),
 * close(a, b), module(x) (the path of the innermost module that has it), selected(x, 'op:relu')
 * (whether a selector picks it: cfx/select.h), compared and joined as in Python; one that asks for
 * what is not known does not hold.
 * A # starts a comment. Rules do not change once they are read: threads may apply them at once. */
typedef struct cfx_rules cfx_rules;

/* A rule in C. */
typedef struct cfx_rule {
    const char *name;
    const char *pattern, *replacement, *where; /* texts; where may be NULL */
    bool (*when)(const cfx_found *f, void *user); /* one more condition, or NULL */
    /* Makes the results at the insert point instead of `replacement`: a node, or a tuple of them.
     * None: this place is left as it is. Or NULL. */
    cfx_value (*then)(const cfx_found *f, cfx_graph *g, void *user);
    void *user;
} cfx_rule;

/* Reads rules from a text (named `what` in errors), a file, or a table, which must stay valid;
 * scope. Bad, with an error that names the line and the rule: an unknown operator (with the
 * nearest name), wrong arguments, a name that the pattern does not bind. */
CFX_API cfx_rules *cfx_rules_parse(const char *text, const char *what);
CFX_API cfx_rules *cfx_rules_open(const char *path);
CFX_API cfx_rules *cfx_rules_table(const cfx_rule *rows, int n);
/* Applies rules to a GraphModule in place, until none matches. Returns the number of
 * applications. Values inside a match must not be used outside, and values that are mutated are
 * not moved. -1, with an error that names the rule and the node, where a result does not match
 * or a rule never stops. */
CFX_API int cfx_rules_apply(const cfx_rules *r, cfx_module *gm);
/* The same on a copy of a program: results must have the shape and dtype of what they replace,
 * and types of new nodes are inferred. *changes (or NULL) receives the number of applications.
 * Scope; bad, with an error. */
CFX_API cfx_program *cfx_rewrite(const cfx_program *p, const cfx_rules *r, int *changes);
/* The same in place: the number of applications, or -1, after which the program is unusable. */
CFX_API int cfx_rewrite_in_place(cfx_program *p, const cfx_rules *r);

#ifdef __cplusplus
}
static inline cfx_source cfx_source_of(const char *text) { return cfx_source_text(text); }
static inline cfx_source cfx_source_of(cfx_graph *graph) { return cfx_source_graph(graph); }
static inline cfx_source cfx_source_of(cfx_module *module) { return cfx_source_module(module); }
#define CFX_SOURCE(x) cfx_source_of(x)
#else
#define CFX_SOURCE(x)                                                                              \
    _Generic((x),                                                                                  \
        char *: cfx_source_text,                                                                   \
        const char *: cfx_source_text,                                                             \
        cfx_graph *: cfx_source_graph,                                                             \
        cfx_module *: cfx_source_module)(x)
#endif
#endif
