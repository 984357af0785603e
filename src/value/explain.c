/* Why no overload fits: the TypeErrors of PyTorch's Python functions.
 *
 * Invariant: this runs only after every overload said no, so it may be slow; it says what
 * python_arg_parser says. There the out= overload is no overload of its own but a last keyword of
 * the plain one, and self is called input. */
#include "value.h"

/* One parameter as Python's signature has it. */
typedef struct param {
    const cfx__schema_arg *arg; /* NULL for requires_grad, which has no place in schemas */
    const char *type, *name;
    const char *fallback; /* the text of the default, NULL where there is none */
    bool keyword_only;
} param;

typedef struct signature {
    const cfx__schema *schema;
    VEC(param) params;
    int positional, required;
} signature;

typedef VEC(signature) signature_vec;

/* ---- signatures ------------------------------------------------------------------------------ */

static const char *type_name(const cfx__schema_arg *arg) {
    static const struct {
        const char *one, *many;
    } names[] = {[CFX__T_TENSOR] = {"Tensor", "tuple of Tensors"},
                 [CFX__T_SCALAR] = {"Number", "tuple of Scalars"},
                 [CFX__T_INT] = {"int", "tuple of ints"},
                 [CFX__T_FLOAT] = {"float", "tuple of floats"},
                 [CFX__T_BOOL] = {"bool", "tuple of bools"},
                 [CFX__T_STR] = {"str", "tuple of strs"},
                 [CFX__T_DTYPE] = {"torch.dtype", "tuple of dtypes"},
                 [CFX__T_DEVICE] = {"torch.device", "tuple of devices"},
                 [CFX__T_LAYOUT] = {"torch.layout", "tuple of layouts"},
                 [CFX__T_MEMORY_FORMAT] = {"torch.memory_format", "tuple of memory_formats"},
                 [CFX__T_GENERATOR] = {"torch.Generator", "tuple of Generators"},
                 [CFX__T_DIMNAME] = {"name", "tuple of names"},
                 [CFX__T_STORAGE] = {"torch.Storage", "tuple of Storages"},
                 [CFX__T_STREAM] = {"torch.Stream", "tuple of Streams"},
                 [CFX__T_COMPLEX] = {"complex", "tuple of complexes"},
                 [CFX__T_ANY] = {"object", "object"}};
    return arg->list ? names[arg->type].many : names[arg->type].one;
}

/* The default as the generated signatures write it: a list of equal numbers is one number. */
static const char *default_text(const cfx__schema_arg *arg) {
    cfx_value v = arg->fallback;
    if (v.tag == CFX_TAG_STR)
        return cfx__text_format("\"%s\"", v.str_->text);
    if (v.tag != CFX_TAG_LIST)
        return cfx_value_repr(v);
    bool same = v.list_->len > 0 && v.list_->len == arg->list_len;
    for (int64_t i = 1; same && i < v.list_->len; i++)
        same = cfx_equal_values(v.list_->items[0], v.list_->items[i]);
    if (same)
        return cfx_value_repr(v.list_->items[0]);
    cfx__text out = {0};
    cfx__text_putc(&out, '{');
    for (int64_t i = 0; i < v.list_->len; i++) {
        if (i)
            cfx__text_putc(&out, ',');
        cfx__repr(&out, v.list_->items[i]);
    }
    cfx__text_putc(&out, '}');
    return cfx__text_take(&out);
}

static bool is_out(const cfx__schema_arg *arg) { return arg->keyword_only && arg->writes; }

/* The next argument from i on that both a function and its out= form have: neither an out nor an
 * option of a factory. */
static int next_input(const cfx__schema *s, int i) {
    for (; i < s->nargs; i++) {
        const cfx__schema_arg *a = &s->args[i];
        bool option = a->type == CFX__T_DTYPE || a->type == CFX__T_LAYOUT ||
                      a->type == CFX__T_DEVICE || !strcmp(a->name, "pin_memory");
        if (!is_out(a) && !(a->keyword_only && option))
            break;
    }
    return i;
}

static bool same_inputs(const cfx__schema *a, const cfx__schema *b) {
    int i = next_input(a, 0), k = next_input(b, 0);
    while (i < a->nargs && k < b->nargs) {
        const cfx__schema_arg *x = &a->args[i], *y = &b->args[k];
        if (strcmp(x->name, y->name) || x->type != y->type || x->list != y->list)
            return false;
        i = next_input(a, i + 1);
        k = next_input(b, k + 1);
    }
    return i == a->nargs && k == b->nargs;
}

static const cfx__schema_arg *first_out(const cfx__schema *s) {
    for (int i = s->npositional; i < s->nargs; i++)
        if (is_out(&s->args[i]))
            return &s->args[i];
    return NULL;
}

static bool takes_options(const cfx__schema *s) {
    for (int i = s->npositional; i < s->nargs; i++)
        if (!strcmp(s->args[i].name, "pin_memory"))
            return true;
    return false;
}

static void push(signature *sig, param p) {
    if (!p.keyword_only)
        sig->positional++;
    if (!p.fallback)
        sig->required++;
    VEC_PUSH(sig->params, p);
}

static void push_out(signature *sig, const cfx__schema *out) {
    const cfx__schema_arg *arg = first_out(out);
    bool one = arg == &out->args[out->nargs - 1];
    push(sig, (param){arg, one ? type_name(arg) : "tuple of Tensors", "out", "None", true});
}

/* out= stands before the options of a factory (dtype, layout, device) and after all else. */
static signature make_signature(const cfx__schema *s, const cfx__schema *out) {
    signature sig = {.schema = s};
    for (int i = 0; i < s->nargs; i++) {
        const cfx__schema_arg *arg = &s->args[i];
        if (is_out(arg))
            continue;
        if (out && takes_options(s) && arg->keyword_only && arg->type == CFX__T_DTYPE) {
            push_out(&sig, out);
            out = NULL;
        }
        bool pin = !strcmp(arg->name, "pin_memory");
        push(&sig, (param){arg, type_name(arg), strcmp(arg->name, "self") ? arg->name : "input",
                           !arg->has_default ? NULL
                           : pin             ? "False"
                                             : default_text(arg),
                           arg->keyword_only});
    }
    if (out)
        push_out(&sig, out);
    if (takes_options(s))
        push(&sig, (param){NULL, "bool", "requires_grad", "False", true});
    return sig;
}

/* Python has no add(Tensor, Number): its Tensor takes numbers. So for the other three. */
static bool is_skipped(const cfx__schema *s) {
    static const char *const names[] = {"add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"};
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(s->name, names[i]) && !strncmp(s->overload, "Scalar", 6))
            return true;
    return false;
}

/* Arithmetic of plain numbers, which functions of tensors do not show. */
static bool is_of_numbers(const cfx__schema *s) {
    return s->nrets == 1 && s->rets[0].type == CFX__T_SCALAR;
}

static void collect(signature_vec *all, cfx__schema *const *schemas, int n) {
    bool tensors = false;
    for (int i = 0; i < n; i++)
        tensors |= !is_of_numbers(schemas[i]);
    for (int i = 0; i < n; i++) {
        if (is_skipped(schemas[i]) || (tensors && is_of_numbers(schemas[i])))
            continue;
        const cfx__schema *partner = NULL;
        for (int k = 0; k < n && !partner; k++)
            if (!first_out(schemas[k]) != !first_out(schemas[i]) &&
                same_inputs(schemas[i], schemas[k]))
                partner = schemas[k];
        bool alone = first_out(schemas[i]) && !partner;
        if (!first_out(schemas[i]) || alone)
            VEC_PUSH(*all, make_signature(schemas[i], alone ? schemas[i] : partner));
    }
}

static void put_signature(cfx__text *out, const signature *sig) {
    cfx__text_putc(out, '(');
    for (size_t i = 0; i < sig->params.len; i++) {
        const param *p = &sig->params.data[i];
        if (i)
            cfx__text_puts(out, ", ");
        if (p->keyword_only && (i == 0 || !sig->params.data[i - 1].keyword_only))
            cfx__text_puts(out, "*, ");
        cfx__text_printf(out, "%s %s", p->type, p->name);
        if (p->fallback)
            cfx__text_printf(out, " = %s", p->fallback);
    }
    cfx__text_putc(out, ')');
}

/* ---- what was given -------------------------------------------------------------------------- */

typedef struct given {
    const char *name; /* NULL where positional */
    cfx_value v;
} given;

/* Positional values first, then keywords. */
typedef struct call {
    VEC(given) all;
    int positional;
} call;

static call list_given(cfx_args a) {
    call c = {0};
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag != CFX_TAG_KEYWORD)
            VEC_PUSH(c.all, ((given){NULL, a.v[i]}));
    c.positional = (int)c.all.len;
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_KEYWORD)
            VEC_PUSH(c.all, ((given){a.v[i].keyword_->name->text, a.v[i].keyword_->value}));
    for (int64_t i = 0; a.kw && i < a.kw->len; i++) {
        const char *name = cfx_text(a.kw->entries[i].key);
        VEC_PUSH(c.all, ((given){name ? name : "", a.kw->entries[i].value}));
    }
    return c;
}

static void put_given(cfx__text *out, const call *c) {
    cfx__text_putc(out, '(');
    for (size_t i = 0; i < c->all.len; i++) {
        const given *g = &c->all.data[i];
        cfx__text_printf(out, "%s%s%s%s", i ? ", " : "", g->name ? g->name : "", g->name ? "=" : "",
                         cfx__value_python_type(g->v));
    }
    cfx__text_putc(out, ')');
}

static bool is_named(const param *p, const char *name) {
    if (!strcmp(p->name, name))
        return true;
    return p->arg && strcmp(p->name, "out") && cfx__schema_arg_named(p->arg, name);
}

static const given *find_given(const call *c, const param *p) {
    for (size_t i = (size_t)c->positional; i < c->all.len; i++)
        if (is_named(p, c->all.data[i].name))
            return &c->all.data[i];
    return NULL;
}

/* ---- one signature --------------------------------------------------------------------------- */

static void fail_extra(cfx_site at, const char *fn, const signature *sig, int n) {
    if (sig->required != sig->positional)
        cfx_fail(CFX_TYPE_ERROR, at,
                 "%s() takes from %d to %d positional arguments but %d were given", fn,
                 sig->required, sig->positional, n);
    else
        cfx_fail(CFX_TYPE_ERROR, at, "%s() takes %d positional argument%s but %d %s given", fn,
                 sig->positional, sig->positional == 1 ? "" : "s", n, n == 1 ? "was" : "were");
}

/* The odd plural is PyTorch's own. */
static void fail_missing(cfx_site at, const char *fn, const signature *sig, size_t from) {
    cfx__text names = {0};
    int n = 0;
    for (size_t i = from; i < sig->params.len; i++)
        if (!sig->params.data[i].fallback)
            cfx__text_printf(&names, "%s\"%s\"", n++ ? ", " : "", sig->params.data[i].name);
    cfx_fail(CFX_TYPE_ERROR, at, "%s() missing %d required positional argument%s: %s", fn, n,
             n == 1 ? "s" : "", names.data ? names.data : "");
    cfx__text_release(&names);
}

/* The number of the first item that does not fit a list parameter, -1 where it is not about one. */
static int64_t bad_item(const cfx__schema_arg *arg, cfx_value v) {
    if (!arg->list || arg->type == CFX__T_ANY || (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE))
        return -1;
    for (int64_t i = 0; i < v.list_->len; i++) {
        cfx_value one = cfx_list_value(1, &v.list_->items[i]);
        if (!cfx__bind_takes(arg, one, CFX__BIND_EXACT))
            return i;
    }
    return -1;
}

static void fail_value(cfx_site at, const char *fn, const param *p, cfx_value v, int position) {
    char place[32] = "";
    if (position > 0)
        snprintf(place, sizeof place, " (position %d)", position);
    int64_t item = p->arg ? bad_item(p->arg, v) : -1;
    if (item >= 0 && p->arg->type == CFX__T_TENSOR && position > 0)
        cfx_fail(CFX_TYPE_ERROR, at, "expected Tensor as element %lld in argument %d, but got %s",
                 (long long)item, position - 1, cfx__value_python_type(v.list_->items[item]));
    else if (item >= 0)
        cfx_fail(CFX_TYPE_ERROR, at,
                 "%s(): argument '%s'%s must be %s, but found element of type %s at pos %lld", fn,
                 p->name, place, p->type, cfx__value_python_type(v.list_->items[item]),
                 (long long)item);
    else
        cfx_fail(CFX_TYPE_ERROR, at, "%s(): argument '%s'%s must be %s, not %s", fn, p->name, place,
                 p->type, cfx__value_python_type(v));
}

static void fail_keywords(cfx_site at, const char *fn, const signature *sig, const call *c) {
    for (size_t i = (size_t)c->positional; i < c->all.len; i++) {
        size_t k = 0;
        while (k < sig->params.len && !is_named(&sig->params.data[k], c->all.data[i].name))
            k++;
        if (k == sig->params.len)
            cfx_fail(CFX_TYPE_ERROR, at, "%s() got an unexpected keyword argument '%s'", fn,
                     c->all.data[i].name);
        else if (k < (size_t)c->positional)
            cfx_fail(CFX_TYPE_ERROR, at, "%s() got multiple values for argument '%s'", fn,
                     c->all.data[i].name);
    }
    cfx_fail(CFX_TYPE_ERROR, at, "invalid keyword arguments");
}

/* Says what is wrong with a call when only one signature comes into question. */
static void explain_one(cfx_site at, const char *fn, const signature *sig, const call *c) {
    int varargs = cfx__schema_varargs(sig->schema);
    if (c->positional > sig->positional && varargs < 0) {
        fail_extra(at, fn, sig, c->positional);
        return;
    }
    for (size_t i = 0; i < sig->params.len; i++) {
        const param *p = &sig->params.data[i];
        bool positional = (int)i < c->positional;
        const given *g = positional ? &c->all.data[i] : find_given(c, p);
        if (!g && !p->fallback) {
            fail_missing(at, fn, sig, i);
            return;
        }
        if (!g || (cfx_is_none(g->v) && p->fallback && !strcmp(p->fallback, "None")))
            continue;
        if (positional && p->keyword_only) {
            fail_extra(at, fn, sig, c->positional);
            return;
        }
        if (p->arg && !cfx__bind_takes(p->arg, g->v, CFX__BIND_EXACT | CFX__BIND_NUMBERS)) {
            fail_value(at, fn, p, g->v, positional ? (int)i + 1 : 0);
            return;
        }
    }
    fail_keywords(at, fn, sig, c);
}

/* ---- several signatures ---------------------------------------------------------------------- */

/* Whether PyTorch's message, which compares names of types, finds that a value fits. It never does
 * for a parameter with a default, nor for a list. */
static bool looks_right(const param *p, cfx_value v) {
    const char *type = cfx__value_python_type(v);
    if (p->fallback)
        return false;
    return !strcmp(p->type, type) || (!strcmp(p->type, "float") && v.tag == CFX_TAG_INT);
}

static void put_marked(cfx__text *out, const param *p, const given *g) {
    const char *mark = p && looks_right(p, g->v) ? "" : "!";
    cfx__text_printf(out, "%s%s%s%s", mark, g->name ? g->name : "", g->name ? "=" : "",
                     cfx__value_python_type(g->v));
    if (g->v.tag == CFX_TAG_LIST || g->v.tag == CFX_TAG_TUPLE) {
        bool tuple = g->v.tag == CFX_TAG_TUPLE;
        cfx__text_puts(out, tuple ? " of (" : " of [");
        for (int64_t i = 0; i < g->v.list_->len; i++)
            cfx__text_printf(out, "%s%s", i ? ", " : "",
                             cfx__value_python_type(g->v.list_->items[i]));
        cfx__text_puts(out, !tuple ? "]" : g->v.list_->len == 1 ? ",)" : ")");
    }
    cfx__text_puts(out, mark);
}

/* Says more about a signature that has as many parts as the call has values; the lone '*' counts
 * as a part. */
static void put_reason(cfx__text *out, const signature *sig, const call *c) {
    size_t parts = sig->params.len + ((size_t)sig->positional < sig->params.len);
    if (c->all.len != parts)
        return;
    cfx__text wrong = {0};
    for (size_t i = (size_t)c->positional; i < c->all.len; i++) {
        bool known = false;
        for (size_t k = 0; k < sig->params.len; k++)
            known = known || (!sig->params.data[k].fallback &&
                              is_named(&sig->params.data[k], c->all.data[i].name));
        if (!known)
            cfx__text_printf(&wrong, "%s%s", wrong.len ? ", " : "", c->all.data[i].name);
    }
    cfx__text_puts(out, "      didn't match because some of the ");
    if (wrong.len) {
        cfx__text_printf(out, "keywords were incorrect: %s\n", wrong.data);
    } else {
        cfx__text_puts(out, "arguments have invalid types: (");
        for (size_t i = 0; i < c->all.len; i++) {
            size_t k = i - (i > (size_t)sig->positional); /* past the '*' */
            bool star = i == (size_t)sig->positional;
            if (i)
                cfx__text_puts(out, ", ");
            put_marked(out, star ? NULL : &sig->params.data[k], &c->all.data[i]);
        }
        cfx__text_puts(out, ")\n");
    }
    cfx__text_release(&wrong);
}

static void explain_all(cfx_site at, const char *fn, const signature_vec *all, const call *c) {
    cfx__text out = {0};
    cfx__text_printf(&out, "%s() received an invalid combination of arguments - got ", fn);
    put_given(&out, c);
    cfx__text_puts(&out, ", but expected one of:\n");
    for (size_t i = 0; i < all->len; i++) {
        cfx__text_puts(&out, " * ");
        put_signature(&out, &all->data[i]);
        cfx__text_putc(&out, '\n');
        put_reason(&out, &all->data[i], c);
    }
    cfx_fail(CFX_TYPE_ERROR, at, "%s", out.data);
    cfx__text_release(&out);
}

void cfx__bind_fail(cfx_site at, const char *fn, cfx__schema *const *schemas, int n, cfx_args a) {
    size_t mark = cfx_scope_open();
    signature_vec all = {0};
    call c = list_given(a);
    collect(&all, schemas, n);
    int plausible = 0;
    size_t last = 0;
    for (size_t i = 0; i < all.len; i++) {
        const signature *sig = &all.data[i];
        if (c.all.len >= (size_t)sig->required && c.all.len <= sig->params.len) {
            plausible++;
            last = i;
        }
    }
    if (all.len == 1)
        explain_one(at, fn, &all.data[0], &c);
    else if (plausible == 1)
        explain_one(at, fn, &all.data[last], &c);
    else
        explain_all(at, fn, &all, &c);
    for (size_t i = 0; i < all.len; i++)
        VEC_FREE(all.data[i].params);
    VEC_FREE(all);
    VEC_FREE(c.all);
    cfx_scope_close(mark);
}
