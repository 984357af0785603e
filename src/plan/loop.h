/* loop: kernels made of the steps of several calls, run block by block.
 *
 * A loop walks through the elements of one shape. Its values are blocks of so many elements, or, of
 * a loop over rows, of one element a row (narrow values: what a row was folded to). Memory is read
 * and written in place where it lies in the order of the walk, else a block is moved. Making one:
 * cfx__loop_new, then reads, numbers and steps in order, then what is written, then
 * cfx__loop_finish. It is constant afterwards. */
#ifndef CFX__PLAN_LOOP_H
#define CFX__PLAN_LOOP_H

#include "../ops/loop.h"

enum {
    CFX__LOOP_LANES = 24,     /* reads and writes, at most */
    CFX__LOOP_ROW_MOST = 8192 /* elements of a row, at most */
};

typedef struct cfx__loop cfx__loop;

/* A loop through a shape, whose last `row` dims are a row (0: no rows). The caller owns a count. */
cfx__loop *cfx__loop_new(int ndim, const int64_t *shape, int row);
/* Memory that lies like t, broadcast to the shape, or to the rows: a value. Reads and writes are
 * numbered in the order in which they are asked for. */
typedef enum cfx__loop_breadth {
    CFX__LOOP_WIDE,
    CFX__LOOP_NARROW_KEPT, /* to the shape of rows with ones in place of the row's dims */
    CFX__LOOP_NARROW_GONE  /* to that without those dims */
} cfx__loop_breadth;
int cfx__loop_read(cfx__loop *l, const cfx_tensor *t, cfx__loop_breadth b);
/* The value of a step whose operands are values (-1: the note's number), in a dtype. */
int cfx__loop_step(cfx__loop *l, const cfx__loop_note *note, const int *in, cfx_dtype dtype,
                   bool narrow);
/* Stores a value in memory that lies like t. */
void cfx__loop_write(cfx__loop *l, int value, const cfx_tensor *t);
/* False where blocks would be too large. */
bool cfx__loop_finish(cfx__loop *l);
/* Whether write `out` may go to the memory of read `in`, both whole and lying alike. */
bool cfx__loop_in_place(const cfx__loop *l, int in, int out);
/* data: the memory of each read and write, in their order. */
void cfx__loop_run(const cfx__loop *l, char *const *data);

#endif
