/* group: communication between ranks.
 *
 * Invariant: every message describes itself (sequence number, kind, dtype, sizes), and is
 * accepted only if it is what this rank waits for, within the limits of this thread. After a
 * fault nothing is sent or received, and every call fails with the same error. Results that
 * combine numbers of several ranks are computed in rank order. */
#ifndef CFX__GROUP_H
#define CFX__GROUP_H

#include <cfx/group.h>

#include "../tensor/tensor.h"
#include "transport.h"

/* What a message belongs to. */
#define CFX__MESSAGES(X)                                                                           \
    X(VALUE, "a value")                                                                            \
    X(REDUCE, "all_reduce")                                                                        \
    X(GATHER, "all_gather_into_tensor")                                                            \
    X(SCATTER, "reduce_scatter_tensor")                                                            \
    X(SHUFFLE, "all_to_all_single")                                                                \
    X(SPREAD, "broadcast")                                                                         \
    X(FACTS, "a comparison")

typedef enum cfx__message {
#define CFX__MESSAGE(name, text) CFX__MESSAGE_##name,
    CFX__MESSAGES(CFX__MESSAGE)
#undef CFX__MESSAGE
    CFX__MESSAGE_KINDS
} cfx__message;

enum { CFX__HEAD_DIMS = 16 };

/* What stands before every message. */
typedef struct cfx__head {
    uint32_t mark;
    uint8_t kind, dtype, ndim;
    uint8_t number;   /* a value: a tag of numbers (see message.c); else which reduction */
    uint64_t order;   /* of this kind of messages between these two ranks */
    int64_t bytes;    /* that follow, or lie in the sender's window */
    uint64_t post;    /* of a collective: which of the sender's posts has them; of a value: where in
                         its mail they lie, plus one; 0: they follow */
    uint64_t read;    /* the last post of the receiver's that the sender has done with */
    int64_t shape[CFX__HEAD_DIMS];
    int64_t stride[CFX__HEAD_DIMS]; /* of values, whose elements lie close, in some order */
} cfx__head;

/* A rank waits for what another has not sent yet, or talks: sends, receives, and reduces what came.
 * In a collective the two cannot be told apart by one rank alone: all of it is talking. */
typedef enum cfx__stretch { CFX__STRETCH_WORK, CFX__STRETCH_TALK, CFX__STRETCH_WAIT } cfx__stretch;
/* One stretch of time that is over: seconds of a clock that only goes forward. */
typedef void cfx__stretch_fn(cfx__stretch what, double from, double to, void *user);

/* A letter that this rank wrote (mail.c): where it ends, in bytes of all letters so far, and which
 * of those for that rank it is. */
typedef struct cfx__letter {
    uint64_t end, number;
    int to;
} cfx__letter;

enum { CFX__LETTERS = 64 };

typedef struct cfx__mail {
    uint64_t begin, end;  /* of letters that have not all been taken, in bytes so far */
    uint64_t first, next; /* of them */
    cfx__letter letters[CFX__LETTERS];
    uint64_t *written;    /* by rank: letters for it */
} cfx__mail;

struct cfx_group {
    cfx_obj obj;
    cfx__transport *transport;
    bool owned;             /* the transport is ended with it */
    uint64_t collectives;   /* so far */
    uint64_t *sent, *taken; /* values, by rank */
    cfx_tensor *room;       /* of a collective, kept for the next: new pages cost more than sums */
    bool room_taken;
    uint64_t posts;         /* pieces that this rank put into its window so far */
    uint64_t *read;         /* by rank: the last of its posts that this rank is done with, */
    bool *read_ahead;       /* whether it is with the one after the next, too, */
    uint64_t *given_back;   /* and the last of this rank's that it is done with */
    cfx__mail mail;
    cfx_list *held;         /* memory of messages that were given up but could not be taken back */
    cfx__stretch_fn *watch; /* who looks on, or NULL */
    void *watcher;
};

/* ---- what a rank does with its time ---------------------------------------------------------- */

/* Calls fn after each stretch in which this rank talked or waited, and for stages of a pipeline in
 * which it worked; NULL: nobody is called. */
void cfx__group_watch(cfx_group *g, cfx__stretch_fn *fn, void *user);
/* The time of a stretch's beginning, and its end, which who watches is told of. */
int64_t cfx__stretch_begin(const cfx_group *g);
void cfx__stretch_end(const cfx_group *g, cfx__stretch what, int64_t began);

/* A group over a transport; the caller owns a count. */
cfx_group *cfx__group_new(cfx__transport *t);

/* Records what is wrong with a rank, which the transport knows. Returns false. */
bool cfx__group_fault(cfx_group *g);
/* Whether there is a group, and a rank of that number which is not this one; else an error. */
bool cfx__group_peer(const cfx_group *g, int rank);
/* Waits for a request, as long as the limits allow; it is gone then. False, with an error: the
 * caller cancels it. */
bool cfx__group_done(cfx_group *g, void *request, size_t *size);
/* Gives up those of n requests that there are. Where one cannot be taken back, the group counts
 * `memory` (tensors or NULL, in which the messages lie) until its transport has ended. */
void cfx__group_cancel(cfx_group *g, int n, void *const *requests, int nmemory,
                       cfx_tensor *const *memory);
/* "float32[2, 3]" as a head says it; scope. */
const char *cfx__head_text(const cfx__head *h);
/* Whether a head is what is expected from a rank; else the error says what each is at. */
bool cfx__head_fits(const cfx_group *g, int from, const cfx__head *got, const cfx__head *want);
enum { CFX__TAG_HEAD = 1, CFX__TAG_DATA, CFX__TAG_COLLECTIVE };
enum { CFX__HEAD_MARK = 0x78666331 }; /* "1cfx" */

/* ---- values on their way --------------------------------------------------------------------- */

/* A value that is being sent or received. */
typedef struct cfx__parcel {
    cfx_group *group;
    bool sends, has_head;
    int peer;
    cfx__head head;
    cfx_tensor *tensor; /* counted */
    void *requests[2];  /* of the head and of the data; NULL: done, or not begun */
} cfx__parcel;

/* Begins to send v, or to receive; false, with an error. Parcels from one rank are finished in the
 * order they were begun. */
bool cfx__parcel_send(cfx__parcel *p, cfx_group *g, int to, cfx_value v);
bool cfx__parcel_recv(cfx__parcel *p, cfx_group *g, int from);
/* Goes on as far as it can without waiting, or waits until it is done. 1: done, 0: not yet, -1:
 * failed. What was received goes to *v; scope. */
int cfx__parcel_poll(cfx__parcel *p, bool wait, cfx_value *v);
/* Gives it up, done or not. */
void cfx__parcel_end(cfx__parcel *p);

/* Writes a letter: where it lies, plus one; 0: there is no mail, or no room. */
uint64_t cfx__mail_put(cfx_group *g, int to, const void *data, size_t size);
/* Takes the letter that a head tells of; false, with an error, where none can lie there. */
bool cfx__mail_take(cfx_group *g, int from, uint64_t post, void *data, size_t size);
/* Copies by several threads. */
void cfx__move(char *to, const char *from, size_t size);

/* ---- collectives ----------------------------------------------------------------------------- */

typedef enum cfx__reduction {
    CFX__SUM,
    CFX__AVG,
    CFX__PRODUCT,
    CFX__MIN,
    CFX__MAX,
    CFX__BAND,
    CFX__BOR,
    CFX__BXOR,
    CFX__REDUCTIONS
} cfx__reduction;

/* The reduction that a text names ("sum"); CFX__REDUCTIONS where none. */
cfx__reduction cfx__reduction_named(const char *name);
/* out = from[0] op from[1] op ... in that order, n elements; halves and the like are summed in
 * float32 and rounded once. Whether the dtype has such a reduction, else an error. */
bool cfx__reduce(cfx_site at, cfx__reduction op, cfx_dtype dtype, void *out, int nfrom,
                 const void *const *from, int64_t n);

/* A collective under way: every rank calls the same ones in the same order. */
typedef struct cfx__collective cfx__collective;
/* What all have in common. in and out are contiguous and stay until it is done. */
typedef struct cfx__collective_call {
    cfx__message kind;
    cfx__reduction op;         /* of REDUCE and SCATTER */
    int root;                  /* of SPREAD: the rank whose numbers it is */
    const int64_t *gives, *takes; /* of SHUFFLE: rows of `in` and `out` by rank */
} cfx__collective_call;
/* NULL, with an error. The caller ends it. */
cfx__collective *cfx__collective_begin(cfx_group *g, cfx_site at, cfx__collective_call call,
                                       const cfx_tensor *in, cfx_tensor *out);
/* As cfx__parcel_poll. */
int cfx__collective_poll(cfx__collective *c, bool wait);
void cfx__collective_end(cfx__collective *c);
/* All of it; false, with an error. */
bool cfx__collective_run(cfx_group *g, cfx_site at, cfx__collective_call call,
                         const cfx_tensor *in, cfx_tensor *out);

#endif
