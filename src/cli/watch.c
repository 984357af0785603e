/* What is looked at while a program runs: tapped values printed, saved or as a table of numbers;
 * what makes NaNs (hunt.c); values out of the range that a rule gives them. Nodes of sub-graphs are
 * called by the path to them, "cond.true_graph_0.add", with the round of a loop,
 * "while_loop@2.while_loop_body_graph_0.mul". */
#include "watch.h"

#include <math.h>
#include <string.h>

#include <cfx/watch.h>

#include "../run/run.h"
#include "../run/select.h"

/* ---- rules ----------------------------------------------------------------------------------- */

bool cli_watch_rule(cli_watch *w, const char *text) {
    const char *in = strstr(text, " in ");
    cli_rule r = {.text = text};
    char close = 0;
    int end = 0;
    bool fits = in && sscanf(in, " in [ %lf , %lf %c%n", &r.low, &r.high, &close, &end) == 3 &&
                close == ']' && !in[end] && r.low <= r.high;
    if (!fits || w->nrules == CLI_TAPS) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "'%s' is not a rule: write 'SELECTOR in [LOW, HIGH]', at most %d times", text,
                 CLI_TAPS);
        return false;
    }
    r.selector = cfx__string_new(text, (size_t)(in - text))->text;
    w->rules[w->nrules++] = r;
    return true;
}

bool cli_watches(const cli_watch *w) { return w->ntaps || w->nrules || w->find_nan; }

/* ---- one value ------------------------------------------------------------------------------- */

/* A row of eight steps for a histogram; scope. */
static const char *sparkline(const cfx_stats *s) {
    static const char *const steps[] = {
        " ", "\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
        "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"};
    int64_t most = 1;
    for (int i = 0; i < CFX_STATS_BINS; i++)
        most = s->histogram[i] > most ? s->histogram[i] : most;
    cfx__text out = {0};
    for (int i = 0; i < CFX_STATS_BINS; i++)
        cfx__text_puts(&out, steps[s->histogram[i] ? 1 + s->histogram[i] * 7 / most : 0]);
    return cfx__text_take(&out);
}

/* Notes a number of a node in a column that --stats makes. */
static void note(cli_watch *w, const char *column, const char *name, cfx_value v) {
    cfx_value values = cfx_dict_get(w->columns, column);
    if (values.tag != CFX_TAG_DICT) {
        values = cfx_dict_value(cfx_dict_new());
        cfx_dict_set(w->columns, column, values);
    }
    cfx_dict_set(cfx_as_dict(values), name, v);
}

static void note_stats(cli_watch *w, const char *name, const cfx_stats *s) {
    double n = s->count ? (double)s->count : 1;
    cfx_value bins = cfx_list_value(0, NULL);
    for (int i = 0; i < CFX_STATS_BINS; i++)
        cfx_list_append(cfx_as_list(bins), cfx_int(s->histogram[i]));
    note(w, "zeros (share)", name, cfx_float((double)s->zeros / n));
    note(w, "not finite", name, cfx_int(s->nans + s->infs));
    note(w, "mean", name, cfx_float(s->mean));
    note(w, "deviation", name, cfx_float(s->deviation));
    note(w, "largest", name, cfx_float(fmax(fabs(s->min), fabs(s->max))));
    note(w, "histogram", name, bins);
}

static void print_stats(cli_watch *w, const char *name, const cfx_tensor *t) {
    cfx_stats s = {0};
    cfx_stats_add(&s, t);
    if (!w->rows++)
        cli_print("%-28s %-20s %10s %10s %10s %10s %7s %6s %6s  %s\n", "node", "result", "min",
                  "max", "mean", "deviation", "zeros", "NaN", "inf", "histogram");
    cli_print("%-28s %-20s", name, cli_brief(cfx_tensor_value(t)));
    bool any = s.count > s.nans + s.infs;
    if (any)
        cli_print(" %10.4g %10.4g %10.4g %10.4g", s.min, s.max, s.mean, s.deviation);
    else
        cli_print(" %10s %10s %10s %10s", "", "", "", "");
    cli_print(" %6.1f%% %6lld %6lld  %s\n", s.count ? 100 * (double)s.zeros / (double)s.count : 0,
              (long long)s.nans, (long long)s.infs, any ? sparkline(&s) : "");
    cfx_value row = cfx_dict_of("node", name, "result", cli_brief(cfx_tensor_value(t)));
    cli_put_stats(cfx_as_dict(row), &s);
    cli_answer_row("stats", row);
    if (!strchr(name, '[')) /* columns have one value for a node */
        note_stats(w, name, &s);
}

static void show_tap(cli_watch *w, const char *name, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR && w->saved)
        cfx_dict_set(w->saved, name, cfx_tensor_value(cfx_clone(cfx_as_tensor(v))));
    if (v.tag == CFX_TAG_TENSOR && w->stats)
        print_stats(w, name, cfx_as_tensor(v));
    else if (!w->stats && !w->saved)
        cli_print("%s: %s\n", name, cli_brief(v));
    if (v.tag == CFX_TAG_TENSOR && !w->stats && !w->saved)
        cli_lines(cfx_tensor_str(cfx_as_tensor(v)));
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            show_tap(w, cfx__text_format("%s[%lld]", name, (long long)i), cfx_as_list(v)->items[i]);
}

static bool is_tapped(const cli_watch *w, const cfx_node *n) {
    bool tapped = false;
    for (int i = 0; i < w->ntaps && !tapped; i++)
        tapped = cfx__run_picks(w->taps[i], cfx_run_path(), n);
    return tapped;
}

bool cli_watch_wants(const cli_watch *w, const cfx_node *n) {
    bool wanted = is_tapped(w, n);
    for (int i = 0; i < w->nrules && !wanted; i++)
        wanted = cfx__run_picks(w->rules[i].selector, cfx_run_path(), n);
    return wanted;
}

static void check_rules(cli_watch *w, const char *name, const cfx_node *n, cfx_value v) {
    for (int i = 0; i < w->nrules && v.tag == CFX_TAG_TENSOR; i++) {
        const cli_rule *r = &w->rules[i];
        if (!cfx__run_picks(r->selector, cfx_run_path(), n))
            continue;
        cfx_stats s = {0};
        cfx_stats_add(&s, cfx_as_tensor(v));
        bool holds = !s.count || (!s.nans && !s.infs && s.min >= r->low && s.max <= r->high);
        if (holds)
            continue;
        w->broken = true;
        cfx_value row = cfx_dict_of("node", name, "rule", r->text);
        cli_put_stats(cfx_as_dict(row), &s);
        cli_answer_row("broken", row);
        cli_print("%s is not in [%g, %g]: %s\n", name, r->low, r->high,
                  cli_stats_text(cfx_as_tensor(v)));
    }
}

/* path: that of the sub-graph which the node is in. */
static void see(cli_watch *w, const char *path, const cfx_node *n, cfx_value v,
                cli_input_fn *input, const void *user) {
    CFX_SCOPE {
        const char *name = cfx__text_format("%s%s", path, n->name);
        if (is_tapped(w, n))
            show_tap(w, name, v);
        check_rules(w, name, n, v);
        if (w->find_nan)
            cli_hunt_see(&w->hunt, path, n, v, input, user);
    }
}

/* ---- the program's own graph, and sub-graphs ------------------------------------------------- */

static cfx_value from_interp(const void *user, const cfx_node *n) {
    return cfx_interp_value((cfx_interp *)user, n);
}

void cli_watch_see(cli_watch *w, cfx_interp *it, const cfx_node *n, cfx_value v) {
    see(w, "", n, v, from_interp, it);
}

/* The whole name of a node of the sub-graph that is being run. */
static const char *name_inside(const cfx_node *n) {
    return cfx__text_format("%s%s", cfx_run_path(), n->name);
}

static cfx_value from_branch(const void *user, const cfx_node *n) {
    return cfx_dict_get(((const cli_watch *)user)->values, name_inside(n));
}

static cfx_value see_inside(cfx_event *e) {
    cli_watch *w = e->user;
    if (w->find_nan)
        cfx_dict_set(w->values, name_inside(e->node), e->out);
    see(w, cfx_run_path(), e->node, e->out, from_branch, w);
    return cfx_none();
}

/* Hooks on all graphs below that of a module. */
static void hook_graphs(cli_watch *w, cfx_module *owner) {
    for (int i = 0; i < cfx_module_count(owner); i++) {
        cfx_module *m = cfx_module_child(owner, i);
        if (!m->graph || cfx_dict_find(w->hooked, cfx_int((int64_t)(intptr_t)m)))
            continue;
        cfx_dict_put(w->hooked, cfx_int((int64_t)(intptr_t)m), cfx_none());
        cfx_node_hook(m, "*", see_inside, w);
        hook_graphs(w, m);
    }
}

bool cli_watch_start(cli_watch *w, cfx_program *p) {
    for (int i = 0; i < w->ntaps + w->nrules; i++) {
        const char *selector = i < w->ntaps ? w->taps[i] : w->rules[i - w->ntaps].selector;
        if (cfx__run_picks_any(selector, p->module))
            continue;
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0},
                 "no node of %s matches '%s'%s; 'cfx show %s --as graph' lists them", w->model,
                 selector, cfx__run_meant(p->module->graph, selector), w->model);
        return false;
    }
    w->values = cfx_dict_new();
    w->columns = cfx_dict_new();
    w->saved = w->save ? cfx_dict_new() : NULL;
    w->hooked = cfx_dict_new();
    cli_hunt_start(&w->hunt);
    hook_graphs(w, p->module);
    return cfx_ok();
}

bool cli_watch_end(cli_watch *w) {
    if (w->find_nan && cli_hunt_end(&w->hunt))
        w->broken = true;
    bool fine = !w->saved || cli_tensors_save(w->save, w->saved);
    return fine;
}
