"""Loaders, optimisers, layers, gradients and splitting as scripts use them; what is printed is
PyTorch's."""
import torch
from torch import nn
from torch.fx import symbolic_trace
from torch.fx.passes.split_utils import split_by_tags
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions
from torch.optim import SGD, lr_scheduler
from torch.utils.data import DataLoader, RandomSampler


def names(tensors):
    return [t.grad_fn.name() for t in tensors]


# Epochs of one generator.
seeded = torch.Generator().manual_seed(1)
loader = DataLoader(range(7), batch_size=3, shuffle=True, generator=seeded)
for _ in range(3):
    print([batch.tolist() for batch in loader])
sampler = RandomSampler(range(3), num_samples=5, generator=torch.Generator().manual_seed(0))
print(list(sampler), list(sampler), loader.pin_memory, loader.timeout)

x = torch.arange(6.0).reshape(2, 3)

# Numbers of a dtype have all their digits.
print(torch.tensor([0.1], dtype=torch.float64).item(), torch.tensor(0.1, dtype=torch.double).item())
print(torch.tensor([16777217.0], dtype=torch.int64), x.double().new_tensor([0.1]).item())
print(torch.tensor([0.1 + 0.2j], dtype=torch.complex128)[0].item())

# A number is a dimension.
print(x.var(1), x.std(0), torch.std(x, 1, True), x.std(False), x.std(), torch.var_mean(x, 1))

# Names of gradients.
p = torch.ones(2, 2, requires_grad=True)
print(names([p ** 2, p ** p, 2 ** p, p.max(), p.max(0).values, p.min(), p.clamp(min=0), p.median(),
             p.median(0).values, p.fmod(2), p.fmod(p), p % 2, p.std(), p.var(1), p.std(False)]))
y = p.exp()
y.add_(1)
try:
    y.sum().backward()
except RuntimeError as e:
    print(e)

# Hooks of an optimiser's state.
o = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
o.register_state_dict_pre_hook(lambda opt: print("before saving"))
o.register_state_dict_post_hook(lambda opt, state: {**state, "more": 1})
o.register_load_state_dict_pre_hook(lambda opt, state: print("loading", sorted(state)))
o.register_load_state_dict_post_hook(lambda opt: print("loaded"))
o.load_state_dict(o.state_dict())
print(lr_scheduler.StepLR(o, 2).state_dict())

# Layers.
lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
lstm.flatten_parameters()
print([len(w) for w in lstm.all_weights], lstm.mode, nn.RNN(3, 4, nonlinearity="relu").mode)
print(nn.MultiheadAttention(8, 2).head_dim, nn.ReLU6(), nn.ReLU6()(torch.tensor([-1.0, 3.0, 7.0])))
print(nn.TripletMarginWithDistanceLoss()(torch.ones(2, 3), torch.zeros(2, 3), 2 * torch.ones(2, 3)))
print(nn.init.dirac_(torch.empty(2, 2, 3)), torch.ones(2, 3).t().dim_order())
print(isinstance(x.max(1), torch.return_types.max), torch.return_types.linalg_eigh)

# Graphs.
gm = symbolic_trace(lambda a, b: (torch.relu(a) + b, a * b, torch.relu(a) - a * b))
for n in gm.graph.nodes:
    if n.op == "call_function":
        n.tag = "first" if n.name in ("relu", "mul", "relu_1", "mul_1") else "second"
split = split_by_tags(gm, ["first", "second"])
print(split.code, split.first.code)
program = torch.export.export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(1, 2),))
found = get_source_partitions(program.graph, [nn.Linear, nn.ReLU])
print({k.__name__: [p.nodes for p in v] for k, v in found.items()})
print(torch.ops.aten.add.Tensor._overloadpacket, torch.ops.aten.add.Tensor._opname)
print(gm.graph.python_code("root").src, type(gm.graph._codegen))


class Same(nn.Module):
    def forward(self, q, *, k):
        return q + 1 if q is k else q + k


print(torch.export.export(Same(), (x,), {"k": x}).graph_module.code)
