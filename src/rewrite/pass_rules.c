/* simplify and recognize: passes that are tables of rules. The first does less, the second finds
 * the operators that were written out: activations, norms, softmax, attention. */
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

/* The result in one piece, as the product of matrices that it replaces gives it. */
static cfx_value attention(const cfx_found *f, cfx_graph *g, void *user) {
    cfx_value scale = cfx_found_get(f, "s"), mask = cfx_found_get(f, "m");
    cfx_dict *kw = cfx_dict_new();
    bool divided = user != NULL;
    double s = cfx_is_none(scale) ? 1 : cfx_number(scale);
    cfx_dict_set(kw, "scale", cfx_float(divided ? 1 / s : s));
    cfx_value q = cfx_found_get(f, "q"), k = cfx_found_get(f, "k"), v = cfx_found_get(f, "v");
    cfx_value args = cfx_is_none(mask) ? cfx_tuple(q, k, v) : cfx_tuple(q, k, v, mask);
    cfx_value made = call(g, "aten.scaled_dot_product_attention.default", args, cfx_dict_value(kw));
    return call(g, "aten.contiguous.default", cfx_tuple(made), cfx_none());
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
    {.name = "attention", .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) * s, -1), v)",
     .where = "rank(q) == 4 and rank(k) == 4 and rank(v) == 4 and number(s)", .then = attention},
    {.name = "attention_divided",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) / s, -1), v)",
     .where = "rank(q) == 4 and rank(k) == 4 and rank(v) == 4 and number(s)", .then = attention,
     .user = (void *)"divided"},
    {.name = "attention_masked",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) * s + m, -1), v)",
     .where = "rank(q) == 4 and rank(k) == 4 and rank(v) == 4 and number(s) and rank(m) >= 2 and "
              "dtype(m) == dtype(q)",
     .then = attention},
    {.name = "attention_divided_masked",
     .pattern = "matmul(softmax(matmul(q, transpose(k, -2, -1)) / s + m, -1), v)",
     .where = "rank(q) == 4 and rank(k) == 4 and rank(v) == 4 and number(s) and rank(m) >= 2 and "
              "dtype(m) == dtype(q)",
     .then = attention, .user = (void *)"divided"},
};

/* ---- the passes ------------------------------------------------------------------------------ */

static int apply(cfx_program *p, const cfx_rule *rows, int n) {
    size_t mark = cfx_scope_open();
    cfx_rules *rules = cfx_rules_table(rows, n);
    int changes = cfx_failed(rules) ? -1 : cfx_rewrite_in_place(p, rules);
    cfx_scope_close(mark);
    return changes;
}

static int run_simplify(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return apply(p, simplifying, COUNT(simplifying));
}

static int run_recognize(cfx_program *p, const cfx_dict *options) {
    (void)options;
    return apply(p, recognizing, COUNT(recognizing));
}

const cfx_pass cfx__pass_simplify = {
    .name = "simplify",
    .summary = "computes the same with less: x + 0, twice transposed, log(softmax(x))",
    .promise = CFX_PASS_ROUNDED,
    .run = run_simplify,
};

const cfx_pass cfx__pass_recognize = {
    .name = "recognize",
    .summary = "finds silu, gelu, hardswish, softmax, norms and attention that were written out",
    .after = "simplify",
    .promise = CFX_PASS_ROUNDED,
    .run = run_recognize,
};
