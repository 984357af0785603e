/* Symbolic size formulas of operators whose results have new sizes: convolutions, pools, slices
 * and a few others, in the form of PyTorch's shape functions. merge.c verifies a formula in
 * every world before using it, so it may ignore rare cases. Start at cfx__sizes_rule. */
#include <cfx/ops.h>

#include "merge.h"

/* ---- arithmetic; None where something is not known ---------------------------------------------
 */

static cfx_value binary(cfx__sym_op op, cfx_value a, cfx_value b) {
    bool known = (a.tag == CFX_TAG_INT || a.tag == CFX_TAG_SYM) &&
                 (b.tag == CFX_TAG_INT || b.tag == CFX_TAG_SYM);
    bool none = op == CFX__SYM_FLOORDIV && b.tag == CFX_TAG_INT && cfx_integer(b) == 0;
    return known && !none ? cfx__sym_binary(op, a, b) : cfx_none();
}

static cfx_value add(cfx_value a, cfx_value b) { return binary(CFX__SYM_ADD, a, b); }
static cfx_value mul(cfx_value a, cfx_value b) { return binary(CFX__SYM_MUL, a, b); }
static cfx_value sub(cfx_value a, cfx_value b) { return add(a, mul(cfx_int(-1), b)); }
static cfx_value divided(cfx_value a, cfx_value b) { return binary(CFX__SYM_FLOORDIV, a, b); }

/* ---- arguments ------------------------------------------------------------------------------- */

typedef struct {
    const cfx_node *node;
    const cfx__schema *schema;
    int out; /* which result */
} call;

/* The argument called so, or its default; None where there is none. */
static cfx_value arg(const call *c, const char *name) {
    const cfx__schema *s = c->schema;
    for (int i = 0; i < s->nargs; i++) {
        if (strcmp(s->args[i].name, name))
            continue;
        if (i < s->npositional && cfx_as_list(c->node->args)->len > i)
            return cfx_as_list(c->node->args)->items[i];
        const cfx_value *given =
            cfx_dict_find(cfx_as_dict(c->node->kwargs), cfx_string_value(name));
        return given ? *given : s->args[i].has_default ? s->args[i].fallback : cfx_none();
    }
    return cfx_none();
}

/* A number as an expression. */
static cfx_value number(cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        v = cfx_node_get_meta(cfx_as_node(v), "val");
    return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_SYM ? v : cfx_none();
}

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* Item i of a list of numbers, in which one may stand for all. */
static cfx_value item(cfx_value list, int i) {
    if (!is_list(list))
        return number(list);
    if (cfx_as_list(list)->len == 1)
        i = 0;
    return i >= 0 && i < cfx_as_list(list)->len ? number(cfx_as_list(list)->items[i]) : cfx_none();
}

static cfx_value named(const call *c, const char *name) { return number(arg(c, name)); }

static int64_t plain(const call *c, const char *name, int64_t other) {
    cfx_value v = named(c, name);
    return v.tag == CFX_TAG_INT ? cfx_integer(v) : other;
}

/* The sizes of a tensor that is an argument: a list to be changed; None where it is none. */
static cfx_value shape_of(cfx_value v) {
    cfx_value val = v.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(v), "val") : cfx_none();
    if (val.tag == CFX_TAG_TENSOR)
        return cfx_ints_value(cfx_as_tensor(val)->ndim, cfx_as_tensor(val)->shape);
    cfx_value shape =
        val.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(val), "shape") : cfx_none();
    return is_list(shape) ? cfx_list_value(cfx_as_list(shape)->len, cfx_as_list(shape)->items)
                          : cfx_none();
}

/* The first argument's sizes. */
static cfx_value own_shape(const call *c) {
    return cfx_as_list(c->node->args)->len ? shape_of(cfx_as_list(c->node->args)->items[0])
                                           : cfx_none();
}

static void put(cfx_value shape, int64_t i, cfx_value v) {
    if (i < 0 || i >= cfx_as_list(shape)->len)
        return;
    cfx_value_keep(v);
    cfx_value_drop(cfx_as_list(shape)->items[i]);
    cfx_as_list(shape)->items[i] = v;
}

static cfx_value product(cfx_value shape, int64_t from, int64_t to) {
    cfx_value all = cfx_int(1);
    for (int64_t i = from; i < to; i++)
        all = mul(all, number(cfx_as_list(shape)->items[i]));
    return all;
}

static int64_t wrapped(int64_t dim, int64_t ndim) { return dim < 0 ? dim + ndim : dim; }

/* ---- windows --------------------------------------------------------------------------------- */

/* (size + 2 * padding - dilation * (kernel - 1) - 1 + more) // stride + 1 */
static cfx_value windows(cfx_value size, cfx_value padding, cfx_value dilation, cfx_value kernel,
                         cfx_value stride, cfx_value more) {
    cfx_value reach = mul(dilation, sub(kernel, cfx_int(1)));
    cfx_value room = sub(sub(add(size, mul(cfx_int(2), padding)), reach), cfx_int(1));
    return add(divided(add(room, more), stride), cfx_int(1));
}

/* (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1 */
static cfx_value windows_back(cfx_value size, cfx_value padding, cfx_value dilation,
                              cfx_value kernel, cfx_value stride, cfx_value more) {
    cfx_value steps = mul(sub(size, cfx_int(1)), stride);
    cfx_value reach = mul(dilation, sub(kernel, cfx_int(1)));
    cfx_value all = add(sub(steps, mul(cfx_int(2), padding)), reach);
    return add(add(all, more), cfx_int(1));
}

static cfx_value convolution(const call *c) {
    cfx_value shape = own_shape(c), weight = shape_of(arg(c, "weight"));
    if (!is_list(shape) || !is_list(weight) || cfx_as_list(weight)->len < 3)
        return cfx_none();
    cfx_value flag = arg(c, "transposed"), padding = arg(c, "padding");
    bool back =
        strstr(c->schema->name, "transpose") || (flag.tag == CFX_TAG_BOOL && cfx_integer(flag));
    bool same = padding.tag == CFX_TAG_STR && !strcmp(cfx_text(padding), "same");
    if (padding.tag == CFX_TAG_STR)
        padding = cfx_int(0);
    int64_t space = cfx_as_list(weight)->len - 2, first = cfx_as_list(shape)->len - space;
    if (first < 1)
        return cfx_none();
    put(shape, first - 1,
        back ? mul(cfx_as_list(weight)->items[1], named(c, "groups"))
             : cfx_as_list(weight)->items[0]);
    for (int i = 0; i < space && !same; i++) {
        cfx_value size = cfx_as_list(shape)->items[first + i],
                  kernel = cfx_as_list(weight)->items[2 + i];
        cfx_value pad = item(padding, i), by = item(arg(c, "dilation"), i);
        cfx_value stride = item(arg(c, "stride"), i);
        put(shape, first + i,
            back ? windows_back(size, pad, by, kernel, stride, item(arg(c, "output_padding"), i))
                 : windows(size, pad, by, kernel, stride, cfx_int(0)));
    }
    return shape;
}

static cfx_value pool(const call *c) {
    cfx_value shape = own_shape(c), kernel = arg(c, "kernel_size"), stride = arg(c, "stride");
    const char *digit = strpbrk(c->schema->name, "123");
    cfx_value ceil = arg(c, "ceil_mode"), dilation = arg(c, "dilation");
    int64_t space = digit ? *digit - '0' : 0;
    if (!is_list(shape) || cfx_as_list(shape)->len < space)
        return cfx_none();
    if (cfx_is_none(stride) || (is_list(stride) && !cfx_as_list(stride)->len))
        stride = kernel;
    for (int i = 0; i < space; i++) {
        int64_t at = cfx_as_list(shape)->len - space + i;
        cfx_value step = item(stride, i);
        bool up = ceil.tag == CFX_TAG_BOOL && cfx_integer(ceil);
        put(shape, at,
            windows(cfx_as_list(shape)->items[at], item(arg(c, "padding"), i),
                    cfx_is_none(dilation) ? cfx_int(1) : item(dilation, i), item(kernel, i), step,
                    up ? sub(step, cfx_int(1)) : cfx_int(0)));
    }
    return shape;
}

/* Blocks of an image as columns. */
static cfx_value im2col(const call *c) {
    cfx_value shape = own_shape(c), kernel = arg(c, "kernel_size");
    if (!is_list(shape) || cfx_as_list(shape)->len < 3)
        return cfx_none();
    int64_t n = cfx_as_list(shape)->len;
    cfx_value columns = cfx_int(1), each = cfx_as_list(shape)->items[n - 3];
    for (int i = 0; i < 2; i++) {
        columns = mul(columns, windows(cfx_as_list(shape)->items[n - 2 + i],
                                       item(arg(c, "padding"), i), item(arg(c, "dilation"), i),
                                       item(kernel, i), item(arg(c, "stride"), i), cfx_int(0)));
        each = mul(each, item(kernel, i));
    }
    cfx_value out = cfx_list_value(n - 3, cfx_as_list(shape)->items);
    cfx_list_append(cfx_as_list(out), each);
    cfx_list_append(cfx_as_list(out), columns);
    return out;
}

static cfx_value unfold(const call *c) {
    cfx_value shape = own_shape(c);
    if (!is_list(shape))
        return shape;
    int64_t dim = wrapped(plain(c, "dimension", 0), cfx_as_list(shape)->len);
    if (dim < 0 || dim >= cfx_as_list(shape)->len)
        return cfx_none();
    cfx_value room = sub(cfx_as_list(shape)->items[dim], named(c, "size"));
    put(shape, dim, add(divided(room, named(c, "step")), cfx_int(1)));
    cfx_list_append(cfx_as_list(shape), named(c, "size"));
    return shape;
}

/* ---- parts and wholes ------------------------------------------------------------------------ */

static bool depends_on_data(const cfx_sym *e) {
    if (!e || e->op == CFX__SYM_INT)
        return false;
    return e->op == CFX__SYM_NAME ? *e->name == 'u'
                                  : depends_on_data(e->a) || depends_on_data(e->b);
}

/* A place in a dimension: counted from its end where it is negative. Of a size that depends on data
 * nobody knows whether it is there. */
static cfx_value position(cfx_value v, cfx_value size, cfx_value other) {
    v = number(v);
    if (cfx_is_none(v) || (v.tag == CFX_TAG_INT && cfx_integer(v) == INT64_MAX))
        return other;
    bool back = v.tag == CFX_TAG_INT ? cfx_integer(v) < 0
                                     : cfx_as_sym(v)->has_hint && cfx_as_sym(v)->hint < 0;
    cfx_value at = back ? add(size, v) : v;
    if (size.tag != CFX_TAG_SYM || !depends_on_data(cfx_as_sym(size)))
        return at;
    return back ? binary(CFX__SYM_MAX, cfx_int(0), at)
           : at.tag == CFX_TAG_INT && cfx_integer(at) == 0 ? at
                                                           : binary(CFX__SYM_MIN, at, size);
}

static cfx_value slice(const call *c) {
    cfx_value shape = own_shape(c);
    if (!is_list(shape))
        return shape;
    int64_t dim = wrapped(plain(c, "dim", 0), cfx_as_list(shape)->len);
    if (dim < 0 || dim >= cfx_as_list(shape)->len)
        return cfx_none();
    cfx_value size = cfx_as_list(shape)->items[dim], step = named(c, "step");
    cfx_value start = position(arg(c, "start"), size, cfx_int(0));
    cfx_value end = position(arg(c, "end"), size, size);
    cfx_value room = add(sub(end, start), sub(step, cfx_int(1)));
    put(shape, dim, divided(room, step));
    return shape;
}

static cfx_value cat(const call *c) {
    cfx_value list = arg(c, "tensors"), shape = cfx_none(), all = cfx_int(0);
    if (!is_list(list) || !cfx_as_list(list)->len)
        return cfx_none();
    int64_t dim = 0;
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++) {
        shape = shape_of(cfx_as_list(list)->items[i]);
        if (!is_list(shape))
            return cfx_none();
        dim = wrapped(plain(c, "dim", 0), cfx_as_list(shape)->len);
        if (dim < 0 || dim >= cfx_as_list(shape)->len)
            return cfx_none();
        all = add(all, cfx_as_list(shape)->items[dim]);
    }
    put(shape, dim, all);
    return shape;
}

static cfx_value pad(const call *c) {
    cfx_value shape = own_shape(c), by = arg(c, "pad");
    if (!is_list(by))
        by = arg(c, "padding");
    if (!is_list(shape) || !is_list(by))
        return cfx_none();
    for (int64_t i = 0; 2 * i + 1 < cfx_as_list(by)->len; i++) {
        int64_t at = cfx_as_list(shape)->len - 1 - i;
        if (at < 0)
            return cfx_none();
        cfx_value both =
            add(number(cfx_as_list(by)->items[2 * i]), number(cfx_as_list(by)->items[2 * i + 1]));
        put(shape, at, add(cfx_as_list(shape)->items[at], both));
    }
    return shape;
}

static cfx_value repeat(const call *c) {
    cfx_value shape = own_shape(c), times = arg(c, "repeats");
    if (!is_list(times))
        times = arg(c, "dims");
    if (!is_list(shape) || !is_list(times))
        return cfx_none();
    int64_t n = cfx_as_list(shape)->len > cfx_as_list(times)->len ? cfx_as_list(shape)->len
                                                                  : cfx_as_list(times)->len;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n; i++) {
        int64_t a = i - (n - cfx_as_list(shape)->len), b = i - (n - cfx_as_list(times)->len);
        cfx_list_append(cfx_as_list(out), mul(a < 0 ? cfx_int(1) : cfx_as_list(shape)->items[a],
                                      b < 0 ? cfx_int(1) : number(cfx_as_list(times)->items[b])));
    }
    return out;
}

static cfx_value arange(const call *c) {
    cfx_value start = named(c, "start"), step = named(c, "step"), end = named(c, "end");
    start = cfx_is_none(start) ? cfx_int(0) : start;
    step = cfx_is_none(step) ? cfx_int(1) : step;
    cfx_value one = divided(add(sub(end, start), sub(step, cfx_int(1))), step);
    return cfx_list_value(1, &one);
}

/* Sizes as they are given, -1 being what is left. */
static cfx_value view(const call *c) {
    cfx_value shape = own_shape(c), sizes = arg(c, "size");
    if (!is_list(sizes))
        sizes = arg(c, "shape");
    if (!is_list(shape) || !is_list(sizes))
        return cfx_none();
    cfx_value out = cfx_list_value(0, NULL), rest = cfx_int(1);
    int64_t open = -1;
    for (int64_t i = 0; i < cfx_as_list(sizes)->len; i++) {
        cfx_value v = number(cfx_as_list(sizes)->items[i]);
        if (v.tag == CFX_TAG_INT && cfx_integer(v) == -1)
            open = i;
        else
            rest = mul(rest, v);
        cfx_list_append(cfx_as_list(out), v);
    }
    put(out, open, divided(product(shape, 0, cfx_as_list(shape)->len), rest));
    return out;
}

static cfx_value flatten(const call *c) {
    cfx_value shape = own_shape(c), out = cfx_list_value(0, NULL);
    if (!is_list(shape))
        return shape;
    int64_t n = cfx_as_list(shape)->len, from = wrapped(plain(c, "start_dim", 0), n);
    int64_t to = wrapped(plain(c, "end_dim", -1), n);
    if (from < 0 || to >= n || from > to)
        return cfx_none();
    for (int64_t i = 0; i < from; i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(shape)->items[i]);
    cfx_list_append(cfx_as_list(out), product(shape, from, to + 1));
    for (int64_t i = to + 1; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(shape)->items[i]);
    return out;
}

static cfx_value repeat_interleave(const call *c) {
    cfx_value shape = own_shape(c), times = named(c, "repeats");
    if (!is_list(shape) || cfx_is_none(times))
        return cfx_none();
    if (cfx_is_none(arg(c, "dim"))) {
        cfx_value all = mul(product(shape, 0, cfx_as_list(shape)->len), times);
        return cfx_list_value(1, &all);
    }
    int64_t dim = wrapped(plain(c, "dim", 0), cfx_as_list(shape)->len);
    if (dim >= 0 && dim < cfx_as_list(shape)->len)
        put(shape, dim, mul(cfx_as_list(shape)->items[dim], times));
    return shape;
}

/* Pieces of one size, the last being what is left; or as many pieces as are asked for. */
static cfx_value split(const call *c) {
    cfx_value shape = own_shape(c), piece = named(c, "split_size"), n = named(c, "chunks");
    int64_t dim = is_list(shape) ? wrapped(plain(c, "dim", 0), cfx_as_list(shape)->len) : -1;
    if (dim < 0 || dim >= cfx_as_list(shape)->len)
        return cfx_none();
    cfx_value size = cfx_as_list(shape)->items[dim];
    if (!cfx_is_none(n))
        piece = divided(add(size, sub(n, cfx_int(1))), n);
    cfx_value val = cfx_node_get_meta(c->node, "val");
    bool last = is_list(val) && c->out == cfx_as_list(val)->len - 1;
    put(shape, dim, last ? sub(size, mul(piece, cfx_int(c->out))) : piece);
    return shape;
}

/* size * by, rounded down, where by is a fraction of small numbers; None where it is none. */
static cfx_value scaled_down(cfx_value size, cfx_value by) {
    enum { LARGEST = 1000 };
    if (by.tag != CFX_TAG_FLOAT || !(cfx_number(by) > 0 && cfx_number(by) < 1e6))
        return cfx_none();
    for (int64_t q = 1; q <= LARGEST; q++) {
        double p = cfx_number(by) * (double)q, near = (double)(int64_t)(p + 0.5);
        if (p - near < 1e-9 * near && near - p < 1e-9 * near)
            return divided(mul(size, cfx_int((int64_t)near)), cfx_int(q));
    }
    return cfx_none();
}

/* Images made larger or smaller. */
static cfx_value upsample(const call *c) {
    static const char *const names[] = {"scale_factors", "scales_h", "scales_w", "scales_d",
                                        "scales"};
    cfx_value shape = own_shape(c), scales = cfx_none(), sizes = arg(c, "output_size");
    if (!is_list(shape) || cfx_as_list(shape)->len < 3)
        return cfx_none();
    for (int i = 0; i < COUNT(names) && cfx_is_none(scales); i++)
        scales = arg(c, names[i]);
    for (int64_t i = 2; i < cfx_as_list(shape)->len; i++) {
        cfx_value by = is_list(scales) && cfx_as_list(scales)->len ? cfx_at(scales, i - 2) : scales;
        put(shape, i, is_list(sizes) ? item(sizes, (int)i - 2)
                                     : scaled_down(cfx_as_list(shape)->items[i], by));
    }
    return shape;
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef cfx_value rule_fn(const call *c);

static const struct {
    const char *start; /* of the operator's name; whole where it ends in a blank */
    rule_fn *rule;
} rules[] = {
    {"conv", convolution},   {"max_pool", pool},
    {"avg_pool", pool},      {"lp_pool", pool},
    {"im2col ", im2col},     {"unfold ", unfold},
    {"slice ", slice},       {"cat ", cat},
    {"concat ", cat},        {"concatenate ", cat},
    {"pad ", pad},           {"constant_pad_nd ", pad},
    {"reflection_pad", pad}, {"replication_pad", pad},
    {"repeat ", repeat},     {"tile ", repeat},
    {"arange ", arange},     {"view ", view},
    {"reshape ", view},      {"_unsafe_view ", view},
    {"flatten ", flatten},   {"repeat_interleave ", repeat_interleave},
    {"split ", split},       {"chunk ", split},
    {"upsample_", upsample},
};

cfx_value cfx__sizes_rule(const cfx_node *n, int out) {
    if (n->op != CFX_CALL_FUNCTION || !n->target.op || n->target.fn)
        return cfx_none();
    call c = {n, cfx__op_info_of(n->target.op)->schema, out};
    const char *name = c.schema->name;
    for (int i = 0; i < COUNT(rules); i++) {
        size_t len = strlen(rules[i].start);
        bool whole = rules[i].start[len - 1] == ' ';
        if (strncmp(name, rules[i].start, len - whole) || (whole && strlen(name) != len - 1))
            continue;
        cfx_value shape = rules[i].rule(&c);
        return is_list(shape) ? shape : cfx_none();
    }
    return cfx_none();
}

/* ---- slices that are cut by data ------------------------------------------------------------- */

static bool is_data_symbol(cfx_value v) {
    return v.tag == CFX_TAG_SYM && cfx_as_sym(v)->op == CFX__SYM_NAME &&
           *cfx_as_sym(v)->name == 'u';
}

typedef struct {
    cfx_value symbol;
    bool found;
} given;

static void find_symbol(cfx_node *n, void *user) {
    given *g = user;
    cfx_value val = cfx_node_get_meta(n, "val"), shape = cfx__merge_sizes(val);
    g->found |= cfx_equal_values(val, g->symbol);
    for (int64_t i = 0; !cfx_is_none(shape) && i < cfx_as_list(shape)->len; i++)
        g->found |= cfx_equal_values(cfx_as_list(shape)->items[i], g->symbol);
}

const char *cfx__sizes_cut(const cfx_node *n) {
    cfx_value shape = n->op == CFX_CALL_FUNCTION && n->target.op == &cfx_op_slice_Tensor
                          ? cfx__merge_sizes(cfx_node_get_meta(n, "val"))
                          : cfx_none();
    for (int64_t i = 0; !cfx_is_none(shape) && i < cfx_as_list(shape)->len; i++) {
        given g = {.symbol = cfx_as_list(shape)->items[i]};
        if (!is_data_symbol(g.symbol))
            continue;
        cfx__node_each(n->args, find_symbol, &g);
        if (!g.found)
            return cfx_as_sym(g.symbol)->name;
    }
    return NULL;
}
