/* Rewriting: a program becomes another one that computes the same. */
#ifndef CFX_REWRITE_H
#define CFX_REWRITE_H

#include <cfx/program.h>
#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program in Core ATen, as ExportedProgram.run_decompositions() gives it: nothing is written in
 * place (buffers and inputs that were, become results, which come first), and every operator that
 * is not a core one is replaced by what it is made of. `keep` is a list of operators to leave
 * whole, by name ("aten.linear.default" or "linear"), or None. An operator of the caller's that
 * writes to its arguments and has no form that does not becomes a call of
 * torch.ops.higher_order.auto_functionalized_v2, which runs it on copies and gives them. What is
 * made of other operators at some of the sizes that the program is made for stays whole, and is
 * refused where it cannot. A new program; scope. Bad, with an error that names the node, where it
 * cannot be done: where a sub-graph writes to what it is given, say, of which the program would
 * know nothing. */
CFX_API cfx_program *cfx_decompose(const cfx_program *p, cfx_value keep);
/* The same with every operator left whole: run_decompositions({}). */
CFX_API cfx_program *cfx_program_functionalize(const cfx_program *p);
/* The program with sizes of inputs that vary: {"in0.0": "batch", "in1.0": "batch"}, inputs by
 * number or name; sizes of one name are one symbol. What follows from them is inferred at many
 * sizes at once, and numbers in the program that were such sizes (of views, masks, ranges) are
 * computed from them; ranges say how far they may go. Scope. Bad, with an error that names the node
 * which works at the one size alone, or the size that is none. */
CFX_API cfx_program *cfx_make_dynamic(const cfx_program *p, const cfx_dict *sizes);

/* A decomposition of the caller's: as the `decompose` column of a cfx_op, fn sets c->out by calling
 * other operators. */
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
/* run_decompositions(table) with entries of the caller's in the table, or, where only_own, with no
 * others. An error names an operator that there is none of, and one that is made of itself. */
CFX_API cfx_program *cfx_decompose_by(const cfx_program *p, cfx_decompose_options options);

/* The program in ATen: foreign operators, as those of programs that .onnx files hold, are replaced
 * by what they are made of, and what they spelled out by the operators that PyTorch has for it. A
 * program without any is given back as it is; scope. Bad, with an error that names the node, where
 * it cannot be done: where what a node gives depends on numbers that only a run can tell. */
CFX_API cfx_program *cfx_to_aten(const cfx_program *p);

/* ---- patterns -------------------------------------------------------------------------------- */

/* A pattern or a replacement is a function (a module, which is traced; see cfx_module_new), a
 * graph, or a text in the syntax of generated code where calls may stand in calls: "mul(x,
 * sigmoid(x))". Its inputs, the free names of a text, stand for any value; its results are what is
 * replaced.
 *
 * Functions are the same however they are spelled (torch.relu, F.relu, x.relu(),
 * torch.ops.aten.relu.default), their in-place forms are others; arguments are compared by the
 * schema, given by position, by keyword or not at all. In functions and graphs numbers have to be
 * equal and of one type, and arguments in order, as in torch.fx. In texts numbers are compared with
 * a tolerance, x + y is y + x, and two names may stand for one value. */
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

/* A place where a pattern was found. */
typedef struct cfx_found {
    cfx_node *anchor;       /* what the pattern's result stands for, the first of several */
    cfx_dict *nodes;        /* node of the pattern to the value it stands for */
    cfx_value replacements; /* the nodes that were put there, a list */
} cfx_found;

/* All places, in the order of the graph; no node is part of two, unless that was asked for. */
typedef struct cfx_matches {
    cfx_obj head;
    int len;
    cfx_found *items;
    cfx_graph *pattern; /* whose nodes the keys of `nodes` are */
} cfx_matches;

/* What the pattern's node of that name stands for, borrowed; None where there is no such node. */
CFX_API cfx_value cfx_found_get(const cfx_found *f, const char *name);

/* How to search and replace; zero means torch.fx's replace_pattern(). */
typedef struct cfx_replace_options {
    /* False: this one is left as it is. */
    bool (*filter)(const cfx_found *f, cfx_graph *g, void *user);
    /* Makes a replacement for each place, instead of the one given; it may belong to the scope. */
    cfx_graph *(*replacement)(const cfx_found *f, cfx_graph *g, void *user);
    bool ignore_literals; /* any number fits any other */
    bool match_output;      /* the results of the pattern are those of the whole graph */
    bool match_placeholder; /* an input of the pattern stands for one of the graph's alone */
    bool overlapping;       /* a node may be part of several places; not where they are replaced */
    void *user;
} cfx_replace_options;

/* Finds a pattern in a GraphModule: values inside a match are not used outside of it, a match could
 * be one node without a cycle, and of overlapping ones the first counts. Scope. Bad, with an
 * error, where the pattern is none: dead code, nothing in it, an unknown operator. */
CFX_API cfx_matches *cfx_find_pattern_in(cfx_module *gm, cfx_source pattern,
                                         cfx_replace_options options);
/* The same, and puts the replacement in each place: it takes the inputs of the pattern (by
 * position; a text by name) and gives as many results. New nodes are ATen overloads where the old
 * ones were, and come from the same source lines. Where the replacement is a module, children that
 * no node calls or reads from are removed then, as torch.fx does. What was found; scope. Bad, with
 * an error, where it does not fit; the graph is then as it was before that place. */
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

/* Whether n is what a text says: cfx_match(n, "mul(x, sigmoid(x))", &x, &s). What the names of the
 * text stand for goes to the pointers after it, in the order in which they appear, then the calls
 * in it but for n itself, in the order in which they are made; a name that stands for no node is no
 * match. Others may use the values inside. False, with an error, where the text is no pattern. */
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

/* The rules of a text, called `what` in errors, of a file, or of a table, which has to stay; scope.
 * Bad, with an error that names the line and the rule: an unknown operator (with the nearest
 * name), wrong arguments, a name that the pattern does not bind. */
CFX_API cfx_rules *cfx_rules_parse(const char *text, const char *what);
CFX_API cfx_rules *cfx_rules_open(const char *path);
CFX_API cfx_rules *cfx_rules_table(const cfx_rule *rows, int n);
/* Applies rules to a GraphModule, in place, until none fits; how often. Values inside a pattern may
 * not be used outside, and nothing that is written to in place is moved. -1, with an error that
 * names the rule and the node, where a result does not fit or a rule never stops. */
CFX_API int cfx_rules_apply(const cfx_rules *r, cfx_module *gm);
/* The same to a copy of a program: results have to have the shape and dtype of what they replace,
 * and what new nodes compute is inferred. *changes (or NULL) is how often. Scope; bad, with an
 * error. */
CFX_API cfx_program *cfx_rewrite(const cfx_program *p, const cfx_rules *r, int *changes);
/* The same in place: how often, or -1. The program is spoilt where it fails. */
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
