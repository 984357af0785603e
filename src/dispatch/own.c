/* User-defined operators: adds them to the registry and removes them. */
#include "../base/given.h"
#include "registry.h"

/* A function of the user's, and what it was before its last overload came or went: that may be in
 * use. So may be one that has no overload left; those are a list. */
typedef struct own_fn {
    cfx_fn fn;
    const cfx_fn *before;
    const struct own_fn *gone;
} own_fn;

/* A copy of a name, the same one for the same name. */
static const char *name_kept(const char *name) {
    const char *copy = cfx__map_get(&cfx__op_extra.names, name);
    if (!copy) {
        copy = cfx__text_copy(name, strlen(name));
        cfx__map_set(&cfx__op_extra.names, copy, (void *)copy);
    }
    return copy;
}

/* Adds one more overload to the function called `name`, as a new function. */
static void add_overload(const char *name, const char *shown, cfx_op *op) {
    const cfx_fn *before = cfx__map_get(&cfx__op_extra.fns, name);
    int n = before ? before->n : 0;
    cfx_op **ops = cfx__alloc((size_t)(n + 1) * sizeof *ops);
    own_fn *own = cfx__alloc(sizeof *own);
    if (n)
        memcpy(ops, before->ops, (size_t)n * sizeof *ops);
    ops[n] = op;
    *own = (own_fn){{shown, n + 1, ops}, before, NULL};
    cfx__map_set(&cfx__op_extra.fns, name_kept(name), &own->fn);
}

/* Takes an overload out of the function called `name`; without any the name is free. */
static void remove_overload(const char *name, const char *shown, cfx_op *op) {
    const cfx_fn *before = cfx__map_get(&cfx__op_extra.fns, name);
    if (!before)
        return;
    if (before->n == 1 && before->ops[0] == op) {
        own_fn *last = (own_fn *)before;
        last->gone = cfx__op_extra.gone;
        cfx__op_extra.gone = last;
        cfx__map_remove(&cfx__op_extra.fns, name);
        return;
    }
    cfx_op **ops = cfx__alloc((size_t)before->n * sizeof *ops);
    own_fn *own = cfx__alloc(sizeof *own);
    int n = 0;
    for (int i = 0; i < before->n; i++)
        if (before->ops[i] != op)
            ops[n++] = before->ops[i];
    *own = (own_fn){{shown, n, ops}, before, NULL};
    cfx__map_set(&cfx__op_extra.fns, name_kept(name), &own->fn);
}

/* Calls change for every name by which a function with this overload is found. */
static void at_each_name(cfx_op *op, const char *name,
                         void change(const char *name, const char *shown, cfx_op *op)) {
    const char *shown = cfx__op_info_of(op)->schema->name;
    char spelling[CFX__OP_NAME_MAX];
    change(name, shown, op);
    for (const char *at = op->torch_; at && *at;) {
        size_t n = strcspn(at, " ");
        snprintf(spelling, sizeof spelling, "%.*s", (int)n, at);
        change(spelling, shown, op);
        at += n + (at[n] == ' ');
    }
}

/* The names of an operator and of its function, for tables. */
static bool names_of(const cfx__schema *s, char *key, char *name) {
    if (cfx__op_join(key, s->ns, s->name, *s->overload ? s->overload : "default") &&
        cfx__op_join(name, s->ns, s->name, NULL))
        return true;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the name of operator %.40s... is too long", s->name);
    return false;
}

bool cfx_op_register(cfx_op *op) {
    cfx__op_info *info = cfx__given((cfx_site){0}, op, "operator") ? cfx__op_info_of(op) : NULL;
    char key[CFX__OP_NAME_MAX], name[CFX__OP_NAME_MAX];
    if (!info)
        return false;
    if (!op->kernel && !op->decompose && !op->view) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "operator %s::%s has neither kernel, view nor decompose", info->schema->ns,
                 info->schema->name);
        return false;
    }
    if (!cfx__op_forms_fit(op) || !names_of(info->schema, key, name))
        return false;
    pthread_mutex_lock(&cfx__op_extra.lock);
    bool taken = cfx__op_written(key) || cfx__map_get(&cfx__op_extra.ops, key);
    if (!taken) {
        cfx__map_set(&cfx__op_extra.ops, name_kept(key), op);
        at_each_name(op, name, add_overload);
    }
    pthread_mutex_unlock(&cfx__op_extra.lock);
    if (taken)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "operator %s is registered already", key);
    return !taken;
}

bool cfx_op_unregister(cfx_op *op) {
    cfx__op_info *info = cfx__given((cfx_site){0}, op, "operator") ? cfx__op_info_of(op) : NULL;
    char key[CFX__OP_NAME_MAX], name[CFX__OP_NAME_MAX];
    if (!info || !names_of(info->schema, key, name))
        return false;
    pthread_mutex_lock(&cfx__op_extra.lock);
    bool there = cfx__map_get(&cfx__op_extra.ops, key) == op;
    if (there) {
        cfx__map_remove(&cfx__op_extra.ops, key);
        at_each_name(op, name, remove_overload);
    }
    pthread_mutex_unlock(&cfx__op_extra.lock);
    if (!there)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "operator %s is not registered", key);
    return there;
}
