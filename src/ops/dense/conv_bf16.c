/* Convolution in bf16, channels last, over the tiles of bf16.h. Start at conv_bf16_run.
 *
 * Single points are a product. For any other kernel src is rounded once, by all threads, into lines
 * with their border. The points under a kernel are then rows of a tile that lie evenly apart, one
 * run of channels for each tap. Where the kernel steps by one, a tile goes on from the end of a
 * line of the result through the border to the next line, and the sums in between are dropped: few
 * for lines of any length. Images of few channels (a picture) would fill runs with nothing: there
 * the whole patch under the kernel is laid out as one run. */
#include "conv_tile.h"
#include "pieces.h"

#include "../ops.h"

enum {
    NEAR = 1 << 19,       /* elements of src that stay in the second cache */
    ROUNDED = 1 << 15,    /* numbers to round that are worth a thread */
    GRAIN_DOTS = 1 << 18, /* multiplications that are worth a thread */
    GRAIN_TILES = 1 << 20,
    TAPS = 1024,
    FEW = 16,             /* channels that are laid out in patches, fewer than */
    ALIAS = 128           /* points so many numbers apart meet in the first cache */
};

typedef struct {
    const conv_tiles *t;
    const float *src;
    float *dst;
    uint16_t *lines;         /* src, rounded, with its border */
    bool patches, through;   /* through: tiles go on from line to line */
    int64_t point, wide;     /* numbers of a point and of a line there */
    int64_t high;            /* lines of an image */
    int64_t span, rows;      /* rows of tiles for a line of the result; for an image, whole tiles */
    int64_t taps, length;    /* runs under the kernel, as panels have them */
    int64_t at[TAPS];
    product_pieces cut;
    product shape;           /* of which the pieces are */
} job;

static int64_t points(const conv *v) { return v->kernel[1] * v->kernel[2]; }
static bool in_patches(const conv *v) { return v->ic < FEW; }

/* Numbers of a row of the weights: all runs, filled with zeros to whole steps of a tile. */
static int64_t depth(const conv *v) {
    return in_patches(v) ? bf16_depth(points(v) * v->ic) : points(v) * bf16_depth(v->ic);
}

bf16_way conv_bf16_way(const conv *v) {
    return v->groups == 1 && v->dims <= 2 && points(v) <= TAPS && v->oc >= FEW
               ? bf16_best(v->batch * v->out[1] * v->out[2])
               : BF16_NONE;
}

size_t conv_bf16_size(const conv *v) { return bf16_panels_size(depth(v), v->oc); }

/* Weights lie [oc][ic][height][width]; rows of a panel are the taps, then their channels. */
void conv_bf16_pack(const conv *v, const float *w, void *to) {
    const int64_t k = depth(v), run = in_patches(v) ? v->ic : bf16_depth(v->ic);
    int64_t *at = cfx__alloc((size_t)k * sizeof *at);
    for (int64_t i = 0; i < k; i++)
        at[i] = i % run < v->ic && i / run < points(v) ? i % run * points(v) + i / run : -1;
    bf16_panels_make(&(tile_matrix){k, v->oc, w, 1, v->ic * points(v), at, CFX_PRECISION_BF16}, to);
    cfx__free(at);
}

/* ---- src, rounded ---------------------------------------------------------------------------- */

/* Line y of an image without its border, point by point. */
static void round_line(const job *j, int64_t image, int64_t y, int64_t n, uint16_t *to) {
    const conv *v = &j->t->v;
    if (!j->t->src_last) {
        const float *from = j->src + (image * v->ic * v->in[1] + y) * v->in[2];
        for (int64_t x = 0; x < n; x++)
            for (int64_t c = 0; c < j->point; c++)
                to[x * j->point + c] =
                    c < v->ic ? cfx__bf16_store(from[c * v->in[1] * v->in[2] + x]) : 0;
        return;
    }
    const float *from = j->src + (image * v->in[1] + y) * v->in[2] * v->ic;
    if (j->point == v->ic)
        bf16_round(from, n * v->ic, bf16_depth(n * v->ic), to);
    else
        for (int64_t x = 0; x < n; x++)
            bf16_round(from + x * v->ic, v->ic, bf16_depth(v->ic), to + x * j->point);
}

static void round_lines(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const conv *v = &j->t->v;
    const int64_t left = v->pad[2] * j->point, width = j->wide / j->point - v->pad[2];
    const int64_t n = width < v->in[2] ? width : v->in[2];
    for (int64_t l = begin; l < end; l++) {
        const int64_t y = l % j->high - v->pad[1];
        uint16_t *to = j->lines + l * j->wide;
        int64_t done = 0;
        if (y >= 0 && y < v->in[1] && n > 0) {
            round_line(j, l / j->high, y, n, to + left);
            memset(to, 0, (size_t)left * sizeof *to);
            done = left + n * j->point;
        }
        memset(to + done, 0, (size_t)(j->wide - done) * sizeof *to);
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* How many rows a tile has that begins at row r of an image. */
static int64_t rows_at(const job *j, int64_t r) {
    const conv *v = &j->t->v;
    const int64_t left = j->span * v->out[1] - r, height = bf16_height(j->t->way);
    const int64_t n = left < height ? left : height, x = r % j->span;
    return j->through || v->out[2] - x > n ? n : v->out[2] - x;
}

/* Row r of an image: the place of its first tap, from the first line of the image on. */
static int64_t place(const job *j, int64_t r) {
    const conv *v = &j->t->v;
    return r / j->span * v->stride[1] * j->wide + r % j->span * v->stride[2] * j->point;
}

/* The patches under n rows, points of the result, from row r on; their image is at `lines`. */
static void lay_out(const job *j, const uint16_t *lines, int64_t r, int64_t n, uint16_t *to) {
    const conv *v = &j->t->v;
    const int64_t run = (v->dilation[2] == 1 ? v->kernel[2] : 1) * j->point;
    for (int64_t i = 0; i < n; i++, to += bf16_row(j->length)) {
        const uint16_t *from = lines + place(j, r + i);
        uint16_t *end = to;
        for (int64_t tap = 0; tap < points(v); tap += run / j->point, end += run)
            memcpy(end, from + j->at[tap], (size_t)run * sizeof *to);
        memset(end, 0, (size_t)(to + j->length - end) * sizeof *to);
    }
}

/* Sums of the rows [r, r + n) of an image go to the points that they are. */
static void store(const job *j, const float *sums, int64_t image, int64_t r, int64_t n,
                  bf16_result *to, int64_t col) {
    const conv *v = &j->t->v;
    for (int64_t i = 0, run; i < n; i += run) {
        const int64_t y = (r + i) / j->span, x = (r + i) % j->span;
        run = j->span - x < n - i ? j->span - x : n - i;
        to->rows = (int)(v->out[2] - x < run ? v->out[2] - x : run);
        if (to->rows <= 0 || y >= v->out[1])
            continue;
        to->c = j->dst + ((image * v->out[1] + y) * v->out[2] + x) * to->c_row + col;
        bf16_store(sums + i * BF16_WIDTH, to);
        tile_finish(to->epilogue, to->c, to->c_row, to->rows, to->cols);
    }
}

/* Rows [top, bottom) times panels [from, to): they are tiles of one image after the other. */
typedef struct {
    int64_t top, bottom, from, to;
} block;

static void run_tile(const job *j, int64_t row, int64_t panel, bf16_tile *t, float *sums) {
    const conv *v = &j->t->v;
    const int64_t image = row / j->rows, r = row % j->rows, n = rows_at(j, r);
    const int64_t col = panel * BF16_WIDTH;
    bf16_result to = {.cols = (int)(v->oc - col < BF16_WIDTH ? v->oc - col : BF16_WIDTH),
                      .bias = j->t->bias ? j->t->bias + col : NULL,
                      .epilogue = &j->t->epilogue,
                      .c_row = conv_tile_row(j->t)};
    if (!j->patches)
        t->a = j->lines + image * j->high * j->wide + place(j, r);
    t->panel = (const uint16_t *)j->t->weights + col * j->shape.k;
    bf16_tile_run(j->t->way, t, (int)n);
    store(j, sums, image, r, n, &to, col);
}

static void run_runs(const job *j, const block *b) {
    _Alignas(64) float sums[BF16_TALLEST * BF16_WIDTH];
    const int64_t height = bf16_height(j->t->way), tiles = (b->bottom - b->top) / height;
    bf16_tile t = {.row = j->t->v.stride[2] * j->point,
                   .taps = j->taps,
                   .at = j->at,
                   .depth = j->length,
                   .c = sums};
    for (int64_t panel = b->from; panel < b->to; panel++)
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t next = (panel + 1) * BF16_WIDTH * j->shape.k;
            bf16_look_ahead(&t, (const uint16_t *)j->t->weights + next,
                            panel + 1 < j->cut.panels ? tiles : 0, i);
            run_tile(j, b->top + i * height, panel, &t, sums);
        }
}

static void run_patches(const job *j, const block *b, uint16_t *room) {
    _Alignas(64) float sums[BF16_TALLEST * BF16_WIDTH];
    const int64_t height = bf16_height(j->t->way);
    bf16_tile t = {.a = room, .row = bf16_row(j->length), .depth = j->length, .c = sums};
    for (int64_t row = b->top; row < b->bottom; row += height) {
        const int64_t r = row % j->rows;
        lay_out(j, j->lines + row / j->rows * j->high * j->wide, r, rows_at(j, r), room);
        for (int64_t panel = b->from; panel < b->to; panel++)
            run_tile(j, row, panel, &t, sums);
    }
}

static void run_piece(const void *arg, int64_t piece, void *room) {
    const job *j = arg;
    const product_piece p = product_piece_at(&j->shape, &j->cut, piece);
    const int64_t height = bf16_height(j->t->way);
    const int64_t fit = NEAR / (j->t->v.stride[2] * j->point) / height * height;
    const int64_t near = fit < height ? height : fit;
    for (int64_t at = p.top; at < p.bottom; at += near) {
        const block b = {at, p.bottom - at < near ? p.bottom : at + near, p.from, p.to};
        if (j->patches)
            run_patches(j, &b, room);
        else
            run_runs(j, &b);
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const size_t room = (size_t)(BF16_TALLEST * bf16_row(j->length)) * sizeof(uint16_t);
    bf16_begin(j->t->way);
    pieces_run(run_piece, j, begin, end, j->patches ? room : 0);
    bf16_end(j->t->way);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* How src lies when it is rounded, and what rows of tiles are. */
static void lay(job *j) {
    const conv *v = &j->t->v;
    const int64_t height = bf16_height(j->t->way), channels = bf16_depth(v->ic);
    int64_t reach[3];
    for (int d = 1; d < 3; d++)
        reach[d] = (v->out[d] - 1) * v->stride[d] + v->dilation[d] * (v->kernel[d] - 1) + 1;
    j->patches = in_patches(v);
    j->point = j->patches ? v->ic : channels % ALIAS ? channels : channels + BF16_PAD;
    const int64_t width = reach[2] > v->pad[2] ? reach[2] : v->pad[2];
    /* rounding writes whole steps, which may end behind a line */
    j->wide = width * j->point + (j->patches ? BF16_STEP : 0);
    j->high = reach[1];
    j->taps = points(v);
    j->length = j->patches ? depth(v) : channels;
    for (int64_t i = 0; i < points(v); i++)
        j->at[i] = i / v->kernel[2] * v->dilation[1] * j->wide +
                   i % v->kernel[2] * v->dilation[2] * j->point;
    j->through = j->patches || (v->stride[1] == 1 && v->stride[2] == 1);
    j->span = j->patches   ? v->out[2]
              : j->through ? width
                           : (v->out[2] + height - 1) / height * height;
    j->rows = (j->span * v->out[1] + height - 1) / height * height;
}

static void run_taps(job *j) {
    const conv *v = &j->t->v;
    const int64_t height = bf16_height(j->t->way), panels = (v->oc + BF16_WIDTH - 1) / BF16_WIDTH;
    lay(j);
    j->shape = (product){.m = v->batch * j->rows, .n = v->oc, .k = depth(v)};
    /* as for products: each panel is read by one thread alone where there are enough of them */
    const int64_t unit = panels >= 2 * cfx_get_num_threads() ? j->shape.m : height;
    j->cut = product_cut(&j->shape, BF16_WIDTH, height, j->patches ? height : unit,
                         j->t->way == BF16_TILES ? GRAIN_TILES : GRAIN_DOTS);
    /* the last tile reads rows behind the last line */
    const int64_t behind = BF16_TALLEST * v->stride[2] * j->point + j->wide;
    const size_t size = (size_t)(v->batch * j->high * j->wide + behind) * sizeof *j->lines;
    j->lines = cfx__block_alloc(size);
    if (!j->lines) {
        cfx__error_memory(size, false);
        return;
    }
    cfx__parallel(v->batch * j->high, 1 + ROUNDED / j->wide, round_lines, j);
    cfx__parallel(j->cut.pieces, 1, run_pieces, j);
    cfx__block_free(j->lines, size);
}

void conv_bf16_run(const conv_tiles *t, const float *src, float *dst) {
    if (conv_tile_is_product(t) && !in_patches(&t->v)) {
        const product p = conv_tile_product(t, src, dst);
        bf16_product(&p, t->way);
        return;
    }
    job j = {.t = t, .src = src, .dst = dst};
    run_taps(&j);
}
