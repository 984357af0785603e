/* Makes a program of a part of a program. Start at cfx__extract_set: selects the nodes, makes
 * inputs of values from outside, and results of values used outside. */
#include <cfx/select.h>

#include "../run/select.h"
#include "split.h"

typedef struct extracting {
    const cfx_program *from;
    const bool *chosen; /* by id */
    cfx_graph *graph;
    cfx_dict *nodes;    /* node of the program to node of the new one */
    cfx_dict *outside;  /* values that become inputs of the caller's, in order */
    cfx_program *to;
} extracting;

static cfx_value mapped(cfx_node *n, void *nodes) {
    const cfx_value *v = cfx_dict_find(nodes, cfx_node_value(n));
    return v ? *v : cfx_bad();
}

static bool is_chosen(const extracting *e, const cfx_node *n) {
    return e->chosen[cfx__node_of(n)->id];
}

/* Whether a node outside is used inside. */
static bool is_needed(const extracting *e, const cfx_node *n) {
    cfx_each_user(n, u) if (is_chosen(e, u->user)) return true;
    return false;
}

static bool is_held(const cfx_input_spec *s) { return s && s->kind != CFX_IN_USER; }

static void add_placeholder(extracting *e, cfx_node *n) {
    cfx_node *made = cfx_graph_placeholder(e->graph, n->name, n->type, false, cfx_none());
    if (strcmp(made->name, n->name))
        cfx_node_set_name(made, n->name);
    cfx__node_copy_meta(made, n);
    cfx_dict_put(e->nodes, cfx_node_value(n), cfx_node_value(made));
}

/* Parameters and the like first, as in every program, then what the caller gives. */
static void add_inputs(extracting *e) {
    cfx_graph *g = e->from->module->graph;
    cfx_each_node(g, n) if (n->op == CFX_PLACEHOLDER && is_needed(e, n) &&
                            is_held(cfx_program_input(e->from, n)))
        add_placeholder(e, n);
    cfx_each_node(g, n) {
        bool known = cfx_dict_find(e->nodes, cfx_node_value(n)) != NULL;
        if (is_chosen(e, n) || known || n->op == CFX_GET_ATTR || !is_needed(e, n))
            continue;
        add_placeholder(e, n);
        cfx_dict_put(e->outside, cfx_node_value(n), cfx_none());
    }
}

static bool copy_node(extracting *e, cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, mapped, e->nodes));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, mapped, e->nodes));
    cfx_node *made = cfx_graph_create(e->graph, n->op, n->target, args, kwargs, n->name, n->type);
    if (made == cfx__node_bad)
        return false;
    cfx__node_copy_meta(made, n);
    cfx_dict_put(e->nodes, cfx_node_value(n), cfx_node_value(made));
    return true;
}

static bool copy_nodes(extracting *e, cfx_value results) {
    cfx_each_node(e->from->module->graph, n) {
        bool attribute = n->op == CFX_GET_ATTR && is_needed(e, n);
        if ((attribute || is_chosen(e, n)) && !copy_node(e, n))
            return false;
    }
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(results)->len; i++)
        cfx_list_append(cfx_as_list(out),
                        mapped(cfx_as_node(cfx_as_list(results)->items[i]), e->nodes));
    cfx_graph_output(e->graph, out);
    return cfx_ok();
}

static void sign(extracting *e, cfx_value results) {
    cfx_each_node(e->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        const cfx_node *old = cfx_graph_find(e->from->module->graph, n->name);
        const cfx_input_spec *s = cfx_program_input(e->from, old);
        cfx_input_spec spec = {.kind = CFX_IN_USER};
        if (is_held(s)) {
            spec = *s;
            cfx_tensor *t = cfx_program_tensor(e->from, s);
            if (t)
                cfx_dict_set(cfx__program_tensors(e->to, s), s->target, cfx_tensor_value(t));
        }
        spec.name = n->name;
        cfx_program_add_input(e->to, spec);
    }
    for (int64_t i = 0; i < cfx_as_list(results)->len; i++) {
        cfx_node *n = cfx_as_node(mapped(cfx_as_node(cfx_as_list(results)->items[i]), e->nodes));
        cfx_program_add_output(e->to, (cfx_output_spec){.kind = CFX_OUT_USER, .name = n->name});
    }
    for (int64_t i = 0; i < e->from->ranges->len; i++)
        cfx_dict_put(e->to->ranges, e->from->ranges->entries[i].key,
                     e->from->ranges->entries[i].value);
}

cfx_program *cfx__extract_set(const cfx_program *p, const bool *chosen, cfx_value results,
                              cfx_dict *outside) {
    size_t mark = cfx_scope_open();
    extracting e = {.from = p, .chosen = chosen, .graph = cfx_graph_new(),
                    .nodes = cfx_dict_new(), .outside = outside};
    add_inputs(&e);
    cfx_module *gm = copy_nodes(&e, results)
                         ? cfx_graph_module(p->module, e.graph, p->module->type)
                         : &cfx__module_bad;
    e.to = cfx_program_new(gm);
    if (!cfx_failed(e.to))
        sign(&e, results);
    return cfx_scope_return(mark, cfx_ok() ? e.to : &cfx__program_bad);
}

/* ---- between nodes --------------------------------------------------------------------------- */

/* The nodes that a text names, a list; bad, with an error, where one is missing. */
static cfx_value nodes_named(const cfx_program *p, const char *text) {
    cfx_value list = cfx_list_value(0, NULL);
    for (const char *at = text; *at; at += at[strcspn(at, ",")] ? strcspn(at, ",") + 1
                                                               : strcspn(at, ",")) {
        const char *name = cfx__string_new(at, strcspn(at, ","))->text;
        cfx_node *n = cfx_graph_find(p->module->graph, name);
        if (!n || n->op == CFX_OUTPUT) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the program has no node called '%s'%s", name,
                     cfx__run_meant(p->module->graph, name));
            return cfx_bad();
        }
        cfx_list_append(cfx_as_list(list), cfx_node_value(n));
    }
    return list;
}

static cfx_value nodes_of_output(const cfx_program *p) {
    cfx_value list = cfx_list_value(0, NULL);
    cfx_each_input(cfx_graph_output_node(p->module->graph), u)
        if (u->node->op != CFX_PLACEHOLDER)
            cfx_list_append(cfx_as_list(list), cfx_node_value(u->node));
    return list;
}

static bool is_call(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
}

/* The nodes of a list, by id; the caller frees it. */
static bool *marked(const cfx_graph *g, cfx_value nodes) {
    bool *all = cfx__alloc0(g->made.len + 1);
    for (int64_t i = 0; nodes.tag == CFX_TAG_LIST && i < cfx_as_list(nodes)->len; i++)
        all[cfx__node_of(cfx_as_node(cfx_as_list(nodes)->items[i]))->id] = true;
    return all;
}

static void choose(const cfx_graph *g, cfx_value from, cfx_value to, bool *chosen) {
    bool *first = marked(g, from), *last = marked(g, to);
    cfx__run_between(g, from.tag == CFX_TAG_LIST ? first : NULL, last, chosen);
    cfx_each_node(g, n) chosen[cfx__node_of(n)->id] &= is_call(n);
    cfx__free(first);
    cfx__free(last);
}

cfx_program *cfx_program_extract(const cfx_program *p, const char *from, const char *to) {
    if (!cfx__program_whole((cfx_site){0}, p) || !cfx_ok())
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_graph *g = p->module->graph;
    cfx_value first = from && *from ? nodes_named(p, from) : cfx_none();
    cfx_value last = to && *to ? nodes_named(p, to) : nodes_of_output(p);
    cfx_program *out = &cfx__program_bad;
    if (!cfx_is_bad(first) && !cfx_is_bad(last)) {
        bool *chosen = cfx__alloc0(g->made.len + 1);
        choose(g, first, last, chosen);
        for (int64_t i = 0; i < cfx_as_list(last)->len && cfx_ok(); i++)
            if (!chosen[cfx__node_of(cfx_as_node(cfx_as_list(last)->items[i]))->id])
                cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s does not depend on %s",
                         cfx_as_node(cfx_as_list(last)->items[i])->name,
                         from ? from : "anything that is computed");
        if (cfx_ok())
            out = cfx__extract_set(p, chosen, last, cfx_dict_new());
        cfx__free(chosen);
    }
    return cfx_scope_return(mark, out);
}

/* Of the chosen nodes those that something else uses. */
static cfx_value results_of(const cfx_graph *g, const bool *chosen) {
    cfx_value found = cfx_list_value(0, NULL);
    cfx_each_node(g, n) {
        bool outside = false;
        if (!chosen[cfx__node_of(n)->id])
            continue;
        cfx_each_user(n, u) outside |= !chosen[cfx__node_of(u->user)->id];
        if (outside)
            cfx_list_append(cfx_as_list(found), cfx_node_value(n));
    }
    return found;
}

cfx_program *cfx_program_extract_nodes(const cfx_program *p, cfx_value nodes) {
    if (!cfx_ok() || nodes.tag != CFX_TAG_LIST || !cfx__program_whole((cfx_site){0}, p))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_graph *g = p->module->graph;
    bool *chosen = marked(g, nodes);
    cfx_each_node(g, n) chosen[cfx__node_of(n)->id] &= is_call(n);
    cfx_value results = results_of(g, chosen);
    cfx_program *out = &cfx__program_bad;
    if (cfx_as_list(results)->len)
        out = cfx__extract_set(p, chosen, results, cfx_dict_new());
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "nothing of these nodes is used by others");
    cfx__free(chosen);
    return cfx_scope_return(mark, out);
}
