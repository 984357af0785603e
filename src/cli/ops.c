/* cfx ops: the registry, listed and explained. */
#include "check.h"

#include <string.h>

#include "../dispatch/dispatch.h"

static const char help[] =
    "usage: cfx ops [NAME] [--markdown]\n"
    "       cfx ops check [--grad | --core | --compiled | --onnx] DIR [--op PATTERN] [--keep "
    "FOLDER]\n\n"
    "Without NAME: lists every operator and how it is implemented (kernel, view, decomposition);\n"
    "in-place (add_) and out= forms are derived from these. NAME is an overload (aten.add.Tensor,\n"
    "add_.Tensor), a function (add) or a Python name (torch.add, operator.add, Tensor.add).\n"
    "  --markdown      the list as a Markdown table\n\n"
    "check: replays DIR/calls.jsonl with DIR/tensors.safetensors, each call on real and on fake\n"
    "tensors, and compares values, dtypes, shapes and strides, or the error. Prints a line for\n"
    "each failure and 'N passed, M failed' last.\n"
    "  --grad          compares gradients instead, and second gradients, if the file has them\n"
    "  --core          makes a program of each call, decomposes it to Core ATen and compares its\n"
    "                  results; the last line ends in 'K refused'\n"
    "  --compiled      makes a program of each call, compiles it to C, builds it with cc and\n"
    "                  compares its results; the last line ends in 'K refused'\n"
    "  --onnx          makes a program of each call, writes it as ONNX, reads it back and\n"
    "                  compares its results; the last line ends in 'K refused'\n"
    "  --keep FOLDER   with --onnx: keeps the files in FOLDER, as callN.onnx for line N\n"
    "  --op PATTERN    only operators whose name matches (aten.softmax*)\n"
    "If the folders in DIR are test cases of ONNX (model.onnx, test_data_set_0/input_0.pb, and so\n"
    "on), each model is run and its results are compared; PATTERN then matches their names.\n\n"
    "Exit: 0 all passed, 1 a check failed, 2 error.\n";

/* "kernel", "view", "kernel decompose": the columns an operator has. */
static const char *columns(const cfx_op *op, char *out, size_t size) {
    snprintf(out, size, "%s%s%s%s%s", op->view ? "view " : "", op->kernel ? "kernel " : "",
             op->shape ? "shape " : "", op->decompose ? "decompose " : "", op->grad ? "grad " : "");
    size_t n = strlen(out);
    if (n)
        out[n - 1] = 0;
    return n ? out : "derived";
}

static void note_op(cfx_op *op, const char *have) {
    cli_answer_row("operators", cfx_dict_of("operator", cfx_op_name(op), "schema", op->schema,
                                            "columns", have, "python",
                                            op->torch_ ? op->torch_ : ""));
}

static int list(bool markdown) {
    char buffer[64];
    if (markdown)
        cli_print("| operator | schema | columns | in Python |\n|---|---|---|---|\n");
    for (int i = 0; i < cfx_op_count() && cfx__limit_time() && cfx_ok(); i++) {
        cfx_op *op = cfx_op_at(i);
        const char *have = columns(op, buffer, sizeof buffer);
        note_op(op, have);
        if (markdown)
            cli_print("| `%s` | `%s` | %s | %s |\n", cfx_op_name(op), op->schema, have,
                      op->torch_ ? op->torch_ : "");
        else
            cli_print("%-44s %s\n", cfx_op_name(op), have);
    }
    if (!cfx_ok())
        return cli_trouble();
    if (!markdown)
        cli_say("%d operators; in-place and out= forms are derived\n", cfx_op_count());
    return CLI_DONE;
}

static void explain_effects(unsigned effects) {
    static const struct {
        unsigned bit;
        const char *text;
    } rows[] = {
        {CFX_POINTWISE, "pointwise: element i of the result depends on elements i alone"},
        {CFX_COMPOSITE, "composite: dispatch modes see its parts, except under inference mode"},
        {CFX_RANDOM, "draws random numbers"},
        {CFX_SIDE, "has a side effect: never dead, never merged"},
        {CFX_DATA_SHAPE, "the shape of its result depends on data"},
        {CFX_UPDATE, "the result is its first argument with some elements changed"},
        {CFX_NUMBERS, "a number may stand for a tensor argument"},
        {CFX_COMMUTES, "its first two arguments may change places"},
        {CFX_STORAGE, "it looks at the storage behind an argument, by strides from its start"},
        {CFX_MOVES, "moves elements of its first argument and computes none"},
        {CFX_LARGEST, "each element of the result is the largest of some of its first argument"},
        {CFX_LAYOUT, "the strides of an argument decide what it gives or whether it works"},
        {CFX_OUT_CASTS, "its out= form converts the result to the dtype of what it writes to"},
        {CFX_SHARES, "its result may be an argument, though the schema does not say so"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (effects & rows[i].bit)
            cli_print("  %s\n", rows[i].text);
}

static void explain(cfx_op *op) {
    char buffer[64];
    cli_print("%s\n  schema     %s\n", cfx_op_name(op), op->schema);
    if (op->torch_)
        cli_print("  in Python  %s\n", op->torch_);
    cli_print("  columns    %s\n", columns(op, buffer, sizeof buffer));
    note_op(op, columns(op, buffer, sizeof buffer));
    if (op->dtypes & ((1u << CFX_DTYPE_COUNT) - 1)) {
        cli_print("  computes in");
        for (int d = 0; d < CFX_DTYPE_COUNT; d++)
            if (op->dtypes >> d & 1)
                cli_print(" %s", cfx_dtype_name((cfx_dtype)d));
        cli_print("\n");
    }
    explain_effects(op->effects);
}

static int explain_name(const char *name) {
    const cfx_fn *fn = cfx_fn_find(name);
    cfx_op *op = cfx_op_find(name);
    if (!fn && !op) {
        const char *hint = cfx__dispatch_hint(name);
        return cli_wrong("no operator is called '%s'%s", name,
                         *hint ? hint : "; 'cfx ops' lists them");
    }
    for (int i = 0; i < (fn ? fn->n : 1) && cfx__limit_time() && cfx_ok(); i++)
        explain(fn ? fn->ops[i] : op);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

static int run(int argc, char **argv) {
    const char *name = NULL, *dir = NULL, *pattern = "*", *keep = NULL;
    bool markdown = false, check = false, grad = false, core = false, compiled = false,
         onnx = false;
    cli_words w = {argc, argv, .command = &cli_ops};
    while (cli_more(&w))
        if (cli_flag(&w, "--markdown", &markdown) || cli_flag(&w, "--grad", &grad) ||
            cli_flag(&w, "--core", &core) || cli_flag(&w, "--compiled", &compiled) ||
            cli_flag(&w, "--onnx", &onnx) || cli_value(&w, "--keep", &keep) ||
            cli_value(&w, "--op", &pattern) || (!check && !name && cli_flag(&w, "check", &check)))
            continue;
        else
            cli_rest(&w, check ? &dir : &name);
    if (w.wrong)
        return CLI_TROUBLE;
    if (check && !dir)
        return cli_usage(&cli_ops, "check needs a folder");
    if (grad + core + compiled + onnx > 1)
        return cli_usage(&cli_ops, "--grad, --core, --compiled and --onnx are checks of their own");
    if (keep && !onnx)
        return cli_usage(&cli_ops, "--keep goes with --onnx");
    if (check && cli_has_onnx_cases(dir))
        return cli_check_onnx(dir, pattern);
    if (check)
        return cli_check(dir, pattern,
                         grad       ? CLI_CHECK_GRAD
                         : core     ? CLI_CHECK_CORE
                         : compiled ? CLI_CHECK_COMPILED
                         : onnx     ? CLI_CHECK_ONNX
                                    : CLI_CHECK_CALLS,
                         keep);
    if (name)
        return explain_name(name);
    return list(markdown);
}

const cli_command cli_ops = {"ops", run, "list, explain and check operators", help};
