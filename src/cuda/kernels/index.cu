/* index: elements whose places are told by other elements: gather, index_select, embedding, x[i,
 * j] (PUT 0: they are read), scatter, index_put, index_add (PUT 1: they are written).
 *
 * The places are those of an array of 5 dimensions, `size`. y steps through it by `ys`; so does x
 * by `xs`, and where an element tells the place: index j, which steps by `is`, counts steps of
 * `step` in a dimension of x that has `most`. An index below 0 counts from the end where `wrap` is
 * set; one that is out of range sets the flag, and stands for 0.
 *
 * E: what is copied; elements beside each other may go 16 bytes at a time. INDEXES: how many there
 * are. INDEX: their type. COUNT: the type that counts elements. ADD: what is written is added, as
 * T. Places that are written are each the work of one thread, which goes through all that may meet
 * it in their order: through the dimensions in which xs is 0. */

INLINE i64 place_of(i64 told, i64 most, i64 step, i64 wrap, int *flag) {
    if (told < 0 && wrap)
        told += most;
    if (told < 0 || told >= most) {
        *flag = 1;
        return 0;
    }
    return told * step;
}

#if ADD
INLINE void meet(E *to, E from) { ADD_ELEMENT }
#else
INLINE void meet(E *to, E from) { *to = from; }
#endif

extern "C" __global__ void __launch_bounds__(256)
index_elements(E *x, E *y, int *flag, const INDEX *i0, const INDEX *i1, const INDEX *i2, i64 wrap,
               i64 n0, i64 n1, i64 n2, i64 n3, i64 n4, i64 x0, i64 x1, i64 x2, i64 x3, i64 x4,
               i64 y0, i64 y1, i64 y2, i64 y3, i64 y4, i64 a0, i64 a1, i64 a2, i64 a3, i64 a4,
               i64 amost, i64 astep, i64 b0, i64 b1, i64 b2, i64 b3, i64 b4, i64 bmost, i64 bstep,
               i64 c0, i64 c1, i64 c2, i64 c3, i64 c4, i64 cmost, i64 cstep) {
    wait_for_previous();
    const COUNT size[5] = {(COUNT)n0, (COUNT)n1, (COUNT)n2, (COUNT)n3, (COUNT)n4};
    const i64 xs[5] = {x0, x1, x2, x3, x4}, ys[5] = {y0, y1, y2, y3, y4};
    const i64 is[3][5] = {{a0, a1, a2, a3, a4}, {b0, b1, b2, b3, b4}, {c0, c1, c2, c3, c4}};
    const i64 most[3] = {amost, bmost, cmost}, step[3] = {astep, bstep, cstep};
    const INDEX *const index[3] = {i0, i1, i2};
    /* Dimensions that all threads share, and those that one goes through. */
    COUNT all = 1, serial = 1;
#pragma unroll
    for (int d = 0; d < 5; d++)
        if (PUT && xs[d] == 0)
            serial *= size[d];
        else
            all *= size[d];
    for (COUNT t = (COUNT)blockIdx.x * 256 + threadIdx.x; t < all; t += (COUNT)gridDim.x * 256)
        for (COUNT s = 0; s < serial; s++) {
            COUNT rest = t, rest_serial = s;
            i64 xat = 0, yat = 0, iat[3] = {0, 0, 0};
#pragma unroll
            for (int d = 4; d >= 0; d--) {
                COUNT *from = PUT && xs[d] == 0 ? &rest_serial : &rest;
                const COUNT up = *from / size[d];
                const i64 at = (i64)(*from - up * size[d]);
                *from = up;
                xat += at * xs[d], yat += at * ys[d];
#pragma unroll
                for (int j = 0; j < INDEXES; j++)
                    iat[j] += at * is[j][d];
            }
#pragma unroll
            for (int j = 0; j < INDEXES; j++)
                xat += place_of(index[j][iat[j]], most[j], step[j], wrap, flag);
#if PUT
            meet(x + xat, y[yat]);
#else
            y[yat] = x[xat];
#endif
        }
}
