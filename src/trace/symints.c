/* Which node produces each size, and where; see symints.h. */
#include "relations.h"
#include "symints.h"

void cfx__symints_free(cfx__symints *s) {
    for (size_t i = 0; i < s->all.len; i++)
        cfx_value_drop(s->all.data[i].expr);
    VEC_FREE(s->all);
    VEC_FREE(s->dims);
    VEC_FREE(s->tensors);
    VEC_FREE(s->number);
}

static cfx__symint *symint(const cfx__merging *g, uint32_t i) {
    return i ? &g->symints->all.data[i - 1] : NULL;
}

static uint32_t frame_of(const cfx__merging *g, const cfx_node *n) {
    const cfx__record_log *log = g->symints->log;
    uint32_t id = cfx__node_of(n)->id;
    return id < log->frame_of.len ? log->frame_of.data[id] : 0;
}

static uint32_t new_symint(cfx__merging *g, cfx__symint s) {
    for (int k = 0; k < g->m->worlds->n; k++)
        cfx__worlds_eval(g->m->worlds, k, s.expr, &s.seen.at[k]);
    cfx_value_keep(s.expr);
    cfx__exprs_note(g->exprs, s.expr);
    VEC_PUSH(g->symints->all, s);
    return (uint32_t)g->symints->all.len;
}

cfx_value cfx__symint_expr(const cfx__merging *g, uint32_t i) {
    return i ? symint(g, i)->expr : cfx_none();
}

static bool is_seen(const cfx__merging *g, const cfx__symint *s, const cfx__seen *seen) {
    return s && !memcmp(s->seen.at, seen->at, (size_t)g->m->worlds->n * sizeof *seen->at);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct cfx__symint_tensor *tensor_of(const cfx__merging *g, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    bool known = id < g->symints->tensors.len && g->symints->tensors.data[id].ndim >= 0;
    return known ? &g->symints->tensors.data[id] : NULL;
}

/* How many elements a tensor has, as an expression. */
static cfx_value elements(cfx_value shape) {
    cfx_value all = cfx_int(1);
    for (int64_t i = 0; i < cfx_len(shape); i++)
        all = cfx__sym_binary(CFX__SYM_MUL, all, cfx_at(shape, i));
    return all;
}

uint32_t cfx__symint_of(cfx__merging *g, const cfx_node *tensor, int dim) {
    const struct cfx__symint_tensor *t = tensor_of(g, tensor);
    if (!t || dim >= t->ndim)
        return 0;
    uint32_t *at = &g->symints->dims.data[t->first + (size_t)(dim < 0 ? t->ndim : dim)];
    cfx_value all = dim < 0 && !*at ? elements(cfx__merge_sizes(cfx_node_get_meta(tensor, "val")))
                                    : cfx_none();
    if (all.tag == CFX_TAG_SYM)
        *at = new_symint(g, (cfx__symint){.expr = all, .tensor = (cfx_node *)(uintptr_t)tensor,
                                          .dim = CFX__NUMEL});
    return *at;
}

static void track_tensor(cfx__merging *g, cfx_node *n, cfx_value shape) {
    cfx__symints *s = g->symints;
    uint32_t id = cfx__node_of(n)->id;
    struct cfx__symint_tensor none = {.ndim = -1};
    uint32_t dims[CFX_MAX_DIMS];
    cfx__seen seen[CFX_MAX_DIMS];
    int ndim = (int)cfx_len(shape);
    for (int i = 0; i < ndim; i++)
        for (int k = 0; k < g->m->worlds->n; k++)
            cfx__worlds_eval(g->m->worlds, k, cfx_at(shape, i), &seen[i].at[k]);
    for (int i = 0; i < ndim; i++) {
        cfx_value size = cfx_at(shape, i);
        bool varies = size.tag == CFX_TAG_SYM;
        dims[i] = varies ? cfx__symint_shared(g, n, ndim, seen, i) : 0;
        if (varies && !dims[i])
            dims[i] = new_symint(g, (cfx__symint){.expr = size, .tensor = n, .dim = i});
    }
    while (s->tensors.len <= id)
        VEC_PUSH(s->tensors, none);
    s->tensors.data[id] = (struct cfx__symint_tensor){s->dims.len, ndim};
    for (int i = 0; i < ndim; i++)
        VEC_PUSH(s->dims, dims[i]);
    VEC_PUSH(s->dims, 0u); /* its elements */
}

/* Node n gives size number i. */
static void set_number(cfx__merging *g, const cfx_node *n, uint32_t i) {
    uint32_t id = cfx__node_of(n)->id;
    while (g->symints->number.len <= id)
        VEC_PUSH(g->symints->number, 0u);
    g->symints->number.data[id] = i;
}

/* Sizes may make a number that is none, s - s: an object like the others. */
static bool has_nodes(cfx_value args) {
    for (int64_t i = 0; i < cfx_len(args); i++)
        if (cfx_at(args, i).tag == CFX_TAG_NODE)
            return true;
    return false;
}

static void track_number(cfx__merging *g, cfx_node *n, cfx_value val) {
    if (val.tag == CFX_TAG_SYM || has_nodes(n->args))
        set_number(g, n, new_symint(g, (cfx__symint){.expr = val, .node = n,
                                                     .frame = frame_of(g, n)}));
}

static bool is_number(cfx_value val) {
    return val.tag == CFX_TAG_SYM || val.tag == CFX_TAG_INT;
}

void cfx__symint_made(cfx__merging *g, cfx_node *n, cfx_value val) {
    cfx_value shape = cfx__merge_sizes(val);
    if (shape.tag == CFX_TAG_TUPLE || shape.tag == CFX_TAG_LIST)
        track_tensor(g, n, shape);
    else if (is_number(val))
        track_number(g, n, val);
}

/* ---- what is asked for ----------------------------------------------------------------------- */

/* The node that gives a size, made at the insert point where there is none yet. */
static cfx_value force(cfx__merging *g, uint32_t i) {
    cfx__symint *s = symint(g, i);
    if (s->node)
        return cfx_node_value(s->node);
    cfx_node *n = s->dim == CFX__NUMEL
                      ? cfx__reify_node(g, "aten.sym_numel.default", cfx_tuple(s->tensor), s->expr)
                      : cfx__reify_node(g, "aten.sym_size.int", cfx_tuple(s->tensor, s->dim),
                                        s->expr);
    symint(g, i)->node = n;
    if (!n->graph)
        return cfx_bad();
    set_number(g, n, i);
    return cfx_node_value(n);
}

/* The memory that a tensor takes is computed of its sizes, from the first to the last. */
static void measure(cfx__merging *g, const cfx_node *tensor) {
    const struct cfx__symint_tensor *t = tensor_of(g, tensor);
    for (int i = 0; t && i < t->ndim && cfx_ok(); i++)
        if (g->symints->dims.data[t->first + (size_t)i])
            force(g, g->symints->dims.data[t->first + (size_t)i]);
}

void cfx__symint_wrapped(cfx__merging *g) {
    const cfx__record_log *log = g->symints->log;
    while (g->symints->wraps < log->wraps.len &&
           !cfx_node_precedes(g->at[0], log->wraps.data[g->symints->wraps].after))
        measure(g, log->wraps.data[g->symints->wraps++].tensor);
}

/* The first size of an input that has the expression of size number i. */
static uint32_t first_like(const cfx__merging *g, uint32_t i) {
    uint32_t first = 1;
    while (!cfx_equal_values(symint(g, first)->expr, symint(g, i)->expr))
        first++;
    return first;
}

void cfx__symint_guard_inputs(cfx__merging *g) {
    for (uint32_t i = 1, n = (uint32_t)g->symints->all.len; i <= n && cfx_ok(); i++) {
        uint32_t first = first_like(g, i);
        cfx_value expr = symint(g, i)->expr;
        if (first < i || cfx__relation_bounds(g->m->worlds, expr, true) ||
            cfx__relation_bounds(g->m->worlds, expr, false))
            force(g, i);
        if (first < i)
            force(g, first);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t number_of(const cfx__merging *g, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return id < g->symints->number.len ? g->symints->number.data[id] : 0;
}

/* What a marked number is; 0: none that varies, or a tensor. */
static uint32_t marked(cfx__merging *g, const cfx__record_mark *m) {
    return !m || !m->node            ? 0
           : m->dim == CFX__A_NUMBER ? number_of(g, m->node)
                                     : cfx__symint_of(g, m->node, m->dim);
}

/* What a node has of a size: the number that it gives, or one of a tensor. */
static uint32_t size_in(cfx__merging *g, const cfx_node *n, const cfx__seen *seen) {
    uint32_t number = number_of(g, n);
    const struct cfx__symint_tensor *t = tensor_of(g, n);
    if (is_seen(g, symint(g, number), seen))
        return number;
    for (int i = 0; t && i < t->ndim; i++) {
        uint32_t d = g->symints->dims.data[t->first + (size_t)i];
        if (is_seen(g, symint(g, d), seen))
            return d;
    }
    return 0;
}

/* What a decomposition computed last of it. */
static uint32_t computed(const cfx__merging *g, uint32_t frame, const cfx__seen *seen) {
    for (size_t i = g->symints->all.len; i > 0; i--) {
        const cfx__symint *s = symint(g, (uint32_t)i);
        if (!s->tensor && s->frame == frame && is_seen(g, s, seen))
            return (uint32_t)i;
    }
    return 0;
}

typedef struct {
    cfx__merging *g;
    const cfx__seen *seen;
    uint32_t found;
} sought;

static void seek(cfx_node *n, void *user) {
    sought *s = user;
    if (!s->found)
        s->found = size_in(s->g, n, s->seen);
}

/* Whether argument i of a decomposition is that number, and does not say where it comes from. */
static bool is_given(const cfx__merging *g, size_t i, const cfx__seen *seen) {
    for (int k = 0; k < g->m->worlds->n; k++) {
        const struct cfx__record_given *given = &g->m->log[k]->given.data[i];
        if (given->what.node || given->number != seen->at[k])
            return false;
    }
    return true;
}

/* What the decomposition number `frame` could have it from; 0: nothing, or from the one around it.
 */
static uint32_t at_hand(cfx__merging *g, uint32_t frame, const cfx__seen *seen) {
    const cfx__record_log *log = g->symints->log;
    const struct cfx__record_frame *f = &log->frames.data[frame];
    uint32_t found = computed(g, frame, seen);
    for (size_t i = f->first; i < f->first + f->len && !found; i++) {
        uint32_t number = marked(g, &log->given.data[i].what);
        found = is_seen(g, symint(g, number), seen) ? number : 0;
        if (!found && is_given(g, i, seen))
            return 0;
    }
    for (size_t i = f->first; i < f->first + f->len && !found; i++)
        if (log->given.data[i].what.node && log->given.data[i].what.dim == CFX__A_NUMBER)
            found = size_in(g, log->given.data[i].what.node, seen);
    return found;
}

static uint32_t find(cfx__merging *g, const cfx__seen *seen) {
    uint32_t frame = frame_of(g, g->at[0]), found = 0;
    const struct cfx__record_frame *frames = g->symints->log->frames.data;
    for (; frame && !found; frame = frames[frame].outer)
        found = at_hand(g, frame, seen);
    sought s = {g, seen, found};
    cfx__node_each(g->at[0]->args, seek, &s);
    for (size_t i = 1; i <= g->symints->all.len && !s.found; i++)
        if (is_seen(g, symint(g, (uint32_t)i), seen))
            s.found = (uint32_t)i;
    return s.found;
}

cfx_value cfx__symint_arg(cfx__merging *g, const cfx_value *v) {
    cfx__seen seen = {0};
    bool varies = false;
    const cfx__record_mark *m = cfx__record_mark_of(g->symints->log, v[0]);
    uint32_t found = marked(g, m);
    for (int k = 0; k < g->m->worlds->n; k++) {
        seen.at[k] = cfx_integer(v[k]);
        varies |= seen.at[k] != seen.at[0];
    }
    if (!varies && !found)
        return cfx_int(seen.at[0]);
    if (!found)
        found = find(g, &seen);
    return found ? force(g, found) : cfx_none();
}

cfx_value cfx__symint_node_arg(const cfx__merging *g, cfx_node *n) {
    cfx_value val = cfx_node_get_meta(n, "val");
    if (val.tag == CFX_TAG_FLOAT && n->op == CFX_CALL_FUNCTION && !has_nodes(n->args))
        return val; /* a quotient of sizes that do not vary */
    bool number = val.tag == CFX_TAG_INT && n->op == CFX_CALL_FUNCTION;
    bool arithmetic = cfx__merge_is_scalar(cfx_node_get_meta(g->at[0], "val"));
    return number && (!arithmetic || !has_nodes(n->args)) ? val : cfx_node_value(n);
}

cfx_value cfx__symint_known(cfx__merging *g, cfx_value expr) {
    for (size_t i = 1; i <= g->symints->all.len; i++)
        if (cfx_equal_values(symint(g, (uint32_t)i)->expr, expr))
            return force(g, (uint32_t)i);
    return cfx_none();
}
