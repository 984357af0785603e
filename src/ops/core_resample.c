/* Default decompositions of resampling: places to take from, and weights for what is there. */
#include "core.h"

#include <cfx/ops.h>

const core_row core_resample[] = {{0}};
