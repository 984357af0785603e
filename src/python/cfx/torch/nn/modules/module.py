"""Modules: numbers with names, children, hooks and a forward."""
import contextlib
from collections import OrderedDict
from threading import get_ident

import cfx

from ...utils.hooks import RemovableHandle
from ..parameter import Buffer, Parameter
from ._hooks import (HookMethods, call_with_hooks, global_hooks,  # noqa: F401
                     register_module_buffer_registration_hook, register_module_forward_hook,
                     register_module_forward_pre_hook, register_module_full_backward_hook,
                     register_module_full_backward_pre_hook,
                     register_module_module_registration_hook,
                     register_module_parameter_registration_hook)
from ._state import StateMethods

# ---- who looks on --------------------------------------------------------------------------------

_watchers = []  # (thread, call, read), innermost last


@contextlib.contextmanager
def watched(call, read):
    """Meanwhile calls of modules on this thread go to call(module, forward, args, kwargs), and what
    is read of them by name to read(name, value)."""
    entry = (get_ident(), call, read)
    _watchers.append(entry)
    try:
        yield
    finally:
        _watchers.remove(entry)


def _watcher():
    me = get_ident()
    for entry in reversed(_watchers):
        if entry[0] == me:
            return entry
    return None


def _addindent(s, spaces):
    first, *rest = s.split("\n")
    return "\n".join([first] + [" " * spaces + line if line.strip() else "" for line in rest])


def _fakes():
    """Whether what is made now has no numbers."""
    was = cfx._cfx.set_fake_mode(True)
    cfx._cfx.set_fake_mode(was)
    return was


def _forward_unimplemented(self, *input):
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" '
                              "function")


class Module(StateMethods, HookMethods):
    """The base of all models: assign parameters and modules as attributes, and define forward."""

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    forward = _forward_unimplemented

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and kwargs:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                            f"'{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but "
                            f"{len(args) + 1} were given")
        put = super().__setattr__
        put("training", True)
        for name in ("_parameters", "_buffers"):
            put(name, {})
        put("_non_persistent_buffers_set", set())
        for name in ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks",
                     "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                     "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
                     "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks"):
            put(name, OrderedDict())
        put("_is_full_backward_hook", None)
        put("_modules", {})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---- calling ----

    def __call__(self, *args, **kwargs):
        if _watchers:
            w = _watchers[-1]
            if w[0] != get_ident():
                w = _watcher()
            if w is not None:
                return w[1](self, self._call_impl, args, kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
                or self._backward_pre_hooks or global_hooks.any):
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    _wrapped_call_impl = __call__

    # ---- attributes ----

    def __getattr__(self, name):
        d = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in d and name in d[kind]:
                value = d[kind][name]
                if _watchers:
                    w = _watcher()
                    if w is not None:
                        return w[2](name, value)
                return value
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        params = self.__dict__.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.__dict__.pop(name, None)
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(f"cannot assign '{cfx_typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
            return
        modules = self.__dict__.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self.__dict__.pop(name, None)
            self._forget(name, "_parameters", "_buffers")
            for hook in global_hooks.module_registration.values():
                value = hook(self, name, value) or value
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{cfx_typename(value)}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            modules[name] = value
            return
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and (isinstance(value, Buffer) or name in buffers):
            if value is not None and not isinstance(value, cfx.Tensor):
                raise TypeError(f"cannot assign '{cfx_typename(value)}' as buffer '{name}' "
                                "(torch.nn.Buffer, torch.Tensor or None expected)")
            if isinstance(value, Buffer):
                self.__dict__.pop(name, None)
                self._forget(name, "_parameters", "_modules")
                self.register_buffer(name, value, value.persistent)
            else:
                buffers[name] = value
            return
        super().__setattr__(name, value)

    def _forget(self, name, *kinds):
        for kind in kinds:
            self.__dict__.get(kind, {}).pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = dir(type(self)) + list(self.__dict__)
        names += list(self._parameters) + list(self._modules) + list(self._buffers)
        return sorted(n for n in set(names) if not n[0].isdigit())

    # ---- registering ----

    def _check_name(self, name, what, taken):
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {cfx_typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' if what != "module" else
                           f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in taken:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is part of the state and is not learned."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, cfx.Tensor):
            raise TypeError(f"cannot assign '{cfx_typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        for hook in global_hooks.buffer_registration.values():
            tensor = hook(self, name, tensor) or tensor
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{cfx_typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param is not None and not param.is_leaf:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model "
                             "parameters must be created explicitly. To express "
                             f"'{name}' as a function of another Tensor, compute the value in the "
                             "forward() method.")
        for hook in global_hooks.parameter_registration.values():
            param = hook(self, name, param) or param
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a child."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{cfx_typename(module)} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        for hook in global_hooks.module_registration.values():
            module = hook(self, name, module) or module
        self._modules[name] = module

    register_module = add_module

    # ---- by path ----

    def get_submodule(self, target):
        """The module at a path."""
        if target == "":
            return self
        mod = self
        for item in target.split("."):
            if not hasattr(mod, item):
                raise AttributeError(mod._get_name() + " has no attribute `" + item + "`")
            mod = getattr(mod, item)
            if not isinstance(mod, Module):
                raise AttributeError("`" + item + "` is not an nn.Module")
        return mod

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a path."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(parent._get_name() + " has no attribute `" + name + "`")
        setattr(parent, name, module)

    def _tensor_at(self, target, kind, word):
        path, _, name = target.rpartition(".")
        mod = self.get_submodule(path)
        if not hasattr(mod, name):
            raise AttributeError(mod._get_name() + " has no attribute `" + name + "`")
        found = getattr(mod, name)
        if name not in getattr(mod, kind):
            raise AttributeError("`" + name + f"` is not {word}")
        return found

    def get_parameter(self, target):
        return self._tensor_at(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        return self._tensor_at(target, "_buffers", "a buffer")

    # ---- going over ----

    def _named_members(self, get, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) \
            if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get(module):
                if value is None or (remove_duplicate and value in seen):
                    continue
                seen.add(value)
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse,
                                       remove_duplicate)

    def parameters(self, recurse=True):
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse,
                                       remove_duplicate)

    def buffers(self, recurse=True):
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        for _, m in self.named_children():
            yield m

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self):
        for _, m in self.named_modules():
            yield m

    # ---- the whole tree ----

    def apply(self, fn):
        """Calls fn(module) for everything below, then for this."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """fn(tensor) in the place of every parameter, gradient and buffer."""
        if recurse:
            for m in self.children():
                m._apply(fn)
        for p in self._parameters.values():
            if p is None:
                continue
            with cfx.no_grad():
                p.data = fn(p.data)
                if p.grad is not None:
                    p.grad = fn(p.grad)
        for name, b in self._buffers.items():
            if b is not None:
                self._buffers[name] = fn(b)
        return self

    def to(self, *args, **kwargs):
        """Parameters and buffers in another dtype or on another device."""
        dtype = kwargs.get("dtype")
        device = kwargs.get("device")
        for a in args:
            if isinstance(a, cfx._cfx.dtype):
                dtype = a
            elif isinstance(a, cfx.Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, (str, int, cfx._cfx.device)):
                device = a
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got "
                            f"desired dtype={dtype}")

        def convert(t):
            if t._is_fake and device is not None and str(device) != "meta" and not _fakes():
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device.")
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            return t.to(device=device, dtype=wanted or t.dtype)

        return self._apply(convert)

    def _as(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        return self._as(cfx.float32)

    def double(self):
        return self._as(cfx.float64)

    def to_empty(self, *, device, recurse=True):
        """Parameters and buffers on a device, with numbers that nobody wrote."""
        device = cfx._cfx.device(device)
        return self._apply(lambda t: cfx.empty_strided(t.shape, t.stride(), dtype=t.dtype,
                                                       device=device), recurse)

    def half(self):
        return self._as(cfx.float16)

    def bfloat16(self):
        return self._as(cfx.bfloat16)

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        return self._apply(lambda t: t.cuda(device))

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            if p.grad is not None:
                p.grad = None if set_to_none else p.grad.detach().zero_()

    def share_memory(self):
        return self

    def compile(self, *args, **kwargs):
        raise NotImplementedError("there is no compiler behind torch.compile here; programs are "
                                  "planned when they run: see cfx.torch.export")

    # ---- text ----

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(m), 2)}" for name, m in self._modules.items()]
        text = self._get_name() + "("
        if lines and not children and len(lines) == 1:
            return text + lines[0] + ")"
        if lines or children:
            text += "\n  " + "\n  ".join(lines + children) + "\n"
        return text + ")"

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                     "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
                     "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
                     "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                     "_forward_pre_hooks_with_kwargs"):
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)


def cfx_typename(o):
    """torch.typename: the type of an object with its module."""
    if isinstance(o, cfx.Tensor):
        return o.type()
    cls = type(o)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


__all__ = ["Module", "Parameter", "RemovableHandle", "watched"]
