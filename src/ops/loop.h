/* loop: what a call does to a block of elements.
 *
 * A kernel that goes through its elements block by block can say how instead of running: where a
 * call has a `note`, the tensors need no data, and the kernel of an operator with CFX_LOOPS among
 * its effects fills the note in. Plans run the steps of many calls one after the other on a block
 * that stays in the first-level cache. */
#ifndef CFX__LOOP_H
#define CFX__LOOP_H

#include "../dispatch/dispatch.h"

typedef enum cfx__loop_kind {
    CFX__LOOP_NONE, /* this call is no such step */
    CFX__LOOP_EACH, /* elements of the result from elements at the same place */
    CFX__LOOP_ROW,  /* a row of the result from a row: the loop is given one row at a time */
    CFX__LOOP_FOLD, /* one element of the result from a row */
    CFX__LOOP_COPY  /* the elements in another dtype or order; no loop */
} cfx__loop_kind;

enum { CFX__LOOP_OPERANDS = 4, CFX__LOOP_NUMBERS = 8 };

/* What a row is folded to: words that any target can render. Sums of floats are kept in double. */
typedef enum cfx__loop_fold {
    CFX__FOLD_SUM,
    CFX__FOLD_NANSUM, /* NaN counts as zero */
    CFX__FOLD_MEAN,
    CFX__FOLD_PROD,
    CFX__FOLD_MAX, /* NaN wins, here and in MIN */
    CFX__FOLD_MIN,
    CFX__FOLD_COUNT, /* of what is not zero */
    CFX__FOLD_ANY,
    CFX__FOLD_ALL
} cfx__loop_fold;

/* What a row becomes. */
typedef enum cfx__loop_row {
    CFX__ROW_SOFTMAX,
    CFX__ROW_LOG_SOFTMAX,
    CFX__ROW_SAFE_SOFTMAX, /* a row of -inf gives zeros */
    CFX__ROW_LAYER_NORM,   /* p0: eps; then the weight and the bias, as far as `affine` says */
    CFX__ROW_RMS_NORM      /* the same without a bias */
} cfx__loop_row;

enum { CFX__ROW_WEIGHT = 1, CFX__ROW_BIAS = 2 };

/* What a step computes. EACH: a C expression of the operands x, y, z in type T and of the numbers
 * p0 .. p7, over the helpers of vecmath.h and expr.h; the result is converted to `gives`. */
typedef struct cfx__loop_says {
    const char *expr;    /* EACH; NULL: the step says nothing that can be rendered */
    cfx__loop_fold fold; /* FOLD */
    cfx__loop_row row;   /* ROW */
    int affine;          /* ROW: CFX__ROW_WEIGHT, CFX__ROW_BIAS */
    double f[CFX__LOOP_NUMBERS];
    int64_t i[CFX__LOOP_NUMBERS]; /* the same numbers where T is an integer */
} cfx__loop_says;

/* What a loop reads: a tensor of the call, or a number, which is in the loop's dtype already. */
typedef struct cfx__loop_operand {
    cfx_tensor *t; /* NULL: the number */
    cfx_dtype as;  /* what the loop takes */
    _Alignas(16) char number[16];
} cfx__loop_operand;

typedef struct cfx__loop_note {
    cfx__loop_kind kind;
    cfx__loop_says says;
    cfx__iter_loop *loop; /* the CPU's function for it */
    int n;
    cfx__loop_operand in[CFX__LOOP_OPERANDS]; /* broadcast to the first where there are rows */
    cfx_dtype gives;                          /* what the loop writes */
    int row;                       /* ROW, FOLD: how many of the last dims of in[0] are a row */
    int cost;                      /* of an element, see cfx__iter_pointwise */
    _Alignas(16) char params[256]; /* what the loop is given */
} cfx__loop_note;

/* Fills in a note; the operands are still to be set. */
static inline void loop_note(cfx__loop_note *s, cfx__loop_kind kind, cfx__iter_loop *loop,
                             cfx_dtype gives, int cost, const void *params, size_t size) {
    *s = (cfx__loop_note){.kind = kind, .loop = loop, .gives = gives, .cost = cost};
    if (params)
        memcpy(s->params, params, size);
}

static inline void loop_operand(cfx__loop_note *s, cfx_tensor *t, cfx_dtype as) {
    s->in[s->n].t = t;
    s->in[s->n++].as = as;
}

#endif
