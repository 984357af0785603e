/* single: calls of one operator on a card. */
#ifndef CFX__CUDA_SINGLE_H
#define CFX__CUDA_SINGLE_H

#include <cfx/op.h>

/* Runs the kernel of a call, whose results are there, on a card. False: the host has to; true with
 * an error where the card said no. */
bool cfx__cuda_call(cfx_op_call *c, int card);
/* Forgets the plans that are kept for the next calls. */
void cfx__cuda_singles_forget(void);

#endif
