/* rendered: what rendered kernels stand on: names of C, numbers of 16 bits, pieces of several
 * elements, folds over threads of a row. */
#ifndef CFX_PLAY
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define INT64_MAX 0x7fffffffffffffffLL
#define INT64_MIN (-INT64_MAX - 1)
#define INT64_C(x) x##LL
#endif
__device__ inline void cfx_previous() { /* see wait_for_previous in kernels/base.cu */
#if defined CFX_PLAY
    play_previous();
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
#endif
}
struct cfx_call { int *bad; };
/* N elements beside each other, at a multiple of EVEN. */
template <typename V, int N, int EVEN> struct alignas(sizeof(V) * EVEN) cfx_pack {
    V v[N];
};
/* Stores a piece: 16 bytes or 8 at a time, which compilers do not always find. */
template <typename V, int N, int EVEN>
__device__ inline void cfx_put(V *to, const cfx_pack<V, N, EVEN> &from) {
#ifndef CFX_PLAY
    if constexpr (sizeof(V) * EVEN >= 8) {
        enum { EACH = sizeof(V) < 4 ? 4 / sizeof(V) : 1 };
        uint32_t w[sizeof from / 4];
        if constexpr (EACH > 1) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const uint32_t v = sizeof(V) == 1 ? (uint8_t)from.v[i] : (uint16_t)from.v[i];
                w[i / EACH] = (i % EACH ? w[i / EACH] : 0) | v << (8 * sizeof(V) * (i % EACH));
            }
        } else {
            memcpy(w, &from, sizeof from);
        }
#pragma unroll
        for (int i = 0; i < (int)(sizeof from / 4); i += sizeof(V) * EVEN / 4)
            if constexpr (sizeof(V) * EVEN == 16)
                asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"((char *)to + 4 * i),
                             "r"(w[i]), "r"(w[i + 1]), "r"(w[i + 2]), "r"(w[i + 3])
                             : "memory");
            else
                asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"((char *)to + 4 * i),
                             "r"(w[i]), "r"(w[i + 1])
                             : "memory");
        return;
    }
#endif
    *(cfx_pack<V, N, EVEN> *)to = from;
}
__device__ inline float cfx_exp(float x) { return expf(x); }
__device__ inline float cfx_log(float x) { return logf(x); }
__device__ inline float cfx_tanh(float x) { return tanhf(x); }
__device__ inline float cfx_erf(float x) { return erff(x); }
__device__ inline float cfx_from_bf16(uint16_t h) {
    return __uint_as_float((uint32_t)h << 16);
}
__device__ inline uint16_t cfx_to_bf16(float x) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const uint32_t bits = __float_as_uint(x);
    return (uint16_t)(x != x ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
__device__ inline float cfx_from_f16(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16, sign = bits & 0x80000000u, rest = bits + bits;
    const float normal = __uint_as_float((rest >> 4) + (0xe0u << 23)) * 0x1p-112f;
    const float small = __uint_as_float((rest >> 17) | (126u << 23)) - 0.5f;
    return __uint_as_float(sign | __float_as_uint(rest < (1u << 27) ? small : normal));
}
__device__ inline uint16_t cfx_to_f16(float x) {
    const uint32_t bits = __float_as_uint(x), sign = (bits >> 16) & 0x8000u;
    const uint32_t rest = bits + bits, power = rest & 0xff000000u;
    const uint32_t least = power < 0x71000000u ? 0x71000000u : power;
    const float size = __uint_as_float(bits & 0x7fffffffu);
    const float moved = (size * 0x1p112f) * 0x1p-110f;
    const uint32_t sum = __float_as_uint(__uint_as_float((least >> 1) + 0x07800000u) + moved);
    const uint32_t number = ((sum >> 13) & 0x7c00u) + (sum & 0xfffu);
    return (uint16_t)(sign | (rest > 0xff000000u ? 0x7e00u : number));
}
struct cfx_sum {
    template <typename V> __device__ V operator()(V a, V b) { return a + b; }
};
struct cfx_product {
    template <typename V> __device__ V operator()(V a, V b) { return a * b; }
};
struct cfx_most { /* NaN wins */
    template <typename V> __device__ V operator()(V a, V b) {
        return a > b || a != a ? a : b;
    }
};
struct cfx_least {
    template <typename V> __device__ V operator()(V a, V b) {
        return a < b || a != a ? a : b;
    }
};
struct cfx_either { __device__ int operator()(int a, int b) { return a | b; } };
struct cfx_both { __device__ int operator()(int a, int b) { return a & b; } };
/* One value of those that the threads of a row have, LANES of them, STEP threads apart: the
   same in each run, whatever the order in which threads come. All threads of a block call
   it. */
template <int LANES, int STEP, int THREADS, typename V, typename F>
__device__ V cfx_fold(V v, int lane, F f) {
    if (STEP == 1 && LANES == 32) {
        for (int m = 16; m > 0; m /= 2)
            v = f(v, __shfl_xor_sync(0xffffffffu, v, m));
        return v;
    }
    if (STEP == 1 && LANES > 32) {
        __shared__ V of[THREADS / 32 + 1];
        const int first = (threadIdx.x - lane) / 32;
        for (int m = 16; m > 0; m /= 2)
            v = f(v, __shfl_xor_sync(0xffffffffu, v, m));
        if (threadIdx.x % 32 == 0)
            of[threadIdx.x / 32] = v;
        __syncthreads();
        v = of[first];
        for (int i = 1; i < LANES / 32; i++)
            v = f(v, of[first + i]);
        __syncthreads();
        return v;
    }
    __shared__ V part[THREADS];
    const int at = threadIdx.x;
    part[at] = v;
    __syncthreads();
    for (int m = LANES / 2; m > 0; m /= 2) {
        if (lane < m)
            part[at] = f(part[at], part[at + m * STEP]);
        __syncthreads();
    }
    v = part[at - lane * STEP];
    __syncthreads();
    return v;
}
