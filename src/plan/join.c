/* Concatenation without copies: a kernel whose result is an operand of a concatenation writes
 * directly into its part of the result (its home). Homes are assigned before lowering. */
#include <cfx/ops.h>

#include "plan.h"

/* Whether a slot is an image that a convolution made, as far as some pointwise calls before it. */
static bool is_image(const cfx__lowering *l, int slot) {
    for (int i = 0; i < 6; i++) {
        const cfx__run_step *s = &l->plan->steps->steps[slot];
        cfx_op *op = cfx__plan_op(s);
        if (!op || !s->nbound || s->bound[0].tag != CFX_TAG_NODE)
            return false;
        if (op->takes)
            return true;
        if (!(op->effects & CFX_LOOPS) && op != &cfx_op_batch_norm)
            return false;
        slot = (int)s->bound[0].spare;
    }
    return false;
}

/* How the whole lies: as images do where convolutions make parts of it. */
static cfx_tensor *layout_of(const cfx__lowering *l, const cfx_tensor *whole, const cfx_list *parts,
                             int dim) {
    int64_t stride[CFX_MAX_DIMS];
    bool image = false;
    for (int64_t i = 0; i < parts->len && whole->ndim == 4 && dim == 1; i++)
        image |= is_image(l, (int)parts->items[i].spare);
    if (image)
        cfx__strides_of_format(l->target->images, whole->ndim, whole->shape, stride);
    return cfx_tensor_fake((cfx_dtype)whole->dtype, whole->ndim, whole->shape,
                           image ? stride : whole->stride);
}

static bool is_part(const cfx__lowering *l, cfx_value v, const cfx_tensor *whole) {
    const cfx_tensor *t = v.tag == CFX_TAG_NODE ? cfx__plan_tensor(l, (int)v.spare) : NULL;
    return t && t->ndim == whole->ndim && t->dtype == whole->dtype;
}

/* Notes the parts of step k, a concatenation whose arguments are all known. */
static void note_parts(cfx__lowering *l, int k) {
    cfx__plan *p = l->plan;
    const cfx__run_step *s = &p->steps->steps[k];
    const cfx_tensor *whole = cfx__plan_tensor(l, k);
    if (s->op != &cfx_op_cat || cfx__plan_is_ordered(l, k) || !cfx_is_bad(p->constants[k]) ||
        s->bound[0].tag != CFX_TAG_LIST || s->bound[1].tag != CFX_TAG_INT || !whole ||
        !whole->ndim || !whole->numel)
        return;
    const cfx_list *parts = cfx_as_list(s->bound[0]);
    const int64_t given = cfx_integer(s->bound[1]);
    const int dim = (int)(given < 0 ? given + whole->ndim : given);
    for (int64_t i = 0; i < parts->len; i++)
        if (!is_part(l, parts->items[i], whole))
            return;
    cfx_value_drop(p->given[k]);
    p->given[k] = cfx_value_keep(cfx_tensor_value(layout_of(l, whole, parts, dim)));
    p->kernels[k].index = dim;
    l->joins[k] = true;
    int64_t at = 0;
    for (int64_t i = 0; i < parts->len; i++) {
        const int part = (int)parts->items[i].spare;
        if (p->home[part] < 0 && cfx_is_bad(p->constants[part])) {
            p->home[part] = k;
            p->home_at[part] = at;
        }
        at += cfx__plan_tensor(l, part)->shape[dim];
    }
}

bool cfx__plan_find_homes(cfx__lowering *l) {
    size_t mark = cfx_scope_open();
    for (int k = 0; k < l->plan->n; k++)
        note_parts(l, k);
    cfx_scope_close(mark);
    return cfx_ok();
}

cfx_tensor *cfx__plan_home_like(const cfx__lowering *l, int slot) {
    const int home = l->plan->home[slot];
    const cfx_tensor *t = cfx__plan_tensor(l, slot);
    if (home < 0 || !t)
        return NULL;
    return cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim, t->shape,
                           cfx_as_tensor(l->plan->given[home])->stride);
}

int64_t cfx__plan_home_offset(const cfx__plan *p, int slot) {
    const int home = p->home[slot];
    const cfx_tensor *whole = cfx_as_tensor(p->given[home]);
    return p->home_at[slot] * whole->stride[p->kernels[home].index] *
           cfx_dtype_size((cfx_dtype)whole->dtype);
}
