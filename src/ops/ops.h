/* ops: where numbers change.
 *
 * Invariant: a shape rule looks at shapes and dtypes only and makes c->out; a kernel fills c->out
 * and makes nothing else that outlives it; a decomposition calls operators (cfx_add(x, y), ...) and
 * sets c->out. One struct is one operator; a family of them is a file. After a failed call the
 * remaining ones do nothing, so columns need not look at each result. */
#ifndef CFX__OPS_H
#define CFX__OPS_H

#include "../dispatch/dispatch.h"
#include "columns.h"
#include "loop.h"

/* ---- reading arguments ----------------------------------------------------------------------- */

static inline cfx_tensor *arg_tensor(const cfx_op_call *c, int i) { /* NULL for None */
    return c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
}
static inline bool arg_is_none(const cfx_op_call *c, int i) {
    return c->args[i].tag == CFX_TAG_NONE;
}
static inline int64_t arg_int(const cfx_op_call *c, int i) { return cfx_integer(c->args[i]); }
/* A number that has to be real; with an error where it is complex. */
double arg_real(const cfx_op_call *c, int i);
static inline double arg_float(const cfx_op_call *c, int i) {
    return unlikely(c->args[i].tag == CFX_TAG_COMPLEX) ? arg_real(c, i) : cfx_number(c->args[i]);
}
static inline bool arg_bool(const cfx_op_call *c, int i) { return cfx_integer(c->args[i]) != 0; }
static inline const char *arg_text(const cfx_op_call *c, int i) { return cfx_text(c->args[i]); }
/* The dtype given, or `other` where None. */
static inline cfx_dtype arg_dtype(const cfx_op_call *c, int i, cfx_dtype other) {
    return c->args[i].tag == CFX_TAG_DTYPE ? cfx_as_dtype(c->args[i]) : other;
}
/* A list of integers into out[CFX_MAX_DIMS]; returns how many (0 for None; a single int is one). */
int arg_ints(const cfx_op_call *c, int i, int64_t *out);
/* A list of tensors: how many, and number k (NULL for None). */
static inline int64_t arg_count(const cfx_op_call *c, int i) {
    uint32_t tag = c->args[i].tag;
    return tag == CFX_TAG_LIST || tag == CFX_TAG_TUPLE ? cfx_as_list(c->args[i])->len : 0;
}
static inline cfx_tensor *arg_item(const cfx_op_call *c, int i, int64_t k) {
    cfx_value v = cfx_as_list(c->args[i])->items[k];
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}
/* A dim argument wrapped against ndim; -1, with PyTorch's IndexError, when out of range. */
static inline int arg_dim(const cfx_op_call *c, int i, int ndim) {
    return cfx__shape_wrap_dim(c->at, arg_int(c, i), ndim);
}
/* A list of dims as a bit mask over ndim (None or empty: all of them). False, with an error, when
 * one is out of range or appears twice. */
bool arg_dims_mask(const cfx_op_call *c, int i, int ndim, uint64_t *mask);

/* ---- making results -------------------------------------------------------------------------- */

/* Result i of the call, contiguous or with given strides; fake when the call is. */
static inline cfx_tensor *out_new(cfx_op_call *c, int i, cfx_dtype dtype, int ndim,
                                  const int64_t *shape) {
    return c->out[i] = cfx__tensor_empty(c->at, dtype, c->fake, ndim, shape, NULL);
}
static inline cfx_tensor *out_strided(cfx_op_call *c, int i, cfx_dtype dtype, int ndim,
                                      const int64_t *shape, const int64_t *stride) {
    return c->out[i] = cfx__tensor_empty(c->at, dtype, c->fake, ndim, shape, stride);
}
/* Result i shaped like t, with the strides that a pointwise operator would give. */
cfx_tensor *out_like(cfx_op_call *c, int i, cfx_dtype dtype, const cfx_tensor *t);
/* Result i as a view of t. */
static inline cfx_tensor *out_view(cfx_op_call *c, int i, const cfx_tensor *t, int ndim,
                                   const int64_t *shape, const int64_t *stride, int64_t offset) {
    return c->out[i] = cfx__tensor_alias(t, ndim, shape, stride, offset);
}

/* How many there are where only data could tell, of a fake call: who records a program may know.
 * False, with an error, where no one does. */
static inline bool op_data_size(const cfx_op_call *c, int64_t *n) {
    int64_t (*ask)(void) = cfx__dispatcher()->data_size;
    *n = ask ? ask() : -1;
    if (*n < 0)
        cfx__op_needs_data(c);
    return *n >= 0;
}

/* Scratch memory of the current scope (freed when the call ends); NULL, with an error, when the
 * size is absurd. */
void *scratch(cfx_op_call *c, cfx_dtype dtype, int64_t n);

/* "add": the operator's name in messages. */
static inline const char *op_title(const cfx_op_call *c) {
    return cfx__op_info_of(c->op)->schema->name;
}

/* Whether the kernel takes the dtype of t as it is or lifted; else it is an error, by the name that
 * the kernel has in PyTorch: `"take_cpu" not implemented for 'UInt16'`. */
static inline bool op_takes(const cfx_op_call *c, const cfx_tensor *t, const char *kernel) {
    cfx_dtype d = t->dtype;
    if (cfx__dtype_is_computed(d) || c->op->dtypes >> d & 1)
        return true;
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, c->at, "\"%s\" not implemented for '%s'", kernel,
             cfx__dtype_title(d));
    return false;
}

/* Records a RuntimeError at the caller's line. op_fail_as takes the kind. */
#define op_fail(c, ...) cfx_fail(CFX_RUNTIME_ERROR, (c)->at, __VA_ARGS__)
#define op_fail_large(c, ...) cfx__fail_large((c)->at, __VA_ARGS__) /* see base.h */
#define op_fail_as(kind, c, ...) cfx_fail(CFX_##kind##_ERROR, (c)->at, __VA_ARGS__)
#define op_failed() (!cfx_ok())

/* ---- pointwise rows -------------------------------------------------------------------------- */

/* How the dtype a row computes in, and that of its result, come from the operands'. */
typedef enum {
    RULE_SAME,    /* both the promoted dtype: add, mul, relu */
    RULE_FLOAT,   /* integers become the default float: exp, div */
    RULE_BOOL,    /* computes in the promoted dtype, gives bool: eq, lt */
    RULE_TO_BOOL, /* operands become bool first: logical_and */
    RULE_ABS,     /* as RULE_SAME, but complex gives its real type: abs */
    RULE_DOUBLE   /* float64, or complex128: float_power */
} rule;

/* Loops of floats that are written by hand; the second is for results that are aligned to lines of
 * the cache and go past it. */
typedef struct {
    cfx__iter_loop *loop, *stream;
} pointwise_by_hand;

/* One loop per dtype it can compute in; NULL where it cannot. Halves compute in f32, small integers
 * and bool in i64 (bool in b8 where there is one). */
typedef struct {
    rule rule;
    uint8_t cost; /* see cfx__iter_pointwise */
    cfx__iter_loop *f32, *f64, *i64, *b8, *c64, *c128;
    const pointwise_by_hand *by_hand; /* in place of f32, where the machine runs it; or NULL */
    /* The expressions of the loops, as loops.h has them. */
    const char *float_expr, *int_expr, *bool_expr, *complex_expr;
    const char *name;  /* what PyTorch calls the kernel in `"name" not implemented for 'Half'` */
    uint8_t operands;  /* so many leading arguments, tensors or numbers; 0: the leading tensors */
    bool no_bool;      /* bool is refused although there is a loop for integers */
    bool wide;         /* a number among halves is not rounded to a half first */
} pointwise_row;

/* The number arguments that follow the operands, as a loop sees them: p0 is number 0. */
typedef struct {
    double f[8];
    int64_t i[8];
    double im[8];
    const char *text; /* the last string argument, or NULL */
    cfx_dtype dtype;  /* what is computed in */
} pointwise_params;

/* Shape and kernel of operators whose row says it all. */
void shape_pointwise(cfx_op_call *c);
/* The same for those whose result PyTorch makes by empty_like: it has the strides of argument 0
 * even where a size is 1, or none. */
void shape_pointwise_like(cfx_op_call *c);
/* The same for powers by a number, which is no operand in PyTorch: it has no part in strides. */
void shape_pointwise_alone(cfx_op_call *c);
void kernel_pointwise(cfx_op_call *c);

#define POINTWISE(id) POINTWISE_AS(id, shape_pointwise)
/* The same with a shape rule that looks at the arguments first. */
#define POINTWISE_AS(id, rule) POINTWISE_IN(id, rule, 0)
/* The same for what takes these dtypes for storage (CFX_IN_...) as well. */
#define POINTWISE_IN(id, rule, stored) POINTWISE_ALL(id, rule, stored, 0)
/* The same for one of the functions that kernels do to their results (CFX__POST_...). */
#define POINTWISE_POST(id, rule, kind) POINTWISE_ALL(id, rule, 0, IS_POST(kind))
#define POINTWISE_ALL(id, rule, stored, more)                                                      \
    .shape = rule, .kernel = kernel_pointwise, .row = &row_##id,                                   \
    .dtypes = CFX_IN_AS_IS | CFX_IN_SELF | (stored), .effects = CFX_POINTWISE | CFX_LOOPS | (more)

/* The same for columns that choose the row, or set params, themselves. */
void pointwise_shape(cfx_op_call *c, const pointwise_row *r);
void pointwise_kernel(cfx_op_call *c, const pointwise_row *r, const pointwise_params *p);
/* Runs r in dtype `compute` over n operands (tensors or numbers) to c->out[0]. */
void pointwise_run(cfx_op_call *c, const pointwise_row *r, cfx_dtype compute, int n,
                   const cfx_value *operands, const pointwise_params *p);

/* The dtype that a pointwise row computes in and gives, from the operands of the call. */
bool pointwise_dtypes(cfx_op_call *c, const pointwise_row *r, cfx_dtype *compute,
                      cfx_dtype *result);
/* torch.result_type of the first n arguments, tensors or numbers. */
cfx_dtype arg_result_type(const cfx_op_call *c, int n);
/* Result i with the shape these operands broadcast to, and a pointwise operator's strides. */
cfx_tensor *out_broadcast(cfx_op_call *c, int i, cfx_dtype dtype, int n,
                          const cfx_tensor *const *t);

/* A second name of an operator with the same arguments: absolute is abs. */
void decompose_alias(cfx_op_call *c);
#define ALIAS(target)                                                                              \
    .decompose = decompose_alias, .row = &cfx_op_##target, .effects = CFX_COMPOSITE

#endif
