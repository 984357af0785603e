/* The interpreter: a graph, node by node, through slots that can be replaced. It is the reference
 * that other executors are held against. Start at cfx_run_from; cfx_interpreter is at the end. */
#include "../base/given.h"
#include "run.h"


void cfx__run_note(const cfx_node *n) {
    cfx_error_note("\nWhile executing %s", cfx_node_format(n));
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag == CFX_TAG_DICT && cfx_as_dict(stack)->len) {
        cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
        cfx_error_note("Module: %s", cfx_value_str(cfx_at(last, 0)));
    }
    const char *source = cfx_text(cfx_node_get_meta(n, "source"));
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    if (source || trace) {
        cfx_error_note("Original traceback:");
        cfx_error_note("%s", source ? source : trace);
    }
}

/* ---- the six handlers ------------------------------------------------------------------------ */

static cfx_value next_input(cfx_interp *it, const char *name, cfx_args a) {
    cfx__run *r = it->own_;
    const cfx_value *named =
        r->inputs.kw ? cfx_dict_find(r->inputs.kw, cfx_string_value(name)) : NULL;
    if (named && name[0] == '*') /* what stands for all of them: the graph is being traced */
        return *named;
    if (name[0] == '*' && name[1] == '*') {
        cfx_dict *rest = cfx_dict_new();
        for (int64_t i = 0; r->inputs.kw && i < r->inputs.kw->len; i++)
            cfx_dict_put(rest, r->inputs.kw->entries[i].key, r->inputs.kw->entries[i].value);
        return cfx_dict_value(rest);
    }
    if (name[0] == '*') {
        cfx_value rest = cfx_tuple_value(r->inputs.n - r->next, r->inputs.v + r->next);
        r->next = r->inputs.n;
        return rest;
    }
    if (r->next < r->inputs.n)
        return r->inputs.v[r->next++];
    if (named)
        return *named;
    if (a.n)
        return a.v[0];
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "Expected positional argument for parameter %s, but one was not passed in!", name);
    return cfx_bad();
}

static cfx_value placeholder(cfx_interp *it, cfx_target t, cfx_args a) {
    return next_input(it, t.name, a);
}

static cfx_value get_attr(cfx_interp *it, cfx_target t, cfx_args a) {
    (void)a;
    cfx_value v = cfx_attr_value_from((cfx_site){0}, it->module, t.name);
    if (cfx_is_bad(v) && cfx__error_forgive())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Node referenced nonexistent target %s", t.name);
    return v;
}

static cfx_value call_function(cfx_interp *it, cfx_target t, cfx_args a) {
    (void)it;
    if (t.object)
        return t.object->type->call(t.object->data, a);
    if (!cfx__target_is_whole((cfx_site){0}, t))
        return cfx_bad();
    cfx__higher_fn *higher = t.fn || t.op ? NULL : cfx__higher_find(t.name);
    if (higher)
        return cfx__run_higher(higher, it->node, a, NULL);
    const cfx_tree_type *type = t.fn || t.op ? NULL : cfx__tree_type_named(t.name);
    if (type)
        return cfx_tree_value(type, a.n, a.v);
    if (!t.fn && t.op)
        return cfx_op_do_from((cfx_site){0}, t.op, a);
    return cfx_py_from((cfx_site){0}, t.name ? t.name : t.fn->name, a);
}

static cfx_value call_method(cfx_interp *it, cfx_target t, cfx_args a) {
    (void)it;
    return cfx_method_from((cfx_site){0}, t.name, a);
}

static cfx_value call_module(cfx_interp *it, cfx_target t, cfx_args a) {
    cfx_module *m = cfx_module_find(it->module, t.name);
    if (!m) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Node referenced nonexistent target %s", t.name);
        return cfx_bad();
    }
    return cfx_forward_value_from((cfx_site){0}, m, a);
}

static cfx_value output(cfx_interp *it, cfx_target t, cfx_args a) {
    (void)it, (void)t;
    return a.n ? a.v[0] : cfx_none();
}

const cfx__slots cfx__interp_slots = {.placeholder = placeholder,
                                      .get_attr = get_attr,
                                      .call_function = call_function,
                                      .call_method = call_method,
                                      .call_module = call_module,
                                      .output = output};

static cfx_value refuse(cfx_interp *it, cfx_target t, cfx_args a) {
    (void)t, (void)a;
    cfx__given((cfx_site){0}, it, "interpreter");
    return cfx_bad();
}

static const cfx__slots no_slots = {.placeholder = refuse,
                                    .get_attr = refuse,
                                    .call_function = refuse,
                                    .call_method = refuse,
                                    .call_module = refuse,
                                    .output = refuse};

/* What empty slots do in this run; outside of one, as the interpreter's. */
static const cfx__slots *slots_of(const cfx_interp *it) {
    return !it ? &no_slots : it->own_ ? it->own_->slots : &cfx__interp_slots;
}

/* ---- empty slots ----------------------------------------------------------------------------- */

cfx_value cfx_interp_placeholder(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->placeholder(it, t, a);
}

cfx_value cfx_interp_get_attr(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->get_attr(it, t, a);
}

cfx_value cfx_interp_call_function(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->call_function(it, t, a);
}

cfx_value cfx_interp_call_method(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->call_method(it, t, a);
}

cfx_value cfx_interp_call_module(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->call_module(it, t, a);
}

cfx_value cfx_interp_output(cfx_interp *it, cfx_target t, cfx_args a) {
    return slots_of(it)->output(it, t, a);
}

static cfx__handler *handler_for(const cfx_interp *it, cfx_opcode op) {
    switch (op) {
    case CFX_PLACEHOLDER: return it->placeholder ? it->placeholder : cfx_interp_placeholder;
    case CFX_GET_ATTR: return it->get_attr ? it->get_attr : cfx_interp_get_attr;
    case CFX_CALL_FUNCTION: return it->call_function ? it->call_function : cfx_interp_call_function;
    case CFX_CALL_METHOD: return it->call_method ? it->call_method : cfx_interp_call_method;
    case CFX_CALL_MODULE: return it->call_module ? it->call_module : cfx_interp_call_module;
    default: return it->output ? it->output : cfx_interp_output;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The item that a step takes of what another gave, without a call, which would look at all items;
 * false where it is not so simple. */
static bool item_of(const cfx__run *r, const cfx__run_step *s, cfx_value *item) {
    if (!s->item)
        return false;
    cfx_value from = r->values[cfx_as_list(s->args)->items[0].spare];
    int64_t i = cfx_integer(cfx_as_list(s->args)->items[1]);
    bool fits = (from.tag == CFX_TAG_TUPLE || from.tag == CFX_TAG_LIST) && i >= 0 &&
                i < cfx_as_list(from)->len;
    if (fits)
        *item = cfx_as_list(from)->items[i];
    return fits;
}

/* Whether functions are called as they are: nobody looks at calls by name. */
static bool calls_plainly(const cfx_interp *it) {
    const cfx__dispatch *d = cfx__dispatcher();
    return !it->call_function && !d->function_modes && !d->trace &&
           slots_of(it)->call_function == call_function;
}

cfx_value cfx_interp_run_node(cfx_interp *it, cfx_node *n) {
    cfx__run *r = it ? it->own_ : NULL;
    if (!r || !n) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s",
                 r ? "the node to run is NULL" : "nodes are run by cfx_run, one by one");
        return cfx_bad();
    }
    int slot = r->steps->steps[r->now].node == n ? r->now : cfx__steps_slot(r->steps, n);
    if (slot < 0) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Node %s is not in the graph being run",
                 n->name);
        return cfx_bad();
    }
    const cfx__run_step *s = &r->steps->steps[slot];
    size_t mark = cfx_scope_open();
    cfx_value item;
    if (calls_plainly(it) && item_of(r, s, &item))
        return cfx_scope_return_value(mark, item);
    cfx_value args = cfx__run_fill(r, s->args);
    cfx_value kwargs = cfx__run_fill(r, s->kwargs);
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  kwargs.tag == CFX_TAG_DICT ? cfx_as_dict(kwargs) : NULL};
    return cfx_scope_return_value(mark, handler_for(it, n->op)(it, n->target, a));
}

/* What other nodes gave is bound now: nothing says that it is what the schema wants. */
cfx_value cfx__run_step_call(const cfx__run *r, cfx_site at, cfx_op *op, const cfx__run_step *s) {
    cfx_value args[CFX_MAX_ARGS];
    const cfx__schema *schema = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nbound; i++) {
        cfx_value v = s->bound[i];
        if (v.tag != CFX_TAG_NODE && !s->nested[i])
            args[i] = v;
        else if (!cfx__bind_one(schema, at, i, cfx__run_fill(r, v), cfx__op_mode(op), &args[i]))
            return cfx_bad();
    }
    return cfx__op_call_bound(at, op, args);
}

cfx_value cfx__run_step_higher(const cfx__run *r, const cfx__run_step *s, cfx_watcher *w) {
    const cfx_value args = cfx__run_fill(r, s->args), kwargs = cfx__run_fill(r, s->kwargs);
    const cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                        kwargs.tag == CFX_TAG_DICT ? cfx_as_dict(kwargs) : NULL};
    return cfx__run_higher(cfx__higher_find(s->node->target.name), s->node, a, w);
}

static void store(cfx__run *r, int slot, cfx_value v) {
    r->values[slot] = cfx_value_keep(v);
    r->have[slot] = true;
}

static void release(cfx__run *r, int slot) {
    if (r->have[slot])
        cfx_value_drop(r->values[slot]);
    r->have[slot] = false;
    r->values[slot] = cfx_none();
}

/* Lets go of the inputs of a box before number `end`, which placeholders have taken. */
static void unbox(cfx__run *r, int end) {
    for (; r->boxed && r->unboxed < end; r->unboxed++) {
        cfx_value_drop(r->boxed[r->unboxed]);
        r->boxed[r->unboxed] = cfx_none();
    }
}

static void free_used(const cfx_interp *it, const cfx__run_step *s) {
    for (int i = 0; i < s->nfrees && !it->keep_values; i++)
        release(it->own_, s->frees[i]);
}

/* Whether calls must go through handlers: a slot is filled, or something looks at calls by name. */
static bool overridden(const cfx_interp *it) {
    const cfx__dispatch *d = cfx__dispatcher();
    return it->run_node || it->call_function || d->function_modes || d->trace;
}

/* Steps that only pass a value on; false where it is not so simple. */
static bool run_passing(cfx_interp *it, int k) {
    cfx__run *r = it->own_;
    const cfx__run_step *s = &r->steps->steps[k];
    if (s->input && !it->placeholder && r->next < r->inputs.n) {
        store(r, k, r->inputs.v[r->next++]);
        unbox(r, r->next);
        return true;
    }
    cfx_value item;
    bool taken = item_of(r, s, &item);
    if (taken)
        store(r, k, item);
    return taken;
}

static void run_step(cfx_interp *it, int k, bool through_handlers) {
    cfx__run *r = it->own_;
    const cfx__run_step *s = &r->steps->steps[k];
    if (!through_handlers && !it->given && run_passing(it, k)) {
        free_used(it, s);
        return;
    }
    const cfx_value *given = it->given ? cfx_dict_find(it->given, cfx_string_value(s->node->name))
                                       : NULL;
    size_t mark = cfx_scope_open();
    r->now = k;
    it->node = s->node;
    if (r->slots->enter)
        r->slots->enter(it, s->node);
    cfx_value v;
    if (given)
        v = *given;
    else if (s->op && !through_handlers)
        v = cfx__run_step_call(r, (cfx_site){0}, s->op, s);
    else
        v = it->run_node ? it->run_node(it, s->node) : cfx_interp_run_node(it, s->node);
    store(r, k, v);
    unbox(r, r->next);
    cfx_scope_close(mark);
    free_used(it, s);
}

/* Whether every keyword is a parameter that got nothing by position. */
static bool keywords_fit(const cfx__run *r) {
    const cfx_dict *kw = r->inputs.kw;
    for (int64_t i = 0; kw && i < kw->len; i++) {
        const char *key = cfx_text(kw->entries[i].key);
        int at = -1, place = 0;
        bool rest = false;
        for (int k = 0; k < r->steps->nsteps; k++) {
            const cfx_node *n = r->steps->steps[k].node;
            if (n->op != CFX_PLACEHOLDER)
                continue;
            rest |= n->target.name[0] == '*' && n->target.name[1] == '*';
            if (key && !strcmp(n->target.name, key))
                at = place;
            place += n->target.name[0] != '*';
        }
        if (at < 0 ? !rest : at < r->inputs.n) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "forward() got %s argument '%s'",
                     at < 0 ? "an unexpected keyword" : "multiple values for", key ? key : "?");
            return false;
        }
    }
    return true;
}

static bool all_taken(const cfx__run *r) {
    if (r->next >= r->inputs.n)
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
             "forward() takes %d positional arguments but %d were given", r->next + 1,
             r->inputs.n + 1);
    return false;
}

/* What the nodes gave, for those who ask after the run. */
static void keep_values(const cfx__run *r) {
    cfx_graph *g = r->steps->nsteps ? r->steps->steps[0].node->graph : NULL;
    cfx_dict *values = cfx_keep(cfx_dict_new());
    for (int k = 0; k < r->steps->nsteps; k++)
        if (r->have[k])
            cfx_dict_put(values, cfx_node_value(r->steps->steps[k].node), r->values[k]);
    cfx__lock(&g->prepared_lock);
    cfx_dict *old = g->values;
    g->values = values;
    cfx__unlock(&g->prepared_lock);
    cfx_drop(old);
}

static cfx_value run_steps(cfx_interp *it, cfx__run run) {
    const cfx__steps *steps = run.steps;
    int n = steps->nsteps;
    run.values = cfx__alloc0((size_t)n * (sizeof *run.values + sizeof *run.have));
    run.have = (bool *)(run.values + n);
    struct cfx__run *outer = it->own_;
    const cfx__modes modes = cfx__modes_now();
    it->own_ = &run;
    bool through_handlers = overridden(it), checked = false;
    int left = steps->nplaceholders; /* to come: after the last one all inputs have to be taken */
    cfx_value result = cfx_none();
    bool fits = it->given || keywords_fit(&run);
    for (int k = 0; k < n && fits && cfx_ok(); k++) {
        if (!left && !checked) {
            checked = true;
            if (!it->given && !all_taken(&run))
                break;
        }
        left -= steps->steps[k].node->op == CFX_PLACEHOLDER;
        run_step(it, k, through_handlers);
        if (!cfx_ok())
            cfx__run_note(steps->steps[k].node);
        else if (steps->steps[k].node->op == CFX_OUTPUT)
            result = cfx_value_keep(run.values[k]);
    }
    if (it->keep_values && run.slots == &cfx__interp_slots)
        keep_values(&run);
    for (int k = 0; k < n; k++)
        release(&run, k);
    unbox(&run, run.inputs.n);
    cfx__free(run.values);
    it->own_ = outer;
    if (!cfx_ok()) /* what was to set them back was not reached */
        cfx__modes_restore(modes);
    if (cfx__value_tag_counted(result.tag))
        cfx__scope_own(cfx__value_object(result));
    return cfx_ok() ? result : cfx_bad();
}

cfx_value cfx__run_graph(cfx_interp *it, cfx_args a, const cfx__slots *slots, void *user) {
    cfx__steps *steps = cfx__steps_of(it->graph ? it->graph : it->module->graph);
    cfx__run run = {.steps = steps, .inputs = a, .slots = slots, .user = user};
    cfx_value v = steps ? run_steps(it, run) : cfx_bad();
    cfx_drop(steps);
    return v;
}

/* The graph to run; NULL, with an error, where there is none. */
static const cfx_graph *graph_of(cfx_site at, const cfx_interp *it) {
    cfx_module *m = it ? it->module : NULL;
    const cfx_graph *g = m && it->graph ? it->graph : m ? m->graph : NULL;
    if (!g)
        cfx_fail(CFX_TYPE_ERROR, at, "an interpreter needs a GraphModule to run");
    return g;
}

cfx_value cfx_run_from(cfx_site at, cfx_interp *it, cfx_args a) {
    const cfx_graph *g = graph_of(at, it);
    if (!g)
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    cfx_value v = cfx_bad();
    if (cfx__run_inputs(at, g, &a, cfx_as_list(cfx_list_value(0, NULL))))
        v = cfx__run_result(g, cfx__run_graph(it, a, &cfx__interp_slots, NULL));
    cfx__site_leave(outer);
    return cfx_scope_return_value(mark, v);
}

static int placeholders(const cfx_graph *g) {
    int n = 0;
    cfx_each_node(g, p) n += p->op == CFX_PLACEHOLDER;
    return n;
}

cfx_value cfx_run_boxed_from(cfx_site at, cfx_interp *it, cfx_value inputs) {
    const cfx_graph *g = graph_of(at, it);
    cfx_list *box = g ? cfx_as_list_from(at, inputs) : NULL;
    if (!g || inputs.tag != CFX_TAG_LIST || box->head.flags & CFX__FROZEN) {
        cfx_fail(CFX_TYPE_ERROR, at, "the inputs of a boxed run are a list, which it empties");
        return cfx_bad();
    }
    int want = placeholders(g), n = (int)box->len;
    if (n != want) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Interpreter.boxed_run expected %d arguments for placeholders but received %d "
                 "(%s arguments)",
                 want, n, n > want ? "extra" : "missing");
        return cfx_bad();
    }
    cfx__steps *steps = cfx__steps_of((cfx_graph *)g);
    if (!steps)
        return cfx_bad();
    cfx_value *taken = cfx__alloc((size_t)n * sizeof *taken + 1);
    memcpy(taken, box->items, (size_t)n * sizeof *taken);
    box->len = 0;
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    cfx__run run = {.steps = steps, .inputs = {n, taken, NULL}, .boxed = taken,
                    .slots = &cfx__interp_slots};
    cfx_value v = cfx_scope_return_value(mark, run_steps(it, run));
    cfx__site_leave(outer);
    cfx__free(taken);
    cfx_drop(steps);
    return v;
}

cfx_value cfx_interp_value(cfx_interp *it, const cfx_node *n) {
    if (!it || !n || !n->graph)
        return cfx_none();
    cfx__run *r = it->own_;
    if (!r) {
        const cfx_value *kept = cfx_dict_find(n->graph->values, cfx_node_value((cfx_node *)n));
        return kept ? *kept : cfx_none();
    }
    int slot = cfx__steps_slot(r->steps, n);
    return slot < 0 || !r->have[slot] ? cfx_none() : r->values[slot];
}

/* ---- the executor ---------------------------------------------------------------------------- */

static double now(void) { return (double)cfx__clock_ns() * 1e-9; }

static cfx_value show_node(cfx_interp *it, cfx_node *n) {
    cfx_watcher *w = it->user;
    cfx__run_state *s = cfx__run_state_now();
    s->watcher = w->inside && cfx_node_higher_order(n) ? w : NULL;
    const double start = w->ran ? now() : 0;
    cfx_value v = cfx_interp_run_node(it, n);
    s->watcher = NULL;
    if (w->ran && !cfx_is_bad(v) && n->op >= CFX_CALL_FUNCTION && n->op != CFX_OUTPUT)
        w->ran(w, &(cfx_ran){n->target.name, 1, (const cfx_node *[]){n}, v, now() - start});
    if (cfx_is_bad(v) || !w->see || (w->wants && !w->wants(w, n)))
        return v;
    cfx_value other = w->see(w, n, v);
    return cfx_is_none(other) ? v : other;
}

static void *prepare(const cfx_execution *e) { return cfx__steps_make(e->graph); }

static cfx_value run(void *form, const cfx_execution *e) {
    cfx_interp it = {.module = e->module, .graph = e->graph, .user = e->watcher};
    if (e->watcher)
        it.run_node = show_node;
    return run_steps(&it, (cfx__run){
                              .steps = form, .inputs = e->inputs, .slots = &cfx__interp_slots});
}

const cfx_executor cfx_interpreter = {
    .name = "interpreter", .prepare = prepare, .run = run, .free = cfx_drop};
