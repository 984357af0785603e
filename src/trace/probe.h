/* Finds branches on sizes. In C a size is a plain number, so the comparison of an `if` is
 * invisible. So forward is recorded at many more sizes than the program is made from (probe.c):
 * bounds, the neighbours of the example, powers of two, multiples, primes and random ones, each
 * size alone and all together. If a recording differs from the program (agree.c), the condition
 * that separates these sizes from the others is searched for (border.c), and reported in
 * PyTorch's words, or accepted (guards.c). */
#ifndef CFX__PROBE_H
#define CFX__PROBE_H

#include "dims.h"

/* Whether forward is as its program says, in world CFX__TRIAL: it may be another one there, or have
 * an error. */
typedef enum cfx__trial_end { CFX__TRIAL_SAME, CFX__TRIAL_OTHER, CFX__TRIAL_ERROR } cfx__trial_end;
typedef cfx__trial_end cfx__trial(void *user);

typedef struct cfx__probe {
    cfx__dims *dims;
    cfx__trial *trial;
    void *user;
    int64_t budget;  /* how long is looked, in ns: first ones are tried in any case */
    int64_t until;   /* what the clock says then */
    int64_t longest; /* sizes that take long to record are not made larger: in ns; 0: none yet */
    int64_t largest;
    int tried, enough; /* trials so far, and how many are made whatever the clock says */
    uint64_t random;
    cfx_dict *noted; /* symbol to the sizes that were tried of it alone, "2-71, 127-129"; counted */
} cfx__probe;

/* What forward asks of sizes. */
typedef struct cfx__finding {
    enum {
        CFX__FOUND_NOTHING, /* that sizes could be told apart by */
        CFX__FOUND_CONSTANT,
        CFX__FOUND_BOUNDS,
        CFX__FOUND_POWER, /* it is a power of two, or (rel: CFX__NE) none */
        CFX__FOUND_CONDITION
    } kind;
    size_t i; /* the symbol; of a condition: SIZE_MAX where it is of several */
    int64_t least, most;
    int64_t by;     /* a condition: the remainder by it; 0: no remainder */
    cfx_value a, b; /* the condition; scope */
    cfx__rel rel;
} cfx__finding;

/* How many symbols are sizes of inputs: the first ones. */
size_t cfx__probe_count(const cfx__probe *p);
/* Whether sizes, one for each of these symbols, may be: in range, not too large for tensors, and
 * what was asked holds. */
bool cfx__probe_may(const cfx__probe *p, const int64_t *sizes);
/* Whether the program is what forward does at these sizes. */
bool cfx__probe_at(cfx__probe *p, const int64_t *sizes);
/* The sizes of the example. */
void cfx__probe_hints(const cfx__probe *p, int64_t *sizes);
/* A random size for symbol i: not much larger than the example (near), or of all orders of
 * magnitude alike. */
int64_t cfx__probe_near(cfx__probe *p, size_t i, bool near);
/* By turns one and the other. */
int64_t cfx__probe_any(cfx__probe *p, size_t i);
/* All sizes that are tried of symbol i alone, the most telling first; the caller frees them. */
typedef VEC(int64_t) cfx__sizes;
void cfx__probe_sizes(cfx__probe *p, size_t i, cfx__sizes *out);

/* Looks for sizes at which the program is not what forward does, until the clock says so; they are
 * those of world CFX__TRIAL then. Else what was tried is noted. */
bool cfx__probe_look(cfx__probe *p);
/* What tells these sizes from those of the example. */
cfx__finding cfx__probe_explain(cfx__probe *p, const int64_t *sizes);
/* What is asked of symbol i alone, at this size of which it differs. */
cfx__finding cfx__probe_explain_one(cfx__probe *p, size_t i, int64_t size);
/* Whether symbol i, which cannot vary by itself, can where another one has another size: the
 * condition on both, or that it is a constant. */
cfx__finding cfx__probe_pinned(cfx__probe *p, size_t i);

/* Whether a comparison that is noted does not hold at all sizes, and what it asks of them then
 * (compared.c); scope. */
bool cfx__compared_find(const cfx__probe *p, const cfx__relation *c, cfx__finding *out);
/* The range that a condition on sums of several sizes leaves symbol i, whatever the others are;
 * false where it is no such condition, or not of it. */
bool cfx__compared_range(const cfx__probe *p, const cfx__relation *c, size_t i, int64_t *least,
                         int64_t *most);

/* ---- what becomes of it (guards.c) ----------------------------------------------------------- */

/* Looks for a size that cannot vary by itself, by the calls alone: `again` where it gave way. False
 * with an error; true where each can, in steps of *step at least. */
bool cfx__guards_settle(cfx__probe *p, bool *again, int64_t *step);
/* False, with an error in PyTorch's words, where the caller said of names what does not hold. */
bool cfx__guards_hold(const cfx__dims *d);
/* Grants what was found: true where the program is to be recorded again. Else false with an error;
 * `why` is told where nothing was found. */
bool cfx__guards_grant(cfx__probe *p, const cfx__finding *f, const char *why);

#endif
