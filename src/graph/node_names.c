/* What nodes are called. */
#include "meta.h"

/* Whether the signature of a program has the name of n: one with many users may be a result. */
static bool is_in_signature(const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER || n->num_users > 8)
        return true;
    cfx_each_user(n, u) if (u->user->op == CFX_OUTPUT)
        return true;
    return false;
}

static void set_name(cfx_node *n, cfx__name *name) {
    cfx__node *own = cfx__node_of(n);
    if (own->name->node == n)
        own->name->node = NULL;
    own->name = name;
    name->node = n->erased ? NULL : n;
    n->name = name->text;
    n->graph->version++;
    if (is_in_signature(n))
        cfx__graph_count_edge(n->graph);
}

void cfx_node_rename(cfx_node *n, const char *name) {
    if (cfx__node_given(n) && name && strcmp(name, n->name)) {
        cfx__namespace *names = &n->graph->names;
        set_name(n, cfx__name_give(names, cfx__name_candidate(names, name)));
    }
}

void cfx__graph_rename_begin(cfx_graph *g) {
    cfx__namespace_forget(&g->names);
    cfx_each_node(g, n) if (n->op == CFX_PLACEHOLDER)
        set_name(n, cfx__name_take(&g->names, n->name));
}

void cfx__node_rename_again(cfx_node *n) {
    cfx__name *base = cfx__node_of(n)->name->base;
    set_name(n, cfx__name_give(&n->graph->names, base));
}

bool cfx_node_set_name(cfx_node *n, const char *name) {
    if (!cfx__node_given(n))
        return false;
    cfx__name *r = name ? cfx__name_take(&n->graph->names, name) : NULL;
    if (!r) {
        cfx_fail(CFX_NAME_ERROR, (cfx_site){0}, "'%s' cannot be the name of a node",
                 name ? name : "");
        return false;
    }
    if (r->node && r->node != n) {
        cfx_fail(CFX_NAME_ERROR, (cfx_site){0}, "Node redefined name %s!", name);
        return false;
    }
    set_name(n, r);
    return true;
}
