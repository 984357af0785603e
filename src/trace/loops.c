/* Control flow that runs: branches and loops over bodies. */
#include <cfx/ops.h>

#include "control.h"
#include "record.h"

#include "../ops/back.h"

static const char prefix[] = "torch.ops.higher_order.";

static cfx_value no_list(void) { return cfx_list_value(0, NULL); }

/* The items of some lists in one. */
static cfx_value joined(int n, const cfx_value *lists) {
    cfx_value all = no_list();
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < cfx_len(lists[k]); i++)
            cfx_list_append(cfx_as_list(all), cfx_at(lists[k], i));
    return all;
}

static cfx_value call(cfx_site at, cfx__body *b, int64_t round, int n, const cfx_value *lists) {
    const cfx_list *all = cfx_as_list(joined(n, lists));
    b->round = round;
    return cfx_ok() ? b->call(b, at, (cfx_args){(int)all->len, all->items, NULL}) : cfx_bad();
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Results in, results out. What the operands are for is to be asked for a gradient. */
static void grad_tie(cfx_back *b) {
    cfx_value results = no_list(), operands = no_list();
    for (int i = 0; i < b->nout; i++)
        cfx_list_append(cfx_as_list(results), cfx_tensor_value(b->gout[i]));
    for (int64_t i = 0; i < cfx_len(b->args[1]); i++)
        cfx_list_append(cfx_as_list(operands),
                        cfx_tensor_value(zeros_as(cfx_as_tensor(cfx_at(b->args[1], i)))));
    b->gin[0] = results;
    b->gin[1] = operands;
}

static void view_tie(cfx_op_call *c) {
    c->result = no_list();
    for (int64_t i = 0; i < cfx_len(c->args[0]); i++) {
        const cfx_tensor *t = cfx_as_tensor(cfx_at(c->args[0], i));
        cfx_list_append(cfx_as_list(c->result),
                        cfx_tensor_value(
                            cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset)));
    }
}

/* Not in the registry: nobody calls it by name. */
cfx_op cfx__loop_tie = {"cfx::tie(Tensor[] results, Tensor[] operands) -> Tensor[]", NULL,
                        .kernel = view_tie, .shape = view_tie, .grad = grad_tie};

static bool takes_gradient(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_tensor_requires_grad(cfx_as_tensor(v));
}

static bool is_float(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx__dtype_is_float(cfx_as_tensor(v)->dtype);
}

/* The results, which depend on every operand that takes a gradient from now on. */
static cfx_value tied(cfx_value results, cfx_value operands) {
    cfx_value from = no_list(), to = no_list(), out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(operands); i++)
        if (takes_gradient(cfx_at(operands, i)))
            cfx_list_append(cfx_as_list(from), cfx_at(operands, i));
    for (int64_t i = 0; i < cfx_len(results); i++)
        if (is_float(cfx_at(results, i)))
            cfx_list_append(cfx_as_list(to), cfx_at(results, i));
    if (!cfx__grad_records() || !cfx_len(from) || !cfx_len(to))
        return results;
    cfx_value made = cfx_op_do(&cfx__loop_tie, to, from);
    int64_t k = 0;
    for (int64_t i = 0; i < cfx_len(results) && !cfx_is_bad(made); i++) {
        cfx_value v = cfx_at(results, i);
        cfx_list_append(cfx_as_list(out), is_float(v) ? cfx_at(made, k++) : v);
    }
    return cfx_is_bad(made) ? made : out;
}

/* ---- branches and loops ---------------------------------------------------------------------- */

/* A truth as it is known to be, where that is known of a fake tensor. */
static cfx_value settled(cfx_value v) {
    cfx_tensor *known = v.tag == CFX_TAG_TENSOR ? cfx__tensor_known(cfx_as_tensor(v)) : NULL;
    return known ? cfx_tensor_value(known) : v;
}

/* Whether a truth is data that is not there. */
static bool is_unknown(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->head.flags & CFX__FAKE;
}

static cfx_value needs_data(cfx_site at, const char *op) {
    cfx__fail_unknown(at, "%s%s: its result depends on data, which a fake tensor does not have",
                      prefix, op);
    return cfx_bad();
}

/* Whether two branches give the same, but for the data of tensors. */
static bool is_alike(cfx_value a, cfx_value b) {
    bool same = cfx_len(a) == cfx_len(b);
    for (int64_t i = 0; same && i < cfx_len(a); i++) {
        cfx_value v = cfx_at(a, i), w = cfx_at(b, i);
        if (v.tag != CFX_TAG_TENSOR || w.tag != CFX_TAG_TENSOR) {
            same = cfx_equal_values(v, w);
            continue;
        }
        const cfx_tensor *s = cfx_as_tensor(v), *t = cfx_as_tensor(w);
        same = s->dtype == t->dtype && cfx__tensor_same_shape(s, t);
    }
    return same;
}

/* What the branches give where nobody knows which is taken. */
static cfx_value call_either(cfx_site at, cfx__body *yes, cfx__body *no, cfx_value operands) {
    if (cfx__recorder_now()) /* nothing of it is to be recorded as if it were taken */
        return needs_data(at, "cond");
    cfx_value a = call(at, yes, -1, 1, &operands);
    cfx_value b = cfx_is_bad(a) ? a : call(at, no, -1, 1, &operands);
    return cfx_is_bad(b) || is_alike(a, b) ? b : needs_data(at, "cond");
}

cfx_value cfx__loop_cond(cfx_site at, cfx_value pred, cfx__body *yes, cfx__body *no,
                         cfx_value operands) {
    cfx_value v = cfx_bad();
    pred = settled(pred);
    if (is_unknown(pred)) {
        v = call_either(at, yes, no, operands);
    } else {
        bool taken = cfx_is_true_from(at, pred);
        v = cfx_ok() ? call(at, taken ? yes : no, -1, 1, &operands) : v;
    }
    return cfx_is_bad(v) ? v : tied(v, operands);
}

/* What a body returned, where that is as many values as it was given. */
static cfx_value carried_on(cfx_site at, cfx_value v, int64_t n) {
    if (cfx_is_bad(v) || cfx_len(v) == n)
        return v;
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "body_fn should return the same number of elements as carried_inputs, got %lld vs "
             "%lld",
             (long long)cfx_len(v), (long long)n);
    return cfx_bad();
}

static bool has_numbers(cfx_value list) {
    for (int64_t i = 0; i < cfx_len(list); i++)
        if (cfx_at(list, i).tag != CFX_TAG_TENSOR)
            return true;
    return false;
}

/* Where nobody knows whether it goes on, it ends, if tensors that are carried keep their shapes. */
static void end_unknown(cfx_site at, cfx__body *body, int64_t round, cfx_value *lists) {
    if (cfx__recorder_now()) {
        needs_data(at, "while_loop");
        return;
    }
    cfx_value next = call(at, body, round, 2, lists);
    if (!cfx_is_bad(next) && (has_numbers(lists[0]) || !is_alike(next, lists[0])))
        needs_data(at, "while_loop");
}

cfx_value cfx__loop_while(cfx_site at, cfx__body *test, cfx__body *body, cfx_value carried,
                          cfx_value rest) {
    cfx_value first[] = {carried, rest}, operands = joined(2, first);
    cfx_value now = cfx_value_keep(carried);
    int64_t round = 0;
    for (bool more = true; more && cfx_ok(); round++) {
        size_t turn = cfx_scope_open();
        cfx_value lists[] = {now, rest}, held = call(at, test, round, 2, lists);
        bool unknown = !cfx_is_bad(held) && is_unknown(cfx_at(held, 0));
        if (unknown)
            end_unknown(at, body, round, lists);
        more = !cfx_is_bad(held) && !unknown && cfx_is_true_from(at, cfx_at(held, 0)) && cfx_ok();
        cfx_value next = more ? call(at, body, round, 2, lists) : cfx_bad();
        next = carried_on(at, next, cfx_len(now));
        if (!cfx_is_bad(next)) {
            cfx_value_keep(next);
            cfx_value_drop(now);
            now = next;
        }
        cfx_scope_close(turn);
    }
    cfx_value out = cfx_tuple_value(cfx_len(now), cfx_as_list(now)->items);
    cfx_value_drop(now);
    return cfx_ok() ? tied(out, operands) : cfx_bad();
}

/* ---- over the first dimension ---------------------------------------------------------------- */

/* How many rows the tensors of a list have; -1, with an error, where they have none in common. */
static int64_t count_rows(cfx_site at, const char *op, cfx_value xs) {
    int64_t n = -1;
    for (int64_t i = 0; i < cfx_len(xs); i++) {
        cfx_value x = cfx_at(xs, i);
        const cfx_tensor *t = x.tag == CFX_TAG_TENSOR ? cfx_as_tensor(x) : NULL;
        int64_t have = t && t->ndim ? t->shape[0] : -1;
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

static cfx_value row_of(cfx_value xs, int64_t k) {
    cfx_value out = no_list();
    for (int64_t i = 0; i < cfx_len(xs); i++)
        cfx_list_append(cfx_as_list(out),
                        cfx_tensor_value(cfx_contiguous(cfx_select(cfx_at(xs, i), 0, k))));
    return out;
}

/* Lists of rows, one list for each result, that become tensors at the end. */
typedef struct {
    cfx_value columns;
    int64_t count;
} rows;

/* Adds the results of a round, from number `from` on. */
static void add_row(rows *r, cfx_value items, int64_t from) {
    for (int64_t i = from; i < cfx_len(items); i++) {
        if (!r->count)
            cfx_list_append(cfx_as_list(r->columns), no_list());
        if (i - from < cfx_len(r->columns))
            cfx_list_append(cfx_as_list(cfx_at(r->columns, i - from)), cfx_at(items, i));
    }
    r->count++;
}

static void stack_rows(const rows *r, cfx_value out) {
    for (int64_t i = 0; i < cfx_len(r->columns) && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out),
                        cfx_tensor_value(cfx_stack(cfx_at(r->columns, i), 0)));
}

cfx_value cfx__loop_map(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest) {
    cfx_value out = cfx_tuple_value(0, NULL), both[] = {xs, rest};
    int64_t n = count_rows(at, "map_impl", xs);
    rows made = {.columns = no_list()};
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {row_of(xs, k), rest}, y = call(at, body, k, 2, lists);
        if (!cfx_is_bad(y))
            add_row(&made, y, 0);
    }
    stack_rows(&made, out);
    return cfx_ok() ? tied(out, joined(2, both)) : cfx_bad();
}

cfx_value cfx__loop_scan(cfx_site at, cfx__body *body, cfx_value init, cfx_value xs,
                         cfx_value rest) {
    cfx_value out = cfx_tuple_value(0, NULL), all[] = {init, xs, rest};
    int64_t n = count_rows(at, "scan", xs), ncarry = cfx_len(init);
    rows made = {.columns = no_list()};
    cfx_value carry = cfx_value_keep(init);
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {carry, row_of(xs, k), rest}, y = call(at, body, k, 3, lists);
        if (!cfx_is_bad(y) && cfx_len(y) >= ncarry) {
            cfx_value_drop(carry);
            carry = cfx_value_keep(cfx_tuple_value(ncarry, cfx_as_list(y)->items));
            add_row(&made, y, ncarry);
        } else {
            cfx_fail(CFX_RUNTIME_ERROR, at, "%sscan: the graph gave no carry", prefix);
        }
    }
    for (int64_t i = 0; i < ncarry; i++)
        cfx_list_append(cfx_as_list(out), cfx_at(carry, i));
    cfx_value_drop(carry);
    stack_rows(&made, out);
    return cfx_ok() ? tied(out, joined(3, all)) : cfx_bad();
}

/* ---- as ONNX has it -------------------------------------------------------------------------- */

/* A number as a tensor that a body is given: known also where everything made is fake. */
static cfx_value known_tensor(cfx_value number) {
    cfx_dtype d = cfx__dtype_of_number(number);
    cfx_tensor *known = cfx__tensor_scalar(number, d);
    if (!cfx__dispatcher()->fake)
        return cfx_tensor_value(known);
    cfx_tensor *t = cfx_full(no_list(), number, CFX_KW(dtype, cfx_dtype_value(d)));
    if (cfx_ok())
        cfx__tensor_know(t, known);
    return cfx_tensor_value(t);
}

/* Whether a loop of at most `most` rounds (None: any number) goes on; *unknown where only data can
 * tell. */
static bool goes_on(cfx_site at, int64_t k, cfx_value most, cfx_value held, bool *unknown) {
    enum { MOST_FAKE_ROUNDS = 10000 }; /* a loop that is only looked at comes to an end */
    most = settled(most), held = settled(held);
    *unknown = is_unknown(most) || is_unknown(held) ||
               (k >= MOST_FAKE_ROUNDS && cfx__dispatcher()->fake);
    if (*unknown)
        return false;
    int64_t n = most.tag == CFX_TAG_TENSOR && cfx_as_tensor(most)->numel
                    ? cfx_integer(cfx__tensor_get(cfx_as_tensor(most), 0))
                    : INT64_MAX;
    return k < n && (cfx_is_none(held) || cfx_is_true_from(at, held)) && cfx_ok();
}

/* Adds what is collected of a number of rounds, without its numbers: rows like those that the body
 * gave from number `from` on. */
static void add_collected(cfx_value given, int64_t from, int64_t rounds, cfx_value out) {
    for (int64_t i = from; cfx_ok() && i < cfx_len(given); i++) {
        cfx_value row = cfx_at(given, i);
        if (row.tag != CFX_TAG_TENSOR)
            continue;
        const cfx_tensor *t = cfx_as_tensor(row);
        int64_t shape[CFX_MAX_DIMS + 1] = {rounds};
        for (int k = 0; k < t->ndim; k++)
            shape[k + 1] = t->shape[k];
        cfx_tensor *all = cfx_zeros(cfx_ints_value(t->ndim + 1, shape),
                                    CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)));
        cfx_list_append(cfx_as_list(out), cfx_tensor_value(all));
    }
}

/* Of a loop without a round, what its rows would be, from number `from` of what the body gives: the
 * body is asked on fake tensors, and each result has no row of such. */
static void no_rows(cfx_site at, cfx__body *body, cfx_value carried, cfx_value rest, int64_t from,
                    cfx_value out) {
    const cfx_graph *g = body->module ? body->module->graph : NULL;
    const cfx_node *gives = g ? cfx_graph_output_node(g) : NULL;
    if (gives && cfx_len(cfx_at(gives->args, 0)) <= from)
        return;
    bool before = cfx_set_fake_mode(true);
    cfx_value first = cfx_list(known_tensor(cfx_int(0)), known_tensor(cfx_bool(true)));
    cfx_value lists[] = {first, carried, rest}; /* real: what sizes come from is read */
    cfx_value y = call(at, body, 0, 3, lists);
    cfx_set_fake_mode(before);
    if (cfx_ok())
        add_collected(y, from, 0, out);
}

/* Where nobody knows how often it goes round: what is carried, if it keeps its shapes, and as many
 * rows as who asks has been told. */
static cfx_value any_rounds(cfx_site at, cfx__body *body, cfx_value carried, cfx_value rest) {
    cfx_value out = cfx_tuple_value(0, NULL), first = no_list(), kept = no_list();
    int64_t n = cfx_len(carried), rounds = 0;
    if (cfx__recorder_now() || has_numbers(carried))
        return needs_data(at, "onnx_loop");
    cfx_list_append(cfx_as_list(first), cfx_tensor_value(cfx_tensor_fake(CFX_I64, 0, NULL, NULL)));
    cfx_list_append(cfx_as_list(first), cfx_tensor_value(cfx_tensor_fake(CFX_BOOL, 0, NULL, NULL)));
    for (int64_t i = 0; i < n; i++) /* what it holds at first does not stay */
        cfx_list_append(cfx_as_list(kept), cfx_tensor_value(zeros_as(
                                               cfx_as_tensor(cfx_at(carried, i)))));
    cfx_value lists[] = {first, kept, rest}, y = call(at, body, -1, 3, lists);
    if (cfx_is_bad(y) || cfx_len(y) <= n)
        return cfx_bad();
    if (!is_alike(cfx_list_value(n, cfx_as_list(y)->items + 1), carried))
        return needs_data(at, "onnx_loop");
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_at(kept, i));
    if (cfx_len(y) > n + 1)
        rounds = cfx__dispatcher()->data_size ? cfx__dispatcher()->data_size() : -1;
    if (rounds < 0)
        return needs_data(at, "onnx_loop");
    add_collected(y, n + 1, rounds, out);
    return cfx_ok() ? out : cfx_bad();
}

/* The body takes the number of the round, whether it was to go on, what is carried and the rest; it
 * gives whether to go on, what is carried, and a row of results. */
cfx_value cfx__loop_onnx(cfx_site at, cfx__body *body, cfx_value most, cfx_value held,
                         cfx_value carried, cfx_value rest) {
    cfx_value out = cfx_tuple_value(0, NULL), now = cfx_value_keep(carried);
    rows made = {.columns = no_list()};
    bool unknown = false;
    int64_t n = cfx_len(carried);
    cfx_value_keep(held);
    for (int64_t k = 0; goes_on(at, k, most, held, &unknown); k++)
        CFX_SCOPE
    {
        cfx_value go = cfx_is_none(held) ? known_tensor(cfx_bool(true)) : held;
        cfx_value first = cfx_list(known_tensor(cfx_int(k)), go);
        cfx_value lists[] = {first, now, rest}, y = call(at, body, k, 3, lists);
        if (!cfx_is_bad(y) && cfx_len(y) > n) {
            cfx_value_drop(held);
            held = cfx_value_keep(cfx_at(y, 0));
            cfx_value_drop(now);
            now = cfx_value_keep(cfx_tuple_value(n, cfx_as_list(y)->items + 1));
            add_row(&made, y, n + 1);
        } else if (cfx_ok()) {
            cfx_fail(CFX_RUNTIME_ERROR, at, "%sonnx_loop: the body gave %lld values, not %lld",
                     prefix, (long long)cfx_len(y), (long long)n + 1);
        }
    }
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_at(now, i));
    cfx_value_drop(now);
    cfx_value_drop(held);
    if (unknown)
        return cfx_ok() ? any_rounds(at, body, carried, rest) : cfx_bad();
    if (!made.count && cfx_ok())
        no_rows(at, body, carried, rest, n + 1, out);
    stack_rows(&made, out);
    return cfx_ok() ? out : cfx_bad();
}

/* Over the items of lists; what is no list is the same for all. Each result is a list. */
cfx_value cfx__loop_sequences(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest) {
    rows made = {.columns = no_list()};
    int64_t n = cfx_len(xs) ? cfx_len(cfx_at(xs, 0)) : 0;
    for (int64_t k = 0; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value row = no_list();
        for (int64_t i = 0; i < cfx_len(xs); i++) {
            cfx_value x = cfx_at(xs, i);
            bool list = (x.tag == CFX_TAG_LIST || x.tag == CFX_TAG_TUPLE) && k < cfx_len(x);
            cfx_list_append(cfx_as_list(row), list ? cfx_at(x, k) : x);
        }
        cfx_value lists[] = {row, rest}, y = call(at, body, k, 2, lists);
        if (!cfx_is_bad(y))
            add_row(&made, y, 0);
    }
    return cfx_ok() ? cfx_tuple_value(cfx_len(made.columns), cfx_as_list(made.columns)->items)
                    : cfx_bad();
}

/* ---- associative ----------------------------------------------------------------------------- */

/* The body is written for one row, so one at a time it gets. */
cfx_value cfx__loop_associative_scan(cfx_site at, cfx__body *body, cfx_value xs, cfx_value rest) {
    cfx_value out = cfx_tuple_value(0, NULL), both[] = {xs, rest};
    int64_t n = count_rows(at, "associative_scan", xs);
    rows made = {.columns = no_list()};
    cfx_value last = n > 0 ? row_of(xs, 0) : cfx_bad();
    cfx_value_keep(last);
    if (n > 0)
        add_row(&made, last, 0);
    for (int64_t k = 1; k < n && cfx_ok(); k++)
        CFX_SCOPE
    {
        cfx_value lists[] = {last, row_of(xs, k), rest}, y = call(at, body, k, 3, lists);
        if (!cfx_is_bad(y)) {
            cfx_value_drop(last);
            last = cfx_value_keep(y);
            add_row(&made, last, 0);
        }
    }
    cfx_value_drop(last);
    stack_rows(&made, out);
    return cfx_ok() ? tied(out, joined(2, both)) : cfx_bad();
}
