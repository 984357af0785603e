/* Tensors: strided views over shared storage.
 *
 * One handle type: a cfx_tensor is real, fake (shape and dtype only) or traced (it stands for a
 * node); the dispatcher distinguishes them. A view aliases its base: it keeps the storage, and a
 * write through one is visible in all. Results belong to the scope. Threads may read one tensor
 * at once; a write through any view, or the accumulation of a gradient, needs exclusive access. */
#ifndef CFX_TENSOR_H
#define CFX_TENSOR_H

#include <cfx/value.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CFX_MAX_DIMS = 64 };

/* ---- make ------------------------------------------------------------------------------------ */

/* A contiguous tensor; its data is copied from `data`, or left unset where data is NULL. Scope.
 * Fails on negative or absurd sizes and when memory runs out. */
CFX_API cfx_tensor *cfx_tensor_new(cfx_dtype dtype, int ndim, const int64_t *shape,
                                   const void *data);
/* A contiguous tensor over the caller's memory, which must stay until `release(owner)` is called
 * (or forever, where release is NULL). Scope. */
CFX_API cfx_tensor *cfx_tensor_borrow(cfx_dtype dtype, int ndim, const int64_t *shape, void *data,
                                      void (*release)(void *owner), void *owner);
/* A view on the storage of t, with strides and offset in elements. Scope. Fails when it would reach
 * outside the storage. */
CFX_API cfx_tensor *cfx_tensor_view(const cfx_tensor *t, int ndim, const int64_t *shape,
                                    const int64_t *stride, int64_t offset);
/* A fake tensor: all but the numbers. stride may be NULL for contiguous. Scope. */
CFX_API cfx_tensor *cfx_tensor_fake(cfx_dtype dtype, int ndim, const int64_t *shape,
                                    const int64_t *stride);
/* Nested lists of numbers, as torch.tensor takes them; dtype inferred as PyTorch does. Scope. */
CFX_API cfx_tensor *cfx_tensor_from_value(cfx_value data);

/* A user pointer of a tensor, such as the handle of another language; NULL unless set. Views and
 * copies do not inherit it. */
CFX_API void cfx_tensor_set_user(cfx_tensor *t, void *user);
CFX_API void *cfx_tensor_user(const cfx_tensor *t);

/* t.data = other: t takes sizes, dtype and storage of another tensor; its gradient and tape node
 * stay. Fails where t requires a gradient and the new dtype cannot have one, or where one of
 * them is traced. */
CFX_API void cfx_tensor_set_data(cfx_tensor *t, const cfx_tensor *other);

/* ---- look ------------------------------------------------------------------------------------ */

CFX_API cfx_dtype cfx_tensor_dtype(const cfx_tensor *t);  /* the element type */
CFX_API cfx_device cfx_tensor_device(const cfx_tensor *t); /* where it lives */
CFX_API int cfx_tensor_ndim(const cfx_tensor *t);         /* number of dimensions */
CFX_API int64_t cfx_tensor_numel(const cfx_tensor *t);    /* number of elements */
CFX_API const int64_t *cfx_tensor_shape(const cfx_tensor *t);  /* sizes; borrows */
CFX_API const int64_t *cfx_tensor_stride(const cfx_tensor *t); /* strides in elements; borrows */
CFX_API int64_t cfx_tensor_offset(const cfx_tensor *t);   /* first element in the storage */
/* A pointer to the first element; NULL, with an error, for a fake tensor. Borrowed; elements are
 * at the strides. */
CFX_API void *cfx_tensor_data(const cfx_tensor *t);
/* Whether the elements lie in order without gaps. */
CFX_API bool cfx_tensor_is_contiguous(const cfx_tensor *t);
CFX_API bool cfx_tensor_is_fake(const cfx_tensor *t);
/* Whether two tensors share their storage. */
CFX_API bool cfx_tensor_shares(const cfx_tensor *a, const cfx_tensor *b);
/* Size along dimension i (negative counts from the end). An error, and -1, where i is out of range
 * or while tracing: use cfx_size there. So it is while exporting where data decides the size
 * (cfx_nonzero): that is no number that C could decide by. */
CFX_API int64_t cfx_dim_from(cfx_site at, const cfx_tensor *t, int i);
CFX_API int64_t cfx_dim(const cfx_tensor *t, int i);
#define cfx_dim(t, i) cfx_dim_from(CFX_HERE, t, i)
/* Element number i in row-major order as a number; 0, with an error, out of range or when fake. */
CFX_API double cfx_tensor_get(const cfx_tensor *t, int64_t i);

/* The same, with the line that looks, for errors: while a module is exported, what is data may not
 * be looked at. */
CFX_API int64_t cfx_tensor_numel_from(cfx_site at, const cfx_tensor *t);
CFX_API const int64_t *cfx_tensor_shape_from(cfx_site at, const cfx_tensor *t);
CFX_API void *cfx_tensor_data_from(cfx_site at, const cfx_tensor *t);
CFX_API double cfx_tensor_get_from(cfx_site at, const cfx_tensor *t, int64_t i);
#define cfx_tensor_numel(t) cfx_tensor_numel_from(CFX_HERE, t)
#define cfx_tensor_shape(t) cfx_tensor_shape_from(CFX_HERE, t)
#define cfx_tensor_data(t) cfx_tensor_data_from(CFX_HERE, t)
#define cfx_tensor_get(t, i) cfx_tensor_get_from(CFX_HERE, t, i)

/* ---- write out ------------------------------------------------------------------------------- */

/* How tensors print; zero means PyTorch's default (4 digits, 80 columns, 1000 elements, 3 at each
 * edge, scientific where needed). */
typedef struct cfx_print_options {
    int precision;
    int linewidth;
    int64_t threshold;
    int64_t edge_items;
    int sci_mode; /* 0 as needed, 1 always, -1 never */
} cfx_print_options;

/* The text of print(t): "tensor([1., 2.])"; scope. */
CFX_API const char *cfx_tensor_str(const cfx_tensor *t);
CFX_API const char *cfx_tensor_str_with(const cfx_tensor *t, cfx_print_options options);

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes t as .npy. False, with an error, when the file cannot be written (none is left behind). */
CFX_API bool cfx_npy_write(const char *path, const cfx_tensor *t);
/* Reads a .npy file; scope. Fails with a sentence that names the file. */
CFX_API cfx_tensor *cfx_npy_read(const char *path);
/* Reads a .safetensors file: a dict of name to tensor, whose data is mapped, not copied; scope. */
CFX_API cfx_dict *cfx_safetensors_read(const char *path);
/* The metadata of such a file, a dict of str to str, empty where it has none; scope. */
CFX_API cfx_dict *cfx_safetensors_metadata(const char *path);
/* Writes a dict of tensors; metadata (a dict of str to str) may be NULL. False with an error. */
CFX_API bool cfx_safetensors_write(const char *path, const cfx_dict *tensors,
                                   const cfx_dict *metadata);

/* ---- random numbers -------------------------------------------------------------------------- */

/* Seeds this thread's generator; the streams that follow are PyTorch's own. */
CFX_API void cfx_manual_seed(uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
