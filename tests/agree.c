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

/* Counts "decomposed, planned again" for "decomposed" and for "planned again"; what is in brackets
 * is not looked at. */
static void count_ways(program_counts *c, const char *way) {
    const char *by = NULL, *details = strstr(way, " (");
    for (const char *at = way; (at = strstr(at, ", ")) != NULL; at += 2)
        by = !strncmp(at, ", interpreted", 13) || !strncmp(at, ", planned", 9) ? at : by;
    c->compared++;
    count_way(c, way, details ? (size_t)(details - way) : by ? (size_t)(by - way) : strlen(way));
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
    return is_overwritten(call, n) || strstr(op, "_like.") || strstr(op, ".new_") ||
           strstr(op, "sym_size") ||
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
                                        "linalg_inv", "index_select_backward", "quantile",
                                        "multilabel_margin", "nll_loss", "max_unpool"};
    return !eager->ran && says_one_of(eager->refused->target.name, sizeof texts / sizeof *texts,
                                      texts);
}

/* Whether a decomposed or functional program may be refused that eager runs, in PyTorch as here:
 * what was written through a view that overlaps itself cannot be put back, and index_put, which
 * index_fill decomposes to, asks for some elements along the dimension even where slices have none;
 * views of other dtypes ask for strides that dimensions of one element lose on the way; x.copy_(x),
 * which eager leaves alone, is written back to x, which must not be expanded then; an input that
 * lies inside a storage is not followed where that storage is read by strides; the decomposition of
 * nll_loss gathers by its target, which must not be uint8. */
static bool may_refuse(const char *way, const char *why) {
    static const char *const texts[] = {"being mutated that has internal overlap",
                                        "index is out of bounds for dimension with size 0",
                                        "must be divisible by",
                                        "more than one element of the written-to tensor refers",
                                        "that lies in a part of a storage is written to",
                                        "gather(): Expected dtype int32/int64 for index"};
    static const char *const ways[] = {"decomposed", "functional", "as C", "ONNX"};
    return says_one_of(way, sizeof ways / sizeof *ways, ways) &&
           says_one_of(why, sizeof texts / sizeof *texts, texts);
}

/* Whether an optimised program has no call of the operator that eager refuses: where(c, a, a) is a,
 * whatever c would have been. */
static bool is_left_out(const outcome *eager, const cfx_program *p, const char *way) {
    if (!p || !strstr(way, "optimised"))
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

/* The name by which a program has a drawn tensor, of several that the tensor may have. */
static cfx_value name_held(const cfx_program *p, const cfx_dict *drawn, int64_t i) {
    for (int64_t k = 0; !tensor_named(p, drawn->entries[i].key) && k < drawn->len; k++)
        if (cfx_as_tensor(drawn->entries[k].value) == cfx_as_tensor(drawn->entries[i].value) &&
            tensor_named(p, drawn->entries[k].key))
            return drawn->entries[k].key;
    return drawn->entries[i].key;
}

/* What a run left under the drawn names, in their order: what stayed as it was counts as what was
 * drawn. */
cfx_dict *agree_state(const cfx_program *p, const random_program *drawn, const cfx_dict *held) {
    cfx_dict *state = cfx_dict_new();
    for (int64_t i = 0; i < drawn->state->len; i++) {
        const cfx_value name = name_held(p, drawn->state, i), *now = tensor_named(p, name);
        const cfx_value *was = cfx_dict_find(held, name);
        const bool same = !now || !was || apart_none(*now, *was);
        cfx_dict_put(state, drawn->state->entries[i].key,
                     same ? drawn->state->entries[i].value : *now);
    }
    return state;
}

/* The arguments of a call as they were shown; None where some were not. */
static cfx_value shown_args(const cfx_dict *seen, const cfx_node *n) {
    cfx_value args = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++) {
        const cfx_value a = cfx_as_list(n->args)->items[i];
        const cfx_value *was = a.tag != CFX_TAG_NODE
                                   ? &a
                                   : cfx_dict_find(seen, cfx_string_value(cfx_as_node(a)->name));
        if (!was)
            return cfx_none();
        cfx_list_append(cfx_as_list(args), *was);
    }
    return cfx_as_dict(n->kwargs)->len ? cfx_none() : args;
}

static cfx_value take(cfx_watcher *w, cfx_node *n, cfx_value v) {
    agree_taps *t = w->user;
    if (t->noise && n->op == CFX_CALL_FUNCTION) {
        const cfx_value args = shown_args(t->seen, n);
        if (!cfx_is_none(args))
            eager_disturb_sums(n, args, v, &t->noise);
        eager_disturb(v, &t->noise);
    }
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

/* Whether a way may compute in another order, as decompositions do: its numbers are then held
 * against the largest of a tensor, not each against itself. */
static bool may_reorder(const char *way) {
    static const char *const ways[] = {"decomposed", "optimised", "ONNX"};
    return says_one_of(way, sizeof ways / sizeof *ways, ways);
}

cfx_value agree_where_finite(cfx_value got, cfx_value want) {
    if (want.tag != CFX_TAG_TENSOR || *apart_kind(got, want) ||
        !cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(want)->dtype))
        return got;
    return cfx_tensor_value(cfx_where(cfx_isfinite(want), got, want));
}

static bool has_norm(const random_program *p) {
    cfx_each_node(p->graph, n)
        if (n->op == CFX_CALL_FUNCTION && strstr(n->target.name, "_norm"))
            return true;
    return false;
}

/* Infinities are not held against an optimised program that has norms: one that is folded into a
 * weight multiplies and adds in another order. */
void agree_on(subject *s, const outcome *o, const char *way) {
    const outcome *first = &s->first;
    count_ways(s->counts, way);
    if (s->found.any)
        return;
    if (first->ran && !o->ran &&
        (may_refuse(way, o->why) || (may_reorder(way) && apart_may_refuse(s))))
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
    for (int64_t i = 0; i < first->leaves->len && !s->found.any; i++) {
        cfx_value want = first->leaves->items[i], got = o->leaves->items[i];
        if (strstr(way, "decomposed"))
            want = apart_one_form(want), got = apart_one_form(got);
        const char *kind = apart_kind(got, want);
        if (strstr(way, "optimised") && has_norm(s->drawn))
            got = agree_where_finite(got, want);
        const double d = *kind ? 0 : apart_excess(s, i, got, want, !may_reorder(way));
        if (*kind || d > 0)
            agree_found(s, "%s: leaf %d %s: %.800s, not %.800s (%g apart)", way, (int)i,
                        *kind ? kind : "has other numbers", cfx_str(got), cfx_str(want), d);
    }
}

/* ---- taps ------------------------------------------------------------------------------------ */

/* What is run again with other last digits: leaf i of it is asked for, or the tap of a node. */
typedef struct {
    const subject *s;
    cfx_program *p;
    const cfx_dict *held;
    int64_t i;
    cfx_value tap;
} rerun;

static cfx_value run_again(void *of, uint64_t noise) {
    const rerun *r = of;
    outcome o = run_shown(r->p, r->s->drawn, r->held, noise);
    const cfx_value *now = o.ran && !cfx_is_none(r->tap) ? cfx_dict_find(o.taps, r->tap) : NULL;
    return !o.ran ? cfx_none() : now ? *now : o.leaves->items[r->i];
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
        rerun by = {s, p, held, 0, name};
        const char *kind = apart_kind(*got, want);
        const double d = *kind ? 0 : apart_excess_in(*got, want, run_again, &by);
        if (*kind || d > 0)
            agree_found(s, "%s: the tap of %s %s: %.800s, not %.800s (%g apart)", way,
                        cfx_str(name), *kind ? kind : "shows other numbers", cfx_str(*got),
                        cfx_str(want), d);
        if (s->found.any)
            return;
    }
}

void agree_unless(subject *s, const char *way, const char *may) {
    const char *why = cfx_ok() ? "bad" : cfx_error_last()->message;
    if (!strstr(why, may) && !may_refuse(way, why))
        agree_found(s, "%s is refused: %s", way, why);
    cfx_error_clear();
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
    if (!cfx_ok() || cfx_failed(q)) {
        agree_unless(s, "quantized", "there is nothing to quantize");
        return;
    }
    cfx_dict *held = agree_held(q->program, s->drawn);
    outcome a = agree_run(q->program, s->drawn, held, &cfx_interpreter, NULL, 0);
    outcome b = agree_run(q->program, s->drawn, held, &cfx_planner, NULL, 0);
    count_ways(s->counts, "quantized");
    if (a.ran != b.ran)
        agree_found(s, "quantized: %s", a.ran ? b.why : a.why);
    for (int64_t i = 0; a.ran && b.ran && i < a.leaves->len && !s->found.any; i++) {
        cfx_value x = b.leaves->items[i], y = a.leaves->items[i];
        rerun by = {s, q->program, held, i, cfx_none()};
        const char *kind = apart_kind(x, y);
        const double d = *kind || !exact ? 0 : apart_excess_in(x, y, run_again, &by);
        if (*kind || d > 0)
            agree_found(s, "quantized, planned: leaf %d: %s, not %s (%g apart)", (int)i, cfx_str(x),
                        cfx_str(y), d);
    }
    if (s->found.any)
        s->last = q->program;
}
