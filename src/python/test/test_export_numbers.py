"""cfx.torch.export: numbers that are data in functions of Python's own, in assert statements and in
tensors that are made of them; where nodes come from; how arguments are arranged."""
import dataclasses
import math
import unittest

import cfx.torch as torch
from cfx.torch.export import Dim, export, unflatten
from cfx.torch.utils import _pytree as pytree


def program_of(f, *args, **options):
    class Model(torch.nn.Module):
        def forward(self, *args):
            return f(*args)

    return export(Model(), args, **options)


class Numbers(unittest.TestCase):
    def check(self, f, example, *others, has=()):
        ep = program_of(f, *example)
        for args in (example, *others):
            self.assertEqual(ep.module()(*args).tolist(), f(*args).tolist())
        for word in has:
            self.assertIn(word, str(ep.graph))

    def test_max_min_and_pow_of_data_are_recorded(self):
        x = torch.ones(4)
        self.check(lambda x, n: x * max(n.item(), 3), (x, torch.tensor(5)), (x, torch.tensor(1)),
                   has=["torch.sym_max"])
        self.check(lambda x, n: x * min([n.item(), 3, 2]), (x, torch.tensor(5)),
                   (x, torch.tensor(1)), has=["torch.sym_min"])
        self.check(lambda x, n: x * math.pow(min(n.item(), 10), 2), (x, torch.tensor(5)),
                   (x, torch.tensor(30)), has=["operator.pow"])

    def test_max_and_min_of_single_tensors_are_recorded(self):
        def f(x, y):
            return max(x, y) + min([x, y]) + max(x, 5) + min(3, x)

        self.check(f, (torch.tensor(4), torch.tensor(1)), (torch.tensor(0), torch.tensor(9)),
                   has=["aten.maximum", "aten.minimum", "aten.clamp"])

    def test_pythons_own_functions_are_back_after_an_export(self):
        before = max, min, math.pow
        program_of(lambda x: x * max(x.shape[0], 2), torch.ones(3))
        with self.assertRaises(ZeroDivisionError):
            program_of(lambda x: x * (1 // 0), torch.ones(3))
        self.assertEqual((max, min, math.pow), before)
        ep = program_of(lambda x: x + max((1, 2), key=lambda n: -n) + max([], default=3),
                        torch.zeros(1))
        self.assertEqual(ep.module()(torch.zeros(1)).tolist(), [4])

    def test_the_program_asserts_what_an_assert_statement_says_of_data(self):
        def f(x):
            assert x.max().item() > 0
            return x + 1

        ep = program_of(f, torch.ones(3))
        self.assertEqual(ep.module()(torch.ones(3)).tolist(), [2, 2, 2])
        with self.assertRaisesRegex(RuntimeError, "Runtime assertion failed for expression"):
            ep.module()(-torch.ones(3))

    def test_an_if_statement_on_data_is_refused_as_before(self):
        def f(x):
            if x.max().item() > 0:
                return x
            return -x

        with self.assertRaisesRegex(RuntimeError, "Could not guard on data-dependent expression"):
            program_of(f, torch.ones(3))

    def test_tensors_are_made_of_numbers_that_are_data(self):
        def f(i, r):
            return torch.tensor([[i.item(), 7]]).double() + torch.tensor(r.item())

        self.check(f, (torch.tensor([3]), torch.tensor([1.5])),
                   (torch.tensor([-4]), torch.tensor([2.5])))

    def test_sizes_are_shifted(self):
        ep = program_of(lambda x: (x[:x.shape[0] >> 1], x.new_zeros(x.shape[0] << 1)),
                        torch.ones(8), dynamic_shapes=(({0: Dim("n", min=5, max=10)},),))
        self.assertEqual([len(t) for t in ep.module()(torch.ones(7))], [3, 14])


class Sources(unittest.TestCase):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.linear(x))

    def test_nodes_of_a_module_say_which_of_the_program_they_are_from(self):
        ep = export(self.Model(), (torch.ones(2, 3),))
        nodes = {n.name: n for n in ep.module().graph.nodes}
        (relu,) = nodes["relu"].meta["from_node"]
        self.assertEqual((relu.name, relu.pass_name, relu.graph_id),
                         ("relu", "ExportedProgram.module()", id(ep.graph)))
        (weight,) = nodes["linear_weight"].meta["from_node"]
        self.assertEqual(weight.pass_name, "ExportedProgram.module().unlift()")
        self.assertEqual(weight.from_node[-1].name, "p_linear_weight")

    def test_what_is_noted_at_nodes_is_in_programs_made_of_them(self):
        ep = export(self.Model(), (torch.ones(2, 3),))
        for node in ep.graph.nodes:
            node.meta["custom"] = {"stage": node.name}
        made = {n.name: n.meta["custom"]["stage"] for n in ep.run_decompositions().graph.nodes}
        self.assertEqual(made["addmm"], "linear")
        self.assertEqual(made["x"], "x")
        self.assertEqual(made["output"], "output")
        again = {n.name: n for n in ep.module().graph.nodes}
        self.assertEqual(again["relu"].meta["custom"], {"stage": "relu"})


    def test_a_module_of_a_program_is_exported_with_the_lines_of_the_model(self):
        ep = export(self.Model(), (torch.ones(2, 3),))
        again = export(ep.module(), (torch.ones(2, 3),))
        traces = [[n.meta.get("stack_trace") for n in e.graph.nodes] for e in (ep, again)]
        self.assertIn("test_export_numbers.py", traces[0][-2])
        self.assertEqual(*traces)
        stacks = [[n.meta.get("nn_module_stack") for n in e.graph.nodes] for e in (ep, again)]
        self.assertEqual(*stacks)
        self.assertIn("linear", dict(unflatten(again).named_children()))
        self.assertEqual([n.op for n in unflatten(again).graph.nodes][1], "call_module")

    def test_make_fx_notes_the_lines_of_the_model_where_it_is_asked_to(self):
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        for asked in (True, False):
            gm = make_fx(self.Model(), record_stack_traces=asked)(torch.ones(2, 3))
            (relu,) = [n for n in gm.graph.nodes if n.name == "relu"]
            self.assertEqual(bool(relu.stack_trace), asked)
            if asked:
                self.assertRegex(
                    relu.stack_trace, r'^File ".*test_export_numbers.py", line \d+, in forward\n'
                    r" +return torch.relu\(self.linear\(x\)\)$")

    def test_fake_values_of_nodes_have_a_mode(self):
        ep = export(self.Model(), (torch.ones(2, 3),))
        modes = {id(n.meta["val"].fake_mode) for n in ep.graph.nodes if "val" in n.meta}
        self.assertEqual(len(modes), 1)


class Decomposed(unittest.TestCase):
    def test_functional_programs_have_no_composite_views(self):
        def f(x):
            return x.to(torch.float64), x.reshape(-1), x.T, x.narrow(0, 0, 1), x.chunk(2)

        targets = [str(n.target) for n in program_of(f, torch.ones(2, 3)).run_decompositions({})
                   .graph.nodes if n.op == "call_function"]
        self.assertEqual([t for t in targets if t.startswith("aten.")],
                         ["aten._assert_tensor_metadata.default", "aten._to_copy.default",
                          "aten.view.default", "aten.permute.default", "aten.slice.Tensor",
                          "aten.split.Tensor"])

    def test_a_table_of_one_operator_keeps_no_composite_views(self):
        ep = program_of(lambda x: torch.relu(x.reshape(-1)), torch.ones(2, 3))
        ep = ep.run_decompositions({torch.ops.aten.relu.default: lambda x: x.clamp(min=0)})
        self.assertNotIn("reshape", str(ep.graph))
        self.assertIn("clamp", str(ep.graph))


class Arguments(unittest.TestCase):
    def test_keys_of_a_dict_come_in_any_order(self):
        ep = program_of(lambda d, t: d["a"] - d["b"] + t[0]["c"],
                        {"a": torch.ones(2), "b": torch.zeros(2)}, [{"c": torch.ones(2)}])
        self.assertEqual(ep.module()({"b": torch.zeros(2), "a": torch.ones(2)},
                                     [{"c": torch.ones(2)}]).tolist(), [2, 2])
        with self.assertRaisesRegex(ValueError, "tree spec"):
            ep.module()({"b": torch.zeros(2), "c": torch.ones(2)}, [{"c": torch.ones(2)}])

    def test_a_namedtuple_is_its_arguments(self):
        import collections

        given = collections.namedtuple("Point", ["x", "y"])(torch.ones(2), torch.ones(2))

        class Model(torch.nn.Module):
            def forward(self, x, y):
                return x + y

        self.assertEqual(export(Model(), given).module()(*given).tolist(), [2, 2])

    def test_additional_inputs_tell_what_varies_inside_of_a_users_class(self):
        @dataclasses.dataclass
        class Given:
            n: int
            f: float
            t: torch.Tensor

        pytree.register_dataclass(Given)

        class Model(torch.nn.Module):
            def forward(self, d):
                return d.n + d.f + d.t

        def shapes_of(other):
            inputs = torch.export.AdditionalInputs()
            inputs.add((other,))
            return inputs.dynamic_shapes(Model(), (Given(3, 3.0, torch.ones(3)),))

        self.assertEqual(shapes_of(Given(4, 3.0, torch.ones(4))),
                         {"d": [Dim.DYNAMIC, None, (Dim.DYNAMIC,)]})
        with self.assertRaisesRegex(ValueError, r"cannot be marked as dynamic: \(3\.0, 4\.0\)"):
            shapes_of(Given(3, 4.0, torch.ones(3)))
        with self.assertRaisesRegex(ValueError, r"differing types.*: \(3, False\)"):
            shapes_of(Given(False, 3.0, torch.ones(3)))

    def test_additional_inputs_that_a_program_is_not_for_are_told_by_their_sizes(self):
        class Model(torch.nn.Module):
            def forward(self, x):
                return x + 1

        inputs = torch.export.AdditionalInputs()
        inputs.add((torch.ones(5, 3),))
        ep = export(Model(), (torch.ones(4, 3),), dynamic_shapes=inputs)
        inputs.verify(ep)
        inputs.add((torch.ones(5, 9),))
        with self.assertRaisesRegex(RuntimeError, r"Expected input at \*args\[0\]\.shape\[1\] to "
                                    "be equal to 3, but got 9"):
            inputs.verify(ep)

    def test_a_tensor_has_one_shape_in_a_collection(self):
        shapes, x = torch.export.ShapesCollection(), torch.ones(2)
        shapes[x] = {0: Dim("q")}
        with self.assertRaisesRegex(AssertionError, "Shapes assigned to input do not match"):
            shapes[x] = {0: Dim("r")}

    def test_calls_of_one_preserved_module_say_its_class(self):
        class Inner(torch.nn.Module):
            def forward(self, x, b):
                return x + 1 if b else x + 2

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.n = Inner()

            def forward(self, x):
                return self.n(x, True) + self.n(x, False)

        ep = export(Outer(), (torch.zeros(2),), preserve_module_call_signature=("n",))
        again = unflatten(ep)
        self.assertEqual(again(torch.zeros(2)).tolist(), [3, 3])
        self.assertTrue(hasattr(again.n, "type_name"))

    def test_a_module_among_the_arguments_is_its_tensors(self):
        class Given(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)
                self.register_buffer("n", torch.rand(1))

            def forward(self, x):
                return self.linear(x) + self.n

        def f(x, m):
            return m(x) * 2

        class Model(torch.nn.Module):
            def forward(self, x, m):
                return f(x, m)

        x = torch.rand(3)
        ep = export(Model(), (x, Given()), dynamic_shapes={"x": None, "m": None})
        self.assertEqual(ep.graph_signature.user_inputs,
                         ("x", "m_linear_weight", "m_linear_bias", "m_n"))
        for program in (ep, ep.run_decompositions()):
            other = Given()
            self.assertTrue(torch.allclose(program.module()(x, other), f(x, other)))

    def test_numbers_are_told_apart_by_wrappers(self):
        from cfx.torch.export.dynamic_shapes import _IntWrapper

        class Model(torch.nn.Module):
            def forward(self, x, y):
                return x + y

        args = _IntWrapper(5), _IntWrapper(5)
        shapes = torch.export.ShapesCollection()
        shapes[args[0]] = Dim.DYNAMIC
        ep = export(Model(), args, dynamic_shapes=shapes)
        self.assertEqual(ep.module()(3, 5), 8)
        with self.assertRaisesRegex((AssertionError, RuntimeError), "5"):
            ep.module()(3, 4)


class Functions(unittest.TestCase):
    def test_a_function_is_exported_as_a_module(self):
        from cfx.torch.export._wrapper_utils import _WrapperModule

        ep = export(_WrapperModule(lambda x: torch.abs(x)), (torch.ones(2),))
        self.assertEqual(ep.module()(-torch.ones(2)).tolist(), [1, 1])
        self.assertEqual(ep.graph_signature.user_inputs, ("args_0",))

    def test_methods_of_one_module_are_exported_with_its_state(self):
        from cfx.torch._export.utils import sync_state, wrap_method

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("t", torch.tensor(10.0))

            def double(self, x):
                self.t.mul_(2)
                return x + self.t

            def less(self, x):
                return x - self.t

        m = Model()
        double, less = (export(wrap_method(f), (torch.ones(2),)).module()
                        for f in (m.double, m.less))
        sync_state(double, less)
        self.assertEqual(double(torch.zeros(2)).tolist(), [20, 20])
        self.assertEqual(less(torch.zeros(2)).tolist(), [-20, -20])
        with self.assertRaises(ValueError):
            wrap_method(lambda x: x)
