# Modules as users write them.
import copy
from collections import OrderedDict

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 2)})
        self.list = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(2)])
        self.register_buffer("count", torch.tensor(0), persistent=False)
        self.register_parameter("none", None)
        self.act = nn.LeakyReLU(0.2)

    def forward(self, x):
        self.count += 1
        return self.layers["b"](self.act(self.layers["a"](x))) * self.list[0] + self.list[1]

    def extra_repr(self):
        return "extra=1"


torch.manual_seed(3)
m = Model()
print(m)
print([n for n, _ in m.named_parameters()], [n for n, _ in m.named_buffers()], list(m.state_dict()))
print([(n, type(c).__name__) for n, c in m.named_modules()])
x = torch.randn(4, 2)
print(m(x), m.count)
print(m.training, m.eval().training, [c.training for c in m.children()])
m.apply(lambda c: nn.init.constant_(c.weight, 0.5) if isinstance(c, nn.Linear) else None)
print(m.layers["a"].weight)
m.double()
print(m.layers["a"].weight.dtype, m.to(torch.float32).list[0].dtype)
print(sum(p.numel() for p in m.parameters() if p.requires_grad))
m.requires_grad_(False)
print(any(p.requires_grad for p in m.parameters()))
s = nn.Sequential(OrderedDict([("one", nn.Linear(2, 2)), ("two", nn.ReLU())]))
s.append(nn.Dropout())
try:
    s.insert(0, nn.Identity())
except KeyError as e:
    print(e)
print(s, len(s), s[1], s[-1:], s.one)
ml = nn.ModuleList([nn.Linear(1, 1)])
ml.extend([nn.ReLU()])
print(ml, [type(c).__name__ for c in ml])
for bad in (lambda: m.nothing, lambda: setattr(m, "act", 3), lambda: m.get_submodule("layers.z"), lambda: m.register_buffer("act", torch.ones(1)), lambda: nn.Linear(2, 3)(torch.ones(3)), lambda: nn.Conv2d(3, 4, 3)(torch.ones(3)), lambda: nn.Module()(1), lambda: nn.Sequential(3), lambda: nn.BatchNorm1d(3)(torch.ones(1, 3)), lambda: m(), lambda: nn.Embedding(3, 2)(torch.tensor([5])), lambda: nn.Conv2d(3, 4, 3, groups=2)):
    try:
        bad()
        print("allowed")
    except Exception as e:
        print(type(e).__name__, e)
c = copy.deepcopy(m)
c.layers["a"].weight.data.fill_(7)
print(m.layers["a"].weight[0, 0], c.layers["a"].weight[0, 0])
bn = nn.BatchNorm2d(2)
bn(torch.arange(16.0).view(2, 2, 2, 2))
print(bn.running_mean, bn.running_var, bn.num_batches_tracked, list(bn.state_dict()))
print(nn.init.kaiming_uniform_(torch.empty(2, 3), generator=torch.Generator().manual_seed(0)), nn.init.calculate_gain("relu"))
print(nn.init.orthogonal_(torch.empty(2, 2)).shape, nn.init.xavier_normal_(torch.empty(2, 2)).shape)
w = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
print(w)
print(sorted(w.state_dict()))
sn = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))
print(sn(torch.ones(1, 2)).shape)
torch.manual_seed(0)
from torch.nn.utils import prune, parameters_to_vector
p = prune.l1_unstructured(nn.Linear(3, 2), "weight", 0.5)
print(p.weight_mask, (p.weight == 0).sum())
print(parameters_to_vector(nn.Linear(1, 1).parameters()).shape)
lazy = nn.LazyLinear(3)
print(lazy, lazy(torch.ones(2, 5)).shape, lazy)
print(nn.Flatten()(torch.ones(2, 3, 4)).shape, nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape)
from torch.func import functional_call, stack_module_state
print(functional_call(nn.Linear(1, 1), {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, torch.ones(1, 1)))
print(nn.Conv2d(3, 6, (3, 5), stride=(2, 1), padding="valid", dilation=2, groups=3, bias=False), nn.GRU(2, 3, 2, dropout=0.1), nn.Upsample(scale_factor=2))
