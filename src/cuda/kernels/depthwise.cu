/* depthwise: a convolution in which each channel has a window of its own.
 *
 * LANE: channels of a thread, which lie beside each other and are read 16 bytes at a time; 1: one,
 * wherever it lies. LAST: threads beside each other have channels, not pixels, beside each other.
 * HIGH, WIDE: the window; TOGETHER: rows of it that are read before any is used. POST(v): what
 * follows, a statement. */

#define THREADS 256
#define SIDE (LAST ? 8 : 1) /* threads side by side in channels */

#if LANE > 1
typedef uint4 piece;
INLINE void add_taps(float *sum, const piece &v, const float *tap) {
    float x[LANE];
    spread(v, x, (const T *)0);
#pragma unroll
    for (int i = 0; i < LANE; i++)
        sum[i] = fmaf(x[i], tap[i], sum[i]);
}
#else
typedef T piece;
INLINE void add_taps(float *sum, const piece &v, const float *tap) {
    sum[0] = fmaf(load(&v), tap[0], sum[0]);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
depthwise(const T *x, const T *w, const T *bias, T *out, i64 channels, i64 each, i64 height,
          i64 width, i64 out_high, i64 out_wide, i64 down, i64 right, i64 up, i64 left, i64 dy,
          i64 dx, i64 xb, i64 xc, i64 xy, i64 xx, i64 ob, i64 oc, i64 oy, i64 ox, i64 wc, i64 wy,
          i64 wx) {
    wait_for_previous();
    __shared__ float taps[HIGH * WIDE][SIDE * LANE];
    const int side = threadIdx.x % SIDE, pixel = threadIdx.x / SIDE;
    const i64 base = (i64)blockIdx.y * (SIDE * LANE), c = base + side * LANE;
    for (int i = threadIdx.x; i < HIGH * WIDE * SIDE * LANE; i += THREADS) {
        const int tap = i / (SIDE * LANE), one = i % (SIDE * LANE);
        if (base + one < channels)
            taps[tap][one] = load(w + (base + one) * wc + tap / WIDE * wy + tap % WIDE * wx);
    }
    const unsigned at = blockIdx.x * (THREADS / SIDE) + pixel;
    const bool has = c < channels && at < (unsigned)(out_high * out_wide);
    const int py = (int)(at / (unsigned)out_wide), px = (int)(at - py * (unsigned)out_wide);
    const T *from = x + blockIdx.z * xb + c / (int)each * xc;
    const int y0 = py * (int)down - (int)up, x0 = px * (int)right - (int)left;
    float sum[LANE] = {};
    __syncthreads();
#pragma unroll 1
    for (int first = 0; first < HIGH; first += TOGETHER) {
        piece held[TOGETHER][WIDE];
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
#pragma unroll
            for (int s = 0; s < WIDE; s++) {
                const int y = y0 + (first + r) * (int)dy, xat = x0 + s * (int)dx;
                const bool there = has && first + r < HIGH && (unsigned)y < (unsigned)height &&
                                   (unsigned)xat < (unsigned)width;
                const piece none = {};
                held[r][s] = there ? *(const piece *)(from + y * xy + xat * xx) : none;
            }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
#pragma unroll
            for (int s = 0; s < WIDE; s++)
                if (first + r < HIGH)
                    add_taps(sum, held[r][s], &taps[(first + r) * WIDE + s][side * LANE]);
    }
    if (!has)
        return;
    T *to = out + blockIdx.z * ob + c * oc + py * oy + px * ox;
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        float v = sum[i];
        if (bias)
            v += load(bias + c + i);
        POST(v)
        store(to + i, v);
    }
}
