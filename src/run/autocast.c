/* Autocast: a region of a program in which some operators compute in a lower precision and some in
 * float32, whatever they are given: arguments are converted as the operator's autocast column
 * says. */
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

/* The last argument is converted first, as in PyTorch. */
bool cfx__autocast_args(const cfx_op *op, int n, cfx_value *args, bool *converts) {
    const cfx__autocast *c = cfx__run_state_now()->autocast;
    int to = c && c->enabled ? wanted(c, op, (cfx_args){n, args, NULL}) : -1;
    *converts = to >= 0;
    for (int i = n; i-- > 0 && to >= 0;)
        args[i] = converted(args[i], (cfx_dtype)to);
    return !*converts || cfx_ok();
}

/* Sees every call whole, before autograd takes it apart. What a converted call does inside is left
 * alone. */
static bool convert_call(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result) {
    cfx__dispatch *d = cfx__dispatcher();
    int n = cfx__op_info_of(op)->schema->nargs;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)n * sizeof *own);
    d->recorder = NULL;
    bool converts, good = cfx__autocast_args(op, n, own, &converts);
    if (converts)
        *result = good ? cfx__op_call_bound(at, op, own) : cfx_bad();
    d->recorder = convert_call;
    return converts;
}

void cfx__autocast_begin(cfx__autocast *c) {
    cfx__run_state *s = cfx__run_state_now();
    cfx__dispatch *d = cfx__dispatcher();
    c->outer = s->autocast;
    s->autocast = c;
    c->layer = d->recorder;
    if (!d->recorder) /* one that is there asks cfx__autocast_args */
        d->recorder = convert_call;
}

void cfx__autocast_end(cfx__autocast *c) {
    cfx__run_state_now()->autocast = c->outer;
    cfx__dispatcher()->recorder = c->layer;
}
