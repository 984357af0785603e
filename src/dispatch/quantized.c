/* Quantized tensors as arguments of float operators: dequantizes the arguments and quantizes the
 * results. */
#include "dispatch.h"

bool cfx__op_knows_quantized(const cfx_op *op) {
    return op->quantized == CFX_QUANTIZED_OWN || !strncmp(op->schema, "python::", 8);
}

/* Whether op computes in steps: what is given has one scale for all. */
static bool is_in_steps(const cfx_op *op, const cfx_tensor *t) {
    return op->quantized == CFX_QUANTIZED_MEAN && !t->quantizer->scales;
}

/* The steps from the zero point, as floats. */
static cfx_tensor *steps_of(cfx_site at, cfx_tensor *t) {
    cfx__quantizer *whole = cfx__quantizer_new(1, t->quantizer->zero_point);
    return cfx__quantized_to_float(at, cfx__quantized_of(cfx__quantized_ints(t), t->dtype, whole));
}

/* The tensor that such steps are of, by the quantizer of `first`: halves go to the even integer. */
static cfx_tensor *of_steps(cfx_site at, cfx_tensor *x, const cfx_tensor *first) {
    cfx_tensor *y = cfx__tensor_empty(at, CFX_F32, !x->data, x->ndim, x->shape, NULL);
    float zero = (float)first->quantizer->zero_point, *data = x->data ? (float *)y->data : NULL;
    if (data)
        cfx__tensor_copy(y, x);
    for (int64_t i = 0; data && i < y->numel; i++)
        data[i] += zero;
    cfx_tensor *q = cfx__quantized_from(at, y, first->dtype, cfx__quantizer_new(1, 0));
    return cfx__quantized_of(cfx__quantized_ints(q), first->dtype, first->quantizer);
}

/* v with floats in the place of quantized tensors; the first of those is noted. */
static cfx_value floats(cfx_op_call *c, const cfx_op *op, cfx_value v, cfx_tensor **first) {
    if (v.tag == CFX_TAG_TENSOR && (cfx_as_tensor(v)->head.flags & CFX__QUANTIZED)) {
        cfx_tensor *t = cfx_as_tensor(v);
        if (!*first)
            *first = t;
        return cfx_tensor_value(is_in_steps(op, t) ? steps_of(c->at, t)
                                                   : cfx__quantized_to_float(c->at, t));
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value list = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), floats(c, op, cfx_as_list(v)->items[i], first));
    return list;
}

/* What the results of op are quantized by. */
static cfx__quantizer *quantizer_of(const cfx_op *op, const cfx_tensor *first) {
    bool is_signed = first->dtype == CFX_QI8;
    if (op->quantized == CFX_QUANTIZED_UNIT)
        return cfx__quantizer_new(1.0 / 256, is_signed ? -128 : 0);
    if (op->quantized == CFX_QUANTIZED_SIGNED)
        return cfx__quantizer_new(2.0 / 256, is_signed ? 0 : 128);
    return first->quantizer;
}

static cfx_value quantized(cfx_site at, cfx_value v, cfx_dtype dtype, cfx__quantizer *by) {
    if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_F32)
        return cfx_tensor_value(cfx__quantized_from(at, cfx_as_tensor(v), dtype, by));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), quantized(at, cfx_as_list(v)->items[i], dtype, by));
    return list;
}

/* x.relu_(): the integers of the result take the place of x's. */
static void write_back(cfx_op_call *c, cfx_value result) {
    cfx_tensor *self = c->args[0].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[0]) : NULL;
    cfx_tensor *from = result.tag == CFX_TAG_TENSOR ? cfx_as_tensor(result) : NULL;
    if (!self || !from || from->dtype != self->dtype || !cfx__tensor_same_shape(self, from)) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s cannot write to a tensor of torch.%s",
                 cfx_op_name(c->op), cfx_dtype_name(self ? self->dtype : CFX_QU8));
        return;
    }
    if (self->data)
        cfx__tensor_copy(cfx__quantized_ints(self), cfx__quantized_ints(from));
    c->out[0] = self;
}

void cfx__op_run_quantized(cfx_op_call *c, cfx__op_info *info) {
    cfx_op *op = info->form == CFX__FUNCTIONAL ? c->op : info->functional;
    if (info->form == CFX__OUT) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s has no form for quantized tensors",
                 cfx_op_name(c->op));
        return;
    }
    cfx_value args[CFX_MAX_ARGS];
    cfx_tensor *first = NULL;
    for (int i = 0; i < c->nargs; i++)
        args[i] = floats(c, op, c->args[i], &first);
    if (cfx__ctx()->failed)
        return;
    cfx_value result = cfx__op_run(c->at, op, args);
    if (is_in_steps(op, first) && result.tag == CFX_TAG_TENSOR && !cfx__ctx()->failed)
        result = cfx_tensor_value(of_steps(c->at, cfx_as_tensor(result), first));
    else
        result = quantized(c->at, result, first->dtype, quantizer_of(op, first));
    if (cfx__ctx()->failed)
        return;
    if (info->form == CFX__INPLACE)
        write_back(c, result);
    else if (c->nout == 0)
        c->result = result;
    else if (c->nout == 1)
        c->out[0] = cfx_as_tensor(result);
    else
        for (int i = 0; i < c->nout; i++)
            c->out[i] = cfx_tensor_at(result, i);
}
