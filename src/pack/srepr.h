/* Sizes that are symbols, as files write them: sympy's srepr form. */
#ifndef CFX__SREPR_H
#define CFX__SREPR_H

#include "../value/value.h"

/* What symbols were with the example inputs, by name. Zero is empty. */
typedef struct cfx__srepr_hints {
    cfx__map map; /* name to int64_t */
    cfx__arena arena;
} cfx__srepr_hints;

void cfx__srepr_hints_release(cfx__srepr_hints *h);
/* Notes a hint if the expression is a symbol and nothing else. */
void cfx__srepr_hints_note(cfx__srepr_hints *h, const char *expr, int64_t hint);

/* An expression in srepr form ("Mul(Integer(2), Symbol('s77', integer=True))") or, as old files
 * have it, in str form ("2*s77"): an int or a symbolic one; scope. What no such value can hold
 * (relations, fractions, functions not known) becomes its text in str form: "u0 <= 8". */
cfx_value cfx__srepr_read(const char *text, const cfx__srepr_hints *h);
/* The srepr form of what cfx__srepr_read gives. */
void cfx__srepr_write(cfx__text *out, cfx_value v);

#endif
