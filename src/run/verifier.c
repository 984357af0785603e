/* PyTorch's verifier: what a dialect lets a program call and read, in its sentences. Start at
 * cfx__verify_node. */
#include "problems.h"

/* ---- dialects -------------------------------------------------------------------------------- */

static bool is_core(const cfx_verifier *v, const cfx_node *n);

static const cfx_verifier verifiers[] = {
    {.dialect = "ATEN"},
    {.dialect = "TRAINING", .writes = true},
    {.dialect = "CORE", .valid = is_core},
};

const cfx_verifier *cfx_verifier_find(const char *dialect) {
    for (int i = 0; dialect && i < COUNT(verifiers); i++)
        if (!strcmp(dialect, verifiers[i].dialect))
            return &verifiers[i];
    return NULL;
}

const cfx_verifier *cfx__verifier_of(cfx_value dialect) {
    const cfx_verifier *v = cfx_verifier_find(cfx_text(dialect));
    return v ? v : verifiers;
}

cfx_list *cfx__dialects_of(const cfx_program *p) {
    cfx_value v = cfx_dict_get(p->extra, "verifiers");
    if (v.tag == CFX_TAG_LIST && cfx_as_list(v)->len)
        return cfx_as_list(v);
    cfx_value one = v.tag == CFX_TAG_STR ? v : cfx_string_value("TRAINING");
    return cfx_as_list(cfx_list_value(1, &one));
}

/* The operators of aten that PyTorch tags as core, in order. */
static const char *const core[] = {
    "_adaptive_avg_pool2d.default", "_adaptive_avg_pool2d_backward.default",
    "_adaptive_avg_pool3d.default", "_cdist_forward.default", "_embedding_bag.default",
    "_fft_c2r.default", "_fft_r2c.default", "_local_scalar_dense.default", "_log_softmax.default",
    "_native_batch_norm_legit.default", "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_no_training.default", "_pdist_forward.default", "_softmax.default",
    "_to_copy.default", "abs.default", "acos.default", "acosh.default",
    "adaptive_avg_pool1d.default", "add.Scalar", "add.Tensor", "addmm.default", "alias.default",
    "amax.default", "amin.default", "any.default", "any.dim", "any.dims", "arange.start_step",
    "argmax.default", "argmin.default", "as_strided.default", "asin.default", "asinh.default",
    "atan.default", "atan2.default", "atan2.out", "atanh.default", "avg_pool1d.default",
    "avg_pool2d.default", "avg_pool2d_backward.default", "avg_pool3d.default", "bitwise_and.Scalar",
    "bitwise_and.Tensor", "bitwise_not.default", "bitwise_or.Scalar", "bitwise_or.Tensor",
    "bitwise_xor.Scalar", "bitwise_xor.Tensor", "bmm.default", "cat.default", "ceil.default",
    "clamp.Tensor", "clamp.default", "clone.default", "col2im.default", "constant_pad_nd.default",
    "convolution.default", "convolution_backward.default", "copy.default", "cos.default",
    "cosh.default", "cumsum.default", "diagonal.default", "div.Scalar", "div.Scalar_mode",
    "div.Tensor", "div.Tensor_mode", "elu.default", "embedding.default",
    "embedding_dense_backward.default", "empty.memory_format", "empty_strided.default", "eq.Scalar",
    "eq.Tensor", "erf.default", "exp.default", "expand.default", "expm1.default", "fill.Scalar",
    "flip.default", "floor.default", "fmod.Scalar", "fmod.Tensor", "full.default",
    "full_like.default", "gather.default", "ge.Scalar", "ge.Tensor", "gelu.default",
    "grid_sampler_2d.default", "gt.Scalar", "gt.Tensor", "hardtanh.default", "index.Tensor",
    "index_put.default", "index_select.default", "isinf.default", "isnan.default", "le.Scalar",
    "le.Tensor", "leaky_relu.default", "log.default", "log10.default", "log1p.default",
    "log2.default", "logical_and.default", "logical_not.default", "logical_or.default",
    "logical_xor.default", "lt.Scalar", "lt.Tensor", "masked_scatter.default", "max.dim",
    "max_pool2d_with_indices.default", "max_pool2d_with_indices_backward.default",
    "max_pool3d_with_indices.default", "maximum.default", "mean.default", "mean.dim", "min.dim",
    "minimum.default", "mm.default", "mul.Scalar", "mul.Tensor", "native_dropout.default",
    "native_group_norm.default", "native_group_norm_backward.default", "native_layer_norm.default",
    "native_layer_norm_backward.default", "ne.Scalar", "ne.Tensor", "neg.default",
    "nonzero.default", "permute.default", "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor",
    "prod.default", "prod.dim_int", "rand.default", "randn.default", "randperm.default",
    "reciprocal.default", "reflection_pad1d.default", "reflection_pad2d.default",
    "reflection_pad3d.default", "relu.default", "remainder.Scalar", "remainder.Tensor",
    "repeat.default", "replication_pad2d.default", "replication_pad3d.default", "resize_.default",
    "round.default", "rsqrt.default", "scalar_tensor.default", "scatter.src", "scatter.value",
    "scatter_add.default", "scatter_reduce.two", "select.int", "select_scatter.default",
    "sigmoid.default", "sign.default", "sin.default", "sinh.default", "slice.Tensor",
    "slice_scatter.default", "sort.default", "split_with_sizes.default", "sqrt.default",
    "squeeze.dim", "squeeze.dims", "sub.Scalar", "sub.Tensor", "sum.dim_IntList",
    "sym_is_contiguous.default", "sym_numel.default", "sym_size.int", "sym_storage_offset.default",
    "sym_stride.int", "tan.default", "tanh.default", "topk.default", "trunc.default",
    "unsqueeze.default", "upsample_bilinear2d.vec", "upsample_nearest2d.vec", "var.correction",
    "var.dim", "view.default", "where.self",
};

static int compare_text(const void *a, const void *b) { return strcmp(a, *(const char *const *)b); }

static bool is_core(const cfx_verifier *v, const cfx_node *n) {
    (void)v;
    const char *name = cfx_op_name(n->target.op), *own = strncmp(name, "aten.", 5) ? "" : name + 5;
    if (bsearch(own, core, COUNT(core), sizeof *core, compare_text))
        return true;
    cfx_fail(CFX_SPEC_VIOLATION_ERROR, (cfx_site){0},
             "Operator torch._ops.%s is not Aten Canonical.", name);
    return false;
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define BUILTINS(X)                                                                                \
    X(operator, getitem) X(operator, add) X(operator, mul) X(operator, sub) X(operator, truediv)   \
    X(operator, ge) X(operator, le) X(operator, gt) X(operator, lt) X(operator, eq)                \
    X(operator, ne) X(operator, floordiv) X(operator, mod) X(operator, and_) X(operator, or_)      \
    X(operator, not_) X(operator, pow) X(operator, neg) X(operator, abs) X(operator, lshift)       \
    X(operator, rshift) X(math, ceil) X(math, floor) X(math, trunc) X(builtins, round)

#define BUILTIN_NAME(module, name) #module "." #name,
#define BUILTIN_REPR(module, name) ", <built-in function " #name ">"
static const char *const builtins[] = {BUILTINS(BUILTIN_NAME)};

static const char *const functions[] = {
    "torch.autograd.grad_mode.set_grad_enabled",
    "torch.sym_int",
    "torch.sym_float",
    "torch.sym_ite",
    "torch.sym_max",
    "torch.sym_min",
    "torch.sym_not",
    "torch.sym_sqrt",
    "torch.sym_sum",
    "torch.export.custom_ops._call_custom_autograd_function_in_pre_dispatch",
    "torch._C._set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless",
    "torch._functorch.predispatch._add_batch_dim",
    "torch._functorch.predispatch._remove_batch_dim",
    "torch._functorch.predispatch._vmap_increment_nesting",
    "torch._functorch.predispatch._vmap_decrement_nesting",
    "torch._functorch.predispatch.lazy_load_decompositions",
};

static bool is_one_of(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Functions that are called by other names too. */
static const char *own_name(const char *name) {
    return !strcmp(name, "torch.set_grad_enabled") ? functions[0]
           : !strcmp(name, "torch._sym_sqrt")      ? "torch.sym_sqrt"
           : !strncmp(name, "_operator.", 10)      ? name + 1
                                                   : name;
}

/* One overload, or what may become one when it is registered; a higher-order operator. */
static bool is_operator(const cfx_node *n) {
    const char *name = n->target.name;
    return (n->target.op && !n->target.fn) ||
           (!n->target.fn && !n->target.object && !strncmp(name, "torch.ops.", 10));
}

static void fail_type(cfx__finding *f, const cfx_node *n) {
    cfx__text out = {0};
    for (int i = 0; i < COUNT(functions); i++)
        cfx__text_printf(&out, "%s%s", i ? ", " : "", functions[i]);
    cfx__problem_add(f, n, CFX_SPEC_VIOLATION_ERROR,
                     "Operator '%s' is not an allowed operator type: (<class "
                     "'torch._ops.OpOverload'>, <class 'torch._ops.HigherOrderOperator'>)\n"
                     "Valid builtin ops: [%s]Valid torch functions: (%s)",
                     n->target.name, &(BUILTINS(BUILTIN_REPR))[2], out.data);
    cfx__text_release(&out);
}

static bool is_functional(const cfx_op *op) {
    const cfx__op_info *info = cfx__op_info_of((cfx_op *)op);
    for (int i = 0; info && i < info->schema->nargs; i++)
        if (info->schema->args[i].writes)
            return false;
    return true;
}

static void verify_call(cfx__finding *f, const cfx_verifier *v, const cfx_node *n) {
    const char *name = own_name(n->target.name);
    cfx_op *op = n->target.op ? n->target.op : cfx__run_late_op(n);
    if (!is_operator(n)) {
        if (!is_one_of(name, builtins, COUNT(builtins)) &&
            !is_one_of(name, functions, COUNT(functions)))
            fail_type(f, n);
        return;
    }
    if (!op)
        return;
    if (!v->writes && !is_functional(op))
        cfx__problem_add(f, n, CFX_SPEC_VIOLATION_ERROR, "operator '%s' is not functional",
                         cfx_op_name(op));
    else if (v->valid && !v->valid(v, n) && cfx_ok())
        cfx__problem_add(f, n, CFX_SPEC_VIOLATION_ERROR, "operator '%s' is not of dialect %s",
                         cfx_op_name(op), v->dialect);
    cfx__problem_take(f, n, "");
}

/* ---- attributes ------------------------------------------------------------------------------ */

#define GRAPHS "<class 'torch.fx.graph_module.GraphModule'>"
#define TENSORS "<class 'torch.nn.parameter.Parameter'>, <class 'torch.Tensor'>"
#define TREES "<class 'torch.utils._pytree.TreeSpec'>"

/* Sub-graphs may read tensors of their own; what the program's graph reads are its inputs. */
static void verify_attribute(cfx__finding *f, const cfx_node *n) {
    const cfx_module *m = f->infer.module;
    bool top = m == f->program->module;
    cfx_value v = cfx_module_attr(m, n->target.name);
    bool graph = v.tag == CFX_TAG_MODULE && cfx_as_module(v)->graph;
    if (graph || (v.tag == CFX_TAG_TENSOR && !top))
        return;
    cfx__problem_add(f, n, CFX_SPEC_VIOLATION_ERROR,
                     "Invalid get_attr type <class '%s'> on target %s. \n"
                     "Valid get_attr types: (%s)",
                     v.tag == CFX_TAG_TENSOR   ? "torch.Tensor"
                     : v.tag == CFX_TAG_MODULE ? cfx_as_module(v)->type
                                               : cfx__value_python_type(v),
                     n->target.name, top ? GRAPHS ", " TREES : GRAPHS ", " TENSORS ", " TREES);
}

void cfx__verify_node(cfx__finding *f, const cfx_verifier *v, const cfx_node *n) {
    switch (n->op) {
    case CFX_CALL_MODULE:
    case CFX_CALL_METHOD:
        cfx__problem_add(f, n, CFX_SPEC_VIOLATION_ERROR,
                         "call_module is not valid: got a class '%s' ", n->target.name);
        break;
    case CFX_CALL_FUNCTION: verify_call(f, v, n); break;
    case CFX_GET_ATTR: verify_attribute(f, n); break;
    default: break;
    }
}
