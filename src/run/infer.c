/* What nodes compute that were made or changed by hand, by a pass or in a text: the shape rule of a
 * node runs on tensors without numbers that are like its inputs. Only what changed is looked at,
 * and what depends on it as far as results differ. Start at cfx_program_infer. */
#include "../trace/worlds.h"

#include "run.h"

/* Sizes that are symbols are numbers while shape rules run, which they do in several worlds: see
 * trace/worlds.h. */
typedef struct inference {
    const cfx_program *program;
    cfx__worlds worlds;
    cfx__exprs exprs;
    int k;         /* the world in which shape rules run */
    bool foreign;  /* the node is of a foreign operator, or takes a result of one */
    bool begun;    /* symbols have sizes */
    bool *changed; /* by id of the node: its result is not what it was */
    cfx_node **tensor; /* by id: the node that made the tensor which an in-place operator gives */
    cfx_node **latest; /* by id of such a node: the last in-place operator that wrote to it */
    cfx_module *module;
} inference;

static void choose_sizes(inference *f) {
    for (int k = 0; k < f->worlds.n; k++)
        cfx__worlds_choose(&f->worlds, k, k > 0); /* not smaller than those of the example */
    cfx__exprs_begin(&f->exprs, &f->worlds);
}

static void begin(inference *f) {
    if (f->begun)
        return;
    cfx__worlds_of(&f->worlds, f->program);
    f->worlds.n = f->worlds.symbols.len ? CFX__MANY_WORLDS : 1;
    choose_sizes(f);
    f->begun = true;
}

static void end(inference *f) {
    cfx__exprs_free(&f->exprs);
    cfx__worlds_free(&f->worlds);
}

/* ---- tensors that are changed in place ------------------------------------------------------- */

/* In-place operators give the tensor they were given, and may leave it another shape (transpose_,
 * squeeze_, resize_): what is noted of the last of them is what later readers of the tensor get. */

static void begin_graph(inference *f, cfx_module *m) {
    const size_t n = m->graph->made.len + 1;
    f->module = m;
    f->changed = cfx__alloc0(n);
    f->tensor = cfx__alloc0(n * sizeof *f->tensor);
    f->latest = cfx__alloc0(n * sizeof *f->latest);
}

static void end_graph(inference *f) {
    cfx__free(f->changed);
    cfx__free(f->tensor);
    cfx__free(f->latest);
}

static cfx_node *maker_of(const inference *f, cfx_node *n) {
    cfx_node *maker = f->tensor[cfx__node_of(n)->id];
    return maker ? maker : n;
}

/* The node whose result says what the tensor of n is at this point of the graph. */
static cfx_node *latest_of(const inference *f, cfx_node *n) {
    cfx_node *latest = f->latest[cfx__node_of(maker_of(f, n))->id];
    return latest ? latest : n;
}

/* The first argument of an in-place operator; NULL for any other. */
static cfx_node *written_by(const cfx_node *n) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    const cfx__schema *s = op ? cfx__op_info_of(op)->schema : NULL;
    const cfx_list *args = n->args.tag == CFX_TAG_TUPLE ? cfx_as_list(n->args) : NULL;
    if (!s || s->nargs < 1 || !s->args[0].writes || s->nrets != 1 ||
        s->rets[0].alias != s->args[0].alias || !args || args->len < 1)
        return NULL;
    return args->items[0].tag == CFX_TAG_NODE ? cfx_as_node(args->items[0]) : NULL;
}

/* To be called after each node, in order. */
static void note_in_place(inference *f, cfx_node *n) {
    cfx_node *written = written_by(n);
    if (!written)
        return;
    cfx_node *maker = maker_of(f, written);
    f->tensor[cfx__node_of(n)->id] = maker;
    f->latest[cfx__node_of(maker)->id] = n;
}

/* ---- what is noted becomes a value ----------------------------------------------------------- */

static cfx_value fake_like(cfx_tensor *t) {
    if (t->head.flags & CFX__QUANTIZED)
        return cfx_tensor_value(t);
    return cfx_tensor_value(cfx__tensor_faked(t));
}

/* A result as shape rules take it, who may write to it. Bad where nothing is noted. */
static cfx_value value_of(inference *f, const cfx_result *r) {
    switch (r->kind) {
    case CFX_RESULT_UNKNOWN:
        return cfx_is_none(r->value) ? cfx_bad() : r->value;
    case CFX_RESULT_TENSOR:
        return r->value.tag == CFX_TAG_TENSOR ? fake_like(cfx_as_tensor(r->value))
                                              : cfx__worlds_tensor(&f->worlds, f->k, r->value);
    case CFX_RESULT_SEVERAL: {
        cfx_value out = cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_result_count(r); i++) {
            cfx_result item = cfx_result_item(r, i);
            cfx_value v = value_of(f, &item);
            cfx_list_append(cfx_as_list(out), cfx_is_bad(v) ? cfx_none() : v);
        }
        return out;
    }
    default:
        return cfx__worlds_value(&f->worlds, f->k, r->value);
    }
}

static cfx_value attribute(inference *f, const cfx_node *n) {
    cfx_value v = cfx_module_attr(f->module, n->target.name);
    cfx_result r = cfx_result_of(v);
    return r.kind == CFX_RESULT_TENSOR ? value_of(f, &r) : v;
}

/* What is noted of a node; of a parameter that says nothing, what its tensor is. */
static cfx_result result_of(const inference *f, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    bool top = n->graph == f->program->module->graph;
    const cfx_input_spec *s =
        r.kind == CFX_RESULT_UNKNOWN && top ? cfx_program_input(f->program, n) : NULL;
    cfx_tensor *t = s ? cfx_program_tensor(f->program, s) : NULL;
    return t ? cfx_result_of(cfx_tensor_value(t)) : r;
}

/* Whether what a node computes may be a part of what another one did. */
static bool is_view(const cfx_node *n) {
    if (cfx_node_is_getitem(n) && n->inputs)
        n = cfx_node_input(n, 0);
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    return op && (op->view || cfx__op_shares(op, 0));
}

/* What the tensor of a program holds that an input stands for and nothing writes to; NULL: that is
 * not known. */
static cfx_tensor *held_by(const inference *f, const cfx_node *n) {
    bool top = n->op == CFX_PLACEHOLDER && n->graph == f->program->module->graph;
    const cfx_input_spec *s = top ? cfx_program_input(f->program, n) : NULL;
    bool fixed = s && (s->kind == CFX_IN_CONSTANT || s->kind == CFX_IN_PARAMETER);
    return fixed ? cfx_program_tensor(f->program, s) : NULL;
}

/* Foreign operators look at what small tensors hold. */
static void note_known(inference *f, const cfx_node *n, cfx_value v) {
    cfx_tensor *held = f->foreign ? held_by(f, n) : NULL;
    if (held && v.tag == CFX_TAG_TENSOR)
        cfx__tensor_know(cfx_as_tensor(v), held);
    else if (f->foreign)
        cfx__contents_know(&f->worlds, f->k, cfx_node_get_meta(n, "contents"), v);
}

/* The value of an input; hands over a count. Of a view it is not noted how long its storage is:
 * as_strided is to find out when it runs. */
static cfx_value input(cfx_node *n, void *user) {
    inference *f = user;
    size_t mark = cfx_scope_open();
    n = latest_of(f, n);
    cfx_result r = result_of(f, n);
    cfx_value v = n->op == CFX_GET_ATTR ? attribute(f, n) : value_of(f, &r);
    note_known(f, n, v);
    if (cfx_is_bad(v) && cfx_ok())
        cfx__fail_unknown((cfx_site){0}, "nothing is known of what node %s computes; "
                          "cfx_shape_prop finds it out", n->name);
    if (v.tag == CFX_TAG_TENSOR && cfx_tensor_is_fake(cfx_as_tensor(v)) && is_view(n))
        cfx_as_tensor(v)->storage->size = SIZE_MAX;
    cfx_value_keep(v);
    cfx_scope_close(mark);
    return v;
}

/* ---- one node -------------------------------------------------------------------------------- */

static cfx_value call(inference *f, const cfx_node *n, cfx_args a) {
    cfx_target t = n->target;
    if (n->op == CFX_CALL_METHOD)
        return cfx_method_from((cfx_site){0}, t.name, a);
    if (n->op == CFX_CALL_MODULE) {
        cfx_module *m = cfx_module_find(f->module, t.name);
        return m ? cfx_forward_value_from((cfx_site){0}, m, a) : cfx_bad();
    }
    if (t.object)
        return t.object->type->call(t.object->data, a);
    cfx__higher_fn *higher = cfx__higher_find(t.name);
    if (higher)
        return higher((cfx_site){0}, a);
    cfx_op *op = t.fn ? NULL : t.op ? t.op : cfx__run_late_op(n);
    if (op)
        return cfx_op_do_from((cfx_site){0}, op, a);
    if (f->foreign)
        return cfx_bad();
    return cfx_py_from((cfx_site){0}, t.name, a);
}

/* One of several results, without the others; bad where n takes none, or none that is noted. */
static cfx_value taken(inference *f, const cfx_node *n) {
    if (!cfx_node_takes_result(n))
        return cfx_bad();
    const cfx_value *args = cfx_as_list(n->args)->items;
    cfx_result several = result_of(f, cfx_as_node(args[0]));
    const int64_t i = cfx_integer(args[1]);
    if (several.kind != CFX_RESULT_SEVERAL || i < 0 || i >= cfx_result_count(&several))
        return cfx_bad();
    cfx_result one = cfx_result_item(&several, i);
    cfx_value v = value_of(f, &one);
    cfx_value contents = cfx_node_get_meta(cfx_as_node(args[0]), "contents");
    if (contents.tag == CFX_TAG_TUPLE && i < cfx_as_list(contents)->len)
        cfx__contents_know(&f->worlds, f->k, cfx_as_list(contents)->items[i], v);
    return v;
}

/* The result of a node by its shape rule, in world f->k; scope. */
static cfx_value computed(inference *f, cfx_node *n) {
    begin(f);
    cfx_value one = taken(f, n);
    if (!cfx_is_bad(one))
        return one;
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, input, f));
    cfx_value kwargs =
        cfx_is_bad(args) ? args : cfx__value_scope_own(cfx__node_map(n->kwargs, input, f));
    if (cfx_is_bad(kwargs))
        return cfx_bad();
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  cfx_as_dict(kwargs)->len ? cfx_as_dict(kwargs) : NULL};
    bool fake = cfx_set_fake_mode(true);
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_value v = call(f, n, a);
    cfx_set_grad_mode(grad);
    cfx_set_fake_mode(fake);
    return v;
}

/* Whether a mask picks elements: how many is in the data. */
static bool has_mask(const cfx_node *n) {
    cfx_each_input(n, u) {
        cfx_result r = cfx_node_result(u->node);
        if (r.kind == CFX_RESULT_TENSOR && u != n->inputs &&
            (r.dtype == CFX_BOOL || r.dtype == CFX_U8))
            return true;
    }
    return false;
}

/* Calls whose result only data could tell, and those that the registry does not have: what is noted
 * of them stays. */
static bool depends_on_data(const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION || n->target.object)
        return false;
    if (cfx_node_higher_order(n))
        return true;
    cfx_op *op = n->target.op ? n->target.op : cfx__run_late_op(n);
    if (!op)
        return !n->target.fn;
    const cfx__op_info *info = cfx__op_info_of(op);
    const char *name = info ? info->schema->name : "";
    return (op->effects & (CFX_DATA_SHAPE | CFX_SIDE)) || !strcmp(name, "item") ||
           !strcmp(name, "_local_scalar_dense") || (!strcmp(name, "index") && has_mask(n));
}

/* Whether no one asks what n itself computes: it has no users, or they take its results apart and
 * know what these are. An in-place operator is asked for by later readers of its tensor. */
static bool is_needless(const inference *f, const cfx_node *n) {
    if (cfx_node_result(n).kind != CFX_RESULT_UNKNOWN)
        return depends_on_data(n);
    if (written_by(n))
        return false;
    cfx_each_user(n, u) {
        bool known = cfx_node_takes_result(u->user) && !cfx__node_of(u->user)->stale &&
                     cfx_node_result(u->user).kind != CFX_RESULT_UNKNOWN;
        if (!known)
            return false;
    }
    cfx_each_input(n, u)
        if (f->changed[cfx__node_of(latest_of(f, u->node))->id])
            return !n->num_users;
    return true;
}

static bool is_call(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT && n->op != CFX_GET_ATTR;
}

static bool is_asked_for(const inference *f, const cfx_node *n) {
    if (!is_call(n))
        return false;
    bool asked = cfx__node_of(n)->stale;
    cfx_each_input(n, u) asked |= f->changed[cfx__node_of(latest_of(f, u->node))->id];
    return asked && !is_needless(f, n);
}

/* The result of a node in each world; how many there are before the first that fails. */
static int computed_in_worlds(inference *f, cfx_node *n, cfx_value *v) {
    for (f->k = 0; f->k < f->worlds.n; f->k++) {
        v[f->k] = computed(f, n);
        if (!cfx_ok() || cfx_is_bad(v[f->k]))
            break;
    }
    int done = f->k;
    f->k = 0;
    return done;
}

/* Whether a node is of a foreign operator, of one that takes sub-graphs or is not in the registry,
 * or takes one of the results of such. */
static bool is_foreign(const cfx_node *n) {
    if (cfx_node_takes_result(n))
        n = cfx_as_node(cfx_as_list(n->args)->items[0]);
    if (n->op != CFX_CALL_FUNCTION || n->target.object || n->target.fn)
        return false;
    return n->target.op ? (n->target.op->effects & CFX_FOREIGN) != 0
                        : !cfx__run_late_op(n);
}

/* The result of a node in all worlds, as metadata has it; scope. Bad, with or without an error.
 * Where it fails at some sizes it may do at even ones, say, alone. */
static cfx_value computed_everywhere(inference *f, cfx_node *n) {
    cfx_value v[CFX__WORLDS];
    begin(f);
    int done = computed_in_worlds(f, n, v);
    while (done < f->worlds.n && cfx__worlds_coarser(&f->worlds) && cfx__error_forgive()) {
        cfx__exprs_free(&f->exprs);
        choose_sizes(f);
        done = computed_in_worlds(f, n, v);
    }
    if (done < f->worlds.n)
        return cfx_bad();
    cfx_value contents = f->foreign ? cfx__contents_of(&f->exprs, v) : cfx_none();
    if (!cfx_is_none(contents))
        cfx_node_set_meta(n, "contents", contents);
    else
        cfx_node_remove_meta(n, "contents");
    return cfx__worlds_describe(&f->exprs, n, v);
}

/* Whether what a foreign operator computes is only known when it runs: it depends on numbers that
 * nobody knows, or on operators that nobody knows. Where sizes vary it is not known either for what
 * sizes a program is made: that it fails at some proves nothing. */
static bool is_unknown(const inference *f) {
    return f->foreign && (f->worlds.n > 1 || cfx_ok() || cfx__error_unknown()) &&
           cfx__error_forgive();
}

static bool infer_node(inference *f, cfx_node *n) {
    size_t mark = cfx_scope_open();
    f->foreign = is_foreign(n);
    cfx_value val = computed_everywhere(f, n);
    if ((!cfx_ok() || cfx_is_bad(val)) && is_unknown(f)) {
        cfx_scope_close(mark);
        return true;
    }
    if (!cfx_ok() || cfx_is_bad(val)) {
        if (cfx_ok())
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "what %s computes cannot be told", n->name);
        cfx__run_note(n);
        cfx_scope_close(mark);
        return false;
    }
    cfx_result before = cfx_node_result(n), now = cfx_result_of(val);
    if (!cfx_result_equal(&before, &now)) {
        cfx_node_set_meta(n, "val", val);
        cfx_node_remove_meta(n, "tensor_meta");
        f->changed[cfx__node_of(n)->id] = true;
    }
    cfx_scope_close(mark);
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool infer_graph(inference *f, cfx_module *m) {
    bool fine = true;
    begin_graph(f, m);
    cfx_each_node(m->graph, n) {
        if (is_asked_for(f, n) && !(fine = infer_node(f, n)))
            break;
        cfx__node_of(n)->stale = false;
        note_in_place(f, n);
    }
    end_graph(f);
    return fine;
}

/* Whether anything changed since results were noted; changes nothing where not, so that many
 * threads may ask. */
static bool is_settled(const cfx_graph *g) {
    cfx_each_node(g, n) if (cfx__node_of(n)->stale && is_call(n)) return false;
    return true;
}

static void infer_module(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph && cfx_ok() && !is_settled(m->graph))
        infer_graph(user, m);
}

bool cfx_program_infer(const cfx_program *p) {
    if (!cfx__program_given((cfx_site){0}, p))
        return false;
    inference f = {.program = p};
    cfx_module_walk(p->module, infer_module, &f);
    if (f.begun)
        end(&f);
    return cfx_ok();
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Whether two values are alike at the sizes that symbols have while shape rules run. */
static bool same_value(const cfx_result *a, const cfx_result *b) {
    if (a->kind != b->kind)
        return a->kind == CFX_RESULT_UNKNOWN || b->kind == CFX_RESULT_UNKNOWN;
    bool same = cfx_result_count(a) == cfx_result_count(b);
    if (a->kind == CFX_RESULT_TENSOR) {
        same = a->dtype == b->dtype && a->ndim == b->ndim;
        for (int i = 0; same && i < a->ndim; i++)
            same = a->shape[i] == b->shape[i];
    }
    for (int64_t i = 0; same && a->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(a); i++) {
        cfx_result x = cfx_result_item(a, i), y = cfx_result_item(b, i);
        same = same_value(&x, &y);
    }
    return same;
}

typedef enum verdict { AS_NOTED, OTHERWISE, REFUSED } verdict;

/* Whether a node computes what is noted; what cannot be told without data, or runs nowhere, is not
 * compared. *got and *noted, of the scope, are set where it does otherwise. */
static verdict compare_noted(inference *f, cfx_node *n, cfx_result *got, cfx_result *noted) {
    cfx_result r = cfx_node_result(n);
    if (n->op != CFX_CALL_FUNCTION || r.kind == CFX_RESULT_UNKNOWN || depends_on_data(n) ||
        cfx_node_higher_order(n))
        return AS_NOTED;
    *got = cfx_result_of(computed(f, n));
    verdict v = cfx_ok() || cfx__error_unknown() ? AS_NOTED : REFUSED;
    *noted = cfx_result_of(value_of(f, &r));
    if (cfx_ok())
        return same_value(got, noted) ? AS_NOTED : OTHERWISE;
    cfx__error_forgive();
    return v;
}

static bool check_node(inference *f, cfx_node *n) {
    size_t mark = cfx_scope_open();
    cfx_result got, noted;
    if (compare_noted(f, n, &got, &noted) == OTHERWISE)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "node %s computes %s, but %s is noted", n->name,
                 cfx_result_text(&got), cfx_result_text(&noted));
    cfx_scope_close(mark);
    return cfx_ok();
}

static void check_graph(const char *path, cfx_module *m, void *user) {
    (void)path, (void)user;
    if (m->graph && cfx_ok() && cfx__graph_check(m->graph))
        cfx_graph_lint(m->graph, m);
}

static void check_results(const char *path, cfx_module *m, void *user) {
    inference *f = user;
    (void)path;
    if (!m->graph || !cfx_ok())
        return;
    begin_graph(f, m);
    cfx_each_node(m->graph, n) {
        if (!check_node(f, n))
            break;
        note_in_place(f, n);
    }
    end_graph(f);
}

static void doubt_results(const char *path, cfx_module *m, void *user) {
    inference *f = user;
    (void)path;
    if (!m->graph)
        return;
    begin_graph(f, m);
    cfx_each_node(m->graph, n) {
        size_t mark = cfx_scope_open();
        cfx_result got, noted;
        verdict v = compare_noted(f, n, &got, &noted);
        cfx__node_of(n)->stale |= v == OTHERWISE;
        cfx__node_of(n)->refused = v == REFUSED && !f->program->ranges->len;
        note_in_place(f, n);
        cfx_scope_close(mark);
    }
    end_graph(f);
}

bool cfx__program_settle(const cfx_program *p) {
    inference f = {.program = p};
    cfx_module_walk(p->module, doubt_results, &f);
    if (f.begun)
        end(&f);
    return cfx_program_infer(p);
}

static bool check_signature(const cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        bool held =
            s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_BUFFER || s->kind == CFX_IN_CONSTANT;
        const cfx_tensor *t = held ? cfx_program_tensor(p, s) : NULL;
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
        cfx_result own = t ? cfx_result_of(cfx_tensor_value((cfx_tensor *)t)) : r;
        bool fits = !t || r.kind == CFX_RESULT_UNKNOWN || (r.shape && same_value(&r, &own));
        if ((held && !t) || !fits) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "input %s stands for '%s', %s", s->name,
                     s->target ? s->target : "",
                     t ? "which is of another shape or dtype" : "which the program does not have");
            return false;
        }
    }
    return true;
}

bool cfx__program_check_graphs(const cfx_program *p) {
    if (!cfx_program_sync(p) || !cfx_program_infer(p) || !check_signature(p))
        return false;
    cfx_module_walk(p->module, check_graph, NULL);
    return cfx_ok();
}

bool cfx__program_check_results(const cfx_program *p) {
    inference f = {.program = p};
    cfx_module_walk(p->module, check_results, &f);
    if (f.begun)
        end(&f);
    return cfx_ok();
}

bool cfx_program_check(cfx_program *p) {
    return cfx__program_given((cfx_site){0}, p) && cfx__program_check_graphs(p) &&
           cfx__program_check_results(p);
}
