/* In-place and out= forms, derived from the functional operator: the same arguments, the same shape
 * rule and kernel; only where the result is written differs. */
#include "derive.h"

static bool writable(cfx_op_call *c, const cfx_tensor *t) {
    if (!cfx__tensor_overlaps_itself(t))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "unsupported operation: more than one element of the written-to tensor refers to a "
             "single memory location. Please clone() the tensor before performing the operation.");
    return false;
}

static bool castable(cfx_op_call *c, cfx_dtype from, cfx_dtype to) {
    if (cfx__dtype_can_cast(from, to))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at,
             "result type %s can't be cast to the desired output type %s", cfx__dtype_title(from),
             cfx__dtype_title(to));
    return false;
}

/* Whether a kernel may write straight to dst: no operand overlaps it but by being it, and with an
 * update no operand beside the first at all. */
static bool apart(cfx_op_call *c, const cfx_tensor *dst, int nargs, bool update) {
    for (int i = 0; i < nargs; i++) {
        if (c->args[i].tag != CFX_TAG_TENSOR)
            continue;
        cfx__tensor_overlap o = cfx__tensor_overlap_of(dst, cfx_as_tensor(c->args[i]));
        if (o == CFX__PARTLY || (update && i > 0 && o == CFX__SAME)) {
            cfx_fail(CFX_RUNTIME_ERROR, c->at,
                     "unsupported operation: some elements of the input tensor and the written-to "
                     "tensor refer to a single memory location. Please clone() the tensor before "
                     "performing the operation.");
            return false;
        }
    }
    return true;
}

/* Whether v, or a tensor in it, lies in the memory of dst, be it in part. Element by element it may
 * be dst. */
static bool meets(const cfx_tensor *dst, cfx_value v, bool update) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx__tensor_meets(dst, cfx_as_tensor(v)) &&
               (update || cfx__tensor_overlap_of(dst, cfx_as_tensor(v)) != CFX__SAME);
    bool any = false;
    if (v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            any |= meets(dst, cfx_as_list(v)->items[i], update);
    return any;
}

/* Whether a kernel would read what it has just written if it wrote straight to dst: an index, say,
 * that it found to be in range. */
static bool reads_written(const cfx_op_call *c, const cfx_tensor *dst, bool update) {
    bool any = false;
    for (int i = 1; i < c->nargs; i++)
        any |= meets(dst, c->args[i], update);
    return any;
}

int cfx__op_options_at(const cfx__schema *s) {
    static const char *const names[] = {"dtype", "layout", "device", "pin_memory"};
    for (int i = 0; i + COUNT(names) <= s->nargs; i++) {
        int k = 0;
        while (k < COUNT(names) && !strcmp(s->args[i + k].name, names[k]))
            k++;
        if (k == COUNT(names))
            return i;
    }
    return -1;
}

/* The argument that tells what a reduction computes in, where it is left open: what it writes to
 * decides then. */
static int free_dtype(const cfx__schema *s, const cfx_value *args) {
    for (int i = s->npositional; i < s->nargs; i++)
        if (s->args[i].type == CFX__T_DTYPE && s->args[i].optional && cfx_is_none(args[i]))
            return i;
    return -1;
}

void cfx__op_out_args(const cfx__op_info *info, const cfx_value *args, cfx_value *functional) {
    const cfx__schema *s = cfx__op_info_of(info->functional)->schema;
    int options = cfx__op_options_at(s), given = 0;
    for (int i = 0; i < s->nargs; i++)
        functional[i] = options >= 0 && i >= options && i < options + 4 ? cfx_none()
                                                                       : args[given++];
    int dtype = options >= 0 ? options : free_dtype(s, functional);
    bool real = args[given].tag == CFX_TAG_TENSOR &&
                !cfx__dtype_is_complex(cfx_as_tensor(args[given])->dtype);
    if (options < 0 && real && args[0].tag == CFX_TAG_TENSOR &&
        cfx__dtype_is_complex(cfx_as_tensor(args[0])->dtype))
        return; /* the size of complex numbers, not they */
    if (dtype >= 0 && args[given].tag == CFX_TAG_TENSOR)
        functional[dtype] = cfx_dtype_value(cfx_as_tensor(args[given])->dtype);
}

/* Whether a result may go to dst: those that are computed element by element are converted on their
 * way, as are those of operators that say so, any other is copied as it is. */
static bool fits_out(cfx_op_call *c, cfx_op *op, cfx_dtype from, cfx_dtype to) {
    const cfx__op_info *info = cfx__op_info_of(op);
    bool second_name = info->family == CFX__OP_MATH && op->effects & CFX_COMPOSITE;
    if (op->effects & (CFX_POINTWISE | CFX_OUT_CASTS) || second_name)
        return castable(c, from, to);
    if (from == to)
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, c->at, "Expected out tensor to have dtype %s, but got %s instead",
             cfx__dtype_cpp_name(from), cfx__dtype_cpp_name(to));
    return false;
}

/* Stores a result in dst, which has its shape: converted, where the dtypes allow that. */
static void store(cfx_op_call *c, cfx_tensor *from, cfx_tensor *dst) {
    if (cfx__ctx()->failed || !from || from == dst)
        return;
    if (castable(c, from->dtype, dst->dtype) && !c->fake)
        cfx__tensor_copy(dst, from);
}

/* Gives an out= argument the size that the result has, as PyTorch's resize_output does. */
static void resize(cfx_op_call *c, cfx_tensor *out, const cfx_tensor *like) {
    if (cfx__tensor_same_shape(out, like))
        return;
    cfx_tensor *fresh =
        cfx__tensor_empty(c->at, out->dtype, c->fake, like->ndim, like->shape, like->stride);
    if (cfx__obj_is_bad(fresh))
        return;
    cfx__tensor_become(out, fresh);
}

/* Runs f, which gives a list, and writes its items to those of `out`. */
static void run_list(cfx_op_call *c, cfx_op_call *f, cfx_value out, bool exact) {
    f->nout = 0;
    cfx__op_run_functional(f);
    const cfx_list *to = cfx_as_list(out);
    if (cfx__ctx()->failed)
        return;
    if (cfx_as_list(f->result)->len != to->len) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 "%s() expected an out= argument of size %lld, got size %lld",
                 cfx__op_info_of(f->op)->schema->name, (long long)cfx_as_list(f->result)->len,
                 (long long)to->len);
        return;
    }
    for (int64_t i = 0; i < to->len && !cfx__ctx()->failed; i++) {
        cfx_tensor *dst = cfx_as_tensor(to->items[i]);
        cfx_tensor *from = cfx_as_tensor(cfx_as_list(f->result)->items[i]);
        if (!writable(c, dst) || (exact && !fits_out(c, f->op, from->dtype, dst->dtype)))
            return;
        resize(c, dst, from);
        store(c, from, dst);
    }
}

void cfx__op_run_inplace(cfx_op_call *c, cfx__op_info *info) {
    cfx_op_call f = *c;
    f.op = info->functional;
    if (c->args[0].tag == CFX_TAG_LIST) {
        run_list(c, &f, c->args[0], false);
        return;
    }
    f.nout = 1;
    cfx_tensor *self = cfx_as_tensor(c->args[0]);
    if (f.op->view) {
        cfx__op_run_functional(&f);
        if (!cfx__ctx()->failed)
            cfx__tensor_become(self, f.out[0]);
        c->out[0] = self;
        return;
    }
    c->out[0] = self;
    if (!writable(c, self))
        return;
    bool update = f.op->effects & CFX_UPDATE;
    bool direct = (update || (f.op->effects & CFX_POINTWISE)) && f.op->shape && f.op->kernel;
    if (direct) {
        f.fake = true;
        f.op->shape(&f);
        if (!cfx__ctx()->failed)
            cfx__op_takes_dtypes(&f);
    } else {
        cfx__op_run_functional(&f);
    }
    if (cfx__ctx()->failed)
        return;
    if (!cfx__tensor_same_shape(f.out[0], self)) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 f.op->effects & (CFX_POINTWISE | CFX_COMPOSITE)
                     ? "output with shape %s doesn't match the broadcast shape %s"
                     : "Bad in-place call: input tensor size %s and output tensor size %s should "
                       "match",
                 cfx__shape_text(self->ndim, self->shape),
                 cfx__shape_text(f.out[0]->ndim, f.out[0]->shape));
        return;
    }
    if (!direct) {
        store(c, f.out[0], self);
        return;
    }
    if (!castable(c, f.out[0]->dtype, self->dtype) || !apart(c, self, c->nargs, update) || c->fake)
        return;
    if (f.out[0]->dtype == self->dtype &&
        likely(!reads_written(c, self, update) && !cfx__tensor_shares_elements(self)))
        f.out[0] = self;
    else
        f.out[0] = cfx__tensor_empty(c->at, f.out[0]->dtype, false, self->ndim, self->shape, NULL);
    f.fake = false;
    cfx__op_run_kernel(&f);
    store(c, f.out[0], self);
}

void cfx__op_run_out(cfx_op_call *c, cfx__op_info *info) {
    cfx_op_call f = *c;
    cfx_value args[CFX_MAX_ARGS];
    const cfx__op_info *functional = cfx__op_info_of(info->functional);
    bool list = cfx__op_gives_list(functional->schema);
    int given = c->nargs - (list ? 1 : info->nout);
    cfx__op_out_args(info, c->args, args);
    f.op = info->functional;
    f.args = args;
    f.nargs = functional->schema->nargs;
    f.nout = functional->nout;
    if (list) {
        run_list(c, &f, c->args[given], true);
        return;
    }
    for (int i = 0; i < c->nout; i++) {
        c->out[i] = cfx_as_tensor(c->args[given + i]);
        if (!writable(c, c->out[i]))
            return;
        if ((f.op->effects & CFX_POINTWISE) && !apart(c, c->out[i], given, false))
            return;
    }
    cfx__op_run_functional(&f);
    for (int i = 0; i < c->nout && !cfx__ctx()->failed; i++) {
        if (!f.out[i]) /* left out: what it would go to stays as it is */
            continue;
        if (!fits_out(c, f.op, f.out[i]->dtype, c->out[i]->dtype))
            return;
        resize(c, c->out[i], f.out[i]);
        store(c, f.out[i], c->out[i]);
    }
}
