/* Convolution as tiles of a product. The points under a kernel are runs of memory, channels last,
 * so nothing is laid out but a border of zeros: some lines of the result at a time, the lines of
 * src that they see are copied with their border, and each tile is some points of a line times a
 * panel of the weights. Single points are one product for all lines. */
#include "conv_tile.h"
#include "pieces.h"

#include "../ops.h"

enum {
    NEAR = 1 << 17,  /* elements of src that are copied at a time */
    GRAIN = 1 << 17, /* multiplications worth a thread */
    PER_THREAD = 4,  /* pieces for each */
    TAPS = 1024
};

typedef struct {
    const conv_tiles *t;
    const float *src;
    float *dst;
    int64_t ic, oc;         /* of a group */
    int64_t panels, parts;  /* of a group's columns; the parts that pieces take */
    int64_t lines, cols;    /* of a piece: lines of the result, panels */
    int64_t near;           /* lines of the result whose src is copied at once */
    int64_t width, wide;    /* points and elements of a line as it is copied */
    int64_t taps, length;   /* runs under the kernel */
    int64_t at[TAPS];
} job;

bool conv_tile_takes(const conv *v) {
    return v->dims <= 2 && v->kernel[1] * v->kernel[2] <= TAPS &&
           (v->groups == 1 || v->oc / v->groups >= 8);
}

int64_t conv_tile_columns(const conv *v) {
    const int64_t width = tile_width(), oc = v->oc / v->groups;
    return (oc + width - 1) / width * width;
}

static int64_t depth(const conv *v) { return v->ic / v->groups * v->kernel[1] * v->kernel[2]; }

size_t conv_tile_size(const conv *v, cfx_precision kept) {
    return (size_t)v->groups * tile_panels_size(depth(v), v->oc / v->groups, kept);
}

/* Weights lie [oc][ic][height][width]; rows of a panel are the points, then their channels. */
void conv_tile_pack(const conv *v, const float *w, cfx_precision kept, void *to) {
    const int64_t ic = v->ic / v->groups, points = v->kernel[1] * v->kernel[2], k = depth(v);
    const int64_t oc = v->oc / v->groups;
    int64_t *at = points > 1 ? cfx__alloc((size_t)k * sizeof *at) : NULL;
    for (int64_t i = 0; at && i < k; i++)
        at[i] = i % ic * points + i / ic;
    for (int64_t g = 0; g < v->groups; g++) {
        tile_matrix m = {k, oc, w + g * oc * k, 1, k, at, kept};
        tile_panels_make(&m, (char *)to + (size_t)g * tile_panels_size(k, oc, kept));
    }
    cfx__free(at);
}

/* ---- src with its border --------------------------------------------------------------------- */

static bool needs_copy(const conv_tiles *t) {
    const conv *v = &t->v;
    return v->pad[1] || v->pad[2] || v->groups > 1 || !t->src_last;
}

/* Line y of an image, of the channels of a group, in its border. */
static void copy_line(const job *j, int64_t image, int64_t group, int64_t y, float *to) {
    const conv *v = &j->t->v;
    const int64_t h = v->in[1], w = v->in[2], left = v->pad[2] * j->ic;
    const int64_t inside = (j->width - v->pad[2] < w ? j->width - v->pad[2] : w) * j->ic;
    if (y < 0 || y >= h || inside <= 0) {
        memset(to, 0, (size_t)j->wide * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)left * sizeof *to);
    memset(to + left + inside, 0, (size_t)(j->wide - left - inside) * sizeof *to);
    to += left;
    if (!j->t->src_last) {
        const float *from = j->src + ((image * v->ic + group * j->ic) * h + y) * w;
        for (int64_t c = 0; c < j->ic; c++)
            for (int64_t x = 0; x < inside / j->ic; x++)
                to[x * j->ic + c] = from[c * h * w + x];
        return;
    }
    const float *from = j->src + ((image * h + y) * w) * v->ic + group * j->ic;
    if (v->groups == 1)
        memcpy(to, from, (size_t)inside * sizeof *to);
    else
        for (int64_t x = 0; x < inside / j->ic; x++)
            memcpy(to + x * j->ic, from + x * v->ic, (size_t)j->ic * sizeof *to);
}

/* Lines of src under n lines of the result. */
static int64_t lines_under(const conv *v, int64_t n) {
    return (n - 1) * v->stride[1] + v->dilation[1] * (v->kernel[1] - 1) + 1;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Lines [y, y + n) of a group of an image, panels [from, to); src under them begins at a. */
static void block(const job *j, int64_t image, int64_t group, int64_t y, int64_t n, int64_t from,
                  int64_t to, const float *a) {
    const conv *v = &j->t->v;
    const tile_epilogue *e = &j->t->epilogue;
    const int64_t width = tile_width(), k = j->taps * j->length, size = tile_bytes(j->t->kept);
    const int64_t row = conv_tile_row(j->t);
    const int64_t tiles = (v->out[2] + tile_height() - 1) / tile_height();
    const char *panels = (const char *)j->t->weights +
                         (size_t)group * tile_panels_size(k, j->oc, j->t->kept);
    for (int64_t panel = from; panel < to; panel++) {
        const int64_t col = panel * width;
        tile t = {.row = v->stride[2] * j->ic,
                  .taps = j->taps,
                  .length = j->length,
                  .at = j->at,
                  .panel = panels + panel * k * width * size,
                  .kept = j->t->kept,
                  .c_row = row,
                  .cols = (int)(j->oc - col < width ? j->oc - col : width),
                  .bias = j->t->bias ? j->t->bias + group * conv_tile_columns(v) + col : NULL,
                  .add = e->add,
                  .bounded = e->bounded,
                  .low = e->low,
                  .high = e->high};
        for (int64_t l = 0; l < n; l++) {
            float *c = j->dst + ((image * v->out[1] + y + l) * v->out[2]) * row +
                       group * j->oc + col;
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t begin = v->out[2] * i / tiles, end = v->out[2] * (i + 1) / tiles;
                t.a = a + l * v->stride[1] * j->wide + begin * t.row;
                t.c = c + begin * row;
                tile_run(&t, (int)(end - begin));
                if (e->n)
                    tile_finish(e, t.c, row, end - begin, t.cols);
            }
        }
    }
}

static void run_piece(const void *arg, int64_t piece, void *given) {
    const job *j = arg;
    float *room = given;
    const conv *v = &j->t->v;
    const int64_t all = v->batch * v->groups * v->out[1];
    const int64_t from = piece % j->parts * j->cols, top = piece / j->parts * j->lines;
    const int64_t to = j->panels - from < j->cols ? j->panels : from + j->cols;
    const int64_t bottom = all - top < j->lines ? all : top + j->lines;
    for (int64_t l = top, n; l < bottom; l += n) {
        const int64_t y = l % v->out[1], group = l / v->out[1] % v->groups;
        const int64_t image = l / v->out[1] / v->groups, first = y * v->stride[1] - v->pad[1];
        n = bottom - l < j->near ? bottom - l : j->near;
        n = v->out[1] - y < n ? v->out[1] - y : n;
        for (int64_t i = 0; room && i < lines_under(v, n); i++)
            copy_line(j, image, group, first + i, room + i * j->wide);
        block(j, image, group, y, n, from, to,
              room ? room : j->src + (image * v->in[1] + first) * j->wide);
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const size_t size =
        needs_copy(j->t) ? (size_t)(lines_under(&j->t->v, j->near) * j->wide) * sizeof(float) : 0;
    pieces_run(run_piece, j, begin, end, size);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Single points without a border: a product. */
bool conv_tile_is_product(const conv_tiles *t) {
    const conv *v = &t->v;
    return v->kernel[1] == 1 && v->kernel[2] == 1 && !needs_copy(t) &&
           (v->stride[1] == 1 || v->batch == 1);
}

product conv_tile_product(const conv_tiles *t, const float *src, float *dst) {
    const conv *v = &t->v;
    return (product){.m = v->batch * v->out[1] * v->out[2],
                     .n = v->oc,
                     .k = v->ic,
                     .a = src,
                     .a_row = v->stride[2] * v->ic,
                     .line = v->out[2],
                     .a_line = v->stride[1] * v->in[2] * v->ic,
                     .panels = t->weights,
                     .kept = t->kept,
                     .bias = t->bias,
                     .c = dst,
                     .c_row = conv_tile_row(t),
                     .epilogue = &t->epilogue};
}

/* Pieces by lines or by panels: whichever is read more often is cut less. */
static void cut(job *j, int64_t pieces) {
    const conv *v = &j->t->v;
    const int64_t all = v->batch * v->groups * v->out[1];
    const double points = (double)v->batch * (double)v->in[1] * (double)v->in[2];
    const double columns = (double)j->oc * (double)(v->kernel[1] * v->kernel[2]);
    int64_t parts = 1;
    while (parts < pieces && parts < j->panels &&
           points * (double)(parts * parts) < (double)pieces * columns)
        parts++;
    const int64_t across = (pieces + parts - 1) / parts;
    j->cols = (j->panels + parts - 1) / parts;
    j->parts = (j->panels + j->cols - 1) / j->cols;
    j->lines = (all + across - 1) / across;
}

static void note_runs(job *j) {
    const conv *v = &j->t->v;
    const bool whole = v->dilation[2] == 1;
    j->taps = whole ? v->kernel[1] : v->kernel[1] * v->kernel[2];
    j->length = whole ? v->kernel[2] * j->ic : j->ic;
    for (int64_t i = 0; i < j->taps; i++) {
        const int64_t y = whole ? i : i / v->kernel[2], x = whole ? 0 : i % v->kernel[2];
        j->at[i] = y * v->dilation[1] * j->wide + x * v->dilation[2] * j->ic;
    }
}

void conv_tile_run(const conv_tiles *t, const float *src, float *dst) {
    if (conv_tile_is_product(t)) {
        const product p = conv_tile_product(t, src, dst);
        product_run(&p);
        return;
    }
    const conv *v = &t->v;
    job j = {.t = t, .src = src, .dst = dst, .ic = v->ic / v->groups, .oc = v->oc / v->groups};
    const int64_t reach = (v->out[2] - 1) * v->stride[2] + v->dilation[2] * (v->kernel[2] - 1) + 1;
    j.width = needs_copy(t) ? (reach > v->pad[2] ? reach : v->pad[2]) : v->in[2];
    j.wide = j.width * j.ic;
    j.panels = conv_tile_columns(v) / tile_width();
    j.near = NEAR / (j.wide * v->stride[1] + 1);
    j.near = j.near < 1 ? 1 : j.near;
    note_runs(&j);
    const double work = (double)v->batch * (double)v->oc * (double)(v->out[1] * v->out[2]) *
                        (double)(j.taps * j.length);
    const int threads = cfx_get_num_threads();
    const int64_t most = threads > 1 ? threads * PER_THREAD : 1;
    cut(&j, work / GRAIN < (double)most ? (int64_t)(work / GRAIN) + 1 : most);
    const int64_t all = v->batch * v->groups * v->out[1];
    j.near = j.near < j.lines ? j.near : j.lines;
    cfx__parallel(j.parts * ((all + j.lines - 1) / j.lines), 1, run_pieces, &j);
}
