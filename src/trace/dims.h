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
        bool automatic;  /* Dim.AUTO or Dim.DYNAMIC: called as its source */
        bool varying;    /* Dim.DYNAMIC: it must not be a constant */
        bool narrowed;   /* its range is smaller than the caller says: it is among `broken` */
    })
    names;
    VEC(struct cfx__violation {
        char *name;
        char *sentence; /* NULL: of its range, as it is in the end */
        char *fix;
    })
    broken; /* what the caller says of names and does not hold, which they gave way for */
    struct cfx__draft *draft; /* what the data of the example says (draft.h); NULL: nobody asks */
} cfx__dims;

void cfx__dims_free(cfx__dims *d);
/* What is said of all inputs, a dict by name or a list in their order, as a dict of those that it
 * is said of. Bad, with an error, where it does not fit them (spec.c). Scope. */
cfx_value cfx__spec_check(cfx_value inputs, cfx_value spec);
enum { CFX__NO_DIM = -1 };
/* Size number `dim` of the input called `source` is given so; CFX__NO_DIM: it is a number itself.
 */
void cfx__dims_note(cfx__dims *d, const char *source, int dim, int64_t size, cfx_value given);
/* Symbols for all that was noted; false, with an error, where it does not fit together. */
bool cfx__dims_settle(cfx__dims *d);
/* The size as an expression; None where it is as it is. */
cfx_value cfx__dims_find(const cfx__dims *d, const char *source, int dim);
/* Ranges as a program has them: expression to (least, most). Scope. */
cfx_dict *cfx__dims_ranges(const cfx__dims *d);
/* An expression of sizes, said by their inputs: "2*L['x'].size()[0]". Scope. */
const char *cfx__dims_sourced(const cfx__dims *d, cfx_value v);
/* A condition as a guard: "(L['x'].size()[0] % 8) == 0". And all that holds of sizes, a list of
 * them. Scope. */
const char *cfx__dims_guard(const cfx__dims *d, const cfx__relation *c);
cfx_value cfx__dims_guards(const cfx__dims *d);

/* "You marked n as dynamic but your code specialized it to be a constant (1). ...". Scope. */
const char *cfx__dims_constant(const char *name, int64_t value);
/* A name turned out to be a constant: that its range is another one is not told. */
void cfx__dims_forget_range(cfx__dims *d, const char *name);

#endif
