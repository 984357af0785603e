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

from ..nn.modules import module as nn_module
from ..utils import _pytree as pytree
from ._codegen import _PyTreeCodeGen, _PyTreeInfo
from ._compatibility import compatibility
from .graph import Graph
from .graph_module import GraphModule, _make_graph_module
from .node import base_types, map_aggregate
from .proxy import (_PLAIN, ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase,
                    _own_create_arg)

_OWN = nn_module.__name__.rpartition("nn.")[0]
_NN = (_OWN + "nn", "torch.nn", "torch.ao.nn", _OWN + "ao.nn")  # modules whose classes are leaves

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_is_fx_tracing_flag = False
_proxyable_classes = {}


def is_fx_tracing():
    return _is_fx_tracing_flag


is_fx_symbolic_tracing = is_fx_tracing_warning = is_fx_tracing


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """The metaclass of classes whose construction is traced."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        if is_fx_tracing():
            proxies = _proxies_in((args, kwargs))
            if proxies:
                return proxies[0].tracer.create_proxy("call_function", cls, args, kwargs)
        instance = cls.__new__(cls)
        cls.__init__(instance, *args, **kwargs)
        return instance


def _proxies_in(a):
    found = []
    map_aggregate(a, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found


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


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Tracer(autowrap_modules=(math,), autowrap_functions=()): traces modules and functions; its
    methods are there to be overridden."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, autowrap_modules=(math,), autowrap_functions=(),
                 param_shapes_constant=False):
        super().__init__()
        self._autowrap_function_ids = {
            id(f) for m in autowrap_modules for name, f in m.__dict__.items()
            if not name.startswith("_") and callable(f)}
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
        self.num_calls[path], outer, self.scope = calls + 1, self.scope, Scope(path, kind)
        try:
            self.module_stack[f"{path}@{calls}" if calls > 0 else path] = (path, kind)
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        finally:
            self.scope = outer
        return result

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
        self._collect_tensors(self.root)
        if not isinstance(fn, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        fn_globals = fn.__globals__
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        with _new_patcher() as patcher, _seen_by(self, patcher):
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, fn_globals, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)
            annotation = getattr(inspect.unwrap(fn), "__annotations__", {}).get("return", None)
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {},
                             type_expr=annotation)
        self.submodule_paths = None
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


# ---- wrapped functions ---------------------------------------------------------------------------

_wrapped_fns_to_patch = {}     # (id of a module's dict, name) to that dict
_wrapped_methods_to_patch = []  # (class, name)


@functools.lru_cache(maxsize=128)  # all functions of math are wrapped in every trace
def _create_wrapped_func(orig_fn):
    """The function, or a node that calls it where an argument is a proxy."""
    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if proxies:
            result = proxies[0].tracer.create_proxy("call_function", orig_fn, args, kwargs)
            result.node.meta["is_wrapped"] = True
            return result
        return orig_fn(*args, **kwargs)

    return wrapped


def _create_wrapped_method(cls, name):
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if proxies:
            return proxies[0].tracer.create_proxy("call_method", name, args, kwargs)
        return orig_fn(*args, **kwargs)

    return wrapped


class _Patcher:
    """Puts other things under names, and the old ones back at the end."""

    def __init__(self):
        self.patches_made = []
        self.visited = set()

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        had, old = name in frame_dict, frame_dict.get(name)
        frame_dict[name] = new_fn
        self.patches_made.append((frame_dict, name, had, old))

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        self.patches_made.append((cls, name, True, getattr(cls, name)))
        setattr(cls, name, new_fn)

    def visit_once(self, thing):
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def revert_all_patches(self):
        while self.patches_made:
            where, name, had, old = self.patches_made.pop()
            if not isinstance(where, dict):
                setattr(where, name, old)
            elif had:
                where[name] = old
            else:
                del where[name]
        return self.patches_made

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.revert_all_patches()
        self.visited.clear()


CURRENT_PATCHER = None


@contextlib.contextmanager
def _new_patcher():
    global CURRENT_PATCHER
    was, CURRENT_PATCHER = CURRENT_PATCHER, _Patcher()
    try:
        with CURRENT_PATCHER as patcher:
            yield patcher
    finally:
        CURRENT_PATCHER = was


@contextlib.contextmanager
def _maybe_revert_all_patches():
    """Without the patches of the tracing that goes on, if one does."""
    if CURRENT_PATCHER is None:
        yield
        return
    made = list(CURRENT_PATCHER.patches_made)
    now = [(w, n, w[n] if isinstance(w, dict) else getattr(w, n)) for w, n, *_ in made]
    CURRENT_PATCHER.revert_all_patches()
    try:
        yield
    finally:
        for where, name, fn in now:
            put = CURRENT_PATCHER.patch if isinstance(where, dict) else CURRENT_PATCHER.patch_method
            put(where, name, fn, deduplicate=False)


def _patch_wrapped_functions(patcher):
    import builtins

    for (_, name), frame_dict in _wrapped_fns_to_patch.copy().items():
        if name not in frame_dict and hasattr(builtins, name):
            orig = getattr(builtins, name)
        else:
            orig = frame_dict[name]
        patcher.patch(frame_dict, name, _create_wrapped_func(orig))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Patches the functions of a module that are to be wrapped, once."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _create_wrapped_func(value))


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
