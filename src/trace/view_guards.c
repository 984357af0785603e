/* The guards that PyTorch creates for views and slices.
 *
 * Views: PyTorch goes through the requested sizes and those of the tensor in turn, joining and
 * splitting them until they match. Sizes found equal at the example are equal from then on: in
 * y.reshape(x.shape[0], -1) the first size of y becomes that of x.
 *
 * Slices, x[:n]: whether n counts from the end, and whether it is within x. */
#include <cfx/ops.h>

#include "merge.h"

/* A size: its expression, and its number at the example. */
typedef struct {
    cfx_value expr;
    int64_t n;
} length;

static bool lengths_of(const cfx__merging *g, cfx_value shape, length *out) {
    const bool list = shape.tag == CFX_TAG_LIST || shape.tag == CFX_TAG_TUPLE;
    if (!list || cfx_as_list(shape)->len > CFX_MAX_DIMS)
        return false;
    for (int64_t i = 0; i < cfx_as_list(shape)->len; i++) {
        out[i].expr = cfx_as_list(shape)->items[i];
        if (!cfx__worlds_eval(g->m->worlds, 0, out[i].expr, &out[i].n))
            return false;
    }
    return true;
}

/* Whether size i is left open, view(x, [n, -1]): that it fits is no question. */
static bool is_open(cfx_value wanted, int64_t i) {
    const bool list = wanted.tag == CFX_TAG_LIST && i < cfx_as_list(wanted)->len;
    return !list || cfx_equal_values(cfx_as_list(wanted)->items[i], cfx_int(-1));
}

/* Two sizes that are equal at the example. */
static void ask_equal(cfx__merging *g, const length *a, const length *b) {
    if (a->expr.tag != CFX_TAG_SYM || b->expr.tag != CFX_TAG_SYM ||
        cfx_equal_values(a->expr, b->expr))
        return;
    const cfx__relation r = {CFX__EQ, cfx_value_keep(a->expr), cfx_value_keep(b->expr)};
    VEC_PUSH(*g->m->asked, r);
}

/* Joins sizes of what is viewed from the first on until `to` divides them; how many there are. */
static int64_t join(length *from, int64_t left, int64_t to) {
    int64_t joined = 1;
    while (from->n % to && joined < left) {
        from->n *= from[joined].n;
        from->expr = cfx__sym_binary(CFX__SYM_MUL, from->expr, from[joined].expr);
        joined++;
    }
    memmove(from + 1, from + joined, (size_t)(left - joined) * sizeof *from);
    return left - joined + 1;
}

void cfx__merge_note_view(cfx__merging *g, const cfx_node *n, cfx_value val) {
    static cfx_op *const views[] = {&cfx_op_view, &cfx_op_reshape, &cfx_op__unsafe_view};
    length from[CFX_MAX_DIMS], to[CFX_MAX_DIMS];
    bool view = false;
    for (int i = 0; i < COUNT(views); i++)
        view |= n->op == CFX_CALL_FUNCTION && n->target.op == views[i];
    const cfx_value of = view ? cfx_at(n->args, 0) : cfx_none();
    if (!g->m->asked || of.tag != CFX_TAG_NODE)
        return;
    const cfx_value before = cfx__merge_sizes(cfx_node_get_meta(cfx_as_node(of), "val"));
    const cfx_value after = cfx__merge_sizes(val);
    if (!lengths_of(g, before, from) || !lengths_of(g, after, to))
        return;
    int64_t left = cfx_as_list(before)->len;
    const int64_t wanted = cfx_as_list(after)->len;
    if ((wanted == 1 && left > 1) || (wanted == 2 && left == 1)) /* which is made without looking */
        return;
    length *at = from;
    for (int64_t i = 0; i < wanted && left && to[i].n > 0; i++, at++, left--) {
        if (to[i].n != at->n)
            left = join(at, left, to[i].n);
        if (at->n == to[i].n) {
            if (!is_open(cfx_at(n->args, 1), i))
                ask_equal(g, at, &to[i]);
        } else if (at->n % to[i].n == 0 && at + left < from + CFX_MAX_DIMS) {
            memmove(at + 1, at, (size_t)left * sizeof *at);
            at[1] = (length){cfx__sym_binary(CFX__SYM_FLOORDIV, at->expr, to[i].expr),
                             at->n / to[i].n};
            left++;
        } else {
            return;
        }
    }
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Of what only data tells nothing is asked. */
static bool is_asked(const length *l) {
    return l->expr.tag != CFX_TAG_SYM || !cfx__sym_has_data(cfx_as_sym(l->expr));
}

/* Notes whether a < b, as it is at the example. */
static void ask_less(cfx__merging *g, const length *a, const length *b) {
    if (a->expr.tag != CFX_TAG_SYM && b->expr.tag != CFX_TAG_SYM)
        return;
    const bool less = a->n < b->n;
    const cfx__relation r = a->expr.tag == CFX_TAG_SYM
                                ? (cfx__relation){less ? CFX__LT : CFX__GE, a->expr, b->expr}
                                : (cfx__relation){less ? CFX__GT : CFX__LE, b->expr, a->expr};
    cfx_value_keep(r.a);
    cfx_value_keep(r.b);
    VEC_PUSH(*g->m->asked, r);
}

/* Argument i of a slice, or `fallback`. False where it is a number that only data tells. */
static bool position_of(const cfx__merging *g, const cfx_node *n, int64_t i, length fallback,
                        length *out) {
    cfx_value v = i < cfx_as_list(n->args)->len ? cfx_at(n->args, i) : cfx_none();
    *out = fallback;
    if (v.tag == CFX_TAG_NODE)
        v = cfx_node_get_meta(cfx_as_node(v), "val");
    out->expr = cfx_is_none(v) ? fallback.expr : v;
    return cfx_is_none(v) || cfx__worlds_eval(g->m->worlds, 0, v, &out->n);
}

/* A position counts from the end where it is negative, and ends where the tensor does. */
static void ask_place(cfx__merging *g, length *at, const length *size) {
    const length zero = {cfx_int(0), 0};
    ask_less(g, at, &zero);
    if (at->n < 0) {
        *at = (length){cfx__sym_binary(CFX__SYM_ADD, at->expr, size->expr), at->n + size->n};
        ask_less(g, at, &zero);
    }
    if (at->n >= 0)
        ask_less(g, size, at);
}

void cfx__merge_note_slice(cfx__merging *g, const cfx_node *n) {
    length size[CFX_MAX_DIMS], start, end;
    const bool slice = n->op == CFX_CALL_FUNCTION && n->target.op == &cfx_op_slice_Tensor;
    const cfx_value of = slice ? cfx_at(n->args, 0) : cfx_none();
    if (!g->m->asked || of.tag != CFX_TAG_NODE)
        return;
    const cfx_value val = cfx_node_get_meta(cfx_as_node(of), "val");
    const cfx_tensor *fixed = val.tag == CFX_TAG_TENSOR ? cfx_as_tensor(val) : NULL;
    const cfx_value sizes =
        fixed ? cfx_ints_value(fixed->ndim, fixed->shape) : cfx__merge_sizes(val);
    if (!lengths_of(g, sizes, size))
        return;
    const int64_t ndim = cfx_as_list(sizes)->len;
    int64_t dim = cfx_as_list(n->args)->len > 1 ? cfx_integer(cfx_at(n->args, 1)) : 0;
    dim += dim < 0 ? ndim : 0;
    if (dim < 0 || dim >= ndim || !position_of(g, n, 2, (length){cfx_int(0), 0}, &start) ||
        !position_of(g, n, 3, size[dim], &end))
        return;
    if (!is_asked(&start) || !is_asked(&end) || !is_asked(&size[dim]))
        return;
    ask_place(g, &start, &size[dim]);
    if (end.n < INT64_MAX)
        ask_place(g, &end, &size[dim]);
    if (start.n >= 0 && end.n >= 0)
        ask_less(g, &end, &start);
}
