/* Functions of torch.nn.functional derived from two signatures: their own and the operator's. */
#include "functional.h"

int64_t functional_reduction(cfx_op_call *c, int size_average, int reduce, int i) {
    static const char *const words[] = {"none", "mean", "sum"};
    if (reduce && (!arg_is_none(c, size_average) || !arg_is_none(c, reduce))) {
        bool average = arg_is_none(c, size_average) || arg_bool(c, size_average);
        bool some = arg_is_none(c, reduce) || arg_bool(c, reduce);
        return !some ? REDUCE_NONE : average ? REDUCE_MEAN : REDUCE_SUM;
    }
    const char *text = arg_text(c, i);
    for (int k = 0; text && k < COUNT(words); k++)
        if (!strcmp(text, words[k]))
            return k;
    op_fail_as(VALUE, c, "%s is not a valid value for reduction", text ? text : "None");
    return -1;
}

/* The place of an argument among those of the function; -1: it has none of that name. */
static int place_of(const cfx__schema *s, const char *name) {
    for (int i = 0; i < s->nargs; i++)
        if (!strcmp(s->args[i].name, name))
            return i;
    return -1;
}

static cfx_value reduction_number(cfx_op_call *c, const cfx__schema *s, int at) {
    int average = place_of(s, "size_average"), reduce = place_of(s, "reduce");
    int64_t r = functional_reduction(c, average, reduce < 0 ? 0 : reduce, at);
    return r < 0 ? cfx_bad() : cfx_int(r);
}

void functional_derived(cfx_op_call *c) {
    cfx_op *op = (cfx_op *)c->op->row;
    const cfx__schema *own = cfx__op_info_of(c->op)->schema, *to = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < to->nargs; i++) {
        int at = i ? place_of(own, to->args[i].name) : 0;
        bool word = at >= 0 && own->args[at].type == CFX__T_STR && to->args[i].type == CFX__T_INT;
        args[i] = at < 0 ? to->args[i].fallback
                  : word ? reduction_number(c, own, at)
                         : c->args[at];
    }
    int inplace = place_of(own, "inplace");
    if (inplace >= 0 && arg_bool(c, inplace))
        op = cfx__op_inplace(op);
    if (!op || op_failed())
        return;
    cfx_value v = cfx_op_do_from(c->at, op, (cfx_args){to->nargs, args, NULL});
    c->out[0] = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}
