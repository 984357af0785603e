/* The names that pickles may have, and what becomes of values that are not PyTorch's. */
#ifndef CFX__PICKLE_NAMES_H
#define CFX__PICKLE_NAMES_H

#include "pickle.h"

/* What a name in a pickle stands for. */
typedef enum cfx__pickle_callee {
    NO_CALLEE,
    ORDERED_DICT,
    REBUILD_TENSOR,    /* (storage, offset, size, stride, requires_grad, hooks) */
    REBUILD_TENSOR_3,  /* ... and a dtype, over an untyped storage */
    REBUILD_PARAMETER, /* (tensor, requires_grad, hooks) */
    SIZE,              /* (tuple,) */
    DEVICE,            /* (type, index) */
    LAYOUT,            /* (name,) */
    REBUILD_TYPED,     /* (one of the above, class, its arguments, state) */
    STORAGE,           /* a class of storages */
    FILLED_DICT,       /* of a factory, or of a dict */
    ARRAY,             /* of NumPy's: () first, and filled when its state comes */
    ARRAY_SCALAR,      /* (dtype, bytes) */
    ARRAY_DTYPE,       /* (descr, ...) */
    ENCODED,           /* (text, "latin1"): bytes */
    UNREAD             /* what has no tensors and may be beside them: it is None */
} cfx__pickle_callee;

/* What module.name stands for, and of a class of storages the dtype (-1: none). */
cfx__pickle_callee cfx__pickle_name(const char *module, const char *name, int *dtype);

/* Sizes or strides; how many, -1 when they are none. */
int cfx__pickle_ints(cfx_value v, int64_t *out);
/* The tensor of an array of NumPy's: its sizes, a tuple; descr ('f4', which is little-endian); its
 * bytes, a text (None: no bytes). Scope. Bad, with an error that begins with `what`. */
cfx_tensor *cfx__pickle_array(const char *what, cfx_value sizes, cfx_value descr, bool fortran,
                              cfx_value data);
/* The bytes that a text of characters below 256 stands for; scope. */
cfx_value cfx__pickle_decoded(cfx_value text);

#endif
