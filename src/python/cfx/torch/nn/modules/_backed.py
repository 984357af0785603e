"""Modules whose forward is C's: observers, fused and quantized layers. One of Python's stands for
each, with the same tensors, and C's is the one that convert_fx and others look at."""
import copy

import cfx

from .module import Module, Parameter


class Backed(Module):
    """A module of C as one of Python's. Subclasses are named by the type in C."""

    def __init__(self, made):
        super().__init__()
        self.__dict__["_c"] = made
        for name, p in made.parameters().items():
            self._own(name, p)
        for name, child in made.children():
            self.add_module(name, from_c(child))
            _share(self._modules[name], child)
        self._read()
        self.__dict__["training"] = made.training

    def _own(self, name, p):
        """Both have the same tensor, so that gradients are where an optimizer looks."""
        own = p if p is None or isinstance(p, Parameter) else Parameter(p, p.requires_grad)
        self.register_parameter(name, own)
        if own is not p:
            self._c.set(name, own)

    def _read(self):
        """Takes what C has changed since."""
        for name, (b, persistent) in self._c.buffers().items():
            if self._buffers.get(name) is not b:
                self.register_buffer(name, b, persistent)
        for name, value in self._c.attrs().items():
            if not name.startswith("_"):
                self.__dict__[name] = value

    def forward(self, *args, **kwargs):
        result = self._c.forward(args, kwargs)
        self._read_all()
        return result

    def _read_all(self):
        self._read()
        for child in self._modules.values():
            if isinstance(child, Backed):
                child._read_all()

    def __setattr__(self, name, value):
        old = self._buffers.get(name) if "_buffers" in self.__dict__ else None
        if old is not None and not (isinstance(value, cfx.Tensor) and value.dtype == old.dtype
                                    and (value.ndim == old.ndim or old.ndim == 1)):
            raise TypeError(f"{type(self).__name__}.{name} must stay a tensor of {old.dtype} with "
                            f"{old.ndim} dimensions")
        super().__setattr__(name, value)
        if "_c" not in self.__dict__:
            return
        if name == "training":
            self._c.training = value
            for _, child in self._c.children():  # layers of C below it
                child.training = value
        elif name in self._buffers or name in self._parameters:
            self._c.set(name, value)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            if value is not None:
                self._c.set(name, value)
        return self

    def _load_from_state_dict(self, state_dict, prefix, *args):
        for name, b in list(self._buffers.items()):  # ranges of channels have their number only
            given = state_dict.get(prefix + name)    # when something was seen
            if b is not None and isinstance(given, cfx.Tensor) and given.shape != b.shape:
                setattr(self, name, given.clone())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _get_name(self):
        return self._c.type

    def extra_repr(self):
        return self._c.extra_repr()

    def __deepcopy__(self, memo):
        other = from_c(self._c.copy())
        memo[id(self)] = other
        for name, child in self._modules.items():  # Python's own, as observers are
            if name not in other._modules:
                other._modules[name] = copy.deepcopy(child, memo)
        for name, value in self.__dict__.items():
            if name not in other.__dict__ or name.endswith("_hooks"):
                other.__dict__[name] = copy.deepcopy(value, memo)
        return other

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle a {self._c.type}: its forward is C's; save its "
                        "state_dict()")


def _share(module, made):
    """Gives a module of C below one that is called there the parameters of Python's."""
    if isinstance(module, Backed):
        return
    mine = made.parameters()
    for name, p in module._parameters.items():
        if p is not None and mine.get(name) is not p:
            made.set(name, p)
    for name, child in made.children():
        _share(module._modules[name], child)


_finders = []  # called with a module of C: the class for it, or None


def backed(made):
    """The module of Python that stands for one of C with a forward of its own; None for others."""
    for find in _finders:
        cls = find(made)
        if cls is not None:
            m = cls.__new__(cls)
            Backed.__init__(m, made)
            return m
    return None


def from_c(made):
    from ...export import _modules

    return _modules.from_c(made)


def of(module):
    """The module of C that one of Python's stands for, or None."""
    return module.__dict__.get("_c") if isinstance(module, Backed) else None
