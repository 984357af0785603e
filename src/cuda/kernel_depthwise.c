/* Convolutions in which each channel has a window of its own. */
#include "kernel.h"

bool cfx__cuda_depthwise(const cfx__cuda_array *x, const cfx__cuda_array *w,
                         const cfx__cuda_window *window, const cfx__cuda_after *after,
                         const cfx__cuda_array *out, cfx__cuda_work *work) {
    const char *type = cfx__cuda_element(x->dtype, CFX__CUDA_EXACT);
    if (!type || x->ndim != 4 || w->ndim != 4 || out->ndim != 4 || w->dtype != x->dtype ||
        out->dtype != x->dtype || window->groups != x->shape[1] || w->shape[1] != 1 ||
        x->shape[1] == 0 || w->shape[0] % x->shape[1] ||
        !cfx__cuda_window_fits(window) || (after && after->add.operand >= 0))
        return false;
    const int64_t size = (int64_t)cfx_dtype_size(x->dtype), channels = w->shape[0];
    const int64_t taps = w->shape[2] * w->shape[3], pixels = out->shape[2] * out->shape[3];
    const bool last = x->stride[1] == 1 && out->stride[1] == 1;
    bool lanes = last && channels == x->shape[1] && x->at % 16 == 0 && channels * size % 16 == 0;
    for (int i = 0; i < 4; i++)
        lanes &= i == 1 || x->shape[i] == 1 || x->stride[i] * size % 16 == 0;
    const int64_t lane = lanes ? 16 / size : 1, side = last ? 8 : 1;
    if (taps < 1 || taps > 128 || pixels == 0 || out->shape[0] == 0 || out->shape[0] > 65535 ||
        cfx__cuda_up(channels, side * lane) > 65535 || pixels > INT32_MAX ||
        x->shape[2] > 1 << 24 || x->shape[3] > 1 << 24)
        return false;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("depthwise"), "depthwise");
    if (!l)
        return false;
    const int64_t together = 10 / w->shape[3]; /* rows whose loads are under way at a time */
    l->defines = cfx__text_format(
        "%s#define LANE %d\n#define LAST %d\n#define HIGH %d\n#define WIDE %d\n"
        "#define TOGETHER %d\n#define POST(v) %s\n",
        type, (int)lane, last, (int)w->shape[2], (int)w->shape[3],
        (int)(together < 1 ? 1 : together > w->shape[2] ? w->shape[2] : together),
        after && after->post ? after->post : "");
    l->grid[0] = (unsigned)cfx__cuda_up(pixels, 256 / side);
    l->grid[1] = (unsigned)cfx__cuda_up(channels, side * lane);
    l->grid[2] = (unsigned)out->shape[0];
    l->block[0] = 256;
    cfx__cuda_pass_array(l, x), cfx__cuda_pass_array(l, w);
    cfx__cuda_pass_optional(l, after ? &after->bias : NULL), cfx__cuda_pass_array(l, out);
    const int64_t numbers[] = {
        channels, channels / x->shape[1], x->shape[2], x->shape[3],
        out->shape[2], out->shape[3], window->stride[0], window->stride[1], window->padding[0],
        window->padding[1], window->dilation[0], window->dilation[1], x->stride[0], x->stride[1],
        x->stride[2], x->stride[3], out->stride[0], out->stride[1], out->stride[2], out->stride[3],
        w->stride[0], w->stride[2], w->stride[3]};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    return true;
}
