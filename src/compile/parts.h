/* Decompositions for C that parts.c's table names. Each sets nothing for a call that has a form as
 * it is, or no parts. */
#ifndef CFX__COMPILE_PARTS_H
#define CFX__COMPILE_PARTS_H

#include "../ops/ops.h"

/* The numbers of all dims but one; -1: of all. */
cfx_value cfx__c_dims_but(const cfx_tensor *x, int but);

/* parts_norm.c */
cfx_op_fn cfx__c_batch_norm, cfx__c_layer_norm, cfx__c_group_norm;
/* parts_complex.c */
cfx_op_fn cfx__c_complex_product, cfx__c_complex_addmm, cfx__c_complex_linear, cfx__c_of_parts,
    cfx__c_by_parts, cfx__c_angle, cfx__c_fft_r2c, cfx__c_fft_c2r;
/* parts_linalg.c */
cfx_op_fn cfx__c_lu, cfx__c_triangular_solve, cfx__c_cholesky_inverse;

#endif
