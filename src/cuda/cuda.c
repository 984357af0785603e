/* Public entry points: one executor for each card. */
#include <cfx/cuda.h>

#include "../base/given.h"
#include "../plan/plan.h"
#include "plan.h"
#include "single.h"

int cfx_cuda_count(void) { return cfx__cuda_device_count(); }

const char *cfx_cuda_name(int n) {
    const cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? cfx__text_format("%s, %d.%d", d->name, d->major, d->minor) : NULL;
}

int64_t cfx_cuda_held(int n) {
    const cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? __atomic_load_n(&d->held, __ATOMIC_RELAXED) : 0;
}

int64_t cfx_cuda_most_held(int n) {
    const cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? __atomic_load_n(&d->most, __ATOMIC_RELAXED) : 0;
}

void cfx_cuda_count_most_anew(int n) {
    cfx__cuda_device *d = cfx__cuda_device_open(n);
    if (d)
        __atomic_store_n(&d->most, __atomic_load_n(&d->held, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void cfx_cuda_empty_cache(void) {
    cfx__cuda_singles_forget();
    cfx__cuda_tensors_forget();
}

static void *prepare_on(int n, const cfx_execution *e) {
    cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? cfx__cuda_plan_make(d, e) : NULL;
}

static bool fits(const void *form, const cfx_execution *e) {
    const cfx__cuda_plan *p = form;
    return !p->failed && p->watched == (e->watcher && e->watcher->see) &&
           cfx__plan_fits(p->plan, p->plan->inputs, e) &&
           cfx__cuda_states_fit(p, e);
}

static cfx_value run(void *form, const cfx_execution *e) { return cfx__cuda_plan_run(form, e); }

#define CARDS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PREPARE(n)                                                                                 \
    static void *prepare_##n(const cfx_execution *e) { return prepare_on(n, e); }
#define EXECUTOR(n) {"cuda:" #n, prepare_##n, fits, run, cfx_drop},

CARDS(PREPARE)
static const cfx_executor executors[] = {CARDS(EXECUTOR)};

const cfx_executor *cfx_cuda_executor(int n) {
    n = n < 0 ? 0 : n;
    const cfx__cuda_device *d = cfx__cuda_device_open(n);
    if (!d || !cfx__cuda_is_there(d))
        return NULL;
    if (n >= COUNT(executors)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "cfx uses cards 0 to %d", COUNT(executors) - 1);
        return NULL;
    }
    return &executors[n];
}

/* The memory under a tensor, on another device; scope. */
static cfx_tensor *moved(const cfx_tensor *t, cfx_device to) {
    const int64_t n = (int64_t)t->storage->size / cfx_dtype_size((cfx_dtype)t->dtype), one = 1;
    cfx_tensor *whole = cfx__tensor_alias((cfx_tensor *)t, 1, &n, &one, 0);
    if (to.type == CFX_CUDA)
        return cfx__cuda_copy_of((cfx_site){0}, whole, to.index < 0 ? 0 : to.index);
    const int outer = cfx__ctx()->card; /* whatever tensors are made on otherwise */
    cfx__ctx()->card = 0;
    cfx_tensor *own =
        cfx__tensor_empty((cfx_site){0}, (cfx_dtype)t->dtype, false, 1, &n, NULL);
    cfx__ctx()->card = outer;
    if (!cfx__obj_is_bad(own))
        cfx__tensor_copy(own, whole);
    return own;
}

static cfx_tensor *tensor_of(const cfx_program *p, int i) {
    const cfx_input_spec *s = &p->inputs[i];
    cfx_dict *of = s->kind == CFX_IN_USER || !s->target ? NULL : cfx__program_tensors(p, s);
    const cfx_value v = of ? cfx_dict_get(of, s->target) : cfx_none();
    return v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->storage ? cfx_as_tensor(v) : NULL;
}

/* What the program writes to goes where it runs, with all that looks into the same memory. Tensors
 * keep the device that they are on in the words of the program, whose calls name it (a copy to that
 * device is none): their memory, which both sides see, lies on the card. */
static void move_states(cfx_program *p, cfx_device to) {
    bool *writes = cfx__program_writes(p);
    for (int i = 0; i < p->ninputs && cfx_ok(); i++) {
        const cfx_tensor *t = writes[i] ? tensor_of(p, i) : NULL;
        if (!t || cfx__device_card(t->storage->device) == cfx__device_card(to))
            continue;
        size_t mark = cfx_scope_open();
        const cfx__storage *was = t->storage;
        const cfx_device called = t->device;
        cfx_tensor *whole = moved(t, to);
        if (cfx_ok())
            cfx__tensor_place(whole, called);
        for (int k = 0; k < p->ninputs && cfx_ok(); k++) {
            const cfx_tensor *u = tensor_of(p, k);
            if (u && u->storage == was && u->dtype == whole->dtype)
                cfx_dict_set(cfx__program_tensors(p, &p->inputs[k]), p->inputs[k].target,
                             cfx_tensor_value(cfx__tensor_alias(whole, u->ndim, u->shape,
                                                                u->stride, u->offset)));
        }
        cfx_scope_close(mark);
    }
    cfx__free(writes);
}

/* A device that is there; false, with an error. */
static bool known_device(const char *text, const char *what, cfx_device *d) {
    if (!cfx__given((cfx_site){0}, text, "device"))
        return false;
    if (!cfx__device_parse(text, d) || d->type == CFX_META) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is no device that %s", text, what);
        return false;
    }
    return d->type != CFX_CUDA || cfx_cuda_executor(d->index);
}

bool cfx_set_default_device(const char *device) {
    cfx_device d;
    if (!cfx_ok() || !known_device(device, "tensors are made on", &d))
        return false;
    cfx__ctx()->card = cfx__device_card(d);
    return true;
}

cfx_device cfx_get_default_device(void) {
    const int card = cfx__ctx()->card;
    return card ? (cfx_device){CFX_CUDA, (int16_t)(card - 1)} : (cfx_device){CFX_CPU, -1};
}

bool cfx_program_to(cfx_program *p, const char *device) {
    cfx_device d;
    if (cfx_failed(p) || !known_device(device, "programs run on", &d))
        return false;
    move_states(p, d);
    if (cfx_ok())
        cfx_module_set_attr(p->module, "run_device", cfx_device_value(d));
    return cfx_ok();
}
