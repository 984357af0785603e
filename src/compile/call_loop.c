/* Calls that are loops by themselves: operators with a loop description (src/ops/loop.h) that
 * the plan did not fuse, reductions over any dimensions, and normalisations. */
#include <cfx/ops.h>
#include <math.h>

#include "calls.h"

/* ---- a loop that is made here ---------------------------------------------------------------- */

typedef struct {
    cfx__c_unit *u;
    cfx__loop *l;
    const cfx__c_ref *lanes[CFX__LOOP_LANES];
} maker;

static cfx_tensor *fake_of(const cfx__c_ref *r) {
    return cfx_tensor_fake(r->dtype, r->ndim, r->shape, r->stride);
}

static int reads(maker *m, const cfx__c_ref *r, cfx__loop_breadth b) {
    m->lanes[m->l->nlanes] = r;
    return cfx__loop_read(m->l, fake_of(r), b);
}

static void writes(maker *m, int value, const cfx__c_ref *r) {
    m->lanes[m->l->nlanes] = r;
    cfx__loop_write(m->l, value, fake_of(r));
}

static void end(maker *m) {
    if (m->l->full || !cfx__c_loop_known(m->l, m->u->c->card != NULL))
        cfx__c_refuse(m->u, "has a loop without a form in C");
    else
        cfx__c_loop_put(m->u, m->l, m->lanes, NULL);
    cfx_drop(m->l);
}

/* An expression of up to three values, all in dtype d. */
static int each(maker *m, const char *expr, cfx_dtype d, bool narrow, double p0, int n, int x,
                int y, int z) {
    cfx__loop_note note = {.kind = CFX__LOOP_EACH, .gives = d, .n = n};
    note.says.expr = expr;
    note.says.f[0] = p0;
    note.says.i[0] = (int64_t)p0;
    for (int i = 0; i < n; i++)
        note.in[i].as = d;
    return cfx__loop_step_add(m->l, &note, (int[]){x, y, z}, d, narrow);
}

static int folded(maker *m, cfx__loop_fold how, int x, cfx_dtype as, cfx_dtype gives) {
    cfx__loop_note note = {.kind = CFX__LOOP_FOLD, .gives = gives, .n = 1};
    note.says.fold = how;
    note.in[0].as = as;
    return cfx__loop_step_add(m->l, &note, &x, gives, true);
}

static int as_dtype(maker *m, int x, cfx_dtype d, bool narrow) {
    const cfx__loop_note note = {.kind = CFX__LOOP_COPY};
    return m->l->values[x].dtype == d ? x : cfx__loop_step_add(m->l, &note, &x, d, narrow);
}

/* ---- what operators say ---------------------------------------------------------------------- */

void cfx__c_call_noted(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    cfx_value args[CFX_MAX_ARGS];
    cfx__loop_note note = {.kind = CFX__LOOP_NONE};
    for (int i = 0; i < s->nbound; i++) {
        args[i] = cfx__c_filled(u, s->bound[i]);
        if (args[i].tag == CFX_TAG_TENSOR && s->bound[i].tag == CFX_TAG_NODE &&
            !cfx_as_tensor(args[i])->data) /* none is another */
            args[i] = cfx_tensor_value(cfx__tensor_faked(cfx_as_tensor(args[i])));
    }
    cfx_op_call c = {.op = k->op, .nargs = s->nbound, .args = args, .nout = 1, .note = &note};
    if (cfx__c_slot(u, u->slot)->n != 1) {
        cfx__c_refuse(u, "%s has no form in C", cfx_op_name(k->op));
        return;
    }
    c.out[0] = fake_of(out);
    k->op->kernel(&c);
    if (!cfx_ok())
        cfx__error_forgive(); /* the interpreter would say it */
    if (note.kind == CFX__LOOP_NONE) {
        cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
        return;
    }
    const bool rows = note.kind == CFX__LOOP_ROW || note.kind == CFX__LOOP_FOLD;
    const cfx_tensor *first = rows ? note.in[0].t : NULL;
    maker m = {.u = u,
               .l = cfx__loop_new(rows ? first->ndim : out->ndim, rows ? first->shape : out->shape,
                                  rows ? note.row : 0)};
    int in[CFX__LOOP_OPERANDS];
    for (int i = 0; i < note.n; i++) {
        in[i] = note.in[i].t ? -2 : -1;
        for (int a = 0; a < s->nbound && in[i] == -2; a++)
            if (args[a].tag == CFX_TAG_TENSOR && cfx_as_tensor(args[a]) == note.in[i].t) {
                const cfx__c_ref *r = cfx__c_arg(u, s->bound[a]);
                if (r)
                    in[i] = reads(&m, r, CFX__LOOP_WIDE);
            }
        if (in[i] == -2) {
            cfx__c_refuse(u, "%s reads a value without memory", cfx_op_name(k->op));
            cfx_drop(m.l);
            return;
        }
    }
    const int made = cfx__loop_step_add(m.l, &note, in, out->dtype, note.kind == CFX__LOOP_FOLD);
    writes(&m, made, out);
    end(&m);
}

/* ---- folds over dims ------------------------------------------------------------------------- */

/* x with the dims in `fold` behind the others; kept: how many stay before. */
static cfx__c_ref *turned(cfx__c *c, const cfx__c_ref *x, const bool *fold, int *kept) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < x->ndim; i++)
            if (fold[i] == (bool)last) {
                shape[n] = x->shape[i];
                stride[n++] = x->stride[i];
            }
        if (!last)
            *kept = n;
    }
    return cfx__c_ref_like(c, x, x->ndim, shape, stride);
}

/* The result without the dims that were folded. */
static const cfx__c_ref *squeezed(cfx__c *c, const cfx__c_ref *out, const bool *fold, int ndim) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    if (out->ndim != ndim)
        return out;
    for (int i = 0; i < ndim; i++)
        if (!fold[i]) {
            shape[n] = out->shape[i];
            stride[n++] = out->stride[i];
        }
    return cfx__c_ref_like(c, out, n, shape, stride);
}

/* Which dims an argument names; all where it is None, empty or not there. */
static void dims_of(cfx_value v, int ndim, bool *fold) {
    int64_t dims[CFX_MAX_DIMS];
    const int n = cfx__c_ints(v, dims);
    for (int i = 0; i < ndim; i++)
        fold[i] = n <= 0;
    for (int i = 0; i < n; i++)
        if (ndim)
            fold[dims[i] < 0 ? dims[i] + ndim : dims[i]] = true;
}

/* Begins a loop over rows of x that are made of dims; the value of x, in dtype `as`. */
static int begin_rows(maker *m, cfx__c_unit *u, const cfx__c_ref *x, const bool *fold,
                      cfx_dtype as) {
    int kept = 0;
    const cfx__c_ref *in = turned(u->c, x, fold, &kept);
    if (kept == x->ndim) { /* a number by itself: a row of one */
        int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
        memcpy(shape, in->shape, (size_t)kept * sizeof *shape);
        memcpy(stride, in->stride, (size_t)kept * sizeof *stride);
        shape[kept] = 1, stride[kept] = 1;
        in = cfx__c_ref_like(u->c, in, kept + 1, shape, stride);
    }
    *m = (maker){.u = u, .l = cfx__loop_new(in->ndim, in->shape, in->ndim - kept)};
    return as_dtype(m, reads(m, in, CFX__LOOP_WIDE), as, false);
}

static const struct {
    const cfx_op *op;
    cfx__loop_fold how;
    int dims; /* the argument; -1: all */
} folds[] = {{&cfx_op_sum, CFX__FOLD_SUM, -1},     {&cfx_op_sum_dim_IntList, CFX__FOLD_SUM, 1},
             {&cfx_op_mean, CFX__FOLD_MEAN, -1},   {&cfx_op_mean_dim, CFX__FOLD_MEAN, 1},
             {&cfx_op_amax, CFX__FOLD_MAX, 1},     {&cfx_op_amin, CFX__FOLD_MIN, 1},
             {&cfx_op_max, CFX__FOLD_MAX, -1},     {&cfx_op_min, CFX__FOLD_MIN, -1},
             {&cfx_op_prod, CFX__FOLD_PROD, -1},   {&cfx_op_prod_dim_int, CFX__FOLD_PROD, 1},
             {&cfx_op_any, CFX__FOLD_ANY, -1},     {&cfx_op_any_dim, CFX__FOLD_ANY, 1},
             {&cfx_op_any_dims, CFX__FOLD_ANY, 1}, {&cfx_op_all, CFX__FOLD_ALL, -1},
             {&cfx_op_all_dim, CFX__FOLD_ALL, 1},  {&cfx_op_all_dims, CFX__FOLD_ALL, 1}};

static cfx_dtype computed_in(cfx_dtype d) {
    return cfx__dtype_is_half(d)                                   ? CFX_F32
           : cfx__dtype_is_float(d) || cfx__dtype_is_complex(d) ? d
                                                                  : CFX_I64;
}

void cfx__c_call_fold(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    int f = 0;
    while (folds[f].op != k->op)
        f++;
    bool fold[CFX_MAX_DIMS];
    dims_of(folds[f].dims < 0 ? cfx_none() : a[folds[f].dims], x->ndim, fold);
    const cfx__loop_fold how = folds[f].how;
    const bool logic = how == CFX__FOLD_ANY || how == CFX__FOLD_ALL;
    const bool order = how == CFX__FOLD_MAX || how == CFX__FOLD_MIN;
    const cfx_dtype as = logic || order ? x->dtype : computed_in(out->dtype);
    maker m;
    const int v = begin_rows(&m, u, x, fold, logic ? x->dtype : as);
    const cfx_dtype gives = logic ? CFX_BOOL : as;
    const int sum = folded(&m, how, v, as, gives);
    writes(&m, as_dtype(&m, sum, out->dtype, true), squeezed(u->c, out, fold, x->ndim));
    end(&m);
}

void cfx__c_put_mean(cfx__c_unit *u, const cfx__c_ref *x, const cfx__c_ref *out, int nd) {
    bool fold[CFX_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        fold[i] = i >= x->ndim - nd;
    const cfx_dtype d = computed_in(out->dtype);
    maker m;
    const int mean = folded(&m, CFX__FOLD_MEAN, begin_rows(&m, u, x, fold, d), d, d);
    writes(&m, as_dtype(&m, mean, out->dtype, true), squeezed(u->c, out, fold, x->ndim));
    end(&m);
}

/* ---- moments and norms ----------------------------------------------------------------------- */

static double row_of(const maker *m) { return (double)cfx__loop_row_length(m->l); }

/* var.correction(self, dim, correction, keepdim), std.correction */
void cfx__c_call_var(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const double correction = cfx_is_number(a[2]) ? cfx_number(a[2]) : 1;
    const cfx_dtype d = computed_in(x->dtype);
    bool fold[CFX_MAX_DIMS];
    dims_of(a[1], x->ndim, fold);
    maker m;
    const int v = begin_rows(&m, u, x, fold, d);
    const int mean = folded(&m, CFX__FOLD_MEAN, v, d, d);
    const int off = each(&m, "(x - y) * (x - y)", d, false, 0, 2, v, mean, 0);
    int r = folded(&m, CFX__FOLD_SUM, off, d, d);
    const double by = row_of(&m) - correction;
    r = each(&m, "x / p0", d, true, by > 0 ? by : 0, 1, r, 0, 0);
    if (k->op == &cfx_op_std_correction)
        r = each(&m, "sqrt(x)", d, true, 0, 1, r, 0, 0);
    writes(&m, as_dtype(&m, r, out->dtype, true), squeezed(u->c, out, fold, x->ndim));
    end(&m);
}

/* linalg_vector_norm(self, ord, dim, keepdim, dtype) */
void cfx__c_call_norm(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const double ord = cfx_number(a[1]);
    const cfx_dtype d = computed_in(out->dtype);
    bool fold[CFX_MAX_DIMS];
    dims_of(a[2], x->ndim, fold);
    maker m;
    int v = begin_rows(&m, u, x, fold, d);
    if (isinf(ord)) {
        v = folded(&m, ord > 0 ? CFX__FOLD_MAX : CFX__FOLD_MIN,
                   each(&m, "fabs(x)", d, false, 0, 1, v, 0, 0), d, d);
    } else if (ord == 0) {
        v = as_dtype(&m, folded(&m, CFX__FOLD_COUNT, v, d, CFX_I64), d, true);
    } else {
        const char *what = ord == 2 ? "x * x" : ord == 1 ? "fabs(x)" : "pow(fabs(x), p0)";
        v = folded(&m, CFX__FOLD_SUM, each(&m, what, d, false, ord, 1, v, 0, 0), d, d);
        if (ord != 1)
            v = each(&m, ord == 2 ? "sqrt(x)" : "pow(x, p0)", d, true, 1 / ord, 1, v, 0, 0);
    }
    writes(&m, as_dtype(&m, v, out->dtype, true), squeezed(u->c, out, fold, x->ndim));
    end(&m);
}

/* softmax and log_softmax over one dim. */
void cfx__c_call_softmax(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const cfx_dtype d = computed_in(out->dtype);
    bool fold[CFX_MAX_DIMS];
    int kept;
    dims_of(a[1], x->ndim, fold);
    maker m;
    int v = begin_rows(&m, u, x, fold, d);
    cfx__loop_note note = {.kind = CFX__LOOP_ROW, .gives = d, .n = 1};
    note.says.row = k->op == &cfx_op__log_softmax || k->op == &cfx_op_log_softmax_int
                        ? CFX__ROW_LOG_SOFTMAX
                    : k->op == &cfx_op__safe_softmax ? CFX__ROW_SAFE_SOFTMAX
                                                     : CFX__ROW_SOFTMAX;
    note.in[0].as = d;
    v = cfx__loop_step_add(m.l, &note, &v, out->dtype, false);
    writes(&m, v, x->ndim ? turned(u->c, out, fold, &kept) : out);
    end(&m);
}

/* Whether somebody reads result number 1 or above of the call at a slot. */
bool cfx__c_reads_more(const cfx__c_unit *u) {
    for (int k = u->slot + 1; k < u->plan->n; k++)
        if (u->plan->kernels[k].kind == CFX__PLAN_ITEM && u->plan->kernels[k].x == u->slot &&
            u->plan->kernels[k].index > 0)
            return true;
    return false;
}

/* One number for each channel, along `at` of ndim dims. */
static const cfx__c_ref *by_channel(cfx__c *c, const cfx__c_ref *r, int ndim, int at) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        shape[i] = i == at ? r->shape[0] : 1;
        stride[i] = i == at ? r->stride[0] : 0;
    }
    return cfx__c_ref_like(c, r, ndim, shape, stride);
}

/* (x - mean) / sqrt(var + eps) weight + bias with statistics of the rows or as given. weights lie
 * like by_channel's. */
static void put_affine(maker *m, int v, int scale, const cfx__c_ref *weight, const cfx__c_ref *bias,
                       cfx_dtype d, const cfx__c_ref *out) {
    v = each(m, "x * y", d, false, 0, 2, v, scale, 0);
    if (weight)
        v = each(m, "x * y", d, false, 0, 2, v,
                 as_dtype(m, reads(m, weight, CFX__LOOP_WIDE), d, false), 0);
    if (bias)
        v = each(m, "x + y", d, false, 0, 2, v,
                 as_dtype(m, reads(m, bias, CFX__LOOP_WIDE), d, false), 0);
    writes(m, as_dtype(m, v, out->dtype, false), out);
}

/* batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, ...), and
 * _native_batch_norm_legit_no_training without `training` */
void cfx__c_call_batch_norm(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const bool none = k->op == &cfx_op__native_batch_norm_legit_no_stats;
    const bool given = k->op == &cfx_op__native_batch_norm_legit_no_training;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const cfx__c_ref *w = cfx__c_arg(u, a[1]), *b = cfx__c_arg(u, a[2]);
    const double eps = cfx_number(a[none ? 5 : given ? 6 : 7]);
    const bool training = none || (!given && cfx_as_bool(a[5]));
    const cfx_dtype d = computed_in(x->dtype);
    if (!x || (cfx__c_slot(u, u->slot)->n > 1 && cfx__c_reads_more(u)) ||
        (training && !none && a[3].tag == CFX_TAG_NODE)) {
        cfx__c_refuse(u, "%s gives statistics, which have no form in C", cfx_op_name(k->op));
        return;
    }
    maker m;
    int v, scale;
    if (training) {
        bool fold[CFX_MAX_DIMS];
        int kept;
        for (int i = 0; i < x->ndim; i++)
            fold[i] = i != 1;
        v = begin_rows(&m, u, x, fold, d);
        v = each(&m, "x - y", d, false, 0, 2, v, folded(&m, CFX__FOLD_MEAN, v, d, d), 0);
        scale = folded(&m, CFX__FOLD_MEAN, each(&m, "x * x", d, false, 0, 1, v, 0, 0), d, d);
        scale = each(&m, "1 / sqrt(x + p0)", d, true, eps, 1, scale, 0, 0);
        const cfx__c_ref *to = turned(u->c, out, fold, &kept);
        put_affine(&m, v, scale, w ? by_channel(u->c, w, x->ndim, 0) : NULL,
                   b ? by_channel(u->c, b, x->ndim, 0) : NULL, d, to);
    } else {
        const cfx__c_ref *mean = cfx__c_arg(u, a[3]), *var = cfx__c_arg(u, a[4]);
        m = (maker){.u = u, .l = cfx__loop_new(x->ndim, x->shape, 0)};
        v = as_dtype(&m, reads(&m, x, CFX__LOOP_WIDE), d, false);
        const int off =
            as_dtype(&m, reads(&m, by_channel(u->c, mean, x->ndim, 1), CFX__LOOP_WIDE), d, false);
        scale =
            as_dtype(&m, reads(&m, by_channel(u->c, var, x->ndim, 1), CFX__LOOP_WIDE), d, false);
        v = each(&m, "x - y", d, false, 0, 2, v, off, 0);
        scale = each(&m, "1 / sqrt(x + p0)", d, false, eps, 1, scale, 0, 0);
        put_affine(&m, v, scale, w ? by_channel(u->c, w, x->ndim, 1) : NULL,
                   b ? by_channel(u->c, b, x->ndim, 1) : NULL, d, out);
    }
    end(&m);
}

/* An image [n, c, ...] as [n, groups, c / groups, ...]. */
static const cfx__c_ref *grouped(cfx__c *c, const cfx__c_ref *x, int64_t groups) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    const int64_t each_has = x->shape[1] / groups;
    shape[0] = x->shape[0], stride[0] = x->stride[0];
    shape[1] = groups, stride[1] = x->stride[1] * each_has;
    shape[2] = each_has, stride[2] = x->stride[1];
    for (int i = 2; i < x->ndim; i++)
        shape[i + 1] = x->shape[i], stride[i + 1] = x->stride[i];
    return cfx__c_ref_like(c, x, x->ndim + 1, shape, stride);
}

static const cfx__c_ref *grouped_channel(cfx__c *c, const cfx__c_ref *r, int ndim, int64_t groups) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS] = {0};
    for (int i = 0; i < ndim; i++)
        shape[i] = 1;
    shape[1] = groups, stride[1] = r->stride[0] * (r->shape[0] / groups);
    shape[2] = r->shape[0] / groups, stride[2] = r->stride[0];
    return cfx__c_ref_like(c, r, ndim, shape, stride);
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps) */
void cfx__c_call_group_norm(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const bool native = k->op == &cfx_op_native_group_norm;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *out = cfx__c_slot(u, u->slot)->refs;
    const cfx__c_ref *w = cfx__c_arg(u, a[native ? 1 : 2]), *b = cfx__c_arg(u, a[native ? 2 : 3]);
    const int64_t groups = cfx_integer(a[native ? 6 : 1]);
    const double eps = cfx_number(a[native ? 7 : 4]);
    const cfx_dtype d = computed_in(x->dtype);
    if (native && cfx__c_reads_more(u)) {
        cfx__c_refuse(u, "%s gives statistics, which have no form in C", cfx_op_name(k->op));
        return;
    }
    const cfx__c_ref *in = grouped(u->c, x, groups);
    bool fold[CFX_MAX_DIMS];
    for (int i = 0; i < in->ndim; i++)
        fold[i] = i >= 2;
    maker m;
    int v = begin_rows(&m, u, in, fold, d);
    v = each(&m, "x - y", d, false, 0, 2, v, folded(&m, CFX__FOLD_MEAN, v, d, d), 0);
    int scale = folded(&m, CFX__FOLD_MEAN, each(&m, "x * x", d, false, 0, 1, v, 0, 0), d, d);
    scale = each(&m, "1 / sqrt(x + p0)", d, true, eps, 1, scale, 0, 0);
    put_affine(&m, v, scale, w ? grouped_channel(u->c, w, in->ndim, groups) : NULL,
               b ? grouped_channel(u->c, b, in->ndim, groups) : NULL, d,
               grouped(u->c, out, groups));
    end(&m);
}

/* Notes zeros among divisors, by which the run fails. */
static void check_divisors(cfx__c *c, const cfx__c_ref *y) {
    cfx__c_walk w = cfx__c_walk_over(y->ndim, y->shape);
    cfx__c_walk_add(&w, y);
    w.serial = true;
    cfx__c_walk_settle(&w, 0);
    cfx__c_block(c);
    cfx__c_pointer(c, y, "by", false);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "if (by[%s] == 0)", cfx__c_at(&w, 0));
    cfx__c_line(c, "    *c->bad = 1;");
    cfx__c_walk_close(c, &w);
    cfx__c_close(c);
}

/* Integers divided: floor_divide and remainder, whose signs are Python's. */
void cfx__c_call_division(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *y = cfx__c_arg(u, a[1]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    const bool rest = k->op == &cfx_op_remainder_Scalar || k->op == &cfx_op_remainder_Tensor;
    const bool residue = k->op == &cfx_op_fmod_Scalar || k->op == &cfx_op_fmod_Tensor;
    const bool mode = k->op == &cfx_op_div_Scalar_mode || k->op == &cfx_op_div_Tensor_mode;
    const bool towards_zero = mode && a[2].tag == CFX_TAG_STR && !strcmp(cfx_text(a[2]), "trunc");
    if (cfx__dtype_is_float(out->dtype)) {
        cfx__c_call_noted(u, k);
        return;
    }
    if (!x || (!y && cfx_number(a[1]) == 0)) {
        cfx__c_refuse(u, "%s divides by zero", cfx_op_name(k->op));
        return;
    }
    if (y)
        check_divisors(u->c, y);
    maker m = {.u = u, .l = cfx__loop_new(out->ndim, out->shape, 0)};
    const int v = reads(&m, x, CFX__LOOP_WIDE);
    const int by = y ? reads(&m, y, CFX__LOOP_WIDE) : -1;
    const double p = by < 0 ? cfx_number(a[1]) : 0;
    const char *function = rest           ? "mod_i64"
                           : residue      ? "RESIDUE"
                           : towards_zero ? "QUOTIENT"
                                          : "floor_div_i64";
    const char *expr = cfx__text_format("%s(x, %s)", function, by < 0 ? "p0" : "y");
    const int r = each(&m, expr, CFX_I64, false, p, by < 0 ? 1 : 2, v, by, 0);
    writes(&m, as_dtype(&m, r, out->dtype, false), out);
    end(&m);
}

/* clamp.Tensor(self, min, max), either of which may be None. */
void cfx__c_call_clamp(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    const cfx_dtype d = computed_in(out->dtype);
    maker m = {.u = u, .l = cfx__loop_new(out->ndim, out->shape, 0)};
    int v[3] = {0}, n = 0;
    for (int i = 0; i < 3; i++) {
        const cfx__c_ref *r = cfx__c_arg(u, a[i]);
        if (r) /* in the dtype of the result first, to which it may have to be rounded */
            v[n++] = as_dtype(&m, as_dtype(&m, reads(&m, r, CFX__LOOP_WIDE), out->dtype, false), d,
                              false);
    }
    const char *within = n == 3                     ? "BELOW(ABOVE(x, y), z)"
                         : a[1].tag == CFX_TAG_NONE ? "BELOW(x, y)"
                                                    : "ABOVE(x, y)";
    const char *expr =
        cfx__dtype_is_float(d) ? cfx__text_format("x != x ? x : %s", within) : within;
    const int r = each(&m, expr, d, false, 0, n, v[0], v[1], v[2]);
    writes(&m, as_dtype(&m, r, out->dtype, false), out);
    end(&m);
}
