/* Loop kernels against the interpreter: the same bits for chains, whatever the dtypes, strides and
 * broadcasting; rows that are folded; what is stored beside the result. */
#include "plan.h"
#include "plan_test.h"

#include "numbers.h"

static cfx_program *program(const char *inputs, const char *body) {
    cfx__text t = {0};
    cfx__text_printf(&t, HEAD "%s):\n%s", inputs, body);
    return program_of(cfx__text_take(&t), cfx_dict_new());
}

static cfx_value run_on(const cfx_executor *x, cfx_program *p, int n, cfx_value *in) {
    return cfx_program_run_with(CFX_HERE, p, x, NULL, (cfx_args){n, in, NULL});
}

/* Whether both give the same, bit by bit or nearly, in the same strides. */
static bool same(cfx_program *p, int n, cfx_value *in, bool exact) {
    cfx_value a = run_on(&cfx_interpreter, p, n, in), b = run_on(&cfx_planner, p, n, in);
    if (!cfx_ok())
        return false;
    for (int64_t i = 0; i < cfx_as_list(a)->len; i++) {
        cfx_tensor *s = cfx_as_tensor(cfx_at(a, i)), *t = cfx_as_tensor(cfx_at(b, i));
        if (s->dtype != t->dtype || !cfx__tensor_same_shape(s, t) ||
            memcmp(s->stride, t->stride, (size_t)s->ndim * sizeof *s->stride) ||
            !cfx_integer(exact ? cfx_equal(s, t) : cfx_allclose(s, t, 1e-5, 1e-6, true)))
            return false;
    }
    return true;
}

static const char *plan_of(cfx_program *p, int n, cfx_value *in) {
    return cfx_program_plan_from(CFX_HERE, p, (cfx_args){n, in, NULL});
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

#define V(t) cfx_tensor_value(t)

static const char chain[] = CALL("a", "mul.Tensor", "x, y") CALL("b", "add.Tensor", "a, 3")
    CALL("c", "clamp.default", "b, -2, 9") CALL("d", "sub.Tensor", "c, y, alpha=2")
        CALL("e", "abs.default", "d") "        return (e,)\n";

TEST(loops_say_what_they_compute) {
    cfx_program *p = program("x, y", chain);
    cfx_value in[] = {V(cfx_rand(7, 5, 33)), V(cfx_rand(5, 1))};
    CHECK(strstr(plan_of(p, 2, in),
                 "\n    for each of [7, 5, 33]\n"
                 "        v0 = x *y : f32\n"
                 "        v1 = v0 + 1.0 * 3.0 : f32\n"
                 "        v2 = BELOW(ABOVE(v1, -2.0), 9.0) : f32\n"
                 "        v3 = v2 - 2.0 * y : f32\n"
                 "        v4 = fabs(v3) : f32\n"
                 "        e = v4\n"));
    p = program("x", CALL("s", "sum.dim_IntList", "x, [-1], True") CALL("d", "div.Tensor", "x, s")
                         CALL("m", "softmax.int", "d, -1") CALL("h", "to.dtype", "m, torch.float16")
                             CALL("n", "lt.Scalar", "x, 0")
                                 CALL("w", "masked_fill.Scalar", "h, n, 2.5")
                                     "        return (w,)\n");
    CHECK(strstr(plan_of(p, 1, in),
                 "\n    for each of [7, 5, 33], rows of 33\n"
                 "        v0 = sum(x) of the row : f32\n"
                 "        v2 = x / v0 : f32\n"
                 "        v3 = softmax(v2) : f32\n"
                 "        v4 = f16(v3) : f16\n"
                 "        v5 = x < 0.0 : b8\n"
                 "        v6 = v5 ? 2.5 : v4 : f16\n"
                 "        w = v6\n"));
}

TEST(a_chain_is_one_loop_with_the_bits_of_its_calls) {
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_F64, CFX_F16, CFX_BF16,
                                       CFX_I64, CFX_I32, CFX_U8,  CFX_I8};
    cfx_program *p = program("x, y", chain);
    for (int i = 0; i < COUNT(dtypes); i++) {
        cfx_value d = cfx_dtype_value(dtypes[i]);
        cfx_value in[] = {V(cfx_to(cfx_mul(cfx_rand(7, 5, 33), 20), d)),
                          V(cfx_to(cfx_mul(cfx_rand(5, 1), 5), d))};
        CHECK_INT(count(plan_of(p, 2, in), "\n1 kernels, "), 1);
        CHECK_INT(count(plan_of(p, 2, in), "loop of mul, add, clamp, sub, abs"), 1);
        CHECK(same(p, 2, in, true));
    }
    cfx_value large[] = {V(cfx_randn(300, 1000)), V(cfx_randn(1000))};
    CHECK(same(p, 2, large, true));
    cfx_value one[] = {V(cfx_randn(1)), V(cfx_randn(1, 1, 1))};
    CHECK(same(p, 2, one, true));
    CHECK_OK();
}

TEST(a_loop_takes_operands_as_they_lie) {
    cfx_program *p = program("x, y", chain);
    cfx_value in[] = {V(cfx_transpose(cfx_randn(40, 30, 20), 0, 2)), V(cfx_randn(30, 40))};
    CHECK(same(p, 2, in, true));
    in[0] = V(cfx_permute(cfx_randn(2, 9, 7, 30), cfx_list(0, 3, 1, 2)));
    in[1] = V(cfx_randn(30, 1, 1));
    CHECK(same(p, 2, in, true));
    in[0] = V(cfx_expand(cfx_randn(1, 60), cfx_list(50, 60)));
    in[1] = V(cfx_slice(cfx_randn(50, 120), 1, 0, 120, 2));
    CHECK(same(p, 2, in, true));
    in[0] = V(cfx_randn(0, 4));
    in[1] = V(cfx_randn(4));
    CHECK(same(p, 2, in, true));
    CHECK_OK();
}

TEST(dtypes_meet_in_a_loop) {
    cfx_program *p = program(
        "x, y, z",
        CALL("a", "lt.Tensor", "x, y") CALL("b", "where.self", "a, x, z")
            CALL("c", "to.dtype", "b, torch.float64") CALL("d", "sqrt.default", "c")
                CALL("e", "masked_fill.Scalar", "d, a, -1.5")
                    CALL("f", "to.dtype", "e, torch.bfloat16") CALL("g", "mul.Tensor", "f, 0.1")
                        CALL("h", "logical_and.default", "a, g") "        return "
                                                                 "(g, h, c)\n");
    cfx_value in[] = {V(cfx_rand(17, 40)), V(cfx_to(cfx_randint(3, cfx_list(17, 1)), CFX_I32)),
                      V(cfx_to(cfx_rand(40), CFX_F16))};
    CHECK_INT(count(plan_of(p, 3, in), "loop of lt, where, to, sqrt, masked_fill, to, mul, logic"),
              1);
    CHECK(same(p, 3, in, true));
    CHECK_OK();
}

/* ---- rows ------------------------------------------------------------------------------------ */

TEST(rows_are_folded_inside_a_loop) {
    cfx_program *rms = program(
        "x, w, r", CALL("h", "add.Tensor", "x, r") CALL("a", "pow.Tensor_Scalar", "h, 2")
                       CALL("b", "mean.dim", "a, [-1], True") CALL("c", "add.Tensor", "b, 1e-06")
                           CALL("d", "rsqrt.default", "c") CALL("e", "mul.Tensor", "h, d")
                               CALL("f", "mul.Tensor", "w, e") "        return (f, h)\n");
    static const int64_t widths[] = {1, 3, 64, 500, 5000};
    for (int i = 0; i < COUNT(widths); i++) {
        cfx_value in[] = {V(cfx_randn(2, 9, widths[i])), V(cfx_randn(widths[i])),
                          V(cfx_randn(9, widths[i]))};
        CHECK_INT(count(plan_of(rms, 3, in), "loop of add, pow, mean, add, rsqrt, mul, mul"), 1);
        CHECK(same(rms, 3, in, true));
    }
    cfx_value wide[] = {V(cfx_randn(2, 9000)), V(cfx_randn(9000)), V(cfx_randn(9000))};
    CHECK(same(rms, 3, wide, true));
    CHECK_OK();
}

TEST(softmax_and_norms_are_part_of_loops) {
    cfx_program *p = program(
        "x, m, w, b",
        CALL("s", "div.Tensor", "x, 8") CALL("t", "masked_fill.Scalar", "s, m, -1e9")
            CALL("u", "softmax.int", "t, -1") CALL("n", "layer_norm.default", "u, [24], w, b")
                CALL("z", "add.Tensor", "n, x") CALL("k", "amax.default", "z, [-1]")
                    CALL("l", "exp.default", "k") "        return (z, k, l)\n");
    cfx_value in[] = {V(cfx_randn(3, 10, 24)), V(cfx_gt(cfx_rand(10, 24), 0.7)), V(cfx_randn(24)),
                      V(cfx_randn(24))};
    CHECK_INT(count(plan_of(p, 4, in), "loop of div, masked_fill, softmax, layer_norm, add, amax"),
              1);
    CHECK(same(p, 4, in, false));
    in[0] = V(cfx_to(cfx_as_tensor(in[0]), CFX_BF16));
    in[2] = V(cfx_to(cfx_as_tensor(in[2]), CFX_BF16));
    in[3] = V(cfx_to(cfx_as_tensor(in[3]), CFX_BF16));
    CHECK(same(p, 4, in, false));
    CHECK_OK();
}

TEST(a_loop_over_several_dims_of_rows) {
    cfx_program *p = program("x, w", CALL("a", "relu.default", "x")
                                         CALL("n", "layer_norm.default", "a, [4, 6], w")
                                             CALL("s", "sum.dim_IntList", "n, [1, 2], True")
                                                 CALL("d", "sub.Tensor", "n, s") "        return "
                                                                                 "(d, s)\n");
    cfx_value in[] = {V(cfx_randn(11, 4, 6)), V(cfx_randn(4, 6))};
    CHECK_INT(count(plan_of(p, 2, in), "loop of relu, layer_norm, sum, sub"), 1);
    CHECK(same(p, 2, in, false));
    in[0] = V(cfx_transpose(cfx_randn(11, 6, 4), 1, 2));
    CHECK(same(p, 2, in, false));
    CHECK_OK();
}

/* ---- random graphs --------------------------------------------------------------------------- */

static int roll(int n) { return (int)test_draw((uint32_t)n); }

/* A graph of n steps over inputs of shapes that broadcast; each step reads any before it. */
static const char *random_body(int n) {
    static const char *const unary[] = {"relu.default", "neg.default", "abs.default",
                                        "sigmoid.default", "square.default"};
    static const char *const binary[] = {"add.Tensor", "sub.Tensor", "mul.Tensor",
                                         "maximum.default"};
    static const char *const rows[][2] = {{"sum.dim_IntList", ", [-1], True"},
                                          {"softmax.int", ", -1"},
                                          {"amax.default", ", [-1], True"},
                                          {"mean.dim", ", [-1], True"}};
    cfx__text t = {0};
    for (int i = 0; i < n; i++) {
        const int a = roll(i + 4), b = roll(i + 4), kind = roll(8), row = roll(4);
        cfx__text_printf(&t, "        v%d = torch.ops.aten.", i + 4);
        if (kind < 2)
            cfx__text_printf(&t, "%s(v%d)\n", unary[roll(COUNT(unary))], a);
        else if (kind == 2)
            cfx__text_printf(&t, "%s(v%d%s)\n", rows[row][0], a, rows[row][1]);
        else
            cfx__text_printf(&t, "%s(v%d, v%d)\n", binary[roll(COUNT(binary))], a, b);
    }
    cfx__text_printf(&t, "        return (v%d, v%d, v%d)\n", n + 3, n + 2, 4 + roll(n));
    return cfx__text_take(&t);
}

TEST(random_graphs_give_the_same_through_loops) {
    test_seed(20);
    for (int i = 0; i < 80; i++)
        CFX_SCOPE {
            const char *body = random_body(3 + roll(25));
            cfx_program *p = program("v0, v1, v2, v3", body);
            cfx_value in[] = {V(cfx_randn(4, 3, 40)), V(cfx_randn(3, 1)), V(cfx_randn(40)),
                              V(cfx_transpose(cfx_randn(40, 3), 0, 1))};
            cfx_value a = run_on(&cfx_interpreter, p, 4, in), b = run_on(&cfx_planner, p, 4, in);
            for (int64_t k = 0; k < 3; k++)
                if (!cfx_integer(cfx_allclose(cfx_at(a, k), cfx_at(b, k), 1e-4, 1e-4, true)))
                    test_fail(CFX_HERE, "result %d of\n%s", (int)k, body);
            CHECK_OK();
        }
}

#define BYTES "0.01, 128, 0, 255, torch.uint8"
#define ROUND(to, from)                                                                            \
    "        " to " = torch.ops.quantized_decomposed.quantize_per_tensor.default(" from            \
    ", " BYTES ")\n"
#define BACK(to, from)                                                                             \
    "        " to " = torch.ops.quantized_decomposed.dequantize_per_tensor.default(" from          \
    ", " BYTES ")\n"

/* A copy between bytes and the same bytes is a copy of bytes, in the loop that reads them. */
TEST(loops_read_the_bytes_that_a_copy_is_moved_to) {
    cfx_program *p =
        program("x", ROUND("q", "x") BACK("d", "q") CALL("c", "clone.default", "d") ROUND("r", "c")
                         BACK("e", "r") CALL("y", "softmax.int", "e, -1")
                             CALL("z", "cumsum.default", "y, 0") "        return (z,)\n");
    cfx_value in[] = {V(cfx_randn(4, 5))};
    CHECK(same(p, 1, in, false));
}
