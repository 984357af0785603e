/* From the values that a caller passes to the placeholders of a graph, and back for the result:
 * nested arguments, boxes, and what the user's code generation makes of them. Start at
 * cfx__run_inputs. */
#include "run.h"

/* The value at a place of a container, or of what is traced. */
static cfx_value item(cfx_value v, cfx_value key) {
    if (cfx__traced_node(v))
        return cfx_py("operator.getitem", v, key);
    if (v.tag != CFX_TAG_DICT)
        return cfx_as_list(v)->items[cfx_integer(key)];
    const cfx_value *own = cfx_dict_find(cfx_as_dict(v), key);
    return own ? *own : cfx_bad();
}

/* v with the items that a spec says in the place of what is traced: its leaves are values of their
 * own then, x[0] and d['mask'], in the order in which torch.fx's tree_flatten_spec takes them. What
 * does not fit is as it was. */
static cfx_value opened(cfx_value spec, cfx_value v) {
    bool dict = spec.tag == CFX_TAG_DICT, list = spec.tag == CFX_TAG_LIST;
    bool traced = cfx__traced_node(v) != NULL;
    if ((!dict && !list && spec.tag != CFX_TAG_TUPLE) || (!traced && v.tag != spec.tag))
        return v;
    int64_t n = dict ? cfx_as_dict(spec)->len : cfx_as_list(spec)->len;
    if (!traced && n != (dict ? cfx_as_dict(v)->len : cfx_as_list(v)->len))
        return v;
    cfx_list *items = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; i < n; i++) {
        cfx_value own = item(v, dict ? cfx_as_dict(spec)->entries[i].key : cfx_int(i));
        if (cfx_is_bad(own))
            return v;
        cfx_list_append(items, own);
    }
    cfx_value made = dict ? cfx_dict_value(cfx_dict_new()) : cfx__value_like(traced ? spec : v);
    for (int64_t i = 0; i < n; i++)
        if (dict)
            cfx_dict_put(cfx_as_dict(made), cfx_as_dict(spec)->entries[i].key,
                         opened(cfx_as_dict(spec)->entries[i].value, items->items[i]));
        else
            cfx_list_append(cfx_as_list(made),
                            opened(cfx_as_list(spec)->items[i], items->items[i]));
    return made;
}

static bool flatten_as(cfx_value spec, cfx_value v, cfx_list *flat) {
    return cfx__tree_flatten_as(spec, cfx_is_tracing() ? opened(spec, v) : v, flat);
}

static bool is_known(const char *name, cfx_value spec) {
    if (cfx_is_none(spec))
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "how '%s' is nested is not known: its text does not say it, set it with "
                 "cfx_graph_set_tree",
                 name);
    return !cfx_is_none(spec);
}

static bool take_apart(const char *name, cfx_value spec, cfx_value v, cfx_list *flat) {
    if (!is_known(name, spec))
        return false;
    if (spec.tag == CFX_TAG_ELLIPSIS) {
        cfx_list_append(flat, v);
        return true;
    }
    if (flatten_as(spec, v, flat))
        return true;
    cfx_value got = cfx_tree_flatten(v, cfx_as_list(cfx_list_value(0, NULL)));
    cfx__fail_lines(
        CFX_VALUE_ERROR, (cfx_site){0},
        "Trying to flatten argument '%s' with tree spec: \n%s\nbut actually got tree spec: "
        "\n%s",
        name, cfx_tree_spec_text(spec), cfx_tree_spec_text(got));
    return false;
}

/* ---- arguments by position and by name, as exported programs take them ----------------------- */

/* Whether the arguments are the leaves themselves, by position: as good as any tree, and all that a
 * caller needs to know of a program whose inputs have names in Python. */
static bool are_leaves(cfx_value spec, cfx_args a) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(cfx_tuple_value(a.n, a.v), leaves);
    return !(a.kw && a.kw->len) && a.n == cfx__tree_leaves(spec) && leaves->len == a.n;
}

/* The arguments as (args, kwargs) in the way the spec has them, where each is there, by position or
 * by name, and no other; None where they are not. */
static cfx_value by_names(cfx_value spec, cfx_value names, cfx_args a) {
    int64_t n = names.tag == CFX_TAG_LIST ? cfx_as_list(names)->len : -1;
    const cfx_list *first = cfx_as_list(cfx_as_list(spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(spec)->items[1]);
    if (n != first->len + rest->len || n != a.n + (a.kw ? a.kw->len : 0))
        return cfx_none();
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *kw = cfx_dict_new();
    for (int64_t i = 0; i < n; i++) {
        const cfx_value *v = i < a.n ? &a.v[i]
                             : a.kw  ? cfx_dict_find(a.kw, cfx_as_list(names)->items[i])
                                     : NULL;
        if (!v)
            return cfx_none();
        if (i < first->len)
            cfx_list_append(cfx_as_list(args), *v);
        else
            cfx_dict_put(kw, rest->entries[i - first->len].key, *v);
    }
    return cfx_tuple(args, cfx_dict_value(kw));
}

static bool fail_keywords(cfx_site at, const cfx_dict *given, const cfx_dict *wanted) {
    cfx_value got = cfx_list_value(0, NULL), want = cfx_list_value(0, NULL);
    for (int64_t i = 0; given && i < given->len; i++)
        cfx_list_append(cfx_as_list(got), given->entries[i].key);
    for (int64_t i = 0; i < wanted->len; i++)
        cfx_list_append(cfx_as_list(want), wanted->entries[i].key);
    cfx_fail(CFX_VALUE_ERROR, at,
             "Ran into a kwarg keyword mismatch: Got the following keywords %s but expected %s",
             cfx_value_repr(got), cfx_value_repr(want));
    return false;
}

/* Whether keywords are given under other names, or others are missing. */
static bool keywords_differ(const cfx_dict *given, const cfx_dict *wanted) {
    bool same = (given ? given->len : 0) == wanted->len;
    for (int64_t i = 0; same && i < wanted->len; i++)
        same = cfx_dict_find(given, wanted->entries[i].key) != NULL;
    return !same;
}

bool cfx__tree_inputs(cfx_site at, cfx_value spec, cfx_value names, cfx_args a, cfx_list *flat) {
    cfx_value given = cfx_tuple(cfx_tuple_value(a.n, a.v),
                                cfx_dict_value(a.kw ? a.kw : cfx_dict_new()));
    if (flatten_as(spec, given, flat))
        return true;
    if (are_leaves(spec, a)) {
        for (int i = 0; i < a.n; i++)
            cfx_list_append(flat, a.v[i]);
        return true;
    }
    cfx_value named = by_names(spec, names, a);
    if (!cfx_is_none(named) && flatten_as(spec, named, flat))
        return true;
    const cfx_dict *wanted = cfx_as_dict(cfx_as_list(spec)->items[1]);
    if (keywords_differ(a.kw, wanted))
        return fail_keywords(at, a.kw, wanted);
    cfx_value got = cfx_tree_flatten(given, cfx_as_list(cfx_list_value(0, NULL)));
    cfx__fail_lines(
        CFX_VALUE_ERROR, at,
        "Trying to flatten user inputs with exported input tree spec: \n%s\n"
        "but actually got inputs with tree spec of: \n%s.\n"
        "Please check that the inputs have the same number and type of args and kwargs as the "
        "ones you used when tracing.",
        cfx_tree_spec_text(spec), cfx_tree_spec_text(got));
    return false;
}

/* ---- the arguments of a graph ---------------------------------------------------------------- */

static bool tree_inputs(const cfx_graph *g, cfx_args a, cfx_list *flat) {
    if (cfx__graph_tree_is_call(g->tree))
        return cfx__tree_inputs((cfx_site){0}, g->tree->in_spec, g->tree->names, a, flat);
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
