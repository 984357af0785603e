/* The search of HistogramObserver: which part of a histogram, quantized in so many steps, makes the
 * square of the error least. In PyTorch's arithmetic, float32 where it computes in float32. */
#include "fx.h"

#include <math.h>

typedef struct search {
    const float *histogram;
    float *sums, *norms;
    int bins, steps;
    double width; /* of a bin */
} search;

static float cube_part(float begin, float end, float density) {
    return density * ((end * end * end - begin * begin * begin) / 3);
}

static float floor_div(float a, float b) {
    float rest = fmodf(a, b), q = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        q -= 1;
    if (q == 0)
        return copysignf(0, a / b);
    float f = floorf(q);
    return q - f > 0.5f ? f + 1 : f;
}

static float within(float x, float high) { return x < 0 ? 0 : x > high ? high : x; }

/* The error if bins first to last were the range. */
static double error_of(search *s, int first, int last) {
    double step = s->width * (last - first + 1) / s->steps;
    if (step == 0)
        return 0;
    float w = (float)s->width, d = (float)step, half = (float)(step / 2);
    float most = (float)(s->steps - 1);
    for (int i = 0; i < s->bins; i++) {
        float begin = (float)(i - first) * w, end = begin + w;
        float at_begin = within(floor_div(begin, d), most);
        float at_end = within(floor_div(end, d), most);
        float density = s->histogram[i] / w;
        float norm = 0;
        norm += cube_part(begin - (at_begin + 0.5f) * d, half, density);
        norm += (at_end - at_begin - 1) * cube_part(-half, half, density);
        norm += cube_part(-half, end - (at_end * d + half), density);
        s->norms[i] = norm;
    }
    size_t mark = cfx_scope_open();
    int64_t n = s->bins;
    double sum = cfx__tensor_number(cfx_sum(cfx_tensor_new(CFX_F32, 1, &n, s->norms)), 0);
    cfx_scope_close(mark);
    return sum;
}

/* One step: the end that loses more bins for the same part of the numbers moves in. */
static void walk(search *s, float total, int *first, int *last) {
    const double part = 1e-5;
    double low = 0, high = 1, least = INFINITY;
    int start = 0, end = s->bins - 1;
    while (low < high) {
        double next_low = low + part, next_high = high - part;
        int l = start, r = end, to_start = start, to_end = end;
        while (l < end && s->sums[l] < (float)(next_low * total))
            l++;
        while (r > start && s->sums[r] > (float)(next_high * total))
            r--;
        if (l - start > end - r)
            to_start = l, low = next_low;
        else
            to_end = r, high = next_high;
        if (to_start == start && to_end == end)
            continue;
        double error = error_of(s, to_start, to_end);
        if (error > least)
            break;
        least = error;
        start = to_start;
        end = to_end;
    }
    *first = start;
    *last = end;
}

void cfx__histogram_search(const float *histogram, int bins, int steps, float min, float max,
                           float *best_min, float *best_max) {
    search s = {histogram,
                cfx__alloc((size_t)bins * sizeof(float)),
                cfx__alloc((size_t)bins * sizeof(float)),
                bins,
                steps,
                ((double)max - (double)min) / bins};
    double sum = 0;
    for (int i = 0; i < bins; i++) {
        sum += histogram[i];
        s.sums[i] = (float)sum;
    }
    int first, last;
    walk(&s, (float)sum, &first, &last);
    float width = (max - min) / (float)bins;
    *best_min = min + width * (float)first;
    *best_max = min + width * (float)(last + 1);
    cfx__free(s.sums);
    cfx__free(s.norms);
}
