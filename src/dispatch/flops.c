/* How much work a call is: its decomposition runs on fake tensors, and the formulas of the
 * operators that it comes to are summed. */
#include "../base/given.h"
#include "dispatch.h"

typedef struct {
    cfx_mode mode;
    int64_t sum;
} counter;

static void fill_results(cfx_op_call *c, cfx_value result) {
    for (int i = 0; i < c->nout; i++) {
        cfx_value v = c->nout == 1 ? result : cfx_at(result, i);
        c->out[i] = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    }
}

static cfx_value count(cfx_mode *self, cfx_target t, cfx_args a) {
    counter *k = self->user;
    cfx_value result = cfx_mode_forward(self, t, a);
    cfx__op_info *info = cfx__op_info_of(t.op);
    cfx_op *op = info->functional ? info->functional : t.op;
    if (!op->flops || !cfx_ok() || a.n > CFX_MAX_ARGS)
        return result;
    cfx_value args[CFX_MAX_ARGS];
    memcpy(args, a.v, (size_t)a.n * sizeof *args);
    cfx_op_call c = {.op = op, .nargs = a.n, .args = args, .nout = info->nout, .fake = true};
    fill_results(&c, result);
    if (cfx_ok() && __builtin_add_overflow(k->sum, op->flops(&c), &k->sum))
        k->sum = INT64_MAX;
    return result;
}

int64_t cfx_op_flops(cfx_site at, cfx_op *op, cfx_args args) {
    cfx__op_info *info = cfx__given(at, op, "operator") ? cfx__op_info_of(op) : NULL;
    if (!info)
        return -1;
    const cfx_op *own = info->functional ? info->functional : op;
    if (!own->flops && !(own->effects & CFX_COMPOSITE))
        return 0;
    cfx__dispatch *d = cfx__dispatcher(), before = *d;
    counter k = {.sum = 0};
    k.mode = (cfx_mode){.handle = count, .user = &k};
    d->dispatch_modes = &k.mode;
    d->function_modes = NULL;
    d->trace = NULL;
    d->recorder = NULL;
    d->grad = CFX_NO_GRAD;
    d->fake = true;
    size_t mark = cfx_scope_open();
    cfx_op_do_from(at, op, args);
    cfx_scope_close(mark);
    *d = before;
    return cfx_ok() ? k.sum : -1;
}
