/* simplify and recognize: passes that are tables of rewrite rules. The first removes work, the
 * second replaces written-out activations, norms, softmax, pools and attention by their
 * operators. */
#include "pass.h"

/* ---- conditions ------------------------------------------------------------------------------ */

/* Whether the whole computes what x is, as far as that is told without numbers: 1 * x may be
 * larger, or of another dtype. */
static bool stays(const cfx_found *f, void *user) {
    (void)user;
    cfx_value x = cfx_found_get(f, "x");
    cfx_result a = cfx_node_result(f->anchor);
    cfx_result b = cfx_node_result(x.tag == CFX_TAG_NODE ? cfx_as_node(x) : NULL);
    return a.kind == CFX_RESULT_TENSOR && cfx_result_equal(&a, &b);
}

/* Whether w, and b where there is one, are vectors as long as the last dimension of x, of its
 * dtype. */
static bool is_norm(const cfx_found *f, void *user) {
    static const char *const names[] = {"w", "b"};
    cfx_value x = cfx_found_get(f, "x");
    cfx_result r = cfx_node_result(x.tag == CFX_TAG_NODE ? cfx_as_node(x) : NULL);
    (void)user;
    if (r.kind != CFX_RESULT_TENSOR || !r.ndim)
        return false;
    for (int i = 0; i < COUNT(names); i++) {
        cfx_value v = cfx_found_get(f, names[i]);
        if (cfx_is_none(v))
            continue;
        cfx_result w = cfx_node_result(v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL);
        cfx_value size = cfx_result_size(&r, -1);
        if (w.kind != CFX_RESULT_TENSOR || w.ndim != 1 || w.dtype != r.dtype ||
            size.tag != CFX_TAG_INT || !cfx_equal_values(cfx_result_size(&w, 0), size))
            return false;
    }
    return true;
}

static cfx_result result_of(const cfx_found *f, const char *name) {
    cfx_value v = cfx_found_get(f, name);
    return cfx_node_result(v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL);
}

/* Sizes of y with the last two in the other order; None where one of them is no number. */
static cfx_value turned_sizes(const cfx_result *y) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int i = 0; i < y->ndim; i++) {
        int k = i == y->ndim - 1 ? i - 1 : i == y->ndim - 2 ? i + 1 : i;
        cfx_value size = cfx_result_size(y, k);
        if (size.tag != CFX_TAG_INT)
            return cfx_none();
        cfx_list_append(cfx_as_list(out), size);
    }
    return out;
}

/* Whether the matrices of the whole are those of r, turned: they were put in one row for it. */
static bool is_turned(const cfx_found *f, void *user) {
    cfx_result y = cfx_node_result(f->anchor), row = result_of(f, "r");
    (void)user;
    return y.kind == CFX_RESULT_TENSOR && row.kind == CFX_RESULT_TENSOR && row.ndim == 3 &&
           y.ndim > 2 && !cfx_is_none(turned_sizes(&y)) &&
           cfx_equal_values(cfx_result_size(&row, 1), cfx_result_size(&y, -1)) &&
           cfx_equal_values(cfx_result_size(&row, 2), cfx_result_size(&y, -2));
}

/* Whether d are the two dims of the pictures of x. */
static bool is_global(const cfx_found *f, void *user) {
    cfx_result x = result_of(f, "x");
    cfx_value dims = cfx_found_get(f, "d");
    bool pictures = x.kind == CFX_RESULT_TENSOR && x.ndim == 4 && dims.tag == CFX_TAG_LIST &&
                    cfx_as_list(dims)->len == 2;
    int64_t sum = 0;
    (void)user;
    for (int i = 0; pictures && i < 2; i++) {
        cfx_value d = cfx_at(dims, i);
        int64_t at = d.tag == CFX_TAG_INT ? cfx_integer(d) : 0;
        pictures = ((at >= 2 && at < 4) || (at >= -2 && at < 0)) &&
                   !cfx_equal_values(cfx_result_size(&x, (int)at), cfx_int(0));
        sum += at < 0 ? at + 4 : at;
    }
    return pictures && sum == 5;
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx_value call(cfx_graph *g, const char *op, cfx_value args, cfx_value kwargs) {
    cfx_op *found = cfx_op_find(op);
    cfx_target t = {.op = found, .name = cfx_op_name(found)};
    const char *name = cfx__op_info_of(found)->schema->name;
    return cfx_node_value(cfx_graph_create(g, CFX_CALL_FUNCTION, t, args, kwargs, name, NULL));
}

static cfx_value last_size(const cfx_found *f) {
    cfx_result r = cfx_node_result(cfx_as_node(cfx_found_get(f, "x")));
    cfx_value size = cfx_result_size(&r, -1);
    return cfx_list_value(1, &size);
}

static cfx_value layer_norm(const cfx_found *f, cfx_graph *g, void *user) {
    (void)user;
    return call(g, "aten.layer_norm.default",
                cfx_tuple(cfx_found_get(f, "x"), last_size(f), cfx_found_get(f, "w"),
                          cfx_found_get(f, "b"), cfx_found_get(f, "eps")),
                cfx_none());
}

static cfx_value rms_norm(const cfx_found *f, cfx_graph *g, void *user) {
    (void)user;
    return call(g, "aten.rms_norm.default",
                cfx_tuple(cfx_found_get(f, "x"), last_size(f), cfx_found_get(f, "w"),
                          cfx_found_get(f, "eps")),
                cfx_none());
}

/* x as matrices, then turned. */
static cfx_value turned(const cfx_found *f, cfx_graph *g, void *user) {
    cfx_result x = result_of(f, "x"), y = cfx_node_result(f->anchor);
    cfx_value sizes = turned_sizes(&y), from = cfx_found_get(f, "x");
    bool same = x.kind == CFX_RESULT_TENSOR && x.ndim == y.ndim;
    (void)user;
    for (int i = 0; same && i < y.ndim; i++)
        same = cfx_equal_values(cfx_result_size(&x, i), cfx_at(sizes, i));
    if (!same)
        from = call(g, "aten.reshape.default", cfx_tuple(from, sizes), cfx_none());
    return call(g, "aten.transpose.int", cfx_tuple(from, -2, -1), cfx_none());
}

/* Whether a call only moves elements, or is a product, and copes with any strides. */
static bool is_move(const cfx_node *n) {
    const cfx_op *op = cfx__call_op(n);
    return op && op->effects & CFX_ALIKE && op->effects & CFX_MOVES && !(op->effects & CFX_LAYOUT);
}

static bool is_reader(const cfx_node *n) {
    const cfx_op *op = cfx__call_op(n);
    return (op && op->layer.product) || cfx__call_is(n, "contiguous");
}

/* Whether nobody can tell how n lies: it is moved, if at all, and then read by what copes with any
 * strides. */
static bool lies_unseen(const cfx_node *n) {
    bool unseen = n->users != NULL;
    cfx_each_user(n, u) unseen &=
        is_reader(u->user) || (is_move(u->user) && lies_unseen(u->user));
    return unseen;
}

/* The result in one piece, as the product of matrices that it replaces gives it, where somebody can
 * tell. Queries and keys may have a scale each. */
static cfx_value attention(const cfx_found *f, cfx_graph *g, void *user) {
    cfx_value scale = cfx_found_get(f, "s"), other = cfx_found_get(f, "s2");
    cfx_value mask = cfx_found_get(f, "m");
    cfx_dict *kw = cfx_dict_new();
    bool divided = user != NULL;
    double s = cfx_is_none(scale) ? 1 : cfx_number(scale);
    s *= cfx_is_none(other) ? 1 : cfx_number(other);
    cfx_dict_set(kw, "scale", cfx_float(divided ? 1 / s : s));
    cfx_value q = cfx_found_get(f, "q"), k = cfx_found_get(f, "k"), v = cfx_found_get(f, "v");
    cfx_value args = cfx_is_none(mask) ? cfx_tuple(q, k, v) : cfx_tuple(q, k, v, mask);
    cfx_value made = call(g, "aten.scaled_dot_product_attention.default", args, cfx_dict_value(kw));
    return lies_unseen(f->anchor) ? made
                                  : call(g, "aten.contiguous.default", cfx_tuple(made), cfx_none());
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define FLOATS(x) "dtype(" x ") in (f32, f64, bf16, f16)"

static const cfx_rule simplifying[] = {
    {.name = "add_zero", .pattern = "x + 0", .replacement = "x", .when = stays},
    {.name = "sub_zero", .pattern = "x - 0", .replacement = "x", .when = stays},
    {.name = "mul_one", .pattern = "x * 1", .replacement = "x", .when = stays},
    {.name = "div_one", .pattern = "x / 1", .replacement = "x", .when = stays},
    {.name = "pow_one", .pattern = "x ** 1", .replacement = "x", .when = stays},
    {.name = "pow_half", .pattern = "x ** 0.5", .replacement = "sqrt(x)", .where = FLOATS("x")},
    {.name = "neg_neg", .pattern = "neg(neg(x))", .replacement = "x", .when = stays},
    {.name = "relu_relu", .pattern = "relu(relu(x))", .replacement = "relu(x)"},
    {.name = "abs_abs", .pattern = "abs(abs(x))", .replacement = "abs(x)"},
    {.name = "abs_neg", .pattern = "abs(neg(x))", .replacement = "abs(x)"},
    {.name = "not_not", .pattern = "logical_not(logical_not(x))", .replacement = "x",
     .when = stays},
    {.name = "t_t", .pattern = "t(t(x))", .replacement = "x", .when = stays},
    {.name = "transpose_transpose", .pattern = "transpose(transpose(x, a, b), a, b)",
     .replacement = "x", .when = stays},
    {.name = "transpose_back", .pattern = "transpose(transpose(x, a, b), b, a)",
     .replacement = "x", .when = stays},
    {.name = "reshape_reshape", .pattern = "reshape(reshape(x, a), b)",
     .replacement = "reshape(x, b)"},
    {.name = "where_same", .pattern = "where(c, x, x)", .replacement = "x", .when = stays},
    {.name = "rsqrt", .pattern = "reciprocal(sqrt(x))", .replacement = "rsqrt(x)",
     .where = FLOATS("x")},
    {.name = "log_softmax", .pattern = "log(softmax(x, d))", .replacement = "log_softmax(x, d)",
     .where = "int(d) and " FLOATS("x")},
};

#define HEADS "rank(q) == 4 and rank(k) == 4 and rank(v) == 4"
#define MASK "rank(m) >= 2 and dtype(m) == dtype(q)"

static const cfx_rule recognizing[] = {
    {.name = "silu", .pattern = "x * sigmoid(x)", .replacement = "silu(x)", .where = FLOATS("x")},
    {.name = "gelu", .pattern = "x * 0.5 * (1 + erf(x * 0.7071067811865475))",
     .replacement = "gelu(x)", .where = FLOATS("x")},
    {.name = "gelu_divided", .pattern = "x * 0.5 * (1 + erf(x / 1.4142135623730951))",
     .replacement = "gelu(x)", .where = FLOATS("x")},
    {.name = "gelu_late_half", .pattern = "x * (1 + erf(x / 1.4142135623730951)) * 0.5",
     .replacement = "gelu(x)", .where = FLOATS("x")},
    {.name = "gelu_late_product", .pattern = "x * (1 + erf(x * 0.7071067811865475)) * 0.5",
     .replacement = "gelu(x)", .where = FLOATS("x")},
    {.name = "gelu_tanh",
     .pattern = "x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * 0.7978845608028654))",
     .replacement = "gelu(x, approximate='tanh')", .where = FLOATS("x")},
    {.name = "gelu_tanh_cube",
     .pattern = "x * 0.5 * (1 + tanh((x + x * x * x * 0.044715) * 0.7978845608028654))",
     .replacement = "gelu(x, approximate='tanh')", .where = FLOATS("x")},
    {.name = "hardswish", .pattern = "x * clamp(x + 3, 0, 6) / 6", .replacement = "hardswish(x)",
     .where = FLOATS("x")},
    {.name = "hardswish_hardtanh", .pattern = "x * hardtanh(x + 3, 0.0, 6.0) / 6",
     .replacement = "hardswish(x)", .where = FLOATS("x")},
    {.name = "hardsigmoid", .pattern = "clamp(x + 3, 0, 6) / 6", .replacement = "hardsigmoid(x)",
     .where = FLOATS("x")},
    {.name = "softmax",
     .pattern = "(e := exp(x - amax(x, [d], True))) / sum(e, [d], True)",
     .replacement = "softmax(x, d)", .where = FLOATS("x")},
    {.name = "pool_global", .pattern = "mean(x, d, True)",
     .replacement = "adaptive_avg_pool2d(x, [1, 1])", .where = FLOATS("x"), .when = is_global},
    {.name = "rms_norm", .pattern = "x * rsqrt(mean(x ** 2, [-1], True) + eps) * w",
     .where = "number(eps) and dtype(x) == f32", .when = is_norm, .then = rms_norm},
    {.name = "rms_norm_square", .pattern = "x * rsqrt(mean(x * x, [-1], True) + eps) * w",
     .where = "number(eps) and dtype(x) == f32", .when = is_norm, .then = rms_norm},
    {.name = "layer_norm",
     .pattern = "(c := x - mean(x, [-1], True)) / sqrt(mean(c ** 2, [-1], True) + eps) * w + b",
     .where = "number(eps) and dtype(x) == f32", .when = is_norm, .then = layer_norm},
    {.name = "layer_norm_rsqrt",
     .pattern = "(c := x - mean(x, [-1], True)) * rsqrt(mean(c * c, [-1], True) + eps) * w + b",
     .where = "number(eps) and dtype(x) == f32", .when = is_norm, .then = layer_norm},
    {.name = "t", .pattern = "permute(w, [1, 0])", .replacement = "t(w)"},
    {.name = "transpose_last", .pattern = "permute(x, [0, 1, 3, 2])",
     .replacement = "transpose(x, -2, -1)"},
    {.name = "transpose_rows", .pattern = "reshape(permute(r := reshape(x, a), [0, 2, 1]), b)",
     .when = is_turned, .then = turned},
    {.name = "transpose_heads", .pattern = "matmul(q, permute(k, [0, 2, 3, 1]))",
     .replacement = "matmul(q, transpose(permute(k, [0, 2, 1, 3]), -2, -1))"},
    {.name = "linear", .pattern = "matmul(x, t(w))", .replacement = "linear(x, w)",
     .where = FLOATS("x")},
    {.name = "linear_constant", .pattern = "matmul(x, w)", .replacement = "linear(x, t(w))",
     .where = "constant(w) and rank(w) == 2 and rank(x) >= 2 and " FLOATS("x")},
    {.name = "linear_bias", .pattern = "linear(x, w) + b", .replacement = "linear(x, w, b)",
     .where = "rank(b) == 1 and shape(b)[0] == shape(w)[0] and dtype(b) == dtype(x)"},
    {.name = "safe_softmax", .pattern = "where(isnan(p := softmax(x, -1)), 0.0, p)",
     .replacement = "_safe_softmax(x, -1)", .where = FLOATS("x")},
    {.name = "attention_both",
     .pattern = "matmul(softmax(matmul(q * s, transpose(k, -2, -1) * s2), -1), v)",
     .where = HEADS " and number(s) and number(s2)", .then = attention},
    {.name = "attention_both_masked",
     .pattern = "matmul(softmax(matmul(q * s, transpose(k, -2, -1) * s2) + m, -1), v)",
     .where = HEADS " and number(s) and number(s2) and " MASK, .then = attention},
    {.name = "attention_safe_both",
     .pattern = "matmul(_safe_softmax(matmul(q * s, transpose(k, -2, -1) * s2), -1), v)",
     .where = HEADS " and number(s) and number(s2)", .then = attention},
    {.name = "attention_safe_both_masked",
     .pattern = "matmul(_safe_softmax(matmul(q * s, transpose(k, -2, -1) * s2) + m, -1), v)",
     .where = HEADS " and number(s) and number(s2) and " MASK, .then = attention},
    {.name = "attention_first",
     .pattern = "matmul(softmax(matmul(q * s, transpose(k, -2, -1)), -1), v)",
     .where = HEADS " and number(s)", .then = attention},
    {.name = "attention_first_masked",
     .pattern = "matmul(softmax(matmul(q * s, transpose(k, -2, -1)) + m, -1), v)",
     .where = HEADS " and number(s) and " MASK, .then = attention},
    {.name = "attention", .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) * s, -1), v)",
     .where = HEADS " and number(s)", .then = attention},
    {.name = "attention_divided",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) / s, -1), v)",
     .where = HEADS " and number(s)", .then = attention,
     .user = (void *)"divided"},
    {.name = "attention_masked",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) * s + m, -1), v)",
     .where = HEADS " and number(s) and " MASK, .then = attention},
    {.name = "attention_safe",
     .pattern = "matmul(_safe_softmax(matmul(q, transpose(k, -2, -1)) * s, -1), v)",
     .where = HEADS " and number(s)", .then = attention},
    {.name = "attention_safe_masked",
     .pattern = "matmul(_safe_softmax(matmul(q, transpose(k, -2, -1)) * s + m, -1), v)",
     .where = HEADS " and number(s) and " MASK, .then = attention},
    {.name = "attention_divided_masked",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) / s + m, -1), v)",
     .where = HEADS " and number(s) and " MASK, .then = attention, .user = (void *)"divided"},
};

/* ---- the passes ------------------------------------------------------------------------------ */

cfx_rules *cfx__rules_simplifying(void) {
    return cfx_rules_table(simplifying, COUNT(simplifying));
}

cfx_rules *cfx__rules_recognizing(void) {
    return cfx_rules_table(recognizing, COUNT(recognizing));
}

static int apply(cfx_program *p, cfx_rules *(*table)(void)) {
    size_t mark = cfx_scope_open();
    cfx_rules *rules = table();
    int changes = cfx_failed(rules) ? -1 : cfx_rewrite_in_place(p, rules);
    cfx_scope_close(mark);
    return changes;
}

static int run_simplify(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return apply(p, cfx__rules_simplifying);
}

static int run_recognize(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return apply(p, cfx__rules_recognizing);
}

const cfx_pass cfx__pass_simplify = {
    .name = "simplify",
    .summary = "computes the same with less: x + 0, twice transposed, log(softmax(x))",
    .promise = CFX_PASS_ROUNDED,
    .run = run_simplify,
};

const cfx_pass cfx__pass_recognize = {
    .name = "recognize",
    .summary = "finds silu, gelu, softmax, norms, pools and attention that were written out",
    .after = "simplify",
    .promise = CFX_PASS_ROUNDED,
    .run = run_recognize,
};
