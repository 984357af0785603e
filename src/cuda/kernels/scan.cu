/* scan: sums or products of all elements up to each one, along a dimension.
 *
 * A: what is counted in; FOLD(a, b): what is done with two; NONE: what changes nothing. A line of
 * elements `step` apart is the work of a block where BLOCK is set, which takes 1024 elements at a
 * time and carries on; else of a thread, and threads beside each other have lines beside each
 * other. */

#define EACH 4

INLINE i64 line_start(i64 line, i64 inner, i64 outer_step, i64 inner_step) {
    return line / inner * outer_step + line % inner * inner_step;
}

extern "C" __global__ void __launch_bounds__(256)
scan(const T *x, T *out, i64 lines, i64 n, i64 inner, i64 xo, i64 xi, i64 xstep, i64 oo, i64 oi,
     i64 ostep) {
    wait_for_previous();
#if BLOCK
    __shared__ A left[8];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const T *from = x + line_start(blockIdx.x, inner, xo, xi);
    T *to = out + line_start(blockIdx.x, inner, oo, oi);
    A carried = NONE;
    for (i64 base = 0; base < n; base += 256 * EACH) {
        A mine[EACH], all = NONE;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = base + threadIdx.x * EACH + i;
            const A v = at < n ? (A)load(from + at * xstep) : NONE;
            all = FOLD(all, v);
            mine[i] = all;
        }
        A before = all; /* of all lanes up to this one */
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const A other = __shfl_up_sync(FULL, before, by);
            if (lane >= by)
                before = FOLD(other, before);
        }
        if (lane == 31)
            left[warp] = before;
        before = __shfl_up_sync(FULL, before, 1);
        if (lane == 0)
            before = NONE;
        __syncthreads();
        A start = carried;
        for (int i = 0; i < 8; i++) {
            if (i < warp)
                start = FOLD(start, left[i]);
            carried = FOLD(carried, left[i]);
        }
        start = FOLD(start, before);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = base + threadIdx.x * EACH + i;
            if (at < n)
                store(to + at * ostep, FOLD(start, mine[i]));
        }
        __syncthreads();
    }
    (void)lines;
#else
    const i64 line = (i64)blockIdx.x * 256 + threadIdx.x;
    if (line >= lines)
        return;
    const T *from = x + line_start(line, inner, xo, xi);
    T *to = out + line_start(line, inner, oo, oi);
    A all = NONE;
    for (i64 i = 0; i < n; i++) {
        all = FOLD(all, (A)load(from + i * xstep));
        store(to + i * ostep, all);
    }
#endif
}
