"""A model traced, shown, changed and run node by node."""
import torch
import torch.fx as fx
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = torch.nn.Linear(width, 2 * width)
        self.norm = torch.nn.LayerNorm(2 * width)
        self.fc2 = torch.nn.Linear(2 * width, width)

    def forward(self, x, scale=0.5):
        h = F.relu(self.norm(self.fc1(x)))
        return x + scale * self.fc2(h).tanh()


torch.manual_seed(0)
model = Block(4).eval()
gm = fx.symbolic_trace(model)
print(gm.graph)
print(gm.code)
for node in gm.graph.nodes:
    print(node.op, node.name, node.target if isinstance(node.target, str) else node.target.__name__,
          node.args, sorted(u.name for u in node.users))


class Shapes(fx.Interpreter):
    def run_node(self, n):
        result = super().run_node(n)
        print(f"{n.name}: {tuple(result.shape) if isinstance(result, torch.Tensor) else result}")
        return result


x = torch.randn(2, 4)
y = Shapes(gm).run(x)
print(torch.equal(y, model(x)))

for node in gm.graph.nodes:
    if node.target is F.relu:
        with gm.graph.inserting_after(node):
            new = gm.graph.call_function(F.gelu, node.args)
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
gm.graph.lint()
gm.recompile()
print(gm.code)
print(torch.allclose(gm(x), model(x)))


class SwapTanh(fx.Transformer):
    def call_method(self, target, args, kwargs):
        if target == "tanh":
            return torch.sigmoid(args[0])
        return super().call_method(target, args, kwargs)


print(SwapTanh(gm).transform().code)


def pattern(a, b):
    return a * b


def replacement(a, b):
    return torch.mul(a, b).clamp(min=-1.0)


import operator  # noqa: E402

matches = fx.replace_pattern(gm, pattern, replacement)
print(len(matches), any(n.target is operator.mul for n in gm.graph.nodes))
print(gm.code)
