/* The registry: every operator there is, found by name in constant or logarithmic time.
 *
 * The tables come from tools/genops, sorted at build time, so that nothing is done at start-up; a
 * schema is parsed when its operator is first used. In-place and out= forms, and operators of the
 * user's, are made at run time and kept in cfx__op_extra, under a lock, until the process ends. */
#include "derive.h"
#include "registry.h"

#include <cfx/ops.h>

typedef struct {
    const char *name;
    const cfx_fn *fn;
} named_fn;

#include "ops_table.inc"

cfx__extra_ops cfx__op_extra = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- info ------------------------------------------------------------------------------------ */

static char *printed_name(const cfx__schema *s) {
    cfx__text t = {0};
    cfx__text_printf(&t, "%s.%s.%s", s->ns, s->name, *s->overload ? s->overload : "default");
    return t.data;
}

static int plain_returns(const cfx__schema *s) {
    for (int i = 0; i < s->nrets; i++)
        if (s->rets[i].type != CFX__T_TENSOR || s->rets[i].list || s->rets[i].optional)
            return 0;
    return s->nrets <= CFX_MAX_OUTS ? s->nrets : 0;
}

bool cfx__op_join(char *key, const char *ns, const char *base, const char *overload) {
    const char *parts[] = {ns, "::", base, overload ? "." : "", overload ? overload : ""};
    size_t at = 0;
    for (int i = 0; i < COUNT(parts); i++) {
        const size_t n = strlen(parts[i]);
        if (at + n >= CFX__OP_NAME_MAX)
            return false;
        memcpy(key + at, parts[i], n);
        at += n;
    }
    key[at] = 0;
    return true;
}

/* The place of the operator of this full name among those written down; -1: none. */
static int find_index(const char *key) {
    int lo = 0, hi = COUNT(all_ops) - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, order = strcmp(key, all_names[mid]);
        if (!order)
            return mid;
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return -1;
}

/* What its file says, or else what its columns do. */
static cfx__op_family family_of(const cfx_op *op, const cfx__schema *s) {
    char key[CFX__OP_NAME_MAX];
    const char *overload = *s->overload ? s->overload : "default";
    int i = cfx__op_join(key, s->ns, s->name, overload) ? find_index(key) : -1;
    return i >= 0 && all_families[i]     ? all_families[i]
           : op->view                    ? CFX__OP_VIEW
           : op->effects & CFX_RANDOM    ? CFX__OP_RANDOM
           : op->effects & CFX_SIDE      ? CFX__OP_CHECK
           : op->effects & CFX_POINTWISE ? CFX__OP_MATH
                                         : CFX__OP_OTHER;
}

cfx__op_info *cfx__op_info_make(cfx_op *op) {
    cfx__schema *s = cfx__schema_parse(op->schema);
    if (!s)
        return NULL;
    if (s->nargs > CFX_MAX_ARGS) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "operator %s has more than %d arguments",
                 s->name, CFX_MAX_ARGS);
        cfx__schema_free(s);
        return NULL;
    }
    cfx__op_info *info = cfx__alloc0(sizeof *info);
    info->schema = s;
    info->name = printed_name(s);
    size_t first = op->torch_ ? strcspn(op->torch_, " ") : 0;
    info->spelling = !op->torch_          ? info->name
                     : !op->torch_[first] ? op->torch_
                                          : cfx__text_copy(op->torch_, first);
    info->nout = plain_returns(s);
    info->family = family_of(op, s);
    info->python = !strcmp(s->ns, "python");
    info->update_flag = -1;
    for (int i = 0; i < s->nargs; i++) {
        const char *name = s->args[i].name;
        info->writes |= s->args[i].writes;
        if (op->updates && !strcmp(name, op->updates))
            info->update_flag = i;
        if (op->updates && (!strcmp(name, "running_mean") || !strcmp(name, "running_var")))
            info->updated |= 1u << i;
    }
    cfx__op_info *none = NULL;
    if (__atomic_compare_exchange_n((cfx__op_info **)&op->info_, &none, info, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return info;
    cfx__schema_free(s); /* another thread was faster */
    if (info->spelling != info->name && info->spelling != op->torch_)
        cfx__free((char *)info->spelling);
    cfx__free((char *)info->name);
    cfx__free(info);
    return none;
}

const char *cfx_op_name(cfx_op *op) {
    cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    return info ? info->name : "?";
}

bool cfx__op_shares(cfx_op *op, int i) {
    const cfx__op_info *info = cfx__op_info_of(op);
    bool shares = op->effects & CFX_SHARES || info->python;
    for (int k = 0; !shares && info->schema->args[i].alias && k < info->schema->nrets; k++)
        shares = info->schema->rets[k].alias != 0;
    return shares;
}

bool cfx__op_writes(cfx_op *op, const cfx_value *args, int i) {
    const cfx__op_info *info = cfx__op_info_of(op);
    if (info->schema->args[i].writes)
        return true;
    if (!(info->updated >> i & 1) || args[i].tag == CFX_TAG_NONE)
        return false;
    const cfx_value flag = args[info->update_flag];
    return !cfx_is_number(flag) || cfx_number(flag) != 0;
}

bool cfx__op_call_writes(cfx_op *op, const cfx_value *args) {
    const cfx__op_info *info = cfx__op_info_of(op);
    bool writes = info->writes;
    for (int i = 0; !writes && info->updated >> i; i++)
        writes = cfx__op_writes(op, args, i);
    return writes;
}

bool cfx__op_is_pure(cfx_op *op, const cfx_value *args) {
    const cfx__op_info *info = cfx__op_info_of(op);
    return info && !info->writes && !(op->effects & (CFX_SIDE | CFX_RANDOM)) &&
           !(args && cfx__op_call_writes(op, args));
}

int cfx_op_count(void) { return COUNT(all_ops); }

cfx_op *cfx_op_at(int i) { return i >= 0 && i < COUNT(all_ops) ? all_ops[i] : NULL; }

/* ---- derived forms --------------------------------------------------------------------------- */

/* The overload that a row names in its column for a form: "default", "dim_max max max_values", or
 * in a whole schema; written to text. False: there is no such form. */
static bool form_overload(const char *column, char *text) {
    if (!column)
        return false;
    const char *open = strchr(column, '('), *dot = open ? strchr(column, '.') : NULL;
    const char *word = dot && dot < open ? dot + 1 : open ? "default" : column;
    snprintf(text, CFX__OP_NAME_MAX, "%.*s", (int)strcspn(word, " ("), word);
    return true;
}

/* The name of what result i is written to: the row's, behind the overload; or the result's own. */
static void put_out_name(cfx__text *t, const cfx_op *op, const cfx__schema *s, int i) {
    const char *word = op->out;
    for (int k = 0; word && k <= i; k++)
        word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL;
    if (word)
        cfx__text_add(t, word, strcspn(word, " "));
    else if (s->rets[i].name)
        cfx__text_puts(t, s->rets[i].name);
    else if (s->nrets == 1)
        cfx__text_puts(t, strcmp(op->out, "grad_input") ? "out" : "grad_input");
    else
        cfx__text_printf(t, "out%d", i);
}

/* "aten::relu(Tensor self) -> Tensor" becomes "aten::relu_(Tensor(a!) self) -> Tensor(a!)". What
 * ATen writes to is called self, also where it is the `input` of dropout. Lists give nothing. A
 * whole schema in the column of the row is taken as it is; what no column names is cfx's own. */
static char *inplace_schema(const cfx_op *op, const cfx__schema *s, const char *overload) {
    if (op->inplace && strchr(op->inplace, '('))
        return cfx__text_copy(op->inplace, strlen(op->inplace));
    const char *end = strcmp(overload, "default") ? overload : "";
    const char *first = strchr(s->text, '(') + 1, *arrow = strstr(s->text, ") -> ");
    bool list = s->args[0].list;
    const char *rest = strchr(first, ' ') + 1 + strlen(s->args[0].name);
    cfx__text t = {0};
    cfx__text_printf(&t, "%s::%s_%s%s(Tensor(a!)%s %s%.*s) -> %s",
                     op->inplace ? s->ns : "cfx", s->name, *end ? "." : "", end,
                     list ? "[]" : "", strcmp(s->ns, "aten") ? s->args[0].name : "self",
                     (int)(arrow - rest), rest, list ? "()" : "Tensor(a!)");
    return t.data;
}

/* The arguments as the out= form has them, from the bracket on: without options. */
static void put_given(cfx__text *t, const cfx__schema *s) {
    static const char from[] = ", ScalarType? dtype=", to[] = "bool? pin_memory=None";
    const char *open = strchr(s->text, '('), *arrow = strstr(s->text, ") -> ");
    const char *cut = cfx__op_options_at(s) >= 0 ? strstr(open, from) : NULL;
    const char *end = cut ? strstr(cut, to) : NULL;
    cfx__text_add(t, open, (size_t)((end ? cut : arrow) - open));
    if (end)
        cfx__text_add(t, end + strlen(to), (size_t)(arrow - end) - strlen(to));
}

/* "... -> Tensor" becomes "...*, Tensor(a!) out) -> Tensor(a!)" under the overload `overload`. */
static char *out_schema(const cfx_op *op, const cfx__schema *s, const char *overload) {
    if (strchr(op->out, '('))
        return cfx__text_copy(op->out, strlen(op->out));
    cfx__text t = {0}, names = {0};
    bool keywords = s->npositional < s->nargs;
    cfx__text_printf(&t, "%s::%s.%s", s->ns, s->name, overload);
    put_given(&t, s);
    cfx__text_puts(&t, s->nargs == 0 ? "*" : keywords ? "" : ", *");
    if (cfx__op_gives_list(s)) {
        cfx__text_puts(&t, ", Tensor(a!)[] out) -> ()");
        return t.data;
    }
    char mark = 'a';
    for (int i = 0; i < s->nargs; i++)
        mark = s->args[i].writes && s->args[i].alias >= mark ? s->args[i].alias + 1 : mark;
    for (int i = 0; i < s->nrets; i++) {
        cfx__text_printf(&t, ", Tensor(%c!) ", mark + i);
        put_out_name(&t, op, s, i);
        cfx__text_printf(&names, "%sTensor(%c!)%s%s", i ? ", " : "", mark + i,
                         s->rets[i].name ? " " : "", s->rets[i].name ? s->rets[i].name : "");
    }
    cfx__text_printf(&t, s->nrets == 1 ? ") -> %s" : ") -> (%s)", names.data);
    cfx__text_release(&names);
    return t.data;
}

static cfx_op *derived_new(cfx_op *functional, char *schema, cfx__op_form form) {
    cfx_op *op = cfx__alloc0(sizeof *op);
    op->schema = schema;
    op->effects = functional->effects & (CFX_RANDOM | CFX_SIDE | CFX_NUMBERS | CFX_ANY_DEVICE);
    cfx__op_info *info = cfx__op_info_of(op);
    if (!info) {
        cfx__free(schema);
        cfx__free(op);
        return NULL;
    }
    info->form = form;
    info->functional = functional;
    info->family = cfx__op_info_of(functional)->family;
    return op;
}

/* Whether results are new: an operator may write statistics beside them. */
static bool gives_new(const cfx__op_info *f) {
    for (int i = 0; i < f->schema->nrets; i++)
        if (f->schema->rets[i].writes)
            return false;
    return f->schema->nargs >= 1 && (f->nout >= 1 || cfx__op_gives_list(f->schema));
}

/* What may be an argument, or a view of one, is written nowhere else: no contiguous.out. */
static bool may_write_out(const cfx__op_info *f) {
    bool own = gives_new(f);
    for (int i = 0; own && i < f->schema->nrets; i++)
        own = !f->schema->rets[i].alias;
    return own;
}

/* One tensor gives one, or, in the operators over lists, each of a list gives one. */
static bool may_write_first(const cfx__op_info *f) {
    const cfx__schema_arg *first = f->schema->args;
    bool each = cfx__op_gives_list(f->schema) && !strncmp(f->schema->name, "_foreach_", 9);
    return gives_new(f) && !f->writes && first->type == CFX__T_TENSOR &&
           (first->list ? each : f->nout == 1);
}

bool cfx__op_forms_fit(cfx_op *op) {
    const cfx__op_info *f = cfx__op_info_of(op);
    bool first = !op->inplace || may_write_first(f), out = !op->out || may_write_out(f);
    if (!first || !out)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "operator %s can have no %s form: %s", f->name,
                 first ? "out=" : "in-place",
                 first ? "its results are not new tensors"
                       : "it does not make one new tensor of its first argument, a tensor");
    return first && out;
}

/* The form kept at *place, made at first use; schema is freed where it is not needed. */
static cfx_op *derived_once(cfx_op **place, cfx_op *functional, char *schema, cfx__op_form form) {
    pthread_mutex_lock(&cfx__op_extra.lock);
    cfx_op *made = *place;
    if (made)
        cfx__free(schema);
    else
        made = derived_new(functional, schema, form);
    __atomic_store_n(place, made, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cfx__op_extra.lock);
    return made;
}

/* The overload whose form has this name: std.out is std.dim's. */
static cfx_op *form_owner(const cfx_fn *fn, cfx__op_form form, const char *overload) {
    char text[CFX__OP_NAME_MAX];
    for (int i = 0; fn && i < fn->n; i++) {
        const cfx_op *op = fn->ops[i];
        if (form_overload(form == CFX__OUT ? op->out : op->inplace, text) &&
            !strcmp(text, overload))
            return fn->ops[i];
    }
    return NULL;
}

/* The row that is written for the in-place form; NULL: it is derived. */
static cfx_op *written_inplace(const cfx__schema *s, const char *overload) {
    char base[CFX__OP_NAME_MAX], key[CFX__OP_NAME_MAX];
    snprintf(base, sizeof base, "%s_", s->name);
    return cfx__op_join(key, s->ns, base, overload) ? cfx__op_written(key) : NULL;
}

cfx_op *cfx__op_updating(cfx_op *functional) {
    cfx__op_info *f = cfx__op_info_of(functional);
    cfx_op *made = f ? __atomic_load_n(&f->inplace, __ATOMIC_ACQUIRE) : NULL;
    if (made || !f || !may_write_first(f))
        return made;
    char overload[CFX__OP_NAME_MAX];
    cfx_op *row = NULL;
    if (form_overload(functional->inplace, overload))
        row = written_inplace(f->schema, overload);
    else
        snprintf(overload, sizeof overload, "default");
    return row ? row
               : derived_once(&f->inplace, functional,
                              inplace_schema(functional, f->schema, overload), CFX__INPLACE);
}

cfx_op *cfx__op_inplace(cfx_op *functional) {
    cfx__op_info *f = cfx__op_info_of(functional);
    if (f && functional->inplace)
        return cfx__op_updating(functional);
    if (f)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s has no in-place form", f->name);
    return NULL;
}

cfx_op *cfx__op_out(cfx_op *functional) {
    cfx__op_info *f = cfx__op_info_of(functional);
    char overload[CFX__OP_NAME_MAX];
    if (!f || !form_overload(functional->out, overload))
        return NULL;
    cfx_op *made = __atomic_load_n(&f->out, __ATOMIC_ACQUIRE);
    return made ? made
                : derived_once(&f->out, functional, out_schema(functional, f->schema, overload),
                               CFX__OUT);
}

/* Whether an operator of that name has a form that writes to its first argument. */
static bool has_inplace(const cfx_fn *fn) {
    for (int i = 0; i < fn->n; i++)
        if (fn->ops[i]->inplace)
            return true;
    return false;
}

/* ---- find ------------------------------------------------------------------------------------ */

/* A full name taken apart; default overloads are called so. */
typedef struct {
    const char *ns, *base, *overload;
} full_name;

cfx_op *cfx__op_written(const char *key) {
    int i = find_index(key);
    return i < 0 ? NULL : all_ops[i];
}

static const named_fn *find_named(const named_fn *list, int n, const char *name) {
    int lo = 0, hi = n - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, list[mid].name);
        if (!order)
            return &list[mid];
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}

static const cfx_fn *find_in(const named_fn *list, int n, const char *name) {
    const named_fn *found = find_named(list, n, name);
    return found ? found->fn : NULL;
}

static const cfx_fn *find_extra_fn(const char *name) {
    pthread_mutex_lock(&cfx__op_extra.lock);
    const cfx_fn *fn = cfx__map_get(&cfx__op_extra.fns, name);
    pthread_mutex_unlock(&cfx__op_extra.lock);
    return fn;
}

/* The function called ns::base. */
static const cfx_fn *find_fn(const char *ns, const char *base) {
    char key[CFX__OP_NAME_MAX];
    if (!cfx__op_join(key, ns, base, NULL))
        return NULL;
    const cfx_fn *fn = find_in(all_fns, COUNT(all_fns), key);
    return fn ? fn : find_extra_fn(key);
}

const cfx_fn *cfx__fn_of(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    return find_fn(s->ns, s->name);
}

static cfx_op *find_inplace(full_name name) {
    char base[CFX__OP_NAME_MAX];
    size_t n = strlen(name.base) - 1;
    memcpy(base, name.base, n);
    base[n] = 0;
    cfx_op *owner = form_owner(find_fn(name.ns, base), CFX__INPLACE, name.overload);
    return owner ? cfx__op_inplace(owner) : NULL;
}

static cfx_op *find_out(full_name name) {
    cfx_op *owner = form_owner(find_fn(name.ns, name.base), CFX__OUT, name.overload);
    return owner ? cfx__op_out(owner) : NULL;
}

/* The operator of exactly this name: written down, registered, or derived. */
static cfx_op *find_full(full_name name) {
    char key[CFX__OP_NAME_MAX];
    if (!cfx__op_join(key, name.ns, name.base, name.overload))
        return NULL;
    cfx_op *op = cfx__op_written(key);
    if (op)
        return op;
    pthread_mutex_lock(&cfx__op_extra.lock);
    op = cfx__map_get(&cfx__op_extra.ops, key);
    pthread_mutex_unlock(&cfx__op_extra.lock);
    if (op)
        return op;
    size_t n = strlen(name.base);
    op = n > 1 && name.base[n - 1] == '_' ? find_inplace(name) : NULL;
    return op ? op : find_out(name); /* names as __lshift__ are no in-place form's */
}

cfx_op *cfx_op_find(const char *name) {
    char text[CFX__OP_NAME_MAX];
    size_t n = name ? strlen(name) : 0;
    if (!n || n >= sizeof text)
        return NULL;
    memcpy(text, name, n + 1);
    char *colons = strstr(text, "::");
    if (colons) {
        *colons = 0;
        char *dot = strchr(colons + 2, '.');
        if (dot)
            *dot = 0;
        return find_full((full_name){text, colons + 2, dot ? dot + 1 : "default"});
    }
    char *first = strchr(text, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    if (first)
        *first++ = 0;
    if (second) {
        *second++ = 0;
        return find_full((full_name){text, first, second});
    }
    const char *overload = first ? first : "default";
    cfx_op *op = find_full((full_name){"aten", text, overload});
    if (!op)
        op = find_full((full_name){"python", text, overload});
    return op || !first ? op : find_full((full_name){text, first, "default"});
}

const char *cfx_spelling_at(int i) {
    return i >= 0 && i < COUNT(spellings) ? spellings[i].name : NULL;
}

const cfx_fn *cfx_fn_find(const char *name) {
    if (!name)
        return NULL;
    const cfx_fn *fn = find_in(spellings, COUNT(spellings), name);
    if (!fn)
        fn = find_extra_fn(name);
    if (fn)
        return fn;
    const char *colons = strstr(name, "::"), *dot = strchr(name, '.');
    if (colons)
        return find_in(all_fns, COUNT(all_fns), name);
    if (dot) {
        char ns[CFX__OP_NAME_MAX];
        size_t n = (size_t)(dot - name);
        if (n >= sizeof ns)
            return NULL;
        memcpy(ns, name, n);
        ns[n] = 0;
        return find_fn(ns, dot + 1);
    }
    fn = find_fn("aten", name);
    return fn ? fn : find_fn("python", name);
}

/* Modules whose functions are builtin ones of others: torch.fft.fft is torch._C._fft.fft_fft. */
static const char *const builtins[] = {"fft", "linalg", "special"};

/* "torch.fft.fft" for such a builtin one, "F.relu" in full, and where torch.split is at home; NULL
 * for other names. */
static const named_fn *find_home(const char *name) {
    char full[CFX__OP_NAME_MAX];
    bool f = !strncmp(name, "F.", 2), top = !strncmp(name, "torch.", 6) && !strchr(name + 6, '.');
    int n = 0;
    if (f || top)
        n = snprintf(full, sizeof full, "torch.%s.%s", f ? "nn.functional" : "functional",
                     name + (f ? 2 : 6));
    for (int i = 0; i < COUNT(builtins) && !n && !strncmp(name, "torch._C._", 10); i++) {
        size_t len = strlen(builtins[i]);
        const char *rest = name + 10 + len + 1 + len + 1; /* fft.fft_ */
        if (strlen(name) > (size_t)(rest - name) && !strncmp(name + 10, builtins[i], len))
            n = snprintf(full, sizeof full, "torch.%s.%s", builtins[i], rest);
    }
    return n && n < (int)sizeof full ? find_named(spellings, COUNT(spellings), full) : NULL;
}

/* The own name of a function by one of its spellings. */
static const char *own_name(const named_fn *f) {
    const cfx__op_info *info = cfx__op_info_of(f->fn->ops[0]);
    if (!info || info->python)
        return f->name;
    if (!strncmp(f->name, "torch.nn.functional.", 20))
        return info->spelling;
    for (int i = 0; i < COUNT(builtins); i++) {
        size_t len = strlen(builtins[i]);
        if (!strncmp(f->name, "torch.", 6) && !strncmp(f->name + 6, builtins[i], len) &&
            f->name[6 + len] == '.')
            return cfx__text_format("torch._C._%s.%s_%s", builtins[i], builtins[i],
                                    f->name + 6 + len + 1);
    }
    return f->name;
}

const cfx_fn *cfx__fn_named(const char *name, const char **own) {
    const named_fn *found = find_home(name);
    if (!found)
        found = find_named(spellings, COUNT(spellings), name);
    *own = found ? own_name(found) : name;
    if (found)
        return found->fn;
    const cfx_fn *fn = cfx_fn_find(name);
    return fn || strncmp(name, "torch.ops.", 10) ? fn : cfx_fn_find(name + 10); /* all overloads */
}

const cfx_fn *cfx__fn_named_inplace(const char *name, const char **own) {
    size_t n = strlen(name);
    if (n < 2 || name[n - 1] != '_' || name[n - 2] == '_')
        return NULL;
    const char *plain = cfx__string_new(name, n - 1)->text;
    const cfx_fn *fn = cfx__fn_named(plain, own);
    if (fn && !strncmp(*own, "torch.nn.functional.", 20)) { /* F.relu_ is torch.relu_ */
        const cfx_fn *operator_ = find_fn("aten", *own + 20);
        const cfx__op_info *info = operator_ ? cfx__op_info_of(operator_->ops[0]) : NULL;
        fn = info ? operator_ : fn;
        *own = info ? info->spelling : *own;
    }
    if (!fn || !has_inplace(fn))
        return NULL;
    *own = cfx__text_format("%s_", *own);
    return fn;
}
