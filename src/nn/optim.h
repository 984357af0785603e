/* optim: what the files of optimisers and schedules share. */
#ifndef CFX__OPTIM_H
#define CFX__OPTIM_H

#include <cfx/optim.h>

#include "nn.h"

enum { CFX__MOMENTS = 3 }; /* tensors of state that a parameter has at most */

/* What a rule is told beside the numbers: words of 8 bytes, as kernels for cards take it. */
typedef struct cfx__optim_step {
    cfx_optim_options o;
    int64_t k;         /* which step of this parameter it is, from 1 */
    double correct[2]; /* 1 - betas[i]^k */
} cfx__optim_step;

/* One algorithm: its defaults, the names of its state, and the loops over elements p with gradients
 * g and state s, all contiguous. */
typedef struct cfx__optim_algorithm {
    const char *name;
    const char *rule; /* of optim_step.inc, in kernels */
    const char *state[CFX__MOMENTS];
    bool counts; /* its state dict has a "step" */
    cfx_optim_options defaults;
    /* Which of the state tensors the options ask for, as bits. */
    uint32_t (*needs)(const cfx_optim_options *o);
    void (*f32)(float *p, const float *g, float *const s[CFX__MOMENTS], int64_t n,
                const cfx__optim_step *k);
    void (*f64)(double *p, const double *g, double *const s[CFX__MOMENTS], int64_t n,
                const cfx__optim_step *k);
} cfx__optim_algorithm;

/* One parameter's share of a step: tensors that are contiguous, of one dtype but for the state of
 * halves, which is float32. */
typedef struct cfx__optim_work {
    const cfx__optim_algorithm *a;
    cfx_tensor *p;
    const cfx_tensor *g;
    cfx_tensor *s[CFX__MOMENTS]; /* NULL: the options need none */
    cfx__optim_step k;
} cfx__optim_work;

/* Ended by one without a name. */
extern const cfx__optim_algorithm cfx__optim_algorithms[];

typedef struct cfx__optim_param {
    cfx_tensor *tensor;             /* counted */
    cfx_tensor *state[CFX__MOMENTS]; /* counted; NULL before the first step */
    int64_t steps;
} cfx__optim_param;

typedef struct cfx__optim_group {
    cfx_optim_options options;
    double initial_lr; /* what schedules start from */
    VEC(cfx__optim_param) params;
} cfx__optim_group;

struct cfx_optim {
    cfx_obj head;
    const cfx__optim_algorithm *algorithm;
    VEC(cfx__optim_group) groups;
};


#endif
