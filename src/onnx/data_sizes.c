/* Sizes that only data could tell, such as how many elements are not zero: symbols u0, u1, ... in
 * what is noted of the nodes that find them, from which all others follow. They are few: what is
 * found out in the worlds of trace/worlds.h takes time for each of them. Start at
 * cfx__onnx_data_sizes. */
#include <cfx/ops.h>
#include <cfx/run.h>

#include "../graph/graph.h"
#include "onnx.h"

typedef struct finder {
    cfx_program *program;
    int count; /* of symbols */
} finder;

static cfx_value next_symbol(finder *f) {
    const cfx_value symbol = cfx__sym_name(cfx__text_format("u%d", f->count++), false, 0);
    cfx_dict_set(f->program->ranges, cfx_value_str(symbol), cfx_tuple(0, cfx_none()));
    return symbol;
}

static cfx_value elements(const cfx_result *x) {
    cfx_value n = cfx_int(1);
    for (int i = 0; i < x->ndim; i++)
        n = cfx__sym_binary(CFX__SYM_MUL, n, cfx_result_size(x, i));
    return n;
}

static cfx_value vector(cfx_value size, cfx_dtype d) {
    return cfx__onnx_described(cfx_as_list(cfx_list(size)), d);
}

/* x with another size along an axis, or flat; None where there is no such axis. */
static cfx_value picked(const cfx_result *x, cfx_value axis, cfx_value size) {
    if (cfx_is_none(axis))
        return vector(size, x->dtype);
    const int64_t dim = cfx_integer(axis) + (cfx_integer(axis) < 0 ? x->ndim : 0);
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < x->ndim; i++)
        cfx_list_append(cfx_as_list(shape), i == dim ? size : cfx_result_size(x, i));
    return dim < 0 || dim >= x->ndim ? cfx_none()
                                     : cfx__onnx_described(cfx_as_list(shape), x->dtype);
}

static cfx_value of_nonzero(finder *f, const cfx_result *x, cfx_value axis) {
    (void)axis;
    return cfx__onnx_described(cfx_as_list(cfx_list(x->ndim ? x->ndim : 1, next_symbol(f))),
                               CFX_I64);
}

static cfx_value of_compress(finder *f, const cfx_result *x, cfx_value axis) {
    return picked(x, axis, next_symbol(f));
}

/* Values, where each comes first, the places of all elements among them, counts. */
static cfx_value of_unique(finder *f, const cfx_result *x, cfx_value axis) {
    const bool flat = cfx_is_none(axis);
    const int64_t dim = flat ? 0 : cfx_integer(axis) + (cfx_integer(axis) < 0 ? x->ndim : 0);
    if (!flat && (dim < 0 || dim >= x->ndim))
        return cfx_none();
    const cfx_value places = flat ? elements(x) : cfx_result_size(x, (int)dim);
    const cfx_value n = next_symbol(f), each = vector(n, CFX_I64);
    return cfx_tuple(picked(x, axis, n), each, vector(places, CFX_I64), each);
}

static const struct {
    cfx_op *op;
    cfx_value (*result)(finder *f, const cfx_result *x, cfx_value axis);
} rows[] = {
    {&cfx_op_onnx_NonZero, of_nonzero},
    {&cfx_op_onnx_Compress, of_compress},
    {&cfx_op_onnx_Unique, of_unique},
};

/* Notes what a node gives that finds such a size, if what it is given is known; whether it did. */
static bool note(finder *f, cfx_node *n) {
    const cfx_value first = cfx_at(n->args, 0), axis = cfx_dict_get(cfx_as_dict(n->kwargs), "axis");
    const cfx_result x = cfx_node_result(first.tag == CFX_TAG_NODE ? cfx_as_node(first) : NULL);
    for (int i = 0; i < COUNT(rows) && x.kind == CFX_RESULT_TENSOR; i++) {
        if (n->target.op != rows[i].op)
            continue;
        const cfx_value val = rows[i].result(f, &x, axis);
        if (!cfx_ok() || cfx_is_none(val))
            return false;
        cfx_node_set_meta(n, "val", val);
        return true;
    }
    return false;
}

static bool is_unknown(const cfx_node *n) {
    return n->op == CFX_CALL_FUNCTION && cfx_node_result(n).kind == CFX_RESULT_UNKNOWN;
}

bool cfx__onnx_data_sizes(cfx_program *p) {
    enum { MOST_ROUNDS = 8, MOST = 16 }; /* nodes that follow from each other; symbols */
    finder f = {.program = p};
    bool more = true;
    for (int round = 0; more && round < MOST_ROUNDS && cfx_ok(); round++) {
        more = false;
        cfx_each_node(p->module->graph, n)
            if (is_unknown(n) && f.count < MOST && cfx_ok())
                CFX_SCOPE more |= note(&f, n);
        cfx_each_node(p->module->graph, n)
            if (more && is_unknown(n))
                cfx__node_of(n)->stale = true;
        if (more)
            cfx_program_infer(p);
    }
    return cfx_ok();
}
