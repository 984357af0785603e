/* Calls that move numbers: concatenation, padding, flips, writing a part into a whole. */
#include <cfx/ops.h>

#include "calls.h"

static const cfx__c_ref *result_of(cfx__c_unit *u) { return cfx__c_slot(u, u->slot)->refs; }

/* The part of a tensor from `at` on along a dim, `size` long, every step-th. */
static cfx__c_ref *part_of(cfx__c *c, const cfx__c_ref *r, int dim, int64_t at, int64_t size,
                           int64_t step) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    memcpy(shape, r->shape, (size_t)r->ndim * sizeof *shape);
    memcpy(stride, r->stride, (size_t)r->ndim * sizeof *stride);
    cfx__c_ref *part;
    const int64_t skip = at * stride[dim];
    shape[dim] = size;
    stride[dim] *= step;
    part = cfx__c_ref_like(c, r, r->ndim, shape, stride);
    part->at += skip;
    return part;
}

void cfx__c_call_cat(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_list *parts = cfx_as_list(k->step->bound[0]);
    const cfx__c_ref *out = result_of(u);
    const int dim = cfx__c_dim(k->step->bound[1], out->ndim);
    int64_t at = 0;
    for (int64_t i = 0; i < parts->len; i++) {
        const cfx__c_ref *x = cfx__c_arg(u, parts->items[i]);
        if (!x) {
            cfx__c_refuse(u, "%s joins values without memory", cfx_op_name(k->op));
            return;
        }
        if (x->ndim != out->ndim) /* an empty one, as PyTorch lets pass */
            continue;
        cfx__c_copy(u->c, part_of(u->c, out, dim, at, x->shape[dim], 1), x);
        at += x->shape[dim];
    }
}

static void put_all(cfx__c *c, const cfx__c_ref *out, const char *number) {
    cfx__c_walk w = cfx__c_walk_over(out->ndim, out->shape);
    cfx__c_walk_add(&w, out);
    cfx__c_walk_settle(&w, 0);
    cfx__c_block(c);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "out[%s] = %s;", cfx__c_at(&w, 0), cfx__c_store(c, number, out->dtype));
    cfx__c_walk_close(c, &w);
    cfx__c_close(c);
}

static const char *number_for(cfx_dtype d, cfx_value v) {
    const double f = cfx_is_number(v) ? cfx_number(v) : 0;
    if (d == CFX_BOOL)
        return f != 0 ? "1" : "0";
    return cfx__c_number(d, f,
                         v.tag == CFX_TAG_FLOAT ? cfx__int64_of(f)
                         : cfx_is_number(v)     ? cfx_integer(v)
                                                : 0);
}

/* constant_pad_nd(self, pad, value) */
void cfx__c_call_pad(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = result_of(u);
    int64_t pad[CFX_MAX_DIMS];
    const int n = cfx__c_ints(k->step->bound[1], pad) / 2;
    const cfx__c_ref *to = out, *from = x;
    for (int i = 0; i < n; i++) {
        const int dim = x->ndim - 1 - i;
        const int64_t low = pad[2 * i], high = pad[2 * i + 1];
        const int64_t cut = low < 0 ? -low : 0, off = high < 0 ? -high : 0;
        from = part_of(u->c, from, dim, cut, x->shape[dim] - cut - off, 1);
        to = part_of(u->c, to, dim, low > 0 ? low : 0, from->shape[dim], 1);
    }
    put_all(u->c, out, number_for(out->dtype, k->step->bound[2]));
    cfx__c_copy(u->c, to, from);
}

void cfx__c_call_flip(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = result_of(u);
    int64_t dims[CFX_MAX_DIMS];
    const int n = cfx__c_ints(k->step->bound[1], dims);
    const cfx__c_ref *from = x;
    for (int i = 0; i < n; i++) {
        const int dim = (int)(dims[i] < 0 ? dims[i] + x->ndim : dims[i]);
        if (x->shape[dim])
            from = part_of(u->c, from, dim, x->shape[dim] - 1, x->shape[dim], -1);
    }
    cfx__c_copy(u->c, out, from);
}

/* roll(self, shifts, dims): all of it as one row where no dims are named */
void cfx__c_call_roll(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = result_of(u);
    int64_t shifts[CFX_MAX_DIMS], dims[CFX_MAX_DIMS], by[CFX_MAX_DIMS] = {0};
    const int n = cfx__c_ints(k->step->bound[1], shifts);
    if (cfx__c_ints(k->step->bound[2], dims) != n) {
        cfx__c_refuse(u, "%s without dims has no form in C", cfx_op_name(k->op));
        return;
    }
    for (int i = 0; i < n; i++)
        by[dims[i] < 0 ? dims[i] + x->ndim : dims[i]] += shifts[i];
    cfx__text from = {0}, to = {0};
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    for (int i = 0; i < x->ndim; i++) {
        const char *v = cfx__c_var(i);
        const int64_t size = x->shape[i]; /* which may vary, and be smaller than the shift */
        cfx__c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", v, v, (long long)size, v);
        cfx__text_printf(&to, "%s%s * %lld", i ? " + " : "", v, (long long)out->stride[i]);
        if (by[i] > 0)
            cfx__text_printf(&from, "%s(%s + %lld - %lld %% %lld) %% %lld * %lld", i ? " + " : "",
                             v, (long long)size, (long long)by[i], (long long)size,
                             (long long)size, (long long)x->stride[i]);
        else if (by[i])
            cfx__text_printf(&from, "%s(%s + %lld) %% %lld * %lld", i ? " + " : "", v,
                             (long long)-by[i], (long long)size, (long long)x->stride[i]);
        else
            cfx__text_printf(&from, "%s%s * %lld", i ? " + " : "", v, (long long)x->stride[i]);
    }
    cfx__c_line(c, "out[%s] = x[%s];", cfx__text_take(&to), cfx__text_take(&from));
    for (int i = 0; i < x->ndim; i++)
        cfx__c_close(c);
}

/* tril(self, diagonal), triu */
void cfx__c_call_triangle(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = result_of(u);
    const int64_t diagonal = cfx_integer(k->step->bound[1]);
    cfx__c_walk w = cfx__c_walk_over(out->ndim, out->shape);
    cfx__c_walk_add(&w, out);
    cfx__c_walk_add(&w, x);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "out[%s] = %s - %s %s %lld ? x[%s] : 0;", cfx__c_at(&w, 0),
                cfx__c_var(x->ndim - 1), cfx__c_var(x->ndim - 2),
                k->op == &cfx_op_tril ? "<=" : ">=", (long long)diagonal, cfx__c_at(&w, 1));
    cfx__c_walk_close(c, &w);
}

/* full_like(self, value), zeros_like, ...: numbers that do not depend on the argument. */
void cfx__c_call_fill(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *out = result_of(u);
    const cfx_value *a = k->step->bound;
    const bool full =
        k->op == &cfx_op_full_like || k->op == &cfx_op_fill_Scalar || k->op == &cfx_op_full;
    const bool given = k->op == &cfx_op_new_full;
    const bool one =
        k->op == &cfx_op_ones_like || k->op == &cfx_op_new_ones || k->op == &cfx_op_ones;
    put_all(u->c, out, number_for(out->dtype, full ? a[1] : given ? a[2] : cfx_int(one)));
}

/* What holds nothing yet is left as it is. */
void cfx__c_call_empty(cfx__c_unit *u, const cfx__plan_kernel *k) {
    (void)k;
    put_all(u->c, result_of(u), "0");
}

/* copy(self, src), fill.Tensor(self, value): src, broadcast to self. */
void cfx__c_call_copy(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[1]), *out = result_of(u);
    int64_t stride[CFX_MAX_DIMS];
    if (!x) {
        cfx__c_refuse(u, "%s of a value without memory", cfx_op_name(k->op));
        return;
    }
    for (int i = 0; i < out->ndim; i++) {
        const int own = i - (out->ndim - x->ndim);
        stride[i] = own < 0 || x->shape[own] == 1 ? 0 : x->stride[own];
    }
    cfx__c_copy(u->c, out, cfx__c_ref_like(u->c, x, out->ndim, out->shape, stride));
}

/* slice_scatter(self, src, dim, start, end, step), select_scatter(self, src, dim, index) */
void cfx__c_call_put_part(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *src = cfx__c_arg(u, a[1]), *out = result_of(u);
    const int dim = cfx__c_dim(a[2], out->ndim);
    const int64_t size = out->shape[dim];
    if (!x || !src) {
        cfx__c_refuse(u, "%s of a value without memory", cfx_op_name(k->op));
        return;
    }
    if (!cfx__c_is_there(out, x))
        cfx__c_copy(u->c, out, x);
    if (k->op == &cfx_op_select_scatter) {
        const int64_t at = cfx_integer(a[3]) + (cfx_integer(a[3]) < 0 ? size : 0);
        int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
        for (int i = 0; i < out->ndim; i++) {
            shape[i] = i == dim ? 1 : src->shape[i - (i > dim)];
            stride[i] = i == dim ? 0 : src->stride[i - (i > dim)];
        }
        cfx__c_copy(u->c, part_of(u->c, out, dim, at, 1, 1),
                    cfx__c_ref_like(u->c, src, out->ndim, shape, stride));
        return;
    }
    int64_t start = a[3].tag == CFX_TAG_NONE ? 0 : cfx_integer(a[3]);
    start = start < 0 ? start + size < 0 ? 0 : start + size : start > size ? size : start;
    cfx__c_copy(u->c, part_of(u->c, out, dim, start, src->shape[dim], cfx_integer(a[5])), src);
}
