/* Expressions of sizes as text, the way sympy and PyTorch print them. Start at cfx__sym_print. */
#include "value.h"

typedef struct cfx_sym sym;

/* ---- signs ----------------------------------------------------------------------------------- */

/* From least to most; INT64_MIN and INT64_MAX where there is no bound. */
typedef struct {
    int64_t least, most;
} range;

static const range any = {INT64_MIN, INT64_MAX};

static bool is_bound(int64_t x) { return x != INT64_MIN && x != INT64_MAX; }

/* a + b, where one of no bound stays so; `none` where it does not fit. */
static int64_t bound_add(int64_t a, int64_t b, int64_t none) {
    int64_t sum;
    return is_bound(a) && is_bound(b) && !__builtin_add_overflow(a, b, &sum) ? sum : none;
}

/* The products of bounds of numbers that are not negative. */
static int64_t bound_mul(int64_t a, int64_t b, int64_t none) {
    int64_t product;
    return is_bound(a) && is_bound(b) && !__builtin_mul_overflow(a, b, &product) ? product : none;
}

static range range_negated(range r) {
    return (range){is_bound(r.most) ? -r.most : INT64_MIN,
                   is_bound(r.least) ? -r.least : INT64_MAX};
}

static range range_mul(range a, range b) {
    if (a.least == -1 && a.most == -1)
        return range_negated(b);
    if (a.most < 0)
        return range_negated(range_mul(range_negated(a), b));
    if (a.least < 0 || b.least < 0)
        return any;
    return (range){bound_mul(a.least, b.least, 0), bound_mul(a.most, b.most, INT64_MAX)};
}

/* What an expression can be where sizes are 2 or more and what depends on data is not negative, as
 * far as the bounds of its parts tell. */
static range range_of(const sym *s) {
    if (s->op == CFX__SYM_INT)
        return (range){s->hint, s->hint};
    if (s->op == CFX__SYM_NAME)
        return (range){*s->name == 'u' ? 0 : 2, INT64_MAX};
    range a = range_of(s->a), b = range_of(s->b);
    switch (s->op) {
    case CFX__SYM_ADD:
        return (range){bound_add(a.least, b.least, INT64_MIN),
                       bound_add(a.most, b.most, INT64_MAX)};
    case CFX__SYM_MUL: return range_mul(a, b);
    case CFX__SYM_POW: return a.least >= 0 ? (range){a.least > 0, INT64_MAX} : any;
    case CFX__SYM_FLOORDIV:
        if (a.least < 0 || b.least <= 0)
            return any;
        return (range){b.most == INT64_MAX ? 0 : a.least / b.most,
                       a.most == INT64_MAX ? INT64_MAX : a.most / b.least};
    case CFX__SYM_MOD:
        return b.least > 0 ? (range){0, is_bound(b.most) ? b.most - 1 : INT64_MAX} : any;
    case CFX__SYM_MIN:
        return (range){a.least < b.least ? a.least : b.least, a.most < b.most ? a.most : b.most};
    case CFX__SYM_MAX:
        return (range){a.least > b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
    default: return any;
    }
}

bool cfx__sym_is_natural_mod(const sym *s) {
    return range_of(s->a).least >= 0 && range_of(s->b).least >= 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* How tightly an expression holds together when printed, in sympy's numbers; PyTorch gives its
 * floor division and Mod less than a sum has, so they stand in parentheses inside one. */
enum {
    HOLDS_FLOORDIV = 35,
    HOLDS_ADD = 40,
    HOLDS_MUL = 50,
    HOLDS_POW = 60,
    HOLDS_CALL = 70,
    HOLDS_ATOM = 1000
};

static int holds(const sym *s) {
    switch (s->op) {
    case CFX__SYM_INT: return s->hint < 0 ? HOLDS_ADD : HOLDS_ATOM;
    case CFX__SYM_ADD: return HOLDS_ADD;
    case CFX__SYM_MUL: return HOLDS_MUL;
    case CFX__SYM_POW: return HOLDS_POW;
    case CFX__SYM_FLOORDIV:
    case CFX__SYM_MOD: return HOLDS_FLOORDIV;
    case CFX__SYM_MIN:
    case CFX__SYM_MAX: return HOLDS_CALL;
    default: return HOLDS_ATOM;
    }
}

static void put_wrapped(cfx__text *out, const sym *s, int level) {
    bool wrap = holds(s) <= level;
    if (wrap)
        cfx__text_putc(out, '(');
    cfx__sym_print(out, s);
    if (wrap)
        cfx__text_putc(out, ')');
}

static void put_term(cfx__text *out, const sym *s, bool first) {
    cfx__text one = {0};
    put_wrapped(&one, s, HOLDS_FLOORDIV);
    bool minus = one.data[0] == '-';
    if (!first)
        cfx__text_puts(out, minus ? " - " : " + ");
    cfx__text_puts(out, one.data + (minus && !first));
    cfx__text_release(&one);
}

static void put_sum(cfx__text *out, const sym *s) {
    if (s->a->op == CFX__SYM_ADD)
        put_sum(out, s->a);
    else
        put_term(out, s->a, true);
    put_term(out, s->b, false);
}

static void put_product(cfx__text *out, const sym *s) {
    if (s->a->op == CFX__SYM_MUL)
        put_product(out, s->a);
    else if (s->a->op == CFX__SYM_INT)
        cfx__text_printf(out, s->a->hint == -1 ? "-" : "%lld", (long long)s->a->hint);
    else
        put_wrapped(out, s->a, HOLDS_MUL);
    if (s->a->op != CFX__SYM_INT || s->a->hint != -1)
        cfx__text_putc(out, '*');
    put_wrapped(out, s->b, HOLDS_MUL);
}

static void put_bound_args(cfx__text *out, const sym *s, cfx__sym_op op) {
    if (s->op != op) {
        cfx__sym_print(out, s);
        return;
    }
    put_bound_args(out, s->a, op);
    cfx__text_puts(out, ", ");
    put_bound_args(out, s->b, op);
}

void cfx__sym_print(cfx__text *out, const sym *s) {
    switch (s->op) {
    case CFX__SYM_INT: cfx__text_printf(out, "%lld", (long long)s->hint); break;
    case CFX__SYM_NAME:
        cfx__text_puts_line(out, s->name);
        break;
    case CFX__SYM_ADD: put_sum(out, s); break;
    case CFX__SYM_MUL: put_product(out, s); break;
    case CFX__SYM_POW:
        put_wrapped(out, s->a, HOLDS_POW);
        cfx__text_puts(out, "**");
        put_wrapped(out, s->b, HOLDS_POW);
        break;
    case CFX__SYM_FLOORDIV:
        cfx__text_putc(out, '(');
        put_wrapped(out, s->a, HOLDS_ATOM - 1);
        cfx__text_puts(out, "//");
        put_wrapped(out, s->b, HOLDS_ATOM - 1);
        cfx__text_putc(out, ')');
        break;
    case CFX__SYM_MOD:
        cfx__text_puts(out, cfx__sym_is_natural_mod(s) ? "Mod(" : "PythonMod(");
        cfx__sym_print(out, s->a);
        cfx__text_puts(out, ", ");
        cfx__sym_print(out, s->b);
        cfx__text_putc(out, ')');
        break;
    case CFX__SYM_MIN:
    case CFX__SYM_MAX:
        cfx__text_puts(out, s->op == CFX__SYM_MIN ? "Min(" : "Max(");
        put_bound_args(out, s, s->op);
        cfx__text_putc(out, ')');
        break;
    }
}
