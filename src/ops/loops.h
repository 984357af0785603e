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

#include "cmul.h"
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

/* Vectors of floats are as wide as they get; loops of other types wait for memory. */
#define LOOP_SIMD_float CFX__SIMD_WIDE
#define LOOP_SIMD_double CFX__SIMD
#define LOOP_SIMD_int64_t CFX__SIMD
#define LOOP_SIMD_uint64_t CFX__SIMD
#define LOOP_SIMD_uint8_t CFX__SIMD
#define LOOP_SIMD_c64_t CFX__SIMD
#define LOOP_SIMD_c128_t CFX__SIMD

/* The loops themselves: results of type R from operands of type T_. */
#define LOOP1(fn, T_, R, from, ...)                                                                \
    LOOP_SIMD_##T_ static void fn(void *const *p_, int64_t n_, const void *params) {               \
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
    LOOP_SIMD_##T_ static void fn(void *const *p_, int64_t n_, const void *params) {               \
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
    LOOP_SIMD_##T_ static void fn(void *const *p_, int64_t n_, const void *params) {               \
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

/* A row keeps its expressions as they are written, before macros in them are replaced: text that
 * fused loops and generated C are made of. So the outermost macro, the one that a file uses, makes
 * the text (#expr); those below are given both. */
#define SAYS(id, type, text) static const char id##_says_##type[] = text;

#define FLOATS(k, id, ...) FLOATS_SAY(k, id, #__VA_ARGS__, __VA_ARGS__)
#define INTS(k, id, ...) INTS_SAY(k, id, #__VA_ARGS__, __VA_ARGS__)
#define BOOLS(k, id, ...) BOOLS_SAY(k, id, #__VA_ARGS__, __VA_ARGS__)
#define COMPLEXES(k, id, ...) COMPLEXES_SAY(k, id, #__VA_ARGS__, __VA_ARGS__)

#define FLOATS_SAY(k, id, text, ...)                                                               \
    SAYS(id, float, text)                                                                          \
    LOOP##k(id##_f32, float, float, f, __VA_ARGS__)                                                \
    LOOP##k(id##_f64, double, double, f, __VA_ARGS__)
#define INTS_SAY(k, id, text, ...)                                                                 \
    SAYS(id, int, text)                                                                            \
    LOOP##k(id##_i64, int64_t, int64_t, i, __VA_ARGS__)
#define BOOLS_SAY(k, id, text, ...)                                                                \
    SAYS(id, bool, text)                                                                           \
    LOOP##k(id##_b8, uint8_t, uint8_t, i, __VA_ARGS__)
#define COMPLEXES_SAY(k, id, text, ...)                                                            \
    SAYS(id, complex, text)                                                                        \
    LOOP##k(id##_c64, c64_t, c64_t, c, __VA_ARGS__)                                                \
    LOOP##k(id##_c128, c128_t, c128_t, c, __VA_ARGS__)

/* The columns of a row that those loops fill. */
#define HAS_FLOATS(id) .f32 = id##_f32, .f64 = id##_f64, .float_expr = id##_says_float
#define HAS_INTS(id) .i64 = id##_i64, .int_expr = id##_says_int
#define HAS_BOOLS(id) .b8 = id##_b8, .bool_expr = id##_says_bool
#define HAS_COMPLEXES(id) .c64 = id##_c64, .c128 = id##_c128, .complex_expr = id##_says_complex
#define ROW(id, rule, price, k, text, ...)                                                         \
    static const pointwise_row row_##id = {rule, price, .operands = k, .name = text, __VA_ARGS__};

/* x, but not below low, or not above high: then that. nan stays; a bound that is nan takes all. */
#define ABOVE(x, low) ((x) < (low) || (low) != (low) ? (low) : (x))
#define BELOW(x, high) ((x) > (high) || (high) != (high) ? (high) : (x))

/* ---- the usual rows -------------------------------------------------------------------------- */

/* Floats alone; integers become the default float first. */
#define FLOAT_AS(k, id, name, cost, ...) FLOAT_SAY(k, id, name, cost, #__VA_ARGS__, __VA_ARGS__)
#define FLOAT1(id, cost, expr) FLOAT_SAY(1, id, #id "_cpu", cost, #expr, expr)
#define FLOAT2(id, cost, expr) FLOAT_SAY(2, id, #id "_cpu", cost, #expr, expr)
#define FLOAT3(id, cost, expr) FLOAT_SAY(3, id, #id "_cpu", cost, #expr, expr)
#define FLOAT_SAY(k, id, name, cost, text, ...)                                                    \
    FLOATS_SAY(k, id, text, __VA_ARGS__)                                                           \
    ROW(id, RULE_FLOAT, cost, k, name, HAS_FLOATS(id))

/* The same, and complex numbers, which have an expression of their own. */
#define ANALYTIC1(id, cost, expr, cexpr) ANALYTIC_SAY(1, id, cost, #expr, expr, #cexpr, cexpr)
#define ANALYTIC2(id, cost, expr, cexpr) ANALYTIC_SAY(2, id, cost, #expr, expr, #cexpr, cexpr)
#define ANALYTIC3(id, cost, expr, cexpr) ANALYTIC_SAY(3, id, cost, #expr, expr, #cexpr, cexpr)
#define ANALYTIC_SAY(k, id, cost, text, expr, ctext, cexpr)                                        \
    FLOATS_SAY(k, id, text, expr)                                                                  \
    COMPLEXES_SAY(k, id, ctext, cexpr)                                                             \
    ROW(id, RULE_FLOAT, cost, k, #id "_cpu", HAS_FLOATS(id), HAS_COMPLEXES(id))

/* Floats alone; the dtype is kept and integers are refused. */
#define ONLY_FLOAT_AS(k, id, name, cost, ...)                                                      \
    ONLY_FLOAT_SAY(k, id, name, cost, #__VA_ARGS__, __VA_ARGS__)
#define ONLY_FLOAT1(id, cost, expr) ONLY_FLOAT_SAY(1, id, #id "_cpu", cost, #expr, expr)
#define ONLY_FLOAT2(id, cost, expr) ONLY_FLOAT_SAY(2, id, #id "_cpu", cost, #expr, expr)
#define ONLY_FLOAT3(id, cost, expr) ONLY_FLOAT_SAY(3, id, #id "_cpu", cost, #expr, expr)
#define ONLY_FLOAT_SAY(k, id, name, cost, text, ...)                                               \
    FLOATS_SAY(k, id, text, __VA_ARGS__)                                                           \
    ROW(id, RULE_SAME, cost, k, name, HAS_FLOATS(id))

/* Floats and integers; the result has the promoted dtype. */
#define NUMBER1(id, cost, expr, iexpr) NUMBER_SAY(1, id, cost, #expr, expr, #iexpr, iexpr)
#define NUMBER2(id, cost, expr, iexpr) NUMBER_SAY(2, id, cost, #expr, expr, #iexpr, iexpr)
#define NUMBER3(id, cost, expr, iexpr) NUMBER_SAY(3, id, cost, #expr, expr, #iexpr, iexpr)
#define NUMBER_SAY(k, id, cost, text, expr, itext, iexpr)                                          \
    FLOATS_SAY(k, id, text, expr)                                                                  \
    INTS_SAY(k, id, itext, iexpr)                                                                  \
    ROW(id, RULE_SAME, cost, k, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id))

/* The same with complex numbers; what sums and products are. */
#define FIELD1(id, cost, expr, iexpr, cexpr)                                                       \
    FIELD_SAY(1, id, #id "_cpu", cost, #expr, expr, #iexpr, iexpr, #cexpr, cexpr)
#define FIELD2(id, cost, expr, iexpr, cexpr)                                                       \
    FIELD_SAY(2, id, #id "_cpu", cost, #expr, expr, #iexpr, iexpr, #cexpr, cexpr)
#define FIELD2_AS(id, name, cost, expr, iexpr, cexpr)                                              \
    FIELD_SAY(2, id, name, cost, #expr, expr, #iexpr, iexpr, #cexpr, cexpr)
#define FIELD3(id, cost, expr, iexpr, cexpr)                                                       \
    FIELD_SAY(3, id, #id "_cpu", cost, #expr, expr, #iexpr, iexpr, #cexpr, cexpr)
#define FIELD_SAY(k, id, name, cost, text, expr, itext, iexpr, ctext, cexpr)                       \
    FLOATS_SAY(k, id, text, expr)                                                                  \
    INTS_SAY(k, id, itext, iexpr)                                                                  \
    COMPLEXES_SAY(k, id, ctext, cexpr)                                                             \
    ROW(id, RULE_SAME, cost, k, name, HAS_FLOATS(id), HAS_INTS(id), HAS_COMPLEXES(id),             \
        .wide = true)

/* Rows that give bool. */
#define COMPARE1(id, expr) COMPARE_SAY(1, id, #expr, expr)
#define COMPARE2(id, expr) COMPARE_SAY(2, id, #expr, expr)
#define COMPARE_SAY(k, id, text, expr)                                                             \
    SAYS(id, float, text)                                                                          \
    SAYS(id, int, text)                                                                            \
    LOOP##k(id##_f32, float, uint8_t, f, expr)                                                     \
    LOOP##k(id##_f64, double, uint8_t, f, expr)                                                    \
    LOOP##k(id##_i64, int64_t, uint8_t, i, expr)                                                   \
    ROW(id, RULE_BOOL, 1, k, #id "_cpu", HAS_FLOATS(id), HAS_INTS(id))

/* x + y, x - y and x * y of integers, which wrap around. */
#define WRAP(x, op, y) ((int64_t)((uint64_t)(x)op(uint64_t)(y)))

#endif
