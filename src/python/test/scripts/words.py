"""What is printed and said: print options, holders of parameters, optimisers, refusals."""
import torch
from torch import nn, optim
from torch.fx import symbolic_trace
from torch.utils._python_dispatch import TorchDispatchMode


def attempt(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, e)


torch.set_printoptions(threshold=5, edgeitems=2, linewidth=40)
print(torch.arange(20), torch.arange(30.0).reshape(5, 6))
torch.set_printoptions(profile="default")
print(torch.arange(20))

print(nn.ParameterDict({"w": torch.ones(2), "v": torch.zeros(2, 3, dtype=torch.float64), "n": 3}))
p = nn.Parameter(torch.zeros(1))
for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax"):
    o = getattr(optim, name)([p], lr=0.5)
    print(o)
    print(list(o.state_dict()["param_groups"][0]))
    attempt(lambda: getattr(optim, name)([p], lr=-1))
attempt(lambda: optim.Adam(p))
attempt(lambda: optim.Adadelta([p], fused=True))

gm = symbolic_trace(lambda x: torch.clamp(x, min=0))
n = list(gm.graph.nodes)[1]
attempt(lambda: n.kwargs.update(a=1))
attempt(lambda: gm.graph.call_module("nope"))


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func.__module__, func)
        return func(*args, **(kwargs or {}))


t = torch.ones(2)
with Log():
    torch.relu(t)


class Diagonal:
    known = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):  # no classmethod
        if func not in self.known:
            return NotImplemented
        return self.known[func](*args, **(kwargs or {}))


Diagonal.known[torch.mean] = lambda d: "mean"
attempt(lambda: torch.mean(Diagonal()))
attempt(lambda: torch.mul(Diagonal(), 2))
