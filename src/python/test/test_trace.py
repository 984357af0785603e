"""What tracing does for every call: arguments of nodes, whose tracer it is, code when it is asked
for."""
import os
import tempfile
import unittest
import warnings

import cfx.torch as torch
from cfx.torch import fx
from cfx.torch.fx.experimental.proxy_tensor import make_fx


class Steps(unittest.TestCase):
    def test_a_layer_alone_has_the_types_of_its_forward(self):
        for layer, head in ((torch.nn.Linear(2, 2), "input : torch.Tensor) -> torch.Tensor:"),
                            (torch.nn.L1Loss(), "input : torch.Tensor, target : torch.Tensor) -> "),
                            (torch.nn.MaxPool1d(2), "input : torch.Tensor):"),
                            (torch.nn.Sequential(), "input):")):
            self.assertIn(f"def forward(self, {head}", fx.symbolic_trace(layer).code)

    def test_a_tracer_that_overrides_a_step_makes_the_same_graph(self):
        class Seen(fx.Tracer):
            def __init__(self):
                super().__init__()
                self.seen = []

            def create_node(self, kind, target, *rest, **options):
                self.seen.append(kind)
                return super().create_node(kind, target, *rest, **options)

        layer = torch.nn.Linear(2, 2)
        model = torch.nn.Sequential(layer, torch.nn.Sequential(torch.nn.ReLU(), layer), layer)

        def told(tracer):
            graph = tracer.trace(model)
            return [(n.format_node(), list(n.meta.get("nn_module_stack", {}).items()),
                     tracer.node_name_to_scope[n.name]) for n in graph.nodes], tracer.num_calls

        plain, seen = fx.Tracer(), Seen()
        self.assertEqual(told(plain), told(seen))
        self.assertEqual(seen.seen, ["placeholder"] + ["call_module"] * 4 + ["output"])

        class Own(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                return self.layer(x)

        traced = fx.Tracer()
        traced.record_stack_traces = True
        self.assertIn("return self.layer(x)", list(traced.trace(Own()).nodes)[1].stack_trace)

    def test_functions_are_their_own_again_after_a_trace(self):
        import math

        before = dict(math.__dict__)
        gm = fx.symbolic_trace(lambda x: math.floor(x) + math.pi)
        self.assertIn("math_floor", gm.code)
        self.assertEqual(math.__dict__, before)
        with self.assertRaises(ZeroDivisionError):
            fx.symbolic_trace(lambda x: 1 / 0)
        self.assertEqual(math.__dict__, before)


class Neighbours(unittest.TestCase):
    def test_the_root_closes_the_ring_of_nodes(self):
        graph = fx.symbolic_trace(lambda x: x.relu() + 1).graph
        first, last = list(graph.nodes)[0], list(graph.nodes)[-1]
        root = first.prev
        self.assertIs(root, last.next)
        self.assertIs(root, graph._root)
        self.assertIs(root.graph, graph)
        self.assertEqual((root.op, root.name, str(root), root.args, root.kwargs, root.users),
                         ("root", "", "", (), {}, {}))
        self.assertIsInstance(root, fx.Node)
        self.assertIs(root.next, first)
        self.assertIs(root.prev, last)
        seen, node = [], root.next
        while node.op != "root":
            seen.append(node)
            node = node.next
        self.assertEqual(seen, list(graph.nodes))
        self.assertTrue(root < first and last > root and not first < root and root <= root)
        with self.assertRaisesRegex(RuntimeError, "root of a graph"):
            graph.call_function(torch.relu, (root,))
        empty = fx.Graph()
        self.assertIs(empty._root.next, empty._root.prev)

    def test_nodes_are_put_beside_the_root(self):
        graph = fx.Graph()
        a, b = graph.placeholder("a"), graph.placeholder("b")
        a.graph._root.prepend(a)
        self.assertEqual(list(graph.nodes), [b, a])
        graph._root.append(a)
        self.assertEqual(list(graph.nodes), [a, b])
        with graph.inserting_before(b.next):
            c = graph.call_function(torch.add, (a, b))
        with graph.inserting_after(a.prev):
            d = graph.placeholder("d")
        self.assertEqual(list(graph.nodes), [d, a, b, c])


class Arguments(unittest.TestCase):
    def test_containers_of_proxies_become_containers_of_nodes(self):
        def f(x, y):
            return torch.cat([x, y.T], dim=0).sum((0, 1)), x[1:, None, ..., [0]]

        gm = fx.symbolic_trace(f)
        nodes = {n.name: n for n in gm.graph.nodes}
        self.assertEqual(nodes["cat"].args, ([nodes["x"], nodes["getattr_1"]],))
        self.assertEqual(nodes["cat"].kwargs, {"dim": 0})
        self.assertEqual(nodes["getitem"].args[1],
                         (slice(1, None, None), None, ..., [0]))
        a, b = torch.ones(2, 2), torch.ones(3, 2).T
        self.assertEqual(gm(a, b)[0].item(), f(a, b)[0].item())

    def test_a_tracer_of_the_users_is_asked_about_every_argument(self):
        seen = []

        class Asking(fx.Tracer):
            def create_arg(self, a):
                seen.append(a)
                return super().create_arg(a)

        graph = Asking().trace(lambda x: torch.add(x, 3))
        self.assertIn(3, [a for a in seen if type(a) is int])
        self.assertEqual([n.op for n in graph.nodes], ["placeholder", "call_function", "output"])

    def test_proxies_of_two_tracers_do_not_mix(self):
        def proxy():
            tracer = fx.Tracer()
            tracer.graph = fx.Graph()
            return fx.Proxy(tracer.graph.placeholder("x"), tracer)

        with self.assertRaisesRegex(RuntimeError, "multiple different tracers"):
            torch.add(proxy(), proxy())

    def test_operators_in_place_make_new_values_and_items_cannot_be_set(self):
        def doubled(x):
            x += x
            return x

        self.assertEqual([str(n) for n in fx.symbolic_trace(doubled).graph.nodes],
                         ["x", "add", "output"])

        def writes(x):
            x[0] = 1
            return x

        with self.assertRaisesRegex(TypeError, "'Proxy' object does not support item assignment"):
            fx.symbolic_trace(writes)

    def test_a_container_that_holds_itself_is_an_error(self):
        loop = []
        loop.append(loop)
        with self.assertRaises(RecursionError):
            fx.symbolic_trace(lambda x: torch.cat([x, loop]))

    def test_a_parameter_that_is_replaced_while_tracing_is_read_by_its_name(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                y = x * self.w
                self.v = torch.nn.Parameter(torch.zeros(2))
                return y + self.v + self.w

        gm = fx.symbolic_trace(M())
        self.assertEqual([n.target for n in gm.graph.nodes if n.op == "get_attr"], ["w", "v"])


class Code(unittest.TestCase):
    def test_forward_follows_the_graph_as_it_is_when_asked_for(self):
        gm = fx.symbolic_trace(lambda x: torch.relu(x))
        for _ in range(2):
            for node in gm.graph.nodes:
                if node.op == "call_function":
                    node.target = torch.neg if node.target is torch.relu else torch.relu
            gm.recompile()
        node.graph.find_nodes(op="call_function", target=torch.relu)[0].target = torch.neg
        gm.recompile()
        self.assertEqual(gm(torch.tensor([2.0])).tolist(), [-2.0])
        self.assertEqual(type(gm).forward.__code__.co_varnames[:2], ("self", "x"))
        self.assertIs(type(gm).forward, type(gm).forward)

    def test_a_folder_has_the_code_of_a_module_and_its_tensors(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)
                self.act = torch.nn.Sequential(torch.nn.ReLU())
                self.register_buffer("b", torch.ones(2))
                self.p = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                return self.act(self.fc(x)) * self.p + self.b

        gm = fx.symbolic_trace(Net())
        with tempfile.TemporaryDirectory() as base, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = os.path.join(base, "net")
            gm.to_folder(folder, "Net")
            with open(os.path.join(folder, "module.py"), encoding="utf-8") as f:
                text = f.read()
            self.assertIn(f"""
from torch.nn import *
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, 'fc', Linear(in_features=2, out_features=2, bias=True))
        setattr(self, 'act', torch.load(r'{folder}/act.pt', weights_only=False)) \
# Module(   (0): ReLU() )
        self.register_buffer('b', torch.empty([2], dtype=torch.float32))
        setattr(self, 'p', torch.nn.Parameter(torch.empty([2], dtype=torch.float32)))
        self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))



    def forward(self, x):
        fc = self.fc(x);  x = None
""", text)


class MadeOfCalls(unittest.TestCase):
    def test_each_run_has_its_own_copy_of_a_tensor_that_the_function_makes(self):
        def f(x):
            t = torch.tensor([1.0, 2.0])
            t.add_(x.sum())
            return x * t

        make = torch.tensor
        gm = make_fx(f)(torch.ones(2))
        self.assertIs(torch.tensor, make)
        self.assertIn("lift_fresh_copy.default(_tensor_constant0)", gm.code)
        for x in (torch.ones(2), torch.full((2,), 3.0), torch.ones(2)):
            self.assertEqual(gm(x).tolist(), f(x).tolist())
