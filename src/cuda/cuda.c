/* The way in: executors, one for each card. */
#include <cfx/cuda.h>

#include "../base/given.h"
#include "../plan/plan.h"
#include "plan.h"

int cfx_cuda_count(void) { return cfx__cuda_device_count(); }

const char *cfx_cuda_name(int n) {
    const cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? cfx__text_format("%s, %d.%d", d->name, d->major, d->minor) : NULL;
}

static void *prepare_on(int n, const cfx_execution *e) {
    cfx__cuda_device *d = cfx__cuda_device_open(n);
    return d ? cfx__cuda_plan_make(d, e) : NULL;
}

static bool fits(const void *form, const cfx_execution *e) {
    const cfx__cuda_plan *p = form;
    return !p->failed && cfx__plan_fits(p->plan, p->plan->inputs, e);
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
    if (!cfx__cuda_device_open(n))
        return NULL;
    if (n >= COUNT(executors)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "cfx uses cards 0 to %d", COUNT(executors) - 1);
        return NULL;
    }
    return &executors[n];
}

bool cfx_program_to(cfx_program *p, const char *device) {
    cfx_device d;
    if (cfx_failed(p) || !cfx__given((cfx_site){0}, device, "device"))
        return false;
    if (!cfx__device_parse(device, &d) || d.type == CFX_META) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is no device that programs run on", device);
        return false;
    }
    if (d.type == CFX_CUDA && !cfx_cuda_executor(d.index))
        return false;
    cfx_module_set_attr(p->module, "run_device", cfx_device_value(d));
    return cfx_ok();
}
