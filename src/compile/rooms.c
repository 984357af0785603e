/* Arena allocation by liveness. A room is a piece of the arena, in use between two kernels of
 * its unit. While kernels are written a room is a number; when all are written, rooms that are
 * never live at the same time share bytes, and the numbers in the text become offsets. Scratch
 * space is a room that lives for one kernel. Start at cfx__c_rooms_place. */
#include "compile.h"

/* Around the number of a room in the text; no name or comment has it. */
#define MARK '\001'

/* ---- rooms ----------------------------------------------------------------------------------- */

int64_t cfx__c_room_for(cfx__c_unit *u, int64_t bytes, int first, int last) {
    cfx__c *c = u->c;
    const cfx__c_room room = {.bytes = bytes, .first = first, .last = last, .unit = u};
    VEC_PUSH(c->rooms, room);
    return (int64_t)c->rooms.len - 1;
}

int64_t cfx__c_room_now(cfx__c_unit *u, int64_t bytes) {
    return cfx__c_room_for(u, bytes, u->slot, u->slot);
}

void cfx__c_room_keep(cfx__c *c, int64_t number, int64_t bytes, int first, int last) {
    cfx__c_room *r = &c->rooms.data[number];
    r->bytes = r->bytes > bytes ? r->bytes : bytes;
    r->first = r->first < first ? r->first : first;
    r->last = r->last > last ? r->last : last;
}

const char *cfx__c_room_text(int64_t number, int64_t at) {
    return cfx__text_format("c->arena + %c%lld+%lld%c", MARK, (long long)number, (long long)at,
                            MARK);
}

void cfx__c_scratch(cfx__c *c, int64_t bytes) {
    if (!c->writing) /* a kernel of a card */
        return;
    if (c->scratch < 0)
        c->scratch = cfx__c_room_now(c->writing, 0);
    cfx__c_room *r = &c->rooms.data[c->scratch];
    r->bytes = bytes > r->bytes ? bytes : r->bytes;
}

const char *cfx__c_scratch_at(cfx__c *c, int64_t at) {
    cfx__c_scratch(c, 0);
    return cfx__text_format("(%s)", cfx__c_room_text(c->scratch, at));
}

/* ---- times ----------------------------------------------------------------------------------- */

void cfx__c_unit_begin(cfx__c_unit *u) {
    const size_t size = (size_t)u->plan->n * sizeof *u->begin;
    u->lives = cfx__plan_lives_of(u->plan);
    u->begin = cfx__arena_alloc(&u->c->memory, size);
    u->end = cfx__arena_alloc(&u->c->memory, size);
    u->before = u->c->clock;
}

/* Functions of modules are written before those that call them. Their kernels, and those of
 * sub-graphs inside these, get the times at which they run: by when they were written. To be
 * freed. */
static int *times_of(const cfx__c_unit *u) {
    int *run = cfx__alloc0((size_t)(u->c->clock - u->before + 1) * sizeof *run), now = u->before;
    for (int k = 0; k < u->plan->n; k++)
        for (int t = u->begin[k]; t && t <= u->end[k]; t++)
            run[t - u->before] = ++now;
    return run;
}

void cfx__c_unit_end(cfx__c_unit *u) {
    cfx__c *c = u->c;
    const int n = u->plan->n;
    int *run = times_of(u), now = c->clock;
    /* what is no kernel begins with the next one, and ends with the last */
    for (int k = n - 1; k >= 0; k--)
        now = u->begin[k] = u->begin[k] ? run[u->begin[k] - u->before] : now;
    now = u->before;
    for (int k = 0; k < n; k++)
        now = u->end[k] = u->end[k] ? run[u->end[k] - u->before] : now;
    u->end[n - 1] = c->clock; /* results are read behind all */
    for (size_t i = 0; i < c->rooms.len; i++) {
        cfx__c_room *r = &c->rooms.data[i];
        if (r->unit == u)
            *r = (cfx__c_room){r->bytes, 0, u->begin[r->first], u->end[r->last], NULL};
        else if (!r->unit && r->first > u->before) /* of a sub-graph */
            *r = (cfx__c_room){r->bytes, 0, run[r->first - u->before], run[r->last - u->before],
                               NULL};
    }
    cfx__free(run);
    cfx__free(u->lives);
    u->lives = NULL;
}

void cfx__c_kernel_begin(cfx__c_unit *u, cfx__c_kernel_time *t) {
    cfx__c *c = u->c;
    *t = (cfx__c_kernel_time){u, u->slot, c->writing, c->scratch};
    u->begin[u->slot] = ++c->clock;
    c->writing = u;
    c->scratch = -1;
}

void cfx__c_kernel_end(const cfx__c_kernel_time *t) {
    cfx__c *c = t->u->c;
    t->u->end[t->slot] = c->clock;
    c->writing = t->writing;
    c->scratch = t->scratch;
}

/* ---- places ---------------------------------------------------------------------------------- */

enum { LINE = 64, WORD = 16 }; /* bytes */

/* A room in the order of its size, or a piece of the arena in the order of places. */
typedef struct {
    int64_t key;
    int64_t is; /* the number of the room, or where the piece ends */
} item;

typedef VEC(int) numbers;

typedef struct {
    cfx__c_room *rooms;
    numbers *alive; /* by time: rooms that have a place and are in use then */
    int *met;       /* by room: the last one that met it, and 1 */
    VEC(item) taken;
} placing;

static int by_key(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->is < y->is ? -1 : x->is > y->is;
}

/* Small rooms may begin within a line. */
static int64_t aligned(int64_t at, int64_t bytes) {
    const int64_t to = bytes < LINE ? WORD : LINE;
    return (at + to - 1) / to * to;
}

/* Where rooms lie that are in use while room i is. */
static void find_taken(placing *p, int i) {
    p->taken.len = 0;
    for (int t = p->rooms[i].first; t <= p->rooms[i].last; t++)
        for (size_t k = 0; k < p->alive[t].len; k++) {
            const int other = p->alive[t].data[k];
            const cfx__c_room *r = &p->rooms[other];
            const item piece = {r->at, r->at + r->bytes};
            if (p->met[other] == i + 1)
                continue;
            p->met[other] = i + 1;
            VEC_PUSH(p->taken, piece);
        }
    if (p->taken.len)
        qsort(p->taken.data, p->taken.len, sizeof *p->taken.data, by_key);
}

/* The smallest gap that is large enough, else behind all of them. */
static void place(placing *p, int i) {
    cfx__c_room *r = &p->rooms[i];
    int64_t end = 0, best = -1, least = INT64_MAX;
    find_taken(p, i);
    for (size_t k = 0; k < p->taken.len; k++) {
        const item *piece = &p->taken.data[k];
        const int64_t at = aligned(end, r->bytes), gap = piece->key - end;
        if (at + r->bytes <= piece->key && gap < least) {
            best = at;
            least = gap;
        }
        end = end > piece->is ? end : piece->is;
    }
    r->at = best >= 0 ? best : aligned(end, r->bytes);
    for (int t = r->first; t <= r->last; t++)
        VEC_PUSH(p->alive[t], i);
}

/* The numbers of rooms in the text become offsets. */
static void put_offsets(cfx__c *c) {
    cfx__text out = {0};
    const char *at = c->out.data ? c->out.data : "";
    for (const char *mark; (mark = strchr(at, MARK)); at = strchr(mark + 1, MARK) + 1) {
        char *plus;
        const long long number = strtoll(mark + 1, &plus, 10), more = strtoll(plus, NULL, 10);
        cfx__text_add(&out, at, (size_t)(mark - at));
        cfx__text_printf(&out, "%lld", (long long)c->rooms.data[number].at + more);
    }
    cfx__text_puts(&out, at);
    cfx__text_release(&c->out);
    c->out = out;
}

/* Places rooms in the order of `order`; the bytes that they take. */
static int64_t place_all(placing *p, const item *order, size_t n, int clock) {
    int64_t end = 0;
    for (int t = 0; t <= clock; t++)
        p->alive[t].len = 0;
    memset(p->met, 0, (n + 1) * sizeof *p->met);
    for (size_t i = 0; i < n; i++) {
        const cfx__c_room *r = &p->rooms[order[i].is];
        if (r->bytes)
            place(p, (int)order[i].is);
        end = end > r->at + r->bytes ? end : r->at + r->bytes;
    }
    return end;
}

/* The orders in which rooms are placed. */
enum { LARGEST, EARLIEST, LONGEST, ORDERS };

static void put_in_order(const cfx__c_room *rooms, item *order, size_t n, int by) {
    for (size_t i = 0; i < n; i++)
        order[i] = (item){by == LARGEST    ? -rooms[i].bytes
                          : by == EARLIEST ? rooms[i].first
                                           : rooms[i].first - rooms[i].last,
                          (int64_t)i};
    qsort(order, n, sizeof *order, by_key);
}

/* By the order that takes the fewest bytes. */
void cfx__c_rooms_place(cfx__c *c) {
    const size_t n = c->rooms.len;
    placing p = {.rooms = c->rooms.data};
    item *order = cfx__alloc((n + 1) * sizeof *order);
    p.alive = cfx__alloc0(((size_t)c->clock + 1) * sizeof *p.alive);
    p.met = cfx__alloc((n + 1) * sizeof *p.met);
    int best = LARGEST;
    int64_t least = INT64_MAX;
    for (int by = 0; by < ORDERS; by++) {
        put_in_order(p.rooms, order, n, by);
        c->arena = place_all(&p, order, n, c->clock);
        if (c->arena < least)
            least = c->arena, best = by;
    }
    if (best != ORDERS - 1) {
        put_in_order(p.rooms, order, n, best);
        c->arena = place_all(&p, order, n, c->clock);
    }
    put_offsets(c);
    for (int t = 0; t <= c->clock; t++)
        VEC_FREE(p.alive[t]);
    VEC_FREE(p.taken);
    cfx__free(p.alive);
    cfx__free(p.met);
    cfx__free(order);
}
