/* The order of points in each rank: sweeps down and up, each sorting a rank by where its neighbours
 * in the rank before stand; the order with the fewest crossings is kept. Ties and points without
 * neighbours keep their place, so that the picture follows the order of execution. */
#define _GNU_SOURCE /* qsort_r */
#include "draw.h"

enum { SWEEPS = 4 };

/* A point goes to the mean of its neighbours on one side; false where it has none. */
static bool wanted(const cfx__draw_plot *p, int point, bool down, double *at) {
    const int *first = (down ? p->first_in.data : p->first_out.data) + point;
    const int *arcs = down ? p->in.data : p->out.data;
    double sum = 0;
    for (int k = first[0]; k < first[1]; k++) {
        const cfx__draw_arc *a = &p->arcs.data[arcs[k]];
        int other = down ? a->from : a->to;
        const cfx__draw_point *o = &p->points.data[other];
        int width = o->left + o->right;
        sum += o->pos + (width > 20 ? (double)(down ? a->exit : a->entry) / width : 0);
    }
    if (first[1] > first[0])
        *at = sum / (first[1] - first[0]);
    return first[1] > first[0];
}

static int by_key(const void *a, const void *b, void *plot) {
    const cfx__draw_plot *p = plot;
    int i = *(const int *)a, k = *(const int *)b;
    double x = p->key.data[i], y = p->key.data[k];
    return x < y ? -1 : x > y ? 1 : p->points.data[i].pos - p->points.data[k].pos;
}

static void sort_rank(cfx__draw_plot *p, int rank, bool down) {
    int first = p->first.data[rank], n = p->first.data[rank + 1] - first;
    int *order = p->order.data + first;
    if (n < 2)
        return;
    double at = -1;
    for (int i = 0; i < n; i++) { /* without neighbours: beside the one on its left */
        wanted(p, order[i], down, &at);
        p->key.data[order[i]] = at;
    }
    bool sorted = true;
    for (int i = 1; i < n && sorted; i++)
        sorted = p->key.data[order[i - 1]] <= p->key.data[order[i]];
    if (!sorted)
        qsort_r(order, (size_t)n, sizeof *order, by_key, p);
    for (int i = 0; i < n; i++)
        p->points.data[order[i]].pos = i;
}

/* Crossings between a rank and the next: inversions of the lower ends, counted in a Fenwick tree.
 */
static int64_t crossings_after(cfx__draw_plot *p, int rank) {
    int first = p->first.data[rank], last = p->first.data[rank + 1];
    int below = p->first.data[rank + 2] - last;
    if (last - first < 2 || below < 2)
        return 0;
    p->sums.len = 0;
    VEC_ROOM(p->sums, (size_t)below + 1);
    memset(p->sums.data, 0, ((size_t)below + 1) * sizeof(int));
    int64_t found = 0, seen = 0;
    for (int i = first; i < last; i++) {
        int point = p->order.data[i];
        const int *range = p->first_out.data + point;
        for (int k = range[0]; k < range[1]; k++) { /* those that end right of this one cross it */
            int pos = p->points.data[p->arcs.data[p->out.data[k]].to].pos;
            found += seen;
            for (int j = pos + 1; j > 0; j -= j & -j)
                found -= p->sums.data[j];
        }
        for (int k = range[0]; k < range[1]; k++, seen++)
            for (int j = p->points.data[p->arcs.data[p->out.data[k]].to].pos + 1; j <= below;
                 j += j & -j)
                p->sums.data[j]++;
    }
    return found;
}

static int64_t crossings(cfx__draw_plot *p) {
    int64_t n = 0;
    for (int r = 0; r + 1 < p->nranks; r++)
        n += crossings_after(p, r);
    return n;
}

void cfx__draw_plot_order(cfx__draw_plot *p) {
    size_t n = p->points.len;
    VEC_ROOM(p->key, n + 1);
    VEC_ROOM(p->best, n + 1);
    bool single = true;
    for (int r = 0; r < p->nranks && single; r++)
        single = p->first.data[r + 1] - p->first.data[r] < 2;
    if (single)
        return;
    int64_t fewest = INT64_MAX;
    for (int k = 0; k < SWEEPS * 2 && (k < 2 || fewest); k++) {
        if (k % 2 == 0)
            for (int r = 1; r < p->nranks; r++)
                sort_rank(p, r, true);
        else
            for (int r = p->nranks - 2; r >= 0; r--)
                sort_rank(p, r, false);
        int64_t now = crossings(p);
        if (now > fewest)
            continue; /* among equals the later one: its order is that of ports, too */
        fewest = now;
        memcpy(p->best.data, p->order.data, n * sizeof(int));
    }
    memcpy(p->order.data, p->best.data, n * sizeof(int));
    for (int r = 0; r < p->nranks; r++)
        for (int i = p->first.data[r]; i < p->first.data[r + 1]; i++)
            p->points.data[p->order.data[i]].pos = i - p->first.data[r];
}
