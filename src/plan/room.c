/* Rooms: the memory of a run, with the tensors that point into it. Start at cfx__plan_room_take.
 *
 * Blocks of memory are shared by all plans of a graph (cfx__plan_blocks). Plans for different
 * sizes run one after the other in the same block, which grows to the largest need, so many
 * sizes take the memory of one. A run has exclusive use of a block. The tensors that point into
 * a block belong to a form; they are created when the form first gets that block and stay with
 * it. The block lists these forms, so a block that is too small can be released together with
 * all tensors that point into it. */
#include "form.h"

enum { LINE = 64, IDLE_MOST = 4 }; /* bytes; blocks that are kept though no run has them */

static void room_free(void *obj) {
    cfx__plan_room *r = obj;
    for (int k = 0; k < r->n; k++)
        cfx_value_drop(r->values[k]);
    cfx__free(r->values);
    cfx_drop(r->next);
}

static const cfx__obj_type room_type = {.name = "room of a plan", .free = room_free};

static void block_free(void *obj) {
    cfx__plan_block *b = obj;
    cfx_drop(b->rooms);
    cfx_drop(b->memory);
    cfx_drop(b->next);
}

static const cfx__obj_type block_type = {.name = "block of a plan", .free = block_free};

static void blocks_free(void *obj) { cfx_drop(((cfx__plan_blocks *)obj)->first); }

static const cfx__obj_type blocks_type = {.name = "blocks of plans", .free = blocks_free};

cfx__plan_blocks *cfx__plan_blocks_new(void) {
    return cfx__obj_make(&blocks_type, sizeof(cfx__plan_blocks));
}

/* ---- tensors in a block ---------------------------------------------------------------------- */

/* A tensor at an offset of the room's memory; scope. */
static cfx_tensor *tensor_at(const cfx__plan_room *r, int64_t offset, const cfx_tensor *like) {
    cfx_tensor *t = cfx__tensor_alias(r->memory, like->ndim, like->shape, like->stride, offset);
    t->dtype = like->dtype;
    t->offset = offset / cfx_dtype_size((cfx_dtype)like->dtype);
    return t;
}

/* A view of memory in the room; bad where it is of other memory. Scope. */
static cfx_value view_at(const cfx__plan_form *f, const cfx__plan_room *r, int slot) {
    const int root = cfx__plan_root(f->plan, slot);
    return f->offset[root] < 0 ? cfx_bad()
                               : cfx__plan_view(f->given[slot], cfx__plan_form_made(f, root),
                                                cfx_as_tensor(r->values[root]));
}

/* Tensors for all results that lie in the block; NULL, with an error, when out of memory. */
static cfx__plan_room *room_new(const cfx__plan_form *f, cfx__plan_block *b) {
    const cfx__plan *p = f->plan;
    size_t mark = cfx_scope_open();
    cfx__plan_room *r = cfx__obj_make(&room_type, sizeof *r);
    r->form = f;
    r->memory = b->memory;
    r->n = p->n;
    r->values = cfx__alloc((size_t)p->n * sizeof *r->values);
    for (int k = 0; k < p->n; k++) {
        r->values[k] = cfx_bad();
        if (f->offset[k] >= 0)
            r->values[k] = cfx_tensor_value(tensor_at(r, f->offset[k], cfx__plan_form_made(f, k)));
        else if (p->kernels[k].kind == CFX__PLAN_VIEW && !p->kernels[k].between)
            r->values[k] = view_at(f, r, k);
        cfx_value_keep(r->values[k]);
    }
    if (!cfx_ok()) {
        cfx_drop(r);
        r = NULL;
    }
    cfx_scope_close(mark);
    return r;
}

static cfx__plan_block *block_new(int64_t bytes, cfx_site at) {
    size_t mark = cfx_scope_open();
    cfx_tensor *memory = cfx__tensor_empty(at, CFX_U8, false, 1, &bytes, NULL);
    cfx__plan_block *b = NULL;
    if (!cfx__obj_is_bad(memory)) {
        b = cfx__obj_make(&block_type, sizeof *b);
        b->memory = cfx_keep(memory);
        b->memory->storage->foreign = true; /* kernels write there without a word */
    }
    cfx_scope_close(mark);
    return b;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The form's room in a block; NULL: it was not there yet. Called locked. */
static cfx__plan_room *room_in(const cfx__plan_block *b, const cfx__plan_form *f) {
    cfx__plan_room *r = b->rooms;
    while (r && r->form != f)
        r = r->next;
    return r;
}

static cfx__plan_block *take_out(cfx__plan_block **at) {
    cfx__plan_block *b = *at;
    *at = b->next;
    b->next = NULL;
    return b;
}

/* The idle block that suits a form best: one where it has been, or else the smallest that is large
 * enough. NULL: none is, and the largest of those goes to `old`, to make way for a larger one. */
static cfx__plan_block *find_block(const cfx__plan_form *f, int64_t bytes, cfx__plan_block **old,
                                   cfx__plan_room **room) {
    cfx__plan_blocks *of = f->plan->blocks;
    cfx__plan_block *best = NULL, **most = NULL;
    cfx__lock(&of->lock);
    for (cfx__plan_block **at = &of->first, *b; (b = *at) && !*room; at = &b->next) {
        const int64_t size = b->memory->numel;
        if (b->busy)
            continue;
        *room = room_in(b, f);
        if (*room || (size >= bytes && (!best || size < best->memory->numel)))
            best = b;
        if (!most || size > (*most)->memory->numel)
            most = at;
    }
    if (best)
        best->busy = true;
    else if (most)
        *old = take_out(most);
    cfx__unlock(&of->lock);
    return best;
}

static void add_block(cfx__plan_blocks *of, cfx__plan_block *b) {
    b->busy = true;
    cfx__lock(&of->lock);
    b->next = of->first;
    of->first = b;
    cfx__unlock(&of->lock);
}

static void add_room(cfx__plan_blocks *of, cfx__plan_block *b, cfx__plan_room *r) {
    cfx__lock(&of->lock);
    r->next = b->rooms;
    b->rooms = r;
    cfx__unlock(&of->lock);
}

cfx__plan_block *cfx__plan_room_take(const cfx__plan_form *f, cfx_site at, cfx__plan_room **room) {
    const int64_t bytes = f->room_bytes + f->scratch + LINE;
    *room = NULL;
    cfx__plan_block *old = NULL, *b = find_block(f, bytes, &old, room);
    cfx_drop(old);
    if (!b) {
        b = block_new(bytes, at);
        if (b)
            add_block(f->plan->blocks, b);
    }
    if (!b || *room)
        return b;
    *room = room_new(f, b);
    if (*room) {
        add_room(f->plan->blocks, b, *room);
        return b;
    }
    cfx__plan_room_give(f, b);
    return NULL;
}

void cfx__plan_room_give(const cfx__plan_form *f, cfx__plan_block *b) {
    cfx__plan_blocks *of = f->plan->blocks;
    cfx__plan_block *old = NULL, **last = NULL;
    int idle = 0;
    cfx__lock(&of->lock);
    b->busy = false;
    for (cfx__plan_block **at = &of->first; *at; at = &(*at)->next)
        if (!(*at)->busy) {
            idle++;
            last = at;
        }
    if (idle > IDLE_MOST)
        old = take_out(last);
    cfx__unlock(&of->lock);
    cfx_drop(old);
}

void cfx__plan_rooms_leave(const cfx__plan_form *f) {
    cfx__plan_room *left = NULL;
    cfx__lock(&f->plan->blocks->lock);
    for (cfx__plan_block *b = f->plan->blocks->first; b; b = b->next)
        for (cfx__plan_room **at = &b->rooms, *r; (r = *at);) {
            if (r->form != f) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            r->next = left;
            left = r;
        }
    cfx__unlock(&f->plan->blocks->lock);
    cfx_drop(left);
}
