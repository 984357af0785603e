/* Programs as JSON. */
#include "test.h"

TEST(json_has_signature_ranges_and_nodes) {
    cfx_program *p = cfx_program_parse(
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, b_n: \"f32[2]\", x: \"f32[2]\"):\n"
        "        # File: m.py:3 in forward, code: return x * 1.5\n"
        "        mul: \"f32[2]\" = torch.ops.aten.mul.Tensor(x, 1.5)\n"
        "        add: \"f32[2]\" = torch.ops.aten.add.Tensor(mul, b_n, alpha = 2)\n"
        "        return (add,)\n"
        "\n"
        "Graph signature:\n"
        "# inputs\n"
        "b_n: BUFFER target='n' persistent=True\n"
        "x: USER_INPUT\n"
        "\n"
        "# outputs\n"
        "add: USER_OUTPUT\n",
        "test.fx");
    CHECK_STR(
        cfx_program_json(p),
        "{\"inputs\":[\n"
        "{\"kind\":\"buffer\",\"name\":\"b_n\",\"target\":\"n\",\"persistent\":true,"
        "\"val\":\"f32[2]\"},\n"
        "{\"kind\":\"user_input\",\"name\":\"x\",\"val\":\"f32[2]\"}\n"
        "],\"outputs\":[\n"
        "{\"kind\":\"user_output\",\"name\":\"add\",\"val\":\"f32[2]\"}\n"
        "],\"ranges\":{},\"nodes\":[\n"
        "{\"name\":\"b_n\",\"op\":\"placeholder\",\"target\":\"b_n\",\"args\":[],\"kwargs\":{},"
        "\"users\":[\"add\"],\"val\":\"f32[2]\"},\n"
        "{\"name\":\"x\",\"op\":\"placeholder\",\"target\":\"x\",\"args\":[],\"kwargs\":{},"
        "\"users\":[\"mul\"],\"val\":\"f32[2]\"},\n"
        "{\"name\":\"mul\",\"op\":\"call_function\",\"target\":\"torch.ops.aten.mul.Tensor\","
        "\"args\":[{\"node\":\"x\"},1.5],\"kwargs\":{},\"users\":[\"add\"],\"val\":\"f32[2]\","
        "\"stack_trace\":\"  File \\\"m.py\\\", line 3, in forward\\n    return x * 1.5\"},\n"
        "{\"name\":\"add\",\"op\":\"call_function\",\"target\":\"torch.ops.aten.add.Tensor\","
        "\"args\":[{\"node\":\"mul\"},{\"node\":\"b_n\"}],\"kwargs\":{\"alpha\":2},"
        "\"users\":[\"output\"],\"val\":\"f32[2]\","
        "\"stack_trace\":\"  File \\\"m.py\\\", line 3, in forward\\n    return x * 1.5\"},\n"
        "{\"name\":\"output\",\"op\":\"output\",\"target\":\"output\","
        "\"args\":[[{\"node\":\"add\"}]],\"kwargs\":{},\"users\":[]}\n"
        "],\"graphs\":{}}\n");
    CHECK_STR(cfx_program_json(NULL), "");
    CHECK_OK();
}
