/* Writes fused loops: the steps of several calls, element by element; for rows, as many passes
 * as the row reductions require. A value that a later pass needs is loaded again if it comes
 * from memory, otherwise kept in a row of scratch space. Start at cfx__c_loop. */
#include "loops.h"

typedef cfx__c_loop_value value;
typedef cfx__c_loop_writer writer;

/* Whether complex numbers can be folded so. */
static bool has_sum(cfx__loop_fold f) {
    return f == CFX__FOLD_SUM || f == CFX__FOLD_MEAN || f == CFX__FOLD_PROD ||
           f == CFX__FOLD_COUNT || f == CFX__FOLD_ANY || f == CFX__FOLD_ALL;
}

bool cfx__c_loop_known(const cfx__loop *l, bool card) {
    for (int i = 0; i < l->nvalues; i++)
        if (!cfx__c_type(l->values[i].dtype) ||
            (card && cfx__dtype_is_complex(l->values[i].dtype)))
            return false;
    for (int i = 0; i < l->nsteps; i++) {
        const cfx__loop_step *s = &l->steps[i];
        const bool folds = s->kind == CFX__STEP_FOLD && has_sum(s->says.fold);
        if (s->kind == CFX__STEP_EACH
                ? !cfx__c_expr_known(s->says.expr, card)
                : !folds && (s->kind == CFX__STEP_FOLD || s->kind == CFX__STEP_ROW) &&
                      cfx__dtype_is_complex(l->values[s->in[0]].dtype))
            return false;
    }
    return l->nvalues < CFX__LOOP_VALUES / 2;
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

/* The text that makes a value; `rounded` is false where what is stored rounds it. */
static const char *made_text(writer *w, const value *v, const char *stem, bool rounded) {
    cfx__c_term in[CFX__LOOP_OPERANDS];
    const cfx_dtype to = rounded || !cfx__dtype_is_half(v->dtype) ? v->dtype : CFX_F32;
    switch (v->kind) {
    case LOAD:
        return cfx__c_convert(w->c,
                              cfx__c_load(w->c, w->pointers[v->lane], place(w, v->lane),
                                          w->lanes[v->lane]->dtype),
                              w->lanes[v->lane]->dtype, v->dtype);
    case CONVERT:
        return cfx__c_convert(w->c, w->v[v->in[0]].name, w->v[v->in[0]].dtype, to);
    case TEXT:
        return filled(w, v);
    default:
        for (int i = 0; i < v->n; i++)
            in[i] = (cfx__c_term){w->v[v->in[i]].name, w->v[v->in[i]].dtype};
        const char *t = cfx__c_expr(w->c, stem, v->step->says.expr, v->n, in, v->step->says.f,
                                    v->step->says.i, v->dtype);
        w->wrong |= !t;
        /* what an operator gives in halves it rounds to them */
        return !t ? "0" : cfx__dtype_is_half(v->dtype) ? cfx__c_convert(w->c, t, CFX_F32, to) : t;
    }
}

/* Whether a text is the name of an operand that has the type of the value. */
static bool is_operand(const writer *w, const value *v, const char *text) {
    for (int k = 0; k < v->n; k++) {
        const value *in = &w->v[v->in[k]];
        if (!strcmp(in->name, text) &&
            !strcmp(cfx__c_value_type(in->dtype), cfx__c_value_type(v->dtype)))
            return true;
    }
    return false;
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
    if (v->until && v->level < pass) {
        cfx__c_line(w->c, "const %s %s = row%d[%s];", type, name, v->row,
                    cfx__c_at(&w->inner, w->in_row));
        v->name = name;
        return;
    }
    for (int k = 0; k < v->n; k++)
        make(w, v->in[k], pass);
    const char *made = made_text(w, v, name, true);
    if (is_operand(w, v, made)) { /* nothing is done to it */
        v->name = made;
        return;
    }
    cfx__c_line(w->c, "const %s %s = %s;", type, name, made);
    v->name = name;
}

/* ---- folds ----------------------------------------------------------------------------------- */

static bool is_whole(cfx_dtype d) {
    return !cfx__dtype_is_float(d) && !cfx__dtype_is_complex(d);
}

/* The type that sums of a dtype are kept in. */
static const char *sum_type(cfx_dtype d) {
    return is_whole(d) ? "int64_t" : cfx__dtype_is_complex(d) ? "double _Complex" : "double";
}

/* What holds a fold while elements come in. */
static const char *fold_name(const writer *w, int i) {
    const cfx__loop_fold f = w->v[i].fold;
    return cfx__text_format("%s%d",
                            f == CFX__FOLD_MAX     ? "most"
                            : f == CFX__FOLD_MIN   ? "least"
                            : f == CFX__FOLD_PROD  ? "product"
                            : f == CFX__FOLD_COUNT ? "count"
                            : f == CFX__FOLD_ANY   ? "any"
                            : f == CFX__FOLD_ALL   ? "all"
                                                   : "sum",
                            i);
}

/* The type of that. */
static const char *fold_type(const writer *w, int i) {
    const cfx_dtype d = w->v[w->v[i].in[0]].dtype;
    switch (w->v[i].fold) {
    case CFX__FOLD_COUNT:
        return "int64_t";
    case CFX__FOLD_ANY:
    case CFX__FOLD_ALL:
        return "int";
    case CFX__FOLD_MAX:
    case CFX__FOLD_MIN:
        return is_whole(d) ? "int64_t" : cfx__c_value_type(d);
    default:
        return sum_type(d);
    }
}

static void begin_fold(writer *w, int i) {
    const value *v = &w->v[i];
    const cfx_dtype d = w->v[v->in[0]].dtype;
    const char *start = "0";
    if (v->fold == CFX__FOLD_MAX || v->fold == CFX__FOLD_MIN) {
        const bool most = v->fold == CFX__FOLD_MAX;
        start = is_whole(d)    ? most ? "INT64_MIN" : "INT64_MAX"
                : d == CFX_F64 ? most ? "-(double)INFINITY" : "(double)INFINITY"
                : most         ? "-INFINITY"
                               : "INFINITY";
    } else if (v->fold == CFX__FOLD_ALL || v->fold == CFX__FOLD_PROD) {
        start = "1";
    }
    cfx__c_line(w->c, "%s %s = %s;", fold_type(w, i), fold_name(w, i), start);
}

static void go_on_fold(writer *w, int i) {
    const value *v = &w->v[i];
    const char *x = w->v[v->in[0]].name, *to = fold_name(w, i);
    const bool whole = is_whole(w->v[v->in[0]].dtype);
    const char op = v->fold == CFX__FOLD_PROD ? '*' : '+';
    switch (v->fold) {
    case CFX__FOLD_COUNT:
        cfx__c_line(w->c, "%s += %s != 0;", to, x);
        break;
    case CFX__FOLD_ANY:
        cfx__c_line(w->c, "%s |= %s != 0;", to, x);
        break;
    case CFX__FOLD_ALL:
        cfx__c_line(w->c, "%s &= %s != 0;", to, x);
        break;
    case CFX__FOLD_MAX:
    case CFX__FOLD_MIN:
        cfx__c_line(w->c, "%s = %s %c %s%s ? %s : %s;", to, x, v->fold == CFX__FOLD_MAX ? '>' : '<',
                    to, whole ? "" : cfx__text_format(" || %s != %s", x, x), x, to);
        break;
    case CFX__FOLD_NANSUM:
        cfx__c_line(w->c, "%s += %s != %s ? 0.0 : (double)%s;", to, x, x, x);
        break;
    default:
        if (whole)
            cfx__c_line(w->c, "%s = (int64_t)((uint64_t)%s %c (uint64_t)%s);", to, to, op, x);
        else
            cfx__c_line(w->c, "%s %c= (%s)%s;", to, op, sum_type(w->v[v->in[0]].dtype), x);
    }
}

/* The narrow value of a fold that a pass has ended. */
static void end_fold(writer *w, int i) {
    value *v = &w->v[i];
    const char *type = cfx__c_value_type(v->dtype), *sum = fold_name(w, i);
    if (w->c->card)
        w->c->card->fold(w->c, v->fold, sum);
    if (v->fold == CFX__FOLD_MEAN) /* a division of doubles is a function of its own on a card */
        sum = cfx__text_format(w->c->card ? "(%s * (1.0 / %lld.0))" : "(%s / %lld.0)", sum,
                               (long long)cfx__loop_row_length(w->l));
    if (strcmp(type, fold_type(w, i)))
        sum = cfx__text_format("(%s)%s", type, sum);
    else if (!cfx__dtype_is_half(v->dtype) && v->fold != CFX__FOLD_MEAN) {
        v->name = sum;
        return;
    }
    v->name = cfx__text_format("v%d", i);
    if (cfx__dtype_is_half(v->dtype))
        sum = cfx__c_convert(w->c, sum, CFX_F32, v->dtype);
    cfx__c_line(w->c, "const %s %s = %s;", type, v->name, sum);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Whether a value can be had again as cheaply as it could be kept. */
static bool is_cheap(const writer *w, int i) {
    const value *v = &w->v[i];
    return v->narrow || v->until || v->kind == LOAD || v->kind == NUMBER || w->c->card ||
           (v->kind == CONVERT && is_cheap(w, v->in[0])) ||
           (v->kind == TEXT && v->n <= 2 && !strchr(v->text, '(') && is_cheap(w, v->in[0]) &&
            (v->n < 2 || is_cheap(w, v->in[1])));
}

static void need(writer *w, int i, int pass) {
    value *v = &w->v[i];
    if (v->narrow || v->level >= pass)
        return;
    if (v->until || !is_cheap(w, i))
        v->until = v->until > pass ? v->until : pass;
    else
        for (int k = 0; k < v->n; k++)
            need(w, v->in[k], pass);
}

/* Finds rows for values that are kept: one that is read last in the pass that makes a value may
 * become that value's. */
static void find_rows(writer *w) {
    for (int level = 0; level < w->passes; level++)
        for (int i = 0; i < w->n; i++) {
            value *v = &w->v[i];
            const char *type = cfx__c_value_type(v->dtype);
            if (!v->until || v->level != level)
                continue;
            for (v->row = 0; v->row < w->nrows; v->row++)
                if (w->v[w->rows[v->row].value].until <= level &&
                    !strcmp(w->rows[v->row].type, type))
                    break;
            w->nrows += v->row == w->nrows;
            w->rows[v->row] = (cfx__c_loop_row){type, i};
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
    find_rows(w);
}

static void forget(writer *w, bool narrow) {
    for (int i = 0; i < w->n; i++)
        if (!w->v[i].narrow || narrow)
            w->v[i].name = NULL;
}

/* Whether all that is done with a value is to store it, and nothing else is stored: then it needs
 * no name. */
static bool is_only_stored(const writer *w, int i) {
    int stores = 0, own = 0;
    for (int k = 0; k < w->n; k++)
        for (int n = 0; n < w->v[k].n; n++)
            if (w->v[k].in[n] == i)
                return false;
    for (int k = 0; k < w->l->nlanes; k++)
        if (w->l->lanes[k].write) {
            stores++;
            own += w->of[w->l->lanes[k].value] == i && w->lanes[k]->dtype == w->v[i].dtype;
        }
    return stores == 1 && own == 1 && w->v[i].kind != FOLD && w->v[i].kind != NUMBER;
}

static void store(writer *w, int lane, int pass) {
    const cfx__c_ref *r = w->lanes[lane];
    const int i = w->of[w->l->lanes[lane].value];
    const value *v = &w->v[i];
    const char *text;
    if (!v->name && is_only_stored(w, i)) {
        for (int k = 0; k < v->n; k++)
            make(w, v->in[k], pass);
        text = made_text(w, v, cfx__text_format("v%d", i), false);
    } else {
        text = cfx__c_convert(w->c, v->name, v->dtype, r->dtype);
    }
    cfx__c_line(w->c, "%s[%s] = %s;", w->pointers[lane], place(w, lane),
                cfx__c_store(w->c, text, r->dtype));
}

/* Keeps a value in its row, behind all that is read there of the value before. */
static void keep(writer *w, int i, int pass) {
    for (int k = 0; k < w->n; k++)
        if (w->v[k].until == pass && w->v[k].level < pass && w->v[k].row == w->v[i].row)
            make(w, k, pass);
    make(w, i, pass);
    cfx__c_line(w->c, "row%d[%s] = %s;", w->v[i].row, cfx__c_at(&w->inner, w->in_row),
                w->v[i].name);
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
        if (v->until && v->level == pass)
            keep(w, i, pass);
    }
    for (int i = 0; i < l->nlanes && last; i++)
        if (l->lanes[i].write && l->lanes[i].breadth == CFX__LOOP_WIDE &&
            !is_only_stored(w, w->of[l->lanes[i].value]))
            make(w, w->of[l->lanes[i].value], pass);
    for (int i = 0; i < l->nlanes && last; i++)
        if (l->lanes[i].write && l->lanes[i].breadth == CFX__LOOP_WIDE)
            store(w, i, pass);
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
        if (w->v[i].narrow && w->v[i].level <= level && w->v[i].kind != FOLD &&
            !is_only_stored(w, i))
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
            store(w, i, w->passes);
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
    w->outer.serial = w->nrows != 0; /* which threads would share */
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

static void put_rows(writer *w) {
    int64_t end = 0;
    for (int i = 0; i < w->nrows; i++) {
        const cfx_dtype d = w->v[w->rows[i].value].dtype;
        const char *type = w->rows[i].type;
        cfx__c_line(w->c, "%s *row%d = (%s *)%s;", type, i, type, cfx__c_scratch_at(w->c, end));
        end += (cfx__loop_row_length(w->l) * (d == CFX_F64 || d == CFX_I64 ? 8 : 4) + 63) / 64 * 64;
    }
    if (end)
        cfx__c_scratch(w->c, end);
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
    cfx__c_loop_add_values(w, numbers);
    find_passes(w);
    find_walks(w);
    name_pointers(w);
    put_rows(w);
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
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->numel == 1 && cfx_as_tensor(v)->data &&
                   !cfx__dtype_is_complex(cfx_as_tensor(v)->dtype)
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
