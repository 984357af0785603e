/* Loops: the steps of several calls, element by element; over rows, in as many passes as folds of
 * the row ask for. A value that a later pass needs is read again where it comes from memory, else
 * kept in a row of scratch. Start at cfx__c_loop. */
#include "compile.h"

typedef enum { LOAD, NUMBER, EACH, CONVERT, FOLD, TEXT } kind;

/* A value of the loop, and what makes it: steps, with those of whole rows taken apart. */
typedef struct {
    kind kind;
    cfx_dtype dtype;
    bool narrow;
    int level; /* the pass that computes it; of a narrow one, the first that can use it */
    int n, in[CFX__LOOP_OPERANDS];
    int lane;                   /* LOAD */
    const char *number;         /* NUMBER: its text */
    const cfx__loop_step *step; /* EACH */
    cfx__loop_fold fold;        /* FOLD */
    const char *text;           /* TEXT: $0, $1, ... are the operands */
    int64_t buffer;             /* bytes from the start of scratch; -1: it is not kept */
    const char *name;           /* while a pass is written; NULL: not there */
} value;

enum { MOST = 4 * CFX__LOOP_VALUES };

typedef struct {
    cfx__c_unit *u;
    cfx__c *c;
    const cfx__loop *l;
    const cfx__c_ref *lanes[CFX__LOOP_LANES];
    const char *pointers[CFX__LOOP_LANES];
    int n;
    value v[MOST];
    int of[CFX__LOOP_VALUES]; /* value of the description to one here */
    int passes;
    cfx__c_walk outer, inner;
    int in_outer[CFX__LOOP_LANES], in_inner[CFX__LOOP_LANES], in_row;
    int64_t scratch;
    bool wrong;
} writer;

bool cfx__c_loop_known(const cfx__loop *l, bool card) {
    for (int i = 0; i < l->nvalues; i++)
        if (!cfx__c_type(l->values[i].dtype) || cfx__dtype_is_complex(l->values[i].dtype))
            return false;
    for (int i = 0; i < l->nsteps; i++)
        if (l->steps[i].kind == CFX__STEP_EACH && !cfx__c_expr_known(l->steps[i].says.expr, card))
            return false;
    return l->nvalues < CFX__LOOP_VALUES / 2;
}

/* ---- values ---------------------------------------------------------------------------------- */

static int add(writer *w, value v) {
    v.buffer = -1;
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

static void add_values(writer *w, const char *const *numbers) {
    const cfx__loop *l = w->l;
    for (int i = 0; i < l->nvalues; i++) {
        const cfx__loop_value *x = &l->values[i];
        value v = {.kind = NUMBER, .dtype = x->dtype, .narrow = x->narrow, .lane = x->lane};
        if (x->lane >= 0) {
            v.kind = LOAD;
            v.number = numbers ? numbers[x->lane] : NULL;
            v.kind = v.number ? NUMBER : LOAD;
        } else if (x->number) {
            double f = 0;
            int64_t whole = 0;
            cfx__convert((char *)&f, 8, CFX_F64, x->number, 0, x->dtype, 1);
            cfx__convert((char *)&whole, 8, CFX_I64, x->number, 0, x->dtype, 1);
            v.number = cfx__c_number(x->dtype, f, whole);
        } else {
            continue;
        }
        w->of[i] = add(w, v);
    }
    for (int i = 0; i < l->nsteps; i++)
        add_step(w, &l->steps[i]);
}

/* ---- text of values -------------------------------------------------------------------------- */

static const char *place(const writer *w, int lane) {
    const char *a = cfx__c_at(&w->outer, w->in_outer[lane]);
    const bool narrow = w->l->lanes[lane].breadth != CFX__LOOP_WIDE;
    const char *b = narrow ? "0" : cfx__c_at(&w->inner, w->in_inner[lane]);
    if (!strcmp(a, "0"))
        return b;
    return !strcmp(b, "0") ? a : cfx__text_format("%s + %s", a, b);
}

/* The operands of a TEXT in their places. */
static const char *filled(const writer *w, const value *v) {
    cfx__text t = {0};
    for (const char *at = v->text; *at; at++)
        if (*at == '$')
            cfx__text_puts(&t, w->v[v->in[*++at - '0']].name);
        else
            cfx__text_putc(&t, *at);
    return cfx__text_take(&t);
}

static const char *made_text(writer *w, const value *v, const char *stem) {
    cfx__c_term in[CFX__LOOP_OPERANDS];
    switch (v->kind) {
    case LOAD:
        return cfx__c_convert(w->c,
                              cfx__c_load(w->c, w->pointers[v->lane], place(w, v->lane),
                                          w->lanes[v->lane]->dtype),
                              w->lanes[v->lane]->dtype, v->dtype);
    case CONVERT:
        return cfx__c_convert(w->c, w->v[v->in[0]].name, w->v[v->in[0]].dtype, v->dtype);
    case TEXT:
        return filled(w, v);
    default:
        for (int i = 0; i < v->n; i++)
            in[i] = (cfx__c_term){w->v[v->in[i]].name, w->v[v->in[i]].dtype};
        const char *t = cfx__c_expr(w->c, stem, v->step->says.expr, v->n, in, v->step->says.f,
                                    v->step->says.i, v->dtype);
        w->wrong |= !t;
        /* what an operator gives in halves it rounds to them */
        return t && cfx__dtype_is_half(v->dtype) ? cfx__c_convert(w->c, t, CFX_F32, v->dtype)
               : t                               ? t
                                                 : "0";
    }
}

/* Writes the line that makes a value, unless it has one in this place already. */
static void make(writer *w, int i, int pass) {
    value *v = &w->v[i];
    if (v->name)
        return;
    if (v->kind == NUMBER) {
        v->name = v->number;
        return;
    }
    const char *name = cfx__text_format("v%d", i), *type = cfx__c_value_type(v->dtype);
    if (!v->narrow && v->level < pass && v->buffer >= 0) {
        cfx__c_line(w->c, "const %s %s = r%d[%s];", type, name, i, cfx__c_at(&w->inner, w->in_row));
        v->name = name;
        return;
    }
    for (int k = 0; k < v->n; k++)
        make(w, v->in[k], pass);
    const char *made = made_text(w, v, name);
    cfx__c_line(w->c, "const %s %s = %s;", type, name, made);
    v->name = name;
}

/* ---- folds ----------------------------------------------------------------------------------- */

static bool is_whole(cfx_dtype d) { return !cfx__dtype_is_float(d); }

static void begin_fold(writer *w, int i) {
    const value *v = &w->v[i];
    const cfx_dtype d = w->v[v->in[0]].dtype;
    const char *type = "double", *start = "0";
    switch (v->fold) {
    case CFX__FOLD_COUNT:
        type = "int64_t";
        break;
    case CFX__FOLD_ANY:
        type = "int";
        break;
    case CFX__FOLD_ALL:
        type = "int", start = "1";
        break;
    case CFX__FOLD_MAX:
    case CFX__FOLD_MIN:
        type = is_whole(d) ? "int64_t" : cfx__c_value_type(d);
        start = v->fold == CFX__FOLD_MAX ? is_whole(d) ? "INT64_MIN" : "-INFINITY"
                : is_whole(d)            ? "INT64_MAX"
                                         : "INFINITY";
        if (d == CFX_F64)
            start = v->fold == CFX__FOLD_MAX ? "-(double)INFINITY" : "(double)INFINITY";
        break;
    default:
        type = is_whole(d) ? "int64_t" : "double";
        start = v->fold == CFX__FOLD_PROD ? "1" : "0";
    }
    cfx__c_line(w->c, "%s sum%d = %s;", type, i, start);
}

static void go_on_fold(writer *w, int i) {
    const value *v = &w->v[i];
    const char *x = w->v[v->in[0]].name;
    const bool whole = is_whole(w->v[v->in[0]].dtype);
    const char op = v->fold == CFX__FOLD_PROD ? '*' : '+';
    switch (v->fold) {
    case CFX__FOLD_COUNT:
        cfx__c_line(w->c, "sum%d += %s != 0;", i, x);
        break;
    case CFX__FOLD_ANY:
        cfx__c_line(w->c, "sum%d |= %s != 0;", i, x);
        break;
    case CFX__FOLD_ALL:
        cfx__c_line(w->c, "sum%d &= %s != 0;", i, x);
        break;
    case CFX__FOLD_MAX:
    case CFX__FOLD_MIN:
        cfx__c_line(w->c, "sum%d = %s %c sum%d%s ? %s : sum%d;", i, x,
                    v->fold == CFX__FOLD_MAX ? '>' : '<', i,
                    whole ? "" : cfx__text_format(" || %s != %s", x, x), x, i);
        break;
    case CFX__FOLD_NANSUM:
        cfx__c_line(w->c, "sum%d += %s != %s ? 0.0 : (double)%s;", i, x, x, x);
        break;
    default:
        if (whole)
            cfx__c_line(w->c, "sum%d = (int64_t)((uint64_t)sum%d %c (uint64_t)%s);", i, i, op, x);
        else
            cfx__c_line(w->c, "sum%d %c= (double)%s;", i, op, x);
    }
}

/* The narrow value of a fold that a pass has ended. */
static void end_fold(writer *w, int i) {
    value *v = &w->v[i];
    if (w->c->card)
        w->c->card->fold(w->c, v->fold, cfx__text_format("sum%d", i));
    const char *type = cfx__c_value_type(v->dtype);
    const char *sum = cfx__text_format("sum%d", i);
    if (v->fold == CFX__FOLD_MEAN) /* a division of doubles is a function of its own on a card */
        sum = cfx__text_format(w->c->card ? "(sum%d * (1.0 / %lld.0))" : "(sum%d / %lld.0)", i,
                               (long long)cfx__loop_row_length(w->l));
    v->name = cfx__text_format("v%d", i);
    const char *made = cfx__text_format("(%s)%s", type, sum);
    if (cfx__dtype_is_half(v->dtype))
        made = cfx__c_convert(w->c, made, CFX_F32, v->dtype);
    cfx__c_line(w->c, "const %s %s = %s;", type, v->name, made);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Whether a value can be had again as cheaply as it could be kept. */
static bool is_cheap(const writer *w, int i) {
    const value *v = &w->v[i];
    return v->narrow || v->kind == LOAD || v->kind == NUMBER || w->c->card ||
           (v->kind == CONVERT && is_cheap(w, v->in[0])) ||
           (v->kind == TEXT && v->n <= 2 && !strchr(v->text, '(') && is_cheap(w, v->in[0]) &&
            (v->n < 2 || is_cheap(w, v->in[1])));
}

static void need(writer *w, int i, int pass) {
    value *v = &w->v[i];
    if (v->narrow || v->level >= pass)
        return;
    if (is_cheap(w, i)) {
        for (int k = 0; k < v->n; k++)
            need(w, v->in[k], pass);
    } else if (v->buffer < 0) {
        v->buffer = w->scratch;
        w->scratch +=
            (cfx__loop_row_length(w->l) * (v->dtype == CFX_F64 || v->dtype == CFX_I64 ? 8 : 4) +
             63) /
            64 * 64;
    }
}

static void find_passes(writer *w) {
    for (int i = 0; i < w->n; i++) {
        const value *v = &w->v[i];
        if (v->narrow && v->kind != FOLD)
            continue;
        const int pass = v->kind == FOLD ? v->level - 1 : v->level;
        w->passes = pass + 1 > w->passes ? pass + 1 : w->passes;
        for (int k = 0; k < v->n; k++)
            need(w, v->in[k], pass);
    }
    for (int i = 0; i < w->l->nlanes; i++) /* results are stored in the last one */
        if (w->l->lanes[i].write && w->l->lanes[i].breadth == CFX__LOOP_WIDE)
            need(w, w->of[w->l->lanes[i].value], w->passes - 1);
}

static void forget(writer *w, bool narrow) {
    for (int i = 0; i < w->n; i++)
        if (!w->v[i].narrow || narrow)
            w->v[i].name = NULL;
}

static void store(writer *w, int lane) {
    const cfx__c_ref *r = w->lanes[lane];
    const value *v = &w->v[w->of[w->l->lanes[lane].value]];
    cfx__c_line(w->c, "%s[%s] = %s;", w->pointers[lane], place(w, lane),
                cfx__c_store(w->c, cfx__c_convert(w->c, v->name, v->dtype, r->dtype), r->dtype));
}

static void put_pass(writer *w, int pass) {
    const cfx__loop *l = w->l;
    const bool last = pass == w->passes - 1;
    for (int i = 0; i < w->n; i++)
        if (w->v[i].kind == FOLD && w->v[i].level == pass + 1)
            begin_fold(w, i);
    if (w->c->card && w->l->row)
        w->c->card->open_row(w->c, &w->inner);
    else
        cfx__c_walk_open(w->c, &w->inner);
    forget(w, false);
    for (int i = 0; i < w->n; i++) {
        const value *v = &w->v[i];
        const bool folds = v->kind == FOLD && v->level == pass + 1;
        if (folds)
            make(w, v->in[0], pass);
        if (folds)
            go_on_fold(w, i);
        if (!v->narrow && v->level == pass && v->buffer >= 0) {
            make(w, i, pass);
            cfx__c_line(w->c, "r%d[%s] = %s;", i, cfx__c_at(&w->inner, w->in_row), v->name);
        }
    }
    for (int i = 0; i < l->nlanes && last; i++)
        if (l->lanes[i].write && l->lanes[i].breadth == CFX__LOOP_WIDE) {
            make(w, w->of[l->lanes[i].value], pass);
        }
    for (int i = 0; i < l->nlanes && last; i++)
        if (l->lanes[i].write && l->lanes[i].breadth == CFX__LOOP_WIDE)
            store(w, i);
    if (w->c->card && w->l->row)
        w->c->card->close_row(w->c);
    else
        cfx__c_walk_close(w->c, &w->inner);
    forget(w, false);
    for (int i = 0; i < w->n; i++)
        if (w->v[i].kind == FOLD && w->v[i].level == pass + 1)
            end_fold(w, i);
}

/* Whether all that a narrow value is made of is there by then. */
static void make_narrow(writer *w, int level) {
    for (int i = 0; i < w->n; i++)
        if (w->v[i].narrow && w->v[i].level <= level && w->v[i].kind != FOLD)
            make(w, i, level);
}

static void put_body(writer *w) {
    forget(w, true);
    for (int pass = 0; pass < w->passes; pass++) {
        make_narrow(w, pass);
        put_pass(w, pass);
    }
    make_narrow(w, w->passes);
    const bool shared = w->c->card && w->l->row;
    if (shared)
        w->c->card->open_once(w->c);
    for (int i = 0; i < w->l->nlanes; i++)
        if (w->l->lanes[i].write && w->l->lanes[i].breadth != CFX__LOOP_WIDE)
            store(w, i);
    if (shared)
        cfx__c_close(w->c);
}

/* ---- walks ----------------------------------------------------------------------------------- */

static void find_walks(writer *w) {
    const cfx__loop *l = w->l;
    const int outer = l->row ? l->ndim - l->row : 0, inner = l->ndim - outer;
    int by = -1, outer_by = -1;
    w->outer = cfx__c_walk_over(outer, l->shape);
    w->inner = cfx__c_walk_over(inner, l->shape + outer);
    for (int i = 0; i < l->nlanes; i++) {
        const cfx__c_ref *r = w->lanes[i];
        int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
        const int dims = l->lanes[i].breadth == CFX__LOOP_NARROW_GONE ? outer : l->ndim;
        for (int k = 0; k < dims; k++) { /* to all dims first, then apart */
            const int own = k - (dims - r->ndim);
            shape[k] = own < 0 ? 1 : r->shape[own];
            stride[k] = own < 0 || r->shape[own] == 1 ? 0 : r->stride[own];
        }
        w->in_outer[i] = cfx__c_walk_strides(&w->outer, outer, shape, stride);
        if (dims == l->ndim)
            w->in_inner[i] = cfx__c_walk_strides(&w->inner, inner, shape + outer, stride + outer);
        else
            w->in_inner[i] = cfx__c_walk_strides(&w->inner, 0, NULL, NULL);
        if (l->lanes[i].write && by < 0 && l->lanes[i].breadth == CFX__LOOP_WIDE)
            by = w->in_inner[i];
        if (l->lanes[i].write && outer_by < 0)
            outer_by = w->in_outer[i];
    }
    int64_t row[CFX_MAX_DIMS];
    cfx__strides_contiguous(inner, l->shape + outer, row);
    w->in_row = cfx__c_walk_strides(&w->inner, inner, l->shape + outer, row);
    cfx__c_walk_settle(&w->outer, outer_by);
    cfx__c_walk_settle(&w->inner, by >= 0 ? by : l->nlanes ? w->in_inner[0] : -1);
    w->inner.first = w->outer.ndim;
    w->inner.serial = l->row != 0;
    w->outer.serial = w->scratch != 0; /* which threads would share */
}

static void name_pointers(writer *w) {
    cfx__map taken = {0};
    for (int i = 0; i < w->l->nlanes; i++) {
        w->pointers[i] = w->c->card ? cfx__text_format("m%d", i) /* the same for many kernels */
                                    : cfx__c_unique(&taken, "", w->lanes[i]->name);
        for (int k = 0; k < i; k++) /* read twice, as when an input has two uses */
            if (!w->l->lanes[i].write && !w->l->lanes[k].write && w->lanes[i] == w->lanes[k])
                w->pointers[i] = w->pointers[k];
    }
    cfx__map_release(&taken);
    for (int i = 0; i < w->l->nlanes; i++) {
        bool used = w->l->lanes[i].write;
        for (int k = 0; k < w->n; k++)
            used |= w->v[k].kind == LOAD && w->v[k].lane == i;
        for (int k = 0; k < i; k++)
            used &= w->pointers[k] != w->pointers[i];
        if (used)
            cfx__c_pointer(w->c, w->lanes[i], w->pointers[i], w->l->lanes[i].write);
    }
}

static void put_buffers(writer *w) {
    for (int i = 0; i < w->n; i++) {
        if (w->v[i].buffer < 0)
            continue;
        const char *type = cfx__c_value_type(w->v[i].dtype);
        cfx__c_line(w->c, "%s *r%d = (%s *)%s;", type, i, type,
                    cfx__c_scratch_at(w->c, w->v[i].buffer));
    }
    if (w->scratch)
        cfx__c_scratch(w->c, w->scratch);
}

/* Whether elements of a row lie next to each other, or else those of one row beside the next's. */
static bool lies_along(const writer *w) {
    for (int i = 0; i < w->l->nlanes; i++) {
        if (w->l->lanes[i].breadth != CFX__LOOP_WIDE || !w->inner.ndim || !w->outer.ndim)
            continue;
        const int64_t in = w->inner.stride[w->in_inner[i]][w->inner.ndim - 1];
        const int64_t out = w->outer.stride[w->in_outer[i]][w->outer.ndim - 1];
        return !out || (in && in <= out);
    }
    return true;
}

void cfx__c_loop_put(cfx__c_unit *u, const cfx__loop *l, const cfx__c_ref *const *lanes,
                     const char *const *numbers) {
    writer *w = cfx__arena_alloc(&u->c->memory, sizeof *w);
    *w = (writer){.u = u, .c = u->c, .l = l};
    memcpy(w->lanes, lanes, (size_t)l->nlanes * sizeof *lanes);
    for (int i = 0; i < l->ndim; i++)
        if (!l->shape[i] && (!l->row || i < l->ndim - l->row))
            return; /* nothing to do */
    add_values(w, numbers);
    find_passes(w);
    find_walks(w);
    name_pointers(w);
    put_buffers(w);
    if (w->c->card && l->row)
        w->c->card->open_rows(w->c, &w->outer, &w->inner, lies_along(w));
    else if (w->outer.ndim)
        cfx__c_walk_open(w->c, &w->outer);
    put_body(w);
    if (w->c->card && l->row)
        w->c->card->close(w->c);
    else if (w->outer.ndim)
        cfx__c_walk_close(w->c, &w->outer);
    if (w->wrong)
        cfx__c_refuse(u, "has a step without a form in C");
}

/* A tensor of one number that is known is that number. */
static const char *known_number(const cfx__c_unit *u, int slot) {
    const cfx_value v = u->plan->constants[slot];
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->numel == 1 && cfx_as_tensor(v)->data
               ? cfx__c_element(cfx_as_tensor(v), 0)
               : NULL;
}

void cfx__c_loop(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx__c_ref *lanes[CFX__LOOP_LANES];
    const char *numbers[CFX__LOOP_LANES] = {0};
    for (int i = 0; i < k->loop->nlanes; i++) {
        const int slot = i < k->nreads ? k->reads[i] : k->writes[i - k->nreads];
        if (i < k->nreads)
            numbers[i] = known_number(u, slot);
        const cfx__c_refs *r = cfx__c_slot(u, slot);
        if (r->n != 1 || r->refs[0].where == CFX__C_NOWHERE) {
            cfx__c_refuse(u, "reads %s, which has no place",
                          u->plan->kernels[slot].step->node->name);
            return;
        }
        lanes[i] = r->refs;
    }
    cfx__c_loop_put(u, k->loop, lanes, numbers);
}
