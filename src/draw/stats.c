/* Numbers of a page's data: one, and what is said of those of a tensor. */
#include <math.h>

#include <cfx/watch.h>

#include "draw.h"

void cfx__draw_put_number(cfx__text *out, double x) {
    if (isfinite(x))
        cfx__text_printf(out, "%.6g", x);
    else
        cfx__text_puts(out, "null");
}

void cfx__draw_put_stats(cfx__text *out, const cfx_tensor *t) {
    cfx_stats st = {0};
    cfx_stats_add(&st, t);
    if (!st.count)
        return;
    cfx__text_printf(out, ",\"count\":%lld,\"zeros\":%lld,\"nans\":%lld,\"infs\":%lld",
                     (long long)st.count, (long long)st.zeros, (long long)st.nans,
                     (long long)st.infs);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"min", st.min}, {"max", st.max}, {"mean", st.mean}, {"deviation", st.deviation}};
    for (int i = 0; i < COUNT(numbers); i++) {
        cfx__text_printf(out, ",\"%s\":", numbers[i].name);
        cfx__draw_put_number(out, numbers[i].value);
    }
    cfx__text_puts(out, ",\"histogram\":[");
    for (int i = 0; i < CFX_STATS_BINS; i++)
        cfx__text_printf(out, "%s%lld", i ? "," : "", (long long)st.histogram[i]);
    cfx__text_putc(out, ']');
}
