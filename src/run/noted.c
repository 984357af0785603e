/* Verifies that calls compute what their metadata says, at several sizes if sizes are symbolic.
 * Start at cfx__verify_call. */
#include "../base/held.h"
#include "problems.h"

typedef cfx__finding finding;

/* ---- symbols --------------------------------------------------------------------------------- */

static bool has_symbol(const cfx_result *r) {
    if (r->kind == CFX_RESULT_TENSOR)
        return !r->shape;
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        if (has_symbol(&item))
            return true;
    }
    return r->value.tag == CFX_TAG_SYM || r->value.tag == CFX_TAG_STR;
}

/* What n reads of an input: one of several results where it takes that, not all of them. */
static cfx_result read_of(const cfx_node *n, const cfx_node *input) {
    cfx_result r = cfx_node_result(input);
    const int64_t i = cfx_node_takes_result(n) ? cfx_integer(cfx_as_list(n->args)->items[1]) : -1;
    return i >= 0 && i < cfx_result_count(&r) ? cfx_result_item(&r, i) : r;
}

/* Whether what n computes may depend on a symbol. */
static bool is_symbolic(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    if (has_symbol(&r))
        return true;
    cfx_each_input(n, u) {
        cfx_result in = read_of(n, u->node);
        if (has_symbol(&in))
            return true;
    }
    return false;
}

/* Adds the names of the symbols in an expression or a result, each once. */
static void collect_names(cfx_dict *names, const struct cfx_sym *e) {
    if (!e)
        return;
    if (e->op == CFX__SYM_NAME)
        cfx_dict_set(names, e->name, cfx_none());
    collect_names(names, e->a);
    collect_names(names, e->b);
}

static void collect_symbols(cfx_dict *names, cfx_value v) {
    if (v.tag == CFX_TAG_SYM)
        collect_names(names, cfx_as_sym(v));
    else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            collect_symbols(names, cfx_as_list(v)->items[i]);
    else if (v.tag == CFX_TAG_DICT)
        collect_symbols(names, cfx_dict_get(cfx_as_dict(v), "shape"));
}

/* The symbols that n has to do with. */
static cfx_dict *symbols_of(const cfx_node *n) {
    cfx_dict *names = cfx_dict_new();
    collect_symbols(names, cfx_node_get_meta(n, "val"));
    cfx_each_input(n, u) collect_symbols(names, cfx_node_get_meta(u->node, "val"));
    return names;
}

/* "with s0 = 5, s1 = 7", the sizes of world k; "" where n has to do with none. Scope. */
static const char *sizes_text(const finding *f, const cfx_node *n) {
    cfx__text out = {0};
    const cfx_dict *names = symbols_of(n);
    for (int64_t i = 0; i < names->len; i++) {
        const char *name = cfx_text(names->entries[i].key);
        const cfx__symbol *s = cfx__worlds_find(&f->infer.worlds, name);
        if (s)
            cfx__text_printf(&out, "%s%s = %lld", out.len ? ", " : "with ", name,
                             (long long)s->size.at[f->infer.k]);
    }
    return cfx__text_take(&out);
}

/* A symbol of an input that n's result is declared without: where sizes differ, the one computed is
 * the symbol's, and the one declared a number. In PyTorch's words; "" where it is nothing so plain.
 */
static const char *specialized(const finding *f, const cfx_node *n, const cfx_result *got,
                               const cfx_result *noted) {
    cfx_result declared = cfx_node_result(n);
    const cfx_dict *names = symbols_of(n);
    for (int i = 0; got->kind == CFX_RESULT_TENSOR && noted->kind == CFX_RESULT_TENSOR &&
                    got->ndim == noted->ndim && i < got->ndim; i++) {
        if (got->shape[i] == noted->shape[i] || cfx_result_size(&declared, i).tag != CFX_TAG_INT)
            continue;
        for (int64_t k = 0; k < names->len; k++) {
            const char *name = cfx_text(names->entries[k].key);
            const cfx__symbol *s = cfx__worlds_find(&f->infer.worlds, name);
            if (s && s->size.at[f->infer.k] == got->shape[i])
                return cfx__text_format(": %s was inferred to be a constant (%lld)", name,
                                        (long long)noted->shape[i]);
        }
    }
    return "";
}

/* Whether sizes that only data could tell have to do with n: those that shape rules run at may be
 * none that it can have. */
static bool has_data_sizes(const cfx_node *n) {
    const cfx_dict *names = symbols_of(n);
    for (int64_t i = 0; i < names->len; i++)
        if (*cfx_text(names->entries[i].key) == 'u')
            return true;
    return false;
}

/* ---- results --------------------------------------------------------------------------------- */

/* PyTorch notes the last states of an lstm with a dimension of 1 too many, behind the first: its
 * decomposition, which tells shapes, takes the wrong one away. */
static bool is_pytorchs(const cfx_node *n, const cfx_result *got, const cfx_result *noted) {
    bool same =
        cfx_node_is(n, "lstm") && cfx_result_count(got) == 3 && cfx_result_count(noted) == 3;
    for (int i = 0; same && i < 3; i++) {
        cfx_result x = cfx_result_item(got, i), y = cfx_result_item(noted, i);
        bool more = i && x.kind == y.kind && y.kind == CFX_RESULT_TENSOR && y.ndim == x.ndim + 1 &&
                    x.ndim && x.dtype == y.dtype && y.shape[1] == 1;
        same = more ? x.shape[0] == y.shape[0] &&
                          !memcmp(x.shape + 1, y.shape + 2, (size_t)(x.ndim - 1) * sizeof *x.shape)
                    : cfx__infer_same(&x, &y);
    }
    return same;
}

/* n in the worlds that are tried, up to the first where it does not compute what is noted. */
static cfx__verdict compare_in_worlds(finding *f, cfx_node *n, cfx_result *got, cfx_result *noted) {
    int most = is_symbolic(n) ? f->infer.worlds.n : 1;
    cfx__verdict v = CFX__AS_NOTED;
    for (int k = 0; k < most && v == CFX__AS_NOTED; k++) {
        if (!(CFX__TRIED_WORLDS >> k & 1))
            continue;
        f->infer.k = k;
        v = cfx__infer_compare(&f->infer, n, got, noted);
        if ((v == CFX__OTHERWISE && is_pytorchs(n, got, noted)) ||
            (v == CFX__REFUSED && k && cfx__error_large() && cfx__error_forgive()))
            v = CFX__AS_NOTED;
    }
    return v;
}

/* Whether the operator of n takes its inputs at some sizes: those that data decides may have been
 * such as they cannot be together. The error is forgotten then. */
static bool runs_somewhere(finding *f, cfx_node *n) {
    cfx_result got, noted;
    int k = f->infer.k;
    bool runs = false;
    const cfx_error_kind kind = cfx_error_last()->kind;
    cfx__error_held held;
    if (kind == CFX_MEMORY_ERROR || kind == CFX_LIMIT_ERROR)
        return false;
    cfx__error_hold(&held);
    cfx__infer_widen(&f->infer);
    for (f->infer.k = 0; f->infer.k < CFX__FEW_WORLDS && !runs; f->infer.k++) {
        runs = cfx__infer_compare(&f->infer, n, &got, &noted) != CFX__REFUSED;
        if (!runs && !cfx__error_forgive())
            break;
    }
    f->infer.k = k;
    if (runs) {
        cfx__text_release(&held.message);
        cfx__text_release(&held.notes);
    } else {
        cfx__error_put_back(&held);
    }
    return runs;
}

static void check_result(finding *f, cfx_node *n) {
    cfx_result got = {0}, noted = {0};
    cfx__infer_begin(&f->infer);
    if (cfx__infer_is_known(&f->infer, n))
        return;
    cfx__verdict v = compare_in_worlds(f, n, &got, &noted);
    if (v == CFX__AS_NOTED)
        cfx__infer_learned(&f->infer, n);
    if (v == CFX__REFUSED && has_data_sizes(n) && runs_somewhere(f, n))
        v = CFX__AS_NOTED;
    const char *with = v != CFX__AS_NOTED ? sizes_text(f, n) : "";
    if (v == CFX__OTHERWISE)
        cfx__problem_add(f, n, CFX_RUNTIME_ERROR, "node %s computes %s%s%s, but %s is noted%s",
                         n->name, cfx_result_text(&got), *with ? " " : "", with,
                         cfx_result_text(&noted), specialized(f, n, &got, &noted));
    else if (v == CFX__REFUSED)
        cfx__problem_take(f, n, *with ? cfx__text_format("%s: ", with) : "");
    f->infer.k = 0;
}

void cfx__verify_call(finding *f, cfx_node *n) {
    size_t mark = cfx_scope_open();
    if (!cfx__run_known(n))
        cfx__problem_add(f, n, CFX_RUNTIME_ERROR, "We failed to resolve %s to an operator%s",
                         n->target.name, cfx__dispatch_hint(n->target.name));
    else if (cfx_node_higher_order(n))
        cfx__verify_subgraphs(f, n);
    else
        check_result(f, n);
    cfx_scope_close(mark);
}
