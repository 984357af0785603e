/* Loops in a graph that is run again. What a decomposition loops over becomes a while_loop node; so
 * does a Loop of ONNX of which only data can tell how often it goes round. PyTorch's while_loop
 * carries tensors of fixed shapes, so what a Loop collects goes into buffers that it carries, with
 * as many rows as there can be rounds. Start at cfx__rerun_onnx_loop. */
#include <cfx/ops.h>

#include "rewrite.h"

static cfx_list *no_items(void) { return cfx_as_list(cfx_list_value(0, NULL)); }

static void append_all(cfx_list *to, cfx_value from) {
    for (int64_t i = 0; i < cfx_len(from); i++)
        cfx_list_append(to, cfx_at(from, i));
}

static cfx_value as_tuple(const cfx_list *l) { return cfx_tuple_value(l->len, l->items); }

/* A fake tensor of the dtype and the sizes of v, packed, with n rows of it where n is not negative;
 * bad, with an error, where v is none. */
static cfx_value made_like(cfx_value v, int64_t n) {
    int64_t shape[CFX_MAX_DIMS + 1] = {n};
    const int front = n >= 0;
    const cfx_tensor *t = cfx_as_tensor(v);
    if (!cfx_ok())
        return cfx_bad();
    memcpy(shape + front, t->shape, (size_t)t->ndim * sizeof *shape);
    return cfx_tensor_value(cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim + front, shape, NULL));
}

/* ---- a while_loop node ----------------------------------------------------------------------- */

/* Inputs of a body for the values that it is given; what it carries has no value that stays. */
static cfx_list *make_inputs(cfx__recorder *r, const cfx_list *given, int64_t carried) {
    cfx_list *all = no_items();
    for (int64_t i = 0; i < given->len && cfx_ok(); i++) {
        cfx_node *n = cfx_graph_placeholder(r->graph, cfx__text_format("arg%lld_1", (long long)i),
                                            NULL, false, cfx_none());
        cfx_value like = made_like(given->items[i], -1);
        if (!n->graph || cfx_is_bad(like))
            break;
        cfx_node_set_meta(n, "val", like);
        cfx_tensor *t = cfx__recorded_tensor(r, n, cfx_as_tensor(like));
        cfx_tensor *known = i < carried ? NULL : cfx__tensor_known(cfx_as_tensor(given->items[i]));
        if (known)
            cfx__tensor_know(t, known);
        cfx_list_append(all, cfx_tensor_value(t));
    }
    return all;
}

static bool shares(const cfx_node *from, const cfx_list *seen) {
    bool shared = false;
    for (int64_t k = 0; k < seen->len; k++)
        shared |= cfx_as_node(seen->items[k]) == from;
    return shared;
}

/* Tensors with copies of those whose memory is that of others: torch.export wants what a loop is
 * given, and what its bodies give, to share none. What a body is given is not its own at all. Adds
 * to `seen` where their memory comes from. Bad, with an error. */
static cfx_value apart(cfx__recorder *r, cfx_site at, cfx_value given, bool body, cfx_list *seen) {
    cfx_list *out = no_items();
    for (int64_t i = 0; i < cfx_len(given) && cfx_ok(); i++) {
        const cfx_value v = cfx_at(given, i), node = cfx__record_arg(r, at, v);
        if (node.tag != CFX_TAG_NODE)
            return cfx_bad();
        const cfx_node *from = cfx__capture_origin(cfx_as_node(node));
        const bool input = from->op == CFX_PLACEHOLDER || from->op == CFX_GET_ATTR;
        const bool shared = shares(from, seen) || (body && input);
        cfx_list_append(out, shared ? cfx_tensor_value(cfx_clone(v)) : v);
        cfx_list_append(seen, cfx_node_value((cfx_node *)(uintptr_t)from));
    }
    return cfx_ok() ? as_tuple(out) : cfx_bad();
}

/* Whether what is carried keeps its dtype and its shape. */
static bool carries_on(cfx_site at, cfx_value carried, cfx_value given) {
    for (int64_t i = 0; i < cfx_len(carried); i++) {
        const cfx_tensor *t = cfx_as_tensor(cfx_at(carried, i));
        const cfx_value v = i < cfx_len(given) ? cfx_at(given, i) : cfx_none();
        const cfx_tensor *u = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
        if (u && u->dtype == t->dtype && cfx__tensor_same_shape(t, u))
            continue;
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "a loop of which only data can tell how often it goes round is a while_loop of "
                 "PyTorch, which carries tensors of fixed shapes, and %s%s becomes %s%s in a round",
                 cfx_dtype_name((cfx_dtype)t->dtype),
                 cfx_value_repr(cfx_ints_value(t->ndim, t->shape)),
                 u ? cfx_dtype_name((cfx_dtype)u->dtype) : cfx_value_type_name(v),
                 u ? cfx_value_repr(cfx_ints_value(u->ndim, u->shape)) : "");
        return false;
    }
    return cfx_ok();
}

/* Records a body in a graph of its own; the node that reads it, NULL, with an error. */
static cfx_node *make_body(cfx__rerun *run, cfx_site at, const char *name, cfx__body *b,
                           cfx_value carried, cfx_value rest) {
    const bool test = !strncmp(name, "while_loop_cond", 15);
    cfx_list *given = no_items();
    cfx__rerun sub;
    name = cfx__rerun_free_name(run, name);
    append_all(given, carried);
    append_all(given, rest);
    cfx__rerun_child_open(&sub, run, run->from);
    cfx_list *in = make_inputs(&sub.recorder, given, cfx_len(carried));
    cfx_value v = cfx_ok() ? b->call(b, at, (cfx_args){(int)in->len, in->items, NULL}) : cfx_bad();
    cfx_value out = cfx_is_bad(v) || (!test && !carries_on(at, carried, v))
                        ? cfx_bad()
                        : apart(&sub.recorder, at, v, true, no_items());
    out = cfx_is_bad(out) ? out : cfx__record_arg(&sub.recorder, at, out);
    if (test && !cfx_is_bad(out))
        out = cfx_at(out, 0);
    if (!cfx__rerun_child_close(&sub, run, name, out))
        return NULL;
    cfx_node *get = cfx_graph_get_attr(run->recorder.graph, name);
    if (!get->graph)
        return NULL;
    run->recorder.note(&run->recorder, at, get);
    return get;
}

static cfx_value packed_of(cfx_value v) {
    return cfx__tensor_is_contiguous(cfx_as_tensor(v)) ? v : cfx_tensor_value(cfx_contiguous(v));
}

cfx_value cfx__rerun_while(cfx__recorder *r, cfx_site at, cfx__body *test, cfx__body *body,
                           cfx_value carried, cfx_value rest) {
    cfx__rerun *run = (cfx__rerun *)r;
    cfx_list *packed = no_items(), *like = no_items(), *seen = no_items();
    for (int64_t i = 0; i < cfx_len(carried) && cfx_ok(); i++) {
        cfx_list_append(packed, packed_of(cfx_at(carried, i)));
        cfx_list_append(like, made_like(cfx_at(carried, i), -1));
    }
    const cfx_value start = cfx_ok() ? apart(r, at, as_tuple(packed), false, seen) : cfx_bad();
    rest = cfx_is_bad(start) ? start : apart(r, at, rest, false, seen);
    if (cfx_is_bad(rest))
        return rest;
    cfx_node *cond = make_body(run, at, "while_loop_cond_graph_0", test, start, rest);
    cfx_node *loop = cond ? make_body(run, at, "while_loop_body_graph_0", body, start, rest) : NULL;
    cfx_value args = loop ? cfx__record_arg(r, at, cfx_tuple(cond, loop, start, rest)) : cfx_bad();
    if (cfx_is_bad(args))
        return cfx_bad();
    cfx_node *made =
        cfx__record_node(r, at, cfx_graph_target(r->graph, "torch.ops.higher_order.while_loop"),
                         args, cfx_none(), "while_loop");
    return made->graph ? cfx__rerun_results(run, made, as_tuple(like)) : cfx_bad();
}

/* ---- a round of a Loop ----------------------------------------------------------------------- */

/* A Loop of ONNX, onnx_loop(module, most, held, carried, rest). */
typedef struct {
    cfx_module *module;
    cfx_value most, held; /* how many rounds at most, and whether it begins; None: not said */
    cfx_value carried, rest;
    int64_t ncarried, nrows;
    cfx_value row;     /* what a round adds to each that is collected, as fake tensors */
    bool goes_on;      /* no round ends it */
    cfx_value buffers; /* one for each row */
} onnx_loop;

static cfx_value copy_of(cfx_value v) {
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    cfx_tensor *known = t ? cfx__tensor_known(t) : NULL;
    cfx_tensor *copy = t ? cfx__tensor_faked(t) : NULL;
    if (known && cfx_ok())
        cfx__tensor_know(copy, known);
    return copy ? cfx_tensor_value(copy) : v;
}

static cfx_tensor *known_scalar(cfx_value v) {
    cfx_tensor *known = cfx__tensor_scalar(v, cfx__dtype_of_number(v));
    cfx_tensor *t = cfx_tensor_fake((cfx_dtype)known->dtype, 0, NULL, NULL);
    if (cfx_ok())
        cfx__tensor_know(t, known);
    return t;
}

/* Runs a round where nothing is recorded: what it adds, and whether the loop goes on after it,
 * which is known then. Sets *settled where it is known whether it does, whatever the data. */
static bool look_at_round(onnx_loop *l, bool *settled) {
    cfx_list *given = no_items();
    cfx_list_append(given, cfx_tensor_value(known_scalar(cfx_int(0))));
    cfx_list_append(given, cfx_tensor_value(known_scalar(cfx_bool(true))));
    for (int64_t i = 0; i < cfx_len(l->carried); i++)
        cfx_list_append(given, made_like(cfx_at(l->carried, i), -1));
    for (int64_t i = 0; i < cfx_len(l->rest); i++)
        cfx_list_append(given, copy_of(cfx_at(l->rest, i)));
    const cfx__record_pause pause = cfx__record_pause_begin();
    cfx_value y = cfx_ok() ? cfx__run_subgraph((cfx_site){0}, l->module, 0, 0,
                                               (cfx_args){(int)given->len, given->items, NULL})
                           : cfx_bad();
    cfx__record_pause_end(pause);
    if (cfx_is_bad(y) || cfx_len(y) <= l->ncarried)
        return false;
    const cfx_value go = cfx_at(y, 0);
    cfx_tensor *known = go.tag == CFX_TAG_TENSOR ? cfx__tensor_known(cfx_as_tensor(go)) : NULL;
    *settled = known != NULL;
    l->goes_on = known && cfx_is_true(cfx__tensor_get(known, 0));
    l->nrows = cfx_len(y) - 1 - l->ncarried;
    l->row = cfx_list_value(l->nrows, cfx_as_list(y)->items + 1 + l->ncarried);
    return cfx_ok();
}

/* A truth or a count as a tensor without dimensions. */
static cfx_value scalar(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR && !cfx_as_tensor(v)->ndim)
        return v;
    return cfx_tensor_value(cfx_reshape(v, cfx_list_value(0, NULL)));
}

typedef struct {
    cfx__body body; /* first */
    const onnx_loop *l;
} part;

/* Bodies are given the number of the round, whether it goes on, what is carried, the buffers; then
 * what does not change and, last, the most rounds. */
static cfx_value ask(cfx__body *b, cfx_site at, cfx_args a) {
    (void)at;
    cfx_value go = a.v[1];
    if (!cfx_is_none(((part *)b)->l->most))
        go = cfx_tensor_value(cfx_logical_and(go, cfx_lt(a.v[0], a.v[a.n - 1])));
    return cfx_ok() ? cfx_tuple_value(1, &go) : cfx_bad();
}

/* The buffer with a row put into it. */
static cfx_value with_row(cfx_value buffer, cfx_value round, cfx_value row) {
    cfx_value at = cfx_list(cfx_reshape(round, cfx_list(1)));
    return cfx_tensor_value(cfx_index_put(buffer, at, cfx_unsqueeze(row, 0)));
}

static cfx_value go_round(cfx__body *b, cfx_site at, cfx_args a) {
    const onnx_loop *l = ((part *)b)->l;
    const int64_t n = l->ncarried;
    cfx_list *given = no_items(), *out = no_items();
    for (int64_t i = 0; i < 2 + n; i++)
        cfx_list_append(given, a.v[i]);
    for (int64_t i = 0; i < cfx_len(l->rest); i++)
        cfx_list_append(given, a.v[2 + n + l->nrows + i]);
    cfx_value y = cfx__rerun_inline((cfx__rerun *)cfx__recorder_now(), l->module, at,
                                    (cfx_args){(int)given->len, given->items, NULL});
    if (cfx_is_bad(y) || cfx_len(y) != 1 + n + l->nrows)
        return cfx_bad();
    cfx_list_append(out, cfx_tensor_value(cfx_add(a.v[0], 1)));
    cfx_list_append(out, scalar(cfx_at(y, 0)));
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(out, cfx_at(y, 1 + i));
    for (int64_t i = 0; i < l->nrows && cfx_ok(); i++)
        cfx_list_append(out, with_row(a.v[2 + n + i], a.v[0], cfx_at(y, 1 + n + i)));
    return cfx_ok() ? as_tuple(out) : cfx_bad();
}

/* ---- as a while_loop ------------------------------------------------------------------------- */

/* Whether it goes round as often as is said, whatever the rounds compute. */
static bool is_whole(const onnx_loop *l) {
    return l->goes_on && cfx_is_none(l->held) && !cfx_is_none(l->most);
}

static int64_t refuse_rows(void) {
    cfx__fail_unknown((cfx_site){0},
                      "it collects a tensor in each round, and only data can tell how many rounds "
                      "there are and when it ends: PyTorch's while_loop carries tensors of fixed "
                      "shapes, and nothing says how large the one for these would be");
    return -1;
}

/* A count that is data as a size of the program. */
static int64_t read_count(cfx__rerun *run, cfx_value most) {
    cfx__recorder *r = &run->recorder;
    const cfx__symbol *s = cfx__rerun_data_symbol(run);
    cfx_value args =
        s ? cfx__record_arg(r, (cfx_site){0}, cfx_tuple(cfx_clamp(scalar(most), cfx_int(0))))
          : cfx_bad();
    if (cfx_is_bad(args))
        return cfx_ok() ? refuse_rows() : -1;
    cfx_node *made = cfx__record_node(
        r, (cfx_site){0}, cfx_graph_target(r->graph, "aten._local_scalar_dense.default"), args,
        cfx_none(), "_local_scalar_dense");
    if (!made->graph)
        return -1;
    cfx__rerun_results(run, made, cfx_int(s->size.at[run->k]));
    cfx_node_set_meta(made, "val", cfx__sym_name(s->name, false, 0));
    return cfx_ok() ? s->size.at[run->k] : -1;
}

/* How many rounds there can be, which bounds what is collected; -1, with an error. */
static int64_t most_rounds(cfx__rerun *run, const onnx_loop *l) {
    enum { MOST_COLLECTED = 1 << 28 }; /* numbers */
    const cfx_tensor *known =
        l->most.tag == CFX_TAG_TENSOR ? cfx__tensor_known(cfx_as_tensor(l->most)) : NULL;
    int64_t n = known && known->numel ? cfx_integer(cfx__tensor_get(known, 0)) : -1, all = 1;
    for (int64_t i = 0; i < l->nrows; i++) {
        const int64_t each = cfx_as_tensor(cfx_at(l->row, i))->numel;
        all = each > all ? each : all;
    }
    if (known && n <= MOST_COLLECTED / all)
        return n > 0 ? n : 0;
    return !known && is_whole(l) ? read_count(run, l->most) : refuse_rows();
}

/* What was collected, less the rows of rounds that there were not. */
static cfx_value collected(const onnx_loop *l, cfx_value buffer, cfx_value rounds, int64_t most) {
    if (is_whole(l))
        return buffer;
    cfx_value there = cfx_tensor_value(cfx_lt(cfx_arange(most), rounds));
    cfx_value at = cfx_tensor_value(cfx_reshape(cfx_nonzero(there), cfx_list(-1)));
    return cfx_tensor_value(cfx_index_select(buffer, 0, at));
}

static cfx_value buffer_for(cfx_value row, int64_t most) {
    const cfx_tensor *t = cfx_as_tensor(row);
    cfx_value shape = cfx_list(most);
    for (int i = 0; i < t->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(t->shape[i]));
    return cfx_tensor_value(cfx_zeros(shape, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype))));
}

static cfx_value as_while(cfx__rerun *run, onnx_loop *l) {
    const cfx_value i64 = cfx_dtype_value(CFX_I64), none = cfx_list_value(0, NULL);
    const int64_t most = l->nrows ? most_rounds(run, l) : 0, n = l->ncarried;
    cfx_list *carried = no_items(), *rest = no_items(), *out = no_items();
    cfx_list_append(carried, cfx_tensor_value(cfx_full(none, 0, CFX_KW(dtype, i64))));
    cfx_list_append(carried,
                    cfx_is_none(l->held)
                        ? cfx_tensor_value(cfx_full(none, cfx_bool(true),
                                                    CFX_KW(dtype, cfx_dtype_value(CFX_BOOL))))
                        : scalar(l->held));
    append_all(carried, l->carried);
    for (int64_t i = 0; i < l->nrows && cfx_ok(); i++)
        cfx_list_append(carried, buffer_for(cfx_at(l->row, i), most));
    append_all(rest, l->rest);
    if (!cfx_is_none(l->most))
        cfx_list_append(rest, scalar(l->most));
    part test = {{.call = ask}, l}, body = {{.call = go_round}, l};
    cfx_value v = cfx_ok() ? cfx__rerun_while(&run->recorder, (cfx_site){0}, &test.body, &body.body,
                                              as_tuple(carried), as_tuple(rest))
                           : cfx_bad();
    for (int64_t i = 0; !cfx_is_bad(v) && i < n; i++)
        cfx_list_append(out, cfx_at(v, 2 + i));
    for (int64_t i = 0; !cfx_is_bad(v) && i < l->nrows && cfx_ok(); i++)
        cfx_list_append(out, collected(l, cfx_at(v, 2 + n + i), cfx_at(v, 0), most));
    return cfx_ok() && !cfx_is_bad(v) ? as_tuple(out) : cfx_bad();
}

/* Whether argument i is known, and the same at all sizes of the program. */
static bool is_fixed(const cfx__rerun *run, const cfx_node *n, cfx_args a, int i) {
    const cfx_value v = a.v[i], of = cfx_as_list(n->args)->items[i];
    const cfx_node *from = of.tag == CFX_TAG_NODE ? cfx_as_node(of) : NULL;
    const bool known = v.tag == CFX_TAG_TENSOR && cfx__tensor_known(cfx_as_tensor(v));
    const bool constant = !from || from->op != CFX_CALL_FUNCTION || !run->worlds->symbols.len;
    return cfx_is_none(v) ||
           (known && (constant || cfx_node_get_meta(from, "contents").tag == CFX_TAG_TENSOR));
}

cfx_value cfx__rerun_onnx_loop(cfx__rerun *run, const cfx_node *n, cfx_args a) {
    if (a.n != 5 || !cfx_ok())
        return cfx_bad();
    onnx_loop l = {.module = cfx_as_module(a.v[0]),
                   .most = a.v[1],
                   .held = a.v[2],
                   .carried = a.v[3],
                   .rest = a.v[4],
                   .ncarried = cfx_len(a.v[3])};
    bool settled = false, fixed = is_fixed(run, n, a, 1) && is_fixed(run, n, a, 2);
    if (is_fixed(run, n, a, 2) && !cfx_is_none(l.held) &&
        cfx_is_true(cfx__tensor_get(cfx__tensor_known(cfx_as_tensor(l.held)), 0)))
        l.held = cfx_none();
    const bool looked = look_at_round(&l, &settled);
    if (fixed && (settled || !looked)) {
        cfx__error_forgive();
        return cfx__higher_find(n->target.name)((cfx_site){0}, a);
    }
    return looked ? as_while(run, &l) : cfx_bad();
}
