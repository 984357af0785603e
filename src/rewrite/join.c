/* Two programs as one: the second reads what the first gives, or stands beside it. Start at
 * cfx_program_join. */
#include "split.h"

typedef struct joining {
    cfx_program *to;
    cfx_graph *graph;
    cfx_module *root;     /* what get_attr nodes name */
    const cfx_program *from;
    cfx_dict *nodes;      /* node of `from` to its value here */
    cfx_dict *targets;    /* parameter or buffer of `from`, or input, to its name here */
} joining;

/* ---- inputs ---------------------------------------------------------------------------------- */

static cfx_node *add_placeholder(joining *j, cfx_node *n) {
    const char *name = n->name;
    for (int i = 1; cfx_graph_find(j->graph, name); i++)
        name = cfx__text_format("%s_%d", n->name, i);
    cfx_node *made = cfx_graph_placeholder(j->graph, name, n->type, false, cfx_none());
    for (int64_t i = 0; n->meta && i < n->meta->len; i++)
        cfx_node_set_meta(made, cfx_text(n->meta->entries[i].key), n->meta->entries[i].value);
    cfx_dict_put(j->nodes, cfx_node_value(n), cfx_node_value(made));
    return made;
}

/* A name that the program has no tensor of yet. */
static const char *free_target(const cfx_program *p, const char *name) {
    const char *found = name;
    for (int i = 1; cfx_dict_find(p->state, cfx_string_value(found)) ||
                    cfx_dict_find(p->constants, cfx_string_value(found));
         i++)
        found = cfx__text_format("%s_%d", name, i);
    return found;
}

static cfx_node *placeholder_of(const cfx_program *p, int i) {
    return cfx_graph_find(p->module->graph, p->inputs[i].name);
}

/* Parameters, buffers and constants; they come before what callers give. */
static void add_held(joining *j) {
    for (int i = 0; i < j->from->ninputs; i++) {
        cfx_input_spec s = j->from->inputs[i];
        if (s.kind == CFX_IN_USER)
            continue;
        s.name = add_placeholder(j, placeholder_of(j->from, i))->name;
        cfx_tensor *t = cfx_program_tensor(j->from, &j->from->inputs[i]);
        const char *old = s.target;
        s.target = old ? free_target(j->to, old) : NULL;
        if (t)
            cfx_dict_set(cfx__program_tensors(j->to, &s), s.target, cfx_tensor_value(t));
        if (old)
            cfx_dict_set(j->targets, old, cfx_string_value(s.target));
        cfx_program_add_input(j->to, s);
    }
}

static void add_given(joining *j) {
    for (int i = 0; i < j->from->ninputs; i++) {
        cfx_node *n = placeholder_of(j->from, i);
        cfx_input_spec s = j->from->inputs[i];
        if (s.kind != CFX_IN_USER || cfx_dict_find(j->nodes, cfx_node_value(n)))
            continue;
        s.name = add_placeholder(j, n)->name;
        cfx_dict_set(j->targets, n->name, cfx_string_value(s.name));
        cfx_program_add_input(j->to, s);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Sub-graphs and what else nodes name: under a name of its own where another has it. */
static void adopt(joining *j) {
    cfx_dict *names = cfx_dict_new();
    cfx_each_node(j->from->module->graph, n) {
        cfx_value value = n->op == CFX_GET_ATTR || n->op == CFX_CALL_MODULE
                              ? cfx_module_attr(j->from->module, n->target.name)
                              : cfx_none();
        const cfx_value *copy = cfx_dict_find(j->nodes, cfx_node_value(n));
        if (cfx_is_none(value) || !copy)
            continue;
        const cfx_value *known = cfx_dict_find(names, cfx_string_value(n->target.name));
        const char *name = known ? cfx_text(*known) : n->target.name;
        for (int i = 1; !known && cfx_module_has(j->root, name); i++)
            name = cfx__text_format("%s_%d", n->target.name, i);
        if (!known)
            cfx_module_set_attr(j->root, name, value);
        cfx_dict_set(names, n->target.name, cfx_string_value(name));
        if (strcmp(name, n->target.name))
            cfx_node_set_target(cfx_as_node(*copy), cfx_graph_target(j->graph, name));
    }
}

/* Copies the nodes of `from`; its results, a list. What nodes compute is inferred anew: what they
 * are given now may have other sizes. */
static cfx_value copy_nodes(joining *j) {
    cfx_value results = cfx_graph_copy_into(j->graph, j->from->module->graph, j->nodes);
    adopt(j);
    for (int64_t i = 0; i < j->nodes->len; i++) {
        cfx_node *n = j->nodes->entries[i].value.tag == CFX_TAG_NODE
                          ? cfx_as_node(j->nodes->entries[i].value)
                          : NULL;
        if (n && n->op != CFX_PLACEHOLDER)
            cfx__node_of(n)->stale = true;
    }
    for (int64_t i = 0; i < j->from->ranges->len; i++)
        cfx_dict_put(j->to->ranges, j->from->ranges->entries[i].key,
                     j->from->ranges->entries[i].value);
    return results;
}

/* Adds results to the signature: what is written to inputs and buffers, or, but for those that are
 * taken, the others. */
static void add_results(joining *j, cfx_value results, const bool *taken, bool updates,
                        cfx_list *all) {
    int user = 0;
    for (int i = 0; i < j->from->noutputs && i < cfx_as_list(results)->len; i++) {
        cfx_output_spec s = j->from->outputs[i];
        bool update = s.target != NULL;
        bool left_out = s.kind == CFX_OUT_USER && taken && taken[user];
        user += s.kind == CFX_OUT_USER;
        if (update != updates || left_out)
            continue;
        cfx_value v = cfx_as_list(results)->items[i];
        s.name = v.tag == CFX_TAG_NODE ? cfx_as_node(v)->name : NULL;
        s.value = s.name ? cfx_none() : v;
        if (s.target)
            s.target = cfx_text(cfx_dict_get(j->targets, s.target));
        cfx_program_add_output(j->to, s);
        cfx_list_append(all, v);
    }
}

/* ---- wires ----------------------------------------------------------------------------------- */

/* Number i of "in3" or "out3"; -1 where it is none. */
static int number_in(const char *text, const char *prefix) {
    size_t n = strlen(prefix);
    char *end;
    long i = strncmp(text, prefix, n) ? -1 : strtol(text + n, &end, 10);
    return i < 0 || end == text + n || *end || i > INT32_MAX ? -1 : (int)i;
}

/* The caller's input of that name, or "in3"; NULL, with an error, where there is none. */
static cfx_node *find_input(const cfx_program *p, const char *text, const char *which) {
    int wanted = number_in(text, "in"), number = 0;
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        if (number++ == wanted || !strcmp(p->inputs[i].name, text))
            return placeholder_of(p, i);
    }
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the %s program has no input called '%s'", which,
             text);
    return NULL;
}

/* The result "out3" of the first program, which is then taken. */
static cfx_value find_result(const joining *first, cfx_value results, const char *text,
                             bool *taken) {
    int wanted = number_in(text, "out"), number = 0;
    for (int i = 0; i < first->from->noutputs; i++) {
        if (first->from->outputs[i].kind != CFX_OUT_USER)
            continue;
        if (number++ != wanted)
            continue;
        taken[wanted] = true;
        return cfx_as_list(results)->items[i];
    }
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the first program has no result '%s'", text);
    return cfx_bad();
}

/* Whether what is given is of the dtype and rank that the input has. */
static bool fits(const cfx_node *input, cfx_value v) {
    cfx_result want = cfx_node_result(input);
    cfx_result got = v.tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(v)) : cfx_result_of(v);
    bool same = want.kind == got.kind;
    if (same && want.kind == CFX_RESULT_TENSOR)
        same = want.dtype == got.dtype && want.ndim == got.ndim;
    for (int i = 0; same && want.kind == CFX_RESULT_TENSOR && i < want.ndim; i++) {
        cfx_value a = cfx_result_size(&want, i), b = cfx_result_size(&got, i);
        same = a.tag == CFX_TAG_SYM || b.tag == CFX_TAG_SYM || cfx_equal_values(a, b);
    }
    if (!same)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "input %s is %s, and is given %s", input->name,
                 cfx_result_text(&want), cfx_result_text(&got));
    return same;
}

static bool wire(joining *second, const joining *first, cfx_value results, const cfx_dict *wires,
                 bool *taken) {
    for (int64_t i = 0; wires && i < wires->len; i++) {
        const char *to = cfx_text(wires->entries[i].key);
        const char *from = cfx_text(wires->entries[i].value);
        cfx_node *input = to && from ? find_input(second->from, to, "second") : NULL;
        cfx_value v = cfx_bad();
        if (input && number_in(from, "out") >= 0)
            v = find_result(first, results, from, taken);
        else if (input) {
            cfx_node *n = find_input(first->from, from, "first");
            v = n ? *cfx_dict_find(first->nodes, cfx_node_value(n)) : cfx_bad();
        }
        if (cfx_is_bad(v) || !fits(input, v))
            return false;
        cfx_dict_put(second->nodes, cfx_node_value(input), v);
    }
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static joining part(const joining *whole, const cfx_program *from) {
    joining j = *whole;
    j.from = from;
    j.nodes = cfx_dict_new();
    j.targets = cfx_dict_new();
    return j;
}

static cfx_program *join(const joining *whole, const cfx_program *a, const cfx_program *b,
                         const cfx_dict *wires) {
    joining one = part(whole, a), two = part(whole, b);
    bool *taken = cfx__alloc0((size_t)a->noutputs + 1);
    add_held(&one);
    add_held(&two);
    add_given(&one);
    /* what the first gives is known once its nodes are there, and inputs come before nodes: those
     * of the second that a wire serves are found first, by what is noted of the first's results */
    cfx_value noted = cfx_at(cfx_graph_output_node(a->module->graph)->args, 0);
    bool fine = wire(&two, &one, noted, wires, taken);
    add_given(&two);
    cfx_value first = fine ? copy_nodes(&one) : cfx_bad();
    fine = fine && !cfx_is_bad(first) && wire(&two, &one, first, wires, taken);
    cfx_value second = fine ? copy_nodes(&two) : cfx_bad();
    fine = fine && !cfx_is_bad(second);
    cfx_value all = cfx_tuple_value(0, NULL);
    for (int updates = 1; fine && updates >= 0; updates--) {
        add_results(&one, first, taken, updates, cfx_as_list(all));
        add_results(&two, second, NULL, updates, cfx_as_list(all));
    }
    if (fine)
        cfx_graph_output(whole->graph, all);
    cfx__free(taken);
    return fine && cfx_ok() ? whole->to : &cfx__program_bad;
}

cfx_program *cfx_program_join(const cfx_program *a, const cfx_program *b, const cfx_dict *wires) {
    if (!cfx_ok() || !cfx__program_whole((cfx_site){0}, a) ||
        !cfx__program_whole((cfx_site){0}, b))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_module *gm = cfx_graph_module(NULL, cfx_graph_new(), NULL);
    joining whole = {.to = cfx_program_new(gm), .graph = gm->graph, .root = gm};
    cfx_program *p = join(&whole, a, b, wires);
    bool fine = cfx_program_sync(p) && cfx_program_infer(p);
    return cfx_scope_return(mark, fine ? p : &cfx__program_bad);
}
