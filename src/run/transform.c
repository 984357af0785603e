/* The transformer: the same walk as the interpreter's, on traced values, so that what the slots do
 * becomes a new graph. */
#include "run.h"

cfx_module *cfx_transform(cfx_interp *it) {
    cfx_graph *from = it->graph ? it->graph : it->module ? it->module->graph : NULL;
    if (!from) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a transformer needs a GraphModule");
        return NULL;
    }
    size_t mark = cfx_scope_open();
    cfx__tracer t = {.graph = cfx_graph_new(), .root = it->module, .leaves_only = true};
    cfx__tracer_begin(&t);
    cfx_value result = cfx__run_graph(it, (cfx_args){0}, &t);
    cfx_value out = cfx_ok() ? cfx__tracer_arg(&t, (cfx_site){0}, result) : cfx_bad();
    cfx_node *old = cfx_graph_output_node(from);
    cfx_node *n = cfx_is_bad(out) ? cfx__node_bad : cfx_graph_output(t.graph, out);
    if (n->graph && old && old->type)
        cfx_node_set_type(n, old->type);
    if (from->tree)
        cfx_graph_set_tree(t.graph, from->tree->names, from->tree->in_spec, from->tree->out_spec);
    cfx__tracer_end(&t);
    cfx_module *gm = n->graph ? cfx_graph_module(it->module, t.graph, NULL) : NULL;
    return cfx_scope_return(mark, gm);
}
