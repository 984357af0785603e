/* Nested arguments: from the values that a caller passes to the placeholders of a graph, and back
 * for the result. Start at cfx__run_tree_inputs. */
#include "run.h"

/* Whether a spec is (by position, by name), as exported modules have it. */
static bool by_name_too(cfx_value spec) {
    return cfx_as_list(spec)->len == 2 && cfx_as_list(spec)->items[0].tag == CFX_TAG_TUPLE &&
           cfx_as_list(spec)->items[1].tag == CFX_TAG_DICT;
}

/* What an argument has to look like. */
static cfx_value spec_of(cfx_value spec, int64_t i) {
    if (!by_name_too(spec))
        return i < cfx_as_list(spec)->len ? cfx_as_list(spec)->items[i] : cfx_none();
    const cfx_list *first = cfx_as_list(cfx_as_list(spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(spec)->items[1]);
    return i < first->len               ? first->items[i]
           : i - first->len < rest->len ? rest->entries[i - first->len].value
                                        : cfx_none();
}

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
    const cfx_list *names = cfx_as_list(g->tree->names);
    for (int64_t i = 0; i < names->len; i++) {
        const char *name = cfx_text(names->items[i]);
        const cfx_value *v = i < a.n ? &a.v[i] : a.kw ? cfx_dict_find(a.kw, names->items[i]) : NULL;
        if (!v) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                     "forward() missing 1 required positional argument: '%s'", name);
            return false;
        }
        if (!take_apart(name, spec_of(g->tree->in_spec, i), *v, flat))
            return false;
    }
    if (a.n <= names->len)
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
             "forward() takes %lld positional arguments but %d were given",
             (long long)names->len + 1, a.n + 1);
    return false;
}

cfx_value cfx__run_tree_result(const cfx_graph *g, cfx_value v) {
    bool flat = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return flat && !cfx_is_none(g->tree->out_spec)
               ? cfx_tree_unflatten(g->tree->out_spec, cfx_as_list(v))
               : v;
}
