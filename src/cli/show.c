/* cfx show: a program as a tree of modules, as any of PyTorch's texts, as JSON, or one node of it.
 */
#include "look.h"

#include <string.h>

static const char help[] =
    "usage: cfx show MODEL [--as FORM] [--node NAME]\n"
    "\n"
    "Shows a program without running it; weights are not read.\n"
    "  --as tree        (default) its modules with parameters, bytes and operators; blocks that\n"
    "                   repeat are shown once\n"
    "  --as graph       print(graph)                --as table     graph.print_tabular()\n"
    "  --as code        gm.code                     --as readable  gm.print_readable()\n"
    "  --as program     print(program): the graph with its signature and ranges\n"
    "  --as json        nodes, signature and ranges for other programs to read\n"
    "  --node NAME      all there is to say of one node: arguments, users, shape, module, source\n"
    "                   line; statistics of its weights\n"
    "\n"
    "Exit: 0 done, 2 trouble.\n";

static int show(const cfx_program *p, const char *form) {
    const cfx_module *gm = p->module;
    if (!strcmp(form, "tree"))
        cli_show_tree(p);
    else if (!strcmp(form, "graph"))
        cfx_print_graph(gm, stdout);
    else if (!strcmp(form, "table"))
        cfx_print_tabular(gm, stdout);
    else if (!strcmp(form, "code"))
        cfx_print_code(gm, stdout);
    else if (!strcmp(form, "readable"))
        cfx_print_readable(gm, stdout);
    else if (!strcmp(form, "program"))
        cfx_print_program(p, stdout);
    else if (!strcmp(form, "json"))
        cli_show_json(p);
    else
        return cli_usage(&cli_show,
                         "--as is tree, graph, table, code, readable, program or json, not '%s'",
                         form);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

static int run(int argc, char **argv) {
    const char *model = NULL, *form = "tree", *node = NULL;
    cli_words w = {argc, argv, .command = &cli_show};
    while (cli_more(&w))
        if (!cli_value(&w, "--as", &form) && !cli_value(&w, "--node", &node))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_show, "which MODEL?");
    cfx_program *p = cfx_open(model);
    if (!p || !cfx_ok())
        return cli_trouble();
    return node ? cli_show_node(p, node) : show(p, form);
}

const cli_command cli_show = {"show", run, "show a program: modules, graph, code, one node", help};
