/* specialize: replaces symbolic sizes by numbers, in metadata, in nodes that compute with them
 * and in the ranges: specialize:s77=8. */
#include <cfx/ops.h>

#include "pass.h"

/* ---- values ---------------------------------------------------------------------------------- */

static cfx_value number_of(const cfx_dict *sizes, const cfx_sym *s) {
    if (s->op == CFX__SYM_INT)
        return cfx_int(s->hint);
    if (s->op == CFX__SYM_NAME) {
        cfx_value size = cfx_dict_get(sizes, s->name);
        return size.tag == CFX_TAG_INT ? size : cfx__sym_name(s->name, s->has_hint, s->hint);
    }
    return cfx__sym_binary(s->op, number_of(sizes, s->a), number_of(sizes, s->b));
}

static cfx_value substituted(const cfx_dict *sizes, cfx_value v);

/* A tensor of which all sizes are numbers is a tensor without numbers in it, else a dict. */
static cfx_value tensor_value(const cfx_dict *sizes, cfx_value v) {
    cfx_dict *d = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
        cfx_dict_put(d, cfx_as_dict(v)->entries[i].key,
                     substituted(sizes, cfx_as_dict(v)->entries[i].value));
    cfx_result r = cfx_result_of(cfx_dict_value(d));
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (r.kind != CFX_RESULT_TENSOR || r.ndim > CFX_MAX_DIMS)
        return cfx_dict_value(d);
    for (int i = 0; i < r.ndim; i++) {
        cfx_value size = cfx_result_size(&r, i), step = cfx_result_stride(&r, i);
        if (size.tag != CFX_TAG_INT || step.tag != CFX_TAG_INT)
            return cfx_dict_value(d);
        shape[i] = cfx_integer(size);
        stride[i] = cfx_integer(step);
    }
    cfx_tensor *t = cfx_tensor_fake(r.dtype, r.ndim, shape, stride);
    cfx__tensor_place(t, r.device);
    return cfx_tensor_value(t);
}

static cfx_value substituted(const cfx_dict *sizes, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_SYM: return number_of(sizes, cfx_as_sym(v));
    case CFX_TAG_DICT: return tensor_value(sizes, v);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), substituted(sizes, cfx_as_list(v)->items[i]));
        return out;
    }
    default: return v;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef struct swap {
    const cfx_node *node;
    cfx_value by;
} swap;

static cfx_value swapped(cfx_node *n, void *user) {
    const swap *s = user;
    return n == s->node ? s->by : cfx_node_value(n);
}

/* Puts a number wherever n is used, and takes n out. */
static bool put_number(cfx_node *n, cfx_value by) {
    cfx_value users = cfx_node_users(n);
    swap s = {n, by};
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++)
        cfx__node_map_args(cfx_as_node(cfx_as_list(users)->items[i]), swapped, &s);
    return cfx_graph_erase(n);
}

/* The number that a call of Python's arithmetic is whose arguments are numbers; None where n is no
 * such call. */
static cfx_value arithmetic(const cfx_node *n) {
    bool python = n->op == CFX_CALL_FUNCTION && !n->inputs && !n->target.object &&
                  (!strncmp(n->target.name, "operator.", 9) ||
                   !strncmp(n->target.name, "torch.sym_", 10) ||
                   !strncmp(n->target.name, "math.", 5));
    cfx_args a = {(int)cfx_as_list(n->args)->len, cfx_as_list(n->args)->items, NULL};
    cfx_value v = python ? cfx_py_from((cfx_site){0}, n->target.name, a) : cfx_none();
    return cfx_is_number(v) && v.tag != CFX_TAG_SYM ? v : cfx_none();
}

/* Whether n asserts what is so, or that a number is in a range. */
static bool is_settled(const cfx_node *n) {
    bool range = cfx__call_is(n, "sym_constrain_range") ||
                 cfx__call_is(n, "sym_constrain_range_for_size");
    cfx_value first = cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none();
    return !n->inputs && (range || (cfx__call_is(n, "_assert_scalar") &&
                                    first.tag == CFX_TAG_BOOL && cfx_integer(first)));
}

static int specialize(cfx_program *p, cfx_module *m, const cfx_dict *sizes) {
    int changes = 0;
    (void)p;
    cfx_each_node(m->graph, n) {
        size_t mark = cfx_scope_open();
        cfx_value val = cfx_node_get_meta(n, "val"), now = substituted(sizes, val);
        if (!cfx_equal_values(val, now)) {
            cfx_node_set_meta(n, "val", now);
            changes++;
        }
        cfx_value number = now.tag == CFX_TAG_INT ? now : arithmetic(n);
        if (n->op == CFX_CALL_FUNCTION && !cfx_is_none(number))
            changes += put_number(n, number);
        else if (is_settled(n) && !n->num_users)
            changes += cfx_graph_erase(n);
        cfx_scope_close(mark);
    }
    return changes;
}

/* Ranges are of symbols and of expressions, "2*s39": those that are numbers now go. */
static void narrow_ranges(cfx_program *p, const cfx_dict *sizes) {
    cfx_dict *ranges = cfx_keep(cfx_dict_new());
    for (int64_t i = 0; i < p->ranges->len; i++) {
        const char *text = cfx_value_str(p->ranges->entries[i].key), *rest;
        cfx_value v = cfx_none();
        bool known = cfx__sym_parse(text, text + strlen(text), &rest, &v);
        v = known ? substituted(sizes, v) : v;
        if (v.tag != CFX_TAG_INT)
            cfx_dict_set(ranges, known ? cfx_value_str(v) : text, p->ranges->entries[i].value);
    }
    cfx_drop(p->ranges);
    p->ranges = ranges;
}

static int run(cfx_program *p, const cfx_dict *options) {
    cfx_dict *sizes = cfx_dict_new();
    for (int64_t i = 0; i < options->len; i++) {
        const char *name = cfx_text(options->entries[i].key);
        int64_t size = cfx__pass_int(options, name);
        cfx_value range = cfx_dict_get(p->ranges, name);
        if (range.tag != CFX_TAG_TUPLE && cfx_ok()) {
            cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no size of the program is called '%s'", name);
            return -1;
        }
        cfx_dict_set(sizes, name, cfx_int(size));
        cfx_value lo = cfx_at(range, 0), hi = cfx_at(range, 1);
        if ((lo.tag == CFX_TAG_INT && size < cfx_integer(lo)) ||
            (hi.tag == CFX_TAG_INT && size > cfx_integer(hi))) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s is in [%s, %s], which %lld is not", name,
                     cfx_value_str(lo), cfx_value_str(hi), (long long)size);
            return -1;
        }
    }
    int changes = cfx_ok() ? cfx__pass_graphs(p, sizes, specialize) : -1;
    if (changes > 0)
        narrow_ranges(p, sizes);
    return changes;
}

const cfx_pass cfx__pass_specialize = {
    .name = "specialize",
    .summary = "makes numbers of sizes that are symbols (specialize:s77=8)",
    .options = "*",
    .promise = CFX_PASS_NARROWED,
    .run = run,
};
