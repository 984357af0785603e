"""Layers from float modules, one at a time: the steps are C's. What classes of torch.ao.nn call in
from_float()."""
from cfx import _cfx

from ...nn.modules import _backed
from . import observer as _observer

_KEPT = ("qconfig", "activation_post_process")  # Python's own


def to_c(mod):
    """The module of C that a layer is, without what observes it."""
    if isinstance(mod, _backed.Backed):
        return mod._c
    bare = type(mod).__new__(type(mod))
    bare.__dict__.update({k: v for k, v in mod.__dict__.items() if k not in _KEPT})
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        bare.__dict__[name] = type(mod.__dict__[name])()
    bare.__dict__["_modules"] = {k: v for k, v in mod._modules.items() if k not in _KEPT}
    return _cfx.mirror(bare)


def fused(cls, modules):
    """The module of C for modules as one of a class."""
    made = _cfx.fuse_modules([to_c(m) for m in modules], True)
    if made is None or made.type != cls.__name__:
        raise TypeError(f"{cls.__name__} is not made of "
                        f"{', '.join(type(m).__name__ for m in modules) or 'nothing'}")
    return made


def fuse(modules, training):
    """Modules as one; None where they cannot be."""
    made = _cfx.fuse_modules([to_c(m) for m in modules], training)
    return None if made is None else _backed.from_c(made)


def _qconfig(mod):
    qconfig = getattr(mod, "qconfig", None)
    if qconfig is None:
        raise AssertionError("Input float module must have qconfig defined")
    return qconfig


def _checked(cls, mod, made):
    new = None if made is None else _backed.from_c(made)
    if not isinstance(new, cls):
        raise AssertionError(f"{cls.__module__}.{cls.__name__} is not made of a "
                             f"{type(mod).__name__}")
    new.train(mod.training)
    return new


def _seen(qconfig, mod):
    """(options for C, the observer of C that has seen the weight or None where C makes one)."""
    maker = _observer.PlaceholderObserver if qconfig.weight is None else qconfig.weight
    made = maker()
    if _observer.is_plain(made):
        return _cfx.observer_how(made._c), None
    weight = getattr(mod, "weight", None)
    if weight is None:
        raise NotImplementedError(f"{type(made).__name__} is Python's, and looks at modules with "
                                  f"one weight; a {type(mod).__name__} has others")
    made(weight)
    if not isinstance(made, _backed.Backed):
        scale, zero = made.calculate_qparams()
        if scale.numel() != 1:
            raise NotImplementedError(f"{type(made).__name__} is Python's, and has a scale for "
                                      "each channel: derive it from PerChannelMinMaxObserver")
        made = _observer.FixedQParamsObserver(scale=scale.item(), zero_point=int(zero.item()),
                                              dtype=made.dtype)
    return _cfx.observer_how(made._c), made._c


def trained(cls, mod):
    """The layer that rounds its weight."""
    qconfig = _qconfig(mod)
    weight = _observer.to_options(qconfig.weight)
    made = _cfx.train_module(to_c(mod), (weight, weight))
    new = _checked(cls, mod, made)
    new.qconfig = qconfig
    return new


def from_float(cls, mod):
    """The quantized layer."""
    qconfig = _qconfig(mod)
    activation = (getattr(mod, "activation_post_process", None) or qconfig.activation())
    dynamic = bool(getattr(activation, "is_dynamic", False)) or "dynamic" in cls.__module__
    weight, seen = _seen(qconfig, mod)
    scale, zero = 1.0, 0
    if not dynamic and "activation_post_process" in mod._modules:
        both = activation.calculate_qparams()
        scale, zero = (float(v) for v in both)
    how = {"kind": _observer.PlaceholderObserver._kind, "dynamic": dynamic}
    return _checked(cls, mod, _cfx.convert_module(to_c(mod), (how, weight), seen, scale, int(zero)))
