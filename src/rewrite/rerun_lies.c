/* Where tensors lie in memory: what a graph that is run again makes may have other strides than the
 * program notes, on which views and writes depend. */
#include <cfx/ops.h>

#include "../ops/views.h"
#include "rewrite.h"

cfx_tensor *cfx__rerun_noted(const cfx__rerun *run, const cfx_node *n) {
    bool own = n->op != CFX_CALL_FUNCTION && run->given; /* inputs as they are given */
    cfx_value like = own ? cfx_none() : cfx__worlds_tensor(run->worlds, run->k,
                                                           cfx_node_get_meta(n, "val"));
    return like.tag == CFX_TAG_TENSOR ? cfx_as_tensor(like) : NULL;
}

/* Whether the strides of t, which is the value of a node now, are those that it has in the program.
 * Inputs have their own. */
static bool lies_as_noted(const cfx__rerun *run, cfx_value of, const cfx_tensor *t) {
    const cfx_node *n = of.tag == CFX_TAG_NODE ? cfx_as_node(of) : NULL;
    if (!n || n->op != CFX_CALL_FUNCTION)
        return true;
    const cfx_tensor *noted = cfx__rerun_noted(run, n);
    return noted && cfx__tensor_same_shape(noted, t) &&
           !memcmp(noted->stride, t->stride, (size_t)t->ndim * sizeof *t->stride);
}

bool cfx__rerun_is_no_view(const cfx__rerun *run, const cfx_node *call, const cfx_op *op,
                           cfx_args a) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS], product = 1;
    if (op != &cfx_op_view || a.n != 2 || a.v[0].tag != CFX_TAG_TENSOR ||
        a.v[1].tag != CFX_TAG_LIST || cfx_as_list(a.v[1])->len > CFX_MAX_DIMS)
        return false;
    const cfx_tensor *t = cfx_as_tensor(a.v[0]);
    int n = (int)cfx_as_list(a.v[1])->len, open = -1;
    for (int i = 0; i < n; i++) {
        shape[i] = cfx_integer(cfx_as_list(a.v[1])->items[i]);
        if (shape[i] < 0)
            open = i;
        else
            product *= shape[i];
    }
    if (open >= 0 && product > 0)
        shape[open] = t->numel / product;
    return t->numel && !view_strides(t, n, shape, stride) &&
           !lies_as_noted(run, cfx_at(call->args, 0), t);
}

/* The first node that has t's base says how. */
void cfx__rerun_lay(cfx__rerun *run, const cfx_tensor *t) {
    cfx_each_node(run->from->graph, n) {
        cfx_value v = run->values[cfx__node_of(n)->id];
        if (v.tag != CFX_TAG_TENSOR || !cfx__functional_same_base(t, cfx_as_tensor(v)))
            continue;
        cfx_tensor *like = cfx__rerun_noted(run, n);
        if (like)
            cfx__functional_lies_as(&run->recorder, (cfx_site){0}, cfx_as_tensor(v), like);
        return;
    }
}

cfx_value cfx__rerun_laid(cfx__rerun *run, const cfx_node *n, cfx_value v) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION && !n->target.fn ? n->target.op : NULL;
    if (!op || v.tag != CFX_TAG_TENSOR || !cfx__alias_written(&run->alias, n) ||
        cfx__alias_views(op))
        return v;
    const cfx_tensor *like = cfx__rerun_noted(run, n);
    return like && !like->offset && cfx__tensor_is_dense(like)
               ? cfx_tensor_value(
                     cfx__functional_laid_as(&run->recorder, cfx_as_tensor(v), like))
               : v;
}
