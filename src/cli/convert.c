/* cfx convert: a program from one kind of file to another. */
#include "cli.h"

static const char help[] =
    "usage: cfx convert MODEL -o OUT.pt2|OUT.fx\n"
    "\n"
    "Writes a program to another file: a .pt2 of the current layout, which torch.export.load\n"
    "reads, or graph and signature as text (.fx), tensors in a .safetensors file beside it. MODEL\n"
    "may be a .pt2 of any layout since PyTorch 2.1, a .fx, or a .onnx of any version, whose\n"
    "operators are replaced by those of ATen that they are made of where OUT is a .pt2.\n"
    "\n"
    "Exit: 0 done, 2 trouble.\n";

static int run(int argc, char **argv) {
    const char *model = NULL, *out = NULL;
    cli_words w = {argc, argv, .command = &cli_convert};
    while (cli_more(&w))
        if (!cli_program_out(&w, &out))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !out)
        return cli_usage(&cli_convert, model ? "-o which file?" : "which MODEL?");
    cfx_program *p = cfx_open(model);
    if (!cfx_save(p, out) || !cfx_ok())
        return cli_trouble();
    return CLI_DONE;
}

const cli_command cli_convert = {"convert", run, "write a program to a .pt2 or a .fx file", help};
