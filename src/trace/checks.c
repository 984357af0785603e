/* What forward checks of numbers that are data, while it is exported: torch._check and its like are
 * not computed, but assumed. A relation that bounds a symbol narrows its range, others are kept;
 * both are asserted in the program where the symbol first appears (reads.c). Start at
 * cfx__check_call. */
#include <cfx/ops.h>

#include "export.h"
#include "relations.h"

/* ---- relations ------------------------------------------------------------------------------- */

static bool is_not(const char *function) {
    return function && (!strcmp(function, "torch.sym_not") || !strcmp(function, "operator.not_"));
}

/* A side of a relation: an expression, or how it is called. */
static cfx_value side(const cfx__recorder *r, cfx_value v) {
    cfx_value expr = cfx__mark_expr(r, v);
    if (!cfx_is_none(expr))
        return cfx__value_plain(expr);
    return cfx__mark_of(r, v) ? cfx_string_value(cfx__mark_text(r, v)) : v;
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

static bool has_data(const cfx_sym *e) {
    return e && (e->op == CFX__SYM_NAME ? *e->name == 'u' : has_data(e->a) || has_data(e->b));
}

static bool is_about_data(const cfx__recorder *r, cfx_value cond) {
    cfx__relation relation;
    if (cfx__mark_is_data(r, cond))
        return true;
    if (!cfx__mark_relation(r, cond, &relation))
        return false;
    return (relation.a.tag == CFX_TAG_SYM && has_data(cfx_as_sym(relation.a))) ||
           (relation.b.tag == CFX_TAG_SYM && has_data(cfx_as_sym(relation.b)));
}

/* The assertion where it stands: what a branch checks is asserted in it, and what is no relation of
 * symbols cannot be anywhere else. */
static void assert_here(cfx__recorder *r, cfx_site at, cfx_value cond) {
    const cfx__mark *m = cfx__mark_of(r, cond);
    if (!m->node) /* all is recorded again, with numbers */
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

/* Takes note of what is checked. */
static void assume(cfx__recorder *r, cfx_site at, cfx_value cond) {
    cfx__export *e = (cfx__export *)r;
    cfx__relation relation;
    cfx_value known;
    if (cfx__mark_known(r, cond, &known)) {
        if (!cfx_as_bool(known))
            cfx_fail(CFX_RUNTIME_ERROR, at, "Runtime assertion failed for expression %s: it never "
                     "holds", cfx__mark_text(r, cond));
        return;
    }
    if (!cfx_as_bool(cfx__value_plain(cond)))
        e->unlucky = true;
    if (!r->branch && cfx__mark_relation(r, cond, &relation) && is_whole(&relation))
        cfx__relation_assume(&e->dims->worlds, &relation);
    else
        assert_here(r, at, cond);
}

/* n is no less than min and no more than max, where they are given. */
static void constrain(cfx__recorder *r, cfx_site at, cfx_value n, cfx_value min, cfx_value max) {
    cfx__export *e = (cfx__export *)r;
    cfx__relation least = {CFX__GE, cfx__mark_expr(r, n), min},
                  most = {CFX__LE, least.a, max};
    int64_t now = cfx_integer(cfx__value_plain(n));
    if (cfx_is_none(least.a)) {
        cfx_fail(CFX_VALUE_ERROR, at, "Constraining %s is not supported: it is no symbol",
                 cfx__mark_text(r, n));
        return;
    }
    if (min.tag == CFX_TAG_INT) {
        cfx__relation_assume(&e->dims->worlds, &least);
        e->unlucky |= now < cfx_integer(min);
    }
    if (max.tag == CFX_TAG_INT) {
        cfx__relation_assume(&e->dims->worlds, &most);
        e->unlucky |= now > cfx_integer(max);
    }
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
    if (r->marks && !is_check && !ranges)
        check_sizes(r, at, cfx__op_info_of(op)->schema, args);
    if (!r->marks || (!is_check && !ranges))
        return false;
    *result = cfx_none();
    if (is_check && is_about_data(r, args[0])) {
        assume(r, at, args[0]);
        return true;
    }
    bool truth = is_check && args[0].tag == CFX_TAG_BOOL;
    if (truth && cfx__value_mark(args[0]) && ((cfx__export *)r)->data_sizes)
        assert_here(r, at, args[0]); /* a size that may be made of data */
    if (truth && op == &cfx_op__assert_scalar && cfx_as_bool(cfx__value_plain(args[0])))
        return true; /* which holds: there is nothing to assert */
    if (ranges && !cfx_is_none(cfx__mark_expr(r, args[0])) &&
        cfx__mark_expr(r, args[0]).tag == CFX_TAG_SYM) {
        bool from_zero = size || (for_size && cfx_is_none(args[1]));
        if (size || for_size)
            use_as_size(r, args[0]);
        constrain(r, at, args[0], from_zero ? cfx_int(0) : args[1],
                  size ? cfx_none() : args[2]);
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
