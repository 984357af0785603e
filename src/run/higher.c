/* Higher-order operators: those that take sub-graphs as arguments. A sub-graph is a module, what
 * get_attr gives of a child, and is called with its operands one by one. Start at the table. */
#include <cfx/ops.h>

#include "run.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static const char prefix[] = "torch.ops.higher_order.";

static cfx_value arg(cfx_args a, int i) { return i < a.n ? a.v[i] : cfx_none(); }

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

static int64_t length(cfx_value v) { return is_sequence(v) ? cfx_as_list(v)->len : 0; }

static cfx_value graph_arg(cfx_site at, const char *op, cfx_args a, int i) {
    cfx_value v = arg(a, i);
    if (v.tag == CFX_TAG_MODULE)
        return v;
    cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument %d must be a graph, not %s", prefix, op, i,
             cfx_value_type_name(v));
    return cfx_bad();
}

static cfx_value list_arg(cfx_site at, const char *op, cfx_args a, int i) {
    cfx_value v = arg(a, i);
    if (cfx_is_none(v))
        return cfx_list_value(0, NULL);
    if (is_sequence(v))
        return v;
    cfx_fail(CFX_TYPE_ERROR, at, "%s%s: argument %d must be a list or tuple, not %s", prefix, op, i,
             cfx_value_type_name(v));
    return cfx_bad();
}

/* Calls a sub-graph with the items of some lists as its arguments. */
static cfx_value call(cfx_site at, cfx_value graph, int nlists, const cfx_value *lists) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int k = 0; k < nlists; k++)
        for (int64_t i = 0; i < length(lists[k]); i++)
            cfx_list_append(cfx_as_list(all), cfx_as_list(lists[k])->items[i]);
    return cfx_forward_value_from(
        at, cfx_as_module(graph),
        (cfx_args){(int)cfx_as_list(all)->len, cfx_as_list(all)->items, NULL});
}

/* The rest of the arguments, from number i on, handed to the sub-graph. */
static cfx_value call_with_rest(cfx_site at, const char *op, cfx_args a, int graph, int from) {
    cfx_value g = graph_arg(at, op, a, graph);
    if (cfx_is_bad(g))
        return g;
    int n = a.n > from ? a.n - from : 0;
    return cfx_forward_value_from(at, cfx_as_module(g), (cfx_args){n, a.v + (n ? from : 0), NULL});
}

/* ---- branches and loops ---------------------------------------------------------------------- */

static cfx_value cond(cfx_site at, cfx_args a) {
    cfx_value branch = graph_arg(at, "cond", a, cfx_is_true_from(at, arg(a, 0)) ? 1 : 2);
    cfx_value operands = list_arg(at, "cond", a, 3);
    return cfx_ok() ? call(at, branch, 1, &operands) : cfx_bad();
}

static cfx_value while_loop(cfx_site at, cfx_args a) {
    cfx_value test = graph_arg(at, "while_loop", a, 0), body = graph_arg(at, "while_loop", a, 1);
    cfx_value lists[] = {list_arg(at, "while_loop", a, 2), list_arg(at, "while_loop", a, 3)};
    if (!cfx_ok())
        return cfx_bad();
    size_t mark = cfx_scope_open();
    cfx_value_keep(lists[0]);
    while (cfx_ok()) {
        size_t turn = cfx_scope_open();
        cfx_value next = cfx_is_true_from(at, call(at, test, 2, lists)) && cfx_ok()
                             ? call(at, body, 2, lists)
                             : cfx_none();
        if (next.tag == CFX_TAG_TENSOR)
            next = cfx_tuple_value(1, &next);
        if (is_sequence(next)) {
            cfx_value_keep(next);
            cfx_value_drop(lists[0]);
            lists[0] = next;
        }
        cfx_scope_close(turn);
        if (!is_sequence(next))
            break;
    }
    cfx_value result = cfx_tuple_value(length(lists[0]), cfx_as_list(lists[0])->items);
    cfx_value_drop(lists[0]);
    return cfx_scope_return_value(mark, cfx_ok() ? result : cfx_bad());
}

/* ---- over the first dimension ---------------------------------------------------------------- */

/* How many slices the tensors of a list have; -1, with an error, where they have none in common. */
static int64_t slices(cfx_site at, const char *op, cfx_value xs) {
    int64_t n = -1;
    for (int64_t i = 0; i < length(xs); i++) {
        cfx_value x = cfx_as_list(xs)->items[i];
        int64_t have =
            x.tag == CFX_TAG_TENSOR && cfx_as_tensor(x)->ndim ? cfx_as_tensor(x)->shape[0] : -1;
        if (have < 0 || (n >= 0 && have != n)) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "%s%s: all xs leaves must be tensors with the same leading dimension", prefix,
                     op);
            return -1;
        }
        n = have;
    }
    if (n < 1)
        cfx_fail(CFX_RUNTIME_ERROR, at, "%s%s: there is nothing to go over in xs", prefix, op);
    return n < 1 ? -1 : n;
}

static cfx_value slice_at(cfx_value xs, int64_t k) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < length(xs); i++)
        cfx_list_append(cfx_as_list(out),
                        cfx_tensor_value(cfx_select(cfx_as_list(xs)->items[i], 0, k)));
    return out;
}

/* Lists of slices, one list for each result, that become tensors at the end. */
typedef struct {
    cfx_value columns;
    int64_t count;
} rows;

static void add_row(rows *r, cfx_value items, int64_t from, bool clone) {
    for (int64_t i = from; i < length(items); i++) {
        if (!r->count)
            cfx_list_append(cfx_as_list(r->columns), cfx_list_value(0, NULL));
        cfx_value v = cfx_as_list(items)->items[i];
        if (clone && v.tag == CFX_TAG_TENSOR)
            v = cfx_tensor_value(cfx_clone(v));
        if (i - from < length(r->columns))
            cfx_list_append(cfx_as_list(cfx_as_list(r->columns)->items[i - from]), v);
    }
    r->count++;
}

static void stack_rows(const rows *r, cfx_list *out) {
    for (int64_t i = 0; i < length(r->columns) && cfx_ok(); i++)
        cfx_list_append(out, cfx_tensor_value(cfx_stack(cfx_as_list(r->columns)->items[i], 0)));
}

static cfx_value map_impl(cfx_site at, cfx_args a) {
    cfx_value body = graph_arg(at, "map_impl", a, 0), xs = list_arg(at, "map_impl", a, 1);
    cfx_value rest = list_arg(at, "map_impl", a, 2), out = cfx_tuple_value(0, NULL);
    int64_t n = cfx_ok() ? slices(at, "map_impl", xs) : -1;
    rows made = {.columns = cfx_list_value(0, NULL)};
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {slice_at(xs, k), rest};
        cfx_value y = call(at, body, 2, lists);
        add_row(&made, is_sequence(y) ? y : cfx_tuple_value(1, &y), 0, true);
    }
    stack_rows(&made, cfx_as_list(out));
    return cfx_ok() ? out : cfx_bad();
}

/* scan(f, init, xs, additional): f gives the next carry and a row of results. Files before PyTorch
 * 2.7 have the dimension and the direction between xs and additional. */
static cfx_value scan(cfx_site at, cfx_args a) {
    cfx_value body = graph_arg(at, "scan", a, 0);
    cfx_value carry = list_arg(at, "scan", a, 1), xs = list_arg(at, "scan", a, 2);
    bool old = arg(a, 3).tag == CFX_TAG_INT;
    bool reverse = old && arg(a, 4).tag == CFX_TAG_BOOL && cfx_integer(arg(a, 4));
    cfx_value rest = list_arg(at, "scan", a, old ? 5 : 3), out = cfx_tuple_value(0, NULL);
    int64_t n = cfx_ok() ? slices(at, "scan", xs) : -1, ncarry = length(carry);
    rows made = {.columns = cfx_list_value(0, NULL)};
    cfx_value_keep(carry);
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {carry, slice_at(xs, reverse ? n - 1 - k : k), rest};
        cfx_value y = call(at, body, 3, lists);
        if (length(y) >= ncarry && cfx_ok()) {
            cfx_value_drop(carry);
            carry = cfx_value_keep(cfx_tuple_value(ncarry, cfx_as_list(y)->items));
            add_row(&made, y, ncarry, true);
        } else {
            cfx_fail(CFX_RUNTIME_ERROR, at, "%sscan: the graph gave no carry", prefix);
        }
    }
    for (int64_t i = 0; i < length(carry); i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(carry)->items[i]);
    cfx_value_drop(carry);
    stack_rows(&made, cfx_as_list(out));
    for (int64_t i = ncarry; reverse && i < cfx_as_list(out)->len && cfx_ok(); i++) {
        cfx_value turned = cfx_tensor_value(cfx_flip(cfx_as_list(out)->items[i], cfx_list(0)));
        cfx_value_drop(cfx_as_list(out)->items[i]);
        cfx_as_list(out)->items[i] = cfx_value_keep(turned);
    }
    return cfx_ok() ? out : cfx_bad();
}

/* Row k is f(row k - 1, slice k). The graph is written for one slice, so one at a time it gets. */
static cfx_value associative_scan(cfx_site at, cfx_args a) {
    cfx_value body = graph_arg(at, "associative_scan", a, 0);
    cfx_value xs = list_arg(at, "associative_scan", a, 1), out = cfx_tuple_value(0, NULL);
    cfx_value rest = list_arg(at, "associative_scan", a, 2);
    int64_t n = cfx_ok() ? slices(at, "associative_scan", xs) : -1;
    rows made = {.columns = cfx_list_value(0, NULL)};
    cfx_value last = n > 0 ? slice_at(xs, 0) : cfx_bad();
    cfx_value_keep(last);
    if (n > 0)
        add_row(&made, last, 0, false);
    for (int64_t k = 1; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {last, slice_at(xs, k), rest};
        cfx_value y = call(at, body, 3, lists);
        cfx_value_drop(last);
        last = cfx_value_keep(is_sequence(y) ? y : cfx_tuple_value(1, &y));
        add_row(&made, last, 0, false);
    }
    cfx_value_drop(last);
    stack_rows(&made, cfx_as_list(out));
    return cfx_ok() ? out : cfx_bad();
}

/* ---- regions --------------------------------------------------------------------------------- */

static cfx_value set_grad_enabled(cfx_site at, cfx_args a) {
    cfx_grad_mode before = cfx_get_grad_mode();
    if (before != CFX_INFERENCE)
        cfx_set_grad_mode(cfx_is_true_from(at, arg(a, 0)) ? CFX_GRAD_ON : CFX_NO_GRAD);
    cfx_value v = call_with_rest(at, "wrap_with_set_grad_enabled", a, 1, 2);
    cfx_set_grad_mode(before);
    return v;
}

/* wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, *operands). Without
 * gradients operators stay whole, as PyTorch's autocast sees them. */
static cfx_value autocast(cfx_site at, cfx_args a) {
    cfx_value device = arg(a, 0), dtype = arg(a, 1);
    cfx__autocast c = {
        .gpu = cfx_text(device) && !strcmp(cfx_text(device), "cuda"),
        .dtype = dtype.tag == CFX_TAG_DTYPE ? cfx_as_dtype(dtype) : CFX_BF16,
        .silent = !cfx_is_true_from(at, arg(a, 2)),
    };
    cfx_grad_mode before = cfx_get_grad_mode();
    if (before == CFX_NO_GRAD)
        cfx_set_grad_mode(CFX_INFERENCE);
    cfx__autocast_begin(&c);
    cfx_value v = call_with_rest(at, "wrap_with_autocast", a, 4, 5);
    cfx__autocast_end(&c);
    cfx_set_grad_mode(before);
    return v;
}

static cfx_value invoke_subgraph(cfx_site at, cfx_args a) {
    return call_with_rest(at, "invoke_subgraph", a, 0, 2);
}

static cfx_value wrap(cfx_site at, cfx_args a) { return call_with_rest(at, "wrap", a, 0, 1); }

static cfx_value strict_mode(cfx_site at, cfx_args a) {
    cfx_value g = graph_arg(at, "strict_mode", a, 0), operands = list_arg(at, "strict_mode", a, 1);
    return cfx_ok() ? call(at, g, 1, &operands) : cfx_bad();
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cfx__higher_fn *run;
} table[] = {
    {"cond", cond},
    {"while_loop", while_loop},
    {"map_impl", map_impl},
    {"scan", scan},
    {"associative_scan", associative_scan},
    {"wrap_with_set_grad_enabled", set_grad_enabled},
    {"wrap_with_autocast", autocast},
    {"invoke_subgraph", invoke_subgraph},
    {"tag_activation_checkpoint", wrap},
    {"wrap", wrap},
    {"strict_mode", strict_mode},
    {"hints_wrapper", strict_mode},
};

cfx__higher_fn *cfx__higher_find(const char *name) {
    name = name ? cfx__higher_order(name) : NULL;
    for (int i = 0; name && i < COUNT(table); i++)
        if (!strcmp(name, table[i].name))
            return table[i].run;
    return NULL;
}
