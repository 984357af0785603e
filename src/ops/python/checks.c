/* torch._check and its like: what Python checks by itself, and torch.export takes note of. */
#include <cfx/ops.h>

#include "../ops.h"

static const char unsaid[] =
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please "
    "report an enhancement request to PyTorch.)";

/* C's true and false are integers. */
static bool is_truth(cfx_value v) {
    return v.tag == CFX_TAG_BOOL ||
           (v.tag == CFX_TAG_INT && (cfx_integer(v) == 0 || cfx_integer(v) == 1));
}

static void check(cfx_op_call *c) {
    const cfx_error_kind *kind = c->op->row;
    const char *message = cfx_text(c->args[1]);
    c->result = cfx_none();
    if (!is_truth(c->args[0]))
        op_fail_as(TYPE, c, "cond must be a bool, but got %s",
                   c->args[0].tag == CFX_TAG_TENSOR
                       ? "<class 'torch.Tensor'>"
                       : cfx__text_format("<class '%s'>", cfx__value_python_type(c->args[0])));
    else if (!cfx_integer(c->args[0]))
        cfx_fail(*kind, c->at, "%s", message ? message : unsaid);
}

static void check_is_size(cfx_op_call *c) {
    const char *message = cfx_text(c->args[1]);
    c->result = cfx_none();
    bool above = c->args[2].tag == CFX_TAG_INT && cfx_integer(c->args[0]) > cfx_integer(c->args[2]);
    if (cfx_integer(c->args[0]) < 0 || above)
        op_fail(c, "%s", message ? message : unsaid);
}

/* Nested lists of the numbers of a tensor; a number for one without dimensions. */
static void tolist(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (!t->ndim) {
        c->result = cfx_item(t);
        return;
    }
    cfx_value rows = cfx_unbind(t), out = cfx_list_value(0, NULL);
    for (int64_t i = 0; rows.tag == CFX_TAG_LIST && i < cfx_as_list(rows)->len && !op_failed(); i++)
        cfx_list_append(cfx_as_list(out), cfx_py("Tensor.tolist", cfx_as_list(rows)->items[i]));
    c->result = op_failed() ? cfx_bad() : out;
}

static const cfx_error_kind runtime = CFX_RUNTIME_ERROR, value = CFX_VALUE_ERROR,
                            indexed = CFX_INDEX_ERROR, type = CFX_TYPE_ERROR;

#define CHECKS(error) .decompose = check, .row = &(error), .effects = CFX_COMPOSITE | CFX_SIDE

CFX_FAMILY(CHECK);
CFX_OP(python__check) = {"python::_check(t cond, str? message=None) -> t", "torch._check",
                         CHECKS(runtime)};
CFX_OP(python__check_value) = {"python::_check_value(t cond, str? message=None) -> t",
                               "torch._check_value", CHECKS(value)};
CFX_OP(python__check_index) = {"python::_check_index(t cond, str? message=None) -> t",
                               "torch._check_index", CHECKS(indexed)};
CFX_OP(python__check_type) = {"python::_check_type(t cond, str? message=None) -> t",
                              "torch._check_type", CHECKS(type)};
CFX_OP(python__check_is_size) = {
    "python::_check_is_size(t i, str? message=None, *, int? max=None) -> t", "torch._check_is_size",
    .decompose = check_is_size, .effects = CFX_COMPOSITE | CFX_SIDE};
CFX_FAMILY(OTHER);
CFX_OP(python_tolist) = {"python::tolist(Tensor self) -> t", "Tensor.tolist", .decompose = tolist,
                         .effects = CFX_COMPOSITE};
