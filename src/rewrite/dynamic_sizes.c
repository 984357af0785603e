/* Guesses which constants of a call were sizes: those in arguments of type SymInt that equal a
 * dynamic size of the example. Start at cfx__dynamic_options. */
#include "../trace/relations.h"
#include "dynamic.h"

typedef cfx__dynamic dynamic;
typedef cfx__dynamic_item item;

/* ---- numbers in arguments -------------------------------------------------------------------- */

enum { SLOTS = 16, FORMS = 8, OPTIONS = 64 };

/* A number: argument i, or item j of it. */
typedef struct slot {
    int i, j; /* j -1: the argument itself */
    int64_t number;
    bool minus; /* it counts from the end: -number */
    const cfx__schema_arg *arg;
    cfx_value forms[FORMS]; /* expressions that are this number in the example */
    int nforms;
    cfx_value best; /* what it most probably was, one of the forms; None: that number */
} slot;

typedef struct call {
    dynamic *d;
    const item *it;
    slot slots[SLOTS];
    int n;
    cfx_list *options;
} call;

static void add_slot(call *c, int i, int j, cfx_value v, const cfx__schema_arg *arg) {
    int64_t n = v.tag == CFX_TAG_INT ? cfx_integer(v) : 0;
    if (n == INT64_MAX || n == INT64_MIN || n == 0 || n == -1 || c->n == SLOTS)
        return;
    c->slots[c->n++] = (slot){.i = i, .j = j, .number = n < 0 ? -n : n, .minus = n < 0, .arg = arg,
                              .best = cfx_none()};
}

static void find_slots(call *c) {
    cfx_op *op = c->it->node->target.op;
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    const cfx_list *args = cfx_as_list(c->it->args);
    for (int i = 0; info && i < args->len && i < info->schema->nargs; i++) {
        const cfx__schema_arg *arg = &info->schema->args[i];
        cfx_value v = args->items[i];
        if (arg->sym && (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE))
            for (int j = 0; j < cfx_as_list(v)->len; j++)
                add_slot(c, i, j, cfx_as_list(v)->items[j], arg);
        else if (arg->sym || (arg->type == CFX__T_SCALAR && cfx_node_is(c->it->node, "arange")))
            add_slot(c, i, -1, v, arg);
    }
}

/* ---- what they may be ------------------------------------------------------------------------ */

/* What a symbol is in the example: in the first world it may be something else. */
static bool example_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const dynamic *d = user;
    const cfx__symbol *s = cfx__worlds_find(&d->infer.worlds, name->name);
    *out = s ? s->hint ? s->hint : s->size.at[0] : 0;
    return s != NULL;
}

static bool is_now(const dynamic *d, cfx_value v, int64_t number) {
    int64_t n;
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v) == number;
    return v.tag == CFX_TAG_SYM &&
           cfx__sym_eval(cfx_as_sym(v), example_of, (void *)(uintptr_t)d, &n) && n == number;
}

static void add_form(const dynamic *d, slot *s, cfx_value form) {
    if (form.tag != CFX_TAG_SYM || s->nforms == FORMS || !is_now(d, form, s->number))
        return;
    for (int i = 0; i < s->nforms; i++)
        if (cfx_equal_values(s->forms[i], form))
            return;
    s->forms[s->nforms++] = form;
}

/* The sizes of a tensor, and products of neighbouring ones. */
static void add_sizes(const dynamic *d, slot *s, const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    if (r.value.tag == CFX_TAG_SYM)
        add_form(d, s, r.value);
    for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++)
        add_form(d, s, cfx_result_size(&r, i));
    for (int i = 0; r.kind == CFX_RESULT_TENSOR && !r.shape && i < r.ndim; i++) {
        cfx_value all = cfx_result_size(&r, i);
        for (int j = i + 1; j < r.ndim; j++) {
            all = cfx__sym_binary(CFX__SYM_MUL, all, cfx_result_size(&r, j));
            add_form(d, s, all);
        }
    }
}

/* The symbols, multiples of them, and what is next to them. */
static void add_symbols(const dynamic *d, slot *s) {
    static const int beside[] = {-1, 1, 2, -2};
    for (int i = 0; i < d->nsizes; i++)
        add_form(d, s, d->sizes[i].symbol);
    for (int i = 0; i < d->nsizes; i++)
        if (d->sizes[i].hint && s->number % d->sizes[i].hint == 0)
            add_form(d, s, cfx__sym_binary(CFX__SYM_MUL, cfx_int(s->number / d->sizes[i].hint),
                                           d->sizes[i].symbol));
    for (size_t i = 0; i < d->infer.exprs.known.len; i++)
        add_form(d, s, d->infer.exprs.known.data[i].expr);
    for (int i = 0; i < d->nsizes; i++)
        for (int k = 0; k < COUNT(beside) && d->sizes[i].hint > 2; k++)
            add_form(d, s, cfx__sym_binary(CFX__SYM_ADD, d->sizes[i].symbol, cfx_int(beside[k])));
}

/* ---- what they most probably are ------------------------------------------------------------- */

/* A view in groups: so many dimensions of what it is a view of, and so many of its own, of which
 * there are equally many elements. */
typedef struct viewing {
    call *c;
    cfx_result r;
    int64_t in[CFX_MAX_DIMS], out[CFX_MAX_DIMS]; /* sizes in the example */
    slot *slots[CFX_MAX_DIMS];                   /* of the view; NULL: a -1, or 0 */
    int nin, nout;
} viewing;

static int64_t inner(const int64_t *sizes, int n, int i) {
    int64_t all = 1;
    for (int k = i + 1; k < n; k++)
        all *= sizes[k];
    return all;
}

/* Whether dimension k of a view shares elements with a dimension that has the symbol: those of
 * other dimensions would be mixed. What is 1 in the example may lie next to it. */
static bool lies_at(const viewing *v, const struct cfx_sym *symbol, int k) {
    int64_t now, low = inner(v->out, v->nout, k), high = low * v->out[k];
    const bool one = example_of(symbol, v->c->d, &now) && now == 1;
    bool lies = false;
    for (int i = 0; i < v->nin; i++) {
        int64_t from = inner(v->in, v->nin, i), to = from * v->in[i];
        from = from > low ? from : low;
        to = to < high ? to : high;
        lies |= cfx__relation_names(cfx_result_size(&v->r, i), symbol->name) &&
                (from < to || (from == to && one));
    }
    return lies;
}

static bool all_lie_at(const viewing *v, const struct cfx_sym *e, int k) {
    if (!e || e->op == CFX__SYM_INT)
        return true;
    if (e->op == CFX__SYM_NAME)
        return lies_at(v, e, k);
    return all_lie_at(v, e->a, k) && all_lie_at(v, e->b, k);
}

static void keep_forms_at(viewing *v, int k) {
    slot *s = v->slots[k];
    int kept = 0;
    for (int i = 0; s && i < s->nforms; i++)
        if (all_lie_at(v, cfx_as_sym(s->forms[i]), k))
            s->forms[kept++] = s->forms[i];
    if (s)
        s->nforms = kept;
}

/* What dimensions from to to - 1 make of the view's from `first` to `end` - 1: one that is a symbol
 * in the example is the symbol, the first there is; else the first that is a multiple of it. */
static void split(viewing *v, int from, int to, int first, int end) {
    const dynamic *d = v->c->d;
    cfx_value all = cfx_result_size(&v->r, from);
    for (int i = from + 1; i < to; i++)
        all = cfx__sym_binary(CFX__SYM_MUL, all, cfx_result_size(&v->r, i));
    if (all.tag != CFX_TAG_SYM)
        return;
    if (end == first + 1) {
        if (v->slots[first])
            v->slots[first]->best = all;
        return;
    }
    for (int i = 0; i < d->nsizes; i++) {
        slot *best = NULL;
        if (d->sizes[i].again ||
            !cfx__relation_names(all, cfx_as_sym(d->sizes[i].symbol)->name))
            continue;
        for (int k = first; k < end && !best; k++)
            if (v->slots[k] && v->slots[k]->number == d->sizes[i].hint &&
                v->slots[k]->best.tag != CFX_TAG_SYM)
                best = v->slots[k];
        bool open = false; /* a -1 takes what varies */
        for (int k = first; k < end; k++)
            open |= !v->slots[k];
        for (int k = first; k < end && !best && !open; k++)
            if (v->slots[k] && d->sizes[i].hint && v->slots[k]->number % d->sizes[i].hint == 0)
                best = v->slots[k];
        if (best)
            best->best =
                cfx__sym_binary(CFX__SYM_MUL, cfx_int(best->number / d->sizes[i].hint),
                                d->sizes[i].symbol);
    }
}

/* The sizes in the example; false where there is nothing to go by. */
static bool read_view(viewing *v, const cfx_node *x) {
    const call *c = v->c;
    v->r = cfx_node_result(x);
    cfx_result was = cfx_result_of(cfx__dynamic_was(c->d, x));
    cfx_result made = cfx_result_of(c->it->val);
    if (v->r.kind != CFX_RESULT_TENSOR || was.kind != v->r.kind || !was.shape || !made.shape ||
        was.ndim != v->r.ndim)
        return false;
    v->nin = was.ndim;
    v->nout = made.ndim;
    memcpy(v->in, was.shape, (size_t)v->nin * sizeof *v->in);
    memcpy(v->out, made.shape, (size_t)v->nout * sizeof *v->out);
    for (int k = 0; k < c->n; k++)
        if (c->slots[k].j >= 0 && c->slots[k].j < v->nout)
            v->slots[c->slots[k].j] = &v->c->slots[k];
    bool some = true;
    for (int i = 0; i < v->nin; i++)
        some &= v->in[i] > 0;
    return some;
}

static void align(call *c, const cfx_node *x) {
    viewing v = {.c = c};
    if (!read_view(&v, x))
        return;
    for (int k = 0; k < v.nout; k++)
        keep_forms_at(&v, k);
    for (int i = 0, k = 0; i < v.nin && k < v.nout;) {
        int from = i, first = k;
        int64_t in = v.in[i++], out = v.out[k++];
        while (in != out && (in < out ? i < v.nin : k < v.nout))
            if (in < out)
                in *= v.in[i++];
            else
                out *= v.out[k++];
        split(&v, from, i, first, k);
    }
}

/* The symbol that a number is in the example, which is not 1: that is anything. */
static void guess_symbol(const dynamic *d, slot *s) {
    for (int i = d->nsizes; i-- > 0;)
        if (s->number > 1 && s->number == d->sizes[i].hint)
            s->best = d->sizes[i].symbol;
}

/* What is cut off at an end of a dimension that varies is cut off where it ends. */
static void guess_end(slot *s, const cfx_node *n) {
    const cfx_list *args = cfx_as_list(n->args);
    cfx_result r = cfx_node_result(cfx_as_node(args->items[0]));
    int64_t dim = args->len > 1 && args->items[1].tag == CFX_TAG_INT ? cfx_integer(args->items[1])
                                                                     : 0;
    cfx_value size = cfx_result_size(&r, (int)dim);
    for (int i = 0; i < s->nforms; i++)
        if (cfx_equal_values(s->forms[i], size))
            s->best = size;
}

static void guess(call *c) {
    const cfx_node *n = c->it->node;
    const cfx_op *op = n->target.op;
    /* all sizes are told, in order */
    const bool sizes = c->n && c->slots[0].i == 1 && c->slots[0].j >= 0;
    cfx_value first = cfx_at(c->it->args, 0);
    if (op && op->effects & CFX_IN_ORDER && sizes && first.tag == CFX_TAG_NODE) {
        align(c, cfx_as_node(first));
        return;
    }
    for (int k = 0; k < c->n; k++) {
        slot *s = &c->slots[k];
        bool end = s->arg->name &&
                   (!strcmp(s->arg->name, "end") || !strcmp(s->arg->name, "start"));
        if (s->arg->name && !strcmp(s->arg->name, "size"))
            guess_symbol(c->d, s);
        else if (end && cfx_node_is(n, "arange"))
            guess_symbol(c->d, s);
        else if (end && first.tag == CFX_TAG_NODE)
            guess_end(s, n);
    }
}

/* ---- all together ---------------------------------------------------------------------------- */

static void put(cfx_list *l, int64_t i, cfx_value v) {
    cfx_value before = l->items[i];
    l->items[i] = cfx_value_keep(v);
    cfx_value_drop(before);
}

/* The arguments with other values in some slots, and in the others what is best or what it was. */
static void add_option(call *c, bool best, int a, cfx_value at_a, int b, cfx_value at_b) {
    const cfx_list *args = cfx_as_list(c->it->args);
    cfx_value out = cfx_tuple_value(args->len, args->items);
    for (int k = 0; k < c->n; k++) {
        slot *s = &c->slots[k];
        cfx_value v = k == a ? at_a : k == b ? at_b : best ? s->best : cfx_none();
        cfx_list *in = cfx_as_list(out);
        if (v.tag != CFX_TAG_SYM)
            continue;
        if (s->minus)
            v = cfx__sym_binary(CFX__SYM_MUL, cfx_int(-1), v);
        if (s->j >= 0) {
            const cfx_list *was = cfx_as_list(in->items[s->i]);
            cfx_value copy = in->items[s->i].tag == CFX_TAG_LIST
                                 ? cfx_list_value(was->len, was->items)
                                 : cfx_tuple_value(was->len, was->items);
            put(cfx_as_list(copy), s->j, v);
            v = copy;
        }
        put(in, s->i, v);
    }
    for (int64_t i = 0; i < c->options->len; i++)
        if (cfx_equal_values(c->options->items[i], out))
            return;
    if (c->options->len < OPTIONS)
        cfx_list_append(c->options, out);
}

static void add_singles(call *c, bool best) {
    for (int a = 0; a < c->n; a++) {
        if (best)
            add_option(c, true, a, cfx_none(), -1, cfx_none());
        for (int i = 0; i < c->slots[a].nforms; i++)
            add_option(c, best, a, c->slots[a].forms[i], -1, cfx_none());
    }
}

static void add_pairs(call *c) {
    for (int a = 0; a < c->n; a++)
        for (int b = a + 1; b < c->n; b++)
            for (int i = 0; i < c->slots[a].nforms; i++)
                for (int j = 0; j < c->slots[b].nforms; j++)
                    add_option(c, false, a, c->slots[a].forms[i], b, c->slots[b].forms[j]);
}

static void prepare(call *c) {
    find_slots(c);
    for (int k = 0; k < c->n; k++) {
        cfx_each_input(c->it->node, u) add_sizes(c->d, &c->slots[k], u->node);
        add_symbols(c->d, &c->slots[k]);
    }
    guess(c);
}

cfx_list *cfx__dynamic_options(dynamic *d, const item *it) {
    call c = {.d = d, .it = it, .options = cfx_as_list(cfx_list_value(0, NULL))};
    cfx_node_set_args(it->node, it->args);
    prepare(&c);
    add_option(&c, true, -1, cfx_none(), -1, cfx_none());
    add_option(&c, false, -1, cfx_none(), -1, cfx_none());
    add_singles(&c, false);
    add_singles(&c, true);
    add_pairs(&c);
    return c.options;
}

bool cfx__dynamic_creates(dynamic *d, const item *it) {
    call c = {.d = d, .it = it};
    cfx_node_set_args(it->node, it->args);
    prepare(&c);
    for (int k = 0; k < c.n; k++)
        if (c.slots[k].nforms)
            return true;
    return false;
}
