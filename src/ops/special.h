/* Special functions of one or two doubles, written once; float32 goes through them too. */
#ifndef CFX__SPECIAL_H
#define CFX__SPECIAL_H

#include "ops.h"

/* The modified Bessel function of the first kind, of order 0 (special_bessel.c). */
double special_i0(double x);

/* Column `decompose` of overloads that take a number where the overload in `.row` takes a tensor:
 * the number becomes a tensor that promotes as a number does, and that overload is called. */
void decompose_wrapped(cfx_op_call *c);

/* The value of a Chebyshev series at t of [-1, 1]. */
static inline double special_series(const double *c, int n, double t) {
    double b1 = 0, b2 = 0;
    for (int k = n - 1; k > 0; k--) {
        double b0 = 2 * t * b1 - b2 + c[k];
        b2 = b1;
        b1 = b0;
    }
    return t * b1 - b2 + c[0];
}

#endif
