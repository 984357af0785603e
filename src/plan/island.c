/* Islands: layers that run on integers. If the input of a layer comes from a dequantize node and
 * its weight from int8, the kernel computes in integers, including the addition, clamps and
 * requantization that follow. Operators between layers that only move values, and whose results
 * are quantized again with the same parameters, move the bytes instead. Start at
 * cfx__plan_find_islands. */
#include <cfx/ops.h>

#include "plan.h"

#include <float.h>
#include <math.h>

/* ---- what stands around a layer -------------------------------------------------------------- */

static bool is_wanted(const cfx__lowering *l, int slot) {
    return cfx__plan_wants(l->e, cfx__plan_step(l, slot)->node);
}

/* Whether products of integers by such a scale are what products of floats are: no overflow comes
 * earlier or later. */
static bool is_scale(float s) { return fabsf(s) >= 1e-18f && fabsf(s) <= 1e12f; }

/* The numbers of a call that rounds to bytes, or back: arguments 1 to 5. */
static bool read_rounding(const cfx__run_step *s, cfx__rounding *r) {
    if (s->bound[1].tag != CFX_TAG_FLOAT || s->bound[2].tag != CFX_TAG_INT ||
        s->bound[3].tag != CFX_TAG_INT || s->bound[4].tag != CFX_TAG_INT ||
        s->bound[5].tag != CFX_TAG_DTYPE || cfx_integer(s->bound[3]) != 0 ||
        cfx_integer(s->bound[4]) != 255 || cfx_integer(s->bound[5]) != CFX_U8)
        return false;
    int64_t zero = cfx_integer(s->bound[2]);
    *r = (cfx__rounding){(float)cfx_number(s->bound[1]), (int32_t)zero};
    return is_scale(r->scale) && r->scale > 0 && zero >= 0 && zero <= 255;
}

/* Whether a slot is bytes made numbers: the slot that has them, and how. */
static bool from_bytes(const cfx__lowering *l, int slot, int *bytes, cfx__rounding *r) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    if (s->op != &cfx_op_quantized_decomposed_dequantize_per_tensor || is_wanted(l, slot) ||
        s->bound[0].tag != CFX_TAG_NODE || s->bound[6].tag != CFX_TAG_NONE ||
        !read_rounding(s, r))
        return false;
    *bytes = (int)s->bound[0].spare;
    return cfx_is_bad(l->plan->constants[*bytes]);
}

static bool to_bytes(const cfx__lowering *l, int slot, cfx__rounding *r) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    return s->op == &cfx_op_quantized_decomposed_quantize_per_tensor && read_rounding(s, r);
}

/* Whether a slot is float32 that was rounded by its own range and back; the slot of it. */
static bool rounded_as_it_came(const cfx__lowering *l, int slot, int *x) {
    const cfx__run_step *back = cfx__plan_step(l, slot);
    if (back->op != &cfx_op_quantized_decomposed_dequantize_per_tensor_tensor ||
        back->bound[0].tag != CFX_TAG_NODE || back->bound[1].tag != CFX_TAG_NODE ||
        back->bound[2].tag != CFX_TAG_NODE || is_wanted(l, slot))
        return false;
    const cfx__run_step *to = cfx__plan_step(l, (int)back->bound[0].spare);
    const cfx__run_step *scale = cfx__plan_step(l, (int)back->bound[1].spare);
    if (to->op != &cfx_op_quantized_decomposed_quantize_per_tensor_tensor ||
        to->bound[0].tag != CFX_TAG_NODE || !cfx_equal_values(to->bound[1], back->bound[1]) ||
        !cfx_equal_values(to->bound[2], back->bound[2]) || !scale->item ||
        cfx_integer(to->bound[3]) != 0 || cfx_integer(to->bound[4]) != 255 ||
        cfx_integer(to->bound[5]) != CFX_U8)
        return false;
    const cfx__run_step *choose = cfx__plan_step(l, (int)cfx_as_list(scale->args)->items[0].spare);
    *x = (int)to->bound[0].spare;
    return choose->op == &cfx_op_quantized_decomposed_choose_qparams_tensor &&
           choose->bound[0].tag == CFX_TAG_NODE && (int)choose->bound[0].spare == *x &&
           cfx_integer(choose->bound[1]) == 0 && cfx_integer(choose->bound[2]) == 255 &&
           cfx_number(choose->bound[3]) == (double)FLT_EPSILON;
}

/* ---- weights --------------------------------------------------------------------------------- */

cfx_tensor *cfx__plan_known(const cfx__lowering *l, cfx_value v) {
    cfx_value c = v.tag == CFX_TAG_NODE ? l->plan->constants[v.spare] : v;
    return c.tag == CFX_TAG_TENSOR && cfx_as_tensor(c)->data ? cfx_as_tensor(c) : NULL;
}

bool cfx__plan_is_zero(const cfx__lowering *l, cfx_value v) {
    cfx_tensor *t = cfx__plan_known(l, v);
    return cfx_is_none(v) || (v.tag == CFX_TAG_INT && cfx_integer(v) == 0) ||
           (t && !cfx_integer(cfx_item(cfx_any(t))));
}

bool cfx__plan_are_scales(const cfx_tensor *t) {
    bool are = cfx_ok() && t->dtype == CFX_F32;
    for (int64_t i = 0; are && i < t->numel; i++)
        are = is_scale(((const float *)t->data)[i]);
    return are;
}

/* The integers and scales of a weight; its channels are dimension `axis`. Scope. */
static bool read_weight(const cfx__lowering *l, cfx_value weight, int axis, cfx_tensor **integers,
                        cfx_tensor **scales) {
    const cfx__run_step *s =
        weight.tag == CFX_TAG_NODE ? cfx__plan_step(l, (int)weight.spare) : NULL;
    const bool channels =
        s && s->op == &cfx_op_quantized_decomposed_dequantize_per_channel;
    if (!channels && (!s || s->op != &cfx_op_quantized_decomposed_dequantize_per_tensor))
        return false;
    *integers = cfx__plan_known(l, s->bound[0]);
    if (!*integers || (*integers)->dtype != CFX_I8)
        return false;
    *integers = cfx__tensor_contiguous(*integers);
    if (!channels) {
        *scales = cfx_tensor_from_value(s->bound[1]);
        *scales = cfx_to(*scales, cfx_f32);
        return cfx_integer(s->bound[2]) == 0 && cfx__plan_are_scales(*scales);
    }
    cfx_tensor *given = cfx__plan_known(l, s->bound[1]);
    if (!given || cfx_integer(s->bound[3]) != axis || !cfx__plan_is_zero(l, s->bound[2]))
        return false;
    *scales = cfx_contiguous(cfx_to(given, cfx_f32));
    return cfx__plan_are_scales(*scales);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* The layer that op computes, where there are kernels for layers of it; NULL: none. */
static const cfx_op_layer *layer_of(const cfx_op *op) {
    return op->layer.weight && op->takes ? &op->layer : NULL;
}

/* A layer and what is done to its result in the same kernel. */
typedef struct {
    cfx__epilogue epilogue;
    cfx__integers integers;
    int x, add;  /* slots of bytes (dynamic: of float32); -1: nothing is added */
    int slot[CFX__POSTS + 3], n; /* the steps that it computes */
} island;

/* x + y, where y is bytes of the same shape: they are there when the kernel runs, which is where
 * the last of its steps stands. */
static bool adds_bytes(const cfx__lowering *l, int k, int slot, island *i) {
    const cfx__run_step *s = cfx__plan_step(l, k);
    if (cfx__plan_op(s) != &cfx_op_add_Tensor || s->bound[0].tag != CFX_TAG_NODE ||
        s->bound[1].tag != CFX_TAG_NODE || !cfx_equal_values(s->bound[2], cfx_int(1)))
        return false;
    int other = (int)s->bound[(int)s->bound[0].spare == slot ? 1 : 0].spare;
    const cfx_tensor *t = other != slot ? cfx__plan_tensor(l, other) : NULL;
    return t && cfx__tensor_same_shape(t, cfx__plan_tensor(l, slot)) &&
           from_bytes(l, other, &i->add, &i->integers.add);
}

/* Follows what is done to the result, to the bytes that it becomes. */
static void follow(const cfx__lowering *l, int start, island *i) {
    i->slot[i->n++] = start;
    for (int slot = start, k = cfx__plan_next(l, slot); k >= 0;
         slot = k, k = cfx__plan_next(l, slot)) {
        if (to_bytes(l, k, &i->integers.out)) {
            i->integers.rounds = true;
            i->slot[i->n++] = k;
            return;
        }
        if (i->epilogue.n == CFX__POSTS)
            return;
        if (!i->epilogue.n && i->n == 1 && adds_bytes(l, k, slot, i))
            i->epilogue.post[i->epilogue.n++] = (cfx__post){0};
        else if (cfx__plan_is_activation(l, k, slot))
            i->epilogue.post[i->epilogue.n++] =
                (cfx__post){cfx__plan_op(cfx__plan_step(l, k)), cfx__plan_step(l, k)->bound};
        else
            return;
        i->slot[i->n++] = k;
    }
}

/* The layer alone, which gives float32. */
static void cut(island *i) {
    i->integers.rounds = false;
    i->epilogue.n = 0;
    i->add = -1;
    i->n = 1;
}

static cfx_tensor *fake_like(const cfx_tensor *t, const cfx_op_layer *row, cfx_dtype dtype) {
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_of_format(!row->product && t->ndim == 4 ? CFX_CHANNELS_LAST : CFX_CONTIGUOUS,
                           t->ndim, t->shape, stride);
    return cfx_tensor_fake(dtype, t->ndim, t->shape, stride);
}

/* Whether no number of a bias is lost when it is rounded: bytes have no NaN. */
static bool is_finite(const cfx_tensor *t) {
    bool is = true;
    for (int64_t i = 0; t->dtype == CFX_F32 && is && i < t->numel; i++)
        is = isfinite(((const float *)t->data)[i]);
    return is;
}

/* Makes the layer that of the longest chain that there is a kernel for; its arguments are in args.
 * False where there is none. */
static bool choose(const cfx__lowering *l, const cfx_op_layer *row, island *i, cfx_value *args,
                   cfx__layer *layer) {
    const cfx__run_step *s = cfx__plan_step(l, i->slot[0]);
    cfx_tensor *integers, *scales;
    if (!read_weight(l, s->bound[row->weight], row->axis, &integers, &scales))
        return false;
    for (int k = 0; k < s->nbound; k++) {
        cfx_tensor *t = cfx__plan_known(l, s->bound[k]);
        args[k] = t ? cfx_tensor_value(cfx__tensor_contiguous(t)) : s->bound[k];
        if (s->nested[k] || (t && !is_finite(cfx_as_tensor(args[k]))) ||
            (k != row->input && k != row->weight && args[k].tag == CFX_TAG_NODE))
            return false;
    }
    i->integers.scales = scales;
    i->epilogue.integers = &i->integers;
    args[row->input] = cfx_tensor_value(fake_like(
        cfx__plan_tensor(l, (int)s->bound[row->input].spare), row,
        i->integers.dynamic ? CFX_F32 : CFX_U8));
    args[row->weight] = cfx_tensor_value(integers);
    *layer = (cfx__layer){.call = {.op = s->op, .nargs = s->nbound, .args = args, .nout = 1,
                                   .fake = true},
                          .input = row->input};
    for (int whole = 1; whole >= 0 && cfx_ok(); whole--) {
        if (!whole)
            cut(i);
        layer->call.out[0] = fake_like(cfx__plan_tensor(l, i->slot[i->n - 1]), row,
                                       i->integers.rounds ? CFX_U8 : CFX_F32);
        layer->epilogue = i->epilogue;
        if (l->target->takes(layer))
            return cfx_ok();
    }
    return false;
}

/* Whether a slot is an input of the program as bytes, which may lie as the layer wants them. */
static bool rounds_input(const cfx__lowering *l, int slot) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    return !l->taken[slot] && s->op == &cfx_op_quantized_decomposed_quantize_per_tensor &&
           s->bound[0].tag == CFX_TAG_NODE &&
           l->plan->kernels[s->bound[0].spare].kind == CFX__PLAN_INPUT;
}

/* Makes an island of a layer, where it is one. */
static void find_layer(cfx__lowering *l, int slot) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    const cfx_op_layer *row = s->op ? layer_of(s->op) : NULL;
    island i = {.x = -1, .add = -1};
    cfx_value args[CFX_MAX_ARGS];
    cfx__layer layer;
    const cfx_tensor *own = row ? cfx__plan_tensor(l, slot) : NULL;
    if (!own || own->dtype != CFX_F32 || l->taken[slot] ||
        s->bound[row->input].tag != CFX_TAG_NODE || cfx__plan_is_ordered(l, slot) ||
        cfx__plan_is_constant(l, slot))
        return;
    const int input = (int)s->bound[row->input].spare;
    i.integers.dynamic = rounded_as_it_came(l, input, &i.x);
    if (!i.integers.dynamic && !from_bytes(l, input, &i.x, &i.integers.x))
        return;
    follow(l, slot, &i);
    if (i.integers.dynamic ? i.add >= 0 || i.integers.rounds : i.add >= 0 && !i.integers.rounds)
        cut(&i);
    if (!choose(l, row, &i, args, &layer))
        return;
    cfx__plan_put_layer(l, &layer, i.x, i.add, i.n, i.slot);
    if (!row->product && rounds_input(l, i.x))
        cfx__plan_fuse(l, i.x);
}

/* ---- what moves numbers -------------------------------------------------------------------- */

/* A call between bytes and the same bytes: done to the bytes, at the step that rounds again. */
static void find_move(cfx__lowering *l, int slot) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    cfx__rounding before, after;
    int bytes;
    if (l->taken[slot] || cfx__plan_is_constant(l, slot) || !s->op ||
        !(s->op->effects & (CFX_MOVES | CFX_LARGEST)) || s->bound[0].tag != CFX_TAG_NODE ||
        !from_bytes(l, (int)s->bound[0].spare, &bytes, &before))
        return;
    const int end = cfx__plan_next(l, slot);
    if (end < 0 || !to_bytes(l, end, &after) || before.scale != after.scale ||
        before.zero != after.zero)
        return;
    for (int i = 1; i < s->nbound; i++)
        if (s->bound[i].tag == CFX_TAG_NODE || s->nested[i])
            return;
    cfx__run_step *moved = cfx__arena_alloc(&l->plan->arena, sizeof *moved);
    cfx_value *bound =
        cfx__arena_alloc(&l->plan->arena, (size_t)s->nbound * sizeof *moved->bound);
    *moved = *s;
    memcpy(bound, s->bound, (size_t)s->nbound * sizeof *bound);
    bound[0].spare = (uint32_t)bytes;
    moved->bound = bound;
    moved->node = cfx__plan_step(l, end)->node;
    l->plan->kernels[end].step = moved;
    l->taken[slot] = true;
    cfx__plan_fuse(l, end);
}

/* ---- what is not needed any more ------------------------------------------------------------- */

static bool is_support(const cfx__run_step *s) {
    return s->item || s->op == &cfx_op_quantized_decomposed_dequantize_per_tensor ||
           s->op == &cfx_op_quantized_decomposed_dequantize_per_tensor_tensor ||
           s->op == &cfx_op_quantized_decomposed_quantize_per_tensor_tensor ||
           s->op == &cfx_op_quantized_decomposed_choose_qparams_tensor;
}

/* Numbers made of bytes, and ranges, that only islands asked for. */
static void leave_out(cfx__lowering *l) {
    bool *read = cfx__plan_kernel_reads(l);
    for (int k = l->plan->n - 1; k >= 0; k--) {
        if (l->taken[k] || !is_support(cfx__plan_step(l, k)) || is_wanted(l, k))
            continue;
        const bool unread = l->first[k] == l->first[k + 1];
        l->taken[k] = !unread && !cfx__plan_is_read(l, read, k);
    }
    cfx__free(read);
}

bool cfx__plan_find_islands(cfx__lowering *l) {
    for (int k = 0; k < l->plan->n && cfx_ok(); k++) {
        size_t mark = cfx_scope_open();
        find_layer(l, k);
        find_move(l, k);
        cfx_scope_close(mark);
    }
    leave_out(l);
    return cfx_ok();
}
