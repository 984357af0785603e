/* Conversion between dtypes, one strided row at a time: the body of one pair is convert_pair.inc;
 * here it is included for all pairs of the dtypes that are computed in, and the table finds them.
 * The others, for storage, are known to one of those, through which they go to the rest. */
#include "tensor.h"

#include "float8.h"

typedef struct { float re, im; } c64;
typedef struct { double re, im; } c128;

#define CAT_(a, b) from_##a##_to_##b
#define CAT(a, b) CAT_(a, b)
#define SAME(x) (x)
#define NOTHING(x) 0

/* Floats become integers through int64; the upper half of uint64 has none to go through, and beyond
 * it is 0. */
static inline uint64_t to_u64(double f) {
    return f >= 0x1p64 ? 0 : f >= 0x1p63 ? (uint64_t)f : (uint64_t)cfx__int64_of(f);
}

#define FROM U8
#define S uint8_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM I8
#define S int8_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM I16
#define S int16_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM I32
#define S int32_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM I64
#define S int64_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM U64
#define S uint64_t
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM F16
#define S uint16_t
#define RE(x) cfx__f16_load(x)
#define IM(x) NOTHING(x)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"
#define FROM F32
#define S float
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"
#define FROM F64
#define S double
#define RE(x) SAME(x)
#define IM(x) NOTHING(x)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"
#define FROM C64
#define S c64
#define RE(x) ((x).re)
#define IM(x) ((x).im)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"
#define FROM C128
#define S c128
#define RE(x) ((x).re)
#define IM(x) ((x).im)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"
#define FROM BOOL
#define S uint8_t
#define RE(x) ((x) != 0)
#define IM(x) NOTHING(x)
#define INT(v) ((int64_t)(v))
#define UINT(v) ((uint64_t)(v))
#include "convert_from.inc"
#define FROM BF16
#define S uint16_t
#define RE(x) cfx__bf16_load(x)
#define IM(x) NOTHING(x)
#define INT(v) cfx__int64_of(v)
#define UINT(v) to_u64(v)
#include "convert_from.inc"

typedef void convert_fn(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n);

#define ROW(from)                                                                                  \
    [CFX_##from] = {                                                                               \
        [CFX_U8] = from_##from##_to_U8,   [CFX_I8] = from_##from##_to_I8,                          \
        [CFX_I16] = from_##from##_to_I16, [CFX_I32] = from_##from##_to_I32,                        \
        [CFX_I64] = from_##from##_to_I64, [CFX_F16] = from_##from##_to_F16,                        \
        [CFX_F32] = from_##from##_to_F32, [CFX_F64] = from_##from##_to_F64,                        \
        [CFX_C64] = from_##from##_to_C64, [CFX_C128] = from_##from##_to_C128,                      \
        [CFX_BOOL] = from_##from##_to_BOOL, [CFX_BF16] = from_##from##_to_BF16,                    \
        [CFX_U64] = from_##from##_to_U64,                                                          \
    }

static convert_fn *const table[CFX_DTYPE_END][CFX_DTYPE_END] = {
    ROW(U8),  ROW(I8),  ROW(I16), ROW(I32),  ROW(I64),  ROW(F16),
    ROW(F32), ROW(F64), ROW(C64), ROW(C128), ROW(BOOL), ROW(BF16), ROW(U64),
};

/* ---- dtypes for storage ---------------------------------------------------------------------- */

typedef struct { uint16_t re, im; } c32;

/* Rows of one of them to or from the dtype that holds all its numbers; strides in bytes. */
#define STORED(id, S, W, load, store)                                                              \
    CFX__SIMD static void load_##id(char *dst, int64_t ds, const char *src, int64_t ss,            \
                                    int64_t n) {                                                   \
        (void)ds;                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((W *)dst)[i] = load(*(const S *)(src + i * ss));                                      \
    }                                                                                              \
    CFX__SIMD static void store_##id(char *dst, int64_t ds, const char *src, int64_t ss,           \
                                     int64_t n) {                                                  \
        (void)ss;                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            *(S *)(dst + i * ds) = store(((const W *)src)[i]);                                     \
    }

#define C32_LOAD(x) ((c64){cfx__f16_load((x).re), cfx__f16_load((x).im)})
#define C32_STORE(x) ((c32){cfx__f16_store((x).re), cfx__f16_store((x).im)})
STORED(U16, uint16_t, int64_t, (int64_t), (uint16_t))
STORED(U32, uint32_t, int64_t, (int64_t), (uint32_t))
STORED(C32, c32, c64, C32_LOAD, C32_STORE)
STORED(F8E4M3FN, uint8_t, float, e4m3fn_load, e4m3fn_store)
STORED(F8E5M2, uint8_t, float, e5m2_load, e5m2_store)
STORED(F8E4M3FNUZ, uint8_t, float, e4m3fnuz_load, e4m3fnuz_store)
STORED(F8E5M2FNUZ, uint8_t, float, e5m2fnuz_load, e5m2fnuz_store)
STORED(F8E8M0FNU, uint8_t, float, e8m0fnu_load, e8m0fnu_store)

/* Both as cfx__dtype_wide has it; uint64 has conversions of its own above. */
static const struct {
    convert_fn *load, *store;
} stored[CFX_DTYPE_END] = {
#define IS(id) [CFX_##id] = {load_##id, store_##id}
    IS(U16),    IS(U32),        IS(C32),        IS(F8E4M3FN),
    IS(F8E5M2), IS(F8E4M3FNUZ), IS(F8E5M2FNUZ), IS(F8E8M0FNU),
#undef IS
};

/* From, to or between dtypes for storage, in blocks. */
static void convert_stored(char *dst, int64_t ds, cfx_dtype to, const char *src, int64_t ss,
                           cfx_dtype from, int64_t n) {
    enum { BLOCK = 256 };
    _Alignas(16) char wide[BLOCK * 16], other[BLOCK * 16];
    cfx_dtype in = stored[from].load ? cfx__dtype_wide(from) : from;
    cfx_dtype out = stored[to].store ? cfx__dtype_wide(to) : to;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK, step = ss;
        const char *s = src + at * ss;
        if (in != from) {
            stored[from].load(wide, 0, s, ss, m);
            s = wide;
            step = cfx_dtype_size(in);
        }
        if (out == to) {
            cfx__convert(dst + at * ds, ds, to, s, step, in, m);
            continue;
        }
        if (in != out || s != wide) {
            cfx__convert(other, cfx_dtype_size(out), out, s, step, in, m);
            s = other;
        }
        stored[to].store(dst + at * ds, ds, s, 0, m);
    }
}

/* ---- any two --------------------------------------------------------------------------------- */

/* Elements of one dtype move as bits: nothing is rounded, NaNs keep their payload. */
static void move_bits(char *dst, int64_t ds, const char *src, int64_t ss, int size, int64_t n) {
    if (ds == size && ss == size) {
        memmove(dst, src, (size_t)(n * size));
        return;
    }
    switch (size) {
#define MOVE(bytes, T)                                                                             \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            *(T *)(dst + i * ds) = *(const T *)(src + i * ss);                                     \
        return;
        MOVE(1, uint8_t)
        MOVE(2, uint16_t)
        MOVE(4, uint32_t)
        MOVE(8, uint64_t)
#undef MOVE
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, (size_t)size);
    }
}

void cfx__convert(char *dst, int64_t ds, cfx_dtype to, const char *src, int64_t ss, cfx_dtype from,
                  int64_t n) {
    if (from == to)
        move_bits(dst, ds, src, ss, cfx_dtype_size(from), n);
    else if (unlikely(cfx__dtype_is_quantized(from) || cfx__dtype_is_quantized(to)))
        cfx__convert(dst, ds, cfx__dtype_stored(to), src, ss, cfx__dtype_stored(from), n);
    else if (stored[from].load || stored[to].store)
        convert_stored(dst, ds, to, src, ss, from, n);
    else
        table[from][to](dst, ds, src, ss, n);
}

void cfx__convert_in(void *dst, cfx_dtype to, const char *src, int64_t stride, cfx_dtype from,
                     int64_t n) {
    cfx__convert(dst, cfx_dtype_size(to), to, src, stride, from, n);
}

void cfx__convert_out(char *dst, int64_t stride, cfx_dtype to, const void *src, cfx_dtype from,
                      int64_t n) {
    cfx__convert(dst, stride, to, src, cfx_dtype_size(from), from, n);
}
