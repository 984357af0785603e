"""make_fx: a function runs on tensors, and the ATen overloads that it calls become a graph."""
import contextlib
import functools
import inspect
import os
import sys
import threading

import cfx
from cfx import _cfx

from ...nn import Module, Parameter
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode
from .._symbolic_trace import PH, Tracer
from ..graph_module import _make_graph_module
from ..passes.shape_prop import _extract_tensor_metadata
from ..proxy import Proxy

__all__ = ["make_fx", "PythonKeyTracer", "dispatch_trace", "get_proxy_mode",
           "get_innermost_proxy_mode", "disable_proxy_modes_tracing", "decompose", "py_sym_types",
           "wrapper_and_args_for_make_fx"]
py_sym_types = (_cfx.Sym,)


class PythonKeyTracer(Tracer):
    """The tracer behind make_fx: modules are run through, parameters are constants."""

    def __init__(self):
        super().__init__(autowrap_modules=())

    def call_module(self, m, forward, args, kwargs):
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        return attr_val

    def create_arg(self, a):
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_param_constant")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes down every overload that is called on tensors that stand for nodes, or beside them."""

    def __init__(self, tracer, table=None, pre_dispatch=False, strict=True):
        super().__init__()
        self.strict = strict  # nobody may ask which number a traced tensor is
        self.tracer = tracer
        self.table = table or {}
        self.proxies = {}  # id to (tensor, which is kept, and its proxy)
        self.places = {}   # where tensors lie in memory to their proxies
        self.constants = set()  # nodes of tensors that were made of numbers

    def track(self, value, proxy):
        """From now on a tensor stands for a proxy's node."""
        if isinstance(value, cfx.Tensor):
            self.proxies[id(value)] = (value, proxy)
            place = _place(value)
            if place is not None:
                self.places[place] = proxy
            _set_meta(proxy.node, value)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if isinstance(item, cfx.Tensor):
                    self.track(item, proxy[i])

    def lift(self, t):
        """A tensor that was made of numbers stands for a copy of a constant."""
        from ... import ops

        if t._is_fake or self.proxy_of(t) is not None:
            return
        name, tracer = self.tracer.get_fresh_qualname("_tensor_constant"), self.tracer
        with disable_proxy_modes_tracing():
            setattr(tracer.root, name, t.detach().clone())
            constant = tracer.create_proxy("get_attr", name, (), {})
            copy = tracer.create_proxy("call_function", ops.aten.lift_fresh_copy.default,
                                       (constant,), {}, name="lift_fresh_copy")
            self.constants.add(copy.node)
            self.track(t, copy)

    def proxy_of(self, value):
        """The proxy that a tensor stands for, or another tensor over the same memory did: the tape
        hands out what it saved under another object."""
        found = self.proxies.get(id(value))
        if found is not None and found[0] is value:
            return found[1]
        return self.places.get(_place(value)) if isinstance(value, cfx.Tensor) else None

    def argument(self, value):
        if isinstance(value, cfx.Tensor):
            proxy = self.proxy_of(value)
            return value if proxy is None else proxy
        return value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        table = self.table
        rule = table.get(func) if func in table else None
        if rule is not None:
            with self:
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func is _ITEM and self.strict:
            asked = self.proxy_of(args[0])
            if asked is not None and asked.node not in self.constants:
                raise RuntimeError(
                    f"It appears that you're trying to get value out of a tracing tensor with "
                    f"{func} - erroring out! It's likely that this is caused by data-dependent "
                    "control flow or similar.  It may be possible to trace this with dynamic "
                    "shapes; try setting tracing_mode='symbolic' in your make_fx call.")
        result = func(*args, **kwargs)
        if func is _LIFT_FRESH:  # see lift
            return result
        flat = pytree.arg_tree_leaves(*args, **kwargs)
        outs = pytree.tree_leaves(result)
        known = any(self.proxy_of(a) is not None for a in flat if isinstance(a, cfx.Tensor))
        if not known and not any(isinstance(o, cfx.Tensor) for o in outs):
            return result
        proxy_args, proxy_kwargs = pytree.tree_map(self.argument, (args, kwargs))
        name = func.overloadpacket.__name__
        proxy = self.tracer.create_proxy("call_function", func, proxy_args, proxy_kwargs,
                                         name=name)
        _set_meta(proxy.node, result)
        self.track(result, proxy)
        return result


_ITEM = _cfx.overload("aten._local_scalar_dense.default")
_LIFT_FRESH = _cfx.overload("aten.lift_fresh.default")


def _place(t):
    """What says which numbers a tensor shows; None where it has none."""
    if t._is_fake or not t.numel():
        return None
    return (t.data_ptr(), t.dtype, tuple(t.shape), tuple(t.stride()))


def _set_meta(node, value):
    if isinstance(value, cfx.Tensor):
        node.meta["val"] = _cfx.fake_like(value)
        node.meta["tensor_meta"] = _extract_tensor_metadata(value)
    elif isinstance(value, (list, tuple)):
        node.meta["val"] = type(value)(_cfx.fake_like(v) if isinstance(v, cfx.Tensor) else v
                                       for v in value) if type(value) in (list, tuple) else \
            tuple(_cfx.fake_like(v) if isinstance(v, cfx.Tensor) else v for v in value)
    elif isinstance(value, (int, float, bool)):
        node.meta["val"] = value


_modes = []


def get_proxy_mode():
    return _modes[-1] if _modes else None


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    from ...utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


maybe_disable_fake_tensor_mode = disable_proxy_modes_tracing


_lifters = {}  # threads to the modes that run on them, innermost last
_lifters_lock = threading.Lock()  # free in a child, whatever thread had it
os.register_at_fork(before=_lifters_lock.acquire, after_in_parent=_lifters_lock.release,
                    after_in_child=_lifters_lock.release)


@functools.wraps(cfx.tensor)
def _lifted_tensor(*args, **kwargs):
    made = cfx.tensor(*args, **kwargs)
    modes = _lifters.get(threading.get_ident())
    if modes:
        modes[-1].lift(made)
    return made


@contextlib.contextmanager
def _lifting(mode):
    """Meanwhile what torch.tensor makes on this thread is a constant of the graph, of which each
    run has a copy: what is written to it is that run's."""
    torch, me = sys.modules[__name__.partition(".fx.")[0]], threading.get_ident()
    with _lifters_lock:
        _lifters.setdefault(me, []).append(mode)
        torch.tensor = _lifted_tensor
    try:
        yield
    finally:
        with _lifters_lock:
            _lifters[me].pop()
            if not _lifters[me]:
                del _lifters[me]
            if not _lifters:
                torch.tensor = cfx.tensor


def _wrapped(f, args, mode):
    """f as a function of proxies, one for each tensor of the arguments."""

    @functools.wraps(f)
    def inner(*proxies):
        flat_proxies = pytree.tree_leaves(proxies)
        flat_args = pytree.tree_leaves(args)
        for value, proxy in zip(flat_args, flat_proxies):
            if isinstance(proxy, Proxy):
                if isinstance(value, cfx.Tensor):
                    mode.track(value, proxy)
                else:
                    _set_meta(proxy.node, value)
        _modes.append(mode)
        try:
            with mode, _lifting(mode):
                out = f(*args)
        finally:
            _modes.pop()

        def proxied(o):
            if not isinstance(o, cfx.Tensor):
                return o
            proxy = mode.proxy_of(o)
            return o if proxy is None else proxy

        return pytree.tree_map(proxied, out)

    return inner


def dispatch_trace(root, tracer, concrete_args=None):
    """The GraphModule of a function that a tracer traces."""
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *,
            pre_dispatch=False, record_module_stack=False, _allow_fake_constant=False,
            _error_on_data_dependent_ops=True, record_stack_traces=False, **options):
    """make_fx(f)(*args): the GraphModule of what f calls for these arguments."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing_mode: {tracing_mode}")

    @functools.wraps(f.forward if isinstance(f, Module) else f)
    def wrapped(*args):
        if tracing_mode == "symbolic":
            return _for_all_sizes(trace, args)
        return trace(*args)

    def trace(*args):
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        mode = ProxyTorchDispatchMode(tracer, _table(decomposition_table),
                                      strict=_error_on_data_dependent_ops)
        if tracing_mode != "real":
            from ..._subclasses.fake_tensor import FakeTensorMode

            fake = FakeTensorMode(allow_non_fake_inputs=True)
            args = pytree.tree_map(
                lambda a: fake.from_tensor(a) if isinstance(a, cfx.Tensor) else a, args)
        else:
            fake = contextlib.nullcontext()
        inner = _wrapped(f, args, mode)
        holes = pytree.tree_map(lambda _: PH, args)
        with fake:
            return dispatch_trace(_plain_function(inner, f, len(args)), tracer, tuple(holes))

    wrapped.__wrapped_f__ = f
    return wrapped


def _for_all_sizes(trace, args):
    """The graph of calls at any sizes: as there are no symbols in it, it has to be the same at
    sizes twice as large, all or those that are as long as the first dimension."""
    made = trace(*args)
    leaves = [t for t in pytree.tree_leaves(args) if isinstance(t, cfx.Tensor) and t.dim()]
    firsts = {leaves[0].shape[0]} if leaves else set()
    for wanted in (None, firsts):
        def larger(t):
            if not isinstance(t, cfx.Tensor):
                return t
            sizes = [2 * n if n > 1 and (wanted is None or n in wanted) else n for n in t.shape]
            return t.new_zeros(sizes).requires_grad_(t.requires_grad)

        try:
            other = trace(*pytree.tree_map(larger, args))
        except Exception:
            continue
        if other.code == made.code:
            return made
        break
    raise NotImplementedError("make_fx(tracing_mode=\"symbolic\"): the graph depends on sizes, and "
                              "cfx has symbols for them in torch.export.export(..., "
                              "dynamic_shapes=...) alone")


def _table(table):
    return {} if table is None else dict(table.items())


def _plain_function(inner, f, n):
    """A function whose parameters are those of f, where these can be told; else arg0, arg1, ..."""
    target = f.forward if isinstance(f, Module) else f
    try:
        if isinstance(f, Module):  # called by __call__(*args)
            raise AttributeError
        code = inspect.unwrap(target).__code__
        names = list(code.co_varnames[:code.co_argcount])
        if inspect.ismethod(target):
            names = names[1:]
        variadic = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    except AttributeError:
        names, variadic = [], True
    if variadic or len(names) < n:
        names = [f"arg{i}" for i in range(n)]
    names = names[:n]
    scope = {"_inner": inner}
    text = f"def forward({', '.join(names)}):\n    return _inner({', '.join(names)})\n"
    exec(compile(text, __file__, "exec"), scope)  # a line of this package, not of the model
    out = scope["forward"]
    out.__name__ = getattr(target, "__name__", "forward")
    return out


@contextlib.contextmanager
def decompose(decomposition_table):
    yield decomposition_table


def wrapper_and_args_for_make_fx(func, args, kwargs):
    """A function of a flat list, and the list."""
    flat, spec = pytree.tree_flatten((args, kwargs))

    def wrapped(flat_args):
        fn_args, fn_kwargs = pytree.tree_unflatten(flat_args, spec)
        return func(*fn_args, **fn_kwargs)

    return wrapped, flat


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real"):
    wrapped, flat = wrapper_and_args_for_make_fx(func, args, kwargs)
    with disable_proxy_modes_tracing():
        return make_fx(wrapped, tracing_mode=tracing_mode)(flat)


