/* depthwise: convolutions channel by channel, of images that lie channels last. */

/* Points of a line that are computed together. */
enum { NAME_POINTS = 8 };

#if NAME_VECTOR
/* Sums of `points` points of a vector of channels: taps [top, bottom) of the lines, [left, right)
 * of each. */
NAME_INLINE void NAME_depthwise_vector(const NAME_conv_shape *s, const float *x, const float *w,
                                       const int points, ptrdiff_t top, ptrdiff_t bottom,
                                       ptrdiff_t left, ptrdiff_t right, float *to) {
    const ptrdiff_t step = s->stride[2] * s->x_stride[4];
    NAME_vec sum[NAME_POINTS];
    NAME_UNROLL
    for (int i = 0; i < points; i++)
        sum[i] = (NAME_vec){0};
    for (ptrdiff_t ky = top; ky < bottom; ky++)
        for (ptrdiff_t kx = left; kx < right; kx++) {
            const NAME_vec by = *(const NAME_vec *)(w + (ky * s->kernel[2] + kx) * s->oc);
            const float *at = x + ky * s->dilation[1] * s->x_stride[3] +
                              kx * s->dilation[2] * s->x_stride[4];
            NAME_UNROLL
            for (int i = 0; i < points; i++)
                sum[i] += *(const NAME_vec *)(at + i * step) * by;
        }
    NAME_UNROLL
    for (int i = 0; i < points; i++)
        *(NAME_vec *)(to + i * NAME_COLS) = sum[i];
}
#endif

/* NAME_POINTS points of a line, half as many or one, whose taps are the same; `row` is the number
 * of the first, x is under it. */
static void NAME_depthwise_points(const NAME_conv_shape *s, const float *x, const float *w,
                                  int points, ptrdiff_t top, ptrdiff_t bottom, ptrdiff_t left,
                                  ptrdiff_t right, ptrdiff_t row, float *y,
                                  const NAME_epilogue *e) {
    float sums[NAME_POINTS * NAME_COLS];
    ptrdiff_t c = 0;
#if NAME_VECTOR
    for (ptrdiff_t next; c < s->oc && s->oc >= NAME_LANES; c = next) {
        /* The last vector may cover some channels again. */
        const ptrdiff_t at = c + NAME_LANES <= s->oc ? c : s->oc - NAME_LANES;
        next = at + NAME_LANES;
        if (points == NAME_POINTS)
            NAME_depthwise_vector(s, x + at, w + at, NAME_POINTS, top, bottom, left, right, sums);
        else if (points == NAME_POINTS / 2)
            NAME_depthwise_vector(s, x + at, w + at, NAME_POINTS / 2, top, bottom, left, right,
                                  sums);
        else
            NAME_depthwise_vector(s, x + at, w + at, 1, top, bottom, left, right, sums);
        NAME_tile_finish(e, sums + (c - at), points, (int)(next - c), row, c,
                         y + row * s->y_row + c, s->y_row);
    }
#endif
    for (; c < s->oc; c++) {
        for (int i = 0; i < points; i++) {
            float sum = 0;
            for (ptrdiff_t ky = top; ky < bottom; ky++)
                for (ptrdiff_t kx = left; kx < right; kx++)
                    sum += x[c + ky * s->dilation[1] * s->x_stride[3] +
                             (i * s->stride[2] + kx * s->dilation[2]) * s->x_stride[4]] *
                           w[(ky * s->kernel[2] + kx) * s->oc + c];
            sums[i * NAME_COLS] = sum;
        }
        NAME_tile_finish(e, sums, points, 1, row, c, y + row * s->y_row + c, s->y_row);
    }
}

/* The first tap that lies within n points of x, and the first behind them that does not, from
 * where the taps begin. */
static void NAME_depthwise_taps(ptrdiff_t at, ptrdiff_t n, ptrdiff_t kernel, ptrdiff_t dilation,
                                ptrdiff_t *from, ptrdiff_t *to) {
    for (*from = 0; *from < kernel && at + *from * dilation < 0;)
        ++*from;
    for (*to = kernel; *to > *from && at + (*to - 1) * dilation >= n;)
        --*to;
}

/* How many points from p on are computed together: those whose taps all lie in x, or one. */
static ptrdiff_t NAME_depthwise_count(const NAME_conv_shape *s, ptrdiff_t p) {
    const ptrdiff_t first = p * s->stride[2] - s->pad[2];
    const ptrdiff_t reach = (s->kernel[2] - 1) * s->dilation[2];
    for (ptrdiff_t n = NAME_POINTS; n >= NAME_POINTS / 2; n /= 2)
        if (first >= 0 && p + n <= s->out[2] && first + (n - 1) * s->stride[2] + reach < s->in[2])
            return n;
    return 1;
}

/* One channel of the result for each of x, in one or two dimensions; weights are
 * [taps][channels]. */
static void NAME_conv_depthwise(const NAME_conv_shape *s, const float *x, const float *w, float *y,
                                const NAME_epilogue *e) {
    NAME_PARALLEL
    for (ptrdiff_t i = 0; i < s->batch * s->out[1]; i++) {
        const ptrdiff_t image = i / s->out[1], sy = i % s->out[1] * s->stride[1] - s->pad[1];
        const float *line = x + image * s->x_stride[0] + sy * s->x_stride[3];
        ptrdiff_t top, bottom, left, right;
        NAME_depthwise_taps(sy, s->in[1], s->kernel[1], s->dilation[1], &top, &bottom);
        for (ptrdiff_t p = 0, n; p < s->out[2]; p += n) {
            const ptrdiff_t sx = p * s->stride[2] - s->pad[2];
            n = NAME_depthwise_count(s, p);
            NAME_depthwise_taps(sx, s->in[2], s->kernel[2], s->dilation[2], &left, &right);
            NAME_depthwise_points(s, line + sx * s->x_stride[4], w, (int)n, top, bottom, left,
                                  right, i * s->out[2] + p, y, e);
        }
    }
}
