/* optim: steps of optimisers on cards. */
#ifndef CFX__CUDA_OPTIM_H
#define CFX__CUDA_OPTIM_H

#include "../nn/optim.h"

/* Takes n steps, each on the card where its tensors lie, and waits for them; an error where a card
 * cannot. */
void cfx__cuda_optim(const cfx__optim_work *w, int n);

#endif
