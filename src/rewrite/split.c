/* torch.fx's split_module: nodes are put in parts, each part becomes a GraphModule, and a graph
 * that calls them takes the place of the whole. Start at cfx__split; how nodes find their parts is
 * in split_by.c. */
#include "pass.h"
#include "split.h"

typedef struct part {
    const char *name;
    cfx_dict *inputs, *outputs;    /* nodes of the whole, in the order they are met */
    cfx_dict *needs, *needed_by;   /* numbers of other parts */
    cfx_graph *graph;
    cfx_module *holder;            /* of what the graph names */
    cfx_dict *nodes;               /* node of the whole to node of the part */
} part;

typedef struct splitting {
    cfx_module *gm;
    const int *part_of; /* by id; -1: no part */
    part *parts;
    int nparts;
    cfx_split_options options;
    cfx_graph *graph;   /* the new one */
    cfx_module *holder;
    cfx_dict *nodes;    /* node of the whole to node of the new graph */
    cfx_dict *moved;    /* paths of attributes that a part has the name of, to where they are now */
} splitting;

static bool has(const cfx_dict *d, cfx_node *n) { return cfx_dict_find(d, cfx_node_value(n)); }

static void add(cfx_dict *d, cfx_node *n) {
    if (!has(d, n))
        cfx_dict_put(d, cfx_node_value(n), cfx_none());
}

static cfx_value mapped(cfx_node *n, void *nodes) {
    const cfx_value *v = cfx_dict_find(nodes, cfx_node_value(n));
    return v ? *v : cfx_bad();
}

static int number_of(const splitting *s, const cfx_node *n) {
    return n->graph == s->gm->graph ? s->part_of[cfx__node_of(n)->id] : -1;
}

/* ---- who gives what to whom ------------------------------------------------------------------ */

/* A value made in one part (or outside, -1) and used in another. */
static void note_use(splitting *s, cfx_node *def, int used) {
    int made = number_of(s, def);
    if (made == used)
        return;
    if (made >= 0) {
        add(s->parts[made].outputs, def);
        if (used >= 0)
            cfx_dict_put(s->parts[made].needed_by, cfx_int(used), cfx_none());
    }
    if (used >= 0) {
        add(s->parts[used].inputs, def);
        if (made >= 0)
            cfx_dict_put(s->parts[used].needs, cfx_int(made), cfx_none());
    }
}

static void note_uses(splitting *s) {
    cfx_each_node(s->gm->graph, n) {
        if (n->op == CFX_PLACEHOLDER || n->op == CFX_GET_ATTR)
            continue;
        cfx_each_input(n, u) note_use(s, u->node, n->op == CFX_OUTPUT ? -1 : number_of(s, n));
    }
}

/* The part of b has to come after that of a. */
static void note_order(splitting *s, const cfx_node *a, const cfx_node *b) {
    int first = number_of(s, a), then = number_of(s, b);
    if (first < 0 || then < 0 || first == then)
        return;
    cfx_dict_put(s->parts[first].needed_by, cfx_int(then), cfx_none());
    cfx_dict_put(s->parts[then].needs, cfx_int(first), cfx_none());
}

/* Whether a node reads or writes memory that n writes to. */
static bool touches(const cfx__alias *a, const cfx_node *n, const cfx_node *other) {
    cfx_each_input(n, u) {
        if (!cfx__alias_written(a, u->node))
            continue;
        if (cfx__alias_same(a, u->node, other))
            return true;
        cfx_each_input(other, v) if (cfx__alias_same(a, u->node, v->node)) return true;
    }
    return false;
}

/* Parts keep the order of what is written in place and what reads it, and of what has other
 * effects. */
static void note_effects(splitting *s) {
    VEC(cfx_node *) impure = {0};
    cfx__alias alias;
    cfx_each_node(s->gm->graph, n) if (number_of(s, n) >= 0 && cfx_node_is_impure(n))
        VEC_PUSH(impure, n);
    if (impure.len)
        cfx__alias_open(&alias, s->gm->graph);
    for (size_t i = 0; i < impure.len; i++) {
        cfx_node *w = impure.data[i];
        cfx_each_node(s->gm->graph, n) if (n != w && touches(&alias, w, n))
            note_order(s, cfx_node_precedes(n, w) ? n : w, cfx_node_precedes(n, w) ? w : n);
        if (i)
            note_order(s, impure.data[i - 1], w);
    }
    if (impure.len)
        cfx__alias_close(&alias);
    VEC_FREE(impure);
}

/* The part that is called next: torch.fx's split_module takes the last one that is ready. */
static int next_ready(const splitting *s, int *ready, int *nready) {
    int at = *nready - 1;
    for (int k = 0; s->options.first_ready && k < *nready; k++)
        at = ready[k] < ready[at] ? k : at;
    int next = ready[at];
    ready[at] = ready[--*nready];
    return next;
}

/* An order in which each part comes after those it needs. */
static bool order_parts(const splitting *s, int *order) {
    int *ready = cfx__alloc((size_t)(s->nparts + 1) * sizeof *ready), nready = 0, n = 0;
    for (int i = 0; i < s->nparts; i++)
        if (!s->parts[i].needs->len)
            ready[nready++] = i;
    while (nready) {
        int i = next_ready(s, ready, &nready);
        order[n++] = i;
        const cfx_dict *next = s->parts[i].needed_by;
        for (int64_t k = 0; k < next->len; k++) {
            int other = (int)cfx_integer(next->entries[k].key);
            cfx_dict_remove(s->parts[other].needs, cfx_int(i));
            if (!s->parts[other].needs->len)
                ready[nready++] = other;
        }
    }
    cfx__free(ready);
    if (n < s->nparts)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "cycle exists between partitions!");
    return n == s->nparts;
}

/* ---- a part ---------------------------------------------------------------------------------- */

static bool is_module(const splitting *s, const cfx_node *n) {
    return n->op == CFX_GET_ATTR &&
           cfx_module_attr(s->gm, n->target.name).tag == CFX_TAG_MODULE;
}

/* Inputs become placeholders; branches of cond and the like are read where they are used. */
static void make_inputs(splitting *s, part *p) {
    cfx_dict *kept = cfx_dict_new();
    int number = 0;
    for (int64_t i = 0; i < p->inputs->len; i++) {
        cfx_node *n = cfx_as_node(p->inputs->entries[i].key), *made;
        if (is_module(s, n)) {
            made = cfx_graph_get_attr(p->graph, n->target.name);
            cfx__module_adopt(p->holder, n->target.name, s->gm, n->target.name);
        } else {
            const char *name = s->options.number_inputs ? cfx__text_format("arg_%d", number++)
                                                        : n->name;
            made = cfx_graph_placeholder(p->graph, name, n->type, false, cfx_none());
            add(kept, n);
        }
        cfx__node_copy_meta(made, n);
        cfx_dict_put(p->nodes, cfx_node_value(n), cfx_node_value(made));
    }
    p->inputs = kept;
}

/* "a.b" is "a_b" in the part, which holds it itself. */
static cfx_target adopt(splitting *s, part *p, const cfx_node *n) {
    cfx_target t = n->target;
    if (n->op != CFX_CALL_MODULE && n->op != CFX_GET_ATTR)
        return t;
    char *flat = (char *)cfx__text_format("%s", t.name);
    for (char *c = flat; *c; c++)
        *c = *c == '.' ? '_' : *c;
    cfx__module_adopt(p->holder, flat, s->gm, t.name);
    if (s->options.names)
        cfx_dict_set(s->options.names, cfx__text_format("%s.%s", p->name, flat),
                     cfx_string_value(t.name));
    return (cfx_target){.name = flat};
}

static bool copy_node(splitting *s, part *p, cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, mapped, p->nodes));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, mapped, p->nodes));
    cfx_node *made = cfx_graph_create(p->graph, n->op, adopt(s, p, n), args, kwargs,
                                      s->options.keep_original_node_name ? n->name : NULL, n->type);
    if (made == cfx__node_bad)
        return false;
    cfx__node_copy_meta(made, n);
    cfx_dict_put(p->nodes, cfx_node_value(n), cfx_node_value(made));
    return true;
}

static cfx_module *finish_part(splitting *s, part *p) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < p->outputs->len; i++)
        cfx_list_append(cfx_as_list(out),
                        mapped(cfx_as_node(p->outputs->entries[i].key), p->nodes));
    cfx_graph_output(p->graph, cfx_as_list(out)->len == 1 ? cfx_as_list(out)->items[0] : out);
    p->holder->training = s->gm->training;
    return cfx_graph_module(p->holder, p->graph, NULL);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_part_name(const splitting *s, const char *name, size_t len) {
    for (int i = 0; i < s->nparts; i++)
        if (strlen(s->parts[i].name) == len && !strncmp(s->parts[i].name, name, len))
            return true;
    return false;
}

/* Where an attribute is now: where it was, or, where a part is called as the module that has it, at
 * the top, "b.fc.weight" as b_fc_weight. */
static const char *outer_path(splitting *s, const char *path) {
    cfx_value known = cfx_dict_get(s->moved, path);
    if (!cfx_is_none(known))
        return cfx_text(known);
    if (!is_part_name(s, path, strcspn(path, ".")))
        return path;
    char *flat = (char *)cfx__text_format("%s", path);
    for (char *c = flat; *c; c++)
        *c = *c == '.' ? '_' : *c;
    while (is_part_name(s, flat, strlen(flat)) || cfx_module_has(s->gm, flat) ||
           cfx_module_has(s->holder, flat))
        flat = (char *)cfx__text_format("%s_", flat);
    cfx_dict_set(s->moved, path, cfx_string_value(flat));
    return flat;
}

/* Placeholders, and attributes that no part reads itself, are as they were. */
static void copy_outer(splitting *s, cfx_node *n) {
    if (has(s->nodes, n) || number_of(s, n) >= 0 ||
        (n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR))
        return;
    cfx_target t = n->target;
    if (n->op == CFX_PLACEHOLDER && s->options.keep_original_node_name)
        t.name = n->name;
    if (n->op == CFX_GET_ATTR) {
        t.name = outer_path(s, t.name);
        cfx__module_adopt(s->holder, t.name, s->gm, n->target.name);
    }
    cfx_node *made = cfx_graph_create(s->graph, n->op, t, n->args, n->kwargs, NULL, n->type);
    cfx__node_copy_meta(made, n);
    cfx_dict_put(s->nodes, cfx_node_value(n), cfx_node_value(made));
}

static void copy_all_outer(splitting *s) {
    cfx_each_node(s->gm->graph, n) copy_outer(s, n);
}

/* With the original order: the placeholders, then what a part reads just before it is called. */
static void copy_outer_of(splitting *s, const part *p) {
    cfx_each_node(s->gm->graph, n) if (n->op == CFX_PLACEHOLDER) copy_outer(s, n);
    for (int64_t i = 0; i < p->inputs->len; i++)
        copy_outer(s, cfx_as_node(p->inputs->entries[i].key));
}

static bool call_part(splitting *s, part *p) {
    cfx_module *m = finish_part(s, p);
    cfx_value args = cfx_tuple_value(0, NULL);
    if (cfx__obj_is_bad(m))
        return false;
    cfx_module_set_attr(s->holder, p->name, cfx_module_value(m));
    for (int64_t i = 0; i < p->inputs->len; i++)
        cfx_list_append(cfx_as_list(args),
                        mapped(cfx_as_node(p->inputs->entries[i].key), s->nodes));
    cfx_node *call = cfx_graph_call_module(s->graph, p->name, args, cfx_none());
    for (int64_t i = 0; i < p->outputs->len && cfx_ok(); i++) {
        cfx_node *item = call;
        if (p->outputs->len > 1)
            item = cfx_graph_call_function(s->graph, "operator.getitem", cfx_tuple(call, i),
                                           cfx_none());
        cfx_value val = cfx_node_get_meta(cfx_as_node(p->outputs->entries[i].key), "val");
        if (!cfx_is_none(val))
            cfx_node_set_meta(item, "val", val);
        cfx_dict_put(s->nodes, p->outputs->entries[i].key, cfx_node_value(item));
    }
    return cfx_ok();
}

static cfx_module *finish(splitting *s) {
    copy_all_outer(s);
    cfx_node *output = cfx_graph_output_node(s->gm->graph);
    cfx_value v = output ? cfx__node_map(cfx_at(output->args, 0), mapped, s->nodes) : cfx_none();
    cfx__value_scope_own(v);
    cfx_node *made = cfx_graph_output(s->graph, v);
    cfx_node_set_type(made, output ? output->type : NULL);
    const cfx__graph_tree *tree = s->gm->graph->tree;
    if (tree)
        cfx_graph_set_tree(s->graph, tree->names, tree->in_spec, tree->out_spec);
    s->holder->training = s->gm->training;
    return cfx_graph_module(s->holder, s->graph, NULL);
}

static cfx_module *split(splitting *s) {
    int *order = cfx__alloc((size_t)(s->nparts + 1) * sizeof *order);
    note_uses(s);
    note_effects(s);
    bool fine = order_parts(s, order);
    for (int i = 0; fine && i < s->nparts; i++)
        make_inputs(s, &s->parts[order[i]]);
    cfx_each_node(s->gm->graph, n) if (fine && number_of(s, n) >= 0)
        fine = copy_node(s, &s->parts[number_of(s, n)], n);
    if (fine && !s->options.keep_original_order)
        copy_all_outer(s);
    for (int i = 0; fine && i < s->nparts; i++) {
        part *p = &s->parts[s->options.keep_original_order ? i : order[i]];
        if (s->options.keep_original_order)
            copy_outer_of(s, p);
        fine = call_part(s, p);
    }
    cfx__free(order);
    return fine && cfx_ok() ? finish(s) : &cfx__module_bad;
}

cfx_module *cfx__split(cfx_module *gm, const int *part_of, int nparts, const char *const *names,
                       cfx_split_options options) {
    size_t mark = cfx_scope_open();
    splitting s = {.gm = gm, .part_of = part_of, .nparts = nparts, .options = options,
                   .graph = cfx_graph_new(), .nodes = cfx_dict_new(), .moved = cfx_dict_new(),
                   .holder = cfx__module_new_raw("GraphModule", NULL)};
    s.parts = cfx__alloc0((size_t)(nparts + 1) * sizeof *s.parts);
    for (int i = 0; i < nparts; i++)
        s.parts[i] = (part){.name = names[i], .inputs = cfx_dict_new(), .outputs = cfx_dict_new(),
                            .needs = cfx_dict_new(), .needed_by = cfx_dict_new(),
                            .graph = cfx_graph_new(), .nodes = cfx_dict_new(),
                            .holder = cfx__module_new_raw("GraphModule", NULL)};
    cfx_module *m = split(&s);
    cfx__free(s.parts);
    return cfx_scope_return(mark, m);
}
