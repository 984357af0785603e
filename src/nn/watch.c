/* Watching activations: forward hooks that add up what modules give. */
#include <cfx/watch.h>

#include "nn.h"

#include <math.h>

/* ---- statistics -------------------------------------------------------------------------------
 */

typedef struct sums {
    double mean, squares; /* Welford's: exact enough for any number of elements */
    int64_t n;
} sums;

static void add_number(cfx_stats *s, sums *u, double v) {
    s->zeros += v == 0;
    s->nans += isnan(v);
    s->infs += isinf(v) != 0;
    if (!isfinite(v))
        return;
    u->n++;
    double off = v - u->mean;
    u->mean += off / (double)u->n;
    u->squares += off * (v - u->mean);
    s->min = v < s->min ? v : s->min;
    s->max = v > s->max ? v : s->max;
}

static void add_bin(cfx_stats *s, double v) {
    if (!isfinite(v))
        return;
    double at = s->high > s->low ? (v - s->low) / (s->high - s->low) * CFX_STATS_BINS : 0;
    int bin = at < 0 ? 0 : at >= CFX_STATS_BINS ? CFX_STATS_BINS - 1 : (int)at;
    s->histogram[bin]++;
}

void cfx_stats_add(cfx_stats *s, const cfx_tensor *t) {
    if (!s || !t || cfx__obj_is_bad(t) || !t->data || cfx__dtype_is_complex((cfx_dtype)t->dtype))
        return;
    size_t mark = cfx_scope_open();
    const cfx_tensor *d = cfx__tensor_contiguous_as(t, CFX_F64);
    const double *x = (const double *)d->data;
    int64_t finite = s->count - s->nans - s->infs;
    sums u = {s->mean, s->deviation * s->deviation * (double)finite, finite};
    if (!s->count) {
        s->min = INFINITY;
        s->max = -INFINITY;
    }
    for (int64_t i = 0; i < d->numel; i++)
        add_number(s, &u, x[i]);
    if (!s->tensors++) {
        s->low = s->min;
        s->high = s->max;
    }
    for (int64_t i = 0; i < d->numel; i++)
        add_bin(s, x[i]);
    s->count += d->numel;
    s->mean = u.mean;
    s->deviation = u.n ? sqrt(u.squares / (double)u.n) : 0;
    cfx_scope_close(mark);
}

/* ---- watches ----------------------------------------------------------------------------------
 */

typedef struct watched {
    char *path;
    cfx_hook_handle *hook; /* counted */
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
        cfx_drop(w->all.data[i]->hook);
        free(w->all.data[i]->path);
        free(w->all.data[i]);
    }
    VEC_FREE(w->all);
}

static const cfx__obj_type watch_type = {.name = "watch", .free = watch_free};

static void add_tensors(cfx_stats *s, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_stats_add(s, v.tensor);
    else if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < v.list->len; i++)
            add_tensors(s, v.list->items[i]);
}

static cfx_value watch_hook(cfx_event *e) {
    add_tensors(&((watched *)e->user)->stats, e->out);
    return cfx_none();
}

typedef struct gathering {
    cfx_watch *w;
    const char *pattern;
} gathering;

static void gather(const char *path, cfx_module *m, void *user) {
    gathering *g = user;
    if (cfx_module_count(m) || !cfx__text_glob(g->pattern, path))
        return;
    watched *one = cfx__alloc0(sizeof *one);
    one->path = cfx__alloc(strlen(path) + 1);
    memcpy(one->path, path, strlen(path) + 1);
    one->hook = cfx_keep(cfx_hook(m, "", watch_hook, one));
    if (one->hook)
        one->hook->stays = true;
    VEC_PUSH(g->w->all, one);
}

cfx_watch *cfx_watch_new_from(cfx_site at, cfx_module *m, const char *pattern) {
    cfx_watch *w = cfx__obj_new(&watch_type, sizeof *w);
    gathering g = {w, pattern ? pattern : "*"};
    if (m)
        cfx_module_walk(m, gather, &g);
    if (w->all.len)
        return w;
    cfx_fail(CFX_KEY_ERROR, at, "no module of %s fits '%s'", m ? m->type : "None", g.pattern);
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
        cfx_unhook(w->all.data[i]->hook);
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
