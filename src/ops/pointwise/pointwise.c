/* Pointwise rows: shape and kernel of every operator that is one C expression an element.
 *
 * Invariant: the shape rule and the kernel ask the same function (pointwise_dtypes) for dtypes, so
 * a kernel never meets a dtype that the shape rule let pass without having a loop for it. */
#include "by_hand.h"

#include "../../tensor/stream.h"
#include "../sizes.h"
#include "../views.h"

/* ---- dtypes ---------------------------------------------------------------------------------- */

static cfx__iter_loop *loop_for(const pointwise_row *r, cfx_dtype d, cfx_dtype *as) {
    switch (cfx__dtype_wide(d)) {
    case CFX_BOOL:
        if (r->b8)
            return *as = CFX_BOOL, r->b8;
        return *as = CFX_I64, r->no_bool ? NULL : r->i64;
    case CFX_F64: return *as = CFX_F64, r->f64;
    case CFX_F32:
    case CFX_F16:
    case CFX_BF16: return *as = CFX_F32, r->by_hand && by_hand_runs() ? r->by_hand->loop : r->f32;
    case CFX_C64: return *as = CFX_C64, r->c64;
    case CFX_C128: return *as = CFX_C128, r->c128;
    default: return *as = CFX_I64, r->i64;
    }
}

static bool is_operand(cfx_value v) { return v.tag == CFX_TAG_TENSOR || cfx_is_number(v); }

static int operand_count(const cfx_op_call *c, const pointwise_row *r) {
    int n = 0, most = r->operands ? r->operands : CFX__ITER_MAX - 1;
    while (n < c->nargs && n < most &&
           (r->operands ? is_operand(c->args[n]) : c->args[n].tag == CFX_TAG_TENSOR))
        n++;
    return n;
}

cfx_dtype arg_result_type(const cfx_op_call *c, int n) {
    cfx__promotion p = CFX__PROMOTION_START;
    for (int i = 0; i < n; i++)
        cfx__promotion_value(&p, c->args[i]);
    return cfx__promotion_dtype(&p);
}

static cfx_dtype result_of(rule r, cfx_dtype d) {
    return r == RULE_BOOL || r == RULE_TO_BOOL ? CFX_BOOL : r == RULE_ABS ? cfx__dtype_real(d) : d;
}

/* Operands that are all tensors of one float dtype, which is most calls, need no promotion: that
 * dtype, or -1. */
static int common_float(const cfx_op_call *c, int n) {
    int d = -1;
    for (int i = 0; i < n; i++) {
        const cfx_tensor *t = c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
        if (!t || t->ndim == 0 || (i && t->dtype != d) || !cfx__dtype_is_float(t->dtype))
            return -1;
        d = t->dtype;
    }
    return d;
}

bool pointwise_dtypes(cfx_op_call *c, const pointwise_row *r, cfx_dtype *compute,
                      cfx_dtype *result) {
    int n = operand_count(c, r), common = common_float(c, n);
    cfx_dtype d = common < 0 ? arg_result_type(c, n) : (cfx_dtype)common, as;
    if (r->rule == RULE_FLOAT && (cfx__dtype_is_integral(d) || d == CFX_BOOL))
        d = default_dtype();
    if (r->rule == RULE_DOUBLE)
        d = cfx__dtype_is_complex(d) ? CFX_C128 : CFX_F64;
    *compute = r->rule == RULE_TO_BOOL ? CFX_BOOL : d;
    *result = result_of(r->rule, d);
    bool taken = likely(cfx__dtype_is_computed(*compute)) || c->op->dtypes >> *compute & 1;
    if (taken && loop_for(r, *compute, &as))
        return true;
    op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", r->name,
               cfx__dtype_title(*compute));
    return false;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Whether all operands are contiguous tensors of one shape: then so is the result. */
static bool all_alike(const cfx_op_call *c, int n) {
    for (int i = 0; i < n; i++) {
        const cfx_tensor *t = c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
        if (!t || !cfx__tensor_is_contiguous(t) ||
            (i && !cfx__tensor_same_shape(t, cfx_as_tensor(c->args[0]))))
            return false;
    }
    return n > 0;
}

/* Sums, differences, products and quotients of tensors whose sizes vary have a shape function of
 * their own in PyTorch, which takes what is contiguous for plain. */
static bool is_plain_where_sizes_vary(const cfx_op_call *c, int n) {
    static const cfx_op *const rows[] = {&cfx_op_add_Tensor, &cfx_op_sub_Tensor,
                                        &cfx_op_mul_Tensor, &cfx_op_div_Tensor};
    bool found = false;
    for (int i = 0; i < COUNT(rows) && !found; i++)
        found = c->op == rows[i];
    for (int i = 0; found && i < n; i++) {
        const cfx_tensor *t = c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
        for (int k = 0; t && k < t->ndim; k++)
            if (size_varies(t->shape[k]))
                return true;
    }
    return false;
}

/* Whether images of one element a plane meet while a program is recorded: they are contiguous in
 * both orders. PyTorch's kernels take them for plain ones, what it traces keeps their order. */
static bool either_order(const cfx_op_call *c, int n) {
    if (!c->fake || !cfx__dispatcher()->recorder)
        return false;
    for (int i = 0; i < n; i++)
        if (c->args[i].tag == CFX_TAG_TENSOR &&
            !cfx__tensor_is_channels_last(cfx_as_tensor(c->args[i])))
            return false;
    return !is_plain_where_sizes_vary(c, n);
}

/* Whether the numbers after the operands are ones of the dtype that is computed in; halves are
 * computed in float32. */
static bool params_fit(cfx_op_call *c, int operands, cfx_dtype compute) {
    const cfx__schema_arg *args = cfx__op_info_of(c->op)->schema->args;
    cfx_dtype d = cfx__dtype_is_half(compute) ? CFX_F32 : compute;
    for (int i = operands; i < c->nargs; i++)
        if (args[i].type == CFX__T_SCALAR && !args[i].list && cfx_is_number(c->args[i]) &&
            !number_fits(c, c->args[i], d))
            return false;
    return true;
}

/* A number that counts is one more operand, of no dimensions, and the strides are sorted then. */
static void shape_of(cfx_op_call *c, const pointwise_row *r, bool numbers_count) {
    const cfx_tensor *t[CFX__ITER_MAX];
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = operand_count(c, r), tensors = 0, ndim = 0;
    cfx_dtype compute, result;
    c->out[0] = &cfx__tensor_bad;
    const bool either = either_order(c, n);
    if (all_alike(c, n) && !either) {
        if (pointwise_dtypes(c, r, &compute, &result) && params_fit(c, n, compute))
            out_new(c, 0, result, cfx_as_tensor(c->args[0])->ndim,
                    cfx_as_tensor(c->args[0])->shape);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (c->args[i].tag != CFX_TAG_TENSOR)
            continue;
        t[tensors++] = cfx_as_tensor(c->args[i]);
        if (!cfx__shape_broadcast(c->at, &ndim, shape, t[tensors - 1]->ndim, t[tensors - 1]->shape))
            return;
    }
    if (!pointwise_dtypes(c, r, &compute, &result) || !params_fit(c, n, compute))
        return;
    if (either || (numbers_count && tensors < n && !is_plain_where_sizes_vary(c, n)))
        cfx__strides_sorted(tensors, t, ndim, shape, stride);
    else
        cfx__strides_pointwise(tensors, t, ndim, shape, stride);
    out_strided(c, 0, result, ndim, shape, stride);
}

void pointwise_shape(cfx_op_call *c, const pointwise_row *r) { shape_of(c, r, true); }

void shape_pointwise(cfx_op_call *c) { shape_of(c, c->op->row, true); }

void shape_pointwise_alone(cfx_op_call *c) { shape_of(c, c->op->row, false); }

/* Whether the operands after the first give the result no other shape than it has. */
static bool has_shape_of_first(const cfx_op_call *c, int n) {
    const cfx_tensor *x = arg_tensor(c, 0);
    for (int i = 1; i < n; i++) {
        const cfx_tensor *t = c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
        if (t && t->ndim > x->ndim)
            return false;
        for (int k = 1; t && k <= t->ndim; k++)
            if (t->shape[t->ndim - k] != 1 && t->shape[t->ndim - k] != x->shape[x->ndim - k])
                return false;
    }
    return true;
}

void shape_pointwise_like(cfx_op_call *c) {
    const pointwise_row *r = c->op->row;
    const int n = operand_count(c, r);
    cfx_dtype compute, result;
    c->out[0] = &cfx__tensor_bad;
    if (!has_shape_of_first(c, n))
        shape_of(c, r, true);
    else if (pointwise_dtypes(c, r, &compute, &result) && params_fit(c, n, compute))
        out_empty_like(c, result, CFX_PRESERVE, arg_tensor(c, 0));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* One number as an operand: a 0-dim tensor on the stack. */
typedef struct {
    cfx_tensor t;
    union {
        int64_t i;
        double f[2];
        bool b;
    } data;
} box;

static const cfx_tensor *box_new(box *b, cfx_dtype dtype) {
    b->t = (cfx_tensor){.dtype = (uint8_t)dtype, .numel = 1, .data = (char *)&b->data};
    b->t.shape = b->t.stride = b->t.dims;
    return &b->t;
}

static const cfx_tensor *boxed(box *b, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_BOOL: b->data.b = cfx_integer(v); return box_new(b, CFX_BOOL);
    case CFX_TAG_FLOAT: b->data.f[0] = cfx_number(v); return box_new(b, CFX_F64);
    case CFX_TAG_COMPLEX:
        b->data.f[0] = cfx_as_complex(v)->re;
        b->data.f[1] = cfx_as_complex(v)->im;
        return box_new(b, CFX_C128);
    default: b->data.i = cfx_integer(v); return box_new(b, CFX_I64);
    }
}

/* Whether a lone number must become `d` before it is computed with in a wider dtype: 0.1 meets
 * halves as a half (but in sums and products), 300 meets bytes as 44. */
static bool is_narrowed(const pointwise_row *r, cfx_dtype d) {
    return cfx__dtype_is_half(d) ? !r->wide : cfx__dtype_is_integral(d) && d != CFX_I64;
}

static const cfx_tensor *narrowed(box *b, const cfx_tensor *t, cfx_dtype d) {
    char from[16];
    memcpy(from, t->data, (size_t)cfx_dtype_size(t->dtype));
    cfx__convert((char *)&b->data, 0, d, from, 0, t->dtype, 1);
    return box_new(b, d);
}

/* The params that the arguments of a call give. */
static pointwise_params numbers_of(const cfx_op_call *c, const pointwise_row *r,
                                   cfx_dtype compute) {
    pointwise_params p = {.dtype = compute};
    int n = 0;
    for (int i = operand_count(c, r); i < c->nargs && n < COUNT(p.f); i++) {
        cfx_value v = c->args[i];
        if (v.tag == CFX_TAG_STR) {
            p.text = cfx_text(v);
            continue;
        }
        p.f[n] = cfx_number(v);
        p.i[n] = number_in(v, compute);
        p.im[n++] = v.tag == CFX_TAG_COMPLEX ? cfx_as_complex(v)->im : 0;
    }
    return p;
}

/* The expression of the loop that reads elements of a dtype. */
static const char *expr_for(const pointwise_row *r, cfx_dtype as) {
    return cfx__dtype_is_complex(as) ? r->complex_expr
           : cfx__dtype_is_float(as) ? r->float_expr
           : as == CFX_BOOL          ? r->bool_expr
                                     : r->int_expr;
}

/* What pointwise_run would do. A lone element that has to be narrowed first is left to it. */
static void note_run(cfx__loop_note *s, const pointwise_row *r, cfx_dtype compute, int n,
                     const cfx_value *operands, const pointwise_params *p) {
    cfx_dtype as;
    cfx__iter_loop *loop = loop_for(r, compute, &as);
    loop_note(s, n <= CFX__LOOP_OPERANDS ? CFX__LOOP_EACH : CFX__LOOP_NONE, loop,
              result_of(r->rule, as), r->cost, p, sizeof *p);
    s->says.expr = expr_for(r, as);
    for (int i = 0; p && i < COUNT(p->im); i++)
        if (p->im[i] != 0)
            s->says.expr = NULL; /* a text has the real parts of its numbers alone */
    if (p) {
        memcpy(s->says.f, p->f, sizeof s->says.f);
        memcpy(s->says.i, p->i, sizeof s->says.i);
    }
    for (int i = 0; i < n && s->kind != CFX__LOOP_NONE; i++) {
        cfx_tensor *t = operands[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(operands[i]) : NULL;
        loop_operand(s, t, as);
        if (!t) {
            box b, small;
            const cfx_tensor *x = boxed(&b, operands[i]);
            if (x->dtype != compute && is_narrowed(r, compute))
                x = narrowed(&small, x, compute);
            cfx__convert(s->in[i].number, 0, as, x->data, 0, x->dtype, 1);
        } else if (t->ndim == 0 && t->dtype != compute && is_narrowed(r, compute)) {
            s->kind = CFX__LOOP_NONE;
        }
    }
}

void pointwise_run(cfx_op_call *c, const pointwise_row *r, cfx_dtype compute, int n,
                   const cfx_value *operands, const pointwise_params *p) {
    if (c->note) {
        note_run(c->note, r, compute, n, operands, p);
        return;
    }
    cfx_dtype as;
    cfx__iter_loop *loop = loop_for(r, compute, &as);
    cfx__iter_operand o[CFX__ITER_MAX];
    box boxes[CFX__ITER_MAX];
    o[0] = (cfx__iter_operand){c->out[0], result_of(r->rule, as)};
    for (int i = 0; i < n; i++) {
        const cfx_tensor *t = operands[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(operands[i])
                                                                 : boxed(&boxes[i], operands[i]);
        if (t->ndim == 0 && t->dtype != compute && is_narrowed(r, compute))
            t = narrowed(&boxes[i], t, compute);
        o[i + 1] = (cfx__iter_operand){t, as};
    }
    const bool by_hand = r->by_hand && loop == r->by_hand->loop;
    cfx__iter_streaming(loop, by_hand ? r->by_hand->stream : NULL, 1, n, o, p, r->cost);
}

void pointwise_kernel(cfx_op_call *c, const pointwise_row *r, const pointwise_params *p) {
    cfx_dtype compute, result;
    if (!pointwise_dtypes(c, r, &compute, &result))
        return;
    pointwise_run(c, r, compute, operand_count(c, r), c->args, p);
}

void kernel_pointwise(cfx_op_call *c) {
    const pointwise_row *r = c->op->row;
    cfx_dtype compute, result;
    if (!pointwise_dtypes(c, r, &compute, &result))
        return;
    const pointwise_params p = numbers_of(c, r, compute);
    pointwise_run(c, r, compute, operand_count(c, r), c->args, &p);
}

/* ---- second names ---------------------------------------------------------------------------- */

void decompose_alias(cfx_op_call *c) {
    cfx_value v = cfx__op_call_bound(c->at, (cfx_op *)c->op->row, c->args);
    if (c->nout == 0)
        c->result = v;
    else
        c->out[0] = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}
