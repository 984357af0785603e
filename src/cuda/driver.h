/* driver: NVIDIA's libraries, opened when a card is first used.
 *
 * CUDA is needed neither to build cfx nor to run it: the functions used are in tables filled by
 * dlopen, with types declared here. A test fills the same tables with its own functions
 * (cfx__cuda_play).
 *
 * Invariant: a missing library is an error message (cfx__cuda_open, cfx__cuda_library_why),
 * never a crash; tables are filled under a lock and constant afterwards. */
#ifndef CFX__CUDA_DRIVER_H
#define CFX__CUDA_DRIVER_H

#include "../base/base.h"

typedef uint64_t cfx__cuda_address; /* of memory on the card; 0: none */

enum { /* what the driver answers; 0: it is done */
       CFX__CUDA_OUT_OF_MEMORY = 2,
       CFX__CUDA_NO_DEVICE = 100
};

/* How a kernel is launched, as the driver lays it out (CUlaunchConfig, CUlaunchAttribute). */
enum { CFX__CUDA_COOPERATIVE = 2, CFX__CUDA_OVERLAPPING = 6 };
typedef struct cfx__cuda_launch_mode {
    int which;
    int padding;
    union {
        int value;
        char room[64];
    };
} cfx__cuda_launch_mode;
typedef struct cfx__cuda_launching {
    unsigned grid[3], block[3], shared;
    void *stream;
    cfx__cuda_launch_mode *modes;
    unsigned nmodes;
} cfx__cuda_launching;

/* Functions of libcuda: result, name here, symbol, arguments. */
#define CFX__CUDA_DRIVER(X)                                                                        \
    X(init, "cuInit", (unsigned))                                                                  \
    X(version, "cuDriverGetVersion", (int *))                                                      \
    X(count, "cuDeviceGetCount", (int *))                                                          \
    X(get, "cuDeviceGet", (int *, int))                                                            \
    X(name, "cuDeviceGetName", (char *, int, int))                                                 \
    X(attribute, "cuDeviceGetAttribute", (int *, int, int))                                        \
    X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                          \
    X(set_current, "cuCtxSetCurrent", (void *))                                                    \
    X(alloc, "cuMemAlloc_v2", (cfx__cuda_address *, size_t))                                       \
    X(free, "cuMemFree_v2", (cfx__cuda_address))                                                   \
    X(alloc_managed, "cuMemAllocManaged", (cfx__cuda_address *, size_t, unsigned))                 \
    X(copy, "cuMemcpyAsync", (cfx__cuda_address, cfx__cuda_address, size_t, void *))               \
    X(fill, "cuMemsetD8Async", (cfx__cuda_address, unsigned char, size_t, void *))                 \
    X(stream_create, "cuStreamCreate", (void **, unsigned))                                        \
    X(stream_wait, "cuStreamSynchronize", (void *))                                                \
    X(capture_begin, "cuStreamBeginCapture_v2", (void *, int))                                     \
    X(capture_end, "cuStreamEndCapture", (void *, void **))                                        \
    X(graph_make, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))            \
    X(graph_launch, "cuGraphLaunch", (void *, void *))                                             \
    X(graph_free, "cuGraphDestroy", (void *))                                                      \
    X(graph_exec_free, "cuGraphExecDestroy", (void *))                                             \
    X(module_load, "cuModuleLoadData", (void **, const void *))                                    \
    X(module_unload, "cuModuleUnload", (void *))                                                   \
    X(module_function, "cuModuleGetFunction", (void **, void *, const char *))                     \
    X(function_set, "cuFuncSetAttribute", (void *, int, int))                                      \
    X(launch, "cuLaunchKernelEx", (const cfx__cuda_launching *, void *, void **, void **))         \
    X(event_create, "cuEventCreate", (void **, unsigned))                                          \
    X(event_destroy, "cuEventDestroy_v2", (void *))                                                \
    X(event_record, "cuEventRecord", (void *, void *))                                             \
    X(event_elapsed, "cuEventElapsedTime", (float *, void *, void *))                              \
    X(error_text, "cuGetErrorString", (int, const char **))

/* Functions of NVRTC, which compiles kernels. */
#define CFX__CUDA_COMPILER(X)                                                                      \
    X(version, "nvrtcVersion", (int *, int *))                                                     \
    X(create, "nvrtcCreateProgram",                                                                \
      (void **, const char *, const char *, int, const char *const *, const char *const *))        \
    X(compile, "nvrtcCompileProgram", (void *, int, const char *const *))                          \
    X(size, "nvrtcGetCUBINSize", (void *, size_t *))                                               \
    X(code, "nvrtcGetCUBIN", (void *, char *))                                                     \
    X(log_size, "nvrtcGetProgramLogSize", (void *, size_t *))                                      \
    X(log, "nvrtcGetProgramLog", (void *, char *))                                                 \
    X(destroy, "nvrtcDestroyProgram", (void **))

/* Functions of cuBLASLt: products. Structs are opaque; attributes are numbered (products.c). */
#define CFX__CUDA_BLAS(X)                                                                          \
    X(create, "cublasLtCreate", (void **))                                                         \
    X(destroy, "cublasLtDestroy", (void *))                                                        \
    X(desc_create, "cublasLtMatmulDescCreate", (void **, int, int))                                \
    X(desc_destroy, "cublasLtMatmulDescDestroy", (void *))                                         \
    X(desc_set, "cublasLtMatmulDescSetAttribute", (void *, int, const void *, size_t))             \
    X(layout_create, "cublasLtMatrixLayoutCreate", (void **, int, uint64_t, uint64_t, int64_t))    \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void *))                                     \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute", (void *, int, const void *, size_t))         \
    X(choice_create, "cublasLtMatmulPreferenceCreate", (void **))                                  \
    X(choice_destroy, "cublasLtMatmulPreferenceDestroy", (void *))                                 \
    X(choice_set, "cublasLtMatmulPreferenceSetAttribute", (void *, int, const void *, size_t))     \
    X(choose, "cublasLtMatmulAlgoGetHeuristic",                                                    \
      (void *, void *, void *, void *, void *, void *, void *, int, void *, int *))                \
    X(run, "cublasLtMatmul",                                                                       \
      (void *, void *, const void *, const void *, void *, const void *, void *, const void *,     \
       const void *, void *, void *, void *, const void *, void *, size_t, void *))

/* Functions of cuDNN: convolutions. */
#define CFX__CUDA_DNN(X)                                                                           \
    X(create, "cudnnCreate", (void **))                                                            \
    X(destroy, "cudnnDestroy", (void *))                                                           \
    X(set_stream, "cudnnSetStream", (void *, void *))                                              \
    X(tensor_create, "cudnnCreateTensorDescriptor", (void **))                                     \
    X(tensor_destroy, "cudnnDestroyTensorDescriptor", (void *))                                    \
    X(tensor_set, "cudnnSetTensorNdDescriptor", (void *, int, int, const int *, const int *))      \
    X(filter_create, "cudnnCreateFilterDescriptor", (void **))                                     \
    X(filter_destroy, "cudnnDestroyFilterDescriptor", (void *))                                    \
    X(filter_set, "cudnnSetFilterNdDescriptor", (void *, int, int, int, const int *))              \
    X(conv_create, "cudnnCreateConvolutionDescriptor", (void **))                                  \
    X(conv_destroy, "cudnnDestroyConvolutionDescriptor", (void *))                                 \
    X(conv_set, "cudnnSetConvolutionNdDescriptor",                                                 \
      (void *, int, const int *, const int *, const int *, int, int))                              \
    X(conv_groups, "cudnnSetConvolutionGroupCount", (void *, int))                                 \
    X(conv_math, "cudnnSetConvolutionMathType", (void *, int))                                     \
    X(act_create, "cudnnCreateActivationDescriptor", (void **))                                    \
    X(act_destroy, "cudnnDestroyActivationDescriptor", (void *))                                   \
    X(act_set, "cudnnSetActivationDescriptor", (void *, int, int, double))                         \
    X(conv_scratch, "cudnnGetConvolutionForwardWorkspaceSize",                                     \
      (void *, void *, void *, void *, void *, int, size_t *))                                     \
    X(conv_choose, "cudnnGetConvolutionForwardAlgorithm_v7",                                       \
      (void *, void *, void *, void *, void *, int, int *, void *))                                \
    X(conv_run, "cudnnConvolutionForward",                                                         \
      (void *, const void *, void *, const void *, void *, const void *, void *, int, void *,      \
       size_t, const void *, void *, void *))                                                      \
    X(conv_bias_run, "cudnnConvolutionBiasActivationForward",                                      \
      (void *, const void *, void *, const void *, void *, const void *, void *, int, void *,      \
       size_t, const void *, void *, const void *, void *, const void *, void *, void *, void *))

#define CFX__CUDA_MEMBER(name, symbol, arguments) int(*name) arguments;
typedef struct cfx__cuda_driver {
    CFX__CUDA_DRIVER(CFX__CUDA_MEMBER)
} cfx__cuda_driver;
typedef struct cfx__cuda_compiler {
    CFX__CUDA_COMPILER(CFX__CUDA_MEMBER)
} cfx__cuda_compiler;
typedef struct cfx__cuda_blas {
    CFX__CUDA_BLAS(CFX__CUDA_MEMBER)
} cfx__cuda_blas;
typedef struct cfx__cuda_dnn {
    CFX__CUDA_DNN(CFX__CUDA_MEMBER)
} cfx__cuda_dnn;
#undef CFX__CUDA_MEMBER

/* The driver and the compiler; NULL, with an error, where one cannot be had. */
const cfx__cuda_driver *cfx__cuda_driver_open(void);
const cfx__cuda_compiler *cfx__cuda_compiler_open(void);
/* NULL, without an error: there are kernels of our own. */
const cfx__cuda_blas *cfx__cuda_blas_open(void);
const cfx__cuda_dnn *cfx__cuda_dnn_open(void);

/* Tables of a test's own, until it is called with NULLs; dnn is not there then, and blas where the
 * test has one. */
void cfx__cuda_play(const cfx__cuda_driver *d, const cfx__cuda_compiler *c);
void cfx__cuda_play_blas(const cfx__cuda_blas *b);

#endif
