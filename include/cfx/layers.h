/* Layers: torch.nn's modules, with PyTorch's names, shapes, initial values and repr.
 *
 * Required arguments first, in PyTorch's order; the rest by name:
 *     cfx_nn_linear(4, 8)    cfx_nn_linear(4, 8, .no_bias = true)
 *     cfx_nn_conv2d(3, 16, 3, .padding = 1)    cfx_nn_conv2d(3, 16, cfx_tuple(3, 5))
 * Names are PyTorch's. What is left out, and 0, is PyTorch's default; CFX_ZERO is zero itself, NAN
 * is None. A flag that is on by default is turned off by `no_` before its name; what may be a tuple
 * has a second name with an s (.strides = {2, 1}). An option that a layer does not have, or one
 * that it misses, is an error in Python's words with your file and line. Each layer is a result of
 * the scope; add it to a parent with cfx_nn_add. */
#ifndef CFX_LAYERS_H
#define CFX_LAYERS_H

#include <cfx/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero where 0 would mean the default: cfx_nn_dropout(.p = CFX_ZERO). */
#define CFX_ZERO INT64_MIN
/* The paddings of a convolution that PyTorch writes as words. */
#define CFX_SAME (INT64_MIN + 1)
#define CFX_VALID (INT64_MIN + 2)

/* All options by kind and name. */
#define CFX_NN_OPTIONS(INT, INTS, REAL, REALS, FLAG, TEXT, TENSOR, MODULE)                         \
    /* convolution, pooling, padding, resizing */                                                  \
    INT(stride) INTS(strides) INT(padding) INTS(paddings) INT(dilation) INTS(dilations)            \
    INT(output_padding) INTS(output_paddings) INT(groups) INT(divisor_override)                    \
    FLAG(ceil_mode) FLAG(return_indices) FLAG(no_count_include_pad) TEXT(padding_mode)             \
    INT(size) INTS(sizes) REAL(scale_factor) REALS(scale_factors) TEXT(mode) FLAG(align_corners)   \
    FLAG(recompute_scale_factor)                                                                   \
    /* weights and norms */                                                                        \
    FLAG(no_bias) REAL(eps) REAL(momentum) FLAG(affine) FLAG(no_affine)                            \
    FLAG(track_running_stats) FLAG(no_track_running_stats) FLAG(no_elementwise_affine)             \
    REAL(alpha) REAL(beta) REAL(k)                                                                 \
    /* activations and dropout */                                                                  \
    FLAG(inplace) REAL(p) REAL(negative_slope) REAL(lower) REAL(upper) REAL(min_val)               \
    REAL(max_val) REAL(lambd) REAL(threshold) REAL(value) REAL(init) INT(num_parameters)           \
    INT(dim) TEXT(approximate) INT(start_dim) INT(end_dim)                                         \
    /* embeddings */                                                                               \
    INT(padding_idx) REAL(max_norm) REAL(norm_type) FLAG(scale_grad_by_freq) FLAG(sparse)          \
    FLAG(include_last_offset)                                                                      \
    /* recurrent layers and transformers */                                                        \
    INT(num_layers) INT(proj_size) FLAG(batch_first) FLAG(bidirectional) REAL(dropout)             \
    TEXT(nonlinearity) INT(kdim) INT(vdim) FLAG(add_bias_kv) FLAG(add_zero_attn)                   \
    INT(dim_feedforward) TEXT(activation) REAL(layer_norm_eps) FLAG(norm_first) MODULE(norm)       \
    INT(d_model) INT(nhead) INT(num_encoder_layers) INT(num_decoder_layers)                        \
    /* losses and distances */                                                                     \
    TEXT(reduction) TENSOR(weight) TENSOR(pos_weight) INT(ignore_index) REAL(label_smoothing)      \
    INT(blank) FLAG(zero_infinity)                                                                 \
    REAL(margin) REAL(delta) FLAG(log_target) FLAG(no_log_input) FLAG(full) FLAG(swap)             \
    FLAG(keepdim)

typedef struct cfx_nn_options {
#define CFX_NN_INT(name) int64_t name;
#define CFX_NN_INTS(name) int64_t name[3];
#define CFX_NN_REAL(name) double name;
#define CFX_NN_REALS(name) double name[3];
#define CFX_NN_FLAG(name) bool name;
#define CFX_NN_TEXT(name) const char *name;
#define CFX_NN_TENSOR(name) cfx_tensor *name;
#define CFX_NN_MODULE(name) cfx_module *name;
    CFX_NN_OPTIONS(CFX_NN_INT, CFX_NN_INTS, CFX_NN_REAL, CFX_NN_REALS, CFX_NN_FLAG, CFX_NN_TEXT,
                   CFX_NN_TENSOR, CFX_NN_MODULE)
} cfx_nn_options;

/* The layer of torch.nn called `type` ("Conv2d"), from positional arguments (CFX_KW may follow
 * them) and options; scope. Bad, with PyTorch's error, for arguments that do not fit and names
 * that torch.nn does not have. */
CFX_API cfx_module *cfx_nn_make_from(cfx_site at, const char *type, cfx_args args,
                                     cfx_nn_options options);
/* cfx_nn_make("Conv2d", 3, 16, 3, CFX_KW(padding, 1)): by name. */
#define cfx_nn_make(type, ...) cfx_nn_make_from(CFX_HERE, type, CFX_ARGS(__VA_ARGS__), CFX_NN_NONE)
/* What a layer is, as Python has it; all static. */
typedef struct cfx_nn_layer {
    const char *name;    /* "Conv2d" */
    const char *path;    /* below torch.nn.modules: "conv.Conv2d" */
    const char *options; /* the parameters of its constructor: "in_channels, out_channels, ..." */
    const char *inputs;  /* those of its forward: "input, output_size=None" */
    const char *call;    /* what forward calls: "torch.nn.functional.elu(input, alpha, inplace)", of
                            inputs, `training`, 'words' and what the module has; NULL: it does
                            more */
    bool leaf;           /* traced as one call_module */
} cfx_nn_layer;
/* The number of layers there are, and layer number i; its name is NULL past the end. */
CFX_API int cfx_nn_count(void);
CFX_API cfx_nn_layer cfx_nn_layer_at(int i);
/* A layer without options, parameters and children, for who has them and sets them one by one
 * (cfx_module_set_attr, cfx_nn_parameter); scope. Bad as above. */
CFX_API cfx_module *cfx_nn_bare(const char *type);

#define CFX_NN_NONE CFX_OPTIONS(cfx_nn_options, )
#define CFX_NN_1(type, args, ...)                                                                  \
    cfx_nn_make_from(CFX_HERE, type, args, CFX_OPTIONS(cfx_nn_options, __VA_ARGS__))
#define CFX_NN(type, ...) CFX_NN_1(type, ((cfx_args){0}), __VA_ARGS__)
#define CFX_NN_A(type, a, ...) CFX_NN_1(type, CFX_ARGS(a), __VA_ARGS__)
#define CFX_NN_AB(type, a, b, ...) CFX_NN_1(type, CFX_ARGS(a, b), __VA_ARGS__)
#define CFX_NN_ABC(type, a, b, c, ...) CFX_NN_1(type, CFX_ARGS(a, b, c), __VA_ARGS__)

/* ---- linear ---------------------------------------------------------------------------------- */

/* (in_features, out_features): no_bias */
#define cfx_nn_linear(...) CFX_NN_AB("Linear", __VA_ARGS__, )
/* (in1_features, in2_features, out_features): no_bias */
#define cfx_nn_bilinear(...) CFX_NN_ABC("Bilinear", __VA_ARGS__, )
#define cfx_nn_identity() CFX_NN("Identity", )

/* ---- convolution ----------------------------------------------------------------------------- */

/* (in_channels, out_channels, kernel_size): stride, padding (or CFX_SAME, CFX_VALID), dilation,
 * groups, no_bias, padding_mode */
#define cfx_nn_conv1d(...) CFX_NN_ABC("Conv1d", __VA_ARGS__, )
#define cfx_nn_conv2d(...) CFX_NN_ABC("Conv2d", __VA_ARGS__, )
#define cfx_nn_conv3d(...) CFX_NN_ABC("Conv3d", __VA_ARGS__, )
/* the same: output_padding too; forward(input, output_size=None) */
#define cfx_nn_conv_transpose1d(...) CFX_NN_ABC("ConvTranspose1d", __VA_ARGS__, )
#define cfx_nn_conv_transpose2d(...) CFX_NN_ABC("ConvTranspose2d", __VA_ARGS__, )
#define cfx_nn_conv_transpose3d(...) CFX_NN_ABC("ConvTranspose3d", __VA_ARGS__, )
/* (kernel_size): dilation, padding, stride. (output_size, kernel_size): the same */
#define cfx_nn_unfold(...) CFX_NN_A("Unfold", __VA_ARGS__, )
#define cfx_nn_fold(...) CFX_NN_AB("Fold", __VA_ARGS__, )

/* ---- norms ----------------------------------------------------------------------------------- */

/* (num_features): eps, momentum, no_affine, no_track_running_stats */
#define cfx_nn_batch_norm1d(...) CFX_NN_A("BatchNorm1d", __VA_ARGS__, )
#define cfx_nn_batch_norm2d(...) CFX_NN_A("BatchNorm2d", __VA_ARGS__, )
#define cfx_nn_batch_norm3d(...) CFX_NN_A("BatchNorm3d", __VA_ARGS__, )
/* (num_features): eps, momentum, affine, track_running_stats */
#define cfx_nn_instance_norm1d(...) CFX_NN_A("InstanceNorm1d", __VA_ARGS__, )
#define cfx_nn_instance_norm2d(...) CFX_NN_A("InstanceNorm2d", __VA_ARGS__, )
#define cfx_nn_instance_norm3d(...) CFX_NN_A("InstanceNorm3d", __VA_ARGS__, )
/* (normalized_shape, a number or a list): eps, no_elementwise_affine, no_bias */
#define cfx_nn_layer_norm(...) CFX_NN_A("LayerNorm", __VA_ARGS__, )
/* (normalized_shape): eps, no_elementwise_affine */
#define cfx_nn_rms_norm(...) CFX_NN_A("RMSNorm", __VA_ARGS__, )
/* (num_groups, num_channels): eps, no_affine */
#define cfx_nn_group_norm(...) CFX_NN_AB("GroupNorm", __VA_ARGS__, )
/* (size): alpha, beta, k */
#define cfx_nn_local_response_norm(...) CFX_NN_A("LocalResponseNorm", __VA_ARGS__, )

/* ---- dropout: p, inplace --------------------------------------------------------------------- */

#define cfx_nn_dropout(...) CFX_NN("Dropout", __VA_ARGS__)
#define cfx_nn_dropout1d(...) CFX_NN("Dropout1d", __VA_ARGS__)
#define cfx_nn_dropout2d(...) CFX_NN("Dropout2d", __VA_ARGS__)
#define cfx_nn_dropout3d(...) CFX_NN("Dropout3d", __VA_ARGS__)
#define cfx_nn_alpha_dropout(...) CFX_NN("AlphaDropout", __VA_ARGS__)
#define cfx_nn_feature_alpha_dropout(...) CFX_NN("FeatureAlphaDropout", __VA_ARGS__)

/* ---- pooling --------------------------------------------------------------------------------- */

/* (kernel_size): stride, padding, dilation, ceil_mode, return_indices */
#define cfx_nn_max_pool1d(...) CFX_NN_A("MaxPool1d", __VA_ARGS__, )
#define cfx_nn_max_pool2d(...) CFX_NN_A("MaxPool2d", __VA_ARGS__, )
#define cfx_nn_max_pool3d(...) CFX_NN_A("MaxPool3d", __VA_ARGS__, )
/* (kernel_size): stride, padding; forward(input, indices, output_size=None) */
#define cfx_nn_max_unpool1d(...) CFX_NN_A("MaxUnpool1d", __VA_ARGS__, )
#define cfx_nn_max_unpool2d(...) CFX_NN_A("MaxUnpool2d", __VA_ARGS__, )
#define cfx_nn_max_unpool3d(...) CFX_NN_A("MaxUnpool3d", __VA_ARGS__, )
/* (kernel_size): stride, padding, ceil_mode, no_count_include_pad, divisor_override (2d, 3d) */
#define cfx_nn_avg_pool1d(...) CFX_NN_A("AvgPool1d", __VA_ARGS__, )
#define cfx_nn_avg_pool2d(...) CFX_NN_A("AvgPool2d", __VA_ARGS__, )
#define cfx_nn_avg_pool3d(...) CFX_NN_A("AvgPool3d", __VA_ARGS__, )
/* (norm_type, kernel_size): stride, ceil_mode */
#define cfx_nn_lp_pool1d(...) CFX_NN_AB("LPPool1d", __VA_ARGS__, )
#define cfx_nn_lp_pool2d(...) CFX_NN_AB("LPPool2d", __VA_ARGS__, )
#define cfx_nn_lp_pool3d(...) CFX_NN_AB("LPPool3d", __VA_ARGS__, )
/* (output_size, a number or a tuple with None in it) ; max: return_indices */
#define cfx_nn_adaptive_avg_pool1d(...) CFX_NN_A("AdaptiveAvgPool1d", __VA_ARGS__, )
#define cfx_nn_adaptive_avg_pool2d(...) CFX_NN_A("AdaptiveAvgPool2d", __VA_ARGS__, )
#define cfx_nn_adaptive_avg_pool3d(...) CFX_NN_A("AdaptiveAvgPool3d", __VA_ARGS__, )
#define cfx_nn_adaptive_max_pool1d(...) CFX_NN_A("AdaptiveMaxPool1d", __VA_ARGS__, )
#define cfx_nn_adaptive_max_pool2d(...) CFX_NN_A("AdaptiveMaxPool2d", __VA_ARGS__, )
#define cfx_nn_adaptive_max_pool3d(...) CFX_NN_A("AdaptiveMaxPool3d", __VA_ARGS__, )

/* ---- padding: (padding, a number or a tuple from the last dimension on) ---------------------- */

#define cfx_nn_zero_pad1d(...) CFX_NN_A("ZeroPad1d", __VA_ARGS__, )
#define cfx_nn_zero_pad2d(...) CFX_NN_A("ZeroPad2d", __VA_ARGS__, )
#define cfx_nn_zero_pad3d(...) CFX_NN_A("ZeroPad3d", __VA_ARGS__, )
#define cfx_nn_reflection_pad1d(...) CFX_NN_A("ReflectionPad1d", __VA_ARGS__, )
#define cfx_nn_reflection_pad2d(...) CFX_NN_A("ReflectionPad2d", __VA_ARGS__, )
#define cfx_nn_reflection_pad3d(...) CFX_NN_A("ReflectionPad3d", __VA_ARGS__, )
#define cfx_nn_replication_pad1d(...) CFX_NN_A("ReplicationPad1d", __VA_ARGS__, )
#define cfx_nn_replication_pad2d(...) CFX_NN_A("ReplicationPad2d", __VA_ARGS__, )
#define cfx_nn_replication_pad3d(...) CFX_NN_A("ReplicationPad3d", __VA_ARGS__, )
#define cfx_nn_circular_pad1d(...) CFX_NN_A("CircularPad1d", __VA_ARGS__, )
#define cfx_nn_circular_pad2d(...) CFX_NN_A("CircularPad2d", __VA_ARGS__, )
#define cfx_nn_circular_pad3d(...) CFX_NN_A("CircularPad3d", __VA_ARGS__, )
/* (padding, value) */
#define cfx_nn_constant_pad1d(...) CFX_NN_AB("ConstantPad1d", __VA_ARGS__, )
#define cfx_nn_constant_pad2d(...) CFX_NN_AB("ConstantPad2d", __VA_ARGS__, )
#define cfx_nn_constant_pad3d(...) CFX_NN_AB("ConstantPad3d", __VA_ARGS__, )

/* ---- activations ----------------------------------------------------------------------------- */

#define cfx_nn_relu(...) CFX_NN("ReLU", __VA_ARGS__)               /* inplace */
#define cfx_nn_relu6(...) CFX_NN("ReLU6", __VA_ARGS__)             /* inplace */
#define cfx_nn_rrelu(...) CFX_NN("RReLU", __VA_ARGS__)             /* lower, upper, inplace */
#define cfx_nn_hardtanh(...) CFX_NN("Hardtanh", __VA_ARGS__)       /* min_val, max_val, inplace */
#define cfx_nn_sigmoid() CFX_NN("Sigmoid", )
#define cfx_nn_hardsigmoid(...) CFX_NN("Hardsigmoid", __VA_ARGS__) /* inplace */
#define cfx_nn_tanh() CFX_NN("Tanh", )
#define cfx_nn_silu(...) CFX_NN("SiLU", __VA_ARGS__)               /* inplace */
#define cfx_nn_mish(...) CFX_NN("Mish", __VA_ARGS__)               /* inplace */
#define cfx_nn_hardswish(...) CFX_NN("Hardswish", __VA_ARGS__)     /* inplace */
#define cfx_nn_elu(...) CFX_NN("ELU", __VA_ARGS__)                 /* alpha, inplace */
#define cfx_nn_celu(...) CFX_NN("CELU", __VA_ARGS__)               /* alpha, inplace */
#define cfx_nn_selu(...) CFX_NN("SELU", __VA_ARGS__)               /* inplace */
#define cfx_nn_glu(...) CFX_NN("GLU", __VA_ARGS__)                 /* dim */
#define cfx_nn_gelu(...) CFX_NN("GELU", __VA_ARGS__)               /* approximate */
#define cfx_nn_hardshrink(...) CFX_NN("Hardshrink", __VA_ARGS__)   /* lambd */
#define cfx_nn_softshrink(...) CFX_NN("Softshrink", __VA_ARGS__)   /* lambd */
#define cfx_nn_leaky_relu(...) CFX_NN("LeakyReLU", __VA_ARGS__)    /* negative_slope, inplace */
#define cfx_nn_log_sigmoid() CFX_NN("LogSigmoid", )
#define cfx_nn_softplus(...) CFX_NN("Softplus", __VA_ARGS__)       /* beta, threshold */
#define cfx_nn_prelu(...) CFX_NN("PReLU", __VA_ARGS__)             /* num_parameters, init */
#define cfx_nn_softsign() CFX_NN("Softsign", )
#define cfx_nn_tanhshrink() CFX_NN("Tanhshrink", )
/* (threshold, value): inplace */
#define cfx_nn_threshold(...) CFX_NN_AB("Threshold", __VA_ARGS__, )
#define cfx_nn_softmin(...) CFX_NN_A("Softmin", __VA_ARGS__, )      /* (dim) */
#define cfx_nn_softmax(...) CFX_NN_A("Softmax", __VA_ARGS__, )      /* (dim) */
#define cfx_nn_softmax2d() CFX_NN("Softmax2d", )
#define cfx_nn_log_softmax(...) CFX_NN_A("LogSoftmax", __VA_ARGS__, ) /* (dim) */

/* ---- shapes ---------------------------------------------------------------------------------- */

#define cfx_nn_flatten(...) CFX_NN("Flatten", __VA_ARGS__)     /* start_dim, end_dim */
#define cfx_nn_unflatten(...) CFX_NN_AB("Unflatten", __VA_ARGS__, ) /* (dim, unflattened_size) */
/* size or scale_factor, mode, align_corners, recompute_scale_factor */
#define cfx_nn_upsample(...) CFX_NN("Upsample", __VA_ARGS__)
#define cfx_nn_upsampling_nearest2d(...) CFX_NN("UpsamplingNearest2d", __VA_ARGS__)
#define cfx_nn_upsampling_bilinear2d(...) CFX_NN("UpsamplingBilinear2d", __VA_ARGS__)
#define cfx_nn_pixel_shuffle(...) CFX_NN_A("PixelShuffle", __VA_ARGS__, )
#define cfx_nn_pixel_unshuffle(...) CFX_NN_A("PixelUnshuffle", __VA_ARGS__, )
#define cfx_nn_channel_shuffle(...) CFX_NN_A("ChannelShuffle", __VA_ARGS__, )

/* ---- embeddings ------------------------------------------------------------------------------ */

/* (num_embeddings, embedding_dim): padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse */
#define cfx_nn_embedding(...) CFX_NN_AB("Embedding", __VA_ARGS__, )
/* the same, and mode, include_last_offset; forward(input, offsets=None, per_sample_weights=None) */
#define cfx_nn_embedding_bag(...) CFX_NN_AB("EmbeddingBag", __VA_ARGS__, )

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* (input_size, hidden_size): num_layers, no_bias, batch_first, dropout, bidirectional; RNN:
 * nonlinearity; LSTM: proj_size. forward(input, hx=None) gives (output, h) or (output, (h, c)). The
 * input may be a packed sequence, the tuple that torch.nn.utils.rnn.pack_padded_sequence gives; the
 * output is one then. */
#define cfx_nn_rnn(...) CFX_NN_AB("RNN", __VA_ARGS__, )
#define cfx_nn_lstm(...) CFX_NN_AB("LSTM", __VA_ARGS__, )
#define cfx_nn_gru(...) CFX_NN_AB("GRU", __VA_ARGS__, )
/* (input_size, hidden_size): no_bias; RNNCell: nonlinearity */
#define cfx_nn_rnn_cell(...) CFX_NN_AB("RNNCell", __VA_ARGS__, )
#define cfx_nn_lstm_cell(...) CFX_NN_AB("LSTMCell", __VA_ARGS__, )
#define cfx_nn_gru_cell(...) CFX_NN_AB("GRUCell", __VA_ARGS__, )

/* ---- transformers ---------------------------------------------------------------------------- */

/* (embed_dim, num_heads): dropout, no_bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first.
 * forward(query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
 * average_attn_weights=True, is_causal=False) gives (output, weights or None). */
#define cfx_nn_multihead_attention(...) CFX_NN_AB("MultiheadAttention", __VA_ARGS__, )
/* (d_model, nhead): dim_feedforward, dropout, activation ("relu", "gelu"), layer_norm_eps,
 * batch_first, norm_first, no_bias */
#define cfx_nn_transformer_encoder_layer(...) CFX_NN_AB("TransformerEncoderLayer", __VA_ARGS__, )
#define cfx_nn_transformer_decoder_layer(...) CFX_NN_AB("TransformerDecoderLayer", __VA_ARGS__, )
/* (layer, num_layers): norm. The layer is copied num_layers times. */
#define cfx_nn_transformer_encoder(...) CFX_NN_AB("TransformerEncoder", __VA_ARGS__, )
#define cfx_nn_transformer_decoder(...) CFX_NN_AB("TransformerDecoder", __VA_ARGS__, )
/* d_model, nhead, num_encoder_layers, num_decoder_layers and the options of the layers */
#define cfx_nn_transformer(...) CFX_NN("Transformer", __VA_ARGS__)

/* ---- losses: reduction, "mean", "sum" or "none" ---------------------------------------------- */

#define cfx_nn_l1_loss(...) CFX_NN("L1Loss", __VA_ARGS__)
#define cfx_nn_mse_loss(...) CFX_NN("MSELoss", __VA_ARGS__)
#define cfx_nn_smooth_l1_loss(...) CFX_NN("SmoothL1Loss", __VA_ARGS__) /* beta */
#define cfx_nn_huber_loss(...) CFX_NN("HuberLoss", __VA_ARGS__)        /* delta */
/* weight, ignore_index, label_smoothing */
#define cfx_nn_cross_entropy_loss(...) CFX_NN("CrossEntropyLoss", __VA_ARGS__)
#define cfx_nn_nll_loss(...) CFX_NN("NLLLoss", __VA_ARGS__)            /* weight, ignore_index */
#define cfx_nn_poisson_nll_loss(...) CFX_NN("PoissonNLLLoss", __VA_ARGS__) /* no_log_input, full */
#define cfx_nn_ctc_loss(...) CFX_NN("CTCLoss", __VA_ARGS__) /* blank, zero_infinity */
#define cfx_nn_gaussian_nll_loss(...) CFX_NN("GaussianNLLLoss", __VA_ARGS__) /* full, eps */
#define cfx_nn_kl_div_loss(...) CFX_NN("KLDivLoss", __VA_ARGS__)       /* log_target */
#define cfx_nn_bce_loss(...) CFX_NN("BCELoss", __VA_ARGS__)            /* weight */
#define cfx_nn_bce_with_logits_loss(...) CFX_NN("BCEWithLogitsLoss", __VA_ARGS__) /* pos_weight */
#define cfx_nn_margin_ranking_loss(...) CFX_NN("MarginRankingLoss", __VA_ARGS__) /* margin */
#define cfx_nn_hinge_embedding_loss(...) CFX_NN("HingeEmbeddingLoss", __VA_ARGS__) /* margin */
#define cfx_nn_cosine_embedding_loss(...) CFX_NN("CosineEmbeddingLoss", __VA_ARGS__) /* margin */
#define cfx_nn_soft_margin_loss(...) CFX_NN("SoftMarginLoss", __VA_ARGS__)
#define cfx_nn_multi_margin_loss(...) CFX_NN("MultiMarginLoss", __VA_ARGS__) /* p, margin, weight */
#define cfx_nn_multilabel_margin_loss(...) CFX_NN("MultiLabelMarginLoss", __VA_ARGS__)
#define cfx_nn_multilabel_soft_margin_loss(...) CFX_NN("MultiLabelSoftMarginLoss", __VA_ARGS__)
/* margin, p, eps, swap */
#define cfx_nn_triplet_margin_loss(...) CFX_NN("TripletMarginLoss", __VA_ARGS__)
#define cfx_nn_cosine_similarity(...) CFX_NN("CosineSimilarity", __VA_ARGS__) /* dim, eps */
#define cfx_nn_pairwise_distance(...) CFX_NN("PairwiseDistance", __VA_ARGS__) /* p, eps, keepdim */

/* ---- containers ------------------------------------------------------------------------------ */

/* nn.Sequential of n modules, called "0", "1", ...; it is traced through. */
CFX_API cfx_module *cfx_nn_sequential_of(int n, cfx_module *const *modules);
#define cfx_nn_sequential(...)                                                                     \
    cfx_nn_sequential_of((int)(sizeof((cfx_module *[]){__VA_ARGS__}) / sizeof(cfx_module *)),      \
                         (cfx_module *[]){__VA_ARGS__})
/* nn.ModuleList of n modules and nn.ModuleDict, empty at first: containers that are not called. */
CFX_API cfx_module *cfx_nn_module_list(int n, cfx_module *const *modules);
CFX_API cfx_module *cfx_nn_module_dict(void);
/* nn.ParameterList of n tensors and nn.ParameterDict, empty at first. */
CFX_API cfx_module *cfx_nn_parameter_list(int n, cfx_tensor *const *tensors);
CFX_API cfx_module *cfx_nn_parameter_dict(void);
/* Adds a module to the end of a Sequential or a ModuleList; returns it. */
CFX_API cfx_module *cfx_nn_append(cfx_module *list, cfx_module *child);

#ifdef __cplusplus
}
#endif
#endif
