/* quant: where a float program becomes a quantized one.
 *
 * Invariant: what is written is a program as any other: quantized_decomposed says in it what is
 * rounded and how, and nothing beside the graph knows. */
#ifndef CFX__QUANT_H
#define CFX__QUANT_H

#include <cfx/quantize.h>

#include "../rewrite/pass.h"
#include "../run/run.h"
#include "fx.h"

/* ---- layers (layers.c) ----------------------------------------------------------------------- */

/* What a quantization that failed gives. */
extern cfx_quantized cfx__quantized_bad;

/* A layer with a weight, and how it is quantized. */
typedef struct cfx__quant_layer {
    cfx_node *node, *input, *bias; /* bias: NULL where it has none or another than a parameter */
    cfx_node *weight;              /* the placeholder */
    cfx_node *reader;              /* what reads it: the layer, or a transposition before it */
    cfx_tensor *tensor;            /* the weight as it is stored; scope */
    int axis;                      /* of it: which dimension counts the results */
    bool linear;                   /* a product of matrices; else a convolution or a table */
    bool table;                    /* rows are picked: its numbers have 8 bits */
    const char *input_name, *bias_name; /* of the arguments */
    const char *left;              /* why it stays in float */
    bool flat;                     /* its input was 0 everywhere */
} cfx__quant_layer;

typedef VEC(cfx__quant_layer) cfx__quant_layers;

/* The layers of a program, in order; what is not to be quantized is marked. False, with an error,
 * where a selector picks none. */
bool cfx__quant_find_layers(cfx_program *p, const cfx_quantize_options *o, cfx__quant_layers *out);
/* Whether numbers of a dtype can be rounded: float32 and halves. */
bool cfx__quant_rounds(cfx_dtype d);
/* What a dequantization says of the dtype that it gives: keywords; None for float32. */
cfx_value cfx__quant_gives(cfx_dtype d);
/* How inputs of layers and weights are observed, and so rounded. The least scale is next to
 * nothing: a layer whose numbers are tiny is rounded as well as any other. */
cfx_observer cfx__quant_of_inputs(const cfx_quantize_options *o);
cfx_observer cfx__quant_of_weights(const cfx__quant_layer *l, const cfx_quantize_options *o);
/* A node whose value rounds as its input does: pools that pick, views. Its input, or NULL. */
cfx_node *cfx__quant_passed(const cfx_node *n);

/* ---- calibration (calibrate.c) --------------------------------------------------------------- */

/* Values that are looked at, and what was seen of each. */
typedef struct cfx__quant_seen {
    cfx_node *node;
    cfx_module *observer;           /* of all numbers, where ranges are asked for; counted */
    int channel;                    /* which dimension counts channels, from the end: 1 the last */
    cfx_tensor *far, *mean;         /* of each channel, where asked for; counted */
    int64_t rows;                   /* that the mean is over */
    bool unbounded;                 /* NaN or infinite in some batch: nothing else is known */
} cfx__quant_seen;

typedef VEC(cfx__quant_seen) cfx__quant_watch;

/* The entry of a node by a dimension, or by any (0); NULL where it is not watched. Adds it. */
cfx__quant_seen *cfx__quant_seen_of(const cfx__quant_watch *w, const cfx_node *n, int channel);
void cfx__quant_look_at(cfx__quant_watch *w, cfx_node *n, int channel);
void cfx__quant_watch_free(cfx__quant_watch *w);
/* Runs the program on each batch and notes ranges (ranges) or maxima and means of channels. False,
 * with an error that names the batch. */
bool cfx__quant_calibrate(cfx_program *p, cfx_value batches, const cfx_quantize_options *o,
                          bool ranges, cfx__quant_watch *w);
/* A batch as arguments of a call: copies, since programs may write to what they are given, and the
 * next run has to see the same. Scope. */
cfx_args cfx__quant_batch(cfx_value batch);
/* A copy of a program that may be run: it has buffers of its own where it writes to them. Scope. */
cfx_program *cfx__quant_runnable(const cfx_program *p);

/* ---- how good it is (report.c) --------------------------------------------------------------- */

/* Signal-to-noise of two sums of squares, in dB: infinite without an error, and minus that where
 * there is no signal, or the error is no number. */
double cfx__quant_decibels(double signal, double error);

/* ---- changing the program -------------------------------------------------------------------- */

/* Outliers of inputs go into the weights (smooth.c), the mean error of rounded weights into biases
 * (correct.c). Layers have their new weights then. False with an error. */
bool cfx__quant_smooth(cfx_program *p, cfx__quant_layers *layers, cfx_value batches,
                       const cfx_quantize_options *o);
bool cfx__quant_correct(cfx_program *p, const cfx__quant_layers *layers, cfx_value batches,
                        const cfx_quantize_options *o);
/* The weight of a layer in float32, as it is and rounded and back (weights.c); scope. */
cfx_tensor *cfx__quant_weight(const cfx__quant_layer *l);
cfx_tensor *cfx__quant_rounded(const cfx__quant_layer *l, const cfx_quantize_options *o);
/* Integers in the place of the weight of layer i; made[i] is then what gives it, those of the
 * layers before are there. False with an error. */
bool cfx__quant_store(cfx_program *p, const cfx__quant_layers *layers, size_t i, cfx_node **made,
                      const cfx_quantize_options *o);
/* Quantizes the inputs of layers by what was seen, or as they come (inputs.c): what to look at;
 * which layers stay in float, since no range was seen; the nodes. */
void cfx__quant_plan_inputs(const cfx__quant_layers *layers, cfx__quant_watch *w);
void cfx__quant_judge_inputs(cfx__quant_layers *layers, const cfx__quant_watch *w);
/* Where the number that a node passes on was made, be it rounded on the way already. */
cfx_node *cfx__quant_source(cfx_node *n);
bool cfx__quant_inputs(cfx_program *p, const cfx__quant_layers *layers, const cfx__quant_watch *w,
                       const cfx_quantize_options *o);

#endif
