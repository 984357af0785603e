/* Where a run is. A sub-graph is called by the node that runs it and its own name, with the number
 * of the round where that is a loop: "cond.true_graph_0.", "while_loop@2.while_loop_body_graph_0.".
 * Those who look on are led into sub-graphs by it. */
#include "run.h"

static void *state_make(void) { return cfx__alloc0(sizeof(cfx__run_state)); }

cfx__run_state *cfx__run_state_now(void) {
    return cfx__ctx_slot(CFX__SLOT_RUN, state_make, cfx__free);
}

const char *cfx_run_path(void) {
    const char *path = cfx__run_state_now()->path;
    return path ? path : "";
}

cfx_value cfx__run_higher(cfx__higher_fn *fn, const cfx_node *n, cfx_args a, cfx_watcher *w) {
    cfx__run_state *s = cfx__run_state_now(), before = *s;
    s->node = n;
    if (w)
        s->watcher = w->inside ? w : NULL;
    cfx_value v = fn((cfx_site){0}, a);
    *s = before;
    return v;
}

/* The name of argument number i of the call. */
static const char *name_of(const cfx_node *n, int i) {
    const cfx_list *args = cfx_as_list(n->args);
    cfx_value v = i < args->len ? args->items[i] : cfx_none();
    return v.tag == CFX_TAG_NODE ? cfx_as_node(v)->target.name : "graph";
}

cfx_value cfx__run_subgraph(cfx_site at, cfx_module *m, int i, int64_t round, cfx_args a) {
    cfx__run_state *s = cfx__run_state_now(), before = *s;
    if (!cfx__limit_time()) /* a loop may do nothing, for ever */
        return cfx_bad();
    if (!s->node)
        return cfx_forward_value_from(at, m, a);
    size_t mark = cfx_scope_open();
    const char *turn = round < 0 ? "" : cfx__text_format("@%lld", (long long)round);
    s->path = cfx__text_format("%s%s%s.%s.", cfx_run_path(), s->node->name, turn,
                               name_of(s->node, i));
    s->node = NULL;
    s->entered = m;
    cfx_value v = cfx__module_call(at, m, a); /* which is no module of its own for who traces */
    *s = before;
    return cfx_scope_return_value(mark, v);
}

cfx_watcher *cfx__run_watcher(const cfx_module *gm) {
    cfx__run_state *s = cfx__run_state_now();
    cfx_watcher *w = s->entered == gm ? s->watcher : NULL;
    s->entered = NULL;
    s->watcher = NULL;
    return w;
}

/* ---- selectors ------------------------------------------------------------------------------- */

/* "while_loop@2.body.": "while_loop.body."; scope */
static const char *without_rounds(const char *path) {
    cfx__text t = {0};
    while (*path) {
        if (*path == '@')
            path += strcspn(path, ".");
        else
            cfx__text_putc(&t, *path++);
    }
    return cfx__text_take(&t);
}

bool cfx__run_picks(const char *selector, const char *path, const cfx_node *n) {
    if (cfx__run_selects(selector, n))
        return true;
    if (!*path || strchr(selector, ':'))
        return false;
    size_t mark = cfx_scope_open();
    bool picks = cfx__text_glob(selector, cfx__text_format("%s%s", path, n->name)) ||
                 cfx__text_glob(selector, cfx__text_format("%s%s", without_rounds(path), n->name));
    cfx_scope_close(mark);
    return picks;
}

static bool picks_any(const char *selector, const cfx_module *gm, const char *path) {
    cfx_each_node(gm->graph, n) {
        if (cfx__run_picks(selector, path, n))
            return true;
        cfx_module *sub =
            n->op == CFX_GET_ATTR && n->users ? cfx_module_find(gm, n->target.name) : NULL;
        if (!sub || !sub->graph)
            continue;
        const char *below =
            cfx__text_format("%s%s.%s.", path, n->users->user->name, n->target.name);
        if (picks_any(selector, sub, below))
            return true;
    }
    return false;
}

bool cfx__run_picks_any(const char *selector, const cfx_module *gm) {
    size_t mark = cfx_scope_open();
    bool any = picks_any(strchr(selector, ':') ? selector : without_rounds(selector), gm, "");
    cfx_scope_close(mark);
    return any;
}
