/* How a graph takes and gives nested values: the arguments that callers pass, and which
 * placeholders their leaves are. */
#include "graph.h"

void cfx__graph_drop_tree(cfx_graph *g) {
    if (g->tree) {
        cfx_value_drop(g->tree->names);
        cfx_value_drop(g->tree->in_spec);
        cfx_value_drop(g->tree->out_spec);
    }
    cfx__free(g->tree);
    g->tree = NULL;
}

void cfx_graph_set_tree(cfx_graph *g, cfx_value names, cfx_value in_spec, cfx_value out_spec) {
    if (!cfx__graph_given(g))
        return;
    bool flat = names.tag == CFX_TAG_NONE;
    if (!flat && (names.tag != CFX_TAG_LIST || in_spec.tag != CFX_TAG_TUPLE)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "a tree of arguments is a list of names and a tuple of what they hold, not %s and "
                 "%s",
                 cfx_value_type_name(names), cfx_value_type_name(in_spec));
        return;
    }
    cfx__graph_tree *tree = flat ? NULL : cfx__alloc(sizeof *tree);
    if (tree)
        *tree = (cfx__graph_tree){cfx_value_keep(names), cfx_value_keep(in_spec),
                                  cfx_value_keep(out_spec)};
    cfx__graph_drop_tree(g);
    g->tree = tree;
    g->version++;
}

cfx_value cfx_graph_tree(const cfx_graph *g) {
    if (cfx_failed(g) || !g->tree)
        return cfx_none();
    return cfx_tuple(g->tree->names, g->tree->in_spec, g->tree->out_spec);
}

bool cfx__tree_is_call(cfx_value spec) {
    return spec.tag == CFX_TAG_TUPLE && cfx_as_list(spec)->len == 2 &&
           cfx_as_list(spec)->items[0].tag == CFX_TAG_TUPLE &&
           cfx_as_list(spec)->items[1].tag == CFX_TAG_DICT;
}

bool cfx__graph_tree_is_call(const cfx__graph_tree *t) {
    if (!cfx__tree_is_call(t->in_spec))
        return false;
    const cfx_list *names = cfx_as_list(t->names);
    int64_t first = cfx_as_list(cfx_as_list(t->in_spec)->items[0])->len;
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(t->in_spec)->items[1]);
    bool fits = names->len == first + rest->len;
    for (int64_t i = 0; fits && i < rest->len; i++)
        fits = cfx_equal_values(names->items[first + i], rest->entries[i].key);
    return fits;
}

cfx_value cfx__graph_tree_spec(const cfx__graph_tree *t, int64_t i) {
    const cfx_list *spec = cfx_as_list(t->in_spec);
    if (!cfx__graph_tree_is_call(t))
        return i < spec->len ? spec->items[i] : cfx_none();
    const cfx_list *first = cfx_as_list(spec->items[0]);
    const cfx_dict *rest = cfx_as_dict(spec->items[1]);
    return i < first->len               ? first->items[i]
           : i - first->len < rest->len ? rest->entries[i - first->len].value
                                        : cfx_none();
}

const cfx_codegen cfx_codegen_boxed = {.boxed = true};

const cfx_codegen *cfx_graph_set_codegen(cfx_graph *g, const cfx_codegen *c) {
    if (!cfx__graph_given(g))
        return NULL;
    const cfx_codegen *before = g->codegen;
    g->codegen = c;
    g->version++;
    return before;
}

/* ---- signatures ------------------------------------------------------------------------------ */

typedef VEC(cfx__signature_param) params;

static const char *text_in(cfx__signature *s, const char *text) {
    return text ? cfx__arena_copy(&s->arena, text, strlen(text)) : NULL;
}

/* A parameter as a placeholder has it, whose target may start with stars. */
static void add_param(cfx__signature *s, params *all, const char *target, const cfx_node *n) {
    size_t stars = strspn(target, "*");
    const cfx_list *args = n ? cfx_as_list(n->args) : NULL;
    cfx__signature_param p = {.name = text_in(s, target + stars),
                              .type = n ? text_in(s, n->type) : NULL,
                              .kind = stars == 2   ? CFX__VAR_KEYWORDS
                                      : stars == 1 ? CFX__VAR_ARGS
                                                   : CFX__POSITIONAL,
                              .has_default = args && args->len};
    if (p.has_default)
        p.fallback = cfx_value_keep(args->items[0]);
    s->npositional += p.kind == CFX__POSITIONAL;
    s->nrequired += p.kind == CFX__POSITIONAL && !p.has_default;
    VEC_PUSH(*all, p);
}

/* The placeholder at n or after it. */
static const cfx_node *placeholder_from(const cfx_node *n) {
    while (n && n->op != CFX_PLACEHOLDER)
        n = cfx_node_after(n);
    return n;
}

/* The placeholder of a plain argument that follows one of which nothing is known. */
static const cfx_node *placeholder_called(const cfx_graph *g, const char *name) {
    const cfx_node *n = cfx_graph_find(g, name);
    return n && n->op == CFX_PLACEHOLDER ? n : NULL;
}

/* The arguments of a tree. One that is not nested has the default of its placeholder. */
static void add_tree(cfx__signature *s, params *all, const cfx_graph *g) {
    const cfx_list *names = cfx_as_list(g->tree->names);
    const cfx_node *n = placeholder_from(cfx_graph_first(g));
    for (int64_t i = 0; i < names->len; i++) {
        cfx_value spec = cfx__graph_tree_spec(g->tree, i);
        bool plain = spec.tag == CFX_TAG_ELLIPSIS;
        const char *name = cfx_as_text(names->items[i]);
        add_param(s, all, name, !plain ? NULL : n ? n : placeholder_called(g, name));
        for (int64_t k = cfx__tree_leaves(spec); n && k > 0; k--)
            n = cfx_is_none(spec) ? NULL : placeholder_from(cfx_node_after(n));
    }
}

cfx__signature *cfx__graph_signature(const cfx_graph *g) {
    cfx__signature *s = cfx__alloc0(sizeof *s);
    params all = {0};
    if (g->tree)
        add_tree(s, &all, g);
    cfx_each_node(g, n)
        if (n->op == CFX_PLACEHOLDER && !g->tree)
            add_param(s, &all, n->target.name, n);
    const cfx_node *out = cfx_graph_output_node(g);
    s->returns = out ? text_in(s, out->type) : NULL;
    s->params = all.data;
    s->n = (int)all.len;
    return s;
}
