"""Tensors on a card: one that is played by the host (tests/played), where the build has it."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import cfx

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda")
CARD = os.path.join(os.path.dirname(os.path.abspath(cfx.__file__)), "..", "..", "card")


def run(*args, **more):
    """(exit status, what a script printed) with the card that is played."""
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(CARD), **more)
    done = subprocess.run([sys.executable, "-u", "-m", "cfx", *args], text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def plain(text):
    """PyTorch calls some of the methods that check devices otherwise than their operators."""
    return re.sub(r"wrapper_CUDA_+\w+", "wrapper_CUDA", text)


@unittest.skipUnless(os.path.exists(os.path.join(CARD, "libcuda.so.1")), "no card is played here")
class Card(unittest.TestCase):
    maxDiff = None

    def script(self, text, **more):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
            f.write(text)
            f.flush()
            return run(f.name, **more)

    def test_lines_print_what_they_print_there(self):
        status, got = run(os.path.join(HERE, "lines.py"), os.path.join(HERE, "lines.txt"))
        with open(os.path.join(HERE, "lines.out"), encoding="utf-8") as f:
            self.assertEqual(plain(got), plain(f.read()))
        self.assertEqual(status, 0)

    def test_files_and_copies(self):
        status, got = self.script("""
import copy, io, pickle
import torch
x = torch.arange(6.).reshape(2, 3).cuda()
f = io.BytesIO()
torch.save({"x": x, "row": x[1]}, f)
for where in (None, "cpu", {"cuda:0": "cpu"}):
    f.seek(0)
    back = torch.load(f, map_location=where)
    print(back["x"].device, back["row"].device, back["row"].tolist())
print(pickle.loads(pickle.dumps(x)), copy.deepcopy(x).device)
print(x.__dlpack_device__())
with torch.device("cuda"):
    print(torch.ones(2).device, torch.tensor([1]).device, torch.ones(2, device="cpu").device)
    with torch.device("cpu"):
        print(torch.ones(2).device)
print(torch.ones(2).device)
torch.set_default_device("cuda")
print(torch.zeros(1).device, torch.get_default_device(), torch.nn.Linear(2, 2).weight.device)
torch.set_default_device(None)
try:
    memoryview(x)
except TypeError as e:
    print(e)
""")
        self.assertEqual(got, """cuda:0 cuda:0 [3.0, 4.0, 5.0]
cpu cpu [3.0, 4.0, 5.0]
cpu cpu [3.0, 4.0, 5.0]
tensor([[0., 1., 2.],
        [3., 4., 5.]], device='cuda:0') cuda:0
(2, 0)
cuda:0 cuda:0 cpu
cpu
cpu
cuda:0 cuda:0 cuda:0
can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host \
memory first.
""")
        self.assertEqual(status, 0)

    def test_streams_events_and_numbers_of_cards(self):
        status, got = self.script("""
import torch
x = torch.ones(2, 3, device="cuda")
print(x.device, x.cpu().cuda(0).device,
      torch.nn.Linear(3, 1, device="cuda:0")(x).shape, torch.device(0))
p = torch.cuda.get_device_properties(0)
print(p.name == torch.cuda.get_device_name(),
      (p.major, p.minor) == torch.cuda.get_device_capability(), x.type())
side = torch.cuda.Stream()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
with torch.cuda.stream(side):
    y = x * 2
side.wait_stream(torch.cuda.current_stream())
end.record(side)
torch.cuda.synchronize()
print(start.elapsed_time(end) >= 0, end.query(), y.sum().item(), side.device)
for times in (lambda: torch.cuda.Event().elapsed_time(end),
              lambda: torch.cuda.Event(enable_timing=True).elapsed_time(end)):
    try:
        times()
    except ValueError as e:
        print(e)
held = torch.cuda.memory_allocated()
z = torch.ones(1 << 20, device="cuda")
more = torch.cuda.memory_allocated() - held
del z
torch.cuda.empty_cache()
print(more >= 4 << 20, torch.cuda.memory_allocated() <= held)
""")
        self.assertEqual(got, """cuda:0 cuda:0 torch.Size([2, 1]) cuda:0
True True torch.cuda.FloatTensor
True True 12.0 cuda:0
Both events must be created with argument 'enable_timing=True'.
Both events must be recorded before calculating elapsed time.
True True
""")
        self.assertEqual(status, 0)

    def test_generators_and_the_most_memory(self):
        status, got = self.script("""
import torch
torch.manual_seed(0)
a, b = torch.rand(2), torch.rand(2, device="cuda")
torch.cuda.manual_seed(0)
print(torch.equal(torch.rand(2, device="cuda"), b), torch.cuda.initial_seed())
torch.cuda.manual_seed_all(1)
state = torch.cuda.get_rng_state()
c, host = torch.rand(2, device="cuda"), torch.get_rng_state()
print(torch.equal(c, b), state.tolist(), torch.cuda.get_rng_state_all()[0].tolist()[8])
torch.cuda.set_rng_state(state)
print(torch.equal(torch.rand(2, device="cuda"), c))
try:
    torch.cuda.set_rng_state(torch.zeros(3))
except TypeError as e:
    print(e)
x = torch.ones(1 << 20, device="cuda")
before = torch.cuda.max_memory_allocated()
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
print(before >= 4 << 20, before - torch.cuda.max_memory_allocated() >= 4 << 20)
""")
        self.assertEqual(got, """True 0
False [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] 4
True
RNG state must be a torch.ByteTensor of 16 bytes
True True
""")
        self.assertEqual(status, 0)

    def test_a_forked_process(self):
        status, got = self.script("""
import os, torch
x = torch.ones(3, device="cuda")
if not os.fork():
    try:
        x + 1
    except RuntimeError as e:
        print(str(e).split("\\n")[0], flush=True)
    os._exit(0)
os.wait()
print((x + 1).tolist())
""")
        self.assertEqual(got, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                         "multiprocessing, you must use the 'spawn' start method\n"
                         "[2.0, 2.0, 2.0]\n")
        self.assertEqual(status, 0)

    def test_without_a_card(self):
        status, got = self.script("""
import torch
print(torch.cuda.is_available(), torch.cuda.device_count())
print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.empty_cache())
for make in (lambda: torch.ones(2).cuda(), lambda: torch.ones(2, device="cuda"), torch.cuda.Event,
             lambda: torch.ones(2, device="cuda:0"), torch.cuda.Stream, torch.cuda.synchronize,
             torch.cuda.get_device_properties, torch.cuda.current_device):
    try:
        make()
    except AssertionError as e:
        print(e)
""", CFX_CARD_COUNT="0")
        self.assertEqual(got, "False 0\n0 0 None\n" + 8 * "Torch not compiled with CUDA enabled\n")
        self.assertEqual(status, 0)

    def test_a_card_without_memory(self):
        status, got = self.script("""
import torch
x = torch.ones(10, device="cuda")
try:
    torch.ones(1 << 20, device="cuda")
except MemoryError as e:
    print("asking for 4194304 bytes" in str(e), "out of memory" in str(e))
print((x + 1).sum().item())
""", CFX_CARD_MEMORY=str(1 << 20))
        self.assertEqual(got, "True True\n20.0\n")
        self.assertEqual(status, 0)
