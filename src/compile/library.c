/* The description that a compiled program exports as a shared object (library.h). */
#include "library.h"

#include "compile.h"

#define TEXT_(...) #__VA_ARGS__
#define TEXT(x) TEXT_(x)

/* The struct as C, a member a line. */
static void put_struct(cfx__text *t) {
    for (const char *at = TEXT(CFX__C_LIBRARY); *at; at++) {
        cfx__text_putc(t, *at);
        if ((*at == ';' || *at == '{') && at[1] == ' ') {
            cfx__text_puts(t, at[2] == '}' ? "\n" : "\n    ");
            at++;
        }
    }
    cfx__text_puts(t, ";\n");
}

static const cfx__c_port *port_at(const cfx__c *c, int i) {
    return i < c->inputs.n ? &c->inputs.of[i] : &c->outputs.of[i - c->inputs.n];
}

/* Texts as an array of strings, which is never empty. */
static void put_strings(cfx__text *t, const cfx__c *c, const char *name, int n,
                        const char *(*of)(const cfx__c *c, int i)) {
    cfx__text_printf(t, "static const char *const %s_%s[] = {", c->name, name);
    for (int i = 0; i < n; i++)
        cfx__text_printf(t, "\"%s\", ", of(c, i));
    cfx__text_puts(t, "NULL};\n");
}

static const char *size_name(const cfx__c *c, int i) { return c->sizes[i].name; }
static const char *port_name(const cfx__c *c, int i) { return port_at(c, i)->name; }
static const char *port_dtype(const cfx__c *c, int i) {
    return cfx_dtype_name(port_at(c, i)->dtype);
}

static void put_shape(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t,
                     "static void %s_library_shape(int port, const ptrdiff_t *sizes, "
                     "ptrdiff_t *to) {\n    (void)sizes;\n    (void)to;\n",
                     c->name);
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, "    const ptrdiff_t %s = sizes[%d];\n    (void)%s;\n",
                         c->sizes[i].name, i, c->sizes[i].name);
    cfx__text_puts(t, "    switch (port) {\n");
    for (int i = 0; i < c->inputs.n + c->outputs.n; i++) {
        const cfx__c_port *p = port_at(c, i);
        cfx__text_printf(t, "    case %d:\n", i);
        for (int d = 0; d < p->ndim; d++)
            if (p->sizes)
                cfx__text_printf(t, "        to[%d] = %s;\n", d, p->sizes[d]);
            else
                cfx__text_printf(t, "        to[%d] = %lld;\n", d, (long long)p->shape[d]);
        cfx__text_puts(t, "        break;\n");
    }
    cfx__text_puts(t, "    default:\n        break;\n    }\n}\n\n");
}

static void put_run(cfx__text *t, const cfx__c *c) {
    const bool file = c->o.weights == CFX_WEIGHTS_FILE;
    cfx__text_printf(t,
                     "static int %s_library_run(const void *weights, void *state, void *arena, "
                     "const ptrdiff_t *sizes,\n    const void *const *in, void *const *out) {\n"
                     "    (void)weights, (void)state, (void)sizes, (void)in, (void)out;\n",
                     c->name);
    if (file)
        cfx__text_printf(t,
                         "    struct %s_weights w;\n"
                         "    if (%s_weights_load(&w, weights, %s_WEIGHTS_BYTES) != 0)\n"
                         "        return 4;\n",
                         c->name, c->name, c->upper);
    const char *w = file ? "&w" : cfx__text_format("&%s_weights", c->name);
    if (c->states.n)
        cfx__text_printf(t, "    %s_state_init(%s, (struct %s_state *)state);\n", c->name, w,
                         c->name);
    cfx__text_printf(t, "    return %s_run(%s, ", c->name, w);
    if (c->states.n)
        cfx__text_printf(t, "(struct %s_state *)state, ", c->name);
    cfx__text_puts(t, "arena");
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, ", sizes[%d]", i);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, ",\n        (const %s *)in[%d]", cfx__c_type(c->inputs.of[i].dtype), i);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, ",\n        (%s *)out[%d]", cfx__c_type(c->outputs.of[i].dtype), i);
    cfx__text_puts(t, ");\n}\n\n");
}

static void put_numbers(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t, "static const ptrdiff_t %s_library_least[] = {", c->name);
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, "%lld, ", (long long)c->sizes[i].low);
    cfx__text_printf(t, "0};\nstatic const ptrdiff_t %s_library_most[] = {", c->name);
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, "%lld, ", (long long)c->sizes[i].high);
    cfx__text_printf(t, "0};\nstatic const int %s_library_ndims[] = {", c->name);
    for (int i = 0; i < c->inputs.n + c->outputs.n; i++)
        cfx__text_printf(t, "%d, ", port_at(c, i)->ndim);
    cfx__text_puts(t, "0};\n");
}

void cfx__c_library(const cfx__c *c, cfx__text *t) {
    const int ports = c->inputs.n + c->outputs.n;
    const bool file = c->o.weights == CFX_WEIGHTS_FILE;
    cfx__text_puts(t, "\n/* What `cfx run` asks of a shared object. */\n");
    put_struct(t);
    cfx__text_puts(t, "extern const struct cfx_compiled cfx_compiled;\n\n");
    put_strings(t, c, "library_sizes", c->nvary, size_name);
    put_strings(t, c, "library_names", ports, port_name);
    put_strings(t, c, "library_dtypes", ports, port_dtype);
    put_numbers(t, c);
    cfx__text_putc(t, '\n');
    put_shape(t, c);
    put_run(t, c);
    cfx__text_printf(t,
                     "const struct cfx_compiled cfx_compiled = {\n"
                     "    .version = %d, .nsizes = %d, .ninputs = %d, .noutputs = %d,\n"
                     "    .sizes = %s_library_sizes, .least = %s_library_least,\n"
                     "    .most = %s_library_most, .names = %s_library_names,\n"
                     "    .dtypes = %s_library_dtypes, .ndims = %s_library_ndims,\n"
                     "    .arena = %s_ARENA_BYTES, .weights = %s, .state = %s,\n"
                     "    .shape = %s_library_shape, .run = %s_library_run,\n};\n",
                     CFX__C_LIBRARY_VERSION, c->nvary, c->inputs.n, c->outputs.n, c->name, c->name,
                     c->name, c->name, c->name, c->name, c->upper,
                     file ? cfx__text_format("%s_WEIGHTS_BYTES", c->upper) : "0",
                     c->states.n ? cfx__text_format("sizeof(struct %s_state)", c->name) : "0",
                     c->name, c->name);
}
