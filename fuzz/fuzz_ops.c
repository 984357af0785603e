/* Operators: one with arguments of any kind, evil numbers and index tensors among them; then the
 * same on tensors that ask for gradients, and for gradients of these. */
#include "fuzz.h"

#include "dispatch/dispatch.h"
#include "tensor/tensor.h"

#include <string.h>

/* Mostly what the schema wants, as often as not. */
static cfx_value argument(fuzz_bytes *b, const cfx__schema_arg *a) {
    if (fuzz_below(b, 6) == 0)
        return fuzz_value(b, 2);
    if (a->optional && fuzz_below(b, 2))
        return cfx_none();
    if (a->has_default && fuzz_below(b, 3) == 0)
        return a->fallback;
    cfx_value list = cfx_list_value(0, NULL);
    for (uint32_t n = a->list ? fuzz_below(b, 5) : 1; n > 0; n--)
        switch (a->type) {
        case CFX__T_TENSOR: cfx_list_append(cfx_as_list(list), cfx_tensor_value(fuzz_tensor(b))); break;
        case CFX__T_INT: cfx_list_append(cfx_as_list(list), cfx_int(fuzz_int(b))); break;
        case CFX__T_BOOL: cfx_list_append(cfx_as_list(list), cfx_bool(fuzz_below(b, 2))); break;
        case CFX__T_FLOAT: cfx_list_append(cfx_as_list(list), cfx_float(fuzz_float(b))); break;
        default: cfx_list_append(cfx_as_list(list), fuzz_value(b, 1));
        }
    return a->list ? list : cfx_as_list(list)->items[0];
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The value with leaves of their own for the floats in it, which are added to a list. */
static cfx_value learning(cfx_value v, cfx_list *leaves) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), learning(cfx_as_list(v)->items[i], leaves));
        return out;
    }
    if (v.tag != CFX_TAG_TENSOR || !cfx__dtype_is_float(cfx_as_tensor(v)->dtype))
        return v;
    cfx_tensor *leaf = cfx_requires_grad(cfx_clone(v), true);
    cfx_list_append(leaves, cfx_tensor_value(leaf));
    return cfx_tensor_value(leaf);
}

/* Backward from every result; those of one call are added up. */
static void go_back(cfx_value results, bool again) {
    cfx_value all = cfx_list_value(0, NULL);
    cfx_tree_flatten(results, cfx_as_list(all));
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(all)->len; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        if (v.tag == CFX_TAG_TENSOR && cfx_tensor_requires_grad(cfx_as_tensor(v)))
            cfx_backward(cfx_as_tensor(v), .gradient = cfx_ones_like(v), .retain_graph = true,
                         .create_graph = again);
    }
}

static void gradients(cfx_op *op, int n, cfx_value *args) {
    cfx_value leaves = cfx_list_value(0, NULL), grads = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        args[i] = learning(args[i], cfx_as_list(leaves));
    if (!fuzz_fine() || !cfx_as_list(leaves)->len)
        return;
    cfx_manual_seed(1);
    cfx_value out = cfx_op_do_from(CFX_HERE, op, (cfx_args){n, args, NULL});
    if (cfx_ok())
        go_back(out, true);
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++) {
        const cfx_tensor *leaf = cfx_as_tensor(cfx_as_list(leaves)->items[i]);
        cfx_tensor *grad = cfx_tensor_grad(leaf);
        if (grad && (grad->ndim != leaf->ndim || grad->dtype != leaf->dtype ||
                     memcmp(grad->shape, leaf->shape, (size_t)leaf->ndim * sizeof *leaf->shape)))
            fuzz_wrong("%s: a gradient of another shape or dtype", cfx_op_name(op));
        if (grad)
            cfx_list_append(cfx_as_list(grads), cfx_tensor_value(grad));
    }
    if (cfx_ok())
        go_back(grads, false);
}

/* ---------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    fuzz_begin();
    cfx_op *op = fuzz_op(fuzz_below(&b, 1 << 16));
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < s->nargs; i++)
        args[i] = argument(&b, &s->args[i]);
    fuzz_fine();
    cfx_value result = cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, args, NULL});
    bool fine = cfx_ok();
    if (fine && cfx_is_bad(result))
        fuzz_wrong("%s gives a bad object without an error", cfx_op_name(op));
    if (!(op->effects & CFX_SIDE)) /* an assert says what it is given to say */
        fuzz_fine();
    cfx_error_clear();
    if (fine && !(op->effects & CFX_SIDE)) {
        gradients(op, s->nargs, args);
        fuzz_fine();
    }
    return fuzz_end();
}
