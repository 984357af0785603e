/* Coordinates in one frame. x: each rank in turn moves to where its neighbours are, as near as the
 * room of its points allows (least squares under minimal distances, which is pooling of adjacent
 * violators); bends of one wire are then lined up. Where ranks would get too tall they stand in
 * columns from left to right. drop.c gives them their y. */
#define _GNU_SOURCE /* qsort_r */
#include "draw.h"

#include <math.h>

enum { /* pixels */
       BETWEEN_BOXES = 24,
       BESIDE_WIRE = 12,
       BETWEEN_WIRES = 9,
       BETWEEN_RANKS = 24,
       MARGIN = 14, /* inside a frame */
       LANE = 7,    /* between wires that run to the next column */
       KINK = 24,
       TALL = 1500,      /* a picture taller than this is broken into columns */
       TALL_FRAME = 2600 /* a module in it is, from here on */
};

enum { SWEEPS = 4 };

/* ---- x ------------------------------------------------------------------------------------- */

static int distance(const cfx__draw_point *a, const cfx__draw_point *b) {
    int gap = a->item >= 0 && b->item >= 0   ? BETWEEN_BOXES
              : a->item >= 0 || b->item >= 0 ? BESIDE_WIRE
                                             : BETWEEN_WIRES;
    return a->right + b->left + gap;
}

/* Whether a point without a box is in the border, not a bend. */
static bool is_port(const cfx__draw_plot *p, const cfx__draw_point *a) {
    return a->item < 0 && (p->nets.data[a->net].source == a - p->points.data ||
                           p->nets.data[a->net].out == a - p->points.data);
}

/* How much an arc wants to be straight: boxes in a row and bends of one wire most of all, and ports
 * with the box they lead to. */
static double pull_of(const cfx__draw_plot *p, const cfx__draw_point *a, const cfx__draw_point *b) {
    if (a->item >= 0 && b->item >= 0)
        return 8;
    const cfx__draw_point *free = a->item < 0 ? a : b, *other = a->item < 0 ? b : a;
    bool port = is_port(p, free) || is_port(p, other);
    return (other->item < 0) == port ? 1 : 8;
}

/* How far from its middle a point is to be lined up with a neighbour: at the port of a frame, but
 * frames of several columns, which are left at their other end, at the middle. */
static int lean_of(const cfx__draw_plot *p, const cfx__draw_point *pt, int port) {
    return pt->item >= 0 && p->s->items.data[pt->item].columns > 1 ? 0 : port;
}

/* Adds where the neighbours on one side want a point, and how much. */
static void ask(const cfx__draw_plot *p, int point, bool up, double *sum, double *weight) {
    const int *first = (up ? p->first_in.data : p->first_out.data) + point;
    const int *arcs = up ? p->in.data : p->out.data;
    const cfx__draw_point *pt = &p->points.data[point];
    for (int k = first[0]; k < first[1]; k++) {
        const cfx__draw_arc *a = &p->arcs.data[arcs[k]];
        const cfx__draw_point *o = &p->points.data[up ? a->from : a->to];
        if (p->ranks.data[o->rank].column != p->ranks.data[pt->rank].column)
            continue;
        double w = pull_of(p, pt, o);
        int lean = up ? lean_of(p, o, a->exit) - lean_of(p, pt, a->entry)
                      : lean_of(p, o, a->entry) - lean_of(p, pt, a->exit);
        *sum += w * (o->x + lean);
        *weight += w;
    }
}

/* Puts the points of a rank where they are wanted most. */
static void place_rank(cfx__draw_plot *p, int rank, bool up, bool down) {
    const int *order = p->order.data + p->first.data[rank];
    int n = p->first.data[rank + 1] - p->first.data[rank];
    struct cfx__draw_block *blocks = p->blocks.data;
    int nblocks = 0;
    double offset = 0; /* of the point from the first one, when all stand as close as they may */
    for (int i = 0; i < n; i++) {
        cfx__draw_point *pt = &p->points.data[order[i]];
        if (i)
            offset += distance(&p->points.data[order[i - 1]], pt);
        double sum = 0, weight = 0;
        if (up)
            ask(p, order[i], true, &sum, &weight);
        if (down)
            ask(p, order[i], false, &sum, &weight);
        double x = weight > 0 ? sum / weight : pt->x;
        double heavy = weight > 0 ? pt->item < 0 ? 1 : 8 : 0.01;
        blocks[nblocks++] = (struct cfx__draw_block){(x - offset) * heavy, heavy, i};
        p->key.data[order[i]] = offset;
        while (nblocks > 1 && blocks[nblocks - 2].sum * blocks[nblocks - 1].weight >
                                  blocks[nblocks - 1].sum * blocks[nblocks - 2].weight) {
            blocks[nblocks - 2].sum += blocks[nblocks - 1].sum;
            blocks[nblocks - 2].weight += blocks[nblocks - 1].weight;
            nblocks--;
        }
    }
    for (int k = 0; k < nblocks; k++) {
        int end = k + 1 < nblocks ? blocks[k + 1].first : n;
        double x = blocks[k].sum / blocks[k].weight;
        for (int i = blocks[k].first; i < end; i++)
            p->points.data[order[i]].x = x + p->key.data[order[i]];
    }
}

/* The x that a bend may take between its neighbours in the rank. */
static void slack(const cfx__draw_plot *p, const cfx__draw_point *pt, double *lo, double *hi) {
    int at = p->first.data[pt->rank] + pt->pos;
    *lo = -INFINITY, *hi = INFINITY;
    if (pt->pos) {
        const cfx__draw_point *o = &p->points.data[p->order.data[at - 1]];
        *lo = o->x + distance(o, pt);
    }
    if (at + 1 < p->first.data[pt->rank + 1]) {
        const cfx__draw_point *o = &p->points.data[p->order.data[at + 1]];
        *hi = o->x - distance(pt, o);
    }
}

/* Lines up the bends of a net: runs of ranks in which one x is free to all of them. */
static void straighten(cfx__draw_plot *p, const cfx__draw_net *net) {
    int n = net->deepest - p->points.data[net->source].rank - 1;
    for (int i = 0; i < n;) {
        double lo = -INFINITY, hi = INFINITY, sum = 0;
        int k = i;
        for (; k < n; k++) {
            const cfx__draw_point *pt = &p->points.data[net->trunk + k];
            double l, h;
            slack(p, pt, &l, &h);
            l = fmax(l, lo), h = fmin(h, hi);
            if (l > h || p->ranks.data[pt->rank].column !=
                             p->ranks.data[p->points.data[net->trunk + i].rank].column)
                break;
            lo = l, hi = h;
            sum += pt->x;
        }
        if (k == i) { /* no room of its own: it stays */
            i++;
            continue;
        }
        double x = fmin(fmax(sum / (k - i), lo), hi);
        for (; i < k; i++)
            p->points.data[net->trunk + i].x = x;
    }
}

static void place_x(cfx__draw_plot *p) {
    for (int r = 0; r < p->nranks; r++) {
        double x = 0;
        for (int i = p->first.data[r]; i < p->first.data[r + 1]; i++) {
            cfx__draw_point *pt = &p->points.data[p->order.data[i]];
            x += i > p->first.data[r] ? distance(&p->points.data[p->order.data[i - 1]], pt) : 0;
            pt->x = x;
        }
    }
    VEC_ROOM(p->blocks, p->points.len + 1);
    for (int k = 0; k < SWEEPS; k++) {
        for (int r = 0; r < p->nranks; r++)
            place_rank(p, r, true, k == SWEEPS - 1);
        for (int r = p->nranks - 1; r >= 0; r--)
            place_rank(p, r, k == SWEEPS - 1, true);
    }
    for (int r = 0; r < p->nranks; r++)
        place_rank(p, r, true, true);
    for (size_t k = 0; k < p->nets.len; k++)
        straighten(p, &p->nets.data[k]);
}

/* ---- columns ------------------------------------------------------------------------------- */

static int arcs_after(const cfx__draw_plot *p, int rank) {
    int n = 0;
    for (int i = p->first.data[rank]; i < p->first.data[rank + 1]; i++)
        n += p->first_out.data[p->order.data[i] + 1] - p->first_out.data[p->order.data[i]];
    return n;
}

static void add_column(cfx__draw_plot *p, int first) {
    VEC_PUSH(p->columns, ((struct cfx__draw_column){
                             .first = first, .wires = first ? arcs_after(p, first - 1) : 0}));
}

/* About how tall the ranks from `first` to before `end` get. */
static int height_of(const cfx__draw_plot *p, int first, int end) {
    return p->ranks.data[end - 1].y - (first ? p->ranks.data[first - 1].y : 0);
}

/* Fills columns that are at most `tallest` tall, each ended where few wires run near its end, as
 * the last argument wants it or not. Returns how many. */
static int fill_columns(cfx__draw_plot *p, int tallest, bool keep) {
    int n = 1, first = 0;
    for (int r = 1; r < p->nranks; r++) {
        if (height_of(p, first, r + 1) <= tallest)
            continue;
        int best = r;
        for (int k = r - 1; keep && k > first && height_of(p, first, k) > tallest * 0.8; k--)
            if (arcs_after(p, k - 1) < arcs_after(p, best - 1))
                best = k;
        if (keep)
            add_column(p, best);
        first = best;
        r = best;
        n++;
    }
    return n;
}

/* Breaks the ranks into columns so that width and height of the whole get alike, and all columns
 * about equally tall. */
static void choose_columns(cfx__draw_plot *p) {
    int height = 0, width = 1, tallest = 0;
    p->ranks.len = p->columns.len = 0;
    for (int r = 0; r < p->nranks; r++) {
        int w = 0, h = 0;
        for (int i = p->first.data[r]; i < p->first.data[r + 1]; i++) {
            const cfx__draw_point *pt = &p->points.data[p->order.data[i]];
            w += pt->left + pt->right + BESIDE_WIRE;
            if (pt->item >= 0 && p->s->items.data[pt->item].h > h)
                h = p->s->items.data[pt->item].h;
        }
        height += h + BETWEEN_RANKS + 8;
        VEC_PUSH(p->ranks,
                 ((struct cfx__draw_rank){.h = h, .y = height})); /* y: about its end, now */
        width = w > width ? w : width;
        tallest = h > tallest ? h : tallest;
    }
    add_column(p, 0);
    int n = (int)lround(sqrt(1.4 * height / (width + 60)));
    if (n < 2 || height < (p->frame ? TALL_FRAME : TALL))
        return;
    int lo = height / n,
        hi = lo * 6 / 5 > tallest * 6 / 5 + 200 ? lo * 6 / 5 : tallest * 6 / 5 + 200;
    n = fill_columns(p, hi, false);
    for (int k = 0; k < 10; k++) { /* the lowest columns of that number */
        int middle = lo + (hi - lo) / 2;
        if (fill_columns(p, middle, false) <= n)
            hi = middle;
        else
            lo = middle;
    }
    fill_columns(p, hi + hi / 20, true);
    for (int c = 0; c < (int)p->columns.len; c++) {
        int end = c + 1 < (int)p->columns.len ? p->columns.data[c + 1].first : p->nranks;
        for (int r = p->columns.data[c].first; r < end; r++)
            p->ranks.data[r].column = c;
    }
    p->s->items.data[p->frame].columns = (int)p->columns.len;
}

/* Columns side by side, with room for the wires between them. Returns the width of all. */
static int place_columns(cfx__draw_plot *p) {
    int x = MARGIN;
    for (int c = 0; c < (int)p->columns.len; c++) {
        struct cfx__draw_column *col = &p->columns.data[c];
        double lo = INFINITY, hi = -INFINITY;
        int end = c + 1 < (int)p->columns.len ? p->columns.data[c + 1].first : p->nranks;
        for (int i = p->first.data[col->first]; i < p->first.data[end]; i++) {
            const cfx__draw_point *pt = &p->points.data[p->order.data[i]];
            lo = fmin(lo, pt->x - pt->left);
            hi = fmax(hi, pt->x + pt->right);
        }
        if (c)
            x += 2 * MARGIN + col->wires * LANE;
        col->x = x;
        col->w = lo <= hi ? (int)ceil(hi - lo) : 0;
        col->shift = x - lo;
        x += col->w;
    }
    return x + MARGIN;
}

static void shift_points(cfx__draw_plot *p, int by) {
    for (int c = 0; c < (int)p->columns.len; c++)
        p->columns.data[c].x += by;
    for (size_t i = 0; i < p->points.len; i++) {
        cfx__draw_point *pt = &p->points.data[i];
        pt->x = round(pt->x + p->columns.data[p->ranks.data[pt->rank].column].shift) + by;
    }
}

/* ---- strokes ------------------------------------------------------------------------------- */

static int by_from(const void *a, const void *b, void *plot) {
    const cfx__draw_plot *p = plot;
    const cfx__draw_arc *i = &p->arcs.data[*(const int *)a], *k = &p->arcs.data[*(const int *)b];
    double x = p->points.data[i->from].x + i->exit, y = p->points.data[k->from].x + k->exit;
    return x < y ? -1 : x > y ? 1 : *(const int *)a - *(const int *)b;
}

/* Wires come into a box from straight above where they can, and not too close to each other. */
static void spread_entries(cfx__draw_plot *p, int point) {
    const cfx__draw_point *pt = &p->points.data[point];
    int first = p->first_in.data[point], n = p->first_in.data[point + 1] - first;
    if (pt->item < 0 || n == 0)
        return;
    const cfx__draw_item *item = &p->s->items.data[pt->item];
    int *arcs = p->in.data + first, half = item->w / 2 - 6;
    if (cfx__draw_is_frame(item) && item->kind == CFX__ITEM_MODULE)
        return; /* wires have ports there */
    if (n > 1)
        qsort_r(arcs, (size_t)n, sizeof *arcs, by_from, p);
    double step = fmin(10, 2.0 * half / n);
    for (int k = 0; k < n; k++) {
        cfx__draw_arc *a = &p->arcs.data[arcs[k]];
        const cfx__draw_point *from = &p->points.data[a->from];
        double x = from->x + a->exit - pt->x;
        if (p->ranks.data[from->rank].column != p->ranks.data[pt->rank].column)
            x = 0;
        double lo = -half + k * step, hi = half - (n - 1 - k) * step;
        if (k) {
            double after = p->arcs.data[arcs[k - 1]].entry + step;
            lo = fmax(lo, after);
        }
        a->entry = (int)round(fmin(fmax(x, lo), fmax(lo, hi)));
    }
}

/* A wire that would leave a box with a small kink leaves it a little beside the middle instead. */
static void straighten_exit(cfx__draw_plot *p, int point) {
    const cfx__draw_point *from = &p->points.data[point];
    if (from->item < 0 || p->first_out.data[point + 1] - p->first_out.data[point] != 1)
        return;
    const cfx__draw_item *item = &p->s->items.data[from->item];
    cfx__draw_arc *a = &p->arcs.data[p->out.data[p->first_out.data[point]]];
    const cfx__draw_point *to = &p->points.data[a->to];
    bool fixed = to->item < 0 || cfx__draw_is_frame(&p->s->items.data[to->item]);
    int kink = (int)to->x + a->entry - (int)from->x - a->exit;
    if (fixed && !cfx__draw_is_frame(item) && abs(kink) <= KINK && abs(kink) < item->w / 2 - 6 &&
        p->ranks.data[from->rank].column == p->ranks.data[to->rank].column)
        a->exit += kink;
}

static bool ends_here(const cfx__draw_plot *p, const cfx__draw_point *to) {
    if (to->item < 0)
        return false;
    const cfx__draw_item *item = &p->s->items.data[to->item];
    return !(item->open && item->kind == CFX__ITEM_MODULE);
}

static void add_strokes(cfx__draw_plot *p) {
    int lanes_at = -1, lane = 0;
    for (int r = 0; r < p->nranks; r++)
        for (int i = p->first.data[r + 1] - 1; i >= p->first.data[r]; i--) { /* right to left */
            int point = p->order.data[i];
            const cfx__draw_point *from = &p->points.data[point];
            const struct cfx__draw_rank *rank = &p->ranks.data[r];
            for (int k = p->first_out.data[point + 1] - 1; k >= p->first_out.data[point]; k--) {
                const cfx__draw_arc *a = &p->arcs.data[p->out.data[k]];
                const cfx__draw_point *to = &p->points.data[a->to];
                const struct cfx__draw_rank *below = &p->ranks.data[to->rank];
                cfx__draw_stroke s = {.frame = p->frame,
                                      .from = p->nets.data[a->net].item,
                                      .x0 = (int)from->x + a->exit,
                                      .y0 = from->bottom,
                                      .turn0 = a->turn0,
                                      .turn1 = a->turn1,
                                      .x1 = (int)to->x + a->entry,
                                      .y1 = to->top,
                                      .head = ends_here(p, to)};
                if (r == 0 && cfx__draw_is_border(p, 0))
                    s.y0 = 0;
                if (below->column != rank->column) {
                    const struct cfx__draw_column *col = &p->columns.data[rank->column];
                    int n = p->columns.data[below->column].wires;
                    lane = lanes_at == r ? lane + 1 : 0;
                    lanes_at = r;
                    s.lane = col->x + col->w + MARGIN + LANE * lane;
                    s.turn0 = col->bottom + 8 + LANE * lane;
                    s.turn1 = below->y - 8 - LANE * (n - 1 - lane);
                }
                VEC_PUSH(p->s->strokes, s);
            }
        }
}

/* The title of a frame stands where no wire comes in: left of the first, right of the last, or the
 * frame gets wider. */
static void place_title(cfx__draw_plot *p, int title) {
    cfx__draw_item *frame = &p->s->items.data[p->frame];
    double first = INFINITY, last = -INFINITY;
    frame->title = CFX__PAD;
    for (int i = 0; title && cfx__draw_is_border(p, 0) && i < p->first.data[1]; i++) {
        double x = p->points.data[p->order.data[i]].x;
        first = fmin(first, x), last = fmax(last, x);
    }
    int room = title + 2 * CFX__PAD;
    if (first > room)
        return;
    if (frame->w - last > room) {
        frame->title = (int)last + CFX__PAD;
        return;
    }
    int more = room - (int)first;
    for (size_t i = 0; i < p->points.len; i++)
        p->points.data[i].x += more;
    for (size_t c = 0; c < p->columns.len; c++)
        p->columns.data[c].x += more;
    frame->w += more;
}

void cfx__draw_plot_place(cfx__draw_plot *p) {
    cfx__draw_item *items = p->s->items.data, *frame = &items[p->frame];
    int title = 0;
    for (int i = 0; i < frame->nlines; i++) {
        int w = p->s->lines.data[frame->line + i].width * CFX__CHAR_W;
        title = w > title ? w : title;
    }
    p->header = frame->nlines ? frame->nlines * CFX__LINE_H + 10 : 0;
    choose_columns(p);
    place_x(p);
    int width = place_columns(p), least = title + 2 * CFX__PAD;
    shift_points(p, width < least ? (least - width) / 2 : 0);
    frame->w = width > least ? width : least;
    place_title(p, title);
    for (size_t i = 0; i < p->points.len; i++) {
        spread_entries(p, (int)i);
        straighten_exit(p, (int)i);
    }
    frame->h = cfx__draw_plot_drop(p);
    for (size_t i = 0; i < p->points.len; i++) {
        const cfx__draw_point *pt = &p->points.data[i];
        if (pt->item < 0)
            continue;
        items[pt->item].x = (int)pt->x - items[pt->item].w / 2;
        items[pt->item].y = pt->top;
    }
    add_strokes(p);
}
