/* cfx ops check --compiled: every recorded call is a program of its own, which is compiled to C.
 * Those of many calls are built as one shared object, each under a name of its own, and run. */
#include "check.h"
#include "library.h"
#include "look.h"

#include <string.h>
#include <unistd.h>

#include <cfx/compile.h>

/* Builds the calls `from` to `to` that wait as one object; false, with an error. */
static bool build(const cli_check_session *s, int from, int to) {
    const char *source = cli_check_path(s, s->waiting[from].number, "_all.c");
    const char *object = cli_check_path(s, s->waiting[from].number, ".so");
    cfx__text t = {0};
    for (int i = from; i < to; i++)
        cfx__text_printf(&t,
                         "#define cfx_compiled cfx_compiled_%d\n#include \"call%d.c\"\n"
                         "#undef cfx_compiled\n",
                         s->waiting[i].number, s->waiting[i].number);
    const char *text = cfx__text_take(&t);
    if (!cfx__file_write(source, text, strlen(text)))
        return false;
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
    const char *object = cli_check_path(s, w->number, ".so");
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
        unlink(cli_check_path(s, s->waiting[i].number, ".c"));
        unlink(cli_check_path(s, s->waiting[i].number, ".h"));
        cfx_value_drop(s->waiting[i].call);
        cfx_value_drop(s->waiting[i].inputs);
    }
    s->nwaiting = 0;
}

void cli_check_compiled(cli_check_session *s, cfx_op *op, cfx_value call, int number) {
    const cfx_value inputs = cfx_list_value(0, NULL);
    if (!cli_check_folder(s))
        return;
    cfx_program *p = cli_check_program(s, op, call, cfx_as_list(inputs));
    const cfx_compile_options how = {
        .name = cfx__text_format("call%d", number), .weights = CFX_WEIGHTS_INLINE, .library = true};
    if (!p || !cfx_compile_c(p, &how, cli_check_path(s, number, ".c"))) {
        cli_check_refused(s, op, number);
        return;
    }
    s->waiting[s->nwaiting++] =
        (cli_check_waiting){number, op, cfx_value_keep(call), cfx_value_keep(inputs)};
    if (s->nwaiting == CLI_CHECK_BATCH)
        run_waiting(s);
}

void cli_check_built(cli_check_session *s) { run_waiting(s); }
