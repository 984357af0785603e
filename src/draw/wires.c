/* Wires: which visible item feeds which, in which rank of its frame each item stands, and which
 * wires are cut to stubs because they would run across the whole picture.
 *
 * A wire crosses the frames between its ends; its part in each is a leg. Ranks are those of the
 * longest path in the order of execution, with at most RANK_WIDTH boxes in one. What hangs on
 * inputs alone (masks, positions) is pulled down to where it is first used. */
#include "draw.h"

#include <limits.h>

enum { RANK_WIDTH = 8 };

/* ---- pairs --------------------------------------------------------------------------------- */

typedef struct lost { /* an input that is not in the picture */
    int to;
    const cfx_node *node;
} lost;

typedef VEC(lost) losses;

static void wire_inputs(cfx__draw_scene *s, cfx__draw_sheet *sheet, const cfx_node *n, int to,
                        int *mark, losses *out) {
    cfx_each_input(n, u) {
        uint32_t id = cfx__node_of(u->node)->id;
        int from = sheet->item[id];
        if (from == CFX__LEFT_OUT && sheet->mark[id] != to + 1) {
            sheet->mark[id] = to + 1;
            VEC_PUSH(*out, ((lost){to, u->node}));
        }
        if (from < 0)
            continue;
        from = cfx__draw_item_at(s, from)->shown;
        if (from >= to || mark[from] == to) /* from a block like its own: left to the first */
            continue;
        mark[from] = to;
        VEC_PUSH(s->wires, ((cfx__draw_wire){.from = from, .to = to}));
    }
}

/* Consumers come in the order of execution and a closed frame is one run of it, so the last
 * consumer of each item is all that must be known to see a pair once. */
static void find_pairs(cfx__draw_scene *s, losses *out) {
    int n = (int)s->items.len;
    int *mark = cfx__alloc((size_t)n * sizeof *mark);
    for (int i = 0; i < n; i++)
        mark[i] = -1;
    for (size_t k = 0; k < s->sheets.len; k++) {
        cfx__draw_sheet *sheet = &s->sheets.data[k];
        cfx_each_node(sheet->graph, node) {
            int to = sheet->item[cfx__node_of(node)->id];
            if (to < 0 || s->items.data[to].hidden)
                continue;
            to = cfx__draw_item_at(s, to)->shown;
            wire_inputs(s, sheet, node, to, mark, out);
            cfx_each_user(node, u) if (sheet->item[cfx__node_of(u->user)->id] == CFX__LEFT_OUT)
                cfx__draw_item_at(s, to)
                    ->uses++;
        }
    }
    cfx__free(mark);
}

/* A value with many consumers keeps the wire to the first alone. */
static void cut_fans(cfx__draw_scene *s) {
    int *uses = cfx__alloc0(s->items.len * sizeof *uses);
    for (size_t i = 0; i < s->wires.len; i++)
        uses[s->wires.data[i].from]++;
    for (size_t i = 0; i < s->wires.len; i++) {
        cfx__draw_wire *w = &s->wires.data[i];
        if (uses[w->from] < 0)
            w->cut = true;
        else if (uses[w->from] > CFX__MANY_USES)
            uses[w->from] = -1;
    }
    cfx__free(uses);
}

/* ---- legs ---------------------------------------------------------------------------------- */

static bool contains(const cfx__draw_scene *s, int frame, int item) {
    return frame <= item && item < s->items.data[frame].end;
}

static void add_leg(cfx__draw_scene *s, int wire, int frame, int from, int to) {
    VEC_PUSH(s->legs, ((cfx__draw_leg){.frame = frame, .wire = wire, .from = from, .to = to}));
}

/* The legs of a wire in the order they are run through: out of frames, over, into frames. */
static void find_legs(cfx__draw_scene *s, int wire) {
    const cfx__draw_item *items = s->items.data;
    int from = s->wires.data[wire].from, to = s->wires.data[wire].to, first = (int)s->legs.len;
    int frame = items[from].parent;
    for (; !contains(s, frame, to); from = frame, frame = items[frame].parent)
        add_leg(s, wire, frame, from, -1);
    int deep = 0;
    for (int f = items[to].parent; f != frame; f = items[f].parent)
        deep++;
    for (int k = 0; k <= deep; k++)
        add_leg(s, wire, frame, k ? -1 : from, to);
    int at = (int)s->legs.len - 1;
    for (int f = items[to].parent; f != frame; to = f, f = items[f].parent, at--) {
        s->legs.data[at].frame = f;
        s->legs.data[at].to = to;
    }
    s->legs.data[at].to = to;
    s->wires.data[wire].leg = first;
    s->wires.data[wire].nlegs = (int)s->legs.len - first;
}

static void sort_legs(cfx__draw_scene *s) {
    size_t n = s->items.len;
    s->first_leg = cfx__alloc0((n + 1) * sizeof *s->first_leg);
    s->legs_of = cfx__alloc((s->legs.len + 1) * sizeof *s->legs_of);
    for (size_t i = 0; i < s->legs.len; i++)
        s->first_leg[s->legs.data[i].frame + 1]++;
    for (size_t i = 0; i < n; i++)
        s->first_leg[i + 1] += s->first_leg[i];
    int *at = cfx__alloc(n * sizeof *at);
    memcpy(at, s->first_leg, n * sizeof *at);
    for (size_t i = 0; i < s->legs.len; i++)
        s->legs_of[at[s->legs.data[i].frame]++] = (int)i;
    cfx__free(at);
}

/* ---- ranks --------------------------------------------------------------------------------- */

typedef struct ranks {
    cfx__draw_scene *s;
    VEC(int) load; /* by rank: boxes side by side */
    VEC(int) full; /* by rank: where to look next when this one is full */
    int *lowest;   /* by item: the first rank that uses it; INT_MAX: none */
    uint8_t *how;  /* by item: see below */
    int above;     /* inputs that stand above rank 0 so far */
} ranks;

/* Something feeds it; it depends on inputs alone, and so may go down. A frame that is fed from
 * outside may, too: it is tall, and would tear apart what stands beside it. */
enum { HUNG = 1, FREE = 2 };

static int next_rank(ranks *r, int at) {
    while ((size_t)at >= r->load.len) {
        int self = (int)r->full.len;
        VEC_PUSH(r->load, 0);
        VEC_PUSH(r->full, self);
    }
    int root = at;
    while (r->full.data[root] != root)
        root = r->full.data[root];
    while (r->full.data[at] != root) {
        int up = r->full.data[at];
        r->full.data[at] = root;
        at = up;
    }
    return root;
}

static void put(ranks *r, cfx__draw_item *item, int at) {
    at = next_rank(r, at);
    if (r->load.data[at] && r->load.data[at] + item->width > RANK_WIDTH) {
        r->full.data[at] = at + 1;
        next_rank(r, at + 1);
        at = next_rank(r, at + 1);
    }
    item->rank = at;
    r->load.data[at] += item->width;
    if (r->load.data[at] >= RANK_WIDTH) {
        r->full.data[at] = at + 1;
        next_rank(r, at + 1);
    }
}

/* Down the frame: each item below what feeds it. Its legs are in the order of consumers. */
static void rank_down(ranks *r, const cfx__draw_item *frame, const int *legs, int nlegs) {
    cfx__draw_item *items = r->s->items.data;
    int k = 0;
    for (int c = frame->first; c >= 0; c = items[c].next) {
        int at = 0;
        r->how[c] = FREE;
        r->lowest[c] = INT_MAX;
        for (; k < nlegs; k++) {
            const cfx__draw_leg *l = &r->s->legs.data[legs[k]];
            if (l->to != c && l->to >= 0)
                break;
            if (l->to < 0 || r->s->wires.data[l->wire].cut)
                continue;
            r->how[c] |= HUNG;
            if (l->from < 0 ? !items[c].open : !(r->how[l->from] & FREE))
                r->how[c] &= (uint8_t)~FREE;
            if (l->from >= 0 && items[l->from].rank + 1 > at)
                at = items[l->from].rank + 1;
        }
        if (r->how[c] & HUNG || items[c].kind != CFX__ITEM_BOX)
            put(r, &items[c], at);
        else
            items[c].rank = -1;
    }
}

/* Up again: what depends on inputs alone goes down to its first consumer. */
static void pull(ranks *r, const int *legs, int nlegs) {
    cfx__draw_item *items = r->s->items.data;
    int k = nlegs;
    while (k-- > 0) { /* consumers last to first, so that each is at its place when it is asked */
        const cfx__draw_leg *l = &r->s->legs.data[legs[k]];
        if (l->to < 0 || r->s->wires.data[l->wire].cut)
            continue;
        cfx__draw_item *to = &items[l->to];
        if (r->how[l->to] & FREE && r->lowest[l->to] != INT_MAX && r->how[l->to] & HUNG) {
            int at = r->lowest[l->to] - 1;
            while (at > to->rank && r->load.data[at] >= RANK_WIDTH)
                at--;
            r->load.data[to->rank] -= to->width;
            to->rank = at;
            r->load.data[at] += to->width;
            r->how[l->to] &= (uint8_t)~FREE;
        }
        bool output = to->node && to->node->op == CFX_OUTPUT;
        if (l->from >= 0 && !output && to->rank < r->lowest[l->from])
            r->lowest[l->from] = to->rank;
    }
}

/* Inputs stand right above their first consumer, in rows of at most RANK_WIDTH. */
static void place_inputs(ranks *r, const cfx__draw_item *frame) {
    cfx__draw_item *items = r->s->items.data;
    for (int c = frame->first; c >= 0; c = items[c].next) {
        if (r->how[c] & HUNG || items[c].kind != CFX__ITEM_BOX)
            continue;
        int at = r->lowest[c] == INT_MAX ? -1 : r->lowest[c] - 1;
        while (at >= 0 && r->load.data[at] >= RANK_WIDTH)
            at--;
        if (at < 0)
            at = -1 - r->above++ / RANK_WIDTH;
        else
            r->load.data[at]++;
        items[c].rank = at;
    }
}

static void rank_frame(ranks *r, int f) {
    cfx__draw_scene *s = r->s;
    cfx__draw_item *items = s->items.data, *frame = &items[f];
    const int *legs = s->legs_of + s->first_leg[f];
    int nlegs = s->first_leg[f + 1] - s->first_leg[f];
    r->load.len = r->full.len = 0;
    r->above = 0;
    next_rank(r, 0);
    rank_down(r, frame, legs, nlegs);
    pull(r, legs, nlegs);
    place_inputs(r, frame);
    int lowest = INT_MAX, highest = 0;
    for (int c = frame->first; c >= 0; c = items[c].next)
        lowest = items[c].rank < lowest ? items[c].rank : lowest;
    for (int c = frame->first; c >= 0; c = items[c].next) {
        items[c].rank -= lowest;
        if (c == frame->last && items[c].node && items[c].node->op == CFX_OUTPUT)
            items[c].rank = highest + 1;
        highest = items[c].rank > highest ? items[c].rank : highest;
    }
    frame->ranks = highest + 1;
    frame->width = 1;
    for (size_t k = 0; k < r->load.len; k++)
        frame->width = r->load.data[k] > frame->width ? r->load.data[k] : frame->width;
    for (int k = 0; k < nlegs; k++) {
        const cfx__draw_leg *l = &s->legs.data[legs[k]];
        int from = l->from < 0 ? -1 : items[l->from].rank;
        int to = l->to < 0 ? frame->ranks : items[l->to].rank;
        s->wires.data[l->wire].cut |= to - from > CFX__LONG_WIRE;
    }
}

/* ---- stubs --------------------------------------------------------------------------------- */

static void make_stubs(cfx__draw_scene *s, const losses *lost_ones) {
    for (size_t i = 0; i < lost_ones->len; i++)
        cfx__draw_item_at(s, lost_ones->data[i].to)->nstubs++;
    for (size_t i = 0; i < s->wires.len; i++)
        cfx__draw_item_at(s, s->wires.data[i].to)->nstubs += s->wires.data[i].cut;
    int total = 0;
    for (size_t i = 0; i < s->items.len; i++) {
        s->items.data[i].stub = total;
        total += s->items.data[i].nstubs;
        s->items.data[i].nstubs = 0;
    }
    VEC_ROOM(s->stubs, (size_t)total + 1);
    s->stubs.len = (size_t)total;
    for (size_t i = 0; i < s->wires.len; i++) {
        const cfx__draw_wire *w = &s->wires.data[i];
        cfx__draw_item *to = cfx__draw_item_at(s, w->to), *from = cfx__draw_item_at(s, w->from);
        if (!w->cut)
            continue;
        s->stubs.data[to->stub + to->nstubs++] = (cfx__draw_stub){w->from, from->node};
        from->uses++;
    }
    for (size_t i = 0; i < lost_ones->len; i++) {
        cfx__draw_item *to = cfx__draw_item_at(s, lost_ones->data[i].to);
        s->stubs.data[to->stub + to->nstubs++] = (cfx__draw_stub){-1, lost_ones->data[i].node};
    }
}

void cfx__draw_wires(cfx__draw_scene *s) {
    losses lost_ones = {0};
    find_pairs(s, &lost_ones);
    cut_fans(s);
    for (size_t i = 0; i < s->wires.len; i++)
        find_legs(s, (int)i);
    sort_legs(s);
    ranks r = {
        .s = s, .lowest = cfx__alloc(s->items.len * sizeof(int)), .how = cfx__alloc(s->items.len)};
    for (size_t i = 0; i < s->items.len; i++)
        s->items.data[i].width = 1;
    for (int i = (int)s->items.len - 1; i >= 0; i--)
        if (cfx__draw_is_frame(cfx__draw_item_at(s, i)))
            rank_frame(&r, i);
    VEC_FREE(r.load);
    VEC_FREE(r.full);
    cfx__free(r.lowest);
    cfx__free(r.how);
    make_stubs(s, &lost_ones);
    VEC_FREE(lost_ones);
}
