/* Tiles of integer products: panels of weights, and the plain way to multiply by them, by products
 * of 16 bits. */
#include "int8.h"

#include "../ops.h"

#include <math.h>

bool int8_has_dots(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

enum { PLAIN_COLUMNS = 16, PLAIN_ROWS = 4 };

int int8_columns(void) { return int8_has_dots() ? INT8_COLUMNS : PLAIN_COLUMNS; }
int int8_rows(void) {
    return int8_has_tiles() ? INT8_ROWS : int8_has_dots() ? INT8_DOTS_ROWS : PLAIN_ROWS;
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct {
    const int8_weights *to;
    const int8_matrix *m;
} packing;

/* The numbers of a group in one column, `n` of them inside the matrix. */
static void take_group(const int8_matrix *m, const int64_t *at, int64_t n, int64_t column,
                       int8_t *to) {
    const int8_t *w = m->w + column * m->col;
    if (n == INT8_GROUP && at[3] == at[0] + 3 && at[2] == at[0] + 2 && at[1] == at[0] + 1) {
        memcpy(to, w + at[0], INT8_GROUP);
        return;
    }
    for (int64_t i = 0; i < INT8_GROUP; i++)
        to[i] = i < n ? w[at[i]] : 0;
}

/* A panel: [runs][groups][columns][INT8_GROUP], bytes with dot products, else 16 bits. */
static void pack_panel(const packing *p, int64_t panel) {
    const int8_matrix *m = p->m;
    const int64_t columns = int8_columns(), first = panel * columns;
    const int64_t inside = m->n - first < columns ? m->n - first : columns;
    const int64_t groups = p->to->groups, size = columns * INT8_GROUP;
    const bool bytes = int8_has_dots();
    int8_t room[INT8_COLUMNS * INT8_GROUP] = {0};
    for (int64_t g = 0; g < m->runs * groups; g++) {
        const int64_t run = g / groups, i = g % groups * INT8_GROUP, left = m->length - i;
        const int64_t begin = (panel * m->runs * groups + g) * size;
        for (int64_t j = 0; j < inside; j++) {
            int8_t *to = room + j * INT8_GROUP;
            take_group(m, m->at + run * m->length + i, left < INT8_GROUP ? left : INT8_GROUP,
                       first + j, to);
            p->to->sums[first + j] += to[0] + to[1] + to[2] + to[3];
        }
        for (int64_t j = 0; !bytes && j < size; j++)
            ((int16_t *)p->to->panels)[begin + j] = room[j];
        if (bytes)
            memcpy((int8_t *)p->to->panels + begin, room, (size_t)size);
    }
}

static void pack_panels(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        pack_panel(arg, i);
}

/* Columns in whole panels, and bytes of the panels in whole lines. */
static int64_t padded_of(const int8_matrix *m) {
    const int64_t columns = int8_columns();
    return (m->n + columns - 1) / columns * columns;
}

static int64_t groups_of(const int8_matrix *m) { return (m->length + INT8_GROUP - 1) / INT8_GROUP; }

static size_t panels_size(const int8_matrix *m) {
    const int64_t size = padded_of(m) * m->runs * groups_of(m) * INT8_GROUP;
    return (size_t)((size * (int8_has_dots() ? 1 : 2) + TILE_LINE - 1) / TILE_LINE * TILE_LINE);
}

size_t int8_weights_size(const int8_matrix *m) {
    const size_t sums = (size_t)padded_of(m) * sizeof(int32_t);
    return panels_size(m) + (sums + TILE_LINE - 1) / TILE_LINE * TILE_LINE;
}

int8_weights int8_weights_in(const int8_matrix *m, void *memory) {
    return (int8_weights){.runs = m->runs,
                          .groups = groups_of(m),
                          .n = m->n,
                          .padded = padded_of(m),
                          .panels = memory,
                          .sums = (int32_t *)((char *)memory + panels_size(m))};
}

void int8_pack(const int8_weights *to, const int8_matrix *m) {
    packing p = {to, m};
    memset(to->sums, 0, (size_t)to->padded * sizeof *to->sums);
    const int64_t columns = int8_columns();
    cfx__parallel(to->padded / columns, 1 + 65536 / (m->runs * m->length * columns + 1),
                  pack_panels, &p);
}

/* ---- the plain way --------------------------------------------------------------------------- */

/* Four products of a group, summed as the compiler likes. */
CFX__SIMD static void sum_run(const int16_t *b, int64_t groups, const uint8_t *a,
                              int32_t *restrict sum) {
    int32_t part[PLAIN_COLUMNS];
    memcpy(part, sum, sizeof part);
    for (int64_t g = 0; g < groups; g++, a += INT8_GROUP, b += PLAIN_COLUMNS * INT8_GROUP)
        for (int j = 0; j < PLAIN_COLUMNS; j++) {
            const int16_t *w = b + j * INT8_GROUP;
            part[j] += a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + a[3] * w[3];
        }
    memcpy(sum, part, sizeof part);
}

CFX__SIMD static void finish_floats(const int8_finish *f, const int32_t *sum, int64_t first,
                                    int64_t n, float *restrict c) {
    const float *scale = f->scale + first, *bias = f->bias + first;
    const float low = f->low, high = f->high;
    for (int64_t j = 0; j < n; j++) {
        float v = (float)sum[j] * scale[j] + bias[j];
        v = v < low ? low : v;
        c[j] = v > high ? high : v;
    }
}

/* Kept as they go, a step of the work at a time, which compilers turn into vectors. */
CFX__SIMD static void finish_bytes(const int8_finish *f, const int32_t *sum, int64_t first,
                                   int64_t n, uint8_t *restrict c) {
    const float *scale = f->scale + first, *bias = f->bias + first;
    const float added = f->added, low = f->low, high = f->high;
    float v[PLAIN_COLUMNS];
    int32_t q[PLAIN_COLUMNS];
    for (int64_t j = 0; j < n; j++)
        v[j] = (float)sum[j] * scale[j] + bias[j];
    for (int64_t j = 0; f->add && j < n; j++)
        v[j] += (float)c[j] * added;
    for (int64_t j = 0; j < n; j++) {
        const float x = v[j] > low ? v[j] : low;
        q[j] = (int32_t)rintf(x < high ? x : high);
    }
    for (int64_t j = 0; j < n; j++)
        c[j] = (uint8_t)q[j];
}

CFX__SIMD static void round_floats(const int8_finish *f, const float *x, int64_t n,
                                   uint8_t *restrict c) {
    const float steps = f->steps, zero = f->zero;
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] * steps) + zero;
        v = v > 0 ? v : 0;
        c[i] = (uint8_t)(int32_t)(v < UINT8_MAX ? v : UINT8_MAX);
    }
}

int8_finish int8_before_posts(const int8_finish *f) {
    int8_finish before = *f;
    before.posts = NULL;
    before.rounds = false;
    return before;
}

void int8_finish_posts(const int8_finish *f, const tile_rows *r, void *c, int64_t c_row) {
    tile_finish(f->posts, r->c, r->row, r->rows, r->cols);
    for (int64_t i = 0; i < r->rows; i++)
        if (f->rounds)
            round_floats(f, r->c + i * r->row, r->cols, (uint8_t *)c + i * c_row);
        else
            memcpy((float *)c + i * c_row, r->c + i * r->row, (size_t)r->cols * sizeof(float));
}

void int8_finish_row(const int8_finish *f, const int32_t *sum, int64_t first, int64_t n, void *c) {
    for (int64_t j = 0; j < n; j += PLAIN_COLUMNS) {
        const int64_t cols = n - j < PLAIN_COLUMNS ? n - j : PLAIN_COLUMNS;
        if (f->posts) {
            float room[PLAIN_COLUMNS];
            const int8_finish before = int8_before_posts(f);
            finish_floats(&before, sum + j, first + j, cols, room);
            int8_finish_posts(f, &(tile_rows){room, cols, 1, cols},
                              (char *)c + j * (f->rounds ? 1 : (int64_t)sizeof(float)), cols);
        } else if (f->rounds)
            finish_bytes(f, sum + j, first + j, cols, (uint8_t *)c + j);
        else
            finish_floats(f, sum + j, first + j, cols, (float *)c + j);
    }
}

static void run_plain(const int8_tile *t, int rows) {
    const int8_weights *w = t->w;
    const int64_t first = t->panel * PLAIN_COLUMNS, size = w->groups * PLAIN_COLUMNS * INT8_GROUP;
    const int16_t *b = (const int16_t *)w->panels + t->panel * w->runs * size;
    const int64_t n = w->n - first < PLAIN_COLUMNS ? w->n - first : PLAIN_COLUMNS;
    const int64_t element = t->finish->rounds ? 1 : (int64_t)sizeof(float);
    for (int r = 0; r < rows; r++) {
        int32_t sum[PLAIN_COLUMNS];
        memcpy(sum, t->finish->start + first, sizeof sum);
        for (int64_t run = 0; run < w->runs; run++)
            sum_run(b + run * size, w->groups, t->a + r * t->row + t->at[run], sum);
        int8_finish_row(t->finish, sum, first, n, (char *)t->c + r * t->c_row * element);
    }
}

/* A tile whose posts are done while it is near. */
static void run_beside(const int8_tile *t, int rows) {
    float room[INT8_DOTS_ROWS * INT8_COLUMNS];
    const int8_finish before = int8_before_posts(t->finish);
    int8_tile beside = *t;
    beside.finish = &before;
    beside.c = room;
    beside.c_row = INT8_COLUMNS;
    int8_dots(&beside, rows);
    const int64_t left = t->w->n - t->panel * INT8_COLUMNS;
    const int64_t cols = left < INT8_COLUMNS ? left : INT8_COLUMNS;
    int8_finish_posts(t->finish, &(tile_rows){room, INT8_COLUMNS, rows, cols}, t->c, t->c_row);
}

static void run_rows(const int8_tile *t, int rows) {
    (t->finish->posts ? run_beside : int8_dots)(t, rows);
}

/* What tiles of the machine leave to do, some rows at a time. */
static void run_rest(const int8_tile *t, int rows) {
    const int parts = (rows + INT8_DOTS_ROWS - 1) / INT8_DOTS_ROWS;
    const int64_t element = t->finish->rounds ? 1 : (int64_t)sizeof(float);
    for (int i = 0; i < parts; i++) {
        const int begin = rows * i / parts, end = rows * (i + 1) / parts;
        int8_tile some = *t;
        some.a += begin * t->row;
        some.c = (char *)t->c + begin * t->c_row * element;
        some.sums = t->sums ? t->sums + begin * INT8_COLUMNS : NULL;
        run_rows(&some, end - begin);
    }
}

/* By tiles of the machine, as far as they go. */
static void run_tiles(const int8_tile *t, int rows) {
    _Alignas(64) int32_t sums[INT8_ROWS * INT8_COLUMNS];
    int8_tile left = *t;
    left.done = int8_tiles_sum(t, rows, sums);
    left.sums = sums;
    run_rest(&left, rows);
}

void int8_tile_run(const int8_tile *t, int rows) {
    enum { FEW = 4 }; /* rows, of which most of a tile would be nothing */
    if (!int8_has_dots())
        run_plain(t, rows);
    else if (rows >= FEW && t->w->groups >= INT8_STEP && int8_has_tiles())
        run_tiles(t, rows);
    else if (rows <= INT8_DOTS_ROWS) /* small tiles feel each step around them */
        run_rows(t, rows);
    else
        run_rest(t, rows);
}
