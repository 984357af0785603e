/* mean: the means of the channels of images, over all pixels.
 *
 * LAST: channels lie beside each other: lanes have channels and warps share the pixels of a block;
 * else pixels do, and a warp has a channel. Blocks share the pixels, and the one that comes last
 * adds what they left in their order. */

#define WARPS 8
#define THREADS (WARPS * 32)

extern "C" __global__ void __launch_bounds__(THREADS)
mean(const T *x, T *out, float *partial, int *counter, i64 channels, i64 pixels, i64 each, i64 width,
     i64 xb, i64 xc, i64 xy, i64 xx, i64 ob, i64 oc) {
    wait_for_previous();
    __shared__ float left[WARPS][32];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const T *from = x + blockIdx.z * xb;
    const int begin = (int)(blockIdx.y * each), end = min((int)pixels, begin + (int)each);
    float sum = 0;
#if LAST
    const i64 c = (i64)blockIdx.x * 32 + lane;
    if (c < channels) /* pixels are evenly apart */
#pragma unroll 8
        for (int p = begin + warp; p < end; p += WARPS)
            sum += load(from + p * xx + c);
    left[warp][lane] = sum;
    __syncthreads();
    if (warp == 0)
#pragma unroll
        for (int i = 1; i < WARPS; i++)
            sum += left[i][lane];
    const bool has = warp == 0 && c < channels;
    (void)xc, (void)xy, (void)width;
#else
    const i64 c = (i64)blockIdx.x * WARPS + warp;
    if (c < channels)
#pragma unroll 8
        for (int p = begin + lane; p < end; p += 32) {
            const int y = p / (int)width;
            sum += load(from + c * xc + y * xy + (p - y * (int)width) * xx);
        }
    sum = warp_sum(sum);
    const bool has = lane == 0 && c < channels;
    (void)left;
#endif
    if (gridDim.y > 1) {
        const i64 tile = (i64)blockIdx.z * gridDim.x + blockIdx.x;
        float *mine = partial + (blockIdx.z * (i64)gridDim.y + blockIdx.y) * channels;
        if (has)
            mine[c] = sum;
        if (!comes_last(counter, tile, (int)gridDim.y))
            return;
        if (has) {
            sum = 0;
            for (unsigned i = 0; i < gridDim.y; i++)
                sum += peek(partial + (blockIdx.z * (i64)gridDim.y + i) * channels + c);
        }
    }
    if (has)
        store(out + blockIdx.z * ob + c * oc, sum / (float)pixels);
}
