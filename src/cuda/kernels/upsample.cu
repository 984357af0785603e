/* upsample: an image at another size.
 *
 * LINEAR: between the four pixels around a place; else the pixel that it is in. Pixel i of the
 * result is at by * (i + half) - shift of the image. LAST: threads beside each other have channels
 * beside each other. */

extern "C" __global__ void __launch_bounds__(256)
upsample(const T *x, T *out, i64 count, i64 channels, i64 height, i64 width, i64 out_high,
         i64 out_wide, i64 xb, i64 xc, i64 xy, i64 xx, i64 ob, i64 oc, i64 oy, i64 ox, double by_y,
         double by_x, double half, double shift) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count)
        return;
    i64 rest = at;
#if LAST
    const i64 c = rest % channels;
    rest /= channels;
#endif
    const i64 px = rest % out_wide;
    rest /= out_wide;
    const i64 py = rest % out_high;
    rest /= out_high;
#if LAST
    const i64 b = rest;
#else
    const i64 c = rest % channels, b = rest / channels;
#endif
    const T *from = x + b * xb + c * xc;
    T *to = out + b * ob + c * oc + py * oy + px * ox;
    float y = (float)by_y * ((float)py + (float)half) - (float)shift;
    float xat = (float)by_x * ((float)px + (float)half) - (float)shift;
    y = y < 0 ? 0 : y, xat = xat < 0 ? 0 : xat;
    const i64 y0 = min((i64)y, height - 1), x0 = min((i64)xat, width - 1);
#if LINEAR
    const i64 y1 = y0 < height - 1 ? y0 + 1 : y0, x1 = x0 < width - 1 ? x0 + 1 : x0;
    const float fy = y - (float)y0, fx = xat - (float)x0;
    const T *high = from + y0 * xy, *deep = from + y1 * xy;
    const float top = (1 - fx) * load(high + x0 * xx) + fx * load(high + x1 * xx);
    const float low = (1 - fx) * load(deep + x0 * xx) + fx * load(deep + x1 * xx);
    store(to, (1 - fy) * top + fy * low);
#else
    *to = from[y0 * xy + x0 * xx];
#endif
}
