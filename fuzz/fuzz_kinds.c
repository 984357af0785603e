/* One call of any operator with arguments that fit but for one, which is of a kind that the file of
 * a liar would give it: written in the call, or the result of another node. That is little enough
 * to be listed: every argument of every operator, of every kind. */
#include "fuzz.h"

#include "dispatch/dispatch.h"

enum { FLOAT = 3, DTYPE = 8, TENSOR = 11, KINDS };

static cfx_value odd_value(fuzz_bytes *b, cfx_node *x) {
    cfx_value tensor = cfx_node_value(x), items[] = {tensor, cfx_int(fuzz_int(b))};
    switch (fuzz_below(b, KINDS)) {
    case 0: return cfx_none();
    case 1: return cfx_bool(true);
    case 2: return items[1];
    case FLOAT: return cfx_float(fuzz_float(b));
    case 4: return cfx_string_value("text");
    case 5: return cfx_list_value(0, NULL);
    case 6: return cfx_list_value(2, items);
    case 7: return cfx_tuple_value(1, items + 1);
    case DTYPE: return cfx_dtype_value((cfx_dtype)fuzz_below(b, CFX_DTYPE_COUNT));
    case 9: return cfx_dict_value(cfx_dict_new());
    case 10: return cfx_complex_value(1, 2);
    default: return tensor;
    }
}

/* A size of x, or its rows, which are several: not what an argument takes, if it takes a tensor. */
static cfx_node *odd_node(fuzz_bytes *b, cfx_graph *g, cfx_node *x) {
    bool rows = fuzz_below(b, 2);
    const char *name = rows ? "torch.ops.aten.unbind.int" : "torch.ops.aten.sym_size.int";
    return cfx_graph_call_function(g, name, cfx_tuple(x, 0), CFX_NONE);
}

/* What x is: four floats, or of any other kind and some other shape. */
static void describe(fuzz_bytes *b, cfx_node *x) {
    static const int64_t shapes[][4] = {{2, 2}, {3}, {0}, {2, 1, 4}, {1, 2, 4, 4}};
    static const int ndims[] = {2, 1, 0, 3, 4};
    uint32_t k = fuzz_below(b, 5);
    cfx_dtype dtype = (cfx_dtype)((CFX_F32 + fuzz_below(b, CFX_DTYPE_COUNT)) % CFX_DTYPE_COUNT);
    cfx_tensor *t = cfx_tensor_fake(dtype, ndims[k], shapes[k], NULL);
    cfx_node_set_meta(x, "val", cfx_tensor_value(t));
    fuzz_fine();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    fuzz_begin();
    cfx_op *op = fuzz_op(fuzz_below(&b, 1 << 16));
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    int odd = s->nargs ? (int)fuzz_below(&b, (uint32_t)s->nargs) : 0;
    cfx_value v = fuzz_below(&b, 3) ? odd_value(&b, x) : cfx_node_value(odd_node(&b, g, x));
    describe(&b, x);
    cfx_value args = cfx_tuple_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        cfx_list_append(cfx_as_list(args), i == odd ? v : fuzz_fitting(&s->args[i], cfx_node_value(x)));
    cfx_target target = {.op = op, .name = cfx_op_name(op)};
    cfx_node *call = cfx_graph_create(g, CFX_CALL_FUNCTION, target, args, CFX_NONE, NULL, NULL);
    cfx_graph_output(g, cfx_tuple(call));
    cfx_module *m = cfx_graph_module(NULL, g, "Kinds");
    if (fuzz_fine()) {
        cfx_program *p = cfx_program_new(m);
        cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = x->name});
        cfx_program_add_output(p, (cfx_output_spec){.kind = CFX_OUT_USER, .name = call->name});
        fuzz_use(p);
    }
    return fuzz_end();
}

/* ---- the list -------------------------------------------------------------------------------- */

/* A number that stands for an operator. */
static uint32_t number_of(int op) {
    enum { MOST = 4096 };
    static uint32_t of[MOST];
    static bool known;
    for (uint32_t number = known ? 0 : 1 << 16; number-- > 0;) {
        cfx_op *drawn = fuzz_op(number);
        for (int i = 0; i < cfx_op_count() && i < MOST; i++)
            if (cfx_op_at(i) == drawn)
                of[i] = number;
    }
    known = true;
    return op < MOST ? of[op] : 0;
}

/* Operator, argument and kind go round in order; numbers, shape and dtype are drawn. */
size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]) {
    enum { TENSORS = 2, NODES = 2, EACH = KINDS + TENSORS + NODES }; /* tensors come thrice */
    const uint64_t lot = (i + 1) * 0x9e3779b97f4a7c15u;
    int arg = 0, op = 0;
    for (uint64_t at = i / EACH; at > 0; at--) {
        int nargs = cfx__op_info_of(cfx_op_at(op))->schema->nargs;
        if (++arg >= nargs)
            op = (op + 1) % cfx_op_count(), arg = 0;
    }
    const uint32_t turn = (uint32_t)(i % EACH), number = number_of(op);
    size_t n = 0;
    to[n++] = (uint8_t)(number >> 8), to[n++] = (uint8_t)number, to[n++] = (uint8_t)arg;
    if (turn < NODES) {
        to[n++] = 0, to[n++] = (uint8_t)turn;
    } else {
        const uint32_t kind = turn - NODES < KINDS ? turn - NODES : TENSOR;
        to[n++] = 1, to[n++] = (uint8_t)(lot >> 24), to[n++] = (uint8_t)kind;
        if (kind == FLOAT || kind == DTYPE)
            to[n++] = (uint8_t)(lot >> 32);
    }
    to[n++] = (uint8_t)(lot >> 40), to[n++] = lot >> 63 ? 0 : (uint8_t)(lot >> 48);
    return n;
}
