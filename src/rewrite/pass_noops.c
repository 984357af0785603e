/* remove_noops: calls that give their first argument back: dropout that is switched off, casts to
 * the dtype there is, views of the shape there is, copies that no one needs. */
#include "pass.h"

/* How a call may be a no-op. */
typedef enum kind {
    VIEW,    /* a view: where sizes and strides stay */
    RESHAPE, /* a view or a copy: where sizes and strides stay */
    COPY,    /* a copy: where also nobody writes to it or gives it away */
    PAD,     /* a copy: where also nothing is put before or cut off */
    CAST,    /* a view of itself: where dtype, device, sizes and strides stay */
    DROPOUT  /* where it is switched off */
} kind;

static const struct {
    const char *name; /* of the ATen function */
    kind kind;
} rows[] = {
    {"view", VIEW},         {"expand", VIEW},       {"permute", VIEW},
    {"transpose", VIEW},    {"t", VIEW},            {"slice", VIEW},
    {"squeeze", VIEW},      {"unflatten", VIEW},    {"alias", VIEW},
    {"detach", VIEW},       {"lift_fresh", VIEW},   {"narrow", VIEW},
    {"expand_as", VIEW},    {"view_as", VIEW},      {"reshape", RESHAPE},
    {"flatten", RESHAPE},   {"contiguous", RESHAPE}, {"reshape_as", RESHAPE},
    {"_unsafe_view", COPY}, {"clone", COPY},        {"_to_copy", COPY},
    {"constant_pad_nd", PAD}, {"to", CAST},         {"type_as", CAST},
    {"dropout", DROPOUT},   {"feature_dropout", DROPOUT}, {"alpha_dropout", DROPOUT},
};

static bool find_kind(const cfx_node *n, kind *out) {
    for (int i = 0; i < COUNT(rows); i++)
        if (cfx__call_is(n, rows[i].name)) {
            *out = rows[i].kind;
            return true;
        }
    return false;
}

static bool is_off(const cfx_node *n) {
    cfx_value train = cfx__call_arg(n, "train"), p = cfx__call_arg(n, "p");
    return (cfx_is_number(train) && !cfx_integer(train)) ||
           (cfx_is_number(p) && p.tag != CFX_TAG_SYM && cfx_number(p) == 0);
}

/* Whether no side is padded: one may be as much longer as another is shorter. */
static bool pads_nothing(const cfx_node *n) {
    cfx_value pad = cfx__call_arg(n, "pad");
    bool none = pad.tag == CFX_TAG_LIST;
    for (int64_t i = 0; none && i < cfx_as_list(pad)->len; i++)
        none = cfx_equal_values(cfx_as_list(pad)->items[i], cfx_int(0));
    return none;
}

/* Whether n computes what `from` is, as far as that is told without numbers. */
static bool is_like(const cfx_node *n, const cfx_node *from) {
    cfx_result a = cfx_node_result(n), b = cfx_node_result(from);
    return a.kind == CFX_RESULT_TENSOR && cfx_result_equal(&a, &b);
}

/* A copy may go where it is not given away: a result of a program is no view of its inputs. */
static bool is_spare(const cfx__alias *a, const cfx_node *n) { return !cfx__alias_escapes(a, n); }

static bool is_noop(const cfx__alias *a, const cfx_node *n, const cfx_node *from) {
    kind k;
    if (!find_kind(n, &k) || (k != DROPOUT && cfx_node_is_impure(n)))
        return false;
    /* A view is an object of its own: calls in place may give it another shape, and refuse to write
     * to what they read. */
    if (cfx__alias_written(a, n) || cfx__alias_written(a, from))
        return false;
    switch (k) {
    case DROPOUT: return is_off(n);
    case VIEW:
    case RESHAPE: return is_like(n, from);
    case CAST: {
        cfx_value copy = cfx__call_arg(n, "copy");
        bool copies = !cfx_is_number(copy) || cfx_integer(copy);
        return is_like(n, from) && (!copies || is_spare(a, n));
    }
    case PAD: return pads_nothing(n) && is_like(n, from) && is_spare(a, n);
    case COPY: return is_like(n, from) && is_spare(a, n);
    }
    return false;
}

static int remove_noops(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    cfx__alias a;
    cfx__forward f;
    cfx__alias_open(&a, m->graph);
    cfx__forward_open(&f, m->graph);
    cfx_each_node(m->graph, n) {
        cfx__forward_visit(&f, n);
        cfx_value first = cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none();
        if (first.tag != CFX_TAG_NODE || !is_noop(&a, n, cfx_as_node(first)))
            continue;
        cfx__forward_to(&f, n, cfx_as_node(first));
    }
    cfx__alias_close(&a);
    return cfx__forward_close(&f);
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, remove_noops);
}

const cfx_pass cfx__pass_remove_noops = {
    .name = "remove_noops",
    .summary = "removes dropout that is switched off, and casts, views and copies that change "
               "nothing",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
