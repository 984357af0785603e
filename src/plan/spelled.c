/* Activations that programs spell out: GELU by its hyperbolic tangent, as language models write it,
 * becomes the operator. Start at cfx__plan_find_spelled. */
#include <cfx/ops.h>

#include <math.h>

#include "plan.h"

/* The steps of one of them, from its input to its result. */
typedef struct {
    int x;
    int n, inside[8]; /* the result is not among these */
} spelled;

static const cfx__run_step *step_of(const cfx__lowering *l, int slot) {
    return &l->plan->steps->steps[slot];
}

/* Which argument of step k is a number so near to `want`; the other, a slot, or -1. */
static int beside(const cfx__lowering *l, int k, const cfx_op *op, double want) {
    const cfx__run_step *s = step_of(l, k);
    if (s->op != op)
        return -1;
    for (int i = 0; i < 2; i++)
        if (s->bound[i].tag == CFX_TAG_NODE && cfx_is_number(s->bound[1 - i]) &&
            fabs(cfx_number(s->bound[1 - i]) - want) < 1e-6)
            return (int)s->bound[i].spare;
    return -1;
}

/* Both arguments of step k where they are slots: `one` is given, the other is returned, or -1. */
static int other(const cfx__lowering *l, int k, const cfx_op *op, int one) {
    const cfx__run_step *s = step_of(l, k);
    if (s->op != op || s->bound[0].tag != CFX_TAG_NODE || s->bound[1].tag != CFX_TAG_NODE)
        return -1;
    const int a = (int)s->bound[0].spare, b = (int)s->bound[1].spare;
    return a == one ? b : b == one ? a : -1;
}

/* The argument of step k that is something times a number; -1: none is. */
static int scaled_in(const cfx__lowering *l, int k, double by) {
    for (int i = 0; i < 2; i++) {
        const cfx_value v = step_of(l, k)->bound[i];
        if (v.tag == CFX_TAG_NODE && beside(l, (int)v.spare, &cfx_op_mul_Tensor, by) >= 0)
            return (int)v.spare;
    }
    return -1;
}

static bool is_unscaled_sum(const cfx__lowering *l, int k) {
    const cfx__run_step *s = step_of(l, k);
    return s->op == &cfx_op_add_Tensor && s->bound[2].tag == CFX_TAG_INT &&
           cfx_integer(s->bound[2]) == 1;
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) around a step that is its tanh; the slot of the
 * result, or -1. */
static int gelu_around(const cfx__lowering *l, int tangent, spelled *g) {
    const double root = 0.7978845608028654;
    if (step_of(l, tangent)->op != &cfx_op_tanh ||
        step_of(l, tangent)->bound[0].tag != CFX_TAG_NODE)
        return -1;
    const int angle = (int)step_of(l, tangent)->bound[0].spare;
    const int sum = beside(l, angle, &cfx_op_mul_Tensor, root);
    const int cubes = sum < 0 || !is_unscaled_sum(l, sum) ? -1 : scaled_in(l, sum, 0.044715);
    const int cube = cubes < 0 ? -1 : beside(l, cubes, &cfx_op_mul_Tensor, 0.044715);
    const int x = cube < 0 ? -1 : beside(l, cube, &cfx_op_pow_Tensor_Scalar, 3);
    const int more = x < 0 || other(l, sum, &cfx_op_add_Tensor, cubes) != x
                         ? -1
                         : cfx__plan_only_user(l, tangent);
    if (more < 0 || beside(l, more, &cfx_op_add_Tensor, 1) != tangent || !is_unscaled_sum(l, more))
        return -1;
    const int result = cfx__plan_only_user(l, more);
    const int half = result < 0 ? -1 : other(l, result, &cfx_op_mul_Tensor, more);
    if (half < 0 || beside(l, half, &cfx_op_mul_Tensor, 0.5) != x)
        return -1;
    *g = (spelled){x, 7, {half, cube, cubes, sum, angle, tangent, more}};
    return result;
}

/* Whether nobody but the others sees what is inside, and it is all of one kind. */
static bool may_replace(const cfx__lowering *l, const spelled *g, int result) {
    const cfx_tensor *x = cfx__plan_tensor(l, g->x), *y = cfx__plan_tensor(l, result);
    if (!x || !y || x->dtype != CFX_F32 || y->dtype != CFX_F32 || !cfx__tensor_same_shape(x, y) ||
        l->ordered[g->x] || l->ordered[result])
        return false;
    for (int i = 0; i < g->n; i++)
        if (cfx__plan_only_user(l, g->inside[i]) < 0 ||
            !cfx_is_bad(l->plan->constants[g->inside[i]]) ||
            cfx__plan_wants(l->e, step_of(l, g->inside[i])->node))
            return false;
    return true;
}

bool cfx__plan_find_spelled(cfx__lowering *l) {
    cfx__plan *p = l->plan;
    bool any = false;
    for (int k = 0; k < p->n; k++) {
        spelled g;
        const int result = l->passed[k] ? -1 : gelu_around(l, k, &g);
        if (result < 0 || !may_replace(l, &g, result))
            continue;
        cfx__run_step *s = &p->steps->steps[result];
        cfx_list_append(p->steps->kept, cfx_string_value("tanh"));
        s->op = &cfx_op_gelu;
        s->nbound = 2;
        s->bound[0] = p->steps->steps[g.inside[0]].bound[0];
        s->bound[0].spare = (uint32_t)g.x;
        s->bound[1] = p->steps->kept->items[p->steps->kept->len - 1];
        for (int i = 0; i < g.n; i++)
            l->passed[g.inside[i]] = true;
        any = true;
    }
    if (any) {
        cfx__free(l->first);
        cfx__free(l->readers);
        cfx__plan_find_readers(l);
    }
    return cfx_ok();
}
