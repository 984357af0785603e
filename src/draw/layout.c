/* The layout of all open frames, from the innermost out: a frame that is laid out is a box to the
 * frame around it, with ports where wires cross its border. This file makes the layered graph of
 * one frame; order.c and place.c lay it out. */
#include "draw.h"

static int add_point(cfx__draw_plot *p, cfx__draw_point point) {
    VEC_PUSH(p->points, point);
    return (int)p->points.len - 1;
}

static int add_port(cfx__draw_plot *p, int net, int rank) {
    return add_point(
        p, (cfx__draw_point){.item = -1, .net = net, .rank = rank, .left = 3, .right = 3});
}

/* Where a leg's wire crosses the border of a child that is a frame, from that child's middle. */
static int port_of(const cfx__draw_plot *p, const cfx__draw_leg *l, int child, int neighbour) {
    int k = (int)(l - p->s->legs.data) + neighbour;
    const cfx__draw_wire *w = &p->s->wires.data[l->wire];
    if (child < 0 || k < w->leg || k >= w->leg + w->nlegs)
        return 0;
    return p->s->legs.data[k].port - p->s->items.data[child].w / 2;
}

/* The net of a leg, made when it is the first of its value in this frame. */
static int net_of(cfx__draw_plot *p, const cfx__draw_leg *l) {
    int item = p->s->wires.data[l->wire].from;
    if (p->net_of_frame[item] == p->frame)
        return p->net_of[item];
    int k = (int)p->nets.len;
    cfx__draw_net net = {.item = item, .last = -1, .out = -1};
    net.source = l->from < 0 ? add_port(p, k, 0) : p->point_of[l->from];
    net.exit = port_of(p, l, l->from, -1);
    net.deepest = p->points.data[net.source].rank + 1;
    VEC_PUSH(p->nets, net);
    p->net_of_frame[item] = p->frame;
    p->net_of[item] = k;
    return k;
}

/* Points for the children, below the rank of ports when there are wires from outside. */
static void add_children(cfx__draw_plot *p, bool ports) {
    const cfx__draw_item *items = p->s->items.data;
    for (int c = items[p->frame].first; c >= 0; c = items[c].next) {
        int half = items[c].w / 2;
        p->point_of[c] =
            add_point(p, (cfx__draw_point){.item = c,
                                           .net = -1,
                                           .rank = items[c].rank + ports,
                                           .left = half + items[c].left,
                                           .right = items[c].w - half + items[c].right});
    }
    p->nranks = items[p->frame].ranks + ports;
}

/* The arcs of each net that end at a child or a port of the border; `from` is not known yet. */
static void add_ends(cfx__draw_plot *p, const int *legs, int nlegs) {
    for (int k = 0; k < nlegs; k++) {
        const cfx__draw_leg *l = &p->s->legs.data[legs[k]];
        if (p->s->wires.data[l->wire].cut)
            continue;
        int n = net_of(p, l), to;
        if (l->to < 0) {
            if (p->nets.data[n].out >= 0)
                continue;
            to = add_port(p, n, p->nranks);
            p->nets.data[n].out = to;
        } else {
            to = p->point_of[l->to];
            if (p->nets.data[n].last == to)
                continue;
            p->nets.data[n].last = to;
        }
        int rank = p->points.data[to].rank;
        if (rank > p->nets.data[n].deepest)
            p->nets.data[n].deepest = rank;
        VEC_PUSH(p->arcs, ((cfx__draw_arc){.to = to, .net = n, .entry = port_of(p, l, l->to, 1)}));
    }
}

/* Bends in every rank that a net runs past, and the arcs along them. */
static void add_trunks(cfx__draw_plot *p) {
    size_t ends = p->arcs.len;
    for (size_t n = 0; n < p->nets.len; n++) {
        cfx__draw_net *net = &p->nets.data[n];
        int rank = p->points.data[net->source].rank, from = net->source;
        net->trunk = (int)p->points.len;
        for (int r = rank + 1; r < net->deepest; r++) {
            int bend = add_port(p, (int)n, r);
            VEC_PUSH(p->arcs, ((cfx__draw_arc){.from = from,
                                               .to = bend,
                                               .net = (int)n,
                                               .exit = from == net->source ? net->exit : 0}));
            from = bend;
        }
    }
    for (size_t k = 0; k < ends; k++) {
        cfx__draw_arc *a = &p->arcs.data[k];
        const cfx__draw_net *net = &p->nets.data[a->net];
        int past = p->points.data[a->to].rank - p->points.data[net->source].rank - 1;
        a->from = past ? net->trunk + past - 1 : net->source;
        a->exit = past ? 0 : net->exit;
    }
}

/* first[i] .. first[i + 1] of `out` are the arcs whose key is i. */
static void sort_arcs(cfx__draw_plot *p, bool by_to) {
    int n = (int)p->points.len, m = (int)p->arcs.len;
    if (by_to) {
        p->in.len = 0, p->first_in.len = 0;
        VEC_ROOM(p->in, (size_t)m + 1);
        VEC_ROOM(p->first_in, (size_t)n + 2);
    } else {
        p->out.len = 0, p->first_out.len = 0;
        VEC_ROOM(p->out, (size_t)m + 1);
        VEC_ROOM(p->first_out, (size_t)n + 2);
    }
    int *first = by_to ? p->first_in.data : p->first_out.data;
    int *out = by_to ? p->in.data : p->out.data;
    memset(first, 0, ((size_t)n + 2) * sizeof *first);
    for (int k = 0; k < m; k++)
        first[(by_to ? p->arcs.data[k].to : p->arcs.data[k].from) + 2]++;
    for (int i = 0; i < n; i++)
        first[i + 2] += first[i + 1];
    for (int k = 0; k < m; k++)
        out[first[(by_to ? p->arcs.data[k].to : p->arcs.data[k].from) + 1]++] = k;
}

/* Points by rank, in the order they were made: that of execution. */
static void sort_points(cfx__draw_plot *p) {
    int n = (int)p->points.len;
    p->order.len = p->first.len = 0;
    VEC_ROOM(p->order, (size_t)n + 1);
    VEC_ROOM(p->first, (size_t)p->nranks + 2);
    int *first = p->first.data;
    memset(first, 0, ((size_t)p->nranks + 2) * sizeof *first);
    for (int i = 0; i < n; i++)
        first[p->points.data[i].rank + 2]++;
    for (int r = 0; r < p->nranks; r++)
        first[r + 2] += first[r + 1];
    for (int i = 0; i < n; i++)
        p->order.data[first[p->points.data[i].rank + 1]++] = i;
    for (int r = 0; r < p->nranks; r++)
        for (int i = first[r]; i < first[r + 1]; i++)
            p->points.data[p->order.data[i]].pos = i - first[r];
}

static void lay_out(cfx__draw_plot *p, int f) {
    cfx__draw_scene *s = p->s;
    const int *legs = s->legs_of + s->first_leg[f];
    int nlegs = s->first_leg[f + 1] - s->first_leg[f];
    p->frame = f;
    p->points.len = p->arcs.len = p->nets.len = 0;
    bool in = false, out = false;
    for (int k = 0; k < nlegs; k++) {
        const cfx__draw_leg *l = &s->legs.data[legs[k]];
        in |= l->from < 0 && !s->wires.data[l->wire].cut;
        out |= l->to < 0 && !s->wires.data[l->wire].cut;
    }
    add_children(p, in);
    add_ends(p, legs, nlegs);
    p->nranks += out;
    add_trunks(p);
    sort_points(p);
    sort_arcs(p, false);
    sort_arcs(p, true);
    cfx__draw_plot_order(p);
    if (s->ordered)
        s->ordered(s, p);
    cfx__draw_plot_place(p);
    for (int k = 0; k < nlegs; k++) { /* where wires cross the border, for the frame around */
        cfx__draw_leg *l = &s->legs.data[legs[k]];
        if (s->wires.data[l->wire].cut || (l->from >= 0 && l->to >= 0))
            continue;
        const cfx__draw_net *net = &p->nets.data[p->net_of[s->wires.data[l->wire].from]];
        l->port = (int)p->points.data[l->from < 0 ? net->source : net->out].x;
    }
}

void cfx__draw_layout(cfx__draw_scene *s) {
    size_t n = s->items.len;
    cfx__draw_plot p = {.s = s,
                   .point_of = cfx__alloc(n * sizeof(int)),
                   .net_of = cfx__alloc(n * sizeof(int)),
                   .net_of_frame = cfx__alloc(n * sizeof(int))};
    for (size_t i = 0; i < n; i++)
        p.net_of_frame[i] = -1;
    for (int i = (int)n - 1; i >= 0; i--)
        if (cfx__draw_is_frame(cfx__draw_item_at(s, i)))
            lay_out(&p, i);
    for (size_t i = 1; i < n; i++) /* from places in frames to places on the page */
        if (s->items.data[i].seen) {
            const cfx__draw_item *parent = cfx__draw_item_at(s, s->items.data[i].parent);
            s->items.data[i].x += parent->x;
            s->items.data[i].y += parent->y;
        }
    VEC_FREE(p.points);
    VEC_FREE(p.arcs);
    VEC_FREE(p.nets);
    VEC_FREE(p.out);
    VEC_FREE(p.in);
    VEC_FREE(p.first_out);
    VEC_FREE(p.first_in);
    VEC_FREE(p.order);
    VEC_FREE(p.first);
    VEC_FREE(p.best);
    VEC_FREE(p.key);
    VEC_FREE(p.sums);
    VEC_FREE(p.ranks);
    VEC_FREE(p.columns);
    VEC_FREE(p.blocks);
    cfx__free(p.point_of);
    cfx__free(p.net_of);
    cfx__free(p.net_of_frame);
}
