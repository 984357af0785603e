/* Core ATen where sizes vary: which sizes are read and computed, where, and what is left unused.
 * The programs and what PyTorch makes of each are in tests/data/decomposed.txt. */
#include "../graph/plain_test.h"
#include "decompose_test.h"

/* Code without the words on which values are not needed any more. */
static const char *without_ends(const char *code) {
    cfx__text out = {0};
    for (; *code; code++) {
        if (!strncmp(code, ";  ", 3))
            code += strcspn(code, "\n");
        cfx__text_putc(&out, *code);
    }
    return cfx__text_take(&out);
}

static const char *numbered(const char *code) { return trimmed(without_ends(plain(code))); }

static void check_program(const char *name, const char *text, const char *core) {
    cfx_program *d = cfx_decompose(program_of(text), CFX_NONE);
    const char *got = cfx_failed(d) ? cfx_error_last()->message : cfx_module_code(d->module);
    CHECK_OK();
    if (strcmp(numbered(got), trimmed(core)))
        test_fail(CFX_HERE, "%s is\n%s\n---- not ----\n%s", name, numbered(got), trimmed(core));
}

TEST(decompose_sizes_as_pytorch_does) {
    FILE *f = fopen(CFX_TEST_DATA "/decomposed.txt", "rb");
    cfx__text all = {0};
    char block[4096];
    int seen = 0;
    CHECK(f != NULL);
    for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
        cfx__text_add(&all, block, n);
    fclose(f);
    for (char *at = all.data, *next; at && !strncmp(at, "== ", 3); at = next, seen++) {
        size_t mark = cfx_scope_open();
        char *text = strchr(at, '\n'), *core = strstr(text, "\n-- core\n");
        next = strstr(core, "\n== ");
        *text++ = '\0', *core = '\0';
        if (next)
            *next++ = '\0';
        check_program(at + 3, text, core + strlen("\n-- core\n"));
        cfx_scope_close(mark);
    }
    cfx__text_release(&all);
    CHECK(seen > 30);
}

/* An expression that is one number at all sizes, but not for PyTorch, stays an argument. */
TEST(decompose_expressions_of_one_value) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[8, s27]\"):\n"
             "        n: \"Sym(s27)\" = torch.ops.aten.sym_size.int(x, 1)\n"
             "        sub: \"Sym(1 - s27)\" = 1 - n\n"
             "        sym_max: \"Sym(Max(0, 1 - s27))\" = torch.sym_max(sub, 0)\n"
             "        s: \"f32[8, s27]\" = torch.ops.aten.slice.Tensor(x, 0, sym_max)\n"
             "        return (s,)\n");
    HAS(code, "    sym_max = torch.sym_max(sub, 0)");
    HAS(code, "torch.ops.aten.slice.Tensor(x, 0, sym_max)");
    code = core_code(
        HEAD "    def forward(self, x: \"f32[s27, 8]\"):\n"
             "        n: \"Sym(s27)\" = torch.ops.aten.sym_size.int(x, 0)\n"
             "        m: \"Sym(s27//4)\" = n // 4\n"
             "        v: \"f32[s27//4, s27//(s27//4), 8]\" = torch.ops.aten.view.default(x, [m, 4, "
             "8])\n"
             "        w: \"f32[s27//4, s27//(s27//4), s27//(s27//4)]\" = "
             "torch.ops.aten.einsum.default('bij,bkj->bik', [v, v])\n"
             "        return (w,)\n");
    HAS(code, "    view = torch.ops.aten.view.default(x, [floordiv, 4, 8])");
    HAS(code, " = sym_size_int_3 // floordiv");
}

/* What the program asserts of data bounds it, by the largest size that it is compared with; that
 * follows, and is not asserted beside it. */
TEST(decompose_data_is_bounded_by_sizes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"i64[s27]\"):\n"
             "        n: \"Sym(s27)\" = torch.ops.aten.sym_size.int(x, 0)\n"
             "        most: \"i64[]\" = torch.ops.aten.max.default(x)\n"
             "        item: \"Sym(u0)\" = torch.ops.aten.item.default(most)\n"
             "        le: \"Sym(u0 <= s27)\" = item <= n\n"
             "        _assert_scalar_default = torch.ops.aten._assert_scalar.default(le, \"Runtime "
             "assertion failed for expression u0 <= s27 on node 'le'\")\n"
             "        return (x,)\n");
    cfx_dict_set(p->ranges, "s27", cfx_tuple(2, 64));
    cfx_dict_set(p->ranges, "u0", cfx_tuple(CFX_NONE, CFX_NONE));
    const char *code = cfx_module_code(cfx_decompose(p, CFX_NONE)->module);
    CHECK_OK();
    CHECK(!strstr(code, "u0 <= 64"));
    HAS(code, "for expression u0 <= s27 on node 'le");
}

/* Of two sizes that the program asserts to be one each is read where it appears. */
TEST(decompose_data_that_is_equal) {
    const char *code = core_code(
        HEAD "    def forward(self, x: \"f32[6, 4]\", m: \"b8[6]\"):\n"
             "        a: \"f32[u0, 4]\" = torch.ops.aten.index.Tensor(x, [m])\n"
             "        i: \"Sym(u0)\" = torch.ops.aten.sym_size.int(a, 0)\n"
             "        b: \"f32[u1, 4]\" = torch.ops.aten.index.Tensor(x, [m])\n"
             "        k: \"Sym(u1)\" = torch.ops.aten.sym_size.int(b, 0)\n"
             "        eq: \"Sym(Eq(u1, u0))\" = k == i\n"
             "        _assert_scalar_default = torch.ops.aten._assert_scalar.default(eq, \"Runtime "
             "assertion failed for expression Eq(u1, u0) on node 'eq'\")\n"
             "        add: \"f32[u1, 4]\" = torch.ops.aten.add.Tensor(b, a)\n"
             "        return (add,)\n");
    HAS(code, "torch.ops.aten.sym_size.int(index, 0)\n");
    HAS(code, "torch.ops.aten.sym_size.int(index_1, 0)\n");
    HAS(code, "for expression Eq(u1, u0) on node 'eq");
}

/* A program that holds at few sizes says at which: those are tried then. */
TEST(decompose_under_guards) {
    const char *text =
        HEAD "    def forward(self, x: \"f32[s27, 4]\"):\n"
             "        n: \"Sym(s27)\" = torch.ops.aten.sym_size.int(x, 0)\n"
             "        a: \"f32[s27, 4]\" = torch.ops.aten.slice.Tensor(x, 0, 0, 65)\n"
             "        v: \"f32[s27, 2, 2]\" = torch.ops.aten.view.default(a, [n, 2, 2])\n"
             "        return (v,)\n";
    cfx_program *p = program_of(text);
    cfx_value few = cfx_list("L['x'].size()[0] <= 65 and not (L['x'].size()[0] == 3)",
                             "(L['x'].size()[0] + 2*min(4, L['x'].size()[0])) // 1 >= -1",
                             "unheard_of(L['x'])");
    cfx_dict_set(p->extra, "guards", few);
    HAS(cfx_module_code(cfx_decompose(p, CFX_NONE)->module), "view.default(slice_1, [sym_size_int");
    CHECK_OK();
}

static const char wrapped[] =
    HEAD "    def forward(self, x: \"f32[s27, s77]\"):\n"
         "        c: \"f32[s27, s77]\" = torch.ops.aten.clone.default(x)\n"
         "        f: \"f32[s27, s77]\" = torch.ops.aten.fill_diagonal_.default(c, 9, True)\n"
         "        return (f,)\n";

static void check_at(const cfx_program *a, const cfx_program *b, int rows, int cols) {
    CFX_SCOPE {
        cfx_tensor *x = cfx_randn(rows, cols);
        cfx_tensor *want = cfx_tensor_at(cfx_forward_value(a->module, x), 0);
        cfx_tensor *got = cfx_tensor_at(cfx_forward_value(b->module, x), 0);
        CHECK_OK();
        CHECK(cfx_is_true(cfx_equal(got, want)));
    }
}

/* A diagonal begins again only where the matrix is tall: one program holds for all. */
TEST(decompose_wrapped_diagonals_of_all_sizes) {
    cfx_program *p = program_of(wrapped), *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    for (int rows = 2; rows < 12; rows++)
        for (int cols = 2; cols < 5; cols++)
            check_at(p, d, rows, cols);
}

/* As long as the shorter side, whichever that is at the sizes of the example. */
TEST(decompose_diagonals_of_all_sizes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s27, 3]\"):\n"
             "        c: \"f32[s27, 3]\" = torch.ops.aten.clone.default(x)\n"
             "        f: \"f32[s27, 3]\" = torch.ops.aten.fill_diagonal_.default(c, 9)\n"
             "        return (f,)\n");
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(d->module), "torch.sym_min(");
    for (int rows = 2; rows < 6; rows++)
        check_at(p, d, rows, 3);
}

/* Of others it depends on sizes and strides which elements it comes to. */
TEST(decompose_refuses_wrapped_diagonals_of_what_is_not_contiguous) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s27, s77]\"):\n"
             "        n: \"f32[s27, s77]\" = torch.ops.aten.neg.default(x)\n"
             "        t: \"f32[s77, s27]\" = torch.ops.aten.t.default(n)\n"
             "        f: \"f32[s77, s27]\" = torch.ops.aten.fill_diagonal_.default(t, 9, True)\n"
             "        return (f,)\n");
    CHECK(cfx_failed(cfx_decompose(p, CFX_NONE)));
    CHECK_ERROR("a wrapped diagonal of a matrix that is not contiguous cannot be taken apart where "
                "its sizes vary");
}

/* What an operator is made of may depend on sizes: it stays whole then. */
TEST(decompose_keeps_what_depends_on_sizes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s77, s27]\"):\n"
             "        a: \"f32[s77, Min(100, s27)]\" = torch.ops.aten.slice.Tensor(x, 1, 0, 100)\n"
             "        r: \"f32[s77*Min(100, s27)]\" = torch.ops.aten.reshape.default(a, [-1])\n"
             "        return (r,)\n");
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    HAS(cfx_module_code(d->module), "torch.ops.aten.reshape.default(slice_1, [-1])");
    check_at(p, d, 3, 100);
    check_at(p, d, 3, 101);
}

/* Chunks are not split by a number then: a write to one is put back where it begins. */
TEST(decompose_writes_to_chunks_of_all_sizes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s27, s77]\"):\n"
             "        c: \"f32[s27, s77]\" = torch.ops.aten.clone.default(x)\n"
             "        k = torch.ops.aten.chunk.default(c, 2)\n"
             "        g = k[1]\n"
             "        f = torch.ops.aten.mul_.Tensor(g, 2)\n"
             "        y: \"f32[s27, s77]\" = torch.ops.aten.add.Tensor(c, x)\n"
             "        return (y,)\n");
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    for (int rows = 2; rows < 12; rows++)
        check_at(p, d, rows, 3);
}

static void flat_or_tall(cfx_op_call *c) {
    cfx_tensor *t = cfx_as_tensor(c->args[0]);
    c->out[0] = t->shape[0] > 100 ? cfx_sin(t) : cfx_cos(t);
}

/* Where it cannot, or there is a form of the caller's, that is refused: no program is right at some
 * of its sizes alone. */
TEST(decompose_refuses_what_depends_on_sizes) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s27, 4]\"):\n"
             "        e: \"f32[s27, 4]\" = torch.ops.aten.relu.default(x)\n"
             "        return (e,)\n");
    const cfx_decomposition own = {"aten.relu.default", flat_or_tall};
    CHECK(cfx_failed(cfx_decompose_by(p, (cfx_decompose_options){.own = &own, .nown = 1})));
    CHECK_ERROR("the program cannot be taken apart for all sizes it is made for: at s27 = 1028, "
                "which it is made for, e is made of other operators than at the sizes of the "
                "example");
}

/* Sizes that were found to be equal after something was asserted of one: the assertion names that
 * one still, and reads it off its own input; all else is the symbol that stands for both. */
TEST(decompose_assertions_of_replaced_symbols) {
    cfx_program *p = program_of(
        HEAD
        "    def forward(self, input_ids: \"i64[s43, s53]\", attention_mask: \"i64[s43, s53]\"):\n"
        "        size: \"Sym(s53)\" = torch.ops.aten.sym_size.int(input_ids, 1)\n"
        "        other: \"Sym(s53)\" = torch.ops.aten.sym_size.int(attention_mask, 1)\n"
        "        max_1: \"i64[]\" = torch.ops.aten.max.default(input_ids)\n"
        "        item: \"Sym(u0)\" = torch.ops.aten.item.default(max_1)\n"
        "        few: \"Sym(u0 <= 60)\" = item <= 60\n"
        "        c = torch.ops.aten._assert_scalar.default(few, \"Runtime assertion failed for "
        "expression u0 <= 60 on node 'few'\")\n"
        "        le: \"Sym(u0 <= s53)\" = item <= size\n"
        "        a = torch.ops.aten._assert_scalar.default(le, \"Runtime assertion failed for "
        "expression u0 <= s70 on node 'le'\")\n"
        "        le_1: \"Sym(u0 <= s53)\" = item <= other\n"
        "        b = torch.ops.aten._assert_scalar.default(le_1, \"Runtime assertion failed for "
        "expression u0 <= s53 on node 'le_1'\")\n"
        "        arange: \"i64[s53]\" = torch.ops.aten.arange.default(other)\n"
        "        return (arange,)\n");
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    const char *code = plain(cfx_module_code(d->module));
    HAS(code, "    v0 = torch.ops.aten.sym_size.int(input_ids, 1)\n"
              "    v1 = torch.ops.aten.sym_size.int(attention_mask, 1)");
    HAS(code, "v6 = v3 <= 60");
    HAS(code, "v8 = v3 <= v0");
    HAS(code, "expression u0 <= s70 on node 'v8'");
    HAS(code, "v10 = v3 <= v1");
    HAS(code, "expression u0 <= s53 on node 'v10'");
    CHECK(!strstr(strstr(code, "<= 60") + 1, "= v3 <= 60"));
    HAS(code, "arange.start_step(0, v1");
    CHECK(cfx_program_check(d));
    const cfx_node *read = cfx_node_after(cfx_node_after(cfx_graph_first(d->module->graph)));
    CHECK_STR(cfx_value_str(cfx_node_get_meta(read, "val")), "s53");
}

/* Images of one element a plane are contiguous in both orders. Where sizes vary, PyTorch takes sums
 * of such for plain ones, so that their means need no order of their own. */
TEST(decompose_sums_of_single_elements_are_plain) {
    cfx_program *p = program_of(
        HEAD "    def forward(self, x: \"f32[s77, 64, 1, 1][64, 1, 64, 64]\","
             " y: \"f32[s77, 64, 1, 1][64, 1, 64, 64]\"):\n"
             "        add: \"f32[s77, 64, 1, 1][64, 1, 1, 1]\" = torch.ops.aten.add.Tensor(x, y)\n"
             "        pool: \"f32[s77, 64, 1, 1][64, 1, 1, 1]\" ="
             " torch.ops.aten.adaptive_avg_pool2d.default(add, [1, 1])\n"
             "        return (pool,)\n");
    cfx_program *d = cfx_decompose(p, CFX_NONE);
    CHECK_OK();
    CHECK_STR(plain(cfx_module_code(d->module)),
              "\n\n\ndef forward(self, x, y):\n"
              "    v0 = torch.ops.aten.add.Tensor(x, y);  x = y = None\n"
              "    v1 = torch.ops.aten.mean.dim(v0, [-1, -2], True);  v0 = None\n"
              "    return (v1,)\n    ");
}
