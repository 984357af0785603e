/* skinny: out = post(x w' + bias + add) for a few rows of x: the rows of w go by once, 16 bytes at a
 * time (integers: 8 elements, so that threads beside each other read x beside each other), and
 * everything else waits for them.
 *
 * PARTS: products in this launch; POST(v) sees the number of its own as `part`. AHEAD: nobody writes
 * to the weights, so that they are read before the kernel before this one has ended.
 * BEFORE(to, i): makes row or element i of x, for i from BEFORE_FIRST to BEFORE_COUNT in steps of
 * BEFORE_STEP, of p0..5; not defined: x is there. BEFORE_AHEAD brings what nobody writes near.
 * M: rows of x. NR: rows of w that a warp has at a time; KW: warps that share a row's elements;
 * UNROLL: pieces of a row that a lane asks for at once, all of them where registers allow it.
 * WEIGHT: 0 elements as T, 1 bf16 or 2 f16 where T is float, 8 and 4 integers of so many bits with
 * a scale for each `group` of them (0: one for all). VECTOR: rows are whole 16 bytes, aligned.
 * Integers of 4 bits lie two in a byte, the first in the low bits, each 8 more than it is. */

#define WARPS 8

/* What a lane reads at a time, and the elements in it. */
#if WEIGHT == 8
typedef uint2 words;
#elif WEIGHT == 4
typedef unsigned words;
#else
typedef uint4 words;
#endif
#if WEIGHT
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

/* A piece of a row of w as numbers, without their scale. */
INLINE void spread_weight(const words &from, float *to) {
#if WEIGHT == 8
    const unsigned word[2] = {from.x, from.y};
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = (float)(signed char)(word[i / 4] >> 8 * (i % 4));
#elif WEIGHT == 4
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = (float)((int)(from >> 4 * i & 15) - 8);
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
    /* in 32 bits: a division of 64 takes longer than all else here */
    const unsigned g = (unsigned)group;
    return scales[group ? n * (i64)((unsigned)k / g) + (unsigned)at / g : 0];
#else
    return 1;
#endif
}

/* The numbers of a row of x that meet a piece. */
INLINE void load_x(const T *x, float *to) {
#pragma unroll
    for (int i = 0; i < PIECE / CHUNK; i++)
        spread(((const uint4 *)x)[i], to + i * CHUNK, (const T *)0);
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        to[i] = round_float(to[i]);
}

/* What a warp has to do: rows n.. of the weight of a part. */
struct share {
    const void *w;
    const float *scales;
    const T *bias, *add;
    T *out;
    i64 rows, n, ldadd, ldout;
};

/* Rows behind the last are the last once more. */
INLINE i64 row_at(const share &s, int r) { return s.n + r < s.rows ? s.n + r : s.rows - 1; }

#if VECTOR
#define STEP (KW * 32)
/* The next pieces of the rows, UNROLL of them for each lane. */
INLINE void fetch(const share &s, i64 k, i64 c, words (*held)[NR]) {
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int r = 0; r < NR; r++)
            if (c + u * STEP < k / PIECE)
                load_once(weight_row(s.w, row_at(s, r), k) + (c + u * STEP) * (i64)sizeof(words),
                          &held[u][r]);
}

/* Adds what they give with all rows of x. */
INLINE void add_pieces(const share &s, const T *x, i64 k, i64 ldx, i64 group, i64 c,
                       const words (*held)[NR], float (*sum)[M]) {
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        if (c + u * STEP >= k / PIECE)
            break;
        const i64 at = (c + u * STEP) * PIECE;
        float a[NR][PIECE];
#pragma unroll
        for (int r = 0; r < NR; r++)
            spread_weight(held[u][r], a[r]);
#if WEIGHT == 8 || WEIGHT == 4
        float scale[NR];
#pragma unroll
        for (int r = 0; r < NR; r++)
            scale[r] = scale_of(s.scales, row_at(s, r), k, group, at);
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
/* The same where rows are not whole pieces. */
INLINE void add_elements(const share &s, const T *x, i64 k, i64 ldx, i64 group, i64 c,
                         float (*sum)[M]) {
    for (; c < k; c += KW * 32)
#pragma unroll
        for (int r = 0; r < NR; r++) {
            const i64 n = row_at(s, r);
            const float a =
                one_weight(weight_row(s.w, n, k), c) * scale_of(s.scales, n, k, group, c);
#pragma unroll
            for (int m = 0; m < M; m++)
                sum[r][m] = fmaf(a, round_float(load(x + m * ldx + c)), sum[r][m]);
        }
}
#endif

/* What comes to the sum that this lane stores, asked for while weights are on their way: lane i
 * has row i / M of the weight with row i % M of x. */
INLINE float addend_of(const share &s) {
    const int lane = threadIdx.x & 31;
    const i64 n = s.n + lane / M;
    float v = 0;
    if (lane < NR * M && n < s.rows && s.bias)
        v += load(s.bias + n);
    if (lane < NR * M && n < s.rows && s.add)
        v += load(s.add + lane % M * s.ldadd + n);
    return v;
}

#define ROWS (WARPS / KW * NR) /* of a block */

/* Every block makes x itself, in shared memory, by what stands before this text. */
#ifdef BEFORE
#define MAKE_X                                                                                     \
    DYNAMIC(T, near);                                                                              \
    _Pragma("unroll 4")                                                                            \
    for (int i = BEFORE_FIRST; i < BEFORE_COUNT; i += BEFORE_STEP)                                 \
        BEFORE(near, i);                                                                           \
    __syncthreads();                                                                               \
    x = near;
#else
#define MAKE_X
#define BEFORE_AHEAD
#endif

/* Up to 4 products of x at once, each with a weight of its own, in blocks one after the other: those
 * of part j begin at from_j. */
extern "C" __global__ void __launch_bounds__(WARPS * 32)
skinny(const T *x, i64 k, i64 ldx, i64 group, i64 from1, i64 from2, i64 from3, const void *w0,
       const float *scales0, const T *bias0, const T *add0, T *out0, i64 n0, i64 ldadd0,
       i64 ldout0, const void *w1, const float *scales1, const T *bias1, const T *add1, T *out1,
       i64 n1, i64 ldadd1, i64 ldout1, const void *w2, const float *scales2, const T *bias2,
       const T *add2, T *out2, i64 n2, i64 ldadd2, i64 ldout2, const void *w3,
       const float *scales3, const T *bias3, const T *add3, T *out3, i64 n3, i64 ldadd3,
       i64 ldout3, void *p0, void *p1, void *p2, void *p3, void *p4, void *p5) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, turn = warp % KW;
    const i64 block = blockIdx.x;
    int part = 0;
    share s = {w0, scales0, bias0, add0, out0, n0, block, ldadd0, ldout0};
#if PARTS > 1
    if (block >= from1)
        part = 1, s = share{w1, scales1, bias1, add1, out1, n1, block - from1, ldadd1, ldout1};
#endif
#if PARTS > 2
    if (block >= from2)
        part = 2, s = share{w2, scales2, bias2, add2, out2, n2, block - from2, ldadd2, ldout2};
#endif
#if PARTS > 3
    if (block >= from3)
        part = 3, s = share{w3, scales3, bias3, add3, out3, n3, block - from3, ldadd3, ldout3};
#endif
    s.n = s.n * ROWS + warp / KW * NR;
    float sum[NR][M] = {};
#if VECTOR
    words held[UNROLL][NR];
    i64 c = turn * 32 + lane;
    BEFORE_AHEAD
#if AHEAD /* the weight is nobody's to write */
    fetch(s, k, c, held);
    wait_for_previous();
#else
    wait_for_previous();
    fetch(s, k, c, held);
#endif
    MAKE_X
    const float addend = addend_of(s);
    for (;;) {
        add_pieces(s, x, k, ldx, group, c, held, sum);
        c += STEP * UNROLL;
        if (c >= k / PIECE)
            break;
        fetch(s, k, c, held);
    }
#else
    wait_for_previous();
    MAKE_X
    const float addend = addend_of(s);
    add_elements(s, x, k, ldx, group, turn * 32 + lane, sum);
#endif
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
    if (turn)
        return;
#pragma unroll
    for (int i = 0; i < NR * M; i++)
#pragma unroll
        for (int j = 1; j < KW; j++)
            sum[i / M][i % M] += left[warp + j][i];
#endif
#pragma unroll
    for (int i = 0; i < NR * M; i++) {
        const i64 n = s.n + i / M, m = i % M;
        if (lane != i || n >= s.rows)
            continue;
        float v = sum[i / M][i % M] + addend;
        POST(v)
        store(s.out + m * s.ldout + n, v);
    }
}
