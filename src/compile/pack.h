/* pack: packs weights for the kernels of generated C, at generation time. The layout does not
 * depend on the machine: the same bytes serve every vector width. */
#ifndef CFX__COMPILE_PACK_H
#define CFX__COMPILE_PACK_H

#include "../ops/ready.h"

enum { CFX__PANEL = 16 }; /* columns of a panel; NAME_PANEL of the kernels */

/* Panels of a k by n matrix, each [k][CFX__PANEL], the last filled up with zeros: how many floats
 * they are, and made of the matrix whose element (i, j) is w[i * row + j * col]. */
int64_t cfx__pack_panels_floats(int64_t k, int64_t n);
void cfx__pack_panels(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, float *to);

/* A convolution as the kernels take it (NAME_conv_shape has the same members in the same order):
 * sizes are [depth, height, width], ones in front where there are fewer. */
typedef struct cfx__pack_conv_shape {
    int64_t batch, groups, ic, oc;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t x_stride[5]; /* of x: image, channel, depth, height, width */
    int64_t y_row;       /* elements from point to point of the result */
    int64_t y_channel, y_image; /* 0: channels lie side by side, images behind each other */
} cfx__pack_conv_shape;

/* Weights [oc][ic / groups][kernel], contiguous, as panels for each group: NAME_conv. */
int64_t cfx__pack_conv_floats(const cfx__pack_conv_shape *s);
void cfx__pack_conv(const cfx__pack_conv_shape *s, const float *w, float *to);
/* Bytes of scratch; smaller: enough for images that are smaller, too. */
int64_t cfx__pack_conv_scratch(const cfx__pack_conv_shape *s, bool smaller);
/* Weights [channels][1][kernel] as [kernel][channels], as many floats: NAME_conv_depthwise. */
void cfx__pack_depthwise(const cfx__pack_conv_shape *s, const float *w, float *to);
/* Weights [oc][ic][3][3] after Winograd. The points of a patch for which that is worth it, 6 or 4;
 * 0: it is not, or the kernel does not take the convolution (NAME_conv_winograd). */
int cfx__pack_winograd_size(const cfx__pack_conv_shape *s);
int64_t cfx__pack_winograd_floats(const cfx__pack_conv_shape *s, int size);
void cfx__pack_winograd(const cfx__pack_conv_shape *s, int size, const float *w, float *to);
int64_t cfx__pack_winograd_scratch(const cfx__pack_conv_shape *s, int size, bool smaller);
/* Weights [ic][oc / groups][kernel] of a transposed convolution of ic to oc channels. The shape is
 * that of the convolution from its result to its input, whose ic and oc are the other way round:
 * NAME_conv_transposed. */
int64_t cfx__pack_transposed_floats(const cfx__pack_conv_shape *s);
void cfx__pack_transposed(const cfx__pack_conv_shape *s, const float *w, float *to);
int64_t cfx__pack_transposed_scratch(const cfx__pack_conv_shape *s); /* bytes */

/* ---- any of them ----------------------------------------------------------------------------- */

typedef enum cfx__packing_kind {
    CFX__PACKING_PANELS, /* row, col, k, n */
    CFX__PACKING_CONV,
    CFX__PACKING_DEPTHWISE,
    CFX__PACKING_WINOGRAD, /* size */
    CFX__PACKING_TRANSPOSED
} cfx__packing_kind;

/* How a weight of floats is packed. */
typedef struct cfx__packing {
    cfx__packing_kind kind;
    int size;
    int64_t row, col, k, n;
    const cfx__pack_conv_shape *s; /* of convolutions */
} cfx__packing;
/* How many floats; and they, made once for a weight: the same for all that is written of it, at
 * whatever sizes. Scope. */
int64_t cfx__packing_floats(const cfx__packing *p);
const float *cfx__packed_floats(const cfx_tensor *w, const cfx__packing *p);

/* ---- scratch of what has no weights ---------------------------------------------------------- */

/* Scratch of products of two matrices; `copied`: the columns of a are not next to each other. */
int64_t cfx__pack_matmul_scratch(int64_t m, int64_t n, int64_t k, bool copied); /* bytes */
/* Scratch of attention: keys of `size` elements, values of `value`. */
/* Bytes. */
int64_t cfx__pack_attention_scratch(int64_t rows, int64_t keys, int64_t size, int64_t value);
/* Scratch of recurrent layers. */
typedef struct cfx__pack_recurrent {
    int64_t steps, batch, size, hidden, given, gates, layers, directions;
} cfx__pack_recurrent;
int64_t cfx__pack_recurrent_scratch(const cfx__pack_recurrent *r); /* bytes */
int64_t cfx__pack_fft_scratch(int64_t n); /* bytes */

/* ---- weights of fewer bits ------------------------------------------------------------------- */

/* Panels as those of floats, in bfloat16: NAME_narrow with 16 bits. */
void cfx__pack_bf16(const float *w, int64_t row, int64_t col, int64_t k, int64_t n, uint16_t *to);
/* Panels of a weight of 8 or 4 bits, and of its scales: NAME_narrow. */
void cfx__pack_narrow(const cfx__narrow *w, void *numbers, float *scales);

/* ---- integers -------------------------------------------------------------------------------- */

/* Weights [oc][ic / groups][kernel] of bytes, and the sum of each column: NAME_int8_conv. Products
 * are convolutions of a line of points, kernel 1. */
int64_t cfx__pack_int8_bytes(const cfx__pack_conv_shape *s);
void cfx__pack_int8(const cfx__pack_conv_shape *s, const int8_t *w, int8_t *to, int32_t *sums);
int64_t cfx__pack_int8_scratch(const cfx__pack_conv_shape *s, bool smaller); /* bytes */
/* [channels][1][kernel] as [kernel][channels], as many bytes: NAME_int8_depthwise. */
void cfx__pack_int8_depthwise(const cfx__pack_conv_shape *s, const int8_t *w, int8_t *to,
                              int32_t *sums);
int64_t cfx__pack_int8_dynamic_scratch(int64_t m, int64_t n, int64_t k); /* NAME_int8_dynamic */

/* What NAME_int8_finish has beside what is added and a post: of n columns, and single numbers. */
typedef struct cfx__pack_int8_finish {
    int32_t *start;      /* [n], as the two below: the caller's room */
    float *scale, *bias;
    float added, low, high, steps, zero;
} cfx__pack_int8_finish;
/* `bias` may be NULL; low and high are the bounds of the epilogue, -INFINITY and INFINITY where
 * there are none; `adds`: it adds bytes; `posts`: something is done after the bounds. */
void cfx__pack_int8_finish_of(const cfx__integers *q, int64_t n, const int32_t *sums,
                              const float *bias, float low, float high, bool adds, bool posts,
                              cfx__pack_int8_finish *to);

#endif
