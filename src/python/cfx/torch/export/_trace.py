"""Exporting: a model of Python runs on tensors without numbers, and what it calls is recorded."""
import contextlib
import inspect
import os
import re
import sys

import cfx
from cfx import _cfx

from .._errors import ConstraintViolationError, UserError, UserErrorType
from .._functorch import config
from .._sym import GuardOnDataDependentSymNode
from ..fx.graph_module import GraphModule
from ..nn.modules import _mirror
from ..nn.modules.module import Module, watched
from ..utils import _pytree as pytree
from . import _builtins, _lines, _modules_given
from . import dynamic_shapes as dims
from ._custom import pack, unpack
from ._draft_export import DraftExportReport
from ._state import kept
from .exported_program import ExportedProgram


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
           preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """The program of a model."""
    if not isinstance(mod, Module):
        raise ValueError("Expected `mod` to be an instance of `torch.nn.Module`, got "
                         f"{type(mod)}.")
    try:
        return _export(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature,
                       draft=config.fake_tensor_propagate_real_tensors)
    except (UserError, GuardOnDataDependentSymNode) as e:
        e.args = (f"{e}\n\n{_TRY_DRAFT}",)
        raise


_TRY_DRAFT = ("The error above occurred when calling torch.export.export. If you would like to "
              "view some more information about this error, and get a list of all other errors "
              "that may occur in your export call, you can replace your `export()` call with "
              "`draft_export()`.")


export_for_training = export


def export_for_inference(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
                         preserve_module_call_signature=(), decomp_table=None):
    """The program of a model, decomposed."""
    ep = export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                preserve_module_call_signature=preserve_module_call_signature)
    return ep.run_decompositions(decomp_table)


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None,
                 preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """A program where export has only an error: decisions by data are those of the example, which
    the program asserts. ep._report says what export would have refused."""
    if not isinstance(mod, Module):
        raise ValueError("Expected `mod` to be an instance of `torch.nn.Module`, got "
                         f"{type(mod)}.")
    ep = _export(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature, draft=True)
    ep._report = DraftExportReport(ep._program)
    return ep


def _export(mod, args, kwargs=None, dynamic_shapes=None, preserve_module_call_signature=(),
            draft=False, **options):
    if not isinstance(args, tuple):
        raise UserError(UserErrorType.INVALID_INPUT, f"Expecting `args` to be a tuple of example "
                        f"positional inputs, got {type(args)}")
    args = tuple(args)  # a NamedTuple is its arguments
    kwargs = kwargs or {}
    _modules_given.register(args, kwargs)
    said = dynamic_shapes
    if isinstance(said, (dims.AdditionalInputs, dims.ShapesCollection)):
        said = said.dynamic_shapes(mod, args, kwargs)
    args, kwargs = dims._unwrapped(args), dims._unwrapped(kwargs)
    combined = dims._combine_args(mod, args, kwargs)
    _check_kinds(args, kwargs)
    dims._check_dynamic_shapes(combined, said)
    program = capture(mod, pack(args), pack(kwargs), dims.to_c(mod.forward, combined, said),
                      list(preserve_module_call_signature), draft)
    ep = ExportedProgram(program)
    ep._example_inputs = (args, kwargs)
    if isinstance(mod, GraphModule):
        _lines.keep_stacks(mod, ep)
    if isinstance(dynamic_shapes, dims.AdditionalInputs):
        dynamic_shapes.verify(ep)
    return ep


_KINDS = (cfx.Tensor, int, float, complex, str, bytes, type(None), Module, _cfx.Sym, _cfx.dtype,
          _cfx.device, type(_cfx.strided), type(_cfx.contiguous_format))


def _check_kinds(args, kwargs):
    for leaf in pytree.tree_leaves((args, kwargs)):
        if not isinstance(leaf, _KINDS):
            raise ValueError(
                f"Unsupported input type {type(leaf)}. Export only supports pytree containers of "
                "basic types (Tensor, int, float, ...) as input. To register a custom dataclass, "
                "use torch.export.register_dataclass. To register a custom container type, use "
                "torch.utils._pytree.register_pytree_node. To register a constant input, use "
                "torch.utils._pytree.register_constant")


def _twins(mod, args, kwargs):
    """Place of an argument to the last place of the same tensor, where that is another."""
    signature = inspect.signature(mod.forward)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # which C says better
        return {}
    leaves = pytree.tree_leaves([given.get(name) for name in signature.parameters])
    last = {id(leaf): i for i, leaf in enumerate(leaves) if isinstance(leaf, cfx.Tensor)}
    return {i: last[id(leaf)] for i, leaf in enumerate(leaves) if last.get(id(leaf), i) != i}


def _one_object(values, twins):
    """The arguments of forward, in which what was one tensor is one again: models ask whether the
    query is the key."""
    if not twins:
        return values
    leaves, spec = pytree.tree_flatten(values)
    return pytree.tree_unflatten([leaves[twins.get(i, i)] for i in range(len(leaves))], spec)


def capture(mod, args, kwargs, dynamic, preserve=(), draft=False):
    """The program that C records while the model runs."""
    root, mirrors = _cfx.mirror_tree(mod, _mirror.signature(mod))

    twins = _twins(mod, args, kwargs)

    def received(values):
        return [unpack(v) for v in _one_object(values, twins)]

    def call(module, forward, a, kw):
        mirror = mirrors.get(id(module))
        return forward(*a, **kw) if mirror is None else mirror.forward(a, kw)

    try:
        with watched(call, lambda name, value: value), _builtins.recorded(), \
                _mirror.unpacking(mod, received, pack, kept):
            return _cfx.export_program(root, args, kwargs, dynamic, list(preserve) or None, draft)
    except ValueError as e:
        raise _as_user_error(e) from None
    except RuntimeError as e:
        if "data-dependent expression" not in str(e) or isinstance(e, UserError):
            raise
        raise GuardOnDataDependentSymNode(str(e)).with_traceback(e.__traceback__) from None
    finally:
        _lines.forget()


def _as_user_error(e):
    """PyTorch's error where sizes cannot be what was said of them."""
    text = str(e)
    if text.startswith("Constraints violated"):
        text = text.replace(")!", ")! For more information, run with TORCH_LOGS=\"+dynamic\".", 1)
    elif re.match(r"\d+ not in range", text):
        return ConstraintViolationError(UserErrorType.CONSTRAINT_VIOLATION, text)
    elif not text.startswith(("Expected input L[", "Expected shape[")):
        return e
    return UserError(UserErrorType.CONSTRAINT_VIOLATION, text)


_PACKAGE = os.path.dirname(os.path.abspath(cfx.__file__)) + os.sep
_OURS = (_PACKAGE, contextlib.__file__, "<")
_files = {}  # the names of files, as C has them; nodes may point to them for ever


def _here():
    """(file, line) of the innermost code of the model that is not this package's; (b"", 0) where
    all of it is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not capture.__code__:
        name = frame.f_code.co_filename
        place = _lines.model_line(frame) if name.startswith("<eval_with_key>") else None
        if place:
            return _files.setdefault(place[0], os.fsencode(place[0])), place[1]
        if not name.startswith(_OURS):
            return _files.setdefault(name, os.fsencode(name)), frame.f_lineno
        frame = frame.f_back
    return b"", 0


_cfx.adopt("here", _here)
