"""cfx.torch.export: sizes and numbers that vary, control flow, lines of the model, unflatten."""
import dataclasses
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


class Buffers(unittest.TestCase):
    def test_a_buffer_that_was_written_to_is_what_the_write_gave(self):
        class Counts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("b", torch.zeros(3))
                self.c = torch.zeros(3)

            def forward(self, x):
                self.b.add_(1)
                self.c.mul_(x)
                return self.b + self.c

        self.assertEqual(
            export(Counts(), (torch.ones(3),)).graph_module.code.strip(),
            "def forward(self, b_b, c_c, x):\n"
            "    add_ = torch.ops.aten.add_.Tensor(b_b, 1);  b_b = None\n"
            "    mul_ = torch.ops.aten.mul_.Tensor(c_c, x);  c_c = x = None\n"
            "    add = torch.ops.aten.add.Tensor(add_, mul_);  add_ = mul_ = None\n"
            "    return (add,)")


    def test_what_is_copied_is_so_whatever_the_value_lies_like(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                y = torch.ops.aten.squeeze_copy.out(x, out=x)  # contiguous, x is not
                flat, same = y.reshape(6, 4), y.contiguous()
                y[0].mul_(2)
                return flat, same, y

        def turned():
            return torch.arange(24.).as_strided((2, 3, 4), (1, 2, 6))

        want = Net()(turned())
        program = torch.export.export(Net(), (turned(),))
        for p in (program, program.run_decompositions({}), program.run_decompositions()):
            self.assertEqual([t.tolist() for t in p.module()(turned())],
                             [t.tolist() for t in want])

    def test_a_write_in_a_preserved_module_is_seen_outside(self):
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("b", torch.zeros(1))

            def forward(self, x):
                self.b.add_(1)
                return x + self.b

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                x = self.inner(x) * 2
                self.inner.b.mul_(3)
                return self.inner(x) + self.inner.b

        x = torch.ones(1)
        ep = export(Outer(), (x,), preserve_module_call_signature=("inner",))
        self.assertEqual(unflatten(ep)(x).tolist(), Outer()(x).tolist())


class Numbers(unittest.TestCase):
    maxDiff = None

    def test_derived_bounds(self):
        d = Dim("d", min=2, max=9)
        ep = program_of(lambda x: x * 2, torch.ones(9, 2), dynamic_shapes=(({0: 2 * d + 1},),))
        self.assertEqual([(r.lower, r.upper) for r in ep.range_constraints.values()],
                         [(5, 19), (2, 9)])
        with self.assertRaisesRegex(AssertionError, "Guard failed"):
            ep.module()(torch.ones(21, 2))
        with self.assertRaisesRegex(ValueError, "Unable to specify input integers as dynamic"):
            program_of(lambda x, n: x * n, torch.ones(3), 2, dynamic_shapes=((None, d),))

    def test_sizes_of_further_arguments_are_told_by_their_places(self):
        class Net(torch.nn.Module):
            def forward(self, x, *rest):
                return x + rest[0]

        b, c = torch.export.Dim("b"), torch.export.Dim("c")
        with self.assertRaisesRegex(RuntimeError, r"c = L\['rest'\]\[0\].size\(\)\[0\] and "
                                    r"b = L\['x'\].size\(\)\[0\] must always be equal"):
            torch.export.export(Net(), (torch.ones(6), torch.ones(6)),
                                dynamic_shapes={"x": {0: b}, "rest": ({0: c},)})

    def test_all_that_is_asked_of_sizes_is_told(self):
        def f(x, y):
            n, m = x.shape[0], y.shape[0]
            return x if 4 < n < 50 and m > 5 else y

        sizes = ({0: Dim("n", max=99)}, {0: Dim("m", max=64)})
        with self.assertRaises(torch._errors.UserError) as e:
            program_of(f, torch.ones(7), torch.ones(9), dynamic_shapes=(sizes,))
        text = str(e.exception)
        self.assertIn("Constraints violated (m, n)!", text)
        self.assertIn("n = Dim('n', min=5, max=49)\n  m = Dim('m', min=6, max=64)", text)

    def test_conversions_are_those_of_files(self):
        ep = program_of(lambda x: (x.bool(), x.bfloat16(), x.float()), torch.ones(2))
        for dtype in ("bool", "bfloat16", "float32"):
            self.assertIn(f"torch.ops.aten.to.dtype(args_0, torch.{dtype})", ep.graph_module.code)
        self.assertNotIn("ops.cfx", ep.graph_module.code)

    def test_what_is_asserted_of_data_and_sizes_holds_where_a_program_is_looked_at(self):
        def cut(x, n):
            k = n.item()
            torch._check_is_size(k)
            torch._check(k < x.shape[0])
            return x[k:], x[:k]

        def split(x, s):
            a, b = s.tolist()
            for i in (a, b):
                torch._check_is_size(i)
                torch._check(i <= x.shape[0])
            return x.split([a, b])[0]

        ep = program_of(cut, torch.ones(5, 2), torch.tensor(2),
                        dynamic_shapes=(({0: Dim.AUTO}, None),))
        got = ep.run_decompositions().module()(torch.ones(9, 2), torch.tensor(7))
        self.assertEqual([tuple(t.shape) for t in got], [(2, 2), (7, 2)])
        ep = program_of(split, torch.ones(5, 2), torch.tensor([2, 3]))
        got = ep.run_decompositions().module()(torch.ones(5, 2), torch.tensor([4, 1]))
        self.assertEqual(got.shape, (4, 2))

    def test_a_number_that_is_data_has_any_sign(self):
        ep = program_of(lambda x: x * x[0].item(), torch.ones(3))
        self.assertEqual([str(r) for r in ep.range_constraints.values()], ["VR[-int_oo, int_oo]"])

    def test_a_number_that_is_data_is_computed_with(self):
        def f(x, y):
            n = x.item()
            torch._check(n <= 10)
            torch._check(n > 3)
            return y[:1].expand(n), n * 2 + 1

        ep = program_of(f, torch.tensor(5), torch.ones(4))
        self.assertEqual(str(ep.range_constraints), "{u0: VR[4, 10]}")
        y, n = ep.module()(torch.tensor(7), torch.ones(4))
        self.assertEqual((y.shape, n), ((7,), 15))
        with self.assertRaisesRegex(RuntimeError, "Runtime assertion failed for .* u0 <= 10"):
            ep.module()(torch.tensor(11), torch.ones(4))

    def test_an_index_that_is_data_is_asserted_to_be_in_range(self):
        class Net(torch.nn.Module):
            def forward(self, x, i):
                u = i.item()
                y = x.clone()
                y[u] = 0
                return x[u], y

        x = torch.arange(12.).reshape(3, 4)
        p = torch.export.export(Net(), (x, torch.tensor(1)))
        self.assertEqual(str(p.range_constraints), "{u0: VR[-3, 2]}")
        for program in (p, p.run_decompositions()):
            for i in (-3, 2):
                row, rest = program.module()(x, torch.tensor(i))
                self.assertTrue(torch.equal(row, x[i]))
                self.assertEqual(rest[i].tolist(), [0.] * 4)
            with self.assertRaisesRegex(RuntimeError, "u0 <= 2"):
                program.module()(x, torch.tensor(3))

    def test_sizes_that_are_data_are_what_calls_require(self):
        class Net(torch.nn.Module):
            def forward(self, x, y):
                return x[x > 0] + y, torch.nonzero(x).view(2, -1)

        p = torch.export.export(Net(), (torch.tensor([1., 0., 2.]), torch.zeros(2)))
        self.assertIn("Eq(u0, 2)", p.graph_module.code)
        self.assertEqual(p.module()(torch.tensor([0., 3., 2.]), torch.ones(2))[0].tolist(),
                         [4., 3.])
        with self.assertRaisesRegex(RuntimeError, "Runtime assertion failed"):
            p.module()(torch.ones(3), torch.ones(2))

    def test_what_is_read_again_is_the_same_number(self):
        class Net(torch.nn.Module):
            def forward(self, x, i, m):
                y = x * i.item() + i.item()
                i.add_(1)
                return y * i.item(), x[m] + x[m], torch.where(m)[0], torch.nonzero(m)

        args = torch.ones(3, 4), torch.tensor(2), torch.tensor([True, False, True])
        p = torch.export.export(Net(), args)
        self.assertEqual(sorted(str(s) for s in p.range_constraints), ["u0", "u1", "u2"])
        self.assertEqual(p.graph_module.code.count("item.default"), 2)
        i = torch.tensor(2)
        want = Net()(args[0], i.clone(), args[2])
        for got in (p.module(), p.run_decompositions().module()):
            for a, b in zip(got(args[0], i.clone(), args[2]), want):
                self.assertTrue(torch.equal(a, b))

    def test_what_is_written_through_a_view_is_read_anew(self):
        class Net(torch.nn.Module):
            def forward(self, x, i, m):
                a, c = i.item(), x[m]
                i.view(1).add_(1), m.view(-1).logical_not_()
                return x * a, x * i.item(), c, x[m]

        def args():
            return torch.ones(3, 4), torch.tensor(2), torch.tensor([True, False, False])
        p = torch.export.export(Net(), args())
        for got in (p.module(), p.run_decompositions().module()):
            for a, b in zip(got(*args()), Net()(*args())):
                self.assertTrue(torch.equal(a, b))

    def test_assignments_are_the_calls_that_pytorch_makes(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                y = x.clone()
                y[:, 1:3] = 0
                y[0] = x[1, 1]
                y[:2] = x[None, 0]
                y[x > 2] = 7
                return y

        code = torch.export.export(Net(), (torch.zeros(3, 4),)).graph_module.code
        calls = [line.split("aten.")[1].split("(")[0] for line in code.split("\n")
                 if "aten." in line]
        self.assertEqual(" ".join(calls),
                         "clone.default lift_fresh_copy.default slice.Tensor fill_.Tensor "
                         "select.int select.int select.int fill_.Tensor "
                         "unsqueeze.default select.int slice.Tensor view.default expand.default "
                         "copy_.default gt.Scalar lift_fresh_copy.default index_put_.default")

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
    le = sym_size_int <= 4
    _assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(le, "Runtime assertion failed \
for expression u0 <= 4 on node 'le'");  le = _assert_scalar_default_1 = None
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
        with self.assertRaisesRegex(torch._errors.UserError, r"Constraints violated \(n\)! "
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

    def test_swap_modules(self):
        from cfx.torch.export._swap import _swap_modules

        class Half(torch.nn.Module):
            def forward(self, x):
                return x * 0.5

        model, x = Model(), torch.randn(1, 2)
        ep = export(model, (x,), preserve_module_call_signature=("sub",))
        half = Half().eval()
        module = _swap_modules(ep, {"sub": half})
        self.assertIs(module.sub, half)
        self.assertTrue(torch.equal(module(x), x * 0.5 + 1))
        with self.assertRaisesRegex(KeyError, "exported from no module 'head'"):
            _swap_modules(ep, {"head": half})
        with self.assertRaisesRegex(ValueError, "preserve_module_call_signature"):
            _swap_modules(export(model, (x,)), {"sub": half})
        with self.assertRaisesRegex(TypeError, "no torch.nn.Module but a int"):
            _swap_modules(ep, {"sub": 3})

    def test_advice_is_in_python(self):
        def decide(x):
            return x if x.sum() > 0 else -x

        with self.assertRaises(RuntimeError) as caught:
            program_of(decide, torch.ones(3))
        self.assertIn("choose by torch.cond, or by torch.where, which computes both; compute with "
                      "it by operators (n + 1)", str(caught.exception))
        self.assertNotIn("cfx_", str(caught.exception))

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

    def test_nodes_know_the_classes_of_the_modules_around_them(self):
        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)

            def forward(self, x):
                return self.fc(x)

        node = export(Outer(), (torch.ones(1, 2),)).graph.find_nodes(
            op="call_function", target=torch.ops.aten.linear.default)[0]
        self.assertEqual(list(node.meta["nn_module_stack"].values()),
                         [("", f"{__name__}.{Outer.__qualname__}"),
                          ("fc", "torch.nn.modules.linear.Linear")])


class Inputs(unittest.TestCase):
    def test_without_guards_arguments_are_held_against_the_export(self):
        batch = Dim("batch", max=7)
        ep = program_of(lambda x, y: x + y, torch.ones(3, 4), torch.ones(3, 4),
                        dynamic_shapes=(({0: batch}, {0: batch}),))
        m = ep.module(check_guards=False)
        self.assertEqual(m(torch.ones(2, 4), torch.ones(2, 4)).shape, (2, 4))
        for args, words in (
                ((torch.ones(2, 4),), "Trying to flatten user inputs"),
                ((torch.ones(2, 5), torch.ones(2, 4)), r"\*args\[0\].shape\[1\] to be equal to 4"),
                ((torch.ones(9, 4), torch.ones(9, 4)), r"shape\[0\] to be <= 7, but got 9"),
                ((torch.ones(5, 4), torch.ones(4, 4)), r"args\[1\].shape\[0\] to be equal to 5"),
                ((torch.ones(5), torch.ones(4, 4)), "Unexpected number of dimensions"),
                ((3, torch.ones(4, 4)), "to be a tensor, but got <class 'int'>")):
            with self.assertRaisesRegex((RuntimeError, ValueError), words):
                m(*args)

    def test_pools_are_the_function_that_their_flag_says(self):
        def f(x):
            return torch.nn.functional.max_pool2d(x, 2, return_indices=True)

        self.assertIn("torch.nn.functional.max_pool2d_with_indices(x, 2, stride = None, padding = "
                      "0, dilation = 1, ceil_mode = False, return_indices = True)",
                      torch.fx.symbolic_trace(f).code)
        self.assertEqual(f(torch.arange(4.0).view(1, 2, 2))[1].tolist(), [[[3]]])


if __name__ == "__main__":
    unittest.main()

    def test_classes_of_the_users_are_taken_apart_and_put_together(self):
        @dataclasses.dataclass
        class Pair:
            left: torch.Tensor
            right: torch.Tensor

        torch.export.register_dataclass(Pair)
        a, b = torch.ones(10, 4), torch.zeros(10, 4)
        rows, others = torch.export.dims("rows", "others")
        ep = program_of(lambda p: {"sum": Pair(p.left + 1, p.right)}, Pair(a, b),
                        dynamic_shapes=([[{0: rows}, {0: others}]],))
        self.assertEqual([n.name for n in ep.graph.nodes][:2], ["args_0_left", "args_0_right"])
        out = ep.module()(Pair(torch.ones(3, 4), torch.zeros(2, 4)))
        self.assertIsInstance(out["sum"], Pair)
        self.assertEqual((out["sum"].left.shape, out["sum"].right.shape), ((3, 4), (2, 4)))

    def test_placeholders_say_what_they_are(self):
        ep = program_of(lambda x, k: x * k, torch.ones(2, requires_grad=True), 3)
        x, k = ep.graph.find_nodes(op="placeholder")
        self.assertEqual((x.meta["val"].requires_grad, k.meta["val"]), (True, 3))

    def test_three_sizes_that_are_equal_vary_together(self):
        auto = {0: Dim.AUTO, 1: Dim.AUTO}
        x = torch.ones(6, 3)
        ep = program_of(lambda x, y, z: x + y + z, x, x, x, dynamic_shapes=((auto,) * 3,))
        self.assertEqual(ep.module()(*[torch.ones(2, 7)] * 3).shape, (2, 7))


class Draft(unittest.TestCase):
    def test_a_decision_by_data_is_that_of_the_example(self):
        class Model(torch.nn.Module):
            def forward(self, x, y):
                return y + 1 if x.item() > 3 else y

        ep = torch.export.draft_export(Model(), (torch.tensor(5), torch.ones(2)))
        self.assertEqual([str(f.failure_type) for f in ep._report.failures],
                         ["DATA_DEPENDENT_ERROR"])
        self.assertIn("unable to evaluate the value of `u0 > 3`", str(ep._report))
        self.assertEqual(ep.module()(torch.tensor(9), torch.ones(2)).tolist(), [2.0, 2.0])
        with self.assertRaisesRegex(RuntimeError, "Runtime assertion failed"):
            ep.module()(torch.tensor(1), torch.ones(2))

    def test_what_is_said_of_sizes_goes_to_data_and_back(self):
        from cfx.torch._export.serde.dynamic_shapes import (_dump_dynamic_shapes,
                                                            _load_dynamic_shapes)

        dx = Dim("dx", min=4, max=16)
        said = {"a": [(dx, 4), (dx + 1, 4)], "b": (Dim.AUTO,), "c": None}
        args = ([torch.ones(4, 4), torch.ones(5, 4)], torch.ones(4), "hello")
        data = _dump_dynamic_shapes(said, args, to_dict=True)
        self.assertEqual(data, {
            "dynamic_shapes": ([["dx", 4], ["dx + 1", 4]], ["_DimHint.AUTO"], None),
            "dims": {"dx": {"min": 4, "max": 16, "derived": ["dx + 1"]}}})
        back = _load_dynamic_shapes(data, from_dict=True)
        self.assertEqual(str(back[0]), "[[Dim('dx', min=4, max=16), 4], [dx + 1, 4]]")
        self.assertIs(back[1][0], Dim.AUTO)


class State(unittest.TestCase):
    def test_what_is_assigned_to_a_buffer_is_written_to_it(self):
        class Count(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(2))

            def forward(self, x):
                self.seen = self.seen + x
                return self.seen * 2

        model = Count()
        ep = export(model, (torch.ones(2),))
        self.assertEqual(model.seen.tolist(), [0.0, 0.0])
        self.assertEqual(list(ep.run_decompositions({}).graph_signature.buffers_to_mutate.values()),
                         ["seen"])
        m = ep.module()
        self.assertEqual([m(torch.ones(2)).tolist()[0] for _ in range(3)], [2.0, 4.0, 6.0])

    def test_what_a_buffer_was_is_a_result(self):
        class Swaps(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("a", torch.tensor([1.0, 2.0]))
                self.register_buffer("b", torch.tensor([3.0, 4.0]))

            def forward(self, x):
                old = self.a
                self.a, self.b = self.b, self.a + x
                return old, {"b": self.b}

        model, ep = Swaps(), export(Swaps(), (torch.ones(2),))
        core, plain = export(Swaps(), (torch.ones(2),)).run_decompositions().module(), ep.module()
        for _ in range(3):
            want = [t.tolist() for t in torch.utils._pytree.tree_leaves(model(torch.ones(2)))]
            for m in (plain, core):
                got = torch.utils._pytree.tree_leaves(m(torch.ones(2)))
                self.assertEqual([t.tolist() for t in got], want)

    def test_what_would_be_lost_is_refused(self):
        class Keeps(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {"a": [torch.zeros(2)]}
                self.n = 0

            def forward(self, x):
                self.kept["a"][0] = x + 1
                return x

        model = Keeps()
        with self.assertRaisesRegex(ValueError, r"attribute self.kept\['a'\]\[0\] was assigned"):
            export(model, (torch.ones(2),))
        self.assertEqual(model.kept["a"][0].tolist(), [0.0, 0.0])

        class Counts(Keeps):
            def forward(self, x):
                self.n += 1
                return x * 2

        model = Counts()
        with self.assertWarnsRegex(UserWarning, "self.n was assigned during export"):
            export(model, (torch.ones(2),))
        self.assertEqual(model.n, 0)

    def test_a_preserved_module_is_called_from_several_places(self):
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.const = torch.ones(1)

            def forward(self, x):
                return x + 1

        class Middle(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x + self.inner.const) + 1

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.middle = Middle()

            def forward(self, x):
                x = self.middle(x + self.middle.inner.const)
                return self.middle.inner(x + 1) + 1

        x = torch.ones(1)
        ep = export(Outer(), (x,), preserve_module_call_signature=("middle", "middle.inner"))
        again = unflatten(ep)
        for _ in range(2):
            self.assertEqual(again(x).tolist(), Outer()(x).tolist())
