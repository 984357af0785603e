/* What the searches for a condition share: border.c those of one size, border_two.c of two,
 * border_product.c of several. */
#ifndef CFX__BORDER_H
#define CFX__BORDER_H

#include "probe.h"

typedef struct cfx__search {
    cfx__probe *p;
    size_t n;
    int64_t *hints;         /* the sizes of the example */
    int64_t *bad;           /* those to be explained */
    int64_t *sizes, *where; /* room for others */
} cfx__search;

typedef enum cfx__search_verdict { CFX__CANNOT_BE, CFX__DIFFERS, CFX__GOES } cfx__search_verdict;

cfx__search_verdict cfx__search_at(const cfx__search *s, const int64_t *sizes);
/* Symbol i as an expression; scope. */
cfx_value cfx__search_name(const cfx__search *s, size_t i);
/* Remainders up to this one are looked for. */
enum { CFX__WINDOW = 64 };

/* What is asked of two sizes together; nothing where they do not tell. */
cfx__finding cfx__search_two(const cfx__search *s, size_t i, size_t j);

/* It goes where the product of the sizes that differ has the remainder of the example's, as a view
 * of so many columns does. The smallest number that tells all samples apart. */
cfx__finding cfx__search_product(const cfx__search *s);

#endif
