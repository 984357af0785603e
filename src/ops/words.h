/* Short words for formulas of one line, in the files *_back.c. */
#ifndef CFX__WORDS_H
#define CFX__WORDS_H

#include "back.h"

/* The gradient of the first result, an argument, the same as a tensor, a result; what gives an
 * argument its gradient, computed only where it is wanted; and grad_NAME whole, for operators whose
 * first argument alone has one. The engine sums a gradient over what was broadcast and gives it the
 * argument's dtype. */
#define G (b->gout[0])
#define A(i) (b->args[i])
#define X(i) back_arg(b, i)
#define Y(i) (b->out[i])
#define GIVE(i, x) (b->needs[i] ? back_give(b, i, x) : (void)0)
#define BACK(name, x)                                                                              \
    void grad_##name(cfx_back *b) { GIVE(0, x); }

#endif
