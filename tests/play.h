/* play: CUDA C on the host, so that kernels are run where there is no card.
 *
 * A kernel's text is compiled as C++ after this header (tests/player.c does it). play_all runs it,
 * block after block: the threads of a block are fibers that change at barriers, shuffles and
 * whatever else a warp does together, in the same order each time. What a card leaves undefined is
 * an error here: a barrier that some threads of a block or a warp never reach, lanes that do other
 * things than the rest of their warp. An asynchronous copy happens when it is waited for, so that a
 * missing wait is seen; dynamic shared memory holds NaN before a block starts and has its exact
 * size, which the address sanitizer watches.
 *
 * Blocks that wait for each other, all or those of a cluster, are run together; such kernels have
 * dynamic shared memory alone.
 * One thread of the host plays at a time: the state is that of the library which a text becomes. */
#ifndef CFX_TEST_PLAY_H
#define CFX_TEST_PLAY_H

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* ---- the machine ----------------------------------------------------------------------------- */

struct play_index {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

enum { PLAY_STACK = 128 << 10, PLAY_LANE = 64, PLAY_COPIES = 256 };
enum { PLAY_READY, PLAY_WAITS, PLAY_DONE };

struct play_copy {
    void *to;
    const void *from;
    int bytes, taken, group; /* bytes behind those that are taken become zero */
};

struct play_warp {
    unsigned char lane[2][32][PLAY_LANE]; /* what lanes put down, for this meeting and the last */
    int kind[2];                          /* what they meet for */
    int came, lanes, meeting;
};

struct play_thread {
    play_index thread, block;
    int state, number, meeting; /* of the block; how often its warp met */
    play_warp *warp;
    struct play_team *team;
    play_copy copy[PLAY_COPIES];
    int copies, group;
    bool waited; /* for the kernel before this one */
    jmp_buf at;
    ucontext_t start;
    void *stack;
};

/* A block that is being run. */
struct play_team {
    play_thread *thread;
    play_warp *warp;
    int came, phase, vote[2];
    unsigned char *dynamic;
};

static struct {
    play_index grid, block;
    play_thread *now;
    jmp_buf scheduler;
    void (*kernel)();
    const uint64_t *word;
    const double *real;
    size_t shared; /* bytes of dynamic shared memory */
    int threads, blocks, cluster;
    struct play_team *teams;
    int came, phase; /* at the barrier of a cluster */
    long waits;                       /* of fibers since one of them went on */
    const char *wrong;                /* what a card leaves undefined */
} play;

#define threadIdx (play.now->thread)
#define blockIdx (play.now->block)
#define blockDim (play.block)
#define gridDim (play.grid)
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __fdividef(a, b) ((a) / (b))

/* The kernel is not run on. */
[[noreturn]] static inline void play_error(const char *text) {
    if (!play.wrong)
        play.wrong = text;
    _longjmp(play.scheduler, 1);
}

/* The fiber stops until the scheduler comes back to it. */
static inline void play_wait() {
    play_thread *t = play.now;
    t->state = PLAY_WAITS;
    play.waits++;
    if (!_setjmp(t->at))
        _longjmp(play.scheduler, 1);
}

static inline void play_previous() { play.now->waited = true; }

/* ---- barriers and what warps do together ----------------------------------------------------- */

static inline void __syncthreads() {
    play_team *team = play.now->team;
    const int phase = team->phase;
    if (++team->came == play.threads) {
        team->came = 0, team->phase++;
        play.waits = 0;
        return;
    }
    while (team->phase == phase)
        play_wait();
}

static inline int __syncthreads_or(int vote) {
    play_team *team = play.now->team;
    const int at = team->phase & 1;
    if (team->came == 0)
        team->vote[at] = 0;
    team->vote[at] |= vote != 0;
    __syncthreads();
    return team->vote[at];
}

/* All lanes of a warp come, each with `bytes` of its own; what all put down is the result, which
 * stays until the warp meets a second time. */
static inline unsigned char (*play_meet(int kind, const void *mine, int bytes))[PLAY_LANE] {
    play_thread *t = play.now;
    play_warp *w = t->warp;
    const int meeting = t->meeting++, at = meeting & 1;
    if (w->came == 0)
        w->kind[at] = kind;
    else if (w->kind[at] != kind)
        play_error("lanes of a warp do different things");
    memcpy(w->lane[at][t->number & 31], mine, (size_t)bytes);
    if (++w->came == w->lanes)
        w->came = 0, w->meeting++, play.waits = 0;
    else
        while (w->meeting == meeting)
            play_wait();
    return w->lane[at];
}

static inline void __syncwarp(unsigned = 0) { play_meet(1, "", 1); }

static inline int play_me() { return play.now->number & 31; }
template <class X> static inline X play_shuffle(int kind, X x, int from) {
    X got;
    memcpy(&got, play_meet(kind, &x, sizeof x)[from & 31], sizeof got);
    return got;
}
template <class X> static inline X __shfl_xor_sync(unsigned, X x, int with) {
    return play_shuffle(2, x, play_me() ^ with);
}
template <class X> static inline X __shfl_sync(unsigned, X x, int lane) {
    return play_shuffle(3, x, lane);
}
template <class X> static inline X __shfl_down_sync(unsigned, X x, int by) {
    return play_shuffle(4, x, play_me() + by < 32 ? play_me() + by : play_me());
}
template <class X> static inline X __shfl_up_sync(unsigned, X x, int by) {
    return play_shuffle(5, x, play_me() >= by ? play_me() - by : play_me());
}

static inline unsigned __ballot_sync(unsigned mask, int vote) {
    const unsigned char mine = vote != 0;
    unsigned char(*all)[PLAY_LANE] = play_meet(6, &mine, 1);
    unsigned bits = 0;
    for (int i = 0; i < play.now->warp->lanes; i++)
        bits |= (unsigned)all[i][0] << i;
    return bits & mask;
}
static inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
static inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, !vote) == 0; }

/* All blocks of a cluster meet. */
static inline void play_cluster_barrier() {
    const int phase = play.phase;
    if (++play.came == play.threads * play.cluster)
        play.came = 0, play.phase++, play.waits = 0;
    else
        while (play.phase == phase)
            play_wait();
}

/* Where another block of the cluster has what this one has at p. */
static inline const void *play_cluster_place(const void *p, int block) {
    const unsigned char *at = (const unsigned char *)p, *mine = play.now->team->dynamic;
    if (at < mine || at >= mine + play.shared || block < 0 || block >= play.cluster)
        play_error("what another block has is not in shared memory");
    return play.teams[block].dynamic + (at - mine);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static inline void *play_dynamic() { return play.now->team->dynamic; }

/* What such instructions are given lies in the card's memory. */
static inline const void *play_global(const void *p) {
    const unsigned char *at = (const unsigned char *)p, *shared = play.now->team->dynamic;
    if (at >= shared && at < shared + play.shared)
        play_error("shared memory is read as if it were global");
    return p;
}

/* Bytes behind `taken` become zero. */
static inline void play_copy_async(void *to, const void *from, int bytes, int taken) {
    play_thread *t = play.now;
    if (t->copies == PLAY_COPIES)
        play_error("more copies are under way than the player counts");
    play_global(from);
    if ((uintptr_t)to % (unsigned)bytes || (taken && (uintptr_t)from % (unsigned)bytes))
        play_error("a copy is not aligned");
    t->copy[t->copies++] = play_copy{to, from, bytes, taken, t->group};
}

static inline void play_copy_commit() { play.now->group++; }

/* All groups but the last `left` are there. */
static inline void play_copy_wait(int left) {
    play_thread *t = play.now;
    int kept = 0;
    for (int i = 0; i < t->copies; i++) {
        const play_copy c = t->copy[i];
        if (c.group >= t->group - left) {
            t->copy[kept++] = c;
            continue;
        }
        memset(c.to, 0, (size_t)c.bytes);
        if (c.taken)
            memcpy(c.to, c.from, (size_t)c.taken);
    }
    t->copies = kept;
}

static inline void __threadfence() {}
template <class X> static inline X __ldg(const X *p) { return *(const X *)play_global(p); }
template <class X> static inline X __ldcg(const X *p) { return *(const X *)play_global(p); }
template <class X> static inline void __stcg(X *p, X x) { *(X *)play_global(p) = x; }

template <class X> static inline X atomicAdd(X *at, X x) {
    const X old = *at;
    *at = (X)(old + x);
    return old;
}
template <class X> static inline X atomicOr(X *at, X x) {
    const X old = *at;
    *at = (X)(old | x);
    return old;
}
template <class X> static inline X atomicMax(X *at, X x) {
    const X old = *at;
    *at = x > old ? x : old;
    return old;
}
template <class X> static inline X atomicExch(X *at, X x) {
    const X old = *at;
    *at = x;
    return old;
}
template <class X> static inline X atomicCAS(X *at, X compare, X x) {
    const X old = *at;
    if (old == compare)
        *at = x;
    return old;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static inline float __uint_as_float(unsigned x) {
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float x) {
    unsigned u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline long long __double_as_longlong(double x) {
    long long i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
template <class X> static inline X min(X a, X b) { return b < a ? b : a; }
template <class X> static inline X max(X a, X b) { return a < b ? b : a; }

/* Half precision to and from float, rounded to the nearest, ties to even. */
static inline float play_half_float(unsigned short h) {
    const unsigned sign = (unsigned)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00)
        return __uint_as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    const float size = rest < 0x400 ? ldexpf((float)rest, -24)
                                    : __uint_as_float((rest << 13) + (112u << 23));
    return sign ? -size : size;
}

static inline unsigned short play_float_half(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
    unsigned rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (unsigned short)(sign | 0x7fff);
    if (rest >= 0x477ff000) /* 65520, half way to what there is not */
        return (unsigned short)(sign | 0x7c00);
    if (rest < 0x38800000) /* below the least normal one */
        return (unsigned short)(sign | (unsigned)lrintf(ldexpf(__uint_as_float(rest), 24)));
    rest += 0xfff + (rest >> 13 & 1);
    return (unsigned short)(sign | ((rest - 0x38000000) >> 13));
}

/* ---- matrices of a warp ---------------------------------------------------------------------- */

/* Four matrices of 8 rows of 16 bytes: lane i gives the address of row i % 8 of matrix i / 8, and
 * is given a word of a row of each, or of a column of 16-bit elements where they are turned. */
static inline void play_ldmatrix(unsigned *r, const void *row, bool turned) {
    if ((uintptr_t)row % 16)
        play_error("a row of a matrix is not aligned");
    unsigned char(*all)[PLAY_LANE] = play_meet(turned ? 8 : 7, &row, sizeof row);
    const int lane = play_me();
    for (int m = 0; m < 4; m++) {
        const unsigned char *from;
        unsigned short part[2];
        for (int i = 0; i < 2; i++) {
            const int y = turned ? 2 * (lane % 4) + i : lane / 4;
            const int x = turned ? lane / 4 : 2 * (lane % 4) + i;
            memcpy(&from, all[8 * m + y], sizeof from);
            memcpy(&part[i], from + 2 * x, 2);
        }
        r[m] = part[0] | (unsigned)part[1] << 16;
    }
}

struct play_fragment {
    unsigned a[4], b[2];
};

static inline float play_element(unsigned word, int half, int type) {
    if (type == 2)
        return __uint_as_float(word & 0xffffe000);
    const unsigned short h = (unsigned short)(half ? word >> 16 : word);
    return type ? play_half_float(h) : __uint_as_float((unsigned)h << 16);
}

/* d += a b: m16n8k16 of bf16 (type 0) or f16 (1), m16n8k8 of tf32 (2). */
static inline void play_mma(float *d, const unsigned *a, const unsigned *b, int type) {
    const play_fragment mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    unsigned char(*all)[PLAY_LANE] = play_meet(9 + type, &mine, sizeof mine);
    const int lane = play_me(), wide = type == 2 ? 1 : 2;
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        float sum = 0;
        for (int k = 0; k < 8; k++) { /* a word of a row */
            unsigned from, to;
            memcpy(&from, all[row % 8 * 4 + k % 4] + 4 * (row / 8 + k / 4 * 2), 4);
            memcpy(&to, all[column * 4 + k % 4] + 16 + 4 * (k / 4), 4);
            for (int half = 0; half < wide; half++)
                sum += play_element(from, half, type) * play_element(to, half, type);
        }
        d[i] += sum;
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

/* A kernel's parameters are words of 8 bytes. Where integers and doubles are passed in registers of
 * their own, and integers alone overflow to the stack, any such function can be called so. */
#if !defined __x86_64__ && !defined __aarch64__
#error "kernels are called by the conventions of x86-64 and aarch64"
#endif
typedef uint64_t W;
typedef double D;
typedef void play_function(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
                           W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
                           W, W, D, D, D, D, D, D, D, D);

static void play_body() {
    const W *w = play.word;
    const D *d = play.real;
    ((play_function *)(void (*)())play.kernel)(
        w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
        w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24],
        w[25], w[26], w[27], w[28], w[29], w[30], w[31], w[32], w[33], w[34], w[35], w[36],
        w[37], w[38], w[39], w[40], w[41], w[42], w[43], w[44], w[45], w[46], w[47], d[0],
        d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
    play_thread *t = play.now;
    if (!t->waited)
        play_error("a kernel does not wait for the one before it");
    play_copy_wait(0);
    t->state = PLAY_DONE;
    play.waits = 0;
    _longjmp(play.scheduler, 1);
}

static inline void play_start(play_thread *t) {
    ucontext_t back; /* never gone back to */
    getcontext(&t->start);
    t->start.uc_stack.ss_sp = t->stack;
    t->start.uc_stack.ss_size = PLAY_STACK;
    t->start.uc_link = NULL;
    makecontext(&t->start, play_body, 0);
    swapcontext(&back, &t->start);
}

/* Runs a fiber until it waits or ends. */
static inline void play_step(play_thread *t) {
    play.now = t;
    if (!_setjmp(play.scheduler)) {
        if (t->state == PLAY_READY)
            play_start(t);
        _longjmp(t->at, 1);
    }
    play.now = NULL;
}

/* Blocks of a cluster, which are beside each other in z, have numbers one after the other. */
static inline void play_prepare(play_team *team, unsigned number, size_t shared) {
    memset(team->dynamic, 0xff, shared);
    team->came = team->phase = 0;
    const play_index g = play.grid, b = play.block;
    const unsigned c = (unsigned)play.cluster, first = number / c, plane = g.x * g.y;
    const play_index at = {first % g.x, first / g.x % g.y, first / plane * c + number % c};
    for (int i = 0; i < play.threads; i++) {
        play_thread *t = &team->thread[i];
        const unsigned n = (unsigned)i;
        t->thread = play_index{n % b.x, n / b.x % b.y, n / b.x / b.y};
        t->block = at;
        t->state = PLAY_READY, t->number = i;
        t->meeting = t->copies = t->group = 0, t->waited = false;
        t->team = team, t->warp = &team->warp[i / 32];
        t->warp->came = t->warp->meeting = 0;
        t->warp->lanes = play.threads - i / 32 * 32 < 32 ? play.threads - i / 32 * 32 : 32;
    }
}

/* Runs the fibers of these blocks until all are done. A round in which all that are left wait, and
 * none goes on, is the end. */
static inline void play_run(play_team *team, int teams) {
    for (int alive = 1; alive && !play.wrong;) {
        alive = 0;
        for (int i = 0; i < teams; i++)
            for (int j = 0; j < play.threads && !play.wrong; j++)
                if (team[i].thread[j].state != PLAY_DONE) {
                    play_step(&team[i].thread[j]);
                    alive++;
                }
        if (alive && play.waits > 3L * alive)
            play.wrong = "threads wait for others that do not come";
    }
}

/* Runs a kernel, all its blocks at once (cooperative), or one cluster after the other; NULL, or
 * what is wrong with it. word: its parameters that are pointers and integers, 48 of them; real:
 * those that are doubles, 8. */
extern "C" const char *play_all(void (*kernel)(), const unsigned *grid, const unsigned *block,
                                size_t shared, const uint64_t *word, const double *real,
                                int cooperative, int cluster) {
    memset(&play, 0, sizeof play);
    play.grid = play_index{grid[0], grid[1], grid[2]};
    play.block = play_index{block[0], block[1], block[2]};
    play.kernel = kernel, play.word = word, play.real = real, play.shared = shared;
    play.threads = (int)(block[0] * block[1] * block[2]);
    play.blocks = (int)(grid[0] * grid[1] * grid[2]);
    play.cluster = cluster > 1 ? cluster : 1;
    const int teams = cooperative ? play.blocks : play.cluster, warps = (play.threads + 31) / 32;
    play_team *team = (play_team *)calloc((size_t)teams, sizeof *team);
    play.teams = team;
    for (int i = 0; i < teams; i++) {
        team[i].thread = (play_thread *)calloc((size_t)play.threads, sizeof *team->thread);
        team[i].warp = (play_warp *)calloc((size_t)warps, sizeof *team->warp);
        if (posix_memalign((void **)&team[i].dynamic, 128, shared ? shared : 1))
            return "no memory";
        for (int j = 0; j < play.threads; j++)
            team[i].thread[j].stack = malloc(PLAY_STACK);
    }
    for (int b = 0; b < play.blocks && !play.wrong; b += teams) {
        for (int i = 0; i < teams; i++)
            play_prepare(&team[i], (unsigned)(b + i), shared);
        play_run(team, teams);
    }
    for (int i = 0; i < teams; i++) {
        for (int j = 0; j < play.threads; j++)
            free(team[i].thread[j].stack);
        free(team[i].dynamic), free(team[i].warp), free(team[i].thread);
    }
    free(team);
    return play.wrong;
}

#define CFX_PLAY 1

#endif
