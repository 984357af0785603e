/* Functions of a model: the nodes of the body come in the place of each call, with the caller's
 * values for its inputs and the caller's attributes where the body names them. Start at
 * cfx__onnx_inline. */
#include "onnx.h"

enum { MOST_NESTED = 64, MOST_NODES = 250000 }; /* calls inside each other; nodes of all bodies */

/* Domain, name and overload as one text; none of them has a line break in it that matters. */
static const char *key_of(const char *domain, const char *name, const char *overload) {
    return cfx__text_format("%s\n%s\n%s", domain, name, overload);
}

const cfx__onnx_function *cfx__onnx_find_function(cfx__onnx_reader *r, const cfx__onnx_node *n) {
    const cfx__onnx_model *m = &r->model;
    if (!m->nfunctions)
        return NULL;
    bool listed = r->functions.len > 0;
    for (size_t i = 0; !listed && i < m->nfunctions; i++) {
        const cfx__onnx_function *f = &m->functions[i];
        const char *key = key_of(f->domain, f->name, f->overload);
        if (cfx__map_get(&r->functions, key)) {
            cfx__onnx_bad(r, "the function '%s' is given twice", f->name);
            return NULL;
        }
        cfx__map_set(&r->functions, cfx__arena_copy(&r->arena, key, strlen(key)),
                     (void *)(uintptr_t)f);
    }
    return cfx__map_get(&r->functions, key_of(n->domain, n->op, n->overload));
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* The attribute that a name stands for in a call: the call's own, or the default. NULL: it is left
 * out. */
static const cfx__onnx_attr *given(const cfx__onnx_node *call, const cfx__onnx_function *f,
                                   const char *name) {
    for (size_t i = 0; i < call->nattrs; i++)
        if (!strcmp(call->attrs[i].name, name))
            return &call->attrs[i];
    for (size_t i = 0; i < f->ndefaults; i++)
        if (!strcmp(f->defaults[i].name, name))
            return &f->defaults[i];
    return NULL;
}

static const cfx__onnx_node *filled(cfx__onnx_reader *r, const cfx__onnx_node *nodes, size_t n,
                                    const cfx__onnx_node *call, const cfx__onnx_function *f);

static cfx__onnx_graph *filled_graph(cfx__onnx_reader *r, const cfx__onnx_graph *g,
                                     const cfx__onnx_node *call, const cfx__onnx_function *f) {
    cfx__onnx_graph *copy = cfx__arena_alloc(&r->arena, sizeof *copy);
    *copy = *g;
    copy->nodes = (cfx__onnx_node *)(uintptr_t)filled(r, g->nodes, g->nnodes, call, f);
    return copy;
}

/* Copies of nodes with the caller's attributes in their places. */
static const cfx__onnx_node *filled(cfx__onnx_reader *r, const cfx__onnx_node *nodes, size_t n,
                                    const cfx__onnx_node *call, const cfx__onnx_function *f) {
    cfx__onnx_node *copy = cfx__arena_alloc(&r->arena, (n ? n : 1) * sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = nodes[i];
        copy[i].nattrs = 0;
        size_t room = nodes[i].nattrs ? nodes[i].nattrs : 1;
        copy[i].attrs = cfx__arena_alloc(&r->arena, room * sizeof *copy[i].attrs);
        for (size_t k = 0; k < nodes[i].nattrs; k++) {
            cfx__onnx_attr a = nodes[i].attrs[k];
            const cfx__onnx_attr *from = a.ref ? given(call, f, a.ref) : NULL;
            if (a.ref && !from)
                continue;
            if (from) {
                const char *name = a.name;
                a = *from;
                a.name = name;
            }
            if (a.g)
                a.g = filled_graph(r, a.g, call, f);
            copy[i].attrs[copy[i].nattrs++] = a;
        }
    }
    return copy;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool bind_inputs(cfx__onnx_scope *inside, cfx__onnx_scope *s, const cfx__onnx_node *n,
                        const cfx__onnx_function *f) {
    if (n->ninputs > f->ninputs)
        return cfx__onnx_bad(s->r, "it has %zu inputs, and the function takes %zu", n->ninputs,
                             f->ninputs);
    for (size_t i = 0; i < n->ninputs; i++) {
        cfx_node *v = *n->inputs[i] ? cfx__onnx_value(s, n->inputs[i]) : NULL;
        if (*n->inputs[i] && (!v || !cfx__onnx_define(inside, f->inputs[i], v)))
            return false;
    }
    return true;
}

/* Inputs that a call leaves out are left out inside as well. */
static const cfx__onnx_node *without(cfx__onnx_reader *r, const cfx__onnx_node *nodes, size_t n,
                                     const cfx__onnx_node *call, const cfx__onnx_function *f) {
    cfx__map missing = {0};
    for (size_t i = 0; i < f->ninputs; i++)
        if (i >= call->ninputs || !*call->inputs[i])
            cfx__map_set(&missing, f->inputs[i], (void *)(uintptr_t)f);
    cfx__onnx_node *copy = missing.len ? cfx__arena_alloc(&r->arena, (n ? n : 1) * sizeof *copy)
                                       : NULL;
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = nodes[i];
        size_t room = nodes[i].ninputs ? nodes[i].ninputs : 1;
        copy[i].inputs = cfx__arena_alloc(&r->arena, room * sizeof *copy[i].inputs);
        for (size_t k = 0; k < nodes[i].ninputs; k++)
            copy[i].inputs[k] = cfx__map_get(&missing, nodes[i].inputs[k]) ? ""
                                                                          : nodes[i].inputs[k];
    }
    cfx__map_release(&missing);
    return copy ? copy : nodes;
}

static bool bind_outputs(cfx__onnx_scope *inside, cfx__onnx_scope *s, const cfx__onnx_node *n,
                         const cfx__onnx_function *f) {
    if (n->noutputs > f->noutputs)
        return cfx__onnx_bad(s->r, "it has %zu results, and the function gives %zu", n->noutputs,
                             f->noutputs);
    for (size_t i = 0; i < n->noutputs; i++) {
        cfx_node *v = *n->outputs[i] ? cfx__onnx_value(inside, f->outputs[i]) : NULL;
        if (*n->outputs[i] && (!v || !cfx__onnx_define(s, n->outputs[i], v)))
            return false;
    }
    return true;
}

bool cfx__onnx_inline(cfx__onnx_scope *s, const cfx__onnx_node *n, const cfx__onnx_function *f) {
    cfx__onnx_reader *r = s->r;
    if (s->depth >= MOST_NESTED)
        return cfx__onnx_bad(r, "functions call each other more than %d deep", MOST_NESTED);
    r->inlined += f->nnodes;
    if (r->inlined > MOST_NODES)
        return cfx__onnx_bad(r, "its functions stand for more than %d nodes", MOST_NODES);
    cfx__onnx_scope inside = {.r = r,
                              .program = s->program,
                              .module = s->module,
                              .graph = s->graph,
                              .opsets = f->nopsets ? f->opsets : s->opsets,
                              .nopsets = f->nopsets ? f->nopsets : s->nopsets,
                              .caller = s,
                              .depth = s->depth + 1};
    const cfx__onnx_node *body = filled(r, f->nodes, f->nnodes, n, f);
    body = without(r, body, f->nnodes, n, f);
    bool fine = bind_inputs(&inside, s, n, f) && cfx__onnx_nodes(&inside, body, f->nnodes) &&
                bind_outputs(&inside, s, n, f);
    cfx__onnx_scope_close(&inside);
    return fine;
}
