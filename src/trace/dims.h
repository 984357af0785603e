/* Which sizes of a program's inputs may vary, as the caller of cfx_export says it. */
#ifndef CFX__DIMS_H
#define CFX__DIMS_H

#include "worlds.h"

typedef struct cfx__dims {
    cfx__worlds worlds; /* a symbol for each name of the caller's, and for each Dim.AUTO */
    VEC(struct cfx__dim {
        char *source;    /* "L['x'].size()[0]" */
        cfx_value given; /* a name, an expression of names, Dim.AUTO, Dim.DYNAMIC; counted */
        int64_t hint;
        cfx_value expr; /* of symbols; an integer where it does not vary after all. Counted */
    })
    dims;
    VEC(struct cfx__dim_name {
        char *name;   /* "batch" */
        char *symbol; /* "s77" */
        char *source; /* of the first size that is just it; NULL: there is none */
        int64_t least;
        int64_t most;
        int64_t hint;
        bool bounded[2]; /* by the caller: below, above */
        bool automatic;
    })
    names;
} cfx__dims;

void cfx__dims_free(cfx__dims *d);
/* Size number `dim` of the input called `source` is given so. */
void cfx__dims_note(cfx__dims *d, const char *source, int dim, int64_t size, cfx_value given);
/* Symbols for all that was noted; false, with an error, where it does not fit together. */
bool cfx__dims_settle(cfx__dims *d);
/* The size as an expression; None where it is as it is. */
cfx_value cfx__dims_find(const cfx__dims *d, const char *source, int dim);
/* Ranges as a program has them: expression to (least, most). Scope. */
cfx_dict *cfx__dims_ranges(const cfx__dims *d);

/* ---- where forward decides by a size (guards.c) ---------------------------------------------- */

/* Whether the program is recorded as in world 0 at the sizes of world `CFX__TRIAL`. */
enum { CFX__TRIAL = CFX__WORLDS - 1 };
typedef bool cfx__trial(void *user);

/* Finds out what the program asks of sizes. True where that is now so: sizes of Dim.AUTO gave way,
 * and it is to be recorded again. Else false, with an error in PyTorch's words; `why` is told where
 * nothing is found. */
bool cfx__guards_settle(cfx__dims *d, cfx__trial *trial, void *user, const char *why);

#endif
