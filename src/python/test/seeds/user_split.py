# Splitting a module into partitions, by hand and by capability.
import torch
from torch import nn, fx
from torch.fx.passes.split_module import split_module
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupport, create_op_support, any_chain, OperatorSupportBase


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.arange(12.0).reshape(3, 4))
        self.linear = nn.Linear(4, 5)
        self.register_buffer("buf", torch.ones(5))

    def forward(self, x, y):
        z = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        w = self.linear(y).clamp(min=0.0, max=1.0)
        return (z + w) * self.buf, z


torch.manual_seed(0)
m = M()
gm = fx.symbolic_trace(m)
count = 0


def part(node):
    global count
    p = count // 4
    count += 1
    return p


s = split_module(gm, m, part)
print(s.code)
for name, child in s.named_children():
    print(name, child.code)
x, y = torch.randn(3, 4), torch.randn(3, 4)
print(all(torch.equal(a, b) for a, b in zip(s(x, y), m(x, y))))
print(list(s.state_dict()))
quals = {}
s2 = split_module(gm, m, lambda n: 0 if n.name in ("param", "add", "linear", "clamp") else 1, qualname_map=quals, keep_original_order=True)
print(s2.graph)
print(quals)


class Support(OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.op in ("call_function", "call_method") and "clamp" not in str(node.target)


parts = CapabilityBasedPartitioner(gm, Support(), allows_single_node_partition=True)
found = parts.propose_partitions()
for p in found:
    print(p.id, sorted(n.name for n in p.nodes))
fused = parts.fuse_partitions(found)
print(fused.code)
print([type(c).__name__ for c in fused.children()], all(torch.equal(a, b) for a, b in zip(fused(x, y), m(x, y))))


class Adds(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return "add" in node.name


both = any_chain(Adds(), create_op_support(lambda mods, n: n.op == "call_module"))
p = CapabilityBasedPartitioner(fx.symbolic_trace(m), both)
print([sorted(n.name for n in q.nodes) for q in p.propose_partitions()])
try:
    split_module(gm, m, lambda n: int(n.name.endswith('_1')))
except RuntimeError as e:
    print(e)
out = p.partition_and_fuse()
print(out.graph)
from torch.fx.passes.split_utils import split_by_tags
g = fx.symbolic_trace(m)
for n in g.graph.nodes:
    if n.op not in ("placeholder", "output"):
        n.tag = "left" if "1" not in n.name and n.name != "mul" else "right"
try:
    t = split_by_tags(g, ["left", "right"])
    print(t.code)
    print(t.left.code, t.right.code)
except Exception as e:
    print(type(e).__name__, e)
