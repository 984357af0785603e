/* The registry: every operator there is, found by name in constant or logarithmic time.
 *
 * The tables come from tools/genops, sorted at build time, so that nothing is done at start-up; a
 * schema is parsed when its operator is first used. In-place and out= forms, and operators of the
 * user's, are made at run time and kept in `extra`, under a lock, until the process ends. */
#include "dispatch.h"

#include <cfx/ops.h>

#include <pthread.h>

#include "ops_table.inc"

static struct {
    pthread_mutex_t lock;
    cfx__map ops; /* "aten::relu_" (canonical name) to cfx_op */
    cfx__map fns; /* user functions and spellings to cfx_fn */
} extra = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- info ------------------------------------------------------------------------------------ */

static char *copy_text(const char *text) {
    size_t n = strlen(text) + 1;
    return memcpy(cfx__alloc(n), text, n);
}

static char *full_name(const cfx__schema *s) {
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
    info->name = full_name(s);
    size_t first = op->torch_ ? strcspn(op->torch_, " ") : 0;
    info->spelling = !op->torch_          ? info->name
                     : !op->torch_[first] ? op->torch_
                                          : strndup(op->torch_, first);
    info->nout = plain_returns(s);
    info->python = !strcmp(s->ns, "python");
    for (int i = 0; i < s->nargs; i++)
        info->writes |= s->args[i].writes;
    cfx__op_info *none = NULL;
    if (__atomic_compare_exchange_n((cfx__op_info **)&op->info_, &none, info, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return info;
    cfx__schema_free(s); /* another thread was faster */
    if (info->spelling != info->name && info->spelling != op->torch_)
        free((char *)info->spelling);
    free((char *)info->name);
    free(info);
    return none;
}

const char *cfx_op_name(cfx_op *op) {
    cfx__op_info *info = cfx__op_info_of(op);
    return info ? info->name : "?";
}

int cfx_op_count(void) { return COUNT(all_ops); }

cfx_op *cfx_op_at(int i) { return i >= 0 && i < COUNT(all_ops) ? all_ops[i] : NULL; }

/* ---- derived forms --------------------------------------------------------------------------- */

/* "aten::relu(Tensor self) -> Tensor" becomes "aten::relu_(Tensor(a!) self) -> Tensor(a!)". */
static char *inplace_schema(const cfx__schema *s) {
    const char *open = strchr(s->text, '('), *first = open + 1;
    const char *name_end =
        strchr(s->text, '.') && strchr(s->text, '.') < open ? strchr(s->text, '.') : open;
    first += strncmp(first, "Tensor(a)", 9) ? 6 : 9;
    const char *arrow = strstr(s->text, ") -> ");
    cfx__text t = {0};
    cfx__text_printf(&t, "%.*s_%.*s(Tensor(a!)%.*s) -> Tensor(a!)", (int)(name_end - s->text),
                     s->text, (int)(open - name_end), name_end, (int)(arrow - first), first);
    return t.data;
}

/* "... -> Tensor" becomes "...*, Tensor(a!) out) -> Tensor(a!)" under the overload `overload`. */
static char *out_schema(const cfx__schema *s, const char *overload) {
    const char *open = strchr(s->text, '('), *arrow = strstr(s->text, ") -> ");
    cfx__text t = {0}, names = {0};
    bool keywords = s->npositional < s->nargs;
    cfx__text_printf(&t, "%s::%s.%s%.*s%s", s->ns, s->name, overload, (int)(arrow - open), open,
                     s->nargs == 0 ? "*" : keywords ? "" : ", *");
    for (int i = 0; i < s->nrets; i++) {
        const char *name = s->rets[i].name;
        cfx__text_printf(&t, ", Tensor(%c!) ", 'a' + i);
        if (name)
            cfx__text_puts(&t, name);
        else if (s->nrets == 1)
            cfx__text_puts(&t, "out");
        else
            cfx__text_printf(&t, "out%d", i);
        cfx__text_printf(&names, "%sTensor(%c!)", i ? ", " : "", 'a' + i);
    }
    cfx__text_printf(&t, s->nrets == 1 ? ") -> %s" : ") -> (%s)", names.data);
    cfx__text_release(&names);
    return t.data;
}

static cfx_op *derived_new(cfx_op *functional, char *schema, cfx__op_form form) {
    cfx_op *op = cfx__alloc0(sizeof *op);
    op->schema = schema;
    op->effects = functional->effects & (CFX_RANDOM | CFX_SIDE | CFX_NUMBERS);
    cfx__op_info *info = cfx__op_info_of(op);
    if (!info) {
        free(schema);
        free(op);
        return NULL;
    }
    info->form = form;
    info->functional = functional;
    return op;
}

static bool can_be_derived(const cfx__op_info *f) {
    const cfx__schema *s = f->schema;
    return f->nout >= 1 && !f->writes && s->nargs >= 1;
}

cfx_op *cfx__op_inplace(cfx_op *functional) {
    cfx__op_info *f = cfx__op_info_of(functional);
    if (!f)
        return NULL;
    cfx_op *made = __atomic_load_n(&f->inplace, __ATOMIC_ACQUIRE);
    if (made)
        return made;
    const cfx__schema_arg *self = f->schema->nargs ? &f->schema->args[0] : NULL;
    if (!can_be_derived(f) || f->nout != 1 || self->type != CFX__T_TENSOR || self->list) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s has no in-place form", f->name);
        return NULL;
    }
    pthread_mutex_lock(&extra.lock);
    made = f->inplace;
    if (!made) {
        made = derived_new(functional, inplace_schema(f->schema), CFX__INPLACE);
        __atomic_store_n(&f->inplace, made, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&extra.lock);
    return made;
}

/* The overload that "sum.IntList_out" is the out= form of: dim_IntList. */
static cfx_op *functional_of_out(const cfx_fn *fn, const char *overload) {
    size_t n = strlen(overload) - 3;
    if (n && overload[n - 1] == '_')
        n--;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < fn->n; i++) {
            cfx__op_info *info = cfx__op_info_of(fn->ops[i]);
            const char *have = info->schema->overload;
            size_t len = strlen(have);
            bool fits = pass == 0   ? len == n && !memcmp(have, overload, n)
                        : pass == 1 ? n > 0 && len > n && !memcmp(have + len - n, overload, n)
                                    : n == 0 && (!strcmp(have, "Tensor") || i == fn->n - 1);
            if (fits && can_be_derived(info))
                return fn->ops[i];
        }
    return NULL;
}

/* ---- find ------------------------------------------------------------------------------------ */

static cfx_op *find_written(const char *name, const char *overload) {
    int lo = 0, hi = COUNT(all_ops) - 1;
    size_t n = strlen(name);
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        int order = strncmp(name, all_names[mid], n);
        if (!order)
            order = all_names[mid][n] != '.' ? '.' - all_names[mid][n]
                                             : strcmp(overload, all_names[mid] + n + 1);
        if (!order)
            return all_ops[mid];
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}

static const cfx_fn *find_fn(const char *name) {
    int lo = 0, hi = COUNT(all_fns) - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, all_fns[mid]->name);
        if (!order)
            return all_fns[mid];
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}

static cfx_op *find_derived(const char *name, const char *overload) {
    size_t n = strlen(name), m = strlen(overload);
    cfx_op *found = NULL;
    if (n > 1 && name[n - 1] == '_') {
        char *base = copy_text(name);
        base[n - 1] = 0;
        cfx_op *functional = find_written(base, overload);
        cfx__op_info *info = functional ? cfx__op_info_of(functional) : NULL;
        if (info && can_be_derived(info) && info->nout == 1)
            found = cfx__op_inplace(functional);
        free(base);
        return found;
    }
    const cfx_fn *fn = m >= 3 && !strcmp(overload + m - 3, "out") ? find_fn(name) : NULL;
    cfx_op *functional = fn ? functional_of_out(fn, overload) : NULL;
    if (!functional)
        return NULL;
    cfx__text key = {0};
    cfx__text_printf(&key, "aten::%s.%s", name, overload);
    pthread_mutex_lock(&extra.lock);
    found = cfx__map_get(&extra.ops, key.data);
    if (!found) {
        found = derived_new(functional, out_schema(cfx__op_info_of(functional)->schema, overload),
                            CFX__OUT);
        if (found)
            cfx__map_set(&extra.ops, copy_text(key.data), found);
    }
    pthread_mutex_unlock(&extra.lock);
    cfx__text_release(&key);
    return found;
}

cfx_op *cfx_op_find(const char *name) {
    char buffer[256];
    size_t n = strlen(name);
    if (n >= sizeof buffer)
        return NULL;
    memcpy(buffer, name, n + 1);
    char *base = buffer, *colons = strstr(buffer, "::");
    const char *ns = "aten";
    if (colons) {
        *colons = 0;
        ns = buffer;
        base = colons + 2;
    } else if (strchr(buffer, '.') && strchr(strchr(buffer, '.') + 1, '.')) {
        base = strchr(buffer, '.');
        *base++ = 0;
        ns = buffer;
    } else if (!strncmp(buffer, "aten.", 5)) {
        base = buffer + 5;
    }
    char *dot = strchr(base, '.');
    const char *overload = dot ? dot + 1 : "default";
    if (dot)
        *dot = 0;
    cfx_op *op = NULL;
    if (!strcmp(ns, "aten") || !strcmp(ns, "prims"))
        op = find_written(base, overload);
    if (op)
        return op;
    cfx__text key = {0};
    cfx__text_printf(&key, "%s::%s.%s", ns, base, overload);
    pthread_mutex_lock(&extra.lock);
    op = cfx__map_get(&extra.ops, key.data);
    pthread_mutex_unlock(&extra.lock);
    cfx__text_release(&key);
    return op || strcmp(ns, "aten") ? op : find_derived(base, overload);
}

const cfx_fn *cfx_fn_find(const char *name) {
    int lo = 0, hi = COUNT(spellings) - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, spellings[mid].text);
        if (!order)
            return spellings[mid].fn;
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    pthread_mutex_lock(&extra.lock);
    const cfx_fn *fn = cfx__map_get(&extra.fns, name);
    pthread_mutex_unlock(&extra.lock);
    if (fn)
        return fn;
    return find_fn(!strncmp(name, "aten.", 5) ? name + 5 : name);
}

/* ---- the user's own -------------------------------------------------------------------------- */

bool cfx_op_register(cfx_op *op) {
    cfx__op_info *info = cfx__op_info_of(op);
    if (!info)
        return false;
    cfx__schema *s = info->schema;
    const char *overload = *s->overload ? s->overload : "default";
    if (!op->kernel && !op->decompose && !op->view) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "operator %s::%s has neither kernel, view nor decompose", s->ns, s->name);
        return false;
    }
    cfx__text key = {0};
    cfx__text_printf(&key, "%s::%s.%s", s->ns, s->name, overload);
    pthread_mutex_lock(&extra.lock);
    bool taken = (!strcmp(s->ns, "aten") && find_written(s->name, overload)) ||
                 cfx__map_get(&extra.ops, key.data);
    if (!taken) {
        cfx__map_set(&extra.ops, copy_text(key.data), op);
        cfx_op **list = cfx__alloc(sizeof *list);
        cfx_fn *fn = cfx__alloc(sizeof *fn);
        *list = op;
        *fn = (cfx_fn){s->name, 1, list};
        for (const char *at = op->torch_; at && *at;) {
            size_t n = strcspn(at, " ");
            char *spelling = cfx__alloc(n + 1);
            memcpy(spelling, at, n);
            spelling[n] = 0;
            cfx__map_set(&extra.fns, spelling, fn);
            at += n + (at[n] == ' ');
        }
        if (!cfx__map_get(&extra.fns, s->name) && !find_fn(s->name))
            cfx__map_set(&extra.fns, s->name, fn);
    }
    pthread_mutex_unlock(&extra.lock);
    if (taken)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "operator %s is registered already", key.data);
    cfx__text_release(&key);
    return !taken;
}
