/* sort: lines of elements in order, and where each was; equal ones stay in their order, and NaN is
 * the largest.
 *
 * Each element becomes a key whose bits are in the order of the elements, and a place: no two
 * pairs are equal. A block sorts TILE of them in shared memory; then runs are merged, two at a
 * time: an element's place in both is its place in its own and how many of the other are before
 * it. At last the first `keep` of a line are written, from the line itself.
 *
 * KEY: what an element is: 4 float or of 16 bits, 8 double, 1 an integer. DOWN: the largest first.
 */

#define TILE 2048

INLINE u64 ordered(u64 bits, int wide) {
    const u64 sign = 1ull << (wide - 1), all = sign | (sign - 1);
    return bits & sign ? ~bits & all : bits | sign;
}

INLINE u64 key_of(const T *p) {
#if KEY == 1
    const u64 key = (u64)(i64)*p ^ 1ull << 63;
#elif KEY == 8
    const double v = *p == 0 ? 0 : *p;
    const u64 key = v != v ? ~0ull : ordered((u64)__double_as_longlong(v), 64);
#else
    const float v = load(p) == 0 ? 0 : load(p);
    const u64 key = v != v ? 0xffffffffull : ordered(__float_as_uint(v), 32);
#endif
    return DOWN ? ~key : key;
}

INLINE bool before(u64 a, unsigned ai, u64 b, unsigned bi) { return a < b || (a == b && ai < bi); }

INLINE i64 line_start(i64 line, i64 inner, i64 outer_step, i64 inner_step) {
    return line / inner * outer_step + line % inner * inner_step;
}

/* Sorts runs of TILE elements of each line. */
extern "C" __global__ void __launch_bounds__(1024)
sort_tiles(const T *x, u64 *keys, unsigned *places, i64 n, i64 inner, i64 xo, i64 xi, i64 xstep) {
    wait_for_previous();
    __shared__ u64 key[TILE];
    __shared__ unsigned place[TILE];
    const i64 line = blockIdx.y, base = (i64)blockIdx.x * TILE;
    const T *from = x + line_start(line, inner, xo, xi);
    for (int i = threadIdx.x; i < TILE; i += 1024) {
        const bool there = base + i < n;
        key[i] = there ? key_of(from + (base + i) * xstep) : ~0ull;
        place[i] = there ? (unsigned)(base + i) : 0xffffffffu - (TILE - 1 - i);
    }
    __syncthreads();
    for (int size = 2; size <= TILE; size *= 2)
        for (int by = size / 2; by; by /= 2) {
            const int t = threadIdx.x, i = 2 * t - (t & (by - 1)), j = i + by;
            const bool up = (i & size) == 0;
            if (before(key[j], place[j], key[i], place[i]) == up) {
                const u64 k = key[i];
                const unsigned p = place[i];
                key[i] = key[j], place[i] = place[j];
                key[j] = k, place[j] = p;
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < TILE; i += 1024)
        if (base + i < n)
            keys[line * n + base + i] = key[i], places[line * n + base + i] = place[i];
}

/* Merges runs of `run` elements into runs of twice as many. */
extern "C" __global__ void __launch_bounds__(256)
sort_merge(const u64 *keys, const unsigned *places, u64 *to_keys, unsigned *to_places, i64 n,
           i64 run) {
    wait_for_previous();
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    keys += blockIdx.y * n, places += blockIdx.y * n;
    to_keys += blockIdx.y * n, to_places += blockIdx.y * n;
    const i64 pair = i / (2 * run) * (2 * run), mine = i / run * run;
    const i64 other = mine == pair ? pair + run : pair;
    i64 low = min(other, n), high = min(other + run, n);
    const i64 first = low;
    const u64 key = keys[i];
    const unsigned place = places[i];
    while (low < high) { /* how many of the other run are before this */
        const i64 middle = (low + high) / 2;
        if (before(keys[middle], places[middle], key, place))
            low = middle + 1;
        else
            high = middle;
    }
    const i64 to = pair + (i - mine) + (low - first);
    to_keys[to] = key, to_places[to] = place;
}

extern "C" __global__ void __launch_bounds__(256)
sort_finish(const T *x, const unsigned *places, T *values, i64 *indices, i64 n, i64 keep, i64 inner,
            i64 xo, i64 xi, i64 xstep, i64 oo, i64 oi, i64 ostep) {
    wait_for_previous();
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x, line = blockIdx.y;
    if (i >= keep)
        return;
    const unsigned place = places[line * n + i];
    const i64 to = line_start(line, inner, oo, oi) + i * ostep;
    if (values)
        values[to] = x[line_start(line, inner, xo, xi) + (i64)place * xstep];
    if (indices)
        indices[to] = (i64)place;
}
