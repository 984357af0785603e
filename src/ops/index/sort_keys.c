/* Keys of numbers, and how they are sorted: see sort.h. */
#include "sort.h"

/* ---- keys ------------------------------------------------------------------------------------ */

/* A float's bits order as integers do once negative ones are inverted and the sign is flipped. */
static inline uint32_t key_f32(float f) {
    union { float f; uint32_t u; } b = {f};
    uint32_t u = f == 0 ? 0 : b.u, key = u ^ ((0u - (u >> 31)) | 0x80000000u);
    return f != f ? UINT32_MAX : key;
}

static inline uint64_t key_f64(double f) {
    union { double f; uint64_t u; } b = {f};
    uint64_t u = f == 0 ? 0 : b.u, key = u ^ ((0u - (u >> 63)) | 0x8000000000000000u);
    return f != f ? UINT64_MAX : key;
}

static inline uint64_t key_i64(int64_t i) { return (uint64_t)i ^ 0x8000000000000000u; }

/* Floats that lie side by side, by far the most frequent case. */
CFX__SIMD static void keys_f32(uint64_t *keys, const float *x, int64_t n, uint64_t flip) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        keys[i] = key_f32(x[i]) ^ flip;
}

void sort_keys(uint64_t *keys, const char *x, int64_t step, cfx_dtype d, int64_t n,
               bool descending) {
    uint64_t flip = descending ? UINT64_MAX : 0;
    if (d == CFX_F32 && step == sizeof(float)) {
        keys_f32(keys, (const float *)x, n, flip);
        return;
    }
#define KEYS(dtype, T, key)                                                                        \
    case CFX_##dtype:                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T v = *(const T *)(x + i * step);                                                \
            keys[i] = (key) ^ flip;                                                                \
        }                                                                                          \
        break;
    switch (d) {
        KEYS(F32, float, key_f32(v))
        KEYS(F64, double, key_f64(v))
        KEYS(F16, uint16_t, key_f32(cfx__f16_load(v)))
        KEYS(BF16, uint16_t, key_f32(cfx__bf16_load(v)))
        KEYS(I64, int64_t, key_i64(v))
        KEYS(I32, int32_t, key_i64(v))
        KEYS(I16, int16_t, key_i64(v))
        KEYS(I8, int8_t, key_i64(v))
        KEYS(U8, uint8_t, v)
        KEYS(U16, uint16_t, v)
        KEYS(U32, uint32_t, v)
        KEYS(U64, uint64_t, v)
        KEYS(BOOL, uint8_t, v)
    default: memset(keys, 0, (size_t)n * sizeof *keys);
    }
#undef KEYS
}

void sort_fill(sort_item *items, const char *x, int64_t step, cfx_dtype d, int64_t n,
               bool descending) {
    uint64_t keys[512];
    for (int64_t i = 0; i < n; i += COUNT(keys)) {
        int64_t m = n - i < COUNT(keys) ? n - i : COUNT(keys);
        sort_keys(keys, x + i * step, step, d, m, descending);
        for (int64_t j = 0; j < m; j++)
            items[i + j] = (sort_item){keys[j], i + j};
    }
}

/* ---- sorting --------------------------------------------------------------------------------- */

enum { RUN = 16, RADIX_FROM = 1024 };

static void insertion(sort_item *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        sort_item v = a[i];
        int64_t k = i;
        for (; k > 0 && a[k - 1].key > v.key; k--)
            a[k] = a[k - 1];
        a[k] = v;
    }
}

static void merge_sort(sort_item *a, sort_item *spare, int64_t n) {
    for (int64_t i = 0; i < n; i += RUN)
        insertion(a + i, n - i < RUN ? n - i : RUN);
    sort_item *from = a, *to = spare;
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            int64_t mid = i + run < n ? i + run : n, end = i + 2 * run < n ? i + 2 * run : n;
            int64_t l = i, r = mid;
            for (int64_t o = i; o < end; o++)
                to[o] = l < mid && (r >= end || from[l].key <= from[r].key) ? from[l++] : from[r++];
        }
        sort_item *held = from;
        from = to;
        to = held;
    }
    if (from != a)
        memcpy(a, from, (size_t)n * sizeof *a);
}

/* Byte by byte from the lowest on; bytes that all keys share are passed over. */
static void radix_sort(sort_item *a, sort_item *spare, int64_t n) {
    int64_t counts[8][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 8; b++)
            counts[b][a[i].key >> 8 * b & 255]++;
    sort_item *from = a, *to = spare;
    for (int b = 0; b < 8; b++) {
        int64_t *at = counts[b], next = 0;
        if (at[from[0].key >> 8 * b & 255] == n)
            continue;
        for (int v = 0; v < 256; v++) {
            int64_t held = at[v];
            at[v] = next;
            next += held;
        }
        for (int64_t i = 0; i < n; i++)
            to[at[from[i].key >> 8 * b & 255]++] = from[i];
        sort_item *held = from;
        from = to;
        to = held;
    }
    if (from != a)
        memcpy(a, from, (size_t)n * sizeof *a);
}

void sort_items(sort_item *items, sort_item *spare, int64_t n) {
    if (n <= RUN)
        insertion(items, n);
    else if (n < RADIX_FROM)
        merge_sort(items, spare, n);
    else
        radix_sort(items, spare, n);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* From one element to the next along a dimension; absurd only where there is no next. */
static int64_t bytes_between(const cfx_tensor *t, int d) {
    return (int64_t)((uint64_t)t->stride[d] * (uint64_t)cfx_dtype_size(t->dtype));
}

void lines_make(sort_lines *l, int dim, int n, const cfx_tensor *const *t) {
    l->n = n;
    l->ndim = 0;
    l->count = 1;
    l->length = t[0]->ndim ? t[0]->shape[dim] : 1;
    for (int i = 0; i < n; i++) {
        l->data[i] = t[i]->data;
        l->step[i] = t[i]->ndim ? bytes_between(t[i], dim) : 0;
    }
    for (int d = t[0]->ndim - 1; d >= 0; d--) {
        if (d == dim)
            continue;
        l->count *= t[0]->shape[d];
        l->size[l->ndim] = t[0]->shape[d];
        for (int i = 0; i < n; i++)
            l->stride[i][l->ndim] = bytes_between(t[i], d);
        l->ndim++;
    }
}

void lines_at(const sort_lines *l, int64_t i, char **first) {
    for (int k = 0; k < l->n; k++)
        first[k] = l->data[k];
    for (int d = 0; d < l->ndim; d++) {
        int64_t at = i % l->size[d];
        i /= l->size[d];
        for (int k = 0; k < l->n; k++)
            first[k] += at * l->stride[k][d];
    }
}
