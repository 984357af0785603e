/* Partial orders: the k first items, or item k alone.
 *
 * Which of equal elements comes first is visible in the indices that topk, kthvalue and median
 * return. So the algorithms are the ones that PyTorch's CPU kernels run (introselect, introsort and
 * heaps as the C++ library has them, and Hoare's quickselect), step by step: equals end up where
 * they do there. */
#include "sort.h"

static inline bool before(sort_item a, sort_item b) { return a.key < b.key; }

static inline void swap(sort_item *a, sort_item *b) {
    sort_item held = *a;
    *a = *b;
    *b = held;
}

/* ---- heaps ----------------------------------------------------------------------------------- */

static void push_heap(sort_item *a, int64_t hole, int64_t top, sort_item value) {
    int64_t parent = (hole - 1) / 2;
    while (hole > top && before(a[parent], value)) {
        a[hole] = a[parent];
        hole = parent;
        parent = (hole - 1) / 2;
    }
    a[hole] = value;
}

static void adjust_heap(sort_item *a, int64_t hole, int64_t n, sort_item value) {
    int64_t top = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (before(a[child], a[child - 1]))
            child--;
        a[hole] = a[child];
        hole = child;
    }
    if ((n & 1) == 0 && child == (n - 2) / 2) {
        child = 2 * (child + 1);
        a[hole] = a[child - 1];
        hole = child - 1;
    }
    push_heap(a, hole, top, value);
}

static void pop_heap(sort_item *a, int64_t n, sort_item *result) {
    sort_item value = *result;
    *result = *a;
    adjust_heap(a, 0, n, value);
}

void sort_heap_make(sort_item *a, int64_t k) {
    for (int64_t parent = (k - 2) / 2; k > 1 && parent >= 0; parent--)
        adjust_heap(a, parent, k, a[parent]);
}

void sort_heap_replace(sort_item *a, int64_t k, sort_item item) { adjust_heap(a, 0, k, item); }

void sort_heap_end(sort_item *a, int64_t k) {
    for (; k > 1; k--)
        pop_heap(a, k - 1, &a[k - 1]);
}

/* The k first of n items, as a heap at the front. */
static void heap_select(sort_item *a, int64_t k, int64_t n) {
    sort_heap_make(a, k);
    for (int64_t i = k; i < n; i++)
        if (before(a[i], a[0]))
            pop_heap(a, k, &a[i]);
}

/* ---- partitions ------------------------------------------------------------------------------ */

static void median_to_first(sort_item *result, sort_item *a, sort_item *b, sort_item *c) {
    if (before(*a, *b))
        swap(result, before(*b, *c) ? b : before(*a, *c) ? c : a);
    else
        swap(result, before(*a, *c) ? a : before(*b, *c) ? c : b);
}

/* Partitions a[0, n) around the median of three; returns where the second part begins. */
static int64_t partition(sort_item *a, int64_t n) {
    median_to_first(a, a + 1, a + n / 2, a + n - 1);
    int64_t first = 1, last = n;
    for (;;) {
        while (before(a[first], a[0]))
            first++;
        last--;
        while (before(a[0], a[last]))
            last--;
        if (first >= last)
            return first;
        swap(&a[first], &a[last]);
        first++;
    }
}

static void insertion(sort_item *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        sort_item v = a[i];
        int64_t k = i;
        for (; k > 0 && before(v, a[k - 1]); k--)
            a[k] = a[k - 1];
        a[k] = v;
    }
}

/* Twice the logarithm of n: partitions allowed before heaps take over. */
static int depth_of(int64_t n) { return n > 1 ? 2 * (63 - __builtin_clzll((uint64_t)n)) : 0; }

void sort_nth(sort_item *a, int64_t nth, int64_t n) {
    if (nth >= n)
        return;
    for (int depth = depth_of(n); n > 3; depth--) {
        if (depth == 0) {
            heap_select(a, nth + 1, n);
            swap(a, a + nth);
            return;
        }
        int64_t cut = partition(a, n);
        if (cut <= nth) {
            a += cut;
            n -= cut;
            nth -= cut;
        } else {
            n = cut;
        }
    }
    insertion(a, n);
}

static void introsort(sort_item *a, int64_t n, int depth) {
    for (; n > 16; depth--) {
        if (depth == 0) {
            sort_heap_make(a, n);
            sort_heap_end(a, n);
            return;
        }
        int64_t cut = partition(a, n);
        introsort(a + cut, n - cut, depth - 1);
        n = cut;
    }
}

void sort_unstable(sort_item *a, int64_t n) {
    introsort(a, n, depth_of(n));
    insertion(a, n);
}

void sort_quickselect(sort_item *a, int64_t k, int64_t n) {
    int64_t left = 0, right = n - 1;
    while (right > left) {
        if (right == left + 1) {
            if (before(a[right], a[left]))
                swap(&a[left], &a[right]);
            return;
        }
        swap(&a[left + (right - left) / 2], &a[left + 1]);
        if (before(a[right], a[left + 1]))
            swap(&a[left + 1], &a[right]);
        if (before(a[right], a[left]))
            swap(&a[left], &a[right]);
        if (before(a[left], a[left + 1]))
            swap(&a[left + 1], &a[left]);
        int64_t i = left + 1, j = right;
        sort_item pivot = a[left];
        for (;;) {
            do
                i++;
            while (before(a[i], pivot));
            do
                j--;
            while (before(pivot, a[j]));
            if (j < i)
                break;
            swap(&a[i], &a[j]);
        }
        swap(&a[left], &a[j]);
        if (j <= k)
            left = i;
        if (j >= k)
            right = j - 1;
    }
}
