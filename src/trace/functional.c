/* Functionalisation: a program that writes to its tensors, recorded as one that does not.
 *
 * Writing to a tensor gives it a new value. Where it is a view, the base gets a new value too, in
 * which the written part is put back (slice_scatter and the like, step by step), and all views of
 * that base are behind until they are used: then they are taken from the base again. This is
 * PyTorch's way, in PyTorch's order, so that the nodes come out the same. */
#include <cfx/ops.h>

#include "../dispatch/derive.h"
#include "functional.h"

static void base_free(void *p) {
    cfx__functional_base *b = p;
    cfx_drop(b->value);
    cfx_drop(b->first);
}

static void step_free(void *p) {
    cfx__functional_step *s = p;
    cfx_value_drop(s->args);
    cfx_drop(s->before);
}

static void shadow_free(void *p) {
    cfx__record_shadow *s = p;
    cfx_drop(s->value);
    cfx_drop(s->base);
    cfx_drop(s->view);
}

static const cfx__obj_type base_type = {.name = "base", .free = base_free};
static const cfx__obj_type step_type = {.name = "step", .free = step_free};
static const cfx__obj_type shadow_type = {.name = "shadow", .free = shadow_free};

cfx__record_shadow *cfx__record_shadow_of(const cfx_tensor *t) {
    cfx_obj *o = t->proxy;
    return o && o->type == &shadow_type ? (cfx__record_shadow *)o : NULL;
}

cfx__record_shadow *cfx__record_shadow_new(cfx_tensor *t) {
    cfx_drop(t->proxy);
    return t->proxy = cfx__obj_make(&shadow_type, sizeof(cfx__record_shadow));
}

bool cfx__recorded_written(const cfx_tensor *t) {
    cfx__record_shadow *s = cfx__record_shadow_of(t);
    return s && s->base && s->base->version;
}

static cfx_tensor *outer_of(cfx_tensor *inner) {
    cfx_tensor *t = cfx__record_outline(inner);
    cfx__record_shadow_new(t)->value = cfx_keep(inner);
    return t;
}

cfx_tensor *cfx__functional_new(cfx_tensor *inner) {
    cfx_tensor *t = outer_of(inner);
    cfx__functional_base *b = cfx__obj_make(&base_type, sizeof *b);
    b->value = cfx_keep(inner);
    b->first = cfx_keep(inner);
    const cfx_node *n = cfx__record_shadow_of(inner)->node;
    b->held = n && (n->op == CFX_PLACEHOLDER || n->op == CFX_GET_ATTR);
    cfx__record_shadow_of(t)->base = b;
    return t;
}

static void set_value(cfx_tensor **at, cfx_tensor *t) {
    cfx_keep(t);
    cfx_drop(*at);
    *at = t;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What was written may be in another order in memory than what was there. Where the view s can be
 * taken of the first value alone, or would show other elements, the value is brought to its
 * order. */
static void settle(cfx__recorder *r, cfx_site at, cfx__functional_base *b,
                   const cfx__functional_step *s) {
    if (!cfx_ok() || !s || cfx__memory_order_is(b->value, b->first))
        return;
    if (!cfx__steps_read_storage(s)) {
        const bool possible = !cfx__obj_is_bad(cfx__steps_place(r, s, b->value));
        if (!possible)
            cfx_error_clear();
        if (possible)
            return;
    }
    cfx__functional_base_assign(b, cfx__in_memory_order(r, at, b->first, b->value));
}

cfx_tensor *cfx__functional_value(cfx__recorder *r, cfx_tensor *t) {
    cfx__record_shadow *s = cfx__record_shadow_of(t);
    if (!s || !s->value)
        return t;
    if (s->version != s->base->version) {
        settle(r, (cfx_site){0}, s->base, s->view);
        set_value(&s->value, cfx__steps_forward(r, (cfx_site){0}, s->view, s->base->value));
        s->version = s->base->version;
    }
    return s->value;
}

cfx_tensor *cfx__functional_base_value(const cfx__functional_base *b) { return b->value; }

void cfx__functional_base_assign(cfx__functional_base *b, cfx_tensor *value) {
    set_value(&b->value, value);
    b->version++;
}

cfx_tensor *cfx__functional_geometry(cfx__recorder *r, const cfx_tensor *t) {
    const cfx__record_shadow *s = cfx__record_shadow_of(t);
    return cfx__steps_place(r, s->view, s->base->value);
}

bool cfx__functional_same_base(const cfx_tensor *t, const cfx_tensor *other) {
    const cfx__record_shadow *a = cfx__record_shadow_of(t), *b = cfx__record_shadow_of(other);
    return a && b && a->base && a->base == b->base;
}

void cfx__functional_lies_as(cfx__recorder *r, cfx_site at, const cfx_tensor *t,
                             cfx_tensor *like) {
    const cfx__record_shadow *s = cfx__record_shadow_of(t);
    const cfx__functional_step *view = s->view;
    while (view && view->in_place)
        view = view->before;
    cfx_tensor *now = cfx__steps_place(r, view, s->base->first);
    if (!cfx_ok() || !cfx__tensor_same_shape(now, like) || cfx__strides_are(now, like))
        return;
    if (view)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "a view by strides reads a storage whose functional value has other strides");
    else
        set_value(&s->base->first, like);
}

cfx_tensor *cfx__functional_laid_as(cfx__recorder *r, cfx_tensor *t, const cfx_tensor *like) {
    cfx_tensor *inner = cfx__functional_value(r, t);
    if (!cfx_ok() || !cfx__tensor_same_shape(inner, like) || cfx__strides_are(inner, like))
        return t;
    inner = cfx__in_memory_order(r, (cfx_site){0}, like, inner);
    return cfx_ok() ? cfx__functional_new(inner) : t;
}

/* t has a new value: the same shape, of any dtype. */
static void assign(cfx__recorder *r, cfx_site at, cfx_tensor *t, cfx_tensor *value) {
    cfx__record_shadow *s = cfx__record_shadow_of(t);
    if (!cfx_ok() || cfx__obj_is_bad(value) || !s || !s->base)
        return;
    if (value->dtype != t->dtype)
        value = cfx__functional_do(r, "aten._to_copy",
                        CFX_ARGS(value, CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)),
                                 CFX_KW(layout, cfx_layout_value(CFX_STRIDED))));
    settle(r, at, s->base, s->view);
    set_value(&s->value, value);
    cfx_tensor *whole = cfx__steps_back(r, at, s->view, s->base->value, value);
    if (whole == s->base->value) { /* t has no elements; the call stays, since it may refuse */
        s->version = s->base->version;
        return;
    }
    set_value(&s->base->value, whole);
    s->base->version++;
    if (cfx_ok())
        cfx__functional_value(r, t);
}

/* ---- calls ----------------------------------------------------------------------------------- */

cfx_value cfx__functional_unwrapped(cfx__recorder *r, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx__functional_value(r, cfx_as_tensor(v)));
    if (v.tag != CFX_TAG_LIST)
        return v;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__functional_unwrapped(r, cfx_as_list(v)->items[i]));
    return out;
}

cfx_value cfx__functional_wrapped(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx__record_shadow_of(cfx_as_tensor(v))
                                    ? cfx__functional_new(cfx_as_tensor(v))
                                    : cfx_as_tensor(v));
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value out = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__functional_wrapped(cfx_as_list(v)->items[i]));
    return out;
}

static cfx_value view_of(cfx__recorder *r, cfx_op *op, cfx_value *args, int nargs,
                         const cfx__record_shadow *from, cfx_tensor *inner, int out) {
    cfx_tensor *t = outer_of(inner);
    cfx__record_shadow *s = cfx__record_shadow_of(t);
    cfx__functional_step *step = cfx__obj_make(&step_type, sizeof *step);
    step->before = cfx_keep(from->view);
    step->op = op;
    step->out = out;
    step->frame = cfx__record_frame_now(r);
    step->args = cfx_value_keep(cfx_list_value(nargs, args));
    cfx_value *own = cfx_as_list(step->args)->items;
    cfx_value_drop(own[0]);
    own[0] = cfx_none();
    if (op == &cfx_op_as_strided && from->view && cfx_is_none(own[3]))
        own[3] = cfx_int(inner->offset); /* of the view, when it was taken */
    s->base = cfx_keep(from->base);
    s->view = step; /* a new view of a base that was written to counts as behind, as in PyTorch */
    return cfx_tensor_value(t);
}

/* Before a view is taken of the first argument, or its storage is read: see settle. */
static void settle_for(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    const cfx__record_shadow *from =
        args[0].tag == CFX_TAG_TENSOR ? cfx__record_shadow_of(cfx_as_tensor(args[0])) : NULL;
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    if (!from || !from->base || cfx__memory_order_is(from->base->value, from->base->first))
        return;
    const cfx__functional_step step = {.before = from->view,
                                       .op = op,
                                       .args = cfx_list_value(s->nargs, args),
                                       .out = s->rets[0].list ? 0 : -1,
                                       .frame = cfx__record_frame_now(r)};
    settle(r, at, from->base, &step);
}

/* Whether the call copies a tensor, which lies otherwise in memory than its value, by which calls
 * are recorded: reshape and contiguous view what they can. */
static bool copies_as_it_lies(cfx__recorder *r, cfx_site at, cfx_op *op, const cfx_value *args,
                              int nargs) {
    cfx_tensor *t = cfx_as_tensor(args[0]);
    if ((op != &cfx_op_reshape && op != &cfx_op_contiguous) ||
        cfx__strides_are(cfx__functional_value(r, t), t))
        return false;
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)nargs * sizeof *own);
    cfx_tensor *plain = cfx__tensor_faked(t);
    own[0] = cfx_tensor_value(plain);
    cfx__op_layer *recorder = cfx__dispatcher()->recorder;
    cfx__dispatcher()->recorder = cfx__op_record_nothing;
    cfx_value v = cfx__op_call_bound(at, op, own);
    cfx__dispatcher()->recorder = recorder;
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->storage != plain->storage;
}

/* Results as views of the first argument. Where reshape stays whole it copies what it cannot view:
 * such a result is a tensor of its own. */
static cfx_value viewed(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args, int nargs,
                        cfx_value v) {
    const cfx__record_shadow *from =
        args[0].tag == CFX_TAG_TENSOR ? cfx__record_shadow_of(cfx_as_tensor(args[0])) : NULL;
    if (!from || !from->base)
        return cfx__functional_wrapped(v);
    const cfx_tensor *value = cfx__functional_value(r, cfx_as_tensor(args[0]));
    const bool copied = op == &cfx_op_reshape && cfx_as_tensor(v)->storage != value->storage;
    if (copied || copies_as_it_lies(r, at, op, args, nargs))
        return cfx__functional_wrapped(v);
    if (v.tag == CFX_TAG_TENSOR)
        return view_of(r, op, args, nargs, from, cfx_as_tensor(v), -1);
    cfx_value out = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out),
                        view_of(r, op, args, nargs, from, cfx_tensor_at(v, i), (int)i));
    return out;
}

static cfx_value call_unwrapped(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    cfx_value inner[CFX_MAX_ARGS];
    int n = cfx__op_info_of(op)->schema->nargs;
    for (int i = 0; i < n; i++)
        inner[i] = cfx__functional_unwrapped(r, args[i]);
    if (!cfx_ok())
        return cfx_bad();
    bool inside = r->inside;
    r->inside = true;
    cfx_value v = cfx__op_call_bound(at, op, inner);
    r->inside = inside;
    return cfx_ok() ? v : cfx_bad();
}

static bool is_held(const cfx_tensor *t) {
    const cfx__record_shadow *s = cfx__record_shadow_of(t);
    return s && s->base && !s->view && s->base->held;
}

/* x.t_(): x itself becomes the view. */
static cfx_value become_view(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    cfx_value v = cfx__functional_call(r, at, op, args);
    if (v.tag != CFX_TAG_TENSOR)
        return v;
    cfx_tensor *self = cfx_as_tensor(args[0]);
    cfx__tensor_become(self, cfx_as_tensor(v));
    void *shadow = cfx_keep(cfx_as_tensor(v)->proxy);
    cfx__functional_step *step = cfx__record_shadow_of(cfx_as_tensor(v))->view;
    if (step)
        step->in_place = true;
    cfx_drop(self->proxy);
    self->proxy = shadow;
    return args[0];
}

static bool takes_the_same(const cfx__schema *a, const cfx__schema *b) {
    bool same = a->nargs == b->nargs;
    for (int i = 0; same && i < a->nargs; i++)
        same = a->args[i].type == b->args[i].type && a->args[i].list == b->args[i].list;
    return same;
}

/* The overload of a name that takes what s takes: transpose.int does what transpose_ does. */
static cfx_op *overload_for(const cfx__schema *s, const char *name) {
    const cfx_fn *fn = cfx_fn_find(cfx__text_format("%s::%s", s->ns, name));
    for (int i = 0; fn && i < fn->n; i++)
        if (!cfx__op_info_of(fn->ops[i])->writes &&
            takes_the_same(cfx__op_info_of(fn->ops[i])->schema, s))
            return fn->ops[i];
    return NULL;
}

/* The operator that gives what op writes as its result, or as further results; NULL when there is
 * none. */
static cfx_op *functional_form(const cfx__op_info *info, bool inplace) {
    if (info->functional)
        return info->functional;
    const cfx__schema *s = info->schema;
    const char *bare = cfx__text_format("%.*s", (int)strlen(s->name) - inplace, s->name);
    const char *dot = *s->overload ? "." : "";
    cfx_op *f = NULL;
    if (inplace)
        f = cfx_op_find(cfx__text_format("%s::%s%s%s", s->ns, bare, dot, s->overload));
    if (!f)
        f = cfx_op_find(cfx__text_format("%s::%s_functional%s%s", s->ns, bare, dot, s->overload));
    return f ? f : overload_for(s, bare);
}

/* A composite operator in place: what it is made of, unless that is the tensor itself. */
static cfx_value call_composite(cfx__recorder *r, cfx_site at, cfx_op *f, cfx_value *args) {
    if (cfx__op_refuses(at, f, args, NULL))
        return cfx_bad();
    uint32_t frame = cfx__record_frame_begin(r, cfx__op_info_of(f)->schema->nargs, args);
    cfx_value v = cfx__op_decompose(at, f, args);
    cfx__record_frame_end(r, frame);
    if (v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v) != cfx_as_tensor(args[0]))
        assign(r, at, cfx_as_tensor(args[0]), cfx__functional_value(r, cfx_as_tensor(v)));
    return cfx_is_bad(v) ? v : args[0];
}

/* A list of tensors stands for the values of another from now on. */
static cfx_value assign_each(cfx__recorder *r, cfx_site at, cfx_value to, cfx_value from) {
    for (int64_t i = 0; i < cfx_as_list(to)->len && i < cfx_as_list(from)->len; i++)
        assign(r, at, cfx_tensor_at(to, i), cfx_tensor_at(from, i));
    return cfx_none();
}

static cfx_value no_values(cfx_site at, const cfx__op_info *info, const char *what) {
    const char *outer = cfx__ctx()->op;
    cfx__ctx()->op = info->name;
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at, "%s %s, and no operator does the same without",
             info->name, what);
    cfx__ctx()->op = outer;
    return cfx_bad();
}

static cfx_value call_writing(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__op_info *info = cfx__op_info_of(op);
    const cfx__schema *s = info->schema;
    const bool out = info->form == CFX__OUT; /* also of __rshift__, whose name ends so */
    bool inplace = info->form == CFX__INPLACE || (!out && s->name[strlen(s->name) - 1] == '_');
    if (cfx__op_refuses(at, op, args, NULL))
        return cfx_bad();
    if (!info->functional && op->decompose) { /* what it is made of writes */
        uint32_t frame = cfx__record_frame_begin(r, s->nargs, args);
        cfx_value v = cfx__op_decompose(at, op, args);
        cfx__record_frame_end(r, frame);
        return v;
    }
    if (!info->functional && cfx__functional_can_auto(op)) /* whatever is called like it */
        return cfx__functional_auto(r, at, op, args);
    cfx_op *f = functional_form(info, inplace);
    if (f && inplace && f->effects & CFX_UPDATE &&
        cfx__tensor_shares_elements(cfx_as_tensor(args[0]))) {
        cfx__refuse_overlap(at, s->name);
        return cfx_bad();
    }
    if (!f)
        return no_values(at, info, "writes to its arguments");
    if (inplace && f->view && strcmp(s->name, "detach_"))
        return is_held(cfx_as_tensor(args[0]))
                   ? no_values(at, info, "makes a view of what the program is given")
                   : become_view(r, at, f, args);
    if (inplace && f->view)
        return args[0];
    if (inplace && (f->effects & CFX_COMPOSITE) && f->decompose)
        return call_composite(r, at, f, args);
    if (inplace)
        cfx__record_log_write(r, args[0]);
    cfx_value own_args[CFX_MAX_ARGS];
    if (out)
        cfx__op_out_args(info, args, own_args);
    cfx_value v = call_unwrapped(r, at, f, out ? own_args : args);
    if (cfx_is_bad(v))
        return v;
    if (v.tag == CFX_TAG_LIST && !s->nrets)
        return assign_each(r, at, args[inplace ? 0 : s->nargs - 1], v);
    if (inplace) {
        assign(r, at, cfx_as_tensor(args[0]), cfx_as_tensor(v));
        return args[0];
    }
    int64_t next = out ? 0 : s->nrets;
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i].writes && args[i].tag == CFX_TAG_TENSOR)
            assign(r, at, cfx_as_tensor(args[i]),
                   v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : cfx_tensor_at(v, next++));
    if (out)
        return s->nrets == 1 ? args[s->nargs - 1]
                             : cfx_tuple_value(s->nrets, args + s->nargs - s->nrets);
    cfx_value own = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < s->nrets; i++)
        cfx_list_append(cfx_as_list(own), cfx_at(v, i));
    return cfx__functional_wrapped(s->nrets == 1 ? cfx_as_list(own)->items[0] : own);
}

cfx_value cfx__functional_call(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    if (cfx__op_info_of(op)->writes)
        return call_writing(r, at, op, args);
    bool view = s->nargs && s->nrets == 1 && (s->rets[0].alias || op == &cfx_op_lift);
    if (view || op->effects & CFX_STORAGE)
        settle_for(r, at, op, args);
    cfx_value v = call_unwrapped(r, at, op, args);
    if (cfx_is_bad(v))
        return v;
    return view ? viewed(r, at, op, args, s->nargs, v) : cfx__functional_wrapped(v);
}
