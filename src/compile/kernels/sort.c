/* sort: stable order of a row by keys, in any dtype: numbers become unsigned keys of the same
 * order, in which NaN is the largest. */

NAME_INLINE uint64_t NAME_key_f32(float x) {
    const uint32_t bits = NAME_bits_of(x == 0 ? 0.f : x); /* -0 is 0 */
    const uint32_t flipped = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return x != x ? UINT32_MAX : flipped;
}

NAME_INLINE uint64_t NAME_key_f64(double x) {
    const double at = x == 0 ? 0. : x;
    uint64_t bits;
    memcpy(&bits, &at, sizeof bits);
    const uint64_t top = (uint64_t)1 << 63;
    return x != x ? UINT64_MAX : bits & top ? ~bits : bits | top;
}

NAME_INLINE uint64_t NAME_key_i64(int64_t x) {
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

/* Puts indices 0 .. n - 1 into the order of their keys, equal ones as they came; descending: the
 * largest first. The scratch is n indices. */
static void NAME_order(const uint64_t *key, ptrdiff_t n, int descending, int64_t *index,
                       int64_t *scratch) {
    enum { RUN = 8 }; /* sorted by insertion */
    const uint64_t flip = descending ? UINT64_MAX : 0;
    for (ptrdiff_t begin = 0; begin < n; begin += RUN)
        for (ptrdiff_t i = begin; i < n && i < begin + RUN; i++) {
            ptrdiff_t at = i;
            for (; at > begin && (key[index[at - 1]] ^ flip) > (key[i] ^ flip); at--)
                index[at] = index[at - 1];
            index[at] = i;
        }
    for (ptrdiff_t width = RUN; width < n; width *= 2) {
        for (ptrdiff_t left = 0; left < n; left += 2 * width) {
            const ptrdiff_t middle = n - left < width ? n : left + width;
            const ptrdiff_t right = n - left < 2 * width ? n : left + 2 * width;
            ptrdiff_t a = left, b = middle;
            for (ptrdiff_t i = left; i < right; i++)
                scratch[i] = b >= right || (a < middle && (key[index[a]] ^ flip) <=
                                                              (key[index[b]] ^ flip))
                                 ? index[a++]
                                 : index[b++];
        }
        memcpy(index, scratch, (size_t)n * sizeof *index);
    }
}
