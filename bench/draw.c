/* Drawings: layout and writing of transformer-like graphs, beside graphviz where it finishes. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- a transformer of any length ---------------------------------------------------------------
 */

typedef struct maker {
    cfx_graph *g;
    cfx_tensor *shape;
    int layer;
} maker;

static void put_in(maker *m, cfx_node *n, const char *part) {
    char layer[32], inner[64];
    snprintf(layer, sizeof layer, "layers.%d", m->layer);
    snprintf(inner, sizeof inner, "layers.%d.%s", m->layer, part);
    cfx_dict *stack = cfx_dict_new();
    cfx_dict_set(stack, "root", cfx_tuple("", "Transformer"));
    cfx_dict_set(stack, layer, cfx_tuple(layer, "Layer"));
    cfx_dict_set(stack, inner, cfx_tuple(inner, part[0] == 'a' ? "Attention" : "MLP"));
    cfx_node_set_meta(n, "nn_module_stack", cfx_dict_value(stack));
    cfx_node_set_meta(n, "val", cfx_tensor_value(m->shape));
}

static cfx_node *call(maker *m, const char *part, const char *target, cfx_value args) {
    cfx_node *n = cfx_graph_call_function(m->g, target, args, CFX_NONE);
    put_in(m, n, part);
    return n;
}

static cfx_node *linear(maker *m, const char *part, cfx_node *x, int k) {
    char path[64];
    snprintf(path, sizeof path, "layers.%d.%s.w%d", m->layer, part, k);
    return call(m, part, "torch.ops.aten.linear.default",
                cfx_tuple(x, cfx_graph_get_attr(m->g, path)));
}

/* 24 nodes a layer, and one mask that all of them read. */
static cfx_node *layer(maker *m, cfx_node *x, cfx_node *mask) {
    cfx_node *h =
        call(m, "attention", "torch.ops.aten.layer_norm.default", cfx_tuple(x, cfx_list(64)));
    cfx_node *part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = linear(m, "attention", h, i);
        part[i] = call(m, "attention", "torch.ops.aten.view.default",
                       cfx_tuple(part[i], cfx_list(1, 8, 4, 16)));
        part[i] = call(m, "attention", "torch.ops.aten.transpose.int", cfx_tuple(part[i], 1, 2));
    }
    h = call(m, "attention", "torch.ops.aten.scaled_dot_product_attention.default",
             cfx_tuple(part[0], part[1], part[2], mask));
    h = call(m, "attention", "torch.ops.aten.transpose.int", cfx_tuple(h, 1, 2));
    h = linear(m, "attention", h, 3);
    x = call(m, "attention", "torch.ops.aten.add.Tensor", cfx_tuple(x, h));
    h = call(m, "mlp", "torch.ops.aten.layer_norm.default", cfx_tuple(x, cfx_list(64)));
    h = call(m, "mlp", "torch.ops.aten.gelu.default", cfx_tuple(linear(m, "mlp", h, 0)));
    return call(m, "mlp", "torch.ops.aten.add.Tensor", cfx_tuple(x, linear(m, "mlp", h, 1)));
}

static cfx_graph *transformer(int nodes) {
    int64_t shape[] = {1, 8, 64};
    maker m = {cfx_graph_new(), cfx_tensor_fake(CFX_F32, 3, shape, NULL), 0};
    cfx_node *x = cfx_graph_placeholder(m.g, "x", NULL, false, CFX_NONE);
    cfx_node *mask = cfx_graph_placeholder(m.g, "mask", NULL, false, CFX_NONE);
    for (; cfx_graph_len(m.g) < nodes; m.layer++)
        CFX_SCOPE
    x = layer(&m, x, mask);
    cfx_graph_output(m.g, cfx_node_value(x));
    return m.g;
}

/* ---- times ------------------------------------------------------------------------------------
 */

typedef struct picture {
    cfx_graph *g;
    cfx_draw_options options;
} picture;

static void draw(void *arg) {
    picture *p = arg;
    CFX_SCOPE
    cfx_graph_draw(p->g, p->options);
}

enum { PATIENCE = 20 }; /* seconds of CPU time that graphviz gets */

static double children_ns(void) {
    struct rusage r;
    getrusage(RUSAGE_CHILDREN, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e9 +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e3;
}

/* Nanoseconds of CPU time that graphviz needs for the same graph; nan when it is not there or does
 * not finish. */
static double graphviz(cfx_graph *g) {
    char path[] = "cfx_bench_XXXXXX.dot", command[96];
    int fd = mkstemps(path, 4);
    if (fd < 0)
        return NAN;
    close(fd);
    cfx_graph_draw_file(g, path, (cfx_draw_options){.ignore_getattr = true});
    snprintf(command, sizeof command, "ulimit -t %d; dot -Tsvg -o /dev/null %s 2>/dev/null",
             PATIENCE, path);
    double before = children_ns();
    int status = system(command);
    remove(path);
    return status ? NAN : children_ns() - before;
}

BENCH(draw) {
    static const int sizes[] = {100, 1000, 10000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char what[64];
        picture p = {transformer(sizes[i]), {.all = true}};
        bool tried = sizes[i] <= 1000; /* it does not finish those already */
        double peer = tried ? graphviz(p.g) : NAN;
        snprintf(what, sizeof what, "draw %d nodes, all of them", sizes[i]);
        bench_row(what, bench_time(draw, &p),
                  !tried        ? "-"
                  : isnan(peer) ? "graphviz (no end)"
                                : "graphviz",
                  peer);
        p.options.all = false;
        snprintf(what, sizeof what, "draw %d nodes, modules closed", sizes[i]);
        if (sizes[i] > 400)
            bench_row(what, bench_time(draw, &p), "-", NAN);
    }
}
