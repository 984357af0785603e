/* What a row says in its gradient and core columns. Formulas of gradients are written beside the
 * row or in the files *_back.c, by what they differentiate; decompositions for Core ATen are in
 * core/. */
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
/* Nothing flows back: what is made does not depend on the numbers of the arguments. */
#define NO_GRAD .grad = cfx__op_grad_none

/* Every formula and every decomposition for Core ATen, found by tools/genops: void grad_NAME(...),
 * BACK(NAME, ...) and CORE(NAME) at the start of a line. */
#include "ops_columns.inc"

#endif
