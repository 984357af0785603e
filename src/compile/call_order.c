/* Calls along one dimension that depend on order: cumulative operators, top-k, sorting,
 * histograms. */
#include <cfx/ops.h>

#include "calls.h"

/* A tensor without a dim, and the stride and size of that. */
typedef struct {
    const cfx__c_ref *rest;
    int64_t stride, size;
} lane;

static lane without(cfx__c *c, const cfx__c_ref *r, int dim) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    if (!r->ndim)
        return (lane){r, 1, 1};
    for (int i = 0; i < r->ndim; i++)
        if (i != dim) {
            shape[n] = r->shape[i];
            stride[n++] = r->stride[i];
        }
    return (lane){cfx__c_ref_like(c, r, n, shape, stride), r->stride[dim], r->shape[dim]};
}

static const char *along(const cfx__c_walk *w, int k, const char *v, int64_t stride) {
    const char *at = cfx__c_at(w, k);
    const char *step = stride == 1 ? v : cfx__text_format("%s * %lld", v, (long long)stride);
    return strcmp(at, "0") ? cfx__text_format("%s + %s", at, step) : step;
}

static cfx_dtype computed_in(cfx_dtype d) {
    return cfx__dtype_is_half(d) ? CFX_F32 : cfx__dtype_is_float(d) ? d : CFX_I64;
}

/* cumsum(self, dim), cumprod(self, dim), logcumsumexp(self, dim) */
void cfx__c_call_scan(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const int dim = x->ndim ? cfx__c_dim(k->step->bound[1], x->ndim) : 0;
    const lane in = without(c, x, dim), to = without(c, out, dim);
    const bool product = k->op == &cfx_op_cumprod, whole = !cfx__dtype_is_float(out->dtype);
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    cfx__c_walk_add(&w, to.rest);
    cfx__c_walk_add(&w, in.rest);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    const bool logs = k->op == &cfx_op_logcumsumexp;
    cfx__c_line(c, "%s sum = %s;", whole ? "int64_t" : "double",
                logs      ? "-(double)INFINITY"
                : product ? "1"
                          : "0");
    cfx__c_open(c, "for (int64_t r = 0; r < %lld; r++)", (long long)in.size);
    const char *v = cfx__c_convert(c, cfx__c_load(c, "x", along(&w, 1, "r", in.stride), x->dtype),
                                   x->dtype, out->dtype);
    if (logs) {
        cfx__c_line(c, "const double v = (double)%s, most = v > sum ? v : sum;", v);
        cfx__c_line(c, "const double least = v > sum ? sum : v;");
        cfx__c_line(c, "sum = v != v || sum != sum ? v + sum");
        cfx__c_line(c, "      : most == least && isinf(most) ? most");
        cfx__c_line(c, "                                    : most + log1p(exp(least - most));");
    } else if (whole)
        cfx__c_line(c, "sum = (int64_t)((uint64_t)sum %c (uint64_t)%s);", product ? '*' : '+', v);
    else
        cfx__c_line(c, "sum %c= (double)%s;", product ? '*' : '+', v);
    const char *sum = cfx__dtype_is_half(out->dtype)
                          ? "(float)sum"
                          : cfx__c_convert(c, "sum", whole ? CFX_I64 : CFX_F64, out->dtype);
    cfx__c_line(c, "out[%s] = %s;", along(&w, 0, "r", to.stride), cfx__c_store(c, sum, out->dtype));
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}

/* cummax(self, dim), cummin(self, dim): the last of the best so far, NaN before all. */
void cfx__c_call_scan_best(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const int dim = x->ndim ? cfx__c_dim(k->step->bound[1], x->ndim) : 0;
    const lane in = without(c, x, dim), to = without(c, &results->refs[0], dim);
    const lane index = without(c, &results->refs[1], dim);
    const cfx_dtype d = computed_in(x->dtype);
    const char *type = cfx__c_value_type(d);
    if (!cfx__c_count(x))
        return;
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    cfx__c_walk_add(&w, to.rest);
    cfx__c_walk_add(&w, index.rest);
    cfx__c_walk_add(&w, in.rest);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, &results->refs[0], "out", true);
    cfx__c_pointer(c, &results->refs[1], "index", true);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "%s best = 0;", type);
    cfx__c_line(c, "int64_t best_at = 0;");
    cfx__c_open(c, "for (int64_t r = 0; r < %lld; r++)", (long long)in.size);
    cfx__c_line(c, "const %s v = %s;", type,
                cfx__c_convert(c, cfx__c_load(c, "x", along(&w, 2, "r", in.stride), x->dtype),
                               x->dtype, d));
    cfx__c_open(c,
                cfx__dtype_is_float(d) ? "if (r == 0 || v != v || (best == best && v %c= best))"
                                       : "if (r == 0 || v %c= best)",
                k->op == &cfx_op_cummax ? '>' : '<');
    cfx__c_line(c, "best = v;");
    cfx__c_line(c, "best_at = r;");
    cfx__c_close(c);
    cfx__c_line(c, "out[%s] = %s;", along(&w, 0, "r", to.stride),
                cfx__c_store(c, cfx__c_convert(c, "best", d, results->refs[0].dtype),
                             results->refs[0].dtype));
    cfx__c_line(c, "index[%s] = best_at;", along(&w, 1, "r", index.stride));
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}

/* argmax, argmin, max.dim, min.dim: the first of the best, NaN before all. */
void cfx__c_call_best(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const bool both = k->op == &cfx_op_max_dim || k->op == &cfx_op_min_dim;
    const bool largest = k->op == &cfx_op_max_dim || k->op == &cfx_op_argmax;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const bool flat = a[1].tag == CFX_TAG_NONE;
    if (flat && !cfx__c_is_contiguous(x)) {
        cfx__c_refuse(u, "%s of all numbers, which do not lie in order", cfx_op_name(k->op));
        return;
    }
    if (flat)
        x = cfx__c_ref_like(c, x, 1, (int64_t[]){cfx__c_count(x)}, (int64_t[]){1});
    const int dim = x->ndim ? flat ? 0 : cfx__c_dim(a[1], x->ndim) : 0;
    const lane in = without(c, x, dim);
    const cfx__c_ref *to[2];
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    for (int i = 0; i < results->n && i < 2; i++) {
        const cfx__c_ref *r = &results->refs[i];
        to[i] = r->ndim == in.rest->ndim ? r : without(c, r, dim).rest;
        if (flat)
            to[i] = cfx__c_ref_like(c, r, 0, NULL, NULL);
        cfx__c_walk_add(&w, to[i]);
        cfx__c_pointer(c, r, both && !i ? "out" : "index", true);
    }
    const int from = cfx__c_walk_add(&w, in.rest);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    const cfx_dtype d = computed_in(x->dtype);
    const char *type = cfx__c_value_type(d);
    const bool whole = !cfx__dtype_is_float(d);
    const char *first = cfx__c_load(c, "x", along(&w, from, "0", in.stride), x->dtype);
    cfx__c_line(c, "%s best = %s;", type, cfx__c_convert(c, first, x->dtype, d));
    cfx__c_line(c, "int64_t best_at = 0;");
    cfx__c_open(c, "for (int64_t r = 1; r < %lld; r++)", (long long)in.size);
    cfx__c_line(c, "const %s v = %s;", type,
                cfx__c_convert(c, cfx__c_load(c, "x", along(&w, from, "r", in.stride), x->dtype),
                               x->dtype, d));
    cfx__c_open(c, whole ? "if (v %c best)" : "if (v %c best || (v != v && best == best))",
                largest ? '>' : '<');
    cfx__c_line(c, "best = v;");
    cfx__c_line(c, "best_at = r;");
    cfx__c_close(c);
    cfx__c_close(c);
    if (both)
        cfx__c_line(c, "out[%s] = %s;", cfx__c_at(&w, 0),
                    cfx__c_store(c, cfx__c_convert(c, "best", d, results->refs[0].dtype),
                                 results->refs[0].dtype));
    cfx__c_line(c, "index[%s] = best_at;", cfx__c_at(&w, both));
    cfx__c_walk_close(c, &w);
}

/* ---- sorting --------------------------------------------------------------------------------- */

static const char sort_text[] =
    "/* The order of n keys, by merging: equal ones stay as they are, NaN is the largest. */\n"
    "static void @(const $T *key, int64_t n, int down, int64_t *order, int64_t *spare) {\n"
    "    for (int64_t i = 0; i < n; i++)\n"
    "        order[i] = i;\n"
    "    for (int64_t width = 1; width < n; width *= 2) {\n"
    "        for (int64_t from = 0; from < n; from += 2 * width) {\n"
    "            const int64_t mid = from + width < n ? from + width : n;\n"
    "            const int64_t end = from + 2 * width < n ? from + 2 * width : n;\n"
    "            int64_t a = from, b = mid;\n"
    "            for (int64_t i = from; i < end; i++) {\n"
    "                int second = a >= mid;\n"
    "                if (a < mid && b < end) {\n"
    "                    const $T x = key[order[a]], y = key[order[b]];\n"
    "                    second = $C;\n"
    "                }\n"
    "                spare[i] = order[second ? b++ : a++];\n"
    "            }\n"
    "        }\n"
    "        for (int64_t i = 0; i < n; i++)\n"
    "            order[i] = spare[i];\n"
    "    }\n"
    "}\n";

static const char *sort_for(cfx__c *c, cfx_dtype d) {
    const char *type = cfx__c_value_type(d);
    const char *before = cfx__dtype_is_float(d)
                             ? "down ? y > x || (y != y && x == x) : y < x || (x != x && y == y)"
                             : "down ? y > x : y < x";
    cfx__text t = {0};
    for (const char *at = sort_text; *at; at++)
        if (at[0] == '$') {
            cfx__text_puts(&t, *++at == 'T' ? type : before);
        } else {
            cfx__text_putc(&t, *at);
        }
    return cfx__c_helper(c, cfx__text_format("sort_%s", type), cfx__text_take(&t));
}

/* Pointers to a row, to an element and its place, and to items in scratch. */
static void item_pointers(cfx__c *c, const cfx__c_ref *x, const cfx__c_refs *results, int64_t n) {
    const char *item = cfx__c_kernel(c, "item");
    cfx__c_scratch(c, 16 * n);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, &results->refs[0], "out", true);
    cfx__c_pointer(c, &results->refs[1], "index", true);
    cfx__c_line(c, "%s *items = (%s *)%s;", item, item, cfx__c_scratch_at(c, 0));
}

/* Makes items of a row, tensor 2 of the walk. */
static void fill_items(cfx__c *c, const cfx__c_walk *w, const cfx__c_ref *x, lane in,
                       bool largest_first) {
    const cfx_dtype d = computed_in(x->dtype);
    cfx__c_open(c, "for (int64_t r = 0; r < %lld; r++)", (long long)in.size);
    cfx__c_line(
        c, "items[r].key = %s%s(%s);", largest_first ? "~" : "",
        cfx__c_kernel(c, cfx__text_format("key_%s", cfx_dtype_brief(d))),
        cfx__c_convert(c, cfx__c_load(c, "x", along(w, 2, "r", in.stride), x->dtype), x->dtype, d));
    cfx__c_line(c, "items[r].at = r;");
    cfx__c_close(c);
}

/* topk(self, k, dim, largest, sorted): equals come as the interpreter, and PyTorch, leave them. */
void cfx__c_call_top(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const int dim = x->ndim ? cfx__c_dim(a[2], x->ndim) : 0;
    const lane in = without(c, x, dim);
    const lane values = without(c, &results->refs[0], dim);
    const lane index = without(c, &results->refs[1], dim);
    if (!cfx__c_count(&results->refs[0]))
        return;
    item_pointers(c, x, results, in.size);
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    w.serial = true;
    cfx__c_walk_add(&w, values.rest);
    cfx__c_walk_add(&w, index.rest);
    cfx__c_walk_add(&w, in.rest);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    fill_items(c, &w, x, in, cfx_as_bool(a[3]));
    cfx__c_line(c, "%s(items, %lld, %lld, %d);", cfx__c_kernel(c, "top"), (long long)values.size,
                (long long)in.size, cfx_as_bool(a[4]));
    cfx__c_open(c, "for (int64_t r = 0; r < %lld; r++)", (long long)values.size);
    cfx__c_line(c, "out[%s] = x[%s];", along(&w, 0, "r", values.stride),
                along(&w, 2, "items[r].at", in.stride));
    cfx__c_line(c, "index[%s] = items[r].at;", along(&w, 1, "r", index.stride));
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}

/* kthvalue(self, k, dim, keepdim), median.dim(self, dim, keepdim), nanmedian.dim, mode */
void cfx__c_call_pick(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const bool kth = k->op == &cfx_op_kthvalue, mode = k->op == &cfx_op_mode;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const int dim = x->ndim ? cfx__c_dim(a[kth ? 2 : 1], x->ndim) : 0;
    const lane in = without(c, x, dim);
    item_pointers(c, x, results, kth || mode ? in.size : 2 * in.size);
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    w.serial = true;
    for (int i = 0; i < 2; i++) {
        const cfx__c_ref *r = &results->refs[i];
        cfx__c_walk_add(&w, r->ndim && r->ndim == x->ndim ? without(c, r, dim).rest : r);
    }
    cfx__c_walk_add(&w, in.rest);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    fill_items(c, &w, x, in, false);
    const long long n = in.size;
    if (kth) {
        cfx__c_line(c, "const int64_t at = %s(items, %lld, %lld);", cfx__c_kernel(c, "pick_kth"),
                    (long long)cfx_integer(a[1]) - 1, n);
    } else if (mode) {
        cfx__c_line(c, "const int64_t at = %s(items, %lld);", cfx__c_kernel(c, "pick_mode"), n);
    } else {
        const char *v = cfx__c_load(c, "x", along(&w, 2, "r", in.stride), x->dtype);
        const bool whole = !cfx__dtype_is_float(x->dtype); /* none of which is NaN */
        cfx__c_line(c, "ptrdiff_t numbers = %lld;", whole ? n : 0);
        if (!whole) {
            cfx__c_line(c, "for (int64_t r = 0; r < %lld; r++)", n);
            cfx__c_line(c, "    numbers += %s == %s;", v, v);
        }
        cfx__c_line(c, "const int64_t at = %s(items, %lld, numbers, %d);",
                    cfx__c_kernel(c, "pick_median"), n, k->op == &cfx_op_nanmedian_dim);
    }
    cfx__c_line(c, "out[%s] = x[%s];", cfx__c_at(&w, 0), along(&w, 2, "at", in.stride));
    cfx__c_line(c, "index[%s] = at;", cfx__c_at(&w, 1));
    cfx__c_walk_close(c, &w);
}

/* sort(self, dim, descending), sort.stable, argsort */
void cfx__c_call_sort(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const bool stable = k->op == &cfx_op_sort_stable;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    const cfx__c_refs *results = cfx__c_slot(u, u->slot);
    const int dim = x->ndim ? cfx__c_dim(a[stable ? 2 : 1], x->ndim) : 0;
    const bool down = cfx_as_bool(a[stable ? 3 : 2]);
    const lane in = without(c, x, dim);
    const lane values = without(c, &results->refs[0], dim);
    const lane index = without(c, &results->refs[1], dim);
    const cfx_dtype d = computed_in(x->dtype);
    const char *type = cfx__c_value_type(d);
    const int64_t bytes = (in.size * cfx_dtype_size(d) + 63) / 64 * 64;
    cfx__c_scratch(c, bytes + 16 * in.size);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, &results->refs[0], "out", true);
    cfx__c_pointer(c, &results->refs[1], "index", true);
    cfx__c_line(c, "%s *key = (%s *)%s;", type, type, cfx__c_scratch_at(c, 0));
    cfx__c_line(c, "int64_t *order = (int64_t *)%s;", cfx__c_scratch_at(c, bytes));
    cfx__c_walk w = cfx__c_walk_over(in.rest->ndim, in.rest->shape);
    w.serial = true;
    cfx__c_walk_add(&w, values.rest);
    cfx__c_walk_add(&w, index.rest);
    cfx__c_walk_add(&w, in.rest);
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "for (int64_t r = 0; r < %lld; r++)", (long long)in.size);
    cfx__c_line(c, "    key[r] = %s;",
                cfx__c_convert(c, cfx__c_load(c, "x", along(&w, 2, "r", in.stride), x->dtype),
                               x->dtype, d));
    cfx__c_line(c, "%s(key, %lld, %d, order, order + %lld);", sort_for(c, d), (long long)in.size,
                down, (long long)in.size);
    cfx__c_open(c, "for (int64_t r = 0; r < %lld; r++)", (long long)values.size);
    cfx__c_line(c, "out[%s] = %s;", along(&w, 0, "r", values.stride),
                cfx__c_store(c, cfx__c_convert(c, "key[order[r]]", d, results->refs[0].dtype),
                             results->refs[0].dtype));
    cfx__c_line(c, "index[%s] = order[r];", along(&w, 1, "r", index.stride));
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}

/* histc(self, bins, min, max) */
void cfx__c_call_histc(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const double low = cfx_number(a[2]), high = cfx_number(a[3]);
    const long long bins = cfx_integer(a[1]);
    const char *type = cfx__c_value_type(x->dtype);
    const bool wide = x->dtype == CFX_F64;
    cfx__c_walk w = cfx__c_walk_over(x->ndim, x->shape);
    cfx__c_walk_add(&w, x);
    cfx__c_walk_settle(&w, 0);
    w.serial = true;
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_line(c, "%s low = %s, high = %s;", type, cfx__c_number(x->dtype, low, 0),
                cfx__c_number(x->dtype, high, 0));
    cfx__c_line(c, "memset(out, 0, %lld * sizeof *out);", bins);
    if (low == high) { /* by the numbers themselves */
        cfx__c_line(c, "low = INFINITY, high = -INFINITY;");
        cfx__c_walk_open(c, &w);
        cfx__c_line(c, "low = x[%s] < low ? x[%s] : low;", cfx__c_at(&w, 0), cfx__c_at(&w, 0));
        cfx__c_line(c, "high = x[%s] > high ? x[%s] : high;", cfx__c_at(&w, 0), cfx__c_at(&w, 0));
        cfx__c_walk_close(c, &w);
        cfx__c_line(c, "if (low == high) {");
        cfx__c_line(c, "    low -= 1;");
        cfx__c_line(c, "    high += 1;");
        cfx__c_line(c, "}");
    }
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "const %s v = x[%s];", type, cfx__c_at(&w, 0));
    cfx__c_open(c, "if (v >= low && v <= high)");
    cfx__c_line(c, "const int64_t at = (int64_t)((v - low) / (high - low) * %lld%s);", bins,
                wide ? ".0" : ".0f");
    cfx__c_line(c, "out[at < %lld ? at : %lld] += 1;", bins, bins - 1);
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
}
