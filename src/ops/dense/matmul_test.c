/* Products: known numbers, every way that a product can take, errors. */
#include "numbers.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static cfx_tensor *matrix(cfx_dtype dtype, int64_t rows, int64_t cols) {
    return test_numbers(dtype, 2, (int64_t[]){rows, cols});
}

static bool same(cfx_tensor *a, cfx_tensor *b) { return cfx_integer(cfx_equal(a, b)); }
static bool close_to(cfx_tensor *a, cfx_tensor *b) {
    return cfx_integer(cfx_allclose(a, b, 1e-4, 1e-4));
}

/* Whether c = a b, element by element. */
static bool is_product(cfx_tensor *c, cfx_tensor *a, cfx_tensor *b) {
    int64_t m = cfx_dim(a, 0), k = cfx_dim(a, 1), n = cfx_dim(b, 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += cfx_tensor_get(a, i * k + p) * cfx_tensor_get(b, p * n + j);
            if (fabs(cfx_tensor_get(c, i * n + j) - sum) > 1e-3)
                return false;
        }
    return true;
}

TEST(mm_sizes_and_dtypes) {
    static const int64_t sizes[][3] = {{1, 1, 1},   {4, 8, 2},    {3, 5, 7},    {1, 40, 30},
                                       {40, 1, 30}, {17, 19, 23}, {70, 65, 50}, {7, 130, 300}};
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_F64, CFX_I64, CFX_I32};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t d = 0; d < 4; d++)
            CFX_SCOPE
    {
        cfx_tensor *a = matrix(dtypes[d], sizes[i][0], sizes[i][2]);
        cfx_tensor *b = matrix(dtypes[d], sizes[i][2], sizes[i][1]), *ab = cfx_mm(a, b);
        CHECK(is_product(ab, a, b));
        /* operands that lie transposed, and with gaps */
        cfx_tensor *at = cfx_t(cfx_contiguous(cfx_t(a)));
        cfx_tensor *bt = cfx_t(cfx_contiguous(cfx_t(b)));
        CHECK(close_to(cfx_mm(at, bt), ab));
        cfx_tensor *wide = cfx_cat(cfx_list(a, a), 1);
        CHECK(close_to(cfx_mm(cfx_narrow(wide, 1, 0, sizes[i][2]), b), ab));
        cfx_tensor *gaps = cfx_slice(cfx_repeat_interleave(a, 2, 1), 1, 0, cfx_none(), 2);
        CHECK(close_to(cfx_mm(gaps, b), ab));
    }
    CHECK_OK();
}

/* (inf - i)^2 is inf - inf i: alpha, which is 1 + 0 i, adds no 0 times infinity. A small product,
 * one by blocks, a row by a matrix, and a product of two vectors. */
TEST(complex_products_keep_infinities) {
    static const int64_t shapes[][3] = {{1, 1, 2}, {3, 3, 2}, {1, 9, 2}, {40, 40, 2}};
    for (int i = 0; i < 4; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        cfx_value far = cfx_complex_value(INFINITY, -1);
        cfx_tensor *z = cfx_matmul(cfx_full(cfx_list(m, k), far), cfx_full(cfx_list(k, n), far));
        cfx_tensor *parts = cfx_view_as_real(z);
        CHECK(cfx_is_true(cfx_all(cfx_eq(cfx_select(parts, -1, 0), INFINITY))));
        CHECK(cfx_is_true(cfx_all(cfx_eq(cfx_select(parts, -1, 1), -INFINITY))));
    }
    cfx_tensor *v = cfx_full(cfx_list(3), cfx_complex_value(INFINITY, -1));
    cfx_tensor *dot = cfx_view_as_real(cfx_matmul(v, v));
    CHECK_STR(cfx_str(dot), "tensor([inf, -inf])");
}

TEST(mm_of_halves_and_complex) {
    cfx_tensor *a = matrix(CFX_BF16, 5, 6), *b = matrix(CFX_BF16, 6, 4);
    CHECK_INT(cfx_tensor_dtype(cfx_mm(a, b)), CFX_BF16);
    CHECK(is_product(cfx_mm(cfx_to(a, cfx_f16), cfx_to(b, cfx_f16)), a, b));
    cfx_tensor *x = cfx_tensor_from_value(cfx_list(cfx_list(cfx_complex_value(1, 2))));
    CHECK_STR(cfx_tensor_str(cfx_mm(x, x)), "tensor([[-3.+4.j]])");
    cfx_tensor *v =
        cfx_tensor_from_value(cfx_list(cfx_complex_value(1, 2), cfx_complex_value(0, 1)));
    CHECK_STR(cfx_tensor_str(cfx_vdot(v, v)), "tensor(6.+0.j)");
    CHECK_STR(cfx_tensor_str(cfx_dot(v, v)), "tensor(-4.+4.j)");
    CHECK_OK();
}

TEST(addmm_scales_and_ignores) {
    cfx_tensor *a = matrix(CFX_F32, 3, 4), *b = matrix(CFX_F32, 4, 5), *ab = cfx_mm(a, b);
    cfx_tensor *nan = cfx_full(cfx_list(5), NAN), *one = cfx_full(cfx_list(5), 1.0);
    CHECK(same(cfx_addmm(nan, a, b, CFX_KW(beta, 0)), ab));
    CHECK(
        same(cfx_addmm(one, a, b, CFX_KW(beta, 2), CFX_KW(alpha, 3)), cfx_add(cfx_mul(ab, 3), 2)));
    /* over nothing */
    cfx_tensor *none =
        cfx_addmm(one, matrix(CFX_F32, 3, 0), matrix(CFX_F32, 0, 5), CFX_KW(beta, 2));
    CHECK_NEAR(cfx_tensor_get(none, 7), 2, 0);
    CHECK_INT(cfx_tensor_numel(cfx_mm(matrix(CFX_F32, 0, 4), b)), 0);
    CHECK_OK();
}

TEST(batches_of_products) {
    static const int64_t sizes[][3] = {{3, 4, 5}, {30, 40, 50}}; /* loops, and oneDNN */
    cfx_tensor *a = NULL, *b = NULL;
    for (int round = 1; round >= 0; round--) {
        const int64_t *n = sizes[round];
        a = test_numbers(CFX_F32, 3, (int64_t[]){6, n[0], n[1]});
        b = test_numbers(CFX_F32, 3, (int64_t[]){6, n[1], n[2]});
        cfx_tensor *c = cfx_bmm(a, b);
        for (int i = 0; i < 6; i++)
            CHECK(is_product(cfx_select(c, 0, i), cfx_select(a, 0, i), cfx_select(b, 0, i)));
    }
    cfx_tensor *sum = cfx_addbmm(cfx_zeros(cfx_list(3, 5)), a, b);
    CHECK(close_to(sum, cfx_sum(cfx_bmm(a, b), cfx_list(0))));
    CHECK_OK();
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

TEST(matmul_equals_its_parts) {
    static const int64_t shapes[][2][5] = {
        /* the number of dims, then sizes */
        {{1, 3}, {1, 3}},          {{2, 2, 3}, {1, 3}},
        {{1, 3}, {2, 3, 4}},       {{3, 5, 2, 3}, {2, 3, 4}},
        {{3, 5, 2, 3}, {1, 3}},    {{1, 3}, {3, 5, 3, 4}},
        {{2, 2, 3}, {3, 5, 3, 4}}, {{4, 2, 1, 2, 3}, {3, 5, 3, 4}},
        {{3, 5, 0, 3}, {2, 3, 4}}, {{3, 5, 2, 0}, {3, 5, 0, 4}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        CFX_SCOPE
    {
        cfx_tensor *a = test_numbers(CFX_F32, (int)shapes[i][0][0], shapes[i][0] + 1);
        cfx_tensor *b = test_numbers(CFX_F32, (int)shapes[i][1][0], shapes[i][1] + 1);
        CHECK(same(cfx_matmul(a, b), cfx_as_tensor(apart("matmul", CFX_ARGS(a, b)))));
    }
    CHECK_OK();
}

/* Whether x w' + b has the same bits each time, the first included. */
static bool is_steady(int64_t m, int64_t n, int64_t k) {
    cfx_tensor *x = cfx_randn(m, k), *w = cfx_randn(n, k), *b = cfx_randn(n);
    cfx_tensor *first = cfx_linear(x, w, b);
    bool steady = true;
    for (int round = 0; round < 3; round++)
        steady &= cfx_integer(cfx_equal(first, cfx_linear(x, w, b)));
    return steady;
}

TEST(the_first_product_has_the_bits_of_the_later_ones) {
    CHECK(is_steady(4, 150, 200));
    CHECK(is_steady(32, 512, 300));
    CHECK(is_steady(1, 700, 900));
    CHECK(is_steady(7, 3, 5));
    cfx_tensor *a = cfx_randn(8, 24, 33), *b = cfx_randn(8, 33, 40), *first = cfx_bmm(a, b);
    for (int round = 0; round < 3; round++)
        CHECK(cfx_integer(cfx_equal(first, cfx_bmm(a, b))));
    CHECK_OK();
}

TEST(linear_keeps_up_with_its_weights) {
    cfx_tensor *x = matrix(CFX_F32, 4, 200), *w = matrix(CFX_F32, 150, 200);
    cfx_tensor *b = test_numbers(CFX_F32, 1, (int64_t[]){150});
    for (int round = 0; round < 2; round++) /* the weights are packed by then */
        CHECK(close_to(cfx_linear(x, w, b), cfx_add(cfx_mm(x, cfx_t(w)), b)));
    cfx_mul_(w, 2);
    for (int round = 0; round < 3; round++)
        CHECK(close_to(cfx_linear(x, w, b), cfx_add(cfx_mm(x, cfx_t(w)), b)));
    float *raw = cfx_tensor_data(w); /* from here on it may change unseen */
    for (int round = 0; round < 2; round++) {
        raw[0] += 100;
        CHECK(close_to(cfx_linear(x, w, b), cfx_add(cfx_mm(x, cfx_t(w)), b)));
    }
    CHECK_OK();
}

TEST(einsum_knows_its_letters) {
    cfx_tensor *a = matrix(CFX_F32, 3, 4), *b = matrix(CFX_F32, 4, 5), *sq = matrix(CFX_F32, 3, 3);
    CHECK(is_product(cfx_einsum("ij,jk->ik", cfx_list(a, b)), a, b));
    CHECK(same(cfx_einsum("ij->ji", cfx_list(a)), cfx_t(a)));
    CHECK(same(cfx_einsum("ij->", cfx_list(a)), cfx_sum(a)));
    CHECK(same(cfx_einsum("ii->i", cfx_list(sq)), cfx_diagonal(sq)));
    CHECK_OK();
    cfx_einsum("ij,jk->iq", cfx_list(a, b));
    CHECK_ERROR(
        "einsum(): output subscript q does not appear in the equation for any input operand");
    cfx_einsum("ij,jk", cfx_list(a));
    CHECK_ERROR("einsum(): fewer operands were provided than specified in the equation");
    cfx_einsum("ijk->i", cfx_list(a));
    CHECK_ERROR("einsum(): the number of subscripts in the equation (3) does not match the number "
                "of dimensions (2) for operand 0 and no ellipsis was given");
    cfx_einsum("i.j", cfx_list(a));
    CHECK_ERROR("einsum(): found '.' for operand 0 that is not part of any ellipsis");
}

TEST(product_errors) {
    cfx_tensor *a = matrix(CFX_F32, 2, 3), *b = matrix(CFX_F32, 4, 5);
    cfx_tensor *v3 = test_numbers(CFX_F32, 1, (int64_t[]){3}),
               *v4 = test_numbers(CFX_F32, 1, (int64_t[]){4});
    cfx_mm(a, b);
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    cfx_matmul(a, b);
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    cfx_linear(a, cfx_t(b));
    CHECK_ERROR("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    cfx_mm(a, matrix(CFX_F64, 3, 5));
    CHECK_ERROR("expected m1 and m2 to have the same dtype, but got: float != double");
    cfx_mm(a, v3);
    CHECK_ERROR("mat2 must be a matrix");
    cfx_bmm(test_numbers(CFX_F32, 3, (int64_t[]){2, 3, 4}),
            test_numbers(CFX_F32, 3, (int64_t[]){2, 5, 4}));
    CHECK_ERROR("Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: "
                "[2, 5].");
    cfx_mm(matrix(CFX_BOOL, 2, 3), matrix(CFX_BOOL, 3, 2));
    CHECK_ERROR("\"addmm_impl_cpu_\" not implemented for 'Bool'");
    cfx_matmul(cfx_sum(a), a);
    CHECK_ERROR("both arguments to matmul need to be at least 1D, but they are 0D and 2D");
    cfx_addmm(v4, a, matrix(CFX_F32, 3, 5));
    CHECK_ERROR("The expanded size of the tensor (5) must match the existing size (4)");
    cfx_outer(a, a);
    CHECK_ERROR("outer: Expected 1-D argument self, but got 2-D");
    cfx_dot(v4, v3);
    CHECK_ERROR("inconsistent tensor size, expected tensor [4] and src [3] to have the same number "
                "of elements, but got 4 and 3 elements respectively");
}

TEST(distances_of_rows) {
    cfx_tensor *x =
        cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0), cfx_list(3.0, 4.0), cfx_list(3.0, 0.0)));
    CHECK_NEAR(cfx_tensor_get(cfx_cdist(x, x), 1), 5, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_cdist(x, x, 1.0), 1), 7, 1e-6);
    CHECK_NEAR(cfx_tensor_get(cfx_cdist(x, x, INFINITY), 1), 4, 1e-6);
    CHECK_STR(cfx_tensor_str(cfx_pdist(x)), "tensor([5., 3., 4.])");
    CHECK_OK();
    cfx_cdist(x, matrix(CFX_F32, 2, 3));
    CHECK_ERROR("X1 and X2 must have the same number of columns. X1: 2 X2: 3");
}

/* ---- grouped products ------------------------------------------------------------------------ */

static cfx_tensor *ends(int64_t a, int64_t b, int64_t c) {
    return cfx_to(cfx_tensor_from_value(cfx_list(a, b, c)), cfx_i32);
}

/* Part `from` to `to` of t along dimension d. */
static cfx_tensor *part(cfx_tensor *t, int d, int64_t from, int64_t to) {
    return cfx_narrow(t, d, from, to - from);
}

TEST(grouped_products_are_products_of_parts) {
    static const int64_t at[] = {0, 2, 2, 7};
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_F64, CFX_BF16};
    for (int d = 0; d < 3; d++) {
        cfx_tensor *rows = matrix(dtypes[d], 7, 4), *cols = matrix(dtypes[d], 4, 7);
        cfx_tensor *each = test_numbers(dtypes[d], 3, (int64_t[]){3, 4, 5});
        cfx_tensor *offs = ends(2, 2, 7);
        cfx_tensor *by_row = cfx_aten__grouped_mm(rows, each, offs);
        cfx_tensor *by_col = cfx_aten__grouped_mm(cfx_mT(each), cols, offs);
        cfx_tensor *inner = cfx_aten__grouped_mm(cols, rows, offs);
        CHECK(same(cfx_aten__grouped_mm(cfx_mT(each), each), cfx_bmm(cfx_mT(each), each)));
        for (int g = 0; g < 3; g++) {
            const int64_t from = at[g], to = at[g + 1];
            cfx_tensor *w = cfx_select(each, 0, g);
            CHECK(same(part(by_row, 0, from, to), cfx_mm(part(rows, 0, from, to), w)));
            CHECK(same(part(by_col, 1, from, to), cfx_mm(cfx_mT(w), part(cols, 1, from, to))));
            CHECK(same(cfx_select(inner, 0, g),
                       cfx_mm(part(cols, 1, from, to), part(rows, 0, from, to))));
        }
    }
    CHECK_OK();
}

TEST(grouped_products_check_their_groups) {
    cfx_tensor *rows = matrix(CFX_F32, 7, 4),
               *each = test_numbers(CFX_F32, 3, (int64_t[]){3, 4, 5});
    cfx_tensor *short_ = cfx_aten__grouped_mm(rows, each, ends(1, 2, 4));
    CHECK_INT(cfx_tensor_stride(short_)[0], 8); /* rows start at multiples of 16 bytes */
    CHECK(same(part(short_, 0, 4, 7), cfx_zeros(cfx_list(3, 5))));
    cfx_aten__grouped_mm(rows, each, ends(2, 1, 7));
    CHECK_ERROR("offs[1] is 1, outside of [2, 7]");
    cfx_aten__grouped_mm(rows, each, ends(2, 3, 8));
    CHECK_ERROR("offs[2] is 8, outside of [3, 7]");
    cfx_aten__grouped_mm(rows, each);
    CHECK_ERROR("Have to provide offsets if there is a 2d matrix");
    cfx_aten__grouped_mm(rows, rows, ends(1, 2, 4));
    CHECK_ERROR("contraction dimension of mat_a and mat_b must match");
    cfx_aten__grouped_mm(rows, each, cfx_to(ends(1, 2, 3), cfx_i64));
    CHECK_ERROR("Offsets have to be int32");
    cfx_aten__grouped_mm(rows, each, ends(1, 2, 7), CFX_NONE, cfx_f64);
    CHECK_ERROR("Grouped gemm output dtype must match `mat_a` dtype");
}

TEST(float8_has_products_of_matrices_alone) {
    cfx_tensor *a = cfx_to(matrix(CFX_F32, 2, 2), cfx_f8e4m3fn), *pile = cfx_stack(cfx_list(a, a));
    CHECK_INT(cfx_dim(cfx_matmul(a, a), 0), 2);
    CHECK_INT(cfx_dim(cfx_matmul(pile, a), 2), 2);
    CHECK_OK();
    cfx_matmul(pile, pile);
    CHECK_ERROR("\"bmm\" not implemented for 'Float8_e4m3fn'");
    cfx_matmul(a, pile);
    CHECK_ERROR("\"bmm\" not implemented for 'Float8_e4m3fn'");
}

/* Sizes that each fit, and whose product does not. */
TEST(products_of_sizes_that_are_no_number) {
    const int64_t n = INT64_C(3037000500);
    cfx_tensor *a = cfx_tensor_fake(CFX_F32, 4, (int64_t[]){1, n, 1, 1}, NULL);
    cfx_tensor *b = cfx_tensor_fake(CFX_F32, 4, (int64_t[]){n, 1, 1, 1}, NULL);
    cfx_matmul(a, b);
    CHECK_ERROR("Storage size calculation overflowed with sizes=[3037000500, 3037000500]");
}

/* Rows further apart than an int counts. Pages that are never read cost nothing. */
TEST(matrices_whose_rows_lie_far_apart) {
    enum { DEPTH = 3000 };
    const int64_t k = INT64_C(2147483656);
    float *pages = mmap(NULL, (size_t)k * 16, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) /* addresses are limited here */
        return;
    for (int64_t row = 0; row < 2; row++)
        for (int64_t i = 0; i < 2 * DEPTH; i++) /* real and imaginary parts */
            pages[row * 2 * k + i] = (float)((row + i) % 7 - 3);
    cfx_tensor *all = cfx_tensor_borrow(CFX_C64, 2, (int64_t[]){2, k}, pages, NULL, NULL);
    cfx_tensor *a = cfx_slice(all, 1, 0, DEPTH);
    cfx_tensor *b = cfx_transpose(cfx_contiguous(a), 0, 1);
    CHECK_INT(cfx_tensor_stride(a)[0], k);
    CHECK(cfx_is_true(cfx_equal(cfx_mm(a, b), cfx_mm(cfx_contiguous(a), b))));
    CHECK(cfx_is_true(cfx_equal(cfx_mm(cfx_transpose(a, 0, 1), a),
                                cfx_mm(b, cfx_contiguous(a)))));
    CHECK_OK();
    munmap(pages, (size_t)k * 16);
}

static void look_away(int signal) { (void)signal; }

TEST(products_are_right_while_signals_come) {
    struct sigaction before, now = {.sa_handler = look_away, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    cfx_tensor *x = cfx_eye(160);
    sigaction(SIGALRM, &now, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 300; i++)
        CFX_SCOPE CHECK(same(cfx_matmul(x, x), x));
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    CHECK_OK();
}
