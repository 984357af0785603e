/* onnx: the operators of ONNX, written in operators of ATen.
 *
 * Invariant: a row's decomposition gives the numbers, dtypes and shapes that ONNX's specification
 * asks for, on real tensors and on fake ones alike; it looks at sizes, dtypes and attributes, and
 * at the numbers of an argument only where these say a shape, an axis or a scale (onnx_numbers).
 * Inputs of a node are the arguments by position, attributes those by keyword. The default overload
 * is the operator as it is now; what was otherwise in older versions of the operator set has
 * overloads of its own, v1 for what held from version 1 on.
 *
 * Types that ATen does not have: integers of 4 and 2 bits are int8 and uint8 tensors of such
 * numbers. */
#ifndef CFX__OPS_ONNX_H
#define CFX__OPS_ONNX_H

#include <cfx/ops.h>

#include "../foreign.h"
#include "../ops.h"

/* The decomposition of a row, and its columns: ONNX_OP(Relu) {...}, then ONNX(Relu, 6) in the
 * row. */
#define ONNX_OP(name) static void onnx_##name(cfx_op_call *c)
#define ONNX(name, version) ONNX_BY(onnx_##name, version)
#define ONNX_BY(function, version) ONNX_WITH(function, version, 0)
#define ONNX_WITH(function, version, more)                                                         \
    .decompose = function, .row = &(const cfx__foreign_row){.since = version},                     \
    .effects = CFX_COMPOSITE | CFX_FOREIGN | CFX_SHARES | (more)
/* The same where the items of the list that it gives are results of their own. */
#define ONNX_SEVERAL(name, version)                                                                \
    .decompose = onnx_##name,                                                                      \
    .row = &(const cfx__foreign_row){.since = version, .several = true},                           \
    .effects = CFX_COMPOSITE | CFX_FOREIGN | CFX_SHARES

/* Argument i as a tensor (NULL: left out), and result i. */
#define T(i) arg_tensor(c, i)
#define OUT(i) (c->out[i])

/* ---- numbers that say what a call is --------------------------------------------------------- */

/* Argument i with its numbers; NULL, with an error that says that they are not known, for a fake
 * tensor without. */
const cfx_tensor *onnx_numbers(cfx_op_call *c, int i);
/* The same as integers in out[CFX_MAX_DIMS], how many in *n; a left-out argument has none. False,
 * with an error. */
bool onnx_ints(cfx_op_call *c, int i, int64_t *out, int *n);
/* A tensor of one number; `other` where it is left out. An integer is at most as far from 0 as a
 * tensor may have elements, so that sums with it do not overflow. */
bool onnx_int(cfx_op_call *c, int i, int64_t other, int64_t *out);
bool onnx_float(cfx_op_call *c, int i, double other, double *out);
/* How many at most: any number, of which there are no more than elements. */
bool onnx_count(cfx_op_call *c, int i, int64_t other, int64_t *out);
/* An operand as a number, where it is one number that is known and its partner has as many
 * dimensions; else the tensor. */
cfx_value onnx_operand(const cfx_tensor *t, const cfx_tensor *partner);
/* Size i of x; 0, with an error, where x has no such dimension. */
int64_t onnx_size(const cfx_tensor *x, int i);
/* An axis that counts from the end where it is negative; -1, with an error, where there is no such
 * dimension. */
int onnx_axis(cfx_op_call *c, int64_t axis, int ndim);
/* Axes into out, each at most once; those of all dimensions where the argument is left out. How
 * many, or -1 with an error. Argument i is a tensor or a list. */
int onnx_axes(cfx_op_call *c, int i, int ndim, int64_t *out);

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* The type that a text names; NULL, with an error, where ATen has nothing for it (strings). */
const cfx__onnx_type *onnx_type_named(cfx_op_call *c, const char *name);
/* What ONNX calls the type of a tensor; "", with an error, where it has none (complex32). */
const char *onnx_type_name(cfx_op_call *c, const cfx_tensor *t);
/* x in another type, as ONNX casts: too large floats of 8 bits are the largest where `saturate`;
 * powers of 2 are rounded `way`: "up", "down" or "nearest". */
cfx_tensor *onnx_cast(cfx_op_call *c, cfx_tensor *x, const cfx__onnx_type *to, bool saturate,
                      const char *way);
/* x.to(dtype), or x itself. */
static inline cfx_tensor *onnx_to(cfx_tensor *x, cfx_dtype dtype) {
    return x->dtype == dtype ? x : cfx_to(x, cfx_dtype_value(dtype));
}
/* Dtypes that ATen only stores, as those it computes in: unsigned integers in int64. */
static inline cfx_tensor *onnx_wide(cfx_tensor *x) {
    return onnx_to(x, cfx__dtype_wide((cfx_dtype)x->dtype));
}

/* ---- windows (windows.c) --------------------------------------------------------------------- */

/* Where a window of a convolution or pooling goes along each dimension. */
typedef struct onnx_window {
    int n;
    int64_t kernel[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], dilation[CFX_MAX_DIMS];
    int64_t before[CFX_MAX_DIMS], after[CFX_MAX_DIMS]; /* padding */
} onnx_window;
/* Where the attributes of a window are among the arguments. */
typedef struct onnx_window_args {
    int auto_pad, dilations, kernel_shape, pads, strides;
} onnx_window_args;
/* Reads them; `kernel` are the sizes that a weight has, NULL where only the attribute says them.
 * False, with an error. */
bool onnx_window_read(cfx_op_call *c, const cfx_tensor *x, const int64_t *kernel,
                      onnx_window_args at, onnx_window *w);
/* Whether it is padded by as much in front as behind. */
bool onnx_window_even(const onnx_window *w);
/* x with the padding of a window, or, where it is even, without. */
cfx_tensor *onnx_window_pad(const onnx_window *w, cfx_tensor *x, cfx_value with);
/* The paddings in front where they are even; else zeros: x is padded already. */
cfx_value onnx_window_padding(const onnx_window *w);

#endif
