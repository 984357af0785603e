/* The files: a header that callers include, and the source with kernels, weights, functions, the
 * self-test and main. */
#include <cfx/ops.h>
#include <cfx/version.h>

#include "compile.h"
#include "kernels.h"

static const char *upper_of(const char *name) {
    cfx__text t = {0};
    for (; *name; name++)
        cfx__text_putc(&t, (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name));
    return cfx__text_take(&t);
}

static const char *described(const cfx__c_port *p) {
    return cfx__text_format("%s%s", cfx_dtype_brief(p->dtype), cfx__shape_text(p->ndim, p->shape));
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_shape(cfx__text *t, const cfx__c *c, const cfx__c_port *p) {
    const char *name = upper_of(p->name);
    cfx__text_printf(t, "#define %s_%s_SHAPE {", c->upper, name);
    for (int i = 0; i < p->ndim; i++)
        cfx__text_printf(t, "%s%lld", i ? ", " : "", (long long)p->shape[i]);
    cfx__text_printf(t, "%s} /* %s */\n#define %s_%s_COUNT %lld\n", p->ndim ? "" : "0",
                     described(p), c->upper, name, (long long)p->count);
}

/* "const struct mlp_weights *w, void *arena, const float *x, float *out0" */
static void put_parameters(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(t, "const struct %s_weights *w, ", c->name);
    if (c->states.n)
        cfx__text_printf(t, "struct %s_state *state, ", c->name);
    cfx__text_puts(t, "void *arena");
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
    for (int i = 0; i < c->inputs.n; i++)
        put_shape(t, c, &c->inputs.of[i]);
    for (int i = 0; i < c->outputs.n; i++)
        put_shape(t, c, &c->outputs.of[i]);
    cfx__text_printf(
        t,
        "\n/* Memory for intermediate results: bytes, and how they are to be aligned. */\n"
        "#define %s_ARENA_BYTES %lld\n#define %s_ARENA_ALIGN 64\n\n",
        c->upper, (long long)(c->arena ? c->arena : 64), c->upper);
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
                     " * aligned; 3: an index is out of range, or an integer divided by 0.\n"
                     " * Nothing is kept but in %s; arrays must not overlap. */\nint %s_run(",
                     c->states.n ? "state" : "the arena, until it returns", c->name);
    put_parameters(t, c);
    cfx__text_puts(t, ");\n");
    if (c->o.test)
        cfx__text_printf(
            t,
            "\n/* Runs the program on the inputs of its sample and compares with what is\n"
            " * expected: how many results are off, and in *worst by how much at most,\n"
            " * relative to the largest number of a result. */\n"
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
    cfx__text_puts(t, "    unsigned char *arena, *scratch;\n"
                      "    int *bad; /* set where an index is out of range, a divisor 0 */\n");
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, "    const %s *%s;\n", cfx__c_type(c->inputs.of[i].dtype),
                         c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "    %s *%s;\n", cfx__c_type(c->outputs.of[i].dtype),
                         c->outputs.of[i].name);
    cfx__text_puts(t, "};\n\n");
}

static void put_run(cfx__text *t, const cfx__c *c) {
    const bool any = cfx__map_get(&c->names, cfx__text_format("file.%s_forward", c->name)) != NULL;
    cfx__text_printf(t, "int %s_run(", c->name);
    put_parameters(t, c);
    cfx__text_printf(t, ") {\n    if (!w || !arena || ((uintptr_t)arena & 63) != 0");
    if (c->states.n)
        cfx__text_puts(t, " || !state");
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, " || !%s", c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, " || !%s", c->outputs.of[i].name);
    cfx__text_printf(t,
                     ")\n        return 1;\n    int bad = 0;\n    const struct %s_call call = {\n  "
                     "      .w = w,\n        .bad = &bad,\n",
                     c->name);
    if (c->states.n)
        cfx__text_puts(t, "        .state = state,\n");
    cfx__text_printf(t,
                     "        .arena = (unsigned char *)arena,\n"
                     "        .scratch = (unsigned char *)arena + %lld,\n",
                     (long long)c->scratch_at);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, "        .%s = %s,\n", c->inputs.of[i].name, c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "        .%s = %s,\n", c->outputs.of[i].name, c->outputs.of[i].name);
    cfx__text_printf(t, "    };\n");
    if (any)
        cfx__text_printf(t, "    %s_forward(&call);\n", c->name);
    cfx__text_printf(t, "    %s_results(&call);\n    return bad ? 3 : 0;\n}\n\n", c->name);
}

/* A tensor as an array of the source. */
static void put_array(cfx__text *t, const cfx__c *c, const char *name, cfx_value v) {
    cfx_tensor *x = cfx__tensor_contiguous(cfx_as_tensor(v));
    if (cfx__dtype_is_complex((cfx_dtype)x->dtype)) /* in two numbers each */
        x = cfx_view_as_real(x);
    const cfx_dtype d = (cfx_dtype)x->dtype;
    const bool half = cfx__dtype_is_half(d);
    cfx__text_printf(t, "static const %s %s_%s[%lld] = {", cfx__c_type(d), c->name, name,
                     (long long)(x->numel ? x->numel : 1));
    for (int64_t i = 0; i < x->numel; i++) {
        size_t mark = cfx_scope_open();
        cfx__text_puts(t, i % 8 ? " " : "\n    ");
        if (half)
            cfx__text_printf(t, "0x%04x,", ((const uint16_t *)x->data)[i]);
        else
            cfx__text_printf(t, "%s,", cfx__c_element(x, i));
        cfx_scope_close(mark);
    }
    cfx__text_puts(t, x->numel ? "\n};\n" : "0};\n");
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

static const char *as_double(const cfx__c *c, const cfx__c_port *p, const char *text) {
    if (cfx__dtype_is_half(p->dtype))
        return cfx__text_format("(double)%s_from_%s(%s)", c->name,
                                p->dtype == CFX_BF16 ? "bf16" : "f16", text);
    return cfx__text_format("(double)%s", text);
}

static void put_test(cfx__text *t, const cfx__c *c) {
    for (int i = 0; i < c->inputs.n; i++)
        put_array(t, c, cfx__text_format("sample_%s", c->inputs.of[i].name),
                  c->inputs.of[i].sample);
    for (int i = 0; i < c->outputs.n; i++)
        put_array(t, c, cfx__text_format("expected_%s", c->outputs.of[i].name),
                  c->outputs.of[i].sample);
    cfx__text_printf(
        t,
        "\nint %s_test(const struct %s_weights *w, %s%s%svoid *arena, double *worst) {\n"
        "    int off = 0;\n",
        c->name, c->name, c->states.n ? "struct " : "", c->states.n ? c->name : "",
        c->states.n ? "_state *state, " : "");
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "    static %s %s[%lld];\n", cfx__c_type(c->outputs.of[i].dtype),
                         c->outputs.of[i].name,
                         (long long)(c->outputs.of[i].count ? c->outputs.of[i].count : 1));
    cfx__text_printf(t, "    *worst = 0;\n    if (%s_run(w, %sarena", c->name,
                     c->states.n ? "state, " : "");
    for (int i = 0; i < c->inputs.n; i++) {
        const cfx__c_port *p = &c->inputs.of[i];
        const char *as = cfx__dtype_is_complex(p->dtype)
                             ? cfx__text_format("(const %s *)", cfx__c_type(p->dtype))
                             : "";
        cfx__text_printf(t, ", %s%s_sample_%s", as, c->name, p->name);
    }
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, ", %s", c->outputs.of[i].name);
    cfx__text_puts(t, ") != 0)\n        return -1;\n");
    for (int i = 0; i < c->outputs.n; i++) {
        const cfx__c_port *p = &c->outputs.of[i];
        const double slack = p->dtype == CFX_BF16 ? 4e-2 : p->dtype == CFX_F16 ? 5e-3 : 2e-4;
        const char *want = cfx__text_format("%s_expected_%s[i]", c->name, p->name);
        const bool pairs = cfx__dtype_is_complex(p->dtype);
        const char *have = pairs ? cfx__text_format("((const %s *)%s)[i]",
                                                    cfx__c_type(cfx__c_part(p->dtype)), p->name)
                                 : cfx__text_format("%s[i]", p->name);
        cfx__text_printf(
            t,
            "    {\n        double largest = 1, most = 0;\n"
            "        for (size_t i = 0; i < %lld; i++) {\n"
            "            const double want = %s, have = %s;\n"
            "            const double apart = fabs(want - have);\n"
            "            largest = isfinite(want) && fabs(want) > largest ? fabs(want) : largest;\n"
            "            if (isfinite(want) ? !(apart <= most) : !(want == have) && !(want != want "
            "&& have != have))\n"
            "                most = isfinite(apart) ? apart : HUGE_VAL;\n"
            "        }\n"
            "        *worst = most / largest > *worst ? most / largest : *worst;\n"
            "        off += !(most / largest <= %g);\n    }\n",
            (long long)(pairs ? 2 * p->count : p->count), as_double(c, p, want),
            as_double(c, p, have), slack);
    }
    cfx__text_puts(t, "    return off;\n}\n\n");
}

/* ---- main ------------------------------------------------------------------------------------ */

static const char read_file[] =
    "/* Reads exactly so many bytes; says what is wrong, and ends, where a file has others. */\n"
    "static void @_read(const char *path, void *to, size_t bytes) {\n"
    "    FILE *file = fopen(path, \"rb\");\n"
    "    const size_t got = file ? fread(to, 1, bytes, file) : 0;\n"
    "    if (!file || got != bytes || fgetc(file) != EOF) {\n"
    "        fprintf(stderr, \"%s: %s\\n\", path, file ? \"has another size\" : \"cannot be "
    "read\");\n"
    "        exit(2);\n"
    "    }\n"
    "    fclose(file);\n"
    "}\n\n";

static void put_named(cfx__text *t, const char *text, const char *name) {
    for (; *text; text++)
        if (*text == '@')
            cfx__text_puts(t, name);
        else
            cfx__text_putc(t, *text);
}

static void put_main(cfx__text *t, const cfx__c *c, const char *bin) {
    const bool file = c->o.weights == CFX_WEIGHTS_FILE;
    const char *weights = file ? "&weights" : cfx__text_format("&%s_weights", c->name);
    put_named(t, read_file, c->name);
    cfx__text_printf(t,
                     "/* One raw file for each input, in order; raw results, in order, to stdout.");
    if (file)
        cfx__text_printf(t, " Weights\n * are read from the file that %s_WEIGHTS names, else %s.",
                         c->upper, bin);
    cfx__text_printf(t,
                     " */\nint main(int argc, char **argv) {\n"
                     "    static _Alignas(64) unsigned char arena[%s_ARENA_BYTES];\n",
                     c->upper);
    for (int i = 0; i < c->inputs.n + c->outputs.n; i++) {
        const cfx__c_port *p = i < c->inputs.n ? &c->inputs.of[i] : &c->outputs.of[i - c->inputs.n];
        cfx__text_printf(t, "    static %s %s[%lld];\n", cfx__c_type(p->dtype), p->name,
                         (long long)(p->count ? p->count : 1));
    }
    if (c->states.n)
        cfx__text_printf(t, "    static struct %s_state state;\n", c->name);
    if (file)
        cfx__text_printf(t,
                         "    static _Alignas(64) unsigned char file[%s_WEIGHTS_BYTES];\n"
                         "    struct %s_weights weights;\n"
                         "    const char *path = getenv(\"%s_WEIGHTS\");\n"
                         "    %s_read(path ? path : \"%s\", file, sizeof file);\n"
                         "    if (%s_weights_load(&weights, file, sizeof file) != 0) {\n"
                         "        fprintf(stderr, \"the weights are of another program\\n\");\n"
                         "        return 2;\n    }\n",
                         c->upper, c->name, c->upper, c->name, bin, c->name);
    if (c->o.test)
        cfx__text_printf(
            t,
            "    if (argc == 2 && strcmp(argv[1], \"--test\") == 0) {\n"
            "        double worst = 0;\n"
            "%s"
            "        const int off = %s_test(%s, %sarena, &worst);\n"
            "        printf(\"%%d of %d results are off, by %%.1e at most\\n\", off, worst);\n"
            "        return off != 0;\n    }\n",
            c->states.n ? cfx__text_format("        %s_state_init(%s, &state);\n", c->name, weights)
                        : "",
            c->name, weights, c->states.n ? "&state, " : "", c->outputs.n);
    cfx__text_printf(t, "    if (argc != %d) {\n        fprintf(stderr, \"usage: %%s",
                     c->inputs.n + 1);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, " %s", upper_of(c->inputs.of[i].name));
    cfx__text_puts(t, " > results\\n\", argc ? argv[0] : \"\");\n        return 2;\n    }\n");
    for (int i = 0; i < c->inputs.n; i++) {
        const cfx__c_port *p = &c->inputs.of[i];
        cfx__text_printf(t, "    %s_read(argv[%d], %s, %lld * sizeof *%s);\n", c->name, i + 1,
                         p->name, (long long)p->count, p->name);
    }
    if (!c->inputs.n)
        cfx__text_puts(t, "    (void)argv;\n");
    if (c->states.n)
        cfx__text_printf(t, "    %s_state_init(%s, &state);\n", c->name, weights);
    cfx__text_printf(t, "    if (%s_run(%s%s, arena", c->name, weights,
                     c->states.n ? ", &state" : "");
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, ", %s", c->inputs.of[i].name);
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, ", %s", c->outputs.of[i].name);
    cfx__text_puts(t, ") != 0)\n        return 2;\n");
    for (int i = 0; i < c->outputs.n; i++)
        cfx__text_printf(t, "    fwrite(%s, sizeof *%s, %lld, stdout);\n", c->outputs.of[i].name,
                         c->outputs.of[i].name, (long long)c->outputs.of[i].count);
    cfx__text_puts(t, "    return fflush(stdout) == 0 ? 0 : 2;\n}\n");
}

void cfx__c_source(cfx__c *c, cfx__text *t, const char *header, const char *bin) {
    cfx__text rest = {0};
    const char *prefix = cfx__text_format("%s_", c->name);
    put_call(&rest, c);
    cfx__text_add(&rest, c->helpers.data ? c->helpers.data : "", c->helpers.len);
    cfx__text_add(&rest, c->out.data, c->out.len);
    cfx__text_putc(&rest, '\n');
    put_run(&rest, c);
    if (c->states.n)
        put_state_init(&rest, c);
    if (c->o.test)
        put_test(&rest, c);
    cfx__kernels used = {0};
    cfx__kernels_use_in(&used, prefix, rest.data);
    cfx__text_printf(
        t,
        "/* %s: a program compiled by cfx %s; see %s. C11, no heap, no state of its own.\n"
        " * Functions are named after the modules of the program; above each step stand\n"
        " * its node, the shape of its result, its module and its line. */\n"
        "#include \"%s\"\n\n#include <math.h>\n#include <string.h>\n",
        c->name, CFX_VERSION, cfx__c_comment(header), cfx__c_comment(header));
    if (c->o.main)
        cfx__text_puts(t, "#include <stdio.h>\n#include <stdlib.h>\n");
    cfx__text_putc(t, '\n');
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
    cfx__text_putc(t, '\n');
    if (c->o.weights == CFX_WEIGHTS_INLINE)
        cfx__c_weights_inline(c, t);
    else
        cfx__c_weights_loader(c, t);
    cfx__text_add(t, rest.data, rest.len);
    cfx__text_release(&rest);
    if (c->o.main)
        put_main(t, c, cfx__c_comment(bin));
}
