# A tracer of one's own, an interpreter that profiles, a transformer.
import time

import torch
import torch.fx as fx
from torch import nn
from torch.fx import Interpreter, Transformer, Tracer, GraphModule


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.fc1 = nn.Linear(n, 2 * n)
        self.fc2 = nn.Linear(2 * n, n)

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4) for _ in range(2)])
        self.head = nn.Linear(4, 2)

    def forward(self, x, scale: float = 2.0):
        for b in self.blocks:
            x = b(x)
        return self.head(x) * scale


class BlockTracer(Tracer):
    def is_leaf_module(self, m, qualname):
        return isinstance(m, Block) or super().is_leaf_module(m, qualname)

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        n = super().create_node(kind, target, args, kwargs, name, type_expr)
        n.meta["made_by"] = type(self).__name__
        return n


torch.manual_seed(0)
net = Net().eval()
tracer = BlockTracer()
graph = tracer.trace(net)
gm = GraphModule(tracer.root, graph, "Leafy")
print(gm)
print(gm.code)
print([(n.name, n.op, str(n.target), n.meta["made_by"]) for n in graph.nodes])
full = fx.symbolic_trace(net)
print(full.graph)


class Profiler(Interpreter):
    def __init__(self, mod):
        super().__init__(mod)
        self.runs = {}

    def run(self, *args):
        t = time.time()
        r = super().run(*args)
        assert time.time() >= t
        return r

    def run_node(self, n):
        r = super().run_node(n)
        self.runs.setdefault(n.op, []).append((n.name, tuple(r.shape) if isinstance(r, torch.Tensor) else r))
        return r

    def call_function(self, target, args, kwargs):
        self.last = target.__name__
        return super().call_function(target, args, kwargs)


p = Profiler(full)
x = torch.randn(3, 4)
out = p.run(x)
for k, v in p.runs.items():
    print(k, v)
print(p.last, torch.equal(out, net(x)))
print({k: tuple(v.shape) if hasattr(v, "shape") else v for k, v in p.env.items()})


class GeluToRelu(Transformer):
    def call_function(self, target, args, kwargs):
        if target == torch.nn.functional.gelu:
            return torch.relu(*args)
        return super().call_function(target, args, kwargs)

    def call_module(self, target, args, kwargs):
        if target.endswith("norm"):
            return args[0]
        return super().call_module(target, args, kwargs)


t = GeluToRelu(full).transform()
print(t.code)
print(t(x))
print(Interpreter(full).run(x, initial_env={n: x for n in full.graph.nodes if n.op == "placeholder" and n.name == "x"} | {n: 1.0 for n in full.graph.nodes if n.name == "scale"}))
try:
    Interpreter(full).run()
except Exception as e:
    print(type(e).__name__, e)
try:
    class Bad(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x
    fx.symbolic_trace(Bad())
except Exception as e:
    print(type(e).__name__, e)
try:
    fx.symbolic_trace(lambda x: [i for i in x])
except Exception as e:
    print(type(e).__name__, e)
try:
    fx.symbolic_trace(lambda x: len(x))
except Exception as e:
    print(type(e).__name__, e)
print(fx.symbolic_trace(lambda a, b: (a, {"k": b + 1}), concrete_args={"b": 3}).code)
