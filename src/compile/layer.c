/* Products and convolutions: layers of the plan, with packed weights and their epilogue, and
 * calls. Start at cfx__c_layer. */
#include <cfx/ops.h>

#include "layers.h"

/* ---- what follows ---------------------------------------------------------------------------- */

bool cfx__c_post(const cfx__post *post, cfx__loop_note *note) {
    const int64_t one = 1;
    cfx_value args[CFX_MAX_ARGS];
    const int n = cfx__op_info_of(post->op)->schema->nargs;
    memcpy(args, post->args, (size_t)n * sizeof *args);
    args[0] = cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, &one, NULL));
    *note = (cfx__loop_note){.kind = CFX__LOOP_NONE};
    cfx_op_call c = {.op = post->op, .nargs = n, .args = args, .nout = 1, .note = note};
    c.out[0] = cfx_as_tensor(args[0]);
    if (post->op->effects & CFX_LOOPS)
        post->op->kernel(&c);
    return cfx_ok() && note->kind == CFX__LOOP_EACH && note->in[0].as == CFX_F32 &&
           cfx__c_expr_known(note->says.expr, false);
}

static bool knows_posts(const cfx__epilogue *e) {
    for (int i = 0; i < e->n; i++) {
        cfx__loop_note note;
        if (e->post[i].op && !cfx__c_post(&e->post[i], &note))
            return false;
    }
    return true;
}

bool cfx__c_layer_known(const cfx__layer *l) {
    const cfx_op *op = l->call.op;
    if (l->epilogue.integers || l->epilogue.narrow)
        return l->epilogue.integers ? cfx__c_integers_known(l) : cfx__c_narrow_known(l);
    if (!op->layer.weight || cfx__layer_x(l)->dtype != CFX_F32 ||
        l->call.out[0]->dtype != CFX_F32 || !cfx__c_call_known(op))
        return false;
    const cfx_value w = l->call.args[op->layer.weight];
    const cfx_value b = op->layer.bias >= 0 ? l->call.args[op->layer.bias] : cfx_none();
    return w.tag == CFX_TAG_TENSOR && cfx_as_tensor(w)->data &&
           cfx_as_tensor(w)->dtype == CFX_F32 &&
           (b.tag == CFX_TAG_NONE || (b.tag == CFX_TAG_TENSOR && cfx_as_tensor(b)->data)) &&
           knows_posts(&l->epilogue);
}

/* ---- arguments ------------------------------------------------------------------------------- */

void cfx__c_put_result(cfx__c_work *k, const cfx__c_walk *w, int out, int add, cfx_dtype d) {
    const char *v = "sum", *before = NULL; /* the name of v, once something follows */
    for (int i = 0; k->epilogue && i < k->epilogue->n; i++) {
        cfx__loop_note note;
        const char *name = cfx__text_format("y%d", i);
        cfx__c_term term = {before ? before : v, CFX_F32};
        if (before)
            cfx__c_line(k->c, "const float %s = %s;", before, v);
        if (!k->epilogue->post[i].op)
            v = cfx__text_format("%s + %s", term.text,
                                 cfx__c_load(k->c, "add", cfx__c_at(w, add), k->add->dtype));
        else if (cfx__c_post(&k->epilogue->post[i], &note))
            v = cfx__c_expr(k->c, name, note.says.expr, 1, &term, note.says.f, note.says.i,
                            CFX_F32);
        else
            continue;
        before = name;
    }
    if (before && d != k->out->dtype && !cfx__dtype_is_half(k->out->dtype)) {
        cfx__c_line(k->c, "const float %s = %s;", before, v);
        v = before;
    }
    cfx__c_line(k->c, "out[%s] = %s;", cfx__c_at(w, out),
                cfx__c_store(k->c, cfx__c_convert(k->c, v, d, k->out->dtype), k->out->dtype));
}

static cfx_dtype sums_in(cfx_dtype d) {
    return d == CFX_F64 ? CFX_F64 : cfx__dtype_is_float(d) ? CFX_F32 : CFX_I64;
}

static void put_pointers(cfx__c_work *k) {
    if (k->packs)
        k->w = cfx__c_constant(k->c, k->packs, cfx__text_format("%s_weight", k->stem));
    cfx__c_pointer(k->c, k->x, "x", false);
    cfx__c_pointer(k->c, k->w, "weight", false);
    if (k->bias)
        cfx__c_pointer(k->c, k->bias, "bias", false);
    if (k->add)
        cfx__c_pointer(k->c, k->add, "add", false);
    cfx__c_pointer(k->c, k->out, "out", true);
}

/* "(float)x[...]" where sums are of another type than elements. */
static const char *element(cfx__c_work *k, const char *pointer, const char *at, cfx_dtype d) {
    return cfx__c_convert(k->c, cfx__c_load(k->c, pointer, at, d), d, sums_in(d));
}

static const char *joined(const char *a, const char *b) {
    if (!strcmp(a, "0"))
        return b;
    return !strcmp(b, "0") ? a : cfx__text_format("%s + %s", a, b);
}

static const char *times(const char *v, int64_t n) {
    return n == 1 ? v : n ? cfx__text_format("%s * %lld", v, (long long)n) : "0";
}

/* ---- products -------------------------------------------------------------------------------- */

/* out[.., j] = sum of x[.., r] w[r, j] + bias: w and bias lie with strides over the dims of out,
 * w_row is the stride of r. */
static void put_product(cfx__c_work *k, const int64_t *x_stride, const int64_t *w_stride,
                        const int64_t *bias_stride, int64_t length, int64_t x_row, int64_t w_row) {
    cfx__c *c = k->c;
    const cfx_dtype d = sums_in(k->x->dtype);
    const int nd = k->out->ndim;
    if (!cfx__c_count(k->out))
        return;
    cfx__c_walk w = cfx__c_walk_over(nd, k->out->shape);
    const int out = cfx__c_walk_add(&w, k->out);
    const int x = cfx__c_walk_strides(&w, nd, k->out->shape, x_stride);
    const int weight = cfx__c_walk_strides(&w, nd, k->out->shape, w_stride);
    const int bias = k->bias ? cfx__c_walk_strides(&w, nd, k->out->shape, bias_stride) : -1;
    const int add = k->add ? cfx__c_walk_add(&w, k->add) : -1;
    put_pointers(k);
    if (cfx__c_matmul(k, x_stride, w_stride, bias_stride, length, x_row, w_row))
        return;
    cfx__c_walk_settle(&w, out);
    cfx__c_walk_open(c, &w);
    const char *type = cfx__c_value_type(d), *zero = cfx__c_number(d, 0, 0);
    const bool scaled = k->alpha != 1 || k->beta != 1;
    const char *start =
        bias >= 0 && !scaled ? element(k, "bias", cfx__c_at(&w, bias), k->bias->dtype) : zero;
    cfx__c_line(c, "%s sum = %s;", type, start);
    cfx__c_line(c, "for (int64_t r = 0; r < %lld; r++)", (long long)length);
    cfx__c_line(
        c, "    sum += %s * %s;",
        element(k, "x", joined(cfx__c_at(&w, x), times("r", x_row)), k->x->dtype),
        element(k, "weight", joined(cfx__c_at(&w, weight), times("r", w_row)), k->w->dtype));
    if (scaled) {
        cfx__c_line(c, "sum *= %s;", cfx__c_number(d, k->alpha, (int64_t)k->alpha));
        if (bias >= 0)
            cfx__c_line(c, "sum += %s * %s;", cfx__c_number(d, k->beta, (int64_t)k->beta),
                        element(k, "bias", cfx__c_at(&w, bias), k->bias->dtype));
    }
    cfx__c_put_result(k, &w, out, add, d);
    cfx__c_walk_close(c, &w);
}

static void put_rows(cfx__c_work *k, int64_t w_row, int64_t w_col);

/* Copies of what does not lie in order, and the result from one. */
static void put_rows_in_order(cfx__c_work *k, int64_t w_row, int64_t w_col) {
    cfx__c_work own = *k;
    if (k->c->card) {
        cfx__c_refuse(k->u, "is a product whose rows do not lie in order");
        return;
    }
    if (!cfx__c_is_contiguous(k->x))
        own.x = cfx__c_own(k->u, k->x, CFX_CONTIGUOUS, true);
    if (k->add && !cfx__c_is_contiguous(k->add))
        own.add = cfx__c_own(k->u, k->add, CFX_CONTIGUOUS, true);
    if (!cfx__c_is_contiguous(k->out))
        own.out = cfx__c_own(k->u, k->out, CFX_CONTIGUOUS, false);
    put_rows(&own, w_row, w_col);
    if (own.out != k->out)
        cfx__c_copy(k->c, k->out, own.out);
}

/* The dims of out, a result of linear or mm, may be others than those of x before the last: both
 * are rows then, and what is written goes over rows. */
static void put_rows(cfx__c_work *k, int64_t w_row, int64_t w_col) {
    const cfx__c_ref *x = k->x, *out = k->out;
    const int64_t length = x->shape[x->ndim - 1], n = out->shape[out->ndim - 1];
    bool same = x->ndim == out->ndim;
    for (int i = 0; same && i < x->ndim - 1; i++)
        same = x->shape[i] == out->shape[i];
    cfx__c_work flat = *k;
    if (!same) { /* contiguous, all of them */
        const int64_t rows = n ? cfx__c_count(out) / n : 0, shape[] = {rows, length};
        const int64_t wide[] = {rows, n};
        flat.x = cfx__c_ref_like(k->c, x, 2, shape, (int64_t[]){length, 1});
        flat.out = cfx__c_ref_like(k->c, out, 2, wide, (int64_t[]){n, 1});
        if (k->add)
            flat.add = cfx__c_ref_like(k->c, k->add, 2, wide, (int64_t[]){n, 1});
        if (!cfx__c_is_contiguous(x) || !cfx__c_is_contiguous(out) ||
            (k->add && !cfx__c_is_contiguous(k->add))) {
            put_rows_in_order(k, w_row, w_col);
            return;
        }
    }
    if (cfx__c_packed_product(&flat, w_row, w_col))
        return;
    const int nd = flat.out->ndim;
    int64_t xs[CFX_MAX_DIMS], ws[CFX_MAX_DIMS] = {0}, bs[CFX_MAX_DIMS] = {0};
    for (int i = 0; i < nd - 1; i++)
        xs[i] = flat.x->stride[i];
    if (nd) {
        xs[nd - 1] = 0;
        ws[nd - 1] = w_col;
    }
    if (k->bias && nd) {
        for (int i = 0; i < k->bias->ndim; i++)
            bs[nd - k->bias->ndim + i] = k->bias->shape[i] == 1 ? 0 : k->bias->stride[i];
    }
    put_product(&flat, xs, ws, bs, length, flat.x->stride[flat.x->ndim - 1], w_row);
}

/* [b, m, k] times [b, k, n]; and with numbers alone before: [m, k] times [k, n]. */
static void put_batches(cfx__c_work *k) {
    const int nd = k->out->ndim;
    int64_t xs[CFX_MAX_DIMS] = {0}, ws[CFX_MAX_DIMS] = {0}, bs[CFX_MAX_DIMS] = {0};
    for (int i = 0; i < nd - 2; i++) {
        xs[i] = k->x->shape[i] == 1 ? 0 : k->x->stride[i];
        ws[i] = k->w->shape[i] == 1 ? 0 : k->w->stride[i];
    }
    xs[nd - 2] = k->x->stride[nd - 2];
    ws[nd - 1] = k->w->stride[nd - 1];
    for (int i = 0; k->bias && i < k->bias->ndim; i++)
        bs[nd - k->bias->ndim + i] = k->bias->shape[i] == 1 ? 0 : k->bias->stride[i];
    put_product(k, xs, ws, bs, k->x->shape[nd - 1], k->x->stride[nd - 1], k->w->stride[nd - 2]);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

int64_t cfx__c_item(cfx_value v, int i, int64_t fallback) {
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v);
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return fallback;
    const cfx_list *l = cfx_as_list(v);
    return l->len ? cfx_integer(l->items[l->len == 1 ? 0 : i]) : fallback;
}

static void put_conv(cfx__c_work *k, const cfx__c_window *win) {
    cfx__c *c = k->c;
    const cfx__c_ref *x = k->x, *w = k->w, *out = k->out;
    const int nd = win->nd, lead = x->ndim == nd + 2; /* there may be no batch */
    const cfx_dtype d = sums_in(x->dtype);
    const int64_t per_in = x->shape[lead] / win->groups, per_out = out->shape[lead] / win->groups;
    if (!cfx__c_count(out))
        return;
    put_pointers(k);
    cfx__c_walk walk = cfx__c_walk_over(out->ndim, out->shape);
    const int o = cfx__c_walk_add(&walk, out);
    const int add = k->add ? cfx__c_walk_add(&walk, k->add) : -1;
    cfx__c_walk_open(c, &walk); /* loops stand for dims: batch, channel, space */
    const char *channel = cfx__c_var(lead), *type = cfx__c_value_type(d);
    cfx__c_line(c, "%s sum = %s;", type,
                k->bias ? element(k, "bias", times(channel, k->bias->stride[0]), k->bias->dtype)
                        : cfx__c_number(d, 0, 0));
    cfx__text x_at = {0}, w_at = {0};
    if (lead)
        cfx__text_printf(&x_at, "i * %lld + ", (long long)x->stride[0]);
    const char *group = win->groups == 1 ? ""
                                         : cfx__text_format("%s / %lld * %lld + ", channel,
                                                            (long long)per_out, (long long)per_in);
    const char *ch = *group ? cfx__text_format("(%sch)", group) : "ch";
    cfx__text_printf(&x_at, "%s * %lld", ch, (long long)x->stride[lead]);
    if (win->transposed) /* [in, out / groups, ...] */
        cfx__text_printf(&w_at, "%s * %lld + %s * %lld", ch, (long long)w->stride[0],
                         win->groups == 1
                             ? channel
                             : cfx__text_format("%s %% %lld", channel, (long long)per_out),
                         (long long)w->stride[1]);
    else
        cfx__text_printf(&w_at, "%s * %lld + ch * %lld", channel, (long long)w->stride[0],
                         (long long)w->stride[1]);
    cfx__c_open(c, "for (int64_t ch = 0; ch < %lld; ch++)", (long long)per_in);
    for (int i = 0; i < nd; i++) {
        const int64_t step = cfx__c_item(win->stride, i, 1), far = cfx__c_item(win->dilation, i, 1);
        const int64_t pad = win->lows ? win->low[i] : cfx__c_item(win->padding, i, 0);
        const int64_t size = x->shape[lead + 1 + i];
        const char *v = cfx__c_var(lead + 1 + i);
        cfx__c_open(c, "for (int64_t t%d = 0; t%d < %lld; t%d++)", i, i, (long long)w->shape[2 + i],
                    i);
        if (win->transposed) {
            cfx__c_line(c, "const int64_t p%d = %s + %lld - t%d * %lld;", i, v, (long long)pad, i,
                        (long long)far);
            if (step == 1)
                cfx__c_line(c, "if (p%d < 0 || p%d >= %lld)", i, i, (long long)size);
            else
                cfx__c_line(c, "if (p%d < 0 || p%d %% %lld != 0 || p%d / %lld >= %lld)", i, i,
                            (long long)step, i, (long long)step, (long long)size);
            cfx__c_line(c, "    continue;");
            cfx__text_printf(&x_at, " + p%d / %lld * %lld", i, (long long)step,
                             (long long)x->stride[lead + 1 + i]);
        } else {
            cfx__c_line(c, "const int64_t p%d = %s + t%d * %lld - %lld;", i, times(v, step), i,
                        (long long)far, (long long)pad);
            if (pad || win->lows) {
                cfx__c_line(c, "if (p%d < 0 || p%d >= %lld)", i, i, (long long)size);
                cfx__c_line(c, "    continue;");
            }
            cfx__text_printf(&x_at, " + p%d * %lld", i, (long long)x->stride[lead + 1 + i]);
        }
        cfx__text_printf(&w_at, " + t%d * %lld", i, (long long)w->stride[2 + i]);
    }
    cfx__c_line(c, "sum += %s * %s;", element(k, "x", cfx__text_take(&x_at), x->dtype),
                element(k, "weight", cfx__text_take(&w_at), w->dtype));
    for (int i = 0; i <= nd; i++)
        cfx__c_close(c);
    cfx__c_put_result(k, &walk, o, add, d);
    cfx__c_walk_close(c, &walk);
}

cfx__c_window cfx__c_window_of(const cfx__c_work *k, const cfx_op *op) {
    const cfx_value *a = k->args;
    cfx__c_window w = {.nd = k->w->ndim - 2, .stride = a[3], .padding = a[4], .dilation = a[5]};
    const bool turned = op == &cfx_op_conv_transpose1d || op == &cfx_op_conv_transpose2d_input ||
                        op == &cfx_op_conv_transpose3d_input;
    if (op ==
        &cfx_op_convolution) { /* stride, padding, dilation, transposed, out padding, groups */
        w.transposed = a[6].tag == CFX_TAG_BOOL && cfx_as_bool(a[6]);
        w.groups = cfx_integer(a[8]);
    } else if (turned) { /* stride, padding, output padding, groups, dilation */
        w.transposed = true;
        w.groups = cfx_integer(a[6]);
        w.dilation = a[7];
    } else {
        w.groups = cfx_integer(a[6]);
    }
    if (w.padding.tag == CFX_TAG_STR) { /* "same" or "valid" */
        const bool same = !strcmp(cfx_text(w.padding), "same");
        w.lows = true;
        for (int i = 0; i < w.nd && same; i++)
            w.low[i] = cfx__c_item(w.dilation, i, 1) * (k->w->shape[2 + i] - 1) / 2;
    }
    return w;
}

/* ---- the ways in ----------------------------------------------------------------------------- */

static void put_work(cfx__c_work *k, const cfx_op *op) {
    if (op == &cfx_op_linear)
        put_rows(k, k->w->stride[k->w->ndim - 1], k->w->ndim > 1 ? k->w->stride[0] : 0);
    else if (op == &cfx_op_mm || op == &cfx_op_addmm)
        put_rows(k, k->w->stride[0], k->w->stride[1]);
    else if (op == &cfx_op_bmm || op == &cfx_op_baddbmm)
        put_batches(k);
    else {
        const cfx__c_window w = cfx__c_window_of(k, op);
        if (!cfx__c_packed_conv(k, &w))
            put_conv(k, &w);
    }
}

/* What a layer's weights are called after: the parameter's name without "weight", its module, its
 * node. */
static const char *layer_name(const cfx__c_unit *u, const cfx__plan_kernel *kernel) {
    const cfx__run_step *s = u->plan->kernels[kernel->nchain ? kernel->chain[0] : u->slot].step;
    const int weight = kernel->layer->call.op->layer.weight;
    const char *path = cfx__c_module_of(s->node);
    const char *name = s->op == kernel->layer->call.op && weight < s->nbound
                           ? cfx__c_parameter_name(u, s->bound[weight], "")
                           : "";
    const size_t n = strlen(name), end = strlen(".weight");
    if (n > end && !strcmp(name + n - end + 1, "weight") && strchr("._", name[n - end]))
        return cfx__text_format("%.*s", (int)(n - end), name);
    return *name ? name : *path ? path : s->node->name;
}

static const cfx_op *layer_work(cfx__c_unit *u, const cfx__plan_kernel *kernel, cfx__c_work *k) {
    const cfx__layer *l = kernel->layer;
    const cfx_op *op = l->call.op;
    const char *stem = layer_name(u, kernel);
    const cfx_value bias = op->layer.bias >= 0 ? l->call.args[op->layer.bias] : cfx_none();
    *k = (cfx__c_work){
        .u = u, .c = u->c, .epilogue = &l->epilogue, .args = l->call.args, .alpha = 1, .beta = 1};
    k->x = cfx__c_slot(u, kernel->x)->refs;
    k->stem = stem;
    k->add = kernel->add >= 0 ? cfx__c_slot(u, kernel->add)->refs : NULL;
    k->out = cfx__c_slot(u, u->slot)->refs;
    const cfx_value given = l->call.args[op->layer.weight];
    if (given.tag == CFX_TAG_TENSOR && cfx_as_tensor(given)->data && !l->epilogue.narrow) {
        k->packs = cfx__tensor_contiguous(cfx_as_tensor(given));
        k->w = cfx__c_shape_ref(u->c, k->packs);
    }
    if (bias.tag == CFX_TAG_TENSOR && !l->epilogue.integers) /* which has it in other numbers */
        k->bias = cfx__c_constant(u->c, cfx_as_tensor(bias), cfx__text_format("%s_bias", stem));
    return op;
}

/* The same of a call: linear, mm, addmm, bmm, baddbmm, convolutions of whatever dtype. */
static const cfx_op *call_work(cfx__c_unit *u, const cfx__plan_kernel *kernel, cfx__c_work *k) {
    const cfx_op *op = kernel->op;
    const cfx_value *a = kernel->step->bound;
    const bool biased = op == &cfx_op_addmm || op == &cfx_op_baddbmm;
    *k = (cfx__c_work){.u = u, .c = u->c, .args = a, .alpha = 1, .beta = 1};
    k->x = cfx__c_arg(u, a[biased]);
    k->w = cfx__c_arg(u, a[biased + 1]);
    if (biased) {
        k->beta = cfx_number(a[3]);
        k->alpha = cfx_number(a[4]);
        k->bias = k->beta != 0 ? cfx__c_arg(u, a[0]) : NULL;
    } else if (op != &cfx_op_mm && op != &cfx_op_bmm) {
        k->bias = cfx__c_arg(u, a[2]);
    }
    k->out = cfx__c_slot(u, u->slot)->refs;
    return k->x && k->w ? op : NULL;
}

const cfx_op *cfx__c_work_of(cfx__c_unit *u, int slot, cfx__c_work *k) {
    const cfx__plan_kernel *kernel = &u->plan->kernels[slot];
    u->slot = slot;
    if (kernel->kind == CFX__PLAN_LAYER)
        return layer_work(u, kernel, k);
    return kernel->kind == CFX__PLAN_CALL && cfx__c_call_is_product(kernel->op) &&
                   cfx__c_slot(u, slot)->n == 1
               ? call_work(u, kernel, k)
               : NULL;
}

void cfx__c_layer(cfx__c_unit *u, const cfx__plan_kernel *kernel) {
    cfx__c_work k;
    const cfx_op *op = layer_work(u, kernel, &k);
    if (k.epilogue->integers)
        cfx__c_integers(&k, kernel->layer);
    else if (k.epilogue->narrow)
        cfx__c_narrow(&k, kernel->layer);
    else
        put_work(&k, op);
}

void cfx__c_call_product(cfx__c_unit *u, const cfx__plan_kernel *kernel) {
    cfx__c_work k;
    const cfx_op *op = call_work(u, kernel, &k);
    if (op)
        put_work(&k, op);
    else
        cfx__c_refuse(u, "reads a value that has no place");
}
