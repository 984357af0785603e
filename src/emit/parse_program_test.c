/* Programs as text: what is printed is read, and what is not so is refused. */
#include "test.h"

#include "emit.h"

static const char body[] = "class M(torch.nn.Module):\n"
                           "    def forward(self, b_count, p_w: \"f32[2]\", x: \"f32[2]\", y):\n"
                           "        add = torch.ops.aten.add.Tensor(x, p_w)\n"
                           "        mul = torch.ops.aten.mul.Tensor(add, y)\n"
                           "        return (add, mul, None)\n";

static const char inputs[] = "Graph signature:\n"
                             "    # inputs\n"
                             "    b_count: BUFFER target='count' persistent=False\n"
                             "    p_w: PARAMETER target='w'\n"
                             "    x: USER_INPUT\n"
                             "    y: USER_INPUT value=3\n";

static const char outputs[] = "    # outputs\n"
                              "    add: BUFFER_MUTATION target='count'\n"
                              "    mul: USER_OUTPUT\n"
                              "    : USER_OUTPUT\n";

static cfx_program *parsed(const char *more, const char *rest) {
    return cfx_program_parse(cfx__text_format("%s\n%s%s%s", body, inputs, more, rest), "m.fx");
}

TEST(signature_of_a_text_is_read) {
    cfx_program *p = parsed(outputs, "Arguments: (([x],), {'y': y})\n"
                                     "Result: {'a': mul, 'b': None}\n"
                                     "Range constraints: {2*s0: VR[4, 8], u1: VR[0, int_oo]}\n");
    if (!CHECK_OK() || !CHECK(!cfx_failed(p)))
        return;
    CHECK_INT(p->ninputs, 4);
    CHECK(p->inputs[0].kind == CFX_IN_BUFFER && !p->inputs[0].persistent);
    CHECK_STR(p->inputs[1].target, "w");
    CHECK(p->inputs[3].constant && cfx_integer(p->inputs[3].value) == 3);
    CHECK_INT(p->noutputs, 3);
    CHECK_STR(p->outputs[0].target, "count");
    CHECK(!p->outputs[2].name && cfx_is_none(p->outputs[2].value));
    CHECK_STR(cfx_repr(p->in_spec), "(([Ellipsis],), {'y': Ellipsis})");
    CHECK_STR(cfx_repr(p->out_spec), "{'a': Ellipsis, 'b': Ellipsis}");
    CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), "{'2*s0': (4, 8), 'u1': (0, None)}");
    CHECK(cfx_node_result(cfx_graph_find(p->module->graph, "p_w")).requires_grad);
    const char *text = cfx_program_fx(p);
    CHECK_STR(cfx_program_fx(cfx_program_parse(text, "again")), text);
    text = cfx_program_str(p);
    CHECK_STR(cfx_program_str(cfx_program_parse(text, "PyTorch's")), text);
}

TEST(signature_may_be_left_out) {
    cfx_program *p = cfx_program_parse(body, "m.fx");
    CHECK_INT(p->ninputs, 4);
    CHECK_INT(p->noutputs, 3);
    CHECK(p->inputs[0].kind == CFX_IN_USER && cfx_is_none(p->in_spec));
    p = cfx_program_parse("def forward(self, x):\n    return x\n", "m.fx");
    CHECK_INT(p->noutputs, 1);
    CHECK_STR(p->outputs[0].name, "x");
    p = parsed("", "Arguments: ((x, y), {})\n"); /* the results are the caller's */
    CHECK_INT(p->noutputs, 3);
    CHECK_INT(p->outputs[0].kind, CFX_OUT_USER);
    p = cfx_program_parse("def forward(self, x, z):\n    return (x, z)\n"
                          "Graph signature:\n    # inputs\n    x: USER_INPUT\n"
                          "Arguments: ((x,), {})\nResult: (x,)\n", "m.fx");
    CHECK_STR(cfx_repr(p->in_spec), "((Ellipsis, Ellipsis), {})"); /* what is new comes last */
    CHECK_STR(cfx_repr(p->out_spec), "(Ellipsis, Ellipsis)");
}

TEST(reserved_words_name_inputs) {
    cfx_program *p = cfx_program_parse("def forward(self, input, x):\n"
                                       "    add = torch.ops.aten.add.Tensor(input, x)\n"
                                       "    return (add,)\n"
                                       "Graph signature:\n    # inputs\n    input: USER_INPUT\n"
                                       "Arguments: ((input, x), {})\n", "m.fx");
    CHECK_STR(p->inputs[0].name, "input");
    CHECK_STR(cfx_graph_first(p->module->graph)->name, "input");
    CHECK_OK();
}

/* What a text of several parts says wrongly, and what is said of it. */
TEST(signature_that_is_not_so_is_refused) {
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"    z: USER_INPUT\n",
         "m.fx:13:5: the signature has an input 'z', which forward does not take"},
        {"    add: USER_INPUT\n", "the signature has an input 'add', which forward does not take"},
        {"    x: USER_INPUT\n", "the signature has input 'x' twice"},
        {"    # results\n", "expected '# outputs'"},
        {"    # outputs\n    sub: USER_OUTPUT\n",
         "the signature has a result 'sub', which forward does not return"},
        {"    # outputs\n    mul: USER_OUTPUT\n    mul: USER_OUTPUT\n",
         "the signature has a result 'mul', which forward does not return so often"},
        {"    # outputs\n    mul: OUTPUT\n", "a result is a USER_OUTPUT, LOSS_OUTPUT, "},
        {"    # outputs\n    mul: USER_OUTPUT target='x'\n", "a USER_OUTPUT has no target"},
        {"    # outputs\n    mul: BUFFER_MUTATION\n",
         "a BUFFER_MUTATION is written to something: target='NAME' says to what"},
        {"    # outputs\n    mul: BUFFER_MUTATION target='w'\n",
         "a BUFFER_MUTATION goes to 'w', which is not such an input of the signature"},
        {"    # outputs\n    mul: USER_INPUT_MUTATION target='p_w'\n",
         "a USER_INPUT_MUTATION goes to 'p_w', which is not such an input of the signature"},
        {"Arguments: (x, y)\n", "arguments are a tuple of those by position and a dict"},
        {"Arguments: ((y, x), {})\n", "here stands 'y' where forward takes 'x'"},
        {"Arguments: ((x,), {})\n", "forward takes 'y' too"},
        {"Arguments: ((x, y, y), {})\n", "'y' is nothing of the caller's that forward takes here"},
        {"Arguments: ((x, y, p_w), {})\n",
         "'p_w' is nothing of the caller's that forward takes here"},
        {"Arguments: ((x, q), {})\n", "name 'q' is not defined"},
        {"Result: (mul, add)\n", "'add' is nothing of the caller's that forward returns here"},
        {"Range constraints: {s0: VR[4, 2]}\n", "nothing lies in this range"},
        {"Range constraints: {s0: [4, 2]}\n", "expected 'VR['"},
        {"Range constraints: {s0: VR[1.5, 2]}\n", "expected an integer, int_oo or -int_oo"},
        {"Hints: {s0: x}\n", "expected an integer"},
        {"Hints: {s0: 4}\nHints: {s0: 4}\n", "this part stands here for the second time"},
        {"Hints: {s0: 4}\nHint: {s0: 4}\n", "expected a part of a program: Graph signature, "},
    };
    for (int i = 0; i < COUNT(wrong); i++) {
        CHECK(cfx_failed(parsed(wrong[i].text, "")));
        CHECK_ERROR(wrong[i].error);
    }
    static const struct {
        const char *line, *error;
    } lines[] = {
        {"x: INPUT", "an input is a USER_INPUT, PARAMETER, BUFFER, "},
        {"x: PARAMETER", "a PARAMETER is held by the program: target='NAME' says as what"},
        {"x: USER_INPUT target='x'", "a USER_INPUT has no target"},
        {"x: PARAMETER target='x' value=3", "only a USER_INPUT may be a value"},
        {"x: BUFFER target='x' persistent=1", "persistent is True or False"},
        {"x: USER_INPUT size=3", "expected target=, persistent=, value= or requires_grad="},
        {"x USER_INPUT", "expected ':'"},
    };
    for (int i = 0; i < COUNT(lines); i++) {
        const char *text = cfx__text_format("%s\nGraph signature:\n    # inputs\n    %s\n", body,
                                            lines[i].line);
        CHECK(cfx_failed(cfx_program_parse(text, "m.fx")));
        CHECK_ERROR(lines[i].error);
    }
    cfx_module_parse(cfx__text_format("%s\n%s", body, inputs), "m.fx");
    CHECK_ERROR("m.fx:7:1: this is the text of a program: cfx_program_parse reads it");
}
