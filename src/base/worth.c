/* How many helpers pay off for a parallel region is measured. With k helpers it takes alone / (k
 * + 1) + k giving, where `alone` is the time of the caller without help and `giving` the time to
 * hand work to one helper; the minimum is at k + 1 = sqrt(alone / giving). Both come from
 * earlier regions: `alone` from the last run of the same kernel on work of the same size (a
 * region without history uses all helpers), `giving` from all regions. So a program of
 * microseconds runs on its caller, a kernel of some tens of microseconds on a few threads, and
 * no constants need adjusting for machines with faster cores or slower communication between
 * them. */
#include "worth.h"

#include <math.h>

enum { GIVING_LEAST_NS = 150, GIVING_MOST_NS = 20000 }; /* lines go from core to core */

static int64_t alone_of(cfx__worth *w, uint64_t key) {
    const uint64_t i = key % CFX__WORTH_KNOWN;
    return atomic_load_explicit(&w->known[i].key, memory_order_relaxed) == key
               ? atomic_load_explicit(&w->known[i].alone, memory_order_relaxed)
               : 0;
}

int cfx__worth_helpers(cfx__worth *w, uint64_t key, int most) {
    const int64_t alone = alone_of(w, key);
    if (most < 1 || !alone)
        return most;
    const int best = (int)sqrt((double)alone / atomic_load(&w->giving)) - 1;
    return best < 0 ? 0 : best < most ? best : most;
}

/* A region that was interrupted took longer than it takes: a longer time counts less. */
void cfx__worth_note(cfx__worth *w, uint64_t key, int64_t alone_ns) {
    const uint64_t i = key % CFX__WORTH_KNOWN;
    const int64_t before = alone_of(w, key);
    const int64_t now = !before || alone_ns < before ? alone_ns : (7 * before + alone_ns) / 8;
    atomic_store_explicit(&w->known[i].alone, now > 0 ? now : 1, memory_order_relaxed);
    atomic_store_explicit(&w->known[i].key, key, memory_order_relaxed);
}

void cfx__worth_note_giving(cfx__worth *w, int n, int64_t ns) {
    int64_t each = ns / n;
    each = each < GIVING_LEAST_NS ? GIVING_LEAST_NS : each > GIVING_MOST_NS ? GIVING_MOST_NS : each;
    /* the helper needs as long to see it */
    atomic_store(&w->giving, (int)((15 * atomic_load(&w->giving) + 2 * each) / 16));
}
