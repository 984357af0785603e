"""Parametrizations, pruning, functions of functions, samplers, norms."""
import torch
from torch import nn
import torch.nn.utils.parametrize as P
from torch.nn.utils import parametrizations, prune
torch.manual_seed(0)

class Symmetric(nn.Module):

    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

class Skew(nn.Module):

    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu(1)
l = nn.Linear(3, 3)
P.register_parametrization(l, 'weight', Symmetric())
print(l)
print(torch.allclose(l.weight, l.weight.T))
print(l.state_dict().keys(), P.is_parametrized(l), P.is_parametrized(l, 'bias'))
print([n for n, _ in l.named_parameters()])
l(torch.ones(1, 3)).sum().backward()
print(l.parametrizations.weight.original.grad)
with P.cached():
    print(l.weight is l.weight)
print(l.weight is l.weight)
P.remove_parametrizations(l, 'weight')
print(l, type(l).__name__, P.is_parametrized(l))
k = nn.Linear(3, 3)
P.register_parametrization(k, 'weight', Skew())
X = torch.rand(3, 3)
X = X - X.T
k.weight = X
print(torch.allclose(k.weight, X))
try:
    P.register_parametrization(l, 'nothere', Symmetric())
except ValueError as e:
    print(e)
w = parametrizations.weight_norm(nn.Linear(2, 3))
print(w)
print({n: tuple(p.shape) for n, p in w.named_parameters()})
print(w(torch.ones(1, 2)))
w0 = nn.utils.weight_norm(nn.Linear(2, 3), name='weight')
print({n: tuple(p.shape) for n, p in w0.named_parameters()})
print(w0(torch.ones(1, 2)))
print(nn.utils.remove_weight_norm(w0))
s = parametrizations.spectral_norm(nn.Linear(4, 3))
print(round(torch.linalg.matrix_norm(s.weight, 2).item(), 3))
print(sorted(s.state_dict()))
s2 = nn.utils.spectral_norm(nn.Linear(4, 3))
s2(torch.ones(1, 4))
print(sorted(s2.state_dict()))
o = parametrizations.orthogonal(nn.Linear(3, 3))
Q = o.weight
print(torch.allclose(Q.T @ Q, torch.eye(3), atol=1e-05))
m = nn.Linear(4, 2)
prune.l1_unstructured(m, 'weight', amount=0.5)
print(m.weight_mask.sum(), sorted(m.state_dict()), prune.is_pruned(m))
print((m.weight == 0).sum())
prune.l1_unstructured(m, 'weight', amount=2)
print(m.weight_mask.sum())
prune.remove(m, 'weight')
print(sorted(m.state_dict()), prune.is_pruned(m))
m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
prune.global_unstructured([(m[0], 'weight'), (m[1], 'weight')],
    pruning_method=prune.L1Unstructured, amount=6)
print(int(m[0].weight_mask.sum() + m[1].weight_mask.sum()))
prune.ln_structured(m[0], name='weight', amount=1, n=2, dim=0)
print(m[0].weight_mask.sum(1).min())
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev
from torch.func import jvp, stack_module_state, vjp, vmap
f = lambda x: (x ** 3).sum()
x = torch.tensor([1.0, 2.0])
print(grad(f)(x))
print(grad(grad(lambda x: x ** 3))(torch.tensor(2.0)))
print(hessian(f)(x))
print(jacrev(torch.sin)(x))
print(vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2)))
print(vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(torch.arange(3.0), x))
out, fn = vjp(torch.sin, x)
print(out, fn(torch.ones(2)))
print(jvp(torch.sin, (x,), (torch.ones(2),)))
print(grad_and_value(f)(x))
net = nn.Linear(2, 1)
params = dict(net.named_parameters())

def loss(p, x, y):
    return ((functional_call(net, p, (x,)) - y) ** 2).mean()
g = grad(loss)(params, torch.ones(1, 2), torch.zeros(1))
print({k: tuple(v.shape) for k, v in g.items()})
per = vmap(grad(loss), in_dims=(None, 0, 0))({k: v.detach() for k, v in params.items()},
    torch.randn(5, 2), torch.randn(5, 1))
print({k: tuple(v.shape) for k, v in per.items()})
ps, bs = stack_module_state([nn.Linear(2, 1) for _ in range(3)])
print({k: tuple(v.shape) for k, v in ps.items()})
print(vmap(vmap(lambda a: a + 1))(torch.zeros(2, 2)))
from torch.utils.data import *
ds = TensorDataset(torch.arange(6.0), torch.arange(6))
print([b for b in DataLoader(ds, batch_size=2, sampler=SubsetRandomSampler([0, 2, 4],
    generator=torch.Generator().manual_seed(1)))])
print(list(WeightedRandomSampler([0.1, 0.9], 5, generator=torch.Generator().manual_seed(0))))
print(StackDataset(ds, ds)[1], len(StackDataset(a=ds)))
print(x.norm(dim=0))
print(torch.ones(2, 3).norm(2, 1))
print(torch.norm(torch.ones(2, 3), dim=1, keepdim=True))
print(torch.ones(2, 2).norm(p='fro'))
print(torch.ones(2, 3).norm(float('inf'), dim=(0, 1)))
print(torch.ones(3).norm(p=1))
print(f"{torch.ones(2, 2).norm('nuc').item():.4f}")  # by LAPACK: its last digits are the machine's
print(torch.fx.symbolic_trace(lambda x: torch.norm(x, dim=1) + x.norm(dim=1)).code)

class N(nn.Module):

    def forward(self, x):
        return (x.norm(dim=1), torch.norm(x), x.norm())
print(torch.export.export(N(), (torch.ones(2, 3),)).graph_module.code)
with torch.device('cpu'):
    print(torch.ones(1))
print(sorted(torch.optim.Adam(net.parameters()).defaults))
