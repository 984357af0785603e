/* A product over panels, cut into pieces of rows and panels. Start at product_run.
 *
 * A piece takes some rows at a time, as many as stay in the second cache, and goes through its
 * panels with them. Where rows are long, or lie so that they would push each other out of the first
 * cache, they are copied together first, a part of their length at a time. */
#include "narrow.h"
#include "pieces.h"
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
    product_pieces cut;
    int64_t length; /* of the parts that rows are copied in; k where they are not */
    bool copies;
} job;

/* Whether rows lie evenly, one after another. */
static bool lies_even(const product *p) {
    return p->line >= p->m || p->a_line == p->line * p->a_row;
}

/* Rows [first, first + rows), which lie at a, times panels [from, to), over elements
 * [at, at + length). */
typedef struct {
    int64_t first, rows, from, to, at, length;
    const float *a;
    int64_t a_row;
    float *unpacked; /* room for a panel of narrow weights */
} block;

static void run_block(const job *j, const block *b) {
    static const int64_t none[1];
    const product *p = j->p;
    const tile_epilogue *e = p->epilogue;
    const int64_t width = tile_width(), height = tile_height();
    const int64_t tiles = (b->rows + height - 1) / height;
    const bool last = b->at + b->length == p->k;
    for (int64_t panel = b->from; panel < b->to; panel++) {
        const int64_t col = panel * width, size = tile_bytes(p->kept);
        if (p->narrow)
            narrow_unpack(p->narrow, panel, b->at, b->length, b->unpacked);
        tile t = {.row = b->a_row,
                  .taps = 1,
                  .length = b->length,
                  .at = none,
                  .panel = p->narrow
                               ? (const char *)b->unpacked
                               : (const char *)p->panels + (panel * p->k + b->at) * width * size,
                  .kept = p->kept,
                  .c_row = p->c_row,
                  .cols = (int)(p->n - col < width ? p->n - col : width),
                  .bias = p->bias && !b->at ? p->bias + col : NULL,
                  .add = b->at || e->add,
                  .bounded = last && e->bounded,
                  .low = e->low,
                  .high = e->high};
        /* each tile asks for its share of the next panel */
        const int64_t lines = TILE_RUN * width * size / TILE_LINE;
        t.lines = p->narrow || panel + 1 == j->cut.panels ? 0 : (int)((lines + tiles - 1) / tiles);
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t begin = b->rows * i / tiles, end = b->rows * (i + 1) / tiles;
            t.ahead = (const char *)t.panel + p->k * width * size +
                      b->length / TILE_RUN * TILE_LINE * t.lines * i;
            t.a = b->a + begin * b->a_row;
            t.c = p->c + (b->first + begin) * p->c_row + col;
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

static void run_piece(const void *arg, int64_t piece, void *given) {
    const job *j = arg;
    float *room = given;
    const product *p = j->p;
    const product_piece b = product_piece_at(p, &j->cut, piece);
    for (int64_t i = b.top, n; i < b.bottom; i += n) {
        n = b.bottom - i < rows_near(j) ? b.bottom - i : rows_near(j);
        if (!j->copies) {
            run_block(j, &(block){.first = i, .rows = n, .from = b.from, .to = b.to, .at = 0,
                                  .length = p->k, .a = product_line(p, i), .a_row = p->a_row,
                                  .unpacked = room});
            continue;
        }
        for (int64_t at = 0; at < p->k; at += j->length) {
            const int64_t length = p->k - at < j->length ? p->k - at : j->length;
            for (int64_t r = 0; r < n; r++)
                memcpy(room + r * (j->length + PAD), product_line(p, i + r) + at,
                       (size_t)length * sizeof *room);
            run_block(j, &(block){.first = i, .rows = n, .from = b.from, .to = b.to, .at = at,
                                  .length = length, .a = room, .a_row = j->length + PAD,
                                  .unpacked = room + copy_size(j)});
        }
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const int64_t unpacked = j->p->narrow ? j->length * tile_width() : 0;
    const size_t size = (size_t)(copy_size(j) + unpacked) * sizeof(float);
    pieces_run(run_piece, j, begin, end, size);
}

product_pieces product_cut(const product *p, int64_t width, int64_t height, int64_t unit,
                           double grain) {
    const double work = (double)p->m * (double)p->n * (double)p->k;
    const int threads = cfx_get_num_threads();
    const int64_t pieces = threads == 1                            ? 1
                           : work / grain < threads * PER_THREAD ? (int64_t)(work / grain) + 1
                                                                 : threads * PER_THREAD;
    const int64_t tiles = (p->m + height - 1) / height;
    product_pieces c = {.panels = (p->n + width - 1) / width, .parts = 1};
    while (c.parts < pieces && c.parts < c.panels &&
           (unit >= p->m ||
            (double)p->m * (double)(c.parts * c.parts) < (double)pieces * (double)p->n))
        c.parts++;
    int64_t across = (pieces + c.parts - 1) / c.parts;
    across = across < tiles ? across : tiles;
    c.cols = (c.panels + c.parts - 1) / c.parts;
    c.parts = (c.panels + c.cols - 1) / c.cols;
    c.rows = ((p->m + across - 1) / across + unit - 1) / unit * unit;
    c.pieces = c.parts * ((p->m + c.rows - 1) / c.rows);
    return c;
}

product_piece product_piece_at(const product *p, const product_pieces *cut, int64_t piece) {
    const int64_t top = piece / cut->parts * cut->rows, from = piece % cut->parts * cut->cols;
    return (product_piece){top, p->m - top < cut->rows ? p->m : top + cut->rows, from,
                           cut->panels - from < cut->cols ? cut->panels : from + cut->cols};
}

void product_run(const product *p) {
    job j = {.p = p, .length = p->k, .cut = product_cut(p, tile_width(), tile_height(), 1, GRAIN)};
    const bool meets = p->m > 4 && p->a_row % ALIAS == 0;
    if (p->k > LONGEST && p->m > 4) {
        const int64_t parts = (p->k + LONGEST - 1) / LONGEST;
        j.length = ((p->k + parts - 1) / parts + PAD - 1) / PAD * PAD;
    }
    j.copies = j.length < p->k || meets || (p->m > 1 && !lies_even(p));
    cfx__parallel(j.cut.pieces, 1, run_pieces, &j);
}
