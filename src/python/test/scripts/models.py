"""A GPT that is trained and generates, an LSTM, a VAE; traced and exported."""
import torch, math
from torch import nn
import torch.nn.functional as F
import torch.fx as fx
from collections import OrderedDict
torch.manual_seed(0)

class Attn(nn.Module):

    def __init__(s, d, h):
        super().__init__()
        s.h = h
        s.qkv = nn.Linear(d, 3 * d, bias=False)
        s.o = nn.Linear(d, d)
        s.register_buffer('mask', torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(s, x):
        B, T, C = x.shape
        q, k, v = s.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, s.h, C // s.h).transpose(1, 2) for t in (q, k, v))
        a = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
        a = a.masked_fill(s.mask[:, :, :T, :T] == 0, float('-inf'))
        a = F.softmax(a, dim=-1)
        return s.o((a @ v).transpose(1, 2).contiguous().view(B, T, C))

class Block(nn.Module):

    def __init__(s, d, h):
        super().__init__()
        s.ln1 = nn.LayerNorm(d)
        s.attn = Attn(d, h)
        s.ln2 = nn.LayerNorm(d)
        s.mlp = nn.Sequential(OrderedDict([('fc', nn.Linear(d, 4 * d)), ('act',
            nn.GELU(approximate='tanh')), ('proj', nn.Linear(4 * d, d)), ('drop',
                nn.Dropout(0.0))]))

    def forward(s, x):
        x = x + s.attn(s.ln1(x))
        return x + s.mlp(s.ln2(x))

class GPT(nn.Module):

    def __init__(s, V=11, d=8, n=2, h=2):
        super().__init__()
        s.tok = nn.Embedding(V, d)
        s.pos = nn.Parameter(torch.zeros(1, 16, d))
        s.blocks = nn.ModuleList([Block(d, h) for _ in range(n)])
        s.ln = nn.LayerNorm(d)
        s.head = nn.Linear(d, V, bias=False)
        s.head.weight = s.tok.weight
        s.apply(s._init)

    def _init(s, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Embedding):
            nn.init.normal_(m.weight, std=0.02)

    def forward(s, idx, targets=None):
        x = s.tok(idx) + s.pos[:, :idx.size(1)]
        for b in s.blocks:
            x = b(x)
        logits = s.head(s.ln(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1),
                ignore_index=-1)
        return (logits, loss)

    @torch.no_grad()
    def generate(s, idx, n, temperature=1.0, top_k=3):
        for _ in range(n):
            l, _ = s(idx[:, -16:])
            l = l[:, -1] / temperature
            v, _i = torch.topk(l, top_k)
            l[l < v[:, [-1]]] = -float('inf')
            idx = torch.cat((idx, torch.multinomial(F.softmax(l, -1), 1)), 1)
        return idx
m = GPT()
print(sum((p.numel() for p in m.parameters())))
opt = torch.optim.AdamW([{'params': [p for p in m.parameters() if p.dim() >= 2],
    'weight_decay': 0.1}, {'params': [p for p in m.parameters() if p.dim() < 2],
        'weight_decay': 0.0}], lr=0.003, betas=(0.9, 0.95))
x = torch.randint(0, 11, (4, 8))
y = (x + 1) % 11
for i in range(20):
    _, l = m(x, y)
    opt.zero_grad()
    l.backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    if i % 5 == 0:
        print(i, f'{l.item():.4f}')
m.eval()
torch.manual_seed(1)
print(m.generate(x[:1], 5))

class LSTMTagger(nn.Module):

    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(7, 4)
        s.l = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        s.o = nn.Linear(10, 3)

    def forward(s, x):
        h, _ = s.l(s.e(x))
        return F.log_softmax(s.o(h), dim=-1)
t = LSTMTagger()
out = t(torch.tensor([[1, 2, 3]]))
print(out.shape, f'{F.nll_loss(out.view(-1, 3), torch.tensor([0, 1, 2])).item():.4f}')
print(t)

class VAE(nn.Module):

    def __init__(s):
        super().__init__()
        s.enc = nn.Conv2d(1, 4, 3, 2, 1)
        s.mu = nn.Linear(64, 2)
        s.lv = nn.Linear(64, 2)
        s.dec = nn.Sequential(nn.Linear(2, 64), nn.Unflatten(1, (4, 4, 4)),
            nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid())

    def forward(s, x):
        h = F.leaky_relu(s.enc(x), 0.2).flatten(1)
        mu, lv = (s.mu(h), s.lv(h))
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv)
        return (s.dec(z), mu, lv)
v = VAE()
img = torch.rand(2, 1, 8, 8)
r, mu, lv = v(img)
loss = F.binary_cross_entropy(r, img,
    reduction='sum') - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
loss.backward()
print(f'{loss.item():.3f}', f'{v.enc.weight.grad.norm().item():.4f}')
print(fx.symbolic_trace(v).code)
b = Block(8, 2)

class T2(fx.Tracer):

    def is_leaf_module(s, mod, q):
        return isinstance(mod, (Attn,)) or super().is_leaf_module(mod, q)
g = fx.GraphModule(b, T2().trace(b))
print(g.code)
print(torch.allclose(g(torch.ones(1, 4, 8)), b(torch.ones(1, 4, 8))))
ep = torch.export.export(m, (x,), dynamic_shapes={'idx': {0: torch.export.Dim('B', min=1,
    max=64)}})
print(len(list(ep.graph.nodes)))
print(torch.allclose(ep.module()(x[:2])[0], m(x[:2])[0], atol=1e-05))
print(ep.range_constraints)
from torch.export import Dim
