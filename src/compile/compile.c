/* cfx_compile_c: a program is made ready, planned and written out. Start there. */
#include <ctype.h>
#include <math.h>

#include <cfx/ops.h>
#include <cfx/pack.h>

#include "compile.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A size of the sample where it is a symbol: the lower end of its range, 2 at least. */
static int64_t size_of(const cfx_program *p, cfx_value v) {
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v);
    const cfx_sym *s = v.tag == CFX_TAG_SYM ? cfx_as_sym(v) : NULL;
    if (!s || s->op != CFX__SYM_NAME)
        return s ? s->hint : 0;
    const cfx_value range = cfx_dict_get(p->ranges, s->name);
    const cfx_value low = range.tag == CFX_TAG_TUPLE ? cfx_at(range, 0) : cfx_none();
    return low.tag == CFX_TAG_INT && cfx_integer(low) > 2 ? cfx_integer(low) : 2;
}

/* Zeros like the tensor that an input is noted to be; bad, with an error, where nothing is. */
static cfx_value zeros_for(const cfx_program *p, const cfx_input_spec *s) {
    const cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
    int64_t shape[CFX_MAX_DIMS];
    if (s->constant)
        return s->value;
    if (r.kind != CFX_RESULT_TENSOR) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "input %s does not say what it is", s->name);
        return cfx_bad();
    }
    for (int i = 0; i < r.ndim; i++)
        shape[i] = size_of(p, cfx_result_size(&r, i));
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, r.dtype, false, r.ndim, shape, NULL);
    if (!cfx__obj_is_bad(t))
        memset(t->data, 0, (size_t)(t->numel * cfx_dtype_size(r.dtype)));
    return cfx_tensor_value(t);
}

/* The caller's inputs in flattened order: those given, the program's samples, or zeros. */
static cfx_list *flat_inputs(const cfx_program *p, const cfx_compile_options *o) {
    int64_t users = 0;
    for (int i = 0; i < p->ninputs; i++)
        users += p->inputs[i].kind == CFX_IN_USER;
    if (o->inputs.tag == CFX_TAG_LIST)
        return cfx_as_list(o->inputs);
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value sample = cfx_program_sample_inputs(p);
    if (cfx_is_bad(sample))
        cfx__error_forgive();
    if (sample.tag == CFX_TAG_TUPLE)
        cfx_tree_flatten(sample, flat);
    if (flat->len == users)
        return flat;
    flat = cfx_as_list(cfx_list_value(0, NULL));
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(flat, zeros_for(p, &p->inputs[i]));
    return flat;
}

/* Tensors in one piece, as callers of the C function pass them. */
static cfx_value contiguous(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx__tensor_contiguous(cfx_as_tensor(v))) : v;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static cfx__c_port port_of(cfx__c *c, const char *space, const char *name, const cfx_tensor *t) {
    cfx__c_port p = {.name = cfx__c_unique(&c->names, space, name),
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

typedef struct {
    cfx__c c;
    cfx_value inputs; /* of all placeholders, a tuple */
    bool *kept;       /* by input: a buffer or weight that the program writes to */
    int *state;       /* by input: its number among the states; -1: none */
    const cfx__plan *plan;
    cfx__c_unit unit;
} work;

static const char *fallback_name(const cfx_compile_options *o) {
    return o->name && *o->name ? o->name : "model";
}

static void find_ports(work *w) {
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
            cfx__c_port port = port_of(c, "ports", s->name, cfx_as_tensor(v));
            port.sample = v;
            w->state[i] = add_port(c, &c->inputs, port);
        } else {
            cfx__c_port port =
                port_of(c, "states", s->target ? s->target : s->name, cfx_as_tensor(v));
            port.sample = v;
            const cfx__c_ref *first = cfx__c_constant(c, cfx_as_tensor(v), port.name);
            port.first = first ? first->name : port.name;
            w->state[i] = add_port(c, &c->states, port);
        }
    }
}

static cfx_execution execution_of(work *w, bool *constant, cfx_args args) {
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

typedef struct {
    cfx__c_ref to;
    int slot, item;
} result;

/* The slot that makes the memory of slot s as it is; -1 where that is a look into another's. */
static int maker(const cfx__plan *p, int s) {
    while (p->kernels[s].kind == CFX__PLAN_PASS)
        s = p->kernels[s].x;
    return s;
}

static bool is_made_here(const cfx__plan *p, int s) {
    const cfx__plan_kernel *k = &p->kernels[s];
    return (k->kind == CFX__PLAN_CALL || k->kind == CFX__PLAN_LAYER || k->kind == CFX__PLAN_LOOP ||
            k->kind == CFX__PLAN_JOIN || (k->kind == CFX__PLAN_NONE && k->stored)) &&
           p->given[s].tag == CFX_TAG_TENSOR && p->offset[s] < 0;
}

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

static void put_refs(cfx__c_unit *u, int slot, cfx__c_ref r) {
    cfx__c_ref *one = cfx__arena_alloc(&u->c->memory, sizeof *one);
    *one = r;
    u->refs[slot] = (cfx__c_refs){1, one};
}

/* What the caller gets: the values of the output node that are results, and those that are kept. */
static void find_results(work *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_program *program = c->program;
    const cfx_list *items = NULL;
    for (int k = 0; k < p->n; k++)
        if (p->kernels[k].kind == CFX__PLAN_OUTPUT) {
            const cfx_value v = cfx_as_list(p->kernels[k].step->args)->items[0];
            items = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE ? cfx_as_list(v) : NULL;
        }
    for (int64_t i = 0; items && i < items->len && i < program->noutputs; i++) {
        const cfx_value v = items->items[i];
        const cfx_value is =
            v.tag == CFX_TAG_NODE
                ? cfx_is_bad(p->constants[v.spare]) ? p->wanted[v.spare] : p->constants[v.spare]
                : v;
        if (is.tag != CFX_TAG_TENSOR || cfx__program_written(program, &program->outputs[i]) >= 0)
            continue;
        cfx__c_port port =
            port_of(c, "ports", cfx__text_format("out%d", c->outputs.n), cfx_as_tensor(is));
        const int number = add_port(c, &c->outputs, port);
        if (v.tag != CFX_TAG_NODE || !cfx_is_bad(p->constants[v.spare]))
            continue;
        const int s = maker(p, (int)v.spare);
        if (is_made_here(p, s) && !w->unit.refs[s].n) {
            cfx__c_ref r = port_ref(CFX__C_OUTPUT, number, &port, c);
            if (cfx__plan_lies_like(cfx__plan_made(p, s), cfx_as_tensor(is)) &&
                cfx__tensor_is_contiguous(cfx__plan_made(p, s)))
                put_refs(&w->unit, s, r);
        }
    }
}

/* Copies results that were not made where they are wanted, then what is kept. */
static void put_results(work *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_program *program = c->program;
    const cfx_list *items = cfx_as_list(cfx_as_list(p->kernels[p->n - 1].step->args)->items[0]);
    int number = 0;
    for (int64_t i = 0; i < items->len && i < program->noutputs; i++) {
        const cfx_value v = items->items[i];
        const cfx_value is =
            v.tag == CFX_TAG_NODE
                ? cfx_is_bad(p->constants[v.spare]) ? p->wanted[v.spare] : p->constants[v.spare]
                : v;
        const int to = cfx__program_written(program, &program->outputs[i]);
        if (is.tag != CFX_TAG_TENSOR)
            continue;
        w->unit.slot = v.tag == CFX_TAG_NODE ? (int)v.spare : -1;
        cfx__c_ref r;
        if (to < 0)
            r = port_ref(CFX__C_OUTPUT, number, &c->outputs.of[number], c), number++;
        else if (program->inputs[to].kind == CFX_IN_USER) {
            cfx__c_refuse(&w->unit, "is written to input %s, which is the caller's",
                          program->inputs[to].name);
            continue;
        } else
            r = port_ref(CFX__C_STATE, w->state[to], &c->states.of[w->state[to]], c);
        const cfx__c_ref *from = cfx__c_arg(&w->unit, v);
        if (!from) {
            cfx__c_refuse(&w->unit, "is a result that has no place");
            continue;
        }
        if (from->where == r.where && from->number == r.number)
            continue;
        cfx__c_line(c, "/* %s */", cfx__c_comment(r.name));
        cfx__c_copy(c, &r, from);
    }
}

/* What the interpreter gives for the inputs, as samples of the results. */
static bool find_samples(work *w) {
    cfx__c *c = &w->c;
    const cfx_value v =
        cfx__program_execute((cfx_site){0}, c->program, &cfx_interpreter, NULL, w->inputs);
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    int number = 0;
    for (int64_t i = 0; several && i < cfx_as_list(v)->len && i < c->program->noutputs; i++) {
        const cfx_value item = cfx_as_list(v)->items[i];
        if (item.tag == CFX_TAG_TENSOR && number < c->outputs.n &&
            cfx__program_written(c->program, &c->program->outputs[i]) < 0)
            c->outputs.of[number++].sample = item;
    }
    return !cfx_is_bad(v);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_plan(work *w) {
    cfx__c *c = &w->c;
    const cfx__plan *p = w->plan;
    const cfx_list *in = cfx_as_list(w->inputs);
    w->unit = (cfx__c_unit){.c = c, .plan = p, .base = 0};
    w->unit.refs = cfx__arena_alloc(&c->memory, (size_t)p->n * sizeof *w->unit.refs);
    c->arena = (p->room_bytes + 63) / 64 * 64;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        if (kernel->kind != CFX__PLAN_INPUT || !cfx_is_bad(p->constants[k]))
            continue;
        const int i = kernel->input;
        const bool user = c->program->inputs[i].kind == CFX_IN_USER;
        if (in->items[i].tag == CFX_TAG_TENSOR && w->state[i] >= 0)
            put_refs(&w->unit, k,
                     port_ref(user ? CFX__C_INPUT : CFX__C_STATE, w->state[i],
                              user ? &c->inputs.of[w->state[i]] : &c->states.of[w->state[i]], c));
    }
    find_results(w);
    cfx__c_place(&w->unit);
    cfx__c_unit_put(&w->unit);
    cfx__c_open(c, "static void %s_results(const struct %s_call *c)", c->name, c->name);
    cfx__c_line(c, "(void)c;");
    put_results(w);
    cfx__c_close(c);
    c->scratch_at = c->arena;
    c->arena += c->scratch;
}

static void fail_refused(const cfx__c *c) {
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
    fail_refused(c);
}

/* Fills w->c.out; false, with an error. */
static bool write_program(work *w, const cfx_program *p) {
    cfx__c *c = &w->c;
    const cfx_list *flat = flat_inputs(p, &c->o);
    if (!cfx_ok())
        return false;
    c->program = cfx__c_ready(p);
    if (cfx_failed(c->program))
        return false;
    cfx_value whole = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < flat->len; i++)
        cfx_list_append(cfx_as_list(whole), contiguous(flat->items[i]));
    w->inputs = cfx_program_inputs_from(
        (cfx_site){0}, c->program, (cfx_args){(int)flat->len, cfx_as_list(whole)->items, NULL});
    if (cfx_is_bad(w->inputs))
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
        fail_refused(c);
    return cfx_ok() && (!c->o.test || find_samples(w));
}

static const char *upper(const char *name) {
    char *t = (char *)cfx__text_format("%s", name);
    for (char *at = t; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return t;
}

static void work_end(work *w) {
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

/* A name as the beginning of others, where keywords of C are none. */
static const char *prefix_of(const char *name) {
    const char *own = cfx__c_identifier(name);
    const size_t n = strlen(own);
    return cfx__text_format("%.*s", (int)(n > 1 && own[n - 1] == '_' ? n - 1 : n), own);
}

/* Makes header and source; false, with an error. */
static bool make(work *w, const cfx_program *p, cfx__text *header, cfx__text *source,
                 const char *path) {
    cfx__c *c = &w->c;
    c->name = prefix_of(fallback_name(&c->o));
    c->upper = upper(c->name);
    if (!write_program(w, p))
        return false;
    if (c->o.weights == CFX_WEIGHTS_AUTO)
        c->o.weights = cfx__c_weights_bytes(c) <= 1 << 20 ? CFX_WEIGHTS_INLINE : CFX_WEIGHTS_FILE;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *stem = cfx__text_format("%.*s", (int)strlen(base) - 2, base);
    for (const char *at = stem; *at; at++)
        if ((unsigned char)*at < 0x20 || strchr("\"\\?*<>", *at)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "'%s' is no name of a header that C could include", stem);
            return false;
        }
    cfx__c_header(c, header);
    cfx__c_source(c, source, cfx__text_format("%s.h", stem), cfx__text_format("%s.bin", stem));
    return cfx_ok();
}

bool cfx_compile_c(const cfx_program *p, const cfx_compile_options *options, const char *path) {
    static const cfx_compile_options none;
    const size_t len = path ? strlen(path) : 0;
    if (cfx_failed(p))
        return false;
    if (len < 3 || strcmp(path + len - 2, ".c") != 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "C is written to a file whose name ends in .c");
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    work w = {.c = {.o = options ? *options : none}};
    cfx__text header = {0}, source = {0};
    const char *stem = cfx__text_format("%.*s", (int)len - 2, path);
    bool fine = make(&w, p, &header, &source, path);
    if (fine && w.c.o.weights == CFX_WEIGHTS_FILE)
        fine = cfx__c_weights_file(&w.c, cfx__text_format("%s.bin", stem));
    fine = fine && cfx__file_write(cfx__text_format("%s.h", stem), header.data, header.len) &&
           cfx__file_write(path, source.data, source.len);
    cfx__text_release(&header);
    cfx__text_release(&source);
    work_end(&w);
    cfx_set_grad_mode(before);
    cfx_scope_close(mark);
    return fine;
}

const char *cfx_compile_text(const cfx_program *p, const cfx_compile_options *options) {
    static const cfx_compile_options none;
    if (cfx_failed(p))
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    work w = {.c = {.o = options ? *options : none}};
    w.c.o.weights = CFX_WEIGHTS_FILE;
    cfx__text header = {0}, source = {0};
    const bool fine =
        make(&w, p, &header, &source, cfx__text_format("%s.c", prefix_of(fallback_name(&w.c.o))));
    cfx_value out = fine ? cfx_string_value(source.data) : cfx_none();
    cfx__text_release(&header);
    cfx__text_release(&source);
    work_end(&w);
    cfx_set_grad_mode(before);
    return cfx_text(cfx_scope_return_value(mark, out));
}
