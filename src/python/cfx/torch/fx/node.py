"""Nodes: one step of a graph. What a node is lies in the C library; this class adds what torch.fx
does with it in Python."""
import copy
import operator
import types
import typing

import cfx
from cfx import _cfx
from cfx._functions import qualified_name as _get_qualified_name

from ._compatibility import compatibility
from .immutable_collections import immutable_dict, immutable_list

BaseArgumentTypes = typing.Union[
    str, int, float, bool, complex, _cfx.dtype, cfx.Tensor, _cfx.device, _cfx.memory_format,
    _cfx.layout, _cfx.OpOverload, _cfx.Sym]
base_types = typing.get_args(BaseArgumentTypes)
Target = typing.Union[typing.Callable[..., typing.Any], str]
Argument = typing.Optional[typing.Union[tuple, list, dict, slice, range, "Node",
                                        BaseArgumentTypes]]
_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function",
                            "get_attr", "output", "root"])
_side_effectful_functions = {operator.setitem}


@compatibility(is_backward_compatible=False)
def has_side_effect(fn):
    """Registers a function whose calls are never dead code."""
    _side_effectful_functions.add(fn)
    return fn


def _type_repr(obj):
    """A type as annotations show it: classes by module and name, others by their repr."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{_cfx_module(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("cfx.torch.", "torch.")


def _cfx_module(name):
    """The name of a module of this package as PyTorch has it."""
    return "torch" + name[9:] if name == "cfx.torch" or name.startswith("cfx.torch.") else name


def _format_arg(arg, max_list_len=float("inf")):
    """An argument as format_node shows it; long lists may be cut."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        items = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        more = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{items}{more}]"
        return f"({items}{',' if len(arg) == 1 else ''}{more})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return "%" + str(arg) if isinstance(arg, Node) else str(arg)


@compatibility(is_backward_compatible=True)
class Node(_cfx.NodeBase):
    """One step of a graph: a placeholder, a get_attr, a call of a function, method or module, or
    the output."""

    def __new__(cls, graph, name, op, target, args, kwargs, return_type=None):
        """Nodes are made by their graph; what could be none is a ValueError first."""
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                             f"{type(target)} but a {wanted} is expected")
        raise TypeError("a Node is made by Graph.create_node")

    def __deepcopy__(self, memo):
        """The same node of a copy of its graph."""
        graph = copy.deepcopy(self.graph, memo)
        return memo[id(self)] if id(self) in memo else graph._find(self.name)

    # ---- arguments ----

    @compatibility(is_backward_compatible=True)
    def update_arg(self, idx, arg):
        """Puts another value in the place of a positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    @compatibility(is_backward_compatible=True)
    def insert_arg(self, idx, arg):
        """Puts a value before the positional argument that is there."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = self.args[:idx] + (arg,) + self.args[idx:]

    @compatibility(is_backward_compatible=True)
    def update_kwarg(self, key, arg):
        """Puts another value in the place of a keyword argument, or adds one."""
        self.kwargs = {**self.kwargs, key: arg}

    @property
    def _args(self):
        return self.args

    @property
    def _kwargs(self):
        return self.kwargs

    @property
    def _input_nodes(self):
        return dict.fromkeys(self.all_input_nodes)

    _next = property(lambda self: self.next)
    _prev = property(lambda self: self.prev)

    # ---- annotation and origin ----

    @property
    def type(self):
        return self._type

    @type.setter
    def type(self, value):
        self._set_type(value, None if value is None else _type_repr(value))

    @property
    def stack_trace(self):
        """The lines that made the node, if the tracer wrote them down."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    # ---- replacing ----

    @compatibility(is_backward_compatible=True)
    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Puts another node wherever this one is used; the users that changed."""
        if propagate_meta:
            if len(replace_with.meta) != 0:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, "
                                     "propagate_meta=True), but replace_with already has .meta "
                                     "keys")
            replace_with.meta.update(self.meta)
        changed = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        hooks = getattr(self.graph.owning_module, "_replace_hooks", None)
        for user in changed:
            for hook in hooks or ():
                hook(old=self, new=replace_with.name, user=user)
            user._replace_input(self, replace_with)
        return changed

    @compatibility(is_backward_compatible=True)
    def replace_input_with(self, old_input, new_input):
        """Puts another node in the place of an input of this one."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input(old_input, new_input)

    # ---- what it does ----

    @compatibility(is_backward_compatible=False)
    def is_impure(self, impure_random=True):
        """Whether the node does more than compute its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        if self.op == "call_function":
            target = self.target
            try:
                if target in _side_effectful_functions:
                    return True
            except TypeError:
                pass
            return self._is_impure()
        return self.op == "call_method" and self._is_impure()

    @compatibility(is_backward_compatible=False)
    def normalized_arguments(self, root, arg_types=None, kwarg_types=None,
                             normalize_to_only_use_kwargs=False):
        """The arguments matched to the signature of what is called; None where that is not
        known."""
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs=normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs,
                                    normalize_to_only_use_kwargs=normalize_to_only_use_kwargs)
        return None

    # ---- text ----

    @staticmethod
    def _pretty_print_target(target):
        if isinstance(target, str):
            return target
        name, module = getattr(target, "__name__", None), getattr(target, "__module__", None)
        if name is not None and module in ("builtins", "_operator"):
            return f"{module.lstrip('_')}.{name}"
        return _get_qualified_name(target)

    @compatibility(is_backward_compatible=True)
    def format_node(self, placeholder_names=None, maybe_return_typename=None, *,
                    include_tensor_metadata=False):
        """The node as a line of print(graph)."""
        if self.op == "placeholder" and placeholder_names:
            text = self.target + (f"{self.target}: {_type_repr(self.type)}" if self.type else "")
            placeholder_names.append(text)
            return None
        if self.op == "output" and self.type and maybe_return_typename:
            maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
        text = self._format()
        val = self.meta.get("val") if include_tensor_metadata else None
        if isinstance(val, cfx.Tensor):
            sizes, strides = (f"[{', '.join(map(str, s))}]" for s in (val.shape, val.stride()))
            note = f'Tensor "{val.dtype.abbr}{sizes}{strides}{val.device}"'
            text = text.replace(" : ", f" : {note}", 1)
        return text

    def __repr__(self):
        show = getattr(self, "_repr_fn", None)
        return show(self) if show else _cfx.NodeBase.__repr__(self)

    def _rename(self, candidate):
        if candidate != self.name:
            _cfx.NodeBase._rename(self, candidate)

    # ---- order: as nodes stand in their graph ----

    @property
    def _sort_key(self):
        return _Place(self)

    def __lt__(self, other):
        return self is not other and self._precedes(other)

    def __gt__(self, other):
        return self is not other and not self._precedes(other)

    def __le__(self, other):
        return self is other or self._precedes(other)

    def __ge__(self, other):
        return self is other or not self._precedes(other)

    def __setattr__(self, name, value):
        if name == "name":
            for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
                for user in self.users:
                    hook(old=self, new=value, user=user)
        super().__setattr__(name, value)

    def _remove_from_list(self):
        raise RuntimeError("nodes leave a graph by graph.erase_node")


class _Place:
    """Where a node stands, compared with where another does."""

    __slots__ = ("node",)

    def __init__(self, node):
        self.node = node

    def __lt__(self, other):
        return self.node < other.node

    def __eq__(self, other):
        return self.node is other.node


def _no_copy(self, memo=None):
    return self


# ---- going over arguments ------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
def map_arg(a, fn):
    """The argument with fn(node) in the place of each node."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


@compatibility(is_backward_compatible=True)
def map_aggregate(a, fn):
    """The argument with fn(x) in the place of everything in it that is no container."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn),
                     map_aggregate(a.step, fn))
    return fn(a)


def _meta_from(meta):
    """The metadata that C noted, as torch.fx has it."""
    from ._meta import from_c

    return from_c(meta)


_cfx.adopt("node_class", Node)
_cfx.adopt("meta_from", _meta_from)
