/* Schedules of the learning rate. Each is one row: what becomes of the rate of a group when the
 * next epoch begins, in the recursive form that PyTorch uses, so that schedules can be combined. */
#include "optim.h"

#include <math.h>

/* What a rule sees of a group. */
typedef struct turn {
    cfx_schedule *s;
    double lr, first; /* the rate now, and the one the schedule started from */
    cfx_optim_options *group;
} turn;

typedef struct rule {
    const char *name;
    double (*next)(const turn *t);
    cfx_schedule_options defaults;
} rule;

struct cfx_schedule {
    cfx_obj head;
    const rule *rule;
    cfx_optim *optim; /* counted */
    cfx_schedule_options o;
    double a, b;
    int64_t epoch;
    double best; /* a plateau's */
    int64_t bad, cooling;
};

/* ---- the rules --------------------------------------------------------------------------------
 */

static double step_rule(const turn *t) {
    int64_t e = t->s->epoch, size = (int64_t)t->s->a;
    return e == 0 || e % size ? t->lr : t->lr * t->s->o.gamma;
}

static double multi_step_rule(const turn *t) {
    double lr = t->lr;
    for (int i = 0; i < COUNT(t->s->o.milestones) && t->s->o.milestones[i]; i++)
        if (t->s->o.milestones[i] == t->s->epoch)
            lr *= t->s->o.gamma;
    return lr;
}

static double exponential_rule(const turn *t) { return t->s->epoch == 0 ? t->lr : t->lr * t->s->a; }

static double cosine_rule(const turn *t) {
    int64_t e = t->s->epoch, top = (int64_t)t->s->a;
    double least = t->s->o.eta_min, turns = M_PI / (double)top;
    if (e == 0)
        return t->lr;
    if ((e - 1 - top) % (2 * top) == 0)
        return t->lr + (t->first - least) * (1 - cos(turns)) / 2;
    return (1 + cos(turns * (double)e)) / (1 + cos(turns * (double)(e - 1))) * (t->lr - least) +
           least;
}

static double linear_rule(const turn *t) {
    int64_t e = t->s->epoch, n = t->s->o.total_iters;
    double from = t->s->o.start_factor, by = t->s->o.end_factor - from;
    if (e == 0)
        return t->lr * from;
    return e > n ? t->lr : t->lr * (1 + by / ((double)n * from + (double)(e - 1) * by));
}

static double constant_rule(const turn *t) {
    int64_t e = t->s->epoch;
    return e == 0                     ? t->lr * t->s->o.factor
           : e == t->s->o.total_iters ? t->lr * (1 / t->s->o.factor)
                                      : t->lr;
}

static double polynomial_rule(const turn *t) {
    double e = (double)t->s->epoch, n = (double)t->s->o.total_iters;
    if (e == 0 || e > n)
        return t->lr;
    return t->lr * pow((1 - e / n) / (1 - (e - 1) / n), t->s->o.power);
}

static double lambda_rule(const turn *t) {
    return t->first * (t->s->o.lambda ? t->s->o.lambda(t->s->epoch, t->s->o.user) : 1);
}

/* From a to b as `share` goes from 0 to 1. */
static double anneal(const cfx_schedule *s, double a, double b, double share) {
    return s->o.linear ? (b - a) * share + a : b + (a - b) / 2 * (cos(M_PI * share) + 1);
}

/* Up to the largest rate, down to the first one or the least, and down to the least; momentum goes
 * the other way. */
static double one_cycle_rule(const turn *t) {
    const cfx_schedule *s = t->s;
    double first = s->a / s->o.div_factor, least = first / s->o.final_div_factor, total = s->b;
    double up = s->o.pct_start * total - 1, rates[] = {first, s->a, first, least};
    double ends[] = {up, 2 * s->o.pct_start * total - 2, total - 1};
    double momenta[] = {s->o.max_momentum, s->o.base_momentum, s->o.max_momentum,
                        s->o.max_momentum};
    int phases = s->o.three_phase ? 3 : 2, i = 0;
    if (phases == 2) {
        ends[1] = total - 1;
        rates[2] = least;
    }
    double e = (double)s->epoch, start = 0;
    while (i < phases - 1 && e > ends[i])
        start = ends[i++];
    double share = (e - start) / (ends[i] - start);
    if (!s->o.no_cycle_momentum) {
        double m = anneal(s, momenta[i], momenta[i + 1], share);
        *(t->group->betas[0] != 0 ? &t->group->betas[0] : &t->group->momentum) = m;
    }
    return anneal(s, rates[i], rates[i + 1], share);
}

static double plateau_rule(const turn *t) {
    double lr = t->lr * t->s->o.factor;
    lr = lr > t->s->o.min_lr ? lr : t->s->o.min_lr;
    return t->lr - lr > t->s->o.eps ? lr : t->lr;
}

static const rule rules[] = {
    {"StepLR", step_rule, {.gamma = 0.1}},
    {"MultiStepLR", multi_step_rule, {.gamma = 0.1}},
    {"ExponentialLR", exponential_rule, {.gamma = 0}},
    {"CosineAnnealingLR", cosine_rule, {.gamma = 0}},
    {"LinearLR", linear_rule, {.start_factor = 1.0 / 3, .end_factor = 1, .total_iters = 5}},
    {"ConstantLR", constant_rule, {.factor = 1.0 / 3, .total_iters = 5}},
    {"PolynomialLR", polynomial_rule, {.total_iters = 5, .power = 1}},
    {"OneCycleLR",
     one_cycle_rule,
     {.pct_start = 0.3,
      .div_factor = 25,
      .final_div_factor = 1e4,
      .base_momentum = 0.85,
      .max_momentum = 0.95}},
    {"LambdaLR", lambda_rule, {.gamma = 0}},
    {"ReduceLROnPlateau",
     plateau_rule,
     {.factor = 0.1, .patience = 10, .threshold = 1e-4, .eps = 1e-8}},
};

/* ---- make -------------------------------------------------------------------------------------
 */

static void schedule_free(void *p) { cfx_drop(((cfx_schedule *)p)->optim); }

static const cfx__obj_type schedule_type = {.name = "schedule", .free = schedule_free};

/* Zero is the default, CFX_ZERO zero. */
static void fill_in(cfx_schedule_options *o, const cfx_schedule_options *defaults) {
    enum { NUMBERS = offsetof(cfx_schedule_options, total_iters) / sizeof(double) };
    double *to = (double *)o;
    const double *from = (const double *)defaults;
    for (int i = 0; i < NUMBERS; i++)
        to[i] = to[i] == (double)CFX_ZERO ? 0 : to[i] == 0 ? from[i] : to[i];
    int64_t *n[] = {&o->total_iters, &o->patience, &o->cooldown};
    const int64_t d[] = {defaults->total_iters, defaults->patience, defaults->cooldown};
    for (int i = 0; i < COUNT(n); i++)
        *n[i] = *n[i] == CFX_ZERO ? 0 : *n[i] == 0 ? d[i] : *n[i];
}

static void apply(cfx_schedule *s) {
    for (size_t g = 0; g < s->optim->groups.len; g++) {
        cfx__optim_group *group = &s->optim->groups.data[g];
        turn t = {s, group->options.lr, group->initial_lr, &group->options};
        group->options.lr = s->rule->next(&t);
    }
}

static bool numbers_fit(cfx_site at, const cfx_schedule *s) {
    const char *name = s->rule->name;
    if ((s->rule->next == step_rule || s->rule->next == cosine_rule) && s->a < 1)
        cfx_fail(CFX_VALUE_ERROR, at, "%s: %s must be a positive number, not %g", name,
                 s->rule->next == step_rule ? "step_size" : "T_max", s->a);
    else if (s->rule->next == linear_rule && (s->o.start_factor > 1 || s->o.start_factor <= 0))
        cfx_fail(CFX_VALUE_ERROR, at,
                 "Starting multiplicative factor expected to be greater than 0 and less or equal "
                 "to 1.");
    else if (s->rule->next == plateau_rule && s->o.factor >= 1)
        cfx_fail(CFX_VALUE_ERROR, at, "Factor should be < 1.0.");
    else if (s->rule->next == one_cycle_rule && s->b <= 0)
        cfx_fail(CFX_VALUE_ERROR, at, "Expected positive integer total_steps, but got %g", s->b);
    else if (s->rule->next == one_cycle_rule && (s->o.pct_start < 0 || s->o.pct_start > 1))
        cfx_fail(CFX_VALUE_ERROR, at, "Expected float between 0 and 1 pct_start, but got %g",
                 s->o.pct_start);
    else
        return true;
    return false;
}

cfx_schedule *cfx_schedule_new_from(cfx_site at, const char *type, cfx_optim *o, double a, double b,
                                    cfx_schedule_options options) {
    const rule *r = NULL;
    for (int i = 0; i < COUNT(rules); i++)
        if (type && !strcmp(rules[i].name, type))
            r = &rules[i];
    if (!r || !o) {
        cfx_fail(CFX_TYPE_ERROR, at,
                 r ? "NoneType is not an Optimizer" : "no schedule is called %s",
                 type ? type : "None");
        return NULL;
    }
    cfx_schedule *s = cfx__obj_new(&schedule_type, sizeof *s);
    s->rule = r;
    s->optim = cfx_keep(o);
    s->o = options;
    fill_in(&s->o, &r->defaults);
    s->a = a;
    s->b = b;
    s->best = s->o.maximum ? -INFINITY : INFINITY;
    if (!numbers_fit(at, s))
        return NULL;
    for (size_t g = 0; g < o->groups.len; g++)
        o->groups.data[g].initial_lr =
            r->next == one_cycle_rule ? a / s->o.div_factor : o->groups.data[g].options.lr;
    if (r->next != plateau_rule)
        apply(s);
    return s;
}

/* ---- step -------------------------------------------------------------------------------------
 */

void cfx_schedule_step(cfx_schedule *s) {
    if (!s)
        return;
    if (s->rule->next == plateau_rule) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "ReduceLROnPlateau.step() missing 1 required positional argument: 'metrics'");
        return;
    }
    s->epoch++;
    if (s->rule->next == one_cycle_rule && (double)s->epoch >= s->b) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Tried to step %lld times. The specified number of total steps is %lld",
                 (long long)s->epoch, (long long)s->b);
        return;
    }
    apply(s);
}

static bool is_better(const cfx_schedule *s, double m) {
    double by = s->o.threshold;
    if (s->o.maximum)
        return s->o.absolute ? m > s->best + by : m > s->best * (1 + by);
    return s->o.absolute ? m < s->best - by : m < s->best * (1 - by);
}

void cfx_schedule_step_on(cfx_schedule *s, double measure) {
    if (!s)
        return;
    if (s->rule->next != plateau_rule) {
        cfx_schedule_step(s);
        return;
    }
    s->epoch++;
    bool better = is_better(s, measure);
    s->best = better ? measure : s->best;
    s->bad = better ? 0 : s->bad + 1;
    if (s->cooling > 0) {
        s->cooling--;
        s->bad = 0;
    }
    if (s->bad > s->o.patience) {
        apply(s);
        s->cooling = s->o.cooldown;
        s->bad = 0;
    }
}

/* ---- state ------------------------------------------------------------------------------------
 */

cfx_dict *cfx_schedule_state_dict(const cfx_schedule *s) {
    cfx_dict *d = cfx_dict_new();
    if (!s)
        return d;
    cfx_dict_set(d, "last_epoch", cfx_int(s->epoch));
    if (s->rule->next == plateau_rule) {
        cfx_dict_set(d, "best", cfx_float(s->best));
        cfx_dict_set(d, "num_bad_epochs", cfx_int(s->bad));
        cfx_dict_set(d, "cooldown_counter", cfx_int(s->cooling));
    }
    return d;
}

bool cfx_schedule_load_state_dict(cfx_schedule *s, const cfx_dict *d) {
    if (!s || !cfx_is_number(cfx_dict_get(d, "last_epoch"))) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "this is not the state dict of a schedule");
        return false;
    }
    s->epoch = cfx_integer(cfx_dict_get(d, "last_epoch"));
    if (s->rule->next == plateau_rule) {
        s->best = cfx_number(cfx_dict_get(d, "best"));
        s->bad = cfx_integer(cfx_dict_get(d, "num_bad_epochs"));
        s->cooling = cfx_integer(cfx_dict_get(d, "cooldown_counter"));
    }
    return true;
}
