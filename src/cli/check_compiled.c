/* cfx ops check --compiled: every recorded call is a program of its own, which is compiled to C.
 * Those of many calls are built as one shared object, each under a name of its own, and run. */
#include "check.h"
#include "library.h"
#include "look.h"

#include <string.h>
#include <unistd.h>

#include <cfx/compile.h>
#include <cfx/export.h>
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

/* The call as a program, and its inputs; scope. NULL, with an error. */
static cfx_program *program_of(cli_check_session *s, cfx_op *op, cfx_value call, cfx_list *inputs) {
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

/* ---- building and running -------------------------------------------------------------------- */

static const char *path_of(const cli_check_session *s, int number, const char *suffix) {
    return cfx__text_format("%s/call%d%s", s->folder, number, suffix);
}

/* The words that a compilation gave last: of several nodes the first with its reason. */
static const char *reason(void) {
    const char *text = cfx_error_last()->message, *line = strchr(text, '\n');
    return line ? cfx__text_format("%.*s", (int)strcspn(line + 1, "\n"),
                                   line + 1 + strspn(line + 1, " "))
                : text;
}

/* Builds the calls `from` to `to` that wait as one object; false, with an error. */
static bool build(const cli_check_session *s, int from, int to) {
    const char *source = path_of(s, s->waiting[from].number, "_all.c");
    const char *object = path_of(s, s->waiting[from].number, ".so");
    cfx__text t = {0};
    for (int i = from; i < to; i++)
        cfx__text_printf(&t,
                         "#define cfx_compiled cfx_compiled_%d\n#include \"call%d.c\"\n"
                         "#undef cfx_compiled\n",
                         s->waiting[i].number, s->waiting[i].number);
    const char *text = cfx__text_take(&t);
    FILE *f = fopen(source, "w");
    const bool written = f && fwrite(text, 1, strlen(text), f) == strlen(text);
    if (!f || fclose(f) || !written) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' cannot be written", source);
        return false;
    }
    const char *words[] = {"cc",           "-std=c11",  "-O1",     "-Wall",   "-Wextra",
                           "-Wconversion", "-pedantic", "-Werror", "-shared", "-fPIC",
                           "-o",           object,      source,    "-lm",     NULL};
    const bool fine = cli_cc(words, object);
    unlink(source);
    return fine;
}

static void run_one(cli_check_session *s, const cli_check_waiting *w, const char *object) {
    cfx_dict *given = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_list(w->inputs)->len; i++)
        cfx_dict_set(given, cfx__text_format("in%d", (int)i), cfx_as_list(w->inputs)->items[i]);
    const cfx_value got =
        cli_library_run_one(object, cfx__text_format("cfx_compiled_%d", w->number), given);
    const char *bad =
        cfx_ok() ? cli_check_results(s, w->op, w->call, got) : cfx_error_last()->message;
    if (bad)
        cli_check_failed(s, w->number, cfx_op_name(w->op), " (compiled)", bad);
    else
        s->passed++;
    cfx__error_forgive();
}

/* Builds and runs the calls `from` to `to`; where they are not built, halves of them. */
static void run_some(cli_check_session *s, int from, int to) {
    if (from >= to)
        return;
    const cli_check_waiting *w = &s->waiting[from];
    const char *object = path_of(s, w->number, ".so");
    if (build(s, from, to)) {
        for (int i = from; i < to; i++)
            CFX_SCOPE
                run_one(s, &s->waiting[i], object);
        unlink(object);
    } else if (to - from == 1) {
        cli_check_failed(s, w->number, cfx_op_name(w->op), " (compiled)", "cc does not build it");
        cfx__error_forgive();
    } else {
        cfx__error_forgive();
        run_some(s, from, (from + to) / 2);
        run_some(s, (from + to) / 2, to);
    }
}

static void run_waiting(cli_check_session *s) {
    run_some(s, 0, s->nwaiting);
    for (int i = 0; i < s->nwaiting; i++) {
        unlink(path_of(s, s->waiting[i].number, ".c"));
        unlink(path_of(s, s->waiting[i].number, ".h"));
        cfx_value_drop(s->waiting[i].call);
        cfx_value_drop(s->waiting[i].inputs);
    }
    s->nwaiting = 0;
}

void cli_check_compiled(cli_check_session *s, cfx_op *op, cfx_value call, int number) {
    const cfx_value inputs = cfx_list_value(0, NULL);
    const char *folder = s->folder[0] ? s->folder : cli_folder();
    if (!folder)
        return;
    if (folder != s->folder)
        snprintf(s->folder, sizeof s->folder, "%s", folder);
    cfx_program *p = program_of(s, op, call, cfx_as_list(inputs));
    const cfx_compile_options how = {
        .name = cfx__text_format("call%d", number), .weights = CFX_WEIGHTS_INLINE, .library = true};
    if (!p || !cfx_compile_c(p, &how, path_of(s, number, ".c"))) {
        s->refused++;
        const char *why = reason();
        cli_answer_row("failures", cfx_dict_of("line", number, "operator", cfx_op_name(op), "how",
                                               " (refused)", "why", why));
        cli_print("line %d: %s (refused): %s\n", number, cfx_op_name(op), why);
        cfx__error_forgive();
        return;
    }
    s->waiting[s->nwaiting++] =
        (cli_check_waiting){number, op, cfx_value_keep(call), cfx_value_keep(inputs)};
    if (s->nwaiting == CLI_CHECK_BATCH)
        run_waiting(s);
}

void cli_check_built(cli_check_session *s) {
    run_waiting(s);
    if (s->folder[0])
        rmdir(s->folder);
}
