/* cfx decompose: a program in Core ATen, written to a file. */
#include "cli.h"

#include <string.h>

#include "../dispatch/dispatch.h"

static const char help[] =
    "usage: cfx decompose MODEL -o OUT.pt2 [--keep OP]... [--force]\n\n"
    "Decomposes the program to Core ATen, like PyTorch's run_decompositions(): functionalises\n"
    "in-place writes and replaces operators outside of Core ATen by their decompositions.\n"
    CLI_OUT_HELP
    "  --keep OP        does not decompose an operator: linear, aten.layer_norm.default; may be\n"
    "                   given more than once\n\n"
    "Exit: 0 done, 2 error.\n";

static int run(int argc, char **argv) {
    const char *model = NULL, *op = NULL;
    cli_out out = {0};
    cfx_value keep = cfx_list_value(0, NULL);
    cli_words w = {argc, argv, .command = &cli_decompose};
    while (cli_more(&w)) {
        if (cli_value(&w, "--keep", &op)) {
            if (op && !cfx_op_find(op) && !cfx_fn_find(op)) {
                cli_usage(&cli_decompose, "no operator is called '%s'%s", op,
                          cfx__dispatch_hint(op));
                return CLI_TROUBLE;
            }
            cfx_list_append(cfx_as_list(keep), cfx_string_value(op));
        } else if (!cli_program_out(&w, &out)) {
            cli_rest(&w, &model);
        }
    }
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !out.path)
        return cli_usage(&cli_decompose, model ? "-o which file?" : "which MODEL?");
    cfx_program *p = cli_read(model, &out), *core = cfx_decompose(p, keep);
    return cfx_ok() ? cli_write(core, &out) : cli_trouble();
}

const cli_command cli_decompose = {"decompose", run, "write a program in Core ATen", help};
