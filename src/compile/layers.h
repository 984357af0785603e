/* Layers: products and convolutions, as layer.c and packed.c write them. */
#ifndef CFX__COMPILE_LAYERS_H
#define CFX__COMPILE_LAYERS_H

#include "calls.h"
#include "pack.h"

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

/* ---- rows (epilogue.c) ----------------------------------------------------------------------- */

/* Whether a tensor is rows of contiguous elements at one distance: [..., n]; that distance. */
bool cfx__c_is_rows(const cfx__c_ref *r, int64_t *row);
/* The same of an image whose channels lie last: [n, c, ...] is points of c channels. */
bool cfx__c_is_points(cfx__c *c, const cfx__c_ref *r, int lead, int64_t *row);

/* Matrices of a product: the dims before the last two are gone through, or all are one matrix. */
typedef struct cfx__c_rows {
    int64_t m, x_row, out_row, add_row;
    bool whole; /* one matrix */
    cfx__c_walk walk;
    int x, out, add; /* their numbers in the walk */
} cfx__c_rows;

/* x and out have the same dims before the last; false where their rows are no rows. */
bool cfx__c_find_rows(const cfx__c_work *k, cfx__c_rows *r);
/* What stands before and behind the call of a product over such rows, after x and the weight: the
 * pointers, loops over matrices where there are several, and the epilogue `e`. */
void cfx__c_rows_open(cfx__c_work *k, const cfx__c_rows *r);
void cfx__c_rows_close(cfx__c_work *k, const cfx__c_rows *r);
/* "x + i * 64": where a matrix begins; scope. */
const char *cfx__c_begin(const cfx__c_rows *r, const char *name, int number);

/* ---- what follows (epilogue.c) --------------------------------------------------------------- */

/* The bounds that the first post after an addition gives; the number of the post behind it. */
int cfx__c_bounds(const cfx__epilogue *e, float *low, float *high);
/* The posts from number `from` on as a function of a run of results; "NULL" where there are none.
 */
const char *cfx__c_post_function(cfx__c *c, const cfx__epilogue *e, int from);
/* Declares `e`. */
/* Declares the epilogue `e`: what is NULL is left out, as a post that is "NULL" is. */
void cfx__c_epilogue_line(cfx__c *c, const char *bias, const char *add, int64_t add_row,
                          const char *low, const char *high, const char *post);
void cfx__c_epilogue(cfx__c_work *k, int64_t add_row, const char *add);

/* ---- kernels --------------------------------------------------------------------------------- */

/* A convolution as the kernels take it, and declared as "shape". */
cfx__pack_conv_shape cfx__c_conv_shape(const cfx__c_work *k, const cfx__c_window *win);
void cfx__c_put_conv_shape(cfx__c *c, const cfx__pack_conv_shape *s);
/* What the arguments of a convolution say (layer.c). */
cfx__c_window cfx__c_window_of(const cfx__c_work *k, const cfx_op *op);
/* Layers in integers, and those whose weight has 8 or 4 bits (integer.c): whether they are taken.
 */
bool cfx__c_integers_known(const cfx__layer *l);
bool cfx__c_narrow_known(const cfx__layer *l);
void cfx__c_integers(cfx__c_work *k, const cfx__layer *l);
void cfx__c_narrow(cfx__c_work *k, const cfx__layer *l);
/* Declares "weight", of so many bits: k numbers of a column, of which a group shares a scale. */
void cfx__c_put_narrow(cfx__c *c, int bits, int64_t k, int64_t group, const char *numbers,
                       const char *scales);
/* A product of rows by a weight as NAME_narrow has it, declared as "weight"; false where rows are
 * none. */
bool cfx__c_narrow_product(cfx__c_work *k, int64_t n);

/* The product or convolution at a slot, a layer or a call: its operator and what it is of; NULL:
 * there is none. */
const cfx_op *cfx__c_work_of(cfx__c_unit *u, int slot, cfx__c_work *k);
/* Writes what follows to `sum`, of the dtype that is summed in, and stores it. out and add: their
 * numbers in the walk. */
void cfx__c_put_result(cfx__c_work *k, const cfx__c_walk *w, int out, int add, cfx_dtype d);
/* Item i of a list, the only one for all; a number for each; else the fallback. */
int64_t cfx__c_item(cfx_value v, int i, int64_t fallback);
/* The same with packed weights and the kernels for them; false where those do not take it. The
 * weight of a product is w[r * w_row + j * w_col]. */
bool cfx__c_packed_product(cfx__c_work *k, int64_t w_row, int64_t w_col);
/* A product of matrices that a run alone knows, whose pointers are declared: strides are over the
 * dims of out, of x along a row x_row, of w along a column w_row. False where it is of another
 * kind. */
bool cfx__c_matmul(cfx__c_work *k, const int64_t *xs, const int64_t *ws, const int64_t *bs,
                   int64_t length, int64_t x_row, int64_t w_row);
bool cfx__c_packed_conv(cfx__c_work *k, const cfx__c_window *win);

#endif
