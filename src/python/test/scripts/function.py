"""Functions with gradients of their own, and what torch.autograd says of others."""
import torch
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable

class MyReLU(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)
    @staticmethod
    def backward(ctx, g):
        input, = ctx.saved_tensors
        gi = g.clone()
        gi[input < 0] = 0
        return gi

class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        r = i.exp()
        ctx.save_for_backward(r)
        return r
    @staticmethod
    def backward(ctx, g):
        r, = ctx.saved_tensors
        return g * r

class Lin(Function):
    @staticmethod
    def forward(input, weight, bias=None):
        out = input.mm(weight.t())
        if bias is not None:
            out += bias
        return out
    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)
    @staticmethod
    def backward(ctx, g):
        input, weight, bias = ctx.saved_tensors
        gi = gw = gb = None
        if ctx.needs_input_grad[0]:
            gi = g.mm(weight)
        if ctx.needs_input_grad[1]:
            gw = g.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            gb = g.sum(0)
        return gi, gw, gb

class Two(Function):
    @staticmethod
    def forward(ctx, a, b, k):
        ctx.k = k
        ctx.set_materialize_grads(False)
        i = (a > b)
        ctx.mark_non_differentiable(i)
        return a * k, b + k, i
    @staticmethod
    def backward(ctx, ga, gb, gi):
        print("got", ga is None, gb is None, gi is None, ctx.needs_input_grad)
        return (None if ga is None else ga * ctx.k), gb, None

class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 3

class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = MyReLU.apply(x)
print(y)
print(y.grad_fn.name(), y.requires_grad)
y.sum().backward()
print(x.grad)
print(gradcheck(Exp.apply, (torch.randn(3, dtype=torch.double, requires_grad=True),)))
print(gradgradcheck(Exp.apply, (torch.randn(3, dtype=torch.double, requires_grad=True),)))
a = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
w = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
b = torch.randn(4, dtype=torch.double, requires_grad=True)
print(gradcheck(Lin.apply, (a, w, b)), gradcheck(Lin.apply, (a, w, None)))
p, q, r = Two.apply(x, torch.ones(4, requires_grad=True), 5)
print(p.requires_grad, q.requires_grad, r.requires_grad, r.dtype)
q.sum().backward()
z = torch.ones(3, requires_grad=True)
t = z * 1
u = InPlace.apply(t)
print(u is t, t.grad_fn.name())
u.sum().backward()
print(z.grad)
try:
    InPlace.apply(z)
except RuntimeError as e:
    print(e)
v = torch.tensor([1., 2.], requires_grad=True)
g, = torch.autograd.grad(Once.apply(v).sum(), v, create_graph=True)
print(g.detach())
try:
    g.sum().backward()
except RuntimeError as e:
    print(e)
g1, = torch.autograd.grad(Exp.apply(v).sum(), v, create_graph=True)
g2, = torch.autograd.grad(g1.sum(), v)
print(g2)
with torch.no_grad():
    print(MyReLU.apply(v).requires_grad)
y = Exp.apply(v)
y.sum().backward()
try:
    y.sum().backward()
except RuntimeError as e:
    print(str(e)[:60])
class Bad(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y
    @staticmethod
    def backward(ctx, g):
        return g
try:
    Bad.apply(v, v).sum().backward()
except RuntimeError as e:
    print(e)
from torch.autograd.functional import jacobian, hessian, vjp, jvp, hvp, vhp
f = lambda x: (x ** 3).sum()
x0 = torch.tensor([1., 2., 3.])
print(jacobian(lambda x: x ** 2, x0))
print(hessian(f, x0))
print(vjp(f, x0))
print(jvp(lambda x: x * x, x0, torch.ones(3)))
print(vhp(f, x0, torch.ones(3)), hvp(f, x0, torch.ones(3)))
print(jacobian(lambda a, b: (a * b, a + b), (torch.ones(2), torch.arange(2.))))
class M(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 4)
    def forward(self, x):
        return MyReLU.apply(self.l(x))
m = M()
gm = torch.fx.symbolic_trace(m)
print(gm.code)
ep = torch.export.export(m, (torch.randn(2, 4),))
print(ep.graph_module.code)
with torch.autograd.set_detect_anomaly(True):
    n = torch.zeros(1, requires_grad=True)
    try:
        (n / n * 0).sqrt().sum().backward()
    except RuntimeError as e:
        print(e)
