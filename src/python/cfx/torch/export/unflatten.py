"""The modules that a program was exported from, put together again."""
import abc

from ..nn.modules.module import Module
from ..utils import _pytree as pytree
from ._modules import from_c
from .exported_program import ExportedProgram

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Arranges flat arguments of one tree as those of another."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        ...


class UnflattenedModule(Module):
    """A program as a module with the children that its model had, each with a graph of its own.
    Another module may be put in the place of one whose signature was preserved."""

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        made = from_c(export_module._noted._unflatten(), class_name="UnflattenedModule")
        for part in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules"):
            self.__dict__[part] = made.__dict__[part]
        self.__dict__["_made"] = made
        self.flat_args_adapter = flat_args_adapter
        self.check_input_constraints = True
        self.module_call_graph = export_module.module_call_graph
        self.graph_signature = export_module.graph_signature
        self.range_constraints = export_module.range_constraints
        self.input_modules = [n for n, _ in made.named_modules()]
        self._spec = export_module.call_spec.in_spec

    @property
    def graph(self):
        return self._made.graph

    @property
    def graph_module(self):
        return self._made

    @property
    def code(self):
        return self._made.code

    def print_readable(self, *args, **kwargs):
        return self._made.print_readable(*args, **kwargs)

    def forward(self, *args, **kwargs):
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec == self._spec:
            return self._made(*args, **kwargs)
        if self.flat_args_adapter is None:
            raise TypeError("There is no flat args adapter specified. Are you sure you are calling "
                            f"this with the right arguments? Input treespec: {spec} Exported "
                            f"treespec: {self._spec}")
        flat = self.flat_args_adapter.adapt(target_spec=self._spec, input_spec=spec,
                                            input_args=flat, metadata=None, obj=self)
        if len(flat) != self._spec.num_leaves:
            raise TypeError("Flat args adaption failed, number of args mismatch Adatped: "
                            f"{len(flat)} Exported module: {self._spec.num_leaves}")
        args, kwargs = pytree.tree_unflatten(flat, self._spec)
        return self._made(*args, **kwargs)


def unflatten(module, flat_args_adapter=None):
    """The modules of a program: UnflattenedModule."""
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten takes an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)


def __getattr__(name):
    if name == "InterpreterModule":
        from ..fx.graph_module import GraphModule

        return GraphModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
