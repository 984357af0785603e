"""A model exported, shown, taken apart and run."""
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.register_buffer("scale", torch.tensor(2.0))
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, x):
        y = torch.relu(self.conv(x)) * self.scale
        return self.fc(y.flatten(1))


torch.manual_seed(0)
net = Net().eval()
x = torch.randn(1, 1, 4, 4)
ep = torch.export.export(net, (x,))
print(ep.graph_module.code.strip())
print([(s.kind.name, s.arg.name, s.target) for s in ep.graph_signature.input_specs])
print(sorted(ep.state_dict))
print(torch.allclose(ep.module()(x), net(x)))
core = ep.run_decompositions()
print([str(n.target) for n in core.graph.nodes if n.op == "call_function"])
batch = torch.export.Dim("batch", min=1, max=8)
dynamic = torch.export.export(net, (torch.randn(2, 1, 4, 4),), dynamic_shapes=({0: batch},))
print(dynamic.module()(torch.randn(5, 1, 4, 4)).shape)
