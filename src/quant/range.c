/* Ranges: between which numbers the values seen while calibrating are rounded. */
#include "quant.h"

#include "fx.h"

#include <math.h>

/* The least scale: a layer whose numbers are tiny is rounded as well as any other. */
static const double least_scale = 1e-30;

cfx__quant_scale cfx__quant_choose(const cfx__quant_grid *g, double low, double high) {
    const double span = (double)(g->high - g->low);
    low = low < 0 ? low : 0;
    high = high > 0 ? high : 0;
    if (g->symmetric) {
        double far = -low > high ? -low : high, scale = far / (span / 2);
        return (cfx__quant_scale){scale > least_scale ? scale : least_scale,
                                  g->low < 0 ? 0 : (g->low + g->high + 1) / 2};
    }
    double scale = (high - low) / span;
    scale = scale > least_scale ? (double)(float)scale : least_scale;
    double zero = (double)g->low - nearbyint(low / scale);
    zero = zero < (double)g->low ? (double)g->low : zero > (double)g->high ? (double)g->high : zero;
    return (cfx__quant_scale){scale, (int64_t)zero};
}

/* ---- what was seen --------------------------------------------------------------------------- */

enum { BINS = 2048 };

struct cfx__quant_range {
    bool any;
    double low, high;           /* of all numbers */
    double mean_low, mean_high; /* moving averages over batches */
    double from, to;            /* what the bins are between */
    double bin[BINS];
};

cfx__quant_range *cfx__quant_range_new(void) { return cfx__alloc0(sizeof(cfx__quant_range)); }
void cfx__quant_range_free(cfx__quant_range *r) { cfx__free(r); }

static int bin_of(const cfx__quant_range *r, double x) {
    double at = (x - r->from) / (r->to - r->from) * BINS;
    return at < 0 ? 0 : at >= BINS ? BINS - 1 : (int)at;
}

/* Makes the bins span [low, high]; what is in them moves to where their middles lie. */
static void widen(cfx__quant_range *r, double low, double high) {
    if (r->to > r->from && low >= r->from && high <= r->to)
        return;
    cfx__quant_range old = *r;
    r->from = old.to > old.from && old.from < low ? old.from : low;
    r->to = old.to > old.from && old.to > high ? old.to : high;
    if (r->to <= r->from)
        r->to = r->from + (r->from == 0 ? 1 : fabs(r->from));
    memset(r->bin, 0, sizeof r->bin);
    for (int i = 0; i < BINS && old.to > old.from; i++)
        if (old.bin[i] > 0)
            r->bin[bin_of(r, old.from + (i + 0.5) * (old.to - old.from) / BINS)] += old.bin[i];
}

void cfx__quant_range_add(cfx__quant_range *r, cfx_quantize_range how, const float *x, int64_t n) {
    const double rate = 0.01;
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (!n)
        return;
    r->mean_low = r->any ? r->mean_low + rate * (low - r->mean_low) : low;
    r->mean_high = r->any ? r->mean_high + rate * (high - r->mean_high) : high;
    r->low = r->any && r->low < low ? r->low : low;
    r->high = r->any && r->high > high ? r->high : high;
    r->any = true;
    if (how != CFX_QUANTIZE_PERCENTILE && how != CFX_QUANTIZE_HISTOGRAM)
        return;
    widen(r, low, high);
    for (int64_t i = 0; i < n; i++)
        r->bin[bin_of(r, x[i])]++;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Without the tails that hold (100 - percent) / 2 percent of the numbers each. */
static void cut_tails(const cfx__quant_range *r, double percent, double *low, double *high) {
    double all = 0, tail = 0;
    for (int i = 0; i < BINS; i++)
        all += r->bin[i];
    const double cut = all * (100 - percent) / 200, width = (r->to - r->from) / BINS;
    int first = 0, last = BINS - 1;
    for (tail = r->bin[0]; first < last && tail <= cut; tail += r->bin[++first]) {}
    for (tail = r->bin[last]; last > first && tail <= cut; tail += r->bin[--last]) {}
    *low = r->from + first * width;
    *high = r->from + (last + 1) * width;
    *low = *low < r->low ? r->low : *low;
    *high = *high > r->high ? r->high : *high;
}

/* The range with the least error, by PyTorch's search. */
static void search(const cfx__quant_range *r, double *low, double *high) {
    enum { STEPS = 256 };
    float bin[BINS], best_low, best_high;
    for (int i = 0; i < BINS; i++)
        bin[i] = (float)r->bin[i];
    cfx__histogram_search(bin, BINS, STEPS, (float)r->from, (float)r->to, &best_low, &best_high);
    *low = best_low, *high = best_high;
}

void cfx__quant_range_get(const cfx__quant_range *r, const cfx_quantize_options *o, double *low,
                          double *high) {
    *low = r->low, *high = r->high;
    switch (o->range) {
    case CFX_QUANTIZE_MINMAX: break;
    case CFX_QUANTIZE_AVERAGE: *low = r->mean_low, *high = r->mean_high; break;
    case CFX_QUANTIZE_PERCENTILE:
        cut_tails(r, o->percentile > 0 ? o->percentile : 99.99, low, high);
        break;
    case CFX_QUANTIZE_HISTOGRAM: search(r, low, high); break;
    }
}
