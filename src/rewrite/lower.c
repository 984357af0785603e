/* Converts programs of other frameworks to ATen: decomposes their operators, then replaces the
 * resulting patterns by PyTorch's operators for them. Start at cfx_to_aten. */
#include "pass.h"

/* ---- which programs -------------------------------------------------------------------------- */

static bool is_foreign_node(const cfx_node *n) {
    const char *higher = cfx_node_higher_order(n);
    return (n->op == CFX_CALL_FUNCTION && n->target.op &&
            n->target.op->effects & CFX_FOREIGN) ||
           (higher && !strncmp(higher, "onnx_", 5));
}

static void look(const char *path, cfx_module *m, void *user) {
    (void)path;
    bool *found = user;
    for (const cfx_node *n = m->graph ? cfx_graph_first(m->graph) : NULL; n && !*found;
         n = cfx_node_after(n))
        *found = is_foreign_node(n);
}

bool cfx__is_foreign(const cfx_module *m) {
    bool found = false;
    cfx_module_walk((cfx_module *)m, look, &found);
    return found;
}

/* ---- programs -------------------------------------------------------------------------------- */

cfx_program *cfx_to_aten(const cfx_program *p) {
    if (!cfx__program_whole((cfx_site){0}, p))
        return &cfx__program_bad;
    if (!cfx__is_foreign(p->module))
        return cfx__scope_own(cfx_keep((cfx_program *)p));
    if (!cfx__program_supported((cfx_site){0}, (cfx_program *)p))
        return &cfx__program_bad;
    static const cfx_pass *const passes[] = {&cfx__pass_simplify, &cfx__pass_recognize,
                                             &cfx__pass_prune};
    size_t mark = cfx_scope_open();
    cfx_program *out = cfx_program_copy(cfx__open_foreign(p));
    for (int i = 0; i < COUNT(passes) && !cfx_failed(out); i++)
        cfx_pass_apply(passes[i], out, NULL);
    return cfx_scope_return(mark, cfx_ok() ? out : &cfx__program_bad);
}

/* ---- executions ------------------------------------------------------------------------------ */

/* Runs the graph again on the inputs of the execution; its results as nodes, bad where it fails. */
static cfx_value record(cfx__rerun *run) {
    cfx_value result = cfx_none(), out = cfx_bad();
    cfx__record_begin(&run->recorder);
    if (cfx__rerun_graph(run, &result))
        out = cfx__record_arg(&run->recorder, (cfx_site){0}, result);
    cfx__record_end(&run->recorder);
    return cfx_ok() ? out : cfx_bad();
}

/* Whether all inputs are tensors: sequences of them have no form as nodes. */
static bool takes_tensors(const cfx_execution *e) {
    for (int i = 0; i < e->inputs.n; i++)
        if (e->inputs.v[i].tag != CFX_TAG_TENSOR)
            return false;
    return true;
}

cfx_module *cfx__lower_execution(const cfx_execution *e) {
    if (!takes_tensors(e) || (e->graph && e->graph != e->module->graph))
        return NULL;
    size_t mark = cfx_scope_open();
    cfx__worlds worlds = {.n = 1};
    cfx__rerun run = {.given = e,
                      .from = e->module,
                      .to = cfx__module_new_raw("GraphModule", NULL),
                      .worlds = &worlds,
                      .foreign = true};
    cfx__rerun_record(&run, cfx_graph_new());
    cfx_value results = record(&run);
    cfx_module *gm = NULL;
    if (!cfx_is_bad(results)) {
        cfx_graph_output(run.recorder.graph, results);
        cfx_graph_eliminate_dead_code(run.recorder.graph);
        gm = cfx_graph_module(run.to, run.recorder.graph, e->module->type);
        if (!gm->graph || cfx_rules_apply(cfx__rules_simplifying(), gm) < 0 ||
            cfx_rules_apply(cfx__rules_recognizing(), gm) < 0)
            gm = NULL;
    }
    cfx__rerun_done(&run);
    return gm && cfx_ok() ? cfx_scope_return(mark, gm) : (cfx_scope_close(mark), NULL);
}
