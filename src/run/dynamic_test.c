/* Programs whose sizes vary, written in C and exported: each is PyTorch's program of the same model
 * (tests/data/dynamic.txt: code, sizes of every result, ranges, code in Core ATen), up to the
 * numbers of names, and computes at five sizes what the module does. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/rewrite.h>

#include <ctype.h>
#include <inttypes.h>

#include "run.h"
#include "test.h"

/* ---- programs -------------------------------------------------------------------------------- */

#define END INT64_MAX
#define L(...) cfx_list(__VA_ARGS__)
#define N(t, i) cfx_dim(t, i)
#define CALL(name, ...) cfx_call(self, name, __VA_ARGS__)
#define AT(list, i) cfx_tensor_at(list, i)
#define P(name) cfx_attr(self, name)

#define FORWARDS(F)                                                                                \
    F(conv2d_batch, CALL("c", x))                                                                  \
    F(conv2d_k3s1p1d1, CALL("c", x))                                                               \
    F(conv2d_k3s2p1d1, CALL("c", x))                                                               \
    F(conv2d_k7s2p3d1, CALL("c", x))                                                               \
    F(conv2d_k5s3p0d1, CALL("c", x))                                                               \
    F(conv2d_k3s1p2d2, CALL("c", x))                                                               \
    F(conv2d_k4s4p0d1, CALL("c", x))                                                               \
    F(conv2d_k1s2p0d1, CALL("c", x))                                                               \
    F(conv2d_k3s2p0d2, CALL("c", x))                                                               \
    F(conv2d_two, CALL("d", cfx_relu(CALL("c", x))))                                               \
    F(conv1d_k3s1p1d1, CALL("c", x))                                                               \
    F(conv1d_k5s2p2d1, CALL("c", x))                                                               \
    F(conv1d_k3s1p0d4, CALL("c", x))                                                               \
    F(conv1d_k8s4p2d1, CALL("c", x))                                                               \
    F(conv1d_causal, CALL("c", cfx_pad(x, L(4, 0))))                                               \
    F(convt2d_k2s2p0o0, CALL("c", x))                                                              \
    F(convt2d_k3s2p1o1, CALL("c", x))                                                              \
    F(convt2d_k4s2p1o0, CALL("c", x))                                                              \
    F(convt2d_k3s1p0o0, CALL("c", x))                                                              \
    F(convt1d, CALL("c", x))                                                                       \
    F(autoencoder, cfx_sigmoid(CALL("d", cfx_relu(CALL("e", x)))))                                 \
    F(conv_bn_relu, cfx_relu(CALL("b", CALL("c", x))))                                             \
    F(patch_embed, cfx_transpose(cfx_flatten(CALL("c", x), 2), 1, 2))                              \
    F(pool_adaptive_1, cfx_adaptive_avg_pool2d(x, L(1, 1)))                                        \
    F(pool_mean23, cfx_mean(x, L(2, 3)))                                                           \
    F(pool_mean_keep, cfx_mean(x, L(2, 3), true))                                                  \
    F(pool_avg2d_3s1p1, cfx_avg_pool2d(x, L(3, 3), L(1, 1), L(1, 1)))                              \
    F(pixel_shuffle, cfx_pixel_shuffle(x, 2))                                                      \
    F(unfold_dim, cfx_unfold(x, 1, 4, 2))                                                          \
    F(pad_const, cfx_pad(x, L(2, 1, 3, 0), "constant", 1.0))                                       \
    F(view_flatten1, cfx_flatten(x, 1))                                                            \
    F(view_flatten0, cfx_flatten(x))                                                               \
    F(view_flatten_hw, cfx_flatten(x, 2))                                                          \
    F(view_flatten01, cfx_flatten(x, 0, 1))                                                        \
    F(view_view_m1, cfx_view(x, L(N(x, 0), -1)))                                                   \
    F(view_view_heads, cfx_transpose(cfx_view(x, L(N(x, 0), N(x, 1), 2, 4)), 1, 2))                \
    F(view_reshape_m1, cfx_reshape(x, L(-1, 6)))                                                   \
    F(view_reshape_bt, cfx_reshape(x, L(N(x, 0) * N(x, 1), 6)))                                    \
    F(view_reshape_half, cfx_reshape(x, L(N(x, 0) / 2, 2, 6)))                                     \
    F(view_permute, cfx_permute(x, L(2, 0, 1)))                                                    \
    F(view_expand_as, cfx_mul(cfx_expand_as(cfx_slice(cfx_slice(x, 0, 0, END), 1, 0, 1), x), 2))   \
    F(view_repeat, cfx_repeat(x, L(2, 3)))                                                         \
    F(view_repeat_t, cfx_repeat(x, L(1, 2, 1)))                                                    \
    F(view_unflatten, cfx_unflatten(x, 1, L(2, 4)))                                                \
    F(view_flip, cfx_flip(x, L(0)))                                                                \
    F(view_roll, cfx_roll(x, L(1), L(0)))                                                          \
    F(view_tril, cfx_tril(x))                                                                      \
    F(view_diag, cfx_diagonal(x))                                                                  \
    F(view_ravel_mm, cfx_matmul(cfx_reshape(x, L(-1, 4)), P("w")))                                 \
    F(view_stack, cfx_stack(L(x, cfx_add(x, 1)), 1))                                               \
    F(view_unsqueeze, cfx_sub(cfx_unsqueeze(x, 1), cfx_unsqueeze(x, 0)))                           \
    F(part_cat0, cfx_cat(L(x, x)))                                                                 \
    F(part_cat_xy, cfx_cat(L(x, y)))                                                               \
    F(part_cat_const, cfx_cat(L(x, P("e"))))                                                       \
    F(part_cat_dim1, cfx_cat(L(x, y), 1))                                                          \
    F(part_slice_both, cfx_mul(cfx_slice(x, 0, 1, -1), 2))                                         \
    F(part_slice_step, cfx_slice(x, 0, 0, END, 2))                                                 \
    F(part_slice_step1, cfx_slice(x, 0, 1, END, 2))                                                \
    F(part_slice_last2, cfx_slice(x, 0, -2, END))                                                  \
    F(part_slice_first2, cfx_slice(x, 0, 0, 2))                                                    \
    F(part_slice_pos, cfx_add(x, cfx_slice(P("pos"), 0, CFX_NONE, N(x, 1))))                       \
    F(part_slice_pos_off, cfx_add(x, cfx_slice(P("pos"), 0, 2, N(x, 1) + 2)))                      \
    F(part_gather, cfx_gather(x, 1, cfx_unsqueeze(cfx_slice(y, 0, 0, END), 1)))                    \
    F(part_narrow, cfx_narrow(x, 0, 1, N(x, 0) - 2))                                               \
    F(attn_sdpa, cfx_scaled_dot_product_attention(x, x, x))                                        \
    F(attn_cross, cfx_scaled_dot_product_attention(x, y, y))                                       \
    F(layer_norm, CALL("n", x))                                                                    \
    F(group_norm, CALL("n", x))                                                                    \
    F(softmax_t, cfx_softmax(x, 1))                                                                \
    F(logsumexp, cfx_logsumexp(x, L(1)))                                                           \
    F(cumsum, cfx_cumsum(x, 1))                                                                    \
    F(mlp, CALL("b", cfx_gelu(CALL("a", x))))                                                      \
    F(mlp3d, CALL("b", cfx_gelu(CALL("a", x))))                                                    \
    F(matmul_bt, cfx_matmul(x, y))                                                                 \
    F(matmul_2d, cfx_matmul(x, cfx_t(y)))                                                          \
    F(argmax, cfx_argmax(x, 1))                                                                    \
    F(outer, cfx_outer(x, y))                                                                      \
    F(where, cfx_where(cfx_gt(x, 0), x, y))                                                        \
    F(val_mul, cfx_mul(x, N(x, 0)))                                                                \
    F(val_pow, cfx_mul(x, N(x, 0) * N(x, 0)))                                                      \
    F(val_mean_manual, cfx_div(cfx_sum(x, L(0)), N(x, 0)))                                         \
    F(val_full, cfx_add(cfx_full(L(N(x, 0), 2), 3.0), x))                                          \
    F(val_zeros, cfx_zeros(N(x, 0), N(x, 1), 2))                                                   \
    F(val_arange, cfx_mul(cfx_arange(N(x, 0)), 2))                                                 \
    F(val_new_zeros, cfx_new_zeros(x, L(N(x, 0) + 1, 3)))                                          \
    F(val_mean_all, cfx_mean(x))                                                                   \
    F(loop_cat, cfx_cat(L(cfx_cat(L(cfx_cat(L(x, x)), x)), x)))                                    \
    F(sym_eq, cfx_add(x, y))                                                                       \
    F(sym_eq_mm, cfx_matmul(x, y))                                                                 \
    F(sym_plus1, cfx_add(cfx_slice(x, 0, 1, END), y))                                              \
    F(sym_times3, cfx_mul(cfx_sum(cfx_view(x, L(-1, 3)), L(1)), y))                                \
    F(sym_auto, cfx_relu(CALL("l", x)))                                                            \
    F(sym_auto_eq, cfx_add(x, y))                                                                  \
    F(sym_auto_static, cfx_add(x, P("w")))                                                         \
    F(sym_auto_cond, N(x, 0) > 3 ? cfx_mul(x, 2) : x)                                              \
    F(sym_dynamic, cfx_sum(x, L(1)))                                                               \
    F(sym_minmax, cfx_mul(x, 2))                                                                   \
    F(sym_max, cfx_mul(x, 2))                                                                      \
    F(sym_min, cfx_mul(x, 2))                                                                      \
    F(sym_16_512, CALL("l", x))                                                                    \
    F(sym_1_2, cfx_add(x, 1))                                                                      \
    F(data_nonzero, cfx_nonzero(x))                                                                \
    F(data_masked_select, cfx_sum(cfx_masked_select(x, cfx_gt(x, 0))))                             \
    F(data_repeat_static, cfx_repeat_interleave(x, 2, 0))                                          \
    F(inplace, cfx_relu_(cfx_mul_(cfx_add(x, 1), 2)))

#define DEFINE(name, result)                                                                       \
    static cfx_value name##_forward(cfx_module *self, cfx_args a) {                                \
        cfx_tensor *x = cfx_as_tensor(a.v[0]), *y = a.n > 1 ? cfx_as_tensor(a.v[1]) : NULL;        \
        (void)self, (void)x, (void)y;                                                              \
        return cfx_tensor_value(result);                                                           \
    }
FORWARDS(DEFINE)

static const struct {
    const char *name;
    cfx_value (*forward)(cfx_module *, cfx_args);
} programs[] = {
#define ROW(name, result) {#name, name##_forward},
    FORWARDS(ROW)};

static void convs(cfx_module *m, const char *name) {
    int k, s, p, d;
    if (sscanf(name, "conv2d_k%ds%dp%dd%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, k, .stride = s, .padding = p, .dilation = d));
    else if (sscanf(name, "conv1d_k%ds%dp%dd%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(m, "c", cfx_nn_conv1d(2, 3, k, .stride = s, .padding = p, .dilation = d));
    else if (sscanf(name, "convt2d_k%ds%dp%do%d", &k, &s, &p, &d) == 4)
        cfx_nn_add(
            m, "c",
            cfx_nn_conv_transpose2d(3, 2, k, .stride = s, .padding = p, .output_padding = d));
}

static bool is(const char *name, const char *other) { return !strcmp(name, other); }

/* The parameters that a program's module has. */
static void furnish(cfx_module *m, const char *n) {
    convs(m, n);
    if (is(n, "conv2d_batch"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 8, 7, .stride = 2, .padding = 3));
    if (is(n, "conv2d_two")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(1, 2, 3, .stride = 2, .padding = 1));
        cfx_nn_add(m, "d", cfx_nn_conv2d(2, 3, 3, .stride = 2, .padding = 1));
    }
    if (is(n, "conv1d_causal"))
        cfx_nn_add(m, "c", cfx_nn_conv1d(2, 3, 5));
    if (is(n, "convt1d"))
        cfx_nn_add(m, "c", cfx_nn_conv_transpose1d(3, 2, 4, .stride = 3, .padding = 1));
    if (is(n, "autoencoder")) {
        cfx_nn_add(m, "e", cfx_nn_conv2d(1, 4, 4, .stride = 2, .padding = 1));
        cfx_nn_add(m, "d", cfx_nn_conv_transpose2d(4, 1, 4, .stride = 2, .padding = 1));
    }
    if (is(n, "conv_bn_relu")) {
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 4, 3, .padding = 1, .no_bias = true));
        cfx_nn_add(m, "b", cfx_nn_batch_norm2d(4));
    }
    if (is(n, "patch_embed"))
        cfx_nn_add(m, "c", cfx_nn_conv2d(3, 8, 16, .stride = 16));
    if (is(n, "layer_norm"))
        cfx_nn_add(m, "n", cfx_nn_layer_norm(8));
    if (is(n, "group_norm"))
        cfx_nn_add(m, "n", cfx_nn_group_norm(2, 8));
    if (is(n, "mlp") || is(n, "mlp3d")) {
        cfx_nn_add(m, "a", cfx_nn_linear(6, 8));
        cfx_nn_add(m, "b", cfx_nn_linear(8, 3));
    }
    if (is(n, "sym_auto") || is(n, "sym_16_512"))
        cfx_nn_add(m, "l", cfx_nn_linear(4, is(n, "sym_auto") ? 4 : 16));
    if (is(n, "sym_auto_static"))
        cfx_nn_parameter(m, "w", cfx_randn(6));
    if (!strncmp(n, "view_", 5)) {
        cfx_nn_parameter(m, "q", cfx_randn(1, 2, 4));
        cfx_nn_parameter(m, "w", cfx_randn(4, 5));
    }
    if (!strncmp(n, "part_", 5)) {
        cfx_nn_parameter(m, "e", cfx_randn(2, 3));
        cfx_nn_parameter(m, "pos", cfx_randn(64, 4));
    }
}

/* ---- what the data says ---------------------------------------------------------------------- */

typedef struct {
    char name[16];
    int64_t hint, least, most; /* 0: not given */
    bool automatic;
} symbol;

typedef struct {
    char name[64];
    symbol symbols[8];
    int nsymbols;
    const char *args; /* "x:f32[B,3]; y:i64[B]<5" */
    char *ranges, *shapes, *code;
    const char *core; /* the code after decomposition; NULL: the same */
} expected;

static char *line_of(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    *end = '\0';
    *at = end + 1;
    return line;
}

static void read_symbols(expected *e, const char *text) {
    int used;
    for (symbol s; *text; text += used + (text[used] == ' ')) {
        char kind[32] = "";
        memset(&s, 0, sizeof s);
        if (sscanf(text, "%15[^=]=%" SCNd64 ":%31[^ ]%n", s.name, &s.hint, kind, &used) != 3)
            break;
        s.automatic = kind[0] == 'a' || kind[0] == 'd';
        if (kind[0] == ':')
            s.most = strtoll(kind + 1, NULL, 10);
        else if (!s.automatic)
            sscanf(kind, "%" SCNd64 ":%" SCNd64, &s.least, &s.most);
        e->symbols[e->nsymbols++] = s;
    }
}

static bool is_word(char c) { return c == '_' || isalnum((unsigned char)c); }

/* One size of an input: a number, or an expression of symbols at their values. */
static int64_t size_at(const expected *e, const int64_t *values, const char *text) {
    const char *rest;
    cfx_value v;
    cfx__sym_parse(text, text + strlen(text), &rest, &v);
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v);
    for (int i = 0; i < e->nsymbols; i++) /* these are n, 2*n or n+1 */
        if (strstr(text, e->symbols[i].name)) {
            int64_t by = strchr(text, '*') ? strtoll(text, NULL, 10) : 1;
            const char *plus = strchr(text, '+');
            return values[i] * by + (plus ? strtoll(plus + 1, NULL, 10) : 0);
        }
    return 0;
}

/* Inputs at these sizes; and, where dims is not NULL, what varies in them. */
static cfx_value inputs_at(const expected *e, const int64_t *values, cfx_dict *dims) {
    cfx_value args = cfx_tuple_value(0, NULL);
    for (const char *at = e->args; *at; at += strspn(at, "; ")) {
        char name[16], dtype[8], shape[64] = "", below[16] = "";
        int used = 0;
        sscanf(at, "%15[^:]:%7[^[][%63[^]]]%n", name, dtype, shape, &used);
        at += used;
        if (*at == '<')
            sscanf(at, "<%15[^;]", below), at += strlen(below) + 1;
        int64_t sizes[8];
        int n = 0;
        cfx_dict *own = cfx_dict_new();
        for (char *s = strtok(shape, ","); s; s = strtok(NULL, ","), n++) {
            sizes[n] = size_at(e, values, s);
            for (int i = 0; i < e->nsymbols; i++) {
                const symbol *y = &e->symbols[i];
                const char *at_name = strstr(s, y->name);
                if (!at_name || (at_name > s && is_word(at_name[-1])))
                    continue;
                cfx_value least = y->least ? cfx_int(y->least) : cfx_none();
                cfx_value most = y->most ? cfx_int(y->most) : cfx_none();
                cfx_dict_put(own, cfx_int(n),
                             y->automatic ? cfx_string_value("Dim.AUTO")
                                          : cfx_tuple(s, least, most));
            }
        }
        if (dims)
            cfx_dict_set(dims, name, cfx_dict_value(own));
        cfx_value list = cfx_ints_value(n, sizes);
        cfx_list_append(
            cfx_as_list(args),
            cfx_tensor_value(is(dtype, "f32") ? cfx_randn(list) : cfx_randint(atoi(below), list)));
    }
    return args;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Code with its values numbered in order, so that it does not count how names are counted. */
static const char *plain(const char *code) {
    cfx__text out = {0};
    cfx_dict *seen = cfx_dict_new();
    for (const char *at = code; *at;) {
        bool starts = is_word(*at) && (at == code || (!is_word(at[-1]) && at[-1] != '.'));
        size_t n = 0;
        while (starts && is_word(at[n]))
            n++;
        if (!n) {
            cfx__text_putc(&out, *at++);
            continue;
        }
        cfx_value word = cfx_string_value_n(at, n);
        bool defined =
            at >= code + 5 && !strncmp(at - 5, "\n    ", 5) && !strncmp(at + n, " = ", 3);
        if (defined && !cfx_dict_find(seen, word))
            cfx_dict_put(seen, word, cfx_string_value(cfx__text_format("v%d", (int)seen->len)));
        const cfx_value *known = cfx_dict_find(seen, word);
        cfx__text_puts(&out, cfx_text(known ? *known : word));
        at += n;
    }
    return cfx__text_take(&out);
}

/* The text without blanks at the ends of it and of its lines. */
static const char *trimmed(const char *text) {
    cfx__text out = {0};
    text += strspn(text, "\n");
    for (; *text; text++) {
        while (*text == '\n' && out.len && out.data[out.len - 1] == ' ')
            out.data[--out.len] = '\0';
        cfx__text_putc(&out, *text);
    }
    while (out.len && (out.data[out.len - 1] == '\n' || out.data[out.len - 1] == ' '))
        out.data[--out.len] = '\0';
    return cfx__text_take(&out);
}

/* The sizes of all results as print_readable shows them. */
static const char *shapes_of(cfx_program *p) {
    cfx__text out = {0};
    const char *text = cfx_module_readable(p->module, (cfx_readable_options){0});
    for (const char *at = text; (at = strstr(at, ": \"")); at++) {
        const char *end = strchr(at + 3, '"');
        if (end && !strncmp(end, "\" = ", 4) && memchr(at, '[', (size_t)(end - at))) {
            cfx__text_puts(&out, out.len ? " " : "");
            for (at += 3; at < end; at++)
                if (*at != ' ')
                    cfx__text_putc(&out, *at);
        }
    }
    return cfx__text_take(&out);
}

static const char *ranges_of(cfx_program *p) {
    const char *text = strstr(cfx_program_str(p), "Range constraints: ");
    return text ? cfx__string_new(text + 19, strcspn(text + 19, "\n"))->text : "";
}

/* Five sizes within the ranges, the example's first. */
static void sizes_for(const expected *e, int k, int64_t *values) {
    for (int i = 0; i < e->nsymbols; i++) {
        const symbol *s = &e->symbols[i];
        int64_t step[] = {0, 1, 4, 3, 7}, most = s->most ? s->most : INT64_MAX;
        values[i] = s->hint + step[k] <= most ? s->hint + step[k] : s->hint;
        if (s->automatic && (is(e->name, "sym_auto_static") && i == 1))
            values[i] = s->hint;
    }
    if (is(e->name, "sym_auto_eq"))
        values[1] = values[0];
}

static void check_runs(const expected *e, cfx_module *m, cfx_program *p, cfx_program *core) {
    for (int k = 0; k < 5; k++) {
        int64_t values[8];
        sizes_for(e, k, values);
        cfx_value in = inputs_at(e, values, NULL);
        cfx_args a = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
        cfx_value want = cfx_forward_value_from(CFX_HERE, m, a);
        cfx_value got = cfx_program_run_from(CFX_HERE, p, a);
        cfx_value again = cfx_program_run_from(CFX_HERE, core, a);
        CHECK_OK();
        CHECK(cfx_integer(CFX_V(cfx_allclose(got, want, CFX_KW(atol, 1e-5)))));
        CHECK(cfx_integer(CFX_V(cfx_allclose(again, want, CFX_KW(atol, 1e-4)))));
    }
}

static void check_program(const expected *e) {
    int row = 0;
    while (row < COUNT(programs) && !is(programs[row].name, e->name))
        row++;
    CHECK(row < COUNT(programs));
    char names[32] = "x", *semi = strchr(e->args, ';');
    if (semi)
        snprintf(names, sizeof names, "x, %.1s", semi + 2);
    cfx_module *m = cfx_module_new("M", programs[row].forward, names);
    furnish(m, e->name);
    cfx_module_train(m, false);
    int64_t hints[8];
    sizes_for(e, 0, hints);
    cfx_dict *dims = cfx_dict_new();
    cfx_value in = inputs_at(e, hints, dims);
    cfx_program *p = cfx_export(m, in, CFX_NONE, cfx_dict_value(dims));
    if (!cfx_ok())
        printf("    %s\n", e->name);
    CHECK_OK();
    const char *code = trimmed(plain(cfx_module_code(p->module)));
    if (strcmp(code, e->code) || strcmp(ranges_of(p), e->ranges) || strcmp(shapes_of(p), e->shapes))
        printf("    %s\n", e->name);
    CHECK_STR(code, e->code);
    CHECK_STR(shapes_of(p), e->shapes);
    CHECK_STR(ranges_of(p), e->ranges);
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    const char *parts = trimmed(plain(cfx_module_code(core->module)));
    if (strcmp(parts, e->core ? e->core : e->code))
        printf("    %s\n", e->name);
    CHECK_STR(parts, e->core ? e->core : e->code);
    check_runs(e, m, p, core);
}

static void check_all(const char *start) {
    FILE *f = fopen(CFX_TEST_DATA "/dynamic.txt", "rb");
    cfx__text all = {0};
    char block[4096];
    CHECK(f != NULL);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        cfx__text_add(&all, block, n);
    fclose(f);
    int seen = 0;
    for (char *at = all.data; (at = strstr(at, "== "));) {
        expected e = {0};
        char *next = strstr(at + 1, "\n== "), *head;
        if (next)
            *next = '\0', next[0] = '\n';
        head = line_of(&at) + 3;
        char *bar = strstr(head, " | "), *last = strstr(bar + 3, " | ");
        snprintf(e.name, sizeof e.name, "%.*s", (int)(bar - head), head);
        e.args = bar + 3;
        *last = '\0';
        read_symbols(&e, last + 3);
        e.ranges = line_of(&at);
        e.shapes = line_of(&at);
        e.code = at;
        at = next ? next + 1 : all.data + all.len;
        if (next)
            *next = '\0';
        else if (all.data[all.len - 1] == '\n')
            all.data[all.len - 1] = '\0';
        char *parts = strstr(e.code, "\n-- core\n");
        if (parts)
            *parts = '\0', e.core = parts + strlen("\n-- core\n");
        size_t mark = cfx_scope_open();
        if (!strncmp(e.name, start, strlen(start))) {
            check_program(&e);
            seen++;
        }
        cfx_scope_close(mark);
    }
    cfx__text_release(&all);
    CHECK(seen > 0);
}

TEST(dynamic_convolutions) { check_all("conv"); }
TEST(dynamic_pools) { check_all("pool"); }
TEST(dynamic_views) { check_all("view"); }
TEST(dynamic_parts) { check_all("part"); }
TEST(dynamic_attention) { check_all("attn"); }
TEST(dynamic_sizes_as_values) { check_all("val"); }
TEST(dynamic_symbols) { check_all("sym"); }
TEST(dynamic_data) { check_all("data"); }
TEST(dynamic_layers) {
    static const char *const starts[] = {"auto",  "patch", "pixel", "unfold", "pad",    "layer",
                                         "group", "soft",  "log",   "cum",    "mlp",    "mat",
                                         "arg",   "outer", "where", "loop",   "inplace"};
    for (int i = 0; i < COUNT(starts); i++)
        check_all(starts[i]);
}
