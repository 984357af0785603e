/* Writes the files: the header for callers, and the source with kernels, weights and functions;
 * main.c writes the self-test and main. */
#include <cfx/ops.h>
#include <cfx/version.h>

#include "compile.h"
#include "kernels.h"

const char *cfx__c_upper(const char *name) {
    cfx__text t = {0};
    for (; *name; name++)
        cfx__text_putc(&t, (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name));
    return cfx__text_take(&t);
}

/* Whether a step looks at an index or a divisor that may be none. */
static bool may_fail(const cfx__c *c) { return c->out.len && strstr(c->out.data, "c->bad"); }

/* "2, s27": the sizes of a port, as numbers and expressions. */
static const char *sizes_of(const cfx__c_port *p) {
    cfx__text t = {0};
    for (int i = 0; i < p->ndim; i++)
        if (p->sizes)
            cfx__text_printf(&t, "%s%s", i ? ", " : "", p->sizes[i]);
        else
            cfx__text_printf(&t, "%s%lld", i ? ", " : "", (long long)p->shape[i]);
    return t.len ? cfx__text_take(&t) : "";
}

static const char *described(const cfx__c_port *p) {
    return cfx__text_format("%s[%s]", cfx_dtype_brief(p->dtype), sizes_of(p));
}

/* ---- the header ------------------------------------------------------------------------------ */

/* "s23, s27": the sizes that vary, in their order. */
static const char *size_names(const cfx__c *c) {
    cfx__text t = {0};
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(&t, "%s%s", i ? ", " : "", c->sizes[i].name);
    return t.len ? cfx__text_take(&t) : "";
}

static bool is_word(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_';
}

/* An expression with its names in parentheses, as macros have parameters. */
static const char *guarded(const char *text) {
    cfx__text t = {0};
    while (*text) {
        size_t n = 0;
        while (is_word(text[n]))
            n++;
        const bool name = n && !(text[0] >= '0' && text[0] <= '9');
        cfx__text_puts(&t, name ? "(" : "");
        cfx__text_add(&t, text, n ? n : 1);
        cfx__text_puts(&t, name ? ")" : "");
        text += n ? n : 1;
    }
    return cfx__text_take(&t);
}

static void put_shape(cfx__text *t, const cfx__c *c, const cfx__c_port *p) {
    const char *name = cfx__c_upper(p->name);
    const char *of = p->sizes ? cfx__text_format("(%s)", size_names(c)) : "";
    const char *count = p->sizes ? cfx__text_format("(%s)", guarded(p->sizes[p->ndim]))
                                 : cfx__text_format("%lld", (long long)p->count);
    cfx__text_printf(t, "#define %s_%s_SHAPE%s {%s} /* %s */\n#define %s_%s_COUNT%s %s\n", c->upper,
                     name, of, p->ndim ? p->sizes ? guarded(sizes_of(p)) : sizes_of(p) : "0",
                     described(p), c->upper, name, of, count);
}

static void put_sizes(cfx__text *t, const cfx__c *c) {
    const bool all = c->compared >= c->points;
    cfx__text_printf(
        t,
        "/* Sizes that vary, in the order of parameters, and their bounds. The source was\n"
        " * generated at %lld of them and compared: %s. */\n",
        (long long)c->compared,
        all ? "at all but sizes of 1"
            : "at both ends of each range, where sizes meet\n"
              " * numbers of the program or each other, and at others all over. Between them its\n"
              " * expressions are assumed (--every-size compares it at all)");
    for (int i = 0; i < c->nvary; i++) {
        const cfx__c_size *s = &c->sizes[i];
        const char *name = cfx__c_upper(s->name);
        cfx__text_printf(t, "#define %s_%s_MIN %lld%s\n#define %s_%s_MAX %lld%s\n", c->upper, name,
                         (long long)s->low,
                         s->raised ? " /* raised: smaller ones are computed otherwise */" : "",
                         c->upper, name, (long long)s->high,
                         s->lowered  ? " /* lowered: larger ones are computed otherwise */"
                         : s->chosen ? " /* chosen: the program has no end */"
                                     : "");
    }
    cfx__text_putc(t, '\n');
}

/* "const struct mlp_weights *w, void *arena, const float *x, float *out0" */
static void put_parameters(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t, "const struct %s_weights *w, ", c->name);
    if (c->states.n)
        cfx__text_printf(t, "struct %s_state *state, ", c->name);
    cfx__text_puts(t, "void *arena");
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, ", ptrdiff_t %s", c->sizes[i].name);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, ",\n    const %s *%s", cfx__c_type(c->inputs.of[i].dtype),
                         c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, ",\n    %s *%s", cfx__c_type(c->outputs.of[i].dtype),
                         c->outputs.of[i].name);
}

static void put_state(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(
        t,
        "/* What is kept from call to call: the caller's, one for each stream of calls.\n"
        " * %s_state_init gives it the values that the program was saved with. */\n"
        "struct %s_state {\n",
        c->name, c->name);
    for (int i = 0; i < c->states.n; i++) {
        const cfx__c_port *p = &c->states.of[i];
        cfx__text_printf(t, "    %s %s[%lld]; /* %s */\n", cfx__c_type(p->dtype), p->name,
                         (long long)(p->count ? p->count : 1), described(p));
    }
    cfx__text_printf(
        t, "};\nvoid %s_state_init(const struct %s_weights *w, struct %s_state *state);\n\n",
        c->name, c->name, c->name);
}

void cfx__c_header(cfx__c *c, cfx__text *t) {
    cfx__text_printf(t,
                     "/* %s: a program compiled by cfx %s. Inputs and results are arrays in C's\n"
                     " * order; a bool is a byte, bf16 and f16 are 16 bits as they are. */\n"
                     "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
                     "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                     c->name, CFX_VERSION, c->upper, c->upper);
    if (c->nvary)
        put_sizes(t, c);
    for (int i = 0; i < c->inputs.n; i++)
        put_shape(t, c, &c->inputs.of[i]);
    for (int i = 0; i < c->outputs.n; i++)
        put_shape(t, c, &c->outputs.of[i]);
    cfx__text_printf(
        t,
        "\n/* Memory for intermediate results%s: bytes, and how they are to be aligned. */\n"
        "#define %s_ARENA_BYTES %lld\n#define %s_ARENA_ALIGN 64\n\n",
        c->nvary ? " of any size" : "", c->upper, (long long)(c->arena ? c->arena : 64), c->upper);
    cfx__c_weights_struct(c, t);
    if (c->o.weights == CFX_WEIGHTS_INLINE)
        cfx__text_printf(t, "extern const struct %s_weights %s_weights;\n\n", c->name, c->name);
    else
        cfx__text_printf(
            t,
            "/* Points w into the file of weights, which is in memory, read, mapped or\n"
            " * flashed, aligned to 64 bytes. 0: done; 1: it has another size or is not\n"
            " * aligned; 2: it is of another program or another order of bytes. */\n"
            "#define %s_WEIGHTS_BYTES %lld\n"
            "int %s_weights_load(struct %s_weights *w, const void *file, size_t bytes);\n\n",
            c->upper, (long long)(64 + cfx__c_weights_bytes(c)), c->name, c->name);
    if (c->states.n)
        put_state(t, c);
    cfx__text_printf(t,
                     "/* Computes the program. 0: done; 1: a pointer is NULL, or the arena is not\n"
                     " * aligned%s%s.\n"
                     " * Nothing is kept but in %s; arrays must not overlap. */\nint %s_run(",
                     c->nvary ? "; 2: a size is out of its range" : "",
                     may_fail(c) ? "; 3: an index is out of range, or an integer divided by 0" : "",
                     c->states.n ? "state" : "the arena, until it returns", c->name);
    put_parameters(t, c);
    cfx__text_puts(t, ");\n");
    if (c->o.test)
        cfx__text_printf(
            t,
            "\n/* Runs the program on the inputs of its sample and compares with what is\n"
            " * expected: how many results are off, and in *worst by how much at most,\n"
            " * relative to the largest number of a result. One thread at a time: it has\n"
            " * the results in arrays of its own. */\n"
            "int %s_test(const struct %s_weights *w, %s%s%svoid *arena, double *worst);\n",
            c->name, c->name, c->states.n ? "struct " : "", c->states.n ? c->name : "",
            c->states.n ? "_state *state, " : "");
    cfx__text_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* ---- the source ------------------------------------------------------------------------------ */

static void put_call(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t,
                     "/* What a call is given, for the functions below. */\nstruct %s_call {\n"
                     "    const struct %s_weights *w;\n",
                     c->name, c->name);
    if (c->states.n)
        cfx__text_printf(t, "    struct %s_state *state;\n", c->name);
    cfx__text_puts(t, "    unsigned char *arena;\n");
    if (may_fail(c))
        cfx__text_puts(t, "    int *bad; /* set where an index is out of range, a divisor 0 */\n");
    if (c->nvary)
        cfx__text_printf(t, "    ptrdiff_t %s;\n", size_names(c));
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, "    const %s *%s;\n", cfx__c_type(c->inputs.of[i].dtype),
                         c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "    %s *%s;\n", cfx__c_type(c->outputs.of[i].dtype),
                         c->outputs.of[i].name);
    cfx__text_puts(t, "};\n\n");
}

static void put_run(cfx__text *t, const cfx__c *c) {
    const bool any = strstr(c->out.data, cfx__text_format("static void %s_forward(", c->name));
    cfx__text_printf(t, "int %s_run(", c->name);
    put_parameters(t, c);
    cfx__text_printf(t, ") {\n    if (!w || !arena || ((uintptr_t)arena & 63) != 0");
    if (c->states.n)
        cfx__text_puts(t, " || !state");
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, " || !%s", c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, " || !%s", c->outputs.of[i].name);
    cfx__text_puts(t, ")\n        return 1;\n");
    for (int i = 0; i < c->nvary; i++) {
        const char *name = c->sizes[i].name, *large = cfx__c_upper(name);
        cfx__text_printf(t, "    if (%s < %s_%s_MIN || %s > %s_%s_MAX)\n        return 2;\n", name,
                         c->upper, large, name, c->upper, large);
    }
    for (size_t i = 0; i < c->limits.len; i++)
        cfx__text_printf(t, "    if (%s > %lld) /* its room in the arena */\n        return 2;\n",
                         c->limits.data[i].bytes, (long long)c->limits.data[i].room);
    cfx__text_printf(t, "%s    const struct %s_call call = {\n        .w = w,\n%s",
                     may_fail(c) ? "    int bad = 0;\n" : "", c->name,
                     may_fail(c) ? "        .bad = &bad,\n" : "");
    if (c->states.n)
        cfx__text_puts(t, "        .state = state,\n");
    cfx__text_printf(t, "        .arena = (unsigned char *)arena,\n");
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, "        .%s = %s,\n", c->sizes[i].name, c->sizes[i].name);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, "        .%s = %s,\n", c->inputs.of[i].name, c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "        .%s = %s,\n", c->outputs.of[i].name, c->outputs.of[i].name);
    cfx__text_printf(t, "    };\n");
    if (any)
        cfx__text_printf(t, "    %s_forward(&call);\n", c->name);
    if (strstr(c->out.data, cfx__text_format("static void %s_results(", c->name)))
        cfx__text_printf(t, "    %s_results(&call);\n", c->name);
    cfx__text_printf(t, "    return %s;\n}\n\n", may_fail(c) ? "bad ? 3 : 0" : "0");
}

static void put_state_init(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t,
                     "void %s_state_init(const struct %s_weights *w, struct %s_state *state) {\n"
                     "    (void)w;\n",
                     c->name, c->name, c->name);
    for (int i = 0; i < c->states.n; i++)
        cfx__text_printf(t, "    memcpy(state->%s, w->%s, sizeof state->%s);\n",
                         c->states.of[i].name, c->states.of[i].first, c->states.of[i].name);
    cfx__text_puts(t, "}\n\n");
}

void cfx__c_source(cfx__c *c, cfx__text *t, const char *header, const char *bin) {
    cfx__text rest = {0};
    const char *prefix = cfx__text_format("%s_", c->name);
    cfx__c_tidy(&c->out);
    put_call(&rest, c);
    cfx__text_add(&rest, c->helpers.data ? c->helpers.data : "", c->helpers.len);
    cfx__text_add(&rest, c->out.data, c->out.len);
    put_run(&rest, c);
    if (c->states.n)
        put_state_init(&rest, c);
    if (c->o.test)
        cfx__c_test(c, &rest);
    cfx__kernels used = {0};
    cfx__kernels_use_in(&used, prefix, rest.data);
    cfx__text_printf(
        t,
        "/* %s: a program compiled by cfx %s; see %s. C11, no heap, no state of its own.\n"
        " * Functions are named after the modules of the program; above each step stand\n"
        " * its node, the shape of its result, its module and its line. */\n"
        "#include \"%s\"\n\n#include <math.h>\n%s#include <string.h>\n",
        c->name, CFX_VERSION, cfx__c_comment(header), header,
        c->o.main ? "#include <stdio.h>\n#include <stdlib.h>\n" : "");
    if (strstr(rest.data, "_Complex"))
        cfx__text_puts(t, "#include <complex.h>\n#undef I\n");
    cfx__text_puts(t,
                   "\n#ifdef __FAST_MATH__\n"
                   "#error \"build this without -ffast-math: infinities, NaN and rounding count\"\n"
                   "#endif\n\n");
    if (c->o.weights == CFX_WEIGHTS_INLINE)
        cfx__text_printf(
            t,
            "/* Before each array of weights: a section or an alignment of your own. */\n"
            "#ifndef %s_WEIGHTS\n#define %s_WEIGHTS _Alignas(64)\n#endif\n\n",
            c->upper, c->upper);
    if (c->o.threads)
        cfx__text_printf(t,
                         "#ifdef _OPENMP\n#define %s_PARALLEL _Pragma(\"omp parallel for\")\n"
                         "#else\n#define %s_PARALLEL\n#endif\n\n",
                         c->upper, c->upper);
    cfx__kernels_write(&used, prefix, c->o.threads, t);
    if (c->o.weights == CFX_WEIGHTS_INLINE)
        cfx__c_weights_inline(c, t);
    else
        cfx__c_weights_loader(c, t);
    cfx__text_add(t, rest.data, rest.len);
    cfx__text_release(&rest);
    if (c->o.library)
        cfx__c_library(c, t);
    if (c->o.main)
        cfx__c_main(c, t, cfx__c_comment(bin));
}
