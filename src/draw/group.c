/* Items that are put in an item of their own, after the graph told all that it does: blocks that
 * repeat (numbered modules in a row that are alike, names aside, as the tree of `cfx show` has one
 * line for them), what is beside the spine (spine.c), and sections of frames with more in them than
 * can be looked at. Items that were dissolved are dropped on the way. */
#include "draw.h"

static uint64_t hash_text(const char *text) { return cfx__text_hash(text, strlen(text)); }

/* What an item is by itself, its name aside. */
static uint64_t own_hash(const cfx__draw_item *i, cfx__text *scratch) {
    if (!i->node)
        return i->type ? hash_text(i->type) : i->kind;
    scratch->len = 0;
    cfx__draw_put_shape(scratch, i->node);
    uint64_t h =
        cfx__hash_mix(hash_text(i->node->target.name), cfx__text_hash(scratch->data, scratch->len));
    cfx_each_input(i->node, u) h = cfx__hash_mix(h, 1);
    return h;
}

/* A hash for each item that equal ones share; the caller frees. */
static uint64_t *hash_items(const cfx__draw_scene *s) {
    const cfx__draw_item *items = s->items.data;
    uint64_t *hash = cfx__alloc0((s->items.len + 1) * sizeof *hash);
    cfx__text scratch = {0};
    for (int i = (int)s->items.len - 1; i >= 0; i--) {
        hash[i] = cfx__hash_mix(hash[i], own_hash(&items[i], &scratch));
        if (i && !items[i].gone)
            hash[items[i].parent] = cfx__hash_mix(hash[items[i].parent], hash[i]);
    }
    cfx__text_release(&scratch);
    return hash;
}

static bool is_numbered(const cfx__draw_item *i) {
    if (i->kind != CFX__ITEM_MODULE || i->gone)
        return false;
    const char *number = cfx__draw_last_part(i->path);
    return *number && !number[strspn(number, "0123456789")];
}

/* The item after i in the same frame; the number of items where there is none. */
static int sibling(const cfx__draw_scene *s, int i) {
    int n = (int)s->items.len, k = s->items.data[i].end;
    while (k < n && s->items.data[k].gone)
        k++;
    return k < n && s->items.data[k].parent == s->items.data[i].parent ? k : n;
}

/* run[i]: the first of the blocks that are alike with i and in a row with it, or -1. The caller
 * frees. */
static int *find_runs(const cfx__draw_scene *s) {
    int n = (int)s->items.len;
    int *run = cfx__alloc((size_t)(n + 1) * sizeof *run);
    for (int i = 0; i < n; i++)
        run[i] = -1;
    uint64_t *hash = hash_items(s);
    for (int i = 0; i < n; i++) {
        if (run[i] >= 0 || !is_numbered(&s->items.data[i]))
            continue;
        for (int k = sibling(s, i); k < n; k = sibling(s, k)) {
            if (!is_numbered(&s->items.data[k]) || hash[k] != hash[i])
                break;
            run[i] = run[k] = i;
        }
    }
    cfx__free(hash);
    return run;
}

/* Frames with many children: runs of them, by number alone. As above. */
static int *find_sections(const cfx__draw_scene *s) {
    int n = (int)s->items.len;
    int *run = cfx__alloc((size_t)(n + 1) * sizeof *run);
    int *kids = cfx__alloc0((size_t)(n + 1) * sizeof *kids);
    int *nth = cfx__alloc0((size_t)(n + 1) * sizeof *nth);
    int *first = cfx__alloc0((size_t)(n + 1) * sizeof *first);
    for (int i = 1; i < n; i++)
        kids[s->items.data[i].parent]++;
    for (int i = 0; i < n; i++) {
        int f = i ? s->items.data[i].parent : 0;
        run[i] = -1;
        if (!i || kids[f] <= CFX__CROWD)
            continue;
        int size = kids[f] / CFX__CROWD > CFX__SECTION ? kids[f] / CFX__CROWD : CFX__SECTION;
        if (nth[f]++ % size == 0)
            first[f] = i;
        run[i] = first[f];
    }
    cfx__free(first);
    cfx__free(nth);
    cfx__free(kids);
    return run;
}

/* Boxes in a row that are beside the spine, three at least, and modules of such among them. A
 * module alone is a frame of its own already. As above. */
static int *find_asides(const cfx__draw_scene *s) {
    int n = (int)s->items.len;
    int *run = cfx__alloc((size_t)(n + 1) * sizeof *run);
    for (int i = 0; i < n; i++)
        run[i] = -1;
    for (int i = 1; i < n; i++) {
        if (run[i] >= 0 || s->items.data[i].side <= CFX__ON_SPINE || s->items.data[i].gone)
            continue;
        int nodes = 0, last = i;
        for (int k = i; k < n && s->items.data[k].side > CFX__ON_SPINE; k = sibling(s, k)) {
            nodes += s->items.data[k].nodes;
            last = k;
        }
        for (int k = i; nodes >= CFX__ASIDE && last > i && k <= last; k = sibling(s, k))
            run[k] = i;
        i = s->items.data[last].end - 1; /* what is in frames of the run stays as it is */
    }
    return run;
}

/* The item around a run, of which `first` is the first. */
static cfx__draw_item item_around(const cfx__draw_scene *s, const int *run, int first,
                                  cfx__draw_item_kind kind) {
    cfx__draw_item r = s->items.data[first];
    r.kind = (uint8_t)kind;
    r.times = r.nodes = 0;
    r.until = NULL;
    for (int k = first; k < (int)s->items.len && run[k] == first; k = sibling(s, k)) {
        const cfx__draw_item *item = &s->items.data[k];
        r.times++;
        r.nodes += item->nodes;
        r.end = item->end;
        r.until = item->node ? item->node->name : item->path;
        r.side = item->side == r.side ? r.side : CFX__SIDE;
    }
    if (kind != CFX__ITEM_REPEAT) {
        r.path = r.node ? r.node->name : r.path;
        r.type = NULL;
        r.node = NULL;
        r.call = 0;
    }
    return r;
}

/* Drops items that are gone and puts an item around each run; run may be NULL. */
static void regroup(cfx__draw_scene *s, const int *run, cfx__draw_item_kind kind) {
    int n = (int)s->items.len;
    const cfx__draw_item *old = s->items.data;
    int *at = cfx__alloc((size_t)(n + 1) * sizeof *at);       /* where items from number i on go */
    int *moved = cfx__alloc((size_t)(n + 1) * sizeof *moved); /* where item i itself goes */
    int *around = cfx__alloc((size_t)(n + 1) * sizeof *around); /* by the first of a run */
    cfx__draw_items items = {0};
    for (int i = 0; i < n; i++) {
        at[i] = (int)items.len;
        if (old[i].gone)
            continue;
        int parent = i ? moved[old[i].parent] : -1;
        if (run && run[i] == i) {
            cfx__draw_item r = item_around(s, run, i, kind);
            r.parent = parent;
            around[i] = (int)items.len;
            VEC_PUSH(items, r);
        }
        moved[i] = (int)items.len;
        VEC_PUSH(items, old[i]);
        items.data[moved[i]].parent = run && run[i] >= 0 ? around[run[i]] : parent;
    }
    at[n] = (int)items.len;
    for (size_t i = 0; i < items.len; i++)
        items.data[i].end = at[items.data[i].end];
    for (size_t k = 0; k < s->sheets.len; k++) {
        cfx__draw_sheet *sheet = &s->sheets.data[k];
        for (size_t id = 0; id < sheet->graph->made.len; id++)
            if (sheet->item[id] >= 0)
                sheet->item[id] = moved[sheet->item[id]];
    }
    cfx__free(s->items.data);
    s->items = items;
    cfx__free(at);
    cfx__free(moved);
    cfx__free(around);
}

void cfx__draw_compact(cfx__draw_scene *s) {
    int *run = s->groups ? find_runs(s) : NULL;
    regroup(s, run, CFX__ITEM_REPEAT);
    cfx__free(run);
    if (!s->groups)
        return;
    if (s->options->form != CFX_HTML)
        return;
    run = find_asides(s);
    regroup(s, run, CFX__ITEM_ASIDE);
    cfx__free(run);
    run = find_sections(s);
    regroup(s, run, CFX__ITEM_SECTION);
    cfx__free(run);
}
