/* Pooling of images that lie channels last, made ready for a plan: a vector of channels at a time,
 * point by point of the window. The largest of bytes is there too, for what is quantized. */
#include "../ready.h"
#include "pool.h"

#include <math.h>

enum { CHANNELS = 128 }; /* that are pooled at a time */

typedef enum { LAST_MAX, LAST_AVG, LAST_ADAPTIVE } last_kind;

typedef struct {
    cfx__ready pub;
    pool p;
    last_kind kind;
    bool bytes;
    int64_t channels, dst_row; /* elements from a point of the result to the next */
} kernel;

static const cfx__obj_type kernel_type = {.name = "ready kernel"};

typedef struct {
    const kernel *k;
    const void *x;
    void *y;
    float *lines; /* the sums of lines, where they are taken apart */
} job;

/* The points of dimension d that result o is pooled from: first, one behind the last, step. */
static void window(const kernel *k, int d, int64_t o, int64_t *w) {
    const pool *p = &k->p;
    if (k->kind == LAST_ADAPTIVE) {
        w[0] = o * p->in[d] / p->out[d];
        w[1] = ((o + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
        w[2] = 1;
        return;
    }
    int64_t from, to;
    pool_clip(p, d, o, &from, &to);
    const int64_t start = o * p->step[d] - p->pad[d];
    w[0] = start + from * p->dil[d];
    w[1] = start + to * p->dil[d];
    w[2] = p->dil[d];
}

CFX__SIMD static void take_larger(float *most, const float *x, int64_t n) {
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) most[i] =
        ((x[i] > most[i]) | (x[i] != x[i])) ? x[i] : most[i];
}

CFX__SIMD static void add(float *sum, const float *x, int64_t n) {
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

CFX__SIMD static void store(float *to, const float *sum, int64_t n, float divisor) {
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = sum[i] / divisor;
}

static double divisor_of(const kernel *k, int64_t oh, int64_t ow, const int64_t *h,
                         const int64_t *w) {
    const pool *p = &k->p;
    if (p->divisor)
        return (double)p->divisor;
    if (k->kind == LAST_AVG && p->include_pad)
        return pool_span(p, 1, oh) * pool_span(p, 2, ow);
    return (double)(h[1] - h[0]) * (double)(w[1] - w[0]);
}

/* One point of the result, n channels; sums go line by line, so that long ones stay exact. */
static void pool_point(const kernel *k, const float *x, float *to, int64_t n, const int64_t *h,
                       const int64_t *w, double divisor) {
    float all[CHANNELS], line[CHANNELS];
    const bool max = k->kind == LAST_MAX;
    for (int64_t i = 0; i < n; i++)
        all[i] = max ? -INFINITY : 0;
    for (int64_t a = h[0]; a < h[1]; a += h[2]) {
        memset(line, 0, sizeof line);
        for (int64_t b = w[0]; b < w[1]; b += w[2]) {
            const float *from = x + (a * k->p.in[2] + b) * k->channels;
            if (max)
                take_larger(all, from, n);
            else
                add(line, from, n);
        }
        if (!max)
            add(all, line, n);
    }
    store(to, all, n, max ? 1 : (float)divisor);
}

/* The same, the largest of bytes; no window is empty. */
CFX__SIMD static void largest_byte(const kernel *k, const uint8_t *x, uint8_t *to, int64_t n,
                                   const int64_t *h, const int64_t *w) {
    enum { WIDE = 64 };
    for (int64_t first = 0; first < n; first += WIDE) {
        uint8_t most[WIDE] = {0};
        const int64_t wide = n - first < WIDE ? n - first : WIDE;
        for (int64_t a = h[0]; a < h[1]; a += h[2])
            for (int64_t b = w[0]; b < w[1]; b += w[2]) {
                const uint8_t *from = x + (a * k->p.in[2] + b) * k->channels + first;
                if (wide == WIDE)
                    for (int i = 0; i < WIDE; i++)
                        most[i] = from[i] > most[i] ? from[i] : most[i];
                else
                    for (int64_t i = 0; i < wide; i++)
                        most[i] = from[i] > most[i] ? from[i] : most[i];
            }
        memcpy(to + first, most, (size_t)wide);
    }
}

/* A unit is some channels of a line of the result. */
static void run_units(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const kernel *k = j->k;
    const pool *p = &k->p;
    const int64_t parts = (k->channels + CHANNELS - 1) / CHANNELS;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit % parts * CHANNELS, oh = unit / parts % p->out[1];
        const int64_t image = unit / parts / p->out[1];
        const int64_t n = k->channels - first < CHANNELS ? k->channels - first : CHANNELS;
        const int64_t from = image * p->in[1] * p->in[2] * k->channels + first;
        const int64_t to = (image * p->out[1] + oh) * p->out[2] * k->dst_row + first;
        int64_t h[3], w[3];
        window(k, 1, oh, h);
        for (int64_t ow = 0; ow < p->out[2]; ow++) {
            window(k, 2, ow, w);
            if (k->bytes)
                largest_byte(k, (const uint8_t *)j->x + from,
                             (uint8_t *)j->y + to + ow * k->dst_row, n, h, w);
            else
                pool_point(k, (const float *)j->x + from, (float *)j->y + to + ow * k->dst_row, n,
                           h, w, divisor_of(k, oh, ow, h, w));
        }
    }
}

/* Whether all of an image becomes one point: there are as many units as lines then. */
static bool is_whole(const kernel *k) {
    return k->kind == LAST_ADAPTIVE && k->p.out[1] == 1 && k->p.out[2] == 1;
}

static void sum_lines(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const int64_t n = j->k->channels, width = j->k->p.in[2];
    for (int64_t line = begin; line < end; line++) {
        float *to = j->lines + line * n;
        memset(to, 0, (size_t)n * sizeof *to);
        for (int64_t i = 0; i < width; i++)
            add(to, (const float *)j->x + (line * width + i) * n, n);
    }
}

/* Sums of lines, and of those: the order in which pool_point adds. */
static void run_whole(const job *j) {
    const kernel *k = j->k;
    const int64_t n = k->channels, lines = k->p.in[1], images = k->p.planes / n;
    cfx__parallel(images * lines, cfx__grain((double)(n * k->p.in[2])), sum_lines, (void *)j);
    for (int64_t image = 0; image < images; image++) {
        float *all = j->lines + image * lines * n;
        for (int64_t i = 1; i < lines; i++)
            add(all, all + i * n, n);
        store((float *)j->y + image * k->dst_row, all, n, (float)(lines * k->p.in[2]));
    }
}

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    job j = {(const kernel *)r, x, out, scratch};
    const pool *p = &j.k->p;
    const int64_t parts = (j.k->channels + CHANNELS - 1) / CHANNELS;
    if (is_whole(j.k)) {
        run_whole(&j);
        return cfx_ok();
    }
    const double window_size = j.k->kind == LAST_ADAPTIVE
                                   ? (double)p->in[1] * (double)p->in[2] / (double)p->out[1]
                                   : (double)p->k[1] * (double)p->k[2] * (double)p->out[2];
    cfx__parallel(p->planes / j.k->channels * p->out[1] * parts, cfx__grain(window_size * CHANNELS),
                  run_units, &j);
    return cfx_ok();
}

bool pool_last_takes(const cfx__layer *l, bool max) {
    const cfx_tensor *x = cfx__layer_x(l), *out = cfx__layer_out(l);
    return !l->epilogue.n && (x->dtype == CFX_F32 || (max && x->dtype == CFX_U8)) && out->numel &&
           cfx__tensor_channels_row(out) && cfx__tensor_is_channels_last(x);
}

cfx__ready *pool_last_ready(const cfx__layer *l, const pool *p, bool max, bool adaptive) {
    const cfx_tensor *x = cfx__layer_x(l);
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->p = *p;
    k->kind = adaptive ? LAST_ADAPTIVE : max ? LAST_MAX : LAST_AVG;
    k->bytes = x->dtype == CFX_U8;
    k->channels = x->shape[1];
    k->dst_row = cfx__tensor_channels_row(cfx__layer_out(l));
    k->pub.name = "pool channels last";
    k->pub.scratch = is_whole(k) ? p->planes * p->in[1] * (int64_t)sizeof(float) : 0;
    k->pub.run = run;
    return &k->pub;
}
