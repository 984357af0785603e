/* held: errors put aside while something else runs. */
#ifndef CFX__HELD_H
#define CFX__HELD_H

#include "base.h"

/* The recorded error, put aside: none is recorded until it is put back, in place of any other. */
typedef struct cfx__error_held {
    bool failed;
    cfx__error_cause cause;
    cfx_error error;
    cfx__text message, notes;
} cfx__error_held;

void cfx__error_hold(cfx__error_held *held);
void cfx__error_put_back(cfx__error_held *held);

#endif
