/* cfx opt --dynamic: sizes of inputs become symbols, and the program is run at several. */
#include "look.h"


#include <string.h>

typedef struct {
    cfx_program *before, *after;
    const cfx_list *flat; /* inputs of the example */
    cfx_list *results;    /* of the example */
} trying;

/* A size as it is asked for: "in0.1=length". */
static bool add_size(cfx_dict *sizes, const char *text) {
    const char *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1]) {
        cli_usage(&cli_opt, "--dynamic wants IN.DIM=NAME, in0.0=batch, not '%s'", text);
        return false;
    }
    cfx_dict_put(sizes, cfx_string_value_n(text, (size_t)(equal - text)),
                 cfx_string_value(equal + 1));
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The leaves of what a program gives for inputs; NULL, with an error. */
static cfx_list *leaves_of(cfx_program *p, const cfx_list *flat) {
    cfx_list *copies = cfx_as_list(cfx_list_value(0, NULL)), *leaves;
    for (int64_t i = 0; i < flat->len; i++) /* a program may write to them */
        cfx_list_append(copies, flat->items[i].tag == CFX_TAG_TENSOR
                                    ? cfx_tensor_value(cfx_clone(flat->items[i]))
                                    : flat->items[i]);
    cfx_program *own = cfx_program_copy(p);
    cfx_manual_seed(0);
    cfx_value v = cfx_program_run_from((cfx_site){0}, own,
                                       (cfx_args){(int)copies->len, copies->items, NULL});
    if (cfx_is_bad(v) || !cfx_ok())
        return NULL;
    leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(v, leaves);
    return leaves;
}

/* Rows 0 to n - 1 of a dimension, from the first again after the last. */
static cfx_value rows(cfx_value x, int dim, int64_t n) {
    const int64_t there = cfx_as_tensor(x)->shape[dim];
    cfx_value at = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(at), cfx_int(i % there));
    return cfx_tensor_value(cfx_index_select(x, dim, cfx_tensor_from_value(at)));
}

/* The dimension of a result that is the symbol and nothing else; -1: none, or several. */
static int dim_of(const cfx_node *n, cfx_value symbol) {
    cfx_result r = n ? cfx_node_result(n) : (cfx_result){0};
    int dim = -1, count = 0;
    for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++)
        if (cfx_equal_values(cfx_result_size(&r, i), symbol))
            dim = i, count++;
    return count == 1 ? dim : -1;
}

/* The node of the caller's result number i. */
static const cfx_node *result_node(const cfx_program *p, int64_t i) {
    for (int k = 0; k < p->noutputs; k++)
        if (p->outputs[k].kind == CFX_OUT_USER && i-- == 0)
            return p->outputs[k].name ? cfx_graph_find(p->module->graph, p->outputs[k].name) : NULL;
    return NULL;
}

enum { ALONE = 0, TOGETHER = -1 };

/* An input with other rows: numbers are smaller, integers and truths the other way round. */
static cfx_value other(cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR || !cfx_as_tensor(v)->ndim)
        return v;
    return cfx_is_true(cfx_is_floating_point(v))
               ? cfx_tensor_value(cfx_mul(v, 0.75))
               : cfx_tensor_value(cfx_flip(v, cfx_list(-1)));
}

static cfx_value one_after_other(cfx_value a, cfx_value b, int dim) {
    return cfx_tensor_value(cfx_cat(cfx_list(a, b), dim));
}

/* Inputs with n rows where the symbol says how many there are. With ALONE or TOGETHER for n, other
 * rows in their place, or behind them. */
static cfx_list *inputs_at(const trying *t, cfx_value symbol, int64_t n) {
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    const cfx_program *p = t->after;
    for (int i = 0, k = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_value v = t->flat->items[k++];
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        for (int d = 0; v.tag == CFX_TAG_TENSOR && d < r.ndim; d++)
            if (cfx_equal_values(cfx_result_size(&r, d), symbol))
                v = n == ALONE      ? other(v)
                    : n == TOGETHER ? one_after_other(v, other(v), d)
                                    : rows(v, d, n);
        cfx_list_append(out, v);
    }
    return out;
}

/* Whether results are, row by row, those of the example: as of a batch they should be. */
static double nearness(cfx_value v) {
    const cfx_dtype dtype = cfx_as_tensor(v)->dtype;
    return dtype == CFX_F16 ? 1e-2 : dtype == CFX_BF16 ? 5e-2 : 1e-4;
}

static bool are_near(cfx_value a, cfx_value b) {
    return cfx_is_true(cfx_allclose(a, b, nearness(b), nearness(b), true));
}

static bool has_same_rows(const trying *t, const cfx_list *got, cfx_value symbol, int64_t n) {
    bool same = true;
    for (int64_t i = 0; i < got->len && same; i++) {
        cfx_value was = t->results->items[i], now = got->items[i];
        int dim = dim_of(result_node(t->after, i), symbol);
        if (dim < 0 || was.tag != CFX_TAG_TENSOR || now.tag != CFX_TAG_TENSOR)
            continue;
        same = are_near(now, rows(was, dim, n));
    }
    return same && cfx_ok();
}

/* Runs the program where a size is n; whether it does. Shapes fit by now: where it fails with fewer
 * rows than the example has, numbers in its inputs point at rows that are not there. That is told,
 * and no error. */
static bool try_size(const trying *t, const char *name, cfx_value symbol, int64_t n) {
    size_t mark = cfx_scope_open();
    const long long hint = cfx_as_sym(symbol)->hint;
    const cfx_list *got = leaves_of(t->after, inputs_at(t, symbol, n));
    if (got)
        cli_say("%s = %lld: runs, %s\n", name, (long long)n,
                has_same_rows(t, got, symbol, n) ? "and each row is that of the example"
                                                 : "and rows depend on how many there are");
    const char *why = got ? NULL : cfx__text_format("%s", cfx_error_last()->message);
    if (why && n < hint && cfx__error_forgive())
        cli_say("%s = %lld: not with the rows of the example: %s\n", name, (long long)n, why);
    else if (why)
        cfx_error_note("it works where %s is %lld, not where it is %lld", name, hint, (long long)n);
    cfx_scope_close(mark);
    return cfx_ok();
}

/* Runs the program on the rows of two examples at once: as of a batch, each should be what it is by
 * itself, and what has no row for each is told. */
static bool try_both(const trying *t, const char *name, cfx_value symbol) {
    size_t mark = cfx_scope_open();
    const long long both = 2 * cfx_as_sym(symbol)->hint;
    const cfx_list *others = leaves_of(t->before, inputs_at(t, symbol, ALONE));
    const cfx_list *got = others ? leaves_of(t->after, inputs_at(t, symbol, TOGETHER)) : NULL;
    bool alone = true;
    for (int64_t i = 0; got && i < got->len && cfx_ok(); i++) {
        cfx_value a = t->results->items[i], b = others->items[i];
        int dim = dim_of(result_node(t->after, i), symbol);
        if (a.tag != CFX_TAG_TENSOR || got->items[i].tag != CFX_TAG_TENSOR)
            continue;
        if (dim >= 0)
            alone &= are_near(got->items[i], one_after_other(a, b, dim));
        else if (!are_near(a, b))
            cli_say("out%lld is one of all rows, and has none for each\n", (long long)i);
    }
    if (got && cfx_ok())
        cli_say("%s = %lld, of rows that differ: %s\n", name, both,
                alone ? "each is what it is by itself" : "they depend on each other");
    if (!cfx_ok())
        cfx__error_forgive(); /* what indices point at depends on how many rows there are */
    cfx_scope_close(mark);
    return cfx_ok();
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool try_sizes(const trying *t, const char *name, cfx_value symbol) {
    const int64_t hint = cfx_as_sym(symbol)->hint;
    const char *text = cfx_value_str(symbol);
    cfx_value range = cfx_dict_get(t->after->ranges, text);
    cfx_value least = cfx_at(range, 0), most = cfx_at(range, 1);
    cli_say("%s is %s, from %s%s%s\n", name, text, cfx_value_str(least),
            most.tag == CFX_TAG_INT ? " to " : " on",
            most.tag == CFX_TAG_INT ? cfx_value_str(most) : "");
    const int64_t tried[] = {cfx_integer(least), hint + 1, 2 * hint + 1};
    bool fine = true;
    for (size_t i = 0; i < sizeof tried / sizeof *tried && fine; i++)
        if (tried[i] != hint && (most.tag != CFX_TAG_INT || tried[i] <= cfx_integer(most)))
            fine = try_size(t, name, symbol, tried[i]);
    if (fine && (most.tag != CFX_TAG_INT || 2 * hint <= cfx_integer(most)))
        fine = try_both(t, name, symbol);
    return fine;
}

/* Every symbol that inputs have now and had not before, called as the caller did. */
static bool try_all(const trying *t, const cfx_dict *sizes) {
    cfx_dict *seen = cfx_dict_new();
    bool fine = true;
    for (int i = 0, k = 0; i < t->after->ninputs && fine; i++) {
        const char *input = t->after->inputs[i].name;
        if (t->after->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_result r = cfx_node_result(cfx_graph_find(t->after->module->graph, input));
        for (int d = 0; d < r.ndim && fine; d++) {
            cfx_value name = cfx_dict_get(sizes, cfx__text_format("in%d.%d", k, d));
            if (cfx_is_none(name))
                name = cfx_dict_get(sizes, cfx__text_format("%s.%d", input, d));
            cfx_value size = cfx_result_size(&r, d);
            if (cfx_is_none(name) || cfx_dict_find(seen, name))
                continue;
            cfx_dict_put(seen, name, size);
            fine = try_sizes(t, cfx_text(name), size);
        }
        k++;
    }
    return fine;
}

int cli_dynamic(const char *model, const char *inputs, const char *const *sizes, int n,
                cli_out *out) {
    cfx_dict *all = cfx_dict_new();
    for (int i = 0; i < n; i++)
        if (!add_size(all, sizes[i]))
            return CLI_TROUBLE;
    cfx_program *p = cli_read(model, out);
    cfx_program *q = cfx_ok() ? cfx_make_dynamic(p, all) : NULL;
    if (!q || !cfx_ok())
        return cli_trouble();
    int code = cli_verify(model, inputs, q, 0);
    if (code != CLI_DONE)
        return code;
    cfx_value flat = cfx_list_value(0, NULL);
    if (!cli_choose_inputs(p, inputs, cfx_as_list(flat)))
        return cli_trouble();
    trying t = {.before = p, .after = q, .flat = cfx_as_list(flat)};
    if (!(t.results = leaves_of(p, t.flat)))
        return cli_trouble();
    if (!try_all(&t, all))
        return cli_trouble();
    return cli_write(q, out);
}
