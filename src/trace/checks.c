/* Checks on data-dependent numbers during an export: torch._check and its relatives are assumed,
 * not computed. A relation that bounds a symbol narrows its range; others are stored. The
 * program asserts both where the symbol first appears (reads.c). Start at cfx__check_call. */
#include <cfx/ops.h>

#include "export.h"
#include "relations.h"

/* ---- relations ------------------------------------------------------------------------------- */

static bool is_not(const char *function) {
    return function && (!strcmp(function, "torch.sym_not") || !strcmp(function, "operator.not_"));
}

/* A side of a relation: an expression, or how it is called. A size without a name is what it is
 * now; other worlds say whether it is the same there (agreed). */
static cfx_value side(const cfx__recorder *r, cfx_value v) {
    const cfx__mark *m = cfx__mark_of(r, v);
    cfx_value expr = cfx__mark_expr(r, v);
    if (!cfx_is_none(expr))
        return cfx__value_plain(expr);
    if (m && v.tag == CFX_TAG_INT && !m->data)
        return cfx__value_plain(v);
    return m ? cfx_string_value(cfx__mark_text(r, v)) : v;
}

bool cfx__mark_relation(const cfx__recorder *r, cfx_value v, cfx__relation *out) {
    const cfx__mark *m = v.tag == CFX_TAG_BOOL ? cfx__mark_of(r, v) : NULL;
    if (!m)
        return false;
    if (m->symbol) { /* a truth that is data */
        *out = (cfx__relation){CFX__EQ, cfx__sym_name(m->symbol, false, 0), cfx_int(1)};
        return true;
    }
    if (is_not(m->function) && m->n == 1 && cfx__mark_relation(r, m->of[0], out)) {
        *out = cfx__relation_not(*out);
        return true;
    }
    if (m->n != 2 || !cfx__relation_named(m->function, &out->op))
        return false;
    out->a = side(r, m->of[0]);
    out->b = side(r, m->of[1]);
    return true;
}

bool cfx__mark_known(const cfx__recorder *r, cfx_value v, cfx_value *out) {
    const cfx__worlds *w = &((const cfx__export *)r)->dims->worlds;
    cfx__relation relation;
    int64_t only;
    if (v.tag == CFX_TAG_INT && cfx__relation_only(w, cfx__mark_expr(r, v), &only)) {
        *out = cfx_int(only);
        return true;
    }
    int known = cfx__mark_relation(r, v, &relation) ? cfx__relation_known(w, &relation) : -1;
    *out = cfx_bool(known == 1);
    return known >= 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Whether the relation is between expressions alone. */
static bool is_whole(const cfx__relation *r) {
    return (r->a.tag == CFX_TAG_SYM || r->a.tag == CFX_TAG_INT) &&
           (r->b.tag == CFX_TAG_SYM || r->b.tag == CFX_TAG_INT);
}

static bool is_about_data(const cfx__recorder *r, cfx_value cond) {
    cfx__relation relation;
    if (cfx__mark_is_data(r, cond))
        return true;
    if (!cfx__mark_relation(r, cond, &relation))
        return false;
    return (relation.a.tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(relation.a))) ||
           (relation.b.tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(relation.b)));
}

/* The assertion where it stands: what a branch checks is asserted in it, and what is no relation of
 * symbols cannot be anywhere else. */
void cfx__check_assert(cfx__recorder *r, cfx_site at, cfx_value cond) {
    const cfx__mark *m = cfx__mark_of(r, cond);
    if (!m || !m->node) /* all is recorded again, with numbers */
        return;
    cfx_value asks = cfx__record_arg(r, at, cond);
    if (cfx_is_bad(asks))
        return;
    const char *text =
        cfx__text_format("Runtime assertion failed for expression %s on node '%s'",
                         cfx__mark_text(r, cond), cfx_as_node(asks)->name);
    cfx__record_node(r, at, cfx_graph_target(r->graph, "aten._assert_scalar.default"),
                     cfx_tuple(asks, text), cfx_none(), NULL);
}

/* The side of a check as all worlds have it so far: C may have compared with a size, which is a
 * plain number, and has nothing to do with the data on the other side. Bad, with an error, where
 * there is no such expression. */
static cfx_value agreed(cfx__export *e, cfx_site at, cfx_value *all, cfx_value now,
                        cfx_value beside) {
    enum { RENAMES = 8 };
    cfx__worlds *w = &e->dims->worlds;
    int64_t was, is, expected;
    if (cfx_equal_values(*all, now))
        return now;
    if (!cfx__worlds_eval(w, e->k, now, &is) || !cfx__worlds_eval(w, 0, *all, &was))
        return now;
    if (cfx__worlds_eval(w, e->k, *all, &expected) && expected == is)
        return *all;
    cfx_value expr = cfx__relation_through(w, 0, was, e->k, is, beside);
    if (cfx_is_none(expr) || w->renames >= RENAMES)
        expr =
            all->tag == CFX_TAG_SYM ? cfx_int(was) : cfx_none(); /* in all worlds alike, or none */
    w->renames++;
    if (cfx_is_none(expr)) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "a check uses a dynamic size for which no expression was found: compute the size "
                 "by cfx_py(\"operator.mul\", "
                 "cfx_size(x, 0), 2) and its like");
        return cfx_bad();
    }
    cfx_value_drop(*all);
    *all = cfx_value_keep(expr);
    e->renamed = true;
    return expr;
}

/* The check as the same one was in other worlds; false with an error. */
static bool agree(cfx__export *e, cfx_site at, cfx__relation *r) {
    cfx__worlds *w = &e->dims->worlds;
    size_t i = (size_t)e->checked++;
    if (i >= w->asked.len) {
        cfx__relation first = {r->op, cfx_value_keep(r->a), cfx_value_keep(r->b)};
        VEC_PUSH(w->asked, first);
    }
    const cfx_value a = r->a;
    r->a = agreed(e, at, &w->asked.data[i].a, a, r->b);
    r->b = agreed(e, at, &w->asked.data[i].b, r->b, a);
    return cfx_ok();
}

static bool has_apart(const cfx__worlds *w, const cfx_sym *e) {
    if (!e || e->op != CFX__SYM_NAME)
        return e && (has_apart(w, e->a) || has_apart(w, e->b));
    const cfx__symbol *s = cfx__worlds_find(w, e->name);
    return s && s->apart;
}

/* Takes note of what is checked; false where it never holds. */
static bool assume(cfx__recorder *r, cfx_site at, cfx_value cond) {
    cfx__export *e = (cfx__export *)r;
    cfx__worlds *w = &e->dims->worlds;
    cfx__relation relation;
    cfx_value known;
    bool whole = cfx__mark_relation(r, cond, &relation) && is_whole(&relation);
    if (whole && !agree(e, at, &relation))
        return true;
    int holds = whole ? cfx__relation_known(w, &relation) : -1;
    if (!whole && cfx__mark_known(r, cond, &known))
        holds = cfx_as_bool(known);
    /* no node computes with a truth, so that it is asserted here, whatever was recorded before */
    bool truth = whole && relation.a.tag == CFX_TAG_SYM && has_apart(w, cfx_as_sym(relation.a));
    if (holds == 0 || (holds == 1 && !truth))
        return holds;
    if (!cfx_as_bool(cfx__value_plain(cond)))
        e->unlucky = true;
    if (!r->branch && whole)
        cfx__relation_assume(w, &relation);
    if (r->branch || !whole || truth)
        cfx__check_assert(r, at, cond);
    return true;
}

/* n is no less than min and no more than max, where they are given. */
static void constrain(cfx__recorder *r, cfx_site at, cfx_value n, cfx_value min, cfx_value max) {
    cfx__export *e = (cfx__export *)r;
    cfx__relation least = {CFX__GE, cfx__mark_expr(r, n), min},
                  most = {CFX__LE, least.a, max};
    int64_t now = cfx_integer(cfx__value_plain(n));
    if (min.tag == CFX_TAG_INT && max.tag == CFX_TAG_INT && cfx_integer(max) < cfx_integer(min)) {
        cfx_fail(CFX_VALUE_ERROR, at,
                 "Maximum value to constrain_as_size can't be less than the specified min value, "
                 "received min=%s and max=%s", cfx_value_str(min), cfx_value_str(max));
        return;
    }
    for (int i = 0; i < 2; i++) {
        const cfx__relation *one = i ? &most : &least;
        if (one->b.tag != CFX_TAG_INT)
            continue;
        if (!cfx__relation_known(&e->dims->worlds, one)) {
            cfx_fail(CFX_RUNTIME_ERROR, at, "Invalid ranges %s",
                     cfx__relation_range(&e->dims->worlds, one->a, min, max));
            return;
        }
        cfx__relation_assume(&e->dims->worlds, one);
    }
    e->unlucky |= min.tag == CFX_TAG_INT && now < cfx_integer(min);
    e->unlucky |= max.tag == CFX_TAG_INT && now > cfx_integer(max);
}

/* A number that is used as a size is chosen as sizes are from now on: none broadcasts. */
static void use_as_size(cfx__recorder *r, cfx_value n) {
    const cfx__mark *m = cfx__mark_of(r, n);
    cfx__symbol *s = m && m->symbol
                         ? cfx__worlds_find(&((cfx__export *)r)->dims->worlds, m->symbol)
                         : NULL;
    if (s)
        s->any = false;
}

bool cfx__check_assume(cfx__recorder *r, cfx_site at, cfx__relation relation) {
    cfx__export *e = (cfx__export *)r;
    cfx__worlds *w = &e->dims->worlds;
    if (r->branch || !is_whole(&relation) || !agree(e, at, &relation))
        return false;
    e->unlucky |= !cfx__relation_holds(w, e->k, &relation);
    if (cfx__relation_known(w, &relation))
        cfx__relation_assume(w, &relation);
    return true;
}

/* Whether the call takes parts of a tensor: n of them at `parts`, from `start` on, of a dimension
 * that has `size`. */
static bool takes_parts(cfx_op *op, const cfx_value *args, cfx_value *size, cfx_value *start,
                        const cfx_value **parts, int64_t *n) {
    bool split = op == &cfx_op_split_with_sizes || op == &cfx_op_split_sizes;
    if (!split && op != &cfx_op_narrow)
        return false;
    const cfx_tensor *t = cfx_as_tensor(args[0]);
    int64_t dim = cfx_integer(cfx__value_plain(args[split ? 2 : 1]));
    dim += dim < 0 ? t->ndim : 0;
    if (dim < 0 || dim >= t->ndim)
        return false;
    *size = cfx_int(t->shape[dim]);
    *start = split ? cfx_int(0) : args[2];
    *parts = split ? cfx_as_list(args[1])->items : &args[3];
    *n = split ? cfx_as_list(args[1])->len : 1;
    return true;
}

/* Parts that are data are together no more than the whole, or just as much. */
static void check_parts(cfx__recorder *r, cfx_site at, cfx_op *op, const cfx_value *args) {
    cfx_value size, start;
    const cfx_value *parts;
    int64_t n;
    if (!takes_parts(op, args, &size, &start, &parts, &n))
        return;
    cfx_value sum = side(r, start);
    bool data = cfx__mark_is_data(r, start);
    for (int64_t i = 0; i < n; i++) {
        cfx_value part = side(r, parts[i]);
        if (cfx__mark_is_data(r, parts[i])) {
            data = true;
            use_as_size(r, parts[i]);
            cfx__check_assume(r, at, (cfx__relation){CFX__GE, part, cfx_int(0)});
        }
        if (part.tag == CFX_TAG_STR || sum.tag == CFX_TAG_STR)
            return;
        sum = cfx__sym_binary(CFX__SYM_ADD, sum, part);
    }
    if (data)
        cfx__check_assume(
            r, at, (cfx__relation){op == &cfx_op_narrow ? CFX__LE : CFX__EQ, sum, size});
}

/* Whether it is known on which side of 0 a number is. */
static bool has_sign(const cfx__recorder *r, cfx_value v) {
    const cfx__relation below = {CFX__LT, side(r, v), cfx_int(0)};
    return cfx__relation_known(&((const cfx__export *)r)->dims->worlds, &below) >= 0;
}

/* How long a slice is whose ends are data follows from them where it is known whether they count
 * from the end, and which is the larger; else it is a number of its own, as in PyTorch. */
static void check_slice(cfx__recorder *r, cfx_op *op, const cfx_value *args) {
    cfx__export *e = (cfx__export *)r;
    e->cut = false;
    if (op != &cfx_op_slice_Tensor)
        return;
    bool data[] = {cfx__mark_is_data(r, args[2]), cfx__mark_is_data(r, args[3])};
    for (int i = 0; i < 2; i++)
        e->cut |= data[i] && !has_sign(r, args[2 + i]);
    const cfx__relation order = {CFX__LE, side(r, args[2]), side(r, args[3])};
    e->cut |= data[0] && data[1] && cfx__relation_known(&e->dims->worlds, &order) < 0;
    const cfx_tensor *t = cfx_as_tensor(args[0]);
    int64_t dim = cfx_integer(cfx__value_plain(args[1]));
    dim += dim < 0 ? t->ndim : 0;
    if (dim >= 0 && dim < t->ndim)
        e->whole = t->shape[dim];
}

/* That of a new tensor is no less than 0, as PyTorch says when it makes one. */
static void check_sizes(cfx__recorder *r, cfx_site at, const cfx__schema *s,
                        const cfx_value *args) {
    for (int k = 0; k < s->nargs; k++) {
        bool sizes = s->args[k].list && s->args[k].sym && args[k].tag == CFX_TAG_LIST;
        bool makes = !k && sizes && s->args[k].name && !strcmp(s->args[k].name, "size");
        for (int64_t i = 0; sizes && i < cfx_as_list(args[k])->len; i++) {
            cfx_value n = cfx_as_list(args[k])->items[i];
            if (!cfx__mark_is_data(r, n))
                continue;
            use_as_size(r, n);
            if (makes && cfx__mark_expr(r, n).tag == CFX_TAG_SYM)
                constrain(r, at, n, cfx_int(0), cfx_none());
        }
    }
}

bool cfx__check_call(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args,
                     cfx_value *result) {
    bool is_check = op == &cfx_op_python__check || op == &cfx_op_python__check_value ||
                    op == &cfx_op_python__check_index || op == &cfx_op_python__check_type ||
                    op == &cfx_op_python__assert || op == &cfx_op__assert_scalar;
    bool size = op == &cfx_op_python__check_is_size;
    bool for_size = op == &cfx_op_sym_constrain_range_for_size;
    bool ranges = size || for_size || op == &cfx_op_sym_constrain_range;
    if (r->marks && !is_check && !ranges) {
        check_sizes(r, at, cfx__op_info_of(op)->schema, args);
        check_parts(r, at, op, args);
        check_slice(r, op, args);
    }
    if (!r->marks || (!is_check && !ranges))
        return false;
    *result = cfx_none();
    if (is_check && is_about_data(r, args[0])) {
        if (assume(r, at, args[0]))
            return true;
        args[0] = cfx_bool(false); /* which says so itself */
        if (op == &cfx_op__assert_scalar)
            cfx_fail(CFX_RUNTIME_ERROR, at, "%s", cfx_text(args[1]));
        return op == &cfx_op__assert_scalar;
    }
    bool truth = is_check && args[0].tag == CFX_TAG_BOOL;
    if (truth && cfx__value_mark(args[0]) && ((cfx__export *)r)->data_sizes)
        cfx__check_assert(r, at, args[0]); /* a size that may be made of data */
    if (truth && op == &cfx_op__assert_scalar && cfx_as_bool(cfx__value_plain(args[0])))
        return true; /* which holds: there is nothing to assert */
    if (ranges && !cfx_is_none(cfx__mark_expr(r, args[0])) &&
        cfx__mark_expr(r, args[0]).tag == CFX_TAG_SYM) {
        bool from_zero = size || (for_size && cfx_is_none(args[1]));
        if (size || for_size)
            use_as_size(r, args[0]);
        constrain(r, at, args[0], from_zero ? cfx_int(0) : args[1], args[2]);
        return true;
    }
    if (op == &cfx_op_python__assert && args[0].tag == CFX_TAG_TENSOR &&
        cfx_as_tensor(args[0])->head.flags & CFX__FAKE) { /* as torch.compile has it */
        *result = cfx_op_do_from(at, cfx_op_find("aten._assert_async.msg"),
                                 CFX_ARGS(args[0], args[1]));
        return true;
    }
    return false;
}
