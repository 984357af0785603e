/* Writes a program for given inputs: its arguments, its plan, its results. Start at
 * cfx__c_write. */
#include <math.h>

#include <cfx/ops.h>
#include <cfx/pack.h>

#include "compile.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Tensors in one piece, as callers of the C function pass them. */
static cfx_value contiguous(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx__tensor_contiguous(cfx_as_tensor(v))) : v;
}

cfx_value cfx__c_placeholders(cfx_program *p, const cfx_list *flat) {
    cfx_value whole = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < flat->len; i++)
        cfx_list_append(cfx_as_list(whole), contiguous(flat->items[i]));
    if (!cfx_ok())
        return cfx_bad();
    return cfx_program_inputs_from((cfx_site){0}, p,
                                   (cfx_args){(int)flat->len, cfx_as_list(whole)->items, NULL});
}

/* ---- ports ----------------------------------------------------------------------------------- */

static cfx__c_port port_of(cfx__c *c, const char *name, const cfx_tensor *t) {
    cfx__c_port p = {.name = name,
                     .dtype = (cfx_dtype)t->dtype,
                     .ndim = t->ndim,
                     .count = t->numel,
                     .sample = cfx_bad()};
    int64_t *shape = cfx__arena_alloc(&c->memory, (size_t)t->ndim * sizeof *shape + 1);
    p.shape = t->ndim ? memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape) : shape;
    return p;
}

static int add_port(cfx__c *c, cfx__c_ports *ports, cfx__c_port p) {
    cfx__c_port *more = cfx__arena_alloc(&c->memory, (size_t)(ports->n + 1) * sizeof *more);
    if (ports->n)
        memcpy(more, ports->of, (size_t)ports->n * sizeof *more);
    more[ports->n] = p;
    ports->of = more;
    return ports->n++;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void find_ports(cfx__c_job *w) {
    cfx__c *c = &w->c;
    const cfx_program *p = c->program;
    const cfx_list *in = cfx_as_list(w->inputs);
    for (int i = 0; i < p->noutputs; i++) {
        const int to = cfx__program_written(p, &p->outputs[i]);
        if (to >= 0 && p->inputs[to].kind != CFX_IN_USER)
            w->kept[to] = true;
    }
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        const cfx_value v = in->items[i];
        w->state[i] = -1;
        if (v.tag != CFX_TAG_TENSOR || (s->kind != CFX_IN_USER && !w->kept[i]))
            continue;
        if (s->kind == CFX_IN_USER) {
            const cfx__c_port port = port_of(c, cfx__c_port_name(c, s->name), cfx_as_tensor(v));
            w->state[i] = add_port(c, &c->inputs, port);
        } else {
            cfx__c_port port =
                port_of(c, cfx__c_unique(&c->names, "states", s->target ? s->target : s->name),
                        cfx_as_tensor(v));
            port.sample = v;
            const cfx__c_ref *first = cfx__c_constant(c, cfx_as_tensor(v), port.name);
            port.first = first ? first->name : port.name;
            w->state[i] = add_port(c, &c->states, port);
        }
    }
}

static cfx_execution execution_of(cfx__c_job *w, bool *constant, cfx_args args) {
    const cfx_program *p = w->c.program;
    for (int i = 0; i < p->ninputs; i++)
        constant[i] = p->inputs[i].kind != CFX_IN_USER && !w->kept[i];
    return (cfx_execution){.at = CFX_HERE,
                           .module = p->module,
                           .graph = p->module->graph,
                           .inputs = args,
                           .constant = constant};
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx__c_ref port_ref(cfx__c_where where, int number, const cfx__c_port *p, cfx__c *c) {
    int64_t *stride = cfx__arena_alloc(&c->memory, (size_t)p->ndim * sizeof *stride + 1);
    cfx__strides_contiguous(p->ndim, p->shape, stride);
    return (cfx__c_ref){.where = where,
                        .number = number,
                        .dtype = p->dtype,
                        .ndim = p->ndim,
                        .shape = p->shape,
                        .stride = stride,
                        .name = p->name};
}

/* A result as a tensor: numbers, as sizes are, have no dims. */
static cfx_value as_tensor(cfx_value v) {
    return cfx_is_number(v) ? cfx_tensor_value(cfx_tensor_from_value(v)) : v;
}

/* The value that item i of the results is, fake or constant; scope. */
static cfx_value result_at(const cfx__plan *p, const cfx_list *items, int64_t i) {
    const cfx_value v = items->items[i];
    if (v.tag != CFX_TAG_NODE)
        return as_tensor(v);
    return as_tensor(cfx_is_bad(p->constants[v.spare]) ? p->wanted[v.spare]
                                                       : p->constants[v.spare]);
}

/* Whether item i is a tensor for the caller, and not what the program keeps. */
static bool is_result(const cfx__c_job *w, const cfx_list *items, int64_t i) {
    const cfx_program *p = w->c.program;
    return result_at(w->plan, items, i).tag == CFX_TAG_TENSOR &&
           cfx__program_written(p, &p->outputs[i]) < 0;
}

/* What the caller gets: the values of the output node that are results, and those that are kept. */
static void find_results(cfx__c_job *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_program *program = c->program;
    const cfx_list *items = NULL;
    for (int k = 0; k < p->n; k++)
        if (p->kernels[k].kind == CFX__PLAN_OUTPUT) {
            const cfx_value v = cfx_as_list(p->kernels[k].step->args)->items[0];
            items = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE ? cfx_as_list(v) : NULL;
        }
    int own = -(int)c->taps.len; /* results that are no taps */
    for (int64_t i = 0; items && i < items->len && i < program->noutputs; i++)
        own += is_result(w, items, i);
    for (int64_t i = 0; items && i < items->len && i < program->noutputs; i++) {
        const cfx_value v = items->items[i], is = result_at(p, items, i);
        if (!is_result(w, items, i))
            continue;
        const int tap = c->outputs.n - own;
        const char *name = tap >= 0 ? c->taps.data[tap] : cfx__text_format("out%d", c->outputs.n);
        cfx__c_port port = port_of(c, cfx__c_port_name(c, name), cfx_as_tensor(is));
        const int number = add_port(c, &c->outputs, port);
        if (v.tag != CFX_TAG_NODE || !cfx_is_bad(p->constants[v.spare]))
            continue;
        cfx__c_place_at(&w->unit, (int)v.spare, port_ref(CFX__C_OUTPUT, number, &port, c));
    }
}

/* The slot of input number i. */
static int slot_of_input(const cfx__plan *p, int i) {
    int k = 0;
    while (k < p->n && (p->kernels[k].kind != CFX__PLAN_INPUT || p->kernels[k].input != i))
        k++;
    return k;
}

typedef struct {
    const cfx__plan_lives *lives;
    int root;
    bool found;
} search;

static void look_for(void *user, int slot) {
    search *s = user;
    s->found |= s->lives->root[slot] == s->root || s->lives->root[slot] < 0;
}

/* Whether the kernel that writes slot s may write it where state `old` is kept: nothing reads that
 * later, and what the kernel itself reads of it is read before it is written. */
static bool may_become(const cfx__c_unit *u, int s, int old) {
    const cfx__plan *p = u->plan;
    int by = s, lane = 0;
    for (int k = 0; k < p->n; k++)
        for (int i = 0; i < p->kernels[k].nwrites; i++)
            if (p->kernels[k].writes[i] == s)
                by = k, lane = i;
    const cfx__plan_kernel *k = &p->kernels[by];
    search reads = {.lives = u->lives, .root = old};
    cfx__plan_each_kernel_read(k, look_for, &reads);
    if (u->lives->last[old] > by || (k->kind != CFX__PLAN_LOOP && k->nwrites))
        return false;
    if (!reads.found || cfx__c_updates(u, by, old))
        return true;
    bool fine = k->kind == CFX__PLAN_LOOP;
    for (int i = 0; i < k->nreads && fine; i++)
        fine = u->lives->root[k->reads[i]] >= 0 &&
               (u->lives->root[k->reads[i]] != old ||
                (cfx__c_maker(p, k->reads[i]) == old &&
                 p->target->in_place(k->loop, i, k->nreads + lane)));
    return fine;
}

/* What the program keeps is written where it is kept, rather than copied there, where nothing
 * needs the old value any more. */
static void place_states(cfx__c_job *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_list *items = cfx__c_several(cfx_as_list(p->kernels[p->n - 1].step->args)->items[0]);
    for (int64_t i = 0; items && i < items->len && i < c->program->noutputs; i++) {
        const cfx_value v = items->items[i];
        const int to = cfx__program_written(c->program, &c->program->outputs[i]);
        if (to < 0 || w->state[to] < 0 || c->program->inputs[to].kind == CFX_IN_USER ||
            v.tag != CFX_TAG_NODE || !cfx_is_bad(p->constants[v.spare]))
            continue;
        const int s = cfx__c_maker(p, (int)v.spare), old = slot_of_input(p, to);
        const cfx__c_ref r = port_ref(CFX__C_STATE, w->state[to], &c->states.of[w->state[to]], c);
        const cfx_tensor *made =
            cfx__c_is_made_here(p, s) && !w->unit.refs[s].n ? cfx__plan_made(p, s) : NULL;
        if (made && old < p->n && (cfx_dtype)made->dtype == r.dtype && made->ndim == r.ndim &&
            !memcmp(made->shape, r.shape, (size_t)r.ndim * sizeof *r.shape) &&
            cfx__tensor_is_contiguous(made) && may_become(&w->unit, s, old))
            cfx__c_put_ref(&w->unit, s, r);
    }
}

/* Whether two refs are the same elements in the same order. */
static bool is_same(const cfx__c_ref *a, const cfx__c_ref *b) {
    bool same = cfx__c_is_there(a, b) && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->shape[i] == b->shape[i] && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return same;
}

/* Result number i of the program, if it is one of those that are asked for: what is kept, or what
 * the caller gets. Where it is and where it belongs; false: there is nothing to copy. */
static bool find_result(cfx__c_job *w, int64_t i, bool kept, int *number, cfx__c_ref *to,
                        const cfx__c_ref **from) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_program *program = c->program;
    const cfx_list *items = cfx_as_list(cfx_as_list(p->kernels[p->n - 1].step->args)->items[0]);
    const cfx_value v = items->items[i], is = result_at(p, items, i);
    const int input = cfx__program_written(program, &program->outputs[i]);
    if (is.tag != CFX_TAG_TENSOR || kept != (input >= 0))
        return false;
    w->unit.slot = v.tag == CFX_TAG_NODE ? (int)v.spare : -1;
    if (input >= 0 && program->inputs[input].kind == CFX_IN_USER) {
        cfx__c_refuse(&w->unit, "is written to input %s, which is the caller's",
                      program->inputs[input].name);
        return false;
    }
    *to = kept ? port_ref(CFX__C_STATE, w->state[input], &c->states.of[w->state[input]], c)
               : port_ref(CFX__C_OUTPUT, *number, &c->outputs.of[*number], c);
    ++*number;
    const cfx_value known = cfx__c_known(&w->unit, v);
    if (cfx_is_number(known)) { /* in the text, where it may follow from sizes */
        cfx__c_line(c, "c->%s%s[0] = %s;", kept ? "state->" : "", to->name,
                    cfx__c_element(cfx_as_tensor(is), 0));
        return false;
    }
    *from = cfx__c_arg(&w->unit, v);
    if (!*from)
        cfx__c_refuse(&w->unit, "is a result that has no place");
    return *from && !is_same(to, *from);
}

/* Copies results that were not made where they are wanted, then what is kept: from memory of its
 * own where that is what another state was, which may have been written by then. */
static void put_results(cfx__c_job *w) {
    cfx__c *c = &w->c;
    typedef struct {
        cfx__c_ref to;
        const cfx__c_ref *from;
    } copy;
    VEC(copy) states = {0};
    copy one;
    int number = 0, nstate = 0;
    const int n = c->program->noutputs;
    for (int64_t i = 0; i < n; i++)
        if (find_result(w, i, false, &number, &one.to, &one.from)) {
            cfx__c_line(c, "/* %s */", cfx__c_comment(one.to.name));
            cfx__c_copy(c, &one.to, one.from);
        }
    for (int64_t i = 0; i < n; i++)
        if (find_result(w, i, true, &nstate, &one.to, &one.from))
            VEC_PUSH(states, one);
    w->unit.slot = w->plan->n - 1;
    for (size_t i = 0; i < states.len; i++)
        if (states.data[i].from->where == CFX__C_STATE) {
            cfx__c_line(c, "/* what %s is going to be */",
                        cfx__c_comment(states.data[i].to.name));
            states.data[i].from =
                cfx__c_own(&w->unit, states.data[i].from, CFX_CONTIGUOUS, true);
        }
    for (size_t i = 0; i < states.len; i++) {
        cfx__c_line(c, "/* %s */", cfx__c_comment(states.data[i].to.name));
        cfx__c_copy(c, &states.data[i].to, states.data[i].from);
    }
    VEC_FREE(states);
}

bool cfx__c_samples(cfx__c_job *w, const cfx_list *sample) {
    cfx__c *c = &w->c;
    const cfx_value inputs = cfx__c_placeholders(c->program, sample);
    const cfx_value v = cfx_is_bad(inputs) ? inputs
                                           : cfx__program_execute((cfx_site){0}, c->program,
                                                                  &cfx_interpreter, NULL, inputs);
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    int number = 0;
    for (int i = 0; several && i < c->program->ninputs; i++)
        if (c->program->inputs[i].kind == CFX_IN_USER && w->state[i] >= 0)
            c->inputs.of[w->state[i]].sample = cfx_as_list(inputs)->items[i];
    for (int64_t i = 0; several && i < cfx_as_list(v)->len && i < c->program->noutputs; i++) {
        const cfx_value item = as_tensor(cfx_as_list(v)->items[i]);
        if (item.tag == CFX_TAG_TENSOR && number < c->outputs.n &&
            cfx__program_written(c->program, &c->program->outputs[i]) < 0)
            c->outputs.of[number++].sample = item;
    }
    return !cfx_is_bad(v);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_plan(cfx__c_job *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_list *in = cfx_as_list(w->inputs);
    w->unit = (cfx__c_unit){.c = c, .plan = p};
    w->unit.refs = cfx__arena_alloc(&c->memory, (size_t)p->n * sizeof *w->unit.refs);
    cfx__c_unit_begin(&w->unit);
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (kernel->kind != CFX__PLAN_INPUT || !cfx_is_bad(p->constants[k]))
            continue;
        const int i = kernel->input;
        const bool user = c->program->inputs[i].kind == CFX_IN_USER;
        if (in->items[i].tag == CFX_TAG_TENSOR && w->state[i] >= 0)
            cfx__c_put_ref(&w->unit, k,
                     port_ref(user ? CFX__C_INPUT : CFX__C_STATE, w->state[i],
                              user ? &c->inputs.of[w->state[i]] : &c->states.of[w->state[i]], c));
    }
    place_states(w);
    find_results(w);
    cfx__c_place(&w->unit);
    cfx__c_unit_put(&w->unit);
    const size_t before = c->out.len;
    cfx__c_open(c, "static void %s_results(const struct %s_call *c)", c->name, c->name);
    const size_t opened = c->out.len;
    put_results(w);
    /* nothing is to be copied, or results without elements alone, of which comments tell */
    const bool empty = c->out.len && !strstr(c->out.data + opened, "c->") &&
                       !strstr(c->out.data + opened, "(c");
    if (empty && !before)
        cfx__c_line(c, "(void)c;"); /* the only function of the program */
    cfx__c_close(c);
    cfx__text_putc(&c->out, '\n');
    if (empty && before) {
        c->out.len = before;
        c->out.data[before] = 0;
    }
    cfx__c_unit_end(&w->unit);
    cfx__c_rooms_place(c);
}

void cfx__c_fail(const cfx__c *c) {
    cfx__text t = {0};
    cfx__text_printf(&t, "%s cannot be compiled:", "the program");
    for (size_t i = 0; i < c->problems.len && i < 50; i++)
        cfx__text_printf(&t, "\n  %s", c->problems.data[i]);
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s", cfx__text_take(&t));
}

/* Whether a node picks by a mask, so that the size of what it gives depends on data. */
static bool picks_by_mask(const cfx_node *n) {
    const cfx_value list = n->target.op == &cfx_op_index_Tensor ? cfx_at(n->args, 1) : cfx_none();
    for (int64_t i = 0; list.tag == CFX_TAG_LIST && i < cfx_as_list(list)->len; i++) {
        const cfx_value item = cfx_as_list(list)->items[i];
        const cfx_value is =
            item.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(item), "val") : cfx_none();
        if (is.tag == CFX_TAG_TENSOR && cfx_as_tensor(is)->dtype == CFX_BOOL)
            return true;
    }
    return false;
}

/* A program without a plan: says which nodes there are none for, else what was said of it. */
static void find_reasons(cfx__c *c) {
    const char *said =
        cfx_ok() ? "it has no plan" : cfx__text_format("%s", cfx_error_last()->message);
    cfx_each_node(c->program->module->graph, n) {
        cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
        const char *why = op ? cfx__c_reason(op) : NULL;
        if (op && !why && picks_by_mask(n))
            why = "picks by a mask: its size depends on data";
        if (why) {
            const char *problem = cfx__text_format("%s: %s %s", n->name, cfx_op_name(op), why);
            VEC_PUSH(c->problems, problem);
        }
    }
    if (!c->problems.len)
        VEC_PUSH(c->problems, said);
    if (!cfx_ok())
        cfx__error_forgive();
    cfx__c_fail(c);
}

/* Whether a program was made for a tensor that lies as C's arrays do; dims of one element lie
 * anyhow. */
static bool lies_in_order(const cfx_node *n) {
    const cfx_result r = cfx_node_result(n);
    cfx_value step = cfx_int(1);
    for (int i = r.kind == CFX_RESULT_TENSOR ? r.ndim - 1 : -1; i >= 0; i--) {
        const cfx_value size = cfx_result_size(&r, i);
        if (!cfx_equal_values(size, cfx_int(1)) &&
            !cfx_equal_values(cfx_result_stride(&r, i), step))
            return false;
        step = cfx__sym_binary(CFX__SYM_MUL, step, size);
    }
    return true;
}

/* Refuses what looks at memory behind a tensor where the program was made for an input in other
 * strides than those of its array. */
static bool sees_memory_alone(cfx__c *c) {
    const char *strided = NULL;
    cfx_each_node(c->program->module->graph, n) {
        if (n->op == CFX_PLACEHOLDER && !lies_in_order(n))
            strided = n->name;
        if (strided && n->op == CFX_CALL_FUNCTION && n->target.op &&
            n->target.op->effects & CFX_STORAGE) {
            const char *problem = cfx__text_format(
                "%s: %s looks at memory behind a tensor, and input %s has strides of its own",
                n->name, cfx_op_name(n->target.op), strided);
            VEC_PUSH(c->problems, problem);
        }
    }
    if (c->problems.len)
        cfx__c_fail(c);
    return !c->problems.len;
}

bool cfx__c_write(cfx__c_job *w, const cfx_list *flat) {
    cfx__c *c = &w->c;
    w->inputs = cfx__c_placeholders(c->program, flat);
    if (cfx_is_bad(w->inputs) || !sees_memory_alone(c))
        return false;
    const int n = c->program->ninputs;
    w->kept = cfx__arena_alloc(&c->memory, (size_t)n + 1);
    w->state = cfx__arena_alloc(&c->memory, (size_t)n * sizeof *w->state + 1);
    bool *constant = cfx__arena_alloc(&c->memory, (size_t)n + 1);
    find_ports(w);
    const cfx_execution e =
        execution_of(w, constant, (cfx_args){n, cfx_as_list(w->inputs)->items, NULL});
    cfx__plan *plan = cfx__plan_make(&cfx__plan_c, &e);
    if (!plan) {
        find_reasons(c);
        return false;
    }
    w->plan = plan;
    write_plan(w);
    if (c->problems.len)
        cfx__c_fail(c);
    return cfx_ok();
}

/* ---- the end --------------------------------------------------------------------------------- */

void cfx__c_job_end(cfx__c_job *w) {
    VEC_FREE(w->c.rooms);
    VEC_FREE(w->c.taps);
    VEC_FREE(w->c.limits);
    for (size_t i = 0; i < w->c.blocks.len; i++)
        cfx__free(w->c.blocks.data[i]);
    VEC_FREE(w->c.blocks);
    cfx_drop((void *)w->plan);
    for (size_t i = 0; i < w->c.plans.len; i++)
        cfx_drop(w->c.plans.data[i]);
    VEC_FREE(w->c.plans);
    VEC_FREE(w->c.weights);
    VEC_FREE(w->c.problems);
    cfx__text_release(&w->c.out);
    cfx__text_release(&w->c.helpers);
    cfx__map_release(&w->c.names);
    cfx__map_release(&w->c.helped);
    cfx__arena_release(&w->c.memory);
}
