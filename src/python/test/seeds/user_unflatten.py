# unflatten, run_decompositions with a table, save and load.
import io

import torch
from torch import nn
from torch.export import export, unflatten, save, load, default_decompositions


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(torch.nn.functional.silu(self.fc(x)))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Inner()
        self.b = Inner()
        self.head = nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1))

    def forward(self, x):
        return self.head(self.b(self.a(x)) + self.a(x))


torch.manual_seed(0)
m = Outer().eval()
x = torch.randn(3, 4)
ep = export(m, (x,))
print(ep.graph_module.code)
u = unflatten(ep)
print([n for n, _ in u.named_modules()])
print(torch.allclose(u(x), m(x)))
print(u.graph)
print(u.a.graph)
core = ep.run_decompositions()
print(core.graph_module.code)
only = ep.run_decompositions({})
print([str(n.target) for n in only.graph.nodes if n.op == "call_function"])
table = default_decompositions()
print(len(table) > 100, torch.ops.aten.silu.default in table)


def my_silu(x):
    return x * torch.sigmoid(x)


own = ep.run_decompositions({torch.ops.aten.silu.default: my_silu})
print([str(n.target) for n in own.graph.nodes if n.op == "call_function"])
print(torch.allclose(own.module()(x), m(x)))
f = io.BytesIO()
save(ep, f, extra_files={"note.txt": "hello"})
f.seek(0)
extra = {"note.txt": ""}
back = load(f, extra_files=extra)
print(extra, back.graph_module.code == ep.graph_module.code, torch.equal(back.module()(x), m(x)))
print(list(ep.state_dict), [n for n, _ in ep.named_parameters()], list(ep.named_buffers()))
print(ep.example_inputs[0][0].shape, ep.module_call_graph[1].fqn)
print(ep.graph_signature.user_inputs, ep.graph_signature.parameters, ep.graph_signature.user_outputs)
for n in list(ep.graph.nodes)[-3:]:
    print(n.name, n.meta.get("nn_module_stack") and list(n.meta["nn_module_stack"].values())[-1], n.meta["val"].shape if hasattr(n.meta.get("val"), "shape") else None)
