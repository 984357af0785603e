/* Attention and recurrent layers: the kernels equal their decompositions; forms and errors. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>

#include "attention.h"

static cfx_tensor *numbers(int ndim, const int64_t *shape) {
    return cfx_div(test_numbers(CFX_F32, ndim, shape), 6);
}

static cfx_tensor *heads(int64_t b, int64_t h, int64_t n, int64_t d) {
    return numbers(4, (int64_t[]){b, h, n, d});
}

static bool close_to(cfx_value a, cfx_value b) {
    return cfx_integer(cfx_allclose(a, b, 1e-4, 1e-5));
}

/* The same call with composites decomposed. */
static cfx_value apart(const char *name, cfx_args args) {
    FILE *sink = tmpfile();
    cfx_mode log = cfx_dispatch_log(sink);
    cfx_dispatch_mode_push(&log);
    cfx_value v = cfx_fn_call_from(CFX_HERE, cfx_fn_find(name), args);
    cfx_dispatch_mode_pop();
    fclose(sink);
    return v;
}

/* Whether attention equals its parts for these arguments. */
static bool agrees(cfx_args args) {
    const char *name = "scaled_dot_product_attention";
    return close_to(cfx_fn_call_from(CFX_HERE, cfx_fn_find(name), args), apart(name, args));
}

TEST(attention_equals_its_parts) {
    static const int64_t sizes[][5] = {{2, 3, 5, 7, 8},
                                       {1, 2, 70, 70, 16},
                                       {1, 1, 1, 50, 32},
                                       {1, 2, 130, 600, 8},
                                       {1, 1, 1, 1, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CFX_SCOPE
    {
        const int64_t *s = sizes[i];
        cfx_tensor *q = heads(s[0], s[1], s[2], s[4]), *k = heads(s[0], s[1], s[3], s[4]);
        cfx_tensor *mask = heads(s[0], 1, s[2], s[3]), *seen = cfx_gt(mask, -0.3);
        CHECK(agrees(CFX_ARGS(q, k, k)));
        CHECK(agrees(CFX_ARGS(q, k, k, mask)));
        CHECK(agrees(CFX_ARGS(q, k, k, seen)));
        CHECK(agrees(CFX_ARGS(q, k, k, cfx_none(), 0.0, cfx_bool(true))));
        CHECK(agrees(CFX_ARGS(q, k, k, cfx_none(), 0.0, cfx_bool(false), CFX_KW(scale, -0.3))));
    }
    CHECK_OK();
}

/* Rows that follow each other more closely than they are long. */
/* A row that a mask hides is 0; one that is no number is none, however many keys there are. */
TEST(attention_of_nan_is_nan) {
    for (int keys = 1; keys < 700; keys += 299) {
        cfx_tensor *q = cfx_ones(cfx_list(1, 1, 3, 4)), *k = cfx_randn(1, 1, keys, 4);
        cfx_tensor *mask = cfx_zeros(cfx_list(3, keys));
        cfx_fill_(cfx_select(cfx_select(q, 2, 1), -1, 2), NAN);
        cfx_fill_(cfx_select(mask, 0, 2), -INFINITY);
        cfx_tensor *y = cfx_scaled_dot_product_attention(q, k, k, mask);
        CHECK(isfinite(cfx_tensor_get(y, 0)));
        CHECK(isnan(cfx_tensor_get(y, 4)) && isnan(cfx_tensor_get(y, 7)));
        CHECK_NEAR(cfx_tensor_get(y, 8), 0, 0);
    }
}

TEST(attention_of_a_query_that_overlaps_itself) {
    cfx_tensor *k = heads(1, 2, 5, 8), *x = numbers(1, (int64_t[]){64});
    cfx_tensor *q = cfx_as_strided(x, cfx_list(1, 2, 4, 8), cfx_list(64, 16, 1, 1));
    cfx_tensor *y = cfx_scaled_dot_product_attention(q, k, k);
    CHECK(close_to(CFX_V(y), CFX_V(cfx_scaled_dot_product_attention(cfx_contiguous(q), k, k))));
    CHECK_OK();
}

TEST(attention_forms) {
    cfx_tensor *q = heads(2, 4, 5, 8), *k = heads(2, 2, 7, 8),
               *wide = cfx_repeat_interleave(k, 2, 1);
    cfx_tensor *y = cfx_scaled_dot_product_attention(q, k, k, CFX_KW(enable_gqa, cfx_bool(true)));
    CHECK(close_to(CFX_V(y), CFX_V(cfx_scaled_dot_product_attention(q, wide, wide))));
    CHECK_INT(cfx_tensor_stride(y)[1], 40);
    cfx_tensor *rows = cfx_transpose(heads(2, 5, 4, 8), 1, 2); /* the heads of a row together */
    y = cfx_scaled_dot_product_attention(rows, wide, wide);
    CHECK_INT(cfx_tensor_stride(y)[1], 8); /* laid out as the query is */
    /* a row that sees nothing gives nothing */
    cfx_tensor *never = cfx_zeros(cfx_list(5, 7), CFX_KW(dtype, cfx_b8));
    y = cfx_scaled_dot_product_attention(q, wide, wide, never);
    CHECK_NEAR(cfx_tensor_get(cfx_sum(cfx_abs(y)), 0), 0, 0);
    cfx_tensor *flat = numbers(2, (int64_t[]){5, 8});
    CHECK_INT(cfx_tensor_ndim(cfx_scaled_dot_product_attention(flat, flat, flat)), 2);
    CHECK_OK();
    cfx_scaled_dot_product_attention(q, wide, cfx_to(wide, cfx_f64));
    CHECK_ERROR("Expected query, key, and value to have the same dtype");
    cfx_scaled_dot_product_attention(q, wide, wide, never, 0.0, cfx_bool(true));
    CHECK_ERROR("Explicit attn_mask should not be set when is_causal=True");
}

/* Heads that share keys and values are computed together where they have one row each, whatever
 * lies where: as if keys and values were repeated for each. */
TEST(attention_of_one_row_and_shared_heads) {
    for (int64_t size = 1; size < 150; size += 23)
        for (int64_t keys = 1; keys < 310; keys = keys * 2 + 3)
            CFX_SCOPE
        {
            cfx_tensor *q = cfx_transpose(heads(2, 1, 6, size), 1, 2);
            cfx_tensor *k = heads(2, 2, keys, size), *wide = cfx_repeat_interleave(k, 3, 1);
            cfx_tensor *mask = heads(2, 6, 1, keys), *seen = cfx_gt(heads(2, 1, 1, keys), -0.3);
            cfx_tensor *const masks[] = {NULL, mask, seen};
            for (int i = 0; i < COUNT(masks); i++) {
                const cfx_value m = masks[i] ? CFX_V(masks[i]) : cfx_none();
                cfx_tensor *y = cfx_scaled_dot_product_attention(
                    q, k, k, m, CFX_KW(enable_gqa, cfx_bool(true)));
                CHECK(close_to(CFX_V(y), apart("scaled_dot_product_attention",
                                               CFX_ARGS(q, wide, wide, m))));
            }
        }
    CHECK_OK();
}

/* ---- the kernel ------------------------------------------------------------------------------ */

typedef struct {
    int64_t batch, heads, shared, rows, keys, size;
    bool causal;
} form;

/* One number of the result, summed by hand. */
static double by_hand(const flash *f, int64_t batch, int64_t head, int64_t row, int64_t at) {
    const float *q = f->q + batch * f->qs[0] + head * f->qs[1] + row * f->qs[2];
    const float *k = f->k + batch * f->ks[0] + head / f->shared * f->ks[1];
    const float *v = f->v + batch * f->vs[0] + head / f->shared * f->vs[1];
    double sum = 0, all = 0;
    for (int64_t j = 0; j < (f->causal && row < f->keys ? row + 1 : f->keys); j++) {
        double score = 0;
        for (int64_t d = 0; d < f->size; d++)
            score += (double)q[d] * k[j * f->ks[2] + d];
        const double weight = exp(score * f->scale);
        sum += weight * v[j * f->vs[2] + at];
        all += weight;
    }
    return sum / all;
}

/* The largest difference of the kernel to sums by hand; heads of a row lie together. */
static double flash_error(const form *s, bf16_way way) {
    const int64_t kv = s->heads / s->shared, wide = s->heads * s->size, narrow = kv * s->size;
    cfx_tensor *q = cfx_randn(s->batch, s->rows, wide), *k = cfx_randn(s->batch, s->keys, narrow);
    cfx_tensor *v = cfx_randn(s->batch, s->keys, narrow), *y = cfx_randn(s->batch, s->rows, wide);
    const flash f = {.batch = s->batch, .heads = s->heads, .shared = s->shared, .rows = s->rows,
                     .keys = s->keys, .size = s->size, .causal = s->causal,
                     .q = (const float *)cfx_tensor_data(q), .k = (const float *)cfx_tensor_data(k),
                     .v = (const float *)cfx_tensor_data(v), .out = (float *)cfx_tensor_data(y),
                     .scale = 1 / sqrtf((float)s->size),
                     .qs = {s->rows * wide, s->size, wide}, .os = {s->rows * wide, s->size, wide},
                     .ks = {s->keys * narrow, s->size, narrow},
                     .vs = {s->keys * narrow, s->size, narrow}};
    flash_run(&f, way);
    double most = 0;
    for (int64_t i = 0; i < s->batch * s->rows * wide; i += 7) {
        const int64_t b = i / wide / s->rows, row = i / wide % s->rows, at = i % wide;
        const double want = by_hand(&f, b, at / s->size, row, at % s->size);
        most = fmax(most, fabs(want - f.out[i]));
    }
    return most;
}

TEST(attention_is_the_same_by_every_kind_of_instructions) {
    const form forms[] = {{1, 2, 1, 5, 7, 8, false},     {2, 4, 2, 33, 70, 40, false},
                          {1, 3, 3, 130, 130, 64, true}, {1, 2, 1, 64, 600, 32, false},
                          {1, 1, 1, 1, 300, 64, true},   {1, 2, 2, 29, 20, 72, true},
                          {2, 6, 3, 1, 300, 100, false}, {1, 4, 1, 3, 17, 24, false}};
    cfx_manual_seed(4);
    for (bf16_way way = BF16_NONE; way < BF16_WAYS && bf16_has(way); way++)
        for (int i = 0; i < COUNT(forms); i++)
            CFX_SCOPE
        {
            cfx_set_num_threads(1 + i % 3);
            CHECK(flash_error(&forms[i], way) < (way == BF16_NONE ? 1e-5 : 0.03));
        }
    CHECK_OK();
}

/* Parameters of one layer and direction. */
static void add_params(cfx_value list, int64_t gates, int64_t in, int64_t size) {
    const int64_t wide = gates * size;
    cfx_list_append(cfx_as_list(list), CFX_V(cfx_mul(numbers(2, (int64_t[]){wide, in}), 0.5)));
    cfx_list_append(cfx_as_list(list), CFX_V(cfx_mul(numbers(2, (int64_t[]){wide, size}), 0.3)));
    cfx_list_append(cfx_as_list(list), CFX_V(numbers(1, &wide)));
    cfx_list_append(cfx_as_list(list), CFX_V(numbers(1, &wide)));
}

TEST(recurrent_layers_equal_their_parts) {
    static const struct {
        const char *name;
        int64_t gates;
    } kinds[] = {{"lstm", 4}, {"gru", 3}, {"rnn_tanh", 1}, {"rnn_relu", 1}};
    for (int i = 0; i < 4; i++)
        CFX_SCOPE
    {
        const int64_t size = 5, in = 3, batch = 2, layers = 2;
        cfx_value params = cfx_list_value(0, NULL);
        for (int k = 0; k < layers * 2; k++)
            add_params(params, kinds[i].gates, k < 2 ? in : 2 * size, size);
        cfx_tensor *x = numbers(3, (int64_t[]){batch, 4, in});
        cfx_tensor *h = numbers(3, (int64_t[]){layers * 2, batch, size});
        cfx_value hx = i == 0 ? cfx_list(h, h) : CFX_V(h);
        cfx_args args = CFX_ARGS(x, hx, params, cfx_bool(true), layers, 0.0, cfx_bool(false),
                                 cfx_bool(true), cfx_bool(true));
        cfx_value whole = cfx_fn_call_from(CFX_HERE, cfx_fn_find(kinds[i].name), args);
        cfx_value parts = apart(kinds[i].name, args);
        for (int k = 0; k < (i == 0 ? 3 : 2); k++)
            CHECK(close_to(cfx_at(whole, k), cfx_at(parts, k)));
    }
    CHECK_OK();
    cfx_tensor *x = numbers(3, (int64_t[]){4, 2, 3});
    cfx_lstm(x, cfx_list(x), cfx_list(x), cfx_bool(true), 1, 0.0, cfx_bool(false), cfx_bool(false),
             cfx_bool(false));
    CHECK_ERROR("lstm expects two hidden states");
}
