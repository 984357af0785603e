/* Symbolic integers become numbers. All arithmetic is checked: what does not fit 64 bits, or
 * divides by zero, has no value. */
#include "value.h"

/* Towards minus infinity, as Python's. */
static bool divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return false;
    int64_t q = a / b, r = a % b;
    bool past = r != 0 && (r < 0) != (b < 0);
    *quotient = q - past;
    *rest = past ? r + b : r;
    return true;
}

static bool power(int64_t base, int64_t exp, int64_t *out) {
    int64_t r = 1;
    if (exp < 0)
        return false;
    for (;; exp >>= 1) {
        if ((exp & 1) && __builtin_mul_overflow(r, base, &r))
            return false;
        if (exp < 2)
            break;
        if (__builtin_mul_overflow(base, base, &base))
            return false;
    }
    *out = r;
    return true;
}

bool cfx__sym_apply(cfx__sym_op op, int64_t a, int64_t b, int64_t *out) {
    int64_t other;
    switch (op) {
    case CFX__SYM_ADD:
        return !__builtin_add_overflow(a, b, out);
    case CFX__SYM_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case CFX__SYM_FLOORDIV:
        return divide(a, b, out, &other);
    case CFX__SYM_MOD:
        return divide(a, b, &other, out);
    case CFX__SYM_POW:
        return power(a, b, out);
    case CFX__SYM_MIN:
        *out = a < b ? a : b;
        return true;
    case CFX__SYM_MAX:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

bool cfx__sym_eval(const struct cfx_sym *s, cfx__sym_lookup *at, void *user, int64_t *out) {
    if (s->op == CFX__SYM_INT) {
        *out = s->hint;
        return true;
    }
    if (s->op == CFX__SYM_NAME)
        return at(s, user, out);
    int64_t a, b;
    return cfx__sym_eval(s->a, at, user, &a) && cfx__sym_eval(s->b, at, user, &b) &&
           cfx__sym_apply(s->op, a, b, out);
}
