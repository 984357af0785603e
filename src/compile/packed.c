/* Layers by the kernels of src/compile/kernels: weights are packed now, what follows is bounds or a
 * function of a run of results. */
#include <cfx/ops.h>
#include <math.h>

#include "layers.h"
#include "pack.h"

/* ---- rows ------------------------------------------------------------------------------------ */

/* Whether a tensor is rows of contiguous elements at one distance: [..., n]; that distance. */
static bool is_rows(const cfx__c_ref *r, int64_t *row) {
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

/* The same of an image whose channels lie last: [n, c, ...] is points of c channels. */
static bool is_points(cfx__c *c, const cfx__c_ref *r, int lead, int64_t *row) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < r->ndim; i++)
        if (i != lead) {
            shape[n] = r->shape[i];
            stride[n++] = r->stride[i];
        }
    shape[n] = r->shape[lead];
    stride[n++] = r->stride[lead];
    return is_rows(cfx__c_ref_like(c, r, n, shape, stride), row);
}

/* ---- what follows ---------------------------------------------------------------------------- */

/* The posts from number `from` on as a function of a run of results; "NULL" where there are none.
 */
static const char *post_function(cfx__c *c, const cfx__epilogue *e, int from) {
    if (!e || from >= e->n)
        return "NULL";
    cfx__text out = c->out, body = {0};
    const int indent = c->indent;
    c->out = (cfx__text){0};
    c->indent = 2;
    const char *v = "v", *names = "";
    for (int i = from; i < e->n; i++) {
        cfx__loop_note note;
        const char *name = cfx__text_format("y%d", i);
        if (!cfx__c_post(&e->post[i], &note))
            continue;
        const char *made = cfx__c_expr(c, name, note.says.expr, 1, &(cfx__c_term){v, CFX_F32},
                                       note.says.f, note.says.i, CFX_F32);
        cfx__c_line(c, "const float %s = %s;", name, made);
        names = cfx__text_format("%s_%s", names, cfx__op_info_of(e->post[i].op)->schema->name);
        v = name;
    }
    cfx__text_printf(&body,
                     "static void @(float *x, ptrdiff_t n) {\n"
                     "    for (ptrdiff_t i = 0; i < n; i++) {\n"
                     "        const float v = x[i];\n%s        x[i] = %s;\n    }\n}\n",
                     c->out.data, v);
    cfx__text_release(&c->out);
    c->out = out;
    c->indent = indent;
    return cfx__c_helper(c, cfx__text_format("then%s", names), cfx__text_take(&body));
}

static bool is_relu(const cfx__post *p) { return p->op == &cfx_op_relu; }

/* Declares `e`. */
static void put_epilogue(cfx__c_work *k, int64_t add_row, const char *add) {
    cfx__c *c = k->c;
    const cfx__epilogue *e = k->epilogue;
    int at = e && e->n && !e->post[0].op;
    const bool relu = e && at < e->n && is_relu(&e->post[at]);
    const char *post = post_function(c, e, at + relu);
    cfx__c_line(c, "const %s_epilogue e = {", c->name);
    cfx__c_line(c, "    .bias = %s, .add = %s, .add_row = %lld,", k->bias ? "bias" : "NULL", add,
                (long long)add_row);
    cfx__c_line(c, "    .low = %s, .high = INFINITY, .post = %s};", relu ? "0.0f" : "-INFINITY",
                post);
}

/* Whether what is added can be: rows as the result has them, and not in the middle of posts. */
static bool takes_add(const cfx__c_work *k) {
    for (int i = 1; k->epilogue && i < k->epilogue->n; i++)
        if (!k->epilogue->post[i].op)
            return false;
    return true;
}

static bool is_plain(const cfx__c_work *k) {
    return k->packs && k->packs->dtype == CFX_F32 && k->x->dtype == CFX_F32 &&
           k->out->dtype == CFX_F32 && k->alpha == 1 && k->beta == 1 && takes_add(k) &&
           (!k->bias || (k->bias->dtype == CFX_F32 && k->bias->ndim == 1 &&
                         k->bias->shape[0] == k->out->shape[k->out->ndim - 1])) &&
           cfx__c_count(k->out) > 0;
}

/* Declares "weight", packed. */
static void put_weight(cfx__c_work *k, const float *packed, int64_t floats) {
    cfx__c *c = k->c;
    const int number = cfx__c_weight_add(
        c, cfx__text_format("%s_weight", k->stem), CFX_F32, floats, packed,
        cfx__text_format("f32%s, packed", cfx__shape_text(k->packs->ndim, k->packs->shape)));
    cfx__c_line(c, "const float *weight = c->w->%s;", c->weights.data[number].name);
}

/* ---- products -------------------------------------------------------------------------------- */

bool cfx__c_packed_product(cfx__c_work *k, int64_t w_row, int64_t w_col) {
    cfx__c *c = k->c;
    int64_t x_row, out_row, add_row = 0;
    const int64_t length = k->x->ndim ? k->x->shape[k->x->ndim - 1] : 0;
    const int64_t n = k->out->ndim ? k->out->shape[k->out->ndim - 1] : 0;
    if (!is_plain(k) || !length || !is_rows(k->x, &x_row) || !is_rows(k->out, &out_row) ||
        (k->add && !is_rows(k->add, &add_row)))
        return false;
    const int64_t m = cfx__c_count(k->out) / n, floats = cfx__pack_panels_floats(length, n);
    float *packed = cfx__arena_alloc(&c->memory, (size_t)floats * sizeof *packed);
    cfx__pack_panels((const float *)k->packs->data, w_row, w_col, length, n, packed);
    cfx__c_pointer(c, k->x, "x", false);
    put_weight(k, packed, floats);
    if (k->bias)
        cfx__c_pointer(c, k->bias, "bias", false);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    cfx__c_pointer(c, k->out, "out", true);
    put_epilogue(k, add_row, k->add ? "add" : "NULL");
    cfx__c_line(c, "%s(%lld, %lld, %lld, x, %lld, weight, out, %lld, &e);",
                cfx__c_kernel(c, "product"), (long long)m, (long long)n, (long long)length,
                (long long)x_row, (long long)out_row);
    return true;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static void put_sizes(cfx__c *c, const char *name, const int64_t *v, int n) {
    cfx__text t = {0};
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t, "%s%lld", i ? ", " : "", (long long)v[i]);
    cfx__c_line(c, "    .%s = {%s},", name, cfx__text_take(&t));
}

static void put_conv_shape(cfx__c *c, const cfx__pack_conv_shape *s) {
    cfx__c_line(c, "static const %s_conv_shape shape = {", c->name);
    cfx__c_line(c, "    .batch = %lld, .groups = %lld, .ic = %lld, .oc = %lld,",
                (long long)s->batch, (long long)s->groups, (long long)s->ic, (long long)s->oc);
    put_sizes(c, "in", s->in, 3);
    put_sizes(c, "out", s->out, 3);
    put_sizes(c, "kernel", s->kernel, 3);
    put_sizes(c, "stride", s->stride, 3);
    put_sizes(c, "dilation", s->dilation, 3);
    put_sizes(c, "pad", s->pad, 3);
    put_sizes(c, "x_stride", s->x_stride, 5);
    cfx__c_line(c, "    .y_row = %lld,", (long long)s->y_row);
    cfx__c_line(c, "};");
}

static cfx__pack_conv_shape conv_shape(const cfx__c_work *k, const cfx__c_window *win) {
    const int lead = k->x->ndim == win->nd + 2, more = 3 - win->nd;
    cfx__pack_conv_shape s = {.batch = lead ? k->x->shape[0] : 1,
                              .groups = win->groups,
                              .ic = k->x->shape[lead],
                              .oc = k->out->shape[lead]};
    s.x_stride[0] = lead ? k->x->stride[0] : 0;
    s.x_stride[1] = k->x->stride[lead];
    for (int i = 0; i < 3; i++) {
        const int own = i - more;
        const bool has = own >= 0;
        s.in[i] = has ? k->x->shape[lead + 1 + own] : 1;
        s.out[i] = has ? k->out->shape[lead + 1 + own] : 1;
        s.kernel[i] = has ? k->w->shape[2 + own] : 1;
        s.stride[i] = has ? cfx__c_item(win->stride, own, 1) : 1;
        s.dilation[i] = has ? cfx__c_item(win->dilation, own, 1) : 1;
        s.pad[i] = !has ? 0 : win->lows ? win->low[own] : cfx__c_item(win->padding, own, 0);
        s.x_stride[2 + i] = has ? k->x->stride[lead + 1 + own] : 0;
    }
    return s;
}

/* The way that a convolution goes, with its weights. */
typedef struct {
    const char *call; /* with its arguments */
    float *packed;
    int64_t floats, scratch;
} way;

static way choose_way(cfx__c *c, const cfx__c_work *k, const cfx__pack_conv_shape *s, int nd) {
    const float *w = (const float *)k->packs->data;
    const int size = nd == 2 && s->groups == 1 ? cfx__pack_winograd_size(s) : 0;
    const bool each =
        s->groups == s->ic && s->ic == s->oc && nd <= 2 && s->x_stride[1] == 1 && s->groups > 1;
    way r = {.call = NULL};
    if (each) {
        r.floats = k->packs->numel;
        r.packed = cfx__arena_alloc(&c->memory, (size_t)r.floats * sizeof *r.packed);
        cfx__pack_depthwise(s, w, r.packed);
        r.call =
            cfx__text_format("%s(&shape, x, weight, out, &e);", cfx__c_kernel(c, "conv_depthwise"));
    } else if (size) {
        r.floats = cfx__pack_winograd_floats(s, size);
        r.packed = cfx__arena_alloc(&c->memory, (size_t)r.floats * sizeof *r.packed);
        cfx__pack_winograd(s, size, w, r.packed);
        r.scratch = cfx__pack_winograd_scratch(s, size);
        r.call = cfx__text_format("%s(&shape, %d, x, weight, out, &e, (float *)c->scratch);",
                                  cfx__c_kernel(c, "conv_winograd"), size);
    } else {
        r.floats = cfx__pack_conv_floats(s);
        r.packed = cfx__arena_alloc(&c->memory, (size_t)r.floats * sizeof *r.packed);
        cfx__pack_conv(s, w, r.packed);
        r.scratch = cfx__pack_conv_scratch(s);
        r.call = cfx__text_format("%s(&shape, x, weight, out, &e, (float *)c->scratch);",
                                  cfx__c_kernel(c, "conv"));
    }
    return r;
}

/* Whether a convolution of one point each over a dense image is a product of its points. */
static bool is_pointwise(const cfx__pack_conv_shape *s) {
    int64_t far = s->ic;
    for (int i = 2; i >= 0; i--) {
        if (s->kernel[i] != 1 || s->stride[i] != 1 || s->pad[i] ||
            (s->in[i] != 1 && s->x_stride[2 + i] != far))
            return false;
        far *= s->in[i];
    }
    return s->groups == 1 && s->x_stride[1] == 1 && (s->batch == 1 || s->x_stride[0] == far);
}

bool cfx__c_packed_conv(cfx__c_work *k, const cfx__c_window *win) {
    cfx__c *c = k->c;
    const int lead = k->x->ndim == win->nd + 2;
    int64_t add_row = 0;
    cfx__c_work flat = *k;
    const cfx__c_ref *bias = k->bias;
    flat.bias = NULL;
    if (win->transposed || win->nd > 3 || !is_plain(&flat) ||
        (bias && (bias->dtype != CFX_F32 || bias->stride[0] != 1)))
        return false;
    cfx__pack_conv_shape s = conv_shape(k, win);
    const bool placed = is_points(c, k->out, lead, &s.y_row);
    if (!placed)
        s.y_row = s.oc;
    if (k->add && (!placed || !is_points(c, k->add, lead, &add_row)))
        return false;
    way w = choose_way(c, k, &s, win->nd);
    cfx__c_pointer(c, k->x, "x", false);
    put_weight(k, w.packed, w.floats);
    if (bias)
        cfx__c_pointer(c, bias, "bias", false);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    const int64_t points = s.batch * s.out[0] * s.out[1] * s.out[2];
    const int64_t at = (w.scratch + 63) / 64 * 64;
    if (placed)
        cfx__c_pointer(c, k->out, "out", true);
    else /* points of channels first, then in the order that is wanted */
        cfx__c_line(c, "float *out = (float *)(c->scratch + %lld);", (long long)at);
    cfx__c_scratch(c, at + (placed ? 0 : points * s.oc * 4));
    put_epilogue(k, add_row, k->add ? "add" : "NULL");
    if (is_pointwise(&s)) {
        cfx__c_line(c, "%s(%lld, %lld, %lld, x, %lld, weight, out, %lld, &e);",
                    cfx__c_kernel(c, "product"), (long long)points, (long long)s.oc,
                    (long long)s.ic, (long long)s.ic, (long long)s.y_row);
    } else {
        put_conv_shape(c, &s);
        cfx__c_line(c, "%s", w.call);
    }
    if (placed)
        return true;
    cfx__c_walk walk = cfx__c_walk_over(k->out->ndim, k->out->shape);
    int64_t stride[CFX_MAX_DIMS], far = s.oc;
    stride[lead] = 1;
    for (int i = k->out->ndim - 1; i >= 0; i--)
        if (i != lead) {
            stride[i] = far;
            far *= k->out->shape[i];
        }
    cfx__c_pointer(c, k->out, "y", true);
    cfx__c_walk_add(&walk, k->out);
    cfx__c_walk_strides(&walk, k->out->ndim, k->out->shape, stride);
    cfx__c_walk_settle(&walk, 0);
    cfx__c_walk_open(c, &walk);
    cfx__c_line(c, "y[%s] = out[%s];", cfx__c_at(&walk, 0), cfx__c_at(&walk, 1));
    cfx__c_walk_close(c, &walk);
    return true;
}
