"""What function modes, subclasses and proxies are told of calls, as PyTorch tells them."""
import unittest

import cfx.torch as torch
from cfx.torch import fx
from cfx.torch.overrides import TorchFunctionMode, resolve_name


class Log(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(" ".join([str(resolve_name(func)), *(t.__name__ for t in types), "|",
                                   *(type(a).__name__ for a in args)]))
        return func(*args, **(kwargs or {}))


class Modes(unittest.TestCase):
    def seen(self, f):
        x, p = torch.ones(2, 2, dtype=torch.int64), torch.nn.Parameter(torch.ones(2))
        with Log() as log:
            f(x, p)
        return log.seen

    def test_attributes(self):
        for name in ("shape", "dtype", "device", "requires_grad", "grad", "grad_fn", "is_leaf",
                     "ndim", "T", "mT", "data", "layout", "is_cuda", "itemsize", "is_sparse"):
            self.assertEqual(self.seen(lambda x, p: getattr(x, name)),
                             [f"torch.Tensor.{name}.__get__ Tensor | Tensor"])
        self.assertEqual(self.seen(lambda x, p: p.shape),
                         ["torch.Tensor.shape.__get__ Parameter | Parameter"])
        self.assertEqual(self.seen(lambda x, p: setattr(p, "grad", None)),
                         ["torch.Tensor.grad.__set__ Parameter | Parameter NoneType"])

    def test_operators(self):
        for text, names in {
                "x + 1": "add", "1 + x": "add", "1 - x": "__rsub__ Tensor", "2 * x": "mul",
                "2 / x": "__rtruediv__ Tensor", "x // 2": "__floordiv__ Tensor",
                "2 // x": "__rfloordiv__ Tensor", "x % 2": "remainder", "2 % x": "__rmod__ Tensor",
                "2 ** x": "__rpow__ Tensor", "x & 1": "__and__", "1 & x": "bitwise_and",
                "x << 1": "__lshift__", "1 << x": "__rlshift__ Tensor", "x == 1": "__eq__",
                "x != 1": "ne", "x < 1": "lt", "x[0:1]": "__getitem__"}.items():
            with self.subTest(text):
                seen = self.seen(lambda x, p: eval(text))
                self.assertEqual(len(seen), 1)
                self.assertEqual(seen[0].rpartition(" | ")[0], f"torch.Tensor.{names}")
        for text, name in {"~x": "__invert__", "-x": "neg", "abs(x)": "abs", "len(x)": "__len__",
                           "x.dim()": "dim", "x.detach()": "detach", "x.tolist()": "tolist",
                           "x.is_floating_point()": "is_floating_point"}.items():
            self.assertEqual(self.seen(lambda x, p: eval(text)),
                             [f"torch.Tensor.{name} Tensor | Tensor"])
        self.assertEqual(self.seen(lambda x, p: float(x[0, 0]))[1:],
                         ["torch.Tensor.__float__ Tensor | Tensor"])

    def test_functions(self):
        F = torch.nn.functional
        self.assertEqual(self.seen(lambda x, p: torch.relu(x)), ["torch.relu | Tensor"])
        self.assertEqual(self.seen(lambda x, p: F.relu(p)),
                         ["torch.nn.functional.relu | Parameter"])
        self.assertEqual(self.seen(lambda x, p: F.pad(x, (1, 1))),
                         ["torch.nn.functional.pad Tensor | Tensor tuple"])
        self.assertEqual(self.seen(lambda x, p: torch.equal(x, x)), ["torch.equal | Tensor Tensor"])
        self.assertEqual(self.seen(lambda x, p: torch.tensor([1])), ["torch.tensor | list"])
        self.assertEqual(self.seen(lambda x, p: torch.result_type(x, 2.0)),
                         ["torch.result_type | Tensor float"])

    def test_a_mode_that_takes_nothing_is_named(self):
        class Nothing(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return NotImplemented

        one = torch.ones(1)
        with self.assertRaisesRegex(TypeError, "(?s)Multiple dispatch failed for 'torch.relu'; .*"
                                               "  - mode object <.*Nothing object"):
            with Nothing():
                torch.relu(one)


class Subclasses(unittest.TestCase):
    def test_attributes_and_operators(self):
        seen = []

        class Sub(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        x = torch.ones(2, 2).as_subclass(Sub)
        self.assertEqual((tuple(x.shape), type(x.T), type(1 - x), len(x)), ((2, 2), Sub, Sub, 2))
        self.assertEqual(seen, ["__get__", "__get__", "__rsub__", "__len__"])


def traced(text):
    return fx.symbolic_trace(eval(f"lambda x: {text}", {"torch": torch, "c": torch.ones(2, 3)}))


class Proxies(unittest.TestCase):
    def test_are_no_tensors_to_methods(self):
        with self.assertRaises(TypeError) as raised:
            traced("torch.Tensor.add(x, 1)")
        self.assertEqual(str(raised.exception), "descriptor 'add' for 'torch._C.TensorBase' "
                                                "objects doesn't apply to a 'Proxy' object")
        with self.assertRaisesRegex(TypeError, r"finfo\(\): argument 'type' \(position 1\) must "
                                               r"be torch.dtype, not Attribute"):
            traced("torch.finfo(x.dtype)")

    def test_stand_for_every_argument(self):
        for text in ("torch.zeros(x)", "torch.arange(0, x)", "torch.reshape(c, (x, -1))",
                     "torch.topk(c, x)", "torch.zeros(2, dtype=x)", "c.view(x)",
                     "torch.full((2,), x)", "torch.roll(c, x)", "torch.cat(x)",
                     "torch.add(1, x)", "torch.pow(2, x)", "torch.clamp(c, min=x)",
                     "torch.where(c > 0, 1, x)", "torch.cat([c, x])", "c.masked_fill(c > 0, x)",
                     "torch.addcmul(x, x, x, value=2)", "torch.sum(a=x)", "torch.normal(0.0, x)",
                     "torch.add(input=x, other=x)", "torch.index_put(x, [x], x)",
                     "torch.einsum('ij,jk', c, x)", "torch.broadcast_tensors(x, c)",
                     "torch.block_diag(x, c)", "torch.repeat_interleave(x, x, 0)",
                     "torch.bucketize(2, x)", "torch.polygamma(1, x)", "torch.hstack([x, x])",
                     "torch.layer_norm(x, [3])", "torch.batch_norm(x, x, x, x, x, True, 0.1, 1e-5,"
                     " False)"):
            with self.subTest(text):
                self.assertEqual(len([n for n in traced(text).graph.nodes
                                      if n.op in ("call_function", "call_method")]), 1)

    def test_methods_of_constants(self):
        class Model(torch.nn.Module):
            def __init__(self, text):
                super().__init__()
                self.text, self.c = text, torch.ones(2)

            def forward(self, x):
                return eval(self.text, {"c": self.c, "x": x})

        for text, want in {"c + x": "add", "c // x": "__floordiv__", "c & x": "__and__",
                           "c == x": "eq", "c << x": "__lshift__", "c[x]": "__getitem__"}.items():
            nodes = [n for n in fx.symbolic_trace(Model(text)).graph.nodes if n.op == "call_method"]
            self.assertEqual([n.target for n in nodes], [want])
        self.assertEqual(str(nodes[0].args), "(c, x)")

    def test_functions_have_torch_names(self):
        for name in ("numel", "is_floating_point", "is_complex", "get_device", "is_nonzero"):
            self.assertIn(f"{name} = torch.{name}(x)", traced(f"torch.{name}(x)").code)


class Words(unittest.TestCase):
    def test_of_methods_leave_out_their_tensor(self):
        with self.assertRaises(TypeError) as raised:
            torch.ones(2).view("x")
        self.assertEqual(str(raised.exception).split(", but")[0],
                         "view() received an invalid combination of arguments - got (str)")
        self.assertNotIn("Tensor", str(raised.exception))
        with self.assertRaisesRegex(TypeError, r"argument 'shape' \(position 1\)"):
            torch.ones(2).reshape("x")

    def test_of_numbers_devices_and_arguments(self):
        for f, kind, words in (
                (lambda: float(torch.ones(2)), ValueError, "only one element tensors can be "
                                                           "converted to Python scalars"),
                (lambda: torch.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be "
                                                             "converted to Scalar"),
                (lambda: torch.ones(1).relu(3), TypeError, "TensorBase.relu() takes no arguments "
                                                           "(1 given)")):
            with self.assertRaises(kind) as raised:
                f()
            self.assertEqual(str(raised.exception), words)
        for f in (lambda: torch.ones(1).to("nodev"), lambda: torch.zeros(1, device="nodev"),
                  lambda: torch.device("nodev")):
            with self.assertRaisesRegex(RuntimeError, "device type at start of device string: nod"):
                f()

    def test_result_type(self):
        a, b = torch.ones(2, 3, dtype=torch.int8), torch.ones(5, dtype=torch.float16)
        self.assertIs(torch.result_type(a, b), torch.float16)
        self.assertIs(torch.result_type(a, torch.tensor(2.0)), torch.float32)
        self.assertIs(torch.result_type(a, 1), torch.int8)


if __name__ == "__main__":
    unittest.main()
