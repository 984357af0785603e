/* Lines of generated C, and the functions that it shares. */
#include "compile.h"

static void put_indent(cfx__c *c) {
    for (int i = 0; i < c->indent; i++)
        cfx__text_puts(&c->out, "    ");
}

/* Whether the text that is written has no place for a line. */
static bool is_outside(cfx__c *c) { return c->card && !c->card->inside; }

void cfx__c_line(cfx__c *c, const char *fmt, ...) {
    va_list ap;
    if (is_outside(c)) {
        c->card->loose = true;
        return;
    }
    va_start(ap, fmt);
    put_indent(c);
    cfx__text_vprintf(&c->out, fmt, ap);
    cfx__text_putc(&c->out, '\n');
    va_end(ap);
}

void cfx__c_open(cfx__c *c, const char *fmt, ...) {
    va_list ap;
    if (is_outside(c)) {
        c->card->loose = true;
        return;
    }
    va_start(ap, fmt);
    put_indent(c);
    cfx__text_vprintf(&c->out, fmt, ap);
    cfx__text_puts(&c->out, " {\n");
    va_end(ap);
    c->indent++;
}

void cfx__c_block(cfx__c *c) {
    if (is_outside(c))
        return;
    cfx__c_line(c, "{");
    c->indent++;
}

void cfx__c_close(cfx__c *c) {
    if (is_outside(c))
        return;
    c->indent--;
    cfx__c_line(c, "}");
}

void cfx__c_open_elements(cfx__c *c, int64_t rows, int64_t cols) {
    cfx__c_open(c, "for (int64_t row = 0; row < %lld; row++)", (long long)rows);
    cfx__c_open(c, "for (int64_t col = 0; col < %lld; col++)", (long long)cols);
}

void cfx__c_close_elements(cfx__c *c) {
    cfx__c_close(c);
    cfx__c_close(c);
}

void cfx__c_put_named(cfx__text *t, const char *text, const char *name) {
    for (; *text; text++)
        if (*text == '@')
            cfx__text_puts(t, name);
        else
            cfx__text_putc(t, *text);
}

/* ---- functions ------------------------------------------------------------------------------- */

const char *cfx__c_kernel(const cfx__c *c, const char *function) {
    return cfx__text_format("%s_%s", c->name, function);
}

const char *cfx__c_helper(cfx__c *c, const char *stem, const char *text) {
    const char *known = cfx__map_get(&c->helped, text);
    if (known)
        return known;
    const char *name = cfx__c_symbol(c, stem);
    const char *key = cfx__text_format("%s", text);
    cfx__map_set(&c->helped, key, (void *)name);
    for (const char *at = text; *at; at++)
        if (at[0] == '@') /* stands for the name */
            cfx__text_puts(&c->helpers, name);
        else
            cfx__text_putc(&c->helpers, *at);
    cfx__text_putc(&c->helpers, '\n');
    return name;
}

void cfx__c_refuse(cfx__c_unit *u, const char *fmt, ...) {
    cfx__text t = {0};
    const cfx_node *n = u->slot >= 0 ? u->plan->kernels[u->slot].step->node : NULL;
    va_list ap;
    va_start(ap, fmt);
    cfx__text_printf(&t, "%s: ", n ? n->name : "the program");
    cfx__text_vprintf(&t, fmt, ap);
    va_end(ap);
    const char *problem = cfx__text_take(&t);
    VEC_PUSH(u->c->problems, problem);
}

/* ---- conversions ----------------------------------------------------------------------------- */

static const char *half_name(cfx_dtype d) { return d == CFX_BF16 ? "bf16" : "f16"; }

const char *cfx__c_load(cfx__c *c, const char *pointer, const char *at, cfx_dtype d) {
    if (!cfx__dtype_is_half(d))
        return cfx__text_format("%s[%s]", pointer, at);
    return cfx__text_format(
        "%s(%s[%s])", cfx__c_kernel(c, cfx__text_format("from_%s", half_name(d))), pointer, at);
}

/* The argument of a call of a function, where that is all of a text; NULL: it is not. */
static const char *argument(const char *text, const char *function) {
    const size_t n = strlen(function);
    int depth = 0;
    if (strncmp(text, function, n) || text[n] != '(')
        return NULL;
    for (const char *at = text + n; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (!depth)
            return at[1] ? NULL : cfx__text_format("%.*s", (int)(at - text - (int)n - 1),
                                                   text + n + 1);
    }
    return NULL;
}

const char *cfx__c_store(cfx__c *c, const char *text, cfx_dtype d) {
    if (!cfx__dtype_is_half(d))
        return text;
    const char *from = cfx__c_kernel(c, cfx__text_format("from_%s", half_name(d)));
    const char *half = argument(text, from); /* which was one already */
    if (half)
        return half;
    return cfx__text_format("%s(%s)", cfx__c_kernel(c, cfx__text_format("to_%s", half_name(d))),
                            text);
}

const char *cfx__c_convert(cfx__c *c, const char *text, cfx_dtype from, cfx_dtype to) {
    if (from == to)
        return text;
    if (to == CFX_BOOL)
        return cfx__text_format("(uint8_t)(%s != 0)", text);
    if (cfx__dtype_is_half(to)) { /* the float that it rounds to */
        const char *f = from == CFX_F32 || cfx__dtype_is_half(from)
                            ? text
                            : cfx__text_format("(float)%s", text);
        const char *name = half_name(to);
        return cfx__text_format("%s(%s(%s))", cfx__c_kernel(c, cfx__text_format("from_%s", name)),
                                cfx__c_kernel(c, cfx__text_format("to_%s", name)), f);
    }
    const char *a = cfx__c_value_type(from), *b = cfx__c_value_type(to);
    if (!strcmp(a, b))
        return text;
    if (cfx__dtype_is_float(from) && !cfx__dtype_is_float(to) && to != CFX_I64 &&
        !cfx__dtype_is_complex(to))
        return cfx__text_format("(%s)(int64_t)%s", b, text);
    return cfx__text_format("(%s)%s", b, text);
}
