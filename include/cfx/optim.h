/* Training: optimisers, clipping, schedules of the learning rate, batches from memory.
 *
 *     cfx_optim *opt = cfx_sgd(model, .lr = 0.1, .momentum = 0.9);
 *     for (...) CFX_SCOPE {
 *         cfx_optim_zero_grad(opt);
 *         cfx_backward(cfx_mse(cfx_forward(model, x), y));
 *         cfx_optim_step(opt);
 *     }
 *
 * Options have PyTorch's names. What is left out, and 0, is PyTorch's default; CFX_ZERO is zero
 * itself. The numbers are PyTorch's step for step. */
#ifndef CFX_OPTIM_H
#define CFX_OPTIM_H

#include <cfx/grad.h>
#include <cfx/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimisers ------------------------------------------------------------------------------ */

/* An optimiser: a counted object. It keeps its parameters and their state. For one thread, as the
 * module that it trains. */
typedef struct cfx_optim cfx_optim;

typedef struct cfx_optim_options {
    double lr, momentum, dampening, weight_decay;
    double betas[2];
    double eps, alpha, rho, lr_decay, initial_accumulator_value;
    bool nesterov, amsgrad, centered, maximize;
} cfx_optim_options;

/* The optimiser called `type` ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax");
 * scope. `params` is a module (its parameters), a list or dict of tensors, or a list of groups:
 * dicts with "params" and options of their own ("lr", ...). NULL, with PyTorch's message, when
 * they are not leaves that can be optimised or an option is out of range. */
CFX_API cfx_optim *cfx_optim_new_from(cfx_site at, const char *type, cfx_value params,
                                      cfx_optim_options options);
#define cfx_optim_new(type, params, ...)                                                           \
    cfx_optim_new_from(CFX_HERE, type, CFX_V(params), CFX_OPTIONS(cfx_optim_options, __VA_ARGS__))
/* (params): lr (0.001), momentum, dampening, weight_decay, nesterov, maximize */
#define cfx_sgd(...) CFX_OPTIM_("SGD", __VA_ARGS__, )
/* (params): lr (0.001), betas (0.9, 0.999), eps (1e-8), weight_decay, amsgrad, maximize */
#define cfx_adam(...) CFX_OPTIM_("Adam", __VA_ARGS__, )
/* the same; weight_decay (0.01) shrinks the parameters themselves */
#define cfx_adamw(...) CFX_OPTIM_("AdamW", __VA_ARGS__, )
/* (params): lr (0.01), alpha (0.99), eps (1e-8), weight_decay, momentum, centered, maximize */
#define cfx_rmsprop(...) CFX_OPTIM_("RMSprop", __VA_ARGS__, )
#define CFX_OPTIM_(type, params, ...) cfx_optim_new(type, params, __VA_ARGS__)

/* Changes every parameter that has a gradient by one step. */
CFX_API void cfx_optim_step(cfx_optim *o);
/* Forgets the gradients of all parameters. */
CFX_API void cfx_optim_zero_grad(cfx_optim *o);
/* The number of groups; the options in force of group i, borrowed, free to be changed between
 * steps; NULL past the end. */
CFX_API int cfx_optim_groups(const cfx_optim *o);
CFX_API cfx_optim_options *cfx_optim_group(cfx_optim *o, int i);
/* The learning rate of the first group. */
CFX_API double cfx_optim_lr(const cfx_optim *o);
/* {"state": {0: {"exp_avg": ...}}, "param_groups": [{"lr": ..., "params": [0]}]}, as PyTorch's; the
 * tensors are the optimiser's own. Scope. */
CFX_API cfx_dict *cfx_optim_state_dict(const cfx_optim *o);
/* Takes over a state dict: tensors are copied. False, with PyTorch's message and nothing changed,
 * when the groups do not fit. */
CFX_API bool cfx_optim_load_state_dict_from(cfx_site at, cfx_optim *o, const cfx_dict *state);
#define cfx_optim_load_state_dict(o, state) cfx_optim_load_state_dict_from(CFX_HERE, o, state)

/* ---- clipping -------------------------------------------------------------------------------- */

/* Scales all gradients so that their norm of order norm_type (0: 2; INFINITY: the largest element)
 * is max_norm at most. Returns the norm there was; -1 after an error. `params` as above. */
CFX_API double cfx_clip_grad_norm_from(cfx_site at, cfx_value params, double max_norm,
                                       double norm_type);
#define cfx_clip_grad_norm(params, max_norm)                                                       \
    cfx_clip_grad_norm_from(CFX_HERE, CFX_V(params), max_norm, 0)
/* Brings every element of every gradient into -most..most. */
CFX_API void cfx_clip_grad_value_from(cfx_site at, cfx_value params, double most);
#define cfx_clip_grad_value(params, most) cfx_clip_grad_value_from(CFX_HERE, CFX_V(params), most)

/* ---- schedules ------------------------------------------------------------------------------- */

/* A schedule of the learning rate: a counted object that keeps its optimiser. */
typedef struct cfx_schedule cfx_schedule;

typedef struct cfx_schedule_options {
    double gamma, eta_min, start_factor, end_factor, factor, power;
    double pct_start, div_factor, final_div_factor, base_momentum, max_momentum;
    double threshold, min_lr, eps;
    int64_t total_iters, patience, cooldown;
    bool three_phase, linear, maximum, absolute, no_cycle_momentum; /* linear: anneal_strategy */
    double (*lambda)(int64_t epoch, void *user);
    void *user;
    int64_t milestones[16]; /* ascending, ended by 0 */
} cfx_schedule_options;

/* The schedule called `type` over an optimiser, with its one or two numbers; scope. The rate is the
 * schedule's from here on: call cfx_schedule_step after each epoch (or batch). */
CFX_API cfx_schedule *cfx_schedule_new_from(cfx_site at, const char *type, cfx_optim *o, double a,
                                            double b, cfx_schedule_options options);
#define CFX_SCHEDULE_(type, o, a, b, ...)                                                          \
    cfx_schedule_new_from(CFX_HERE, type, o, a, b, CFX_OPTIONS(cfx_schedule_options, __VA_ARGS__))
/* (optim, step_size): gamma (0.1) */
#define cfx_step_lr(o, ...) CFX_SCHEDULE_1_("StepLR", o, __VA_ARGS__, )
/* (optim, .milestones = {30, 80}): gamma (0.1) */
#define cfx_multi_step_lr(o, ...) CFX_SCHEDULE_("MultiStepLR", o, 0, 0, __VA_ARGS__)
/* (optim, gamma) */
#define cfx_exponential_lr(o, ...) CFX_SCHEDULE_1_("ExponentialLR", o, __VA_ARGS__, )
/* (optim, T_max): eta_min */
#define cfx_cosine_annealing_lr(o, ...) CFX_SCHEDULE_1_("CosineAnnealingLR", o, __VA_ARGS__, )
/* (optim): start_factor (1/3), end_factor (1), total_iters (5) */
#define cfx_linear_lr(o, ...) CFX_SCHEDULE_("LinearLR", o, 0, 0, __VA_ARGS__)
/* (optim): factor (1/3), total_iters (5) */
#define cfx_constant_lr(o, ...) CFX_SCHEDULE_("ConstantLR", o, 0, 0, __VA_ARGS__)
/* (optim): total_iters (5), power (1) */
#define cfx_polynomial_lr(o, ...) CFX_SCHEDULE_("PolynomialLR", o, 0, 0, __VA_ARGS__)
/* (optim, max_lr, total_steps): pct_start (0.3), linear, no_cycle_momentum, base_momentum (0.85),
 * max_momentum (0.95), div_factor (25), final_div_factor (10000), three_phase */
#define cfx_one_cycle_lr(o, max_lr, ...) CFX_SCHEDULE_2_("OneCycleLR", o, max_lr, __VA_ARGS__, )
/* (optim, .lambda = fn): the first rate times fn(epoch, user) */
#define cfx_lambda_lr(o, ...) CFX_SCHEDULE_("LambdaLR", o, 0, 0, __VA_ARGS__)
/* (optim): factor (0.1), patience (10), threshold (0.0001), cooldown, min_lr, eps (1e-8), maximum
 * (mode), absolute (threshold_mode); stepped by cfx_schedule_step_on */
#define cfx_reduce_lr_on_plateau(o, ...)                                                           \
    CFX_SCHEDULE_("ReduceLROnPlateau", o, 0, 0, __VA_ARGS__)
#define CFX_SCHEDULE_1_(type, o, a, ...) CFX_SCHEDULE_(type, o, a, 0, __VA_ARGS__)
#define CFX_SCHEDULE_2_(type, o, a, b, ...) CFX_SCHEDULE_(type, o, a, b, __VA_ARGS__)

/* The next epoch: sets the rate of every group. */
CFX_API void cfx_schedule_step(cfx_schedule *s);
/* The same for schedules that watch a measure. */
CFX_API void cfx_schedule_step_on(cfx_schedule *s, double measure);
/* What is to be saved and restored of a schedule: a dict of numbers; scope. */
CFX_API cfx_dict *cfx_schedule_state_dict(const cfx_schedule *s);
CFX_API bool cfx_schedule_load_state_dict(cfx_schedule *s, const cfx_dict *state);

/* ---- the state of the generator -------------------------------------------------------------- */

/* All that the generator remembers, as a tensor of bytes; scope. Setting it back repeats what came
 * after; false, with an error, when it is no such state. */
CFX_API cfx_tensor *cfx_get_rng_state(void);
CFX_API bool cfx_set_rng_state(const cfx_tensor *state);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Writes dicts, lists, numbers, words and tensors, nested in any way, to a .safetensors file, in
 * which tensors are named by their path ("model.fc.weight"). False with an error. */
CFX_API bool cfx_checkpoint_write(const char *path, cfx_value what);
/* Reads what was written: the same value again; scope. Bad, with an error that names the file, when
 * it is no checkpoint. */
CFX_API cfx_value cfx_checkpoint_read(const char *path);

/* ---- batches --------------------------------------------------------------------------------- */

/* Gives tensors that lie in memory in batches: a counted object that keeps them. */
typedef struct cfx_loader cfx_loader;

typedef struct cfx_loader_options {
    int64_t batch_size; /* 0: 1 */
    bool shuffle;       /* in the order that PyTorch's DataLoader draws after the same seed */
    bool drop_last;     /* leave out a last batch that is smaller */
    int ranks, rank;    /* an epoch is split over so many ranks (0: 1), of which this is one: item i
                           in order is rank i % ranks'. All have equally many: the first ones come
                           again at the end, or the last are left out (drop_last), as PyTorch's
                           DistributedSampler does it. All ranks need the same seed */
} cfx_loader_options;

/* Batches of `tensors` (a tensor, or a list of them with equal first sizes); scope. NULL with an
 * error when they do not fit. */
CFX_API cfx_loader *cfx_loader_new_from(cfx_site at, cfx_value tensors, cfx_loader_options options);
#define cfx_loader_new(tensors, ...)                                                               \
    cfx_loader_new_from(CFX_HERE, CFX_V(tensors), CFX_OPTIONS(cfx_loader_options, __VA_ARGS__))
/* The number of batches in an epoch. */
CFX_API int64_t cfx_loader_count(const cfx_loader *l);
/* The next batch as a tuple of tensors, scope; None at the end of the epoch, after which the next
 * epoch begins:  while (cfx_loader_batch(loader, &batch)) ... */
CFX_API cfx_value cfx_loader_next(cfx_loader *l);
/* The same as a condition: false at the end of the epoch. */
CFX_API bool cfx_loader_batch(cfx_loader *l, cfx_value *batch);

#ifdef __cplusplus
}
#endif
#endif
