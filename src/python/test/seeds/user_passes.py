# Passes: PassManager, shape propagation, drawing, dead code, cse, const folding.
import operator

import torch
from torch import nn, fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.experimental.optimization import fuse, remove_dropout
from torch.fx.passes.dialect.common.cse_pass import CSEPass


class AddToMul(PassBase):
    def call(self, graph_module):
        changed = False
        for n in graph_module.graph.nodes:
            if n.op == "call_function" and n.target in (operator.add, torch.add):
                n.target = torch.mul
                changed = True
        return PassResult(graph_module, changed)

    def requires(self, graph_module):
        assert isinstance(graph_module, fx.GraphModule)


def no_relu(gm):
    for n in list(gm.graph.nodes):
        if n.target is torch.relu:
            n.replace_all_uses_with(n.args[0])
            gm.graph.erase_node(n)
    return PassResult(gm, True)


def dce(gm):
    return PassResult(gm, gm.graph.eliminate_dead_code())


def f(x, y):
    a = x + y
    unused = torch.sin(a)
    return torch.relu(a) + torch.relu(a)


gm = fx.symbolic_trace(f)
pm = PassManager(passes=[AddToMul(), no_relu, dce], constraints=[this_before_that_pass_constraint(no_relu, dce)], run_checks_after_each_pass=True)
pm.add_checks(lambda gm: gm.graph.lint())
r = pm(gm)
print(type(r).__name__, r.modified)
print(r.graph_module.code)
try:
    bad = PassManager(passes=[dce, no_relu], constraints=[this_before_that_pass_constraint(no_relu, dce)])
    bad(fx.symbolic_trace(f))
except Exception as e:
    print(type(e).__name__, str(e).split("0x")[0])


def broken(gm):
    raise ValueError("no good")


try:
    PassManager(passes=[dce, broken])(fx.symbolic_trace(f))
except Exception as e:
    print(type(e).__name__, "broken" in str(e), e.__cause__)

g = fx.symbolic_trace(f)
print(CSEPass()(g).graph_module.code)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(4 * 4 * 4, 2)
        self.register_buffer("k", torch.tensor(2.0))
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.bn(self.conv(x))), 2)
        c = self.k * 3 + self.w
        return self.fc(self.drop(torch.flatten(x, 1))) * c


torch.manual_seed(0)
net = Net().eval()
gm = fx.symbolic_trace(net)
x = torch.randn(2, 3, 8, 8)
ShapeProp(gm).propagate(x)
for n in gm.graph.nodes:
    tm = n.meta.get("tensor_meta")
    print(n.name, None if tm is None else (tm.shape, tm.dtype, tm.stride, tm.memory_format, tm.requires_grad))
fused = fuse(net)
print(fused.code)
print(torch.allclose(fused(x), net(x), atol=1e-6))
folded = split_const_subgraphs(gm)
print(folded.code)
print(folded.const_subgraph_module.code)
folded.run_folding()
print(torch.allclose(folded(x), net(x)))
from torch.fx.passes.tools_common import get_acc_ops_name, legalize_graph
print(legalize_graph(gm).graph)
