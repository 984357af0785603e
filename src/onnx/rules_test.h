/* One case for each rule: a program of one operator is written as .onnx, read back, and gives the
 * same. */
#ifndef CFX_RULES_TEST_H
#define CFX_RULES_TEST_H

#include "onnx_test.h"

#include <cfx/emit.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>

typedef struct {
    const char *name, *inputs, *body; /* "@" is "torch.ops.aten."; the result is y */
} rule_case;

#define X "x: \"f32[2, 3, 4]\""
#define XY X ", z: \"f32[2, 3, 4]\""
#define IJ "x: \"i64[2, 3, 4]\", z: \"i64[2, 3, 4]\""
#define B "x: \"b8[2, 3, 4]\", z: \"b8[2, 3, 4]\""
#define IMAGE "x: \"f32[2, 4, 9, 8]\""
#define S "x: \"f32[s0, 3, 4]\""
#define OWN "t = @add.Tensor(x, 1)\n        "
#define SIZE "n: \"Sym(s0)\" = @sym_size.int(x, 0)\n        "

/* ---- one case -------------------------------------------------------------------------------- */

static inline cfx_program *program_for(const rule_case *c) {
    cfx__text t = {0};
    cfx__text_puts(&t, "class GraphModule(torch.nn.Module):\n    def forward(self, ");
    cfx__text_printf(&t, "%s):\n        ", c->inputs);
    for (const char *s = c->body; *s; s++)
        if (*s == '@')
            cfx__text_puts(&t, "torch.ops.aten.");
        else
            cfx__text_putc(&t, *s);
    cfx__text_puts(&t, "\n        return (y,)\n");
    cfx_module *gm = cfx_module_parse(t.data, c->name);
    cfx__text_release(&t);
    cfx_program *p = cfx_program_new(gm);
    if (!cfx_ok())
        return p;
    cfx_each_node(gm->graph, n) {
        if (n->op == CFX_PLACEHOLDER)
            cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = n->name});
        if (n->op == CFX_OUTPUT)
            cfx_program_add_output(
                p, (cfx_output_spec){.name = cfx_as_node(cfx_at(cfx_at(n->args, 0), 0))->name});
    }
    return p;
}

/* Numbers for an input: of both signs, none 0, all unlike each other within a dozen. */
static inline cfx_tensor *sample(const cfx_result *r, int k) {
    int64_t sizes[CFX_MAX_DIMS] = {0}, numel = 1;
    for (int i = 0; i < r->ndim; i++) {
        cfx_value size = cfx_result_size(r, i);
        sizes[i] = size.tag == CFX_TAG_INT                 ? cfx_integer(size)
                   : strcmp(cfx_value_str(size), "s0 - 1") ? 5
                                                           : 4;
        numel *= sizes[i];
    }
    cfx_tensor *t = cfx_tensor_new(CFX_F32, r->ndim, sizes, NULL);
    for (int64_t i = 0; i < numel && cfx_ok(); i++) {
        int64_t n = (i * 7 + k * 5) % 13 - 6;
        ((float *)t->data)[i] = r->dtype == CFX_BOOL ? (float)(n % 2)
                                : cfx__dtype_is_floating(r->dtype)
                                    ? (float)n * 0.31f + 0.1f + (float)i * 0.003f
                                    : (float)(n % 5 ? n % 5 : 1);
    }
    return cfx_to(t, cfx_dtype_value(r->dtype));
}

static inline cfx_value samples(const cfx_program *p) {
    cfx_value in = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++) {
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        cfx_list_append(cfx_as_list(in), cfx_tensor_value(sample(&r, i)));
    }
    return in;
}

static inline cfx_tensor *run(cfx_program *p, cfx_value in) {
    cfx_value got = cfx_program_run_from(
        (cfx_site){0}, p, (cfx_args){(int)cfx_len(in), cfx_as_list(in)->items, NULL});
    return cfx_as_tensor(got.tag == CFX_TAG_TENSOR ? got : cfx_at(got, 0));
}

static inline bool is_near(cfx_tensor *got, cfx_tensor *want) {
    const double near = want->dtype == CFX_F64 ? 1e-12 : 1e-5;
    return cfx_is_true(cfx_allclose(got, want, CFX_KW(rtol, 10 * near), CFX_KW(atol, near),
                                    CFX_KW(equal_nan, true)));
}

static inline void check_case(const rule_case *c) {
    size_t mark = cfx_scope_open();
    cfx_program *p = program_for(c);
    cfx_value in = cfx_ok() && cfx_program_infer(p) ? samples(p) : cfx_bad();
    cfx_tensor *want = cfx_ok() ? run(p, in) : NULL;
    if (cfx_ok())
        keep_case(c->name, p, in, cfx_list(want));
    if (cfx_ok() && cfx_save(p, test_path("rule.onnx"))) {
        cfx_tensor *got = run(cfx_open(test_path("rule.onnx")), in);
        if (cfx_ok() && (got->dtype != want->dtype || got->ndim != want->ndim ||
                         memcmp(got->shape, want->shape, (size_t)got->ndim * sizeof *got->shape)))
            test_fail(CFX_HERE, "%s: %s, not %s", c->name, cfx_repr(got), cfx_repr(want));
        else if (cfx_ok() && !is_near(got, want))
            test_fail(CFX_HERE, "%s: other numbers: %s, not %s", c->name, cfx_repr(got),
                      cfx_repr(want));
    }
    if (!cfx_ok())
        test_fail(CFX_HERE, "%s: %s", c->name, cfx_error_last()->message);
    cfx_error_clear();
    cfx_scope_close(mark);
}

#define CHECK_CASES(cases)                                                                         \
    for (int i = 0; i < COUNT(cases); i++)                                                         \
        check_case(&cases[i]);                                                                     \
    test_unlink("rule.onnx");                                                                      \
    test_folder_done()

#endif
