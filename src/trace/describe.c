/* The result of a node over all recordings: numbers that differ become expressions, also in the
 * metadata of tensors. Start at cfx__merge_val. */
#include "symints.h"

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* ---- numbers --------------------------------------------------------------------------------- */

static const char *seen_text(const cfx__merging *g, const int64_t *at) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int k = 0; k < g->m->worlds->n; k++)
        cfx_list_append(cfx_as_list(list), cfx_int(at[k]));
    return cfx_value_repr(list);
}

cfx_value cfx__merge_expression(cfx__merging *g, const cfx__seen *seen, const char *what) {
    cfx_value expr = cfx__exprs_fit(g->exprs, seen);
    if (!cfx_is_none(expr))
        return expr;
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "%s of %s varies with the sizes of the inputs in a way that no expression was found "
             "for: it is %s",
             what, g->at[0]->name, seen_text(g, seen->at));
    return cfx_bad();
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Strides are sizes times strides as a rule; `done` those that are found already. */
static cfx_value stride_of(cfx__merging *g, const cfx_tensor *const *t, cfx_value shape,
                           const cfx_value *done, int dim) {
    cfx__seen seen = {0};
    int n = g->m->worlds->n;
    for (int k = 0; k < n; k++)
        seen.at[k] = t[k]->stride[dim];
    for (int i = 0; i < t[0]->ndim; i++) {
        bool fits = i != dim && !cfx_is_none(done[i]);
        for (int k = 0; k < n && fits; k++) {
            int64_t all;
            fits =
                !__builtin_mul_overflow(t[k]->shape[i], t[k]->stride[i], &all) && all == seen.at[k];
        }
        if (fits)
            return cfx__sym_binary(CFX__SYM_MUL, cfx_as_list(shape)->items[i], done[i]);
    }
    return cfx__merge_expression(g, &seen, "a stride");
}

static cfx_value exact_strides(cfx__merging *g, const cfx_tensor *const *t, cfx_value shape) {
    cfx_value done[CFX_MAX_DIMS];
    int ndim = t[0]->ndim;
    for (int i = 0; i < ndim; i++)
        done[i] = cfx_none();
    for (int step = 0; step < ndim; step++) { /* the smallest first */
        int next = -1;
        for (int i = ndim; i-- > 0;)
            if (cfx_is_none(done[i]) && (next < 0 || t[0]->stride[i] < t[0]->stride[next]))
                next = i;
        done[next] = stride_of(g, t, shape, done, next);
        if (cfx_is_bad(done[next]))
            return cfx_bad();
    }
    return cfx_tuple_value(ndim, done);
}

/* The dimension whose elements are nearest in memory, of those that are not done; from the last
 * where that does not tell. */
static int next_in_memory(const cfx_tensor *t, const cfx_value *done) {
    int next = -1;
    for (int i = t->ndim; i-- > 0;)
        if (cfx_is_none(done[i]) && (next < 0 || (t->shape[i] > 1 && t->shape[next] > 1 &&
                                                  t->stride[i] < t->stride[next])))
            next = i;
    return next;
}

/* Strides of tensors without gaps, where those of dimensions of one element and of tensors without
 * elements do not count: they lead to no element. None where there are gaps. */
static cfx_value dense_strides(const cfx__merging *g, const cfx_tensor *const *t,
                               cfx_value shape) {
    cfx_value done[CFX_MAX_DIMS], all = cfx_int(1);
    int64_t now[CFX__WORLDS];
    int most = 0, ndim = t[0]->ndim;
    for (int i = 0; i < ndim; i++)
        done[i] = cfx_none();
    for (int k = 0; k < g->m->worlds->n; k++) {
        now[k] = 1;
        most = t[k]->numel > t[most]->numel ? k : most;
    }
    for (int step = 0; step < ndim; step++) {
        const int next = next_in_memory(t[most], done);
        for (int k = 0; k < g->m->worlds->n; k++) {
            const int64_t size = t[k]->shape[next];
            if (t[k]->numel && size > 1 && t[k]->stride[next] != now[k])
                return cfx_none();
            now[k] *= t[k]->numel ? size : 1;
        }
        done[next] = all;
        const cfx_value size = cfx_as_list(shape)->items[next];
        if (size.tag != CFX_TAG_INT || cfx_integer(size)) /* as if there were one, in PyTorch */
            all = cfx__sym_binary(CFX__SYM_MUL, size, all);
    }
    return cfx_tuple_value(ndim, done);
}

/* What was guessed of strides that lead nowhere is left. */
static cfx_value strides_of(cfx__merging *g, const cfx_tensor *const *t, cfx_value shape) {
    const bool guessed = g->exprs->guessed;
    cfx_value dense = dense_strides(g, t, shape);
    g->exprs->guessed = false;
    cfx_value exact = exact_strides(g, t, shape);
    const bool sure = !cfx_is_bad(exact) && !g->exprs->guessed;
    g->exprs->guessed |= guessed;
    if (sure || cfx_is_none(dense))
        return exact;
    if (cfx_is_bad(exact) && !cfx__error_forgive())
        return exact;
    g->exprs->guessed = guessed;
    return dense;
}

/* The sizes that the program notes for the call at hand; None where it was decomposed, or gives
 * several results. */
static cfx_value noted_sizes(const cfx__merging *g) {
    const cfx_node *n = g->at[0];
    uint32_t origin = cfx__node_of(n)->origin;
    const cfx_node *was = g->m->from && origin ? &g->m->from->made.data[origin - 1]->pub : NULL;
    return was && was->target.op && was->target.op == n->target.op
               ? cfx__merge_sizes(cfx_node_get_meta(was, "val"))
               : cfx_none();
}

static cfx_value shape_of(cfx__merging *g, const cfx_tensor *const *t, int out) {
    cfx_value shape = cfx_tuple_value(0, NULL), rule = noted_sizes(g);
    if (!is_list(rule) || cfx_as_list(rule)->len != t[0]->ndim)
        rule = cfx__sizes_rule(g->at[0], out);
    bool ruled = is_list(rule) && cfx_as_list(rule)->len == t[0]->ndim;
    cfx__seen seen[CFX_MAX_DIMS];
    for (int i = 0; i < t[0]->ndim; i++)
        for (int k = 0; k < g->m->worlds->n; k++)
            seen[i].at[k] = t[k]->shape[i];
    for (int i = 0; i < t[0]->ndim; i++) {
        uint32_t same =
            g->symints ? cfx__symint_shared(g, g->at[0], t[0]->ndim, seen, i) : 0;
        cfx_value size = same    ? cfx__symint_expr(g, same)
                         : ruled ? cfx_as_list(rule)->items[i]
                                 : cfx_none();
        if (!cfx__exprs_proves(g->exprs, size, &seen[i]))
            size = cfx__merge_expression(g, &seen[i], "a size");
        if (cfx_is_bad(size))
            return size;
        cfx__exprs_note(g->exprs, size);
        cfx_list_append(cfx_as_list(shape), size);
    }
    return shape;
}

static bool varies(cfx_value list) {
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++)
        if (cfx_as_list(list)->items[i].tag == CFX_TAG_SYM)
            return true;
    return false;
}

/* Metadata of a tensor, result `out` of the node. */
static cfx_value merge_tensor(cfx__merging *g, const cfx_value *v, int out) {
    const cfx_tensor *t[CFX__WORLDS];
    for (int k = 0; k < g->m->worlds->n; k++)
        t[k] = cfx_as_tensor(v[k]);
    cfx_value shape = shape_of(g, t, out), stride = cfx_bad();
    if (!cfx_is_bad(shape))
        stride = strides_of(g, t, shape);
    if (cfx_is_bad(stride))
        return stride;
    if (!varies(shape) && !varies(stride))
        return cfx_tensor_value(cfx__tensor_faked(t[0]));
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value((cfx_dtype)t[0]->dtype));
    cfx_dict_set(d, "stride", stride);
    cfx_dict_set(d, "device", cfx_device_value(t[0]->device));
    return cfx_dict_value(d);
}

/* ---- numbers that are computed --------------------------------------------------------------- */

/* What a call on numbers gives, as an expression; None where there is none. */
static cfx_value number_rule(const cfx_node *n) {
    static const struct {
        const char *name;
        cfx__sym_op op;
    } functions[] = {{"operator.add", CFX__SYM_ADD},           {"operator.mul", CFX__SYM_MUL},
                     {"operator.floordiv", CFX__SYM_FLOORDIV}, {"operator.mod", CFX__SYM_MOD},
                     {"operator.pow", CFX__SYM_POW},           {"torch.sym_min", CFX__SYM_MIN},
                     {"torch.sym_max", CFX__SYM_MAX},          {"operator.sub", CFX__SYM_ADD}};
    if (cfx_as_list(n->args)->len != 2)
        return cfx_none();
    cfx_value a = cfx__reify_meaning(cfx_as_list(n->args)->items[0]),
              b = cfx__reify_meaning(cfx_as_list(n->args)->items[1]);
    bool whole = (a.tag == CFX_TAG_INT || a.tag == CFX_TAG_SYM) &&
                 (b.tag == CFX_TAG_INT || b.tag == CFX_TAG_SYM);
    for (int i = 0; whole && i < COUNT(functions); i++)
        if (!strcmp(functions[i].name, n->target.name)) {
            bool minus = i == COUNT(functions) - 1;
            return cfx__sym_binary(functions[i].op, a,
                                   minus ? cfx__sym_binary(CFX__SYM_MUL, cfx_int(-1), b) : b);
        }
    return cfx_none();
}

static cfx_value merge_number(cfx__merging *g, const cfx_value *v) {
    cfx__seen seen = {0};
    for (int k = 0; k < g->m->worlds->n; k++)
        seen.at[k] = cfx_integer(v[k]);
    cfx_value expr = number_rule(g->at[0]);
    if (!cfx__exprs_proves(g->exprs, expr, &seen))
        expr = cfx__merge_expression(g, &seen, "the result");
    return expr;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Whether a result is of one kind in all worlds; an error where not. */
static bool is_alike(const cfx__merging *g, const cfx_value *v) {
    for (int k = 1; k < g->m->worlds->n; k++) {
        bool same = v[k].tag == v[0].tag;
        if (same && v[0].tag == CFX_TAG_TENSOR)
            same = cfx_as_tensor(v[k])->ndim == cfx_as_tensor(v[0])->ndim &&
                   cfx_as_tensor(v[k])->dtype == cfx_as_tensor(v[0])->dtype;
        if (same && is_list(v[0]))
            same = cfx_as_list(v[k])->len == cfx_as_list(v[0])->len;
        if (same)
            continue;
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "how many results or dimensions %s has depends on the sizes of the inputs",
                 g->at[0]->name);
        return false;
    }
    return true;
}

cfx_value cfx__merge_val(cfx__merging *g, const cfx_value *v, int out) {
    if (!is_alike(g, v))
        return cfx_bad();
    if (v[0].tag == CFX_TAG_TENSOR)
        return merge_tensor(g, v, out);
    if (v[0].tag == CFX_TAG_INT)
        return merge_number(g, v);
    cfx_value truth = v[0].tag == CFX_TAG_BOOL ? cfx__merge_truth_text(g->at[0]) : cfx_none();
    if (!is_list(v[0]))
        return cfx_is_none(truth) ? v[0] : truth;
    cfx_value list = cfx_tuple_value(0, NULL), part[CFX__WORLDS];
    for (int64_t i = 0; i < cfx_as_list(v[0])->len && cfx_ok(); i++) {
        for (int k = 0; k < g->m->worlds->n; k++)
            part[k] = cfx_as_list(v[k])->items[i];
        cfx_list_append(cfx_as_list(list), cfx__merge_val(g, part, (int)i));
    }
    return list;
}

static void note_sizes(cfx_node *n, void *user) {
    cfx_value shape = cfx__merge_sizes(cfx_node_get_meta(n, "val"));
    for (int64_t i = 0; is_list(shape) && i < cfx_as_list(shape)->len; i++)
        cfx__exprs_note(user, cfx_as_list(shape)->items[i]);
}

cfx_value cfx__worlds_describe(cfx__exprs *x, const cfx_node *n, const cfx_value *v) {
    cfx__merge m = {.worlds = x->worlds};
    cfx__merging g = {.m = &m, .exprs = x, .at = {(cfx_node *)n}};
    cfx__node_each(n->args, note_sizes, x);
    return cfx__merge_val(&g, v, 0);
}
