# Training with rounding, eager and FX.
import re

import torch
from torch import nn
from torch.ao import quantization as aq
from torch.ao.quantization import quantize_fx


def show(what):
    """Prints it with floats of five digits: the last ones depend on the order of additions."""
    print(re.sub(r"\d+\.\d{6,}", lambda m: f"{float(m[0]):.5f}", str(what)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = aq.QuantStub()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(2 * 4 * 4, 2)
        self.dequant = aq.DeQuantStub()

    def forward(self, x):
        x = self.relu(self.bn(self.conv(self.quant(x))))
        return self.dequant(self.fc(x.flatten(1)))


torch.manual_seed(0)
net = Net().train()
aq.fuse_modules_qat(net, [["conv", "bn", "relu"]], inplace=True)
print(net)
net.qconfig = aq.get_default_qat_qconfig("x86")
p = aq.prepare_qat(net)
print(p)
torch.manual_seed(1)
x, y = torch.randn(8, 1, 6, 6), torch.randn(8, 2)
opt = torch.optim.SGD(p.parameters(), lr=0.1)
for i in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(p(x), y)
    loss.backward()
    opt.step()
    print(round(loss.item(), 4))
    if i == 3:
        p.apply(aq.disable_observer)
        p.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
q = aq.convert(p.eval())
show(q)
print(q(x)[:3])
print((q(x) - p(x)).abs().max() < 0.1)
try:
    aq.prepare_qat(Net().eval())
except AssertionError as e:
    print(e)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


torch.manual_seed(1)
m = quantize_fx.prepare_qat_fx(Plain().train(), aq.get_default_qat_qconfig_mapping("x86"), (torch.randn(1, 4),))
print(m.code)
torch.manual_seed(2)
x = torch.randn(8, 4)
opt = torch.optim.Adam(m.parameters(), lr=0.05)
for _ in range(4):
    opt.zero_grad()
    loss = m(x).pow(2).mean()
    loss.backward()
    opt.step()
    print(round(loss.item(), 4))
c = quantize_fx.convert_fx(m.eval())
show(c)
print(c(x)[:2])


def train(model, data):
    for d in data:
        model(d)


torch.manual_seed(0)
net = Net()
net.qconfig = aq.default_qat_qconfig
show(aq.quantize_qat(net, train, [[torch.randn(4, 1, 6, 6)]]))
torch.manual_seed(3)
net = Net().eval()
net.qconfig = aq.default_qconfig
show(aq.quantize(net, train, [[torch.randn(4, 1, 6, 6)]]))
