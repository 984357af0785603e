/* model.json by structure: a good program whose JSON is changed item by item, in an archive that is
 * put together again. The first byte picks the program; then come edits: which item, what becomes
 * of it. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "pack/pt2.h"

#include <sys/mman.h>
#include <unistd.h>

static const char *const programs[] = {"seed_mlp", "cond",            "while_loop", "dyn_conv",
                                       "pytree_io", "mutating_buffer", "index_zoo",  "gru"};

enum { EDITS = 12 };

typedef enum edit_kind { EVIL, NONE, OTHER, OTHER_TEXT, GONE, TWICE, INTS, FLAG, KINDS } edit_kind;

typedef struct changer {
    const cfx__json *first, *end;
    struct {
        const cfx__json *item, *other;
        edit_kind kind;
        int64_t number;
    } edit[EDITS];
    int len;
} changer;

static void put(cfx__text *out, const changer *c, const cfx__json *j);

static void put_plain(cfx__text *out, const changer *c, const cfx__json *j) {
    bool some = false;
    switch ((cfx__json_kind)j->kind) {
    case CFX__JSON_ARRAY:
        cfx__text_putc(out, '[');
        cfx__json_each(j, v) {
            size_t before = out->len;
            if (some)
                cfx__text_putc(out, ',');
            size_t start = out->len;
            put(out, c, v);
            if (out->len == start)
                out->len = before;
            some |= out->len != before;
        }
        cfx__text_putc(out, ']');
        break;
    case CFX__JSON_OBJECT:
        cfx__text_putc(out, '{');
        cfx__json_pairs(j, k, v) {
            if (some)
                cfx__text_putc(out, ',');
            cfx__json_string(out, k->text, k->len);
            cfx__text_putc(out, ':');
            size_t start = out->len;
            put(out, c, v);
            if (out->len == start)
                cfx__text_puts(out, "{}");
            some = true;
        }
        cfx__text_putc(out, '}');
        break;
    default: cfx__json_write(out, j);
    }
}

static void put(cfx__text *out, const changer *c, const cfx__json *j) {
    static const changer none;
    for (int i = 0; i < c->len; i++) {
        if (c->edit[i].item != j)
            continue;
        const cfx__json *other = c->edit[i].other;
        switch (c->edit[i].kind) {
        case EVIL: cfx__text_printf(out, "%lld", (long long)c->edit[i].number); return;
        case NONE: cfx__text_puts(out, "null"); return;
        case OTHER: put_plain(out, &none, other); return;
        case OTHER_TEXT:
            if (other->kind == CFX__JSON_TEXT)
                cfx__json_string(out, other->text, other->len);
            else
                cfx__text_puts(out, "\"\"");
            return;
        case GONE: return;
        case TWICE:
            put_plain(out, c, j);
            cfx__text_putc(out, ',');
            put_plain(out, c, j);
            return;
        case INTS:
            cfx__text_printf(out, "[%lld,2,{\"as_int\":%lld}]", (long long)c->edit[i].number,
                             (long long)c->edit[i].number);
            return;
        default: cfx__text_puts(out, c->edit[i].number & 1 ? "true" : "false"); return;
        }
    }
    put_plain(out, c, j);
}

static void change(cfx__text *out, const cfx__json_tree *tree, fuzz_bytes *b) {
    uint32_t n = (uint32_t)tree->items.len;
    changer c = {tree->items.data, tree->items.data + n, .len = 0};
    while (b->at < b->end && c.len < EDITS) {
        c.edit[c.len].item = c.first + fuzz_below(b, n);
        c.edit[c.len].other = c.first + fuzz_below(b, n);
        c.edit[c.len].kind = (edit_kind)fuzz_below(b, KINDS);
        c.edit[c.len++].number = fuzz_int(b);
    }
    put(out, &c, c.first);
}

/* The archive again, with another model.json. */
static bool repack(FILE *to, const char *path, fuzz_bytes *b) {
    cfx__file_mapping *map = cfx__file_map(path);
    if (!map)
        return false;
    cfx__zip z;
    cfx__zip_writer w = {.file = to};
    bool ok = cfx__zip_open(&z, path, (cfx__pack_bytes){map->data, map->size, map});
    for (size_t i = 0; ok && i < z.entries.len; i++) {
        cfx__pack_bytes bytes;
        cfx__zip_entry *e = &z.entries.data[i];
        ok = cfx__zip_read(&z, e, false, &bytes);
        cfx__json_tree tree = {0};
        cfx__text out = {0};
        const char *model = ok ? strstr(e->name, "models/model.json") : NULL;
        if (model && cfx__json_read(&tree, bytes.data, bytes.size, path))
            change(&out, &tree, b);
        if (ok)
            cfx__zip_add(&w, e->name, model ? out.data : bytes.data, model ? out.len : bytes.size);
        cfx__json_release(&tree);
        cfx__text_release(&out);
    }
    cfx__zip_close(&z);
    cfx_drop(map);
    return cfx__zip_finish(&w) && ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!to)
        return 0;
    fuzz_begin();
    snprintf(path, sizeof path, "tests/data/zoo/%s/model.pt2", programs[fuzz_below(&b, 8)]);
    if (repack(to, path, &b) && fflush(to) == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fuzz_use(cfx_open(path));
    }
    fuzz_end();
    fclose(to);
    return 0;
}
