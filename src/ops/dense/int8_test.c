/* Integer products and convolutions: exact, whatever the machine and the sizes. */
#include "int8.h"

#include "numbers.h"

#include <math.h>

static int drawn(int below) { return (int)test_draw((uint32_t)below); }

/* Integers that reach the ends of their ranges: what saturates elsewhere. */
static void fill_signed(int8_t *w, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        w[i] = (int8_t)(drawn(9) ? drawn(256) - 128 : drawn(2) ? -128 : 127);
}

static void fill_unsigned(uint8_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint8_t)(drawn(9) ? drawn(256) : 255);
}

enum { MOST = 160 }; /* columns */

/* Numbers of columns for a finish that changes something. */
typedef struct {
    int32_t start[MOST];
    float scale[MOST], bias[MOST];
    int8_finish f;
} columns;

static void make_columns(columns *c, bool rounds, bool add) {
    for (int j = 0; j < MOST; j++) {
        c->scale[j] = rounds ? (float)(1 + drawn(9)) / 4096 : 1;
        c->bias[j] = rounds ? (float)drawn(200) : 0;
        c->start[j] = drawn(1000) - 500;
    }
    c->f = (int8_finish){.start = c->start, .scale = c->scale, .bias = c->bias, .rounds = rounds,
                         .add = add, .added = 0.75f, .low = -INFINITY, .high = INFINITY};
    if (rounds)
        c->f.low = (float)drawn(40), c->f.high = 255 - (float)drawn(40);
}

/* What a sum becomes, and how near the kernel must come: sums are exact, and one that lies between
 * two steps may go either way. */
static bool is_right(const columns *c, int64_t j, int32_t sum, int before, const void *got,
                     int64_t at) {
    if (!c->f.rounds)
        return ((const float *)got)[at] == (float)sum;
    double v = sum * (double)c->scale[j] + c->bias[j];
    v += c->f.add ? before * (double)c->f.added : 0;
    v = v < c->f.low ? c->f.low : v > c->f.high ? c->f.high : v;
    return fabs(((const uint8_t *)got)[at] - v) <= 0.5 + 1e-3;
}

/* Sums of tiles against plain ones: runs that end in a group and do not, in a step of the machine's
 * tiles and behind some; columns that fill no panel, all rows of a tile, none behind the last. */
static void check_tiles(int length) {
    enum { RUNS = 2, LONGEST = 150, N = 75, ROW = 50 };
    static int8_t w[RUNS * LONGEST * N];
    static float out[INT8_ROWS * N];
    static columns c;
    int64_t at[RUNS * LONGEST];
    const int k = RUNS * length;
    const int64_t runs[RUNS] = {0, 1600};
    const int64_t read = (length + INT8_GROUP - 1) / INT8_GROUP * INT8_GROUP;
    int set = 0;
    fill_signed(w, k * N);
    make_columns(&c, false, false);
    for (int i = 0; i < k; i++)
        at[i] = i * N;
    const int8_matrix m = {RUNS, length, N, w, at, 1};
    void *memory = cfx__alloc_aligned(int8_weights_size(&m));
    const int8_weights packed = int8_weights_in(&m, memory);
    int8_pack(&packed, &m);
    CHECK_INT(packed.groups, read / INT8_GROUP);
    for (int rows = 1; rows <= int8_rows(); rows++) {
        const int64_t bytes = runs[RUNS - 1] + (rows - 1) * ROW + read;
        uint8_t *a = malloc((size_t)bytes); /* a sanitizer sees what is read behind it */
        fill_unsigned(a, bytes);
        for (int panel = 0; panel * int8_columns() < N; panel++) {
            const int first = panel * int8_columns();
            int8_tile_run(&(int8_tile){.a = a, .row = ROW, .at = runs, .w = &packed, .panel = panel,
                                       .finish = &c.f, .c = out + first, .c_row = N, .set = &set},
                          rows);
            for (int r = 0; r < rows; r++)
                for (int j = first; j < first + int8_columns() && j < N; j++) {
                    int32_t sum = c.start[j];
                    for (int i = 0; i < k; i++)
                        sum += a[r * ROW + runs[i / length] + i % length] * w[i * N + j];
                    if ((float)sum != out[r * N + j])
                        test_fail(CFX_HERE, "row %d of %d, column %d: %g, not %d", r, rows, j,
                                  (double)out[r * N + j], sum);
                }
        }
        free(a);
    }
    int8_tiles_end(&set);
    int32_t first = 0;
    for (int i = 0; i < k; i++)
        first += w[i * N];
    CHECK_INT(packed.sums[0], first);
    cfx__free(memory);
}

TEST(int8_tiles_are_exact) {
    static const int lengths[] = {37, 64, 71, 128, 150};
    for (int i = 0; i < COUNT(lengths); i++)
        check_tiles(lengths[i]);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static conv drawn_conv(bool lone) {
    conv v = {.dims = 2, .batch = 1 + drawn(2), .ic = 1 + drawn(lone ? 150 : 40)};
    v.groups = lone ? v.ic : 1;
    v.oc = lone ? v.ic : 1 + drawn(80);
    v.in[0] = v.out[0] = v.kernel[0] = v.stride[0] = v.dilation[0] = 1;
    for (int d = 1; d < 3; d++) {
        v.kernel[d] = 1 + drawn(5);
        v.stride[d] = 1 + drawn(3);
        v.dilation[d] = 1 + drawn(2);
        v.pad[d] = drawn(3);
        const int64_t reach = (v.kernel[d] - 1) * v.dilation[d] + 1;
        v.in[d] = reach + drawn(20);
        v.out[d] = (v.in[d] + 2 * v.pad[d] - reach) / v.stride[d] + 1;
    }
    return v;
}

/* The sum at a point of the result, with the input's zero outside. */
static int32_t plain_sum(const conv *v, const uint8_t *x, const int8_t *w, int zero, int64_t image,
                         int64_t oy, int64_t ox, int64_t o) {
    const int64_t lone = v->groups > 1, channels = lone ? 1 : v->ic;
    int32_t sum = 0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t ky = 0; ky < v->kernel[1]; ky++)
            for (int64_t kx = 0; kx < v->kernel[2]; kx++) {
                const int64_t y = oy * v->stride[1] - v->pad[1] + ky * v->dilation[1];
                const int64_t at = ox * v->stride[2] - v->pad[2] + kx * v->dilation[2];
                const bool inside = y >= 0 && y < v->in[1] && at >= 0 && at < v->in[2];
                const int64_t point = (image * v->in[1] + y) * v->in[2] + at;
                const int q = inside ? x[point * v->ic + (lone ? o : c)] : zero;
                sum += (q - zero) * w[((o * channels + c) * v->kernel[1] + ky) * v->kernel[2] + kx];
            }
    return sum;
}

/* One convolution of any geometry, channel by channel or not, against plain sums. */
static bool check_conv(bool lone, bool rounds, bool add) {
    const conv v = drawn_conv(lone);
    const int64_t places = v.batch * v.out[1] * v.out[2], given = v.batch * v.in[1] * v.in[2];
    const int64_t taps = v.kernel[1] * v.kernel[2], depth = taps * (lone ? 1 : v.ic);
    const int zero = drawn(256);
    uint8_t *x = malloc((size_t)(given * v.ic)), *before = malloc((size_t)(places * v.oc));
    int8_t *w = malloc((size_t)(depth * v.oc));
    char *out = malloc((size_t)(places * v.oc) * sizeof(float));
    int64_t *at = malloc((size_t)depth * sizeof *at);
    columns c;
    fill_unsigned(x, given * v.ic);
    fill_unsigned(before, places * v.oc);
    fill_signed(w, depth * v.oc);
    memcpy(out, before, (size_t)(places * v.oc));
    make_columns(&c, rounds, add);
    for (int64_t i = 0; i < depth && !lone; i++)
        at[i] = i % v.ic * taps + i / v.ic;
    const int8_matrix m = {int8_runs(&v), int8_run_length(&v), v.oc, w, at, depth};
    void *memory = cfx__alloc_aligned(lone ? int8_lone_size(&v) : int8_weights_size(&m));
    const int8_lone alone = int8_lone_in(&v, memory);
    const int8_weights packed = int8_weights_in(&m, memory);
    if (lone)
        int8_lone_pack(&alone, w);
    else
        int8_pack(&packed, &m);
    for (int64_t o = 0; o < v.oc; o++)
        c.start[o] = -zero * (lone ? alone.sums : packed.sums)[o];
    CHECK(lone ? int8_lone_run(&(int8_lone_work){&alone, &c.f, x, out, (uint8_t)zero})
               : int8_run(&(int8_work){v, v.ic, v.oc, &packed, &c.f, x, out, (uint8_t)zero}));
    bool right = true;
    for (int64_t i = 0; i < places * v.oc && right; i++) {
        const int64_t place = i / v.oc, line = place / v.out[2];
        const int32_t sum = plain_sum(&v, x, w, zero, line / v.out[1], line % v.out[1],
                                      place % v.out[2], i % v.oc);
        right = is_right(&c, i % v.oc, sum, before[i], out, i);
    }
    cfx__free(memory);
    free(x), free(before), free(w), free(out), free(at);
    return right;
}

TEST(int8_convolutions_are_exact) {
    for (int i = 0; i < 200; i++)
        if (!check_conv(i % 2, i / 2 % 2, i / 4 % 2 && i / 2 % 2))
            test_fail(CFX_HERE, "the convolution drawn as number %d is wrong", i);
    CHECK_OK();
}

/* Bytes of 255 by weights of -128: the longest sum that fits 32 bits, and one that does not. */
TEST(int8_products_are_as_deep_as_sums_reach) {
    const float one = 1;
    cfx__integers q = {.x = {1, 0}, .scales = cfx_tensor_new(CFX_F32, 1, (int64_t[]){1}, &one)};
    const cfx__epilogue e = {.integers = &q};
    for (int64_t depth = INT8_DEPTH; depth <= INT8_DEPTH + 1; depth++)
        CFX_SCOPE {
            cfx_tensor *w = cfx_full(cfx_list(1, depth), -128, CFX_KW(dtype, cfx_i8));
            cfx_tensor *x = cfx_full(cfx_list(1, depth), 255, CFX_KW(dtype, cfx_u8));
            cfx_tensor *out = cfx_tensor_new(CFX_F32, 2, (int64_t[]){1, 1}, NULL);
            const product_layer p = {x, w, NULL, out, true};
            CHECK(int8_gemm_takes(&p, &e) == (depth == INT8_DEPTH));
            cfx__ready *r = depth == INT8_DEPTH ? int8_gemm_ready(&p, &e) : NULL;
            CHECK(!r || r->run(r, x->data, out->data, NULL));
            CHECK(!r || cfx_tensor_get(out, 0) == (float)(-255 * 128 * depth));
            cfx_drop(r);
        }
    CHECK_OK();
}
