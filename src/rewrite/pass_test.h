/* What tests of passes share: programs from their code, and what a pass makes of them. */
#ifndef CFX__PASS_TEST_H
#define CFX__PASS_TEST_H

#include <cfx/emit.h>
#include <cfx/ops.h>
#include <cfx/pack.h>

#include "pass.h"
#include "test.h"

#define HEAD "class GraphModule(torch.nn.Module):\n"
#define HAS(text, part) CHECK(strstr(text, part) != NULL)
#define HAS_NOT(text, part) CHECK(strstr(text, part) == NULL)

/* A program from its code. Placeholders p_... and b_... are parameters and buffers with random
 * numbers, those called p_var... positive ones. */
static inline cfx_program *program_of(const char *code) {
    cfx_module *gm = cfx_module_parse(code, "test");
    cfx_program *p = gm ? cfx_program_new(gm) : NULL;
    if (!CHECK(p != NULL))
        return NULL;
    cfx_each_node(gm->graph, n) {
        bool buffer = !strncmp(n->name, "b_", 2), param = !strncmp(n->name, "p_", 2);
        if (n->op != CFX_PLACEHOLDER)
            continue;
        cfx_input_kind kind = buffer ? CFX_IN_BUFFER : param ? CFX_IN_PARAMETER : CFX_IN_USER;
        cfx_result r = cfx_node_result(n);
        if (kind != CFX_IN_USER)
            cfx_dict_set(p->state, n->name + 2,
                         cfx_tensor_value(cfx_abs(cfx_randn(cfx_ints_value(r.ndim, r.shape)))));
        cfx_program_add_input(p, (cfx_input_spec){.kind = kind,
                                                  .name = n->name,
                                                  .target = kind ? n->name + 2 : NULL,
                                                  .persistent = true});
    }
    CHECK(cfx_program_sync(p));
    return p;
}

static inline const char *code_after(const char *pass, cfx_program *p, int changes) {
    CHECK_INT(cfx_pass_apply(cfx_pass_find(pass), p, NULL), changes);
    CHECK_OK();
    CHECK(cfx_program_check(p));
    return cfx_module_code(p->module);
}

/* The largest difference of the first results of two programs. */
static inline double difference(cfx_program *a, cfx_program *b, cfx_tensor *x) {
    cfx_tensor *u = cfx_tensor_at(cfx_program_run(a, x), 0);
    cfx_tensor *v = cfx_tensor_at(cfx_program_run(b, x), 0);
    return cfx_number(cfx_item(cfx_max(cfx_abs(cfx_sub(u, v)))));
}

#endif
