/* From the values that a caller passes to the placeholders of a graph, and back for the result:
 * nested arguments, boxes, and what the user's code generation makes of them. Start at
 * cfx__run_inputs. */
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
    if (cfx__tree_flatten_as(spec, v, flat))
        return true;
    cfx_value got = cfx_tree_flatten(v, cfx_as_list(cfx_list_value(0, NULL)));
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "Trying to flatten argument '%s' with tree spec: \n%s\nbut actually got tree spec: "
             "\n%s",
             name, cfx_tree_spec_text(spec), cfx_tree_spec_text(got));
    return false;
}

static bool tree_inputs(const cfx_graph *g, cfx_args a, cfx_list *flat) {
    cfx__signature *s = cfx__graph_signature(g);
    cfx_value *bound = cfx__alloc((size_t)s->n * sizeof *bound + 1);
    bool fine = cfx__signature_bind(s, (cfx_site){0}, "forward", true, a, bound);
    for (int i = 0; i < s->n && fine; i++)
        fine = take_apart(s->params[i].name, cfx__graph_tree_spec(g->tree, i), bound[i], flat);
    cfx__free(bound);
    cfx__signature_free(s);
    return fine;
}

/* The one list that a boxed graph takes: its items, and it is empty. */
static bool take_box(cfx_site at, cfx_args a, cfx_list *flat) {
    cfx_list *box = a.n == 1 && !a.kw && a.v[0].tag == CFX_TAG_LIST ? cfx_as_list(a.v[0]) : NULL;
    if (!box || box->head.flags & CFX__FROZEN) {
        cfx_fail(CFX_TYPE_ERROR, at, "forward() of a boxed graph takes one list, which it empties");
        return false;
    }
    for (int64_t i = 0; i < box->len; i++) {
        cfx_list_append(flat, box->items[i]);
        cfx_value_drop(box->items[i]);
    }
    box->len = 0;
    return true;
}

static bool take_processed(const cfx_codegen *c, cfx_args a, cfx_list *flat) {
    cfx_value items = c->inputs(c, a);
    for (int64_t i = 0; i < cfx_as_list(items)->len; i++)
        cfx_list_append(flat, cfx_as_list(items)->items[i]);
    return !cfx_is_bad(items) && cfx_ok();
}

bool cfx__run_inputs(cfx_site at, const cfx_graph *g, cfx_args *a, cfx_list *flat) {
    const cfx_codegen *c = g->codegen;
    if (cfx__dispatch_args_bad(at, *a))
        return false;
    *a = cfx__dispatch_args_split(*a);
    bool boxed = c && c->boxed, own = c && c->inputs;
    if (!boxed && !own && !g->tree)
        return true;
    if (!(own     ? take_processed(c, *a, flat)
          : boxed ? take_box(at, *a, flat)
                  : tree_inputs(g, *a, flat)))
        return false;
    *a = (cfx_args){(int)flat->len, flat->items, NULL};
    return true;
}

cfx_value cfx__run_result(const cfx_graph *g, cfx_value v) {
    const cfx_codegen *c = g->codegen;
    if (cfx_is_bad(v))
        return v;
    if (c && c->outputs)
        return c->outputs(c, v);
    bool flat = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return g->tree && flat && !cfx_is_none(g->tree->out_spec)
               ? cfx_tree_unflatten(g->tree->out_spec, cfx_as_list(v))
               : v;
}
