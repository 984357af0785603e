/* Programs whose sizes vary, of several statements: attention, loops, sizes as values, sizes that
 * depend on data, layers. */
#include "dynamic_test.h"

#include <math.h>
#include <string.h>

#include "run.h"

/* The inputs are x, y and z. */
#define FORWARD(name)                                                                              \
    static cfx_value name##_of(cfx_module *self, cfx_tensor *x, cfx_tensor *y, cfx_tensor *z);     \
    static cfx_value name##_forward(cfx_module *self, cfx_args a) {                                \
        return name##_of(self, cfx_as_tensor(a.v[0]), a.n > 1 ? cfx_as_tensor(a.v[1]) : NULL,      \
                         a.n > 2 ? cfx_as_tensor(a.v[2]) : NULL);                                  \
    }                                                                                              \
    static cfx_value name##_of(cfx_module *self, cfx_tensor *x, cfx_tensor *y, cfx_tensor *z)
#define UNUSED (void)self, (void)x, (void)y, (void)z
#define GIVE(t) return UNUSED, CFX_V(t)

static cfx_tensor *arange(int64_t n) { return cfx_arange(n); }

/* ---- attention ------------------------------------------------------------------------------- */

FORWARD(attn_alibi) {
    int64_t t = N(x, 1);
    cfx_tensor *row = cfx_unsqueeze(arange(t), 0), *column = cfx_unsqueeze(ALL(arange(t)), 1);
    cfx_tensor *d = cfx_sub(row, column), *s = cfx_matmul(x, cfx_transpose(x, 1, 2));
    GIVE(cfx_add(s, cfx_mul(cfx_abs(d), -0.5)));
}
FORWARD(attn_causal_manual) {
    int64_t t = N(x, 1);
    cfx_tensor *m = cfx_tril(cfx_ones(t, t, CFX_KW(dtype, cfx_b8)));
    cfx_tensor *s = cfx_matmul(x, cfx_transpose(x, 1, 2));
    s = cfx_masked_fill(s, cfx_bitwise_not(m), -INFINITY);
    GIVE(cfx_matmul(cfx_softmax(s, -1), x));
}
FORWARD(attn_full) {
    int64_t b = N(x, 0), t = N(x, 1);
    cfx_value parts = cfx_split(CALL("qkv", x), 8, -1);
    cfx_tensor *q[3];
    for (int i = 0; i < 3; i++)
        q[i] = cfx_transpose(cfx_view(AT(parts, i), L(b, t, 2, 4)), 1, 2);
    y = cfx_scaled_dot_product_attention(q[0], q[1], q[2], CFX_KW(is_causal, true));
    GIVE(CALL("o", cfx_reshape(cfx_transpose(y, 1, 2), L(b, t, 8))));
}
FORWARD(attn_gqa) {
    int64_t b = N(x, 0), t = N(x, 1);
    cfx_tensor *k = cfx_transpose(cfx_view(CALL("k", x), L(b, t, 1, 4)), 1, 2);
    cfx_tensor *q = cfx_transpose(cfx_view(CALL("q", x), L(b, t, 2, 4)), 1, 2);
    k = cfx_expand(cfx_unsqueeze(ALL(k), 2), L(b, 1, 2, t, 4));
    k = cfx_reshape(k, L(b, 2, t, 4));
    GIVE(cfx_softmax(cfx_matmul(q, cfx_transpose(k, 2, 3)), -1));
}
FORWARD(attn_kv_cache) {
    cfx_tensor *k = cfx_cat(L(y, x), 2);
    UNUSED;
    return cfx_tuple(cfx_scaled_dot_product_attention(x, k, k), k);
}
FORWARD(attn_manual) {
    cfx_tensor *s = cfx_matmul(x, cfx_transpose(x, -1, -2));
    s = cfx_div(s, sqrt((double)N(x, -1)));
    GIVE(cfx_matmul(cfx_softmax(s, -1), x));
}
FORWARD(attn_rope) {
    cfx_tensor *t = cfx_unsqueeze(ALL(arange(N(x, 1))), 1);
    t = cfx_mul(t, cfx_unsqueeze(P("f"), 0));
    cfx_tensor *c = cfx_cos(t), *s = cfx_sin(t);
    cfx_value half = cfx_chunk(x, 2, -1);
    cfx_tensor *one = AT(half, 0), *two = AT(half, 1);
    cfx_tensor *xc = cfx_mul(one, c), *ys = cfx_mul(two, s), *up = cfx_sub(xc, ys);
    cfx_tensor *yc = cfx_mul(two, c), *xs = cfx_mul(one, s);
    GIVE(cfx_cat(L(up, cfx_add(yc, xs)), -1));
}
FORWARD(attn_sdpa_causal) {
    GIVE(cfx_scaled_dot_product_attention(x, x, x, CFX_KW(is_causal, true)));
}
FORWARD(attn_sdpa_mask) {
    GIVE(cfx_scaled_dot_product_attention(x, x, x, CFX_KW(attn_mask, y)));
}
FORWARD(pos_sin) {
    cfx_tensor *t = cfx_arange(N(x, 1), CFX_KW(dtype, cfx_f32));
    t = cfx_mul(cfx_unsqueeze(ALL(t), 1), P("f"));
    cfx_tensor *s = cfx_sin(t), *c = cfx_cos(t);
    GIVE(cfx_add(x, cfx_cat(L(s, c), -1)));
}
static void furnish_attention(cfx_module *m, const char *name) {
    if (!strcmp(name, "attn_full")) {
        cfx_nn_add(m, "qkv", cfx_nn_linear(8, 24));
        cfx_nn_add(m, "o", cfx_nn_linear(8, 8));
    } else if (!strcmp(name, "attn_gqa")) {
        cfx_nn_add(m, "q", cfx_nn_linear(8, 8));
        cfx_nn_add(m, "k", cfx_nn_linear(8, 4));
    } else {
        cfx_nn_parameter(m, "f", cfx_rand(4));
    }
}

/* ---- sizes that depend on data --------------------------------------------------------------- */

FORWARD(data_cat_mask) {
    cfx_tensor *more = cfx_index(x, L(cfx_gt(x, 0)));
    GIVE(cfx_cat(L(more, cfx_index(x, L(cfx_le(x, 0))))));
}
FORWARD(data_gnn) {
    cfx_tensor *from = cfx_select(y, 0, 0), *to = cfx_select(y, 0, 1);
    cfx_tensor *sum = cfx_zeros_like(x);
    GIVE(CALL("l", cfx_index_add_(sum, 0, to, cfx_index(x, L(from)))));
}
FORWARD(data_mask_linear) { GIVE(CALL("l", cfx_index(x, L(cfx_gt(y, 1))))); }
FORWARD(data_mask_rows) { GIVE(cfx_mul(cfx_index(x, L(cfx_gt(y, 2))), 2)); }
FORWARD(data_moe) {
    cfx_tensor *h = cfx_zeros_like(x), *w = cfx_argmax(cfx_matmul(x, P("g")), -1);
    for (int e = 0; e < 2; e++) {
        cfx_tensor *i = cfx_squeeze(cfx_nonzero(cfx_eq(w, e)), -1);
        h = cfx_index_add_(h, 0, i, cfx_call(self, e ? "ws.1" : "ws.0", cfx_index(x, L(i))));
    }
    GIVE(h);
}
FORWARD(data_moe_where) {
    cfx_tensor *h = cfx_zeros_like(x), *w = cfx_softmax(cfx_matmul(x, P("g")), -1);
    cfx_value best = cfx_topk(w, 1, -1);
    cfx_tensor *v = AT(best, 0), *m = cfx_permute(cfx_one_hot(AT(best, 1), 2), L(2, 1, 0));
    for (int e = 0; e < 2; e++) {
        cfx_value at = cfx_where_default(cfx_select(m, 0, e));
        cfx_tensor *a = AT(at, 0), *b = AT(at, 1);
        cfx_tensor *out = cfx_call(self, e ? "ws.1" : "ws.0", cfx_index(x, L(b)));
        cfx_tensor *by = cfx_index(cfx_unsqueeze(v, 2), L(b, a));
        h = cfx_index_add_(h, 0, b, cfx_mul(out, by));
    }
    GIVE(h);
}
FORWARD(data_nonzero_size) {
    cfx_tensor *n = cfx_nonzero(cfx_gt(x, 0));
    GIVE(cfx_add(cfx_zeros(1), cfx_size(n, 0)));
}
FORWARD(data_scatter) {
    cfx_tensor *to = cfx_zeros(N(x, 0), 5);
    GIVE(cfx_scatter_add(to, 1, y, x));
}
static void furnish_data(cfx_module *m, const char *name) {
    if (!strncmp(name, "data_moe", 8)) {
        cfx_nn_parameter(m, "g", cfx_randn(4, 2));
        cfx_nn_add(m, "ws", cfx_nn_module_list(2, (cfx_module *[]){cfx_nn_linear(4, 4),
                                                                  cfx_nn_linear(4, 4)}));
    } else {
        cfx_nn_add(m, "l", cfx_nn_linear(4, !strcmp(name, "data_gnn") ? 2 : 3));
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

FORWARD(conv2d_four) {
    static const char *const names[] = {"cs.0", "cs.1", "cs.2", "cs.3"};
    for (int i = 0; i < 4; i++)
        x = cfx_relu(cfx_call(self, names[i], x));
    GIVE(x);
}
FORWARD(loop_double) {
    for (int i = 0; i < 3; i++)
        x = cfx_cat(L(x, cfx_add(x, 1)));
    GIVE(x);
}
FORWARD(loop_pool) {
    for (int i = 0; i < 3; i++)
        x = cfx_avg_pool1d(x, L(2));
    GIVE(x);
}
FORWARD(loop_rnn) {
    cfx_tensor *h = cfx_new_zeros(x, L(N(x, 0), 3));
    for (int i = 0; i < 4; i++)
        h = cfx_tanh(CALL("l", cfx_cat(L(cfx_select(ALL(x), 1, i), h), 1)));
    GIVE(h);
}
FORWARD(loop_shift) {
    for (int i = 0; i < 3; i++) {
        cfx_tensor *next = cfx_slice(x, 0, 1, END);
        x = cfx_add(next, cfx_slice(x, 0, 0, -1));
    }
    GIVE(x);
}
static void furnish_loops(cfx_module *m, const char *name) {
    cfx_module *c[4];
    if (!strcmp(name, "loop_rnn")) {
        cfx_nn_add(m, "l", cfx_nn_linear(5, 3));
        return;
    }
    for (int i = 0; i < 4; i++)
        c[i] = cfx_nn_conv2d(i ? 2 : 1, 2, 3, .stride = 2, .padding = 1);
    cfx_nn_add(m, "cs", cfx_nn_module_list(4, c));
}

/* ---- layers ---------------------------------------------------------------------------------- */

FORWARD(embed) {
    cfx_tensor *e = CALL("e", x);
    GIVE(cfx_add(e, CALL("p", arange(N(x, 1)))));
}
FORWARD(gram) {
    cfx_tensor *f = cfx_flatten(x, 2), *all = cfx_matmul(f, cfx_transpose(f, 1, 2));
    cfx_value size = cfx_py("operator.mul", N(x, 1), N(x, 2)); /* the order can be said */
    GIVE(cfx_div(all, cfx_py("operator.mul", size, N(x, 3))));
}
FORWARD(patch_embed_batch) {
    cfx_tensor *p = cfx_transpose(cfx_flatten(CALL("c", x), 2), 1, 2);
    cfx_tensor *t = cfx_expand(P("t"), L(N(x, 0), -1, -1));
    GIVE(cfx_add(cfx_cat(L(t, p), 1), P("pos")));
}
FORWARD(resblock) {
    cfx_tensor *h = cfx_relu(CALL("b1", CALL("c1", x)));
    h = CALL("b2", CALL("c2", h));
    GIVE(cfx_relu(cfx_add(h, CALL("s", x))));
}
FORWARD(gru_b) { GIVE(cfx_at(cfx_call_value(self, "l", x), 0)); }
FORWARD(attn_mha) {
    GIVE(cfx_at(cfx_call_value(self, "a", x, x, x, CFX_KW(need_weights, false)), 0));
}
static void furnish_layers(cfx_module *m, const char *name) {
    if (!strcmp(name, "embed")) {
        cfx_nn_add(m, "e", cfx_nn_embedding(10, 4));
        cfx_nn_add(m, "p", cfx_nn_embedding(32, 4));
    }
    if (!strcmp(name, "gru_b"))
        cfx_nn_add(m, "l", cfx_nn_gru(4, 3));
    if (!strcmp(name, "attn_mha"))
        cfx_nn_add(m, "a", cfx_nn_multihead_attention(8, 2, .batch_first = true));
    if (!strcmp(name, "patch_embed_batch")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 8, 16, .stride = 16));
        cfx_nn_parameter(m, "t", cfx_randn(1, 1, 8));
        cfx_nn_parameter(m, "pos", cfx_randn(1, 5, 8));
    }
    if (!strcmp(name, "resblock")) {
        cfx_nn_add(m, "c1", cfx_nn_conv2d(3, 4, 3, .stride = 2, .padding = 1));
        cfx_nn_add(m, "b1", cfx_nn_batch_norm2d(4));
        cfx_nn_add(m, "c2", cfx_nn_conv2d(4, 4, 3, .padding = 1));
        cfx_nn_add(m, "b2", cfx_nn_batch_norm2d(4));
        cfx_nn_add(m, "s", cfx_nn_conv2d(3, 4, 1, .stride = 2));
    }
}

/* ---- parts, views and values ----------------------------------------------------------------- */

FORWARD(part_assign_add) {
    cfx_tensor *c = cfx_clone(x), *to = cfx_slice(ALL(c), 1, 0, 2);
    to = cfx_add_(to, cfx_slice(ALL(x), 1, 2, 4));
    cfx_copy_(cfx_slice(ALL(c), 1, 0, 2), to);
    GIVE(c);
}
FORWARD(part_chunk2) {
    cfx_value half = cfx_chunk(x, 2, 1);
    GIVE(cfx_mul(AT(half, 0), cfx_sigmoid(AT(half, 1))));
}
FORWARD(part_chunk_dyn2) {
    cfx_value half = cfx_chunk(x, 2, 0);
    GIVE(cfx_add(AT(half, 0), AT(half, 1)));
}
FORWARD(part_diff) {
    cfx_tensor *next = cfx_slice(ALL(x), 1, 1, END);
    GIVE(cfx_sub(next, cfx_slice(ALL(x), 1, 0, -1)));
}
FORWARD(part_rot_half) {
    cfx_tensor *a = cfx_slice(x, 2, 0, N(x, -1) / 2), *b = cfx_slice(x, 2, N(x, -1) / 2, END);
    GIVE(cfx_cat(L(cfx_neg(b), a), -1));
}
FORWARD(part_split3) {
    cfx_value p = cfx_split(x, 4, -1);
    GIVE(cfx_add(AT(p, 0), cfx_mul(AT(p, 1), AT(p, 2))));
}
FORWARD(part_split_dyn) {
    cfx_value p = cfx_split(x, N(x, 0) / 2);
    GIVE(cfx_add(AT(p, 0), AT(p, 1)));
}
FORWARD(part_split_sizes) {
    cfx_value p = cfx_split_with_sizes(x, L(2, 3), 1);
    cfx_tensor *a = cfx_sum(AT(p, 0), L(1));
    GIVE(cfx_add(a, cfx_sum(AT(p, 1), L(1))));
}
FORWARD(part_unbind) {
    cfx_value p = cfx_unbind(x, 1);
    GIVE(cfx_matmul(AT(p, 0), cfx_t(AT(p, 1))));
}
FORWARD(meshgrid) {
    cfx_value g = cfx_meshgrid(L(x, y), CFX_KW(indexing, "ij"));
    GIVE(cfx_add(AT(g, 0), AT(g, 1)));
}
FORWARD(sym_plus1b) {
    cfx_tensor *all = cfx_cat(L(x, y));
    UNUSED;
    return cfx_tuple(all, cfx_mul(cfx_slice(x, 0, 0, -1), y));
}
FORWARD(sym_names) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", CFX_V(cfx_add(x, cfx_select(y, 0, 0))));
    cfx_dict_set(d, "b", CFX_V(y));
    UNUSED;
    return cfx_dict_value(d);
}
FORWARD(sym_three) {
    cfx_tensor *one = cfx_unsqueeze(cfx_slice(ALL(x), 1, 0, END), 2);
    cfx_tensor *two = cfx_unsqueeze(ALL(y), 1);
    GIVE(cfx_add(cfx_mul(one, two), z));
}
FORWARD(sym_times2) {
    cfx_tensor *pairs = cfx_view(x, L(-1, 2));
    GIVE(cfx_add(pairs, cfx_unsqueeze(ALL(y), 1)));
}
FORWARD(tuple_out) {
    cfx_tensor *a = cfx_add(x, 1);
    UNUSED;
    return cfx_tuple(a, cfx_tuple(cfx_mul(x, 2), N(x, 0)));
}
FORWARD(val_lengths) {
    cfx_tensor *t = cfx_unsqueeze(arange(N(x, 1)), 0);
    cfx_tensor *inside = cfx_lt(t, cfx_unsqueeze(ALL(y), 1));
    GIVE(cfx_mul(cfx_to(inside, cfx_f32), x));
}
FORWARD(val_out) {
    cfx_tensor *more = cfx_add(x, 1);
    UNUSED;
    return cfx_tuple(more, N(x, 0), N(x, 0) * 2 + N(x, 1));
}
FORWARD(val_sum_sizes) {
    cfx_tensor *zeros = cfx_zeros(N(x, 0) + N(y, 0));
    zeros = cfx_add(zeros, cfx_sum(x));
    GIVE(cfx_add(zeros, cfx_sum(y)));
}
FORWARD(val_var) {
    cfx_tensor *v = cfx_var(x, L(0));
    UNUSED;
    return cfx_tuple(v, cfx_std(x, L(1)));
}
FORWARD(view_channel_shuffle) {
    int64_t b = N(x, 0), h = N(x, 2), w = N(x, 3);
    cfx_tensor *v = cfx_transpose(cfx_view(x, L(b, 2, 2, h, w)), 1, 2);
    GIVE(cfx_reshape(v, L(b, 4, h, w)));
}
FORWARD(view_expand_b) {
    cfx_tensor *q = cfx_expand(P("q"), L(N(x, 0), 2, 4));
    GIVE(cfx_add(q, cfx_unsqueeze(ALL(x), 1)));
}
FORWARD(view_windows) {
    cfx_tensor *v = cfx_view(x, L(N(x, 0), N(x, 1) / 2, 2, N(x, 2) / 2, 2, 3));
    GIVE(cfx_reshape(cfx_permute(v, L(0, 1, 3, 2, 4, 5)), L(-1, 4, 3)));
}
static void furnish_parts(cfx_module *m, const char *name) {
    bool views = !strncmp(name, "view_", 5);
    cfx_nn_parameter(m, views ? "q" : "e", views ? cfx_randn(1, 2, 4) : cfx_randn(2, 3));
    cfx_nn_parameter(m, views ? "w" : "pos", views ? cfx_randn(4, 5) : cfx_randn(64, 4));
}

#define ROW(name, furnish) {#name, name##_forward, furnish}
const dynamic_program cfx__dynamic_models[] = {
    ROW(attn_alibi, NULL),
    ROW(attn_causal_manual, NULL),
    ROW(attn_full, furnish_attention),
    ROW(attn_gqa, furnish_attention),
    ROW(attn_kv_cache, NULL),
    ROW(attn_manual, NULL),
    ROW(attn_rope, furnish_attention),
    ROW(attn_sdpa_causal, NULL),
    ROW(attn_sdpa_mask, NULL),
    ROW(pos_sin, furnish_attention),
    ROW(data_cat_mask, NULL),
    ROW(data_gnn, furnish_data),
    ROW(data_mask_linear, furnish_data),
    ROW(data_mask_rows, NULL),
    ROW(data_moe, furnish_data),
    ROW(data_moe_where, furnish_data),
    ROW(data_nonzero_size, NULL),
    ROW(data_scatter, NULL),
    ROW(conv2d_four, furnish_loops),
    ROW(loop_double, NULL),
    ROW(loop_pool, NULL),
    ROW(loop_rnn, furnish_loops),
    ROW(loop_shift, NULL),
    ROW(embed, furnish_layers),
    ROW(gram, NULL),
    ROW(patch_embed_batch, furnish_layers),
    ROW(resblock, furnish_layers),
    ROW(gru_b, furnish_layers),
    ROW(attn_mha, furnish_layers),
    ROW(part_assign_add, furnish_parts),
    ROW(part_chunk2, furnish_parts),
    ROW(part_chunk_dyn2, NULL),
    ROW(part_diff, furnish_parts),
    ROW(part_rot_half, furnish_parts),
    ROW(part_split3, furnish_parts),
    ROW(part_split_dyn, NULL),
    ROW(part_split_sizes, furnish_parts),
    ROW(part_unbind, furnish_parts),
    ROW(meshgrid, NULL),
    ROW(sym_plus1b, NULL),
    ROW(sym_names, NULL),
    ROW(sym_three, NULL),
    ROW(sym_times2, NULL),
    ROW(tuple_out, NULL),
    ROW(val_lengths, NULL),
    ROW(val_out, NULL),
    ROW(val_sum_sizes, NULL),
    ROW(val_var, NULL),
    ROW(view_channel_shuffle, furnish_parts),
    ROW(view_expand_b, furnish_parts),
    ROW(view_windows, furnish_parts),
    {NULL, NULL, NULL},
};
