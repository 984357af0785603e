/* Layers: products and convolutions, as layer.c and packed.c write them. */
#ifndef CFX__COMPILE_LAYERS_H
#define CFX__COMPILE_LAYERS_H

#include "calls.h"

/* Everything about a product or convolution that is written. */
typedef struct cfx__c_work {
    cfx__c_unit *u;
    cfx__c *c;
    const cfx__epilogue *epilogue; /* NULL: a call */
    const cfx__c_ref *x, *w, *bias, *add, *out;
    cfx_tensor *packs; /* the weight, where it is known and may be packed; w has its shape alone */
    const char *stem;  /* what weights are called after */
    double alpha, beta;
    const cfx_value *args;
} cfx__c_work;

/* A convolution over `nd` dims of space; transposed: out and x change places. */
typedef struct cfx__c_window {
    int nd;
    cfx_value stride, padding, dilation;
    int64_t groups;
    bool transposed;
    int64_t low[CFX_MAX_DIMS]; /* what is before the first element, where `lows` */
    bool lows;
} cfx__c_window;

/* Item i of a list, the only one for all; a number for each; else the fallback. */
int64_t cfx__c_item(cfx_value v, int i, int64_t fallback);
/* The same with packed weights and the kernels for them; false where those do not take it. The
 * weight of a product is w[r * w_row + j * w_col]. */
bool cfx__c_packed_product(cfx__c_work *k, int64_t w_row, int64_t w_col);
bool cfx__c_packed_conv(cfx__c_work *k, const cfx__c_window *win);

#endif
