# quantize_dynamic.
import torch
from torch import nn
from torch.ao.quantization import quantize_dynamic, default_dynamic_qconfig, per_channel_dynamic_qconfig, float16_dynamic_qconfig


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 8)
        self.lstm = nn.LSTM(8, 6, 1)
        self.fc = nn.Linear(6, 4)
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, ids):
        y, _ = self.lstm(self.emb(ids))
        return self.out(self.fc(y[-1]))


torch.set_grad_enabled(False)
torch.manual_seed(0)
net = Net()
ids = torch.randint(0, 10, (5, 3))
want = net(ids)
q = quantize_dynamic(net)
print(q)
print(q(ids))
print((q(ids) - want).abs().max() < 0.05)
q = quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
print(q)
print(q(ids))
print(q.fc.weight().dtype, q.fc.bias().detach())
h = quantize_dynamic(net, {nn.Linear}, dtype=torch.float16)
print(h)
print(torch.allclose(h(ids), want, atol=1e-2))
q = quantize_dynamic(net, {"fc": per_channel_dynamic_qconfig})
print(q)
print(q(ids))
e = quantize_dynamic(net, dtype=torch.quint8)
print(e)
print((e(ids) - want).abs().max() < 0.05)
print(list(quantize_dynamic(net, {nn.Linear}).state_dict()))
try:
    quantize_dynamic(net, dtype=torch.int32)
except Exception as ex:
    print(type(ex).__name__, ex)
inner = nn.Sequential(nn.Linear(3, 3), nn.GRU(3, 2))
inner = quantize_dynamic(inner, inplace=True)
print(inner)
print(type(net.fc).__name__, net.training, q.training)
torch.manual_seed(4)
cells = nn.ModuleList([nn.LSTMCell(3, 2), nn.GRUCell(3, 2), nn.RNNCell(3, 2)])
torch.manual_seed(1)
qc = quantize_dynamic(cells)
print(qc)
torch.manual_seed(2)
x = torch.randn(2, 3)
for c, o in zip(qc, cells):
    a, b = c(x), o(x)
    a, b = (a[0], b[0]) if isinstance(a, tuple) else (a, b)
    print(a, (a - b).abs().max() < 0.02)
sd = quantize_dynamic(net, {nn.Linear})
other = quantize_dynamic(Net(), {nn.Linear})
other.load_state_dict(sd.state_dict())
print(torch.equal(other(ids), sd(ids)))
