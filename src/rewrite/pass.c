/* Calls of ATen overloads as passes look at them: arguments by name, wherever they are given. */
#include "pass.h"

cfx_op *cfx__call_op(const cfx_node *n) {
    bool known = n->op == CFX_CALL_FUNCTION && !n->target.fn && !n->target.object;
    return known && !cfx__node_of(n)->refused ? n->target.op : NULL;
}

static const cfx__schema *schema_of(const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    return info ? info->schema : NULL;
}

bool cfx__call_is(const cfx_node *n, const char *name) {
    const cfx__schema *s = schema_of(n);
    return s && !strcmp(s->ns, "aten") && !strcmp(s->name, name);
}

static int arg_number(const cfx__schema *s, const char *name) {
    for (int i = 0; s && i < s->nargs; i++)
        if (!strcmp(s->args[i].name, name))
            return i;
    return -1;
}

cfx_value cfx__call_arg(const cfx_node *n, const char *name) {
    const cfx__schema *s = schema_of(n);
    int i = arg_number(s, name);
    if (i < 0)
        return cfx_none();
    if (i < cfx_as_list(n->args)->len)
        return cfx_as_list(n->args)->items[i];
    const cfx_value *given = cfx_dict_find(cfx_as_dict(n->kwargs), cfx_string_value(name));
    return given ? *given : s->args[i].fallback;
}

cfx_node *cfx__call_node(const cfx_node *n, const char *name) {
    cfx_value v = cfx__call_arg(n, name);
    return v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
}

bool cfx__call_convolves(const cfx_node *n) {
    const cfx_op *op = cfx__call_op(n);
    return op && op->layer.weight && !op->layer.product && op->layer.axis == 0;
}

bool cfx__call_drops_nothing(const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    const cfx__op_info *info = op && op->effects & CFX_RANDOM ? cfx__op_info_of(op) : NULL;
    if (!info || info->form != CFX__FUNCTIONAL || info->nout != 1 ||
        arg_number(info->schema, "train") < 0)
        return false;
    cfx_value train = cfx__call_arg(n, "train"), p = cfx__call_arg(n, "p");
    return (cfx_is_number(train) && !cfx_integer(train)) ||
           (cfx_is_number(p) && p.tag != CFX_TAG_SYM && cfx_number(p) == 0);
}

bool cfx__call_set(cfx_node *n, const char *name, cfx_value v) {
    const cfx__schema *s = schema_of(n);
    int i = arg_number(s, name);
    if (i < 0)
        return false;
    if (i < cfx_as_list(n->args)->len)
        return cfx_node_set_arg(n, i, v);
    if (i == cfx_as_list(n->args)->len && i < s->npositional &&
        !cfx_dict_find(cfx_as_dict(n->kwargs), cfx_string_value(name)))
        return cfx_node_insert_arg(n, i, v);
    return cfx_node_set_kwarg(n, name, v);
}

bool cfx__call_layer_of(const cfx_node *n, cfx__call_layer *out) {
    const cfx_op *op = cfx__call_op(n);
    const cfx__schema *s = schema_of(n);
    if (!op || !s || !op->layer.weight)
        return false;
    const cfx_op_layer *l = &op->layer;
    *out = (cfx__call_layer){s->args[l->input].name, s->args[l->weight].name,
                             l->bias < 0 ? NULL : s->args[l->bias].name, l->axis, l->product};
    cfx_value turned = cfx__call_arg(n, "transposed"), groups = cfx__call_arg(n, "groups");
    if (turned.tag == CFX_TAG_BOOL && cfx_as_bool(turned))
        out->axis = 1;
    if (!l->product && out->axis && !cfx_equal_values(groups, cfx_int(1)))
        out->axis = -1;
    return true;
}

cfx_node *cfx__call_new(cfx_node *at, const cfx_node *like, const char *op, cfx_value args,
                        cfx_value kwargs) {
    cfx_op *found = cfx_op_find(op);
    cfx_target target = {.op = found, .name = found ? cfx_op_name(found) : op};
    const char *name = strchr(op, '.') ? strchr(op, '.') + 1 : op;
    cfx_node *made = NULL;
    size_t mark = cfx_scope_open();
    CFX_INSERT_BEFORE(at->graph, at)
        made = cfx_graph_create(at->graph, CFX_CALL_FUNCTION, target, args, kwargs,
                                cfx__string_new(name, strcspn(name, "."))->text, NULL);
    if (like)
        cfx__node_set_origin(made, like);
    cfx_scope_close(mark);
    return made;
}

void cfx__loosen_views(cfx_node *n) {
    cfx_op *reshape = cfx_op_find("aten.reshape.default"), *view = cfx_op_find("aten.view.default");
    cfx_each_user(n, u) {
        if (cfx__call_op(u->user) == view)
            cfx_node_set_target(u->user,
                                (cfx_target){.op = reshape, .name = cfx_op_name(reshape)});
        else if (cfx__node_aliased(u->user) == n)
            cfx__loosen_views(u->user);
    }
}

/* ---- options and graphs ---------------------------------------------------------------------- */

const char *cfx__pass_text(const cfx_dict *options, const char *name) {
    const char *text = cfx_text(cfx_dict_get(options, name));
    return text ? text : "";
}

bool cfx__pass_keeps(const char *keep, const cfx_node *n) {
    for (const char *at = keep; *at; at += strspn(at, "+")) {
        size_t len = strcspn(at, "+");
        size_t mark = cfx_scope_open();
        bool kept = cfx__run_selects(cfx__string_new(at, len)->text, n);
        cfx_scope_close(mark);
        if (kept)
            return true;
        at += len;
    }
    return false;
}

int64_t cfx__pass_int(const cfx_dict *options, const char *name) {
    const char *text = cfx__pass_text(options, name);
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "option %s wants a number, not '%s'", name, text);
    return n;
}

double cfx__pass_float(const cfx_dict *options, const char *name) {
    const char *text = cfx__pass_text(options, name);
    char *end;
    double x = cfx__number_read(text, &end);
    if (end == text || *end)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "option %s wants a number, not '%s'", name, text);
    return x;
}

cfx_value cfx__pass_nodes(const cfx_program *p, const cfx_dict *options, bool floats) {
    const char *selector = cfx__pass_text(options, "nodes");
    cfx_value chosen = cfx_list_value(0, NULL);
    cfx_each_node(p->module->graph, n) {
        cfx_result r = cfx_node_result(n);
        bool fits = n->op == CFX_CALL_FUNCTION && r.kind == CFX_RESULT_TENSOR &&
                    (!floats || cfx__dtype_is_float(r.dtype) || cfx__dtype_is_complex(r.dtype));
        if (fits && cfx__run_selects(selector, n))
            cfx_list_append(cfx_as_list(chosen), cfx_node_value(n));
    }
    if (!cfx_as_list(chosen)->len && strcmp(selector, "*"))
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node that gives %s fits '%s'",
                 floats ? "floats" : "a tensor", selector);
    return chosen;
}

typedef struct walk {
    cfx_program *program;
    const cfx_dict *options;
    cfx__graph_fn *fn;
    int sum;
} walk;

static void visit(const char *path, cfx_module *m, void *user) {
    walk *w = user;
    (void)path;
    if (m->graph && cfx_ok())
        w->sum += w->fn(w->program, m, w->options);
}

/* ---- nodes that others take the place of ----------------------------------------------------- */

void cfx__forward_open(cfx__forward *f, const cfx_graph *g) {
    *f = (cfx__forward){.len = g->made.len};
    f->with = cfx__alloc0((f->len + 1) * sizeof *f->with);
}

static cfx_value stands_for(cfx_node *n, void *user) {
    const cfx__forward *f = user;
    const uint32_t id = cfx__node_of(n)->id;
    return cfx_node_value(id < f->len && f->with[id] ? f->with[id] : n);
}

void cfx__forward_visit(cfx__forward *f, cfx_node *n) {
    if (f->gone.len)
        cfx__node_replace_inputs(n, stands_for, f);
}

void cfx__forward_to(cfx__forward *f, cfx_node *n, cfx_node *with) {
    f->with[cfx__node_of(n)->id] = with;
    VEC_PUSH(f->gone, n);
}

int cfx__forward_close(cfx__forward *f) {
    int erased = 0;
    for (size_t i = f->gone.len; i-- > 0;)
        erased += cfx_graph_erase(f->gone.data[i]);
    VEC_FREE(f->gone);
    cfx__free(f->with);
    return erased;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

int cfx__pass_graphs(cfx_program *p, const cfx_dict *options, cfx__graph_fn *fn) {
    walk w = {p, options, fn, 0};
    cfx_module_walk(p->module, visit, &w);
    return w.sum;
}
