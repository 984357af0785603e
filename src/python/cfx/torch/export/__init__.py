"""torch.export: models as programs of ATen operators."""
import os
import sys

import cfx

from . import dynamic_shapes, exported_program, graph_signature  # noqa: F401
from ._modules import graph_module_of, spec_from_c  # noqa: F401
from ._trace import _export, draft_export, export, export_for_inference  # noqa: F401
from ._trace import export_for_training  # noqa: F401
from .dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims  # noqa: F401
from .exported_program import (ExportedProgram, ModuleCallEntry,  # noqa: F401
                               ModuleCallSignature, default_decompositions)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature  # noqa: F401
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten  # noqa: F401


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a file, or to what is opened for writing."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
                        f"'{type(ep).__name__}' instead.")
    program = ep._noted
    if extra_files:
        program = program._copy()
        program._set_extra_files({k: v.encode() if isinstance(v, str) else v
                                  for k, v in extra_files.items()})
    if not isinstance(f, (str, os.PathLike)):
        f.write(program.to_bytes())
    elif os.fspath(f).endswith((".pt2", ".fx", ".onnx")):
        program.save(f)
    else:  # whatever it is called, as in PyTorch
        with open(f, "wb") as file:
            file.write(program.to_bytes())


def load(f, *, extra_files=None, expected_opset_version=None):
    """The program in a file, or in what is opened for reading."""
    if isinstance(f, (str, os.PathLike)):
        ep = ExportedProgram(cfx.open(os.fspath(f)))
    else:
        ep = exported_program._loaded(f.read())
    if extra_files is not None:
        files = ep._program._extra().get("files") or {}
        for name in extra_files:
            if name in files:
                extra_files[name] = bytes(memoryview(files[name])).decode()
    return ep


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets inputs and outputs be of a dataclass."""
    import dataclasses

    from ..utils import _pytree as pytree

    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


def __getattr__(name):
    if name == "Constraint":
        return dynamic_shapes.Constraint
    if name == "CustomDecompTable":
        from .decomp_utils import CustomDecompTable

        return CustomDecompTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_ = sys
