/* Connectionist temporal classification: the likelihood of a sequence of targets under all ways to
 * spread it over time, by the forward recursion of Graves et al.; the gradient by the backward one.
 *
 * A target of n labels is read as 2n + 1 places: a blank before, between and after labels. */
#include <cfx/ops.h>

#include "../back.h"
#include "../sizes.h"

#include <math.h>

CFX_FAMILY(REDUCE);

/* log_probs, targets, input_lengths, target_lengths, blank, ...: from argument `at` on. */
typedef struct {
    int64_t time, batch, classes, longest; /* sizes; the longest target */
    int64_t blank;
    const int64_t *inputs, *labels; /* how long each input and each target is */
    const int64_t *start;           /* where the labels of each begin */
    const int64_t *label;
} ctc;

/* A list of lengths, or a tensor of them that has data; NULL, with an error, otherwise. */
static int64_t *lengths_of(cfx_op_call *c, int i, int64_t batch, const char *name) {
    const cfx_tensor *t = arg_tensor(c, i);
    int64_t n = t ? t->numel : arg_count(c, i);
    if (n != batch) {
        op_fail(c, "%s must be of size batch_size", name);
        return NULL;
    }
    int64_t *out = scratch(c, CFX_I64, n + 1);
    if (t && out && (t = cfx__tensor_contiguous_as(t, CFX_I64))->data)
        memcpy(out, t->data, (size_t)n * sizeof *out);
    for (int64_t k = 0; !t && out && k < n; k++)
        out[k] = cfx_integer(cfx_at(c->args[i], k));
    return op_failed() ? NULL : out;
}

/* What can be told without looking at labels. */
static bool ctc_sizes(cfx_op_call *c, int at, ctc *k) {
    const cfx_tensor *p = arg_tensor(c, at), *targets = arg_tensor(c, at + 1);
    if (p->ndim != 3 || !cfx__dtype_is_float(p->dtype)) {
        op_fail(c, "ctc_loss: log_probs must be a floating tensor of 3 dims, got %d", p->ndim);
        return false;
    }
    if (targets->dtype != CFX_I64 && targets->dtype != CFX_I32) {
        op_fail(c, "targets must be long or int");
        return false;
    }
    *k = (ctc){.time = p->shape[0],
               .batch = p->shape[1],
               .classes = p->shape[2],
               .blank = arg_int(c, at + 4)};
    if (k->blank < 0 || k->blank >= k->classes) {
        op_fail(c, "blank must be in label range");
        return false;
    }
    int64_t *in = lengths_of(c, at + 2, k->batch, "input_lengths");
    int64_t *labels = in ? lengths_of(c, at + 3, k->batch, "target_lengths") : NULL;
    int64_t *start = labels ? scratch(c, CFX_I64, k->batch + 1) : NULL, sum = 0;
    bool flat = targets->ndim == 1;
    if (start && targets->ndim != 1 && (targets->ndim != 2 || targets->shape[0] != k->batch)) {
        op_fail(c, "targets should be 1-D or a row for each of %lld inputs, got %s",
                (long long)k->batch, cfx__shape_text(targets->ndim, targets->shape));
        return false;
    }
    for (int64_t b = 0; start && b < k->batch; b++) {
        int64_t room = flat ? targets->numel - sum : targets->shape[1];
        if (in[b] < 0 || in[b] > k->time)
            op_fail(c,
                    "Expected input_lengths to have value at most %lld, but got value %lld "
                    "(while checking arguments for ctc_loss)",
                    (long long)k->time, (long long)in[b]);
        else if (labels[b] < 0 || labels[b] > room)
            op_fail(c,
                    "Expected target_lengths to have value at most %lld, but got value %lld "
                    "(while checking arguments for ctc_loss)",
                    (long long)room, (long long)labels[b]);
        if (op_failed())
            return false;
        start[b] = flat ? sum : b * targets->shape[1];
        sum += labels[b];
        k->longest = labels[b] > k->longest ? labels[b] : k->longest;
    }
    k->inputs = in, k->labels = labels, k->start = start;
    return start && !op_failed();
}

static bool ctc_labels(cfx_op_call *c, int at, ctc *k) {
    const cfx_tensor *targets = cfx__tensor_contiguous_as(arg_tensor(c, at + 1), CFX_I64);
    if (op_failed())
        return false;
    k->label = (const int64_t *)targets->data;
    for (int64_t b = 0; b < k->batch; b++)
        for (int64_t i = 0; i < k->labels[b]; i++) {
            int64_t l = k->label[k->start[b] + i];
            if (l < 0 || l >= k->classes) {
                op_fail(c, "ctc_loss: label %lld is not among %lld classes", (long long)l,
                        (long long)k->classes);
                return false;
            }
        }
    return true;
}

static int64_t at_place(const ctc *k, int64_t b, int64_t s) {
    return s % 2 ? k->label[k->start[b] + s / 2] : k->blank;
}

/* log(exp a + exp b + exp c) */
static double log_sum(double a, double b, double c) {
    double m = fmax(a, fmax(b, c));
    return m == -INFINITY ? m : m + log(exp(a - m) + exp(b - m) + exp(c - m));
}

/* One direction of the recursion for input b: out[time][2 longest + 1]. */
static void recursion(const ctc *k, const double *p, int64_t b, bool back, double *out) {
    int64_t n = k->inputs[b], places = 2 * k->labels[b] + 1, row = 2 * k->longest + 1;
    for (int64_t i = 0; i < k->time * row; i++)
        out[i] = -INFINITY;
    for (int64_t step = 0; step < n; step++) {
        int64_t t = back ? n - 1 - step : step;
        const double *now = p + (t * k->batch + b) * k->classes;
        const double *last = out + (back ? t + 1 : t - 1) * row;
        for (int64_t i = 0; i < places; i++) {
            int64_t s = back ? places - 1 - i : i, one = back ? s + 1 : s - 1,
                    two = back ? s + 2 : s - 2, label = at_place(k, b, s);
            double sum;
            if (!step)
                sum = i < 2 ? 0 : -INFINITY;
            else
                sum = log_sum(last[s], i > 0 ? last[one] : -INFINITY,
                              i > 1 && at_place(k, b, two) != label ? last[two] : -INFINITY);
            out[t * row + s] = sum + now[label];
        }
    }
}

static double likelihood(const ctc *k, int64_t b, const double *alpha) {
    int64_t n = k->inputs[b], last = 2 * k->labels[b], row = 2 * k->longest + 1;
    if (!n)
        return last ? -INFINITY : 0;
    alpha += (n - 1) * row;
    return log_sum(alpha[last], last ? alpha[last - 1] : -INFINITY, -INFINITY);
}

static void shape_ctc(cfx_op_call *c) {
    ctc k;
    if (!ctc_sizes(c, 0, &k))
        return;
    cfx_dtype d = arg_tensor(c, 0)->dtype;
    out_new(c, 0, d, 1, &k.batch);
    out_new(c, 1, d, 3, (int64_t[]){k.batch, k.time, 2 * k.longest + 1});
}

static void kernel_ctc(cfx_op_call *c) {
    ctc k;
    if (!ctc_sizes(c, 0, &k) || !ctc_labels(c, 0, &k))
        return;
    const cfx_tensor *p = cfx__tensor_contiguous_as(arg_tensor(c, 0), CFX_F64);
    int64_t each = k.time * (2 * k.longest + 1);
    cfx_tensor *loss = cfx__tensor_empty(c->at, CFX_F64, false, 1, &k.batch, NULL);
    cfx_tensor *alpha = cfx__tensor_empty(c->at, CFX_F64, false, 3, c->out[1]->shape, NULL);
    if (op_failed())
        return;
    for (int64_t b = 0; b < k.batch; b++) {
        double *own = (double *)alpha->data + b * each;
        recursion(&k, (const double *)p->data, b, false, own);
        ((double *)loss->data)[b] = -likelihood(&k, b, own);
    }
    cfx__tensor_copy(c->out[0], loss);
    cfx__tensor_copy(c->out[1], alpha);
}

/* The lengths are data: so is the shape. */
static void kernel_ctc_tensor(cfx_op_call *c) {
    shape_ctc(c);
    if (!op_failed())
        kernel_ctc(c);
}

/* grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank,
 * zero_infinity */
static void shape_ctc_backward(cfx_op_call *c) {
    const cfx_tensor *p = arg_tensor(c, 1), *grad = arg_tensor(c, 0), *loss = arg_tensor(c, 5);
    if (p->ndim != 3 || grad->ndim != 1 || loss->ndim != 1 || grad->shape[0] != p->shape[1] ||
        loss->shape[0] != p->shape[1])
        op_fail(c, "_ctc_loss_backward: the gradient %s does not fit log_probs %s",
                cfx__shape_text(grad->ndim, grad->shape), cfx__shape_text(p->ndim, p->shape));
    else
        out_new(c, 0, p->dtype, 3, p->shape);
}

static void kernel_ctc_backward(cfx_op_call *c) {
    cfx_value args[] = {c->args[1], c->args[2], c->args[3], c->args[4], c->args[7]};
    cfx_op_call forward = *c;
    ctc k;
    forward.args = args, forward.nargs = COUNT(args);
    if (!ctc_sizes(&forward, 0, &k) || !ctc_labels(&forward, 0, &k))
        return;
    const cfx_tensor *p = cfx__tensor_contiguous_as(arg_tensor(c, 1), CFX_F64);
    const cfx_tensor *grad = cfx__tensor_contiguous_as(arg_tensor(c, 0), CFX_F64);
    cfx_tensor *out = cfx__tensor_empty(c->at, CFX_F64, false, 3, p->shape, NULL);
    int64_t row = 2 * k.longest + 1;
    const int64_t places = size_product(k.time, row);
    double *alpha = scratch(c, CFX_F64, places), *beta = scratch(c, CFX_F64, places);
    if (op_failed())
        return;
    memset(out->data, 0, (size_t)out->numel * sizeof(double));
    for (int64_t b = 0; b < k.batch; b++) {
        const double *numbers = (const double *)p->data;
        recursion(&k, numbers, b, false, alpha);
        recursion(&k, numbers, b, true, beta);
        double sum = likelihood(&k, b, alpha), scale = ((const double *)grad->data)[b];
        if (arg_bool(c, 8) && sum == -INFINITY)
            continue;
        for (int64_t t = 0; t < k.inputs[b]; t++) {
            const double *now = numbers + (t * k.batch + b) * k.classes;
            double *to = (double *)out->data + (t * k.batch + b) * k.classes;
            for (int64_t i = 0; i < k.classes; i++)
                to[i] = -INFINITY;
            for (int64_t s = 0; s < 2 * k.labels[b] + 1; s++) {
                double *of = &to[at_place(&k, b, s)];
                *of = log_sum(*of, alpha[t * row + s] + beta[t * row + s], -INFINITY);
            }
            for (int64_t i = 0; i < k.classes; i++)
                to[i] = (exp(now[i]) - exp(to[i] - sum - now[i])) * scale;
        }
    }
    cfx__tensor_copy(c->out[0], out);
}

static void grad_ctc(cfx_back *b) {
    cfx_fn const *fn = &cfx_fn__ctc_loss_backward;
    if (b->needs[0] && b->gout[0])
        back_give(
            b, 0,
            cfx_fn_call_tensor_from(b->at, fn,
                                    CFX_ARGS(b->gout[0], b->args[0], b->args[1], b->args[2],
                                             b->args[3], cfx_tensor_value(b->out[0]),
                                             cfx_tensor_value(b->out[1]), b->args[4], b->args[5])));
}

#define CTC_READS (READ(0) | READ(1) | READ(2) | READ(3) | RESULT(0) | RESULT(1))
CFX_OP(_ctc_loss) = {"aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
                     "target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
                     "torch._ctc_loss", .shape = shape_ctc, .kernel = kernel_ctc,
                     GRAD(ctc, CTC_READS), .out = "out"};
CFX_OP(_ctc_loss_Tensor) = {
    "aten::_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
    "target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)",
    NULL, .kernel = kernel_ctc_tensor, .effects = CFX_DATA_SHAPE, GRAD(ctc, CTC_READS),
    .out = "Tensor_out"};
CFX_OP(_ctc_loss_backward) = {
    "aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, "
    "int[] target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
    "zero_infinity=False) -> Tensor",
    NULL, .shape = shape_ctc_backward, .kernel = kernel_ctc_backward, .out = "out"};
CFX_OP(_ctc_loss_backward_Tensor) = {
    "aten::_ctc_loss_backward.Tensor(Tensor grad, Tensor log_probs, Tensor targets, Tensor "
    "input_lengths, Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, "
    "bool zero_infinity=False) -> Tensor",
    NULL, .shape = shape_ctc_backward, .kernel = kernel_ctc_backward};

/* ---- the loss -------------------------------------------------------------------------------- */

/* log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity; one input
 * may come without a batch. */
static void decompose_ctc_loss(cfx_op_call *c) {
    enum { MEAN = 1, SUM = 2 };
    cfx_tensor *p = arg_tensor(c, 0), *targets = arg_tensor(c, 1);
    cfx_value in = c->args[2], labels = c->args[3];
    bool single = p->ndim == 2;
    if (single) {
        p = cfx_unsqueeze(p, 1);
        targets = targets->ndim == 1 ? cfx_unsqueeze(targets, 0) : targets;
        if (arg_tensor(c, 2))
            in = cfx_tensor_value(cfx_reshape(arg_tensor(c, 2), cfx_list(1)));
        if (arg_tensor(c, 3))
            labels = cfx_tensor_value(cfx_reshape(arg_tensor(c, 3), cfx_list(1)));
    }
    cfx_value both = cfx_fn_call_from(c->at, &cfx_fn__ctc_loss,
                                      CFX_ARGS(p, targets, in, labels, c->args[4], c->args[6]));
    cfx_tensor *loss = cfx_tensor_at(both, 0);
    if (op_failed())
        return;
    if (arg_bool(c, 6))
        loss = cfx_where(cfx_eq(loss, INFINITY), 0.0, loss);
    int64_t how = arg_int(c, 5);
    if (how == MEAN) {
        cfx_tensor *length = labels.tag == CFX_TAG_TENSOR
                                 ? cfx_clamp(labels, 1)
                                 : cfx_clamp(cfx_tensor_from_value(labels), 1);
        c->out[0] = cfx_mean(cfx_div(loss, cfx_to(length, cfx_dtype_value(loss->dtype))));
    } else {
        c->out[0] = how == SUM ? cfx_sum(loss) : single ? cfx_squeeze(loss, 0) : loss;
    }
}

#define CTC .decompose = decompose_ctc_loss, .autocast = CFX_CAST_F32, .effects = CFX_COMPOSITE
CFX_OP(ctc_loss_IntList) = {
    "aten::ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
    "target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    "torch.ctc_loss", CTC};
CFX_OP(ctc_loss_Tensor) = {
    "aten::ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
    "target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    "torch.ctc_loss", CTC};
