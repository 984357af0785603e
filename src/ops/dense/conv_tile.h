/* conv_tile: convolution channels last by the kernels of tile.h, channel by channel, and after
 * Winograd. */
#ifndef CFX__CONV_TILE_H
#define CFX__CONV_TILE_H

#include "bf16.h"
#include "conv.h"

/* What is needed to run: weights in panels, group after group, or for convolutions channel by
 * channel [taps][channels]; the bias padded to whole panels of a group (NULL: none). */
typedef struct {
    conv v;
    bool src_last; /* src lies channels last; planes otherwise */
    int patch;     /* the side of Winograd's patches; 0: the weights are as they were */
    bf16_way way;  /* BF16_NONE: in single precision */
    cfx_precision kept;     /* the elements of panels; weights channel by channel are float32 */
    const void *weights;
    const float *bias;
    tile_epilogue epilogue;
    int64_t dst_row; /* elements from a point of dst to the next; 0: oc, all of them */
} conv_tiles;

static inline int64_t conv_tile_row(const conv_tiles *t) {
    return t->dst_row ? t->dst_row : t->v.oc;
}

/* Whether there are kernels for this geometry: tiles, or lines of channels (one a group). */
bool conv_tile_takes(const conv *v);
bool conv_channels_takes(const conv *v);
/* Bytes of the weights in that form, and making it. */
size_t conv_tile_size(const conv *v, cfx_precision kept);
void conv_tile_pack(const conv *v, const float *w, cfx_precision kept, void *to);
/* Columns of the bias of a group, padded. */
int64_t conv_tile_columns(const conv *v);

/* Whether it is one product, of single points without a border, and that. */
bool conv_tile_is_product(const conv_tiles *t);
product conv_tile_product(const conv_tiles *t, const float *src, float *dst);

/* Computes dst, channels last, on the threads allowed. */
void conv_tile_run(const conv_tiles *t, const float *src, float *dst);
void conv_channels_run(const conv_tiles *t, const float *src, float *dst);

/* The same in bf16: by which instructions, BF16_NONE where there are none for it; the bytes of the
 * weights in that form, making it, and running, of src in any order. */
bf16_way conv_bf16_way(const conv *v);
size_t conv_bf16_size(const conv *v);
void conv_bf16_pack(const conv *v, const float *w, void *to);
void conv_bf16_run(const conv_tiles *t, const float *src, float *dst);

/* Lines of an image, convolved channel by channel: `n` channels from the one numbered `channel` on,
 * vectors of 4 at least. Runs on the calling thread. */
typedef struct {
    const conv_tiles *t;
    int64_t channel, n;
    const float *src; /* the first channel of these at the first point of the image */
    int64_t src_row;  /* elements from a point of src to the next; lines follow each other */
    float *dst;       /* the same of dst, whose points have all channels */
    int64_t top, bottom;
} conv_lines;
void conv_channels_lines(const conv_lines *l);

/* A convolution by single points and one channel by channel that reads nothing else, as one kernel:
 * the first's results are computed for a part of the lines and channels at a time, and never leave
 * the cache. Whether there is such, and running it. */
bool conv_pair_takes(const conv_tiles *first, const conv_tiles *second);
void conv_pair_run(const conv_tiles *first, const conv_tiles *second, const float *src, float *dst);

/* The side of the patches by which a convolution is best computed after Winograd, 6 or 4; 0: it is
 * none of 3 x 3 points one by one, or other kernels are faster. Weights in its form, and running:
 * src lies channels last. */
int conv_winograd_patch(const conv *v);
size_t conv_winograd_weights(const conv *v, int patch);
void conv_winograd_pack(const conv *v, const float *w, int patch, float *to);
void conv_winograd_run(const conv_tiles *t, const float *src, float *dst);

#endif
