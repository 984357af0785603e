/* Parts of tensors, joined, cut, padded and turned round. */
#include "onnx.h"

CFX_FAMILY(VIEW);

/* ---- joined and cut -------------------------------------------------------------------------- */

ONNX_OP(Concat) { OUT(0) = cfx_cat(c->args[0], arg_int(c, 1)); }

CFX_OP(onnx_Concat) = {"onnx::Concat(Tensor[] inputs, *, int axis) -> Tensor", ONNX(Concat, 4)};
CFX_OP(onnx_Concat_v1) = {
    "onnx::Concat.v1(Tensor[] inputs, *, int axis=1) -> Tensor",
    ONNX(Concat, 1)};

/* More results than any node has: of nothing there are as many parts as one likes. */
enum { MOST_PARTS = 1 << 16 };

/* n equal parts, of which the last may be smaller. */
static void split_evenly(cfx_op_call *c, int axis, int64_t n) {
    cfx_tensor *x = T(0);
    int64_t size = x->shape[axis], part = n > 0 ? (size + n - 1) / n : 0;
    if (n <= 0 || n > MOST_PARTS || part * (n - 1) > size) {
        op_fail(c, "Split: %lld elements cannot be split into %lld parts", (long long)size,
                (long long)n);
        return;
    }
    if (part * n == size && part) {
        c->result = cfx_split(x, part, axis);
        return;
    }
    cfx_value parts = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(parts), cfx_int(i < n - 1 ? part : size - part * (n - 1)));
    c->result = cfx_split_with_sizes(x, parts, axis);
}

/* The sizes of the parts are in a tensor, in a list, or all the same. */
ONNX_OP(Split) { /* input, split, axis, num_outputs */
    cfx_tensor *x = T(0);
    int axis = onnx_axis(c, arg_int(c, 2), x->ndim);
    if (axis < 0)
        return;
    if (arg_is_none(c, 1)) {
        split_evenly(c, axis, arg_is_none(c, 3) ? 0 : arg_int(c, 3));
        return;
    }
    const cfx_tensor *sizes = onnx_numbers(c, 1);
    cfx_value parts = cfx_list_value(0, NULL);
    for (int64_t i = 0; sizes && i < sizes->numel; i++)
        cfx_list_append(cfx_as_list(parts), cfx__tensor_get(sizes, i));
    if (sizes)
        c->result = cfx_split_with_sizes(x, parts, axis);
}

ONNX_OP(Split_v1) { /* input, axis, split, num_outputs */
    int axis = onnx_axis(c, arg_int(c, 1), T(0)->ndim);
    if (axis >= 0 && arg_is_none(c, 2))
        split_evenly(c, axis, arg_is_none(c, 3) ? 0 : arg_int(c, 3));
    else if (axis >= 0)
        c->result = cfx_split_with_sizes(T(0), c->args[2], axis);
}

CFX_OP(onnx_Split) = {
    "onnx::Split(Tensor input, Tensor? split=None, *, int axis=0, int? num_outputs=None) -> "
    "Tensor[]",
    ONNX_SEVERAL(Split, 13)};
CFX_OP(onnx_Split_v1) = {
    "onnx::Split.v1(Tensor input, *, int axis=0, int[]? split=None, int? num_outputs=None) -> "
    "Tensor[]",
    ONNX_SEVERAL(Split_v1, 1)};

/* ---- slices ---------------------------------------------------------------------------------- */

static int64_t between(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

/* Steps go back in what is turned round. */
static cfx_tensor *sliced_back(cfx_tensor *x, int axis, int64_t start, int64_t end, int64_t step) {
    int64_t n = x->shape[axis];
    start = between(start < 0 ? start + n : start, -1, n - 1);
    end = between(end < 0 ? (end < -n ? -1 : end + n) : end, -1, n - 1);
    x = cfx_flip(x, cfx_list(axis));
    return cfx_slice(x, axis, n - 1 - start, n - 1 - end, step == INT64_MIN ? INT64_MAX : -step);
}

typedef struct {
    int n;
    int64_t starts[CFX_MAX_DIMS], ends[CFX_MAX_DIMS], axes[CFX_MAX_DIMS], steps[CFX_MAX_DIMS];
} slicing;

static void slice(cfx_op_call *c, const slicing *s) {
    cfx_tensor *x = T(0);
    for (int i = 0; i < s->n; i++) {
        int axis = onnx_axis(c, s->axes[i], x->ndim);
        if (axis < 0)
            return;
        if (!s->steps[i]) {
            op_fail(c, "Slice: the step of axis %d is 0", axis);
            return;
        }
        x = s->steps[i] > 0 ? cfx_slice(x, axis, s->starts[i], s->ends[i], s->steps[i])
                            : sliced_back(x, axis, s->starts[i], s->ends[i], s->steps[i]);
    }
    OUT(0) = x;
}

static bool same_lengths(cfx_op_call *c, int n, int other) {
    if (n != other)
        op_fail(c, "Slice: there are %d starts, but %d ends, axes or steps", n, other);
    return n == other;
}

ONNX_OP(Slice) { /* data, starts, ends, axes, steps */
    slicing s;
    int ends, axes, steps;
    if (!onnx_ints(c, 1, s.starts, &s.n) || !onnx_ints(c, 2, s.ends, &ends) ||
        !onnx_ints(c, 3, s.axes, &axes) || !onnx_ints(c, 4, s.steps, &steps) ||
        !same_lengths(c, s.n, ends))
        return;
    for (int i = 0; i < s.n; i++) {
        s.axes[i] = arg_is_none(c, 3) ? i : i < axes ? s.axes[i] : 0;
        s.steps[i] = arg_is_none(c, 4) ? 1 : i < steps ? s.steps[i] : 0;
    }
    if (same_lengths(c, s.n, arg_is_none(c, 3) ? s.n : axes) &&
        same_lengths(c, s.n, arg_is_none(c, 4) ? s.n : steps))
        slice(c, &s);
}

ONNX_OP(Slice_v1) { /* data, axes, ends, starts */
    slicing s;
    s.n = arg_ints(c, 3, s.starts);
    int axes = arg_ints(c, 1, s.axes), ends = arg_ints(c, 2, s.ends);
    for (int i = 0; i < s.n; i++) {
        s.axes[i] = arg_is_none(c, 1) ? i : i < axes ? s.axes[i] : 0;
        s.steps[i] = 1;
    }
    if (same_lengths(c, s.n, ends) && same_lengths(c, s.n, arg_is_none(c, 1) ? s.n : axes))
        slice(c, &s);
}

CFX_OP(onnx_Slice) = {
    "onnx::Slice(Tensor data, Tensor starts, Tensor ends, Tensor? axes=None, Tensor? steps=None) "
    "-> Tensor",
    ONNX(Slice, 10)};
CFX_OP(onnx_Slice_v1) = {
    "onnx::Slice.v1(Tensor data, *, int[]? axes=None, int[] ends, int[] starts) -> Tensor",
    ONNX(Slice_v1, 1)};

/* ---- padding --------------------------------------------------------------------------------- */

typedef struct {
    int64_t before[CFX_MAX_DIMS], after[CFX_MAX_DIMS];
} margins;

/* By position along an axis, whatever the dtype and however much. */
static cfx_tensor *padded_by_index(cfx_tensor *x, int axis, int64_t before, int64_t after,
                                   const char *mode) {
    int64_t n = x->shape[axis], period = 2 * (n - 1);
    cfx_tensor *at = cfx_arange(-before, n + after, CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    if (!strcmp(mode, "edge")) {
        at = cfx_clamp(at, 0, n - 1);
    } else if (!strcmp(mode, "wrap")) {
        at = cfx_remainder(at, n);
    } else if (n == 1) {
        at = cfx_zeros_like(at);
    } else {
        at = cfx_remainder(at, period);
        at = cfx_where(cfx_ge(at, n), cfx_rsub(at, period), at);
    }
    return cfx_index_select(x, axis, at);
}

/* Whether ATen has the padding as it is: of the last one to three dimensions of images, smaller
 * than these. */
static bool is_plain(const cfx_tensor *x, const margins *m, int first, const char *mode) {
    int n = x->ndim - first;
    const int least = strcmp(mode, "wrap") ? 1 : 2; /* it wants all but two dimensions */
    bool plain = cfx__dtype_is_float((cfx_dtype)x->dtype) && n >= 1 && n <= 3 && first >= least &&
                 first <= 2;
    for (int i = first; i < x->ndim && plain; i++) {
        int64_t most = !strcmp(mode, "edge") ? INT64_MAX
                       : !strcmp(mode, "wrap") ? x->shape[i] + 1 : x->shape[i];
        plain = m->before[i] >= 0 && m->after[i] >= 0 && m->before[i] < most &&
                m->after[i] < most;
    }
    return plain;
}

/* The margins of the dimensions from `first` on as ATen lists them: the last first. */
static cfx_value pads_from(const cfx_tensor *x, const margins *m, int first) {
    cfx_value pads = cfx_list_value(0, NULL);
    for (int i = x->ndim - 1; i >= first; i--) {
        cfx_list_append(cfx_as_list(pads), cfx_int(m->before[i]));
        cfx_list_append(cfx_as_list(pads), cfx_int(m->after[i]));
    }
    return pads;
}

/* The first dimension that is padded. Margins that follow from sizes may be none at some of them:
 * what is recorded is the same then, so that it is one program at all sizes. */
static int first_padded(const cfx_op_call *c, const cfx_tensor *x, const margins *m,
                        bool constant) {
    int first = 0;
    while (first < x->ndim && !m->before[first] && !m->after[first])
        first++;
    if (!c->fake)
        return first;
    return x->ndim > 2 && first >= 2 ? 2 : constant ? 0 : first;
}

static cfx_tensor *padded(cfx_op_call *c, cfx_tensor *x, const margins *m, const char *mode,
                          cfx_value with) {
    static const char *const names[][2] = {
        {"reflect", "reflect"}, {"edge", "replicate"}, {"wrap", "circular"}};
    const int first = first_padded(c, x, m, !strcmp(mode, "constant"));
    if (first == x->ndim)
        return x;
    if (!strcmp(mode, "constant"))
        return cfx_constant_pad_nd(x, pads_from(x, m, first), with);
    for (int i = 0; i < COUNT(names); i++) {
        if (strcmp(names[i][0], mode))
            continue;
        if (is_plain(x, m, first, mode))
            return cfx_pad(x, pads_from(x, m, first), names[i][1]);
        for (int axis = first; axis < x->ndim; axis++)
            if (m->before[axis] || m->after[axis])
                x = padded_by_index(x, axis, m->before[axis], m->after[axis], mode);
        return x;
    }
    op_fail(c, "Pad: the mode is constant, reflect, edge or wrap, not '%s'", mode);
    return &cfx__tensor_bad;
}

ONNX_OP(Pad) { /* data, pads, constant_value, axes, mode */
    cfx_tensor *x = T(0);
    int64_t pads[2 * CFX_MAX_DIMS], axes[CFX_MAX_DIMS];
    margins m = {0};
    const cfx_tensor *given = onnx_numbers(c, 1);
    int n = given ? onnx_axes(c, 3, x->ndim, axes) : -1;
    if (n < 0)
        return;
    if (given->numel != 2 * n) {
        op_fail(c, "Pad: %lld paddings are given for %d axes", (long long)given->numel, n);
        return;
    }
    for (int i = 0; i < 2 * n; i++)
        pads[i] = cfx_integer(cfx__tensor_get(given, i));
    for (int i = 0; i < n; i++) {
        m.before[axes[i]] = pads[i];
        m.after[axes[i]] = pads[n + i];
    }
    cfx_value with = cfx_int(0);
    if (T(2) && T(2)->numel) {
        const cfx_tensor *v = onnx_numbers(c, 2);
        if (!v)
            return;
        with = cfx__tensor_get(v, 0);
    }
    OUT(0) = padded(c, x, &m, arg_text(c, 4), with);
}

/* data, mode, pads, value */
ONNX_OP(Pad_v1) {
    cfx_tensor *x = T(0);
    margins m = {0};
    if (arg_count(c, 2) != 2 * x->ndim) {
        op_fail(c, "Pad: %lld paddings are given for %d dimensions", (long long)arg_count(c, 2),
                x->ndim);
        return;
    }
    for (int i = 0; i < x->ndim; i++) {
        m.before[i] = cfx_integer(cfx_at(c->args[2], i));
        m.after[i] = cfx_integer(cfx_at(c->args[2], x->ndim + i));
    }
    OUT(0) = padded(c, x, &m, arg_text(c, 1), c->args[3]);
}

CFX_OP(onnx_Pad) = {
    "onnx::Pad(Tensor data, Tensor pads, Tensor? constant_value=None, Tensor? axes=None, *, str "
    "mode=\"constant\") -> Tensor",
    ONNX(Pad, 11)};
CFX_OP(onnx_Pad_v1) = {
    "onnx::Pad.v1(Tensor data, *, str mode=\"constant\", int[] pads, float value=0.) -> Tensor",
    ONNX(Pad_v1, 2)};
CFX_OP(onnx_Pad_v0) = {
    "onnx::Pad.v0(Tensor data, *, str mode=\"constant\", int[] paddings, float value=0.) -> Tensor",
    ONNX(Pad_v1, 1)};

/* What is larger is cut, what is smaller padded, as much in front as behind. */
ONNX_OP(CenterCropPad) { /* input_data, shape, axes */
    cfx_tensor *x = T(0);
    int64_t shape[CFX_MAX_DIMS], axes[CFX_MAX_DIMS];
    margins m = {0};
    int n, count = onnx_axes(c, 2, x->ndim, axes);
    if (count < 0 || !onnx_ints(c, 1, shape, &n))
        return;
    if (n != count) {
        op_fail(c, "CenterCropPad: %d sizes are given for %d axes", n, count);
        return;
    }
    for (int i = 0; i < n; i++) {
        int64_t more = shape[i] - x->shape[axes[i]];
        int64_t front = more < 0 ? -(-more / 2) : more / 2;
        m.before[axes[i]] = front;
        m.after[axes[i]] = more - front;
    }
    OUT(0) = padded(c, x, &m, "constant", cfx_int(0));
}

CFX_OP(onnx_CenterCropPad) = {
    "onnx::CenterCropPad(Tensor input_data, Tensor shape, *, int[]? axes=None) -> Tensor",
    ONNX(CenterCropPad, 18)};

/* The first so many of each sequence in the other order. */
ONNX_OP(ReverseSequence) { /* input, sequence_lens, batch_axis, time_axis */
    cfx_tensor *x = T(0), *lens = onnx_to(T(1), CFX_I64);
    int64_t batch = arg_int(c, 2), time = arg_int(c, 3);
    if (x->ndim < 2 || batch + time != 1 || batch * time != 0 || lens->ndim != 1) {
        op_fail(c, "ReverseSequence: time and batch are the first two dimensions");
        return;
    }
    cfx_tensor *at = cfx_arange(x->shape[time], CFX_KW(dtype, cfx_dtype_value(CFX_I64)));
    at = cfx_unsqueeze(at, batch);
    lens = cfx_unsqueeze(lens, time);
    at = cfx_where(cfx_lt(at, lens), cfx_sub(cfx_sub(lens, 1), at), at);
    for (int i = 2; i < x->ndim; i++)
        at = cfx_unsqueeze(at, -1);
    OUT(0) = cfx_gather(x, time, cfx_expand(at, cfx_ints_value(x->ndim, x->shape)));
}

CFX_OP(onnx_ReverseSequence) = {
    "onnx::ReverseSequence(Tensor input, Tensor sequence_lens, *, int batch_axis=1, int "
    "time_axis=0) -> Tensor",
    ONNX(ReverseSequence, 10)};
