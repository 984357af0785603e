/* Makes input sizes symbolic. Shapes are inferred node by node at many sizes at once, and
 * constants derived from those sizes are replaced by expressions. The origin of a constant may
 * be ambiguous: the candidates that fit a call are tried in turn, and if a later call fits none,
 * the choice at an earlier call that it depends on is revised (backtracking). Start at
 * cfx_make_dynamic. */
#include <cfx/check.h>

#include "dynamic.h"

typedef cfx__dynamic dynamic;
typedef cfx__dynamic_item item;

/* ---- the nodes, in order --------------------------------------------------------------------- */

static void add_graph(dynamic *d, cfx_module *m, const cfx_node *call);

/* The graphs of a call come before it. */
static void add_graphs_of(dynamic *d, cfx_module *m, const cfx_node *call) {
    cfx_each_input(call, u) if (u->node->op == CFX_GET_ATTR) {
        cfx_value v = cfx_module_attr(m, u->node->target.name);
        if (v.tag == CFX_TAG_MODULE && cfx_as_module(v)->graph)
            add_graph(d, cfx_as_module(v), call);
    }
}

static void add_graph(dynamic *d, cfx_module *m, const cfx_node *call) {
    int place = 0;
    cfx_each_node(m->graph, n) {
        if (cfx_node_higher_order(n))
            add_graphs_of(d, m, n);
        item one = {.module = m, .node = n, .call = call, .args = cfx_value_keep(n->args),
                    .val = cfx_value_keep(cfx_node_get_meta(n, "val")),
                    .place = n->op == CFX_PLACEHOLDER ? place++ : -1};
        cfx_dict_put(d->places, cfx_node_value(n), cfx_int((int64_t)d->items.len));
        VEC_PUSH(d->items, one);
    }
}

static item *item_of(const dynamic *d, const cfx_node *n) {
    const cfx_value *at = cfx_dict_find(d->places, cfx_node_value((cfx_node *)(uintptr_t)n));
    return at ? &d->items.data[cfx_integer(*at)] : NULL;
}

cfx_value cfx__dynamic_was(const dynamic *d, const cfx_node *n) {
    const item *it = item_of(d, n);
    return it ? it->val : cfx_none();
}

/* ---- one node -------------------------------------------------------------------------------- */

static bool has_symbol(const cfx_result *r) {
    if (r->kind == CFX_RESULT_TENSOR)
        return !r->shape;
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result one = cfx_result_item(r, i);
        if (has_symbol(&one))
            return true;
    }
    return r->value.tag == CFX_TAG_SYM;
}

static bool takes_symbol(const cfx_node *n) {
    cfx_each_input(n, u) {
        cfx_result r = cfx_node_result(u->node);
        if (has_symbol(&r))
            return true;
    }
    return false;
}

/* Why the most probable arguments of a node do not fit, in world k. */
static void note_why(dynamic *d, int k, const char *why) {
    if (d->last[0])
        return;
    cfx__text with = {0};
    for (int i = 0; i < d->nsizes; i++) {
        const cfx__symbol *s =
            cfx__worlds_find(&d->infer.worlds, cfx_as_sym(d->sizes[i].symbol)->name);
        if (s && !d->sizes[i].again)
            cfx__text_printf(&with, "%s%s = %lld", with.len ? ", " : "", d->sizes[i].name,
                             (long long)s->size.at[k]);
    }
    snprintf(d->last, sizeof d->last, "with %s: %s", with.data ? with.data : "", why);
    cfx__text_release(&with);
}

/* What the node gives with the arguments that it has now, in all worlds; bad where it fails. */
static cfx_value given(dynamic *d, const item *it) {
    cfx_value v[CFX__WORLDS], all = cfx_bad();
    cfx__inference *f = &d->infer;
    for (f->k = 0; f->k < f->worlds.n; f->k++) {
        v[f->k] = cfx__infer_computed(f, it->node);
        if (!cfx_ok() || cfx_is_bad(v[f->k]))
            break;
    }
    const int done = f->k;
    f->k = 0;
    if (done == f->worlds.n)
        all = cfx__infer_described(f, it->node, v);
    if (!cfx_ok())
        note_why(d, done < f->worlds.n ? done : 0, cfx_error_last()->message);
    return cfx_ok() ? all : cfx_bad();
}

/* In the first world, sizes that are 1 in the example are that (true), or `now` again. */
static void be_example(dynamic *d, bool example, const int64_t *now) {
    for (int i = 0; i < d->nsizes; i++) {
        cfx__symbol *s = cfx__worlds_find(&d->infer.worlds, cfx_as_sym(d->sizes[i].symbol)->name);
        if (s && d->sizes[i].hint == 1)
            s->size.at[0] = example ? 1 : now[i];
    }
}

/* Whether a call gives a tensor of as many dimensions as in the example, whose sizes of 1 are in no
 * world: squeeze of one does not. */
static bool has_rank(dynamic *d, const item *it, cfx_value val) {
    int64_t now[CFX__DYNAMIC_SIZES] = {0};
    bool ones = false;
    for (int i = 0; i < d->nsizes; i++) {
        const cfx__symbol *s =
            cfx__worlds_find(&d->infer.worlds, cfx_as_sym(d->sizes[i].symbol)->name);
        now[i] = s ? s->size.at[0] : 0;
        ones |= d->sizes[i].hint == 1;
    }
    cfx_result r = cfx_result_of(val);
    if (!ones || r.kind != CFX_RESULT_TENSOR)
        return true;
    be_example(d, true, now);
    d->infer.k = 0;
    cfx_value one = cfx__infer_computed(&d->infer, it->node);
    be_example(d, false, now);
    if (!cfx_ok())
        return cfx__error_forgive();
    cfx_result was = cfx_result_of(one);
    if (was.kind != CFX_RESULT_TENSOR || was.ndim == r.ndim)
        return true;
    note_why(d, 0, cfx__text_format("it has %d dimensions, and %d in the example", r.ndim,
                                    was.ndim));
    return false;
}

static void put(const item *it, cfx_value val) { cfx_node_set_meta(it->node, "val", val); }

static bool try_options(dynamic *d, item *it) {
    cfx_value fallback = it->val;
    if (!it->options) {
        it->options = cfx_keep(cfx__dynamic_options(d, it));
        d->last[0] = 0;
    }
    while (it->next < it->options->len) {
        size_t mark = cfx_scope_open();
        cfx_node_set_args(it->node, it->options->items[it->next++]);
        cfx_value val = given(d, it);
        bool unknown = !cfx_ok() && cfx__error_unknown(), fits = cfx_ok() || unknown;
        if (!cfx_ok() && !cfx__error_forgive())
            fits = false;
        if (fits && !unknown && !cfx_is_bad(val))
            fits = has_rank(d, it, val);
        if (fits)
            put(it, unknown || cfx_is_bad(val) ? fallback : val);
        cfx_scope_close(mark);
        if (fits || !cfx_ok())
            return fits && cfx_ok();
    }
    return false;
}

/* Whether what is computed of a size that varies, and has that size first in the example, has it
 * still: where it does not, rows may have been mixed. */
static bool all_vary(dynamic *d, const item *it) {
    const int64_t hint = d->sizes[0].hint;
    cfx_each_input(it->node, u) {
        cfx_result was = cfx_result_of(cfx__dynamic_was(d, u->node));
        cfx_result now = cfx_node_result(u->node);
        if (u->node->op != CFX_CALL_FUNCTION || was.kind != CFX_RESULT_TENSOR || !was.shape ||
            !was.ndim || was.shape[0] != hint || now.kind != CFX_RESULT_TENSOR)
            continue;
        bool varies = false;
        for (int i = 0; i < now.ndim && i < was.ndim; i++)
            varies |= was.shape[i] == hint && cfx_result_size(&now, i).tag == CFX_TAG_SYM;
        if (!varies)
            return false;
    }
    return true;
}

/* Gives a node its metadata, and its arguments where they have numbers in them that vary; false
 * where nothing more can be tried, or with an error. */
static bool settle(dynamic *d, item *it) {
    cfx_node *n = it->node;
    cfx__infer_enter(&d->infer, it->module);
    if (n->op == CFX_PLACEHOLDER && it->call) {
        cfx_list *takes = cfx__higher_takes(it->call);
        if (takes && it->place < takes->len)
            put(it, takes->items[it->place]);
        return true;
    }
    if (n->op == CFX_OUTPUT && !it->call && d->strict)
        return !it->next++ && all_vary(d, it);
    if (n->op != CFX_CALL_FUNCTION)
        return true;
    if (cfx_node_higher_order(n)) {
        cfx_value gives = takes_symbol(n) ? cfx__higher_gives(it->module, n) : cfx_none();
        put(it, cfx_is_none(gives) ? it->val : gives);
        return true;
    }
    if (cfx__infer_untold(n))
        return true;
    if (!takes_symbol(n) && !cfx__dynamic_creates(d, it)) {
        if (it->next++)
            return false;
        cfx_node_set_args(n, it->args);
        put(it, it->val);
        return true;
    }
    return try_options(d, it);
}

/* ---- the search ------------------------------------------------------------------------------ */

static void blame(dynamic *d, const cfx_node *n) {
    item *it = item_of(d, n);
    if (it)
        it->blamed = true;
}

/* Blames all that items[i] depends on. */
static void blame_before(dynamic *d, size_t i) {
    d->items.data[i].blamed = true;
    for (size_t k = i + 1; k-- > 0;) {
        const item *it = &d->items.data[k];
        if (!it->blamed)
            continue;
        cfx_each_input(it->node, u) blame(d, u->node);
        if (it->place >= 0 && it->call)
            cfx_each_input(it->call, u) blame(d, u->node);
        if (cfx_node_higher_order(it->node))
            cfx_each_input(it->node, u) if (u->node->op == CFX_GET_ATTR) {
                cfx_value v = cfx_module_attr(it->module, u->node->target.name);
                const cfx_node *out = v.tag == CFX_TAG_MODULE && cfx_as_module(v)->graph
                                          ? cfx_graph_output_node(cfx_as_module(v)->graph)
                                          : NULL;
                if (out)
                    cfx_each_input(out, w) blame(d, w->node);
            }
    }
}

static void restart(item *it) {
    cfx_drop(it->options);
    it->options = NULL;
    it->next = 0;
}

/* The last node before i that is to blame and has something else to try; -1: there is none. */
static int64_t culprit(dynamic *d, size_t i) {
    for (int64_t k = (int64_t)i; k-- > 0;) {
        const item *it = &d->items.data[k];
        if (it->blamed && it->options && it->next < it->options->len)
            return k;
    }
    return -1;
}

/* Of all attempts the one that came farthest tells what is in the way. */
static void note_pin(dynamic *d, size_t i) {
    if (i < d->farthest)
        return;
    d->farthest = i;
    d->pins = d->items.data[i].node;
    memcpy(d->why, d->last, sizeof d->why);
}

enum { TRIES = 1000 };

/* Decides all numbers; false, with or without an error, where some node fits nothing. */
static bool solve(dynamic *d) {
    size_t deepest = 0;
    for (size_t i = 0, tries = 0; i < d->items.len && cfx_ok() && cfx__limit_time();) {
        size_t mark = cfx_scope_open();
        bool fits = settle(d, &d->items.data[i]);
        cfx_scope_close(mark);
        if (fits && i++ == deepest)
            for (size_t k = 0; k < d->items.len; k++)
                d->items.data[k].blamed = false;
        if (fits)
            continue;
        if (i >= deepest) {
            deepest = i;
            note_pin(d, i);
        }
        blame_before(d, i);
        int64_t back = tries++ < TRIES ? culprit(d, i) : -1;
        if (back < 0)
            return false;
        for (size_t k = (size_t)back + 1; k <= i; k++)
            restart(&d->items.data[k]);
        i = (size_t)back;
    }
    return cfx_ok();
}

/* ---- how far sizes may go -------------------------------------------------------------------- */

/* Whether every node gives what is noted where symbol i is `size`, and others as in the example. */
static bool holds_at(dynamic *d, const char *symbol, int64_t size) {
    bool holds = true;
    cfx__symbol *s = cfx__worlds_find(&d->infer.worlds, symbol);
    int64_t before = s->size.at[0];
    s->size.at[0] = size;
    for (size_t i = 0; i < d->items.len && holds && cfx_ok(); i++) {
        size_t mark = cfx_scope_open();
        cfx_result got, noted;
        cfx__infer_enter(&d->infer, d->items.data[i].module);
        holds = cfx__infer_compare(&d->infer, d->items.data[i].node, &got, &noted) == CFX__AS_NOTED;
        if (!cfx_ok())
            holds &= cfx__error_forgive();
        cfx_scope_close(mark);
    }
    s->size.at[0] = before;
    return holds;
}

enum { LARGEST = 1 << 20 };

/* The size nearest to `bad` at which all holds that holds at `good`. */
static int64_t border(dynamic *d, const char *symbol, int64_t good, int64_t bad) {
    while (bad - good > 1 || good - bad > 1) {
        int64_t at = good + (bad - good) / 2;
        if (holds_at(d, symbol, at))
            good = at;
        else
            bad = at;
    }
    return good;
}

static cfx_value range_of(dynamic *d, const char *symbol, int64_t hint) {
    int64_t least = holds_at(d, symbol, 1)   ? 1
                    : holds_at(d, symbol, 2) ? 2
                                             : border(d, symbol, hint, 2);
    return cfx_tuple(least, holds_at(d, symbol, LARGEST)
                                ? cfx_none()
                                : cfx_int(border(d, symbol, hint, LARGEST)));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void forget_items(dynamic *d) {
    for (size_t i = 0; i < d->items.len; i++) {
        restart(&d->items.data[i]);
        cfx_value_drop(d->items.data[i].args);
        cfx_value_drop(d->items.data[i].val);
    }
    VEC_FREE(d->items);
}

/* Whether dimension i of a tensor goes around dimension dim. */
static bool is_around(const cfx_result *r, int i, int dim) {
    int64_t inner = r->stride[dim] * r->shape[dim];
    return i != dim && inner > 0 && r->stride[i] >= inner && r->stride[i] % inner == 0 &&
           (i < dim || r->stride[i] > r->stride[dim]);
}

/* The placeholder's metadata with a symbol for one size. */
static void put_symbol(cfx_node *n, int dim, cfx_value symbol) {
    cfx_result r = cfx_node_result(n);
    cfx_value shape = cfx_tuple_value(0, NULL), stride = cfx_tuple_value(0, NULL);
    for (int i = 0; i < r.ndim; i++) {
        cfx_list_append(cfx_as_list(shape), i == dim ? symbol : cfx_result_size(&r, i));
        if (r.shape)
            cfx_list_append(cfx_as_list(stride),
                            is_around(&r, i, dim)
                                ? cfx__sym_binary(CFX__SYM_MUL, cfx_int(r.stride[i] / r.shape[dim]),
                                                  symbol)
                                : cfx_int(r.stride[i]));
    }
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value(r.dtype));
    if (r.shape)
        cfx_dict_set(d, "stride", stride);
    cfx_dict_set(d, "device", cfx_device_value(r.device));
    cfx_node_set_meta(n, "val", cfx_dict_value(d));
}

/* Sizes are smaller and larger than the example's. One of 1 broadcasts, and has strides of its own:
 * where the example has one, the first world has another size. */
static void choose_sizes(dynamic *d) {
    for (int k = 0; k < d->infer.worlds.n; k++)
        cfx__worlds_choose(&d->infer.worlds, k, 0);
    for (int i = 0; i < d->nsizes; i++) {
        cfx__symbol *s = cfx__worlds_find(&d->infer.worlds, cfx_as_sym(d->sizes[i].symbol)->name);
        if (s && s->hint == 1)
            s->size.at[0] = s->most < 5 + i ? s->most : 5 + i;
    }
}

/* How far from the example sizes are tried. */
typedef struct {
    bool smaller;   /* than the example as well */
    int64_t larger; /* so much; 0: any */
} reach;

/* Puts the symbols into a copy of the program and decides what follows; NULL where it does not
 * fit, with d->why. */
static cfx_program *attempt(dynamic *d, const cfx_program *p, reach r) {
    cfx_program *q = cfx_program_copy(p);
    if (cfx_failed(q))
        return NULL;
    d->places = cfx_dict_new();
    d->infer = (cfx__inference){.program = q};
    add_graph(d, q->module, NULL);
    for (int i = 0; i < d->nsizes; i++) {
        const cfx__dynamic_size *s = &d->sizes[i];
        const char *name = cfx_as_sym(s->symbol)->name;
        put_symbol(cfx_graph_find(q->module->graph, s->input), s->dim, s->symbol);
        int64_t least = s->hint < 2 ? 1 : r.smaller ? 2 : s->hint;
        cfx_dict_set(q->ranges, name,
                     cfx_tuple(least, r.larger ? cfx_int(s->hint + r.larger) : cfx_none()));
    }
    cfx__infer_begin(&d->infer);
    choose_sizes(d);
    bool fits = solve(d);
    item *pins = !fits && d->pins ? item_of(d, d->pins) : NULL;
    if (pins)
        cfx_node_set_args(pins->node, pins->args);
    if (fits)
        cfx_module_walk(q->module, cfx__dynamic_reify, NULL);
    return fits && cfx_ok() ? q : NULL;
}

/* Ranges as far as the program works, of a program that was made. */
static void set_ranges(dynamic *d, cfx_program *q) {
    forget_items(d);
    d->places = cfx_dict_new();
    add_graph(d, q->module, NULL);
    for (int i = 0; i < d->nsizes && cfx_ok(); i++)
        if (!d->sizes[i].again)
            cfx_dict_set(q->ranges, cfx_as_sym(d->sizes[i].symbol)->name,
                         range_of(d, cfx_as_sym(d->sizes[i].symbol)->name, d->sizes[i].hint));
}

/* Sizes may be bounded by tables of the program, and from below by windows that go over them: they
 * are tried without bounds first, then nearer to the example. */
static cfx_program *made(dynamic *d, const cfx_program *p) {
    static const reach farthest[] = {{true, 0},  {false, 0}, {false, 64}, {false, 16},
                                     {true, 64}, {true, 16}, {true, 4},   {true, 1}};
    cfx_program *q = NULL;
    for (int i = 0; i < 2 * COUNT(farthest) && !q && cfx_ok(); i++) {
        d->strict = i < COUNT(farthest);
        q = attempt(d, p, farthest[i % COUNT(farthest)]);
        if (q)
            set_ranges(d, q);
        forget_items(d);
        cfx__infer_end(&d->infer);
    }
    return q;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool fail_size(const char *key, const char *why) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' %s; write INPUT.DIM, such as in0.1 or x.1", key,
             why);
    return false;
}

/* The placeholder of the caller's input that is called so, or is number N for inN. */
static const cfx_node *input_called(const cfx_program *p, const char *name, size_t len) {
    int number = 0;
    const cfx_node *n = cfx_graph_first(p->module->graph);
    for (int i = 0; i < p->ninputs && n; i++, n = cfx_node_after(n)) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        const char *place = cfx__text_format("in%d", number++);
        if ((strlen(n->name) == len && !memcmp(n->name, name, len)) ||
            (strlen(place) == len && !memcmp(place, name, len)))
            return n;
    }
    return NULL;
}

static cfx_value symbol_for(const dynamic *d, const cfx_program *p, const cfx_node *n, int dim,
                            int64_t hint) {
    int number = cfx__symbol_number(cfx__text_format("L['%s'].size()[%d]", n->name, dim));
    const char *name;
    bool taken;
    do {
        name = cfx__text_format("s%d", number++);
        taken = cfx_dict_find(p->ranges, cfx_string_value(name)) != NULL;
        for (int i = 0; i < d->nsizes; i++)
            taken |= !strcmp(cfx_as_sym(d->sizes[i].symbol)->name, name);
    } while (taken);
    return cfx__sym_name(name, true, hint);
}

static bool add_size(dynamic *d, const cfx_program *p, const char *key, const char *name) {
    const char *dot = strrchr(key, '.');
    char *end = NULL;
    long dim = dot ? strtol(dot + 1, &end, 10) : 0;
    if (!dot || end == dot + 1 || *end || !name || !*name)
        return fail_size(key, "does not name a size");
    if (!cfx__name_is_identifier(name, strlen(name))) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is not a name for %s; write a name such as "
                                                 "'batch'",
                 name, key);
        return false;
    }
    const cfx_node *n = input_called(p, key, (size_t)(dot - key));
    cfx_result r = n ? cfx_node_result(n) : (cfx_result){0};
    if (!n || r.kind != CFX_RESULT_TENSOR)
        return fail_size(key, n ? "names an input that is not a tensor" : "does not name an input "
                                                                          "of the program");
    dim += dim < 0 ? r.ndim : 0;
    if (dim < 0 || dim >= r.ndim)
        return fail_size(key, cfx__text_format("is not a dimension of %s", cfx_result_text(&r)));
    cfx_value size = cfx_result_size(&r, (int)dim);
    if (size.tag != CFX_TAG_INT)
        return fail_size(key, cfx__text_format("varies already, as %s", cfx_value_str(size)));
    cfx__dynamic_size one = {.input = n->name, .name = name, .dim = (int)dim,
                             .hint = cfx_integer(size)};
    for (int i = 0; i < d->nsizes; i++)
        if (!strcmp(d->sizes[i].name, name)) {
            if (d->sizes[i].hint != one.hint)
                return fail_size(key, cfx__text_format(
                                          "is %lld, but '%s' is %lld in another input",
                                          (long long)one.hint, name, (long long)d->sizes[i].hint));
            one.symbol = d->sizes[i].symbol;
            one.again = true;
        }
    if (!one.again)
        one.symbol = symbol_for(d, p, n, (int)dim, one.hint);
    d->sizes[d->nsizes++] = one;
    return true;
}

static void fail_pinned(const dynamic *d) {
    if (!d->pins)
        return;
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "node %s pins the size: %s", d->pins->name, d->why);
    cfx__run_note(d->pins);
}

cfx_program *cfx_make_dynamic(const cfx_program *p, const cfx_dict *sizes) {
    if (!cfx__program_whole((cfx_site){0}, p) || !cfx_program_check(p))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    dynamic d = {0};
    cfx_program *q = NULL;
    for (int64_t i = 0; sizes && i < sizes->len && cfx_ok(); i++) {
        const char *key = cfx_text(sizes->entries[i].key);
        if (d.nsizes == CFX__DYNAMIC_SIZES || !key)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "sizes are at most %d, by name",
                     CFX__DYNAMIC_SIZES);
        else
            add_size(&d, p, key, cfx_text(sizes->entries[i].value));
    }
    if (cfx_ok())
        q = made(&d, p);
    if (!q && cfx_ok())
        fail_pinned(&d);
    if (q && cfx_ok() && !cfx_program_check(q))
        q = NULL;
    return cfx_scope_return(mark, q && cfx_ok() ? q : &cfx__program_bad);
}
