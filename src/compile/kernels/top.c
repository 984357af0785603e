/* top: the k first items of a row. Which of equal ones are among them, and in which order, is
 * visible in their indices: so the steps are those of PyTorch's CPU kernels (introselect, introsort
 * and heaps as the C++ library has them). */

typedef struct {
    uint64_t key; /* of sort.c; inverted where the largest come first */
    int64_t at;
} NAME_item;

NAME_INLINE void NAME_item_swap(NAME_item *a, NAME_item *b) {
    const NAME_item held = *a;
    *a = *b;
    *b = held;
}

static void NAME_heap_put(NAME_item *a, ptrdiff_t hole, ptrdiff_t n, NAME_item value) {
    const ptrdiff_t top = hole;
    ptrdiff_t child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (a[child].key < a[child - 1].key)
            child--;
        a[hole] = a[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) {
        child = 2 * child + 1;
        a[hole] = a[child];
        hole = child;
    }
    for (; hole > top && a[(hole - 1) / 2].key < value.key; hole = (hole - 1) / 2)
        a[hole] = a[(hole - 1) / 2];
    a[hole] = value;
}

/* Makes the first k of n items a heap of the k first, the last of those on top. */
static void NAME_heap_first(NAME_item *a, ptrdiff_t k, ptrdiff_t n) {
    for (ptrdiff_t parent = k / 2 - 1; parent >= 0; parent--)
        NAME_heap_put(a, parent, k, a[parent]);
    for (ptrdiff_t i = k; i < n; i++)
        if (a[i].key < a[0].key) {
            const NAME_item value = a[i];
            a[i] = a[0];
            NAME_heap_put(a, 0, k, value);
        }
}

/* Puts a heap in order. */
static void NAME_heap_order(NAME_item *a, ptrdiff_t k) {
    for (ptrdiff_t last = k - 1; last > 0; last--) {
        const NAME_item value = a[last];
        a[last] = a[0];
        NAME_heap_put(a, 0, last, value);
    }
}

/* Partitions around the median of three; returns where the second part begins. */
static ptrdiff_t NAME_item_parts(NAME_item *a, ptrdiff_t n) {
    NAME_item *x = a + 1, *y = a + n / 2, *z = a + n - 1;
    if (x->key < y->key)
        NAME_item_swap(a, y->key < z->key ? y : x->key < z->key ? z : x);
    else
        NAME_item_swap(a, x->key < z->key ? x : y->key < z->key ? z : y);
    for (ptrdiff_t first = 1, last = n;; first++) {
        while (a[first].key < a[0].key)
            first++;
        do
            last--;
        while (a[0].key < a[last].key);
        if (first >= last)
            return first;
        NAME_item_swap(&a[first], &a[last]);
    }
}

static void NAME_item_insert(NAME_item *a, ptrdiff_t n) {
    for (ptrdiff_t i = 1; i < n; i++) {
        const NAME_item value = a[i];
        ptrdiff_t k = i;
        for (; k > 0 && value.key < a[k - 1].key; k--)
            a[k] = a[k - 1];
        a[k] = value;
    }
}

/* Partitions that are made before heaps take over. */
NAME_INLINE int NAME_item_depth(ptrdiff_t n) {
    int depth = 0;
    for (; n > 1; n /= 2)
        depth += 2;
    return depth;
}

/* Item number nth of the order to its place, those before it to the front. */
static void NAME_item_select(NAME_item *a, ptrdiff_t nth, ptrdiff_t n) {
    for (int depth = NAME_item_depth(n); n > 3; depth--) {
        if (depth == 0) {
            NAME_heap_first(a, nth + 1, n);
            NAME_item_swap(a, a + nth);
            return;
        }
        const ptrdiff_t cut = NAME_item_parts(a, n);
        if (cut <= nth) {
            a += cut;
            n -= cut;
            nth -= cut;
        } else {
            n = cut;
        }
    }
    NAME_item_insert(a, n);
}

/* Puts items in order, runs of 16 aside. */
static void NAME_item_sort(NAME_item *a, ptrdiff_t n, int depth) {
    for (; n > 16; depth--) {
        if (depth == 0) {
            NAME_heap_first(a, n, n);
            NAME_heap_order(a, n);
            return;
        }
        const ptrdiff_t cut = NAME_item_parts(a, n);
        NAME_item_sort(a + cut, n - cut, depth - 1);
        n = cut;
    }
}

/* The k first of n items to the front, k > 0; in order, where that is wanted. */
static void NAME_top(NAME_item *a, ptrdiff_t k, ptrdiff_t n, int sorted) {
    if (k <= n / 64) {
        NAME_heap_first(a, k, n);
        NAME_heap_order(a, k);
        return;
    }
    NAME_item_select(a, k - 1, n);
    if (sorted) {
        NAME_item_sort(a, k - 1, NAME_item_depth(k - 1));
        NAME_item_insert(a, k - 1);
    }
}
