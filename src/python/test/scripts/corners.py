"""Corners of tracing: wrapped functions, proxies of one's own, generated code."""
import torch, torch.fx as fx, operator, math
from torch import nn
from torch.fx import wrap, PH, symbolic_trace, Graph, GraphModule, Proxy, Tracer

@wrap
def helper(x, n):
    return x * n if n > 2 else x
wrap('len')
wrap('sqrt')
from math import sqrt

class M(nn.Module):

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(3))
        self.k = 3
        self.mods = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.d = nn.ModuleDict({'a': nn.ReLU()})

    def forward(self, x, y=None, *, z: int=2):
        for m in self.mods:
            x = m(x)
        a, b = x.split(2, -1) if False else (x, x)
        x = helper(x, self.k) + len(a) + sqrt(x.size(0)) + math.floor(2.5)
        s = x.shape[0]
        w = getattr(x, 'T')
        q = x[..., None, 1:2]
        return (self.d['a'](x) @ w, s, {'q': q, 'l': [x, (b,)]}, -x, ~(x > 0), x // 2, 3 - x, z)
try:
    print(symbolic_trace(M()).code)
except Exception as e:
    print(type(e).__name__, e)

class M2(nn.Module):

    def forward(self, x, d, flag=True):
        if flag:
            return x + d['a']
        return x - d['b'][0]
g = symbolic_trace(M2(), concrete_args={'d': {'a': PH, 'b': [PH]},
    'flag': False}) if False else symbolic_trace(M2(), concrete_args={'flag': False})
print(g.code)

class Count(Tracer):

    def __init__(self):
        super().__init__()
        self.n = 0

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        self.n += 1
        return super().create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        return MyProxy(node, self)

class MyProxy(Proxy):

    def __add__(self, o):
        return super().__mul__(o) if False else self.tracer.create_proxy('call_function',
            torch.sub, (self, o), {})
t = Count()
gr = t.trace(lambda x: x + 1)
print(t.n, gr)

class Attr(nn.Module):

    def forward(self, x):
        return x.foo.bar(1).baz
print(symbolic_trace(Attr()).code)

def f(x, y):
    return torch.stack([x, y]).max(dim=0).values
gm = symbolic_trace(f)
print(gm.code)
print(gm(torch.ones(1), torch.zeros(1)))
for n in gm.graph.nodes:
    if n.op == 'call_method':
        n.meta['note'] = 'hi'
        print(n.meta.get('note'), n.stack_trace)
gm.graph.print_tabular() if False else None
import copy
c = copy.copy(gm.graph)
d = copy.deepcopy(gm.graph)
print(str(d) == str(gm.graph), len(c.nodes))

def transform(code):
    return ['import math as _m\n', *code]
gm.graph.on_generate_code(lambda _: transform)
gm.recompile()
print(gm.code)
g2 = Graph()
x = g2.placeholder('x', torch.Tensor, default_value=None)
y = g2.call_function(operator.add, (x, 1))
y.type = torch.Tensor
with g2.inserting_before(y):
    z = g2.call_method('abs', (x,))
y.args = (z, 2)
g2.output(y, type_expr=torch.Tensor)
g2.lint()
print(g2.python_code('self').src)
print(y.is_impure(), y.all_input_nodes, x.users, y.normalized_arguments(nn.Module()))
try:
    bad = Graph()
    a = bad.placeholder('a')
    bb = Graph().placeholder('b')
    bad.call_function(torch.add, (a, bb))
    bad.lint()
except RuntimeError as e:
    print(e)
print(fx.Node.__module__, fx.__name__, type(y.target).__name__)
m = GraphModule({'lin': nn.Linear(2, 2)}, (lambda gg: (gg.output(gg.call_module('lin',
    (gg.placeholder('x'),))), gg)[1])(Graph()))
print(m)
print(m.state_dict().keys())
sub = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
print([(n.name, n.target) for n in sub.graph.nodes])
sub.graph.owning_module is sub
sub.set_submodule('0', nn.Identity()) if hasattr(sub, 'set_submodule') else None
print(sub(torch.ones(1, 2)))

class Sub(nn.Module):

    def __init__(self):
        super().__init__()
        self.inner = sub

    def forward(self, x):
        return self.inner(x) + 1
print(symbolic_trace(Sub()).code)

@torch.no_grad()
def ng(x):
    return x + 1
print(symbolic_trace(ng).code)

def va(*args, **kw):
    return args[0] + kw['k']
print(symbolic_trace(va).code)

def ctl(x):
    return torch.where(x > 0, x, -x).clamp_(0,
        1).to(torch.float16).type(torch.float32).contiguous().view(x.size(0), -1)
print(symbolic_trace(ctl).code)
print(torch.fx.symbolic_trace(lambda x: x if torch.is_tensor(x) else None).code)
