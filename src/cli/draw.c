/* cfx draw: a program as a picture. */
#include "cli.h"

static const char help[] =
    "usage: cfx draw MODEL -o F.svg|F.dot [--depth N] [--focus SELECTOR] [--all]\n"
    "\n"
    "Draws a program without running it; weights are not read.\n"
    "  -o F.svg          a picture that needs no other program: boxes coloured by operator "
    "family,\n"
    "                    modules as frames, parameters in the box that uses them, sub-graphs of\n"
    "                    cond and loops inside their node\n"
    "  -o F.dot          for graphviz, in the form of torch.fx's FxGraphDrawer: one graph for the\n"
    "                    root, one for each sub-graph\n"
    "  --depth N         modules nested deeper than N are one box; without it, as deep as about\n"
    "                    400 boxes allow\n"
    "  --focus SELECTOR  only some nodes and two steps of what surrounds them: a name, a glob "
    "over\n"
    "                    names, op:NAME or module:PATH\n"
    "  --all             every module open, whatever the size of the picture\n"
    "\n"
    "Exit: 0 done, 2 trouble; nothing is written then.\n";

static int run(int argc, char **argv) {
    const char *model = NULL, *path = NULL;
    cfx_draw_options o = {0};
    cli_words w = {argc, argv, .command = &cli_draw};
    while (cli_more(&w))
        if (!cli_value(&w, "-o", &path) && !cli_number(&w, "--depth", &o.depth) &&
            !cli_value(&w, "--focus", &o.focus) && !cli_flag(&w, "--all", &o.all))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_draw, "which MODEL?");
    if (!path)
        return cli_usage(&cli_draw, "where to? -o F.svg or -o F.dot");
    if (o.all && o.depth)
        return cli_usage(&cli_draw, "--all and --depth say two different things");
    cfx_program *p = cfx_open(model);
    if (!p || !cfx_ok())
        return cli_trouble();
    return cfx_program_draw_file(p, path, o) ? CLI_DONE : cli_trouble();
}

const cli_command cli_draw = {"draw", run, "draw a program as SVG, or as DOT for graphviz", help};
