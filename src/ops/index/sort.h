/* Ordering: elements of any dtype become unsigned keys, and keys are sorted or selected.
 *
 * A key orders as its number does; NaN comes above all numbers, 0 and -0 are equal. Keys may be
 * inverted for descending order, so one stable sort serves both. */
#ifndef CFX__SORT_H
#define CFX__SORT_H

#include "../ops.h"

typedef struct {
    uint64_t key;
    int64_t at; /* where the element stands in its line */
} sort_item;

/* Keys of n elements, `step` bytes apart. Complex numbers have none. */
void sort_keys(uint64_t *keys, const char *x, int64_t step, cfx_dtype d, int64_t n,
               bool descending);
/* Items of n elements, in their order. */
void sort_fill(sort_item *items, const char *x, int64_t step, cfx_dtype d, int64_t n,
               bool descending);
/* Sorts by key; equal ones keep their order. `spare` has room for n items too. Linear for long
 * lines. */
void sort_items(sort_item *items, sort_item *spare, int64_t n);

/* Partial orders (sort_partial.c). Equals come as PyTorch leaves them. */
/* The k first of what passes by, k > 0: a heap of the first k items with their last on top; an
 * item that comes before the top replaces it; at the end they are put in order. */
void sort_heap_make(sort_item *a, int64_t k);
void sort_heap_replace(sort_item *a, int64_t k, sort_item item);
void sort_heap_end(sort_item *a, int64_t k);
/* Item number `nth` of the order to its place, those before it to the front. */
void sort_nth(sort_item *a, int64_t nth, int64_t n);
/* The same by another road, which treats equals otherwise. */
void sort_quickselect(sort_item *a, int64_t k, int64_t n);
/* All n items in order. */
void sort_unstable(sort_item *a, int64_t n);

/* The lines of tensors along one dim: up to three tensors, alike in all other dims. */
typedef struct {
    int n, ndim;
    int64_t count;                          /* of lines */
    int64_t size[CFX_MAX_DIMS];             /* other dims, innermost first */
    int64_t stride[3][CFX_MAX_DIMS];        /* bytes */
    int64_t length, step[3];                /* of a line of the first tensor; bytes */
    char *data[3];
} sort_lines;

void lines_make(sort_lines *l, int dim, int n, const cfx_tensor *const *t);
/* The first elements of line i in each tensor. */
void lines_at(const sort_lines *l, int64_t i, char **first);

/* Records what a worker found: no memory. */
#define op_fail_memory(c) op_fail_as(MEMORY, c, "out of memory")

#endif
