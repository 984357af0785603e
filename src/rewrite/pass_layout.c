/* channels_last: convolutions compute in channels-last layout. As in PyTorch, the layout of the
 * weights decides: results of convolutions have it, and so do values computed from them, until
 * an operator needs another. Results of the program keep their layout. */
#include <cfx/ops.h>

#include "pass.h"

typedef struct laying {
    cfx_program *program;
    cfx__alias alias;
    bool *moved; /* by id: computed from what is laid out anew */
    size_t len;
} laying;

/* ---- which weights --------------------------------------------------------------------------- */

/* The layout that a weight is to have; contiguous where it has it, or stays as it is. */
static cfx_memory_format wanted(const laying *l, const cfx_node *w) {
    const cfx_tensor *t = cfx__program_constant(l->program, &l->alias, w);
    cfx_each_user(w, u) if (!cfx__call_convolves(u->user) || cfx__call_node(u->user, "weight") != w)
        t = NULL;
    if (!t || (t->ndim != 4 && t->ndim != 5))
        return CFX_CONTIGUOUS;
    cfx_memory_format last = t->ndim == 4 ? CFX_CHANNELS_LAST : CFX_CHANNELS_LAST_3D;
    return cfx__tensor_suggest_format(t) == last ? CFX_CONTIGUOUS : last;
}

/* ---- what follows ---------------------------------------------------------------------------- */

static bool is_moved(const laying *l, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return id < l->len && l->moved[id];
}

/* Whether a call tells the layout of what it is given, which may not change then. */
static bool wants_layout(const laying *l, const cfx_node *n) {
    if (cfx__call_is(n, "as_strided") || cfx_node_higher_order(n))
        return true;
    if (cfx__call_is(n, "_assert_tensor_metadata"))
        return !cfx_is_none(cfx__call_arg(n, "stride"));
    bool view = cfx__call_is(n, "view") || cfx__call_is(n, "_unsafe_view");
    return view && cfx__alias_written(&l->alias, n);
}

/* Finds all that may be laid out anew; false where something would mind. */
static bool find_moved(laying *l) {
    cfx_each_node(l->program->module->graph, n) {
        bool moved = cfx__call_convolves(n) && cfx__call_node(n, "weight") &&
                     wanted(l, cfx__call_node(n, "weight")) != CFX_CONTIGUOUS;
        cfx_each_input(n, u) moved |= is_moved(l, u->node);
        if (moved && n->op != CFX_OUTPUT && wants_layout(l, n))
            return false;
        l->moved[cfx__node_of(n)->id] = moved;
    }
    return true;
}

/* ---- the change ------------------------------------------------------------------------------ */

static int lay_out(laying *l, cfx_node *w) {
    cfx_memory_format format = wanted(l, w);
    if (format == CFX_CONTIGUOUS)
        return 0;
    const cfx_input_spec *s = cfx_program_input(l->program, w);
    cfx_tensor *t = cfx_clone(cfx__program_constant(l->program, &l->alias, w),
                              CFX_KW(memory_format, cfx_memory_format_value(format)));
    cfx_dict_set(cfx__program_tensors(l->program, s), s->target, cfx_tensor_value(t));
    cfx_node_set_meta(w, "val",
                      cfx_tensor_value(cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim, t->shape,
                                                       t->stride)));
    cfx_each_user(w, u) cfx__node_of(u->user)->stale = true;
    return 1;
}

/* Views of what is moved may copy. */
static void loosen(const laying *l) {
    cfx_op *reshape = cfx_op_find("aten.reshape.default");
    cfx_each_node(l->program->module->graph, n) {
        bool view = cfx__call_is(n, "view") || cfx__call_is(n, "_unsafe_view");
        if (view && is_moved(l, n) && !strcmp(strrchr(cfx_op_name(n->target.op), '.'), ".default"))
            cfx_node_set_target(n, (cfx_target){.op = reshape, .name = cfx_op_name(reshape)});
    }
}

/* Results that were in one piece are so again. */
static void settle_results(const cfx_program *p, const cfx_list *before) {
    cfx_node *out = cfx_graph_output_node(p->module->graph);
    for (int64_t i = 0; i < before->len; i++) {
        cfx_node *n = cfx_as_node(cfx_as_list(before->items[i])->items[0]);
        cfx_result was = cfx_result_of(cfx_as_list(before->items[i])->items[1]);
        cfx_result now = cfx_node_result(n);
        if (cfx_result_equal(&was, &now))
            continue;
        cfx_node *made =
            cfx__call_new(out, n, "aten.contiguous.default", cfx_tuple(n), cfx_none());
        cfx_node_replace_input(out, n, made);
    }
}

static int change(laying *l) {
    cfx_program *p = l->program;
    cfx_value before = cfx_list_value(0, NULL); /* results, and what is noted of them */
    int changes = 0;
    cfx_each_input(cfx_graph_output_node(p->module->graph), u)
        cfx_list_append(cfx_as_list(before),
                        cfx_tuple(u->node, cfx_node_get_meta(u->node, "val")));
    cfx_each_node(p->module->graph, n) if (n->op == CFX_PLACEHOLDER) changes += lay_out(l, n);
    loosen(l);
    if (!changes || !cfx_ok() || !cfx_program_infer(p))
        return cfx_ok() ? 0 : -1;
    settle_results(p, cfx_as_list(before));
    return changes;
}

static int run(cfx_program *p, const cfx_dict *options) {
    laying l = {.program = p, .len = p->module->graph->made.len};
    (void)options;
    l.moved = cfx__alloc0(l.len + 1);
    cfx__alias_open(&l.alias, p->module->graph);
    int changes = find_moved(&l) ? change(&l) : 0;
    cfx__alias_close(&l.alias);
    cfx__free(l.moved);
    return changes;
}

const cfx_pass cfx__pass_channels_last = {
    .name = "channels_last",
    .summary = "lays the weights of convolutions out with channels last, and so what is computed "
               "with them",
    .after = "fold_batch_norm merge_convolutions",
    .promise = CFX_PASS_ROUNDED,
    .run = run,
};
