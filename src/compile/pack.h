/* pack: weights as the kernels of generated C read them, made when the file is generated. Nothing
 * here depends on the machine: the same bytes serve every width of vectors. */
#ifndef CFX__COMPILE_PACK_H
#define CFX__COMPILE_PACK_H

#include "../base/base.h"

enum { CFX__PANEL = 16 }; /* columns of a panel; NAME_PANEL of the kernels */

/* Panels of a k by n matrix, each [k][CFX__PANEL], the last filled up with zeros: how many floats
 * they are, and made of the matrix whose element (i, j) is w[i * row + j * col]. */
int64_t cfx__pack_panels_floats(int64_t k, int64_t n);
void cfx__pack_panels(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, float *to);

#endif
