/* Programs that are written, and what is wrong with them: -o and --force, and show --check. */
#include "look.h"

#include <string.h>

#include "../dispatch/dispatch.h"
#include "../run/run.h"

bool cli_program_out(cli_words *w, cli_out *out) {
    if (cli_flag(w, "--force", &out->force))
        return true;
    if (!cli_value(w, "-o", &out->path))
        return false;
    const char *dot = out->path ? strrchr(out->path, '.') : NULL;
    if (out->path &&
        (!dot || (strcmp(dot, ".pt2") && strcmp(dot, ".fx") && strcmp(dot, ".onnx")))) {
        cli_usage(w->command, "-o wants a .pt2, .fx or .onnx file, not '%s'", out->path);
        w->wrong = true;
    }
    return true;
}

/* "1 problem", "3 problems". */
static const char *count(const cfx_problems *found) {
    return cfx__text_format(found->n == 1 ? "%d problem" : "%d problems", found->n);
}

cfx_program *cli_read(const char *path, cli_out *out) {
    cfx_program *p = cfx_open(path);
    if (cfx_failed(p))
        return p;
    const cfx_problems *found = cfx_program_problems(p);
    if (cfx_failed(found) || !found->n)
        return p;
    cli_say("%s", cfx_problems_str(found, path));
    out->told = true;
    if (!out->force)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "'%s' has %s; nothing is written without "
                 "--force", path, count(found));
    return p;
}

void cli_wrote(const char *path, const cfx_program *p) {
    cli_answer_row("written",
                   cfx_dict_of("path", path, "nodes", cfx_graph_len(p->module->graph)));
}

int cli_write(const cfx_program *p, const cli_out *out) {
    const cfx_problems *found = cfx_failed(p) ? NULL : cfx_program_problems(p);
    if (cfx_failed(found))
        return cli_trouble();
    if (!out->told)
        cli_say("%s", cfx_problems_str(found, out->path));
    if (found->n && !out->force)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s: '%s' is not written; --force does it all "
                 "the same", count(found), out->path);
    if (!cfx_ok() || !cfx_save_unchecked(p, out->path) || !cfx_ok())
        return cli_trouble();
    cli_wrote(out->path, p);
    if (found->n)
        cli_say("cfx: '%s' is written in spite of %s\n", out->path, count(found));
    return CLI_DONE;
}

/* Collects the names of operators that are not known here, each with its first node. */
static void find_unknown(const char *path, cfx_module *m, void *user) {
    cfx_dict *unknown = user;
    (void)path;
    if (!m->graph)
        return;
    cfx_each_node(m->graph, n) {
        if (!cfx__run_known(n) && cfx_is_none(cfx_dict_get(unknown, n->target.name)))
            cfx_dict_set(unknown, n->target.name, cfx_string_value(n->name));
    }
}

void cli_tell_unknown(const cfx_program *p, const char *path) {
    enum { MOST = 5 };
    cfx_dict *unknown = cfx_dict_new();
    cfx_module_walk(p->module, find_unknown, unknown);
    for (int64_t i = 0; i < unknown->len && i < MOST; i++) {
        const char *name = cfx_as_string(unknown->entries[i].key)->text;
        cli_say("cfx: %s: node %s: %s is not a known operator%s\n", path,
                cfx_value_str(unknown->entries[i].value), name, cfx__dispatch_hint(name));
    }
    if (unknown->len > MOST)
        cli_say("cfx: %s: and %lld more such operators; --check lists all\n", path,
                (long long)(unknown->len - MOST));
}

static void count_nodes(const char *path, cfx_module *m, void *user) {
    (void)path;
    *(int64_t *)user += m->graph ? cfx_graph_len(m->graph) : 0;
}

int cli_show_problems(const cfx_program *p, const char *path, const char *dialect) {
    int64_t nodes = 0;
    static const char *const dialects[] = {"ATEN", "TRAINING", "CORE"};
    if (dialect && !cfx_verifier_find(dialect)) {
        cli_one_of(&cli_show, "--dialect", dialect, dialects, COUNT(dialects));
        return CLI_TROUBLE;
    }
    const cfx_problems *found =
        dialect ? cfx_program_verify(p, cfx_verifier_find(dialect)) : cfx_program_problems(p);
    if (cfx_failed(found))
        return cli_trouble();
    cli_print("%s", cfx_problems_str(found, path));
    cli_answer("problems", cfx_list_value(0, NULL));
    for (int i = 0; i < found->n; i++)
        cli_answer_row("problems", cfx_dict_of("node", found->items[i].node ? found->items[i].node
                                                                            : "",
                                               "line", cfx_int(found->items[i].line), "problem",
                                               found->items[i].text));
    cfx_module_walk(p->module, count_nodes, &nodes);
    cli_print("%s: %s in %lld nodes\n", path, found->n ? count(found) : "no problems",
              (long long)nodes);
    return found->n ? CLI_DIFFERS : CLI_DONE;
}
