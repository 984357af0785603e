/* Values of a graph as model.json names and describes them, and arguments of calls. */
#include "../value/dict.h"
#include "pt2_write.h"

bool cfx__pt2_write_bad(cfx__pt2_writer *w, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *before = cfx__text_format("cannot write '%s': node '%s' ", w->path,
                                          w->node ? w->node->name : "output");
    if (!w->failed)
        cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    w->failed = true;
    return false;
}

static void put_text(cfx__text *t, const char *text) { cfx__json_string(t, text, strlen(text)); }

/* ---- values ---------------------------------------------------------------------------------- */

cfx_result cfx__pt2_write_result_of(const cfx__pt2_writer *w, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    if (r.kind != CFX_RESULT_UNKNOWN || n->op != CFX_PLACEHOLDER || !w->program)
        return r;
    const cfx_input_spec *spec = cfx_program_input(w->program, n);
    cfx_tensor *t = spec ? cfx_program_tensor(w->program, spec) : NULL;
    return t ? cfx_result_of(cfx_tensor_value(t)) : r;
}

/* {"name": "relu"}, or with another key. */
static void put_name(cfx__text *t, const char *key, const char *name) {
    cfx__text_puts(t, "{\"");
    cfx__text_puts(t, key);
    cfx__text_puts(t, "\": \"");
    cfx__text_puts(t, name);
    cfx__text_puts(t, "\"}");
}

void cfx__pt2_write_name(cfx__text *t, const char *name, const cfx_result *r) {
    static const char *const tags[] = {[CFX_RESULT_INT] = "as_sym_int",
                                       [CFX_RESULT_BOOL] = "as_sym_bool",
                                       [CFX_RESULT_FLOAT] = "as_sym_float"};
    if (r->kind == CFX_RESULT_TENSOR || r->kind == CFX_RESULT_UNKNOWN) {
        cfx__text_puts(t, "{\"as_tensor\": ");
        put_name(t, "name", name);
        cfx__text_putc(t, '}');
    } else if (r->kind != CFX_RESULT_OBJECT) {
        cfx__text_printf(t, "{\"%s\": {\"as_name\": \"%s\"}}", tags[r->kind], name);
    } else {
        cfx__text_printf(t, "{\"as_custom_obj\": {\"name\": \"%s\", \"class_fqn\": ", name);
        put_text(t, cfx_text(cfx_dict_get(cfx_as_dict(r->value), "class_fqn")));
        cfx__text_puts(t, "}}");
    }
}

/* An entry of the table of tensors. The description is that of another node where that has the same
 * result. */
static void add_tensor(cfx__pt2_writer *w, const char *name, const cfx_result *r) {
    uint64_t h = cfx__hash_mix(0, cfx__value_bits(r->value));
    const int i = (int)((h ^ h >> 32) % CFX__PT2_DESCRIBED);
    cfx__pt2_tensor made = {.name = name, .from = w->descriptions.len};
    if (cfx__value_is(w->described[i].of, r->value)) {
        made = w->tensors.data[w->described[i].number];
        made.name = name;
    } else {
        cfx__pt2_put_tensor(&w->descriptions, r);
        made.len = w->descriptions.len - made.from;
        cfx_value_drop(w->described[i].of);
        w->described[i].of = cfx_value_keep(r->value);
        w->described[i].number = w->tensors.len;
    }
    VEC_PUSH(w->tensors, made);
}

bool cfx__pt2_write_result(cfx__pt2_writer *w, cfx__text *out, const char *name,
                           const cfx_result *r, bool bare) {
    cfx__text *const tables[] = {[CFX_RESULT_INT] = &w->ints, [CFX_RESULT_BOOL] = &w->bools,
                                 [CFX_RESULT_FLOAT] = &w->floats,
                                 [CFX_RESULT_OBJECT] = &w->objects};
    if (r->kind == CFX_RESULT_UNKNOWN || r->kind == CFX_RESULT_SEVERAL)
        return cfx__pt2_write_bad(w,
                                  "has no description of its result '%s' (its shape and dtype); "
                                  "cfx_shape_prop makes one",
                                  name);
    if (r->kind == CFX_RESULT_TENSOR) {
        add_tensor(w, name, r);
    } else {
        cfx__text *t = tables[r->kind];
        cfx__pt2_put_key(t, name);
        if (r->kind == CFX_RESULT_OBJECT)
            cfx__json_value(t, r->value);
        else
            cfx__pt2_put_sym(t, r->value);
    }
    if (bare)
        put_name(out, "name", name);
    else
        cfx__pt2_write_name(out, name, r);
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* What the file calls the result of a node; an error where it has no single one there. */
static const char *name_of(cfx__pt2_writer *w, const cfx_node *n) {
    const cfx_node *first = cfx__pt2_first_like(&w->twins, n);
    if (first->graph != w->module->graph || (w->given && !w->given[cfx__node_of(first)->id]))
        cfx__pt2_write_bad(w, "uses '%s' as one value, which its operator does not give",
                           first->name);
    return first->name;
}

static bool put_node(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    if (n->op == CFX_GET_ATTR) {
        const cfx_module *m = cfx_module_find(w->module, n->target.name);
        if (!m || !m->graph)
            return cfx__pt2_write_bad(w,
                                      "uses '%s', which is no graph: only graphs may be attributes "
                                      "in a program",
                                      n->target.name);
        cfx__text_puts(t, "{\"as_graph\": {\"name\": ");
        put_text(t, n->target.name);
        cfx__text_puts(t, ", \"graph\": ");
        bool ok = cfx__pt2_write_subgraph(w, t, m);
        cfx__text_puts(t, "}}");
        return ok;
    }
    cfx_result r = cfx__pt2_write_result_of(w, n);
    if (r.kind == CFX_RESULT_SEVERAL)
        return cfx__pt2_write_bad(w, "uses all results of '%s' at once", n->name);
    cfx__pt2_write_name(t, name_of(w, n), &r);
    return !w->failed;
}

/* What the items of a list have in common, as bits: a list gets the narrowest tag that takes them
 * all. */
enum {
    BOOLS = 1, INTS = 2, FLOATS = 4, STRINGS = 8, SYM_INTS = 16, SYM_BOOLS = 32, SYM_FLOATS = 64,
    TENSORS = 128, OPTIONAL = 256, LISTS = 512
};

static unsigned item_kinds(cfx__pt2_writer *w, cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_BOOL: return BOOLS | SYM_BOOLS;
    case CFX_TAG_INT: return INTS | SYM_INTS;
    case CFX_TAG_FLOAT: return FLOATS | SYM_FLOATS;
    case CFX_TAG_STR: return STRINGS;
    case CFX_TAG_NONE: return OPTIONAL;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return LISTS;
    case CFX_TAG_NODE:
        switch (cfx__pt2_write_result_of(w, cfx_as_node(v)).kind) {
        case CFX_RESULT_INT: return SYM_INTS | TENSORS; /* mixed with tensors they go by name */
        case CFX_RESULT_BOOL: return SYM_BOOLS | TENSORS;
        case CFX_RESULT_FLOAT: return SYM_FLOATS | TENSORS;
        default: return TENSORS | OPTIONAL;
        }
    default: return 0;
    }
}

static void put_item(cfx__pt2_writer *w, cfx__text *t, cfx_value v, unsigned as) {
    if (as & (SYM_INTS | SYM_BOOLS | SYM_FLOATS)) {
        if (v.tag == CFX_TAG_NODE)
            put_name(t, "as_name", name_of(w, cfx_as_node(v)));
        else
            cfx__pt2_put_sym(t, v);
    } else if (as == TENSORS) {
        put_name(t, "name", name_of(w, cfx_as_node(v)));
    } else if (as == OPTIONAL) {
        if (v.tag == CFX_TAG_NODE)
            cfx__text_printf(t, "{\"as_tensor\": {\"name\": \"%s\"}}", name_of(w, cfx_as_node(v)));
        else
            cfx__text_puts(t, "{\"as_none\": true}");
    } else if (as == FLOATS) {
        cfx__pt2_put_float(t, cfx_number(v));
    } else {
        cfx__json_value(t, v);
    }
}

static const struct {
    unsigned kind;
    const char *tag, *nested; /* of a list of those, and of a list of such lists */
} list_tags[] = {
    {BOOLS, "as_bools", NULL},          {INTS, "as_ints", "as_int_lists"},
    {FLOATS, "as_floats", "as_float_lists"}, {STRINGS, "as_strings", NULL},
    {SYM_INTS, "as_sym_ints", NULL},    {SYM_FLOATS, "as_sym_floats", NULL},
    {SYM_BOOLS, "as_sym_bools", NULL},  {TENSORS, "as_tensors", "as_nested_tensors"},
    {OPTIONAL, "as_optional_tensors", NULL},
};

static void put_items(cfx__pt2_writer *w, cfx__text *t, const cfx_list *list, unsigned as) {
    cfx__text_putc(t, '[');
    for (int64_t i = 0; i < list->len; i++) {
        cfx__json_comma(t);
        put_item(w, t, list->items[i], as);
    }
    cfx__text_putc(t, ']');
}

static unsigned common_kinds(cfx__pt2_writer *w, const cfx_list *list) {
    unsigned common = ~0u;
    for (int64_t i = 0; i < list->len; i++)
        common &= item_kinds(w, list->items[i]);
    return common;
}

/* The tag of an empty list, by what the schema wants. */
static const char *empty_tag(const cfx__schema_arg *type) {
    switch (type ? type->type : CFX__T_TENSOR) {
    case CFX__T_BOOL: return "as_bools";
    case CFX__T_INT:
    case CFX__T_SCALAR: return "as_ints";
    case CFX__T_FLOAT: return "as_floats";
    case CFX__T_STR: return "as_strings";
    default: return "as_tensors";
    }
}

static bool put_list(cfx__pt2_writer *w, cfx__text *t, const cfx_list *list,
                     const cfx__schema_arg *type) {
    if (!list->len) {
        cfx__text_printf(t, "{\"%s\": []}", empty_tag(type));
        return true;
    }
    unsigned common = common_kinds(w, list), inner = ~0u;
    for (int64_t i = 0; common == LISTS && i < list->len; i++)
        inner &= common_kinds(w, cfx_as_list(list->items[i]));
    for (int i = 0; i < COUNT(list_tags); i++) {
        bool nested = common == LISTS && list_tags[i].nested && inner & list_tags[i].kind;
        if (!nested && !(common & list_tags[i].kind))
            continue;
        cfx__text_printf(t, "{\"%s\": ", nested ? list_tags[i].nested : list_tags[i].tag);
        if (nested) {
            cfx__text_putc(t, '[');
            for (int64_t k = 0; k < list->len; k++) {
                cfx__json_comma(t);
                put_items(w, t, cfx_as_list(list->items[k]), list_tags[i].kind);
            }
            cfx__text_putc(t, ']');
        } else {
            put_items(w, t, list, list_tags[i].kind);
        }
        cfx__text_putc(t, '}');
        return !w->failed;
    }
    return cfx__pt2_write_bad(w,
                              "has a list of mixed kinds as an argument, for which files have no "
                              "form");
}

bool cfx__pt2_write_argument(cfx__pt2_writer *w, cfx__text *t, cfx_value v,
                             const cfx__schema_arg *type) {
    if (v.tag == CFX_TAG_NODE)
        return put_node(w, t, cfx_as_node(v));
    if (cfx__value_is_sequence(v))
        return put_list(w, t, cfx_as_list(v), type);
    if (v.tag == CFX_TAG_DICT) {
        cfx__text_puts(t, "{\"as_string_to_argument\": {");
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            cfx__json_comma(t);
            put_text(t, cfx_text(cfx_as_dict(v)->entries[i].key)
                            ? cfx_text(cfx_as_dict(v)->entries[i].key)
                            : "?");
            cfx__text_puts(t, ": ");
            if (!cfx__pt2_write_argument(w, t, cfx_as_dict(v)->entries[i].value, NULL))
                return false;
        }
        cfx__text_puts(t, "}}");
        return true;
    }
    return cfx__pt2_put_constant(t, v) ||
           cfx__pt2_write_bad(w, "has an argument of type %s, for which files have no form",
                              cfx_value_type_name(v));
}
