/* The transport of messages between ranks: the simulator (simulate.c) or libcfx_mpi.so
 * (src/mpi), a separate library that uses no function of this one. Messages between two ranks
 * with the same tag arrive in order. */
#ifndef CFX__TRANSPORT_H
#define CFX__TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CFX__TRANSPORT_VERSION = 4 };

/* Memory that is sent, or received into; a message is several of them in a row. */
typedef struct cfx__part {
    void *data;
    size_t size;
} cfx__part;

enum { CFX__PARTS = 2, CFX__PART_SMALL = 512 };

typedef struct cfx__transport cfx__transport;
struct cfx__transport {
    int version;
    int rank, size;
    /* By rank: memory that all ranks see, which that rank writes and the others read, `window`
     * bytes each for collectives and `mail` behind them for values (mail.c), which are zeros at
     * first. NULL: there is none, as between machines. */
    char *const *windows;
    size_t window, mail;
    /* The machine of a rank. */
    const char *(*node)(cfx__transport *t, int rank);
    /* Begins to send to a peer, or to receive from it, the parts as one message. Their memory stays
     * until the request is done or cancelled; parts of at most CFX__PART_SMALL bytes are used only
     * while begin and test are called. NULL: a fault. */
    void *(*begin)(cfx__transport *t, bool sends, int peer, int tag, const cfx__part *parts);
    /* Whether a request is done, which is waited for so many microseconds: 1, and it is gone;
     * 0: not yet; -1: a fault. *size is the length of a message that was received. */
    int (*test)(cfx__transport *t, void *request, int64_t wait, size_t *size);
    /* Gives a request up. False: what it began cannot be taken back, so its memory, but for small
     * parts, is held until the transport has ended. */
    bool (*cancel)(cfx__transport *t, void *request);
    /* The first thing that went wrong with a rank, or NULL. */
    const char *(*fault)(cfx__transport *t);
    /* Ends it all, once; see cfx_group_end. Whether all ranks ended well. */
    bool (*end)(cfx__transport *t, const char *sentence);
    /* The caller's, or NULL; see cfx_group_on_loss. */
    void (*lost)(const char *sentence, void *user);
    void *user;
};

/* What libcfx_mpi.so exports as cfx_mpi_transport. NULL, with a sentence in `why`, on failure. */
typedef cfx__transport *cfx__transport_open(int version, char *why, size_t room);

#endif
