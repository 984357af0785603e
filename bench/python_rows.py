"""What calls from Python cost: `key nanoseconds` a line. Run as it is for PyTorch, and by
`python3 -m cfx` for cfx; `make bench` does both and puts them side by side."""
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.fx


def best(f, times):
    """Nanoseconds of one call: the least of some rounds."""
    least = float("inf")
    for _ in range(7):
        start = time.perf_counter_ns()
        for _ in range(times):
            f()
        least = min(least, (time.perf_counter_ns() - start) / times)
    return least


class Small(torch.nn.Module):
    def forward(self, x):
        return torch.add(x, 1)


def imported(name):
    """Nanoseconds until a module is there, in a process of its own."""
    code = f"import time; t = time.perf_counter_ns(); import {name}; " \
           "print(time.perf_counter_ns() - t)"
    return min(int(subprocess.run([sys.executable, "-c", code], text=True, check=True,
                                  stdout=subprocess.PIPE).stdout) for _ in range(3))


def in_c(program):
    """Nanoseconds of a call of the same program by the command, which is C's."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.pt2")
        program.save(path)
        done = subprocess.run([os.environ["CFX_COMMAND"], "bench", path, "--json", "--threads", "1",
                               "--runs", "5000"], text=True, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["best_ms"] * 1e6


def main():
    own = "cfx" in sys.modules
    a, b = torch.ones(4), torch.ones(4)
    layers = [m for _ in range(20) for m in (torch.nn.Linear(4, 4), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    print("python_add_4", best(lambda: torch.add(a, b), 20000))
    print("python_plus_4", best(lambda: a + b, 20000))
    print("python_layers_40", best(lambda: model(a), 200))
    print("python_trace_40", best(lambda: torch.fx.symbolic_trace(model), 20))
    try:
        program = torch.export.export(Small(), (a,))
    except Exception:  # versions of PyTorch that have no export
        program = None
    if program:
        run = program._program if own else program.module()
        print("python_program_1", best(lambda: run(a), 5000))
    if program and own and "CFX_COMMAND" in os.environ:
        print("c_program_1", in_c(program._program))
    print("python_import", imported("cfx" if own else "torch"))


main()
