/* stream: results past the caches, and memory that is asked for early. */
#ifndef CFX__STREAM_H
#define CFX__STREAM_H

#include "tensor.h"

enum { CFX__STREAM_BLOCK = 8192 }; /* bytes that kernels compute before they bring them away */

/* Whether a result of so many bytes is better written past the caches: then kernels compute blocks
 * that stay in the first-level cache, bring each to its place, and end that before another thread
 * reads them. Rows that are written one by one: lines that two of them share are not streamed. */
bool cfx__streams(int64_t bytes);
bool cfx__streams_rows(int64_t rows, int64_t bytes);
void cfx__stream_out(void *dst, const void *src, int64_t bytes);
void cfx__stream_end(void);

/* cfx__iter_pointwise, with a loop that writes past the caches itself, in the place of blocks that
 * are brought there: its one result is aligned to lines of the cache. NULL: there is none. */
void cfx__iter_streaming(cfx__iter_loop *loop, cfx__iter_loop *stream, int nout, int nin,
                         const cfx__iter_operand *operands, const void *params, int cost);

/* Asks for memory that is read soon, while the caches are busy with something else. */
static inline void cfx__fetch(const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)from + i);
}

#endif
