/* What is done to a module and all below it at once: conversion, counting, gradients on and off. */
#include "layer.h"

#include <cfx/ops.h>

#include "../base/given.h"

/* ---- apply ------------------------------------------------------------------------------------
 */

/* Children first, a shared one once for each of its places: as model.apply(fn) goes. */
void cfx_module_apply(cfx_module *m, cfx_apply_fn *fn, void *user) {
    if (!cfx__module_given(m))
        return;
    if (!fn) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the function to apply is NULL");
        return;
    }
    for (int i = 0; i < cfx_module_count(m); i++)
        cfx_module_apply(cfx_module_child(m, i), fn, user);
    fn(m, user);
}

/* ---- tensors ----------------------------------------------------------------------------------
 */

/* Calls fn for each parameter (and buffer, where asked) once. */
static void each_tensor(const cfx_module *m, bool buffers, void (*fn)(cfx_tensor *t, void *user),
                        void *user) {
    size_t mark = cfx_scope_open();
    cfx_dict *lists[] = {cfx_module_named_parameters(m),
                         buffers ? cfx_module_named_buffers(m) : cfx_dict_new()};
    for (int l = 0; l < 2; l++)
        for (int64_t i = 0; i < lists[l]->len; i++)
            fn(cfx_as_tensor(lists[l]->entries[i].value), user);
    cfx_scope_close(mark);
}

/* The tensor itself changes, so that whoever holds it sees it: optimisers, other modules. */
static void convert(cfx_tensor *t, void *user) {
    cfx_dtype to = *(cfx_dtype *)user;
    bool fits = cfx__dtype_is_floating((cfx_dtype)t->dtype) && cfx__dtype_is_floating(to);
    fits |= cfx__dtype_is_complex((cfx_dtype)t->dtype) && cfx__dtype_is_complex(to);
    if (!fits || (cfx_dtype)t->dtype == to)
        return;
    cfx_tensor *grad = cfx_keep(cfx_tensor_grad(t));
    if (grad)
        cfx_tensor_set_grad(t, NULL);
    cfx_tensor *other =
        t->data ? cfx__tensor_to_dtype(t, to) : cfx_tensor_fake(to, t->ndim, t->shape, t->stride);
    if (!cfx__obj_is_bad(other)) {
        t->dtype = (uint8_t)to;
        cfx__tensor_become(t, other);
    }
    if (grad)
        cfx_tensor_set_grad(t, cfx__tensor_to_dtype(grad, to));
    cfx_drop(grad);
}

void cfx_module_to(cfx_module *m, cfx_dtype dtype) {
    if (!cfx__dtype_is_floating(dtype) && !cfx__dtype_is_complex(dtype)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                 "dtype=torch.%s",
                 cfx_dtype_name(dtype));
        return;
    }
    each_tensor(m, true, convert, &dtype);
}

/* A copy of t on a device; scope. */
static cfx_tensor *moved(cfx_tensor *t, const cfx_device *to) {
    const cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *there = cfx_to(t, cfx_device_value(*to));
    cfx_set_grad_mode(before);
    return there;
}

static void move(cfx_tensor *t, void *user) {
    size_t mark = cfx_scope_open();
    cfx_tensor *there = moved(t, user), *grad = cfx_tensor_grad(t);
    cfx_tensor *other = grad && cfx_ok() ? moved(grad, user) : NULL;
    if (cfx_ok() && there != t) {
        cfx_tensor_set_grad(t, NULL);
        cfx__tensor_become(t, there);
        cfx_tensor_set_grad(t, other);
    }
    cfx_scope_close(mark);
}

void cfx_module_to_device(cfx_module *m, const char *device) {
    cfx_device d;
    if (!cfx_ok() || !cfx__given((cfx_site){0}, device, "device"))
        return;
    if (cfx__device_parse(device, &d))
        each_tensor(m, true, move, &d);
    else
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Invalid device string: '%s'", device);
}

static void set_requires(cfx_tensor *t, void *user) {
    if (cfx__dtype_is_floating((cfx_dtype)t->dtype) || cfx__dtype_is_complex((cfx_dtype)t->dtype))
        cfx_requires_grad(t, *(bool *)user);
}

void cfx_module_requires_grad(cfx_module *m, bool on) { each_tensor(m, false, set_requires, &on); }

static void forget_grad(cfx_tensor *t, void *user) {
    (void)user;
    if (cfx_tensor_grad(t))
        cfx_tensor_set_grad(t, NULL);
}

void cfx_module_zero_grad(cfx_module *m) { each_tensor(m, false, forget_grad, NULL); }

static void count(cfx_tensor *t, void *user) { *(int64_t *)user += t->numel; }

int64_t cfx_module_numel(const cfx_module *m) {
    int64_t n = 0;
    each_tensor(m, false, count, &n);
    return n;
}

/* ---- modules by name --------------------------------------------------------------------------
 */

static void put_module(const char *path, cfx_module *m, void *user) {
    cfx_dict_set(user, path, cfx_module_value(m));
}

cfx_dict *cfx_module_named_modules(cfx_module *m) {
    cfx_dict *out = cfx_dict_new();
    cfx_module_walk(m, put_module, out);
    return out;
}

/* ---- effects --------------------------------------------------------------------------------- */

static bool layer_has_effect(const cfx_module *m) {
    const cfx__layer *row = m->own_->layer;
    if (!row)
        return false;
    cfx_value inplace = cfx_module_attr(m, "inplace");
    if (inplace.tag == CFX_TAG_BOOL && cfx_as_bool(inplace))
        return true;
    if (!cfx_is_none(cfx_module_attr(m, "max_norm")))
        return true;
    cfx_value dropout = cfx_module_attr(m, "dropout");
    bool draws = !strncmp(row->path, "dropout.", 8) || !strcmp(m->type, "RReLU") ||
                 (cfx_is_number(dropout) && cfx_number(dropout) > 0);
    return m->training && (draws || !cfx_is_none(cfx_module_attr(m, "running_mean")));
}

bool cfx__module_has_effect(const cfx_module *m) {
    if (layer_has_effect(m))
        return true;
    for (int i = 0; i < cfx_module_count(m); i++)
        if (cfx__module_has_effect(cfx_module_child(m, i)))
            return true;
    return false;
}
