/* Forms that are derived from a functional operator: what their calls have to do with its own. */
#ifndef CFX__DERIVE_H
#define CFX__DERIVE_H

#include "dispatch.h"

/* Whether an operator gives one list of tensors: its out= form writes to a list, and gives nothing.
 */
static inline bool cfx__op_gives_list(const cfx__schema *s) {
    return s->nrets == 1 && s->rets[0].list && s->rets[0].type == CFX__T_TENSOR;
}

/* Where dtype, layout, device and pin_memory stand among the arguments of an operator that makes
 * tensors: its out= form has none of them. -1: nowhere. */
int cfx__op_options_at(const cfx__schema *s);
/* The arguments of the functional operator in a call of its out= form: those that are given, and
 * for the options what the tensor has that is written to. */
void cfx__op_out_args(const cfx__op_info *info, const cfx_value *args, cfx_value *functional);

#endif
