/* Higher-order operators of a graph that is run again: their sub-graphs are run again as well.
 * Start at cfx__rerun_higher. */
#include "rewrite.h"

void cfx__rerun_child_open(cfx__rerun *sub, const cfx__rerun *run, cfx_module *from) {
    *sub = *run;
    sub->operands = cfx_none();
    sub->placed = 0;
    memset(&sub->inputs, 0, sizeof sub->inputs);
    sub->recorder.graph = cfx_graph_new();
    sub->recorder.log = NULL;
    sub->recorder.inside = false;
    sub->order = NULL;
    sub->values = NULL;
    sub->alias = (cfx__alias){0};
    sub->from = from;
    sub->to = cfx__module_new_raw("GraphModule", NULL);
    cfx__record_begin(&sub->recorder);
}

bool cfx__rerun_child_close(cfx__rerun *sub, cfx__rerun *run, const char *name, cfx_value out) {
    cfx__record_end(&sub->recorder);
    if (!cfx_is_bad(out)) {
        cfx_graph_output(sub->recorder.graph, out);
        cfx_module *gm = cfx_graph_module(sub->to, sub->recorder.graph, sub->from->type);
        if (gm->graph)
            cfx_module_set_attr(run->to, name, cfx_module_value(gm));
    }
    cfx__rerun_done(sub);
    return cfx_ok();
}

/* A sub-graph run again in a graph of its own, and put under its name in the new module. Its
 * results are in a list where PyTorch has them so. */
static bool rerun_child(cfx__rerun *run, const char *name, cfx_module *child, bool list,
                        cfx_value operands) {
    cfx__rerun sub;
    cfx__rerun_child_open(&sub, run, child);
    sub.operands = operands;
    cfx_value result = cfx_none();
    bool fine = cfx__rerun_graph(&sub, &result);
    cfx_value out = fine ? cfx__record_arg(&sub.recorder, (cfx_site){0}, result) : cfx_bad();
    if (list && out.tag == CFX_TAG_TUPLE)
        out = cfx_list_value(cfx_len(out), cfx_as_list(out)->items);
    return cfx__rerun_child_close(&sub, run, name, out);
}

/* Regions that change a mode only are written out; sub-graphs of others stay sub-graphs. */
static bool is_region(const cfx_node *n) {
    return cfx__higher_is(n, "wrap_with_set_grad_enabled") ||
           cfx__higher_is(n, "wrap_with_autocast");
}

static bool is_scan(const cfx_node *n) {
    return cfx__higher_is(n, "scan") || cfx__higher_is(n, "associative_scan");
}

/* Files have lists only. In PyTorch all operands of branches and while loops are tuples, and what
 * scans use beside them. */
static bool is_tuple(const cfx_node *n, int i) {
    return is_scan(n) ? i == cfx_len(n->args) - 1 : !cfx__higher_is(n, "map_impl");
}

typedef struct {
    cfx__body body; /* first */
    cfx__rerun *run;
} region;

/* Around the call of the region something may write to what it is given or gives: views of that do
 * not stay whole in it either. */
static void open_alias(cfx__rerun *run, const cfx_graph *g) {
    const cfx_node *call = run->recorder.like;
    const bool written = call && cfx__alias_written(&run->alias, call);
    cfx__alias_open(&run->alias, g);
    if (written)
        cfx__alias_write_outside(&run->alias);
}

cfx_value cfx__rerun_inline(cfx__rerun *run, cfx_module *m, cfx_site at, cfx_args given) {
    cfx__rerun before = *run;
    cfx_graph *g = m->graph;
    cfx_value result = cfx_bad();
    int k = 0;
    run->from = m;
    run->values = cfx__alloc0(g->made.len * sizeof *run->values);
    open_alias(run, g);
    cfx_each_node(g, n) {
        if (n->op == CFX_PLACEHOLDER && k < given.n)
            cfx__rerun_set(run, n, given.v[k++]);
        else if (n->op == CFX_PLACEHOLDER)
            cfx_fail(CFX_RUNTIME_ERROR, at, "nothing is given for input %s of a graph", n->name);
        else if (n->op == CFX_OUTPUT)
            result = cfx__rerun_filled(run, cfx_at(n->args, 0));
        else
            cfx__rerun_node(run, n);
        if (!cfx_ok())
            break;
    }
    for (size_t i = 0; i < g->made.len; i++)
        cfx_value_drop(run->values[i]);
    cfx__free(run->values);
    cfx__alias_close(&run->alias);
    run->from = before.from;
    run->values = before.values;
    run->alias = before.alias;
    run->recorder.like = before.recorder.like;
    return cfx_ok() ? result : cfx_bad();
}

static cfx_value rerun_region(cfx__body *b, cfx_site at, cfx_args given) {
    return cfx__rerun_inline(((region *)b)->run, b->module, at, given);
}

const char *cfx__rerun_free_name(const cfx__rerun *run, const char *name) {
    const char *number = strrchr(name, '_');
    int stem = number ? (int)(number - name) : (int)strlen(name);
    for (int i = 0; cfx_module_has(run->to, name); i++)
        name = cfx__text_format("%.*s_%d", stem, name, i);
    return name;
}

/* What is noted of one row of a tensor of which `val` is noted; scope. */
static cfx_value row_of(cfx_value val) {
    cfx_result r = cfx_result_of(val);
    if (r.kind != CFX_RESULT_TENSOR || !r.ndim)
        return cfx_none();
    if (r.shape)
        return cfx_tensor_value(cfx_tensor_fake(r.dtype, r.ndim - 1, r.shape + 1, NULL));
    const cfx_dict *all = cfx_as_dict(val);
    cfx_dict *row = cfx_dict_new();
    for (int64_t i = 0; i < all->len; i++) {
        cfx_value v = all->entries[i].value; /* sizes and strides are tuples */
        if (v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len == r.ndim)
            v = cfx_tuple_value(r.ndim - 1, cfx_as_list(v)->items + 1);
        cfx_dict_put(row, all->entries[i].key, v);
    }
    return cfx_dict_value(row);
}

/* Adds what a body is given of argument i, a list: its items or, where `rows`, one row of each.
 * What changes from round to round has no value that stays. */
static void add_operands(cfx_list *to, const cfx_node *n, cfx_args a, int i, bool changes,
                         bool rows) {
    const cfx_list *nodes = cfx_as_list(cfx_as_list(n->args)->items[i]);
    for (int64_t k = 0; k < cfx_len(a.v[i]) && k < nodes->len; k++) {
        cfx_value node = nodes->items[k], v = cfx_as_list(a.v[i])->items[k];
        cfx_value val = node.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(node), "val") : v;
        cfx_list_append(to, cfx_tuple(changes ? cfx_none() : v, rows ? row_of(val) : val));
    }
}

/* What the sub-graphs of a branch or a scan are given; None for others: of their inputs it is
 * noted. */
static cfx_value operands_of(const cfx_node *n, cfx_args a) {
    cfx_value out = cfx_list_value(0, NULL);
    bool branch = cfx__higher_is(n, "cond") && a.n > 3;
    bool scan = cfx__higher_is(n, "scan") && a.n == 4;
    if (branch || scan)
        add_operands(cfx_as_list(out), n, a, branch ? 3 : 1, scan, false);
    if (scan) {
        add_operands(cfx_as_list(out), n, a, 2, true, true);
        add_operands(cfx_as_list(out), n, a, 3, false, false);
    }
    return branch || scan ? out : cfx_none();
}

/* Whether a sub-graph, or one below it, reads a storage by strides. */
static bool reads_storage(const cfx_module *m) {
    cfx_each_node(m->graph, n) {
        const cfx_module *below =
            n->op == CFX_GET_ATTR ? cfx_module_find(m, n->target.name) : NULL;
        if ((n->target.op && n->target.op->effects & CFX_STORAGE) ||
            (below && below->graph && reads_storage(below)))
            return true;
    }
    return false;
}

/* Operands as they lie in memory in the program: a sub-graph may read them by strides. */
static void lay_operands(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    bool reads = false;
    for (int i = 0; i < a.n; i++)
        reads |= a.v[i].tag == CFX_TAG_MODULE && reads_storage(cfx_as_module(a.v[i]));
    for (int i = 0; reads && i < a.n && cfx_ok(); i++) {
        const cfx_list *of = a.v[i].tag == CFX_TAG_LIST ? cfx_as_list(cfx_at(n->args, i)) : NULL;
        for (int64_t k = 0; of && k < of->len && cfx_ok(); k++) {
            cfx_value *v = &cfx_as_list(a.v[i])->items[k];
            cfx_tensor *like = of->items[k].tag == CFX_TAG_NODE && v->tag == CFX_TAG_TENSOR
                                   ? cfx__rerun_noted(run, cfx_as_node(of->items[k]))
                                   : NULL;
            cfx_tensor *t = like ? cfx__functional_laid_as(&run->recorder, cfx_as_tensor(*v), like)
                                 : NULL;
            if (!t || t == cfx_as_tensor(*v))
                continue;
            cfx_value_drop(*v);
            *v = cfx_value_keep(cfx_tensor_value(t));
        }
    }
}

static bool is_known(cfx_value v) {
    return v.tag != CFX_TAG_TENSOR || cfx__tensor_known(cfx_as_tensor(v)) != NULL;
}

/* Whether it is known already which branch is taken, or what is gone over. */
static bool is_settled(const cfx_node *n, cfx_args a) {
    return (cfx__higher_is(n, "cond") && a.n && a.v[0].tag == CFX_TAG_TENSOR &&
            is_known(a.v[0])) ||
           cfx__higher_is(n, "onnx_sequence_map");
}

static cfx_value rerun_body(cfx__body *b, cfx_site at, cfx_args given) {
    cfx_value v = rerun_region(b, at, given);
    const bool flat = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return cfx_is_bad(v) || flat ? v : cfx_tuple_value(1, &v);
}

/* What is settled, written out: the branch that is taken, or a body for each item. Control flow in
 * there stays a call where only data settles it. */
static cfx_value write_out(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    region bodies[2] = {{{.call = rerun_body}, run}, {{.call = rerun_body}, run}};
    return cfx__higher_settled((cfx_site){0}, n->target.name, a, &bodies[0].body, &bodies[1].body);
}

cfx_value cfx__rerun_higher(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    if (is_settled(n, a))
        return write_out(run, n, a);
    if (cfx__higher_is(n, "onnx_loop"))
        return cfx__rerun_onnx_loop(run, n, a);
    if (is_region(n))
        return cfx__higher_region((cfx_site){0}, cfx_node_higher_order(n), a,
                                  &(region){{.call = rerun_region}, run}.body);
    lay_operands(run, n, a);
    cfx_value args = cfx_tuple_value(0, NULL), operands = operands_of(n, a);
    for (int i = 0; i < a.n && cfx_ok(); i++) {
        cfx_value v = a.v[i];
        if (v.tag == CFX_TAG_MODULE) {
            const char *name = cfx_as_node(cfx_as_list(n->args)->items[i])->target.name;
            name = cfx__rerun_free_name(run, name);
            if (!rerun_child(run, name, cfx_as_module(v), is_scan(n), operands))
                return cfx_bad();
            cfx_node *made = cfx_graph_get_attr(run->recorder.graph, name);
            run->recorder.note(&run->recorder, (cfx_site){0}, made);
            v = cfx_node_value(made);
        } else if (v.tag == CFX_TAG_LIST && is_tuple(n, i)) {
            v = cfx_tuple_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
        }
        cfx_list_append(cfx_as_list(args), v);
    }
    if (!cfx_ok()) /* and the list may be shorter */
        return cfx_bad();
    return cfx__rerun_copied(run, n, (cfx_args){a.n, cfx_as_list(args)->items, a.kw});
}
