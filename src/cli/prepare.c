/* cfx prepare: packed weights beside a model, for processes that start; and what became of them. */
#include "look.h"

#include <string.h>

static const char help[] =
    "usage: cfx prepare MODEL [--inputs F] [--threads N] [--precision P]\n\n"
    "Runs a program once and writes its packed weights to MODEL.prepared. Later processes that\n"
    "open the model map this file instead of packing weights. It is valid for this machine, this\n"
    "version of cfx and these weights; otherwise it is ignored, and cfx run says why. It may be\n"
    "deleted at any time.\n"
    "  --inputs F       tensors to run on, as for cfx run, since kernels may depend on sizes; by\n"
    "                   default saved or random ones\n"
    "  --threads N      threads for one operator; all cores by default\n"
    "  --precision P    the precision of later runs: f32, bf16 or f16\n\n"
    "Exit: 0 done, 2 error.\n";

void cli_tell_prepared(const cfx_program *p, bool all) {
    const cfx_value v = cfx_program_prepared(p);
    if (v.tag != CFX_TAG_DICT)
        return;
    const cfx_dict *d = cfx_as_dict(v);
    const char *path = cfx_text(cfx_dict_get(d, "path"));
    const char *refused = cfx_text(cfx_dict_get(d, "refused"));
    const int64_t other = cfx_integer(cfx_dict_get(d, "other")),
                  broken = cfx_integer(cfx_dict_get(d, "broken"));
    cli_answer("prepared", v);
    if (refused)
        cli_say("%s is not used: %s; 'cfx prepare' makes it anew\n", path, refused);
    if (other)
        cli_say("%s: %lld of its forms belong to other weights and are not used; "
                "'cfx prepare' makes it anew\n", path, (long long)other);
    if (broken)
        cli_say("%s: %lld of its forms are damaged and not used; run 'cfx prepare' again\n",
                path, (long long)broken);
    if (all && !refused)
        cli_print("prepared weights: %lld of %lld forms used, %s\n",
                  (long long)cfx_integer(cfx_dict_get(d, "used")),
                  (long long)cfx_integer(cfx_dict_get(d, "forms")),
                  cli_bytes(cfx_integer(cfx_dict_get(d, "bytes"))));
}

static int prepare(const char *model, const char *inputs) {
    cfx_program *p = cfx_open(model);
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_dict *report = cfx_dict_new();
    cfx_set_grad_mode(CFX_INFERENCE);
    if (!cfx_ok() || !cli_choose_inputs(p, inputs, cfx_as_list(flat)))
        return cli_trouble();
    double ms;
    cli_time_runs(p, (cfx_args){(int)cfx_as_list(flat)->len, cfx_as_list(flat)->items, NULL}, 1,
                  &ms);
    if (!cfx_ok() || !cfx_program_prepare(p, model, report))
        return cli_trouble();
    cli_print("wrote %s: %lld forms of weights, %s\n", cfx_text(cfx_dict_get(report, "path")),
              (long long)cfx_integer(cfx_dict_get(report, "forms")),
              cli_bytes(cfx_integer(cfx_dict_get(report, "bytes"))));
    for (int64_t i = 0; i < report->len; i++)
        cli_answer(cfx_text(report->entries[i].key), report->entries[i].value);
    return CLI_DONE;
}

static int run(int argc, char **argv) {
    const char *model = NULL, *inputs = NULL;
    int threads = 0;
    cli_words w = {argc, argv, .command = &cli_prepare};
    while (cli_more(&w))
        if (!cli_tensors(&w, "--inputs", &inputs) && !cli_number(&w, "--threads", &threads) &&
            !cli_precision(&w))
            cli_rest(&w, &model);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!model)
        return cli_usage(&cli_prepare, "which MODEL?");
    if (!strncmp(model, "/dev/", 5)) /* where "-" was put */
        return cli_usage(&cli_prepare, "standard input has no file beside it; which MODEL?");
    if (threads)
        cfx_set_num_threads(threads);
    return prepare(model, inputs);
}

const cli_command cli_prepare = {"prepare", run, "pack the weights of a program beside it", help};
