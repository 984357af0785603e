/* Programs of modules: what the trace room exported, made callable and given its signature. */
#include "../trace/draft.h"
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

static const cfx_module_call *preserved_call(const cfx__export *e, const char *path) {
    for (size_t i = 0; i < e->calls.len; i++)
        if (!strcmp(e->calls.data[i].path, path))
            return &e->calls.data[i];
    return NULL;
}

/* All modules there are, under each name they have. */
static void add_calls(cfx_program *p, const cfx__export *e, const cfx_module *m,
                      const char *path) {
    for (int i = 0; i < cfx_module_count(m); i++) {
        const char *name = cfx_module_child_name(m, i);
        const char *below = *path ? cfx__text_format("%s.%s", path, name) : name;
        const cfx_module_call *preserved = preserved_call(e, below);
        cfx_program_add_call(p, preserved ? *preserved : (cfx_module_call){.path = below});
        add_calls(p, e, cfx_module_child(m, i), below);
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
    if (e->guards.tag == CFX_TAG_LIST && cfx_as_list(e->guards)->len)
        cfx_dict_set(p->extra, "guards", e->guards);
    if (!cfx_is_none(e->probed))
        cfx_dict_set(p->extra, "probed", e->probed);
    note_learning(p);
    cfx_program_add_call(p, (cfx_module_call){.path = "", .names = e->names});
    add_calls(p, e, e->root, "");
    for (size_t i = 0; i < e->calls.len; i++)
        if (strchr(e->calls.data[i].path, '@'))
            cfx_program_add_call(p, e->calls.data[i]);
    return p;
}

/* The example goes with the program, as in PyTorch: who has its file can run it. */
static void note_example(cfx_program *p, cfx_value args, cfx_value kwargs) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value example = cfx_tuple(args, kwargs);
    cfx_tree_flatten(example, leaves);
    for (int64_t i = 0; i < leaves->len; i++)
        if (leaves->items[i].tag == CFX_TAG_TENSOR && !cfx_as_tensor(leaves->items[i])->data &&
            cfx_as_tensor(leaves->items[i])->numel)
            return; /* a fake one */
    cfx_dict_set(p->extra, "sample_inputs", example);
}

/* Which sizes may vary, however that was said; an error where it was said twice. */
static cfx_value dynamic_of(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value dynamic,
                            const cfx_export_options *o) {
    bool shapes = !cfx_is_none(o->shapes), inputs = !cfx_is_none(o->additional_inputs);
    if (!shapes && !inputs)
        return dynamic;
    if (!cfx_is_none(dynamic) || (shapes && inputs)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "sizes that may vary are said once: by dynamic, by shapes, or by "
                 "additional_inputs");
        return cfx_none();
    }
    return shapes ? cfx__shapes_collected(m, args, kwargs, o->shapes)
                  : cfx__shapes_inferred(m, args, kwargs, o->additional_inputs);
}

/* Whether the program takes the other inputs that it was made for; else an error. */
static bool takes(cfx_program *p, cfx_value inputs) {
    for (int64_t i = 0; !cfx_is_none(inputs) && i < cfx_as_list(inputs)->len && cfx_ok(); i++) {
        cfx_value args = cfx_at(cfx_as_list(inputs)->items[i], 0);
        cfx_value kwargs = cfx_at(cfx_as_list(inputs)->items[i], 1);
        cfx_program_inputs_from((cfx_site){0}, p,
                                (cfx_args){(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                                           cfx_is_none(kwargs) ? NULL : cfx_as_dict(kwargs)});
        if (!cfx_ok())
            cfx_error_note("of additional input %lld", (long long)i);
    }
    return cfx_ok();
}

cfx_program *cfx__export_program(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                                 cfx_value dynamic, cfx_export_options options,
                                 cfx__draft *draft) {
    if (!cfx__module_given(m))
        return &cfx__program_bad;
    cfx_value preserve = options.preserve_module_call_signature;
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    if (cfx_is_none(args))
        args = cfx_tuple_value(0, NULL);
    if (cfx_is_none(kwargs))
        kwargs = cfx_dict_value(cfx_dict_new());
    if (args.tag != CFX_TAG_TUPLE || kwargs.tag != CFX_TAG_DICT) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "cfx_export takes a tuple of arguments and a dict "
                 "of keywords, not %s and %s",
                 cfx_value_type_name(args), cfx_value_type_name(kwargs));
        cfx__site_leave(outer);
        return cfx_scope_return(mark, &cfx__program_bad);
    }
    if (preserve.tag == CFX_TAG_TUPLE)
        preserve = cfx_list_value(cfx_as_list(preserve)->len, cfx_as_list(preserve)->items);
    cfx__export e;
    dynamic = dynamic_of(m, args, kwargs, dynamic, &options);
    cfx_program *p = &cfx__program_bad;
    if (cfx_ok()) {
        if (cfx__export_run(&e, m, args, kwargs, dynamic, preserve, options.probe_ms, draft))
            p = program_of(&e);
        cfx__export_end(&e);
    }
    if (cfx_ok())
        note_example(p, args, kwargs);
    if (cfx_ok())
        takes(p, options.additional_inputs);
    cfx__site_leave(outer);
    return cfx_scope_return(mark, cfx_ok() ? p : &cfx__program_bad);
}

cfx_program *cfx_export_from(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                             cfx_value dynamic, cfx_export_options options) {
    return cfx__export_program(at, m, args, kwargs, dynamic, options, NULL);
}
