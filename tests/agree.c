/* The oracle for random programs: see programs.h. One program is run eagerly, call by call; then as
 * an exported program by the interpreter, by plans, after each change. All agree. Start at
 * programs_check. */
#include "programs.h"

#include <cfx/ops.h>

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/dispatch.h"

/* What a run gave, or why it gave nothing. */
typedef struct {
    bool ran;
    char why[256];
    cfx_node *refused; /* eager runs: the node that did */
    cfx_list *leaves; /* copies: results, then inputs and state as they are afterwards */
    cfx_dict *taps;   /* copies of the values of nodes by name; NULL: not asked for */
} outcome;

typedef struct {
    const random_program *drawn;
    program_finding found;
    program_counts *counts;
    outcome first; /* the eager run */
} subject;

static void found(subject *s, const char *fmt, ...) CFX_PRINTF(2, 3);

static void found(subject *s, const char *fmt, ...) {
    va_list ap;
    if (s->found.any)
        return;
    s->found.any = true;
    va_start(ap, fmt);
    vsnprintf(s->found.text, sizeof s->found.text, fmt, ap);
    va_end(ap);
}

/* ---- eager ----------------------------------------------------------------------------------- */

static cfx_value copied(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v;
}

static cfx_value copies(cfx_value list) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++)
        cfx_list_append(cfx_as_list(out), copied(cfx_as_list(list)->items[i]));
    return out;
}

static cfx_value as_tuple(cfx_value list) {
    return cfx_tuple_value(cfx_as_list(list)->len, cfx_as_list(list)->items);
}

static cfx_args args_of(cfx_value list) {
    return (cfx_args){(int)cfx_as_list(list)->len, cfx_as_list(list)->items, NULL};
}

static cfx_value filled(const cfx_dict *values, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return *cfx_dict_find(values, cfx_string_value(cfx_as_node(v)->name));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), filled(values, cfx_as_list(v)->items[i]));
    return out;
}

/* Changes the last digits of a float result in place, as another order of a sum would. */
static void disturb(cfx_value v, uint64_t *lot) {
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (!t || !cfx__dtype_is_float((cfx_dtype)t->dtype))
        return;
    const double part = t->dtype == CFX_F64 ? 1e-15 : t->dtype == CFX_F32 ? 4e-7 : 4e-3;
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++) {
        *lot = *lot * 6364136223846793005u + 1442695040888963407u;
        const double by = (double)(*lot >> 62) - 1.5, x = cfx_tensor_get(t, i);
        if (isfinite(x))
            cfx__tensor_set(t, i, cfx_float(x * (1 + by * part)));
    }
}

static outcome outcome_of(cfx_value result, cfx_value inputs, const cfx_dict *state) {
    outcome o = {.ran = cfx_ok(), .leaves = cfx_as_list(cfx_list_value(0, NULL))};
    if (!o.ran) {
        snprintf(o.why, sizeof o.why, "%s", cfx_error_last()->message);
        cfx_clear();
        return o;
    }
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tree_flatten(result, cfx_as_list(flat));
    for (int64_t i = 0; i < cfx_as_list(flat)->len; i++)
        cfx_list_append(o.leaves, copied(cfx_as_list(flat)->items[i]));
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++)
        cfx_list_append(o.leaves, copied(cfx_as_list(inputs)->items[i]));
    for (int64_t i = 0; i < state->len; i++)
        cfx_list_append(o.leaves, copied(state->entries[i].value));
    return o;
}

/* The calls of the graph one by one, by the dispatcher alone. noise: 0, or which last digits
 * change. */
static outcome run_eagerly(const random_program *p, uint64_t noise) {
    cfx_value inputs = copies(p->inputs), result = cfx_none();
    cfx_dict *state = cfx_dict_new(), *values = cfx_dict_new();
    for (int64_t i = 0; i < p->state->len; i++)
        cfx_dict_put(state, p->state->entries[i].key, copied(p->state->entries[i].value));
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_manual_seed(7);
    int64_t next = 0;
    cfx_node *refused = NULL;
    cfx_each_node(p->graph, n) {
        cfx_value v = cfx_none();
        if (n->op == CFX_PLACEHOLDER)
            v = cfx_as_list(inputs)->items[next++];
        else if (n->op == CFX_GET_ATTR)
            v = *cfx_dict_find(state, cfx_string_value(n->target.name));
        else if (n->op == CFX_OUTPUT)
            result = filled(values, cfx_as_list(n->args)->items[0]);
        else if (cfx_node_is_getitem(n))
            v = cfx_at(filled(values, cfx_as_list(n->args)->items[0]),
                       cfx_integer(cfx_as_list(n->args)->items[1]));
        else
            v = cfx_op_do_from(CFX_HERE, n->target.op, args_of(filled(values, n->args)));
        if (!cfx_ok()) {
            refused = n;
            break;
        }
        if (noise && n->op == CFX_CALL_FUNCTION)
            disturb(v, &noise);
        cfx_dict_set(values, n->name, v);
    }
    outcome o = outcome_of(result, inputs, state);
    o.refused = refused;
    cfx_set_grad_mode(mode);
    return o;
}

/* Whether a result of the program depends on the value of a node. */
static bool is_live(const cfx_node *n) {
    if (n->op == CFX_OUTPUT)
        return true;
    cfx_each_user(n, u) {
        if (is_live(u->user))
            return true;
    }
    return false;
}

/* Whether a changed program may run where eager refuses, in PyTorch as here: what no result depends
 * on is left out, and values do not overlap in memory. */
static bool may_run(const outcome *eager) {
    return !eager->ran &&
           (!is_live(eager->refused) || strstr(eager->why, "refers to a single memory location") ||
            strstr(eager->why, "refer to a single memory location"));
}

/* ---- programs -------------------------------------------------------------------------------- */

static cfx_value *tensor_named(const cfx_program *p, cfx_value name) {
    cfx_value *v = (cfx_value *)cfx_dict_find(p->state, name);
    return v ? v : (cfx_value *)cfx_dict_find(p->constants, name);
}

/* Copies of what a program holds under the drawn names, to begin each run with: a pass may have
 * folded something into a weight. */
static cfx_dict *held_by(const cfx_program *p, const random_program *drawn) {
    cfx_dict *held = cfx_dict_new();
    for (int64_t i = 0; i < drawn->state->len; i++) {
        const cfx_value name = drawn->state->entries[i].key, *now = tensor_named(p, name);
        if (now && now->tag == CFX_TAG_TENSOR)
            cfx_dict_put(held, name, copied(*now));
    }
    return held;
}

static void restore(cfx_program *p, const cfx_dict *held) {
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    for (int64_t i = 0; i < held->len; i++)
        cfx_copy_(cfx_as_tensor(*tensor_named(p, held->entries[i].key)), held->entries[i].value);
    cfx_set_grad_mode(mode);
}

/* What a run left under the drawn names, in their order: what stayed as it was counts as what was
 * drawn. */
static cfx_dict *state_of(const cfx_program *p, const random_program *drawn, const cfx_dict *held) {
    cfx_dict *state = cfx_dict_new();
    for (int64_t i = 0; i < drawn->state->len; i++) {
        const cfx_value name = drawn->state->entries[i].key, *now = tensor_named(p, name);
        const cfx_value *was = cfx_dict_find(held, name);
        const bool same = !now || !was || cfx_is_true(cfx_all(cfx_isclose(*now, *was, 0, 0, true)));
        cfx_dict_put(state, name, same ? drawn->state->entries[i].value : *now);
    }
    return state;
}

static cfx_value take(cfx_watcher *w, cfx_node *n, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_dict_set(w->user, n->name, copied(v));
    return cfx_none();
}

static outcome run_program(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                           const cfx_executor *x, bool taps) {
    cfx_value inputs = copies(drawn->inputs);
    restore(p, held);
    cfx_dict *seen = taps ? cfx_dict_new() : NULL;
    cfx_watcher w = {.see = take, .user = seen};
    cfx_manual_seed(7);
    cfx_value v =
        cfx_program_run_with(CFX_HERE, p, x, taps ? &w : NULL, args_of(inputs));
    outcome o = outcome_of(v, inputs, cfx_ok() ? state_of(p, drawn, held) : cfx_dict_new());
    o.taps = seen;
    return o;
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* How far two tensors are apart, as a part of the largest number; infinite where one is finite and
 * the other is not. Integers are the same or infinitely apart. */
static double distance(const cfx_tensor *x, const cfx_tensor *y) {
    double scale = 1e-30, apart = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        const double u = cfx_tensor_get(x, i), v = cfx_tensor_get(y, i);
        if (isfinite(v) && fabs(v) > scale)
            scale = fabs(v);
        if (u == v || (u != u && v != v))
            continue;
        if (!isfinite(u) || !isfinite(v) || !cfx__dtype_is_float((cfx_dtype)x->dtype))
            return INFINITY;
        apart = fabs(u - v) > apart ? fabs(u - v) : apart;
    }
    return apart / scale;
}

static double allowed(const cfx_tensor *t) {
    switch ((cfx_dtype)t->dtype) {
    case CFX_F64: return 1e-12;
    case CFX_F32: return 2e-6;
    case CFX_F16: return 1e-3;
    case CFX_BF16: return 8e-3;
    default: return 0;
    }
}

/* Where two values differ in kind: "", or what differs. */
static const char *kind_apart(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return "is something else";
    if (a.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b) ? "" : "is something else";
    const cfx_tensor *x = cfx_as_tensor(a), *y = cfx_as_tensor(b);
    return x->dtype != y->dtype            ? "has another dtype"
           : !cfx__tensor_same_shape(x, y) ? "has another shape"
                                           : "";
}

static bool is_complex(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx__dtype_is_complex((cfx_dtype)cfx_as_tensor(v)->dtype);
}

static cfx_value as_real(cfx_value v) {
    return is_complex(v) ? cfx_tensor_value(cfx_view_as_real(v)) : v;
}

/* The largest distance of any eager run with other last digits, for leaf i. */
static double spread_of(const subject *s, int64_t i) {
    double most = 0;
    for (uint64_t turn = 1; turn <= 8; turn++) {
        outcome o = run_eagerly(s->drawn, turn * 0x9e3779b97f4a7c15u);
        if (!o.ran)
            return INFINITY;
        const double d = distance(cfx_as_tensor(as_real(o.leaves->items[i])),
                                  cfx_as_tensor(as_real(s->first.leaves->items[i])));
        most = d > most ? d : most;
    }
    return most;
}

static void agree(subject *s, const outcome *o, const char *way) {
    const outcome *first = &s->first;
    s->counts->compared++;
    if (s->found.any)
        return;
    if (first->ran != o->ran) {
        found(s, "%s %s: %s", way, o->ran ? "runs, eager refuses" : "refuses",
              o->ran ? first->why : o->why);
        return;
    }
    if (!o->ran)
        return;
    if (first->leaves->len != o->leaves->len) {
        found(s, "%s gives another number of results", way);
        return;
    }
    for (int64_t i = 0; i < first->leaves->len; i++) {
        cfx_value want = as_real(first->leaves->items[i]), got = as_real(o->leaves->items[i]);
        const char *kind = kind_apart(got, want);
        const bool tensor = want.tag == CFX_TAG_TENSOR && !*kind;
        const double d = tensor ? distance(cfx_as_tensor(got), cfx_as_tensor(want)) : 0;
        if (*kind || (tensor && d > allowed(cfx_as_tensor(want)) && d > 4 * spread_of(s, i)))
            found(s, "%s: leaf %d %s: %s, not %s (%g apart)", way, (int)i,
                  *kind ? kind : "has other numbers", cfx_str(got), cfx_str(want), d);
        if (s->found.any)
            return;
    }
}

/* The taps of two runs of one program, where the leaves agree. */
static void agree_taps(subject *s, const outcome *a, const outcome *b, const char *way) {
    if (!a->ran || !b->ran || s->found.any)
        return;
    for (int64_t i = 0; i < a->taps->len; i++) {
        cfx_value want = a->taps->entries[i].value, name = a->taps->entries[i].key;
        if (strstr(cfx_str(name), "record_function") || strstr(cfx_str(name), "empty"))
            continue; /* no numbers */
        const cfx_value *got = cfx_dict_find(b->taps, name);
        if (!got) {
            found(s, "%s: %s has no value", way, cfx_str(name));
            return;
        }
        cfx_value x = as_real(*got), y = as_real(want);
        const char *kind = kind_apart(x, y);
        const double d = *kind ? 0 : distance(cfx_as_tensor(x), cfx_as_tensor(y));
        if (*kind || d > (d <= 1e-5 ? 1 : 10 * allowed(cfx_as_tensor(y))))
            found(s, "%s: the tap of %s %s: %s, not %s (%g apart)", way, cfx_str(name),
                  *kind ? kind : "shows other numbers", cfx_str(x), cfx_str(y), d);
        if (s->found.any)
            return;
    }
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* By the interpreter and by plans: the first, the one that is there already, one with everything
 * tapped, and one after it. */
static void run_all(subject *s, cfx_program *p, const char *name) {
    char way[128];
    cfx_dict *held = held_by(p, s->drawn);
    outcome by = run_program(p, s->drawn, held, &cfx_interpreter, true);
    snprintf(way, sizeof way, "%s, interpreted", name);
    agree(s, &by, way);
    static const char *const turns[] = {"planned", "planned again", "planned and tapped",
                                        "planned after a tap"};
    for (int turn = 0; turn < 4 && !s->found.any; turn++) {
        outcome o = run_program(p, s->drawn, held, &cfx_planner, turn == 2);
        snprintf(way, sizeof way, "%s, %s", name, turns[turn]);
        agree(s, &o, way);
        if (turn == 2)
            agree_taps(s, &by, &o, way);
    }
}

/* A change that failed counts as a refusal. */
static void changed(subject *s, cfx_program *p, const char *name) {
    if (cfx_ok() && !cfx_failed(p)) {
        run_all(s, p, name);
        return;
    }
    outcome o = {.ran = false};
    snprintf(o.why, sizeof o.why, "%s", cfx_ok() ? "bad" : cfx_error_last()->message);
    cfx_clear();
    agree(s, &o, name);
}

static cfx_program *reopened(cfx_program *p) {
    const char *folder = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof path, "%s/cfx_program_%d.pt2", folder ? folder : "/tmp", (int)getpid());
    cfx_program *again = cfx_save(p, path) ? cfx_open(path) : NULL;
    unlink(path);
    return again;
}

/* A pass that keeps what is computed; NULL where the one drawn does not. */
static const cfx_pass *any_pass(void) {
    const cfx_pass *p = cfx_pass_number((int)test_draw(64));
    return p && p->promise != CFX_PASS_LOWERED && strncmp(p->name, "check_", 6) &&
                   strcmp(p->name, "specialize")
               ? p
               : NULL;
}

static void hear_nothing(const char *line, void *user) { (void)line, (void)user; }

/* The changes of a program, one after the other, each of the program as it was exported. */
static void check_changes(subject *s, cfx_program *p, const cfx_dict *held) {
    for (int way = 0; way < 4 && !s->found.any; way++) {
        char name[96];
        restore(p, held);
        if (way == 0) {
            changed(s, cfx_decompose(p, CFX_NONE), "decomposed");
        } else if (way == 1) {
            cfx_program *other = cfx_program_copy(p);
            const cfx_pass *pass = any_pass();
            snprintf(name, sizeof name, "after pass %s", pass ? pass->name : "none");
            if (pass && cfx_pass_apply(pass, other, NULL) >= 0)
                changed(s, other, name);
            cfx_clear();
        } else if (way == 2) {
            changed(s, cfx_optimize(p), "optimised");
        } else {
            changed(s, reopened(p), "saved and opened");
        }
    }
}

static void check_exported(subject *s, cfx_program *p) {
    const cfx_dict *held = held_by(p, s->drawn);
    s->counts->exported++;
    run_all(s, p, "the program");
    if (!s->drawn->random && !s->found.any && !may_run(&s->first))
        check_changes(s, p, held);
}

program_finding programs_check(uint64_t seed, program_counts *counts) {
    subject s = {.counts = counts};
    size_t mark = cfx_scope_open();
    random_program drawn = programs_draw(seed);
    s.drawn = &drawn;
    cfx_set_log(hear_nothing, NULL);
    s.first = run_eagerly(&drawn, 0);
    counts->drawn++;
    s.first.ran ? counts->ran++ : counts->refused++;
    cfx_module *gm = cfx_graph_module(drawn.root, drawn.graph, NULL);
    cfx_program *p = cfx_export(gm, as_tuple(copies(drawn.inputs)), CFX_NONE, CFX_NONE);
    const bool exported = cfx_ok() && !cfx_failed(p);
    if (exported)
        check_exported(&s, p);
    else if (s.first.ran && !strstr(cfx_error_last()->message, "memory location"))
        found(&s, "export refuses: %s", cfx_error_last()->message);
    cfx_clear();
    if (s.found.any) {
        const size_t len = strlen(s.found.text);
        snprintf(s.found.text + len, sizeof s.found.text - len, "\nof %s",
                 exported ? cfx_graph_str(p->module->graph) : cfx_graph_str(drawn.graph));
    }
    cfx_set_log(NULL, NULL);
    cfx_scope_close(mark);
    return s.found;
}
