/* y in one frame: everything goes up until it stands below what feeds it and below what was put
 * above it. So a tall frame pushes down only what is under it, not all of its rank. A wire turns
 * below all that is above its way, and what it runs over stands below it. */
#include "draw.h"

#include <math.h>

enum { /* pixels */
    BETWEEN_RANKS = 24,
    MARGIN = 14, /* inside a frame */
    LANE = 7,    /* between wires that run to the next column */
    CELL = 4,
    STRAIGHT = 8 /* between bends of a wire that runs straight */
};

bool cfx__draw_is_border(const cfx__draw_plot *p, int rank) { /* ports alone, and at an end */
    return (rank == 0 || rank == p->nranks - 1) && p->first.data[rank] < p->first.data[rank + 1] &&
           !p->ranks.data[rank].h && p->points.data[p->order.data[p->first.data[rank]]].item < 0;
}

/* The lowest thing so far in a column, by x in cells. */
typedef struct skyline {
    int *low;
    int n, x;
} skyline;

static int cell(const skyline *s, double x) {
    int c = (int)floor((x - s->x) / CELL) + 1;
    return c < 0 ? 0 : c >= s->n ? s->n - 1 : c;
}

static int under(const skyline *s, double x0, double x1) {
    int y = 0;
    for (int c = cell(s, fmin(x0, x1)), end = cell(s, fmax(x0, x1)); c <= end; c++)
        y = s->low[c] > y ? s->low[c] : y;
    return y;
}

static void raise_to(skyline *s, double x0, double x1, int y) {
    for (int c = cell(s, fmin(x0, x1)), end = cell(s, fmax(x0, x1)); c <= end; c++)
        s->low[c] = s->low[c] > y ? s->low[c] : y;
}

static bool other_column(const cfx__draw_plot *p, const cfx__draw_arc *a) {
    return p->ranks.data[p->points.data[a->from].rank].column !=
           p->ranks.data[p->points.data[a->to].rank].column;
}

/* for each arc a into point k from the same column */
#define EACH_IN(p, k, a)                                                                           \
    for (int i_ = (p)->first_in.data[k]; i_ < (p)->first_in.data[(k) + 1]; i_++)                   \
        for (cfx__draw_arc *a = &(p)->arcs.data[(p)->in.data[i_]]; a && !other_column(p, a);       \
             a = NULL)

static double start_of(const cfx__draw_plot *p, const cfx__draw_arc *a) {
    return p->points.data[a->from].x + a->exit;
}

/* Where the arcs into a point turn. Returns the lowest of their ends; 0: there are none. */
static int turn_arcs(cfx__draw_plot *p, const skyline *s, int k) {
    const cfx__draw_point *pt = &p->points.data[k];
    int lowest = 0;
    EACH_IN(p, k, a) {
        double x0 = start_of(p, a), x1 = pt->x + a->entry, far = fabs(x1 - x0);
        int base = under(s, x0, x1), from = p->points.data[a->from].bottom;
        a->turn0 = from > base ? from : base;
        a->turn1 = a->turn0 + (far < 1 && pt->item < 0 ? STRAIGHT
                                                       : BETWEEN_RANKS + (int)fmin(44, far / 9));
        lowest = a->turn1 > lowest ? a->turn1 : lowest;
    }
    return lowest;
}

/* A point of the rank that an arc runs over stands below it. */
static void clear_arcs(cfx__draw_plot *p, int rank) {
    int begin = p->first.data[rank], end = p->first.data[rank + 1];
    for (int i = begin; i < end; i++) {
        int k = p->order.data[i];
        EACH_IN(p, k, a) {
            double x0 = start_of(p, a);
            int step = x0 < p->points.data[k].x ? -1 : 1;
            for (int o = i; o >= begin && o < end; o += step) {
                cfx__draw_point *pt = &p->points.data[p->order.data[o]];
                if (step < 0 ? pt->x + pt->right + CELL < x0 : pt->x - pt->left - CELL > x0)
                    break;
                pt->top = a->turn1 > pt->top ? a->turn1 : pt->top;
            }
        }
    }
}

static void drop_rank(cfx__draw_plot *p, skyline *s, int rank, bool first) {
    int begin = p->first.data[rank], end = p->first.data[rank + 1], fed = INT32_MAX;
    for (int i = begin; i < end; i++) {
        cfx__draw_point *pt = &p->points.data[p->order.data[i]];
        int turned = turn_arcs(p, s, p->order.data[i]);
        int above = under(s, pt->x - pt->left, pt->x + pt->right);
        pt->top = above + (pt->item >= 0 && !first ? BETWEEN_RANKS : 0);
        pt->top = turned > pt->top ? turned : pt->top;
        fed = turned && pt->top < fed ? pt->top : fed;
    }
    for (int i = begin; i < end; i++) { /* what nothing feeds does not float away from its users */
        cfx__draw_point *pt = &p->points.data[p->order.data[i]];
        int k = p->order.data[i];
        bool unfed = p->first_in.data[k] == p->first_in.data[k + 1];
        pt->top = unfed && fed < INT32_MAX && fed > pt->top ? fed : pt->top;
    }
    clear_arcs(p, rank);
    for (int i = begin; i < end; i++) {
        cfx__draw_point *pt = &p->points.data[p->order.data[i]];
        pt->bottom = pt->top + (pt->item >= 0 ? p->s->items.data[pt->item].h : 0);
        raise_to(s, pt->x - pt->left, pt->x + pt->right, pt->bottom);
        EACH_IN(p, p->order.data[i], a) raise_to(s, start_of(p, a), pt->x + a->entry, a->turn1);
    }
}

/* Ranks of one column. Returns the lowest y in it. */
static int drop_column(cfx__draw_plot *p, int c) {
    struct cfx__draw_column *col = &p->columns.data[c];
    int end = c + 1 < (int)p->columns.len ? p->columns.data[c + 1].first : p->nranks;
    int top = p->header + (c ? MARGIN + LANE * col->wires : 8), lowest = top;
    skyline s = {.n = col->w / CELL + 4, .x = col->x};
    s.low = cfx__alloc((size_t)s.n * sizeof *s.low);
    for (int i = 0; i < s.n; i++)
        s.low[i] = top;
    for (int r = col->first; r < end; r++) {
        int from = p->first.data[r], until = p->first.data[r + 1];
        p->ranks.data[r].y = top;
        if (r == 0 && cfx__draw_is_border(p, 0)) {
            for (int i = from; i < until; i++) {
                p->points.data[p->order.data[i]].top = 0;
                p->points.data[p->order.data[i]].bottom = p->header - 8;
            }
            continue;
        }
        if (r == p->nranks - 1 && r && cfx__draw_is_border(p, r)) {
            for (int i = from; i < until; i++) {
                int turned = turn_arcs(p, &s, p->order.data[i]);
                lowest = turned > lowest ? turned : lowest;
            }
            continue;
        }
        drop_rank(p, &s, r, r == col->first);
        for (int i = from; i < until; i++) {
            int bottom = p->points.data[p->order.data[i]].bottom;
            lowest = bottom > lowest ? bottom : lowest;
        }
    }
    cfx__free(s.low);
    return lowest;
}

int cfx__draw_plot_drop(cfx__draw_plot *p) {
    int height = 0, last = p->nranks - 1;
    for (int c = 0; c < (int)p->columns.len; c++) {
        p->columns.data[c].bottom = drop_column(p, c);
        int lanes = c + 1 < (int)p->columns.len ? LANE * p->columns.data[c + 1].wires : 0;
        int low = p->columns.data[c].bottom + lanes;
        height = low > height ? low : height;
    }
    if (last < 1 || !cfx__draw_is_border(p, last))
        return height + MARGIN;
    for (int i = p->first.data[last]; i < p->first.data[last + 1]; i++)
        p->points.data[p->order.data[i]].top = p->points.data[p->order.data[i]].bottom = height;
    return height;
}
