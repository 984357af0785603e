/* attention: softmax(q k' scale + mask) v in one pass over the keys.
 *
 * A block has 16 WQ rows of q and goes through the keys in steps of WK tiles of KEYS keys; warp
 * (i, j) multiplies rows 16 i of tile j, keeping the most and the sum of what it saw, and at the
 * end the warps of a row put together what they have in their order. The heads of q that share
 * keys are rows of one block. With `splits` above 1 blocks share the keys in the same way, and the
 * last puts together.
 *
 * STAGES: 2 where tiles are read while those before them are worked on, else 1.
 * HEAD, VALUE: elements of a row of q and k, of v; D: the larger, up to a multiple of 16. MASK: 0
 * none, 1 bytes that say what is seen, 2 elements that are added, 3 floats. VECTOR: rows are whole
 * 16 bytes, aligned; PAIRS: those of out are whole pairs. Row i sees keys up to i + offset. lse: the logarithms of the sums, NULL where
 * they are not wanted. A row that sees nothing gives zeros. */

#define THREADS (WQ * WK * 32)
#define ROWS (16 * WQ)
#define PITCH (D * (int)sizeof(T) + 16) /* bytes of a row: eight rows lie in other banks each */
#define TILE (KEYS * PITCH)
#define LOG2E 1.4426950408889634f

/* Rows of HEAD elements to shared memory, zeros behind `most` of them. */
INLINE void load_rows(unsigned char *to, const T *from, i64 stride, i64 first, i64 most, int rows,
                      int elements) {
    const int chunks = D / CHUNK;
    for (int i = threadIdx.x; i < rows * chunks; i += THREADS) {
        const int row = i / chunks, chunk = i - row * chunks;
#if VECTOR
        const bool there = first + row < most && chunk * CHUNK < elements;
        copy_async(to + row * PITCH + chunk * 16,
                   there ? from + (first + row) * stride + chunk * CHUNK : from, there);
#else
        T *at = (T *)(to + row * PITCH) + chunk * CHUNK;
        for (int j = 0; j < CHUNK; j++)
            at[j] = first + row < most && chunk * CHUNK + j < elements
                        ? from[(first + row) * stride + chunk * CHUNK + j]
                        : (T)0;
#endif
    }
}

/* d += a b, as mma; floats rounded, or in three products of their parts. */
INLINE void multiply(float *d, unsigned *a, unsigned *b) {
#ifdef SPLIT
    unsigned a0[4] = {a[0], a[1], a[2], a[3]}, b0[2] = {b[0], b[1]}, a1[4], b1[2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        a1[i] = split_float(&a0[i]);
#pragma unroll
    for (int i = 0; i < 2; i++)
        b1[i] = split_float(&b0[i]);
    mma(d, a1, b0);
    mma(d, a0, b1);
    mma(d, a0, b0);
#elif defined ROUND
    unsigned a0[4], b0[2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        a0[i] = round_word(a[i]);
#pragma unroll
    for (int i = 0; i < 2; i++)
        b0[i] = round_word(b[i]);
    mma(d, a0, b0);
#else
    mma(d, a, b);
#endif
}

/* Rows of q as the tensor cores take them: kept where registers have room, else read each time. */
#define STEPS (D * (int)sizeof(T) / 32)
#define KEPT (STEPS <= 4)
INLINE void load_row(unsigned *a, const unsigned char *q, int step) {
    const int lane = threadIdx.x & 31;
    load_matrices(a, q + (lane & 15) * PITCH + step * 32 + (lane >> 4) * 16);
}

/* Scores of 16 rows with the first `sixteens` times 16 keys of a tile. */
INLINE void find_scores(const unsigned char *q, unsigned (*kept)[4], const unsigned char *k,
                        int sixteens, float (*score)[4]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        unsigned read[4], *a = KEPT ? kept[step] : read;
        if (!KEPT)
            load_row(read, q, step);
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            unsigned four[4];
            if (j >= sixteens)
                continue;
            load_matrices(four, k + (j * 16 + (lane & 7) + (lane >> 4 << 3)) * PITCH + step * 32 +
                                    (lane >> 3 & 1) * 16);
            multiply(score[2 * j], a, four);
            multiply(score[2 * j + 1], a, four + 2);
        }
    }
}

/* sum = sum * keep + score v, for 16 rows and the first keys of a tile. The lanes of a row hold each two columns of scores: as
 * rows of v that are floats are taken in the order in which the scores lie, none has to move. */
INLINE void add_values(const unsigned char *v, int sixteens, const float (*score)[4],
                       const float *keep, float (*sum)[4]) {
    const int lane = threadIdx.x & 31;
#if defined BF16 || defined HALF
    unsigned a[KEYS / 16][4];
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
        a[j / 2][j % 2 * 2] = narrow_pair(score[j][0], score[j][1]);
        a[j / 2][j % 2 * 2 + 1] = narrow_pair(score[j][2], score[j][3]);
    }
#endif
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        float part[2][4] = {};
#if defined BF16 || defined HALF
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            unsigned four[4];
            if (j >= sixteens)
                continue;
            load_matrices_turned(four, v + (j * 16 + (lane & 15)) * PITCH + d * 32 +
                                           (lane >> 4) * 16);
            mma(part[0], a[j], four);
            mma(part[1], a[j], four + 2);
        }
#else
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            unsigned a[4], b[2];
            if (j / 2 >= sixteens)
                continue;
            a[0] = __float_as_uint(score[j][0]), a[1] = __float_as_uint(score[j][2]);
            a[2] = __float_as_uint(score[j][1]), a[3] = __float_as_uint(score[j][3]);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned *at = (const unsigned *)(v + (j * 8 + lane % 4 * 2) * PITCH) +
                                     d * 16 + half * 8 + lane / 4;
                b[0] = at[0], b[1] = at[PITCH / 4];
                multiply(part[half], a, b);
            }
        }
#endif
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[2 * d + i / 4][i % 4] =
                fmaf(sum[2 * d + i / 4][i % 4], keep[i % 4 / 2], part[i / 4][i % 4]);
    }
}

/* Where row r of those that share keys lies: of which head, and which row of it. */
struct place {
    i64 head, row;
};
INLINE place find_place(i64 r, i64 rows) {
    place p;
    p.head = (unsigned)r / (unsigned)rows, p.row = r - p.head * rows;
    return p;
}

/* A number that a warp left in shared memory, or another block in the card's. */
INLINE float part_at(const float *p) { return *(const volatile float *)p; }

INLINE float apply_mask(float score, const void *mask, i64 at) {
#if MASK == 1
    return ((const unsigned char *)mask)[at] ? score : -INFINITY_;
#elif MASK == 2
    return score + load((const T *)mask + at) * LOG2E;
#elif MASK == 3
    return score + ((const float *)mask)[at] * LOG2E;
#else
    return score;
#endif
}

/* Blocks of a multiprocessor that registers have to do for: 16 warps where rows are short. */
#define TOGETHER (D <= 64 && sizeof(T) == 2 && THREADS <= 256 ? 512 / THREADS : 1)

extern "C" __global__ void __launch_bounds__(THREADS, TOGETHER)
attention(const T *q, const T *k, const T *v, const void *mask, T *out, float *lse, float *partial,
          int *counter, double scale, i64 heads, i64 shared_by, i64 rows, i64 keys, i64 offset,
          i64 splits, i64 qb, i64 qh, i64 qr, i64 kb, i64 kh, i64 kr, i64 vb, i64 vh, i64 vr,
          i64 mb, i64 mh, i64 mr, i64 mk, i64 ob, i64 oh, i64 orow) {
    wait_for_previous();
    DYNAMIC(unsigned char, memory);
    unsigned char *qs = memory, *ks = qs + ROWS * PITCH, *vs = ks + STAGES * WK * TILE;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wq = warp % WQ, wk = warp / WQ;
    const unsigned kv = (unsigned)heads / (unsigned)shared_by;
    const i64 b = blockIdx.y / kv, h = blockIdx.y % kv;
    const i64 all = shared_by * rows, first = (i64)blockIdx.x * ROWS;
    q += b * qb + h * shared_by * qh, k += b * kb + h * kh, v += b * vb + h * vh;

    const i64 last = (first + ROWS < all ? first + ROWS : all) - 1;
    const place p0 = find_place(first, rows), p1 = find_place(last, rows);
    const i64 most = (p0.head == p1.head ? p1.row : rows - 1) + offset + 1;
    const i64 seen = most < keys ? most < 0 ? 0 : most : keys;
    const i64 steps = (seen + WK * KEYS - 1) / (WK * KEYS);
    const i64 begin = splits == 1 ? 0 : steps * blockIdx.z / splits;
    const i64 end = splits == 1 ? steps : steps * (blockIdx.z + 1) / splits;

    for (int i = threadIdx.x; i < ROWS * (D / CHUNK); i += THREADS) { /* rows of several heads */
        const int row = i / (D / CHUNK), chunk = i - row * (D / CHUNK);
        const place p = find_place(first + row < all ? first + row : 0, rows);
        const T *from = q + p.head * qh + p.row * qr;
#if VECTOR
        const bool there = first + row < all && chunk * CHUNK < HEAD;
        copy_async(qs + row * PITCH + chunk * 16, there ? from + chunk * CHUNK : from, there);
#else
        T *to = (T *)(qs + row * PITCH) + chunk * CHUNK;
        for (int j = 0; j < CHUNK; j++)
            to[j] = first + row < all && chunk * CHUNK + j < HEAD ? from[chunk * CHUNK + j] : (T)0;
#endif
    }
    if (begin < end)
        load_rows(ks, k, kr, begin * WK * KEYS, keys, WK * KEYS, HEAD);
    copy_commit();
    if (begin < end)
        load_rows(vs, v, vr, begin * WK * KEYS, keys, WK * KEYS, VALUE);
    copy_commit();

    float sum[D / 8][4] = {}, best[2] = {-INFINITY_, -INFINITY_}, total[2] = {0, 0};
    const float by = (float)(scale * 1.4426950408889634);
    place mine[2];
    int limit[2]; /* keys from there on are not seen */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const i64 r = first + wq * 16 + lane / 4 + 8 * i;
        mine[i] = find_place(r < all ? r : 0, rows);
        const i64 end = mine[i].row + offset + 1;
        limit[i] = r < all ? (int)(end < keys ? end : keys) : 0;
    }
    unsigned kept[KEPT ? STEPS : 1][4];
    copy_wait<1>();
    __syncthreads();
    if (KEPT) {
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            load_row(kept[i], qs + wq * 16 * PITCH, i);
    }
    for (i64 step = begin; step < end; step++) {
        const int buffer = STAGES > 1 ? (int)(step - begin) & 1 : 0;
        const unsigned char *const k_now = ks + (buffer * WK + wk) * TILE;
        const unsigned char *const v_now = vs + (buffer * WK + wk) * TILE;
        if (STAGES > 1) { /* the next tiles are on their way while these are worked on */
            if (step + 1 < end)
                load_rows(ks + !buffer * WK * TILE, k, kr, (step + 1) * WK * KEYS, keys, WK * KEYS,
                          HEAD);
            copy_commit();
            if (step + 1 < end)
                load_rows(vs + !buffer * WK * TILE, v, vr, (step + 1) * WK * KEYS, keys, WK * KEYS,
                          VALUE);
            copy_commit();
        }
        copy_wait<2 * STAGES - 1>();
        __syncthreads();
        float score[KEYS / 8][4] = {};
        const int behind = (int)(seen - (step * WK + wk) * KEYS); /* keys from the tile on */
        const int sixteens = behind < 0 ? 0 : behind >= KEYS ? KEYS / 16 : (behind + 15) / 16;
        find_scores(qs + wq * 16 * PITCH, kept, k_now, sixteens, score);
        if (STAGES == 1) {
            __syncthreads();
            if (step + 1 < end)
                load_rows(ks, k, kr, (step + 1) * WK * KEYS, keys, WK * KEYS, HEAD);
            copy_commit();
        }

        const int key0 = (int)(step * WK + wk) * KEYS + lane % 4 * 2;
        const int tile_end = key0 - lane % 4 * 2 + KEYS;
        const bool all_seen = tile_end <= limit[0] && tile_end <= limit[1];
        float top[2] = {best[0], best[1]};
        if (!MASK && all_seen) {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    score[j][i] *= by;
                    top[i / 2] = larger(top[i / 2], score[j][i]);
                }
        } else {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int key = key0 + j * 8 + i % 2;
                    const place &p = mine[i / 2];
                    float s = score[j][i] * by;
                    const i64 at = b * mb + (h * shared_by + p.head) * mh + p.row * mr + key * mk;
                    if (MASK && key < limit[i / 2])
                        s = apply_mask(s, mask, at);
                    score[j][i] = key < limit[i / 2] ? s : -INFINITY_;
                    top[i / 2] = larger(top[i / 2], score[j][i]);
                }
        }
        float keep[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            top[i] = larger(top[i], __shfl_xor_sync(FULL, top[i], 1));
            top[i] = larger(top[i], __shfl_xor_sync(FULL, top[i], 2));
            const float base = top[i] == -INFINITY_ ? 0 : top[i];
            keep[i] = power_of_2(best[i] - base);
            best[i] = top[i];
            top[i] = base;
            total[i] *= keep[i];
        }
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                score[j][i] = power_of_2(score[j][i] - top[i / 2]);
                total[i / 2] += score[j][i];
            }
        copy_wait<STAGES>();
        __syncthreads();
        add_values(v_now, sixteens, score, keep, sum);
        __syncthreads();
        if (STAGES == 1) {
            if (step + 1 < end)
                load_rows(vs, v, vr, (step + 1) * WK * KEYS, keys, WK * KEYS, VALUE);
            copy_commit();
        }
    }
    copy_wait<0>();
    if (WK == 1 && splits == 1) { /* a warp has all of its rows */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            total[i] += __shfl_xor_sync(FULL, total[i], 1);
            total[i] += __shfl_xor_sync(FULL, total[i], 2);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (first + wq * 16 + lane / 4 + 8 * i >= all)
                break;
            const i64 head = h * shared_by + mine[i].head;
            T *to = out + b * ob + head * oh + mine[i].row * orow;
            const float share = total[i] == 0 ? 0 : 1 / total[i];
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                const int at = d * 8 + lane % 4 * 2;
                const float two[2] = {sum[d][2 * i] * share, sum[d][2 * i + 1] * share};
#if PAIRS
                if (at < VALUE)
                    store_pair(to + at, two);
#else
                if (at < VALUE)
                    store(to + at, two[0]);
                if (at + 1 < VALUE)
                    store(to + at + 1, two[1]);
#endif
            }
            if (lse && lane % 4 == 0)
                lse[(b * heads + head) * rows + mine[i].row] =
                    (best[i] + log2f(total[i])) * 0.69314718055994531f;
        }
        return;
    }
    __syncthreads();

    /* What the warps have is put together: rows of D sums, the most, the sum of weights. */
    float *left = (float *)memory;
    const int wide = D + 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        total[i] += __shfl_xor_sync(FULL, total[i], 1);
        total[i] += __shfl_xor_sync(FULL, total[i], 2);
        float *row = left + (wk * ROWS + wq * 16 + lane / 4 + 8 * i) * wide;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            row[d * 8 + lane % 4 * 2] = sum[d][2 * i];
            row[d * 8 + lane % 4 * 2 + 1] = sum[d][2 * i + 1];
        }
        if (lane % 4 == 0)
            row[D] = best[i], row[D + 1] = total[i];
    }
    __syncthreads();
    const i64 tile = (i64)blockIdx.y * gridDim.x + blockIdx.x;
    float *mine_left = partial + (tile * splits + blockIdx.z) * (ROWS * wide);
    int parts = WK;
    i64 between = ROWS * wide;
    if (splits > 1) {
#pragma unroll 1 /* what is done once is not worth the time to compile it */
        for (int i = threadIdx.x; i < ROWS * wide; i += THREADS) {
            const int row = i / wide, d = i - row * wide;
            float top = -INFINITY_, value = 0;
            for (int j = 0; j < WK; j++)
                top = larger(top, left[(j * ROWS + row) * wide + D]);
            for (int j = 0; j < WK; j++) {
                const float *one = left + (j * ROWS + row) * wide;
                value += one[D] == -INFINITY_ ? 0 : power_of_2(one[D] - top) * one[d];
            }
            mine_left[i] = d == D ? top : value;
        }
        if (!comes_last(counter, tile, (int)splits))
            return;
        left = partial + tile * splits * (ROWS * wide);
        parts = (int)splits;
    }
    /* The share that each part has in a row; zeros where a row sees nothing. */
    float *share = (float *)memory + (splits > 1 ? 0 : WK * ROWS * wide);
#pragma unroll 1
    for (int row = threadIdx.x; row < ROWS; row += THREADS) {
        float top = -INFINITY_, weight = 0;
        for (int j = 0; j < parts; j++)
            top = larger(top, part_at(left + j * between + row * wide + D));
        for (int j = 0; j < parts; j++) {
            const float *one = left + j * between + row * wide + D;
            const float had = part_at(one), w = had == -INFINITY_ ? 0 : power_of_2(had - top);
            share[j * ROWS + row] = w;
            weight += w * part_at(one + 1);
        }
        for (int j = 0; j < parts; j++)
            share[j * ROWS + row] *= weight == 0 ? 0 : 1 / weight;
        if (lse && first + row < all) {
            const place p = find_place(first + row, rows);
            lse[(b * heads + h * shared_by + p.head) * rows + p.row] =
                (top + log2f(weight)) * 0.69314718055994531f;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < ROWS * VALUE; i += THREADS) {
        const int row = i / VALUE, d = i - row * VALUE;
        if (first + row >= all)
            break;
        float value = 0;
        for (int j = 0; j < parts; j++)
            value =
                fmaf(share[j * ROWS + row], part_at(left + j * between + row * wide + d), value);
        const place p = find_place(first + row, rows);
        store(out + b * ob + (h * shared_by + p.head) * oh + p.row * orow + d, value);
    }
}
