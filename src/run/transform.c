/* The transformer: the interpreter's walk, with slots that make nodes: what the caller's slots do
 * on traced values becomes a new graph. */
#include "run.h"

static cfx__tracer *tracer_of(const cfx_interp *it) { return it->own_->user; }

static cfx_value traced(cfx_node *n) { return cfx_tensor_value(cfx__traced_tensor(n)); }

/* A placeholder like the one being run. */
static cfx_value placeholder(cfx_interp *it, cfx_target t, cfx_args a) {
    const cfx_node *old = it->node;
    bool has_default = a.n > 0;
    cfx_node *n = cfx_graph_placeholder(tracer_of(it)->graph, t.name, old->type, has_default,
                                        has_default ? a.v[0] : cfx_none());
    for (int64_t i = 0; n->graph && old->meta && i < old->meta->len; i++)
        cfx_node_set_meta(n, cfx_text(old->meta->entries[i].key), old->meta->entries[i].value);
    return traced(n);
}

static cfx_value get_attr(cfx_interp *it, cfx_target t, cfx_args a) {
    cfx_target target = {.name = t.name};
    return traced(cfx__tracer_node(tracer_of(it), (cfx_site){0}, CFX_GET_ATTR, target, a));
}

static cfx_value call_function(cfx_interp *it, cfx_target t, cfx_args a) {
    bool higher = !t.object && !t.fn && !t.op && cfx__higher_find(t.name);
    if (!higher)
        return cfx__interp_slots.call_function(it, t, a);
    return traced(cfx__tracer_node(tracer_of(it), (cfx_site){0}, CFX_CALL_FUNCTION, t, a));
}

static void enter(cfx_interp *it, cfx_node *n) { tracer_of(it)->like = n; }

cfx_module *cfx_transform(cfx_interp *it) {
    cfx_module *m = it ? it->module : NULL;
    cfx_graph *from = m && it->graph ? it->graph : m ? m->graph : NULL;
    if (!from) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a transformer needs a GraphModule");
        return &cfx__module_bad;
    }
    cfx__slots slots = cfx__interp_slots;
    slots.placeholder = placeholder;
    slots.get_attr = get_attr;
    slots.call_function = call_function;
    slots.enter = enter;
    size_t mark = cfx_scope_open();
    cfx__tracer t = {.graph = cfx_graph_new(), .root = it->module, .leaves_only = true};
    cfx__tracer_begin(&t);
    cfx_value result = cfx__run_graph(it, (cfx_args){0}, &slots, &t);
    cfx_value out = cfx_ok() ? cfx__tracer_arg(&t, (cfx_site){0}, result) : cfx_bad();
    cfx_node *old = cfx_graph_output_node(from);
    cfx_node *n = cfx_is_bad(out) ? cfx__node_bad : cfx_graph_output(t.graph, out);
    if (n->graph && old && old->type)
        cfx_node_set_type(n, old->type);
    cfx_graph_set_codegen(t.graph, from->codegen);
    if (from->tree)
        cfx_graph_set_tree(t.graph, from->tree->names, from->tree->in_spec, from->tree->out_spec);
    cfx__tracer_end(&t);
    cfx_module *gm = n->graph ? cfx_graph_module(it->module, t.graph, NULL)
                               : &cfx__module_bad;
    return cfx_scope_return(mark, gm);
}
