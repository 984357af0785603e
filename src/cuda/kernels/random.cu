/* random: Philox 4x32-10, the numbers that PyTorch's kernels for CUDA draw.
 *
 * Of `threads` threads (256 for each block of a grid that fills the card), each has a sequence of
 * its own, of which a step gives four numbers; element e belongs to thread e % threads, and is
 * number e / threads of its sequence. state: the seed and the offset of the generator, a multiple
 * of 4. KIND: 0 uniform in [a, b), 1 normal with mean a and deviation b, 2 whether a uniform
 * number is below a. */

INLINE void philox(unsigned *c, unsigned k0, unsigned k1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0];
        const unsigned h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
        c[0] = h1 ^ c[1] ^ k0, c[1] = l1, c[2] = h0 ^ c[3] ^ k1, c[3] = l0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}

#define STEP 2.3283064365386963e-10f /* 1 / 2^32 */
#define TURN (STEP * 6.2831855f)

extern "C" __global__ void __launch_bounds__(256)
random_numbers(const u64 *state, T *out, i64 n, i64 threads, i64 further, double a, double b) {
    const u64 seed = state[0], first = (state[1] + (u64)further) / 4;
    const i64 thread = (i64)blockIdx.x * 256 + threadIdx.x;
    if (thread >= threads)
        return;
    for (i64 step = 0; thread + step * 4 * threads < n; step++) {
        const u64 at = first + (u64)step;
        unsigned c[4] = {(unsigned)at, (unsigned)(at >> 32), (unsigned)thread,
                         (unsigned)((u64)thread >> 32)};
        philox(c, (unsigned)seed, (unsigned)(seed >> 32));
        float r[4];
#if KIND == 1
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const float u = c[i] * STEP + STEP / 2, v = c[i + 1] * TURN + TURN / 2;
            const float size = sqrtf(-2.0f * logf(u));
            r[i] = sinf(v) * size, r[i + 1] = cosf(v) * size;
        }
#else
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = c[i] * STEP + STEP / 2;
#endif
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const i64 e = thread + (step * 4 + i) * threads;
            if (e >= n)
                break;
#if KIND == 0
            T v, end;
            store(&v, r[i] * (float)(b - a) + (float)a);
            store(&end, (float)b);
            store(out + e, load(&v) == load(&end) ? (float)a : load(&v));
#elif KIND == 1
            store(out + e, r[i] * (float)b + (float)a);
#else
            store(out + e, r[i] < (float)a ? 1 : 0);
#endif
        }
    }
}
