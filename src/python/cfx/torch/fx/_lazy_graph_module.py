"""GraphModules whose code is generated when it is first needed."""
import contextlib

from . import graph_module
from ._compatibility import compatibility
from .graph_module import GraphModule, _forward_from_src, import_block

_use_lazy_graph_module_flag = False
_force_skip_lazy_graph_module_flag = False


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def _force_skip_lazy_graph_module():
    global _force_skip_lazy_graph_module_flag
    was, _force_skip_lazy_graph_module_flag = _force_skip_lazy_graph_module_flag, True
    try:
        yield
    finally:
        _force_skip_lazy_graph_module_flag = was


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def _use_lazy_graph_module(should_use):
    """Lets modules that are made meanwhile be lazy, or not."""
    global _use_lazy_graph_module_flag
    was = _use_lazy_graph_module_flag
    _use_lazy_graph_module_flag = should_use and not _force_skip_lazy_graph_module_flag
    try:
        yield
    finally:
        _use_lazy_graph_module_flag = was


@compatibility(is_backward_compatible=False)
def _get_graph_module_cls():
    return _LazyGraphModule if _use_lazy_graph_module_flag else graph_module.GraphModule


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    return (graph_module_cls or _get_graph_module_cls())(*args, **kwargs)


@compatibility(is_backward_compatible=False)
class _LazyGraphModule(GraphModule):
    """Recompiles when its code or forward is asked for."""

    @classmethod
    def from_graphmodule(cls, gm):
        if isinstance(gm, _LazyGraphModule):
            return gm
        return _LazyGraphModule(gm, gm.graph)

    @staticmethod
    def force_recompile(gm):
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def real_recompile(self):
        if self._needs_recompile():
            self._real_recompile()

    @classmethod
    def _needs_recompile(cls):
        return cls.forward is cls._lazy_forward

    def _lazy_forward(self, *args, **kwargs):
        self.real_recompile()
        if self._needs_recompile():
            raise AssertionError("forward should not need recompile after real_recompile")
        return self(*args, **kwargs)

    forward = _lazy_forward

    def __reduce_package__(self, exporter):
        self.real_recompile()
        return super().__reduce_package__(exporter)

    def __reduce__(self):
        block = import_block(self._real_recompile().globals)
        body = self.__dict__.copy()
        del body["_graph"]
        return (_reduce_lazy, (body, block))

    def _real_recompile(self):
        return super().recompile()

    @compatibility(is_backward_compatible=False)
    def recompile(self):
        """Forgets the code; it is generated at the next use."""
        self.forward_was = None
        type(self).forward = type(self)._lazy_forward

    @property
    def code(self):
        self.real_recompile()
        return super().code

    def __str__(self):
        self.real_recompile()
        return super().__str__()


def _reduce_lazy(body, block):
    forward = _forward_from_src(block + (body.get("_code") or body["code"]), {})
    return graph_module._deserialize_graph_module(forward, body,
                                                  graph_module_cls=_LazyGraphModule)
