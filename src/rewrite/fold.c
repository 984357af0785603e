/* Folds constants of a GraphModule: runs the sub-graph that depends only on attributes once, and
 * replaces its nodes by the results. For programs see pass_constants.c. */
#include <cfx/run.h>

#include "../base/given.h"
#include "pass.h"

typedef struct folding {
    cfx_module *gm;
    cfx__alias alias;
    bool (*skip)(const cfx_node *n, void *user);
    void *user;
    bool *constant;           /* by id */
    VEC(cfx_node *) wanted;   /* constant calls that others need */
    cfx_dict *copies;         /* node to its copy in the graph that is run */
} folding;

static bool *constant(const folding *f, const cfx_node *n) {
    return &f->constant[cfx__node_of(n)->id];
}

/* Whether n gives the same whenever it is run, and could be run now. */
static bool is_constant(const folding *f, const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT || cfx_node_is_impure(n) ||
        cfx_node_higher_order(n) || cfx__alias_written(&f->alias, n))
        return false;
    cfx_op *op = cfx__call_op(n);
    if ((op && op->effects & CFX_RANDOM) || (n->op != CFX_GET_ATTR && !n->inputs))
        return false; /* what draws numbers, and constants that tell their values already */
    if (n->op == CFX_GET_ATTR)
        return cfx_module_attr(f->gm, n->target.name).tag == CFX_TAG_TENSOR;
    cfx_each_input(n, u) if (!*constant(f, u->node)) return false;
    return !f->skip || !f->skip(n, f->user);
}

static void find(folding *f) {
    cfx_each_node(f->gm->graph, n) *constant(f, n) = is_constant(f, n);
    cfx_each_node(f->gm->graph, n) {
        bool needed = false;
        cfx_each_user(n, u) needed |= !*constant(f, u->user);
        if (needed && *constant(f, n) && n->op != CFX_GET_ATTR)
            VEC_PUSH(f->wanted, n);
    }
}

static cfx_value copied(cfx_node *n, void *user) {
    const cfx_value *copy = cfx_dict_find(user, cfx_node_value(n));
    return copy ? *copy : cfx_bad();
}

/* What the wanted nodes are, a tuple; scope. */
static cfx_value compute(folding *f) {
    cfx_graph *g = cfx_graph_new();
    cfx_value results = cfx_tuple_value(0, NULL);
    cfx_each_node(f->gm->graph, n) if (*constant(f, n))
        cfx_dict_put(f->copies, cfx_node_value(n),
                     cfx_node_value(cfx_graph_copy_node(g, n, copied, f->copies)));
    for (size_t i = 0; i < f->wanted.len; i++)
        cfx_list_append(cfx_as_list(results), copied(f->wanted.data[i], f->copies));
    cfx_graph_output(g, results);
    cfx_module *m = cfx_ok() ? cfx_graph_module(f->gm, g, NULL) : NULL;
    cfx_interp it = {.module = m};
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_value v = m ? cfx_run_from((cfx_site){0}, &it, (cfx_args){0}) : cfx_bad();
    cfx_set_grad_mode(grad);
    return v;
}

/* A name that no attribute of the module has; scope. */
static const char *new_name(const cfx_module *gm, const char *of) {
    const char *name = cfx__text_format("folded_%s", of);
    for (int i = 1; cfx_module_has(gm, name); i++)
        name = cfx__text_format("folded_%s_%d", of, i);
    return name;
}

static void replace(folding *f, cfx_node *n, cfx_tensor *t) {
    const char *name = new_name(f->gm, n->name);
    cfx_nn_buffer(f->gm, name, t, true);
    CFX_INSERT_BEFORE(n->graph, n) {
        cfx_node *read = cfx_graph_get_attr(n->graph, name);
        for (int64_t i = 0; n->meta && i < n->meta->len; i++)
            cfx_node_set_meta(read, cfx_text(n->meta->entries[i].key), n->meta->entries[i].value);
        cfx_node_replace(n, read);
    }
}

/* Erases the constant nodes that no one uses now, but for attributes that no one used before. */
static void sweep(const folding *f, size_t before) {
    for (cfx_node *n = cfx_graph_last(f->gm->graph), *next; n; n = next) {
        next = cfx_node_before(n);
        if (cfx__node_of(n)->id < before && *constant(f, n) && !n->num_users)
            cfx_graph_erase(n);
    }
}

int cfx_fold_constants(cfx_module *gm, bool (*skip)(const cfx_node *n, void *user), void *user) {
    if (!cfx_ok() || !cfx__given((cfx_site){0}, gm, "GraphModule"))
        return -1;
    if (!gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "constants are folded in a GraphModule, not in %s; see cfx_symbolic_trace",
                 gm->type);
        return -1;
    }
    size_t mark = cfx_scope_open(), before = gm->graph->made.len;
    folding f = {.gm = gm, .skip = skip, .user = user, .constant = cfx__alloc0(before + 1),
                 .copies = cfx_dict_new()};
    int changes = 0;
    cfx__alias_open(&f.alias, gm->graph);
    find(&f);
    cfx__alias_close(&f.alias);
    cfx_value v = f.wanted.len && cfx_ok() ? compute(&f) : cfx_none();
    for (size_t i = 0; i < f.wanted.len && cfx_ok(); i++) {
        cfx_value one = cfx_as_list(v)->items[i];
        if (one.tag == CFX_TAG_TENSOR) {
            replace(&f, f.wanted.data[i], cfx_as_tensor(one));
            changes++;
        }
    }
    if (changes && cfx_ok())
        sweep(&f, before);
    cfx__free(f.constant);
    VEC_FREE(f.wanted);
    cfx_scope_close(mark);
    return cfx_ok() ? changes : -1;
}
