/* normalize: arguments of overloads as torch.export writes them: by position as far as the schema
 * allows, keywords for the rest, defaults left out. */
#include "pass.h"

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

static int normalize(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int changes = 0;
    cfx_each_node(m->graph, n) {
        size_t mark = cfx_scope_open();
        changes += normalize_node(n);
        cfx_scope_close(mark);
    }
    return changes;
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, normalize);
}

const cfx_pass cfx__pass_normalize = {
    .name = "normalize",
    .summary = "gives arguments by position where the schema allows it, and leaves defaults out",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
