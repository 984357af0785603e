/* print(program): the graph as print_readable shows it, the signature, and the ranges of symbols.
 */
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

/* Adds a text, four columns further in from its second line on, as Python's replace does it. */
static void put_indented(cfx__text *out, const char *text) {
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        cfx__text_add(out, text, (size_t)(end - text));
        cfx__text_puts(out, "\n    ");
    }
    cfx__text_puts(out, text);
}

const char *cfx_program_signature_str(const cfx_program *p) {
    if (!p || !cfx_program_sync(p))
        return "";
    cfx__text out = {0};
    cfx__text_puts(&out, "\n# inputs\n");
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        cfx__text_printf(&out, "%s: %s", s->name, input_kinds[s->kind]);
        if (s->target)
            cfx__text_printf(&out, " target='%s'", s->target);
        if (s->kind == CFX_IN_BUFFER)
            cfx__text_printf(&out, " persistent=%s", s->persistent ? "True" : "False");
        cfx__text_putc(&out, '\n');
    }
    cfx__text_puts(&out, p->ninputs ? "\n# outputs\n" : "\n\n# outputs\n");
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *s = &p->outputs[i];
        cfx__text_printf(&out, "%s: %s", s->name ? s->name : "", output_kinds[s->kind]);
        if (s->target)
            cfx__text_printf(&out, " target='%s'", s->target);
        cfx__text_putc(&out, '\n');
    }
    if (!p->noutputs)
        cfx__text_putc(&out, '\n');
    return cfx__text_take(&out);
}

static void put_bound(cfx__text *out, cfx_value v, const char *infinite) {
    if (cfx_is_none(v))
        cfx__text_puts(out, infinite);
    else
        cfx__text_puts(out, cfx_value_str(v));
}

static void put_ranges(cfx__text *out, const cfx_dict *ranges) {
    cfx__text_putc(out, '{');
    for (int64_t i = 0; i < ranges->len; i++) {
        cfx_value r = ranges->entries[i].value;
        bool pair = (r.tag == CFX_TAG_TUPLE || r.tag == CFX_TAG_LIST) && cfx_as_list(r)->len == 2;
        cfx__text_printf(out, "%s%s: VR[", i ? ", " : "", cfx_value_str(ranges->entries[i].key));
        put_bound(out, pair ? cfx_as_list(r)->items[0] : cfx_none(), "-int_oo");
        cfx__text_puts(out, ", ");
        put_bound(out, pair ? cfx_as_list(r)->items[1] : cfx_none(), "int_oo");
        cfx__text_putc(out, ']');
    }
    cfx__text_putc(out, '}');
}

const char *cfx_program_str(const cfx_program *p) {
    if (!p)
        return "";
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    cfx__text_puts(&out, "ExportedProgram:\n    ");
    put_indented(&out, cfx_module_readable(p->module, (cfx_readable_options){0}));
    cfx__text_puts(&out, "\nGraph signature: ");
    put_indented(&out, cfx_program_signature_str(p));
    cfx__text_puts(&out, "\nRange constraints: ");
    put_ranges(&out, p->ranges);
    cfx__text_putc(&out, '\n');
    cfx_scope_close(mark);
    return cfx__text_take(&out);
}

void cfx_print_program(const cfx_program *p, FILE *out) {
    CFX_SCOPE
    if (p)
        fprintf(out, "%s\n", cfx_program_str(p));
}
