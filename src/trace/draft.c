/* Draft export: what the data of the example says; see draft.h. Start at cfx__draft_decide. */
#include "draft.h"

#include <cfx/ops.h>

#include "export.h"
#include "relations.h"

/* ---- the example ----------------------------------------------------------------------------- */

static void note_size(cfx__draft *d, int64_t n) { VEC_PUSH(d->numbers, n); }

/* Of masks among indices: how many elements each picks. */
static void note_masks(cfx__draft *d, cfx_value indices) {
    bool list = indices.tag == CFX_TAG_LIST || indices.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(indices)->len; i++) {
        cfx_value v = cfx_as_list(indices)->items[i];
        const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
        if (t && (t->dtype == CFX_BOOL || t->dtype == CFX_U8))
            note_size(d, cfx_integer(cfx_item(cfx_count_nonzero(t))));
    }
}

/* Where a recording asks for a symbol, the number that the example has there. */
static void note_result(cfx__draft *d, cfx_op *op, cfx_args args, cfx_value v) {
    const char *name = cfx__op_info_of(op)->schema->name;
    bool several = (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && cfx_as_list(v)->len;
    cfx_value first = several ? cfx_as_list(v)->items[0] : v;
    if (op == &cfx_op_item || op == &cfx_op__local_scalar_dense) {
        if (v.tag == CFX_TAG_FLOAT)
            VEC_PUSH(d->reals, cfx_number(v));
        else if (v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL)
            note_size(d, cfx_integer(v));
    } else if (!strcmp(name, "index") && args.n > 1) {
        note_masks(d, args.v[1]);
    } else if ((op->effects & CFX_DATA_SHAPE || !strcmp(name, "repeat_interleave")) &&
               first.tag == CFX_TAG_TENSOR && cfx_as_tensor(first)->ndim) {
        note_size(d, cfx_as_tensor(first)->shape[0]);
    }
}

static cfx_value see(cfx_mode *self, cfx_target target, cfx_args args) {
    cfx_value v = cfx_mode_forward(self, target, args);
    if (cfx_ok() && target.op)
        note_result(self->user, target.op, args, v);
    return v;
}

cfx_value cfx__draft_copied(cfx_value v) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value spec = cfx_tree_flatten(v, leaves), out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < leaves->len; i++) {
        cfx_value leaf = leaves->items[i];
        cfx_list_append(cfx_as_list(out), leaf.tag == CFX_TAG_TENSOR
                                              ? cfx_tensor_value(cfx_clone(leaf))
                                              : leaf);
    }
    return cfx_tree_unflatten(spec, cfx_as_list(out));
}

bool cfx__draft_begin(cfx__draft *d, cfx_module *m, cfx_value args, cfx_value kwargs) {
    cfx_mode mode = {.handle = see, .user = d};
    size_t mark = cfx_scope_open();
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    *d = (cfx__draft){.failures = cfx_keep(cfx_as_list(cfx_list_value(0, NULL)))};
    cfx_value a = cfx__draft_copied(args), kw = cfx__draft_copied(kwargs);
    cfx_module *copy = cfx_module_copy(m); /* forward may write to its buffers */
    cfx_dispatch_mode_push(&mode);
    if (cfx_ok())
        cfx_forward_value_from((cfx_site){0}, copy,
                               (cfx_args){(int)cfx_as_list(a)->len, cfx_as_list(a)->items,
                                          cfx_as_dict(kw)->len ? cfx_as_dict(kw) : NULL});
    cfx_dispatch_mode_pop();
    cfx_set_grad_mode(grad);
    cfx_scope_close(mark);
    return cfx_ok();
}

void cfx__draft_end(cfx__draft *d) {
    VEC_FREE(d->numbers);
    VEC_FREE(d->reals);
    cfx_drop(d->failures);
}

/* ---- what is told ---------------------------------------------------------------------------- */

void cfx__draft_note(cfx__draft *d, const char *kind, const char *text, const char *line,
                     cfx_value value) {
    for (int64_t i = 0; i < d->failures->len; i++) {
        cfx_dict *had = cfx_as_dict(d->failures->items[i]);
        if (!strcmp(cfx_text(cfx_dict_get(had, "expression")), text) &&
            !strcmp(cfx_text(cfx_dict_get(had, "line")), line))
            return;
    }
    cfx_dict *told = cfx_dict_new();
    cfx_dict_set(told, "kind", cfx_string_value(kind));
    cfx_dict_set(told, "expression", cfx_string_value(text));
    cfx_dict_set(told, "line", cfx_string_value(line));
    cfx_dict_set(told, "value", cfx_string_value(cfx_value_repr(value)));
    cfx_list_append(d->failures, cfx_dict_value(told));
}

static void note_read(cfx__export *e, cfx_site at, const char *text, cfx_value value) {
    cfx__text frame = {0};
    cfx__export_put_frame(e, &frame, at);
    cfx__draft_note(e->dims->draft, "data", text, cfx__text_take(&frame), value);
}

/* ---- numbers of the example ------------------------------------------------------------------ */

/* The number of a symbol for data: that of "u3" or "zuf3". False where the example did not get so
 * far. */
static bool number_of(const cfx__draft *d, const char *symbol, double *out) {
    bool real = !strncmp(symbol, "zuf", 3);
    size_t i = (size_t)atoll(symbol + (real ? 3 : 1));
    if (i >= (real ? d->reals.len : d->numbers.len))
        return false;
    *out = real ? d->reals.data[i] : (double)d->numbers.data[i];
    return true;
}

static bool computed(const char *function, double a, double b, double *out) {
    cfx__rel op;
    const char *name = strrchr(function, '.') ? strrchr(function, '.') + 1 : function;
    if (cfx__relation_named(function, &op)) {
        *out = op == CFX__EQ   ? a == b
               : op == CFX__NE ? a != b
               : op == CFX__LT ? a < b
               : op == CFX__LE ? a <= b
               : op == CFX__GT ? a > b
                               : a >= b;
        return true;
    }
    static const char names[][8] = {"add", "sub", "mul", "truediv", "neg", "not_", "sym_not"};
    int which = 0;
    while (which < COUNT(names) && strcmp(names[which], name))
        which++;
    const double all[] = {a + b, a - b, a * b, a / b, -a, a == 0, a == 0};
    if (which < COUNT(names))
        *out = all[which];
    return which < COUNT(names);
}

/* What a marked number is in the example. */
static bool real_of(const cfx__export *e, cfx_value v, double *out) {
    const cfx__mark *m = cfx__mark_of(&e->recorder, v);
    double of[2] = {0};
    if (!m || !m->data) {
        *out = cfx_number(cfx__value_plain(v));
        return true;
    }
    if (m->symbol)
        return number_of(e->dims->draft, m->symbol, out);
    for (int i = 0; i < m->n; i++)
        if (!real_of(e, m->of[i], &of[i]))
            return false;
    return m->function && computed(m->function, of[0], of[1], out);
}

static bool look_up(const cfx_sym *name, void *user, int64_t *out) {
    const cfx__export *e = user;
    const cfx__symbol *s = cfx__worlds_find(&e->dims->worlds, name->name);
    double number;
    if (*name->name == 'u' && number_of(e->dims->draft, name->name, &number)) {
        *out = (int64_t)number;
        return true;
    }
    *out = s ? s->size.at[0] : 0;
    return s && *name->name != 'u';
}

/* The value of an expression of symbols in the example. */
static bool whole_of(cfx__export *e, cfx_value expr, int64_t *out) {
    if (expr.tag == CFX_TAG_INT)
        *out = cfx_integer(expr);
    return expr.tag == CFX_TAG_INT ||
           (expr.tag == CFX_TAG_SYM && cfx__sym_eval(cfx_as_sym(expr), look_up, e, out));
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* A truth: the relation, or its opposite, is assumed. */
static bool decide_truth(cfx__export *e, cfx_site at, cfx_value v, cfx_value *out) {
    cfx__recorder *r = &e->recorder;
    cfx__relation relation;
    int64_t a, b;
    double real = 0;
    bool whole = cfx__mark_relation(r, v, &relation) && whole_of(e, relation.a, &a) &&
                 whole_of(e, relation.b, &b);
    if (whole)
        computed(cfx__relation_function(relation.op), (double)a, (double)b, &real);
    else if (!real_of(e, v, &real))
        return false;
    *out = cfx_bool(real != 0);
    if (!cfx__mark_known(r, v, &(cfx_value){0}))
        note_read(e, at, cfx__mark_text(r, v), *out);
    if (whole && cfx__check_assume(r, at, real ? relation : cfx__relation_not(relation)))
        return true;
    cfx_value holds = real ? v : cfx_py_from(at, "torch.sym_not", CFX_ARGS(v));
    cfx__check_assert(r, at, holds);
    return cfx_ok();
}

/* An integer is what it was from now on. */
static bool decide_whole(cfx__export *e, cfx_site at, cfx_value v, cfx_value *out) {
    cfx_value expr = cfx__mark_expr(&e->recorder, v);
    int64_t n;
    if (expr.tag != CFX_TAG_SYM || !whole_of(e, expr, &n))
        return false;
    *out = cfx_int(n);
    if (!cfx__mark_known(&e->recorder, v, &(cfx_value){0}))
        note_read(e, at, cfx_value_str(expr), *out);
    return cfx__check_assume(&e->recorder, at, (cfx__relation){CFX__EQ, expr, *out});
}

bool cfx__draft_decide(cfx__export *e, cfx_site at, cfx_value v, cfx_value *out) {
    double real;
    if (!e->dims->draft)
        return false;
    if (v.tag == CFX_TAG_BOOL)
        return decide_truth(e, at, v, out);
    if (v.tag == CFX_TAG_INT)
        return decide_whole(e, at, v, out);
    if (!real_of(e, v, &real))
        return false;
    *out = cfx_float(real);
    note_read(e, at, cfx__mark_text(&e->recorder, v), *out);
    cfx__check_assert(&e->recorder, at, cfx_py_from(at, "operator.eq", CFX_ARGS(v, *out)));
    return cfx_ok();
}

bool cfx__draft_fix(cfx__export *e, cfx_site at, cfx_value size, const char *text) {
    int64_t n;
    const char *rest;
    cfx_value expr = cfx__mark_expr(&e->recorder, size);
    if (text && (!cfx__sym_parse(text, text + strlen(text), &rest, &expr) || *rest))
        return false;
    if (!e->dims->draft || expr.tag != CFX_TAG_SYM || !whole_of(e, expr, &n))
        return false;
    note_read(e, at, cfx_value_str(expr), cfx_int(n));
    cfx__relation_assume(&e->dims->worlds, &(cfx__relation){CFX__EQ, expr, cfx_int(n)});
    return true;
}
