/* Windows of images. */
#include "kernel.h"

static bool images(const cfx__cuda_array *x, const cfx__cuda_array *out) {
    return x->ndim == 4 && out->ndim == 4 && x->dtype == out->dtype &&
           x->shape[0] == out->shape[0] && x->shape[1] == out->shape[1] &&
           x->shape[2] < 1 << 24 && x->shape[3] < 1 << 24 && out->shape[2] < 1 << 24 &&
           out->shape[3] < 1 << 24;
}

static int64_t count_of(const cfx__cuda_array *a) {
    return a->shape[0] * a->shape[1] * a->shape[2] * a->shape[3];
}

static bool last(const cfx__cuda_array *x, const cfx__cuda_array *out) {
    return x->stride[1] == 1 && out->stride[1] == 1;
}

static void pass_strides(cfx__cuda_launch *l, const cfx__cuda_array *a) {
    for (int i = 0; i < 4; i++)
        cfx__cuda_pass_integer(l, a->stride[i]);
}

/* One mean for each channel: many threads share its pixels. */
static bool add_mean(const cfx__cuda_pool_call *c, const char *type, cfx__cuda_work *work) {
    const int64_t channels = c->x.shape[1], batch = c->x.shape[0], *stride = c->x.stride;
    const int64_t pixels = c->x.shape[2] * c->x.shape[3];
    const bool rows = c->x.shape[2] == 1 || c->x.shape[3] == 1 ||
                      stride[2] == c->x.shape[3] * stride[3]; /* pixels are evenly apart */
    const bool beside = stride[1] == 1 && rows;
    const int64_t tiles = cfx__cuda_up(channels, beside ? 32 : 8);
    int64_t shares = beside ? pixels / 128 : pixels / 4096;
    const int64_t most = cfx__cuda_up(2 * CFX__CUDA_SMS, tiles * batch);
    shares = shares > most ? most : shares;
    if (shares < 1 || tiles * batch > CFX__CUDA_COUNTED)
        shares = 1;
    cfx__cuda_launch *l =
        batch > 65535 ? NULL : cfx__cuda_launch_add(work, cfx__cuda_text("mean"), "mean");
    if (!l)
        return false;
    l->defines = cfx__text_format("%s#define LAST %d\n", type, beside);
    l->grid[0] = (unsigned)tiles, l->grid[1] = (unsigned)shares, l->grid[2] = (unsigned)batch;
    l->block[0] = 256;
    cfx__cuda_pass_array(l, &c->x), cfx__cuda_pass_array(l, &c->out);
    cfx__cuda_pass_place(l, CFX__CUDA_SCRATCH), cfx__cuda_pass_place(l, CFX__CUDA_COUNTERS);
    const int64_t step = c->x.shape[3] > 1 ? stride[3] : stride[2]; /* between pixels */
    const int64_t numbers[] = {channels, pixels, cfx__cuda_up(pixels, shares), c->x.shape[3],
                               stride[0], stride[1], stride[2], beside ? step : stride[3],
                               c->out.stride[0], c->out.stride[1]};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    if (shares > 1)
        cfx__cuda_need(work, batch * shares * channels * (int64_t)sizeof(float));
    return true;
}

bool cfx__cuda_pool(const cfx__cuda_pool_call *c, cfx__cuda_work *work) {
    const char *type = cfx__cuda_element(c->x.dtype, CFX__CUDA_EXACT);
    if (!type || !images(&c->x, &c->out))
        return false;
    const int64_t count = count_of(&c->out);
    if (count == 0 || count_of(&c->x) == 0)
        return count == 0;
    for (int i = 0; i < 4 && c->indices.operand >= 0; i++)
        if (c->indices.ndim != 4 || c->indices.dtype != CFX_I64 ||
            (c->out.shape[i] > 1 && c->indices.stride[i] != c->out.stride[i]))
            return false;
    for (int i = 0; i < 2 && !c->adaptive; i++)
        if (c->kernel[i] < 1 || c->kernel[i] > 1 << 20 || c->stride[i] < 1 ||
            c->stride[i] > 1 << 20 || c->dilation[i] < 1 || c->padding[i] < 0 ||
            c->padding[i] > c->kernel[i])
            return false;
    if (c->adaptive && !c->max && c->out.shape[2] == 1 && c->out.shape[3] == 1 &&
        add_mean(c, type, work))
        return true;
    cfx__cuda_launch *l = cfx__cuda_launch_add(work, cfx__cuda_text("pool"), "pool");
    if (!l)
        return false;
    l->defines = cfx__text_format("%s#define MOST %d\n#define ADAPTIVE %d\n#define LAST %d\n", type,
                                  c->max, c->adaptive, last(&c->x, &c->out));
    l->grid[0] = (unsigned)cfx__cuda_up(count, 256), l->block[0] = 256;
    cfx__cuda_pass_array(l, &c->x), cfx__cuda_pass_array(l, &c->out);
    cfx__cuda_pass_optional(l, &c->indices);
    const int64_t numbers[] = {
        count, c->x.shape[1], c->x.shape[2], c->x.shape[3], c->out.shape[2], c->out.shape[3],
        c->kernel[0], c->kernel[1], c->stride[0], c->stride[1], c->padding[0], c->padding[1],
        c->dilation[0], c->dilation[1], c->count_padding, c->divisor};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    pass_strides(l, &c->x), pass_strides(l, &c->out);
    return true;
}
