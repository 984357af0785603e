/* Key-value caches without copies. If an extra result of a program is the new value of a buffer
 * (a functional update), the plan writes to the buffer in place. If attention repeats key and
 * value heads for the queries that share them, the repetition is removed and attention is told
 * that heads are shared. */
#include <cfx/ops.h>

#include "plan.h"

/* ---- updates --------------------------------------------------------------------------------- */

/* Whether an input may be written to by step k: nothing reads it later, or looks at its memory. */
static bool may_become(const cfx__lowering *l, int input, int k) {
    const cfx__run_step *steps = l->plan->steps->steps;
    for (int r = 0; r < l->plan->n; r++)
        if (r != k && cfx__plan_reads(&steps[r], input) &&
            (r > k || !steps[r].op || !cfx__plan_makes_own(steps[r].op)))
            return false;
    return true;
}

/* How often a value is among the results. */
static int times_given(const cfx_list *results, cfx_value v) {
    int times = 0;
    for (int64_t i = 0; i < results->len; i++)
        times += cfx_equal_values(results->items[i], v);
    return times;
}

/* Step k gives what the input becomes: it is done to the input, where it is an update of it. */
static bool update(cfx__lowering *l, int k, int input) {
    cfx__run_step *s = &l->plan->steps->steps[k];
    if (!s->op || !(s->op->effects & CFX_UPDATE) || s->bound[0].tag != CFX_TAG_NODE ||
        cfx__plan_wants(l->e, s->node))
        return false;
    const int slot = (int)s->bound[0].spare;
    if (l->plan->kernels[slot].kind != CFX__PLAN_INPUT || l->plan->kernels[slot].input != input ||
        !may_become(l, slot, k))
        return false;
    s->op = cfx__op_updating(s->op);
    return s->op != NULL;
}

bool cfx__plan_update_in_place(cfx__lowering *l) {
    const cfx__run_step *last = &l->plan->steps->steps[l->plan->n - 1];
    const cfx_value results = last->node->op == CFX_OUTPUT ? cfx_as_list(last->args)->items[0]
                                                           : cfx_none();
    if (!l->target->updates || (results.tag != CFX_TAG_TUPLE && results.tag != CFX_TAG_LIST))
        return true;
    const cfx_list *items = cfx_as_list(results);
    const size_t size = (size_t)l->e->nbecomes * sizeof *l->plan->becomes;
    bool any = false;
    for (int i = 0; i < items->len && i < l->e->nbecomes; i++)
        if (l->e->becomes[i] >= 0 && items->items[i].tag == CFX_TAG_NODE &&
            times_given(items, items->items[i]) == 1)
            any |= update(l, (int)items->items[i].spare, l->e->becomes[i]);
    if (!any)
        return true;
    l->plan->nbecomes = l->e->nbecomes;
    l->plan->becomes = cfx__arena_alloc(&l->plan->arena, size);
    memcpy(l->plan->becomes, l->e->becomes, size);
    return cfx_ok();
}

/* ---- heads that are shared ------------------------------------------------------------------- */

static const cfx__run_step *maker_of(const cfx__lowering *l, cfx_value v) {
    const cfx__run_step *s = v.tag == CFX_TAG_NODE ? &l->plan->steps->steps[v.spare] : NULL;
    return s && !cfx__plan_wants(l->e, s->node) ? s : NULL;
}

/* Whether the sizes are those of heads that are repeated, each so many times in a row. */
bool cfx__plan_is_repeated(const cfx__lowering *l, cfx__plan_repeat r) {
    const cfx_tensor *x = cfx__plan_tensor(l, r.x), *e = cfx__plan_tensor(l, r.wide);
    const cfx_tensor *all = cfx__plan_tensor(l, r.heads);
    return x && e && all && x->ndim == 4 && e->ndim == 5 && all->ndim == 4 &&
           e->shape[0] == x->shape[0] && e->shape[1] == x->shape[1] &&
           e->shape[3] == x->shape[2] && e->shape[4] == x->shape[3] &&
           all->shape[0] == x->shape[0] && all->shape[1] == e->shape[1] * e->shape[2] &&
           all->shape[2] == x->shape[2] && all->shape[3] == x->shape[3] && x->stride[3] == 1;
}

/* What heads are repeated of: reshape(expand(unsqueeze(x, 2))). False where they are not. */
static bool shared_by(const cfx__lowering *l, cfx_value heads, cfx__plan_repeat *r) {
    const cfx__run_step *s = maker_of(l, heads);
    if (!s || !cfx__plan_reshapes(s->op))
        return false;
    cfx_value wide = s->bound[0];
    s = maker_of(l, wide);
    if (s && (s->op == &cfx_op_clone || s->op == &cfx_op_contiguous)) {
        wide = s->bound[0];
        s = maker_of(l, wide);
    }
    s = s && s->op == &cfx_op_expand ? maker_of(l, s->bound[0]) : NULL;
    if (!s || s->op != &cfx_op_unsqueeze || s->bound[0].tag != CFX_TAG_NODE ||
        cfx_integer(s->bound[1]) != 2)
        return false;
    *r = (cfx__plan_repeat){(int)s->bound[0].spare, (int)wide.spare, (int)heads.spare};
    return cfx__plan_is_repeated(l, *r);
}

bool cfx__plan_share_heads(cfx__lowering *l) {
    for (int k = 0; k < l->plan->n; k++) {
        cfx__run_step *s = &l->plan->steps->steps[k];
        const cfx_tensor *q = s->op == &cfx_op_scaled_dot_product_attention &&
                                      s->bound[0].tag == CFX_TAG_NODE
                                  ? cfx__plan_tensor(l, (int)s->bound[0].spare)
                                  : NULL;
        if (!q || q->ndim != 4 || cfx_integer(s->bound[7]))
            continue;
        cfx__plan_repeat keys, values;
        if (!shared_by(l, s->bound[1], &keys) || !shared_by(l, s->bound[2], &values))
            continue;
        VEC_PUSH(l->plan->repeats, keys);
        VEC_PUSH(l->plan->repeats, values);
        s->bound[1].spare = (uint32_t)keys.x;
        s->bound[2].spare = (uint32_t)values.x;
        s->bound[7] = cfx_bool(true);
    }
    return cfx_ok();
}

/* Views and copies that nothing reads any more are left out. */
bool cfx__plan_leave_unread(cfx__lowering *l) {
    for (int k = l->plan->n - 1; k >= 0; k--) {
        const cfx__run_step *s = &l->plan->steps->steps[k];
        bool unread = cfx__plan_moves(s->op) && !cfx__plan_wants(l->e, s->node) &&
                      !cfx__plan_view_may_fail(l->plan, k);
        for (int r = l->first[k]; unread && r < l->first[k + 1]; r++)
            unread = l->taken[l->readers[r]];
        if (unread)
            l->taken[k] = true;
    }
    return cfx_ok();
}
