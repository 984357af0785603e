/* Pictures: read, resized, cut out of the middle, brought to numbers. Start at
 * cfx_image_prepare. */
#include "feed.h"

#include <math.h>

enum { CHANNELS = 3, MOST_PIXELS = 1 << 20 }; /* a side */

/* ---- files ----------------------------------------------------------------------------------- */

cfx_tensor *cfx__image_new(const char *what, int64_t height, int64_t width) {
    const int64_t shape[] = {height, width, CHANNELS};
    if (height > 0 && width > 0 && height <= MOST_PIXELS && width <= MOST_PIXELS)
        return cfx__tensor_empty((cfx_site){0}, CFX_U8, false, 3, shape, NULL);
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' would have %lld x %lld pixels", what,
             (long long)width, (long long)height);
    return &cfx__tensor_bad;
}

static cfx__bytes bytes_of(const cfx__file_mapping *m) {
    return (cfx__bytes){(const uint8_t *)m->data, m->size};
}

bool cfx_image_is_in(const char *path) {
    const bool fine = cfx_ok();
    cfx__file_mapping *m = path && fine ? cfx__file_map(path) : NULL;
    const bool is = m && (cfx__png_is(bytes_of(m)) || cfx__jpeg_is(bytes_of(m)));
    if (m)
        cfx_drop(m);
    if (fine)
        cfx__error_forgive();
    return is;
}

int cfx__image_orientation(const char *path) {
    cfx__file_mapping *m = cfx__file_map(path);
    const int way = m && cfx__jpeg_is(bytes_of(m)) ? cfx__jpeg_orientation(bytes_of(m)) : 1;
    if (m)
        cfx_drop(m);
    return way;
}

cfx_tensor *cfx_image_read(const char *path) {
    if (!cfx_ok())
        return &cfx__tensor_bad;
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "which file? NULL is none");
        return &cfx__tensor_bad;
    }
    cfx__file_mapping *m = cfx__file_map(path);
    if (!m)
        return &cfx__tensor_bad;
    cfx_tensor *t = &cfx__tensor_bad;
    if (cfx__png_is(bytes_of(m)))
        t = cfx__png_read(path, bytes_of(m));
    else if (cfx__jpeg_is(bytes_of(m)))
        t = cfx__jpeg_read(path, bytes_of(m));
    else
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is no PNG or JPEG file", path);
    cfx_drop(m);
    return t;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The size that a picture is brought to first: as torchvision does with one number, the longer side
 * is cut to an integer. */
static void resized(const cfx_tensor *t, const cfx_image_options *o, int64_t size[2]) {
    const int64_t h = t->shape[0], w = t->shape[1];
    const int64_t cut = o->size[0] < o->size[1] ? o->size[0] : o->size[1];
    const int64_t side = o->resize[0] ? o->resize[0] : cut;
    size[0] = h;
    size[1] = w;
    if (o->keep || !side)
        return;
    if (o->resize[1]) {
        size[0] = o->resize[0];
        size[1] = o->resize[1];
        return;
    }
    const int longer = h > w ? 0 : 1;
    size[!longer] = side;
    size[longer] = (int64_t)((double)side * (double)(longer ? w : h) / (double)(longer ? h : w));
}

/* Where the cut begins, as torchvision rounds: halves to even; where the picture is smaller, the
 * pixels before it. */
static int64_t offset(int64_t have, int64_t want) {
    return have >= want ? (int64_t)nearbyint((double)(have - want) / 2) : -((want - have) / 2);
}

/* A pixel by channel of the tensor. PIL's weights for what is seen as grey. */
static void channels_of(const uint8_t *pixel, cfx_image_channels order, uint8_t to[CHANNELS]) {
    if (order == CFX_IMAGE_GREY)
        to[0] = (uint8_t)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
    else
        for (int c = 0; c < CHANNELS; c++)
            to[c] = pixel[order == CFX_IMAGE_BGR ? CHANNELS - 1 - c : c];
}

typedef struct cut {
    const cfx_tensor *image; /* after resizing */
    int64_t top, left, height, width, channels;
    const cfx_image_options *how;
} cut;

static void put_pixel(const cut *c, cfx_tensor *to, int64_t y, int64_t x) {
    static const uint8_t black[CHANNELS];
    uint8_t v[CHANNELS];
    const int64_t from_y = y + c->top, from_x = x + c->left;
    const bool inside = from_y >= 0 && from_y < c->image->shape[0] && from_x >= 0 &&
                        from_x < c->image->shape[1];
    const uint8_t *pixel = (uint8_t *)c->image->data +
                           (from_y * c->image->shape[1] + from_x) * CHANNELS;
    channels_of(inside ? pixel : black, c->how->channels, v);
    for (int64_t k = 0; k < c->channels; k++) {
        const int64_t at = c->how->last ? (y * c->width + x) * c->channels + k
                                        : (k * c->height + y) * c->width + x;
        const double std = c->how->std[k] != 0 ? c->how->std[k] : 1;
        if (c->how->bytes)
            ((uint8_t *)to->data)[at] = v[k];
        else /* step by step in float32, as PyTorch */
            ((float *)to->data)[at] =
                ((float)v[k] / 255.0f - (float)c->how->mean[k]) / (float)std;
    }
}

/* Whether options are of a model's input at all. */
static bool are_right(const cfx_image_options *o) {
    bool fine = o->channels <= CFX_IMAGE_GREY;
    for (int i = 0; i < 2; i++)
        fine &= o->size[i] >= 0 && o->size[i] <= MOST_PIXELS && o->resize[i] >= 0 &&
                o->resize[i] <= MOST_PIXELS;
    fine &= !o->size[0] == !o->size[1] && (o->resize[0] || !o->resize[1]);
    if (!fine)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "sizes of a picture are a height and a width from 1 to %d", MOST_PIXELS);
    return fine;
}

static bool is_picture(const cfx_tensor *t) {
    const bool is = t && !cfx_failed(t) && t->data && t->dtype == CFX_U8 && t->ndim == 3 &&
                    t->shape[2] == CHANNELS && t->shape[0] > 0 && t->shape[1] > 0 &&
                    cfx__tensor_is_contiguous(t);
    if (!is)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a picture is a uint8[height, width, 3]");
    return is;
}

cfx_tensor *cfx_image_prepare(const cfx_tensor *image, const cfx_image_options *options) {
    const cfx_image_options plain = {.size = {0}}, *o = options ? options : &plain;
    int64_t size[2];
    if (!cfx_ok() || !is_picture(image) || !are_right(o))
        return &cfx__tensor_bad;
    resized(image, o, size);
    const cfx_tensor *t = cfx__image_resize(image, size[0], size[1]);
    if (cfx_failed((void *)t))
        return &cfx__tensor_bad;
    cut c = {.image = t, .how = o, .channels = o->channels == CFX_IMAGE_GREY ? 1 : CHANNELS};
    c.height = o->size[0] ? o->size[0] : size[0];
    c.width = o->size[1] ? o->size[1] : size[1];
    c.top = offset(size[0], c.height);
    c.left = offset(size[1], c.width);
    const int64_t shape[] = {1, o->last ? c.height : c.channels, o->last ? c.width : c.height,
                             o->last ? c.channels : c.width};
    cfx_tensor *to = cfx__tensor_empty((cfx_site){0}, o->bytes ? CFX_U8 : CFX_F32, false,
                                       o->plain ? 3 : 4, shape + o->plain, NULL);
    if (cfx_failed(to))
        return to;
    for (int64_t y = 0; y < c.height && cfx__limit_time(); y++)
        for (int64_t x = 0; x < c.width; x++)
            put_pixel(&c, to, y, x);
    return cfx_ok() ? to : &cfx__tensor_bad;
}
