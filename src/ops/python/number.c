/* Arithmetic of plain numbers, with Python's meaning: what a program does with sizes. These are the
 * number overloads of functions whose tensor overloads are in arith.c and compare.c, so that
 * operator.mul(n, 2) finds its meaning as operator.mul(x, 2) does. */
#include "../ops.h"

#include <math.h>

CFX_FAMILY(MATH);

typedef struct {
    bool real; /* one of them is a float */
    double a, b;
    int64_t i, j;
} pair;

/* False, with an error, for complex ones, which sizes are not. */
static bool numbers(cfx_op_call *c, pair *out) {
    cfx_value a = c->args[0], b = c->nargs > 1 ? c->args[1] : cfx_int(0);
    if (a.tag == CFX_TAG_COMPLEX || b.tag == CFX_TAG_COMPLEX) {
        op_fail_as(TYPE, c, "complex numbers are not computed with outside of tensors");
        c->result = cfx_bad();
        return false;
    }
    *out = (pair){a.tag == CFX_TAG_FLOAT || b.tag == CFX_TAG_FLOAT, cfx_number(a), cfx_number(b),
                  cfx_integer(a), cfx_integer(b)};
    return true;
}

static void overflow(cfx_op_call *c) {
    op_fail(c, "integer out of range for its C type: the result needs more than 64 bits");
    c->result = cfx_bad();
}

static void zero_division(cfx_op_call *c) {
    op_fail(c, "ZeroDivisionError: division by zero");
    c->result = cfx_bad();
}

#define ARITHMETIC(id, real_expr, builtin)                                                         \
    static void number_##id(cfx_op_call *c) {                                                      \
        pair p;                                                                                    \
        if (!numbers(c, &p))                                                                       \
            return;                                                                                \
        int64_t r;                                                                                 \
        if (p.real)                                                                                \
            c->result = cfx_float(real_expr);                                                      \
        else if (builtin(p.i, p.j, &r))                                                            \
            overflow(c);                                                                           \
        else                                                                                       \
            c->result = cfx_int(r);                                                                \
    }
ARITHMETIC(add, p.a + p.b, __builtin_add_overflow)
ARITHMETIC(sub, p.a - p.b, __builtin_sub_overflow)
ARITHMETIC(mul, p.a *p.b, __builtin_mul_overflow)

static void number_div(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    if (p.b == 0)
        zero_division(c);
    else
        c->result = cfx_float(p.a / p.b);
}

static void number_floordiv(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    if (p.b == 0)
        zero_division(c);
    else if (p.real)
        c->result = cfx_float(floor(p.a / p.b));
    else if (p.i == INT64_MIN && p.j == -1)
        overflow(c);
    else
        c->result = cfx_int(p.i / p.j - (p.i % p.j != 0 && (p.i < 0) != (p.j < 0)));
}

static void number_remainder(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    if (p.b == 0) {
        zero_division(c);
    } else if (p.real) {
        double r = fmod(p.a, p.b);
        c->result = cfx_float(r != 0 && (r < 0) != (p.b < 0) ? r + p.b : r);
    } else {
        int64_t r = p.j == -1 ? 0 : p.i % p.j;
        c->result = cfx_int(r != 0 && (r < 0) != (p.j < 0) ? r + p.j : r);
    }
}

static void number_pow(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    if (p.real || p.j < 0) {
        c->result = cfx_float(pow(p.a, p.b));
        return;
    }
    int64_t r = 1, base = p.i;
    for (int64_t e = p.j; e; e >>= 1) {
        if ((e & 1) && __builtin_mul_overflow(r, base, &r)) {
            overflow(c);
            return;
        }
        if (e > 1 && __builtin_mul_overflow(base, base, &base)) {
            overflow(c);
            return;
        }
    }
    c->result = cfx_int(r);
}

static void number_neg(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    c->result = p.real ? cfx_float(-p.a) : cfx_int((int64_t)(0 - (uint64_t)p.i));
}

#define COMPARISON(id, op)                                                                         \
    static void number_##id(cfx_op_call *c) {                                                      \
        pair p;                                                                                    \
        if (!numbers(c, &p))                                                                       \
            return;                                                                                \
        c->result = cfx_bool(p.real ? p.a op p.b : p.i op p.j);                                    \
    }
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

static void number_min(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    c->result = p.real ? (p.b < p.a ? c->args[1] : c->args[0]) : cfx_int(p.j < p.i ? p.j : p.i);
}

static void number_max(cfx_op_call *c) {
    pair p;
    if (!numbers(c, &p))
        return;
    c->result = p.real ? (p.b > p.a ? c->args[1] : c->args[0]) : cfx_int(p.j > p.i ? p.j : p.i);
}

static void number_float(cfx_op_call *c) { c->result = cfx_float(cfx_number(c->args[0])); }

static void number_int(cfx_op_call *c) { c->result = cfx_int(cfx_integer(c->args[0])); }

static void number_not(cfx_op_call *c) { c->result = cfx_bool(!cfx_integer(c->args[0])); }

/* Python's integers of a float: no such thing for those that are not finite or too large. */
static void whole(cfx_op_call *c, double f) {
    if (cfx__int64_fits(f))
        c->result = cfx_int(cfx__int64_of(f));
    else
        overflow(c);
}

#define ROUNDING(id, expr)                                                                         \
    static void number_##id(cfx_op_call *c) {                                                      \
        pair p;                                                                                    \
        if (!numbers(c, &p))                                                                       \
            return;                                                                                \
        if (p.real)                                                                                \
            whole(c, expr);                                                                        \
        else                                                                                       \
            c->result = cfx_int(p.i);                                                              \
    }
ROUNDING(ceil, ceil(p.a))
ROUNDING(floor, floor(p.a))
ROUNDING(trunc, trunc(p.a))

/* round(x) to the even one of two as near; round(x, n) stays a float. */
static void number_round(cfx_op_call *c) {
    double a = cfx_number(c->args[0]);
    if (cfx_is_none(c->args[1]) && c->args[0].tag == CFX_TAG_FLOAT)
        whole(c, nearbyint(a));
    else if (c->args[0].tag != CFX_TAG_FLOAT)
        c->result = cfx_int(cfx_integer(c->args[0]));
    else {
        double scale = pow(10, (double)cfx_integer(c->args[1]));
        c->result = cfx_float(nearbyint(a * scale) / scale);
    }
}

static void number_sqrt(cfx_op_call *c) {
    double a = cfx_number(c->args[0]);
    if (a < 0)
        op_fail_as(VALUE, c, "math domain error");
    c->result = a < 0 ? cfx_bad() : cfx_float(sqrt(a));
}

static void number_log2(cfx_op_call *c) {
    double a = cfx_number(c->args[0]);
    if (a <= 0)
        op_fail_as(VALUE, c, "math domain error");
    c->result = a <= 0 ? cfx_bad() : cfx_float(log2(a));
}

static void number_ite(cfx_op_call *c) {
    c->result = cfx_integer(c->args[0]) ? c->args[1] : c->args[2];
}

static void number_sum(cfx_op_call *c) {
    bool real = false;
    double f = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < cfx_as_list(c->args[0])->len; i++) {
        cfx_value v = cfx_as_list(c->args[0])->items[i];
        real |= v.tag == CFX_TAG_FLOAT;
        f += cfx_number(v);
        if (!real && __builtin_add_overflow(n, cfx_integer(v), &n)) {
            overflow(c);
            return;
        }
    }
    c->result = real ? cfx_float(f) : cfx_int(n);
}

CFX_OP(add) = {"aten::add(Scalar a, Scalar b) -> Scalar", NULL, .kernel = number_add};
CFX_OP(sub) = {"aten::sub(Scalar a, Scalar b) -> Scalar", NULL, .kernel = number_sub};
CFX_OP(mul) = {"aten::mul(Scalar a, Scalar b) -> Scalar", NULL, .kernel = number_mul};
CFX_OP(div) = {"aten::div(Scalar a, Scalar b) -> float", NULL, .kernel = number_div};
CFX_OP(floor_divide_number) = {"aten::floor_divide.number(Scalar a, Scalar b) -> Scalar", NULL,
                               .kernel = number_floordiv};
CFX_OP(floordiv) = {"aten::floordiv(Scalar a, Scalar b) -> Scalar", NULL,
                    .kernel = number_floordiv};
CFX_OP(remainder) = {"aten::remainder(Scalar a, Scalar b) -> Scalar", NULL,
                     .kernel = number_remainder};
CFX_OP(pow_number) = {"aten::pow.number(Scalar a, Scalar b) -> Scalar", NULL, .kernel = number_pow,
                      .autocast = CFX_CAST_F32_ON_GPU};
CFX_OP(neg_Scalar) = {"aten::neg.Scalar(Scalar a) -> Scalar", NULL, .kernel = number_neg};
CFX_FAMILY(COMPARE);
CFX_OP(eq) = {"aten::eq(Scalar a, Scalar b) -> bool", NULL, .kernel = number_eq};
CFX_OP(ne) = {"aten::ne(Scalar a, Scalar b) -> bool", NULL, .kernel = number_ne};
CFX_OP(lt) = {"aten::lt(Scalar a, Scalar b) -> bool", NULL, .kernel = number_lt};
CFX_OP(le) = {"aten::le(Scalar a, Scalar b) -> bool", NULL, .kernel = number_le};
CFX_OP(gt) = {"aten::gt(Scalar a, Scalar b) -> bool", NULL, .kernel = number_gt};
CFX_OP(ge) = {"aten::ge(Scalar a, Scalar b) -> bool", NULL, .kernel = number_ge};

/* torch.sym_max and friends: numbers in, numbers out. */
CFX_FAMILY(MATH);
CFX_OP(python_sym_min) = {"python::sym_min(Scalar a, Scalar b) -> Scalar", "torch.sym_min",
                          .kernel = number_min};
CFX_OP(python_sym_max) = {"python::sym_max(Scalar a, Scalar b) -> Scalar", "torch.sym_max",
                          .kernel = number_max};
CFX_OP(python_sym_float) = {"python::sym_float(Scalar a) -> Scalar", "torch.sym_float",
                            .kernel = number_float};
CFX_OP(python_sym_int) = {"python::sym_int(Scalar a) -> Scalar", "torch.sym_int builtins.int",
                          .kernel = number_int};
CFX_OP(python_sym_not) = {"python::sym_not(Scalar a) -> bool", "torch.sym_not operator.not_",
                          .kernel = number_not};
CFX_OP(python_sym_ite) = {"python::sym_ite(Scalar a, Scalar b, Scalar c) -> Scalar",
                          "torch.sym_ite", .kernel = number_ite};
CFX_OP(python_sym_sum) = {"python::sym_sum(Scalar[] args) -> Scalar", "torch.sym_sum",
                          .kernel = number_sum};
CFX_OP(python_ceil) = {"python::ceil(Scalar a) -> Scalar", "math.ceil", .kernel = number_ceil};
CFX_OP(python_floor) = {"python::floor(Scalar a) -> Scalar", "math.floor", .kernel = number_floor};
CFX_OP(python_trunc) = {"python::trunc(Scalar a) -> Scalar", "math.trunc", .kernel = number_trunc};
CFX_OP(python_round) = {"python::round(Scalar a, int? ndigits=None) -> Scalar", "builtins.round",
                        .kernel = number_round};
CFX_OP(python_sqrt) = {"python::sqrt(Scalar a) -> Scalar",
                       "math.sqrt torch.sym_sqrt torch._sym_sqrt", .kernel = number_sqrt};
CFX_OP(python_log2) = {"python::log2(Scalar a) -> Scalar",
                       "math.log2 torch.sym_log2 torch._sym_log2", .kernel = number_log2};
