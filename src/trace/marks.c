/* Numbers that forward gets out of tensors while it is exported; see marks.h. Start at
 * cfx__mark_read, which is asked whenever C looks at one. */
#include <cfx/ops.h>

#include "draft.h"
#include "export.h"
#include "relations.h"

/* ---- marks ----------------------------------------------------------------------------------- */

void cfx__marks_free(cfx__marks *m) {
    VEC_FREE(m->all);
    VEC_FREE(m->reads);
    cfx__arena_release(&m->arena);
}

const cfx__mark *cfx__mark_of(const cfx__recorder *r, cfx_value v) {
    uint32_t i = cfx__value_mark(v);
    return i && r && r->marks && i <= r->marks->all.len ? &r->marks->all.data[i - 1] : NULL;
}

bool cfx__mark_is_data(const cfx__recorder *r, cfx_value v) {
    const cfx__mark *m = cfx__mark_of(r, v);
    return m && m->data;
}

static const char *kept(cfx__marks *m, const char *text) {
    return text ? cfx__arena_copy(&m->arena, text, strlen(text)) : NULL;
}

cfx_value cfx__mark_put(cfx__recorder *r, cfx__mark m) {
    if (!r->marks)
        return m.value;
    m.value.spare = 0;
    m.symbol = kept(r->marks, m.symbol);
    m.function = kept(r->marks, m.function);
    VEC_PUSH(r->marks->all, m);
    cfx_value v = m.value;
    v.spare = (uint32_t)r->marks->all.len;
    return v;
}

/* What the arguments of a call say of its result. */
typedef struct {
    cfx__recorder *r;
    bool tensor, marked, data;
    int n;
    cfx_value of[2];
} origins;

static bool is_number(cfx_value v) {
    return v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT || v.tag == CFX_TAG_BOOL;
}

static void look(origins *o, cfx_value v, bool top) {
    if (v.tag == CFX_TAG_TENSOR)
        o->tensor |= cfx__record_shadow_of(cfx_as_tensor(v)) != NULL;
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(v)->len; i++)
        look(o, cfx_as_list(v)->items[i], false);
    const cfx__mark *m = cfx__mark_of(o->r, v);
    o->marked |= m != NULL;
    o->data |= m && m->data;
    if (top && is_number(v) && o->n < 2)
        o->of[o->n++] = v;
}

static cfx_value mark_all(const origins *o, const char *function, cfx_value v, cfx_node *node) {
    if (cfx__value_mark(v))
        return v;
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out),
                            mark_all(o, NULL, cfx_as_list(v)->items[i], NULL));
        return out;
    }
    cfx__mark m = {.data = o->data, .value = v, .function = o->marked ? function : NULL,
                   .n = o->n, .of = {o->of[0], o->of[1]}, .node = node};
    return is_number(v) ? cfx__mark_put(o->r, m) : v;
}

static bool has_numbers(cfx_value v) {
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE, any = is_number(v);
    for (int64_t i = 0; list && !any && i < cfx_as_list(v)->len; i++)
        any = has_numbers(cfx_as_list(v)->items[i]);
    return any;
}

cfx_value cfx__mark_result(cfx__recorder *r, const char *function, cfx_args a, cfx_value result,
                           cfx_node *node) {
    origins o = {.r = r};
    if (!r->marks || !has_numbers(result))
        return result;
    for (int i = 0; i < a.n; i++)
        look(&o, a.v[i], true);
    return o.tensor || o.marked ? mark_all(&o, function, result, node) : result;
}

cfx_value cfx__mark_answer(cfx__recorder *r, const cfx_op *op, cfx_args a, cfx_value v) {
    if (op != &cfx_op_sym_size_int && op != &cfx_op_size_int)
        return cfx__mark_result(r, NULL, a, v, NULL);
    const char *symbol = cfx__unknown_name(r, cfx_as_tensor(a.v[0]), cfx_integer(a.v[1]));
    return cfx__mark_put(r, (cfx__mark){.value = v, .symbol = symbol});
}

/* ---- what they are called -------------------------------------------------------------------- */

/* The symbol for data that is v now; NULL: none, or an input's size is as much. */
static const char *symbol_now(const cfx__export *e, cfx_value v) {
    const char *found = NULL;
    for (size_t i = 0; v.tag == CFX_TAG_INT && i < e->dims->worlds.symbols.len; i++) {
        const cfx__symbol *s = &e->dims->worlds.symbols.data[i];
        if (s->size.at[e->k] == cfx_integer(cfx__value_plain(v)))
            found = *s->name == 'u' && !found ? s->name : "";
    }
    return found && *found ? found : NULL;
}

static const struct {
    const char *function;
    cfx__sym_op op;
} arithmetic[] = {{"operator.add", CFX__SYM_ADD},           {"operator.sub", CFX__SYM_ADD},
                  {"operator.mul", CFX__SYM_MUL},           {"operator.neg", CFX__SYM_MUL},
                  {"operator.floordiv", CFX__SYM_FLOORDIV}, {"operator.mod", CFX__SYM_MOD},
                  {"torch.sym_min", CFX__SYM_MIN},          {"torch.sym_max", CFX__SYM_MAX}};

cfx_value cfx__mark_expr(const cfx__recorder *r, cfx_value v) {
    const cfx__mark *m = cfx__mark_of(r, v);
    if (!m)
        return v.tag == CFX_TAG_INT ? v : cfx_none();
    const char *symbol = m->symbol;
    if (!symbol && !m->function)
        symbol = symbol_now((const cfx__export *)r, v);
    if (symbol)
        return v.tag == CFX_TAG_INT ? cfx__sym_name(symbol, false, 0) : cfx_none();
    for (int i = 0; m->function && v.tag == CFX_TAG_INT && i < COUNT(arithmetic); i++) {
        if (strcmp(m->function, arithmetic[i].function))
            continue;
        cfx_value a = cfx__mark_expr(r, m->of[0]);
        cfx_value b = m->n > 1 ? cfx__mark_expr(r, m->of[1]) : cfx_int(-1);
        if (cfx_is_none(a) || cfx_is_none(b))
            return cfx_none();
        if (!strcmp(m->function, "operator.sub"))
            b = cfx__sym_binary(CFX__SYM_MUL, cfx_int(-1), b);
        return cfx__sym_binary(arithmetic[i].op, a, b);
    }
    return cfx_none();
}

static const char *function_text(const cfx__recorder *r, const cfx__mark *m) {
    const char *dot = strrchr(m->function, '.');
    cfx__text t = {0};
    cfx__text_printf(&t, "%s(", dot ? dot + 1 : m->function);
    for (int i = 0; i < m->n; i++)
        cfx__text_printf(&t, "%s%s", i ? ", " : "", cfx__mark_text(r, m->of[i]));
    cfx__text_puts(&t, ")");
    return cfx__text_take(&t);
}

const char *cfx__mark_text(const cfx__recorder *r, cfx_value v) {
    const cfx__mark *m = cfx__mark_of(r, v);
    cfx_value expr = cfx__mark_expr(r, v);
    cfx__relation relation;
    if (!cfx_is_none(expr))
        return cfx_value_str(expr);
    if (cfx__mark_relation(r, v, &relation))
        return cfx__relation_text(&relation);
    if (m && m->symbol)
        return m->symbol;
    return m && m->function ? function_text(r, m) : cfx_value_repr(cfx__value_plain(v));
}

const char *cfx__mark_shown(cfx_value v) {
    const cfx__recorder *r = cfx__recorder_now();
    return cfx__mark_is_data(r, v) ? cfx__mark_text(r, v) : NULL;
}

/* ---- what must not be looked at -------------------------------------------------------------- */

static void note_size_like(cfx__text *out, const cfx__export *e, const cfx_sym *s) {
    if (!s || s->op == CFX__SYM_INT)
        return;
    const cfx__symbol *known =
        s->op == CFX__SYM_NAME ? cfx__worlds_find(&e->dims->worlds, s->name) : NULL;
    if (known && *known->name == 'u' && !known->any &&
        !strstr(out->data ? out->data : "", known->name))
        cfx__text_printf(out, "%s%s", out->len ? ", " : "", known->name);
    note_size_like(out, e, s->a);
    note_size_like(out, e, s->b);
}

/* The symbols in it that are sizes of tensors; scope. */
static const char *size_like(const cfx__export *e, cfx_value v) {
    const cfx__recorder *r = &e->recorder;
    cfx__text out = {0};
    cfx__relation relation;
    cfx_value sides[] = {cfx__mark_expr(r, v), cfx_none()};
    if (cfx__mark_relation(r, v, &relation))
        sides[0] = relation.a, sides[1] = relation.b;
    for (int i = 0; i < 2; i++)
        if (sides[i].tag == CFX_TAG_SYM)
            note_size_like(&out, e, cfx_as_sym(sides[i]));
    const char *text = cfx__text_take(&out);
    return *text ? text : "none";
}

/* The line that looked, as a traceback has it. */
static const char *frame_of(cfx__export *e, cfx_site at) {
    cfx__text frame = {0};
    cfx__export_put_frame(e, &frame, at);
    return frame.len ? cfx__text_format("\n\nThe following call raised this error:\n  %s",
                                        cfx__text_take(&frame))
                     : "";
}

/* Checks that would say what it is: the relation, or the opposite. */
static const char *fixes_for(const cfx__recorder *r, cfx_value v) {
    cfx__relation is, opposite;
    if (!cfx__mark_relation(r, v, &is))
        return "";
    opposite = cfx__relation_not(is);
    return cfx__text_format(
        "\nTo fix the error, insert one of the following checks before this call:\n"
        "  1. torch._check(%s)\n  2. torch._check(%s)",
        cfx__relation_python(&is), cfx__relation_python(&opposite));
}

/* text: what it is called; NULL: as it is known. */
static void refuse(cfx__export *e, cfx_site at, cfx_value v, const char *text) {
    size_t mark = cfx_scope_open();
    text = text ? text : cfx__mark_text(&e->recorder, v);
    bool whole = v.tag == CFX_TAG_INT;
    const char *message = cfx__text_format(
        "Could not %s data-dependent expression %s (unhinted: %s).  (Size-like symbols: %s)\n\n"
        "The number is data, which nobody has while a module is exported: choose by cfx_cond, or "
        "by cfx_where, which computes both; compute with it by cfx_py(\"operator.add\", n, 1) and "
        "its like%s%s",
        whole ? "extract specialized integer from" : "guard on", text, text, size_like(e, v),
        frame_of(e, at), fixes_for(&e->recorder, v));
    cfx__fail_unknown(at, "%s", message); /* its lines are meant */
    cfx_scope_close(mark);
}

cfx_value cfx__mark_read(cfx_site at, cfx_value v) {
    cfx__recorder *r = cfx__recorder_now();
    const cfx__mark *m = cfx__mark_of(r, v);
    cfx_value known, plain = cfx__value_plain(v);
    if (!m)
        return plain;
    if (!m->data) {
        struct cfx__mark_read read = {at, v};
        VEC_PUSH(r->marks->reads, read);
    } else if (cfx__draft_decide((cfx__export *)r, at, v, &known) ||
               cfx__mark_known(r, v, &known)) {
        return known;
    } else {
        refuse((cfx__export *)r, at, v, NULL);
    }
    return plain;
}

bool cfx_sizes_vary(void) {
    const cfx__recorder *r = cfx__recorder_now();
    return r && r->marks && ((const cfx__export *)r)->dims->worlds.symbols.len;
}

bool cfx__mark_may_read(cfx_site at, const cfx_tensor *t) {
    cfx__mirror_refresh(t);
    cfx__recorder *r = cfx__recorder_now();
    bool recorded = r && r->marks && (cfx__record_shadow_of(t) || (r->holds && r->holds(r, t)));
    if (t->head.flags & CFX__TRACED)
        cfx__mark_read_sizes(at, t);
    if (!recorded)
        return !(t->head.flags & CFX__TRACED);
    refuse((cfx__export *)r, at, cfx_none(),
           cfx__dtype_is_float(t->dtype) ? "zuf0" : "u0");
    return false;
}

int64_t cfx__mark_read_size(cfx_site at, const cfx_tensor *t, int dim) {
    cfx__recorder *r = cfx__recorder_now();
    if (r && r->marks && cfx__record_shadow_of(t) && !cfx__dispatcher()->below)
        cfx__mark_read(at, cfx__mark_put(r, (cfx__mark){.value = cfx_int(t->shape[dim]),
                                                        .symbol = cfx__unknown_name(r, t, dim)}));
    return t->shape[dim];
}

void cfx__mark_read_sizes(cfx_site at, const cfx_tensor *t) {
    if (t->head.flags & CFX__TRACED) {
        cfx_fail(CFX_TRACE_ERROR, at,
                 "symbolically traced variables cannot be used as inputs to control flow: the "
                 "shape and dtype of a traced tensor are not known yet; use cfx_size, or "
                 "cfx_py(\"builtins.getattr\", x, \"dtype\")");
        return;
    }
    for (int i = 0; i < t->ndim; i++)
        cfx__mark_read_size(at, t, i);
}

/* What a size is called that is v now and `other` with other data: a line of a symbol, where it is
 * one. NULL: as it is known, or nobody knows. */
static const char *line_text(const cfx__export *e, const cfx__export *trial, cfx_value v,
                             cfx_value other) {
    if (v.tag != CFX_TAG_INT || cfx__mark_expr(&e->recorder, v).tag == CFX_TAG_SYM)
        return NULL;
    int64_t a = cfx_integer(cfx__value_plain(v)), b = cfx_integer(cfx__value_plain(other));
    cfx_value line =
        cfx__relation_through(&e->dims->worlds, e->k, a, trial->k, b, cfx_none());
    return cfx_is_none(line) ? "u0" : cfx_value_str(line);
}

/* The first size that was looked at and is another with other data; whether there is one. A draft
 * lets it be what it is in the example; else it is an error. */
bool cfx__marks_differ(cfx__export *e, const cfx__export *other) {
    const cfx__marks *a = e->recorder.marks, *b = other->recorder.marks;
    for (size_t i = 0; i < a->reads.len && i < b->reads.len; i++) {
        const struct cfx__mark_read *read = &a->reads.data[i];
        cfx_value now = b->reads.data[i].value;
        if (cfx_equal_values(cfx__value_plain(read->value), cfx__value_plain(now)))
            continue;
        const char *text = line_text(e, other, read->value, now);
        if (!cfx__draft_fix(e, read->at, read->value, text))
            refuse(e, read->at, read->value, text);
        return true;
    }
    return false;
}

/* ---- arguments of calls ---------------------------------------------------------------------- */

/* Whether PyTorch takes a number that is not known there. */
static bool takes_symbols(const cfx__schema_arg *a, cfx_value v) {
    if (v.tag == CFX_TAG_BOOL)
        return false;
    return a->sym || a->type == CFX__T_SCALAR || a->type == CFX__T_TENSOR;
}

static void read_all(cfx_site at, const cfx__schema_arg *a, cfx_value v) {
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_as_list(v)->len; i++)
        read_all(at, a, cfx_as_list(v)->items[i]);
    if (cfx__value_mark(v) && !takes_symbols(a, v))
        cfx__mark_read(at, v);
}

bool cfx__mark_settle(cfx__recorder *r, cfx_site at, const cfx__schema *s, cfx_value *args) {
    bool python = !strcmp(s->ns, "python");
    if (python && !strcmp(s->name, "getitem") && args[0].tag == CFX_TAG_TENSOR)
        return true; /* slices and selects, which take numbers as they are */
    for (int i = 0; i < s->nargs && !r->log; i++) {
        if (!cfx__value_has_marks(args[i]))
            continue;
        if (r->marks && !python)
            read_all(at, &s->args[i], args[i]);
        args[i] = cfx__value_plain(args[i]);
    }
    return cfx_ok();
}
