/* PNG files, by libpng's simplified interface: it keeps its errors to itself. */
#include "feed.h"

/* As png.h has them; the layout is that of version 1, which every libpng 1.6 knows. */
typedef struct png_image {
    void *opaque;
    uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
    char message[64];
} png_image;

enum { VERSION = 1, ALPHA = 1, COLOUR = 2, SIXTEEN_IS_SRGB = 4, WENT_WRONG = 2 };

typedef struct functions {
    int (*begin)(png_image *image, const void *memory, size_t size);
    int (*finish)(png_image *image, const void *background, void *buffer, int32_t stride,
                  void *colormap);
    void (*free)(png_image *image);
} functions;

static bool open_library(functions *f) {
    static const char *const files[] = {"libpng16.so.16", "libpng16.so", NULL};
    static const cfx__library png = {files, "libpng16-16", "PNG files"};
    static const char *const names[] = {"png_image_begin_read_from_memory",
                                        "png_image_finish_read", "png_image_free"};
    void (*found[3])(void);
    if (!cfx__library_open(&png, COUNT(names), names, found))
        return false;
    memcpy(&f->begin, &found[0], sizeof found[0]);
    memcpy(&f->finish, &found[1], sizeof found[1]);
    memcpy(&f->free, &found[2], sizeof found[2]);
    return true;
}

bool cfx__png_is(cfx__bytes b) { return b.len >= 8 && !memcmp(b.at, "\x89PNG\r\n\x1a\n", 8); }

static cfx_tensor *damaged(const char *what, const png_image *i) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is not a PNG file that can be read: %.63s", what,
             i->message);
    return &cfx__tensor_bad;
}

/* Colours alone, of pixels with alpha. */
static void drop_alpha(const uint8_t *from, cfx_tensor *to) {
    uint8_t *p = (uint8_t *)to->data;
    for (int64_t i = 0; i < to->shape[0] * to->shape[1]; i++, p += 3, from += 4)
        memcpy(p, from, 3);
}

static cfx_tensor *read_pixels(const char *what, const functions *f, png_image *i) {
    cfx_tensor *t = cfx__image_new(what, i->height, i->width);
    if (cfx_failed(t))
        return t;
    const bool alpha = i->format & ALPHA;
    uint8_t *pixels = alpha ? cfx__alloc_try((size_t)i->height * i->width * 4) : (void *)t->data;
    if (!pixels)
        return &cfx__tensor_bad;
    i->format = alpha ? COLOUR | ALPHA : COLOUR;
    i->flags |= SIXTEEN_IS_SRGB;
    const bool fine = f->finish(i, NULL, pixels, 0, NULL) && !(i->warning_or_error & WENT_WRONG);
    if (fine && alpha)
        drop_alpha(pixels, t);
    if (alpha)
        cfx__free(pixels);
    return fine ? t : damaged(what, i);
}

cfx_tensor *cfx__png_read(const char *what, cfx__bytes b) {
    functions f;
    png_image i = {.version = VERSION};
    if (!open_library(&f))
        return &cfx__tensor_bad;
    cfx_tensor *t = f.begin(&i, b.at, b.len) ? read_pixels(what, &f, &i) : damaged(what, &i);
    f.free(&i);
    return t;
}
