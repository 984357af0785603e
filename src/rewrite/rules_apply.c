/* Applies rules to a graph in sweeps over its nodes, first to last, until a sweep changes
 * nothing. A node is compared only with rules whose root is its function; nodes inserted by a
 * rule are visited later in the same sweep. Start at apply. */
#include "pass.h"
#include "rules.h"

/* What is known of all nodes of one target. */
typedef struct row_rules {
    bool known;
    uint64_t key;
    int first, n; /* entries of the index */
} row_rules;

/* A node that took the place of another, and what it has to compute. */
typedef struct expected {
    cfx_node *node;
    const cfx__rule *rule;
    cfx_value val; /* counted */
} expected;

typedef struct applying {
    const cfx_rules *rules;
    cfx_program *program; /* or NULL */
    cfx_module *module;
    cfx_graph *graph;
    cfx__alias alias;
    VEC(row_rules) rows;  /* by the row's number */
    cfx__matcher *matchers; /* one for each rule */
    int *counts;          /* how often each rule was applied */
    int limit;            /* how often one may be */
    bool unsorted;
    VEC(expected) expected;
} applying;

/* ---- at a glance ----------------------------------------------------------------------------- */

static const row_rules *row_of(applying *a, const cfx_node *n) {
    const cfx__target_row *row = cfx__node_of(n)->row;
    while (a->rows.len <= row->id)
        VEC_PUSH(a->rows, ((row_rules){0}));
    row_rules *r = &a->rows.data[row->id];
    if (!r->known) {
        r->known = true;
        r->key = cfx__target_key(n->op, n->target);
        cfx__rules_for(a->rules, r->key, &r->first, &r->n);
    }
    return r;
}

static uint64_t key_of_argument(applying *a, const cfx_node *n, int i) {
    cfx_value v = i < cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[i] : cfx_none();
    return v.tag == CFX_TAG_NODE && cfx_as_node(v)->graph == a->graph
               ? row_of(a, cfx_as_node(v))->key
               : 1;
}

/* Whether the first arguments of n are calls of what the rule wants there. Keywords are left to the
 * search. */
static bool may_fit(const cfx__rule *r, const uint64_t *have, const cfx_node *n) {
    if (cfx_as_dict(n->kwargs)->len)
        return true;
    bool straight = !r->argument[0] || r->argument[0] == have[0];
    if (!r->commutes)
        return straight;
    straight &= !r->argument[1] || r->argument[1] == have[1];
    return straight || ((!r->argument[0] || r->argument[0] == have[1]) &&
                        (!r->argument[1] || r->argument[1] == have[0]));
}

/* ---- one place ------------------------------------------------------------------------------- */

/* Whether something of the match is written to somewhere: the order of reads and writes counts
 * then. */
static bool is_disturbed(const applying *a, const cfx__rule *r, const cfx__matcher *m) {
    if (r->writes)
        return false;
    for (size_t i = 0; i < m->trail.len; i++) {
        cfx_value v = *cfx__match_slot(m->table, m->trail.data[i]);
        if (v.tag == CFX_TAG_NODE && cfx__alias_written(&a->alias, cfx_as_node(v)))
            return true;
    }
    return false;
}

static bool conditions_hold(const applying *a, const cfx__rule *r, const cfx__matcher *m) {
    for (int i = 0; i < r->nconditions; i++)
        if (!cfx__condition_holds(r->conditions[i], r->pattern, m->table, a->program))
            return false;
    return true;
}

/* The match as functions in C see it; scope. */
static cfx_found found_of(const cfx__rule *r, const cfx__matcher *m) {
    cfx_found f = {cfx_as_node(*cfx__match_slot(m->table, r->pattern->anchors[0].node)),
                   cfx_dict_new(), cfx_list_value(0, NULL)};
    cfx_each_node(r->pattern->graph, n) if (n->op != CFX_OUTPUT)
        cfx_dict_put(f.nodes, cfx_node_value(n), *cfx__match_slot(m->table, n));
    return f;
}

/* A result made in C. */
typedef struct making {
    const cfx_rule *row;
    cfx_found found;
    cfx_graph *graph;
    bool declined;
} making;

static cfx_value make(void *user) {
    making *m = user;
    cfx_value v = m->row->then(&m->found, m->graph, m->row->user);
    m->declined = cfx_is_none(v);
    return v;
}

static void expect(applying *a, const cfx__rule *r, const cfx__splice *s, const cfx_value *vals) {
    for (int i = 0; i < r->pattern->nreturned; i++) {
        cfx_node *n = cfx_as_node(cfx_as_list(s->results)->items[i]);
        bool made = cfx_is_none(cfx_node_get_meta(n, "val"));
        if (cfx_is_none(vals[i]))
            continue;
        if (made)
            cfx_node_set_meta(n, "val", vals[i]);
        expected e = {n, r, cfx_value_keep(vals[i])};
        VEC_PUSH(a->expected, e);
    }
}

/* A node that was matched is one that new nodes come from. */
static void add_matched(cfx_dict *from, const cfx_node *n) {
    cfx_list_append(cfx_as_list(cfx_dict_get(from, "nodes")), cfx_string_value(n->name));
    cfx__source_add(from, n->name, cfx_node_get_meta(n, "from_node"));
}

/* New nodes tell which rule made them of which nodes. */
static void note_source(const cfx__splice *s, cfx_dict *from) {
    for (int64_t i = 0; i < cfx_as_list(s->made)->len; i++)
        cfx_node_set_meta(cfx_as_node(cfx_as_list(s->made)->items[i]), "from_node",
                          cfx_dict_value(from));
}

static cfx_value val_of(cfx_node *n, void *user) {
    cfx_value val = cfx_node_get_meta(n, "val");
    *(bool *)user &= val.tag == CFX_TAG_TENSOR;
    return cfx_value_keep(val);
}

/* What a call computes of what its arguments are, where these are tensors of known sizes; scope.
 * None: that is not known. */
static cfx_value computed(const cfx_node *n) {
    cfx_value bound[CFX_MAX_ARGS];
    cfx_op *op = cfx__call_aten(n, bound);
    int count = op ? cfx__op_info_of(op)->schema->nargs : 0;
    bool known = op != NULL;
    for (int i = 0; i < count; i++)
        bound[i] = cfx__value_scope_own(cfx__node_map(bound[i], val_of, &known));
    cfx_value out = known ? cfx_op_do_from((cfx_site){0}, op, (cfx_args){count, bound, NULL})
                          : cfx_none();
    return cfx_ok() ? out : cfx_bad();
}

/* Results of new nodes inside of a replacement, which later rules ask for. A program's are
 * inferred, with the sizes that vary. */
static void note_results(const cfx__splice *s) {
    for (int64_t i = 0; i < cfx_as_list(s->made)->len && cfx_ok(); i++) {
        cfx_node *n = cfx_as_node(cfx_as_list(s->made)->items[i]);
        cfx_value val = cfx_is_none(cfx_node_get_meta(n, "val")) ? computed(n) : cfx_none();
        if (val.tag == CFX_TAG_TENSOR)
            cfx_node_set_meta(n, "val", val);
    }
}

static bool splice(applying *a, const cfx__rule *r, cfx__matcher *m) {
    cfx_value inputs = cfx_list_value(0, NULL);
    cfx_dict *from = cfx_dict_new();
    cfx_dict_set(from, "pass", cfx_string_value(r->name));
    cfx_dict_set(from, "nodes", cfx_list_value(0, NULL));
    cfx_value *vals = cfx__alloc0((size_t)r->pattern->nreturned * sizeof *vals);
    making c = {.row = r->row, .graph = a->graph};
    cfx__splice s = {.graph = a->graph, .pattern = r->pattern, .table = m->table,
                     .replacement = r->result, .text = &r->text};
    if (r->result) {
        cfx_each_node(r->result, n) if (n->op == CFX_PLACEHOLDER) {
            const cfx_node *of = cfx__pattern_named(r->pattern->graph, n->target.name);
            cfx_list_append(cfx_as_list(inputs), m->table[cfx__node_of(of)->id]);
        }
    } else {
        c.found = found_of(r, m);
        s.build = make;
        s.user = &c;
    }
    s.inputs = cfx_as_list(inputs)->items;
    s.ninputs = (int)cfx_as_list(inputs)->len;
    for (int i = 0; i < r->pattern->nreturned; i++)
        vals[i] = cfx_value_keep(cfx_node_get_meta(
            cfx_as_node(*cfx__match_slot(m->table, r->pattern->returned[i])), "val"));
    for (int i = 0; i < r->pattern->ncalls; i++)
        add_matched(from, cfx_as_node(*cfx__match_slot(m->table, r->pattern->calls[i])));
    bool done = cfx__splice_do(&s, NULL);
    if (done) {
        note_source(&s, from);
        expect(a, r, &s, vals);
        if (!a->program)
            note_results(&s);
        a->unsorted |= s.unsorted;
    } else if (c.declined) {
        cfx__error_forgive();
    }
    for (int i = 0; i < r->pattern->nreturned; i++)
        cfx_value_drop(vals[i]);
    cfx__free(vals);
    return done;
}

static bool try_rule(applying *a, int number, cfx_node *n) {
    const cfx__rule *r = &a->rules->rules.data[number];
    cfx__matcher *m = &a->matchers[number];
    if (!cfx__match_at(m, n) || is_disturbed(a, r, m) || !conditions_hold(a, r, m))
        return false;
    if (r->row && r->row->when) {
        cfx_found f = found_of(r, m);
        if (!r->row->when(&f, r->row->user))
            return false;
    }
    const char *name = n->name;
    if (!splice(a, r, m))
        return false;
    if (++a->counts[number] > a->limit)
        cfx__rule_fail(&r->text, "it never stops: it was applied %d times, last at node %s",
                       a->counts[number], name);
    return true;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Applies the first rule that fits at n; whether one did. */
static bool visit(applying *a, cfx_node *n) {
    row_rules row = *row_of(a, n);
    if (!row.n)
        return false;
    uint64_t have[2] = {key_of_argument(a, n, 0), key_of_argument(a, n, 1)};
    for (int i = 0; i < row.n; i++) {
        int number = a->rules->index.data[row.first + i].rule;
        if (!may_fit(&a->rules->rules.data[number], have, n))
            continue;
        size_t mark = cfx_scope_open();
        bool done = try_rule(a, number, n);
        cfx_scope_close(mark);
        if (done || !cfx_ok())
            return done;
    }
    return false;
}

/* Whether what is noted of a node is what was noted of the one it replaced: strides aside. */
static bool same_result(const cfx_result *a, const cfx_result *b) {
    bool same = a->kind == b->kind;
    if (same && a->kind == CFX_RESULT_TENSOR) {
        same = a->dtype == b->dtype && a->ndim == b->ndim;
        for (int i = 0; same && i < a->ndim; i++)
            same = cfx_equal_values(cfx_result_size(a, i), cfx_result_size(b, i));
    }
    return same;
}

static const cfx__rule *rule_named(const applying *a, const char *name) {
    for (size_t i = 0; name && i < a->rules->rules.len; i++)
        if (!strcmp(a->rules->rules.data[i].name, name))
            return &a->rules->rules.data[i];
    return NULL;
}

/* What a new node computes could not be inferred: the first one that is left, and its rule. */
static void tell_failure(const applying *a) {
    cfx_each_node(a->graph, n) {
        cfx_value from = cfx_node_get_meta(n, "from_node");
        if (!cfx__node_of(n)->stale || from.tag != CFX_TAG_DICT)
            continue;
        const cfx__rule *r = rule_named(a, cfx_text(cfx_dict_get(cfx_as_dict(from), "pass")));
        const char *why = cfx__text_format("%s", cfx_error_last()->message);
        if (r && cfx__error_forgive()) {
            cfx__rule_fail(&r->text, "node %s: %s", n->name, why);
        }
        return;
    }
}

/* Infers what new nodes compute, and compares. */
static bool check_results(applying *a) {
    for (size_t i = 0; i < a->expected.len; i++) /* what is noted so far is what is wanted */
        cfx__node_of(a->expected.data[i].node)->stale = true;
    if (a->program && cfx_ok() && !cfx_program_infer(a->program))
        tell_failure(a);
    for (size_t i = 0; i < a->expected.len; i++) {
        expected *e = &a->expected.data[i];
        cfx_result now = cfx_node_result(e->node), want = cfx_result_of(e->val);
        if (cfx_ok() && a->program && !e->node->erased && !same_result(&now, &want))
            cfx__rule_fail(&e->rule->text, "node %s computes %s, where %s was", e->node->name,
                           cfx_result_text(&now), cfx_result_text(&want));
        cfx_value_drop(e->val);
    }
    a->expected.len = 0;
    return cfx_ok();
}

static int sweep(applying *a) {
    int done = 0;
    cfx__alias_open(&a->alias, a->graph);
    for (cfx_node *n = cfx_graph_first(a->graph); n && cfx_ok(); n = cfx_node_after(n))
        if (n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT && visit(a, n))
            done++;
    cfx__alias_close(&a->alias);
    size_t mark = cfx_scope_open();
    if (a->unsorted && cfx_ok())
        cfx_graph_sort(a->graph);
    a->unsorted = false;
    check_results(a);
    cfx_scope_close(mark);
    return done;
}

static int apply(const cfx_rules *rules, cfx_module *gm, cfx_program *program, int *counts) {
    size_t n = rules->rules.len;
    applying a = {.rules = rules, .program = program, .module = gm, .graph = gm->graph};
    a.matchers = cfx__alloc(n * sizeof *a.matchers);
    a.counts = counts ? counts : cfx__alloc(n * sizeof *a.counts);
    memset(a.counts, 0, n * sizeof *a.counts);
    a.limit = 1000 + 10 * (int)cfx_graph_len(gm->graph);
    for (size_t i = 0; i < n; i++)
        cfx__matcher_open(&a.matchers[i], rules->rules.data[i].pattern, gm->graph);
    int done = 0;
    for (int now = 1; now && cfx_ok(); done += now)
        now = sweep(&a);
    for (size_t i = 0; i < n; i++)
        cfx__matcher_close(&a.matchers[i]);
    VEC_FREE(a.rows);
    VEC_FREE(a.expected);
    cfx__free(a.matchers);
    if (!counts)
        cfx__free(a.counts);
    return cfx_ok() ? done : -1;
}

static bool rules_given(const cfx_rules *r) {
    if (cfx_failed(r))
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the rules are %s", r ? "bad" : "NULL");
    return cfx_ok();
}

int cfx_rules_apply(const cfx_rules *r, cfx_module *gm) {
    if (!rules_given(r))
        return -1;
    if (gm && gm->graph)
        return apply(r, gm, NULL, NULL);
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "rules are applied to a GraphModule, not to %s",
             gm ? gm->type : "NULL");
    return -1;
}

int cfx__rewrite_counted(cfx_program *p, const cfx_rules *r, int *counts) {
    bool given = cfx__program_given((cfx_site){0}, p) && rules_given(r);
    return given ? apply(r, p->module, p, counts) : -1;
}

int cfx_rewrite_in_place(cfx_program *p, const cfx_rules *r) {
    return cfx__rewrite_counted(p, r, NULL);
}

cfx_program *cfx_rewrite(const cfx_program *p, const cfx_rules *r, int *changes) {
    if (!cfx__program_given((cfx_site){0}, p) || !rules_given(r))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    cfx_program *copy = cfx_program_copy(p);
    int n = cfx_rewrite_in_place(copy, r);
    if (changes)
        *changes = n;
    return cfx_scope_return(mark, n < 0 ? &cfx__program_bad : copy);
}
