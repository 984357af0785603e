/* top and pick of generated C beside topk, kthvalue, medians and mode, whose choice among equals is
 * PyTorch's: rows with many of them. */
#include "kernel_test.h"

/* Whether the k first of n numbers, of so many different ones, are those that topk gives. */
static bool tops(int64_t n, int64_t k, int different, bool largest, bool sorted) {
    bool same = true;
    float *row = cfx__alloc((size_t)n * sizeof *row);
    NAME_item *items = cfx__alloc((size_t)n * sizeof *items);
    for (int64_t i = 0; i < n; i++) {
        row[i] = (float)((i * 7919 + i * i * 31) % different);
        items[i] = (NAME_item){largest ? ~NAME_key_f32(row[i]) : NAME_key_f32(row[i]), i};
    }
    CFX_SCOPE {
        cfx_tensor *x = cfx_tensor_new(CFX_F32, 1, &n, row);
        cfx_tensor *at = cfx_as_tensor(cfx_at(cfx_topk(x, k, 0, largest, sorted), 1));
        NAME_top(items, (ptrdiff_t)k, (ptrdiff_t)n, sorted);
        for (int64_t i = 0; i < k && same; i++)
            same = CHECK((double)items[i].at == cfx_tensor_get(at, i));
    }
    cfx__free(row), cfx__free(items);
    return same && CHECK_OK();
}

KERNEL_TEST(top) {
    for (int64_t n = 1; n < 700; n += n < 20 ? 1 : 97)
        for (int64_t k = 1; k <= n; k += 1 + k / 2)
            for (int what = 0; what < 12; what++)
                if (!tops(n, k, (const int[]){1, 3, 1000}[what / 4], what & 1, what & 2))
                    return;
}

static int64_t place_in(cfx_value of) {
    return (int64_t)cfx_tensor_get(cfx_as_tensor(cfx_at(of, 1)), 0);
}

static void fill(NAME_item *items, const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        items[i] = (NAME_item){NAME_key_f32(row[i]), i};
}

/* Whether the k-th, the medians and the mode of n numbers are those that the operators give; every
 * so many-th is NaN, 0: none. */
static bool picks(int64_t n, int64_t k, int different, int nans) {
    bool same = true;
    ptrdiff_t numbers = 0;
    float *row = cfx__alloc((size_t)n * sizeof *row);
    NAME_item *items = cfx__alloc(2 * (size_t)n * sizeof *items);
    for (int64_t i = 0; i < n; i++) {
        row[i] = nans && i % nans == nans - 1 ? NAN : (float)((i * 7919 + i * i * 31) % different);
        numbers += row[i] == row[i];
    }
    CFX_SCOPE {
        cfx_tensor *x = cfx_tensor_new(CFX_F32, 1, &n, row);
        fill(items, row, n);
        same &= CHECK(NAME_pick_kth(items, (ptrdiff_t)k, (ptrdiff_t)n) ==
                      place_in(cfx_kthvalue(x, k + 1)));
        for (int others = 0; others < 2; others++) {
            fill(items, row, n);
            same &= CHECK(NAME_pick_median(items, (ptrdiff_t)n, numbers, others) ==
                          place_in(others ? cfx_nanmedian_dim(x, 0) : cfx_median_dim(x, 0)));
        }
        fill(items, row, n);
        same &= CHECK(NAME_pick_mode(items, (ptrdiff_t)n) == place_in(cfx_mode(x)));
    }
    cfx__free(row), cfx__free(items);
    return same && CHECK_OK();
}

KERNEL_TEST(pick) {
    for (int64_t n = 1; n < 400; n += n < 20 ? 1 : 61)
        for (int64_t k = 0; k < n; k += 1 + k / 2)
            for (int what = 0; what < 9; what++)
                if (!picks(n, k, (const int[]){1, 3, 1000}[what / 3],
                           (const int[]){0, 1, 4}[what % 3]))
                    return;
}
