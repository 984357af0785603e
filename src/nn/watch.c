/* Watching activations: forward hooks that add up what modules give. */
#include <cfx/watch.h>

#include "nn.h"

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

static void add_bins(cfx_stats *s, const double *x, int64_t n) {
    double scale = s->high > s->low ? CFX_STATS_BINS / (s->high - s->low) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        double at = (x[i] - s->low) * scale;
        s->histogram[at < 0 ? 0 : at >= CFX_STATS_BINS ? CFX_STATS_BINS - 1 : (int)at]++;
    }
}

/* The block of a contiguous tensor from element `at` on, as doubles; scope. */
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
            add_block(s, &squares, x, n);
        }
    if (!s->tensors++) {
        s->low = s->min;
        s->high = s->max;
    }
    for (int64_t at = 0; at < flat->numel; at += n)
        CFX_SCOPE {
            const double *x = block_at(flat, at, &n);
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
        cfx__free(w->all.data[i]->path);
        cfx__free(w->all.data[i]);
    }
    VEC_FREE(w->all);
}

static const cfx__obj_type watch_type = {.name = "watch", .free = watch_free};

static void add_tensors(cfx_stats *s, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_stats_add(s, cfx_as_tensor(v));
    else if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            add_tensors(s, cfx_as_list(v)->items[i]);
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
