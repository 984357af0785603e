/* Narrow weights: products and embedding tables whose weight is dequantized from 8 or 4 bits
 * read the integers themselves. Folding the dequantize nodes with the other constants would
 * allocate the float weight, so this folding is postponed until it is known which kernels need
 * the float weight. Start at cfx__plan_put_off and cfx__plan_find_narrow. */
#include <cfx/ops.h>

#include "plan.h"

/* ---- how a weight comes about ---------------------------------------------------------------- */

enum { CHAIN = 10 };

/* A weight and the steps that make it of stored numbers. */
typedef struct {
    const cfx__run_step *back; /* the call that makes float32 of integers */
    bool turned;               /* transposed after that */
    bool halves;               /* the numbers are two to a byte */
    int numbers;               /* the slot of what is stored */
    int slot[CHAIN], n;        /* the steps */
} origin;

/* The slot that an argument is, noted as a step of the chain; -1: none, or somebody looks at it. */
static int step_of(const cfx__lowering *l, cfx_value v, origin *o) {
    if (v.tag != CFX_TAG_NODE || o->n == CHAIN ||
        cfx__plan_wants(l->e, cfx__plan_step(l, (int)v.spare)->node))
        return -1;
    return o->slot[o->n++] = (int)v.spare;
}

static bool is_swap(const cfx__run_step *s) {
    return s->op == &cfx_op_t || s->op == &cfx_op_numpy_T ||
           (s->op == &cfx_op_transpose_int &&
            cfx_integer(s->bound[1]) + cfx_integer(s->bound[2]) == 1) ||
           (s->op == &cfx_op_permute && s->bound[1].tag == CFX_TAG_LIST &&
            cfx_as_list(s->bound[1])->len == 2 &&
            cfx_integer(cfx_as_list(s->bound[1])->items[0]) != 0);
}

static bool is_back(const cfx__run_step *s) {
    return s->op == &cfx_op_quantized_decomposed_dequantize_per_channel_group ||
           s->op == &cfx_op_quantized_decomposed_dequantize_per_channel ||
           s->op == &cfx_op_quantized_decomposed_dequantize_per_tensor;
}

static bool is_stored(const cfx__run_step *s) {
    return s->node->op == CFX_PLACEHOLDER || s->node->op == CFX_GET_ATTR;
}

static bool is_int(cfx_value v, int64_t n) { return v.tag == CFX_TAG_INT && cfx_integer(v) == n; }

/* One half of each byte: the slot of the bytes, or -1. */
static int half_of(const cfx__lowering *l, cfx_value v, bool high, origin *o) {
    const int slot = step_of(l, v, o);
    const cfx__run_step *s = slot < 0 ? NULL : cfx__plan_step(l, slot);
    const bool shifts = s && (s->op == &cfx_op_bitwise_right_shift_Tensor_Scalar ||
                              s->op == &cfx_op___rshift___Scalar);
    const bool masks =
        s && (s->op == &cfx_op_bitwise_and_Scalar || s->op == &cfx_op___and___Scalar);
    if (!(high ? shifts : masks) || !is_int(s->bound[1], high ? 4 : 15) ||
        s->bound[0].tag != CFX_TAG_NODE)
        return -1;
    return (int)s->bound[0].spare;
}

/* Bytes taken apart: (stack([b & 15, b >> 4], -1).view(n, k).to(int8) - 8); the slot of b or -1. */
static int bytes_under(const cfx__lowering *l, int slot, origin *o) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    if (s->op != &cfx_op_sub_Tensor || !is_int(s->bound[1], 8) || !is_int(s->bound[2], 1) ||
        (slot = step_of(l, s->bound[0], o)) < 0)
        return -1;
    s = cfx__plan_step(l, slot);
    if ((s->op != &cfx_op_to_dtype && s->op != &cfx_op__to_copy) ||
        s->bound[1].tag != CFX_TAG_DTYPE || cfx_integer(s->bound[1]) != CFX_I8 ||
        (slot = step_of(l, s->bound[0], o)) < 0)
        return -1;
    s = cfx__plan_step(l, slot);
    if (!cfx__plan_reshapes(s->op) ||
        (slot = step_of(l, s->bound[0], o)) < 0)
        return -1;
    s = cfx__plan_step(l, slot);
    if (s->op != &cfx_op_stack || s->bound[0].tag != CFX_TAG_LIST ||
        cfx_as_list(s->bound[0])->len != 2 ||
        !(is_int(s->bound[1], -1) || is_int(s->bound[1], 2)))
        return -1;
    const int low = half_of(l, cfx_as_list(s->bound[0])->items[0], false, o);
    return low == half_of(l, cfx_as_list(s->bound[0])->items[1], true, o) ? low : -1;
}

/* Finds how the weight of a call comes about; false where it is no narrow one. */
static bool find_origin(const cfx__lowering *l, cfx_value weight, origin *o) {
    *o = (origin){0};
    int slot = step_of(l, weight, o);
    if (slot >= 0 && is_swap(cfx__plan_step(l, slot))) {
        o->turned = true;
        slot = step_of(l, cfx__plan_step(l, slot)->bound[0], o);
    }
    if (slot < 0 || !is_back(cfx__plan_step(l, slot)) ||
        cfx__plan_step(l, slot)->bound[0].tag != CFX_TAG_NODE)
        return false;
    o->back = cfx__plan_step(l, slot);
    o->numbers = (int)o->back->bound[0].spare;
    if (is_stored(cfx__plan_step(l, o->numbers)))
        return true;
    slot = step_of(l, o->back->bound[0], o);
    o->halves = true;
    o->numbers = slot < 0 ? -1 : bytes_under(l, slot, o);
    return o->numbers >= 0 && is_stored(cfx__plan_step(l, o->numbers));
}

/* The argument of a call that may be such a weight, -1 where none is: that of a product with
 * kernels of its own, or a table. axis: the dimension of it that counts the results. */
static int weight_of(const cfx__run_step *s, int *axis) {
    *axis = 0;
    if (s->op == &cfx_op_embedding)
        return 0;
    if (!s->op || !s->op->takes || !s->op->layer.product)
        return -1;
    *axis = s->op->layer.axis;
    return s->op->layer.weight;
}

/* ---- putting off ----------------------------------------------------------------------------- */

static void note_put_off(void *user, int slot) {
    bool **marks = user; /* those put off, and what is said of the step */
    *marks[1] |= marks[0][slot];
}

bool cfx__plan_put_off(cfx__lowering *l) {
    const cfx__plan *p = l->plan;
    const bool *varies = l->varies;
    origin o;
    for (int k = 0; k < p->n; k++) {
        const cfx__run_step *s = cfx__plan_step(l, k);
        int axis, weight = weight_of(s, &axis);
        if (weight >= 0 && find_origin(l, s->bound[weight], &o) &&
            !varies[o.numbers] && cfx__plan_step(l, o.numbers)->node->op == CFX_PLACEHOLDER)
            l->put_off[o.numbers] = true;
    }
    for (int k = 0; k < p->n; k++) {
        bool *marks[] = {l->put_off, &(bool){false}};
        cfx__plan_each_read(cfx__plan_step(l, k), note_put_off, marks);
        if (*marks[1] && !varies[k])
            l->put_off[k] = true;
    }
    return cfx_ok();
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool gives_float(cfx_value out) {
    return cfx_is_none(out) || (out.tag == CFX_TAG_DTYPE && cfx_integer(out) == CFX_F32);
}

/* The scales of a weight whose results are dimension `axis`, and how many inputs share one. */
static bool read_scales(const cfx__lowering *l, const origin *o, int axis, cfx__narrow *to) {
    const cfx__run_step *s = o->back;
    cfx_tensor *given = cfx__plan_known(l, s->bound[1]);
    to->group = to->k;
    if (!cfx__plan_is_zero(l, s->bound[2]))
        return false;
    if (s->op == &cfx_op_quantized_decomposed_dequantize_per_tensor) {
        to->scales = cfx_to(cfx_tensor_from_value(s->bound[1]), cfx_f32);
        return s->bound[1].tag == CFX_TAG_FLOAT && gives_float(s->bound[6]);
    }
    if (!given)
        return false;
    to->scales = cfx_contiguous(cfx_to(given, cfx_f32));
    if (s->op == &cfx_op_quantized_decomposed_dequantize_per_channel)
        return is_int(s->bound[3], axis) && gives_float(s->bound[7]);
    to->group = cfx_integer(s->bound[6]);
    return axis == 0 && gives_float(s->bound[7]);
}

/* Whether integers that are stored as bytes are from -8 to 7. */
static bool fit_4_bits(const cfx_tensor *t) {
    bool fit = t->dtype == CFX_I8 && cfx__tensor_is_contiguous(t);
    for (int64_t i = 0; fit && i < t->numel; i++) {
        const int8_t v = ((const int8_t *)t->data)[i];
        fit = v >= -8 && v < 8;
    }
    return fit;
}

bool cfx__plan_narrow(const cfx__lowering *l, int slot, cfx__narrow *to) {
    const cfx__run_step *s = cfx__plan_step(l, slot);
    int axis, weight = weight_of(s, &axis);
    origin o;
    if (weight < 0 || !find_origin(l, s->bound[weight], &o))
        return false;
    axis = o.turned ? 1 - axis : axis;
    const cfx_tensor *whole = cfx__plan_tensor(l, o.slot[o.n > 1 && o.turned ? 1 : 0]);
    cfx_tensor *numbers = cfx__plan_known(l, l->plan->constants[o.numbers]);
    if (!numbers || numbers->ndim != 2 || !whole || whole->ndim != 2 || (o.halves && axis))
        return false;
    const bool channels = o.back->op == &cfx_op_quantized_decomposed_dequantize_per_channel;
    const cfx_value least = o.back->bound[channels ? 4 : 3];
    const bool few = numbers->dtype == CFX_U8 || (is_int(least, -8) && fit_4_bits(numbers));
    *to = (cfx__narrow){.bits = few ? 4 : 8, .n = whole->shape[axis],
                        .k = whole->shape[1 - axis],
                        .integers = axis ? cfx_t(numbers) : numbers};
    return read_scales(l, &o, axis, to) && cfx__plan_are_scales(to->scales);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A step that reads slot `from` and gives it in another shape. */
static bool is_reshaped(const cfx__run_step *s) {
    return cfx__plan_reshapes(s->op) && s->bound[0].tag == CFX_TAG_NODE;
}

/* The step that an argument is, which nobody looks at; NULL where it is none. */
static const cfx__run_step *arg_step(const cfx__lowering *l, cfx_value v) {
    const cfx__run_step *s = v.tag == CFX_TAG_NODE ? cfx__plan_step(l, (int)v.spare) : NULL;
    return s && !cfx__plan_wants(l->e, s->node) ? s : NULL;
}

/* Whether v is item i of the pair of numbers that choose_qparams_per_token gives for `rows`. */
static bool is_choice(const cfx__lowering *l, cfx_value v, int i, cfx_value rows) {
    const cfx__run_step *item = arg_step(l, v);
    if (!item || !item->item)
        return false;
    const cfx_list *args = cfx_as_list(item->args);
    const cfx__run_step *choose = arg_step(l, args->items[0]);
    return is_int(args->items[1], i) && choose &&
           choose->op == &cfx_op_quantized_decomposed_choose_qparams_per_token &&
           cfx_equal_values(choose->bound[0], rows) && cfx_integer(choose->bound[1]) == CFX_I8;
}

/* Arguments 1 to 5 of a call that rounds to int8, or back: scales and zeros of `rows`, and a range
 * that cuts nothing off. */
static bool rounds_by(const cfx__lowering *l, const cfx__run_step *s, cfx_value rows) {
    return is_choice(l, s->bound[1], 0, rows) && is_choice(l, s->bound[2], 1, rows) &&
           (is_int(s->bound[3], -127) || is_int(s->bound[3], -128)) && is_int(s->bound[4], 127) &&
           s->bound[5].tag == CFX_TAG_DTYPE && cfx_integer(s->bound[5]) == CFX_I8;
}

int64_t cfx__plan_rounded(const cfx__lowering *l, int slot, int *x) {
    const cfx__run_step *whole = cfx__plan_step(l, slot);
    if (!whole->op || cfx__plan_wants(l->e, whole->node) || !is_reshaped(whole))
        return 0;
    const cfx__run_step *back = arg_step(l, whole->bound[0]);
    if (!back || back->op != &cfx_op_quantized_decomposed_dequantize_per_token ||
        !gives_float(back->bound[6]))
        return 0;
    const cfx__run_step *to = arg_step(l, back->bound[0]);
    if (!to || to->op != &cfx_op_quantized_decomposed_quantize_per_token ||
        !rounds_by(l, to, to->bound[0]) || !rounds_by(l, back, to->bound[0]))
        return 0;
    const cfx__run_step *split = arg_step(l, to->bound[0]);
    if (!split || !is_reshaped(split))
        return 0;
    *x = (int)split->bound[0].spare;
    const cfx_tensor *from = cfx__plan_tensor(l, *x), *own = cfx__plan_tensor(l, slot);
    const cfx_tensor *rows = cfx__plan_tensor(l, (int)to->bound[0].spare);
    const bool same = from && own && rows && rows->ndim && from->dtype == CFX_F32 &&
                      cfx__tensor_same_shape(from, own) && cfx_is_bad(l->plan->constants[*x]);
    return same ? rows->shape[rows->ndim - 1] : 0;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Steps that round inputs in blocks. */
static bool rounds(const cfx__run_step *s) {
    return s->item || is_reshaped(s) ||
           s->op == &cfx_op_quantized_decomposed_choose_qparams_per_token ||
           s->op == &cfx_op_quantized_decomposed_quantize_per_token ||
           s->op == &cfx_op_quantized_decomposed_dequantize_per_token;
}

/* What is put off, or rounds an input, and asked for by nobody any more is left out. */
static void leave_out(cfx__lowering *l) {
    bool *read = cfx__plan_kernel_reads(l);
    for (int k = l->plan->n - 1; k >= 0; k--) {
        const cfx__run_step *s = cfx__plan_step(l, k);
        const bool asked = l->first[k] != l->first[k + 1]; /* by a step of the program */
        if ((l->put_off[k] ? s->op != NULL : asked && !l->taken[k] && rounds(s)) &&
            !cfx__plan_wants(l->e, s->node) && !cfx__plan_is_read(l, read, k))
            l->taken[k] = true;
    }
    cfx__free(read);
}

/* What others ask for is computed now, where all that it takes is known. */
static void fold(cfx__lowering *l, int k) {
    const cfx__run_step *s = cfx__plan_step(l, k);
    cfx_value args[CFX_MAX_ARGS];
    if (cfx__plan_reads_unknown(l->plan, s) || !s->op || cfx__plan_op(s) != s->op ||
        !cfx_is_bad(l->plan->constants[k]) || !cfx__op_is_pure(s->op, s->bound))
        return;
    for (int i = 0; i < s->nbound; i++)
        args[i] = cfx__plan_filled(l->plan, s->bound[i]);
    l->plan->constants[k] = cfx_value_keep(cfx__op_call_bound((cfx_site){0}, s->op, args));
}

bool cfx__plan_find_narrow(cfx__lowering *l) {
    for (int k = 0; k < l->plan->n && cfx_ok(); k++) {
        size_t mark = cfx_scope_open();
        cfx__narrow narrow;
        if (!l->taken[k] && !cfx__plan_is_ordered(l, k) &&
            !cfx__plan_is_constant(l, k) && cfx__plan_narrow(l, k, &narrow))
            cfx__plan_fuse(l, k);
        cfx_scope_close(mark);
    }
    leave_out(l);
    for (int k = 0; k < l->plan->n && cfx_ok(); k++) {
        size_t mark = cfx_scope_open();
        if (l->put_off[k] && !l->taken[k])
            fold(l, k);
        cfx_scope_close(mark);
    }
    return cfx_ok();
}
