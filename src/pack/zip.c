/* Reads zip archives: the end record, the central directory, and the content of entries.
 *
 * This is not a library's reader, because the bytes are mapped and weights are used in place,
 * and because every number in the directory must be checked against the size of the file. All
 * reads go through u16, u32 and u64 at offsets that were checked. */
#include "zip.h"

#include <zlib.h>

enum {
    LOCAL = 30,       /* bytes of a local header, without name and extra field */
    CENTRAL = 46,     /* ... of an entry of the central directory */
    END = 22,         /* ... of the end record, without its comment */
    END64 = 56,
    LOCATOR = 20,
    MAX_COMMENT = 65535
};
enum { ENTRY = 512 }; /* bytes of memory that are enough for an entry, its name aside */

/* Unpacking may give this much, and that many times the size of the archive on top of it. */
static const uint64_t ROOM = 256u << 20, ROOM_TIMES = 64;

typedef struct cfx__zip_blob {
    cfx_obj head;
    char *data;
} blob;

static void blob_free(void *p) { cfx__free(((blob *)p)->data); }

static const cfx__obj_type blob_type = {.name = "unpacked bytes", .free = blob_free};

CFX_PRINTF(2, 3) static bool bad(const cfx__zip *z, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *before = cfx__text_format("%s cannot be read: ", z->what);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    return false;
}

static uint16_t u16(const char *p) {
    const unsigned char *b = (const unsigned char *)p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static uint32_t u32(const char *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const char *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static bool has_mark(const char *p, char a, char b) {
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

const char *cfx__pack_kind(const char *data, size_t size) {
    static const struct {
        const char *start, *kind;
        size_t len;
    } kinds[] = {{"\x93NUMPY", "a .npy file of NumPy's", 6},
                 {"PK\3\4", "a zip archive (.npz, .pt or .pt2)", 4},
                 {"\x80\2", "a pickle that torch.save did not write", 2},
                 {"\x80\3", "a pickle that torch.save did not write", 2},
                 {"\x80\4", "a pickle that torch.save did not write", 2},
                 {"\x80\5", "a pickle that torch.save did not write", 2},
                 {"GGUF", "a .gguf file", 4},
                 {"\x89PNG", "a picture", 4},
                 {"\xff\xd8\xff", "a picture", 3},
                 {"BM", "a BMP picture; those of PNG and JPEG files are read", 2},
                 {"GIF8", "a GIF picture; those of PNG and JPEG files are read", 4},
                 {"RIFF", "a WebP picture or a sound; pictures of PNG and JPEG files are read", 4},
                 {"II*\0", "a TIFF picture; those of PNG and JPEG files are read", 4},
                 {"MM\0*", "a TIFF picture; those of PNG and JPEG files are read", 4},
                 {"\x7f" "ELF", "a program or library of the machine's", 4}};
    if (!size)
        return "an empty file";
    for (int i = 0; i < COUNT(kinds); i++)
        if (size >= kinds[i].len && !memcmp(data, kinds[i].start, kinds[i].len))
            return kinds[i].kind;
    return size > 9 && data[8] == '{' && !data[7] ? "a .safetensors file: tensors, and no program"
                                                  : NULL;
}

bool cfx__zip_is(const char *data, size_t size) {
    return size >= END && (has_mark(data, 3, 4) || has_mark(data, 5, 6));
}

/* ---- the directory --------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t at, size, count;
} directory;

/* The end record lies at the end, behind it at most a comment. -1 when there is none. */
static int64_t find_end(const cfx__zip *z) {
    int64_t last = (int64_t)z->size - END, first = last - MAX_COMMENT;
    for (int64_t at = last; at >= 0 && at >= first; at--)
        if (has_mark(z->data + at, 5, 6) && at + END + u16(z->data + at + 20) == (int64_t)z->size)
            return at;
    return -1;
}

/* The end record for large files, where its locator stands before the plain one. */
static bool read_end64(const cfx__zip *z, uint64_t end, directory *d) {
    if (end < LOCATOR || !has_mark(z->data + end - LOCATOR, 6, 7))
        return true;
    uint64_t at = u64(z->data + end - LOCATOR + 8);
    if (at > end - LOCATOR || end - LOCATOR - at < END64 || !has_mark(z->data + at, 6, 6))
        return bad(z, "its zip64 end record is not where it should be");
    const char *p = z->data + at;
    if (u32(p + 16) || u32(p + 20))
        return bad(z, "it is one part of several");
    *d = (directory){u64(p + 48), u64(p + 40), u64(p + 32)};
    return true;
}

static bool read_end(const cfx__zip *z, directory *d) {
    int64_t end = find_end(z);
    if (end < 0)
        return bad(z, "%s",
                   cfx__zip_is(z->data, z->size)
                       ? "it is cut off (the directory at its end is missing)"
                   : cfx__pack_kind(z->data, z->size)
                       ? cfx__text_format("it is not a zip archive but %s",
                                          cfx__pack_kind(z->data, z->size))
                       : "it is not a zip archive, as .pt2, .pt and .npz files are");
    const char *p = z->data + end;
    if (u16(p + 4) || u16(p + 6))
        return bad(z, "it is one part of several");
    *d = (directory){u32(p + 16), u32(p + 12), u16(p + 10)};
    if (!read_end64(z, (uint64_t)end, d))
        return false;
    if (d->at > (uint64_t)end || d->size > (uint64_t)end - d->at)
        return bad(z, "its directory (%llu bytes at %llu) lies outside of its %zu bytes",
                   (unsigned long long)d->size, (unsigned long long)d->at, z->size);
    if (d->count > d->size / CENTRAL)
        return bad(z, "a directory of %llu bytes cannot hold %llu entries",
                   (unsigned long long)d->size, (unsigned long long)d->count);
    return true;
}

/* Sizes and offsets that do not fit 32 bits stand in extra field 1, in this order. */
static bool read_large(const cfx__zip *z, cfx__zip_entry *e, const char *extra, uint64_t len) {
    uint64_t *wanted[3] = {&e->size, &e->packed, &e->header};
    bool missing = false;
    for (int i = 0; i < 3; i++)
        missing |= *wanted[i] == UINT32_MAX;
    for (uint64_t at = 0; missing && len - at >= 4;) {
        uint64_t n = u16(extra + at + 2);
        if (n > len - at - 4)
            break;
        if (u16(extra + at) == 1) {
            const char *p = extra + at + 4, *end = p + n;
            for (int i = 0; i < 3; i++)
                if (*wanted[i] == UINT32_MAX && end - p >= 8) {
                    *wanted[i] = u64(p);
                    p += 8;
                }
            return true;
        }
        at += 4 + n;
    }
    return !missing || bad(z, "entry '%s' lacks its large sizes", e->name);
}

static bool read_entry(cfx__zip *z, const char **at, const char *end) {
    const char *p = *at;
    if (end - p < CENTRAL || !has_mark(p, 1, 2))
        return bad(z, "entry %zu of its directory is damaged", z->entries.len);
    uint64_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    if ((uint64_t)(end - p) - CENTRAL < name + extra + comment)
        return bad(z, "entry %zu of its directory is cut off", z->entries.len);
    cfx__zip_entry e = {
        .name = cfx__arena_copy(&z->arena, p + CENTRAL, name),
        .header = u32(p + 42), .packed = u32(p + 20), .size = u32(p + 24),
        .crc = u32(p + 16), .method = u16(p + 10)};
    if (strlen(e.name) != name || !name)
        return bad(z, "a name in its directory is empty or has a zero byte in it");
    if (!read_large(z, &e, p + CENTRAL + name, extra))
        return false;
    if (u16(p + 8) & 1)
        return bad(z, "entry '%s' is encrypted", e.name);
    if (e.header > z->directory || z->directory - e.header < LOCAL + name ||
        z->directory - e.header - LOCAL - name < e.packed)
        return bad(z, "entry '%s' (%llu bytes at %llu) lies outside of the archive", e.name,
                   (unsigned long long)e.packed, (unsigned long long)e.header);
    if (e.method == 0 && e.packed != e.size)
        return bad(z, "entry '%s' is stored, but in %llu bytes instead of %llu", e.name,
                   (unsigned long long)e.packed, (unsigned long long)e.size);
    VEC_PUSH(z->entries, e);
    *at = p + CENTRAL + name + extra + comment;
    return true;
}

static int by_header(const void *a, const void *b) {
    const cfx__zip_entry *x = *(cfx__zip_entry *const *)a, *y = *(cfx__zip_entry *const *)b;
    return (x->header > y->header) - (x->header < y->header);
}

/* Sets where entries end at the latest: before the next. */
static bool no_overlap(cfx__zip *z) {
    size_t n = z->entries.len;
    cfx__zip_entry **sorted = cfx__alloc((n + 1) * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &z->entries.data[i];
    qsort(sorted, n, sizeof *sorted, by_header);
    bool apart = true;
    for (size_t i = 0; i < n && apart; i++) {
        cfx__zip_entry *e = sorted[i];
        e->end = i + 1 < n ? sorted[i + 1]->header : z->directory;
        if (e->end - e->header < LOCAL + strlen(e->name) + e->packed)
            apart = bad(z, "entries '%s' and '%s' overlap", e->name, sorted[i + 1]->name);
    }
    cfx__free(sorted);
    return apart;
}

bool cfx__zip_open(cfx__zip *z, const char *what, cfx__pack_bytes bytes) {
    *z = (cfx__zip){.what = what, .data = bytes.data, .size = bytes.size, .owner = bytes.owner};
    directory d = {0};
    if (!read_end(z, &d))
        return false;
    z->directory = d.at;
    z->room = ROOM + ROOM_TIMES * bytes.size;
    if (!cfx__memory_wanted(d.count * ENTRY + d.size))
        return false;
    const char *at = z->data + d.at, *end = at + d.size;
    bool before = cfx_ok();
    for (uint64_t i = 0; i < d.count && cfx_ok() == before; i++)
        if (!read_entry(z, &at, end))
            return false;
    for (size_t i = 0; i < z->entries.len && cfx_ok() == before; i++) {
        cfx__zip_entry *e = &z->entries.data[i];
        if (cfx__map_get(&z->names, e->name))
            return bad(z, "the name '%s' stands twice in its directory", e->name);
        cfx__map_set(&z->names, e->name, e);
    }
    return cfx_ok() == before && no_overlap(z);
}

void cfx__zip_close(cfx__zip *z) {
    for (size_t i = 0; i < z->entries.len; i++)
        cfx_drop(z->entries.data[i].blob);
    VEC_FREE(z->entries);
    cfx__map_release(&z->names);
    cfx__arena_release(&z->arena);
}

cfx__zip_entry *cfx__zip_find(const cfx__zip *z, const char *name) {
    return cfx__map_get(&z->names, name);
}

/* ---- content --------------------------------------------------------------------------------- */

/* Where the payload starts: behind the local header, whose extra field differs from the
 * directory's. NULL, with an error, when it does not fit. */
static char *payload(cfx__zip *z, const cfx__zip_entry *e) {
    char *p = z->data + e->header;
    uint64_t len = strlen(e->name);
    uint64_t skip = LOCAL + (uint64_t)u16(p + 26) + u16(p + 28);
    if (!has_mark(p, 3, 4) || u16(p + 26) != len || memcmp(p + LOCAL, e->name, len)) {
        bad(z, "the header of entry '%s' is damaged", e->name);
        return NULL;
    }
    if (e->end - e->header < skip || e->end - e->header - skip < e->packed) {
        bad(z, "entry '%s' is longer than the archive has room for", e->name);
        return NULL;
    }
    return p + skip;
}

/* Memory grows with what comes out, not with what the directory promises. */
static bool unpack(cfx__zip *z, cfx__zip_entry *e, const char *packed) {
    if (e->size > z->room)
        return bad(z, "entry '%s' would unpack to %llu bytes, far more than the file has", e->name,
                   (unsigned long long)e->size);
    if (e->packed > UINT32_MAX)
        return bad(z, "entry '%s' is packed and larger than 4 GB", e->name);
    z_stream s = {.next_in = (Bytef *)(uintptr_t)packed, .avail_in = (uInt)e->packed};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return bad(z, "there is no memory to unpack entry '%s'", e->name);
    cfx__text out = {0};
    int state = Z_OK;
    while (state == Z_OK && out.len <= e->size) {
        size_t step = out.len < 65536 ? 65536 : out.len;
        step = step < e->size - out.len + 1 ? step : e->size - out.len + 1;
        step = step < 1u << 30 ? step : 1u << 30;
        if (!cfx__text_room(&out, step))
            break;
        s.next_out = (Bytef *)out.data + out.len;
        s.avail_out = (uInt)step;
        state = inflate(&s, Z_NO_FLUSH);
        out.len += step - s.avail_out;
        if (state == Z_OK && s.avail_out)
            break; /* the input is used up */
    }
    inflateEnd(&s);
    if (state != Z_STREAM_END || out.len != e->size) {
        cfx__text_release(&out);
        return bad(z, "what entry '%s' holds cannot be unpacked", e->name);
    }
    z->room -= e->size;
    e->blob = cfx__obj_make(&blob_type, sizeof *e->blob);
    e->blob->data = out.data;
    return true;
}

static uint32_t checksum(uint32_t crc, const char *data, size_t size) {
    for (size_t n; size; data += n, size -= n) {
        n = size < 1u << 30 ? size : 1u << 30;
        crc = (uint32_t)crc32(crc, (const Bytef *)data, (uInt)n);
    }
    return crc;
}

bool cfx__zip_read(cfx__zip *z, cfx__zip_entry *e, bool checked, cfx__pack_bytes *out) {
    *out = (cfx__pack_bytes){0};
    if (e->method != 0 && e->method != 8)
        return bad(z, "entry '%s' is packed by method %d, which is not known", e->name, e->method);
    if (!e->blob) {
        char *p = payload(z, e);
        if (!p || (e->method == 8 && !unpack(z, e, p)))
            return false;
        *out = (cfx__pack_bytes){p, e->size, z->owner};
    }
    if (e->blob)
        *out = (cfx__pack_bytes){e->blob->data, e->size, e->blob};
    if (checked && checksum(0, out->data, out->size) != e->crc)
        return bad(z, "entry '%s' is damaged: its checksum differs", e->name);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { ALIGN = 64 };

static void put16(cfx__text *t, uint64_t v) {
    char b[2] = {(char)v, (char)(v >> 8)};
    cfx__text_add(t, b, 2);
}

static void put32(cfx__text *t, uint64_t v) {
    put16(t, v & 0xffff);
    put16(t, v >> 16 & 0xffff);
}

static void put64(cfx__text *t, uint64_t v) {
    put32(t, v & UINT32_MAX);
    put32(t, v >> 32);
}

static void emit(cfx__zip_writer *w, const void *data, size_t size) {
    w->failed |= size && fwrite(data, 1, size, w->file) != size;
    w->at += size;
}

/* What the local header and the directory have in common, from the version needed on. Sizes of
 * 4 GB and more stand in the zip64 field. */
static void put_common(cfx__text *t, uint32_t crc, uint64_t size, size_t name, size_t extra) {
    uint64_t brief = size >= UINT32_MAX ? UINT32_MAX : size;
    put16(t, size >= UINT32_MAX ? 45 : 20);
    put16(t, 1 << 11); /* names are UTF-8 */
    put16(t, 0);       /* stored */
    put16(t, 0);
    put16(t, 0x21);    /* the first of January 1980, whenever it is: equal programs, equal files */
    put32(t, crc);
    put32(t, brief);
    put32(t, brief);
    put16(t, name);
    put16(t, extra);
}

enum { LARGE = 20 }; /* bytes of the zip64 field */

/* The header of an entry whose payload comes next. `spare`: the filling has room for the zip64
 * field, so that the header is as long whatever the size. */
static void put_local(cfx__zip_writer *w, const char *name, uint32_t crc, uint64_t size,
                      bool spare) {
    size_t len = strlen(name), large = size >= UINT32_MAX ? LARGE : 0;
    size_t least = spare ? LARGE - large : 0;
    uint64_t bare = w->at + LOCAL + len + large + 4 + least; /* 4: the head of the filling field */
    size_t fill = least + (size_t)((ALIGN - bare % ALIGN) % ALIGN);
    cfx__text t = {0};
    cfx__text_add(&t, "PK\3\4", 4);
    put_common(&t, crc, size, len, large + 4 + fill);
    cfx__text_add(&t, name, len);
    if (large) {
        put16(&t, 1);
        put16(&t, 16);
        put64(&t, size);
        put64(&t, size);
    }
    cfx__text_add(&t, "FB", 2);
    put16(&t, fill);
    for (size_t i = 0; i < fill; i++)
        cfx__text_putc(&t, 'Z');
    emit(w, t.data, t.len);
    cfx__text_release(&t);
}

static void put_central(cfx__text *d, const char *name, uint32_t crc, uint64_t size,
                        uint64_t header) {
    size_t len = strlen(name);
    bool far = header >= UINT32_MAX, big = size >= UINT32_MAX;
    size_t extra = far || big ? 4 + (big ? 16u : 0) + (far ? 8u : 0) : 0;
    cfx__text_add(d, "PK\1\2", 4);
    put16(d, 45);
    put_common(d, crc, size, len, extra);
    put16(d, 0); /* comment, disk, attributes */
    put16(d, 0);
    put16(d, 0);
    put32(d, 0);
    put32(d, far ? UINT32_MAX : header);
    cfx__text_add(d, name, len);
    if (extra) {
        put16(d, 1);
        put16(d, extra - 4);
        if (big) {
            put64(d, size);
            put64(d, size);
        }
        if (far)
            put64(d, header);
    }
}

void cfx__zip_add(cfx__zip_writer *w, const char *name, const void *data, size_t size) {
    uint32_t crc = checksum(0, data, size);
    uint64_t header = w->at;
    put_local(w, name, crc, size, false);
    emit(w, data, size);
    put_central(&w->directory, name, crc, size, header);
    w->count++;
}

void cfx__zip_begin(cfx__zip_writer *w, const char *name) {
    w->open.name = name;
    w->open.header = w->at;
    w->open.size = w->open.crc = 0;
    if (w->seekable)
        put_local(w, name, 0, 0, true);
}

void cfx__zip_piece(cfx__zip_writer *w, const void *data, size_t size) {
    if (!w->seekable) {
        cfx__text_add(&w->open.text, data, size);
        return;
    }
    w->open.crc = checksum(w->open.crc, data, size);
    w->open.size += size;
    emit(w, data, size);
}

/* Goes on writing at another place of the file. */
static void seek(cfx__zip_writer *w, uint64_t at) {
    w->failed |= fseeko(w->file, (off_t)at, SEEK_SET) != 0;
    w->at = at;
}

void cfx__zip_end(cfx__zip_writer *w) {
    if (w->seekable) {
        const uint64_t end = w->at;
        seek(w, w->open.header);
        put_local(w, w->open.name, w->open.crc, w->open.size, true);
        seek(w, end);
        put_central(&w->directory, w->open.name, w->open.crc, w->open.size, w->open.header);
        w->count++;
    } else {
        cfx__zip_add(w, w->open.name, w->open.text.data, w->open.text.len);
        cfx__text_release(&w->open.text);
    }
    w->open.name = NULL;
}

bool cfx__zip_finish(cfx__zip_writer *w) {
    uint64_t at = w->at, size = w->directory.len;
    emit(w, w->directory.data, w->directory.len);
    uint64_t end64 = w->at;
    cfx__text t = {0};
    cfx__text_add(&t, "PK\6\6", 4);
    put64(&t, END64 - 12);
    put16(&t, 45);
    put16(&t, 45);
    put32(&t, 0);
    put32(&t, 0);
    put64(&t, w->count);
    put64(&t, w->count);
    put64(&t, size);
    put64(&t, at);
    cfx__text_add(&t, "PK\6\7", 4);
    put32(&t, 0);
    put64(&t, end64);
    put32(&t, 1);
    cfx__text_add(&t, "PK\5\6", 4);
    put32(&t, 0);
    put16(&t, w->count < 0xffff ? w->count : 0xffff);
    put16(&t, w->count < 0xffff ? w->count : 0xffff);
    put32(&t, size < UINT32_MAX ? size : UINT32_MAX);
    put32(&t, at < UINT32_MAX ? at : UINT32_MAX);
    put16(&t, 0);
    emit(w, t.data, t.len);
    cfx__text_release(&t);
    cfx__zip_release(w);
    return !w->failed;
}

void cfx__zip_release(cfx__zip_writer *w) {
    cfx__text_release(&w->directory);
    cfx__text_release(&w->open.text);
    w->directory = w->open.text = (cfx__text){0};
}
