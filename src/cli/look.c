/* What there is to say of a value in one line: its kind and shape, and statistics of its numbers.
 */
#include "look.h"

#include <math.h>
#include <string.h>

#include <cfx/watch.h>

const char *cli_brief(cfx_value v) {
    cfx_result r = cfx_result_of(v);
    return cfx_result_text(&r);
}

const char *cli_module_of(const cfx_node *n) {
    cfx_value stack = n ? cfx_node_get_meta(n, "nn_module_stack") : cfx_none();
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return "";
    return cfx_value_str(cfx_at(cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value, 0));
}

/* ---- statistics ------------------------------------------------------------------------------ */

const char *cli_stats_text(const cfx_tensor *t) {
    cfx_stats s = {0};
    cfx_stats_add(&s, t);
    if (!s.tensors)
        return "";
    if (!s.count)
        return "empty";
    double finite = (double)(s.count - s.nans - s.infs);
    double std = finite > 1 ? s.deviation * sqrt(finite / (finite - 1)) : NAN;
    return cfx__text_format(
        "min %.6g  max %.6g  mean %.6g  std %.6g  zeros %lld  NaN %lld  inf %lld",
        finite > 0 ? s.min : NAN, finite > 0 ? s.max : NAN, finite > 0 ? s.mean : NAN, std,
        (long long)s.zeros, (long long)s.nans, (long long)s.infs);
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

void cli_put_stats(cfx_dict *row, const cfx_stats *s) {
    const bool any = s->count > s->nans + s->infs;
    cfx_dict_set(row, "min", any ? cli_fact(s->min) : cfx_none());
    cfx_dict_set(row, "max", any ? cli_fact(s->max) : cfx_none());
    cfx_dict_set(row, "mean", any ? cli_fact(s->mean) : cfx_none());
    cfx_dict_set(row, "deviation", any ? cli_fact(s->deviation) : cfx_none());
    cfx_dict_set(row, "count", cfx_int(s->count));
    cfx_dict_set(row, "zeros", cfx_int(s->zeros));
    cfx_dict_set(row, "nan", cfx_int(s->nans));
    cfx_dict_set(row, "inf", cfx_int(s->infs));
}

const char *cli_large(int64_t n) {
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    double size = (double)n;
    int unit = 0;
    for (; size >= 1000 && unit < COUNT(units) - 1; unit++)
        size /= 1000;
    return cfx__text_format(unit ? "%.1f%s" : "%.0f%s", size, units[unit]);
}

const char *cli_bytes(int64_t n) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)n;
    int unit = 0;
    for (; size >= 1000 && unit < COUNT(units) - 1; unit++)
        size /= 1000;
    return cfx__text_format(unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}
