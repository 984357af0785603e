/* Optimisers: which tensors they change, what they remember of each, and how that is saved. The
 * rules themselves are in optim_rules.c. Start at cfx_optim_step. */
#include <cfx/ops.h>
#include <math.h>

#include "../value/later.h"
#include "optim.h"

/* ---- options ----------------------------------------------------------------------------------
 */

/* The numbers among the options by name; betas are two. */
static const struct number {
    const char *name;
    size_t at;
} numbers[] =
    {
#define NUMBER(name)                                                                               \
    { #name, offsetof(cfx_optim_options, name) }
        NUMBER(lr),           NUMBER(momentum), NUMBER(dampening),
        NUMBER(weight_decay), NUMBER(eps),      NUMBER(alpha),
        NUMBER(rho),          NUMBER(lr_decay), NUMBER(initial_accumulator_value),
},
  flags[] = {NUMBER(nesterov), NUMBER(amsgrad), NUMBER(centered), NUMBER(maximize)};

static double *number_of(cfx_optim_options *o, int i) {
    return (double *)((char *)o + numbers[i].at);
}

static bool *flag_of(cfx_optim_options *o, int i) { return (bool *)((char *)o + flags[i].at); }

static void take_number(double *to, double given, double otherwise) {
    *to = given == (double)CFX_ZERO ? 0 : given == 0 ? otherwise : given;
}

/* What was left out becomes the default. */
static void fill_in(cfx_optim_options *o, cfx_optim_options defaults) {
    for (int i = 0; i < COUNT(numbers); i++)
        take_number(number_of(o, i), *number_of(o, i), *number_of(&defaults, i));
    for (int i = 0; i < 2; i++)
        take_number(&o->betas[i], o->betas[i], defaults.betas[i]);
    for (int i = 0; i < COUNT(flags); i++)
        *flag_of(o, i) |= *flag_of(&defaults, i);
}

static bool refuse(cfx_site at, const char *what, double value) {
    cfx_fail(CFX_VALUE_ERROR, at, "Invalid %s: %s", what, cfx_value_repr(cfx_float(value)));
    return false;
}

static bool options_fit(cfx_site at, const cfx_optim_options *o) {
    if (!(o->lr >= 0))
        return refuse(at, "learning rate", o->lr);
    if (!(o->eps >= 0))
        return refuse(at, "epsilon value", o->eps);
    for (int i = 0; i < 2; i++)
        if (!(o->betas[i] >= 0 && o->betas[i] < 1))
            return refuse(at, i ? "beta parameter at index 1" : "beta parameter at index 0",
                          o->betas[i]);
    if (!(o->momentum >= 0))
        return refuse(at, "momentum value", o->momentum);
    if (!(o->weight_decay >= 0))
        return refuse(at, "weight_decay value", o->weight_decay);
    if (!(o->alpha >= 0))
        return refuse(at, "alpha value", o->alpha);
    if (!(o->rho >= 0 && o->rho <= 1))
        return refuse(at, "rho value", o->rho);
    if (o->nesterov && (o->momentum <= 0 || o->dampening != 0)) {
        cfx_fail(CFX_VALUE_ERROR, at, "Nesterov momentum requires a momentum and zero dampening");
        return false;
    }
    return true;
}

/* A group's own options over those of all groups. */
static void read_options(cfx_optim_options *o, const cfx_dict *d) {
    for (int i = 0; i < COUNT(numbers); i++) {
        const cfx_value *v = cfx_dict_find(d, cfx_string_value(numbers[i].name));
        if (v && cfx_is_number(*v))
            *number_of(o, i) = cfx_number(*v);
    }
    for (int i = 0; i < COUNT(flags); i++) {
        const cfx_value *v = cfx_dict_find(d, cfx_string_value(flags[i].name));
        if (v)
            *flag_of(o, i) = cfx_integer(*v) != 0;
    }
    cfx_value betas = cfx_dict_get(d, "betas");
    if ((betas.tag == CFX_TAG_TUPLE || betas.tag == CFX_TAG_LIST) && cfx_as_list(betas)->len == 2)
        for (int i = 0; i < 2; i++)
            o->betas[i] = cfx_number(cfx_as_list(betas)->items[i]);
}

/* ---- parameters -------------------------------------------------------------------------------
 */

static bool add_param(cfx_site at, cfx_list *out, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_list_append(out, v);
    else
        cfx_fail(CFX_TYPE_ERROR, at,
                 "optimizer can only optimize Tensors, but one of the params is %s",
                 cfx__value_python_type(v));
    return v.tag == CFX_TAG_TENSOR;
}

/* The tensors that `params` stands for, in order, as a list; scope. NULL after an error. */
static cfx_list *params_of(cfx_site at, cfx_value params) {
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    bool good = true;
    if (params.tag == CFX_TAG_MODULE)
        params = cfx_dict_value(cfx_module_named_parameters(cfx_as_module(params)));
    if (params.tag == CFX_TAG_DICT)
        for (int64_t i = 0; good && i < cfx_as_dict(params)->len; i++)
            good = add_param(at, out, cfx_as_dict(params)->entries[i].value);
    else if (params.tag == CFX_TAG_LIST || params.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; good && i < cfx_as_list(params)->len; i++)
            good = add_param(at, out, cfx_as_list(params)->items[i]);
    else
        good = add_param(at, out, params);
    return good ? out : NULL;
}

static void optim_free(void *p) {
    cfx_optim *o = p;
    for (size_t g = 0; g < o->groups.len; g++) {
        cfx__optim_group *group = &o->groups.data[g];
        for (size_t i = 0; i < group->params.len; i++) {
            cfx_drop(group->params.data[i].tensor);
            for (int s = 0; s < CFX__MOMENTS; s++)
                cfx_drop(group->params.data[i].state[s]);
        }
        VEC_FREE(group->params);
    }
    VEC_FREE(o->groups);
}

static const cfx__obj_type optim_type = {.name = "optimiser", .free = optim_free};

static bool has_param(const cfx_optim *o, const cfx_tensor *t) {
    for (size_t g = 0; g + 1 < o->groups.len; g++)
        for (size_t i = 0; i < o->groups.data[g].params.len; i++)
            if (o->groups.data[g].params.data[i].tensor == t)
                return true;
    return false;
}

/* One group: `params` as the caller gave them, with options filled in already. */
static bool add_group(cfx_site at, cfx_optim *o, cfx_value params, cfx_optim_options options) {
    cfx_list *list = params_of(at, params);
    if (!list || !options_fit(at, &options))
        return false;
    cfx__optim_group group = {.options = options, .initial_lr = options.lr};
    VEC_PUSH(o->groups, group);
    cfx__optim_group *g = &o->groups.data[o->groups.len - 1];
    for (int64_t i = 0; i < list->len; i++) {
        cfx_tensor *t = cfx_as_tensor(list->items[i]);
        if (!cfx_tensor_is_leaf(t)) {
            cfx_fail(CFX_VALUE_ERROR, at, "can't optimize a non-leaf Tensor");
            return false;
        }
        if (!cfx__dtype_is_float(t->dtype)) {
            cfx_fail(CFX_TYPE_ERROR, at, "parameters of dtype torch.%s cannot be optimised",
                     cfx_dtype_name(t->dtype));
            return false;
        }
        if (has_param(o, t)) {
            cfx_fail(CFX_VALUE_ERROR, at,
                     "some parameters appear in more than one parameter group");
            return false;
        }
        VEC_PUSH(g->params, ((cfx__optim_param){.tensor = cfx_keep(t)}));
    }
    return true;
}

static const cfx__optim_algorithm *find_algorithm(const char *type) {
    for (const cfx__optim_algorithm *a = cfx__optim_algorithms; a->name; a++)
        if (type && !strcmp(a->name, type))
            return a;
    return NULL;
}

cfx_optim *cfx_optim_new_from(cfx_site at, const char *type, cfx_value params,
                              cfx_optim_options options) {
    const cfx__optim_algorithm *a = find_algorithm(type);
    if (!a) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "module 'torch.optim' has no attribute '%s'",
                 type ? type : "None");
        return NULL;
    }
    size_t mark = cfx_scope_open();
    cfx_optim *o = cfx__obj_new(&optim_type, sizeof *o);
    o->algorithm = a;
    fill_in(&options, a->defaults);
    bool list = params.tag == CFX_TAG_LIST || params.tag == CFX_TAG_TUPLE, good = true;
    if (list && cfx_as_list(params)->len && cfx_as_list(params)->items[0].tag == CFX_TAG_DICT)
        for (int64_t i = 0; good && i < cfx_as_list(params)->len; i++) {
            cfx_value group = cfx_as_list(params)->items[i];
            cfx_optim_options own = options;
            if (group.tag == CFX_TAG_DICT)
                read_options(&own, cfx_as_dict(group));
            good = group.tag == CFX_TAG_DICT &&
                   add_group(at, o, cfx_dict_get(cfx_as_dict(group), "params"), own);
        }
    else
        good = add_group(at, o, params, options);
    if (good && !(o->groups.len && o->groups.data[0].params.len)) {
        cfx_fail(CFX_VALUE_ERROR, at, "optimizer got an empty parameter list");
        good = false;
    }
    o = cfx_scope_return(mark, o);
    return good ? o : NULL;
}

/* ---- step -------------------------------------------------------------------------------------
 */

static void run_range(void *arg, int64_t begin, int64_t end) {
    const cfx__optim_work *w = arg;
    size_t at = (size_t)begin * (size_t)cfx_dtype_size(w->p->dtype);
    char *s[CFX__MOMENTS];
    for (int i = 0; i < CFX__MOMENTS; i++)
        s[i] = w->s[i] ? w->s[i]->data + at : NULL;
    if (w->p->dtype == CFX_F32)
        w->a->f32((float *)(w->p->data + at), (const float *)(w->g->data + at), (float **)s,
                  end - begin, &w->k);
    else
        w->a->f64((double *)(w->p->data + at), (const double *)(w->g->data + at), (double **)s,
                  end - begin, &w->k);
}

/* Memory for a state tensor, on the parameter's device. Halves have their state in float32.
 * Counted; the bad tensor, with an error. */
static cfx_tensor *new_state(const cfx_tensor *p) {
    const int outer = cfx__ctx()->card;
    cfx__ctx()->card = cfx__device_card(p->storage->device);
    const cfx_dtype as = p->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    cfx_tensor *t = cfx_tensor_new(as, p->ndim, p->shape, NULL);
    cfx__ctx()->card = outer;
    return cfx_keep(t);
}

/* The state of a parameter, made before its first step. */
static void make_state(const cfx_optim *o, const cfx__optim_group *g, cfx__optim_param *p) {
    uint32_t needs = o->algorithm->needs(&g->options);
    for (int i = 0; i < CFX__MOMENTS; i++) {
        if (!(needs >> i & 1) || p->state[i])
            continue;
        p->state[i] = new_state(p->tensor);
        if (!cfx__obj_is_bad(p->state[i]))
            cfx__tensor_fill(p->state[i], cfx_float(g->options.initial_accumulator_value));
    }
}

/* Whether parameter, gradient and state lie on one card, contiguous: its kernel takes the step. */
static bool is_on_card(const cfx__optim_work *w) {
    const int card = cfx__device_card(w->p->storage->device);
    bool there = card && cfx_tensor_is_contiguous(w->p) && cfx_tensor_is_contiguous(w->g) &&
                 w->g->dtype == w->p->dtype && cfx__device_card(w->g->storage->device) == card;
    for (int i = 0; there && i < CFX__MOMENTS; i++)
        there = !w->s[i] || cfx__device_card(w->s[i]->storage->device) == card;
    return there;
}

static void step_on_host(cfx__optim_work *w) {
    cfx_tensor *own = w->p;
    const cfx_dtype as = own->dtype == CFX_F64 ? CFX_F64 : CFX_F32;
    if (own->dtype != as || !cfx_tensor_is_contiguous(own))
        w->p = cfx__tensor_contiguous_as(own, as);
    w->g = cfx__tensor_contiguous_as((cfx_tensor *)w->g, as);
    if (cfx_ok())
        cfx__parallel(own->numel, 16384, run_range, w);
    if (w->p != own)
        cfx__tensor_copy(own, w->p);
}

/* What a parameter's step is, counted as done; false where it has none. */
static bool begin_step(const cfx_optim *o, const cfx__optim_group *g, cfx__optim_param *p,
                       cfx__optim_work *w) {
    const cfx_tensor *grad = cfx_tensor_grad(p->tensor);
    if (!grad || !p->tensor->data || !grad->data)
        return false;
    make_state(o, g, p);
    p->steps++;
    p->tensor->storage->version++;
    *w = (cfx__optim_work){.a = o->algorithm, .p = p->tensor, .g = grad};
    w->k = (cfx__optim_step){.o = g->options, .k = p->steps};
    for (int i = 0; i < 2; i++)
        w->k.correct[i] = 1 - pow(g->options.betas[i], (double)p->steps);
    memcpy(w->s, p->state, sizeof w->s);
    return cfx_ok();
}

/* Steps on cards are launched together, and waited for once. */
void cfx_optim_step(cfx_optim *o) {
    size_t mark = cfx_scope_open();
    VEC(cfx__optim_work) on_cards = {0};
    cfx__optim_work w;
    for (size_t g = 0; o && g < o->groups.len; g++)
        for (size_t i = 0; i < o->groups.data[g].params.len; i++) {
            size_t inner = cfx_scope_open();
            if (begin_step(o, &o->groups.data[g], &o->groups.data[g].params.data[i], &w)) {
                if (is_on_card(&w))
                    VEC_PUSH(on_cards, w);
                else
                    step_on_host(&w);
            }
            cfx_scope_close(inner);
        }
    if (on_cards.len && cfx_ok())
        cfx__later_rooms.card_steps(on_cards.data, (int)on_cards.len);
    VEC_FREE(on_cards);
    cfx_scope_close(mark);
}

void cfx_optim_zero_grad(cfx_optim *o) {
    for (size_t g = 0; o && g < o->groups.len; g++)
        for (size_t i = 0; i < o->groups.data[g].params.len; i++)
            cfx_tensor_set_grad(o->groups.data[g].params.data[i].tensor, NULL);
}

int cfx_optim_groups(const cfx_optim *o) { return o ? (int)o->groups.len : 0; }

cfx_optim_options *cfx_optim_group(cfx_optim *o, int i) {
    return i >= 0 && i < cfx_optim_groups(o) ? &o->groups.data[i].options : NULL;
}

double cfx_optim_lr(const cfx_optim *o) {
    return cfx_optim_groups(o) ? o->groups.data[0].options.lr : 0;
}

/* ---- state ------------------------------------------------------------------------------------
 */

static cfx_dict *param_dict(const cfx_optim *o, const cfx__optim_param *p) {
    cfx_dict *d = cfx_dict_new();
    if (o->algorithm->counts)
        cfx_dict_set(d, "step",
                     cfx_tensor_value(cfx_tensor_new(CFX_F32, 0, NULL, &(float){(float)p->steps})));
    for (int i = 0; i < CFX__MOMENTS; i++)
        if (p->state[i])
            cfx_dict_set(d, o->algorithm->state[i], cfx_tensor_value(p->state[i]));
    return d;
}

/* The options that the algorithm has: those it has a default for or that are set. */
static cfx_dict *group_dict(const cfx__optim_group *g, int64_t first) {
    cfx_dict *d = cfx_dict_new();
    cfx_optim_options o = g->options;
    cfx_value params = cfx_list_value(0, NULL);
    for (int i = 0; i < COUNT(numbers); i++)
        cfx_dict_set(d, numbers[i].name, cfx_float(*number_of(&o, i)));
    cfx_dict_set(d, "betas", cfx_tuple(o.betas[0], o.betas[1]));
    for (int i = 0; i < COUNT(flags); i++)
        cfx_dict_set(d, flags[i].name, cfx_bool(*flag_of(&o, i)));
    cfx_dict_set(d, "initial_lr", cfx_float(g->initial_lr));
    for (size_t i = 0; i < g->params.len; i++)
        cfx_list_append(cfx_as_list(params), cfx_int(first + (int64_t)i));
    cfx_dict_set(d, "params", params);
    return d;
}

cfx_dict *cfx_optim_state_dict(const cfx_optim *o) {
    cfx_dict *out = cfx_dict_new(), *state = cfx_dict_new();
    cfx_value groups = cfx_list_value(0, NULL);
    int64_t n = 0;
    for (size_t g = 0; o && g < o->groups.len; g++) {
        const cfx__optim_group *group = &o->groups.data[g];
        cfx_list_append(cfx_as_list(groups), cfx_dict_value(group_dict(group, n)));
        for (size_t i = 0; i < group->params.len; i++, n++)
            if (group->params.data[i].steps)
                cfx_dict_put(state, cfx_int(n),
                             cfx_dict_value(param_dict(o, &group->params.data[i])));
    }
    cfx_dict_set(out, "state", cfx_dict_value(state));
    cfx_dict_set(out, "param_groups", groups);
    return out;
}

static void load_param(const cfx_optim *o, cfx__optim_param *p, const cfx_dict *d) {
    cfx_value step = cfx_dict_get(d, "step");
    p->steps = step.tag == CFX_TAG_TENSOR
                   ? cfx__int64_of(cfx__tensor_number(cfx_as_tensor(step), 0))
               : cfx_is_number(step) ? cfx_integer(step)
                                     : d->len > 0;
    for (int i = 0; i < CFX__MOMENTS; i++) {
        const char *name = o->algorithm->state[i];
        cfx_value v = name ? cfx_dict_get(d, name) : cfx_none();
        cfx_drop(p->state[i]);
        p->state[i] = NULL;
        if (v.tag != CFX_TAG_TENSOR || !cfx__tensor_same_shape(cfx_as_tensor(v), p->tensor))
            continue;
        p->state[i] = new_state(p->tensor);
        if (!cfx__obj_is_bad(p->state[i]))
            cfx__tensor_copy(p->state[i], cfx_as_tensor(v));
    }
}

bool cfx_optim_load_state_dict_from(cfx_site at, cfx_optim *o, const cfx_dict *saved) {
    cfx_value groups = cfx_dict_get(saved, "param_groups"), state = cfx_dict_get(saved, "state");
    if (!o || groups.tag != CFX_TAG_LIST || state.tag != CFX_TAG_DICT) {
        cfx_fail(CFX_VALUE_ERROR, at, "this is not the state dict of an optimiser");
        return false;
    }
    if (cfx_as_list(groups)->len != (int64_t)o->groups.len) {
        cfx_fail(CFX_VALUE_ERROR, at,
                 "loaded state dict has a different number of parameter groups");
        return false;
    }
    size_t mark = cfx_scope_open();
    bool good = true;
    for (size_t g = 0; good && g < o->groups.len; g++) {
        cfx_value group = cfx_as_list(groups)->items[g];
        cfx_value params =
            group.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(group), "params") : group;
        good = params.tag == CFX_TAG_LIST &&
               cfx_as_list(params)->len == (int64_t)o->groups.data[g].params.len;
    }
    if (!good)
        cfx_fail(CFX_VALUE_ERROR, at,
                 "loaded state dict contains a parameter group that doesn't match the size of "
                 "optimizer's group");
    for (size_t g = 0; good && g < o->groups.len; g++) {
        cfx__optim_group *group = &o->groups.data[g];
        const cfx_dict *d = cfx_as_dict(cfx_as_list(groups)->items[g]);
        read_options(&group->options, d);
        if (cfx_is_number(cfx_dict_get(d, "initial_lr")))
            group->initial_lr = cfx_number(cfx_dict_get(d, "initial_lr"));
        cfx_value params = cfx_dict_get(d, "params");
        for (size_t i = 0; i < group->params.len; i++) {
            const cfx_value *v = cfx_dict_find(cfx_as_dict(state), cfx_as_list(params)->items[i]);
            if (v && v->tag == CFX_TAG_DICT)
                load_param(o, &group->params.data[i], cfx_as_dict(*v));
        }
    }
    cfx_scope_close(mark);
    return good;
}

/* ---- clipping ---------------------------------------------------------------------------------
 */

/* The gradients there are of the tensors in a list, as a list; scope. */
static cfx_list *grads_of(const cfx_list *params) {
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; params && i < params->len; i++) {
        cfx_tensor *grad = cfx_tensor_grad(cfx_as_tensor(params->items[i]));
        if (grad)
            cfx_list_append(out, cfx_tensor_value(grad));
    }
    return out;
}

double cfx_clip_grad_norm_from(cfx_site at, cfx_value params, double max_norm, double norm_type) {
    size_t mark = cfx_scope_open();
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_list *list = params_of(at, params), *grads = grads_of(list);
    cfx_value norms = cfx_list_value(0, NULL);
    double p = norm_type == 0 ? 2 : norm_type, total = 0;
    for (int64_t i = 0; i < grads->len; i++)
        cfx_list_append(cfx_as_list(norms),
                        cfx_tensor_value(cfx_linalg_vector_norm(grads->items[i], p)));
    if (grads->len) {
        cfx_tensor *norm = cfx_linalg_vector_norm(cfx_stack(norms), p);
        cfx_tensor *scale =
            cfx_clamp_max(cfx_div(cfx_full_like(norm, max_norm), cfx_add(norm, 1e-6)), 1.0);
        for (int64_t i = 0; i < grads->len; i++)
            cfx_mul_(grads->items[i], scale);
        total = cfx__tensor_number(norm, 0);
    }
    cfx_set_grad_mode(mode);
    cfx_scope_close(mark);
    return list ? total : -1;
}

void cfx_clip_grad_value_from(cfx_site at, cfx_value params, double most) {
    size_t mark = cfx_scope_open();
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_list *grads = grads_of(params_of(at, params));
    for (int64_t i = 0; i < grads->len; i++)
        cfx_clamp_(grads->items[i], -most, most);
    cfx_set_grad_mode(mode);
    cfx_scope_close(mark);
}
