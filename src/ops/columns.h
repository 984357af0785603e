/* What a row says in its columns of gradients, Core ATen, layers and effects. Formulas of gradients
 * are written beside the row or in the files *_back.c, by what they differentiate; decompositions
 * for Core ATen are in core/. */
#ifndef CFX__COLUMNS_H
#define CFX__COLUMNS_H

#include <cfx/op.h>

/* A row's gradient: grad_NAME, and whose numbers it reads, READ(0) | RESULT(0) or 0 for none. */
#define GRAD(name, reads) .grad = grad_##name, .saves = reads
#define READ(i) CFX_SAVE_ARG(i)
#define RESULT(i) CFX_SAVE_OUT(i)
/* Results that no gradient flows from: ASIDE(RESULT(1)). */
#define ASIDE(results) .aside = results

/* The columns of layers: of products, and of convolutions of (input, weight, bias). */
#define PRODUCT_LAYER(input, weight, bias, axis) .layer = {weight, input, bias, axis, true}
#define CONV_LAYER(axis) .layer = {1, 0, 2, axis, false}

/* The effects of what moves elements by sizes and strides alone, and of what reshapes. */
#define STRIDED (CFX_MOVES | CFX_ALIKE)
#define RESHAPED (STRIDED | CFX_IN_ORDER)

/* Functions of single numbers that kernels do to their results before they store them. A row says
 * by IS_POST(kind), among its effects, which one it is. */
typedef enum cfx__post_kind {
    CFX__POST_NONE,
    CFX__POST_BOUNDS, /* min(max(x, low), high), by the second and third argument */
    CFX__POST_RELU,   /* the same from 0 to infinity, and from 0 to 6 */
    CFX__POST_RELU6,
    CFX__POST_LEAKY, /* x < 0 ? low x : x, low being the second argument */
    CFX__POST_SILU,
    CFX__POST_SIGMOID,
    CFX__POST_TANH,
    CFX__POST_HARDSWISH,
    CFX__POST_GELU,
    CFX__POST_GELU_TANH,
    CFX__POST_KINDS
} cfx__post_kind;
enum { CFX__POST_SHIFT = 24 };
#define IS_POST(kind) ((uint32_t)CFX__POST_##kind << CFX__POST_SHIFT)

/* Nothing flows back: what is made does not depend on the numbers of the arguments. */
#define NO_GRAD .grad = cfx__op_grad_none

/* Every formula and every decomposition for Core ATen, found by tools/genops: void grad_NAME(...),
 * BACK(NAME, ...) and CORE(NAME) at the start of a line. */
#include "ops_columns.inc"

#endif
