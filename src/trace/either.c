/* Merges the results of two branches: sizes and numbers that differ become data-dependent
 * symbols, as torch.cond merges them. Start at cfx__either_results. */
#include "control.h"
#include "record.h"

static const char merging[] = "When merging two branches' output in torch.cond, ";

static cfx_value either(int64_t a, int64_t b) {
    cfx__recorder *r = cfx__recorder_now();
    return r->either(r, a, b);
}

/* ---- strides --------------------------------------------------------------------------------- */

/* Dimensions from the one with the smallest stride on; of equal ones the last first. */
static void by_stride(const cfx_tensor *t, int *order) {
    for (int i = 0; i < t->ndim; i++) {
        int at = i;
        while (at > 0 && t->stride[order[at - 1]] >= t->stride[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static const char *ints_text(const int64_t *at, int n) {
    cfx_value ints = cfx_ints_value(n, at);
    return cfx_value_repr(cfx_tuple_value(n, cfx_as_list(ints)->items));
}

static bool same_order(cfx_site at, const cfx_tensor *a, const cfx_tensor *b, int *order) {
    int other[CFX_MAX_DIMS];
    by_stride(a, order);
    by_stride(b, other);
    if (!memcmp(order, other, (size_t)a->ndim * sizeof *order))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "The sorted order of strides of the two branches' output doesn't match.this indicates "
             "the contiguousness of the two branches are different. True branch has stride %s but "
             "false branch has stride %s.Consider using contiguous() to make the two branches have "
             "the same contiguousness.",
             ints_text(a->stride, a->ndim), ints_text(b->stride, b->ndim));
    return false;
}

/* The dimension before place k of the order that both strides follow on; -1: there is none. */
static int step_before(const cfx_tensor *a, const cfx_tensor *b, const int *order, int k) {
    int d = order[k];
    for (int i = k - 1; i >= 0; i--) {
        int e = order[i];
        if (a->stride[e] && a->stride[e] * a->shape[e] == a->stride[d] &&
            b->stride[e] * b->shape[e] == b->stride[d])
            return e;
    }
    return -1;
}

/* Each stride is a size times the stride before it, in both; so it is in the result. */
static bool join_strides(cfx_site at, const cfx_tensor *a, const cfx_tensor *b,
                         const int64_t *shape, int64_t *stride) {
    int order[CFX_MAX_DIMS];
    if (!same_order(at, a, b, order))
        return false;
    for (int k = 0; k < a->ndim; k++) {
        int d = order[k], before = step_before(a, b, order, k);
        bool fixed = a->stride[d] == b->stride[d] && a->stride[d] >= 0 && a->stride[d] <= 1;
        if (before < 0 && !fixed) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "It seems one of cond's output stride is not a simple accumulative "
                     "multiplication of sizes. This could be because cond returns a slice of a "
                     "tensor, which is not dense in memory. True branch has size %s, stride %s and "
                     "false branch has size %s stride %s. Hint: can call t.contiguous(). ",
                     ints_text(a->shape, a->ndim), ints_text(a->stride, a->ndim),
                     ints_text(b->shape, b->ndim), ints_text(b->stride, b->ndim));
            return false;
        }
        stride[d] = before < 0 ? a->stride[d] : stride[before] * shape[before];
    }
    return true;
}

/* ---- tensors and numbers --------------------------------------------------------------------- */

static bool differ(cfx_site at, const char *what, const char *a, const char *b) {
    cfx_fail(CFX_RUNTIME_ERROR, at, "%s expected same %s but got %s and %s.", merging, what, a, b);
    return false;
}

static bool is_alike(cfx_site at, const cfx_tensor *a, const cfx_tensor *b) {
    if (a->dtype != b->dtype)
        return differ(at, "dtype", cfx_value_repr(cfx_dtype_value((cfx_dtype)a->dtype)),
                      cfx_value_repr(cfx_dtype_value((cfx_dtype)b->dtype)));
    if (a->device.type != b->device.type || a->device.index != b->device.index)
        return differ(at, "device", cfx_value_str(cfx_device_value(a->device)),
                      cfx_value_str(cfx_device_value(b->device)));
    if (a->ndim != b->ndim)
        return differ(at, "dim", cfx__text_format("%d", a->ndim),
                      cfx__text_format("%d", b->ndim));
    if (a->offset != b->offset)
        return differ(at, "storage_offset", cfx__text_format("%lld", (long long)a->offset),
                      cfx__text_format("%lld", (long long)b->offset));
    return true;
}

static cfx_value join_tensors(cfx_site at, const cfx_tensor *a, const cfx_tensor *b) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (!is_alike(at, a, b))
        return cfx_bad();
    for (int i = 0; i < a->ndim; i++)
        shape[i] = cfx_integer(cfx__value_plain(either(a->shape[i], b->shape[i])));
    if (!join_strides(at, a, b, shape, stride))
        return cfx_bad();
    cfx_tensor *t = cfx_tensor_fake((cfx_dtype)a->dtype, a->ndim, shape, stride);
    if (!cfx__obj_is_bad(t))
        cfx__tensor_place(t, a->device);
    return cfx_tensor_value(t);
}

static cfx_value join(cfx_site at, cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_TENSOR && b.tag == CFX_TAG_TENSOR)
        return join_tensors(at, cfx_as_tensor(a), cfx_as_tensor(b));
    if (a.tag == CFX_TAG_INT && b.tag == CFX_TAG_INT)
        return either(cfx_integer(cfx__value_plain(a)), cfx_integer(cfx__value_plain(b)));
    if (cfx_is_none(a) && cfx_is_none(b))
        return a;
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "%sexpected two tensors, two integers or None twice, but got %s and %s", merging,
             cfx_value_type_name(a), cfx_value_type_name(b));
    return cfx_bad();
}

cfx_value cfx__either_results(cfx_site at, const cfx_list *yes, const cfx_list *no) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < yes->len && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(out), join(at, yes->items[i], no->items[i]));
    return cfx_ok() ? out : cfx_bad();
}
