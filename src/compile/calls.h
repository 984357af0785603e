/* Calls: what their files share, and the forms of operators that call.c's table names. */
#ifndef CFX__COMPILE_CALLS_H
#define CFX__COMPILE_CALLS_H

#include "compile.h"

/* A list of integers, or one; how many, 0 for what is neither. */
int cfx__c_ints(cfx_value v, int64_t *out);
/* An argument with the fake tensors of the plan in its slots; scope. */
cfx_value cfx__c_filled(const cfx__c_unit *u, cfx_value v);
/* Whether somebody reads result number 1 or above of the call that is written. */
bool cfx__c_reads_more(const cfx__c_unit *u);
/* A dim of a shape, counted from its end where it is negative. */
static inline int cfx__c_dim(cfx_value v, int ndim) {
    const int64_t d = cfx_integer(v);
    return (int)(d < 0 ? d + ndim : d);
}

typedef void cfx__c_form(cfx__c_unit *u, const cfx__plan_kernel *k);
/* Whether a form takes the call that a node is. */
typedef bool cfx__c_condition(const cfx_program *p, const cfx_node *n);

/* call_loop.c */
cfx__c_form cfx__c_call_noted, cfx__c_call_fold, cfx__c_call_var, cfx__c_call_norm,
    cfx__c_call_softmax, cfx__c_call_batch_norm, cfx__c_call_group_norm, cfx__c_call_division,
    cfx__c_call_clamp;
/* The mean over the last nd dims, which the result has as ones. */
void cfx__c_put_mean(cfx__c_unit *u, const cfx__c_ref *x, const cfx__c_ref *out, int nd);
/* call_index.c */
cfx__c_form cfx__c_call_embedding, cfx__c_call_index, cfx__c_call_index_put, cfx__c_call_gather,
    cfx__c_call_scatter, cfx__c_call_index_select;
/* call_move.c */
cfx__c_form cfx__c_call_cat, cfx__c_call_pad, cfx__c_call_flip, cfx__c_call_roll,
    cfx__c_call_triangle, cfx__c_call_fill, cfx__c_call_copy, cfx__c_call_put_part,
    cfx__c_call_empty;
/* call_window.c */
cfx__c_form cfx__c_call_pool, cfx__c_call_adaptive, cfx__c_call_nearest, cfx__c_call_bilinear,
    cfx__c_call_grid;
/* call_more.c */
cfx__c_form cfx__c_call_arange, cfx__c_call_repeat, cfx__c_call_grouped, cfx__c_call_bag,
    cfx__c_call_fft;
/* "model_row((int64_t)index[i], 16, c->bad)": an index that is checked; scope (call_index.c). */
const char *cfx__c_checked(cfx__c *c, const char *pointer, const char *at, cfx_dtype d,
                           int64_t size);
/* The same of an index that is computed; scope. */
const char *cfx__c_checked_number(cfx__c *c, const char *number, int64_t size);
/* call_linalg.c */
cfx__c_form cfx__c_call_lu, cfx__c_call_lu_unpack, cfx__c_call_lu_solve, cfx__c_call_cholesky,
    cfx__c_call_triangular, cfx__c_call_qr, cfx__c_call_eigh;
/* attention.c */
cfx__c_form cfx__c_call_attention, cfx__c_call_recurrent;
cfx__c_condition cfx__c_takes_attention, cfx__c_takes_recurrent;
/* call_order.c */
cfx__c_form cfx__c_call_scan, cfx__c_call_scan_best, cfx__c_call_best, cfx__c_call_sort,
    cfx__c_call_top, cfx__c_call_pick, cfx__c_call_histc;

#endif
