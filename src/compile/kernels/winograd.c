/* winograd: convolutions by 3 x 3 points, stride 1, of images that lie channels last: tiles of
 * 4 x 4 or 2 x 2 points by 36 or 16 multiplications for each pair of channels, not 144 or 36.
 *
 * A tile's patch of x (6 x 6 or 4 x 4 points) is transformed channel by channel; at each of its
 * points all tiles of a round are a matrix that is multiplied by the transformed weights, and
 * another transform gives the results. The points are 0, +-5/8, +-3/2 and infinity, which keep the
 * rounding errors within about twice those of sums in order. */

/* Elements of a round's matrices of inputs. */
enum { NAME_WINOGRAD_NEAR = 1 << 18, NAME_WINOGRAD_PAD = 16 };

#if NAME_VECTOR
#define NAME_WIDE NAME_LANES
typedef NAME_vec NAME_wide;
#else
#define NAME_WIDE 1
typedef float NAME_wide;
#endif

/* A line of a patch, evaluated at the points. */
NAME_INLINE void NAME_winograd_in(const NAME_wide *d, const int size, NAME_wide *to) {
    const float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;
    if (size == 4) {
        to[0] = d[0] - d[2];
        to[1] = d[1] + d[2];
        to[2] = d[2] - d[1];
        to[3] = d[1] - d[3];
        return;
    }
    const NAME_wide even_a = d[4] - b2 * d[2], odd_a = a * (d[3] - b2 * d[1]);
    const NAME_wide even_b = d[4] - a2 * d[2], odd_b = b * (d[3] - a2 * d[1]);
    to[0] = (d[4] - (a2 + b2) * d[2]) + a2 * b2 * d[0];
    to[1] = even_a + odd_a;
    to[2] = even_a - odd_a;
    to[3] = even_b + odd_b;
    to[4] = even_b - odd_b;
    to[5] = (d[5] - (a2 + b2) * d[3]) + a2 * b2 * d[1];
}

/* The results of a line from the products at the points. */
NAME_INLINE void NAME_winograd_out(const NAME_wide *m, const int size, NAME_wide *to) {
    const float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;
    const NAME_wide sum_a = m[1] + m[2], less_a = m[1] - m[2];
    if (size == 4) {
        to[0] = m[0] + sum_a;
        to[1] = less_a - m[3];
        return;
    }
    const NAME_wide sum_b = m[3] + m[4], less_b = m[3] - m[4];
    to[0] = m[0] + sum_a + sum_b;
    to[1] = a * less_a + b * less_b;
    to[2] = a2 * sum_a + b2 * sum_b;
    to[3] = a2 * a * less_a + b2 * b * less_b + m[5];
}

/* Some channels of a patch: `from` has its points, `to` is in the first matrix, others `apart`. */
NAME_INLINE void NAME_winograd_patch(const float *const *from, ptrdiff_t channel, const int size,
                                     float *to, ptrdiff_t apart) {
    NAME_wide half[6][6], d[6], line[6];
    NAME_UNROLL
    for (int x = 0; x < size; x++) {
        NAME_UNROLL
        for (int y = 0; y < size; y++)
            d[y] = *(const NAME_wide *)(from[y * size + x] + channel);
        NAME_winograd_in(d, size, line);
        NAME_UNROLL
        for (int y = 0; y < size; y++)
            half[y][x] = line[y];
    }
    NAME_UNROLL
    for (int y = 0; y < size; y++) {
        NAME_winograd_in(half[y], size, line);
        NAME_UNROLL
        for (int x = 0; x < size; x++)
            *(NAME_wide *)(to + (y * size + x) * apart + channel) = line[x];
    }
}

/* Some columns of a tile's results, which are still to be finished. */
NAME_INLINE void NAME_winograd_tile(const float *from, ptrdiff_t apart, const int size, float *to) {
    NAME_wide half[4][6], m[6], line[4];
    NAME_UNROLL
    for (int x = 0; x < size; x++) {
        NAME_UNROLL
        for (int y = 0; y < size; y++)
            m[y] = *(const NAME_wide *)(from + (y * size + x) * apart);
        NAME_winograd_out(m, size, line);
        NAME_UNROLL
        for (int y = 0; y < size - 2; y++)
            half[y][x] = line[y];
    }
    NAME_UNROLL
    for (int y = 0; y < size - 2; y++) {
        NAME_winograd_out(half[y], size, line);
        NAME_UNROLL
        for (int x = 0; x < size - 2; x++)
            *(NAME_wide *)(to + (y * (size - 2) + x) * NAME_COLS) = line[x];
    }
}

/* What a round of tiles knows. */
typedef struct {
    const NAME_conv_shape *s;
    int size, step;
    ptrdiff_t across, down; /* tiles of an image */
    ptrdiff_t first, count; /* tiles of the round */
    ptrdiff_t row, apart;   /* elements of a tile in a matrix of inputs, and of a matrix */
} NAME_winograd_round;

/* The patch of tile i of a round, at all channels. The last vector may cover some again. */
static void NAME_winograd_input(const NAME_winograd_round *r, const float *x, ptrdiff_t i,
                                const float *zeros, float *inputs) {
    const NAME_conv_shape *s = r->s;
    const ptrdiff_t number = r->first + i, image = number / (r->across * r->down);
    const ptrdiff_t y = number / r->across % r->down * r->step - s->pad[1];
    const ptrdiff_t left = number % r->across * r->step - s->pad[2];
    const float *from[36];
    for (int q = 0; q < r->size * r->size; q++) {
        const ptrdiff_t sy = y + q / r->size, sx = left + q % r->size;
        const int inside = sy >= 0 && sy < s->in[1] && sx >= 0 && sx < s->in[2];
        from[q] = inside ? x + image * s->x_stride[0] + sy * s->x_stride[3] + sx * s->x_stride[4]
                         : zeros;
    }
    for (ptrdiff_t c = 0; c < s->ic; c += NAME_WIDE) {
        const ptrdiff_t at = c + NAME_WIDE <= s->ic ? c : s->ic - NAME_WIDE;
        if (r->size == 4)
            NAME_winograd_patch(from, at, 4, inputs + i * r->row, r->apart);
        else
            NAME_winograd_patch(from, at, 6, inputs + i * r->row, r->apart);
    }
}

/* The results of tile i of a round at columns [col, col + NAME_COLS). */
static void NAME_winograd_output(const NAME_winograd_round *r, ptrdiff_t i, const float *products,
                                 ptrdiff_t apart, ptrdiff_t col, float *y,
                                 const NAME_epilogue *e) {
    const NAME_conv_shape *s = r->s;
    const ptrdiff_t number = r->first + i, image = number / (r->across * r->down);
    const ptrdiff_t top = number / r->across % r->down * r->step;
    const ptrdiff_t left = number % r->across * r->step;
    const int cols = s->oc - col < NAME_COLS ? (int)(s->oc - col) : NAME_COLS;
    const int right = s->out[2] - left < r->step ? (int)(s->out[2] - left) : r->step;
    float sums[16 * NAME_COLS];
    for (int c = 0; c < NAME_COLS; c += NAME_WIDE)
        if (r->size == 4)
            NAME_winograd_tile(products + i * NAME_COLS + c, apart, 4, sums + c);
        else
            NAME_winograd_tile(products + i * NAME_COLS + c, apart, 6, sums + c);
    for (int q = 0; q < r->step && top + q < s->out[1]; q++) {
        const ptrdiff_t row = (image * s->out[1] + top + q) * s->out[2] + left;
        NAME_tile_finish(e, sums + q * r->step * NAME_COLS, right, cols, row, col,
                         y + row * s->y_row + col, s->y_row);
    }
}

/* The products of a round with columns [col, col + NAME_COLS) of the weights, at all points. */
static void NAME_winograd_multiply(const NAME_winograd_round *r, const float *inputs,
                                   const float *panels, ptrdiff_t col, float *products,
                                   ptrdiff_t apart) {
    static const ptrdiff_t none[1];
    const ptrdiff_t ic = r->s->ic, points = r->size * r->size;
    const ptrdiff_t tiles = (r->count + NAME_ROWS - 1) / NAME_ROWS;
    const int half = r->s->oc - col <= NAME_COLS / 2;
    NAME_tile t = {.a_row = r->row, .taps = 1, .length = ic, .at = none};
    for (ptrdiff_t q = 0; q < points; q++) {
        t.left = panels + (col / NAME_PANEL * points + q) * ic * NAME_PANEL + col % NAME_PANEL;
        t.right = t.left + (NAME_VECTOR == 64 ? NAME_PANEL * ic * points : NAME_COLS / 2);
        for (ptrdiff_t i = 0; i < tiles; i++) {
            const ptrdiff_t begin = r->count * i / tiles, end = r->count * (i + 1) / tiles;
            t.a = inputs + q * r->apart + begin * r->row;
            NAME_tile_sums(&t, (int)(end - begin), half, products + q * apart + begin * NAME_COLS,
                           NAME_COLS);
        }
    }
}

/* `size` is 6 or 4, the points of a patch; ic is 16 at least. Weights are
 * transformed, a matrix in panels for each point; the scratch holds transformed patches of a round
 * and their products. */
static void NAME_conv_winograd(const NAME_conv_shape *s, int size, const float *x,
                               const float *panels, float *y, const NAME_epilogue *e,
                               float *scratch) {
    const ptrdiff_t points = size * size, step = size - 2, row = s->ic + NAME_WINOGRAD_PAD;
    const ptrdiff_t fit = NAME_WINOGRAD_NEAR / (points * row);
    NAME_winograd_round r = {.s = s, .size = size, .step = size - 2, .row = row};
    r.across = (s->out[2] + step - 1) / step;
    r.down = (s->out[1] + step - 1) / step;
    const ptrdiff_t tiles = s->batch * r.across * r.down, most = fit < 16 ? 16 : fit;
    const ptrdiff_t rounds = (tiles + most - 1) / most, count = (tiles + rounds - 1) / rounds;
    const ptrdiff_t strips = (s->oc + NAME_COLS - 1) / NAME_COLS;
    const ptrdiff_t apart = count * NAME_COLS + NAME_WINOGRAD_PAD;
    r.apart = count * row + NAME_WINOGRAD_PAD;
    float *inputs = scratch + s->ic, *products = inputs + points * r.apart;
    memset(scratch, 0, (size_t)s->ic * sizeof *scratch);
    for (; r.first < tiles; r.first += count) {
        r.count = tiles - r.first < count ? tiles - r.first : count;
        NAME_PARALLEL
        for (ptrdiff_t i = 0; i < r.count; i++)
            NAME_winograd_input(&r, x, i, scratch, inputs);
        for (ptrdiff_t strip = 0; strip < strips; strip++) {
            NAME_winograd_multiply(&r, inputs, panels, strip * NAME_COLS, products, apart);
            NAME_PARALLEL
            for (ptrdiff_t i = 0; i < r.count; i++)
                NAME_winograd_output(&r, i, products, apart, strip * NAME_COLS, y, e);
        }
    }
}
