/* Programs made ready to be written as C: foreign operators become ATen's, what is written in place
 * becomes a value, and operators without a form here become what they are made of. */
#include <cfx/pass.h>
#include <cfx/rewrite.h>

#include "compile.h"

/* Whether calls of an operator can be kernels: steps of loops, looks into memory, calls that have a
 * form. Everything else is taken apart where its row says how. */
static bool is_written(const cfx_op *op) {
    return op->effects & CFX_LOOPS || op->view || cfx__c_call_known(op);
}

static cfx_op_fn *made_of(const cfx_op *op) { return op->decompose ? op->decompose : op->core; }

static void look(const char *path, cfx_module *m, void *user) {
    (void)path;
    bool *found = user;
    for (const cfx_node *n = m->graph ? cfx_graph_first(m->graph) : NULL; n && !*found;
         n = cfx_node_after(n)) {
        cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
        const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
        *found |= info && (info->writes || info->form != CFX__FUNCTIONAL ||
                           info->family == CFX__OP_CHECK || (!is_written(op) && made_of(op)));
    }
}

cfx_program *cfx__c_ready(const cfx_program *p) {
    cfx_program *aten = cfx_to_aten(p);
    bool found = false;
    if (!cfx_failed(aten))
        cfx_module_walk(aten->module, look, &found);
    if (!found || cfx_failed(aten))
        return aten;
    const cfx_pass *no_checks = cfx_pass_find("remove_asserts");
    aten = cfx_program_copy(aten);
    if (no_checks && !cfx_failed(aten))
        cfx_pass_apply(no_checks, aten, NULL);
    const int n = cfx_op_count();
    cfx_decomposition *rows = cfx__alloc((size_t)n * sizeof *rows);
    int nrows = 0;
    for (int i = 0; i < n; i++) {
        cfx_op *op = cfx_op_at(i);
        if (!is_written(op) && made_of(op) && !cfx__op_info_of(op)->writes)
            rows[nrows++] = (cfx_decomposition){cfx_op_name(op), made_of(op)};
    }
    cfx_program *out = cfx_decompose_by(
        aten, (cfx_decompose_options){.own = rows, .nown = nrows, .only_own = true});
    cfx__free(rows);
    return out;
}
