/* The programs that a program is cut into. Start at cfx_program_stages: places to cut are found
 * (stage_cuts.c) and chosen (stage_balance.c), and each stretch becomes a program. */
#include "../base/given.h"
#include "stages.h"

static void stages_free(void *obj) {
    cfx_stages *s = obj;
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < s->stages[i].ncrossings; k++)
            cfx_value_drop(s->stages[i].crossings[k].val);
        cfx__free(s->stages[i].crossings);
        cfx_drop(s->stages[i].program);
    }
    cfx__free(s->stages);
}

static const cfx__obj_type stages_type = {.name = "stages", .free = stages_free};
static const cfx_stages bad_stages = {
    .head = {.refs = 1, .flags = CFX__BAD, .type = &stages_type}};

cfx_machine cfx_machine_usual(cfx_machine m) {
    m.flops = m.flops > 0 ? m.flops : 1e11;
    m.bandwidth = m.bandwidth > 0 ? m.bandwidth : 2e10;
    m.link = m.link > 0 ? m.link : 5e9;
    m.latency = m.latency > 0 ? m.latency : 2e-6;
    m.call = m.call > 0 ? m.call : 5e-7;
    return m;
}

/* ---- one stage ------------------------------------------------------------------------------- */

typedef struct cutting {
    const cfx__cuts *cuts;
    const cfx_program *from;
    const int *first;  /* places, as cfx__cuts_choose gives them */
    int n, k;          /* stages, and the one that is made */
    cfx_graph *graph;
    cfx_dict *nodes;   /* node of the program to node of the stage */
    cfx_dict *inputs;  /* placeholder of the stage to what it is in the program */
    VEC(cfx_output_spec) outputs;
    cfx_value results; /* a tuple */
    cfx_program *to;
} cutting;

static int place_of(const cutting *c, const cfx_node *n) {
    return n->graph == c->from->module->graph ? c->cuts->place[cfx__node_of(n)->id] : -1;
}

static bool is_inside(const cutting *c, const cfx_node *n) {
    int place = place_of(c, n);
    return place >= c->first[c->k] && place < c->first[c->k + 1];
}

static bool is_last(const cutting *c) { return c->k == c->n - 1; }

static cfx_value mapped(cfx_node *n, void *nodes) {
    const cfx_value *v = cfx_dict_find(nodes, cfx_node_value(n));
    return v ? *v : cfx_bad();
}

static void add_placeholder(cutting *c, cfx_node *n) {
    if (cfx_dict_find(c->nodes, cfx_node_value(n)))
        return;
    cfx_node *made = cfx_graph_placeholder(c->graph, n->name, n->type, false, cfx_none());
    if (strcmp(made->name, n->name))
        cfx_node_set_name(made, n->name);
    if (n->op == CFX_PLACEHOLDER)
        cfx__node_copy_meta(made, n);
    else
        cfx_node_set_meta(made, "val", cfx_node_get_meta(n, "val"));
    cfx_dict_put(c->nodes, cfx_node_value(n), cfx_node_value(made));
    cfx_dict_put(c->inputs, cfx_node_value(made), cfx_node_value(n));
}

static bool is_mutation(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_PARAMETER_MUTATION ||
           o->kind == CFX_OUT_INPUT_MUTATION;
}

/* Whether a result that is written to an input is computed in this stage; one that is an input
 * itself belongs to the first. */
static bool is_written_here(const cutting *c, const cfx_output_spec *o) {
    const cfx_node *n = o->name ? cfx_graph_find(c->from->module->graph, o->name) : NULL;
    return is_mutation(o) && (n && place_of(c, n) >= 0 ? is_inside(c, n) : !c->k);
}

static bool writes_to(const cutting *c, const cfx_input_spec *s) {
    for (int i = 0; i < c->from->noutputs; i++) {
        const cfx_output_spec *o = &c->from->outputs[i];
        const char *what = o->kind == CFX_OUT_INPUT_MUTATION ? s->name : s->target;
        if (is_written_here(c, o) && o->target && what && !strcmp(o->target, what))
            return true;
    }
    return false;
}

/* Whether a parameter, buffer or the like is read here, written to, or, in the last, a result. */
static bool needs(const cutting *c, const cfx_node *n, const cfx_input_spec *s) {
    cfx_each_user(n, u) {
        if (u->user->op != CFX_OUTPUT && is_inside(c, u->user))
            return true;
    }
    if (writes_to(c, s))
        return true;
    return is_last(c) && c->cuts->last[cfx__node_of(n)->id] == c->cuts->len;
}

/* Parameters and the like first, then what the caller gives, or the stage before. */
static void add_inputs(cutting *c) {
    cfx_graph *g = c->from->module->graph;
    for (int held = 1; held >= 0; held--)
        cfx_each_node(g, n) {
            const cfx_input_spec *s = n->op == CFX_PLACEHOLDER ? cfx_program_input(c->from, n)
                                                               : NULL;
            bool own = s && s->kind != CFX_IN_USER;
            if (own != held)
                continue;
            if (own ? needs(c, n, s)
                    : c->k ? cfx__cuts_crosses(c->cuts, n, c->first[c->k]) : s != NULL)
                add_placeholder(c, n);
        }
}

static bool copy_node(cutting *c, cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, mapped, c->nodes));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, mapped, c->nodes));
    cfx_node *made = cfx_graph_create(c->graph, n->op, n->target, args, kwargs, n->name, n->type);
    if (made == cfx__node_bad)
        return false;
    if (strcmp(made->name, n->name))
        cfx_node_set_name(made, n->name);
    cfx__node_copy_meta(made, n);
    cfx_dict_put(c->nodes, cfx_node_value(n), cfx_node_value(made));
    return true;
}

/* Attributes, sub-graphs above all, are read where they are used. */
static bool is_attribute(const cutting *c, const cfx_node *n) {
    if (n->op != CFX_GET_ATTR)
        return false;
    cfx_each_user(n, u) {
        if (u->user->op == CFX_OUTPUT ? is_last(c) : is_inside(c, u->user))
            return true;
    }
    return false;
}

static bool copy_nodes(cutting *c) {
    cfx_each_node(c->from->module->graph, n)
        if ((is_inside(c, n) || is_attribute(c, n)) && !copy_node(c, n))
            return false;
    return true;
}

/* ---- what it gives --------------------------------------------------------------------------- */

static void add_result(cutting *c, cfx_output_spec spec, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        spec.name = cfx_as_node(v)->name;
    VEC_PUSH(c->outputs, spec);
    cfx_list_append(cfx_as_list(c->results), v);
}

/* Results of the whole: those that are written to inputs here, or, of the last, all others. */
static void add_results(cutting *c) {
    const cfx_node *output = cfx_graph_output_node(c->from->module->graph);
    const cfx_list *all = cfx_as_list(cfx_at(output->args, 0));
    for (int i = 0; i < c->from->noutputs && i < all->len; i++) {
        const cfx_output_spec *o = &c->from->outputs[i];
        if (is_mutation(o) ? !is_written_here(c, o) : !is_last(c))
            continue;
        cfx_value v = cfx__value_scope_own(cfx__node_map(all->items[i], mapped, c->nodes));
        cfx_output_spec spec = *o;
        /* what it is the gradient of may be in another stage */
        if (o->kind == CFX_OUT_PARAMETER_GRADIENT || o->kind == CFX_OUT_INPUT_GRADIENT)
            spec = (cfx_output_spec){.kind = CFX_OUT_USER, .value = o->value};
        add_result(c, spec, v);
    }
}

static int64_t bytes_of(const cutting *c, cfx_value val) {
    cfx_result r = cfx_result_of(val);
    return r.kind == CFX_RESULT_TENSOR ? cfx__result_bytes(&r, c->cuts->sizes)
                                       : (int64_t)sizeof(int64_t);
}

/* What the next stage takes, in the order of the program. */
static void add_crossings(cutting *c, cfx_stage *s) {
    VEC(cfx_crossing) all = {0};
    cfx_each_node(c->from->module->graph, n) {
        if (is_last(c) || !cfx__cuts_crosses(c->cuts, n, c->first[c->k + 1]))
            continue;
        cfx_value val = cfx_value_keep(cfx_node_get_meta(n, "val"));
        cfx_value here = mapped(n, c->nodes);
        add_result(c, (cfx_output_spec){.kind = CFX_OUT_USER}, here);
        VEC_PUSH(all, ((cfx_crossing){.name = cfx_program_text(s->program, n->name), .val = val,
                                      .bytes = bytes_of(c, val)}));
        s->bytes += all.data[all.len - 1].bytes;
    }
    s->crossings = all.data;
    s->ncrossings = (int)all.len;
}

/* ---- its signature --------------------------------------------------------------------------- */

static void sign(cutting *c) {
    const cfx_program *p = c->from;
    for (int64_t i = 0; i < c->inputs->len; i++) {
        const cfx_node *made = cfx_as_node(c->inputs->entries[i].key);
        const cfx_node *old = cfx_as_node(c->inputs->entries[i].value);
        const cfx_input_spec *s = old->op == CFX_PLACEHOLDER ? cfx_program_input(p, old) : NULL;
        cfx_input_spec spec = {.kind = CFX_IN_USER};
        if (s && (s->kind != CFX_IN_USER || !c->k)) {
            spec = *s;
            cfx_tensor *t = cfx_program_tensor(p, s);
            if (t)
                cfx_dict_set(cfx__program_tensors(c->to, s), s->target, cfx_tensor_value(t));
        }
        spec.name = made->name;
        cfx_program_add_input(c->to, spec);
    }
    for (size_t i = 0; i < c->outputs.len; i++)
        cfx_program_add_output(c->to, c->outputs.data[i]);
    for (int64_t i = 0; i < p->ranges->len; i++)
        cfx_dict_put(c->to->ranges, p->ranges->entries[i].key, p->ranges->entries[i].value);
}

/* The first is called as the whole is, the last gives what it gives. */
static void add_trees(cutting *c) {
    const cfx_program *p = c->from;
    cfx_module_call call = {.path = ""};
    if (!c->k) {
        c->to->in_spec = cfx_value_keep(p->in_spec);
        call.names = p->ncalls ? p->calls[0].names : cfx_none();
        call.in_text_ = p->ncalls ? p->calls[0].in_text_ : NULL;
    }
    if (is_last(c)) {
        c->to->out_spec = cfx_value_keep(p->out_spec);
        call.out_text_ = p->ncalls ? p->calls[0].out_text_ : NULL;
    }
    cfx_program_add_call(c->to, call);
}

static void measure(const cutting *c, cfx_stage *s) {
    const cfx__cuts *cuts = c->cuts;
    int from = c->first[c->k], to = c->first[c->k + 1];
    cfx_each_node(c->from->module->graph, n) s->nodes += is_inside(c, n);
    s->seconds = cuts->seconds[to] - cuts->seconds[from];
    s->flops = cuts->flops[to] - cuts->flops[from];
    cfx__alias a;
    cfx__alias_open(&a, s->program->module->graph);
    for (int i = 0; i < s->program->ninputs; i++) {
        const cfx_input_spec *in = &s->program->inputs[i];
        const cfx_tensor *t = cfx_program_tensor(s->program, in);
        if (!t)
            continue;
        int64_t bytes = t->numel * (int64_t)cfx_dtype_size(t->dtype);
        const cfx_node *n = cfx_graph_find(s->program->module->graph, in->name);
        bool written = n && cfx__alias_written(&a, n);
        for (int k = 0; !written && k < s->program->noutputs; k++) {
            const cfx_output_spec *o = &s->program->outputs[k];
            written = is_mutation(o) && o->target && in->target && !strcmp(o->target, in->target);
        }
        s->weights += bytes;
        s->written += written ? bytes : 0;
    }
    cfx__alias_close(&a);
    const cfx_cost *cost = cfx_program_cost(s->program, cuts->sizes);
    s->alive = cost->peak;
}

/* Fills in stage k; false with an error. */
static bool make_stage(cutting *c, cfx_stage *s) {
    size_t mark = cfx_scope_open();
    c->graph = cfx_graph_new();
    c->nodes = cfx_dict_new();
    c->inputs = cfx_dict_new();
    c->results = cfx_tuple_value(0, NULL);
    c->outputs.len = 0;
    add_inputs(c);
    bool fine = copy_nodes(c);
    if (fine) {
        cfx_module *gm = cfx_graph_module(c->from->module, c->graph, c->from->module->type);
        s->program = c->to = cfx_keep(cfx_program_new(gm));
    }
    if (fine && cfx_ok()) {
        add_results(c);
        add_crossings(c, s);
        cfx_graph_output(c->graph, c->results);
        sign(c);
        add_trees(c);
        measure(c, s);
    }
    VEC_FREE(c->outputs);
    cfx_scope_close(mark);
    return fine && cfx_ok() && cfx_program_sync(s->program);
}

/* ---- all ------------------------------------------------------------------------------------- */

static cfx_stages *make(const cfx__cuts *cuts, const int *first, int n) {
    cfx_stages *s = cfx__obj_new(&stages_type, sizeof *s);
    s->stages = cfx__alloc0((size_t)n * sizeof *s->stages);
    cutting c = {.cuts = cuts, .from = cuts->program, .first = first, .n = n};
    bool fine = true;
    for (; fine && s->n < n; c.k++)
        fine = make_stage(&c, &s->stages[s->n++]);
    return fine ? s : (cfx_stages *)&bad_stages;
}

/* What x.transpose_(0, 1) leaves in x is not what the node of x says: a stage would be told the
 * wrong shape. False, with an error, where there is such a call. */
static bool keeps_shapes(const cfx_program *p) {
    cfx_each_node(p->module->graph, n) {
        const cfx__schema *s = n->op == CFX_CALL_FUNCTION && n->target.op
                                   ? cfx__op_info_of(n->target.op)->schema
                                   : NULL;
        const cfx_value self =
            s && s->nargs && s->args[0].writes ? cfx_at(n->args, 0) : cfx_none();
        if (self.tag != CFX_TAG_NODE)
            continue;
        cfx_result was = cfx_node_result(cfx_as_node(self)), is = cfx_node_result(n);
        if (is.kind != CFX_RESULT_TENSOR || cfx_result_equal(&was, &is))
            continue;
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%s gives %s another shape in place, which no other stage can know; decompose the "
                 "program first",
                 n->name, cfx_as_node(self)->name);
        return false;
    }
    return true;
}

cfx_stages *cfx_program_stages(const cfx_program *p, cfx_stage_options o) {
    if (!cfx_ok() || !cfx__program_whole((cfx_site){0}, p) || !cfx_program_infer(p) ||
        !keeps_shapes(p))
        return (cfx_stages *)&bad_stages;
    if (o.n < 1) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%d stages: there has to be one at least", o.n);
        return (cfx_stages *)&bad_stages;
    }
    size_t mark = cfx_scope_open();
    cfx_stages *s = (cfx_stages *)&bad_stages;
    cfx__cuts cuts;
    if (cfx__cuts_open(&cuts, p, &o)) {
        int *first = cfx__alloc((size_t)(o.n + 1) * sizeof *first);
        if (cfx__cuts_choose(&cuts, &o, first))
            s = make(&cuts, first, o.n);
        cfx__free(first);
    }
    cfx__cuts_close(&cuts);
    return cfx_scope_return(mark, s);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The module stack of a node with a module more right below the root; paths begin with its name. */
static cfx_value framed(cfx_value stack, const char *name) {
    cfx_dict *out = cfx_dict_new();
    const cfx_dict *old = stack.tag == CFX_TAG_DICT ? cfx_as_dict(stack) : NULL;
    for (int inner = 0; inner < 2; inner++) {
        for (int64_t i = 0; old && i < old->len; i++) {
            cfx_value v = old->entries[i].value;
            bool pair = v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len == 2;
            const char *path = pair ? cfx_text(cfx_at(v, 0)) : NULL;
            if (!path || (*path != 0) != inner)
                continue;
            if (inner)
                v = cfx_tuple(cfx__text_format("%s.%s", name, path), cfx_at(v, 1));
            cfx_dict_put(out, old->entries[i].key, v);
        }
        if (!inner)
            cfx_dict_set(out, name, cfx_tuple(name, "Stage"));
    }
    return cfx_dict_value(out);
}

cfx_program *cfx_stages_framed(const cfx_program *p, const cfx_stages *s) {
    if (!cfx_ok() || !cfx__program_whole((cfx_site){0}, p) ||
        !cfx__given((cfx_site){0}, s, "stages") || cfx_failed(s))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_program *out = cfx_program_copy(p);
    for (int i = 0; i < s->n && cfx_ok(); i++)
        cfx_each_node(s->stages[i].program->module->graph, n) {
            bool call = n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
            cfx_node *same = call ? cfx_graph_find(out->module->graph, n->name) : NULL;
            if (same)
                cfx_node_set_meta(same, "nn_module_stack",
                                  framed(cfx_node_get_meta(same, "nn_module_stack"),
                                         cfx__text_format("stage%d", i)));
        }
    return cfx_scope_return(mark, cfx_ok() ? out : &cfx__program_bad);
}
