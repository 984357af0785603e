"""Programs: opened, run, tapped, hooked, changed, drawn, compared and saved."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import cfx
import cfx.torch as torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


class Programs(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = Model().eval()
        self.x = torch.randn(3, 4)
        self.p = cfx.export(self.model, (self.x,))

    def same(self, a, b, tolerance=1e-6):
        self.assertLess((a - b).abs().max().item(), tolerance)

    def test_run_and_tap(self):
        self.same(self.p(self.x), self.model(self.x))
        result, taken = self.p.run(self.x, tap="op:gelu")
        self.assertEqual(list(taken), ["gelu"])
        self.same(taken["gelu"], torch.nn.functional.gelu(self.model.fc1(self.x)))
        self.same(result, self.model(self.x))
        with self.assertRaisesRegex(KeyError, "no node matches 'op:tanh'"):
            self.p.run(self.x, tap="op:tanh")
        with self.assertRaises(Exception):
            self.p(torch.ones(3, 5))

    def test_hooks(self):
        seen = []
        handle = self.p.hook("op:gelu", lambda name, node, value: seen.append(name) or value * 0)
        self.same(self.p(self.x), self.model.fc2.bias.expand(3, 2))
        handle.remove()
        self.same(self.p(self.x), self.model(self.x))
        self.assertEqual(seen, ["gelu"])
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            self.p.hook("*", lambda *a: 1 / 0)
            self.p(self.x)

    def test_looks(self):
        self.assertIn("torch.ops.aten.gelu.default", self.p.code)
        self.assertIn("class GraphModule", self.p.readable())
        self.assertTrue(self.p._repr_svg_().startswith("<svg") or "<svg" in self.p._repr_svg_())
        self.assertIn("<iframe", self.p._repr_html_())
        cost = self.p.cost()
        self.assertGreaterEqual(cost["flops"], 2 * 3 * (4 * 8 + 8 * 2))
        self.assertIn("gelu", cost["nodes"])

    def test_changes(self):
        core = self.p.decompose()
        self.assertIn("aten.addmm.default", core.code)
        self.same(core(self.x), self.model(self.x))
        report = []
        self.same(core.optimize(report=report)(self.x), self.model(self.x), 1e-5)
        self.assertTrue(report)
        self.same(self.p.rewrite("r: gelu(x) -> relu(x)")(self.x),
                  self.model.fc2(torch.relu(self.model.fc1(self.x))))
        few = self.p.quantize(scheme="weight")
        self.same(few(self.x), self.model(self.x), 0.1)
        self.assertTrue(self.p.compare(few, self.x))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.pt2")
            self.p.save(path)
            self.same(cfx.open(path)(self.x), self.model(self.x))
            self.assertEqual(self.p.draw(os.path.join(folder, "m.svg")), f"{folder}/m.svg")
            with self.assertRaises(OSError):
                cfx.open(os.path.join(folder, "nothing.pt2"))
            odd = os.path.join(folder, "m.xyz")
            with self.assertRaisesRegex(ValueError, "ends in .pt2, .onnx or .fx, not in .xyz"):
                self.p.save(odd)
            self.assertFalse(os.path.exists(odd))
            torch.export.save(torch.export.export(self.model, (self.x,)), odd)
            self.same(cfx.open(odd)(self.x), self.model(self.x))
            with open(path, "wb") as f:
                f.write(b"nonsense")
            with self.assertRaises(Exception):
                cfx.open(path)

    def test_threads(self):
        want, wrong = self.model(self.x).tolist(), []

        def work():
            for _ in range(100):
                if self.p(self.x).tolist() != want:
                    wrong.append(1)

        want = self.p(self.x).tolist()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


class Interrupt(unittest.TestCase):
    def test_a_long_run_is_interrupted(self):
        # what a shell starts in the background ignores the signal: not this process
        code = ("import signal\n"
                "import cfx.torch as torch\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "print('go', flush=True)\n"
                "torch.while_loop(lambda i: i >= 0, lambda i: (i * 1,), (torch.tensor(1),))\n")
        run = subprocess.Popen([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        self.assertEqual(run.stdout.readline(), "go\n")
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        text, _ = run.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", text)

class Making(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = Model().eval()
        self.x = torch.randn(3, 4)
        self.p = cfx.export(self.model, (self.x,))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_sessions_have_state_of_their_own(self):
        class Count(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", torch.zeros(1))

            def forward(self, x):
                self.n.add_(1)
                return x * self.n

        p = cfx.export(Count(), (torch.ones(1),))
        a, b = cfx.Session(), cfx.Session()
        self.assertEqual([s.run(p, torch.ones(1)).item() for s in (a, a, b, a, b)],
                         [1.0, 2.0, 1.0, 3.0, 2.0])
        self.assertEqual((a.tensor(p.state_dict["n"]).item(), p.state_dict["n"].item()), (3.0, 0.0))
        a.reset()
        self.assertEqual(a.run(p, torch.ones(1)).item(), 1.0)
        for mistake in (lambda: cfx.Session(3), lambda: a.run(3), lambda: a.tensor(3)):
            self.assertRaises(TypeError, mistake)

    def test_c(self):
        path = self.path("net.c")
        self.assertEqual(self.p.compile_c(path, name="net", test=True, inputs=[self.x]), path)
        self.assertEqual(sorted(os.listdir(self.folder)), ["net.c", "net.h"])
        self.assertIn("net_test", open(path).read())
        self.assertIn("static", self.p.compile_c(weights="inline"))
        with self.assertRaisesRegex(ValueError, "weights are auto, inline, file"):
            self.p.compile_c(weights="none")

    def test_parts(self):
        report, y = [], (self.x,)
        for stage in self.p.split(2, report=report):
            y = stage(*(y if isinstance(y, tuple) else (y,)))
        self.assertTrue(torch.equal(y, self.p(self.x)))
        self.assertEqual(len(report), 2)
        cut = {}
        self.assertEqual(len(self.p.parallel(2, cut)), 2)
        self.assertEqual(cut["cut"], ["linear", "linear_1"])
        with self.assertRaisesRegex(ValueError, "at least one rank"):
            self.p.parallel(0)
        with self.assertRaisesRegex(ValueError, "99 stages are more"):
            self.p.split(99)

    def test_other_files(self):
        self.p.save(self.path("net.onnx"))
        self.assertLess((cfx.open(self.path("net.onnx"))(self.x) - self.p(self.x)).abs().max(),
                        1e-6)
        other = Model()
        torch.save(other.state_dict(), self.path("w.pt"))
        self.assertEqual(len(self.p.load_weights(self.path("w.pt"))["loaded"]), 4)
        self.assertLess((self.p(self.x) - other(self.x)).abs().max(), 1e-6)
        self.assertRaises(cfx.FileError, self.p.merge_lora, self.path("nothing"))
        self.p.compile_c(self.path("after.c"))  # though its weights were saved
