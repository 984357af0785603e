/* Ready kernels by oneDNN: a primitive with its epilogue and packed weights. */
#ifndef CFX__ONEDNN_READY_H
#define CFX__ONEDNN_READY_H

#include "../ready.h"
#include "onednn.h"

/* What a primitive is made of. The weights are given in their plain form; oneDNN chooses. */
typedef struct {
    const_dnnl_op_desc_t desc; /* with `any` for the weights */
    dnnl_memory_desc_t plain;  /* how the weights lie */
    const cfx_tensor *weights, *bias;
    int64_t work;              /* multiplications: little work is for one thread */
} onednn_wish;

/* The kernel, or NULL where oneDNN has none that is fast. The caller owns a count. */
cfx__ready *onednn_ready(const onednn_wish *w, const cfx__epilogue *e);

#endif
