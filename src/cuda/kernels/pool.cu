/* pool: the largest or the mean of what windows of an image see.
 *
 * MOST: the largest, a NaN before all others, and where it stands (indices, NULL: not wanted); else
 * the mean. ADAPTIVE: windows share the image evenly, whatever their number. LAST: threads beside
 * each other have channels beside each other. A mean counts what it sees, the padding too where
 * `padded` is set, or is a sum over `divisor`. */

extern "C" __global__ void __launch_bounds__(256)
pool(const T *x, T *out, i64 *indices, i64 count, i64 channels, i64 height, i64 width, i64 out_high,
     i64 out_wide, i64 high, i64 wide, i64 down, i64 right, i64 up, i64 left, i64 dy, i64 dx,
     i64 padded, i64 divisor, i64 xb, i64 xc, i64 xy, i64 xx, i64 ob, i64 oc, i64 oy, i64 ox) {
    wait_for_previous();
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count)
        return;
    i64 rest = at;
#if LAST
    const i64 c = rest % channels;
    rest /= channels;
#endif
    const int px = (int)(rest % out_wide);
    rest /= out_wide;
    const int py = (int)(rest % out_high);
    rest /= out_high;
#if LAST
    const i64 b = rest;
#else
    const i64 c = rest % channels, b = rest / channels;
#endif
#if ADAPTIVE
    const int y0 = (int)(py * height / out_high), x0 = (int)(px * width / out_wide);
    const int y1 = (int)(((py + 1) * height + out_high - 1) / out_high);
    const int x1 = (int)(((px + 1) * width + out_wide - 1) / out_wide);
    const int sy = 1, sx = 1;
    const i64 all = (i64)(y1 - y0) * (x1 - x0);
#else
    int y0 = py * (int)down - (int)up, x0 = px * (int)right - (int)left;
    const int sy = (int)dy, sx = (int)dx;
    int y1 = y0 + ((int)high - 1) * sy + 1, x1 = x0 + ((int)wide - 1) * sx + 1;
    const i64 all = (i64)(min(y1, (int)(height + up)) - y0) * (min(x1, (int)(width + left)) - x0);
    while (y0 < 0)
        y0 += sy;
    while (x0 < 0)
        x0 += sx;
    y1 = min(y1, (int)height), x1 = min(x1, (int)width);
#endif
    const T *from = x + b * xb + c * xc;
    const i64 to = b * ob + c * oc + py * oy + px * ox;
#if MOST
    float best = -INFINITY_;
    i64 where = (i64)y0 * width + x0;
    for (int y = y0; y < y1; y += sy)
        for (int xat = x0; xat < x1; xat += sx) {
            const float v = load(from + y * xy + xat * xx);
            if (v > best || v != v)
                best = v, where = (i64)y * width + xat;
        }
    store(out + to, best);
    if (indices)
        indices[to] = where;
#else
    float sum = 0;
    for (int y = y0; y < y1; y += sy)
        for (int xat = x0; xat < x1; xat += sx)
            sum += load(from + y * xy + xat * xx);
    const i64 seen = (i64)(y1 - y0) * (x1 - x0);
    store(out + to, sum / (float)(divisor ? divisor : padded ? all : seen));
    (void)indices;
#endif
}
