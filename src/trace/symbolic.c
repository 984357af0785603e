/* Symbolic tracing: a module's forward, run once on traced tensors. Start at cfx_tracer_trace. */
#include "record.h"

bool cfx_tracer_is_leaf(cfx_tracer *t, cfx_module *m, const char *path) {
    (void)t, (void)path;
    return m && m->leaf;
}

bool cfx_is_tracing(void) { return cfx__tracer_now() != NULL; }

/* ---- parameters of the root ------------------------------------------------------------------ */

/* A fixed parameter: its leaves are still placeholders, and what they are fixed to is asserted. */
typedef struct {
    cfx__tracer *tracer;
    const cfx__signature_param *param;
    int count;
} fixing;

static void assert_fixed(cfx__tracer *t, const char *name, cfx_node *n, cfx_value v) {
    if (cfx_is_none(v)) {
        const char *text = cfx__text_format(
            "%s has been specialized to have value None but got another value", name);
        cfx__tracer_node(t, (cfx_site){0}, CFX_CALL_FUNCTION,
                         cfx_graph_target(t->graph, "torch.fx._symbolic_trace._assert_is_none"),
                         CFX_ARGS(n, text));
        return;
    }
    cfx_node *eq = cfx__tracer_node(t, (cfx_site){0}, CFX_CALL_FUNCTION,
                                    cfx_graph_target(t->graph, "operator.eq"), CFX_ARGS(n, v));
    const char *text = cfx__text_format(
        "%s has been specialized to have value %s but got another value", name, cfx_value_str(v));
    cfx__tracer_node(t, (cfx_site){0}, CFX_CALL_FUNCTION,
                     cfx_graph_target(t->graph, "torch._assert"), CFX_ARGS(eq, text));
}

static cfx_value fix(fixing *f, cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), fix(f, cfx_as_list(v)->items[i]));
        return out;
    }
    if (v.tag == CFX_TAG_DICT) {
        cfx_dict *out = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(out, cfx_as_dict(v)->entries[i].key,
                         fix(f, cfx_as_dict(v)->entries[i].value));
        return cfx_dict_value(out);
    }
    const cfx__signature_param *p = f->param;
    const char *name = cfx__text_format("%s_%d", p->name, ++f->count);
    cfx_node *n =
        cfx_graph_placeholder(f->tracer->graph, name, NULL, p->has_default, p->fallback);
    if (v.tag == CFX_TAG_KEYWORD)
        cfx_node_set_meta(n, cfx_as_keyword(v)->name->text, cfx_as_keyword(v)->value);
    if (v.tag == CFX_TAG_ELLIPSIS || v.tag == CFX_TAG_KEYWORD) /* left free */
        return cfx_tensor_value(cfx__traced_tensor(n));
    if (cfx_is_none(v) || v.tag == CFX_TAG_BOOL || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT ||
        v.tag == CFX_TAG_STR)
        assert_fixed(f->tracer, p->name, n, v);
    return v;
}

static cfx_value root_argument(cfx__tracer *t, const cfx__signature_param *p) {
    static const char *const stars[] = {
        [CFX__VAR_ARGS] = "*", [CFX__VAR_KEYWORDS] = "**", [CFX__KEYWORD_ONLY] = "",
        [CFX__POSITIONAL] = ""};
    const cfx_value *fixed =
        t->config && t->config->concrete_args
            ? cfx_dict_find(t->config->concrete_args, cfx_string_value(p->name))
            : NULL;
    if (fixed)
        return fix(&(fixing){t, p, 0}, *fixed);
    const char *target = cfx__text_format("%s%s", stars[p->kind], p->name);
    return cfx_tensor_value(cfx__traced_tensor(
        cfx_graph_placeholder(t->graph, target, p->type, p->has_default, p->fallback)));
}

/* ---- tracing a module ------------------------------------------------------------------------ */

static bool is_star(const cfx__signature *s, int i) {
    return s->params[i].kind == CFX__VAR_ARGS || s->params[i].kind == CFX__VAR_KEYWORDS;
}

/* The parameter that argument k of the graph stands for: *args and **kwargs come last, as torch.fx
 * has them, behind parameters that in Python only keywords reach. */
static int placed(const cfx__signature *s, int k) {
    for (int star = 0; star < 2; star++)
        for (int i = 0; i < s->n; i++)
            if (is_star(s, i) == star && !k--)
                return i;
    return 0;
}

/* The shape of the arguments, where a concrete one is a container; None where all are plain. */
static cfx_value tree_of(const cfx__tracer *t, const cfx__signature *s) {
    cfx_value spec = cfx_tuple_value(0, NULL), plain = cfx_ellipsis();
    bool nested = false;
    for (int k = 0; k < s->n; k++) {
        const char *name = s->params[placed(s, k)].name;
        const cfx_value *fixed =
            t->config && t->config->concrete_args
                ? cfx_dict_find(t->config->concrete_args, cfx_string_value(name))
                : NULL;
        cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
        cfx_value shape = fixed ? cfx_tree_flatten(*fixed, leaves) : plain;
        nested |= shape.tag != CFX_TAG_ELLIPSIS;
        cfx_list_append(cfx_as_list(spec), shape);
    }
    return nested ? spec : cfx_none();
}

/* A graph with nested arguments gives a flat list, and says how its callers see both. */
static cfx_value flat_result(cfx__tracer *t, const cfx__signature *s, cfx_value spec,
                             cfx_value result) {
    cfx_value leaves = cfx_list_value(0, NULL), names = cfx_list_value(0, NULL);
    cfx_value shape = cfx_tree_flatten(result, cfx_as_list(leaves));
    for (int k = 0; k < s->n; k++)
        cfx_list_append(cfx_as_list(names), cfx_string_value(s->params[placed(s, k)].name));
    cfx_graph_set_tree(t->graph, names, spec, shape);
    return leaves;
}

/* Whether every concrete argument is a parameter; an error names the first that is none. */
static bool are_parameters(const cfx__tracer *t, const cfx__signature *s) {
    const cfx_dict *fixed = t->config ? t->config->concrete_args : NULL;
    for (int64_t i = 0; fixed && i < fixed->len; i++) {
        const char *name = cfx_text(fixed->entries[i].key);
        int k = 0;
        while (k < s->n && (!name || strcmp(s->params[k].name, name)))
            k++;
        if (k == s->n) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                     "concrete_args has '%s', which %s does not take",
                     cfx_value_str(fixed->entries[i].key), t->root->type);
            return false;
        }
    }
    return true;
}

static cfx_value call_root(cfx__tracer *t, const cfx__signature *s) {
    cfx_value v = cfx_bad(), *values = cfx__alloc((size_t)s->n * sizeof *values + 1);
    for (int k = 0; k < s->n; k++)
        values[placed(s, k)] = root_argument(t, &s->params[placed(s, k)]);
    if (cfx_ok())
        v = cfx__root_call(t->root, s, values);
    cfx__free(values);
    return v;
}

/* Whether torch.fx calls the function itself, whose annotations it then knows: not where it has
 * parameters that need another form of it. */
static bool is_called_plainly(const cfx__signature *s) {
    bool plain = !s->has_keyword_only;
    for (int i = 0; i < s->n; i++)
        plain &= !is_star(s, i);
    return plain;
}

static bool trace_signature(cfx__tracer *t, const cfx__signature *s) {
    cfx_value result = call_root(t, s);
    if (!cfx_ok() || cfx_is_bad(result))
        return false;
    cfx_value spec = tree_of(t, s);
    if (!cfx_is_none(spec))
        result = flat_result(t, s, spec, result);
    cfx_value out = cfx__tracer_arg(t, (cfx_site){0}, result);
    cfx_node *n = cfx_is_bad(out) ? cfx__node_bad : cfx_graph_output(t->graph, out);
    if (n->graph && s->returns && cfx_is_none(spec) && is_called_plainly(s))
        cfx_node_set_type(n, s->returns);
    return n->graph != NULL;
}

static bool trace_root(cfx__tracer *t) {
    cfx__signature *made;
    const cfx__signature *s = cfx__root_signature(t->root, &made);
    if (!s)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s has no signature that could be traced",
                 t->root->type);
    bool fine = s && are_parameters(t, s) && trace_signature(t, s);
    cfx__signature_free(made);
    return fine;
}

cfx_graph *cfx_tracer_trace(cfx_tracer *config, cfx_module *root) {
    if (!root || cfx__obj_is_bad(root)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the module to trace is %s", root ? "bad" : "NULL");
        return &cfx__graph_bad;
    }
    size_t mark = cfx_scope_open();
    cfx__tracer t = {.config = config, .graph = cfx_graph_new(), .root = root};
    if (config) {
        config->root = root;
        config->graph = t.graph;
    }
    cfx__tracer_begin(&t);
    bool fine = trace_root(&t);
    cfx__tracer_end(&t);
    if (fine)
        cfx__branch_names(t.graph, NULL);
    return cfx_scope_return(mark, fine ? t.graph : &cfx__graph_bad);
}

/* ---- values while tracing -------------------------------------------------------------------- */

cfx_value cfx_size_from(cfx_site at, cfx_tensor *t, int i) {
    return cfx_py_from(at, "Tensor.size", CFX_ARGS(t, i));
}

cfx_value cfx_method_from(cfx_site at, const char *name, cfx_args a) {
    return cfx_py_from(at, cfx__text_format("Tensor.%s", name), a);
}

bool cfx_is_true_from(cfx_site at, cfx_value v) {
    if (cfx__traced_node(v)) {
        cfx_fail(CFX_TRACE_ERROR, at,
                 "symbolically traced variables cannot be used as inputs to control flow");
        return false;
    }
    if (v.tag != CFX_TAG_BOOL && cfx__value_mark(v)) /* bool() of it: whether it is not 0 */
        v = cfx_py_from(at, "operator.ne", CFX_ARGS(v, 0));
    if (v.tag != CFX_TAG_TENSOR)
        return v.tag == CFX_TAG_STR ? cfx_as_string(v)->len > 0 : cfx_number_from(at, v) != 0;
    if (cfx_as_tensor(v)->numel == 1 && (cfx_as_tensor(v)->head.flags & CFX__FAKE)) {
        cfx_value item = cfx__recorder_now() ? cfx_py_from(at, "Tensor.item", CFX_ARGS(v))
                                             : cfx_none();
        if (cfx__value_mark(item) || cfx_is_bad(item))
            return cfx_is_true_from(at, item);
        cfx__fail_unknown(at, "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: "
                              "Eq(u0, 1)).  (Size-like symbols: none)\n\nThe number is data, which "
                              "a fake tensor has not: choose by cfx_cond, or by cfx_where, which "
                              "computes both");
        return false;
    }
    if (cfx_as_tensor(v)->numel != 1 || !cfx_as_tensor(v)->data) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 cfx_as_tensor(v)->numel == 0
                     ? "Boolean value of Tensor with no values is ambiguous"
                     : "Boolean value of Tensor with more than one value is ambiguous");
        return false;
    }
    if (!cfx__mark_may_read(at, cfx_as_tensor(v)))
        return false;
    size_t mark = cfx_scope_open();
    bool seen = cfx__dispatcher()->dispatch_modes != NULL; /* they hear of bool(tensor) as item */
    cfx_value item = seen ? cfx_py_from(at, "Tensor.item", CFX_ARGS(v))
                          : cfx__tensor_get(cfx_as_tensor(v), 0);
    bool truth = cfx_number(item) != 0;
    cfx_scope_close(mark);
    return truth;
}

bool cfx_check_from(cfx_site at, cfx_value cond, const char *message) {
    cfx_py_from(at, "torch._check", CFX_ARGS(cond, message));
    return cfx_ok();
}

int64_t cfx_len_from(cfx_site at, cfx_value v) {
    if (cfx__traced_node(v)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "'len' is not supported in symbolic tracing by default. If you want this call to "
                 "be recorded, please call torch.fx.wrap('len') at module scope");
        return -1;
    }
    switch (v.tag) {
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return cfx_as_list(v)->len;
    case CFX_TAG_DICT: return cfx_as_dict(v)->len;
    case CFX_TAG_STR: return (int64_t)cfx_as_string(v)->len;
    case CFX_TAG_TENSOR:
        if (cfx_as_tensor(v)->ndim)
            return cfx_dim_from(at, cfx_as_tensor(v), 0);
        cfx_fail(CFX_TYPE_ERROR, at, "len() of a 0-d tensor");
        return -1;
    default:
        cfx_fail(CFX_TYPE_ERROR, at, "object of type '%s' has no len()", cfx__value_python_type(v));
        return -1;
    }
}

cfx_value cfx_items_from(cfx_site at, cfx_value v) {
    if (cfx__traced_node(v)) {
        cfx_fail(CFX_TRACE_ERROR, at,
                 "Proxy object cannot be iterated. This can be attempted when the Proxy is used in "
                 "a loop or as a *args or **kwargs function argument. See the torch.fx docs on "
                 "pytorch.org for a more detailed explanation of what types of control flow can be "
                 "traced, and check out the Proxy docstring for help troubleshooting Proxy "
                 "iteration errors");
        return cfx_bad();
    }
    if (v.tag == CFX_TAG_TENSOR && !cfx_as_tensor(v)->ndim) {
        cfx_fail(CFX_TYPE_ERROR, at, "iteration over a 0-d tensor");
        return cfx_bad();
    }
    if (v.tag == CFX_TAG_TENSOR && cfx_dim_from(at, cfx_as_tensor(v), 0) >= 0)
        v = cfx_py_from(at, "torch.unbind", CFX_ARGS(v));
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        return cfx_list_value(cfx_as_list(v)->len, cfx_as_list(v)->items);
    cfx_value keys = cfx_list_value(0, NULL);
    for (int64_t i = 0; v.tag == CFX_TAG_DICT && i < cfx_as_dict(v)->len; i++)
        cfx_list_append(cfx_as_list(keys), cfx_as_dict(v)->entries[i].key);
    if (v.tag == CFX_TAG_DICT || cfx_is_bad(v))
        return v.tag == CFX_TAG_DICT ? keys : v;
    cfx_fail(CFX_TYPE_ERROR, at, "'%s' object is not iterable", cfx__value_python_type(v));
    return cfx_bad();
}

cfx_value cfx_wrap_from(cfx_site at, const char *name, cfx_opaque_fn *fn, cfx_args a) {
    if (!fn || !name) {
        cfx_fail(CFX_TYPE_ERROR, at, "a wrapped function has a name and is not NULL");
        return cfx_bad();
    }
    return cfx_wrap_object_from(at, name, cfx_function_value(fn), a);
}

cfx_value cfx_wrap_object_from(cfx_site at, const char *name, cfx_value object, cfx_args a) {
    cfx__tracer *t = cfx__tracer_now();
    if (cfx_is_bad(object) || cfx__dispatch_args_bad(at, a))
        return cfx_bad();
    if (!name || object.tag != CFX_TAG_OBJECT) {
        cfx_fail(CFX_TYPE_ERROR, at, "a wrapped object has a name and can be called");
        return cfx_bad();
    }
    a = cfx__dispatch_args_split(a);
    if (!t || !cfx__trace_any(a))
        return cfx_object_call_from(at, object, a);
    cfx_target target = cfx_target_object(name, object);
    cfx_node *n = cfx__tracer_node(t, at, CFX_CALL_FUNCTION, target, a);
    if (n->graph)
        cfx_node_set_meta(n, "is_wrapped", cfx_bool(true));
    return cfx_tensor_value(cfx__traced_tensor(n));
}
