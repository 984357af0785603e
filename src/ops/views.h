/* What views, copies and constructors share: the arithmetic of sizes and strides, and memory
 * formats of results. */
#ifndef CFX__VIEWS_H
#define CFX__VIEWS_H

#include "ops.h"

/* Calls an operator with all its arguments in the order of the schema: what a decomposition that is
 * called often does instead of binding keywords. */
static inline cfx_tensor *call_bound(cfx_op_call *c, cfx_op *op, cfx_value *args) {
    cfx_value v = op_failed() ? cfx_bad() : cfx__op_call_bound(c->at, op, args);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Strides under which t is seen in the new shape without a copy; false where there are none. */
bool view_strides(const cfx_tensor *t, int n, const int64_t *shape, int64_t *stride);
/* The same as PyTorch has it of fake tensors while it traces; false where it has none. */
bool view_traced_strides(const cfx_tensor *t, int n, const int64_t *shape, int64_t *stride);
/* t seen in a shape that it broadcasts to (-1 keeps a size); the bad tensor with an error. */
cfx_tensor *expanded(cfx_op_call *c, const cfx_tensor *t, int n, const int64_t *shape);
/* t[..., start:start+length:step, ...] along dim, unchecked; scope. */
cfx_tensor *sliced(const cfx_tensor *t, int dim, int64_t start, int64_t length, int64_t step);
/* A view of t with its own shape; scope. */
cfx_tensor *aliased(const cfx_tensor *t);

/* ---- results --------------------------------------------------------------------------------- */

/* A memory format argument; `other` where None. */
static inline cfx_memory_format arg_format(const cfx_op_call *c, int i, cfx_memory_format other) {
    return c->args[i].tag == CFX_TAG_MEMORY_FORMAT ? cfx_as_memory_format(c->args[i]) : other;
}
/* Strides of a new tensor in a memory format; false, with PyTorch's message, when it does not have
 * the rank for it. CFX_PRESERVE counts as contiguous. */
bool format_strides(cfx_op_call *c, cfx_memory_format f, int n, const int64_t *shape,
                    int64_t *stride);
/* Strides of an empty_like of t: its own where it is dense, else their order. */
bool like_strides(cfx_op_call *c, cfx_memory_format f, const cfx_tensor *t, int64_t *stride);
/* Result 0 made as empty_like(t) makes it. */
cfx_tensor *out_empty_like(cfx_op_call *c, cfx_dtype dtype, cfx_memory_format f,
                           const cfx_tensor *t);
/* Whether layout, device and pin_memory at these places ask for what there is: strided, on the CPU
 * (the device type of `like`, where given). False, with an error, otherwise. */
bool options_fit(cfx_op_call *c, int layout, int device, int pin_memory);
/* The value as dtype can hold it, or PyTorch's error: value cannot be converted to type uint8_t
 * without overflow. */
bool number_fits(cfx_op_call *c, cfx_value number, cfx_dtype dtype);
/* The integer that a kernel of that dtype makes of a number that fits: among bytes -2 is 254. */
int64_t number_in(cfx_value number, cfx_dtype dtype);

/* The dtype of floats that nobody chose. */
static inline cfx_dtype default_dtype(void) { return cfx__dtype_of_number(cfx_float(0)); }
/* Whether results may be written to t in place: no two of its elements share memory. */
bool is_writable(cfx_op_call *c, const cfx_tensor *t);
/* A copy that lies as t does in a storage as long, all of which strides may reach; scope. */
cfx_tensor *cfx__copied_as_it_lies(cfx_tensor *t);
/* What lies between the elements of self goes along into a copy that has its strides: as_strided
 * may look there. */
void copy_gaps(cfx_tensor *copy, const cfx_tensor *self);

/* ---- constructors ---------------------------------------------------------------------------- */

/* What fills a new tensor, where it is no argument. */
enum { WITH_NOTHING = -1, WITH_ZERO = -2, WITH_ONE = -3 };

/* Places of arguments; -1 where there is none. */
typedef struct {
    int like;    /* the model: its dtype, and its sizes where no size is given */
    int size;    /* the sizes */
    int options; /* dtype, layout, device, pin_memory: four in a row */
    int format;  /* the memory format */
    int fill;    /* the number, or WITH_... */
} make_row;

/* Makes result 0 by the make_row that c->op->row points to. */
void shape_make(cfx_op_call *c);

#endif
