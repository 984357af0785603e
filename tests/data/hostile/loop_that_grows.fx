class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[64, 8]", n: "i64[]"):
        a = torch.ops.aten.exp.default(x)
        b = torch.ops.aten.neg.default(a)
        cond_graph_0 = self.cond_graph_0
        body_graph_0 = self.body_graph_0
        c = torch.ops.higher_order.while_loop(cond_graph_0, body_graph_0, (n, x), ())
        d = c[1]
        e = torch.ops.aten.cat.default([b, d], 0)
        f = torch.ops.aten.flip.default(e, [0])
        return (f,)

    class cond_graph_0(torch.nn.Module):
        def forward(self, n: "i64[]", x: "f32[64, 8]"):
            s = torch.ops.aten.lt.Scalar(n, 3)
            return s

    class body_graph_0(torch.nn.Module):
        def forward(self, n: "i64[]", x: "f32[64, 8]"):
            m = torch.ops.aten.add.Tensor(n, 1)
            s = torch.ops.aten.cat.default([x, x], 0)
            return (m, s)
