/* Loops: a pointwise row is a name, how dtypes behave, a cost, and a C expression.
 *
 *     FLOAT1(exp, 20, exp(x))                  x: the operand; y, z: the second and third
 *     CFX_OP(exp) = {"aten::exp(Tensor self) -> Tensor", "torch.exp Tensor.exp", POINTWISE(exp)};
 *
 * In the expression T is the type computed in, and p0 .. p3 are the number arguments of the call in
 * that type. <tgmath.h> chooses expf or exp. A family file includes this once. */
#ifndef CFX__LOOPS_H
#define CFX__LOOPS_H

#include "ops.h"

#include <tgmath.h>
#undef I /* complex.h's; the loops name the imaginary unit themselves */

#define LOOP_PARAMS(T, from)                                                                       \
    const pointwise_params *q_ = params;                                                           \
    const T p0 = (T)q_->from[0], p1 = (T)q_->from[1], p2 = (T)q_->from[2], p3 = (T)q_->from[3];    \
    (void)p0, (void)p1, (void)p2, (void)p3

/* The loops themselves: results of type R from operands of type T_. */
#define LOOP1(fn, T_, R, from, expr)                                                               \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1];                                                                       \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_];                                                                    \
            o_[i_] = (R)(expr);                                                                    \
        }                                                                                          \
    }
#define LOOP2(fn, T_, R, from, expr)                                                               \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1], *b_ = p_[2];                                                          \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_], y = b_[i_];                                                        \
            o_[i_] = (R)(expr);                                                                    \
        }                                                                                          \
    }
#define LOOP3(fn, T_, R, from, expr)                                                               \
    CFX__SIMD static void fn(void *const *p_, int64_t n_, const void *params) {                    \
        typedef T_ T;                                                                              \
        LOOP_PARAMS(T, from);                                                                      \
        R *o_ = p_[0];                                                                             \
        const T *a_ = p_[1], *b_ = p_[2], *c_ = p_[3];                                             \
        _Pragma("omp simd") for (int64_t i_ = 0; i_ < n_; i_++) {                                  \
            const T x = a_[i_], y = b_[i_], z = c_[i_];                                            \
            o_[i_] = (R)(expr);                                                                    \
        }                                                                                          \
    }

typedef float _Complex c64_t;
typedef double _Complex c128_t;

/* Rows for floats alone; integers become the default float first. */
#define FLOAT_(k, id, cost, expr)                                                                \
    LOOP##k(id##_f32, float, float, f, expr)                                                     \
    LOOP##k(id##_f64, double, double, f, expr)                                                   \
    static const pointwise_row row_##id = {RULE_FLOAT, cost, id##_f32, id##_f64,             \
                                             .name = #id};
#define FLOAT1(id, cost, expr) FLOAT_(1, id, cost, expr)
#define FLOAT2(id, cost, expr) FLOAT_(2, id, cost, expr)
#define FLOAT3(id, cost, expr) FLOAT_(3, id, cost, expr)

/* Rows for floats alone that keep the dtype and refuse integers. */
#define ONLY_FLOAT_(k, id, cost, expr)                                                           \
    LOOP##k(id##_f32, float, float, f, expr)                                                     \
    LOOP##k(id##_f64, double, double, f, expr)                                                   \
    static const pointwise_row row_##id = {RULE_SAME, cost, id##_f32, id##_f64,              \
                                             .name = #id};
#define ONLY_FLOAT1(id, cost, expr) ONLY_FLOAT_(1, id, cost, expr)
#define ONLY_FLOAT2(id, cost, expr) ONLY_FLOAT_(2, id, cost, expr)
#define ONLY_FLOAT3(id, cost, expr) ONLY_FLOAT_(3, id, cost, expr)

/* Rows for floats and integers; the result has the promoted dtype. */
#define NUMBER_(k, id, cost, expr, iexpr)                                                        \
    LOOP##k(id##_f32, float, float, f, expr)                                                     \
    LOOP##k(id##_f64, double, double, f, expr)                                                   \
    LOOP##k(id##_i64, int64_t, int64_t, i, iexpr)                                                \
    static const pointwise_row row_##id = {RULE_SAME, cost, id##_f32, id##_f64, id##_i64,  \
                                             .name = #id};
#define NUMBER1(id, cost, expr, iexpr) NUMBER_(1, id, cost, expr, iexpr)
#define NUMBER2(id, cost, expr, iexpr) NUMBER_(2, id, cost, expr, iexpr)
#define NUMBER3(id, cost, expr, iexpr) NUMBER_(3, id, cost, expr, iexpr)

/* The same with complex numbers. */
#define FIELD_(k, id, cost, expr, iexpr)                                                         \
    LOOP##k(id##_f32, float, float, f, expr)                                                     \
    LOOP##k(id##_f64, double, double, f, expr)                                                   \
    LOOP##k(id##_i64, int64_t, int64_t, i, iexpr)                                                \
    LOOP##k(id##_c64, c64_t, c64_t, f, expr)                                                     \
    LOOP##k(id##_c128, c128_t, c128_t, f, expr)                                                  \
    static const pointwise_row row_##id = {                                                      \
        RULE_SAME,        cost, id##_f32, id##_f64, id##_i64, .c64 = id##_c64,             \
        .c128 = id##_c128, .name = #id};
#define FIELD1(id, cost, expr, iexpr) FIELD_(1, id, cost, expr, iexpr)
#define FIELD2(id, cost, expr, iexpr) FIELD_(2, id, cost, expr, iexpr)
#define FIELD3(id, cost, expr, iexpr) FIELD_(3, id, cost, expr, iexpr)

/* Rows that give bool. */
#define COMPARE_(k, id, expr)                                                                    \
    LOOP##k(id##_f32, float, uint8_t, f, expr)                                                   \
    LOOP##k(id##_f64, double, uint8_t, f, expr)                                                  \
    LOOP##k(id##_i64, int64_t, uint8_t, i, expr)                                                 \
    static const pointwise_row row_##id = {RULE_BOOL, 1, id##_f32, id##_f64, id##_i64,     \
                                             .name = #id};
#define COMPARE1(id, expr) COMPARE_(1, id, expr)
#define COMPARE2(id, expr) COMPARE_(2, id, expr)

#endif
