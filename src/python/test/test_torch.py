"""cfx.torch: what is found under PyTorch's names, and that graphs of it run."""
import copy
import importlib
import os
import pickle
import tempfile
import typing
import unittest

import cfx.torch as torch
from cfx import _cfx
from cfx.torch import fx
from cfx.torch.fx.passes.split_module import split_module


class Gradual(unittest.TestCase):
    """Types by sizes: annotations in forward are checked, what they do not say is Dyn."""

    def check(self, shape, expected):
        from cfx.torch.fx.experimental.graph_gradual_typechecker import GraphTypeChecker
        from cfx.torch.fx.tensor_type import TensorType

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(2, 4, 3, stride=2, padding=1)
                self.norm = torch.nn.BatchNorm2d(4)
                self.fc = torch.nn.Linear(16, 5)

            def forward(self, x):
                return self.fc(torch.flatten(self.norm(self.conv(x)) + 1, 1))

        gm = fx.symbolic_trace(Model())
        next(iter(gm.graph.nodes)).type = TensorType(shape)
        GraphTypeChecker({}, gm).type_check()
        self.assertEqual(list(gm.graph.nodes)[-1].type, TensorType(expected))

    def test_types_follow_from_each_other(self):
        from cfx.torch.fx.tensor_type import Dyn

        self.check((1, 2, 4, 4), (1, 5))
        self.check((Dyn, 2, 4, Dyn), (Dyn, 5))
        with self.assertRaisesRegex(TypeError, "Cannot apply Conv2d"):
            self.check((1, 3, 4, 4), (1, 5))
        with self.assertRaisesRegex(TypeError, "Inconsistent 16 and"):
            self.check((1, 2, 8, 4), (1, 5))

    def test_annotations_stand_in_code(self):
        from cfx.torch.fx.tensor_type import Dyn, TensorType

        def f(x: TensorType((1, Dyn))):
            return torch.relu(x)

        gm = fx.symbolic_trace(f)
        self.assertEqual(next(iter(gm.graph.nodes)).type, TensorType((1, Dyn)))
        self.assertEqual(gm(torch.tensor([-1.0])).tolist(), [0.0])


class Names(unittest.TestCase):
    def test_every_spelling_is_a_name(self):
        """What the registry knows by a path of torch's is there under it."""
        missing = []
        for path in _cfx.spellings():
            if path.startswith("torch.") and not path.startswith("torch.ops."):
                at = torch
                try:
                    for part in path.split(".")[1:]:
                        at = getattr(at, part)
                except AttributeError:
                    missing.append(path)
            elif path.startswith("Tensor.") and "__" not in path and \
                    not hasattr(torch.Tensor, path[7:]):
                missing.append(path)
        self.assertEqual(missing, [])

    def test_every_module_is_imported(self):
        package = os.path.dirname(torch.__file__)
        for folder, _, files in os.walk(package):
            for name in files:
                if name.endswith(".py"):
                    path = os.path.relpath(os.path.join(folder, name), package)[:-3]
                    parts = [p for p in path.split(os.sep) if p != "__init__"]
                    importlib.import_module(".".join(["cfx.torch", *parts]))
        for name in torch._SUBMODULES:
            getattr(torch, name)

    def test_what_is_not_there(self):
        for path in ("torch.nothing", "torch.linalg.nothing", "torch.nn.Nothing",
                     "torch.nn.functional.nothing", "torch.fx.nothing", "torch.ops.aten.nothing"):
            with self.assertRaises(AttributeError, msg=path):
                at = torch
                for part in path.split(".")[1:]:
                    at = getattr(at, part)
        with self.assertRaisesRegex(NotImplementedError, "cfx has no TorchScript"):
            torch.jit.script(lambda x: x)


class Local(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        first, second = torch.split(self.a(x), 2, dim=1)
        y = torch.cat([first, second.relu()], 1)
        return self.b(y) + torch.linalg.norm(x)


class Graphs(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model, self.x = Local(), torch.randn(3, 4)
        self.gm = fx.symbolic_trace(self.model)

    def same(self, other):
        self.assertTrue(torch.equal(other(self.x), self.model(self.x)))

    def test_graphs_are_run_copied_and_pickled(self):
        self.same(self.gm)
        self.same(copy.deepcopy(self.gm))
        self.same(pickle.loads(pickle.dumps(self.gm)))
        graph = pickle.loads(pickle.dumps(self.gm.graph))
        self.assertEqual(str(graph), str(self.gm.graph))
        node = list(self.gm.graph.nodes)[1]
        copied = copy.deepcopy(node)
        self.assertTrue(copied.name == node.name and copied.graph is not node.graph)

    def test_parts(self):
        parts = split_module(self.gm, self.model, lambda n: int(n.name in ("b", "add")))
        self.same(parts)
        self.assertEqual([n for n, _ in parts.named_children()], ["submod_0", "submod_1"])

    def test_nested_arguments(self):
        gm = fx.symbolic_trace(lambda x: x["a"] + sum(x["z"]),
                               concrete_args={"x": {"a": fx.PH, "z": (fx.PH, fx.PH)}})
        self.assertEqual(gm({"a": 1, "z": (2, 3)}), 6)

    def test_annotations_are_globals(self):
        class Own:
            pass

        def f(x: Own, y: "typing.List[Own]", z: typing.List["Own"]) -> Own:
            return x

        gm = fx.GraphModule(torch.nn.Module(), fx.Tracer().trace(f))
        own = Own()
        self.assertIs(gm(own, [own], [own]), own)

    def test_a_codegen_of_ones_own(self):
        class Listed(fx.graph.CodeGen):
            def gen_fn_def(self, free_vars, returns):
                return f"def forward(self, all){returns}:\n    {', '.join(free_vars)}, = all"

            def process_inputs(self, inputs):
                return inputs

        graph = copy.deepcopy(self.gm.graph)
        graph.set_codegen(Listed())
        gm = fx.GraphModule(self.model, graph)
        self.assertTrue(torch.equal(gm([self.x]), self.model(self.x)))

    def test_arguments_of_nodes_are_trees(self):
        args = fx.immutable_collections.immutable_list([1, [2, 3]])
        leaves, spec = torch.utils._pytree.tree_flatten(args)
        self.assertEqual(leaves, [1, 2, 3])
        self.assertIs(type(torch.utils._pytree.tree_unflatten(leaves, spec)), type(args))

    def test_modes_see_sizes(self):
        seen = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Mode():
            self.assertEqual((self.x.size(0), self.x.dim(), self.x.numel()), (3, 2, 12))
        self.assertEqual(seen, ["size", "dim", "numel"])


class Exported(unittest.TestCase):
    def test_inputs_are_checked(self):
        dim = torch.export.Dim("n", min=3, max=9)
        ep = torch.export.export(Local(), (torch.randn(4, 4),), dynamic_shapes=({0: dim},))
        module = ep.module()
        self.assertEqual(module(torch.randn(5, 4)).shape, (5, 2))
        self.assertEqual(copy.deepcopy(module)(torch.randn(5, 4)).shape, (5, 2))
        for bad, words in ((torch.ones(10, 4), r"x.size\(\)\[0\] <= 9"),
                           (torch.ones(4, 3), r"x.size\(\)\[1\] == 4")):
            with self.assertRaisesRegex(AssertionError, f"Guard failed: {words}"):
                module(bad)
        self.assertNotIn("_guards_fn", ep.module(check_guards=False).code)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.pt2")
            x, model = torch.randn(4, 4), Local()
            torch.export.save(torch.export.export(model, (x,)), path)
            again = torch.export.load(path).module()(x)
            self.assertLess((again - model(x)).abs().max().item(), 1e-5)
            torch.save(model.state_dict(), os.path.join(folder, "s.pt"))
            other = Local()
            other.load_state_dict(torch.load(os.path.join(folder, "s.pt")))
            self.assertTrue(torch.equal(other(x), model(x)))


class Training(unittest.TestCase):
    def test_a_generator_draws_its_own_numbers(self):
        g = torch.Generator().manual_seed(3)
        first = torch.randn(2, generator=g)
        torch.randn(5)
        second = torch.randn(2, generator=g)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(torch.cat([first, second]),
                                    torch.cat([torch.randn(2), torch.randn(2)])))

    def test_an_optimizers_state_is_saved(self):
        def steps(model, optimizer, n):
            for i in range(n):
                optimizer.zero_grad()
                model(torch.full((1, 4), float(i))).sum().backward()
                optimizer.step()

        torch.manual_seed(0)
        a = Local()
        b = copy.deepcopy(a)
        one = torch.optim.Adam(a.parameters(), lr=0.1)
        steps(a, one, 3)
        two = torch.optim.Adam(b.parameters(), lr=0.1)
        b.load_state_dict(a.state_dict())
        two.load_state_dict(one.state_dict())
        steps(a, one, 2)
        steps(b, two, 2)
        for p, q in zip(a.parameters(), b.parameters()):
            self.assertLess((p - q).abs().max().item(), 1e-6)

    def test_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            self.assertIs((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.bfloat16)
            self.assertTrue(torch.is_autocast_enabled("cpu"))
        self.assertIs((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.float32)
