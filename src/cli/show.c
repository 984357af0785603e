/* cfx show: a program as a tree of modules, as any of PyTorch's texts, as JSON, or one node of it.
 */
#include "cost.h"

#include <cfx/compile.h>

#include <string.h>

#include "../graph/graph.h"

static const char help[] =
    "usage: cfx show MODEL [--as FORM] [--node NAME] [--nodes SELECTOR]\n"
    "                [--cost [--size SYMBOL=N]...] [--path A B] [--around NODE [--hops N]]\n"
    "                [--check [--dialect NAME]]\n"
    "       cfx show F.safetensors|F.npy|F.npz|F.pt [--node NAME] [--as json]\n\n"
    "Shows a program without running it; weights are not read.\n"
    "  --as tree        (default) modules with parameters, bytes and operators; repeated blocks\n"
    "                   are shown once\n"
    "  --as graph       print(graph)                --as table     graph.print_tabular()\n"
    "  --as code        gm.code                     --as readable  gm.print_readable()\n"
    "  --as program     print(program): the graph with its signature and ranges\n"
    "  --as json        nodes, signature and ranges as JSON\n"
    "  --as plan        the kernels of its plan, for random inputs as in cfx bench\n"
    "  --after PASS     with --as plan: the plan after that pass of lowering\n"
    "  --as c           the C of cfx compile, without weights\n"
    "  --as names       the names of the nodes, one a line\n"
    "  --nodes SELECTOR selected nodes, as in --as graph\n"
    "  --node NAME      one node: arguments, users, shape, module, source line, statistics of\n"
    "                   its weights\n"
    "  --cost           FLOPs and memory by module and operator, their sums and the peak of live\n"
    "                   memory; as JSON for 'cfx draw --with'\n"
    "  --path A B       the shortest path from one node to another; exit 1 if there is none\n"
    "  --around NODE    the neighbourhood of a node, --hops N steps up and down (2)\n"
    "  --check          verifies the program and lists each problem with its node and, in a .fx,\n"
    "                   its line: unknown operators, invalid arguments, shapes that contradict\n"
    "                   the metadata, dynamic sizes that only one value satisfies, a wrong\n"
    "                   signature; exit 1 if there are any. Other commands do not write such\n"
    "                   programs\n"
    "  --dialect NAME   verifies a dialect of PyTorch's verifier instead: ATEN, TRAINING, CORE\n"
    "  --size s0=8      the value of a dynamic size; without it costs are polynomials in it\n"
    "For a file of tensors: names, dtypes, shapes and bytes; --nodes selects names by a glob,\n"
    "--node shows one tensor.\n\n"
    "Exit: 0 done, 1 no path, or problems, 2 error.\n";

static void show_plan_after(cfx_program *p, const char *pass) {
    cfx_value flat = cfx_list_value(0, NULL);
    if (!cli_make_inputs(p, cfx_dict_new(), cfx_as_list(flat)))
        return;
    cfx_args a = {(int)cfx_as_list(flat)->len, cfx_as_list(flat)->items, NULL};
    const char *text = cfx_program_plan_after_from((cfx_site){0}, p, pass, a);
    if (text)
        fputs(*text ? text : "the interpreter runs this program node by node\n", stdout);
}

static void show_plan(cfx_program *p) { show_plan_after(p, NULL); }
static void show_c(cfx_program *p) {
    const char *text = cfx_compile_text(p, NULL);
    if (text)
        fputs(text, stdout);
}
static void show_tree(cfx_program *p) { cli_show_tree(p, NULL); }
static void show_json(cfx_program *p) {
    if (cli_answers())
        cli_answer_object(cfx_program_json(p));
    else
        fputs(cfx_program_json(p), stdout);
}
static void show_names(cfx_program *p) {
    cfx_each_node(p->module->graph, n) cli_print("%s\n", n->name);
}
static void show_program(cfx_program *p) { cfx_print_program(p, stdout); }

/* What --as takes: texts of the module, or of the program. */
static const struct {
    const char *name;
    void (*of_module)(const cfx_module *gm, FILE *out);
    void (*of_program)(cfx_program *p);
} forms[] = {{"tree", NULL, show_tree},
             {"graph", cfx_print_graph, NULL},
             {"table", cfx_print_tabular, NULL},
             {"code", cfx_print_code, NULL},
             {"readable", cfx_print_readable, NULL},
             {"program", NULL, show_program},
             {"json", NULL, show_json},
             {"plan", NULL, show_plan},
             {"c", NULL, show_c},
             {"names", NULL, show_names}};

static int show(cfx_program *p, const char *form) {
    const char *names[COUNT(forms)];
    for (int i = 0; i < COUNT(forms); i++)
        names[i] = forms[i].name;
    const int i = cli_one_of(&cli_show, "--as", form, names, COUNT(forms));
    if (i < 0)
        return CLI_TROUBLE;
    if (forms[i].of_module)
        forms[i].of_module(p->module, stdout);
    else
        forms[i].of_program(p);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

/* A row of --tsv. */
static void note_node(const cfx_node *n) {
    CFX_SCOPE {
        cfx_result r = cfx_node_result(n);
        cfx__text target = {0};
        cfx__target_text(&target, n->target);
        cli_answer_row("nodes", cfx_dict_of("node", n->name, "op", cfx_opcode_name(n->op),
                                            "target", cfx__text_take(&target), "result",
                                            cfx_is_none(r.value) ? "" : cfx_result_text(&r),
                                            "module", cli_module_of(n)));
    }
}

static void note_nodes(const cfx_program *p) {
    cfx_each_node(p->module->graph, n) note_node(n);
}

static int show_nodes(const cfx_program *p, const char *selector) {
    cfx_value nodes = cfx_select_nodes(p->module->graph, selector);
    if (cfx_is_bad(nodes))
        return cli_trouble();
    for (int64_t i = 0; i < cfx_as_list(nodes)->len; i++) {
        const cfx_node *n = cfx_as_node(cfx_as_list(nodes)->items[i]);
        CFX_SCOPE cli_print("%s\n", cfx_node_format(n));
        note_node(n);
    }
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

enum { MAX_SIZES = 16 };

static int show_costs(cfx_program *p, const char *form, const char *const *sizes, int nsizes) {
    cli_costs costs;
    bool json = !strcmp(form, "json");
    if (!json && strcmp(form, "tree"))
        return cli_usage(&cli_show, "costs are shown as tree or json, not as '%s'", form);
    if (!cli_costs_of(&costs, p, sizes, nsizes))
        return cli_trouble();
    if (json)
        cli_answer_as_json();
    if (cli_answers())
        cli_note_costs(&costs);
    cli_show_tree(p, &costs);
    cli_print_costs(&costs);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

static int run(int argc, char **argv) {
    const char *model = NULL, *form = "tree", *node = NULL, *sizes[MAX_SIZES];
    const char *from = NULL, *to = NULL, *around = NULL, *after = NULL, *dialect = NULL;
    const char *selector = NULL;
    int nsizes = 0, hops = 2;
    bool cost = false, check = false;
    cli_words w = {argc, argv, .command = &cli_show};
    while (cli_more(&w)) {
        const char *size = NULL;
        if (cli_value(&w, "--size", &size)) {
            if (nsizes == MAX_SIZES)
                return cli_usage(&cli_show, "at most %d sizes", MAX_SIZES);
            sizes[nsizes++] = size;
        } else if (cli_value(&w, "--path", &from)) {
            if (w.at + 1 >= w.argc)
                return cli_usage(&cli_show, "--path wants two nodes");
            to = w.argv[++w.at];
        } else if (!cli_value(&w, "--around", &around) && !cli_number(&w, "--hops", &hops) &&
                   !cli_value(&w, "--as", &form) && !cli_value(&w, "--node", &node) &&
                   !cli_value(&w, "--nodes", &selector) &&
                   !cli_value(&w, "--after", &after) && !cli_value(&w, "--dialect", &dialect) &&
                   !cli_flag(&w, "--check", &check) && !cli_flag(&w, "--cost", &cost))
            cli_rest(&w, &model);
    }
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_show, "which MODEL?");
    if (nsizes && !cost)
        return cli_usage(&cli_show, "--size goes with --cost");
    if (cli_answers_json())
        form = "json";
    const bool json = !strcmp(form, "json"), whole = !from && !around && !cost;
    if (whole && (json || !strcmp(form, "tree")) && cfx_tensors_are_in(model)) {
        if (json)
            cli_answer_as_json();
        return cli_show_tensors(model, node, selector);
    }
    cfx_program *p = cfx_open(model);
    if (!cfx_ok())
        return cli_trouble();
    if (after && strcmp(form, "plan") != 0)
        return cli_usage(&cli_show, "--after goes with --as plan");
    if (check || dialect)
        return cli_show_problems(p, model, dialect);
    cli_tell_unknown(p, model);
    if (selector)
        return show_nodes(p, selector);
    if (from)
        return cli_show_path(p, from, to);
    if (around)
        return cli_show_around(p, around, hops);
    if (cost)
        return show_costs(p, form, sizes, nsizes);
    if (after) {
        show_plan_after(p, after);
        return cfx_ok() ? CLI_DONE : cli_trouble();
    }
    if (node && !json && strcmp(form, "tree"))
        return cli_usage(&cli_show, "a node is shown as a card or as json, not as '%s'", form);
    if (node)
        return cli_show_node(p, node, json);
    if (json || !cli_answers())
        return show(p, form);
    note_nodes(p); /* of a program --tsv is the table of its nodes */
    return cfx_ok() ? CLI_DONE : cli_trouble();
}

const cli_command cli_show = {"show", run, "show a program: modules, graph, code, one node", help};
