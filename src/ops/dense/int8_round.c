/* Rounding the input of a product by its own range. */
#include "int8.h"

#include "../dense.h"
#include "../ops.h"

#include <float.h>
#include <math.h>

/* Rows of float32 that become bytes, by the range that all have together. */
typedef struct {
    const float *x;
    int64_t n, depth; /* of a row */
    uint8_t *to;
    float *low, *high; /* of each row */
    float inverse, zero;
} rounding;

CFX__SIMD static void find_ranges(const rounding *r, int64_t begin, int64_t end) {
    const int64_t n = r->n;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->x + row * n;
        float low = 0, high = 0, odd = 0; /* 0, or NaN */
        _Pragma("omp simd reduction(min : low) reduction(max : high) reduction(+ : odd)")
        for (int64_t i = 0; i < n; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
            odd += x[i] * 0;
        }
        r->low[row] = low + odd;
        r->high[row] = high;
    }
}

CFX__SIMD static void round_rows(const rounding *r, int64_t begin, int64_t end) {
    const int64_t n = r->n, depth = r->depth;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->x + row * n;
        uint8_t *to = r->to + row * depth;
        for (int64_t i = 0; i < n; i++) {
            float v = rintf(x[i] * r->inverse) + r->zero;
            v = v > 0 ? v : 0;
            to[i] = (uint8_t)(int)(v < 255 ? v : 255);
        }
        memset(to + n, 0, (size_t)(depth - n));
    }
}

static void find_ranges_of(void *arg, int64_t begin, int64_t end) { find_ranges(arg, begin, end); }
static void round_rows_of(void *arg, int64_t begin, int64_t end) { round_rows(arg, begin, end); }

cfx__rounding int8_round(const float *x, int64_t rows, int64_t n, int64_t depth, uint8_t *to,
                         float *ranges) {
    rounding r = {.x = x, .n = n, .depth = depth, .to = to, .low = ranges, .high = ranges + rows};
    const int64_t grain = cfx__grain((double)n / 2);
    cfx__parallel(rows, grain, find_ranges_of, &r);
    float low = 0, high = 0, odd = 0;
    for (int64_t i = 0; i < rows; i++) {
        low = r.low[i] < low ? r.low[i] : low;
        high = r.high[i] > high ? r.high[i] : high;
        odd += r.low[i] * 0;
    }
    float scale = (high - low) / 255 + odd; /* in float32, as choose_qparams has it */
    if (!isfinite(scale)) { /* then every product is NaN */
        memset(to, 0, (size_t)(rows * depth));
        return (cfx__rounding){NAN, 0};
    }
    scale = scale > FLT_EPSILON ? scale : FLT_EPSILON;
    float zero = -rintf(low / scale);
    zero = zero < 0 ? 0 : zero > 255 ? 255 : zero;
    r.inverse = (float)(1 / (double)scale);
    r.zero = zero;
    cfx__parallel(rows, grain, round_rows_of, &r);
    return (cfx__rounding){scale, (int32_t)zero};
}
