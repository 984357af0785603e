/* cfx show --path and --around: how one node reaches another, and what is near a node. */
#include "look.h"

#include <string.h>

#include "../graph/graph.h"

static cfx_node *find(const cfx_program *p, const char *name) {
    cfx_node *n = cfx_graph_find(p->module->graph, name);
    if (!n)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node is called %s", name);
    return n;
}

static void print_node(const char *mark, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    const char *op = n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT ? cfx_opcode_name(n->op)
                                                                     : n->target.name;
    op = strncmp(op, "torch.ops.", 10) ? op : op + 10;
    const char *result = r.kind == CFX_RESULT_UNKNOWN ? "" : cfx_result_text(&r);
    cli_print("%-4s %-28s %-34s %s\n", mark, n->name, op, result);
    cli_answer_row("nodes", cfx_dict_of("node", n->name, "at", mark, "target", op, "result",
                                        result));
}

/* Steps from a node to each that it feeds, -1: none; by node id. The caller frees. The nodes come
 * in an order in which each follows what feeds it. */
static int *steps_from(const cfx_graph *g, const cfx_node *from) {
    int *steps = cfx__alloc((g->made.len + 1) * sizeof *steps);
    for (size_t i = 0; i < g->made.len; i++)
        steps[i] = -1;
    steps[cfx__node_of(from)->id] = 0;
    cfx_each_node(g, n) cfx_each_input(n, u) {
        int before = steps[cfx__node_of(u->node)->id], *at = &steps[cfx__node_of(n)->id];
        if (before >= 0 && (*at < 0 || before + 1 < *at))
            *at = before + 1;
    }
    return steps;
}

int cli_show_path(const cfx_program *p, const char *from, const char *to) {
    cfx_node *a = find(p, from), *b = a ? find(p, to) : NULL;
    if (!b)
        return cli_trouble();
    int *steps = steps_from(p->module->graph, a);
    VEC(cfx_node *) way = {0};
    for (cfx_node *n = steps[cfx__node_of(b)->id] < 0 ? NULL : b; n;) {
        VEC_PUSH(way, n);
        cfx_node *before = NULL;
        cfx_each_input(n, u) if (!before && steps[cfx__node_of(u->node)->id] ==
                                                steps[cfx__node_of(n)->id] - 1)
            before = n == a ? NULL : u->node;
        n = before;
    }
    for (size_t i = way.len; i-- > 0;)
        CFX_SCOPE print_node(i + 1 < way.len ? "->" : "", way.data[i]);
    if (!way.len)
        cli_print("%s does not reach %s\n", from, to);
    bool found = way.len > 0;
    VEC_FREE(way);
    cfx__free(steps);
    return found ? CLI_DONE : CLI_DIFFERS;
}

int cli_show_around(const cfx_program *p, const char *name, int hops) {
    cfx_graph *g = p->module->graph;
    cfx_node *middle = find(p, name);
    if (!middle)
        return cli_trouble();
    int *down = steps_from(g, middle);
    int *up = cfx__alloc((g->made.len + 1) * sizeof *up);
    for (size_t i = 0; i < g->made.len; i++)
        up[i] = -1;
    up[cfx__node_of(middle)->id] = 0;
    for (cfx_node *n = g->last; n; n = n->prev) {
        int here = up[cfx__node_of(n)->id];
        cfx_each_input(n, u) {
            int *at = &up[cfx__node_of(u->node)->id];
            if (here >= 0 && (*at < 0 || here + 1 < *at))
                *at = here + 1;
        }
    }
    cfx_each_node(g, n) {
        int above = up[cfx__node_of(n)->id], below = down[cfx__node_of(n)->id];
        if (above >= 0 && above <= hops)
            CFX_SCOPE print_node(above ? cfx__text_format("-%d", above) : "*", n);
        else if (below > 0 && below <= hops)
            CFX_SCOPE print_node(cfx__text_format("+%d", below), n);
    }
    cfx__free(up);
    cfx__free(down);
    return CLI_DONE;
}
