/* NumPy's .npy files.
 *
 * A file is the magic, a version, the length of a header, the header (a Python dict of descr,
 * fortran_order and shape, padded so that data starts at a multiple of 64) and the raw elements. */
#include "npy.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold little-endian numbers");

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, ALIGN = 64, GROWTH = 21 };

/* descr without its byte order; numpy has no bfloat16, no float8, no complex32 */
static const char *const descrs[CFX_DTYPE_END] = {
    [CFX_U8] = "u1",  [CFX_I8] = "i1",  [CFX_I16] = "i2",  [CFX_I32] = "i4",
    [CFX_I64] = "i8", [CFX_F16] = "f2", [CFX_F32] = "f4",  [CFX_F64] = "f8",
    [CFX_C64] = "c8", [CFX_C128] = "c16", [CFX_BOOL] = "b1",
    [CFX_U16] = "u2", [CFX_U32] = "u4", [CFX_U64] = "u8",
};

/* ---- the header ------------------------------------------------------------------------------ */

/* A cursor over the header. Once `wrong` is set nothing moves any more. */
typedef struct reader {
    const char *path, *p, *end;
    bool wrong;
    cfx_dtype dtype;
    bool fortran, big_endian;
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
} reader;

static void bad(reader *r, const char *why) {
    if (!r->wrong)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is not a .npy file that can be read: %s",
                 r->path, why);
    r->wrong = true;
}

static void blanks(reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
        r->p++;
}

static bool take(reader *r, char c) {
    blanks(r);
    if (r->wrong || r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static void want(reader *r, char c) {
    if (!take(r, c))
        bad(r, cfx__text_format("its header lacks a '%c'", c));
}

/* A quoted word without escapes. */
static void word(reader *r, char *buf, size_t size) {
    blanks(r);
    size_t n = 0;
    buf[0] = 0;
    if (r->wrong || r->p == r->end || (*r->p != '\'' && *r->p != '"')) {
        bad(r, "its header lacks a quoted word (structured dtypes are not supported)");
        return;
    }
    char quote = *r->p++;
    while (r->p < r->end && *r->p != quote && n + 1 < size)
        buf[n++] = *r->p++;
    buf[n] = 0;
    want(r, quote);
}

static void read_descr(reader *r) {
    char text[32];
    word(r, text, sizeof text);
    if (r->wrong)
        return;
    const char *name = strchr("<>|=", text[0]) && text[0] ? text + 1 : text;
    for (int d = 0; d < CFX_DTYPE_COUNT; d++) {
        if (!descrs[d] || strcmp(descrs[d], name))
            continue;
        r->big_endian = text[0] == '>';
        r->dtype = (cfx_dtype)d;
        return;
    }
    bad(r, cfx__text_format("there is no dtype for '%s'", text));
}

static void read_bool(reader *r) {
    blanks(r);
    size_t left = (size_t)(r->end - r->p);
    if (left >= 4 && !memcmp(r->p, "True", 4))
        r->fortran = true, r->p += 4;
    else if (left >= 5 && !memcmp(r->p, "False", 5))
        r->p += 5;
    else
        bad(r, "fortran_order is neither True nor False");
}

static void read_shape(reader *r) {
    want(r, '(');
    while (!r->wrong && !take(r, ')')) {
        if (r->ndim)
            want(r, ',');
        if (take(r, ')'))
            break;
        if (r->ndim == CFX_MAX_DIMS) {
            bad(r, "it has more than 64 dimensions");
            break;
        }
        blanks(r);
        int64_t n = 0;
        const char *first = r->p;
        for (; r->p < r->end && *r->p >= '0' && *r->p <= '9' && !r->wrong; r->p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->p - '0', &n))
                bad(r, "its shape is absurd");
        if (r->p == first)
            bad(r, "its shape is no tuple of sizes");
        r->shape[r->ndim++] = n;
        if (r->p < r->end && *r->p == 'L')
            r->p++; /* as Python 2 wrote them */
    }
}

static void read_header(reader *r) {
    unsigned seen = 0;
    want(r, '{');
    while (!r->wrong && !take(r, '}')) {
        char key[32];
        word(r, key, sizeof key);
        want(r, ':');
        unsigned which = !strcmp(key, "descr")           ? 1
                         : !strcmp(key, "fortran_order") ? 2
                         : !strcmp(key, "shape")         ? 4
                                                         : 0;
        if (!which || (seen & which))
            bad(r, cfx__text_format("its header has the key '%s'%s", key, which ? " twice" : ""));
        seen |= which;
        if (!r->wrong)
            (which == 1 ? read_descr : which == 2 ? read_bool : read_shape)(r);
        if (!take(r, ',') && !r->wrong && (r->p == r->end || *r->p != '}'))
            bad(r, "its header is cut off");
    }
    if (!r->wrong && seen != 7)
        bad(r, "its header lacks one of descr, fortran_order and shape");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Finds the header and leaves r at its start; returns where the data begins. */
static size_t find_header(reader *r, const char *data, size_t size) {
    const unsigned char *b = (const unsigned char *)data;
    if (size < 10 || memcmp(b, magic, MAGIC)) {
        bad(r, size < 10 ? "it is too short" : "it does not begin with the magic of .npy");
        return 0;
    }
    int major = b[6];
    if (major < 1 || major > 3) {
        bad(r, cfx__text_format("its version is %d.%d; 1.0 to 3.0 are known", major, b[7]));
        return 0;
    }
    size_t start = major == 1 ? 10 : 12;
    size_t len = b[8] | (size_t)b[9] << 8;
    if (major > 1)
        len = size < start ? size : len | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (size < start || len > size - start) {
        bad(r, "its header is cut off");
        return 0;
    }
    r->p = data + start;
    r->end = r->p + len;
    return start + len;
}

/* Big-endian numbers of some bytes each to little-endian ones. */
static void turn(char *data, size_t bytes, size_t each) {
    for (size_t at = 0; at < bytes; at += each)
        for (size_t i = 0; i < each / 2; i++) {
            char c = data[at + i];
            data[at + i] = data[at + each - 1 - i];
            data[at + each - 1 - i] = c;
        }
}

static cfx_tensor *load(reader *r, const char *data, size_t size) {
    size_t start = find_header(r, data, size);
    if (!r->wrong)
        read_header(r);
    if (r->wrong)
        return &cfx__tensor_bad;
    int64_t n = 1, bytes, each = cfx_dtype_size(r->dtype);
    bool empty = false, absurd = false;
    for (int i = 0; i < r->ndim; i++) {
        empty |= r->shape[i] == 0;
        absurd |= __builtin_mul_overflow(n, r->shape[i] ? r->shape[i] : 1, &n);
    }
    if (absurd || __builtin_mul_overflow(n, each, &bytes)) {
        bad(r, "its shape is absurd");
        return &cfx__tensor_bad;
    }
    bytes = empty ? 0 : bytes;
    if ((uint64_t)bytes > size - start) {
        bad(r, cfx__text_format("its data is cut off: %lld bytes are needed, %lld are there",
                                (long long)bytes, (long long)(size - start)));
        return &cfx__tensor_bad;
    }
    int64_t stride[CFX_MAX_DIMS], step = 1;
    for (int i = 0; i < r->ndim; i++) {
        stride[i] = step;
        step *= r->shape[i] ? r->shape[i] : 1;
    }
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, r->dtype, false, r->ndim, r->shape,
                                      r->fortran ? stride : NULL);
    if (cfx__obj_is_bad(t) || !bytes)
        return t;
    memcpy(t->data, data + start, (size_t)bytes);
    if (r->big_endian)
        turn(t->data, (size_t)bytes, (size_t)each / (cfx__dtype_is_complex(r->dtype) ? 2 : 1));
    if (r->dtype == CFX_BOOL) /* any byte but 0 counts as true, and is stored as 1 */
        for (int64_t i = 0; i < n; i++)
            t->data[i] = t->data[i] != 0;
    return t;
}

bool cfx__npy_is(const char *data, size_t size) {
    return size >= MAGIC && !memcmp(data, magic, MAGIC);
}

cfx_tensor *cfx__npy_load(const char *what, const char *data, size_t size) {
    size_t mark = cfx_scope_open();
    reader r = {.path = what};
    return cfx_scope_return(mark, load(&r, data, size));
}

cfx_tensor *cfx_npy_read(const char *path) {
    cfx__file_mapping *m = cfx__file_map(path);
    cfx_tensor *t = m ? cfx__npy_load(path, m->data, m->size) : &cfx__tensor_bad;
    cfx_drop(m);
    return t;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The header with numpy's own padding, so that numpy writes the same bytes. */
static void put_header(cfx__text *out, const cfx_tensor *t) {
    cfx__text dict = {0};
    int order = cfx_dtype_size(t->dtype) == 1 ? '|' : '<';
    cfx__text_printf(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order,
                     descrs[t->dtype]);
    for (int i = 0; i < t->ndim; i++)
        cfx__text_printf(&dict, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    cfx__text_puts(&dict, t->ndim == 1 ? ",), }" : "), }");
    if (t->ndim) { /* room for the first size to grow in place */
        int digits = snprintf(NULL, 0, "%lld", (long long)t->shape[0]);
        for (int i = digits; i < GROWTH; i++)
            cfx__text_putc(&dict, ' ');
    }
    size_t front = MAGIC + 4; /* version 1.0: sizes of 64 dimensions fit its 65,535 bytes */
    size_t spaces = ALIGN - (front + dict.len + 1) % ALIGN;
    for (size_t i = 0; i < spaces; i++)
        cfx__text_putc(&dict, ' ');
    cfx__text_putc(&dict, '\n');
    cfx__text_add(out, magic, MAGIC);
    char rest[4] = {1, 0, (char)(dict.len & 255), (char)(dict.len >> 8)};
    cfx__text_add(out, rest, 4);
    cfx__text_add(out, dict.data, dict.len);
    cfx__text_release(&dict);
}

bool cfx_npy_write(const char *path, const cfx_tensor *t) {
    if (!t || cfx__obj_is_bad(t)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no tensor to write to '%s'",
                 path ? path : "(null)");
        return false;
    }
    if (!descrs[t->dtype]) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "'%s': numpy has no %s; convert the tensor to float32 first",
                 path ? path : "(null)", cfx_dtype_name(t->dtype));
        return false;
    }
    if (!t->data && t->numel) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s': a tensor without data cannot be written",
                 path ? path : "(null)");
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_tensor *c = cfx__tensor_contiguous(t);
    cfx__file_save s;
    bool ok = !cfx__obj_is_bad(c) && cfx__file_save_open(&s, path);
    if (ok) {
        cfx__text head = {0};
        put_header(&head, c);
        size_t size = (size_t)cfx_dtype_size(c->dtype), n = (size_t)c->numel;
        fwrite(head.data, 1, head.len, s.file);
        if (n)
            fwrite(c->data, size, n, s.file);
        cfx__text_release(&head);
        ok = cfx__file_save_close(&s, true);
    }
    cfx_scope_close(mark);
    return ok;
}
