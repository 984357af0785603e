/* How many helpers pay off for a region of the pool. */
#ifndef CFX__WORTH_H
#define CFX__WORTH_H

#include "base.h"

#include <stdatomic.h>

enum { CFX__WORTH_KNOWN = 1024, CFX__GIVING_NS = 300 };

/* What regions took. Callers at once may mix a key with the time of another's region: then that is
 * given to too many or too few helpers once. */
typedef struct cfx__worth {
    struct {
        atomic_uint_least64_t key;
        atomic_int_least64_t alone;
    } known[CFX__WORTH_KNOWN];
    atomic_int giving; /* what giving work to one helper takes; first CFX__GIVING_NS */
} cfx__worth;

/* Of the region with this key, of which at most so many can help: fewer, where it took so little
 * the last time that giving it to more would take longer than they save. */
int cfx__worth_helpers(cfx__worth *w, uint64_t key, int most);
/* What a region would have taken its caller alone, and what giving one to n helpers took. */
void cfx__worth_note(cfx__worth *w, uint64_t key, int64_t alone_ns);
void cfx__worth_note_giving(cfx__worth *w, int n, int64_t ns);

#endif
