"""What C asks about modules of Python: it calls them, and mirrors them by modules of its own."""
import contextlib
import inspect
import threading

from cfx import _cfx

from ._hooks import global_hooks


def _literal(value):
    return value is None or isinstance(value, (bool, int, float, str)) or \
        isinstance(value, (tuple, list)) and all(map(_literal, value))


def signature(module):
    """The parameters of a module's forward, as C reads signatures; a default that C has no literal
    for is None there."""
    parts, star = [], False
    for p in inspect.signature(module.forward).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        if p.default is not p.empty:
            text += f"={p.default!r}" if _literal(p.default) else "=None"
        parts.append(text)
    return ", ".join(parts)


_unpacked = threading.local()  # the module that is exported, and what its arguments go through


@contextlib.contextmanager
def unpacking(module, before, after, around):
    """While C calls a module, its arguments go through one function as a list, its result through
    another, and its forward runs in around(module), which gives a third one for the result."""
    was = getattr(_unpacked, "by", None)
    _unpacked.by = module, before, after, around
    try:
        yield
    finally:
        _unpacked.by = was


def call_bound(module, values):
    """Calls a module with a value for each parameter of its forward."""
    root, before, after, around = getattr(_unpacked, "by", None) or (None,) * 4
    if root is module:
        with around(module) as through:
            result = through(_call_bound(module, before(values)))
        return after(result)
    return _call_bound(module, values)


def _call_bound(module, values):
    args, kwargs = [], {}
    for p, value in zip(inspect.signature(module.forward).parameters.values(), values):
        if p.default is not p.empty and value is None and not _literal(p.default):
            value = p.default
        if p.kind is p.VAR_POSITIONAL:
            args += value
        elif p.kind is p.VAR_KEYWORD:
            kwargs.update(value)
        elif p.kind is p.KEYWORD_ONLY:
            kwargs[p.name] = value
        else:
            args.append(value)
    return module._call_impl(*args, **kwargs)


def mirror_kind(module):
    """The layer of C's that a module is, or the module of C that it stands for; None where Python
    has changed what it does."""
    from ._backed import Backed
    from ._layers import layer

    if isinstance(module, Backed):
        return module._c

    cls = type(module)
    name = cls.__dict__.get("_layer")
    if name is None or "forward" in module.__dict__ or module._forward_hooks \
            or module._forward_pre_hooks or global_hooks.any \
            or cls.forward is not layer(name).forward:
        return None
    return name


def plain_attrs(module):
    """The attributes of a layer that C has too."""
    return {k: v for k, v in module.__dict__.items()
            if not k.startswith("_") and k != "training"}


_cfx.adopt("mirror_kind", mirror_kind)
_cfx.adopt("plain_attrs", plain_attrs)
_cfx.adopt("call_bound", call_bound)
