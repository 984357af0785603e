"""torch.func: modules as functions of their parameters, and functions of functions."""
import contextlib

from ._functorch.functionalize import functionalize
from ._functorch.transforms import (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize,
                                    stack_module_state, vjp, vmap)

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
           "jacrev", "jvp", "linearize", "stack_module_state", "vjp", "vmap"]


@contextlib.contextmanager
def _tensors_of(module, state):
    """The module with other tensors under the names of a dict."""
    before = []
    try:
        for path, tensor in state.items():
            prefix, _, name = path.rpartition(".")
            owner = module.get_submodule(prefix)
            for held in (owner._parameters, owner._buffers):
                if name in held:
                    before.append((held, name, held[name]))
                    held[name] = tensor
                    break
            else:
                raise KeyError(f"the module has no parameter or buffer {path!r}")
        yield module
    finally:
        for held, name, tensor in reversed(before):
            held[name] = tensor


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *,
                    tie_weights=True, strict=False):
    """Calls a module with other tensors for its parameters and buffers."""
    dicts = parameter_and_buffer_dicts
    state = {}
    for d in dicts if isinstance(dicts, (list, tuple)) else [dicts]:
        state.update(d)
    if strict:
        names = {n for n, _ in [*module.named_parameters(), *module.named_buffers()]}
        missing, extra = sorted(names - set(state)), sorted(set(state) - names)
        if missing or extra:
            raise RuntimeError("Error(s) in loading state_dict: "
                               + "; ".join(part for part in (
                                   f"Unexpected key(s): {', '.join(extra)}." if extra else "",
                                   f"Missing key(s): {', '.join(missing)}." if missing else "")
                                   if part))
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _tensors_of(module, state):
        return module(*args, **(kwargs or {}))
