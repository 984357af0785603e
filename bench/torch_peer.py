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


def main():
    torch.manual_seed(0)
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
