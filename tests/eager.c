/* Programs run eagerly: each call by the dispatcher, control flow by plain loops. Nothing here is
 * shared with the executors. See agree.h. */
#include "agree.h"

#include <cfx/ops.h>

#include <math.h>
#include <string.h>

#include "dispatch/dispatch.h"

/* All elements of the storage of a tensor, in a line. */
static cfx_tensor *line_of(const cfx_tensor *t) {
    const int64_t n = (int64_t)t->storage->size / cfx_dtype_size((cfx_dtype)t->dtype);
    return cfx_as_strided(t, cfx_list(n), cfx_list(1), 0);
}

/* Lying as it does in a storage as long: strides may reach all of it, from its start. */
static cfx_tensor *copy_of(cfx_tensor *t) {
    const size_t own = (size_t)(t->numel * cfx_dtype_size((cfx_dtype)t->dtype));
    if (!t->numel || (cfx__tensor_is_dense(t) && t->storage->size == own))
        return cfx_clone(t);
    return cfx_as_strided(cfx_clone(line_of(t)), cfx_ints_value(t->ndim, t->shape),
                          cfx_ints_value(t->ndim, t->stride), t->offset);
}

cfx_value eager_copy(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(copy_of(cfx_as_tensor(v))) : v;
}

/* The first tensor of a list that lies in the memory of number i; -1: it is alone. */
static int64_t beside(cfx_value list, int64_t i) {
    const cfx_tensor *t = cfx_tensor_at(list, i);
    for (int64_t k = 0; k < cfx_as_list(list)->len; k++)
        if (k != i && cfx_tensor_at(list, k)->storage == t->storage)
            return k < i ? k : i;
    return -1;
}

cfx_value eager_copies(cfx_value list) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++) {
        const cfx_tensor *t = cfx_tensor_at(list, i);
        const int64_t first = beside(list, i);
        if (first < 0) {
            cfx_list_append(cfx_as_list(out), eager_copy(cfx_as_list(list)->items[i]));
            continue;
        }
        cfx_tensor *line = first == i ? cfx_clone(line_of(t)) : line_of(cfx_tensor_at(out, first));
        cfx_list_append(cfx_as_list(out),
                        cfx_tensor_value(cfx_as_strided(line, cfx_ints_value(t->ndim, t->shape),
                                                        cfx_ints_value(t->ndim, t->stride),
                                                        t->offset)));
    }
    return out;
}

cfx_dict *eager_state(const cfx_dict *state) {
    cfx_dict *out = cfx_dict_new();
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < state->len; i++)
        cfx_list_append(cfx_as_list(all), state->entries[i].value);
    all = eager_copies(all);
    for (int64_t i = 0; i < state->len; i++)
        cfx_dict_put(out, state->entries[i].key, cfx_as_list(all)->items[i]);
    return out;
}

cfx_args eager_args(cfx_value list) {
    return (cfx_args){(int)cfx_as_list(list)->len, cfx_as_list(list)->items, NULL};
}

outcome eager_outcome(cfx_value result, cfx_value inputs, const cfx_dict *state) {
    outcome o = {.ran = cfx_ok(), .leaves = cfx_as_list(cfx_list_value(0, NULL))};
    if (!o.ran) {
        const cfx_error *e = cfx_error_last();
        o.limited = e->kind == CFX_MEMORY_ERROR || e->kind == CFX_LIMIT_ERROR;
        snprintf(o.why, sizeof o.why, "%s", e->message);
        cfx_error_clear();
        return o;
    }
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tree_flatten(result, cfx_as_list(flat));
    for (int64_t i = 0; i < cfx_as_list(flat)->len; i++)
        cfx_list_append(o.leaves, eager_copy(cfx_as_list(flat)->items[i]));
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++)
        cfx_list_append(o.leaves, eager_copy(cfx_as_list(inputs)->items[i]));
    for (int64_t i = 0; i < state->len; i++)
        cfx_list_append(o.leaves, eager_copy(state->entries[i].value));
    return o;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A run that goes on: what the program reads, and how its numbers are disturbed. */
typedef struct {
    const random_program *p;
    cfx_module *root; /* of the graph that is run */
    cfx_dict *state;
    uint64_t noise;
    int regions;      /* of autocast that are open */
    bool each;        /* calls that compute every element by itself round it alone */
    cfx_node *refused, *sharing;
} eager;

/* A few units in the last place. */
static double last_digits(const cfx_tensor *t) {
    return t->dtype == CFX_F64 ? 1e-15 : t->dtype == CFX_F32 ? 4e-7 : 4e-3;
}

/* -1.5, -0.5, 0.5 or 1.5. */
static double drawn_from(uint64_t *lot) {
    *lot = *lot * 6364136223846793005u + 1442695040888963407u;
    return (double)(*lot >> 62) - 1.5;
}

void eager_disturb(cfx_value v, uint64_t *lot) {
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (!t || !cfx__dtype_is_float((cfx_dtype)t->dtype))
        return;
    const double part = last_digits(t);
    const bool cancelled = *lot & 1; /* what terms as large as the largest number leave */
    double scale = 0;
    for (int64_t i = 0; cancelled && i < t->numel; i++) {
        const double x = fabs(cfx_tensor_get(t, i));
        scale = isfinite(x) && x > scale ? x : scale;
    }
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++) {
        const double by = drawn_from(lot), x = cfx_tensor_get(t, i);
        if (isfinite(x))
            cfx__tensor_set(t, i, cfx_float(x + by * part * (cancelled ? scale : x)));
    }
}

/* Those of a call that computes every element by itself: of the element, or of what it is made of,
 * which `made` has, where that is larger: 1 + tanh(x) loses those of 1. */
static void disturb_each(cfx_value v, const cfx_tensor *made, uint64_t *lot) {
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (!t || !cfx__dtype_is_float((cfx_dtype)t->dtype))
        return;
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++) {
        const double by = drawn_from(lot), x = cfx_tensor_get(t, i);
        const double of = made ? cfx_tensor_get(made, i) : 0;
        if (isfinite(x))
            cfx__tensor_set(t, i, cfx_float(x + by * last_digits(t) *
                                                    (isfinite(of) && of > fabs(x) ? of : x)));
    }
}

static cfx_value magnitudes(cfx_value v) {
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    return t && cfx__dtype_is_float((cfx_dtype)t->dtype) ? cfx_tensor_value(cfx_abs(t)) : v;
}

/* For each element of v the largest product of numbers of the two tensors: a cross product
 * subtracts two such, one of which compilers may leave unrounded, in PyTorch as here. */
static cfx_value products(cfx_value args, cfx_value v) {
    const cfx_tensor *a = cfx_tensor_at(args, 0), *b = cfx_tensor_at(args, 1);
    return cfx_tensor_value(cfx_add(cfx_mul(v, 0), cfx_mul(cfx_max(a), cfx_max(b))));
}

void eager_disturb_sums(const cfx_node *n, cfx_value args, cfx_value v, uint64_t *lot) {
    static const char *const names[] = {".linear.", "mm.", ".mv.", ".addmv.", "dot.", ".matmul.",
                                        ".conv", ".sum.", ".mean.", ".cumsum.",
                                        ".addcmul.", ".addcdiv.", ".logaddexp", "cross."};
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    bool sums = false;
    for (size_t i = 0; t && i < sizeof names / sizeof *names; i++)
        sums |= strstr(n->target.name, names[i]) != NULL;
    if (!sums || !n->target.op || cfx__op_info_of(n->target.op)->writes)
        return;
    cfx_value all = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        cfx_list_append(cfx_as_list(all), magnitudes(cfx_as_list(args)->items[i]));
    cfx_value terms = strstr(n->target.name, "cross.") && t->numel
                          ? products(all, v)
                          : cfx_op_do_from(CFX_HERE, n->target.op, eager_args(all));
    for (int64_t i = 0; cfx_ok() && cfx__dtype_is_float((cfx_dtype)t->dtype) && i < t->numel; i++) {
        const double x = cfx_tensor_get(t, i), scale = cfx_tensor_get(cfx_as_tensor(terms), i);
        const double by = drawn_from(lot), most = last_digits(t) * scale;
        if (isfinite(x) && isfinite(scale)) /* terms that cancel leave nothing in another order */
            cfx__tensor_set(t, i, cfx_float(fabs(x) < most && *lot >> 40 & 1 ? 0 : x + by * most));
    }
}

/* Whether there are numbers in v that no integer of dtype d is. */
static bool leaves_range(cfx_value v, cfx_dtype d) {
    const double least = d == CFX_U8 ? 0 : -ldexp(1, 8 * cfx_dtype_size(d) - 1);
    const double most = d == CFX_U8 ? 256 : -least;
    bool any = false;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            any |= leaves_range(cfx_as_list(v)->items[i], d);
    if (v.tag == CFX_TAG_TENSOR && cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(v)->dtype))
        for (int64_t i = 0; i < cfx_as_tensor(v)->numel; i++) {
            const double x = trunc(cfx_tensor_get(cfx_as_tensor(v), i));
            any |= !(x >= least && x < most);
        }
    return any;
}

/* Whether there are infinities or NaN in v. */
static bool has_special(cfx_value v) {
    bool any = false;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            any |= has_special(cfx_as_list(v)->items[i]);
    if (v.tag == CFX_TAG_TENSOR && cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(v)->dtype))
        for (int64_t i = 0; i < cfx_as_tensor(v)->numel; i++)
            any |= !isfinite(cfx_tensor_get(cfx_as_tensor(v), i));
    return any;
}

/* Whether neighbours of a tensor are in order. */
static bool is_sorted(cfx_value v) {
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    bool sorted = t && t->ndim;
    for (int64_t i = 0; sorted && i < t->numel; i++)
        sorted = i % t->shape[t->ndim - 1] == 0 || cfx_tensor_get(t, i - 1) <= cfx_tensor_get(t, i);
    return sorted;
}

/* Whether a call finds places among boundaries that are not sorted, as they have to be; or, when it
 * is decomposed, among NaN. */
static bool seeks_among_any(const cfx_node *n, cfx_value args) {
    const cfx_list *all = cfx_as_list(args);
    if (strstr(n->target.name, ".isin."))
        return has_special(args);
    return all->len > 1 && ((strstr(n->target.name, "bucketize") && !is_sorted(all->items[1])) ||
                            (strstr(n->target.name, "searchsorted") && !is_sorted(all->items[0])));
}

/* Whether a call whose arguments have infinities or NaN gives what its forms do not agree on, in
 * PyTorch either: what is interpolated between infinities, a norm whose weight is infinite (it is
 * multiplied before or after the mean is subtracted), and losses of margins, whose kernels leave
 * NaN out where their decompositions add it. */
static bool is_open(const cfx_node *n, cfx_value args) {
    static const char *const names[] = {"upsample_", "margin_loss", "group_norm", "batch_norm",
                                        "instance_norm"};
    const cfx_list *all = cfx_as_list(args);
    const bool norm = strstr(n->target.name, "_norm") && all->len;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(n->target.name, names[i]))
            return has_special(norm ? cfx_list_value(all->len - 1, all->items + 1) : args);
    return false;
}

/* Whether a call converts to a dtype: one that it is given, or that of what it writes to. */
static bool converts(const cfx_node *n, cfx_value args) {
    const cfx__op_info *info = cfx__op_info_of(n->target.op);
    bool any = info->writes || strstr(info->name, ".to.") || strstr(info->name, "type_as");
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        any |= cfx_as_list(args)->items[i].tag == CFX_TAG_DTYPE;
    return any;
}

/* The largest integer that disturb_open puts: a place may be behind the last boundary. */
static uint64_t most_open(const cfx_node *n, cfx_value args) {
    const int of = strstr(n->target.name, "bucketize") ? 1 : 0;
    const cfx_value v = seeks_among_any(n, args) ? cfx_at(args, of) : cfx_none();
    const cfx_tensor *bounds = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    return bounds && bounds->numel ? (uint64_t)bounds->shape[bounds->ndim - 1] : 1;
}

/* What PyTorch leaves open may be anything: integers of NaN, infinities and numbers out of their
 * range, places among boundaries in disorder, and what is_open tells. */
static void disturb_open(const cfx_node *n, cfx_value args, cfx_value v, uint64_t *lot) {
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            disturb_open(n, args, cfx_as_list(v)->items[i], lot);
    if (!t || !n->target.op)
        return;
    const cfx_dtype d = (cfx_dtype)t->dtype;
    const bool whole = cfx__dtype_is_int(d), floats = cfx__dtype_is_float(d);
    const bool open = seeks_among_any(n, args) ||
                      (!whole ? is_open(n, args)
                              : d != CFX_BOOL && converts(n, args) && leaves_range(args, d));
    const uint64_t most = open && d != CFX_BOOL ? most_open(n, args) : 1;
    for (int64_t i = 0; open && cfx_ok() && i < t->numel; i++) {
        *lot = *lot * 6364136223846793005u + 1442695040888963407u;
        cfx__tensor_set(t, i,
                        *lot >> 63 ? cfx_int(0)
                        : floats   ? cfx_float(NAN)
                                   : cfx_int(1 + (int64_t)((*lot >> 33) % most)));
    }
}

static cfx_value filled(const cfx_dict *values, cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return *cfx_dict_find(values, cfx_string_value(cfx_as_node(v)->name));
    if (v.tag == CFX_TAG_DICT) {
        const cfx_dict *from = cfx_as_dict(v);
        cfx_dict *to = cfx_dict_new();
        for (int64_t i = 0; i < from->len; i++)
            cfx_dict_put(to, from->entries[i].key, filled(values, from->entries[i].value));
        return cfx_dict_value(to);
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), filled(values, cfx_as_list(v)->items[i]));
    return out;
}

static cfx_value run_graph(eager *e, cfx_graph *g, cfx_value inputs);

/* ---- control flow ---------------------------------------------------------------------------- */

static cfx_value joined(cfx_value a, cfx_value b) {
    cfx_value out = cfx_list_value(cfx_as_list(a)->len, cfx_as_list(a)->items);
    for (int64_t i = 0; i < cfx_as_list(b)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx_as_list(b)->items[i]);
    return out;
}

static cfx_value run_body(eager *e, cfx_value body, cfx_value inputs) {
    cfx_module *outer = e->root;
    e->root = cfx_as_module(body);
    cfx_value v = run_graph(e, e->root->graph, inputs);
    e->root = outer;
    return v;
}

static cfx_value run_while(eager *e, const cfx_value *a) {
    cfx_value carried = a[2];
    while (cfx_ok() && cfx_is_true(run_body(e, a[0], joined(carried, a[3]))))
        carried = run_body(e, a[1], joined(carried, a[3]));
    return carried;
}

/* body(carried, a row, rest) for each row of the only tensor in xs: what is carried in the end, and
 * the rows of the last result. */
static cfx_value run_rows(eager *e, cfx_value body, cfx_value carried, cfx_value xs,
                          cfx_value rest) {
    const cfx_tensor *x = cfx_tensor_at(xs, 0);
    const int64_t kept = cfx_as_list(carried)->len;
    cfx_value rows = cfx_list_value(0, NULL);
    for (int64_t i = 0; cfx_ok() && i < x->shape[0]; i++) {
        cfx_value row = cfx_list(cfx_select(x, 0, i));
        cfx_value given = run_body(e, body, joined(joined(carried, row), rest));
        if (!cfx_ok())
            return cfx_bad();
        carried = cfx_list_value(kept, cfx_as_list(given)->items);
        cfx_list_append(cfx_as_list(rows), cfx_at(given, kept));
    }
    return joined(carried, cfx_list(cfx_stack(rows)));
}

static cfx_value run_higher(eager *e, const char *name, cfx_value args) {
    const cfx_value *a = cfx_as_list(args)->items;
    if (strstr(name, "cond"))
        return run_body(e, cfx_is_true(a[0]) ? a[1] : a[2], a[3]);
    if (strstr(name, "while_loop"))
        return run_while(e, a);
    if (strstr(name, "scan"))
        return run_rows(e, a[0], a[1], a[2], a[3]);
    return run_rows(e, a[0], cfx_list_value(0, NULL), a[1], a[2]);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Whether v, or a tensor in it, lies in the memory of t. */
static bool lies_in(cfx_value v, const cfx_tensor *t) {
    for (int64_t i = 0; v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; i++) {
        if (i == cfx_as_list(v)->len)
            return false;
        if (lies_in(cfx_as_list(v)->items[i], t))
            return true;
    }
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->numel && t->numel &&
           cfx_as_tensor(v)->storage == t->storage;
}

/* Whether a call gave the memory of its arguments, though by its row none of them is shared. */
static bool shares_unsaid(const cfx_node *n, cfx_value args, cfx_value v) {
    bool lies = false;
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++) {
        const cfx_value a = cfx_as_list(args)->items[i];
        const bool in = a.tag == CFX_TAG_TENSOR && lies_in(v, cfx_as_tensor(a));
        if (in && cfx__op_shares(n->target.op, (int)i))
            return false;
        lies |= in;
    }
    return lies;
}

/* The effects of what a node calls; a view moves, and so does an item of what a call gave. */
static unsigned effects_of(const cfx_node *n) {
    if (cfx_node_is_getitem(n))
        return effects_of(cfx_as_node(cfx_as_list(n->args)->items[0]));
    const cfx__op_info *info = n->target.op ? cfx__op_info_of(n->target.op) : NULL;
    const bool view = info && info->schema->nrets && info->schema->rets[0].alias && !info->writes;
    return view ? CFX_MOVES : info ? n->target.op->effects : 0;
}

/* For each element of a result of these sizes, the largest number that it is made of; NULL: they
 * have others. Scope. */
static cfx_tensor *made_of(cfx_value args, const cfx_tensor *result) {
    cfx_tensor *most = NULL;
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++) {
        const cfx_value a = magnitudes(cfx_as_list(args)->items[i]);
        if (a.tag != CFX_TAG_TENSOR || !cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(a)->dtype))
            continue;
        cfx_tensor *t = cfx_to(cfx_as_tensor(a), cfx_f64);
        most = most ? cfx_fmax(most, t) : t;
    }
    most = most ? cfx_expand(most, cfx_ints_value(result->ndim, result->shape)) : NULL;
    cfx_error_clear();
    return most && !cfx_failed(most) ? most : NULL;
}

/* Arguments as they are before a call that may overwrite them. */
static cfx_value kept(const cfx_node *n, cfx_value args) {
    cfx_value out = cfx_list_value(0, NULL);
    if (!cfx__op_info_of(n->target.op)->writes)
        return args;
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        cfx_list_append(cfx_as_list(out), eager_copy(cfx_as_list(args)->items[i]));
    return out;
}

/* As another order of sums and another form of functions would change what a call gave. */
static void disturb_result(const eager *e, const cfx_node *n, cfx_value given, cfx_value v,
                           uint64_t *lot) {
    const unsigned effects = e->each ? effects_of(n) : 0;
    if (effects & (CFX_MOVES | CFX_LARGEST))
        return;
    if (effects & CFX_POINTWISE && v.tag == CFX_TAG_TENSOR)
        disturb_each(v, n->target.op ? made_of(given, cfx_as_tensor(v)) : NULL, lot);
    else
        eager_disturb(v, lot);
}

static cfx_value run_node(eager *e, cfx_node *n, const cfx_dict *values) {
    if (n->op == CFX_GET_ATTR) {
        const cfx_value *own = cfx_dict_find(e->state, cfx_string_value(n->target.name));
        return own ? *own : cfx_module_attr(e->root, n->target.name);
    }
    cfx_value args = filled(values, n->args), v, given = args;
    if (cfx_node_is_getitem(n)) {
        v = cfx_at(cfx_as_list(args)->items[0], cfx_integer(cfx_as_list(args)->items[1]));
    } else if (!strncmp(n->target.name, "operator.", 9)) { /* of sizes */
        v = cfx_py(n->target.name, cfx_at(args, 0), cfx_at(args, 1));
    } else if (n->target.op) {
        given = e->noise && e->each ? kept(n, args) : args;
        v = cfx_op_do_from(CFX_HERE, n->target.op, eager_args(args));
        if (cfx_ok())
            e->regions += (strstr(n->target.name, "_enter_autocast") != NULL) -
                          (strstr(n->target.name, "_exit_autocast") != NULL);
        if (cfx_ok() && shares_unsaid(n, args, v))
            e->sharing = n;
    } else {
        v = run_higher(e, n->target.name, args);
    }
    if (e->noise && cfx_ok()) {
        if (!cfx_node_is_getitem(n)) {
            disturb_open(n, args, v, &e->noise);
            eager_disturb_sums(n, args, v, &e->noise);
        }
        disturb_result(e, n, given, v, &e->noise);
    }
    return v;
}

static cfx_value run_graph(eager *e, cfx_graph *g, cfx_value inputs) {
    cfx_dict *values = cfx_dict_new();
    int64_t next = 0;
    cfx_each_node(g, n) {
        if (n->op == CFX_OUTPUT)
            return filled(values, cfx_as_list(n->args)->items[0]);
        cfx_value v = n->op == CFX_PLACEHOLDER ? cfx_as_list(inputs)->items[next++]
                                               : run_node(e, n, values);
        if (!cfx_ok()) {
            e->refused = n; /* of several graphs the outermost, which is left last */
            return cfx_bad();
        }
        cfx_dict_set(values, n->name, v);
    }
    return cfx_bad();
}

outcome eager_run(const random_program *p, uint64_t noise, bool each) {
    eager e = {.p = p, .each = each, .root = p->root, .noise = noise};
    cfx_value inputs = eager_copies(p->inputs);
    e.state = eager_state(p->state);
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_manual_seed(7);
    cfx_value result = run_graph(&e, p->graph, inputs);
    outcome o = eager_outcome(result, inputs, e.state);
    while (e.regions-- > 0) /* that a refusal left open */
        cfx_autocast_end();
    o.refused = e.refused;
    o.sharing = e.sharing;
    cfx_set_grad_mode(mode);
    return o;
}
