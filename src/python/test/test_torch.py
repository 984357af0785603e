"""cfx.torch: what is found under PyTorch's names, and that graphs of it run."""
import copy
import importlib
import io
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


class Numbers(unittest.TestCase):
    def test_a_number_is_no_tensor_but_where_pytorch_takes_one(self):
        x = torch.ones(3)
        for call, words in (
                (lambda: torch.dot(x, 5), r"dot\(\): argument 'tensor' \(position 2\) must be "
                                          "Tensor, not int"),
                (lambda: x.dot(5), r"dot\(\): argument 'tensor' \(position 1\)"),
                (lambda: torch.relu(True), r"relu\(\): argument 'input' \(position 1\) must be "
                                           "Tensor, not bool"),
                (lambda: torch.matmul(x, other=1.5), "'other' .position 2. must be Tensor, not "
                                                     "float"),
                (lambda: torch.nn.functional.linear(x, 5), "linear.*'weight'"),
                (lambda: torch.nn.Linear(3, 2)(5), "linear.*'input'")):
            with self.assertRaisesRegex(TypeError, words):
                call()
        for call in (lambda: torch.add(x, 2), lambda: torch.pow(2, x), lambda: x // 2,
                     lambda: torch.where(x > 0, x, 0), lambda: x.copy_(3), lambda: 2 ** x,
                     lambda: x.masked_fill(x > 2, 1), lambda: torch.clamp(x, 0, 1)):
            self.assertEqual(call().shape, (3,))


    def test_places_that_are_not_zero(self):
        x = torch.tensor([[1, 0], [0, 3]])
        self.assertEqual(torch.nonzero(x).tolist(), [[0, 0], [1, 1]])
        self.assertEqual([t.tolist() for t in x.nonzero(as_tuple=True)], [[0, 1], [0, 1]])
        self.assertEqual(len(torch.nonzero(torch.tensor(3), as_tuple=True)), 1)
        self.assertIn("torch.nonzero(x)", fx.symbolic_trace(lambda x: torch.nonzero(x)).code)


class Schemas(unittest.TestCase):
    def test_defaults_are_as_long_as_the_list(self):
        op = torch.ops.aten.max_pool2d_with_indices.default
        self.assertEqual({a.name: a.default_value for a in op._schema.arguments[2:]},
                         {"stride": [], "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False})

    def test_functions_call_their_first_argument_input(self):
        x = torch.ones(1, 2)
        self.assertEqual(torch.nn.functional.pad(input=x, pad=(1, 0)).tolist(), [[0.0, 1.0, 1.0]])

    def test_a_lazy_module_is_pickled(self):
        from cfx.torch.fx._lazy_graph_module import _use_lazy_graph_module

        with _use_lazy_graph_module(True):
            gm = fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
            self.assertEqual(pickle.loads(pickle.dumps(gm))(torch.tensor([-1.0])).tolist(), [0.0])

    def test_a_predicate_that_is_a_constant_is_told(self):
        with self.assertWarnsRegex(UserWarning, "Pred is a Python constant"):
            self.assertEqual(torch.cond(True, lambda x: x + 1, lambda x: x, (1,)), 2)


class Pools(unittest.TestCase):
    def test_are_normalized_by_name(self):
        from cfx.torch.fx.experimental.normalize import NormalizeArgs

        gm = fx.symbolic_trace(lambda x: torch.nn.functional.max_pool1d(x, 2))
        text = NormalizeArgs(gm).transform().code
        self.assertIn("max_pool1d(input = x, kernel_size = 2, stride = None, padding = 0, "
                      "dilation = 1, ceil_mode = False, return_indices = False)", text)


class Lazy(unittest.TestCase):
    def test_texts(self):
        self.assertEqual(repr(torch.nn.LazyLinear(3)),
                         "LazyLinear(in_features=0, out_features=3, bias=True)")
        self.assertEqual(repr(torch.nn.LazyConv2d(4, 3)),
                         "LazyConv2d(0, 4, kernel_size=(3, 3), stride=(1, 1))")


class Partitions(unittest.TestCase):
    def test_graphs_are_cut_for_devices(self):
        from cfx.torch.fx.experimental.accelerator_partitioner import Partitioner
        from cfx.torch.fx.experimental.partitioner_utils import (Device, NodeLatency,
                                                                 PartitionerConfig, PartitionMode)
        from cfx.torch.fx.passes.graph_manipulation import get_size_of_all_nodes

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, a, b):
                c = a + b
                return self.linear(c) + c * 2

        for mode in (PartitionMode.size_based, PartitionMode.cost_aware, PartitionMode.kl_based):
            gm = fx.symbolic_trace(Model())
            x = torch.ones(4)
            get_size_of_all_nodes(gm, [x, x])
            devices = [Device(f"dev_{i}", 140, i) for i in range(3)]
            latency = {n: NodeLatency(n.size_bytes.total_size, 1) for n in gm.graph.nodes
                       if n.op.startswith("call")}
            done = Partitioner().partition_graph(gm, gm, PartitionerConfig(
                devices, mode, transfer_rate_bytes_per_sec=2, node_to_latency_mapping=latency))
            self.assertTrue(torch.equal(done.module_with_submodules(x, x), gm(x, x)))
            self.assertTrue(all(n.logical_device_ids for n in done.dag.nodes))
        with self.assertRaisesRegex(RuntimeError, "no enough memory"):
            Partitioner().partition_graph(gm, gm, PartitionerConfig([Device("small", 4, 0)]))


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

    def test_sizes_are_divided_and_looked_up(self):
        class Parts(torch.nn.Module):
            def forward(self, x):
                whole, rest = divmod(x.shape[0], 3)
                return x * whole + rest

        class Named(torch.nn.Module):
            def forward(self, x):
                return x * {4: 2}.get(x.shape[0], 1)

        sizes = ({0: torch.export.Dim.AUTO},)
        parts = torch.export.export(Parts(), (torch.ones(4),), dynamic_shapes=sizes).module()
        for n in (2, 3, 8, 100):
            self.assertTrue(torch.equal(parts(torch.ones(n)), Parts()(torch.ones(n))))
        with self.assertRaisesRegex(TypeError, "unhashable type: non-nested SymInt"):
            torch.export.export(Named(), (torch.ones(4),), dynamic_shapes=sizes)

    def test_sizes_that_follow_from_others_are_checked(self):
        class Firsts(torch.nn.Module):
            def forward(self, x, y):
                return x[0] + y[0]

        def refuses(dims, x, y, words):
            ep = torch.export.export(Firsts(), (torch.ones(5), torch.ones(11)),
                                     dynamic_shapes=dims)
            ep.module()(torch.ones(x), torch.ones(2 * x + 1))
            with self.assertRaisesRegex(AssertionError, f"Guard failed: {words}"):
                ep.module()(torch.ones(x), torch.ones(y))

        n = torch.export.Dim("n")
        refuses(({0: n}, {0: 2 * n + 1}), 7, 16, r"y.size\(\)\[0\] == 1 \+ 2 \* x.size\(\)\[0\]")
        refuses((None, {0: 2 * n + 1}), 5, 12, r"\(-1 \+ y.size\(\)\[0\]\) % 2 == 0")

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

    def test_autocast_of_a_dtype_that_there_is_not(self):
        with self.assertWarnsRegex(UserWarning, "In CPU autocast, but the target dtype is not "
                                   "supported. Disabling autocast."):
            region = torch.autocast("cpu", torch.float32)
        with region:
            self.assertFalse(torch.is_autocast_enabled("cpu"))
            self.assertIs((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.float32)

    def test_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            self.assertIs((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.bfloat16)
            self.assertTrue(torch.is_autocast_enabled("cpu"))
        self.assertIs((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.float32)


class Shown(unittest.TestCase):
    """What modes see of calls, and what layers and optimisers say of themselves."""

    def test_dispatch_modes_see_what_differs_from_the_defaults(self):
        from cfx.torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Log(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append((str(func), len(args), kwargs))
                return func(*args, **kwargs)

        x = torch.ones(2, 2)
        with Log():
            x + x
            torch.add(x, x, alpha=2)
            torch.zeros(2, dtype=torch.int64)
        self.assertEqual(seen, [("aten.add.Tensor", 2, {}), ("aten.add.Tensor", 2, {"alpha": 2}),
                                ("aten.zeros.default", 1,
                                 {"dtype": torch.int64, "device": torch.device("cpu"),
                                  "pin_memory": False})])
        del seen[:]
        with Log():
            torch.zeros_like(x)
            torch.tensor([1.0])
            torch.ops.aten.zeros.default([2])
            torch.ones(2, requires_grad=True).sum().backward()
        self.assertEqual([s for s in seen if s[0] not in ("aten.sum.default", "aten.expand.default",
                                                          "aten.empty_strided.default",
                                                          "aten.copy_.default")],
                         [("aten.zeros_like.default", 1, {"pin_memory": False}),
                          ("aten.lift_fresh.default", 1, {}), ("aten.zeros.default", 1, {}),
                          ("aten.ones.default", 1, {"device": torch.device("cpu"),
                                                    "pin_memory": False}),
                          ("aten.ones_like.default", 1, {"pin_memory": False,
                                                         "memory_format": torch.preserve_format})])

    def test_items_are_methods_of_tensors_to_those_who_override(self):
        from cfx.torch.overrides import TorchFunctionMode, resolve_name

        seen = []

        class Log(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(resolve_name(func))
                return func(*args, **(kwargs or {}))

        x = torch.zeros(2, 2)
        with Log():
            x[0, 1:] = 3
            y = x[0]
        self.assertEqual(y.tolist(), [0.0, 3.0])
        self.assertEqual(seen, ["torch.Tensor.__setitem__", "torch.Tensor.__getitem__"])

    def test_a_layer_without_a_bias_says_so(self):
        self.assertEqual(repr(torch.nn.Linear(2, 3, bias=False)),
                         "Linear(in_features=2, out_features=3, bias=False)")
        self.assertEqual(repr(torch.nn.Conv1d(1, 2, 3, bias=False)),
                         "Conv1d(1, 2, kernel_size=(3,), stride=(1,), bias=False)")

    def test_a_backend_that_would_not_be_called_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "cfx has no Dynamo"):
            torch.compile(torch.nn.ReLU(), backend=lambda gm, inputs: gm.forward)
        model = torch.nn.ReLU()
        self.assertIs(torch.compile(model, backend="eager"), model)

    def test_a_function_is_traced_without_its_writes(self):
        from cfx.torch.func import functionalize
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        def writes(a, b):
            a.mul_(b)
            return a.sum(), [b.relu_()]

        gm = make_fx(functionalize(writes))(torch.ones(2), torch.ones(2))
        written = [str(n.target) for n in gm.graph.nodes if str(n.target).endswith("_.default")]
        self.assertEqual(written, ["aten.copy_.default"] * 2)
        a, b = torch.ones(2), torch.tensor([-1.0, 2.0])
        total, (c,) = functionalize(writes)(a, b)
        self.assertEqual((total.item(), c.tolist(), a.tolist(), b.tolist()),
                         (1.0, [0.0, 2.0], [-1.0, 2.0], [0.0, 2.0]))

    def test_what_a_gradient_reads_is_a_node(self):
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        gm = make_fx(lambda x: torch.autograd.grad((x ** 3).sum(), x)[0])(
            torch.ones(2, requires_grad=True))
        self.assertFalse(gm.graph.find_nodes(op="get_attr"))
        self.assertEqual(gm(torch.tensor([1.0, 2.0])).tolist(), [3.0, 12.0])

    def test_sizes_in_a_graph_for_all_sizes_are_refused(self):
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        make = lambda f: make_fx(f, tracing_mode="symbolic")(torch.ones(3, 2))  # noqa: E731
        self.assertIn("aten.sin", make(lambda x: x.sin().sum(1)).code)
        with self.assertRaisesRegex(NotImplementedError, "depends on sizes"):
            make(lambda x: x + x.shape[0])

    def test_a_table_takes_operators_apart(self):
        from cfx.torch._decomp import get_decompositions
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        table = get_decompositions([torch.ops.aten.silu])
        gm = make_fx(torch.nn.functional.silu, decomposition_table=table)(torch.ones(2))
        self.assertEqual([str(n.target) for n in gm.graph.nodes if n.op == "call_function"],
                         ["aten.sigmoid.default", "aten.mul.Tensor"])

    def test_flops_are_counted(self):
        from cfx.torch.utils.flop_counter import FlopCounterMode

        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5))
        with FlopCounterMode(display=False) as counter:
            model(torch.ones(2, 3))
        self.assertEqual(counter.get_total_flops(), 2 * 2 * (3 * 4 + 4 * 5))
        self.assertEqual(sum(counter.get_flop_counts()["Sequential.2"].values()), 80)


class OperatorsOfFunctions(unittest.TestCase):
    def test_operators_of_functions_have_modules_of_their_own(self):
        from cfx.torch._functorch.apis import vmap
        from cfx.torch._higher_order_ops.associative_scan import associative_scan
        from cfx.torch._higher_order_ops.cond import cond, cond_op
        from cfx.torch._higher_order_ops.map import map as map_
        from cfx.torch._higher_order_ops.scan import scan
        from cfx.torch._higher_order_ops.while_loop import while_loop

        x = torch.arange(4.0)
        self.assertIs(torch.ops.higher_order.cond, cond_op)
        self.assertIs(torch._higher_order_ops.scan, scan)
        self.assertEqual(cond(x.sum() > 0, lambda a: a + 1, lambda a: a, (x,)).tolist(),
                         [1, 2, 3, 4])
        self.assertEqual(while_loop(lambda a: a.sum() < 9, lambda a: (a + 1,), (x,))[0].tolist(),
                         [1, 2, 3, 4])
        self.assertEqual(map_(lambda a: a * 2, x).tolist(), [0, 2, 4, 6])
        self.assertEqual(scan(lambda c, a: (c + a, c * a), x[0], x)[1].tolist(), [0, 0, 2, 9])
        self.assertEqual(associative_scan(torch.add, x, 0).tolist(), [0, 1, 3, 6])
        self.assertEqual(vmap(torch.sum)(x.reshape(2, 2)).tolist(), [1, 5])
        out, product = torch.func.linearize(lambda a: a * a, x)
        self.assertEqual((out.tolist(), product(torch.ones(4)).tolist()),
                         ([0, 1, 4, 9], [0, 2, 4, 6]))

    def test_mistakes_with_transforms_are_told(self):
        from cfx.torch.func import grad, jvp, vmap

        x = torch.ones(2, 3)
        for call, words in (
                (lambda: vmap(abs)(3), "input is of type <class 'int'>. We cannot vmap over non-T"),
                (lambda: vmap(abs)(), "got no inputs"),
                (lambda: vmap(abs, in_dims=5)(x), "expected in_dim to satisfy -2 <= in_dim < 2"),
                (lambda: vmap(abs, in_dims=None)(x), "expected `in_dims` to be int or a"),
                (lambda: vmap(abs, in_dims=(None,))(x), "Expected at least one Tensor to vmap"),
                (lambda: vmap(torch.add, in_dims=(0,))(x, x), "in_dims is not compatible with"),
                (lambda: vmap(lambda a: 3)(x), "Did you mean to set out_dims= to None"),
                (lambda: grad(lambda a: 3)(x), "to return a Tensor, got <class 'int'>"),
                (lambda: jvp(torch.sin, x, x), "should be valid to call f\\(\\*primals\\)")):
            with self.assertRaisesRegex((ValueError, RuntimeError), words):
                call()


class MadeOfNumbers(unittest.TestCase):
    def test_nobody_asks_which_number_a_traced_tensor_is(self):
        from cfx.torch.fx.experimental.proxy_tensor import make_fx

        for f in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item()):
            with self.assertRaisesRegex(RuntimeError, "trying to get value out of a tracing"):
                make_fx(f)(torch.ones(3))
            make_fx(f, _error_on_data_dependent_ops=False)(torch.ones(3))
        gm = make_fx(lambda x: x + torch.tensor(3).item())(torch.ones(3))
        self.assertEqual(gm(torch.zeros(1)).tolist(), [3])

    def test_modules_without_numbers(self):
        with torch.device("meta"):
            m = torch.nn.Linear(3, 2)
        with self.assertRaisesRegex(NotImplementedError, "Cannot copy out of meta tensor; no data"):
            m.to("cpu")
        m.to_empty(device="cpu")
        self.assertEqual(m(torch.ones(1, 3)).shape, (1, 2))

    def test_errors_have_their_classes(self):
        with self.assertRaisesRegex(torch.linalg.LinAlgError, "matrix is singular"):
            torch.linalg.inv(torch.zeros(2, 2))
        with self.assertRaisesRegex(TypeError, r"^relu\(\): argument 'input'"):
            torch.nn.functional.relu(3)
        with self.assertRaisesRegex(TypeError, "invalid data type 'str'"):
            torch.tensor([1, "a"])
        with self.assertRaisesRegex(ValueError, "Unsupported input type <class 'object'>"):
            torch.export.export(torch.nn.Identity(), (object(),))
        with self.assertRaises(pickle.UnpicklingError):
            torch.load(io.BytesIO(b"junk"))
        with self.assertRaises(EOFError):
            torch.load(io.BytesIO())

    def test_a_schedule_before_its_optimizer_is_warned_of(self):
        opt = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        rates = torch.optim.lr_scheduler.StepLR(opt, 1)
        with self.assertWarnsRegex(UserWarning, "`lr_scheduler.step\\(\\)` before `optimizer.step"):
            rates.step()
