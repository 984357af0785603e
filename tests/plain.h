/* A target that is made of nothing but the description of plans (src/plan/description.h): it
 * evaluates kernels one number at a time. What it computes has to be what the interpreter gives;
 * where it cannot say what a kernel means, neither can another target. */
#ifndef CFX_TEST_PLAIN_H
#define CFX_TEST_PLAIN_H

#include "../src/plan/description.h"

/* ---- expressions (plain_expr.c) -------------------------------------------------------------- */

/* A number as C has it in an expression. */
typedef struct {
    bool is_int;
    double f;
    int64_t i;
} plain_number;

static inline plain_number plain_float(double f) { return (plain_number){false, f, 0}; }
static inline plain_number plain_int(int64_t i) { return (plain_number){true, (double)i, i}; }

typedef struct plain_expr plain_expr;

/* The expression of a step, parsed; free it. NULL where it has words that are not known. */
plain_expr *plain_parse(const char *text);
void plain_expr_free(plain_expr *e);
/* Its value for operands x, y, z and numbers p0 .. p7, in type T: an integer's or a float's. */
plain_number plain_eval(const plain_expr *e, const plain_number *operands,
                        const plain_number *numbers, bool integer);

/* ---- plans (plain.c) ------------------------------------------------------------------------- */

/* How many kernels of each kind ran so far. */
typedef struct {
    long layers, loops, views, joins, calls, placed, higher;
} plain_counts;

extern plain_counts plain_ran;
/* Runs programs by plans for this target, those that are not planned by the interpreter. */
extern const cfx_executor plain_executor;

#endif
