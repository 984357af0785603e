/* Collectives as point-to-point messages. A collective has one or two phases; in a phase each rank
 * sends a piece to every other rank and receives one from it, and reductions are computed when all
 * pieces have arrived. Every rank reduces small tensors completely; of large ones each rank reduces
 * a share and sends it to all. The results are equal, because each element is reduced in rank
 * order. MPI's own reductions are not used, because their order depends on the machine.
 *
 * If all ranks can read each other's memory (cfx__transport.windows), a piece for all others is put
 * into this rank's window and only its header is sent; the others read the piece there, which saves
 * the copies into and out of MPI's buffers. A window has two halves, used alternately. A half is
 * reused when every other rank has confirmed, in a header, that it has finished reading; without
 * the confirmation, the piece is sent as a message. A gather larger than a half is divided into
 * several phases.
 *
 * Start at cfx__collective_begin; piece_out and piece_in define who sends what. */
#include "group.h"

enum { WHOLE = 16 << 10 }; /* bytes up to which a tensor goes to every rank as it is */

struct cfx__collective {
    cfx_group *group;
    cfx_site at;
    cfx__collective_call call;
    int rank, size; /* of the group */
    cfx_dtype dtype;
    int64_t width, n;       /* bytes of an element, elements of `in`, or of `out` for SPREAD */
    int64_t row;            /* bytes of a row, for SHUFFLE */
    cfx_tensor *memory[3];  /* of in and out, the caller's, and of room, counted */
    char *in, *out, *room;  /* room: what came to be reduced, by rank */
    int phase, phases;
    size_t most;            /* bytes of a rank that one phase gathers */
    uint64_t order;
    cfx__head base;         /* what the heads of all its messages have in common */
    cfx__head *gives, *gets; /* heads by rank */
    void **requests;        /* by rank: receiving, then sending */
    int waits;              /* the first that is not done */
    uint64_t post;          /* the piece is in this rank's window; 0: it is sent */
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static int64_t share_begin(const cfx__collective *c, int rank) {
    return c->n / c->size * rank + c->n % c->size * rank / c->size;
}

static cfx__part share(const cfx__collective *c, char *data, int rank) {
    const int64_t from = share_begin(c, rank), to = share_begin(c, rank + 1);
    return (cfx__part){data + from * c->width, (size_t)((to - from) * c->width)};
}

static cfx__part rows(const cfx__collective *c, char *data, const int64_t *counts, int rank) {
    int64_t before = 0;
    for (int r = 0; r < rank; r++)
        before += counts[r];
    return (cfx__part){data + before * c->row, (size_t)(counts[rank] * c->row)};
}

static const cfx__part nothing = {NULL, SIZE_MAX}; /* no message at all */

/* What is gathered of a rank in this phase, where all of it is at `data`. */
static cfx__part stretch(const cfx__collective *c, char *data) {
    const size_t size = (size_t)(c->n * c->width), from = (size_t)c->phase * c->most;
    return (cfx__part){data + from, size - from < c->most ? size - from : c->most};
}

/* What goes to a peer in this phase. */
static cfx__part piece_out(const cfx__collective *c, int peer) {
    const cfx__part whole = {c->in, (size_t)(c->n * c->width)};
    const bool shared = c->phases == 2;
    switch (c->call.kind) {
    case CFX__MESSAGE_REDUCE:
        return !shared      ? whole
               : c->phase == 0 ? share(c, c->in, peer)
                               : share(c, c->out, c->rank);
    case CFX__MESSAGE_SCATTER:
        return share(c, c->in, peer);
    case CFX__MESSAGE_SHUFFLE:
        return rows(c, c->in, c->call.gives, peer);
    case CFX__MESSAGE_SPREAD:
        if (c->phase == 0)
            return c->rank != c->call.root ? nothing : shared ? share(c, c->in, peer) : whole;
        return peer == c->call.root ? nothing : share(c, c->out, c->rank);
    default:
        return stretch(c, c->in);
    }
}

/* What comes from a peer, and where it goes. */
static cfx__part piece_in(const cfx__collective *c, int peer) {
    const size_t whole = (size_t)(c->n * c->width);
    const bool shared = c->phases == 2;
    cfx__part p;
    switch (c->call.kind) {
    case CFX__MESSAGE_REDUCE:
    case CFX__MESSAGE_SCATTER:
        if (c->call.kind == CFX__MESSAGE_REDUCE && !shared)
            return (cfx__part){c->room + (size_t)peer * whole, whole};
        if (c->phase == 1)
            return share(c, c->out, peer);
        p = share(c, c->in, c->rank);
        return (cfx__part){c->room + (size_t)peer * p.size, p.size};
    case CFX__MESSAGE_SHUFFLE:
        return rows(c, c->out, c->call.takes, peer);
    case CFX__MESSAGE_SPREAD:
        if (c->phase == 1)
            return c->rank == c->call.root ? nothing : share(c, c->out, peer);
        return peer != c->call.root ? nothing
               : shared            ? share(c, c->out, c->rank)
                                   : (cfx__part){c->out, whole};
    default:
        return stretch(c, c->out + (size_t)peer * whole);
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { SMALL = 4096 }; /* bytes that MPI sends as fast as a head alone */

static size_t half_of(const cfx__collective *c) { return c->group->transport->window / 2; }

/* Where a post of a rank lies. */
static char *posted(const cfx__collective *c, int rank, uint64_t post) {
    return c->group->transport->windows[rank] + post % 2 * half_of(c);
}

typedef struct {
    char *to;
    const char *from;
} moving;

static void move_range(void *arg, int64_t begin, int64_t end) {
    const moving *m = arg;
    memcpy(m->to + begin, m->from + begin, (size_t)(end - begin));
}

void cfx__move(char *to, const char *from, size_t size) {
    cfx__parallel((int64_t)size, 1 << 14, move_range, &(moving){to, from});
}

/* Puts the piece into the window, where it is the same for all and there is room. */
static void put_in_window(cfx__collective *c) {
    cfx_group *g = c->group;
    const cfx__part own = piece_out(c, c->rank);
    const bool same = c->call.kind == CFX__MESSAGE_GATHER ||
                      (c->call.kind == CFX__MESSAGE_REDUCE && c->phases == 1);
    c->post = 0;
    if (!g->transport->windows || !same || own.size <= SMALL || own.size > half_of(c))
        return;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && g->given_back[r] + 1 < g->posts)
            return;
    c->post = ++g->posts;
    cfx__move(posted(c, c->rank, c->post), own.data, own.size);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* The head of a piece. Those of a shuffle may have other rows in each. */
static cfx__head head_of(const cfx__collective *c, size_t bytes) {
    cfx__head h = c->base;
    h.number = (uint8_t)(c->call.op | c->phase % 16 << 4);
    h.bytes = (int64_t)bytes;
    if (c->call.kind == CFX__MESSAGE_SHUFFLE)
        h.shape[0] = c->row ? h.bytes / c->row : 0;
    return h;
}

static bool begin_phase(cfx__collective *c) {
    cfx__transport *t = c->group->transport;
    c->waits = 0;
    put_in_window(c);
    for (int k = 0; k < 2 * c->size; k++) {
        const bool sends = k >= c->size;
        const int peer = k % c->size;
        const cfx__part p = sends ? piece_out(c, peer) : piece_in(c, peer);
        if (peer == c->rank || p.size == SIZE_MAX)
            continue;
        cfx__head *head = sends ? &c->gives[peer] : &c->gets[peer];
        *head = sends ? head_of(c, p.size) : (cfx__head){0};
        head->post = sends ? c->post : 0;
        head->read = sends ? c->group->read[peer] : 0;
        c->requests[k] = t->begin(
            t, sends, peer, CFX__TAG_COLLECTIVE,
            (cfx__part[CFX__PARTS]){{head, sizeof *head}, sends && c->post ? (cfx__part){0} : p});
        if (!c->requests[k])
            return cfx__group_fault(c->group);
    }
    return true;
}

static bool reduce(cfx__collective *c) {
    const bool shared = c->call.kind == CFX__MESSAGE_SCATTER || c->phases == 2;
    const cfx__part own = shared ? share(c, c->in, c->rank)
                                 : (cfx__part){c->in, (size_t)(c->n * c->width)};
    char *to = c->phases == 2 ? share(c, c->out, c->rank).data : c->out;
    const void **from = cfx__alloc((size_t)c->size * sizeof *from);
    for (int r = 0; r < c->size; r++)
        from[r] = r == c->rank      ? own.data
                  : c->gets[r].post ? posted(c, r, c->gets[r].post)
                                    : c->room + (size_t)r * own.size;
    bool done = cfx__reduce(c->at, c->call.op, c->dtype, to, c->size, from,
                            (int64_t)own.size / c->width);
    cfx__free(from);
    return done;
}

/* What is left of a phase when its messages are there: this rank's own piece. */
static bool end_phase(cfx__collective *c) {
    const bool reduces =
        c->call.kind == CFX__MESSAGE_REDUCE || c->call.kind == CFX__MESSAGE_SCATTER;
    if (reduces)
        return c->phase == 1 || reduce(c);
    if (c->call.kind == CFX__MESSAGE_SPREAD) {
        if (c->rank == c->call.root && c->phase == 0 && c->in != c->out && c->n)
            memcpy(c->out, c->in, (size_t)(c->n * c->width));
        return true;
    }
    const cfx__part from = piece_out(c, c->rank), to = piece_in(c, c->rank);
    if (from.size)
        memmove(to.data, from.data, from.size);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && c->gets[r].post)
            cfx__move(piece_in(c, r).data, posted(c, r, c->gets[r].post), piece_in(c, r).size);
    return true;
}

/* What others posted is done with. Of two posts the later may be, by another collective, before the
 * earlier is: it counts when both are. */
static void note_read(cfx__collective *c) {
    cfx_group *g = c->group;
    for (int r = 0; r < c->size; r++) {
        const uint64_t post = r == c->rank ? 0 : c->gets[r].post;
        if (post == g->read[r] + 1) {
            g->read[r] += g->read_ahead[r] ? 2 : 1;
            g->read_ahead[r] = false;
        } else if (post) {
            g->read_ahead[r] = true;
        }
    }
}

/* Takes note of one request that is done. */
static bool took(cfx__collective *c, int k, size_t size) {
    const int peer = k % c->size;
    if (k >= c->size)
        return true;
    const cfx__head want = head_of(c, piece_in(c, peer).size);
    if (size >= sizeof want && !cfx__head_fits(c->group, peer, &c->gets[peer], &want))
        return false;
    const cfx__head *got = &c->gets[peer];
    if (size >= sizeof want && got->read > c->group->given_back[peer])
        c->group->given_back[peer] = got->read;
    const bool in_window = size == sizeof want && got->post && c->group->transport->windows &&
                           (size_t)want.bytes <= half_of(c);
    if (in_window || (size == sizeof want + (size_t)want.bytes && !got->post))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at, "rank %d on %s sent %zu bytes for %s, which is %zu", peer,
             cfx_group_node(c->group, peer), size, cfx__head_text(&want),
             sizeof want + (size_t)want.bytes);
    return false;
}

int cfx__collective_poll(cfx__collective *c, bool wait) {
    cfx__transport *t = c ? c->group->transport : NULL;
    while (c && cfx_ok() && c->phase < c->phases) {
        for (; c->waits < 2 * c->size; c->waits++) {
            void *request = c->requests[c->waits];
            size_t size = 0;
            int done = !request ? 1
                       : wait   ? (cfx__group_done(c->group, request, &size) ? 1 : -1)
                                : t->test(t, request, 0, &size);
            if (done == 0)
                return 0;
            if (done == 1)
                c->requests[c->waits] = NULL;
            else if (!wait)
                cfx__group_fault(c->group);
            if (done < 0 || (request && !took(c, c->waits, size)))
                return -1;
        }
        if (!end_phase(c))
            return -1;
        note_read(c);
        if (++c->phase < c->phases && !begin_phase(c))
            return -1;
    }
    return c && cfx_ok() ? 1 : -1;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool make_room(cfx__collective *c) {
    const bool whole = c->call.kind == CFX__MESSAGE_REDUCE && c->phases == 1;
    const size_t each = whole ? (size_t)(c->n * c->width) : share(c, c->in, c->rank).size;
    if (c->call.kind != CFX__MESSAGE_REDUCE && c->call.kind != CFX__MESSAGE_SCATTER)
        return true;
    cfx_group *g = c->group;
    const int64_t size = (int64_t)each * c->size + 1;
    const bool own = g->room_taken; /* by another collective that is under way */
    if (own || !g->room || g->room->numel < size) {
        size_t mark = cfx_scope_open();
        cfx_tensor *t = cfx__tensor_empty(c->at, CFX_U8, false, 1, &size, NULL);
        cfx_tensor **to = own ? &c->memory[2] : &g->room;
        cfx_drop(*to);
        *to = cfx__obj_is_bad(t) ? NULL : cfx_keep(t);
        cfx_scope_close(mark);
    }
    if (!own && g->room) {
        c->memory[2] = cfx_keep(g->room);
        g->room_taken = true;
    }
    c->room = c->memory[2] ? c->memory[2]->data : NULL;
    return c->room != NULL;
}

static void leave_room(cfx__collective *c) {
    if (c->memory[2] && c->memory[2] == c->group->room)
        c->group->room_taken = false;
    cfx_drop(c->memory[2]);
}

static void set_head(cfx__collective *c, const cfx_tensor *t) {
    cfx__head *h = &c->base;
    *h = (cfx__head){.mark = CFX__HEAD_MARK, .kind = (uint8_t)c->call.kind, .dtype = t->dtype,
                     .order = c->order};
    h->ndim = (uint8_t)(t->ndim < CFX__HEAD_DIMS ? t->ndim : CFX__HEAD_DIMS);
    memcpy(h->shape, t->shape, (size_t)h->ndim * sizeof *h->shape);
}

cfx__collective *cfx__collective_begin(cfx_group *g, cfx_site at, cfx__collective_call call,
                                       const cfx_tensor *in, cfx_tensor *out) {
    if (!cfx_ok())
        return NULL;
    const cfx_tensor *t = call.kind == CFX__MESSAGE_SPREAD ? out : in;
    cfx__collective *c = cfx__alloc0(sizeof *c);
    *c = (cfx__collective){.group = g, .at = at, .call = call, .rank = cfx_group_rank(g),
                           .memory = {(cfx_tensor *)in, out},
                           .size = cfx_group_size(g), .dtype = (cfx_dtype)t->dtype,
                           .in = in->data, .out = out->data, .n = t->numel, .phases = 1};
    c->width = cfx_dtype_size(c->dtype);
    c->row = t->ndim && t->shape[0] ? t->numel / t->shape[0] * c->width
             : t->ndim              ? 0
                                    : c->width;
    if (call.kind == CFX__MESSAGE_SHUFFLE && !c->row && out->ndim && out->shape[0])
        c->row = out->numel / out->shape[0] * c->width;
    if ((call.kind == CFX__MESSAGE_REDUCE || call.kind == CFX__MESSAGE_SPREAD) && c->size > 2 &&
        c->n * c->width > WHOLE)
        c->phases = 2;
    c->most = (size_t)(c->n * c->width);
    if (call.kind == CFX__MESSAGE_GATHER && g->transport->windows && c->most > half_of(c)) {
        c->phases = (int)((c->most + half_of(c) - 1) / half_of(c));
        c->most = half_of(c);
    }
    c->order = g->collectives++;
    set_head(c, t);
    c->gives = cfx__alloc0((size_t)c->size * sizeof *c->gives);
    c->gets = cfx__alloc0((size_t)c->size * sizeof *c->gets);
    c->requests = cfx__alloc0((size_t)c->size * 2 * sizeof *c->requests);
    if (make_room(c) && begin_phase(c) && cfx_ok())
        return c;
    cfx__collective_end(c);
    return NULL;
}

void cfx__collective_end(cfx__collective *c) {
    if (c) {
        cfx__group_cancel(c->group, 2 * c->size, c->requests, COUNT(c->memory), c->memory);
        cfx__free(c->gives);
        cfx__free(c->gets);
        cfx__free(c->requests);
        leave_room(c);
    }
    cfx__free(c);
}

bool cfx__collective_run(cfx_group *g, cfx_site at, cfx__collective_call call,
                         const cfx_tensor *in, cfx_tensor *out) {
    const int64_t began = cfx__stretch_begin(g);
    cfx__collective *c = cfx__collective_begin(g, at, call, in, out);
    bool done = cfx__collective_poll(c, true) == 1;
    cfx__collective_end(c);
    cfx__stretch_end(g, CFX__STRETCH_TALK, began);
    return done;
}
