/* JPEG files, by libjpeg-turbo's TurboJPEG interface: it keeps its errors to itself. */
#include "feed.h"

/* As turbojpeg.h has them. */
enum { RGB = 0, CMYK = 11, SPACE_CMYK = 3, SPACE_YCCK = 4, LIMIT_SCANS = 32768 };

typedef struct functions {
    void *(*init)(void);
    int (*header)(void *handle, const unsigned char *data, unsigned long size, int *width,
                  int *height, int *subsampling, int *space);
    int (*decompress)(void *handle, const unsigned char *data, unsigned long size,
                      unsigned char *to, int width, int pitch, int height, int format, int flags);
    char *(*error)(void *handle);
    int (*destroy)(void *handle);
} functions;

static bool open_library(functions *f) {
    static const char *const files[] = {"libturbojpeg.so.0", "libturbojpeg.so", NULL};
    static const cfx__library jpeg = {files, "libturbojpeg0", "JPEG files"};
    static const char *const names[] = {"tjInitDecompress", "tjDecompressHeader3", "tjDecompress2",
                                        "tjGetErrorStr2", "tjDestroy"};
    void (*found[COUNT(names)])(void);
    if (!cfx__library_open(&jpeg, COUNT(names), names, found))
        return false;
    memcpy(&f->init, &found[0], sizeof found[0]);
    memcpy(&f->header, &found[1], sizeof found[1]);
    memcpy(&f->decompress, &found[2], sizeof found[2]);
    memcpy(&f->error, &found[3], sizeof found[3]);
    memcpy(&f->destroy, &found[4], sizeof found[4]);
    return true;
}

bool cfx__jpeg_is(cfx__bytes b) { return b.len >= 3 && !memcmp(b.at, "\xff\xd8\xff", 3); }

/* Ink to light, the inks being written inverted, as Adobe does and PIL takes all of them. */
static void from_inks(const uint8_t *from, cfx_tensor *to) {
    uint8_t *p = (uint8_t *)to->data;
    for (int64_t i = 0; i < to->shape[0] * to->shape[1]; i++, p += 3, from += 4)
        for (int k = 0; k < 3; k++) {
            const int black = from[3];               /* what the black ink leaves */
            int part = (255 - from[k]) * black + 128; /* what the ink takes of it */
            part = (part + (part >> 8)) >> 8;
            p[k] = (uint8_t)(black > part ? black - part : 0);
        }
}

static cfx_tensor *read_pixels(const char *what, const functions *f, void *handle, cfx__bytes b) {
    int width = 0, height = 0, subsampling, space = 0;
    if (f->header(handle, b.at, b.len, &width, &height, &subsampling, &space)) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is not a JPEG file that can be read: %s",
                 what, f->error(handle));
        return &cfx__tensor_bad;
    }
    const bool inks = space == SPACE_CMYK || space == SPACE_YCCK;
    cfx_tensor *t = cfx__image_new(what, height, width);
    if (cfx_failed(t))
        return t;
    uint8_t *pixels = inks ? cfx__alloc_try((size_t)height * (size_t)width * 4) : (void *)t->data;
    if (!pixels)
        return &cfx__tensor_bad;
    const bool fine = !f->decompress(handle, b.at, b.len, pixels, width, 0, height,
                                     inks ? CMYK : RGB, LIMIT_SCANS);
    if (fine && inks)
        from_inks(pixels, t);
    if (inks)
        cfx__free(pixels);
    if (!fine)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is a damaged JPEG file: %s", what,
                 f->error(handle));
    return fine ? t : &cfx__tensor_bad;
}

cfx_tensor *cfx__jpeg_read(const char *what, cfx__bytes b) {
    functions f;
    if (!open_library(&f))
        return &cfx__tensor_bad;
    void *handle = f.init();
    if (!handle) {
        cfx_fail(CFX_MEMORY_ERROR, (cfx_site){0}, "no memory to read '%s'", what);
        return &cfx__tensor_bad;
    }
    cfx_tensor *t = read_pixels(what, &f, handle, b);
    f.destroy(handle);
    return t;
}
