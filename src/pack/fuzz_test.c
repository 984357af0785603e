/* Files that lie. Good files are changed at random, as bytes and as JSON inside archives that are
 * put together again, and read: a program comes out, which then prints and is written, or an error
 * is recorded; nothing crashes, hangs, leaks or reads out of bounds (the sanitizers look on in
 * `make asan`). CFX_FUZZ_RUNS sets how many changed files each test reads, CFX_FUZZ_SEED the seed.
 */
#include "pickle.h"
#include "pt2.h"
#include "files.h"

#include <stdlib.h>

#define ZOO CFX_TEST_DATA "/zoo/"

static const char *const programs[] = {"seed_mlp", "cond",      "while_loop",
                                       "dyn_conv", "pytree_io", "mutating_buffer"};

static uint64_t state;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t n) { return n ? draw() % n : 0; }
static bool chance(int percent) { return below(100) < (size_t)percent; }

static int setting(const char *name, int fallback) {
    const char *text = getenv(name);
    return text ? atoi(text) : fallback;
}

static int begin(uint64_t salt) {
    uint64_t seed = (uint64_t)setting("CFX_FUZZ_SEED", 1);
    state = (seed * 0x9e3779b97f4a7c15u) ^ (salt << 32) ^ 88172645463325252u;
    for (int i = 0; i < 16; i++)
        draw();
    return setting("CFX_FUZZ_RUNS", 150);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void cut(cfx__text *t, size_t at, size_t n) {
    n = n < t->len - at ? n : t->len - at;
    memmove(t->data + at, t->data + at + n, t->len - at - n);
    t->len -= n;
    t->data[t->len] = 0;
}

static void insert(cfx__text *t, size_t at, const char *bytes, size_t n) {
    cfx__text_room(t, n);
    memmove(t->data + at + n, t->data + at, t->len - at);
    memcpy(t->data + at, bytes, n);
    t->len += n;
    t->data[t->len] = 0;
}

/* Bits, bytes, pieces that go, come twice or end up elsewhere. */
static void change_bytes(cfx__text *t) {
    static const char odd[] = {0, 1, 0x7f, (char)0x80, (char)0xff, '.', '(', 'q', 'h', 0x7f};
    size_t at = below(t->len), n = 1 + below(chance(80) ? 8 : t->len / 2 + 1);
    if (!t->len)
        return;
    switch (below(7)) {
    case 0: t->data[at] ^= (char)(1 << below(8)); break;
    case 1: t->data[at] = (char)draw(); break;
    case 2: t->data[at] = odd[below(sizeof odd)]; break;
    case 3: cut(t, at, n); break;
    case 4: cut(t, at, t->len); break; /* the end is missing */
    case 5: {
        char piece[256];
        n = n < sizeof piece ? n : sizeof piece;
        n = n < t->len - at ? n : t->len - at;
        memcpy(piece, t->data + at, n);
        insert(t, below(t->len), piece, n);
        break;
    }
    default:
        for (size_t i = 0; i < 4 && at + i < t->len; i++)
            t->data[at + i] = (char)0xff;
    }
}

/* The end of the JSON value that starts here, roughly. */
static size_t value_end(const cfx__text *t, size_t at) {
    int depth = 0;
    for (size_t i = at; i < t->len; i++) {
        char c = t->data[i];
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth < 0 || (!depth && (c == '}' || c == ']')))
            return depth < 0 ? i : i + 1;
        if (!depth && (c == ',' || (c == '"' && i > at)))
            return c == ',' ? i : i + 1;
    }
    return t->len;
}

/* Values of JSON replaced by others, of the same text or odd ones. */
static void change_json(cfx__text *t) {
    static const char *const odd[] = {
        "null", "0", "-1", "9223372036854775807", "-9223372036854775808", "1e308", "1e999", "\"\"",
        "[]", "{}", "true", "\"x\"", "{\"as_int\": 9223372036854775807}", "{\"as_none\": true}",
        "{\"as_expr\": {\"expr_str\": \"Mul(Integer(2), Symbol('s0'))\", \"hint\": null}}",
        "\"Infinity\"", "{\"as_tensor\": {\"name\": \"x\"}}", "[[[[[[[[]]]]]]]]", "7", "28",
        "{\"as_graph\": {\"name\": \"g\", \"graph\": {}}}", "\"torch.ops.aten.sort.default\"",
        "\"_operator.getitem\"", "\"a.b\"", "\"torch.ops.higher_order.cond\"", "1099511627776"};
    size_t at = below(t->len);
    if (chance(25)) {
        change_bytes(t);
        return;
    }
    const char *colon = memchr(t->data + at, chance(70) ? ':' : ',', t->len - at);
    if (!colon)
        return;
    at = (size_t)(colon - t->data) + 1;
    while (at < t->len && t->data[at] == ' ')
        at++;
    size_t end = value_end(t, at);
    if (chance(50)) {
        const char *with = odd[below(COUNT(odd))];
        cut(t, at, end - at);
        insert(t, at, with, strlen(with));
    } else { /* by another value of the text */
        size_t from = below(t->len);
        const char *other = memchr(t->data + from, ':', t->len - from);
        if (!other)
            return;
        from = (size_t)(other - t->data) + 1;
        size_t n = value_end(t, from) - from;
        char *copy = cfx__alloc(n + 1);
        memcpy(copy, t->data + from, n);
        cut(t, at, end - at);
        insert(t, at, copy, n);
        cfx__free(copy);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Whatever came out: it prints, and is written to where nobody reads it. */
static void use(cfx_program *p) {
    if (cfx_failed(p)) {
        if (cfx_ok())
            test_fail(CFX_HERE, "neither a program nor an error");
        cfx_error_clear();
        return;
    }
    cfx_program_str(p);
    cfx_graph_str(p->module->graph);
    cfx_module_code(p->module);
    cfx_graph_tabular(p->module->graph);
    cfx_program_sample_inputs(p);
    cfx_error_clear();
    cfx_save(p, "/dev/null");
    cfx_error_clear();
}

/* Bytes with an owner that goes with the scope. */
static cfx__pack_bytes owned(const cfx__text *t) {
    cfx_tensor *bytes = cfx_tensor_new(CFX_U8, 1, (int64_t[]){(int64_t)t->len + 1}, t->data);
    return (cfx__pack_bytes){bytes->data, t->len, bytes->storage};
}

static void read_file(const char *path, cfx__text *out) {
    cfx__file_mapping *m = cfx__file_map(path);
    out->len = 0;
    if (CHECK(m != NULL))
        cfx__text_add(out, m->data, m->size);
    cfx_drop(m);
}

/* An archive again, the entry that ends in `name` changed. */
static void repack(const cfx__text *from, const char *name, int changes, cfx__text *out) {
    cfx__zip z;
    char *data = NULL;
    size_t size = 0;
    cfx__zip_writer w = {.file = open_memstream(&data, &size)};
    CHECK(cfx__zip_open(&z, "sample", owned(from)));
    for (size_t i = 0; i < z.entries.len; i++) {
        cfx__zip_entry *e = &z.entries.data[i];
        cfx__pack_bytes b;
        size_t n = strlen(e->name), k = strlen(name);
        if (!CHECK(cfx__zip_read(&z, e, true, &b)))
            break;
        cfx__text t = {0};
        cfx__text_add(&t, b.data, b.size);
        for (int c = 0; n >= k && !strcmp(e->name + n - k, name) && c < changes; c++)
            change_json(&t);
        cfx__zip_add(&w, e->name, t.data, t.len);
        cfx__text_release(&t);
    }
    cfx__zip_finish(&w);
    fclose(w.file);
    cfx__zip_close(&z);
    out->len = 0;
    cfx__text_add(out, data, size);
    free(data);
}

TEST(fuzz_archives) {
    int runs = begin(1);
    cfx__text good = {0}, t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            read_file(cfx__text_format(ZOO "%s/model.pt2", programs[below(COUNT(programs))]),
                      &good);
            t.len = 0;
            cfx__text_add(&t, good.data, good.len);
            /* most of an archive is data that nothing depends on: its end is the directory */
            if (chance(50) && t.len > 3000) {
                cfx__text tail = {0};
                size_t at = t.len - 1 - below(3000);
                cfx__text_add(&tail, t.data + at, t.len - at);
                change_bytes(&tail);
                t.len = at;
                cfx__text_add(&t, tail.data, tail.len);
                cfx__text_release(&tail);
            }
            for (size_t k = below(4); k > 0; k--)
                change_bytes(&t);
            use(cfx__pt2_open("fuzz.pt2", owned(&t)));
        }
    cfx__text_release(&good);
    cfx__text_release(&t);
}

static void fuzz_json(uint64_t salt, const char *entry) {
    int runs = begin(salt);
    cfx__text good = {0}, t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            read_file(cfx__text_format(ZOO "%s/model.pt2", programs[below(COUNT(programs))]),
                      &good);
            repack(&good, entry, 1 + (int)below(4), &t);
            use(cfx__pt2_open("fuzz.pt2", owned(&t)));
        }
    cfx__text_release(&good);
    cfx__text_release(&t);
}

TEST(fuzz_model_json) { fuzz_json(2, "models/model.json"); }
TEST(fuzz_weights_config) { fuzz_json(3, "model_weights_config.json"); }
TEST(fuzz_constants_config) { fuzz_json(4, "model_constants_config.json"); }

/* A storage that is always there. */
static cfx_tensor *some_storage(void *user, const char *key, cfx_dtype dtype) {
    (void)user;
    (void)key;
    return cfx_tensor_new(dtype, 1, (int64_t[]){8}, NULL);
}

TEST(fuzz_pickles) {
    static const char pickle[] =
        "\x80\2ccollections\nOrderedDict\nq\0)Rq\1(X\1\0\0\0wq\2ctorch._utils\n_rebuild_tensor_v2"
        "\nq\3((X\7\0\0\0storageq\4ctorch\nFloatStorage\nq\5X\1\0\0\0" "0q\6X\3\0\0\0cpuq\7K\10tq"
        "\10QK\0K\2K\4\x86q\tK\4K\1\x86q\n\x89h\0)Rq\x0btq\x0cRq\rX\1\0\0\0lq\x0e]q\x0f(K\1M\1\1J"
        "\1\0\0\0G?\xf0\0\0\0\0\0\0NX\1\0\0\0zh\rleu}X\1\0\0\0ah\2sb.";
    int runs = 20 * begin(5);
    cfx__text t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            t.len = 0;
            cfx__text_add(&t, pickle, sizeof pickle - 1);
            for (size_t k = 1 + below(6); k > 0; k--)
                change_bytes(&t);
            cfx_value v = cfx__pickle_read("fuzz.pt", t.data, t.len, some_storage, NULL);
            if (cfx_is_bad(v) == cfx_ok())
                test_fail(CFX_HERE, "a bad value and no error, or the other way");
            cfx_error_clear();
            cfx_value_repr(v);
        }
    cfx__text_release(&t);
}

TEST(fuzz_json) {
    static const char json[] = "{\"a\": [1, -2.5e3, true, null, \"x\\u00e4\\n\"], \"b\": "
                               "{\"c\": {}, \"d\": [[], [[]]]}, \"e\": 9223372036854775807}";
    int runs = 20 * begin(6);
    cfx__text t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            t.len = 0;
            cfx__text_add(&t, json, sizeof json - 1);
            for (size_t k = 1 + below(6); k > 0; k--)
                chance(50) ? change_bytes(&t) : change_json(&t);
            cfx__json_tree tree = {0};
            if (cfx__json_read(&tree, t.data, t.len, "fuzz.json")) {
                cfx__text text = {0}, again = {0};
                cfx__json_tree second = {0};
                cfx__json_write(&text, tree.items.data);
                cfx__json_to_value(tree.items.data);
                cfx_error_clear();
                if (CHECK(cfx__json_read(&second, text.data, text.len, "fuzz.json"))) {
                    cfx__json_write(&again, second.items.data);
                    CHECK_STR(again.data, text.data);
                }
                cfx__json_release(&second);
                cfx__text_release(&text);
                cfx__text_release(&again);
            }
            cfx__json_release(&tree);
            cfx_error_clear();
        }
    cfx__text_release(&t);
}

TEST(fuzz_sizes) {
    static const char *const texts[] = {
        "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-1))",
        "LessThan(FloorDiv(Symbol('u0', integer=True), Integer(8)), Max(Integer(1), Symbol('s0')))",
        "2*s0*s1 + (s0//2) - Mod(s1, 3)", "Pow(Symbol('s1'), Integer(2))"};
    int runs = 20 * begin(7);
    cfx__text t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            t.len = 0;
            cfx__text_puts(&t, texts[below(COUNT(texts))]);
            for (size_t k = 1 + below(4); k > 0; k--)
                change_bytes(&t);
            cfx_value v = cfx__srepr_read(t.data, NULL);
            cfx__text out = {0};
            cfx__srepr_write(&out, v);
            cfx_value_str(v);
            cfx__text_release(&out);
            CHECK_OK();
        }
    cfx__text_release(&t);
}

TEST(fuzz_texts) {
    int runs = begin(8);
    cfx__text good = {0}, t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            read_file(cfx__text_format(ZOO "%s/%s.txt", programs[below(COUNT(programs))],
                                       chance(50)   ? "readable"
                                       : chance(50) ? "graph"
                                                    : "code"),
                      &good);
            t.len = 0;
            cfx__text_add(&t, good.data, good.len);
            for (size_t k = 1 + below(4); k > 0; k--)
                change_bytes(&t);
            t.data[t.len] = 0;
            cfx_module *m = cfx_module_parse(t.data, "fuzz.fx");
            if (!m && cfx_ok())
                test_fail(CFX_HERE, "neither a module nor an error");
            cfx_error_clear();
            if (!cfx_failed(m))
                cfx_module_code(m);
            cfx_error_clear();
        }
    cfx__text_release(&good);
    cfx__text_release(&t);
}

/* What parses is a program that prints, and its print is the same program. */
static void try_program_text(const char *text) {
    cfx_program *p = cfx_program_parse(text, "fuzz.fx");
    if (cfx_failed(p) && cfx_ok())
        test_fail(CFX_HERE, "neither a program nor an error");
    cfx_error_clear();
    const char *printed = cfx_program_fx(p);
    cfx_program *again = cfx_program_parse(printed, "printed.fx");
    if (!cfx_failed(again))
        CHECK_STR(cfx_program_fx(again), printed);
    cfx_error_clear();
}

TEST(fuzz_program_texts) {
    int runs = begin(10);
    cfx__text t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            cfx_program *p =
                cfx_open(cfx__text_format(ZOO "%s/model.pt2", programs[below(COUNT(programs))]));
            const char *good = cfx_program_fx(p), *tail = strstr(good, "Graph signature:");
            t.len = 0;
            cfx__text_puts(&t, chance(20) ? good : tail);
            for (size_t k = 1 + below(4); k > 0; k--)
                change_bytes(&t);
            t.data[t.len] = 0;
            try_program_text(cfx__text_format("%.*s%s", (int)(tail - good), good, t.data));
        }
    cfx__text_release(&t);
}

/* The file of torch.save that an archive holds: the sample inputs. */
TEST(fuzz_torch_save) {
    int runs = 4 * begin(9);
    cfx_program *p = cfx_open(ZOO "pytree_io/model.pt2");
    cfx_value bytes = cfx_dict_get(p->extra, "sample_inputs");
    if (!CHECK(bytes.tag == CFX_TAG_TENSOR))
        return;
    cfx__text t = {0};
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            t.len = 0;
            cfx__text_add(&t, cfx_as_tensor(bytes)->data, (size_t)cfx_as_tensor(bytes)->numel);
            for (size_t k = 1 + below(4); k > 0; k--)
                change_bytes(&t);
            cfx_value v = cfx__pickle_load("fuzz.pt", owned(&t));
            if (cfx_is_bad(v) == cfx_ok())
                test_fail(CFX_HERE, "a bad value and no error, or the other way");
            cfx_error_clear();
            cfx_value_repr(v);
        }
    cfx__text_release(&t);
}

TEST(fuzz_safetensors) {
    int runs = begin(10);
    const char *path = test_path("fuzz.safetensors");
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_tensor_value(cfx_tensor_new(CFX_F32, 2, (int64_t[]){2, 3},
                                                         (float[]){1, 2, 3, 4, 5, 6})));
    cfx_dict_set(d, "b", cfx_tensor_value(cfx_tensor_new(CFX_BOOL, 1, (int64_t[]){3},
                                                         (bool[]){true, false, true})));
    cfx__text good = {0}, t = {0};
    CHECK(cfx_safetensors_write(path, d, NULL));
    read_file(path, &good);
    for (int i = 0; i < runs; i++)
        CFX_SCOPE {
            t.len = 0;
            cfx__text_add(&t, good.data, good.len);
            for (size_t k = 1 + below(4); k > 0; k--)
                chance(50) ? change_bytes(&t) : change_json(&t);
            FILE *f = fopen(path, "wb");
            CHECK(f && fwrite(t.data, 1, t.len, f) == t.len && fclose(f) == 0);
            cfx_dict *got = cfx_safetensors_read(path);
            if (!got == cfx_ok())
                test_fail(CFX_HERE, "no tensors and no error, or the other way");
            cfx_error_clear();
            for (int64_t k = 0; got && k < got->len; k++)
                cfx_tensor_str(cfx_as_tensor(got->entries[k].value));
            cfx_safetensors_metadata(path);
            cfx_error_clear();
        }
    CHECK_INT(test_folder_clear(), 1);
    cfx__text_release(&good);
    cfx__text_release(&t);
}
