/* Operators: one with arguments of any kind, evil numbers and index tensors among them. What a real
 * call gives, a fake one describes. */
#include "fuzz.h"

#include "dispatch/dispatch.h"

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
    cfx_clear();
    return fuzz_end();
}
