/* tensor: where numbers rest.
 *
 * Invariant: every element a tensor can reach lies inside its storage; sizes are >= 0 and their
 * product fits an int64; so does a stride in bytes, and its product with the size; data is NULL
 * exactly when the tensor is fake, traced or has no storage. Strides and offsets count elements,
 * never bytes, except inside the iterator. */
#ifndef CFX__TENSOR_H
#define CFX__TENSOR_H

#include <cfx/tensor.h>

#include "../value/value.h"

/* cfx_tensor_get for the library itself, whose reads are not the caller's. */
double cfx__tensor_number(const cfx_tensor *t, int64_t i);

#undef cfx_dim /* inside the library, where no line of the caller's is known */
#undef cfx_tensor_numel
#undef cfx_tensor_shape
#undef cfx_tensor_data
#undef cfx_tensor_get

#ifdef CFX_SANITIZE
enum { CFX__INLINE_DIMS = 0 }; /* so that sizes which a tensor does not have are seen to be read */
#else
enum { CFX__INLINE_DIMS = 5 };
#endif

/* cfx_obj.flags of tensors, beside CFX__BAD and CFX__TRACED (t->proxy has the node) */
enum {
    CFX__FAKE = 2,      /* no data: shape, dtype and strides only */
    CFX__WRAPPED = 8,   /* made from a number: takes part in promotion as a number */
    CFX__GRAD = 16,     /* requires_grad, or made from what does */
    CFX__INFERENCE = 32, /* made under inference mode */
    CFX__NO_GRAD_VIEW = 64, /* a view made while nothing was recorded */
    CFX__MULTI_VIEW = 128,  /* one of several views that one call made */
    CFX__QUANTIZED = 256,   /* of a quantized dtype: integers with a quantizer */
    CFX__ON_CARD = 512,     /* its device is a card: see cfx__tensor_place */
    CFX__LITERAL = 1024,    /* of numbers in an index or an assignment */
    CFX__MIRROR = 2048      /* lies in a copy that mirrors another tensor: see cfx__mirror_make */
};

enum { CFX__INLINE_STORAGE = 1024 }; /* data of so many bytes lies in the object itself */

typedef struct cfx__storage {
    cfx_obj head;
    void *data;
    size_t size;
    cfx_device device;
    uint32_t version;          /* counts in-place writes; shared by all views */
    void (*release)(void *owner); /* borrowed memory; NULL: the block is ours */
    void *owner;
    bool fixed;                /* inline or borrowed: not from the block cache */
    bool spare;                /* small enough to be recycled whole */
    bool foreign;              /* may be written to behind our back: nothing made of it is kept */
    bool packed_lock;
    void *writer;              /* the operator whose recorded call wrote here last, or NULL */
    struct cfx__packed *packed;   /* see below */
    struct cfx__mirror *mirror;   /* what it is a conjugate of; counted; NULL: of nothing */
} cfx__storage;

/* How the integers of a quantized tensor stand for numbers: x = (q - zero_point) scale. Counted. */
typedef struct cfx__quantizer {
    cfx_obj head;
    double scale;
    int64_t zero_point;
    cfx_tensor *scales, *zero_points; /* one for each channel along the axis, or NULL; counted */
    int axis;
} cfx__quantizer;

struct cfx_tensor {
    cfx_obj head;
    uint8_t dtype;
    uint8_t layout;
    cfx_device device;
    int ndim;
    int64_t numel;
    int64_t offset;
    int64_t *shape, *stride; /* into dims, or one heap block when ndim > CFX__INLINE_DIMS */
    cfx__storage *storage;   /* counted */
    char *data;
    void *proxy;             /* what the trace room hangs on a traced tensor (counted object) */
    void *tape;              /* what the grad room hangs on a tensor (counted object) */
    cfx_tensor *base;        /* what this is a view of, itself no view; counted; NULL: no view */
    cfx__quantizer *quantizer; /* of a quantized tensor; counted */
    void *user;              /* the caller's own */
    cfx_tensor *known;       /* what a fake tensor is known to hold; counted; NULL: nobody knows */
    int64_t dims[2 * CFX__INLINE_DIMS];
};

/* Whether a gradient flows to t: its own, or that of the tensor it looks into. */
static inline bool cfx__tensor_needs_grad(const cfx_tensor *t) {
    return (t->head.flags & CFX__GRAD) ||
           (unlikely(t->base != NULL) && (t->base->head.flags & CFX__GRAD) &&
            !(t->head.flags & CFX__NO_GRAD_VIEW));
}

extern cfx_tensor cfx__tensor_bad; /* what a failed call returns */

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The most elements that a tensor has or reaches over, views and fakes included: more than a
 * machine can hold, and few enough that their bytes, and small multiples of them, are numbers. */
#define CFX__MOST_ELEMENTS ((int64_t)1 << 56)
/* The product of sizes; -1, with an error, when one is negative or there are too many elements,
 * those beside a size of zero counted too. */
int64_t cfx__shape_numel(cfx_site at, int ndim, const int64_t *shape);
void cfx__strides_contiguous(int ndim, const int64_t *shape, int64_t *stride);
/* Strides of a memory format (channels_last needs 4 dims, channels_last_3d 5). */
void cfx__strides_of_format(cfx_memory_format f, int ndim, const int64_t *shape, int64_t *stride);
bool cfx__tensor_is_contiguous(const cfx_tensor *t);
bool cfx__tensor_is_channels_last(const cfx_tensor *t);     /* 4-d, strides as channels_last */
bool cfx__tensor_is_channels_last_3d(const cfx_tensor *t);
/* Elements from a point of a 4-d image to the next where its channels lie last, perhaps as some of
 * the channels of a larger image; 0 where they do not. Strides of sizes of 1 do not matter. */
int64_t cfx__tensor_channels_row(const cfx_tensor *t);
bool cfx__tensor_is_dense(const cfx_tensor *t); /* non-overlapping and dense, in any order */
bool cfx__tensor_same_shape(const cfx_tensor *a, const cfx_tensor *b);
/* What PyTorch's suggest_memory_format() answers for an operand. */
cfx_memory_format cfx__tensor_suggest_format(const cfx_tensor *t);
/* Wraps a negative dim. -1, with PyTorch's IndexError, when out of range; ndim 0 counts as 1. */
int cfx__shape_wrap_dim(cfx_site at, int64_t dim, int ndim);
/* "[2, 3]"; scope */
const char *cfx__shape_text(int ndim, const int64_t *shape);
/* Broadcasts b into shape (ndim in/out). False, with PyTorch's message, on a mismatch. */
bool cfx__shape_broadcast(cfx_site at, int *ndim, int64_t *shape, int bdim, const int64_t *bshape);

/* ---- tensors --------------------------------------------------------------------------------- */

/* A new tensor of the current scope with its own storage (or fake). stride NULL: contiguous. Data
 * is not set. The bad tensor, with an error, on absurd sizes or when out of memory. */
cfx_tensor *cfx__tensor_empty(cfx_site at, cfx_dtype dtype, bool fake, int ndim,
                              const int64_t *shape, const int64_t *stride);
/* Notes the device of a tensor. What operators make of tensors on a card lies there too: while one
 * runs, cfx__tensor_empty gives memory of that card (cfx__context.card). */
void cfx__tensor_place(cfx_tensor *t, cfx_device device);
/* What cfx__context.card is on a device. */
static inline int cfx__device_card(cfx_device d) {
    return d.type == CFX_CUDA ? (d.index < 0 ? 0 : d.index) + 1 : 0;
}
/* t without data: a fake with its dtype, sizes, strides and device; scope. And a value with such in
 * the place of its tensors, in lists and tuples too. */
cfx_tensor *cfx__tensor_faked(const cfx_tensor *t);
cfx_value cfx__tensor_faked_in(cfx_value v);
/* Numbers of fake tensors are kept where there are no more of them than this: those that others
 * take for sizes, axes, scales. */
enum { CFX__KNOWN_MOST = 4096 };
/* A tensor with the numbers of t: t itself, or what it is known to hold; NULL: nobody knows. */
static inline cfx_tensor *cfx__tensor_known(const cfx_tensor *t) {
    return t->data || (t->numel == 0 && !(t->head.flags & CFX__FAKE)) ? (cfx_tensor *)t : t->known;
}
/* Notes what a fake tensor holds, unless that is too much or known already. */
void cfx__tensor_know(cfx_tensor *t, cfx_tensor *numbers);
/* Whether t, which may repeat its elements, stands for no more bytes than the memory limit: an
 * operator takes time for each. False, with an error. */
bool cfx__tensor_in_limit(cfx_site at, const cfx_tensor *t);
/* A view without checks, over t's storage; scope. dtype may differ only in same-size views. */
cfx_tensor *cfx__tensor_alias(const cfx_tensor *t, int ndim, const int64_t *shape,
                              const int64_t *stride, int64_t offset);
/* self takes the sizes, strides, offset and storage of another tensor of its dtype: squeeze_, set_,
 * resize_. */
void cfx__tensor_become(cfx_tensor *self, const cfx_tensor *other);
/* A 0-dim tensor of one number; scope. */
cfx_tensor *cfx__tensor_scalar(cfx_value number, cfx_dtype dtype);
/* The same of the widest dtype of its kind, which promotes as the number does; scope. */
cfx_tensor *cfx__tensor_wrapped(cfx_value number);
/* t itself when contiguous, else a contiguous copy of the scope. */
cfx_tensor *cfx__tensor_contiguous(const cfx_tensor *t);
/* t itself when it has the dtype already, else a converted copy that keeps dense strides; scope. */
cfx_tensor *cfx__tensor_to_dtype(const cfx_tensor *t, cfx_dtype dtype);
/* The same, and contiguous. */
cfx_tensor *cfx__tensor_contiguous_as(const cfx_tensor *t, cfx_dtype dtype);
/* dst[...] = src as it was before, broadcast and converted. Shapes are the caller's business. Where
 * elements of dst share memory, the last of what goes there in their order stays. Here
 * and below nothing is done where there is no data: a kernel may go on with what a failed call gave
 * it until it asks whether one did. */
void cfx__tensor_copy(cfx_tensor *dst, const cfx_tensor *src);
/* dst[...] = number. */
void cfx__tensor_fill(cfx_tensor *dst, cfx_value number);
/* Element at linear index i in row-major order, and the single element of a one-element tensor. */
cfx_value cfx__tensor_get(const cfx_tensor *t, int64_t i);
void cfx__tensor_set(cfx_tensor *t, int64_t i, cfx_value number);
/* Whether two tensors overlap partly, or one overlaps itself: writes to such are refused. */
bool cfx__tensor_overlaps_itself(const cfx_tensor *t);
/* Whether elements of a tensor share memory, or may: windows by as_strided and unfold. More than
 * PyTorch looks at, so it is no reason to refuse; who writes while he reads asks. */
bool cfx__tensor_shares_elements(const cfx_tensor *t);
typedef enum { CFX__APART, CFX__SAME, CFX__PARTLY } cfx__tensor_overlap;
cfx__tensor_overlap cfx__tensor_overlap_of(const cfx_tensor *a, const cfx_tensor *b);
/* Whether the memory from the first element of a to its last has elements of b in it, or may have:
 * those in between are not looked at one by one. More than PyTorch looks at, so it is no reason to
 * refuse; who writes to one while he reads the other asks. */
bool cfx__tensor_meets(const cfx_tensor *a, const cfx_tensor *b);

/* ---- quantized tensors ---------------------------------------------------------------------- */

/* A tensor of a quantized dtype exists only by these functions. The dispatcher gives operators that
 * know nothing of them floats in their place. */

/* One scale for all, or one for each channel along the axis; scope. The tensors are kept. */
cfx__quantizer *cfx__quantizer_new(double scale, int64_t zero_point);
cfx__quantizer *cfx__quantizer_channels(cfx_tensor *scales, cfx_tensor *zero_points, int axis);
/* The scale and zero point with which PyTorch's kernels quantize numbers of [low, high] to the
 * integers [steps_low, steps_high]; symmetric: zero is in the middle, where the range has both
 * signs. Observers choose otherwise, see cfx__observer_params. */
void cfx__quantizer_choose(float low, float high, int steps_low, int steps_high, bool symmetric,
                           double *scale, int64_t *zero_point);
/* "per_tensor_affine", "per_channel_affine" or "per_channel_affine_float_qparams"; static. */
const char *cfx__quantizer_scheme(const cfx__quantizer *q);
/* The integer type that a quantized dtype is stored in; d itself where it is plain. */
cfx_dtype cfx__dtype_stored(cfx_dtype d);
static inline bool cfx__dtype_is_quantized(cfx_dtype d) { return d > CFX_DTYPE_LAST; }
/* Whether tensors of a dtype can be without a scale; false, with an error, for quantized ones. */
bool cfx__dtype_is_plain(cfx_site at, cfx_dtype d);
/* The integers `ints`, of the stored dtype, as a quantized tensor over the same storage; scope. */
cfx_tensor *cfx__quantized_of(const cfx_tensor *ints, cfx_dtype dtype, cfx__quantizer *by);
/* Its integers, over the same storage; scope. */
cfx_tensor *cfx__quantized_ints(const cfx_tensor *t);
/* Floats (float32, or fake) quantized: round(x / scale) + zero_point, as far as the dtype reaches;
 * and back. Scope. */
cfx_tensor *cfx__quantized_from(cfx_site at, const cfx_tensor *x, cfx_dtype dtype,
                                cfx__quantizer *by);
cfx_tensor *cfx__quantized_to_float(cfx_site at, const cfx_tensor *t);

/* ---- packed data --------------------------------------------------------------------------- */

/* The data of a storage in another form, made of it and kept with it until it is written to:
 * weights in the layout that a library likes. Counted. */
typedef struct cfx__packed {
    cfx_obj head;
    struct cfx__packed *next;
    uint64_t key;
    uint32_t version;
    void *data; /* 64-byte aligned */
    size_t size;
    bool local;               /* a library of this process alone can read it */
    bool unchecked;           /* lent, and nobody has looked yet whether it is whole */
    uint64_t sum;             /* of lent bytes, and */
    struct cfx__lender *from; /* whose they are, counted; NULL: our own. See packed.h */
    int of;                   /* the number there of the storage that they were made of */
} cfx__packed;

/* The key of a form: what it is, and the numbers that it depends on. */
uint64_t cfx__packed_key(const char *form, int n, const int64_t *facts);
/* Room of `size` bytes for the form `key`, which says everything that it depends on beside the
 * data; to be made of the data as it is now. The caller owns a count. NULL when out of memory. */
cfx__packed *cfx__packed_new(const cfx__storage *s, uint64_t key, size_t size);
/* The form of `size` bytes kept for `key`, or NULL when there is none or the data has changed; the
 * caller owns a count. Numbers can be found for which keys are equal: whoever reads a form reads no
 * more of it than it would have made. */
cfx__packed *cfx__packed_find(cfx__storage *s, uint64_t key, size_t size);
/* Keeps it with the storage, a few of the newest at most. */
void cfx__packed_keep(cfx__storage *s, cfx__packed *p);
void cfx__packed_drop_all(cfx__storage *s);

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* Kinds of dtypes that are computed in: kernels may meet these. bool is no integer. */
static inline bool cfx__dtype_is_half(cfx_dtype d) { return d == CFX_F16 || d == CFX_BF16; }
static inline bool cfx__dtype_is_float(cfx_dtype d) {
    return d == CFX_F32 || d == CFX_F64 || cfx__dtype_is_half(d);
}
static inline bool cfx__dtype_is_int(cfx_dtype d) { return d <= CFX_I64; }
static inline bool cfx__dtype_is_computed(cfx_dtype d) { return d < CFX_C32; }
/* The same and those for storage. PyTorch promotes uint16, uint32 and uint64 to floats alone. */
static inline bool cfx__dtype_is_float8(cfx_dtype d) {
    return d >= CFX_F8E4M3FN && d < CFX_DTYPE_COUNT;
}
static inline bool cfx__dtype_is_floating(cfx_dtype d) {
    return cfx__dtype_is_float(d) || cfx__dtype_is_float8(d);
}
static inline bool cfx__dtype_is_barebones(cfx_dtype d) { return d >= CFX_U16 && d <= CFX_U64; }
static inline bool cfx__dtype_is_integral(cfx_dtype d) {
    return cfx__dtype_is_int(d) || cfx__dtype_is_barebones(d);
}
static inline bool cfx__dtype_is_complex(cfx_dtype d) {
    return d == CFX_C64 || d == CFX_C128 || d == CFX_C32;
}
/* The dtype that holds every number of one for storage: float8 in float32, unsigned integers in
 * int64 (uint64 by its bits), complex32 in complex64. Others are their own. */
static inline cfx_dtype cfx__dtype_wide(cfx_dtype d) {
    return cfx__dtype_is_float8(d)      ? CFX_F32
           : cfx__dtype_is_barebones(d) ? CFX_I64
           : d == CFX_C32               ? CFX_C64
                                        : d;
}
/* "Float", "Long": how PyTorch's messages name a dtype; static. */
const char *cfx__dtype_title(cfx_dtype d);
/* "c10::Half", "long int": how C++ names it, which other messages of PyTorch's print; static. */
const char *cfx__dtype_cpp_name(cfx_dtype d);
/* The real type of a complex one: complex64 to float32; itself otherwise. */
cfx_dtype cfx__dtype_real(cfx_dtype d);
/* What a and b promote to; one of them, with PyTorch's error, where they do not. */
cfx_dtype cfx__dtype_promote(cfx_dtype a, cfx_dtype b);
bool cfx__dtype_can_cast(cfx_dtype from, cfx_dtype to);

/* torch.result_type over operands: dimensioned tensors outrank 0-dim ones, which outrank numbers.
 */
typedef struct cfx__promotion {
    int8_t dim, zero, number; /* the dtype of each category so far, or -1 */
} cfx__promotion;
#define CFX__PROMOTION_START ((cfx__promotion){-1, -1, -1})
void cfx__promotion_tensor(cfx__promotion *p, const cfx_tensor *t);
void cfx__promotion_sized(cfx__promotion *p, cfx_dtype d, int ndim); /* a tensor of these */
void cfx__promotion_value(cfx__promotion *p, cfx_value v); /* tensor, number; others are ignored */
cfx_dtype cfx__promotion_dtype(const cfx__promotion *p);
/* The dtype a bare number has in PyTorch: bool, int64, the default float, complex64. */
cfx_dtype cfx__dtype_of_number(cfx_value v);

static inline float cfx__bf16_load(uint16_t h) {
    union { uint32_t u; float f; } x = {(uint32_t)h << 16};
    return x.f;
}

static inline uint16_t cfx__bf16_store(float f) {
    union { float f; uint32_t u; } x = {f};
    uint32_t rounded = (x.u + 0x7fff + ((x.u >> 16) & 1)) >> 16;
    return f != f ? 0x7fc0 : (uint16_t)rounded;
}

static inline float cfx__f16_load(uint16_t h) {
    uint32_t w = (uint32_t)h << 16, sign = w & 0x80000000u, two_w = w + w;
    union { uint32_t u; float f; } norm = {(two_w >> 4) + (0xe0u << 23)};
    norm.f *= 0x1.0p-112f;
    union { uint32_t u; float f; } magic = {(two_w >> 17) | (126u << 23)};
    magic.f -= 0.5f;
    union { uint32_t u; float f; } out = {sign | (two_w < (1u << 27) ? magic.u : norm.u)};
    return out.f;
}

static inline uint16_t cfx__f16_store(float f) {
    union { float f; uint32_t u; } x = {f};
    uint32_t sign = (x.u >> 16) & 0x8000, shl1 = x.u + x.u, bias = shl1 & 0xff000000u;
    union { float f; uint32_t u; } a = {f};
    a.u &= 0x7fffffffu;
    float base = (a.f * 0x1.0p+112f) * 0x1.0p-110f;
    if (bias < 0x71000000u)
        bias = 0x71000000u;
    union { uint32_t u; float f; } b = {(bias >> 1) + 0x07800000u};
    b.f = b.f + base;
    uint32_t non_sign = ((b.u >> 13) & 0x00007c00u) + (b.u & 0x00000fffu);
    return (uint16_t)(sign | (shl1 > 0xff000000u ? 0x7e00 : non_sign));
}

/* Functions whose loops are worth a version for each generation of the machine's vector unit. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(CFX_SANITIZE)
#define CFX__SIMD                                                                                  \
    __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CFX__SIMD
#endif

/* n elements from src to dst (strides in bytes), converted; bits are moved where dtypes agree, and
 * quantized ones are the integers that they are stored in. */
void cfx__convert(char *dst, int64_t ds, cfx_dtype to, const char *src, int64_t ss, cfx_dtype from,
                  int64_t n);
/* n elements from src (stride in bytes) to contiguous dst, converted. */
void cfx__convert_in(void *dst, cfx_dtype to, const char *src, int64_t stride, cfx_dtype from,
                     int64_t n);
/* n elements from contiguous src to dst (stride in bytes), converted. */
void cfx__convert_out(char *dst, int64_t stride, cfx_dtype to, const void *src, cfx_dtype from,
                      int64_t n);

/* ---- the iterator ---------------------------------------------------------------------------- */

/* A loop over contiguous arrays: p[0..nout) are results, the rest operands, n elements each, in the
 * dtypes that its caller asked for. */
typedef void cfx__iter_loop(void *const *p, int64_t n, const void *params);

enum { CFX__ITER_MAX = 8, CFX__ITER_BLOCK = 512 };

typedef struct cfx__iter_operand {
    const cfx_tensor *t; /* broadcast to the shape of the first */
    cfx_dtype as;        /* what the loop reads or writes */
} cfx__iter_operand;

/* Dimensions that several operands are walked through together; number 0 is the innermost. */
typedef struct cfx__iter_dims {
    int n, ndim; /* operands, dimensions: one at least */
    int64_t shape[CFX_MAX_DIMS];
    int64_t (*stride)[CFX_MAX_DIMS]; /* by operand, in bytes; 0 where it is broadcast */
} cfx__iter_dims;
/* Dimensions of a shape; strides are still to be set. */
void cfx__iter_dims_of(cfx__iter_dims *d, int ndim, const int64_t *shape);
/* Strides of t broadcast to those dimensions. */
void cfx__iter_strides(const cfx__iter_dims *d, const cfx_tensor *t, int64_t *stride);
/* Brings dimensions in the order of the first operand that can tell. */
void cfx__iter_order(cfx__iter_dims *d);
/* Joins neighbours that every operand walks as one; those below `*split` not with others. The
 * number of dimensions that the first *split became is put there. */
void cfx__iter_join(cfx__iter_dims *d, int *split);

/* A place in an operand on the way through dimensions. */
typedef struct cfx__iter_cursor {
    const int64_t *shape, *stride;
    int ndim;
    int64_t index[CFX_MAX_DIMS];
    char *at;
} cfx__iter_cursor;
/* Sets a cursor to element number `linear`; c->shape, stride and ndim are the caller's. */
void cfx__iter_cursor_set(cfx__iter_cursor *c, char *data, int64_t linear);
/* The next n elements, of dtype d, to a contiguous block of dtype `as`, or from there. */
void cfx__iter_cursor_move(cfx__iter_cursor *c, cfx_dtype d, char *block, cfx_dtype as, int64_t n,
                           bool in);

/* Runs `loop` over nout results and nin operands broadcast to the shape of the first result:
 * conversion, strides and threads are dealt with here. `cost` is about how many times costlier an
 * element is than a plain addition (1 for that; 30 for a transcendental function). */
void cfx__iter_pointwise(cfx__iter_loop *loop, int nout, int nin, const cfx__iter_operand *operands,
                         const void *params, int cost);
/* Strides that PyTorch gives to the result of a pointwise operator on these operands. */
void cfx__strides_pointwise(int n, const cfx_tensor *const *operands, int ndim,
                            const int64_t *shape, int64_t *stride);
/* The same by the order of the operands' strides alone, be they contiguous or not. */
void cfx__strides_sorted(int n, const cfx_tensor *const *operands, int ndim, const int64_t *shape,
                         int64_t *stride);

/* ---- the generator --------------------------------------------------------------------------- */

/* PyTorch's CPU generator: mt19937 with its derived streams. */
typedef struct cfx__generator cfx__generator;
cfx__generator *cfx__generator_default(void);

/* A copy of the default generator, to go back to, also after an error; restoring frees it. */
cfx__generator *cfx__generator_saved(void);
void cfx__generator_restore(cfx__generator *saved);

uint32_t cfx__random32(cfx__generator *g);
uint64_t cfx__random64(cfx__generator *g);

/* Fillers: each sets all elements of t, which has data, drawing in the order PyTorch's serial
 * kernels do (by memory for dense tensors). Arguments out of range are PyTorch's error. */
void cfx__random_uniform(cfx__generator *g, cfx_tensor *t, double from, double to);
void cfx__random_normal(cfx__generator *g, cfx_tensor *t, double mean, double std);
void cfx__random_log_normal(cfx__generator *g, cfx_tensor *t, double mean, double std);
void cfx__random_cauchy(cfx__generator *g, cfx_tensor *t, double median, double sigma);
void cfx__random_exponential(cfx__generator *g, cfx_tensor *t, double lambda);
void cfx__random_geometric(cfx__generator *g, cfx_tensor *t, double p);
void cfx__random_bernoulli(cfx__generator *g, cfx_tensor *t, double p);
/* Which elements of x stay in a dropout that keeps each with p: coins, on a card those that
 * PyTorch's own kernel throws. kept is contiguous. */
void cfx__random_dropout(cfx__generator *g, cfx_tensor *kept, const cfx_tensor *x, double p);
/* One probability an element; p has the shape of t. */
void cfx__random_bernoulli_each(cfx__generator *g, cfx_tensor *t, const cfx_tensor *p);
/* Integers of [from, to), from `from` on, and those of random_() without bounds. */
void cfx__random_from_to(cfx__generator *g, cfx_tensor *t, int64_t from, int64_t to);
void cfx__random_from(cfx__generator *g, cfx_tensor *t, int64_t from); /* to the type's largest */
void cfx__random_integers(cfx__generator *g, cfx_tensor *t);
/* A permutation of 0..n-1 for a tensor of n elements. */
void cfx__random_permutation(cfx__generator *g, cfx_tensor *t);
/* t (int64, rows of samples) from the rows of p, 1 or 2 dims of floats. */
void cfx__random_multinomial(cfx__generator *g, cfx_tensor *t, const cfx_tensor *p, bool replace);
/* A number of [0, 1), 53 bits: for samplers that need them one by one. */
double cfx__random_double(cfx__generator *g);

/* ---- files ----------------------------------------------------------------------------------- */

/* Paths of the caller's are opened here alone (tools/lint): no directory, device or pipe is read,
 * none is waited for, and what fails is told with the path. */

/* A descriptor of a file, for reading, and its size; the caller closes it. -1, with a FileError. */
int cfx__file_open(const char *path, size_t *size);

/* A whole file in memory, private to the process: writes to it never reach the file. Counted;
 * cfx_drop unmaps. */
typedef struct cfx__file_mapping {
    cfx_obj head;
    char *data;
    size_t size;
    bool copied; /* read rather than mapped: see cfx_set_copy_files */
} cfx__file_mapping;

/* Maps a file; the caller owns the count. NULL, with a FileError that names it, when it cannot. */
cfx__file_mapping *cfx__file_map(const char *path);
/* The same of a file that nobody but this user or the system's own could have written: no link, and
 * theirs alone to write. NULL, with an error. */
cfx__file_mapping *cfx__file_map_own(const char *path);

/* A file that appears under its name only when it is whole and on the disk: written without a name
 * in the same folder, or beside, and put in place at the end with the rights of the file before it.
 * What a killed process left is swept away by the next save to the same name. */
typedef struct cfx__file_save {
    FILE *file;
    char *target, *temp; /* temp is NULL for devices and pipes, which are written in place */
    bool named;          /* temp is the name of the file already */
    char number[64];     /* that sets temp apart from other saves */
} cfx__file_save;

/* False, with a FileError, when no file can be made there. */
bool cfx__file_save_open(cfx__file_save *s, const char *path);
/* The same for a file that belongs to one that was opened before, and is to be closed with it. */
bool cfx__file_save_open_with(cfx__file_save *s, const char *path, const cfx__file_save *first);
/* Ends what cfx__file_save_open began. Unless ok and all was written, nothing is left behind;
 * false, with a FileError, when something failed. */
bool cfx__file_save_close(cfx__file_save *s, bool ok);
/* Closes both: they are put in place together, or neither is. A process that ends in between leaves
 * the second under the name that cfx__file_pending tells. */
bool cfx__file_save_close_pair(cfx__file_save *first, cfx__file_save *second, bool ok);
/* The file to read for `second`, beside `first`: its own name, or where the last save left it. The
 * caller frees it. */
char *cfx__file_pending(const char *first, const char *second);
/* Writes a whole file: open, these bytes, close. */
bool cfx__file_write(const char *path, const char *bytes, size_t len);

#endif
