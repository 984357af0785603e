/* Element types: their names as PyTorch has them, and sizes. */
#ifndef CFX_DTYPE_H
#define CFX_DTYPE_H

#include <cfx/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types: C name, name, how torch.fx abbreviates it, bytes. Integers, floats and complex
 * numbers each come in PyTorch's order of promotion. Those from C32 on are for storage: they are
 * read, written, moved and converted; little is computed in them, as in PyTorch. */
#define CFX_DTYPES(X)                                                                              \
    X(U8, "uint8", "u8", 1)                                                                        \
    X(I8, "int8", "i8", 1)                                                                         \
    X(I16, "int16", "i16", 2)                                                                      \
    X(I32, "int32", "i32", 4)                                                                      \
    X(I64, "int64", "i64", 8)                                                                      \
    X(F16, "float16", "f16", 2)                                                                    \
    X(F32, "float32", "f32", 4)                                                                    \
    X(F64, "float64", "f64", 8)                                                                    \
    X(C64, "complex64", "c64", 8)                                                                  \
    X(C128, "complex128", "c128", 16)                                                              \
    X(BOOL, "bool", "b8", 1)                                                                       \
    X(BF16, "bfloat16", "bf16", 2)                                                                 \
    X(C32, "complex32", "c32", 4)                                                                  \
    X(U16, "uint16", "u16", 2)                                                                     \
    X(U32, "uint32", "u32", 4)                                                                     \
    X(U64, "uint64", "u64", 8)                                                                     \
    X(F8E4M3FN, "float8_e4m3fn", "f8e4m3fn", 1)                                                    \
    X(F8E5M2, "float8_e5m2", "f8e5m2", 1)                                                          \
    X(F8E4M3FNUZ, "float8_e4m3fnuz", "f8e4m3fnuz", 1)                                              \
    X(F8E5M2FNUZ, "float8_e5m2fnuz", "f8e5m2fnuz", 1)                                              \
    X(F8E8M0FNU, "float8_e8m0fnu", "f8e8m0fnu", 1)

/* Those of quantized tensors, integers with a scale: torch.quantize_per_tensor makes them. */
#define CFX_QUANTIZED_DTYPES(X)                                                                    \
    X(QI8, "qint8", "qi8", 1)                                                                      \
    X(QU8, "quint8", "qu8", 1)                                                                     \
    X(QI32, "qint32", "qi32", 4)

typedef enum cfx_dtype {
#define CFX_DTYPE_ENUM(name, text, brief, size) CFX_##name,
    CFX_DTYPES(CFX_DTYPE_ENUM)
        CFX_DTYPE_COUNT, /* of plain ones */
    CFX_DTYPE_LAST = CFX_DTYPE_COUNT - 1,
    CFX_QUANTIZED_DTYPES(CFX_DTYPE_ENUM)
#undef CFX_DTYPE_ENUM
        CFX_DTYPE_END /* of all: a table over dtypes has a place for each of these */
} cfx_dtype;

/* "float32" / "f32" / bytes of an element. */
CFX_API const char *cfx_dtype_name(cfx_dtype d);
CFX_API const char *cfx_dtype_brief(cfx_dtype d);
CFX_API int cfx_dtype_size(cfx_dtype d);
/* The dtype called "float32", "torch.float32", "f32" or "F32"; false when there is none. */
CFX_API bool cfx_dtype_parse(const char *text, cfx_dtype *out);

/* What floats become that have no dtype of their own, on this thread: torch.set_default_dtype;
 * float32 unless set. Returns what was before. Any that is no floating-point dtype is an error. */
CFX_API cfx_dtype cfx_set_default_dtype(cfx_dtype d);

/* The dtypes as values, for arguments: cfx_to(x, cfx_bf16). */
#define cfx_f64 cfx_dtype_value(CFX_F64)
#define cfx_f32 cfx_dtype_value(CFX_F32)
#define cfx_f16 cfx_dtype_value(CFX_F16)
#define cfx_bf16 cfx_dtype_value(CFX_BF16)
#define cfx_f8e4m3fn cfx_dtype_value(CFX_F8E4M3FN)
#define cfx_f8e5m2 cfx_dtype_value(CFX_F8E5M2)
#define cfx_f8e4m3fnuz cfx_dtype_value(CFX_F8E4M3FNUZ)
#define cfx_f8e5m2fnuz cfx_dtype_value(CFX_F8E5M2FNUZ)
#define cfx_f8e8m0fnu cfx_dtype_value(CFX_F8E8M0FNU)
#define cfx_i64 cfx_dtype_value(CFX_I64)
#define cfx_i32 cfx_dtype_value(CFX_I32)
#define cfx_i16 cfx_dtype_value(CFX_I16)
#define cfx_i8 cfx_dtype_value(CFX_I8)
#define cfx_u64 cfx_dtype_value(CFX_U64)
#define cfx_u32 cfx_dtype_value(CFX_U32)
#define cfx_u16 cfx_dtype_value(CFX_U16)
#define cfx_u8 cfx_dtype_value(CFX_U8)
#define cfx_b8 cfx_dtype_value(CFX_BOOL)
#define cfx_c32 cfx_dtype_value(CFX_C32)
#define cfx_c64 cfx_dtype_value(CFX_C64)
#define cfx_c128 cfx_dtype_value(CFX_C128)
#define cfx_qi8 cfx_dtype_value(CFX_QI8)
#define cfx_qu8 cfx_dtype_value(CFX_QU8)
#define cfx_qi32 cfx_dtype_value(CFX_QI32)

#ifdef __cplusplus
}
#endif
#endif
