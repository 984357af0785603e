/* Dynamic shapes without symbolic shape rules.
 *
 * A dynamic program is recorded in several worlds: at the sizes of the example, and at other sizes
 * within the ranges of its symbols. The recordings have the same nodes in the same order and differ
 * only in integers. An integer that is equal in all worlds is a constant. One that differs is an
 * expression of the symbols: of the kind that the operator computes sizes with (sizes.c), or an
 * expression that is already known, or one found by search (fit.c). The expression must reproduce
 * the value of every world. If the recordings differ otherwise, the program branched on a size.
 *
 * Why not symbolic shape rules, as in PyTorch? There are some 1,400 operators, and a rule
 * written twice, once for integers and once for expressions, is wrong in one of them. And
 * forward is C: `cfx_dim(x, 0) / 2` is an int when it is used, and no library sees the division.
 * Runs at several sizes observe the result of all computation. The price is that an expression
 * is inferred from samples. So sizes are not drawn at random: the sizes of two symbols are far
 * apart, so that neither is mistaken for the other; if an expression had to be searched for,
 * more worlds with consecutive sizes are recorded; and the result is verified at further sizes,
 * and refused where it is wrong. */
#ifndef CFX__WORLDS_H
#define CFX__WORLDS_H

#include <cfx/program.h>

#include "../value/guard.h"
#include "record.h"

/* How many there are as a rule; how many where numbers had to be guessed at; how many more where an
 * expression was found wrong elsewhere. The last of all is for trials. */
enum { CFX__FEW_WORLDS = 10, CFX__MANY_WORLDS = 24, CFX__EXTRA_WORLDS = 7,
       CFX__WORLDS = CFX__MANY_WORLDS + CFX__EXTRA_WORLDS + 1, CFX__TRIAL = CFX__WORLDS - 1 };

enum { CFX__RISING = -1, CFX__FALLING = -2 };

/* What a number is in each world. */
typedef struct cfx__seen {
    int64_t at[CFX__WORLDS];
} cfx__seen;

typedef struct cfx__symbol {
    char *name;
    int64_t least, most;
    int64_t hint; /* 0: none */
    int64_t by;   /* sizes are multiples of it from the hint on; 0: any */
    bool any;     /* a number that a loop carries: negative as well, the hint being the first */
    bool joined;  /* of two branches: its range follows from what they give */
    bool apart;   /* of a truth or a float: no expression of sizes has it */
    bool least_follows, most_follows; /* the bound is that of a size it is compared with */
    int64_t picked; /* there are no more elements that it could be the number of; 0: not known */
    cfx__seen size;
} cfx__symbol;

/* What a program checks of numbers that are data (relations.h), or asks of its sizes. */
typedef struct cfx__relation {
    cfx__rel op;
    cfx_value a, b; /* expressions, or the texts of what is none */
} cfx__relation;

typedef VEC(cfx__relation) cfx__relations;

/* A symbol that only assertions name: another stands for its size, which is one of an input's. */
typedef struct cfx__replaced {
    char *name, *by; /* s70, s53 */
    char *input;
    int dim;
} cfx__replaced;

typedef struct cfx__worlds {
    int n; /* those that were recorded, from number 0; 1 where there are no symbols */
    int most; /* that are to be recorded, but for extra ones; 0: CFX__FEW_WORLDS */
    int near; /* how close to the first the numbers are that loops carry */
    bool bare; /* sizes that depend on data are 1 and 0 too */
    int64_t step; /* not 0: sizes of inputs are near those of the example, so far apart */
    int held;     /* the symbol, counted from 1, whose size does not vary then; 0: none. Or
                   * CFX__RISING, CFX__FALLING: the first symbols are the smaller, or larger ones */
    VEC(cfx__symbol) symbols;
    VEC(cfx__replaced) replaced;
    const cfx_list *guards;  /* conditions on the sizes of inputs, as text; NULL: none */
    const cfx_graph *inputs; /* whose inputs these are */
    bool obeys;              /* sizes are chosen so that the guards hold */
    cfx__relations conditions; /* of sizes: hold in all worlds, where that can be; counted */
    VEC(int64_t *) extra;      /* sizes of inputs, in the order of symbols, of worlds more */
    VEC(struct cfx__total {
        cfx_value sum;   /* of symbols that depend on data; counted */
        cfx_value total; /* what the program asserts that it is; counted */
        bool at_most;    /* or that it is no more than that */
    }) totals;
    cfx__relations checks; /* that are no range of one symbol; expressions are counted */
    cfx__relations asserted; /* of data and sizes, by the program; counted */
    cfx__relations implied;  /* of data, by calls that are refused otherwise (implied.c); counted */
    cfx__relations asked;  /* all checks of forward's, as all worlds have them; counted */
    int renames;               /* sides of those that turned out to be others than in world 0 */
} cfx__worlds;

void cfx__worlds_free(cfx__worlds *w);
/* The symbol called so, or that stands for it, or NULL; adds one, unless it is there. */
cfx__symbol *cfx__worlds_find(const cfx__worlds *w, const char *name);
void cfx__worlds_add(cfx__worlds *w, const char *name, int64_t least, int64_t most, int64_t hint);
/* Whether a symbol is of the sizes of inputs. */
bool cfx__symbol_is_size(const cfx__symbol *s);
/* The largest number that a program is made for, which may be less than what is tried. */
int64_t cfx__symbol_largest(const cfx__symbol *s);
/* The smallest size of an input that is tried: 0 and 1 broadcast, and are views of anything. */
int64_t cfx__symbol_smallest(const cfx__symbol *s);
/* From now on it holds of the sizes in all worlds; whether all such hold in world k. */
void cfx__worlds_require(cfx__worlds *w, cfx__relation r);
bool cfx__worlds_hold(const cfx__worlds *w, int k);
/* Frees relations whose expressions are counted. */
void cfx__relations_free(cfx__relations *all);
/* Another world, of the sizes in world k; false where there are enough. Forgets the last of them,
 * or all. */
bool cfx__worlds_add_extra(cfx__worlds *w, int k);
void cfx__worlds_forget_extra(cfx__worlds *w, bool all);
/* Forgets the symbols for what only running can tell. */
void cfx__worlds_forget_unknown(cfx__worlds *w);
/* All symbols in the graphs of p, with their ranges. */
void cfx__worlds_of(cfx__worlds *w, const cfx_program *p);
/* Whether a symbol is called after this size of an input. */
bool cfx__symbol_is_of(const char *name, const cfx_node *input, int dim);
/* Finds the symbols that assertions of g alone name (replaced.c). */
void cfx__worlds_find_replaced(cfx__worlds *w, const cfx_graph *g);
/* What such a symbol is called that is this size of an input; NULL: there is none. */
const char *cfx__worlds_replaced(const cfx__worlds *w, const cfx_node *input, int dim);
/* The sides of what is asserted of a comparison, where one of them has such a symbol. */
bool cfx__worlds_claimed(const cfx__worlds *w, const cfx_node *asks, cfx_value side[2]);
/* Whether the guards hold at the sizes of world k. */
bool cfx__worlds_allow(const cfx__worlds *w, int k);
/* Whether the numbers of world k are what the program checks of data. */
bool cfx__worlds_checked(const cfx__worlds *w, int k);
/* How many worlds are to be recorded. */
int cfx__worlds_count(const cfx__worlds *w);
/* Whether all has to be recorded and merged once more, in more worlds, since in these few a number
 * was guessed at. */
bool cfx__worlds_again(cfx__worlds *w, bool guessed);
/* Chooses numbers that loops carry closer to the first ones from now on; false where they are as
 * close as can be, or none is carried. */
bool cfx__worlds_nearer(cfx__worlds *w);
/* Chooses sizes with more care from now on: first such that the program's guards hold (they may
 * make two sizes equal, which could not be told apart then), then further apart, counted from the
 * hints: programs may be made for even ones, or multiples of some power of two, alone. False where
 * nothing is left to try. */
bool cfx__worlds_coarser(cfx__worlds *w);
/* Chooses no sizes of 1 and 0 any more where data decides them; false where none is chosen. */
bool cfx__worlds_larger(cfx__worlds *w);
/* Sizes for world k: the hints in world 0, others else. Different ones for each `attempt`. */
void cfx__worlds_choose(cfx__worlds *w, int k, int attempt);
/* Other numbers that are data in world k, where the program checks what these are not. */
void cfx__worlds_mend(cfx__worlds *w, int k);

/* What an expression is in world k; false, without an error, where it has no value. */
bool cfx__worlds_eval(const cfx__worlds *w, int k, cfx_value v, int64_t *out);
/* An expression in world k as a number, other values as they are; bad, with an error. */
cfx_value cfx__worlds_value(const cfx__worlds *w, int k, cfx_value v);
/* The tensor that metadata describes, in world k; None where it describes none, with an error where
 * a size of it has no value. Scope. */
cfx_value cfx__worlds_tensor(const cfx__worlds *w, int k, cfx_value val);

/* ---- recordings become one (merge.c) --------------------------------------------------------- */

/* Whether two graphs are the same but for numbers. Else *where is the first node of a that differs,
 * or NULL where b has more. */
bool cfx__worlds_same(const cfx_graph *a, const cfx_graph *b, const cfx_node **where);

/* Whether a merged program is what was recorded in world k, which it need not be made of: the same
 * calls, with numbers that are its expressions there. That the calls are of the same nodes is for
 * cfx__worlds_same to say. */
bool cfx__worlds_agree(const cfx__worlds *w, int k, cfx_graph *program, cfx_graph *recording);

typedef struct cfx__merge {
    const cfx__worlds *worlds;
    cfx_graph *graph[CFX__WORLDS];
    cfx_module *root[CFX__WORLDS]; /* where their sub-graphs are; NULL: there are none */
    bool eager; /* sizes are read where a tensor is made, as PyTorch does when it decomposes */
    const struct cfx__record_log *log[CFX__WORLDS]; /* where a program is decomposed; else NULL */
    bool (*stays)(const cfx_node *n); /* with it: what is not dropped where nobody uses it */
    const cfx_graph *from; /* with it: the graph that was run again */
    bool guessed; /* set where an expression was found that a few worlds may not tell from others */
    struct cfx__exprs *exprs; /* what is known of numbers; NULL: to be made */
    cfx__relations *asked;   /* comparisons that only forward itself uses; NULL: no matter */
    struct cfx__merging *outer; /* whose sub-graph this is; NULL: the whole */
} cfx__merge;

/* Whether metadata is that of a number or truth, which merging finds the users of. */
bool cfx__merge_is_scalar(cfx_value val);

/* Makes graph 0 the program of all worlds: numbers that vary become nodes, metadata expressions.
 * Metadata of placeholders has them already. False, with an error. */
bool cfx__worlds_merge(cfx__merge *m);

/* What the call n gives, v in each world, as metadata has it: fake tensors, or their sizes as
 * expressions. Bad, with an error, where there is none for a size. Scope. */
cfx_value cfx__worlds_describe(struct cfx__exprs *x, const cfx_node *n, const cfx_value *v);

/* ---- expressions ----------------------------------------------------------------------------- */

/* Expressions and what they are in each world. */
typedef struct cfx__exprs {
    const cfx__worlds *worlds;
    bool guessed; /* an expression was found that a few worlds may not tell from others */
    VEC(struct cfx__expr {
        cfx_value expr; /* counted */
        cfx__seen seen;
    })
    known;
} cfx__exprs;

/* Begins with the symbols. */
void cfx__exprs_begin(cfx__exprs *x, const cfx__worlds *w);
void cfx__exprs_free(cfx__exprs *x);
/* Whether v has the values seen. */
bool cfx__exprs_proves(const cfx__exprs *x, cfx_value v, const cfx__seen *seen);
/* Notes what v is, unless something is known that is the same in all worlds. */
void cfx__exprs_note(cfx__exprs *x, cfx_value v);
/* The expression that is known to be so, or one that is found (fit.c); None where there is none.
 * A number where all are equal. Scope. */
cfx_value cfx__exprs_known(const cfx__exprs *x, const cfx__seen *seen);
cfx_value cfx__exprs_fit(cfx__exprs *x, const cfx__seen *seen);

/* The sizes of result `out` of the call n by the operator's own arithmetic (sizes.c), from the
 * metadata of its arguments: a list, or None where no rule says. Scope. */
cfx_value cfx__sizes_rule(const cfx_node *n, int out);

/* The symbol that says how long a slice is whose ends are data: one of its result that none of its
 * arguments has. NULL: n is no such slice. */
const char *cfx__sizes_cut(const cfx_node *n);

/* The number that PyTorch gives a symbol that comes from `source`: 77 of "L['x'].size()[0]". */
int cfx__symbol_number(const char *source);

#endif
