/* cfx rewrite: the rules of a file applied to a program, and the result written to a file. */
#include "look.h"

#include "../rewrite/rules.h"

static const char help[] =
    "usage: cfx rewrite MODEL --rules FILE -o OUT.pt2 [--verify] [--inputs F] [--force]\n\n"
    "Applies the rules of a file until none matches, and writes the result. A rule is\n\n"
    "    gelu_tanh:  x * 0.5 * (1 + tanh((x + x**3 * 0.044715) * 0.7978845608))\n"
    "            -> gelu(x, approximate='tanh')\n"
    "        where dtype(x) in (f32, bf16)\n\n"
    "a pattern and its replacement in the syntax of generated code, with names for any value;\n"
    "conditions may follow: dtype, rank, shape, numel, users, constant, number, ...; see the\n"
    "manual.\n"
    "  --rules FILE     the rules\n"
    CLI_OUT_HELP
    "  --verify         runs the program before and after and compares, as for cfx opt; if a\n"
    "                   result differs, nothing is written\n"
    "  --inputs F       tensors to run on, as for cfx run\n"
    "  --image HOW      how images become tensors, as for cfx run\n\n"
    "Exit: 0 done, 1 a result differs, 2 error.\n";

/* Applies rules, and says which and how often. */
static bool apply(cfx_program *q, const cfx_rules *r, int64_t before) {
    const size_t n = r->rules.len;
    int *counts = cfx__alloc(n * sizeof *counts);
    const int changes = cfx__rewrite_counted(q, r, counts);
    if (changes >= 0)
        cli_say("%d %s applied, %lld nodes before, %lld after\n", changes,
                changes == 1 ? "rule" : "rules", (long long)before,
                (long long)cfx_graph_len(q->module->graph));
    for (size_t i = 0; i < n && changes >= 0; i++) {
        cli_say("  %s: %d\n", r->rules.data[i].name, counts[i]);
        cli_answer_row("rules", cfx_dict_of("rule", r->rules.data[i].name, "applied", counts[i]));
    }
    cfx__free(counts);
    return changes >= 0;
}

static int run(int argc, char **argv) {
    const char *model = NULL, *rules = NULL, *inputs = NULL;
    bool verify = false;
    cli_out out = {0};
    cli_words w = {argc, argv, .command = &cli_rewrite};
    while (cli_more(&w))
        if (!cli_value(&w, "--rules", &rules) && !cli_program_out(&w, &out) &&
            !cli_tensors(&w, "--inputs", &inputs) && !cli_image(&w) &&
            !cli_flag(&w, "--verify", &verify))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model || !rules || !out.path)
        return cli_usage(&cli_rewrite, !model   ? "which MODEL?"
                                       : !rules ? "--rules which file?"
                                                : "-o which file?");
    cfx_rules *r = cfx_rules_open(rules);
    cfx_program *p = cfx_to_aten(cli_read(model, &out)), *q = cfx_program_copy(p);
    if (!cfx_ok() || !apply(q, r, cfx_graph_len(p->module->graph)))
        return cli_trouble();
    int code = verify ? cli_verify(model, inputs, q, 0) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    return cli_write(q, &out);
}

const cli_command cli_rewrite = {"rewrite", run, "apply the rules of a file to a program", help};
