/* transposed: transposed convolutions of images that lie channels last. Each line of x times all
 * weights gives what it adds to the result at every tap; that is added up there. */

/* `s` is as the forward convolution has it, from y (ic channels, `in` points) to x (oc, `out`): its
 * pad is the transposed one's, x_stride are those of x, y_row those of the result y. Weights are
 * panels of [oc of the group][taps * ic of the group]. The scratch holds a line of x, its
 * products, and an image of sums. */
static void NAME_conv_transposed(const NAME_conv_shape *s, const float *x, const float *panels,
                                 float *y, const NAME_epilogue *e, float *scratch) {
    const ptrdiff_t ic = s->ic / s->groups, oc = s->oc / s->groups, *k = s->kernel;
    const ptrdiff_t taps = k[0] * k[1] * k[2], points = s->in[0] * s->in[1] * s->in[2];
    const ptrdiff_t panel = (taps * ic + NAME_PANEL - 1) / NAME_PANEL * NAME_PANEL * oc;
    const NAME_epilogue plain = {.low = -INFINITY, .high = INFINITY};
    float *line = scratch, *sums = scratch + s->out[2] * oc, *whole = sums + s->out[2] * taps * ic;
    for (ptrdiff_t image = 0; image < s->batch; image++) {
        memset(whole, 0, (size_t)(points * s->ic) * sizeof *whole);
        for (ptrdiff_t q = 0; q < s->groups * s->out[0] * s->out[1]; q++) {
            const ptrdiff_t group = q / s->out[1] / s->out[0], oz = q / s->out[1] % s->out[0];
            const ptrdiff_t oy = q % s->out[1];
            const float *from = x + image * s->x_stride[0] + group * oc * s->x_stride[1] +
                                oz * s->x_stride[2] + oy * s->x_stride[3];
            for (ptrdiff_t i = 0; i < s->out[2]; i++)
                for (ptrdiff_t c = 0; c < oc; c++)
                    line[i * oc + c] = from[i * s->x_stride[4] + c * s->x_stride[1]];
            NAME_product(s->out[2], taps * ic, oc, line, oc, panels + group * panel, sums,
                         taps * ic, &plain);
            for (ptrdiff_t i = 0; i < s->out[2] * taps; i++) {
                const ptrdiff_t tap = i % taps, ox = i / taps;
                const ptrdiff_t z = oz * s->stride[0] - s->pad[0] +
                                    tap / k[2] / k[1] * s->dilation[0];
                const ptrdiff_t v = oy * s->stride[1] - s->pad[1] +
                                    tap / k[2] % k[1] * s->dilation[1];
                const ptrdiff_t u = ox * s->stride[2] - s->pad[2] + tap % k[2] * s->dilation[2];
                if (z < 0 || z >= s->in[0] || v < 0 || v >= s->in[1] || u < 0 || u >= s->in[2])
                    continue;
                float *to = whole + ((z * s->in[1] + v) * s->in[2] + u) * s->ic + group * ic;
                for (ptrdiff_t c = 0; c < ic; c++)
                    to[c] += sums[i * ic + c];
            }
        }
        for (ptrdiff_t i = 0; i < points; i++)
            NAME_finish_row(e, whole + i * s->ic, s->ic, image * points + i,
                            y + (image * points + i) * s->y_row);
    }
}
