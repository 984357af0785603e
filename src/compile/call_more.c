/* Rarely used calls: ranges, repetition, grouped products, embedding bags, Fourier transforms. */
#include <math.h>

#include <cfx/ops.h>

#include "calls.h"
#include "pack.h"

static const cfx__c_ref *result_of(cfx__c_unit *u) { return cfx__c_slot(u, u->slot)->refs; }

static void refuse(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
}

static void open_loop(cfx__c *c, const char *v, int64_t n) {
    cfx__c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", v, v, (long long)n, v);
}

/* arange(end), arange.start(start, end), arange.start_step(start, end, step) */
void cfx__c_call_arange(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *out = result_of(u);
    const bool from = k->op != &cfx_op_arange, steps = k->op == &cfx_op_arange_start_step;
    const cfx_value start = from ? a[0] : cfx_int(0), step = steps ? a[2] : cfx_int(1);
    if (!cfx_is_number(start) || !cfx_is_number(step)) {
        refuse(u, k);
        return;
    }
    const cfx_dtype d = cfx__dtype_is_float(out->dtype) ? CFX_F64 : CFX_I64;
    const char *text = cfx__text_format(
        "%s + %s * %s", cfx__c_number(d, cfx_number(start), cfx__int64_of(cfx_number(start))),
        d == CFX_F64 ? "(double)i" : "i",
        cfx__c_number(d, cfx_number(step), cfx__int64_of(cfx_number(step))));
    cfx__c_pointer(c, out, "out", true);
    open_loop(c, "i", cfx__c_count(out));
    cfx__c_line(c, "out[i * %lld] = %s;", (long long)(out->ndim ? out->stride[0] : 1),
                cfx__c_store(c, cfx__c_convert(c, cfx__text_format("(%s)", text), d, out->dtype),
                             out->dtype));
    cfx__c_close(c);
}

/* repeat(self, repeats) */
void cfx__c_call_repeat(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = result_of(u);
    cfx__text from = {0};
    cfx__c_walk w = cfx__c_walk_over(out->ndim, out->shape);
    cfx__c_walk_add(&w, out);
    for (int i = 0; i < x->ndim; i++) {
        const int at = out->ndim - x->ndim + i;
        if (x->shape[i] == 1)
            continue;
        cfx__text_printf(&from, "%s%s", from.len ? " + " : "", cfx__c_var(at));
        if (x->shape[i] != out->shape[at])
            cfx__text_printf(&from, " %% %lld", (long long)x->shape[i]);
        if (x->stride[i] != 1)
            cfx__text_printf(&from, " * %lld", (long long)x->stride[i]);
    }
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "out[%s] = x[%s];", cfx__c_at(&w, 0), from.len ? cfx__text_take(&from) : "0");
    cfx__c_walk_close(c, &w);
}

/* _grouped_mm(x, w, offs): rows up to offs[g] are multiplied by w[g]. */
void cfx__c_call_grouped(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *w = cfx__c_arg(u, a[1]),
                     *offs = cfx__c_arg(u, a[2]);
    const cfx__c_ref *out = result_of(u);
    if (!x || !w || !offs || x->ndim != 2 || w->ndim != 3 || out->ndim != 2 ||
        !cfx__dtype_is_float(x->dtype) || cfx__dtype_is_float(offs->dtype)) {
        refuse(u, k);
        return;
    }
    const char *type = x->dtype == CFX_F64 ? "double" : "float";
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, w, "weight", false);
    cfx__c_pointer(c, offs, "ends", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_line(c, "int64_t from = 0;");
    open_loop(c, "i", x->shape[0]);
    open_loop(c, "j", out->shape[1]);
    cfx__c_line(c, "out[i * %lld + j * %lld] = 0;", (long long)out->stride[0],
                (long long)out->stride[1]);
    cfx__c_close(c);
    cfx__c_close(c);
    open_loop(c, "group", w->shape[0]);
    cfx__c_line(c, "int64_t to = ends[group * %lld];", (long long)offs->stride[0]);
    cfx__c_open(c, "if (to < from || to > %lld)", (long long)x->shape[0]);
    cfx__c_line(c, "*c->bad = 1;");
    cfx__c_line(c, "to = from;");
    cfx__c_close(c);
    cfx__c_open(c, "for (int64_t i = from; i < to; i++)");
    open_loop(c, "j", out->shape[1]);
    cfx__c_line(c, "%s sum = 0;", type);
    cfx__c_line(c, "for (int64_t r = 0; r < %lld; r++)", (long long)x->shape[1]);
    cfx__c_line(
        c, "    sum += %s * %s;",
        cfx__c_load(c, "x",
                    cfx__text_format("i * %lld + r * %lld", (long long)x->stride[0],
                                     (long long)x->stride[1]),
                    x->dtype),
        cfx__c_load(c, "weight",
                    cfx__text_format("group * %lld + r * %lld + j * %lld", (long long)w->stride[0],
                                     (long long)w->stride[1], (long long)w->stride[2]),
                    w->dtype));
    cfx__c_line(c, "out[i * %lld + j * %lld] = %s;", (long long)out->stride[0],
                (long long)out->stride[1], cfx__c_store(c, "sum", out->dtype));
    cfx__c_close(c);
    cfx__c_close(c);
    cfx__c_line(c, "from = to;");
    cfx__c_close(c);
}

/* _embedding_bag(weight, indices, offsets, scale_grad, mode, sparse, per_sample_weights,
 * include_last_offset, padding_idx): sums, means or the largest of rows. */
void cfx__c_call_bag(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *w = cfx__c_arg(u, a[0]), *index = cfx__c_arg(u, a[1]);
    const cfx__c_ref *offs = cfx__c_arg(u, a[2]), *by = cfx__c_arg(u, a[6]), *out = result_of(u);
    const long long mode = cfx_integer(a[4]), padding = cfx_integer(a[8]);
    if (!w || !index || !offs || w->dtype != CFX_F32 || index->ndim != 1 ||
        index->dtype != CFX_I64 || offs->dtype != CFX_I64 || cfx__c_reads_more(u) || mode > 2) {
        refuse(u, k);
        return;
    }
    const long long n = index->shape[0], rows = w->shape[0];
    cfx__c_pointer(c, w, "weight", false);
    cfx__c_pointer(c, index, "index", false);
    cfx__c_pointer(c, offs, "begins", false);
    if (by)
        cfx__c_pointer(c, by, "by", false);
    cfx__c_pointer(c, out, "out", true);
    open_loop(c, "i", out->shape[0]);
    cfx__c_line(c, "const int64_t from = begins[i];");
    if (cfx_as_bool(a[7]))
        cfx__c_line(c, "const int64_t to = begins[i + 1];");
    else
        cfx__c_line(c, "const int64_t to = i + 1 < %lld ? begins[i + 1] : %lld;",
                    (long long)out->shape[0], n);
    cfx__c_open(c, "if (from < 0 || to > %lld || from > to)", n);
    cfx__c_line(c, "*c->bad = 1;");
    cfx__c_line(c, "continue;");
    cfx__c_close(c);
    open_loop(c, "j", out->shape[1]);
    cfx__c_line(c, "float sum = 0.0f;");
    cfx__c_line(c, "int64_t count = 0;");
    cfx__c_open(c, "for (int64_t r = from; r < to; r++)");
    cfx__c_line(c, "const int64_t row = index[r];");
    cfx__c_open(c, "if (row < 0 || row >= %lld)", rows);
    cfx__c_line(c, "*c->bad = 1;");
    cfx__c_line(c, "continue;");
    cfx__c_close(c);
    if (padding >= 0) {
        cfx__c_line(c, "if (row == %lld)", padding);
        cfx__c_line(c, "    continue;");
    }
    cfx__c_line(c, "const float v = weight[row * %lld + j * %lld]%s;", (long long)w->stride[0],
                (long long)w->stride[1], by ? " * by[r]" : "");
    if (mode == 2)
        cfx__c_line(c, "sum = !count || v > sum ? v : sum;");
    else
        cfx__c_line(c, "sum += v;");
    cfx__c_line(c, "count++;");
    cfx__c_close(c);
    cfx__c_line(c, "out[i * %lld + j] = %s;", (long long)out->stride[0],
                mode == 1 ? "count ? sum / (float)count : sum" : "sum");
    cfx__c_close(c);
    cfx__c_close(c);
}

/* One dim of complex numbers is transformed, row by row, and scaled. */
static void put_transform(cfx__c *c, const cfx__c_ref *out, int dim, bool forward, double by) {
    const cfx_dtype d = cfx__c_part(out->dtype);
    const char *type = cfx__c_type(d);
    const long long n = out->shape[dim], step = 2 * out->stride[dim];
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int m = 0;
    for (int i = 0; i < out->ndim; i++)
        if (i != dim) {
            shape[m] = out->shape[i];
            stride[m++] = 2 * out->stride[i];
        }
    const int64_t row = (n * 16 + 63) / 64 * 64;
    cfx__c_scratch(c, row + cfx__pack_fft_scratch(n));
    cfx__c_walk w = cfx__c_walk_over(m, shape);
    w.serial = true; /* the row is one */
    cfx__c_walk_strides(&w, m, shape, stride);
    cfx__c_block(c);
    cfx__c_pointer(c, out, "whole", true);
    cfx__c_line(c, "%s *out = (%s *)whole; /* the parts of each number */", type, type);
    cfx__c_line(c, "double *row = (double *)%s;", cfx__c_scratch_at(c, 0));
    cfx__c_walk_settle(&w, 0);
    cfx__c_walk_open(c, &w);
    const char *at = cfx__c_at(&w, 0);
    open_loop(c, "r", n);
    for (int part = 0; part < 2; part++) {
        const char *more = part ? " + 1" : "";
        cfx__c_line(c, "row[2 * r%s] = %s;", more,
                    cfx__c_convert(c, cfx__text_format("out[%s + r * %lld%s]", at, step, more), d,
                                   CFX_F64));
    }
    cfx__c_close(c);
    cfx__c_line(c, "%s(row, %lld, %d, (double *)%s);", cfx__c_kernel(c, "fft"), n, forward ? -1 : 1,
                cfx__c_scratch_at(c, row));
    open_loop(c, "r", n);
    for (int part = 0; part < 2; part++) {
        const char *more = part ? " + 1" : "";
        const char *v = cfx__text_format("row[2 * r%s]", more);
        if (by != 1)
            v = cfx__text_format("%s * %s", v, cfx__c_number(CFX_F64, by, 0));
        if (by != 1 && d != CFX_F64)
            v = cfx__text_format("(%s)", v);
        cfx__c_line(c, "out[%s + r * %lld%s] = %s;", at, step, more,
                    cfx__c_convert(c, v, CFX_F64, d));
    }
    cfx__c_close(c);
    cfx__c_walk_close(c, &w);
    cfx__c_close(c);
}

/* _fft_c2c(self, dim, normalization, forward): one dim after the other */
void cfx__c_call_fft(cfx__c_unit *u, const cfx__plan_kernel *k) {
    enum { BY_ROOT = 1, BY_N };
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = result_of(u);
    int64_t dims[CFX_MAX_DIMS];
    const int n = cfx__c_ints(a[1], dims);
    const int64_t norm = cfx_integer(a[2]);
    if (!x) {
        refuse(u, k);
        return;
    }
    cfx__c_copy(c, out, x);
    double size = 1;
    for (int i = 0; i < n; i++) {
        const int dim = (int)(dims[i] < 0 ? dims[i] + x->ndim : dims[i]);
        size *= (double)out->shape[dim];
        const double by = i + 1 < n         ? 1
                          : norm == BY_ROOT ? 1 / sqrt(size)
                          : norm == BY_N    ? 1 / size
                                            : 1;
        put_transform(c, out, dim, cfx_as_bool(a[3]), by);
    }
}
