/* LAPACK for the four element types it has. */
#include "lapack.h"
#include "../libraries.h"

#include <complex.h>
#include <math.h>

/* The workspace asked for. In float32 the number is rounded, so a little is added to large ones. */
static int room_for(double asked) {
    double room = asked + asked / 1048576 + 1;
    return room < 1 ? 1 : room > INT32_MAX ? INT32_MAX : (int)room;
}

#define T float
#define R float
#define LAPACK_OF_T lapack_real
#define LETTER s
#define FN(name) name##_f32
#define COMPLEX 0
#define CONJ(x) (x)
#define ABS fabsf
#define LOG logf
#include "lapack.inc"

#define T double
#define R double
#define LAPACK_OF_T lapack_real
#define LETTER d
#define FN(name) name##_f64
#define COMPLEX 0
#define CONJ(x) (x)
#define ABS fabs
#define LOG log
#include "lapack.inc"

#define T float _Complex
#define R float
#define LAPACK_OF_T lapack_complex
#define LETTER c
#define FN(name) name##_c64
#define COMPLEX 1
#define CONJ conjf
#define ABS cabsf
#define LOG logf
#include "lapack.inc"

#define T double _Complex
#define R double
#define LAPACK_OF_T lapack_complex
#define LETTER z
#define FN(name) name##_c128
#define COMPLEX 1
#define CONJ conj
#define ABS cabs
#define LOG log
#include "lapack.inc"

const lapack *lapack_for(cfx_dtype dtype) {
    switch (dtype) {
    case CFX_F32: return &lapack_f32;
    case CFX_F64: return &lapack_f64;
    case CFX_C64: return &lapack_c64;
    case CFX_C128: return &lapack_c128;
    default: return NULL;
    }
}
