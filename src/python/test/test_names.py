"""What a wildcard imports, what files of torch.save have, and what graphs call of the operators
whose arguments are functions."""
import io
import unittest
import zipfile

import cfx.torch as torch
from cfx import _cfx
from cfx.torch._higher_order_ops.associative_scan import associative_scan
from cfx.torch._higher_order_ops.scan import scan


class Wildcards(unittest.TestCase):
    def test_functions_are_imported_before_they_are_asked_for(self):
        names = {}
        exec("from cfx.torch.nn.functional import *\nfrom cfx.torch import *", names)
        self.assertEqual(names["gelu"](names["zeros"](1)).tolist(), [0.0])
        self.assertIs(names["float32"], torch.float32)
        self.assertIs(names["Tensor"], torch.Tensor)
        for name in ("nn", "fx", "sys", "math", "_C"):
            self.assertNotIn(name, names)


class Files(unittest.TestCase):
    def test_devices_and_layouts_are_pytorchs(self):
        data = {"device": torch.device("cpu"), "card": torch.device("cuda", 1),
                "layout": torch.strided, "format": torch.channels_last, "dtype": torch.float16,
                "size": torch.Size([1, 2])}
        f = io.BytesIO()
        torch.save(data, f)
        with zipfile.ZipFile(f) as z:
            pickled = z.read("archive/data.pkl")
        for name in (b"ctorch\ndevice\n", b"ctorch.serialization\n_get_layout\n",
                     b"ctorch\nchannels_last\n", b"ctorch\nfloat16\n", b"ctorch\nSize\n"):
            self.assertIn(name, pickled)
        self.assertNotIn(b"cfx", pickled)
        f.seek(0)
        self.assertEqual(torch.load(f), data)


class Scans(unittest.TestCase):
    xs, i = torch.arange(6.).reshape(3, 2), torch.zeros(2)

    def check(self, model):
        ep = torch.export.export(model, (self.xs, self.i))
        for p in (ep, ep.run_decompositions()):
            for a, b in zip(p.module()(self.xs, self.i), model(self.xs, self.i)):
                self.assertTrue(torch.equal(a, b))

    def test_a_program_with_a_scan_runs_as_a_module(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.ones(2) * 2)

            def forward(self, xs, i):
                return scan(lambda c, x: (c + x * self.w, c * x), i, xs)

        self.check(Model())

    def test_so_does_one_that_is_associative(self):
        class Model(torch.nn.Module):
            def forward(self, xs, i):
                return (associative_scan(lambda a, b: a * b + 1, xs, 0, combine_mode="generic"),
                        xs + i)

        self.check(Model())


class Tape(unittest.TestCase):
    def test_what_made_a_tensor_can_be_walked(self):
        x = torch.ones(2, requires_grad=True)
        y = (x * x).sum()
        made = y.grad_fn
        self.assertEqual((type(made).__name__, made.name()), ("SumBackward0", "SumBackward0"))
        self.assertIs(made, y.grad_fn)
        ((times, output),) = made.next_functions
        self.assertEqual((type(times).__name__, output), ("MulBackward0", 0))
        (a, _), (b, _) = times.next_functions
        self.assertIs(a, b)
        self.assertEqual(a.name(), "torch::autograd::AccumulateGrad")
        self.assertIs(a.variable, x)
        self.assertEqual(a.next_functions, ())
        self.assertRaises(AttributeError, lambda: made.variable)
        self.assertIsNone(x.grad_fn)


class Annotations(unittest.TestCase):
    def test_nodes_of_exports_are_annotated(self):
        from cfx.torch.fx import traceback

        class Model(torch.nn.Module):
            def forward(self, x):
                with traceback.annotate({"stage": 0}):
                    x = torch.nn.functional.linear(x, x)
                with traceback.annotate({"stage": 1}):
                    return x.relu() + 1

        def custom(ep):
            return [(n.name, n.meta["custom"]["stage"]) for n in ep.graph.nodes
                    if "custom" in n.meta]

        with traceback.preserve_node_meta():
            ep = torch.export.export(Model(), (torch.ones(2, 2),))
        self.assertEqual(custom(ep), [("linear", 0), ("relu", 1), ("add", 1)])
        self.assertEqual(custom(ep.run_decompositions()),
                         [("permute", 0), ("mm", 0), ("relu", 1), ("add", 1)])
        self.assertEqual(custom(torch.export.export(Model(), (torch.ones(2, 2),))), [])
        with self.assertRaisesRegex(TypeError, "annotations are a dict, got"):
            _cfx.annotate([1])


class Libraries(unittest.TestCase):
    def test_impl_takes_a_library(self):
        with torch.library._scoped_library("pytest_older", "DEF") as lib:
            lib.define("twice(Tensor x) -> Tensor")

            @torch.library.impl(lib, "twice", "CPU")
            def twice(x):
                return x * 2

            self.assertEqual(torch.ops.pytest_older.twice(torch.ones(1)).tolist(), [2.0])


if __name__ == "__main__":
    unittest.main()
