/* Resampling: each size of the input is stretched by itself, so a result is made of taps along each
 * dimension: indices into the input and their weights.
 *
 * One, two and three dimensions are one: missing ones are of size 1, in front. */
#ifndef CFX__UPSAMPLE_H
#define CFX__UPSAMPLE_H

#include "../dense.h"
#include "../sizes.h"

typedef enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA } resample_mode;

/* Result o of a dimension is the sum of weight[o * taps + j] times input at[o * taps + j]. */
typedef struct {
    int64_t in, out;
    int64_t taps;
    const int64_t *at;
    const void *weight; /* float or double, as the data */
} axis;

typedef struct {
    axis axis[3];
    int64_t planes, in_plane, out_plane;
    const void *x;
    void *y;
    char *room; /* for the rows kept, `share` bytes for each thread */
    int64_t share;
    int64_t threads;
} resample;

/* Which operator it is: how many dimensions, and what stands where in its arguments. */
typedef struct {
    const char *name;
    int dims;
    resample_mode mode;
    bool vec;      /* output_size and scale_factors as optional lists */
    bool backward; /* grad_output, output_size, input_size, ... */
} resample_row;

/* Makes the taps of one dimension in the scope: `scale` is the user's, or 0 where there is none.
 * False when memory runs out. */
bool axis_make(cfx_op_call *c, axis *a, resample_mode mode, cfx_dtype d, int64_t in, int64_t out,
               bool align_corners, double scale);
/* The sum over taps of all planes, or its transpose; r->axis, sizes, x and y are set. */
void resample_run(cfx_op_call *c, resample *r, cfx_dtype d, bool transpose);

#endif
