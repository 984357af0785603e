/* Calls that read or write at positions given by integers: embedding, index, gather, scatter.
 * For an index out of range the code reads element 0, sets a flag, and the run fails. */
#include <cfx/ops.h>

#include "calls.h"

#define INDEX_TEXT                                                                                 \
    "    if (at >= 0 && at < n)\n"                                                                 \
    "        return at;\n"                                                                         \
    "    *bad = 1;\n"                                                                              \
    "    return 0;\n"                                                                              \
    "}\n"

static const char row_text[] = "/* An index that is in range; out of it: 0, and noted. */\n"
                               "static int64_t @(int64_t at, int64_t n, int *bad) {\n" INDEX_TEXT;
static const char index_text[] =
    "/* An index from the front, be it counted from the end; out of range: 0, and noted. */\n"
    "static int64_t @(int64_t at, int64_t n, int *bad) {\n"
    "    at = at < 0 ? at + n : at;\n" INDEX_TEXT;

static const char *checked_by(const char *helper, const char *number, int64_t size) {
    return cfx__text_format("%s(%s, %lld, c->bad)", helper, number, (long long)size);
}

static const char *index_at(const char *pointer, const char *at, cfx_dtype d) {
    return cfx__text_format("%s%s[%s]", d == CFX_I64 ? "" : "(int64_t)", pointer, at);
}

const char *cfx__c_checked_number(cfx__c *c, const char *number, int64_t size) {
    return checked_by(cfx__c_helper(c, "row", row_text), number, size);
}

const char *cfx__c_checked(cfx__c *c, const char *pointer, const char *at, cfx_dtype d,
                           int64_t size) {
    return cfx__c_checked_number(c, index_at(pointer, at, d), size);
}

/* The same where indices may be counted from the end: in x[i] alone. */
static const char *counted(cfx__c *c, const char *pointer, const char *at, cfx_dtype d,
                           int64_t size) {
    return checked_by(cfx__c_helper(c, "index", index_text), index_at(pointer, at, d), size);
}

static bool is_index(const cfx__c_ref *r) {
    return r && (r->dtype == CFX_I64 || r->dtype == CFX_I32 || r->dtype == CFX_I16);
}

/* " + i * 4": a stride times a name, where it is not 0. */
static void put_term(cfx__text *t, const char *v, int64_t stride) {
    if (!stride)
        return;
    cfx__text_puts(t, t->len ? " + " : "");
    cfx__text_puts(t, v);
    if (stride != 1)
        cfx__text_printf(t, " * %lld", (long long)stride);
}

static const char *or_zero(cfx__text *t) { return t->len ? cfx__text_take(t) : "0"; }

static void open_dim(cfx__c *c, int i, int64_t size) {
    const char *v = cfx__c_var(i);
    cfx__c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", v, v, (long long)size, v);
}

/* On a card the loops over all these dims are one walk, a thread for each element; whether. */
static bool open_whole(cfx__c *c, int ndim, const int64_t *shape) {
    const cfx__c_walk w = cfx__c_walk_over(ndim, shape);
    if (c->card)
        cfx__c_walk_open(c, &w);
    return c->card != NULL;
}

static void close_dims(cfx__c *c, int n) {
    const cfx__c_walk w = {0};
    if (c->card)
        cfx__c_walk_close(c, &w);
    for (int i = 0; i < n && !c->card; i++)
        cfx__c_close(c);
}

/* ---- index, index_put ------------------------------------------------------------------------ */

typedef struct {
    const cfx__c_ref *of[CFX_MAX_DIMS]; /* by dim of the tensor; NULL: all of it */
    int ndim;                           /* of the tensor */
    int nindex;                         /* dims that indices are broadcast to */
    int first;                          /* the dim of the result where those stand */
} picks;

/* What a list of indices says; false where it is not by integers. */
static bool read_picks(cfx__c_unit *u, cfx_value list, const cfx__c_ref *x, picks *p) {
    const cfx_list *items = cfx_as_list(list);
    int begin = -1, last = -1, before = 0;
    bool apart = false;
    *p = (picks){.ndim = x->ndim};
    for (int64_t i = 0; i < items->len; i++) {
        const cfx__c_ref *r = cfx__c_arg(u, items->items[i]);
        if (!r && items->items[i].tag != CFX_TAG_NONE)
            return false;
        if (!r) {
            before += begin < 0;
            continue;
        }
        if (!is_index(r))
            return false;
        apart |= last >= 0 && last != (int)i - 1;
        begin = begin < 0 ? (int)i : begin;
        last = (int)i;
        p->of[i] = r;
        p->nindex = r->ndim > p->nindex ? r->ndim : p->nindex;
    }
    p->first = apart ? 0 : before;
    return begin >= 0;
}

/* Opens loops over the dims of the part that is picked, whose sizes are `shape`, and gives where
 * that is in x. */
static const char *open_picks(cfx__c *c, const picks *p, const cfx__c_ref *x, int ndim,
                              const int64_t *shape, bool whole) {
    const int after = p->first + p->nindex;
    cfx__text at = {0};
    for (int i = 0; i < after && !whole; i++)
        open_dim(c, i, shape[i]);
    for (int d = 0; d < x->ndim; d++) {
        if (!p->of[d])
            continue;
        cfx__text where = {0};
        const cfx__c_ref *r = p->of[d];
        for (int i = 0; i < r->ndim; i++)
            put_term(&where, cfx__c_var(after - r->ndim + i), r->shape[i] == 1 ? 0 : r->stride[i]);
        cfx__c_line(
            c, "const int64_t a%d = %s;", d,
            counted(c, cfx__text_format("index%d", d), or_zero(&where), r->dtype, x->shape[d]));
    }
    for (int i = after; i < ndim && !whole; i++)
        open_dim(c, i, shape[i]);
    for (int d = 0, i = 0; d < x->ndim; d++) {
        if (p->of[d]) {
            put_term(&at, cfx__text_format("a%d", d), x->stride[d]);
            continue;
        }
        i = i == p->first ? after : i; /* dims that stay stand before and behind */
        put_term(&at, cfx__c_var(i++), x->stride[d]);
    }
    return or_zero(&at);
}

static void point_picks(cfx__c *c, const picks *p) {
    for (int d = 0; d < p->ndim; d++)
        if (p->of[d])
            cfx__c_pointer(c, p->of[d], cfx__text_format("index%d", d), false);
}

static const char *own_at(const cfx__c_ref *r, int ndim) {
    cfx__text t = {0};
    for (int i = 0; i < r->ndim; i++)
        put_term(&t, cfx__c_var(ndim - r->ndim + i), r->shape[i] == 1 ? 0 : r->stride[i]);
    return or_zero(&t);
}

void cfx__c_call_index(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]), *out = cfx__c_slot(u, u->slot)->refs;
    picks p;
    if (!x || !read_picks(u, k->step->bound[1], x, &p)) {
        cfx__c_refuse(u, "%s picks by a mask: its size depends on data", cfx_op_name(k->op));
        return;
    }
    cfx__c_pointer(c, x, "x", false);
    point_picks(c, &p);
    cfx__c_pointer(c, out, "out", true);
    const bool whole = open_whole(c, out->ndim, out->shape);
    const char *at = open_picks(c, &p, x, out->ndim, out->shape, whole);
    cfx__c_line(c, "out[%s] = x[%s];", own_at(out, out->ndim), at);
    close_dims(c, out->ndim);
}

/* index_put(self, indices, values, accumulate) */
void cfx__c_call_index_put(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *values = cfx__c_arg(u, a[2]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    const bool adds = a[3].tag == CFX_TAG_BOOL && cfx_as_bool(a[3]);
    picks p;
    if (!x || !values || !read_picks(u, a[1], x, &p)) {
        cfx__c_refuse(u, "%s writes by a mask, which has no form in C", cfx_op_name(k->op));
        return;
    }
    int64_t shape[CFX_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < p.nindex; i++) {
        shape[p.first + i] = 1;
        for (int d = 0; d < x->ndim; d++) {
            const int own = p.of[d] ? i - (p.nindex - p.of[d]->ndim) : -1;
            if (own >= 0 && p.of[d]->shape[own] != 1)
                shape[p.first + i] = p.of[d]->shape[own];
        }
    }
    for (int d = 0; d < x->ndim; d++)
        if (!p.of[d]) {
            n = n == p.first ? p.first + p.nindex : n;
            shape[n++] = x->shape[d];
        }
    n = n <= p.first ? p.first + p.nindex : n;
    if (!cfx__c_is_there(out, x))
        cfx__c_copy(c, out, x);
    cfx__c_pointer(c, values, "values", false);
    point_picks(c, &p);
    cfx__c_pointer(c, out, "out", true);
    const char *at = open_picks(c, &p, out, n, shape, false), *from = own_at(values, n);
    if (adds) {
        const cfx_dtype d = out->dtype;
        const char *sum = cfx__text_format("%s + %s", cfx__c_load(c, "out", at, d),
                                           cfx__c_load(c, "values", from, d));
        cfx__c_line(c, "out[%s] = %s;", at,
                    cfx__dtype_is_float(d) ? cfx__c_store(c, sum, d)
                                           : cfx__text_format("(%s)(%s)", cfx__c_type(d), sum));
    } else {
        cfx__c_line(c, "out[%s] = values[%s];", at, from);
    }
    for (int i = 0; i < n; i++)
        cfx__c_close(c);
}

/* ---- along one dim --------------------------------------------------------------------------- */

void cfx__c_call_embedding(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx__c_ref *x = cfx__c_arg(u, k->step->bound[0]),
                     *index = cfx__c_arg(u, k->step->bound[1]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    if (!x || !is_index(index)) {
        cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
        return;
    }
    cfx__c_pointer(c, x, "weight", false);
    cfx__c_pointer(c, index, "index", false);
    cfx__c_pointer(c, out, "out", true);
    const bool whole = open_whole(c, out->ndim, out->shape);
    for (int i = 0; i < index->ndim && !whole; i++)
        open_dim(c, i, index->shape[i]);
    cfx__c_line(c, "const int64_t row = %s;",
                cfx__c_checked(c, "index", own_at(index, index->ndim), index->dtype, x->shape[0]));
    if (!whole)
        open_dim(c, index->ndim, x->shape[1]);
    cfx__text at = {0};
    put_term(&at, "row", x->stride[0]);
    put_term(&at, cfx__c_var(index->ndim), x->stride[1]);
    cfx__c_line(c, "out[%s] = weight[%s];", own_at(out, out->ndim), or_zero(&at));
    close_dims(c, index->ndim + 1);
}

/* index_select(self, dim, index) */
void cfx__c_call_index_select(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *index = cfx__c_arg(u, a[2]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    if (!x || !is_index(index) || !x->ndim) {
        cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
        return;
    }
    const int dim = cfx__c_dim(a[1], x->ndim);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, index, "index", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__text at = {0}, where = {0};
    const bool whole = open_whole(c, out->ndim, out->shape);
    for (int i = 0; i < out->ndim && !whole; i++)
        open_dim(c, i, out->shape[i]);
    put_term(&where, cfx__c_var(dim), index->ndim ? index->stride[0] : 0);
    for (int i = 0; i < x->ndim; i++)
        put_term(&at, i == dim ? "at" : cfx__c_var(i), x->stride[i]);
    cfx__c_line(c, "const int64_t at = %s;",
                cfx__c_checked(c, "index", or_zero(&where), index->dtype, x->shape[dim]));
    cfx__c_line(c, "out[%s] = x[%s];", own_at(out, out->ndim), or_zero(&at));
    close_dims(c, out->ndim);
}

/* gather(self, dim, index) */
void cfx__c_call_gather(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_ref *x = cfx__c_arg(u, a[0]), *index = cfx__c_arg(u, a[2]);
    const cfx__c_ref *out = cfx__c_slot(u, u->slot)->refs;
    if (!x || !is_index(index) || x->ndim != out->ndim) {
        cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
        return;
    }
    const int dim = cfx__c_dim(a[1], x->ndim);
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, index, "index", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__text at = {0};
    const bool whole = open_whole(c, out->ndim, out->shape);
    for (int i = 0; i < out->ndim; i++) {
        if (!whole)
            open_dim(c, i, out->shape[i]);
        put_term(&at, i == dim ? "at" : cfx__c_var(i), x->stride[i]);
    }
    if (!out->ndim && !whole)
        cfx__c_block(c);
    cfx__c_line(c, "const int64_t at = %s;",
                cfx__c_checked(c, "index", own_at(index, index->ndim), index->dtype,
                               x->ndim ? x->shape[dim] : 1));
    cfx__c_line(c, "out[%s] = x[%s];", own_at(out, out->ndim), x->ndim ? or_zero(&at) : "at");
    close_dims(c, out->ndim ? out->ndim : 1);
}

/* How scattered numbers meet what is there: scatter, scatter_add, scatter_reduce. */
static const char *meeting(const cfx__plan_kernel *k, cfx_dtype d) {
    const char *there = "there", *new = "given";
    const cfx_value *a = k->step->bound;
    const char *how = k->op == &cfx_op_scatter_add ? "sum"
                      : (k->op == &cfx_op_scatter_reduce_two || k->op == &cfx_op_scatter_reduce)
                          ? cfx_text(a[4])
                          : "";
    if (!*how)
        return new;
    if (!strcmp(how, "sum") || !strcmp(how, "add"))
        return cfx__text_format("%s + %s", there, new);
    if (!strcmp(how, "prod") || !strcmp(how, "multiply"))
        return cfx__text_format("%s * %s", there, new);
    if (!strcmp(how, "amax") || !strcmp(how, "amin"))
        return cfx__text_format("%s %c %s%s ? %s : %s", new, how[2] == 'a' ? '>' : '<', there,
                                cfx__dtype_is_float(d) ? " || given != given" : "", new, there);
    return NULL;
}

/* What numbers that are scattered meet where the tensor's own do not count. */
static const char *nothing(const cfx__plan_kernel *k, cfx_dtype d) {
    const char *how = cfx_text(k->step->bound[4]);
    const bool whole = !cfx__dtype_is_float(d), wide = d == CFX_F64;
    if (!strcmp(how, "amax"))
        return whole ? "INT64_MIN" : wide ? "-(double)INFINITY" : "-INFINITY";
    if (!strcmp(how, "amin"))
        return whole ? "INT64_MAX" : wide ? "(double)INFINITY" : "INFINITY";
    return cfx__c_number(d, !strcmp(how, "prod"), !strcmp(how, "prod"));
}

/* scatter(self, dim, index, src) and those that reduce. A round over all places that are written to
 * is written by each function below. */
typedef struct {
    cfx__c *c;
    const cfx__plan_kernel *k;
    const cfx__c_ref *x, *index, *src, *out;
    int dim;
} scattering;

/* Begins the loops of a round; the place in out. */
static const char *open_places(const scattering *s) {
    cfx__c *c = s->c;
    cfx__text at = {0};
    for (int i = 0; i < s->index->ndim; i++) {
        open_dim(c, i, s->index->shape[i]);
        put_term(&at, i == s->dim ? "at" : cfx__c_var(i), s->out->stride[i]);
    }
    if (!s->index->ndim) { /* one index into a row, for the first number of src */
        cfx__c_block(c);
        put_term(&at, "at", s->out->stride[s->dim]);
    }
    cfx__c_line(c, "const int64_t at = %s;",
                cfx__c_checked(c, "index", own_at(s->index, s->index->ndim), s->index->dtype,
                               s->x->shape[s->dim]));
    return or_zero(&at);
}

static void close_places(const scattering *s) {
    for (int i = 0; i < (s->index->ndim ? s->index->ndim : 1); i++)
        cfx__c_close(s->c);
}

static const char *stored(cfx__c *c, const char *text, cfx_dtype d) {
    return cfx__dtype_is_float(d) ? cfx__c_store(c, text, d)
                                  : cfx__text_format("(%s)(%s)", cfx__c_type(d), text);
}

/* A mean is a sum, each divided by how many it is of, which scratch counts. */
static void put_mean(const scattering *s, bool own) {
    cfx__c *c = s->c;
    const cfx_dtype d = s->out->dtype;
    const int64_t n = cfx__c_count(s->out);
    cfx__c_scratch(c, n * 4);
    cfx__c_line(c, "int32_t *count = (int32_t *)%s;", cfx__c_scratch_at(c, 0));
    cfx__c_line(c, "for (int64_t i = 0; i < %lld; i++)", (long long)n);
    cfx__c_line(c, "    count[i] = %d;", own);
    const char *to = open_places(s);
    cfx__c_line(c, "count[%s]++;", to);
    close_places(s);
    cfx__c_open(c, "for (int64_t i = 0; i < %lld; i++)", (long long)n);
    cfx__c_line(c, "const %s by = (%s)(count[i] ? count[i] : 1);", cfx__c_value_type(d),
                cfx__c_value_type(d));
    const char *there = cfx__c_load(c, "out", "i", d);
    cfx__c_line(c, "out[i] = %s;",
                stored(c,
                       cfx__dtype_is_float(d)
                           ? cfx__text_format("%s / by", there)
                           : cfx__text_format("%s / by - (%s %% by < 0)", there, there),
                       d));
    cfx__c_close(c);
}

void cfx__c_call_scatter(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    scattering s = {.c = c,
                    .k = k,
                    .x = cfx__c_arg(u, a[0]),
                    .index = cfx__c_arg(u, a[2]),
                    .src = cfx__c_arg(u, a[3]),
                    .out = cfx__c_slot(u, u->slot)->refs};
    const bool two = k->op == &cfx_op_scatter_reduce_two, own = !two || cfx_as_bool(a[5]);
    const bool mean = two && !strcmp(cfx_text(a[4]), "mean");
    const char *met = mean ? "there + given" : meeting(k, s.out->dtype);
    if (!s.x || !is_index(s.index) || !s.x->ndim || !met || (!s.src && !cfx_is_number(a[3])) ||
        (mean && !cfx__c_is_contiguous(s.out))) {
        cfx__c_refuse(u, "%s has no form in C for such arguments", cfx_op_name(k->op));
        return;
    }
    const cfx_dtype d = s.out->dtype;
    s.dim = cfx__c_dim(a[1], s.x->ndim);
    if (!cfx__c_is_there(s.out, s.x))
        cfx__c_copy(c, s.out, s.x);
    if (s.src)
        cfx__c_pointer(c, s.src, "src", false);
    cfx__c_pointer(c, s.index, "index", false);
    cfx__c_pointer(c, s.out, "out", true);
    if (!own) {
        const char *to = open_places(&s);
        cfx__c_line(c, "out[%s] = %s;", to, stored(c, nothing(k, d), d));
        close_places(&s);
    }
    const char *to = open_places(&s), *type = cfx__c_value_type(d);
    cfx__c_line(c, "const %s given = %s;", type,
                s.src ? cfx__c_load(c, "src", s.index->ndim ? own_at(s.src, s.index->ndim) : "0", d)
                      : cfx__c_number(d, cfx_number(a[3]), cfx__int64_of(cfx_number(a[3]))));
    if (met[0] == 't' || strchr(met, '?'))
        cfx__c_line(c, "const %s there = %s;", type, cfx__c_load(c, "out", to, d));
    cfx__c_line(c, "out[%s] = %s;", to, stored(c, met, d));
    close_places(&s);
    if (mean)
        put_mean(&s, own);
}
