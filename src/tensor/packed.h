/* Other layouts ("forms") of a storage's data, such as packed weights, made once and attached to
 * the storage of the weight, so that plans, threads, sessions and calls share them. */
#ifndef CFX__PACKED_H
#define CFX__PACKED_H

#include "tensor.h"

/* Makes a form, of which the caller owns a count: cfx__packed_new, filled, or an object that begins
 * with such a form and has data. NULL where it cannot be made. */
typedef cfx__packed *cfx__packed_fn(void *user);

/* The form of `size` bytes for `key`, made by `make` where there is none and kept with the storage.
 * Of threads that ask for the same at once one makes it and the others wait. What was made of
 * another storage (below) has its forms there; one that may be written to unseen keeps nothing. The
 * caller owns a count; NULL where it could not be made. */
cfx__packed *cfx__packed_get(cfx__storage *s, uint64_t key, size_t size, cfx__packed_fn *make,
                             void *user);
/* Gives back the pages of a storage that lies in a mapped file and was not written to (file.c);
 * they are read again where somebody asks. Done with what a form was made of, which is rarely
 * looked at again. */
void cfx__file_unload(const cfx__storage *s);
/* ---- lent ------------------------------------------------------------------------------------ */

/* A storage that forms in a file were made of. */
typedef struct cfx__lent_of {
    uint64_t sum; /* of its bytes then */
    enum { CFX__LENT_UNKNOWN, CFX__LENT_SAME, CFX__LENT_OTHER } is;
} cfx__lent_of;

/* Who lends forms that lie in a mapped file (src/pack/prepared.c). They are believed when they are
 * asked for and their bytes, and those they were made of, have the sums that the file says; else
 * they are made anew. Counted. */
typedef struct cfx__lender {
    cfx_obj head;
    cfx__file_mapping *file; /* counted */
    cfx__lent_of *of;        /* storages; theirs */
    int nforms;
    int64_t used, bytes;     /* forms that were asked for and believed */
    int64_t other, broken;   /* made of other bytes; not whole */
} cfx__lender;
cfx__lender *cfx__lender_new(cfx__file_mapping *file, int nof); /* the caller owns a count */
/* Keeps a form that is lent with a storage. */
void cfx__packed_lend(cfx__storage *s, const cfx__packed *form);
/* The forms that a storage has, whole and not of this process alone, `most` of them; how many. The
 * caller owns a count of each. */
int cfx__packed_all(cfx__storage *s, cfx__packed **forms, int most);
/* A sum of bytes that tells whether they are the same; by all threads allowed. (sum.c) */
uint64_t cfx__packed_sum(const void *p, size_t size);

/* Fills the memory of a tensor. */
typedef void cfx__packed_fill_fn(void *user, void *to);
/* A tensor of numbers that are computed of a tensor's alone and of what the hash `by` says, by
 * `fill` where nobody did so before: they are a form of that tensor's storage themselves, and forms
 * of them are kept there too. Scope. */
cfx_tensor *cfx__packed_tensor(const cfx_tensor *of, uint64_t by, cfx_dtype dtype, int ndim,
                               const int64_t *shape, cfx__packed_fill_fn *fill, void *user);

#endif
