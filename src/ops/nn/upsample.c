/* Resampling along each dimension: taps and their sums. Start at resample_run. */
#include "upsample.h"

#include <math.h>

#define T float
#define FN(x) x##_f32
#include "upsample.inc"
#define T double
#define FN(x) x##_f64
#include "upsample.inc"

/* ---- nearest -------------------------------------------------------------------------------- */

static void nearest_taps(const axis *a, bool exact, cfx_dtype d, double scale, int64_t *at) {
    double wide = scale > 0 ? 1.0 / scale : (double)a->in / (double)a->out;
    float ratio = scale > 0 ? (float)(1.0 / scale) : (float)a->in / (float)a->out;
    for (int64_t o = 0; o < a->out; o++) {
        double i;
        if (d == CFX_F64)
            i = floor((double)(float)(exact ? wide * ((double)o + 0.5) : wide * (double)o));
        else
            i = (double)floorf(exact ? ((float)o + 0.5f) * ratio : (float)o * ratio);
        at[o] = i < (double)a->in ? (int64_t)i : a->in - 1;
    }
}

typedef struct {
    const resample *r;
    int size;
} nearest_job;

#define PICK(T)                                                                                    \
    {                                                                                              \
        const T *from = (const T *)src;                                                            \
        T *to = (T *)dst;                                                                          \
        for (int64_t o = 0; o < w->out; o++)                                                       \
            to[o] = from[w->at[o]];                                                                \
    }

typedef struct {
    uint64_t half[2];
} wide;

static void nearest_rows(void *arg, int64_t begin, int64_t end) {
    const nearest_job *j = arg;
    const resample *r = j->r;
    const axis *d = &r->axis[0], *h = &r->axis[1], *w = &r->axis[2];
    int64_t last = -1;
    for (int64_t k = begin; k < end; k++) {
        int64_t oh = k % h->out, od = k / h->out % d->out, n = k / h->out / d->out;
        int64_t row = (n * d->in + d->at[od]) * h->in + h->at[oh];
        char *dst = (char *)r->y + k * w->out * j->size;
        const char *src = (const char *)r->x + row * w->in * j->size;
        if (row == last) {
            memcpy(dst, dst - w->out * j->size, (size_t)(w->out * j->size));
            continue;
        }
        last = row;
        switch (j->size) {
        case 1:
            PICK(uint8_t) break;
        case 2:
            PICK(uint16_t) break;
        case 4:
            PICK(uint32_t) break;
        case 8:
            PICK(uint64_t) break;
        default:
            PICK(wide) break;
        }
    }
}

/* ---- taps ----------------------------------------------------------------------------------- */

bool axis_make(cfx_op_call *c, axis *a, resample_mode mode, cfx_dtype d, int64_t in, int64_t out,
               bool align_corners, double scale) {
    bool cubic = mode == CUBIC || mode == CUBIC_AA, smooth = mode >= LINEAR_AA;
    bool single = d != CFX_F64;
    *a = (axis){in, out, 1, NULL, NULL};
    if (mode == LINEAR)
        a->taps = 2;
    else if (mode == CUBIC)
        a->taps = 4;
    else if (smooth)
        a->taps = single ? reach_f32(a, cubic, align_corners, scale)
                         : reach_f64(a, cubic, align_corners, scale);
    const int64_t n = size_product(out, a->taps);
    int64_t *at = scratch(c, CFX_I64, n);
    void *w = scratch(c, single ? CFX_F32 : CFX_F64, n);
    if (op_failed())
        return false;
    a->at = at;
    a->weight = w;
    if (mode <= NEAREST_EXACT) {
        nearest_taps(a, mode == NEAREST_EXACT, d, scale, at);
        for (int64_t i = 0; i < n; i++) {
            if (single)
                ((float *)w)[i] = 1;
            else
                ((double *)w)[i] = 1;
        }
    } else if (smooth) {
        if (single)
            smooth_taps_f32(a, cubic, align_corners, scale, at, w);
        else
            smooth_taps_f64(a, cubic, align_corners, scale, at, w);
    } else {
        if (single)
            taps_f32(a, mode, align_corners, scale, at, w);
        else
            taps_f64(a, mode, align_corners, scale, at, w);
    }
    return true;
}

void resample_run(cfx_op_call *c, resample *r, cfx_dtype d, bool transpose) {
    const axis *a = r->axis;
    bool picks = a[0].taps == 1 && a[1].taps == 1 && a[2].taps == 1;
    int64_t rows = r->planes * a[0].out * a[1].out;
    if (transpose) {
        double work = (double)r->out_plane * (double)a[0].taps * (double)a[1].taps *
                      (double)a[2].taps;
        cfx__parallel(r->planes, cfx__grain(work), d == CFX_F32 ? back_f32 : back_f64, r);
        return;
    }
    if (picks) {
        nearest_job j = {r, cfx_dtype_size(d)};
        cfx__parallel(rows, cfx__grain((double)a[2].out), nearest_rows, &j);
        return;
    }
    const int64_t slots = a[0].taps * a[1].taps; /* one of them is wide at most */
    double work = (double)a[2].out * (double)(slots + a[2].taps);
    int64_t pieces = rows / cfx__grain(work) + 1, most = cfx_get_num_threads();
    r->threads = pieces < most ? pieces : most;
    int64_t kept = size_product(slots, a[2].out);
    kept = kept < CFX__MOST_ELEMENTS ? kept : CFX__MOST_ELEMENTS; /* refused below */
    r->share = ((kept + 1) / 2 * 2 * cfx_dtype_size(d) + slots * 8 + slots * 8 + 63) / 64 * 64;
    r->room = scratch(c, CFX_U8, size_product(r->share, r->threads));
    if (!op_failed())
        cfx__parallel(r->threads, 1, d == CFX_F32 ? rows_f32 : rows_f64, r);
}
