/* Views by size: the same elements under another shape, dtype or strides. */
#include <cfx/ops.h>

#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- shared arithmetic ----------------------------------------------------------------------- */

/* Fills in the -1 of a new shape for numel elements. False, with PyTorch's message, where it does
 * not fit. */
static bool infer_shape(cfx_op_call *c, int64_t numel, int n, int64_t *shape) {
    int64_t product = 1;
    int inferred = -1;
    bool fits = true;
    for (int i = 0; i < n; i++) {
        if (shape[i] == -1) {
            if (inferred >= 0) {
                op_fail(c, "only one dimension can be inferred");
                return false;
            }
            inferred = i;
        } else if (shape[i] < 0) {
            op_fail(c, "invalid shape dimension %lld", (long long)shape[i]);
            return false;
        } else {
            fits = fits && !__builtin_mul_overflow(product, shape[i], &product);
        }
    }
    for (int i = 0; i < n && !fits; i++)
        if (shape[i] == 0)
            fits = true, product = 0;
    if (!fits || !(numel == product || (inferred >= 0 && product > 0 && numel % product == 0))) {
        op_fail(c, "shape '%s' is invalid for input of size %lld", cfx__shape_text(n, shape),
                (long long)numel);
        return false;
    }
    if (inferred < 0)
        return true;
    if (product == 0) {
        op_fail(c,
                "cannot reshape tensor of 0 elements into shape %s because the unspecified "
                "dimension size -1 can be any value and is ambiguous",
                cfx__shape_text(n, shape));
        return false;
    }
    shape[inferred] = numel / product;
    return true;
}

/* The strides by which t is seen in a shape of as many elements, as PyTorch's kernels find them. */
static bool kernel_strides(const cfx_tensor *t, int n, const int64_t *shape, int64_t *stride) {
    if (t->ndim == 0) {
        for (int i = 0; i < n; i++)
            stride[i] = 1;
        return true;
    }
    if (t->numel == 0) {
        if (t->ndim == n && !memcmp(t->shape, shape, (size_t)n * sizeof *shape))
            memcpy(stride, t->stride, (size_t)n * sizeof *stride);
        else
            cfx__strides_contiguous(n, shape, stride);
        return true;
    }
    /* Dimensions of t that lie behind each other form a chunk, which the new ones must fill up. */
    int to = n - 1;
    int64_t base = t->stride[t->ndim - 1], have = 1, used = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        int64_t next;
        have *= t->shape[d];
        if (d > 0 && (t->shape[d - 1] == 1 ||
                      (!__builtin_mul_overflow(have, base, &next) && t->stride[d - 1] == next)))
            continue;
        while (to >= 0 && (used < have || shape[to] == 1)) {
            stride[to] = (int64_t)((uint64_t)used * (uint64_t)base); /* wraps if it leads nowhere */
            used *= shape[to--];
        }
        if (used != have)
            return false;
        if (d > 0) {
            base = t->stride[d - 1];
            have = used = 1;
        }
    }
    return to < 0;
}

bool view_strides(const cfx_tensor *t, int n, const int64_t *shape, int64_t *stride) {
    int64_t numel = 1;
    for (int i = 0; i < n; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(numel, shape[i], &numel))
            return false;
    if (numel != t->numel || !kernel_strides(t, n, shape, stride))
        return false;
    if ((t->head.flags & CFX__FAKE) && cfx__dispatcher()->recorder)
        (void)view_traced_strides(t, n, shape, stride);
    return true;
}

/* A view of t in a shape of as many elements, or a contiguous copy where there is none; scope. */
static cfx_tensor *reshaped(cfx_op_call *c, const cfx_tensor *t, int n, const int64_t *shape) {
    int64_t stride[CFX_MAX_DIMS];
    (void)c;
    if (view_strides(t, n, shape, stride))
        return cfx__tensor_alias(t, n, shape, stride, t->offset);
    cfx_tensor *copy = cfx__tensor_contiguous(t);
    if (cfx__obj_is_bad(copy))
        return copy;
    cfx__strides_contiguous(n, shape, stride);
    return cfx__tensor_alias(copy, n, shape, stride, 0);
}

/* Whether shape, strides and offset stay inside the storage of t; else PyTorch's message. */
static bool in_bounds(cfx_op_call *c, const cfx_tensor *t, int n, const int64_t *shape,
                      const int64_t *stride, int64_t offset) {
    int64_t last = 0, span, bytes = 0;
    bool fits = true, empty = false;
    if (cfx__shape_numel(c->at, n, shape) < 0)
        return false;
    for (int i = 0; i < n; i++) {
        if (stride[i] < 0) {
            op_fail(c,
                    "as_strided: Negative strides are not supported at the moment, got strides: %s",
                    cfx__shape_text(n, stride));
            return false;
        }
        empty |= shape[i] == 0;
        fits = fits && !__builtin_mul_overflow(shape[i] - 1, stride[i], &span) &&
               !__builtin_add_overflow(last, span, &last);
    }
    if (offset < 0) {
        op_fail(c, "Tensor: invalid storage offset %lld", (long long)offset);
        return false;
    }
    if (empty)
        return true;
    int size = cfx_dtype_size(t->dtype);
    fits = fits && !__builtin_add_overflow(last, offset, &last) && last < INT64_MAX &&
           !__builtin_mul_overflow(last + 1, size, &bytes);
    if (!fits)
        op_fail_large(c, "Storage size calculation overflowed with sizes=%s and strides=%s",
                      cfx__shape_text(n, shape), cfx__shape_text(n, stride));
    else if ((uint64_t)bytes > t->storage->size)
        op_fail(c,
                "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %d requiring "
                "a storage size of %lld are out of bounds for storage of size %zu",
                cfx__shape_text(n, shape), cfx__shape_text(n, stride), (long long)offset, size,
                (long long)bytes, t->storage->size);
    return !op_failed();
}

cfx_tensor *expanded(cfx_op_call *c, const cfx_tensor *t, int n, const int64_t *sizes) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (n < t->ndim) {
        op_fail(c,
                "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be "
                "greater or equal to the number of dimensions in the tensor (%d)",
                cfx__dtype_title(t->dtype), cfx__shape_text(t->ndim, t->shape),
                cfx__shape_text(n, sizes), n, t->ndim);
        return &cfx__tensor_bad;
    }
    for (int i = n - 1; i >= 0; i--) {
        int from = i - (n - t->ndim);
        int64_t size = from >= 0 ? t->shape[from] : 1, want = sizes[i];
        stride[i] = from >= 0 ? t->stride[from] : t->ndim ? shape[i + 1] * stride[i + 1] : 0;
        if (want == -1 && from < 0) {
            op_fail(c,
                    "The expanded size of the tensor (-1) isn't allowed in a leading, "
                    "non-existing dimension %d",
                    i);
            return &cfx__tensor_bad;
        }
        if (want != -1 && want != size) {
            if (size != 1) {
                op_fail(
                    c,
                    "The expanded size of the tensor (%lld) must match the existing size (%lld) "
                    "at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                    (long long)want, (long long)size, i, cfx__shape_text(n, sizes),
                    cfx__shape_text(t->ndim, t->shape));
                return &cfx__tensor_bad;
            }
            size = want;
            stride[i] = 0;
        }
        shape[i] = size;
    }
    if (cfx__shape_numel(c->at, n, shape) < 0)
        return &cfx__tensor_bad;
    return cfx__tensor_alias(t, n, shape, stride, t->offset);
}

cfx_tensor *aliased(const cfx_tensor *t) {
    return cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
}

static void view_self(cfx_op_call *c) { c->out[0] = arg_tensor(c, 0); }

static void view_alias(cfx_op_call *c) { c->out[0] = aliased(arg_tensor(c, 0)); }

/* ---- view and reshape ------------------------------------------------------------------------ */

static void view_as_shape(cfx_op_call *c, const cfx_tensor *t, int n, int64_t *shape) {
    int64_t stride[CFX_MAX_DIMS];
    if (op_failed() || !infer_shape(c, t->numel, n, shape))
        return;
    if (view_strides(t, n, shape, stride))
        out_view(c, 0, t, n, shape, stride, t->offset);
    else
        op_fail(c, "view size is not compatible with input tensor's size and stride (at least one "
                   "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
}

static void view_view(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    view_as_shape(c, arg_tensor(c, 0), n, shape);
}

static void view_view_as(cfx_op_call *c) {
    const cfx_tensor *other = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, other->shape, (size_t)other->ndim * sizeof *shape);
    view_as_shape(c, arg_tensor(c, 0), other->ndim, shape);
}

static void reshape_to(cfx_op_call *c, int n, int64_t *shape) {
    cfx_tensor *t = arg_tensor(c, 0);
    if (!op_failed() && infer_shape(c, t->numel, n, shape))
        c->out[0] = reshaped(c, t, n, shape);
}

static void view_reshape(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    reshape_to(c, n, shape);
}

static void view_reshape_as(cfx_op_call *c) {
    const cfx_tensor *other = arg_tensor(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, other->shape, (size_t)other->ndim * sizeof *shape);
    reshape_to(c, other->ndim, shape);
}

/* A list of n sizes that is argument i, as it was given where it was a list. */
static cfx_value given_sizes(const cfx_op_call *c, int i, int n, const int64_t *sizes) {
    cfx_value v = c->args[i];
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return list && cfx_as_list(v)->len == n ? v : cfx_ints_value(n, sizes);
}

/* Sizes with what -1 stands for, computed as PyTorch does. */
static cfx_value infer_in_order(const cfx_tensor *t, cfx_value size) {
    cfx_value shape = cfx_list_value(0, NULL);
    int open = 0;
    while (open < cfx_as_list(size)->len && cfx_integer(cfx_at(size, open)) != -1)
        open++;
    cfx_value rest = cfx_none();
    if (open < cfx_as_list(size)->len) {
        cfx_value all = size_but(size_list(t), -1);
        rest = size_over(all, size_but(size, open));
    }
    for (int i = 0; i < cfx_as_list(size)->len; i++)
        cfx_list_append(cfx_as_list(shape), i == open ? rest : cfx_at(size, i));
    return shape;
}

/* As PyTorch does: a view where there can be one, else a copy seen in the new shape. Of a
 * contiguous tensor the size is handed on as it was given. */
static void reshape_by_views(cfx_op_call *c, cfx_value size) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t stride[CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    int n = (int)cfx_as_list(size)->len;
    for (int i = 0; i < n; i++)
        shape[i] = cfx_integer(cfx_at(size, i));
    if (op_failed() || !infer_shape(c, t->numel, n, shape))
        return;
    bool dense = cfx__tensor_is_contiguous(t);
    if (!dense)
        size = t->numel ? infer_in_order(t, size) : cfx_ints_value(n, shape);
    cfx_value args[] = {cfx_tensor_value(t), cfx_contiguous_format};
    bool viewed = view_strides(t, n, shape, stride);
    if (!viewed)
        args[0] = cfx_tensor_value(call_bound(c, &cfx_op_clone, args));
    args[1] = size;
    c->out[0] = call_bound(c, viewed ? &cfx_op_view : &cfx_op__unsafe_view, args);
}

static void decompose_reshape(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    if (!op_failed())
        reshape_by_views(c, given_sizes(c, 1, n, shape));
}

static void decompose_reshape_as(cfx_op_call *c) {
    c->out[0] = cfx_reshape(arg_tensor(c, 0), size_list(arg_tensor(c, 1)));
}

static void decompose_view_as(cfx_op_call *c) {
    c->out[0] = cfx_view(arg_tensor(c, 0), size_list(arg_tensor(c, 1)));
}

CFX_OP(view) = {"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", "Tensor.view",
                .view = view_view, GRAD(reshape, 0), .effects = RESHAPED | CFX_LAYOUT};
CFX_OP(_unsafe_view) = {"aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
                        "torch._unsafe_view", .view = view_view, GRAD(reshape, 0),
                        .core = core__unsafe_view, .effects = CFX_SHARES | RESHAPED, .out = "out"};
CFX_OP(view_as) = {"aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", "Tensor.view_as",
                   .view = view_view_as, .decompose = decompose_view_as,
                   .effects = CFX_COMPOSITE | RESHAPED};
CFX_OP(reshape) = {"aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
                   "torch.reshape Tensor.reshape", .view = view_reshape,
                   .decompose = decompose_reshape, .effects = CFX_COMPOSITE | RESHAPED};
CFX_OP(reshape_as) = {"aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
                      "Tensor.reshape_as", .view = view_reshape_as,
                      .decompose = decompose_reshape_as, .effects = CFX_COMPOSITE | RESHAPED};

/* ---- flatten and unflatten ------------------------------------------------------------------- */

/* The shape of t with dims first..last made one. */
static cfx_value flat_shape(const cfx_tensor *t, int first, int last) {
    cfx_value shape = cfx_list_value(0, NULL);
    for (int d = 0; d < t->ndim; d++) {
        cfx_value size = size_of(t, d);
        for (int i = first + 1; d == first && i <= last; i++)
            size = size_times(size, size_of(t, i));
        if (d <= first || d > last)
            cfx_list_append(cfx_as_list(shape), size);
    }
    return shape;
}

/* The new shape; None where the tensor stays as it is, or failed. */
static cfx_value flatten_shape(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int first = arg_dim(c, 1, t->ndim), last = first < 0 ? -1 : arg_dim(c, 2, t->ndim);
    if (last < 0)
        return cfx_none();
    if (first > last) {
        op_fail(c, "flatten() has invalid args: start_dim cannot come after end_dim");
        return cfx_none();
    }
    if (t->ndim == 0)
        return cfx_list(1);
    return first == last ? cfx_none() : flat_shape(t, first, last);
}

static void view_flatten(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    cfx_value sizes = flatten_shape(c);
    c->out[0] = arg_tensor(c, 0);
    for (int i = 0; !cfx_is_none(sizes) && i < cfx_as_list(sizes)->len; i++)
        shape[i] = cfx_integer(cfx_at(sizes, i));
    if (!cfx_is_none(sizes))
        c->out[0] = reshaped(c, arg_tensor(c, 0), (int)cfx_as_list(sizes)->len, shape);
}

static void decompose_flatten(cfx_op_call *c) {
    cfx_value sizes = flatten_shape(c);
    c->out[0] = arg_tensor(c, 0);
    if (!cfx_is_none(sizes))
        reshape_by_views(c, sizes);
}

static void decompose_ravel(cfx_op_call *c) {
    c->out[0] = cfx_reshape(cfx_contiguous(arg_tensor(c, 0)), cfx_list(-1));
}

/* The new shape of unflatten(dim, sizes), -1 filled in; None with PyTorch's message. */
static cfx_value unflatten_shape(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t sizes[CFX_MAX_DIMS];
    int k = arg_ints(c, 2, sizes), dim = op_failed() ? -1 : arg_dim(c, 1, t->ndim);
    if (dim < 0)
        return cfx_none();
    if (!k || !t->ndim) {
        if (!k)
            op_fail(c, "unflatten: sizes must be non-empty");
        else
            op_fail_as(INDEX, c, "Dimension specified as 0 but tensor has no dimensions");
        return cfx_none();
    }
    int64_t product = 1;
    int inferred = -1;
    bool fits = true;
    for (int i = 0; i < k; i++) {
        if (sizes[i] == -1 && inferred >= 0) {
            op_fail(c, "only one dimension can be inferred");
            return cfx_none();
        }
        if (sizes[i] == -1)
            inferred = i;
        else
            fits = fits && sizes[i] >= 0 && !__builtin_mul_overflow(product, sizes[i], &product);
    }
    bool exact = fits && inferred < 0 && product == t->shape[dim];
    bool filled = fits && inferred >= 0 && product > 0 && t->shape[dim] % product == 0;
    if (!exact && !filled) {
        op_fail(
            c,
            "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the "
            "input tensor",
            cfx__shape_text(k, sizes), dim, (long long)t->shape[dim]);
        return cfx_none();
    }
    if (t->ndim + k - 1 > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return cfx_none();
    }
    cfx_value given = given_sizes(c, 2, k, sizes);
    cfx_value rest = filled ? size_over(size_of(t, dim), size_but(given, inferred)) : cfx_none();
    cfx_value shape = cfx_list_value(0, NULL);
    for (int d = 0; d < t->ndim; d++) {
        if (d != dim)
            cfx_list_append(cfx_as_list(shape), size_of(t, d));
        for (int i = 0; d == dim && i < k; i++)
            cfx_list_append(cfx_as_list(shape), i == inferred ? rest : cfx_at(given, i));
    }
    return shape;
}

static void view_unflatten(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    cfx_value sizes = unflatten_shape(c);
    for (int i = 0; !cfx_is_none(sizes) && i < cfx_as_list(sizes)->len; i++)
        shape[i] = cfx_integer(cfx_at(sizes, i));
    if (!cfx_is_none(sizes))
        view_as_shape(c, arg_tensor(c, 0), (int)cfx_as_list(sizes)->len, shape);
}

static void decompose_unflatten(cfx_op_call *c) {
    cfx_value sizes = unflatten_shape(c);
    if (!cfx_is_none(sizes))
        c->out[0] = cfx_view(arg_tensor(c, 0), sizes);
}

CFX_OP(flatten_using_ints) = {
    "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
    "torch.flatten Tensor.flatten", .view = view_flatten, .decompose = decompose_flatten,
    .effects = CFX_COMPOSITE | RESHAPED};
CFX_OP(unflatten_int) = {
    "aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
    "torch.unflatten Tensor.unflatten", .view = view_unflatten, .decompose = decompose_unflatten,
    .effects = CFX_COMPOSITE | RESHAPED};
CFX_OP(ravel) = {"aten::ravel(Tensor(a) self) -> Tensor(a)", "torch.ravel Tensor.ravel",
                 .decompose = decompose_ravel, .effects = CFX_COMPOSITE | RESHAPED};

/* ---- strides given by the caller ------------------------------------------------------------- */

static void view_as_strided(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape), m = arg_ints(c, 2, stride);
    int64_t offset = c->nargs < 4 || arg_is_none(c, 3) ? t->offset : arg_int(c, 3);
    if (op_failed())
        return;
    if (n != m)
        op_fail(c, "mismatch in length of strides and shape");
    else if (in_bounds(c, t, n, shape, stride, offset))
        out_view(c, 0, t, n, shape, stride, offset);
}

/* The same elements, all of them. */
static void view_reshape_alias(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    if (!op_failed() && infer_shape(c, arg_tensor(c, 0)->numel, n, shape))
        view_as_strided(c);
}

CFX_OP(as_strided) = {"aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? "
                      "storage_offset=None) -> Tensor(a)",
                      "torch.as_strided Tensor.as_strided", .view = view_as_strided,
                      GRAD(as_strided, 0), .effects = CFX_STORAGE, .inplace = "default"};
CFX_OP(_reshape_alias) = {
    "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    "torch._reshape_alias", .view = view_reshape_alias, GRAD(reshape, 0),
    .core = core__unsafe_view, .effects = CFX_STORAGE};
CFX_OP(alias) = {"aten::alias(Tensor(a) self) -> Tensor(a)", "torch.ops.aten.alias",
                 .view = view_alias, GRAD(same, 0), .effects = RESHAPED};
CFX_OP(detach) = {"aten::detach(Tensor(a) self) -> Tensor(a)", "torch.detach Tensor.detach",
                  .view = view_alias, NO_GRAD, .core = core_detach, .effects = RESHAPED,
                  .inplace = "default"};
CFX_OP(lift_fresh) = {"aten::lift_fresh(Tensor(a) self) -> Tensor(a)", NULL, .view = view_self,
                      GRAD(same, 0), .effects = RESHAPED};
CFX_OP(lift) = {"aten::lift(Tensor self) -> Tensor", NULL, .view = view_self, GRAD(same, 0),
                .effects = CFX_SHARES | RESHAPED, .out = "out"};

/* ---- expand ---------------------------------------------------------------------------------- */

static void view_expand(cfx_op_call *c) {
    int64_t shape[CFX_MAX_DIMS];
    int n = arg_ints(c, 1, shape);
    if (!op_failed())
        c->out[0] = expanded(c, arg_tensor(c, 0), n, shape);
}

static void view_expand_as(cfx_op_call *c) {
    const cfx_tensor *other = arg_tensor(c, 1);
    c->out[0] = expanded(c, arg_tensor(c, 0), other->ndim, other->shape);
}

static void decompose_expand_as(cfx_op_call *c) {
    c->out[0] = cfx_expand(arg_tensor(c, 0), size_list(arg_tensor(c, 1)));
}

static void decompose_broadcast_to(cfx_op_call *c) {
    c->out[0] = cfx_expand(arg_tensor(c, 0), c->args[1]);
}

CFX_OP(expand) = {
    "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    "Tensor.expand", .view = view_expand, GRAD(same, 0), .effects = STRIDED};
CFX_OP(expand_as) = {"aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
                     "Tensor.expand_as", .view = view_expand_as, .decompose = decompose_expand_as,
                     .effects = CFX_COMPOSITE | STRIDED};
CFX_OP(broadcast_to) = {"aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                        "torch.broadcast_to Tensor.broadcast_to", .view = view_expand,
                        .decompose = decompose_broadcast_to, .effects = CFX_COMPOSITE | STRIDED};

/* ---- another dtype over the same bytes ------------------------------------------------------- */

static void unit_stride(cfx_op_call *c, const cfx_tensor *t, cfx_dtype d) {
    int64_t last = t->stride[t->ndim - 1];
    if (last != 1)
        op_fail(
            c, "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld",
            cfx__dtype_title(t->dtype), cfx__dtype_title(d), (long long)last);
}

/* Elements grow by `ratio` (of bytes): the last dimension and all strides shrink by it. */
static void view_wider(cfx_op_call *c, const cfx_tensor *t, cfx_dtype d, int ratio) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int last = t->ndim - 1;
    const char *from = cfx__dtype_title(t->dtype), *to = cfx__dtype_title(d);
    if (t->shape[last] % ratio)
        op_fail(c,
                "self.size(-1) must be divisible by %d to view %s as %s (different element sizes), "
                "but got %lld",
                ratio, from, to, (long long)t->shape[last]);
    else if (t->offset % ratio)
        op_fail(c,
                "self.storage_offset() must be divisible by %d to view %s as %s (different element "
                "sizes), but got %lld",
                ratio, from, to, (long long)t->offset);
    else
        unit_stride(c, t, d);
    for (int i = 0; i < t->ndim; i++) {
        if (i != last && t->stride[i] % ratio)
            op_fail(c,
                    "self.stride(%d) must be divisible by %d to view %s as %s (different element "
                    "sizes), but got %lld",
                    i, ratio, from, to, (long long)t->stride[i]);
        shape[i] = i == last ? t->shape[i] / ratio : t->shape[i];
        stride[i] = i == last ? t->stride[i] : t->stride[i] / ratio;
    }
    if (op_failed())
        return;
    cfx_tensor *v = out_view(c, 0, t, t->ndim, shape, stride, t->offset);
    v->dtype = (uint8_t)d;
    v->offset = t->offset / ratio;
}

static void view_narrower(cfx_op_call *c, const cfx_tensor *t, cfx_dtype d, int ratio) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    unit_stride(c, t, d);
    if (op_failed())
        return;
    for (int i = 0; i < t->ndim; i++) {
        bool last = i == t->ndim - 1;
        shape[i] = last ? t->shape[i] * ratio : t->shape[i];
        stride[i] = last ? t->stride[i] : t->stride[i] * ratio;
    }
    cfx_tensor *v = out_view(c, 0, t, t->ndim, shape, stride, t->offset);
    v->dtype = (uint8_t)d;
    v->offset = t->offset * ratio;
}

static void view_dtype(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_dtype d = arg_dtype(c, 1, t->dtype);
    int from = cfx_dtype_size(t->dtype), to = cfx_dtype_size(d);
    if (!cfx__dtype_is_plain(c->at, d))
        return;
    if (from == to) {
        view_alias(c);
        c->out[0]->dtype = (uint8_t)d;
    } else if (t->ndim == 0) {
        op_fail(c, "self.dim() cannot be 0 to view %s as %s (different element sizes)",
                cfx__dtype_title(t->dtype), cfx__dtype_title(d));
    } else {
        (from < to ? view_wider : view_narrower)(c, t, d, from < to ? to / from : from / to);
    }
}

CFX_OP(view_dtype) = {"aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", NULL,
                      .view = view_dtype, .effects = CFX_LAYOUT | CFX_ALIKE};
