/* Comparisons, logic, the larger and the smaller, choices. */
#include "../loops.h"
#include "../numbered.h"
#include "../views.h"

CFX_FAMILY(COMPARE);

/* ---- comparisons ----------------------------------------------------------------------------- */

/* Equality has complex numbers too. */
#define EQUALITY(id, expr)                                                                         \
    SAYS(id, float, #expr)                                                                         \
    SAYS(id, int, #expr)                                                                           \
    SAYS(id, bool, #expr)                                                                          \
    SAYS(id, complex, #expr)                                                                       \
    LOOP2(id##_f32, float, uint8_t, f, expr)                                                       \
    LOOP2(id##_f64, double, uint8_t, f, expr)                                                      \
    LOOP2(id##_i64, int64_t, uint8_t, i, expr)                                                     \
    LOOP2(id##_b8, uint8_t, uint8_t, i, expr)                                                      \
    LOOP2(id##_c64, c64_t, uint8_t, c, expr)                                                       \
    LOOP2(id##_c128, c128_t, uint8_t, c, expr)                                                     \
    ROW(id, RULE_BOOL, 1, 2, "compare_eq_ne_cpu", HAS_FLOATS(id), HAS_INTS(id), HAS_BOOLS(id),     \
        HAS_COMPLEXES(id))
EQUALITY(eq, x == y)
EQUALITY(ne, x != y)
COMPARE2(lt, x < y)
COMPARE2(le, x <= y)
COMPARE2(gt, x > y)
COMPARE2(ge, x >= y)

CFX_OP(eq_Tensor) = {"aten::eq.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.eq Tensor.eq operator.eq",
                     POINTWISE_IN(eq, shape_pointwise, CFX_IN_STORED) | CFX_COMMUTES,
                     .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(eq_Scalar) = {"aten::eq.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                     POINTWISE_IN(eq, shape_pointwise, CFX_IN_STORED) | CFX_COMMUTES,
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(ne_Tensor) = {"aten::ne.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.ne Tensor.ne operator.ne",
                     POINTWISE_IN(ne, shape_pointwise, CFX_IN_STORED) | CFX_COMMUTES,
                     .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(ne_Scalar) = {"aten::ne.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                     POINTWISE_IN(ne, shape_pointwise, CFX_IN_STORED) | CFX_COMMUTES,
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(lt_Tensor) = {"aten::lt.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.lt Tensor.lt operator.lt", POINTWISE(lt), .inplace = "Tensor",
                     .out = "Tensor_out"};
CFX_OP(lt_Scalar) = {"aten::lt.Scalar(Tensor self, Scalar other) -> Tensor", NULL, POINTWISE(lt),
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(le_Tensor) = {"aten::le.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.le Tensor.le operator.le", POINTWISE(le), .inplace = "Tensor",
                     .out = "Tensor_out"};
CFX_OP(le_Scalar) = {"aten::le.Scalar(Tensor self, Scalar other) -> Tensor", NULL, POINTWISE(le),
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(gt_Tensor) = {"aten::gt.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.gt Tensor.gt operator.gt", POINTWISE(gt), .inplace = "Tensor",
                     .out = "Tensor_out"};
CFX_OP(gt_Scalar) = {"aten::gt.Scalar(Tensor self, Scalar other) -> Tensor", NULL, POINTWISE(gt),
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(ge_Tensor) = {"aten::ge.Tensor(Tensor self, Tensor other) -> Tensor",
                     "torch.ge Tensor.ge operator.ge", POINTWISE(ge), .inplace = "Tensor",
                     .out = "Tensor_out"};
CFX_OP(ge_Scalar) = {"aten::ge.Scalar(Tensor self, Scalar other) -> Tensor", NULL, POINTWISE(ge),
                     .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(not_equal_Tensor) = {"aten::not_equal.Tensor(Tensor self, Tensor other) -> Tensor",
                            "torch.not_equal Tensor.not_equal", ALIAS(ne_Tensor),
                            .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(not_equal_Scalar) = {"aten::not_equal.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                            ALIAS(ne_Scalar), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(less_Tensor) = {"aten::less.Tensor(Tensor self, Tensor other) -> Tensor",
                       "torch.less Tensor.less", ALIAS(lt_Tensor), .inplace = "Tensor",
                       .out = "Tensor_out"};
CFX_OP(less_Scalar) = {"aten::less.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                       ALIAS(lt_Scalar), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(less_equal_Tensor) = {"aten::less_equal.Tensor(Tensor self, Tensor other) -> Tensor",
                             "torch.less_equal Tensor.less_equal", ALIAS(le_Tensor),
                             .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(less_equal_Scalar) = {"aten::less_equal.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                             ALIAS(le_Scalar), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(greater_Tensor) = {"aten::greater.Tensor(Tensor self, Tensor other) -> Tensor",
                          "torch.greater Tensor.greater", ALIAS(gt_Tensor), .inplace = "Tensor",
                          .out = "Tensor_out"};
CFX_OP(greater_Scalar) = {"aten::greater.Scalar(Tensor self, Scalar other) -> Tensor", NULL,
                          ALIAS(gt_Scalar), .inplace = "Scalar", .out = "Scalar_out"};
CFX_OP(greater_equal_Tensor) = {
    "aten::greater_equal.Tensor(Tensor self, Tensor other) -> Tensor",
    "torch.greater_equal Tensor.greater_equal", ALIAS(ge_Tensor), .inplace = "Tensor",
    .out = "Tensor_out"};
CFX_OP(greater_equal_Scalar) = {
    "aten::greater_equal.Scalar(Tensor self, Scalar other) -> Tensor", NULL, ALIAS(ge_Scalar),
    .inplace = "Scalar", .out = "Scalar_out"};

/* ---- logic ----------------------------------------------------------------------------------- */

#define LOGIC(k, id, expr)                                                                         \
    BOOLS_SAY(k, id, #expr, expr)                                                                  \
    ROW(id, RULE_TO_BOOL, 1, k, #id, HAS_BOOLS(id))
LOGIC(2, logical_and, x & y)
LOGIC(2, logical_or, x | y)
LOGIC(2, logical_xor, x ^ y)
LOGIC(1, logical_not, !x)

CFX_OP(logical_and) = {"aten::logical_and(Tensor self, Tensor other) -> Tensor",
                       "torch.logical_and Tensor.logical_and",
                       POINTWISE(logical_and) | CFX_COMMUTES, .inplace = "default", .out = "out"};
CFX_OP(logical_or) = {"aten::logical_or(Tensor self, Tensor other) -> Tensor",
                      "torch.logical_or Tensor.logical_or", POINTWISE(logical_or) | CFX_COMMUTES,
                      .inplace = "default", .out = "out"};
CFX_OP(logical_xor) = {"aten::logical_xor(Tensor self, Tensor other) -> Tensor",
                       "torch.logical_xor Tensor.logical_xor",
                       POINTWISE(logical_xor) | CFX_COMMUTES, .inplace = "default", .out = "out"};
CFX_OP(logical_not) = {"aten::logical_not(Tensor self) -> Tensor",
                       "torch.logical_not Tensor.logical_not", POINTWISE(logical_not),
                       .inplace = "default", .out = "out"};

/* ---- the larger and the smaller -------------------------------------------------------------- */

NUMBER2(maximum, 1, x != x || x > y ? x : y, x > y ? x : y)
NUMBER2(minimum, 1, x != x || x < y ? x : y, x < y ? x : y)
NUMBER2(fmax, 1, y != y || x >= y ? x : y, x > y ? x : y)
NUMBER2(fmin, 1, y != y || x <= y ? x : y, x < y ? x : y)

static void shape_extreme(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (cfx__dtype_is_complex(a->dtype) || cfx__dtype_is_complex(b->dtype))
        op_fail(c, "%s not implemented for complex tensors.", op_title(c));
    shape_pointwise(c);
}

CFX_FAMILY(MATH);
CFX_OP(maximum) = {"aten::maximum(Tensor self, Tensor other) -> Tensor",
                   "torch.maximum Tensor.maximum",
                   POINTWISE_AS(maximum, shape_extreme) | CFX_COMMUTES,
                   GRAD(maximum, READ(0) | READ(1)), .out = "out"};
CFX_OP(minimum) = {"aten::minimum(Tensor self, Tensor other) -> Tensor",
                   "torch.minimum Tensor.minimum",
                   POINTWISE_AS(minimum, shape_extreme) | CFX_COMMUTES,
                   GRAD(minimum, READ(0) | READ(1)), .out = "out"};
CFX_OP(fmax) = {"aten::fmax(Tensor self, Tensor other) -> Tensor", "torch.fmax Tensor.fmax",
                POINTWISE_AS(fmax, shape_extreme) | CFX_COMMUTES, GRAD(fmax, READ(0) | READ(1)),
                .out = "out"};
CFX_OP(fmin) = {"aten::fmin(Tensor self, Tensor other) -> Tensor", "torch.fmin Tensor.fmin",
                POINTWISE_AS(fmin, shape_extreme) | CFX_COMMUTES, GRAD(fmin, READ(0) | READ(1)),
                .out = "out"};
CFX_OP(max_other) = {"aten::max.other(Tensor self, Tensor other) -> Tensor", "torch.max Tensor.max",
                     ALIAS(maximum), .out = "out"};
CFX_OP(min_other) = {"aten::min.other(Tensor self, Tensor other) -> Tensor", "torch.min Tensor.min",
                     ALIAS(minimum), .out = "out"};

/* ---- clamp ----------------------------------------------------------------------------------- */

/* Held between p0 and p1. */
#define CLAMP(id, k, expr)                                                                         \
    FLOATS_SAY(k, id, #expr, expr)                                                                 \
    INTS_SAY(k, id, #expr, expr)                                                                   \
    ROW(id, RULE_SAME, 1, k, "clamp_scalar_kernel_impl", HAS_FLOATS(id), HAS_INTS(id),             \
        .no_bool = true)
CLAMP(clamp, 1, BELOW(ABOVE(x, p0), p1))
FLOATS(3, clamp_tensors, x != x ? x : BELOW(ABOVE(x, y), z))
INTS(3, clamp_tensors, BELOW(ABOVE(x, y), z))
ROW(clamp_tensors, RULE_SAME, 1, 3, "clamp_cpu", HAS_FLOATS(clamp_tensors), HAS_INTS(clamp_tensors),
    .no_bool = true)

/* Which arguments of a clamp are its bounds; 0 where it has none. */
typedef struct {
    int low, high;
} clamp_bounds;
static const clamp_bounds both_bounds = {1, 2}, low_bound = {1, 0}, high_bound = {0, 1};

static bool is_given(const cfx_op_call *c, int i) { return i && !arg_is_none(c, i); }

static bool check_bounds(cfx_op_call *c, const clamp_bounds *b) {
    if (is_given(c, b->low) || is_given(c, b->high))
        return true;
    op_fail(c, "torch.clamp: At least one of 'min' or 'max' must not be None");
    return false;
}

/* A float tensor keeps its dtype; others make room for the bounds. */
static cfx_dtype clamp_dtype(cfx_op_call *c, const clamp_bounds *b) {
    cfx_tensor *t = arg_tensor(c, 0);
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_tensor(&p, t);
    for (int i = 1; i < 3 && !cfx__dtype_is_float(t->dtype); i++)
        if (i == b->low || i == b->high)
            cfx__promotion_value(&p, c->args[i]);
    return cfx__promotion_dtype(&p);
}

static void shape_clamp(cfx_op_call *c) {
    const clamp_bounds *b = c->op->row;
    cfx_dtype d = clamp_dtype(c, b);
    c->out[0] = &cfx__tensor_bad;
    if (!check_bounds(c, b))
        return;
    if (cfx__dtype_is_complex(d))
        op_fail_as(NOT_IMPLEMENTED, c, "clamp is not supported for complex types");
    else if (d == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for 'Bool'", row_clamp.name);
    else if ((!is_given(c, b->low) || number_fits(c, c->args[b->low], d)) &&
             (!is_given(c, b->high) || number_fits(c, c->args[b->high], d)))
        out_broadcast(c, 0, d, 1, (const cfx_tensor *[]){arg_tensor(c, 0)});
}

static void kernel_clamp(cfx_op_call *c) {
    const clamp_bounds *b = c->op->row;
    pointwise_params p = {.f = {-INFINITY, INFINITY}, .i = {INT64_MIN, INT64_MAX}};
    const cfx_dtype d = clamp_dtype(c, b);
    if (is_given(c, b->low))
        p.f[0] = arg_float(c, b->low), p.i[0] = number_in(c->args[b->low], d);
    if (is_given(c, b->high))
        p.f[1] = arg_float(c, b->high), p.i[1] = number_in(c->args[b->high], d);
    pointwise_run(c, &row_clamp, d, 1, c->args, &p);
}

/* The operands and the row of a clamp by tensors; returns how many operands there are. */
static int clamp_operands(const cfx_op_call *c, const clamp_bounds *b, cfx_value *v,
                          const pointwise_row **r) {
    bool low = is_given(c, b->low), high = is_given(c, b->high);
    int n = 0;
    v[n++] = c->args[0];
    if (low)
        v[n++] = c->args[b->low];
    if (high)
        v[n++] = c->args[b->high];
    *r = low && high ? &row_clamp_tensors : low ? &row_maximum : &row_minimum;
    return n;
}

static void shape_clamp_Tensor(cfx_op_call *c) {
    cfx_value v[3];
    const pointwise_row *r;
    c->out[0] = &cfx__tensor_bad;
    if (!check_bounds(c, c->op->row))
        return;
    cfx_op_call f = *c;
    f.nargs = clamp_operands(c, c->op->row, v, &r);
    f.args = v;
    if (cfx__dtype_is_complex(arg_result_type(&f, f.nargs)) && c->op->row == &both_bounds)
        op_fail_as(NOT_IMPLEMENTED, c, "clamp is not supported for complex types");
    else
        pointwise_shape(&f, r);
    c->out[0] = f.out[0];
}

static void kernel_clamp_Tensor(cfx_op_call *c) {
    cfx_value v[3];
    const pointwise_row *r;
    cfx_op_call f = *c;
    f.nargs = clamp_operands(c, c->op->row, v, &r);
    f.args = v;
    pointwise_run(&f, r, arg_result_type(&f, f.nargs), f.nargs, v, NULL);
}

#define CLAMPS(bounds) CLAMPS_POST(bounds, NONE)
#define CLAMPS_POST(bounds, kind)                                                                  \
    .shape = shape_clamp, .kernel = kernel_clamp, .row = &bounds,                                  \
    .effects = CFX_POINTWISE | CFX_LOOPS | IS_POST(kind)
#define CLAMPS_BY_TENSORS(bounds)                                                                  \
    .shape = shape_clamp_Tensor, .kernel = kernel_clamp_Tensor, .row = &bounds,                    \
    .effects = CFX_POINTWISE | CFX_LOOPS

CFX_OP(clamp) = {"aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                 "torch.clamp Tensor.clamp", CLAMPS_POST(both_bounds, BOUNDS),
                 GRAD(clamp, READ(0)), NUMBERED(1), .inplace = "default", .out = "out"};
CFX_OP(clamp_Tensor) = {"aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> "
                        "Tensor", NULL, CLAMPS_BY_TENSORS(both_bounds),
                        GRAD(clamp, READ(0) | READ(1) | READ(2)), NUMBERED(0), .inplace = "Tensor",
                        .out = "Tensor_out"};
CFX_OP(clamp_min) = {"aten::clamp_min(Tensor self, Scalar min) -> Tensor",
                     "torch.clamp_min Tensor.clamp_min", CLAMPS(low_bound),
                     GRAD(clamp_min, READ(0)), .core = core_clamp_min, .inplace = "default",
                     .out = "out"};
CFX_OP(clamp_min_Tensor) = {"aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", NULL,
                            CLAMPS_BY_TENSORS(low_bound), GRAD(clamp_min, READ(0) | READ(1)),
                            .core = core_clamp_min_Tensor, .inplace = "Tensor",
                            .out = "Tensor_out"};
CFX_OP(clamp_max) = {"aten::clamp_max(Tensor self, Scalar max) -> Tensor",
                     "torch.clamp_max Tensor.clamp_max", CLAMPS(high_bound),
                     GRAD(clamp_max, READ(0)), .core = core_clamp_max, .inplace = "default",
                     .out = "out"};
CFX_OP(clamp_max_Tensor) = {"aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", NULL,
                            CLAMPS_BY_TENSORS(high_bound), GRAD(clamp_max, READ(0) | READ(1)),
                            .core = core_clamp_max_Tensor, .inplace = "Tensor",
                            .out = "Tensor_out"};
CFX_OP(clip) = {"aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                "torch.clip Tensor.clip", ALIAS(clamp), .inplace = "default", .out = "out"};
CFX_OP(clip_Tensor) = {"aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> "
                       "Tensor", NULL, ALIAS(clamp_Tensor), .inplace = "Tensor",
                       .out = "Tensor_out"};

/* ---- where ----------------------------------------------------------------------------------- */

/* Nothing is computed: the loops move elements of a size. */
#define CHOOSE(fn, T)                                                                              \
    CFX__SIMD static void fn(void *const *p, int64_t n, const void *params) {                      \
        T *o = p[0];                                                                               \
        const uint8_t *if_ = p[1];                                                                 \
        const T *x = p[2], *y = p[3];                                                              \
        (void)params;                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) o[i] = if_[i] ? x[i] : y[i];           \
    }
CHOOSE(choose_8, uint8_t)
CHOOSE(choose_16, uint16_t)
CHOOSE(choose_32, uint32_t)
CHOOSE(choose_64, uint64_t)
CHOOSE(choose_128, c128_t)

static cfx_dtype where_dtype(const cfx_op_call *c) {
    cfx__promotion p = CFX__PROMOTION_START;
    cfx__promotion_value(&p, c->args[1]);
    cfx__promotion_value(&p, c->args[2]);
    return cfx__promotion_dtype(&p);
}

static void shape_where(cfx_op_call *c) {
    cfx_tensor *condition = arg_tensor(c, 0);
    if (condition->dtype != CFX_BOOL && condition->dtype != CFX_U8)
        op_fail(c,
                "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                cfx__dtype_title(condition->dtype));
    const cfx_tensor *t[3];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (arg_tensor(c, i))
            t[n++] = arg_tensor(c, i);
    cfx_dtype d = where_dtype(c);
    for (int i = 1; i < 3 && !op_failed(); i++)
        if (!arg_tensor(c, i))
            number_fits(c, c->args[i], d);
    out_broadcast(c, 0, d, n, t);
    if (!op_failed())
        op_takes(c, c->out[0], "where_cpu");
}

static void note_where(cfx_op_call *c, cfx__iter_loop *loop, cfx_dtype d) {
    loop_note(c->note, CFX__LOOP_EACH, loop, d, 1, NULL, 0);
    c->note->says.expr = "x ? y : z";
    loop_operand(c->note, arg_tensor(c, 0), CFX_BOOL);
    for (int i = 1; i < 3; i++) {
        loop_operand(c->note, arg_tensor(c, i), d);
        if (!arg_tensor(c, i))
            memcpy(c->note->in[i].number, cfx__tensor_scalar(c->args[i], d)->data,
                   (size_t)cfx_dtype_size(d));
    }
}

static void kernel_where(cfx_op_call *c) {
    cfx_dtype d = c->out[0]->dtype;
    int size = cfx_dtype_size(d);
    cfx__iter_loop *loop = size == 1   ? choose_8
                           : size == 2 ? choose_16
                           : size == 4 ? choose_32
                           : size == 8 ? choose_64
                                       : choose_128;
    if (c->note) {
        note_where(c, loop, d);
        return;
    }
    cfx__iter_operand o[4] = {{c->out[0], d}, {arg_tensor(c, 0), CFX_BOOL}};
    for (int i = 1; i < 3; i++)
        o[i + 1] = (cfx__iter_operand){
            arg_tensor(c, i) ? arg_tensor(c, i) : cfx__tensor_scalar(c->args[i], d), d};
    cfx__iter_pointwise(loop, 1, 3, o, NULL, 1);
}

#define CHOOSES                                                                                    \
    .shape = shape_where, .kernel = kernel_where,                                                  \
    .dtypes = CFX_IN_AS_IS | CFX_IN_SELF | CFX_IN_FLOAT8 | CFX_IN(F8E8M0FNU) | CFX_IN(C32),        \
    .effects = CFX_LOOPS

CFX_FAMILY(INDEX);
CFX_OP(where_self) = {"aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
                      "torch.where Tensor.where", CHOOSES, GRAD(where, READ(0)), .out = "self_out"};
CFX_OP(where_ScalarSelf) = {"aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) "
                            "-> Tensor", NULL, CHOOSES, GRAD(where, READ(0)), NUMBERED(0),
                            .core = core_where};
CFX_OP(where_ScalarOther) = {"aten::where.ScalarOther(Tensor condition, Tensor self, Scalar "
                             "other) -> Tensor", NULL, CHOOSES, GRAD(where, READ(0)), NUMBERED(0),
                             .core = core_where};
CFX_OP(where_Scalar) = {"aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> "
                        "Tensor", NULL, CHOOSES, .core = core_where};

/* ---- nearness -------------------------------------------------------------------------------- */

/* p0 is rtol, p1 atol, p2 whether nan is close to nan. */
#define CLOSE(x, y, far)                                                                           \
    ((x) == (y) || (q_->f[2] != 0 && (x) != (x) && (y) != (y)) ||                                  \
     ((far) < INFINITY && (far) <= q_->f[1] + fabs(q_->f[0] * (y))))
SAYS(isclose, float, "CLOSE(x, y, fabs(x - y))")
SAYS(isclose, int, "CLOSE(x, y, fabs((double)x - (double)y))")
SAYS(isclose, complex, "CLOSE(x, y, cabs(x - y))")
LOOP2(isclose_f32, float, uint8_t, f, CLOSE(x, y, fabs(x - y)))
LOOP2(isclose_f64, double, uint8_t, f, CLOSE(x, y, fabs(x - y)))
LOOP2(isclose_i64, int64_t, uint8_t, i, CLOSE(x, y, fabs((double)x - (double)y)))
LOOP2(isclose_c64, c64_t, uint8_t, c, CLOSE(x, y, cabs(x - y)))
LOOP2(isclose_c128, c128_t, uint8_t, c, CLOSE(x, y, cabs(x - y)))
ROW(isclose, RULE_BOOL, 2, 2, "isclose", HAS_FLOATS(isclose), HAS_INTS(isclose),
    HAS_COMPLEXES(isclose))

static void shape_isclose(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->dtype != b->dtype)
        op_fail(c, "%s did not match %s", cfx__dtype_title(a->dtype), cfx__dtype_title(b->dtype));
    else if (arg_float(c, 2) < 0)
        op_fail(c, "rtol must be greater than or equal to zero, but got %g", arg_float(c, 2));
    else if (arg_float(c, 3) < 0)
        op_fail(c, "atol must be greater than or equal to zero, but got %g", arg_float(c, 3));
    shape_pointwise(c);
}

CFX_FAMILY(COMPARE);
CFX_OP(isclose) = {"aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, "
                   "float atol=1e-08, bool equal_nan=False) -> Tensor",
                   "torch.isclose Tensor.isclose", POINTWISE_AS(isclose, shape_isclose)};
