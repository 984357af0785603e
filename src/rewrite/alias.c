/* Alias analysis for passes: a result that may be a view of an argument, by its row, aliases
 * that argument; if nothing is known, aliasing is assumed. A pass may merge, move or remove
 * values that nothing writes to, without considering the order of reads and writes. */
#include "pass.h"

enum { WRITTEN = 1, ESCAPES = 2, SHARED = 4, INPUT = 8 };

static uint32_t find(const cfx__alias *a, uint32_t i) {
    while (a->root[i] != i)
        i = a->root[i] = a->root[a->root[i]];
    return i;
}

static void join(cfx__alias *a, const cfx_node *n, const cfx_node *m) {
    if (n->graph != a->graph || m->graph != a->graph)
        return;
    uint32_t from = find(a, cfx__node_of(n)->id), to = find(a, cfx__node_of(m)->id);
    a->root[from] = to;
    a->flags[to] |= SHARED;
}

static void join_inputs(cfx__alias *a, const cfx_node *n) {
    cfx_each_input(n, u) join(a, n, u->node);
}

typedef struct visit {
    cfx__alias *alias;
    const cfx_node *node;
} visit;

static void join_node(cfx_node *m, void *user) {
    visit *v = user;
    join(v->alias, v->node, m);
}

bool cfx__alias_views(cfx_op *op) {
    bool views = false;
    for (int i = 0; !views && i < cfx__op_info_of(op)->schema->nargs; i++)
        views = cfx__op_shares(op, i);
    return views;
}

/* Joins what n computes with what it may be a view of. */
static void join_call(cfx__alias *a, const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    if (!info) {
        join_inputs(a, n);
        return;
    }
    visit v = {a, n};
    for (int i = 0; i < info->schema->nargs; i++)
        if (cfx__op_shares(op, i))
            cfx__node_each(cfx__node_arg(n, info->schema, i), join_node, &v);
}

static void mark(cfx__alias *a, const cfx_node *n, uint8_t flag) {
    if (n->graph == a->graph)
        a->flags[find(a, cfx__node_of(n)->id)] |= flag;
}

static void mark_written(cfx_node *n, void *user) { mark(user, n, WRITTEN); }
static void mark_escaping(cfx_node *n, void *user) { mark(user, n, ESCAPES); }

/* Whether a call of a function by its name in Python may write to what it is given: one that only
 * draws numbers does not. */
static bool may_write(const cfx_node *n) {
    const cfx_fn *fn = n->op == CFX_CALL_FUNCTION ? n->target.fn : NULL;
    if (!fn || !cfx_is_none(cfx_dict_get(cfx_as_dict(n->kwargs), "out")))
        return cfx_node_is_impure(n);
    for (int i = 0; i < fn->n; i++) {
        const cfx__op_info *info = cfx__op_info_of(fn->ops[i]);
        if (!info || info->writes || info->updated || fn->ops[i]->effects & CFX_SIDE)
            return cfx_node_is_impure(n);
        for (int k = 0; k < info->schema->nargs; k++)
            if (!strcmp(info->schema->args[k].name, "inplace"))
                return cfx_node_is_impure(n);
    }
    return false;
}

static void mark_call(cfx__alias *a, const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    if (!info) {
        if (may_write(n))
            cfx_each_input(n, u) mark(a, u->node, WRITTEN);
        return;
    }
    for (int i = 0; (info->writes || info->updated) && i < info->schema->nargs; i++)
        if (cfx__node_writes(n, op, i))
            cfx__node_each(cfx__node_arg(n, info->schema, i), mark_written, a);
}

void cfx__alias_write_outside(cfx__alias *a) {
    for (size_t i = 0; i < a->len; i++)
        if (a->flags[i] & (INPUT | ESCAPES))
            a->flags[i] |= WRITTEN;
}

void cfx__alias_open(cfx__alias *a, const cfx_graph *g) {
    size_t n = g->made.len;
    size_t mark_ = cfx_scope_open();
    *a = (cfx__alias){g, cfx__alloc((n + 1) * sizeof *a->root), cfx__alloc0(n + 1), n};
    for (uint32_t i = 0; i < n; i++)
        a->root[i] = i;
    cfx_each_node(g, node) {
        if (cfx_node_is_getitem(node))
            join_inputs(a, node);
        else if (node->op != CFX_PLACEHOLDER && node->op != CFX_GET_ATTR && node->op != CFX_OUTPUT)
            join_call(a, node);
    }
    cfx_each_node(g, node) {
        if (node->op == CFX_OUTPUT)
            cfx__node_each(node->args, mark_escaping, a);
        else if (node->op == CFX_PLACEHOLDER)
            a->flags[find(a, cfx__node_of(node)->id)] |= INPUT;
        else if (node->op != CFX_GET_ATTR)
            mark_call(a, node);
    }
    if (g->shared_writes)
        cfx__alias_write_outside(a);
    cfx_scope_close(mark_);
}

static void forget_outside(const char *path, cfx_module *m, void *user) {
    (void)path, (void)user;
    if (m->graph)
        m->graph->shared_writes = false;
}

static void note_calls(cfx_module *m) {
    cfx__alias a = {0};
    cfx_each_node(m->graph, n) {
        if (!cfx_node_higher_order(n))
            continue;
        if (!a.graph)
            cfx__alias_open(&a, m->graph);
        cfx_each_input(n, u) {
            cfx_module *of = u->node->op == CFX_GET_ATTR ? cfx_module_find(m, u->node->target.name)
                                                         : NULL;
            if (!of || !of->graph)
                continue;
            of->graph->shared_writes |= cfx__alias_written(&a, n);
            note_calls(of);
        }
    }
    cfx__alias_close(&a);
}

void cfx__alias_note_outside(cfx_module *m) {
    cfx_module_walk(m, forget_outside, NULL);
    note_calls(m);
}

void cfx__alias_close(cfx__alias *a) {
    cfx__free(a->root);
    cfx__free(a->flags);
}

static uint8_t flags_of(const cfx__alias *a, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return n->graph == a->graph && id < a->len ? a->flags[find(a, id)] : 0;
}

bool cfx__alias_written(const cfx__alias *a, const cfx_node *n) { return flags_of(a, n) & WRITTEN; }
bool cfx__alias_escapes(const cfx__alias *a, const cfx_node *n) { return flags_of(a, n) & ESCAPES; }
bool cfx__alias_shared(const cfx__alias *a, const cfx_node *n) { return flags_of(a, n) & SHARED; }

bool cfx__alias_of_input(const cfx__alias *a, const cfx_node *n) { return flags_of(a, n) & INPUT; }

uint32_t cfx__alias_memory(const cfx__alias *a, const cfx_node *n) {
    return find(a, cfx__node_of(n)->id);
}

bool cfx__alias_same(const cfx__alias *a, const cfx_node *n, const cfx_node *m) {
    uint32_t i = cfx__node_of(n)->id, k = cfx__node_of(m)->id;
    return i < a->len && k < a->len && find(a, i) == find(a, k);
}

/* Whether a result is written to the parameter or buffer when the program ends. */
static bool is_updated(const cfx_program *p, const cfx_input_spec *s) {
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *o = &p->outputs[i];
        bool update = o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_PARAMETER_MUTATION;
        if (update && o->target && !strcmp(o->target, s->target))
            return true;
    }
    return false;
}

cfx_tensor *cfx__program_constant(const cfx_program *p, const cfx__alias *a, const cfx_node *n) {
    const cfx_input_spec *s = n && n->graph == p->module->graph ? cfx_program_input(p, n) : NULL;
    if (!s || !s->target || s->kind == CFX_IN_USER || cfx__alias_written(a, n) || is_updated(p, s))
        return NULL;
    cfx_tensor *t = cfx_program_tensor(p, s);
    return t && t->data ? t : NULL;
}
