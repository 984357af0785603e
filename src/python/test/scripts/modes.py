"""Hooks and modes: what is called, from outside."""
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("function", getattr(func, "__name__", func))
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print("operator", func)
        return func(*args, **(kwargs or {}))


model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
x = torch.ones(1, 3)
with Functions():
    model(x)
with torch.no_grad(), Operators():
    torch.nn.functional.softmax(model(x), dim=-1)


def before(module, args):
    print("before", type(module).__name__, [tuple(a.shape) for a in args])


def after(module, args, output):
    return output + 1


handle = model[0].register_forward_pre_hook(before)
model[1].register_forward_hook(after)
print((model(x) >= 1).all())
handle.remove()
print(model(x).shape)


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("tagged", func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


t = torch.ones(2).as_subclass(Tagged)
print(type(t + 1).__name__, type(torch.relu(t)).__name__)
