/* Shared by layers: row addressing, and epilogues of products and convolutions, as clamps and a
 * function of a run of results. */
#include <cfx/ops.h>
#include <math.h>

#include "layers.h"

/* ---- rows ------------------------------------------------------------------------------------ */

bool cfx__c_is_rows(const cfx__c_ref *r, int64_t *row) {
    const int last = r->ndim - 1;
    if (last < 0 || (r->shape[last] != 1 && r->stride[last] != 1))
        return false;
    int64_t step = 0, far = 0;
    for (int i = last - 1; i >= 0; i--) {
        if (r->shape[i] == 1)
            continue;
        if (!step)
            step = far = r->stride[i];
        else if (r->stride[i] != far)
            return false;
        far = r->stride[i] * r->shape[i];
    }
    *row = step ? step : r->shape[last];
    return *row > 0;
}

bool cfx__c_is_points(cfx__c *c, const cfx__c_ref *r, int lead, int64_t *row) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < r->ndim; i++)
        if (i != lead) {
            shape[n] = r->shape[i];
            stride[n++] = r->stride[i];
        }
    shape[n] = r->shape[lead];
    stride[n++] = r->stride[lead];
    return cfx__c_is_rows(cfx__c_ref_like(c, r, n, shape, stride), row);
}

/* ---- what follows ---------------------------------------------------------------------------- */

const char *cfx__c_post_function(cfx__c *c, const cfx__epilogue *e, int from) {
    if (!e || from >= e->n)
        return "NULL";
    cfx__text out = c->out, body = {0};
    const int indent = c->indent;
    c->out = (cfx__text){0};
    c->indent = 2;
    const char *v = "v", *before = v, *names = "";
    for (int i = from; i < e->n; i++) {
        cfx__loop_note note;
        const char *name = cfx__text_format("y%d", i);
        if (!cfx__c_post(&e->post[i], &note))
            continue;
        if (i > from)
            cfx__c_line(c, "const float %s = %s;", before, v);
        v = cfx__c_expr(c, name, note.says.expr, 1, &(cfx__c_term){i > from ? before : v, CFX_F32},
                        note.says.f, note.says.i, CFX_F32);
        before = name;
        names = cfx__text_format("%s_%s", names, cfx__op_info_of(e->post[i].op)->schema->name);
    }
    cfx__text_printf(&body,
                     "static void @(float *x, ptrdiff_t n) {\n"
                     "    for (ptrdiff_t i = 0; i < n; i++) {\n"
                     "        const float v = x[i];\n%s        x[i] = %s;\n    }\n}\n",
                     c->out.data ? c->out.data : "", v);
    cfx__text_release(&c->out);
    c->out = out;
    c->indent = indent;
    return cfx__c_helper(c, cfx__text_format("then%s", names), cfx__text_take(&body));
}

int cfx__c_bounds(const cfx__epilogue *e, float *low, float *high) {
    const int at = e && e->n && !e->post[0].op;
    const cfx__post *p = e && at < e->n ? &e->post[at] : NULL;
    const cfx__post_row post = p && p->op ? cfx__post_of(p->op, p->args) : (cfx__post_row){0};
    *low = post.kind == CFX__POST_BOUNDS ? post.low : -INFINITY;
    *high = post.kind == CFX__POST_BOUNDS ? post.high : INFINITY;
    return at + (post.kind == CFX__POST_BOUNDS);
}

void cfx__c_epilogue_line(cfx__c *c, const char *bias, const char *add, int64_t add_row,
                          const char *low, const char *high, const char *post) {
    cfx__text t = {0};
    cfx__text_printf(&t, "const %s_epilogue e = {", c->name);
    if (bias)
        cfx__text_printf(&t, ".bias = %s, ", bias);
    if (add)
        cfx__text_printf(&t, ".add = %s, .add_row = %lld, ", add, (long long)add_row);
    cfx__text_printf(&t, ".low = %s, .high = %s", low, high);
    if (strcmp(post, "NULL") != 0)
        cfx__text_printf(&t, ", .post = %s", post);
    cfx__c_line(c, "%s};", cfx__text_take(&t));
}

void cfx__c_epilogue(cfx__c_work *k, int64_t add_row, const char *add) {
    cfx__c *c = k->c;
    float low, high;
    const int at = cfx__c_bounds(k->epilogue, &low, &high);
    const char *post = cfx__c_post_function(c, k->epilogue, at);
    cfx__c_epilogue_line(c, k->bias ? "bias" : NULL, k->add ? add : NULL, add_row,
                         low > -INFINITY ? cfx__c_number(CFX_F32, (double)low, 0) : "-INFINITY",
                         cfx__c_number(CFX_F32, (double)high, 0), post);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static bool has_rows(const cfx__c_ref *r) {
    const int last = r->ndim - 1;
    return last >= 1 && (r->shape[last] == 1 || r->stride[last] == 1);
}

bool cfx__c_find_rows(const cfx__c_work *k, cfx__c_rows *r) {
    const int64_t n = k->out->ndim ? k->out->shape[k->out->ndim - 1] : 0;
    *r = (cfx__c_rows){.whole = true};
    if (cfx__c_is_rows(k->x, &r->x_row) && cfx__c_is_rows(k->out, &r->out_row) &&
        (!k->add || cfx__c_is_rows(k->add, &r->add_row))) {
        r->m = n ? cfx__c_count(k->out) / n : 0;
        return true;
    }
    const int nd = k->out->ndim;
    if (nd < 3 || k->x->ndim != nd || (k->add && k->add->ndim != nd) || !has_rows(k->x) ||
        !has_rows(k->out) || (k->add && !has_rows(k->add)))
        return false;
    r->whole = false;
    r->m = k->out->shape[nd - 2];
    r->x_row = k->x->stride[nd - 2];
    r->out_row = k->out->stride[nd - 2];
    r->add_row = k->add ? k->add->stride[nd - 2] : 0;
    r->walk = cfx__c_walk_over(nd - 2, k->out->shape);
    r->out = cfx__c_walk_strides(&r->walk, nd - 2, k->out->shape, k->out->stride);
    r->x = cfx__c_walk_strides(&r->walk, nd - 2, k->x->shape, k->x->stride);
    r->add = k->add ? cfx__c_walk_strides(&r->walk, nd - 2, k->add->shape, k->add->stride) : -1;
    r->walk.serial = true; /* products are split themselves */
    cfx__c_walk_settle(&r->walk, r->out);
    return true;
}

const char *cfx__c_begin(const cfx__c_rows *r, const char *name, int number) {
    const char *at = r->whole ? "0" : cfx__c_at(&r->walk, number);
    return strcmp(at, "0") ? cfx__text_format("%s + %s", name, at) : name;
}

void cfx__c_rows_open(cfx__c_work *k, const cfx__c_rows *r) {
    cfx__c *c = k->c;
    if (k->bias)
        cfx__c_pointer(c, k->bias, "bias", false);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    cfx__c_pointer(c, k->out, "out", true);
    if (!r->whole)
        cfx__c_walk_open(c, &r->walk);
    cfx__c_epilogue(k, r->add_row, k->add ? cfx__c_begin(r, "add", r->add) : "NULL");
}

void cfx__c_rows_close(cfx__c_work *k, const cfx__c_rows *r) {
    if (!r->whole)
        cfx__c_walk_close(k->c, &r->walk);
}
