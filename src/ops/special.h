/* Special functions of one or two doubles, written once; float32 goes through them too. */
#ifndef CFX__SPECIAL_H
#define CFX__SPECIAL_H

#include <complex.h>
#include <math.h>

#include "ops.h"

/* The modified Bessel function of the first kind, of order 0 (special_bessel.c). */
double special_i0(double x);

/* log(e^a + e^b) of complex numbers, the larger taken out; the real parts decide which that is. */
static inline double _Complex special_log_add(double _Complex a, double _Complex b) {
    double _Complex low = creal(a) < creal(b) ? a : b, high = creal(a) < creal(b) ? b : a;
    if (isnan(creal(a)) || isnan(cimag(a)) || isnan(creal(b)) || isnan(cimag(b)))
        return __builtin_complex((double)NAN, (double)NAN);
    if (isfinite(creal(low)) || creal(low) != creal(high))
        return high + clog(1 + cexp(low - high));
    return creal(low) < 0 ? low : clog(cexp(low) + cexp(high));
}

/* Column `decompose` of overloads that take a number where the overload in `.row` takes a tensor:
 * the number becomes a tensor that promotes as a number does, and that overload is called. */
void decompose_wrapped(cfx_op_call *c);

#endif
