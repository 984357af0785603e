/* Weights out of files: what those of a state_dict and those of adapters share. */
#ifndef CFX__WEIGHTS_H
#define CFX__WEIGHTS_H

#include <cfx/pack.h>

#include "../tensor/tensor.h"

/* Adds to a list of a report. */
void cfx__weights_note(cfx_dict *report, const char *list, const char *name);
bool cfx__weights_ends(const char *text, const char *end);

#endif
