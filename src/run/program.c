/* Running programs: what a caller gives becomes what the graph takes, and what the graph gives
 * becomes what a caller wants. Start at cfx_program_run_from; check.c has the rules for inputs. */
#include <cfx/ops.h>

#include "../value/later.h"
#include "run.h"

/* ---- from the caller's arguments to flat ones ------------------------------------------------ */

/* Without a tree: by position, then by the names of the inputs. */
static bool flatten_plain(cfx_site at, const cfx_program *p, cfx_args a, cfx_list *flat) {
    int given = a.n + (a.kw ? (int)a.kw->len : 0), wanted = 0;
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        const cfx_value *v = NULL;
        if (wanted < a.n)
            v = &a.v[wanted];
        else if (a.kw)
            v = cfx_dict_find(a.kw, cfx_string_value(p->inputs[i].name));
        wanted++;
        if (v)
            cfx_list_append(flat, *v);
    }
    if (flat->len == wanted && given == wanted)
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, at, "Unexpected number of inputs (expected %d, got %d)", wanted,
             given);
    return false;
}

/* The leaves of a caller's arguments, in the order of the inputs. False, with PyTorch's words,
 * where they do not fit. */
static bool flatten(cfx_site at, const cfx_program *p, cfx_args a, cfx_list *flat) {
    return cfx__tree_is_call(p->in_spec)
               ? cfx__tree_inputs(at, p->in_spec, p->ncalls ? p->calls[0].names : cfx_none(), a,
                                  flat)
               : flatten_plain(at, p, a, flat);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static cfx_value no_tensor(cfx_site at, const cfx_input_spec *s) {
    if (s->kind == CFX_IN_OBJECT)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "input %s is '%s', an object of a TorchScript class, so the program can be shown "
                 "but not run",
                 s->name, s->target);
    else
        cfx_fail(CFX_KEY_ERROR, at, "the program has no tensor '%s' for its input %s",
                 s->target ? s->target : "", s->name);
    return cfx_bad();
}

static bool is_user(const cfx_input_spec *s) { return s->kind == CFX_IN_USER; }

static bool is_fake(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->head.flags & CFX__FAKE;
}

/* Whether the run is about shapes alone. */
static bool any_fake(const cfx_list *flat) {
    bool fake = cfx__dispatcher()->fake;
    for (int64_t i = 0; i < flat->len; i++)
        fake |= is_fake(flat->items[i]);
    return fake;
}

static bool has_numbers(cfx_site at, const cfx_program *p, int i, cfx_value v) {
    if (is_fake(v))
        cfx_fail(CFX_VALUE_ERROR, at,
                 "the program was saved without the numbers of '%s': it can be shown, and run on "
                 "fake tensors only",
                 p->inputs[i].target);
    return !is_fake(v);
}

/* A tensor stands for every input but the caller's, and tokens, which nobody reads. */
static cfx_value input(cfx_site at, const cfx_program *p, const cfx__bound *b, int i,
                       const cfx_list *flat, int *next) {
    const cfx_input_spec *s = &p->inputs[i];
    if (s->kind == CFX_IN_TOKEN)
        return cfx_none();
    if (is_user(s))
        return flat->items[(*next)++];
    return b->tensors[i] ? cfx_tensor_value(b->tensors[i]) : no_tensor(at, s);
}

static cfx_value program_inputs(cfx_site at, cfx_program *p, const cfx__bound *b, cfx_args a) {
    size_t mark = cfx_scope_open();
    a = cfx__dispatch_args_split(a);
    cfx_value flat = cfx_list_value(0, NULL), values = cfx_tuple_value(0, NULL);
    int users = 0, next = 0;
    for (int i = 0; i < p->ninputs; i++)
        users += is_user(&p->inputs[i]);
    bool fine = cfx__program_supported(at, p) && flatten(at, p, a, cfx_as_list(flat));
    if (fine && cfx_as_list(flat)->len != users) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "Unexpected number of inputs (expected %d, got %lld)",
                 users, (long long)cfx_as_list(flat)->len);
        fine = false;
    }
    fine = fine && cfx__program_check(at, p, cfx_as_list(flat));
    bool fake = any_fake(cfx_as_list(flat));
    for (int i = 0; fine && i < p->ninputs; i++) {
        cfx_value v = input(at, p, b, i, cfx_as_list(flat), &next);
        fine = !cfx_is_bad(v) && (fake || has_numbers(at, p, i, v));
        cfx_list_append(cfx_as_list(values), v);
    }
    return cfx_scope_return_value(mark, fine ? values : cfx_bad());
}

cfx_value cfx_program_inputs_from(cfx_site at, cfx_program *p, cfx_args a) {
    if (!cfx__program_whole(at, p) || cfx__dispatch_args_bad(at, a))
        return cfx_bad();
    cfx__bound *b = cfx__program_weights(p);
    cfx_value v = program_inputs(at, p, b, a);
    cfx_drop(b);
    return v;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool is_mutation(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_PARAMETER_MUTATION ||
           o->kind == CFX_OUT_INPUT_MUTATION;
}

int cfx__program_written(const cfx_program *p, const cfx_output_spec *o) {
    for (int i = 0; i < p->ninputs && o->target && is_mutation(o); i++) {
        const cfx_input_spec *s = &p->inputs[i];
        bool hit = o->kind == CFX_OUT_BUFFER_MUTATION      ? s->kind == CFX_IN_BUFFER
                   : o->kind == CFX_OUT_PARAMETER_MUTATION ? s->kind == CFX_IN_PARAMETER
                                                           : is_user(s);
        const char *name = is_user(s) ? s->name : s->target;
        if (hit && name && !strcmp(name, o->target))
            return i;
    }
    return -1;
}

static void write_back(const cfx_program *p, const cfx_output_spec *o, cfx_value inputs,
                       cfx_value v) {
    int i = cfx__program_written(p, o);
    cfx_value to = i < 0 ? cfx_none() : cfx_as_list(inputs)->items[i];
    if (to.tag == CFX_TAG_TENSOR && v.tag == CFX_TAG_TENSOR &&
        cfx_as_tensor(to) != cfx_as_tensor(v))
        cfx_copy_(to, v);
}

static bool is_result(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_USER || o->kind == CFX_OUT_LOSS;
}

/* The outputs of the graph, before anything is written back. One may look into the memory of an
 * input that is written to now, which is not meant: values are what they were. */
static cfx_value values_of(const cfx_program *p, cfx_value inputs, cfx_value raw) {
    VEC(const cfx__storage *) written = {0};
    const cfx_value *items = cfx_as_list(raw)->items;
    for (int k = 0; k < p->noutputs; k++) {
        int i = is_mutation(&p->outputs[k]) ? cfx__program_written(p, &p->outputs[k]) : -1;
        cfx_value to = i < 0 ? cfx_none() : cfx_as_list(inputs)->items[i];
        if (to.tag == CFX_TAG_TENSOR && items[k].tag == CFX_TAG_TENSOR &&
            cfx_as_tensor(to) != cfx_as_tensor(items[k]))
            VEC_PUSH(written, cfx_as_tensor(to)->storage);
    }
    cfx_value out = written.len ? cfx_tuple_value(0, NULL) : raw;
    for (int k = 0; k < p->noutputs && written.len; k++) {
        const cfx_tensor *t = items[k].tag == CFX_TAG_TENSOR ? cfx_as_tensor(items[k]) : NULL;
        bool looks = false;
        for (size_t i = 0; t && t->numel && i < written.len; i++)
            looks |= written.data[i] == t->storage;
        cfx_list_append(cfx_as_list(out), looks ? cfx_tensor_value(cfx_clone(t)) : items[k]);
    }
    VEC_FREE(written);
    return out;
}

cfx_value cfx_program_outputs(cfx_program *p, cfx_value inputs, cfx_value raw) {
    if (!cfx__program_given((cfx_site){0}, p) || cfx_is_bad(inputs) || cfx_is_bad(raw))
        return cfx_bad();
    if (raw.tag != CFX_TAG_TUPLE && raw.tag != CFX_TAG_LIST)
        return raw;
    if (p->noutputs && p->noutputs != cfx_as_list(raw)->len) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "the graph gave %lld results, the signature has %d",
                 (long long)cfx_as_list(raw)->len, p->noutputs);
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx_value flat = cfx_tuple_value(0, NULL);
    raw = values_of(p, inputs, raw);
    for (int i = 0; i < cfx_as_list(raw)->len; i++) {
        const cfx_output_spec *o = p->noutputs ? &p->outputs[i] : NULL;
        if (!o || is_result(o))
            cfx_list_append(cfx_as_list(flat), cfx_as_list(raw)->items[i]);
        else if (is_mutation(o))
            write_back(p, o, inputs, cfx_as_list(raw)->items[i]);
    }
    cfx_value out =
        cfx_is_none(p->out_spec) ? flat : cfx_tree_unflatten(p->out_spec, cfx_as_list(flat));
    return cfx_scope_return_value(mark, cfx_ok() ? out : cfx_bad());
}

/* ---- weights --------------------------------------------------------------------------------- */

static void bound_free(void *obj) {
    cfx__bound *b = obj;
    for (int i = 0; i < b->ninputs; i++)
        cfx_drop(b->tensors[i]);
    cfx__free(b->tensors);
    cfx__free(b->constant);
    cfx__free(b->becomes);
}

static const cfx__obj_type bound_type = {.name = "bound weights", .free = bound_free};

cfx__bound *cfx__program_weights(cfx_program *p) {
    cfx__bound *b = cfx__program_bound(p);
    const uint64_t version = p->module->graph->version;
    if (b && b->version == version && b->state == p->state->changes_ &&
        b->constants == p->constants->changes_ && b->ninputs == p->ninputs &&
        b->noutputs == p->noutputs)
        return b;
    cfx_drop(b);
    b = cfx__obj_make(&bound_type, sizeof *b);
    b->version = version;
    b->state = p->state->changes_, b->constants = p->constants->changes_;
    b->ninputs = p->ninputs, b->noutputs = p->noutputs;
    b->tensors = cfx__alloc0((size_t)p->ninputs * sizeof *b->tensors);
    b->constant = cfx__alloc0((size_t)p->ninputs * sizeof *b->constant);
    for (int i = 0; i < p->ninputs; i++)
        if (!is_user(&p->inputs[i])) {
            b->tensors[i] = cfx_keep(cfx_program_tensor(p, &p->inputs[i]));
            b->constant[i] = b->tensors[i] != NULL;
        }
    b->becomes = cfx__alloc((size_t)p->noutputs * sizeof *b->becomes);
    for (int k = 0; k < p->noutputs; k++) {
        int i = cfx__program_written(p, &p->outputs[k]);
        b->becomes[k] = i;
        if (i >= 0)
            b->constant[i] = false;
    }
    cfx__program_bind(p, b);
    return b;
}

/* ---- running --------------------------------------------------------------------------------- */

cfx_execution cfx__program_execution(cfx_site at, const cfx_program *p, const cfx__bound *b,
                                     cfx_value inputs) {
    return (cfx_execution){
        .at = at,
        .module = p->module,
        .inputs = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL},
        .constant = b->constant,
        .nbecomes = b->noutputs,
        .becomes = b->becomes};
}

/* What runs the program where no executor is named (cfx_program_to). NULL: as the thread does. */
static const cfx_executor *own_executor(const cfx_program *p) {
    const cfx_value v = cfx_module_attr(p->module, "run_device");
    const bool card = v.tag == CFX_TAG_DEVICE && cfx_as_device(v).type == CFX_CUDA;
    return card ? cfx__later_rooms.card_executor(cfx_as_device(v).index) : NULL;
}

cfx_value cfx__program_execute(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                               cfx_value inputs) {
    cfx__bound *b = cfx__program_weights(p);
    cfx_execution e = cfx__program_execution(at, p, b, inputs);
    e.watcher = w;
    cfx__dispatch *d = cfx__dispatcher();
    const bool before = d->anywhere;
    d->anywhere = true; /* weights on the host with inputs on a card, and the other way round */
    cfx_value raw = cfx_executor_run(x ? x : own_executor(p), &e);
    d->anywhere = before;
    cfx_drop(b);
    return raw;
}

cfx_value cfx__program_run(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                           cfx_args a, cfx__inputs_fn *replace, void *user) {
    if (!cfx__program_whole(at, p) || cfx__dispatch_args_bad(at, a))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    cfx_grad_mode before = cfx_get_grad_mode();
    if (before == CFX_GRAD_ON)
        cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_value inputs = cfx_program_inputs_from(at, p, a);
    if (replace && !cfx_is_bad(inputs))
        replace(user, inputs);
    cfx_value raw = cfx_ok() ? cfx__program_execute(at, p, x, w, inputs) : cfx_bad();
    cfx_value out = cfx_is_bad(raw) ? raw : cfx_program_outputs(p, inputs, raw);
    cfx_set_grad_mode(before);
    cfx__site_leave(outer);
    return cfx_scope_return_value(mark, out);
}

cfx_value cfx_program_run_with(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                               cfx_args a) {
    return cfx__program_run(at, p, x, w, a, NULL, NULL);
}

cfx_value cfx_program_run_from(cfx_site at, cfx_program *p, cfx_args a) {
    return cfx_program_run_with(at, p, NULL, NULL, a);
}

static void bind_graph(const char *path, cfx_module *m, void *user) {
    (void)path;
    bool *fine = user;
    *fine = *fine && (!m->graph || cfx_graph_module_recompile(m));
}

bool cfx__program_binds(const cfx_program *p) {
    bool fine = cfx_ok();
    cfx_module_walk(p->module, bind_graph, &fine);
    return fine;
}
