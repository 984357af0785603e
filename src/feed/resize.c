/* Pictures at another size: bilinear with antialias, in the fixed point that PIL computes in, so
 * that numbers are those which torchvision gives for a file. */
#include "feed.h"

#include <math.h>

/* Bits behind the point: of 32, 8 are a byte's and 2 are for sums that overshoot. */
enum { BITS = 32 - 8 - 2, CHANNELS = 3 };

/* Which pixels of a line each new one is of, and how much of each. */
typedef struct windows {
    int64_t most; /* weights of one */
    int64_t *first, *len;
    int32_t *weights; /* most each */
} windows;

static void free_windows(windows *w) {
    cfx__free(w->first);
    cfx__free(w->len);
    cfx__free(w->weights);
}

/* A triangle about the middle of the new pixel, as wide as the step between two where the picture
 * becomes smaller. */
static void put_window(windows *w, int64_t i, int64_t from, double scale, double *triangle) {
    const double wide = scale > 1 ? scale : 1, middle = ((double)i + 0.5) * scale;
    const double low = middle - wide + 0.5, high = middle + wide + 0.5;
    const int64_t first = low < 0 ? 0 : (int64_t)low;
    const int64_t end = high > (double)from ? from : (int64_t)high;
    double sum = 0;
    w->first[i] = first;
    w->len[i] = end - first;
    for (int64_t k = 0; k < end - first; k++) {
        const double far = fabs(((double)(k + first) - middle + 0.5) / wide);
        triangle[k] = far < 1 ? 1 - far : 0;
        sum += triangle[k];
    }
    for (int64_t k = 0; k < end - first; k++)
        w->weights[i * w->most + k] =
            (int32_t)(0.5 + (sum != 0 ? triangle[k] / sum : 0) * (1 << BITS));
}

static bool make_windows(windows *w, int64_t from, int64_t to) {
    const double scale = (double)from / (double)to;
    w->most = (int64_t)ceil(scale > 1 ? scale : 1) * 2 + 1;
    w->first = cfx__alloc_try((size_t)to * sizeof *w->first);
    w->len = cfx__alloc_try((size_t)to * sizeof *w->len);
    w->weights = cfx__alloc_try((size_t)to * (size_t)w->most * sizeof *w->weights);
    double *triangle = cfx__alloc_try((size_t)w->most * sizeof *triangle);
    const bool fine = w->first && w->len && w->weights && triangle;
    for (int64_t i = 0; fine && i < to; i++)
        put_window(w, i, from, scale, triangle);
    cfx__free(triangle);
    return fine;
}

/* One pixel of those that lie `step` bytes apart. */
static void blend(const uint8_t *from, int64_t step, const windows *w, int64_t i, uint8_t *to) {
    const int32_t *weight = w->weights + i * w->most;
    int32_t sum[CHANNELS] = {1 << (BITS - 1), 1 << (BITS - 1), 1 << (BITS - 1)};
    from += w->first[i] * step;
    for (int64_t k = 0; k < w->len[i]; k++, from += step)
        for (int c = 0; c < CHANNELS; c++)
            sum[c] += from[c] * weight[k];
    for (int c = 0; c < CHANNELS; c++) {
        const int32_t value = sum[c] >> BITS;
        to[c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static cfx_tensor *across(const cfx_tensor *image, int64_t width) {
    const int64_t height = image->shape[0], row = image->shape[1] * CHANNELS;
    windows w = {0};
    cfx_tensor *t = cfx__image_new("the picture", height, width);
    if (!cfx_failed(t) && make_windows(&w, image->shape[1], width))
        for (int64_t y = 0; y < height && cfx__limit_time(); y++)
            for (int64_t x = 0; x < width; x++)
                blend((uint8_t *)image->data + y * row, CHANNELS, &w, x,
                      (uint8_t *)t->data + (y * width + x) * CHANNELS);
    free_windows(&w);
    return cfx_ok() ? t : &cfx__tensor_bad;
}

static cfx_tensor *down(const cfx_tensor *image, int64_t height) {
    const int64_t width = image->shape[1], row = width * CHANNELS;
    windows w = {0};
    cfx_tensor *t = cfx__image_new("the picture", height, width);
    if (!cfx_failed(t) && make_windows(&w, image->shape[0], height))
        for (int64_t y = 0; y < height && cfx__limit_time(); y++)
            for (int64_t x = 0; x < width; x++)
                blend((uint8_t *)image->data + x * CHANNELS, row, &w, y,
                      (uint8_t *)t->data + (y * width + x) * CHANNELS);
    free_windows(&w);
    return cfx_ok() ? t : &cfx__tensor_bad;
}

cfx_tensor *cfx__image_resize(const cfx_tensor *image, int64_t height, int64_t width) {
    cfx_tensor *t = (cfx_tensor *)image;
    if (image->shape[1] != width)
        t = across(t, width);
    if (!cfx_failed(t) && image->shape[0] != height)
        t = down(t, height);
    return t;
}
