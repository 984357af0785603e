/* Calls on windows of images: pooling and interpolation. */
#include <cfx/ops.h>

#include "calls.h"

static int64_t item(cfx_value v, int i, int64_t fallback) {
    int64_t list[CFX_MAX_DIMS];
    const int n = cfx__c_ints(v, list);
    return n ? list[n == 1 ? 0 : i] : fallback;
}

static bool is_true(cfx_value v) { return v.tag == CFX_TAG_BOOL && cfx_as_bool(v); }

/* Loops over all dims of out; the place of x in the dims before the last nd. */
static const char *open_images(cfx__c *c, const cfx__c_ref *x, const cfx__c_ref *out, int nd,
                               cfx__c_walk *w) {
    cfx__text at = {0};
    *w = cfx__c_walk_over(out->ndim, out->shape);
    cfx__c_walk_add(w, out);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_open(c, w);
    for (int i = 0; i < x->ndim - nd; i++)
        cfx__text_printf(&at, "%s * %lld + ", cfx__c_var(i), (long long)x->stride[i]);
    return at.len ? cfx__text_take(&at) : "";
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct {
    int nd;
    bool max, indices;
    cfx_value kernel, stride, padding, dilation;
    bool ceil;         /* the last window may end behind the image */
    bool with_padding; /* counts what is beside the image */
    int64_t divisor;   /* 0: the size of the window */
} pooling;

static pooling read_pooling(const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const char *name = cfx__op_info_of(k->op)->schema->name;
    pooling p = {.nd = strstr(name, "3d")   ? 3
                       : strstr(name, "1d") ? 1
                                            : 2,
                 .max = strstr(name, "max_pool") != NULL,
                 .indices = strstr(name, "with_indices") != NULL,
                 .kernel = a[1],
                 .stride = a[2],
                 .padding = a[3],
                 .dilation = cfx_int(1)};
    if (p.max) {
        p.dilation = a[4];
        p.ceil = is_true(a[5]);
    } else {
        p.ceil = is_true(a[4]);
        p.with_padding = is_true(a[5]);
        p.divisor = k->step->nbound > 6 && a[6].tag == CFX_TAG_INT ? cfx_integer(a[6]) : 0;
    }
    return p;
}

void cfx__c_call_pool(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const cfx__c_ref *out = results->refs;
    const pooling p = read_pooling(k);
    const int lead = x->ndim - p.nd;
    const bool wide = x->dtype == CFX_F64, index = p.indices && cfx__c_reads_more(u);
    const bool whole = !cfx__dtype_is_float(x->dtype);
    if (whole && !p.max && p.divisor < 0) {
        cfx__c_refuse(u, "%s of integers by less than 0 has no form in C", cfx_op_name(k->op));
        return;
    }
    if (index)
        cfx__c_pointer(c, &results->refs[1], "index", true);
    cfx__c_walk w;
    const char *base = open_images(c, x, out, p.nd, &w);
    const char *type = whole ? "int64_t" : wide ? "double" : "float";
    cfx__c_line(c, "%s %s = %s;", type, p.max ? "best" : "sum",
                whole   ? p.max ? "INT64_MIN" : "0"
                : p.max ? wide ? "-(double)INFINITY" : "-INFINITY"
                : wide  ? "0.0"
                        : "0.0f");
    if (index)
        cfx__c_line(c, "int64_t best_at = -1;"); /* then the first, be all as small as can be */
    cfx__text at = {0}, all = {0};
    cfx__text_puts(&at, base);
    const bool counts = !p.max && !p.divisor && !p.with_padding;
    if (counts)
        cfx__c_line(c, "int64_t count = 0;");
    for (int i = 0; i < p.nd; i++) {
        const int64_t length = item(p.kernel, i, 1), step = item(p.stride, i, length);
        const int64_t pad = item(p.padding, i, 0), far = item(p.dilation, i, 1);
        const int64_t has = x->shape[lead + i], outs = out->shape[lead + i];
        cfx__c_open(c, "for (int64_t t%d = 0; t%d < %lld; t%d++)", i, i, (long long)length, i);
        cfx__c_line(c, "const int64_t p%d = %s * %lld + t%d * %lld - %lld;", i,
                    cfx__c_var(lead + i), (long long)step, i, (long long)far, (long long)pad);
        /* where sizes vary it is to be one text for all */
        if (pad || (c->nvary ? p.ceil : (outs - 1) * step + (length - 1) * far >= has)) {
            cfx__c_line(c, "if (p%d < 0 || p%d >= %lld)", i, i, (long long)has);
            cfx__c_line(c, "    continue;");
        }
        cfx__text_printf(&at, "%sp%d * %lld", i ? " + " : "", i, (long long)x->stride[lead + i]);
    }
    const char *value = cfx__c_load(c, "x", cfx__text_take(&at), x->dtype);
    if (p.max) {
        const char *better = whole ? "v > best" : "v > best || v != v";
        cfx__c_line(c, "const %s v = %s;", type, value);
        if (index) {
            cfx__text where = {0};
            int64_t stride = 1;
            for (int i = p.nd - 1; i >= 0; i--) {
                cfx__text_printf(&where, "%sp%d * %lld", i == p.nd - 1 ? "" : " + ", i,
                                 (long long)stride);
                stride *= x->shape[lead + i];
            }
            cfx__c_line(c, "best_at = best_at < 0 || %s ? %s : best_at;", better,
                        cfx__text_take(&where));
        }
        cfx__c_line(c, "best = %s ? v : best;", better);
    } else {
        cfx__c_line(c, whole ? "sum = (int64_t)((uint64_t)sum + (uint64_t)%s);" : "sum += %s;",
                    value);
        if (counts)
            cfx__c_line(c, "count++;");
    }
    for (int i = 0; i < p.nd; i++)
        cfx__c_close(c);
    /* a window that counts padding ends where that does */
    for (int i = 0; i < p.nd && !p.max && p.with_padding && !p.divisor; i++) {
        const int64_t length = item(p.kernel, i, 1), step = item(p.stride, i, length);
        const int64_t pad = item(p.padding, i, 0), far = x->shape[lead + i] + pad;
        const bool over =
            c->nvary ? p.ceil : (out->shape[lead + i] - 1) * step - pad + length > far;
        cfx__text_puts(&all, i ? " * " : "");
        if (over)
            cfx__text_printf(&all, "(%s * %lld > %lld ? %lld - %s * %lld : %lld)",
                             cfx__c_var(lead + i), (long long)step, (long long)(far + pad - length),
                             (long long)(far + pad), cfx__c_var(lead + i), (long long)step,
                             (long long)length);
        else
            cfx__text_printf(&all, "%lld", (long long)length);
    }
    const char *by = p.divisor ? cfx__text_format("%lld", (long long)p.divisor)
                     : counts  ? "count"
                     : all.len ? cfx__text_take(&all)
                               : "1";
    cfx__text_release(&all);
    const char *result = p.max ? "best" : cfx__text_format("sum / (%s)(%s)", type, by);
    if (whole)
        result = cfx__text_format("(%s)(%s)", cfx__c_type(out->dtype), result);
    cfx__c_line(c, "out[%s] = %s;", cfx__c_at(&w, 0), cfx__c_store(c, result, out->dtype));
    if (index) {
        cfx__c_walk also = cfx__c_walk_over(out->ndim, out->shape);
        cfx__c_walk_add(&also, &results->refs[1]);
        cfx__c_line(c, "index[%s] = best_at;", cfx__c_at(&also, 0));
    }
    cfx__c_walk_close(c, &w);
}

/* _adaptive_avg_pool2d(self, output_size), adaptive_max_pool2d: windows that cover the image. */
void cfx__c_call_adaptive(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const cfx__c_ref *out = results->refs;
    const char *name = cfx__op_info_of(k->op)->schema->name;
    const bool max = strstr(name, "max") != NULL, index = max && cfx__c_reads_more(u);
    const int nd = strstr(name, "3d") ? 3 : 2, lead = x->ndim - nd;
    bool whole = c->card != NULL; /* where threads share a window that is all of an image */
    for (int i = 0; i < nd; i++)
        whole &= out->shape[lead + i] == 1;
    if (whole && !max) {
        cfx__c_put_mean(u, x, out, nd);
        return;
    }
    if (index)
        cfx__c_pointer(c, &results->refs[1], "index", true);
    cfx__c_walk w;
    const char *base = open_images(c, x, out, nd, &w);
    const char *type = x->dtype == CFX_F64 ? "double" : "float";
    cfx__text at = {0}, count = {0}, where = {0};
    cfx__text_puts(&at, base);
    int64_t below = cfx__c_count(x);
    for (int i = 0; i < lead; i++)
        below /= x->shape[i] ? x->shape[i] : 1;
    for (int i = 0; i < nd; i++) {
        const long long has = x->shape[lead + i], outs = out->shape[lead + i];
        const char *v = cfx__c_var(lead + i);
        below /= has ? has : 1;
        const bool even = outs && has % outs == 0; /* windows of one size */
        if (c->nvary ? outs == 1 : even) {
            cfx__c_line(c, "const int64_t from%d = %s * %lld;", i, v, has / outs);
            cfx__c_line(c, "const int64_t to%d = from%d + %lld;", i, i, has / outs);
        } else {
            cfx__c_line(c, "const int64_t from%d = %s * %lld / %lld;", i, v, has, outs);
            cfx__c_line(c, "const int64_t to%d = ((%s + 1) * %lld + %lld) / %lld;", i, v, has,
                        outs - 1, outs);
        }
        cfx__text_printf(&at, "%sp%d * %lld", i ? " + " : "", i, (long long)x->stride[lead + i]);
        cfx__text_printf(&count, "%s(to%d - from%d)", i ? " * " : "", i, i);
        cfx__text_printf(&where, "%sp%d * %lld", i ? " + " : "", i, (long long)below);
    }
    const char *zero = x->dtype == CFX_F64 ? "0.0" : "0.0f";
    const char *least = x->dtype == CFX_F64 ? "-(double)INFINITY" : "-INFINITY";
    cfx__c_line(c, "%s %s = %s;", type, max ? "best" : "sum", max ? least : zero);
    if (index) { /* the first of the window where nothing is larger than all */
        cfx__text first = {0};
        for (const char *t = where.data; *t; t++)
            cfx__text_puts(&first, *t == 'p' ? "from" : (const char[]){*t, 0});
        cfx__c_line(c, "int64_t best_at = %s;", cfx__text_take(&first));
    }
    for (int i = 0; i < nd; i++)
        cfx__c_open(c, "for (int64_t p%d = from%d; p%d < to%d; p%d++)", i, i, i, i, i);
    const char *value = cfx__c_load(c, "x", cfx__text_take(&at), x->dtype);
    const char *place = cfx__text_take(&where);
    if (max) {
        cfx__c_line(c, "const %s v = %s;", type, value);
        if (index)
            cfx__c_line(c, "best_at = v > best || v != v ? %s : best_at;", place);
        cfx__c_line(c, "best = v > best || v != v ? v : best;");
    } else {
        cfx__c_line(c, "sum += %s;", value);
    }
    for (int i = 0; i < nd; i++)
        cfx__c_close(c);
    const char *by = cfx__text_take(&count);
    const char *result = max ? "best" : cfx__text_format("sum / (%s)(%s)", type, by);
    cfx__c_line(c, "out[%s] = %s;", cfx__c_at(&w, 0), cfx__c_store(c, result, out->dtype));
    if (index) {
        cfx__c_walk also = cfx__c_walk_over(out->ndim, out->shape);
        cfx__c_walk_add(&also, &results->refs[1]);
        cfx__c_line(c, "index[%s] = best_at;", cfx__c_at(&also, 0));
    }
    cfx__c_walk_close(c, &w);
}

/* ---- interpolation --------------------------------------------------------------------------- */

/* What one step of the result is in the image: 1 / the factor that was given, or by the sizes: then
 * a quotient of those, which may vary. */
static const char *step_of(const cfx__c *c, const cfx__plan_kernel *k, int i, int64_t has,
                           int64_t outs) {
    const cfx_value *a = k->step->bound;
    const char *overload = cfx_op_name(k->op);
    const bool vec = strstr(overload, ".vec") != NULL;
    const bool linear = strstr(overload, "bilinear") != NULL;
    const cfx_value given = vec ? a[linear ? 3 : 2] : a[(linear ? 3 : 2) + i];
    double factor = 0;
    if (vec && given.tag == CFX_TAG_LIST)
        factor = cfx_number(cfx_as_list(given)->items[i]);
    else if (!vec && cfx_is_number(given))
        factor = cfx_number(given);
    if (factor > 0 || !c->nvary)
        return cfx__c_number(CFX_F32, factor > 0 ? 1 / factor : (double)has / (double)outs, 0);
    return cfx__text_format("(float)(%lld.0 / %lld.0)", (long long)has, (long long)outs);
}

/* The same where the first and last points of both are the same. */
static const char *step_of_corners(const cfx__c *c, int64_t has, int64_t outs) {
    if (outs > 1 && c->nvary)
        return cfx__text_format("(float)(%lld.0 / %lld.0)", (long long)(has - 1),
                                (long long)(outs - 1));
    return cfx__c_number(CFX_F32, outs > 1 ? (double)(has - 1) / (double)(outs - 1) : 0, 0);
}

void cfx__c_call_nearest(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const int nd = x->ndim - 2;
    cfx__c_walk w;
    const char *base = open_images(c, x, out, nd, &w);
    cfx__text at = {0};
    cfx__text_puts(&at, base);
    for (int i = 0; i < nd; i++) {
        const long long has = x->shape[2 + i];
        cfx__c_line(c, "const int64_t f%d = (int64_t)floorf((float)%s * %s);", i, cfx__c_var(2 + i),
                    step_of(c, k, i, has, out->shape[2 + i]));
        cfx__c_line(c, "const int64_t p%d = f%d < %lld ? f%d : %lld;", i, i, has - 1, i, has - 1);
        cfx__text_printf(&at, "%sp%d * %lld", i ? " + " : "", i, (long long)x->stride[2 + i]);
    }
    cfx__c_line(c, "out[%s] = x[%s];", cfx__c_at(&w, 0), cfx__text_take(&at));
    cfx__c_walk_close(c, &w);
}

void cfx__c_call_bilinear(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const bool corners = is_true(k->step->bound[2]);
    cfx__c_walk w;
    const char *base = open_images(c, x, out, 2, &w);
    for (int i = 0; i < 2; i++) {
        const int64_t has = x->shape[2 + i], outs = out->shape[2 + i];
        const char *scale = corners ? step_of_corners(c, has, outs) : step_of(c, k, i, has, outs);
        const char *v = cfx__c_var(2 + i);
        if (corners)
            cfx__c_line(c, "const float at%d = (float)%s * %s;", i, v, scale);
        else
            cfx__c_line(c, "const float at%d = fmaxf(((float)%s + 0.5f) * %s - 0.5f, 0.0f);", i, v,
                        scale);
        cfx__c_line(c, "const int64_t p%d = (int64_t)at%d < %lld ? (int64_t)at%d : %lld;", i, i,
                    (long long)(has - 1), i, (long long)(has - 1));
        cfx__c_line(c, "const int64_t q%d = p%d < %lld ? p%d + 1 : p%d;", i, i,
                    (long long)(has - 1), i, i);
        cfx__c_line(c, "const float u%d = at%d - (float)p%d;", i, i, i);
    }
    static const char corner[4][2] = {{'p', 'p'}, {'p', 'q'}, {'q', 'p'}, {'q', 'q'}};
    for (int i = 0; i < 4; i++) {
        const char *at =
            cfx__text_format("%s%c0 * %lld + %c1 * %lld", base, corner[i][0],
                             (long long)x->stride[2], corner[i][1], (long long)x->stride[3]);
        cfx__c_line(c, "const float c%d = %s;", i,
                    cfx__c_convert(c, cfx__c_load(c, "x", at, x->dtype), x->dtype, CFX_F32));
    }
    const char *v =
        "(1.0f - u0) * ((1.0f - u1) * c0 + u1 * c1) + u0 * ((1.0f - u1) * c2 + u1 * c3)";
    cfx__c_line(c, "out[%s] = %s;", cfx__c_at(&w, 0), cfx__c_store(c, v, out->dtype));
    cfx__c_walk_close(c, &w);
}

/* grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners), grid_sampler_3d */
void cfx__c_call_grid(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *grid = cfx__c_arg(u, a[1]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    const int nd = x->ndim - 2;
    if (x->dtype == CFX_F64) {
        cfx__c_refuse(u, "%s of doubles has no form in C", cfx_op_name(k->op));
        return;
    }
    int64_t shape[CFX_MAX_DIMS] = {out->shape[0]}, stride[CFX_MAX_DIMS] = {out->stride[0]};
    for (int i = 1; i <= nd; i++) /* channels come last: they share the taps */
        shape[i] = out->shape[i + 1], stride[i] = out->stride[i + 1];
    cfx__c_walk w = cfx__c_walk_over(nd + 1, shape);
    cfx__c_walk_strides(&w, nd + 1, shape, stride);
    cfx__c_walk_strides(&w, nd + 1, shape, grid->stride);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, grid, "grid", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "ptrdiff_t at[%d][4];", nd);
    cfx__c_line(c, "float by[%d][4];", nd);
    for (int i = 0; i < nd; i++) {
        const char *place = cfx__c_at(&w, 1);
        const int64_t off = (nd - 1 - i) * grid->stride[nd + 1];
        cfx__c_line(c, "const int n%d = %s(%s, %lld, %lld, %lld, %d, at[%d], by[%d]);", i,
                    cfx__c_kernel(c, "grid_taps"),
                    cfx__c_load(c, "grid",
                                off ? cfx__text_format("%s + %lld", place, (long long)off) : place,
                                grid->dtype),
                    (long long)x->shape[2 + i], (long long)cfx_integer(a[2]),
                    (long long)cfx_integer(a[3]), is_true(a[4]), i, i);
    }
    cfx__c_open(c, "for (int64_t ch = 0; ch < %lld; ch++)", (long long)x->shape[1]);
    cfx__c_line(c, "float sum = 0;");
    cfx__text from = {0}, weight = {0}, inside = {0};
    cfx__text_printf(&from, "%s * %lld + ch * %lld", cfx__c_var(0), (long long)x->stride[0],
                     (long long)x->stride[1]);
    for (int i = 0; i < nd; i++) {
        cfx__c_line(c, "for (int t%d = 0; t%d < n%d; t%d++)", i, i, i, i);
        c->indent++;
        cfx__text_printf(&from, " + at[%d][t%d] * %lld", i, i, (long long)x->stride[2 + i]);
        cfx__text_printf(&weight, "%sby[%d][t%d]", i ? " * " : "", i, i);
        cfx__text_printf(&inside, "%sat[%d][t%d] >= 0", i ? " && " : "", i, i);
    }
    cfx__c_line(c, "if (%s)", cfx__text_take(&inside));
    const char *place = cfx__text_take(&from);
    cfx__c_line(c, "    sum += %s * (%s);", cfx__c_load(c, "x", place, x->dtype),
                cfx__text_take(&weight));
    c->indent -= nd;
    cfx__c_line(c, "out[%s + ch * %lld] = %s;", cfx__c_at(&w, 0), (long long)out->stride[1],
                cfx__c_store(c, "sum", out->dtype));
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}
