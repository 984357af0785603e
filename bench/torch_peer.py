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
