/* Plans: a graph as flat steps. A node's arguments are bound to its operator's schema once, its
 * inputs become slots, and each value's last use is known. Start at cfx__plan_of. */
#include "run.h"

static void plan_free(void *p) {
    cfx__plan *plan = p;
    cfx_drop(plan->kept);
    cfx__arena_release(&plan->arena);
}

static const cfx__obj_type plan_type = {.name = "plan", .free = plan_free};

/* ---- templates ------------------------------------------------------------------------------- */

static bool has_nodes(cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE: return true;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < v.list->len; i++)
            if (has_nodes(v.list->items[i]))
                return true;
        return false;
    case CFX_TAG_DICT:
        for (int64_t i = 0; i < v.dict->len; i++)
            if (has_nodes(v.dict->entries[i].value))
                return true;
        return false;
    case CFX_TAG_SLICE:
        return has_nodes(v.slice->start) || has_nodes(v.slice->stop) || has_nodes(v.slice->step);
    default: return false;
    }
}

typedef struct {
    cfx__plan *plan;
    cfx_graph *graph;
    int *slots;       /* by node id: its number in graph order, or -1 */
    int *last_use;    /* by slot: the step that uses it last, or -1 */
    int step;
} planner;

/* v with its nodes as slots; notes the uses. Containers with nodes inside are made anew. */
static cfx_value templated(planner *p, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        int slot = v.node->graph == p->graph ? p->slots[cfx__node_of(v.node)->id] : -1;
        if (slot < 0 || slot >= p->step) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Node %s referenced nonexistent value %s! Run Graph.lint() to diagnose such "
                     "issues",
                     p->plan->steps[p->step].node->name, v.node->name);
            return cfx_bad();
        }
        p->last_use[slot] = p->step;
        v.spare = (uint32_t)slot;
        return v;
    }
    if (!has_nodes(v))
        return v;
    if (v.tag == CFX_TAG_SLICE)
        return cfx_slice_value(templated(p, v.slice->start), templated(p, v.slice->stop),
                               templated(p, v.slice->step));
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < v.dict->len; i++)
            cfx_dict_put(d, v.dict->entries[i].key, templated(p, v.dict->entries[i].value));
        return cfx_dict_value(d);
    }
    cfx_value list = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < v.list->len; i++)
        cfx_list_append(list.list, templated(p, v.list->items[i]));
    return list;
}

cfx_value cfx__run_fill(const cfx__run *r, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE: return r->values[v.spare];
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value list = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < v.list->len; i++)
            cfx_list_append(list.list, cfx__run_fill(r, v.list->items[i]));
        return list;
    }
    case CFX_TAG_DICT: {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < v.dict->len; i++)
            cfx_dict_put(d, v.dict->entries[i].key, cfx__run_fill(r, v.dict->entries[i].value));
        return cfx_dict_value(d);
    }
    case CFX_TAG_SLICE:
        return cfx_slice_value(cfx__run_fill(r, v.slice->start), cfx__run_fill(r, v.slice->stop),
                               cfx__run_fill(r, v.slice->step));
    default: return v;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A call of one overload can be bound now: whatever a node turns out to be, it goes where it goes.
 */
static cfx_op *bindable(const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION || n->target.fn || n->target.call)
        return NULL;
    cfx_op *op = n->target.op ? n->target.op : cfx__run_late_op(n);
    return op && cfx__op_info_of(op) ? op : NULL;
}

cfx_op *cfx__run_late_op(const cfx_node *n) {
    const char *name = n->target.name;
    return strncmp(name, "torch.ops.", 10) ? NULL : cfx_op_find(name + 10);
}

static bool bind_step(planner *p, cfx__plan_step *s) {
    cfx_value bound[CFX_MAX_ARGS];
    cfx__schema *schema = cfx__op_info_of(s->op)->schema;
    const cfx_list *args = s->node->args.list;
    const cfx_dict *kw = s->node->kwargs.dict;
    cfx_args a = {(int)args->len, args->items, kw->len ? (cfx_dict *)kw : NULL};
    if (!cfx__bind(schema, (cfx_site){0}, a, CFX__BIND_NUMBERS, bound))
        return false;
    s->nbound = schema->nargs;
    s->bound = cfx__arena_alloc(&p->plan->arena, (size_t)s->nbound * sizeof *s->bound);
    s->nested = cfx__arena_alloc(&p->plan->arena, (size_t)s->nbound);
    for (int i = 0; i < s->nbound; i++) {
        s->bound[i] = templated(p, bound[i]);
        s->nested[i] = s->bound[i].tag != CFX_TAG_NODE && has_nodes(s->bound[i]);
        cfx_list_append(p->plan->kept, s->bound[i]);
    }
    return true;
}

static void plan_step(planner *p, cfx__plan_step *s) {
    s->args = templated(p, s->node->args);
    cfx_list_append(p->plan->kept, s->args);
    if (s->node->kwargs.dict->len) {
        s->kwargs = templated(p, s->node->kwargs);
        cfx_list_append(p->plan->kept, s->kwargs);
    }
    s->input = s->node->op == CFX_PLACEHOLDER && s->node->target.name[0] != '*';
    s->item = cfx_node_takes_result(s->node);
    s->op = bindable(s->node);
    if (s->op && cfx_ok())
        bind_step(p, s);
}

/* Each slot is freed by the step that uses it last; one that nobody uses, by its own step. */
static void plan_frees(planner *p) {
    cfx__plan *plan = p->plan;
    for (int slot = 0; slot < plan->nsteps; slot++) {
        int by = p->last_use[slot] < 0 ? slot : p->last_use[slot];
        if (plan->steps[slot].node->op != CFX_OUTPUT)
            plan->steps[by].nfrees++;
    }
    for (int i = 0; i < plan->nsteps; i++) {
        cfx__plan_step *s = &plan->steps[i];
        s->frees = cfx__arena_alloc(&plan->arena, (size_t)s->nfrees * sizeof *s->frees);
        s->nfrees = 0;
    }
    for (int slot = 0; slot < plan->nsteps; slot++) {
        int by = p->last_use[slot] < 0 ? slot : p->last_use[slot];
        cfx__plan_step *s = &plan->steps[by];
        if (plan->steps[slot].node->op != CFX_OUTPUT)
            s->frees[s->nfrees++] = slot;
    }
}

static cfx__plan *plan_make(cfx_graph *g) {
    size_t mark = cfx_scope_open();
    planner p = {.plan = cfx__obj_make(&plan_type, sizeof *p.plan), .graph = g};
    int n = (int)cfx_graph_len(g), k = 0;
    p.plan->nsteps = n;
    p.plan->steps = cfx__arena_alloc(&p.plan->arena, (size_t)n * sizeof *p.plan->steps);
    p.plan->kept = cfx_keep(cfx_list_value(0, NULL).list);
    p.last_use = cfx__alloc((size_t)n * sizeof *p.last_use);
    p.slots = cfx__alloc(g->made.len * sizeof *p.slots);
    for (size_t i = 0; i < g->made.len; i++)
        p.slots[i] = -1;
    p.plan->version = g->version;
    cfx_each_node(g, node) {
        p.plan->steps[k].node = node;
        p.plan->nplaceholders += node->op == CFX_PLACEHOLDER;
        p.slots[cfx__node_of(node)->id] = k;
        p.last_use[k++] = -1;
    }
    for (p.step = 0; p.step < n && cfx_ok(); p.step++) {
        plan_step(&p, &p.plan->steps[p.step]);
        if (!cfx_ok())
            cfx__run_note(p.plan->steps[p.step].node);
    }
    plan_frees(&p);
    free(p.slots);
    free(p.last_use);
    cfx_scope_close(mark);
    if (cfx_ok())
        return p.plan;
    cfx_drop(p.plan);
    return NULL;
}

/* Threads may plan the same graph at once: one plan wins, the others are dropped. */
const cfx__plan *cfx__plan_of(cfx_graph *g) {
    void *have = __atomic_load_n(&g->plan.data, __ATOMIC_ACQUIRE);
    if (have && ((cfx__plan *)have)->version == g->version)
        return have;
    cfx__plan *fresh = plan_make(g);
    if (!fresh)
        return NULL;
    __atomic_store_n(&g->plan.free, cfx_drop, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&g->plan.data, &have, fresh, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        cfx_drop(have);
        return fresh;
    }
    cfx_drop(fresh);
    return have;
}

int cfx__plan_slot(const cfx__plan *p, const cfx_node *n) {
    /* steps are in graph order, and so are order keys */
    int lo = 0, hi = p->nsteps - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        if (p->steps[mid].node == n)
            return mid;
        if (cfx_node_precedes(p->steps[mid].node, n))
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    return -1;
}
