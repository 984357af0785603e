/* Calls that change how those after them run, as traced graphs have them: grad mode, autocast. */
#include "../ops.h"

/* Inference mode stays what it is, as in PyTorch. */
static void set_grad_enabled(cfx_op_call *c) {
    if (cfx_get_grad_mode() != CFX_INFERENCE)
        cfx_set_grad_mode(cfx_integer(c->args[0]) ? CFX_GRAD_ON : CFX_NO_GRAD);
    c->result = cfx_none();
}

static void enter_autocast(cfx_op_call *c) {
    bool off = c->args[2].tag == CFX_TAG_BOOL && !cfx_integer(c->args[2]);
    cfx_autocast_begin_from(
        c->at, (cfx_autocast_options){.device = arg_text(c, 0),
                                      .dtype = cfx_is_none(c->args[1]) ? (cfx_dtype)0
                                                                       : cfx_as_dtype(c->args[1]),
                                      .off = off});
    c->result = cfx_none();
}

static void exit_autocast(cfx_op_call *c) {
    cfx_autocast_end_from(c->at);
    c->result = cfx_none();
}

CFX_FAMILY(OTHER);
CFX_OP(python__set_grad_enabled) = {
    "python::_set_grad_enabled(bool mode) -> t",
    "torch._C._set_grad_enabled torch.set_grad_enabled torch.autograd.grad_mode.set_grad_enabled",
    .kernel = set_grad_enabled, .effects = CFX_SIDE};
CFX_OP(python__enter_autocast) = {
    "python::_enter_autocast(str device_type, ScalarType? dtype=None, bool? enabled=None, bool? "
    "cache_enabled=None) -> t",
    "torch.amp.autocast_mode._enter_autocast torch.amp._enter_autocast", .kernel = enter_autocast,
    .effects = CFX_SIDE};
CFX_OP(python__exit_autocast) = {"python::_exit_autocast(t mode) -> t",
                                 "torch.amp.autocast_mode._exit_autocast torch.amp._exit_autocast",
                                 .kernel = exit_autocast, .effects = CFX_SIDE};
