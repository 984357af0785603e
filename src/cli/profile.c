/* cfx run --profile: where the time goes, as tables and as a trace for chrome://tracing and
 * Perfetto, with a row for modules and a counter of the bytes alive. */
#include "profile.h"

#include <string.h>

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
    p->cost = cfx_program_cost(program, sizes_of(program, inputs));
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
        t.flops += cost ? cost->flops : 0;
        t.live = cost ? cost->live : t.live;
        cfx__text_printf(&nodes, "%s%s", i ? ", " : "", r->nodes[i]->name);
    }
    const bool aten = !strncmp(r->kernel, "torch.ops.", 10);
    t.kernel = kept(p, r->kernel + (aten ? 10 : 0));
    t.nodes = cfx__arena_copy(&p->texts, nodes.data, nodes.len);
    t.result = kept(p, cli_brief(r->value));
    cfx__text_release(&nodes);
    VEC_PUSH(p->rows, t);
}

void cli_profile_end(cli_profile *p) {
    VEC_FREE(p->rows);
    cfx__map_release(&p->at);
    cfx__arena_release(&p->texts);
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct line {
    const char *name;
    double time;
    int64_t calls, flops;
} line;

typedef struct lines {
    line *data;
    size_t len, cap;
    cfx__map index;
} lines;

static void add_line(lines *l, const char *name, double time, int64_t flops) {
    uintptr_t at = (uintptr_t)cfx__map_get(&l->index, name);
    if (!at) {
        VEC_PUSH(*l, ((line){.name = name}));
        at = l->len;
        cfx__map_set(&l->index, name, (void *)at);
    }
    l->data[at - 1].time += time;
    l->data[at - 1].flops += flops;
    l->data[at - 1].calls++;
}

static int by_time(const void *a, const void *b) {
    double x = ((const line *)a)->time, y = ((const line *)b)->time;
    return x < y ? 1 : x > y ? -1 : strcmp(((const line *)a)->name, ((const line *)b)->name);
}

/* The path of the innermost module around a node; "" for none. */
static const char *module_of(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return "";
    cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
    const char *path = last.tag == CFX_TAG_TUPLE && cfx_as_list(last)->len
                           ? cfx_text(cfx_as_list(last)->items[0])
                           : NULL;
    return path ? path : "";
}

/* FLOP a microsecond that this machine reaches on a product of matrices. */
static double measured_peak(void) {
    enum { N = 768, TIMES = 3 };
    double best = 0;
    CFX_SCOPE {
        cfx_tensor *a = cfx_ones(cfx_list(N, N)), *b = cfx_ones(cfx_list(N, N));
        for (int i = 0; i <= TIMES; i++)
            CFX_SCOPE {
                double start = now_us();
                cfx_mm(a, b);
                double rate = 2.0 * N * N * N / (now_us() - start);
                best = i && rate > best ? rate : best;
            }
    }
    return best;
}

static void print_lines(lines *l, const char *title, double total, double peak, size_t most) {
    int width = (int)strlen(title);
    if (l->len)
        qsort(l->data, l->len, sizeof *l->data, by_time);
    for (size_t i = 0; i < l->len && i < most; i++)
        width = (int)strlen(l->data[i].name) > width ? (int)strlen(l->data[i].name) : width;
    cli_print("\n%-*s %7s %12s %7s %10s\n", width, title, "calls", "time (us)", "share", "of peak");
    for (size_t i = 0; i < l->len && i < most; i++) {
        const line *at = &l->data[i];
        cli_print("%-*s %7lld %12.1f %6.1f%%", width, *at->name ? at->name : "(no module)",
                  (long long)at->calls, at->time, 100 * at->time / total);
        if (at->flops && at->time > 0 && peak > 0)
            cli_print(" %9.0f%%", 100 * (double)at->flops / at->time / peak);
        cli_print("\n");
    }
    if (l->len > most)
        cli_print("and %zu more\n", l->len - most);
    VEC_FREE(*l);
    cfx__map_release(&l->index);
}

void cli_profile_print(const cli_profile *p) {
    lines kernels = {0}, modules = {0}, nodes = {0};
    double total = 1e-9;
    for (size_t i = 0; i < p->rows.len; i++) {
        const cli_times *r = &p->rows.data[i];
        double time = r->end - r->start;
        add_line(&kernels, r->kernel, time, r->flops);
        add_line(&modules, module_of(r->node), time, r->flops);
        add_line(&nodes, r->nodes, time, r->flops);
        total += time;
    }
    double peak = measured_peak();
    cli_print(
        "%zu kernels in %.3f ms; this machine reaches %.1f GFLOP/s on a product of matrices\n",
        p->rows.len, total / 1e3, peak / 1e3);
    print_lines(&kernels, "kernel", total, peak, LISTED);
    print_lines(&modules, "module", total, peak, LISTED);
    print_lines(&nodes, "slowest, by their nodes", total, peak, SLOWEST);
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

static void put_columns(cfx__text *t, const cli_profile *p, const cfx_dict *columns) {
    cfx__text_puts(t, "\"columns\":{\"time (us)\":{");
    for (size_t i = 0; i < p->rows.len; i++) {
        const cli_times *r = &p->rows.data[i];
        cfx__text_puts(t, i ? "," : "");
        cfx__json_string(t, r->node->name, strlen(r->node->name));
        cfx__text_printf(t, ":%.3f", r->end - r->start);
    }
    cfx__text_putc(t, '}');
    for (int64_t i = 0; columns && i < columns->len; i++) {
        const char *name = cfx_text(columns->entries[i].key);
        cfx__text_putc(t, ',');
        cfx__json_string(t, name, strlen(name));
        cfx__text_putc(t, ':');
        cfx__json_value(t, columns->entries[i].value);
    }
    cfx__text_putc(t, '}');
}

bool cli_profile_write(const cli_profile *p, const char *path, const cfx_dict *columns) {
    cfx__text t = {0};
    cfx__text_puts(&t, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (size_t i = 0; i < p->rows.len; i++)
        put_event(&t, &p->rows.data[i]);
    for (int64_t level = 0; put_modules(&t, p, level); level++)
        continue;
    put_counter(&t, p);
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
