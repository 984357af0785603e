# Rewriting of patterns: wildcards, filters, matches.
import torch
from torch import nn
import torch.fx
from torch.fx import symbolic_trace, subgraph_rewriter, replace_pattern


def f(x, w1, w2):
    m1 = torch.cat([w1, w2]).sum()
    m2 = torch.cat([w1, w2]).sum()
    return x + torch.max(m1) + torch.max(m2)


gm = symbolic_trace(f)
matches = replace_pattern(gm, lambda a, b: torch.cat([a, b]).sum(), lambda a, b: torch.stack([a, b]))
print(gm.code)
for m in matches:
    print(type(m).__name__, m.anchor.name, [(k.name, v.name) for k, v in m.nodes_map.items()])


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        y = self.lin(x)
        y = torch.relu(y) + 1
        z = torch.relu(x) + 2.5
        return torch.nn.functional.dropout(y, p=0.5, training=False) + z


gm = symbolic_trace(M())


def pattern(x, c):
    return torch.relu(x) + c


def replacement(x, c):
    return torch.clamp(x, min=0).add(c)


def only_ints(match, original_graph, pattern_graph):
    return any(isinstance(n.args[1], int) for n in match.nodes_map.values() if isinstance(n, torch.fx.Node) and len(n.args) > 1)


r = subgraph_rewriter.replace_pattern_with_filters(gm, pattern, replacement, match_filters=[only_ints], ignore_literals=True)
print(len(r), type(r[0]).__name__, [n.name for n in r[0].replacements])
print(gm.code)
torch.manual_seed(0)
m = M()
x = torch.randn(2, 3)
g2 = symbolic_trace(m)
want = m(x)
replace_pattern(g2, lambda x: torch.nn.functional.dropout(x, p=0.5, training=False), lambda x: x)
print(g2.code)
print(torch.equal(g2(x), want))
g2.graph.lint()


class WithParams(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.w = nn.Parameter(torch.rand(3, 4))

    def forward(self, x):
        return self.linear(x + self.w).clamp(min=0.0, max=1.0)


class Pat(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(x).clamp(min=0.0, max=1.0)


class Rep(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        return torch.sigmoid(self.linear(x))


gm = symbolic_trace(WithParams())
print(len(replace_pattern(gm, Pat(), Rep())))
print(gm)


def by_match(match, original, pattern):
    def rep(x, c):
        return torch.where(x > 0, x, 0) + c
    return symbolic_trace(rep).graph


gm = symbolic_trace(M())
r = subgraph_rewriter.replace_pattern_with_filters(gm, pattern, replacement_callback=by_match, ignore_literals=True)
print(len(r))
print(gm.code)
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher
sm = SubgraphMatcher(symbolic_trace(lambda x: torch.relu(x)).graph, match_output=False, match_placeholder=False)
for m in sm.match(symbolic_trace(M()).graph):
    print([n.name for n in m.anchors], [n.name for n in m.placeholder_nodes], [n.name for n in m.returning_nodes])
print(replace_pattern(symbolic_trace(M()), lambda x: torch.tanh(x), lambda x: x))
