# Building and changing graphs by hand.
import copy
import operator
import pickle

import torch
import torch.fx as fx
from torch import nn
from torch.fx import Graph, Node, Proxy, wrap

wrap("len")


@wrap
def helper(a, b=2):
    return a * b


g = Graph()
x = g.placeholder("x")
y = g.placeholder("y", type_expr=torch.Tensor, default_value=None)
c = g.call_function(torch.add, (x, 1), {"alpha": 2})
d = g.call_method("view", (c, -1))
e = g.create_node("call_function", operator.getitem, (d, slice(0, 2, None)), name="part")
with g.inserting_before(d):
    n = g.call_function(torch.neg, (c,))
d.args = (n, -1)
g.output((e, {"k": [d, None, 3.5, torch.float32]}))
print(g)
g.lint()
gm = fx.GraphModule({}, g)
print(gm.code)
print(gm(torch.arange(4.0)))
print(c.users, n.all_input_nodes, list(d.kwargs), d.prev.name, d.next.name, e.is_impure())
print(repr(c), c.format_node(), c.op, c.args, c.kwargs)
for bad in (lambda: g.erase_node(c), lambda: g.create_node("call_thing", "x")):
    try:
        bad()
        print("allowed")
    except Exception as ex:
        print(type(ex).__name__, ex)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(2))
        self.sub = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: torch.Tensor, flag: bool = True) -> torch.Tensor:
        """doc"""
        y = self.sub(x) + self.p
        if flag:
            y = helper(y, b=len(x))
        return y.relu().to(torch.float64)[..., :1]


gm = fx.symbolic_trace(M(), concrete_args={"flag": True})
print(gm.code)
print(gm.graph.python_code("self").src)
gm.graph.print_tabular() if False else None
for n in gm.graph.nodes:
    print(n.name, n.op, n.target if isinstance(n.target, str) else n.target.__name__, n.args, n.kwargs, n.type, len(n.users))
with gm.graph.inserting_after([n for n in gm.graph.nodes if n.name == "add"][0]):
    new = gm.graph.call_function(torch.tanh, ([n for n in gm.graph.nodes if n.name == "add"][0],))
[n for n in gm.graph.nodes if n.name == "add"][0].replace_all_uses_with(new, delete_user_cb=lambda u: u is not new)
gm.recompile()
print(gm.code)
c2 = copy.deepcopy(gm)
print(c2.code == gm.code, c2.get_submodule("sub.0").weight is gm.get_submodule("sub.0").weight)
p = pickle.loads(pickle.dumps(fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))))
print(p.code)
g2 = Graph()
m = {}
out = g2.graph_copy(gm.graph, m)
g2.output(out)
print(len(g2.nodes), len(m))
px = Proxy(g2.placeholder("late")) if False else None
print(gm.graph.find_nodes(op="call_function", target=torch.tanh), gm.graph.output_node().args)
print([n.name for n in reversed(gm.graph.nodes)][:3])
gm.add_submodule("extra.deep", nn.Identity())
print(gm.get_submodule("extra.deep"), gm.delete_submodule("extra"), gm.delete_all_unused_submodules())
print(gm)
print(fx.node.map_arg((new, [new, 1]), lambda n: n.name), fx.node.map_aggregate((1, [2]), lambda v: v * 2))
tr = fx.symbolic_trace(lambda x: torch.ops.aten.relu(x) + (x > 0) * ~(x < 1) - x // 2 % 3 ** x)
print(tr.graph)
print(tr.code)
s = fx.symbolic_trace(lambda x: x.shape[0] + x.size(1))
print(s.code, s(torch.ones(2, 3)))
t = fx.Tracer()
gr = t.trace(lambda a, *args, **kwargs: a + args[0] + kwargs["z"])
print(gr)
