/* product: out = post(x w' + bias + add) on the tensor cores, of rows of x with rows of w, which
 * lie without gaps; or a convolution in channels-last as such a product, where a row of x is what
 * a window sees.
 *
 * BM, BN: a block's tile of the result; WM, WN: that of a warp; STAGES: slabs of 128 bytes of each
 * row that are under way. CONV: x is an image. VECTOR: rows and taps are whole 16 bytes, aligned.
 * bias, add: NULL where there is none. POST(v): what follows, a statement.
 *
 * Slabs may be shared among `splits` blocks: each leaves its sums, and the one that comes last
 * adds them in their order, so that every run gives the same bits. */

#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS (THREADS / 8)              /* that are loaded at a time, 16 bytes by a thread */
#define SLAB ((int)(128 / sizeof(T)))   /* elements of a row in a slab */
#define STAGE ((BM + BN) * 128)
#define SUMS (WM / 16 * (WN / 8) * 4)   /* of a thread */
#define SUM(i) sum[(i) / 4 / (WN / 8)][(i) / 4 % (WN / 8)][(i) % 4]

#if CLUSTER > 1 && HAS_CLUSTERS && !defined CFX_PLAY
#define CLUSTERED __cluster_dims__(1, 1, CLUSTER)
#else
#define CLUSTERED
#endif

struct image {
    int height, width, channels;          /* channels of a group */
    i64 batch, row, pixel;                /* strides of x */
    int high, wide, out_high, out_wide;   /* windows; how many of them */
    int down, right, up, left, dy, dx;    /* steps, padding, dilation */
};

/* What a thread knows of a row of x that it loads: where it begins, or where its window does. */
struct from_row {
    const T *at;
    int y, x;
};

INLINE from_row find_row(const T *x, i64 m, i64 rows, i64 ldx, const image &p) {
    from_row r;
#if CONV
    const unsigned one = (unsigned)(p.out_high * p.out_wide), b = (unsigned)m / one;
    const int rest = (int)((unsigned)m - b * one), oy = rest / p.out_wide;
    const int ox = rest - oy * p.out_wide;
    r.y = m < rows ? oy * p.down - p.up : -(1 << 30);
    r.x = ox * p.right - p.left;
    r.at = x + b * p.batch;
#else
    r.y = m < rows ? 0 : -1;
    r.x = 0;
    r.at = x + (m < rows ? m : 0) * ldx;
#endif
    return r;
}

/* Where element k of a row lies; NULL: in the padding, or behind the end. */
INLINE const T *find_element(const from_row &r, int k, int kmost, const image &p) {
#if CONV
    const int tap = k / p.channels, c = k - tap * p.channels;
    const int ty = tap / p.wide, tx = tap - ty * p.wide;
    const int y = r.y + ty * p.dy, x = r.x + tx * p.dx;
    const bool there =
        k < kmost && (unsigned)y < (unsigned)p.height && (unsigned)x < (unsigned)p.width;
    return there ? r.at + y * p.row + x * p.pixel + c : (const T *)0;
#else
    return k < kmost && r.y == 0 ? r.at + k : (const T *)0;
#endif
}

/* 16 bytes of a row to their place in a slab, where no two rows of eight lie in the same banks. */
INLINE void load_chunk(unsigned char *tile, int row, int chunk, const T *from, const T *any) {
    copy_async(tile + row * 128 + ((chunk ^ (row & 7)) << 4), from ? from : any, from != 0);
}
INLINE void load_plain(unsigned char *tile, int row, int chunk, int j, const T *from) {
    T *to = (T *)(tile + row * 128 + ((chunk ^ (row & 7)) << 4));
    to[j] = from ? *from : (T)0;
}

INLINE void load_slab(unsigned char *stage, int slab, const from_row *r, const T *x, const T *w,
                      i64 ldw, i64 n, i64 nmost, int kmost, const image &p) {
    const int chunk = threadIdx.x & 7, first = threadIdx.x >> 3;
    const int k = slab * SLAB + chunk * CHUNK;
    unsigned char *wtile = stage + BM * 128;
#if VECTOR
#if CONV
    const int tap = k / p.channels, c = k - tap * p.channels;
    const int ty = tap / p.wide, tx = tap - ty * p.wide;
    const int dy = ty * p.dy, dx = tx * p.dx;
#pragma unroll
    for (int i = 0; i < (BM + ROWS - 1) / ROWS; i++) {
        const int y = r[i].y + dy, xx = r[i].x + dx;
        const bool there = k < kmost && (unsigned)y < (unsigned)p.height &&
                           (unsigned)xx < (unsigned)p.width;
        if (BM % ROWS == 0 || first + i * ROWS < BM)
            load_chunk(stage, first + i * ROWS, chunk,
                       there ? r[i].at + y * p.row + xx * p.pixel + c : (const T *)0, x);
    }
#else
#pragma unroll
    for (int i = 0; i < (BM + ROWS - 1) / ROWS; i++)
        if (BM % ROWS == 0 || first + i * ROWS < BM)
            load_chunk(stage, first + i * ROWS, chunk, find_element(r[i], k, kmost, p), x);
#endif
#pragma unroll
    for (int i = 0; i < (BN + ROWS - 1) / ROWS; i++) {
        const int row = first + i * ROWS;
        if (BN % ROWS == 0 || row < BN)
            load_chunk(wtile, row, chunk,
                       k < kmost && n + row < nmost ? w + (n + row) * ldw + k : (const T *)0, w);
    }
#else
    (void)x;
    for (int i = 0; i < (BM + ROWS - 1) / ROWS; i++)
        for (int j = 0; j < CHUNK && first + i * ROWS < BM; j++)
            load_plain(stage, first + i * ROWS, chunk, j, find_element(r[i], k + j, kmost, p));
    for (int i = 0; i < (BN + ROWS - 1) / ROWS; i++)
        for (int j = 0; j < CHUNK && first + i * ROWS < BN; j++) {
            const int row = first + i * ROWS;
            load_plain(wtile, row, chunk, j,
                       k + j < kmost && n + row < nmost ? w + (n + row) * ldw + k + j
                                                        : (const T *)0);
        }
#endif
}

/* The products of a slab, added to the sums of a warp. */
INLINE void multiply_slab(const unsigned char *stage, int wm, int wn, float (*sum)[WN / 8][4]) {
    const int lane = threadIdx.x & 31;
    const unsigned char *wtile = stage + BM * 128;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        unsigned a[WM / 16][4], b[WN / 8][2];
#pragma unroll
        for (int i = 0; i < WM / 16; i++) {
            const int row = wm + i * 16 + (lane & 15), chunk = 2 * step + (lane >> 4);
            load_matrices(a[i], stage + row * 128 + ((chunk ^ (row & 7)) << 4));
        }
#pragma unroll
        for (int j = 0; j < WN / 16; j++) {
            const int row = wn + j * 16 + (lane & 7) + (lane >> 4 << 3);
            const int chunk = 2 * step + (lane >> 3 & 1);
            unsigned four[4];
            load_matrices(four, wtile + row * 128 + ((chunk ^ (row & 7)) << 4));
            b[2 * j][0] = four[0], b[2 * j][1] = four[1];
            b[2 * j + 1][0] = four[2], b[2 * j + 1][1] = four[3];
        }
#ifdef ROUND
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                a[i][q] = round_word(a[i][q]);
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
#pragma unroll
            for (int q = 0; q < 2; q++)
                b[j][q] = round_word(b[j][q]);
#endif
#ifdef SPLIT
        unsigned rest_a[WM / 16][4], rest_b[WN / 8][2];
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                rest_a[i][q] = split_float(&a[i][q]);
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
#pragma unroll
            for (int q = 0; q < 2; q++)
                rest_b[j][q] = split_float(&b[j][q]);
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
                mma(sum[i][j], rest_a[i], b[j]);
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
                mma(sum[i][j], a[i], rest_b[j]);
#endif
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
                mma(sum[i][j], a[i], b[j]);
    }
}

#ifdef SPLIT
/* A sum in plain arithmetic: what infinities and overflow give is seen in no other. */
static __device__ float plain_sum(const T *x, const T *w, i64 m, i64 mmost, i64 ldx, i64 wrow,
                                  int from, int to, const image &p) {
    const from_row r = find_row(x, m, mmost, ldx, p);
    float sum = 0;
    for (int k = from; k < to; k++) {
        const T *at = find_element(r, k, to, p);
        sum = fmaf(at ? load(at) : 0, load(w + wrow + k), sum);
    }
    return sum;
}
#endif

/* Where the sums of a thread go: its first row and column, and what is behind the product. */
struct result {
    const T *bias, *add;
    T *out;
    i64 m, n, ldadd, ldout, row, column;
    bool pairs; /* two elements of a row can be written at a time */
};

/* Fragment i of a thread: two elements of each of two rows. */
INLINE void put_fragment(const result &to, int i, const float *sum) {
    const i64 nn = to.column + i % (WN / 8) * 8;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const i64 mm = to.row + i / (WN / 8) * 16 + half * 8;
        if (mm >= to.m)
            continue;
        float two[2];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            float v = sum[half * 2 + q];
            if (nn + q < to.n) {
                if (to.bias)
                    v += load(to.bias + nn + q);
                if (to.add)
                    v += load(to.add + mm * to.ldadd + nn + q);
                POST(v)
            }
            two[q] = v;
        }
        if (nn + 1 < to.n && to.pairs)
            store_pair(to.out + mm * to.ldout + nn, two);
        else
#pragma unroll
            for (int q = 0; q < 2; q++)
                if (nn + q < to.n)
                    store(to.out + mm * to.ldout + nn + q, two[q]);
    }
}

#if CLUSTER > 1 && HAS_CLUSTERS
/* The blocks that share a tile see each other's shared memory: each leaves its sums there, adds
 * some fragments of all in order, and writes them. */
INLINE void add_in_cluster(const float (*sum)[WN / 8][4], float *left, int split,
                           const result &to) {
    copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        left[i * THREADS + threadIdx.x] = SUM(i);
    cluster_barrier();
    for (int i = split; i < SUMS / 4; i += CLUSTER) {
        float all[4] = {};
#pragma unroll
        for (int s = 0; s < CLUSTER; s++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                all[q] += cluster_load(left + (i * 4 + q) * THREADS + threadIdx.x, s);
        put_fragment(to, i, all);
    }
    cluster_barrier();
}
#else
/* The same through memory: the block that comes last adds all, and goes on. */
INLINE bool add_in_memory(float (*sum)[WN / 8][4], float *partial, int *counter, int split,
                          int splits, i64 z) {
    const i64 tile = (z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    float *mine = partial + (tile * splits + split) * (SUMS * THREADS) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        mine[i * THREADS] = SUM(i);
    if (!comes_last(counter, tile, splits))
        return false;
    const float *all = partial + tile * splits * (SUMS * THREADS) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        SUM(i) = peek(all + i * THREADS);
    for (int s = 1; s < splits; s++) {
        all += SUMS * THREADS;
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            SUM(i) += peek(all + i * THREADS);
    }
    return true;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) CLUSTERED
product(const T *x, const T *w, const T *bias, const T *add, T *out, float *partial, int *counter,
        i64 m, i64 n, i64 k, i64 ldx, i64 ldw, i64 ldadd, i64 ldout, i64 zx, i64 zw, i64 zbias,
        i64 zadd, i64 zout, i64 splits, i64 height, i64 width, i64 channels, i64 batch, i64 row,
        i64 pixel, i64 high, i64 wide, i64 out_high, i64 out_wide, i64 down, i64 right, i64 up,
        i64 left, i64 dy, i64 dx) {
    wait_for_previous();
    DYNAMIC(unsigned char, shared);
    const image p = {(int)height,   (int)width,    (int)channels, batch,      row,
                     pixel,         (int)high,     (int)wide,     (int)out_high, (int)out_wide,
                     (int)down,     (int)right,    (int)up,       (int)left,  (int)dy,
                     (int)dx};
    const int split = (int)(blockIdx.z % (unsigned)splits);
    const i64 z = blockIdx.z / (unsigned)splits;
    x += z * zx, w += z * zw, out += z * zout;
    const i64 m0 = (i64)blockIdx.x * BM, n0 = (i64)blockIdx.y * BN;
    const int slabs = (int)((k + SLAB - 1) / SLAB);
    const int each = slabs / (int)splits, more = slabs % (int)splits; /* the first have one more */
    const int begin = split * each + min(split, more), end = begin + each + (split < more);
    from_row r[(BM + ROWS - 1) / ROWS];
#pragma unroll
    for (int i = 0; i < (BM + ROWS - 1) / ROWS; i++)
        r[i] = find_row(x, m0 + (threadIdx.x >> 3) + i * ROWS, m, ldx, p);

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (begin + s < end)
            load_slab(shared + s * STAGE, begin + s, r, x, w, ldw, n0, n, (int)k, p);
        copy_commit();
    }
    if (bias && threadIdx.x < BN && n0 + threadIdx.x < n)
        bring_near(bias + z * zbias + n0 + threadIdx.x);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
    float sum[WM / 16][WN / 8][4] = {};
    for (int slab = begin; slab < end; slab++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (slab + STAGES - 1 < end)
            load_slab(shared + (slab - begin + STAGES - 1) % STAGES * STAGE, slab + STAGES - 1, r,
                      x, w, ldw, n0, n, (int)k, p);
        copy_commit();
        const unsigned char *stage = shared + (slab - begin) % STAGES * STAGE;
#ifdef SPLIT
        float part[WM / 16][WN / 8][4] = {}; /* the tensor cores cut what they add: few at a time */
        multiply_slab(stage, wm, wn, part);
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            SUM(i) += part[i / 4 / (WN / 8)][i / 4 % (WN / 8)][i % 4];
#else
        multiply_slab(stage, wm, wn, sum);
#endif
    }
#ifdef SPLIT
    bool plain = false;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        plain |= SUM(i) != SUM(i);
    if (plain) {
        float again[SUMS];
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            again[i] = SUM(i);
#pragma unroll 1
        for (int i = 0; i < SUMS; i++) {
            const i64 mm = m0 + wm + i / 4 / (WN / 8) * 16 + lane / 4 + i % 4 / 2 * 8;
            const i64 nn = n0 + wn + i / 4 % (WN / 8) * 8 + lane % 4 * 2 + i % 2;
            if (again[i] != again[i] && mm < m && nn < n)
                again[i] = plain_sum(x, w, mm, m, ldx, nn * ldw, begin * SLAB,
                                     end * SLAB < k ? end * SLAB : (int)k, p);
        }
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            SUM(i) = again[i];
    }
#endif
    const result to = {bias ? bias + z * zbias : bias, add ? add + z * zadd : add, out, m, n, ldadd,
                       ldout, m0 + wm + lane / 4, n0 + wn + lane % 4 * 2,
                       ((u64)out | (u64)ldout * sizeof(T)) % (2 * sizeof(T)) == 0};
#if CLUSTER > 1 && HAS_CLUSTERS
    add_in_cluster(sum, (float *)shared, split, to);
#else
    if (splits > 1 && !add_in_memory(sum, partial, counter, split, (int)splits, z))
        return;
#pragma unroll
    for (int i = 0; i < SUMS / 4; i++)
        put_fragment(to, i, sum[i / (WN / 8)][i % (WN / 8)]);
#endif
}
