"""Containers: modules that hold modules or parameters in an order or by name."""
import collections
import itertools
import operator
from collections import OrderedDict

import cfx

from .module import Module, Parameter, _addindent


class Container(Module):
    def __init__(self, **kwargs):
        super().__init__()
        for name, value in kwargs.items():
            self.add_module(name, value)


def _place(n, i):
    i = operator.index(i)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range")
    return i % n


class Sequential(Module):
    """Calls its modules one after the other."""

    def __init__(self, *args):
        super().__init__()
        items = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else \
            ((str(i), m) for i, m in enumerate(args))
        for name, m in items:
            self.add_module(name, m)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(OrderedDict(list(self._modules.items())[i]))
        return list(self._modules.values())[_place(len(self), i)]

    def __setitem__(self, i, module):
        setattr(self, list(self._modules)[_place(len(self), i)], module)

    def __delitem__(self, i):
        names = list(self._modules)
        for name in names[i] if isinstance(i, slice) else [names[_place(len(self), i)]]:
            delattr(self, name)
        modules = list(self._modules.values())
        self._modules = OrderedDict((str(k), m) for k, m in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, but "
                             f"{type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        return self.extend(other)

    def __mul__(self, times):
        return Sequential(*itertools.chain.from_iterable(itertools.repeat(list(self), times)))

    __rmul__ = __mul__

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        for m in list(modules):
            self.append(m)
        return self

    def insert(self, index, module):
        """Puts a module before another; those behind it are called by the next number each."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        index += n if index < 0 else 0
        for i in range(n, index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module
        return self

    def pop(self, key):
        m = self[key]
        del self[key]
        return m


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(list(self._modules.values())[i])
        return self._modules[str(_place(len(self), i))]

    def __setitem__(self, i, module):
        setattr(self, str(_place(len(self), i)), module)

    def __delitem__(self, i):
        items = list(self._modules.values())
        del items[i]
        self._modules = OrderedDict((str(k), m) for k, m in enumerate(items))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def __repr__(self):
        items = [repr(m) for m in self]
        if not items:
            return self._get_name() + "()"
        blocks = []
        for i, text in enumerate(items):
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = i
            else:
                blocks.append([i, i, text])
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
                 for a, b, text in blocks]
        return (self._get_name() + "(\n  "
                + "\n  ".join(_addindent(line, 2) for line in lines) + "\n)")

    def insert(self, index, module):
        items = list(self)
        items.insert(index, module)
        self._modules = OrderedDict((str(i), m) for i, m in enumerate(items))

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        m = self[key]
        del self[key]
        return m

    def extend(self, modules):
        if not isinstance(modules, collections.abc.Iterable):
            raise TypeError("ModuleList.extend should be called with an iterable, but got "
                            + type(modules).__name__)
        for m in list(modules):
            self.append(m)
        return self


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        m = self[key]
        del self[key]
        return m

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        items = modules.items() if isinstance(modules, (dict, ModuleDict)) else modules
        for key, m in items:
            self[key] = m


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)([self[k] for k in range(*i.indices(len(self)))])
        return getattr(self, str(_place(len(self), i)))

    def __setitem__(self, i, value):
        if isinstance(value, cfx.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(_place(len(self), i)), value)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        for v in values:
            self.append(v)
        return self

    def extra_repr(self):
        return _held(enumerate(self), lambda p: p.dtype)


def _held(items, kind_of):
    """What a holder of parameters prints of each."""
    lines = []
    for key, p in items:
        if isinstance(p, cfx.Tensor):
            size = "x".join(map(str, p.size()))
            name = "Parameter" if isinstance(p, Parameter) else "Tensor"
            lines.append(f"  ({key}): {name} containing: [{kind_of(p)} of size {size}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(p).__name__}")
    return "\n".join(lines)


class ParameterDict(Module):
    """Parameters by name."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        return getattr(self, str(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        if isinstance(value, cfx.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(key), value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        return self._keys.keys()

    def items(self):
        return ((k, self[k]) for k in self._keys)

    def values(self):
        return (self[k] for k in self._keys)

    def update(self, parameters):
        items = parameters.items() if hasattr(parameters, "items") else parameters
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            items = sorted(items, key=lambda item: item[0])  # as PyTorch has it
        for key, p in items:
            self[key] = p

    def extra_repr(self):
        return _held(self.items(), lambda p: p.type())
