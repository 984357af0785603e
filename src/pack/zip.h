/* Zip archives over bytes in memory: what .pt2 and torch.save files are.
 *
 * Invariant: the payload of every entry lies inside the archive, no two entries share a byte, and
 * no name stands twice. Sizes come from the central directory alone; a local header is read only
 * to find where its payload starts. What is stored is used where it lies. */
#ifndef CFX__ZIP_H
#define CFX__ZIP_H

#include "../tensor/tensor.h"

typedef struct cfx__zip_entry {
    const char *name;
    uint64_t header, end;  /* of the local header in the archive; of the next, or the directory */
    uint64_t packed, size; /* bytes in the archive, and of the content */
    uint32_t crc;
    uint16_t method;       /* 0 stored, 8 deflated */
    struct cfx__zip_blob *blob; /* the content, where it had to be unpacked; counted */
} cfx__zip_entry;

typedef struct cfx__zip {
    const char *what;      /* how errors call the archive; borrowed */
    char *data;
    size_t size;
    void *owner;           /* the counted object that the bytes belong to; borrowed */
    uint64_t directory;    /* where the central directory starts: payloads end before it */
    uint64_t room;         /* how many bytes may still be unpacked from it */
    VEC(cfx__zip_entry) entries; /* in the order of the directory */
    cfx__map names;
    cfx__arena arena;
} cfx__zip;

/* Bytes, and the counted object that they live in: whoever keeps that may use them. Borrowed. */
typedef struct cfx__pack_bytes {
    char *data;
    size_t size;
    void *owner;
} cfx__pack_bytes;

/* Whether bytes start as a zip archive does. */
bool cfx__zip_is(const char *data, size_t size);
/* What a file is by how it begins, for errors: "a .npy file of NumPy's"; NULL: nobody knows. */
const char *cfx__pack_kind(const char *data, size_t size);
/* Reads the directory. False, with a FileError that names `what`, when it is none or not sound.
 * The caller closes it either way. */
bool cfx__zip_open(cfx__zip *z, const char *what, cfx__pack_bytes bytes);
void cfx__zip_close(cfx__zip *z);
/* The entry called so; NULL when there is none. */
cfx__zip_entry *cfx__zip_find(const cfx__zip *z, const char *name);
/* The content of an entry: in place where it is stored, else unpacked once. `checked` compares it
 * with its checksum. False, with a FileError, when it cannot be had. */
bool cfx__zip_read(cfx__zip *z, cfx__zip_entry *e, bool checked, cfx__pack_bytes *out);

/* ---- writing --------------------------------------------------------------------------------- */

/* An archive being written: entries are stored, each payload at a multiple of 64. Zero but for the
 * file, which may be a pipe, and whether one may go back in it. */
typedef struct cfx__zip_writer {
    FILE *file;
    bool seekable;       /* the archive starts the file, and what was written can be replaced */
    uint64_t at;         /* bytes written */
    cfx__text directory; /* the central directory so far */
    uint64_t count;
    bool failed;
    struct {
        const char *name; /* NULL: none */
        uint64_t header, size;
        uint32_t crc;
        cfx__text text;   /* the content so far, where one may not go back */
    } open; /* the entry that is written in pieces */
} cfx__zip_writer;

void cfx__zip_add(cfx__zip_writer *w, const char *name, const void *data, size_t size);
/* The same for content that comes in pieces, which are kept in memory only where the file is not
 * seekable; the name has to live until the end. */
void cfx__zip_begin(cfx__zip_writer *w, const char *name);
void cfx__zip_piece(cfx__zip_writer *w, const void *data, size_t size);
void cfx__zip_end(cfx__zip_writer *w);
/* Writes the directory and releases the writer. False when something could not be written. */
bool cfx__zip_finish(cfx__zip_writer *w);
/* Lets go of what a writer holds that is not finished. */
void cfx__zip_release(cfx__zip_writer *w);

#endif
