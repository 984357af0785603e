class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[0, 1, 4, 4]", m: "f32[1]", s: "f32[1]"):
        n: "f32[0, 1, 4, 4]" = torch.ops.aten.batch_norm.default(x, None, None, m, s, True, 0.1, 1e-05, False)
        e: "f32[1]" = torch.ops.aten.exp.default(s)
        return (n, e)
