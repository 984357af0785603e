/* Symbolic integers: sums, products, quotients, remainders, minima and maxima over named sizes.
 *
 * Invariant: every expression is kept in sympy's form, built by cfx__sym_binary only. A sum is a
 * left-leaning chain of terms in printing order; a term is a left-leaning chain of factors, its
 * number first; equal terms and factors are joined. So equal expressions have equal trees, and
 * printing is one walk. Numbers that do not fit 64 bits are an error. */
#include "value.h"

typedef struct cfx_sym sym;

enum { LARGEST = 2000 }; /* operations in an expression */

static void sym_free(void *p) {
    cfx_drop(((sym *)p)->a);
    cfx_drop(((sym *)p)->b);
}

static const cfx__obj_type sym_type = {.name = "sym", .free = sym_free};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Records the error where the result does not fit 64 bits; it is 1 then, so that nothing divides by
 * what is not there. */
static int64_t number(cfx__sym_op op, int64_t a, int64_t b) {
    int64_t made;
    if (cfx__sym_apply(op, a, b, &made))
        return made;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "a number in an expression of sizes does not fit 64 bits");
    return 1;
}

static int64_t add(int64_t a, int64_t b) { return number(CFX__SYM_ADD, a, b); }
static int64_t mul(int64_t a, int64_t b) { return number(CFX__SYM_MUL, a, b); }
static int64_t quotient(int64_t a, int64_t b) { return number(CFX__SYM_FLOORDIV, a, b); }

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = b == -1 ? 0 : a % b;
        a = b;
        b = r;
    }
    return a < 0 ? mul(a, -1) : a;
}

/* ---- make ------------------------------------------------------------------------------------ */

static sym *constant(int64_t i) {
    sym *s = cfx__obj_new(&sym_type, sizeof *s);
    s->op = CFX__SYM_INT;
    s->hint = i;
    s->has_hint = true;
    return s;
}

static sym *make(cfx__sym_op op, sym *a, sym *b) {
    sym *s = cfx__obj_new(&sym_type, sizeof *s);
    s->op = op;
    s->a = cfx_keep(a);
    s->b = cfx_keep(b);
    s->size = a->size + b->size + 1;
    s->has_hint = a->has_hint && b->has_hint && cfx__sym_apply(op, a->hint, b->hint, &s->hint);
    return s;
}

static cfx_value as_value(sym *s) {
    if (s->op == CFX__SYM_INT)
        return cfx_int(s->hint);
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_SYM;
    v.sym_ = s;
    return v;
}

static sym *from_value(cfx_value v) {
    if (v.tag == CFX_TAG_SYM)
        return v.sym_;
    return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL ? constant(cfx_integer(v)) : NULL;
}

cfx_value cfx__sym_name(const char *name, bool has_hint, int64_t hint) {
    size_t len = strlen(name) + 1;
    sym *s = cfx__obj_new(&sym_type, sizeof *s + len);
    s->op = CFX__SYM_NAME;
    s->has_hint = has_hint;
    s->hint = has_hint ? hint : 0;
    s->name = memcpy(s + 1, name, len);
    return as_value(s);
}

static sym *hinted(sym *s, const cfx_dict *hints) {
    if (s->op == CFX__SYM_INT)
        return s;
    if (s->op != CFX__SYM_NAME)
        return make(s->op, hinted(s->a, hints), hinted(s->b, hints));
    cfx_value hint = cfx_dict_get(hints, s->name);
    return cfx__sym_name(s->name, hint.tag == CFX_TAG_INT, cfx_integer(hint)).sym_;
}

cfx_value cfx__sym_hinted(cfx_value v, const cfx_dict *hints) {
    return v.tag == CFX_TAG_SYM ? as_value(hinted(v.sym_, hints)) : v;
}

/* ---- order and equality ---------------------------------------------------------------------- */

bool cfx__sym_has_data(const sym *e) {
    return e && (e->op == CFX__SYM_NAME ? *e->name == 'u'
                                        : cfx__sym_has_data(e->a) || cfx__sym_has_data(e->b));
}

bool cfx__sym_equal(const sym *a, const sym *b) {
    if (a == b)
        return true;
    if (!a || !b || a->op != b->op)
        return false;
    if (a->op == CFX__SYM_INT)
        return a->hint == b->hint;
    if (a->op == CFX__SYM_NAME)
        return !strcmp(a->name, b->name);
    return cfx__sym_equal(a->a, b->a) && cfx__sym_equal(a->b, b->b);
}

uint64_t cfx__sym_hash(const sym *s) {
    uint64_t h = (uint64_t)s->op;
    if (s->op == CFX__SYM_INT)
        return h * 31 + (uint64_t)s->hint;
    if (s->op == CFX__SYM_NAME)
        return h * 31 + cfx__text_hash(s->name, strlen(s->name));
    return cfx__hash_mix(cfx__hash_mix(h, cfx__sym_hash(s->a)), cfx__sym_hash(s->b));
}

/* What a number is multiplied with, and that number, in 4*x; else s itself. */
static const sym *without_number(const sym *s, int64_t *times) {
    bool is = s->op == CFX__SYM_MUL && s->a->op == CFX__SYM_INT;
    *times = is ? s->a->hint : 1;
    return is ? s->b : s;
}

/* sympy's order of factors: numbers, symbols by name, powers and products, sums, functions by the
 * name of the function. Numbers that these are multiplied with count last. */
static int order(const sym *a, const sym *b) {
    static const int8_t rank[] = {[CFX__SYM_INT] = 0,      [CFX__SYM_NAME] = 1, [CFX__SYM_POW] = 2,
                                  [CFX__SYM_MUL] = 2,      [CFX__SYM_ADD] = 3,
                                  [CFX__SYM_FLOORDIV] = 4, [CFX__SYM_MAX] = 5,
                                  [CFX__SYM_MIN] = 6,      [CFX__SYM_MOD] = 7};
    int64_t x, y;
    if (a == b)
        return 0;
    const sym *one = without_number(a, &x), *other = without_number(b, &y);
    if (one != a || other != b) {
        int c = order(one, other);
        return c ? c : (x > y) - (x < y);
    }
    if (rank[a->op] != rank[b->op])
        return rank[a->op] < rank[b->op] ? -1 : 1;
    if (a->op == CFX__SYM_INT)
        return (a->hint > b->hint) - (a->hint < b->hint);
    if (a->op == CFX__SYM_NAME)
        return strcmp(a->name, b->name);
    int c = order(a->a, b->a);
    return c ? c : order(a->b, b->b);
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* coef * base^exp * base^exp ..., factors in order, exponents at least 1. */
typedef struct factor {
    sym *base;
    int64_t exp;
} factor;

typedef struct term {
    int64_t coef;
    VEC(factor) f;
} term;

typedef VEC(term) sum;

static void sum_release(sum *s) {
    for (size_t i = 0; i < s->len; i++)
        VEC_FREE(s->data[i].f);
    VEC_FREE(*s);
}

static void term_times(term *t, sym *base, int64_t exp) {
    size_t i = 0;
    while (i < t->f.len && order(t->f.data[i].base, base) < 0)
        i++;
    if (i < t->f.len && cfx__sym_equal(t->f.data[i].base, base)) {
        t->f.data[i].exp = add(t->f.data[i].exp, exp);
        return;
    }
    VEC_PUSH(t->f, ((factor){base, exp}));
    memmove(t->f.data + i + 1, t->f.data + i, (t->f.len - 1 - i) * sizeof *t->f.data);
    t->f.data[i] = (factor){base, exp};
}

/* Multiplies s^exp into t. */
static void term_split(term *t, sym *s, int64_t exp) {
    if (s->op == CFX__SYM_INT) {
        t->coef = mul(t->coef, number(CFX__SYM_POW, s->hint, exp));
    } else if (s->op == CFX__SYM_MUL) {
        term_split(t, s->a, exp);
        term_split(t, s->b, exp);
    } else if (s->op == CFX__SYM_POW && s->b->op == CFX__SYM_INT && s->b->hint > 0) {
        term_split(t, s->a, mul(exp, s->b->hint));
    } else {
        term_times(t, s, exp);
    }
}

/* The order of terms in a sum: the higher power of the first symbol in which they differ is first,
 * so constants are last. */
static int term_order(const term *x, const term *y) {
    size_t n = x->f.len < y->f.len ? x->f.len : y->f.len;
    for (size_t i = 0; i < n; i++) {
        int c = order(x->f.data[i].base, y->f.data[i].base);
        if (c)
            return c;
        if (x->f.data[i].exp != y->f.data[i].exp)
            return x->f.data[i].exp > y->f.data[i].exp ? -1 : 1;
    }
    return (x->f.len < y->f.len) - (x->f.len > y->f.len);
}

/* Adds scale * s to the sum, which stays in order. */
static void sum_split(sum *out, sym *s, int64_t scale) {
    if (s->op == CFX__SYM_ADD) {
        sum_split(out, s->a, scale);
        sum_split(out, s->b, scale);
        return;
    }
    term t = {.coef = scale};
    term_split(&t, s, 1);
    size_t i = 0;
    int c = -1;
    while (i < out->len && (c = term_order(&out->data[i], &t)) < 0)
        i++;
    if (i < out->len && c == 0) {
        out->data[i].coef = add(out->data[i].coef, t.coef);
        VEC_FREE(t.f);
        return;
    }
    VEC_PUSH(*out, t);
    memmove(out->data + i + 1, out->data + i, (out->len - 1 - i) * sizeof t);
    out->data[i] = t;
}

static sym *sum_build(const sum *s);

/* A number times a sum alone is spread over it, as sympy does; other products are left. */
static sym *term_build(const term *t) {
    if (t->coef == 0 || t->f.len == 0)
        return constant(t->coef);
    if (t->coef != 1 && t->f.len == 1 && t->f.data[0].exp == 1 &&
        t->f.data[0].base->op == CFX__SYM_ADD) {
        sum spread = {0};
        sum_split(&spread, t->f.data[0].base, t->coef);
        sym *made = sum_build(&spread);
        sum_release(&spread);
        return made;
    }
    sym *made = t->coef == 1 ? NULL : constant(t->coef);
    for (size_t i = 0; i < t->f.len; i++) {
        factor f = t->f.data[i];
        sym *one = f.exp == 1 ? f.base : make(CFX__SYM_POW, f.base, constant(f.exp));
        made = made ? make(CFX__SYM_MUL, made, one) : one;
    }
    return made;
}

/* sympy prints 1 - s77, not -s77 + 1: a positive number before one negative term of one factor. */
static bool number_first(const sum *s) {
    return s->len == 2 && s->data[1].f.len == 0 && s->data[1].coef > 0 && s->data[0].coef < 0 &&
           s->data[0].f.len == 1;
}

static sym *sum_build(const sum *s) {
    if (number_first(s))
        return make(CFX__SYM_ADD, term_build(&s->data[1]), term_build(&s->data[0]));
    sym *made = NULL;
    for (size_t i = 0; i < s->len; i++) {
        if (s->data[i].coef == 0)
            continue;
        sym *one = term_build(&s->data[i]);
        made = made ? make(CFX__SYM_ADD, made, one) : one;
    }
    return made ? made : constant(0);
}

/* ---- operations ------------------------------------------------------------------------------ */

static sym *sym_add(sym *a, sym *b) {
    sum s = {0};
    sum_split(&s, a, 1);
    sum_split(&s, b, 1);
    size_t kept = 0; /* without zeros, so that number_first sees what is left */
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i].coef)
            s.data[kept++] = s.data[i];
        else
            VEC_FREE(s.data[i].f);
    }
    s.len = kept;
    sym *made = sum_build(&s);
    sum_release(&s);
    return made;
}

static sym *sym_mul(sym *a, sym *b) {
    term t = {.coef = 1};
    term_split(&t, a, 1);
    term_split(&t, b, 1);
    sym *made = term_build(&t);
    VEC_FREE(t.f);
    return made;
}

static sym *sym_pow(sym *a, sym *b) {
    if (b->op != CFX__SYM_INT || b->hint < 0)
        return make(CFX__SYM_POW, a, b);
    term t = {.coef = 1};
    if (b->hint > 0)
        term_split(&t, a, b->hint);
    sym *made = term_build(&t);
    VEC_FREE(t.f);
    return made;
}

static int64_t exponent_of(const term *t, const sym *base) {
    for (size_t i = 0; i < t->f.len; i++)
        if (cfx__sym_equal(t->f.data[i].base, base))
            return t->f.data[i].exp;
    return 0;
}

/* t / by, which divides it. */
static sym *term_quotient(const term *t, const term *by) {
    term q = {.coef = t->coef / by->coef};
    for (size_t i = 0; i < t->f.len; i++) {
        int64_t exp = t->f.data[i].exp - exponent_of(by, t->f.data[i].base);
        if (exp > 0)
            term_times(&q, t->f.data[i].base, exp);
    }
    sym *made = term_build(&q);
    VEC_FREE(q.f);
    return made;
}

static bool term_divides(const term *by, const term *t) {
    if (by->coef == -1 || t->coef % by->coef)
        return false;
    for (size_t i = 0; i < by->f.len; i++)
        if (exponent_of(t, by->f.data[i].base) < by->f.data[i].exp)
            return false;
    return true;
}

/* Narrows `common` to what is a factor of t as well: s of 2*s, but not of s**2, as in PyTorch. */
static void term_common(term *common, const term *t) {
    common->coef = gcd(common->coef, t->coef);
    size_t kept = 0;
    for (size_t i = 0; i < common->f.len; i++) {
        factor f = common->f.data[i];
        if (exponent_of(t, f.base) == f.exp)
            common->f.data[kept++] = f;
    }
    common->f.len = kept;
}

/* a // b. Terms that the number b divides are taken out whole; what is left is freed of common
 * factors. */
static sym *sym_floordiv(sym *a, sym *b) {
    if (b->op == CFX__SYM_INT && b->hint == 1)
        return a;
    if (cfx__sym_equal(a, b))
        return constant(1);
    if (a->op == CFX__SYM_FLOORDIV)
        return sym_floordiv(a->a, sym_mul(a->b, b));
    sum terms = {0};
    term by = {.coef = 1}, common = {.coef = 1};
    sum_split(&terms, a, 1);
    term_split(&by, b, 1);
    term_split(&common, b, 1);
    sym *whole = constant(0), *rest = constant(0);
    for (size_t i = 0; i < terms.len; i++) {
        const term *t = &terms.data[i];
        if (b->op == CFX__SYM_INT && term_divides(&by, t))
            whole = sym_add(whole, term_quotient(t, &by));
        else
            rest = sym_add(rest, term_build(t));
    }
    sum_release(&terms);
    sum_split(&terms, rest, 1);
    for (size_t i = 0; i < terms.len; i++)
        term_common(&common, &terms.data[i]);
    bool freed = common.f.len || common.coef > 1;
    if (freed) {
        rest = constant(0);
        for (size_t i = 0; i < terms.len; i++)
            rest = sym_add(rest, term_quotient(&terms.data[i], &common));
        b = term_quotient(&by, &common);
    }
    sum_release(&terms);
    VEC_FREE(by.f);
    VEC_FREE(common.f);
    if (freed || rest->op == CFX__SYM_FLOORDIV) /* what is left may be taken together itself */
        return sym_add(whole, sym_floordiv(rest, b));
    if (rest->op == CFX__SYM_INT && (b->op == CFX__SYM_INT || rest->hint == 0))
        return sym_add(whole, constant(rest->hint ? quotient(rest->hint, b->hint) : 0));
    return sym_add(whole, make(CFX__SYM_FLOORDIV, rest, b));
}

static sym *sym_mod(sym *a, sym *b) {
    if (cfx__sym_equal(a, b) || (a->op == CFX__SYM_INT && a->hint == 0))
        return constant(0);
    if (a->op == CFX__SYM_INT && b->op == CFX__SYM_INT)
        return constant(number(CFX__SYM_MOD, a->hint, b->hint));
    sum terms = {0};
    term by = {.coef = 1};
    sum_split(&terms, a, 1);
    term_split(&by, b, 1);
    bool divides = true;
    for (size_t i = 0; divides && i < terms.len; i++)
        divides = term_divides(&by, &terms.data[i]);
    sum_release(&terms);
    VEC_FREE(by.f);
    return divides ? constant(0) : make(CFX__SYM_MOD, a, b);
}

typedef VEC(sym *) sym_vec;

/* Puts the arguments of nested minima or maxima in order, each once, numbers folded into one. */
static void bound_args(sym_vec *args, cfx__sym_op op, sym *s) {
    if (s->op == op) {
        bound_args(args, op, s->a);
        bound_args(args, op, s->b);
        return;
    }
    size_t i = 0;
    int c = -1;
    if (s->op == CFX__SYM_INT && args->len && args->data[0]->op == CFX__SYM_INT) {
        if ((op == CFX__SYM_MIN) == (s->hint < args->data[0]->hint))
            args->data[0] = s;
        return;
    }
    while (i < args->len && (c = order(args->data[i], s)) < 0)
        i++;
    if (i < args->len && c == 0)
        return;
    VEC_PUSH(*args, s);
    memmove(args->data + i + 1, args->data + i, (args->len - 1 - i) * sizeof s);
    args->data[i] = s;
}

static sym *sym_bound(cfx__sym_op op, sym *a, sym *b) {
    sym_vec args = {0};
    bound_args(&args, op, a);
    bound_args(&args, op, b);
    sym *made = args.data[0];
    for (size_t i = 1; i < args.len; i++)
        made = make(op, made, args.data[i]);
    VEC_FREE(args);
    return made;
}

static sym *combine(cfx__sym_op op, sym *a, sym *b) {
    switch (op) {
    case CFX__SYM_ADD: return sym_add(a, b);
    case CFX__SYM_MUL: return sym_mul(a, b);
    case CFX__SYM_FLOORDIV: return sym_floordiv(a, b);
    case CFX__SYM_MOD: return sym_mod(a, b);
    case CFX__SYM_POW: return sym_pow(a, b);
    default: return sym_bound(op, a, b);
    }
}

cfx_value cfx__sym_binary(cfx__sym_op op, cfx_value va, cfx_value vb) {
    if (cfx_is_bad(va) || cfx_is_bad(vb))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    sym *a = from_value(va), *b = from_value(vb);
    bool divides = op == CFX__SYM_FLOORDIV || op == CFX__SYM_MOD;
    cfx_value made = cfx_bad();
    if (!a || !b || op < CFX__SYM_ADD || op > CFX__SYM_MAX)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "unsupported operand type(s) for a symbolic integer: '%s' and '%s'",
                 cfx__value_python_type(va), cfx__value_python_type(vb));
    else if (divides && b->op == CFX__SYM_INT && b->hint == 0)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "division by zero");
    else if (a->size + b->size > LARGEST)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "an expression of sizes has more than %d operations", LARGEST);
    else
        made = as_value(combine(op, a, b));
    if (!cfx_ok())
        made = cfx_bad();
    return cfx_scope_return_value(mark, made);
}
