/* In-place and out= forms, derived from the functional operator: the same arguments, the same shape
 * rule and kernel; only where the result is written differs. */
#include "dispatch.h"

static bool writable(cfx_call *c, const cfx_tensor *t) {
    if (!cfx__overlaps_itself(t))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "unsupported operation: more than one element of the written-to tensor refers to a "
             "single memory location. Please clone() the tensor before performing the operation.");
    return false;
}

static bool castable(cfx_call *c, cfx_dtype from, cfx_dtype to) {
    if (cfx__can_cast(from, to))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "result type %s can't be cast to the desired output type %s", cfx__dtype_title(from),
             cfx__dtype_title(to));
    return false;
}

/* Whether a kernel may write straight to dst: no operand overlaps it but by being it, and with an
 * update no operand beside the first at all. */
static bool apart(cfx_call *c, const cfx_tensor *dst, int nargs, bool update) {
    for (int i = 0; i < nargs; i++) {
        if (c->args[i].tag != CFX_TAG_TENSOR)
            continue;
        cfx__overlap o = cfx__overlap_of(dst, c->args[i].tensor);
        if (o == CFX__PARTLY || (update && i > 0 && o == CFX__SAME)) {
            cfx_fail(CFX_RUNTIME_ERROR, c->at,
                     "unsupported operation: some elements of the input tensor and the written-to "
                     "tensor refer to a single memory location. Please clone() the tensor before "
                     "performing the operation.");
            return false;
        }
    }
    return true;
}

/* Computes the functional operator of c into its first out `dst`, which has the right shape when
 * `fits` says so; otherwise c->error is set. */
static void write_to(cfx_call *c, cfx_call *f, cfx_tensor *dst, int i) {
    cfx_tensor *from = f->out[i];
    if (cfx__ctx()->failed || !from || from == dst)
        return;
    if (castable(c, from->dtype, dst->dtype) && !c->fake)
        cfx__copy(dst, from);
}

void cfx__run_inplace(cfx_call *c, cfx__info *info) {
    cfx_call f = *c;
    f.op = info->functional;
    f.nout = 1;
    cfx_tensor *self = c->args[0].tensor;
    if (f.op->view) {
        f.op->view(&f);
        if (!cfx__ctx()->failed)
            cfx__become(self, f.out[0]);
        c->out[0] = self;
        return;
    }
    c->out[0] = self;
    if (!writable(c, self))
        return;
    bool update = f.op->effects & CFX_UPDATE;
    bool direct = (update || (f.op->effects & CFX_POINTWISE)) && f.op->shape && f.op->kernel;
    if (direct) {
        f.fake = true;
        f.op->shape(&f);
    } else {
        cfx__run_functional(&f);
    }
    if (cfx__ctx()->failed)
        return;
    if (!cfx__same_shape(f.out[0], self)) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 "output with shape %s doesn't match the broadcast shape %s",
                 cfx__shape_text(self->ndim, self->shape),
                 cfx__shape_text(f.out[0]->ndim, f.out[0]->shape));
        return;
    }
    if (!direct) {
        write_to(c, &f, self, 0);
        return;
    }
    if (!castable(c, f.out[0]->dtype, self->dtype) || !apart(c, self, c->nargs, update) || c->fake)
        return;
    if (f.out[0]->dtype == self->dtype)
        f.out[0] = self;
    else
        f.out[0] = cfx__tensor_empty(c->at, f.out[0]->dtype, false, self->ndim, self->shape, NULL);
    f.fake = false;
    cfx__run_kernel(&f);
    write_to(c, &f, self, 0);
}

/* Gives an out= argument the size that the result has, as PyTorch's resize_output does. */
static void resize(cfx_call *c, cfx_tensor *out, const cfx_tensor *like) {
    if (cfx__same_shape(out, like))
        return;
    cfx_tensor *fresh =
        cfx__tensor_empty(c->at, out->dtype, c->fake, like->ndim, like->shape, like->stride);
    if (cfx__is_bad(fresh))
        return;
    cfx__become(out, fresh);
}

void cfx__run_out(cfx_call *c, cfx__info *info) {
    cfx_call f = *c;
    int given = c->nargs - info->nout;
    f.op = info->functional;
    f.nargs = given;
    f.nout = info->nout;
    for (int i = 0; i < c->nout; i++) {
        c->out[i] = c->args[given + i].tensor;
        if (!writable(c, c->out[i]))
            return;
        if ((f.op->effects & CFX_POINTWISE) && !apart(c, c->out[i], given, false))
            return;
    }
    cfx__run_functional(&f);
    for (int i = 0; i < c->nout && !cfx__ctx()->failed; i++) {
        resize(c, c->out[i], f.out[i]);
        write_to(c, &f, c->out[i], i);
    }
}
