/* Operands of random programs: values there are, weights, and other names of these. See drawing.h.
 */
#include "agree.h"
#include "drawing.h"

#include <cfx/ops.h>

void draw_value(drawing *d, cfx_node *n, cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR || d->n == DRAWN_VALUES)
        return;
    d->values[d->n++] = (operand){n, cfx_as_tensor(v)};
}

cfx_tensor *draw_laid_out(cfx_tensor *t, bool alone) {
    if (t->ndim < 2 || !t->numel)
        return t;
    const int64_t last = t->ndim - 1;
    switch (test_draw(alone ? 3 : 4)) {
    case 0: return cfx_transpose(cfx_contiguous(cfx_transpose(t, 0, last)), 0, last);
    case 1: return cfx_movedim(cfx_contiguous(cfx_movedim(t, 1, last)), last, 1);
    case 2: return cfx_slice(cfx_cat(cfx_list(t, t), last), last, test_draw(2), CFX_NONE, 2);
    default: return cfx_expand(cfx_select(t, 0, 0), cfx_ints_value(t->ndim, t->shape));
    }
}

static operand *add_weight(drawing *d, cfx_tensor *t, cfx_tensor *held, bool buffer) {
    char name[16];
    snprintf(name, sizeof name, "%s%d", buffer ? "b" : "w", d->weights++);
    cfx_dict_set(d->p.state, name, cfx_tensor_value(t));
    if (buffer)
        cfx_nn_buffer(d->p.root, name, held, true);
    else
        cfx_nn_parameter(d->p.root, name, held);
    draw_value(d, cfx_graph_get_attr(d->p.graph, name), cfx__tensor_faked_in(cfx_tensor_value(t)));
    return &d->values[d->n - 1];
}

operand *draw_twin(drawing *d) {
    const cfx_dict *all = d->p.state;
    const int64_t i = test_draw((uint32_t)all->len);
    cfx_tensor *t = cfx_as_tensor(all->entries[i].value);
    cfx_tensor *held = cfx_as_tensor(cfx_module_attr(d->p.root, cfx_text(all->entries[i].key)));
    const bool buffer = *cfx_text(all->entries[i].key) == 'b';
    if (!t->ndim || t->shape[0] < 2 || !buffer || chance(2))
        return add_weight(d, t, held, buffer);
    d->p.shared = true;
    return add_weight(d, cfx_slice(t, 0, 1), cfx_slice(held, 0, 1), true);
}

operand *draw_weight(drawing *d, cfx_tensor *t, bool buffer) {
    if (d->n == DRAWN_VALUES)
        return &d->values[0];
    if (d->varied && !d->depth && chance(4))
        t = draw_laid_out(t, true);
    return add_weight(d, t, cfx_as_tensor(eager_copy(cfx_tensor_value(t))), buffer);
}

operand *draw_new_weight(drawing *d, cfx_dtype dtype, int ndim, const int64_t *shape) {
    return draw_weight(d, draw_tensor(dtype, ndim, shape),
                       chance(2) || !cfx__dtype_is_float(dtype));
}

static bool broadcasts(const cfx_tensor *a, const cfx_tensor *b) {
    for (int i = 1; i <= a->ndim && i <= b->ndim; i++) {
        const int64_t x = a->shape[a->ndim - i], y = b->shape[b->ndim - i];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

operand *draw_operand(drawing *d, const cfx_tensor *like, int want) {
    operand *found = NULL;
    uint32_t seen = 0;
    for (int i = 0; i < d->n; i++) {
        const cfx_tensor *t = d->values[i].fake;
        if ((want != CFX_DTYPE_COUNT && (int)t->dtype != want) || (like && !broadcasts(t, like)))
            continue;
        seen += (uint32_t)(i < d->n / 2 ? 1 : 2);
        if (test_draw(seen) < (uint32_t)(i < d->n / 2 ? 1 : 2))
            found = &d->values[i];
    }
    return found ? found : &d->values[test_draw((uint32_t)d->n)];
}
