"""Symbolic tracing: code runs once on proxies, and what it does becomes a graph."""
import collections
import contextlib
import copy
import functools
import inspect
import math
import types
import typing
import warnings

import cfx
from cfx import _cfx

from ..nn.modules import module as nn_module
from ..utils import _pytree as pytree
from . import traceback as fx_traceback
from ._codegen import _PyTreeCodeGen, _PyTreeInfo
from ._compatibility import compatibility
from ._patches import (_autowrap_check, _maybe_revert_all_patches, _new_patcher,  # noqa: F401
                       _patch_wrapped_functions, _proxies_in, _wrapped_fns_to_patch,
                       _wrapped_methods_to_patch)
from .graph import Graph
from .graph_module import GraphModule, _make_graph_module
from .node import base_types
from .proxy import (_PLAIN, ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase,
                    _own_create_arg)

_OWN = nn_module.__name__.rpartition("nn.")[0]
_NN = (_OWN + "nn", "torch.nn", "torch.ao.nn", _OWN + "ao.nn")  # modules whose classes are leaves

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_is_fx_tracing_flag = False
_proxyable_classes = {}


def is_fx_symbolic_tracing():
    return _is_fx_tracing_flag


def is_fx_tracing():
    """Whether calls are recorded: torch.fx traces, or a module is exported."""
    return _is_fx_tracing_flag or _cfx.is_exporting()


is_fx_tracing_warning = is_fx_tracing


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """The metaclass of classes whose construction is traced."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        if _is_fx_tracing_flag:
            proxies = _proxies_in((args, kwargs))
            if proxies:
                return proxies[0].tracer.create_proxy("call_function", cls, args, kwargs)
        instance = cls.__new__(cls)
        cls.__init__(instance, *args, **kwargs)
        return instance


def _patch_function(fn, nargs):
    """The function with *args and **kwargs as parameters like others, so that they can be given
    proxies."""
    code = fn.__code__.replace(co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0,
                               co_flags=fn.__code__.co_flags & ~_VARIADIC)
    return types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


@compatibility(is_backward_compatible=False)
class PHBase:
    """In concrete_args: an argument that stays free."""

    def __repr__(self):
        return "PH"


PH = PHBase()


@compatibility(is_backward_compatible=False)
class PHWithMeta(PHBase):
    """One whose attributes the placeholder's node gets."""

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr, to):
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


_functions = {}  # modules to (what they had, what stands for their functions in a set)


def _functions_of(module):
    """What stands for the functions of a module in a set."""
    values = list(module.__dict__.values())
    known = _functions.get(module)
    if known is None or known[0] != values:
        ids = {id(f) for name, f in module.__dict__.items()
               if not name.startswith("_") and callable(f)}
        known = _functions[module] = (values, ids)
    return known[1]


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Tracer(autowrap_modules=(math,), autowrap_functions=()): traces modules and functions; its
    methods are there to be overridden."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, autowrap_modules=(math,), autowrap_functions=(),
                 param_shapes_constant=False):
        super().__init__()
        self._autowrap_function_ids = set().union(*map(_functions_of, autowrap_modules))
        self._autowrap_function_ids.update(id(f) for f in autowrap_functions)
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls = {}
        self.node_name_to_scope = {}
        self._parameters = {}

    _qualname_counter = collections.defaultdict(int)
    _plainly = False  # see _makes_plainly

    # ---- arguments ----

    @compatibility(is_backward_compatible=True)
    def get_fresh_qualname(self, prefix):
        """A name that the root has no attribute of."""
        n = 0
        while hasattr(self.root, f"{prefix}{n}"):
            n += 1
        return f"{prefix}{n}"

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a):
        """What a node has for something that was passed: parameters, buffers and modules of the
        root are read from it, other tensors become constants of it."""
        kind = type(a)
        if kind in _PLAIN or kind is Proxy or kind is tuple:
            return super().create_arg(a)
        if isinstance(a, cfx.Tensor):
            return self._tensor_arg(a)
        if isinstance(a, nn_module.Module):
            for name, m in self.root.named_modules():
                if a is m:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a),
                                    tuple(self.create_arg(item) for item in a), {})
        elif isinstance(a, pytree.TreeSpec):
            return self._constant(a, "_tree_spec_constant")
        elif type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _tensor_arg(self, a):
        if isinstance(a, nn_module.Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        for name, b in self.root.named_buffers():
            if a is b:
                return self.create_node("get_attr", name, (), {})
        return self._constant(a, "_tensor_constant")

    def _constant(self, a, prefix):
        name = self.tensor_attrs.get(a)
        if not name:
            name = self.get_fresh_qualname(prefix)
            self.tensor_attrs[a] = name
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    # ---- modules ----

    @compatibility(is_backward_compatible=True)
    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module becomes one node: those of torch.nn do, but for Sequential."""
        kind = type(m)
        if kind not in _leaves:
            from ..nn import Sequential

            _leaves[kind] = kind.__module__.startswith(_NN) and not issubclass(kind, Sequential)
        return _leaves[kind]

    @compatibility(is_backward_compatible=True)
    def path_of_module(self, mod):
        """Where a module is below the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for path, m in self.root.named_modules():
            if m is mod:
                return path
        raise NameError("module is not installed as a submodule")

    @compatibility(is_backward_compatible=True)
    def call_module(self, m, forward, args, kwargs):
        """What a call of a module becomes: a node, or what its forward does."""
        path = self.path_of_module(m)
        calls, kind = self.num_calls.get(path, 0), type(m)
        self.num_calls[path] = calls + 1
        key = f"{path}@{calls}" if calls > 0 else path
        if self._plainly and self.is_leaf_module(m, path):
            plain = _cfx.traced(Proxy, args, kwargs)
            if plain:
                return self._leaf_proxy(plain, key, path, kind)
        outer, self.scope = self.scope, Scope(path, kind)
        try:
            self.module_stack[key] = (path, kind)
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        finally:
            self.scope = outer
        return result

    def _leaf_proxy(self, plain, key, path, kind):
        """What create_proxy makes of a leaf, in one step."""
        node = self.graph._create("call_module", path, plain[1], plain[2], None, None)
        self.node_name_to_scope[node.name] = (path, kind)
        stack = self.module_stack.copy()
        stack[key] = (path, kind)
        node.meta["nn_module_stack"] = stack
        return Proxy(node, self)

    @compatibility(is_backward_compatible=False)
    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What reading an attribute of a module gives: a proxy for a parameter."""
        if isinstance(attr_val, nn_module.Parameter):
            found = self._attr_proxy(attr_val, self._parameter_name(attr_val),
                                     parameter_proxy_cache)
            if found is not None:
                return found
        if self.proxy_buffer_attributes and isinstance(attr_val, cfx.Tensor):
            found = self._attr_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache)
            if found is not None:
                return found
        return attr_val

    def _parameter_name(self, value):
        """The name of a parameter of the root: [(name, parameter)], or []."""
        if id(value) not in self._parameters or self._parameters[id(value)][1] is not value:
            self._parameters = {id(p): (name, p) for name, p in self.root.named_parameters()}
        found = self._parameters.get(id(value))
        return [found] if found else []

    def _attr_proxy(self, value, named, cache):
        for name, p in named:
            if value is not p:
                continue
            if name not in cache:
                kwargs = {}
                if _takes_factory(type(self).create_proxy):
                    kwargs["proxy_factory_fn"] = (
                        (lambda node: ParameterProxy(self, node, name, value))
                        if self.param_shapes_constant else None)
                cache[name] = self.create_proxy("get_attr", name, (), {}, **kwargs)
            return cache[name]
        return None

    # ---- the root ----

    @compatibility(is_backward_compatible=False)
    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """Placeholders for the parameters of the function that is traced."""
        inner = inspect.unwrap(root_fn)
        code = inner.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        signature = inspect.signature(inner)
        if isinstance(concrete_args, tuple) and concrete_args and code.co_flags & _VARIADIC \
                and total == 1:
            return root_fn, args + [self._input(i, a) for i, a in enumerate(concrete_args)]
        arg_names = names[len(args):total]
        if isinstance(concrete_args, tuple):
            if len(arg_names) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(arg_names)} arguments but got "
                                   f"{len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(arg_names, concrete_args))
        rest = iter(names[total:])
        if code.co_flags & inspect.CO_VARARGS:
            arg_names.append("*" + next(rest))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            arg_names.append("**" + next(rest))
        args += [self._proxy_placeholder(n, concrete_args, signature, inner) for n in arg_names]
        if code.co_kwonlyargcount > 0 or code.co_flags & _VARIADIC:
            root_fn = _patch_function(root_fn, len(args))
        flat, in_spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], in_spec, None))
        return self._flattening(root_fn, in_spec), flat

    def _flattening(self, root_fn, in_spec):
        """The function as one of the leaves of its arguments, which gives leaves."""

        def flatten_fn(*args):
            out, out_spec = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(list(args),
                                                                               in_spec)))
            codegen = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn

    def _input(self, i, concrete):
        out = self.create_proxy("placeholder", f"input_{i}", (), {})
        if isinstance(concrete, PHBase) and concrete != PH:
            _transfer_attrs(fr=concrete, to=out.node)
        return out

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        default = ()
        if name[0] != "*" and sig.parameters[name].default is not inspect.Parameter.empty:
            default = (sig.parameters[name].default,)
        if concrete_args is not None and name in concrete_args:
            count = iter(range(1, 1 << 30))
            return pytree.tree_map(
                lambda x: self._concrete(f"{name}_{next(count)}", name, x, default),
                concrete_args[name])
        return self.create_proxy("placeholder", name, default, {},
                                 type_expr=fn_for_analysis.__annotations__.get(name, None))

    def _concrete(self, placeholder, name, x, default):
        """A leaf of a concrete argument: its value, and an assertion that it has that."""
        out = self.create_proxy("placeholder", placeholder, default, {})
        if isinstance(x, PHBase):
            if x != PH:
                _transfer_attrs(fr=x, to=out.node)
            return out
        if type(x) is bool or type(x) in base_types and type(x) is not cfx.Tensor:
            from .. import _assert

            _assert(out == x, f"{name} has been specialized to have value {x} but got another "
                    "value")
        elif x is None:
            text = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (out, text), {})
        else:
            warnings.warn(f"Was not able to add assertion to guarantee correct input {name} to "
                          "specialized function. It is up to the user to make sure that your "
                          "inputs match the inputs you specialized the function with.",
                          stacklevel=2)
        return x

    @compatibility(is_backward_compatible=True)
    def trace(self, root, concrete_args=None):
        """The graph of a module or function."""
        global _is_fx_tracing_flag
        was = _is_fx_tracing_flag
        _is_fx_tracing_flag = True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_fx_tracing_flag = was

    def _trace(self, root, concrete_args):
        is_module = isinstance(root, nn_module.Module)
        if is_module:
            from ._lazy_graph_module import _LazyGraphModule

            _LazyGraphModule.force_recompile(root)
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in "
                                     f"{type(root).__name__}")
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root = nn_module.Module()
            fn = root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        if hasattr(fn, "__code__"):
            self.graph._co_fields = {name: getattr(fn.__code__, name) for name in
                                     ("co_name", "co_filename", "co_firstlineno")}
        self.tensor_attrs = {}
        below = self.submodule_paths if is_module else [self.root]
        if not all(_plain_types.issuperset(map(type, m.__dict__.values())) for m in below):
            self._collect_tensors(self.root)
        if not isinstance(fn, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        fn_globals = fn.__globals__
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        self._plainly = _makes_plainly(self)
        with _new_patcher() as patcher, _seen_by(self, patcher):
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, fn_globals, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)
            annotation = getattr(inspect.unwrap(fn), "__annotations__", {}).get("return", None)
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {},
                             type_expr=annotation)
        self.submodule_paths, self._plainly = None, False
        return self.graph

    def _collect_tensors(self, m, prefix=""):
        if not _plain_types.issuperset(map(type, m.__dict__.values())):
            for name, value in m.__dict__.items():
                if isinstance(value, (cfx.Tensor, pytree.TreeSpec)):
                    self.tensor_attrs[value] = prefix + name
                else:
                    _plain_types.add(type(value))
        if m._modules:
            for name, child in m.named_children():
                self._collect_tensors(child, f"{prefix}{name}.")

    def __deepcopy__(self, memo):
        other = Tracer.__new__(Tracer)
        for k, v in self.__dict__.items():
            other.__dict__[k] = copy.copy(v) if k == "_autowrap_search" else copy.deepcopy(v, memo)
        return other


_own_create_arg.add(Tracer.create_arg)
_steps = {name: getattr(Tracer, name) for name in
          ("is_leaf_module", "create_proxy", "create_node", "create_arg", "proxy")}


def _makes_plainly(tracer):
    """Whether nobody sees by which steps a tracer makes a node and its proxy."""
    return not tracer.record_stack_traces and _steps.keys().isdisjoint(tracer.__dict__) \
        and all(getattr(type(tracer), name) is step for name, step in _steps.items()) \
        and not fx_traceback.should_preserve_node_meta and tracer.graph._owning_module is None


_plain_types = set()  # of attributes of modules that were no tensors
_leaves = {}  # classes of modules to whether they become one node


@functools.lru_cache(maxsize=64)
def _takes_factory(create_proxy):
    return "proxy_factory_fn" in inspect.signature(create_proxy).parameters


@contextlib.contextmanager
def _seen_by(tracer, patcher):
    """Calls of modules and reads of their parameters go to the tracer, on this thread."""
    cache, seen = {}, set()

    def call(module, forward, args, kwargs):
        kind = type(module)
        if kind not in seen or "forward" in module.__dict__:
            seen.add(kind)
            _autowrap_check(patcher, getattr(getattr(module, "forward", module), "__globals__", {}),
                            tracer._autowrap_function_ids)
        return tracer.call_module(module, forward, args, kwargs)

    with nn_module.watched(call, lambda name, value: tracer.getattr(name, value, cache)):
        yield


# ---- entry points -------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
def wrap(fn_or_name):
    """Lets a function of the module that calls this become a node where it is given a proxy. Used
    at module level, or as a decorator."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or "
                           "string name")
    if callable(fn_or_name):
        if isinstance(fn_or_name, str):
            raise AssertionError("Unexpected: fn_or_name is both callable and str")
        name = fn_or_name.__name__
    else:
        name = fn_or_name
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


@compatibility(is_backward_compatible=True)
def symbolic_trace(root, concrete_args=None):
    """The GraphModule of a module or function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn_module.Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


@compatibility(is_backward_compatible=False)
def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


__all__ = ["Tracer", "symbolic_trace", "wrap", "PH", "ProxyableClassMeta", "GraphModule", "typing"]
