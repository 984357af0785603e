/* Modules of the caller's in the place of those that a program was exported from: torch.export's
 * _swap_modules. The nodes of a call go, and a call_module node comes, between nodes that put its
 * arguments together and take its result apart as its signature says. */
#include <cfx/pass.h>

#include "unflatten.h"

typedef struct swap {
    const cfx_program *program;
    cfx_module *gm;
    cfx_dict *now;                    /* name of a node that is gone to what took its place */
    const cfx_module_call *signature; /* whose nodes are the program's: by name in gm's graph */
    const char *path;                 /* of the module, without the number of the call */
    cfx_dict *nodes;                  /* of the call, in order */
    cfx_dict *gone;                   /* of all calls: erased when nobody uses them any more */
    cfx_dict *arguments;              /* names of what the calls take */
    cfx_node *call;
} swap;

/* ---- trees of the whole as nodes ------------------------------------------------------------- */

/* Arguments and result are taken apart and put together by nodes, not by the graph's tree. */
static void write_out_trees(cfx_module *gm) {
    cfx_graph *g = gm->graph;
    cfx_value names = g->tree->names, spec = g->tree->in_spec, out_spec = g->tree->out_spec;
    cfx_value old = cfx_graph_find_nodes(g, CFX_PLACEHOLDER, NULL);
    cfx_value taken = cfx_tuple_value(0, NULL);
    cfx_value_keep(names), cfx_value_keep(spec), cfx_value_keep(out_spec);
    CFX_INSERT_BEFORE(g, cfx_graph_first(g)) {
        for (int64_t i = 0; i < cfx_as_list(names)->len; i++)
            cfx_list_append(cfx_as_list(taken),
                            cfx_node_value(cfx_graph_input(
                                g, cfx_text(cfx_as_list(names)->items[i]))));
        cfx_node *flat = cfx_graph_call_function(g, "torch.utils._pytree.tree_flatten",
                                                 cfx_tuple(taken), CFX_NONE);
        flat = cfx_graph_call_function(g, "operator.getitem", cfx_tuple(flat, 0), CFX_NONE);
        for (int64_t i = 0; i < cfx_as_list(old)->len; i++) {
            cfx_node *n = cfx_as_node(cfx_as_list(old)->items[i]);
            const char *name = cfx__text_format("%s", n->name);
            cfx_node *leaf = cfx_graph_create(g, CFX_CALL_FUNCTION,
                                              cfx_graph_target(g, "operator.getitem"),
                                              cfx_tuple(flat, i), CFX_NONE, name, NULL);
            cfx_node_replace_with_meta(n, cfx_node_value(leaf));
            cfx_graph_erase(n);
            cfx_node_set_name(leaf, name);
        }
    }
    cfx_graph_set_tree(g, CFX_NONE, CFX_NONE, CFX_NONE);
    cfx_node *output = cfx_graph_output_node(g);
    CFX_INSERT_BEFORE(g, output) {
        cfx_node *tree = cfx__node_tree_unflatten(gm, cfx_at(output->args, 0), out_spec);
        cfx_node_set_args(output, cfx_tuple(tree));
    }
    cfx_value_drop(names), cfx_value_drop(spec), cfx_value_drop(out_spec);
}

/* ---- one call -------------------------------------------------------------------------------- */

static bool is_of_call(const cfx_node *n, const char *path, const char *number) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || n->op != CFX_CALL_FUNCTION)
        return false;
    for (int64_t i = 0; i < cfx_as_dict(stack)->len; i++) {
        const char *key = cfx_text(cfx_as_dict(stack)->entries[i].key);
        cfx_value v = cfx_as_dict(stack)->entries[i].value;
        const char *own = v.tag == CFX_TAG_TUPLE ? cfx_text(cfx_as_list(v)->items[0]) : NULL;
        const char *at = key ? strrchr(key, '@') : NULL;
        if (own && !strcmp(own, path))
            return !strcmp(at ? at + 1 : "", number);
    }
    return false;
}

/* The node that a leaf of a signature, a node of the program, is now; NULL: none is. */
static cfx_node *node_of(const swap *s, cfx_value leaf) {
    if (leaf.tag != CFX_TAG_NODE)
        return NULL;
    const cfx_node *n = cfx_as_node(leaf);
    cfx_value now = cfx_dict_get(s->now, n->name);
    if (now.tag == CFX_TAG_NODE)
        return cfx_as_node(now);
    const cfx_input_spec *in = cfx_program_input(s->program, n);
    if (!in || !in->target)
        return cfx_graph_find(s->gm->graph, n->name);
    cfx_value reads = cfx_graph_find_nodes(s->gm->graph, CFX_GET_ATTR, in->target);
    return cfx_len(reads) ? cfx_as_node(cfx_at(reads, 0)) : NULL;
}

/* What the call is given: values that there are, and None for what nobody computes any more. */
static cfx_value inputs_of(const swap *s) {
    cfx_value leaves = cfx_list_value(0, NULL);
    const cfx_list *inputs = cfx_as_list(s->signature->inputs);
    for (int64_t i = 0; i < inputs->len; i++) {
        cfx_value v = inputs->items[i];
        cfx_node *n = node_of(s, v);
        cfx_list_append(cfx_as_list(leaves),
                        n ? cfx_node_value(n) : v.tag == CFX_TAG_NODE ? cfx_none() : v);
    }
    return leaves;
}

/* The number of the leaf of the result that a node of the call is; -1: none. */
static int64_t leaf_of(const swap *s, const cfx_node *n) {
    const cfx_list *outputs = cfx_as_list(s->signature->outputs);
    for (int64_t i = 0; i < outputs->len; i++)
        if (outputs->items[i].tag == CFX_TAG_NODE &&
            !strcmp(cfx_as_node(outputs->items[i])->name, n->name))
            return i;
    return -1;
}

static bool is_below(const char *path, const char *above) {
    size_t n = strlen(above);
    return !strncmp(path, above, n) && path[n] == '.';
}

/* Whether a node writes to a tensor of the module that is replaced, which goes with it. */
static bool writes_own(const swap *s, const cfx_node *n) {
    const cfx_node *to = cfx_node_is(n, "copy_") ? cfx_node_input(n, 0) : NULL;
    return to && to->op == CFX_GET_ATTR && is_below(to->target.name, s->path);
}

static cfx_node *take_leaf(const swap *s, const cfx_node *n, cfx_node *flat, int64_t leaf) {
    cfx_node *taken =
        cfx_graph_call_function(s->gm->graph, "operator.getitem", cfx_tuple(flat, leaf), CFX_NONE);
    cfx_value val = cfx_node_get_meta(n, "val");
    if (!cfx_is_none(val))
        cfx_node_set_meta(taken, "val", val);
    cfx_dict_set(s->now, n->name, cfx_node_value(taken));
    return taken;
}

/* Those who used a value of the call use the leaf of the result that it was. */
static bool give_result(const swap *s, cfx_node *n, cfx_node *flat) {
    int64_t leaf = leaf_of(s, n);
    cfx_node *taken = NULL;
    cfx_value users = cfx_node_users(n);
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++) {
        cfx_node *user = cfx_as_node(cfx_as_list(users)->items[i]);
        const bool other = leaf < 0 && cfx_dict_find(s->gone, cfx_node_value(user));
        if (cfx_dict_find(s->nodes, cfx_node_value(user)) || user == flat || other)
            continue;
        if (leaf < 0 && writes_own(s, user) && !user->num_users) {
            cfx_graph_erase(user);
            continue;
        }
        if (leaf < 0) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "%s cannot be replaced: %s uses %s of it, which is no result of its "
                     "signature",
                     s->signature->path, user->name, n->name);
            return false;
        }
        taken = taken ? taken : take_leaf(s, n, flat, leaf);
        cfx_node_replace_input(user, n, taken);
    }
    if (!taken && leaf >= 0 && cfx_dict_find(s->arguments, cfx_string_value(n->name)))
        take_leaf(s, n, flat, leaf);
    return true;
}

static bool replace_call(swap *s) {
    cfx_graph *g = s->gm->graph;
    cfx_node *last = cfx_as_node(s->nodes->entries[s->nodes->len - 1].key);
    cfx_value args, kwargs;
    bool fine = true;
    CFX_INSERT_AFTER(g, last) {
        cfx__node_tree_args(s->gm, inputs_of(s), s->signature->in_spec, true, &args,
                            &kwargs);
        s->call = cfx_graph_call_module(g, s->path, args, kwargs);
        cfx_node *flat =
            cfx__node_tree_flatten(s->gm, cfx_node_value(s->call), s->signature->out_spec);
        for (int64_t i = 0; fine && i < s->nodes->len; i++)
            fine = give_result(s, cfx_as_node(s->nodes->entries[i].key), flat);
    }
    return fine;
}

/* ---- trees between two calls ----------------------------------------------------------------- */

static cfx_node *only_user(const cfx_node *n, const char *target) {
    cfx_node *u = n && n->num_users == 1 ? cfx_node_user(n, 0) : NULL;
    return u && u->op == CFX_CALL_FUNCTION && !strcmp(u->target.name, target) ? u : NULL;
}

/* A result that is taken apart only to be the one argument of the next module is that argument. */
static void connect(const cfx_module *gm, cfx_node *call) {
    cfx_node *flat = only_user(call, "torch.fx._pytree.tree_flatten_spec");
    cfx_node *next = NULL;
    if (!flat)
        return;
    cfx_each_user(flat, u) {
        cfx_node *user = only_user(u->user, "torch.utils._pytree.tree_unflatten");
        if (!cfx_node_takes_result(u->user) || !user || (next && next != user))
            return;
        next = user;
    }
    if (!next)
        return;
    cfx_value leaves = cfx_at(next->args, 0);
    cfx_value spec = cfx_module_attr(gm, cfx_node_input(flat, 1)->target.name);
    cfx_value want = cfx_module_attr(gm, cfx_as_node(cfx_at(next->args, 1))->target.name);
    cfx_value one = cfx_tuple(cfx_tuple(spec), cfx_dict_value(cfx_dict_new()));
    bool same = cfx_len(leaves) == flat->num_users && cfx__tree_leaves(spec) == cfx_len(leaves) &&
                !strcmp(cfx_tree_spec_text(want), cfx_tree_spec_text(one));
    for (int64_t i = 0; same && i < cfx_len(leaves); i++) {
        cfx_value v = cfx_at(leaves, i);
        same = v.tag == CFX_TAG_NODE && cfx_node_takes_result(cfx_as_node(v)) &&
               cfx_integer(cfx_at(cfx_as_node(v)->args, 1)) == i;
    }
    cfx_node *args = same ? cfx_node_user(next, 0) : NULL; /* [0] of (args, kwargs); [0] of it */
    cfx_node *first = args ? cfx_node_user(args, 0) : NULL;
    cfx_node *to = first ? cfx_node_user(first, 0) : NULL;
    if (to && to->op == CFX_CALL_MODULE)
        cfx_node_set_args(to, cfx_tuple(call));
}

/* Specs are read right behind the inputs, in their order. */
static void gather_specs(cfx_module *gm) {
    cfx_node *at = cfx_graph_first(gm->graph);
    while (at && at->op == CFX_PLACEHOLDER)
        at = cfx_node_after(at);
    for (int i = 0;; i++) {
        const char *name = cfx__text_format("_spec_%d", i);
        cfx_value reads = cfx_graph_find_nodes(gm->graph, CFX_GET_ATTR, name);
        cfx_node *n = cfx_len(reads) ? cfx_as_node(cfx_at(reads, 0)) : NULL;
        if (!at || !cfx_module_has(gm, name))
            return;
        if (n == at)
            at = cfx_node_after(at);
        else if (n)
            cfx_node_move_before(n, at);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Whether a call is of the module at a path. */
static bool is_call_of(const char *call, const char *path) {
    size_t n = strlen(path);
    return !strncmp(call, path, n) && (!call[n] || call[n] == '@');
}

/* Whether a call is of one of the modules that are replaced. */
static bool is_replaced(const cfx_dict *modules, const char *call) {
    for (int64_t i = 0; i < modules->len; i++) {
        const char *path = cfx_text(modules->entries[i].key);
        if (path && is_call_of(call, path))
            return true;
    }
    return false;
}

static cfx_dict *nodes_of_call(const cfx_graph *g, const char *call, const char *path) {
    cfx_dict *nodes = cfx_dict_new();
    const char *at = strchr(call, '@');
    cfx_each_node(g, n) if (is_of_call(n, path, at ? at + 1 : ""))
        cfx_dict_put(nodes, cfx_node_value(n), cfx_none());
    return nodes;
}

static const char *path_of(const char *call) {
    return cfx__string_new(call, strcspn(call, "@"))->text;
}

static void collect(swap *s, const cfx_dict *modules) {
    const cfx_program *p = s->program;
    for (int i = 1; i < p->ncalls; i++) {
        if (!is_replaced(modules, p->calls[i].path))
            continue;
        const char *call = p->calls[i].path;
        const cfx_dict *nodes = nodes_of_call(s->gm->graph, call, path_of(call));
        for (int64_t k = 0; k < nodes->len; k++)
            cfx_dict_put(s->gone, nodes->entries[k].key, cfx_none());
    }
}

static bool erase(const swap *s) {
    bool fine = true;
    cfx_node *before;
    for (cfx_node *n = cfx_graph_last(s->gm->graph); n && fine; n = before) {
        before = cfx_node_before(n);
        if (cfx_dict_find(s->gone, cfx_node_value(n)))
            fine = cfx_graph_erase(n);
    }
    return fine;
}

static bool swap_call(swap s, const cfx_module_call *c, const char *path) {
    s.signature = c;
    s.path = path;
    s.nodes = nodes_of_call(s.gm->graph, c->path, path);
    if (!s.nodes->len)
        return true;
    if (!cfx__module_call_known(c) || !cfx__tree_is_call(c->in_spec)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%s cannot be replaced: how it was called is not known. Name it in "
                 "preserve_module_call_signature when the program is exported",
                 c->path);
        return false;
    }
    return replace_call(&s);
}

/* What the module held is read no longer; false, with an error, where others read it. */
static bool forget_tensors(const cfx_graph *g, const char *path) {
    cfx_each_node(g, n) {
        if (n->op != CFX_GET_ATTR || !is_below(n->target.name, path))
            continue;
        if (n->num_users) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "%s cannot be replaced: %s reads %s, which goes with it", path,
                     cfx_node_user(n, 0)->name, n->target.name);
            return false;
        }
        cfx_graph_erase(n);
    }
    return true;
}

static bool swap_module(const swap *s, const char *path) {
    const cfx_program *p = s->program;
    bool found = false, fine = true;
    for (int i = 1; fine && i < p->ncalls; i++) {
        if (!is_call_of(p->calls[i].path, path))
            continue;
        found = true;
        fine = swap_call(*s, &p->calls[i], path);
    }
    if (!found)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "the program was exported from no module '%s'",
                 path);
    return found && fine;
}

/* Nodes that nobody uses are no matter, but for arguments that the modules of the caller's may use.
 */
static bool is_argument(const cfx_node *n, void *user) {
    return cfx_node_is_impure(n) || cfx_dict_find(user, cfx_string_value(n->name));
}

static void forget_unused(const swap *s, const cfx_dict *modules) {
    for (int i = 1; i < s->program->ncalls; i++) {
        const cfx_module_call *c = &s->program->calls[i];
        if (!is_replaced(modules, c->path) || !cfx__module_call_known(c))
            continue;
        for (int64_t k = 0; k < cfx_as_list(c->inputs)->len; k++)
            if (cfx_as_list(c->inputs)->items[k].tag == CFX_TAG_NODE)
                cfx_dict_set(s->arguments, cfx_as_node(cfx_as_list(c->inputs)->items[k])->name,
                             cfx_none());
    }
    cfx_graph_eliminate_dead_code_by(s->gm->graph, is_argument, s->arguments);
}

static bool put_modules(const swap *s, const cfx_dict *modules) {
    bool fine = erase(s);
    for (int64_t i = 0; fine && i < modules->len; i++) {
        const char *path = cfx_text(modules->entries[i].key);
        fine = forget_tensors(s->gm->graph, path);
        if (fine)
            cfx_module_set_attr(s->gm, path, modules->entries[i].value);
    }
    return fine;
}

cfx_module *cfx_program_swap_modules(cfx_program *p, const cfx_dict *modules) {
    if (!modules) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the modules to put in are NULL");
        return &cfx__module_bad;
    }
    size_t mark = cfx_scope_open();
    cfx_module *gm = cfx_program_module(p);
    swap s = {.program = p,
              .gm = gm,
              .now = cfx_dict_new(),
              .gone = cfx_dict_new(),
              .arguments = cfx_dict_new()};
    bool fine = gm->graph != NULL;
    if (fine) {
        cfx_module_set_attr(gm, "validate_inputs", cfx_bool(false));
        forget_unused(&s, modules);
        if (gm->graph->tree)
            write_out_trees(gm);
        collect(&s, modules);
    }
    for (int64_t i = 0; fine && i < modules->len; i++) {
        const char *path = cfx_text(modules->entries[i].key);
        cfx_value with = modules->entries[i].value;
        if (!path || with.tag != CFX_TAG_MODULE) {
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a path and a module are needed, not %s and %s",
                     cfx_value_repr(modules->entries[i].key), cfx_value_type_name(with));
            fine = false;
        }
        fine = fine && swap_module(&s, path);
    }
    fine = fine && cfx_ok() && put_modules(&s, modules) && cfx_graph_sort(gm->graph);
    if (fine) {
        cfx_each_node(gm->graph, n) if (n->op == CFX_CALL_MODULE) connect(gm, n);
        cfx_graph_eliminate_dead_code(gm->graph);
        gather_specs(gm);
    }
    return cfx_scope_return(mark, fine && cfx_ok() ? gm : &cfx__module_bad);
}
