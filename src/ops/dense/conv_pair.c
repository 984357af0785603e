/* A convolution by single points with one channel by channel behind it. A piece is a band of lines
 * of the result and a panel of channels: the lines of the first's result under the band are made
 * for these channels, side by side in the cache, and convolved there. Lines that two bands see are
 * computed twice. */
#include "conv_tile.h"

#include "../ops.h"

enum {
    NEAR = 3 << 15, /* elements between the two that stay in the second cache */
    LEAST = 4       /* channels that vectors of the smallest kind hold */
};

typedef struct {
    const conv_tiles *first, *second;
    const float *src;
    float *dst;
    int64_t panels, bands; /* of an image */
    int64_t lines;         /* of a band */
} job;

bool conv_pair_takes(const conv_tiles *first, const conv_tiles *second) {
    const conv *a = &first->v, *b = &second->v;
    return a->kernel[1] == 1 && a->kernel[2] == 1 && a->stride[1] == 1 && a->stride[2] == 1 &&
           !a->pad[1] && !a->pad[2] && a->groups == 1 && first->src_last && !first->epilogue.add &&
           !first->way &&
           conv_channels_takes(b) && a->oc == b->ic && a->oc % LEAST == 0 &&
           conv_tile_row(first) == a->oc;
}

/* Lines [*from, *to) of the first's result under lines [top, bottom) of the second's. */
static void lines_under(const conv *v, int64_t top, int64_t bottom, int64_t *from, int64_t *to) {
    *from = top * v->stride[1] - v->pad[1];
    *to = (bottom - 1) * v->stride[1] - v->pad[1] + v->dilation[1] * (v->kernel[1] - 1) + 1;
    *from = *from < 0 ? 0 : *from < v->in[1] ? *from : v->in[1];
    *to = *to > v->in[1] ? v->in[1] : *to > *from ? *to : *from;
}

/* Rows of the product with one panel, side by side; n of its columns are wanted. */
static void multiply(const conv_tiles *t, int64_t panel, int64_t n, const float *a, int64_t rows,
                     float *to) {
    static const int64_t none[1];
    const int64_t width = tile_width(), tiles = (rows + tile_height() - 1) / tile_height();
    const int64_t cols = n <= width / 2 ? width / 2 : width; /* whole vectors */
    const tile_epilogue *e = &t->epilogue;
    tile part = {.row = t->v.ic,
                 .taps = 1,
                 .length = t->v.ic,
                 .at = none,
                 .panel = (const char *)t->weights +
                          panel * t->v.ic * width * tile_bytes(t->kept),
                 .kept = t->kept,
                 .c_row = width,
                 .cols = (int)cols,
                 .bias = t->bias ? t->bias + panel * width : NULL,
                 .bounded = e->bounded,
                 .low = e->low,
                 .high = e->high};
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t begin = rows * i / tiles, end = rows * (i + 1) / tiles;
        part.a = a + begin * part.row;
        part.c = to + begin * width;
        tile_run(&part, (int)(end - begin));
        tile_finish(e, part.c, width, end - begin, cols);
    }
}

static void run_piece(const job *j, int64_t piece, float *room) {
    const conv *a = &j->first->v, *b = &j->second->v;
    const int64_t width = tile_width(), channel = piece % j->panels * width;
    const int64_t band = piece / j->panels, image = band / j->bands;
    const int64_t top = band % j->bands * j->lines;
    conv_lines l = {.t = j->second,
                    .channel = channel,
                    .n = b->ic - channel < width ? b->ic - channel : width,
                    .src_row = width,
                    .dst = j->dst + image * b->out[1] * b->out[2] * b->oc + channel,
                    .top = top,
                    .bottom = b->out[1] - top < j->lines ? b->out[1] : top + j->lines};
    int64_t from, to;
    lines_under(b, l.top, l.bottom, &from, &to);
    l.src = room - from * b->in[2] * width;
    multiply(j->first, piece % j->panels, l.n,
             j->src + (image * a->in[1] + from) * a->in[2] * a->ic, (to - from) * b->in[2], room);
    conv_channels_lines(&l);
}

/* Elements between the two for a band. */
static int64_t room_of(const conv *v, int64_t lines) {
    const int64_t under = (lines - 1) * v->stride[1] + v->dilation[1] * (v->kernel[1] - 1) + 1;
    return (under < v->in[1] ? under : v->in[1]) * v->in[2] * tile_width();
}

static void run_pieces(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const size_t size = (size_t)room_of(&j->second->v, j->lines) * sizeof(float);
    float *room = cfx__block_alloc(size);
    if (!room) {
        cfx__error_memory(size, false);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        run_piece(j, i, room);
    cfx__block_free(room, size);
}

void conv_pair_run(const conv_tiles *first, const conv_tiles *second, const float *src,
                   float *dst) {
    enum { PER_THREAD = 2 };
    const conv *v = &second->v;
    job j = {.first = first, .second = second, .src = src, .dst = dst, .bands = 1};
    j.panels = conv_tile_columns(&first->v) / tile_width();
    j.lines = v->out[1];
    const int64_t threads = cfx_get_num_threads(), least = threads > 1 ? threads * PER_THREAD : 1;
    while (j.lines > 1 && (room_of(v, j.lines) > NEAR || v->batch * j.panels * j.bands < least)) {
        j.bands++;
        j.lines = (v->out[1] + j.bands - 1) / j.bands;
    }
    j.bands = (v->out[1] + j.lines - 1) / j.lines;
    cfx__parallel(v->batch * j.bands * j.panels, 1, run_pieces, &j);
}
