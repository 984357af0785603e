/* log, time and remove_logging: lines that a program prints while it runs about what chosen nodes
 * give and how long they take, put in and taken out. */
#include "pass.h"

/* ---- what they give -------------------------------------------------------------------------- */

static cfx_node *print(cfx_node *at, cfx_value args) {
    cfx_node *made = NULL;
    CFX_INSERT_BEFORE(at->graph, at)
        made = cfx_graph_call_function(at->graph, "torch.ops.higher_order.print", args,
                                       cfx_none());
    return made;
}

/* The least that a symbol may be; none is told of one that data decide. */
static bool least_of(const struct cfx_sym *name, void *ranges, int64_t *out) {
    const cfx_value range = cfx_dict_get(ranges, name->name);
    const bool told = range.tag == CFX_TAG_TUPLE && cfx_at(range, 0).tag == CFX_TAG_INT;
    *out = told ? cfx_integer(cfx_at(range, 0)) : 0;
    return told;
}

/* Whether the least and the largest of a result can be told: there are some, at the least sizes
 * too, and they have an order. */
static bool has_order(const cfx_program *p, const cfx_result *r) {
    for (int i = 0; i < r->ndim; i++) {
        const cfx_value size = cfx_result_size(r, i);
        int64_t n = 0;
        if (size.tag == CFX_TAG_SYM && !cfx__sym_eval(cfx_as_sym(size), least_of, p->ranges, &n))
            return false;
        if ((size.tag == CFX_TAG_SYM ? n : cfx_integer(size)) <= 0)
            return false;
    }
    return !cfx__dtype_is_complex(r->dtype);
}

/* A line with name, shape and dtype, and the numbers: all of them, or what range they have. */
static void log_node(const cfx_program *p, cfx_node *n, bool whole) {
    cfx_node *at = cfx_node_after(n);
    cfx_result r = cfx_node_result(n);
    const char *text = cfx__text_format("%s %s", n->name, cfx_result_text(&r));
    if (whole || !has_order(p, &r)) {
        print(at, cfx_tuple(cfx__text_format("%s {}", text), n));
        return;
    }
    cfx_node *least = cfx__call_new(at, n, "aten.amin.default", cfx_tuple(n), cfx_none());
    cfx_node *most = cfx__call_new(at, n, "aten.amax.default", cfx_tuple(n), cfx_none());
    if (!cfx__dtype_is_float(r.dtype)) {
        print(at, cfx_tuple(cfx__text_format("%s min {} max {}", text), least, most));
        return;
    }
    cfx_node *mean = cfx__call_new(at, n, "aten.mean.default", cfx_tuple(n), cfx_none());
    print(at, cfx_tuple(cfx__text_format("%s min {} max {} mean {}", text), least, most, mean));
}

static int run_log(cfx_program *p, const cfx_dict *options) {
    bool whole = !strcmp(cfx__pass_text(options, "values"), "yes");
    const cfx_list *chosen = cfx_as_list(cfx__pass_nodes(p, options, false));
    for (int64_t i = 0; i < chosen->len && cfx_ok(); i++)
        CFX_SCOPE log_node(p, cfx_as_node(chosen->items[i]), whole);
    return (int)chosen->len;
}

const cfx_pass cfx__pass_log = {
    .name = "log",
    .summary = "prints shape, least, largest and mean of what chosen nodes (nodes=SELECTOR) give, "
               "or (values=yes) all of it",
    .options = "nodes=* values=no",
    .promise = CFX_PASS_EXACT,
    .run = run_log,
};

/* ---- how long they take ---------------------------------------------------------------------- */

static void time_node(cfx_node *n) {
    cfx_node *start = cfx__call_new(n, n, "profiler._record_function_enter.default",
                                    cfx_tuple(n->name), cfx_none());
    cfx__call_new(cfx_node_after(n), n, "profiler._record_function_exit.default",
                  cfx_tuple(start), cfx_none());
}

static int run_time(cfx_program *p, const cfx_dict *options) {
    const cfx_list *chosen = cfx_as_list(cfx__pass_nodes(p, options, false));
    for (int64_t i = 0; i < chosen->len && cfx_ok(); i++)
        CFX_SCOPE time_node(cfx_as_node(chosen->items[i]));
    return (int)chosen->len;
}

const cfx_pass cfx__pass_time = {
    .name = "time",
    .summary = "times chosen nodes (nodes=SELECTOR): a line for each, and in PyTorch's profiler a "
               "region",
    .options = "nodes=*",
    .promise = CFX_PASS_EXACT,
    .run = run_time,
};

/* ---- out again ------------------------------------------------------------------------------- */

static int remove_logging(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int changes = 0;
    for (cfx_node *n = cfx_graph_last(m->graph); n; n = cfx_node_before(n))
        if (cfx__node_logs(n) && !n->num_users)
            changes += cfx_graph_erase(n);
    return changes + (changes ? cfx__graph_sweep(m->graph, cfx_node_is_impure) : 0);
}

static int run_remove(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, remove_logging);
}

const cfx_pass cfx__pass_remove_logging = {
    .name = "remove_logging",
    .summary = "removes what prints or is timed while the program runs",
    .promise = CFX_PASS_EXACT,
    .run = run_remove,
};
