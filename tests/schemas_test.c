/* Operators of aten beside PyTorch's: every name exists there with the same schema, and no form is
 * made up. tests/data/aten.txt has a line for each function of PyTorch 2.11: its name, and its
 * overloads with the CRC-32 of their schemas, str(torch.ops.aten.add.Tensor._schema). */
#include "../src/dispatch/dispatch.h"
#include "files.h"

#include <zlib.h>

/* Names of cfx alone. Numbers are powers and quotients of numbers by the functions that have the
 * operators' names, so that an operator is one function; graphs hold `operator.pow` for them. */
static const char *const own[] = {"aten::floor_divide.number", "aten::pow.number"};

/* "aten::add.Tensor" of every overload to its CRC-32 as text; scope. */
static cfx_dict *read_schemas(void) {
    cfx_dict *all = cfx_dict_new();
    char line[4096];
    FILE *f = fopen(CFX_TEST_DATA "/aten.txt", "r");
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        char *save, *fn = strtok_r(line, " \n", &save), *word;
        while ((word = strtok_r(NULL, " \n", &save))) {
            char *colon = strchr(word, ':');
            *colon = 0;
            const bool plain = !strcmp(word, "default");
            const char *name = cfx__text_format("aten::%s%s%s", fn, plain ? "" : ".",
                                                plain ? "" : word);
            cfx_dict_set(all, name, cfx_string_value(colon + 1));
        }
    }
    if (f)
        fclose(f);
    return all;
}

/* Counts op where PyTorch has it; a failure where it does not, or with another schema. */
static int is_pytorchs(const cfx_dict *all, const cfx_op *op) {
    const char *name = cfx__text_format("%.*s", (int)strcspn(op->schema, "("), op->schema);
    const cfx_value sum = cfx_dict_get(all, name);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(own[i], name))
            return 0;
    if (cfx_is_none(sum)) {
        test_fail(CFX_HERE, "PyTorch has no %s", name);
        return 0;
    }
    const unsigned long crc = crc32(0, (const Bytef *)op->schema, (uInt)strlen(op->schema));
    if (strcmp(cfx_text(sum), cfx__text_format("%08lx", crc)))
        test_fail(CFX_HERE, "PyTorch has another schema than %s", op->schema);
    return 1;
}

TEST(every_operator_of_aten_is_pytorchs) {
    const cfx_dict *all = read_schemas();
    int rows = 0, forms = 0;
    for (int i = 0; i < cfx_op_count(); i++)
        CFX_SCOPE {
            cfx_op *op = cfx_op_at(i);
            const bool aten = !strncmp(op->schema, "aten::", 6);
            cfx_op *out = cfx__op_out(op), *first = op->inplace ? cfx__op_inplace(op) : NULL;
            CHECK(!op->out || out);
            CHECK(!op->inplace || first);
            rows += aten && is_pytorchs(all, op);
            forms += aten && out && is_pytorchs(all, out);
            forms += aten && first && is_pytorchs(all, first);
        }
    CHECK(rows > 1280 && forms > 1190);
}

TEST(forms_that_pytorch_has_are_found) {
    static const char *const wanted[] = {
        "softplus.out",  "relu_",           "pow_.Scalar",     "sum.IntList_out", "svd.U",
        "bernoulli_.float", "_foreach_add_.List", "index_put_", "squeeze_.dims", "dropout_",
        "gelu_backward.grad_input", "nll_loss_forward.output", "max.dim_max", "std.out"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!cfx_op_find(wanted[i]))
            test_fail(CFX_HERE, "%s is missing", wanted[i]);
}

TEST(forms_that_pytorch_lacks_are_unknown_names) {
    static const char *const names[] = {
        "aten.softmax_.default", "aten.conv2d.out", "aten.linear_.default", "aten.cat_.default",
        "aten.isfinite.out", "aten.sum_.dim_IntList", "aten.dropout.out", "onnx.Relu_.default",
        "python.getitem_.default", "quantized.linear.out", "aten.slice_scatter_.default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (cfx_op_find(names[i]))
            test_fail(CFX_HERE, "%s is found", names[i]);
        CHECK(!cfx_target_find(names[i]).name);
    }
    CHECK(!cfx_target_find("torch.softmax_").name && !cfx_target_find("Tensor.softmax_").name);
    CHECK(cfx_is_bad(cfx_py("Tensor.softmax_", cfx_ones(2), 0)));
    CHECK_ERROR("no operator is called 'Tensor.softmax_'; the nearest: Tensor.softmax");
    cfx_py("torch.cumsum", cfx_ones(2), 0, CFX_KW(out, cfx_ones(2)));
    CHECK_OK();
    cfx_py("torch.isfinite", cfx_ones(2), CFX_KW(out, cfx_ones(2)));
    CHECK_ERROR("isfinite() takes no such out= argument");
}

static void twice(cfx_op_call *c) { c->out[0] = cfx_mul(cfx_as_tensor(c->args[0]), 2); }

TEST(forms_of_own_operators_are_those_that_are_named) {
    static cfx_op with = {.schema = "forms::with(Tensor x) -> Tensor", .decompose = twice,
                          .inplace = "default", .out = "into"};
    static cfx_op without = {.schema = "forms::without(Tensor x) -> Tensor", .decompose = twice};
    static cfx_op wrong = {.schema = "forms::wrong(int x) -> Tensor", .decompose = twice,
                           .inplace = "default"};
    static cfx_op view = {.schema = "forms::view(Tensor(a) x) -> Tensor(a)", .decompose = twice,
                          .out = "out"};
    CHECK(cfx_op_register(&with) && cfx_op_register(&without));
    CHECK(cfx_op_find("forms::with_") && cfx_op_find("forms::with.into"));
    CHECK(!cfx_op_find("forms::without_") && !cfx_op_find("forms::without.out"));
    CHECK(!cfx_op_register(&wrong));
    CHECK_ERROR("operator forms.wrong.default can have no in-place form: it does not make one new "
                "tensor of its first argument, a tensor");
    CHECK(!cfx_op_register(&view));
    CHECK_ERROR("operator forms.view.default can have no out= form: its results are not new "
                "tensors");
}
