/* Programs of modules: what the trace room exported, made callable and given its signature. */
#include "../trace/export.h"

#include "run.h"

/* Placeholders of parameters that learn say so, as in what PyTorch exports. */
static void note_learning(cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_tensor *t = cfx_program_tensor(p, &p->inputs[i]);
        cfx_node *n = cfx_graph_find(p->module->graph, p->inputs[i].name);
        if (t && n && p->inputs[i].kind == CFX_IN_PARAMETER)
            cfx__result_set_grad(n, t->head.flags & CFX__GRAD);
    }
}

/* All modules there are, under each name they have. */
static void add_calls(cfx_program *p, const cfx_module *m, const char *path) {
    for (int i = 0; i < cfx_module_count(m); i++) {
        const char *name = cfx_module_child_name(m, i);
        const char *below = *path ? cfx__text_format("%s.%s", path, name) : name;
        cfx_program_add_call(p, (cfx_module_call){.path = below});
        add_calls(p, cfx_module_child(m, i), below);
    }
}

static cfx_program *program_of(cfx__export *e) {
    cfx_module *gm = cfx_graph_module(NULL, e->recorder.graph, "GraphModule");
    cfx_program *p = cfx_program_new(gm);
    if (cfx_failed(p))
        return p;
    cfx__graph_settle(gm->graph);
    for (size_t i = 0; i < e->inputs.len; i++)
        cfx_program_add_input(p, e->inputs.data[i]);
    for (size_t i = 0; i < e->outputs.len; i++)
        cfx_program_add_output(p, e->outputs.data[i]);
    cfx_drop(p->state), p->state = cfx_keep(e->state);
    cfx_drop(p->constants), p->constants = cfx_keep(e->constants);
    cfx_drop(p->ranges), p->ranges = cfx_keep(e->ranges);
    p->in_spec = cfx_value_keep(e->in_spec);
    p->out_spec = cfx_value_keep(e->out_spec);
    note_learning(p);
    cfx_program_add_call(p, (cfx_module_call){.path = "", .names = e->names});
    add_calls(p, e->root, "");
    return p;
}

cfx_program *cfx_export(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value dynamic) {
    if (!cfx__module_given(m))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    if (cfx_is_none(args))
        args = cfx_tuple_value(0, NULL);
    if (cfx_is_none(kwargs))
        kwargs = cfx_dict_value(cfx_dict_new());
    if (args.tag != CFX_TAG_TUPLE || kwargs.tag != CFX_TAG_DICT) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "cfx_export takes a tuple of arguments and a dict "
                 "of keywords, not %s and %s",
                 cfx_value_type_name(args), cfx_value_type_name(kwargs));
        return cfx_scope_return(mark, &cfx__program_bad);
    }
    cfx__export e;
    cfx_program *p = cfx__export_run(&e, m, args, kwargs, dynamic) ? program_of(&e)
                                                                    : &cfx__program_bad;
    cfx__export_end(&e);
    return cfx_scope_return(mark, cfx_ok() ? p : &cfx__program_bad);
}
