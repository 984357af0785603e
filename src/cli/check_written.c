/* cfx ops check --core and --onnx: every recorded call is a program of its own, which is
 * decomposed, or written as ONNX and read back, and run. Here too is what all checks of calls as
 * programs share. */
#include "check.h"
#include "look.h"

#include <string.h>
#include <unistd.h>

#include <cfx/export.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>
#include <cfx/run.h>

#include "../dispatch/dispatch.h"

/* ---- a call as a program --------------------------------------------------------------------- */

typedef struct {
    cfx_graph *graph;
    cfx_list *inputs; /* tensors, in the order of placeholders */
} making;

/* The value with a placeholder for each tensor in it; scope. */
static cfx_value with_nodes(making *m, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        const char *name = cfx__text_format("x%d", (int)m->inputs->len);
        cfx_list_append(m->inputs, v);
        return cfx_node_value(cfx_graph_input(m->graph, name));
    }
    if (v.tag != CFX_TAG_LIST)
        return v;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), with_nodes(m, cfx_as_list(v)->items[i]));
    return out;
}

cfx_program *cli_check_program(cli_check_session *s, cfx_op *op, cfx_value call,
                               cfx_list *inputs) {
    const cli_check_arguments a = cli_check_decode(s, call, false);
    making m = {cfx_graph_new(), inputs};
    cfx_value args = cfx_list_value(0, NULL), kw = cfx_dict_value(cfx_dict_new());
    for (int64_t i = 0; i < a.args->len; i++)
        cfx_list_append(cfx_as_list(args), with_nodes(&m, a.args->items[i]));
    for (int64_t i = 0; i < a.kw->len; i++)
        cfx_dict_put(cfx_as_dict(kw), a.kw->entries[i].key, with_nodes(&m, a.kw->entries[i].value));
    const char *target = cfx__text_format("torch.ops.%s", cfx_op_name(op));
    const cfx_list *l = cfx_as_list(args);
    cfx_node *n = cfx_graph_call_function(m.graph, target, cfx_tuple_value(l->len, l->items), kw);
    cfx_graph_output(m.graph, cfx_node_value(n));
    cfx_module *gm = cfx_graph_module(NULL, m.graph, "Call");
    cfx_program *p =
        cfx_export(gm, cfx_tuple_value(inputs->len, inputs->items), CFX_NONE, CFX_NONE);
    return cfx_ok() && !cfx_failed(p) ? p : NULL;
}

bool cli_check_folder(cli_check_session *s) {
    const char *folder = s->folder[0] ? s->folder : cli_folder();
    if (folder && folder != s->folder)
        snprintf(s->folder, sizeof s->folder, "%s", folder);
    return folder;
}

const char *cli_check_path(const cli_check_session *s, int number, const char *suffix) {
    return cfx__text_format("%s/call%d%s", s->folder, number, suffix);
}

/* The words of the last error, which is forgotten: of several nodes the first with its reason. */
static const char *take_reason(void) {
    const char *text = cfx_error_last()->message, *line = strchr(text, '\n');
    const char *why = line ? cfx__text_format("%.*s", (int)strcspn(line + 1, "\n"),
                                              line + 1 + strspn(line + 1, " "))
                           : cfx__text_format("%s", text);
    cfx__error_forgive();
    return why;
}

void cli_check_refused(cli_check_session *s, cfx_op *op, int number) {
    const char *why = take_reason();
    s->refused++;
    cli_answer_row("failures", cfx_dict_of("line", number, "operator", cfx_op_name(op), "how",
                                           " (refused)", "why", why));
    cli_print("line %d: %s (refused): %s\n", number, cfx_op_name(op), why);
}

/* Runs what was made of a call, tells of a failure, and forgets the error. */
static void run_made(cli_check_session *s, cfx_op *op, cfx_value call, int number,
                     cfx_program *made, const cfx_list *in, const char *how) {
    cfx_value got =
        cfx_program_run_from((cfx_site){0}, made, (cfx_args){(int)in->len, in->items, NULL});
    const char *bad = cfx_ok() ? cli_check_results(s, op, call, got) : cfx_error_last()->message;
    if (bad)
        cli_check_failed(s, number, cfx_op_name(op), how, bad);
    else
        s->passed++;
    cfx__error_forgive();
}

/* ---- as Core ATen ---------------------------------------------------------------------------- */

void cli_check_core(cli_check_session *s, cfx_op *op, cfx_value call, int number) {
    cfx_value inputs = cfx_list_value(0, NULL);
    cfx_program *p = cli_check_program(s, op, call, cfx_as_list(inputs));
    cfx_program *core = p ? cfx_decompose(p, CFX_NONE) : NULL;
    if (!core || cfx_failed(core))
        cli_check_refused(s, op, number);
    else
        run_made(s, op, call, number, core, cfx_as_list(inputs), " (core)");
}

/* ---- as ONNX --------------------------------------------------------------------------------- */

void cli_check_written(cli_check_session *s, cfx_op *op, cfx_value call, int number) {
    cfx_value inputs = cfx_list_value(0, NULL);
    if (!cli_check_folder(s))
        return;
    cfx_program *p = cli_check_program(s, op, call, cfx_as_list(inputs));
    const char *path = cli_check_path(s, number, ".onnx");
    if (!p || !cfx_save(p, path)) {
        cli_check_refused(s, op, number);
        return;
    }
    run_made(s, op, call, number, cfx_open(path), cfx_as_list(inputs), " (onnx)");
    if (!s->keep)
        unlink(path);
}
