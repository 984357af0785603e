/* Indexing by tensors: x[i, j], x[mask], x[:, i] = v. Start at plan_make, which finds what all of
 * them need: indices broadcast together, masks turned into indices, and the order of dimensions
 * (indices that are not neighbours move their dimensions to the front, as in NumPy). */
#include "index.h"
#include "walk.h"

CFX_FAMILY(INDEX);

typedef struct {
    int ndim;                        /* of self */
    int order[CFX_MAX_DIMS];         /* dims of self as the result has them */
    cfx_tensor *index[CFX_MAX_DIMS]; /* in that order; NULL for a dim taken whole */
    int before, indexed;             /* dims ahead of the indexed ones, and the number of those */
    int bdim;                        /* the shape of all indices together */
    int64_t bshape[CFX_MAX_DIMS];
} plan;

static bool is_mask(const cfx_tensor *t) { return t->dtype == CFX_BOOL || t->dtype == CFX_U8; }

static bool fits_mask(cfx_op_call *c, const cfx_tensor *self, int at, const cfx_tensor *mask) {
    for (int j = 0; j < mask->ndim; j++) {
        if (cfx__shape_wrap_dim(c->at, at + j, self->ndim) < 0)
            return false;
        if (at + j >= self->ndim || mask->shape[j] != self->shape[at + j]) {
            op_fail_as(
                INDEX, c,
                "The shape of the mask %s at index %d does not match the shape of the indexed "
                "tensor %s at index %d",
                cfx__shape_text(mask->ndim, mask->shape), j,
                cfx__shape_text(self->ndim, self->shape), at + j);
            return false;
        }
    }
    return true;
}

/* Adds the indices that a mask stands for. Without `data` only their number is found out. */
static bool add_mask(cfx_op_call *c, const cfx_tensor *mask, bool data, cfx_tensor **list, int *n) {
    cfx_tensor *all = NULL;
    int64_t count, one = 1;
    if (!mask->data) {
        if (!op_data_size(c, &count))
            return false;
    } else if (data) {
        all = op_nonzero(c, mask);
        if (cfx__obj_is_bad(all))
            return false;
        count = all->shape[0];
    } else {
        count = op_count_nonzero(mask);
    }
    for (int j = 0; j < mask->ndim; j++)
        list[(*n)++] = all ? cfx__tensor_alias(all, 1, &count, &one, j * count)
                           : cfx__tensor_empty(c->at, CFX_I64, true, 1, &count, NULL);
    return true;
}

static bool list_indices(cfx_op_call *c, int arg, const cfx_tensor *self, bool data,
                         cfx_tensor **list, int *count) {
    int64_t given = arg_count(c, arg);
    if (given > self->ndim) {
        op_fail_as(INDEX, c, "too many indices for tensor of dimension %d (got %lld)", self->ndim,
                   (long long)given);
        return false;
    }
    int n = 0;
    for (int64_t k = 0; k < given; k++) {
        cfx_tensor *t = arg_item(c, arg, k);
        if (t && !is_mask(t) && t->dtype != CFX_I64 && t->dtype != CFX_I32) {
            op_fail_as(INDEX, c, "tensors used as indices must be long, int, byte or bool tensors");
            return false;
        }
    }
    for (int64_t k = 0; k < given; k++) {
        cfx_tensor *t = arg_item(c, arg, k);
        if (t && is_mask(t)) {
            if (!fits_mask(c, self, n, t) || !add_mask(c, t, data, list, &n))
                return false;
        } else if (cfx__shape_wrap_dim(c->at, n, self->ndim) < 0) {
            return false;
        } else {
            list[n++] = t;
        }
    }
    *count = n;
    return true;
}

static bool broadcast_indices(cfx_op_call *c, plan *p, int n, cfx_tensor **list) {
    for (int k = 0; k < n; k++) {
        if (!list[k])
            continue;
        int ndim = p->bdim > list[k]->ndim ? p->bdim : list[k]->ndim;
        for (int d = 1; d <= ndim; d++) {
            int64_t a = d <= p->bdim ? p->bshape[p->bdim - d] : 1;
            int64_t b = d <= list[k]->ndim ? list[k]->shape[list[k]->ndim - d] : 1;
            if (a == b || a == 1 || b == 1)
                continue;
            cfx__text t = {0};
            for (int i = 0; i < n; i++)
                if (list[i])
                    cfx__text_printf(&t, "%s%s", t.len ? ", " : "",
                                     cfx__shape_text(list[i]->ndim, list[i]->shape));
            op_fail_as(INDEX, c,
                       "shape mismatch: indexing tensors could not be broadcast together with "
                       "shapes %s",
                       cfx__text_take(&t));
            return false;
        }
        if (!cfx__shape_broadcast(c->at, &p->bdim, p->bshape, list[k]->ndim, list[k]->shape))
            return false;
    }
    return true;
}

static bool plan_make(cfx_op_call *c, plan *p, const cfx_tensor *self, int arg, bool data) {
    cfx_tensor *list[CFX_MAX_DIMS] = {NULL};
    int n;
    *p = (plan){.ndim = self->ndim};
    if (!list_indices(c, arg, self, data, list, &n) || !broadcast_indices(c, p, n, list))
        return false;
    int first = -1, last = -1;
    bool empty = false, none = false;
    for (int d = 0; d < self->ndim; d++)
        if (list[d]) {
            first = first < 0 ? d : first;
            last = d;
            p->indexed++;
            empty |= self->shape[d] == 0;
        }
    for (int d = 0; d < p->bdim; d++)
        none |= p->bshape[d] == 0;
    if (empty && !none) {
        op_fail_as(INDEX, c, "index is out of bounds for dimension with size 0");
        return false;
    }
    if (self->ndim - p->indexed + p->bdim > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return false;
    }
    bool front = p->indexed && last - first + 1 != p->indexed;
    p->before = front ? 0 : p->indexed ? first : self->ndim;
    int k = 0;
    for (int pass = front ? 0 : 1; pass < 3; pass++)
        for (int d = 0; d < self->ndim; d++) {
            bool take = pass == 1 ? !front : front && (pass == 0) == (list[d] != NULL);
            if (!take)
                continue;
            p->order[k] = d;
            p->index[k++] = list[d];
        }
    for (int i = 0; i < self->ndim; i++)
        if (p->index[i])
            p->index[i] = op_expand(p->index[i], p->bdim, p->bshape);
    return true;
}

/* The shape of the indexed part, and self's strides in it, 0 where an index decides. */
static int plan_shape(const plan *p, const cfx_tensor *self, int64_t *shape, int64_t *stride) {
    int n = 0;
    for (int k = 0; k <= self->ndim; k++) {
        if (k == p->before)
            for (int d = 0; d < p->bdim; d++) {
                shape[n] = p->bshape[d];
                stride[n++] = 0;
            }
        if (k == self->ndim || p->index[k])
            continue;
        shape[n] = self->shape[p->order[k]];
        stride[n++] = self->stride[p->order[k]];
    }
    return n;
}

/* The walk over self, indexed by the plan, and `other`, which has strides for the result's dims. */
static void plan_walk(cfx_op_call *c, const plan *p, walk_op op, unsigned rules, cfx_tensor *self,
                      cfx_tensor *other, const int64_t *ostride, cfx_value alpha) {
    walk w = {.op = op,
              .dtype = self->dtype,
              .a = self->data,
              .b = other->data,
              .positions = 1,
              .alpha = alpha};
    const cfx_tensor *index[CFX_MAX_DIMS];
    int64_t size[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = 0, at = 0;
    bool nothing = false; /* then PyTorch does not look at the indices */
    for (int d = 0; d < p->bdim; d++)
        w.positions *= p->bshape[d];
    for (int k = 0; k <= p->ndim; k++) {
        if (k == p->before)
            at += p->bdim;
        if (k == p->ndim)
            break;
        int d = p->order[k];
        if (p->index[k]) {
            index[n] = cfx__tensor_contiguous_as(p->index[k], CFX_I64);
            size[n] = self->shape[d];
            stride[n++] = self->stride[d];
            continue;
        }
        nothing |= !self->shape[d];
        if (k < p->before)
            walk_outer(&w, self->shape[d], self->stride[d], ostride[at++]);
        else
            walk_inner(&w, self->shape[d], self->stride[d], ostride[at++]);
    }
    if (nothing || op_failed())
        return;
    w.at = walk_offsets(c, rules, 0, w.positions, n, index, size, stride);
    /* positions of the other side: a line where its strides allow, else one by one */
    const int64_t *ob = ostride + p->before;
    walk_dim line[CFX_MAX_DIMS];
    int lines = 0;
    walk probe = {0};
    for (int d = 0; d < p->bdim; d++)
        walk_outer(&probe, p->bshape[d], ob[d], ob[d]);
    lines = probe.nouter;
    memcpy(line, probe.outer, sizeof line);
    w.step_b = lines ? line[0].b : 0;
    if (lines > 1) {
        int64_t *at_b = scratch(c, CFX_I64, w.positions);
        for (int64_t i = 0; at_b && i < w.positions; i++) {
            int64_t r = i, o = 0;
            for (int d = lines - 1; d >= 0; d--) {
                o += r % line[d].n * line[d].b;
                r /= line[d].n;
            }
            at_b[i] = o;
        }
        w.at_b = at_b;
    }
    if (!op_failed())
        walk_run(c, &w);
}

/* ---- x[...] --------------------------------------------------------------------------------- */

static void shape_index(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0);
    plan p;
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    c->out[0] = &cfx__tensor_bad;
    if (!plan_make(c, &p, self, 1, false))
        return;
    int ndim = plan_shape(&p, self, shape, stride), n = 1;
    if (cfx__shape_numel(c->at, ndim, shape) < 0)
        return;
    /* the strides are those of an operator on self, restrided so, and on the indices */
    const cfx_tensor *operands[CFX__ITER_MAX] = {
        cfx__tensor_alias(self, ndim, shape, stride, self->offset)};
    for (int k = 0; k < self->ndim && n < CFX__ITER_MAX; k++) {
        if (!p.index[k])
            continue;
        const cfx_tensor *t = p.index[k];
        int64_t ishape[CFX_MAX_DIMS], istride[CFX_MAX_DIMS];
        for (int d = 0; d < ndim; d++) {
            bool own = d >= p.before && d < p.before + p.bdim;
            ishape[d] = own ? t->shape[d - p.before] : 1;
            istride[d] = own ? t->stride[d - p.before] : 1;
        }
        operands[n++] = cfx__tensor_alias(t, ndim, ishape, istride, t->offset);
    }
    cfx__strides_pointwise(n, operands, ndim, shape, stride);
    out_strided(c, 0, self->dtype, ndim, shape, stride);
}

static void kernel_index(cfx_op_call *c) {
    plan p;
    cfx_tensor *self = arg_tensor(c, 0);
    if (plan_make(c, &p, self, 1, true))
        plan_walk(c, &p, WALK_GET, WALK_WRAP | WALK_NAMED, self, c->out[0], c->out[0]->stride,
                  CFX_NONE);
}

CFX_OP(index_Tensor) = {"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", NULL,
                        .shape = shape_index, .kernel = kernel_index,
                        .dtypes = CFX_IN_ANY, GRAD(index, READ(1)),
                        .effects = CFX_MOVES | CFX_ANY_DEVICE, .out = "Tensor_out"};
CFX_OP(_unsafe_index_Tensor) = {
    "aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", NULL,
    .shape = shape_index, .kernel = kernel_index, .dtypes = CFX_IN_ANY, GRAD(index, READ(1)),
    .effects = CFX_ANY_DEVICE, .core = core__unsafe_index_Tensor};

/* ---- x[...] = v ----------------------------------------------------------------------------- */

/* Whether the call only fills where one mask says so: then v may have any dtype. */
static bool only_fills(const cfx_op_call *c) {
    int masks = 0;
    for (int64_t k = 0; k < arg_count(c, 1); k++) {
        const cfx_tensor *t = arg_item(c, 1, k);
        masks += t && is_mask(t);
        if (t && !is_mask(t))
            return false;
    }
    return masks == 1 && arg_tensor(c, 2)->numel == 1 && !arg_bool(c, 3);
}

/* Whether values can be written where the indices of a plan point to; `shape` is of that, of *ndim
 * dimensions. An error where not. */
static bool values_fit(cfx_op_call *c, const plan *p, const cfx_tensor *self, int *ndim,
                       int64_t *shape) {
    const cfx_tensor *values = arg_tensor(c, 2);
    int64_t stride[CFX_MAX_DIMS];
    *ndim = plan_shape(p, self, shape, stride);
    bool fits = values->ndim <= *ndim;
    for (int d = 1; fits && d <= values->ndim; d++)
        fits = values->shape[values->ndim - d] == 1 ||
               values->shape[values->ndim - d] == shape[*ndim - d];
    if (!fits)
        op_fail(
            c,
            "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of "
            "shape %s",
            cfx__shape_text(values->ndim, values->shape), cfx__shape_text(*ndim, shape));
    return fits;
}

static void shape_index_put(cfx_op_call *c) {
    const cfx_tensor *self = arg_tensor(c, 0), *values = arg_tensor(c, 2);
    c->out[0] = &cfx__tensor_bad;
    if (self->dtype != values->dtype && !only_fills(c)) {
        op_fail(c,
                "Index put requires the source and destination dtypes match, got %s for the "
                "destination and %s for the source.",
                cfx__dtype_title(self->dtype), cfx__dtype_title(values->dtype));
        return;
    }
    bool known = true;
    int64_t dims = 0;
    for (int64_t k = 0; k < arg_count(c, 1); k++) {
        const cfx_tensor *t = arg_item(c, 1, k);
        const bool mask = t && is_mask(t);
        known &= !mask;
        dims += mask ? t->ndim : 1;
        if (mask && c->fake && !fits_mask(c, self, (int)dims - t->ndim, t))
            return;
    }
    if (c->fake && dims > self->ndim) {
        op_fail_as(INDEX, c, "too many indices for tensor of dimension %d (got %lld)", self->ndim,
                   (long long)dims);
        return;
    }
    plan p;
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
    if (known && c->fake &&
        !(plan_make(c, &p, self, 1, false) && values_fit(c, &p, self, &ndim, shape)))
        return;
    out_like(c, 0, self->dtype, self);
}

static void put(cfx_op_call *c, cfx_tensor *values, bool accumulate) {
    cfx_tensor *self = arg_tensor(c, 0), *out = c->out[0];
    plan p;
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
    if (!plan_make(c, &p, self, 1, true) || !values_fit(c, &p, self, &ndim, shape))
        return;
    cfx_dtype d = accumulate ? op_lifted(self->dtype) : self->dtype;
    values = op_expand(cfx__tensor_to_dtype(values, d), ndim, shape);
    cfx_tensor *to = out;
    if (d != out->dtype) {
        to = cfx__tensor_empty(c->at, d, false, self->ndim, self->shape, NULL);
        if (!op_failed())
            cfx__tensor_copy(to, self);
    }
    walk_op op = accumulate ? WALK_ADD : WALK_SET;
    if (out != self && to == out)
        op_start_from_self(c);
    if (!op_failed())
        plan_walk(c, &p, op, WALK_WRAP | WALK_NAMED, to, values, values->stride, CFX_NONE);
    if (to != out && !op_failed())
        cfx__tensor_copy(out, to);
}

static void kernel_index_put(cfx_op_call *c) { put(c, arg_tensor(c, 2), arg_bool(c, 3)); }

CFX_OP(index_put) = {"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool "
                     "accumulate=False) -> Tensor",
                     "torch.index_put Tensor.index_put",
                     .shape = shape_index_put,
                     .kernel = kernel_index_put,
                     .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8 | CFX_IN(C32),
                     .effects = CFX_UPDATE | CFX_ANY_DEVICE,
                     GRAD(index_put, READ(1)), .inplace = "default", .out = "out"};
CFX_OP(_unsafe_index_put) = {"aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor "
                             "values, bool accumulate=False) -> Tensor",
                             NULL,
                             .shape = shape_index_put,
                             .kernel = kernel_index_put,
                             .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8 | CFX_IN(C32),
                             GRAD(index_put, READ(1)),
                             .core = core__unsafe_index_put};
CFX_OP(_index_put_impl) = {"aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, "
                           "bool accumulate=False, bool unsafe=False) -> Tensor",
                           NULL,
                           .shape = shape_index_put,
                           .kernel = kernel_index_put,
                           .dtypes = CFX_IN_AS_IS | CFX_IN_FLOAT8 | CFX_IN(C32),
                           .effects = CFX_UPDATE | CFX_ANY_DEVICE,
                           GRAD(index_put, READ(1)), .inplace = "default", .out = "out"};
