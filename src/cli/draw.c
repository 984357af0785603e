/* cfx draw: a program as a picture. */
#include "cli.h"

#include <string.h>

#include "../tensor/tensor.h"
#include "../value/json.h"

static const char help[] =
    "usage: cfx draw MODEL -o F.svg|F.html|F.dot [--depth N] [--focus SELECTOR] [--all]\n"
    "                [--stages N] [--with COLUMNS.json]\n\n"
    "Draws a program without running it; only F.html reads weights.\n"
    "  -o F.svg          a drawing: boxes coloured by operator family, modules as frames,\n"
    "                    parameters in the box that uses them, sub-graphs of cond and loops\n"
    "                    inside their node\n"
    "  -o F.html         an interactive page in one file, without network access: modules expand\n"
    "                    in place, search, details of nodes with statistics of weights, colours\n"
    "                    by any column\n"
    "  -o F.dot          for graphviz, in the form of torch.fx's FxGraphDrawer: one graph for the\n"
    "                    root, one for each sub-graph\n"
    "  --depth N         collapses modules nested deeper than N; by default to about 200 boxes,\n"
    "                    with only the first of repeated blocks\n"
    "  --focus SELECTOR  only the selected nodes and their neighbours within two steps: a name, a\n"
    "                    glob over names, op:NAME or module:PATH\n"
    "  --all             expands every module, whatever the size of the drawing\n"
    "  --stages N        draws the stages of 'cfx split' as frames\n"
    "  --with F.json     values of nodes for F.html:\n"
    "                    {\"columns\": {\"time (us)\": {\"relu\": 1.5}}}\n\n"
    "Exit: 0 done, 2 error; nothing is written then.\n";

/* The columns of a file; NULL, with an error, where there are none. */
static cfx_dict *read_columns(const char *path) {
    cfx__file_mapping *file = cfx__file_map(path);
    if (!file)
        return NULL;
    cfx_value all = cfx__json_parse(file->data, file->size, path);
    cfx_drop(file);
    if (!cfx_ok())
        return NULL;
    cfx_value columns =
        all.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(all), "columns") : cfx_none();
    if (columns.tag == CFX_TAG_DICT)
        return cfx_as_dict(columns);
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
             "%s has no columns: {\"columns\": {NAME: {NODE: VALUE}}} is wanted", path);
    return NULL;
}

static int run(int argc, char **argv) {
    const char *model = NULL, *path = NULL, *with = NULL;
    cfx_draw_options o = {0};
    int stages = 0;
    cli_words w = {argc, argv, .command = &cli_draw};
    while (cli_more(&w))
        if (!cli_value(&w, "-o", &path) && !cli_number(&w, "--depth", &o.depth) &&
            !cli_value(&w, "--focus", &o.focus) && !cli_flag(&w, "--all", &o.all) &&
            !cli_number(&w, "--stages", &stages) && !cli_value(&w, "--with", &with))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_draw, "which MODEL?");
    if (!path)
        return cli_usage(&cli_draw, "where to? -o F.svg, -o F.html or -o F.dot");
    if (o.all && o.depth)
        return cli_usage(&cli_draw, "--all and --depth say two different things");
    size_t n = strlen(path);
    if (with && (n < 5 || strcmp(path + n - 5, ".html")))
        return cli_usage(&cli_draw, "--with is for F.html");
    cfx_program *p = cfx_open(model);
    if (!cfx_ok() || (with && !(o.columns = read_columns(with))))
        return cli_trouble();
    if (stages)
        p = cfx_stages_framed(p, cfx_program_stages(p, (cfx_stage_options){.n = stages}));
    if (!cfx_ok() || !cfx_program_draw_file(p, path, o))
        return cli_trouble();
    cli_wrote(path, p);
    return CLI_DONE;
}

const cli_command cli_draw = {
    "draw", run, "draw a program as SVG, as an interactive page, or as DOT", help};
