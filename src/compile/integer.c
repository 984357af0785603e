/* Integer layers, and float layers with weights of 16, 8 or 4 bits. Start at cfx__c_integers and
 * cfx__c_narrow. */
#include <cfx/ops.h>
#include <math.h>

#include "layers.h"

static bool is_linear(const cfx_op *op) {
    return op == &cfx_op_linear || op == &cfx_op_mm || op == &cfx_op_addmm;
}

/* Whether the posts have a form: bytes are added first or not at all. */
static bool knows_posts(const cfx__epilogue *e) {
    for (int i = 0; i < e->n; i++) {
        cfx__loop_note note;
        if (e->post[i].op ? !cfx__c_post(&e->post[i], &note) : i > 0)
            return false;
    }
    return true;
}

static bool is_one(cfx_value v) { return cfx_is_number(v) && cfx_number(v) == 1; }

/* addmm of beta and alpha 1; the bias of a layer is known. */
static bool is_plain_call(const cfx__layer *l) {
    const cfx_op *op = l->call.op;
    const cfx_value b = op->layer.bias >= 0 ? l->call.args[op->layer.bias] : cfx_none();
    if (op == &cfx_op_addmm && (!is_one(l->call.args[3]) || !is_one(l->call.args[4])))
        return false;
    return b.tag == CFX_TAG_NONE ||
           (b.tag == CFX_TAG_TENSOR && cfx_as_tensor(b)->data &&
            cfx_as_tensor(b)->dtype == CFX_F32 && cfx_as_tensor(b)->ndim == 1);
}

/* ---- integers -------------------------------------------------------------------------------- */

bool cfx__c_integers_known(const cfx__layer *l) {
    const cfx__integers *q = l->epilogue.integers;
    const cfx_op *op = l->call.op;
    const cfx_tensor *w = cfx_as_tensor(l->call.args[op->layer.weight]);
    float low, high;
    const int after = cfx__c_bounds(&l->epilogue, &low, &high);
    const bool adds = l->epilogue.n && !l->epilogue.post[0].op;
    if (!knows_posts(&l->epilogue) || !is_plain_call(l) || (adds && after < l->epilogue.n) ||
        cfx__layer_x(l)->dtype != (q->dynamic ? CFX_F32 : CFX_U8) || !w->data)
        return false;
    if (is_linear(op))
        return w->ndim == 2;
    const bool turned = op == &cfx_op_convolution && cfx_number(l->call.args[6]) != 0;
    return (op == &cfx_op_conv2d || op == &cfx_op_convolution) && w->ndim == 4 && !turned &&
           !q->dynamic && cfx__layer_x(l)->ndim == 4;
}

/* Bytes as the kernel reads them: channels last, or rows without gaps. */
static const cfx__c_ref *in_order(cfx__c_work *k, bool image) {
    const cfx__c_ref *x = k->x;
    int64_t row;
    if (image ? x->stride[1] == 1 || x->shape[1] == 1 : cfx__c_is_rows(x, &row))
        return x;
    return cfx__c_own(k->u, x, image ? CFX_CHANNELS_LAST : CFX_CONTIGUOUS, true);
}

/* A vector that a layer has beside its weight. */
static const char *noted(cfx__c *c, const char *stem, const char *what, cfx_dtype d, int64_t n,
                         const void *data) {
    return cfx__c_weight_text(c, stem, what, d, n, data,
                              cfx__text_format("%s[%lld]", cfx_dtype_brief(d), (long long)n));
}

static const char *listed(float x) {
    return cfx__c_listed(cfx__c_number(CFX_F32, (double)x, 0));
}

/* A product as the convolution of a line of points. */
static cfx__pack_conv_shape line_of(const cfx__c_rows *r, int64_t k, int64_t n) {
    return (cfx__pack_conv_shape){
        .batch = 1,
        .groups = 1,
        .ic = k,
        .oc = n,
        .in = {1, 1, r->m},
        .out = {1, 1, r->m},
        .kernel = {1, 1, 1},
        .stride = {1, 1, 1},
        .dilation = {1, 1, 1},
        .x_stride = {r->m * r->x_row, 1, r->m * r->x_row, r->m * r->x_row, r->x_row},
        .y_row = r->out_row};
}

/* Everything that is written of a layer in integers. */
typedef struct {
    cfx__c_work *k;
    const cfx__integers *q;
    cfx__pack_conv_shape s;
    bool each; /* channel by channel */
    const int32_t *sums;
    int64_t add_row;
} bytes;

/* Declares "weight" and "f". */
static void put_finish(bytes *b, const int8_t *w, const float *bias) {
    cfx__c_work *k = b->k;
    cfx__c *c = k->c;
    const cfx__pack_conv_shape *s = &b->s;
    const int64_t n = s->oc, count = b->each ? k->packs->numel : cfx__pack_int8_bytes(s);
    int8_t *packed = cfx__c_block_of(c, count);
    int32_t *sums = cfx__c_block_of(c, n * 4), *start = cfx__c_block_of(c, n * 4);
    float *scale = cfx__c_block_of(c, n * 4), *to = cfx__c_block_of(c, n * 4), low, high;
    const int after = cfx__c_bounds(k->epilogue, &low, &high);
    const bool posts = after < k->epilogue->n;
    cfx__pack_int8_finish f = {.start = start, .scale = scale, .bias = to};
    if (b->each)
        cfx__pack_int8_depthwise(s, w, packed, sums);
    else
        cfx__pack_int8(s, w, packed, sums);
    cfx__pack_int8_finish_of(b->q, n, sums, bias, low, high, k->add != NULL, posts, &f);
    b->sums = sums;
    cfx__c_line(c, "const int8_t *weight = %s;",
                cfx__c_weight_text(c, k->stem, "weight", CFX_I8, count, packed,
                                   cfx__c_packed_note(CFX_I8, k->packs)));
    if (b->q->dynamic)
        cfx__c_line(c, "const int32_t *sums = %s;", noted(c, k->stem, "sums", CFX_I32, n, sums));
    cfx__c_line(c, "const %s_int8_finish f = {", c->name);
    cfx__c_line(c, "    .start = %s,",
                b->q->dynamic ? "NULL" : noted(c, k->stem, "start", CFX_I32, n, start));
    cfx__c_line(c, "    .scale = %s,", noted(c, k->stem, "scale", CFX_F32, n, scale));
    cfx__c_line(c, "    .bias = %s,", noted(c, k->stem, "bias", CFX_F32, n, to));
    cfx__c_line(c, "    .low = %s, .high = %s,", listed(f.low), listed(f.high));
    if (k->add)
        cfx__c_line(c, "    .add = add, .add_row = %lld, .added = %s,", (long long)b->add_row,
                    listed(f.added));
    if (posts)
        cfx__c_line(c, "    .post = %s,", cfx__c_post_function(c, k->epilogue, after));
    if (posts && b->q->rounds)
        cfx__c_line(c, "    .steps = %s, .zero = %s,", listed(f.steps), listed(f.zero));
    if (b->q->rounds)
        cfx__c_line(c, "    .rounds = 1,");
    cfx__c_line(c, "};");
}

static void put_dynamic(bytes *b, const cfx__c_rows *r) {
    cfx__c *c = b->k->c;
    cfx__c_line(c, "%s(%lld, %lld, %lld, x, %lld, weight, sums, out, %lld, &f, %s);",
                cfx__c_kernel(c, "int8_dynamic"), (long long)r->m, (long long)b->s.oc,
                (long long)b->s.ic, (long long)r->x_row, (long long)r->out_row,
                cfx__c_scratch_at(c, 0));
    cfx__c_scratch(c, cfx__pack_int8_dynamic_scratch(r->m, b->s.oc, b->s.ic));
}

/* The weight with its results first, contiguous. */
static cfx_tensor *results_first(const cfx__layer *l) {
    cfx_tensor *w = cfx_as_tensor(l->call.args[l->call.op->layer.weight]);
    return cfx__tensor_contiguous(is_linear(l->call.op) && l->call.op != &cfx_op_linear ? cfx_t(w)
                                                                                        : w);
}

void cfx__c_integers(cfx__c_work *k, const cfx__layer *l) {
    cfx__c *c = k->c;
    const bool image = !is_linear(l->call.op);
    const int bias_at = l->call.op->layer.bias;
    const cfx_value bias = bias_at >= 0 ? l->call.args[bias_at] : cfx_none();
    cfx_tensor *w = results_first(l);
    bytes b = {.k = k, .q = l->epilogue.integers};
    cfx__c_rows r = {0};
    cfx__c_window win = {0};
    k->packs = w;
    k->x = in_order(k, image);
    bool fine;
    if (image) {
        win = cfx__c_window_of(k, l->call.op);
        b.s = cfx__c_conv_shape(k, &win);
        b.each = b.s.groups == b.s.ic && b.s.ic == b.s.oc && b.s.groups > 1;
        fine = cfx__c_is_points(c, k->out, 1, &b.s.y_row) &&
               (!k->add || cfx__c_is_points(c, k->add, 1, &b.add_row));
    } else {
        fine = cfx__c_find_rows(k, &r) && r.whole;
        b.s = line_of(&r, w->shape[1], w->shape[0]);
        b.add_row = r.add_row;
    }
    if (!fine) {
        cfx__c_refuse(k->u, "is a layer in integers whose results do not lie in order");
        return;
    }
    cfx__c_pointer(c, k->x, "x", false);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    cfx__c_pointer(c, k->out, "out", true);
    put_finish(&b, (const int8_t *)w->data,
               bias.tag == CFX_TAG_TENSOR
                   ? (const float *)cfx__tensor_contiguous(cfx_as_tensor(bias))->data
                   : NULL);
    if (b.q->dynamic) {
        put_dynamic(&b, &r);
        return;
    }
    cfx__c_put_conv_shape(c, &b.s);
    cfx__c_line(c, "const int zero = %d; /* the byte that stands for 0 */", (int)b.q->x.zero);
    if (b.each) {
        cfx__c_line(c, "%s(&shape, x, zero, weight, out, &f);", cfx__c_kernel(c, "int8_depthwise"));
        return;
    }
    cfx__c_line(c, "%s(&shape, x, zero, weight, out, &f, %s);", cfx__c_kernel(c, "int8_conv"),
                cfx__c_scratch_at(c, 0));
    cfx__c_scratch(c, cfx__pack_int8_scratch(&b.s, c->nvary > 0));
}

/* ---- weights of fewer bits ------------------------------------------------------------------- */

bool cfx__c_narrow_known(const cfx__layer *l) {
    const cfx__narrow *w = l->epilogue.narrow;
    const cfx_dtype d = (cfx_dtype)cfx__layer_x(l)->dtype;
    if (w->block || (w->bits == 4 && w->k % 2) || cfx__layer_out(l)->dtype != CFX_F32)
        return false;
    if (l->call.op == &cfx_op_embedding)
        return !l->epilogue.n && (d == CFX_I64 || d == CFX_I32);
    return is_linear(l->call.op) && d == CFX_F32 && is_plain_call(l) && knows_posts(&l->epilogue);
}

bool cfx__c_narrow_product(cfx__c_work *k, int64_t n) {
    cfx__c *c = k->c;
    cfx__c_rows r;
    if (!cfx__c_find_rows(k, &r))
        return false;
    cfx__c_pointer(c, k->x, "x", false);
    cfx__c_rows_open(k, &r);
    cfx__c_line(c, "%s(%lld, %lld, %s, %lld, &weight, %s, %lld, &e);",
                cfx__c_kernel(c, "narrow_product"), (long long)r.m, (long long)n,
                cfx__c_begin(&r, "x", r.x), (long long)r.x_row, cfx__c_begin(&r, "out", r.out),
                (long long)r.out_row);
    cfx__c_rows_close(k, &r);
    return true;
}

void cfx__c_put_narrow(cfx__c *c, int bits, int64_t k, int64_t group, const char *numbers,
                       const char *scales) {
    cfx__c_line(c, "const %s_narrow weight = {", c->name);
    cfx__c_line(c, "    .bits = %d, .k = %lld, .group = %lld,", bits, (long long)k,
                (long long)group);
    cfx__c_line(c, "    .numbers = %s, .scales = %s};", numbers, scales);
}

static void put_narrow(cfx__c_work *k, const cfx__narrow *given) {
    cfx__c *c = k->c;
    cfx__narrow w = *given;
    w.integers = cfx__tensor_contiguous((cfx_tensor *)given->integers);
    const int64_t wide = cfx__pack_panels_floats(w.k, w.n), count = wide * w.bits / 8;
    const int64_t nscales = cfx__pack_panels_floats(w.k / w.group, w.n);
    void *numbers = cfx__c_block_of(c, count);
    float *scales = cfx__c_block_of(c, nscales * 4);
    cfx__pack_narrow(&w, numbers, scales);
    const cfx_dtype d = w.bits == 8 ? CFX_I8 : CFX_U8;
    const char *weight = cfx__c_weight_text(c, k->stem, "weight", d, count, numbers,
                                            cfx__c_packed_note(d, w.integers));
    cfx__c_put_narrow(c, w.bits, w.k, w.group, weight,
                      noted(c, k->stem, "scale", CFX_F32, nscales, scales));
}

/* Rows of a table, picked by integers. */
static void put_rows(cfx__c_work *k, const cfx__narrow *w) {
    cfx__c *c = k->c;
    const int nd = k->x->ndim;
    if (k->out->ndim != nd + 1 || (w->k != 1 && k->out->stride[nd] != 1)) {
        cfx__c_refuse(k->u, "is a table whose rows do not lie in order");
        return;
    }
    cfx__c_pointer(c, k->x, "index", false);
    cfx__c_pointer(c, k->out, "out", true);
    cfx__c_walk walk = cfx__c_walk_over(nd, k->x->shape);
    const int at = cfx__c_walk_add(&walk, k->x);
    const int to = cfx__c_walk_strides(&walk, nd, k->x->shape, k->out->stride);
    cfx__c_walk_settle(&walk, to);
    cfx__c_walk_open(c, &walk);
    cfx__c_line(c, "const int64_t row = %s;",
                cfx__c_checked(c, "index", cfx__c_at(&walk, at), k->x->dtype, w->n));
    cfx__c_line(c, "%s(&weight, (ptrdiff_t)row, out + %s);", cfx__c_kernel(c, "narrow_row"),
                cfx__c_at(&walk, to));
    cfx__c_walk_close(c, &walk);
}

void cfx__c_narrow(cfx__c_work *k, const cfx__layer *l) {
    put_narrow(k, l->epilogue.narrow);
    if (l->call.op == &cfx_op_embedding)
        put_rows(k, l->epilogue.narrow);
    else if (!cfx__c_narrow_product(k, l->epilogue.narrow->n))
        cfx__c_refuse(k->u, "is a product whose rows do not lie in order");
}
