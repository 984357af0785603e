/* A program as JSON: nodes, signature and ranges. A node in an argument is {"node": name}, what
 * JSON has no form for is {"repr": Python's text}. Sub-graphs are under "graphs". */
#include "emit.h"

#include <math.h>

#include "../value/json.h"

static void put_text(cfx__text *out, const char *text) {
    if (text)
        cfx__json_string(out, text, strlen(text));
    else
        cfx__text_puts(out, "null");
}

static void put_wrapped(cfx__text *out, const char *key, const char *text) {
    cfx__text_printf(out, "{\"%s\":", key);
    put_text(out, text);
    cfx__text_putc(out, '}');
}

static void put_value(cfx__text *out, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE:
        put_wrapped(out, "node", cfx_as_node(v)->name);
        return;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        cfx__text_putc(out, '[');
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            if (i)
                cfx__text_putc(out, ',');
            put_value(out, cfx_as_list(v)->items[i]);
        }
        cfx__text_putc(out, ']');
        return;
    case CFX_TAG_DICT:
        cfx__text_putc(out, '{');
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            if (i)
                cfx__text_putc(out, ',');
            put_text(out, cfx_value_str(cfx_as_dict(v)->entries[i].key));
            cfx__text_putc(out, ':');
            put_value(out, cfx_as_dict(v)->entries[i].value);
        }
        cfx__text_putc(out, '}');
        return;
    case CFX_TAG_FLOAT:
        if (!isfinite(cfx_number(v))) {
            put_wrapped(out, "repr", cfx_value_repr(v));
            return;
        }
        /* fall through */
    case CFX_TAG_NONE:
    case CFX_TAG_BOOL:
    case CFX_TAG_INT:
    case CFX_TAG_STR:
        cfx__json_value(out, v);
        return;
    default:
        put_wrapped(out, "repr", cfx_value_repr(v));
    }
}

/* "key":text, where there is one. */
static void put_field(cfx__text *out, const char *key, const char *text) {
    if (!text)
        return;
    cfx__text_printf(out, ",\"%s\":", key);
    put_text(out, text);
}

static void put_result(cfx__text *out, cfx_value v) {
    cfx_result r = cfx_result_of(v);
    put_field(out, "val", cfx_result_text(&r));
}

/* What a node computes, where that is noted. */
static void put_noted(cfx__text *out, const cfx_node *n) {
    cfx_value val = n ? cfx_node_result(n).value : cfx_none();
    if (!cfx_is_none(val))
        put_result(out, val);
}

static void put_node(cfx__text *out, const cfx_node *n) {
    cfx__text target = {0};
    cfx__target_text(&target, n->target);
    cfx__text_puts(out, "{\"name\":");
    put_text(out, n->name);
    cfx__text_printf(out, ",\"op\":\"%s\"", cfx_opcode_name(n->op));
    put_field(out, "target", target.data);
    cfx__text_puts(out, ",\"args\":");
    put_value(out, n->args);
    cfx__text_puts(out, ",\"kwargs\":");
    put_value(out, n->kwargs);
    cfx__text_puts(out, ",\"users\":[");
    bool any = false;
    cfx_each_user(n, u) {
        if (any)
            cfx__text_putc(out, ',');
        put_text(out, u->user->name);
        any = true;
    }
    cfx__text_putc(out, ']');
    put_noted(out, n);
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag == CFX_TAG_DICT && cfx_as_dict(stack)->len) {
        cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
        if (last.tag == CFX_TAG_TUPLE && cfx_as_list(last)->len == 2) {
            put_field(out, "module", cfx_text(cfx_as_list(last)->items[0]));
            put_field(out, "module_type", cfx_text(cfx_as_list(last)->items[1]));
        }
    }
    put_field(out, "stack_trace", cfx_text(cfx_node_get_meta(n, "stack_trace")));
    cfx__text_putc(out, '}');
    cfx__text_release(&target);
}

const char *cfx__node_json(const cfx_node *n) {
    cfx__text out = {0};
    put_node(&out, n);
    return cfx__text_take(&out);
}

static void put_graph(cfx__text *out, const cfx_module *m) {
    cfx__text_puts(out, "\"nodes\":[");
    bool any = false;
    cfx_each_node(m->graph, n) {
        size_t mark = cfx_scope_open();
        cfx__text_puts(out, any ? ",\n" : "\n");
        put_node(out, n);
        any = true;
        cfx_scope_close(mark);
    }
    cfx__text_puts(out, "\n],\"graphs\":{");
    any = false;
    for (int i = 0; i < cfx_module_count(m); i++) {
        const cfx_module *child = cfx_module_child(m, i);
        if (!child->graph)
            continue;
        cfx__text_puts(out, any ? ",\n" : "\n");
        put_text(out, cfx_module_child_name(m, i));
        cfx__text_puts(out, ":{");
        put_graph(out, child);
        cfx__text_putc(out, '}');
        any = true;
    }
    cfx__text_putc(out, '}');
}

/* "buffer_mutation": the kind as PyTorch names it, in small letters. */
static void put_kind(cfx__text *out, const char *name) {
    cfx__text_puts(out, "{\"kind\":\"");
    for (; *name; name++)
        cfx__text_putc(out, *name == '_' ? '_' : (char)(*name - 'A' + 'a'));
    cfx__text_putc(out, '"');
}

static void put_input(cfx__text *out, const cfx_program *p, const cfx_input_spec *s) {
    const cfx_tensor *t = cfx_program_tensor(p, s);
    put_kind(out, cfx__kind_name(true, s->kind));
    put_field(out, "name", s->name);
    put_field(out, "target", s->target);
    if (s->kind == CFX_IN_BUFFER)
        cfx__text_printf(out, ",\"persistent\":%s", s->persistent ? "true" : "false");
    if (s->constant) {
        cfx__text_puts(out, ",\"value\":");
        put_value(out, s->value);
    }
    if (t) {
        put_result(out, cfx_tensor_value(t));
        cfx__text_printf(out, ",\"bytes\":%lld",
                         (long long)(t->numel * cfx_dtype_size((cfx_dtype)t->dtype)));
    } else {
        put_noted(out, cfx_graph_find(p->module->graph, s->name));
    }
    cfx__text_putc(out, '}');
}

static void put_output(cfx__text *out, const cfx_program *p, const cfx_output_spec *s) {
    put_kind(out, cfx__kind_name(false, s->kind));
    put_field(out, "name", s->name);
    put_field(out, "target", s->target);
    if (!s->name) {
        cfx__text_puts(out, ",\"value\":");
        put_value(out, s->value);
    }
    put_noted(out, cfx_graph_find(p->module->graph, s->name));
    cfx__text_putc(out, '}');
}

static void put_signature(cfx__text *out, const cfx_program *p) {
    cfx__text_puts(out, "\"inputs\":[");
    for (int i = 0; i < p->ninputs; i++) {
        size_t mark = cfx_scope_open();
        cfx__text_puts(out, i ? ",\n" : "\n");
        put_input(out, p, &p->inputs[i]);
        cfx_scope_close(mark);
    }
    cfx__text_puts(out, "\n],\"outputs\":[");
    for (int i = 0; i < p->noutputs; i++) {
        size_t mark = cfx_scope_open();
        cfx__text_puts(out, i ? ",\n" : "\n");
        put_output(out, p, &p->outputs[i]);
        cfx_scope_close(mark);
    }
    cfx__text_puts(out, "\n],\"ranges\":");
    put_value(out, cfx_dict_value(p->ranges));
}

const char *cfx_program_json(const cfx_program *p) {
    if (cfx_failed(p) || !cfx_program_sync(p))
        return "";
    cfx__text out = {0};
    cfx__text_putc(&out, '{');
    put_signature(&out, p);
    cfx__text_putc(&out, ',');
    put_graph(&out, p->module);
    cfx__text_puts(&out, "}\n");
    return cfx__text_take(&out);
}
