/* base: what every kernel text stands on: elements in memory and how they are read, 16 bytes at a
 * time, copies that go on while others compute, and the matrices of the tensor cores. It comes
 * first in each text.
 *
 * T is an element in memory: float, unsigned short with BF16 or HALF defined, or what the text
 * says. What a card does by an instruction of its own, the player of tests/play.h does by a
 * function. */

typedef long long i64;
typedef unsigned long long u64;

#ifndef T
#define T float
#endif

#define FULL 0xffffffffu
#define INFINITY_ __uint_as_float(0x7f800000u)
#define INLINE static __device__ __forceinline__

/* ---- elements -------------------------------------------------------------------------------- */

#ifdef CFX_PLAY
INLINE float half_float(unsigned short h) { return play_half_float(h); }
INLINE unsigned short float_half(float x) { return play_float_half(x); }
#else
INLINE float half_float(unsigned short h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
INLINE unsigned short float_half(float x) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif

INLINE float bf16_float(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
/* Rounded to the nearest, ties to even. */
INLINE unsigned short float_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if defined BF16
#define NARROW_FLOAT(h) bf16_float(h)
#define FLOAT_NARROW(x) float_bf16(x)
#else
#define NARROW_FLOAT(h) half_float(h)
#define FLOAT_NARROW(x) float_half(x)
#endif

INLINE float load(const float *p) { return *p; }
INLINE double load(const double *p) { return *p; }
INLINE i64 load(const i64 *p) { return *p; }
INLINE i64 load(const int *p) { return *p; }
INLINE float load(const unsigned short *p) { return NARROW_FLOAT(*p); }
INLINE void store(float *p, float x) { *p = x; }
INLINE void store(double *p, double x) { *p = x; }
INLINE void store(i64 *p, i64 x) { *p = x; }
INLINE void store(int *p, i64 x) { *p = (int)x; }
INLINE void store(unsigned short *p, float x) { *p = FLOAT_NARROW(x); }

/* Two of 16 bits in a word, the first in the low bits. */
INLINE unsigned narrow_pair(float low, float high) {
#if defined CFX_PLAY
    return FLOAT_NARROW(low) | (unsigned)FLOAT_NARROW(high) << 16;
#elif defined BF16
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#endif
}

/* Two elements beside each other, aligned as a pair. */
INLINE void store_pair(float *p, const float *x) {
    float2 two;
    two.x = x[0], two.y = x[1];
    *(float2 *)p = two;
}
INLINE void store_pair(unsigned short *p, const float *x) {
    *(unsigned *)p = narrow_pair(x[0], x[1]);
}

/* 16 bytes of elements as floats: CHUNK of them. */
#define CHUNK ((int)(16 / sizeof(T)))
INLINE void spread(const uint4 &from, float *to, const float *) {
    to[0] = __uint_as_float(from.x), to[1] = __uint_as_float(from.y);
    to[2] = __uint_as_float(from.z), to[3] = __uint_as_float(from.w);
}
INLINE void spread(const uint4 &from, float *to, const unsigned short *) {
    const unsigned word[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = NARROW_FLOAT((unsigned short)word[i]);
        to[2 * i + 1] = NARROW_FLOAT((unsigned short)(word[i] >> 16));
    }
}

/* 16, 8 or 4 bytes that are read once: they need not stay in the cache. */
#ifdef CFX_PLAY
template <typename W> INLINE void load_once(const void *p, W *to) { *to = __ldg((const W *)p); }
#else
INLINE void load_once(const void *p, uint4 *to) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to->x), "=r"(to->y), "=r"(to->z), "=r"(to->w)
                 : "l"(p));
}
INLINE void load_once(const void *p, uint2 *to) {
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to->x), "=r"(to->y)
                 : "l"(p));
}
INLINE void load_once(const void *p, unsigned *to) {
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(*to) : "l"(p));
}
#endif

/* What is read soon comes to the first cache. */
INLINE void bring_near(const void *p) {
#ifdef CFX_PLAY
    (void)play_global(p);
#else
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
#endif
}

/* ---- threads together ------------------------------------------------------------------------ */

INLINE float warp_sum(float x) {
#pragma unroll
    for (int by = 16; by; by >>= 1)
        x += __shfl_xor_sync(FULL, x, by);
    return x;
}

/* NaN is the most there is. */
INLINE float larger(float a, float b) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
#else
    return a > b || a != a ? a : b;
#endif
}

INLINE float warp_max(float x) {
#pragma unroll
    for (int by = 16; by; by >>= 1)
        x = larger(x, __shfl_xor_sync(FULL, x, by));
    return x;
}

/* A kernel may be started while the one before it ends, so that its blocks are there when that is
 * done. Every kernel calls this first: what is behind it sees all that was written before, and
 * may write over what was read. Only what nobody writes may be read ahead of it, and `__ldg` is for
 * that alone: the compiler may move such reads anywhere. */
INLINE void wait_for_previous() {
#if defined CFX_PLAY
    play_previous();
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n"
                 "griddepcontrol.wait;" ::
                     : "memory");
#endif
}

/* Where `blocks` blocks share a tile: whether this one comes last, and so sees what all threads of
 * the others wrote before. The counter is 0 again for the next launch. All threads of a block call
 * it; what the others left is read past the first cache (`peek`). */
INLINE bool comes_last(int *counter, i64 tile, int blocks) {
    __threadfence();
    __syncthreads();
    int last = 0;
    if (threadIdx.x == 0)
        last = atomicAdd(counter + tile, 1) == blocks - 1;
    if (!__syncthreads_or(last))
        return false;
    __threadfence();
    if (threadIdx.x == 0)
        counter[tile] = 0;
    return true;
}

/* A number that another block left: not one that an earlier read brought to the first cache. */
INLINE float peek(const float *p) { return __ldcg(p); }

/* Blocks beside each other that run together and see each other's shared memory. */
#if defined CFX_PLAY || (defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900)
#define HAS_CLUSTERS 1
#else
#define HAS_CLUSTERS 0
#endif

#ifdef CFX_PLAY
#define DYNAMIC(type, name) type *name = (type *)play_dynamic()
INLINE void cluster_barrier() { play_cluster_barrier(); }
INLINE float cluster_load(const float *p, int block) {
    return *(const float *)play_cluster_place(p, block);
}
INLINE void copy_async(void *to, const void *from, bool there) {
    play_copy_async(to, from, 16, there ? 16 : 0);
}
INLINE void copy_commit() { play_copy_commit(); }
template <int LEFT> INLINE void copy_wait() { play_copy_wait(LEFT); }
INLINE void load_matrices(unsigned *r, const void *row) { play_ldmatrix(r, row, false); }
INLINE void load_matrices_turned(unsigned *r, const void *row) { play_ldmatrix(r, row, true); }
INLINE void mma_bf16(float *d, const unsigned *a, const unsigned *b) { play_mma(d, a, b, 0); }
INLINE void mma_f16(float *d, const unsigned *a, const unsigned *b) { play_mma(d, a, b, 1); }
INLINE void mma_tf32(float *d, const unsigned *a, const unsigned *b) { play_mma(d, a, b, 2); }
#else
extern __shared__ __align__(128) unsigned char dynamic_shared[];
#define DYNAMIC(type, name) type *name = (type *)dynamic_shared

INLINE unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
#if HAS_CLUSTERS
INLINE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
/* What another block of the cluster has where this one has p. */
INLINE float cluster_load(const float *p, int block) {
    unsigned at;
    float x;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
    return x;
}
#endif
/* 16 bytes to shared memory, or zeros where there is nothing to be read. */
INLINE void copy_async(void *to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
INLINE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* All groups but the last LEFT have arrived. */
template <int LEFT> INLINE void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
/* Four matrices of 8 rows of 16 bytes; lane i has the address of row i % 8 of matrix i / 8. */
INLINE void load_matrices(unsigned *r, const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
INLINE void load_matrices_turned(unsigned *r, const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
#define MMA(shape)                                                                                 \
    asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "       \
                 "{%0, %1, %2, %3};"                                                               \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
INLINE void mma_bf16(float *d, const unsigned *a, const unsigned *b) {
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
INLINE void mma_f16(float *d, const unsigned *a, const unsigned *b) {
    MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
INLINE void mma_tf32(float *d, const unsigned *a, const unsigned *b) {
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
#endif

/* d += a b of matrices whose rows are 32 bytes: 16 elements of 16 bits, or 8 of tf32. */
INLINE void mma(float *d, const unsigned *a, const unsigned *b) {
#if defined BF16
    mma_bf16(d, a, b);
#elif defined HALF
    mma_f16(d, a, b);
#else
    mma_tf32(d, a, b);
#endif
}

/* What floats are multiplied as. TF32, AS_F16 defined: rounded to such numbers, which are all
 * numbers of tf32, so that the tensor cores multiply them as they are (ROUND). None defined: as
 * floats (SPLIT): each is the sum of two of tf32, which have all but 2 of its 24 bits, and of the
 * four products of such sums the three that count are added. */
#if !defined BF16 && !defined HALF
#if defined TF32 || defined AS_F16
#define ROUND 1
#else
#define SPLIT 1
#endif
#endif
/* To the nearest. */
INLINE float round_float(float x) {
#if defined AS_F16
    return half_float(float_half(x));
#elif defined TF32
    return x != x ? x : __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000);
#else
    return x;
#endif
}
INLINE unsigned round_word(unsigned bits) {
    const float x = round_float(__uint_as_float(bits));
    return x != x ? 0x7fc00000 : __float_as_uint(x);
}
/* The second part of a float, whose first becomes what tf32 has of it. An infinity has none: what
 * comes of it is not a number, and is to be computed again. */
INLINE unsigned split_float(unsigned *bits) {
    const float whole = __uint_as_float(*bits);
    *bits &= 0xffffe000;
    return __float_as_uint(whole - __uint_as_float(*bits));
}

/* 2^x; what is too small to be a normal number is 0. */
INLINE float power_of_2(float x) {
#ifdef CFX_PLAY
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* For gelu and others in epilogues. */
INLINE float gelu(float x) { return 0.5f * x * (1 + erff(x * 0.70710678118654752f)); }
INLINE float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
INLINE float sigmoid(float x) { return 1 / (1 + expf(-x)); }
