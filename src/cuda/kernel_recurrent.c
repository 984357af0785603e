/* Recurrent layers: what x gives to all gates in one product, then all steps in one launch. */
#include "kernel.h"

typedef struct sizes {
    int64_t steps, batch, size, hidden, wide, gate_rows, units, blocks;
    int64_t words, gates_x; /* where they lie in the scratch memory */
} sizes;

static bool given(const cfx__cuda_array *a) { return a->operand >= 0; }

/* Whether an array lies without gaps. */
static bool dense(const cfx__cuda_array *a, int ndim, const int64_t *shape, cfx_dtype dtype) {
    int64_t next = 1;
    if (a->ndim != ndim || a->dtype != dtype)
        return false;
    for (int i = ndim - 1; i >= 0; next *= shape[i--])
        if (a->shape[i] != shape[i] || (shape[i] != 1 && a->stride[i] != next))
            return false;
    return true;
}

static bool takes(const cfx__cuda_recurrent_call *c, const sizes *s) {
    const cfx_dtype dtype = c->x.dtype;
    const int64_t rows[] = {s->gate_rows}, state[] = {s->batch, s->hidden};
    const cfx__cuda_array *bias[] = {&c->bih, &c->bhh};
    const cfx__cuda_array *states[] = {&c->h, &c->c, &c->hn, &c->cn};
    for (int i = 0; i < 2; i++)
        if (given(bias[i]) && !dense(bias[i], 1, rows, dtype))
            return false;
    for (int i = 0; i < 4; i++)
        if (given(states[i]) && !dense(states[i], 2, state, dtype))
            return false;
    return dense(&c->wih, 2, (int64_t[]){s->gate_rows, s->size}, dtype) &&
           dense(&c->whh, 2, (int64_t[]){s->gate_rows, s->hidden}, dtype) &&
           c->out.dtype == dtype && c->out.ndim == 3 && c->out.shape[2] == s->hidden &&
           (s->hidden == 1 || c->out.stride[2] == 1) && (s->size == 1 || c->x.stride[2] == 1);
}

/* The rows of x as one array of two dimensions, in the order [steps, batch] or [batch, steps] in
 * which they are evenly apart; false: in neither. */
static bool flat_rows(const cfx__cuda_recurrent_call *c, const sizes *s, int64_t *shape,
                      int64_t *stride, bool *batch_first) {
    const int64_t t = c->x.stride[0], b = c->x.stride[1];
    shape[0] = s->steps * s->batch, shape[1] = s->size, stride[1] = 1;
    *batch_first = false;
    if (s->batch == 1 || s->steps == 1) {
        stride[0] = s->batch == 1 ? t : b;
        return true;
    }
    if (t == s->batch * b) {
        stride[0] = b;
        return true;
    }
    *batch_first = true;
    stride[0] = t;
    return b == s->steps * t;
}

/* gates_x = x wih' + bih, in the scratch memory behind the state and what the product needs. */
static bool add_product(const cfx__cuda_recurrent_call *c, sizes *s, bool *batch_first,
                        cfx__cuda_work *work) {
    int64_t shape[2], stride[2];
    const int64_t gates_shape[] = {s->steps * s->batch, s->gate_rows};
    const int64_t gates_stride[] = {s->gate_rows, 1};
    if (!flat_rows(c, s, shape, stride, batch_first))
        return false;
    cfx__cuda_array x = c->x;
    x.ndim = 2, x.shape = shape, x.stride = stride;
    const cfx__cuda_after after = {c->bih, {.operand = -1}, NULL};
    cfx__cuda_array gates = {CFX__CUDA_SCRATCH, c->x.dtype, 2, gates_shape, gates_stride, 0};
    cfx__cuda_work only = {0}; /* what does the product need? */
    if (!cfx__cuda_product(&x, &c->wih, &after, &gates, c->precision, &only))
        return false;
    s->words = cfx__cuda_up(only.scratch, 256) * 256;
    s->gates_x = cfx__cuda_up(s->words + 16 * s->batch * s->hidden, 256) * 256;
    gates.at = s->gates_x;
    cfx__cuda_need(work, s->gates_x + s->steps * s->batch * s->gate_rows * s->wide);
    return cfx__cuda_product(&x, &c->wih, &after, &gates, c->precision, work);
}

static bool add_start(const cfx__cuda_recurrent_call *c, const sizes *s, const char *defines,
                      cfx__cuda_work *work) {
    cfx__cuda_launch *l =
        cfx__cuda_launch_add(work, cfx__cuda_text("recurrent"), "recurrent_start");
    if (!l)
        return false;
    l->defines = defines;
    l->grid[0] = (unsigned)cfx__cuda_up(s->batch * s->hidden, 256), l->block[0] = 256;
    cfx__cuda_pass_optional(l, &c->h);
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, CFX__CUDA_SCRATCH, s->words, 0});
    cfx__cuda_pass_integer(l, s->batch), cfx__cuda_pass_integer(l, s->hidden);
    return true;
}

bool cfx__cuda_recurrent(const cfx__cuda_recurrent_call *c, cfx__cuda_work *work) {
    const char *type = cfx__cuda_element(c->x.dtype, CFX__CUDA_EXACT);
    if (!type || c->x.ndim != 3 || c->whh.ndim != 2)
        return false;
    sizes s = {.steps = c->x.shape[0], .batch = c->x.shape[1], .size = c->x.shape[2],
               .hidden = c->whh.shape[1], .wide = (int64_t)cfx_dtype_size(c->x.dtype),
               .gate_rows = c->whh.shape[0]};
    if (s.gate_rows != c->gates * s.hidden || s.hidden < 1 || s.size < 1 || s.steps < 1 ||
        s.steps >= INT32_MAX || s.batch < 1 || s.batch > 16 || !takes(c, &s))
        return false;
    s.units = cfx__cuda_up(s.hidden, CFX__CUDA_SMS);
    if (s.units * s.batch > 256 || s.hidden * s.batch > 16384)
        return false;
    const int64_t part = (c->gates * s.units + s.hidden) * s.batch * (int64_t)sizeof(float);
    const int64_t held = c->gates * s.units * s.hidden * s.wide;
    const bool resident = part + held <= CFX__CUDA_SHARED;
    const int n = work->n;
    const int64_t scratch = work->scratch;
    bool batch_first = false;
    const char *defines = cfx__text_format(
        "%s#define GATES %d\n#define UNITS %d\n#define BATCH %d\n#define RESIDENT %d\n%s", type,
        c->gates, (int)s.units, (int)s.batch, resident, c->relu ? "#define RELU 1\n" : "");
    cfx__cuda_launch *l = NULL;
    if (add_product(c, &s, &batch_first, work) && add_start(c, &s, defines, work))
        l = cfx__cuda_launch_add(work, cfx__cuda_text("recurrent"), "recurrent");
    if (!l) {
        work->n = n, work->scratch = scratch;
        return false;
    }
    l->defines = defines, l->cooperative = true;
    l->grid[0] = (unsigned)cfx__cuda_up(s.hidden, s.units), l->block[0] = 256;
    l->shared = (unsigned)(part + (resident ? held : 0));
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, CFX__CUDA_SCRATCH, s.gates_x, 0});
    cfx__cuda_pass_array(l, &c->whh), cfx__cuda_pass_optional(l, &c->bhh);
    cfx__cuda_pass_optional(l, &c->h), cfx__cuda_pass_optional(l, &c->c);
    cfx__cuda_pass_array(l, &c->out);
    cfx__cuda_pass_optional(l, &c->hn), cfx__cuda_pass_optional(l, &c->cn);
    cfx__cuda_pass(l, (cfx__cuda_arg){CFX__CUDA_POINTER, CFX__CUDA_SCRATCH, s.words, 0});
    const int64_t numbers[] = {s.steps, s.hidden,
                               batch_first ? s.gate_rows : s.batch * s.gate_rows,
                               batch_first ? s.steps * s.gate_rows : s.gate_rows,
                               c->out.stride[0], c->out.stride[1], c->reverse};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cfx__cuda_pass_integer(l, numbers[i]);
    return true;
}
