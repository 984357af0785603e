"""Proxies: objects that stand for nodes while code runs, and write down what is done to them."""
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import operator
import traceback

import cfx
from cfx import _cfx

from ..overrides import is_tensor_method_or_property
from . import traceback as fx_traceback
from ._compatibility import compatibility
from ._frames import instruction, is_assert
from .graph import Graph, magic_methods, reflectable_magic_methods
from .node import Node, base_types
from .operator_schemas import check_for_mutable_operation

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "MetaProxy", "Attribute",
           "ParameterProxy", "Scope", "ScopeContextManager"]


_own_create_node = Graph.create_node


@compatibility(is_backward_compatible=False)
class Scope:
    """The module whose forward is running: its path and class."""

    def __init__(self, module_path, module_type):
        self.module_path = module_path
        self.module_type = module_type


@compatibility(is_backward_compatible=False)
class ScopeContextManager:
    """Lets a scope be another one, until the end of a with block."""

    def __init__(self, scope, current_scope):
        self._scope = scope
        self._was = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = (current_scope.module_path,
                                                current_scope.module_type)

    def __enter__(self):
        return self._scope

    def __exit__(self, *error):
        self._scope.module_path, self._scope.module_type = self._was


_COPY_META_FIELDS = ["nn_module_stack", "torch_fn", "source_fn_stack", "original_aten",
                     "recompute", "ac_graph_id", "has_backward_hook", "from_node",
                     "quantization_tag", "_numeric_debug_handle", "custom", "partitioner_tag"]
_PLAIN = {int, float, bool, str, type(None), _cfx.dtype, _cfx.device, type(...)}


@compatibility(is_backward_compatible=True)
class TracerBase:
    """What a proxy asks to write something down."""

    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    @compatibility(is_backward_compatible=True)
    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """A node of the graph; arguments are such as nodes have."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
        graph = self.graph
        if graph._owning_module is None and type(graph).create_node is _own_create_node:
            node = graph._create(kind, target, args, kwargs, name, None)
            if type_expr is not None:
                node.type = type_expr
        else:
            node = graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = self.scope
        self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if fx_traceback.should_preserve_node_meta:
            self._take_meta(node, fx_traceback.current_meta)
        elif self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        if self.record_stack_traces and not node.stack_trace:
            lines = self._stack_trace()
            if lines:
                node.stack_trace = lines
        return node

    def _take_meta(self, node, meta):
        if meta.get("stack_trace"):
            node.stack_trace = meta["stack_trace"]
        for field in _COPY_META_FIELDS:
            if field in meta:
                node.meta[field] = copy.copy(meta[field])

    def _stack_trace(self):
        frames = self._filter_traceback_frames(
            traceback.extract_stack(inspect.currentframe().f_back))
        return "".join(frames.format()).strip() if frames else None

    def _filter_traceback_frames(self, user_stack_summary):
        """The frames of the user's model: from its first forward on, where there is one; this
        package left out."""
        frames = list(user_stack_summary)
        if self._record_forward_stack_traces_only:
            frames = [f for f in frames if f.name == "forward"]
        else:
            first = next((i for i, f in enumerate(frames) if f.name == "forward"), 0)
            frames = frames[first:]
        own = cfx.__path__[0]
        return traceback.StackSummary.from_list(
            [f for f in frames if not f.filename.startswith(own)])

    @compatibility(is_backward_compatible=True)
    def proxy(self, node):
        return Proxy(node, self)

    @compatibility(is_backward_compatible=True)
    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None,
                     proxy_factory_fn=None):
        """A node, and the proxy that stands for it."""
        plain = _asks_nothing(self) and _cfx.traced(Proxy, args, kwargs)
        if plain:
            _, args, kwargs = plain
        else:
            args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a):
        """What a node has for something that was passed."""
        kind = type(a)
        if kind in _PLAIN:
            return a
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return self._create_dict(a)
        if isinstance(a, (slice, range)):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop),
                           self.create_arg(a.step))
        if getattr(a, "_is_higher_order", False):
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            kwargs = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), kwargs)
        if isinstance(a, (*base_types, enum.Enum)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_dict(self, a):
        out = {}
        for key, value in a.items():
            if not isinstance(key, str):
                key = self.create_arg(key)
                if _holds_node(key):
                    raise RuntimeError("Keys for dictionaries used as an argument cannot contain a "
                                       f"Node. Got key: {key}")
            out[key] = self.create_arg(value)
        return out

    @compatibility(is_backward_compatible=True)
    def to_bool(self, obj):
        """Asked where a proxy decides something."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    @compatibility(is_backward_compatible=True)
    def iter(self, obj):
        """Asked where a proxy is gone over."""
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is "
                         "used in a loop or as a *args or **kwargs function argument. See the "
                         "torch.fx docs on pytorch.org for a more detailed explanation of what "
                         "types of control flow can be traced, and check out the Proxy docstring "
                         "for help troubleshooting Proxy iteration errors")

    @compatibility(is_backward_compatible=True)
    def keys(self, obj):
        """Asked where ** is applied to a proxy."""
        return Attribute(obj, "keys")()


_own_create_arg = set()  # the create_arg of classes here, which leave plain values as they are


def _asks_nothing(tracer):
    """Whether create_arg of a tracer is none of the user's."""
    return type(tracer).create_arg in _own_create_arg and "create_arg" not in tracer.__dict__


_own_create_arg.add(TracerBase.create_arg)


def _holds_node(a):
    from .node import map_arg

    found = []
    map_arg(a, lambda n: found.append(n))
    return bool(found)


@compatibility(is_backward_compatible=True)
class GraphAppendingTracer(TracerBase):
    """Appends to a graph while nothing is traced."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


@compatibility(is_backward_compatible=False)
def assert_fn(x):
    if not x:
        raise AssertionError("Assertion failed")


@compatibility(is_backward_compatible=True)
class TraceError(ValueError):
    """Code did what cannot be traced."""


_cfx.adopt("TraceError", TraceError)


@compatibility(is_backward_compatible=True)
class Proxy:
    """Stands for a node: what is done to it becomes nodes too."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, d):
        self.__dict__ = d

    def __deepcopy__(self, memo):
        state = {}
        for k, v in self.__dict__.items():
            try:
                state[k] = copy.deepcopy(v, memo)
            except Exception:
                state[k] = copy.copy(v)
        other = Proxy(state["node"], state["tracer"])
        other.__dict__.update(state)
        return other

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self,) + args, kwargs)

    def __iter__(self):
        instructions, at = instruction(inspect.currentframe().f_back)
        if instructions[at].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instructions[at].argval))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts and is_assert(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    @compatibility(is_backward_compatible=True)
    def keys(self):
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want "
                           "this call to be recorded, please call torch.fx.wrap('len') at module "
                           "scope")

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args = args if args else ()
        kwargs = kwargs if kwargs else {}
        plain = _cfx.traced(Proxy, args, kwargs)
        tracer = plain[0] if plain and plain[0] is not None else \
            _tracer_of(cls, orig_method, args, kwargs)
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        if getattr(orig_method, "_is_higher_order", False):
            bad = _find_callable(args, kwargs)
            if bad is not None:
                raise RuntimeError("Unable to symbolically trace the HigherOrderOperator "
                                   f"{orig_method._name} because it received an arbitrary callable "
                                   f"argument {bad}. Use make_fx or dynamo tracing instead.")
        return tracer.create_proxy("call_function", orig_method, args, kwargs,
                                   name=_target_to_str(orig_method.__name__))


def _target_to_str(target):
    """What a node that calls a function of this name is called."""
    return _name_of_call(target if isinstance(target, str) else target.__name__)


@functools.lru_cache(maxsize=1024)
def _name_of_call(name):
    from .graph import _snake_case

    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return _snake_case(name)


def _tracer_of(cls, method, args, kwargs):
    """The one tracer that the proxies among arguments have."""
    found = {}

    def look(a):
        if isinstance(a, cls):
            found[id(a.tracer)] = a.tracer
        elif isinstance(a, (list, tuple)):
            for item in a:
                look(item)
        elif isinstance(a, dict):
            for item in a.values():
                look(item)
        elif isinstance(a, slice):
            look((a.start, a.stop, a.step))

    look(args)
    look(kwargs)
    if len(found) > 1:
        raise RuntimeError(f"Found multiple different tracers {list(found.values())} while trying "
                           f"to trace operations {method}")
    return next(iter(found.values()))


def _find_callable(args, kwargs):
    """An argument that is a function, which no graph can hold as one."""
    from ..nn import Module

    found = []

    def look(a):
        if callable(a) and not isinstance(a, (Proxy, Node, Module, type, _cfx.OpOverload)):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            for item in a:
                look(item)

    look(args)
    look(list(kwargs.values()))
    return found[0] if found else None


@compatibility(is_backward_compatible=False)
class MetaProxy(Proxy):
    """A proxy that also computes what its node would be: meta["val"]."""

    def __init__(self, node, tracer=None, fake_mode=None):
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self):
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args = args if args else ()
        kwargs = kwargs if kwargs else {}
        meta = next((a for a in args if isinstance(a, cls)), None)
        if meta is None:
            raise AssertionError("No MetaProxy found in arguments, but one is expected.")
        proxy = super().__torch_function__(orig_method, types, args, kwargs)
        with meta.fake_mode:
            proxy.node.meta["val"] = orig_method(
                *[a.node.meta["val"] if isinstance(a, Proxy) else a for a in args], **kwargs)
        return MetaProxy(proxy.node, proxy.tracer, meta.fake_mode)


@compatibility(is_backward_compatible=True)
class Attribute(Proxy):
    """An attribute of a proxy: a node only when it is used as a value, a call of a method when it
    is called."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, root, attr):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr,
                                                  (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root,) + args, kwargs)


@compatibility(is_backward_compatible=False)
class ParameterProxy(Proxy):
    """A parameter whose sizes are known while tracing."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, cfx.Tensor):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self):
        return self.param.size()

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


# ---- operators -----------------------------------------------------------------------------------


def _operator_method(name, target):
    def method(*args, **kwargs):
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    method.__name__ = name
    return method


def _reflected_method(name, target):
    def method(self, rhs):
        return _reflect(self, target, rhs)

    method.__name__ = name
    return method


def _reflect(self, target, rhs):
    return self.tracer.create_proxy("call_function", target, (rhs, self), {})


for _name in magic_methods:  # x += 1 is x = x + 1; items cannot be set
    if _name == "div":
        continue
    _method = f"__{_name.strip('_')}__"
    setattr(Proxy, _method, _operator_method(_method, getattr(operator, _name)))
for _name in reflectable_magic_methods:
    if _name in ("div", "getitem"):
        continue
    _method = f"__r{_name.strip('_')}__"
    setattr(Proxy, _method, _reflected_method(_method, getattr(operator, _name)))
Proxy.__hash__ = object.__hash__
