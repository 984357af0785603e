/* Dtypes: promotion and what can be cast to what. Names and sizes are in value/repr.c, conversion
 * of numbers in convert.c. */
#include "tensor.h"

cfx_dtype cfx__dtype_stored(cfx_dtype d) {
    return d == CFX_QI8 ? CFX_I8 : d == CFX_QU8 ? CFX_U8 : d == CFX_QI32 ? CFX_I32 : d;
}

const char *cfx__dtype_title(cfx_dtype d) {
    static const char *const names[CFX_DTYPE_END] = {
        [CFX_U8] = "Byte",   [CFX_I8] = "Char",       [CFX_I16] = "Short",   [CFX_I32] = "Int",
        [CFX_I64] = "Long",  [CFX_F16] = "Half",      [CFX_F32] = "Float",   [CFX_F64] = "Double",
        [CFX_BOOL] = "Bool", [CFX_BF16] = "BFloat16", [CFX_C64] = "ComplexFloat",
        [CFX_C128] = "ComplexDouble", [CFX_C32] = "ComplexHalf",
        [CFX_U16] = "UInt16", [CFX_U32] = "UInt32", [CFX_U64] = "UInt64",
        [CFX_F8E4M3FN] = "Float8_e4m3fn", [CFX_F8E5M2] = "Float8_e5m2",
        [CFX_F8E4M3FNUZ] = "Float8_e4m3fnuz", [CFX_F8E5M2FNUZ] = "Float8_e5m2fnuz",
        [CFX_F8E8M0FNU] = "Float8_e8m0fnu", [CFX_QI8] = "QInt8", [CFX_QU8] = "QUInt8",
        [CFX_QI32] = "QInt32"};
    return names[d];
}

const char *cfx__dtype_cpp_name(cfx_dtype d) {
    static const char *const names[CFX_DTYPE_END] = {
        [CFX_U8] = "unsigned char",
        [CFX_I8] = "signed char",
        [CFX_I16] = "short int",
        [CFX_I32] = "int",
        [CFX_I64] = "long int",
        [CFX_F16] = "c10::Half",
        [CFX_F32] = "float",
        [CFX_F64] = "double",
        [CFX_BOOL] = "bool",
        [CFX_BF16] = "c10::BFloat16",
        [CFX_C64] = "c10::complex<float>",
        [CFX_C128] = "c10::complex<double>",
        [CFX_C32] = "c10::complex<c10::Half>",
        [CFX_U16] = "short unsigned int",
        [CFX_U32] = "unsigned int",
        [CFX_U64] = "long unsigned int",
        [CFX_F8E4M3FN] = "c10::Float8_e4m3fn",
        [CFX_F8E5M2] = "c10::Float8_e5m2",
        [CFX_F8E4M3FNUZ] = "c10::Float8_e4m3fnuz",
        [CFX_F8E5M2FNUZ] = "c10::Float8_e5m2fnuz",
        [CFX_F8E8M0FNU] = "c10::Float8_e8m0fnu",
        [CFX_QI8] = "c10::qint8",
        [CFX_QU8] = "c10::quint8",
        [CFX_QI32] = "c10::qint32"};
    return names[d];
}

cfx_dtype cfx__dtype_real(cfx_dtype d) {
    return d == CFX_C64 ? CFX_F32 : d == CFX_C128 ? CFX_F64 : d == CFX_C32 ? CFX_F16 : d;
}

/* 0 bool, 1 integer, 2 float, 3 complex */
static int category(cfx_dtype d) {
    d = cfx__dtype_stored(d);
    return d == CFX_BOOL ? 0 : cfx__dtype_is_integral(d) ? 1 : cfx__dtype_is_floating(d) ? 2 : 3;
}

/* What PyTorch leaves to the caller to convert. */
static cfx_dtype refuse(const char *which, cfx_dtype a, cfx_dtype b) {
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "Promotion for %s is not supported, attempted to promote %s and %s", which,
             cfx__dtype_title(a), cfx__dtype_title(b));
    return a;
}

cfx_dtype cfx__dtype_promote(cfx_dtype a, cfx_dtype b) {
    if (a == b)
        return a;
    if (cfx__dtype_is_float8(a) || cfx__dtype_is_float8(b))
        return refuse("Float8 Types", a, b);
    if (cfx__dtype_is_barebones(a) || cfx__dtype_is_barebones(b)) {
        cfx_dtype other = cfx__dtype_is_barebones(a) ? b : a;
        if (category(other) != 2)
            return refuse("uint16, uint32, uint64 types", a, b);
    }
    int ca = category(a), cb = category(b);
    if (ca < cb) {
        cfx_dtype t = a;
        a = b;
        b = t;
        int c = ca;
        ca = cb;
        cb = c;
    }
    if (ca == 3) {
        bool wide = a == CFX_C128 || b == CFX_C128 || b == CFX_F64;
        bool half = a == CFX_C32 && (cb < 2 || b == CFX_F16);
        return wide ? CFX_C128 : half ? CFX_C32 : CFX_C64;
    }
    if (ca != cb)
        return a;
    if (ca == 1) {
        if (a == CFX_U8 || b == CFX_U8) {
            cfx_dtype other = a == CFX_U8 ? b : a;
            return other == CFX_I8 ? CFX_I16 : other;
        }
        return a > b ? a : b;
    }
    if (a == CFX_F64 || b == CFX_F64)
        return CFX_F64;
    return CFX_F32; /* float16 with bfloat16, or either with float32 */
}

bool cfx__dtype_can_cast(cfx_dtype from, cfx_dtype to) { return category(from) <= category(to); }

static cfx_dtype default_float(void) {
    int d = cfx__ctx()->float_dtype;
    return likely(!d) ? CFX_F32 : (cfx_dtype)(d - 1);
}

static cfx_dtype default_complex(void) {
    cfx_dtype d = default_float();
    return d == CFX_F64 ? CFX_C128 : d == CFX_F16 ? CFX_C32 : CFX_C64;
}

cfx_dtype cfx_set_default_dtype(cfx_dtype d) {
    cfx_dtype before = default_float();
    if (d != CFX_F16 && d != CFX_BF16 && d != CFX_F32 && d != CFX_F64)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "only floating-point types are supported as the default type");
    else
        cfx__ctx()->float_dtype = d == CFX_F32 ? 0 : (int)d + 1;
    return before;
}

cfx_dtype cfx__dtype_of_number(cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_BOOL: return CFX_BOOL;
    case CFX_TAG_FLOAT: return default_float();
    case CFX_TAG_COMPLEX: return default_complex();
    default: return CFX_I64;
    }
}

static void join(int8_t *slot, cfx_dtype d) {
    *slot = (int8_t)(*slot < 0 ? (int)d : (int)cfx__dtype_promote((cfx_dtype)*slot, d));
}

void cfx__promotion_sized(cfx__promotion *p, cfx_dtype d, int ndim) {
    join(ndim > 0 ? &p->dim : &p->zero, d);
}

void cfx__promotion_tensor(cfx__promotion *p, const cfx_tensor *t) {
    cfx_dtype d = t->dtype;
    if (t->head.flags & CFX__WRAPPED) {
        if (cfx__dtype_is_complex(d))
            d = default_complex();
        else if (cfx__dtype_is_floating(d))
            d = default_float();
        join(&p->number, d);
    } else {
        cfx__promotion_sized(p, d, t->ndim);
    }
}

void cfx__promotion_value(cfx__promotion *p, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx__promotion_tensor(p, cfx_as_tensor(v));
    else if (cfx_is_number(v))
        join(&p->number, cfx__dtype_of_number(v));
}

/* A lower rank counts only when it is of a higher category. */
static int combine(int higher, int lower) {
    if (higher < 0)
        return lower;
    if (lower < 0 || category((cfx_dtype)higher) >= category((cfx_dtype)lower))
        return higher;
    if (category((cfx_dtype)lower) == 3 && category((cfx_dtype)higher) == 2)
        return (int)cfx__dtype_promote((cfx_dtype)higher, (cfx_dtype)lower); /* keeps its width */
    return lower;
}

cfx_dtype cfx__promotion_dtype(const cfx__promotion *p) {
    int d = combine(p->dim, combine(p->zero, p->number));
    return d < 0 ? CFX_F32 : (cfx_dtype)d;
}
