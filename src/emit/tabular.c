/* print_tabular: the table that Python's tabulate makes of the nodes. */
#include "emit.h"

enum { COLUMNS = 5, HEADER_PADDING = 2, LEAST = 200, BLANKS = 64 << 20 };

static const char *const headers[COLUMNS] = {"opcode", "name", "target", "args", "kwargs"};

/* All cells one after the other; widths are in characters, not bytes. */
typedef struct table {
    cfx__text cells;
    VEC(uint32_t) lens, widths;
    size_t column[COLUMNS];
} table;

static bool starts(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

static void put_builtin(cfx__text *out, const char *name) {
    static const char *const types[] = {"bool", "bytes", "complex", "dict", "enumerate", "float",
                                        "int", "list", "map", "object", "range", "reversed", "set",
                                        "slice", "str", "tuple", "type", "zip"};
    for (int i = 0; i < COUNT(types); i++)
        if (!strcmp(name, types[i])) {
            cfx__text_printf(out, "<class '%s'>", name);
            return;
        }
    cfx__text_showf(out, "<built-in function %s>", name);
}

/* A function as Python prints it; its qualified name where that would be an address. */
static void put_function(cfx__text *out, const cfx_target *t) {
    static const char *const builtin[] = {"operator.", "math.", "torch._C."};
    const char *name = t->name;
    if (starts(name, "builtins.")) {
        put_builtin(out, name + strlen("builtins."));
        return;
    }
    for (int i = 0; i < COUNT(builtin); i++)
        if (starts(name, builtin[i])) {
            cfx__text_showf(out, "<built-in function %s>", strrchr(name, '.') + 1);
            return;
        }
    if (cfx__higher_order(name))
        name = cfx__higher_order(name);
    else if (starts(name, "torch.ops."))
        name += strlen("torch.ops.");
    cfx__text_puts_line(out, name);
}

/* What repr() has inside args: nodes by name, operators as objects. */
static void put_other(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        cfx__text_puts(out, cfx_as_node(v)->name);
    } else if (v.tag == CFX_TAG_OP) {
        const char *name = cfx_op_name(cfx_as_op(v)), *dot = strrchr(name, '.');
        cfx__text_printf(out, "<OpOverload(op='%.*s', overload='%s')>", (int)(dot - name), name,
                         dot + 1);
    } else {
        cfx__dispatch_repr(out, v);
    }
}

static void put_cell(cfx__text *out, const cfx_node *n, int column) {
    switch (column) {
    case 0: cfx__text_puts(out, cfx_opcode_name(n->op)); break;
    case 1: cfx__text_puts(out, n->name); break;
    case 2:
        if (n->op == CFX_CALL_FUNCTION)
            put_function(out, &n->target);
        else
            cfx__text_puts_line(out, n->target.name);
        break;
    case 3: cfx__repr_with(out, n->args, put_other); break;
    default:
        if (n->kwargs.tag == CFX_TAG_DICT)
            cfx__repr_with(out, n->kwargs, put_other);
        else
            cfx__text_puts(out, "{}");
    }
}

static size_t characters(const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void fill(table *t, const cfx_graph *g) {
    for (int i = 0; i < COLUMNS; i++)
        t->column[i] = strlen(headers[i]) + HEADER_PADDING;
    cfx_each_node(g, n) {
        for (int i = 0; i < COLUMNS; i++) {
            size_t start = t->cells.len;
            put_cell(&t->cells, n, i);
            size_t len = t->cells.len - start, width = characters(t->cells.data + start, len);
            VEC_PUSH(t->lens, (uint32_t)len);
            VEC_PUSH(t->widths, (uint32_t)width);
            if (width > t->column[i])
                t->column[i] = width;
        }
    }
}

/* One cell as wide as the graph is long would make the table as large as the square of that: where
 * a column needs too many blanks, its widest cells stick out. */
static void narrow(table *t) {
    const size_t rows = t->lens.len / COLUMNS, most = rows ? BLANKS / rows : 0;
    for (int i = 0; i < COLUMNS; i++)
        if (t->column[i] > LEAST && t->column[i] > most)
            t->column[i] = most > LEAST ? most : LEAST;
}

static void pad(cfx__text *out, char c, size_t n) {
    char block[64];
    memset(block, c, sizeof block);
    for (; n; n -= n < sizeof block ? n : sizeof block)
        cfx__text_add(out, block, n < sizeof block ? n : sizeof block);
}

static void trim(cfx__text *out) {
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
}

static void put_header(cfx__text *out, const table *t) {
    for (int i = 0; i < COLUMNS; i++) {
        cfx__text_puts(out, headers[i]);
        pad(out, ' ', t->column[i] - strlen(headers[i]) + 2);
    }
    trim(out);
    cfx__text_putc(out, '\n');
    for (int i = 0; i < COLUMNS; i++) {
        pad(out, '-', t->column[i]);
        if (i < COLUMNS - 1)
            cfx__text_add(out, "  ", 2);
    }
}

const char *cfx_graph_tabular(const cfx_graph *g) {
    if (cfx_failed(g))
        return "";
    table t = {0};
    fill(&t, g);
    narrow(&t);
    cfx__text out = {0};
    put_header(&out, &t);
    const char *cell = t.cells.data;
    for (size_t k = 0; k < t.lens.len; k++) {
        size_t i = k % COLUMNS;
        if (!i)
            cfx__text_putc(&out, '\n');
        cfx__text_add(&out, cell, t.lens.data[k]);
        const size_t width = t.widths.data[k];
        if (i < COLUMNS - 1)
            pad(&out, ' ', (t.column[i] > width ? t.column[i] - width : 0) + 2);
        cell += t.lens.data[k];
    }
    cfx__text_release(&t.cells);
    VEC_FREE(t.lens);
    VEC_FREE(t.widths);
    return cfx__text_take(&out);
}
