/* Rounding an image to bytes that lie channels last, made ready for a plan: planes of float32 come
 * in, and convolutions in integers read what goes out. */
#include "../dense.h"
#include "../ops.h"
#include "../ready.h"
#include "quant.h"

#include <math.h>

typedef struct {
    cfx__ready pub;
    int64_t images, channels, points; /* points of a plane */
    float inverse, zero, low, high;
} kernel;

static const cfx__obj_type kernel_type = {.name = "ready kernel"};

typedef struct {
    const kernel *k;
    const float *x;
    uint8_t *out;
} job;

enum { NEAR = 256, GROUP = 4 }; /* points and channels that are put side by side at a time */

/* Adds n numbers, rounded as quantize_per_tensor does, to words, as byte `at` of each. What is no
 * number becomes the least. */
CFX__SIMD static void round_run(const kernel *k, const float *x, int64_t n, int at,
                                uint32_t *restrict words) {
    const float inverse = k->inverse, zero = k->zero, low = k->low, high = k->high;
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] * inverse) + zero;
        v = v > low ? v : low;
        words[i] |= (uint32_t)(int32_t)(v < high ? v : high) << 8 * at;
    }
}

/* Stores the first bytes of words, `step` apart. A word may overlap the next one, which is stored
 * after it, but nothing else. */
static void store_words(const uint32_t *words, int64_t n, int bytes, int64_t step, uint8_t *to) {
    int64_t i = 0;
    for (; step == bytes && i < n - 1; i++)
        memcpy(to + i * step, &words[i], sizeof *words);
    for (; i < n; i++)
        memcpy(to + i * step, &words[i], (size_t)bytes);
}

static void round_units(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const kernel *k = j->k;
    const int64_t units = (k->points + NEAR - 1) / NEAR, channels = k->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / units, first = unit % units * NEAR;
        const int64_t n = k->points - first < NEAR ? k->points - first : NEAR;
        for (int64_t c = 0; c < channels; c += GROUP) {
            const int bytes = (int)(channels - c < GROUP ? channels - c : GROUP);
            uint32_t words[NEAR] = {0};
            for (int i = 0; i < bytes; i++)
                round_run(k, j->x + (image * channels + c + i) * k->points + first, n, i, words);
            store_words(words, n, bytes, channels,
                        j->out + (image * k->points + first) * channels + c);
        }
    }
}

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    job j = {k, x, out};
    (void)scratch;
    cfx__parallel(k->images * ((k->points + NEAR - 1) / NEAR),
                  cfx__grain((double)(NEAR * k->channels)), round_units, &j);
    return true;
}

/* input, scale, zero_point, quant_min, quant_max, dtype */
bool takes_rounded(const cfx__layer *l) {
    const cfx_op_call *c = &l->call;
    const cfx_tensor *x = arg_tensor(c, 0), *out = c->out[0];
    return !l->epilogue.n && x->dtype == CFX_F32 && out->dtype == CFX_U8 && x->ndim == 4 &&
           x->numel && cfx__tensor_is_contiguous(x) && cfx__tensor_is_channels_last(out) &&
           isfinite(1 / arg_float(c, 1)) && arg_int(c, 3) >= 0 && arg_int(c, 4) <= UINT8_MAX &&
           arg_int(c, 3) <= arg_int(c, 4);
}

cfx__ready *make_rounded(const cfx__layer *l) {
    const cfx_op_call *c = &l->call;
    const cfx_tensor *x = arg_tensor(c, 0);
    kernel *k = cfx__obj_make(&kernel_type, sizeof *k);
    k->images = x->shape[0];
    k->channels = x->shape[1];
    k->points = x->shape[2] * x->shape[3];
    k->inverse = (float)(1 / arg_float(c, 1));
    k->zero = (float)arg_int(c, 2);
    k->low = (float)arg_int(c, 3);
    k->high = (float)arg_int(c, 4);
    k->pub.name = "rounding to channels last";
    k->pub.run = run;
    return &k->pub;
}
