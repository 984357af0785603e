/* torch.fx's reference cases, each written once in C: what PyTorch 2.11 prints for the same module
 * in Python, before and after its dead code is removed, and what it says to each mistake. The texts
 * are in tests/data/fx and fx_errors. What differs on purpose is in docs/FROM_TORCH.md. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing ------------------------------------------------------------------------------ */

/* A reference text; NULL when there is none. The caller frees it. */
static char *reference(const char *path, const char *name) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s/%s.txt", CFX_TEST_DATA, path, name);
    FILE *f = fopen(full, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    while (n && text[n - 1] == '\n')
        text[--n] = 0;
    return text;
}

static void compare(const char *name, const char *form, const char *got) {
    char path[256];
    snprintf(path, sizeof path, "fx/%s", name);
    char *want = reference(path, form);
    if (!want && !strncmp(form, "dce_", 4)) /* none where nothing was dead */
        want = reference(path, form + 4);
    size_t n = strlen(got);
    while (n && got[n - 1] == '\n')
        n--;
    if (want && (strlen(want) != n || strncmp(want, got, n)))
        test_fail(CFX_HERE, "%s/%s is\n%s\n---- not ----\n%s", name, form, got, want);
    free(want);
}

static void compare_texts(const char *name, const cfx_module *gm, const char *before) {
    char form[64];
    const struct {
        const char *form, *text;
    } texts[] = {{"graph", cfx_graph_str(gm->graph)},
                 {"code", cfx_module_code(gm)},
                 {"readable", cfx_module_readable(gm, (cfx_readable_options){0})},
                 {"tabular", cfx_graph_tabular(gm->graph)}};
    for (int i = 0; i < 4; i++) {
        snprintf(form, sizeof form, "%s%s", before, texts[i].form);
        compare(name, form, texts[i].text);
    }
}

/* Traces, compares, removes dead code, compares again; the graph comes back from both its texts. */
static void check_case(cfx_module *m) {
    cfx_module *gm = cfx_symbolic_trace(m);
    if (!CHECK_OK() || !CHECK(gm != NULL))
        return;
    compare_texts(m->type, gm, "");
    CHECK(cfx_graph_lint(gm->graph, gm));
    cfx_graph *code = cfx_graph_parse(cfx_module_code(gm), "code");
    CHECK(code && cfx_graph_equal(code, gm->graph));
    cfx_graph_eliminate_dead_code(gm->graph);
    if (strcmp(m->type, "Inplace")) /* PyTorch drops x.add_(1), which changes the result */
        compare_texts(m->type, gm, "dce_");
    CHECK_OK();
}

#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)

static cfx_module *plain(const char *type, cfx_forward_fn *forward, const char *signature) {
    return cfx_module_new_n(type, forward, signature);
}

/* ---- the modules ----------------------------------------------------------------------------- */

static cfx_value all_six(cfx_module *self, cfx_args a) {
    cfx_value sum = OP("add", a.v[0], cfx_attr(self, "param"));
    cfx_value relu = cfx_method(cfx_call(self, "linear", sum), "relu");
    return cfx_topk(cfx_py("torch.sum", relu, CFX_KW(dim, -1)), 3);
}

TEST(fx_all_six_ops) {
    cfx_module *m = plain("AllSixOps", all_six, "x");
    cfx_nn_parameter(m, "param", cfx_rand(3, 4));
    cfx_nn_add(m, "linear", cfx_nn_linear(4, 5));
    check_case(m);
}

static cfx_value buffers(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_py("torch.matmul", a.v[0], cfx_attr(self, "inner.weight"));
    y = OP("add", y, cfx_attr(self, "running"));
    return OP("add", y, cfx_mul(cfx_ones(4), 3.14159));
}

TEST(fx_buffers) {
    cfx_module *m = plain("Buffers", buffers, "x"), *inner = plain("Module", NULL, "");
    cfx_nn_buffer(m, "running", cfx_ones(4), true);
    cfx_nn_parameter(inner, "weight", cfx_ones(4, 4));
    cfx_nn_add(m, "inner", inner);
    check_case(m);
}

static cfx_value conv_relu(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "conv", a.v[0])));
}

static cfx_module *new_conv_relu(void) {
    cfx_module *m = plain("ConvReLUModel", conv_relu, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(3, 16, 3));
    return m;
}

TEST(fx_conv_relu) { check_case(new_conv_relu()); }

static cfx_value dead_code(cfx_module *self, cfx_args a) {
    (void)self;
    OP("add", cfx_relu(cfx_as_tensor(a.v[0])), 1);
    cfx_value shape = cfx_py("builtins.getattr", a.v[0], "shape");
    cfx_py("torch._assert", OP("gt", cfx_at(shape, 0), 0), "batch");
    return cfx_method(a.v[0], "neg");
}

TEST(fx_dead_code) { check_case(plain("DeadCode", dead_code, "x")); }

static cfx_value inplace(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_method(a.v[0], "add_", 1);
    return cfx_method(OP("add", a.v[0], 2), "mul_", 3);
}

TEST(fx_inplace_stays) {
    cfx_module *m = plain("Inplace", inplace, "x");
    check_case(m);
    cfx_module *gm = cfx_symbolic_trace(m);
    CHECK_INT(cfx_graph_eliminate_dead_code(gm->graph), 0);
}

static cfx_value kwargs(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value z = cfx_py("torch.nn.functional.softmax", a.v[0], CFX_KW(dim, -1),
                         CFX_KW(dtype, cfx_f32));
    z = cfx_py("torch.clamp", z, CFX_KW(min, 0.0), CFX_KW(max, INFINITY));
    z = cfx_py("torch.nn.functional.interpolate", z, CFX_KW(scale_factor, 2.0),
               CFX_KW(mode, "nearest"));
    return OP("mul", z, a.v[2]);
}

TEST(fx_kwargs) {
    check_case(plain("Kwargs", kwargs, "x, y=None, *, scale : float = 1.0, mask=True"));
}

static cfx_value mlp(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_call(self, "relu", cfx_call(self, "fc1", a.v[0]));
    return cfx_tensor_value(cfx_call(self, "fc2", x));
}

static cfx_module *new_mlp(void) {
    cfx_module *m = plain("MLP", mlp, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(16, 32));
    cfx_nn_add(m, "fc2", cfx_nn_linear(32, 16));
    cfx_nn_add(m, "relu", cfx_nn_relu());
    return m;
}

TEST(fx_mlp) { check_case(new_mlp()); }

static cfx_value slice(int from, int to) {
    return cfx_slice_value(cfx_int(from), cfx_int(to), CFX_NONE);
}

static cfx_value methods(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = a.v[0], all = cfx_slice_value(CFX_NONE, CFX_NONE, CFX_NONE);
    cfx_value b = cfx_method(x, "size", 0), c = cfx_at(cfx_py("builtins.getattr", x, "shape"), 1);
    cfx_value y = cfx_method(cfx_method(x, "view", b, c, -1), "transpose", 1, 2);
    y = cfx_method(y, "contiguous");
    cfx_value z = OP("getitem", y, cfx_tuple(all, 0, cfx_ellipsis(), CFX_NONE));
    cfx_value w = OP("getitem", y,
                     cfx_tuple(0, slice(1, 3), cfx_slice_value(CFX_NONE, CFX_NONE, cfx_int(2))));
    cfx_value uv = cfx_method(x, "chunk", 2, CFX_KW(dim, 1));
    cfx_value u = cfx_at(uv, 0), v = cfx_at(uv, 1);
    cfx_dict *out = cfx_dict_new();
    cfx_dict_set(out, "z", z);
    cfx_dict_set(out, "w", cfx_list(w, u));
    cfx_dict_set(out, "v", cfx_tuple(v));
    return cfx_dict_value(out);
}

TEST(fx_methods) { check_case(plain("Methods", methods, "x")); }

static cfx_value names(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    cfx_value y = OP("add", OP("add", cfx_relu(cfx_relu(x)), 1), a.v[1]);
    y = OP("add", cfx_py("torch.sum", y), a.v[2]);
    y = OP("add", y, cfx_py("torch.nn.functional.relu", x));
    return OP("add", y, cfx_method(x, "relu"));
}

TEST(fx_names) { check_case(plain("Names", names, "x, sum, class_")); }

static cfx_value block(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_call(self, "bn", cfx_call(self, "conv", a.v[0]));
    return OP("add", cfx_py("torch.nn.functional.relu", y, CFX_KW(inplace, cfx_bool(true))),
              a.v[0]);
}

static cfx_module *new_block(void) {
    cfx_module *m = plain("Block", block, "x");
    cfx_nn_add(m, "conv", cfx_nn_conv2d(4, 4, 3, .padding = 1));
    cfx_nn_add(m, "bn", cfx_nn_batch_norm2d(4));
    return m;
}

static cfx_value nested(cfx_module *self, cfx_args a) {
    cfx_value mean = cfx_method(cfx_call(self, "layers", a.v[0]), "mean", cfx_list(2, 3));
    cfx_tensor *first = cfx_call(self, "head.a", mean);
    return cfx_tuple(first, cfx_call(self, "head.b", mean));
}

static cfx_module *new_nested(void) {
    cfx_module *m = plain("Nested", nested, "x"), *head = cfx_nn_module_dict();
    cfx_nn_add(head, "a", cfx_nn_linear(4, 2));
    cfx_nn_add(head, "b", cfx_nn_linear(4, 3));
    cfx_nn_add(m, "layers", cfx_nn_sequential(new_block(), new_block()));
    cfx_nn_add(m, "head", head);
    return m;
}

TEST(fx_nested) { check_case(new_nested()); }

static cfx_value operators(cfx_module *self, cfx_args v) {
    (void)self;
    cfx_value x = v.v[0], y = v.v[1];
    cfx_value a = OP("add", x, y), b = OP("sub", x, 1), c = OP("mul", 2, y);
    cfx_value e = OP("neg", OP("truediv", a, b));
    cfx_value g = OP("pow", OP("matmul", e, cfx_method(c, "t")), 2);
    cfx_value i = OP("invert", OP("gt", x, y));
    cfx_value k = OP("sub", 1, OP("mod", g, 3)), l = OP("floordiv", x, y);
    cfx_value abs = OP("abs", g), and = OP("and_", x, y), or = OP("or_", x, y);
    cfx_value xor = OP("xor", x, y), left = OP("lshift", x, 1), right = OP("rshift", x, 1);
    cfx_value power = OP("pow", 2, x), ne = OP("ne", x, y);
    return cfx_tuple(k, i, l, abs, and, or, xor, left, right, power, ne, OP("le", x, 0));
}

TEST(fx_operators) { check_case(plain("Operators", operators, "x, y")); }

static cfx_value simple(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "linear", a.v[0])));
}

static cfx_module *new_simple(void) {
    cfx_module *m = plain("SimpleModel", simple, "x");
    cfx_nn_add(m, "linear", cfx_nn_linear(5, 5));
    return m;
}

TEST(fx_simple_model) { check_case(new_simple()); }

static cfx_value typed(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_py("torch.cat", cfx_list(OP("mul", a.v[0], a.v[1]), a.v[0]), CFX_KW(dim, 0));
}

TEST(fx_typed) {
    check_case(plain("Typed", typed, "x : torch.Tensor, n : int -> torch.Tensor"));
}

static cfx_value root_of(cfx_args a) { return cfx_float(sqrt(cfx_number(a.v[0]))); }

static cfx_value float_fn(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_wrap("math.sqrt", root_of, a.v[0]);
}

TEST(fx_wrapped_function) { check_case(plain("UsesFloatFn", float_fn, "x")); }

static cfx_value var_args(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value y = OP("add", a.v[0], cfx_at(a.v[1], 0));
    return OP("add", y, OP("getitem", a.v[2], "k"));
}

TEST(fx_var_args) { check_case(plain("VarArgs", var_args, "x, *args, **kwargs")); }

/* ---- transformations ------------------------------------------------------------------------- */

static cfx_value flagged(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(a.v[0], cfx_is_true(a.v[1]) ? "relu" : "neg");
}

TEST(fx_concrete_args) {
    cfx_module *m = plain("GraphModule", flagged, "x, flag");
    cfx_tracer t = {.concrete_args = cfx_dict_new()};
    cfx_dict_set(t.concrete_args, "flag", cfx_bool(true));
    compare_texts("T_concrete_args", cfx_graph_module(m, cfx_tracer_trace(&t, m), NULL), "");
    CHECK_OK();
}

TEST(fx_conv_bn_fused) {
    cfx_module *m = new_nested();
    cfx_module_train(m, false);
    cfx_module *gm = cfx_fuse_conv_bn(m);
    gm = gm ? cfx_graph_module(gm, gm->graph, "GraphModule") : NULL;
    compare_texts("T_conv_bn_fused", gm, "");
    CHECK_OK();
}

TEST(fx_fuse_conv_relu) {
    cfx_module *gm = cfx_symbolic_trace(new_conv_relu());
    cfx_each_node(gm->graph, n)
        if (n->op == CFX_CALL_FUNCTION && n->target.op == &cfx_op_relu &&
            cfx_node_input(n, 0)->op == CFX_CALL_MODULE) {
            cfx_node_replace(n, cfx_node_input(n, 0));
            cfx_graph_erase(n);
        }
    compare_texts("T_fuse_conv_relu", gm, "");
    CHECK_OK();
}

TEST(fx_insert_after) {
    cfx_module *gm = cfx_symbolic_trace(new_simple());
    cfx_node *relu = cfx_graph_find(gm->graph, "relu");
    CFX_INSERT_AFTER(gm->graph, relu) {
        cfx_node *neg = cfx_graph_call_method(gm->graph, "neg", cfx_tuple(relu), CFX_NONE);
        cfx_node_replace(relu, neg);
    }
    compare_texts("T_insert_after", gm, "");
    CHECK_OK();
}

static cfx_value to_sigmoid(cfx_interp *it, cfx_target t, cfx_args a) {
    if (t.op == &cfx_op_relu)
        t = cfx_target_named("torch.sigmoid");
    return cfx_interp_call_function(it, t, a);
}

TEST(fx_transformer_relu_to_sigmoid) {
    cfx_interp it = {.module = cfx_symbolic_trace(new_conv_relu()), .call_function = to_sigmoid};
    compare_texts("T_transformer_relu_to_sigmoid", cfx_transform(&it), "");
    CHECK_OK();
}

static cfx_value neg_sigmoid(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(cfx_sigmoid(a.v[0]), "neg");
}

static cfx_value neg_for_sigmoid(cfx_interp *it, cfx_target t, cfx_args a) {
    return t.op == &cfx_op_sigmoid ? cfx_tensor_value(cfx_neg(a.v[0]))
                                   : cfx_interp_call_function(it, t, a);
}

static cfx_value twice_for_neg(cfx_interp *it, cfx_target t, cfx_args a) {
    return !strcmp(t.name, "neg") ? OP("mul", a.v[0], 2) : cfx_interp_call_method(it, t, a);
}

TEST(fx_transformer_neg_sigmoid) {
    cfx_interp it = {.module = cfx_symbolic_trace(plain("fn", neg_sigmoid, "x")),
                     .call_function = neg_for_sigmoid, .call_method = twice_for_neg};
    compare_texts("T_transformer_neg_sigmoid", cfx_transform(&it), "");
    CHECK_OK();
}

static cfx_value max_of_sums(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value m1 = cfx_method(cfx_cat(cfx_list(a.v[1], a.v[2])), "sum");
    cfx_value m2 = cfx_method(cfx_cat(cfx_list(a.v[1], a.v[2])), "sum");
    return OP("add", OP("add", a.v[0], cfx_max(m1)), cfx_max(m2));
}

static cfx_value sum_of_cat(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_method(cfx_cat(cfx_list(a.v[0], a.v[1])), "sum");
}

static cfx_value stack_of_two(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_stack(cfx_list(a.v[0], a.v[1])));
}

TEST(fx_replace_pattern) {
    cfx_module *gm = cfx_symbolic_trace(plain("fn", max_of_sums, "x, w1, w2"));
    cfx_matches *m = cfx_replace_pattern(gm, plain("pattern", sum_of_cat, "w1, w2"),
                                         plain("replacement", stack_of_two, "w1, w2"));
    CHECK(m && m->len == 2);
    compare_texts("T_replace_pattern", gm, "");
    CHECK_OK();
}

static int after_relu(cfx_node *n, void *user) {
    (void)user;
    return strcmp(n->name, "fc1") && strcmp(n->name, "relu");
}

TEST(fx_split_module) {
    cfx_module *gm = cfx_symbolic_trace(new_mlp());
    compare_texts("T_split", cfx_split_module(gm, after_relu, NULL, (cfx_split_options){0}), "");
    CHECK_OK();
}

static bool sequential_too(cfx_tracer *t, cfx_module *m, const char *path) {
    return !strcmp(m->type, "Sequential") || cfx_tracer_is_leaf(t, m, path);
}

TEST(fx_leaf_policy) {
    cfx_module *m = new_nested();
    cfx_tracer t = {.is_leaf = sequential_too};
    compare_texts("T_wrapped_leaf", cfx_graph_module(m, cfx_tracer_trace(&t, m), NULL), "");
    CHECK_OK();
}

/* Whether a tensor needs a gradient is the grad room's affair: left out of both texts. */
static void without_grad(char *text) {
    static const char cut[] = "requires_grad=True, ", other[] = "requires_grad=False, ";
    for (char *p; (p = strstr(text, "requires_grad="));) {
        size_t n = !strncmp(p, cut, sizeof cut - 1) ? sizeof cut - 1 : sizeof other - 1;
        memmove(p, p + n, strlen(p + n) + 1);
    }
}

TEST(fx_shape_prop) {
    cfx_module *m = new_nested();
    cfx_module_train(m, false);
    cfx_module *gm = cfx_symbolic_trace(m);
    cfx_shape_prop(gm, cfx_randn(2, 4, 8, 8));
    CHECK_OK();
    compare_texts("T_shape_prop", gm, "");
    char got[1 << 14] = "", *want = reference("fx/T_shape_prop", "printed");
    cfx_each_node(gm->graph, n)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s %s", *got ? "\n" : "", n->name,
                 cfx_tensor_meta_str(cfx_node_get_meta(n, "tensor_meta")));
    without_grad(got);
    without_grad(want);
    CHECK_STR(got, want);
    free(want);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* The recorded error reads as torch.fx's ("Kind: message", then what was added). */
static void check_error(const char *name) {
    const cfx_error *e = cfx_error_last();
    char *want = reference("fx_errors", name), got[4096] = "no error";
    if (e)
        snprintf(got, sizeof got, "%s: %s%s%s", cfx_error_kind_name(e->kind), e->message,
                 e->notes ? "\n" : "", e->notes ? e->notes : "");
    size_t n = want ? strlen(want) : 0; /* ours may go on: module path and source line */
    if (!want || strncmp(got, want, n) || (got[n] && got[n] != '\n'))
        test_fail(CFX_HERE, "%s: the error is\n%s\n---- not ----\n%s", name, got, want);
    free(want);
    cfx_error_clear();
}

static void check_refused(const char *name, cfx_forward_fn *forward, const char *signature) {
    CHECK(cfx_failed(cfx_symbolic_trace(plain(name, forward, signature))));
    check_error(name);
}

static cfx_value control_if(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_is_true(OP("gt", cfx_method(a.v[0], "sum"), 0)) ? cfx_method(a.v[0], "relu")
                                                               : a.v[0];
}

static cfx_value control_while(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = a.v[0];
    while (cfx_is_true(OP("lt", cfx_method(x, "norm"), 10)))
        x = OP("mul", x, 2);
    return x;
}

static cfx_value control_loop(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = a.v[0], rows = cfx_items(x);
    for (int64_t i = 0; !cfx_is_bad(rows) && i < cfx_len(rows); i++)
        x = OP("add", x, cfx_at(rows, i));
    return x;
}

static cfx_value uses_range(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = a.v[0];
    for (int64_t i = 0, n = cfx_integer(cfx_size(cfx_as_tensor(x), 0)); i < n; i++)
        x = OP("add", x, i);
    return x;
}

static cfx_value uses_len(cfx_module *self, cfx_args a) {
    (void)self;
    return OP("add", a.v[0], cfx_len(a.v[0]));
}

TEST(fx_what_cannot_be_traced) {
    check_refused("ControlFlowIf", control_if, "x");
    check_refused("ControlFlowWhile", control_while, "x");
    check_refused("ControlFlowLoop", control_loop, "x");
    check_refused("UsesContains", control_loop, "x"); /* `k in x` goes over x in Python */
    check_refused("UsesIndexRange", uses_range, "x");
    check_refused("UsesLen", uses_len, "x");
}

TEST(fx_mistakes_while_running) {
    cfx_interp it = {.module = cfx_symbolic_trace(new_simple())};
    cfx_run(&it, cfx_randn(2, 3));
    check_error("E_bad_shape");
    cfx_run_from(CFX_HERE, &it, (cfx_args){0});
    check_error("E_too_few_args");
}

TEST(fx_mistakes_on_graphs) {
    cfx_module *gm = cfx_symbolic_trace(new_simple());
    CHECK(!cfx_graph_erase(cfx_graph_find(gm->graph, "linear")));
    check_error("E_erase_used");
    CHECK_INT(cfx_graph_len(gm->graph), 4);

    cfx_graph *g = cfx_graph_new(), *h = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(h, "x", NULL, false, CFX_NONE);
    cfx_graph_output(
        g, cfx_node_value(cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE)));
    CHECK(!cfx_graph_lint(g, NULL));
    check_error("E_foreign_node");

    g = cfx_graph_new();
    x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node *y = cfx_graph_call_function(g, "torch.relu", cfx_tuple(x), CFX_NONE);
    cfx_node *z = cfx_graph_call_function(g, "torch.neg", cfx_tuple(y), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(z));
    cfx_node_set_args(y, cfx_tuple(z));
    CHECK(!cfx_graph_lint(g, NULL));
    check_error("E_use_before_def");

    g = cfx_graph_new();
    x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_node_value(x));
    cfx_graph_output(g, cfx_node_value(x));
    CHECK(cfx_graph_lint(g, NULL));
    check_error("E_double_output");

    g = cfx_graph_new();
    x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_graph_output(g, cfx_node_value(cfx_graph_call_module(g, "nope", cfx_tuple(x), CFX_NONE)));
    CHECK(cfx_failed(cfx_graph_module(plain("Module", NULL, ""), g, NULL)));
    check_error("E_missing_module");
}
