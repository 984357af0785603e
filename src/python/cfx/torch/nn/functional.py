"""torch.nn.functional: functions of the registry by their names there, and those that PyTorch
writes in Python above others."""
import functools
import warnings

from cfx import _cfx
from cfx._functions import BUILTIN_FUNCTION, namespace, python_function, signature, split_schema

from cfx._tensor import Tensor

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


def _elementwise_loss(name):
    """mse_loss(input, target, ...), which warns where input and target differ in size."""
    plain = python_function(f"torch.nn.functional.{name}", __name__)

    @functools.wraps(plain)
    def fn(input, target, *args, **kwargs):
        if not has_torch_function_variadic(input, target) and isinstance(input, Tensor) and \
                isinstance(target, Tensor) and input.shape != target.shape:
            warnings.warn(f"Using a target size ({target.size()}) that is different to the input "
                          f"size ({input.size()}). This will likely lead to incorrect results due "
                          "to broadcasting. Please ensure they have the same size.", stacklevel=2)
        return plain(input, target, *args, **kwargs)

    fn._dispatched = plain
    plain._public(fn)
    return fn


for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    globals()[_name] = _elementwise_loss(_name)



def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None,
                                      margin=1.0, swap=False, reduction="mean"):
    """How much nearer the positive is to the anchor than the negative, by a distance that is
    given."""
    if has_torch_function_variadic(anchor, positive, negative):
        return handle_torch_function(
            triplet_margin_with_distance_loss, (anchor, positive, negative), anchor, positive,
            negative, distance_function=distance_function, margin=margin, swap=swap,
            reduction=reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the "
                           f"same number of dimensions, but got: anchor {anchor.dim()}D, positive "
                           f"{positive.dim()}D, and negative {negative.dim()}D inputs")
    distance = __getattr__("pairwise_distance") if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    loss = (margin + near - far).clamp_min(0)
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate, under the name of old."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` "
                  "instead.", stacklevel=2)
    return __getattr__("interpolate")(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    return upsample(input, size, scale_factor)


def upsample_bilinear(input, size=None, scale_factor=None):
    return upsample(input, size, scale_factor, "bilinear", True)


__getattr__, __dir__ = namespace(__name__, "torch.nn.functional", "torch")
