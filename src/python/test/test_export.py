"""cfx.torch.export: sizes and numbers that vary, control flow, lines of the model, unflatten."""
import unittest

import cfx.torch as torch
from cfx.torch.export import Dim, export, unflatten


def program_of(f, *args, **options):
    class Model(torch.nn.Module):
        def forward(self, *args):
            return f(*args)

    return export(Model(), args, **options)


def code_of(f, *args, **options):
    return program_of(f, *args, **options).graph_module.code.strip()


class Numbers(unittest.TestCase):
    maxDiff = None

    def test_a_number_that_is_data_is_computed_with(self):
        def f(x, y):
            n = x.item()
            torch._check(n <= 10)
            torch._check(n > 3)
            return y[:1].expand(n), n * 2 + 1

        ep = program_of(f, torch.tensor(5), torch.ones(4))
        self.assertEqual(str(ep.range_constraints), "{'u0': VR[4, 10]}")
        y, n = ep.module()(torch.tensor(7), torch.ones(4))
        self.assertEqual((y.shape, n), ((7,), 15))
        with self.assertRaisesRegex(RuntimeError, "Runtime assertion failed for .* u0 <= 10"):
            ep.module()(torch.tensor(11), torch.ones(4))

    def test_deciding_by_it_is_refused_with_the_line(self):
        with self.assertRaisesRegex(RuntimeError, r"Could not guard on data-dependent expression "
                                    r"u0 > 3(?s:.*)test_export.py(?s:.*)torch._check\(u0 <= 3\)"):
            program_of(lambda x: x + 1 if x.item() > 3 else x, torch.tensor(5))
        with self.assertRaisesRegex(RuntimeError, "Could not extract specialized integer"):
            program_of(lambda x: [x] * x.item(), torch.tensor(2))

    def test_sizes_that_are_data(self):
        self.assertEqual(code_of(lambda x: x * torch.nonzero(x).shape[0], torch.ones(4)), """\
def forward(self, args_0):
    nonzero = torch.ops.aten.nonzero.default(args_0)
    sym_size_int = torch.ops.aten.sym_size.int(nonzero, 0);  nonzero = None
    ge = sym_size_int >= 0
    _assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, "Runtime assertion failed \
for expression u0 >= 0 on node 'ge'");  ge = _assert_scalar_default = None
    mul = torch.ops.aten.mul.Tensor(args_0, sym_size_int);  args_0 = sym_size_int = None
    return (mul,)""")

    def test_arithmetic_of_sizes_is_recorded(self):
        def f(x):
            n, m = x.shape
            if m != 3 or not isinstance(n, torch.SymInt):
                raise AssertionError("the second size is 3, the first varies")
            return x.view(n * m), x.numel() ** 0.5, n / 2, n // 2 + 1, torch.sym_max(n, 4), -n

        ep = program_of(f, torch.ones(4, 3), dynamic_shapes=(({0: Dim("n", min=2)},),))
        for n in (2, 5, 9):
            got = ep.module()(torch.ones(n, 3))
            self.assertEqual(got[0].shape, (3 * n,))
            self.assertEqual(got[1:], ((3 * n) ** 0.5, n / 2, n // 2 + 1, max(n, 4), -n))

    def test_constraints_that_do_not_hold(self):
        with self.assertRaisesRegex(torch.export._errors.UserError, r"Constraints violated \(n\)! "
                                    "For more information"):
            program_of(lambda x: x + torch.ones(4), torch.ones(4),
                       dynamic_shapes=(({0: Dim("n")},),))


class Sub(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return self.lin(x).relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = Sub()

    def forward(self, x):
        x = self.sub(x)
        return x + 1


class Structure(unittest.TestCase):
    def test_lines_of_the_model(self):
        ep = export(Model(), (torch.ones(1, 2),))
        relu, = (n for n in ep.graph.nodes if n.name == "relu")
        trace = relu.meta["stack_trace"]
        self.assertRegex(trace, r'File ".*test_export.py", line \d+, in forward\n'
                                r'    x = self.sub\(x\)\n  File ".*", line \d+, in forward\n'
                                r"    return self.lin\(x\).relu\(\)")
        self.assertIn("in forward, code: return x + 1", str(ep))

    def test_constants_and_buffers_have_names(self):
        class Holder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.full((2,), 2.0)
                self.register_buffer("cache", torch.zeros(2), persistent=False)

            def forward(self, x):
                return x * self.scale + self.cache + torch.tensor([1.0, 2.0])

        ep = export(torch.nn.Sequential(Holder()), (torch.ones(2),))
        self.assertEqual([(i.kind.name, i.target, i.persistent) for i in
                          ep.graph_signature.input_specs][:3],
                         [("BUFFER", "0.cache", False), ("CONSTANT_TENSOR", "0.scale", None),
                          ("CONSTANT_TENSOR", "0.lifted_tensor_0", None)])
        self.assertEqual(list(ep.state_dict), [])
        self.assertEqual(ep.module()(torch.ones(2)).tolist(), [3.0, 4.0])

    def test_large_tensors(self):
        """Nothing of them is computed, and who records them needs the interpreter's lock."""
        ep = export(torch.nn.BatchNorm2d(3), (torch.ones(8, 3, 128, 128),))
        self.assertIn("batch_norm", [n.name for n in ep.graph.nodes])
        self.assertNotIn("File:", str(ep))

    def test_unflatten(self):
        torch.manual_seed(0)
        model, x = Model(), torch.randn(1, 2)
        module = unflatten(export(model, (x,), preserve_module_call_signature=("sub",)))
        self.assertEqual(sorted(module.state_dict()), sorted(model.state_dict()))
        self.assertTrue(torch.equal(module(x), model(x)))
        self.assertEqual(module.sub.count.item(), 1)
        module.sub = torch.nn.Identity()
        self.assertTrue(torch.equal(module(x), x + 1))
        with self.assertRaisesRegex(TypeError, "There is no flat args adapter"):
            module(x, x)

    def test_control_flow_is_an_operator(self):
        ep = program_of(lambda x, p: torch.cond(p, torch.sin, torch.cos, (x,)),
                        torch.ones(3), torch.tensor(True))
        cond, = (n for n in ep.graph.nodes if n.name == "cond")
        self.assertIs(cond.target, torch.ops.higher_order.cond)
        x = torch.ones(3)
        self.assertTrue(torch.equal(ep.module()(x, torch.tensor(False)), x.cos()))
        each = torch._higher_order_ops.map
        ep = program_of(lambda xs, y: each(lambda x, y: (x + y, x * y), xs, y),
                        torch.ones(3, 2), torch.full((2,), 2.0))
        got = ep.module()(torch.ones(3, 2), torch.full((2,), 2.0))
        self.assertEqual([t.sum().item() for t in got], [18.0, 12.0])
        with self.assertRaisesRegex(AttributeError, "nothing_like_it"):
            torch.ops.higher_order.nothing_like_it


if __name__ == "__main__":
    unittest.main()
