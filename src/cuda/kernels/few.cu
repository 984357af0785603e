/* few: attention of a few rows of q, as a token that looks at all before it: softmax(q k' scale +
 * mask) v, bound by reading keys and values once.
 *
 * LANES threads beside each other have 16 bytes of a key each, PER times, and go through the keys
 * in steps, AT_ONCE at a time, for all R rows; what groups of threads saw is put together in their
 * order, and so is what blocks saw, where `splits` of them share the keys (SPLIT_KEYS): CLUSTER of
 * them that see each other's shared memory, or, where that is 1, by way of `partial`. L: rows of one
 * head, of which as many as share keys make R. WARPS: of a block. HEAD:
 * elements of a row. KV: elements of keys and values, T or float, whose rows are whole 16 bytes,
 * aligned. MASK and what is given: as in attention.cu. */

#define GROUPS (WARPS * 32 / LANES)
#define AT_ONCE 4
#define PIECE ((int)(16 / sizeof(KV)))
#define OWN (PER * PIECE) /* elements of a row that a thread has */
#define WIDE (HEAD + 2)   /* sums, the most, the sum of weights */
#define LOG2E 1.4426950408889634f

#if CLUSTER > 1 && HAS_CLUSTERS
#define TOGETHER 1
#else
#define TOGETHER 0
#endif
#if TOGETHER && !defined CFX_PLAY
#define CLUSTERED __cluster_dims__(1, 1, CLUSTER)
#else
#define CLUSTERED
#endif

/* What is added to a score, by a power of 2. */
INLINE float mask_at(const void *mask, i64 at) {
#if MASK == 1
    return ((const unsigned char *)mask)[at] ? 0 : -INFINITY_;
#elif MASK == 2
    return load((const T *)mask + at) * LOG2E;
#elif MASK == 3
    return ((const float *)mask)[at] * LOG2E;
#else
    return 0;
#endif
}

/* What this thread has of a row, and that as floats. */
INLINE void take_row(const KV *row, bool there, uint4 *to) {
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int at = (i * LANES + lane) * PIECE;
        to[i].x = to[i].y = to[i].z = to[i].w = 0;
        if (there && at < HEAD)
            to[i] = *(const uint4 *)(row + at);
    }
}
INLINE void spread_row(const uint4 *from, float *to) {
#pragma unroll
    for (int i = 0; i < PER; i++)
        spread(from[i], to + i * PIECE, (const KV *)0);
#pragma unroll
    for (int i = 0; i < OWN; i++)
        to[i] = round_float(to[i]);
}

/* The weight of what had `best` beside all that has `top`. */
INLINE float weight_of(float best, float top) {
    return best == -INFINITY_ ? 0 : power_of_2(best - top);
}

/* An element of the result; a row that sees nothing gives zeros. */
INLINE void put(T *out, int r, int d, float value, float weight, i64 oh, i64 orow) {
    store(out + r / L * oh + r % L * orow + d, weight == 0 ? 0 : value / weight);
}

#if TOGETHER
/* What the blocks of a cluster left in shared memory, in their order; each stores a part of it. */
INLINE void put_together(const float *own, T *out, i64 oh, i64 orow) {
    cluster_barrier();
#pragma unroll 1
    for (int i = blockIdx.z * (WARPS * 32) + threadIdx.x; i < R * HEAD;
         i += CLUSTER * WARPS * 32) {
        const int r = i / HEAD, d = i - r * HEAD;
        const float *one = own + r * WIDE;
        float had[CLUSTER], weights[CLUSTER], values[CLUSTER]; /* all on their way at once */
#pragma unroll
        for (int j = 0; j < CLUSTER; j++) {
            had[j] = cluster_load(one + HEAD, j);
            weights[j] = cluster_load(one + HEAD + 1, j);
            values[j] = cluster_load(one + d, j);
        }
        float top = -INFINITY_, value = 0, weight = 0;
#pragma unroll
        for (int j = 0; j < CLUSTER; j++)
            top = larger(top, had[j]);
#pragma unroll
        for (int j = 0; j < CLUSTER; j++) {
            const float w = weight_of(had[j], top);
            weight = fmaf(w, weights[j], weight);
            value = fmaf(w, values[j], value);
        }
        put(out, r, d, value, weight, oh, orow);
    }
    cluster_barrier(); /* nobody is gone while others read what it left */
}
#endif

extern "C" __global__ void __launch_bounds__(WARPS * 32) CLUSTERED
few(const T *q, const KV *k, const KV *v, const void *mask, T *out, float *lse, float *partial,
    int *counter, double scale, i64 heads, i64 shared_by, i64 rows, i64 keys, i64 offset,
    i64 splits, i64 qb, i64 qh, i64 qr, i64 kb, i64 kh, i64 kr, i64 vb, i64 vh, i64 vr, i64 mb,
    i64 mh, i64 mr, i64 mk, i64 ob, i64 oh, i64 orow) {
    wait_for_previous();
    DYNAMIC(float, left);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const i64 b = blockIdx.y, h = blockIdx.x, first = h * (R / L); /* of q's heads */
    const unsigned each = ((unsigned)keys + (unsigned)splits - 1) / (unsigned)splits;
    const int begin = (int)(each * blockIdx.z), end = min((int)keys, (int)(begin + each));
    k += b * kb + h * kh, v += b * vb + h * vh, out += b * ob + first * oh;

    float mine[R][OWN], sum[R][OWN] = {}, best[R], total[R];
    int limit[R]; /* keys from there on are not seen */
    i64 masked[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int head = r / L, row = r % L;
        const T *from = q + b * qb + (first + head) * qh + row * qr;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int at = (i / PIECE * LANES + lane) * PIECE + i % PIECE;
            mine[r][i] = at < HEAD ? round_float(load(from + at)) : 0;
        }
        const i64 most = row + offset + 1;
        limit[r] = (int)(most < end ? most : end);
        masked[r] = b * mb + (first + head) * mh + row * mr;
        best[r] = -INFINITY_, total[r] = 0;
    }
    const float by = (float)(scale * 1.4426950408889634);
    for (int from = begin; from < end; from += GROUPS * AT_ONCE) {
        uint4 key_held[AT_ONCE][PER], value_held[AT_ONCE][PER];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const int key = from + u * GROUPS + group;
            take_row(k + key * kr, key < end, key_held[u]);
            take_row(v + key * vr, key < end, value_held[u]);
        }
        float score[AT_ONCE][R], hidden[AT_ONCE][R]; /* all is asked for before it is needed */
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int r = 0; r < R; r++) {
                const int key = from + u * GROUPS + group;
                hidden[u][r] = -INFINITY_;
                if (key < limit[r])
                    hidden[u][r] = MASK ? mask_at(mask, masked[r] + key * mk) : 0;
            }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            float x[OWN];
            spread_row(key_held[u], x);
#pragma unroll
            for (int r = 0; r < R; r++) {
                score[u][r] = 0;
#pragma unroll
                for (int i = 0; i < OWN; i++)
                    score[u][r] = fmaf(mine[r][i], x[i], score[u][r]);
            }
        }
#pragma unroll
        for (int step = LANES / 2; step; step >>= 1)
#pragma unroll
            for (int i = 0; i < AT_ONCE * R; i++)
                score[i / R][i % R] += __shfl_xor_sync(FULL, score[i / R][i % R], step);
#pragma unroll
        for (int r = 0; r < R; r++) {
            float top = best[r];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                /* what is not seen counts for nothing, whatever it is */
                score[u][r] =
                    hidden[u][r] == -INFINITY_ ? -INFINITY_ : score[u][r] * by + hidden[u][r];
                top = larger(top, score[u][r]);
            }
            const float base = top == -INFINITY_ ? 0 : top, keep = power_of_2(best[r] - base);
            best[r] = top;
            total[r] *= keep;
#pragma unroll
            for (int i = 0; i < OWN; i++)
                sum[r][i] *= keep;
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                score[u][r] = power_of_2(score[u][r] - base);
                total[r] += score[u][r];
            }
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            float x[OWN];
            spread_row(value_held[u], x);
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int i = 0; i < OWN; i++)
                    sum[r][i] = fmaf(round_float(score[u][r]), x[i], sum[r][i]);
        }
    }

    /* The groups of a warp, then warps, then blocks. */
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int step = LANES; step < 32; step <<= 1) {
            const float other = __shfl_xor_sync(FULL, best[r], step);
            const float top = larger(best[r], other);
            const float own = weight_of(best[r], top), its = weight_of(other, top);
            best[r] = top;
            total[r] = total[r] * own + __shfl_xor_sync(FULL, total[r], step) * its;
#pragma unroll
            for (int i = 0; i < OWN; i++)
                sum[r][i] = sum[r][i] * own + __shfl_xor_sync(FULL, sum[r][i], step) * its;
        }
        float *to = left + (warp * R + r) * WIDE;
        if ((threadIdx.x & 31) < LANES) {
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                const int at = (i / PIECE * LANES + lane) * PIECE + i % PIECE;
                if (at < HEAD)
                    to[at] = sum[r][i];
            }
            if (lane == 0)
                to[HEAD] = best[r], to[HEAD + 1] = total[r];
        }
    }
    __syncthreads();
#if TOGETHER
    float *to = left + WARPS * R * WIDE;
#else
    const i64 tile = (i64)blockIdx.y * gridDim.x + blockIdx.x;
    float *to = partial + (tile * splits + blockIdx.z) * (R * WIDE);
#endif
#pragma unroll 1
    for (int i = threadIdx.x; i < R * WIDE; i += WARPS * 32) {
        const int r = i / WIDE, d = i - r * WIDE;
        const float *one = left + r * WIDE;
        float had[WARPS], top = -INFINITY_, value = 0, weight = 0;
#pragma unroll
        for (int j = 0; j < WARPS; j++)
            had[j] = one[j * R * WIDE + HEAD], top = larger(top, had[j]);
#pragma unroll
        for (int j = 0; j < WARPS; j++) {
            const float w = weight_of(had[j], top);
            value = fmaf(w, one[j * R * WIDE + d], value);
            weight = fmaf(w, one[j * R * WIDE + HEAD + 1], weight);
        }
        if (SPLIT_KEYS)
            to[i] = d == HEAD ? top : value;
        else if (d < HEAD)
            put(out, r, d, value, weight, oh, orow);
    }
#if TOGETHER
    put_together(to, out, oh, orow);
#elif SPLIT_KEYS
    if (!comes_last(counter, tile, (int)splits))
        return;
    left = partial + tile * splits * (R * WIDE);
#pragma unroll 1
    for (int i = threadIdx.x; i < R * HEAD; i += WARPS * 32) {
        const int r = i / HEAD, d = i - r * HEAD;
        float top = -INFINITY_, value = 0, weight = 0;
#pragma unroll 1
        for (int j = 0; j < (int)splits; j++)
            top = larger(top, peek(left + (j * R + r) * WIDE + HEAD));
#pragma unroll 1
        for (int j = 0; j < (int)splits; j++) {
            const float *one = left + (j * R + r) * WIDE;
            const float w = weight_of(peek(one + HEAD), top);
            weight = fmaf(w, peek(one + HEAD + 1), weight);
            value = fmaf(w, peek(one + d), value);
        }
        put(out, r, d, value, weight, oh, orow);
    }
#endif
}
