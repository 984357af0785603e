/* Operators of the caller's that write to their arguments, as values: PyTorch's
 * auto_functionalized_v2. The operator runs on copies of the tensors that it writes to, or of the
 * bases of those that are views, and the copies are results beside its own. */
#include "record.h"

static const char target[] = "torch.ops.higher_order.auto_functionalized_v2";

typedef struct making {
    cfx__recorder *r;
    cfx_site at;
    const cfx__schema *schema;
    cfx_value *args;
    cfx_dict *kwargs;
    cfx_list *bases; /* inner values, each once */
    VEC(struct cfx__functional_base *) known; /* whose they are */
} making;

bool cfx__functional_can_auto(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    static const char *const builtin[] = {"aten", "prim", "prims", "python"};
    for (int i = 0; i < COUNT(builtin); i++)
        if (!strcmp(s->ns, builtin[i]))
            return false;
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i].writes && s->args[i].type != CFX__T_TENSOR)
            return false;
    for (int i = 0; i < s->nrets; i++)
        if (s->rets[i].alias || s->rets[i].type != CFX__T_TENSOR || s->rets[i].list)
            return false;
    return true;
}

static int base_index(making *m, cfx_tensor *t) {
    cfx__record_shadow *s = cfx__record_shadow_of(t);
    for (size_t i = 0; i < m->known.len; i++)
        if (m->known.data[i] == s->base)
            return (int)i;
    VEC_PUSH(m->known, s->base);
    cfx_list_append(m->bases, cfx_tensor_value(cfx__functional_base_value(s->base)));
    return (int)m->known.len - 1;
}

static void set(making *m, const char *prefix, const char *what, cfx_value v) {
    cfx_dict_set(m->kwargs, cfx__text_format("%s_%s", prefix, what), v);
}

static bool same(int n, const int64_t *a, const int64_t *b) {
    return !memcmp(a, b, (size_t)n * sizeof *a);
}

/* The one dimension in which a view that has the strides of its base is smaller; -1 where it is no
 * slice. */
static int sliced_dim(const cfx_tensor *base, const cfx_tensor *view) {
    int dim = -1;
    if (view->ndim != base->ndim || !same(view->ndim, view->stride, base->stride))
        return -1;
    for (int i = 0; i < view->ndim; i++)
        if (view->shape[i] != base->shape[i]) {
            if (dim >= 0)
                return -1;
            dim = i;
        }
    return dim >= 0 && view->stride[dim] && view->offset % view->stride[dim] == 0 ? dim : -1;
}

/* How a tensor that is written to lies in its base. */
static void write_view(making *m, const char *prefix, cfx_value v) {
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    set(m, prefix, "base_index", t ? cfx_int(base_index(m, t)) : cfx_none());
    if (!t || !cfx__record_shadow_of(t)->view)
        return;
    const cfx_tensor *base = cfx__functional_base_value(cfx__record_shadow_of(t)->base);
    const cfx_tensor *view = cfx__functional_geometry(m->r, t);
    int dim = sliced_dim(base, view);
    bool whole = view->ndim == base->ndim && view->offset == base->offset &&
                 same(view->ndim, view->shape, base->shape) &&
                 same(view->ndim, view->stride, base->stride);
    if (whole) {
        set(m, prefix, "alias", cfx_bool(true));
    } else if (dim >= 0) {
        int64_t start = view->offset / view->stride[dim];
        set(m, prefix, "slice_dim", cfx_int(dim));
        set(m, prefix, "slice_start", cfx_int(start));
        set(m, prefix, "slice_end", cfx_int(start + view->shape[dim]));
    } else {
        set(m, prefix, "size", cfx_ints_value(view->ndim, view->shape));
        set(m, prefix, "stride", cfx_ints_value(view->ndim, view->stride));
        set(m, prefix, "storage_offset", cfx_int(view->offset));
    }
}

/* Whether every tensor that is written to is one that the recorder follows. */
static bool all_known(const making *m) {
    for (int i = 0; i < m->schema->nargs; i++) {
        cfx_value v = m->args[i];
        int64_t n = v.tag == CFX_TAG_LIST ? cfx_as_list(v)->len : 1;
        for (int64_t k = 0; m->schema->args[i].writes && k < n; k++) {
            cfx_value one = v.tag == CFX_TAG_LIST ? cfx_as_list(v)->items[k] : v;
            const cfx__record_shadow *s =
                one.tag == CFX_TAG_TENSOR ? cfx__record_shadow_of(cfx_as_tensor(one)) : NULL;
            if (one.tag == CFX_TAG_TENSOR && (!s || !s->base))
                return false;
        }
    }
    return true;
}

/* The keywords of the node: what is only read, then where what is written lies, then the bases. */
static void write_kwargs(making *m) {
    for (int i = 0; i < m->schema->nargs; i++)
        if (!m->schema->args[i].writes)
            cfx_dict_set(m->kwargs, m->schema->args[i].name,
                         cfx__functional_unwrapped(m->r, m->args[i]));
    for (int i = 0; i < m->schema->nargs; i++) {
        const cfx__schema_arg *arg = &m->schema->args[i];
        const char *prefix = cfx__text_format("_%s", arg->name);
        cfx_value v = m->args[i];
        if (!arg->writes)
            continue;
        if (!arg->list) {
            write_view(m, prefix, v);
            continue;
        }
        bool list = v.tag == CFX_TAG_LIST;
        set(m, prefix, "length", list ? cfx_int(cfx_as_list(v)->len) : cfx_none());
        for (int64_t k = 0; list && k < cfx_as_list(v)->len; k++)
            write_view(m, cfx__text_format("%s_%lld", prefix, (long long)k),
                       cfx_as_list(v)->items[k]);
    }
    cfx_value bases = cfx_list_value(m->bases->len, m->bases->items);
    cfx_dict_set(m->kwargs, "_all_bases", bases);
}

/* What the operator gives, without numbers, and tensors like the bases: the results of the node. */
static cfx_value results_like(making *m, cfx_op *op) {
    cfx_value own[CFX_MAX_ARGS], all = cfx_tuple_value(0, NULL);
    for (int i = 0; i < m->schema->nargs; i++)
        own[i] = cfx__functional_unwrapped(m->r, m->args[i]);
    cfx__dispatch *d = cfx__dispatcher();
    cfx__op_layer *layer = d->recorder;
    d->recorder = cfx__op_record_nothing;
    cfx_value v = cfx__op_run(m->at, op, own);
    d->recorder = layer;
    if (!cfx_ok() || cfx_is_bad(v))
        return cfx_bad();
    if (m->schema->nrets < 2)
        cfx_list_append(cfx_as_list(all), m->schema->nrets ? v : cfx_none());
    for (int i = 0; m->schema->nrets > 1 && i < m->schema->nrets; i++)
        cfx_list_append(cfx_as_list(all), cfx_at(v, i));
    for (int64_t i = 0; i < m->bases->len; i++)
        cfx_list_append(cfx_as_list(all), m->bases->items[i]);
    return all;
}

static cfx_value record(making *m, cfx_op *op) {
    cfx_value like = results_like(m, op);
    if (cfx_is_bad(like))
        return like;
    cfx_value args = cfx_tuple(cfx_op_value(op));
    cfx_value kwargs = cfx__record_arg(m->r, m->at, cfx_dict_value(m->kwargs));
    cfx_node *n = cfx__record_node(m->r, m->at, cfx_graph_target(m->r->graph, target), args, kwargs,
                                   NULL);
    if (!m->schema->nrets) /* PyTorch takes the None that it gives, too */
        cfx__name_create(&m->r->graph->names, "getitem", false);
    cfx_value made = cfx__record_results(m->r, m->at, n, like);
    int first = m->schema->nrets ? m->schema->nrets : 1;
    for (size_t i = 0; i < m->known.len && cfx_ok(); i++)
        cfx__functional_base_assign(m->known.data[i], cfx_tensor_at(made, first + (int)i));
    if (!cfx_ok() || !m->schema->nrets)
        return cfx_ok() ? cfx_none() : cfx_bad();
    if (m->schema->nrets == 1)
        return cfx__functional_wrapped(cfx_at(made, 0));
    cfx_value own = cfx_tuple_value(m->schema->nrets, cfx_as_list(made)->items);
    return cfx__functional_wrapped(own);
}

cfx_value cfx__functional_auto(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    making m = {.r = r, .at = at, .schema = cfx__op_info_of(op)->schema, .args = args,
                .kwargs = cfx_dict_new(), .bases = cfx_as_list(cfx_list_value(0, NULL))};
    cfx_value v = cfx_bad();
    if (all_known(&m)) {
        write_kwargs(&m);
        v = cfx_ok() ? record(&m, op) : cfx_bad();
    } else {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at, "%s writes to a tensor that the program does not "
                 "hold", cfx_op_name(op));
    }
    VEC_FREE(m.known);
    return v;
}
