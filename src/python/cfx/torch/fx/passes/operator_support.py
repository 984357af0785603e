"""Which nodes a backend can run."""
import abc
import typing

import cfx

from .._compatibility import compatibility
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "OpSupports",
           "any_chain"]
TargetTypeName = str
SupportedArgumentDTypes = typing.Optional[typing.Tuple]
SupportDict = typing.Mapping[TargetTypeName, SupportedArgumentDTypes]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Says whether a node is supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        raise NotImplementedError


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """By a table of what is called: None, or ((dtypes of each argument), {name: dtypes})."""

    _support_dict: SupportDict

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        args, kwargs = self._support_dict[target]
        for i, dtypes in enumerate(args):
            if len(node.args) <= i:
                break
            if dtypes is not None and hasattr(node.args[i], "meta") and \
                    _get_arg_dtype(node.args[i]) not in dtypes:
                return False
        for name, dtypes in kwargs.items():
            if dtypes is not None and name in node.kwargs and hasattr(node.kwargs[name], "meta") \
                    and _get_arg_dtype(node.kwargs[name]) not in dtypes:
                return False
        return True


@compatibility(is_backward_compatible=False)
class FunctionalOperatorSupport(OperatorSupportBase):
    def __init__(self, is_node_supported):
        self._is_node_supported = is_node_supported

    def is_node_supported(self, submodules, node):
        return self._is_node_supported(submodules, node)


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported):
    return FunctionalOperatorSupport(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support):
    """Supported by all."""
    return create_op_support(lambda submods, node: all(
        s.is_node_supported(submods, node) for s in op_support))


@compatibility(is_backward_compatible=False)
def any_chain(*op_support):
    """Supported by one of them."""
    return create_op_support(lambda submods, node: any(
        s.is_node_supported(submods, node) for s in op_support))


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Ready-made ones."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        return create_op_support(lambda submods, node: all(
            _get_arg_dtype(a) != dtype for a in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        return create_op_support(lambda submods, node: node.name not in disallow_set)


def _get_arg_dtype(arg):
    meta = arg.meta.get("tensor_meta")
    if meta is None and isinstance(arg.meta.get("val"), cfx.Tensor):
        return arg.meta["val"].dtype
    return meta.dtype if meta is not None and hasattr(meta, "dtype") else arg.meta["type"]
