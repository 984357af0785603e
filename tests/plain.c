/* Plans evaluated one number at a time; see plain.h. Start at the target, then run_kernel. */
#include "plain.h"

#include <cfx/ops.h>
#include <math.h>

plain_counts plain_ran;

/* ---- elements -------------------------------------------------------------------------------- */

static bool is_integer(cfx_dtype d) { return !cfx__dtype_is_float(d); }

static plain_number load(cfx_dtype d, const char *from) {
    int64_t i = 0;
    double f = 0;
    if (is_integer(d)) {
        cfx__convert((char *)&i, 8, CFX_I64, from, 0, d, 1);
        return plain_int(i);
    }
    cfx__convert((char *)&f, 8, CFX_F64, from, 0, d, 1);
    return plain_float(f);
}

/* As C assigns it: to an integer type as many bits as it has. */
static void save(cfx_dtype d, char *to, plain_number n) {
    if (is_integer(d) && n.is_int)
        cfx__convert(to, 0, d, (const char *)&n.i, 0, CFX_I64, 1);
    else
        cfx__convert(to, 0, d, (const char *)&n.f, 0, CFX_F64, 1);
}

/* The element of t that an index of another shape, whose dims it is broadcast to, leads to. */
static char *element(const cfx_tensor *t, int ndim, const int64_t *index) {
    int64_t at = 0;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != 1)
            at += index[ndim - t->ndim + i] * t->stride[i];
    return t->data + at * cfx_dtype_size((cfx_dtype)t->dtype);
}

/* The next index of a shape, the last dim first; false after the last. */
static bool next(int ndim, const int64_t *shape, int64_t *index) {
    for (int i = ndim - 1; i >= 0; i--) {
        if (++index[i] < shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

/* ---- steps of loops -------------------------------------------------------------------------- */

static const cfx_dtype known[] = {CFX_F32, CFX_F64, CFX_F16, CFX_BF16, CFX_I64, CFX_I32,
                                  CFX_I16, CFX_I8,  CFX_U8,  CFX_BOOL};

static bool is_known(cfx_dtype d) {
    bool found = false;
    for (int i = 0; i < COUNT(known); i++)
        found |= known[i] == d;
    return found;
}

/* Whether all that a loop says is understood. */
static bool schedule(cfx__loop *l) {
    bool fine = true;
    for (int i = 0; i < l->nvalues; i++)
        fine &= is_known(l->values[i].dtype);
    for (int i = 0; i < l->nsteps && fine; i++) {
        if (l->steps[i].kind != CFX__STEP_EACH)
            continue;
        plain_expr *e = l->steps[i].says.expr ? plain_parse(l->steps[i].says.expr) : NULL;
        fine = e != NULL;
        plain_expr_free(e);
    }
    return fine;
}

/* A loop at one row; without rows, at one element. */
typedef struct {
    const cfx__loop *loop;
    int64_t n;                             /* elements of a row */
    plain_number *values[CFX__LOOP_VALUES]; /* n, or one where they are narrow */
    plain_expr *exprs[CFX__LOOP_VALUES];    /* by step */
} walk;

/* What a value of this dtype can hold of a number. */
static plain_number rounded(cfx_dtype d, plain_number n) {
    char bytes[16];
    save(d, bytes, n);
    return load(d, bytes);
}

static plain_number each(const walk *w, const cfx__loop_step *s, int64_t i) {
    const cfx__loop *l = w->loop;
    plain_number operands[CFX__LOOP_OPERANDS], numbers[CFX__LOOP_NUMBERS];
    const bool integer = s->n && is_integer(l->values[s->in[0]].dtype);
    for (int k = 0; k < s->n; k++)
        operands[k] = w->values[s->in[k]][l->values[s->in[k]].narrow ? 0 : i];
    for (int k = 0; k < CFX__LOOP_NUMBERS; k++)
        numbers[k] = integer ? plain_int(s->says.i[k]) : plain_float(s->says.f[k]);
    return plain_eval(w->exprs[s - l->steps], operands, numbers, integer);
}

static plain_number fold(const walk *w, const cfx__loop_step *s) {
    const plain_number *x = w->values[s->in[0]];
    const cfx__loop_fold how = s->says.fold;
    const bool all = how == CFX__FOLD_ALL || how == CFX__FOLD_PROD;
    plain_number sum = x[0].is_int ? plain_int(all) : plain_float(all);
    if (how == CFX__FOLD_COUNT || how == CFX__FOLD_ANY || how == CFX__FOLD_ALL)
        sum = plain_int(all);
    for (int64_t i = 0; i < w->n; i++) {
        const bool holds = x[i].f != 0;
        switch (how) {
        case CFX__FOLD_COUNT: sum = plain_int(sum.i + holds); break;
        case CFX__FOLD_ANY: sum = plain_int(sum.i | holds); break;
        case CFX__FOLD_ALL: sum = plain_int(sum.i & holds); break;
        case CFX__FOLD_MAX:
            if (!i || x[i].f != x[i].f || (x[i].is_int ? x[i].i > sum.i : x[i].f > sum.f))
                sum = x[i];
            break;
        case CFX__FOLD_MIN:
            if (!i || x[i].f != x[i].f || (x[i].is_int ? x[i].i < sum.i : x[i].f < sum.f))
                sum = x[i];
            break;
        case CFX__FOLD_PROD:
            sum = x[i].is_int ? plain_int((int64_t)((uint64_t)sum.i * (uint64_t)x[i].i))
                              : plain_float(sum.f * x[i].f);
            break;
        default: /* sums, of which nansum leaves NaN out */
            if (x[i].is_int)
                sum = plain_int((int64_t)((uint64_t)sum.i + (uint64_t)x[i].i));
            else if (how != CFX__FOLD_NANSUM || x[i].f == x[i].f)
                sum = plain_float(sum.f + x[i].f);
        }
        if ((how == CFX__FOLD_MAX || how == CFX__FOLD_MIN) && sum.f != sum.f)
            break;
    }
    return how == CFX__FOLD_MEAN ? plain_float(sum.f / (double)w->n) : sum;
}

static void norm(const walk *w, const cfx__loop_step *s, plain_number *out) {
    const plain_number *x = w->values[s->in[0]];
    const bool centred = s->says.row == CFX__ROW_LAYER_NORM;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < w->n && centred; i++)
        mean += x[i].f / (double)w->n;
    for (int64_t i = 0; i < w->n; i++)
        square += (x[i].f - mean) * (x[i].f - mean) / (double)w->n;
    const double scale = 1 / sqrt(square + s->says.f[0]);
    for (int64_t i = 0; i < w->n; i++) {
        int at = 1;
        double v = (x[i].f - mean) * scale;
        if (s->says.affine & CFX__ROW_WEIGHT)
            v *= w->values[s->in[at++]][i].f;
        if (s->says.affine & CFX__ROW_BIAS)
            v += w->values[s->in[at]][i].f;
        out[i] = plain_float(v);
    }
}

static void softmax(const walk *w, const cfx__loop_step *s, plain_number *out) {
    const plain_number *x = w->values[s->in[0]];
    const bool safe = s->says.row == CFX__ROW_SAFE_SOFTMAX;
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < w->n; i++)
        top = x[i].f > top ? x[i].f : top;
    for (int64_t i = 0; i < w->n; i++)
        sum += exp(x[i].f - top);
    for (int64_t i = 0; i < w->n; i++)
        out[i] = plain_float(safe && top == -INFINITY            ? 0
                             : s->says.row == CFX__ROW_LOG_SOFTMAX ? x[i].f - top - log(sum)
                                                                  : exp(x[i].f - top) / sum);
}

static void run_step(const walk *w, const cfx__loop_step *s) {
    const cfx__loop *l = w->loop;
    const cfx_dtype gives = l->values[s->out].dtype;
    const bool narrow = l->values[s->out].narrow;
    plain_number *out = w->values[s->out];
    if (s->kind == CFX__STEP_FOLD)
        out[0] = fold(w, s);
    if (s->kind == CFX__STEP_ROW)
        (s->says.row >= CFX__ROW_LAYER_NORM ? norm : softmax)(w, s, out);
    for (int64_t i = 0; i < (narrow ? 1 : w->n); i++) {
        if (s->kind == CFX__STEP_EACH)
            out[i] = each(w, s, i);
        if (s->kind == CFX__STEP_CONVERT || s->kind == CFX__STEP_WIDEN)
            out[i] = w->values[s->in[0]][l->values[s->in[0]].narrow ? 0 : i];
        out[i] = rounded(gives, out[i]);
    }
}

/* Reads or writes the elements of a lane at a row. */
static void move(const walk *w, const cfx__loop_lane *lane, const cfx_tensor *t, int64_t *index) {
    const cfx__loop *l = w->loop;
    const int outer = l->ndim - l->row;
    plain_number *v = w->values[lane->value];
    const cfx_dtype d = (cfx_dtype)t->dtype;
    if (lane->breadth != CFX__LOOP_WIDE) {
        char *at = element(t, lane->breadth == CFX__LOOP_NARROW_GONE ? outer : l->ndim, index);
        if (lane->write)
            save(d, at, v[0]);
        else
            v[0] = load(d, at);
        return;
    }
    for (int64_t i = 0; i < w->n; i++) {
        char *at = element(t, l->ndim, index);
        if (lane->write)
            save(d, at, v[l->values[lane->value].narrow ? 0 : i]);
        else
            v[i] = load(d, at);
        next(l->row, l->shape + outer, index + outer);
    }
}

static void run_loop(const cfx__loop *l, cfx_tensor *const *lanes) {
    walk w = {.loop = l, .n = cfx__loop_row_length(l)};
    int64_t index[CFX_MAX_DIMS] = {0};
    for (int v = 0; v < l->nvalues; v++) {
        w.values[v] = calloc((size_t)w.n, sizeof *w.values[v]);
        for (int64_t i = 0; i < w.n && l->values[v].number; i++)
            w.values[v][i] = load(l->values[v].dtype, l->values[v].number);
    }
    for (int i = 0; i < l->nsteps; i++)
        w.exprs[i] = l->steps[i].kind == CFX__STEP_EACH ? plain_parse(l->steps[i].says.expr) : NULL;
    do {
        for (int i = 0; i < l->nlanes; i++)
            if (!l->lanes[i].write)
                move(&w, &l->lanes[i], lanes[i], index);
        for (int i = 0; i < l->nsteps; i++)
            run_step(&w, &l->steps[i]);
        for (int i = 0; i < l->nlanes; i++)
            if (l->lanes[i].write)
                move(&w, &l->lanes[i], lanes[i], index);
    } while (next(l->ndim - l->row, l->shape, index));
    for (int v = 0; v < l->nvalues; v++)
        free(w.values[v]);
    for (int i = 0; i < l->nsteps; i++)
        plain_expr_free(w.exprs[i]);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* What an operator of an epilogue does to a number, as it says it itself. */
static bool post_note(const cfx__post *post, cfx__loop_note *note) {
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
    return cfx_ok() && note->kind == CFX__LOOP_EACH && note->says.expr &&
           note->in[0].as == CFX_F32;
}

static bool takes_posts(const cfx__layer *l) {
    for (int i = 0; i < l->epilogue.n; i++) {
        cfx__loop_note note;
        if (!l->epilogue.post[i].op)
            continue;
        plain_expr *e =
            post_note(&l->epilogue.post[i], &note) ? plain_parse(note.says.expr) : NULL;
        plain_expr_free(e);
        if (!e)
            return false;
    }
    return true;
}

static bool is_f32(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_F32;
}

static bool takes(const cfx__layer *l) {
    const cfx_op *op = l->call.op;
    const cfx_value *a = l->call.args;
    const bool product = op == &cfx_op_linear || op == &cfx_op_mm;
    if ((!product && op != &cfx_op_conv2d) || l->epilogue.integers || l->epilogue.narrow ||
        !is_f32(a[0]) || !is_f32(a[1]) || !cfx_as_tensor(a[1])->data ||
        cfx_as_tensor(a[1])->ndim != (product ? 2 : 4) || l->call.out[0]->dtype != CFX_F32)
        return false;
    return (op == &cfx_op_mm || a[2].tag == CFX_TAG_NONE ||
            (is_f32(a[2]) && cfx_as_tensor(a[2])->data)) &&
           cfx_as_tensor(a[0])->ndim >= (product ? 1 : 4) && takes_posts(l);
}

static float at_f32(const cfx_tensor *t, const int64_t *index) {
    return *(const float *)element(t, t->ndim, index);
}

/* The sum of products at one place of the result. */
static double product_at(const cfx__layer *l, const cfx_tensor *x, const int64_t *index) {
    const cfx_tensor *w = cfx_as_tensor(l->call.args[1]), *out = l->call.out[0];
    const int64_t n = x->shape[x->ndim - 1];
    int64_t in[CFX_MAX_DIMS], j = index[out->ndim - 1], row = 0;
    for (int i = 0; i < out->ndim - 1; i++) /* which row: its dims may be others than those of x */
        row = row * out->shape[i] + index[i];
    for (int i = x->ndim - 2; i >= 0; row /= x->shape[i--])
        in[i] = row % x->shape[i];
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t of_w[] = {l->call.op == &cfx_op_mm ? k : j, l->call.op == &cfx_op_mm ? j : k};
        in[x->ndim - 1] = k;
        sum += (double)at_f32(x, in) * (double)at_f32(w, of_w);
    }
    return sum;
}

static int64_t pair_at(cfx_value v, int i) {
    if (v.tag == CFX_TAG_INT)
        return cfx_integer(v);
    const cfx_list *list = cfx_as_list(v);
    return cfx_integer(list->items[list->len == 1 ? 0 : i]);
}

static double conv_at(const cfx__layer *l, const cfx_tensor *x, const int64_t *index) {
    const cfx_value *a = l->call.args;
    const cfx_tensor *w = cfx_as_tensor(a[1]);
    const int64_t groups = cfx_integer(a[6]), each = w->shape[0] / groups;
    double sum = 0;
    for (int64_t c = 0; c < w->shape[1]; c++)
        for (int64_t i = 0; i < w->shape[2]; i++)
            for (int64_t k = 0; k < w->shape[3]; k++) {
                const int64_t of_w[] = {index[1], c, i, k};
                const int64_t in[] = {
                    index[0], index[1] / each * w->shape[1] + c,
                    index[2] * pair_at(a[3], 0) - pair_at(a[4], 0) + i * pair_at(a[5], 0),
                    index[3] * pair_at(a[3], 1) - pair_at(a[4], 1) + k * pair_at(a[5], 1)};
                if (in[2] >= 0 && in[2] < x->shape[2] && in[3] >= 0 && in[3] < x->shape[3])
                    sum += (double)at_f32(x, in) * (double)at_f32(w, of_w);
            }
    return sum;
}

static void run_layer(const cfx__layer *l, const cfx_tensor *x, const cfx_tensor *added,
                      cfx_tensor *out) {
    const bool conv = l->call.op == &cfx_op_conv2d;
    const cfx_value bias = l->call.op == &cfx_op_mm ? cfx_none() : l->call.args[2];
    plain_expr *exprs[CFX__POSTS] = {0};
    plain_number numbers[CFX__POSTS][CFX__LOOP_NUMBERS];
    for (int i = 0; i < l->epilogue.n; i++) {
        cfx__loop_note note;
        if (!l->epilogue.post[i].op || !post_note(&l->epilogue.post[i], &note))
            continue;
        exprs[i] = plain_parse(note.says.expr);
        for (int k = 0; k < CFX__LOOP_NUMBERS; k++)
            numbers[i][k] = plain_float(note.says.f[k]);
    }
    int64_t index[CFX_MAX_DIMS] = {0};
    do {
        plain_number v = plain_float((conv ? conv_at : product_at)(l, x, index));
        if (bias.tag == CFX_TAG_TENSOR)
            v.f += (double)at_f32(cfx_as_tensor(bias), &index[conv ? 1 : out->ndim - 1]);
        for (int i = 0; i < l->epilogue.n; i++)
            v = !l->epilogue.post[i].op ? plain_float(v.f + (double)at_f32(added, index))
                                        : plain_eval(exprs[i], &v, numbers[i], false);
        *(float *)element(out, out->ndim, index) = (float)v.f;
    } while (next(out->ndim, out->shape, index));
    for (int i = 0; i < l->epilogue.n; i++)
        plain_expr_free(exprs[i]);
}

/* ---- the target ------------------------------------------------------------------------------ */

static bool places(const cfx__plan_kernel *k) { return k->op != NULL; }

static const cfx__plan_target plain = {.name = "plain",
                                       .images = CFX_CONTIGUOUS,
                                       .row_most = INT64_MAX,
                                       .takes = takes,
                                       .schedule = schedule,
                                       .places = places};

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct {
    const cfx__plan *plan;
    const cfx_execution *e;
    cfx_tensor *arena;
    cfx_value *values; /* by slot; of the scope */
} run;

static cfx_tensor *tensor_of(const run *r, int slot) { return cfx_as_tensor(r->values[slot]); }

/* Where a slot's result goes: at its offset in the arena, or in memory of its own. */
static cfx_tensor *place_of(const run *r, int slot) {
    const cfx_tensor *like = cfx__plan_made(r->plan, slot);
    const int64_t size = cfx_dtype_size((cfx_dtype)like->dtype), at = r->plan->offset[slot];
    if (at < 0)
        return cfx__tensor_empty(r->e->at, (cfx_dtype)like->dtype, false, like->ndim, like->shape,
                                 like->stride);
    cfx_tensor *t = cfx__tensor_alias(r->arena, like->ndim, like->shape, like->stride, at);
    t->dtype = like->dtype;
    t->offset = at / size;
    return t;
}

/* A value in the strides that the interpreter gives it. */
static cfx_value as_wanted(cfx_value v, cfx_value wanted) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), as_wanted(cfx_at(v, i), cfx_at(wanted, i)));
        return out;
    }
    if (v.tag != CFX_TAG_TENSOR || wanted.tag != CFX_TAG_TENSOR ||
        !cfx__tensor_same_shape(cfx_as_tensor(v), cfx_as_tensor(wanted)) ||
        cfx__plan_lies_like(cfx_as_tensor(v), cfx_as_tensor(wanted)))
        return v;
    const cfx_tensor *t = cfx_as_tensor(v);
    cfx_tensor *to = cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, t->ndim, t->shape,
                                       cfx_as_tensor(wanted)->stride);
    cfx__tensor_copy(to, t);
    return cfx_tensor_value(to);
}

static void reorder(void *user, int slot) {
    const run *r = user;
    r->values[slot] = as_wanted(r->values[slot], r->plan->wanted[slot]);
}

static cfx_value filled(const run *r, cfx_value v) {
    const cfx__run view = {.values = r->values};
    return cfx__run_fill(&view, v);
}

static cfx_value run_call(run *r, int slot) {
    const cfx__plan_kernel *k = &r->plan->kernels[slot];
    const cfx__schema *schema = cfx__op_info_of(k->op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    plain_ran.calls++;
    for (int i = 0; i < k->step->nbound; i++)
        if (!cfx__bind_one(schema, r->e->at, i, filled(r, k->step->bound[i]), cfx__op_mode(k->op),
                           &args[i]))
            return cfx_bad();
    cfx_value v = cfx__op_call_bound(r->e->at, k->op, args);
    if (r->plan->offset[slot] < 0 || !cfx_ok())
        return v;
    cfx_tensor *to = place_of(r, slot);
    plain_ran.placed++;
    cfx__tensor_copy(to, cfx_as_tensor(v));
    return cfx_tensor_value(to);
}

static cfx_value run_higher(run *r, const cfx__plan_kernel *k) {
    const cfx__run_step *s = k->step;
    cfx_value args = filled(r, s->args), kwargs = filled(r, s->kwargs);
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  kwargs.tag == CFX_TAG_DICT ? cfx_as_dict(kwargs) : NULL};
    plain_ran.higher++;
    return cfx__run_higher(cfx__higher_find(s->node->target.name), s->node, a, NULL);
}

static cfx_value run_join(run *r, int slot) {
    const cfx__plan_kernel *k = &r->plan->kernels[slot];
    const cfx_list *parts = cfx_as_list(k->step->bound[0]);
    cfx_tensor *whole = place_of(r, slot);
    int64_t at = 0;
    plain_ran.joins++;
    for (int64_t i = 0; i < parts->len; i++) {
        const cfx_tensor *t = tensor_of(r, (int)parts->items[i].spare);
        cfx_tensor *to = cfx__tensor_alias(whole, t->ndim, t->shape, whole->stride,
                                           whole->offset + at * whole->stride[k->index]);
        if (to->data != t->data)
            cfx__tensor_copy(to, t);
        at += t->shape[k->index];
    }
    return cfx_tensor_value(whole);
}

static cfx_value run_kernel(run *r, int slot) {
    const cfx__plan *p = r->plan;
    const cfx__plan_kernel *k = &p->kernels[slot];
    cfx_tensor *lanes[CFX__LOOP_LANES];
    switch (k->kind) {
    case CFX__PLAN_INPUT: return r->e->inputs.v[k->input];
    case CFX__PLAN_PASS: return r->values[k->x];
    case CFX__PLAN_ITEM: return cfx_at(r->values[k->x], k->index);
    case CFX__PLAN_VIEW: {
        const int root = cfx__plan_root(p, slot);
        plain_ran.views++;
        return cfx__plan_view(p->given[slot], cfx__plan_made(p, root), tensor_of(r, root));
    }
    case CFX__PLAN_CALL: return run_call(r, slot);
    case CFX__PLAN_HIGHER: return run_higher(r, k);
    case CFX__PLAN_JOIN: return run_join(r, slot);
    case CFX__PLAN_LAYER: {
        cfx_tensor *to = place_of(r, slot);
        plain_ran.layers++;
        run_layer(k->layer, tensor_of(r, k->x), k->add < 0 ? NULL : tensor_of(r, k->add), to);
        return cfx_tensor_value(to);
    }
    case CFX__PLAN_LOOP:
        plain_ran.loops++;
        for (int i = 0; i < k->nreads; i++)
            lanes[i] = tensor_of(r, k->reads[i]);
        for (int i = 0; i < k->nwrites; i++)
            r->values[k->writes[i]] =
                cfx_tensor_value(lanes[k->nreads + i] = place_of(r, k->writes[i]));
        run_loop(k->loop, lanes);
        return r->values[slot];
    case CFX__PLAN_OUTPUT: return filled(r, cfx_as_list(k->step->args)->items[0]);
    default: return r->values[slot];
    }
}

/* A kernel that wants to read values as the interpreter has them; later ones read them as they are.
 */
static cfx_value run_in_order(run *r, int slot) {
    const size_t size = (size_t)r->plan->n * sizeof *r->values;
    cfx_value *own = r->values;
    r->values = memcpy(malloc(size), own, size);
    cfx__plan_each_kernel_read(&r->plan->kernels[slot], reorder, r);
    cfx_value v = run_kernel(r, slot);
    free(r->values);
    r->values = own;
    return v;
}

static cfx_value run_plan(void *form, const cfx_execution *e) {
    const cfx__plan *p = form;
    size_t mark = cfx_scope_open();
    const int64_t bytes = p->room_bytes + 64;
    run r = {p, e, cfx__tensor_empty(e->at, CFX_U8, false, 1, &bytes, NULL), NULL};
    r.values = calloc((size_t)p->n + 1, sizeof *r.values);
    memset(r.arena->data, 0xff, (size_t)bytes); /* NaN: what is read before it is written is seen */
    memcpy(r.values, p->constants, (size_t)p->n * sizeof *r.values);
    cfx_value result = cfx_none();
    for (int k = 0; k < p->n && cfx_ok(); k++) {
        r.values[k] = p->kernels[k].reorder ? run_in_order(&r, k) : run_kernel(&r, k);
        if (p->kernels[k].kind == CFX__PLAN_OUTPUT)
            result = r.values[k];
    }
    free(r.values);
    return cfx_scope_return_value(mark, cfx_ok() ? result : cfx_bad());
}

static void *prepare(const cfx_execution *e) { return cfx__plan_make(&plain, e); }
static bool fits(const void *form, const cfx_execution *e) {
    (void)form;
    (void)e;
    return false; /* made for one run */
}

const cfx_executor plain_executor = {"plain", prepare, fits, run_plan, cfx_drop};
