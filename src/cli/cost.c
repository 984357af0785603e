/* cfx show --cost: costs by operator and in all, as numbers or as polynomials.
 *
 * Where sizes are symbols, costs are counted at three values of each symbol; a polynomial of degree
 * two in each goes through these, and has to go through one more point to be believed. */
#include "cost.h"

#include <math.h>
#include <string.h>

#include "../graph/graph.h"

enum { DEGREES = 3 };

static const int64_t values[DEGREES] = {48, 96, 144};
static const int64_t other_value = 240;

/* ---- points ---------------------------------------------------------------------------------- */

static void add_names(const struct cfx_sym *e, cfx_dict *names) {
    if (e->op == CFX__SYM_NAME)
        cfx_dict_set(names, e->name, cfx_none());
    else if (e->op != CFX__SYM_INT) {
        add_names(e->a, names);
        add_names(e->b, names);
    }
}

/* The symbols that sizes are made of: a program may declare more. */
static cfx_dict *symbols_of(const cfx_program *p) {
    cfx_dict *names = cfx_dict_new();
    cfx_each_node(p->module->graph, n) {
        cfx_result r = cfx_node_result(n);
        for (int k = 0; r.kind == CFX_RESULT_TENSOR && k < r.ndim; k++) {
            cfx_value size = cfx_result_size(&r, k);
            if (size.tag == CFX_TAG_SYM)
                add_names(cfx_as_sym(size), names);
        }
    }
    return names;
}

/* "s0=8" into a dict; false, with an error, where it is no size of a symbol of the program. */
static bool read_size(const cfx_program *p, const char *word, cfx_dict *sizes) {
    const char *equal = strchr(word, '=');
    char *end = NULL;
    long long n = equal ? strtoll(equal + 1, &end, 10) : 0;
    if (!equal || equal == word || end == equal + 1 || *end || n < 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--size wants SYMBOL=NUMBER, not '%s'", word);
        return false;
    }
    const char *name = cfx__string_new(word, (size_t)(equal - word))->text;
    const cfx_dict *symbols = symbols_of(p);
    if (!cfx_dict_find(symbols, cfx_string_value(name))) {
        cfx__text all = {0};
        for (int64_t i = 0; i < symbols->len; i++)
            cfx__text_printf(&all, "%s%s", i ? ", " : "", cfx_text(symbols->entries[i].key));
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "no size of the program is called %s; %s%s", name,
                 all.len ? "there are " : "all are known", all.len ? all.data : "");
        cfx__text_release(&all);
        return false;
    }
    cfx_dict_set(sizes, name, cfx_int(n));
    return true;
}

/* The value of symbol k at a point; the last point is the one beside the grid. */
static int64_t value_at(const cli_costs *c, int point, int k) {
    if (c->npoints > 1 && point == c->npoints - 1)
        return other_value + 16 * k;
    for (int i = 0; i < k; i++)
        point /= DEGREES;
    return values[point % DEGREES];
}

bool cli_costs_of(cli_costs *c, cfx_program *p, const char *const *words, int nwords) {
    *c = (cli_costs){.program = p, .npoints = 1};
    cfx_dict *sizes = cfx_dict_new();
    for (int i = 0; i < nwords; i++)
        if (!read_size(p, words[i], sizes))
            return false;
    const cfx_dict *symbols = symbols_of(p);
    for (int64_t i = 0; i < symbols->len; i++) {
        const char *name = cfx_text(symbols->entries[i].key);
        if (cfx_dict_find(sizes, symbols->entries[i].key))
            continue;
        if (c->nsymbols == CLI_SYMBOLS) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "more than %d sizes are symbols: give some of them a value, --size %s=8",
                     CLI_SYMBOLS, name);
            return false;
        }
        c->symbols[c->nsymbols++] = name;
        c->npoints *= DEGREES;
    }
    c->npoints += c->npoints > 1;
    for (int i = 0; i < c->npoints; i++) {
        for (int k = 0; k < c->nsymbols; k++)
            cfx_dict_set(sizes, c->symbols[k], cfx_int(value_at(c, i, k)));
        c->at[i] = cfx_program_cost(p, sizes);
        if (cfx_failed(c->at[i]))
            return false;
    }
    return true;
}

/* Sums stay at the largest number where they would be beyond it. */
static void grow(int64_t *sum, int64_t by, int64_t times) {
    if (__builtin_mul_overflow(by, times, &by) || __builtin_add_overflow(*sum, by, sum))
        *sum = INT64_MAX;
}

void cli_sum_node(const cli_costs *c, cli_sum *sum, cli_what what, int i) {
    for (int k = 0; k < c->npoints; k++) {
        const cfx_node_cost *n = &c->at[k]->nodes[i];
        grow(&sum->at[k], what == CLI_FLOPS ? n->flops : n->bytes, 1);
    }
}

void cli_sum_add(cli_sum *sum, const cli_sum *other, int64_t times) {
    for (int k = 0; k < CLI_POINTS; k++)
        grow(&sum->at[k], other->at[k], times);
}

/* ---- polynomials ----------------------------------------------------------------------------- */

static const char *brief(double x) {
    static const char *const signs[] = {"", " k", " M", " G", " T", " P"};
    int k = 0;
    for (; fabs(x) >= 9999.5 && k < COUNT(signs) - 1; k++)
        x /= 1000;
    return x == floor(x) && !k ? cfx__text_format("%.0f", x)
                               : cfx__text_format("%.4g%s", x, signs[k]);
}

/* Coefficients of the parabola through three points that are one stride apart, in place. */
static void fit_three(long double *a, int stride) {
    long double h = values[1] - values[0], x = values[0];
    long double y0 = a[0], y1 = a[stride], y2 = a[2 * stride];
    long double c2 = (y2 - 2 * y1 + y0) / (2 * h * h), c1 = (y1 - y0) / h - c2 * (2 * x + h);
    a[0] = y0 - c1 * x - c2 * x * x;
    a[stride] = c1;
    a[2 * stride] = c2;
}

/* The polynomial through the points of the grid: coefficient of s0^i * s1^j at i + 3 j. False where
 * the last point is not on it. */
static bool fit(const cli_costs *c, const cli_sum *sum, long double *a) {
    int n = c->npoints - 1;
    for (int i = 0; i < n; i++)
        a[i] = sum->at[i];
    for (int stride = 1; stride < n; stride *= DEGREES)
        for (int i = 0; i < n; i++)
            if (i / stride % DEGREES == 0)
                fit_three(a + i, stride);
    long double at_last = 0;
    for (int i = 0; i < n; i++) {
        long double term = a[i] = roundl(a[i] * 1024) / 1024;
        for (int k = 0, rest = i; k < c->nsymbols; k++, rest /= DEGREES)
            for (int d = rest % DEGREES; d > 0; d--)
                term *= value_at(c, n, k);
        at_last += term;
    }
    return fabsl(at_last - sum->at[n]) <= 1e-6L * fabsl(at_last) + 1;
}

static const char *exact(double x) { return cfx__text_format("%.17g", x); }

/* The polynomial, with its numbers in a form; NULL: there is none. Scope. */
static const char *polynomial(const cli_costs *c, const cli_sum *sum,
                              const char *(*number)(double x)) {
    long double a[CLI_POINTS];
    if (!fit(c, sum, a))
        return NULL;
    cfx__text out = {0};
    for (int i = c->npoints - 2; i >= 0; i--) {
        if (fabsl(a[i]) < 1e-9L)
            continue;
        cfx__text_puts(&out, out.len ? " + " : "");
        bool named = false;
        if (i == 0 || a[i] != 1) {
            cfx__text_puts(&out, number((double)a[i]));
            named = true;
        }
        for (int k = 0, rest = i; k < c->nsymbols; k++, rest /= DEGREES) {
            if (!(rest % DEGREES))
                continue;
            cfx__text_printf(&out, "%s%s%s", named ? "*" : "", c->symbols[k],
                             rest % DEGREES > 1 ? "^2" : "");
            named = true;
        }
    }
    return out.len ? cfx__text_take(&out) : "0";
}

const char *cli_sum_text(const cli_costs *c, const cli_sum *sum) {
    const char *text = c->npoints == 1 ? brief((double)sum->at[0]) : polynomial(c, sum, brief);
    return text ? text : "?";
}

cfx_value cli_sum_value(const cli_costs *c, const cli_sum *sum) {
    bool varies = false;
    for (int k = 1; k < c->npoints; k++)
        varies |= sum->at[k] != sum->at[0];
    const char *text = varies ? polynomial(c, sum, exact) : NULL;
    return !varies ? cfx_int(sum->at[0]) : text ? cfx_string_value(text) : cfx_none();
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct op_row {
    const char *name;
    int64_t calls;
    cli_sum flops, bytes;
} op_row;

typedef VEC(op_row) op_rows;

static int by_cost(const void *a, const void *b) {
    const op_row *x = a, *y = b;
    if (x->flops.at[0] != y->flops.at[0])
        return x->flops.at[0] < y->flops.at[0] ? 1 : -1;
    if (x->bytes.at[0] != y->bytes.at[0])
        return x->bytes.at[0] < y->bytes.at[0] ? 1 : -1;
    return strcmp(x->name, y->name);
}

static bool is_call(const cfx_node *n) {
    return n->op == CFX_CALL_FUNCTION && !cfx_node_is_getitem(n);
}

/* Whether a node's cost is in the total: nodes of sub-graphs are in that of their holder. */
static bool is_counted(const cli_costs *c, const cfx_node_cost *n) {
    return n->owner == c->program->module;
}

static op_rows by_operator(const cli_costs *c) {
    op_rows rows = {0};
    cfx__map index = {0};
    for (int i = 0; i < c->at[0]->n; i++) {
        const cfx_node_cost *n = &c->at[0]->nodes[i];
        if (!is_counted(c, n) || !is_call(n->node))
            continue;
        const char *name = n->node->target.name;
        name = strncmp(name, "torch.ops.", 10) ? name : name + 10;
        uintptr_t at = (uintptr_t)cfx__map_get(&index, name);
        if (!at) {
            VEC_PUSH(rows, (op_row){.name = name});
            at = rows.len;
            cfx__map_set(&index, name, (void *)at);
        }
        rows.data[at - 1].calls++;
        cli_sum_node(c, &rows.data[at - 1].flops, CLI_FLOPS, i);
        cli_sum_node(c, &rows.data[at - 1].bytes, CLI_BYTES, i);
    }
    cfx__map_release(&index);
    if (rows.len)
        qsort(rows.data, rows.len, sizeof *rows.data, by_cost);
    return rows;
}

/* A number of the whole program, as all have it. */
static cli_sum whole_of(const cli_costs *c, int64_t (*of)(const cfx_cost *cost)) {
    cli_sum sum = {0};
    for (int k = 0; k < c->npoints; k++)
        sum.at[k] = of(c->at[k]);
    return sum;
}

static int64_t all_flops(const cfx_cost *cost) { return cost->flops; }
static int64_t all_bytes(const cfx_cost *cost) { return cost->bytes; }
static int64_t all_alive(const cfx_cost *cost) { return cost->peak; }

static void print_peak(const cli_costs *c) {
    const cfx_cost *cost = c->at[0];
    if (c->npoints > 1) {
        const cli_sum peak = whole_of(c, all_alive);
        cli_print("results   %s bytes alive at most\n", cli_sum_text(c, &peak));
        return;
    }
    cli_print("results   %s made, %s alive at most", cli_bytes(cost->bytes), cli_bytes(cost->peak));
    if (cost->peak_at >= 0)
        cli_print(", at %s", cost->nodes[cost->peak_at].node->name);
    cli_print("\n");
}

void cli_print_costs(const cli_costs *c) {
    op_rows rows = by_operator(c);
    cli_sum flops = {0}, macs = {0};
    int width = 8;
    for (size_t i = 0; i < rows.len; i++) {
        cli_sum_add(&flops, &rows.data[i].flops, 1);
        width = (int)strlen(rows.data[i].name) > width ? (int)strlen(rows.data[i].name) : width;
    }
    cli_print("\n%-*s %7s %7s %10s  %s\n", width, "operator", "calls",
              c->npoints == 1 ? "share" : "", "FLOPs", "results (bytes)");
    for (size_t i = 0; i < rows.len; i++)
        CFX_SCOPE {
            const op_row *r = &rows.data[i];
            double all = (double)flops.at[0];
            const char *share = cfx__text_format("%.1f%%", 100 * (double)r->flops.at[0] / all);
            cli_print("%-*s %7lld %7s %10s  %s\n", width, r->name, (long long)r->calls,
                      all > 0 && c->npoints == 1 ? share : "", cli_sum_text(c, &r->flops),
                      cli_sum_text(c, &r->bytes));
        }
    for (int k = 0; k < CLI_POINTS; k++)
        macs.at[k] = flops.at[k] / 2;
    cli_print("\nFLOPs     %s (%s multiply-adds)\n", cli_sum_text(c, &flops),
              cli_sum_text(c, &macs));
    print_peak(c);
    if (c->at[0]->unknown)
        cli_print("%d calls are not counted: nothing tells their shapes\n", c->at[0]->unknown);
    VEC_FREE(rows);
}

/* ---- for other programs ---------------------------------------------------------------------- */

static cfx_value column(const cli_costs *c, int64_t (*of)(const cfx_node_cost *n)) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < c->at[0]->n; i++) {
        const cfx_node_cost *n = &c->at[0]->nodes[i];
        if (is_counted(c, n) && is_call(n->node))
            cfx_dict_set(d, n->node->name, cfx_int(of(n)));
    }
    return cfx_dict_value(d);
}

static int64_t flops_of(const cfx_node_cost *n) { return n->flops; }
static int64_t bytes_of(const cfx_node_cost *n) { return n->bytes; }
static int64_t live_of(const cfx_node_cost *n) { return n->live; }

static void note_whole(const cli_costs *c, const char *key, int64_t (*of)(const cfx_cost *cost)) {
    const cli_sum sum = whole_of(c, of);
    cli_answer(key, cli_sum_value(c, &sum));
}

void cli_note_costs(const cli_costs *c) {
    op_rows rows = by_operator(c);
    note_whole(c, "flops", all_flops);
    note_whole(c, "bytes", all_bytes);
    note_whole(c, "peak", all_alive);
    cli_answer("unknown", cfx_int(c->at[0]->unknown));
    for (size_t i = 0; i < rows.len; i++)
        CFX_SCOPE {
            const op_row *r = &rows.data[i];
            cli_answer_row("operators",
                           cfx_dict_of("operator", r->name, "calls", r->calls, "flops",
                                       cli_sum_value(c, &r->flops), "results",
                                       cli_sum_value(c, &r->bytes)));
        }
    VEC_FREE(rows);
    if (c->npoints == 1)
        cli_answer("columns", cfx_dict_of("FLOPs", column(c, flops_of), "result (bytes)",
                                          column(c, bytes_of), "alive (bytes)",
                                          column(c, live_of)));
}
