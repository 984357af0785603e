/* Whether runs of random programs agree: see agree.h. Refusals, numbers, what is left in inputs and
 * buffers, taps; by the interpreter and by plans. Start at agree_all. */
#include "agree.h"

#include <cfx/ops.h>

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "dispatch/dispatch.h"

void agree_found(subject *s, const char *fmt, ...) {
    va_list ap;
    if (s->found.any)
        return;
    s->found.any = true;
    va_start(ap, fmt);
    vsnprintf(s->found.text, sizeof s->found.text, fmt, ap);
    va_end(ap);
}

bool agree_goes(const subject *s, uint32_t in) { return !s->counts->few || test_draw(in) == 0; }

static void count_way(program_counts *c, const char *name, size_t len) {
    int i = 0;
    len = len < sizeof c->ways->name - 1 ? len : sizeof c->ways->name - 1;
    while (i < c->n_ways && (strncmp(c->ways[i].name, name, len) || c->ways[i].name[len]))
        i++;
    if (i == PROGRAM_WAYS)
        return;
    program_way *w = &c->ways[i];
    if (i == c->n_ways) {
        memcpy(w->name, name, len);
        c->n_ways++;
    }
    w->programs += w->last != c->drawn;
    w->last = c->drawn;
    w->compared++;
}

/* Counts "decomposed, planned again" for "decomposed" and for "planned again". */
static void count_ways(program_counts *c, const char *way) {
    const char *by = NULL;
    for (const char *at = way; (at = strstr(at, ", ")) != NULL; at += 2)
        by = !strncmp(at, ", interpreted", 13) || !strncmp(at, ", planned", 9) ? at : by;
    c->compared++;
    count_way(c, way, by ? (size_t)(by - way) : strlen(way));
    if (by)
        count_way(c, by + 2, strlen(by + 2));
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Whether a call has n as its out= alone, which it overwrites. */
static bool is_overwritten(const cfx_node *call, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(call->args);
    const cfx_op *op = call->op == CFX_CALL_FUNCTION ? call->target.op : NULL;
    const cfx__schema *s = op ? cfx__op_info_of((cfx_op *)(uintptr_t)op)->schema : NULL;
    int times = 0;
    if (!s || args->len != s->nargs || strcmp(s->args[s->nargs - 1].name, "out"))
        return false;
    for (int64_t i = 0; i < args->len; i++)
        times += args->items[i].tag == CFX_TAG_NODE && cfx_as_node(args->items[i]) == n;
    const cfx_value last = args->items[args->len - 1];
    return times == 1 && last.tag == CFX_TAG_NODE && cfx_as_node(last) == n;
}

/* Whether a call reads no more than the shape or the dtype of an argument: zeros_like(n),
 * expand_as(x, n), x.to(n); or may, as atleast_1d of several, whose results are each of one. */
static bool reads_shape(const cfx_node *call, const cfx_node *n) {
    const cfx_value first = cfx_as_list(call->args)->len ? cfx_at(call->args, 0) : cfx_none();
    const bool is_first = first.tag == CFX_TAG_NODE && cfx_as_node(first) == n;
    const char *op = call->op == CFX_CALL_FUNCTION ? call->target.name : "";
    return is_overwritten(call, n) || strstr(op, "_like.") ||
           strstr(op, "_assert_tensor_metadata") ||
           ((strstr(op, "_as.") || strstr(op, ".to.other")) && !is_first) ||
           (first.tag == CFX_TAG_LIST && (strstr(op, "atleast_") || strstr(op, "broadcast_")));
}

/* The first call that overwrites the value of a node; NULL: none. */
static const cfx_node *overwriter(const cfx_node *n) {
    const cfx_node *first = NULL;
    cfx_each_user(n, u) {
        if (is_overwritten(u->user, n) && (!first || cfx_node_precedes(u->user, first)))
            first = u->user;
    }
    return first;
}

/* Whether a result of the program depends on the value of a node. What control flow gives is made
 * of many: it may depend on others. Calls behind one that overwrites the value read another. */
static bool is_live(const cfx_node *n) {
    if (n->op == CFX_OUTPUT)
        return true;
    const cfx_node *over = overwriter(n);
    cfx_each_user(n, u) {
        if (over && !cfx_node_precedes(u->user, over))
            continue;
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
bool agree_may_run(const outcome *eager) {
    static const char *const texts[] = {"refers to a single memory location",
                                        "refer to a single memory location",
                                        "all elements of input should be between 0 and 1"};
    return !eager->ran && (cfx_node_higher_order(eager->refused) || !is_live(eager->refused) ||
                           says_one_of(eager->why, sizeof texts / sizeof *texts, texts));
}

/* Whether a decomposed program may run where eager refuses, in PyTorch as here: its decompositions
 * of these do not look at the numbers, and let negative indices count from the end. */
bool agree_may_run_decomposed(const outcome *eager) {
    static const char *const texts[] = {"one_hot", "index_add", "index_copy", "inverse",
                                        "linalg_inv", "multilabel_margin", "nll_loss",
                                        "max_unpool"};
    return !eager->ran && says_one_of(eager->refused->target.name, sizeof texts / sizeof *texts,
                                      texts);
}

/* Whether a program may be refused that eager runs, in PyTorch as here: what was written through a
 * view that overlaps itself cannot be put back, and index_put, which index_fill decomposes to, asks
 * for some elements along the dimension even where slices have none; views of other dtypes ask for
 * strides that dimensions of one element lose on the way; x.copy_(x), which eager leaves alone, is
 * written back to x, which must not be expanded then; an input that lies inside a storage is not
 * followed where that storage is read by strides; the decomposition of nll_loss gathers by its
 * target, which must not be uint8. */
static bool may_refuse(const char *why) {
    static const char *const texts[] = {"being mutated that has internal overlap",
                                        "index is out of bounds for dimension with size 0",
                                        "must be divisible by",
                                        "more than one element of the written-to tensor refers",
                                        "that lies in a part of a storage is written to",
                                        "gather(): Expected dtype int32/int64 for index"};
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
cfx_dict *agree_held(const cfx_program *p, const random_program *drawn) {
    cfx_dict *held = cfx_dict_new();
    for (int64_t i = 0; i < drawn->state->len; i++) {
        const cfx_value name = drawn->state->entries[i].key, *now = tensor_named(p, name);
        if (now && now->tag == CFX_TAG_TENSOR)
            cfx_dict_put(held, name, eager_copy(*now));
    }
    return held;
}

void agree_restore(cfx_program *p, const cfx_dict *held) {
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    for (int64_t i = 0; i < held->len; i++)
        cfx_copy_(cfx_as_tensor(*tensor_named(p, held->entries[i].key)), held->entries[i].value);
    cfx_set_grad_mode(mode);
}

/* What a run left under the drawn names, in their order: what stayed as it was counts as what was
 * drawn. */
cfx_dict *agree_state(const cfx_program *p, const random_program *drawn, const cfx_dict *held) {
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
    agree_taps *t = w->user;
    if (t->noise && n->op == CFX_CALL_FUNCTION)
        eager_disturb(v, &t->noise);
    if (v.tag == CFX_TAG_TENSOR)
        cfx_dict_set(t->seen, n->name, eager_copy(v));
    return cfx_none();
}

/* spare: the bytes that the run may take beside those that are held; 0: any. */
outcome agree_run(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                           const cfx_executor *x, agree_taps *shown, size_t spare) {
    cfx_value inputs = eager_copies(drawn->inputs);
    agree_restore(p, held);
    cfx_watcher w = {.see = take, .user = shown};
    cfx_manual_seed(7);
    const size_t before = cfx_set_memory_limit(spare ? cfx_memory_held() + spare : 0);
    cfx_value v =
        cfx_program_run_with(CFX_HERE, p, x, shown ? &w : NULL, eager_args(inputs));
    cfx_set_memory_limit(before);
    outcome o = eager_outcome(v, inputs, cfx_ok() ? agree_state(p, drawn, held) : cfx_dict_new());
    o.taps = shown ? shown->seen : NULL;
    return o;
}

/* An interpreted run with all values shown, disturbed where noise is not 0. */
static outcome run_shown(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                         uint64_t noise) {
    return agree_run(p, drawn, held, &cfx_interpreter, &(agree_taps){cfx_dict_new(), noise}, 0);
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

double agree_allowed(cfx_dtype dtype) {
    switch (dtype) {
    case CFX_F64: return 1e-12;
    case CFX_F32: return 2e-6;
    case CFX_F16: return 1e-3;
    case CFX_BF16: return 8e-3;
    default: return 0;
    }
}

static double allowed(const cfx_tensor *t) { return agree_allowed((cfx_dtype)t->dtype); }

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

/* Complex numbers that are not finite have many forms, which products turn into each other: a
 * product by 1 makes inf + 0j inf + nanj. Decompositions multiply where an operator does not, in
 * PyTorch as here, so such a number is NaN in both its parts there. */
static cfx_value one_form(cfx_value v) {
    if (!is_complex(v))
        return v;
    return cfx_tensor_value(cfx_where(cfx_isfinite(v), v, cfx_complex_value(NAN, NAN)));
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

cfx_value agree_where_finite(cfx_value got, cfx_value want) {
    if (want.tag != CFX_TAG_TENSOR || *kind_apart(got, want) ||
        !cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(want)->dtype))
        return got;
    return cfx_tensor_value(cfx_where(cfx_isfinite(want), got, want));
}

/* Infinities are not held against an optimised program: a norm that is folded into a weight
 * multiplies and adds in another order. */
void agree_on(subject *s, const outcome *o, const char *way) {
    const outcome *first = &s->first;
    count_ways(s->counts, way);
    if (s->found.any)
        return;
    if (first->ran && !o->ran && may_refuse(o->why))
        return;
    if (first->ran != o->ran && !(o->ran && is_left_out(first, s->now, way))) {
        agree_found(s, "%s %s: %s", way, o->ran ? "runs, eager refuses" : "refuses",
                    o->ran ? first->why : o->why);
        return;
    }
    if (!o->ran || !first->ran)
        return;
    if (first->leaves->len != o->leaves->len) {
        agree_found(s, "%s gives another number of results", way);
        return;
    }
    for (int64_t i = 0; i < first->leaves->len; i++) {
        cfx_value want = first->leaves->items[i], got = o->leaves->items[i];
        if (strstr(way, "decomposed"))
            want = one_form(want), got = one_form(got);
        want = as_real(want), got = as_real(got);
        const char *kind = kind_apart(got, want);
        const bool tensor = want.tag == CFX_TAG_TENSOR && !*kind;
        if (!strncmp(way, "optimised", 9))
            got = agree_where_finite(got, want);
        const double d = tensor ? distance(cfx_as_tensor(got), cfx_as_tensor(want)) : 0;
        if (*kind || (tensor && d > allowed(cfx_as_tensor(want)) && d > s->coarse &&
                      d > 4 * spread_of(s, i)))
            agree_found(s, "%s: leaf %d %s: %.800s, not %.800s (%g apart)", way, (int)i,
                        *kind ? kind : "has other numbers", cfx_str(got), cfx_str(want), d);
        if (s->found.any)
            return;
    }
}

/* The taps of two runs of one program, where the leaves agree. */
static void compare_taps(subject *s, cfx_program *p, const cfx_dict *held, const outcome *a,
                       const outcome *b, const char *way) {
    if (!a->ran || !b->ran || s->found.any)
        return;
    for (int64_t i = 0; i < a->taps->len; i++) {
        cfx_value want = a->taps->entries[i].value, name = a->taps->entries[i].key;
        if (strstr(cfx_str(name), "record_function") || strstr(cfx_str(name), "empty"))
            continue; /* no numbers */
        const cfx_value *got = cfx_dict_find(b->taps, name);
        if (!got) {
            agree_found(s, "%s: %s has no value", way, cfx_str(name));
            return;
        }
        cfx_value x = as_real(*got), y = as_real(want);
        const char *kind = kind_apart(x, y);
        const double d = *kind ? 0 : distance(cfx_as_tensor(x), cfx_as_tensor(y));
        if (*kind || (d > 1e-5 && d > 10 * allowed(cfx_as_tensor(y)) &&
                      d > 4 * spread_in(s, p, held, a, 0, name)))
            agree_found(s, "%s: the tap of %s %s: %.800s, not %.800s (%g apart)", way,
                        cfx_str(name), *kind ? kind : "shows other numbers", cfx_str(x),
                        cfx_str(y), d);
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
    outcome o = agree_run(p, s->drawn, held, &cfx_planner, NULL, (size_t)1 << test_draw(17));
    if (!o.limited)
        agree_on(s, &o, way);
    snprintf(way, sizeof way, "%s, planned after limits", name);
    o = agree_run(p, s->drawn, held, &cfx_planner, NULL, 0);
    agree_on(s, &o, way);
}

/* By the interpreter and by plans: the first, the one that is there already, one with everything
 * tapped, and one after it. */
void agree_all(subject *s, cfx_program *p, const char *name) {
    char way[128];
    cfx_dict *held = agree_held(p, s->drawn);
    s->now = p;
    outcome by = run_shown(p, s->drawn, held, 0);
    snprintf(way, sizeof way, "%s, interpreted", name);
    agree_on(s, &by, way);
    static const char *const turns[] = {"planned", "planned again", "planned and tapped",
                                        "planned after a tap"};
    const bool itself = !strcmp(name, "the program");
    for (int turn = 0; turn < 4 && !s->found.any; turn++) {
        if (turn && !itself && !agree_goes(s, 4))
            continue;
        agree_taps shown = {cfx_dict_new(), 0};
        outcome o = agree_run(p, s->drawn, held, &cfx_planner, turn == 2 ? &shown : NULL, 0);
        snprintf(way, sizeof way, "%s, %s", name, turns[turn]);
        agree_on(s, &o, way);
        if (turn == 2)
            compare_taps(s, p, held, &by, &o, way);
    }
    if (!s->found.any && (itself || agree_goes(s, 4)))
        run_limited(s, p, held, name);
    if (s->found.any)
        s->last = p;
}

/* A change that failed counts as a refusal. */
void agree_changed(subject *s, cfx_program *p, const char *name) {
    if (cfx_ok() && !cfx_failed(p)) {
        agree_all(s, p, name);
        return;
    }
    outcome o = {.ran = false};
    snprintf(o.why, sizeof o.why, "%s", cfx_ok() ? "bad" : cfx_error_last()->message);
    cfx_error_clear();
    agree_on(s, &o, name);
}

cfx_value agree_tuple(cfx_value list) {
    return cfx_tuple_value(cfx_as_list(list)->len, cfx_as_list(list)->items);
}

/* A quantized program computes other numbers: it is held against itself. Integers round where
 * floats do not, so that a plan may be some steps of 256 away, unless weights alone are rounded. */
void agree_quantized(subject *s, cfx_program *p) {
    cfx_quantize_options how = {.scheme = (cfx_quantize_scheme)test_draw(3),
                                .bits = test_draw(2) ? 8 : 4,
                                .per = (cfx_quantize_per)test_draw(3)};
    const bool exact = how.scheme == CFX_QUANTIZE_WEIGHT;
    cfx_value batch = cfx_list(agree_tuple(eager_copies(s->drawn->inputs)));
    cfx_quantized *q = cfx_quantize(p, exact ? CFX_NONE : batch, how);
    if (!cfx_ok() || cfx_failed(q)) { /* nothing in it that has a weight */
        cfx_error_clear();
        return;
    }
    cfx_dict *held = agree_held(q->program, s->drawn);
    outcome a = agree_run(q->program, s->drawn, held, &cfx_interpreter, NULL, 0);
    outcome b = agree_run(q->program, s->drawn, held, &cfx_planner, NULL, 0);
    count_ways(s->counts, "quantized");
    if (a.ran != b.ran)
        agree_found(s, "quantized: %s", a.ran ? b.why : a.why);
    for (int64_t i = 0; a.ran && b.ran && i < a.leaves->len && !s->found.any; i++) {
        cfx_value x = as_real(b.leaves->items[i]), y = as_real(a.leaves->items[i]);
        const bool floats = y.tag == CFX_TAG_TENSOR &&
                            cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(y)->dtype);
        const double d = floats && !*kind_apart(x, y) ? distance(cfx_as_tensor(x),
                                                                 cfx_as_tensor(y)) : 0;
        if (*kind_apart(x, y) ||
            (exact && d > 10 * allowed(cfx_as_tensor(y)) && d > 1e-4 &&
             d > 4 * spread_in(s, q->program, held, &a, i, cfx_none())))
            agree_found(s, "quantized, planned: leaf %d: %s, not %s (%g apart)", (int)i, cfx_str(x),
                        cfx_str(y), d);
    }
    if (s->found.any)
        s->last = q->program;
}
