/* Grad modes and autocast in a recorded graph: what was called between two changes of a mode
 * becomes a graph of its own, which a higher-order operator runs in that mode. As in torch.export,
 * names of nodes included: the graph is cut at the changes, and the parts that need no mode of
 * their own are put back. Start at cfx__regions_make. */
#include "export.h"

#include <stdio.h>

static const char set_grad[] = "torch._C._set_grad_enabled";
static const char enter_autocast[] = "torch.amp.autocast_mode._enter_autocast";
static const char exit_autocast[] = "torch.amp.autocast_mode._exit_autocast";

static bool calls(const cfx_node *n, const char *function) {
    return n->op == CFX_CALL_FUNCTION && !strcmp(n->target.name, function);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Nodes that follow each other. */
typedef struct {
    cfx_node *enter, *leave; /* what changes the mode and changes it back; NULL: nothing does */
    bool region;             /* it becomes a graph of its own */
    VEC(cfx_node *) nodes;   /* without those two */
    cfx_list *outputs;       /* those that others use, in the order in which they do; scope */
} part;

typedef struct {
    cfx_graph *from, *to;
    const char *wrap;    /* what runs a region */
    VEC(part) parts;
    cfx_dict *part_of;   /* node to the number of its part; scope */
    cfx_dict *nodes;     /* node to that of the new graph; scope */
    const cfx__export *e; /* whose inputs these are; NULL: those of a sub-graph */
} cutting;

static part *new_part(cutting *c, cfx_node *enter, bool region) {
    part p = {.enter = enter, .region = region, .outputs = cfx_as_list(cfx_list_value(0, NULL))};
    VEC_PUSH(c->parts, p);
    return &c->parts.data[c->parts.len - 1];
}

static void put(cutting *c, cfx_node *n) {
    part *p = c->parts.len ? &c->parts.data[c->parts.len - 1] : new_part(c, NULL, false);
    VEC_PUSH(p->nodes, n);
    cfx_dict_put(c->part_of, cfx_node_value(n), cfx_int((int64_t)c->parts.len - 1));
}

static bool is_inner(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT;
}

/* A part for each grad mode. */
static bool cut_at_grad_modes(cutting *c, bool ambient) {
    cfx_each_node(c->from, n) {
        if (calls(n, set_grad))
            new_part(c, n, cfx_as_bool(cfx_at(n->args, 0)) != ambient);
        else if (is_inner(n))
            put(c, n);
    }
    return cfx_ok();
}

static bool refuse(const char *what) {
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "%s: a forward that is exported ends the autocast regions that it begins, in the same "
             "branch and under the same grad mode",
             what);
    return false;
}

/* A part for each outermost region of autocast, and for what is between them. */
static bool cut_at_autocast(cutting *c) {
    VEC(cfx_node *) open = {0};
    bool fine = true, ended = false;
    cfx_each_node(c->from, n) {
        if (!fine || !is_inner(n))
            continue;
        if (calls(n, enter_autocast)) {
            if (!open.len)
                new_part(c, n, true);
            else
                put(c, n);
            VEC_PUSH(open, n);
        } else if (calls(n, exit_autocast)) {
            cfx_value of = cfx_at(n->args, 0);
            fine = open.len && of.tag == CFX_TAG_NODE &&
                   cfx_as_node(of) == open.data[open.len - 1];
            if (!fine)
                refuse("autocast is ended that was not begun last");
            else if (--open.len)
                put(c, n);
            else
                c->parts.data[c->parts.len - 1].leave = n;
        } else {
            if (ended && !open.len)
                new_part(c, NULL, false);
            put(c, n);
        }
        ended = calls(n, exit_autocast) && !open.len;
    }
    if (fine && open.len)
        fine = refuse("autocast is begun and never ended");
    VEC_FREE(open);
    return fine;
}

/* ---- what parts give each other -------------------------------------------------------------- */

typedef struct {
    cutting *cut;
    int64_t user; /* the number of the part that uses a node; -1: none */
} using;

static int64_t number_of(const cutting *c, cfx_node *n) {
    const cfx_value *at = cfx_dict_find(c->part_of, cfx_node_value(n));
    return at ? cfx_integer(*at) : -1;
}

static void note_use(cfx_node *n, void *user) {
    const using *u = user;
    int64_t made = number_of(u->cut, n);
    if (made < 0 || made == u->user)
        return;
    cfx_list *outputs = u->cut->parts.data[made].outputs;
    for (int64_t i = 0; i < outputs->len; i++)
        if (cfx_as_node(outputs->items[i]) == n)
            return;
    cfx_list_append(outputs, cfx_node_value(n));
}

static void note_uses(cutting *c) {
    cfx_each_node(c->from, n) {
        using u = {c, number_of(c, n)};
        cfx__node_each(n->args, note_use, &u);
        cfx__node_each(n->kwargs, note_use, &u);
    }
}

/* ---- the new graph --------------------------------------------------------------------------- */

static cfx_value mapped(cfx_node *n, void *nodes) {
    const cfx_value *v = cfx_dict_find(nodes, cfx_node_value(n));
    return v ? *v : cfx_bad();
}

/* Whether a region will be called so, or a sub-graph is. */
static bool is_taken(const cutting *c, const char *name) {
    int first = c->parts.data[0].enter ? 1 : 0, number = -1;
    bool region = sscanf(name, "submod_%d", &number) == 1 && number >= first &&
                  number < first + (int)c->parts.len;
    return region || cfx__graph_subgraph(c->to, name);
}

static const char *free_name(const cutting *c, const char *name) {
    for (int i = 1; is_taken(c, name); i++)
        name = cfx__text_format("submod_%d", i);
    return name;
}

/* A copy, with the sub-graph that it names, which has another name where it meets regions. */
static cfx_node *copy(cutting *c, cfx_graph *to, cfx_node *n, cfx_dict *nodes) {
    cfx_node *made = cfx_graph_copy_node(to, n, mapped, nodes);
    cfx_graph *sub = n->op == CFX_GET_ATTR ? cfx__graph_subgraph(c->from, n->target.name) : NULL;
    if (sub && made->graph) {
        const char *name = to == c->to ? free_name(c, n->target.name) : n->target.name;
        cfx__graph_add_subgraph(to, name, sub);
        cfx_node_set_target(made, (cfx_target){.name = name});
    }
    cfx_dict_put(nodes, cfx_node_value(n), cfx_node_value(made));
    return made;
}

/* What PyTorch calls an input of the program while it cuts: by its number among those that are no
 * constants. */
static const char *raw_name(const cutting *c, const cfx_node *n) {
    int number = 0;
    for (size_t i = 0; c->e && n->op == CFX_PLACEHOLDER && i < c->e->inputs.len; i++) {
        bool constant = c->e->inputs.data[i].kind == CFX_IN_CONSTANT;
        if (!strcmp(c->e->inputs.data[i].name, n->name))
            return constant ? n->name : cfx__text_format("arg%d_1", number);
        number += !constant;
    }
    return n->name;
}

typedef struct {
    cutting *cut;
    cfx_graph *graph;
    cfx_dict *nodes;  /* node to that of the region */
    cfx_list *inputs; /* nodes of the whole */
} region;

/* Nodes of the whole that the region uses become its inputs, in the order of their uses. */
static void add_input(cfx_node *n, void *user) {
    region *r = user;
    if (cfx_dict_find(r->nodes, cfx_node_value(n)))
        return;
    cfx_node *input =
        cfx_graph_placeholder(r->graph, raw_name(r->cut, n), NULL, false, cfx_none());
    cfx_value val = cfx_node_get_meta(n, "val");
    if (!cfx_is_none(val))
        cfx_node_set_meta(input, "val", val);
    cfx_dict_put(r->nodes, cfx_node_value(n), cfx_node_value(input));
    cfx_list_append(r->inputs, cfx_node_value(n));
}

static cfx_graph *region_graph(cutting *c, const part *p, cfx_list *inputs) {
    region r = {c, cfx_graph_new(), cfx_dict_new(), inputs};
    for (size_t i = 0; i < p->nodes.len; i++) /* which are no inputs */
        cfx_dict_put(r.nodes, cfx_node_value(p->nodes.data[i]), cfx_none());
    for (size_t i = 0; i < p->nodes.len; i++) {
        cfx__node_each(p->nodes.data[i]->args, add_input, &r);
        cfx__node_each(p->nodes.data[i]->kwargs, add_input, &r);
    }
    for (size_t i = 0; i < p->nodes.len && cfx_ok(); i++)
        copy(c, r.graph, p->nodes.data[i], r.nodes);
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < p->outputs->len; i++)
        cfx_list_append(cfx_as_list(out), mapped(cfx_as_node(p->outputs->items[i]), r.nodes));
    if (cfx_ok())
        cfx_graph_output(r.graph, out);
    return r.graph;
}

static void copy_entry(cfx_node *to, const cfx_node *from, const char *key) {
    cfx_value v = from ? cfx_node_get_meta(from, key) : cfx_none();
    if (!cfx_is_none(v))
        cfx_node_set_meta(to, key, v);
}

/* The call that runs the region, and what takes its results. One result gives the call its name,
 * several give their names to what takes them. */
static void put_region(cutting *c, const part *p, int number) {
    const char *name = cfx__text_format("submod_%d", number);
    cfx_value args = cfx_tuple_value(0, NULL), vals = cfx_tuple_value(0, NULL);
    cfx_list *inputs = cfx_as_list(cfx_list_value(0, NULL));
    cfx__graph_add_subgraph(c->to, name, region_graph(c, p, inputs));
    cfx_node *attr = cfx_graph_get_attr(c->to, name);
    copy_entry(attr, p->enter, "nn_module_stack");
    for (int64_t i = 0; i < cfx_len(p->enter->args); i++)
        cfx_list_append(cfx_as_list(args), cfx_at(p->enter->args, i));
    cfx_list_append(cfx_as_list(args), cfx_node_value(attr));
    for (int64_t i = 0; i < inputs->len; i++)
        cfx_list_append(cfx_as_list(args), mapped(cfx_as_node(inputs->items[i]), c->nodes));
    bool one = p->outputs->len == 1;
    cfx_target target =
        cfx_graph_target(c->to, cfx__text_format("torch.ops.higher_order.%s", c->wrap));
    cfx_node *call = cfx_graph_create(c->to, CFX_CALL_FUNCTION, target, args, cfx_none(),
                                      one ? cfx_as_node(p->outputs->items[0])->name : c->wrap,
                                      NULL);
    copy_entry(call, p->enter, "nn_module_stack");
    for (int64_t i = 0; i < p->outputs->len && cfx_ok(); i++) {
        cfx_node *given = cfx_as_node(p->outputs->items[i]);
        cfx_node *item = cfx_graph_create(c->to, CFX_CALL_FUNCTION,
                                          cfx_graph_target(c->to, "operator.getitem"),
                                          cfx_tuple(call, i), cfx_none(),
                                          one ? "getitem" : given->name, NULL);
        item->meta = cfx_keep(given->meta);
        cfx_dict_put(c->nodes, cfx_node_value(given), cfx_node_value(item));
        cfx_list_append(cfx_as_list(vals), cfx_node_get_meta(given, "val"));
    }
    if (cfx_ok())
        cfx_node_set_meta(call, "val", vals);
}

/* The number of a part: they count from 0, where the first has something in it before a change. */
static int first_number(const cutting *c) { return c->parts.data[0].enter ? 1 : 0; }

/* Names that PyTorch gives the calls of all parts and takes away again. */
static void take_names(cutting *c) {
    for (size_t i = 0; i < c->parts.len; i++) {
        const part *p = &c->parts.data[i];
        const char *name = cfx__text_format("submod_%d", (int)i + first_number(c));
        cfx__name_create(&c->to->names, name, false);
        for (int64_t k = 0; p->outputs->len > 1 && k < p->outputs->len; k++)
            cfx__name_create(&c->to->names, "getitem", false);
    }
}

static void put_together(cutting *c) {
    take_names(c);
    for (size_t i = 0; i < c->parts.len && cfx_ok(); i++) {
        const part *p = &c->parts.data[i];
        if (p->region)
            put_region(c, p, (int)i + first_number(c));
        for (size_t k = 0; !p->region && k < p->nodes.len && cfx_ok(); k++)
            copy(c, c->to, p->nodes.data[k], c->nodes);
    }
    cfx_node *output = cfx_graph_output_node(c->from);
    if (cfx_ok())
        copy(c, c->to, output, c->nodes);
}

/* The graph with regions in place of changes of modes; the graph itself where there are none.
 * Scope; NULL with an error. */
static cfx_graph *cut(cfx_graph *g, bool grad, bool ambient, const cfx__export *e) {
    bool any = false;
    cfx_each_node(g, n) any |= grad ? calls(n, set_grad)
                                    : calls(n, enter_autocast) || calls(n, exit_autocast);
    if (!any)
        return g;
    cutting c = {.from = g, .to = cfx_graph_new(), .part_of = cfx_dict_new(), .e = e,
                 .nodes = cfx_dict_new(),
                 .wrap = grad ? "wrap_with_set_grad_enabled" : "wrap_with_autocast"};
    bool fine = grad ? cut_at_grad_modes(&c, ambient) : cut_at_autocast(&c);
    cfx_each_node(g, n) if (fine && n->op == CFX_PLACEHOLDER) {
        cfx_node *made = copy(&c, c.to, n, c.nodes);
        if (made->graph && strcmp(made->name, n->name)) /* be it a word of Python's */
            cfx_node_set_name(made, n->name);
    }
    if (fine) {
        note_uses(&c);
        put_together(&c);
    }
    for (size_t i = 0; i < c.parts.len; i++)
        VEC_FREE(c.parts.data[i].nodes);
    VEC_FREE(c.parts);
    return fine && cfx_ok() ? c.to : NULL;
}

/* ---- all graphs ------------------------------------------------------------------------------ */

/* The mode in which a sub-graph runs: that of the region which it is, or the one around it. */
static bool mode_of(const cfx_graph *g, const char *name, bool ambient) {
    cfx_each_node(g, n) {
        bool sets = cfx__higher_is(n, "wrap_with_set_grad_enabled") && cfx_len(n->args) > 1;
        cfx_value graph = sets ? cfx_at(n->args, 1) : cfx_none();
        if (graph.tag == CFX_TAG_NODE &&
            !strcmp(cfx_as_node(graph)->target.name, name))
            return cfx_as_bool(cfx_at(n->args, 0));
    }
    return ambient;
}

static cfx_graph *make(cfx_graph *g, bool ambient, const cfx__export *e) {
    g = cut(g, true, ambient, e);
    g = g ? cut(g, false, ambient, e) : g;
    for (size_t i = 0; g && i < g->subgraphs.len; i++) {
        struct cfx__graph_branch *b = &g->subgraphs.data[i];
        cfx_graph *sub = make(b->graph, mode_of(g, b->name, ambient), NULL);
        if (!sub)
            return NULL;
        if (sub != b->graph) {
            cfx_drop(b->graph);
            b->graph = cfx_keep(sub);
        }
    }
    return g;
}

/* The signature has the names of the nodes of its graph. */
static void take_inputs(cfx__export *e) {
    size_t i = 0;
    cfx_each_node(e->recorder.graph, n) if (n->op == CFX_PLACEHOLDER && i < e->inputs.len)
        e->inputs.data[i++].name = n->name;
}

bool cfx__regions_make(cfx__export *e) {
    size_t mark = cfx_scope_open();
    cfx_graph *was = e->recorder.graph;
    cfx_graph *made = make(was, e->recorder.modes_before.grad == CFX_GRAD_ON, e);
    if (made && made != was) {
        e->recorder.graph = cfx_keep(made);
        take_inputs(e);
        cfx_drop(was);
    }
    cfx_scope_close(mark);
    return made != NULL;
}
