/* feed: what people have becomes tensors: pictures, texts.
 *
 * Invariant: nothing out of a file is trusted: sizes are checked before memory is asked for, and
 * what cannot be read ends in a sentence that names the file. Libraries that others may lack are
 * opened when they are first needed (library.c), and nothing is linked to them. */
#ifndef CFX__FEED_H
#define CFX__FEED_H

#include <cfx/image.h>
#include <cfx/tokenizer.h>

#include "../tensor/tensor.h"

/* ---- libraries that are opened --------------------------------------------------------------- */

typedef struct cfx__library {
    const char *const *files; /* names that it has, the newest first; NULL at the end */
    const char *package;      /* Debian's */
    const char *what;         /* what it is needed for: "PNG files" */
} cfx__library;

/* Puts functions of a library, n names, where they are told. False, with an error, where it is not
 * there or has others. */
bool cfx__library_open(const cfx__library *l, int n, const char *const *names, void (**to)(void));
/* Whether the loader would find one of these files, up to NULL. None is opened: large libraries
 * take long, and some start threads. */
bool cfx__library_is_found(const char *const *files);

/* ---- pictures -------------------------------------------------------------------------------- */

typedef struct cfx__bytes {
    const uint8_t *at;
    size_t len;
} cfx__bytes;

bool cfx__png_is(cfx__bytes b);
bool cfx__jpeg_is(cfx__bytes b);
/* uint8[height, width, 3]; scope. Bad with an error that calls the file `what`. */
cfx_tensor *cfx__png_read(const char *what, cfx__bytes b);
cfx_tensor *cfx__jpeg_read(const char *what, cfx__bytes b);
/* Which way up it is to be shown, 1 to 8 as Exif counts; 1: as it is. And of a file. */
int cfx__jpeg_orientation(cfx__bytes b);
int cfx__image_orientation(const char *path);
/* A tensor for a picture; bad, with an error, where it has no size. */
cfx_tensor *cfx__image_new(const char *what, int64_t height, int64_t width);
/* Brings a picture to another size, bilinear with antialias, as PIL does, bit for bit; scope. */
cfx_tensor *cfx__image_resize(const cfx_tensor *image, int64_t height, int64_t width);

#endif
