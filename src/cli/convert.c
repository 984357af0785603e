/* cfx convert: a program from one kind of file to another. */
#include "look.h"

static const char help[] =
    "usage: cfx convert MODEL -o OUT.pt2|OUT.fx|OUT.onnx [--infer] [--force]\n"
    "\n"
    "Writes a program to another file: a .pt2 of the current layout, which torch.export.load\n"
    "reads; graph and signature as text (.fx), tensors in a .safetensors file beside it; or an\n"
    "ONNX model (.onnx, operator set 20), tensors beside it where they have more than 2 GB.\n"
    "MODEL may be a .pt2 of any layout since PyTorch 2.1, a .fx, or a .onnx of any version, whose\n"
    "operators are replaced by those of ATen that they are made of where OUT is a .pt2.\n"
    CLI_OUT_HELP
    "  --infer          finds the shapes of nodes again that do not follow from those of inputs,\n"
    "                   as in a .fx that was edited; without it they are problems\n"
    "\n"
    "Sizes that vary have their names in ONNX, too; branches and loops are If, Loop and Scan;\n"
    "what is quantized is QuantizeLinear and DequantizeLinear. What a program writes to its\n"
    "tensors is a result more (NAME_out), and the tensor an input that has a value: pass the one\n"
    "for the other. Nodes that have no form in ONNX are told, each with the reason, and nothing\n"
    "is written.\n"
    "\n"
    "Exit: 0 done, 2 trouble.\n";

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
