/* Control flow that can be traced and exported: cond, while_loop, map, scan and associative_scan.
 * Outside they simply run (loops.c); on traced values, and while a module is exported, they become
 * nodes (capture.c). Here trees of arguments are taken apart and results put together again. Start
 * at cfx_cond_from. */
#include <cfx/ops.h>

#include "control.h"
#include "record.h"

/* ---- bodies ---------------------------------------------------------------------------------- */

static cfx_value call_body(cfx__body *b, cfx_site at, cfx_args flat) {
    (void)at;
    cfx_value leaves = cfx_list_value(flat.n, flat.v);
    cfx_value args = cfx_tree_unflatten(b->in, cfx_as_list(leaves));
    if (cfx_is_bad(args))
        return args;
    const cfx_list *a = cfx_as_list(args);
    cfx_value result = b->fn(b->module, (cfx_args){(int)a->len, a->items, NULL});
    if (!cfx_ok() || cfx_is_bad(result))
        return cfx_bad();
    cfx_list *given = cfx_as_list(cfx_list_value(0, NULL));
    b->out = cfx_tree_flatten(result, given);
    cfx_dict_set(b->kept, "out", b->out);
    return cfx_tuple_value(given->len, given->items);
}

static cfx__body body_of(cfx_module *self, cfx_forward_fn *fn, cfx_value in) {
    return (cfx__body){.call = call_body,
                       .module = self,
                       .fn = fn,
                       .in = in,
                       .out = cfx_bad(),
                       .kept = cfx_dict_new()};
}

static bool has_bad(cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (cfx_is_bad(a.v[i]))
            return true;
    return false;
}

/* Whether the functions are there; an error where one is NULL. */
static bool is_branch(cfx_site at, bool given) {
    if (!given)
        cfx_fail(CFX_TYPE_ERROR, at, "a branch is a function, not NULL");
    return given;
}

/* The leaves of some values, and their spec. */
static cfx_value flat(cfx_args a, cfx_value *spec) {
    cfx_value leaves = cfx_list_value(0, NULL);
    *spec = cfx_tree_flatten(cfx_tuple_value(a.n, a.v), cfx_as_list(leaves));
    return leaves;
}

static cfx_value put_together(cfx_value spec, cfx_value leaves) {
    return cfx_is_bad(leaves) || cfx_is_bad(spec) ? cfx_bad()
                                                  : cfx_tree_unflatten(spec, cfx_as_list(leaves));
}

/* Whether a call with these values becomes a node. */
static bool wanted(int n, const cfx_value *v) {
    return cfx__capture_wanted((cfx_args){n, v, NULL});
}

/* ---- what nodes give ------------------------------------------------------------------------- */

/* A new tensor like t, with a dimension of n in front where n is not negative; packed. */
static cfx_value made_like(const cfx_tensor *t, int64_t n) {
    int64_t shape[CFX_MAX_DIMS + 1];
    int front = n >= 0;
    shape[0] = n;
    memcpy(shape + front, t->shape, (size_t)t->ndim * sizeof *shape);
    return cfx_tensor_value(cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim + front, shape, NULL));
}

/* How a tensor looks to who compares it. */
static bool is_alike(cfx_value a, cfx_value b) {
    if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
        return a.tag == b.tag;
    const cfx_tensor *s = cfx_as_tensor(a), *t = cfx_as_tensor(b);
    return s->dtype == t->dtype && cfx__tensor_same_shape(s, t);
}

static const char *look(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR)
        return cfx_value_repr(v);
    const cfx_tensor *t = cfx_as_tensor(v);
    return cfx__text_format("%s%s", cfx_dtype_name((cfx_dtype)t->dtype),
                            cfx_value_repr(cfx_ints_value(t->ndim, t->shape)));
}

/* Whether the first of `given` are as what they are carried on from. */
static bool carries_on(const cfx__capture *c, cfx_value from, const cfx_list *given,
                       const char *before, const char *after) {
    int64_t n = cfx_len(from);
    if (given->len < n) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 "Expected %s and %s to have same number of outputs but got lhs:%lld and rhs:%lld",
                 before, after, (long long)n, (long long)given->len);
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (!is_alike(cfx_at(from, i), given->items[i])) {
            cfx_fail(CFX_RUNTIME_ERROR, c->at,
                     "Expected %s and %s to have same metadata but found: number %lld is %s and "
                     "becomes %s",
                     before, after, (long long)i, look(cfx_at(from, i)), look(given->items[i]));
            return false;
        }
    return true;
}

/* ---- cond ------------------------------------------------------------------------------------ */

static bool same_spec(cfx_site at, const cfx__body *yes, const cfx__body *no) {
    if (cfx_equal_values(yes->out, no->out))
        return true;
    cfx__fail_lines(
        CFX_RUNTIME_ERROR, at,
        "Unmatched output spec from torch.cond branches: true branch tree_spec %s vs false "
        "branch tree_spec %s.",
        cfx_tree_spec_text(yes->out), cfx_tree_spec_text(no->out));
    return false;
}

static cfx_value cond_results(const cfx__capture *c, const cfx_list *first,
                              const cfx_list *given) {
    return same_spec(c->at, c->body[0], c->body[1]) ? cfx__either_results(c->at, first, given)
                                                    : cfx_bad();
}

cfx_value cfx__control_cond(cfx_site at, cfx_value pred, cfx__body *yes, cfx__body *no,
                            cfx_value operands) {
    bool data = cfx__mark_is_data(cfx__recorder_now(), pred);
    if (!data && (pred.tag != CFX_TAG_TENSOR || !wanted(1, &pred)))
        return cfx__loop_cond(at, pred, yes, no, operands);
    cfx__capture c = {.at = at, .op = "cond", .pred = pred, .nbodies = 2,
                      .body = {yes, no}, .name = {"true_graph", "false_graph"},
                      .plain_too = !yes->fn, .nparts = 1,
                      .part = {{.values = operands, .tuple = true}}, .results = cond_results};
    cfx_value v = cfx__capture_call(&c);
    return cfx_is_bad(v) || !same_spec(at, yes, no) ? cfx_bad() : v;
}

static cfx_value cond(cfx_site at, cfx_module *self, cfx_value pred, cfx_forward_fn *yes,
                      cfx_forward_fn *no, cfx_args a) {
    cfx_value spec, operands = flat(a, &spec);
    cfx__body b[2] = {body_of(self, yes, spec), body_of(self, no, spec)};
    cfx_value v = cfx__control_cond(at, pred, &b[0], &b[1], operands);
    return put_together(cfx_is_bad(b[0].out) ? b[1].out : b[0].out, v);
}

cfx_value cfx_cond_from(cfx_site at, cfx_module *self, cfx_value pred, cfx_forward_fn *yes,
                        cfx_forward_fn *no, cfx_args a) {
    if (cfx_is_bad(pred) || has_bad(a) || !is_branch(at, yes && no))
        return cfx_bad();
    if (pred.tag != CFX_TAG_TENSOR && pred.tag != CFX_TAG_BOOL && pred.tag != CFX_TAG_INT) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "Expected pred to be bool or single-element tensor, but "
                 "got %s.", cfx_value_repr(pred));
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    return cfx_scope_return_value(mark, cond(at, self, pred, yes, no, a));
}

/* ---- while_loop ------------------------------------------------------------------------------ */

/* Numbers may be any after a round: those of the first are forgotten. */
static cfx_value carried_numbers(const cfx_list *items) {
    cfx__recorder *r = cfx__recorder_now();
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < items->len; i++) {
        cfx_value v = items->items[i];
        cfx_list_append(cfx_as_list(out), v.tag == CFX_TAG_INT ? r->unknown(r, v, NULL) : v);
    }
    return out;
}

static cfx_value while_results(const cfx__capture *c, const cfx_list *first,
                               const cfx_list *given) {
    (void)first;
    if (!carries_on(c, c->part[0].values, given, "carried_inputs", "body_output"))
        return cfx_bad();
    cfx_value out = carried_numbers(given);
    for (int64_t i = 0; i < given->len; i++) {
        const cfx_tensor *t =
            given->items[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(given->items[i]) : NULL;
        if (t) {
            cfx_value_drop(cfx_as_list(out)->items[i]);
            cfx_as_list(out)->items[i] =
                cfx_value_keep(cfx_tensor_value(cfx__tensor_faked(t)));
        }
    }
    return out;
}

/* Whether a loop can carry these through a graph. */
static bool can_carry(cfx_site at, cfx_value carried) {
    for (int64_t i = 0; i < cfx_len(carried); i++) {
        cfx_value v = cfx_at(carried, i);
        if (v.tag == CFX_TAG_TENSOR || v.tag == CFX_TAG_INT)
            continue;
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only "
                 "consists of tensor or int leaves, but got %s.",
                 cfx_value_repr(v));
        return false;
    }
    return true;
}

/* Whether a body gave its values in the form in which they are carried. */
static bool same_carried(cfx_site at, cfx_value spec, cfx_value out) {
    bool list = out.tag == CFX_TAG_TUPLE || out.tag == CFX_TAG_LIST;
    cfx_value given = list ? cfx_tuple_value(cfx_len(out), cfx_as_list(out)->items)
                           : cfx_tuple_value(1, &out);
    if (cfx_equal_values(spec, given))
        return true;
    cfx__fail_lines(
        CFX_RUNTIME_ERROR, at,
        "Expected carried_inputs and body_output to have same tree structure but found: "
        "carried_inputs tree_spec %s vs body_output tree_spec %s.",
        cfx_tree_spec_text(spec), cfx_tree_spec_text(given));
    return false;
}

cfx_value cfx__control_while(cfx_site at, cfx__body *test, cfx__body *body, cfx_value carried,
                             cfx_value rest) {
    cfx__recorder *r = cfx__recorder_now();
    if (r && r->functional && r->loop)
        return r->loop(r, at, test, body, carried, rest);
    if (!wanted(2, (cfx_value[]){carried, rest}))
        return cfx__loop_while(at, test, body, carried, rest);
    cfx__capture c = {.at = at, .op = "while_loop", .pred = cfx_bad(), .nbodies = 2,
                      .body = {test, body},
                      .name = {"while_loop_cond_graph", "while_loop_body_graph"},
                      .bare = true, .plain_too = true, .nparts = 2,
                      .part = {{.values = carried, .tuple = true},
                               {.values = rest, .tuple = true}},
                      .results = while_results};
    if (!cfx__tracer_now()) {
        if (!can_carry(at, carried))
            return cfx_bad();
        c.part[0].seen = carried_numbers(cfx_as_list(carried));
    }
    return cfx__capture_call(&c);
}

typedef struct {
    cfx__body body; /* first */
    cfx__round_fn *fn;
} rounds;

static cfx_value call_round(cfx__body *b, cfx_site at, cfx_args flat) {
    (void)at;
    cfx_value v = ((rounds *)b)->fn(flat);
    return cfx_ok() ? v : cfx_bad();
}

cfx_value cfx__control_rounds(cfx_site at, cfx__round_fn *test, cfx__round_fn *body,
                              cfx_value carried, cfx_value rest) {
    rounds b[2] = {{{.call = call_round}, test}, {{.call = call_round}, body}};
    return cfx__control_while(at, &b[0].body, &b[1].body, carried, rest);
}

static cfx_value while_loop(cfx_site at, cfx_module *self, cfx_forward_fn *test,
                            cfx_forward_fn *body, cfx_args a) {
    cfx_value spec, carried = flat(a, &spec);
    cfx__body b[2] = {body_of(self, test, spec), body_of(self, body, spec)};
    cfx_value v = cfx__control_while(at, &b[0], &b[1], carried, cfx_list_value(0, NULL));
    bool ran = !cfx_is_bad(v) && !cfx_is_bad(b[1].out);
    return ran && !same_carried(at, spec, b[1].out) ? cfx_bad() : put_together(spec, v);
}

cfx_value cfx_while_loop_from(cfx_site at, cfx_module *self, cfx_forward_fn *test,
                              cfx_forward_fn *body, cfx_args a) {
    if (has_bad(a) || !is_branch(at, test && body))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    return cfx_scope_return_value(mark, while_loop(at, self, test, body, a));
}

/* ---- over a dimension ------------------------------------------------------------------------ */

/* Whether all are tensors with the same size along dim, which is not 0; what says why not starts so
 * in PyTorch. */
static bool check_rows(cfx_site at, const char *what, cfx_value xs) {
    int64_t n = -1;
    for (int64_t i = 0; i < cfx_len(xs); i++) {
        cfx_value v = cfx_at(xs, i);
        if (cfx__traced_node(v))
            continue;
        if (v.tag != CFX_TAG_TENSOR) {
            cfx_fail(CFX_RUNTIME_ERROR, at, "%s can only consist of tensors. Got xs %s.", what,
                     cfx_value_repr(v));
            return false;
        }
        const cfx_tensor *t = cfx_as_tensor(v);
        if (!t->ndim || !t->shape[0]) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Leading dimensions of %s cannot be 0, nor can xs be scalars.", what);
            return false;
        }
        if (n >= 0 && t->shape[0] != n) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Leading dimensions of %s must be consistent. Got %lld and %lld.", what,
                     (long long)n, (long long)t->shape[0]);
            return false;
        }
        n = t->shape[0];
    }
    return true;
}

/* How many rows there are. */
static int64_t rows_of(const cfx__capture_part *p) {
    return cfx_as_tensor(cfx_at(p->values, 0))->shape[0];
}

static cfx_value map_results(const cfx__capture *c, const cfx_list *first,
                               const cfx_list *given) {
    (void)first;
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < given->len; i++)
        cfx_list_append(cfx_as_list(out),
                        made_like(cfx_as_tensor(given->items[i]), rows_of(&c->part[0])));
    return out;
}

cfx_value cfx__control_map(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest) {
    cfx__capture c = {.at = at, .op = "map_impl", .pred = cfx_bad(), .nbodies = 1,
                      .body = {body}, .name = {"body_graph"}, .plain_too = !body->fn, .nparts = 2,
                      .part = {{.values = xs, .rows = true}, {.values = rest}},
                      .results = map_results};
    if (!wanted(2, (cfx_value[]){xs, rest}))
        return cfx__loop_map(at, body, xs, rest);
    return check_rows(at, "mapped xs", xs) ? cfx__capture_call(&c) : cfx_bad();
}

static cfx_value map(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_args a) {
    cfx_value spec, part;
    cfx_value xs = flat((cfx_args){1, a.v, NULL}, &part);
    cfx_value rest = flat((cfx_args){a.n - 1, a.v + 1, NULL}, &part);
    flat(a, &spec);
    cfx__body b = body_of(self, fn, spec);
    if (!check_rows(at, "mapped xs", xs))
        return cfx_bad();
    return put_together(b.out, cfx__control_map(at, &b, xs, rest));
}

cfx_value cfx_map_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_args a) {
    if (has_bad(a) || !is_branch(at, fn) || !a.n)
        return cfx_bad();
    size_t mark = cfx_scope_open();
    return cfx_scope_return_value(mark, map(at, self, fn, a));
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* Each tensor with dimension `from` at place `to`; as it is where these are the same. */
static cfx_value moved(cfx_value xs, int64_t from, int64_t to) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(xs); i++)
        cfx_list_append(cfx_as_list(out),
                        from == to ? cfx_at(xs, i)
                                   : cfx_tensor_value(cfx_movedim(cfx_at(xs, i), from, to)));
    return out;
}

/* Each tensor from number `from` on with its rows in the other order. */
static cfx_value turned(cfx_value xs, int64_t from) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(xs); i++)
        cfx_list_append(cfx_as_list(out),
                        i < from ? cfx_at(xs, i)
                                 : cfx_tensor_value(cfx_flip(cfx_at(xs, i), cfx_list(0))));
    return out;
}

/* *dim counted from the front, where that is known. */
static bool wrap_dim(cfx_site at, cfx_value xs, int64_t *dim) {
    cfx_value first = cfx_len(xs) ? cfx_at(xs, 0) : cfx_none();
    if (first.tag != CFX_TAG_TENSOR) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "All xs leaves must be a Tensor but got %s",
                 cfx_value_repr(first));
        return false;
    }
    if (!cfx__traced_node(first))
        *dim = cfx__shape_wrap_dim(at, *dim, cfx_as_tensor(first)->ndim);
    return cfx_ok();
}

/* What is gone over: rows first, in the order of the scan. Bad, with an error. */
static cfx_value scan_rows(cfx_site at, cfx_value xs, cfx_scan_options *o) {
    if (!wrap_dim(at, xs, &o->dim))
        return cfx_bad();
    xs = moved(xs, o->dim, 0);
    if (o->reverse)
        xs = turned(xs, 0);
    return cfx_ok() && check_rows(at, "scanned xs", xs) ? xs : cfx_bad();
}

static cfx_value scan_results(const cfx__capture *c, const cfx_list *first,
                               const cfx_list *given) {
    (void)first;
    int64_t ncarry = cfx_len(c->part[0].values);
    if (!carries_on(c, c->part[0].values, given, "init", "carry"))
        return cfx_bad();
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < given->len; i++)
        cfx_list_append(cfx_as_list(out), made_like(cfx_as_tensor(given->items[i]),
                                                    i < ncarry ? -1 : rows_of(&c->part[1])));
    return out;
}

cfx_value cfx__control_scan(cfx_site at, cfx__body *body, cfx_value init, cfx_value xs,
                            cfx_value rest) {
    cfx__capture c = {.at = at, .op = "scan", .pred = cfx_bad(), .nbodies = 1,
                      .body = {body}, .name = {"scan_combine_graph"}, .list = true,
                      .plain_too = !body->fn, .nparts = 3,
                      .part = {{.values = init}, {.values = xs, .rows = true},
                               {.values = rest, .tuple = true}},
                      .results = scan_results};
    if (!wanted(3, (cfx_value[]){init, xs, rest}))
        return cfx__loop_scan(at, body, init, xs, rest);
    return check_rows(at, "scanned xs", xs) ? cfx__capture_call(&c) : cfx_bad();
}

static cfx_value scan(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_value init,
                      cfx_value xs, cfx_scan_options o) {
    cfx_value both[] = {init, xs}, spec, part;
    cfx_value carry = flat((cfx_args){1, both, NULL}, &part);
    cfx_value rows = scan_rows(at, flat((cfx_args){1, both + 1, NULL}, &part), &o);
    flat((cfx_args){2, both, NULL}, &spec);
    if (cfx_is_bad(rows))
        return cfx_bad();
    cfx__body b = body_of(self, fn, spec);
    cfx_value v = cfx__control_scan(at, &b, carry, rows, cfx_list_value(0, NULL));
    if (!cfx_is_bad(v) && o.reverse)
        v = turned(v, cfx_len(carry));
    return put_together(b.out, v);
}

cfx_value cfx_scan_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_value init,
                        cfx_value xs, cfx_scan_options options) {
    if (cfx_is_bad(init) || cfx_is_bad(xs) || !is_branch(at, fn))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    return cfx_scope_return_value(mark, scan(at, self, fn, init, xs, options));
}

static cfx_value associative_results(const cfx__capture *c, const cfx_list *first,
                                     const cfx_list *given) {
    (void)first, (void)given;
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(c->part[0].values); i++)
        cfx_list_append(cfx_as_list(out),
                        made_like(cfx_as_tensor(cfx_at(c->part[0].values, i)), -1));
    return out;
}

cfx_value cfx__control_associative_scan(cfx_site at, cfx__body *body, cfx_value xs,
                                        cfx_value rest) {
    cfx__capture c = {.at = at, .op = "associative_scan", .pred = cfx_bad(), .nbodies = 1,
                      .body = {body}, .name = {"associative_scan_combine_graph"}, .list = true,
                      .plain_too = !body->fn, .nparts = 2,
                      .part = {{.values = xs, .rows = true, .times = 2},
                               {.values = rest, .tuple = true}},
                      .results = associative_results};
    if (!wanted(2, (cfx_value[]){xs, rest}))
        return cfx__loop_associative_scan(at, body, xs, rest);
    return check_rows(at, "scanned xs", xs) ? cfx__capture_call(&c) : cfx_bad();
}

static cfx_value associative_scan(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_value xs,
                                  cfx_scan_options o) {
    cfx_value twice[] = {xs, xs}, spec, part;
    cfx_value leaves = flat((cfx_args){1, &xs, NULL}, &part);
    cfx_value rows = scan_rows(at, leaves, &o);
    flat((cfx_args){2, twice, NULL}, &spec);
    if (cfx_is_bad(rows))
        return cfx_bad();
    cfx__body b = body_of(self, fn, spec);
    cfx_value v = cfx__control_associative_scan(at, &b, rows, cfx_list_value(0, NULL));
    if (!cfx_is_bad(v) && o.reverse)
        v = turned(v, 0);
    if (!cfx_is_bad(v))
        v = moved(v, 0, o.dim);
    return put_together(b.out, v);
}

cfx_value cfx_associative_scan_from(cfx_site at, cfx_module *self, cfx_forward_fn *fn, cfx_value xs,
                                    cfx_scan_options options) {
    if (cfx_is_bad(xs) || !is_branch(at, fn))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    return cfx_scope_return_value(mark, associative_scan(at, self, fn, xs, options));
}
