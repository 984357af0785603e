/* JSON over yajl's event parser. Items are pushed in the order of the text; a stack holds the
 * places of the containers that are open, whose lengths are counted up on the way. */
#define _GNU_SOURCE /* memmem */
#include "json.h"

#include <math.h>
#include <yajl/yajl_parse.h>

typedef struct parser {
    cfx__json_tree *tree;
    size_t open[CFX__JSON_DEPTH]; /* items of the containers around the next one */
    int depth;
    size_t len;          /* of the text that the tree is of */
    const char *problem; /* what is wrong beyond the grammar; scope */
    const double *bare;  /* what the next number stands for; NULL: itself */
    cfx__json_item_fn *fn; /* takes the items of the outermost container; NULL: the tree does */
    void *user;
    struct cfx__arena_chunk *chunk; /* of the texts of one item, used again for the next */
} parser;

/* ---- events ---------------------------------------------------------------------------------- */

/* Room for one item more. yajl and the texts take what they need without asking, together at most
 * so many times the text: that much is left to them. */
static bool has_room(parser *p) {
    enum { TIMES = 6 };
    size_t n = p->tree->items.len, bytes = n * 2 * sizeof *p->tree->items.data;
    return n < p->tree->items.cap ||
           (cfx__memory_wanted(bytes + TIMES * p->len) && VEC_TRY(p->tree->items, 1));
}

/* Adds an item; it counts in its container unless it is a key, whose value does. */
static int put(parser *p, cfx__json item, bool key) {
    if (p->depth && !key)
        p->tree->items.data[p->open[p->depth - 1]].len++;
    if (!has_room(p))
        return 0;
    VEC_PUSH(p->tree->items, item);
    return 1;
}

/* The item that is whole now goes to who takes items one by one. */
static int hand_over(parser *p) {
    if (!p->fn || p->depth != 1)
        return 1;
    cfx__json_tree *t = p->tree;
    bool object = t->items.data->kind == CFX__JSON_OBJECT;
    int ok = p->fn(object ? t->items.data + 1 : NULL, t->items.data + 1 + object, p->user);
    t->items.len = 1;
    if (!p->chunk || p->chunk == t->texts.chunk) {
        p->chunk = t->texts.chunk;
        t->texts.used = 0;
    } else {
        cfx__arena_release(&t->texts);
        p->chunk = NULL;
    }
    return ok;
}

static int add(parser *p, cfx__json item, bool key) {
    return put(p, item, key) && (key || hand_over(p));
}

static int on_null(void *ctx) { return add(ctx, (cfx__json){.kind = CFX__JSON_NULL}, false); }

static int on_bool(void *ctx, int b) {
    return add(ctx, (cfx__json){.kind = CFX__JSON_BOOL, .b = b}, false);
}

/* yajl has checked the grammar of a number. */
static int on_number(void *ctx, const char *text, size_t len) {
    parser *p = ctx;
    if (p->bare)
        return add(p, (cfx__json){.kind = CFX__JSON_FLOAT, .f = *p->bare}, false);
    bool whole = !memchr(text, '.', len) && !memchr(text, 'e', len) && !memchr(text, 'E', len);
    bool negative = text[0] == '-';
    int64_t n = 0;
    for (size_t i = negative; whole && i < len; i++) {
        int digit = text[i] - '0';
        whole = !__builtin_mul_overflow(n, 10, &n) &&
                !__builtin_add_overflow(n, negative ? -digit : digit, &n);
    }
    if (whole)
        return add(p, (cfx__json){.kind = CFX__JSON_INT, .i = n}, false);
    char small[64], *copy = len < sizeof small ? small : cfx__alloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = 0;
    double f = cfx__number_read(copy, NULL);
    if (copy != small)
        cfx__free(copy);
    return add(p, (cfx__json){.kind = CFX__JSON_FLOAT, .f = f}, false);
}

static int add_text(parser *p, const unsigned char *text, size_t len, bool key) {
    if (len > UINT32_MAX) {
        p->problem = "a string is longer than 4 GB";
        return 0;
    }
    const char *copy = cfx__arena_copy(&p->tree->texts, (const char *)text, len);
    return add(p, (cfx__json){.kind = CFX__JSON_TEXT, .len = (uint32_t)len, .text = copy}, key);
}

static int on_string(void *ctx, const unsigned char *text, size_t len) {
    return add_text(ctx, text, len, false);
}

static int on_key(void *ctx, const unsigned char *text, size_t len) {
    return add_text(ctx, text, len, true);
}

static int enter(parser *p, cfx__json_kind kind) {
    if (p->depth == CFX__JSON_DEPTH) {
        p->problem = "it is nested too deeply";
        return 0;
    }
    if (!put(p, (cfx__json){.kind = kind}, false))
        return 0;
    p->open[p->depth++] = p->tree->items.len - 1;
    return 1;
}

static int on_object(void *ctx) { return enter(ctx, CFX__JSON_OBJECT); }
static int on_array(void *ctx) { return enter(ctx, CFX__JSON_ARRAY); }

static void leave(parser *p) {
    size_t at = p->open[--p->depth];
    p->tree->items.data[at].size = p->tree->items.len - at;
}

static int on_array_end(void *ctx) {
    leave(ctx);
    return hand_over(ctx);
}

static int by_key(const void *a, const void *b) {
    const cfx__json *x = *(const cfx__json *const *)a, *y = *(const cfx__json *const *)b;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->text, y->text, x->len);
}

enum { FEW_KEYS = 8 };

/* A key that stands twice among some; NULL: none does. */
static const cfx__json *find_twice(const cfx__json **keys, size_t n) {
    for (size_t i = 1; n <= FEW_KEYS && i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (!by_key(&keys[i], &keys[k]))
                return keys[i];
    if (n <= FEW_KEYS)
        return NULL;
    qsort(keys, n, sizeof *keys, by_key);
    for (size_t i = 1; i < n; i++)
        if (!by_key(&keys[i - 1], &keys[i]))
            return keys[i];
    return NULL;
}

/* Of a key that stands twice some readers take the first value and others the last, so that a file
 * could be one program here and another elsewhere. */
static int on_object_end(void *ctx) {
    parser *p = ctx;
    leave(p);
    if (p->fn && !p->depth)
        return 1;
    const cfx__json *object = &p->tree->items.data[p->open[p->depth]], *few[FEW_KEYS];
    const cfx__json **keys =
        object->len <= FEW_KEYS ? few : cfx__alloc_try(object->len * sizeof *keys);
    size_t n = 0;
    if (!keys)
        return 0;
    cfx__json_pairs(object, k, v) keys[n++] = k;
    const cfx__json *twice = find_twice(keys, n);
    if (twice)
        p->problem =
            cfx__text_format("the key \"%.200s\" stands twice in an object", twice->text);
    if (keys != few)
        cfx__free(keys);
    return !twice && hand_over(p);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_object_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_array_end,
};

/* ---- parsing --------------------------------------------------------------------------------- */

static void *yajl_malloc(void *unused, size_t size) {
    (void)unused;
    return cfx__alloc(size);
}

static void *yajl_realloc(void *unused, void *p, size_t size) {
    (void)unused;
    return cfx__realloc(p, size);
}

static void yajl_release(void *unused, void *p) {
    (void)unused;
    cfx__free(p);
}

/* `at`: where the error is in the text. */
static void report(yajl_handle y, const parser *p, const char *text, size_t at, const char *what) {
    int64_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    unsigned char *words = yajl_get_error(y, 0, NULL, 0);
    const char *why = p->problem ? p->problem : words ? (const char *)words : "it is cut off";
    const char *colon = strstr(why, "error: ");
    why = colon && !p->problem ? colon + strlen("error: ") : why;
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "%s: line %lld, column %lld: %.*s", what,
             (long long)line, (long long)column, (int)strcspn(why, "\n"), why);
    if (words)
        yajl_free_error(y, words);
}

/* Parses a stretch of a text; *at: how far that came. */
static bool parse_plain(yajl_handle y, const char *text, size_t len, const char **at) {
    bool ok = yajl_parse(y, (const unsigned char *)text, len) == yajl_status_ok;
    size_t done = yajl_get_bytes_consumed(y);
    *at = text + (done < len ? done : len);
    return ok;
}

/* Whether the word is in a text, where its first letter is rare: memmem looks at each byte. */
static bool has_word(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    const char *end = text + len;
    while ((size_t)(end - text) >= n &&
           (text = memchr(text, *word, (size_t)(end - text) - n + 1)) && memcmp(text, word, n))
        text++;
    return text && (size_t)(end - text) >= n;
}

/* Parses a piece of a text, with a number in the place of each bare word in it. */
static bool parse_piece(yajl_handle y, parser *p, cfx__json_part piece, const char **at) {
    const char *from = piece.text, *end = from + piece.len;
    cfx__json_part word;
    double f;
    bool has = has_word(from, piece.len, "NaN") || has_word(from, piece.len, "Infinity");
    while (has && cfx__json_find_bare(from, end, &word, &f)) {
        if (!parse_plain(y, from, (size_t)(word.text - from), at))
            return false;
        p->bare = &f;
        bool ok = yajl_parse(y, (const unsigned char *)" 0 ", 3) == yajl_status_ok;
        p->bare = NULL;
        if (!ok)
            return false;
        from = word.text + word.len;
    }
    return parse_plain(y, from, (size_t)(end - from), at);
}

/* Parses the pieces of a text, one after the other. */
static bool parse(parser *p, const char *text, int n, const cfx__json_part *pieces,
                  const char *what) {
    bool before = cfx_ok(), ok = true;
    yajl_alloc_funcs memory = {yajl_malloc, yajl_realloc, yajl_release, NULL};
    yajl_handle y = yajl_alloc(&callbacks, &memory, p);
    const char *at = text;
    for (int i = 0; ok && i < n; i++)
        ok = parse_piece(y, p, pieces[i], &at);
    ok = ok && yajl_complete_parse(y) == yajl_status_ok && p->tree->items.len;
    ok = ok && cfx_ok() == before;
    if (!ok && what && cfx_ok())
        report(y, p, text, (size_t)(at - text), what);
    yajl_free(y);
    return ok;
}

bool cfx__json_read(cfx__json_tree *tree, const char *text, size_t len, const char *what) {
    parser p = {.tree = tree, .len = len};
    return parse(&p, text, 1, &(cfx__json_part){text, len}, what);
}

bool cfx__json_read_but(cfx__json_tree *tree, const char *text, size_t len, int nparts,
                        const cfx__json_part *parts, const char *what) {
    enum { MOST = 8 };
    cfx__json_part pieces[MOST + 1];
    parser p = {.tree = tree};
    const char *from = text;
    int n = 0;
    for (int i = 0; i < nparts && n < MOST; i++)
        if (parts[i].text) {
            pieces[n++] = (cfx__json_part){from, (size_t)(parts[i].text + 1 - from)};
            from = parts[i].text + parts[i].len - 1;
        }
    pieces[n++] = (cfx__json_part){from, len - (size_t)(from - text)};
    for (int i = 0; i < n; i++)
        p.len += pieces[i].len;
    return parse(&p, text, n, pieces, what);
}

bool cfx__json_stream(const char *text, cfx__json_part part, const char *what,
                      cfx__json_item_fn *fn, void *user) {
    cfx__json_tree tree = {0};
    parser p = {.tree = &tree, .fn = fn, .user = user};
    bool ok = parse(&p, text, 1, &part, what);
    cfx__json_release(&tree);
    return ok;
}

void cfx__json_release(cfx__json_tree *tree) {
    VEC_FREE(tree->items);
    cfx__arena_release(&tree->texts);
}

const cfx__json *cfx__json_get(const cfx__json *j, const char *key) {
    if (!j || j->kind != CFX__JSON_OBJECT)
        return NULL;
    size_t len = strlen(key);
    cfx__json_pairs(j, k, v)
        if (k->len == len && !memcmp(k->text, key, len))
            return v;
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static cfx_value object_value(const cfx__json *j) {
    cfx_dict *d = cfx_dict_new();
    cfx__json_pairs(j, k, v)
        cfx_dict_put(d, cfx_string_value_n(k->text, k->len), cfx__json_to_value(v));
    return cfx_dict_value(d);
}

cfx_value cfx__json_to_value(const cfx__json *j) {
    size_t mark = cfx_scope_open();
    cfx_value v = cfx_none();
    switch ((cfx__json_kind)j->kind) {
    case CFX__JSON_NULL: break;
    case CFX__JSON_BOOL: v = cfx_bool(j->b); break;
    case CFX__JSON_INT: v = cfx_int(j->i); break;
    case CFX__JSON_FLOAT: v = cfx_float(j->f); break;
    case CFX__JSON_TEXT: v = cfx_string_value_n(j->text, j->len); break;
    case CFX__JSON_OBJECT: v = object_value(j); break;
    case CFX__JSON_ARRAY:
        v = cfx_list_value(0, NULL);
        cfx__json_each(j, item) cfx_list_append(v.list_, cfx__json_to_value(item));
        break;
    }
    return cfx_scope_return_value(mark, v);
}

cfx_value cfx__json_parse(const char *text, size_t len, const char *what) {
    cfx__json_tree tree = {0};
    bool ok = cfx__json_read(&tree, text, len, what);
    cfx_value v = ok ? cfx__json_to_value(tree.items.data) : cfx_bad();
    cfx__json_release(&tree);
    return v;
}

/* ---- writing --------------------------------------------------------------------------------- */

void cfx__json_characters(cfx__text *out, const char *text, size_t len) {
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        cfx__text_add(out, text + from, i - from);
        from = i + 1;
        const char *brief = strchr("\"\"\\\\\bb\ff\nn\rr\tt", c);
        if (c && brief)
            cfx__text_printf(out, "\\%c", brief[1]);
        else
            cfx__text_printf(out, "\\u%04x", c);
    }
    cfx__text_add(out, text + from, len - from);
}

void cfx__json_string(cfx__text *out, const char *text, size_t len) {
    cfx__text_putc(out, '"');
    cfx__json_characters(out, text, len);
    cfx__text_putc(out, '"');
}

static bool put_list(cfx__text *out, const cfx_list *list) {
    cfx__text_putc(out, '[');
    for (int64_t i = 0; i < list->len; i++) {
        if (i)
            cfx__text_putc(out, ',');
        if (!cfx__json_value(out, list->items[i]))
            return false;
    }
    cfx__text_putc(out, ']');
    return true;
}

static bool put_dict(cfx__text *out, const cfx_dict *dict) {
    cfx__text_putc(out, '{');
    for (int64_t i = 0; i < dict->len; i++) {
        if (i)
            cfx__text_putc(out, ',');
        cfx_value key = dict->entries[i].key;
        if (key.tag != CFX_TAG_STR) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "keys of JSON objects must be str, not %s",
                     cfx_value_type_name(key));
            return false;
        }
        cfx__json_string(out, key.str_->text, key.str_->len);
        cfx__text_putc(out, ':');
        if (!cfx__json_value(out, dict->entries[i].value))
            return false;
    }
    cfx__text_putc(out, '}');
    return true;
}

bool cfx__json_value(cfx__text *out, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NONE: cfx__text_puts(out, "null"); return true;
    case CFX_TAG_BOOL: cfx__text_puts(out, v.b_ ? "true" : "false"); return true;
    case CFX_TAG_INT: cfx__text_printf(out, "%lld", (long long)v.i_); return true;
    case CFX_TAG_STR: cfx__json_string(out, v.str_->text, v.str_->len); return true;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return put_list(out, v.list_);
    case CFX_TAG_DICT: return put_dict(out, v.dict_);
    case CFX_TAG_FLOAT:
        if (isfinite(v.f_)) {
            cfx__repr_float(out, v.f_);
            return true;
        }
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Out of range float values are not JSON compliant");
        return false;
    default:
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "Object of type %s is not JSON serializable",
                 cfx_value_type_name(v));
        return false;
    }
}

void cfx__json_write(cfx__text *out, const cfx__json *j) {
    switch ((cfx__json_kind)j->kind) {
    case CFX__JSON_NULL: cfx__text_puts(out, "null"); break;
    case CFX__JSON_BOOL: cfx__text_puts(out, j->b ? "true" : "false"); break;
    case CFX__JSON_INT: cfx__text_printf(out, "%lld", (long long)j->i); break;
    case CFX__JSON_FLOAT:
        if (isfinite(j->f))
            cfx__repr_float(out, j->f);
        else /* the text had more digits than a double holds */
            cfx__text_puts(out, j->f < 0 ? "-1e999" : "1e999");
        break;
    case CFX__JSON_TEXT: cfx__json_string(out, j->text, j->len); break;
    case CFX__JSON_ARRAY:
        cfx__text_putc(out, '[');
        cfx__json_each(j, v) {
            if (v != j + 1)
                cfx__text_putc(out, ',');
            cfx__json_write(out, v);
        }
        cfx__text_putc(out, ']');
        break;
    case CFX__JSON_OBJECT:
        cfx__text_putc(out, '{');
        cfx__json_pairs(j, k, v) {
            if (k != j + 1)
                cfx__text_putc(out, ',');
            cfx__json_string(out, k->text, k->len);
            cfx__text_putc(out, ':');
            cfx__json_write(out, v);
        }
        cfx__text_putc(out, '}');
        break;
    }
}
