/* extreme: where the largest or the least element of a line stands: the first of those that are
 * equal, and a NaN before all others.
 *
 * LESS: the least. A line is the work of a block. */

INLINE bool better(float a, i64 ai, float b, i64 bi) {
    if (a != a || b != b)
        return a != a && (b == b || ai < bi);
    return (LESS ? a < b : a > b) || (a == b && ai < bi);
}

extern "C" __global__ void __launch_bounds__(256)
extreme(const T *x, T *values, i64 *indices, i64 n, i64 inner, i64 xo, i64 xi, i64 xstep) {
    wait_for_previous();
    __shared__ float kept[8];
    __shared__ i64 places[8];
    const i64 line = blockIdx.x;
    const T *from = x + line / inner * xo + line % inner * xi;
    float best = LESS ? INFINITY_ : -INFINITY_;
    i64 where = n;
    for (i64 i = threadIdx.x; i < n; i += 256) {
        const float v = load(from + i * xstep);
        if (better(v, i, best, where))
            best = v, where = i;
    }
#pragma unroll
    for (int by = 16; by; by /= 2) {
        const float v = __shfl_xor_sync(FULL, best, by);
        const i64 at = __shfl_xor_sync(FULL, where, by);
        if (better(v, at, best, where))
            best = v, where = at;
    }
    if (threadIdx.x % 32 == 0)
        kept[threadIdx.x / 32] = best, places[threadIdx.x / 32] = where;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < 8; i++)
        if (better(kept[i], places[i], best, where))
            best = kept[i], where = places[i];
    if (indices)
        indices[line] = where;
    if (values)
        store(values + line, best);
}
