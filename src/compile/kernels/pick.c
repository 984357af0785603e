/* pick: where in a row an element of its order is: the k-th, the one in the middle, the one that is
 * there most often. Which of equal ones it is, is visible: so it is found as PyTorch's CPU kernels
 * find it. Items are given in the order of their places. */

/* Item number k of the order, by Hoare's quickselect. */
static int64_t NAME_pick_kth(NAME_item *a, ptrdiff_t k, ptrdiff_t n) {
    ptrdiff_t left = 0, right = n - 1;
    while (right > left + 1) {
        NAME_item_swap(&a[left + (right - left) / 2], &a[left + 1]);
        if (a[right].key < a[left + 1].key)
            NAME_item_swap(&a[left + 1], &a[right]);
        if (a[right].key < a[left].key)
            NAME_item_swap(&a[left], &a[right]);
        if (a[left].key < a[left + 1].key)
            NAME_item_swap(&a[left + 1], &a[left]);
        ptrdiff_t i = left + 1, j = right;
        const uint64_t pivot = a[left].key;
        for (;;) {
            do
                i++;
            while (a[i].key < pivot);
            do
                j--;
            while (pivot < a[j].key);
            if (j < i)
                break;
            NAME_item_swap(&a[i], &a[j]);
        }
        NAME_item_swap(&a[left], &a[j]);
        if (j <= k)
            left = i;
        if (j >= k)
            right = j - 1;
    }
    if (right == left + 1 && a[right].key < a[left].key)
        NAME_item_swap(&a[left], &a[right]);
    return a[k].at;
}

/* The one in the middle: of all, the first NaN where there is one, or of the numbers alone. Behind
 * the n items is room for as many. */
static int64_t NAME_pick_median(NAME_item *a, ptrdiff_t n, ptrdiff_t numbers, int ignore_nan) {
    ptrdiff_t nth = (numbers - 1) / 2, at = 0;
    if (numbers < n && !ignore_nan) {
        for (ptrdiff_t i = 1; i < n; i++) /* whose keys are the largest */
            at = a[at].key < a[i].key ? i : at;
        return a[at].at;
    }
    memcpy(a + n, a, (size_t)n * sizeof *a);
    NAME_item_select(a + n, nth, n);
    const NAME_item found = a[n + nth];
    if (numbers == 0)
        return found.at;
    for (ptrdiff_t i = 0; i < n; i++)
        nth -= a[i].key < found.key;
    while (a[at].key != found.key || nth-- > 0) /* equal ones count in the order of places */
        at++;
    return a[at].at;
}

/* The one that is there most often, the smallest of those. */
static int64_t NAME_pick_mode(NAME_item *a, ptrdiff_t n) {
    ptrdiff_t begin = 0, most = 0;
    int64_t place = 0;
    NAME_item_sort(a, n, NAME_item_depth(n));
    NAME_item_insert(a, n);
    for (ptrdiff_t i = 0; i < n; i++)
        if (i == n - 1 || a[i].key != a[i + 1].key) {
            if (i + 1 - begin > most) {
                most = i + 1 - begin;
                place = a[i].at;
            }
            begin = i + 1;
        }
    return place;
}
