/* Records what the helpers of the pool do, for profiles. */
#ifndef CFX__POOL_H
#define CFX__POOL_H

#include "base.h"

/* A helper's work on one region: nanoseconds of cfx__clock_ns. */
typedef struct cfx__pool_span {
    int thread;
    int64_t begin, end;
} cfx__pool_span;

/* From here on, until it is switched off, what helpers do is noted, so much at most; what was noted
 * before is forgotten. For one caller at a time, while no region runs. */
enum { CFX__POOL_SPANS = 1 << 14 };
void cfx__pool_watch(bool on);
/* What was noted, and how much; borrowed until the next watch. */
size_t cfx__pool_spans(const cfx__pool_span **spans);

#endif
