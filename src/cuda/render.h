/* render: kernels of a plan as CUDA C.
 *
 * The text is written by what writes C (src/compile): calls, layers and loops say nests of loops
 * over elements, and here the outermost of them become a kernel, with a thread for each element or
 * some threads for each row. Kernels are told apart by their text alone, so that layers of one
 * shape share theirs. */
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
    bool flags;             /* the last parameter: where an index out of range is noted */
} cfx__cuda_rendered;

typedef struct cfx__cuda_name {
    const char *name;
    cfx__c_ref ref;
} cfx__cuda_name;

typedef struct cfx__cuda_pen {
    cfx__c_card card; /* first: it is found by cfx__c.card */
    cfx__text functions;
    cfx__map known;            /* bodies to names of functions */
    VEC(cfx__cuda_name) names; /* pointers of the call that is being written */
    VEC(cfx__cuda_rendered) made;
    size_t start;    /* where the body of the kernel begins */
    int64_t threads; /* of it; 0: it has nothing to do */
    int block;
    bool wide; /* indices need 64 bits */
    int lanes; /* threads of a row; and rows of a block */
    int rows;
    bool along; /* threads of a row are neighbours */
} cfx__cuda_pen;

/* Makes c write to t; and ends t. */
void cfx__cuda_pen_begin(cfx__cuda_pen *t, cfx__c *c);
void cfx__cuda_pen_end(cfx__cuda_pen *t);
/* Writes the kernels of a slot's work behind t->made; false where it has no form on a card, nothing
 * is added then. */
bool cfx__cuda_render(cfx__cuda_pen *t, cfx__c_unit *u, int slot);
/* Writes a call that is another under another name; false where it is none (calls.c). */
bool cfx__cuda_put_call(cfx__c_unit *u, int slot);
/* The same of a copy. */
bool cfx__cuda_render_copy(cfx__cuda_pen *t, cfx__c *c, const cfx__c_ref *to,
                           const cfx__c_ref *from);
/* The same of what follows a product, over its result. */
struct cfx__c_work;
bool cfx__cuda_render_posts(cfx__cuda_pen *t, cfx__c *c, struct cfx__c_work *k);
/* "v = ...;": a post as statements over `v`, on one line; NULL where it has no form. Scope. */
const char *cfx__cuda_post_text(cfx__cuda_pen *t, cfx__c *c, const cfx__post *post);
/* All that is to be compiled; scope. */
const char *cfx__cuda_pen_whole(const cfx__cuda_pen *t, const cfx__c *c);

#endif
