/* Integer convolutions and products as tiles. The points under a kernel are runs of memory,
 * channels last, so nothing is laid out but a border of the input's zero: some lines of the result
 * at a time, the lines of the input that they see are copied with their border, and each tile is
 * some points of a line by a panel of the weights. Single points are cut into lines of a tile. */
#include "int8.h"
#include "pieces.h"

#include "../ops.h"

enum {
    NEAR = 1 << 18,  /* bytes of the input that stay in the second cache */
    GRAIN = 1 << 18, /* multiplications worth a thread */
    PER_THREAD = 4   /* pieces for each */
};

typedef struct {
    const int8_work *w;
    conv v;                /* as lines */
    int64_t points, given; /* of the result, of the input; the last line may be shorter */
    bool copies;
    int64_t panels, parts; /* the parts that pieces take */
    int64_t lines, cols;   /* of a piece: lines of the result, panels */
    int64_t near;          /* lines of the result whose input is copied at once */
    int64_t wide;          /* bytes of a line of the input */
    int64_t at[INT8_TAPS];      /* where runs begin */
} job;

int64_t int8_runs(const conv *v) {
    return v->dilation[2] == 1 ? v->kernel[1] : v->kernel[1] * v->kernel[2];
}

int64_t int8_run_length(const conv *v) {
    return v->dilation[2] == 1 ? v->kernel[2] * v->ic : v->ic;
}

/* ---- lines of the input ---------------------------------------------------------------------- */

/* Line y of an image in its border. */
static void copy_line(const job *j, int64_t image, int64_t y, uint8_t *to) {
    const conv *v = &j->v;
    const int64_t left = v->pad[2] * v->ic, begin = (image * v->in[1] + y) * v->in[2];
    int64_t inside = (j->given - begin < v->in[2] ? j->given - begin : v->in[2]) * v->ic;
    inside = inside < j->wide - left ? inside : j->wide - left;
    if (y < 0 || y >= v->in[1] || inside <= 0) {
        memset(to, j->w->zero, (size_t)j->wide);
        return;
    }
    memset(to, j->w->zero, (size_t)left);
    if (j->w->x_row == v->ic)
        memcpy(to + left, j->w->x + begin * v->ic, (size_t)inside);
    else
        for (int64_t i = 0; i < inside / v->ic; i++)
            memcpy(to + left + i * v->ic, j->w->x + (begin + i) * j->w->x_row, (size_t)v->ic);
    memset(to + left + inside, j->w->zero, (size_t)(j->wide - left - inside));
}

/* Lines of the input under n lines of the result. */
static int64_t lines_under(const conv *v, int64_t n) {
    return (n - 1) * v->stride[1] + v->dilation[1] * (v->kernel[1] - 1) + 1;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Lines [line, line + n) of the result, panels [from, to); the input under them begins at a. */
static void block(const job *j, int64_t line, int64_t n, int64_t from, int64_t to,
                  const uint8_t *a) {
    const conv *v = &j->v;
    const int64_t columns = int8_columns(), height = int8_rows();
    const int64_t element = j->w->finish->rounds ? 1 : (int64_t)sizeof(float);
    int set = 0;
    int8_tile t = {.row = v->stride[2] * v->ic, .at = j->at, .w = j->w->w,
                   .finish = j->w->finish, .c_row = j->w->out_row, .set = &set};
    for (t.panel = from; t.panel < to; t.panel++)
        for (int64_t l = 0; l < n; l++) {
            const int64_t first = (line + l) * v->out[2], left = j->points - first;
            const int64_t width = left < v->out[2] ? left : v->out[2];
            const int64_t tiles = (width + height - 1) / height;
            char *c = (char *)j->w->out + (first * t.c_row + t.panel * columns) * element;
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t begin = width * i / tiles, end = width * (i + 1) / tiles;
                t.a = a + l * v->stride[1] * j->wide + begin * t.row;
                t.c = c + begin * t.c_row * element;
                int8_tile_run(&t, (int)(end - begin));
            }
        }
    int8_tiles_end(&set);
}

static void run_piece(const void *arg, int64_t piece, void *given) {
    const job *j = arg;
    uint8_t *room = given;
    const conv *v = &j->v;
    const int64_t all = v->batch * v->out[1];
    const int64_t from = piece % j->parts * j->cols, top = piece / j->parts * j->lines;
    const int64_t to = j->panels - from < j->cols ? j->panels : from + j->cols;
    const int64_t bottom = all - top < j->lines ? all : top + j->lines;
    for (int64_t l = top, n; l < bottom; l += n) {
        const int64_t y = l % v->out[1], image = l / v->out[1];
        const int64_t first = y * v->stride[1] - v->pad[1];
        n = bottom - l < j->near ? bottom - l : j->near;
        n = v->out[1] - y < n ? v->out[1] - y : n;
        const int64_t under = room ? lines_under(v, n) : 0;
        for (int64_t i = 0; i < under; i++)
            copy_line(j, image, first + i, room + i * j->wide);
        if (room)
            memset(room + under * j->wide, 0, INT8_GROUP); /* read behind the last run */
        block(j, l, n, from, to,
              room ? room : j->w->x + (image * v->in[1] + first) * j->wide);
    }
}

static size_t room_size(const job *j) {
    return (size_t)(lines_under(&j->v, j->near) * j->wide) + INT8_GROUP;
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const size_t size = j->copies ? room_size(j) : 0;
    pieces_run(run_piece, j, begin, end, size);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Single points, wherever they are, as lines that are a tile each. */
static void as_lines(job *j) {
    conv *v = &j->v;
    const int64_t height = int8_rows(), points = j->points, tiles = (points + height - 1) / height;
    if (v->kernel[1] * v->kernel[2] > 1 || v->stride[1] * v->stride[2] > 1 || v->pad[1] ||
        v->pad[2] || !points)
        return;
    v->batch = 1;
    v->in[2] = v->out[2] = (points + tiles - 1) / tiles;
    v->in[1] = v->out[1] = (points + v->out[2] - 1) / v->out[2];
}

static void note_runs(job *j) {
    const conv *v = &j->v;
    const bool whole = v->dilation[2] == 1;
    for (int64_t i = 0; i < int8_runs(v); i++) {
        const int64_t y = whole ? i : i / v->kernel[2], x = whole ? 0 : i % v->kernel[2];
        j->at[i] = y * v->dilation[1] * j->wide + x * v->dilation[2] * v->ic;
    }
}

/* Pieces by lines or by panels: whichever is read more often is cut less. */
static void cut(job *j, int64_t pieces) {
    const conv *v = &j->v;
    const int64_t all = v->batch * v->out[1];
    const double columns = (double)v->oc * (double)(v->kernel[1] * v->kernel[2]);
    int64_t parts = 1;
    while (parts < pieces && parts < j->panels &&
           (double)j->given * (double)(parts * parts) < (double)pieces * columns)
        parts++;
    const int64_t across = (pieces + parts - 1) / parts;
    j->cols = (j->panels + parts - 1) / parts;
    j->parts = (j->panels + j->cols - 1) / j->cols;
    j->lines = (all + across - 1) / across;
}

bool int8_run(const int8_work *w) {
    job j = {.w = w, .v = w->v};
    const conv *v = &j.v;
    j.points = v->batch * v->out[1] * v->out[2];
    j.given = v->batch * v->in[1] * v->in[2];
    as_lines(&j);
    const int64_t reach = (v->out[2] - 1) * v->stride[2] + v->dilation[2] * (v->kernel[2] - 1) + 1;
    j.copies = v->pad[1] || v->pad[2] || int8_run_length(v) % INT8_GROUP || w->x_row != v->ic;
    j.wide = (!j.copies ? v->in[2] : reach > v->pad[2] ? reach : v->pad[2]) * v->ic;
    j.panels = w->w->padded / int8_columns();
    note_runs(&j);
    const double work = (double)j.points * (double)v->oc *
                        (double)(int8_runs(v) * int8_run_length(v));
    const int threads = cfx_get_num_threads();
    const int64_t most = threads > 1 ? threads * PER_THREAD : 1;
    cut(&j, work / GRAIN < (double)most ? (int64_t)(work / GRAIN) + 1 : most);
    j.near = NEAR / (j.wide * v->stride[1] + 1);
    j.near = j.near < 1 ? 1 : j.near < j.lines ? j.near : j.lines;
    const int64_t all = v->batch * v->out[1];
    cfx__parallel(j.parts * ((all + j.lines - 1) / j.lines), 1, run_pieces, &j);
    return cfx_ok();
}
