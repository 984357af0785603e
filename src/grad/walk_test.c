/* The registry walk: every operator with a gradient is called with arguments made up from its
 * schema, and what its formula gives is compared with finite differences in float64. Operators that
 * take none of the made-up arguments are not counted; the last test says how many were. */
#include <cfx.h>

#include <math.h>
#include <string.h>

#include "../dispatch/dispatch.h"
#include "numbers.h"

/* Shapes that tensors are tried in, first argument and others. */
static const struct {
    int ndim[2];
    int64_t shape[2][5];
} forms[] = {
    {{2, 2}, {{2, 3}, {2, 3}}},
    {{2, 2}, {{3, 3}, {3, 3}}},
    {{1, 1}, {{3}, {3}}},
    {{2, 1}, {{2, 3}, {3}}},
    {{3, 3}, {{2, 3, 3}, {2, 3, 3}}},
    {{3, 2}, {{1, 2, 4}, {2, 3}}},
    {{4, 4}, {{1, 2, 4, 4}, {2, 2, 2, 2}}},
    {{4, 1}, {{1, 2, 4, 4}, {2}}},
    {{5, 5}, {{1, 2, 3, 4, 4}, {2, 2, 2, 2, 2}}},
    {{1, 2}, {{3}, {3, 3}}},
    {{2, 2}, {{2, 3}, {3, 2}}},
};

/* Formulas that hold on part of the space alone, with the reason. Names are matched with *. */
static const char *const apart[] = {
    "aten.linalg_*",
    "aten._linalg_*",
    "aten.cholesky*",
    "aten.lu_*", /* symmetric, up to a sign */
    "aten.ormqr*",
    "aten.triangular_solve*",
    "aten.qr*",
    "aten.pinverse*",
    "aten.geqrf*",
    "aten.*_backward*", /* arguments that only fit together as a forward gives them */
    "aten.native_batch_norm*",
    "aten._native_batch_norm*",
    "aten._scaled_dot*",
    "aten._thnn*",
    "aten._weight_norm_interface*",
    "aten.log_sigmoid_forward*", /* statistics among results */
    "aten._embedding_bag*",
    "aten.embedding_bag*",
    "aten.*dropout*",
    "aten.rrelu*",
    "aten.native_layer_norm*",
    "aten.native_group_norm*",
    "aten._fused*",
    "aten._ctc*",
    "aten.igamma*",
    "aten.special_zeta*", /* by one argument alone */
    "aten.put*",
    "aten.max_unpool*", /* places made up twice */
    "aten.renorm*",     /* PyTorch's has 1e-7 in a denominator */
    "aten.*fake_quantize*", /* straight through what is rounded, on purpose */
};

static bool is_apart(const char *name) {
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (cfx__text_glob(apart[i], name))
            return true;
    return false;
}

static cfx_tensor *numbers(uint64_t seed, int ndim, const int64_t *shape) {
    double data[512];
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    test_seed(seed);
    for (int64_t i = 0; i < n; i++)
        data[i] = 0.5 + 0.35 * test_draw_real();
    return cfx_tensor_new(CFX_F64, ndim, shape, data);
}

static cfx_value number_list(const cfx__schema_arg *a, int form) {
    int n = a->list_len ? a->list_len : 1;
    int64_t v[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (!strcmp(a->name, "size") || !strcmp(a->name, "sizes") || !strcmp(a->name, "shape")) {
        n = forms[form].ndim[0];
        memcpy(v, forms[form].shape[0], sizeof forms[form].shape[0]);
    } else if (!strcmp(a->name, "dims") || !strcmp(a->name, "dim")) {
        n = forms[form].ndim[0] > 1 ? 2 : 1;
        v[0] = 0;
    } else if (!strcmp(a->name, "kernel_size") || !strcmp(a->name, "output_size")) {
        for (int i = 0; i < 8; i++)
            v[i] = 2;
    } else if (strstr(a->name, "padding")) {
        memset(v, 0, sizeof v);
    }
    return cfx_ints_value(n, v);
}

static bool named(const cfx__schema_arg *a, const char *words) {
    const char *at = strstr(words, a->name);
    size_t n = strlen(a->name);
    return at && (at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
}

/* A value for one argument; tensors of numbers are appended to `inputs`. */
static cfx_value made_up(const cfx__schema_arg *a, int i, int form, cfx_list *inputs) {
    const int which = i > 0;
    if (a->type == CFX__T_TENSOR) {
        if (a->optional && named(a, "weight bias running_mean running_var pos_weight"))
            return cfx_none();
        if (named(a, "index indices target")) /* no place twice along the first dimension */
            return CFX_V(cfx_sub(cfx_cumsum(cfx_ones(cfx_ints_value(forms[form].ndim[which],
                                                                    forms[form].shape[which]),
                                                     CFX_KW(dtype, cfx_i64)),
                                            0),
                                 1));
        cfx_tensor *t = numbers((uint64_t)(17 * i + form + 1), forms[form].ndim[which],
                                forms[form].shape[which]);
        if (named(a, "mask condition"))
            return CFX_V(cfx_gt(t, 0.5));
        cfx_requires_grad(t, true);
        cfx_list_append(inputs, CFX_V(t));
        if (!a->list)
            return CFX_V(t);
        cfx_tensor *more = numbers((uint64_t)(91 * i + form + 5), forms[form].ndim[which],
                                   forms[form].shape[which]);
        cfx_requires_grad(more, true);
        cfx_list_append(inputs, CFX_V(more));
        return cfx_list(t, more);
    }
    if (a->has_default && !(a->list && cfx_is_none(a->fallback)))
        return a->fallback;
    if (a->list && (a->type == CFX__T_INT || a->type == CFX__T_BOOL))
        return number_list(a, form);
    switch (a->type) {
    case CFX__T_SCALAR:
    case CFX__T_FLOAT:
        return cfx_float(0.5);
    case CFX__T_INT:
        return cfx_int(named(a, "dim dim0 dimension start axis") ? 0 : 1);
    case CFX__T_BOOL:
        return cfx_bool(false);
    case CFX__T_STR:
        return CFX_V("mean");
    default:
        return cfx_none();
    }
}

/* The sum of all real results, each times its own number. NULL where there is none. */
static cfx_tensor *weigh(cfx_value v) {
    cfx_tensor *sum = NULL;
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tree_flatten(v, cfx_as_list(flat));
    for (int64_t i = 0; i < cfx_as_list(flat)->len; i++) {
        cfx_value r = cfx_as_list(flat)->items[i];
        if (r.tag != CFX_TAG_TENSOR || cfx_tensor_dtype(cfx_as_tensor(r)) != CFX_F64 ||
            cfx_tensor_numel(cfx_as_tensor(r)) > 512)
            continue;
        cfx_tensor *by = numbers((uint64_t)(1000 + i), cfx_tensor_ndim(cfx_as_tensor(r)),
                                 cfx_tensor_shape(cfx_as_tensor(r)));
        cfx_tensor *one = cfx_sum(cfx_mul(r, by));
        sum = sum ? cfx_add(sum, one) : one;
    }
    return sum;
}

static double value_at(cfx_op *op, int n, cfx_value *args, cfx_tensor *t, int64_t i, double d) {
    double *data = cfx_tensor_data(t), held = data[i], v = NAN;
    data[i] += d;
    CFX_SCOPE {
        cfx_tensor *sum = weigh(cfx_op_do_from(CFX_HERE, op, (cfx_args){n, args, NULL}));
        v = cfx_ok() && sum ? cfx_tensor_get(sum, 0) : NAN;
    }
    data[i] = held;
    return v;
}

/* Whether the operator took these arguments; a difference fails the test. */
static bool check(cfx_op *op, int form) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS], inputs = cfx_list_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        args[i] = made_up(&s->args[i], i, form, cfx_as_list(inputs));
    if (!cfx_ok() || !cfx_as_list(inputs)->len)
        return false;
    cfx_tensor *sum = weigh(cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, args, NULL}));
    if (!cfx_ok() || !sum || !cfx_tensor_requires_grad(sum))
        return false;
    cfx_value g = cfx_grad(sum, inputs, .allow_unused = true);
    if (!cfx_ok()) {
        printf("%s: %s\n", cfx_op_name(op), cfx_error_last()->message);
        CHECK(cfx_ok());
        return true;
    }
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    for (int64_t k = 0; k < cfx_as_list(inputs)->len; k++) {
        cfx_tensor *t = cfx_tensor_at(inputs, k), *have = cfx_tensor_at(g, k);
        for (int64_t i = 0; i < cfx_tensor_numel(t); i += 1 + cfx_tensor_numel(t) / 16) {
            double up = value_at(op, s->nargs, args, t, i, 1e-6);
            double down = value_at(op, s->nargs, args, t, i, -1e-6);
            double want = (up - down) / 2e-6, got = have ? cfx_tensor_get(have, i) : 0;
            if (!isfinite(want) || fabs(want - got) <= 1e-4 * (1 + fabs(want)))
                continue;
            printf("%s: gradient %d, element %d is %g, not %g\n", cfx_op_name(op), (int)k, (int)i,
                   got, want);
            CHECK(!"a gradient is off");
            k = cfx_as_list(inputs)->len;
            break;
        }
    }
    cfx_set_grad_mode(before);
    return true;
}

TEST(grad_walk) {
    int checked = 0, with = 0;
    for (int i = 0; i < cfx_op_count(); i++) {
        cfx_op *op = cfx_op_at(i);
        const char *name = cfx_op_name(op);
        if (!op->grad || op->grad == cfx__op_grad_none || (op->effects & CFX_RANDOM) ||
            cfx__op_info_of(op)->writes || is_apart(name))
            continue;
        with++;
        bool done = false;
        for (int form = 0; form < (int)(sizeof forms / sizeof *forms) && !done; form++)
            CFX_SCOPE {
                done = check(op, form);
                cfx_error_clear();
            }
        checked += done;
    }
    printf("%d of %d operators\n", checked, with);
    CHECK(checked > 280);
}

/* ---- gradients of gradients ------------------------------------------------------------------ */

/* Operators whose gradient has none: PyTorch's has none either. Names are matched with *. */
static const char *const once_only[] = {
    "aten._cdist_forward*",
    "aten._pdist_forward*",
    "aten.grid_sampler*",
    "aten.multilabel_margin_loss_forward*",
};

static bool is_once_only(const char *name) {
    for (size_t i = 0; i < sizeof once_only / sizeof *once_only; i++)
        if (cfx__text_glob(once_only[i], name))
            return true;
    return false;
}

/* The gradients of a call, each times its own number, summed. */
static cfx_tensor *weigh_grads(cfx_op *op, int n, cfx_value *args, cfx_value inputs, bool graph) {
    cfx_tensor *sum = weigh(cfx_op_do_from(CFX_HERE, op, (cfx_args){n, args, NULL}));
    if (!cfx_ok() || !sum || !cfx_tensor_requires_grad(sum))
        return NULL;
    cfx_value g = cfx_grad(sum, inputs, .allow_unused = true, .create_graph = graph);
    return cfx_ok() ? weigh(g) : NULL;
}

static double grads_at(cfx_op *op, int n, cfx_value *args, cfx_value inputs, double *at, double d) {
    double held = *at, v = NAN;
    *at += d;
    CFX_SCOPE {
        cfx_tensor *sum = weigh_grads(op, n, args, inputs, false);
        v = cfx_ok() && sum ? cfx_tensor_get(sum, 0) : NAN;
    }
    *at = held;
    return v;
}

/* As check, for the gradient of what `check` compares. */
static bool check_twice(cfx_op *op, int form) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS], inputs = cfx_list_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        args[i] = made_up(&s->args[i], i, form, cfx_as_list(inputs));
    cfx_tensor *sum =
        cfx_ok() && cfx_as_list(inputs)->len ? weigh_grads(op, s->nargs, args, inputs, true) : NULL;
    if (!cfx_ok() || !sum)
        return false;
    if (!cfx_tensor_requires_grad(sum)) /* the gradient does not depend on the arguments */
        return true;
    cfx_value g = cfx_grad(sum, inputs, .allow_unused = true);
    if (!cfx_ok()) {
        printf("%s: %s\n", cfx_op_name(op), cfx_error_last()->message);
        CHECK(is_once_only(cfx_op_name(op)));
        return true;
    }
    for (int64_t k = 0; k < cfx_as_list(inputs)->len; k++) {
        cfx_tensor *t = cfx_tensor_at(inputs, k), *have = cfx_tensor_at(g, k);
        for (int64_t i = 0; i < cfx_tensor_numel(t); i += 1 + cfx_tensor_numel(t) / 4) {
            double *at = (double *)cfx_tensor_data(t) + i;
            double want = (grads_at(op, s->nargs, args, inputs, at, 1e-6) -
                           grads_at(op, s->nargs, args, inputs, at, -1e-6)) /
                          2e-6;
            double got = have ? cfx_tensor_get(have, i) : 0;
            if (!isfinite(want) || fabs(want - got) <= 1e-4 * (1 + fabs(want)))
                continue;
            printf("%s: second gradient %d, element %d is %g, not %g\n", cfx_op_name(op), (int)k,
                   (int)i, got, want);
            CHECK(!"a second gradient is off");
            return true;
        }
    }
    return true;
}

TEST(grad_walk_twice) {
    int checked = 0, with = 0;
    for (int i = 0; i < cfx_op_count(); i++) {
        cfx_op *op = cfx_op_at(i);
        if (!op->grad || op->grad == cfx__op_grad_none || (op->effects & CFX_RANDOM) ||
            cfx__op_info_of(op)->writes || is_apart(cfx_op_name(op)))
            continue;
        with++;
        bool done = false;
        for (int form = 0; form < (int)(sizeof forms / sizeof *forms) && !done; form++)
            CFX_SCOPE {
                done = check_twice(op, form);
                cfx_error_clear();
            }
        checked += done;
    }
    printf("%d of %d operators\n", checked, with);
    CHECK(checked > 280);
}
