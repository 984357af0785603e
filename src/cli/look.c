/* What there is to say of a value in one line: its kind and shape, and statistics of its numbers.
 */
#include "look.h"

#include <math.h>
#include <string.h>

const char *cli_brief(cfx_value v) {
    cfx_result r = cfx_result_of(v);
    return cfx_result_text(&r);
}

/* ---- statistics ------------------------------------------------------------------------------ */

enum { BLOCK = 1 << 16 };

static void add(cli_stats *s, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) {
            s->nan++;
            continue;
        }
        if (isinf(x[i])) {
            s->inf++;
        } else {
            double from = x[i] - s->mean; /* Welford's, so that the mean may be far from zero */
            s->mean += from / (double)++s->finite;
            s->squares += from * (x[i] - s->mean);
        }
        s->min = x[i] < s->min ? x[i] : s->min;
        s->max = x[i] > s->max ? x[i] : s->max;
        s->zeros += x[i] == 0;
    }
}

cli_stats cli_stats_of(const cfx_tensor *t) {
    cli_stats s = {.numel = t->numel, .min = INFINITY, .max = -INFINITY};
    size_t mark = cfx_scope_open();
    const cfx_tensor *flat =
        t->data && !cfx__dtype_is_complex(t->dtype) ? cfx__tensor_contiguous(t) : NULL;
    int64_t one = 1;
    for (int64_t at = 0; flat && at < t->numel; at += BLOCK)
        CFX_SCOPE
    {
        int64_t n = t->numel - at < BLOCK ? t->numel - at : BLOCK;
        cfx_tensor *part = cfx__tensor_alias(flat, 1, &n, &one, flat->offset + at);
        add(&s, (const double *)cfx__tensor_to_dtype(part, CFX_F64)->data, n);
    }
    cfx_scope_close(mark);
    s.known = flat != NULL;
    return s;
}

const char *cli_stats_text(const cfx_tensor *t) {
    cli_stats s = cli_stats_of(t);
    if (!s.known)
        return "";
    if (!s.numel)
        return "empty";
    double std = s.finite > 1 ? sqrt(s.squares / (double)(s.finite - 1)) : NAN;
    bool seen = s.nan < s.numel;
    return cfx__text_format(
        "min %.6g  max %.6g  mean %.6g  std %.6g  zeros %lld  NaN %lld  inf %lld",
        seen ? s.min : NAN, seen ? s.max : NAN, s.finite ? s.mean : NAN, std, (long long)s.zeros,
        (long long)s.nan, (long long)s.inf);
}

const char *cli_count(int64_t n) {
    const char *plain = cfx__text_format("%lld", (long long)n);
    cfx__text out = {0};
    for (size_t left = strlen(plain); *plain; plain++, left--) {
        cfx__text_putc(&out, *plain);
        if (left > 1 && left % 3 == 1 && *plain != '-')
            cfx__text_putc(&out, ',');
    }
    return cfx__text_take(&out);
}

const char *cli_bytes(int64_t n) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)n;
    int unit = 0;
    for (; size >= 1000 && unit < COUNT(units) - 1; unit++)
        size /= 1000;
    return cfx__text_format(unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}
