/* JSON over yajl's event parser. Values are built on an explicit stack: each container belongs to
 * the one below it, the lowest to the parser until it is done. */
#define _GNU_SOURCE /* strtod_l */
#include "json.h"

#include <locale.h>
#include <math.h>
#include <yajl/yajl_parse.h>

typedef struct frame {
    cfx_value container; /* borrowed from the frame below, or from parser.root */
    cfx_value key;       /* counted: the key whose value comes next; None in lists */
} frame;

typedef struct parser {
    VEC(frame) stack;
    cfx_value root; /* counted */
    bool has_root;
    locale_t c_locale; /* numbers have a '.', whatever the program's locale says */
    const char *problem; /* what is wrong beyond the grammar; static or of the scope */
} parser;

/* ---- events ---------------------------------------------------------------------------------- */

/* Puts v where it belongs. Containers keep it: the caller's scope may go. */
static void place(parser *p, cfx_value v) {
    if (!p->stack.len) {
        p->root = cfx_value_keep(v);
        p->has_root = true;
        return;
    }
    frame *top = &p->stack.data[p->stack.len - 1];
    if (top->container.tag == CFX_TAG_LIST) {
        cfx_list_append(top->container.list, v);
        return;
    }
    cfx_dict_put(top->container.dict, top->key, v);
    cfx_value_drop(top->key);
    top->key = cfx_none();
}

static int on_null(void *ctx) {
    place(ctx, cfx_none());
    return 1;
}

static int on_bool(void *ctx, int b) {
    place(ctx, cfx_bool(b));
    return 1;
}

/* yajl has checked the grammar of a number. */
static int on_number(void *ctx, const char *text, size_t len) {
    parser *p = ctx;
    bool whole = !memchr(text, '.', len) && !memchr(text, 'e', len) && !memchr(text, 'E', len);
    bool negative = text[0] == '-';
    int64_t n = 0;
    for (size_t i = negative; whole && i < len; i++) {
        int digit = text[i] - '0';
        whole = !__builtin_mul_overflow(n, 10, &n) &&
                !__builtin_add_overflow(n, negative ? -digit : digit, &n);
    }
    if (whole) {
        place(p, cfx_int(n));
        return 1;
    }
    char small[64], *copy = len < sizeof small ? small : cfx__alloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = 0;
    place(p, cfx_float(strtod_l(copy, NULL, p->c_locale)));
    if (copy != small)
        free(copy);
    return 1;
}

static int on_string(void *ctx, const unsigned char *text, size_t len) {
    size_t mark = cfx_scope_open();
    place(ctx, cfx_string_value_n((const char *)text, len));
    cfx_scope_close(mark);
    return 1;
}

static int on_key(void *ctx, const unsigned char *text, size_t len) {
    parser *p = ctx;
    frame *top = &p->stack.data[p->stack.len - 1];
    size_t mark = cfx_scope_open();
    cfx_value key = cfx_string_value_n((const char *)text, len);
    bool twice = cfx_dict_find(top->container.dict, key) != NULL;
    if (!twice)
        top->key = cfx_value_keep(key);
    cfx_scope_close(mark);
    if (twice)
        p->problem = cfx__format("the key \"%.*s\" stands twice in an object",
                                 (int)(len < 200 ? len : 200), (const char *)text);
    return !twice;
}

static int enter(parser *p, cfx_value container) {
    if (p->stack.len == CFX__JSON_DEPTH) {
        p->problem = "it is nested too deeply";
        return 0;
    }
    place(p, container);
    VEC_PUSH(p->stack, ((frame){container, cfx_none()}));
    return 1;
}

static int on_object(void *ctx) {
    size_t mark = cfx_scope_open();
    int go_on = enter(ctx, cfx_dict_value(cfx_dict_new()));
    cfx_scope_close(mark);
    return go_on;
}

static int on_array(void *ctx) {
    size_t mark = cfx_scope_open();
    int go_on = enter(ctx, cfx_list_value(0, NULL));
    cfx_scope_close(mark);
    return go_on;
}

static int on_end(void *ctx) {
    ((parser *)ctx)->stack.len--;
    return 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_end,
};

/* ---- parsing --------------------------------------------------------------------------------- */

static void report(yajl_handle y, const parser *p, const char *text, size_t len, const char *what) {
    size_t at = yajl_get_bytes_consumed(y);
    at = at < len ? at : len;
    int64_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    unsigned char *words = yajl_get_error(y, 0, (const unsigned char *)text, len);
    const char *why = p->problem ? p->problem : words ? (const char *)words : "it is cut off";
    const char *colon = strstr(why, "error: ");
    why = colon && !p->problem ? colon + strlen("error: ") : why;
    cfx_fail(CFX_FILE_ERROR, (cfx_where){0}, "%s: line %lld, column %lld: %.*s", what,
             (long long)line, (long long)column, (int)strcspn(why, "\n"), why);
    if (words)
        yajl_free_error(y, words);
}

cfx_value cfx__json_parse(const char *text, size_t len, const char *what) {
    size_t mark = cfx_scope_open();
    parser p = {.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    yajl_handle y = yajl_alloc(&callbacks, NULL, &p);
    bool ok = yajl_parse(y, (const unsigned char *)text, len) == yajl_status_ok &&
              yajl_complete_parse(y) == yajl_status_ok && p.has_root;
    if (!ok) {
        report(y, &p, text, len, what);
        for (size_t i = 0; i < p.stack.len; i++)
            cfx_value_drop(p.stack.data[i].key);
        if (p.has_root)
            cfx_value_drop(p.root);
    }
    yajl_free(y);
    freelocale(p.c_locale);
    VEC_FREE(p.stack);
    cfx_scope_close(mark);
    if (!ok)
        return cfx_bad();
    if (cfx__tag_counted(p.root.tag))
        cfx__scope_own(p.root.obj);
    return p.root;
}

/* ---- writing --------------------------------------------------------------------------------- */

void cfx__json_string(cfx__text *out, const char *text, size_t len) {
    cfx__text_putc(out, '"');
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
            cfx_fail(CFX_TYPE_ERROR, (cfx_where){0}, "keys of JSON objects must be str, not %s",
                     cfx_value_type_name(key));
            return false;
        }
        cfx__json_string(out, key.str->text, key.str->len);
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
    case CFX_TAG_BOOL: cfx__text_puts(out, v.b ? "true" : "false"); return true;
    case CFX_TAG_INT: cfx__text_printf(out, "%lld", (long long)v.i); return true;
    case CFX_TAG_STR: cfx__json_string(out, v.str->text, v.str->len); return true;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return put_list(out, v.list);
    case CFX_TAG_DICT: return put_dict(out, v.dict);
    case CFX_TAG_FLOAT:
        if (isfinite(v.f)) {
            cfx__repr_float(out, v.f);
            return true;
        }
        cfx_fail(CFX_VALUE_ERROR, (cfx_where){0},
                 "Out of range float values are not JSON compliant");
        return false;
    default:
        cfx_fail(CFX_TYPE_ERROR, (cfx_where){0}, "Object of type %s is not JSON serializable",
                 cfx_value_type_name(v));
        return false;
    }
}
