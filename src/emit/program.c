/* print(program): the graph as print_readable shows it, the signature, and the ranges of symbols.
 */
#include "../base/given.h"
#include "emit.h"

static const char *const input_kinds[] = {
    [CFX_IN_USER] = "USER_INPUT",   [CFX_IN_PARAMETER] = "PARAMETER",
    [CFX_IN_BUFFER] = "BUFFER",     [CFX_IN_CONSTANT] = "CONSTANT_TENSOR",
    [CFX_IN_OBJECT] = "CUSTOM_OBJ", [CFX_IN_TOKEN] = "TOKEN",
};

static const char *const output_kinds[] = {
    [CFX_OUT_USER] = "USER_OUTPUT",
    [CFX_OUT_LOSS] = "LOSS_OUTPUT",
    [CFX_OUT_BUFFER_MUTATION] = "BUFFER_MUTATION",
    [CFX_OUT_PARAMETER_MUTATION] = "PARAMETER_MUTATION",
    [CFX_OUT_INPUT_MUTATION] = "USER_INPUT_MUTATION",
    [CFX_OUT_PARAMETER_GRADIENT] = "GRADIENT_TO_PARAMETER",
    [CFX_OUT_INPUT_GRADIENT] = "GRADIENT_TO_USER_INPUT",
    [CFX_OUT_TOKEN] = "TOKEN",
};

/* Adds a text, four columns further in from its second line on: all lines, as Python's replace does
 * it, or those that hold something. */
static void put_indented(cfx__text *out, const char *text, bool all) {
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        cfx__text_add(out, text, (size_t)(end - text));
        cfx__text_puts(out, all || (end[1] && end[1] != '\n') ? "\n    " : "\n");
    }
    cfx__text_puts(out, text);
}

const char *cfx__kind_name(bool input, int kind) {
    return input ? input_kinds[kind] : output_kinds[kind];
}

int cfx__parse_kind(bool input, const char *text, size_t len) {
    const char *const *kinds = input ? input_kinds : output_kinds;
    int n = input ? COUNT(input_kinds) : COUNT(output_kinds);
    for (int i = 0; i < n; i++)
        if (strlen(kinds[i]) == len && !memcmp(kinds[i], text, len))
            return i;
    return -1;
}

/* What PyTorch does not print of an input: the value of one that is a constant, and whether a
 * tensor wants a gradient where that is not as usual. */
static void put_more(cfx__text *out, const cfx_program *p, const cfx_input_spec *s) {
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
    if (s->constant)
        cfx__text_printf(out, " value=%s", cfx_value_repr(s->value));
    if (r.kind == CFX_RESULT_TENSOR && r.requires_grad != cfx__input_learns(s->kind, r.dtype))
        cfx__text_printf(out, " requires_grad=%s", r.requires_grad ? "True" : "False");
}

/* " target='fc.weight'": between quotes as PyTorch prints it, or, to be read, as a string. */
static void put_target(cfx__text *out, const char *target, bool read) {
    if (!target)
        return;
    cfx__text_puts(out, read ? " target=" : " target='");
    if (read)
        cfx__repr_string(out, target, strlen(target));
    else
        cfx__text_showf(out, "%s'", target);
}

/* Both lists, with `more` for a text that is read again. */
static void put_signature(cfx__text *out, const cfx_program *p, bool more) {
    cfx__text_puts(out, "\n# inputs\n");
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        cfx__text_showf(out, "%s: %s", s->name, input_kinds[s->kind]);
        put_target(out, s->target, more);
        if (s->kind == CFX_IN_BUFFER)
            cfx__text_printf(out, " persistent=%s", s->persistent ? "True" : "False");
        if (more)
            put_more(out, p, s);
        cfx__text_putc(out, '\n');
    }
    cfx__text_puts(out, p->ninputs ? "\n# outputs\n" : "\n\n# outputs\n");
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *s = &p->outputs[i];
        cfx__text_showf(out, "%s: %s", s->name ? s->name : "", output_kinds[s->kind]);
        put_target(out, s->target, more);
        cfx__text_putc(out, '\n');
    }
    if (!p->noutputs)
        cfx__text_putc(out, '\n');
}

const char *cfx_program_signature_str(const cfx_program *p) {
    if (cfx_failed(p) || !cfx_program_sync(p))
        return "";
    cfx__text out = {0};
    put_signature(&out, p, false);
    return cfx__text_take(&out);
}

static void put_bound(cfx__text *out, cfx_value v, const char *infinite) {
    if (cfx_is_none(v))
        cfx__text_puts(out, infinite);
    else
        cfx__text_puts_line(out, cfx_value_str(v));
}

static void put_ranges(cfx__text *out, const cfx_dict *ranges) {
    cfx__text_putc(out, '{');
    for (int64_t i = 0; i < ranges->len; i++) {
        cfx_value r = ranges->entries[i].value;
        bool pair = (r.tag == CFX_TAG_TUPLE || r.tag == CFX_TAG_LIST) && cfx_as_list(r)->len == 2;
        cfx__text_showf(out, "%s%s: VR[", i ? ", " : "", cfx_value_str(ranges->entries[i].key));
        bool real = !strncmp(cfx_value_str(ranges->entries[i].key), "zuf", 3);
        put_bound(out, pair ? cfx_as_list(r)->items[0] : cfx_none(), real ? "-oo" : "-int_oo");
        cfx__text_puts(out, ", ");
        put_bound(out, pair ? cfx_as_list(r)->items[1] : cfx_none(), real ? "oo" : "int_oo");
        cfx__text_putc(out, ']');
    }
    cfx__text_putc(out, '}');
}

const char *cfx_program_str(const cfx_program *p) {
    if (cfx_failed(p))
        return "";
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    cfx__text_puts(&out, "ExportedProgram:\n    ");
    put_indented(&out, cfx_module_readable(p->module, (cfx_readable_options){0}), true);
    cfx__text_puts(&out, "\nGraph signature: ");
    put_indented(&out, cfx_program_signature_str(p), true);
    cfx__text_puts(&out, "\nRange constraints: ");
    put_ranges(&out, p->ranges);
    cfx__text_putc(&out, '\n');
    cfx_scope_close(mark);
    return cfx__text_take(&out);
}

/* ---- .fx ------------------------------------------------------------------------------------- */

static void note_hints(cfx_dict *hints, const cfx_sym *s) {
    if (!s)
        return;
    if (s->op == CFX__SYM_NAME && s->has_hint)
        cfx_dict_set(hints, s->name, cfx_int(s->hint));
    note_hints(hints, s->a);
    note_hints(hints, s->b);
}

/* What the symbols of the inputs were with the example inputs. */
static cfx_dict *collect_hints(const cfx_program *p) {
    cfx_dict *hints = cfx_dict_new();
    cfx_each_node(p->module->graph, n) {
        cfx_result r = n->op == CFX_PLACEHOLDER ? cfx_node_result(n) : (cfx_result){0};
        for (int i = 0; i < r.ndim; i++)
            if (cfx_result_size(&r, i).tag == CFX_TAG_SYM)
                note_hints(hints, cfx_as_sym(cfx_result_size(&r, i)));
        if (r.value.tag == CFX_TAG_SYM)
            note_hints(hints, cfx_as_sym(r.value));
    }
    return hints;
}

static void put_hints(cfx__text *out, const cfx_dict *hints) {
    for (int64_t i = 0; i < hints->len; i++)
        cfx__text_showf(out, "%s%s: %s", i ? ", " : "Hints: {",
                        cfx_value_str(hints->entries[i].key),
                        cfx_value_str(hints->entries[i].value));
    cfx__text_puts(out, hints->len ? "}\n" : "");
}

/* A tree with what is in it, by name: "Arguments: ((x, [a, b]), {})". */
static void put_tree(cfx__text *out, const char *head, cfx_value spec, cfx_value leaves) {
    cfx_value tree = cfx_is_none(spec) || cfx__tree_leaves(spec) != cfx_as_list(leaves)->len
                         ? cfx_none()
                         : cfx_tree_unflatten(spec, cfx_as_list(leaves));
    if (cfx_is_none(tree)) /* a flat one needs no words */
        return;
    cfx__emit_writer w = {.out = out};
    cfx__text_puts(out, head);
    cfx__emit_value(&w, tree);
    cfx__text_putc(out, '\n');
}

const char *cfx_program_fx(const cfx_program *p) {
    if (cfx_failed(p) || !cfx_program_sync(p))
        return "";
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    cfx__text_puts(&out,
                   cfx_module_readable(p->module, (cfx_readable_options){.include_stride = true,
                                                                  .include_several = true}));
    cfx__text signature = {0};
    put_signature(&signature, p, true);
    cfx__text_puts(&out, "\nGraph signature:");
    put_indented(&out, signature.data, false);
    cfx__text_release(&signature);
    cfx_value in = cfx_list_value(0, NULL), results = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(cfx_as_list(in), cfx_node_value(cfx_graph_find(p->module->graph,
                                                                           p->inputs[i].name)));
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *o = &p->outputs[i];
        if (o->kind == CFX_OUT_USER || o->kind == CFX_OUT_LOSS)
            cfx_list_append(cfx_as_list(results),
                            o->name ? cfx_node_value(cfx_graph_find(p->module->graph, o->name))
                                    : o->value);
    }
    cfx__text_puts(&out, "\n");
    put_tree(&out, "Arguments: ", p->in_spec, in);
    put_tree(&out, "Result: ", p->out_spec, results);
    if (p->ranges->len) {
        cfx__text_puts(&out, "Range constraints: ");
        put_ranges(&out, p->ranges);
        cfx__text_putc(&out, '\n');
    }
    put_hints(&out, collect_hints(p));
    cfx_scope_close(mark);
    return cfx__text_take(&out);
}

void cfx_print_program(const cfx_program *p, FILE *out) {
    CFX_SCOPE
    if (cfx__given((cfx_site){0}, out, "file") && !cfx_failed(p))
        fprintf(out, "%s\n", cfx_program_str(p));
}
