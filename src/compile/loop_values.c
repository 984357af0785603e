/* The values of a loop: the results of steps, and the parts of a row's softmax or norm (row
 * reductions and what is computed from them). Start at cfx__c_loop_add_values. */
#include "loops.h"

typedef cfx__c_loop_value value;
typedef cfx__c_loop_writer writer;

static int add(writer *w, value v) {
    for (int i = 0; i < v.n; i++)
        if (w->v[v.in[i]].level > v.level)
            v.level = w->v[v.in[i]].level;
    if (v.kind == FOLD)
        v.level++;
    w->v[w->n] = v;
    return w->n++;
}

static int text(writer *w, cfx_dtype d, bool narrow, const char *fmt, int n, int a, int b, int c) {
    return add(
        w,
        (value){.kind = TEXT, .dtype = d, .narrow = narrow, .text = fmt, .n = n, .in = {a, b, c}});
}

static int fold(writer *w, cfx__loop_fold how, int x, cfx_dtype d) {
    return add(w,
               (value){.kind = FOLD, .dtype = d, .narrow = true, .fold = how, .n = 1, .in = {x}});
}

static int softmax(writer *w, const cfx__loop_step *s, cfx_dtype d) {
    const int x = w->of[s->in[0]];
    const int top = fold(w, CFX__FOLD_MAX, x, d);
    const bool wide = d == CFX_F64;
    const int e =
        text(w, d, false, wide ? "exp($0 - $1)" : cfx__text_format("%s_exp($0 - $1)", w->c->name),
             2, x, top, 0);
    const int sum = fold(w, CFX__FOLD_SUM, e, d);
    if (s->says.row == CFX__ROW_LOG_SOFTMAX) {
        const int log = text(w, d, true, wide ? "$0 + log($1)" : "$0 + logf($1)", 2, top, sum, 0);
        return text(w, d, false, "$0 - $1", 2, x, log, 0);
    }
    const int part = text(w, d, true, wide ? "1.0 / $0" : "1.0f / $0", 1, sum, 0, 0);
    if (s->says.row == CFX__ROW_SAFE_SOFTMAX)
        return text(w, d, false,
                    wide ? "$2 == -(double)INFINITY ? 0.0 : $0 * $1"
                         : "$2 == -INFINITY ? 0.0f : $0 * $1",
                    3, e, part, top);
    return text(w, d, false, "$0 * $1", 2, e, part, 0);
}

static int norm(writer *w, const cfx__loop_step *s, cfx_dtype d) {
    const int x = w->of[s->in[0]];
    const bool centred = s->says.row == CFX__ROW_LAYER_NORM, wide = d == CFX_F64;
    int at = 1, off = x;
    if (centred)
        off = text(w, d, false, "$0 - $1", 2, x, fold(w, CFX__FOLD_MEAN, x, d), 0);
    const int square = text(w, d, false, "$0 * $0", 1, off, 0, 0);
    const int mean = fold(w, CFX__FOLD_MEAN, square, d);
    const char *eps = cfx__c_number(d, s->says.f[0], 0);
    const int scale = text(
        w, d, true, cfx__text_format(wide ? "1.0 / sqrt($0 + %s)" : "1.0f / sqrtf($0 + %s)", eps),
        1, mean, 0, 0);
    int v = text(w, d, false, "$0 * $1", 2, off, scale, 0);
    if (s->says.affine & CFX__ROW_WEIGHT)
        v = text(w, d, false, "$0 * $1", 2, v, w->of[s->in[at++]], 0);
    if (s->says.affine & CFX__ROW_BIAS)
        v = text(w, d, false, "$0 + $1", 2, v, w->of[s->in[at]], 0);
    return v;
}

static void add_step(writer *w, const cfx__loop_step *s) {
    const cfx__loop_value *out = &w->l->values[s->out];
    value v = {.dtype = out->dtype, .narrow = out->narrow, .n = s->n, .step = s};
    for (int i = 0; i < s->n; i++)
        v.in[i] = w->of[s->in[i]];
    int made;
    switch (s->kind) {
    case CFX__STEP_EACH:
        v.kind = EACH;
        made = add(w, v);
        break;
    case CFX__STEP_FOLD:
        made = fold(w, s->says.fold, v.in[0], out->dtype);
        break;
    case CFX__STEP_ROW:
        made =
            s->says.row >= CFX__ROW_LAYER_NORM ? norm(w, s, out->dtype) : softmax(w, s, out->dtype);
        break;
    case CFX__STEP_WIDEN: /* a narrow value is there for every element */
        made = w->v[v.in[0]].dtype == out->dtype ? v.in[0]
                                                 : add(w, (value){.kind = CONVERT,
                                                                  .dtype = out->dtype,
                                                                  .n = 1,
                                                                  .narrow = w->v[v.in[0]].narrow,
                                                                  .in = {v.in[0]}});
        break;
    default:
        v.kind = CONVERT;
        made = add(w, v);
    }
    w->of[s->out] = made;
}

/* The text of a number; of a complex one that is real, of that. */
static const char *number_of(writer *w, const cfx__loop_value *x) {
    double parts[2] = {0};
    int64_t whole = 0;
    if (!cfx__dtype_is_complex(x->dtype)) {
        cfx__convert((char *)parts, 8, CFX_F64, x->number, 0, x->dtype, 1);
        cfx__convert((char *)&whole, 8, CFX_I64, x->number, 0, x->dtype, 1);
        return cfx__c_number(x->dtype, parts[0], whole);
    }
    const bool wide = x->dtype == CFX_C128;
    cfx__convert((char *)parts, 16, CFX_C128, x->number, 0, x->dtype, 1);
    const char *re = cfx__c_number(cfx__c_part(x->dtype), parts[0], 0);
    const char *im = cfx__c_number(cfx__c_part(x->dtype), parts[1], 0);
    return parts[1] == 0 ? re
                         : cfx__text_format("%s(%s, %s)",
                                            cfx__c_kernel(w->c, wide ? "complex" : "complexf"), re,
                                            im);
}

void cfx__c_loop_add_values(writer *w, const char *const *numbers) {
    const cfx__loop *l = w->l;
    for (int i = 0; i < l->nvalues; i++) {
        const cfx__loop_value *x = &l->values[i];
        value v = {.kind = NUMBER, .dtype = x->dtype, .narrow = x->narrow, .lane = x->lane};
        if (x->lane >= 0) {
            v.kind = LOAD;
            v.number = numbers ? numbers[x->lane] : NULL;
            v.kind = v.number ? NUMBER : LOAD;
        } else if (x->number) {
            v.number = number_of(w, x);
        } else {
            continue;
        }
        w->of[i] = add(w, v);
    }
    for (int i = 0; i < l->nsteps; i++)
        add_step(w, &l->steps[i]);
}
