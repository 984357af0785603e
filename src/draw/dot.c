/* The graph as DOT, in the form of torch.fx's FxGraphDrawer: record labels, its colours, one graph
 * for the root and one for each sub-graph. Unlike there everything in a label is escaped. */
#include "draw.h"

typedef struct dotter {
    cfx__text *out;
    const cfx_draw_options *o;
    cfx_graph *g;
    cfx_module *module; /* or NULL */
    bool record;        /* labels are records: fields between bars */
    cfx__text scratch;
    bool ok;
} dotter;

/* ---- text ---------------------------------------------------------------------------------- */

/* What stands between quotes: names, and labels of shapes that are no records. */
static void put_quoted(cfx__text *out, const char *text, size_t len, bool record) {
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '\n') {
            cfx__text_add(out, "\\n", 2);
            continue;
        }
        bool special = c == '"' || c == '\\' || (record && strchr("{}|<>", c) && c);
        if (special || (record && c == ' ' && i && text[i - 1] == ' '))
            cfx__text_putc(out, '\\');
        if ((unsigned char)c >= 0x20 || c == '\t')
            cfx__text_putc(out, c);
    }
}

static void put_name(cfx__text *out, const char *name) {
    cfx__text_putc(out, '"');
    put_quoted(out, name, strlen(name), false);
    cfx__text_putc(out, '"');
}

static void put_text(dotter *d, const char *text) {
    put_quoted(d->out, text, strlen(text), d->record);
}

/* The start of a field: a bar in records. */
static void field(dotter *d) {
    if (d->record)
        cfx__text_putc(d->out, '|');
}

static void put_scratch(dotter *d) {
    put_quoted(d->out, d->scratch.data, d->scratch.len, d->record);
    d->scratch.len = 0;
}

/* ---- labels -------------------------------------------------------------------------------- */

static const char *const colours[] = {
    "CadetBlue1", "Coral",      "DarkOliveGreen1", "DarkSeaGreen1",
    "GhostWhite", "Khaki1",     "LavenderBlush1",  "LightSkyBlue",
    "MistyRose1", "MistyRose2", "PaleTurquoise2",  "PeachPuff1",
    "Salmon",     "Thistle1",   "Thistle3",        "Wheat1"};

static const char *colour_of(dotter *d, const cfx_node *n) {
    switch (n->op) {
    case CFX_PLACEHOLDER:
        return "AliceBlue";
    case CFX_CALL_MODULE:
        return "LemonChiffon1";
    case CFX_GET_ATTR:
        return "LightGrey";
    case CFX_OUTPUT:
        return "PowderBlue";
    default:
        break;
    }
    d->scratch.len = 0;
    cfx__target_text(&d->scratch, n->target);
    uint32_t hash = cfx__draw_md5(d->scratch.data, d->scratch.len);
    d->scratch.len = 0;
    return colours[hash % COUNT(colours)];
}

/* The qualified name: operator's functions are _operator's, builtins have none. */
static void put_target(dotter *d, const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION) {
        put_text(d, n->target.name);
        return;
    }
    cfx__target_text(&d->scratch, n->target);
    if (!strncmp(d->scratch.data, "operator.", 9))
        cfx__text_putc(d->out, '_');
    size_t skip = !strncmp(d->scratch.data, "builtins.", 9) ? 9 : 0;
    put_quoted(d->out, d->scratch.data + skip, d->scratch.len - skip, d->record);
    d->scratch.len = 0;
}

enum { LIST_ITEMS = 8 };

/* An argument as format_node has it; of a long list the first items. */
static void format_value(cfx__text *out, cfx_value v) {
    bool list = v.tag == CFX_TAG_LIST;
    if ((!list && v.tag != CFX_TAG_TUPLE) || cfx_as_list(v)->len <= LIST_ITEMS) {
        cfx__node_format_arg(out, v);
        return;
    }
    cfx__text_putc(out, list ? '[' : '(');
    for (int i = 0; i < LIST_ITEMS; i++) {
        if (i)
            cfx__text_add(out, ", ", 2);
        cfx__node_format_arg(out, cfx_as_list(v)->items[i]);
    }
    cfx__text_printf(out, ", ...[total_len=%lld]%c", (long long)cfx_as_list(v)->len,
                     list ? ']' : ')');
}

/* One of args or kwargs: written when there is something to say. */
typedef struct listing {
    dotter *d;
    const char *head, *tail;
    int n, total;
} listing;

static void put_entry(listing *l, const char *key, cfx_value v, bool count) {
    cfx__text *t = &l->d->scratch;
    t->len = 0;
    if (key)
        cfx__text_printf(t, "%s: ", key);
    format_value(t, v);
    bool skip = !l->d->o->node_names_in_args && memchr(t->data, '%', t->len);
    if (skip || count) {
        l->total += !skip;
        t->len = 0;
        return;
    }
    bool one = l->total == 1;
    if (!l->n++) {
        field(l->d);
        cfx__text_puts(l->d->out, l->head);
        cfx__text_puts(l->d->out, one ? "" : "\\l");
    } else {
        cfx__text_puts(l->d->out, ",\\n");
    }
    put_scratch(l->d);
    if (l->n == l->total) {
        cfx__text_puts(l->d->out, one ? "," : ",\\n");
        cfx__text_puts(l->d->out, l->tail);
        cfx__text_puts(l->d->out, one ? "" : "\\l");
    }
}

/* The arguments of an overload by the names of its schema, with the defaults that were left out. */
static cfx_value normalized(const cfx_node *n) {
    const cfx__schema *s = cfx__op_info_of(n->target.op)->schema;
    cfx_dict *all = cfx_dict_new();
    for (int i = 0; i < s->nargs; i++) {
        const cfx_value *given =
            cfx_dict_find(cfx_as_dict(n->kwargs), cfx_string_value(s->args[i].name));
        cfx_dict_set(all, s->args[i].name,
                     i < cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[i]
                     : given               ? *given
                                           : s->args[i].fallback);
    }
    return cfx_dict_value(all);
}

static void put_args(dotter *d, const cfx_node *n) {
    bool names =
        d->o->normalize_args && n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn;
    cfx_value kwargs = names ? normalized(n) : n->kwargs;
    listing args = {d, "args=(", ")", 0, 0};
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; !names && i < cfx_as_list(n->args)->len; i++)
            put_entry(&args, NULL, cfx_as_list(n->args)->items[i], pass == 0);
    listing kw = {d, d->record ? "kwargs=\\{" : "kwargs={", d->record ? "\\}" : "}", 0, 0};
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < cfx_as_dict(kwargs)->len; i++)
            put_entry(&kw, cfx_text(cfx_as_dict(kwargs)->entries[i].key),
                      cfx_as_dict(kwargs)->entries[i].value, pass == 0);
}

/* torch.nn's __constants__ where they come in another order than a layer's attributes. */
static const char *const constants[][12] = {
    {"Conv*", "stride", "padding", "dilation", "groups", "padding_mode", "output_padding",
     "in_channels", "out_channels", "kernel_size"},
    {"BatchNorm*", "track_running_stats", "momentum", "eps", "num_features", "affine"},
    {"MaxPool*", "kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"},
    {"Embedding", "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
     "scale_grad_by_freq", "sparse"},
};

static void put_constant(dotter *d, const char *name, cfx_value v, bool *any) {
    if (*any)
        cfx__text_puts(d->out, "\\n");
    *any = true;
    put_text(d, name);
    cfx__text_puts(d->out, ": ");
    put_text(d, cfx_value_str(v));
}

/* The constants of a layer of torch.nn, one a line: "in_features: 4". */
static void put_constants(dotter *d, const cfx_module *m) {
    bool any = false;
    if (!m->path || strncmp(m->path, "torch.nn.", 9))
        return;
    for (int i = 0; i < COUNT(constants); i++) {
        if (!cfx__text_glob(constants[i][0], m->type))
            continue;
        for (int k = 1; k < COUNT(constants[i]) && constants[i][k]; k++)
            if (cfx_module_has(m, constants[i][k]))
                put_constant(d, constants[i][k], cfx_module_attr(m, constants[i][k]), &any);
        return;
    }
    for (int64_t i = 0; i < m->attrs->len; i++)
        put_constant(d, cfx_text(m->attrs->entries[i].key), m->attrs->entries[i].value, &any);
}

static void put_field_value(dotter *d, const char *name, cfx_value v) {
    if (v.tag == CFX_TAG_NONE)
        return;
    field(d);
    cfx__text_printf(d->out, "%s=", name);
    if (v.tag == CFX_TAG_LIST)
        v = cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
    cfx__node_format_arg(&d->scratch, v);
    put_scratch(d);
    cfx__text_puts(d->out, "\\n");
}

/* What is known of the result: tensor_meta, or the fake tensor of an exported graph. */
static void put_meta(dotter *d, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    cfx_value meta = cfx_node_get_meta(n, "tensor_meta"), val = r.value;
    if (meta.tag != CFX_TAG_DICT && val.tag == CFX_TAG_DICT)
        meta = val;
    if (meta.tag == CFX_TAG_DICT) {
        static const char *const keys[] = {"dtype", "shape", "requires_grad", "stride"};
        for (int i = 0; i < COUNT(keys); i++)
            put_field_value(d, keys[i], cfx_dict_get(cfx_as_dict(meta), keys[i]));
    } else if (r.kind == CFX_RESULT_TENSOR) {
        put_field_value(d, "dtype", cfx_dtype_value(r.dtype));
        put_field_value(d, "shape", cfx_ints_value(r.ndim, r.shape));
        put_field_value(d, "stride", cfx_ints_value(r.ndim, r.stride));
    }
}

/* The innermost frame of a stack trace with its line of code: "dir/file.py:12 x = f(x)". */
static void put_file(dotter *d, const cfx_node *n) {
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    const char *file = NULL, *code = NULL;
    size_t len, code_len = 0;
    for (const char *at = trace, *next; (next = cfx__draw_next_line(at, &len)); at = next) {
        const char *text = at + strspn(at, " ");
        if (!strncmp(text, "File \"", 6)) {
            file = text + 6;
            code = NULL;
        } else if (file && !code) {
            code = text;
            code_len = (size_t)(at + len - text);
        }
    }
    if (!file || !code)
        return;
    size_t path = strcspn(file, "\""), from = path;
    for (int dirs = 0; from > 0 && dirs < 2; from--)
        if (file[from - 1] == '/' && ++dirs == 2)
            break;
    const char *line = strstr(file + path, "line ");
    field(d);
    cfx__text_puts(d->out, "file=");
    put_quoted(d->out, file + from, path - from, d->record);
    cfx__text_printf(d->out, ":%ld ", line ? strtol(line + 5, NULL, 10) : 0L);
    put_quoted(d->out, code, code_len, d->record);
    cfx__text_puts(d->out, "\\n");
}

static void put_label(dotter *d, const cfx_node *n, const cfx_node_style *style) {
    cfx__text_puts(d->out, d->record ? "{name=%" : "name=%");
    put_text(d, n->name);
    if (d->record)
        cfx__text_putc(d->out, '|');
    else
        cfx__text_puts(d->out, "\\n");
    cfx__text_printf(d->out, "op_code=%s\\n", cfx_opcode_name(n->op));
    if (n->op == CFX_CALL_MODULE) {
        const cfx_module *m = d->module ? cfx_module_find(d->module, n->target.name) : NULL;
        cfx__text_puts(d->out, "\\n");
        put_text(d, m ? m->path ? m->path : m->type : n->target.name);
        cfx__text_puts(d->out, "\\n");
        field(d);
        if (m)
            put_constants(d, m);
        cfx__text_puts(d->out, "\\n");
    } else {
        field(d);
        cfx__text_puts(d->out, "target=");
        put_target(d, n);
        cfx__text_puts(d->out, "\\n");
        put_args(d, n);
        field(d);
        cfx__text_printf(d->out, "num_users=%d\\n", n->num_users);
    }
    put_meta(d, n);
    if (d->o->parse_stack_trace)
        put_file(d, n);
    size_t len;
    for (const char *at = style->lines, *next; (next = cfx__draw_next_line(at, &len)); at = next) {
        field(d);
        put_quoted(d->out, at, len, d->record);
        cfx__text_puts(d->out, "\\n");
    }
    if (d->record)
        cfx__text_putc(d->out, '}');
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void put_attributes(dotter *d, const char *fill) {
    cfx__text_printf(d->out, "\", shape=\"%s\", style=\"filled,rounded\", fillcolor=\"%s\", ",
                     d->o->dot_graph_shape ? d->o->dot_graph_shape : "record", fill);
    cfx__text_puts(d->out, "fontcolor=\"#000000\"];\n");
}

/* A leaf module's parameters and buffers as nodes of their own. */
static void put_leaf(dotter *d, const cfx_node *n, const cfx_module *m) {
    for (int k = 0; k < 2; k++) {
        const cfx_dict *all = k ? cfx_module_named_buffers(m) : cfx_module_named_parameters(m);
        for (int64_t i = 0; i < all->len; i++) {
            const char *own = cfx__text_format("%s.%s", n->name, cfx_text(all->entries[i].key));
            put_name(d->out, own);
            cfx__text_puts(d->out, d->record ? " [label=\"{" : " [label=\"");
            put_text(d, own);
            field(d);
            cfx__text_puts(d->out, k ? "op_code=get_buffer\\l" : "op_code=get_parameter\\l");
            const cfx_tensor *t = cfx_as_tensor(all->entries[i].value);
            cfx__text_printf(d->out, "torch.%s", cfx_dtype_name(cfx_tensor_dtype(t)));
            cfx__repr(d->out, cfx_ints_value(cfx_tensor_ndim(t), cfx_tensor_shape(t)));
            cfx__text_puts(d->out, d->record ? "\\n}" : "\\n");
            put_attributes(d, "Salmon");
            put_name(d->out, own);
            cfx__text_puts(d->out, " -> ");
            put_name(d->out, n->name);
            cfx__text_puts(d->out, ";\n");
        }
    }
}

static void put_node(dotter *d, const cfx_node *n) {
    cfx_node_style style = {0};
    if (d->o->style)
        d->o->style(n, &style, d->o->user);
    if (style.fill && !cfx__draw_is_colour(style.fill)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s', wanted for node %s, is no colour",
                 style.fill, n->name);
        d->ok = false;
        return;
    }
    put_name(d->out, n->name);
    cfx__text_puts(d->out, " [label=\"");
    put_label(d, n, &style);
    put_attributes(d, style.fill ? style.fill : colour_of(d, n));
    const cfx_module *m =
        n->op == CFX_CALL_MODULE && d->module ? cfx_module_find(d->module, n->target.name) : NULL;
    if (m && !m->graph && !d->o->ignore_parameters_and_buffers)
        put_leaf(d, n, m);
}

static void put_graph(dotter *d, const char *name) {
    cfx__text_puts(d->out, "digraph ");
    put_name(d->out, name);
    cfx__text_puts(d->out, " {\nrankdir=TB;\n");
    bool skip = d->o->ignore_getattr;
    cfx_each_node(d->g, n) {
        size_t mark = cfx_scope_open();
        if (d->ok && !(skip && n->op == CFX_GET_ATTR))
            put_node(d, n);
        cfx_scope_close(mark);
    }
    cfx_each_node(d->g, n) {
        if (skip && n->op == CFX_GET_ATTR)
            continue;
        cfx_each_user(n, u) {
            put_name(d->out, n->name);
            cfx__text_puts(d->out, " -> ");
            put_name(d->out, u->user->name);
            cfx__text_puts(d->out, ";\n");
        }
    }
    cfx__text_puts(d->out, "}\n");
}

static bool write(cfx__text *out, cfx_graph *g, cfx_module *gm, const char *name,
                  const cfx_draw_options *o, int deep) {
    const char *shape = o->dot_graph_shape;
    dotter d = {.out = out,
                .o = o,
                .g = g,
                .module = gm,
                .record = !shape || !strcmp(shape, "record") || !strcmp(shape, "Mrecord"),
                .ok = true};
    put_graph(&d, name);
    cfx__text_release(&d.scratch);
    cfx__map done = {0};
    cfx_each_node(g, n) { /* each sub-graph once, however often it is called */
        cfx_module *m = d.ok && deep < CFX__MAX_NESTING ? cfx__draw_subgraph(gm, n) : NULL;
        if (!m || cfx__map_get(&done, n->target.name))
            continue;
        cfx__map_set(&done, n->target.name, m);
        d.ok =
            write(out, m->graph, m, cfx__text_format("%s_%s", name, n->target.name), o, deep + 1);
    }
    cfx__map_release(&done);
    return d.ok;
}

bool cfx__draw_write_dot(cfx__text *out, cfx_graph *g, cfx_module *gm, const char *name,
                         const cfx_draw_options *o) {
    for (const char *c = o->dot_graph_shape; c && *c; c++)
        if (!cfx__emit_is_word(*c)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is no shape that graphviz knows",
                     o->dot_graph_shape);
            return false;
        }
    return write(out, g, gm, name, o, 0);
}
