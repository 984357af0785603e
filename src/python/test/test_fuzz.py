"""Everything called with everything: nothing but exceptions may come of it."""
import subprocess
import sys
import unittest

CODE = """
import random, sys, time, cfx, cfx.torch as torch
import cfx.torch.fx, cfx.torch.export, cfx.torch.utils.flop_counter, cfx.torch.fx.passes.infra
import cfx.torch.ao.quantization as aq
from cfx.torch.ao.quantization import backend_config, eager, fx, quantize, quantize_fx
from cfx.torch.ao.nn import intrinsic, qat, quantized
rng = random.Random(int(sys.argv[1]))
torch.manual_seed(1)
gm = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
node = list(gm.graph.nodes)[1]
program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))._program
session = cfx.Session()
torch.library.define("fuzz::op", "(Tensor x) -> Tensor")
observer = aq.PerChannelMinMaxObserver()
fake = aq.FakeQuantize()
prepared = quantize_fx.prepare_fx(torch.nn.Sequential(torch.nn.Linear(2, 2)).eval(),
                                  aq.get_default_qconfig_mapping(), ())
prepared(torch.ones(2, 2))
int8 = quantize_fx.convert_fx(prepared)
eager_model = torch.nn.Sequential(aq.QuantStub(), torch.nn.Linear(2, 2), aq.DeQuantStub()).eval()
eager_model.qconfig = aq.default_qconfig
watched = aq.prepare(eager_model)
watched(torch.ones(2, 2))
swapped = aq.convert(watched)
functional = quantized.FloatFunctional()
pair = aq.fuse_modules(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), ["0", "1"])[0]
tracer = torch.fx.Tracer()
tracer.graph = torch.fx.Graph()
proxy = torch.fx.Proxy(tracer.graph.placeholder("x"), tracer)
layer = torch.nn.LSTM(2, 2)

class Odd:
    def __index__(self): raise ValueError("odd")
    def __len__(self): return -1
    def __iter__(self): raise ValueError("odd")
    def __getattr__(self, name): raise RuntimeError("odd")

cycle = []; cycle.append(cycle)
things = [None, True, 0, 1, -1, 2 ** 70, 1.5, float("nan"), 1j, "", "relu", "a\\0b", "\\ud800",
          b"x", (), [], {}, {"x": 1}, [1, 2], (0, 1), cycle, Odd(), object(), slice(0, 1), ...,
          torch.ones(2, 2), torch.ones(2, 2, requires_grad=True), torch.zeros(0), torch.tensor(3),
          torch.float16, torch.device("cpu"), torch.strided, torch.Size([1]), lambda *a: a[0],
          print, node, gm.graph, gm, program, session, torch.ops.fuzz.op.default,
          torch.ops.aten.relu.default, torch.relu, type, int, observer, fake, prepared, int8, proxy,
          eager_model, watched, swapped, functional, pair, torch.nn.Linear, torch.nn.ReLU(), layer,
          observer._c, torch.quint8, torch.per_channel_affine, aq.default_qconfig,
          {"": aq.default_qconfig}, torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)]
skip = {"input", "breakpoint", "exit", "quit", "set_num_threads", "shut", "close", "adopt",
        "set_default_dtype", "set_fake_mode", "set_grad_mode", "set_overrides", "from_file"}
_cfx = cfx._cfx
places = [(_cfx, n) for n in dir(_cfx) if not n.startswith("__")]
for o in (things[25], node, gm.graph, program, session, torch.library, torch.float32,
          torch.device("cpu"), torch.ops.aten.relu.default, torch.relu, observer, fake, int8,
          observer._c, getattr(int8, "0"), tracer, proxy, layer, aq, quantize_fx, gm,
          backend_config, eager, fx.custom_config,
          quantize, intrinsic, qat, quantized, watched, swapped, swapped[1], functional, pair,
          quantized.Quantize(1.0, 0, torch.quint8), quantized.QFunctional(), torch.fx.passes.infra,
          torch.utils.flop_counter, torch.func, torch.autograd, torch.utils.data):
    places += [(o, n) for n in dir(o)
               if n not in ("__class__", "__reduce__", "__reduce_ex__", "__init_subclass__")]
places += [(torch, s[6:]) for s in _cfx.spellings() if s.startswith("torch.") and s.count(".") == 1]
end = time.monotonic() + 5
for _ in range(4000):
    if time.monotonic() > end: break
    o, name = rng.choice(places)
    if name in skip or name.startswith(("_save", "save", "to_folder", "__del", "push", "_draw",
                                        "_compile", "compile")):
        continue
    args = [rng.choice(things) for _ in range(rng.randrange(5))]
    kwargs = {rng.choice(["x", "dim", "dtype", "input", "other"]): rng.choice(things)} \\
        if rng.random() < 0.2 else {}
    try:
        f = getattr(o, name)
        if callable(f) and f not in (print, type): f(*args, **kwargs)
    except BaseException as e:
        if isinstance(e, (SystemExit, KeyboardInterrupt)): raise
print("alive")
"""


class Fuzz(unittest.TestCase):
    def test_calls_with_anything(self):
        for seed in (1, 2, 3, 4):
            done = subprocess.run([sys.executable, "-c", CODE, str(seed)], text=True, timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((seed, done.returncode, done.stdout[-2000:].splitlines()[-1:]),
                             (seed, 0, ["alive"]), done.stdout[-2000:])
