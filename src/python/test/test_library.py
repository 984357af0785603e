"""torch.library: operators of the user's own in Python, called, exported, decomposed, taken out."""
import unittest

import cfx.torch as torch
from cfx.torch import Tensor


def code(ep):
    return ep.graph_module.code.strip()


class Library(unittest.TestCase):
    maxDiff = None

    def test_a_custom_op_runs_is_exported_and_has_a_gradient(self):
        calls = []

        @torch.library.custom_op("pytest::twice", mutates_args=())
        def twice(x: Tensor, n: float = 2.0) -> Tensor:
            calls.append(n)
            return x * n

        @twice.register_fake
        def _(x, n=2.0):
            return torch.empty_like(x)

        def setup(ctx, inputs, output):
            ctx.n = inputs[1]

        twice.register_autograd(lambda ctx, g: (g * ctx.n, None), setup_context=setup)
        x = torch.ones(2, requires_grad=True)
        twice(x, 3.0).sum().backward()
        self.assertEqual((x.grad.tolist(), calls), ([3.0, 3.0], [3.0]))

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.ops.pytest.twice(x) + twice(x, n=4.0)

        batch = torch.export.Dim("batch")
        ep = torch.export.export(Model(), (torch.ones(2, 3),), dynamic_shapes={"x": {0: batch}})
        self.assertEqual(calls, [3.0])  # fakes alone
        self.assertEqual(code(ep), """\
def forward(self, x):
    twice = torch.ops.pytest.twice.default(x)
    twice_1 = torch.ops.pytest.twice.default(x, 4.0);  x = None
    add = torch.ops.aten.add.Tensor(twice, twice_1);  twice = twice_1 = None
    return (add,)""")
        self.assertEqual(ep.run_decompositions().module()(torch.ones(1, 1 + 2)).tolist(),
                         [[6.0] * 3])

    def test_a_list_of_results_of_any_length_has_gradients(self):
        with torch.library._scoped_library("mylib_list", "FRAGMENT") as lib:
            lib.define("parts(Tensor x, int n) -> Tensor[]")
            lib.impl("parts", lambda x, n: [x * (i + 1) for i in range(n)], "CPU")
            torch.library.register_autograd(
                "mylib_list::parts",
                lambda ctx, gs: (sum(g * (i + 1) for i, g in enumerate(gs)), None), lib=lib)
            x = torch.ones(2, requires_grad=True)
            parts = torch.ops.mylib_list.parts(x, 20)
            sum(parts).sum().backward()
            self.assertEqual(x.grad.tolist(), [210.0, 210.0])

    def test_another_operator_is_called_like_it(self):
        """NAME_functional is PyTorch's own way to call what gives what NAME writes."""
        with torch.library._scoped_library("pytest_like", "DEF") as lib:
            lib.define("put(Tensor(a!) x) -> Tensor")
            lib.define("put_functional(Tensor x) -> Tensor")
            lib.impl("put", lambda x: x.add_(1).clone(), "CPU")
            lib._register_fake("put", lambda x: x.clone())
            lib.impl("put_functional", lambda x: x.cos(), "CPU")

            class Model(torch.nn.Module):
                def forward(self, x):
                    return torch.ops.pytest_like.put(x.clone()) * 2

            d = torch.export.export(Model(), (torch.ones(3),)).run_decompositions()
            self.assertIn("auto_functionalized_v2(torch.ops.pytest_like.put.default", code(d))
            self.assertEqual(d.module()(torch.ones(3)).tolist(), [4.0, 4.0, 4.0])

    def test_writes_become_values(self):
        @torch.library.custom_op("pytest::put", mutates_args={"x"})
        def put(x: Tensor, y: Tensor) -> None:
            x.add_(y)

        class Model(torch.nn.Module):
            def forward(self, x):
                z = torch.zeros(2, 3)
                put(z[1], x)
                return z

        ep = torch.export.export(Model(), (torch.ones(3),))
        functional = ep.run_decompositions()
        self.assertIn("auto_functionalized_v2(torch.ops.pytest.put.default", code(functional))
        for program in ep, functional:
            self.assertEqual(program.module()(torch.ones(3)).tolist(), [[0.0] * 3, [1.0] * 3])

    def test_writes_are_held_against_the_schema_where_that_is_asked_for(self):
        @torch.library.custom_op("pytest::hides", mutates_args=())
        def hides(x: Tensor, y: Tensor) -> Tensor:
            y.add_(1)
            return x.clone()

        hides.register_fake(lambda x, y: torch.empty_like(x))

        class Model(torch.nn.Module):
            def forward(self, x, y):
                return hides(x, y)

        with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True):
            with self.assertRaisesRegex(RuntimeError, "for argument 'y'.* does not mutate"):
                torch.export.export(Model(), (torch.ones(2), torch.ones(2)))

    def test_fakes_are_held_against_results_or_inferred_from_them(self):
        @torch.library.custom_op("pytest::turned", mutates_args=())
        def turned(x: Tensor) -> Tensor:
            return x + 1

        class Model(torch.nn.Module):
            def forward(self, x):
                return turned(x)

        with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True):
            ep = torch.export.export(Model(), (torch.ones(2, 3),))
            self.assertEqual(ep.module()(torch.ones(2, 3)).shape, (2, 3))
            turned.register_fake(lambda x: x.new_empty(3, 2))
            with self.assertRaisesRegex(RuntimeError, "fake shape 3 and real shape 2, at "
                                                      r"output.size\(0\), for func: pytest.turned"):
                torch.export.export(Model(), (torch.ones(2, 3),))

    def test_what_is_made_of_others_is_taken_apart_unless_the_table_says_otherwise(self):
        with torch.library._scoped_library("pytest", "FRAGMENT") as lib:
            lib.define("foo(Tensor x, *, int k=2) -> Tensor")
            lib.impl("foo", lambda x, k=2: x.sin() * k, "CompositeImplicitAutograd")

            class Model(torch.nn.Module):
                def forward(self, x):
                    return torch.ops.pytest.foo(x, k=5)

            ep = torch.export.export(Model(), (torch.ones(2),))
            table = torch.export.default_decompositions()
            self.assertIn("aten.sin", code(ep.run_decompositions()))
            table[torch.ops.aten.sin.default] = lambda x: x.cos() + 1
            self.assertIn("aten.cos", code(ep.run_decompositions(table)))
            del table[torch.ops.pytest.foo.default]
            self.assertIn("pytest.foo", code(ep.run_decompositions(table)))
        with self.assertRaisesRegex(AttributeError, "'pytest' object has no attribute 'foo'"):
            torch.ops.pytest.foo

    def test_opcheck(self):
        from cfx.torch.library import opcheck

        @torch.library.custom_op("pytest::twice", mutates_args=())
        def twice(x: Tensor) -> Tensor:
            return x * 2

        twice.register_fake(lambda x: torch.empty_like(x))
        fine = dict.fromkeys(("test_schema", "test_autograd_registration", "test_faketensor",
                              "test_aot_dispatch_dynamic"), "SUCCESS")
        self.assertEqual(opcheck(twice, (torch.ones(2, 3).t(),)), fine)
        self.assertEqual(opcheck(torch.ops.pytest.twice, (torch.ones(2, requires_grad=True),)),
                         fine)

        @torch.library.custom_op("pytest::writes", mutates_args=())
        def writes(x: Tensor) -> Tensor:
            return x.add_(1).clone()

        writes.register_fake(lambda x: x.new_empty(7))
        found = opcheck(writes, (torch.ones(2),), raise_exception=False)
        self.assertEqual(str(found["test_schema"]),
                         "Argument x is not defined as mutable but was mutated")
        self.assertIn("are not equal", str(found["test_faketensor"]))
        with self.assertRaisesRegex(Exception, r"opcheck\(op, ...\): test_schema failed with Argu"):
            opcheck(writes, (torch.ones(2),))

    def test_a_definition_may_be_made_again_and_mistakes_are_told(self):
        def define():
            @torch.library.custom_op("pytest::again", mutates_args=())
            def again(x: Tensor) -> Tensor:
                return x

            return again

        define()
        with self.assertRaisesRegex(RuntimeError, "may not alias any inputs"):
            define()(torch.ones(1))
        with self.assertRaisesRegex(RuntimeError, "no fake impl registered"):
            class Model(torch.nn.Module):
                def forward(self, x):
                    return torch.ops.pytest.again(x)

            torch.export.export(Model(), (torch.ones(1),))
        with self.assertRaisesRegex(ValueError, "Parameter x must have a type annotation"):
            torch.library.infer_schema(lambda x: x, mutates_args=())
        with self.assertRaisesRegex(RuntimeError, "is no schema"):
            torch.library.define("pytest::bad", "(Tensor")
        with self.assertRaisesRegex(NotImplementedError, "nobody has said what it does"):
            torch.library.define("pytest::nothing", "(Tensor x) -> Tensor")
            torch.ops.pytest.nothing(torch.ones(1))


if __name__ == "__main__":
    unittest.main()
