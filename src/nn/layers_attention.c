/* Attention with several heads, and the transformer layers made of it. forward_attention follows
 * F.multi_head_attention_forward step by step. */
#include <cfx/ops.h>

#include "layer.h"

#include <math.h>

/* ---- MultiheadAttention: make ---------------------------------------------------------------- */

/* Xavier's normal numbers for the biases of keys and values, (1, 1, embed_dim). */
static cfx_tensor *xavier_normal(int64_t n) {
    return cfx_normal_(cfx_empty(cfx_list(1, 1, n)), 0.0, sqrt(2.0 / (double)(n + n)));
}

static void make_attention(cfx_module *m, const cfx__layer_options *o) {
    int64_t n = cfx__layer_option_int(o, "embed_dim"),
            heads = cfx__layer_option_int(o, "num_heads");
    cfx_value k = cfx__layer_option(o, "kdim"), v = cfx__layer_option(o, "vdim");
    int64_t kdim = cfx_is_none(k) ? n : cfx_integer(k), vdim = cfx_is_none(v) ? n : cfx_integer(v);
    if (n <= 0 || heads <= 0) {
        cfx__layer_fail(o, VALUE,
                        "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and "
                        "num_heads=%lld instead",
                        (long long)n, (long long)heads);
        return;
    }
    if (n % heads) {
        cfx__layer_fail(o, ASSERTION, "embed_dim must be divisible by num_heads");
        return;
    }
    bool same = kdim == n && vdim == n, bias = cfx__layer_option_on(o, "bias");
    cfx_nn_options plain = {.no_bias = !bias};
    cfx_module *out =
        cfx_nn_make_from(o->at, "NonDynamicallyQuantizableLinear", CFX_ARGS(n, n), plain);
    if (same) {
        cfx_nn_parameter(m, "in_proj_weight", cfx__layer_init_xavier(3 * n, n));
        cfx_nn_parameter(m, "q_proj_weight", NULL);
        cfx_nn_parameter(m, "k_proj_weight", NULL);
        cfx_nn_parameter(m, "v_proj_weight", NULL);
    } else {
        cfx_nn_parameter(m, "q_proj_weight", cfx__layer_init_xavier(n, n));
        cfx_nn_parameter(m, "k_proj_weight", cfx__layer_init_xavier(n, kdim));
        cfx_nn_parameter(m, "v_proj_weight", cfx__layer_init_xavier(n, vdim));
        cfx_nn_parameter(m, "in_proj_weight", NULL);
    }
    cfx_nn_parameter(m, "in_proj_bias",
                     bias ? cfx__layer_init_full(1, (int64_t[]){3 * n}, 0) : NULL);
    if (bias)
        cfx_nn_parameter(out, "bias", cfx__layer_init_full(1, &n, 0));
    cfx_nn_add(m, "out_proj", out);
    bool more = cfx__layer_option_on(o, "add_bias_kv");
    cfx_nn_parameter(m, "bias_k", more ? xavier_normal(n) : NULL);
    cfx_nn_parameter(m, "bias_v", more ? xavier_normal(n) : NULL);
    cfx_module_set_attr(m, "bias", cfx_bool(bias));
    cfx_module_set_attr(m, "kdim", cfx_int(kdim));
    cfx_module_set_attr(m, "vdim", cfx_int(vdim));
}

/* ---- MultiheadAttention: forward ------------------------------------------------------------- */

/* A mask as numbers to add: true becomes minus infinity. */
static cfx_tensor *mask_to_add(cfx_value mask, const cfx_tensor *like, const char *name) {
    if (mask.tag != CFX_TAG_TENSOR)
        return NULL;
    if (cfx_as_tensor(mask)->dtype != CFX_BOOL) {
        if (!cfx__dtype_is_float(cfx_as_tensor(mask)->dtype))
            cfx_fail(CFX_ASSERTION_ERROR, cfx__site(),
                     "only bool and floating types of %s are supported", name);
        return cfx_as_tensor(mask);
    }
    cfx_tensor *zeros =
        cfx_zeros_like(cfx_as_tensor(mask), CFX_KW(dtype, cfx_dtype_value(like->dtype)));
    return cfx_masked_fill(zeros, cfx_as_tensor(mask), -INFINITY);
}

/* q, k and v through their projections. */
static void project(cfx_module *self, cfx_tensor *const in[3], cfx_tensor *out[3]) {
    cfx_value packed = cfx__layer_attr(self, "in_proj_weight"),
              bias = cfx__layer_attr(self, "in_proj_bias");
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    bool one = !cfx_is_none(packed);
    if (one && in[0] == in[1] && in[1] == in[2]) {
        cfx_tensor *t = cfx_linear(in[0], packed, bias);
        t = cfx_unsqueeze(cfx_unflatten(t, -1, cfx_list(3, in[0]->shape[2])), 0);
        t = cfx_contiguous(cfx_squeeze(cfx_transpose(t, 0, -2), -2));
        for (int i = 0; i < 3; i++)
            out[i] = cfx_select(t, 0, i);
        return;
    }
    cfx_value w = one ? cfx_chunk(packed, 3) : cfx_none();
    cfx_value b = cfx_is_none(bias) ? bias : cfx_chunk(bias, 3);
    for (int i = 0; i < 3; i++)
        out[i] = cfx_linear(in[i], one ? cfx_at(w, i) : cfx__layer_attr(self, names[i]),
                            cfx_is_none(b) ? b : cfx_at(b, i));
}

typedef struct sizes {
    int64_t batch, heads, head, width, to, from; /* to: queries, from: keys */
} sizes;

/* (length, batch, width) to (batch * heads, length, head). */
static cfx_tensor *by_heads(cfx_tensor *t, const sizes *s) {
    return cfx_transpose(cfx_view(t, cfx_list(t->shape[0], s->batch * s->heads, s->head)), 0, 1);
}

/* One more key and value: what a mask says of it is nothing. */
static cfx_tensor *mask_longer(cfx_tensor *mask) {
    return mask ? cfx_pad(mask, cfx_list(0, 1)) : NULL;
}

/* Both masks in one that fits (batch * heads, to, from), or NULL. */
static cfx_tensor *join_masks(cfx_tensor *mask, cfx_tensor *keys, const sizes *s) {
    if (!keys)
        return mask;
    keys = cfx_expand(cfx_view(keys, cfx_list(s->batch, 1, 1, s->from)),
                      cfx_list(-1, s->heads, -1, -1));
    keys = cfx_reshape(keys, cfx_list(s->batch * s->heads, 1, s->from));
    return mask ? cfx_add(mask, keys) : keys;
}

static bool mask_fits(const cfx_tensor *mask, const sizes *s) {
    int64_t two[] = {s->to, s->from}, three[] = {s->batch * s->heads, s->to, s->from};
    bool flat = mask->ndim == 2;
    if (mask->ndim != 2 && mask->ndim != 3)
        cfx_fail(CFX_RUNTIME_ERROR, cfx__site(), "attn_mask's dimension %d is not supported",
                 mask->ndim);
    else if (flat ? memcmp(mask->shape, two, sizeof two) : memcmp(mask->shape, three, sizeof three))
        cfx_fail(CFX_RUNTIME_ERROR, cfx__site(),
                 "The shape of the %dD attn_mask is torch.Size(%s), but should be %s.", mask->ndim,
                 cfx__shape_text(mask->ndim, mask->shape),
                 cfx_value_repr(flat ? cfx_tuple(two[0], two[1])
                                     : cfx_tuple(three[0], three[1], three[2])));
    return cfx_ok();
}

static bool inputs_fit(const cfx_module *self, cfx_args a) {
    int64_t width = cfx__layer_attr_int((cfx_module *)self, "embed_dim");
    for (int i = 0; i < 3; i++) {
        if (a.v[i].tag != CFX_TAG_TENSOR || (cfx_as_tensor(a.v[i])->head.flags & CFX__TRACED)) {
            cfx_fail(CFX_TYPE_ERROR, cfx__site(),
                     "%s: query, key and value must be tensors; it is traced as a leaf",
                     self->type);
            return false;
        }
    }
    const cfx_tensor *q = cfx_as_tensor(a.v[0]);
    if (q->ndim != 2 && q->ndim != 3)
        cfx_fail(CFX_ASSERTION_ERROR, cfx__site(),
                 "query should be unbatched 2D or batched 3D tensor but received %d-D query tensor",
                 q->ndim);
    else if (cfx_as_tensor(a.v[1])->ndim != q->ndim || cfx_as_tensor(a.v[2])->ndim != q->ndim)
        cfx_fail(CFX_ASSERTION_ERROR, cfx__site(),
                 "For %s (%d-D) `query`, expected `key` and `value` to be %d-D but found %d-D and "
                 "%d-D tensors respectively",
                 q->ndim == 3 ? "batched" : "unbatched", q->ndim, q->ndim,
                 cfx_as_tensor(a.v[1])->ndim, cfx_as_tensor(a.v[2])->ndim);
    else if (q->shape[q->ndim - 1] != width)
        cfx_fail(CFX_ASSERTION_ERROR, cfx__site(),
                 "was expecting embedding dimension of %lld, but got %lld", (long long)width,
                 (long long)q->shape[q->ndim - 1]);
    return cfx_ok();
}

/* Weights first, then their sum: the way that can show the weights. */
static cfx_tensor *attend_seen(cfx_tensor *q, cfx_tensor *k, cfx_tensor *v, cfx_tensor *mask,
                               double dropout, const sizes *s, cfx_tensor **weights) {
    q = cfx_mul(q, sqrt(1.0 / (double)s->head));
    cfx_tensor *w = mask ? cfx_baddbmm(mask, q, cfx_transpose(k, -2, -1))
                         : cfx_bmm(q, cfx_transpose(k, -2, -1));
    w = cfx_softmax(w, -1);
    if (dropout > 0)
        w = cfx_dropout(w, dropout, true);
    *weights = w;
    cfx_tensor *out = cfx_contiguous(cfx_transpose(cfx_bmm(w, v), 0, 1));
    return cfx_view(out, cfx_list(s->to * s->batch, s->width));
}

static cfx_tensor *attend(cfx_tensor *q, cfx_tensor *k, cfx_tensor *v, cfx_tensor *mask,
                          double dropout, bool causal, const sizes *s) {
    if (mask)
        mask = mask->shape[0] == 1 ? cfx_unsqueeze(mask, 0)
                                   : cfx_view(mask, cfx_list(s->batch, s->heads, -1, s->from));
    q = cfx_view(q, cfx_list(s->batch, s->heads, s->to, s->head));
    k = cfx_view(k, cfx_list(s->batch, s->heads, s->from, s->head));
    v = cfx_view(v, cfx_list(s->batch, s->heads, s->from, s->head));
    cfx_tensor *out = cfx_scaled_dot_product_attention(q, k, v, mask, dropout, cfx_bool(causal));
    out = cfx_contiguous(cfx_permute(out, cfx_list(2, 0, 1, 3)));
    cfx_value rows = cfx_py("operator.mul", s->batch, s->to); /* in that order, if it is recorded */
    return cfx_view(out, cfx_list(rows, s->width));
}

/* Arguments of a call: query, key, value, key_padding_mask, need_weights, attn_mask,
 * average_attn_weights, is_causal; in the order that the work is done in. */
typedef struct {
    cfx_tensor *in[3];       /* [sequence, batch, width] */
    cfx_tensor *mask, *keys; /* what is added to the scores, of places and of keys; NULL: nothing */
    bool alone, batch_first; /* how they were given: without a batch; with that first */
    bool show, mean, causal; /* weights are wanted, their mean over the heads; no mask is needed */
    sizes s;
} attention_call;

static bool read_attention(cfx_module *self, cfx_args a, attention_call *t) {
    if (!inputs_fit(self, a))
        return false;
    *t = (attention_call){.alone = cfx_as_tensor(a.v[0])->ndim == 2,
                          .show = cfx_integer(a.v[4]),
                          .mean = cfx_integer(a.v[6]),
                          .causal = cfx_integer(a.v[7])};
    t->batch_first = cfx__layer_attr_int(self, "batch_first") && !t->alone;
    for (int i = 0; i < 3; i++) {
        bool same = i && cfx_as_tensor(a.v[i]) == cfx_as_tensor(a.v[i - 1]);
        t->in[i] = same             ? t->in[i - 1]
                   : t->alone       ? cfx_unsqueeze(a.v[i], 1)
                   : t->batch_first ? cfx_transpose(a.v[i], 1, 0)
                                    : cfx_as_tensor(a.v[i]);
    }
    t->s = (sizes){.batch = t->in[0]->shape[1], .heads = cfx__layer_attr_int(self, "num_heads")};
    t->s.width = cfx__layer_attr_int(self, "embed_dim");
    t->s.head = t->s.width / t->s.heads;
    t->s.to = t->in[0]->shape[0];
    t->s.from = t->in[1]->shape[0];
    t->keys = mask_to_add(a.v[3], t->in[0], "key_padding_mask");
    t->mask = mask_to_add(a.v[5], t->in[0], "attn_mask");
    if (t->causal && !t->mask)
        cfx_fail(CFX_RUNTIME_ERROR, cfx__site(),
                 "Need attn_mask if specifying the is_causal hint.");
    if (!cfx_ok() || (t->mask && !mask_fits(t->mask, &t->s)))
        return false;
    t->causal = t->causal && !t->keys && !t->show;
    if (t->causal)
        t->mask = NULL;
    if (t->mask && t->mask->ndim == 2)
        t->mask = cfx_unsqueeze(t->mask, 0);
    if (t->alone && t->keys)
        t->keys = cfx_unsqueeze(t->keys, 0);
    return true;
}

/* There is one more key than was given. */
static void add_key(attention_call *t) {
    t->mask = mask_longer(t->mask);
    t->keys = mask_longer(t->keys);
    t->s.from++;
}

static cfx_value forward_attention(cfx_module *self, cfx_args a) {
    attention_call t;
    cfx_tensor *p[3], *weights = NULL;
    if (!read_attention(self, a, &t))
        return cfx_bad();
    project(self, t.in, p);
    if (!cfx_is_none(cfx__layer_attr(self, "bias_k"))) {
        cfx_value times = cfx_list(1, t.s.batch, 1);
        p[1] = cfx_cat(cfx_list(p[1], cfx_repeat(cfx__layer_attr(self, "bias_k"), times)));
        p[2] = cfx_cat(cfx_list(p[2], cfx_repeat(cfx__layer_attr(self, "bias_v"), times)));
        add_key(&t);
    }
    if (!cfx_ok())
        return cfx_bad();
    cfx_tensor *q = by_heads(p[0], &t.s), *k = by_heads(p[1], &t.s), *v = by_heads(p[2], &t.s);
    if (cfx__layer_attr_int(self, "add_zero_attn")) {
        cfx_tensor *zeros = cfx_new_zeros(k, cfx_list(t.s.batch * t.s.heads, 1, t.s.head));
        k = cfx_cat(cfx_list(k, zeros), 1);
        v = cfx_cat(cfx_list(v, zeros), 1);
        add_key(&t);
    }
    cfx_tensor *mask = join_masks(t.mask, t.keys, &t.s);
    double dropout = self->training ? cfx_number(cfx_module_attr(self, "dropout")) : 0;
    cfx_tensor *out = !cfx_ok() ? NULL
                      : t.show  ? attend_seen(q, k, v, mask, dropout, &t.s, &weights)
                                : attend(q, k, v, mask, dropout, t.causal, &t.s);
    if (!out || !cfx_ok())
        return cfx_bad();
    cfx_module *last = cfx_module_find(self, "out_proj");
    out = cfx_linear(out, cfx__layer_attr(last, "weight"), cfx__layer_attr(last, "bias"));
    out = cfx_view(out, cfx_list(t.s.to, t.s.batch, t.s.width));
    if (weights) {
        weights = cfx_view(weights, cfx_list(t.s.batch, t.s.heads, t.s.to, t.s.from));
        weights = t.mean ? cfx_mean(weights, cfx_list(1)) : weights;
        weights = t.alone ? cfx_squeeze(weights, 0) : weights;
    }
    out = t.alone ? cfx_squeeze(out, 1) : t.batch_first ? cfx_transpose(out, 1, 0) : out;
    return cfx_tuple(out, weights);
}

/* ---- layers: make ---------------------------------------------------------------------------- */

static void add(cfx_module *m, const cfx__layer_options *o, const char *name, const char *type,
                cfx_args a, cfx_nn_options options) {
    cfx_nn_add(m, name, cfx_nn_make_from(o->at, type, a, options));
}

static void make_layer(cfx_module *m, const cfx__layer_options *o, bool decoder) {
    static const char *const norms[] = {"norm1", "norm2", "norm3"};
    static const char *const drops[] = {"dropout1", "dropout2", "dropout3"};
    cfx_value width = cfx__layer_option(o, "d_model"), heads = cfx__layer_option(o, "nhead");
    cfx_value inner = cfx__layer_option(o, "dim_feedforward"),
              eps = cfx__layer_option(o, "layer_norm_eps");
    cfx_value p = cfx__layer_option(o, "dropout"), bias = cfx__layer_option(o, "bias");
    const char *word = cfx_text(cfx__layer_option(o, "activation"));
    cfx_nn_options none = {0};
    if (!word || (strcmp(word, "relu") && strcmp(word, "gelu"))) {
        cfx__layer_fail(o, RUNTIME, "activation should be relu/gelu, not %s", word ? word : "None");
        return;
    }
    cfx_value attention[] = {width, heads, cfx_keyword_value("dropout", p),
                             cfx_keyword_value("bias", bias),
                             cfx_keyword_value("batch_first", cfx__layer_option(o, "batch_first"))};
    add(m, o, "self_attn", "MultiheadAttention", (cfx_args){5, attention, NULL}, none);
    if (decoder)
        add(m, o, "multihead_attn", "MultiheadAttention", (cfx_args){5, attention, NULL}, none);
    add(m, o, "linear1", "Linear", CFX_ARGS(width, inner, bias), none);
    add(m, o, "dropout", "Dropout", CFX_ARGS(p), none);
    add(m, o, "linear2", "Linear", CFX_ARGS(inner, width, bias), none);
    for (int i = 0; i < 2 + decoder; i++)
        add(m, o, norms[i], "LayerNorm", CFX_ARGS(width, eps, cfx_bool(true), bias), none);
    for (int i = 0; i < 2 + decoder; i++)
        add(m, o, drops[i], "Dropout", CFX_ARGS(p), none);
    cfx_module_set_attr(m, "bias", bias);
}

static void make_encoder_layer(cfx_module *m, const cfx__layer_options *o) {
    make_layer(m, o, false);
}
static void make_decoder_layer(cfx_module *m, const cfx__layer_options *o) {
    make_layer(m, o, true);
}

/* num_layers copies of a layer, each with numbers of its own. */
static void make_stack(cfx_module *m, const cfx__layer_options *o) {
    cfx_value layer = o->values[0], norm = cfx__layer_option(o, "norm");
    int64_t n = cfx__layer_option_int(o, "num_layers");
    if (layer.tag != CFX_TAG_MODULE) {
        cfx__layer_fail(o, TYPE, "%s: argument '%s' must be Module, not %s", m->type,
                        o->signature->params[0].name, cfx_value_type_name(layer));
        return;
    }
    cfx_module *list = cfx_nn_module_list(0, NULL);
    for (int64_t i = 0; i < n && cfx_ok(); i++)
        cfx_nn_append(list, cfx_module_copy(cfx_as_module(layer)));
    cfx_nn_add(m, "layers", list);
    if (norm.tag == CFX_TAG_MODULE)
        cfx_nn_add(m, "norm", cfx_as_module(norm));
}

/* Matrices as Xavier's rule draws them, in the order of their names. */
static void draw_again(cfx_module *m) {
    cfx_dict *parameters = cfx_module_named_parameters(m);
    for (int64_t i = 0; i < parameters->len && cfx_ok(); i++) {
        cfx_value v = parameters->entries[i].value;
        if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->ndim == 2)
            cfx__tensor_copy(cfx_as_tensor(v), cfx__layer_init_xavier(cfx_as_tensor(v)->shape[0],
                                                                      cfx_as_tensor(v)->shape[1]));
    }
}

/* An encoder and a decoder of layers of one kind, each with a norm at its end. */
static void make_transformer(cfx_module *m, const cfx__layer_options *o) {
    static const char *const names[] = {"d_model",        "nhead",       "dim_feedforward",
                                        "dropout",        "activation",  "layer_norm_eps",
                                        "batch_first",    "norm_first",  "bias"};
    static const struct {
        const char *name, *layer, *type, *count;
    } halves[] = {
        {"encoder", "TransformerEncoderLayer", "TransformerEncoder", "num_encoder_layers"},
        {"decoder", "TransformerDecoderLayer", "TransformerDecoder", "num_decoder_layers"}};
    cfx_nn_options none = {0};
    cfx_value options[COUNT(names)];
    for (int i = 0; i < COUNT(names); i++)
        options[i] = cfx__layer_option(o, names[i]);
    for (int i = 0; i < COUNT(halves) && cfx_ok(); i++) {
        cfx_module *layer = cfx_nn_make_from(o->at, halves[i].layer,
                                             (cfx_args){COUNT(names), options, NULL}, none);
        cfx_module *norm = cfx_nn_make_from(
            o->at, "LayerNorm", CFX_ARGS(options[0], options[5], cfx_bool(true), options[8]), none);
        if (cfx_ok())
            add(m, o, halves[i].name, halves[i].type,
                CFX_ARGS(layer, cfx__layer_option(o, halves[i].count), norm), none);
    }
    draw_again(m);
}

/* ---- layers: forward ------------------------------------------------------------------------- */

static cfx_value call(cfx_module *self, const char *child, cfx_value x) {
    return cfx_call_value_from(cfx__site(), self, child, CFX_ARGS(x));
}

/* Attention from x to `memory`, and its dropout. */
static cfx_value attention(cfx_module *self, const char *child, const char *drop, cfx_value x,
                           cfx_value memory, cfx_value mask, cfx_value keys, cfx_value causal) {
    cfx_value r = cfx_call_value_from(
        cfx__site(), self, child,
        CFX_ARGS(x, memory, memory, keys, cfx_bool(false), mask, cfx_bool(true), causal));
    return cfx_is_bad(r) ? r : call(self, drop, cfx_at(r, 0));
}

static cfx_value feed(cfx_module *self, const char *drop, cfx_value x) {
    bool gelu = cfx__layer_attr_is(self, "activation", "gelu");
    x = call(self, "linear1", x);
    x = gelu ? cfx__layer_torch("torch.nn.functional.gelu", x)
             : cfx__layer_torch("torch.nn.functional.relu", x);
    return call(self, drop, call(self, "linear2", call(self, "dropout", x)));
}

/* src, src_mask, src_key_padding_mask, is_causal */
static cfx_value forward_encoder_layer(cfx_module *self, cfx_args a) {
    cfx_value x = a.v[0], y;
    if (cfx__layer_attr_int(self, "norm_first")) {
        y = call(self, "norm1", x);
        x = cfx__layer_torch(
            "torch.add", x, attention(self, "self_attn", "dropout1", y, y, a.v[1], a.v[2], a.v[3]));
        return cfx__layer_torch("torch.add", x, feed(self, "dropout2", call(self, "norm2", x)));
    }
    y = attention(self, "self_attn", "dropout1", x, x, a.v[1], a.v[2], a.v[3]);
    x = call(self, "norm1", cfx__layer_torch("torch.add", x, y));
    return call(self, "norm2", cfx__layer_torch("torch.add", x, feed(self, "dropout2", x)));
}

/* tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
 * tgt_is_causal, memory_is_causal */
static cfx_value forward_decoder_layer(cfx_module *self, cfx_args a) {
    cfx_value x = a.v[0], memory = a.v[1], y;
    if (cfx__layer_attr_int(self, "norm_first")) {
        y = call(self, "norm1", x);
        y = attention(self, "self_attn", "dropout1", y, y, a.v[2], a.v[4], a.v[6]);
        x = cfx__layer_torch("torch.add", x, y);
        y = call(self, "norm2", x);
        y = attention(self, "multihead_attn", "dropout2", y, memory, a.v[3], a.v[5], a.v[7]);
        x = cfx__layer_torch("torch.add", x, y);
        return cfx__layer_torch("torch.add", x, feed(self, "dropout3", call(self, "norm3", x)));
    }
    y = attention(self, "self_attn", "dropout1", x, x, a.v[2], a.v[4], a.v[6]);
    x = call(self, "norm1", cfx__layer_torch("torch.add", x, y));
    y = attention(self, "multihead_attn", "dropout2", x, memory, a.v[3], a.v[5], a.v[7]);
    x = call(self, "norm2", cfx__layer_torch("torch.add", x, y));
    return call(self, "norm3", cfx__layer_torch("torch.add", x, feed(self, "dropout3", x)));
}

/* The layers one after another, all but the first argument the same for each; then the norm. */
static cfx_value forward_stack(cfx_module *self, cfx_args a) {
    cfx_module *layers = cfx_module_find(self, "layers");
    cfx_value v[8];
    for (int i = 0; i < a.n; i++)
        v[i] = a.v[i];
    if (self->own_->layer->make == make_stack && a.n == 4) /* encoder: is_causal=None */
        v[3] = cfx_is_none(v[3]) ? cfx_bool(false) : v[3];
    else
        v[6] = cfx_is_none(v[6]) ? cfx_bool(false) : v[6];
    for (int i = 0; i < cfx_module_count(layers) && !cfx_is_bad(v[0]); i++)
        v[0] = cfx_forward_value_from(cfx__site(), cfx_module_child(layers, i),
                                      (cfx_args){a.n, v, NULL});
    return cfx_module_find(self, "norm") ? call(self, "norm", v[0]) : v[0];
}

/* src, tgt, src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask,
 * memory_key_padding_mask, src_is_causal, tgt_is_causal, memory_is_causal */
static cfx_value forward_transformer(cfx_module *self, cfx_args a) {
    const cfx_value *v = a.v;
    cfx_value memory = cfx_call_value_from(cfx__site(), self, "encoder",
                                           CFX_ARGS(v[0], v[2], v[5], v[8]));
    if (cfx_is_bad(memory))
        return memory;
    return cfx_call_value_from(cfx__site(), self, "decoder",
                               CFX_ARGS(v[1], memory, v[3], v[4], v[6], v[7], v[9], v[10]));
}

/* ---- the table ------------------------------------------------------------------------------- */

#define LAYER_OPTIONS                                                                              \
    "d_model, nhead, dim_feedforward=2048, dropout=0.1, activation='relu', layer_norm_eps=1e-05, " \
    "batch_first=False, norm_first=False, bias=True"
#define DECODER_INPUTS                                                                             \
    "tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, "                    \
    "memory_key_padding_mask=None, "

const cfx__layer cfx__layers_attention[] = {
    {"activation.MultiheadAttention",
     "embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, "
     "kdim=None, vdim=None, batch_first=False",
     "",
     .inputs = "query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, "
               "average_attn_weights=True, is_causal=False",
     .make = make_attention, .forward = forward_attention},
    {"transformer.TransformerEncoderLayer", LAYER_OPTIONS, "",
     .inputs = "src, src_mask=None, src_key_padding_mask=None, is_causal=False",
     .make = make_encoder_layer, .forward = forward_encoder_layer},
    {"transformer.TransformerDecoderLayer", LAYER_OPTIONS, "",
     .inputs = DECODER_INPUTS "tgt_is_causal=False, memory_is_causal=False",
     .make = make_decoder_layer, .forward = forward_decoder_layer},
    {"transformer.TransformerEncoder", "encoder_layer, num_layers, norm=None", "",
     .inputs = "src, mask=None, src_key_padding_mask=None, is_causal=None", .make = make_stack,
     .forward = forward_stack},
    {"transformer.TransformerDecoder", "decoder_layer, num_layers, norm=None", "",
     .inputs = DECODER_INPUTS "tgt_is_causal=None, memory_is_causal=False", .make = make_stack,
     .forward = forward_stack},
    {"transformer.Transformer",
     "d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, "
     "dropout=0.1, activation='relu', layer_norm_eps=1e-05, batch_first=False, norm_first=False, "
     "bias=True",
     "",
     .inputs = "src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, "
               "src_key_padding_mask=None, tgt_key_padding_mask=None, "
               "memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None, "
               "memory_is_causal=False",
     .make = make_transformer, .forward = forward_transformer},
    {0},
};
