/* complex: complex numbers of given parts, and their products. */
#include <complex.h> /* not embedded */

NAME_INLINE float _Complex NAME_complexf(float re, float im) {
    const float parts[2] = {re, im};
    float _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

NAME_INLINE double _Complex NAME_complex(double re, double im) {
    const double parts[2] = {re, im};
    double _Complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}

/* x * y without the search for infinities that C prescribes. */
NAME_INLINE float _Complex NAME_cmulf(float _Complex x, float _Complex y) {
    return NAME_complexf(crealf(x) * crealf(y) - cimagf(x) * cimagf(y),
                         crealf(x) * cimagf(y) + cimagf(x) * crealf(y));
}

NAME_INLINE double _Complex NAME_cmul(double _Complex x, double _Complex y) {
    return NAME_complex(creal(x) * creal(y) - cimag(x) * cimag(y),
                        creal(x) * cimag(y) + cimag(x) * creal(y));
}
