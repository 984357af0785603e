/* cfx convert: a program from one kind of file to another. */
#include "cli.h"

static const char help[] =
    "usage: cfx convert MODEL -o OUT.pt2|OUT.fx|OUT.onnx\n"
    "\n"
    "Writes a program to another file: a .pt2 of the current layout, which torch.export.load\n"
    "reads; graph and signature as text (.fx), tensors in a .safetensors file beside it; or an\n"
    "ONNX model (.onnx, operator set 20), tensors beside it where they have more than 2 GB.\n"
    "MODEL may be a .pt2 of any layout since PyTorch 2.1, a .fx, or a .onnx of any version, whose\n"
    "operators are replaced by those of ATen that they are made of where OUT is a .pt2.\n"
    "\n"
    "Sizes that vary have their names in ONNX, too; branches and loops are If, Loop and Scan;\n"
    "what is quantized is QuantizeLinear and DequantizeLinear. What a program writes to its\n"
    "tensors is a result more (NAME_out), and the tensor an input that has a value: pass the one\n"
    "for the other. Nodes that have no form in ONNX are told, each with the reason, and nothing\n"
    "is written.\n"
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

const cli_command cli_convert = {"convert", run, "write a program to a .pt2, .fx or .onnx file",
                                 help};
