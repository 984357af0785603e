/* NumPy's .npy files as bytes in memory: what an .npz archive has, too. */
#ifndef CFX__NPY_H
#define CFX__NPY_H

#include "tensor.h"

/* Whether bytes begin as a .npy file does. The tensor in such bytes, which are copied; scope. Bad,
 * with a FileError that calls it `what`. */
bool cfx__npy_is(const char *data, size_t size);
cfx_tensor *cfx__npy_load(const char *what, const char *data, size_t size);

#endif
