/* loop: kernels fused from the steps of several calls.
 *
 * A loop iterates over the elements of one shape. Its values are elements or, in a loop over rows,
 * one number for each row (narrow values: the results of row reductions). Lanes are the arrays that
 * it reads and writes, broadcast to the shape or to its rows. Steps compute values from values, in
 * order, and describe their computation (src/ops/loop.h). This description is all that a target
 * needs. The CPU runs it block by block in the first-level cache, by a schedule (loop_run.c):
 * memory with the strides of the iteration is used in place, other memory is copied to a block.
 *
 * To make a loop, call cfx__loop_new, then add reads and steps in order, then writes, then call
 * cfx__loop_schedule. The loop is immutable afterwards. */
#ifndef CFX__PLAN_LOOP_H
#define CFX__PLAN_LOOP_H

#include "../ops/loop.h"

enum {
    CFX__LOOP_DIMS = 16,      /* dimensions of the shape, at most */
    CFX__LOOP_LANES = 24,     /* reads and writes, at most */
    CFX__LOOP_VALUES = 128,   /* values, and steps, at most */
    CFX__LOOP_ROW_MOST = 8192 /* elements of a row that the CPU's schedule takes */
};

/* How a lane is broadcast. */
typedef enum cfx__loop_breadth {
    CFX__LOOP_WIDE,        /* to the shape */
    CFX__LOOP_NARROW_KEPT, /* to the shape of rows with ones in place of the row's dims */
    CFX__LOOP_NARROW_GONE  /* to that without those dims */
} cfx__loop_breadth;

/* Memory that is read or written. */
typedef struct cfx__loop_lane {
    cfx_tensor *like; /* dtype, shape and strides; fake or constant, counted */
    cfx__loop_breadth breadth;
    bool write;
    int value;        /* that it gives, or stores */
} cfx__loop_lane;

typedef struct cfx__loop_value {
    cfx_dtype dtype;
    bool narrow;
    int lane;           /* that it is read from, -1: a step or a number makes it */
    int made, last;     /* the steps that make it and read it last; -1: before the first */
    const char *number; /* it is this number everywhere, in its dtype; NULL: no number */
} cfx__loop_value;

typedef enum cfx__loop_action {
    CFX__STEP_EACH,   /* says.expr of the elements */
    CFX__STEP_ROW,    /* says.row of a row */
    CFX__STEP_FOLD,   /* says.fold of a row: the result is narrow */
    CFX__STEP_WIDEN,  /* one element a row, for each of the row */
    CFX__STEP_CONVERT /* to the dtype of the result */
} cfx__loop_action;

typedef struct cfx__loop_step {
    cfx__loop_action kind;
    cfx__loop_says says;
    int out, n, in[CFX__LOOP_OPERANDS]; /* values */
    bool narrow;
    cfx__iter_loop *loop; /* EACH, ROW, FOLD: the CPU's function */
    const void *params;   /* what that is given */
} cfx__loop_step;

typedef struct cfx__loop {
    cfx_obj head;
    int ndim;
    int64_t shape[CFX__LOOP_DIMS];
    int row;            /* how many of the last dims are a row; 0: none */
    int nlanes, nvalues, nsteps;
    cfx__loop_lane *lanes;   /* these three in the arena: most loops are short */
    cfx__loop_value *values;
    cfx__loop_step *steps;
    int64_t cost;       /* of an element, see cfx__iter_pointwise */
    bool full;          /* more was asked for than there is room for */
    struct cfx__loop_schedule *schedule; /* the CPU's; NULL: none was made */
    struct cfx__loop *of; /* the loop whose values and steps these are; counted; NULL: its own */
    cfx__arena arena;
} cfx__loop;

/* A loop through a shape, whose last `row` dims are a row (0: no rows). The caller owns a count. */
cfx__loop *cfx__loop_new(int ndim, const int64_t *shape, int row);
/* The value of memory that lies like t. Lanes are numbered in the order in which they are asked
 * for. */
int cfx__loop_read(cfx__loop *l, cfx_tensor *t, cfx__loop_breadth b);
/* The value of a step whose operands are values (-1: the note's number), in a dtype. */
int cfx__loop_step_add(cfx__loop *l, const cfx__loop_note *note, const int *in, cfx_dtype dtype,
                       bool narrow);
/* Stores a value in memory that lies like t. */
void cfx__loop_write(cfx__loop *l, int value, cfx_tensor *t);
/* A loop that is made, which shares values and steps with another that has the same at another
 * shape. Takes the caller's count of `l` and gives one of the result, which is `l` itself where
 * they differ. */
cfx__loop *cfx__loop_shared(cfx__loop *l, cfx__loop *with);
/* Elements of a row; 1 where there are no rows. */
int64_t cfx__loop_row_length(const cfx__loop *l);

/* The loop as text, each line behind `indent`; names: of the memory of each lane. */
void cfx__loop_put(cfx__text *t, const cfx__loop *l, const char *indent, const char *const *names);

/* ---- the CPU's schedule (loop_run.c) --------------------------------------------------------- */

/* Makes the schedule; false where the loop is too large for one: it has too many parts, or its
 * blocks would not fit the cache. */
bool cfx__loop_schedule(cfx__loop *l);
void cfx__loop_schedule_free(cfx__loop *l);
/* Whether write `out` may go to the memory of read `in`, both whole and lying alike. */
bool cfx__loop_in_place(const cfx__loop *l, int in, int out);
/* data: the memory of each lane, in their order. */
void cfx__loop_run(const cfx__loop *l, char *const *data);

#endif
