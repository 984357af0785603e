"""Exporting: a model of Python runs on tensors without numbers, and what it calls is recorded."""
import inspect

import cfx
from cfx import _cfx

from ..nn.modules import _layers
from ..nn.modules._hooks import global_hooks
from ..nn.modules.module import Module, watched
from ..utils import _pytree as pytree
from . import dynamic_shapes as dims
from ._errors import UserError, UserErrorType
from .exported_program import ExportedProgram


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
           preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """The program of a model."""
    if not isinstance(mod, Module):
        raise ValueError("Expected `mod` to be an instance of `torch.nn.Module`, got "
                         f"{type(mod)}.")
    return _export(mod, args, kwargs, dynamic_shapes)


export_for_training = export_for_inference = export


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None,
                 preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)


def _export(mod, args, kwargs=None, dynamic_shapes=None, **options):
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"Expecting `args` to be a tuple of example "
                        f"positional inputs, got {type(args)}")
    kwargs = kwargs or {}
    said = dynamic_shapes
    if isinstance(said, (dims.AdditionalInputs, dims.ShapesCollection)):
        said = said.dynamic_shapes(mod, args, kwargs)
    combined = dims._combine_args(mod, args, kwargs)
    dims._check_dynamic_shapes(combined, said)
    program = capture(mod, args, kwargs, dims.to_c(combined, said))
    ep = ExportedProgram(program)
    ep._example_inputs = (args, kwargs)
    if isinstance(dynamic_shapes, dims.AdditionalInputs):
        dynamic_shapes.verify(ep)
    return ep


def capture(mod, args, kwargs, dynamic):
    """The program that C records while the model runs."""
    root, mirrors = _cfx.mirror_tree(mod, _signature(mod))

    def call(module, forward, a, kw):
        mirror = mirrors.get(id(module))
        return forward(*a, **kw) if mirror is None else mirror.forward(a, kw)

    with watched(call, lambda name, value: value):
        return _cfx.export_program(root, args, kwargs, dynamic)


# ---- what C asks about modules of Python ---------------------------------------------------------


def _literal(value):
    return value is None or isinstance(value, (bool, int, float, str)) or \
        isinstance(value, (tuple, list)) and all(map(_literal, value))


def _signature(module):
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


def call_bound(module, values):
    """Calls a module with a value for each parameter of its forward."""
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
    """The layer of C's that a module is; None where Python has changed what it does."""
    cls = type(module)
    name = cls.__dict__.get("_layer")
    if name is None or "forward" in module.__dict__ or module._forward_hooks \
            or module._forward_pre_hooks or global_hooks.any \
            or cls.forward is not _layers.layer(name).forward:
        return None
    return name


def plain_attrs(module):
    """The attributes of a layer that C has too."""
    return {k: v for k, v in module.__dict__.items()
            if not k.startswith("_") and k != "training"}


_cfx.adopt("mirror_kind", mirror_kind)
_cfx.adopt("plain_attrs", plain_attrs)
_cfx.adopt("call_bound", call_bound)
_ = (cfx, pytree)
