/* skinny: out = post(x w' + bias + add) for a few rows of x: the rows of w go by once, 16 bytes at a
 * time, and everything else waits for them.
 *
 * M: rows of x. NR: rows of w that a warp has at a time; KW: warps that share a row's elements.
 * WEIGHT: 0 elements as T, 1 bf16 or 2 f16 where T is float, 8 and 4 integers of so many bits with
 * a scale for each `group` of them (0: one for all). VECTOR: rows are whole 16 bytes, aligned.
 * Integers of 4 bits lie two in a byte, the first in the low bits, each 8 more than it is. */

#define WARPS 8
#define UNROLL (NR > 2 ? 2 : 4)

#if WEIGHT == 8
#define PIECE 16 /* elements in 16 bytes */
#elif WEIGHT == 4
#define PIECE 32
#elif WEIGHT
#define PIECE 8
#else
#define PIECE CHUNK
#endif

INLINE const unsigned char *weight_row(const void *w, i64 n, i64 k) {
#if WEIGHT == 8
    return (const unsigned char *)w + n * k;
#elif WEIGHT == 4
    return (const unsigned char *)w + n * (k / 2);
#elif WEIGHT
    return (const unsigned char *)w + n * k * 2;
#else
    return (const unsigned char *)w + n * k * (i64)sizeof(T);
#endif
}

/* 16 bytes of a row of w as numbers, without their scale. */
INLINE void spread_weight(const uint4 &from, float *to) {
#if WEIGHT == 8 || WEIGHT == 4
    const unsigned word[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
#if WEIGHT == 8
        to[i] = (float)(signed char)(word[i / 4] >> 8 * (i % 4));
#else
        to[i] = (float)(int)(word[i / 8] >> 4 * (i % 8) & 15) - 8;
#endif
    }
#elif WEIGHT == 1
    const unsigned word[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = bf16_float((unsigned short)(word[i / 2] >> 16 * (i % 2)));
#elif WEIGHT == 2
    const unsigned word[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = half_float((unsigned short)(word[i / 2] >> 16 * (i % 2)));
#else
    spread(from, to, (const T *)0);
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        to[i] = round_float(to[i]);
#endif
}

INLINE float one_weight(const unsigned char *row, i64 k) {
#if WEIGHT == 8
    return (float)(signed char)row[k];
#elif WEIGHT == 4
    return (float)(row[k / 2] >> 4 * (k % 2) & 15) - 8;
#elif WEIGHT == 1
    return bf16_float(((const unsigned short *)row)[k]);
#elif WEIGHT == 2
    return half_float(((const unsigned short *)row)[k]);
#else
    return round_float(load((const T *)row + k));
#endif
}

INLINE float scale_of(const float *scales, i64 n, i64 k, i64 group, i64 at) {
#if WEIGHT == 8 || WEIGHT == 4
    return scales[group ? n * (k / group) + at / group : 0];
#else
    return 1;
#endif
}

/* The numbers of a row of x that meet a piece. */
INLINE void load_x(const T *x, float *to) {
#pragma unroll
    for (int i = 0; i < PIECE / CHUNK; i++)
        spread(__ldg((const uint4 *)x + i), to + i * CHUNK, (const T *)0);
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        to[i] = round_float(to[i]);
}

/* Sums of rows n.. of w with all rows of x, of the elements that this lane of this warp has. */
INLINE void add_products(const T *x, const void *w, const float *scales, i64 n, i64 nmost, i64 k,
                         i64 ldx, i64 group, int part, float (*sum)[M]) {
    const int lane = threadIdx.x & 31;
    const unsigned char *row[NR];
#pragma unroll
    for (int r = 0; r < NR; r++) /* rows behind the last are the last once more */
        row[r] = weight_row(w, n + r < nmost ? n + r : nmost - 1, k);
#if VECTOR
    const i64 pieces = k / PIECE, step = KW * 32;
    for (i64 c = part * 32 + lane; c < pieces; c += step * UNROLL) {
        uint4 held[UNROLL][NR];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < NR; r++)
                if (c + u * step < pieces)
                    held[u][r] = load_once(row[r] + (c + u * step) * 16);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (c + u * step >= pieces)
                break;
            const i64 at = (c + u * step) * PIECE;
            float a[NR][PIECE];
#pragma unroll
            for (int r = 0; r < NR; r++)
                spread_weight(held[u][r], a[r]);
#if WEIGHT == 8 || WEIGHT == 4
            float scale[NR];
#pragma unroll
            for (int r = 0; r < NR; r++)
                scale[r] = scale_of(scales, n + r < nmost ? n + r : nmost - 1, k, group, at);
#endif
#pragma unroll
            for (int m = 0; m < M; m++) {
                float b[PIECE];
                load_x(x + m * ldx + at, b);
#pragma unroll
                for (int r = 0; r < NR; r++) {
#if WEIGHT == 8 || WEIGHT == 4
                    float piece = 0;
#pragma unroll
                    for (int i = 0; i < PIECE; i++)
                        piece = fmaf(a[r][i], b[i], piece);
                    sum[r][m] = fmaf(piece, scale[r], sum[r][m]);
#else
#pragma unroll
                    for (int i = 0; i < PIECE; i++)
                        sum[r][m] = fmaf(a[r][i], b[i], sum[r][m]);
#endif
                }
            }
        }
    }
#else
    for (i64 c = part * 32 + lane; c < k; c += KW * 32)
#pragma unroll
        for (int r = 0; r < NR; r++) {
            const float a = one_weight(row[r], c) *
                            scale_of(scales, n + r < nmost ? n + r : nmost - 1, k, group, c);
#pragma unroll
            for (int m = 0; m < M; m++)
                sum[r][m] = fmaf(a, round_float(load(x + m * ldx + c)), sum[r][m]);
        }
#endif
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
skinny(const T *x, const void *w, const float *scales, const T *bias, const T *add, T *out, i64 n,
    i64 k, i64 ldx, i64 ldadd, i64 ldout, i64 group) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, part = warp % KW;
    const i64 first = ((i64)blockIdx.x * (WARPS / KW) + warp / KW) * NR;
    float sum[NR][M] = {};
    if (first < n)
        add_products(x, w, scales, first, n, k, ldx, group, part, sum);
#pragma unroll
    for (int r = 0; r < NR; r++)
#pragma unroll
        for (int m = 0; m < M; m++)
            sum[r][m] = warp_sum(sum[r][m]);
#if KW > 1
    __shared__ float left[WARPS][NR * M];
#pragma unroll
    for (int i = 0; i < NR * M; i++)
        if (lane == 0)
            left[warp][i] = sum[i / M][i % M];
    __syncthreads();
    if (part)
        return;
#pragma unroll
    for (int i = 0; i < NR * M; i++)
#pragma unroll
        for (int j = 1; j < KW; j++)
            sum[i / M][i % M] += left[warp + j][i];
#endif
#pragma unroll
    for (int i = 0; i < NR * M; i++) {
        const i64 nn = first + i / M, m = i % M;
        if (lane != i % 32 || nn >= n)
            continue;
        float v = sum[i / M][i % M];
        if (bias)
            v += load(bias + nn);
        if (add)
            v += load(add + m * ldadd + nn);
        POST(v)
        store(out + m * ldout + nn, v);
    }
}
