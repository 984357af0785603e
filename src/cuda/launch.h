/* launch: a kernel launch as plain data.
 *
 * A launch names a kernel text (src/cuda/kernels), its defines, and the kernel's arguments:
 * words of 8 bytes, each a number or a reference to an operand. The executor replaces references
 * by addresses. Until then nothing depends on a card, so the selection and description of
 * kernels is tested without one. */
#ifndef CFX__CUDA_LAUNCH_H
#define CFX__CUDA_LAUNCH_H

#include "../tensor/tensor.h"

enum {
    CFX__CUDA_COUNTERS = 61, /* operand: ints that are 0 and that every kernel leaves 0, as many as
                                CFX__CUDA_COUNTED; launches of one stream share them */
    CFX__CUDA_COUNTED = 8192,
    CFX__CUDA_SCRATCH = 62, /* operand: the scratch memory of the kernel */
    CFX__CUDA_FLAG = 63,    /* operand: an int that is set where an index is out of range */
    CFX__CUDA_ARGS = 48,    /* of a launch, at most */
    CFX__CUDA_LAUNCHES = 16 /* of one piece of work, at most */
};

typedef enum cfx__cuda_word {
    CFX__CUDA_POINTER,
    CFX__CUDA_INTEGER,
    CFX__CUDA_DOUBLE
} cfx__cuda_word;

/* What a kernel is given: 8 bytes. */
typedef struct cfx__cuda_arg {
    cfx__cuda_word kind;
    int operand; /* POINTER */
    int64_t i;   /* INTEGER; POINTER: bytes from where the operand begins */
    double f;    /* DOUBLE */
} cfx__cuda_arg;

typedef struct cfx__cuda_launch {
    const char *text;     /* of kernels/NAME.cu, or a rendered one */
    const char *before;   /* rendered functions that it calls; NULL: none */
    const char *defines;  /* lines before it; "" */
    const char *function; /* the kernel's name */
    unsigned grid[3], block[3];
    unsigned shared; /* dynamic shared memory, bytes */
    bool cooperative;   /* its blocks wait for each other: a cooperative launch */
    unsigned cluster; /* so many in z wait for each other, as the text says itself; 0: none */
    int nargs;
    cfx__cuda_arg args[CFX__CUDA_ARGS];
} cfx__cuda_launch;

/* Launches in order, and the scratch memory that they share. Texts are the scope's. */
typedef struct cfx__cuda_work {
    int n;
    cfx__cuda_launch launch[CFX__CUDA_LAUNCHES];
    int64_t scratch; /* bytes */
} cfx__cuda_work;

/* A tensor that kernels read or write: which operand, and how it lies. */
typedef struct cfx__cuda_array {
    int operand;
    cfx_dtype dtype;
    int ndim;
    const int64_t *shape, *stride; /* elements */
    int64_t at;                    /* bytes from where the operand begins */
} cfx__cuda_array;

/* One more launch of a piece of work, to be filled in; NULL where there are too many. */
static inline cfx__cuda_launch *cfx__cuda_launch_add(cfx__cuda_work *w, const char *text,
                                               const char *function) {
    if (w->n == CFX__CUDA_LAUNCHES)
        return NULL;
    cfx__cuda_launch *l = &w->launch[w->n++];
    *l = (cfx__cuda_launch){.text = text,
                            .defines = "",
                            .function = function,
                            .grid = {1, 1, 1},
                            .block = {1, 1, 1}};
    return l;
}

static inline void cfx__cuda_pass(cfx__cuda_launch *l, cfx__cuda_arg a) {
    if (l->nargs < CFX__CUDA_ARGS)
        l->args[l->nargs++] = a;
}

static inline void cfx__cuda_pass_array(cfx__cuda_launch *l, const cfx__cuda_array *a) {
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, a->operand, a->at, 0});
}

static inline void cfx__cuda_pass_integer(cfx__cuda_launch *l, int64_t i) {
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_INTEGER, 0, i, 0});
}

static inline void cfx__cuda_pass_double(cfx__cuda_launch *l, double f) {
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_DOUBLE, 0, 0, f});
}

#endif
