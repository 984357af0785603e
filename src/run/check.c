/* What a program asks of its inputs: number, kind, dtype, rank and sizes, by the metadata of its
 * placeholders, the ranges of its symbols and its guards; and of the registry: that every operator
 * is there. Sentences are PyTorch's; a note says which input it is and how it was declared. */
#include "../value/guard.h"
#include "run.h"

/* ---- where an input is ----------------------------------------------------------------------- */

/* Adds the path of leaf *k of a tree ("[0]['x']"); false, with *k counted down, where it is not in
 * this branch. */
static bool put_path(cfx__text *out, cfx_value spec, int64_t *k) {
    size_t len = out->len;
    if (spec.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(spec)->len; i++) {
            cfx__text_putc(out, '[');
            cfx__repr(out, cfx_as_dict(spec)->entries[i].key);
            cfx__text_putc(out, ']');
            if (put_path(out, cfx_as_dict(spec)->entries[i].value, k))
                return true;
            out->len = len;
        }
        return false;
    }
    if (spec.tag == CFX_TAG_LIST || spec.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(spec)->len; i++) {
            cfx__text_printf(out, "[%lld]", (long long)i);
            if (put_path(out, cfx_as_list(spec)->items[i], k))
                return true;
            out->len = len;
        }
        return false;
    }
    return (*k)-- == 0;
}

/* "*args[0]['x']", or "'bias'" for a keyword: the caller's input number k, as PyTorch writes it. */
static const char *input_path(cfx_value spec, int k) {
    int64_t at = k;
    cfx__text out = {0};
    if (spec.tag != CFX_TAG_TUPLE || cfx_as_list(spec)->len != 2) {
        cfx__text_printf(&out, "*args[%d]", k);
        return cfx__text_take(&out);
    }
    cfx__text_puts(&out, "*args");
    if (put_path(&out, cfx_as_list(spec)->items[0], &at))
        return cfx__text_take(&out);
    cfx_value kw = cfx_as_list(spec)->items[1];
    for (int64_t i = 0; kw.tag == CFX_TAG_DICT && i < cfx_as_dict(kw)->len; i++) {
        out.len = 0;
        cfx__repr(&out, cfx_as_dict(kw)->entries[i].key);
        if (put_path(&out, cfx_as_dict(kw)->entries[i].value, &at))
            break;
    }
    return cfx__text_take(&out);
}

/* ---- symbols --------------------------------------------------------------------------------- */

typedef struct {
    cfx_site at;
    cfx_value in_spec; /* the tree of the caller's arguments; None: they are flat */
    const cfx_dict *ranges;
    cfx_dict *symbols; /* name to the size it stands for in this call; NULL: none yet */
    int k;             /* the caller's input that is being looked at */
    const char *name;  /* its placeholder */
    cfx_result want;   /* what that is declared as */
} checker;

/* Symbols as an expression is tried out with: those that are known, and one that is `value`. */
typedef struct {
    const checker *c;
    const char *unknown; /* NULL: none */
    int64_t value;
} trial;

static bool tried(const cfx_sym *name, void *user, int64_t *out) {
    const trial *t = user;
    if (t->unknown && !strcmp(name->name, t->unknown)) {
        *out = t->value;
        return true;
    }
    cfx_value v = t->c->symbols ? cfx_dict_get(t->c->symbols, name->name) : cfx_none();
    *out = cfx_integer(v);
    return v.tag == CFX_TAG_INT;
}

/* The value of an expression, with `value` for the symbol called `unknown`; false where it has
 * none. */
static bool value_of(const checker *c, const cfx_sym *s, const char *unknown, int64_t value,
                     int64_t *out) {
    return cfx__sym_eval(s, tried, &(trial){c, unknown, value}, out);
}

/* The one symbol of an expression that has no value yet; NULL where there are none or several. */
static const char *unknown_in(const checker *c, const cfx_sym *s, int *count) {
    if (s->op == CFX__SYM_INT)
        return NULL;
    if (s->op == CFX__SYM_NAME) {
        bool known = c->symbols && cfx_dict_find(c->symbols, cfx_string_value(s->name));
        *count += !known;
        return known ? NULL : s->name;
    }
    const char *a = unknown_in(c, s->a, count), *b = unknown_in(c, s->b, count);
    if (a && b && !strcmp(a, b))
        *count = 1;
    return a ? a : b;
}

/* Fails with what PyTorch says and a note about how the input was declared. */
/* "s0 in [2, 64], s1 in [0, int_oo]"; scope. */
static const char *ranges_text(const cfx_dict *ranges) {
    cfx__text out = {0};
    for (int64_t i = 0; i < ranges->len; i++) {
        cfx_value r = ranges->entries[i].value;
        bool pair = r.tag == CFX_TAG_TUPLE && cfx_as_list(r)->len == 2;
        cfx_value lo = pair ? cfx_as_list(r)->items[0] : cfx_none();
        cfx_value hi = pair ? cfx_as_list(r)->items[1] : cfx_none();
        cfx__text_printf(&out, "%s%s in [%s, %s]", i ? ", " : "",
                         cfx_value_str(ranges->entries[i].key),
                         cfx_is_none(lo) ? "-int_oo" : cfx_value_str(lo),
                         cfx_is_none(hi) ? "int_oo" : cfx_value_str(hi));
    }
    return cfx__text_take(&out);
}

static bool fail(const checker *c, const char *text) {
    cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s", text);
    bool tensor = c->want.kind == CFX_RESULT_TENSOR, ranges = c->ranges->len > 0;
    cfx_error_note("Input %s is declared as %s%s%s", c->name,
                   tensor ? cfx_result_text(&c->want) : cfx_value_str(c->want.value),
                   ranges ? ", with " : "", ranges ? ranges_text(c->ranges) : "");
    return false;
}

/* Solves expression = size for its one unknown: a line through two points, tried out. */
static bool solve(checker *c, const cfx_sym *s, const char *unknown, int64_t size, int64_t *out) {
    int64_t f0, f1, step, rest, again;
    return value_of(c, s, unknown, 0, &f0) && value_of(c, s, unknown, 1, &f1) &&
           !__builtin_sub_overflow(f1, f0, &step) && !__builtin_sub_overflow(size, f0, &rest) &&
           cfx__sym_apply(CFX__SYM_FLOORDIV, rest, step, out) &&
           value_of(c, s, unknown, *out, &again) && again == size;
}

static bool is_linear(const cfx_sym *s) {
    return s->op <= CFX__SYM_MUL && (!s->a || is_linear(s->a)) && (!s->b || is_linear(s->b));
}

/* Learns what a symbol is, or compares with what is known of it. */
static bool unify(checker *c, const char *where, cfx_value want, int64_t size) {
    int count = 0;
    const char *unknown = unknown_in(c, cfx_as_sym(want), &count);
    if (!unknown) {
        int64_t known;
        if (!value_of(c, cfx_as_sym(want), NULL, 0, &known) || known == size)
            return true;
        return fail(c, cfx__text_format("Expected input at %s to be equal to %lld, but got %lld",
                                        where, (long long)known, (long long)size));
    }
    int64_t solution;
    if (count > 1)
        return true;
    if (!solve(c, cfx_as_sym(want), unknown, size, &solution))
        return !is_linear(cfx_as_sym(want)) ||
               fail(c, cfx__text_format(
                           "Expected input %s = %lld to be of the form %s, where %s is an "
                           "integer",
                           where, (long long)size, cfx_value_str(want), unknown));
    if (!c->symbols)
        c->symbols = cfx_dict_new();
    cfx_dict_set(c->symbols, unknown, cfx_int(solution));
    return true;
}

/* As in PyTorch, what was exported with at least 2 may be 0 or 1 when it is run. Lower bounds of a
 * number that is an input come from comparisons, and hold. */
static bool in_range(checker *c, const char *where, cfx_value want, int64_t size, bool number) {
    cfx_value range = cfx_dict_get(c->ranges, cfx_value_str(want));
    if (range.tag != CFX_TAG_TUPLE || cfx_as_list(range)->len != 2)
        return true;
    cfx_value lo = cfx_as_list(range)->items[0], hi = cfx_as_list(range)->items[1];
    const int64_t least = lo.tag == CFX_TAG_INT ? cfx_integer(lo) : INT64_MIN;
    if ((least > 2 || (number && least < 2)) && size < least)
        return fail(c, cfx__text_format("Expected input at %s to be >= %lld, but got %lld", where,
                                        (long long)least, (long long)size));
    if (hi.tag == CFX_TAG_INT && size > cfx_integer(hi))
        return fail(c, cfx__text_format("Expected input at %s to be <= %lld, but got %lld", where,
                                        (long long)cfx_integer(hi), (long long)size));
    return true;
}

/* ---- one input ------------------------------------------------------------------------------- */

static bool check_size(checker *c, int dim, cfx_value want, int64_t size) {
    if (want.tag == CFX_TAG_INT && cfx_integer(want) == size)
        return true;
    const char *where = cfx__text_format("%s.shape[%d]", input_path(c->in_spec, c->k), dim);
    if (want.tag == CFX_TAG_INT)
        return fail(c, cfx__text_format("Expected input at %s to be equal to %lld, but got %lld",
                                        where, (long long)cfx_integer(want), (long long)size));
    return want.tag != CFX_TAG_SYM ||
           (unify(c, where, want, size) && in_range(c, where, want, size, false));
}

static bool check_tensor(checker *c, cfx_value v) {
    const cfx_result *d = &c->want;
    if (v.tag != CFX_TAG_TENSOR)
        return fail(c, cfx__text_format("Expected input at %s to be a tensor, but got <class '%s'>",
                                        input_path(c->in_spec, c->k), cfx__value_python_type(v)));
    const cfx_tensor *t = cfx_as_tensor(v);
    if (t->ndim != d->ndim) {
        const char *want = strchr(cfx_result_text(d), '[');
        return fail(
            c, cfx__text_format("Unexpected number of dimensions in input at %s.shape (expected "
                                "torch.Size(%s), got torch.Size(%s))",
                                input_path(c->in_spec, c->k), want,
                                cfx__shape_text(t->ndim, t->shape)));
    }
    if (t->dtype != d->dtype)
        return fail(
            c, cfx__text_format("Expected input at %s to be of dtype torch.%s, but got torch.%s",
                                input_path(c->in_spec, c->k), cfx_dtype_name(d->dtype),
                                cfx_dtype_name(t->dtype)));
    if (d->shape && !memcmp(d->shape, t->shape, (size_t)t->ndim * sizeof *t->shape))
        return true;
    for (int i = 0; i < t->ndim; i++)
        if (!check_size(c, i, cfx_result_size(d, i), t->shape[i]))
            return false;
    return true;
}

static bool check_number(checker *c, cfx_value v) {
    if (c->want.value.tag != CFX_TAG_SYM)
        return true;
    const char *where = input_path(c->in_spec, c->k);
    if (!cfx_is_number(v))
        return fail(c, cfx__text_format("Expected input at %s to be a number, but got <class '%s'>",
                                        where, cfx__value_python_type(v)));
    return v.tag != CFX_TAG_INT || (unify(c, where, c->want.value, cfx_integer(v)) &&
                                    in_range(c, where, c->want.value, cfx_integer(v), true));
}

/* The next input of the caller's, for placeholder n; `constant` is what it has to be, NULL: that is
 * not fixed. */
static bool check_input(checker *c, const cfx_node *n, const cfx_value *constant, cfx_value v) {
    c->name = n->name;
    c->want = constant ? cfx_result_of(*constant) : cfx_node_result(n);
    bool fine = c->want.kind == CFX_RESULT_TENSOR ? check_tensor(c, v)
                : !constant                       ? check_number(c, v)
                                                  : cfx_equal_values(*constant, v);
    if (!fine && constant)
        fail(c, cfx__text_format("Expected input at %s to be equal to %s, but got %s",
                                 input_path(c->in_spec, c->k), cfx_value_repr(*constant),
                                 cfx_value_repr(v)));
    c->k++;
    return fine;
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* What the exporter saw forward decide by sizes must be decided so again. */
static bool check_guards(cfx_site at, cfx_value guards, cfx_dict *inputs) {
    for (int64_t i = 0; guards.tag == CFX_TAG_LIST && i < cfx_as_list(guards)->len; i++) {
        cfx_value text = cfx_as_list(guards)->items[i];
        if (text.tag == CFX_TAG_STR &&
            cfx__guard_holds(cfx_text(text), cfx__guard_source, inputs) == CFX__FALSE) {
            cfx_fail(CFX_ASSERTION_ERROR, at, "Guard failed: %s",
                     cfx__guard_shown(cfx_text(text)));
            return false;
        }
    }
    return true;
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool cfx__program_check(cfx_site at, const cfx_program *p, const cfx_list *flat) {
    size_t mark = cfx_scope_open();
    checker c = {.at = at, .in_spec = p->in_spec, .ranges = p->ranges};
    const cfx_node *n = cfx_graph_first(p->module->graph);
    cfx_value guards = cfx_dict_get(p->extra, "guards");
    cfx_dict *inputs = cfx_is_none(guards) ? NULL : cfx_dict_new();
    bool fine = true;
    for (int i = 0; i < p->ninputs && n && n->op == CFX_PLACEHOLDER && fine;
         i++, n = cfx_node_after(n)) {
        const cfx_input_spec *s = &p->inputs[i];
        if (s->kind != CFX_IN_USER)
            continue;
        if (inputs)
            cfx_dict_set(inputs, n->name, flat->items[c.k]);
        fine = check_input(&c, n, s->constant ? &s->value : NULL, flat->items[c.k]);
    }
    fine = fine && check_guards(at, guards, inputs);
    cfx_scope_close(mark);
    return fine;
}

bool cfx__inputs_check(cfx_site at, const cfx_graph *g, const cfx_dict *ranges, cfx_value guards,
                       cfx_args flat) {
    size_t mark = cfx_scope_open();
    checker c = {.at = at, .in_spec = g->tree ? g->tree->in_spec : cfx_none(), .ranges = ranges};
    cfx_dict *inputs = cfx_is_none(guards) ? NULL : cfx_dict_new();
    bool fine = true;
    cfx_each_node(g, n) {
        if (!fine || n->op != CFX_PLACEHOLDER || c.k >= flat.n)
            continue;
        if (inputs)
            cfx_dict_set(inputs, n->name, flat.v[c.k]);
        cfx_value constant = cfx_node_get_meta(n, "constant");
        bool fixed = constant.tag == CFX_TAG_TUPLE;
        fine = check_input(&c, n, fixed ? cfx_as_list(constant)->items : NULL, flat.v[c.k]);
    }
    fine = fine && check_guards(at, guards, inputs);
    cfx_scope_close(mark);
    return fine;
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool can_run(cfx_op *op) {
    cfx__op_info *info = cfx__op_info_of(op);
    if (info && info->form != CFX__FUNCTIONAL)
        return true;
    return op->kernel || op->view || op->decompose;
}

bool cfx__run_known(const cfx_node *n) {
    if (n->op != CFX_CALL_FUNCTION || n->target.object || n->target.fn)
        return true;
    if (n->target.op)
        return can_run(n->target.op);
    return cfx__higher_find(n->target.name) || cfx__run_late_op(n);
}

typedef struct {
    cfx_list *modules; /* whose graphs a run gets to; each once, `seen` */
    cfx_dict *seen;
    cfx_dict *missing; /* name to the list of nodes */
} survey;

static void reach(survey *s, cfx_value module) {
    if (module.tag != CFX_TAG_MODULE || !cfx_as_module(module)->graph ||
        cfx_dict_find(s->seen, module))
        return;
    cfx_dict_put(s->seen, module, cfx_none());
    cfx_list_append(s->modules, module);
}

static void miss(survey *s, cfx_node *n) {
    cfx__text name = {0};
    cfx__target_text(&name, n->target);
    cfx_value list = cfx_dict_get(s->missing, name.data);
    if (cfx_is_none(list)) {
        list = cfx_list_value(0, NULL);
        cfx_dict_set(s->missing, name.data, list);
    }
    cfx_list_append(cfx_as_list(list), cfx_node_value(n));
    cfx__text_release(&name);
}

/* What nobody names is not run, and may be anything. */
static void survey_module(survey *s, cfx_module *m) {
    cfx_each_node(m->graph, n) {
        if (n->op == CFX_GET_ATTR || n->op == CFX_CALL_MODULE)
            reach(s, cfx_module_attr(m, n->target.name));
        else if (!cfx__run_known(n))
            miss(s, n);
    }
}

enum { NODES_NAMED = 3 };

static void list_missing(cfx_site at, const cfx_dict *missing) {
    cfx__text out = {0};
    for (int64_t i = 0; i < missing->len; i++) {
        const cfx_list *nodes = cfx_as_list(missing->entries[i].value);
        cfx__text_printf(&out, "\n  %s: %lld node%s (", cfx_text(missing->entries[i].key),
                         (long long)nodes->len, nodes->len == 1 ? "" : "s");
        for (int64_t k = 0; k < nodes->len && k < NODES_NAMED; k++)
            cfx__text_printf(&out, "%s%s", k ? ", " : "", cfx_as_node(nodes->items[k])->name);
        cfx__text_puts(&out, nodes->len > NODES_NAMED ? ", ...)" : ")");
    }
    cfx__fail_lines(CFX_NOT_IMPLEMENTED_ERROR, at,
                    "%lld operator%s of this program %s not registered; see cfx_op_register%s",
                    (long long)missing->len, missing->len == 1 ? "" : "s",
                    missing->len == 1 ? "is" : "are", out.data);
    cfx__text_release(&out);
}

/* Looked at once for each version of the graph. */
bool cfx__program_supported(cfx_site at, cfx_program *p) {
    uint64_t version = p->module->graph->version + 1;
    if (cfx__program_seen(p, version))
        return true;
    size_t mark = cfx_scope_open();
    survey s = {cfx_as_list(cfx_list_value(0, NULL)), cfx_dict_new(), cfx_dict_new()};
    reach(&s, cfx_module_value(p->module));
    for (int64_t i = 0; i < s.modules->len; i++)
        survey_module(&s, cfx_as_module(s.modules->items[i]));
    bool fine = s.missing->len == 0;
    if (fine)
        cfx__program_see(p, version);
    else
        list_missing(at, s.missing);
    cfx_scope_close(mark);
    return fine;
}
