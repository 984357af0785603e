/* The log of a recording at dynamic sizes: where its numbers come from.
 *
 * A number in the recording may carry a mark, which names the node that produced it, or the
 * tensor whose size it is. Arithmetic in C loses the mark. An unmarked number that a
 * decomposition passes on was an argument, a size of an argument, or computed from these; so the
 * log has the arguments of each decomposition and the nodes that it made (symints.c). */
#ifndef CFX__RECORD_LOG_H
#define CFX__RECORD_LOG_H

#include "../graph/graph.h"

struct cfx__recorder;

enum {
    CFX__NUMEL = -1,   /* in the place of a dimension: how many elements there are */
    CFX__A_NUMBER = -2 /* and: what the node gives, which is no tensor */
};

/* What a number is. */
typedef struct cfx__record_mark {
    cfx_node *node;
    int dim;
} cfx__record_mark;

typedef struct cfx__record_log {
    VEC(cfx__record_mark) marks; /* cfx_value.spare counts them from 1 */
    VEC(struct cfx__record_frame {
        uint32_t outer; /* the decomposition that it is part of; 0: the program itself */
        size_t first;   /* what it was given, of those below */
        size_t len;
    })
    frames;                    /* number 0 is the program */
    VEC(struct cfx__record_given {
        cfx__record_mark what; /* a tensor, as A_NUMBER, or a marked number; NULL: another */
        int64_t number;        /* that is then */
    })
    given;                     /* in the order of the arguments */
    VEC(uint32_t) frame_of;    /* by id of the node: where it was made */
    VEC(struct cfx__record_wrap {
        cfx_node *tensor; /* what a call of the program gave */
        cfx_node *after;  /* the last node of that call */
        bool written;     /* or what is to be written to next, after that node */
    })
    wraps;
    uint32_t now;
} cfx__record_log;

void cfx__record_log_begin(cfx__record_log *log);
void cfx__record_log_free(cfx__record_log *log);

/* The mark of v; NULL: it has none, or there is no log. Whether it, or an item of it, has one. */
const cfx__record_mark *cfx__record_mark_of(const cfx__record_log *log, cfx_value v);
bool cfx__record_is_marked(const cfx__record_log *log, cfx_value v);
/* The number v, which node n gives. */
cfx_value cfx__record_number(struct cfx__recorder *r, cfx_node *n, cfx_value v);
/* The size of a dimension of t. */
cfx_value cfx__record_size(struct cfx__recorder *r, const cfx_tensor *t, int dim);

/* From here to the end calls are part of a decomposition that was given these; what ends it is
 * returned. */
uint32_t cfx__record_frame_begin(struct cfx__recorder *r, int n, const cfx_value *args);
void cfx__record_frame_end(struct cfx__recorder *r, uint32_t frame);
uint32_t cfx__record_frame_now(const struct cfx__recorder *r);
/* A node was made; a call of the program gave v; one is about to write to v. */
void cfx__record_log_node(struct cfx__recorder *r, const cfx_node *n);
void cfx__record_log_result(struct cfx__recorder *r, cfx_value v);
void cfx__record_log_write(struct cfx__recorder *r, cfx_value v);

#endif
