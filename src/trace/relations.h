/* Relations between numbers that are not known before a run: what a program checks of them, what
 * follows from it, and how PyTorch writes it. */
#ifndef CFX__RELATIONS_H
#define CFX__RELATIONS_H

#include "worlds.h"

/* "u0 >= 2", "Eq(u0, 5)", as sympy prints it; "u0 == 5", as Python does. Scope. */
const char *cfx__relation_text(const cfx__relation *r);
const char *cfx__relation_python(const cfx__relation *r);
/* Whether sympy has brackets around a side of <, <=, > or >=. */
bool cfx__relation_wraps(cfx_value side);
cfx__relation cfx__relation_not(cfx__relation r);
/* What Python's comparison is called: "operator.ge"; and the comparison called so, false where it
 * is none. */
const char *cfx__relation_function(cfx__rel op);
bool cfx__relation_named(const char *function, cfx__rel *op);
/* Whether an expression has the symbol. */
bool cfx__relation_names(cfx_value expr, const char *symbol);
/* Whether it holds in world k; false where it has no value there. */
bool cfx__relation_holds(const cfx__worlds *w, int k, const cfx__relation *r);
/* Whether it always holds (1) or never (0), by the ranges of symbols and what is assumed; -1: that
 * does not say. */
int cfx__relation_known(const cfx__worlds *w, const cfx__relation *r);
/* What an expression can be that is no less than min and no more than max: "[8:6]". Scope. */
const char *cfx__relation_range(const cfx__worlds *w, cfx_value expr, cfx_value min,
                                cfx_value max);
/* An integer that is a in world i and b in world k: a number, a symbol, or a line of one, but of
 * none that `beside` has. None: there is none. */
cfx_value cfx__relation_through(const cfx__worlds *w, int i, int64_t a, int k, int64_t b,
                                cfx_value beside);
/* The one number that an expression can be; false where there are more. */
bool cfx__relation_only(const cfx__worlds *w, cfx_value expr, int64_t *out);
/* Whether the sizes that an expression can have are bounded from below, more than all sizes are, or
 * else from above. */
bool cfx__relation_bounds(const cfx__worlds *w, cfx_value expr, bool below);
/* The largest number that an expression can be; INT64_MAX where there is no bound. */
int64_t cfx__relation_most(const cfx__worlds *w, cfx_value expr);
/* Changes one symbol for data so that it holds in world k, where its range lets it; `salt` chooses
 * which one, and by how much. */
void cfx__relation_mend(cfx__worlds *w, int k, const cfx__relation *r, uint64_t salt);
/* Where a is a symbol, its range is narrowed to what b can be. */
void cfx__relation_narrow(cfx__worlds *w, const cfx__relation *r);
/* Assumes it from now on: the range of its symbol is narrowed, where it bounds just one; else it is
 * kept with the worlds. */
void cfx__relation_assume(cfx__worlds *w, const cfx__relation *r);

#endif
