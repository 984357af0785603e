class GraphModule(torch.nn.Module):
    def forward(self, b_a: "f32[2]", b_b: "f32[2]", b_c: "f32[2, 2]", b_cache: "f32[4, 2]", b_d: "f32[2]", at: "i64[1]", x: "f32[2]"):
        t: "f32[2, 2]" = torch.ops.aten.t.default(b_c)
        index_put: "f32[4, 2]" = torch.ops.aten.index_put.default(b_cache, [at], x)
        sum_1: "f32[2]" = torch.ops.aten.sum.dim_IntList(index_put, [0])
        mul: "f32[2]" = torch.ops.aten.mul.Tensor(b_d, 2)
        add: "f32[2]" = torch.ops.aten.add.Tensor(mul, x)
        return (b_b, b_a, t, index_put, add, b_a, sum_1, add)

Graph signature:
    # inputs
    b_a: BUFFER target='a' persistent=True
    b_b: BUFFER target='b' persistent=True
    b_c: BUFFER target='c' persistent=True
    b_cache: BUFFER target='cache' persistent=True
    b_d: BUFFER target='d' persistent=True
    at: USER_INPUT
    x: USER_INPUT

    # outputs
    b_b: BUFFER_MUTATION target='a'
    b_a: BUFFER_MUTATION target='b'
    t: BUFFER_MUTATION target='c'
    index_put: BUFFER_MUTATION target='cache'
    add: BUFFER_MUTATION target='d'
    b_a: USER_OUTPUT
    sum_1: USER_OUTPUT
    add: USER_OUTPUT

Arguments: ((at, x), {})
Result: (b_a, sum_1, add)
