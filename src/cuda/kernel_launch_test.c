/* What is launched, for sizes small and large, and what is refused. */
#include "kernel.h"
#include "test.h"

/* An array of these sizes without gaps; room for it is the caller's. */
typedef struct held {
    int64_t shape[4], stride[4];
} held;
static cfx__cuda_array array(held *h, int operand, cfx_dtype dtype, int ndim, int64_t a, int64_t b,
                             int64_t c, int64_t d) {
    *h = (held){{a, b, c, d}, {0}};
    int64_t next = 1;
    for (int i = ndim - 1; i >= 0; next *= h->shape[i--])
        h->stride[i] = next;
    return (cfx__cuda_array){operand, dtype, ndim, h->shape, h->stride, 0};
}

static bool fits(const cfx__cuda_work *w) {
    bool all = w->n <= CFX__CUDA_LAUNCHES && w->scratch >= 0;
    for (int i = 0; i < w->n; i++) {
        const cfx__cuda_launch *l = &w->launch[i];
        all &= l->grid[0] >= 1 && l->grid[1] >= 1 && l->grid[2] >= 1 && l->grid[1] <= 65535 &&
               l->grid[2] <= 65535 && l->grid[0] <= INT32_MAX && l->block[0] >= 32 &&
               l->block[0] * l->block[1] * l->block[2] <= 1024 && l->shared <= CFX__CUDA_SHARED &&
               l->text && l->nargs <= CFX__CUDA_ARGS;
    }
    return all;
}

static const cfx__cuda_after nothing = {{.operand = -1}, {.operand = -1}, NULL};

TEST(cuda_launches_fit) {
    static const int64_t sizes[] = {1, 7, 16, 33, 128, 1000, 4097, 100000};
    const int n = (int)(sizeof sizes / sizeof *sizes);
    for (int i = 0; i < n * n * n; i++)
        CFX_SCOPE {
            const int64_t m = sizes[i % n], c = sizes[i / n % n], k = sizes[i / n / n];
            held h[3];
            const cfx__cuda_array x = array(&h[0], 0, CFX_F32, 2, m, k, 0, 0);
            const cfx__cuda_array w = array(&h[1], 1, CFX_F32, 2, c, k, 0, 0);
            const cfx__cuda_array out = array(&h[2], 2, CFX_F32, 2, m, c, 0, 0);
            cfx__cuda_work work = {0};
            CHECK(cfx__cuda_product(&x, &w, NULL, &out, CFX__CUDA_EXACT, &work));
            const cfx__cuda_launch *l = &work.launch[0];
            const int64_t tiles = (int64_t)l->grid[0] * l->grid[1];
            CHECK(fits(&work) && (l->grid[2] == 1 || tiles <= CFX__CUDA_COUNTED));
            CHECK(work.scratch <= (int64_t)l->grid[2] * tiles * 128 * 128 * 4);
            const cfx__cuda_skinny_part part = {.w.w = w, .after = nothing, .out = out};
            work = (cfx__cuda_work){0};
            CHECK(cfx__cuda_skinny(&x, NULL, 1, &part, CFX__CUDA_EXACT, &work) == (m <= 16));
            CHECK(fits(&work) && work.n == (m > 16 ? 0 : m > 8 ? 2 : 1));
        }
}

TEST(cuda_launches_attention) {
    static const int64_t heads[] = {1, 16, 64, 80, 128, 256}, rows[] = {1, 17, 300, 5000};
    for (int i = 0; i < 6 * 4 * 4; i++)
        CFX_SCOPE {
            const int64_t d = heads[i % 6], l = rows[i / 6 % 4], s = rows[i / 24];
            held h[3];
            const cfx__cuda_array q = array(&h[0], 0, CFX_F32, 4, 2, 8, l, d);
            const cfx__cuda_array k = array(&h[1], 1, CFX_F32, 4, 2, 4, s, d);
            const cfx__cuda_attention_call call = {q, k, k, {.operand = -1}, q, {.operand = -1},
                                                   1, true, 0, CFX__CUDA_EXACT};
            cfx__cuda_work work = {0};
            CHECK(cfx__cuda_attention(&call, &work) && fits(&work));
        }
}

/* Nothing is added to a work by what is not taken. */
TEST(cuda_launches_refuse) {
    held h[4];
    cfx__cuda_work work = {0};
    cfx__cuda_array x = array(&h[0], 0, CFX_F32, 2, 4, 8, 0, 0);
    cfx__cuda_array w = array(&h[1], 1, CFX_BF16, 2, 5, 8, 0, 0);
    cfx__cuda_array out = array(&h[2], 2, CFX_F32, 2, 4, 5, 0, 0);
    CHECK(!cfx__cuda_product(&x, &w, NULL, &out, CFX__CUDA_EXACT, &work)); /* two dtypes */
    w = array(&h[1], 1, CFX_F32, 2, 5, 9, 0, 0);
    CHECK(!cfx__cuda_product(&x, &w, NULL, &out, CFX__CUDA_EXACT, &work)); /* other sizes */
    w = array(&h[1], 1, CFX_F32, 2, 5, 8, 0, 0), h[1].stride[1] = 5, h[1].stride[0] = 1;
    CHECK(!cfx__cuda_product(&x, &w, NULL, &out, CFX__CUDA_EXACT, &work)); /* not rows */
    w = array(&h[1], 1, CFX_F32, 2, 0, 8, 0, 0), out = array(&h[2], 2, CFX_F32, 2, 4, 0, 0, 0);
    CHECK(!cfx__cuda_product(&x, &w, NULL, &out, CFX__CUDA_EXACT, &work)); /* nothing */
    out = array(&h[2], 2, CFX_F32, 2, 4, 5, 0, 0);
    cfx__cuda_skinny_part four = {
        .w = {.w = array(&h[1], 1, CFX_U8, 2, 5, 4, 0, 0), .bits = 4, .group = 3},
        .after = nothing, .out = out};
    /* groups that do not share evenly */
    CHECK(!cfx__cuda_skinny(&x, NULL, 1, &four, CFX__CUDA_EXACT, &work));
    four.w.group = 4, four.w.bits = 2;
    CHECK(!cfx__cuda_skinny(&x, NULL, 1, &four, CFX__CUDA_EXACT, &work)); /* no such integers */
    const cfx__cuda_array image = array(&h[0], 0, CFX_F32, 4, 1, 8, 5, 5);
    const cfx__cuda_array taps = array(&h[1], 1, CFX_F32, 4, 8, 8, 1, 1);
    const cfx__cuda_window window = {{1, 1}, {0, 0}, {1, 1}, 1};
    CHECK(!cfx__cuda_conv(&image, &taps, &window, NULL, &image, CFX__CUDA_EXACT, &work));
    const cfx__cuda_array q = array(&h[3], 0, CFX_F32, 4, 1, 2, 3, 300), none = {.operand = -1};
    const cfx__cuda_attention_call call = {q, q, q, none, q, none, 1, false, 0, CFX__CUDA_EXACT};
    CHECK(!cfx__cuda_attention(&call, &work)); /* heads of 300 */
    x = array(&h[0], 0, CFX_F32, 2, 70000, 3, 0, 0);
    CHECK(!cfx__cuda_sort(&x, &x, &none, 1, false, &work)); /* more lines than a grid has */
    CHECK_INT(work.n, 0);
    work.n = CFX__CUDA_LAUNCHES - 1; /* room for one */
    x = array(&h[0], 0, CFX_F32, 2, 9, 8, 0, 0), w = array(&h[1], 1, CFX_F32, 2, 5, 8, 0, 0);
    out = array(&h[2], 2, CFX_F32, 2, 9, 5, 0, 0);
    const cfx__cuda_skinny_part plain = {.w.w = w, .after = nothing, .out = out};
    CHECK(!cfx__cuda_skinny(&x, NULL, 1, &plain, CFX__CUDA_EXACT, &work));
    CHECK_INT(work.n, CFX__CUDA_LAUNCHES - 1);
}
