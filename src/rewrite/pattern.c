/* Patterns: analyses a pattern graph once, so that a search compares numbers. Start at
 * cfx__pattern_new; the sources of patterns (a function, a graph, a text) are below. */
#include "match.h"

static void pattern_free(void *obj) {
    cfx__pattern *p = obj;
    cfx_drop(p->graph);
    cfx_drop(p->module);
    cfx_drop(p->kept);
    cfx__arena_release(&p->arena);
}

static const cfx__obj_type pattern_type = {.name = "pattern", .free = pattern_free};

static bool fail(const char *text) {
    cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "%s", text);
    return false;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static cfx__pattern_node *node_of(const cfx__pattern *p, const cfx_node *n) {
    return &p->nodes[cfx__node_of(n)->id];
}

static void describe_node(cfx__pattern *p, const cfx_node *n) {
    cfx__pattern_node *out = node_of(p, n);
    cfx__call c;
    out->node = n;
    out->wild = n->op == CFX_PLACEHOLDER;
    bool known = cfx__call_of(n, &c);
    out->key = c.key;
    if (!known)
        return;
    out->op = c.op;
    out->schema = c.schema;
    out->named = c.named;
    out->commutes = p->loose && cfx__call_commutes(&c);
    out->args = cfx__arena_alloc(&p->arena, (size_t)c.schema->nargs * sizeof *out->args);
    for (int i = 0; i < c.schema->nargs; i++) {
        out->args[i] = c.args[i];
        cfx_list_append(p->kept, c.args[i]);
    }
}

static void describe(cfx__pattern *p, const cfx_node *output) {
    p->returned = cfx__arena_alloc(&p->arena, (size_t)p->len * sizeof *p->returned);
    p->wild = cfx__arena_alloc(&p->arena, (size_t)p->len * sizeof *p->wild);
    p->calls = cfx__arena_alloc(&p->arena, (size_t)p->len * sizeof *p->calls);
    cfx_each_node(p->graph, n) {
        describe_node(p, n);
        if (n->op == CFX_PLACEHOLDER)
            p->wild[p->nwild++] = n;
        else if (n->op != CFX_OUTPUT)
            p->calls[p->ncalls++] = n;
    }
    cfx_each_input(output, u) {
        p->returned[p->nreturned++] = u->node;
        node_of(p, u->node)->returned = true;
    }
}

/* ---- anchors --------------------------------------------------------------------------------- */

/* Marks n and all it is computed from. */
static void cover(const cfx_node *n, bool *covered) {
    if (covered[cfx__node_of(n)->id])
        return;
    covered[cfx__node_of(n)->id] = true;
    cfx_each_input(n, u) cover(u->node, covered);
}

/* A way from n, input by input, to a covered node. The number of nodes on it, which are written to
 * steps; 0 where there is none. */
static int way_to(const cfx_node *n, const bool *covered, bool *seen, const cfx_node **steps,
                  int depth) {
    steps[depth] = n;
    if (covered[cfx__node_of(n)->id])
        return depth + 1;
    if (seen[cfx__node_of(n)->id])
        return 0;
    seen[cfx__node_of(n)->id] = true;
    cfx_each_input(n, u) {
        int found = way_to(u->node, covered, seen, steps, depth + 1);
        if (found)
            return found;
    }
    return 0;
}

static void add_anchor(cfx__pattern *p, const cfx_node *n, bool *covered) {
    cfx__pattern_anchor *a = &p->anchors[p->nanchors++];
    a->node = n;
    if (p->nanchors > 1) {
        const cfx_node **back = cfx__alloc((size_t)p->len * sizeof *back);
        bool *seen = cfx__alloc0((size_t)p->len);
        a->nsteps = way_to(n, covered, seen, back, 0);
        a->steps = cfx__arena_alloc(&p->arena, (size_t)(a->nsteps + 1) * sizeof *a->steps);
        for (int i = 0; i < a->nsteps; i++)
            a->steps[i] = back[a->nsteps - 1 - i];
        cfx__free(seen);
        cfx__free(back);
    }
    cover(n, covered);
}

/* What only the output uses: from there everything is reached. */
static bool find_anchors(cfx__pattern *p) {
    bool *covered = cfx__alloc0((size_t)p->len);
    p->anchors = cfx__arena_alloc(&p->arena, (size_t)p->len * sizeof *p->anchors);
    for (int i = 0; i < p->nreturned; i++)
        if (p->returned[i]->num_users == 1 && p->returned[i]->op != CFX_PLACEHOLDER)
            add_anchor(p, p->returned[i], covered);
    bool all = p->nanchors > 0;
    for (int i = 0; i < p->ncalls; i++)
        all &= covered[cfx__node_of(p->calls[i])->id];
    cfx__free(covered);
    return all || fail("SubgraphMatcher cannot be initialized with an empty pattern");
}

enum { MAX_NODES = 4000 }; /* of a pattern: it is gone through by recursion */

static bool is_sound(const cfx_graph *g) {
    if (g->made.len > MAX_NODES)
        return fail("a pattern of more than 4000 nodes is refused");
    if (!cfx_graph_output_node(g) || cfx_graph_len(g) < 2)
        return fail("SubgraphMatcher cannot be initialized with an empty pattern");
    cfx_each_node(g, n) if (n->op != CFX_OUTPUT && !n->num_users) {
        fail("SubgraphMatcher cannot be initialized with an pattern with dead code");
        cfx_error_note("\nNothing uses %s, %s", n->name,
                       n->op == CFX_PLACEHOLDER ? "an input of the pattern"
                                                : "a node of the pattern");
        return false;
    }
    return true;
}

cfx__pattern *cfx__pattern_new(cfx_graph *g, cfx_module *owner, bool loose) {
    if (!g || !is_sound(g))
        return NULL;
    size_t mark = cfx_scope_open();
    cfx__pattern *p = cfx__obj_new(&pattern_type, sizeof *p);
    p->graph = cfx_keep(g);
    p->module = cfx_keep(owner);
    p->kept = cfx_keep(cfx_as_list(cfx_list_value(0, NULL)));
    p->loose = loose;
    p->len = (int)g->made.len;
    p->nodes = cfx__arena_alloc(&p->arena, (size_t)p->len * sizeof *p->nodes);
    describe(p, cfx_graph_output_node(g));
    return cfx_scope_return(mark, find_anchors(p) ? p : NULL);
}

/* ---- where they come from -------------------------------------------------------------------- */

cfx__pattern *cfx__pattern_module(cfx_module *m) {
    if (!m || cfx__obj_is_bad(m)) {
        fail("a pattern is a text, a graph or a module, not NULL");
        return NULL;
    }
    size_t mark = cfx_scope_open();
    cfx_module *gm = m->graph ? m : cfx_symbolic_trace(m);
    return cfx_scope_return(mark, gm->graph ? cfx__pattern_new(gm->graph, gm, false) : NULL);
}

cfx__pattern *cfx__pattern_text(const char *text) {
    size_t mark = cfx_scope_open();
    cfx__rule_text t = {.start = text, .at = text, .end = text + strlen(text)};
    cfx_graph *g = cfx__pattern_parse(&t, CFX__RULE_PATTERN, NULL);
    return cfx_scope_return(mark, g ? cfx__pattern_new(g, NULL, true) : NULL);
}
