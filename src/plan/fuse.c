/* Fusing: a convolution or product with the normalisation, activation and addition that follow it
 * is one kernel. Start at cfx__plan_fuse. */
#include <cfx/ops.h>

#include "../tensor/packed.h"
#include "plan.h"

/* ---- what follows a node --------------------------------------------------------------------- */

cfx_op *cfx__plan_op(const cfx__run_step *s) {
    if (!s->op)
        return NULL;
    const cfx__op_info *info = cfx__op_info_of(s->op);
    return info->form == CFX__INPLACE && info->nout ? info->functional : s->op;
}

cfx_tensor *cfx__plan_tensor(const cfx__lowering *l, int slot) {
    cfx_value v = cfx_is_bad(l->plan->constants[slot]) ? l->plan->given[slot]
                                                       : l->plan->constants[slot];
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

typedef struct {
    int slot;
    bool found;
} search;

static void note_read(void *user, int slot) {
    search *s = user;
    s->found |= s->slot == slot;
}

bool cfx__plan_reads(const cfx__run_step *s, int slot) {
    search found = {slot, false};
    cfx__plan_each_read(s, note_read, &found);
    return found.found;
}

int cfx__plan_only_user(const cfx__lowering *l, int slot) {
    if (l->first[slot + 1] - l->first[slot] != 1)
        return -1;
    const int k = l->readers[l->first[slot]];
    return l->plan->steps->steps[k].op ? k : -1;
}

bool cfx__plan_passes(const cfx__lowering *l, int slot) {
    const cfx__run_step *s = &l->plan->steps->steps[slot];
    cfx_op *op = cfx__plan_op(s);
    return op == &cfx_op_dropout && s->bound[0].tag == CFX_TAG_NODE &&
           s->bound[2].tag == CFX_TAG_BOOL && !cfx_integer(s->bound[2]);
}

/* to(dtype) of what has it: the argument itself. */
bool cfx__plan_is_same(const cfx__lowering *l, int slot) {
    const cfx__run_step *s = &l->plan->steps->steps[slot];
    if (s->op != &cfx_op_to_dtype || s->bound[0].tag != CFX_TAG_NODE ||
        s->bound[1].tag != CFX_TAG_DTYPE || s->bound[3].tag != CFX_TAG_BOOL ||
        cfx_integer(s->bound[3]) || s->bound[4].tag != CFX_TAG_NONE)
        return false;
    const cfx_tensor *t = cfx__plan_tensor(l, (int)s->bound[0].spare);
    return t && (int64_t)t->dtype == cfx_integer(s->bound[1]);
}

/* ---- normalisation --------------------------------------------------------------------------- */

/* The constant that argument i of a step is; None is one. False where it is not constant. */
static bool constant_arg(const cfx__lowering *l, const cfx__run_step *s, int i, cfx_value *out) {
    *out = s->bound[i];
    if (out->tag == CFX_TAG_NODE)
        *out = l->plan->constants[out->spare];
    return !cfx_is_bad(*out) && !s->nested[i];
}

/* Weights, and one number for each channel of the result. */
typedef struct {
    const cfx_tensor *w, *scale;
} scaling;

static void scale_channels(void *user, void *to) {
    const scaling *s = user;
    const int64_t channels = s->w->shape[0], each = s->w->numel / channels;
    const float *from = (const float *)s->w->data, *by = (const float *)s->scale->data;
    float *out = to;
    for (int64_t c = 0; c < channels; c++, from += each, out += each)
        for (int64_t i = 0; i < each; i++)
            out[i] = from[i] * by[c];
}

/* Weights times those; scope. NULL where they are not float32, in order and as many. Other plans
 * that fold the same share it. */
static cfx_tensor *scaled(const cfx_tensor *w, const cfx_tensor *scale) {
    if (w->dtype != CFX_F32 || scale->dtype != CFX_F32 || scale->numel != w->shape[0] ||
        !w->numel || !cfx__tensor_is_contiguous(w) || !cfx__tensor_is_contiguous(scale))
        return NULL;
    uint64_t how = cfx__packed_key("scaled", 1, &w->numel);
    for (int64_t c = 0; c < scale->numel; c++)
        how = cfx__hash_mix(how, ((const uint32_t *)scale->data)[c]);
    scaling s = {w, scale};
    return cfx__packed_tensor(w, how, CFX_F32, w->ndim, w->shape, scale_channels, &s);
}

/* Whether a tensor, where there is one, is a row with a number for each channel: norms count
 * elements, and take other shapes where there are none. */
static bool is_of_channels(cfx_value v, int64_t n) {
    return v.tag != CFX_TAG_TENSOR ||
           (cfx_as_tensor(v)->ndim == 1 && cfx_as_tensor(v)->shape[0] == n);
}

/* Weights and bias of a convolution with the normalisation at step `norm` in them; false where that
 * is not constant. Scope.
 * batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn) */
static bool fold_norm(const cfx__lowering *l, int norm, cfx_value *weight, cfx_value *bias) {
    const cfx__run_step *s = &l->plan->steps->steps[norm];
    cfx_value w, b, mean, var, training, eps;
    if (s->op != &cfx_op_batch_norm || !constant_arg(l, s, 1, &w) || !constant_arg(l, s, 2, &b) ||
        !constant_arg(l, s, 3, &mean) || !constant_arg(l, s, 4, &var) ||
        !constant_arg(l, s, 5, &training) || !constant_arg(l, s, 7, &eps) ||
        mean.tag != CFX_TAG_TENSOR || var.tag != CFX_TAG_TENSOR || training.tag != CFX_TAG_BOOL ||
        cfx_integer(training) || cfx_as_tensor(mean)->dtype != CFX_F32)
        return false;
    const int64_t n = cfx_as_tensor(*weight)->shape[0];
    if (!is_of_channels(mean, n) || !is_of_channels(var, n) || !is_of_channels(w, n) ||
        !is_of_channels(b, n))
        return false;
    cfx_tensor *scale = cfx_rsqrt(cfx_add(var, eps)), *shift = cfx_neg(cfx_as_tensor(mean));
    if (w.tag == CFX_TAG_TENSOR)
        scale = cfx_mul(scale, w);
    if (bias->tag == CFX_TAG_TENSOR)
        shift = cfx_add(shift, *bias);
    shift = cfx_mul(shift, scale);
    if (b.tag == CFX_TAG_TENSOR)
        shift = cfx_add(shift, b);
    cfx_tensor *folded = cfx_ok() ? scaled(cfx_as_tensor(*weight), scale) : NULL;
    if (!folded || !cfx_ok() || shift->dtype != CFX_F32)
        return false;
    *weight = cfx_tensor_value(folded);
    *bias = cfx_tensor_value(shift);
    return true;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* A node and what follows it, as far as one kernel may do it all. */
typedef struct {
    cfx__epilogue epilogue;
    int end[CFX__POSTS + 1]; /* the slot that has the result with so many posts */
    cfx_tensor *like[CFX__POSTS + 1]; /* how that lies */
    int add;                 /* the slot that is added, or -1 */
    cfx_value weight, bias;  /* arguments 1 and 2 where a normalisation is folded in */
    bool folded;
} chain;

int cfx__plan_next(const cfx__lowering *l, int slot) {
    int k = cfx__plan_wants(l->e, l->plan->steps->steps[slot].node) ? -1
                                                                    : cfx__plan_only_user(l, slot);
    return k < 0 || l->taken[k] || !cfx_is_bad(l->plan->constants[k]) ||
                   cfx__plan_is_ordered(l, k)
               ? -1
               : k;
}

/* The number of the argument that reads the slot. */
static int place_of(const cfx__run_step *s, int slot) {
    for (int i = 0; i < s->nbound; i++)
        if (s->bound[i].tag == CFX_TAG_NODE && (int)s->bound[i].spare == slot)
            return i;
    return -1;
}

/* x + y or y + x, where y is a tensor like x made before x began: the slot of y, or -1. */
static int added(const cfx__lowering *l, int k, int slot, int start, const cfx_tensor *like) {
    const cfx__run_step *s = &l->plan->steps->steps[k];
    int place = place_of(s, slot);
    if (cfx__plan_op(s) != &cfx_op_add_Tensor || place < 0 || place > 1 ||
        s->bound[2].tag != CFX_TAG_INT || cfx_integer(s->bound[2]) != 1 ||
        s->bound[1 - place].tag != CFX_TAG_NODE)
        return -1;
    int other = (int)s->bound[1 - place].spare;
    if (other > start)
        return -1;
    const cfx_tensor *t = cfx__plan_tensor(l, other);
    return t && other != slot && t->dtype == CFX_F32 && cfx__tensor_same_shape(t, like) ? other
                                                                                         : -1;
}

bool cfx__plan_is_activation(const cfx__lowering *l, int k, int slot) {
    const cfx__run_step *s = &l->plan->steps->steps[k];
    for (int i = 1; i < s->nbound; i++)
        if (s->bound[i].tag == CFX_TAG_NODE || s->nested[i])
            return false;
    return place_of(s, slot) == 0 && cfx__ready_posts(cfx__plan_op(s), s->bound) &&
           cfx__plan_tensor(l, slot)->dtype == CFX_F32;
}

/* Whether step k shows the same rows with other dims before them. */
static bool shows_rows(const cfx__lowering *l, int k, int slot, const cfx_tensor *like) {
    const cfx__run_step *s = &l->plan->steps->steps[k];
    const cfx_tensor *t = cfx__plan_tensor(l, k);
    return cfx__plan_reshapes(s->op) &&
           place_of(s, slot) == 0 && t && t->ndim && like->ndim && cfx__tensor_is_contiguous(t) &&
           cfx__tensor_is_contiguous(like) &&
           t->shape[t->ndim - 1] == like->shape[like->ndim - 1];
}

/* Follows the chain behind a slot. */
static void follow(const cfx__lowering *l, int start, cfx_tensor *like, chain *c) {
    const cfx_op *op = l->plan->steps->steps[start].op;
    const bool product = op == &cfx_op_linear || op == &cfx_op_addmm || op == &cfx_op_mm;
    int slot = c->end[0] = start;
    c->like[0] = like;
    for (int k = cfx__plan_next(l, slot); k >= 0; k = cfx__plan_next(l, slot)) {
        int y = added(l, k, slot, start, like);
        if (product && c->add < 0 && shows_rows(l, k, slot, like)) { /* what is added lies so too */
            like = cfx__plan_tensor(l, k);
        } else if (cfx__plan_passes(l, k) || cfx__plan_is_same(l, k)) {
            c->end[c->epilogue.n] = k;
        } else if (c->epilogue.n == CFX__POSTS) {
            return;
        } else if (y >= 0 && !c->epilogue.n) {
            c->add = y;
            c->epilogue.post[c->epilogue.n++] = (cfx__post){0};
        } else if (cfx__plan_is_activation(l, k, slot)) {
            const cfx__run_step *s = &l->plan->steps->steps[k];
            c->epilogue.post[c->epilogue.n++] = (cfx__post){cfx__plan_op(s), s->bound};
        } else {
            return;
        }
        c->end[c->epilogue.n] = k;
        c->like[c->epilogue.n] = like;
        slot = k;
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static cfx_tensor *in_format(const cfx_tensor *t, cfx_memory_format f) {
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_of_format(f, t->ndim, t->shape, stride);
    return cfx_tensor_fake((cfx_dtype)t->dtype, t->ndim, t->shape, stride);
}

/* The arguments of a step as those of a layer: constants as they are, all else fake. */
static bool arguments(const cfx__lowering *l, const cfx__run_step *s, cfx_value *args) {
    for (int i = 0; i < s->nbound; i++) {
        args[i] = s->bound[i];
        if (s->nested[i])
            return false;
        if (args[i].tag == CFX_TAG_NODE) {
            cfx_value known = l->plan->constants[args[i].spare];
            args[i] = cfx_is_bad(known) ? l->plan->given[args[i].spare] : known;
        }
        if (args[i].tag == CFX_TAG_TENSOR && cfx_as_tensor(args[i])->data)
            args[i] = cfx_tensor_value(cfx__tensor_contiguous(cfx_as_tensor(args[i])));
        if (!cfx__plan_takes(s, i, args[i]))
            return false;
    }
    return true;
}

/* Makes the layer that of the longest chain that there is a kernel for, writing to the home of its
 * result where it has one. False where there is none. */
static bool choose(const cfx__lowering *l, cfx__layer *layer, chain *ch) {
    for (; ch->epilogue.n >= 0; ch->epilogue.n--) {
        cfx_tensor *like = ch->like[ch->epilogue.n];
        if (!ch->epilogue.n || ch->epilogue.post[0].op)
            ch->add = -1;
        cfx_tensor *home = cfx__plan_home_like(l, ch->end[ch->epilogue.n]);
        layer->epilogue = ch->epilogue;
        layer->call.out[0] = home ? home : like;
        bool takes = l->target->takes(layer);
        if (!takes && home && cfx_ok()) {
            layer->call.out[0] = like;
            takes = l->target->takes(layer);
        }
        if (takes || !cfx_ok())
            return takes;
    }
    ch->epilogue.n = 0;
    return false;
}

/* The same of a layer with a narrow weight whose input, slot x, is rounded in blocks: the layer
 * rounds it, and reads what it was before. */
static bool choose_rounded(const cfx__lowering *l, cfx__layer *layer, cfx__narrow *narrow,
                           chain *ch, int *x) {
    cfx_value *arg = &layer->call.args[layer->input], was = *arg;
    int from;
    narrow->block = cfx__plan_rounded(l, *x, &from);
    if (narrow->block) {
        *arg = l->plan->given[from];
        if (choose(l, layer, ch)) {
            *x = from;
            return true;
        }
        *arg = was;
        narrow->block = 0;
    }
    return false;
}

/* Notes the layer, which reads slot x; the slot that has its result. */
static int put(cfx__lowering *l, int slot, int x, const cfx__layer *layer, const chain *ch) {
    enum { LONGEST = 64 }; /* steps that give their argument again may come between the posts */
    int slots[LONGEST], n = 0, end = ch->end[ch->epilogue.n];
    for (int i = slot; i >= 0; i = i == end ? -1 : cfx__plan_only_user(l, i)) {
        if (n == LONGEST)
            return -1;
        slots[n++] = i;
    }
    cfx__plan_put_layer(l, layer, x, ch->add, n, slots);
    return end;
}

/* Whether the program says that the first size of a node's result varies. */
static bool has_batches(const cfx_node *n) {
    const cfx_result r = cfx_node_result(n);
    const cfx_value size = r.kind == CFX_RESULT_TENSOR ? cfx_result_size(&r, 0) : cfx_none();
    return size.tag != CFX_TAG_NONE && size.tag != CFX_TAG_INT;
}

int cfx__plan_fuse(cfx__lowering *l, int slot) {
    const cfx__run_step *s = l->plan->kernels[slot].step;
    cfx_op *op = cfx__plan_op(s);
    cfx_value args[CFX_MAX_ARGS];
    cfx_tensor *want =
        l->plan->wanted[slot].tag == CFX_TAG_TENSOR ? cfx_as_tensor(l->plan->wanted[slot]) : NULL;
    if (!op || op != s->op || !op->takes || !want || !arguments(l, s, args))
        return -1;
    const bool image = want->ndim == 4;
    cfx_tensor *like = image ? in_format(want, l->target->images) : want;
    chain ch = {.add = -1};
    int norm = cfx__plan_next(l, slot), start = slot;
    cfx_value weight = s->nbound > 1 ? args[1] : cfx_none();
    cfx_value bias = s->nbound > 2 ? args[2] : cfx_none();
    if (image && norm >= 0 && weight.tag == CFX_TAG_TENSOR && cfx_as_tensor(weight)->data &&
        (bias.tag == CFX_TAG_NONE || (bias.tag == CFX_TAG_TENSOR && cfx_as_tensor(bias)->data)) &&
        place_of(&l->plan->steps->steps[norm], slot) == 0 && fold_norm(l, norm, &weight, &bias)) {
        args[1] = weight, args[2] = bias;
        start = norm;
    }
    if (!cfx_ok())
        return -1;
    cfx__layer layer = {.call = {.op = op, .nargs = s->nbound, .args = args, .nout = 1,
                                 .fake = true},
                        .input = op->layer.input,
                        .batches = has_batches(s->node)};
    if (s->bound[layer.input].tag != CFX_TAG_NODE || cfx_as_tensor(args[layer.input])->data)
        return -1;
    int x = (int)s->bound[layer.input].spare;
    cfx__narrow narrow;
    if (cfx__plan_narrow(l, slot, &narrow))
        ch.epilogue.narrow = &narrow;
    follow(l, start, like, &ch);
    chain whole = ch;
    bool takes = ch.epilogue.narrow && choose_rounded(l, &layer, &narrow, &ch, &x);
    if (!takes) {
        ch = whole;
        takes = cfx_ok() && choose(l, &layer, &ch);
    }
    if (!takes && image && l->target->images != CFX_CONTIGUOUS && cfx_ok() &&
        args[0].tag == CFX_TAG_TENSOR && !cfx_as_tensor(args[0])->data) {
        ch = whole;
        args[0] = cfx_tensor_value(in_format(cfx_as_tensor(args[0]), l->target->images));
        takes = choose(l, &layer, &ch);
    }
    return takes && cfx_ok() ? put(l, slot, x, &layer, &ch) : -1;
}
