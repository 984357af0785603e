/* cfx opt --extract, --reduce and --join: part of a program, or two as one, written to a file. */
#include "look.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* "A..B" has what B is as its results, another selector all that is used outside of it. */
static cfx_program *part_of(const cfx_program *p, const char *selector) {
    const char *dots = strstr(selector, "..");
    if (!dots)
        return cfx_program_extract_nodes(
            p, cfx_failed(p) ? cfx_bad() : cfx_select_nodes(p->module->graph, selector));
    return cfx_program_extract(p, cfx__string_new(selector, (size_t)(dots - selector))->text,
                               dots + 2);
}

int cli_extract(const char *model, const char *selector, cli_out *out) {
    cfx_program *p = cli_read(model, out), *part = part_of(p, selector);
    int code = cfx_ok() ? cli_write(part, out) : cli_trouble();
    if (code != CLI_DONE)
        return code;
    cli_say("%lld of %lld nodes\n", (long long)cfx_graph_len(part->module->graph),
            (long long)cfx_graph_len(p->module->graph));
    return CLI_DONE;
}

int cli_join(const char *model, const char *other, const char *const *wires, int n, cli_out *out) {
    cfx_dict *all = cfx_dict_new();
    for (int i = 0; i < n; i++) {
        const char *equal = strchr(wires[i], '=');
        if (!equal)
            return cli_usage(&cli_opt, "--wire wants INPUT=out0, not '%s'", wires[i]);
        cfx_dict_put(all, cfx_string_value_n(wires[i], (size_t)(equal - wires[i])),
                     cfx_string_value(equal + 1));
    }
    cfx_program *a = cli_read(model, out), *b = cli_read(other, out),
                *both = cfx_program_join(a, b, all);
    int code = cfx_ok() ? cli_write(both, out) : cli_trouble();
    if (code != CLI_DONE)
        return code;
    cli_say("%lld and %lld nodes are %lld\n", (long long)cfx_graph_len(a->module->graph),
            (long long)cfx_graph_len(b->module->graph),
            (long long)cfx_graph_len(both->module->graph));
    return CLI_DONE;
}

/* ---- reduce ---------------------------------------------------------------------------------- */

typedef struct {
    const char *command, *program, *inputs; /* the files it is run on */
    int tries;
} checking;

static bool save_inputs(const char *path, cfx_value inputs) {
    cfx_dict *all = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++) {
        cfx_value v = cfx_as_list(inputs)->items[i];
        if (cfx_is_number(v))
            v = cfx_tensor_value(cfx_tensor_from_value(v));
        if (v.tag == CFX_TAG_TENSOR)
            cfx_dict_set(all, cfx__text_format("in%lld", (long long)i), v);
    }
    return cfx_safetensors_write(path, all, NULL);
}

static bool command_fails(cfx_program *p, cfx_value inputs, void *user) {
    checking *c = user;
    c->tries++;
    if (!cfx_save_unchecked(p, c->program) || !save_inputs(c->inputs, inputs))
        return false;
    int code = system(cfx__text_format("%s %s %s", c->command, cli_quoted(c->program),
                                       cli_quoted(c->inputs)));
    return code == -1 || !WIFEXITED(code) || WEXITSTATUS(code) != 0;
}

static bool executors_differ(cfx_program *p, cfx_value inputs, void *user) {
    ((checking *)user)->tries++;
    return cfx_executors_differ(p, inputs, NULL);
}

static int reduce(checking *c, cfx_program *p, cfx_value flat, cli_out *to) {
    const char *out = to->path;
    cfx_value inputs = cfx_none();
    cfx_program *q =
        cfx_program_reduce(p, flat, c->command ? command_fails : executors_differ, c, &inputs);
    const char *dot = strrchr(out, '.'), *slash = strrchr(out, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - out) : strlen(out);
    const bool fx = dot && !strcmp(dot, ".fx"); /* whose tensors are in the plain name */
    const char *beside =
        cfx__text_format("%.*s%s.safetensors", (int)stem, out, fx ? ".inputs" : "");
    int code = cfx_ok() ? cli_write(q, to) : cli_trouble();
    if (code != CLI_DONE)
        return code;
    if (!save_inputs(beside, inputs))
        return cli_trouble();
    cli_say("%lld of %lld nodes still fail, after %d tries; inputs in %s\n",
            (long long)cfx_graph_len(q->module->graph), (long long)cfx_graph_len(p->module->graph),
            c->tries, beside);
    return CLI_DONE;
}

int cli_reduce(const char *model, const char *inputs, const char *command, cli_out *out) {
    cfx_program *p = cli_read(model, out);
    cfx_value flat = cfx_list_value(0, NULL);
    if (!cfx_ok() || !cli_choose_inputs(p, inputs, cfx_as_list(flat)))
        return cli_trouble();
    const char *folder = cli_folder();
    if (!folder)
        return cli_trouble();
    checking c = {.command = command, .program = cfx__text_format("%s/program.pt2", folder),
                  .inputs = cfx__text_format("%s/inputs.safetensors", folder)};
    int code = reduce(&c, p, flat, out);
    unlink(c.program);
    unlink(c.inputs);
    rmdir(folder);
    return code;
}
