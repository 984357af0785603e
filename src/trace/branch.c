/* Sub-graphs on their way: what they capture, and what their inputs are called. */
#include "branch.h"

#include <ctype.h>

/* ---- what is captured ------------------------------------------------------------------------ */

cfx__branch cfx__branch_new(cfx_graph *around, cfx__branch *outer) {
    return (cfx__branch){.graph = cfx_graph_new(), .around = around, .outer = outer,
                         .captured = cfx_as_list(cfx_list_value(0, NULL)),
                         .lifted = cfx_dict_new()};
}

cfx_node *cfx__branch_input(cfx__branch *b) {
    const char *name = cfx__text_format("arg%d_1", b->ninputs++);
    cfx_insert was = b->last_input ? cfx_graph_insert_after(b->graph, b->last_input)
                                   : cfx_graph_insert_before(b->graph, NULL);
    cfx_node *n = cfx_graph_placeholder(b->graph, name, NULL, false, cfx_none());
    cfx_graph_set_insert(b->graph, was);
    return b->last_input = n;
}

cfx_node *cfx__branch_lift(cfx__branch *b, cfx_node *n) {
    if (n->graph == b->graph)
        return n;
    const cfx_value *known = cfx_dict_find(b->lifted, cfx_node_value(n));
    if (known)
        return cfx_as_node(*known);
    if (b->outer ? !cfx__branch_lift(b->outer, n) : n->graph != b->around)
        return NULL;
    cfx_node *input = cfx__branch_input(b);
    cfx_value val = cfx_node_get_meta(n, "val");
    if (!cfx_is_none(val))
        cfx_node_set_meta(input, "val", val);
    cfx_dict_put(b->lifted, cfx_node_value(n), cfx_node_value(input));
    cfx_list_append(b->captured, cfx_node_value(n));
    return input;
}

void cfx__branch_order(cfx__branch *b, const cfx_list *captured) {
    for (int64_t i = 0; i < captured->len; i++) {
        cfx_node *input = cfx__branch_lift(b, cfx_as_node(captured->items[i]));
        if (!input || input == b->last_input)
            continue;
        cfx_node_move_after(input, b->last_input);
        b->last_input = input;
    }
}

/* ---- what inputs are called ------------------------------------------------------------------ */

/* Names given out in one graph: each, and the highest number of each that ends in one. */
typedef struct {
    cfx_dict *used, *numbers;
} names;

/* The part of a name before the number at its end, which is put in *number; NULL: it has none. */
static const char *stem_of(const char *name, int64_t *number) {
    size_t end = strlen(name), n = end;
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    if (n == end || n < 2 || name[n - 1] != '_')
        return NULL;
    *number = strtoll(name + n, NULL, 10);
    return cfx__text_format("%.*s", (int)n - 1, name);
}

static void give_out(names *u, const char *name) {
    int64_t number = 0;
    const char *stem = stem_of(name, &number);
    cfx_dict_set(u->used, name, cfx_bool(true));
    if (stem && number > cfx_integer(cfx_dict_get(u->numbers, stem)))
        cfx_dict_set(u->numbers, stem, cfx_int(number));
}

static const char *free_name(const names *u, const char *name) {
    if (cfx_is_none(cfx_dict_get(u->used, name)))
        return name;
    int64_t number = 0;
    const char *stem = stem_of(name, &number);
    stem = stem ? stem : name;
    long long next = (long long)cfx_integer(cfx_dict_get(u->numbers, stem)) + 1;
    return cfx__text_format("%s_%lld", stem, next);
}

/* Names of all nodes out of the way, in the order of nodes; a list of what they were. */
static cfx_list *clear_names(cfx_graph *g) {
    cfx_list *were = cfx_as_list(cfx_list_value(0, NULL));
    int64_t i = 0;
    cfx_each_node(g, n) {
        cfx_list_append(were, cfx_string_value(n->name));
        cfx_node_set_name(n, cfx__text_format("cfx_being_renamed_%lld", (long long)i++));
    }
    return were;
}

/* Inputs of the graph are called as the nodes in `operands` are; arg0_1, arg1_1, ... where that is
 * NULL. */
static void rename_inputs(cfx_graph *g, const cfx_list *operands) {
    names u = {cfx_dict_new(), cfx_dict_new()};
    cfx_list *were = clear_names(g);
    int64_t i = 0;
    cfx_each_node(g, n) {
        const char *name = free_name(&u, cfx_text(were->items[i]));
        if (n->op == CFX_PLACEHOLDER) {
            bool named = operands && i < operands->len && operands->items[i].tag == CFX_TAG_NODE;
            name = named ? free_name(&u, cfx_as_node(operands->items[i])->name) /* given twice? */
                         : cfx__text_format("arg%lld_1", (long long)i);
            cfx_node_set_target(n, (cfx_target){.name = name});
        }
        cfx_node_set_name(n, name);
        give_out(&u, name);
        i++;
    }
}

/* The operands that sub-graphs of the call get one by one, where torch.export names inputs after
 * them; NULL where it does not. */
static cfx_list *named_operands(const cfx_node *n) {
    bool cond = cfx__higher_is(n, "cond"), wrap = cfx__higher_is(n, "wrap_with_set_grad_enabled");
    if (!cond && !wrap && !cfx__higher_is(n, "map_impl"))
        return NULL;
    const cfx_list *args = cfx_as_list(n->args);
    cfx_list *all = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t k = cond ? 3 : wrap ? 2 : 1; k < args->len; k++) {
        cfx_value one = cfx_list_value(1, &args->items[k]);
        const cfx_list *part = cfx_as_list(wrap ? one : args->items[k]);
        for (int64_t i = 0; i < part->len; i++)
            cfx_list_append(all, part->items[i]);
    }
    return all;
}

cfx_graph *cfx__branch_graph(const cfx_graph *g, const cfx_module *root, const char *name,
                             cfx_module **below) {
    cfx_graph *kept = cfx__graph_subgraph(g, name);
    *below = !kept && root ? cfx_module_find(root, name) : NULL;
    return *below ? (*below)->graph : kept;
}

static void rename_graphs(cfx_graph *g, const cfx_module *root, bool named);

/* Below a graph whose inputs are not named, none are. */
static void rename_subgraphs(cfx_graph *g, const cfx_module *root, const cfx_node *n, bool named) {
    const cfx_list *args = cfx_as_list(n->args), *operands = named ? named_operands(n) : NULL;
    const char *higher = cfx_node_higher_order(n);
    bool region = higher && !strncmp(higher, "wrap_with_", 10);
    for (int64_t i = 0; i < args->len; i++) {
        cfx_module *below = NULL;
        const cfx_node *a =
            args->items[i].tag == CFX_TAG_NODE ? cfx_as_node(args->items[i]) : NULL;
        cfx_graph *sub = a && a->op == CFX_GET_ATTR
                             ? cfx__branch_graph(g, root, a->target.name, &below)
                             : NULL;
        if (!sub)
            continue;
        if (operands || !region)
            rename_inputs(sub, operands);
        rename_graphs(sub, below, operands != NULL);
    }
}

static void rename_graphs(cfx_graph *g, const cfx_module *root, bool named) {
    cfx_each_node(g, n)
        if (cfx_node_higher_order(n))
            CFX_SCOPE rename_subgraphs(g, root, n, named);
}

void cfx__branch_names(cfx_graph *g, const cfx_module *root) { rename_graphs(g, root, true); }
