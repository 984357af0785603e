/* Calls by function name, as a user writes them: function modes, tracing, then the overload whose
 * schema takes the arguments. */
#include "../base/given.h"
#include "dispatch.h"

#include "../value/later.h"

cfx_args cfx__dispatch_args_split(cfx_args a) {
    int n = a.n;
    while (n > 0 && a.v[n - 1].tag == CFX_TAG_KEYWORD)
        n--;
    if (n == a.n)
        return a;
    cfx_dict *kw = a.kw ? a.kw : cfx_dict_new();
    for (int i = n; i < a.n; i++) {
        const cfx_keyword *k = cfx_as_keyword(a.v[i]);
        cfx_dict_put(kw, cfx__value_of_string(k->name), k->value);
    }
    return (cfx_args){n, a.v, kw};
}

/* A keyword that is bad, or called like one before it. */
static bool keyword_is_bad(cfx_site at, cfx_args a, int i) {
    const cfx_keyword *k = cfx_as_keyword(a.v[i]);
    while (i-- > 0)
        if (a.v[i].tag == CFX_TAG_KEYWORD &&
            !strcmp(cfx_as_keyword(a.v[i])->name->text, k->name->text)) {
            cfx_fail(CFX_TYPE_ERROR, at, "keyword argument repeated: %s", k->name->text);
            return true;
        }
    return cfx_is_bad(k->value);
}

bool cfx__dispatch_args_bad(cfx_site at, cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_BAD ||
            (a.v[i].tag == CFX_TAG_KEYWORD && keyword_is_bad(at, a, i)))
            return true;
    return false;
}

/* A number may stand for a tensor only beside a real one: 2 + 3 is an affair of numbers. */
static bool any_tensor(cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_TENSOR || a.v[i].tag == CFX_TAG_LIST ||
            a.v[i].tag == CFX_TAG_NODE)
            return true;
    for (int64_t i = 0; a.kw && i < a.kw->len; i++)
        if (a.kw->entries[i].value.tag == CFX_TAG_TENSOR ||
            a.kw->entries[i].value.tag == CFX_TAG_NODE)
            return true;
    return false;
}

cfx_args cfx__fn_gather(const cfx_fn *fn, cfx_args a) {
    const cfx__op_info *info = cfx__op_info_of(fn->ops[0]);
    const cfx__schema *s = info ? info->schema : NULL;
    if (!s || strncmp(info->spelling, "torch.functional.", 17))
        return a;
    int last = s->nargs - 1;
    while (last >= 0 && (s->args[last].keyword_only || s->args[last].has_default))
        last--;
    bool several = last >= 0 && s->args[last].type == CFX__T_TENSOR && s->args[last].list;
    if (several)
        a = cfx__dispatch_args_split(a); /* keywords are none of them */
    if (!several || a.n <= last || a.v[last].tag == CFX_TAG_LIST || a.v[last].tag == CFX_TAG_TUPLE)
        return a;
    cfx_value args = cfx_list_value(last, a.v);
    cfx_list_append(cfx_as_list(args), cfx_list_value(a.n - last, a.v + last));
    return (cfx_args){last + 1, cfx_as_list(args)->items, a.kw};
}

cfx_op *cfx__fn_overload(cfx_site at, const cfx_fn *fn, cfx_args a, cfx_value *bound) {
    bool tensors = any_tensor(a);
    a = cfx__fn_gather(fn, a);
    for (int i = 0; i < fn->n; i++) {
        cfx_op *op = fn->ops[i];
        cfx__op_info *info = cfx__op_info_of(op);
        if (!info)
            return NULL;
        bool numbers = tensors && (op->effects & CFX_NUMBERS);
        if (cfx__bind(info->schema, at, a, CFX__BIND_EXACT | (numbers ? CFX__BIND_NUMBERS : 0),
                      bound))
            return op;
    }
    for (int i = 0; i < fn->n; i++)
        if (cfx__bind(cfx__op_info_of(fn->ops[i])->schema, at, a,
                      CFX__BIND_EXACT | CFX__BIND_NUMBERS, bound))
            return fn->ops[i];
    return NULL;
}

/* The same; PyTorch's message when none does. */
static cfx_op *resolve(cfx_site at, const cfx_fn *fn, cfx_args a, cfx_value *bound) {
    cfx_op *op = cfx__fn_overload(at, fn, a, bound);
    if (op || !cfx_ok())
        return op;
    cfx__schema *schemas[32];
    int n = fn->n < COUNT(schemas) ? fn->n : COUNT(schemas);
    for (int i = 0; i < n; i++)
        schemas[i] = cfx__op_info_of(fn->ops[i])->schema;
    const char *dot = cfx__op_info_of(fn->ops[0])->python ? strrchr(fn->name, '.') : NULL;
    cfx__bind_fail(at, dot ? dot + 1 : fn->name, schemas, n, a);
    return NULL;
}

/* Python's operators with a number on the left and a tensor on the right are calls of the tensor's
 * own functions: 1 - x is rsub(x, 1), 1 < x is x > 1. */
static const struct {
    const char *name, *fn;
} reflected[] = {{"add", "aten::add"},         {"sub", "aten::rsub"},
                 {"mul", "aten::mul"},         {"truediv", "python::rtruediv"},
                 {"and_", "aten::bitwise_and"}, {"or_", "aten::bitwise_or"},
                 {"xor", "aten::bitwise_xor"}, {"lt", "aten::gt"},
                 {"le", "aten::ge"},           {"gt", "aten::lt"},
                 {"ge", "aten::le"},           {"eq", "aten::eq"},
                 {"ne", "aten::ne"}};

/* Makes such a call that of the other function, with the operands in `turned`. */
static void reflect(cfx_target *t, cfx_args *a, cfx_value *turned) {
    bool operator_ = t->name && t->fn && a->n == 2 && !a->kw && !strncmp(t->name, "operator.", 9);
    if (!operator_ || a->v[1].tag != CFX_TAG_TENSOR || !cfx_is_number(a->v[0]))
        return;
    for (int i = 0; i < COUNT(reflected); i++) {
        if (strcmp(reflected[i].name, t->name + 9))
            continue;
        turned[0] = a->v[1];
        turned[1] = a->v[0];
        *a = (cfx_args){2, turned, NULL};
        t->fn = cfx_fn_find(reflected[i].fn);
    }
}

static bool names_inplace(cfx_target t) {
    size_t n = t.name ? strlen(t.name) : 0;
    return n > 1 && t.name[n - 1] == '_' && !cfx_fn_find(t.name);
}

cfx_op *cfx__dispatch_resolve(cfx_site at, cfx_target t, cfx_args a, cfx_value *bound) {
    cfx_value turned[2];
    reflect(&t, &a, turned);
    cfx_op *op = resolve(at, t.fn, a, bound);
    return op && names_inplace(t) ? cfx__op_inplace(op) : op;
}

/* Whether an argument is a node or stands for one, or is a container that may hold such. */
static inline bool may_hold_nodes(cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_NODE || a.v[i].tag == CFX_TAG_SLICE ||
            a.v[i].tag > CFX_TAG_TENSOR ||
            (a.v[i].tag == CFX_TAG_TENSOR && (cfx_as_tensor(a.v[i])->head.flags & CFX__TRACED)))
            return true;
    return a.kw != NULL;
}

/* Whether the call becomes a node: while tracing, or because an argument is one. */
static bool becomes_node(cfx_site at, cfx_target t, cfx_args a, cfx_value *result) {
    cfx__dispatch *d = cfx__dispatcher();
    if (d->below)
        return false;
    if (unlikely(d->trace != NULL))
        return d->trace(at, t, a, result);
    return unlikely(may_hold_nodes(a)) && cfx__later_rooms.append(at, &t, a, result);
}

/* fn(..., out=t): the functional overload takes the rest, its out= form the whole. What has no such
 * form is passed over: std(x, out=t) is std.correction_out, since std.default has none. */
static cfx_value call_out(cfx_site at, const cfx_fn *fn, cfx_args a) {
    cfx_op *writing[32];
    int nwriting = 0;
    for (int i = 0; i < fn->n && nwriting < COUNT(writing); i++)
        if (cfx__op_out(fn->ops[i]))
            writing[nwriting++] = fn->ops[i];
    const cfx_fn narrowed = {fn->name, nwriting, writing};
    cfx_dict *rest = cfx_dict_new();
    cfx_value out = cfx_dict_get(a.kw, "out");
    for (int64_t i = 0; i < a.kw->len; i++)
        if (strcmp(cfx_text(a.kw->entries[i].key), "out"))
            cfx_dict_put(rest, a.kw->entries[i].key, a.kw->entries[i].value);
    cfx_value bound[CFX_MAX_ARGS];
    cfx_op *op = resolve(at, nwriting ? &narrowed : fn, (cfx_args){a.n, a.v, rest}, bound);
    if (!op)
        return cfx_bad();
    cfx__op_info *info = cfx__op_info_of(op);
    cfx_op *form = cfx__op_out(op);
    int n = info->schema->nargs;
    int given =
        out.tag == CFX_TAG_TUPLE || out.tag == CFX_TAG_LIST ? (int)cfx_as_list(out)->len : 1;
    if (!form || given != info->nout || n + given > CFX_MAX_ARGS) {
        cfx_fail(CFX_TYPE_ERROR, at, "%s() takes no such out= argument", fn->name);
        return cfx_bad();
    }
    for (int i = 0; i < given; i++) {
        bound[n + i] = given == 1 && out.tag == CFX_TAG_TENSOR ? out : cfx_at(out, i);
        if (bound[n + i].tag != CFX_TAG_TENSOR) {
            cfx_fail(CFX_TYPE_ERROR, at, "%s(): argument 'out' must be Tensor, not %s", fn->name,
                     cfx_value_type_name(bound[n + i]));
            return cfx_bad();
        }
    }
    return cfx__op_call_bound(at, form, bound);
}

static cfx_value call_target(cfx_site at, cfx_target t, cfx_args a, bool inplace) {
    cfx__dispatch *d = cfx__dispatcher();
    if (unlikely(!d->below && d->function_modes)) {
        cfx_mode *m = d->function_modes;
        d->function_modes = m->below_;
        cfx_value result = m->handle(m, t, a);
        d->function_modes = m;
        return result;
    }
    cfx_value result;
    if (t.name && becomes_node(at, t, a, &result))
        return result;
    cfx_value bound[CFX_MAX_ARGS];
    if (!t.fn)
        return cfx_op_do_from(at, t.op, a);
    if (unlikely(a.kw != NULL) && cfx_dict_get(a.kw, "out").tag != CFX_TAG_NONE)
        return call_out(at, t.fn, a);
    cfx_value turned[2];
    reflect(&t, &a, turned);
    cfx_op *op = resolve(at, t.fn, a, bound);
    if (op && inplace)
        op = cfx__op_inplace(op);
    return op ? cfx__op_call_bound(at, op, bound) : cfx_bad();
}

/* How Python calls what is called without a name, for those who look at calls: *fn becomes the
 * function that it has under that name where that takes the arguments. */
static const char *name_of(const cfx_fn **fn, cfx_args a, bool inplace) {
    const cfx__op_info *info = cfx__op_info_of((*fn)->ops[0]);
    const char *name = info ? info->spelling : (*fn)->name;
    if (inplace)
        return cfx__text_format("%s_", name);
    const char *own;
    cfx_value bound[CFX_MAX_ARGS];
    const cfx_fn *named = cfx__fn_named(name, &own);
    if (named && named != *fn && cfx__fn_overload((cfx_site){0}, named, a, bound))
        *fn = named;
    return named == *fn ? own : name;
}

static cfx_value call_fn(cfx_site at, const cfx_fn *fn, const char *name, cfx_args a,
                         bool inplace) {
    if (unlikely(cfx__dispatch_args_bad(at, a)))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    a = cfx__dispatch_args_split(a);
    cfx__dispatch *d = cfx__dispatcher();
    if (!d->below)
        d->at = at;
    if (!name && !d->below && (d->function_modes || d->trace || may_hold_nodes(a)))
        name = name_of(&fn, a, inplace);
    cfx_target t = {.fn = fn, .op = fn->ops[0], .name = name};
    cfx_value v = call_target(at, t, a, inplace);
    if (v.tag == CFX_TAG_TENSOR && cfx__ctx()->scope.len == mark + 1)
        return v;
    return cfx_scope_return_value(mark, v);
}

cfx_value cfx_fn_call_from(cfx_site at, const cfx_fn *fn, cfx_args a) {
    return cfx__given(at, fn, "function") ? call_fn(at, fn, NULL, a, false) : cfx_bad();
}

static cfx_tensor *as_tensor(cfx_site at, const char *name, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v);
    if (v.tag == CFX_TAG_NONE)
        return NULL;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "%s() returned %s here, not one tensor", name,
                 cfx_value_type_name(v));
    return &cfx__tensor_bad;
}

cfx_tensor *cfx_fn_call_tensor_from(cfx_site at, const cfx_fn *fn, cfx_args a) {
    return cfx__given(at, fn, "function")
               ? as_tensor(at, fn->name, call_fn(at, fn, NULL, a, false))
               : &cfx__tensor_bad;
}

cfx_tensor *cfx_fn_call_inplace_from(cfx_site at, const cfx_fn *fn, cfx_args a) {
    return cfx__given(at, fn, "function") ? as_tensor(at, fn->name, call_fn(at, fn, NULL, a, true))
                                          : &cfx__tensor_bad;
}

static void unknown(cfx_site at, const char *name) {
    size_t mark = cfx_scope_open();
    cfx_fail(CFX_NAME_ERROR, at, "no operator is called '%s'%s", name, cfx__dispatch_hint(name));
    cfx_scope_close(mark);
}

/* "torch.ops.aten.add.Tensor", or without "torch.ops."; NULL where there is none. */
static cfx_op *overload_named(const char *text) {
    return cfx_op_find(strncmp(text, "torch.ops.", 10) ? text : text + 10);
}

cfx_value cfx_py_from(cfx_site at, const char *name, cfx_args a) {
    if (!cfx__given(at, name, "name of the function"))
        return cfx_bad();
    const char *own;
    const cfx_fn *fn = cfx__fn_named(name, &own);
    bool inplace = !fn;
    if (inplace)
        fn = cfx__fn_named_inplace(name, &own);
    cfx_op *op = fn ? NULL : overload_named(name);
    if (op)
        return cfx_op_do_from(at, op, a);
    if (!fn) {
        unknown(at, name);
        return cfx_bad();
    }
    return call_fn(at, fn, own, a, inplace);
}

cfx_target cfx_target_op(cfx_op *op) {
    return (cfx_target){.op = op, .name = op ? cfx_op_name(op) : "None"};
}

cfx_target cfx_target_named(const char *text) {
    const cfx_fn *fn = text ? cfx_fn_find(text) : NULL;
    const char *s;
    for (int i = 0; fn && (s = cfx_spelling_at(i)); i++)
        if (!strcmp(s, text))
            return (cfx_target){.fn = fn, .op = fn->ops[0], .name = s};
    cfx_op *op = text ? overload_named(text) : NULL;
    if (op)
        return cfx_target_op(op);
    unknown((cfx_site){0}, text ? text : "None");
    return (cfx_target){.name = "<bad>"};
}

cfx_target cfx_target_find(const char *text) {
    const char *own;
    const cfx_fn *fn = text ? cfx__fn_named(text, &own) : NULL;
    if (text && !fn)
        fn = cfx__fn_named_inplace(text, &own);
    if (fn)
        return (cfx_target){.fn = fn, .op = fn->ops[0], .name = own};
    cfx_op *op = text ? cfx_op_find(strncmp(text, "torch.ops.", 10) ? text : text + 10) : NULL;
    return op ? cfx_target_op(op) : (cfx_target){0};
}

cfx_target cfx_target_object(const char *name, cfx_value object) {
    cfx_object *o = cfx_as_object(object);
    if (cfx__given((cfx_site){0}, name, "name of the function") && o && !o->type->call)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "'%s' object is not callable",
                 cfx__value_python_type(object));
    return cfx_ok() && o ? (cfx_target){.name = name, .object = o} : (cfx_target){.name = "<bad>"};
}

cfx_value cfx_op_do_from(cfx_site at, cfx_op *op, cfx_args a) {
    if (!cfx__given(at, op, "operator") || cfx__dispatch_args_bad(at, a))
        return cfx_bad();
    cfx__op_info *info = cfx__op_info_of(op);
    if (!info)
        return cfx_bad();
    size_t mark = cfx_scope_open();
    a = cfx__dispatch_args_split(a);
    cfx__dispatch *d = cfx__dispatcher();
    cfx_value v, bound[CFX_MAX_ARGS];
    if (!d->below)
        d->at = at;
    cfx_target t = {.op = op, .name = info->name};
    if (unlikely(!d->below && d->function_modes)) {
        cfx_mode *m = d->function_modes;
        d->function_modes = m->below_;
        v = m->handle(m, t, a);
        d->function_modes = m;
        return cfx_scope_return_value(mark, v);
    }
    if (becomes_node(at, t, a, &v))
        return cfx_scope_return_value(mark, v);
    v = cfx__bind(info->schema, at, a, cfx__op_mode(op), bound)
            ? cfx__op_call_bound(at, op, bound)
            : cfx_bad();
    return cfx_scope_return_value(mark, v);
}

/* ---- modes ----------------------------------------------------------------------------------- */

static bool has_handler(const cfx_mode *m) {
    if (!m || !m->handle)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a mode needs a function that handles calls, %s",
                 m ? "and its .handle is NULL" : "not NULL");
    return m && m->handle;
}

void cfx_function_mode_push(cfx_mode *m) {
    if (!has_handler(m))
        return;
    cfx__dispatch *d = cfx__dispatcher();
    m->below_ = d->function_modes;
    m->dispatch_ = false;
    d->function_modes = m;
}

void cfx_function_mode_pop(void) {
    cfx__dispatch *d = cfx__dispatcher();
    if (d->function_modes)
        d->function_modes = d->function_modes->below_;
}

void cfx_dispatch_mode_push(cfx_mode *m) {
    if (!has_handler(m))
        return;
    cfx__dispatch *d = cfx__dispatcher();
    m->below_ = d->dispatch_modes;
    m->dispatch_ = true;
    d->dispatch_modes = m;
}

void cfx_dispatch_mode_pop(void) {
    cfx__dispatch *d = cfx__dispatcher();
    if (d->dispatch_modes)
        d->dispatch_modes = d->dispatch_modes->below_;
}

static bool has_overload(const cfx_fn *fn, const cfx_op *op) {
    for (int i = 0; i < fn->n; i++)
        if (fn->ops[i] == op)
            return true;
    return false;
}

bool cfx__target_is_whole(cfx_site at, cfx_target t) {
    if (t.object || !t.op || !t.name)
        return true;
    const cfx_fn *named = t.fn ? cfx_fn_find(t.name) : NULL;
    bool whole = t.fn ? t.op == t.fn->ops[0] && (!named || has_overload(named, t.op))
                      : !strcmp(t.name, cfx_op_name(t.op));
    if (!whole)
        cfx_fail(CFX_TYPE_ERROR, at,
                 "a target was changed in part: it is called %s and calls %s; replace it whole, by "
                 "cfx_target_named or cfx_target_op",
                 t.name, cfx_op_name(t.op));
    return whole;
}

cfx_value cfx_target_call_from(cfx_site at, cfx_target t, cfx_args a) {
    if (t.object)
        return cfx_object_call_from(at, cfx__value_of_object(t.object), a);
    return t.fn ? call_fn(at, t.fn, t.name, a, names_inplace(t)) : cfx_op_do_from(at, t.op, a);
}

cfx_value cfx_mode_forward(cfx_mode *self, cfx_target t, cfx_args a) {
    cfx__dispatch *d = cfx__dispatcher();
    if (!cfx__given(d->at, self, "mode") || !cfx__target_is_whole(d->at, t))
        return cfx_bad();
    if (self->dispatch_) { /* function modes have seen this call already */
        cfx_value bound[CFX_MAX_ARGS];
        cfx__op_info *info = cfx__op_info_of(t.op);
        if (!info || cfx__dispatch_args_bad(d->at, a) ||
            !cfx__bind(info->schema, d->at, a, cfx__op_mode(t.op), bound))
            return cfx_bad();
        return cfx__op_call_bound(d->at, t.op, bound);
    }
    if (t.fn)
        return call_target(d->at, t, a, names_inplace(t));
    return cfx_op_do_from(d->at, t.op, a);
}

static void log_line(const cfx_mode *self, const char *which, cfx_target t) {
    cfx__text line = {0};
    cfx__text_showf(&line, "%s Log: %s\n", which, t.name);
    fputs(line.data, self->user);
    cfx__text_release(&line);
}

static cfx_value log_function(cfx_mode *self, cfx_target t, cfx_args a) {
    log_line(self, "Function", t);
    return cfx_mode_forward(self, t, a);
}

static cfx_value log_dispatch(cfx_mode *self, cfx_target t, cfx_args a) {
    log_line(self, "Dispatch", t);
    return cfx_mode_forward(self, t, a);
}

cfx_mode cfx_function_log(FILE *out) { return (cfx_mode){.handle = log_function, .user = out}; }
cfx_mode cfx_dispatch_log(FILE *out) { return (cfx_mode){.handle = log_dispatch, .user = out}; }

bool cfx_set_fake_mode(bool on) {
    cfx__dispatch *d = cfx__dispatcher();
    bool before = d->fake;
    d->fake = on;
    return before;
}
