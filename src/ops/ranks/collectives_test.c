/* Collectives of simulated ranks, against what each rank computes alone of what all have. */
#include "../../group/group.h"
#include "test.h"

#define OP(name, ...) cfx_op_do(cfx_op_find("_c10d_functional::" name), __VA_ARGS__)
#define T(v) cfx_as_tensor(v)
#define SIZES(t) cfx__shape_text((t)->ndim, (t)->shape)

/* What rank r has: numbers that do not sum alike in any order. */
static cfx_tensor *part_of(int r, cfx_dtype dtype, int64_t rows, int64_t columns) {
    cfx_tensor *t = cfx_tensor_new(CFX_F64, 2, (int64_t[]){rows, columns}, NULL);
    for (int64_t i = 0; i < rows * columns; i++)
        ((double *)t->data)[i] = (double)((i * 7919 + r * 104729) % 1000 - 500) / 7.0 +
                                 (r == 1 ? 1e6 : r == 2 ? -1e6 : 0);
    return cfx__tensor_to_dtype(t, dtype);
}

static bool same(const cfx_tensor *a, const cfx_tensor *b) {
    return a->dtype == b->dtype && cfx__tensor_same_shape(a, b) &&
           !memcmp(a->data, b->data, (size_t)(a->numel * cfx_dtype_size((cfx_dtype)a->dtype)));
}

typedef struct {
    cfx_dtype dtype;
    int64_t rows, columns;
    const char *op;
} setting;

/* Sums by float32, rank by rank, rounded once. */
static cfx_tensor *summed(const setting *s, int size, bool average) {
    cfx_dtype as = s->dtype == CFX_BF16 ? CFX_F32 : s->dtype;
    cfx_tensor *sum = cfx__tensor_to_dtype(part_of(0, s->dtype, s->rows, s->columns), as);
    for (int r = 1; r < size; r++)
        sum = cfx_add(sum, cfx__tensor_to_dtype(part_of(r, s->dtype, s->rows, s->columns), as));
    if (average)
        sum = cfx_div(sum, (double)size);
    return cfx__tensor_to_dtype(sum, s->dtype);
}

static bool reduces(cfx_group *g, void *user) {
    const setting *s = user;
    const int r = cfx_group_rank(g), size = cfx_group_size(g);
    cfx_tensor *own = part_of(r, s->dtype, s->rows, s->columns);
    cfx_tensor *want = summed(s, size, !strcmp(s->op, "avg"));
    CHECK(same(T(OP("all_reduce", own, s->op, "0")), want));
    cfx_tensor *mine = T(OP("reduce_scatter_tensor", own, s->op, size, "0"));
    cfx_tensor *all = T(OP("wait_tensor", OP("all_gather_into_tensor", mine, size, "0")));
    CHECK(same(all, want));
    cfx_tensor *copy = cfx_clone(own);
    CHECK(T(OP("all_reduce_", copy, s->op, "0")) == copy);
    CHECK(same(copy, want));
    return cfx_ok();
}

TEST(sums_are_taken_in_the_order_of_ranks) {
    const setting all[] = {{CFX_F32, 12, 5, "sum"},   {CFX_F32, 12, 4001, "sum"},
                           {CFX_F32, 12, 700, "avg"}, {CFX_BF16, 24, 3001, "sum"},
                           {CFX_F64, 12, 900, "avg"}, {CFX_I32, 12, 2000, "sum"},
                           {CFX_F32, 12, 0, "sum"}};
    for (int i = 0; i < COUNT(all); i++)
        for (int n = 1; n <= 4; n++)
            CHECK(cfx_group_simulate(n, reduces, (void *)(uintptr_t)&all[i]));
}

static bool others(cfx_group *g, void *user) {
    const int r = cfx_group_rank(g);
    (void)user;
    cfx_tensor *x = T(cfx_tensor_value(cfx_tensor_from_value(cfx_list(r + 2, 6 - r, 3))));
    const char *const want[][2] = {{"product", "tensor([ 24, 120,  27])"},
                                   {"min", "tensor([2, 4, 3])"},
                                   {"max", "tensor([4, 6, 3])"},
                                   {"band", "tensor([0, 4, 3])"},
                                   {"bor", "tensor([7, 7, 3])"},
                                   {"bxor", "tensor([5, 7, 3])"}};
    for (int i = 0; i < COUNT(want); i++)
        CHECK_STR(cfx_tensor_str(T(OP("all_reduce", x, want[i][0], "0"))), want[i][1]);
    cfx_tensor *nan = cfx_tensor_from_value(cfx_list(r == 1 ? 0.0 / 0.0 : 1.0 * r));
    CHECK_STR(cfx_tensor_str(T(OP("all_reduce", nan, "max", "0"))), "tensor([nan])");
    cfx_tensor *z = cfx_complex(cfx_tensor_from_value(cfx_list(1.0 * r)),
                                cfx_tensor_from_value(cfx_list(0.5)));
    CHECK_STR(cfx_tensor_str(T(OP("all_reduce", z, "sum", "0"))), "tensor([3.+1.5000j])");
    return cfx_ok();
}

TEST(all_reductions_of_pytorch_are_there) { CHECK(cfx_group_simulate(3, others, NULL)); }

static bool spreads(cfx_group *g, void *user) {
    const int r = cfx_group_rank(g), size = cfx_group_size(g);
    (void)user;
    for (int root = 0; root < size; root++)
        for (int64_t n = 1; n < 40000; n *= 30) {
            cfx_tensor *got = T(OP("broadcast", part_of(r, CFX_F32, n, 3), root, "0"));
            CHECK(same(got, part_of(root, CFX_F32, n, 3)));
        }
    return cfx_ok();
}

TEST(a_broadcast_gives_all_what_one_has) {
    for (int n = 1; n <= 5; n++)
        CHECK(cfx_group_simulate(n, spreads, NULL));
}

/* Rank r sends r + k + 1 rows to rank k: the rows of the others' r-th parts. */
static bool shuffles(cfx_group *g, void *user) {
    const int r = cfx_group_rank(g), size = cfx_group_size(g);
    (void)user;
    cfx_value counts = cfx_list_value(0, NULL);
    int64_t rows = 0;
    for (int k = 0; k < size; k++) {
        cfx_list_append(cfx_as_list(counts), cfx_int(r + k + 1));
        rows += r + k + 1;
    }
    cfx_tensor *x = cfx_full(cfx_list(rows, 2), 1.0 * r);
    cfx_tensor *got = T(OP("all_to_all_single", x, counts, counts, "0"));
    CHECK_INT(got->shape[0], rows);
    int64_t at = 0;
    for (int k = 0; k < size; k++)
        for (int64_t i = 0; i < r + k + 1; i++, at++)
            CHECK(((float *)got->data)[2 * at] == (float)k);
    return cfx_ok();
}

TEST(all_to_all_gives_each_rank_its_rows) {
    CHECK(cfx_group_simulate(4, shuffles, NULL));
}

static bool lists(cfx_group *g, void *user) {
    const int r = cfx_group_rank(g);
    (void)user;
    cfx_tensor *a = cfx_full(cfx_list(2), 1.0 + r), *b = cfx_full(cfx_list(4), 2.0 * r);
    CHECK_STR(cfx_repr(OP("all_reduce_coalesced", cfx_list(a, b), "sum", "0")),
              "[tensor([3., 3.]), tensor([2., 2., 2., 2.])]");
    CHECK_STR(cfx_repr(OP("all_gather_into_tensor_coalesced", cfx_list(a), 2, "0")),
              "[tensor([1., 1., 2., 2.])]");
    CHECK_STR(cfx_repr(OP("reduce_scatter_tensor_coalesced", cfx_list(b), "max", 2, "0")),
              "[tensor([2., 2.])]");
    cfx_tensor *out = cfx_zeros(cfx_list(4));
    CHECK(T(OP("all_gather_into_tensor_out", a, 2, "0", CFX_KW(out, out))) == out);
    CHECK_STR(cfx_tensor_str(out), "tensor([1., 1., 2., 2.])");
    cfx_tensor *half = cfx_zeros(cfx_list(2));
    OP("reduce_scatter_tensor_out", b, "sum", 2, "0", CFX_KW(out, half));
    CHECK_STR(cfx_tensor_str(half), "tensor([2., 2.])");
    OP("all_reduce_coalesced_", cfx_list(a, b), "sum", "0");
    CHECK_STR(cfx_tensor_str(a), "tensor([3., 3.])");
    return cfx_ok();
}

TEST(forms_of_several_tensors_and_of_given_memory) { CHECK(cfx_group_simulate(2, lists, NULL)); }

/* ---- shapes, without ranks ------------------------------------------------------------------- */

TEST(fake_collectives_need_no_ranks) {
    cfx_tensor *x = cfx_tensor_fake(CFX_F32, 2, (int64_t[]){6, 5}, NULL);
    CHECK_STR(SIZES(T(OP("all_gather_into_tensor", x, 4, "0"))), "[24, 5]");
    CHECK_STR(SIZES(T(OP("reduce_scatter_tensor", x, "sum", 3, "0"))), "[2, 5]");
    CHECK_STR(SIZES(T(OP("all_to_all_single", x, cfx_list(1, 2), cfx_list(2, 4),
                                            "0"))), "[3, 5]");
    CHECK_STR(SIZES(T(OP("all_reduce", x, "sum", "0"))), "[6, 5]");
    CHECK_OK();
    OP("reduce_scatter_tensor", x, "sum", 4, "0");
    CHECK_ERROR("the first of the sizes [6, 5] is not divisible by 4 ranks");
}

TEST(collectives_without_ranks_say_how_to_get_some) {
    OP("all_reduce", cfx_ones(cfx_list(2)), "sum", "0");
    CHECK_ERROR("all_reduce runs on several ranks: 'mpirun -n N cfx run', or simulated ones");
}

static bool wrong(cfx_group *g, void *user) {
    const int r = cfx_group_rank(g);
    cfx_tensor *x = cfx_ones(cfx_list(4));
    switch (*(int *)user) {
    case 0: OP("all_gather_into_tensor", x, 3, "0"); break;
    case 1: OP("all_reduce", x, "mean", "0"); break;
    case 2: OP("all_reduce", x, "bor", "0"); break;
    case 3: OP("broadcast", x, 2, "0"); break;
    case 4: OP("all_reduce", cfx_ones(cfx_list(r ? 4 : 5)), "sum", "0"); break;
    case 5: r ? OP("all_reduce", x, "sum", "0") : OP("broadcast", x, 1, "0"); break;
    case 6: OP("all_to_all_single", x, cfx_list(4), cfx_list(4), "0"); break;
    case 7: OP("all_reduce", x, r ? "sum" : "max", "0"); break;
    default: break;
    }
    return cfx_ok();
}

TEST(ranks_that_are_at_different_things_are_told) {
    const char *const says[] = {"was made for 3 ranks, and here are 2",
                                "Unrecognized reduce_op: mean",
                                "ranks have no 'bor' of float32 tensors",
                                "broadcast from rank 2, and there are 2",
                                "is at all_reduce of float32[", "the ranks do not run the same",
                                "Number of tensor splits not equal to group size",
                                "the ranks do not run the same"};
    for (int i = 0; i < COUNT(says); i++) {
        CHECK(!cfx_group_simulate(2, wrong, &i));
        CHECK_ERROR(says[i]);
    }
}
