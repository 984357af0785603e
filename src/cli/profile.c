/* cfx run --profile: where the time goes, as tables and as a trace for chrome://tracing and
 * Perfetto, with a row for modules and a counter of the bytes alive. */
#include "profile.h"

#include <string.h>

#include <cfx/ops.h>

#include "../base/pool.h"
#include "../run/run.h"
#include "../value/json.h"

enum { SLOWEST = 20, LISTED = 16 };

static double now_us(void) { return (double)cfx__clock_ns() * 1e-3; }

/* ---- taking down ----------------------------------------------------------------------------- */

/* What symbols are in this run: sizes of inputs that are nothing but a symbol. */
static cfx_dict *sizes_of(const cfx_program *p, cfx_value inputs) {
    cfx_dict *sizes = cfx_dict_new();
    int64_t i = 0;
    cfx_each_node(p->module->graph, n) {
        if (n->op != CFX_PLACEHOLDER || i >= cfx_as_list(inputs)->len)
            continue;
        cfx_value v = cfx_as_list(inputs)->items[i++];
        cfx_result r = cfx_node_result(n);
        for (int k = 0; v.tag == CFX_TAG_TENSOR && k < r.ndim && k < cfx_as_tensor(v)->ndim; k++) {
            cfx_value size = cfx_result_size(&r, k);
            if (size.tag == CFX_TAG_SYM && cfx_as_sym(size)->op == CFX__SYM_NAME)
                cfx_dict_set(sizes, cfx_as_sym(size)->name, cfx_int(cfx_as_tensor(v)->shape[k]));
        }
    }
    return sizes;
}

void cli_profile_start(cli_profile *p, cfx_program *program, cfx_value inputs) {
    p->program = program;
    p->sizes = sizes_of(program, inputs);
    p->cost = cfx_program_cost(program, p->sizes);
    if (!cfx_ok())
        cfx__error_forgive(); /* sizes that nothing tells: times are shown without costs */
    for (int i = 0; i < p->cost->n; i++)
        if (p->cost->nodes[i].owner == program->module)
            cfx__map_set(&p->at, p->cost->nodes[i].node->name, (void *)(uintptr_t)(i + 1));
}

/* What is known of a node's cost; NULL: nothing. */
static const cfx_node_cost *cost_of(const cli_profile *p, const cfx_node *n) {
    const uintptr_t at = (uintptr_t)cfx__map_get(&p->at, n->name);
    return at && p->cost->nodes[at - 1].node == n ? &p->cost->nodes[at - 1] : NULL;
}

static const char *kept(cli_profile *p, const char *text) {
    return cfx__arena_copy(&p->texts, text, strlen(text));
}

void cli_profile_add(cli_profile *p, const cfx_ran *r, double end) {
    cli_times t = {.node = r->nodes[0], .start = end - r->seconds * 1e6, .end = end, .live = -1};
    cfx__text nodes = {0};
    for (int i = 0; i < r->nnodes; i++) {
        const cfx_node_cost *cost = cost_of(p, r->nodes[i]);
        t.flops += cost ? cost->flops : cfx__node_flops(r->nodes[i], p->sizes);
        t.live = cost ? cost->live : t.live;
        cfx__text_printf(&nodes, "%s%s", i ? ", " : "", r->nodes[i]->name);
    }
    t.bytes = cli_traffic(p, r->nnodes, r->nodes);
    t.time = t.end - t.start;
    const bool aten = !strncmp(r->kernel, "torch.ops.", 10);
    t.kernel = kept(p, r->kernel + (aten ? 10 : 0));
    t.nodes = cfx__arena_copy(&p->texts, nodes.data, nodes.len);
    t.result = kept(p, cli_brief(r->value));
    cfx__text_release(&nodes);
    VEC_PUSH(p->rows, t);
}

void cli_profile_begin(cli_profile *p) {
    const size_t n = p->rows.len;
    if (n && p->runs && p->before.len != (size_t)p->runs * n)
        p->before.len = 0, p->runs = 0; /* another number of kernels: no median with those */
    for (size_t i = 0; i < n; i++)
        VEC_PUSH(p->before, p->rows.data[i].time);
    p->runs += n > 0;
    p->rows.len = 0;
}

/* The times of all runs as one each. */
static void take_medians(cli_profile *p) {
    const size_t n = p->rows.len;
    if (!p->runs || p->before.len != (size_t)p->runs * n)
        return;
    double *times = cfx__alloc(((size_t)p->runs + 1) * sizeof *times);
    for (size_t i = 0; i < n; i++) {
        times[p->runs] = p->rows.data[i].time;
        for (int k = 0; k < p->runs; k++)
            times[k] = p->before.data[(size_t)k * n + i];
        p->rows.data[i].time = cli_median(times, p->runs + 1);
    }
    cfx__free(times);
    p->runs++;
    p->before.len = 0;
}

void cli_profile_end(cli_profile *p) {
    VEC_FREE(p->rows);
    VEC_FREE(p->before);
    cfx__map_release(&p->at);
    cfx__arena_release(&p->texts);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Kernels of one name. */
typedef struct line {
    const char *name, *kernel;
    double time, limit;
    double memory; /* of the limit: what memory asks for */
    int64_t calls, flops, bytes;
} line;

typedef struct lines {
    line *data;
    size_t len, cap;
    cfx__map index;
} lines;

static void add_line(lines *l, const cli_machine *m, const char *name, const cli_times *t) {
    uintptr_t at = (uintptr_t)cfx__map_get(&l->index, name);
    bool memory;
    if (!at) {
        VEC_PUSH(*l, ((line){.name = name, .kernel = t->kernel}));
        at = l->len;
        cfx__map_set(&l->index, name, (void *)at);
    }
    line *to = &l->data[at - 1];
    const double limit = cli_limit(m, t, &memory);
    to->time += t->time;
    to->limit += limit;
    to->memory += memory ? limit : 0;
    to->flops += t->flops;
    to->bytes += t->bytes;
    to->calls++;
}

static int by_time(const void *a, const void *b) {
    double x = ((const line *)a)->time, y = ((const line *)b)->time;
    return x < y ? 1 : x > y ? -1 : strcmp(((const line *)a)->name, ((const line *)b)->name);
}

/* The path of the innermost module around a node; "" for none. */
static const char *module_of(const cfx_node *n) { return cli_module_of(n); }

/* The best of a few runs of work, in a microsecond. */
static double rate(cfx_tensor *(*run)(cfx_tensor *x), cfx_tensor *x, double work) {
    enum { TIMES = 8 };
    double best = 0;
    for (int i = 0; i <= TIMES; i++)
        CFX_SCOPE {
            double start = now_us();
            run(x);
            const double reached = work / (now_us() - start);
            best = i && reached > best ? reached : best;
        }
    return best;
}

static cfx_tensor *multiply(cfx_tensor *x) { return cfx_mm(x, x); }
static cfx_tensor *copy(cfx_tensor *x) { return cfx_neg_(x); }

static void add_seconds(cfx_watcher *w, const cfx_ran *r) { *(double *)w->user += r->seconds; }

/* The same of an operator on a card, by the card's own clock. */
static double rate_on(const cfx_executor *card, const char *op, int n, cfx_tensor *x, double work) {
    enum { TIMES = 4 };
    const cfx_value inputs[] = {cfx_tensor_value(x), cfx_tensor_value(x)};
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_graph *g = cfx_graph_new();
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(args), cfx_node_value(cfx_graph_input(g, i ? "b" : "a")));
    cfx_graph_output(g, cfx_node_value(cfx_graph_call_function(g, op, args, CFX_NONE)));
    double best = 0, seconds = 0;
    cfx_watcher w = {.ran = add_seconds, .user = &seconds};
    const cfx_execution e = {.module = cfx_graph_module(NULL, g, NULL),
                             .inputs = {n, inputs, NULL}, .watcher = &w};
    for (int i = 0; i <= TIMES && cfx_ok(); i++)
        CFX_SCOPE {
            seconds = 0;
            cfx_executor_run(card, &e);
            const double reached = work / (seconds * 1e6);
            best = i && reached > best ? reached : best;
        }
    return best;
}

static const cfx_executor *card_now(void) {
    const cfx_executor *x = cfx_set_executor(NULL);
    cfx_set_executor(x);
    return x && !strncmp(x->name, "cuda", 4) ? x : NULL;
}

/* A product of matrices, and a pass over more memory than the caches have: of the card, where that
 * runs the program. */
static cli_machine measure(cli_profile *p) {
    enum { N = 768, LONG = 1 << 24, CARD_N = 2048, CARD_LONG = 1 << 26 };
    cli_machine *m = &p->machine;
    const cfx_executor *card = card_now();
    if (!(m->flops > 0) && card) CFX_SCOPE {
        m->flops = rate_on(card, "aten.mm.default", 2, cfx_ones(cfx_list(CARD_N, CARD_N)),
                           2.0 * CARD_N * CARD_N * CARD_N);
        m->bytes = rate_on(card, "aten.neg.default", 1, cfx_ones(cfx_list(CARD_LONG)),
                           8.0 * CARD_LONG);
    }
    if (!(m->flops > 0) && !card) CFX_SCOPE {
        m->flops = rate(multiply, cfx_ones(cfx_list(N, N)), 2.0 * N * N * N);
        m->bytes = rate(copy, cfx_ones(cfx_list(LONG)), 8.0 * LONG);
    }
    return *m;
}

/* What it needs at its best for the arithmetic, and for the bytes. */
static double arithmetic_of(const cli_machine *m, const cli_times *r) {
    return m->flops > 0 ? (double)r->flops / m->flops : 0;
}
static double memory_of(const cli_machine *m, const cli_times *r) {
    return m->bytes > 0 ? (double)r->bytes / m->bytes : 0;
}

double cli_limit(const cli_machine *m, const cli_times *t, bool *memory) {
    const double arithmetic = arithmetic_of(m, t), traffic = memory_of(m, t);
    /* in less time than memory gives: it came from a cache, or little of an input was read */
    *memory = traffic > arithmetic && traffic <= t->time;
    const double limit = *memory ? traffic : arithmetic;
    return limit < t->time ? limit : t->time;
}

static void note_line(const char *table, const line *l, double total) {
    cli_answer_row(table, cfx_dict_of("name", l->name, "kernel", l->kernel, "calls",
                                      cfx_int(l->calls), "ms", cli_fact(l->time / 1e3), "share",
                                      cli_fact(l->time / total), "flops", cfx_int(l->flops),
                                      "bytes", cfx_int(l->bytes), "of_limit",
                                      cli_fact(l->limit / l->time), "bound",
                                      l->memory > l->limit / 2 ? "memory" : "arithmetic"));
}

static void print_lines(lines *l, const char *title, const char *table, double total,
                        size_t most) {
    int width = (int)strlen(title);
    const bool named = !strcmp(table, "nodes");
    if (l->len)
        qsort(l->data, l->len, sizeof *l->data, by_time);
    for (size_t i = 0; i < l->len && i < most; i++)
        width = (int)strlen(l->data[i].name) > width ? (int)strlen(l->data[i].name) : width;
    cli_print("\n%-*s %6s %12s %6s %10s %10s %9s  %s\n", width, title, "calls", "time (us)",
              "share", "FLOPs", "bytes", "of limit", "bound by");
    for (size_t i = 0; i < l->len; i++) {
        const line *at = &l->data[i];
        note_line(table, at, total);
        if (i >= most)
            continue;
        cli_print("%-*s %6lld %12.1f %5.1f%% %10s %10s", width, at->name, (long long)at->calls,
                  at->time, 100 * at->time / total, at->flops ? cli_large(at->flops) : "",
                  at->bytes ? cli_bytes(at->bytes) : "");
        if (at->limit > 0 && at->time > 0)
            cli_print(" %8.0f%%  %-10s", 100 * at->limit / at->time,
                      at->memory > at->limit / 2 ? "memory" : "arithmetic");
        if (named)
            cli_print("  %s", at->kernel);
        cli_print("\n");
    }
    if (l->len > most)
        cli_print("and %zu more\n", l->len - most);
    VEC_FREE(*l);
    cfx__map_release(&l->index);
}

void cli_profile_print(cli_profile *p) {
    lines kernels = {0}, nodes = {0};
    double total = 1e-9;
    const cli_machine m = measure(p);
    for (size_t i = 0; i < p->rows.len; i++) {
        add_line(&kernels, &m, p->rows.data[i].kernel, &p->rows.data[i]);
        add_line(&nodes, &m, p->rows.data[i].nodes, &p->rows.data[i]);
        total += p->rows.data[i].time;
    }
    cli_print("%zu kernels in %.3f ms%s; this %s reaches %.1f GFLOP/s on a product of "
              "matrices and moves %.1f GB/s\n", p->rows.len, total / 1e3,
              p->runs > 1 ? cfx__text_format(" (medians of %d runs)", p->runs) : "",
              card_now() ? "card" : "machine", m.flops / 1e3, m.bytes / 1e3);
    cli_answer("ms", cli_fact(total / 1e3));
    cli_answer("runs", cfx_int(p->runs ? p->runs : 1));
    cli_answer("machine_flops_per_second", cli_fact(m.flops * 1e6));
    cli_answer("machine_bytes_per_second", cli_fact(m.bytes * 1e6));
    print_lines(&kernels, "kernel", "kernels", total, LISTED);
    cli_profile_tree(p, &m, total);
    print_lines(&nodes, "slowest, by their nodes", "nodes", total, SLOWEST);
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void put_text(cfx__text *t, const char *key, const char *text) {
    cfx__text_printf(t, ",\"%s\":", key);
    cfx__json_string(t, text, strlen(text));
}

static void put_event(cfx__text *t, const cli_times *r) {
    cfx__text target = {0};
    cfx__target_text(&target, r->node->target);
    cfx__text_puts(t, "{\"name\":");
    cfx__json_string(t, r->node->name, strlen(r->node->name));
    cfx__text_printf(t, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f",
                     cfx_opcode_name(r->node->op), r->start, r->end - r->start);
    cfx__text_puts(t, ",\"args\":{\"target\":");
    cfx__json_string(t, target.data, target.len);
    put_text(t, "kernel", r->kernel);
    put_text(t, "nodes", r->nodes);
    put_text(t, "result", r->result);
    put_text(t, "module", module_of(r->node));
    cfx__text_printf(t, ",\"flops\":%lld,\"bytes\":%lld,\"median_us\":%.3f", (long long)r->flops,
                     (long long)r->bytes, r->time);
    cfx__text_puts(t, "}},\n");
    cfx__text_release(&target);
}

/* The path at one level of the modules around a node; NULL below the innermost. */
static const char *level_of(const cfx_node *n, int64_t level) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || level >= cfx_as_dict(stack)->len)
        return NULL;
    cfx_value v = cfx_as_dict(stack)->entries[level].value;
    return v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len ? cfx_text(cfx_as_list(v)->items[0])
                                                         : NULL;
}

/* Modules as slices around the times of their nodes: runs of nodes with one path, by level. */
static bool put_modules(cfx__text *t, const cli_profile *p, int64_t level) {
    bool any = false;
    for (size_t i = 0, end; i < p->rows.len; i = end) {
        const char *path = level_of(p->rows.data[i].node, level);
        end = i + 1;
        if (!path)
            continue;
        any = true;
        while (end < p->rows.len) {
            const char *next = level_of(p->rows.data[end].node, level);
            if (!next || strcmp(next, path))
                break;
            end++;
        }
        if (!*path)
            continue;
        const cli_times *first = &p->rows.data[i], *last = &p->rows.data[end - 1];
        cfx__text_printf(t, "{\"cat\":\"module\",\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":%.3f,"
                            "\"dur\":%.3f", first->start, last->end - first->start);
        put_text(t, "name", path);
        cfx__text_puts(t, "},\n");
    }
    return any;
}

static void put_counter(cfx__text *t, const cli_profile *p) {
    for (size_t i = 0; i < p->rows.len; i++)
        if (p->rows.data[i].live >= 0)
            cfx__text_printf(t, "{\"name\":\"alive\",\"ph\":\"C\",\"pid\":1,\"ts\":%.3f,\"args\":"
                                "{\"bytes\":%lld}},\n",
                             p->rows.data[i].start, (long long)p->rows.data[i].live);
}

/* What the helpers of the pool did, a row for each. */
static void put_threads(cfx__text *t, const cli_profile *p) {
    const cfx__pool_span *spans;
    const size_t n = cfx__pool_spans(&spans);
    uint64_t named = 0;
    for (size_t i = 0; i < n; i++) {
        const double begin = (double)spans[i].begin * 1e-3 - p->start;
        cfx__text_printf(t, "{\"name\":\"helps\",\"cat\":\"thread\",\"ph\":\"X\",\"pid\":1,"
                            "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f},\n",
                         spans[i].thread + 3, begin,
                         (double)(spans[i].end - spans[i].begin) * 1e-3);
        if (!(named >> spans[i].thread & 1))
            cfx__text_printf(t, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
                                "\"args\":{\"name\":\"thread %d\"}},\n",
                             spans[i].thread + 3, spans[i].thread + 1);
        named |= 1ull << spans[i].thread;
    }
}

/* What nodes say of their kernel: all of them its name; or those after the first the node that has
 * its time, and that time. */
static void put_parts(cfx__text *t, const cli_profile *p, const char *column, bool name) {
    bool any = false;
    cfx__text_printf(t, ",\"%s\":{", column);
    for (size_t i = 0; i < p->rows.len; i++) {
        const cli_times *r = &p->rows.data[i];
        for (const char *at = r->nodes; *at;) {
            size_t len = strcspn(at, ",");
            if (name || at > r->nodes) {
                cfx__text_puts(t, any ? "," : "");
                cfx__json_string(t, at, len);
                cfx__text_putc(t, ':');
                const char *said = name ? r->kernel : cfx__text_format("%%%s: %.1f us",
                                                                       r->node->name, r->time);
                cfx__json_string(t, said, strlen(said));
                any = true;
            }
            at += len + (at[len] ? strlen(", ") : 0);
        }
    }
    cfx__text_putc(t, '}');
}

/* The roofline of each kernel, at its first node: what share of the machine's limit it reaches, or
 * which limit that is. */
static void put_limits(cfx__text *t, cli_profile *p, const char *column, bool share) {
    const cli_machine m = measure(p);
    bool any = false;
    cfx__text_printf(t, ",\"%s\":{", column);
    for (size_t i = 0; i < p->rows.len; i++) {
        const cli_times *r = &p->rows.data[i];
        bool memory;
        const double limit = cli_limit(&m, r, &memory);
        if (!(limit > 0))
            continue;
        cfx__text_puts(t, any ? "," : "");
        cfx__json_string(t, r->node->name, strlen(r->node->name));
        if (share)
            cfx__text_printf(t, ":%.4f", limit / r->time);
        else
            cfx__text_puts(t, memory ? ":\"memory\"" : ":\"arithmetic\"");
        any = true;
    }
    cfx__text_putc(t, '}');
}

static double time_of(const cli_machine *m, const cli_times *r) { return (void)m, r->time; }
static double flops_of(const cli_machine *m, const cli_times *r) {
    return (void)m, (double)r->flops;
}
static double bytes_of(const cli_machine *m, const cli_times *r) {
    return (void)m, (double)r->bytes;
}

/* Numbers of each kernel, at its first node. "alone" is what the machine needs at its best for the
 * arithmetic, and for the bytes; the viewer draws the roofline of these. */
static void put_numbers(cfx__text *t, cli_profile *p) {
    static const struct {
        const char *name;
        double (*of)(const cli_machine *m, const cli_times *r);
    } columns[] = {{"time (us)", time_of},
                   {"computed (FLOP)", flops_of},
                   {"moved (bytes)", bytes_of},
                   {"arithmetic alone (us)", arithmetic_of},
                   {"memory alone (us)", memory_of}};
    const cli_machine m = measure(p);
    for (int k = 0; k < COUNT(columns); k++) {
        cfx__text_printf(t, "%s\"%s\":{", k ? "," : "", columns[k].name);
        for (size_t i = 0; i < p->rows.len; i++) {
            const cli_times *r = &p->rows.data[i];
            cfx__text_puts(t, i ? "," : "");
            cfx__json_string(t, r->node->name, strlen(r->node->name));
            cfx__text_printf(t, ":%.10g", columns[k].of(&m, r));
        }
        cfx__text_putc(t, '}');
    }
}

static void put_columns(cfx__text *t, cli_profile *p, const cfx_dict *columns) {
    cfx__text_puts(t, "\"columns\":{");
    put_numbers(t, p);
    put_parts(t, p, "kernel", true);
    put_parts(t, p, "timed with", false);
    put_limits(t, p, "of limit (share)", true);
    put_limits(t, p, "bound by", false);
    for (int64_t i = 0; columns && i < columns->len; i++) {
        const char *name = cfx_text(columns->entries[i].key);
        cfx__text_putc(t, ',');
        cfx__json_string(t, name, strlen(name));
        cfx__text_putc(t, ':');
        cfx__json_value(t, columns->entries[i].value);
    }
    cfx__text_putc(t, '}');
}

bool cli_profile_write(cli_profile *p, const char *path, const cfx_dict *columns) {
    cfx__text t = {0};
    take_medians(p);
    cfx__text_puts(&t, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (size_t i = 0; i < p->rows.len; i++)
        put_event(&t, &p->rows.data[i]);
    for (int64_t level = 0; put_modules(&t, p, level); level++)
        continue;
    put_counter(&t, p);
    put_threads(&t, p);
    static const char *const rows[] = {"kernels", "modules"};
    for (int i = 0; i < 2; i++)
        cfx__text_printf(&t, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
                             "\"args\":{\"name\":\"%s\"}}%s\n", i + 1, rows[i], i ? "" : ",");
    cfx__text_puts(&t, "],\n");
    put_columns(&t, p, columns);
    cfx__text_puts(&t, "}\n");
    bool fine = cfx_ok() && cfx__file_write(path, t.data, t.len);
    cfx__text_release(&t);
    return fine;
}
