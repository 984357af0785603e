/* cfx run --expect: results against a reference, one line for each, with the largest error and the
 * tolerance that would have passed; where numbers differ, the signal above the noise in dB, and how
 * many rows along the last dimension have their largest number at the same place. Errors are
 * measured as a share of the largest expected value. */
#include "look.h"

#include "../quant/quant.h"

#include <math.h>
#include <string.h>

double cli_tolerance(cfx_dtype d) {
    switch (d) {
    case CFX_F64:
    case CFX_C128:
        return 1e-9;
    case CFX_F32:
    case CFX_C64:
        return 1e-4;
    case CFX_F16:
    case CFX_C32:
        return 1e-2;
    case CFX_BF16:
        return 5e-2;
    case CFX_F8E4M3FN:
    case CFX_F8E4M3FNUZ:
        return 0.08; /* one step of the largest numbers */
    case CFX_F8E5M2:
    case CFX_F8E5M2FNUZ:
        return 0.15;
    default:
        return 0; /* integers and bools: equal */
    }
}

static cli_difference differ(const double *got, const double *want, int64_t n) {
    cli_difference d = {.scale = 1e-6};
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(want[i])) {
            d.scale = fabs(want[i]) > d.scale ? fabs(want[i]) : d.scale;
            d.signal += want[i] * want[i];
        }
        if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))
            continue;
        d.wrong++;
        double error = isfinite(got[i]) && isfinite(want[i]) ? fabs(got[i] - want[i]) : INFINITY;
        d.noise += error * error;
        if (error > d.error) {
            d.error = error;
            d.at = i;
            d.got = got[i];
            d.want = want[i];
        }
    }
    return d;
}

bool cli_differ(const cfx_tensor *got, const cfx_tensor *want, cli_difference *d) {
    bool complex = cfx__dtype_is_complex(want->dtype);
    if (!cfx__tensor_same_shape(got, want) || !got->data || !want->data ||
        cfx__dtype_is_complex(got->dtype) != complex)
        return false;
    cfx_dtype wide = complex ? CFX_C128 : CFX_F64;
    CFX_SCOPE {
        const cfx_tensor *g = cfx__tensor_contiguous_as(got, wide);
        const cfx_tensor *w = cfx__tensor_contiguous_as(want, wide);
        *d = differ((const double *)g->data, (const double *)w->data,
                    complex ? 2 * want->numel : want->numel);
    }
    return cfx_ok();
}

double cli_decibels(const cli_difference *d) {
    return d->wrong ? cfx__quant_decibels(d->signal, d->noise) : INFINITY;
}

/* The element's place, "[0, 3]"; scope. */
static const char *place(const cfx_tensor *t, int64_t i) {
    int64_t index[CFX_MAX_DIMS];
    for (int k = t->ndim - 1; k >= 0; k--) {
        int64_t size = t->shape[k] ? t->shape[k] : 1;
        index[k] = i % size;
        i /= size;
    }
    return cfx__shape_text(t->ndim, index);
}

/* How many rows along the last dimension have their largest number at the same place: the share;
 * negative where there are no such rows. */
static double top1(const cfx_tensor *got, const cfx_tensor *want) {
    const int64_t size = want->ndim ? want->shape[want->ndim - 1] : 0;
    if (size < 2 || !want->numel || !want->data || !cfx__dtype_is_float(want->dtype))
        return -1;
    int64_t same = 0, rows = want->numel / size;
    CFX_SCOPE {
        const double *g = (const double *)cfx__tensor_contiguous_as(got, CFX_F64)->data;
        const double *w = (const double *)cfx__tensor_contiguous_as(want, CFX_F64)->data;
        for (int64_t r = 0; r < rows && cfx_ok(); r++) {
            int64_t a = 0, b = 0;
            for (int64_t i = 1; i < size; i++) {
                a = g[r * size + i] > g[r * size + a] ? i : a;
                b = w[r * size + i] > w[r * size + b] ? i : b;
            }
            same += a == b;
        }
    }
    return (double)same / (double)rows;
}

/* Of a result that is something else altogether. */
static void note_other(const char *name, const char *why) {
    cli_answer_row("expected",
                   cfx_dict_of("name", name, "result", cfx_none(), "same", cfx_bool(false), "why",
                               why));
}

static void note_compared(const char *name, const cfx_tensor *want, const cli_difference *d,
                          double allowed, bool same, double top) {
    cfx_value row = cfx_dict_of("name", name, "result", cli_brief(cfx_tensor_value(want)), "same",
                                cfx_bool(same), "why", cfx_none());
    cfx_dict *facts = cfx_as_dict(row);
    cfx_dict_set(facts, "error", cli_fact(d->error));
    cfx_dict_set(facts, "passes_from", cli_fact(d->error / d->scale));
    cfx_dict_set(facts, "allowed", cli_fact(allowed));
    cfx_dict_set(facts, "decibels", cli_fact(cli_decibels(d)));
    cfx_dict_set(facts, "top1", top < 0 ? cfx_none() : cfx_float(top));
    cfx_dict_set(facts, "wrong", cfx_int(d->wrong));
    cfx_dict_set(facts, "of", cfx_int(want->numel));
    cli_answer_row("expected", row);
}

static bool compare_tensors(int width, const char *name, const cfx_tensor *got,
                            const cfx_tensor *want, double least) {
    if (got->dtype != want->dtype || !cfx__tensor_same_shape(got, want)) {
        cli_print("%-*s %s, not %s  differs\n", width, name, cli_brief(cfx_tensor_value(got)),
                  cli_brief(cfx_tensor_value(want)));
        note_other(name, cfx__text_format("%s, not %s", cli_brief(cfx_tensor_value(got)),
                                          cli_brief(cfx_tensor_value(want))));
        return false;
    }
    if (want->numel && !got->data != !want->data) { /* as on the meta device */
        cli_print("%-*s %s without numbers  differs\n", width, name,
                  cli_brief(cfx_tensor_value(got)));
        note_other(name, "without numbers");
        return false;
    }
    bool complex = cfx__dtype_is_complex(want->dtype);
    cli_difference d = {.scale = 1e-6};
    cli_differ(got, want, &d);
    double own = cli_tolerance(want->dtype), allowed = own > 0 ? fmax(own, least) : own;
    bool same = d.error <= allowed * d.scale;
    double top = top1(got, want);
    note_compared(name, want, &d, allowed, same, top);
    cli_print("%-*s %-20s largest error %-10.3g passes from %-10.3g allowed %-8g %s", width, name,
              cli_brief(cfx_tensor_value(want)), d.error, d.error / d.scale, allowed,
              same ? "same" : "differs");
    if (!same)
        cli_print(": %lld of %lld; at %s %.9g, not %.9g", (long long)d.wrong,
                  (long long)want->numel, place(want, complex ? d.at / 2 : d.at), d.got, d.want);
    if (d.wrong && isfinite(cli_decibels(&d)))
        cli_print("; %.1f dB", cli_decibels(&d));
    if (d.wrong && top >= 0)
        cli_print("; top-1 %.4g%%", 100 * top);
    cli_print("\n");
    return same;
}

/* The numbers of results, by out0, out1, ... and by their own names; the first of one name. */
static cfx_dict *numbers_of(int64_t n, const cfx_list *names) {
    cfx_dict *by_name = cfx_dict_new();
    for (int64_t i = n - 1; i >= 0; i--) {
        cfx_dict_set(by_name, cfx__text_format("arr_%lld", (long long)i), cfx_int(i));
        cfx_dict_set(by_name, cfx__text_format("out%lld", (long long)i), cfx_int(i));
        if (i < names->len && cfx_text(names->items[i]))
            cfx_dict_put(by_name, names->items[i], cfx_int(i));
    }
    return by_name;
}

/* As wide as the names are; a few long ones may stand out. */
static int name_width(const cfx_dict *expected) {
    int width = 8;
    for (int64_t k = 0; k < expected->len; k++) {
        const int n = (int)strlen(cfx_text(expected->entries[k].key));
        width = n > width && n <= 40 ? n : width;
    }
    return width;
}

bool cli_expect(const cfx_list *results, const cfx_list *names, const cfx_dict *expected,
                double least) {
    bool same = true;
    const cfx_dict *by_name = numbers_of(results->len, names);
    const int width = name_width(expected);
    for (int64_t k = 0; k < expected->len; k++) {
        const char *name = cfx_text(expected->entries[k].key);
        cfx_value want = expected->entries[k].value;
        const cfx_value *i = cfx_dict_find(by_name, expected->entries[k].key);
        cfx_value got = i ? results->items[cfx_integer(*i)] : cfx_none();
        if (cfx_is_number(got))
            got = cfx_tensor_value(cfx_tensor_from_value(got));
        if (got.tag == CFX_TAG_TENSOR) {
            same &= compare_tensors(width, name, cfx_as_tensor(got), cfx_as_tensor(want), least);
        } else {
            const char *why = !i ? "is not among the results" : "is not a tensor here";
            cli_print("%-*s %s  differs\n", width, name, why);
            note_other(name, why);
            same = false;
        }
    }
    return same;
}
