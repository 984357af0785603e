/* Drawing control flow: branches, and bodies of loops, are drawn graphs of their own. They read
 * what they are given and give new tensors, as PyTorch asks of them. See drawing.h. */
#include "drawing.h"

#include <cfx/ops.h>

/* The latest value that is like a tensor; the first one where none is. */
static operand *latest_like(drawing *d, const cfx_tensor *like) {
    for (int i = d->n - 1; i > 0; i--)
        if (d->values[i].fake->dtype == like->dtype &&
            cfx__tensor_same_shape(d->values[i].fake, like))
            return &d->values[i];
    return &d->values[0];
}

static cfx_tensor *nothing(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return x;
}

static void add_placeholders(drawing *b, int n, cfx_tensor *const *given) {
    static const char *const names[] = {"a", "b", "c"};
    b->p.graph = cfx_graph_new();
    for (int i = 0; i < n; i++)
        draw_value(b, cfx_graph_placeholder(b->p.graph, names[i], NULL, false, CFX_NONE),
                   cfx_tensor_value(cfx__tensor_faked(given[i])));
}

/* The module of a graph, read by a node of the program. */
static cfx_value body_of(drawing *d, cfx_module *root, cfx_graph *g) {
    char name[16];
    snprintf(name, sizeof name, "body%d", d->bodies++);
    cfx_nn_add(d->p.root, name, cfx_graph_module(root, g, NULL));
    return cfx_node_value(cfx_graph_get_attr(d->p.graph, name));
}

/* A graph that takes n tensors and gives a copy of something like each of `like`; counts: and
 * before them the first tensor and one more. */
static cfx_value add_body(drawing *d, int n, cfx_tensor *const *given, bool counts, int nlike,
                          cfx_tensor *const *like) {
    drawing b = {.p = {.root = cfx_module_new("Body", nothing, "x"), .state = d->p.state},
                 .wide = d->wide, .large = d->large, .depth = d->depth + 1};
    cfx_value results = cfx_tuple_value(0, NULL);
    add_placeholders(&b, n, given);
    for (uint32_t left = 1 + test_draw(4), tries = 24; left > 0 && tries > 0; tries--)
        left -= d->wide && d->depth < 2 && chance(10) ? draw_control(&b) : draw_plain(&b);
    if (counts && CALL(&b, &cfx_op_add_Tensor, node(&b.values[0]), cfx_int(1)))
        cfx_list_append(cfx_as_list(results), node(&b.values[b.n - 1]));
    for (int i = 0; i < nlike; i++)
        if (CALL(&b, &cfx_op_clone, node(latest_like(&b, like[i])), cfx_contiguous_format))
            cfx_list_append(cfx_as_list(results), node(&b.values[b.n - 1]));
    cfx_graph_output(b.p.graph, results);
    d->p.random |= b.p.random;
    return body_of(d, b.p.root, b.p.graph);
}

/* Values of what a call gives: tensors like these, each with `rows` before its shape; 0: none. */
static bool add_results(drawing *d, cfx_node *call, int from, int n, cfx_tensor *const *like,
                        int64_t rows) {
    for (int i = 0; i < n; i++) {
        int64_t shape[CFX_MAX_DIMS + 1] = {rows};
        memcpy(shape + (rows > 0), like[i]->shape, (size_t)like[i]->ndim * sizeof *shape);
        cfx_tensor *fake =
            cfx_tensor_fake((cfx_dtype)like[i]->dtype, like[i]->ndim + (rows > 0), shape, NULL);
        draw_value(d, cfx_graph_call(d->p.graph, "operator.getitem", call, from + i),
                   cfx_tensor_value(fake));
    }
    return cfx_ok();
}

static bool add_branch(drawing *d, operand x, operand y) {
    operand asked = *draw_operand(d, NULL, CFX_DTYPE_COUNT);
    cfx_tensor *given[] = {x.fake, y.fake};
    if (!CALL(d, &cfx_op_any, node(&asked)))
        return false;
    cfx_value choice = node(&d->values[d->n - 1]), yes = add_body(d, 2, given, false, 2, given),
              no = add_body(d, 2, given, false, 2, given);
    cfx_node *call = cfx_graph_call(d->p.graph, "torch.ops.higher_order.cond", choice, yes, no,
                                    cfx_tuple(node(&x), node(&y)));
    return add_results(d, call, 0, 2, given, 0);
}

/* Up to three rounds: a counter is carried along. */
static bool add_while(drawing *d, operand x, operand y) {
    operand count = *draw_weight(d, draw_tensor(CFX_I64, 0, NULL), true);
    cfx_tensor *given[] = {count.fake, x.fake, y.fake};
    drawing test = {.p = {.root = d->p.root, .state = d->p.state}};
    if (!CALL(d, &cfx_op_clone, node(&x), cfx_contiguous_format))
        return false;
    cfx_value start = node(&d->values[d->n - 1]);
    add_placeholders(&test, 3, given);
    CALL(&test, &cfx_op_lt_Scalar, node(&test.values[0]), cfx_int(3));
    cfx_graph_output(test.p.graph, node(&test.values[test.n - 1]));
    cfx_value goes = body_of(d, NULL, test.p.graph), body = add_body(d, 3, given, true, 1, &x.fake);
    cfx_node *call = cfx_graph_call(d->p.graph, "torch.ops.higher_order.while_loop", goes, body,
                                    cfx_tuple(node(&count), start), cfx_tuple(node(&y)));
    return add_results(d, call, 0, 2, given, 0);
}

/* The rows of x one by one: alone, or with a tensor that goes from each to the next. */
static bool add_rows(drawing *d, operand x, operand y, bool carries) {
    if (d->large && x.fake->ndim && x.fake->shape[0] > 64) /* rounds of rounds take minutes */
        return false;
    if (!x.fake->ndim || !x.fake->shape[0] || (carries && !CALL(d, &cfx_op_clone, node(&y),
                                                                cfx_contiguous_format)))
        return false;
    cfx_value start = node(&d->values[d->n - 1]);
    cfx_tensor *row = cfx_select(x.fake, 0, 0), *given[] = {carries ? y.fake : row,
                                                            carries ? row : y.fake};
    cfx_value body = add_body(d, 2, given, false, 1 + carries, given), xs = cfx_list(node(&x));
    cfx_node *call =
        carries ? cfx_graph_call(d->p.graph, "torch.ops.higher_order.scan", body, cfx_list(start),
                                 xs, cfx_tuple())
                : cfx_graph_call(d->p.graph, "torch.ops.higher_order.map_impl", body, xs,
                                 cfx_list(node(&y)));
    return add_results(d, call, 0, carries, given, 0) &&
           add_results(d, call, carries, 1, &row, x.fake->shape[0]);
}

bool draw_control(drawing *d) {
    const operand x = *draw_operand(d, NULL, CFX_F32), y = *draw_operand(d, x.fake, CFX_F32);
    if (d->n > DRAWN_VALUES - 16)
        return false;
    switch (test_draw(4)) {
    case 0: return !d->depth && add_while(d, x, y); /* its counter is a buffer */
    case 1: return add_rows(d, x, y, chance(2));
    default: return add_branch(d, x, y);
    }
}

/* Some calls between the begin and the end of autocast. */
bool draw_region(drawing *d) {
    const cfx_dtype lower = chance(3) ? CFX_F16 : CFX_BF16;
    if (d->depth || d->n > DRAWN_VALUES - 24)
        return false;
    cfx_node *enter = cfx_graph_call(d->p.graph, "torch.amp.autocast_mode._enter_autocast", "cpu",
                                     cfx_dtype_value(lower), true, cfx_none());
    cfx_autocast_begin(.dtype = lower);
    for (uint32_t left = 1 + test_draw(4), tries = 24; left > 0 && tries > 0; tries--)
        switch (test_draw(6)) {
        case 0: left -= draw_linear(d); break;
        case 1: left -= draw_conv(d); break;
        case 2: left -= draw_layer_norm(d); break;
        case 3: left -= draw_attention(d); break;
        default: left -= draw_plain(d);
        }
    cfx_autocast_end();
    cfx_graph_call(d->p.graph, "torch.amp.autocast_mode._exit_autocast", enter);
    return cfx_ok();
}
