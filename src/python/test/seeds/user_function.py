# autograd.Function and gradients.
import torch
from torch.autograd import Function, gradcheck


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        result, = ctx.saved_tensors
        return grad_output * result


class MulAdd(Function):
    @staticmethod
    def forward(x, y, k):
        return x * y + k, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, k = inputs
        ctx.save_for_backward(x, y)
        ctx.k = k
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g1, g2):
        x, y = ctx.saved_tensors
        print(ctx.needs_input_grad, g1 is None, g2 is None, ctx.k)
        gx = gy = None
        if ctx.needs_input_grad[0]:
            gx = (g1 * y if g1 is not None else 0) + (g2 if g2 is not None else 0)
        if ctx.needs_input_grad[1]:
            gy = (g1 * x if g1 is not None else 0) + (g2 if g2 is not None else 0)
        return gx, gy, None


class Inc(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g


class Idx(Function):
    @staticmethod
    def forward(ctx, x):
        v, i = x.sort()
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(i)
        return v, i

    @staticmethod
    def backward(ctx, g1, g2):
        i, = ctx.saved_tensors
        return torch.zeros_like(g1).index_add(0, i, g1)


x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
y = Exp.apply(x)
print(y, y.grad_fn.name())
y.sum().backward()
print(x.grad)
print(gradcheck(Exp.apply, (torch.randn(3, dtype=torch.double, requires_grad=True),)))
a, b = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
r, s = MulAdd.apply(a, b, 2)
r.sum().backward()
print(a.grad)
z = Inc.apply(x * 1)
z.sum().backward()
print(z, x.grad)
v, i = Idx.apply(x)
print(v, i, v.requires_grad, i.requires_grad)
x.grad = None
(v * torch.arange(3.0)).sum().backward()
print(x.grad)
g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
print(g)
print(torch.autograd.grad(g.sum(), x))
print(torch.autograd.functional.jacobian(lambda t: t ** 2, torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.hessian(lambda t: (t ** 3).sum(), torch.tensor([1.0, 2.0])))
for bad in (lambda: (x * 2).backward(), lambda: x.sum().backward(torch.ones(2)), lambda: torch.ones(2).sum().backward(), lambda: x.add_(1), lambda: x.numpy()):
    try:
        bad()
    except Exception as e:
        print(type(e).__name__, e)
t = (x * 2).sum()
t.backward()
try:
    t2 = (x * x).sum()
    t2.backward()
    t2.backward()
except RuntimeError as e:
    print(e)
try:
    w = x * 1
    q = w * w
    w.add_(1)
    q.sum().backward()
except RuntimeError as e:
    print(e)
with torch.no_grad():
    print((x * 2).requires_grad)


class NoBack(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


try:
    NoBack.apply(x).sum().backward()
except Exception as e:
    print(type(e).__name__, e)


class Wrong(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


try:
    Wrong.apply(x, x).sum().backward()
except Exception as e:
    print(type(e).__name__, e)
try:
    Exp(3)
except Exception as e:
    print(type(e).__name__)
from torch.func import grad, vmap, jacrev, vjp, jvp, functional_call, grad_and_value
print(grad(lambda t: (t ** 2).sum())(torch.tensor([1.0, 2.0])), vmap(lambda t: t * t.sum())(torch.arange(6.0).view(3, 2)))
print(grad_and_value(lambda t: (t ** 2).sum())(torch.tensor([1.0, 2.0])), jacrev(torch.sin)(torch.tensor([0.0, 1.0])))
print(jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),)), vjp(torch.sin, torch.zeros(2))[1](torch.ones(2)))
print(vmap(grad(lambda w, t: (w * t).sum()), in_dims=(None, 0))(torch.ones(2), torch.arange(4.0).view(2, 2)))
