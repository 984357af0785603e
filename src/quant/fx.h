/* fx: the way of torch.ao.quantization on traced modules.
 *
 * Invariant: an observer is a module whose options are attributes and whose state is buffers, so
 * that it copies, prints and saves as any module does. Nothing here computes with integers: it
 * chooses scales, and puts nodes and modules where PyTorch puts them. */
#ifndef CFX__QUANT_FX_H
#define CFX__QUANT_FX_H

#include <cfx/ops.h>
#include <cfx/quant.h>

#include "../graph/graph.h"

/* ---- observers ------------------------------------------------------------------------------- */

/* The observer with defaults filled in. */
cfx_observer cfx__observer_whole(cfx_observer how);
/* The integers that it quantizes to. */
void cfx__observer_range(const cfx_observer *how, int *low, int *high);
bool cfx__observer_is_per_channel(const cfx_observer *how);
/* n scales and zero points from n ranges, in PyTorch's arithmetic. */
void cfx__observer_params(const cfx_observer *how, int64_t n, const float *min, const float *max,
                          float *scale, double *zero);
/* The range that makes the error of a histogram over [min, max] least. */
void cfx__histogram_search(const float *histogram, int bins, int steps, float min, float max,
                           float *best_min, float *best_max);
/* Observes x with a fresh observer: (scale, zero_point); scope. */
cfx_value cfx__observer_params_of(cfx_site at, cfx_observer how, cfx_tensor *x);
bool cfx__observer_equal(const cfx_observer *a, const cfx_observer *b);

/* A FakeQuantize module around an observer. */
cfx_module *cfx__fake_quantize_new(cfx_site at, cfx_observer how);
/* Of which kind m is. */
cfx_fake_quantize cfx__fake_quantize_kind(const cfx_module *m);

/* ---- mappings -------------------------------------------------------------------------------- */

/* The qconfig of a call inside the module at `path`, of type `type`: a function, a method or a
 * module. NULL: none. */
const cfx_qconfig *cfx__qconfig_of(const cfx_qconfig_mapping *m, const char *type,
                                   const char *path);
/* The same with what holds where neither the type nor a name says otherwise. */
const cfx_qconfig *cfx__qconfig_or(const cfx_qconfig_mapping *m, const char *type, const char *path,
                                   const cfx_qconfig *other);
/* What is said of call number `index` of that type in the module at `path`. */
const cfx_qconfig *cfx__qconfig_of_call(const cfx_qconfig_mapping *m, const char *path,
                                        const char *type, int index, bool *said);
/* Whether its observers are fake-quantize modules. */
bool cfx__qconfig_trains(const cfx_qconfig_mapping *m);
/* What is said of a type alone. */
const cfx_qconfig *cfx__qconfig_of_type(const cfx_qconfig_mapping *m, const char *type, bool *said);

/* ---- patterns -------------------------------------------------------------------------------- */

/* What the native backend can do with a pattern: dtypes of input, output and weight. */
enum {
    CFX__Q_WEIGHTED = 1, /* quint8 to quint8, weights of qint8 */
    CFX__Q_PLAIN = 2,    /* quint8 to quint8 */
    CFX__Q_DYNAMIC = 4,  /* quint8, found in each call, to float */
    CFX__Q_NORM = 8,     /* quint8 to quint8, weights in float */
    CFX__Q_EMBED = 16,   /* float to float, weights of quint8 */
    CFX__Q_UNIT = 32,    /* as PLAIN, with the scale 1/256 */
    CFX__Q_SIGNED = 64,  /* with the scale 1/128 */
    CFX__Q_HALF = 128    /* float16, in each call, to float, weights of float16 */
};

typedef enum cfx__quant_observes {
    CFX__OBSERVES_BOTH,   /* input and output have ranges of their own */
    CFX__OBSERVES_SHARED, /* the output has the range of the input */
    CFX__OBSERVES_TENSORS /* shared where one operand alone is a tensor */
} cfx__quant_observes;

/* The relus that may follow in the same pattern. */
enum { CFX__RELU_MODULE = 1, CFX__RELU_FUNCTIONAL = 2, CFX__RELU_TORCH = 4 };

typedef struct cfx__quant_row {
    cfx_opcode op;
    const char *name; /* a class of torch.nn, a function or a method */
    uint8_t can;
    cfx__quant_observes observes;
    uint8_t relus;
    uint8_t weight, bias;  /* which arguments of a function they are; 0: none */
    const char *reference; /* the class of its reference module, "Conv2d" */
} cfx__quant_row;

/* The row of a call, NULL where there is none. */
const cfx__quant_row *cfx__quant_row_of(const cfx_module *gm, const cfx_node *n);
/* The name of a function in the tables: torch.conv2d is torch.nn.functional.conv2d. */
const char *cfx__quant_spelling(const char *name);
/* The class of the module that n calls, "" for other nodes. */
const char *cfx__quant_class(const cfx_module *gm, const cfx_node *n);
/* Which relu n is; 0: none. */
int cfx__quant_relu(const cfx_module *gm, const cfx_node *n);
/* Argument i as a node, or NULL. */
cfx_node *cfx__quant_arg(const cfx_node *n, int64_t i);
static inline int64_t cfx__quant_count(const cfx_node *n) { return cfx_as_list(n->args)->len; }
/* The path of the module that a node is called in, and of the module that it calls; scope. */
const char *cfx__quant_scope(const cfx_node *n);
/* Puts m at the path of another module of gm. */
void cfx__quant_swap(cfx_module *gm, const char *path, cfx_module *m);
/* "0_scale_0": the prefix, dots as underscores, with the first number that is free in gm; scope. */
const char *cfx__quant_new_name(const cfx_module *gm, const char *prefix);

/* A module of two, called one after the other: ConvReLU2d. */
cfx_module *cfx__quant_pair(const char *type, cfx_module *first, cfx_module *second);
/* The module inside a pair, or m itself. */
cfx_module *cfx__quant_inner(cfx_module *m);

/* What prepare notes on a node for convert: which qconfig ("qconfig", the bytes of the struct
 * as hexadecimal digits; left out where there is none), whether it is observed ("observed"). */
void cfx__quant_note(cfx_node *n, const cfx_qconfig *q, bool observed);
bool cfx__quant_noted(const cfx_node *n, cfx_qconfig *q);
bool cfx__quant_is_observed(const cfx_node *n);

/* The quantized module that PyTorch's native backend has for a reference module, or a pair of one
 * and a relu; NULL, without an error, where it has none of that kind; scope. */
typedef enum cfx__quant_native_kind {
    CFX__NATIVE_STATIC,
    CFX__NATIVE_DYNAMIC,
    CFX__NATIVE_WEIGHT,
    CFX__NATIVE_SPECIAL
} cfx__quant_native_kind;
cfx_module *cfx__quant_native(cfx_site at, cfx_module *m, cfx__quant_native_kind kind, double scale,
                              int64_t zero_point);
/* x times a packed weight by an operator that rounds x by the range it has. */
cfx_value cfx__quant_dynamic_call(const char *op, cfx_tensor *x, cfx_value packed);
/* The forwards of recurrent modules and cells with packed weights, and how they get these from a
 * reference module. */
cfx_value cfx__quant_forward_recurrent(cfx_module *self, cfx_args a);
cfx_value cfx__quant_forward_cell(cfx_module *self, cfx_args a);
void cfx__quant_pack_recurrent(cfx_module *to, const cfx_module *from);
/* The same of embeddings, whose rows have so many bits a number. */
cfx_value cfx__quant_forward_embedding(cfx_module *self, cfx_args a);
cfx_value cfx__quant_forward_bag(cfx_module *self, cfx_args a);
void cfx__quant_pack_embedding(cfx_module *to, const cfx_module *from, int bits);
/* The reference module gm, the caller's own, lowered to quantized modules and operators; scope. */
cfx_module *cfx__quant_lower(cfx_site at, cfx_module *gm);
/* A copy of m with weights that do what the normalisation did behind it; scope. NULL with an error.
 */
cfx_module *cfx__quant_folded(cfx_module *m, cfx_module *norm);
/* "Conv2d" for "ConvBnReLU2d", and "ConvReLU2d" for "Conv2d". */
const char *cfx__quant_plain_class(const char *type);
const char *cfx__quant_pair_of(const char *type);
/* Gives the observed modules of gm that have weights fake-quantized ones. */
void cfx__quant_train(cfx_site at, cfx_module *gm);
/* The float module that a trained one is, normalisation fused, and what has observed its weight;
 * m itself and NULL where it is none. Scope; NULL with an error. */
cfx_module *cfx__quant_untrain(cfx_site at, cfx_module *m, cfx_module **seen);
/* The model traced, on modules of its own; scope. Bad with an error. */
cfx_module *cfx__quant_traced(cfx_module *model);
/* Changes gm, traced and the caller's own, in place. */
bool cfx__quant_fuse(cfx_site at, cfx_module *gm, bool training);

#endif
