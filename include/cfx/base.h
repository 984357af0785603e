/* Foundations: reference-counted objects, scopes that own results, and the sticky error.
 *
 * Three words state ownership in every comment of these headers:
 *   scope    the current scope owns the result and releases it when it closes, unless kept;
 *   keeps    the call adds a reference to its argument;
 *   borrows  the result is valid as long as the object that it was read from. */
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

/* A line of the caller's source. Every public macro passes the line where it is used. */
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

/* The first member of every reference-counted object: tensors, lists, dicts, strings, modules.
 *
 * Reference counts are atomic. Otherwise an object may be used by one thread at a time, unless
 * its type says more: a kept object may be passed to another thread, and an object that nobody
 * modifies may be read by all. Scopes, errors, limits, modes and random generators belong to a
 * thread. */
typedef struct cfx_obj {
    int32_t refs;
    uint32_t flags;
    const struct cfx__obj_type *type;
} cfx_obj;

/* Adds a reference, so that `obj` outlives its scope. Returns obj. NULL and bad objects are
 * returned unchanged. */
CFX_API void *cfx_keep_obj(void *obj);
/* Releases a reference; the last one frees the object. Ignores NULL and bad objects. */
CFX_API void cfx_drop(void *obj);

/* Whether obj is the result of a failed call: a bad tensor, graph, module, cost, ..., or NULL. */
CFX_API bool cfx_failed(const void *obj);

#ifdef __cplusplus
extern "C++" {
template <typename T> inline T *cfx_keep(T *obj) { return static_cast<T *>(cfx_keep_obj(obj)); }
}
#else
#define cfx_keep(obj) ((__typeof__(obj))cfx_keep_obj(obj))
#endif

/* ---- scopes ---------------------------------------------------------------------------------- */

/* Opens a scope, which owns all results made until it is closed. Returns its mark, for
 * cfx_scope_close. */
CFX_API size_t cfx_scope_open(void);
/* Closes the scope of `mark`: releases everything made since. Inner scopes left by a jump are
 * closed too. */
CFX_API void cfx_scope_close(size_t mark);
/* The same, but `obj` moves to the enclosing scope. Returns obj. */
CFX_API void *cfx_scope_return(size_t mark, void *obj);

/* CFX_SCOPE { ... } opens a scope for the block. Leaving it by break, return or goto does not
 * leak: the enclosing scope then releases its results. */
#define CFX_SCOPE CFX_SCOPE_(CFX_NAME_(cfx_mark_, __LINE__), CFX_NAME_(cfx_once_, __LINE__))
#define CFX_SCOPE_(mark, once)                                                                     \
    for (size_t mark = cfx_scope_open(), once = 1; once; cfx_scope_close(mark), once = 0)
#define CFX_NAME_(a, b) CFX_NAME__(a, b)
#define CFX_NAME__(a, b) a##b

/* ---- errors ---------------------------------------------------------------------------------- */

/* Kinds of errors, with Python's names. */
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
    X(FILE, "FileError")                                                                           \
    X(LINALG, "LinAlgError")

typedef enum cfx_error_kind {
    CFX_NO_ERROR,
#define CFX_ERROR_ENUM(name, text) CFX_##name##_ERROR,
    CFX_ERRORS(CFX_ERROR_ENUM)
#undef CFX_ERROR_ENUM
} cfx_error_kind;

/* The first error since the last clear. The context owns the strings. */
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
/* Records an error, unless one is recorded already: the first error wins. Also for operators and
 * passes of the caller. */
CFX_API void cfx_fail(cfx_error_kind kind, cfx_site at, const char *fmt, ...) CFX_PRINTF(3, 4);
/* Appends a line to the notes of the recorded error, if any. */
CFX_API void cfx_error_note(const char *fmt, ...) CFX_PRINTF(1, 2);
/* Clears the recorded error. */
CFX_API void cfx_error_clear(void);
/* Prints the recorded error, if any, as `file:line: Kind: message` and its notes, and clears it.
 * Returns whether there was none. */
CFX_API bool cfx_report(FILE *out);
/* Prints the error as cfx_report does, then frees everything that the context of this thread
 * holds. Returns 0, or 1 after an error: the return value for main. */
CFX_API int cfx_finish(FILE *out);

/* Sets the function that receives the output of running programs on this thread, a line at a
 * time: torch.ops.higher_order.print, and the times of torch.profiler.record_function. NULL: the
 * lines go to stderr, as by default. */
typedef void cfx_log_fn(const char *line, void *user);
CFX_API void cfx_set_log(cfx_log_fn *fn, void *user);

/* ---- limits ---------------------------------------------------------------------------------- */

/* Limits for untrusted files and graphs; see SECURITY.md.
 *
 * Limits the memory of the library, over all threads: an allocation of this thread beyond
 * `bytes` is a MemoryError. 0: no limit. Counts tensors, graphs, texts and everything else
 * except mapped files and memory of other libraries. Returns the previous limit. */
CFX_API size_t cfx_set_memory_limit(size_t bytes);
/* The bytes that the library holds now, over all threads, including blocks cached for reuse. May
 * miss up to 64 KiB of recent changes of each other thread. */
CFX_API size_t cfx_memory_held(void);
/* Limits the nodes of any graph that this thread makes or reads; exceeding it is a LimitError.
 * 0: no limit. Returns the previous limit. */
CFX_API int64_t cfx_set_node_limit(int64_t nodes);
/* Limits the total wall time of later calls of this thread. After that time a call stops at the
 * next node or operator with a LimitError. 0: no limit. Returns the seconds left of the previous
 * limit, or 0. */
CFX_API double cfx_set_time_limit(double seconds);
/* Sets a function that calls of this thread ask whether to stop, at most 20 times a second,
 * between nodes and operators. If fn returns true, the call stops with the error that fn
 * recorded, or with a RuntimeError. NULL: no function. */
typedef bool cfx_interrupt_fn(void *user);
CFX_API void cfx_set_interrupt(cfx_interrupt_fn *fn, void *user);
/* Sets whether this thread reads files instead of mapping them. Mapping takes no memory and no
 * time, but if another process truncates a mapped file, the system ends this process (SIGBUS).
 * Returns the previous setting; files are mapped by default. */
CFX_API bool cfx_set_copy_files(bool on);

/* ---- precision ------------------------------------------------------------------------------- */

/* The precision in which float32 products and convolutions multiply. Sums stay float32, and so
 * does everything else: norms, softmax, activations, additions. On the CPU, plans store weights
 * as bf16 or f16, which halves memory traffic, the limit where few rows are multiplied at a
 * time. If the machine multiplies bf16 (AVX512-BF16, AMX), the other factor is rounded too,
 * which is about twice as fast or more; otherwise, and for f16, weights are widened to float32
 * in registers. On a card, both factors are rounded. tf32 is only for cards; the CPU computes it
 * in float32. */
typedef enum cfx_precision {
    CFX_PRECISION_F32,
    CFX_PRECISION_BF16, /* 8 bits of mantissa, all the range */
    CFX_PRECISION_F16,  /* 11 bits, numbers up to 65504 */
    CFX_PRECISION_TF32  /* 11 bits, all the range; on a card */
} cfx_precision;
/* Sets the precision of plans that this thread makes and runs from now on, and of attention.
 * Returns the previous one. */
CFX_API cfx_precision cfx_set_precision(cfx_precision p);
CFX_API cfx_precision cfx_get_precision(void);

/* ---- threads --------------------------------------------------------------------------------- */

/* Sets the number of threads for one operator of this thread; n < 1: all cores. */
CFX_API void cfx_set_num_threads(int n);
/* The current number of threads. */
CFX_API int cfx_get_num_threads(void);

#ifdef __cplusplus
}
#endif
#endif
