/* base: what the other kernels stand on: which vectors there are, and marks for the compiler.
 *
 * Files of this folder are no part of the library: they are the text of generated C files
 * (../kernels.h), in pieces, a function or a type each. NAME_ becomes the prefix of the file that
 * they are written to; a line NAME_PARALLEL becomes the pragma of OpenMP, or nothing. */
#include <math.h>   /* not embedded: files that contain kernels begin with these */
#include <stddef.h> /* not embedded */
#include <stdint.h> /* not embedded */
#include <string.h> /* not embedded */
#define NAME_PARALLEL /* not embedded */

/* Bytes of a vector, as the compiler's macros tell; 0: plain C, as where floats are computed in
 * more precision than they have. */
#ifndef NAME_VECTOR
#if !defined(__GNUC__) || (defined(__i386__) && !defined(__SSE2_MATH__))
#define NAME_VECTOR 0
#elif defined(__AVX512F__) && defined(__AVX512BW__)
#define NAME_VECTOR 64
#elif defined(__AVX2__) && defined(__FMA__)
#define NAME_VECTOR 32
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define NAME_VECTOR 16
#else
#define NAME_VECTOR 0
#endif
#endif

/* Floats of a vector, and of what is read from a panel of weights at a time. */
enum { NAME_LANES = NAME_VECTOR / 4, NAME_PANEL = 16 };

#if NAME_VECTOR
typedef float NAME_vec __attribute__((vector_size(NAME_VECTOR), aligned(4), may_alias));
#endif

#if defined(__GNUC__)
#define NAME_INLINE static inline __attribute__((always_inline))
#else
#define NAME_INLINE static inline
#endif

#if defined(__clang__)
#define NAME_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define NAME_UNROLL _Pragma("GCC unroll 16")
#else
#define NAME_UNROLL
#endif
