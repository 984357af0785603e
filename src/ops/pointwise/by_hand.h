/* Loops of functions of one float that are written out for AVX-512, where the compiler's vectors of
 * vecmath.h take half as long again. What they give is as exact. */
#ifndef CFX__BY_HAND_H
#define CFX__BY_HAND_H

#include "../ops.h"

extern const pointwise_by_hand by_hand_exp, by_hand_log, by_hand_tanh, by_hand_sigmoid,
    by_hand_silu, by_hand_erf, by_hand_gelu;

/* Whether this machine runs them. */
bool by_hand_runs(void);

#endif
