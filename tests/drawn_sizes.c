/* Drawing sizes as values: those of operands, what is computed with them, and calls that are given
 * them where a number would do. See drawing.h. Start at draw_sized. */
#include "drawing.h"

#include <cfx/ops.h>

enum { MOST = 600 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static const drawn_size *add_size(drawing *d, cfx_node *n, int64_t value) {
    if (d->n_sizes == DRAWN_SIZES)
        return &d->sizes[test_draw(DRAWN_SIZES)];
    d->p.sizes = true;
    d->sizes[d->n_sizes] = (drawn_size){n, value};
    return &d->sizes[d->n_sizes++];
}

static const drawn_size *size_of(drawing *d, const operand *x, int dim) {
    return add_size(d, cfx_graph_call(d->p.graph, "torch.ops.aten.sym_size.int", node(x), dim),
                    x->fake->shape[dim]);
}

static const drawn_size *computed(drawing *d, const char *op, const drawn_size *a, cfx_value b,
                                  int64_t value) {
    if (value < 0 || value > MOST)
        return a;
    return add_size(d, cfx_graph_call(d->p.graph, op, a->node, b), value);
}

/* A size, or what is computed with one or two. */
static const drawn_size *any_size(drawing *d) {
    const operand *x = draw_operand(d, NULL, CFX_DTYPE_COUNT);
    const drawn_size *a = x->fake->ndim && (!d->n_sizes || chance(2))
                              ? size_of(d, x, (int)test_draw((uint32_t)x->fake->ndim))
                          : d->n_sizes ? &d->sizes[test_draw((uint32_t)d->n_sizes)]
                                       : NULL;
    if (!a || chance(3))
        return a;
    const drawn_size *b = &d->sizes[test_draw((uint32_t)d->n_sizes)];
    switch (test_draw(7)) {
    case 0: return computed(d, "operator.add", a, cfx_int(1), a->value + 1);
    case 1: return computed(d, "operator.sub", a, cfx_int(1), a->value - 1);
    case 2: return computed(d, "operator.mul", a, cfx_int(2), a->value * 2);
    case 3: return computed(d, "operator.floordiv", a, cfx_int(2), a->value / 2);
    case 4: return computed(d, "operator.mod", a, cfx_int(3), a->value % 3);
    case 5:
        return computed(d, "operator.add", a, cfx_node_value(b->node), a->value + b->value);
    default:
        return computed(d, "operator.mul", a, cfx_node_value(b->node), a->value * b->value);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A size that is as large, for half of the numbers for which there is one. */
static cfx_value as_size(drawing *d, cfx_value v) {
    const uint32_t from = test_draw((uint32_t)d->n_sizes);
    for (int i = 0; v.tag == CFX_TAG_INT && chance(2) && i < d->n_sizes; i++) {
        const drawn_size *s = &d->sizes[(from + (uint32_t)i) % (uint32_t)d->n_sizes];
        if (s->value == cfx_as_int(v))
            return cfx_node_value(s->node);
    }
    return v;
}

void draw_size_arguments(drawing *d, const cfx__schema *s, int n, cfx_value *args) {
    for (int i = 0; d->n_sizes && i < n && i < s->nargs; i++) {
        const cfx__schema_arg *a = &s->args[i];
        if (a->type == CFX__T_INT && a->sym && args[i].tag == CFX_TAG_LIST) {
            cfx_value list = cfx_list_value(0, NULL);
            for (int64_t k = 0; k < cfx_as_list(args[i])->len; k++)
                cfx_list_append(cfx_as_list(list), as_size(d, cfx_as_list(args[i])->items[k]));
            args[i] = list;
        } else if (a->type == CFX__T_INT && a->sym) {
            args[i] = as_size(d, args[i]);
        } else if (a->type == CFX__T_SCALAR && args[i].tag == CFX_TAG_INT && chance(6)) {
            args[i] = cfx_node_value(d->sizes[test_draw((uint32_t)d->n_sizes)].node);
        }
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static cfx_value sizes_from(drawing *d, const operand *x, int from) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = from; i < x->fake->ndim; i++)
        cfx_list_append(cfx_as_list(list), chance(2) ? cfx_node_value(size_of(d, x, i)->node)
                                                     : cfx_int(x->fake->shape[i]));
    return list;
}

static cfx_value before(cfx_value first, cfx_value rest) {
    cfx_value out = cfx_list_value(1, &first);
    for (int64_t i = 0; i < cfx_as_list(rest)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(rest)->items[i]);
    return out;
}

/* Two dimensions as one, or one as two. */
static bool add_reshape(drawing *d, const operand *x) {
    const drawn_size *a = size_of(d, x, 0);
    if (x->fake->ndim > 1 && chance(2)) {
        const drawn_size *b = size_of(d, x, 1);
        const drawn_size *both = computed(d, "operator.mul", a, cfx_node_value(b->node),
                                          a->value * b->value);
        return CALL(d, &cfx_op_reshape, node(x),
                    before(cfx_node_value(both->node), sizes_from(d, x, 2)));
    }
    const drawn_size *half = computed(d, "operator.floordiv", a, cfx_int(2), a->value / 2);
    return CALL(d, chance(2) ? &cfx_op_view : &cfx_op_reshape, node(x),
                before(cfx_node_value(half->node), before(cfx_int(2), sizes_from(d, x, 1))));
}

static bool add_part(drawing *d, const operand *x) {
    const int dim = (int)test_draw((uint32_t)x->fake->ndim);
    const drawn_size *all = size_of(d, x, dim);
    const drawn_size *half = computed(d, "operator.floordiv", all, cfx_int(2), all->value / 2);
    const drawn_size *less = computed(d, "operator.sub", all, cfx_int(1), all->value - 1);
    switch (test_draw(4)) {
    case 0: return CALL(d, &cfx_op_slice_Tensor, node(x), cfx_int(dim), cfx_int(0),
                        cfx_node_value(half->node));
    case 1: return CALL(d, &cfx_op_slice_Tensor, node(x), cfx_int(dim),
                        cfx_node_value(half->node), cfx_node_value(all->node));
    case 2: return CALL(d, &cfx_op_narrow, node(x), cfx_int(dim), cfx_int(0),
                        cfx_node_value(less->node));
    default: return CALL(d, &cfx_op_select_int, node(x), cfx_int(dim), cfx_node_value(less->node));
    }
}

static bool add_made(drawing *d) {
    const drawn_size *a = any_size(d), *b = any_size(d);
    if (!a || !b)
        return false;
    const cfx_value rows = cfx_node_value(a->node);
    switch (test_draw(4)) {
    case 0: return CALL(d, &cfx_op_arange, rows);
    case 1: return CALL(d, &cfx_op_full, cfx_list(rows, b->node), cfx_float(0.5));
    case 2: return CALL(d, &cfx_op_new_zeros,
                        node(draw_operand(d, NULL, CFX_DTYPE_COUNT)), cfx_list(rows));
    default: return CALL(d, &cfx_op_full, cfx_list(rows), cfx_node_value(b->node));
    }
}

bool draw_sized(drawing *d) {
    const operand x = *draw_operand(d, NULL, CFX_DTYPE_COUNT);
    if (d->depth || d->n > DRAWN_VALUES - 16 || !x.fake->ndim)
        return false;
    switch (test_draw(5)) {
    case 0: return add_reshape(d, &x);
    case 1: return add_part(d, &x);
    case 2: return add_made(d);
    case 3: {
        const drawn_size *rows = any_size(d);
        return rows && CALL(d, &cfx_op_expand, node(&x),
                            before(cfx_node_value(rows->node), sizes_from(d, &x, 0)));
    }
    default: {
        const drawn_size *by = any_size(d);
        return by && CALL(d, chance(2) ? &cfx_op_mul_Tensor : &cfx_op_add_Tensor, node(&x),
                          cfx_node_value(by->node));
    }
    }
}
