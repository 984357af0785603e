/* Prints a plan: each kernel in order with its arena offset and computation, and the memory
 * needed. */
#include "plan.h"

static void put_value(cfx__text *t, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *x = cfx_as_tensor(v);
        cfx__text_printf(t, "%s%s", cfx_dtype_brief((cfx_dtype)x->dtype),
                         cfx__shape_text(x->ndim, x->shape));
        if (x->ndim == 4 && !cfx__tensor_is_contiguous(x) && cfx__tensor_is_channels_last(x))
            cfx__text_puts(t, " channels last");
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            cfx__text_puts(t, i ? ", " : "");
            put_value(t, cfx_as_list(v)->items[i]);
        }
    } else {
        cfx__text_puts(t, cfx_value_repr(v));
    }
}

/* "loop of add, rsqrt, mul" */
static const char *loop_name(const cfx__plan *p, const cfx__plan_kernel *k) {
    cfx__text t = {0};
    cfx__text_puts(&t, "loop of");
    for (int i = 0; i < k->nchain; i++) {
        cfx_op *op = cfx__plan_op(p->kernels[k->chain[i]].step);
        cfx__text_printf(&t, "%s %s", i ? "," : "", cfx__op_info_of(op)->schema->name);
    }
    return cfx__text_take(&t);
}

const char *cfx__plan_kernel_name(const cfx__plan *p, const cfx__plan_kernel *k) {
    switch (k->kind) {
    case CFX__PLAN_HIGHER:
        return k->step->node->target.name;
    case CFX__PLAN_VIEW:
    case CFX__PLAN_JOIN:
    case CFX__PLAN_CALL:
        return k->op ? cfx_op_name(k->op) : "";
    case CFX__PLAN_LAYER:
        return k->ready ? k->ready->name : cfx_op_name(k->layer->call.op);
    case CFX__PLAN_LOOP:
        return loop_name(p, k);
    default:
        return "";
    }
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static void put_arg(cfx__text *t, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        put_value(t, v);
    else
        cfx__text_puts(t, cfx_value_repr(v));
}

/* How many arguments say more than the defaults behind them. */
static int telling(const cfx__schema *s, const cfx_value *args) {
    int n = s->nargs;
    while (n > 1 && s->args[n - 1].has_default &&
           cfx_equal_values(args[n - 1], s->args[n - 1].fallback))
        n--;
    return n;
}

/* "    = conv2d(x: f32[1, 3, 8, 8], f32[4, 3, 3, 3], None, [1, 1]) then relu": what a layer reads
 * when it runs has a name. */
static void put_layer(cfx__text *t, const cfx__layer *l, const char *x,
                      const char *add) {
    const cfx__schema *schema = cfx__op_info_of(l->call.op)->schema;
    const int last = telling(schema, l->call.args);
    cfx__text_printf(t, "    = %s(", schema->name);
    for (int i = 0; i < last; i++) {
        cfx__text_puts(t, i ? ", " : "");
        if (i == l->input)
            cfx__text_printf(t, "%s: ", x);
        put_arg(t, l->call.args[i]);
    }
    cfx__text_putc(t, ')');
    if (l->epilogue.narrow)
        cfx__text_printf(t, " with a weight of %d bits", l->epilogue.narrow->bits);
    if (l->epilogue.narrow && l->epilogue.narrow->block)
        cfx__text_printf(t, ", its input rounded to int8 in blocks of %lld",
                         (long long)l->epilogue.narrow->block);
    if (l->epilogue.integers)
        cfx__text_puts(t, " in integers");
    for (int i = 0; i < l->epilogue.n; i++) {
        const cfx__post *post = &l->epilogue.post[i];
        if (!post->op) {
            cfx__text_printf(t, " + %s", add);
            continue;
        }
        const cfx__schema *s = cfx__op_info_of(post->op)->schema;
        const int given = telling(s, post->args);
        cfx__text_printf(t, " then %s", s->name);
        for (int k = 1; k < given; k++) {
            cfx__text_puts(t, k > 1 ? ", " : "(");
            put_arg(t, post->args[k]);
        }
        cfx__text_puts(t, given > 1 ? ")" : "");
    }
    cfx__text_putc(t, '\n');
}

static const char *name_of(const cfx__plan *p, int slot) {
    return slot < 0 ? "itself" : p->kernels[slot].step->node->name;
}

/* What a kernel computes, below its line. */
static void put_description(cfx__text *t, const cfx__plan *p, const cfx__plan_kernel *k) {
    if (k->kind == CFX__PLAN_LAYER) {
        const cfx__plan_kernel *first = k->first >= 0 ? &p->kernels[k->first] : NULL;
        if (first)
            put_layer(t, first->layer, name_of(p, k->x), "");
        put_layer(t, k->layer, name_of(p, first ? k->first : k->x), name_of(p, k->add));
    } else if (k->kind == CFX__PLAN_LOOP) {
        const char *names[CFX__LOOP_LANES];
        for (int i = 0; i < k->nreads; i++)
            names[i] = name_of(p, k->reads[i]);
        for (int i = 0; i < k->nwrites; i++)
            names[k->nreads + i] = name_of(p, k->writes[i]);
        cfx__loop_put(t, k->loop, "    ", names);
    }
}

/* Whether a kernel computes: what is only passed on is no line. */
static bool computes(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_CALL || k->kind == CFX__PLAN_LAYER || k->kind == CFX__PLAN_LOOP ||
           k->kind == CFX__PLAN_JOIN || k->kind == CFX__PLAN_HIGHER;
}

static int64_t bytes_of(cfx_value v) {
    int64_t sum = 0;
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v)->numel * cfx_dtype_size((cfx_dtype)cfx_as_tensor(v)->dtype);
    for (int64_t i = 0;
         (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && i < cfx_as_list(v)->len; i++)
        sum += bytes_of(cfx_as_list(v)->items[i]);
    return sum;
}

/* Bytes of results that live at once outside the room, at most. */
static int64_t peak_of(const cfx__plan *p) {
    int64_t now = 0, peak = 0;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        for (int i = 0; i < kernel->nwrites; i++)
            now += p->offset[kernel->writes[i]] < 0 ? bytes_of(p->given[kernel->writes[i]]) : 0;
        if (computes(kernel) && kernel->kind != CFX__PLAN_LOOP && p->offset[k] < 0)
            now += bytes_of(p->given[k]);
        peak = now > peak ? now : peak;
        for (int i = 0; i < kernel->nfrees; i++) {
            const int freed = kernel->frees[i];
            if ((computes(&p->kernels[freed]) || p->kernels[freed].stored) && p->offset[freed] < 0)
                now -= bytes_of(p->given[freed]);
        }
    }
    return peak;
}

static int parts_in_place(const cfx__plan *p, int slot) {
    int n = 0;
    for (int k = 0; k < slot; k++)
        n += p->home[k] == slot && p->offset[k] >= 0 &&
             p->offset[k] == p->offset[slot] + cfx__plan_home_offset(p, k);
    return n;
}

/* Where a view lies: in which memory, from which element, with which strides. */
static void put_look(cfx__text *t, const cfx__plan *p, int slot) {
    const cfx_value v = p->given[slot];
    const bool several = v.tag != CFX_TAG_TENSOR;
    cfx__text_printf(t, ", %s of %s", several ? "views" : "a view",
                     name_of(p, cfx__plan_root(p, slot)));
    for (int64_t i = 0; i < (several ? cfx_as_list(v)->len : 1); i++) {
        const cfx_tensor *x = cfx_as_tensor(several ? cfx_as_list(v)->items[i] : v);
        cfx__text_printf(t, "%s from %lld, strides %s", i ? ";" : "", (long long)x->offset,
                         cfx__shape_text(x->ndim, x->stride));
    }
}

/* What lowering knows of a slot that is no kernel yet. */
static void put_marks(cfx__text *t, const cfx__lowering *l, int k) {
    const struct {
        bool is;
        const char *word;
    } marks[] = {{!cfx_is_bad(l->plan->constants[k]), "constant"},
                 {l->varies[k], "varies"},
                 {l->put_off[k], "put off"},
                 {l->passed[k], "passed by"},
                 {l->taken[k], "inside another kernel"},
                 {l->ordered[k], "ordered"},
                 {l->written[k], "written to"},
                 {l->joins[k], "a concatenation in place"}};
    for (int i = 0; i < COUNT(marks); i++)
        if (marks[i].is)
            cfx__text_printf(t, "; %s", marks[i].word);
    if (l->plan->home[k] >= 0)
        cfx__text_printf(t, "; part of %s", name_of(l->plan, l->plan->home[k]));
    if (l->group[k] >= 0)
        cfx__text_printf(t, "; in loop %d", l->group[k]);
}

/* A slot that no kernel computes, or not yet. */
static void put_slot(cfx__text *t, const cfx__lowering *l, int k) {
    const cfx__run_step *s = l->plan->kernels[k].step;
    const cfx_value v = l->plan->given[k];
    cfx__text_printf(t, "%-28s %s", s->node->name,
                     s->op ? cfx_op_name(s->op) : cfx_opcode_name(s->node->op));
    if (!cfx_is_none(v) && !cfx_is_bad(v)) {
        cfx__text_puts(t, " -> ");
        put_value(t, v);
    }
    put_marks(t, l, k);
    cfx__text_putc(t, '\n');
}

static void put_kernel(cfx__text *t, const cfx__plan *p, int k) {
    const cfx__plan_kernel *kernel = &p->kernels[k];
    cfx__text_printf(t, "%-28s %-34s ", kernel->step->node->name,
                     cfx__plan_kernel_name(p, kernel));
    put_value(t, p->given[k]);
    if (kernel->kind == CFX__PLAN_JOIN)
        cfx__text_printf(t, ", %d of %d parts in place", parts_in_place(p, k),
                         (int)cfx_as_list(kernel->step->bound[0])->len);
    if (kernel->kind == CFX__PLAN_VIEW)
        put_look(t, p, k);
    if (p->offset[k] >= 0)
        cfx__text_printf(t, " at %lld", (long long)p->offset[k]);
    cfx__text_putc(t, '\n');
    put_description(t, p, kernel);
}

void cfx__plan_put(cfx__text *t, const cfx__plan *p, const cfx__lowering *l) {
    int kernels = 0, views = 0, constants = 0, fused = 0;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        bool constant = !cfx_is_bad(p->constants[k]);
        constants += constant && kernel->step->op;
        fused += !constant && kernel->kind == CFX__PLAN_NONE;
        kernels += computes(kernel);
        views += kernel->kind == CFX__PLAN_VIEW;
        if (computes(kernel) || kernel->kind == CFX__PLAN_VIEW)
            put_kernel(t, p, k);
        else if (l)
            put_slot(t, l, k);
    }
    if (!l)
        cfx__text_printf(t,
                         "%d kernels, %d views; %d nodes inside others, %d constant; %d thread%s; "
                         "memory %.1f MB in one block, other results %.1f MB at most\n",
                         kernels, views, fused, constants, p->threads, p->threads == 1 ? "" : "s",
                         (double)(p->room_bytes + p->scratch) / 1e6, (double)peak_of(p) / 1e6);
}

static const char *plan_text(const cfx__plan *p) {
    cfx__text t = {0};
    cfx__plan_put(&t, p, NULL);
    return cfx__text_take(&t);
}

/* The plan of a run, or what lowering has of it after a pass. */
static const char *text_of(const cfx_execution *e, const char *after) {
    if (after)
        return cfx__plan_after(&cfx__plan_cpu, e, after);
    cfx__plan *p = cfx__plan_make(&cfx__plan_cpu, e);
    const char *text = p ? plan_text(p) : "";
    if (!p)
        cfx_error_clear(); /* as when it runs: the interpreter does, and says what is wrong */
    cfx_drop(p);
    return text;
}

const char *cfx_program_plan_after_from(cfx_site at, cfx_program *p, const char *pass, cfx_args a) {
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx_value inputs = cfx_program_inputs_from(at, p, a);
    const char *text = NULL;
    if (!cfx_is_bad(inputs)) {
        cfx__bound *b = cfx__program_weights(p);
        cfx_execution e = cfx__program_execution(at, p, b, inputs);
        e.graph = p->module->graph;
        text = text_of(&e, pass);
        cfx_drop(b);
    }
    cfx_set_grad_mode(before);
    cfx_value out = text ? cfx_string_value(text) : cfx_none();
    return cfx_text(cfx_scope_return_value(mark, out));
}

const char *cfx_program_plan_from(cfx_site at, cfx_program *p, cfx_args a) {
    return cfx_program_plan_after_from(at, p, NULL, a);
}
