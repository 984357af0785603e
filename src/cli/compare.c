/* cfx compare: two programs, or a program and tensors: what was added, removed and changed, and
 * with inputs how far their values are from each other, node by node. */
#include "compare.h"

#include <math.h>
#include <string.h>

#include "../graph/graph.h"

static const char help[] =
    "usage: cfx compare A B [--inputs F] [--device A,B] [--bisect] [--as table|json]\n"
    "                   [-o F.html]\n\n"
    "Compares two programs: before and after a pass, decomposed, quantized, of another dtype, two\n"
    "versions of a model. Nodes are paired by origin, by name, and by what they compute. A may\n"
    "be a file of tensors named after B's nodes, saved by PyTorch or 'cfx run --save-taps'.\n"
    "  --inputs F       runs both on these inputs and compares the values of paired nodes: the\n"
    "                   largest error, the signal-to-noise ratio in dB, and the error that each\n"
    "                   node of B makes on A's values, which shows where a difference starts\n"
    "  --image HOW      how images become tensors, as for cfx run\n"
    "  --device A,B     the device of each of the two: cpu, cuda or cuda:N; without --inputs, on\n"
    "                   the inputs saved in A, or on random ones\n"
    "  --bisect         finds the node that makes the results differ, by running B with some of\n"
    "                   its values replaced by A's\n"
    "  --as json        everything as JSON, with columns for 'cfx draw B --with'\n"
    "  -o F.html        both programs side by side, with differences and errors marked\n\n"
    "Exit: 0 equal, 1 different, 2 error.\n";

/* ---- structure ------------------------------------------------------------------------------- */

/* Nodes of one program without a partner: calls alone. */
static cfx_value alone(const cli_comparison *c, const cfx_program *p) {
    cfx_value list = cfx_list_value(0, NULL);
    if (c->pairs)
        cfx_each_node(p->module->graph, n) if (n->op == CFX_CALL_FUNCTION &&
                                               !cfx_pairs_other(c->pairs, n))
            cfx_list_append(cfx_as_list(list), cfx_node_value(n));
    return list;
}

static cfx_value changed(const cli_comparison *c) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; c->pairs && i < c->n; i++)
        if (c->rows[i].changed && c->rows[i].b->op != CFX_OUTPUT)
            cfx_list_append(cfx_as_list(list), cfx_node_value(c->rows[i].b));
    return list;
}

/* How many values inside sub-graphs are beyond their tolerance. */
static int beyond_inside(const cli_comparison *c) {
    int n = 0;
    for (int64_t i = 0; c->inside && i < c->inside->len; i++)
        n += cfx_as_bool(cfx_at(c->inside->items[i], 4));
    return n;
}

/* Whether nothing differs: structure, weights, and numbers where both ran. */
static bool is_same(const cli_comparison *c) {
    bool same = c->first < 0 && !beyond_inside(c);
    CFX_SCOPE
        same &= c->ran || (!cfx_as_list(alone(c, c->b))->len && !cfx_as_list(alone(c, c->a))->len &&
                           !cfx_as_list(changed(c))->len);
    return same;
}

/* ---- a table --------------------------------------------------------------------------------- */

enum { LISTED = 12, WORST = 10 };

static const char *op_of(const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER)
        return "input";
    return strncmp(n->target.name, "torch.ops.", 10) ? n->target.name : n->target.name + 10;
}

static void print_list(const char *what, cfx_value nodes) {
    if (!cfx_as_list(nodes)->len)
        return;
    cli_print("%-8s %lld:", what, (long long)cfx_as_list(nodes)->len);
    for (int64_t i = 0; i < cfx_as_list(nodes)->len && i < LISTED; i++) {
        const cfx_node *n = cfx_as_node(cfx_as_list(nodes)->items[i]);
        cli_print("%s %s (%s)", i ? "," : "", n->name, op_of(n));
    }
    cli_print("%s\n", cfx_as_list(nodes)->len > LISTED ? ", ..." : "");
}

static const char *decibels(double x) {
    return isinf(x) ? x > 0 ? "exact" : "all" : cfx__text_format("%.1f dB", x);
}

static const char *row_name(const cli_row *r) {
    return r->a && strcmp(r->a->name, r->b->name)
               ? cfx__text_format("%s | %s", r->a->name, r->b->name)
               : r->b->name;
}

/* The first two columns are as wide as the rows that are shown; a few long names may stand out. */
typedef struct widths {
    int name, op;
} widths;

static void widen(widths *w, const cli_row *r) {
    const int name = (int)strlen(row_name(r)), op = (int)strlen(op_of(r->b));
    w->name = name > w->name && name <= 56 ? name : w->name;
    w->op = op > w->op && op <= 48 ? op : w->op;
}

static void print_row(const cli_comparison *c, const cli_row *r, widths w) {
    cli_print("%-*s %-*s %-11.3g %-10s", w.name, row_name(r), w.op, op_of(r->b), r->all.error,
              decibels(r->all.decibels));
    if (c->pairs)
        cli_print(" %-11.3g %-10s", r->here.error, decibels(r->here.decibels));
    cli_print("%s%s\n", r->all.beyond ? " beyond" : "", r->here.beyond ? " made here" : "");
}

/* Rows beyond the tolerance in the order of the program, at most so many from each end of them. */
static void print_rows(const cli_comparison *c) {
    int beyond = 0, compared = 0, shown = 0, seen = 0;
    widths w = {20, 20};
    for (int i = 0; i < c->n; i++) {
        const bool off = c->rows[i].all.beyond || c->rows[i].here.beyond;
        beyond += off;
        compared += c->rows[i].all.known;
        if (off)
            CFX_SCOPE widen(&w, &c->rows[i]);
    }
    cli_print("%d values compared, %d beyond their tolerance\n", compared, beyond);
    if (!beyond)
        return;
    cli_print("\n%-*s %-*s %-11s %-10s", w.name, "node", w.op, "operator", "error", "signal");
    cli_print(c->pairs ? " %-11s %-10s\n" : "\n", "made here", "signal");
    for (int i = 0; i < c->n; i++) {
        const cli_row *r = &c->rows[i];
        if (!r->all.beyond && !r->here.beyond)
            continue;
        bool show = seen < WORST || seen >= beyond - WORST || i == c->made || r->here.beyond;
        if (show && shown < seen)
            cli_print("...\n");
        if (show)
            CFX_SCOPE print_row(c, r, w);
        seen++;
        shown = show ? seen : shown;
    }
}

/* Values inside sub-graphs that are beyond their tolerance, the first of them. */
static void print_inside(const cli_comparison *c) {
    int shown = 0, beyond = beyond_inside(c);
    if (!c->inside || !c->inside->len)
        return;
    cli_print("%lld values in sub-graphs compared, %d beyond their tolerance\n",
              (long long)c->inside->len, beyond);
    for (int64_t i = 0; i < c->inside->len && shown < LISTED; i++)
        CFX_SCOPE {
            cfx_value row = c->inside->items[i];
            if (!cfx_as_bool(cfx_at(row, 4)))
                continue;
            cli_print("%-61s %-11.3g %s\n", cfx_text(cfx_at(row, 0)), cfx_number(cfx_at(row, 1)),
                      decibels(cfx_number(cfx_at(row, 2))));
            shown++;
        }
    if (shown < beyond)
        cli_print("...\n");
}

static void print_added(const cli_comparison *c, const cfx_node *n) {
    cfx_value added = cli_added_before(c, n);
    for (int64_t i = 0; i < cfx_as_list(added)->len; i++)
        cli_print("%s%s (%s)", i ? ", " : ", by what was added before it: ",
                  cfx_as_node(cfx_as_list(added)->items[i])->name,
                  op_of(cfx_as_node(cfx_as_list(added)->items[i])));
    cli_print("\n");
}

static void print_comparison(const cli_comparison *c) {
    if (c->pairs) {
        cli_print("%d of %lld nodes of %s belong to one of %s\n", c->n,
                  (long long)cfx_graph_len(c->b->module->graph), c->path_b, c->path_a);
        print_list("added", alone(c, c->b));
        print_list("removed", alone(c, c->a));
        print_list("changed", changed(c));
    }
    if (c->ran)
        print_rows(c);
    print_inside(c);
    if (c->first >= 0)
        cli_print("\nthe first value beyond its tolerance is %s (%s)\n", c->rows[c->first].b->name,
                  op_of(c->rows[c->first].b));
    if (c->made >= 0) {
        cli_print("the difference is made at %s (%s)", c->rows[c->made].b->name,
                  op_of(c->rows[c->made].b));
        print_added(c, c->rows[c->made].b);
    }
    if (c->bisected) {
        cli_print("with A's value of %s (%s) the results agree", c->bisected->name,
                  op_of(c->bisected));
        print_added(c, c->bisected);
    }
    cli_print("%s\n", is_same(c) ? "same" : "differs");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Facts of b's nodes, or of a's: errors as columns; a dict, scope. */
static cfx_dict *error_columns(const cli_comparison *c, bool of_a) {
    cfx_dict *columns = cfx_dict_new();
    cfx_dict *errors = cfx_dict_new(), *signal = cfx_dict_new(), *here = cfx_dict_new();
    for (int i = 0; c->ran && i < c->n; i++) {
        const cli_row *r = &c->rows[i];
        const char *name = of_a ? r->a->name : r->b->name;
        if (!r->all.known || r->b->op == CFX_OUTPUT)
            continue;
        cfx_dict_set(errors, name, cfx_float(r->all.share));
        if (isfinite(r->all.decibels))
            cfx_dict_set(signal, name, cfx_float(r->all.decibels));
        if (r->here.known)
            cfx_dict_set(here, name, cfx_float(r->here.share));
    }
    if (c->ran) {
        cfx_dict_set(columns, "error (share)", cfx_dict_value(errors));
        cfx_dict_set(columns, "signal (dB)", cfx_dict_value(signal));
    }
    if (here->len)
        cfx_dict_set(columns, "error made here (share)", cfx_dict_value(here));
    return columns;
}

static cfx_value names_of(cfx_value nodes) {
    cfx_value names = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(nodes)->len; i++)
        cfx_list_append(cfx_as_list(names),
                        cfx_string_value(cfx_as_node(cfx_as_list(nodes)->items[i])->name));
    return names;
}

static cfx_value name_of(const cfx_node *n) {
    return n ? cfx_string_value(n->name) : cfx_none();
}

static cfx_value row_value(const cli_row *r) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", name_of(r->a));
    cfx_dict_set(d, "b", cfx_string_value(r->b->name));
    cfx_dict_set(d, "changed", cfx_bool(r->changed));
    const cli_error *errors[] = {&r->all, &r->here};
    for (int k = 0; k < 2; k++) {
        cfx_dict_set(d, k ? "here" : "all", cfx_none());
        if (!errors[k]->known)
            continue;
        cfx_dict *e = cfx_dict_new();
        cfx_dict_set(e, "error", cli_fact(errors[k]->error));
        cfx_dict_set(e, "share", cli_fact(errors[k]->share));
        cfx_dict_set(e, "decibels", cli_fact(errors[k]->decibels));
        cfx_dict_set(e, "beyond", cfx_bool(errors[k]->beyond));
        cfx_dict_set(d, k ? "here" : "all", cfx_dict_value(e));
    }
    return cfx_dict_value(d);
}

static cfx_value inside_rows(const cli_comparison *c) {
    static const char *const keys[] = {"b", "error", "decibels", "share", "beyond"};
    cfx_value rows = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < c->inside->len; i++) {
        cfx_dict *d = cfx_dict_new();
        for (int k = 0; k < COUNT(keys); k++) {
            cfx_value v = cfx_at(c->inside->items[i], k);
            cfx_dict_set(d, keys[k], v.tag == CFX_TAG_FLOAT ? cli_fact(cfx_number(v)) : v);
        }
        cfx_list_append(cfx_as_list(rows), cfx_dict_value(d));
    }
    return rows;
}

static void answer_comparison(const cli_comparison *c) {
    cfx_value rows = cfx_list_value(0, NULL);
    for (int i = 0; i < c->n; i++)
        cfx_list_append(cfx_as_list(rows), row_value(&c->rows[i]));
    cli_answer("same", cfx_bool(is_same(c)));
    cli_answer("added", names_of(alone(c, c->b)));
    cli_answer("removed", names_of(c->a ? alone(c, c->a) : cfx_list_value(0, NULL)));
    cli_answer("changed", names_of(changed(c)));
    cli_answer("first", name_of(c->first < 0 ? NULL : c->rows[c->first].b));
    cli_answer("made", name_of(c->made < 0 ? NULL : c->rows[c->made].b));
    cli_answer("bisected", name_of(c->bisected));
    cli_answer("nodes", rows);
    if (c->inside)
        cli_answer("inside", inside_rows(c));
    cli_answer("columns", cfx_dict_value(error_columns(c, false)));
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct {
    const char *a, *b, *inputs, *device, *form, *page;
    bool bisect;
} options;

static bool compare(cli_comparison *c, const options *o) {
    c->b = cfx_open(o->b);
    if (!cfx_ok())
        return false;
    if (cfx_tensors_are_in(o->a))
        return cli_compare_tensors(c, o->inputs, o->a);
    c->a = cfx_open(o->a);
    c->pairs = cfx_program_pair(c->a, c->b);
    if (cfx_failed(c->pairs))
        return false;
    c->n = c->pairs->n;
    c->rows = cfx__alloc0((size_t)(c->n + 1) * sizeof *c->rows);
    for (int i = 0; i < c->n; i++)
        c->rows[i] = (cli_row){.a = c->pairs->pairs[i].a,
                               .b = c->pairs->pairs[i].b,
                               .changed = c->pairs->pairs[i].changed};
    return (!o->inputs && !o->device) || cli_compare_runs(c, o->inputs, o->bisect);
}

/* Both programs side by side, with what was found as columns. */
static bool draw(const cli_comparison *c, const char *path) {
    cfx_draw_options o = {
        .pairs = c->pairs, .columns = error_columns(c, true), .columns_b = error_columns(c, false)};
    return cfx_program_draw_file(c->a, path, o);
}

static int finish(const cli_comparison *c, const options *o) {
    if (o->page && !draw(c, o->page))
        return cli_trouble();
    answer_comparison(c);
    print_comparison(c);
    return cfx_ok() ? is_same(c) ? CLI_DONE : CLI_DIFFERS : cli_trouble();
}

/* "cpu,cuda": where each of the two runs; one device is for both. */
static bool find_devices(cli_words *w, const char *device, cli_comparison *c) {
    const char *comma = strchr(device, ',');
    const char *first =
        comma ? cfx__text_format("%.*s", (int)(comma - device), device) : device;
    return cli_executor_of(w, first, &c->on[0]) &&
           cli_executor_of(w, comma ? comma + 1 : device, &c->on[1]);
}

static int run(int argc, char **argv) {
    options o = {0};
    cli_words w = {argc, argv, .command = &cli_compare};
    while (cli_more(&w))
        if (!cli_tensors(&w, "--inputs", &o.inputs) && !cli_image(&w) &&
            !cli_value(&w, "--as", &o.form) && !cli_value(&w, "--device", &o.device) &&
            !cli_value(&w, "-o", &o.page) && !cli_flag(&w, "--bisect", &o.bisect))
            cli_rest(&w, o.a ? &o.b : &o.a);
    if (w.wrong)
        return CLI_TROUBLE;
    if (!o.b)
        return cli_usage(&cli_compare, "which two programs?");
    static const char *const as[] = {"table", "json"};
    const int form = o.form ? cli_one_of(&cli_compare, "--as", o.form, as, COUNT(as)) : 0;
    if (form < 0)
        return CLI_TROUBLE;
    if (form)
        cli_answer_as_json();
    size_t len = o.page ? strlen(o.page) : 0;
    if (o.page && (len < 5 || strcmp(o.page + len - 5, ".html") || cfx_tensors_are_in(o.a)))
        return cli_usage(&cli_compare, "-o F.html is for two programs");
    if (o.bisect && (!o.inputs || cfx_tensors_are_in(o.a)))
        return cli_usage(&cli_compare, "--bisect needs two programs and --inputs");
    cfx_set_grad_mode(CFX_INFERENCE);
    cli_comparison c = {.path_a = o.a, .path_b = o.b, .first = -1, .made = -1};
    if (o.device && !find_devices(&w, o.device, &c))
        return CLI_TROUBLE;
    int code = compare(&c, &o) ? finish(&c, &o) : cli_trouble();
    cfx__free(c.rows);
    return code;
}

const cli_command cli_compare = {"compare", run, "compare two programs, node by node", help};
