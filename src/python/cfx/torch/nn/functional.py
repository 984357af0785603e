"""torch.nn.functional: functions of the registry by their names there, and those that PyTorch
writes in Python above others."""
from cfx import _cfx
from cfx._functions import BUILTIN_FUNCTION, namespace, python_function, signature, split_schema

from ..overrides import (handle_torch_function, has_torch_function,  # noqa: F401
                         has_torch_function_unary, has_torch_function_variadic)

# Poolings with and without the places of the largest, and which argument says so.
_POOLS = {"max_pool1d": 6, "max_pool2d": 6, "max_pool3d": 6, "adaptive_max_pool1d": 2,
          "adaptive_max_pool2d": 2, "adaptive_max_pool3d": 2}


def _with_indices(name):
    """max_pool2d_with_indices(input, ...), for max_pool2d."""
    inner = _cfx.function(f"torch.nn.functional.{name}", name, BUILTIN_FUNCTION)
    arguments = split_schema(inner._schemas[0])
    given = ", ".join(a if default is None else f"{a}={a}" for _, a, default, _ in arguments)
    full = f"{name}_with_indices"
    text = (f"def {full}({signature(inner)}):\n"
            f"    if overridden(input):\n"
            f"        return override({full}, (input,), {given})\n"
            f"    return_indices = True\n"
            f"    return inner({given})\n")
    names = {"inner": inner, "overridden": has_torch_function_unary,
             "override": handle_torch_function, "__name__": __name__}
    exec(compile(text, f"<torch.nn.functional.{full}>", "exec"), names)
    return names[full]


def _pool(name, place):
    """max_pool2d(*args, **kwargs): whether the places are asked for decides which function that
    is."""
    path = f"torch.nn.functional.{name}"
    plain = python_function(path, __name__)
    indexed = _with_indices(name)

    def fn(*args, **kwargs):
        flag = False
        if "return_indices" in kwargs:
            flag = kwargs["return_indices"]
        elif place < len(args):
            flag = args[place]
        return (indexed if flag else plain)(*args, **kwargs)

    fn.__name__ = name
    fn.__module__ = __name__
    fn.__doc__ = plain.__doc__
    fn._dispatched = plain
    plain._public(fn)
    return fn, indexed


for _name, _place in _POOLS.items():
    globals()[_name], globals()[f"{_name}_with_indices"] = _pool(_name, _place)
pad = python_function("torch.nn.functional.pad", __name__)

__getattr__, __dir__ = namespace(__name__, "torch.nn.functional", "torch")
