/* The ground: objects that are counted, scopes that own results, and the one sticky error.
 *
 * Three words say who owns what in every comment of these headers:
 *   scope    the result belongs to the current scope and dies with it, unless kept;
 *   keeps    the call takes a count of its own on what it is given;
 *   borrows  the result lives as long as the object it was read from. */
#ifndef CFX_BASE_H
#define CFX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CFX_API __attribute__((visibility("default")))
#define CFX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CFX_API
#define CFX_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the caller's source. Every macro of the public face passes the user's own. */
typedef struct cfx_site {
    const char *file;
    int line;
} cfx_site;

#ifdef __cplusplus
#define CFX_HERE (cfx_site{__FILE__, __LINE__})
#elif defined(CFX_LIBRARY) /* its own lines tell a caller nothing */
#define CFX_HERE ((cfx_site){NULL, 0})
#else
#define CFX_HERE ((cfx_site){__FILE__, __LINE__})
#endif

/* ---- counted objects ------------------------------------------------------------------------- */

/* The head of everything that is counted: tensors, lists, dicts, strings, modules.
 *
 * Counts may be changed by any thread. Beyond that an object is for one thread at a time, unless
 * its type says more: one that was kept may be handed to another thread, and what nobody changes
 * may be read by all. Scopes, errors, limits, modes and random numbers are each thread's own. */
typedef struct cfx_obj {
    int32_t refs;
    uint32_t flags;
    const struct cfx__obj_type *type;
} cfx_obj;

/* Adds a count, so that `obj` outlives its scope. NULL and bad objects pass through. Returns obj.
 */
CFX_API void *cfx_keep_obj(void *obj);
/* Takes a count back; the last one frees. NULL and bad objects are left alone. */
CFX_API void cfx_drop(void *obj);

/* Whether obj is what a failed call gave: a bad tensor, graph, module, cost, ..., or NULL. */
CFX_API bool cfx_failed(const void *obj);

#ifdef __cplusplus
extern "C++" {
template <typename T> inline T *cfx_keep(T *obj) { return static_cast<T *>(cfx_keep_obj(obj)); }
}
#else
#define cfx_keep(obj) ((__typeof__(obj))cfx_keep_obj(obj))
#endif

/* ---- scopes ---------------------------------------------------------------------------------- */

/* Opens a scope: what is made from now on dies at the matching close. Returns the mark to close. */
CFX_API size_t cfx_scope_open(void);
/* Drops everything made since `mark`. Inner scopes that were left by a jump are closed with it. */
CFX_API void cfx_scope_close(size_t mark);
/* The same, but `obj` survives and belongs to the scope outside. Returns obj. */
CFX_API void *cfx_scope_return(size_t mark, void *obj);

/* CFX_SCOPE { ... } frees at its end what the block made. Leaving it by break, return or goto is
 * no leak: the scope outside then frees it later. */
#define CFX_SCOPE CFX_SCOPE_(CFX_NAME_(cfx_mark_, __LINE__), CFX_NAME_(cfx_once_, __LINE__))
#define CFX_SCOPE_(mark, once)                                                                     \
    for (size_t mark = cfx_scope_open(), once = 1; once; cfx_scope_close(mark), once = 0)
#define CFX_NAME_(a, b) CFX_NAME__(a, b)
#define CFX_NAME__(a, b) a##b

/* ---- errors ---------------------------------------------------------------------------------- */

/* What kind of mistake it was, named as Python names it. */
#define CFX_ERRORS(X)                                                                              \
    X(RUNTIME, "RuntimeError")                                                                     \
    X(TYPE, "TypeError")                                                                           \
    X(VALUE, "ValueError")                                                                         \
    X(INDEX, "IndexError")                                                                         \
    X(KEY, "KeyError")                                                                             \
    X(NAME, "NameError")                                                                           \
    X(ATTRIBUTE, "AttributeError")                                                                 \
    X(ASSERTION, "AssertionError")                                                                 \
    X(NOT_IMPLEMENTED, "NotImplementedError")                                                      \
    X(TRACE, "TraceError")                                                                         \
    X(MEMORY, "MemoryError")                                                                       \
    X(LIMIT, "LimitError")                                                                         \
    X(SPEC_VIOLATION, "SpecViolationError")                                                        \
    X(FILE, "FileError")

typedef enum cfx_error_kind {
    CFX_NO_ERROR,
#define CFX_ERROR_ENUM(name, text) CFX_##name##_ERROR,
    CFX_ERRORS(CFX_ERROR_ENUM)
#undef CFX_ERROR_ENUM
} cfx_error_kind;

/* The first thing that went wrong since the last clear. Strings are borrowed from the context. */
typedef struct cfx_error {
    cfx_error_kind kind;
    const char *message; /* PyTorch's sentence where it has one */
    cfx_site at;        /* the caller's file and line; file is NULL where unknown */
    const char *op;      /* the operator that was called, "aten::mm", or NULL */
    const char
        *notes; /* what outer layers added, one a line ("While executing %relu ..."), or NULL */
} cfx_error;

/* Whether no error is recorded. */
CFX_API bool cfx_ok(void);
/* The recorded error, or NULL. Borrowed; valid until cfx_error_clear or cfx_report. */
CFX_API const cfx_error *cfx_error_last(void);
/* "RuntimeError" and so on; static. */
CFX_API const char *cfx_error_kind_name(cfx_error_kind kind);
/* Records an error unless one is recorded already: the first one wins. For operators and passes of
 * your own; everything in the library goes through it too. */
CFX_API void cfx_fail(cfx_error_kind kind, cfx_site at, const char *fmt, ...) CFX_PRINTF(3, 4);
/* Adds a line to the recorded error, if any. */
CFX_API void cfx_error_note(const char *fmt, ...) CFX_PRINTF(1, 2);
/* Forgets the recorded error. */
CFX_API void cfx_error_clear(void);
/* Prints the recorded error, if any, as `file:line: Kind: message` and its notes, and clears it.
 * Returns whether there was none. */
CFX_API bool cfx_report(FILE *out);
/* Reports, then frees everything this thread's context holds. Returns 0, or 1 after an error: made
 * to end main with. */
CFX_API int cfx_finish(FILE *out);

/* What programs print while they run, a line at a time: torch.ops.higher_order.print, and how long
 * regions took that are timed (torch.profiler.record_function). Of this thread; NULL: to stderr,
 * where they go unless this is set. */
typedef void cfx_log_fn(const char *line, void *user);
CFX_API void cfx_set_log(cfx_log_fn *fn, void *user);

/* ---- limits ---------------------------------------------------------------------------------- */

/* Limits are for files and graphs that nobody vouches for; see SECURITY.md.
 *
 * While the library holds more than so many bytes, in all threads together, whatever this thread
 * asks for beyond that is an ordinary MemoryError; 0: no limit but the machine's. Counted are
 * tensors, graphs, texts and everything else but files, which are mapped, and what the libraries
 * below take for themselves. Returns the limit before. */
CFX_API size_t cfx_set_memory_limit(size_t bytes);
/* The bytes that the library holds now, in all threads together; blocks kept for use again count.
 * What other threads did last may be missing, up to 64 KiB of each. */
CFX_API size_t cfx_memory_held(void);
/* The most nodes that a graph of this thread's may be given, from a file or otherwise; one more is
 * a LimitError. 0: no limit. Returns the limit before. */
CFX_API int64_t cfx_set_node_limit(int64_t nodes);
/* From now on the calls of this thread have so many seconds together, by the clock; what is not
 * done by then stops at the next node or operator with a LimitError. 0: no limit. Returns the
 * seconds that were left of the limit before, or 0. */
CFX_API double cfx_set_time_limit(double seconds);
/* While calls of this thread go on, asks fn(user) now and then (20 times a second, between nodes
 * and operators) whether to stop: where it says true, what is under way stops with the error that
 * fn recorded, or with a RuntimeError. NULL: nobody is asked. */
typedef bool cfx_interrupt_fn(void *user);
CFX_API void cfx_set_interrupt(cfx_interrupt_fn *fn, void *user);
/* Whether this thread reads files whole rather than mapping them. A mapped file costs no memory and
 * no time, but nobody may cut it short while it is in use: the system then ends the process
 * (SIGBUS). Returns what was set before; files are mapped unless this is set. */
CFX_API bool cfx_set_copy_files(bool on);

/* ---- precision ------------------------------------------------------------------------------- */

/* What float32 products and convolutions multiply. Sums are float32 always, and so is everything
 * but products: norms, softmax, activations, what is added. On the CPU, plans keep weights as bf16
 * or f16: half the memory to read, which is what time goes to where few rows are multiplied at a
 * time. Where the machine multiplies bf16 itself (AVX512-BF16, AMX), what products multiply weights
 * with is rounded too, which makes them about twice as fast, or more; elsewhere and in f16 weights
 * become float32 again on their way. On a card, all that products multiply is rounded. tf32 is a
 * card's: the CPU computes it in float32. */
typedef enum cfx_precision {
    CFX_PRECISION_F32,
    CFX_PRECISION_BF16, /* 8 bits of mantissa, all the range */
    CFX_PRECISION_F16,  /* 11 bits, numbers up to 65504 */
    CFX_PRECISION_TF32  /* 11 bits, all the range; on a card */
} cfx_precision;
/* For plans that this thread makes and runs from now on, and attention. Returns what was before. */
CFX_API cfx_precision cfx_set_precision(cfx_precision p);
CFX_API cfx_precision cfx_get_precision(void);

/* ---- threads --------------------------------------------------------------------------------- */

/* How many threads one operator of this thread may use; n < 1 asks for all cores. */
CFX_API void cfx_set_num_threads(int n);
/* The number in force. */
CFX_API int cfx_get_num_threads(void);

#ifdef __cplusplus
}
#endif
#endif
