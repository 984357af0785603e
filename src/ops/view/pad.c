/* Padding. Whatever the mode, an element of the result is an element of the operand, or a constant:
 * each dimension has a map from positions of the result to positions of the operand (-1 for the
 * constant), and one copy reads them. */
#include "../back.h"
#include "../views.h"

CFX_FAMILY(VIEW);

/* ---- copies by maps -------------------------------------------------------------------------- */

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

/* The position of the operand that position i of the result shows. */
static int64_t source(pad_mode mode, int64_t i, int64_t before, int64_t size) {
    int64_t at;
    if (__builtin_sub_overflow(i, before, &at))
        at = before < 0 ? INT64_MAX : -INT64_MAX;
    if (at >= 0 && at < size)
        return at;
    if (mode == PAD_CONSTANT)
        return -1;
    /* absurd amounts of padding that cancel out end at the nearest end, never outside */
    bool below = at < 0;
    switch (mode) {
    case PAD_REFLECT:
        at = below ? -at : at < 2 * size - 1 ? 2 * (size - 1) - at : 0;
        break;
    case PAD_CIRCULAR:
        at = below ? at + size : at - size;
        break;
    default:
        at = below ? 0 : size - 1;
    }
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* One dimension: outermost first, in the order of the result's memory. */
typedef struct {
    int64_t size;       /* of the result */
    int64_t out, in;    /* strides in bytes */
    int64_t from, to;   /* positions of the result that show the operand as it lies */
    const int64_t *map; /* for all positions */
} axis;

typedef struct {
    char *out;
    const char *in;
    const char *fill; /* `unit` bytes of constants */
    size_t unit;      /* bytes that always move together */
    int n;
    axis axes[CFX_MAX_DIMS];
} mapped;

static void move(char *out, const char *in, size_t unit) {
    switch (unit) {
    case 1:
        *out = *in;
        return;
    case 2:
        memcpy(out, in, 2);
        return;
    case 4:
        memcpy(out, in, 4);
        return;
    case 8:
        memcpy(out, in, 8);
        return;
    default:
        memcpy(out, in, unit);
    }
}

/* Positions [from, to) of one row; the row of the operand is NULL where it is all constant. */
static void row_part(const mapped *m, const axis *a, char *out, const char *in, int64_t from,
                     int64_t to) {
    for (int64_t i = from; i < to; i++) {
        bool constant = !in || a->map[i] < 0;
        move(out + i * a->out, constant ? m->fill : in + a->map[i] * a->in, m->unit);
    }
}

static void copy_row(const mapped *m, const axis *a, char *out, const char *in) {
    bool whole = in && a->to > a->from && a->out == (int64_t)m->unit && a->in == a->out;
    if (!whole) {
        row_part(m, a, out, in, 0, a->size);
        return;
    }
    row_part(m, a, out, in, 0, a->from);
    memcpy(out + a->from * a->out, in + a->map[a->from] * a->in,
           (size_t)(a->to - a->from) * m->unit);
    row_part(m, a, out, in, a->to, a->size);
}

static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const mapped *m = arg;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, out = 0, in = 0;
        bool constant = false;
        for (int d = m->n - 2; d >= 0; d--) {
            const axis *a = &m->axes[d];
            int64_t i = rest % a->size, at = a->map[i];
            rest /= a->size;
            out += i * a->out;
            in += at * a->in;
            constant |= at < 0;
        }
        copy_row(m, &m->axes[m->n - 1], m->out + out, constant ? NULL : m->in + in);
    }
}

/* Fills result 0 from t: pads[2 * d] positions before and pads[2 * d + 1] after in dimension d. */
static void copy_padded(cfx_op_call *c, const cfx_tensor *t, pad_mode mode, const int64_t *pads,
                        const char *constant) {
    cfx_tensor *out = c->out[0];
    mapped m = {.out = out->data, .in = t->data, .unit = (size_t)cfx_dtype_size(out->dtype)};
    int64_t total = 0, element = (int64_t)m.unit;
    if (!out->numel)
        return;
    if (!t->numel && mode != PAD_CONSTANT) {
        op_fail(c, "Expected a tensor that is not empty to pad with its own elements, but got %s",
                cfx__shape_text(t->ndim, t->shape));
        return;
    }
    for (int d = 0; d < out->ndim; d++)
        total += out->shape[d];
    int64_t *maps = scratch(c, CFX_I64, total);
    if (!maps)
        return;
    for (int d = 0; d < out->ndim; d++) {
        axis a = {.size = out->shape[d],
                  .out = out->stride[d] * element,
                  .in = t->stride[d] * element,
                  .map = maps};
        int64_t before = pads[2 * d];
        for (int64_t i = 0; i < a.size; i++)
            *maps++ = source(mode, i, before, t->shape[d]);
        a.from = before > 0 ? before : 0;
        a.to = before + t->shape[d] < a.size ? before + t->shape[d] : a.size;
        int k = m.n++;
        for (; k > 0 && m.axes[k - 1].out < a.out; k--)
            m.axes[k] = m.axes[k - 1];
        m.axes[k] = a;
    }
    /* dimensions at the end that show the operand as it lies move as one */
    while (m.n > 1) {
        const axis *a = &m.axes[m.n - 1];
        bool same = a->from == 0 && a->to == a->size && a->map[0] == 0;
        if (!same || a->out != (int64_t)m.unit || (a->in != a->out && a->size > 1))
            break;
        m.unit *= (size_t)a->size;
        m.n--;
    }
    static const int64_t only[] = {0};
    if (!m.n)
        m.axes[m.n++] = (axis){.size = 1, .to = 1, .map = only};
    if (mode == PAD_CONSTANT) {
        char *fill = scratch(c, CFX_U8, (int64_t)m.unit);
        if (!fill)
            return;
        for (size_t i = 0; i < m.unit; i++)
            fill[i] = constant[i % (size_t)element];
        m.fill = fill;
    }
    int64_t inner = m.axes[m.n - 1].size, rows = 1;
    for (int d = 0; d < m.n - 1; d++)
        rows *= m.axes[d].size;
    int64_t bytes = inner * (int64_t)m.unit;
    cfx__parallel(rows, 1 + 65536 / (bytes > 0 ? bytes : 1), copy_rows, &m);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Pads in order of dimensions, two each, from a list that begins with the last one. */
static int pads_by_dim(cfx_op_call *c, int ndim, int64_t *pads) {
    int64_t given[2 * CFX_MAX_DIMS];
    int n = (int)arg_count(c, 1);
    memset(pads, 0, 2 * CFX_MAX_DIMS * sizeof *pads);
    for (int i = 0; i < n && i < 2 * CFX_MAX_DIMS; i++)
        given[i] = cfx_integer(cfx_as_list(c->args[1])->items[i]);
    for (int k = 0; k < n / 2 && k < ndim; k++) {
        pads[2 * (ndim - 1 - k)] = given[2 * k];
        pads[2 * (ndim - 1 - k) + 1] = given[2 * k + 1];
    }
    return n;
}

/* size + before + after, or -1 where that is no size. */
static int64_t padded_size(int64_t size, const int64_t *pads) {
    int64_t n;
    if (__builtin_add_overflow(size, pads[0], &n) || __builtin_add_overflow(n, pads[1], &n))
        return pads[0] < 0 || pads[1] < 0 ? -1 : INT64_MAX;
    return n;
}

static void shape_constant_pad(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS], shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int64_t given = arg_count(c, 1);
    if (given % 2) {
        op_fail(c, "Length of pad must be even but instead it equals %lld", (long long)given);
        return;
    }
    if (given / 2 > t->ndim) {
        op_fail(c,
                "Length of pad should be no more than twice the number of dimensions of the input. "
                "Pad length is %lldwhile the input has %ddimensions.",
                (long long)given, t->ndim);
        return;
    }
    pads_by_dim(c, t->ndim, pads);
    bool shrinks = true;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t *p = pads + 2 * d;
        shape[d] = padded_size(t->shape[d], p);
        shrinks &= p[0] <= 0 && p[1] <= 0;
        if (shape[d] < 0 || (p[0] < 0 && p[0] < -t->shape[d]) ||
            (p[1] < 0 && p[1] < -t->shape[d])) {
            op_fail(c,
                    "The input size %lld, plus negative padding %lld and %lld resulted in a "
                    "negative output size, which is invalid. Check dimension %d of your input.",
                    (long long)t->shape[d], (long long)p[0], (long long)p[1], d);
            return;
        }
    }
    if (!number_fits(c, c->args[2], t->dtype))
        return;
    if (shrinks) { /* the strides of a narrowed operand, made dense */
        cfx_tensor *view = cfx__tensor_alias(t, t->ndim, shape, t->stride, t->offset);
        out_empty_like(c, t->dtype, CFX_PRESERVE, view);
    } else if (format_strides(c, cfx__tensor_suggest_format(t), t->ndim, shape, stride)) {
        out_strided(c, 0, t->dtype, t->ndim, shape, stride);
    }
}

static void kernel_constant_pad(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS];
    pads_by_dim(c, t->ndim, pads);
    cfx_tensor *constant = cfx__tensor_scalar(c->args[2], t->dtype);
    copy_padded(c, t, PAD_CONSTANT, pads, constant->data);
}

static void grad_constant_pad(cfx_back *b) {
    const cfx_list *pad = cfx_as_list(b->args[1]);
    int64_t less[2 * CFX_MAX_DIMS];
    for (int64_t i = 0; i < pad->len; i++)
        less[i] = -cfx_integer(pad->items[i]);
    back_give(b, 0, cfx_constant_pad_nd(b->gout[0], cfx_ints_value(pad->len, less)));
}

CFX_OP(constant_pad_nd) = {
    "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    "torch.constant_pad_nd", .shape = shape_constant_pad, .kernel = kernel_constant_pad,
    .dtypes = CFX_IN_ANY, GRAD(constant_pad, 0), .out = "out"};

/* ---- reflection and replication -------------------------------------------------------------- */

typedef struct {
    const char *name;
    pad_mode mode;
    int dims; /* the last ones, that are padded */
} pad_row;

/* Whether t can be padded by the list at argument `at`: rank, sizes, dtype; else PyTorch's message.
 */
static bool pad_fits(cfx_op_call *c, const pad_row *r, const cfx_tensor *t) {
    bool valid = t->ndim == r->dims + 1 || t->ndim == r->dims + 2;
    for (int d = t->ndim - r->dims - 1; valid && d < t->ndim; d++)
        valid = t->shape[d] != 0;
    int64_t given = arg_count(c, 1);
    if (given != 2 * r->dims)
        op_fail(c, "padding size is expected to be %d, but got: %lld", 2 * r->dims,
                (long long)given);
    else if (!valid)
        op_fail(c,
                "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other "
                "non-zero dimensions for input, but got: %s",
                r->dims + 1, r->dims + 2, cfx__shape_text(t->ndim, t->shape));
    else if (t->dtype == CFX_BOOL)
        op_fail_as(NOT_IMPLEMENTED, c, "\"%s\" not implemented for '%s'", r->name,
                   cfx__dtype_title(t->dtype));
    return !op_failed();
}

static void fail_small(cfx_op_call *c, const pad_row *r, const cfx_tensor *t,
                       const int64_t *shape) {
    const int64_t *in = t->shape + t->ndim - r->dims, *out = shape + t->ndim - r->dims;
    if (r->dims == 1)
        op_fail(c, "input (W: %lld) is too small. Calculated output W: %lld", (long long)in[0],
                (long long)out[0]);
    else if (r->dims == 2)
        op_fail(c, "input (H: %lld, W: %lld) is too small. Calculated output H: %lld W: %lld",
                (long long)in[0], (long long)in[1], (long long)out[0], (long long)out[1]);
    else
        op_fail(c,
                "input (D: %lld H: %lld, W: %lld) is too small. Calculated output D: %lld H: %lld "
                "W: %lld",
                (long long)in[0], (long long)in[1], (long long)in[2], (long long)out[0],
                (long long)out[1], (long long)out[2]);
}

/* Shape of the padded t; false with PyTorch's message. */
static bool pad_shape(cfx_op_call *c, const pad_row *r, const cfx_tensor *t, int64_t *pads,
                      int64_t *shape) {
    if (!pad_fits(c, r, t))
        return false;
    pads_by_dim(c, t->ndim, pads);
    bool small = true;
    for (int d = t->ndim - 1; d >= 0; d--) {
        const int64_t *p = pads + 2 * d;
        if (d >= t->ndim - r->dims && r->mode == PAD_REFLECT &&
            (p[0] >= t->shape[d] || p[1] >= t->shape[d])) {
            op_fail(c,
                    "Argument #%d: Padding size should be less than the corresponding input "
                    "dimension, but got: padding (%lld, %lld) at dimension %d of input %s",
                    4 + 2 * (t->ndim - 1 - d), (long long)p[0], (long long)p[1], d,
                    cfx__shape_text(t->ndim, t->shape));
            return false;
        }
        shape[d] = padded_size(t->shape[d], p);
        small &= d < t->ndim - r->dims || shape[d] < 1;
    }
    if (small)
        fail_small(c, r, t, shape);
    return !op_failed();
}

static void shape_pad(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    const pad_row *r = c->op->row;
    int64_t pads[2 * CFX_MAX_DIMS], shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (!pad_shape(c, r, t, pads, shape))
        return;
    cfx_memory_format f = r->dims == 1 ? CFX_CONTIGUOUS : cfx__tensor_suggest_format(t);
    if (format_strides(c, f, t->ndim, shape, stride))
        out_strided(c, 0, t->dtype, t->ndim, shape, stride);
}

static void kernel_pad(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS];
    pads_by_dim(c, t->ndim, pads);
    copy_padded(c, t, ((const pad_row *)c->op->row)->mode, pads, NULL);
}

static const pad_row row_reflect1 = {"reflection_pad1d", PAD_REFLECT, 1};
static const pad_row row_reflect2 = {"reflection_pad2d", PAD_REFLECT, 2};
static const pad_row row_reflect3 = {"reflection_pad3d", PAD_REFLECT, 3};
static const pad_row row_replicate1 = {"replication_pad1d", PAD_REPLICATE, 1};
static const pad_row row_replicate2 = {"replication_pad2d", PAD_REPLICATE, 2};
static const pad_row row_replicate3 = {"replication_pad3d", PAD_REPLICATE, 3};

static void grad_pad(cfx_back *b) {
    static cfx_op *const ops[2][3] = {
        {&cfx_op_reflection_pad1d_backward, &cfx_op_reflection_pad2d_backward,
         &cfx_op_reflection_pad3d_backward},
        {&cfx_op_replication_pad1d_backward, &cfx_op_replication_pad2d_backward,
         &cfx_op_replication_pad3d_backward}};
    const pad_row *r = b->op->row;
    cfx_op *op = ops[r->mode == PAD_REPLICATE][r->dims - 1];
    b->gin[0] = cfx_op_do(op, b->gout[0], b->args[0], b->args[1]);
}

#define PAD(id) .shape = shape_pad, .kernel = kernel_pad, .row = &row_##id, GRAD(pad, READ(0))

CFX_OP(reflection_pad1d) = {"aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
                            "torch._C._nn.reflection_pad1d", PAD(reflect1),
                            .core = core_reflection_pad, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(reflection_pad2d) = {"aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
                            "torch._C._nn.reflection_pad2d", PAD(reflect2),
                            .core = core_reflection_pad, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(reflection_pad3d) = {"aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
                            "torch._C._nn.reflection_pad3d", PAD(reflect3),
                            .core = core_reflection_pad, .out = "out"};
CFX_OP(replication_pad1d) = {"aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
                             "torch._C._nn.replication_pad1d", PAD(replicate1),
                             .core = core_replication_pad, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(replication_pad2d) = {"aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
                             "torch._C._nn.replication_pad2d", PAD(replicate2),
                             .core = core_replication_pad, .autocast = CFX_CAST_F32, .out = "out"};
CFX_OP(replication_pad3d) = {"aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
                             "torch._C._nn.replication_pad3d", PAD(replicate3),
                             .core = core_replication_pad, .autocast = CFX_CAST_F32, .out = "out"};

/* Gradients: what each element of the operand showed up as, summed. */
static void shape_pad_backward(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0), *t = arg_tensor(c, 1);
    const pad_row *r = c->op->row;
    int64_t pads[2 * CFX_MAX_DIMS], shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    cfx_op_call on_input = *c;
    on_input.args = c->args + 1;
    if (!pad_shape(&on_input, r, t, pads, shape))
        return;
    bool same =
        grad->ndim == t->ndim && !memcmp(shape, grad->shape, (size_t)t->ndim * sizeof *shape);
    if (!same) {
        op_fail(c, "grad_output shape unexpected. Expected: %s, Got: %s",
                cfx__shape_text(t->ndim, shape), cfx__shape_text(grad->ndim, grad->shape));
        return;
    }
    cfx_memory_format f = r->dims == 1 ? CFX_CONTIGUOUS : cfx__tensor_suggest_format(t);
    if (format_strides(c, f, t->ndim, t->shape, stride))
        out_strided(c, 0, grad->dtype, t->ndim, t->shape, stride);
}

#include "pad_backward.inc"

static void kernel_pad_backward(cfx_op_call *c) {
    const cfx_tensor *grad = arg_tensor(c, 0);
    const pad_row *r = c->op->row;
    int64_t pads[2 * CFX_MAX_DIMS];
    cfx_op_call on_input = *c;
    on_input.args = c->args + 1;
    pads_by_dim(&on_input, grad->ndim, pads);
    cfx__tensor_fill(c->out[0], cfx_int(0));
    if (!grad->numel)
        return;
    (grad->dtype == CFX_F32   ? add_back_f32
     : grad->dtype == CFX_F64 ? add_back_f64
     : grad->dtype == CFX_C64 ? add_back_c64
                              : add_back_c128)(c->out[0], grad, r->mode, pads);
}

static void grad_pad_backward(cfx_back *b) {
    static cfx_op *const ops[2][3] = {
        {&cfx_op_reflection_pad1d, &cfx_op_reflection_pad2d, &cfx_op_reflection_pad3d},
        {&cfx_op_replication_pad1d, &cfx_op_replication_pad2d, &cfx_op_replication_pad3d}};
    const pad_row *r = b->op->row;
    b->gin[0] = cfx_op_do(ops[r->mode == PAD_REPLICATE][r->dims - 1], b->gout[0], b->args[2]);
}

#define PAD_BACKWARD(id)                                                                           \
    .shape = shape_pad_backward, .kernel = kernel_pad_backward, .row = &row_##id,                  \
    GRAD(pad_backward, 0), .dtypes = CFX_IN_FLOAT | CFX_IN(C64) | CFX_IN(C128),                    \
    .effects = CFX_CONTIGUOUS_ARGS

CFX_OP(reflection_pad1d_backward) = {
    "aten::reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor",
    NULL, PAD_BACKWARD(reflect1), .out = "grad_input"};
CFX_OP(reflection_pad2d_backward) = {
    "aten::reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor",
    NULL, PAD_BACKWARD(reflect2), .out = "grad_input"};
CFX_OP(reflection_pad3d_backward) = {
    "aten::reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor",
    NULL, PAD_BACKWARD(reflect3), .out = "grad_input"};
CFX_OP(replication_pad1d_backward) = {
    "aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> "
    "Tensor",
    NULL, PAD_BACKWARD(replicate1), .out = "grad_input"};
CFX_OP(replication_pad2d_backward) = {
    "aten::replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> "
    "Tensor",
    NULL, PAD_BACKWARD(replicate2), .out = "grad_input"};
CFX_OP(replication_pad3d_backward) = {
    "aten::replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> "
    "Tensor",
    NULL, PAD_BACKWARD(replicate3), .out = "grad_input"};

/* ---- circular padding, and all modes by name ------------------------------------------------- */

static void shape_circular(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    int dims = t->ndim - 2;
    if (dims < 0 || arg_count(c, 1) != 2 * dims) {
        op_fail(c, "Invalid padding size, expected %d but got %lld", 2 * dims,
                (long long)arg_count(c, 1));
        return;
    }
    pads_by_dim(c, t->ndim, pads);
    for (int d = 0; d < t->ndim; d++) {
        const int64_t *p = pads + 2 * d;
        shape[d] = padded_size(t->shape[d], p);
        int64_t kept = t->shape[d];
        bool lost = __builtin_add_overflow(kept, p[0] < 0 ? p[0] : 0, &kept) ||
                    __builtin_add_overflow(kept, p[1] < 0 ? p[1] : 0, &kept) || kept < 0;
        if (p[0] > t->shape[d] || p[1] > t->shape[d])
            op_fail(c, "Padding value causes wrapping around more than once.");
        else if (shape[d] < 0 || lost)
            op_fail(c, "Negative padding value is resulting in an empty dimension");
        if (op_failed())
            return;
    }
    out_new(c, 0, t->dtype, t->ndim, shape);
}

/* Position i of a circle that lost some of its ends shows the rest of it only. */
static void kernel_circular(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS];
    pads_by_dim(c, t->ndim, pads);
    cfx_tensor *kept = aliased(t);
    for (int d = 2; d < t->ndim; d++) {
        int64_t *p = pads + 2 * d;
        int64_t first = p[0] < 0 ? -p[0] : 0, last = p[1] < 0 ? -p[1] : 0;
        kept = sliced(kept, d, first, t->shape[d] - first - last, 1);
        p[0] += first;
        p[1] += last;
    }
    copy_padded(c, kept, PAD_CIRCULAR, pads, NULL);
}

/* The same by joining slices, dimension by dimension from the last. */
static void decompose_circular(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t pads[2 * CFX_MAX_DIMS];
    cfx_op_call probe = *c;
    probe.fake = true;
    shape_circular(&probe);
    if (op_failed())
        return;
    pads_by_dim(c, t->ndim, pads);
    for (int d = t->ndim - 1; d >= 2 && !op_failed(); d--) {
        const int64_t *p = pads + 2 * d;
        int64_t first = p[0] < 0 ? -p[0] : 0, end = t->shape[d] - (p[1] < 0 ? -p[1] : 0);
        if (first || end != t->shape[d])
            t = cfx_slice(t, d, first, end);
        cfx_value parts = cfx_list_value(0, NULL);
        if (p[0] > 0)
            cfx_list_append(cfx_as_list(parts),
                            cfx_tensor_value(cfx_slice(t, d, end - first - p[0], end)));
        cfx_list_append(cfx_as_list(parts), cfx_tensor_value(t));
        if (p[1] > 0)
            cfx_list_append(cfx_as_list(parts), cfx_tensor_value(cfx_slice(t, d, 0, p[1])));
        if (cfx_as_list(parts)->len > 1)
            t = cfx_cat(parts, d);
    }
    c->out[0] = t == arg_tensor(c, 0) ? cfx_clone(t) : t;
}

/* nn.functional.pad: the operator for a mode and a number of dimensions. */
static void pad_by_mode(cfx_op_call *c, int64_t mode, cfx_value value) {
    static const char *const names[] = {"reflect", "replicate", "circular", "constant"};
    cfx_tensor *t = arg_tensor(c, 0);
    cfx_value pads = c->args[1];
    int64_t n = arg_count(c, 1), dims = n / 2;
    if (n % 2) {
        op_fail(c, "Padding length must be divisible by 2");
        return;
    }
    if (n > 2 * (int64_t)t->ndim) {
        op_fail(c,
                "Padding length should be less than or equal to two times the input dimension but "
                "got padding length %lld and input of dimension %d",
                (long long)n, t->ndim);
        return;
    }
    if (mode == 3) {
        c->out[0] = cfx_constant_pad_nd(t, pads, cfx_is_none(value) ? cfx_float(0) : value);
        return;
    }
    if (mode < 0 || mode > 3 || dims < 1 || dims > 3 || t->ndim < dims + 1 || t->ndim > dims + 2) {
        op_fail_as(NOT_IMPLEMENTED, c,
                   "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now");
        return;
    }
    if (!cfx_is_none(value) && cfx_number(value) != 0) {
        op_fail(c, "Padding mode \"%s\" doesn't take in value argument", names[mode]);
        return;
    }
    if (mode == 2)
        c->out[0] = cfx_aten__pad_circular(t, pads);
    else if (mode == 0)
        c->out[0] = dims == 1   ? cfx_reflection_pad1d(t, pads)
                    : dims == 2 ? cfx_reflection_pad2d(t, pads)
                                : cfx_reflection_pad3d(t, pads);
    else
        c->out[0] = dims == 1   ? cfx_replication_pad1d(t, pads)
                    : dims == 2 ? cfx_replication_pad2d(t, pads)
                                : cfx_replication_pad3d(t, pads);
}

static void decompose_pad_enum(cfx_op_call *c) { pad_by_mode(c, arg_int(c, 2), c->args[3]); }

static void decompose_pad(cfx_op_call *c) {
    static const char *const names[] = {"reflect", "replicate", "circular", "constant"};
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(arg_text(c, 2), names[i])) {
            pad_by_mode(c, i, c->args[3]);
            return;
        }
    op_fail_as(NOT_IMPLEMENTED, c, "Unrecognised padding mode %s", arg_text(c, 2));
}

CFX_OP(_pad_circular) = {"aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor",
                         NULL,
                         .shape = shape_circular,
                         .kernel = kernel_circular, .dtypes = CFX_IN_ANY,
                         .decompose = decompose_circular,
                         .effects = CFX_COMPOSITE, .core = core__pad_circular, .core_early = true};
CFX_OP(_pad_enum) = {
    "aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", NULL,
    .decompose = decompose_pad_enum, .effects = CFX_COMPOSITE};
CFX_OP(pad) = {
    "aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
    "torch.nn.functional.pad", .decompose = decompose_pad, .effects = CFX_COMPOSITE};
