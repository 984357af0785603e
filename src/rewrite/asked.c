/* Callbacks of the recorder during a rerun: the decomposition of an operator, the origin of a
 * node, the meaning of a value that is not a node. */
#include "rewrite.h"

#include <cfx/ops.h>

static bool is_named(cfx_op *op, const char *text) {
    cfx_op *named = cfx_op_find(text);
    if (named)
        return named == op;
    const cfx_fn *fn = cfx_fn_find(text);
    for (int i = 0; fn && i < fn->n; i++)
        if (fn->ops[i] == op)
            return true;
    return false;
}

bool cfx__rerun_is_undivided(const cfx__undivided *all, const cfx_node *n) {
    for (size_t i = 0; all && i < all->len; i++)
        if (all->data[i] == n)
            return true;
    return false;
}

/* What the caller says of an operator; names are looked up once for each operator. */
static cfx__own_row own_row(const cfx__rerun *run, cfx_op *op) {
    const cfx_list *keep =
        run->options.keep.tag == CFX_TAG_LIST ? cfx_as_list(run->options.keep) : NULL;
    cfx__own_row found = {op, -1, false};
    if (!run->options.nown && !keep)
        return found;
    for (size_t i = 0; i < run->own->asked.len; i++)
        if (run->own->asked.data[i].op == op)
            return run->own->asked.data[i];
    for (int i = 0; i < run->options.nown && found.row < 0; i++)
        if (is_named(op, run->options.own[i].op))
            found.row = i;
    for (int64_t i = 0; keep && i < keep->len && !found.kept; i++)
        found.kept = keep->items[i].tag == CFX_TAG_STR && is_named(op, cfx_text(keep->items[i]));
    VEC_PUSH(run->own->asked, found);
    return found;
}

/* The caller's decomposition of an operator, or NULL. One that calls the operator itself never
 * ends. */
static cfx_op_fn *own_for(cfx__rerun *run, cfx_op *op) {
    enum { DEEPEST = 100 };
    const int row = own_row(run, op).row;
    const cfx_decomposition *own = row < 0 ? NULL : &run->options.own[row];
    if (!own || cfx__dispatcher()->below < DEEPEST)
        return own ? own->fn : NULL;
    cfx_fail(CFX_LIMIT_ERROR, (cfx_site){0},
             "the decomposition of %s given for it is made of %s itself", own->op, cfx_op_name(op));
    return NULL;
}

/* Whether a composite may be a view of what is written to. Such a one never stays whole: it may be
 * a copy as well, and the views it is made of are what a write can be put back through. Of reshape
 * the memory tells which it is. */
static bool may_view_written(const cfx__rerun *run, cfx_op *op) {
    const cfx_node *n = run->recorder.like;
    return cfx__rerun_keeps(run) && op != &cfx_op_reshape && cfx__alias_views(op) && n &&
           cfx__alias_written(&run->alias, n);
}

/* Whether the schema of a composite marks it as a view of an argument: in a functional program
 * PyTorch keeps none of these whole. */
static bool is_marked_view(const cfx__rerun *run, cfx_op *op) {
    const cfx__schema *schema = cfx__op_info_of(op)->schema;
    bool marked = false;
    for (int i = 0; !marked && i < schema->nargs; i++)
        marked = schema->args[i].alias != 0;
    return marked && run->whole && !run->options.only_own &&
           !cfx__rerun_is_undivided(run->undivided, run->recorder.like);
}

/* Whether it may write to running statistics unmarked by its schema, or is a dropout, which may
 * hand its argument back: PyTorch never leaves these whole in a functional program. Where the
 * caller's rows alone count, one of which the node tells that it writes to nothing stays. */
static bool hides(const cfx__rerun *run, cfx_op *op) {
    const cfx_node *n = run->recorder.like;
    if (run->options.only_own)
        return op->updates && (!n || n->target.op != op || cfx__node_updates(n, op));
    return op->updates || !(~op->effects & (CFX_COMPOSITE | CFX_RANDOM | CFX_SHARES));
}

/* The caller's decomposition first, then, of foreign operators, the one form that they have, then
 * PyTorch's table, then what composite operators are made of. */
static cfx_op_fn *decomposition_for(cfx__recorder *r, cfx_op *op, bool early) {
    cfx__rerun *run = (cfx__rerun *)r;
    cfx_op_fn *fn = op->effects & CFX_COMPOSITE ? op->decompose : NULL;
    cfx_op_fn *own = !early || fn || cfx__op_info_of(op)->writes ? own_for(run, op) : NULL;
    if (own)
        return own;
    if (op->effects & CFX_FOREIGN)
        return op->decompose;
    if (run->foreign)
        return NULL;
    const bool opens = fn && early && (may_view_written(run, op) || is_marked_view(run, op));
    const bool hidden = early && hides(run, op);
    if (run->whole && (opens || !hidden))
        return opens ? fn : NULL;
    if (op->core)
        fn = op->core_early || fn || !early ? op->core : NULL;
    const bool divides = opens || hidden || !own_row(run, op).kept;
    return fn && divides && !cfx__rerun_is_undivided(run->undivided, r->like) ? fn : NULL;
}

static void note(cfx__recorder *r, cfx_site at, cfx_node *n) {
    (void)at;
    if (r->like)
        cfx__node_set_origin(n, r->like);
}

/* Programs have no inputs for tensors that decompositions come with. */
static cfx_tensor *unknown_tensor(cfx__recorder *r, cfx_site at, cfx_tensor *t) {
    (void)t;
    ((cfx__rerun *)r)->constant = r->like;
    cfx_fail(CFX_RUNTIME_ERROR, at, "a constant in the decomposition of %s cannot be part of a "
                                    "graph",
             r->like ? r->like->name : "an operator");
    return &cfx__tensor_bad;
}

/* A truth that only a node knows is called after it; other symbols nobody knows. */
static cfx_value scalar(cfx__recorder *r, cfx_value v) {
    cfx_node *n =
        cfx_as_sym(v)->op == CFX__SYM_NAME ? cfx_graph_find(r->graph, cfx_as_sym(v)->name) : NULL;
    if (n)
        return cfx_node_value(n);
    cfx__fail_unknown((cfx_site){0}, "%s: the size %s has no value",
                      r->like ? r->like->name : "a node", cfx_value_repr(v));
    return cfx_bad();
}

void cfx__rerun_record(cfx__rerun *run, cfx_graph *g) {
    run->recorder = (cfx__recorder){.graph = g,
                                    .functional = true,
                                    .numbers = run->worlds->symbols.len > 0,
                                    .decomposition_for = decomposition_for,
                                    .unknown_tensor = unknown_tensor,
                                    .scalar = scalar,
                                    .data_size = cfx__rerun_data_size,
                                    .part_size = cfx__rerun_part_size,
                                    .varies = cfx__rerun_varies,
                                    .loop = cfx__rerun_while,
                                    .note = note};
}
