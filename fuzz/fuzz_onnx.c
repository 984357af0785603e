/* .onnx files: bytes as they lie in one, or a good file whose messages are changed field by field,
 * with the lengths around them right again. The first byte says which. Of the second kind are then:
 * which file, and edits: at what depth a field stands, which of those it is, what becomes of it. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "onnx/onnx.h"

#include <sys/mman.h>
#include <unistd.h>

static const char *const files[] = {
    "tests/data/onnx/conv/model.onnx",    "tests/data/onnx/dynamic/model.onnx",
    "tests/data/onnx/control/model.onnx", "tests/data/onnx/function/model.onnx",
    "tests/data/onnx/qdq/model.onnx",     "tests/data/onnx/sequence/model.onnx",
    "tests/data/onnx/rnn/model.onnx"};

enum { EDITS = 8, DEPTH = 10 };

typedef enum edit_kind {
    NUMBER, OTHER, GONE, TWICE, OPERATOR, RENUMBERED, SHORTER, KINDS
} edit_kind;

typedef struct edit {
    uint32_t depth, at; /* the at-th field of that depth */
    edit_kind kind;
    int64_t number;
} edit;

typedef struct changer {
    edit edits[EDITS];
    int len;
    uint32_t seen[DEPTH + 1]; /* fields so far */
    cfx__slice other;         /* the last message that was passed */
} changer;

/* Whether bytes read as a message to their end; texts seldom do. */
static bool is_message(cfx__slice s) {
    cfx__wire w = cfx__wire_of(s);
    cfx__wire_field f;
    while (cfx__wire_next(&w, &f))
        continue;
    return s.len > 1 && !w.broken;
}

static void put_field(cfx__text *to, const cfx__wire_field *f, uint32_t number, cfx__slice bytes) {
    if (f->type == CFX__WIRE_BYTES)
        cfx__wire_put_bytes(to, number, bytes.len ? bytes.at : "", bytes.len);
    else if (f->type == CFX__WIRE_VARINT)
        cfx__wire_put_int(to, number, (int64_t)f->value);
    else if (f->type == CFX__WIRE_32)
        cfx__wire_put_float(to, number, (float)(int64_t)f->value);
}

static void put_changed(cfx__text *to, changer *c, const cfx__wire_field *f, cfx__slice bytes,
                        const edit *e) {
    const char *op = cfx_op_name(fuzz_op((uint64_t)e->number));
    switch (e->kind) {
    case NUMBER: cfx__wire_put_int(to, f->number, e->number); return;
    case OTHER: cfx__wire_put_bytes(to, f->number, c->other.len ? c->other.at : "", c->other.len);
        return;
    case GONE: return;
    case TWICE:
        put_field(to, f, f->number, bytes);
        put_field(to, f, f->number, bytes);
        return;
    case OPERATOR: {
        const char *name = !strncmp(op, "onnx.", 5) ? op + 5 : "Identity", *dot = strchr(name, '.');
        cfx__wire_put_bytes(to, f->number, name, dot ? (size_t)(dot - name) : strlen(name));
        return;
    }
    case RENUMBERED: put_field(to, f, 1 + (uint32_t)((uint64_t)e->number % 16), bytes); return;
    default: put_field(to, f, f->number, (cfx__slice){bytes.at, bytes.len / 2});
    }
}

/* The fields of a message, those changed that an edit names. */
static void change(cfx__text *to, changer *c, cfx__slice message, uint32_t depth) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    while (cfx__wire_next(&w, &f)) {
        cfx__text inside = {0};
        cfx__slice bytes = f.bytes;
        uint32_t at = c->seen[depth]++;
        bool nested = f.type == CFX__WIRE_BYTES && depth < DEPTH && is_message(f.bytes);
        if (nested) {
            change(&inside, c, f.bytes, depth + 1);
            bytes = (cfx__slice){inside.data, inside.len};
        }
        const edit *e = NULL;
        for (int i = 0; i < c->len; i++)
            if (c->edits[i].depth == depth && c->edits[i].at == at)
                e = &c->edits[i];
        if (e)
            put_changed(to, c, &f, bytes, e);
        else
            put_field(to, &f, f.number, bytes);
        if (nested)
            c->other = f.bytes;
        cfx__text_release(&inside);
    }
}

static void put_file(cfx__text *to, fuzz_bytes *b) {
    changer c = {.len = 0};
    const char *file = files[fuzz_below(b, sizeof files / sizeof *files)];
    cfx__file_mapping *map = cfx__file_map(fuzz_file(file));
    while (b->at < b->end && c.len < EDITS) {
        edit *e = &c.edits[c.len++];
        e->depth = 1 + fuzz_below(b, 4);
        e->at = fuzz_below(b, 64);
        e->kind = (edit_kind)fuzz_below(b, KINDS);
        e->number = fuzz_int(b);
    }
    if (map)
        change(to, &c, (cfx__slice){map->data, map->size}, 0);
    cfx_drop(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    char path[64];
    cfx__text text = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    fuzz_begin();
    if (fuzz_below(&b, 2))
        cfx__text_add(&text, (const char *)b.at, (size_t)(b.end - b.at));
    else
        put_file(&text, &b);
    if (write(fd, text.data ? text.data : "", text.len) == (ssize_t)text.len) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fuzz_use(cfx__onnx_open(path));
    }
    cfx__text_release(&text);
    fuzz_end();
    close(fd);
    return 0;
}
