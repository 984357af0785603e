/* Duplicate arithmetic. PyTorch first removes unused nodes, then lets one node stand for all
 * that compute the same expression; the operands of a node removed in the second step stay, used
 * or not. cfx merges everything at once, so a duplicate is recorded together with the node that
 * replaces it: it counts as used wherever that node is used after it. */
#include "merge.h"

/* Whether an operand varies. */
static void note_varying(cfx_node *n, void *user) {
    *(bool *)user |= cfx_node_get_meta(n, "val").tag == CFX_TAG_SYM;
}

void cfx__merge_settle(cfx__merging *g, cfx_node *n) {
    bool varying = false;
    cfx__node_each(n->args, note_varying, &varying);
    if (varying)
        VEC_PUSH(g->settled, n);
}

/* The number, or what computes it: in the same decomposition, or just before n in the program. An
 * expression that is a number, s - s, is one for all but arithmetic. */
cfx_value cfx__merge_settled_or(cfx__merging *g, cfx_value number) {
    const cfx_node *n = g->at[0];
    bool scalar = cfx__merge_is_scalar(cfx_node_get_meta(n, "val"));
    for (size_t i = g->settled.len; g->sized && i-- > 0;) {
        cfx_node *s = g->settled.data[i];
        cfx_value val = cfx_node_get_meta(s, "val");
        if (val.tag == CFX_TAG_INT && !scalar)
            continue;
        cfx_value was = cfx__worlds_value(g->m->worlds, 0, val);
        bool near = cfx_node_after(s) == n ||
                    (cfx__node_of(s)->origin && cfx__node_of(s)->origin == cfx__node_of(n)->origin);
        if (!near || !cfx_equal_values(was, number))
            continue;
        g->sized = false; /* it is one argument */
        return cfx_node_value(s);
    }
    return number;
}

bool cfx__merge_takes_size(const cfx_node *n, int64_t i) {
    if (n->op != CFX_CALL_FUNCTION || !n->target.op || n->target.fn)
        return cfx__merge_is_scalar(cfx_node_get_meta(n, "val"));
    const cfx__schema *s = cfx__op_info_of(n->target.op)->schema;
    const cfx__schema_arg *a = i < s->nargs ? &s->args[i] : NULL;
    return a && (a->sym || a->type == CFX__T_SCALAR || a->type == CFX__T_TENSOR);
}

/* What val is in each world; whether it varies. */
static bool see(const cfx__merging *g, cfx_value val, cfx__seen *seen) {
    bool varies = false;
    for (int k = 0; k < g->m->worlds->n; k++)
        varies |= !cfx__worlds_eval(g->m->worlds, k, val, &seen->at[k]) ||
                  seen->at[k] != seen->at[0];
    return varies;
}

static void note_twin(cfx__merging *g, cfx_node *n, cfx_value val) {
    const struct cfx__place *p = val.tag == CFX_TAG_SYM ? cfx__place_find(g, val) : NULL;
    struct cfx__twin t = {n, p && p->node ? p->node : n};
    if (t.first != n)
        VEC_PUSH(g->twins, t);
}

void cfx__merge_note_number(cfx__merging *g, cfx_node *n, cfx_value val) {
    cfx__seen seen;
    if (!see(g, val, &seen)) {
        cfx__merge_settle(g, n);
        note_twin(g, n, val);
        return;
    }
    cfx_value known = cfx__exprs_known(g->exprs, &seen);
    if (known.tag == CFX_TAG_SYM && !cfx_equal_values(known, val))
        VEC_PUSH(g->forms, n);
    cfx__merge_note(g, n, val);
    note_twin(g, n, val);
}

cfx_node *cfx__merge_own_form(const cfx__merging *g, const cfx__seen *seen) {
    for (size_t i = g->forms.len; i-- > 0;)
        if (cfx__exprs_proves(g->exprs, cfx_node_get_meta(g->forms.data[i], "val"), seen))
            return g->forms.data[i];
    return NULL;
}

/* By whom nodes were last used that stay for it: twins, which are gone, by their order. */
typedef struct {
    VEC(struct cfx__last_use {
        const cfx_node *node;
        uint64_t by;
    })
    all;
    uint64_t now; /* the twin at hand */
} last_uses;

static uint64_t last_use(const last_uses *u, const cfx_node *n) {
    for (size_t i = 0; i < u->all.len; i++)
        if (u->all.data[i].node == n)
            return u->all.data[i].by;
    return 0;
}

static void note_use(cfx_node *n, void *user) {
    last_uses *u = user;
    struct cfx__last_use last = {n, u->now};
    if (!last_use(u, n)) /* twins are looked at from the end */
        VEC_PUSH(u->all, last);
}

static bool was_used(const last_uses *u, const struct cfx__twin *t) {
    cfx_each_user(t->first, user) if (cfx_node_precedes(t->node, user->user)) return true;
    return last_use(u, t->first) > u->now;
}

static const struct cfx__twin *twin_of(const cfx__merging *g, const cfx_node *n) {
    for (size_t i = 0; i < g->twins.len; i++)
        if (g->twins.data[i].node == n)
            return &g->twins.data[i];
    return NULL;
}

static bool is_claimed(const cfx__merging *g, const cfx_node *n) {
    for (size_t i = 0; i < g->claimed.len; i++)
        if (g->claimed.data[i] == n)
            return true;
    return false;
}

/* Erases n unless it is used; what it used stays where it was used itself. */
static void erase_unused(const cfx__merging *g, last_uses *u, cfx_node *n) {
    const struct cfx__twin *t = twin_of(g, n);
    bool claimed = is_claimed(g, n), used = last_use(u, n);
    u->now = cfx__node_of(n)->order;
    if (n->users || (used && !t && !claimed))
        return;
    if (used || claimed || (t && was_used(u, t)))
        cfx__node_each(n->args, note_use, u);
    cfx_graph_erase(n);
}

void cfx__merge_drop_unused(cfx__merging *g) {
    last_uses u = {0};
    for (size_t i = g->made.len; i-- > 0;)
        erase_unused(g, &u, g->made.data[i]);
    VEC_FREE(u.all);
    cfx_list *gone = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; i < g->plain->len; i++)
        if (!cfx_graph_find(g->m->graph[0], cfx_text(g->plain->items[i])))
            cfx_list_append(gone, g->plain->items[i]);
    cfx__merge_close_gaps(g->m->graph[0], gone);
}
