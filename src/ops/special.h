/* Special functions of one or two doubles, written once; float32 goes through them too. */
#ifndef CFX__SPECIAL_H
#define CFX__SPECIAL_H

#include "ops.h"

/* ---- gamma and its family (special_gamma.c) -------------------------------------------------- */

double special_log_gamma(double x);
double special_digamma(double x);
double special_trigamma(double x);
/* The Hurwitz zeta function: the sum of (q + k)^-s over k = 0, 1, ...; nan below s = 1. */
double special_hurwitz(double s, double q);
/* The regularised incomplete gamma functions, lower and upper. */
double special_gamma_p(double a, double x);
double special_gamma_q(double a, double x);

/* ---- Bessel and Airy functions (special_bessel.c) -------------------------------------------- */

double special_i0(double x);
double special_i1(double x);
double special_i0_scaled(double x); /* times exp(-|x|) */
double special_i1_scaled(double x);
double special_k0(double x);
double special_k1(double x);
double special_k0_scaled(double x); /* times exp(x) */
double special_k1_scaled(double x);
double special_airy(double x);

/* ---- what scalar overloads share ------------------------------------------------------------- */

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
