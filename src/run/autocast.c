/* Autocast: a region of a program in which some operators compute in a lower precision and some in
 * float32, whatever they are given. A dispatch mode that converts arguments, as the operator's
 * autocast column says. */
#include "run.h"

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

/* Converts what a call is given; false where it is left as it is. The last argument is converted
 * first, as in PyTorch. */
static bool convert(const cfx__autocast *c, const cfx_op *op, int n, cfx_value *args) {
    int to = op && !c->silent ? wanted(c, op, (cfx_args){n, args, NULL}) : -1;
    for (int i = n; i-- > 0 && to >= 0;)
        args[i] = converted(args[i], (cfx_dtype)to);
    return to >= 0;
}

static cfx_value handle(cfx_mode *self, cfx_target t, cfx_args a) {
    cfx_value args[CFX_MAX_ARGS];
    if (a.n > CFX_MAX_ARGS)
        return cfx_mode_forward(self, t, a);
    memcpy(args, a.v, (size_t)a.n * sizeof *args);
    if (!convert(self->user, t.op, a.n, args))
        return cfx_mode_forward(self, t, a);
    return cfx_mode_forward(self, t, (cfx_args){a.n, args, a.kw});
}

/* The innermost region, or NULL. */
static cfx__autocast *region_now(void) {
    for (cfx_mode *m = cfx__dispatcher()->dispatch_modes; m; m = m->below_)
        if (m->handle == handle)
            return m->user;
    return NULL;
}

bool cfx__autocast_args(const cfx_op *op, int n, cfx_value *args) {
    const cfx__autocast *c = region_now();
    return c && convert(c, op, n, args);
}

void cfx__autocast_begin(cfx__autocast *c) {
    c->outer = NULL;
    for (cfx_mode *m = cfx__dispatcher()->dispatch_modes; m && !c->outer; m = m->below_)
        if (m->handle == handle && !((cfx__autocast *)m->user)->silent)
            c->outer = m->user;
    if (c->outer)
        c->outer->silent = true;
    c->mode = (cfx_mode){.handle = handle, .user = c};
    cfx_dispatch_mode_push(&c->mode);
}

void cfx__autocast_end(cfx__autocast *c) {
    cfx_dispatch_mode_pop();
    if (c->outer)
        c->outer->silent = false;
}
