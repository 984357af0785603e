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

/* Rows of (image, class, box). */
static cfx_value of_boxes(finder *f, const cfx_result *x, cfx_value axis) {
    (void)x, (void)axis;
    return cfx__onnx_described(cfx_as_list(cfx_list(next_symbol(f), 3)), CFX_I64);
}

static const struct {
    cfx_op *op;
    cfx_value (*result)(finder *f, const cfx_result *x, cfx_value axis);
} rows[] = {
    {&cfx_op_onnx_NonZero, of_nonzero},
    {&cfx_op_onnx_Compress, of_compress},
    {&cfx_op_onnx_Unique, of_unique},
    {&cfx_op_onnx_NonMaxSuppression, of_boxes},
};

/* ---- loops ----------------------------------------------------------------------------------- */

/* What is noted of an operand; of a parameter that says nothing, what its tensor is. */
static cfx_value noted(const finder *f, cfx_value operand) {
    const cfx_node *n = operand.tag == CFX_TAG_NODE ? cfx_as_node(operand) : NULL;
    const cfx_value val = n ? cfx_node_get_meta(n, "val") : cfx_none();
    const cfx_input_spec *s = n && cfx_is_none(val) ? cfx_program_input(f->program, n) : NULL;
    const cfx_tensor *t = s ? cfx_program_tensor(f->program, s) : NULL;
    return t ? cfx_tensor_value(cfx__tensor_faked(t)) : val;
}

/* The graph of a loop as a program of its own, whose inputs are what the loop is given; the bad
 * program, where something of that is not known. */
static cfx_program *body_of(const finder *f, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(n->args),
                   *both[] = {cfx_as_list(args->items[3]), cfx_as_list(args->items[4])};
    cfx_module *m = cfx_module_find(f->program->module, cfx_as_node(args->items[0])->target.name);
    cfx_graph *g = m && m->graph ? cfx_graph_copy(m->graph) : NULL;
    cfx_module *gm = g ? cfx_graph_module(m, g, "GraphModule") : NULL;
    cfx_program *p = gm ? cfx_program_new(gm) : &cfx__program_bad;
    int64_t k = 0;
    if (cfx_failed(p))
        return &cfx__program_bad;
    cfx_each_node(p->module->graph, in) {
        cfx__node_of(in)->stale = true; /* it was looked at without them */
        if (in->op != CFX_PLACEHOLDER)
            continue;
        const int64_t i = k++ - 2; /* after the number of the round and whether it goes on */
        const cfx_list *l = i < both[0]->len ? both[0] : both[1];
        const int64_t at = i < both[0]->len ? i : i - both[0]->len;
        cfx_value val =
            i < 0 ? cfx_tensor_value(cfx_tensor_fake(i < -1 ? CFX_I64 : CFX_BOOL, 0, NULL, NULL))
            : at < l->len ? noted(f, l->items[at])
                          : cfx_none();
        if (cfx_is_none(val))
            return &cfx__program_bad;
        cfx_node_set_meta(in, "val", val);
        cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = in->name});
    }
    cfx_drop(p->ranges), p->ranges = cfx_keep(f->program->ranges);
    return p;
}

/* What a loop gives whose rounds data decides: what it carries, as it is given, and of each tensor
 * that it collects as many rows as there are rounds. None where that is not known, or what it
 * carries does not keep its shape. */
static cfx_value of_loop(finder *f, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(n->args);
    cfx_program *body = args->len == 5 ? body_of(f, n) : &cfx__program_bad;
    if (cfx_failed(body) || !cfx_program_infer(body)) {
        cfx__error_forgive();
        return cfx_none();
    }
    const cfx_list *gives =
        cfx_as_list(cfx_at(cfx_graph_output_node(body->module->graph)->args, 0));
    const cfx_list *carried = cfx_as_list(args->items[3]);
    cfx_value out = cfx_tuple_value(0, NULL), rounds = cfx_none();
    for (int64_t i = 1; i < gives->len; i++) {
        const bool in = i <= carried->len;
        const cfx_result r = cfx_node_result(cfx_as_node(gives->items[i]));
        const cfx_result start = in ? cfx_result_of(noted(f, carried->items[i - 1])) : r;
        if (r.kind != CFX_RESULT_TENSOR || !cfx_result_equal(&start, &r))
            return cfx_none();
        cfx_value shape = cfx_list_value(0, NULL);
        if (!in && cfx_is_none(rounds))
            rounds = next_symbol(f);
        if (!in)
            cfx_list_append(cfx_as_list(shape), rounds);
        for (int k = 0; k < r.ndim; k++)
            cfx_list_append(cfx_as_list(shape), cfx_result_size(&r, k));
        cfx_list_append(cfx_as_list(out), cfx__onnx_described(cfx_as_list(shape), r.dtype));
    }
    return out;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Notes what a node gives that finds such a size, if what it is given is known; whether it did. */
static bool note(finder *f, cfx_node *n) {
    const cfx_value first = cfx_at(n->args, 0), axis = cfx_dict_get(cfx_as_dict(n->kwargs), "axis");
    const cfx_result x = cfx_node_result(first.tag == CFX_TAG_NODE ? cfx_as_node(first) : NULL);
    cfx_value val = cfx__higher_is(n, "onnx_loop") ? of_loop(f, n) : cfx_none();
    for (int i = 0; i < COUNT(rows) && x.kind == CFX_RESULT_TENSOR; i++)
        if (n->target.op == rows[i].op)
            val = rows[i].result(f, &x, axis);
    if (!cfx_ok() || cfx_is_none(val))
        return false;
    cfx_node_set_meta(n, "val", val);
    return true;
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
        cfx_each_node(p->module->graph, n) if (is_unknown(n) && f.count < MOST && cfx_ok())
            CFX_SCOPE more |= note(&f, n);
        cfx_each_node(p->module->graph, n) if (more && is_unknown(n)) cfx__node_of(n)->stale = true;
        if (more)
            cfx_program_infer(p);
    }
    return cfx_ok();
}
