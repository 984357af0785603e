/* Products of complex numbers. */
#ifndef CFX__CMUL_H
#define CFX__CMUL_H

/* x * y without the search for infinities that C prescribes, which PyTorch does not make. */
#define CMUL(x, y)                                                                                 \
    __builtin_complex(__real__(x) * __real__(y) - __imag__(x) * __imag__(y),                       \
                      __real__(x) * __imag__(y) + __imag__(x) * __real__(y))

#endif
