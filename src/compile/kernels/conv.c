/* conv: convolutions of images that lie channels last, as tiles of a product.
 *
 * The points under a kernel are runs of memory, so nothing is laid out but a border of zeros: some
 * lines of the result at a time, the lines of x that they see are copied with their border, and
 * each tile is some points of a line times columns of the packed weights. Sizes are [depth, height,
 * width]; images of fewer dimensions have ones in front. */

/* A convolution: y has `out` points of oc channels, y_row elements from point to point. */
typedef struct {
    ptrdiff_t batch, groups, ic, oc;
    ptrdiff_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    ptrdiff_t x_stride[5]; /* of x: image, channel, depth, height, width */
    ptrdiff_t y_row;
    ptrdiff_t y_channel, y_image; /* where channels do not lie side by side: their distance, and
                                     that of images; else y_channel is 0 or 1 */
} NAME_conv_shape;

/* Elements of x that are copied at a time. */
enum { NAME_CONV_NEAR = 1 << 16 };

/* Lines of x under n lines of the result, and points of a line with its border. */
static ptrdiff_t NAME_conv_lines(const NAME_conv_shape *s, ptrdiff_t n) {
    return (n - 1) * s->stride[1] + s->dilation[1] * (s->kernel[1] - 1) + 1;
}

static ptrdiff_t NAME_conv_width(const NAME_conv_shape *s) {
    return (s->out[2] - 1) * s->stride[2] + s->dilation[2] * (s->kernel[2] - 1) + 1;
}

/* Whether x can be read where it lies. */
static int NAME_conv_whole(const NAME_conv_shape *s) {
    return s->groups == 1 && !s->pad[0] && !s->pad[1] && !s->pad[2] &&
           (s->ic == 1 || s->x_stride[1] == 1) && (s->in[2] == 1 || s->x_stride[4] == s->ic);
}

/* One line of a group's channels with its border: [width][ic]. Outside of x it is zero. */
static void NAME_conv_line(const NAME_conv_shape *s, const float *x, ptrdiff_t z, ptrdiff_t y,
                           float *to) {
    const ptrdiff_t ic = s->ic / s->groups, width = NAME_conv_width(s), pad = s->pad[2];
    const ptrdiff_t channel = s->x_stride[1], point = s->x_stride[4];
    ptrdiff_t inside = width - pad < s->in[2] ? width - pad : s->in[2];
    if (z < 0 || z >= s->in[0] || y < 0 || y >= s->in[1] || inside <= 0) {
        memset(to, 0, (size_t)(width * ic) * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)(pad * ic) * sizeof *to);
    memset(to + (pad + inside) * ic, 0, (size_t)((width - pad - inside) * ic) * sizeof *to);
    to += pad * ic;
    x += z * s->x_stride[2] + y * s->x_stride[3];
    if (channel == 1 && point == ic) {
        memcpy(to, x, (size_t)(inside * ic) * sizeof *to);
        return;
    }
    for (ptrdiff_t i = 0; i < inside; i++)
        if (channel == 1)
            memcpy(to + i * ic, x + i * point, (size_t)ic * sizeof *to);
        else
            for (ptrdiff_t c = 0; c < ic; c++)
                to[i * ic + c] = x[i * point + c * channel];
}

/* Stores finished sums, NAME_COLS from row to row, to places that lie apart. */
static void NAME_conv_scatter(const NAME_conv_shape *s, const float *sums, int rows, int cols,
                              ptrdiff_t row, ptrdiff_t first, float *y) {
    const ptrdiff_t points = s->out[0] * s->out[1] * s->out[2];
    float *to = y + row / points * s->y_image + row % points * s->y_row + first * s->y_channel;
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++)
            to[j * s->y_channel + i * s->y_row] = sums[i * NAME_COLS + j];
}

/* A line of the result at columns [col, col + NAME_COLS) of a group. `a` is x under its first
 * point, `row` the number of that point, `wide` elements lie from point to point of the line. */
static void NAME_conv_tiles(const NAME_conv_shape *s, NAME_tile *t, const float *a, ptrdiff_t row,
                            ptrdiff_t group, const float *panels, ptrdiff_t col, float *y,
                            const NAME_epilogue *e) {
    float sums[NAME_ROWS * NAME_COLS];
    const ptrdiff_t oc = s->oc / s->groups, k = t->taps * t->length, first = group * oc + col;
    const ptrdiff_t tiles = (s->out[2] + NAME_ROWS - 1) / NAME_ROWS;
    const int cols = oc - col < NAME_COLS ? (int)(oc - col) : NAME_COLS;
    t->left = panels + (group * ((oc + NAME_PANEL - 1) / NAME_PANEL) + col / NAME_PANEL) * k *
                           NAME_PANEL + col % NAME_PANEL;
    t->right = t->left + (NAME_VECTOR == 64 ? NAME_PANEL * k : NAME_COLS / 2);
    for (ptrdiff_t i = 0; i < tiles; i++) {
        const ptrdiff_t begin = s->out[2] * i / tiles;
        const int rows = (int)(s->out[2] * (i + 1) / tiles - begin);
        t->a = a + begin * t->a_row;
        NAME_tile_sums(t, rows, cols <= NAME_COLS / 2, sums, NAME_COLS);
        if (s->y_channel > 1) {
            NAME_tile_finish(e, sums, rows, cols, row + begin, first, sums, NAME_COLS);
            NAME_conv_scatter(s, sums, rows, cols, row + begin, first, y);
        } else {
            NAME_tile_finish(e, sums, rows, cols, row + begin, first,
                             y + (row + begin) * s->y_row + first, s->y_row);
        }
    }
}

/* Where the runs under a kernel begin, from the first: whole lines of it where they are dense. Rows
 * lie `line` elements apart, planes `plane`. */
static void NAME_conv_runs(const NAME_conv_shape *s, ptrdiff_t line, ptrdiff_t plane,
                           NAME_tile *t, ptrdiff_t *at) {
    const ptrdiff_t ic = s->ic / s->groups, *k = s->kernel;
    const ptrdiff_t steps = s->dilation[2] == 1 ? 1 : k[2];
    t->length = steps == 1 ? k[2] * ic : ic;
    t->taps = 0;
    t->at = at;
    for (ptrdiff_t z = 0; z < k[0]; z++)
        for (ptrdiff_t y = 0; y < k[1]; y++)
            for (ptrdiff_t x = 0; x < steps; x++)
                at[t->taps++] = z * plane + y * s->dilation[1] * line + x * s->dilation[2] * ic;
}

/* Weights are panels of [taps * ic][oc] for each group, taps in the order depth, height, width. The
 * scratch holds where their runs begin, and lines of x with their borders. */
static void NAME_conv(const NAME_conv_shape *s, const float *x, const float *panels, float *y,
                      const NAME_epilogue *e, float *scratch) {
    const ptrdiff_t ic = s->ic / s->groups, oc = s->oc / s->groups, *k = s->kernel;
    const int whole = NAME_conv_whole(s);
    const ptrdiff_t wide = NAME_conv_width(s) * ic;
    const ptrdiff_t fit = NAME_CONV_NEAR / (wide * k[0] * s->stride[1] + 1);
    const ptrdiff_t most = fit < 1 ? 1 : fit < s->out[1] ? fit : s->out[1];
    const ptrdiff_t copied = NAME_conv_lines(s, most), strips = (oc + NAME_COLS - 1) / NAME_COLS;
    const ptrdiff_t line = whole ? s->x_stride[3] : wide;
    const ptrdiff_t plane = whole ? s->x_stride[2] * s->dilation[0] : copied * wide;
    float *lines = scratch + k[0] * k[1] * k[2] * (ptrdiff_t)(sizeof(ptrdiff_t) / sizeof *scratch);
    NAME_tile tile = {.a_row = s->stride[2] * ic};
    NAME_conv_runs(s, line, plane, &tile, (ptrdiff_t *)(void *)scratch);
    for (ptrdiff_t i = 0; i < s->batch * s->groups * s->out[0]; i++) {
        const ptrdiff_t image = i / s->out[0] / s->groups, group = i / s->out[0] % s->groups;
        const ptrdiff_t oz = i % s->out[0], z = oz * s->stride[0] - s->pad[0];
        const float *from = x + image * s->x_stride[0] + group * ic * s->x_stride[1];
        for (ptrdiff_t top = 0, n; top < s->out[1]; top += n) {
            const ptrdiff_t first = top * s->stride[1] - s->pad[1];
            n = s->out[1] - top < most ? s->out[1] - top : most;
            for (ptrdiff_t q = 0; !whole && q < k[0] * copied; q++)
                NAME_conv_line(s, from, z + q / copied * s->dilation[0], first + q % copied,
                               lines + q * wide);
            const float *a = whole ? from + z * s->x_stride[2] + first * line : lines;
            NAME_PARALLEL
            for (ptrdiff_t q = 0; q < strips * n; q++) {
                const ptrdiff_t row = ((image * s->out[0] + oz) * s->out[1] + top + q % n) *
                                      s->out[2];
                NAME_tile t = tile;
                NAME_conv_tiles(s, &t, a + q % n * s->stride[1] * line, row, group, panels,
                                q / n * NAME_COLS, y, e);
            }
        }
    }
}
