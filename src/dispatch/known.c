/* Known values of fake tensors: a foreign operator on fake tensors with known values is also
 * computed, so that an operator which uses its result as a shape, an axis or a scale finds the
 * values. */
#include "dispatch.h"

/* v with numbers in place of fake tensors; bad where those of one are not known. Scope. */
static cfx_value known(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_tensor *t = cfx__tensor_known(cfx_as_tensor(v));
        return t && t->numel <= CFX__KNOWN_MOST ? cfx_tensor_value(t) : cfx_bad();
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
        cfx_value item = known(cfx_as_list(v)->items[i]);
        if (cfx_is_bad(item))
            return item;
        cfx_list_append(cfx_as_list(out), item);
    }
    return out;
}

/* Whether what v stands for is little enough to be computed. */
static bool is_small(cfx_value v) {
    bool small = v.tag != CFX_TAG_TENSOR || cfx_as_tensor(v)->numel <= CFX__KNOWN_MOST;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len && small; i++)
            small = is_small(cfx_as_list(v)->items[i]);
    return small;
}

static void know(cfx_value v, cfx_value numbers) {
    if (v.tag == CFX_TAG_TENSOR && numbers.tag == CFX_TAG_TENSOR)
        cfx__tensor_know(cfx_as_tensor(v), cfx_as_tensor(numbers));
    if (v.tag != CFX_TAG_LIST || numbers.tag != CFX_TAG_LIST)
        return;
    for (int64_t i = 0; i < cfx_as_list(v)->len && i < cfx_as_list(numbers)->len; i++)
        know(cfx_as_list(v)->items[i], cfx_as_list(numbers)->items[i]);
}

/* The same call on numbers. False, without an error, where it fails. */
static bool compute(cfx_op_call *c) {
    cfx__dispatch *d = cfx__dispatcher(), before = *d;
    d->fake = c->fake = false;
    d->recorder = NULL;
    d->dispatch_modes = NULL;
    d->data_size = NULL, d->part_size = NULL, d->varies = NULL;
    d->grad = CFX_INFERENCE;
    d->below++;
    c->op->decompose(c);
    *d = before;
    return cfx_ok() || (cfx__error_forgive() && false);
}

void cfx__op_note_known(cfx_op_call *c) {
    cfx_value args[CFX_MAX_ARGS];
    if (c->op->effects & CFX_RANDOM)
        return;
    for (int i = 0; i < c->nargs; i++) {
        args[i] = known(c->args[i]);
        if (cfx_is_bad(args[i]))
            return;
    }
    for (int i = 0; i < c->nout; i++)
        if (c->out[i] && !is_small(cfx_tensor_value(c->out[i])))
            return;
    if (!is_small(c->result))
        return;
    cfx_op_call real = *c;
    real.args = args;
    real.result = cfx_none();
    memset(real.out, 0, sizeof real.out);
    if (!compute(&real))
        return;
    for (int i = 0; i < c->nout; i++)
        if (c->out[i] && real.out[i])
            know(cfx_tensor_value(c->out[i]), cfx_tensor_value(real.out[i]));
    know(c->result, real.result);
}
