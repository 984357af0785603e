"""What models are usually put through: hooks, training, state dicts, quantization."""
import torch, copy, io
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, Dataset, random_split
torch.manual_seed(0)

class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.drop = nn.Dropout(0.1)
        self.ln = nn.LayerNorm(16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x, *, scale=1.0):
        return self.fc2(self.ln(F.gelu(self.fc1(x)))) * scale
m = Net()
log = []
h1 = m.fc1.register_forward_hook(lambda mod, a, o: log.append(('fwd', tuple(o.shape))))
h2 = m.register_forward_pre_hook(lambda mod, a, k: (a, {**k, 'scale': 2.0}), with_kwargs=True)
h3 = m.fc2.register_full_backward_hook(lambda mod, gi, go: log.append(('bwd',
    [None if g is None else tuple(g.shape) for g in gi])))
h4 = m.register_forward_hook(lambda mod, a, k, o: o + 0, with_kwargs=True)
h5 = m.fc1.weight.register_hook(lambda g: log.append(('grad', tuple(g.shape))))
h6 = m.fc1.weight.register_post_accumulate_grad_hook(lambda p: log.append(('acc',
    p.grad is not None)))
out = m(torch.randn(2, 4))
out.sum().backward()
print(log)
for h in (h1, h2, h3, h4, h5, h6):
    h.remove()
h7 = m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 0,))
m.zero_grad()
m(torch.randn(2, 4)).sum().backward()
print(m.fc1.weight.grad.abs().sum())
h7.remove()
X = torch.randn(60, 4)
Y = (X.sum(1) > 0).long() + (X[:, 0] > 1).long()
tr, te = random_split(TensorDataset(X, Y), [48, 12], generator=torch.Generator().manual_seed(0))
opt = optim.AdamW(m.parameters(), lr=0.02, weight_decay=0.01)
sch = optim.lr_scheduler.CosineAnnealingLR(opt, 5)
for ep in range(5):
    m.train()
    tot = 0.0
    for xb, yb in DataLoader(tr, batch_size=16, shuffle=True,
        generator=torch.Generator().manual_seed(ep)):
        opt.zero_grad(set_to_none=True)
        l = F.cross_entropy(m(xb), yb, label_smoothing=0.1)
        l.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        tot += l.item() * len(xb)
    sch.step()
    print(ep, f'{tot / 48:.4f}', f'{sch.get_last_lr()[0]:.5f}')
m.eval()
with torch.inference_mode():
    acc = sum(((m(x).argmax(1) == y).sum().item() for x, y in DataLoader(te, 6))) / 12
print(f'{acc:.3f}')
buf = io.BytesIO()
torch.save({'model': m.state_dict(), 'opt': opt.state_dict(), 'epoch': 5}, buf)
buf.seek(0)
ck = torch.load(buf, weights_only=True)
m2 = Net()
print(m2.load_state_dict(ck['model']))
m2.eval()
print(torch.equal(m(X), m2(X)), sorted(ck['opt']['state'][0]))
print(m2.load_state_dict({k: v for k, v in ck['model'].items() if 'ln' not in k}, strict=False))
try:
    m2.load_state_dict({'fc1.weight': torch.zeros(2, 2)})
except RuntimeError as e:
    print(e)
print(sum((p.numel() for p in m.parameters())), [n for n, _ in m.named_children()], m)
for n, p in m.named_parameters():
    p.requires_grad_(n.startswith('fc2'))
print([n for n, p in m.named_parameters() if p.requires_grad])
print(m.apply(lambda mod: nn.init.zeros_(mod.bias) if isinstance(mod,
    nn.Linear) else None).fc1.bias[:2])
m.double()
print(m.fc1.weight.dtype)
m.float()
print(next(m.parameters()).dtype)
m.to(torch.bfloat16)
print(m(torch.randn(1, 4, dtype=torch.bfloat16)).dtype)
m.float()
m.register_buffer('b', torch.ones(1), persistent=False)
print('b' in m.state_dict(), [n for n, _ in m.named_buffers()])
print(m.get_submodule('fc1'), m.get_parameter('fc1.bias').shape)

class Cfg(Dataset):

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return {'x': torch.full((2,), float(i)), 'y': i, 'n': f's{i}'}
for b in DataLoader(Cfg(), batch_size=2, drop_last=False):
    print(b)
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig
from torch.ao.quantization.quantize_fx import prepare_fx, convert_fx, fuse_fx

class CNN(nn.Module):

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.r = nn.ReLU()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(torch.flatten(self.r(self.bn(self.c(x))), 1))
net = CNN().eval()
ex = (torch.randn(1, 1, 4, 4),)
torch.backends.quantized.engine = 'fbgemm' if False else torch.backends.quantized.engine
p = prepare_fx(net, get_default_qconfig_mapping('x86'), ex)
print(p.code)
with torch.no_grad():
    p(ex[0])
q = convert_fx(p)
print(q.code)
print(q(ex[0]).shape)
f = fuse_fx(CNN().eval())
print(f.code)
with torch.autocast('cpu', dtype=torch.bfloat16):
    print(nn.Linear(2, 2)(torch.ones(1, 2)).dtype)
from torch.utils.checkpoint import checkpoint
x = torch.ones(2, 4, requires_grad=True)
y = checkpoint(lambda t: m.fc1(t).relu(), x, use_reentrant=False)
y.sum().backward()
print(x.grad.shape)
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence, pad_packed_sequence
print(pad_sequence([torch.ones(2), torch.ones(3)], batch_first=True))
lstm = nn.LSTM(2, 3, batch_first=True)
o, (hn, cn) = lstm(pack_padded_sequence(torch.ones(2, 3, 2), [3, 1], batch_first=True))
print(pad_packed_sequence(o, batch_first=True)[1])
torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-07)
try:
    torch.testing.assert_close(torch.ones(2), torch.zeros(2))
except AssertionError as e:
    print(e)
