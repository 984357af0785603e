/* Panels of products and convolutions. */
#include "pack.h"

int64_t cfx__pack_panels_floats(int64_t k, int64_t n) {
    return (n + CFX__PANEL - 1) / CFX__PANEL * CFX__PANEL * k;
}

void cfx__pack_panels(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, float *to) {
    for (int64_t first = 0; first < n; first += CFX__PANEL)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = first; j < first + CFX__PANEL; j++)
                *to++ = j < n ? w[i * row + j * col] : 0;
}
