/* Programs and tensors on NVIDIA GPUs ("cards").
 *
 * CUDA is opened when a card is first used. If it is not available, that call fails, and
 * everything else works. docs/GPU.md describes what runs there. */
#ifndef CFX_CUDA_H
#define CFX_CUDA_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of cards; 0 without a driver. */
CFX_API int cfx_cuda_count(void);
/* The name and compute capability of card n, "NVIDIA H200, 9.0"; scope. NULL, with an error, if
 * there is no such card. */
CFX_API const char *cfx_cuda_name(int n);
/* The bytes held on card n by tensors, weights and plans, including memory cached for reuse; 0,
 * with an error, if there is no such card. cfx_cuda_empty_cache releases cached memory of all
 * cards, which also happens automatically before a card is full. */
CFX_API int64_t cfx_cuda_held(int n);
CFX_API void cfx_cuda_empty_cache(void);
/* The peak of cfx_cuda_held since the process began, or since cfx_cuda_count_most_anew. */
CFX_API int64_t cfx_cuda_most_held(int n);
CFX_API void cfx_cuda_count_most_anew(int n);
/* Seeds this thread's generator of card n (cfx_manual_seed seeds those of the host and of all
 * cards); and reads and sets its state, PyTorch's 16 bytes of seed and offset; scope. Setting
 * returns false, with an error, for an invalid state. */
CFX_API void cfx_cuda_manual_seed(int n, uint64_t seed);
CFX_API cfx_tensor *cfx_cuda_get_rng_state(int n);
CFX_API bool cfx_cuda_set_rng_state(int n, const cfx_tensor *state);
/* The executor that runs plans on card n, for cfx_set_executor or a single run. Nodes without a
 * GPU kernel run on the host, with copies around them. NULL, with an error, if there is no such
 * card. */
CFX_API const cfx_executor *cfx_cuda_executor(int n);

/* torch.set_default_device and torch.get_default_device, for this thread: the device ("cpu",
 * "cuda", "cuda:1") of new tensors, unless the call names a device or has a tensor argument on
 * another. False, with an error, if there is no such device. */
CFX_API bool cfx_set_default_device(const char *device);
CFX_API cfx_device cfx_get_default_device(void);

/* Sets the device on which a program runs ("cpu", "cuda", "cuda:1"), unless a run names an
 * executor. Weights are copied to a card at the first run there; results stay on the card.
 * False, with an error, if there is no such device. */
CFX_API bool cfx_program_to(cfx_program *p, const char *device);

#ifdef __cplusplus
}
#endif
#endif
