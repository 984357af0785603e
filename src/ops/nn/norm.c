/* Sums over rows: see norm.inc. */
#include "norm.h"

#define T float
#define FN(x) x##_f32
#include "norm.inc"
#define T double
#define FN(x) x##_f64
#include "norm.inc"
