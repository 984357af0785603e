# Hooks of all kinds.
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 3)
        self.b = nn.Linear(3, 1)

    def forward(self, x, *, gain=1.0):
        return self.b(torch.tanh(self.a(x))) * gain


torch.manual_seed(0)
net = Net()
x = torch.tensor([[1.0, 2.0]], requires_grad=True)
log = []
hs = [net.a.register_forward_pre_hook(lambda m, args: log.append(("pre", len(args)))),
      net.a.register_forward_hook(lambda m, args, out: log.append(("post", tuple(out.shape)))),
      net.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "gain": 3.0}), with_kwargs=True),
      net.register_forward_hook(lambda m, args, kwargs, out: log.append(kwargs), with_kwargs=True),
      net.b.register_full_backward_hook(lambda m, gi, go: log.append(("bw", [tuple(g.shape) for g in gi if g is not None], go[0].tolist()))),
      net.b.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)),
      net.a.weight.register_hook(lambda g: g * 10),
      net.a.bias.register_post_accumulate_grad_hook(lambda p: log.append(("acc", tuple(p.grad.shape))))]
y = net(x)
h = y.register_hook(lambda g: log.append(("y", g.tolist())))
y.sum().backward()
for l in log:
    print(l)
print(net.a.weight.grad, x.grad)
log.clear()
for h in hs:
    h.remove()
net.zero_grad()
print(all(p.grad is None for p in net.parameters()))
net(x).sum().backward()
print(log, net.a.weight.grad)
out = []
h1 = net.a.register_forward_hook(lambda m, i, o: out.append(1))
h2 = net.a.register_forward_hook(lambda m, i, o: out.append(2), prepend=True)
h3 = net.a.register_forward_hook(lambda m, i, o: out.append(3), always_call=True)
net(x)
print(out)
try:
    net.a(torch.ones(5))
except RuntimeError as e:
    print(e, out)
g = nn.modules.module.register_module_forward_hook(lambda m, i, o: out.append(type(m).__name__))
net(x)
g.remove()
print(out)
net._register_state_dict_hook(lambda m, sd, prefix, meta: sd.update({prefix + "extra": torch.tensor(1)}))
print(list(net.state_dict()))
k = net.register_load_state_dict_post_hook(lambda m, inc: print(inc.missing_keys, inc.unexpected_keys))
net.load_state_dict({"a.weight": torch.zeros(3, 2)}, strict=False)
try:
    net.load_state_dict({"a.weight": torch.zeros(3, 3), "zz": torch.ones(1)})
except RuntimeError as e:
    print(e)
n = y.grad_fn
print(n.name())
w = x * 2
w.sum().backward()


class Par(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)
        self.l.register_forward_hook(self.seen)
        self.n = 0

    def seen(self, m, i, o):
        self.n += 1
        return o + 100

    def forward(self, x):
        return self.l(x)


p = Par()
print((p(x) > 50).all().item(), p.n)
