/* Modules with batch norms that do not learn, put into the convolutions and linear layers before
 * them: torch.fx's experimental.optimization.fuse. For programs see pass_batch_norm.c. */
#include <cfx/ops.h>
#include <cfx/run.h>

#include "pass.h"

static bool is_one_of(const cfx_module *m, const char *const *types) {
    for (; m && *types; types++)
        if (!strcmp(m->type, *types))
            return true;
    return false;
}

static cfx_module *called(const cfx_module *gm, const cfx_node *n) {
    return n && n->op == CFX_CALL_MODULE ? cfx_module_find(gm, n->target.name) : NULL;
}

static cfx_tensor *tensor_of(const cfx_module *m, const char *name) {
    cfx_value v = cfx_module_attr(m, name);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

static bool fuse(cfx_module *gm, cfx_node *n) {
    static const char *const layers[] = {"Conv1d", "Conv2d", "Conv3d", "Linear", NULL};
    static const char *const norms[] = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", NULL};
    cfx_node *before = n->inputs ? n->inputs->node : NULL;
    cfx_module *norm = called(gm, n), *layer = called(gm, before);
    if (!is_one_of(norm, norms) || !is_one_of(layer, layers) || before->num_users != 1 ||
        norm->training)
        return false;
    cfx__affine a;
    cfx_tensor *weight = tensor_of(layer, "weight"), *bias = tensor_of(layer, "bias");
    if (!weight || !cfx__affine_of(&a, tensor_of(norm, "running_mean"),
                                   tensor_of(norm, "running_var"), tensor_of(norm, "weight"),
                                   tensor_of(norm, "bias"), cfx_module_attr(norm, "eps")))
        return false;
    cfx__affine_apply(&a, 0, &weight, &bias);
    if (!cfx_ok())
        return false;
    cfx_nn_parameter(layer, "weight", weight);
    cfx_nn_parameter(layer, "bias", bias);
    cfx_node_replace(n, before);
    return cfx_graph_erase(n);
}

cfx_module *cfx_fuse_conv_bn(const cfx_module *m) {
    if (!cfx__module_given(m))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_module *gm = cfx_symbolic_trace(cfx_module_copy(m));
    cfx_each_node(gm->graph, n) if (cfx_ok()) CFX_SCOPE fuse(gm, n);
    cfx_graph_module_prune(gm);
    cfx_set_grad_mode(grad);
    return cfx_scope_return(mark, cfx_ok() ? gm : &cfx__module_bad);
}
