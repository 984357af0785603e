/* Watching activations: hooks that add up what modules give. In a graph whose modules are not
 * called any more, as in a program's, they are on the nodes whose results leave a module. */
#include <cfx/watch.h>

#include "../base/given.h"
#include "../dispatch/dispatch.h"
#include "../value/default.h"
#include "../value/walk.h"
#include "run.h"

#include <math.h>

/* ---- statistics -------------------------------------------------------------------------------
 */

enum { BLOCK = 1 << 14 }; /* numbers that are looked at at once */

/* Adds the count, range and moments of one block; the mean and the squares around it are those of
 * the block first and then of all, so that no number is too far from zero. */
static void add_block(cfx_stats *s, double *squares, const double *x, int64_t n) {
    double sum = 0, min = s->min, max = s->max, around = 0;
    int64_t finite = 0, zeros = 0, nans = 0;
    for (int64_t i = 0; i < n; i++) {
        bool is = isfinite(x[i]);
        double v = is ? x[i] : 0;
        finite += is;
        zeros += x[i] == 0;
        nans += isnan(x[i]);
        sum += v;
        min = is && v < min ? v : min;
        max = is && v > max ? v : max;
    }
    double mean = finite ? sum / (double)finite : 0;
    for (int64_t i = 0; i < n; i++)
        around += isfinite(x[i]) ? (x[i] - mean) * (x[i] - mean) : 0;
    int64_t before = s->count - s->nans - s->infs, all = before + finite;
    double off = mean - s->mean;
    if (finite) {
        s->mean += off * (double)finite / (double)all;
        *squares += around + off * off * (double)before * (double)finite / (double)all;
    }
    s->min = min;
    s->max = max;
    s->zeros += zeros;
    s->nans += nans;
    s->infs += n - finite - nans;
    s->count += n;
}

/* In halves: what is between two numbers may be too large for one. */
static void add_bins(cfx_stats *s, const double *x, int64_t n) {
    double low = s->low / 2, width = s->high / 2 - low;
    double scale = width > 0 ? CFX_STATS_BINS / width : 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        double at = (x[i] / 2 - low) * scale; /* NaN where the width is next to nothing */
        s->histogram[at >= CFX_STATS_BINS ? CFX_STATS_BINS - 1 : at > 0 ? (int)at : 0]++;
    }
}

/* The block of a contiguous tensor from element `at` on, as doubles; NULL, with an error; scope.
 */
static const double *block_at(const cfx_tensor *flat, int64_t at, int64_t *n) {
    int64_t one = 1;
    *n = flat->numel - at < BLOCK ? flat->numel - at : BLOCK;
    cfx_tensor *part = cfx__tensor_alias(flat, 1, n, &one, flat->offset + at);
    return (const double *)cfx__tensor_to_dtype(part, CFX_F64)->data;
}

void cfx_stats_add(cfx_stats *s, const cfx_tensor *t) {
    if (!s || !t || cfx__obj_is_bad(t) || !t->data || cfx__dtype_is_complex((cfx_dtype)t->dtype))
        return;
    size_t mark = cfx_scope_open();
    const cfx_tensor *flat = cfx__tensor_contiguous(t);
    double squares = s->deviation * s->deviation * (double)(s->count - s->nans - s->infs);
    int64_t n;
    if (!s->count) {
        s->min = INFINITY;
        s->max = -INFINITY;
    }
    for (int64_t at = 0; at < flat->numel; at += n)
        CFX_SCOPE {
            const double *x = block_at(flat, at, &n);
            if (x)
                add_block(s, &squares, x, n);
        }
    if (!s->tensors++) {
        s->low = s->min;
        s->high = s->max;
    }
    for (int64_t at = 0; at < flat->numel; at += n)
        CFX_SCOPE {
            const double *x = block_at(flat, at, &n);
            if (x)
                add_bins(s, x, n);
        }
    int64_t finite = s->count - s->nans - s->infs;
    s->deviation = finite ? sqrt(squares / (double)finite) : 0;
    cfx_scope_close(mark);
}

/* ---- watches ----------------------------------------------------------------------------------
 */

typedef struct watched {
    char *path;
    VEC(cfx_hook_handle *) hooks; /* counted */
    cfx_stats stats;
} watched;

struct cfx_watch {
    cfx_obj head;
    VEC(watched *) all; /* by address: hooks point to them */
};

static void watch_free(void *p) {
    cfx_watch *w = p;
    cfx_watch_stop(w);
    for (size_t i = 0; i < w->all.len; i++) {
        for (size_t k = 0; k < w->all.data[i]->hooks.len; k++)
            cfx_drop(w->all.data[i]->hooks.data[k]);
        VEC_FREE(w->all.data[i]->hooks);
        cfx__free(w->all.data[i]->path);
        cfx__free(w->all.data[i]);
    }
    VEC_FREE(w->all);
}

static const cfx__obj_type watch_type = {.name = "watch", .free = watch_free};

static bool add_tensor(cfx_value v, void *stats) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_stats_add(stats, cfx_as_tensor(v));
    return true;
}

static cfx_value watch_hook(cfx_event *e) {
    cfx__value_each(e->out, add_tensor, &((watched *)e->user)->stats);
    return cfx_none();
}

typedef struct gathering {
    cfx_watch *w;
    cfx_module *root;
    const char *pattern;
} gathering;

/* The statistics of the module at a path, made where there are none yet. */
static watched *watched_at(cfx_watch *w, const char *path) {
    for (size_t i = 0; i < w->all.len; i++)
        if (!strcmp(w->all.data[i]->path, path))
            return w->all.data[i];
    watched *one = cfx__alloc0(sizeof *one);
    one->path = cfx__text_copy(path, strlen(path));
    VEC_PUSH(w->all, one);
    return one;
}

static void add_hook(watched *one, cfx_hook_handle *hook) {
    if (!hook)
        return;
    hook->stays = true;
    VEC_PUSH(one->hooks, cfx_keep(hook));
}

/* Whether the graph calls the module at a path, or one that it is in. */
static bool is_called(const cfx_graph *g, const char *path) {
    cfx_each_node(g, n) {
        size_t len = n->op == CFX_CALL_MODULE ? strlen(n->target.name) : 0;
        if (len && !strncmp(path, n->target.name, len) && (!path[len] || path[len] == '.'))
            return true;
    }
    return false;
}

static void gather(const char *path, cfx_module *m, void *user) {
    gathering *g = user;
    if (cfx_module_count(m) || !cfx__text_glob(g->pattern, path) ||
        (g->root->graph && *path && !is_called(g->root->graph, path)))
        return;
    watched *one = watched_at(g->w, path);
    add_hook(one, cfx_hook(m, "", watch_hook, one));
}

/* The path of the innermost module that a call was made in; NULL: none is known. */
static const char *innermost(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    bool call = n->op == CFX_CALL_FUNCTION || n->op == CFX_CALL_METHOD;
    if (!call || stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return NULL;
    return cfx_text(cfx_at(cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value, 0));
}

/* Whether a result of the module at `path` is used outside of it. */
static bool leaves(const cfx_node *n, const char *path) {
    cfx_each_user(n, u) {
        const char *other = innermost(u->user);
        if (!other || strcmp(other, path))
            return true;
    }
    return false;
}

static void gather_nodes(gathering *g) {
    cfx_each_node(g->root->graph, n) {
        const char *path = innermost(n);
        if (!path || !*path || !cfx__text_glob(g->pattern, path) || !leaves(n, path))
            continue;
        watched *one = watched_at(g->w, path);
        add_hook(one, cfx_node_hook(g->root, n->name, watch_hook, one));
    }
}

cfx_watch *cfx_watch_new_from(cfx_site at, cfx_module *m, const char *pattern) {
    cfx_watch *w = cfx__obj_new(&watch_type, sizeof *w);
    gathering g = {w, m, pattern ? pattern : "*"};
    if (m && !cfx__obj_is_bad(m)) {
        cfx_module_walk(m, gather, &g);
        if (m->graph)
            gather_nodes(&g);
    }
    if (w->all.len)
        return w;
    cfx_fail(CFX_KEY_ERROR, at, "no module of %s matches '%s'", m ? m->type : "None", g.pattern);
    return NULL;
}

int cfx_watch_count(const cfx_watch *w) { return w ? (int)w->all.len : 0; }

const char *cfx_watch_path(const cfx_watch *w, int i) {
    return i >= 0 && i < cfx_watch_count(w) ? w->all.data[i]->path : NULL;
}

const cfx_stats *cfx_watch_stats(const cfx_watch *w, int i) {
    return i >= 0 && i < cfx_watch_count(w) ? &w->all.data[i]->stats : NULL;
}

void cfx_watch_stop(cfx_watch *w) {
    for (int i = 0; i < cfx_watch_count(w); i++)
        for (size_t k = 0; k < w->all.data[i]->hooks.len; k++)
            cfx_hook_remove(w->all.data[i]->hooks.data[k]);
}

/* The histogram as a line of marks, the highest for the fullest bin. */
static void draw(const cfx_stats *s, char *out) {
    static const char marks[] = " .:-=+*#@";
    int64_t most = 1;
    for (int i = 0; i < CFX_STATS_BINS; i++)
        most = s->histogram[i] > most ? s->histogram[i] : most;
    for (int i = 0; i < CFX_STATS_BINS; i++) {
        int64_t n = s->histogram[i];
        out[i] = marks[n ? 1 + n * 7 / most : 0];
    }
    out[CFX_STATS_BINS] = 0;
}

void cfx_watch_print(const cfx_watch *w, FILE *out) {
    int width = 6;
    if (!cfx__given((cfx_site){0}, out, "file"))
        return;
    for (int i = 0; i < cfx_watch_count(w); i++) {
        int len = (int)strlen(w->all.data[i]->path);
        width = len > width ? len : width;
    }
    fprintf(out, "%-*s %9s %7s %10s %10s %10s %10s %5s %5s  %s\n", width, "module", "numbers",
            "zeros", "mean", "deviation", "min", "max", "nan", "inf", "histogram");
    for (int i = 0; i < cfx_watch_count(w); i++) {
        const cfx_stats *s = &w->all.data[i]->stats;
        char bars[CFX_STATS_BINS + 1];
        draw(s, bars);
        fprintf(out, "%-*s %9lld %6.1f%% %10.4g %10.4g %10.4g %10.4g %5lld %5lld  |%s|\n", width,
                *w->all.data[i]->path ? w->all.data[i]->path : "(root)", (long long)s->count,
                s->count ? 100.0 * (double)s->zeros / (double)s->count : 0, s->mean, s->deviation,
                s->count ? s->min : 0, s->count ? s->max : 0, (long long)s->nans,
                (long long)s->infs, bars);
    }
}

/* ---- calls ------------------------------------------------------------------------------------
 */

cfx_args cfx_op_args_shown(cfx_op *op, cfx_args a) {
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    const cfx__schema *s = info ? info->schema : NULL;
    if (!s || a.n != s->nargs)
        return a;
    cfx_dict *kw = a.kw;
    for (int i = s->npositional; i < s->nargs; i++)
        if (!cfx__schema_is_default(&s->args[i], a.v[i])) {
            kw = kw ? kw : cfx_dict_new();
            cfx_dict_set(kw, s->args[i].name, a.v[i]);
        }
    int n = s->npositional;
    while (n > 0 && cfx__schema_is_default(&s->args[n - 1], a.v[n - 1]))
        n--;
    return (cfx_args){n, a.v, kw};
}
