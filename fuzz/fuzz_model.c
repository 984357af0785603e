/* model.json by structure: a good program whose JSON is changed item by item, in an archive that is
 * put together again. The first byte picks the program; then come numbers that are written into its
 * tensors, then edits: under which key an item stands, which of those it is, what becomes of it. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "pack/pt2.h"

#include <sys/mman.h>
#include <unistd.h>

static const char *const programs[] = {
    "tests/data/zoo/seed_mlp/model.pt2", "tests/data/zoo/cond/model.pt2",
    "tests/data/zoo/while_loop/model.pt2", "tests/data/zoo/dyn_conv/model.pt2",
    "tests/data/zoo/pytree_io/model.pt2", "tests/data/zoo/mutating_buffer/model.pt2",
    "tests/data/zoo/index_zoo/model.pt2", "fuzz/seeds/quant_static.pt2",
    "fuzz/seeds/quant_conv.pt2", "fuzz/seeds/quant_dynamic.pt2", "fuzz/seeds/quant_int4.pt2",
    "fuzz/seeds/scan_tree.pt2", "fuzz/seeds/map_tree.pt2", "fuzz/seeds/associative_scan.pt2",
    "fuzz/seeds/while_with_cond.pt2", "fuzz/seeds/autocast_nested.pt2"};

enum { EDITS = 12, NUMBERS = 3 };

typedef enum edit_kind {
    EVIL, NONE, OTHER, OTHER_TEXT, GONE, TWICE, INTS, FLAG, TARGET, ARGUMENT, SIZE, LIKE, KINDS
} edit_kind;

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

/* An argument of any kind; tensors are called as another item says. */
static void put_argument(cfx__text *out, int64_t n, const cfx__json *other) {
    static const char *const kinds[] = {"as_int", "as_sym_int", "as_scalar_type", "as_layout",
                                        "as_memory_format", "as_float", "as_bool"};
    static const char *const floats[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "0.0", "-1.5",
                                         "1e-45", "1e300"};
    uint64_t k = (uint64_t)n % 13;
    if (k == 12)
        cfx__text_printf(out, "{\"as_float\": %s}", floats[(uint64_t)n / 13 % 7]);
    else if (k < 7)
        cfx__text_printf(out, k == 1 ? "{\"%s\": {\"as_int\": %lld}}" : "{\"%s\": %lld}", kinds[k],
                         (long long)n);
    else if (k == 7)
        cfx__text_printf(out, "{\"as_ints\": [%lld, 1, %lld]}", (long long)n, (long long)-(n / 2));
    else if (k == 8)
        cfx__text_puts(out, "{\"as_none\": true}");
    else if (k == 9)
        cfx__text_puts(out, "{\"as_tensors\": []}");
    else if (k != 12)
        cfx__text_puts(out, k == 10 ? "{\"as_tensor\": {\"name\": " : "{\"as_string\": ");
    if (k != 10 && k != 11)
        return;
    bool text = other->kind == CFX__JSON_TEXT;
    cfx__json_string(out, text ? other->text : "x", text ? other->len : 1);
    cfx__text_puts(out, k == 10 ? "}}" : "}");
}

static void put_size(cfx__text *out, int64_t n) {
    static const char *const sizes[] = {
        "s77*s77", "s77//0", "Mod(s77, 0)", "9223372036854775807*s77", "s77**9223372036854775807",
        "s77 - 9223372036854775807", "Max(1, s77)", "u0 + s77", "-s77", "1/0", ""};
    cfx__text_printf(out, "{\"as_expr\": {\"expr_str\": \"%s\", \"hint\": {\"as_int\": %lld}}}",
                     sizes[(uint64_t)n % (sizeof sizes / sizeof *sizes)], (long long)n);
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
        case TARGET:
            cfx__text_printf(out, "\"torch.ops.%s\"",
                             cfx_op_name(fuzz_op((uint64_t)c->edit[i].number)));
            return;
        case ARGUMENT: put_argument(out, c->edit[i].number, other); return;
        case SIZE: put_size(out, c->edit[i].number); return;
        default: cfx__text_puts(out, c->edit[i].number & 1 ? "true" : "false"); return;
        }
    }
    put_plain(out, c, j);
}

/* One of the items that stand under a key, of any where none does or the key is NULL. */
static const cfx__json *pick(const changer *c, fuzz_bytes *b, const char *key) {
    uint32_t all = (uint32_t)(c->end - c->first), n = 0;
    for (const cfx__json *j = c->first; key && j + 1 < c->end; j++)
        n += j->kind == CFX__JSON_TEXT && !strcmp(j->text, key);
    uint32_t at = fuzz_below(b, n ? n : all);
    if (!n)
        return c->first + at;
    for (const cfx__json *j = c->first; j + 1 < c->end; j++)
        if (j->kind == CFX__JSON_TEXT && !strcmp(j->text, key) && at-- == 0)
            return j + 1;
    return c->first;
}

static void change(cfx__text *out, const cfx__json_tree *tree, fuzz_bytes *b) {
    static const char *const keys[] = {NULL, "arg", "arg", "target", "name", "sizes", "strides",
                                       "outputs", "inputs", "expr_str", "as_int", "dtype",
                                       "as_float", "as_graph", "arg"};
    changer c = {tree->items.data, tree->items.data + tree->items.len, .len = 0};
    while (b->at < b->end && c.len < EDITS) {
        const char *key = keys[fuzz_below(b, sizeof keys / sizeof *keys)];
        c.edit[c.len].item = pick(&c, b, key);
        c.edit[c.len].kind = (edit_kind)fuzz_below(b, KINDS);
        c.edit[c.len].other = pick(&c, b, c.edit[c.len].kind == LIKE ? key : "name");
        if (c.edit[c.len].kind == LIKE) /* another of its like */
            c.edit[c.len].kind = OTHER;
        c.edit[c.len++].number = fuzz_int(b);
    }
    put(out, &c, c.first);
}

/* Numbers that become part of the tensors: scales and zero points among them. */
typedef struct number {
    uint32_t entry, at;
    float value;
} number;

static void put_numbers(char *data, size_t size, const number *numbers, uint32_t entry) {
    const size_t width = sizeof numbers->value;
    for (int i = 0; i < NUMBERS; i++)
        if (numbers[i].entry == entry && size >= width)
            memcpy(data + numbers[i].at * width % (size - width + 1), &numbers[i].value, width);
}

/* The archive again, with another model.json and other tensors. */
static bool repack(FILE *to, const char *path, fuzz_bytes *b) {
    number numbers[NUMBERS] = {{0}};
    uint32_t entry = 0;
    for (uint32_t i = 0, n = fuzz_below(b, NUMBERS + 1); i < n; i++) {
        numbers[i].entry = 1 + fuzz_below(b, 7);
        numbers[i].at = fuzz_below(b, 64);
        numbers[i].value = (float)fuzz_float(b);
    }
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
        bool tensor = ok && strstr(e->name, "/data/") && !strstr(e->name, ".json");
        if (model && cfx__json_read(&tree, bytes.data, bytes.size, path))
            change(&out, &tree, b);
        if (tensor) {
            cfx__text_add(&out, bytes.data, bytes.size);
            put_numbers(out.data, out.len, numbers, ++entry);
        }
        bool other = model || tensor;
        if (ok)
            cfx__zip_add(&w, e->name, other ? out.data : bytes.data, other ? out.len : bytes.size);
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
    const char *program =
        fuzz_file(programs[fuzz_below(&b, sizeof programs / sizeof *programs)]);
    if (repack(to, program, &b) && fflush(to) == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fuzz_use(cfx_open(path));
    }
    fuzz_end();
    fclose(to);
    return 0;
}
