/* Quantized programs: int8 and int4 instead of float, like torch.ao's PT2E.
 *
 * Nodes of quantized_decomposed surround the quantized layers: a value is quantized where it is
 * produced and dequantized before each layer that uses it; weights are stored as integers. Such
 * a program runs in cfx and PyTorch; an executor may compute the layers in between on integers. */
#ifndef CFX_QUANTIZE_H
#define CFX_QUANTIZE_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cfx_quantize_scheme {
    CFX_QUANTIZE_STATIC,  /* inputs of layers by ranges seen when calibrating, and weights */
    CFX_QUANTIZE_DYNAMIC, /* inputs of layers by the range that they have when it runs */
    CFX_QUANTIZE_WEIGHT   /* weights alone */
} cfx_quantize_scheme;

/* The part of a weight that shares a scale. */
typedef enum cfx_quantize_per {
    CFX_QUANTIZE_CHANNEL, /* each result of the layer */
    CFX_QUANTIZE_TENSOR,
    CFX_QUANTIZE_GROUP    /* so many inputs of each result */
} cfx_quantize_per;

/* How calibration estimates the range of a value. */
typedef enum cfx_quantize_range {
    CFX_QUANTIZE_HISTOGRAM,  /* PyTorch's search for the range with the least error */
    CFX_QUANTIZE_MINMAX,
    CFX_QUANTIZE_AVERAGE,    /* of the batches' ranges, moving */
    CFX_QUANTIZE_PERCENTILE  /* the range that so many percent of the numbers lie in */
} cfx_quantize_range;

typedef struct cfx_quantize_options {
    cfx_quantize_scheme scheme;
    int bits;             /* of weights: 8 or 4; 0: 8 */
    cfx_quantize_per per;
    int group;            /* of CFX_QUANTIZE_GROUP: how many inputs; 0: 32 */
    int activations;      /* of CFX_QUANTIZE_WEIGHT: 8 rounds what weights of linear layers are
                             multiplied with to 8 bits as it comes, in blocks of 32 inputs that
                             share a scale, where those fill a row; 0: floats as they are */
    cfx_quantize_range range;
    double percentile;    /* 0: 99.99 */
    cfx_value skip;       /* a list of selectors (see cfx_tap) of layers that stay as they are */
    double smooth;        /* between 0 and 1: how much of outliers goes from the inputs of linear
                             layers into their weights, as SmoothQuant does; 0: none */
    bool keep_bias;       /* else the mean error that rounded weights make on the batches, where
                             there are some, goes into biases */
    void (*progress)(const char *what, int64_t done, int64_t all, void *user); /* NULL: none */
    void *user;
} cfx_quantize_options;

/* The outcome for one layer. */
typedef struct cfx_quantize_layer {
    const char *name; /* of the node */
    const char *op;   /* "aten.conv2d.default" */
    const char *left; /* why it stays in float; NULL: it is quantized */
    int zeros;        /* channels of its weight that are all zeros */
    bool flat;        /* static: its input was 0 everywhere in all batches, so that its scale is
                         the least that PyTorch's observers give: other batches may do better */
} cfx_quantize_layer;

/* A quantized program, and the outcome for its layers. The programs own the texts. */
typedef struct cfx_quantized {
    cfx_obj head;
    cfx_program *program;
    cfx_program *reference; /* the float program whose nodes `program` has too: batch norms folded,
                               inputs smoothed */
    int nlayers;
    cfx_quantize_layer *layers; /* those with weights, in order */
    int64_t bytes_before, bytes_after; /* of parameters, buffers and constants */
} cfx_quantized;

/* Quantizes a program. Batches are lists or tuples of its inputs in flattened order; the dynamic
 * and weight schemes need none, except for smoothing. Scope. Bad, with an error, where there is
 * nothing to quantize or to calibrate with, a batch does not match, weights are quantized
 * already, or a selector matches no layer. A layer whose input is NaN or infinite in a batch
 * stays in float. */
CFX_API cfx_quantized *cfx_quantize(const cfx_program *p, cfx_value batches,
                                    cfx_quantize_options options);

/* ---- how good it is -------------------------------------------------------------------------- */

/* Signal-to-noise of a value, in dB: the square of the float value against that of the difference;
 * infinite where there is none. */
typedef struct cfx_quantize_noise {
    const char *name; /* of the node */
    double db;
    double own;       /* layers: what rounding its own inputs and weights makes alone */
} cfx_quantize_noise;

typedef struct cfx_quantize_report {
    cfx_obj head;
    int nlayers, noutputs;
    cfx_quantize_noise *layers;  /* the worst first */
    cfx_quantize_noise *outputs; /* in order */
    double db;                   /* of all outputs together */
} cfx_quantize_report;

/* Compares a quantized program with its reference on batches; scope. Bad, with an error, where
 * a batch does not fit, or there is none. */
CFX_API cfx_quantize_report *cfx_quantize_compare(const cfx_quantized *q, cfx_value batches);
/* Quantizes as much as leaves the outputs at `db` or better on the held-out batches: the layers
 * that make most noise stay in float, as few as will do. Scope; bad, with an error, where even
 * none quantized would not do. */
CFX_API cfx_quantized *cfx_quantize_to(const cfx_program *p, cfx_value batches, cfx_value held_out,
                                       double db, cfx_quantize_options options);

#ifdef __cplusplus
}
#endif
#endif
