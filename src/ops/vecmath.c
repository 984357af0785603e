/* What vecmath.h reads from memory. */
#include "vecmath.h"

const float cfx__vexp_least = -104.5f, cfx__vexp_most = 89.f;
