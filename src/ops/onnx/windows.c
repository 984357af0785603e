/* Windows that go over images: where convolutions and poolings look. */
#include "onnx.h"

/* A list of one number for each spatial dimension, `other` where it is left out. False, with an
 * error, where there are others, or none that is at least `least`. */
static bool read_list(cfx_op_call *c, int i, int n, int64_t other, int64_t least, int64_t *out) {
    if (i < 0 || arg_is_none(c, i)) {
        for (int k = 0; k < n; k++)
            out[k] = other;
        return true;
    }
    const char *name = cfx__op_info_of(c->op)->schema->args[i].name;
    if (arg_count(c, i) != n) {
        op_fail(c, "%s: %s has %lld numbers for %d dimensions", op_title(c), name,
                (long long)arg_count(c, i), n);
        return false;
    }
    arg_ints(c, i, out);
    for (int k = 0; k < n; k++)
        if (out[k] < least || out[k] > INT32_MAX) {
            op_fail(c, "%s: %s cannot be %lld", op_title(c), name, (long long)out[k]);
            return false;
        }
    return true;
}

/* Padding so that the result has a size of size/stride, rounded up. */
static void pad_same(const cfx_tensor *x, onnx_window *w, bool more_behind) {
    for (int i = 0; i < w->n; i++) {
        int64_t size = x->shape[x->ndim - w->n + i];
        int64_t out = (size + w->stride[i] - 1) / w->stride[i];
        int64_t all = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size;
        all = all > 0 ? all : 0;
        w->before[i] = more_behind ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

static bool read_pads(cfx_op_call *c, const cfx_tensor *x, onnx_window_args at, onnx_window *w) {
    const char *how = at.auto_pad < 0 ? "NOTSET" : arg_text(c, at.auto_pad);
    int64_t pads[2 * CFX_MAX_DIMS];
    if (!strcmp(how, "SAME_UPPER") || !strcmp(how, "SAME_LOWER")) {
        pad_same(x, w, !strcmp(how, "SAME_UPPER"));
        return true;
    }
    bool valid = !strcmp(how, "VALID");
    if (!valid && strcmp(how, "NOTSET") && *how) {
        op_fail(c, "%s: auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID, not '%s'", op_title(c),
                how);
        return false;
    }
    if (!read_list(c, valid ? -1 : at.pads, 2 * w->n, 0, INT32_MIN, pads))
        return false;
    for (int i = 0; i < w->n; i++) {
        w->before[i] = pads[i];
        w->after[i] = pads[w->n + i];
    }
    return true;
}

bool onnx_window_read(cfx_op_call *c, const cfx_tensor *x, const int64_t *kernel,
                      onnx_window_args at, onnx_window *w) {
    w->n = x->ndim - 2;
    if (w->n < 1 || w->n > 3) {
        op_fail(c, "%s: images have one to three dimensions beside batch and channels, not %d",
                op_title(c), w->n);
        return false;
    }
    for (int i = 0; kernel && i < w->n; i++)
        w->kernel[i] = kernel[i];
    bool given = kernel || read_list(c, at.kernel_shape, w->n, 1, 1, w->kernel);
    return given && read_list(c, at.strides, w->n, 1, 1, w->stride) &&
           read_list(c, at.dilations, w->n, 1, 1, w->dilation) && read_pads(c, x, at, w);
}

bool onnx_window_even(const onnx_window *w) {
    bool even = true;
    for (int i = 0; i < w->n; i++)
        even &= w->before[i] == w->after[i] && w->before[i] >= 0;
    return even;
}

cfx_tensor *onnx_window_pad(const onnx_window *w, cfx_tensor *x, cfx_value with) {
    if (onnx_window_even(w))
        return x;
    cfx_value pads = cfx_list_value(0, NULL);
    for (int i = w->n - 1; i >= 0; i--) {
        cfx_list_append(cfx_as_list(pads), cfx_int(w->before[i]));
        cfx_list_append(cfx_as_list(pads), cfx_int(w->after[i]));
    }
    return cfx_constant_pad_nd(x, pads, with);
}

cfx_value onnx_window_padding(const onnx_window *w) {
    static const int64_t none[CFX_MAX_DIMS];
    return cfx_ints_value(w->n, onnx_window_even(w) ? w->before : none);
}
