/* Steps: a graph as the interpreter wants it. A node's arguments are bound to its operator's schema
 * once, its inputs become slots, and each value's last use is known. Start at cfx__steps_make. */
#include "run.h"

static void steps_free(void *p) {
    cfx__steps *steps = p;
    cfx_drop(steps->kept);
    cfx__arena_release(&steps->arena);
}

static const cfx__obj_type steps_type = {.name = "steps", .free = steps_free};

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct {
    cfx__steps *steps;
    cfx_graph *graph;
    int *slots;       /* by node id: its number in graph order, or -1 */
    int *last_use;    /* by slot: the step that uses it last, or -1 */
    int step;
} maker;

/* v with its nodes as slots; notes the uses. Containers with nodes inside are made anew. */
static cfx_value templated(maker *p, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        int slot =
            cfx_as_node(v)->graph == p->graph ? p->slots[cfx__node_of(cfx_as_node(v))->id] : -1;
        if (slot < 0 || slot >= p->step) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Node %s referenced nonexistent value %s! Run Graph.lint() to diagnose such "
                     "issues",
                     p->steps->steps[p->step].node->name, cfx_as_node(v)->name);
            return cfx_bad();
        }
        p->last_use[slot] = p->step;
        v.spare = (uint32_t)slot;
        return v;
    }
    if (!cfx__node_within(v))
        return v;
    if (v.tag == CFX_TAG_SLICE)
        return cfx_slice_value(templated(p, cfx_as_slice(v)->start),
                               templated(p, cfx_as_slice(v)->stop),
                               templated(p, cfx_as_slice(v)->step));
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                         templated(p, cfx_as_dict(v)->entries[i].value));
        return cfx_dict_value(d);
    }
    cfx_value list = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), templated(p, cfx_as_list(v)->items[i]));
    return list;
}

cfx_value cfx__run_fill(const cfx__run *r, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_NODE: return r->values[v.spare];
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value list = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(list), cfx__run_fill(r, cfx_as_list(v)->items[i]));
        return list;
    }
    case CFX_TAG_DICT: {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                         cfx__run_fill(r, cfx_as_dict(v)->entries[i].value));
        return cfx_dict_value(d);
    }
    case CFX_TAG_SLICE:
        return cfx_slice_value(cfx__run_fill(r, cfx_as_slice(v)->start),
                               cfx__run_fill(r, cfx_as_slice(v)->stop),
                               cfx__run_fill(r, cfx_as_slice(v)->step));
    default: return v;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Programs that were exported on a card run wherever they are run: a device that they name is where
 * the tensors are that they are run with. */
static cfx_value anywhere(cfx_value v) {
    const bool card = v.tag == CFX_TAG_DEVICE && cfx_as_device(v).type == CFX_CUDA;
    return card ? cfx_none() : v;
}

/* A call of one overload can be bound now: whatever a node turns out to be, it goes where it goes.
 */
static cfx_op *bindable(const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION || n->target.fn || n->target.object)
        return NULL;
    cfx_op *op = n->target.op ? n->target.op : cfx__run_late_op(n);
    return op && cfx__op_info_of(op) ? op : NULL;
}

cfx_op *cfx__run_late_op(const cfx_node *n) {
    const char *name = n->target.name;
    return strncmp(name, "torch.ops.", 10) ? NULL : cfx_op_find(name + 10);
}

static bool bind_step(maker *p, cfx__run_step *s) {
    cfx_value bound[CFX_MAX_ARGS];
    cfx__schema *schema = cfx__op_info_of(s->op)->schema;
    const cfx_list *args = cfx_as_list(s->node->args);
    const cfx_dict *kw = cfx_as_dict(s->node->kwargs);
    cfx_args a = {(int)args->len, args->items, kw->len ? (cfx_dict *)kw : NULL};
    if (!cfx__bind(schema, (cfx_site){0}, a, cfx__op_mode(s->op), bound) ||
        !cfx__op_knows_sizes((cfx_site){0}, s->op, schema->nargs, bound))
        return false;
    s->nbound = schema->nargs;
    s->bound = cfx__arena_alloc(&p->steps->arena, (size_t)s->nbound * sizeof *s->bound);
    s->nested = cfx__arena_alloc(&p->steps->arena, (size_t)s->nbound);
    for (int i = 0; i < s->nbound; i++) {
        s->bound[i] = templated(p, anywhere(bound[i]));
        s->nested[i] = s->bound[i].tag != CFX_TAG_NODE && cfx__node_within(s->bound[i]);
        cfx_list_append(p->steps->kept, s->bound[i]);
    }
    return true;
}

static void make_step(maker *p, cfx__run_step *s) {
    s->args = templated(p, s->node->args);
    cfx_list_append(p->steps->kept, s->args);
    if (cfx_as_dict(s->node->kwargs)->len) {
        s->kwargs = templated(p, s->node->kwargs);
        cfx_list_append(p->steps->kept, s->kwargs);
    }
    s->input = s->node->op == CFX_PLACEHOLDER && s->node->target.name[0] != '*';
    s->item = cfx_node_takes_result(s->node);
    s->op = bindable(s->node);
    if (s->op && cfx_ok())
        bind_step(p, s);
}

/* Each slot is freed by the step that uses it last; one that nobody uses, by its own step. */
static void find_frees(maker *p) {
    cfx__steps *steps = p->steps;
    for (int slot = 0; slot < steps->nsteps; slot++) {
        int by = p->last_use[slot] < 0 ? slot : p->last_use[slot];
        if (steps->steps[slot].node->op != CFX_OUTPUT)
            steps->steps[by].nfrees++;
    }
    for (int i = 0; i < steps->nsteps; i++) {
        cfx__run_step *s = &steps->steps[i];
        s->frees = cfx__arena_alloc(&steps->arena, (size_t)s->nfrees * sizeof *s->frees);
        s->nfrees = 0;
    }
    for (int slot = 0; slot < steps->nsteps; slot++) {
        int by = p->last_use[slot] < 0 ? slot : p->last_use[slot];
        cfx__run_step *s = &steps->steps[by];
        if (steps->steps[slot].node->op != CFX_OUTPUT)
            s->frees[s->nfrees++] = slot;
    }
}

cfx__steps *cfx__steps_make(cfx_graph *g) {
    size_t mark = cfx_scope_open();
    maker p = {.steps = cfx__obj_make(&steps_type, sizeof *p.steps), .graph = g};
    int n = (int)cfx_graph_len(g), k = 0;
    p.steps->nsteps = n;
    p.steps->steps = cfx__arena_alloc(&p.steps->arena, (size_t)n * sizeof *p.steps->steps);
    p.steps->kept = cfx_keep(cfx_as_list(cfx_list_value(0, NULL)));
    p.last_use = cfx__alloc((size_t)n * sizeof *p.last_use);
    p.slots = cfx__alloc(g->made.len * sizeof *p.slots);
    for (size_t i = 0; i < g->made.len; i++)
        p.slots[i] = -1;
    cfx_each_node(g, node) {
        p.steps->steps[k].node = node;
        p.steps->nplaceholders += node->op == CFX_PLACEHOLDER;
        p.slots[cfx__node_of(node)->id] = k;
        p.last_use[k++] = -1;
    }
    for (p.step = 0; p.step < n && cfx_ok(); p.step++) {
        make_step(&p, &p.steps->steps[p.step]);
        if (!cfx_ok())
            cfx__run_note(p.steps->steps[p.step].node);
    }
    find_frees(&p);
    cfx__free(p.slots);
    cfx__free(p.last_use);
    cfx_scope_close(mark);
    if (cfx_ok())
        return p.steps;
    cfx_drop(p.steps);
    return NULL;
}

cfx__steps *cfx__steps_of(cfx_graph *g) {
    cfx_execution e = {.graph = g};
    cfx__prepared *p = cfx__prepared_for(&cfx_interpreter, &e);
    cfx__steps *steps = p ? cfx_keep(p->form) : NULL;
    cfx_drop(p);
    return steps;
}

int cfx__steps_slot(const cfx__steps *p, const cfx_node *n) {
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
