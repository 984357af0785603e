/* Convolution channel by channel, channels last: each point is a sum over those under the kernel,
 * vector by vector of their channels. Where the kernel reaches over the border, the part of it that
 * does not is taken. */
#include "conv_tile.h"
#include "widths.h"

#include "../ops.h"

#define UNROLL _Pragma("GCC unroll 16")

enum { POINTS = 4 }; /* of a line that are computed together */

/* What all points share. */
typedef struct {
    int64_t n;      /* channels that are computed */
    int64_t row;    /* channels of a point of dst and of the weights: all of them */
    int64_t across; /* points of the kernel in a line */
    int64_t point; /* elements from a point of src to the next */
    int64_t line, apart, step; /* and from one under the kernel to that of its next line, its next
                                  point, and the next result */
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

#define BODY "conv_channels.inc"
#include "widths.inc"

static void run_points(const channels *c, const spot *s, int64_t points) {
    int bytes = vector_bytes();
    while (bytes > 16 && c->n * (int64_t)sizeof(float) < bytes)
        bytes /= 2;
    BY_WIDTH(bytes, points)(c, s, points);
}

bool conv_channels_takes(const conv *v) {
    return v->dims <= 2 && v->groups > 1 && v->groups == v->ic && v->oc == v->ic && v->oc >= 4;
}

/* The kernel's points [*from, *to) that lie inside when its first is at `at`. */
static void inside(int64_t at, int64_t step, int64_t n, int64_t size, int64_t *from, int64_t *to) {
    *from = at < 0 ? (-at + step - 1) / step : 0;
    *to = size <= at ? 0 : (size - at + step - 1) / step;
    *from = *from < n ? *from : n;
    *to = *to < n ? *to : n;
    *to = *to > *from ? *to : *from;
}

static void run_line(const channels *c, const conv_lines *l, int64_t y) {
    const conv *v = &l->t->v;
    const int64_t first = y * v->stride[1] - v->pad[1], reach = v->dilation[2] * (c->across - 1);
    spot s;
    inside(first, v->dilation[1], v->kernel[1], v->in[1], &s.top, &s.bottom);
    const float *line = l->src + first * v->in[2] * l->src_row;
    float *to = l->dst + y * v->out[2] * c->row;
    /* [left, right) see the whole width of the kernel */
    const int64_t step = v->stride[2], whole = v->in[2] - reach + v->pad[2];
    int64_t left = (v->pad[2] + step - 1) / step, right = whole > 0 ? (whole + step - 1) / step : 0;
    right = right < v->out[2] ? right : v->out[2];
    for (int64_t x = 0, n; x < v->out[2]; x += n) {
        const int64_t at = x * step - v->pad[2];
        n = x >= left && right - x >= POINTS ? right - x : 1;
        inside(at, v->dilation[2], c->across, v->in[2], &s.left, &s.right);
        s.from = line + at * l->src_row;
        s.to = to + x * c->row;
        run_points(c, &s, n);
    }
    tile_finish(&l->t->epilogue, to, c->row, v->out[2], c->n);
}

void conv_channels_lines(const conv_lines *l) {
    const conv_tiles *t = l->t;
    const conv *v = &t->v;
    const channels c = {.n = l->n,
                        .row = v->ic,
                        .across = v->kernel[2],
                        .point = l->src_row,
                        .line = v->dilation[1] * v->in[2] * l->src_row,
                        .apart = v->dilation[2] * l->src_row,
                        .step = v->stride[2] * l->src_row,
                        .weights = (const float *)t->weights + l->channel,
                        .bias = t->bias ? t->bias + l->channel : NULL,
                        .bounded = t->epilogue.bounded,
                        .low = t->epilogue.low,
                        .high = t->epilogue.high};
    for (int64_t y = l->top; y < l->bottom; y++)
        run_line(&c, l, y);
}

typedef struct {
    const conv_tiles *t;
    const float *src;
    float *dst;
} job;

static void run_lines(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const conv *v = &j->t->v;
    for (int64_t i = begin, n; i < end; i += n) {
        const int64_t image = i / v->out[1], y = i % v->out[1];
        n = end - i < v->out[1] - y ? end - i : v->out[1] - y;
        conv_lines l = {.t = j->t,
                        .n = v->ic,
                        .src = j->src + image * v->in[1] * v->in[2] * v->ic,
                        .src_row = v->ic,
                        .dst = j->dst + image * v->out[1] * v->out[2] * v->ic,
                        .top = y,
                        .bottom = y + n};
        conv_channels_lines(&l);
    }
}

void conv_channels_run(const conv_tiles *t, const float *src, float *dst) {
    const conv *v = &t->v;
    job j = {t, src, dst};
    const int64_t each = v->out[2] * v->ic * v->kernel[1] * v->kernel[2];
    cfx__parallel(v->batch * v->out[1], 1 + 65536 / (each + 1), run_lines, &j);
}
