# Eager mode: stubs, fused modules, observers, convert.
import copy
import re

import torch
from torch import nn
from torch.ao import quantization as aq
from torch.ao.quantization import QuantStub, DeQuantStub, fuse_modules, prepare, convert, get_default_qconfig
from torch.ao.nn.quantized import FloatFunctional


def show(*what):
    """Prints it with floats of five digits: the last ones depend on the order of additions."""
    print(*(re.sub(r"\d+\.\d{6,}", lambda m: f"{float(m[0]):.5f}", str(w)) for w in what))


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.skip = FloatFunctional()

    def forward(self, x):
        y = self.conv2(self.relu1(self.bn1(self.conv1(x))))
        return self.skip.add_relu(x, y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.res = Res(4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4, 3)
        self.dequant = DeQuantStub()

    def forward(self, x):
        x = self.res(self.relu(self.bn(self.conv(self.quant(x)))))
        return self.dequant(self.fc(self.pool(x).flatten(1)))


torch.manual_seed(0)
net = Net()
for m in net.modules():
    if isinstance(m, nn.BatchNorm2d):
        nn.init.uniform_(m.running_mean, -0.5, 0.5)
        nn.init.uniform_(m.running_var, 0.5, 2)
net.eval()
x = torch.randn(4, 3, 8, 8)
want = net(x)
fused = fuse_modules(net, [["conv", "bn", "relu"], ["res.conv1", "res.bn1", "res.relu1"]])
print(fused)
print(torch.allclose(fused(x), want, atol=1e-5))
for backend in ("x86", "qnnpack"):
    f = copy.deepcopy(fused)
    f.qconfig = get_default_qconfig(backend)
    p = prepare(f)
    if backend == "x86":
        print(p)
    for _ in range(2):
        p(x)
    q = convert(p)
    show(q)
    y = q(x)
    print(y)
    print((y - want).abs().max() < 0.2)
    print(list(q.state_dict()))
    print(type(q.conv).__module__.split(".")[:5], type(q.conv).__name__, type(q.fc).__name__, type(q.quant).__name__)
    show(q.conv.weight().dtype, q.fc.weight().shape, q.fc.bias() is not None, q.fc.scale, q.fc.zero_point)
print(hasattr(q, "qconfig"), hasattr(p, "qconfig"), p.conv.qconfig is not None)
w = aq.QuantWrapper(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
w.eval()
w.qconfig = aq.default_qconfig
print(w)
pw = aq.prepare(w, inplace=False)
pw(torch.linspace(-1, 1, 6).view(2, 3))
show(aq.convert(pw))
part = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
part[1].qconfig = aq.default_qconfig
print(aq.add_quant_dequant(aq.prepare(part)))
try:
    fuse_modules(nn.Sequential(nn.ReLU(), nn.Linear(1, 1)).eval(), ["0", "1"])
except AssertionError as e:
    print(e)
try:
    FloatFunctional()(1)
except RuntimeError as e:
    print(e)
ff = FloatFunctional()
a = torch.ones(2)
print(ff.add(a, a), ff.mul(a, a), ff.cat([a, a]), ff.add_scalar(a, 2.0), ff.mul_scalar(a, 3.0), ff.add_relu(a, -2 * a))
print(ff)
