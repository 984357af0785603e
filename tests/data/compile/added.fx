class GraphModule(torch.nn.Module):
    def forward(self, p_w: "f32[4, 4]", p_b: "f32[4]", c: "f32[1, 4, 6]", x: "f32[6, 4]"):
        permute: "f32[1, 6, 4]" = torch.ops.aten.permute.default(c, [0, 2, 1])
        add: "f32[1, 6, 4]" = torch.ops.aten.add.Tensor(permute, 1)
        permute_1: "f32[4, 4]" = torch.ops.aten.permute.default(p_w, [1, 0])
        addmm: "f32[6, 4]" = torch.ops.aten.addmm.default(p_b, x, permute_1)
        view: "f32[1, 6, 4]" = torch.ops.aten.view.default(addmm, [1, 6, 4])
        add_1: "f32[1, 6, 4]" = torch.ops.aten.add.Tensor(add, view)
        return (add_1, add)

Graph signature:
    # inputs
    p_w: PARAMETER target='w'
    p_b: PARAMETER target='b'
    c: USER_INPUT
    x: USER_INPUT

    # outputs
    add_1: USER_OUTPUT
    add: USER_OUTPUT

Arguments: ((c, x), {})
Result: (add_1, add)
