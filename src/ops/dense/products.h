/* products: what sums of products of several tensors share. */
#ifndef CFX__PRODUCTS_H
#define CFX__PRODUCTS_H

#include "../ops.h"

/* (left * right) summed over the dims of the mask, which stay as 1, by way of bmm; both have the
 * same number of dims. */
cfx_tensor *sum_of_products(cfx_op_call *c, cfx_tensor *left, cfx_tensor *right, uint64_t mask);

#endif
