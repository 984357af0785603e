/* grid: where to read between the elements of an image, along one of its dims. */

/* Folds a place back into [low / 2, high / 2], as between two mirrors. */
static float NAME_grid_reflect(float at, ptrdiff_t low, ptrdiff_t high) {
    if (low == high)
        return 0;
    const float least = (float)low / 2, span = (float)(high - low) / 2;
    at = fabsf(at - least);
    const float extra = fmodf(at, span), flips = floorf(at / span);
    return fmodf(flips, 2) == 0 ? extra + least : span - extra + least;
}

/* A place among `size` elements; padding: 0 zeros, 1 border, 2 reflection. */
static float NAME_grid_padded(float at, ptrdiff_t size, int padding, int align) {
    const float most = (float)(size - 1);
    if (padding == 2)
        at = align ? NAME_grid_reflect(at, 0, 2 * (size - 1))
                   : NAME_grid_reflect(at, -1, 2 * size - 1);
    if (padding == 0)
        return at;
    at = at > 0 ? at : 0;
    return at < most ? at : most;
}

/* The index below a place; -1 where that is outside. */
static ptrdiff_t NAME_grid_index(float at, ptrdiff_t size) {
    const float below = floorf(at);
    return below >= 0 && below < (float)size ? (ptrdiff_t)below : -1;
}

/* The elements that a coordinate of [-1, 1] is made of, and their weights; how many there are.
 * Mode: 0 linear, 1 nearest, 2 cubic. */
static int NAME_grid_taps(float coordinate, ptrdiff_t size, int mode, int padding, int align,
                          ptrdiff_t at[4], float w[4]) {
    float place = align ? (coordinate + 1) / 2 * (float)(size - 1)
                        : ((coordinate + 1) * (float)size - 1) / 2;
    if (mode == 2) {
        const float below = floorf(place), t = place - below, u = 1 - t, x = t + 1, y = u + 1;
        const float a = -0.75f;
        w[0] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
        w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
        w[3] = ((a * y - 5 * a) * y + 8 * a) * y - 4 * a;
        for (int j = 0; j < 4; j++)
            at[j] = NAME_grid_index(NAME_grid_padded(below - 1 + (float)j, size, padding, align),
                                    size);
        return 4;
    }
    place = NAME_grid_padded(place, size, padding, align);
    if (mode == 1) {
        at[0] = NAME_grid_index(nearbyintf(place), size);
        w[0] = 1;
        return 1;
    }
    const float below = floorf(place);
    w[1] = place - below;
    w[0] = 1 - w[1];
    at[0] = NAME_grid_index(below, size);
    at[1] = NAME_grid_index(below + 1, size);
    return 2;
}
