/* Layers by the kernels of src/compile/kernels: weights are packed at generation time; the
 * epilogue is clamps or a function of a run of results. */
#include <cfx/ops.h>
#include <math.h>

#include "layers.h"
#include "pack.h"

/* ---- layers ---------------------------------------------------------------------------------- */

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
    cfx__c_line(k->c, "const float *weight = %s;",
                cfx__c_weight_text(k->c, k->stem, "weight", CFX_F32, floats, packed,
                                   cfx__c_packed_note(CFX_F32, k->packs)));
}

/* ---- products -------------------------------------------------------------------------------- */

/* Declares "weight", in bfloat16. */
static void put_bf16(cfx__c_work *k, int64_t w_row, int64_t w_col, int64_t length, int64_t n) {
    cfx__c *c = k->c;
    const int64_t count = cfx__pack_panels_floats(length, n);
    uint16_t *packed = cfx__c_block_of(c, count * (int64_t)sizeof *packed);
    cfx__pack_bf16((const float *)k->packs->data, w_row, w_col, length, n, packed);
    cfx__c_put_narrow(c, 16, length, length,
                      cfx__c_weight_text(c, k->stem, "weight", CFX_BF16, count, packed,
                                         cfx__c_packed_note(CFX_BF16, k->packs)),
                      "NULL");
}

bool cfx__c_packed_product(cfx__c_work *k, int64_t w_row, int64_t w_col) {
    if (k->c->card)
        return false;
    cfx__c *c = k->c;
    cfx__c_rows r;
    const int64_t length = k->x->ndim ? k->x->shape[k->x->ndim - 1] : 0;
    const int64_t n = k->out->ndim ? k->out->shape[k->out->ndim - 1] : 0;
    if (!is_plain(k) || !length || !cfx__c_find_rows(k, &r))
        return false;
    const cfx__packing how = {
        .kind = CFX__PACKING_PANELS, .row = w_row, .col = w_col, .k = length, .n = n};
    if (c->o.bf16) {
        put_bf16(k, w_row, w_col, length, n);
        return cfx__c_narrow_product(k, n);
    }
    cfx__c_pointer(c, k->x, "x", false);
    put_weight(k, cfx__packed_floats(k->packs, &how), cfx__packing_floats(&how));
    cfx__c_rows_open(k, &r);
    cfx__c_line(c, "%s(%lld, %lld, %lld, %s, %lld, weight, %s, %lld, &e);",
                cfx__c_kernel(c, "product"), (long long)r.m, (long long)n, (long long)length,
                cfx__c_begin(&r, "x", r.x), (long long)r.x_row, cfx__c_begin(&r, "out", r.out),
                (long long)r.out_row);
    cfx__c_rows_close(k, &r);
    return true;
}

/* Whether what a product adds is a row for all of its rows, or one for each. */
static bool takes_bias(const cfx__c_work *k) {
    const cfx__c_ref *b = k->bias;
    const int nd = k->out->ndim;
    return !b || (b->dtype == CFX_F32 && k->beta == 1 && b->ndim >= 1 && b->ndim <= nd &&
                  b->shape[b->ndim - 1] == k->out->shape[nd - 1] && b->stride[b->ndim - 1] == 1);
}

bool cfx__c_matmul(cfx__c_work *k, const int64_t *xs, const int64_t *ws, const int64_t *bs,
                   int64_t length, int64_t x_row, int64_t w_row) {
    cfx__c *c = k->c;
    const cfx__c_ref *out = k->out;
    const int nd = out->ndim;
    if (nd < 2 || (k->epilogue && k->epilogue->n) || k->x->dtype != CFX_F32 ||
        k->w->dtype != CFX_F32 || out->dtype != CFX_F32 || out->stride[nd - 1] != 1 ||
        !takes_bias(k) || !length)
        return false;
    const int64_t m = out->shape[nd - 2], n = out->shape[nd - 1];
    const bool added = k->bias && bs[nd - 2]; /* a row of its own for each */
    cfx__c_walk walk = cfx__c_walk_over(nd - 2, out->shape);
    const int o = cfx__c_walk_strides(&walk, nd - 2, out->shape, out->stride);
    const int x = cfx__c_walk_strides(&walk, nd - 2, out->shape, xs);
    const int w = cfx__c_walk_strides(&walk, nd - 2, out->shape, ws);
    const int b = k->bias ? cfx__c_walk_strides(&walk, nd - 2, out->shape, bs) : -1;
    cfx__c_rows at = {.whole = false, .walk = walk};
    at.walk.serial = true; /* rounds share scratch */
    cfx__c_walk_settle(&at.walk, o);
    cfx__c_walk_open(c, &at.walk);
    const char *bias = k->bias ? cfx__c_begin(&at, "bias", b) : NULL;
    cfx__c_epilogue_line(c, added ? NULL : bias, added ? bias : NULL, added ? bs[nd - 2] : 0,
                         "-INFINITY", "INFINITY", "NULL");
    cfx__c_line(c, "%s(%lld, %lld, %lld, %s, %s, %lld, %lld,", cfx__c_kernel(c, "matmul"),
                (long long)m, (long long)n, (long long)length, cfx__c_number(CFX_F32, k->alpha, 0),
                cfx__c_begin(&at, "x", x), (long long)xs[nd - 2], (long long)x_row);
    cfx__c_line(c, "    %s, %lld, %lld, %s, %lld, &e, (float *)%s);",
                cfx__c_begin(&at, "weight", w), (long long)w_row, (long long)ws[nd - 1],
                cfx__c_begin(&at, "out", o), (long long)out->stride[nd - 2],
                cfx__c_scratch_at(c, 0));
    cfx__c_walk_close(c, &at.walk);
    cfx__c_scratch(c, cfx__pack_matmul_scratch(m, n, length, x_row != 1 && length > 1));
    return true;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static void put_sizes(cfx__c *c, const char *name, const int64_t *v, int n) {
    cfx__text t = {0};
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t, "%s%lld", i ? ", " : "", (long long)v[i]);
    cfx__c_line(c, "    .%s = {%s},", name, cfx__text_take(&t));
}

void cfx__c_put_conv_shape(cfx__c *c, const cfx__pack_conv_shape *s) {
    cfx__c_line(c, "%sconst %s_conv_shape shape = {", c->nvary ? "" : "static ", c->name);
    cfx__c_line(c, "    .batch = %lld, .groups = %lld, .ic = %lld, .oc = %lld,",
                (long long)s->batch, (long long)s->groups, (long long)s->ic, (long long)s->oc);
    put_sizes(c, "in", s->in, 3);
    put_sizes(c, "out", s->out, 3);
    put_sizes(c, "kernel", s->kernel, 3);
    put_sizes(c, "stride", s->stride, 3);
    put_sizes(c, "dilation", s->dilation, 3);
    put_sizes(c, "pad", s->pad, 3);
    put_sizes(c, "x_stride", s->x_stride, 5);
    if (s->y_channel)
        cfx__c_line(c, "    .y_row = %lld, .y_channel = %lld, .y_image = %lld,",
                    (long long)s->y_row, (long long)s->y_channel, (long long)s->y_image);
    else
        cfx__c_line(c, "    .y_row = %lld,", (long long)s->y_row);
    cfx__c_line(c, "};");
}

cfx__pack_conv_shape cfx__c_conv_shape(const cfx__c_work *k, const cfx__c_window *win) {
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
    const float *packed;
    int64_t floats, scratch;
    bool scatters; /* may store channels that lie apart */
} way;

/* The size of its tiles, 0: none. It is the same at all sizes where those vary. */
static int winograd_size(const cfx__c *c, const cfx__pack_conv_shape *s) {
    enum { SIDE = 32 };
    cfx__pack_conv_shape one = *s;
    if (c->nvary) {
        one.batch = 1;
        one.out[1] = one.out[2] = SIDE;
    }
    return cfx__pack_winograd_size(&one);
}

static way choose_way(cfx__c *c, const cfx__c_work *k, const cfx__pack_conv_shape *s, int nd,
                      bool transposed) {
    const int size = nd == 2 && s->groups == 1 ? winograd_size(c, s) : 0;
    const bool each =
        s->groups == s->ic && s->ic == s->oc && nd <= 2 && s->x_stride[1] == 1 && s->groups > 1;
    way r = {.call = NULL};
    cfx__packing how;
    if (transposed) {
        how = (cfx__packing){.kind = CFX__PACKING_TRANSPOSED, .s = s};
        r.scratch = cfx__pack_transposed_scratch(s);
        r.call = cfx__text_format("%s(&shape, x, weight, out, &e, (float *)%s);",
                                  cfx__c_kernel(c, "conv_transposed"), cfx__c_scratch_at(c, 0));
    } else if (each) {
        how = (cfx__packing){.kind = CFX__PACKING_DEPTHWISE, .s = s};
        r.call =
            cfx__text_format("%s(&shape, x, weight, out, &e);", cfx__c_kernel(c, "conv_depthwise"));
    } else if (size) {
        how = (cfx__packing){.kind = CFX__PACKING_WINOGRAD, .size = size, .s = s};
        r.scratch = cfx__pack_winograd_scratch(s, size, c->nvary > 0);
        r.call = cfx__text_format("%s(&shape, %d, x, weight, out, &e, (float *)%s);",
                                  cfx__c_kernel(c, "conv_winograd"), size, cfx__c_scratch_at(c, 0));
    } else {
        how = (cfx__packing){.kind = CFX__PACKING_CONV, .s = s};
        r.scratch = cfx__pack_conv_scratch(s, c->nvary > 0);
        r.scatters = true;
        r.call = cfx__text_format("%s(&shape, x, weight, out, &e, (float *)%s);",
                                  cfx__c_kernel(c, "conv"), cfx__c_scratch_at(c, 0));
    }
    r.floats = cfx__packing_floats(&how);
    r.packed = cfx__packed_floats(k->packs, &how);
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

/* The convolution from the result of a transposed one to its input. */
static void turn(cfx__pack_conv_shape *s) {
    const cfx__pack_conv_shape was = *s;
    s->ic = was.oc;
    s->oc = was.ic;
    memcpy(s->in, was.out, sizeof s->in);
    memcpy(s->out, was.in, sizeof s->out);
}

/* Whether channels of a result lie further from each other than points do, which lie evenly in each
 * image: then where. */
static bool lies_by_channels(const cfx__c_ref *r, int lead, cfx__pack_conv_shape *s) {
    int64_t row = r->stride[r->ndim - 1], far = row;
    for (int i = r->ndim - 1; i > lead; i--) {
        if (r->shape[i] != 1 && r->stride[i] != far)
            return false;
        far *= r->shape[i];
    }
    if (r->stride[lead] <= 1)
        return false;
    s->y_row = row;
    s->y_channel = r->stride[lead];
    s->y_image = lead ? r->stride[0] : 0;
    return true;
}

bool cfx__c_packed_conv(cfx__c_work *k, const cfx__c_window *win) {
    if (k->c->card)
        return false;
    cfx__c *c = k->c;
    const int lead = k->x->ndim == win->nd + 2;
    int64_t add_row = 0;
    cfx__c_work flat = *k;
    const cfx__c_ref *bias = k->bias;
    flat.bias = NULL;
    if (win->nd > 3 || !is_plain(&flat) ||
        (bias && (bias->dtype != CFX_F32 || bias->stride[0] != 1)))
        return false;
    cfx__pack_conv_shape s = cfx__c_conv_shape(k, win);
    const int64_t oc = s.oc, points = s.batch * s.out[0] * s.out[1] * s.out[2];
    if (win->transposed)
        turn(&s);
    bool placed = cfx__c_is_points(c, k->out, lead, &s.y_row);
    if (!placed)
        s.y_row = oc;
    if (k->add && (!placed || !cfx__c_is_points(c, k->add, lead, &add_row)))
        return false;
    way w = choose_way(c, k, &s, win->nd, win->transposed);
    placed = placed || (w.scatters && lies_by_channels(k->out, lead, &s));
    const bool product = !win->transposed && !s.y_channel && is_pointwise(&s);
    cfx__c_pointer(c, k->x, "x", false);
    put_weight(k, w.packed, w.floats);
    if (bias)
        cfx__c_pointer(c, bias, "bias", false);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    const int64_t at = product ? 0 : (w.scratch + 63) / 64 * 64;
    if (placed)
        cfx__c_pointer(c, k->out, "out", true);
    else /* points of channels first, then in the order that is wanted */
        cfx__c_line(c, "float *out = (float *)%s;", cfx__c_scratch_at(c, at));
    if (at || !placed)
        cfx__c_scratch(c, at + (placed ? 0 : points * oc * 4));
    cfx__c_epilogue(k, add_row, k->add ? "add" : "NULL");
    if (product) {
        cfx__c_line(c, "%s(%lld, %lld, %lld, x, %lld, weight, out, %lld, &e);",
                    cfx__c_kernel(c, "product"), (long long)points, (long long)s.oc,
                    (long long)s.ic, (long long)s.ic, (long long)s.y_row);
    } else {
        cfx__c_put_conv_shape(c, &s);
        cfx__c_line(c, "%s", w.call);
    }
    if (placed)
        return true;
    cfx__c_walk walk = cfx__c_walk_over(k->out->ndim, k->out->shape);
    int64_t stride[CFX_MAX_DIMS], far = oc;
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
