/* The oracle for random programs: see programs.h. One program is run eagerly, call by call; then as
 * an exported program by the interpreter, by plans, after each change. All agree. Start at
 * programs_check. */
#include "agree.h"

#include <cfx/ops.h>

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/dispatch.h"

typedef struct {
    const random_program *drawn;
    program_finding found;
    program_counts *counts;
    outcome first;     /* the eager run */
    cfx_program *now;  /* the program that is run */
    cfx_program *last; /* the program that was found to do something else */
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

/* ---- refusals -------------------------------------------------------------------------------- */

/* Whether a call reads no more than the shape or the dtype of an argument: zeros_like(n),
 * expand_as(x, n), x.to(n); or may, as atleast_1d of several, whose results are each of one. */
static bool reads_shape(const cfx_node *call, const cfx_node *n) {
    const cfx_value first = cfx_as_list(call->args)->len ? cfx_at(call->args, 0) : cfx_none();
    const bool is_first = first.tag == CFX_TAG_NODE && cfx_as_node(first) == n;
    const char *op = call->op == CFX_CALL_FUNCTION ? call->target.name : "";
    return strstr(op, "_like.") || strstr(op, "_assert_tensor_metadata") ||
           ((strstr(op, "_as.") || strstr(op, ".to.other")) && !is_first) ||
           (first.tag == CFX_TAG_LIST && (strstr(op, "atleast_") || strstr(op, "broadcast_")));
}

/* Whether a result of the program depends on the value of a node. What control flow gives is made
 * of many: it may depend on others. */
static bool is_live(const cfx_node *n) {
    if (n->op == CFX_OUTPUT)
        return true;
    cfx_each_user(n, u) {
        if (!reads_shape(u->user, n) && !cfx_node_higher_order(u->user) && is_live(u->user))
            return true;
    }
    return false;
}

static bool says_one_of(const char *why, size_t n, const char *const *texts) {
    for (size_t i = 0; i < n; i++)
        if (strstr(why, texts[i]))
            return true;
    return false;
}

/* Whether a changed program may run where eager refuses, in PyTorch as here: what no result depends
 * on is left out, values do not overlap in memory, and PyTorch's decomposition of a loss does not
 * look at the numbers. */
static bool may_run(const outcome *eager) {
    static const char *const texts[] = {"refers to a single memory location",
                                        "refer to a single memory location",
                                        "all elements of input should be between 0 and 1"};
    return !eager->ran && (cfx_node_higher_order(eager->refused) || !is_live(eager->refused) ||
                           says_one_of(eager->why, sizeof texts / sizeof *texts, texts));
}

/* Whether a decomposed program may run where eager refuses, in PyTorch as here: its decompositions
 * of these do not look at the numbers, and let negative indices count from the end. */
static bool may_run_decomposed(const outcome *eager) {
    static const char *const texts[] = {"one_hot", "index_add", "index_copy", "inverse",
                                        "linalg_inv"};
    return !eager->ran && says_one_of(eager->refused->target.name, sizeof texts / sizeof *texts,
                                      texts);
}

/* Whether a program may be refused that eager runs, in PyTorch as here: what was written through a
 * view that overlaps itself cannot be put back, and index_put, which index_fill decomposes to, asks
 * for some elements along the dimension even where slices have none; views of other dtypes ask for
 * strides that dimensions of one element lose on the way. */
static bool may_refuse(const char *why) {
    static const char *const texts[] = {"being mutated that has internal overlap",
                                        "index is out of bounds for dimension with size 0",
                                        "must be divisible by"};
    return says_one_of(why, sizeof texts / sizeof *texts, texts);
}

/* Whether an optimised program has no call of the operator that eager refuses: where(c, a, a) is a,
 * whatever c would have been. */
static bool is_left_out(const outcome *eager, const cfx_program *p, const char *way) {
    if (!p || strncmp(way, "optimised", 9))
        return false;
    cfx_each_node(p->module->graph, n)
        if (n->target.name && !strcmp(n->target.name, eager->refused->target.name))
            return false;
    return true;
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
            cfx_dict_put(held, name, eager_copy(*now));
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

/* What a run shows of each node, and how its numbers are disturbed; 0: not. */
typedef struct {
    cfx_dict *seen;
    uint64_t noise;
} taps;

static cfx_value take(cfx_watcher *w, cfx_node *n, cfx_value v) {
    taps *t = w->user;
    if (t->noise && n->op == CFX_CALL_FUNCTION)
        eager_disturb(v, &t->noise);
    if (v.tag == CFX_TAG_TENSOR)
        cfx_dict_set(t->seen, n->name, eager_copy(v));
    return cfx_none();
}

/* spare: the bytes that the run may take beside those that are held; 0: any. */
static outcome run_program(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                           const cfx_executor *x, taps *shown, size_t spare) {
    cfx_value inputs = eager_copies(drawn->inputs);
    restore(p, held);
    cfx_watcher w = {.see = take, .user = shown};
    cfx_manual_seed(7);
    const size_t before = cfx_set_memory_limit(spare ? cfx_memory_held() + spare : 0);
    cfx_value v =
        cfx_program_run_with(CFX_HERE, p, x, shown ? &w : NULL, eager_args(inputs));
    cfx_set_memory_limit(before);
    outcome o = eager_outcome(v, inputs, cfx_ok() ? state_of(p, drawn, held) : cfx_dict_new());
    o.taps = shown ? shown->seen : NULL;
    return o;
}

/* An interpreted run with all values shown, disturbed where noise is not 0. */
static outcome run_shown(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                         uint64_t noise) {
    return run_program(p, drawn, held, &cfx_interpreter, &(taps){cfx_dict_new(), noise}, 0);
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

enum { TURNS = 8 };

static uint64_t noise_of(int turn) { return (uint64_t)(turn + 1) * 0x9e3779b97f4a7c15u; }

static double farther(double most, cfx_value a, cfx_value b) {
    a = as_real(a), b = as_real(b);
    const double d = *kind_apart(a, b) ? INFINITY : distance(cfx_as_tensor(a), cfx_as_tensor(b));
    return d > most ? d : most;
}

/* The largest distance of any eager run with other last digits, for leaf i. */
static double spread_of(const subject *s, int64_t i) {
    double most = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        outcome o = eager_run(s->drawn, noise_of(turn));
        if (!o.ran)
            return INFINITY;
        most = farther(most, o.leaves->items[i], s->first.leaves->items[i]);
    }
    return most;
}

/* The same for what an interpreted run of a program gives: leaf i, or the tap of a node. */
static double spread_in(const subject *s, cfx_program *p, const cfx_dict *held, const outcome *by,
                        int64_t i, cfx_value tap) {
    double most = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        outcome o = run_shown(p, s->drawn, held, noise_of(turn));
        const bool leaf = cfx_is_none(tap);
        const cfx_value *now = leaf ? NULL : cfx_dict_find(o.taps, tap);
        if (!o.ran || (!leaf && !now))
            return INFINITY;
        most = leaf ? farther(most, o.leaves->items[i], by->leaves->items[i])
                    : farther(most, *now, *cfx_dict_find(by->taps, tap));
    }
    return most;
}

/* Infinities are not held against an optimised program: a norm that is folded into a weight
 * multiplies and adds in another order. */
static void agree(subject *s, const outcome *o, const char *way) {
    const outcome *first = &s->first;
    s->counts->compared++;
    if (s->found.any)
        return;
    if (first->ran != o->ran && !(o->ran && is_left_out(first, s->now, way))) {
        found(s, "%s %s: %s", way, o->ran ? "runs, eager refuses" : "refuses",
              o->ran ? first->why : o->why);
        return;
    }
    if (!o->ran || !first->ran)
        return;
    if (first->leaves->len != o->leaves->len) {
        found(s, "%s gives another number of results", way);
        return;
    }
    for (int64_t i = 0; i < first->leaves->len; i++) {
        cfx_value want = as_real(first->leaves->items[i]), got = as_real(o->leaves->items[i]);
        const char *kind = kind_apart(got, want);
        const bool tensor = want.tag == CFX_TAG_TENSOR && !*kind;
        if (tensor && !strncmp(way, "optimised", 9))
            got = cfx_tensor_value(cfx_where(cfx_isfinite(want), got, want));
        const double d = tensor ? distance(cfx_as_tensor(got), cfx_as_tensor(want)) : 0;
        if (*kind || (tensor && d > allowed(cfx_as_tensor(want)) && d > 4 * spread_of(s, i)))
            found(s, "%s: leaf %d %s: %.800s, not %.800s (%g apart)", way, (int)i,
                  *kind ? kind : "has other numbers", cfx_str(got), cfx_str(want), d);
        if (s->found.any)
            return;
    }
}

/* The taps of two runs of one program, where the leaves agree. */
static void agree_taps(subject *s, cfx_program *p, const cfx_dict *held, const outcome *a,
                       const outcome *b, const char *way) {
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
        if (*kind || (d > 1e-5 && d > 10 * allowed(cfx_as_tensor(y)) &&
                      d > 4 * spread_in(s, p, held, a, 0, name)))
            found(s, "%s: the tap of %s %s: %.800s, not %.800s (%g apart)", way, cfx_str(name),
                  *kind ? kind : "shows other numbers", cfx_str(x), cfx_str(y), d);
        if (s->found.any)
            return;
    }
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* With less memory than may be needed a plan gives what it gives, or an error; the next run is as
 * if there had been none. */
static void run_limited(subject *s, cfx_program *p, const cfx_dict *held, const char *name) {
    char way[128];
    snprintf(way, sizeof way, "%s, planned within limits", name);
    outcome o = run_program(p, s->drawn, held, &cfx_planner, NULL, (size_t)1 << test_draw(17));
    if (!o.limited)
        agree(s, &o, way);
    snprintf(way, sizeof way, "%s, planned after limits", name);
    o = run_program(p, s->drawn, held, &cfx_planner, NULL, 0);
    agree(s, &o, way);
}

/* By the interpreter and by plans: the first, the one that is there already, one with everything
 * tapped, and one after it. */
static void run_all(subject *s, cfx_program *p, const char *name) {
    char way[128];
    cfx_dict *held = held_by(p, s->drawn);
    s->now = p;
    outcome by = run_shown(p, s->drawn, held, 0);
    snprintf(way, sizeof way, "%s, interpreted", name);
    agree(s, &by, way);
    static const char *const turns[] = {"planned", "planned again", "planned and tapped",
                                        "planned after a tap"};
    for (int turn = 0; turn < 4 && !s->found.any; turn++) {
        taps shown = {cfx_dict_new(), 0};
        outcome o = run_program(p, s->drawn, held, &cfx_planner, turn == 2 ? &shown : NULL, 0);
        snprintf(way, sizeof way, "%s, %s", name, turns[turn]);
        agree(s, &o, way);
        if (turn == 2)
            agree_taps(s, p, held, &by, &o, way);
    }
    if (!s->found.any)
        run_limited(s, p, held, name);
    if (s->found.any)
        s->last = p;
}

/* A change that failed counts as a refusal. */
static void changed(subject *s, cfx_program *p, const char *name) {
    if (cfx_ok() && !cfx_failed(p)) {
        run_all(s, p, name);
        return;
    }
    outcome o = {.ran = false};
    snprintf(o.why, sizeof o.why, "%s", cfx_ok() ? "bad" : cfx_error_last()->message);
    cfx_error_clear();
    if (!may_refuse(o.why))
        agree(s, &o, name);
}

static cfx_value as_tuple(cfx_value list) {
    return cfx_tuple_value(cfx_as_list(list)->len, cfx_as_list(list)->items);
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

/* A quantized program computes other numbers: it is held against itself. Integers round where
 * floats do not, so that a plan may be some steps of 256 away, unless weights alone are rounded. */
static void check_quantized(subject *s, cfx_program *p) {
    cfx_quantize_options how = {.scheme = (cfx_quantize_scheme)test_draw(3),
                                .bits = test_draw(2) ? 8 : 4,
                                .per = (cfx_quantize_per)test_draw(3)};
    const bool exact = how.scheme == CFX_QUANTIZE_WEIGHT;
    cfx_value batch = cfx_list(as_tuple(eager_copies(s->drawn->inputs)));
    cfx_quantized *q = cfx_quantize(p, exact ? CFX_NONE : batch, how);
    if (!cfx_ok() || cfx_failed(q)) { /* nothing in it that has a weight */
        cfx_error_clear();
        return;
    }
    cfx_dict *held = held_by(q->program, s->drawn);
    outcome a = run_program(q->program, s->drawn, held, &cfx_interpreter, NULL, 0);
    outcome b = run_program(q->program, s->drawn, held, &cfx_planner, NULL, 0);
    if (a.ran != b.ran)
        found(s, "quantized: %s", a.ran ? b.why : a.why);
    for (int64_t i = 0; a.ran && b.ran && i < a.leaves->len && !s->found.any; i++) {
        cfx_value x = as_real(b.leaves->items[i]), y = as_real(a.leaves->items[i]);
        const bool floats = y.tag == CFX_TAG_TENSOR &&
                            cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(y)->dtype);
        const double d = floats && !*kind_apart(x, y) ? distance(cfx_as_tensor(x),
                                                                 cfx_as_tensor(y)) : 0;
        if (*kind_apart(x, y) ||
            (exact && d > 10 * allowed(cfx_as_tensor(y)) && d > 1e-4 &&
             d > 4 * spread_in(s, q->program, held, &a, i, cfx_none())))
            found(s, "quantized, planned: leaf %d: %s, not %s (%g apart)", (int)i, cfx_str(x),
                  cfx_str(y), d);
    }
    if (s->found.any)
        s->last = q->program;
}

static void hear_nothing(const char *line, void *user) { (void)line, (void)user; }

/* The changes of a program, one after the other, each of the program as it was exported. */
static void check_changes(subject *s, cfx_program *p, const cfx_dict *held) {
    for (int way = 0; way < 5 && !s->found.any; way++) {
        char name[96];
        restore(p, held);
        if (way == 0 && may_run_decomposed(&s->first)) {
            continue;
        } else if (way == 0) {
            changed(s, cfx_decompose(p, CFX_NONE), "decomposed");
        } else if (way == 1) {
            cfx_program *other = cfx_program_copy(p);
            const cfx_pass *pass = any_pass();
            snprintf(name, sizeof name, "after pass %s", pass ? pass->name : "none");
            if (pass && cfx_pass_apply(pass, other, NULL) >= 0)
                changed(s, other, name);
            cfx_error_clear();
        } else if (way == 2) {
            changed(s, cfx_optimize(p), "optimised");
        } else if (way == 3) {
            changed(s, reopened(p), "saved and opened");
        } else if (s->first.ran) {
            check_quantized(s, p);
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
    s.first = eager_run(&drawn, 0);
    counts->drawn++;
    s.first.ran ? counts->ran++ : counts->refused++;
    cfx_module *gm = cfx_graph_module(drawn.root, drawn.graph, NULL);
    cfx_program *p = cfx_export(gm, as_tuple(eager_copies(drawn.inputs)), CFX_NONE, CFX_NONE);
    const bool exported = cfx_ok() && !cfx_failed(p);
    if (exported)
        check_exported(&s, p);
    else if (s.first.ran && !strstr(cfx_error_last()->message, "memory location"))
        found(&s, "export refuses: %s", cfx_error_last()->message);
    cfx_error_clear();
    if (s.found.any) {
        const size_t len = strlen(s.found.text);
        snprintf(s.found.text + len, sizeof s.found.text - len, "\nof %s%s%s",
                 exported ? cfx_graph_str(p->module->graph) : cfx_graph_str(drawn.graph),
                 s.last ? "\nas " : "", s.last ? cfx_graph_str(s.last->module->graph) : "");
    }
    cfx_set_log(NULL, NULL);
    cfx_scope_close(mark);
    return s.found;
}
