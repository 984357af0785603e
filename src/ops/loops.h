/* Loops: a pointwise row is a name, how dtypes behave, a cost, and a C expression.
 *
 *     ANALYTIC1(exp, 3, vexp(x), cexp(x))      x: the operand; y, z: the second and third
 *     CFX_OP(exp) = {"aten::exp(Tensor self) -> Tensor", "torch.exp Tensor.exp", POINTWISE(exp),
 *                    GRAD(exp, RESULT(0))};
 *
 * In the expression T is the type computed in, and p0 .. p3 are the number arguments behind the
 * operands, in that type. <tgmath.h> chooses expf or exp; see vecmath.h. The first k arguments of
 * the operator are the operands, be they tensors or numbers. A family file includes this once. */
#ifndef CFX__LOOPS_H
#define CFX__LOOPS_H

#include "ops.h"
#include "vecmath.h"

typedef float _Complex c64_t;
typedef double _Complex c128_t;

#define NUMBER_f(T, k) ((T)q_->f[k])
#define NUMBER_i(T, k) ((T)q_->i[k])
#define NUMBER_c(T, k) ((T)__builtin_complex(q_->f[k], q_->im[k]))

#define LOOP_PARAMS(T, from)                                                                       \
    static const pointwise_params none_;                                                           \
    const pointwise_params *q_ = params ? params : &none_;                                         \
    const T p0 = NUMBER_##from(T, 0), p1 = NUMBER_##from(T, 1), p2 = NUMBER_##from(T, 2),          \
            p3 = NUMBER_##from(T, 3);                                                              \
    (void)p0, (void)p1, (void)p2, (void)p3

/* The loops themselves: results of type R from operands of type T_. */
#define LOOP1(fn, T_, R, from, ...)                                                                \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1];                                                                       \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_];                                                                    \
            o_[i_] = (R)(__VA_ARGS__);                                                             \
        }                                                                                          \
    }
#define LOOP2(fn, T_, R, from, ...)                                                                \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1], *b_ = p_[2];                                                          \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_], y = b_[i_];                                                        \
            o_[i_] = (R)(__VA_ARGS__);                                                             \
        }                                                                                          \
    }
#define LOOP3(fn, T_, R, from, ...)                                                                \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1], *b_ = p_[2], *c_ = p_[3];                                             \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_], y = b_[i_], z = c_[i_];                                            \
            o_[i_] = (R)(__VA_ARGS__);                                                             \
        }                                                                                          \
    }

/* ---- loops for a set of types ---------------------------------------------------------------- */

#define FLOATS(k, id, ...)                                                                         \
    LOOP##k(id##_f32, float, float, f, __VA_ARGS__)                                                \
    LOOP##k(id##_f64, double, double, f, __VA_ARGS__)
#define INTS(k, id, ...) LOOP##k(id##_i64, int64_t, int64_t, i, __VA_ARGS__)
#define BOOLS(k, id, ...) LOOP##k(id##_b8, uint8_t, uint8_t, i, __VA_ARGS__)
#define COMPLEXES(k, id, ...)                                                                      \
    LOOP##k(id##_c64, c64_t, c64_t, c, __VA_ARGS__)                                                \
    LOOP##k(id##_c128, c128_t, c128_t, c, __VA_ARGS__)

/* The columns of a row that those loops fill. */
#define HAS_FLOATS(id) .f32 = id##_f32, .f64 = id##_f64
#define HAS_INTS(id) .i64 = id##_i64
#define HAS_BOOLS(id) .b8 = id##_b8
#define HAS_COMPLEXES(id) .c64 = id##_c64, .c128 = id##_c128
#define ROW(id, rule, price, k, text, ...)                                                         \
    static const pointwise_row row_##id = {rule, price, .operands = k, .name = text, __VA_ARGS__};

/* ---- the usual rows -------------------------------------------------------------------------- */

/* Floats alone; integers become the default float first. */
#define FLOAT_AS(k, id, name, cost, ...)                                                           \
    FLOATS(k, id, __VA_ARGS__)                                                                     \
    ROW(id, RULE_FLOAT, cost, k, name, HAS_FLOATS(id))
#define FLOAT_(k, id, cost, ...) FLOAT_AS(k, id, #id "_cpu", cost, __VA_ARGS__)
#define FLOAT1(id, cost, expr) FLOAT_(1, id, cost, expr)
#define FLOAT2(id, cost, expr) FLOAT_(2, id, cost, expr)
#define FLOAT3(id, cost, expr) FLOAT_(3, id, cost, expr)

/* The same, and complex numbers, which have an expression of their own. */
#define ANALYTIC_(k, id, cost, expr, cexpr)                                                        \
    FLOATS(k, id, expr)                                                                            \
    COMPLEXES(k, id, cexpr)                                                                        \
    ROW(id, RULE_FLOAT, cost, k, #id "_cpu", HAS_FLOATS(id), HAS_COMPLEXES(id))
#define ANALYTIC1(id, cost, expr, cexpr) ANALYTIC_(1, id, cost, expr, cexpr)
#define ANALYTIC2(id, cost, expr, cexpr) ANALYTIC_(2, id, cost, expr, cexpr)

/* Floats alone; the dtype is kept and integers are refused. */
#define ONLY_FLOAT_AS(k, id, name, cost, ...)                                                      \
    FLOATS(k, id, __VA_ARGS__)                                                                     \
    ROW(id, RULE_SAME, cost, k, name, HAS_FLOATS(id))
#define ONLY_FLOAT_(k, id, cost, ...) ONLY_FLOAT_AS(k, id, #id "_cpu", cost, __VA_ARGS__)
#define ONLY_FLOAT1(id, cost, expr) ONLY_FLOAT_(1, id, cost, expr)
#define ONLY_FLOAT2(id, cost, expr) ONLY_FLOAT_(2, id, cost, expr)
#define ONLY_FLOAT3(id, cost, expr) ONLY_FLOAT_(3, id, cost, expr)

/* Floats and integers; the result has the promoted dtype. */
#define NUMBER_(k, id, cost, expr, iexpr)                                                          \
    FLOATS(k, id, expr)                                                                            \
    INTS(k, id, iexpr)                                                                             \
    ROW(id, RULE_SAME, cost, k, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id))
#define NUMBER1(id, cost, expr, iexpr) NUMBER_(1, id, cost, expr, iexpr)
#define NUMBER2(id, cost, expr, iexpr) NUMBER_(2, id, cost, expr, iexpr)
#define NUMBER3(id, cost, expr, iexpr) NUMBER_(3, id, cost, expr, iexpr)

/* The same with complex numbers; what sums and products are. */
#define FIELD_(k, id, cost, expr, iexpr, cexpr)                                                    \
    FLOATS(k, id, expr)                                                                            \
    INTS(k, id, iexpr)                                                                             \
    COMPLEXES(k, id, cexpr)                                                                        \
    ROW(id, RULE_SAME, cost, k, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id), HAS_COMPLEXES(id),       \
        .wide = true)
#define FIELD1(id, cost, expr, iexpr, cexpr) FIELD_(1, id, cost, expr, iexpr, cexpr)
#define FIELD2(id, cost, expr, iexpr, cexpr) FIELD_(2, id, cost, expr, iexpr, cexpr)
#define FIELD3(id, cost, expr, iexpr, cexpr) FIELD_(3, id, cost, expr, iexpr, cexpr)

/* Rows that give bool. */
#define COMPARE_(k, id, expr)                                                                      \
    LOOP##k(id##_f32, float, uint8_t, f, expr)                                                     \
    LOOP##k(id##_f64, double, uint8_t, f, expr)                                                    \
    LOOP##k(id##_i64, int64_t, uint8_t, i, expr)                                                   \
    ROW(id, RULE_BOOL, 1, k, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id))
#define COMPARE1(id, expr) COMPARE_(1, id, expr)
#define COMPARE2(id, expr) COMPARE_(2, id, expr)

/* x + y, x - y and x * y of integers, which wrap around. */
#define WRAP(x, op, y) ((int64_t)((uint64_t)(x)op(uint64_t)(y)))
/* x * y of complex numbers without the search for infinities that C prescribes. */
#define CMUL(x, y)                                                                                 \
    __builtin_complex(creal(x) * creal(y) - cimag(x) * cimag(y),                                   \
                      creal(x) * cimag(y) + cimag(x) * creal(y))

#endif
