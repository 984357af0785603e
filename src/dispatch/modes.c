/* Modes: autocast, under which some operators compute in a lower precision and others in
 * float32, and the grad mode. A recorder is notified of each change, under its Python name. */
#include "dispatch.h"

/* ---- conversions ----------------------------------------------------------------------------- */

/* The dtype that an operator's floats are converted to; -1: none. */
static int wanted(const cfx__autocast *c, const cfx_op *op, cfx_args a) {
    switch (op->autocast) {
    case CFX_CAST_NONE: return -1;
    case CFX_CAST_LOW: return c->dtype;
    case CFX_CAST_F32: return CFX_F32;
    case CFX_CAST_F32_ON_GPU: return c->gpu ? CFX_F32 : -1;
    case CFX_CAST_WIDEST: break;
    }
    for (int i = 0; i < a.n; i++) {
        bool list = a.v[i].tag == CFX_TAG_LIST;
        for (int64_t k = 0; k < (list ? cfx_as_list(a.v[i])->len : 1); k++) {
            cfx_value v = list ? cfx_as_list(a.v[i])->items[k] : a.v[i];
            if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_F32)
                return CFX_F32;
        }
    }
    return c->dtype;
}

/* Floats are converted, doubles and everything else left alone. */
static cfx_value converted(cfx_value v, cfx_dtype to) {
    if (v.tag == CFX_TAG_LIST) {
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(list), converted(cfx_as_list(v)->items[i], to));
        return list;
    }
    if (v.tag != CFX_TAG_TENSOR || !cfx__dtype_is_float(cfx_as_tensor(v)->dtype) ||
        cfx_as_tensor(v)->dtype == CFX_F64 || cfx_as_tensor(v)->dtype == to)
        return v;
    return cfx_op_do_from((cfx_site){0}, cfx_op_find("aten.to.dtype"),
                          CFX_ARGS(v, cfx_dtype_value(to)));
}

/* The last argument is converted first, as in PyTorch. */
bool cfx__autocast_args(const cfx_op *op, cfx_value *args, bool *converts) {
    const cfx__autocast *c = cfx__dispatcher()->autocast;
    int n = cfx__op_info_of((cfx_op *)op)->schema->nargs;
    int to = c && c->enabled ? wanted(c, op, (cfx_args){n, args, NULL}) : -1;
    *converts = to >= 0;
    for (int i = n; i-- > 0 && to >= 0;)
        args[i] = converted(args[i], (cfx_dtype)to);
    return !*converts || cfx_ok();
}

bool cfx__autocast_call(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx__autocast *region = d->autocast;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)cfx__op_info_of(op)->schema->nargs * sizeof *own);
    bool converts, good = cfx__autocast_args(op, own, &converts);
    if (!converts)
        return false;
    d->autocast = NULL;
    *result = good ? cfx__op_call_bound(at, op, own) : cfx_bad();
    d->autocast = region;
    return true;
}

/* ---- regions --------------------------------------------------------------------------------- */

static bool is_device(cfx_site at, const char *device) {
    if (!strcmp(device, "cpu") || !strcmp(device, "cuda"))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, at, "User specified an unsupported autocast device_type '%s'",
             device);
    return false;
}

/* The precision of the region around it, as torch.get_autocast_dtype says. */
static cfx_dtype usual_dtype(bool gpu) {
    for (const cfx__autocast *c = cfx__dispatcher()->autocast; c; c = c->outer)
        if (c->gpu == gpu)
            return c->dtype;
    return gpu ? CFX_F16 : CFX_BF16;
}

void cfx_autocast_begin_from(cfx_site at, cfx_autocast_options o) {
    cfx__dispatch *d = cfx__dispatcher();
    const char *device = o.device ? o.device : "cpu";
    bool gpu = !strcmp(device, "cuda");
    cfx__autocast *c = cfx__alloc0(sizeof *c);
    *c = (cfx__autocast){.gpu = gpu, .dtype = o.dtype ? o.dtype : usual_dtype(gpu),
                         .entered = cfx_none(), .outer = d->autocast};
    c->enabled = is_device(at, device) && !o.off && cfx__dtype_is_half(c->dtype);
    d->autocast = c;
    if (d->mode)
        c->entered = d->mode(at, "torch.amp.autocast_mode._enter_autocast",
                             CFX_ARGS(device, cfx_dtype_value(c->dtype), cfx_bool(c->enabled),
                                      cfx_bool(false)));
}

void cfx_autocast_end_from(cfx_site at) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx__autocast *c = d->autocast;
    if (!c) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "there is no autocast region to end");
        return;
    }
    d->autocast = c->outer;
    if (d->mode)
        d->mode(at, "torch.amp.autocast_mode._exit_autocast", CFX_ARGS(c->entered));
    cfx__free(c);
}

/* ---- gradients ------------------------------------------------------------------------------- */

cfx_grad_mode cfx_get_grad_mode(void) { return cfx__dispatcher()->grad; }

cfx_grad_mode cfx_set_grad_mode(cfx_grad_mode mode) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx_grad_mode before = d->grad;
    d->grad = mode;
    if (d->mode)
        d->mode((cfx_site){0}, "torch._C._set_grad_enabled",
                CFX_ARGS(cfx_bool(mode == CFX_GRAD_ON)));
    return before;
}

bool cfx__grad_records(void) {
    const cfx__dispatch *d = cfx__dispatcher();
    return d->grad == CFX_GRAD_ON && !d->below_autograd;
}

/* ---- what is set back ------------------------------------------------------------------------ */

cfx__modes cfx__modes_now(void) {
    const cfx__dispatch *d = cfx__dispatcher();
    return (cfx__modes){d->grad, d->autocast};
}

void cfx__modes_restore(cfx__modes m) {
    cfx__dispatch *d = cfx__dispatcher();
    d->grad = m.grad;
    bool there = !m.autocast; /* it may have been ended since, and those around it have not */
    for (const cfx__autocast *c = d->autocast; c && !there; c = c->outer)
        there = c == m.autocast;
    while (there && d->autocast != m.autocast) {
        cfx__autocast *c = d->autocast;
        d->autocast = c->outer;
        cfx__free(c);
    }
}
