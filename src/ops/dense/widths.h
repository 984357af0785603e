/* The vectors of this machine, and which kernel of widths.inc goes with them. */
#ifndef CFX__WIDTHS_H
#define CFX__WIDTHS_H

#define INLINE static inline __attribute__((always_inline))

/* The width in bytes of the vectors that this machine has: 64, 32 or 16. */
int vector_bytes(void);

/* The one of f_w64, f_w32 and f_w16, or of what stands in them at [..], that fits vectors of so
 * many bytes. */
#if defined(__x86_64__)
#define BY_WIDTH(bytes, f, ...)                                                                    \
    ((bytes) == 64   ? f##_w64 __VA_ARGS__                                                         \
     : (bytes) == 32 ? f##_w32 __VA_ARGS__                                                         \
                     : f##_w16 __VA_ARGS__)
#else
#define BY_WIDTH(bytes, f, ...) (f##_w16 __VA_ARGS__)
#endif

#endif
