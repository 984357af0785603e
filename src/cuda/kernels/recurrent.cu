/* recurrent: all steps of a recurrent layer in one launch.
 *
 * A block has UNITS of the hidden units and keeps their rows of the weight in shared memory
 * (RESIDENT; else it reads them in each step). What units give in a step goes to the other blocks
 * as words of 8 bytes, a number and the step that it belongs to: a block that needs it reads until
 * the step is the one it waits for, so that one trip through memory is all that a step costs. There
 * are two such sets of words: a block writes step t + 2 over step t when it has read all of t + 1,
 * which nobody gave without having read all of t. They have no step at first (recurrent_start).
 *
 * GATES: 4 LSTM, 3 GRU, 1 tanh or RELU. BATCH: rows. gates_x: what x gave, [steps][batch] by
 * strides, of floats as T. POLL: a player's fiber lets others run. */

#define WARPS 8
#define THREADS (WARPS * 32)
#define LINES ((GATES * UNITS + WARPS - 1) / WARPS) /* rows of the weight that a warp has */

#ifdef CFX_PLAY
#define POLL() play_wait()
INLINE u64 load_word(const u64 *p) { return *p; }
INLINE void store_word(u64 *p, u64 x) { *p = x; }
#else
#define POLL()
INLINE u64 load_word(const u64 *p) {
    u64 x;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
INLINE void store_word(u64 *p, u64 x) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}
#endif

INLINE u64 word_of(float x, i64 step) { return (u64)step << 32 | __float_as_uint(x); }

/* The state before the first step is step 0 of the first set; the second has none. */
extern "C" __global__ void recurrent_start(const T *h, u64 *words, i64 batch, i64 hidden) {
    wait_for_previous();
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x, n = batch * hidden;
    if (i < n) {
        words[i] = word_of(h ? load(h + i) : 0, 0);
        words[n + i] = word_of(0, 0xffffffff);
    }
}

INLINE float tanh_of(float x) { return tanhf(x); }

extern "C" __global__ void __launch_bounds__(THREADS)
recurrent(const T *gates_x, const T *whh, const T *bhh, const T *h0, const T *c0, T *out, T *hn,
          T *cn, u64 *words, i64 steps, i64 hidden, i64 gt, i64 gb, i64 ot, i64 ob, i64 reverse) {
    wait_for_previous();
    DYNAMIC(unsigned char, memory);
    float *part = (float *)memory;               /* [GATES * UNITS][BATCH]: what the state gives */
    float *h = part + GATES * UNITS * BATCH;     /* [BATCH][hidden]: the state before */
    T *rows = (T *)(h + BATCH * hidden);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const i64 unit0 = (i64)blockIdx.x * UNITS;
#if RESIDENT
    for (i64 i = threadIdx.x; i < GATES * UNITS * hidden; i += THREADS) {
        const i64 row = i / hidden, k = i - row * hidden, unit = unit0 + row % UNITS;
        rows[i] = unit < hidden ? whh[(row / UNITS * hidden + unit) * hidden + k] : (T)0;
    }
#endif
    /* Each of these threads has one unit of one row of the batch. */
    const int mine = threadIdx.x % UNITS, row = threadIdx.x / UNITS;
    const i64 unit = unit0 + mine;
    const bool has = row < BATCH && unit < hidden;
    float state = 0, cell = 0, bias[GATES] = {};
    if (has) {
        state = h0 ? load(h0 + row * hidden + unit) : 0;
        cell = GATES == 4 && c0 ? load(c0 + row * hidden + unit) : 0;
#pragma unroll
        for (int g = 0; g < GATES; g++)
            bias[g] = bhh ? load(bhh + g * hidden + unit) : 0;
    }
    __syncthreads();
    for (i64 step = 0; step < steps; step++) {
        const i64 t = reverse ? steps - 1 - step : step;
        float given[GATES] = {};
        if (has) /* comes while the state is waited for */
#pragma unroll
            for (int g = 0; g < GATES; g++)
                given[g] = load(gates_x + t * gt + row * gb + g * hidden + unit);
        const u64 *from = words + (step & 1) * (BATCH * hidden);
        for (i64 i = threadIdx.x; i < BATCH * hidden; i += THREADS) {
            u64 word = load_word(from + i);
            while ((unsigned)(word >> 32) != (unsigned)step) {
                POLL();
                word = load_word(from + i);
            }
            h[i] = __uint_as_float((unsigned)word);
        }
        __syncthreads();
        for (int b = 0; b < BATCH; b++) {
            float sum[LINES] = {};
#pragma unroll 4
            for (i64 k = lane; k < hidden; k += 32) {
                const float before = h[b * hidden + k];
#pragma unroll
                for (int r = 0; r < LINES; r++) {
                    const int line = min(r * WARPS + warp, GATES * UNITS - 1);
#if RESIDENT
                    const T *w = rows + line * hidden;
#else
                    const i64 at = min(unit0 + line % UNITS, hidden - 1);
                    const T *w = whh + (line / UNITS * hidden + at) * hidden;
#endif
                    sum[r] = fmaf(load(w + k), before, sum[r]);
                }
            }
#pragma unroll
            for (int r = 0; r < LINES; r++) {
                const int line = r * WARPS + warp;
                const float all = warp_sum(sum[r]);
                if (lane == 0 && line < GATES * UNITS)
                    part[line * BATCH + b] = all;
            }
        }
        __syncthreads();
        if (has) {
            float from_h[GATES];
#pragma unroll
            for (int g = 0; g < GATES; g++)
                from_h[g] = part[(g * UNITS + mine) * BATCH + row] + bias[g];
#if GATES == 4
            const float in = sigmoid(given[0] + from_h[0]), forget = sigmoid(given[1] + from_h[1]);
            const float fresh = tanh_of(given[2] + from_h[2]);
            cell = forget * cell + in * fresh;
            state = sigmoid(given[3] + from_h[3]) * tanh_of(cell);
#elif GATES == 3
            const float reset = sigmoid(given[0] + from_h[0]), old = sigmoid(given[1] + from_h[1]);
            const float fresh = tanh_of(given[2] + reset * from_h[2]);
            state = (1 - old) * fresh + old * state;
#elif defined RELU
            state = larger(given[0] + from_h[0], 0);
#else
            state = tanh_of(given[0] + from_h[0]);
#endif
            T rounded;
            store(&rounded, state);
            state = load(&rounded);
            if (step + 1 < steps)
                store_word(words + ((step + 1) & 1) * (BATCH * hidden) + row * hidden + unit,
                           word_of(state, step + 1));
            out[t * ot + row * ob + unit] = rounded;
        }
        __syncthreads();
    }
    if (has) {
        if (hn)
            store(hn + row * hidden + unit, state);
        if (GATES == 4 && cn)
            store(cn + row * hidden + unit, cell);
    }
}
