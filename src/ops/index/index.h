/* Gradients that the operators of indexing share (index_back.c). */
#ifndef CFX__INDEX_H
#define CFX__INDEX_H

#include "../ops.h"

cfx_grad_fn grad_index, grad_index_put;
cfx_grad_fn grad_index_select, grad_index_add, grad_index_copy, grad_index_fill;
cfx_grad_fn grad_take, grad_put;
cfx_grad_fn grad_gather, grad_scatter, grad_scatter_add;
cfx_grad_fn grad_reduce_to; /* scatter_reduce and index_reduce */
cfx_grad_fn grad_masked_scatter, grad_masked_select;

#endif
