/* Nested arguments: from the values that a caller passes to the placeholders of a graph, and back
 * for the result. Start at cfx__run_tree_inputs. */
#include "run.h"

static bool take_apart(const char *name, cfx_value spec, cfx_value v, cfx_list *flat) {
    if (cfx_is_none(spec)) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "how '%s' is nested is not known: its text does not say it, set it with "
                 "cfx_graph_set_tree",
                 name);
        return false;
    }
    if (spec.tag == CFX_TAG_ELLIPSIS) {
        cfx_list_append(flat, v);
        return true;
    }
    cfx_value got = cfx_tree_flatten(v, flat);
    if (cfx_equal_values(got, spec))
        return true;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "Trying to flatten argument '%s' with tree spec: \n%s\nbut actually got tree spec: "
             "\n%s",
             name, cfx_tree_spec_text(spec), cfx_tree_spec_text(got));
    return false;
}

bool cfx__run_tree_inputs(const cfx_graph *g, cfx_args a, cfx_list *flat) {
    cfx__signature *s = cfx__graph_signature(g);
    cfx_value *bound = cfx__alloc((size_t)s->n * sizeof *bound + 1);
    bool fine = cfx__signature_bind(s, (cfx_site){0}, "forward", true, a, bound);
    for (int i = 0; i < s->n && fine; i++)
        fine = take_apart(s->params[i].name, cfx__graph_tree_spec(g->tree, i), bound[i], flat);
    cfx__free(bound);
    cfx__signature_free(s);
    return fine;
}

cfx_value cfx__run_tree_result(const cfx_graph *g, cfx_value v) {
    bool flat = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return flat && !cfx_is_none(g->tree->out_spec)
               ? cfx_tree_unflatten(g->tree->out_spec, cfx_as_list(v))
               : v;
}
