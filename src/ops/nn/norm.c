/* Sums over rows: see norm.inc. */
#include "../vecmath.h"
#include "norm.h"

#define INLINE static inline __attribute__((always_inline))

#define T float
#define FN(x) x##_f32
#include "norm.inc"
#define T double
#define FN(x) x##_f64
#include "norm.inc"
