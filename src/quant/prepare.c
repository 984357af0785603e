/* Preparing: an observer wherever a number will be quantized, where torch.ao's prepare_fx puts it.
 *
 * Each node has a plan: the pattern it belongs to, what its input and output are observed with.
 * Then the nodes are gone through once, and observers put before and behind them. */
#include "../base/given.h"
#include "fx.h"

/* What is known of a node of the traced graph. */
typedef struct plan {
    const cfx__quant_row *row; /* of its pattern; NULL: in none */
    cfx_node *root, *last;     /* the first and last node of the pattern */
    const cfx_qconfig *q;
    cfx_observer input, output, weight; /* kind CFX_NO_OBSERVER: not a tensor of floats */
    bool shares, reuses;                /* the output is observed with the input */
} plan;

typedef struct prepare {
    cfx_site at;
    cfx_module *gm;
    cfx_graph *graph;
    const cfx_qconfig_mapping *mapping;
    cfx__map plans; /* by name of node */
    VEC(plan *) all;
} prepare;

static const cfx_observer in_float = {.kind = CFX_PLACEHOLDER_OBSERVER, .dtype = CFX_F32};

static plan *plan_of(prepare *p, const cfx_node *n) { return cfx__map_get(&p->plans, n->name); }

static cfx_dtype dtype_of(const cfx_observer *o) { return cfx__observer_whole(*o).dtype; }

static bool is_observer_node(prepare *p, const cfx_node *n) {
    return n->op == CFX_CALL_MODULE &&
           cfx_module_is_observer(cfx_module_find(p->gm, n->target.name));
}

/* ---- qconfigs -------------------------------------------------------------------------------- */

static const char *type_at(prepare *p, const char *path) {
    const cfx_module *m = cfx_module_find(p->gm, path);
    return m ? m->type : p->gm->type;
}

/* What a module of two is called by in mappings: what is said of its parts. PyTorch's error where
 * they differ. */
static const char *fused_type(prepare *p, cfx_module *m) {
    if (cfx__quant_inner(m) == m)
        return m->type;
    bool first_said, second_said;
    const cfx_qconfig *a =
        cfx__qconfig_of_type(p->mapping, cfx_module_child(m, 0)->type, &first_said);
    const cfx_qconfig *b =
        cfx__qconfig_of_type(p->mapping, cfx_module_child(m, 1)->type, &second_said);
    bool same = first_said == second_said && !a == !b &&
                (!a || (cfx__observer_equal(&a->activation, &b->activation) &&
                        cfx__observer_equal(&a->weight, &b->weight)));
    if (!same)
        cfx_fail(CFX_RUNTIME_ERROR, p->at,
                 "During fusion, we need to specify the same qconfigs for all module types in %s "
                 "offending type: %s",
                 m->type, cfx_module_child(m, 1)->type);
    return first_said ? cfx_module_child(m, 0)->type : m->type;
}

/* The module that a call stands in, and what it calls, as rules about places name them. */
static const char *place_of(prepare *p, const cfx_node *n, const char **type) {
    const char *path = cfx__quant_scope(n), *dot = strrchr(path, '.');
    *type = n->target.name;
    if (n->op != CFX_CALL_MODULE)
        return path;
    cfx_module *m = cfx_module_find(p->gm, n->target.name);
    *type = m ? cfx__quant_inner(m)->type : "";
    return dot ? cfx__text_format("%.*s", (int)(dot - path), path) : "";
}

/* What is said of n by its place: it is the call of its type of some number in its module. */
static const cfx_qconfig *by_place(prepare *p, const cfx_node *n, bool *said) {
    const char *type, *path = place_of(p, n, &type), *other;
    int index = 0;
    *said = false;
    if (n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_MODULE)
        return NULL;
    for (const cfx_node *k = cfx_node_before(n); k; k = cfx_node_before(k))
        index += k->op == n->op && !strcmp(place_of(p, k, &other), path) && !strcmp(other, type);
    return cfx__qconfig_of_call(p->mapping, path, type, index, said);
}

static const cfx_qconfig *qconfig_of(prepare *p, cfx_node *n) {
    const char *path = cfx__quant_scope(n);
    bool placed;
    const cfx_qconfig *there = by_place(p, n, &placed);
    if (placed)
        return there;
    switch (n->op) {
    case CFX_CALL_MODULE:
        return cfx__qconfig_of(p->mapping, fused_type(p, cfx_module_find(p->gm, path)), path);
    case CFX_CALL_FUNCTION: {
        bool said;
        const cfx_qconfig *by_function = cfx__qconfig_of_type(p->mapping, n->target.name, &said);
        if (said)
            return cfx__qconfig_or(p->mapping, type_at(p, path), path, by_function);
        return cfx__qconfig_of(p->mapping, type_at(p, path), path);
    }
    case CFX_CALL_METHOD: {
        const cfx_qconfig *q = cfx__qconfig_of(p->mapping, n->target.name, path);
        return cfx__qconfig_or(p->mapping, type_at(p, path), path, q);
    }
    case CFX_GET_ATTR: {
        const char *dot = strrchr(n->target.name, '.');
        path = dot ? cfx__text_format("%.*s", (int)(dot - n->target.name), n->target.name) : "";
        return cfx__qconfig_of(p->mapping, type_at(p, path), path);
    }
    default:
        return NULL;
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* Finds the patterns, from the end of the graph on; a node is in one at most. */
static void match(prepare *p) {
    for (cfx_node *n = cfx_graph_last(p->graph); n; n = cfx_node_before(n)) {
        plan *at = plan_of(p, n);
        if (at->row)
            continue;
        int relu = cfx__quant_relu(p->gm, n);
        cfx_node *before = relu && cfx__quant_count(n) == 1 ? cfx__quant_arg(n, 0) : NULL;
        const cfx__quant_row *row =
            before && before->num_users == 1 ? cfx__quant_row_of(p->gm, before) : NULL;
        if (row && (row->relus & relu) && !plan_of(p, before)->row) {
            plan *first = plan_of(p, before);
            at->row = first->row = row;
            at->root = first->root = before;
            at->last = first->last = n;
        } else if ((row = cfx__quant_row_of(p->gm, n))) {
            at->row = row;
            at->root = at->last = n;
        }
    }
}

/* Whether nothing that goes into n is a tensor: sizes, and what is computed of them. */
static bool no_tensors(const cfx_node *n);

static bool holds_tensor(cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return !no_tensors(cfx_as_node(v));
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (holds_tensor(cfx_as_list(v)->items[i]))
                return true;
    return false;
}

static bool no_tensors(const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER || n->op == CFX_GET_ATTR || n->op == CFX_CALL_MODULE)
        return false;
    if (n->op == CFX_CALL_METHOD && !strcmp(n->target.name, "size"))
        return true;
    if (n->op == CFX_CALL_FUNCTION && !strcmp(n->target.name, "getattr") &&
        cfx__quant_count(n) > 1) {
        const char *name = cfx_text(cfx_at(n->args, 1));
        return name && (!strcmp(name, "shape") || !strcmp(name, "ndim"));
    }
    return !holds_tensor(n->args);
}

static int tensor_operands(const cfx_node *n) {
    int count = 0;
    for (int64_t i = 0; i < 2 && i < cfx__quant_count(n); i++)
        count += cfx__quant_arg(n, i) != NULL;
    return count;
}

static void set_targets(plan *at, const cfx_node *n) {
    at->input = at->output = at->weight = in_float;
    if (!at->row || !at->q)
        return;
    if (no_tensors(n)) {
        at->input = at->output = (cfx_observer){0};
        return;
    }
    at->input = at->output = at->q->activation;
    at->weight = at->q->weight;
    at->shares = at->row->observes == CFX__OBSERVES_SHARED ||
                 (at->row->observes == CFX__OBSERVES_TENSORS && tensor_operands(at->root) == 1);
    at->reuses = at->q->activation.kind == CFX_REUSE_INPUT_OBSERVER;
}

/* Arguments that are sizes and not to be observed: all but the first of these methods. */
static void note_sizes(prepare *p, const cfx_node *n) {
    static const char *const sized[] = {"permute",         "repeat",         "reshape", "transpose",
                                        "unsqueeze",       "unsqueeze_",     "view",    "size",
                                        "torch.transpose", "torch.unsqueeze"};
    bool is_sized = false;
    for (int i = 0; i < COUNT(sized); i++)
        is_sized |= (n->op == CFX_CALL_METHOD || n->op == CFX_CALL_FUNCTION) &&
                    !strcmp(n->target.name, sized[i]);
    for (int64_t i = 1; is_sized && i < cfx__quant_count(n); i++) {
        cfx_node *arg = cfx__quant_arg(n, i);
        if (arg)
            plan_of(p, arg)->input = plan_of(p, arg)->output = (cfx_observer){0};
    }
}

/* ---- what the backend can do ----------------------------------------------------------------- */

/* The kinds of row->can, as dtypes: of the input, the output and the weight. */
static const struct config {
    int bit;
    cfx_dtype input, output, weight;
    bool dynamic;
    double scale;
    int zero_point;
} configs[] = {
    {CFX__Q_WEIGHTED, CFX_QU8, CFX_QU8, CFX_QI8, false, 0, 0},
    {CFX__Q_PLAIN, CFX_QU8, CFX_QU8, CFX_DTYPE_END, false, 0, 0},
    {CFX__Q_DYNAMIC, CFX_QU8, CFX_F32, CFX_QI8, true, 0, 0},
    {CFX__Q_NORM, CFX_QU8, CFX_QU8, CFX_F32, false, 0, 0},
    {CFX__Q_EMBED, CFX_F32, CFX_F32, CFX_QU8, false, 0, 0},
    {CFX__Q_UNIT, CFX_QU8, CFX_QU8, CFX_DTYPE_END, false, 1.0 / 256, 0},
    {CFX__Q_SIGNED, CFX_QU8, CFX_QU8, CFX_DTYPE_END, false, 2.0 / 256, 128},
    {CFX__Q_HALF, CFX_F16, CFX_F32, CFX_F16, true, 0, 0},
};

static bool is_fixed_as(const cfx_observer *o, const struct config *c) {
    return c->scale == 0 || (o->kind == CFX_FIXED_QPARAMS_OBSERVER && o->scale == c->scale &&
                             o->zero_point == c->zero_point);
}

static bool takes_input(const plan *at, const struct config *c) {
    const cfx_observer *in = &at->input;
    return in->kind != CFX_NO_OBSERVER && dtype_of(in) == c->input && in->dynamic == c->dynamic &&
           is_fixed_as(in, c);
}

static bool takes_output(const plan *last, const struct config *c) {
    const cfx_observer *out = &last->output;
    cfx_dtype d = out->kind == CFX_NO_OBSERVER ? CFX_DTYPE_END
                  : out->dynamic               ? CFX_F32
                                               : dtype_of(out);
    return d == c->output && is_fixed_as(out, c);
}

static bool takes_weight(const plan *at, const struct config *c) {
    return c->weight == CFX_DTYPE_END || dtype_of(&at->weight) == c->weight;
}

static bool is_supported(prepare *p, const plan *at) {
    if (!at->row)
        return true;
    const plan *root = plan_of(p, at->root), *last = plan_of(p, at->last);
    for (int i = 0; i < COUNT(configs); i++) {
        const struct config *c = &configs[i];
        bool weighted = at->row->weight && at->row->weight < cfx__quant_count(at->root) &&
                        cfx__quant_arg(at->root, at->row->weight);
        if ((at->row->can & c->bit) && takes_input(root, c) && takes_output(last, c) &&
            (!weighted || takes_weight(root, c)))
            return true;
    }
    return false;
}

static void make_plans(prepare *p) {
    cfx_each_node(p->graph, n) {
        plan *at = cfx__alloc0(sizeof *at);
        VEC_PUSH(p->all, at);
        cfx__map_set(&p->plans, n->name, at);
    }
    match(p);
    cfx_each_node(p->graph, n) plan_of(p, n)->q = qconfig_of(p, n);
    cfx_each_node(p->graph, n) set_targets(plan_of(p, n), n);
    cfx_each_node(p->graph, n) note_sizes(p, n);
    cfx_each_node(p->graph, n) {
        plan *at = plan_of(p, n);
        if (at->row && at->q && at->last == n && !is_supported(p, at)) {
            plan *root = plan_of(p, at->root);
            at->input = at->output = at->weight = in_float;
            root->input = root->output = root->weight = in_float;
        }
    }
}

/* ---- observers ------------------------------------------------------------------------------- */

static cfx_node *insert_observer(prepare *p, cfx_node *n, const cfx_observer *how) {
    cfx_module *m = cfx_observer_new_from(p->at, *how);
    if (cfx_failed(m))
        return n;
    m->training = p->gm->training;
    if (cfx_module_find(m, "activation_post_process"))
        cfx_module_train(m, p->gm->training);
    const char *name = cfx__quant_new_name(p->gm, "activation_post_process_");
    cfx_nn_add(p->gm, name, m);
    cfx_node *made = NULL;
    CFX_INSERT_AFTER(p->graph, n)
    made = cfx_graph_call_module(p->graph, name, cfx_tuple(cfx_node_value(n)), CFX_NONE);
    return made;
}

/* The dtype that a node has in the quantized program; float where nobody says. */
static cfx_dtype output_dtype(prepare *p, cfx_node *n) {
    if (is_observer_node(p, n))
        n = cfx__quant_arg(n, 0);
    const plan *at = plan_of(p, n);
    if (!at)
        return CFX_F32;
    return at->output.kind == CFX_NO_OBSERVER ? CFX_DTYPE_END : dtype_of(&at->output);
}

/* An observer of the same type and dtype that n has already. */
static cfx_node *existing(prepare *p, cfx_node *n, const cfx_observer *how) {
    cfx_observer want = cfx__observer_whole(*how);
    cfx_each_user(n, u) {
        if (!is_observer_node(p, u->user))
            continue;
        cfx_observer have = cfx_observer_how(cfx_module_find(p->gm, u->user->target.name));
        if (have.kind == want.kind && have.dtype == want.dtype && have.fake == want.fake)
            return u->user;
    }
    return NULL;
}

static cfx_value observed_input(prepare *p, cfx_node *n, cfx_value v, bool first);

/* Whether arg is the argument of n at that place, or by that name. */
static bool is_argument(const cfx_node *n, const cfx_node *arg, int place, const char *name) {
    cfx_value v = cfx_dict_get(cfx_as_dict(n->kwargs), name);
    return (place && cfx__quant_arg(n, place) == arg) ||
           (v.tag == CFX_TAG_NODE && cfx_as_node(v) == arg);
}

static cfx_value observed_node(prepare *p, cfx_node *n, cfx_node *arg, bool first) {
    const plan *at = plan_of(p, n);
    bool weight = is_argument(n, arg, at->row->weight, "weight");
    bool bias = is_argument(n, arg, at->row->bias, "bias");
    const cfx_observer *how = weight ? &at->weight : bias ? &in_float : &at->input;
    if (how->kind == CFX_NO_OBSERVER)
        return cfx_node_value(arg);
    cfx_dtype want = dtype_of(how), have = output_dtype(p, arg);
    bool quantized = cfx__dtype_is_quantized(want) || want == CFX_F16;
    bool needed = how->dynamic            ? first
                  : at->reuses            ? false
                  : have == CFX_DTYPE_END ? false
                                          : quantized && want != have;
    if (weight && at->row->weight > 1) /* of a normalisation: stays in float */
        needed = false;
    if (!needed)
        return cfx_node_value(arg);
    cfx_node *made = existing(p, arg, how);
    return cfx_node_value(made ? made : insert_observer(p, arg, how));
}

static cfx_value observed_input(prepare *p, cfx_node *n, cfx_value v, bool first) {
    if (v.tag == CFX_TAG_NODE)
        return observed_node(p, n, cfx_as_node(v), first);
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), observed_input(p, n, cfx_as_list(v)->items[i], false));
    return v.tag == CFX_TAG_LIST
               ? list
               : cfx_tuple_value(cfx_as_list(list)->len, cfx_as_list(list)->items);
}

static void observe_inputs(prepare *p, cfx_node *n) {
    cfx_value args = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx__quant_count(n); i++)
        cfx_list_append(cfx_as_list(args),
                        observed_input(p, n, cfx_as_list(n->args)->items[i], i == 0));
    cfx_node_set_args(n, cfx_tuple_value(cfx_as_list(args)->len, cfx_as_list(args)->items));
    cfx_dict *old = cfx_as_dict(n->kwargs), *kwargs = cfx_dict_new();
    for (int64_t i = 0; i < old->len; i++)
        cfx_dict_put(kwargs, old->entries[i].key,
                     observed_input(p, n, old->entries[i].value, false));
    cfx_node_set_kwargs(n, cfx_dict_value(kwargs));
}

/* The observer that what goes into v went through last, or NULL. */
static cfx_node *observer_before(prepare *p, cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        v = cfx_as_list(v)->len ? cfx_as_list(v)->items[0] : cfx_none();
    cfx_node *n = v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
    while (n && !is_observer_node(p, n)) {
        if (n->op == CFX_PLACEHOLDER)
            return NULL;
        n = n->inputs ? n->inputs->node : NULL;
    }
    return n;
}

static cfx_value first_tensor(const cfx_node *n) {
    for (int64_t i = 0; i < cfx__quant_count(n); i++) {
        cfx_value v = cfx_as_list(n->args)->items[i];
        if (v.tag == CFX_TAG_NODE || v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
            return v;
    }
    return cfx_none();
}

/* Inputs and output of n use the observer of the first input. False where that has none. */
static bool share(prepare *p, cfx_node *n, cfx_node *output) {
    cfx_value first = first_tensor(n);
    cfx_node *from = observer_before(p, first);
    if (!from)
        return false;
    cfx_module *m = cfx_module_find(p->gm, from->target.name);
    if (first.tag != CFX_TAG_NODE)
        for (int64_t i = 1; i < cfx_as_list(first)->len; i++) {
            cfx_node *other = observer_before(p, cfx_as_list(first)->items[i]);
            if (!other)
                return false;
            cfx__quant_swap(p->gm, other->target.name, m);
        }
    cfx__quant_swap(p->gm, output->target.name, m);
    return true;
}

static void observe_output(prepare *p, cfx_node *n) {
    const plan *at = plan_of(p, n);
    if (at->output.kind == CFX_NO_OBSERVER || at->output.dynamic ||
        !cfx__dtype_is_quantized(dtype_of(&at->output)))
        return;
    cfx_value users = cfx_node_users(n);
    cfx_node *made = insert_observer(p, n, &at->output);
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++)
        cfx_node_replace_input(cfx_as_node(cfx_as_list(users)->items[i]), n, made);
    if ((at->shares || at->reuses) && !share(p, n, made)) {
        cfx_node_replace(made, n);
        cfx_graph_erase(made);
    }
}

static void observe(prepare *p) {
    VEC(cfx_node *) nodes = {0};
    cfx_each_node(p->graph, n) VEC_PUSH(nodes, n);
    for (size_t i = 0; i < nodes.len && cfx_ok(); i++) {
        cfx_node *n = nodes.data[i];
        plan *at = plan_of(p, n);
        bool done = at->row && at->q && is_supported(p, at);
        cfx__quant_note(n, at->q, done);
        if (!done)
            continue;
        if (n == at->root)
            observe_inputs(p, n);
        if (n == at->last)
            observe_output(p, n);
    }
    VEC_FREE(nodes);
}

cfx_module *cfx_prepare_fx_from(cfx_site at, cfx_module *model,
                                const cfx_qconfig_mapping *mapping) {
    if (!cfx__given(at, model, "module") || !cfx__given(at, mapping, "qconfig mapping"))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    bool training = cfx__qconfig_trains(mapping);
    cfx_module *gm = cfx__quant_traced(model);
    if (cfx_failed(gm) || !cfx__quant_fuse(at, gm, training))
        return cfx_scope_return(mark, &cfx__module_bad);
    gm = cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL);
    prepare p = {.at = at, .gm = gm, .graph = gm->graph, .mapping = mapping};
    make_plans(&p);
    observe(&p);
    if (training)
        cfx__quant_train(at, gm);
    for (size_t i = 0; i < p.all.len; i++)
        cfx__free(p.all.data[i]);
    VEC_FREE(p.all);
    cfx__map_release(&p.plans);
    gm = cfx_ok() ? cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL) : &cfx__module_bad;
    if (!cfx_failed(gm))
        cfx_module_set_attr(gm, "_observed", cfx_bool(true));
    return cfx_scope_return(mark, gm);
}
