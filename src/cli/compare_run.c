/* Two programs run on the same inputs, node against node: how far they are from each other as they
 * run, what each node of the second makes of the first one's values, and by bisection which node
 * makes the results differ. */
#include "compare.h"

#include <math.h>
#include <string.h>

#include "../run/run.h"

typedef struct runner {
    cli_comparison *c;
    cfx_value *values;     /* by id of a's nodes: copies, counted */
    int *row;              /* by id of b's nodes: its row, or -1 */
    const cfx_dict *given; /* tensors by node name, where there is no program a */
    bool local;            /* b goes on with a's values */
    int64_t done, all;     /* nodes run, of all to be run */
    double start, told;    /* seconds: of the first, of when progress was shown last */
} runner;

/* ---- values ---------------------------------------------------------------------------------- */

cfx_value cli_copy_of(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v)->data ? cfx_tensor_value(cfx_clone(cfx_as_tensor(v))) : v;
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cli_copy_of(cfx_as_list(v)->items[i]));
    return out;
}

void cli_add_error(cli_error *e, cfx_value got, cfx_value want) {
    bool lists = (got.tag == CFX_TAG_LIST || got.tag == CFX_TAG_TUPLE) && got.tag == want.tag;
    for (int64_t i = 0; lists && i < cfx_as_list(got)->len && i < cfx_as_list(want)->len; i++)
        cli_add_error(e, cfx_as_list(got)->items[i], cfx_as_list(want)->items[i]);
    cli_difference d;
    if (got.tag != CFX_TAG_TENSOR || want.tag != CFX_TAG_TENSOR ||
        !cli_differ(cfx_as_tensor(got), cfx_as_tensor(want), &d))
        return;
    double db = cli_decibels(&d),
           allowed = fmax(cli_tolerance((cfx_dtype)cfx_as_tensor(got)->dtype),
                          cli_tolerance((cfx_dtype)cfx_as_tensor(want)->dtype));
    e->beyond |= d.error > allowed * d.scale;
    e->error = e->known ? fmax(e->error, d.error) : d.error;
    e->share = e->known ? fmax(e->share, d.error / d.scale) : d.error / d.scale;
    e->decibels = e->known ? fmin(e->decibels, db) : db;
    e->known = true;
}

/* a's value in the form that b's has: of its dtype; b's own where it does not fit. Scope. */
static cfx_value in_place_of(cfx_value v, cfx_value with) {
    if (v.tag == CFX_TAG_TENSOR && with.tag == CFX_TAG_TENSOR && cfx_as_tensor(with)->data &&
        cfx__tensor_same_shape(cfx_as_tensor(v), cfx_as_tensor(with))) {
        cfx_tensor *t = cfx_clone(cfx_as_tensor(with));
        return cfx_tensor_value(t->dtype == cfx_as_tensor(v)->dtype
                                    ? t
                                    : cfx__tensor_to_dtype(t, (cfx_dtype)cfx_as_tensor(v)->dtype));
    }
    bool lists = (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && v.tag == with.tag &&
                 cfx_as_list(v)->len == cfx_as_list(with)->len;
    if (!lists)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out),
                        in_place_of(cfx_as_list(v)->items[i], cfx_as_list(with)->items[i]));
    return out;
}

/* ---- runs ------------------------------------------------------------------------------------ */

cfx_value cli_compare_run(cfx_program *p, cfx_value inputs, cfx_interp it) {
    it.module = p->module;
    cfx_manual_seed(0); /* what is drawn is the same in all runs */
    cfx_value copies = cli_copy_of(inputs); /* a program may write to its inputs */
    return cfx_run_from(
        (cfx_site){0}, &it,
        (cfx_args){(int)cfx_as_list(copies)->len, cfx_as_list(copies)->items, NULL});
}

static double now(void) { return (double)cfx__clock_ns() * 1e-9; }

/* From the first second on, ten times a second. */
static void tell(runner *r, const cfx_node *n) {
    double at = now();
    r->start = r->done++ ? r->start : at;
    if (at - r->start < 1 || at - r->told < 0.1)
        return;
    r->told = at;
    cli_progress(n->name, r->done, r->all);
}

static void keep(runner *r, const cfx_node *n, cfx_value v) {
    tell(r, n);
    if (cfx_ok() && cfx_pairs_other(r->c->pairs, n))
        CFX_SCOPE {
            cfx_value_drop(r->values[cfx__node_of(n)->id]);
            r->values[cfx__node_of(n)->id] = cfx_value_keep(cli_copy_of(v));
        }
}

static cfx_value keep_value(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    keep(it->user, n, v);
    return v;
}

static cfx_value keep_seen(cfx_watcher *w, cfx_node *n, cfx_value v) {
    keep(w->user, n, v);
    return cfx_none();
}

static cfx_value wanted(const runner *r, const cli_row *row) {
    return r->given ? cfx_dict_get(r->given, row->b->name)
                    : r->values[cfx__node_of(row->a)->id];
}

/* Whether another value may stand in the place of a node's: a view must stay one, and a write must
 * be seen in what it writes to. */
static bool takes_values(const cfx_node *n) {
    return n->op != CFX_OUTPUT && !cfx__node_aliased(n);
}

/* Whether a node's numbers mean something: memory that was only asked for holds anything. */
static bool has_meaning(const cfx_node *n) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    return !op || !cfx__text_glob("*empty*", cfx__op_info_of(op)->schema->name);
}

/* Holds a value of b against a's; what b goes on with. */
static cfx_value compared(runner *r, const cfx_node *n, cfx_value v) {
    tell(r, n);
    int k = r->row[cfx__node_of(n)->id];
    if (!cfx_ok() || k < 0)
        return v;
    cli_row *row = &r->c->rows[k];
    cfx_value want = wanted(r, row);
    if (has_meaning(n))
        cli_add_error(r->local ? &row->here : &row->all, v, want);
    return r->local && takes_values(n) ? in_place_of(v, want) : v;
}

static cfx_value compare_value(cfx_interp *it, cfx_node *n) {
    return compared(it->user, n, cfx_interp_run_node(it, n));
}

static cfx_value compare_seen(cfx_watcher *w, cfx_node *n, cfx_value v) {
    cfx_value other = compared(w->user, n, v);
    bool same = other.tag == v.tag && v.tag == CFX_TAG_TENSOR &&
                cfx_as_tensor(other) == cfx_as_tensor(v);
    return same || v.tag != CFX_TAG_TENSOR ? cfx_none() : other;
}

/* A run of one of the two, by the interpreter or on a card. */
static cfx_value run_side(runner *r, int side, cfx_value inputs) {
    const cfx_executor *x = r->c->on[side];
    cfx_program *p = side ? r->c->b : r->c->a;
    if (!x)
        return cli_compare_run(
            p, inputs, (cfx_interp){.run_node = side ? compare_value : keep_value, .user = r});
    cfx_watcher w = {.see = side ? compare_seen : keep_seen, .user = r};
    cfx_manual_seed(0);
    return cfx__program_execute((cfx_site){0}, p, x, &w, cli_copy_of(inputs));
}

/* ---- bisection ------------------------------------------------------------------------------- */

/* b's inputs with a's values for those whose row is before `k`; scope. */
static cfx_value mix_inputs(const runner *r, cfx_value inputs, int k) {
    cfx_value mixed = cfx_tuple_value(0, NULL);
    const cfx_graph *g = r->c->b->module->graph;
    int64_t i = 0;
    cfx_each_node(g, n) {
        if (n->op != CFX_PLACEHOLDER || i >= cfx_as_list(inputs)->len)
            continue;
        int row = r->row[cfx__node_of(n)->id];
        bool other = row >= 0 && row < k;
        cfx_list_append(cfx_as_list(mixed), other ? r->values[cfx__node_of(r->c->rows[row].a)->id]
                                          : cfx_as_list(inputs)->items[i]);
        i++;
    }
    return mixed;
}

/* Whether b's results are those of a when all rows before `k` have a's values. */
static bool same_results(runner *r, cfx_value inputs, int k, cfx_value want) {
    bool same = false;
    CFX_SCOPE {
        cfx_dict *given = cfx_dict_new();
        for (int i = 0; i < k; i++) {
            const cli_row *row = &r->c->rows[i];
            if (row->b->op != CFX_PLACEHOLDER && takes_values(row->b))
                cfx_dict_set(given, row->b->name, cli_copy_of(r->values[cfx__node_of(row->a)->id]));
        }
        cfx_value mixed = mix_inputs(r, inputs, k);
        cfx_value got = cli_compare_run(r->c->b, mixed, (cfx_interp){.given = given});
        cli_error e = {0};
        cli_add_error(&e, got, want);
        same = cfx_ok() && !e.beyond;
    }
    return same;
}

/* The node of b whose own value must be replaced for the results to agree. */
static void bisect(runner *r, cfx_value inputs, cfx_value want) {
    int low = 0, high = r->c->n; /* differs with low, agrees with high */
    if (same_results(r, inputs, low, want) || !same_results(r, inputs, high, want))
        return;
    while (high - low > 1 && cfx_ok()) {
        int middle = low + (high - low) / 2;
        if (same_results(r, inputs, middle, want))
            high = middle;
        else
            low = middle;
    }
    r->c->bisected = r->c->rows[high - 1].b;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void number_rows(runner *r) {
    size_t made = r->c->b->module->graph->made.len + 1;
    r->row = cfx__alloc(made * sizeof *r->row);
    for (size_t i = 0; i < made; i++)
        r->row[i] = -1;
    for (int i = 0; i < r->c->n; i++)
        r->row[cfx__node_of(r->c->rows[i].b)->id] = i;
}

static void find_worst(cli_comparison *c) {
    double worst = 0;
    for (int i = 0; i < c->n; i++) {
        const cli_row *row = &c->rows[i];
        if (row->all.beyond && c->first < 0)
            c->first = i;
        bool last = row->b->op == CFX_OUTPUT; /* it has what others made, unless these are added */
        if (row->here.beyond && (last ? c->made < 0 : row->here.share > worst)) {
            worst = row->here.share;
            c->made = i;
        }
    }
}

/* The inputs of a program from a file, or those that a has of its own: the error says which of the
 * two they do not fit. */
static cfx_value inputs_of(cfx_program *p, const char *model, const char *path,
                           const cfx_value *own) {
    cfx_value v = !p ? cfx_bad() : own ? cli_call_inputs(p, *own) : cli_inputs(p, path);
    if (cfx_is_bad(v))
        cfx_error_note("The inputs do not match %s", model);
    return v;
}

bool cli_compare_runs(cli_comparison *c, const char *inputs, bool with_bisect) {
    const cfx_value made = inputs || !c->a ? cfx_none() : cli_own_leaves(c->a, false);
    const cfx_value *own = inputs ? NULL : &made;
    cfx_value in_a = cfx_is_bad(made) ? made : inputs_of(c->a, c->path_a, inputs, own);
    cfx_value in_b = cfx_is_bad(in_a) ? in_a : inputs_of(c->b, c->path_b, inputs, own);
    if (cfx_is_bad(in_b))
        return false;
    size_t ids = c->a->module->graph->made.len + 1;
    runner r = {.c = c, .values = cfx__alloc0(ids * sizeof *r.values)};
    number_rows(&r);
    r.all = cfx_graph_len(c->a->module->graph) + 2 * cfx_graph_len(c->b->module->graph);
    cfx_value want = run_side(&r, 0, in_a);
    for (int k = 0; k < 2 && cfx_ok(); k++) {
        r.local = k;
        run_side(&r, 1, in_b);
    }
    c->ran = cfx_ok();
    if (cfx_ok() && !c->on[0] && !c->on[1])
        cli_compare_inside(c, in_a, in_b);
    if (with_bisect && cfx_ok())
        bisect(&r, in_b, want);
    find_worst(c);
    if (r.told > 0)
        cli_progress_end();
    for (size_t i = 0; i < ids; i++)
        cfx_value_drop(r.values[i]);
    cfx__free(r.values);
    cfx__free(r.row);
    return cfx_ok();
}

bool cli_compare_tensors(cli_comparison *c, const char *inputs, const char *tensors) {
    runner r = {.c = c, .given = cfx_tensors_read(tensors)};
    if (!cfx_ok())
        return false;
    c->rows = cfx__alloc0((size_t)(cfx_graph_len(c->b->module->graph) + 1) * sizeof *c->rows);
    cfx_each_node(c->b->module->graph, n) if (!cfx_is_none(cfx_dict_get(r.given, n->name)))
        c->rows[c->n++] = (cli_row){.b = n};
    if (!c->n)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "no tensor of %s has the name of a node of %s",
                 tensors, c->path_b);
    cfx_value in = cfx_ok() ? inputs_of(c->b, c->path_b, inputs, NULL) : cfx_bad();
    if (cfx_is_bad(in))
        return false;
    number_rows(&r);
    r.all = cfx_graph_len(c->b->module->graph);
    cli_compare_run(c->b, in, (cfx_interp){.run_node = compare_value, .user = &r});
    c->ran = cfx_ok();
    find_worst(c);
    if (r.told > 0)
        cli_progress_end();
    cfx__free(r.row);
    return cfx_ok();
}

cfx_value cli_added_before(const cli_comparison *c, const cfx_node *n) {
    cfx_value found = cfx_list_value(0, NULL);
    cfx_each_input(n, u) {
        if (!c->pairs || cfx_pairs_other(c->pairs, u->node) || u->node->op != CFX_CALL_FUNCTION ||
            cfx_as_list(found)->len > 8)
            continue;
        cfx_list_append(cfx_as_list(found), cfx_node_value(u->node));
        cfx_value further = cli_added_before(c, u->node);
        for (int64_t i = 0; i < cfx_as_list(further)->len; i++)
            cfx_list_append(cfx_as_list(found), cfx_as_list(further)->items[i]);
    }
    return found;
}
