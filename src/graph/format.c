/* The text of nodes and graphs, byte for byte what torch.fx prints; but a node is one line whatever
 * its strings hold. */
#include "graph.h"

/* str(v), on one line. */
static void put_str(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_STR)
        cfx__text_line(out, cfx_as_string(v)->text, cfx_as_string(v)->len);
    else
        cfx__str(out, v);
}

static void put_int(cfx__text *out, int64_t i) {
    char digits[24];
    int n = COUNT(digits);
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do
        digits[--n] = (char)('0' + u % 10);
    while ((u /= 10) > 0);
    if (i < 0)
        digits[--n] = '-';
    cfx__text_add(out, digits + n, (size_t)(COUNT(digits) - n));
}

static void format_items(cfx__text *out, const cfx_list *l) {
    for (int64_t i = 0; i < l->len; i++) {
        if (i)
            cfx__text_add(out, ", ", 2);
        cfx__node_format_arg(out, l->items[i]);
    }
}

void cfx__node_format_arg(cfx__text *out, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE:
        cfx__text_putc(out, '%');
        cfx__text_add(out, cfx_as_node(v)->name, cfx__node_of(cfx_as_node(v))->name->len);
        break;
    case CFX_TAG_INT: put_int(out, cfx_integer(v)); break;
    case CFX_TAG_LIST:
        cfx__text_putc(out, '[');
        format_items(out, cfx_as_list(v));
        cfx__text_putc(out, ']');
        break;
    case CFX_TAG_TUPLE:
        cfx__text_putc(out, '(');
        format_items(out, cfx_as_list(v));
        cfx__text_puts(out, cfx_as_list(v)->len == 1 ? ",)" : ")");
        break;
    case CFX_TAG_DICT:
        cfx__text_putc(out, '{');
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            if (i)
                cfx__text_add(out, ", ", 2);
            put_str(out, cfx_as_dict(v)->entries[i].key);
            cfx__text_add(out, ": ", 2);
            cfx__node_format_arg(out, cfx_as_dict(v)->entries[i].value);
        }
        cfx__text_putc(out, '}');
        break;
    default: put_str(out, v);
    }
}

void cfx__node_format(cfx__text *out, const cfx_node *n) {
    if (n->op == CFX_OUTPUT) {
        cfx__text_puts(out, "return ");
        put_str(out, cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none());
        return;
    }
    cfx__text_putc(out, '%');
    cfx__text_add(out, n->name, cfx__node_of(n)->name->len);
    cfx__text_add(out, " : ", 3);
    if (n->type) {
        cfx__text_puts_line(out, n->type);
        cfx__text_putc(out, ' ');
    }
    cfx__text_add(out, "[num_users=", 11);
    put_int(out, n->num_users);
    cfx__text_add(out, "] = ", 4);
    cfx__text_puts(out, cfx_opcode_name(n->op));
    cfx__text_add(out, "[target=", 8);
    if (n->op == CFX_CALL_FUNCTION)
        cfx__target_text(out, n->target);
    else
        cfx__text_puts_line(out, n->target.name);
    cfx__text_putc(out, ']');
    if (n->op == CFX_PLACEHOLDER) {
        if (cfx_as_list(n->args)->len) {
            cfx__text_puts(out, "(default=");
            put_str(out, cfx_as_list(n->args)->items[0]);
            cfx__text_putc(out, ')');
        }
    } else if (n->op != CFX_GET_ATTR) {
        cfx__text_puts(out, "(args = ");
        cfx__node_format_arg(out, n->args);
        cfx__text_puts(out, ", kwargs = ");
        cfx__node_format_arg(out, n->kwargs);
        cfx__text_putc(out, ')');
    }
}

const char *cfx_node_format(const cfx_node *n) {
    cfx__text out = {0};
    if (n && n->graph)
        cfx__node_format(&out, n);
    else
        cfx__text_puts(&out, n ? n->name : "None");
    return cfx__text_take(&out);
}

const char *cfx_graph_str(const cfx_graph *g) {
    if (cfx_failed(g))
        return "";
    cfx__text out = {0};
    cfx__text_puts(&out, "graph():");
    cfx_each_node(g, n) {
        cfx__text_puts(&out, "\n    ");
        cfx__node_format(&out, n);
    }
    return cfx__text_take(&out);
}
