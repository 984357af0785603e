/* Guards as PyTorch's printer for Python writes them: numbers first in sums, (a % b) and (a // b)
 * in parentheses where they are part of something. */
#include "guard.h"

/* How tightly parts hold together, in sympy's numbers. */
enum { HOLDS_DIVISION = 35, HOLDS_ADD = 40, HOLDS_MUL = 50, HOLDS_ATOM = 1000 };

typedef const struct cfx_sym sym;

static int holds(sym *s) {
    switch (s->op) {
    case CFX__SYM_INT: return s->hint < 0 ? HOLDS_ADD : HOLDS_ATOM;
    case CFX__SYM_ADD: return HOLDS_ADD;
    case CFX__SYM_MUL:
    case CFX__SYM_POW: return HOLDS_MUL;
    case CFX__SYM_FLOORDIV:
    case CFX__SYM_MOD: return HOLDS_DIVISION;
    default: return HOLDS_ATOM;
    }
}

static void put(cfx__text *out, sym *s, int level);

/* The terms of a sum, or the factors of a product: numbers, then the rest. */
static void put_parts(cfx__text *out, sym *s, cfx__sym_op op, int level, bool numbers,
                      bool *first) {
    if (s->op == op) {
        put_parts(out, s->a, op, level, numbers, first);
        put_parts(out, s->b, op, level, numbers, first);
        return;
    }
    if ((s->op == CFX__SYM_INT) != numbers)
        return;
    if (!*first)
        cfx__text_puts(out, op == CFX__SYM_ADD ? " + " : "*");
    *first = false;
    put(out, s, level);
}

static void put_all(cfx__text *out, sym *s, int level) {
    bool first = true;
    put_parts(out, s, s->op, level, true, &first);
    put_parts(out, s, s->op, level, false, &first);
}

static void put_power(cfx__text *out, sym *s) {
    bool whole = s->b->op == CFX__SYM_INT && s->b->hint > 0 && s->b->hint <= 8;
    for (int64_t i = 0; whole && i < s->b->hint; i++) {
        cfx__text_puts(out, i ? "*" : "");
        put(out, s->a, HOLDS_MUL);
    }
    if (!whole) {
        put(out, s->a, HOLDS_ATOM - 1);
        cfx__text_puts(out, " ** ");
        put(out, s->b, HOLDS_ATOM - 1);
    }
}

static void put_bounded(cfx__text *out, sym *s, cfx__sym_op op) {
    if (s->op != op) {
        put(out, s, 0);
        return;
    }
    put_bounded(out, s->a, op);
    cfx__text_puts(out, ", ");
    put_bounded(out, s->b, op);
}

static void put_bare(cfx__text *out, sym *s) {
    switch (s->op) {
    case CFX__SYM_INT: cfx__text_printf(out, "%lld", (long long)s->hint); break;
    case CFX__SYM_NAME: cfx__text_puts(out, s->name); break;
    case CFX__SYM_ADD: put_all(out, s, HOLDS_ADD); break;
    case CFX__SYM_MUL: put_all(out, s, HOLDS_ADD); break;
    case CFX__SYM_POW: put_power(out, s); break;
    case CFX__SYM_FLOORDIV:
    case CFX__SYM_MOD:
        put(out, s->a, HOLDS_ATOM - 1);
        cfx__text_puts(out, s->op == CFX__SYM_MOD ? " % " : " // ");
        put(out, s->b, HOLDS_ATOM - 1);
        break;
    case CFX__SYM_MIN:
    case CFX__SYM_MAX:
        cfx__text_puts(out, s->op == CFX__SYM_MIN ? "min(" : "max(");
        put_bounded(out, s, s->op);
        cfx__text_putc(out, ')');
        break;
    }
}

static void put(cfx__text *out, sym *s, int level) {
    bool wrap = holds(s) <= level;
    cfx__text_puts(out, wrap ? "(" : "");
    put_bare(out, s);
    cfx__text_puts(out, wrap ? ")" : "");
}

static void put_side(cfx__text *out, cfx_value v, int level) {
    if (v.tag == CFX_TAG_SYM)
        put(out, cfx_as_sym(v), level);
    else
        cfx__text_printf(out, "%lld", (long long)cfx_integer(v));
}

const char *cfx__guard_text(cfx_value a, cfx__rel rel, cfx_value b) {
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    int level = rel <= CFX__NE ? HOLDS_MUL : HOLDS_DIVISION;
    cfx__text out = {0};
    put_side(&out, a, level);
    cfx__text_printf(&out, " %s ", signs[rel]);
    put_side(&out, b, level);
    return cfx__text_take(&out);
}
