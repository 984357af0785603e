/* Non-integer numbers that depend on sizes: finds the arithmetic on sizes that gives them. As
 * for integers, it must give exactly the value of every world. Start at cfx__merge_real. */
#include "merge.h"
#include "relations.h"

#include <math.h>

void cfx__merge_note_real(cfx__merging *g, const cfx_value *v, cfx_node *n) {
    struct cfx__real r = {.node = n};
    for (int k = 0; k < g->m->worlds->n; k++)
        r.at[k] = cfx_number(v[k]);
    VEC_PUSH(g->reals, r);
}

/* What PyTorch calls the result of arithmetic that gives no integer: IntTrueDiv(s0, 3). None where
 * it is other arithmetic. */
cfx_value cfx__merge_real_text(const cfx_node *n) {
    static const struct {
        const char *function, *name;
        int n;
    } forms[] = {{"torch.sym_float", "ToFloat", 1},
                 {"operator.pow", "FloatPow", 2},
                 {"operator.truediv", "IntTrueDiv", 2}};
    cfx__text out = {0};
    for (int i = 0; i < COUNT(forms); i++) {
        if (strcmp(forms[i].function, n->target.name) || cfx_as_list(n->args)->len != forms[i].n)
            continue;
        for (int k = 0; k < forms[i].n; k++)
            cfx__text_printf(&out, "%s%s", k ? ", " : "",
                             cfx_value_str(cfx__reify_meaning(cfx_as_list(n->args)->items[k])));
        const char *args = cfx__text_take(&out);
        return cfx_string_value(cfx__text_format("%s(%s)", forms[i].name, args));
    }
    return cfx_none();
}

/* A node of such arithmetic. */
static cfx_value make_node(cfx__merging *g, const char *function, cfx_value args, double now) {
    cfx_node *n = cfx__reify_node(g, function, args, cfx_float(now));
    cfx_value text = n->graph ? cfx__merge_real_text(n) : cfx_none();
    if (!cfx_is_none(text))
        cfx_node_set_meta(n, "val", text);
    return cfx_node_value(n);
}

static cfx_value noted(cfx__merging *g, const double *at) {
    for (size_t i = 0; i < g->reals.len; i++)
        if (!memcmp(g->reals.data[i].at, at, (size_t)g->m->worlds->n * sizeof *at))
            return cfx_node_value(g->reals.data[i].node);
    return cfx_none();
}

/* The expression of numbers that are integers up to rounding; None where there is none. */
static cfx_value whole(const cfx__merging *g, const double *at) {
    cfx__seen seen = {0};
    for (int k = 0; k < g->m->worlds->n; k++) {
        double near = rint(at[k]);
        if (!(fabs(at[k] - near) <= 1e-9 * fabs(near)) || fabs(near) > 1e15)
            return cfx_none();
        seen.at[k] = (int64_t)near;
    }
    return cfx__exprs_fit(g->exprs, &seen);
}

typedef double real_fn(double size, double number);

static double as_float(double size, double number) { return (void)number, size; }
static double quotient(double size, double number) { return size / number; }
static double inverse(double size, double number) { return number / size; }
static double product(double size, double number) { return size * number; }
static double power(double size, double number) { return pow(size, number); }
static double under_root(double size, double number) { return 1 / pow(size, number); }

/* Whether the function of an expression and a number gives what was seen. */
static bool gives(const cfx__merging *g, real_fn *fn, cfx_value size, double number,
                  const double *at) {
    for (int k = 0; k < g->m->worlds->n; k++) {
        int64_t now;
        if (!cfx__worlds_eval(g->m->worlds, k, size, &now) || fn((double)now, number) != at[k])
            return false;
    }
    return true;
}

/* A node for the function of an expression and a number; bad, with an error. */
static cfx_value make(cfx__merging *g, real_fn *fn, cfx_value expr, cfx_value number) {
    cfx_value size = cfx__reify(g, expr, true);
    int64_t now = 1;
    cfx__worlds_eval(g->m->worlds, 0, expr, &now);
    double at = (double)now, by = cfx_number(number);
    if (!cfx_is_bad(size) && (fn == as_float || fn == power || fn == under_root))
        size = make_node(g, "torch.sym_float", cfx_tuple(size), at);
    if (!cfx_is_bad(size) && fn == under_root) {
        cfx_value root = make_node(g, "operator.pow", cfx_tuple(size, number), pow(at, by));
        return make_node(g, "operator.truediv", cfx_tuple(1, root), fn(at, by));
    }
    if (cfx_is_bad(size) || fn == as_float)
        return size;
    const char *function = fn == power     ? "operator.pow"
                           : fn == product ? "operator.mul"
                                           : "operator.truediv";
    cfx_value args = fn == inverse ? cfx_tuple(number, size) : cfx_tuple(size, number);
    return make_node(g, function, args, fn(at, by));
}

/* size / 3, 3 / size, and the number itself. */
static cfx_value find_quotient(cfx__merging *g, const double *at) {
    enum { LARGEST = 256 };
    for (int64_t by = 1; by <= LARGEST; by++)
        for (int over = 0; over < 2; over++) {
            double numbers[CFX__WORLDS];
            for (int k = 0; k < g->m->worlds->n; k++)
                numbers[k] = over ? (double)by / at[k] : at[k] * (double)by;
            cfx_value size = whole(g, numbers);
            real_fn *fn = over ? inverse : by == 1 ? as_float : quotient;
            if (size.tag == CFX_TAG_SYM && gives(g, fn, size, (double)by, at))
                return make(g, fn, size, cfx_int(by));
        }
    return cfx_none();
}

/* The square root of a size, or its inverse. */
static cfx_value find_root(cfx__merging *g, const double *at) {
    for (int under = 0; under < 2; under++) {
        double squares[CFX__WORLDS], to = under ? -0.5 : 0.5;
        for (int k = 0; k < g->m->worlds->n; k++)
            squares[k] = under ? 1 / (at[k] * at[k]) : at[k] * at[k];
        cfx_value size = whole(g, squares);
        if (size.tag == CFX_TAG_SYM && gives(g, power, size, to, at))
            return make(g, power, size, cfx_float(to));
        if (under && size.tag == CFX_TAG_SYM && gives(g, under_root, size, 0.5, at))
            return make(g, under_root, size, cfx_float(0.5));
    }
    return cfx_none();
}

/* A size times a number. */
static cfx_value find_product(cfx__merging *g, const double *at) {
    for (size_t i = 0; i < g->exprs->known.len; i++) {
        cfx_value size = g->exprs->known.data[i].expr;
        double by = at[0] / (double)g->exprs->known.data[i].seen.at[0];
        if (isfinite(by) && gives(g, product, size, by, at))
            return make(g, product, size, cfx_float(by));
    }
    return cfx_none();
}

/* One size by another. */
static cfx_value find_ratio(cfx__merging *g, const double *at) {
    const cfx__exprs *x = g->exprs;
    for (size_t i = 0; i < x->known.len; i++)
        for (size_t j = 0; j < x->known.len; j++) {
            bool fits = true;
            for (int k = 0; k < g->m->worlds->n && fits; k++)
                fits = (double)x->known.data[i].seen.at[k] / (double)x->known.data[j].seen.at[k] ==
                       at[k];
            if (!fits)
                continue;
            cfx_value a = cfx__reify(g, x->known.data[i].expr, true);
            cfx_value b = cfx_is_bad(a) ? a : cfx__reify(g, x->known.data[j].expr, true);
            return cfx_is_bad(b) ? b : make_node(g, "operator.truediv", cfx_tuple(a, b), at[0]);
        }
    return cfx_none();
}

cfx_value cfx__merge_real(cfx__merging *g, const cfx_value *v) {
    typedef cfx_value find_fn(cfx__merging *, const double *);
    static find_fn *const finds[] = {noted, find_quotient, find_root, find_ratio, find_product};
    double at[CFX__WORLDS];
    for (int k = 0; k < g->m->worlds->n; k++)
        at[k] = cfx_number(v[k]);
    cfx_value found = cfx_none();
    for (int i = 0; i < COUNT(finds) && cfx_is_none(found); i++)
        found = finds[i](g, at);
    if (found.tag == CFX_TAG_NODE)
        cfx__merge_note_real(g, v, cfx_as_node(found));
    return found;
}

/* ---- truths ---------------------------------------------------------------------------------- */

/* The comparison that a node is; false where no side of it varies. */
static bool is_comparison(const cfx_node *n, cfx__relation *out) {
    if (n->op != CFX_CALL_FUNCTION || cfx_as_list(n->args)->len != 2 ||
        !cfx__relation_named(n->target.name, &out->op))
        return false;
    out->a = cfx__reify_meaning(cfx_at(n->args, 0));
    out->b = cfx__reify_meaning(cfx_at(n->args, 1));
    return out->a.tag == CFX_TAG_SYM || out->b.tag == CFX_TAG_SYM;
}

cfx_value cfx__merge_truth_text(const cfx_node *n) {
    cfx__relation r;
    return is_comparison(n, &r) ? cfx_string_value(cfx__relation_text(&r)) : cfx_none();
}

static bool is_whole(cfx_value v) { return v.tag == CFX_TAG_SYM || v.tag == CFX_TAG_INT; }

void cfx__merge_note_truth(cfx__merging *g, cfx_node *n, bool truth) {
    static const cfx__rel turned[] = {[CFX__EQ] = CFX__EQ, [CFX__NE] = CFX__NE,
                                      [CFX__LT] = CFX__GT, [CFX__LE] = CFX__GE,
                                      [CFX__GT] = CFX__LT, [CFX__GE] = CFX__LE};
    cfx__relation r;
    if (!g->m->asked || !is_comparison(n, &r) || !is_whole(r.a) || !is_whole(r.b))
        return;
    r = truth ? r : cfx__relation_not(r);
    if (r.a.tag != CFX_TAG_SYM) /* numbers are on the right */
        r = (cfx__relation){turned[r.op], r.b, r.a};
    struct cfx__compared one = {n, r};
    cfx_value_keep(r.a);
    cfx_value_keep(r.b);
    VEC_PUSH(g->compared, one);
}

void cfx__merge_end_truths(cfx__merging *g) {
    for (size_t i = 0; i < g->compared.len; i++) {
        struct cfx__compared *c = &g->compared.data[i];
        if (c->node->erased) {
            VEC_PUSH(*g->m->asked, c->c);
        } else {
            cfx_value_drop(c->c.a);
            cfx_value_drop(c->c.b);
        }
    }
    VEC_FREE(g->compared);
}
