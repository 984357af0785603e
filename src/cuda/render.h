/* render: generates CUDA C for kernels of a plan.
 *
 * The C code generator (src/compile) writes calls, layers and loops as loop nests; here the
 * outermost loops become a kernel, with one thread for each element or several threads for each
 * row. Kernels are identified by their text, so layers of one shape share theirs. */
#ifndef CFX__CUDA_RENDER_H
#define CFX__CUDA_RENDER_H

#include "../compile/compile.h"

enum { CFX__CUDA_REFS = 40 };

/* A kernel that was written, and the memory that it is given. */
typedef struct cfx__cuda_rendered {
    const char *function;
    unsigned grid, block;
    int n;
    const cfx__c_ref *refs; /* in the order of its parameters */
    const bool *writes;     /* by ref */
    bool flags;             /* the last parameter: where an index out of range is noted */
    int text;               /* number of its function */
    int64_t elements;       /* that have a thread each; 0: rows have several */
} cfx__cuda_rendered;

/* The text of a function: what is done for one element or for the rows of one block, and the
 * kernel, which are written out where something needs them. */
typedef struct cfx__cuda_function_text {
    const char *name, *one, *kernel;
    bool is_called, is_launched;
} cfx__cuda_function_text;

typedef struct cfx__cuda_name {
    const char *name;
    cfx__c_ref ref;
    bool written;
} cfx__cuda_name;

typedef struct cfx__cuda_pen {
    cfx__c_card card; /* first: it is found by cfx__c.card */
    VEC(cfx__cuda_function_text) functions;
    VEC(cfx__cuda_name) names; /* pointers of the call that is being written */
    VEC(cfx__cuda_rendered) made;
    size_t start;    /* where the body of the kernel begins */
    int64_t threads; /* of it; 0: it has nothing to do */
    int block;
    int64_t full;      /* threads that a card has to have to be busy; 0: not known */
    cfx__c_walk walk;  /* what is walked: of a kernel, or of the row that is being written */
    size_t row_start;  /* where what is done for the elements of a row begins */
    int several;       /* elements beside each other that a thread has at once */
    bool walks; /* a thread for each element, or for several */
    bool wide; /* indices need 64 bits */
    int lanes; /* threads of a row; and rows of a block */
    int rows;
    bool along; /* threads of a row are neighbours */
    int within; /* threads of the block whose own work is written; 0: it is a kernel */
} cfx__cuda_pen;

/* Makes c write to t; and ends t. */
void cfx__cuda_pen_begin(cfx__cuda_pen *t, cfx__c *c, int64_t full);
void cfx__cuda_pen_end(cfx__cuda_pen *t);
/* What `body` does for the element at `var`, for that one and those behind it, `by` in all:
 * operands that lie so are read and written in pieces of 16 bytes. NULL where there are none, or
 * the body is no list of statements. Scope (widen.c). */
const char *cfx__cuda_widen(const cfx__cuda_pen *t, const char *body, const char *var, int by);
/* How many of so many elements, of which `beside` follow each other, a thread should have. */
int cfx__cuda_wide(const cfx__cuda_pen *t, int64_t elements, int64_t beside);
/* Writes the kernels of a slot's work behind t->made; false where it has no form on a card, nothing
 * is added then. */
bool cfx__cuda_render(cfx__cuda_pen *t, cfx__c_unit *u, int slot);
/* The work of a slot as a function that all threads of a block call, element after element or row
 * after row: NAME_one(refs, number). Nothing is added to t->made; false where it is not one
 * function, or says that an index is out of range. */
typedef struct cfx__cuda_within {
    const char *text; /* with all that it stands on; scope */
    cfx__cuda_rendered is;
} cfx__cuda_within;
bool cfx__cuda_render_within(cfx__cuda_pen *t, cfx__c_unit *u, int slot, int threads,
                             cfx__cuda_within *to);
/* Writes a call that is another under another name; false where it is none (calls.c). */
bool cfx__cuda_put_call(cfx__c_unit *u, int slot);
/* The same of a copy. */
bool cfx__cuda_render_copy(cfx__cuda_pen *t, cfx__c *c, const cfx__c_ref *to,
                           const cfx__c_ref *from);
/* The same of elements whose places are told by others: at `places` of x, which are told by `n`
 * arrays `by`, or from there to y; no place is told twice where x is written. */
struct cfx__cuda_index_call;
bool cfx__cuda_render_index(cfx__cuda_pen *t, cfx__c *c, const struct cfx__cuda_index_call *call,
                            const cfx__c_ref *x, const cfx__c_ref *y, const cfx__c_ref *const *by);
/* The same of what follows a product, over its result. */
struct cfx__c_work;
bool cfx__cuda_render_posts(cfx__cuda_pen *t, cfx__c *c, struct cfx__c_work *k);
/* "v = ...;": a post as statements over `v`, on one line; NULL where it has no form. Scope. */
const char *cfx__cuda_post_text(cfx__cuda_pen *t, cfx__c *c, const cfx__post *post);
/* Several kernels with a thread for each element as one of a single block, which does those of a
 * phase at once, and phases one after the other: its number in t->made; below 0: they are given too
 * much. */
int cfx__cuda_render_joined(cfx__cuda_pen *t, cfx__c *c, int n, const int *made, const int *phase);
/* A kernel will be launched. */
void cfx__cuda_pen_use(cfx__cuda_pen *t, int made);
/* All that is to be compiled for those; scope. */
const char *cfx__cuda_pen_whole(const cfx__cuda_pen *t, const cfx__c *c);

#endif
