/* int8: products of unsigned bytes by signed ones, summed in 32 bits.
 *
 * x = (q - zero) scale for the input, w = q scale for each column of the weights; the sums are
 * exact on every machine, so that results differ from float32's by its rounding alone. */
#ifndef CFX__INT8_H
#define CFX__INT8_H

#include "conv.h"
#include "tile.h"

enum { INT8_ROWS = 32, INT8_COLUMNS = 32 }; /* of a tile, at most */
enum { INT8_STEP = 16 }; /* groups that the machine's tiles take at a time */
enum { INT8_GROUP = 4, INT8_TAPS = 1024 };  /* of a kernel, at most */
enum { INT8_DEPTH = INT32_MAX / (255 * 128) }; /* numbers of a sum, at most: it fits 32 bits */

/* Weights in panels of int8_columns() columns: a row of A is some runs of bytes, each as long as
 * whole groups of 4, and a group's numbers of one column lie together. */
typedef struct {
    int64_t runs, groups; /* of a row; groups of a run */
    int64_t n, padded;    /* columns; rounded up to whole panels */
    void *panels;
    int32_t *sums;        /* of each column */
} int8_weights;

/* What becomes of sums; of each column, padded to whole panels. */
typedef struct {
    int32_t *start;      /* what sums begin with: the input's zero is taken away from them */
    float *scale, *bias;
    bool rounds;         /* the result is bytes; else float32 */
    bool add;            /* bytes that the result holds before, each of them counting */
    float added;
    float low, high;     /* bounds of the result, in its own units */
    const tile_epilogue *posts; /* what else is done before results are rounded; NULL: nothing */
    float steps, zero;   /* with those: how their results are rounded */
} int8_finish;

/* Rows of A, `row` bytes apart, by a panel. Bytes up to a whole group are read behind a run. */
typedef struct {
    const uint8_t *a;
    int64_t row;
    const int64_t *at; /* where the runs of a row begin */
    const int8_weights *w;
    int64_t panel;
    const int8_finish *finish;
    void *c;           /* where the panel's columns of the first row go */
    int64_t c_row;     /* elements from one row of the result to the next */
    const int32_t *sums; /* of the first `done` groups of each run, [rows][INT8_COLUMNS]; NULL: none
                            are done */
    int64_t done;
    int *set;            /* the rows that the thread's tiles are set to; 0: they are not */
} int8_tile;

/* Whether the machine adds four products of bytes at once without saturating on the way. */
bool int8_has_dots(void);
/* Columns of a panel and the most rows of a tile, on this machine. */
int int8_columns(void);
int int8_rows(void);
/* Weights whose element in row i of run r and column j is w[at[r * length + i] + j * col]. */
typedef struct {
    int64_t runs, length, n;
    const int8_t *w;
    const int64_t *at;
    int64_t col;
} int8_matrix;
/* The bytes that they take packed, in whole lines; where they are in such memory; and packs them
 * there, on the threads allowed. */
size_t int8_weights_size(const int8_matrix *m);
int8_weights int8_weights_in(const int8_matrix *m, void *memory);
void int8_pack(const int8_weights *to, const int8_matrix *m);
/* Computes `rows` rows of a panel, int8_rows() at most. */
void int8_tile_run(const int8_tile *t, int rows);
/* The same by the machine's dot products, INT8_DOTS_ROWS at most; sums that are done before are
 * added to. */
enum { INT8_DOTS_ROWS = 12 };
void int8_dots(const int8_tile *t, int rows);
/* Whether the machine multiplies tiles of bytes; it has dot products then. */
bool int8_has_tiles(void);
/* The sums of rows by a panel over whole steps of each run, to sums[rows][INT8_COLUMNS], aligned to
 * lines; how many groups of each run that is. */
int64_t int8_tiles_sum(const int8_tile *t, int rows, int32_t *sums);
/* To be called where a thread is done with tiles. */
void int8_tiles_end(int *set);
/* What is done to the sums of columns [first, first + n) of a row, on any machine. */
void int8_finish_row(const int8_finish *f, const int32_t *sum, int64_t first, int64_t n, void *c);
/* The same up to the posts, which gives float32; and from there on, for rows of such. */
int8_finish int8_before_posts(const int8_finish *f);
void int8_finish_posts(const int8_finish *f, const tile_rows *r, void *c, int64_t c_row);

/* ---- convolutions and products --------------------------------------------------------------- */

/* A convolution whose weights are in panels, run after run of a line below the kernel; products are
 * single points. The input's zero stands for what is outside. Of one with groups, one of them: v
 * has its channels. */
typedef struct {
    conv v;
    int64_t x_row, out_row; /* elements from a point to the next: channels of all groups */
    const int8_weights *w;
    const int8_finish *finish;
    const uint8_t *x;
    void *out;
    uint8_t zero;
} int8_work;

/* Runs of a row below the kernel, and the bytes of each. */
int64_t int8_runs(const conv *v);
int64_t int8_run_length(const conv *v);
/* Computes on the threads allowed; false, with an error, without memory. */
bool int8_run(const int8_work *w);

/* ---- one channel a group --------------------------------------------------------------------- */

/* A convolution channel by channel: weights as the kernels of this machine read them. */
typedef struct {
    conv v;
    void *weights;
    int32_t *sums; /* of each channel's weights */
} int8_lone;

typedef struct {
    const int8_lone *l;
    const int8_finish *finish;
    const uint8_t *x;
    void *out;
    uint8_t zero;
} int8_lone_work;

/* The same three for these. */
size_t int8_lone_size(const conv *v);
int8_lone int8_lone_in(const conv *v, void *memory);
void int8_lone_pack(const int8_lone *to, const int8_t *w);
/* Computes on the threads allowed; false, with an error, without memory. */
bool int8_lone_run(const int8_lone_work *w);
/* The same by the machine's dot products: bytes of the weights, making them, bytes of room that a
 * line needs, and the channels of block `block` of 64 of a line, numbered through all images. */
size_t int8_lone_dots_size(const conv *v);
void int8_lone_dots_pack(const conv *v, const int8_t *w, int8_t *to);
size_t int8_lone_dots_room(const conv *v);
void int8_lone_dots(const int8_lone_work *w, int64_t line, int64_t block, void *room);

/* ---- rounding -------------------------------------------------------------------------------- */

/* Rounds rows of n numbers as choose_qparams and quantize_per_tensor do, to rows of `depth` bytes,
 * and says how: one range for all of it. `ranges` has room for two numbers of each row. */
cfx__rounding int8_round(const float *x, int64_t rows, int64_t n, int64_t depth, uint8_t *to,
                         float *ranges);

/* ---- layers ---------------------------------------------------------------------------------- */

/* Layers whose epilogues have `integers`: the input channels last or rows of a matrix, weights and
 * bias real. */
bool int8_conv_takes(const conv *v, const conv_operands *o, const cfx__epilogue *e);
cfx__ready *int8_conv_ready(const conv *v, const conv_operands *o, const cfx__epilogue *e);
bool int8_gemm_takes(const product_layer *l, const cfx__epilogue *e);
cfx__ready *int8_gemm_ready(const product_layer *l, const cfx__epilogue *e);

#endif
