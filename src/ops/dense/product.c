/* A product over panels, cut into pieces of rows and panels. Start at product_run.
 *
 * A piece takes some rows at a time, as many as stay in the second cache, and goes through its
 * panels with them. Where rows are long, or lie so that they would push each other out of the first
 * cache, they are copied together first, a part of their length at a time. */
#include "narrow.h"
#include "../ops.h"

enum {
    LONGEST = 1024,      /* elements of a row that are multiplied at once */
    NEAR = 1 << 16,      /* elements of A that stay in the second cache */
    GRAIN = 1 << 17,     /* multiplications worth a thread */
    PER_THREAD = 4,      /* pieces for each */
    ALIAS = 1024, PAD = 16 /* rows so far apart meet in the first cache; what keeps them apart */
};

typedef struct {
    const product *p;
    int64_t panels, parts; /* of the columns; pieces are numbered by rows, then by these */
    int64_t rows, cols;    /* of a piece: rows, panels */
    int64_t length;        /* of the parts that rows are copied in; k where they are not */
    bool copies;
} job;

static const float *row_of(const product *p, int64_t i) {
    return p->a + i / p->line * p->a_line + i % p->line * p->a_row;
}

/* Whether rows lie evenly, one after another. */
static bool lies_even(const product *p) {
    return p->line >= p->m || p->a_line == p->line * p->a_row;
}

/* Rows [first, first + rows) times panels [from, to), over elements [at, at + length). */
static void block(const job *j, int64_t first, int64_t rows, int64_t from, int64_t to, int64_t at,
                  int64_t length, const float *a, int64_t a_row, float *unpacked) {
    static const int64_t none[1];
    const product *p = j->p;
    const tile_epilogue *e = p->epilogue;
    const int64_t width = tile_width(), height = tile_height();
    const int64_t tiles = (rows + height - 1) / height;
    const bool last = at + length == p->k;
    for (int64_t panel = from; panel < to; panel++) {
        const int64_t col = panel * width, size = tile_bytes(p->kept);
        if (p->narrow)
            narrow_unpack(p->narrow, panel, at, length, unpacked);
        tile t = {.row = a_row,
                  .taps = 1,
                  .length = length,
                  .at = none,
                  .panel = p->narrow ? (const char *)unpacked
                                     : (const char *)p->panels + (panel * p->k + at) * width * size,
                  .kept = p->kept,
                  .c_row = p->c_row,
                  .cols = (int)(p->n - col < width ? p->n - col : width),
                  .bias = p->bias && !at ? p->bias + col : NULL,
                  .add = at || e->add,
                  .bounded = last && e->bounded,
                  .low = e->low,
                  .high = e->high};
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t begin = rows * i / tiles, end = rows * (i + 1) / tiles;
            t.a = a + begin * a_row;
            t.c = p->c + (first + begin) * p->c_row + col;
            tile_run(&t, (int)(end - begin));
            if (last && e->n)
                tile_finish(e, t.c, t.c_row, end - begin, t.cols);
        }
    }
}

/* Rows of a piece that are multiplied at a time. */
static int64_t rows_near(const job *j) {
    const int64_t height = tile_height(), most = NEAR / (j->length + 1) / height * height;
    return most < height ? height : most;
}

/* Elements of the room for rows that are copied. */
static int64_t copy_size(const job *j) { return j->copies ? rows_near(j) * (j->length + PAD) : 0; }

static void run_piece(const job *j, int64_t piece, float *room) {
    const product *p = j->p;
    const int64_t top = piece / j->parts * j->rows, from = piece % j->parts * j->cols;
    const int64_t bottom = p->m - top < j->rows ? p->m : top + j->rows;
    const int64_t to = j->panels - from < j->cols ? j->panels : from + j->cols;
    for (int64_t i = top, n; i < bottom; i += n) {
        n = bottom - i < rows_near(j) ? bottom - i : rows_near(j);
        if (!j->copies) {
            block(j, i, n, from, to, 0, p->k, row_of(p, i), p->a_row, room);
            continue;
        }
        for (int64_t at = 0; at < p->k; at += j->length) {
            const int64_t length = p->k - at < j->length ? p->k - at : j->length;
            for (int64_t r = 0; r < n; r++)
                memcpy(room + r * (j->length + PAD), row_of(p, i + r) + at,
                       (size_t)length * sizeof *room);
            block(j, i, n, from, to, at, length, room, j->length + PAD, room + copy_size(j));
        }
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const int64_t unpacked = j->p->narrow ? j->length * tile_width() : 0;
    const size_t size = (size_t)(copy_size(j) + unpacked) * sizeof(float);
    float *room = size ? cfx__block_alloc(size) : NULL;
    if (size && !room) {
        cfx__error_memory(size, false);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        run_piece(j, i, room);
    if (room)
        cfx__block_free(room, size);
}

/* Cuts so that pieces read as little as possible: near to squares of the result. */
static void cut(job *j, int64_t pieces) {
    const product *p = j->p;
    const int64_t height = tile_height(), tiles = (p->m + height - 1) / height;
    int64_t parts = 1;
    while (parts < pieces && parts < j->panels &&
           (double)p->m * (double)(parts * parts) < (double)pieces * (double)p->n)
        parts++;
    int64_t across = (pieces + parts - 1) / parts;
    across = across < tiles ? across : tiles;
    j->cols = (j->panels + parts - 1) / parts;
    j->parts = (j->panels + j->cols - 1) / j->cols;
    j->rows = (p->m + across - 1) / across;
}

void product_run(const product *p) {
    const int64_t width = tile_width();
    job j = {.p = p, .panels = (p->n + width - 1) / width, .length = p->k};
    const bool meets = p->m > 4 && p->a_row % ALIAS == 0;
    if (p->k > LONGEST && p->m > 4) {
        const int64_t parts = (p->k + LONGEST - 1) / LONGEST;
        j.length = ((p->k + parts - 1) / parts + PAD - 1) / PAD * PAD;
    }
    j.copies = j.length < p->k || meets || (p->m > 1 && !lies_even(p));
    const double work = (double)p->m * (double)p->n * (double)p->k;
    const int threads = cfx_get_num_threads();
    int64_t pieces = work / GRAIN < threads * PER_THREAD ? (int64_t)(work / GRAIN) + 1
                                                         : threads * PER_THREAD;
    cut(&j, threads > 1 ? pieces : 1);
    cfx__parallel(j.parts * ((p->m + j.rows - 1) / j.rows), 1, run_pieces, &j);
}
