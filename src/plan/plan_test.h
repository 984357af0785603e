/* What tests of plans share: programs from code, run by both executors. */
#ifndef CFX__PLAN_TEST_H
#define CFX__PLAN_TEST_H

#include <cfx/emit.h>
#include <cfx/ops.h>

#include "test.h"

#define HEAD "class GraphModule(torch.nn.Module):\n    def forward(self, "
#define ATEN "torch.ops.aten."
/* A line that calls an operator, which TAIL ends for batch_norm. */
#define CALL(to, op, args) "        " to " = torch.ops.aten." op "(" args ")\n"
#define TAIL ", False, 0.1, 1e-05, True)\n"

/* A program from its code: inputs called p_... are parameters, whose tensors are in the dict. */
static inline cfx_program *program_of(const char *code, cfx_dict *tensors) {
    cfx_module *gm = cfx_module_parse(code, "test");
    cfx_program *p = gm ? cfx_program_new(gm) : NULL;
    if (!p)
        return NULL;
    cfx_each_node(gm->graph, n) {
        bool weight = !strncmp(n->name, "p_", 2);
        if (n->op == CFX_PLACEHOLDER)
            cfx_program_add_input(
                p, (cfx_input_spec){.kind = weight ? CFX_IN_PARAMETER : CFX_IN_USER,
                                    .name = n->name,
                                    .target = weight ? n->name + 2 : NULL});
        if (n->op == CFX_OUTPUT)
            for (int64_t i = 0; i < cfx_as_list(cfx_at(n->args, 0))->len; i++)
                cfx_program_add_output(
                    p, (cfx_output_spec){.name = cfx_as_node(cfx_at(cfx_at(n->args, 0), i))->name});
    }
    for (int64_t i = 0; i < tensors->len; i++)
        cfx_dict_put(p->state, tensors->entries[i].key, tensors->entries[i].value);
    return p;
}

static inline cfx_dict *tensors_of(int n, const char *const *names, cfx_tensor *const *t) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < n; i++)
        cfx_dict_set(d, names[i], cfx_tensor_value(t[i]));
    return d;
}

/* A convolution with its normalisation, and a product. */
static inline cfx_program *conv_and_product(void) {
    static const char *const names[] = {"w", "g", "b", "m", "v", "l"};
    cfx_tensor *t[] = {cfx_randn(32, 8, 3, 3), cfx_randn(32), cfx_randn(32),
                       cfx_randn(32), cfx_add(cfx_rand(32), 0.5), cfx_randn(64, 32)};
    return program_of(
        HEAD "p_w, p_g, p_b, p_m, p_v, p_l, x):\n"
        CALL("c", "conv2d.default", "x, p_w, None, [2, 2], [1, 1]")
        "        n = " ATEN "batch_norm.default(c, p_g, p_b, p_m, p_v" TAIL
        CALL("r", "relu.default", "n") CALL("m", "mean.dim", "r, [2, 3]")
        CALL("y", "linear.default", "m, p_l") "        return (y,)\n",
        tensors_of(COUNT(names), names, t));
}

static inline cfx_value run_by(const cfx_executor *x, cfx_program *p, cfx_value in) {
    return cfx_program_run_with(CFX_HERE, p, x, NULL, (cfx_args){1, &in, NULL});
}

/* Whether both executors give the same results, in the same strides. */
static inline bool agree(cfx_program *p, cfx_value in) {
    cfx_value a = run_by(&cfx_interpreter, p, in), b = run_by(&cfx_planner, p, in);
    bool same = cfx_ok() && cfx_as_list(a)->len == cfx_as_list(b)->len;
    for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++) {
        const cfx_tensor *s = cfx_as_tensor(cfx_as_list(a)->items[i]),
                         *t = cfx_as_tensor(cfx_as_list(b)->items[i]);
        same = cfx_integer(
                   cfx_allclose(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i], 1e-4, 1e-4)) &&
               !memcmp(s->stride, t->stride, (size_t)s->ndim * sizeof *s->stride);
    }
    return same;
}

#endif
