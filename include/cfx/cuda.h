/* Cards: programs and tensors on NVIDIA's GPUs.
 *
 * CUDA is looked for when a card is first asked for; where it cannot be had, that is an error of
 * the call, and everything else goes on. docs/GPU.md says what runs there, and how. */
#ifndef CFX_CUDA_H
#define CFX_CUDA_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many cards there are; 0 where there is no driver. */
CFX_API int cfx_cuda_count(void);
/* "NVIDIA H200, 9.0": what card n is; NULL, with an error, where there is none. Scope. */
CFX_API const char *cfx_cuda_name(int n);
/* Bytes that are held on card n: by tensors, weights and plans, and for the next of them; 0, with
 * an error, where there is no such card. The second gives back what is kept for the next, on all
 * cards; that happens by itself before a card is full. */
CFX_API int64_t cfx_cuda_held(int n);
CFX_API void cfx_cuda_empty_cache(void);
/* The most bytes that were held there at once since the process began, or since it was told to
 * count anew. */
CFX_API int64_t cfx_cuda_most_held(int n);
CFX_API void cfx_cuda_count_most_anew(int n);
/* Seeds this thread's generator of card n alone (cfx_manual_seed seeds that of the host and of all
 * cards), and its state, PyTorch's 16 bytes of a seed and an offset; scope. False, with an
 * error, for what is no such state. */
CFX_API void cfx_cuda_manual_seed(int n, uint64_t seed);
CFX_API cfx_tensor *cfx_cuda_get_rng_state(int n);
CFX_API bool cfx_cuda_set_rng_state(int n, const cfx_tensor *state);
/* The executor that runs plans on card n, to be chosen with cfx_set_executor or given to a run:
 * what the card has no form for runs on the host, between copies. NULL, with an error, where there
 * is no such card. */
CFX_API const cfx_executor *cfx_cuda_executor(int n);

/* Where tensors are made from now on, on this thread, unless a call names a device or one of its
 * tensors is on another: "cpu", "cuda", "cuda:1". False, with an error, where there is no such
 * device. And where that is: torch.set_default_device, torch.get_default_device. */
CFX_API bool cfx_set_default_device(const char *device);
CFX_API cfx_device cfx_get_default_device(void);

/* Where a program runs from now on, unless a run names an executor: "cpu", "cuda", "cuda:1". Its
 * weights go to a card when it first runs there, and what it gives stays there. False, with an
 * error, where there is no such device. */
CFX_API bool cfx_program_to(cfx_program *p, const char *device);

#ifdef __cplusplus
}
#endif
#endif
