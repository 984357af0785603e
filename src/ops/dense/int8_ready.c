/* Layers in integers made ready: products and convolutions of bytes, with scales, bias, addition,
 * bounds and rounding of the result in one go. */
#include <cfx/ops.h>

#include "int8.h"

#include "../dense.h"
#include "../ops.h"

#include <float.h>
#include <math.h>

/* What becomes of sums before they are stored. */
typedef struct {
    float *scale, *bias; /* of each column */
    int32_t *shift;      /* the input's zero times the sum of each column's weights */
    bool add, rounds;
    cfx__rounding added, out;
    float low, high;
} finish;

typedef struct {
    cfx__ready pub;
    int8_weights w;
    int16_t *lone;     /* depthwise: [taps][channels] */
    finish finish;
    cfx__rounding x;
    bool dynamic;
    conv v;            /* products: one place for each row, channels ic and oc */
    int64_t rows;
    bool direct;       /* rows of A lie in memory as they are */
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    int8_weights_free(&k->w);
    cfx__free(k->lone);
    cfx__free(k->finish.scale);
    cfx__free(k->finish.bias);
    cfx__free(k->finish.shift);
}

static const cfx__obj_type kernel_type = {.name = "integer kernel", .free = kernel_free};

/* ---- the end of a row ------------------------------------------------------------------------ */

/* Columns [first, first + n) of a row whose result begins at `out`. */
CFX__SIMD static void finish_floats(const finish *f, float factor, const int32_t *sum,
                                    int64_t first, int64_t n, float *restrict out) {
    for (int64_t j = 0; j < n; j++) {
        float v = (float)(sum[j] - f->shift[first + j]) * (f->scale[first + j] * factor) +
                  f->bias[first + j];
        v = v < f->low ? f->low : v;
        out[first + j] = v > f->high ? f->high : v;
    }
}

/* The same, rounded to bytes; what is not added to is not read. INT8_COLUMNS columns at most: they
 * are kept as they go, a step of the work at a time, which compilers turn into vectors. */
CFX__SIMD static void finish_bytes(const finish *f, const int32_t *sum, int64_t first, int64_t n,
                                   uint8_t *restrict out) {
    const float *scale = f->scale + first, *bias = f->bias + first;
    const int32_t *shift = f->shift + first;
    const float inverse = 1 / f->out.scale, zero = (float)f->out.zero;
    const float added = f->added.scale, least = (float)f->added.zero;
    const float low = f->low, high = f->high;
    float v[INT8_COLUMNS];
    int32_t q[INT8_COLUMNS];
    for (int64_t j = 0; j < n; j++)
        v[j] = (float)(sum[j] - shift[j]) * scale[j] + bias[j];
    for (int64_t j = 0; f->add && j < n; j++)
        v[j] += ((float)out[first + j] - least) * added;
    for (int64_t j = 0; j < n; j++) {
        float x = v[j] < low ? low : v[j];
        x = rintf((x > high ? high : x) * inverse) + zero;
        x = x > 0 ? x : 0;
        q[j] = (int32_t)(x < 255 ? x : 255);
    }
    for (int64_t j = 0; j < n; j++)
        out[first + j] = (uint8_t)q[j];
}

/* ---- rows of the input ----------------------------------------------------------------------- */

/* Row `at` of A: the bytes below the kernel at one place, zero outside. */
static void gather_row(const kernel *k, const uint8_t *x, int64_t at, uint8_t *to) {
    const conv *v = &k->v;
    const int64_t width = v->out[2], height = v->out[1];
    const int64_t ox = at % width, oy = at / width % height, image = at / width / height;
    for (int64_t ky = 0; ky < v->kernel[1]; ky++) {
        const int64_t y = oy * v->stride[1] - v->pad[1] + ky * v->dilation[1];
        for (int64_t kx = 0; kx < v->kernel[2]; kx++, to += v->ic) {
            const int64_t at_x = ox * v->stride[2] - v->pad[2] + kx * v->dilation[2];
            if (y < 0 || y >= v->in[1] || at_x < 0 || at_x >= v->in[2])
                memset(to, k->x.zero, (size_t)v->ic);
            else
                memcpy(to, x + ((image * v->in[1] + y) * v->in[2] + at_x) * v->ic, (size_t)v->ic);
        }
    }
    memset(to, 0, (size_t)(k->w.depth - k->w.k)); /* by weights of zero */
}

typedef struct {
    const kernel *k;
    const uint8_t *x;
    void *out;
    int64_t block; /* rows of one piece */
    float factor;  /* dynamic: the scale of the input */
    bool failed;
} work;

/* ---- products -------------------------------------------------------------------------------- */

static void finish_tile(const work *w, int64_t row, int rows, int64_t panel, const int32_t *sum) {
    const kernel *k = w->k;
    const int64_t columns = int8_columns(), first = panel * columns;
    const int64_t n = k->w.n - first < columns ? k->w.n - first : columns;
    for (int r = 0; r < rows; r++) {
        const int64_t at = (row + r) * k->w.n;
        if (k->finish.rounds)
            finish_bytes(&k->finish, sum + r * columns, first, n, (uint8_t *)w->out + at);
        else
            finish_floats(&k->finish, w->factor, sum + r * columns, first, n,
                          (float *)w->out + at);
    }
}

/* Rows [first, last) by all panels; A is gathered to `room` where it does not lie in rows. */
static void multiply(const work *w, int64_t first, int64_t last, uint8_t *room) {
    const kernel *k = w->k;
    const int64_t columns = int8_columns(), panels = (k->w.n + columns - 1) / columns;
    const uint8_t *a = k->direct ? w->x + first * k->w.depth : room;
    int32_t sum[INT8_ROWS * INT8_COLUMNS];
    for (int64_t i = first; i < last && !k->direct; i++)
        gather_row(k, w->x, i, room + (i - first) * k->w.depth);
    for (int64_t p = 0; p < panels; p++)
        for (int64_t i = first; i < last; i += INT8_ROWS) {
            const int rows = last - i < INT8_ROWS ? (int)(last - i) : INT8_ROWS;
            int8_tile(&k->w, p, rows, a + (i - first) * k->w.depth, k->w.depth, sum);
            finish_tile(w, i, rows, p, sum);
        }
}

static void multiply_pieces(void *arg, int64_t begin, int64_t end) {
    work *w = arg;
    const kernel *k = w->k;
    uint8_t *room = k->direct ? NULL : cfx__alloc_try((size_t)(w->block * k->w.depth));
    if (!room && !k->direct) {
        w->failed = true;
        return;
    }
    for (int64_t b = begin; b < end; b++) {
        const int64_t last = (b + 1) * w->block;
        multiply(w, b * w->block, last < k->rows ? last : k->rows, room);
    }
    cfx__free(room);
}

/* ---- one channel a group --------------------------------------------------------------------- */

enum {
    LANES = INT8_COLUMNS,
    TAPS = 64
}; /* channels that are summed in registers; of a kernel, at most */

/* Sums of n channels, LANES at most, over some taps: bytes at x[t], weights at w[t]. A product of a
 * byte less another by a weight fits 16 bits. */
CFX__SIMD static void add_taps(const uint8_t *const *x, const int16_t *const *w, int taps,
                               int16_t zero, int64_t at, int64_t n, int32_t *restrict out) {
    int32_t sum[LANES] = {0};
    for (int t = 0; t < taps; t++) {
        const uint8_t *xt = x[t] + at;
        const int16_t *wt = w[t] + at;
        if (n == LANES)
            for (int c = 0; c < LANES; c++)
                sum[c] += (int16_t)((int16_t)(xt[c] - zero) * wt[c]);
        else
            for (int64_t c = 0; c < n; c++)
                sum[c] += (int16_t)((int16_t)(xt[c] - zero) * wt[c]);
    }
    memcpy(out, sum, (size_t)n * sizeof *out);
}

/* The taps of one place that lie inside the image. */
static int taps_at(const work *w, int64_t place, const uint8_t **x, const int16_t **weights) {
    const kernel *k = w->k;
    const conv *v = &k->v;
    const int64_t ox = place % v->out[2], oy = place / v->out[2] % v->out[1];
    const int64_t image = place / v->out[2] / v->out[1];
    int n = 0;
    for (int64_t ky = 0; ky < v->kernel[1]; ky++)
        for (int64_t kx = 0; kx < v->kernel[2]; kx++) {
            const int64_t y = oy * v->stride[1] - v->pad[1] + ky * v->dilation[1];
            const int64_t at = ox * v->stride[2] - v->pad[2] + kx * v->dilation[2];
            if (y < 0 || y >= v->in[1] || at < 0 || at >= v->in[2])
                continue;
            x[n] = w->x + ((image * v->in[1] + y) * v->in[2] + at) * v->ic;
            weights[n++] = k->lone + (ky * v->kernel[2] + kx) * v->ic;
        }
    return n;
}

static void lone_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const kernel *k = w->k;
    const int64_t channels = k->v.ic;
    const uint8_t *x[TAPS];
    const int16_t *weights[TAPS];
    int32_t sum[LANES];
    for (int64_t place = begin; place < end; place++) {
        const int taps = taps_at(w, place, x, weights);
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t n = channels - c < LANES ? channels - c : LANES;
            add_taps(x, weights, taps, (int16_t)k->x.zero, c, n, sum);
            if (k->finish.rounds)
                finish_bytes(&k->finish, sum, c, n, (uint8_t *)w->out + place * channels);
            else
                finish_floats(&k->finish, 1, sum, c, n, (float *)w->out + place * channels);
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* So many rows a piece that each thread has some, and a piece's rows of A stay in the cache. */
static int64_t block_of(const kernel *k) {
    const int64_t threads = cfx_get_num_threads(), most = 1 + (256 << 10) / k->w.depth;
    int64_t rows = (k->rows + 2 * threads - 1) / (2 * threads);
    rows = rows > most ? most : rows;
    return (rows + INT8_ROWS - 1) / INT8_ROWS * INT8_ROWS;
}

/* Rows of float32 that become bytes, by the range that all have together. */
typedef struct {
    const kernel *k;
    const float *x;
    uint8_t *to;
    float *low, *high; /* of each row */
    float inverse, zero;
} rounding;

CFX__SIMD static void find_ranges(const rounding *r, int64_t begin, int64_t end) {
    enum { WIDE = 16 };
    const int64_t n = r->k->w.k;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->x + row * n;
        float low[WIDE] = {0}, high[WIDE] = {0};
        int64_t i = 0;
        for (; i + WIDE <= n; i += WIDE)
            for (int j = 0; j < WIDE; j++) {
                low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
                high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
            }
        for (; i < n; i++) {
            low[0] = x[i] < low[0] ? x[i] : low[0];
            high[0] = x[i] > high[0] ? x[i] : high[0];
        }
        for (int j = 1; j < WIDE; j++) {
            low[0] = low[j] < low[0] ? low[j] : low[0];
            high[0] = high[j] > high[0] ? high[j] : high[0];
        }
        r->low[row] = low[0];
        r->high[row] = high[0];
    }
}

CFX__SIMD static void round_rows(const rounding *r, int64_t begin, int64_t end) {
    const int64_t n = r->k->w.k, depth = r->k->w.depth;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->x + row * n;
        uint8_t *to = r->to + row * depth;
        for (int64_t i = 0; i < n; i++) {
            float v = rintf(x[i] * r->inverse) + r->zero;
            v = v > 0 ? v : 0;
            to[i] = (uint8_t)(int)(v < 255 ? v : 255);
        }
        memset(to + n, 0, (size_t)(depth - n));
    }
}

static void find_ranges_of(void *arg, int64_t begin, int64_t end) { find_ranges(arg, begin, end); }
static void round_rows_of(void *arg, int64_t begin, int64_t end) { round_rows(arg, begin, end); }

/* Rounds the input as choose_qparams and quantize_per_tensor do; what that makes of it. */
static cfx__rounding round_input(const kernel *k, const float *x, void *scratch) {
    rounding r = {.k = k, .x = x, .to = scratch};
    r.low = (float *)((char *)scratch + k->rows * k->w.depth);
    r.high = r.low + k->rows;
    const int64_t grain = grain_of((double)k->w.k / 2);
    cfx__parallel(k->rows, grain, find_ranges_of, &r);
    float low = 0, high = 0;
    for (int64_t i = 0; i < k->rows; i++) {
        low = r.low[i] < low ? r.low[i] : low;
        high = r.high[i] > high ? r.high[i] : high;
    }
    double scale = ((double)high - low) / 255;
    scale = scale > FLT_EPSILON ? scale : FLT_EPSILON;
    double zero = -nearbyint(low / scale);
    zero = zero < 0 ? 0 : zero > 255 ? 255 : zero;
    r.inverse = (float)(1 / scale);
    r.zero = (float)zero;
    cfx__parallel(k->rows, grain, round_rows_of, &r);
    return (cfx__rounding){(float)scale, (int32_t)zero};
}

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    work w = {.k = k, .x = x, .out = out, .factor = 1};
    kernel now = *k;
    int32_t *shift = NULL;
    if (k->dynamic) {
        cfx__rounding in = round_input(k, x, scratch);
        shift = (int32_t *)((char *)scratch + k->rows * k->w.depth); /* ranges are not needed now */
        for (int64_t j = 0; j < k->w.n; j++)
            shift[j] = in.zero * k->w.sums[j];
        now.finish.shift = shift;
        w.k = &now;
        w.x = scratch;
        w.factor = in.scale;
    }
    w.block = block_of(k);
    if (k->lone)
        cfx__parallel(k->rows, grain_of((double)(k->v.kernel[1] * k->v.kernel[2] * k->v.ic)),
                      lone_rows, &w);
    else
        cfx__parallel((k->rows + w.block - 1) / w.block,
                      grain_of((double)(w.block * k->w.depth * k->w.n) / 8), multiply_pieces, &w);
    if (w.failed)
        cfx__error_memory((size_t)(w.block * k->w.depth), false);
    return !w.failed;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* An addition first, then bounds: all that kernels do to a sum. */
static bool read_posts(finish *f, const cfx__epilogue *e) {
    f->low = -INFINITY, f->high = INFINITY;
    for (int i = 0; i < e->n; i++) {
        const cfx__post *p = &e->post[i];
        float low = 0, high = INFINITY;
        if (!p->op) {
            if (i)
                return false;
            f->add = true;
            continue;
        }
        if (p->op == &cfx_op_relu6)
            high = 6;
        else if (p->op == &cfx_op_hardtanh)
            low = (float)cfx_number(p->args[1]), high = (float)cfx_number(p->args[2]);
        else if (p->op != &cfx_op_relu)
            return false;
        f->low = low > f->low ? low : f->low;
        f->high = high < f->high ? high : f->high;
    }
    return true;
}

/* Scales, biases and shifts of n columns; false where they do not fit or memory fails. */
static bool read_columns(kernel *k, const cfx__epilogue *e, const cfx_tensor *bias, int64_t n) {
    const cfx__integers *q = e->integers;
    finish *f = &k->finish;
    if (q->scales->dtype != CFX_F32 || !cfx__tensor_is_contiguous(q->scales) ||
        (q->scales->numel != n && q->scales->numel != 1) || !read_posts(f, e) ||
        (bias && (bias->dtype != CFX_F32 || bias->numel != n || !bias->data)) ||
        (f->add && !q->rounds) || (q->dynamic && (q->rounds || f->add)))
        return false;
    f->scale = cfx__alloc((size_t)n * sizeof *f->scale);
    f->bias = cfx__alloc0((size_t)n * sizeof *f->bias);
    f->shift = cfx__alloc0((size_t)n * sizeof *f->shift);
    for (int64_t j = 0; j < n; j++) {
        const float *s = (const float *)q->scales->data;
        f->scale[j] = s[q->scales->numel == 1 ? 0 : j] * (q->dynamic ? 1 : q->x.scale);
        if (bias)
            f->bias[j] = ((const float *)bias->data)[j];
        if (!k->lone)
            f->shift[j] = q->x.zero * k->w.sums[j];
    }
    f->rounds = q->rounds;
    f->out = q->out;
    f->added = q->add;
    k->x = q->x;
    k->dynamic = q->dynamic;
    return true;
}

/* Weights [oc][ic][taps] as [taps][ic] rows by oc columns. */
static bool pack_conv(kernel *k, const conv *v, const int8_t *w) {
    const int64_t taps = v->kernel[1] * v->kernel[2], depth = taps * v->ic;
    int8_t *order = cfx__alloc_try((size_t)(depth * v->oc));
    if (!order)
        return false;
    for (int64_t o = 0; o < v->oc; o++)
        for (int64_t c = 0; c < v->ic; c++)
            for (int64_t t = 0; t < taps; t++)
                order[o * depth + t * v->ic + c] = w[(o * v->ic + c) * taps + t];
    bool fine = int8_pack(&k->w, depth, v->oc, order, 1, depth);
    cfx__free(order);
    return fine;
}

static bool pack_lone(kernel *k, const conv *v, const int8_t *w) {
    const int64_t taps = v->kernel[1] * v->kernel[2];
    k->w.depth = 1;
    k->lone = cfx__alloc_try((size_t)(taps * v->ic) * sizeof *k->lone);
    for (int64_t c = 0; k->lone && c < v->ic; c++)
        for (int64_t t = 0; t < taps; t++)
            k->lone[t * v->ic + c] = w[c * taps + t];
    return k->lone != NULL;
}

static cfx__ready *made(kernel *k, bool fine, const char *name) {
    k->pub.name = name;
    k->pub.run = run;
    if (fine)
        return &k->pub;
    cfx_drop(k);
    return NULL;
}

cfx__ready *int8_conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e) {
    const bool lone = v->groups > 1 && v->groups == v->ic && v->ic == v->oc;
    if (v->dims != 2 || (v->groups > 1 && !lone) || e->integers->dynamic ||
        o->src->dtype != CFX_U8 || o->weights->dtype != CFX_I8 ||
        !cfx__tensor_is_channels_last(o->src) || !cfx__tensor_is_channels_last(o->dst) ||
        !cfx__tensor_is_contiguous(o->weights) ||
        (lone && v->kernel[1] * v->kernel[2] > TAPS))
        return NULL;
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    const int8_t *w = (const int8_t *)o->weights->data;
    k->v = *v;
    k->rows = v->batch * v->out[1] * v->out[2];
    k->direct = !lone && v->kernel[1] == 1 && v->kernel[2] == 1 && v->stride[1] == 1 &&
                v->stride[2] == 1 && !v->pad[1] && !v->pad[2] && v->ic % 4 == 0;
    bool fine = (lone ? pack_lone(k, v, w) : pack_conv(k, v, w)) &&
                read_columns(k, e, o->bias, v->oc);
    return made(k, fine, lone ? "int8 depthwise" : k->direct ? "int8 points" : "int8 convolution");
}

cfx__ready *int8_gemm_ready(const cfx_tensor *x, const cfx_tensor *w, bool w_transposed,
                            const cfx_tensor *bias, const cfx_tensor *out, const cfx__epilogue *e) {
    const cfx_dtype in = e->integers->dynamic ? CFX_F32 : CFX_U8;
    const int64_t k_size = x->ndim ? x->shape[x->ndim - 1] : 0;
    if (x->dtype != in || w->dtype != CFX_I8 || w->ndim != 2 || !k_size || !x->numel ||
        !cfx__tensor_is_contiguous(x) || !cfx__tensor_is_contiguous(out) ||
        !cfx__tensor_is_contiguous(w))
        return NULL;
    const int64_t n = w->shape[w_transposed ? 0 : 1];
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->rows = x->numel / k_size;
    k->v = (conv){.dims = 2, .batch = 1, .groups = 1, .ic = k_size, .oc = n,
                  .in = {1, 1, k->rows}, .out = {1, 1, k->rows}, .kernel = {1, 1, 1},
                  .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    bool fine = int8_pack(&k->w, k_size, n, (const int8_t *)w->data, w_transposed ? 1 : n,
                          w_transposed ? k_size : 1) &&
                read_columns(k, e, bias, n);
    k->direct = k->dynamic || k->w.depth == k_size;
    if (k->dynamic)
        k->pub.scratch = k->rows * k->w.depth +
                         (int64_t)sizeof(float) * (n > 2 * k->rows ? n : 2 * k->rows);
    return made(k, fine, k->dynamic ? "int8 product, rounding" : "int8 product");
}
