/* Layers: modules that come ready-made, with PyTorch's names, shapes, initial values and repr.
 *
 * Required arguments first, in PyTorch's order; the rest by name:
 *     cfx_nn_linear(4, 8)    cfx_nn_linear(4, 8, .no_bias = true)    cfx_nn_conv2d(3, 16, 3)
 * Zero means PyTorch's default, so flags that default to true are turned off by a name of their own
 * (.no_bias). Each layer is a result of the scope; add it to a parent with cfx_nn_add. */
#ifndef CFX_LAYERS_H
#define CFX_LAYERS_H

#include <cfx/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fields that end in `end_` are there so that an initialiser may end with a comma. */
typedef struct cfx_nn_linear_args {
    int64_t in_features, out_features;
    bool no_bias;
    int end_;
} cfx_nn_linear_args;

/* One number stands for all dimensions: kernel_size, stride (0: 1), padding, dilation (0: 1). */
typedef struct cfx_nn_conv_args {
    int64_t in_channels, out_channels, kernel_size;
    int64_t stride, padding, dilation, groups;
    int64_t kernel_sizes[3], strides[3], paddings[3],
        dilations[3]; /* for each, where they differ */
    bool no_bias;
    int end_;
} cfx_nn_conv_args;

typedef struct cfx_nn_norm_args {
    int64_t num_features;
    double eps;      /* 0: 1e-5 */
    double momentum; /* 0: 0.1 */
    bool no_affine, no_running_stats;
    int end_;
} cfx_nn_norm_args;

typedef struct cfx_nn_pool_args {
    int64_t kernel_size, stride, padding, dilation;
    bool ceil_mode;
    int end_;
} cfx_nn_pool_args;

typedef struct cfx_nn_dropout_args {
    double p; /* 0: 0.5 */
    bool inplace;
    int end_;
} cfx_nn_dropout_args;

typedef struct cfx_nn_activation_args {
    bool inplace;
    int end_;
} cfx_nn_activation_args;

/* nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d; initial values drawn as PyTorch draws them. */
CFX_API cfx_module *cfx_nn_linear_with(cfx_nn_linear_args a);
CFX_API cfx_module *cfx_nn_conv_with(int dims, cfx_nn_conv_args a);
/* nn.BatchNorm1d, 2d, 3d. */
CFX_API cfx_module *cfx_nn_batch_norm_with(int dims, cfx_nn_norm_args a);
/* nn.LayerNorm over the last dimensions of these sizes. */
CFX_API cfx_module *cfx_nn_layer_norm_with(int n, const int64_t *shape, cfx_nn_norm_args a);
/* nn.MaxPool2d, nn.AvgPool2d. */
CFX_API cfx_module *cfx_nn_max_pool2d_with(cfx_nn_pool_args a);
CFX_API cfx_module *cfx_nn_avg_pool2d_with(cfx_nn_pool_args a);
/* nn.AdaptiveAvgPool2d to height by width. */
CFX_API cfx_module *cfx_nn_adaptive_avg_pool2d(int64_t height, int64_t width);
/* nn.Dropout. */
CFX_API cfx_module *cfx_nn_dropout_with(cfx_nn_dropout_args a);
/* nn.Embedding. */
CFX_API cfx_module *cfx_nn_embedding(int64_t num_embeddings, int64_t embedding_dim);
/* nn.ReLU, nn.ReLU6, nn.SiLU. */
CFX_API cfx_module *cfx_nn_relu_with(cfx_nn_activation_args a);
CFX_API cfx_module *cfx_nn_silu_with(cfx_nn_activation_args a);
/* nn.Sigmoid, nn.Tanh, nn.GELU, nn.Identity, nn.Flatten (from dimension 1 on). */
CFX_API cfx_module *cfx_nn_sigmoid(void);
CFX_API cfx_module *cfx_nn_tanh(void);
CFX_API cfx_module *cfx_nn_gelu(void);
CFX_API cfx_module *cfx_nn_identity(void);
CFX_API cfx_module *cfx_nn_flatten(void);
/* nn.Softmax over a dimension. */
CFX_API cfx_module *cfx_nn_softmax(int64_t dim);
/* nn.Sequential of n modules, called "0", "1", ...; it is traced through. */
CFX_API cfx_module *cfx_nn_sequential_of(int n, cfx_module *const *modules);
/* nn.ModuleList of n modules and nn.ModuleDict, empty at first: containers that are not called. */
CFX_API cfx_module *cfx_nn_module_list(int n, cfx_module *const *modules);
CFX_API cfx_module *cfx_nn_module_dict(void);

#define cfx_nn_linear(...) cfx_nn_linear_with((cfx_nn_linear_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_conv1d(...) cfx_nn_conv_with(1, (cfx_nn_conv_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_conv2d(...) cfx_nn_conv_with(2, (cfx_nn_conv_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_conv3d(...) cfx_nn_conv_with(3, (cfx_nn_conv_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_batch_norm1d(...)                                                                   \
    cfx_nn_batch_norm_with(1, (cfx_nn_norm_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_batch_norm2d(...)                                                                   \
    cfx_nn_batch_norm_with(2, (cfx_nn_norm_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_batch_norm3d(...)                                                                   \
    cfx_nn_batch_norm_with(3, (cfx_nn_norm_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_layer_norm(size, ...)                                                               \
    cfx_nn_layer_norm_with(1, (int64_t[]){size}, (cfx_nn_norm_args){__VA_ARGS__ .end_ = 0})
#define cfx_nn_max_pool2d(...) cfx_nn_max_pool2d_with((cfx_nn_pool_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_avg_pool2d(...) cfx_nn_avg_pool2d_with((cfx_nn_pool_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_dropout(...) cfx_nn_dropout_with((cfx_nn_dropout_args){__VA_ARGS__, .end_ = 0})
#define cfx_nn_relu(...) cfx_nn_relu_with((cfx_nn_activation_args){__VA_ARGS__ .end_ = 0})
#define cfx_nn_silu(...) cfx_nn_silu_with((cfx_nn_activation_args){__VA_ARGS__ .end_ = 0})
#define cfx_nn_sequential(...)                                                                     \
    cfx_nn_sequential_of((int)(sizeof((cfx_module *[]){__VA_ARGS__}) / sizeof(cfx_module *)),      \
                         (cfx_module *[]){__VA_ARGS__})

#ifdef __cplusplus
}
#endif
#endif
