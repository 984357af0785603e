/* Where a program may be cut into stages and what crosses there. Start at cfx__cuts_open. */
#include "pass.h"
#include "stages.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { UNKNOWN_SIZE = 16 }; /* what a size counts that depends on data */

static void add_symbols(const struct cfx_sym *e, cfx_dict *sizes) {
    if (e->op == CFX__SYM_NAME) {
        if (!e->has_hint && !cfx_dict_find(sizes, cfx_string_value(e->name)))
            cfx_dict_set(sizes, e->name, cfx_int(UNKNOWN_SIZE));
    } else if (e->op != CFX__SYM_INT) {
        add_symbols(e->a, sizes);
        add_symbols(e->b, sizes);
    }
}

static void add_sizes(const cfx_result *r, cfx_dict *sizes) {
    for (int i = 0; r->kind == CFX_RESULT_TENSOR && i < r->ndim; i++) {
        cfx_value both[] = {cfx_result_size(r, i), cfx_result_stride(r, i)};
        for (int k = 0; k < 2; k++)
            if (both[k].tag == CFX_TAG_SYM)
                add_symbols(cfx_as_sym(both[k]), sizes);
    }
    if (r->kind == CFX_RESULT_INT && r->value.tag == CFX_TAG_SYM)
        add_symbols(cfx_as_sym(r->value), sizes);
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        add_sizes(&item, sizes);
    }
}

static void add_graph_sizes(const char *path, cfx_module *m, void *sizes) {
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) {
            cfx_result r = cfx_node_result(n);
            add_sizes(&r, sizes);
        }
}

/* What the caller says of symbols, and something for those that nobody knows. */
static cfx_dict *all_sizes(const cfx_program *p, const cfx_dict *given) {
    cfx_dict *sizes = cfx_keep(cfx_dict_new());
    for (int64_t i = 0; given && i < given->len; i++)
        cfx_dict_put(sizes, given->entries[i].key, given->entries[i].value);
    cfx_module_walk(p->module, add_graph_sizes, sizes);
    return sizes;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_call(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
}

static uint32_t id_of(const cfx_node *n) { return cfx__node_of(n)->id; }

static bool is_held(const cfx_program *p, const cfx_node *n) {
    const cfx_input_spec *s = n->op == CFX_PLACEHOLDER ? cfx_program_input(p, n) : NULL;
    return n->op == CFX_GET_ATTR || (s && s->kind != CFX_IN_USER);
}

static void use(cfx__cuts *c, const cfx_node *n, int place) {
    int *last = &c->last[id_of(n)];
    *last = place > *last ? place : *last;
}

static bool is_mutation(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_PARAMETER_MUTATION ||
           o->kind == CFX_OUT_INPUT_MUTATION;
}

static void find_places(cfx__cuts *c) {
    const cfx_graph *g = c->program->module->graph;
    for (size_t i = 0; i < g->made.len; i++)
        c->place[i] = c->last[i] = -1;
    cfx_each_node(g, n) {
        if (!is_call(n))
            continue;
        int from = cfx_node_takes_result(n) ? c->place[id_of(n->inputs->node)] : -1;
        c->place[id_of(n)] = from >= 0 ? from : c->len++;
        cfx_each_input(n, u) use(c, u->node, c->place[id_of(n)]);
    }
    for (int i = 0; i < c->program->noutputs; i++) {
        const cfx_output_spec *o = &c->program->outputs[i];
        const cfx_node *n = o->name && !is_mutation(o) ? cfx_graph_find(g, o->name) : NULL;
        if (n)
            use(c, n, c->len);
    }
}

/* ---- what stays together --------------------------------------------------------------------- */

/* Two places are in one stage, and all between; as differences, which are summed later. */
static void hold(cfx__cuts *c, int from, int to) {
    from = from < 0 ? 0 : from;
    to = to >= c->len ? c->len - 1 : to;
    if (from >= to)
        return;
    c->held[from + 1]++;
    c->held[to + 1]--;
}

/* Only tensors and numbers go from one program to another. */
static bool can_cross(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    return r.kind == CFX_RESULT_TENSOR || r.kind == CFX_RESULT_INT || r.kind == CFX_RESULT_BOOL ||
           r.kind == CFX_RESULT_FLOAT;
}

static void hold_values(cfx__cuts *c) {
    cfx_each_node(c->program->module->graph, n)
        if (n->op != CFX_OUTPUT && !is_held(c->program, n) && !can_cross(n))
            hold(c, c->place[id_of(n)], c->last[id_of(n)]);
}

/* Where memory is touched first and last, and written last. */
typedef struct touches {
    int first, last, written;
    bool any, input;
} touches;

static void touch(touches *t, int place, bool writes) {
    t->first = !t->any || place < t->first ? place : t->first;
    t->last = !t->any || place > t->last ? place : t->last;
    t->written = writes && place > t->written ? place : t->written;
    t->any = true;
}

static void touch_all(const cfx__cuts *c, const cfx__alias *a, touches *memory) {
    cfx_each_node(c->program->module->graph, n) {
        touches *own = &memory[cfx__alias_memory(a, n)];
        if (n->op == CFX_PLACEHOLDER)
            own->input = true;
        if (!is_call(n))
            continue;
        touch(own, c->place[id_of(n)], false);
        cfx_each_input(n, u) touch(&memory[cfx__alias_memory(a, u->node)], c->place[id_of(n)],
                                   cfx_node_is_impure(n));
    }
}

/* The input that a result is written to when the program ends. */
static const cfx_node *written_input(const cfx_program *p, const cfx_output_spec *o) {
    for (int i = 0; is_mutation(o) && o->target && i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        const char *what = o->kind == CFX_OUT_INPUT_MUTATION ? s->name : s->target;
        bool kind = (o->kind == CFX_OUT_INPUT_MUTATION) == (s->kind == CFX_IN_USER);
        if (kind && what && !strcmp(what, o->target))
            return cfx_graph_find(p->module->graph, s->name);
    }
    return NULL;
}

/* What is written to in place stays in one stage until it was written last; inputs, which others
 * see, for good. */
static void hold_memory(cfx__cuts *c) {
    const cfx_program *p = c->program;
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    touches *memory = cfx__alloc0((p->module->graph->made.len + 1) * sizeof *memory);
    touch_all(c, &a, memory);
    cfx_each_node(p->module->graph, n) {
        const touches *t = &memory[cfx__alias_memory(&a, n)];
        if (cfx__alias_written(&a, n) && t->any)
            hold(c, t->first, t->input ? t->last : t->written);
    }
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_node *input = written_input(p, &p->outputs[i]);
        const cfx_node *value = input && p->outputs[i].name
                                    ? cfx_graph_find(p->module->graph, p->outputs[i].name)
                                    : NULL;
        if (!value || !is_call(value))
            continue;
        touches *t = &memory[cfx__alias_memory(&a, input)];
        touch(t, c->place[id_of(value)], true);
        hold(c, t->first, t->last);
        use(c, input, c->place[id_of(value)]);
    }
    cfx__free(memory);
    cfx__alias_close(&a);
}

/* ---- what places cost ------------------------------------------------------------------------ */

static double bytes_of(const cfx__cuts *c, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    bool number = r.kind == CFX_RESULT_INT || r.kind == CFX_RESULT_BOOL ||
                  r.kind == CFX_RESULT_FLOAT;
    return number ? sizeof(int64_t) : (double)cfx__result_bytes(&r, c->sizes);
}

/* Seconds of one call: as long as its operations take, or its memory. */
static double estimate(const cfx__cuts *c, const cfx_machine *m, const cfx_node_cost *cost) {
    cfx_node *n = cost->node;
    double bytes = 0;
    if (cost->bytes > 0) { /* views move nothing */
        const double given = bytes = (double)cost->bytes;
        const cfx_op *op = cfx__call_op(n);
        const bool lookup = op && op->effects & CFX_MOVES; /* reads no more than it gives */
        cfx_each_input(n, u) {
            const double read = bytes_of(c, u->node);
            bytes += lookup && read > given ? given : read;
        }
    }
    double work = (double)cost->flops / m->flops, moved = bytes / m->bandwidth;
    return m->call + (work > moved ? work : moved);
}

static void add_calls(cfx__cuts *c, const cfx_stage_options *o, const cfx_cost *cost) {
    cfx_machine machine = cfx_machine_usual(o->machine);
    for (int i = 0; i < cost->n; i++) {
        const cfx_node_cost *r = &cost->nodes[i];
        int place = r->node->graph == c->program->module->graph ? c->place[id_of(r->node)] : -1;
        if (place < 0)
            continue;
        double seconds = estimate(c, &machine, r);
        if (o->seconds) {
            cfx_value v = cfx_dict_get(o->seconds, r->node->name);
            seconds = cfx_is_number(v) ? cfx_number(v) : 0;
        }
        c->seconds[place + 1] += seconds;
        c->flops[place + 1] += r->flops;
    }
}

static void add_values(cfx__cuts *c) {
    cfx_each_node(c->program->module->graph, n) {
        int from = c->place[id_of(n)], to = c->last[id_of(n)];
        if (n->op == CFX_OUTPUT || to < 0)
            continue;
        if (is_held(c->program, n)) {
            int first = to;
            cfx_each_user(n, u) if (is_call(u->user) && c->place[id_of(u->user)] < first)
                first = c->place[id_of(u->user)];
            double bytes = bytes_of(c, n);
            if (first < c->len)
                c->tensors[first + 1] += bytes;
            if (to != first && to < c->len)
                c->tensors[to + 1] += bytes;
        } else if (to > from && can_cross(n)) {
            double bytes = bytes_of(c, n);
            c->crossing[from + 1] += bytes;
            c->crossing[to + 1] -= bytes;
        }
    }
}

bool cfx__cuts_crosses(const cfx__cuts *c, const cfx_node *n, int place) {
    return n->op != CFX_OUTPUT && !is_held(c->program, n) && c->place[id_of(n)] < place &&
           c->last[id_of(n)] >= place;
}

bool cfx__cuts_open(cfx__cuts *c, const cfx_program *p, const cfx_stage_options *o) {
    size_t ids = p->module->graph->made.len + 1, mark = cfx_scope_open();
    *c = (cfx__cuts){.program = p, .sizes = all_sizes(p, o->sizes)};
    c->place = cfx__alloc(ids * sizeof *c->place);
    c->last = cfx__alloc(ids * sizeof *c->last);
    find_places(c);
    size_t room = (size_t)c->len + 2;
    c->seconds = cfx__alloc0(room * sizeof *c->seconds);
    c->tensors = cfx__alloc0(room * sizeof *c->tensors);
    c->flops = cfx__alloc0(room * sizeof *c->flops);
    c->crossing = cfx__alloc0(room * sizeof *c->crossing);
    c->held = cfx__alloc0(room * sizeof *c->held);
    hold_values(c);
    hold_memory(c);
    const cfx_cost *cost = cfx_program_cost((cfx_program *)p, c->sizes);
    if (cfx_ok()) {
        add_calls(c, o, cost);
        add_values(c);
    }
    for (int i = 1; i <= c->len; i++) {
        c->seconds[i] += c->seconds[i - 1];
        c->tensors[i] += c->tensors[i - 1];
        c->flops[i] += c->flops[i - 1];
        c->crossing[i] += c->crossing[i - 1];
        c->held[i] += c->held[i - 1];
    }
    cfx_scope_close(mark);
    return cfx_ok();
}

void cfx__cuts_close(cfx__cuts *c) {
    cfx_drop(c->sizes);
    cfx__free(c->place);
    cfx__free(c->last);
    cfx__free(c->seconds);
    cfx__free(c->tensors);
    cfx__free(c->flops);
    cfx__free(c->crossing);
    cfx__free(c->held);
}
