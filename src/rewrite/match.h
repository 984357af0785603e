/* match: where in a graph a pattern is found.
 *
 * Invariant: a pattern is never changed once it is made, and a search changes nothing. What a
 * pattern's nodes stand for is a table by the nodes' ids; what is not decided is bad there. */
#ifndef CFX__MATCH_H
#define CFX__MATCH_H

#include <cfx/rewrite.h>

#include "../run/run.h"

/* ---- calls, whichever way they are spelled (calls.c) ----------------------------------------- */

/* A call as its schema has it: defaults filled in, one value for each argument. */
typedef struct cfx__call {
    uint64_t key; /* of the function: the same for all its spellings, another for in-place forms */
    cfx_op *op;   /* the overload */
    const cfx__schema *schema;
    bool named;   /* the overload was named, not chosen by the arguments */
    cfx_value args[CFX_MAX_ARGS];
} cfx__call;

/* The key alone; but for F.relu(x, inplace=True) the target tells it. */
uint64_t cfx__target_key(cfx_opcode op, cfx_target t);
/* What n calls; values may belong to the scope. False where it calls no operator, or wrongly: the
 * key is all there is then. */
bool cfx__call_of(const cfx_node *n, cfx__call *out);
/* Whether argument i is part of what is computed: not inplace=, which the key tells, not private.
 */
bool cfx__arg_counts(const cfx__schema *s, int i);
/* The argument of s that is called as argument i of another schema, or -1. */
int cfx__arg_like(const cfx__schema *s, const cfx__schema *of, int i);
/* Whether the first two arguments may change places. */
bool cfx__call_commutes(const cfx__call *c);
/* The operator whose name is most like this one, or NULL where none is; static. */
const char *cfx__nearest_operator(const char *name);

/* ---- numbers (match.c) ----------------------------------------------------------------------- */

/* Whether two numbers are one as rules write them: 1 is 1.0, and 0.79788 the square root of 2/pi
 * to the precision of a float, or to the digits there are. Nothing is near infinity but itself. */
bool cfx__near(cfx_value a, cfx_value b);

/* ---- patterns (pattern.c) -------------------------------------------------------------------- */

typedef struct cfx__pattern_node {
    const cfx_node *node;
    bool wild;     /* a placeholder: stands for any value */
    bool returned; /* the pattern's result: others may use what it stands for */
    bool commutes;
    bool named;    /* only this overload */
    uint64_t key;
    cfx_op *op;
    const cfx__schema *schema; /* NULL: arguments are compared as they are written */
    cfx_value *args;           /* one for each of the schema's */
} cfx__pattern_node;

/* A node of the pattern from which all the others are found, going from users to inputs. Those
 * after the first are reached from what an earlier one found: `steps` go from a node that is known
 * then, user by user, to the anchor; empty where nothing leads there. */
typedef struct cfx__pattern_anchor {
    const cfx_node *node;
    int nsteps;
    const cfx_node **steps; /* steps[0] is known; the last one is the anchor */
} cfx__pattern_anchor;

typedef struct cfx__pattern {
    cfx_obj head;
    cfx_graph *graph;   /* kept */
    cfx_module *module; /* whose attributes it names, kept; or NULL */
    int len;            /* of nodes: one for each id */
    cfx__pattern_node *nodes;
    int nanchors, nreturned, nwild, ncalls;
    cfx__pattern_anchor *anchors;
    const cfx_node **returned, **wild, **calls; /* in the order of the graph; calls: what is neither
                                                   placeholder nor output */
    bool loose;         /* numbers are compared with a tolerance, commutative operators both ways,
                           two wildcards may stand for one value */
    cfx_list *kept;     /* values that args are made of */
    cfx__arena arena;
} cfx__pattern;

/* The pattern of a graph, of a module, which is traced where it has none, and of a text, which is
 * loose. Scope; NULL, with an error. */
cfx__pattern *cfx__pattern_new(cfx_graph *g, cfx_module *owner, bool loose);
cfx__pattern *cfx__pattern_module(cfx_module *m);
cfx__pattern *cfx__pattern_text(const char *text);
/* The value that a match gives for a node of the pattern. */
static inline cfx_value *cfx__match_slot(cfx_value *table, const cfx_node *n) {
    return &table[cfx__node_of(n)->id];
}

/* ---- text (pattern_text.c) ------------------------------------------------------------------- */

/* A text with expressions, and where it is from: for errors. */
typedef struct cfx__rule_text {
    const char *file;  /* NULL: a pattern alone */
    const char *rule;  /* the name of the rule, or NULL */
    const char *start; /* of the whole file */
    const char *at;    /* what is read next */
    const char *end;   /* of the rule, or of the text */
} cfx__rule_text;

typedef enum cfx__rule_part {
    CFX__RULE_PATTERN,
    CFX__RULE_RESULT,
    CFX__RULE_CONDITION
} cfx__rule_part;

/* Reads an expression in the syntax of gm.code, calls in calls, into a graph of its own; t->at is
 * moved past it. In a pattern names are placeholders, `y := sigmoid(x)` names a node, and a tuple
 * is several results. In the other parts names are those of `pattern`. Conditions have `and`, `or`,
 * `not`, `in` and the functions of where.c too. Scope; NULL, with an error. */
cfx_graph *cfx__pattern_parse(cfx__rule_text *t, cfx__rule_part part, const cfx_graph *pattern);
/* The node of a pattern that texts call so: a placeholder or a named node; or NULL. */
cfx_node *cfx__pattern_named(const cfx_graph *g, const char *name);
/* Records an error: the file, the line, the rule, and what is wrong. */
void cfx__rule_fail(const cfx__rule_text *t, const char *fmt, ...) CFX_PRINTF(2, 3);

/* ---- conditions (where.c) -------------------------------------------------------------------- */

/* How many values the function of conditions takes that is called so (dtype, rank, users); -1 where
 * there is none. */
int cfx__condition_arity(const char *name);
/* Whether a condition holds for what the pattern's nodes stand for. What is not known, a shape for
 * one, makes it fail. `program` (or NULL) knows which inputs are constant. */
bool cfx__condition_holds(const cfx_graph *condition, const cfx__pattern *p, const cfx_value *table,
                          const cfx_program *program);

/* ---- search (match.c) ------------------------------------------------------------------------ */

typedef struct cfx__match_goal {
    cfx_value pattern, value;
    int next;
} cfx__match_goal;

typedef struct cfx__matcher {
    const cfx__pattern *pattern;
    cfx_graph *graph;
    bool ignore_literals;
    bool inputs;          /* placeholders of the pattern stand for placeholders */
    bool output;          /* its results are the results of the graph */
    bool whole;           /* inner values may not be used outside, nor a cycle be made */
    const bool *taken;    /* by id: nodes that may not be part of a match; or NULL */
    size_t ntaken;
    cfx_value *table;     /* what the pattern's nodes stand for; not counted */
    VEC(const cfx_node *) trail;
    VEC(cfx__match_goal) goals;
    int anchor, budget;
} cfx__matcher;

void cfx__matcher_open(cfx__matcher *m, const cfx__pattern *p, cfx_graph *g);
void cfx__matcher_close(cfx__matcher *m);
/* Whether the pattern is found with its first anchor at n; m->table tells how. Values in it may
 * belong to the scope. */
bool cfx__match_at(cfx__matcher *m, cfx_node *n);

/* ---- change (splice.c) ----------------------------------------------------------------------- */

/* The overload of ATen that n calls, however it is spelled, and its arguments, CFX_MAX_ARGS of
 * them, as the schema has them; values may belong to the scope. NULL where there is none. */
cfx_op *cfx__call_aten(const cfx_node *n, cfx_value *bound);

/* Which node took whose place: by id of those that were there at first, NULL where none did. */
typedef struct cfx__successors {
    cfx_node **by_id;
    size_t len;
} cfx__successors;

/* One place where nodes go and others come. */
typedef struct cfx__splice {
    cfx_graph *graph;
    const cfx__pattern *pattern;
    cfx_value *table;       /* what the pattern's nodes stand for */
    cfx_graph *replacement; /* with a placeholder for each of `inputs` */
    const cfx_value *inputs;
    int ninputs;
    const cfx__rule_text *text; /* of the rule, for errors */
    cfx_value (*build)(void *user); /* makes the results at the insert point, instead of the
                                       replacement; or NULL */
    void *user;
    cfx_value results;      /* set: the nodes that took the place of the pattern's, a list; scope */
    cfx_value made;         /* set: the new nodes, a list; scope */
    bool unsorted;          /* set: the graph has to be sorted */
} cfx__splice;

/* Puts the replacement in the place of what was found. Nodes that nothing uses any more are erased.
 * `successors` (or NULL) learns which node took whose place. False, with an error and nothing done,
 * where it does not fit. */
bool cfx__splice_do(cfx__splice *s, cfx__successors *successors);

#endif
