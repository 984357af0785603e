/* What nodes compute that were made or changed by hand, by a pass or in a text: the shape rule of a
 * node runs on tensors without numbers that are like its inputs. Only what changed is looked at,
 * and what depends on it as far as results differ. Start at cfx_program_infer. */
#include "infer.h"

typedef cfx__inference inference;

/* ---- what is noted becomes a value ----------------------------------------------------------- */

/* A float or a truth of which only an expression is noted: shape rules do not look at which. */
static cfx_value some_value(const cfx_result *r) {
    return r->kind == CFX_RESULT_BOOL ? cfx_bool(true) : cfx_float(1);
}

/* A result as shape rules take it, who may write to it. Bad where nothing is noted. */
static cfx_value value_of(inference *f, const cfx_result *r) {
    switch (r->kind) {
    case CFX_RESULT_UNKNOWN:
        return cfx_is_none(r->value) ? cfx_bad() : r->value;
    case CFX_RESULT_TENSOR:
        return r->value.tag == CFX_TAG_TENSOR
                   ? cfx_tensor_value(cfx__tensor_faked(cfx_as_tensor(r->value)))
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
        return r->value.tag == CFX_TAG_STR ? some_value(r)
                                           : cfx__worlds_value(&f->worlds, f->k, r->value);
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
    n = cfx__infer_latest(f, n, f->node);
    for (int i = 0; i < f->ngiven; i++)
        if (f->given[i].node == n) {
            cfx_value_keep(f->given[i].v);
            cfx_scope_close(mark);
            return f->given[i].v;
        }
    cfx_result r = result_of(f, n);
    bool text = n->op == CFX_PLACEHOLDER && r.value.tag == CFX_TAG_STR;
    cfx_value v = n->op == CFX_GET_ATTR ? attribute(f, n)
                  : text                ? r.value
                                        : value_of(f, &r);
    note_known(f, n, v);
    if (cfx_is_bad(v) && cfx_ok())
        cfx__fail_unknown((cfx_site){0}, "nothing is known of what node %s computes; "
                          "cfx_shape_prop finds it out", n->name);
    if (v.tag == CFX_TAG_TENSOR && cfx_tensor_is_fake(cfx_as_tensor(v)) && cfx__infer_is_view(n))
        cfx_as_tensor(v)->storage->size = SIZE_MAX;
    if (v.tag == CFX_TAG_TENSOR && f->ngiven < COUNT(f->given)) {
        f->given[f->ngiven].node = n;
        f->given[f->ngiven++].v = v;
    }
    cfx_value_keep(v);
    cfx_scope_close(mark);
    return v;
}

/* ---- sizes that only data could tell --------------------------------------------------------- */

/* Collects the sizes that are noted of a result and that depend on data, in world f->k: those that
 * no input has where `own` says so. */
static void collect_told(inference *f, const cfx_result *r, bool own) {
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        collect_told(f, &item, own);
    }
    for (int i = 0; r->kind == CFX_RESULT_TENSOR && i < r->ndim; i++) {
        cfx_value size = cfx_result_size(r, i);
        int64_t n;
        const bool data = size.tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(size));
        if (f->ntold < COUNT(f->told) && data && !(own && cfx__result_size_given(f->node, size)) &&
            cfx__worlds_eval(&f->worlds, f->k, size, &n))
            f->told[f->ntold++] = n;
    }
}

/* How many there are where only data could tell: what is noted says so, by a symbol or, where it
 * was found to be one, a number: supposed to be each of the sizes in turn. -1: nothing does. */
static int64_t told_size(void) {
    inference *f = cfx__run_state_now()->inference;
    cfx_result r = cfx_node_result(f->node);
    for (int own = 1; own >= 0 && !f->asked && !f->ntold; own--)
        collect_told(f, &r, own);
    if (f->asked < f->ntold)
        return f->told[f->asked++];
    cfx_result first = cfx_result_item(&r, 0);
    bool number =
        !f->ntold && first.kind == CFX_RESULT_TENSOR && f->told_dim < first.ndim && first.shape;
    f->supposed |= number;
    return number ? first.shape[f->told_dim] : -1;
}

/* Whether v, or the first of several, has the sizes that are noted. */
static bool has_noted_sizes(const cfx_node *n, cfx_value v) {
    cfx_result r = cfx_node_result(n), first = cfx_result_item(&r, 0);
    if ((v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST) && cfx_len(v))
        v = cfx_at(v, 0);
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    return t && t->ndim == first.ndim &&
           !memcmp(t->shape, first.shape, (size_t)t->ndim * sizeof *t->shape);
}

/* How long a slice is that is cut by data. */
static int64_t told_part(int64_t n) {
    const inference *f = cfx__run_state_now()->inference;
    const char *name = cfx__sizes_cut(f->node);
    const cfx__symbol *s = name ? cfx__worlds_find(&f->worlds, name) : NULL;
    return s ? s->size.at[f->k] : n;
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
    if (f->foreign && !cfx_node_takes_result(n))
        return cfx_bad();
    return cfx_py_from((cfx_site){0}, t.name, a);
}

static cfx_value call_in_region(inference *f, const cfx_node *n, cfx_args a) {
    const cfx_list *how = cfx_as_list(f->region->args);
    const cfx_site none = {0};
    cfx_autocast_begin_from(none,
                            cfx__autocast_of(none, (cfx_args){(int)how->len, how->items, NULL}));
    cfx_value v = cfx_ok() ? call(f, n, a) : cfx_bad();
    cfx_autocast_end_from(none);
    return v;
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

/* Whether what a foreign operator computes is only known when it runs: it depends on numbers that
 * nobody knows, or on operators or modes of them that nobody knows. Where sizes vary it is not
 * known either for what sizes a program is made: that it fails at some proves nothing. */
static bool is_unknown(const inference *f) {
    const bool lacking = !cfx_ok() && cfx_error_last()->kind == CFX_NOT_IMPLEMENTED_ERROR;
    return f->foreign && (f->worlds.n > 1 || cfx_ok() || lacking || cfx__error_unknown()) &&
           cfx__error_forgive();
}

/* Arguments with expressions in them, in world f->k. */
static cfx_value in_world(const inference *f, cfx_value v) {
    if (v.tag == CFX_TAG_SYM)
        return cfx__worlds_value(&f->worlds, f->k, v);
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE, any = false;
    for (int64_t i = 0; list && i < cfx_as_list(v)->len; i++)
        any |= cfx_as_list(v)->items[i].tag == CFX_TAG_SYM ||
               cfx_as_list(v)->items[i].tag == CFX_TAG_LIST;
    if (!any)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), in_world(f, cfx_as_list(v)->items[i]));
    return out;
}

static cfx_value call_supposing(inference *f, const cfx_node *n, cfx_args a, int dim) {
    f->ntold = f->asked = 0;
    f->told_dim = dim;
    f->supposed = false;
    return f->region ? call_in_region(f, n, a) : call(f, n, a);
}

/* The call with the sizes that are noted where only data could tell. */
static cfx_value call_as_told(inference *f, const cfx_node *n, cfx_args a) {
    cfx_value v = call_supposing(f, n, a, 0);
    for (int dim = 1; f->supposed && dim < CFX_MAX_DIMS && !has_noted_sizes(n, v); dim++) {
        if (!cfx__error_forgive())
            return cfx_bad();
        cfx_value other = call_supposing(f, n, a, dim);
        if (f->supposed && has_noted_sizes(n, other))
            return other;
        if (!f->supposed) { /* it is none of them */
            cfx__error_forgive();
            return call_supposing(f, n, a, 0);
        }
    }
    return v;
}

cfx_value cfx__infer_computed(inference *f, cfx_node *n) {
    cfx__infer_begin(f);
    f->node = n;
    f->foreign = is_foreign(n);
    f->ngiven = 0;
    cfx_value one = taken(f, n);
    if (!cfx_is_bad(one))
        return one;
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, input, f));
    cfx_value kwargs =
        cfx_is_bad(args) ? args : cfx__value_scope_own(cfx__node_map(n->kwargs, input, f));
    if (cfx_is_bad(kwargs))
        return cfx_bad();
    args = in_world(f, args);
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  cfx_as_dict(kwargs)->len ? cfx_as_dict(kwargs) : NULL};
    bool fake = cfx_set_fake_mode(true);
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    inference *outer = cfx__run_state_now()->inference;
    int64_t (*size)(void) = cfx__dispatcher()->data_size;
    int64_t (*part)(int64_t) = cfx__dispatcher()->part_size;
    cfx__run_state_now()->inference = f;
    cfx__dispatcher()->data_size = told_size;
    cfx__dispatcher()->part_size = told_part;
    cfx_value v = call_as_told(f, n, a);
    cfx__run_state_now()->inference = outer;
    cfx__dispatcher()->data_size = size;
    cfx__dispatcher()->part_size = part;
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

bool cfx__infer_untold(const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION || n->target.object)
        return false;
    if (cfx_node_higher_order(n))
        return true;
    cfx_op *op = n->target.op ? n->target.op : cfx__run_late_op(n);
    if (!op)
        return !n->target.fn;
    const cfx__op_info *info = cfx__op_info_of(op);
    const char *name = info ? info->schema->name : "";
    return op->effects & CFX_SIDE || !strcmp(name, "item") || !strcmp(name, "_local_scalar_dense");
}

/* Calls whose result only data could tell: what is noted of them stays. */
static bool needs_data(const cfx_node *n) {
    const cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    return cfx__infer_untold(n) || (op && op->effects & CFX_DATA_SHAPE) ||
           (op && has_mask(n) && cfx_node_is(n, "index"));
}

/* Whether what a use reads is not what it was. */
static bool is_changed(const inference *f, const cfx_use *u) {
    return f->changed[cfx__node_of(cfx__infer_latest(f, u->node, u->user))->id];
}

/* Whether no one asks what n itself computes: it has no users, or they take its results apart and
 * know what these are. An in-place operator is asked for by later readers of its tensor. */
static bool is_needless(const inference *f, const cfx_node *n) {
    if (cfx_node_result(n).kind != CFX_RESULT_UNKNOWN)
        return needs_data(n);
    if (cfx__infer_written(n))
        return false;
    cfx_each_user(n, u) {
        bool known = cfx_node_takes_result(u->user) && !cfx__node_of(u->user)->stale &&
                     cfx_node_result(u->user).kind != CFX_RESULT_UNKNOWN;
        if (!known)
            return false;
    }
    cfx_each_input(n, u) if (is_changed(f, u)) return !n->num_users;
    return true;
}

static bool is_call(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT && n->op != CFX_GET_ATTR;
}

/* Whether something is other than it was when the result of n was noted. */
static bool is_doubted(const inference *f, const cfx_node *n) {
    bool doubted = cfx__node_of(n)->stale;
    cfx_each_input(n, u) doubted |= is_changed(f, u);
    return doubted;
}

static bool is_asked_for(const inference *f, const cfx_node *n) {
    return is_call(n) && (is_doubted(f, n) || cfx__node_of(n)->bare) && !is_needless(f, n);
}

/* The result of a node in each world; how many there are before the first that fails. */
static int computed_in_worlds(inference *f, cfx_node *n, cfx_value *v) {
    for (f->k = 0; f->k < f->worlds.n; f->k++) {
        v[f->k] = cfx__infer_computed(f, n);
        if (!cfx_ok() || cfx_is_bad(v[f->k]))
            break;
    }
    int done = f->k;
    f->k = 0;
    return done;
}

cfx_value cfx__infer_described(inference *f, const cfx_node *n, const cfx_value *v) {
    cfx__exprs *x = cfx__infer_exprs(f);
    return cfx_ok() ? cfx__worlds_describe(x, n, v) : cfx_bad();
}

/* What a foreign operator's result is known to hold. */
static void note_contents(inference *f, cfx_node *n, const cfx_value *v) {
    cfx__exprs *x = f->foreign ? cfx__infer_exprs(f) : NULL;
    cfx_value contents = x && cfx_ok() ? cfx__contents_of(x, v) : cfx_none();
    if (!cfx_is_none(contents))
        cfx_node_set_meta(n, "contents", contents);
    else
        cfx_node_remove_meta(n, "contents");
}

/* The result of a node in all worlds, as metadata has it; scope. Bad, with or without an error.
 * Where it fails at some sizes it may do at even ones, say, alone. */
static cfx_value computed_everywhere(inference *f, cfx_node *n) {
    cfx_value v[CFX__WORLDS];
    cfx__infer_begin(f);
    int done = computed_in_worlds(f, n, v);
    while (done < f->worlds.n && cfx__infer_coarser(f) && cfx__error_forgive())
        done = computed_in_worlds(f, n, v);
    if (done < f->worlds.n)
        return cfx_bad();
    note_contents(f, n, v);
    return cfx__infer_described(f, n, v);
}

/* Whether a text said the same of a node but for strides. */
static bool fits_text(const cfx_result *said, const cfx_result *now) {
    if (said->kind != now->kind || cfx_result_count(said) != cfx_result_count(now))
        return false;
    bool same = true, several = said->kind == CFX_RESULT_SEVERAL;
    for (int64_t i = 0; several && same && i < cfx_result_count(said); i++) {
        cfx_result x = cfx_result_item(said, i), y = cfx_result_item(now, i);
        same = fits_text(&x, &y);
    }
    if (said->kind != CFX_RESULT_TENSOR)
        return same;
    same = said->dtype == now->dtype && said->ndim == now->ndim;
    for (int i = 0; same && i < said->ndim; i++)
        same = cfx_equal_values(cfx_result_size(said, i), cfx_result_size(now, i));
    return same;
}

/* The result of a node as metadata has it; scope. Where all sizes are numbers, that of a call that
 * is alike. */
static cfx_value result_for(inference *f, cfx_node *n) {
    cfx__infer_begin(f);
    const cfx_node *alike = f->worlds.n == 1 ? cfx__infer_alike(f, n) : NULL;
    return alike ? cfx_node_get_meta(alike, "val") : computed_everywhere(f, n);
}

static bool infer_node(inference *f, cfx_node *n) {
    size_t mark = cfx_scope_open();
    f->place = NULL;
    cfx_value val = result_for(f, n);
    if ((!cfx_ok() || cfx_is_bad(val)) && is_unknown(f)) {
        cfx__infer_finest(f); /* which sizes it fails at says nothing about those of others */
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
    bool said = cfx__node_of(n)->bare && !is_doubted(f, n);
    cfx__node_of(n)->bare = false;
    if ((!said || fits_text(&before, &now)) && !cfx_result_equal(&before, &now)) {
        cfx_node_set_meta(n, "val", val);
        cfx_node_remove_meta(n, "tensor_meta");
        f->changed[cfx__node_of(n)->id] = true;
    }
    if (!said)
        cfx__infer_learned(f, n);
    cfx_scope_close(mark);
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool infer_graph(inference *f, cfx_module *m) {
    bool fine = true;
    cfx__infer_enter(f, m);
    f->changed = cfx__alloc0(m->graph->made.len + 1);
    cfx_each_node(m->graph, n) {
        bool told = !is_asked_for(f, n) || infer_node(f, n);
        if (!told && !((f->on || !is_doubted(f, n)) && cfx__error_forgive())) {
            fine = false;
            break;
        }
        if (told)
            cfx__node_of(n)->stale = false;
    }
    cfx__free(f->changed);
    return fine;
}

/* Whether anything changed since results were noted; changes nothing where not, so that many
 * threads may ask. */
static bool is_settled(const cfx_graph *g) {
    cfx_each_node(g, n)
        if ((cfx__node_of(n)->stale || cfx__node_of(n)->bare) && is_call(n))
            return false;
    return true;
}

static void infer_module(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph && cfx_ok() && !is_settled(m->graph))
        infer_graph(user, m);
}

static void infer_program(inference *f) {
    cfx_module_walk(f->program->module, infer_module, f);
    cfx__infer_end(f);
}

bool cfx_program_infer(const cfx_program *p) {
    if (!cfx__program_given((cfx_site){0}, p))
        return false;
    infer_program(&(inference){.program = p});
    return cfx_ok();
}

void cfx__program_infer_most(const cfx_program *p) {
    infer_program(&(inference){.program = p, .on = true});
}

/* ---- notes that may be wrong ----------------------------------------------------------------- */

/* Whether an input is a number of which only an expression is noted: so is what comes of it. */
static bool takes_expression(const cfx_node *n) {
    cfx_each_input(n, u)
        if (u->node->op != CFX_PLACEHOLDER &&
            cfx_node_result(u->node).value.tag == CFX_TAG_STR)
            return true;
    return false;
}

/* Whether the arguments of a call fit the schema, whatever nodes turn out to be; else an error. */
static bool binds(const cfx_node *n) {
    cfx_op *op = n->target.fn ? NULL : n->target.op ? n->target.op : cfx__run_late_op(n);
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    cfx_value bound[CFX_MAX_ARGS];
    const cfx_list *args = cfx_as_list(n->args);
    cfx_dict *kw = cfx_as_dict(n->kwargs);
    cfx_args a = {(int)args->len, args->items, kw->len ? kw : NULL};
    return !info || cfx__bind(info->schema, (cfx_site){0}, a, cfx__op_mode(op), bound);
}

cfx__verdict cfx__infer_compare(inference *f, cfx_node *n, cfx_result *got, cfx_result *noted) {
    cfx_result r = cfx_node_result(n);
    if (n->op != CFX_CALL_FUNCTION || cfx__infer_untold(n))
        return n->op != CFX_CALL_FUNCTION || binds(n) ? CFX__AS_NOTED : CFX__REFUSED;
    *got = cfx_result_of(cfx__infer_computed(f, n));
    bool untold = !cfx_node_takes_result(n) && is_unknown(f);
    if (!cfx_ok() && !untold && !cfx__error_unknown())
        return CFX__REFUSED;
    *noted = cfx_ok() ? cfx_result_of(value_of(f, &r)) : r;
    if (cfx_ok() && noted->kind == CFX_RESULT_INT && takes_expression(n))
        return CFX__AS_NOTED;
    if (cfx_ok())
        return cfx__infer_same(got, noted) ? CFX__AS_NOTED : CFX__OTHERWISE;
    return cfx__error_forgive() ? CFX__AS_NOTED : CFX__REFUSED;
}

static void doubt_results(const char *path, cfx_module *m, void *user) {
    inference *f = user;
    (void)path;
    cfx__infer_enter(f, m);
    if (m->graph)
        cfx_each_node(m->graph, n) {
            size_t mark = cfx_scope_open();
            cfx_result got, noted;
            cfx__infer_begin(f);
            cfx__verdict v = cfx__infer_is_known(f, n) ? CFX__AS_NOTED
                                                       : cfx__infer_compare(f, n, &got, &noted);
            if (v == CFX__AS_NOTED)
                cfx__infer_learned(f, n);
            cfx__node_of(n)->stale |= v == CFX__OTHERWISE;
            cfx__node_of(n)->refused = v == CFX__REFUSED && !f->program->ranges->len;
            cfx__error_forgive();
            cfx_scope_close(mark);
        }
}

/* Calls that their operators refuse are marked, where sizes are fixed. */
bool cfx_program_settle(const cfx_program *p) {
    if (!cfx__program_given((cfx_site){0}, p))
        return false;
    inference f = {.program = p};
    cfx_module_walk(p->module, doubt_results, &f);
    cfx__infer_end(&f);
    return cfx_program_infer(p);
}
