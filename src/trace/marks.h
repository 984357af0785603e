/* Marks on data-dependent numbers during an export.
 *
 * Shape rules compute with plain numbers, so item() returns a plain number in each world. The
 * number is marked (cfx_value.spare), and so is everything computed from it, and every size.
 * Operators accept marked numbers, but a read by C (cfx_integer, cfx_is_true) is noticed. C may
 * not read a data-dependent number, unless the range of its symbol determines it. It may read a
 * size that does not depend on data; whether one does is found by a second recording with other
 * data. */
#ifndef CFX__MARKS_H
#define CFX__MARKS_H

#include "../graph/graph.h"

struct cfx__recorder;
struct cfx__relation;

typedef struct cfx__mark {
    bool data;            /* it is data, or made of it; else it is a size, or made of sizes */
    cfx_value value;      /* what it is in this world, plain */
    const char *symbol;   /* what it is called; NULL: it was made of others, or is a size */
    const char *function; /* what made it: "operator.add"; NULL: it is a symbol or a size */
    int n;
    cfx_value of[2];      /* of these, marked or not */
    cfx_node *node;       /* that gives it; NULL: none does */
} cfx__mark;

typedef struct cfx__marks {
    VEC(cfx__mark) all;
    VEC(struct cfx__mark_read {
        cfx_site at;
        cfx_value value; /* marked */
    })
    reads; /* of sizes, in order */
    cfx__arena arena;
} cfx__marks;

void cfx__marks_free(cfx__marks *m);

/* The number, marked as what the recorder is told of it. */
cfx_value cfx__mark_put(struct cfx__recorder *r, cfx__mark m);
/* What a call gave, marked where it was made of marked numbers, or tells of a tensor (a list item
 * by item); elsewhere as it is. */
cfx_value cfx__mark_result(struct cfx__recorder *r, const char *function, cfx_args a,
                           cfx_value result, cfx_node *node);
/* The same of what a question about a tensor gave: a size says which symbol it is. */
cfx_value cfx__mark_answer(struct cfx__recorder *r, const cfx_op *op, cfx_args a, cfx_value v);
/* What is known of a marked number; NULL where it is not marked. */
const cfx__mark *cfx__mark_of(const struct cfx__recorder *r, cfx_value v);
/* Whether it is data. */
bool cfx__mark_is_data(const struct cfx__recorder *r, cfx_value v);
/* The number, plain: C looks at it (later.h). An error where it must not. */
cfx_value cfx__mark_read(cfx_site at, cfx_value v);
/* The same of sizes that are looked at without a call: all of t's, or one. */
void cfx__mark_read_sizes(cfx_site at, const cfx_tensor *t);
int64_t cfx__mark_read_size(cfx_site at, const cfx_tensor *t, int dim);
/* Whether the numbers of t may be looked at (later.h): not those that the module holds, nor those
 * that stand for nodes. */
bool cfx__mark_may_read(cfx_site at, const cfx_tensor *t);
/* What it is called: "u0 + 1", "Eq(u0, 5)"; scope. And where it is data, for who prints it; else
 * NULL. */
const char *cfx__mark_text(const struct cfx__recorder *r, cfx_value v);
const char *cfx__mark_shown(cfx_value v);
/* An integer as an expression of symbols; None where it is none. Scope. */
cfx_value cfx__mark_expr(const struct cfx__recorder *r, cfx_value v);
/* The arguments of a call, plain, unless they are logged (record_log.h); what is no size to the
 * operator is looked at. False, with an error. */
bool cfx__mark_settle(struct cfx__recorder *r, cfx_site at, const cfx__schema *s, cfx_value *args);

/* The symbol of a size of t that data decides, where the call that made t asked for it; NULL: it
 * did not, or it is another size (unknown.c). */
const char *cfx__unknown_name(const struct cfx__recorder *r, const cfx_tensor *t, int64_t dim);

/* ---- what is known of data (checks.c) -------------------------------------------------------- */

/* A truth as a relation between numbers; false where it is none. */
bool cfx__mark_relation(const struct cfx__recorder *r, cfx_value v, struct cfx__relation *out);
/* What a number must be by the ranges of its symbols and what forward checked; false: nobody knows.
 */
bool cfx__mark_known(const struct cfx__recorder *r, cfx_value v, cfx_value *out);
/* Whether the call is a check of numbers that are data: it is taken note of, or asserted. */
bool cfx__check_call(struct cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args,
                     cfx_value *result);

/* Assumes a relation that nobody checked: what PyTorch checks by itself, or the example says. False
 * where it cannot be assumed, or with an error. And the assertion of a truth where it stands. */
bool cfx__check_assume(struct cfx__recorder *r, cfx_site at, struct cfx__relation relation);
void cfx__check_assert(struct cfx__recorder *r, cfx_site at, cfx_value cond);

#endif
