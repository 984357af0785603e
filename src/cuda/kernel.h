/* kernel: what the files kernel_*.c share: the card they have in mind, how launches are filled. */
#ifndef CFX__CUDA_KERNEL_H
#define CFX__CUDA_KERNEL_H

#include "kernels.h"

/* Multiprocessors that are to be kept busy, and shared memory that a block may have. A card with
 * others gives the same results. */
enum { CFX__CUDA_SMS = 132, CFX__CUDA_SHARED = 160 << 10 };

/* Whether steps through an image can be counted in 32 bits. */
static inline bool cfx__cuda_window_fits(const cfx__cuda_window *w) {
    bool fits = true;
    for (int i = 0; i < 2; i++)
        fits &= w->stride[i] < 1 << 24 && w->padding[i] < 1 << 24 && w->dilation[i] < 1 << 16;
    return fits;
}

/* a / by, rounded up. */
static inline int64_t cfx__cuda_up(int64_t a, int64_t by) { return (a + by - 1) / by; }

/* The lines that say what elements are, and what they are multiplied as; NULL: not such a dtype. */
static inline const char *cfx__cuda_element(cfx_dtype dtype, cfx__cuda_precision precision) {
    return dtype == CFX_BF16             ? "#define T unsigned short\n#define BF16 1\n"
           : dtype == CFX_F16            ? "#define T unsigned short\n#define HALF 1\n"
           : dtype != CFX_F32            ? NULL
           : precision == CFX__CUDA_TF32 ? "#define TF32 1\n"
           : precision == CFX__CUDA_F16  ? "#define AS_F16 1\n"
                                         : "";
}

static inline void cfx__cuda_pass_place(cfx__cuda_launch *l, int operand) {
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, operand, 0, 0});
}

/* An array that may be left out; a kernel is given NULL then. */
static inline void cfx__cuda_pass_optional(cfx__cuda_launch *l, const cfx__cuda_array *a) {
    if (a && a->operand >= 0)
        cfx__cuda_pass_array(l, a);
    else
        cfx__cuda_pass_integer(l, 0);
}

/* Launches of a work share its scratch memory, one after the other. */
static inline void cfx__cuda_need(cfx__cuda_work *work, int64_t scratch) {
    work->scratch = work->scratch > scratch ? work->scratch : scratch;
}

#endif
