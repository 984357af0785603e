"""What torch.fx needs for the cases of bench/graph.c: `key nanoseconds` a line, for the whole graph.
A peer for `make bench` only. Tracing and building are quadratic in PyTorch 1.13, so large graphs are
left out."""
import copy
import time

import torch
import torch.fx as fx
from torch.fx.passes.dialect.common.cse_pass import CSEPass


def build(n):
    g = fx.Graph()
    last = before = g.placeholder("x")
    for _ in range(0, n, 3):
        a = g.call_function(torch.relu, (last,))
        before = g.call_function(torch.add, (a, before))
        last = g.call_method("neg", (before,))
    g.output(last)
    return g


class Chain(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        for _ in range(self.n):
            x = torch.relu(x)
        return x


def same(x):
    return x


def costless(n):
    g = fx.Graph()
    last = g.placeholder("x")
    for _ in range(n):
        last = g.call_function(same, (last,))
    g.output(last)
    return fx.GraphModule(torch.nn.Module(), g)


def row(key, fn, times):
    least = None
    for _ in range(times):
        start = time.process_time()
        fn()
        took = time.process_time() - start
        least = took if least is None else min(least, took)
    print(key, f"{least * 1e9:.0f}", flush=True)


for n in 1000, 10000:
    times = 5 if n < 10000 else 1
    gm = fx.GraphModule(torch.nn.Module(), build(n))
    plain, x = costless(n), torch.ones(1)
    row(f"fx_trace_{n}", lambda: fx.symbolic_trace(Chain(n)), times)
    row(f"fx_build_{n}", lambda: build(n), times)
    row(f"fx_copy_{n}", lambda: copy.deepcopy(gm.graph), times)
    row(f"fx_cse_{n}", lambda: CSEPass()(gm), times)
    row(f"fx_print_{n}", lambda: str(gm.graph), times)
    row(f"fx_code_{n}", lambda: gm.graph.python_code("self").src, times)
    row(f"fx_lint_{n}", lambda: gm.graph.lint(), times)
    row(f"fx_dce_{n}", lambda: gm.graph.eliminate_dead_code(), times)
    row(f"fx_interpret_{n}", lambda: fx.Interpreter(plain).run(x), times)
