/* Running a graph again on fake tensors, node by node, so that what it does is recorded anew. Start
 * at cfx__rerun_graph. */
#include <cfx/ops.h>

#include "rewrite.h"

/* ---- values ---------------------------------------------------------------------------------- */

static cfx_value given(cfx_node *n, void *user) {
    cfx__rerun *run = user;
    return cfx_value_keep(run->values[cfx__node_of(n)->id]);
}

cfx_value cfx__rerun_filled(cfx__rerun *run, cfx_value v) {
    return cfx__value_scope_own(cfx__node_map(v, given, run));
}

void cfx__rerun_set(cfx__rerun *run, const cfx_node *n, cfx_value v) {
    cfx_value *at = &run->values[cfx__node_of(n)->id];
    cfx_value_drop(*at);
    *at = cfx_value_keep(v);
}

/* ---- placeholders and attributes ------------------------------------------------------------- */

static bool is_top(const cfx__rerun *run) {
    return run->from == (run->given ? run->given->module : run->program->module);
}

static const cfx_input_spec *spec_of(const cfx__rerun *run, const cfx_node *n) {
    return run->program && is_top(run) ? cfx_program_input(run->program, n) : NULL;
}

/* What the next input of a sub-graph is given: its value now (i = 0), or what is noted of it (1).
 * None where that is not known. */
static cfx_value operand(const cfx__rerun *run, int i) {
    bool known = !is_top(run) && run->operands.tag == CFX_TAG_LIST &&
                 run->placed < cfx_as_list(run->operands)->len;
    return known ? cfx_at(cfx_as_list(run->operands)->items[run->placed], i) : cfx_none();
}

/* The tensor that an input is in every run, whose numbers foreign operators may look at; NULL: it
 * is none. */
static cfx_tensor *fixed_input(const cfx__rerun *run, const cfx_node *n) {
    const cfx_input_spec *s = spec_of(run, n);
    if (s)
        return s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_CONSTANT
                   ? cfx_program_tensor(run->program, s)
                   : NULL;
    cfx_value given = operand(run, 0);
    if (given.tag == CFX_TAG_TENSOR)
        return cfx__tensor_known(cfx_as_tensor(given));
    bool fixed = run->given && is_top(run) && run->given->constant &&
                 run->given->constant[run->placed];
    cfx_value v = fixed ? run->given->inputs.v[run->placed] : cfx_none();
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

/* Metadata of an input: what is noted, or what the program has for it. Bad, with an error, where
 * nothing says what it is and it is used. */
static cfx_value input_meta(const cfx__rerun *run, const cfx_node *n) {
    cfx_value val = cfx_node_get_meta(n, "val");
    const cfx_input_spec *s = spec_of(run, n);
    cfx_tensor *held = s && cfx_is_none(val) ? cfx_program_tensor(run->program, s) : NULL;
    if (held)
        return cfx_tensor_value(held);
    if (run->given && is_top(run))
        return run->given->inputs.v[run->placed];
    if (cfx_is_none(val))
        val = operand(run, 1);
    bool given = !cfx_is_none(val) || (s && (s->constant || s->kind != CFX_IN_USER));
    if (given || !n->num_users)
        return val;
    cfx__fail_unknown((cfx_site){0}, "nothing is known of what input %s is: "
                      "its dtype and its shape", n->name);
    return cfx_bad();
}

static cfx_value run_placeholder(cfx__rerun *run, const cfx_node *n) {
    cfx_node *made = cfx_graph_placeholder(run->recorder.graph, n->target.name, n->type, false,
                                           cfx_none());
    if (!made->graph)
        return cfx_bad();
    if (strcmp(made->name, n->name))
        cfx_node_set_name(made, n->name);
    cfx__node_copy_meta(made, n);
    cfx_value val = input_meta(run, n);
    if (cfx_is_bad(val))
        return val;
    if (!is_top(run) && !cfx_is_none(val))
        cfx_node_set_meta(made, "val", val);
    cfx_value like = val.tag == CFX_TAG_TENSOR ? val : cfx__worlds_tensor(run->worlds, run->k, val);
    if (like.tag != CFX_TAG_TENSOR) {
        run->placed++;
        return cfx__record_number(&run->recorder, made,
                                  cfx__worlds_value(run->worlds, run->k, val));
    }
    cfx_tensor *t = cfx__recorded_tensor(&run->recorder, made, cfx_as_tensor(like));
    if (cfx_node_result(n).requires_grad) /* which PyTorch's decompositions ask about */
        t->head.flags |= CFX__GRAD;
    cfx_tensor *fixed = fixed_input(run, n);
    if (fixed)
        cfx__tensor_know(t, fixed);
    run->placed++;
    return cfx_tensor_value(t);
}

static cfx_value run_get_attr(cfx__rerun *run, const cfx_node *n) {
    cfx_value v = cfx_module_attr(run->from, n->target.name);
    if (v.tag == CFX_TAG_MODULE)
        return v;
    if (v.tag != CFX_TAG_TENSOR) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s names no tensor and no graph",
                 n->target.name);
        return cfx_bad();
    }
    const char *name = n->target.name; /* regions have attributes of their own by the same names */
    if (cfx_module_has(run->to, name)) {
        const cfx_value there = cfx_module_attr(run->to, name);
        if (there.tag != CFX_TAG_TENSOR || cfx_as_tensor(there) != cfx_as_tensor(v))
            name = cfx__rerun_free_name(run, name);
    }
    cfx_module_set_attr(run->to, name, v);
    cfx_node *made = cfx_graph_get_attr(run->recorder.graph, name);
    return made->graph
               ? cfx_tensor_value(cfx__recorded_tensor(&run->recorder, made, cfx_as_tensor(v)))
               : cfx_bad();
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Metadata as values that the program can go on with: tensors at the chosen sizes, symbols. */
static cfx_value from_meta(cfx__rerun *run, const cfx_node *made, cfx_value val) {
    if (val.tag == CFX_TAG_LIST || val.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(val)->len; i++)
            cfx_list_append(cfx_as_list(out), from_meta(run, made, cfx_as_list(val)->items[i]));
        return out;
    }
    cfx_value t = cfx__worlds_tensor(run->worlds, run->k, val);
    if (t.tag == CFX_TAG_TENSOR) /* one of its own: it is marked as what stands for the node */
        return cfx_tensor_value(cfx__tensor_faked(cfx_as_tensor(t)));
    if (val.tag == CFX_TAG_SYM)
        return cfx__worlds_value(run->worlds, run->k, val);
    return cfx__sym_name(made->name, false, 0); /* a truth that no value holds */
}

enum { MOST_RESULTS = 100000 }; /* that anybody takes */

/* The results of a node that is copied: from its own metadata, or that of its items. */
static cfx_value results_of(const cfx_node *n) {
    cfx_value val = cfx_node_get_meta(n, "val");
    if (!cfx_is_none(val))
        return val;
    cfx_value out = cfx_tuple_value(0, NULL);
    cfx_each_user(n, u) {
        if (!cfx_node_takes_result(u->user))
            continue;
        int64_t i = cfx_integer(cfx_at(u->user->args, 1));
        if (i < 0 || i >= MOST_RESULTS)
            continue;
        while (cfx_as_list(out)->len <= i)
            cfx_list_append(cfx_as_list(out), cfx_none());
        cfx_value_drop(cfx_as_list(out)->items[i]);
        cfx_as_list(out)->items[i] = cfx_value_keep(cfx_node_get_meta(u->user, "val"));
    }
    return cfx_as_list(out)->len ? out : cfx_none();
}

/* Whether n gives a truth about numbers, be it noted or not. */
static bool is_truth(const cfx_node *n) {
    static const char *const relations[] = {"operator.lt", "operator.le", "operator.gt",
                                            "operator.ge", "operator.eq", "operator.ne",
                                            "torch.sym_not"};
    cfx_result_kind kind = cfx_node_result(n).kind;
    bool relation = false;
    for (int i = 0; i < COUNT(relations); i++)
        relation |= !strcmp(n->target.name, relations[i]);
    return kind == CFX_RESULT_BOOL || (kind == CFX_RESULT_UNKNOWN && relation);
}

cfx_value cfx__rerun_results(cfx__rerun *run, cfx_node *made, cfx_value like) {
    cfx__recorder *r = &run->recorder;
    bool inside = r->inside;
    r->inside = true;
    cfx_value v = cfx__record_results(r, (cfx_site){0}, made, like);
    r->inside = inside;
    cfx__record_log_result(r, v);
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx__functional_new(cfx_as_tensor(v)));
    v = cfx__record_number(r, made, v);
    for (int64_t i = 0; v.tag == CFX_TAG_TUPLE && i < cfx_as_list(v)->len; i++)
        if (cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR) {
            cfx_value outer =
                cfx_tensor_value(cfx__functional_new(cfx_as_tensor(cfx_as_list(v)->items[i])));
            cfx_value_keep(outer);
            cfx_value_drop(cfx_as_list(v)->items[i]);
            cfx_as_list(v)->items[i] = outer;
        }
    return v;
}

cfx_value cfx__rerun_copied(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    cfx__recorder *r = &run->recorder;
    cfx_value args = cfx__record_arg(r, (cfx_site){0}, cfx_tuple_value(a.n, a.v));
    cfx_value kw = a.kw ? cfx__record_arg(r, (cfx_site){0}, cfx_dict_value(a.kw)) : cfx_none();
    if (!cfx_ok())
        return cfx_bad();
    cfx_target target = cfx_graph_target(r->graph, n->target.name);
    target.op = n->target.op ? n->target.op : target.op;
    bool arithmetic = !strncmp(target.name, "operator.", 9); /* is called after its function */
    cfx_node *made = cfx__record_node(r, (cfx_site){0}, target, args, kw,
                                      arithmetic ? target.name + 9 : n->name);
    if (!made->graph)
        return cfx_bad();
    cfx_value val = results_of(n);
    if (cfx_is_none(val) && is_truth(n)) /* that no value holds */
        return cfx__sym_name(made->name, false, 0);
    if (cfx_is_none(val) && n->num_users) {
        cfx__fail_unknown((cfx_site){0}, "nothing is known of what %s computes", n->name);
        return cfx_bad();
    }
    if (cfx_is_none(val))
        return val;
    cfx_value v = cfx__rerun_results(run, made, from_meta(run, made, val));
    cfx_node_set_meta(made, "val", cfx_node_get_meta(n, "val"));
    return v;
}

/* Whether an expression depends on data. */
static bool is_data(const struct cfx_sym *e) {
    if (!e || e->op == CFX__SYM_INT)
        return false;
    return e->op == CFX__SYM_NAME ? *e->name == 'u' : is_data(e->a) || is_data(e->b);
}

/* Whether an argument is a truth or number that only a node knows. */
static void note_unknown(cfx_node *n, void *user) {
    cfx_value val = cfx_node_get_meta(n, "val");
    *(bool *)user |= val.tag == CFX_TAG_SYM && is_data(cfx_as_sym(val));
}

static bool has_unknown(const cfx_node *n, cfx_args a) {
    bool unknown = false;
    cfx__node_each(n->args, note_unknown, &unknown);
    for (int i = 0; i < a.n; i++)
        unknown |= a.v[i].tag == CFX_TAG_SYM;
    return unknown;
}

/* The symbol number *skip of those in v that depend on data and are alone, of those that no input
 * of n has where n is not NULL; NULL: there are less. */
static const char *data_symbol(cfx_value v, const cfx_node *n, int *skip) {
    if (v.tag == CFX_TAG_SYM)
        return cfx_as_sym(v)->op == CFX__SYM_NAME && is_data(cfx_as_sym(v)) &&
                       !(n && cfx__result_size_given(n, v)) && (*skip)-- == 0
                   ? cfx_as_sym(v)->name
                   : NULL;
    if (v.tag == CFX_TAG_DICT)
        return data_symbol(cfx_dict_get(cfx_as_dict(v), "shape"), n, skip);
    const char *found = NULL;
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(v)->len && !found; i++)
        found = data_symbol(cfx_as_list(v)->items[i], n, skip);
    return found;
}

const cfx__symbol *cfx__rerun_data_symbol(cfx__rerun *run) {
    const cfx_node *like = run->recorder.like;
    const cfx_value noted = like ? results_of(like) : cfx_none();
    int first = 0, skip = run->sizes_used++;
    const bool own = like && data_symbol(noted, like, &first); /* else what inputs have, too */
    const char *name = like ? data_symbol(noted, own ? like : NULL, &skip) : NULL;
    return name ? cfx__worlds_find(run->worlds, name) : NULL;
}

int64_t cfx__rerun_data_size(cfx__recorder *r) {
    const cfx__rerun *run = (cfx__rerun *)r;
    const cfx__symbol *s = cfx__rerun_data_symbol((cfx__rerun *)r);
    return s ? s->size.at[run->k] : -1;
}

/* What a part is of a size that depends on data may depend on data as well. */
int64_t cfx__rerun_part_size(cfx__recorder *r, int64_t n) {
    cfx__rerun *run = (cfx__rerun *)r;
    const char *name = r->like ? cfx__sizes_cut(r->like) : NULL;
    const cfx__symbol *s = name ? cfx__worlds_find(run->worlds, name) : NULL;
    return s ? s->size.at[run->k] : n;
}

typedef struct {
    const cfx__rerun *run;
    int64_t number;
    bool found, fixed; /* as a size that varies, as one that does not */
} sought;

static void seek(cfx_node *n, void *user) {
    sought *s = user;
    cfx_value val = cfx_node_get_meta(n, "val"), one = cfx_list(val);
    cfx_value sizes = val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "shape") : one;
    bool list = sizes.tag == CFX_TAG_LIST || sizes.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(sizes)->len; i++) {
        cfx_value size = cfx_as_list(sizes)->items[i];
        int64_t now;
        s->fixed |= size.tag == CFX_TAG_INT && cfx_as_int(size) == s->number;
        s->found |= size.tag == CFX_TAG_SYM &&
                    cfx__worlds_eval(s->run->worlds, s->run->k, size, &now) && now == s->number;
    }
}

/* Where the number is both, the world does not tell: another is to be chosen. */
bool cfx__rerun_varies(cfx__recorder *r, int64_t n) {
    sought s = {(cfx__rerun *)r, n, false, false};
    if (r->like)
        cfx__node_each(r->like->args, seek, &s);
    if (s.found && s.fixed && s.run->k)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "%s: a size that varies is %lld there, and so is one that does not", r->like->name,
                 (long long)n);
    return s.found;
}

/* Whether metadata has a tensor some size of which varies. */
static bool has_symbols(cfx_value val) {
    bool tensor = val.tag == CFX_TAG_DICT, found = false;
    cfx_value all = tensor ? cfx_dict_get(cfx_as_dict(val), "shape") : val;
    bool list = all.tag == CFX_TAG_LIST || all.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(all)->len; i++) {
        cfx_value one = cfx_as_list(all)->items[i];
        found |= tensor ? one.tag == CFX_TAG_SYM : has_symbols(one);
    }
    return found;
}

/* Operators whose result only data could tell. */
static bool needs_data(const cfx_op *op) {
    return op->effects & CFX_DATA_SHAPE;
}

/* Whether a tensor is indexed by truths, and the program says how many of them hold. */
static bool is_counted(const cfx_node *n, const cfx_op *op, cfx_args a) {
    bool mask = false;
    cfx_value at = op == &cfx_op_index_Tensor && a.n == 2 ? a.v[1] : cfx_none();
    for (int64_t i = 0; at.tag == CFX_TAG_LIST && i < cfx_as_list(at)->len; i++) {
        cfx_value one = cfx_as_list(at)->items[i];
        mask |= one.tag == CFX_TAG_TENSOR && cfx_as_tensor(one)->dtype == CFX_BOOL;
    }
    cfx_value val = mask ? results_of(n) : cfx_none();
    return !cfx_is_none(val) && !has_symbols(val);
}

static cfx_value run_item(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    cfx_node copy = *n;
    copy.target = cfx_graph_target(run->recorder.graph, "aten._local_scalar_dense.default");
    copy.name = "_local_scalar_dense";
    return cfx__rerun_copied(run, &copy, a);
}

/* Whether n, a truth about sizes, stays one: it is asserted, or chooses a branch where nobody knows
 * it. */
static bool is_choice(const cfx_node *n) {
    bool known = cfx_node_get_meta(n, "val").tag == CFX_TAG_BOOL;
    cfx_each_user(n, u) {
        bool negated = !strcmp(u->user->target.name, "torch.sym_not") && is_choice(u->user);
        if (negated || u->user->target.op == &cfx_op__assert_scalar ||
            (!known && cfx_node_higher_order(u->user)))
            return true;
    }
    return false;
}

/* Whether n is a size that data decides, and that the program asserts to be a number, or another
 * size: what is noted of the tensor does not say that it is one of its own. */
static bool is_asserted_size(const cfx_node *n, const cfx_op *op) {
    cfx_value val = cfx_node_get_meta(n, "val"), of = cfx_at(n->args, 0);
    if (op != &cfx_op_sym_size_int || of.tag != CFX_TAG_NODE)
        return false;
    cfx_result r = cfx_node_result(cfx_as_node(of));
    int64_t dim = cfx_integer(cfx_at(n->args, 1));
    bool own = val.tag == CFX_TAG_SYM && r.kind == CFX_RESULT_TENSOR && dim >= 0 && dim < r.ndim &&
               cfx_equal_values(cfx_result_size(&r, (int)dim), val);
    cfx_each_user(n, u) if (!own && is_truth(u->user) && is_choice(u->user)) return true;
    return false;
}

/* A view that the program takes of what wants a gradient wants one too, which matmul asks about;
 * those that decompositions take, and all else that is computed, want none. */
static cfx_value marked_view(cfx_op *op, cfx_args a, cfx_value made) {
    const bool wants = a.n && a.v[0].tag == CFX_TAG_TENSOR &&
                       (cfx_as_tensor(a.v[0])->head.flags & CFX__GRAD);
    if (wants && made.tag == CFX_TAG_TENSOR && op->grad != cfx__op_grad_none &&
        (op->view || cfx__op_shares(op, 0)))
        cfx_as_tensor(made)->head.flags |= CFX__GRAD;
    return made;
}

static cfx_value run_call(cfx__rerun *run, const cfx_node *n) {
    cfx_value args = cfx__rerun_filled(run, n->args), kwargs = cfx__rerun_filled(run, n->kwargs);
    if (cfx_is_bad(args) || cfx_is_bad(kwargs))
        return cfx_bad();
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  cfx_as_dict(kwargs)->len ? cfx_as_dict(kwargs) : NULL};
    cfx_op *op = n->target.op && !n->target.fn ? n->target.op : NULL;
    if (cfx_node_is_getitem(n) && a.n == 2 &&
        (a.v[0].tag == CFX_TAG_LIST || a.v[0].tag == CFX_TAG_TUPLE))
        return cfx_at(a.v[0], cfx_integer(a.v[1]));
    if (cfx_node_higher_order(n))
        return cfx__rerun_higher(run, n, a);
    if (op && !strcmp(cfx_op_name(op), "aten.item.default"))
        return run_item(run, n, a);
    if ((!op && is_truth(n) && is_choice(n)) || is_asserted_size(n, op))
        return cfx__rerun_copied(run, n, a);
    if ((op && (needs_data(op) || is_counted(n, op, a))) || (!op && !n->target.fn) ||
        ((!op || (op->effects & CFX_SIDE)) && has_unknown(n, a)))
        return cfx__rerun_copied(run, n, a);
    if (op && (op->effects & CFX_STORAGE || op == &cfx_op_view_dtype) && a.n &&
        a.v[0].tag == CFX_TAG_TENSOR)
        cfx__rerun_lay(run, cfx_as_tensor(a.v[0]));
    if (op && cfx_ok()) {
        cfx_op *own = cfx__rerun_is_no_view(run, n, op, a) ? &cfx_op_reshape : op;
        return marked_view(own, a, cfx_op_do_from((cfx_site){0}, own, a));
    }
    return cfx_ok() ? cfx_py_from((cfx_site){0}, n->target.name, a) : cfx_bad();
}

static cfx_value run_node(cfx__rerun *run, const cfx_node *n) {
    switch (n->op) {
    case CFX_PLACEHOLDER: return run_placeholder(run, n);
    case CFX_GET_ATTR: return run_get_attr(run, n);
    case CFX_CALL_FUNCTION: return run_call(run, n);
    default:
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
                 "a program of %s nodes has no ATen form: export it first", cfx_opcode_name(n->op));
        return cfx_bad();
    }
}

/* Whether a result has the sizes that the program notes for it. Where it has not, the program is
 * not made for the sizes of this world. */
static bool fits(const cfx__rerun *run, cfx_value val, cfx_value v) {
    cfx_value shape =
        val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "shape") : cfx_none();
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    int64_t now;
    if (v.tag == CFX_TAG_INT && val.tag == CFX_TAG_SYM)
        return !cfx__worlds_eval(run->worlds, run->k, val, &now) || now == cfx_integer(v);
    bool noted = t && (shape.tag == CFX_TAG_TUPLE || shape.tag == CFX_TAG_LIST) &&
                 cfx_as_list(shape)->len == t->ndim;
    for (int i = 0; noted && i < t->ndim; i++)
        if (cfx__worlds_eval(run->worlds, run->k, cfx_as_list(shape)->items[i], &now) &&
            now != t->shape[i])
            return false;
    return true;
}

bool cfx__rerun_node(cfx__rerun *run, cfx_node *n) {
    size_t mark = cfx_scope_open();
    run->recorder.like = n;
    run->sizes_used = 0;
    cfx_value v = run_node(run, n);
    if (cfx_ok())
        v = cfx__rerun_laid(run, n, v);
    if (cfx_ok() && run->k && !fits(run, cfx_node_get_meta(n, "val"), v))
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "%s has other sizes there than the program notes for it", n->name);
    if (cfx_ok() && !cfx_is_bad(v))
        cfx__rerun_set(run, n, v);
    cfx_scope_close(mark);
    if (!cfx_ok())
        cfx__run_note(n);
    return cfx_ok();
}

/* ---- the whole graph ------------------------------------------------------------------------- */

static bool run_placeholders(cfx__rerun *run) {
    VEC(cfx_node *) all = {0};
    bool fine = true;
    cfx_each_node(run->from->graph, n)
        if (n->op == CFX_PLACEHOLDER)
            VEC_PUSH(all, n);
    for (size_t i = 0; i < all.len && fine; i++)
        fine = cfx__rerun_node(run, all.data[run->order ? run->order[i] : (int)i]);
    for (size_t i = 0; i < all.len && fine; i++) {
        cfx_value v = run->values[cfx__node_of(all.data[i])->id];
        VEC_PUSH(run->inputs, v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL);
    }
    VEC_FREE(all);
    return fine;
}

/* What a graph writes to is a result of the program where it is one of its inputs, and would be
 * lost otherwise: that is refused, as PyTorch does. */
static bool loses_writes(const cfx__rerun *run) {
    bool sub = !is_top(run);
    cfx_each_node(run->from->graph, n) {
        cfx_value v = run->values[cfx__node_of(n)->id];
        bool attr = n->op == CFX_GET_ATTR, held = attr || (sub && n->op == CFX_PLACEHOLDER);
        if (!held || v.tag != CFX_TAG_TENSOR || !cfx__recorded_written(cfx_as_tensor(v)))
            continue;
        const char *what = !attr ? "a sub-graph writes to %s, which it is given, and there is no "
                                   "form of it without writes"
                           : sub ? "a sub-graph writes to its attribute %s, and there is no form "
                                   "of it without writes"
                                 : "%s is written to and is no input, and there is no form of "
                                   "that without writes";
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, what, attr ? n->target.name : n->name);
        return true;
    }
    return false;
}

bool cfx__rerun_graph(cfx__rerun *run, cfx_value *result) {
    cfx_graph *g = run->from->graph;
    run->values = cfx__alloc0(g->made.len * sizeof *run->values);
    cfx__alias_open(&run->alias, g);
    if (!run_placeholders(run))
        return false;
    cfx_each_node(g, n) {
        if (n->op == CFX_OUTPUT)
            *result = cfx__rerun_filled(run, cfx_at(n->args, 0));
        else if (n->op != CFX_PLACEHOLDER && !cfx__rerun_node(run, n))
            return false;
    }
    return cfx_ok() && !loses_writes(run);
}

void cfx__rerun_done(cfx__rerun *run) {
    for (size_t i = 0; run->values && i < run->from->graph->made.len; i++)
        cfx_value_drop(run->values[i]);
    cfx__free(run->values);
    cfx__alias_close(&run->alias);
    VEC_FREE(run->inputs);
}
