"""One spelling for calls: arguments by name, operators as Python's."""
import operator

from ... import add, div, eq, floor_divide, ge, gt, le, lt, mul, ne, remainder, sub
from ..interpreter import Transformer
from ..node import Node, map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from .schema_type_annotation import AnnotateTypesWithSchema


class NormalizeArgs(Transformer):
    """Arguments matched to signatures, defaults filled in."""

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.node_map = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind(arg):
            return n.meta.get("type") if isinstance(arg, Node) else type(arg)

        if n.op == "call_function":
            arg_types = tuple(create_type_hint(t) for t in map_aggregate(n.args, kind))
            kwarg_types = {k: kind(v) for k, v in kwargs.items()}
            out = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out

    def call_function(self, target, args, kwargs, arg_types=None, kwarg_types=None):
        pair = normalize_function(target, args, kwargs, arg_types, kwarg_types,
                                  self.normalize_to_only_use_kwargs)
        if pair:
            return self.tracer.create_proxy("call_function", target, *pair)
        return super().call_function(target, args, kwargs)

    def call_module(self, target, args, kwargs):
        pair = normalize_module(self.module, target, args, kwargs,
                                self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(pair or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """torch.add(x, y) as x + y, and the like."""

    binary_magic_method_remap = {
        add: operator.add, mul: operator.mul, sub: operator.sub, div: operator.truediv,
        floor_divide: operator.floordiv, remainder: operator.mod, eq: operator.eq,
        ne: operator.ne, lt: operator.lt, le: operator.le, gt: operator.gt, ge: operator.ge}

    def call_function(self, target, args, kwargs):
        other = self.binary_magic_method_remap.get(target) if target.__hash__ else None
        if other is not None and len(args) == 2:
            return super().call_function(other, tuple(args), {})
        return super().call_function(target, args, kwargs)
