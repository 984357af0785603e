/* Running programs: what a caller gives becomes what the graph takes, and what the graph gives
 * becomes what a caller wants. Start at cfx_program_run_from; check.c has the rules for inputs. */
#include <cfx/ops.h>

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
                 "input %s is '%s', an object of a TorchScript class: such a program can be shown "
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

/* The input that an output is to be written to, or -1. */
static int written(const cfx_program *p, const cfx_output_spec *o) {
    for (int i = 0; i < p->ninputs && o->target; i++) {
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
    int i = written(p, o);
    cfx_value to = i < 0 ? cfx_none() : cfx_as_list(inputs)->items[i];
    if (to.tag == CFX_TAG_TENSOR && v.tag == CFX_TAG_TENSOR &&
        cfx_as_tensor(to) != cfx_as_tensor(v))
        cfx_copy_(to, v);
}

static bool is_result(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_USER || o->kind == CFX_OUT_LOSS;
}

static bool is_mutation(const cfx_output_spec *o) {
    return o->kind == CFX_OUT_BUFFER_MUTATION || o->kind == CFX_OUT_PARAMETER_MUTATION ||
           o->kind == CFX_OUT_INPUT_MUTATION;
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
        int i = is_mutation(&p->outputs[k]) ? written(p, &p->outputs[k]) : -1;
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

cfx_value cfx__program_execute(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                               cfx_value inputs) {
    cfx__bound *b = cfx__program_weights(p);
    cfx_execution e = cfx__program_execution(at, p, b, inputs);
    e.watcher = w;
    cfx_value raw = cfx_execute(x, &e);
    cfx_drop(b);
    return raw;
}

cfx_value cfx_program_run_with(cfx_site at, cfx_program *p, const cfx_executor *x, cfx_watcher *w,
                               cfx_args a) {
    if (!cfx__program_whole(at, p) || cfx__dispatch_args_bad(at, a))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    cfx_grad_mode before = cfx_get_grad_mode();
    if (before == CFX_GRAD_ON)
        cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_value inputs = cfx_program_inputs_from(at, p, a);
    cfx_value raw = cfx_is_bad(inputs) ? inputs : cfx__program_execute(at, p, x, w, inputs);
    cfx_value out = cfx_is_bad(raw) ? raw : cfx_program_outputs(p, inputs, raw);
    cfx_set_grad_mode(before);
    cfx__site_leave(outer);
    return cfx_scope_return_value(mark, out);
}

cfx_value cfx_program_run_from(cfx_site at, cfx_program *p, cfx_args a) {
    return cfx_program_run_with(at, p, NULL, NULL, a);
}

static void bind_graph(const char *path, cfx_module *m, void *user) {
    (void)path;
    bool *fine = user;
    *fine = *fine && (!m->graph || cfx_recompile(m));
}

bool cfx__program_binds(const cfx_program *p) {
    bool fine = cfx_ok();
    cfx_module_walk(p->module, bind_graph, &fine);
    return fine;
}

/* ---- as a module ----------------------------------------------------------------------------- */

/* The forward of such a module: inputs are checked before its graph runs. What is traced is not
 * looked at. */
static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_value ranges = cfx_module_attr(self, "range_constraints");
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_args given = a;
    if (cfx_is_tracing() || !cfx_integer(cfx_module_attr(self, "validate_inputs")))
        return cfx__run_hooked(self, a);
    if (!cfx__run_inputs((cfx_site){0}, self->graph, &given, flat))
        return cfx_bad();
    const cfx_dict *known = ranges.tag == CFX_TAG_DICT ? cfx_as_dict(ranges) : cfx_dict_new();
    return cfx__inputs_check((cfx_site){0}, self->graph, known, cfx_module_attr(self, "guards"),
                             given)
               ? cfx__run_hooked(self, a)
               : cfx_bad();
}

/* The node that reads what a lifted placeholder stood for. */
static void unlift(cfx_graph *g, cfx_node *placeholder, const char *path) {
    CFX_INSERT_BEFORE(g, placeholder) {
        cfx_node *read = cfx_graph_get_attr(g, path);
        cfx_dict *meta = placeholder->meta;
        for (int64_t i = 0; meta && i < meta->len; i++)
            cfx_node_set_meta(read, cfx_text(meta->entries[i].key), meta->entries[i].value);
        cfx_node_replace(placeholder, read);
    }
    cfx_graph_erase(placeholder);
}

/* The module's own handle of a tensor of the program's: the numbers are shared, but not whether
 * they want gradients, so that the program, which other threads may be running, stays as it is.
 * `made` has one for each tensor, under its address: what is tied stays tied. */
static cfx_tensor *own_handle(cfx_dict *made, cfx_tensor *t) {
    cfx_value key = cfx_int((int64_t)(intptr_t)t);
    const cfx_value *known = cfx_dict_find(made, key);
    if (known)
        return cfx_as_tensor(*known);
    cfx_tensor *own = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    cfx_dict_put(made, key, cfx_tensor_value(own));
    return own;
}

static void add_tensor(cfx_module *m, const cfx_program *p, const cfx_input_spec *s,
                       cfx_dict *made) {
    cfx_tensor *t = cfx_program_tensor(p, s);
    if (!t || cfx_module_has(m, s->target))
        return;
    bool asks = t->head.flags & CFX__GRAD;
    t = own_handle(made, t);
    const char *dot = strrchr(s->target, '.'), *last = dot ? dot + 1 : s->target;
    size_t above = dot ? (size_t)(dot - s->target) : 0;
    cfx_module *owner = cfx__module_make(m, cfx__string_new(s->target, above)->text);
    cfx_result noted = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
    if (owner && s->kind == CFX_IN_PARAMETER) {
        cfx_nn_parameter(owner, last, t);
        if (noted.kind == CFX_RESULT_TENSOR && !noted.requires_grad && !asks)
            cfx_requires_grad(t, false);
    } else if (owner)
        cfx_nn_buffer(owner, last, t, s->kind == CFX_IN_BUFFER && s->persistent);
}

/* The results alone, after the writes that the other outputs stand for. */
static void unlift_output(const cfx_program *p, cfx_graph *g, cfx_node *const *nodes) {
    cfx_node *output = cfx_graph_output_node(g);
    cfx_value all =
        output && cfx_as_list(output->args)->len ? cfx_as_list(output->args)->items[0] : cfx_none();
    if ((all.tag != CFX_TAG_TUPLE && all.tag != CFX_TAG_LIST) ||
        cfx_as_list(all)->len != p->noutputs)
        return;
    cfx_value results = cfx_tuple_value(0, NULL);
    cfx_dict *copies = cfx_dict_new(); /* what is written, and a result as well, is the copy */
    for (int i = 0; i < p->noutputs; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        int at = is_mutation(&p->outputs[i]) ? written(p, &p->outputs[i]) : -1;
        if (at < 0 || v.tag != CFX_TAG_NODE)
            continue;
        CFX_INSERT_BEFORE(g, output) {
            cfx_node *copy = cfx_graph_call_function(g, "torch.ops.aten.copy_.default",
                                                     cfx_tuple(nodes[at], v), CFX_NONE);
            cfx_dict_put(copies, v, cfx_node_value(copy));
        }
    }
    for (int i = 0; i < p->noutputs; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        const cfx_value *copy = v.tag == CFX_TAG_NODE ? cfx_dict_find(copies, v) : NULL;
        if (is_result(&p->outputs[i]))
            cfx_list_append(cfx_as_list(results), copy ? *copy : v);
    }
    cfx_node_set_args(output, cfx_tuple_value(1, &results));
}

/* What forward calls its arguments; where nobody knows, as PyTorch does. */
static cfx_value argument_names(const cfx_program *p) {
    const cfx_list *first = cfx_as_list(cfx_as_list(p->in_spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(p->in_spec)->items[1]);
    cfx_value known = p->ncalls ? p->calls[0].names : cfx_none();
    if (known.tag == CFX_TAG_LIST && cfx_as_list(known)->len == first->len + rest->len)
        return known;
    cfx_value names = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < first->len; i++)
        cfx_list_append(cfx_as_list(names),
                        cfx_string_value(cfx__text_format("arg_%lld", (long long)i)));
    for (int64_t i = 0; i < rest->len; i++)
        cfx_list_append(cfx_as_list(names), rest->entries[i].key);
    return names;
}

cfx_module *cfx_program_module(cfx_program *p) {
    if (!cfx__program_whole((cfx_site){0}, p))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_module *m = cfx__module_new_raw(p->module->type, forward);
    cfx_graph *g = cfx_graph_copy(p->module->graph);
    for (int i = 0; i < cfx_module_count(p->module); i++)
        cfx_nn_add(m, cfx_module_child_name(p->module, i), cfx_module_child(p->module, i));
    cfx_node **nodes = cfx__alloc0((size_t)p->ninputs * sizeof *nodes);
    cfx_dict *made = cfx_dict_new();
    int k = 0;
    cfx_each_node(g, n) if (n->op == CFX_PLACEHOLDER && k < p->ninputs) nodes[k++] = n;
    unlift_output(p, g, nodes);
    for (int i = 0; i < k; i++) {
        if (p->inputs[i].constant)
            cfx_node_set_meta(nodes[i], "constant", cfx_tuple_value(1, &p->inputs[i].value));
        if (is_user(&p->inputs[i]) || !p->inputs[i].target)
            continue;
        add_tensor(m, p, &p->inputs[i], made);
        unlift(g, nodes[i], p->inputs[i].target);
    }
    cfx__free(nodes);
    cfx__graph_own(g, m);
    if (cfx__tree_is_call(p->in_spec))
        cfx_graph_set_tree(g, argument_names(p), p->in_spec, p->out_spec);
    cfx_module_set_attr(m, "range_constraints", cfx_dict_value(p->ranges));
    cfx_module_set_attr(m, "guards", cfx_dict_get(p->extra, "guards"));
    cfx_module_set_attr(m, "validate_inputs", cfx_bool(true));
    return cfx_scope_return(mark, cfx_ok() ? m : &cfx__module_bad);
}
