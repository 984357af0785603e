/* The algorithms of the optimisers, each one row: defaults, state, and the loop that is in
 * optim_step.inc for both types of number. */
#include "optim.h"

#include <math.h>

#define NAME_(name, type) name##_##type
#define NAME__(name, type) NAME_(name, type)
#define NAME(name) NAME__(name, T)

static inline float root_float(float x) { return sqrtf(x); }
static inline double root_double(double x) { return sqrt(x); }

#define T float
#include "optim_step.inc"
#undef T
#define T double
#include "optim_step.inc"
#undef T

static uint32_t needs_momentum(const cfx_optim_options *o) { return o->momentum != 0; }
static uint32_t needs_moments(const cfx_optim_options *o) { return o->amsgrad ? 7 : 3; }
static uint32_t needs_both(const cfx_optim_options *o) { return (void)o, 3; }
static uint32_t needs_sum(const cfx_optim_options *o) { return (void)o, 1; }
static uint32_t needs_squares(const cfx_optim_options *o) {
    return 1 | (o->momentum > 0 ? 2 : 0) | (o->centered ? 4 : 0);
}

#define LOOPS(id) .rule = #id, .f32 = id##_float, .f64 = id##_double

const cfx__optim_algorithm cfx__optim_algorithms[] = {
    {"SGD",
     .state = {"momentum_buffer"},
     .defaults = {.lr = 1e-3},
     .needs = needs_momentum,
     LOOPS(sgd)},
    {"Adam",
     .state = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
     .counts = true,
     .defaults = {.lr = 1e-3, .betas = {0.9, 0.999}, .eps = 1e-8},
     .needs = needs_moments,
     LOOPS(adam)},
    {"AdamW",
     .state = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
     .counts = true,
     .defaults = {.lr = 1e-3, .betas = {0.9, 0.999}, .eps = 1e-8, .weight_decay = 1e-2},
     .needs = needs_moments,
     LOOPS(adamw)},
    {"RMSprop",
     .state = {"square_avg", "momentum_buffer", "grad_avg"},
     .counts = true,
     .defaults = {.lr = 1e-2, .alpha = 0.99, .eps = 1e-8},
     .needs = needs_squares,
     LOOPS(rmsprop)},
    {"Adagrad",
     .state = {"sum"},
     .counts = true,
     .defaults = {.lr = 1e-2, .eps = 1e-10},
     .needs = needs_sum,
     LOOPS(adagrad)},
    {"Adadelta",
     .state = {"square_avg", "acc_delta"},
     .counts = true,
     .defaults = {.lr = 1, .rho = 0.9, .eps = 1e-6},
     .needs = needs_both,
     LOOPS(adadelta)},
    {"Adamax",
     .state = {"exp_avg", "exp_inf"},
     .counts = true,
     .defaults = {.lr = 2e-3, .betas = {0.9, 0.999}, .eps = 1e-8},
     .needs = needs_both,
     LOOPS(adamax)},
    {0},
};
