/* Optional parts of a compiled program: the self-test on the sample inputs, and main. */
#include <cfx/ops.h>

#include "compile.h"

/* ---- the self-test --------------------------------------------------------------------------- */

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
            cfx__text_printf(t, "%s,", cfx__c_listed(cfx__c_element(x, i)));
        cfx_scope_close(mark);
    }
    cfx__text_puts(t, x->numel ? "\n};\n" : "0};\n");
}

static const char *as_double(const cfx__c *c, const cfx__c_port *p, const char *text) {
    if (cfx__dtype_is_half(p->dtype))
        return cfx__text_format("(double)%s_from_%s(%s)", c->name,
                                p->dtype == CFX_BF16 ? "bf16" : "f16", text);
    return cfx__text_format("(double)%s", text);
}

/* Elements of a port in the sample, so many at least. */
static int64_t sampled(const cfx__c_port *p, int64_t least) {
    const int64_t n = p->sample.tag == CFX_TAG_TENSOR ? cfx_as_tensor(p->sample)->numel : p->count;
    return n > least ? n : least;
}

void cfx__c_test(const cfx__c *c, cfx__text *t) {
    for (int i = 0; i < c->inputs.n; i++)
        put_array(t, c, cfx__text_format("sample_%s", c->inputs.of[i].name),
                  c->inputs.of[i].sample);
    for (int i = 0; i < c->outputs.n; i++)
        if (sampled(&c->outputs.of[i], 0)) /* else nothing is to be compared */
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
                         c->outputs.of[i].name, (long long)sampled(&c->outputs.of[i], 1));
    cfx__text_printf(t, "    *worst = 0;\n    if (%s_run(w, %sarena", c->name,
                     c->states.n ? "state, " : "");
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, ", %lld", (long long)c->sizes[i].sample);
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
        const double slack = p->dtype == CFX_BF16 || c->o.bf16 ? 4e-2
                             : p->dtype == CFX_F16             ? 5e-3
                                                               : 2e-4;
        const char *want = cfx__text_format("%s_expected_%s[i]", c->name, p->name);
        if (!sampled(p, 0))
            continue;
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
            (long long)(pairs ? 2 * sampled(p, 0) : sampled(p, 0)), as_double(c, p, want),
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

/* Where sizes vary: they are told, or follow from the lengths of files. */
static const char find_sizes[] =
    "/* Elements of a file; 0 where it cannot be read. */\n"
    "static ptrdiff_t @_elements(const char *path, size_t width) {\n"
    "    FILE *file = fopen(path, \"rb\");\n"
    "    const long end = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;\n"
    "    if (file)\n"
    "        fclose(file);\n"
    "    return end > 0 ? (ptrdiff_t)end / (ptrdiff_t)width : 0;\n"
    "}\n\n"
    "/* Takes \"s0=8\"; 0: it is no size. */\n"
    "static int @_told(const char *word, struct @_sizes *sizes) {\n"
    "    for (size_t k = 0; k < sizeof @_names / sizeof *@_names; k++) {\n"
    "        const size_t n = strlen(@_names[k]);\n"
    "        if (strncmp(word, @_names[k], n) == 0 && word[n] == '=') {\n"
    "            sizes->of[k] = (ptrdiff_t)strtol(word + n + 1, NULL, 10);\n"
    "            sizes->told[k] = 1;\n"
    "            return 1;\n"
    "        }\n"
    "    }\n"
    "    return 0;\n"
    "}\n\n"
    "/* An input in which one size alone is open tells it: the one that gives its file's "
    "elements.\n"
    " * How many were found. */\n"
    "static int @_follow(struct @_sizes *sizes, int input, ptrdiff_t elements) {\n"
    "    const int n = (int)(sizeof @_names / sizeof *@_names);\n"
    "    int open = -1;\n"
    "    for (int k = 0; k < n; k++)\n"
    "        if (@_uses[input][k] && !sizes->told[k]) {\n"
    "            if (open >= 0)\n"
    "                return 0;\n"
    "            open = k;\n"
    "        }\n"
    "    const ptrdiff_t was = open >= 0 ? sizes->of[open] : 0;\n"
    "    for (ptrdiff_t v = @_least[open >= 0 ? open : 0]; open >= 0 && v <= @_most[open]; v++) {\n"
    "        sizes->of[open] = v;\n"
    "        if (@_count(input, sizes->of) == elements)\n"
    "            return sizes->told[open] = 1;\n"
    "    }\n"
    "    if (open >= 0)\n"
    "        sizes->of[open] = was;\n"
    "    return 0;\n"
    "}\n\n"
    "static void *@_room(ptrdiff_t count, size_t width) {\n"
    "    void *room = malloc(count > 0 ? (size_t)count * width : 1);\n"
    "    if (!room) {\n"
    "        fprintf(stderr, \"there is no memory for such sizes\\n\");\n"
    "        exit(2);\n"
    "    }\n"
    "    return room;\n"
    "}\n\n";

/* "s23" in "s23 * 64". */
static bool uses(const cfx__c_port *p, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = p->sizes ? p->sizes[p->ndim] : ""; (at = strstr(at, name)); at += n)
        if (!(at[n] >= '0' && at[n] <= '9') && at[n] != '_')
            return true;
    return false;
}

/* Tables about sizes, and the functions that read them. */
static void put_sizes(cfx__text *t, const cfx__c *c) {
    cfx__text names = {0}, least = {0}, most = {0}, at = {0};
    for (int i = 0; i < c->nvary; i++) {
        const cfx__c_size *s = &c->sizes[i];
        cfx__text_printf(&names, "%s\"%s\"", i ? ", " : "", s->name);
        cfx__text_printf(&least, "%s%lld", i ? ", " : "", (long long)s->low);
        cfx__text_printf(&most, "%s%lld", i ? ", " : "", (long long)s->high);
        cfx__text_printf(&at, "%ss[%d]", i ? ", " : "", i);
    }
    cfx__text_printf(t,
                     "static const char *const %s_names[] = {%s};\n"
                     "static const ptrdiff_t %s_least[] = {%s}, %s_most[] = {%s};\n\n"
                     "struct %s_sizes {\n    ptrdiff_t of[%d];\n    int told[%d];\n};\n\n"
                     "/* Which sizes an input has. */\n"
                     "static const unsigned char %s_uses[][%d] = {",
                     c->name, cfx__text_take(&names), c->name, cfx__text_take(&least), c->name,
                     cfx__text_take(&most), c->name, c->nvary, c->nvary, c->name, c->nvary);
    for (int i = 0; i < c->inputs.n; i++) {
        cfx__text_puts(t, i ? ", {" : "{");
        for (int k = 0; k < c->nvary; k++)
            cfx__text_printf(t, "%s%d", k ? ", " : "", uses(&c->inputs.of[i], c->sizes[k].name));
        cfx__text_puts(t, "}");
    }
    cfx__text_printf(t,
                     "};\n\n/* Elements of an input, or of a result behind them. */\n"
                     "static ptrdiff_t %s_count(int port, const ptrdiff_t *s) {\n"
                     "    (void)s;\n    switch (port) {\n",
                     c->name);
    const char *of = cfx__text_take(&at);
    for (int i = 0; i < c->inputs.n + c->outputs.n; i++) {
        const cfx__c_port *p = i < c->inputs.n ? &c->inputs.of[i] : &c->outputs.of[i - c->inputs.n];
        const char *end = p->sizes ? cfx__text_format("(%s)", of) : "";
        cfx__text_printf(t, "    case %d: return %s_%s_COUNT%s;\n", i, c->upper,
                         cfx__c_upper(p->name), end);
    }
    cfx__text_puts(t, "    default: return 0;\n    }\n}\n\n");
    cfx__c_put_named(t, find_sizes, c->name);
}

static const cfx__c_port *port_at(const cfx__c *c, int i) {
    return i < c->inputs.n ? &c->inputs.of[i] : &c->outputs.of[i - c->inputs.n];
}

/* Declares the arrays of inputs and results, and the arena. */
static void put_arrays(cfx__text *t, const cfx__c *c) {
    if (!c->nvary)
        cfx__text_printf(t, "    static _Alignas(64) unsigned char arena[%s_ARENA_BYTES];\n",
                         c->upper);
    for (int i = 0; i < c->inputs.n + c->outputs.n && !c->nvary; i++)
        cfx__text_printf(t, "    static %s %s[%lld];\n", cfx__c_type(port_at(c, i)->dtype),
                         port_at(c, i)->name,
                         (long long)(port_at(c, i)->count ? port_at(c, i)->count : 1));
    if (c->states.n)
        cfx__text_printf(t, "    static struct %s_state state;\n", c->name);
    if (!c->nvary)
        return;
    cfx__text_printf(t,
                     "    unsigned char *room = (unsigned char *)%s_room(%s_ARENA_BYTES + 64, 1);\n"
                     "    unsigned char *arena = room + (64 - ((uintptr_t)room & 63));\n"
                     "    struct %s_sizes sizes = {{",
                     c->name, c->upper, c->name);
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, "%s%lld", i ? ", " : "", (long long)c->sizes[i].sample);
    cfx__text_puts(t, "}, {0}};\n");
}

/* The sizes of this call, told before the files or by their lengths; then the arrays. */
static void put_finding(cfx__text *t, const cfx__c *c) {
    cfx__text_printf(
        t, "    for (; argc > 1 && %s_told(argv[1], &sizes); argc--)\n        argv++;\n", c->name);
}

static void put_rooms(cfx__text *t, const cfx__c *c) {
    for (int round = 0; c->nvary && round < c->nvary; round++) /* one may tell what another needs */
        for (int i = 0; i < c->inputs.n; i++)
            if (c->inputs.of[i].sizes)
                cfx__text_printf(t,
                                 "    %s_follow(&sizes, %d, %s_elements(argv[%d], sizeof(%s)));\n",
                                 c->name, i, c->name, i + 1, cfx__c_type(c->inputs.of[i].dtype));
    for (int i = 0; i < c->inputs.n + c->outputs.n && c->nvary; i++) {
        const cfx__c_port *p = port_at(c, i);
        const char *type = cfx__c_type(p->dtype);
        cfx__text_printf(t, "    %s *%s = (%s *)%s_room(%s_count(%d, sizes.of), sizeof(%s));\n",
                         type, p->name, type, c->name, c->name, i, type);
    }
}

static const char *count_at(const cfx__c *c, int i) {
    return c->nvary ? cfx__text_format("(size_t)%s_count(%d, sizes.of)", c->name, i)
                    : cfx__text_format("%lld", (long long)port_at(c, i)->count);
}

static void put_weights(cfx__text *t, const cfx__c *c, const char *bin) {
    cfx__text_printf(t,
                     "    static _Alignas(64) unsigned char file[%s_WEIGHTS_BYTES];\n"
                     "    struct %s_weights weights;\n"
                     "    const char *path = getenv(\"%s_WEIGHTS\");\n"
                     "    %s_read(path ? path : \"%s\", file, sizeof file);\n"
                     "    if (%s_weights_load(&weights, file, sizeof file) != 0) {\n"
                     "        fprintf(stderr, \"the weights are of another program\\n\");\n"
                     "        return 2;\n    }\n",
                     c->upper, c->name, c->upper, c->name, bin, c->name);
}

static void put_run(cfx__text *t, const cfx__c *c, const char *weights) {
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, "    %s_read(argv[%d], %s, %s * sizeof *%s);\n", c->name, i + 1,
                         c->inputs.of[i].name, count_at(c, i), c->inputs.of[i].name);
    if (!c->inputs.n)
        cfx__text_puts(t, "    (void)argv;\n");
    if (c->states.n)
        cfx__text_printf(t, "    %s_state_init(%s, &state);\n", c->name, weights);
    cfx__text_printf(t, "    const int code = %s_run(%s%s, arena", c->name, weights,
                     c->states.n ? ", &state" : "");
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, ", sizes.of[%d]", i);
    for (int i = 0; i < c->inputs.n + c->outputs.n; i++)
        cfx__text_printf(t, ", %s", port_at(c, i)->name);
    cfx__text_puts(t, ");\n    if (code != 0) {\n");
    cfx__text_puts(t, c->nvary
                          ? "        fprintf(stderr, \"%s\\n\", code == 2 ? \"a size is out of "
                            "its range\" : \"an index is out of range\");\n"
                          : "        fprintf(stderr, \"an index is out of range\\n\");\n");
    cfx__text_puts(t, "        return 2;\n    }\n");
    for (int i = c->inputs.n; i < c->inputs.n + c->outputs.n; i++)
        cfx__text_printf(t, "    fwrite(%s, sizeof *%s, %s, stdout);\n", port_at(c, i)->name,
                         port_at(c, i)->name, count_at(c, i));
    for (int i = 0; i < c->inputs.n + c->outputs.n && c->nvary; i++)
        cfx__text_printf(t, "    free(%s);\n", port_at(c, i)->name);
    cfx__text_puts(t, c->nvary ? "    free(room);\n" : "");
    cfx__text_puts(t, "    if (fflush(stdout) != 0 || ferror(stdout)) {\n"
                      "        fprintf(stderr, \"the results cannot be written\\n\");\n"
                      "        return 2;\n    }\n    return 0;\n}\n");
}

void cfx__c_main(const cfx__c *c, cfx__text *t, const char *bin) {
    const bool file = c->o.weights == CFX_WEIGHTS_FILE;
    const char *weights = file ? "&weights" : cfx__text_format("&%s_weights", c->name);
    cfx__c_put_named(t, read_file, c->name);
    if (c->nvary)
        put_sizes(t, c);
    cfx__text_printf(t,
                     "/* One raw file for each input, in order; raw results, in order, to stdout.");
    if (c->nvary)
        cfx__text_printf(t,
                         " Sizes\n * follow from the lengths of files; where they do not, they are "
                         "told before\n * them: %s=%lld.",
                         c->sizes[0].name, (long long)c->sizes[0].sample);
    if (file)
        cfx__text_printf(t, " Weights\n * are read from the file that %s_WEIGHTS names, else %s.",
                         c->upper, bin);
    cfx__text_puts(t, " */\nint main(int argc, char **argv) {\n");
    put_arrays(t, c);
    if (file)
        put_weights(t, c, bin);
    if (c->o.test)
        cfx__text_printf(
            t,
            "    if (argc == 2 && strcmp(argv[1], \"--test\") == 0) {\n"
            "        double worst = 0;\n"
            "%s"
            "        const int off = %s_test(%s, %sarena, &worst);\n"
            "        printf(\"%%d of %d results are off, by %%.1e at most\\n\", off, worst);\n"
            "%s        return off != 0;\n    }\n",
            c->states.n ? cfx__text_format("        %s_state_init(%s, &state);\n", c->name, weights)
                        : "",
            c->name, weights, c->states.n ? "&state, " : "", c->outputs.n,
            c->nvary ? "        free(room);\n" : "");
    if (c->nvary)
        put_finding(t, c);
    cfx__text_printf(t, "    if (argc != %d) {\n        fprintf(stderr, \"usage: %%s",
                     c->inputs.n + 1);
    for (int i = 0; i < c->nvary; i++)
        cfx__text_printf(t, " [%s=N]", c->sizes[i].name);
    for (int i = 0; i < c->inputs.n; i++)
        cfx__text_printf(t, " %s", cfx__c_upper(c->inputs.of[i].name));
    cfx__text_puts(t, " > results\\n\", argc ? argv[0] : \"\");\n        return 2;\n    }\n");
    put_rooms(t, c);
    put_run(t, c, weights);
}
