/* GraphModules: a graph together with what it names, callable like any module. */
#include "run.h"
#include "select.h"

/* Hooks on nodes, while their module runs, and who looks into it from the graph around it. */
typedef struct hooked {
    cfx_module *module;
    cfx_hook_handle **hooks;
    size_t n;
    cfx_watcher *outer; /* NULL: nobody */
} hooked;

static bool is_wanted(cfx_watcher *w, const cfx_node *n) {
    return w && (!w->wants || w->wants(w, n));
}

static bool is_hooked(cfx_watcher *w, const cfx_node *n) {
    const hooked *h = w->user;
    for (size_t i = 0; i < h->n; i++)
        if (cfx__run_selects(h->hooks[i]->selector, n))
            return true;
    return is_wanted(h->outer, n);
}

static cfx_value call_hooks(cfx_watcher *w, cfx_node *n, cfx_value v) {
    const hooked *h = w->user;
    for (size_t i = 0; i < h->n && !cfx_is_bad(v) && cfx_ok(); i++) {
        if (!cfx__run_selects(h->hooks[i]->selector, n))
            continue;
        cfx_event e = {.module = h->module, .out = v, .user = h->hooks[i]->user, .node = n};
        cfx_value other = h->hooks[i]->fn(&e);
        v = cfx_is_none(other) ? v : other;
    }
    if (cfx_is_bad(v) || !is_wanted(h->outer, n))
        return v;
    cfx_value other = h->outer->see(h->outer, n, v);
    return cfx_is_none(other) ? v : other;
}

cfx_value cfx__run_hooked(cfx_module *self, cfx_args a) {
    hooked h = {.module = self, .outer = cfx__run_watcher(self)};
    h.hooks = cfx__module_node_hooks(self, &h.n);
    cfx_watcher w = {.wants = is_hooked, .see = call_hooks, .user = &h, .inside = h.outer != NULL};
    cfx_value v = cfx__run_module((cfx_site){0}, self, a, h.n || h.outer ? &w : NULL);
    cfx__free(h.hooks);
    return v;
}

cfx_hook_handle *cfx_node_hook_from(cfx_site at, cfx_module *gm, const char *selector,
                                    cfx_hook_fn *fn, void *user) {
    bool any = false;
    if (gm && gm->graph && selector)
        cfx_each_node(gm->graph, n) any |= cfx__run_selects(selector, n);
    if (!any) {
        cfx_fail(CFX_KEY_ERROR, at, "no node of %s matches '%s'%s", gm ? gm->type : "None",
                 selector ? selector : "",
                 gm && gm->graph && selector ? cfx__run_meant(gm->graph, selector) : "");
        return NULL;
    }
    cfx_hook_handle *h = cfx_hook_from(at, CFX_NODE, gm, "", fn, user, (cfx_hook_options){0});
    if (h)
        h->selector = cfx__module_text(gm, selector);
    return h;
}

/* Takes over what a node names of root, or makes a child of a branch that tracing left with the
 * graph; empty parents are made on the way. PyTorch's words where there is nothing to take. */
static bool adopt(cfx_module *gm, cfx_module *root, const cfx_node *n) {
    const char *path = n->target.name;
    if (n->op != CFX_CALL_MODULE && n->op != CFX_GET_ATTR)
        return true;
    cfx_graph *sub = cfx__graph_subgraph(n->graph, path);
    if (sub && !cfx_module_has(gm, path)) {
        cfx_module *child = cfx_graph_module(root, sub->owner ? cfx_graph_copy(sub) : sub, NULL);
        return !cfx__obj_is_bad(child) && cfx_nn_add(gm, path, child) == child;
    }
    if (!root || sub || cfx_module_has(root, path))
        return !root || sub || cfx__module_adopt(gm, path, root, path);
    const cfx_module *at = root;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        const cfx_module *below = cfx_module_find(at, cfx__string_new(path, dot - path)->text);
        if (!below) {
            path = cfx__string_new(path, dot - path)->text;
            break;
        }
        at = below;
    }
    cfx_fail(CFX_ATTRIBUTE_ERROR, (cfx_site){0}, "'%s' object has no attribute '%s'", at->type,
             path);
    cfx_error_note("\nNode %s names %s", n->name, n->target.name);
    return false;
}

cfx_module *cfx_graph_module(cfx_module *root, cfx_graph *g, const char *type) {
    if (!cfx__graph_given(g) || (root && !cfx__module_given(root)))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_module *gm = cfx__module_new_raw(type ? type : "GraphModule", cfx__run_hooked);
    bool fine = true;
    cfx_each_node(g, n) fine = fine && adopt(gm, root, n);
    gm->training = root ? root->training : true;
    cfx__graph_own(g, gm);
    return cfx_scope_return(mark, fine ? gm : &cfx__module_bad);
}

/* A GraphModule over a copy of the graph, its branches copied too; what else it names is shared. */
static cfx_module *copy_module(cfx_module *m) {
    cfx_module *gm = cfx_graph_module(m, cfx_graph_copy(m->graph), m->type);
    for (int i = 0; i < cfx_module_count(gm); i++) {
        cfx_module *child = cfx_module_child(gm, i);
        cfx_module *copy = child->graph ? copy_module(child) : child;
        if (copy != child)
            cfx_module_set_attr(gm, cfx_module_child_name(gm, i), cfx_module_value(copy));
    }
    return gm;
}

static cfx_dict *copy_dict(const cfx_dict *d) {
    cfx_dict *copy = cfx_keep(cfx_dict_new());
    for (int64_t i = 0; i < d->len; i++)
        cfx_dict_put(copy, d->entries[i].key, d->entries[i].value);
    return copy;
}

cfx_program *cfx_program_copy(const cfx_program *p) {
    if (!cfx_program_sync(p))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_module *gm = copy_module(p->module);
    cfx_program *copy = cfx_program_new(gm);
    if (cfx_failed(copy))
        return cfx_scope_return(mark, copy);
    for (int i = 0; i < p->ninputs; i++)
        cfx_program_add_input(copy, p->inputs[i]);
    for (int i = 0; i < p->noutputs; i++)
        cfx_program_add_output(copy, p->outputs[i]);
    cfx_drop(copy->state), copy->state = copy_dict(p->state);
    cfx_drop(copy->constants), copy->constants = copy_dict(p->constants);
    cfx_drop(copy->ranges), copy->ranges = copy_dict(p->ranges);
    cfx_drop(copy->extra), copy->extra = copy_dict(p->extra);
    copy->in_spec = cfx_value_keep(p->in_spec);
    copy->out_spec = cfx_value_keep(p->out_spec);
    cfx__program_copy_calls(copy, p, NULL, NULL);
    return cfx_scope_return(mark, copy);
}

cfx_module *cfx_symbolic_trace(cfx_module *root) {
    size_t mark = cfx_scope_open();
    cfx_graph *g = cfx_tracer_trace(NULL, root);
    cfx_module *gm =
        cfx__obj_is_bad(g) ? &cfx__module_bad : cfx_graph_module(root, g, root->type);
    return cfx_scope_return(mark, gm);
}

bool cfx_graph_module_recompile(cfx_module *gm) {
    if (!gm || !gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "only a GraphModule can be recompiled");
        return false;
    }
    cfx__steps *steps = cfx__steps_of(gm->graph);
    cfx_drop(steps);
    return steps != NULL;
}

/* ---- submodules ------------------------------------------------------------------------------ */

bool cfx_graph_module_add(cfx_module *gm, const char *path, cfx_module *m) {
    if (!cfx__module_given(gm) || !cfx__module_given(m) || !path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a module and a path are needed");
        return false;
    }
    cfx_module_set_attr(gm, path, cfx_module_value(m));
    return cfx_module_find(gm, path) == m;
}

bool cfx_graph_module_remove(cfx_module *gm, const char *path) {
    return gm && path && *path && cfx_module_find(gm, path) && cfx_module_remove(gm, path);
}

/* ---- pruning --------------------------------------------------------------------------------- */

typedef struct {
    cfx_dict *named; /* what nodes name, with true, and what is on the way there, with false */
    cfx_list *unused; /* paths */
} pruning;

static void note_named(pruning *p, const char *path) {
    for (const char *dot = path; (dot = strchr(dot, '.')); dot++) {
        cfx_value above = cfx_string_value_n(path, (size_t)(dot - path));
        if (!cfx_dict_find(p->named, above))
            cfx_dict_put(p->named, above, cfx_bool(false));
    }
    cfx_dict_set(p->named, path, cfx_bool(true));
}

/* A module is used when a node names it or something below it, or something above it: a module that
 * is called owns all below. */
static void note_unused(const char *path, cfx_module *m, void *user) {
    pruning *p = user;
    (void)m;
    bool used = !*path || cfx_dict_find(p->named, cfx_string_value(path));
    for (const char *dot = path; !used && (dot = strchr(dot, '.')); dot++) {
        const cfx_value *above =
            cfx_dict_find(p->named, cfx_string_value_n(path, (size_t)(dot - path)));
        used = above && cfx_integer(*above);
    }
    if (!used)
        cfx_list_append(p->unused, cfx_string_value(path));
}

int cfx_graph_module_prune(cfx_module *gm) {
    if (!gm || !gm->graph)
        return 0;
    size_t mark = cfx_scope_open();
    pruning p = {cfx_dict_new(), cfx_as_list(cfx_list_value(0, NULL))};
    cfx_each_node(gm->graph, n) if (n->op == CFX_CALL_MODULE || n->op == CFX_GET_ATTR)
        note_named(&p, n->target.name);
    cfx_module_walk(gm, note_unused, &p);
    int removed = 0;
    for (int64_t i = 0; i < p.unused->len; i++)
        removed += cfx_module_remove(gm, cfx_text(p.unused->items[i]));
    cfx_scope_close(mark);
    return removed;
}
