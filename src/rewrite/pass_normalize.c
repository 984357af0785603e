/* normalize: one spelling for each call, that of torch.export: torch.relu(x), F.relu(x) and
 * x.relu() are torch.ops.aten.relu.default(x), with arguments by position as far as the schema
 * allows, keywords for the rest, defaults left out. */
#include "match.h"
#include "pass.h"

/* ---- spelling -------------------------------------------------------------------------------- */

/* Whether a call in another spelling gives a tensor for all that is known: operators of Python's
 * may have been given numbers. */
static bool gives_tensor(const cfx_node *n, const cfx__schema *s) {
    cfx_result r = cfx_node_result(n);
    bool number = !strncmp(n->target.name, "operator.", 9) || !strncmp(n->target.name, "math.", 5);
    if (r.kind != CFX_RESULT_UNKNOWN)
        return r.kind == CFX_RESULT_TENSOR || r.kind == CFX_RESULT_SEVERAL;
    return !number && s->nrets > 0 && s->rets[0].type == CFX__T_TENSOR;
}

/* A call by another name becomes one of the overload; n where it is none. */
static cfx_node *respelled(cfx_node *n) {
    cfx_value bound[CFX_MAX_ARGS];
    bool other = n->op == CFX_CALL_METHOD ||
                 (n->op == CFX_CALL_FUNCTION && n->target.fn && !n->target.object);
    cfx_op *op = other ? cfx__call_aten(n, bound) : NULL;
    if (!cfx_ok())
        cfx__error_forgive(); /* arguments that fit no overload: it is left as it is */
    const cfx__schema *s = op ? cfx__op_info_of(op)->schema : NULL;
    if (!s || !gives_tensor(n, s))
        return n;
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *kwargs = cfx_dict_new();
    for (int i = 0; i < s->nargs; i++) {
        if (i < s->npositional)
            cfx_list_append(cfx_as_list(args), bound[i]);
        else
            cfx_dict_set(kwargs, s->args[i].name, bound[i]);
    }
    cfx_node *made = NULL;
    CFX_INSERT_BEFORE(n->graph, n)
        made = cfx_graph_create(n->graph, CFX_CALL_FUNCTION,
                                (cfx_target){.op = op, .name = cfx_op_name(op)}, args,
                                cfx_dict_value(kwargs), n->name, n->type);
    for (int64_t i = 0; n->meta && i < n->meta->len; i++)
        cfx_node_set_meta(made, cfx_text(n->meta->entries[i].key), n->meta->entries[i].value);
    const char *name = cfx__text_format("%s", n->name);
    cfx_node_replace(n, made);
    cfx_graph_erase(n);
    cfx_node_set_name(made, name);
    return made;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_default(const cfx__schema_arg *a, cfx_value v) {
    return a->has_default && v.tag == a->fallback.tag && cfx_equal_values(v, a->fallback);
}

/* The argument as it is given, or NULL. */
static const cfx_value *given(const cfx_node *n, const cfx__schema *s, int i) {
    return i < cfx_as_list(n->args)->len
               ? &cfx_as_list(n->args)->items[i]
               : cfx_dict_find(cfx_as_dict(n->kwargs), cfx_string_value(s->args[i].name));
}

static bool normalize_node(cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    const cfx__schema *s = info ? info->schema : NULL;
    if (!s || cfx_as_list(n->args)->len > s->nargs || s->varargs)
        return false;
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *kwargs = cfx_dict_new();
    int last = -1;
    for (int i = 0; i < s->npositional; i++) {
        const cfx_value *v = given(n, s, i);
        if (v && !is_default(&s->args[i], *v))
            last = i;
    }
    for (int i = 0; i <= last; i++) {
        const cfx_value *v = given(n, s, i);
        if (!v && !s->args[i].has_default)
            return false; /* which is an error when it runs */
        cfx_list_append(cfx_as_list(args), v ? *v : s->args[i].fallback);
    }
    for (int i = s->npositional; i < s->nargs; i++) {
        const cfx_value *v = given(n, s, i);
        if (v && !is_default(&s->args[i], *v))
            cfx_dict_set(kwargs, s->args[i].name, *v);
    }
    cfx_value kw = cfx_dict_value(kwargs);
    if (cfx_equal_values(args, n->args) && cfx_equal_values(kw, n->kwargs))
        return false;
    cfx_value val = cfx_node_get_meta(n, "val"); /* it computes what it did */
    cfx_node_set_args(n, args);
    cfx_node_set_kwargs(n, kw);
    if (!cfx_is_none(val))
        cfx_node_set_meta(n, "val", val);
    return true;
}

int cfx_module_normalize(cfx_module *gm) {
    if (!gm || !gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "only a GraphModule has calls to normalize");
        return -1;
    }
    int changes = 0;
    cfx_each_node(gm->graph, n) {
        size_t mark = cfx_scope_open();
        cfx_node *now = respelled(n);
        bool arguments = normalize_node(now);
        changes += now != n || arguments;
        cfx_scope_close(mark);
    }
    return cfx_ok() ? changes : -1;
}

/* ---- one node -------------------------------------------------------------------------------- */

/* Value i of a call goes where it was given, or to the keywords. */
static void sort_argument(const cfx_node *n, bool only_keywords, int64_t i, const char *name,
                          cfx_value v, cfx_value args, cfx_dict *kwargs) {
    if (!only_keywords && i < cfx_as_list(n->args)->len)
        cfx_list_append(cfx_as_list(args), v);
    else
        cfx_dict_set(kwargs, name, v);
}

static bool sort_module(const cfx_node *n, const cfx_module *root, bool only, cfx_value args,
                        cfx_dict *kwargs) {
    const cfx_module *m = root ? cfx_module_find(root, n->target.name) : NULL;
    const cfx__signature *s = m ? m->own_->signature : NULL;
    cfx_value bound[CFX_MAX_ARGS];
    cfx_args given = {(int)cfx_as_list(n->args)->len, cfx_as_list(n->args)->items,
                      cfx_as_dict(n->kwargs)};
    for (int i = 0; s && i < s->n; i++)
        if (s->params[i].kind == CFX__VAR_ARGS || s->params[i].kind == CFX__VAR_KEYWORDS)
            return false;
    if (!s || s->n > CFX_MAX_ARGS ||
        !cfx__signature_bind(s, (cfx_site){0}, m->type, true, given, bound))
        return false;
    for (int i = 0; i < s->n; i++)
        sort_argument(n, only, i, s->params[i].name, bound[i], args, kwargs);
    return true;
}

static bool sort_function(const cfx_node *n, bool only, cfx_value args, cfx_dict *kwargs) {
    cfx__call c;
    if (n->target.object || !cfx__call_of(n, &c) || c.schema->varargs)
        return false;
    for (int i = 0; i < c.schema->nargs; i++) {
        const char *name = c.schema->args[i].name;
        bool self = !i && !strcmp(name, "self"); /* which Python calls input */
        sort_argument(n, only, i, self ? "input" : name, c.args[i], args, kwargs);
    }
    return true;
}

cfx_value cfx_node_normalized_arguments(const cfx_node *n, const cfx_module *root,
                                        bool only_keywords) {
    if (!cfx__node_given(n))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *kwargs = cfx_dict_new();
    bool clean = cfx_ok();
    bool fine = n->op == CFX_CALL_MODULE ? sort_module(n, root, only_keywords, args, kwargs)
                : n->op == CFX_CALL_FUNCTION ? sort_function(n, only_keywords, args, kwargs)
                                             : false;
    if (clean && !cfx_ok())
        cfx__error_forgive(); /* arguments that do not fit */
    return cfx_scope_return_value(mark, fine ? cfx_tuple(args, cfx_dict_value(kwargs))
                                             : cfx_none());
}

/* ---- the pass -------------------------------------------------------------------------------- */

static int normalize(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    return cfx_module_normalize(m);
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, normalize);
}

const cfx_pass cfx__pass_normalize = {
    .name = "normalize",
    .summary = "spells calls one way, as overloads of ATen, gives arguments by position where the "
               "schema allows it, and leaves defaults out",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
