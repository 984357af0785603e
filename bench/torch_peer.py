"""What PyTorch 1.13 (Debian's python3-torch) needs for the cases of bench/*.c: `key nanoseconds`
a line. A peer for `make bench` only; nothing else in the project needs Python."""
import time

import torch
import torch.nn.functional as F


def best(fn):
    fn()
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            fn()
        took = time.perf_counter() - start
        if took > 1e-3 or n > 1_000_000:
            break
        n = int(n * 2e-3 / max(took, 1e-9)) + 1
    least, end = took / n, time.perf_counter() + 0.2
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(n):
            fn()
        least = min(least, (time.perf_counter() - start) / n)
    return least * 1e9


def row(key, fn):
    print(key, f"{best(fn):.1f}", flush=True)


def train_row(key, model, x, loss, y):
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step():
        opt.zero_grad(set_to_none=True)
        loss(model(x), y).backward()
        opt.step()
    row(key, step)


class Block(torch.nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        nn = torch.nn
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.shortcut = nn.Identity() if a == b else nn.Sequential(
            nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


def resnet18():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                         *[Block(*b) for b in ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2),
                                               (256, 256, 1), (256, 512, 2), (512, 512, 1))],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.before, self.after = nn.LayerNorm(384), nn.LayerNorm(384)
        self.qkv, self.out = nn.Linear(384, 1152), nn.Linear(384, 384)
        self.up, self.down = nn.Linear(384, 1536), nn.Linear(1536, 384)

    def forward(self, x):
        heads = [t.view(8, 128, 6, 64).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(8, 128, 384)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.words, self.places = nn.Embedding(4096, 384), nn.Embedding(128, 384)
        self.layers = nn.Sequential(*[Layer() for _ in range(6)])
        self.norm, self.head = nn.LayerNorm(384), nn.Linear(384, 4096, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(128))
        return self.head(self.norm(self.layers(x))).view(1024, 4096)


def train():
    nn = torch.nn

    def mlp(n):
        return nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 10))

    def cnn(c):
        return nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(c, 10))
    y = torch.randint(0, 10, (4,))
    train_row("train_mlp_small", mlp(16), torch.randn(4, 16), F.cross_entropy, y)
    train_row("train_cnn_small", cnn(4), torch.randn(4, 3, 8, 8), F.cross_entropy, y)
    x = torch.randn(4, 2, 16)
    train_row("train_transformer_small", nn.TransformerEncoderLayer(16, 2, 32, 0.0), x, F.mse_loss, x)
    train_row("train_mlp_large", mlp(1024), torch.randn(128, 1024), F.cross_entropy, torch.randint(0, 10, (128,)))
    train_row("train_cnn_large", cnn(32), torch.randn(32, 3, 32, 32), F.cross_entropy, torch.randint(0, 10, (32,)))
    x = torch.randn(64, 8, 256)
    train_row("train_transformer_large", nn.TransformerEncoderLayer(256, 8, 1024, 0.0), x, F.mse_loss, x)
    train_row("train_resnet18", resnet18(), torch.randn(16, 3, 224, 224), F.cross_entropy,
              torch.randint(0, 1000, (16,)))
    if hasattr(F, "scaled_dot_product_attention"):
        train_row("train_gpt", GPT(), torch.randint(0, 4096, (8, 128)), F.cross_entropy,
                  torch.randint(0, 4096, (1024,)))


def main():
    torch.manual_seed(0)
    train()
    torch.set_grad_enabled(False)
    a4, b4 = torch.rand(4), torch.rand(4)
    row("add_4", lambda: a4 + b4)
    for name, shape in (("small", (32, 64)), ("large", (4096, 1024))):
        x = torch.randn(*shape)
        w, b = torch.randn(shape[1]), torch.randn(shape[1])
        row(f"sum_all_{name}", lambda: x.sum())
        row(f"sum_rows_{name}", lambda: x.sum(1))
        row(f"sum_columns_{name}", lambda: x.sum(0))
        row(f"amax_rows_{name}", lambda: x.amax(1))
        row(f"mean_rows_{name}", lambda: x.mean(1))
        row(f"var_rows_{name}", lambda: x.var(1))
        row(f"argmax_rows_{name}", lambda: x.argmax(1))
        row(f"softmax_{name}", lambda: F.softmax(x, 1))
        row(f"log_softmax_{name}", lambda: F.log_softmax(x, 1))
        row(f"layer_norm_{name}", lambda: F.layer_norm(x, (shape[1],), w, b))
        row(f"gelu_{name}", lambda: F.gelu(x))
        row(f"exp_{name}", lambda: x.exp())


main()
