/* One program of several recordings: what merge.c, describe.c, reify.c and others share. */
#ifndef CFX__MERGE_H
#define CFX__MERGE_H

#include "worlds.h"

typedef struct cfx__merging {
    cfx__merge *m;
    cfx__exprs *exprs;
    cfx_node *at[CFX__WORLDS]; /* the node that is being merged */
    VEC(struct cfx__place {
        cfx_value expr; /* counted */
        cfx_node *node; /* what computes it; NULL: to be read of */
        cfx_node *tensor;
        int dim;
        cfx_node *before; /* where it is computed once someone uses it; NULL: there and then */
    })
    places;
    cfx_node *first;  /* after the placeholders, as recorded */
    cfx_node *pull;   /* what is computed now comes before this node; NULL: nothing does */
    VEC(struct cfx__real {
        double at[CFX__WORLDS];
        cfx_node *node;
    })
    reals;
    cfx_list *claims; /* what is asserted of sizes, as text; scope */
    VEC(cfx_node *) asserts; /* what asserts each */
    VEC(cfx_node *) claimed; /* questions that were asserted again */
    VEC(cfx_node *) made; /* here */
    VEC(struct cfx__lift {
        cfx_graph *graph; /* the sub-graph */
        cfx_value size;   /* counted */
        cfx_node *input;  /* of the sub-graph */
        cfx_node *node;   /* that gives it here */
    })
    lifts;                /* sizes that sub-graphs of the next call are to be given */
    cfx_list *plain;      /* names of noted arithmetic that does not vary; scope */
    VEC(struct cfx__twin {
        cfx_node *node;  /* noted arithmetic that gives what is there already */
        cfx_node *first; /* what gives it */
    })
    twins;                 /* in order (twins.c) */
    VEC(cfx_node *) forms; /* noted arithmetic that is known by another expression too */
    VEC(cfx_node *) settled; /* those that make of sizes that vary a number that does not */
    VEC(struct cfx__compared {
        cfx_node *node;
        cfx__relation c; /* counted */
    })
    compared;                /* comparisons that are the same in all worlds (reals.c) */
    bool sized;              /* the argument at hand may be such a number, once */
    struct cfx__symints *symints; /* while a decomposed program is traced (symints.h), else NULL */
} cfx__merging;

/* The node, or the dimension of a tensor, that gives an expression; NULL: none. */
struct cfx__place *cfx__place_find(const cfx__merging *g, cfx_value expr);
/* Whether what gives an expression is arithmetic inside another call than the one at hand, of which
 * nothing was made but numbers that do not vary: PyTorch has dropped it by now. */
bool cfx__place_is_spent(const cfx__merging *g, const struct cfx__place *p);
/* From now on node gives expr, or dimension dim of the tensor does. */
void cfx__place_add(cfx__merging *g, cfx_value expr, cfx_node *node, cfx_node *tensor, int dim);

/* A node at the insert point, with the source line of the node that is being merged. */
cfx_node *cfx__reify_node(cfx__merging *g, const char *target, cfx_value args, cfx_value val);
/* What an argument that is a number or a node stands for. */
cfx_value cfx__reify_meaning(cfx_value v);
/* An operation on numbers and nodes: a number, or a node, one that is there where there is one. */
cfx_value cfx__reify_apply(cfx__merging *g, cfx__sym_op op, cfx_value a, cfx_value b);
/* A node for an expression, made where there is none: of symbols where these are at hand, else by
 * asking a tensor. `written` where it stands for arithmetic of the program's. Bad, with an error.
 */
cfx_value cfx__reify(cfx__merging *g, cfx_value expr, bool written);

/* ---- what a node gives (describe.c) ---------------------------------------------------------- */

/* Metadata of all worlds as one, of result `out` of the node at hand; what has expressions already
 * is as the program gave it. Bad, with an error. */
cfx_value cfx__merge_val(cfx__merging *g, const cfx_value *v, int out);
/* The expression of a number that was seen; `what` names it in the error, with which it is bad. */
cfx_value cfx__merge_expression(cfx__merging *g, const cfx__seen *seen, const char *what);

/* ---- sizes for sub-graphs (lifts.c) ---------------------------------------------------------- */

/* A size that nothing in a sub-graph gives, as an input of it. Bad, with an error. */
cfx_value cfx__merge_lift(cfx__merging *g, cfx_value size);
/* Hands what its sub-graphs asked for so far to a call. */
void cfx__merge_give_lifted(cfx__merging *g, cfx_node *n);

/* ---- symbols that assertions alone name (replaced.c) ----------------------------------------- */

/* All is as it should be: metadata has the symbols that stand for them. */
void cfx__replaced_end(cfx__merging *g);

/* ---- ranges (joints.c) ----------------------------------------------------------------------- */

/* The ranges of symbols in what n gives, val, that follow from what it is given. */
void cfx__merge_ranges(cfx__merging *g, const cfx_node *n, cfx_value val);

/* ---- numbers that are no integers (reals.c) -------------------------------------------------- */

/* The node that gives these numbers, one in each world, made where there is none; None where no
 * arithmetic was found, bad with an error. */
cfx_value cfx__merge_real(cfx__merging *g, const cfx_value *v);
/* What PyTorch calls the result of arithmetic that gives no integer: IntTrueDiv(s0, 3). None where
 * it is other arithmetic. Scope. */
cfx_value cfx__merge_real_text(const cfx_node *n);
/* What a comparison of numbers is called: u0 < 5; None where it compares nothing that varies. */
cfx_value cfx__merge_truth_text(const cfx_node *n);
/* Notes a comparison that gives `truth` in all worlds; nothing where no side varies. At the end:
 * those that nothing uses are decisions of forward's. */
void cfx__merge_note_truth(cfx__merging *g, cfx_node *n, bool truth);
void cfx__merge_end_truths(cfx__merging *g);
/* Node n gives them. */
void cfx__merge_note_real(cfx__merging *g, const cfx_value *v, cfx_node *n);

/* ---- sizes of views (view_guards.c) ---------------------------------------------------------- */

/* Notes what PyTorch asks of sizes where n views a tensor by others; val: what it gives. */
void cfx__merge_note_view(cfx__merging *g, const cfx_node *n, cfx_value val);
/* The same where n cuts a tensor at numbers that are inputs. */
void cfx__merge_note_slice(cfx__merging *g, const cfx_node *n);

/* ---- arithmetic that is done twice (twins.c) ------------------------------------------------- */

/* Notes what merged arithmetic on numbers gives, `val`. */
void cfx__merge_note_number(cfx__merging *g, cfx_node *n, cfx_value val);
/* Notes arithmetic that gives the same number in all worlds; nothing where its operands do too. */
void cfx__merge_settle(cfx__merging *g, cfx_node *n);
/* The number as an argument of the node at hand, or the node that settled on it, if it can be. */
cfx_value cfx__merge_settled_or(cfx__merging *g, cfx_value number);
/* Whether argument i of a call may be a size in PyTorch. */
bool cfx__merge_takes_size(const cfx_node *n, int64_t i);
/* The last arithmetic that gave these numbers by an expression of its own, (s - 1) % s for s - 1;
 * NULL where there is none. */
cfx_node *cfx__merge_own_form(const cfx__merging *g, const cfx__seen *seen);
/* Erases what was made and nobody uses, nor used before twins went. */
void cfx__merge_drop_unused(cfx__merging *g);

/* ---- names (gaps.c) -------------------------------------------------------------------------- */

/* Gives the numbers in the names that went to the nodes after them. */
void cfx__merge_close_gaps(cfx_graph *g, const cfx_list *gone);

/* ---- reading (reads.c) ----------------------------------------------------------------------- */

/* The list of sizes in metadata of a tensor; None where there is none. */
cfx_value cfx__merge_sizes(cfx_value val);
/* Node n gives what val says: a number, or a tensor whose sizes may be asked for. Those that
 * PyTorch reads at once are read. */
void cfx__merge_note(cfx__merging *g, cfx_node *n, cfx_value val);
/* Asserts what n, a number that is data, must be by what forward checks, where that is one
 * number. */
void cfx__merge_assert_fixed(cfx__merging *g, cfx_node *n, const char *symbol);
/* Asserts what is known of sizes that n gives, where val does not name their symbols: they are one
 * number, or equal to others. */
void cfx__merge_note_hidden(cfx__merging *g, cfx_node *n, cfx_value val, const cfx_list *symbols);
/* The same for all inputs: numbers first, which need not be read then. */
void cfx__merge_note_inputs(cfx__merging *g);
/* Where n asserts what is asserted already, which gets its name: the node that it asks. Else None.
 */
cfx_value cfx__merge_claimed(cfx__merging *g, cfx_node *n);
/* Whether v is a symbol that depends on data, and nothing gives it yet. */
bool cfx__merge_is_fresh(const cfx__merging *g, cfx_value v);

#endif
