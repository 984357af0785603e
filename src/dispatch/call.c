/* A call of one overload, from bound arguments to results: autograd, dispatch modes, then fake or
 * kernel. Start at cfx__op_call_bound. */
#include "dispatch.h"

#include "../value/later.h"

static void *dispatcher_make(void) { return cfx__alloc0(sizeof(cfx__dispatch)); }

static void dispatcher_free(void *p) {
    for (cfx__autocast *c = ((cfx__dispatch *)p)->autocast, *outer; c; c = outer) {
        outer = c->outer;
        cfx__free(c);
    }
    cfx__free(p);
}

cfx__dispatch *cfx__dispatcher(void) {
    return cfx__ctx_slot(CFX__SLOT_DISPATCH, dispatcher_make, dispatcher_free);
}

/* ---- results --------------------------------------------------------------------------------- */

static cfx_value results(cfx_op_call *c) {
    if (c->nout == 0)
        return c->result;
    cfx_value v[CFX_MAX_OUTS];
    for (int i = 0; i < c->nout; i++) {
        if (c->out[i] && cfx__obj_is_bad(c->out[i]))
            return cfx_bad();
        v[i] = cfx_tensor_value(c->out[i]);
    }
    return c->nout == 1 ? v[0] : cfx_tuple_value(c->nout, v);
}

/* Drops what the call made beside its results. */
static cfx_value leave(size_t mark, cfx_op_call *c) {
    cfx__context *ctx = cfx__ctx();
    if (likely(c->nout == 1 && c->out[0] && !ctx->failed && ctx->scope.len == mark + 1 &&
               ctx->scope.data[mark] == &c->out[0]->head))
        return cfx_tensor_value(c->out[0]);
    return cfx_scope_return_value(mark, ctx->failed ? cfx_bad() : results(c));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The dtype a kernel that computes in `mask` gets in place of `d`. */
static cfx_dtype lifted(uint32_t mask, cfx_dtype d) {
    if (!(mask & ~CFX_IN_SELF) || mask & CFX_IN_AS_IS)
        return d;
    if (!cfx__dtype_is_computed(d))
        return cfx__dtype_wide(d);
    if (mask >> d & 1 || !(mask & ~CFX_IN_STORED))
        return d;
    if (cfx__dtype_is_half(d) && (mask & CFX_IN(F32)))
        return CFX_F32;
    if ((d == CFX_BOOL || cfx__dtype_is_int(d)) && (mask & CFX_IN(I64)))
        return CFX_I64;
    return d;
}

/* Whether a kernel that computes in `mask` may meet d as it is, or after lifting. Integers may be
 * indices beside the numbers that it computes with. */
static bool takes(uint32_t mask, cfx_dtype d) {
    if (unlikely(!cfx__dtype_is_computed(d)))
        return mask & (CFX_IN_SELF | 1u << d);
    return !cfx__dtype_is_complex(d) || mask & (CFX_IN_SELF | CFX_IN_AS_IS | 1u << d) ||
           !(mask & ~CFX_IN_STORED);
}

/* The same of its first result, which is made of the numbers. */
static bool gives(uint32_t mask, cfx_dtype d) {
    return takes(mask, d) &&
           (mask & (CFX_IN_SELF | CFX_IN_AS_IS) || !(mask & ~CFX_IN_STORED) ||
            mask >> lifted(mask, d) & 1 || !cfx__dtype_is_computed(d));
}

static bool takes_value(uint32_t mask, cfx_value v, cfx_dtype *d) {
    if (v.tag == CFX_TAG_TENSOR)
        return takes(mask, *d = cfx_as_tensor(v)->dtype);
    if (v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (!takes_value(mask, cfx_as_list(v)->items[i], d))
                return false;
    return true;
}

bool cfx__op_takes_dtypes(const cfx_op_call *c) {
    uint32_t mask = c->op->dtypes;
    cfx_dtype d = CFX_F32;
    bool fits = true;
    if (!c->nout) /* questions look at elements one by one, or at none */
        return true;
    for (int i = 0; i < c->nargs && fits; i++)
        fits = takes_value(mask, c->args[i], &d);
    for (int i = 0; i < c->nout && fits; i++)
        fits = !c->out[i] || (i ? takes : gives)(mask, d = c->out[i]->dtype);
    if (!fits)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, c->at, "\"%s\" not implemented for '%s'",
                 cfx__op_info_of(c->op)->schema->name, cfx__dtype_title(d));
    return fits;
}

static cfx_value lift(const cfx_op *op, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_dtype d = lifted(op->dtypes, cfx_as_tensor(v)->dtype);
        if (op->effects & CFX_CONTIGUOUS_ARGS)
            return cfx_tensor_value(cfx__tensor_contiguous_as(cfx_as_tensor(v), d));
        return d == cfx_as_tensor(v)->dtype
                   ? v
                   : cfx_tensor_value(cfx__tensor_to_dtype(cfx_as_tensor(v), d));
    }
    if (v.tag == CFX_TAG_LIST && cfx_as_list(v)->len &&
        cfx_as_list(v)->items[0].tag == CFX_TAG_TENSOR) {
        bool same = true;
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            same &= cfx__value_object(lift(op, cfx_as_list(v)->items[i])) ==
                    cfx__value_object(cfx_as_list(v)->items[i]);
        if (same)
            return v;
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(list), lift(op, cfx_as_list(v)->items[i]));
        return list;
    }
    return v;
}

void cfx__op_run_kernel(cfx_op_call *c) {
    const cfx_op *op = c->op;
    const int card = cfx__ctx()->card;
    if (unlikely(card) && (cfx__later_rooms.card_kernel(c, card - 1) || cfx__ctx()->failed))
        return;
    if (!op->dtypes && !(op->effects & CFX_CONTIGUOUS_ARGS)) {
        op->kernel(c);
        return;
    }
    cfx_value args[CFX_MAX_ARGS], *own = c->args;
    cfx_tensor *out[CFX_MAX_OUTS];
    for (int i = 0; i < c->nargs; i++)
        args[i] = lift(op, own[i]);
    for (int i = 0; i < c->nout; i++) {
        out[i] = c->out[i];
        if (out[i] && lifted(op->dtypes, out[i]->dtype) != out[i]->dtype)
            c->out[i] = cfx__tensor_empty(c->at, lifted(op->dtypes, out[i]->dtype), false,
                                          out[i]->ndim, out[i]->shape, out[i]->stride);
    }
    c->args = args;
    if (!cfx__ctx()->failed)
        op->kernel(c);
    c->args = own;
    for (int i = 0; i < c->nout; i++) {
        if (out[i] && c->out[i] != out[i] && c->out[i]->data && !cfx__ctx()->failed)
            cfx__tensor_copy(out[i], c->out[i]);
        if (out[i])
            c->out[i] = out[i];
    }
}

static void fail_no_kernel(cfx_op_call *c) {
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, c->at,
             "operator %s cannot run here: it has neither kernel nor decomposition",
             cfx_op_name(c->op));
}

/* Some results may be left out, where a mask among the arguments says so, but not all. */
static bool has_result(const cfx_op_call *c) {
    bool has = !c->nout || cfx__ctx()->failed;
    for (int i = 0; i < c->nout && !has; i++)
        has = c->out[i] != NULL;
    if (!has)
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s: no result fits these arguments",
                 cfx_op_name(c->op));
    return has;
}

static void run_decomposition(cfx_op_call *c) {
    cfx__dispatch *d = cfx__dispatcher();
    d->below++;
    c->op->decompose(c);
    d->below--;
    if (has_result(c) && unlikely(c->op->effects & CFX_FOREIGN) && c->fake && cfx_ok())
        cfx__op_note_known(c);
}

void cfx__op_needs_data(const cfx_op_call *c) {
    cfx__fail_unknown(c->at,
                      "%s: the shape of the result depends on data, which a fake tensor has not",
                      cfx_op_name(c->op));
}

/* A view may repeat what is stored: what it stands for takes time, and is limited as memory is. */
static void run_view(cfx_op_call *c) {
    c->op->view(c);
    for (int i = 0; i < c->nout && !cfx__ctx()->failed; i++)
        if (c->out[i])
            cfx__tensor_in_limit(c->at, c->out[i]);
}

void cfx__op_run_functional(cfx_op_call *c) {
    const cfx_op *op = c->op;
    if (op->view) {
        run_view(c);
    } else if (op->effects & CFX_DATA_SHAPE) {
        if (!cfx__op_takes_dtypes(c))
            return;
        if (!c->fake)
            op->kernel(c);
        else if (op->shape)
            op->shape(c);
        else
            cfx__op_needs_data(c);
    } else if (op->shape) {
        op->shape(c);
        if (!has_result(c) || cfx__ctx()->failed || !cfx__op_takes_dtypes(c) || c->fake)
            return;
        if (op->kernel)
            cfx__op_run_kernel(c);
        else
            fail_no_kernel(c);
    } else if (op->decompose) {
        run_decomposition(c);
    } else if (op->kernel) {
        if (cfx__op_takes_dtypes(c))
            cfx__op_run_kernel(c);
    } else {
        fail_no_kernel(c);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define SYMBOL (1u << 31) /* beside the flags of tensors: there is a symbol */

/* The flags of all tensors in v. */
static uint32_t flags_of(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v)->head.flags;
    uint32_t flags = v.tag == CFX_TAG_SYM ? SYMBOL : 0;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            flags |= flags_of(cfx_as_list(v)->items[i]);
    if (v.tag == CFX_TAG_SLICE)
        flags |= flags_of(cfx_as_slice(v)->start) | flags_of(cfx_as_slice(v)->stop) |
                 flags_of(cfx_as_slice(v)->step);
    return flags;
}

static uint32_t flags_of_args(int n, const cfx_value *args) {
    uint32_t flags = 0;
    for (int i = 0; i < n; i++)
        flags |= flags_of(args[i]);
    return flags;
}

void cfx__op_settle(const cfx__schema *s, cfx_value *args) {
    for (int i = 0; i < s->nargs; i++) {
        const cfx__schema_arg *a = &s->args[i];
        if (likely(args[i].tag == CFX_TAG_TENSOR || args[i].tag == CFX_TAG_NONE || a->list))
            continue;
        if (a->type == CFX__T_TENSOR && cfx_is_number(args[i]))
            args[i] = cfx_tensor_value(cfx__tensor_wrapped(args[i]));
    }
}

static void bump_versions(cfx_op *op, int n, cfx_value *args) {
    for (int i = 0; i < n; i++) {
        const uint32_t tag = args[i].tag;
        if ((tag != CFX_TAG_TENSOR && tag != CFX_TAG_LIST) || !cfx__op_writes(op, args, i))
            continue;
        if (tag == CFX_TAG_TENSOR && cfx_as_tensor(args[i])->storage)
            cfx_as_tensor(args[i])->storage->version++;
        if (tag == CFX_TAG_LIST)
            for (int64_t k = 0; k < cfx_as_list(args[i])->len; k++)
                if (cfx_tensor_at(args[i], k)->storage)
                    cfx_tensor_at(args[i], k)->storage->version++;
    }
}

/* What the results of a view operator look into: the tensor that its argument looks into. */
static void note_view(cfx_tensor *view, const cfx_op_call *c, uint32_t flags) {
    for (int i = 0; i < c->nargs; i++) {
        cfx_tensor *t = c->args[i].tag == CFX_TAG_TENSOR ? cfx_as_tensor(c->args[i]) : NULL;
        if (!t || t == view || t->storage != view->storage)
            continue;
        view->base = cfx_keep(t->base ? t->base : t);
        view->head.flags |= flags | (t->head.flags & (CFX__NO_GRAD_VIEW | CFX__MULTI_VIEW));
        return;
    }
}

static void note_views(const cfx_op_call *c) {
    uint32_t flags = cfx__dispatcher()->grad == CFX_GRAD_ON ? 0 : CFX__NO_GRAD_VIEW;
    for (int i = 0; i < c->nout; i++)
        if (c->out[i] && !c->out[i]->base)
            note_view(c->out[i], c, flags | (c->nout > 1 ? CFX__MULTI_VIEW : 0));
    if (c->result.tag == CFX_TAG_LIST && !c->nout)
        for (int64_t i = 0; i < cfx_as_list(c->result)->len; i++)
            if (cfx_as_list(c->result)->items[i].tag == CFX_TAG_TENSOR)
                note_view(cfx_as_tensor(cfx_as_list(c->result)->items[i]), c,
                          flags | CFX__MULTI_VIEW);
}

bool cfx__op_knows_sizes(cfx_site at, cfx_op *op, int n, const cfx_value *args) {
    for (int i = 0; i < n; i++)
        if (unlikely(flags_of(args[i]) & SYMBOL)) {
            cfx__fail_unknown(at, "%s: the size %s has no value", cfx_op_name(op),
                              cfx_value_repr(args[i]));
            return false;
        }
    return true;
}

cfx_value cfx__op_run(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__op_info *info = cfx__op_info_of(op);
    cfx__dispatch *d = cfx__dispatcher();
    size_t mark = cfx_scope_open();
    cfx_op_call c = {.op = op, .at = at, .nargs = info->schema->nargs, .args = args,
                  .nout = info->nout, .fake = d->fake};
    cfx__op_settle(info->schema, args);
    uint32_t flags = flags_of_args(c.nargs, args);
    c.fake |= (flags & CFX__FAKE) != 0;
    const char *outer = cfx__ctx()->op;
    const int card = cfx__ctx()->card;
    cfx__ctx()->op = info->name;
    if (unlikely(flags & CFX__MIRROR) && !c.fake)
        cfx__mirror_read(c.nargs, args);
    if (unlikely(flags & CFX__ON_CARD) && !cfx__op_enter_card(&c))
        ; /* no device for all arguments: an error */
    else if (unlikely(flags & SYMBOL) && !c.fake)
        cfx__op_knows_sizes(at, op, c.nargs, args);
    else if (unlikely(flags & CFX__QUANTIZED) && !cfx__op_knows_quantized(op))
        cfx__op_run_quantized(&c, info);
    else if (info->form == CFX__INPLACE)
        cfx__op_run_inplace(&c, info);
    else if (info->form == CFX__OUT)
        cfx__op_run_out(&c, info);
    else
        cfx__op_run_functional(&c);
    if (unlikely(op->view != NULL) && d->grad != CFX_INFERENCE && op->grad != cfx__op_grad_none &&
        !cfx__ctx()->failed)
        note_views(&c);
    if (info->writes || unlikely(info->updated))
        bump_versions(op, c.nargs, args);
    if (unlikely(flags & CFX__MIRROR) && info->writes && !c.fake && cfx_ok())
        cfx__mirror_wrote(op, c.nargs, args);
    cfx__ctx()->op = outer;
    cfx__ctx()->card = card;
    return leave(mark, &c);
}

bool cfx__op_record_nothing(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result) {
    (void)at, (void)op, (void)args, (void)result;
    return false;
}

/* A derived form on fake tensors: what it would write to stays as it is. */
static void try_derived(cfx_op_call *c, cfx__op_info *info) {
    for (int i = 0; i < c->nargs; i++)
        if (info->schema->args[i].writes)
            c->args[i] = cfx__tensor_faked_in(c->args[i]);
    if (!cfx__ctx()->failed)
        (info->form == CFX__INPLACE ? cfx__op_run_inplace : cfx__op_run_out)(c, info);
}

bool cfx__op_refuses(cfx_site at, cfx_op *op, const cfx_value *args, cfx_dtype *given) {
    cfx__op_info *info = cfx__op_info_of(op);
    cfx_op_fn *rule = op->view ? op->view : op->shape ? op->shape : given ? op->decompose : NULL;
    bool derived = info->form == CFX__INPLACE || info->form == CFX__OUT;
    for (int i = 0; given && i < info->nout; i++)
        given[i] = CFX_DTYPE_COUNT;
    if (!rule && !derived)
        return false;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)info->schema->nargs * sizeof *own);
    cfx__op_settle(info->schema, own);
    cfx_op_call c = {.op = op, .at = at, .nargs = info->schema->nargs, .args = own,
                     .nout = info->nout, .fake = true};
    cfx__dispatch *d = cfx__dispatcher(), before = *d;
    const char *outer = cfx__ctx()->op;
    size_t mark = cfx_scope_open();
    cfx__ctx()->op = info->name;
    d->dispatch_modes = NULL;
    d->recorder = d->recorder ? cfx__op_record_nothing : NULL;
    d->below_autograd++;
    d->below++;
    if (derived)
        try_derived(&c, info);
    else
        rule(&c);
    for (int i = 0; given && !cfx__ctx()->failed && i < c.nout; i++)
        given[i] = c.out[i] ? c.out[i]->dtype : CFX_DTYPE_COUNT;
    *d = before;
    cfx__ctx()->op = outer;
    cfx_scope_close(mark);
    return cfx__ctx()->failed;
}

cfx_value cfx__op_decompose(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__op_info *info = cfx__op_info_of(op);
    size_t mark = cfx_scope_open();
    cfx_op_call c = {.op = op, .at = at, .nargs = info->schema->nargs, .args = args,
                  .nout = info->nout, .fake = cfx__dispatcher()->fake};
    cfx__op_settle(info->schema, args);
    c.fake |= (flags_of_args(c.nargs, args) & CFX__FAKE) != 0;
    const char *outer = cfx__ctx()->op;
    cfx__ctx()->op = info->name;
    run_decomposition(&c);
    cfx__ctx()->op = outer;
    return leave(mark, &c);
}

cfx_value cfx__op_call_below(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__dispatch *d = cfx__dispatcher();
    if (unlikely(d->dispatch_modes)) {
        bool whole = d->grad == CFX_INFERENCE && !cfx__op_info_of(op)->python;
        if ((op->effects & CFX_COMPOSITE) && op->decompose && !whole)
            return cfx__op_refuses(at, op, args, NULL) ? cfx_bad()
                                                        : cfx__op_decompose(at, op, args);
        cfx_mode *m = d->dispatch_modes;
        d->dispatch_modes = m->below_;
        cfx_args a = {cfx__op_info_of(op)->schema->nargs, args, NULL};
        size_t mark = cfx_scope_open();
        cfx_value result = m->handle(m, (cfx_target){.op = op, .name = cfx_op_name(op)}, a);
        d->dispatch_modes = m;
        return cfx_scope_return_value(mark, result);
    }
    return cfx__op_run(at, op, args);
}

/* Whether a gradient flows to one of the arguments. */
static bool any_grad(int n, const cfx_value *args) {
    for (int i = 0; i < n; i++)
        if (args[i].tag == CFX_TAG_TENSOR) {
            if (cfx__tensor_needs_grad(cfx_as_tensor(args[i])))
                return true;
        } else if (unlikely(args[i].tag == CFX_TAG_LIST || args[i].tag == CFX_TAG_TUPLE)) {
            if (any_grad((int)cfx_as_list(args[i])->len, cfx_as_list(args[i])->items))
                return true;
        }
    return false;
}

cfx_value cfx__op_call_bound(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__dispatch *d = cfx__dispatcher();
    if (!cfx__limit_time())
        return cfx_bad();
    if (d->below)
        at = d->at;
    cfx_value result;
    if (unlikely(d->recorder != NULL) && d->recorder(at, op, args, &result))
        return result;
    if (unlikely(d->autocast != NULL) && cfx__autocast_call(at, op, args, &result))
        return result;
    if (d->grad == CFX_GRAD_ON && !d->below_autograd &&
        unlikely(any_grad(cfx__op_info_of(op)->schema->nargs, args)))
        return cfx__later_rooms.autograd(at, op, args);
    return cfx__op_call_below(at, op, args);
}

void cfx__op_grad_none(cfx_back *b) { (void)b; }
