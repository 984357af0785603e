/* Random tensors. A row says how the tensor is made and what draws its numbers; in-place forms are
 * written out, since their functional twins have other names. */
#include <cfx/ops.h>

#include "../views.h"

CFX_FAMILY(RANDOM);

typedef void draw_fn(cfx_op_call *c, cfx_tensor *t);

typedef struct {
    make_row make; /* first: shape_make reads it */
    draw_fn *draw;
} random_row;

static void kernel_draw(cfx_op_call *c) { ((const random_row *)c->op->row)->draw(c, c->out[0]); }

static void shape_draw_inplace(cfx_op_call *c) {
    c->out[0] = arg_tensor(c, 0);
    is_writable(c, c->out[0]);
}

/* Functional twins of in-place operators keep the strides of self. */
static void shape_draw_like(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    out_empty_like(c, t->dtype, CFX_PRESERVE, t);
}

static cfx__generator *generator(void) { return cfx__generator_default(); }

/* ---- what draws ------------------------------------------------------------------------------ */

/* Complex numbers are drawn as pairs of real ones. */
static cfx_tensor *parts(cfx_op_call *c, cfx_tensor *t) {
    int64_t shape[CFX_MAX_DIMS + 1], stride[CFX_MAX_DIMS + 1];
    if (!cfx__dtype_is_complex(t->dtype))
        return t;
    if (t->ndim == CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS - 1);
        return t;
    }
    for (int d = 0; d < t->ndim; d++) {
        shape[d] = t->shape[d];
        stride[d] = (int64_t)(2 * (uint64_t)t->stride[d]);
    }
    shape[t->ndim] = 2;
    stride[t->ndim] = 1;
    cfx_tensor *real = cfx__tensor_alias(t, t->ndim + 1, shape, stride, t->offset);
    real->dtype = (uint8_t)cfx__dtype_real(t->dtype);
    real->offset = 2 * t->offset;
    return real;
}

static void uniform_between(cfx_op_call *c, cfx_tensor *t, double from, double to) {
    t = parts(c, t);
    if (!op_failed())
        cfx__random_uniform(generator(), t, from, to);
}

/* Half of the variance of a complex number is that of each part. */
static void normal_around(cfx_op_call *c, cfx_tensor *t, double mean, double std) {
    bool halves = cfx__dtype_is_complex(t->dtype);
    t = parts(c, t);
    if (!op_failed())
        cfx__random_normal(generator(), t, mean, halves ? std * 0.70710678118654752440 : std);
}

static void draw_unit(cfx_op_call *c, cfx_tensor *t) { uniform_between(c, t, 0, 1); }
static void draw_gauss(cfx_op_call *c, cfx_tensor *t) { normal_around(c, t, 0, 1); }

static void draw_uniform(cfx_op_call *c, cfx_tensor *t) {
    uniform_between(c, t, arg_float(c, 1), arg_float(c, 2));
}

static void draw_normal(cfx_op_call *c, cfx_tensor *t) {
    normal_around(c, t, arg_float(c, 1), arg_float(c, 2));
}

static void draw_normal_first(cfx_op_call *c, cfx_tensor *t) {
    normal_around(c, t, arg_float(c, 0), arg_float(c, 1));
}

static void draw_log_normal(cfx_op_call *c, cfx_tensor *t) {
    cfx__random_log_normal(generator(), t, arg_float(c, 1), arg_float(c, 2));
}

static void draw_cauchy(cfx_op_call *c, cfx_tensor *t) {
    cfx__random_cauchy(generator(), t, arg_float(c, 1), arg_float(c, 2));
}

static void draw_exponential(cfx_op_call *c, cfx_tensor *t) {
    cfx__random_exponential(generator(), t, arg_float(c, 1));
}

static void draw_geometric(cfx_op_call *c, cfx_tensor *t) {
    cfx__random_geometric(generator(), t, arg_float(c, 1));
}

static void draw_below(cfx_op_call *c, cfx_tensor *t) { /* [0, argument 0) */
    cfx__random_from_to(generator(), t, 0, arg_int(c, 0));
}

static void draw_between(cfx_op_call *c, cfx_tensor *t) { /* [argument 0, argument 1) */
    cfx__random_from_to(generator(), t, arg_int(c, 0), arg_int(c, 1));
}

static void draw_like_below(cfx_op_call *c, cfx_tensor *t) { /* [0, argument 1) */
    const cfx_tensor *high = arg_tensor(c, 1);
    if (high && high->numel != 1) {
        op_fail(c, "high must be a scalar tensor and on CPU");
        return;
    }
    int64_t to = high ? cfx_integer(cfx__tensor_get(high, 0)) : arg_int(c, 1);
    cfx__random_from_to(generator(), t, 0, to);
}

static void draw_like_between(cfx_op_call *c, cfx_tensor *t) { /* [argument 1, argument 2) */
    if (arg_is_none(c, 2))
        cfx__random_from(generator(), t, arg_int(c, 1));
    else
        cfx__random_from_to(generator(), t, arg_int(c, 1), arg_int(c, 2));
}

static void draw_integers(cfx_op_call *c, cfx_tensor *t) {
    (void)c;
    cfx__random_integers(generator(), t);
}

static void draw_coins(cfx_op_call *c, cfx_tensor *t) {
    cfx__random_bernoulli(generator(), t, arg_float(c, 1));
}

/* ---- constructors ---------------------------------------------------------------------------- */

#define RANDOM(how, ...)                                                                           \
    .shape = shape_make, .kernel = kernel_draw, .effects = CFX_RANDOM,                             \
    .row = &(const random_row) {                                                                   \
        {__VA_ARGS__, WITH_NOTHING}, draw_##how                                                    \
    }

CFX_OP(rand) = {"aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
                "device=None, bool? pin_memory=None) -> Tensor",
                "torch.rand", RANDOM(unit, -1, 0, 1, -1), .out = "out"};
CFX_OP(rand_generator) = {
    "aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, RANDOM(unit, -1, 0, 2, -1), .out = "generator_out"};
CFX_OP(randn) = {"aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
                 "Device? device=None, bool? pin_memory=None) -> Tensor",
                 "torch.randn", RANDOM(gauss, -1, 0, 1, -1), .out = "out"};
CFX_OP(randn_generator) = {
    "aten::randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, RANDOM(gauss, -1, 0, 2, -1), .out = "generator_out"};
CFX_OP(randint) = {"aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? "
                   "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
                   "torch.randint", RANDOM(below, -1, 1, 2, -1), .out = "out"};
CFX_OP(randint_generator) = {
    "aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? "
    "dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, RANDOM(below, -1, 1, 3, -1), .out = "generator_out"};
CFX_OP(randint_low) = {
    "aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, RANDOM(between, -1, 2, 3, -1), .out = "low_out"};
CFX_OP(randint_low_generator) = {
    "aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, "
    "ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    NULL, RANDOM(between, -1, 2, 4, -1), .out = "low_generator_out"};
CFX_OP(normal_float_float) = {
    "aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
    "torch.normal", RANDOM(normal_first, -1, 2, 4, -1), .out = "float_float_out"};

CFX_OP(rand_like) = {
    "aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.rand_like", RANDOM(unit, 0, -1, 1, 5), NO_GRAD, .out = "out"};
CFX_OP(randn_like) = {
    "aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.randn_like", RANDOM(gauss, 0, -1, 1, 5), NO_GRAD, .out = "out"};
CFX_OP(randint_like) = {
    "aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    "torch.randint_like", RANDOM(like_below, 0, -1, 2, 6), NO_GRAD, .out = "out"};
CFX_OP(randint_like_low_dtype) = {
    "aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? "
    "memory_format=None) -> Tensor",
    NULL, RANDOM(like_between, 0, -1, 3, 7), NO_GRAD, .out = "low_dtype_out"};
CFX_OP(randint_like_Tensor) = {
    "aten::randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> "
    "Tensor",
    NULL, RANDOM(like_below, 0, -1, 2, 6), NO_GRAD, .out = "Tensor_out"};

CFX_OP(rand_like_generator) = {
    "aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? "
    "memory_format=None) -> Tensor",
    NULL, RANDOM(unit, 0, -1, 2, 6), NO_GRAD, .out = "generator_out"};
CFX_OP(randn_like_generator) = {
    "aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? "
    "memory_format=None) -> Tensor",
    NULL, RANDOM(gauss, 0, -1, 2, 6), NO_GRAD, .out = "generator_out"};
CFX_OP(randint_like_generator) = {
    "aten::randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? "
    "dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? "
    "memory_format=None) -> Tensor",
    NULL, RANDOM(like_below, 0, -1, 3, 7), NO_GRAD, .out = "generator_out"};
CFX_OP(randint_like_low_generator_dtype) = {
    "aten::randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? "
    "generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
    "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    NULL, RANDOM(like_between, 0, -1, 4, 8), NO_GRAD, .out = "low_generator_dtype_out"};
CFX_OP(randint_like_Tensor_generator) = {
    "aten::randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
    "MemoryFormat? memory_format=None) -> Tensor",
    NULL, RANDOM(like_below, 0, -1, 3, 7), NO_GRAD, .out = "Tensor_generator_out"};

/* ---- in place and their twins ---------------------------------------------------------------- */

#define DRAW(how)                                                                                  \
    .shape = shape_draw_like, .kernel = kernel_draw, .effects = CFX_RANDOM,                        \
    .row = &(const random_row) {                                                                   \
        .draw = draw_##how                                                                         \
    }
#define DRAW_(how)                                                                                 \
    .shape = shape_draw_inplace, .kernel = kernel_draw, .effects = CFX_RANDOM,                     \
    .row = &(const random_row) {                                                                   \
        .draw = draw_##how                                                                         \
    }

CFX_OP(uniform) = {"aten::uniform(Tensor self, float from=0., float to=1., *, Generator? "
                   "generator=None) -> Tensor",
                   NULL, DRAW(uniform), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(uniform_) = {"aten::uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? "
                    "generator=None) -> Tensor(a!)",
                    "Tensor.uniform_", DRAW_(uniform)};
CFX_OP(normal_functional) = {"aten::normal_functional(Tensor self, float mean=0., float std=1., *, "
                             "Generator? generator=None) -> Tensor",
                             NULL, DRAW(normal), NO_GRAD};
CFX_OP(normal_) = {"aten::normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? "
                   "generator=None) -> Tensor(a!)",
                   "Tensor.normal_", DRAW_(normal)};
CFX_OP(log_normal) = {"aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? "
                      "generator=None) -> Tensor",
                      NULL, DRAW(log_normal), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(log_normal_) = {"aten::log_normal_(Tensor(a!) self, float mean=1., float std=2., *, "
                       "Generator? generator=None) -> Tensor(a!)",
                       "Tensor.log_normal_", DRAW_(log_normal)};
CFX_OP(cauchy) = {"aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? "
                  "generator=None) -> Tensor",
                  NULL, DRAW(cauchy), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(cauchy_) = {"aten::cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? "
                   "generator=None) -> Tensor(a!)",
                   "Tensor.cauchy_", DRAW_(cauchy)};
CFX_OP(exponential) = {
    "aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor", NULL,
    DRAW(exponential), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(exponential_) = {"aten::exponential_(Tensor(a!) self, float lambd=1., *, Generator? "
                        "generator=None) -> Tensor(a!)",
                        "Tensor.exponential_", DRAW_(exponential)};
CFX_OP(geometric) = {
    "aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", NULL,
    DRAW(geometric), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(geometric_) = {
    "aten::geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
    "Tensor.geometric_", DRAW_(geometric)};
CFX_OP(random) = {"aten::random(Tensor self, *, Generator? generator=None) -> Tensor", NULL,
                  DRAW(integers), NO_GRAD, .inplace = "default", .out = "out"};
CFX_OP(random_from) = {
    "aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
    NULL, DRAW(like_between), NO_GRAD, .inplace = "from", .out = "from_out"};
CFX_OP(random_to) = {"aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor",
                     NULL, DRAW(like_below), NO_GRAD, .inplace = "to", .out = "to_out"};
CFX_OP(random_) = {"aten::random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
                   "Tensor.random_", DRAW_(integers)};
CFX_OP(random__from) = {"aten::random_.from(Tensor(a!) self, int from, int? to, *, Generator? "
                        "generator=None) -> Tensor(a!)",
                        NULL, DRAW_(like_between)};
CFX_OP(random__to) = {
    "aten::random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)", NULL,
    DRAW_(like_below)};

/* ---- coins ----------------------------------------------------------------------------------- */

static void shape_coins(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    out_empty_like(c, t->dtype, CFX_CONTIGUOUS, t);
}

/* One probability an element: p broadcasts to the shape of t. */
static void toss_each(cfx_op_call *c, cfx_tensor *t, const cfx_tensor *p) {
    if (!cfx__dtype_is_float(p->dtype)) {
        op_fail(c, "bernoulli_tensor_cpu_p_ not implemented for '%s'", cfx__dtype_title(p->dtype));
        return;
    }
    p = expanded(c, p, t->ndim, t->shape);
    if (!op_failed())
        cfx__random_bernoulli_each(generator(), t, p);
}

static void kernel_bernoulli(cfx_op_call *c) { toss_each(c, c->out[0], arg_tensor(c, 0)); }
static void draw_coins_each(cfx_op_call *c, cfx_tensor *t) { toss_each(c, t, arg_tensor(c, 1)); }

CFX_OP(bernoulli) = {"aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
                     "torch.bernoulli Tensor.bernoulli", .shape = shape_coins,
                     .kernel = kernel_bernoulli, .effects = CFX_RANDOM, NO_GRAD, .out = "out"};
CFX_OP(bernoulli_p) = {
    "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    NULL,
    .shape = shape_coins,
    .kernel = kernel_draw,
    .effects = CFX_RANDOM,
    .row = &(const random_row){.draw = draw_coins}, NO_GRAD,
    .inplace = "float",
    .out = "aten::bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, "
    "Tensor(a!) out) -> Tensor(a!)"};
CFX_OP(bernoulli_Tensor) = {
    "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", NULL,
    DRAW(coins_each), NO_GRAD, .inplace = "Tensor", .out = "Tensor_out"};
CFX_OP(bernoulli__float) = {"aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? "
                            "generator=None) -> Tensor(a!)",
                            "Tensor.bernoulli_", DRAW_(coins)};
CFX_OP(bernoulli__Tensor) = {
    "aten::bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> "
    "Tensor(a!)",
    NULL, DRAW_(coins_each)};

/* ---- normal with tensors for mean and deviation ---------------------------------------------- */

static void decompose_normal_mean(cfx_op_call *c) {
    cfx_tensor *mean = arg_tensor(c, 0);
    cfx_tensor *t = cfx_empty_like(mean, CFX_KW(memory_format, cfx_contiguous_format));
    c->out[0] = cfx_add(cfx_normal_functional(t, 0.0, c->args[1]), mean);
}

/* Whether all deviations are >= 0, as far as there are numbers to look at. */
static bool deviations_fit(cfx_op_call *c, cfx_tensor *std) {
    if (cfx__dtype_is_complex(std->dtype))
        op_fail(c, "normal expects standard deviation to be non-complex");
    else if (std->data && std->numel && !(cfx__tensor_number(cfx_min(std), 0) >= 0))
        op_fail(c, "normal expects all elements of std >= 0.0");
    return !op_failed();
}

static void decompose_normal_std(cfx_op_call *c) {
    cfx_tensor *std = arg_tensor(c, 1);
    if (!deviations_fit(c, std))
        return;
    cfx_tensor *t = cfx_empty_like(std, CFX_KW(memory_format, cfx_contiguous_format));
    c->out[0] = cfx_add(cfx_mul(cfx_normal_functional(t), std), c->args[0]);
}

static void decompose_normal_both(cfx_op_call *c) {
    cfx_tensor *mean = arg_tensor(c, 0), *std = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    int n = mean->ndim;
    memcpy(shape, mean->shape, (size_t)n * sizeof *shape);
    if (!deviations_fit(c, std) || !cfx__shape_broadcast(c->at, &n, shape, std->ndim, std->shape))
        return;
    cfx_tensor *t = cfx_new_empty(mean, cfx_ints_value(n, shape));
    c->out[0] = cfx_add(cfx_mul(cfx_normal_functional(t), std), mean);
}

CFX_OP(normal_Tensor_float) = {"aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? "
                               "generator=None) -> Tensor",
                               NULL, .decompose = decompose_normal_mean, .effects = CFX_RANDOM,
                               .out = "Tensor_float_out"};
CFX_OP(normal_float_Tensor) = {
    "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    NULL, .decompose = decompose_normal_std, .effects = CFX_RANDOM, .out = "float_Tensor_out"};
CFX_OP(normal_Tensor_Tensor) = {
    "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    NULL, .decompose = decompose_normal_both, .effects = CFX_RANDOM, .out = "Tensor_Tensor_out"};

/* ---- permutations and samples ---------------------------------------------------------------- */

static void make_permutation(cfx_op_call *c, int options) {
    int64_t n = arg_int(c, 0);
    cfx_dtype d = arg_dtype(c, options, CFX_I64);
    if (n < 0)
        op_fail(c, "n must be non-negative, got%lld", (long long)n);
    else if (cfx__dtype_is_complex(d) || d == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"randperm\" not implemented for '%s'",
                   cfx__dtype_title(d));
    else if (options_fit(c, options + 1, options + 2, options + 3))
        out_new(c, 0, d, 1, &n);
}

static void shape_randperm(cfx_op_call *c) { make_permutation(c, 1); }
static void shape_randperm_generator(cfx_op_call *c) { make_permutation(c, 2); }
static void kernel_randperm(cfx_op_call *c) { cfx__random_permutation(generator(), c->out[0]); }

static void shape_multinomial(cfx_op_call *c) {
    const cfx_tensor *p = arg_tensor(c, 0);
    int64_t n = arg_int(c, 1), classes = p->ndim ? p->shape[p->ndim - 1] : 0;
    if (p->ndim < 1 || p->ndim > 2)
        op_fail(c, "prob_dist must be 1 or 2 dim");
    else if (!cfx__dtype_is_float(p->dtype))
        op_fail(c, "multinomial only supports floating-point dtypes for input, got: %s",
                cfx__dtype_title(p->dtype));
    else if (n <= 0)
        op_fail(c, "cannot sample n_sample <= 0 samples");
    else if (!arg_bool(c, 2) && n > classes)
        op_fail(c, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    else if (classes > (int64_t)1 << 24)
        op_fail(c, "number of categories cannot exceed 2^24");
    else if (p->ndim == 1)
        out_new(c, 0, CFX_I64, 1, &n);
    else
        out_new(c, 0, CFX_I64, 2, (int64_t[]){p->shape[0], n});
}

static void kernel_multinomial(cfx_op_call *c) {
    if (c->out[0]->numel)
        cfx__random_multinomial(generator(), c->out[0], arg_tensor(c, 0), arg_bool(c, 2));
}

CFX_OP(randperm) = {"aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? "
                    "device=None, bool? pin_memory=None) -> Tensor",
                    "torch.randperm", .shape = shape_randperm, .kernel = kernel_randperm,
                    .effects = CFX_RANDOM, .out = "out"};
CFX_OP(randperm_generator) = {
    "aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? "
    "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    NULL, .shape = shape_randperm_generator, .kernel = kernel_randperm, .effects = CFX_RANDOM,
    .out = "generator_out"};
CFX_OP(multinomial) = {"aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, "
                       "*, Generator? generator=None) -> Tensor",
                       "torch.multinomial Tensor.multinomial", .shape = shape_multinomial,
                       .kernel = kernel_multinomial, .effects = CFX_RANDOM, NO_GRAD, .out = "out"};
