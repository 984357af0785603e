/* Quantization: floats become small integers with a scale.
 *
 * The way of torch.ao.quantization on traced modules:
 *
 *     cfx_qconfig_mapping *how = cfx_qconfig_mapping_default("x86");
 *     cfx_module *prepared = cfx_prepare_fx(model, how);   fused, with observers in it
 *     for (...) cfx_forward(prepared, batch);              calibration
 *     cfx_module *int8 = cfx_convert_fx(prepared);         quantized modules and operators
 *     cfx_module *ref = cfx_convert_to_reference_fx(prepared);   floats between quantize and back
 *
 * Texts, scales and zero points are PyTorch's. Programs (.pt2) are quantized by cfx_quantize, see
 * quantize.h. */
#ifndef CFX_QUANT_H
#define CFX_QUANT_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- observers ------------------------------------------------------------------------------- */

typedef enum cfx_observer_kind {
    CFX_NO_OBSERVER,
    CFX_MIN_MAX_OBSERVER,
    CFX_MOVING_AVERAGE_MIN_MAX_OBSERVER,
    CFX_PER_CHANNEL_MIN_MAX_OBSERVER,
    CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER,
    CFX_HISTOGRAM_OBSERVER,    /* a range that makes the error least, searched in a histogram */
    CFX_PERCENTILE_OBSERVER,   /* a range that leaves out the rarest numbers at both ends */
    CFX_FIXED_QPARAMS_OBSERVER, /* scale and zero_point as given */
    CFX_PLACEHOLDER_OBSERVER,  /* sees nothing: stands for a dtype */
    CFX_NOOP_OBSERVER,
    CFX_REUSE_INPUT_OBSERVER   /* the output is quantized as the input is */
} cfx_observer_kind;

typedef enum cfx_qscheme {
    CFX_PER_TENSOR_AFFINE,
    CFX_PER_TENSOR_SYMMETRIC,
    CFX_PER_CHANNEL_AFFINE,
    CFX_PER_CHANNEL_SYMMETRIC,
    CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS
} cfx_qscheme;

/* Whether an observer stands alone or inside a module that rounds what goes through, by the range
 * that the observer saw; gradients go straight through. */
typedef enum cfx_fake_quantize {
    CFX_NO_FAKE_QUANTIZE,
    CFX_FAKE_QUANTIZE,
    CFX_FUSED_FAKE_QUANTIZE,    /* scales as PyTorch's kernel for both at once chooses them */
    CFX_LEARNABLE_FAKE_QUANTIZE /* scale and zero point are parameters */
} cfx_fake_quantize;

/* How to observe, and to what integers: what with_args() is told in Python. Fields left zero have
 * PyTorch's defaults. */
typedef struct cfx_observer {
    cfx_observer_kind kind;
    cfx_dtype dtype;     /* torch.quint8 where left out; float32 and the like: no quantization */
    cfx_qscheme qscheme;
    bool reduce_range;   /* one bit less */
    bool dynamic;        /* the range is found in each call */
    int quant_min, quant_max; /* both 0: all that the dtype has */
    int ch_axis;         /* of channels */
    int bins;            /* of the histogram; 2048 */
    double averaging_constant; /* of moving averages; 0.01 */
    double percentile;   /* of the numbers that a range holds; 99.99 */
    double eps;          /* the least scale; that of float32 */
    double scale;        /* of fixed parameters */
    int zero_point;
    cfx_fake_quantize fake;
    bool scale_gradients; /* of learned scales: by 1 / sqrt(numbers * quant_max) */
    int channels;         /* of learned scales: how many there are; 1 */
} cfx_observer;

/* A module that looks at what goes through it; scope. Bad, with an error, where the fields do not
 * go together: a range without 0 in it, a histogram with a scale for each channel. */
CFX_API cfx_module *cfx_observer_new_from(cfx_site at, cfx_observer how);
#define cfx_observer_new(how) cfx_observer_new_from(CFX_HERE, how)
/* Whether m is an observer or a FakeQuantize module. */
CFX_API bool cfx_module_is_observer(const cfx_module *m);
/* How an observer was made, defaults filled in. */
CFX_API cfx_observer cfx_observer_how(const cfx_module *m);
/* (scale, zero_point) for what was seen, two tensors; scope. An observer that has seen nothing
 * gives 1 and 0. Bad, with PyTorch's words, for those that compute none. */
CFX_API cfx_value cfx_observer_qparams_from(cfx_site at, cfx_module *m);
#define cfx_observer_qparams(m) cfx_observer_qparams_from(CFX_HERE, m)

/* ---- what is quantized how ------------------------------------------------------------------- */

/* Observers of activations and of weights. */
typedef struct cfx_qconfig {
    cfx_observer activation, weight;
} cfx_qconfig;

/* PyTorch's: "x86", "fbgemm", "onednn", "qnnpack" (get_default_qconfig), the same with " qat"
 * (get_default_qat_qconfig) and with " qat v0" (its version 0), "default", "per_channel",
 * "dynamic", "per_channel_dynamic", "float_qparams_weight_only", "symmetric_qnnpack",
 * "per_channel_symmetric_qnnpack", "reuse_input", "quint8_weight", "learnable",
 * "float16_dynamic", "float16_static", "float_qparams_weight_only_4bit", "dynamic qat",
 * "embedding qat", "embedding qat 4bit". False, with an error that lists them, where there is none
 * of that name. */
CFX_API bool cfx_qconfig_find_from(cfx_site at, const char *name, cfx_qconfig *out);
#define cfx_qconfig_find(name, out) cfx_qconfig_find_from(CFX_HERE, name, out)

/* QConfigMapping: which nodes get which qconfig. By place before by name before by regular
 * expression (the first that matches the start of a name) before by type before the global one. */
typedef struct cfx_qconfig_mapping cfx_qconfig_mapping;
/* Nothing is quantized; scope. */
CFX_API cfx_qconfig_mapping *cfx_qconfig_mapping_new(void);
/* get_default_qconfig_mapping(backend) and, with " qat" or " qat v0" behind it, the one for
 * training; scope. NULL, with an error, where there is no such backend. */
CFX_API cfx_qconfig_mapping *cfx_qconfig_mapping_default_from(cfx_site at, const char *backend);
#define cfx_qconfig_mapping_default(backend) cfx_qconfig_mapping_default_from(CFX_HERE, backend)
/* Each takes NULL for "leave it in float". Types are classes ("torch.nn.Linear", "MyBlock"),
 * functions ("torch.add", "torch.nn.functional.linear") and methods ("reshape"); names are paths of
 * modules and hold for all below them. */
CFX_API void cfx_qconfig_mapping_global(cfx_qconfig_mapping *m, const cfx_qconfig *q);
CFX_API void cfx_qconfig_mapping_type(cfx_qconfig_mapping *m, const char *type,
                                      const cfx_qconfig *q);
CFX_API void cfx_qconfig_mapping_name(cfx_qconfig_mapping *m, const char *path,
                                      const cfx_qconfig *q);
/* An error where the expression cannot be read. */
CFX_API void cfx_qconfig_mapping_regex_from(cfx_site at, cfx_qconfig_mapping *m, const char *regex,
                                            const cfx_qconfig *q);
#define cfx_qconfig_mapping_regex(m, regex, q) cfx_qconfig_mapping_regex_from(CFX_HERE, m, regex, q)
/* Of the calls of that type inside the module at `path` ("" is the model) the one of that number, 0
 * is the first. Goes before everything else; set_module_name_object_type_order. */
CFX_API void cfx_qconfig_mapping_order(cfx_qconfig_mapping *m, const char *path, const char *type,
                                       int index, const cfx_qconfig *q);

/* One rule of a mapping, as it was given. */
typedef enum cfx_qconfig_by {
    CFX_QCONFIG_GLOBAL,
    CFX_QCONFIG_TYPE,
    CFX_QCONFIG_NAME,
    CFX_QCONFIG_REGEX,
    CFX_QCONFIG_ORDER
} cfx_qconfig_by;
typedef struct cfx_qconfig_rule {
    cfx_qconfig_by by;
    const char *text;           /* a type, a path or an expression; the mapping's. NULL: global */
    const char *type;           /* by order: of calls of this type, */
    int index;                  /* this one */
    const cfx_qconfig *qconfig; /* NULL: it is left in float */
} cfx_qconfig_rule;
/* How many rules a mapping has, and one of them: the global one first. Types of torch.nn are
 * written as their class ("Linear"). */
CFX_API int cfx_qconfig_mapping_count(const cfx_qconfig_mapping *m);
CFX_API cfx_qconfig_rule cfx_qconfig_mapping_at(const cfx_qconfig_mapping *m, int i);

/* ---- steps ----------------------------------------------------------------------------------- */

/* fuse_fx: the traced module with Conv+BN(+ReLU), Linear+ReLU and the like as one module each. The
 * module is put in evaluation mode by the caller; an error otherwise. The model stays as it is.
 * Scope; bad, with an error, where it cannot be traced. */
CFX_API cfx_module *cfx_fuse_fx_from(cfx_site at, cfx_module *model);
#define cfx_fuse_fx(model) cfx_fuse_fx_from(CFX_HERE, model)
/* prepare_fx: traced, fused, with an observer wherever a number will be quantized; run it to
 * calibrate. For a mapping whose observers are fake-quantize modules, prepare_qat_fx: weights are
 * rounded too, and the result is trained. Scope; bad with an error. */
CFX_API cfx_module *cfx_prepare_fx_from(cfx_site at, cfx_module *model,
                                        const cfx_qconfig_mapping *mapping);
#define cfx_prepare_fx(model, mapping) cfx_prepare_fx_from(CFX_HERE, model, mapping)
/* Of all fake-quantize modules below m: whether they go on observing, and whether they round;
 * disable_observer, enable_fake_quant and so on. Learned scales are observed until this is off, and
 * learn from then on. */
CFX_API void cfx_fake_quantize_set(cfx_module *m, bool observes, bool rounds);
/* convert_to_reference_fx and convert_fx of what cfx_prepare_fx gave, which stays as it is. Scope;
 * bad, with an error, for other modules. */
CFX_API cfx_module *cfx_convert_to_reference_fx_from(cfx_site at, cfx_module *prepared);
CFX_API cfx_module *cfx_convert_fx_from(cfx_site at, cfx_module *prepared);
#define cfx_convert_to_reference_fx(prepared) cfx_convert_to_reference_fx_from(CFX_HERE, prepared)
#define cfx_convert_fx(prepared) cfx_convert_fx_from(CFX_HERE, prepared)

/* ---- module by module ------------------------------------------------------------------------ */

/* What torch.ao's eager mode does with one module at a time, for models that are not traced. */

/* fuse_known_modules: the n modules, called one after the other, as one: Conv+BN(+ReLU),
 * Linear+ReLU and the like. While it is trained the normalisation stays a module inside the whole;
 * otherwise it is folded into the weights. The modules stay as they are. Scope; NULL, without an
 * error, where they are none that can be fused. */
CFX_API cfx_module *cfx_fuse_modules_from(cfx_site at, int n, cfx_module *const *modules,
                                          bool training);
#define cfx_fuse_modules(n, modules, training) cfx_fuse_modules_from(CFX_HERE, n, modules, training)
/* The module that is trained in the place of m, a layer with a weight or a fused one: it rounds its
 * weight as the qconfig says. Scope; NULL, without an error, for modules without a weight; bad with
 * an error. */
CFX_API cfx_module *cfx_train_module_from(cfx_site at, cfx_module *m, const cfx_qconfig *q);
#define cfx_train_module(m, q) cfx_train_module_from(CFX_HERE, m, q)
/* The quantized module for a float, fused or trained one, which gives numbers of this scale and
 * zero point; a dynamic qconfig or one of an embedding gives floats, and these two are not looked
 * at. `seen` is an observer that has looked at the weight, or NULL: then one of the qconfig's looks
 * at it. Scope; NULL, without an error, where there is no quantized module of its kind; bad with an
 * error. */
CFX_API cfx_module *cfx_convert_module_from(cfx_site at, cfx_module *m, const cfx_qconfig *q,
                                            cfx_module *seen, double scale, int64_t zero_point);
#define cfx_convert_module(m, q, seen, scale, zero_point)                                          \
    cfx_convert_module_from(CFX_HERE, m, q, seen, scale, zero_point)

#ifdef __cplusplus
}
#endif
#endif
