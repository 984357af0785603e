"""Exporting: a model of Python runs on tensors without numbers, and what it calls is recorded."""
import os
import sys

import cfx
from cfx import _cfx

from ..nn.modules._mirror import signature
from ..nn.modules.module import Module, watched
from . import dynamic_shapes as dims
from ._errors import UserError, UserErrorType
from .exported_program import ExportedProgram


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
           preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """The program of a model."""
    if not isinstance(mod, Module):
        raise ValueError("Expected `mod` to be an instance of `torch.nn.Module`, got "
                         f"{type(mod)}.")
    return _export(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)


export_for_training = export_for_inference = export


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None,
                 preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes,
                  preserve_module_call_signature=preserve_module_call_signature)


def _export(mod, args, kwargs=None, dynamic_shapes=None, preserve_module_call_signature=(),
            **options):
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"Expecting `args` to be a tuple of example "
                        f"positional inputs, got {type(args)}")
    kwargs = kwargs or {}
    said = dynamic_shapes
    if isinstance(said, (dims.AdditionalInputs, dims.ShapesCollection)):
        said = said.dynamic_shapes(mod, args, kwargs)
    combined = dims._combine_args(mod, args, kwargs)
    dims._check_dynamic_shapes(combined, said)
    program = capture(mod, args, kwargs, dims.to_c(mod.forward, combined, said),
                      list(preserve_module_call_signature))
    ep = ExportedProgram(program)
    ep._example_inputs = (args, kwargs)
    if isinstance(dynamic_shapes, dims.AdditionalInputs):
        dynamic_shapes.verify(ep)
    return ep


def capture(mod, args, kwargs, dynamic, preserve=()):
    """The program that C records while the model runs."""
    root, mirrors = _cfx.mirror_tree(mod, signature(mod))

    def call(module, forward, a, kw):
        mirror = mirrors.get(id(module))
        return forward(*a, **kw) if mirror is None else mirror.forward(a, kw)

    try:
        with watched(call, lambda name, value: value):
            return _cfx.export_program(root, args, kwargs, dynamic, list(preserve) or None)
    except ValueError as e:
        if not str(e).startswith("Constraints violated"):
            raise
        text = str(e).replace(")!", ")! For more information, run with TORCH_LOGS=\"+dynamic\".", 1)
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text) from None


_PACKAGE = os.path.dirname(os.path.abspath(cfx.__file__)) + os.sep
_files = {}  # the names of files, as C has them; nodes may point to them for ever


def _here():
    """(file, line) of the innermost code of the model that is not this package's; (b"", 0) where
    all of it is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not capture.__code__:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<")):
            return _files.setdefault(name, os.fsencode(name)), frame.f_lineno
        frame = frame.f_back
    return b"", 0


_cfx.adopt("here", _here)
