/* Makes the form of a plan for other sizes. The decisions of lowering are kept: which steps form a
 * kernel, what each reads, who frees what. What depends on sizes is computed again, in the order of
 * the passes and by their functions: the shape rule of each step with a changed operand, the
 * strides of results, layers, loops, views, offsets. Nothing is derived from the previous sizes, so
 * a form equals what lowering would produce, or it is not made.
 *
 * A decision is kept only if the question behind it has the same answer at the new sizes: the
 * target takes the layer, the steps of a loop iterate over the same elements, a view lies in the
 * memory of its root, a call accepts the strides of its arguments. Results must keep their
 * dtype, their number of dimensions, and which dimensions have size 0 or 1, because broadcasting
 * and layouts depend on these. If anything differs, the graph is lowered anew, and that plan
 * serves its own sizes. Plans that write to persistent memory, contain sub-graphs, or were made
 * from foreign operators are never resized. Start at cfx__plan_resized. */
#include "form.h"

typedef struct {
    cfx__lowering l;
    cfx__plan *of, sized;
    const struct cfx__plan_again *again;
    bool *touched; /* by slot: it reads something of another size */
    bool *changed; /* by slot: it is of another size, or another number */
    int *value;    /* of loops */
} resizing;

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool same_kind_of_tensor(const cfx_tensor *a, const cfx_tensor *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim && a->numel && b->numel;
    for (int i = 0; i < a->ndim && same; i++)
        same = (a->shape[i] == 1) == (b->shape[i] == 1);
    return same;
}

/* Whether a value may stand where another stood when the plan was lowered. */
static bool same_kind(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    if (a.tag == CFX_TAG_TENSOR)
        return same_kind_of_tensor(cfx_as_tensor(a), cfx_as_tensor(b));
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        bool same = cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; i < cfx_as_list(a)->len && same; i++)
            same = same_kind(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
        return same;
    }
    return a.tag == CFX_TAG_INT || a.tag == CFX_TAG_FLOAT || cfx_equal_values(a, b);
}

/* Whether it is of the same sizes too, or the same number. */
static bool same_sizes(cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        bool same = true;
        for (int64_t i = 0; i < cfx_as_list(a)->len && same; i++)
            same = same_sizes(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
        return same;
    }
    if (a.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b);
    const cfx_tensor *s = cfx_as_tensor(a), *t = cfx_as_tensor(b);
    const size_t size = (size_t)s->ndim * sizeof *s->shape;
    return s->offset == t->offset && !memcmp(s->shape, t->shape, size) &&
           !memcmp(s->stride, t->stride, size);
}

/* What Python computes with sizes; bad where a step is something else. Scope. */
static cfx_value number_of(const resizing *r, int k) {
    const cfx__run_step *s = &r->sized.steps->steps[k];
    if (s->node->op != CFX_CALL_FUNCTION || cfx_is_bad(r->of->constants[k]) ||
        s->kwargs.tag != CFX_TAG_NONE)
        return cfx_bad();
    const cfx_list *args = cfx_as_list(cfx__plan_filled(&r->sized, s->args));
    return cfx_py_from((cfx_site){0}, s->node->target.name,
                       (cfx_args){(int)args->len, args->items, NULL});
}

/* What a step gives at the new sizes, by its shape rule; bad where that cannot be told. Scope. */
static cfx_value computed(const resizing *r, int k) {
    const cfx__plan *p = &r->sized;
    const cfx__run_step *s = &p->steps->steps[k];
    cfx_op *op = cfx__plan_op(s);
    cfx_value args[CFX_MAX_ARGS];
    if (s->item) {
        const cfx_list *from = cfx_as_list(s->args);
        const cfx_value list = cfx__plan_filled(p, from->items[0]);
        const int64_t i = cfx_integer(from->items[1]);
        const bool sequence = list.tag == CFX_TAG_LIST || list.tag == CFX_TAG_TUPLE;
        return sequence && i >= 0 && i < cfx_as_list(list)->len ? cfx_as_list(list)->items[i]
                                                                : cfx_bad();
    }
    if (!op)
        return number_of(r, k);
    const cfx__schema *schema = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nbound; i++) {
        args[i] = cfx__plan_filled(p, s->bound[i]);
        if (args[i].tag != CFX_TAG_TENSOR && (s->bound[i].tag == CFX_TAG_NODE || s->nested[i]) &&
            !cfx__bind_one(schema, (cfx_site){0}, i, args[i], cfx__op_mode(op), &args[i]))
            return cfx_bad();
    }
    return cfx__op_call_bound((cfx_site){0}, op, args);
}

static void set_value(cfx_value *at, cfx_value v) {
    cfx_value_keep(v);
    cfx_value_drop(*at);
    *at = v;
}

/* A slot as it was. */
static void keep_slot(resizing *r, int k) {
    set_value(&r->sized.wanted[k], r->of->wanted[k]);
    set_value(&r->sized.given[k], r->of->wanted[k]);
    set_value(&r->sized.constants[k], r->of->constants[k]);
}

static bool find_input(resizing *r, int k) {
    const int i = r->of->kernels[k].input;
    const cfx_value v = r->l.e->inputs.v[i];
    keep_slot(r, k);
    if (cfx_is_bad(r->of->inputs[i])) /* a weight */
        return true;
    r->sized.inputs[i] = cfx_value_keep(cfx__tensor_faked_in(v));
    if (!same_kind(v, r->of->inputs[i]) ||
        (v.tag != CFX_TAG_TENSOR && !cfx_equal_values(v, r->of->inputs[i])))
        return false;
    r->changed[k] = !same_sizes(v, r->of->inputs[i]);
    set_value(&r->sized.wanted[k], r->sized.inputs[i]);
    set_value(&r->sized.given[k], r->sized.inputs[i]);
    return true;
}

/* Views of weights are no fakes, nor are the weights. */
static bool is_fake(cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        bool fake = true;
        for (int64_t i = 0; i < cfx_as_list(v)->len && fake; i++)
            fake = is_fake(cfx_as_list(v)->items[i]);
        return fake;
    }
    return v.tag != CFX_TAG_TENSOR || cfx_tensor_is_fake(cfx_as_tensor(v));
}

static bool find_size(resizing *r, int k) {
    const struct cfx__plan_again *a = r->again;
    if (r->of->kernels[k].kind == CFX__PLAN_INPUT)
        return find_input(r, k);
    for (int i = a->first[k]; i < a->first[k + 1] && !r->touched[k]; i++)
        r->touched[k] = r->changed[a->reads[i]];
    if (!r->touched[k] || !a->live[k] || r->of->kernels[k].kind == CFX__PLAN_OUTPUT) {
        keep_slot(r, k);
        return true;
    }
    const cfx_value v = computed(r, k), before = r->of->wanted[k];
    if (cfx_is_bad(v) || !cfx_ok() || !same_kind(v, before))
        return false;
    r->changed[k] = !same_sizes(v, before);
    set_value(&r->sized.wanted[k], is_fake(v) ? v : cfx__tensor_faked_in(v));
    set_value(&r->sized.given[k], r->sized.wanted[k]);
    if (cfx_is_bad(r->of->constants[k]))
        return true;
    set_value(&r->sized.constants[k], v);
    return v.tag != CFX_TAG_TENSOR; /* else it follows from weights alone */
}

/* Fills wanted, given and constants, as the run on fake inputs does. */
static bool find_sizes(resizing *r) {
    cfx__dispatch *d = cfx__dispatcher();
    const bool before = d->fake;
    bool fine = true;
    d->fake = true;
    for (int k = 0; k < r->of->n && fine; k++)
        fine = find_size(r, k);
    d->fake = before;
    for (size_t i = 0; i < r->of->repeats.len && fine; i++)
        fine = cfx__plan_is_repeated(&r->l, r->of->repeats.data[i]);
    for (int k = 0; k < r->of->n && fine; k++)
        if (!r->touched[k] && !r->changed[k])
            set_value(&r->sized.given[k], r->of->given[k]);
    return fine;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static bool lies_as(const cfx_tensor *t, const int64_t *stride) {
    return !memcmp(t->stride, stride, (size_t)t->ndim * sizeof *stride);
}

/* A tensor like `was`, which lay as `beside` did or in the target's order of images, of the shape
 * of `now`, which is where `beside` was. Scope; NULL: it lay otherwise. */
static cfx_tensor *laid_again(const resizing *r, const cfx_tensor *was, const cfx_tensor *beside,
                              cfx_tensor *now) {
    int64_t stride[CFX_MAX_DIMS];
    if (was->ndim != now->ndim || beside->ndim != now->ndim)
        return NULL;
    if (lies_as(was, beside->stride))
        return was->dtype == now->dtype ? now
                                        : cfx_tensor_fake((cfx_dtype)was->dtype, now->ndim,
                                                          now->shape, now->stride);
    if (was->ndim != 4)
        return NULL;
    cfx__strides_of_format(r->l.target->images, was->ndim, was->shape, stride);
    if (!lies_as(was, stride))
        return NULL;
    cfx__strides_of_format(r->l.target->images, now->ndim, now->shape, stride);
    return cfx_tensor_fake((cfx_dtype)was->dtype, now->ndim, now->shape, stride);
}

static cfx_tensor *tensor_in(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

/* How the result of a layer lies, at the slot `end`. */
static cfx_tensor *out_again(const resizing *r, int end, const cfx_tensor *was) {
    const int home = r->of->home[end];
    cfx_tensor *now = tensor_in(r->sized.wanted[end]);
    const cfx_tensor *beside = tensor_in(r->of->wanted[end]);
    if (!now || !beside)
        return NULL;
    if (home >= 0 && lies_as(was, cfx_as_tensor(r->of->given[home])->stride))
        return cfx_tensor_fake((cfx_dtype)was->dtype, now->ndim, now->shape,
                               cfx_as_tensor(r->sized.given[home])->stride);
    return laid_again(r, was, beside, now);
}

/* The arguments of a layer but for its input: weights as they were, numbers as they are. */
static bool arguments_again(const resizing *r, const cfx__layer *was, int start, cfx_value *args) {
    const cfx__run_step *s = r->of->kernels[start].step;
    const bool own = s->op == was->call.op && s->nbound == was->call.nargs;
    for (int i = 0; i < was->call.nargs; i++) {
        args[i] = was->call.args[i];
        if (i == was->input || args[i].tag == CFX_TAG_TENSOR)
            continue;
        if (own && s->bound[i].tag == CFX_TAG_NODE)
            args[i] = cfx__plan_filled(&r->sized, s->bound[i]);
        else if (own && s->nested[i])
            return false;
    }
    return true;
}

/* Whether what follows step `start` in a chain, up to `end`, still has its shape, or shows the same
 * rows with other dimensions before them. */
static bool shows_same_rows(const resizing *r, const cfx__plan_kernel *k, int start, int end) {
    const cfx_tensor *before = NULL;
    bool same = true, inside = false;
    for (int i = 0; i < k->nchain && same; i++) {
        const cfx_tensor *t = tensor_in(r->sized.wanted[k->chain[i]]);
        inside |= k->chain[i] == start;
        if (inside && before && t && !cfx__tensor_same_shape(before, t))
            same = t->ndim && before->ndim && cfx__tensor_is_contiguous(t) &&
                   t->shape[t->ndim - 1] == before->shape[before->ndim - 1];
        before = inside ? t : NULL;
        inside &= k->chain[i] != end;
    }
    return same;
}

/* The layer at `slot`, which begins with step `start` and ends with step `end`, reading x; false
 * where the target does not take it any more. */
static bool layer_again(resizing *r, int slot, int start, int end, const cfx_tensor *x_was,
                        cfx_tensor *x) {
    const cfx__layer *was = r->of->kernels[slot].layer;
    cfx__layer layer = *was;
    cfx_value args[CFX_MAX_ARGS];
    cfx_tensor *in = x && x_was ? laid_again(r, cfx__layer_x(was), x_was, x) : NULL;
    cfx_tensor *out = out_again(r, end, cfx__layer_out(was));
    if (!in || !out || !arguments_again(r, was, start, args))
        return false;
    args[was->input] = cfx_tensor_value(in);
    layer.call.args = args;
    layer.call.out[0] = out;
    if (!r->l.target->takes(&layer) || !cfx_ok())
        return false;
    r->sized.kernels[slot].layer = cfx__layer_keep(&layer);
    set_value(&r->sized.given[end], cfx_tensor_value(out));
    return true;
}

static bool find_layer(resizing *r, int slot) {
    const cfx__plan_kernel *k = &r->of->kernels[slot];
    const cfx_tensor *was = tensor_in(r->of->given[k->x]);
    cfx_tensor *x = tensor_in(r->sized.given[k->x]);
    int start = k->chain[0];
    if (k->first >= 0) { /* the layer before it, whose chain comes first */
        if (!shows_same_rows(r, k, start, k->first) ||
            !layer_again(r, k->first, start, k->first, was, x))
            return false;
        was = cfx__layer_out(r->of->kernels[k->first].layer);
        x = cfx__layer_out(r->sized.kernels[k->first].layer);
        for (int i = 1; i < k->nchain; i++)
            if (k->chain[i - 1] == k->first)
                start = k->chain[i];
    }
    return shows_same_rows(r, k, start, slot) && layer_again(r, slot, start, slot, was, x) &&
           (k->add < 0 ||
            (tensor_in(r->sized.given[k->add]) &&
             cfx__tensor_same_shape(cfx_as_tensor(r->sized.given[k->add]),
                                    cfx__layer_out(r->sized.kernels[slot].layer))));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* A call, or what was one before it became a view or part of a loop. */
static bool find_call(resizing *r, int k) {
    cfx__plan_kernel *kernel = &r->sized.kernels[k];
    const cfx__plan_kernel *was = &r->of->kernels[k];
    kernel->reorder = false;
    if (!cfx__plan_lower_call(&r->l, k) || kernel->reorder != was->reorder ||
        kernel->op != was->op)
        return false;
    kernel->kind = was->kind;
    cfx_tensor *home = r->again->member[k] ? cfx__plan_home_like(&r->l, k) : NULL;
    if (home)
        set_value(&r->sized.given[k], cfx_tensor_value(home));
    return true;
}

static bool take_item(resizing *r, int k, int list, int64_t i) {
    const cfx_value from = r->sized.given[list];
    const bool sequence = from.tag == CFX_TAG_LIST || from.tag == CFX_TAG_TUPLE;
    if (!sequence || i < 0 || i >= cfx_as_list(from)->len)
        return false;
    set_value(&r->sized.given[k], cfx_as_list(from)->items[i]);
    return true;
}

static bool find_kernel(resizing *r, int k) {
    const cfx__plan_kernel *was = &r->of->kernels[k];
    switch (was->kind) {
    case CFX__PLAN_PASS:
        set_value(&r->sized.given[k], r->sized.given[was->x]);
        return true;
    case CFX__PLAN_ITEM:
        return take_item(r, k, was->x, was->index);
    case CFX__PLAN_VIEW:
        return was->list >= 0 ? take_item(r, k, was->list, was->index) : find_call(r, k);
    case CFX__PLAN_CALL:
    case CFX__PLAN_LOOP:
        return find_call(r, k);
    case CFX__PLAN_NONE: /* part of a loop, or several views that are asked for one by one */
        return !was->op || find_call(r, k);
    case CFX__PLAN_LAYER:
        return find_layer(r, k);
    default:
        return true;
    }
}

/* Whether something that a kernel reads or computes has another size. */
static bool is_touched(const resizing *r, const cfx__plan_kernel *k) {
    bool touched = k->add >= 0 && r->changed[k->add];
    touched |= k->x >= 0 && r->changed[k->x];
    for (int i = 0; i < k->nchain && !touched; i++)
        touched = r->touched[k->chain[i]];
    for (int i = 0; i < k->nreads && !touched; i++)
        touched = r->changed[k->reads[i]];
    return touched;
}

static bool find_kernels(resizing *r) {
    const cfx__plan *of = r->of;
    bool fine = true;
    for (int k = 0; k < of->n && fine; k++)
        if (r->again->live[k] && (r->touched[k] || is_touched(r, &of->kernels[k])))
            fine = find_kernel(r, k);
    for (int k = 0; k < of->n && fine; k++) {
        cfx__plan_kernel *kernel = &r->sized.kernels[k];
        if (kernel->kind != CFX__PLAN_LOOP || !is_touched(r, kernel))
            continue;
        cfx__loop *loop = cfx__plan_loop_again(&r->l, of, kernel, r->value);
        fine = loop != NULL;
        kernel->loop = fine ? loop : kernel->loop;
    }
    for (int k = 0; k < of->n && fine; k++) {
        const cfx__plan_kernel *was = &of->kernels[k];
        const bool views = was->kind == CFX__PLAN_NONE && was->op && !r->again->member[k];
        if (r->again->live[k] && r->touched[k] && (was->kind == CFX__PLAN_VIEW || views))
            fine = cfx__plan_view_again(&r->sized, was, k);
    }
    return fine && cfx_ok();
}

static bool find_homes(resizing *r) {
    const size_t n = (size_t)r->of->n;
    bool any = false;
    for (size_t k = 0; k < n && !any; k++)
        any = r->of->kernels[k].kind == CFX__PLAN_JOIN;
    return !any || (cfx__plan_find_homes(&r->l) &&
                    !memcmp(r->sized.home, r->of->home, n * sizeof *r->sized.home));
}

static bool bind(resizing *r) {
    cfx__plan *p = &r->sized;
    for (int k = 0; k < p->n; k++) {
        cfx__plan_kernel *kernel = &p->kernels[k];
        if (kernel->kind != CFX__PLAN_LAYER)
            continue;
        if (kernel->layer != r->of->kernels[k].layer) {
            cfx__ready *ready = cfx__plan_ready(p, kernel);
            if (!ready)
                return false;
            kernel->ready = ready;
        }
        if (kernel->ready->scratch > p->scratch)
            p->scratch = kernel->ready->scratch;
    }
    return true;
}

/* ---- the form -------------------------------------------------------------------------------- */

static void begin(resizing *r) {
    const cfx__plan *of = r->of;
    const size_t n = (size_t)of->n;
    cfx__plan *p = &r->sized;
    *p = *of;
    p->arena = (cfx__arena){.size = 1 << 14};
    p->kernels = cfx__arena_alloc(&p->arena, n * sizeof *p->kernels);
    memcpy(p->kernels, of->kernels, n * sizeof *p->kernels);
    p->home = cfx__arena_alloc(&p->arena, n * sizeof *p->home);
    p->home_at = cfx__arena_alloc(&p->arena, n * sizeof *p->home_at);
    p->offset = cfx__alloc(n * sizeof *p->offset);
    memset(p->home, -1, n * sizeof *p->home);
    memset(p->offset, -1, n * sizeof *p->offset);
    cfx_value **const values[] = {&p->wanted, &p->given, &p->constants};
    for (int i = 0; i < COUNT(values); i++)
        *values[i] = cfx__alloc0(n * sizeof **values[i]);
    for (size_t k = 0; k < n; k++)
        p->constants[k] = cfx_bad();
    p->inputs = cfx__alloc((size_t)of->ninputs * sizeof *p->inputs);
    for (int i = 0; i < of->ninputs; i++)
        p->inputs[i] = cfx_bad();
    p->scratch = p->room_bytes = 0;
    cfx__lowering *l = &r->l;
    bool **const flags[] = {&l->taken, &l->passed, &l->ordered, &l->joins,
                            &l->put_off, &l->varies, &l->written, &r->touched, &r->changed};
    for (int i = 0; i < COUNT(flags); i++)
        *flags[i] = cfx__arena_alloc(&p->arena, n + 1);
    r->value = cfx__arena_alloc(&p->arena, (n + 1) * sizeof *r->value);
    l->plan = p;
    l->target = of->target;
    l->group = cfx__arena_alloc(&p->arena, n * sizeof *l->group);
    l->members = cfx__arena_alloc(&p->arena, n * sizeof *l->members);
    memset(l->group, -1, n * sizeof *l->group);
}

/* Runs look at sizes and strides alone: fakes need no storage of their own, all have `one`. */
static void share_storage(cfx_value v, cfx__storage *one) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_tensor *t = cfx_as_tensor(v);
        if (t->storage == one)
            return;
        cfx_keep(one);
        cfx_drop(t->storage);
        t->storage = one;
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            share_storage(cfx_as_list(v)->items[i], one);
    }
}

static void drop_values(cfx_value *v, int n) {
    for (int i = 0; i < n; i++)
        cfx_value_drop(v[i]);
    cfx__free(v);
}

/* Leaves out what no run looks at. */
static void trim(const resizing *r) {
    const int64_t none = 0;
    cfx__storage *one = cfx_tensor_fake(CFX_F32, 1, &none, NULL)->storage;
    for (int k = 0; k < r->of->n; k++) {
        const bool own = r->touched[k] && r->changed[k];
        if (own && r->again->wanted[k])
            share_storage(r->sized.wanted[k], one);
        if (!r->again->given[k])
            set_value(&r->sized.given[k], cfx_none());
        else if (own)
            share_storage(r->sized.given[k], one);
    }
}

/* Lets go of what was made for the form, and of its values where there is none. */
static void end(resizing *r, bool made) {
    cfx__plan *p = &r->sized;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *now = &p->kernels[k], *was = &r->of->kernels[k];
        if (now->layer != was->layer)
            cfx_drop(now->layer);
        if (now->ready != was->ready)
            cfx_drop(now->ready);
        if (now->loop != was->loop)
            cfx_drop(now->loop);
    }
    drop_values(p->wanted, p->n);
    drop_values(p->constants, p->n);
    if (!made) {
        drop_values(p->given, p->n);
        drop_values(p->inputs, p->ninputs);
        cfx__free(p->offset);
    }
    cfx__arena_release(&p->arena);
}

cfx__plan_form *cfx__plan_resized(cfx__plan *of, const cfx_execution *e) {
    resizing r = {.of = of, .again = cfx__plan_again_of(of), .l = {.e = e}};
    if (r.again->never || (e->watcher && e->watcher->see) || !cfx__plan_serves(of, e))
        return NULL;
    size_t scope = cfx_scope_open();
    cfx__plan_form *f = NULL;
    begin(&r);
    if (find_sizes(&r) && find_homes(&r) && find_kernels(&r) && bind(&r) &&
        cfx__plan_place_by(&r.l, r.again->lives) && cfx_ok()) {
        trim(&r);
        f = cfx__plan_form_new(of, &r.sized);
    }
    if (!cfx_ok())
        cfx__error_forgive(); /* lowering will say what is wrong */
    end(&r, f != NULL);
    cfx_scope_close(scope);
    return f;
}
