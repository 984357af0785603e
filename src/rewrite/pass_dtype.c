/* to_dtype: casts products and convolutions to a lower precision and numerically sensitive
 * operators to float32, like autocast, with explicit cast nodes. Parameters of the former are
 * stored in the lower precision; inputs and results of the program do not change. */
#include <cfx/ops.h>

#include "pass.h"

typedef struct lowering {
    cfx_program *program;
    cfx__alias alias;
    cfx_dtype low;
    const char *keep;   /* selectors, '+' between them */
    bool *is_low;       /* by id: computed in the lower precision now */
    size_t len;
    cfx_node **casts[2]; /* by id: the cast of a node to float32 and to the lower precision */
    int changes;
} lowering;

/* ---- what is to become of a call ------------------------------------------------------------- */

static cfx_autocast precision(const lowering *l, const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    if (!op || cfx__pass_keeps(l->keep, n))
        return CFX_CAST_F32;
    return op->autocast;
}

static bool is_f32(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    return r.kind == CFX_RESULT_TENSOR && r.dtype == CFX_F32;
}

static bool low_now(const lowering *l, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return id < l->len && l->is_low[id];
}

/* Whether a dtype is among the arguments: the result is of that one, whatever it is computed of. */
static bool names_dtype(const cfx_node *n) {
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++)
        if (cfx_as_list(n->args)->items[i].tag == CFX_TAG_DTYPE)
            return true;
    return cfx_dict_get(cfx_as_dict(n->kwargs), "dtype").tag == CFX_TAG_DTYPE;
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* A parameter that only products use is kept in the lower precision. */
static bool convert_parameter(lowering *l, cfx_node *n) {
    cfx_tensor *t = cfx__program_constant(l->program, &l->alias, n);
    if (!t)
        return false;
    cfx_each_user(n, u) if (precision(l, u->user) != CFX_CAST_LOW) return false;
    const cfx_input_spec *s = cfx_program_input(l->program, n);
    t = cfx_to(t, CFX_KW(dtype, cfx_dtype_value(l->low)));
    cfx_dict_set(cfx__program_tensors(l->program, s), s->target, cfx_tensor_value(t));
    cfx_node_set_meta(n, "val",
                      cfx_tensor_value(cfx_tensor_fake(l->low, t->ndim, t->shape, t->stride)));
    l->is_low[cfx__node_of(n)->id] = true;
    return true;
}

/* The node's result in the other precision, right behind it. */
static cfx_node *cast(lowering *l, cfx_node *n, bool low) {
    uint32_t id = cfx__node_of(n)->id;
    if (low && n->op == CFX_PLACEHOLDER && convert_parameter(l, n))
        return n;
    cfx_node **known = id < l->len ? &l->casts[low][id] : NULL;
    if (known && *known)
        return *known;
    cfx_node *at = cfx_node_after(n);
    while (at->op == CFX_PLACEHOLDER)
        at = cfx_node_after(at);
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "dtype", cfx_dtype_value(low ? l->low : CFX_F32));
    cfx_node *made = cfx__call_new(at, n, "aten._to_copy.default", cfx_tuple(n),
                                   cfx_dict_value(kw));
    if (known)
        *known = made;
    l->changes++;
    return made;
}

typedef struct swap {
    lowering *lowering;
    bool low;
} swap;

static cfx_value swapped(cfx_node *n, void *user) {
    swap *s = user;
    if (!is_f32(n) || low_now(s->lowering, n) == s->low)
        return cfx_node_value(n);
    return cfx_node_value(cast(s->lowering, n, s->low));
}

/* All floats that n is given, in one precision. */
static void cast_inputs(lowering *l, cfx_node *n, bool low) {
    bool any = false;
    cfx_each_input(n, u) any |= is_f32(u->node) && low_now(l, u->node) != low;
    if (!any)
        return;
    size_t mark = cfx_scope_open();
    swap s = {l, low};
    cfx__node_map_args(n, swapped, &s);
    cfx_scope_close(mark);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Whether something writes to what n computes, or to what it is computed of. */
static bool is_written(const lowering *l, const cfx_node *n) {
    bool written = cfx__alias_written(&l->alias, n);
    cfx_each_input(n, u) written |= cfx__alias_written(&l->alias, u->node);
    return written;
}

static void lower_node(lowering *l, cfx_node *n) {
    bool *is_low = &l->is_low[cfx__node_of(n)->id];
    int low = 0, full = 0;
    cfx_each_input(n, u) if (is_f32(u->node)) *(low_now(l, u->node) ? &low : &full) += 1;
    const cfx__op_info *info = cfx__call_op(n) ? cfx__op_info_of(cfx__call_op(n)) : NULL;
    bool touched = n->op == CFX_OUTPUT || (info && info->writes) || is_written(l, n);
    if (touched) {
        cast_inputs(l, n, false); /* what is given away or written to stays what it is */
        return;
    }
    if (cfx_node_is_getitem(n)) {
        *is_low = n->inputs && low_now(l, n->inputs->node);
        return;
    }
    cfx_autocast p = precision(l, n);
    if (p == CFX_CAST_LOW && low + full) {
        cast_inputs(l, n, true);
        *is_low = true;
    } else if (p == CFX_CAST_F32 || p == CFX_CAST_F32_ON_GPU || (low && full)) {
        cast_inputs(l, n, false);
    } else {
        *is_low = low > 0 && !names_dtype(n);
    }
}

/* Asserts on dtypes that are not so any more. */
static bool is_outdated(const lowering *l, const cfx_node *n) {
    bool outdated = false;
    if (cfx__call_is(n, "_assert_tensor_metadata"))
        cfx_each_input(n, u) outdated |= low_now(l, u->node);
    return outdated;
}

static int run(cfx_program *p, const cfx_dict *options) {
    lowering l = {.program = p, .keep = cfx__pass_text(options, "keep")};
    const char *name = cfx__pass_text(options, "dtype");
    if (!cfx_dtype_parse(name, &l.low) || (l.low != CFX_BF16 && l.low != CFX_F16)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "dtype is bf16 or f16, not '%s'", name);
        return -1;
    }
    cfx_graph *g = p->module->graph;
    l.len = g->made.len;
    l.is_low = cfx__alloc0(l.len + 1);
    for (int i = 0; i < 2; i++)
        l.casts[i] = cfx__alloc0((l.len + 1) * sizeof **l.casts);
    cfx__alias_open(&l.alias, g);
    cfx_each_node(g, n) {
        if (cfx__node_of(n)->id >= l.len || n->op == CFX_PLACEHOLDER || n->op == CFX_GET_ATTR)
            continue;
        if (is_outdated(&l, n))
            l.changes += cfx_graph_erase(n);
        else
            lower_node(&l, n);
    }
    cfx__alias_close(&l.alias);
    cfx__free(l.is_low);
    for (int i = 0; i < 2; i++)
        cfx__free(l.casts[i]);
    return l.changes;
}

const cfx_pass cfx__pass_to_dtype = {
    .name = "to_dtype",
    .summary = "computes products in a lower precision (dtype=bf16 or f16) but for what is kept "
               "(keep=SELECTOR+SELECTOR) or sensitive",
    .options = "dtype=bf16 keep=",
    .promise = CFX_PASS_LOWERED,
    .run = run,
};
