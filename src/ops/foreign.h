/* Operators of other frameworks, known by what they are made of in ATen: their rows have
 * CFX_FOREIGN among their effects, and a cfx__foreign_row behind `row`. And what ONNX calls the
 * types of elements. */
#ifndef CFX__FOREIGN_H
#define CFX__FOREIGN_H

#include <stdbool.h>

#include <cfx/dtype.h>

/* Which versions of its operator set a row is for: from `since` up to where another row of the same
 * name begins. */
typedef struct cfx__foreign_row {
    int since;
    bool several; /* the items of the list that it gives are results of their own */
} cfx__foreign_row;

/* A type of elements in ONNX: integers of fewer than 8 bits are int8 and uint8 tensors here. */
typedef struct cfx__onnx_type {
    const char *name; /* "float", "int4" */
    int number;       /* in files */
    cfx_dtype dtype;  /* CFX_DTYPE_COUNT: there are no such tensors */
    int bits;         /* where they are fewer than the dtype has; else 0 */
} cfx__onnx_type;

/* By its name, by its number, and that of a dtype; NULL where there is none. Static. */
const cfx__onnx_type *cfx__onnx_type_named(const char *name);
const cfx__onnx_type *cfx__onnx_type_numbered(int64_t number);
const cfx__onnx_type *cfx__onnx_type_of(cfx_dtype d);

#endif
