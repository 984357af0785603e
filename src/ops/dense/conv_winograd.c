/* Convolution by 3 x 3 points after Winograd: a tile of the result, 4 x 4 or 2 x 2 points, takes 36
 * or 16 multiplications for each pair of channels, not 144 or 36.
 *
 * A tile's input patch (6 x 6 or 4 x 4 points) is transformed, channel by channel; at each of its
 * points all tiles together are a matrix that is multiplied by the transformed weights, and another
 * transform gives the results. Tiles are worked on in chunks whose matrices stay in the second
 * cache: first all input transforms of a round, then for each chunk and each panel of the weights
 * the products and the output transform. The order of additions depends on the shapes alone.
 *
 * The points are 0, +-5/8, +-3/2 and infinity, which keep the rounding errors within about twice
 * those of sums in order (with the usual +-1 and +-2 it is four to five times). An infinite input
 * makes results within its tile NaN that would have been infinite or finite. */
#include "conv_tile.h"
#include "widths.h"

#include "../ops.h"

#define UNROLL _Pragma("GCC unroll 6")
#define A 0.625f
#define B 1.5f
#define A2 (A * A)
#define B2 (B * B)

enum {
    LARGEST = 36,       /* points of a patch at most */
    NEAR = 1 << 16,     /* elements of a chunk's matrices: a fourth of a second cache */
    ROUND = 1 << 20,    /* elements of all matrices of a round, for each thread */
    GRAIN = 1 << 17,    /* multiplications worth a thread */
    PER_THREAD = 4,     /* pieces for each */
    PAD = 16,           /* elements that keep rows from meeting in the first cache */
    WEIGHT = 15,        /* multiplications in the time that an element of the weights is read */
    POINT = 8           /* and in that which a transform takes for a point and a channel */
};

/* A tile's results for a panel. */
typedef struct {
    const float *from; /* its row in the first matrix of the product; the others `apart` */
    int64_t apart;
    const float *bias;
    bool add, bounded;
    float low, high;
    float *to[16]; /* the points */
} output;

#define BODY "conv_winograd.inc"
#include "widths.inc"

static void transform_input(const float *const *from, int64_t channels, int size, float *to,
                            int64_t apart) {
    BY_WIDTH(vector_bytes(), input)(from, channels, size, to, apart);
}

static void transform_output(const output *o, int size) {
    BY_WIDTH(vector_bytes(), output)(o, size);
}

/* ---- which, and the weights ------------------------------------------------------------------ */

static int64_t tiles_of(const conv *v, int step) {
    return v->batch * ((v->out[1] + step - 1) / step) * ((v->out[2] + step - 1) / step);
}

/* What a product costs for a channel of each side: `rows` rows at each of `points`. */
static double cost(const conv *v, int64_t rows, int points, bool transforms) {
    const double each = transforms ? POINT * (1 / (double)v->ic + 1 / (double)v->oc) : 0;
    return points * ((double)rows * (1 + each) + WEIGHT);
}

/* What the convolution costs by patches of this side; 0: by none. */
static double cost_by(const conv *v, int patch) {
    return patch ? cost(v, tiles_of(v, patch - 2), patch * patch, true)
                 : cost(v, v->batch * v->out[1] * v->out[2], 9, false);
}

static int cheapest(const conv *v) {
    const double direct = cost_by(v, 0), two = cost_by(v, 4), four = cost_by(v, 6);
    return four <= two && four < direct ? 6 : two < direct ? 4 : 0;
}

/* Each side has weights of its own, several times the plain ones. So a program for many batches has
 * those that suit a single image, unless others are far cheaper. */
int conv_winograd_patch(const conv *v) {
    const double far = 1.5;
    const int64_t *k = v->kernel, least = tile_width();
    if (v->dims != 2 || v->groups != 1 || k[1] != 3 || k[2] != 3 || v->stride[1] != 1 ||
        v->stride[2] != 1 || v->dilation[1] != 1 || v->dilation[2] != 1 || v->ic < least ||
        v->oc < least)
        return 0;
    conv one = *v;
    one.batch = 1;
    const int best = cheapest(v), single = cheapest(&one);
    return v->batches && cost_by(v, single) < far * cost_by(v, best) ? single : best;
}

size_t conv_winograd_weights(const conv *v, int patch) {
    return tile_panels_size(patch * patch * v->ic, v->oc, CFX_PRECISION_F32);
}

/* Three weights of a line at the points of a tile, of some columns at once; those of the line, and
 * of the result, lie `apart`. */
CFX__SIMD static void transform_line(const double *w, int64_t apart, int size, double *to) {
    const double a = A, b = B, a2 = a * a, b2 = b * b;
    const double by_a = 1 / (2 * a2 * (a2 - b2)), by_b = 1 / (2 * b2 * (b2 - a2));
    const double *w1 = w + apart, *w2 = w1 + apart;
    double *to1 = to + apart, *to2 = to1 + apart, *to3 = to2 + apart;
    if (size == 4) {
        _Pragma("omp simd") for (int i = 0; i < TILE_WIDEST; i++) {
            to[i] = w[i];
            to1[i] = (w[i] + w1[i] + w2[i]) / 2;
            to2[i] = (w[i] - w1[i] + w2[i]) / 2;
            to3[i] = w2[i];
        }
        return;
    }
    double *to4 = to3 + apart, *to5 = to4 + apart;
    _Pragma("omp simd") for (int i = 0; i < TILE_WIDEST; i++) {
        to[i] = w[i] / (a2 * b2);
        to1[i] = (w[i] + a * w1[i] + a2 * w2[i]) * by_a;
        to2[i] = (w[i] - a * w1[i] + a2 * w2[i]) * by_a;
        to3[i] = (w[i] + b * w1[i] + b2 * w2[i]) * by_b;
        to4[i] = (w[i] - b * w1[i] + b2 * w2[i]) * by_b;
        to5[i] = w2[i];
    }
}

typedef struct {
    const conv *v;
    const float *w;
    int size;
    float *to;
} packing;

/* A panel: [points of the patch][channels][columns]. */
static void pack_panel(const packing *p, int64_t panel) {
    enum { N = TILE_WIDEST };
    const int64_t width = tile_width(), ic = p->v->ic, first = panel * width;
    const int64_t cols = p->v->oc - first < width ? p->v->oc - first : width;
    float *to = p->to + panel * p->size * p->size * ic * width;
    double given[9 * N] = {0}, half[18 * N], whole[LARGEST * N];
    for (int64_t c = 0; c < ic; c++) {
        for (int64_t j = 0; j < cols; j++)
            for (int q = 0; q < 9; q++)
                given[q * N + j] = p->w[((first + j) * ic + c) * 9 + q];
        for (int x = 0; x < 3; x++)
            transform_line(given + x * N, 3 * N, p->size, half + x * N);
        for (int y = 0; y < p->size; y++)
            transform_line(half + 3 * y * N, N, p->size, whole + y * p->size * N);
        for (int q = 0; q < p->size * p->size; q++)
            for (int64_t j = 0; j < width; j++)
                to[(q * ic + c) * width + j] = (float)whole[q * N + j];
    }
}

static void pack_range(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        pack_panel(arg, i);
}

void conv_winograd_pack(const conv *v, const float *w, int patch, float *to) {
    packing p = {v, w, patch, to};
    cfx__parallel(conv_tile_columns(v) / tile_width(), 1, pack_range, &p);
}

/* ---- a round --------------------------------------------------------------------------------- */

typedef struct {
    const conv_tiles *t;
    const float *src;
    float *dst;
    int size, step;
    int64_t across, down;    /* tiles of an image */
    int64_t first, count;    /* the tiles of this round */
    int64_t chunk, row;      /* tiles of a chunk, elements of a tile in a matrix */
    int64_t matrix, product; /* elements of a matrix of inputs, and of one of products */
    int64_t panels, parts, cols; /* of the weights; parts that pieces take, panels of a part */
    const float *zeros;
    float *inputs; /* [chunks][points][tiles of a chunk][channels] */
} job;

static int64_t tiles_in(const job *j, int64_t chunk) {
    const int64_t left = j->count - chunk * j->chunk;
    return left < j->chunk ? left : j->chunk;
}

/* Where a tile is: its image, and its first point of the result. */
static void locate(const job *j, int64_t number, int64_t *image, int64_t *y, int64_t *x) {
    *image = number / (j->across * j->down);
    *y = number / j->across % j->down * j->step;
    *x = number % j->across * j->step;
}

static void input_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const conv *v = &j->t->v;
    for (int64_t i = begin; i < end; i++) {
        const float *from[LARGEST];
        int64_t image, y, x;
        locate(j, j->first + i, &image, &y, &x);
        for (int q = 0; q < j->size * j->size; q++) {
            const int64_t sy = y - v->pad[1] + q / j->size, sx = x - v->pad[2] + q % j->size;
            const bool inside = sy >= 0 && sy < v->in[1] && sx >= 0 && sx < v->in[2];
            const int64_t point = (image * v->in[1] + sy) * v->in[2] + sx;
            from[q] = inside ? j->src + point * v->ic : j->zeros;
        }
        float *to = j->inputs + i / j->chunk * j->matrix * j->size * j->size +
                    i % j->chunk * j->row;
        transform_input(from, v->ic, j->size, to, j->matrix);
    }
}

/* The products of a chunk with a panel, at all points. */
static void multiply(const job *j, int64_t chunk, int64_t panel, float *room) {
    static const int64_t none[1];
    const int64_t rows = tiles_in(j, chunk), width = tile_width(), ic = j->t->v.ic;
    const int64_t parts = (rows + tile_height() - 1) / tile_height(), points = j->size * j->size;
    tile t = {.row = j->row, .taps = 1, .length = ic, .at = none, .c_row = width,
              .cols = (int)width};
    for (int64_t q = 0; q < points; q++) {
        t.panel = (const float *)j->t->weights + (panel * points + q) * ic * width;
        for (int64_t i = 0; i < parts; i++) {
            const int64_t begin = rows * i / parts, end = rows * (i + 1) / parts;
            t.a = j->inputs + (chunk * points + q) * j->matrix + begin * j->row;
            t.c = room + q * j->product + begin * width;
            tile_run(&t, (int)(end - begin));
        }
    }
}

/* The results of a tile. Those outside the image, and where the panel is not wanted whole all, are
 * computed beside it. */
static void finish(const job *j, int64_t number, int64_t panel, const float *from,
                   float *beside) {
    const conv *v = &j->t->v;
    const tile_epilogue *e = &j->t->epilogue;
    const int64_t width = tile_width(), row = conv_tile_row(j->t), col = panel * width;
    const int64_t cols = v->oc - col < width ? v->oc - col : width;
    float *real[16];
    output o = {from, j->product, j->t->bias ? j->t->bias + col : NULL, e->add, e->bounded,
                e->low, e->high, {0}};
    int64_t image, y, x;
    locate(j, number, &image, &y, &x);
    for (int q = 0; q < j->step * j->step; q++) {
        const int64_t oy = y + q / j->step, ox = x + q % j->step;
        const bool inside = oy < v->out[1] && ox < v->out[2];
        real[q] = inside ? j->dst + ((image * v->out[1] + oy) * v->out[2] + ox) * row + col : NULL;
        o.to[q] = real[q] && cols == width ? real[q] : beside + q * width;
        if (e->add && real[q] && o.to[q] != real[q])
            memcpy(o.to[q], real[q], (size_t)cols * sizeof *beside);
    }
    transform_output(&o, j->size);
    for (int q = 0; q < j->step * j->step; q++) {
        if (real[q] && o.to[q] != real[q])
            memcpy(real[q], o.to[q], (size_t)cols * sizeof *beside);
        if (real[q] && e->n)
            tile_finish(e, real[q], 0, 1, cols);
    }
}

static void product_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const size_t products = (size_t)(j->size * j->size * j->product);
    const size_t size = (products + 16 * TILE_WIDEST) * sizeof(float);
    float *room = cfx__block_alloc(size);
    if (!room) {
        cfx__error_memory(size, false);
        return;
    }
    float *beside = memset(room + products, 0, 16 * TILE_WIDEST * sizeof *room);
    for (int64_t i = begin; i < end; i++) {
        const int64_t chunk = i / j->parts, from = i % j->parts * j->cols;
        const int64_t to = j->panels - from < j->cols ? j->panels : from + j->cols;
        for (int64_t panel = from; panel < to; panel++) {
            multiply(j, chunk, panel, room);
            for (int64_t q = 0; q < tiles_in(j, chunk); q++)
                finish(j, j->first + chunk * j->chunk + q, panel, room + q * tile_width(),
                       beside);
        }
    }
    cfx__block_free(room, size);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Chunks as large as stay near, and all alike; pieces of some panels where there are too few. */
static void cut(job *j, int64_t tiles) {
    const conv *v = &j->t->v;
    const int64_t threads = cfx_get_num_threads(), points = j->size * j->size, ic = v->ic;
    const int64_t each = points * j->row, height = tile_height();
    const int64_t most = ROUND * threads / each < height ? height : ROUND * threads / each;
    const int64_t near = NEAR / each < 2 * height ? 2 * height : NEAR / each;
    const int64_t rounds = (tiles + most - 1) / most;
    j->count = (tiles + rounds - 1) / rounds;
    const int64_t chunks = (j->count + near - 1) / near;
    j->chunk = (j->count + chunks - 1) / chunks;
    j->matrix = j->chunk * j->row + PAD;
    j->product = j->chunk * tile_width() + PAD;
    const double work = (double)j->count * (double)points * (double)ic * (double)v->oc;
    const int64_t worth = work / GRAIN < (double)(threads * PER_THREAD)
                              ? (int64_t)(work / GRAIN) + 1
                              : threads * PER_THREAD;
    const int64_t parts = threads > 1 ? (worth + chunks - 1) / chunks : 1;
    j->panels = conv_tile_columns(v) / tile_width();
    j->cols = parts < j->panels ? (j->panels + parts - 1) / parts : 1;
    j->parts = (j->panels + j->cols - 1) / j->cols;
}

void conv_winograd_run(const conv_tiles *t, const float *src, float *dst) {
    const conv *v = &t->v;
    job j = {.t = t, .src = src, .dst = dst, .size = t->patch, .step = t->patch - 2};
    j.row = v->ic + PAD;
    const int64_t tiles = tiles_of(v, j.step);
    j.down = (v->out[1] + j.step - 1) / j.step;
    j.across = (v->out[2] + j.step - 1) / j.step;
    cut(&j, tiles);
    const int64_t count = j.count, points = j.size * j.size;
    const size_t bytes =
        (size_t)((count + j.chunk - 1) / j.chunk * points * j.matrix + v->ic) * sizeof(float);
    float *room = cfx__block_alloc(bytes);
    if (!room) {
        cfx__error_memory(bytes, false);
        return;
    }
    j.zeros = memset(room, 0, (size_t)v->ic * sizeof *room);
    j.inputs = room + v->ic;
    for (; j.first < tiles && cfx_ok(); j.first += count) {
        j.count = tiles - j.first < count ? tiles - j.first : count;
        cfx__parallel(j.count, 1 + 65536 / (v->ic * points * POINT), input_range, &j);
        cfx__parallel(j.parts * ((j.count + j.chunk - 1) / j.chunk), 1, product_range, &j);
    }
    cfx__block_free(room, bytes);
}
