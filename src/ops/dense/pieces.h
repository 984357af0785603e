/* Pieces of a kernel that a thread does one after the other, with room of its own. */
#ifndef CFX__PIECES_H
#define CFX__PIECES_H

#include "../../base/base.h"

/* Computes one piece of a job. */
typedef void piece_fn(const void *job, int64_t piece, void *room);

/* Pieces [begin, end) with `size` bytes of room, NULL for none; an error is recorded where there is
 * no memory for it. */
static inline void pieces_run(piece_fn *run, const void *job, int64_t begin, int64_t end,
                              size_t size) {
    void *room = size ? cfx__block_alloc(size) : NULL;
    if (size && !room) {
        cfx__error_memory(size, false);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        run(job, i, room);
    if (room)
        cfx__block_free(room, size);
}

#endif
