/* Point-to-point values through the sender's window, where all ranks can read each other's memory:
 * only headers are sent as messages, so the values need no progress by MPI.
 *
 * Behind the part of a window for collectives (collective.c) is the mail of a rank: a table,
 * written only by this rank, of how many letters it has read from every other rank, and a ring
 * of letters that it wrote. Letters in the ring are freed in order when the tables of their
 * receivers say that they were read. */
#include <stdatomic.h>

#include "group.h"

enum {
    TABLE = 4096,
    ALIGN = 64,
    SMALL = 4096 /* bytes that MPI sends as fast as a head alone */
};

static size_t room_of(const cfx_group *g) {
    const cfx__transport *t = g->transport;
    return t->windows && t->mail > TABLE && (size_t)t->size <= TABLE / sizeof(_Atomic uint64_t)
               ? t->mail - TABLE
               : 0;
}

/* How many letters of rank `from` a rank has taken. */
static _Atomic uint64_t *taken_of(const cfx_group *g, int rank, int from) {
    return (_Atomic uint64_t *)(void *)(g->transport->windows[rank] + g->transport->window) + from;
}

static char *ring_of(const cfx_group *g, int rank) {
    return g->transport->windows[rank] + g->transport->window + TABLE;
}

static void free_taken(cfx_group *g) {
    cfx__mail *m = &g->mail;
    for (; m->first < m->next; m->first++) {
        const cfx__letter *l = &m->letters[m->first % CFX__LETTERS];
        if (atomic_load_explicit(taken_of(g, l->to, cfx_group_rank(g)), memory_order_acquire) <
            l->number)
            return;
        m->begin = l->end;
    }
    m->begin = m->end = 0; /* none is on its way */
}

uint64_t cfx__mail_put(cfx_group *g, int to, const void *data, size_t size) {
    cfx__mail *m = &g->mail;
    const size_t room = room_of(g), whole = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size <= SMALL || whole > room)
        return 0;
    free_taken(g);
    uint64_t at = m->end;
    if (at % room + whole > room) /* a letter is in one piece */
        at += room - at % room;
    if (m->next - m->first == CFX__LETTERS || at + whole - m->begin > room)
        return 0;
    cfx__move(ring_of(g, cfx_group_rank(g)) + at % room, data, size);
    m->end = at + whole;
    m->letters[m->next++ % CFX__LETTERS] = (cfx__letter){m->end, ++m->written[to], to};
    return at % room + 1;
}

bool cfx__mail_take(cfx_group *g, int from, uint64_t post, void *data, size_t size) {
    const size_t room = room_of(g);
    if (post > room || size > room || post - 1 > room - size) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "rank %d on %s says that %zu bytes lie at %llu of its mail, which has %zu", from,
                 cfx_group_node(g, from), size, (unsigned long long)(post - 1), room);
        return false;
    }
    cfx__move(data, ring_of(g, from) + post - 1, size);
    atomic_fetch_add_explicit(taken_of(g, cfx_group_rank(g), from), 1, memory_order_release);
    return true;
}
