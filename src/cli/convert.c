/* cfx convert: a program from one kind of file to another. */
#include "look.h"

static const char help[] =
    "usage: cfx convert MODEL -o OUT.pt2|OUT.fx|OUT.onnx [--infer] [--force]\n\n"
    "Converts a program to a .pt2 of the current layout, which torch.export.load reads; to text\n"
    "(.fx: graph and signature, with the tensors in a .safetensors beside it); or to ONNX (.onnx,\n"
    "operator set 20, with tensors of more than 2 GB in a file beside it). MODEL is a .pt2 of any\n"
    "layout since PyTorch 2.1, a .fx, or a .onnx of any version, whose operators are decomposed\n"
    "into ATen if OUT is a .pt2.\n"
    CLI_OUT_HELP
    "  --infer          infers wrong shapes of nodes again, as after editing a .fx; without it\n"
    "                   they are problems\n\n"
    "In ONNX, dynamic sizes keep their names; branches and loops become If, Loop and Scan;\n"
    "quantized layers become QuantizeLinear and DequantizeLinear. A mutated buffer becomes an\n"
    "input with a default value and a result NAME_out, which the caller passes to the next run.\n"
    "If nodes have no ONNX form, each is listed with the reason, and nothing is written.\n\n"
    "Exit: 0 done, 2 error.\n";

static int run(int argc, char **argv) {
    const char *model = NULL;
    cli_out out = {0};
    bool infer = false;
    cli_words w = {argc, argv, .command = &cli_convert};
    while (cli_more(&w))
        if (!cli_program_out(&w, &out) && !cli_flag(&w, "--infer", &infer))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !out.path)
        return cli_usage(&cli_convert, model ? "-o which file?" : "which MODEL?");
    cfx_program *p = infer ? cfx_open(model) : cli_read(model, &out);
    if (infer && !cfx_failed(p) && !cfx_program_settle(p))
        cfx__error_forgive(); /* what cannot be told is told when it is written */
    return cfx_ok() ? cli_write(p, &out) : cli_trouble();
}

const cli_command cli_convert = {"convert", run, "write a program to a .pt2, .fx or .onnx file",
                                 help};
