/* Convolution channel by channel, channels last: each point is a sum over those under the kernel,
 * vector by vector of their channels. Where the kernel reaches over the border, the part of it that
 * does not is taken. */
#include "conv_tile.h"

#include "../ops.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")

/* What all points share. */
typedef struct {
    int64_t n;      /* channels */
    int64_t across; /* points of the kernel in a line */
    int64_t line, apart, step; /* elements from one line, point and result to the next, in src */
    const float *weights, *bias;
    bool bounded;
    float low, high;
} channels;

/* A point of the result: the part of the kernel that lies inside, and where. */
typedef struct {
    int64_t top, bottom, left, right;
    const float *from; /* the point of src under the kernel's first; maybe outside */
    float *to;
} spot;

#define WIDTH 16
#define TARGET
#define FN(x) x##_w16
#include "conv_channels.inc"
#if defined(__x86_64__)
#define WIDTH 32
#define TARGET __attribute__((target("avx2,fma")))
#define FN(x) x##_w32
#include "conv_channels.inc"
#define WIDTH 64
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#define FN(x) x##_w64
#include "conv_channels.inc"
#endif

static void run_points(const channels *c, const spot *s, bool four) {
    const int lanes = tile_width() / 2;
    (void)lanes;
#if defined(__x86_64__)
    if (lanes == 16 && c->n >= 16)
        points_w64(c, s, four);
    else if (lanes >= 8 && c->n >= 8)
        points_w32(c, s, four);
    else
#endif
        points_w16(c, s, four);
}

bool conv_channels_takes(const conv *v) {
    return v->dims <= 2 && v->groups > 1 && v->groups == v->ic && v->oc == v->ic && v->oc >= 4;
}

typedef struct {
    const conv_tiles *t;
    const float *src;
    float *dst;
    channels c;
} job;

/* The kernel's points [*from, *to) that lie inside when its first is at `at`. */
static void inside(int64_t at, int64_t step, int64_t n, int64_t size, int64_t *from, int64_t *to) {
    *from = at < 0 ? (-at + step - 1) / step : 0;
    *to = size <= at ? 0 : (size - at + step - 1) / step;
    *from = *from < n ? *from : n;
    *to = *to < n ? *to : n;
    *to = *to > *from ? *to : *from;
}

static void run_line(const job *j, int64_t image, int64_t y) {
    const conv *v = &j->t->v;
    const channels *c = &j->c;
    const int64_t first = y * v->stride[1] - v->pad[1], reach = v->dilation[2] * (c->across - 1);
    spot s;
    inside(first, v->dilation[1], v->kernel[1], v->in[1], &s.top, &s.bottom);
    const float *line = j->src + (image * v->in[1] + first) * v->in[2] * c->n;
    float *to = j->dst + (image * v->out[1] + y) * v->out[2] * c->n;
    for (int64_t x = 0, n; x < v->out[2]; x += n) {
        const int64_t at = x * v->stride[2] - v->pad[2];
        const bool four = x + 4 <= v->out[2] && at >= 0 &&
                          at + 3 * v->stride[2] + reach < v->in[2];
        n = four ? 4 : 1;
        inside(at, v->dilation[2], c->across, v->in[2], &s.left, &s.right);
        s.from = line + at * c->n;
        s.to = to + x * c->n;
        run_points(c, &s, four);
    }
    tile_finish(&j->t->epilogue, to, 0, 1, v->out[2] * c->n);
}

static void run_lines(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t i = begin; i < end; i++)
        run_line(j, i / j->t->v.out[1], i % j->t->v.out[1]);
}

void conv_channels_run(const conv_tiles *t, const float *src, float *dst) {
    const conv *v = &t->v;
    job j = {.t = t, .src = src, .dst = dst};
    j.c = (channels){.n = v->ic,
                     .across = v->kernel[2],
                     .line = v->dilation[1] * v->in[2] * v->ic,
                     .apart = v->dilation[2] * v->ic,
                     .step = v->stride[2] * v->ic,
                     .weights = t->weights,
                     .bias = t->bias,
                     .bounded = t->epilogue.bounded,
                     .low = t->epilogue.low,
                     .high = t->epilogue.high};
    const int64_t each = v->out[2] * v->ic * v->kernel[1] * v->kernel[2];
    cfx__parallel(v->batch * v->out[1], 1 + 65536 / (each + 1), run_lines, &j);
}
