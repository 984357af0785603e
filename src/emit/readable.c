/* print_readable: code with the shape of every value and the source line it came from, one class
 * for the module and one, indented, for each child that is a graph itself. */
#include "emit.h"

/* ---- shapes --------------------------------------------------------------------------------- */

typedef cfx_value size_fn(const cfx_result *r, int dim);

static void put_sizes(cfx__emit_writer *w, const cfx_result *r, size_fn *size,
                      cfx__emit_color color) {
    cfx__emit_paint(w, color);
    cfx__text_putc(w->out, '[');
    for (int i = 0; i < r->ndim; i++) {
        if (i)
            cfx__text_add(w->out, ", ", 2);
        cfx__repr(w->out, size(r, i));
    }
    cfx__text_putc(w->out, ']');
    cfx__emit_unpaint(w);
}

static void put_tensor(cfx__emit_writer *w, const cfx_result *r, const cfx_readable_options *o) {
    cfx__emit_paint(w, CFX__RED);
    cfx__text_puts(w->out, cfx_dtype_brief(r->dtype));
    cfx__emit_unpaint(w);
    put_sizes(w, r, cfx_result_size, CFX__BLUE);
    if (o->include_stride) {
        put_sizes(w, r, cfx_result_stride, CFX__DIM_BLUE);
    } else {
        cfx__emit_paint(w, CFX__DIM_BLUE);
        cfx__emit_unpaint(w);
    }
    cfx__emit_paint(w, CFX__DIM_GREEN);
    if (o->include_device)
        cfx__device_str(w->out, r->device);
    cfx__emit_unpaint(w);
}

/* A tensor, Sym(s0), several in brackets, or a plain value. */
static void put_result(cfx__emit_writer *w, const cfx_result *r, const cfx_readable_options *o) {
    bool list = r->value.tag == CFX_TAG_LIST;
    if (r->kind == CFX_RESULT_TENSOR) {
        put_tensor(w, r, o);
    } else if (r->kind == CFX_RESULT_SEVERAL) {
        cfx__text_putc(w->out, list ? '[' : '(');
        for (int64_t i = 0; i < cfx_result_count(r); i++) {
            cfx_result item = cfx_result_item(r, i);
            cfx__text_puts(w->out, i ? ", " : "");
            put_result(w, &item, o);
        }
        cfx__text_putc(w->out, list ? ']' : ')');
    } else if (r->value.tag == CFX_TAG_SYM || r->value.tag == CFX_TAG_STR) {
        cfx__text_showf(w->out, "Sym(%s)", cfx_value_str(r->value));
    } else {
        cfx__repr(w->out, r->value);
    }
}

static void put_shape(cfx__emit_writer *w, const cfx_result *r,
                           const cfx_readable_options *o) {
    cfx__text_puts(w->out, ": \"");
    put_result(w, r, o);
    cfx__text_putc(w->out, '"');
}

bool cfx__emit_shape(cfx__emit_writer *w, const cfx_node *n, const cfx_readable_options *o) {
    if (!n->meta)
        return false;
    cfx_result r = cfx_node_result(n);
    cfx_value meta = cfx_is_none(r.value) ? cfx_node_get_meta(n, "tensor_meta") : cfx_none();
    if (meta.tag == CFX_TAG_DICT) { /* of which PyTorch shows the shape alone */
        cfx__emit_writer plain = {.out = w->out};
        static const cfx_readable_options bare = {0};
        r = cfx_result_of(meta);
        if (r.kind == CFX_RESULT_TENSOR)
            put_shape(&plain, &r, &bare);
        return r.kind == CFX_RESULT_TENSOR;
    }
    if (cfx_is_none(r.value))
        r = cfx_result_of(cfx_node_get_meta(n, "example_value"));
    /* a text is an expression that no value holds, "u0 <= 8"; or, in a placeholder, a string */
    bool symbol = r.value.tag == CFX_TAG_SYM ||
                  (r.value.tag == CFX_TAG_STR && n->op != CFX_PLACEHOLDER);
    bool shown = symbol || r.kind == CFX_RESULT_TENSOR ||
                 (o->include_several && r.kind == CFX_RESULT_SEVERAL);
    if (shown)
        put_shape(w, &r, o);
    return shown;
}

/* ---- comments ------------------------------------------------------------------------------- */

typedef struct piece {
    const char *text;
    size_t len;
} piece;

/* The next line of a text, without blanks around it. */
static bool next_line(const char **at, piece *line) {
    const char *p = *at;
    if (!*p)
        return false;
    size_t n = strcspn(p, "\n");
    *at = p + n + (p[n] == '\n');
    while (n && strchr(" \t\r", *p))
        p++, n--;
    while (n && strchr(" \t\r", p[n - 1]))
        n--;
    *line = (piece){p, n};
    return true;
}

/* File "model.py", line 12, in forward: the three parts. */
static bool parse_frame(piece line, piece *file, piece *number, piece *name) {
    static const char head[] = "File \"", line_[] = "\", line ", in[] = ", in ";
    if (line.len < strlen(head) || memcmp(line.text, head, strlen(head)))
        return false;
    const char *p = line.text + strlen(head), *end = line.text + line.len;
    for (const char *q = end - 1; q > p; q--) { /* the last place where the rest fits */
        size_t left = (size_t)(end - q);
        if (left <= strlen(line_) || memcmp(q, line_, strlen(line_)))
            continue;
        const char *d = q + strlen(line_), *digits = d;
        while (d < end && *d >= '0' && *d <= '9')
            d++;
        if (d == digits || (size_t)(end - d) <= strlen(in) || memcmp(d, in, strlen(in)))
            continue;
        *file = (piece){p, (size_t)(q - p)};
        *number = (piece){digits, (size_t)(d - digits)};
        d += strlen(in);
        *name = (piece){d, (size_t)(end - d)};
        return true;
    }
    return false;
}

/* The innermost frame of a stack trace that is followed by its line of code. */
static void put_source(cfx__text *out, const char *trace) {
    piece line, file, number, name, best[4] = {{0}};
    bool pending = false, found = false;
    for (const char *at = trace; next_line(&at, &line);) {
        if (pending) {
            best[0] = file, best[1] = number, best[2] = name, best[3] = line;
            found = true;
        }
        pending = parse_frame(line, &file, &number, &name);
    }
    if (!found) {
        cfx__text_puts(out, "No stacktrace found for following nodes");
        return;
    }
    static const char *const before[] = {"File: ", ":", " in ", ", code: "};
    for (int i = 0; i < 4; i++) {
        cfx__text_puts(out, before[i]);
        size_t from = out->len;
        cfx__text_add(out, best[i].text, best[i].len);
        cfx__text_show(out, from);
    }
}

enum { LONGEST_ANNOTATION = 40 };

static void put_annotation(cfx__text *out, cfx_value custom) {
    if (custom.tag != CFX_TAG_DICT || !cfx_as_dict(custom)->len)
        return;
    cfx_dict *shown = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(custom)->len; i++) {
        cfx_value v = cfx_as_dict(custom)->entries[i].value;
        const char *text = cfx_value_str(v);
        if (strlen(text) > LONGEST_ANNOTATION)
            v = cfx_string_value(cfx__text_format("%.*s...", LONGEST_ANNOTATION, text));
        cfx_dict_put(shown, cfx_as_dict(custom)->entries[i].key, v);
    }
    cfx__text_puts(out, " Annotation: ");
    cfx__repr(out, cfx_dict_value(shown));
}

static void put_additional(cfx__text *out, const cfx_node *n, const char *const *keys) {
    bool any = false;
    for (; keys && *keys; keys++) {
        cfx_value v = cfx_node_get_meta(n, *keys);
        if (cfx_is_none(v))
            continue;
        cfx__text_puts(out, any ? ", " : "# ");
        cfx__text_showf(out, "%s: %s", *keys, cfx_value_str(v));
        any = true;
    }
    if (any)
        cfx__text_putc(out, ' ');
}

void cfx__emit_summary(cfx__emit_writer *w, const cfx_node *n, const cfx_readable_options *o,
                       int indent, cfx__text *last) {
    size_t mark = cfx_scope_open();
    cfx__text now = {0};
    if (n->meta)
        put_additional(&now, n, o->additional_meta);
    cfx__text_putc(&now, '#');
    if (n->meta)
        put_annotation(&now, cfx_node_get_meta(n, "custom"));
    cfx__text_putc(&now, ' ');
    const char *trace = n->meta ? cfx_text(cfx_node_get_meta(n, "stack_trace")) : NULL;
    put_source(&now, trace ? trace : "");
    if (last->len == now.len && !memcmp(last->data, now.data, now.len)) {
        cfx__text_release(&now);
    } else {
        cfx__text_printf(w->out, "\n%*s", indent, "");
        cfx__emit_paint(w, CFX__DIM);
        cfx__text_add(w->out, now.data, now.len);
        cfx__emit_unpaint(w);
        cfx__text_putc(w->out, '\n');
        cfx__text_release(last);
        *last = now;
    }
    cfx_scope_close(mark);
}

/* ---- classes -------------------------------------------------------------------------------- */

enum { DEEPEST = 100 }; /* of modules in modules: those below are left out */

/* What a class or a child is called; in quotes where it could not be read otherwise. */
static void put_name(cfx__text *out, const char *name) {
    size_t from = out->len;
    cfx__text_puts_line(out, name);
    if (*name && !strchr(name, '"') && !strchr(name, '(') && !strcmp(out->data + from, name))
        return;
    out->len = from;
    cfx__repr_quoted(out, name, strlen(name), '"');
}

static void put_class(cfx__text *out, const cfx_module *m, const char *name,
                      const cfx_readable_options *o, int depth) {
    cfx__text_printf(out, "%*sclass ", 4 * depth, "");
    put_name(out, name);
    cfx__text_puts(out, "(torch.nn.Module):\n");
    cfx__emit_code(out, m->graph, o, 4 * depth + 8, NULL);
    for (int i = 0; depth < DEEPEST && i < cfx_module_count(m); i++) {
        const cfx_module *child = cfx_module_child(m, i);
        if (!child->graph)
            continue;
        cfx__text_putc(out, '\n');
        put_class(out, child, cfx_module_child_name(m, i), o, depth + 1);
    }
}

const char *cfx_module_readable(const cfx_module *gm, cfx_readable_options options) {
    if (!cfx__emit_wants_graph(gm, "print_readable"))
        return "";
    cfx__text out = {0};
    put_class(&out, gm, gm->type, &options, 0);
    return cfx__text_take(&out);
}
