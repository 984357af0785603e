/* Programs in folders, run by an executor and held against the interpreter. */
#include "folders.h"

#include <cfx.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../src/plan/description.h"
#include "test.h"

/* The arguments of a call, from the file of inputs; False, with an error, where they do not fit. */
static cfx_value inputs_of(cfx_program *p, const char *path) {
    const cfx_dict *file = cfx_safetensors_read(path);
    cfx_value leaves = cfx_list_value(0, NULL);
    for (int i = 0, flat = 0, tensors = 0; cfx_ok() && i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        if (s->kind != CFX_IN_USER)
            continue;
        cfx_value v = cfx_dict_get(file, cfx__text_format("in%d", flat++));
        if (cfx_is_none(v) && !s->constant)
            v = cfx_dict_get(file, cfx__text_format("in%d", tensors));
        tensors += !s->constant;
        const cfx_value says = cfx_node_result(cfx_graph_find(p->module->graph, s->name)).value;
        if (v.tag == CFX_TAG_TENSOR && says.tag != CFX_TAG_TENSOR && cfx_as_tensor(v)->numel == 1)
            v = cfx__tensor_get(cfx_as_tensor(v), 0);
        cfx_list_append(cfx_as_list(leaves), cfx_is_none(v) ? s->value : v);
    }
    cfx_value tree = cfx_ok() && !cfx_is_none(p->in_spec)
                         ? cfx_tree_unflatten(p->in_spec, cfx_as_list(leaves))
                         : cfx_bad();
    if (!cfx_ok() || tree.tag != CFX_TAG_TUPLE)
        return cfx_bad();
    const cfx_list *args = cfx_as_list(cfx_at(tree, 0));
    return cfx_program_inputs_from(
        CFX_HERE, p, (cfx_args){(int)args->len, args->items, cfx_as_dict(cfx_at(tree, 1))});
}

static cfx_value run_by(const cfx_executor *x, const char *folder) {
    cfx_program *p = cfx_open(cfx__text_format("%s/model.pt2", folder));
    cfx_value in =
        cfx_ok() ? inputs_of(p, cfx__text_format("%s/inputs.safetensors", folder)) : cfx_bad();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx_value out = cfx_is_bad(in) ? in : cfx__program_execute(CFX_HERE, p, x, NULL, in);
    cfx_set_grad_mode(before);
    return out;
}

/* How far results may be apart, of the largest: sums are added up in another order, or what they
 * are of was rounded before. */
static double slack(cfx_dtype d) {
    const bool rounded = d == CFX_F32 && cfx_get_precision() == CFX_PRECISION_BF16;
    const double of_f32 = rounded ? 4e-2 : 2e-4;
    return d == CFX_BF16 ? 4e-2 : d == CFX_F16 ? 5e-3 : cfx__dtype_is_float(d) ? of_f32 : 0;
}

static bool are_close(cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        bool close = a.tag == b.tag && cfx_as_list(a)->len == cfx_as_list(b)->len;
        for (int64_t i = 0; close && i < cfx_as_list(a)->len; i++)
            close = are_close(cfx_at(a, i), cfx_at(b, i));
        return close;
    }
    if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b);
    const cfx_tensor *x = cfx_as_tensor(a), *y = cfx_as_tensor(b);
    if (x->dtype != y->dtype || !cfx__tensor_same_shape(x, y) || !cfx__plan_lies_like(x, y))
        return false;
    if (cfx__dtype_is_complex((cfx_dtype)x->dtype))
        return cfx_integer(cfx_allclose(a, b, 1e-3, 1e-3));
    double largest = 1, off = 0;
    bool same = true;
    for (int64_t i = 0; i < x->numel; i++) {
        const double u = cfx__tensor_number(x, i), v = cfx__tensor_number(y, i);
        same &= isfinite(u) ? isfinite(v) : isnan(u) ? isnan(v) : u == v;
        largest = isfinite(u) ? fmax(largest, fabs(u)) : largest;
        off = isfinite(u) && isfinite(v) ? fmax(off, fabs(u - v)) : off;
    }
    return same && off <= slack((cfx_dtype)x->dtype) * largest;
}

static void check_program(const cfx_executor *x, const char *folder, verdicts *v) {
    size_t mark = cfx_scope_open();
    cfx_value want = run_by(&cfx_interpreter, folder);
    if (!cfx_ok()) { /* a program that does not run at all */
        cfx_error_clear();
        v->others++;
        cfx_scope_close(mark);
        return;
    }
    cfx_value have = run_by(x, folder);
    const bool agree = cfx_ok() && are_close(want, have);
    if (!agree)
        test_fail(CFX_HERE, "%s: %s", folder,
                  cfx_ok() ? "results are others" : cfx_error_last()->message);
    v->agree += agree;
    cfx_error_clear();
    cfx_scope_close(mark);
}

void folder_each(const char *path, const char *prefix,
                 void (*fn)(const char *folder, void *user), void *user) {
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", path, e->d_name);
        FILE *model = e->d_name[0] == '.' || strncmp(e->d_name, prefix, strlen(prefix))
                          ? NULL
                          : fopen(cfx__text_format("%s/model.pt2", folder), "rb");
        if (model) {
            fclose(model);
            fn(folder, user);
        }
    }
    if (dir)
        closedir(dir);
}

typedef struct {
    const cfx_executor *x;
    verdicts *v;
} checking;

static void check_folder(const char *folder, void *user) {
    const checking *c = user;
    check_program(c->x, folder, c->v);
}

void folder_check(const cfx_executor *x, const char *path, verdicts *v) {
    folder_each(path, "", check_folder, &(checking){x, v});
}

/* ---- many steps ------------------------------------------------------------------------------ */

typedef struct {
    int steps, programs;
} stepping;

static int plans;

static void *count_plan(const cfx_execution *e) {
    plans++;
    return cfx_planner.prepare(e);
}

static void check_steps(const char *folder, void *user) {
    static cfx_executor planner; /* what was prepared is freed by it, with the program */
    stepping *s = user;
    planner = cfx_planner;
    planner.prepare = count_plan;
    plans = 0;
    CFX_SCOPE {
        const char *model = cfx__text_format("%s/model.pt2", folder);
        const char *inputs = cfx__text_format("%s/inputs.safetensors", folder);
        cfx_program *a = cfx_open(model), *b = cfx_open(model);
        const cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
        bool same = cfx_ok();
        for (int i = 0; i < s->steps && same; i++)
            CFX_SCOPE {
                cfx_value x = inputs_of(a, inputs), y = inputs_of(b, inputs);
                cfx_value want = cfx_ok() ? cfx__program_execute(CFX_HERE, a, &cfx_interpreter,
                                                                 NULL, x) : cfx_bad();
                cfx_value have = cfx_ok() ? cfx__program_execute(CFX_HERE, b, &planner, NULL, y)
                                          : cfx_bad();
                same = cfx_ok() && are_close(want, have);
            }
        cfx_set_grad_mode(before);
        if (!same || plans != 1)
            test_fail(CFX_HERE, "%s: %s, %d plans", folder,
                      !cfx_ok() ? cfx_error_last()->message : same ? "same" : "results are others",
                      plans);
        s->programs++;
    }
    cfx_error_clear();
}

int folder_steps(const char *path, const char *prefix, int steps) {
    stepping s = {.steps = steps};
    folder_each(path, prefix, check_steps, &s);
    return s.programs;
}

const char *folder_given(const char **at) {
    if (!*at)
        *at = getenv("CFX_PROGRAMS");
    if (!*at)
        return NULL;
    *at += strspn(*at, " ");
    const size_t n = strcspn(*at, " ");
    const char *folder = n ? cfx__text_format("%.*s", (int)n, *at) : NULL;
    *at += n;
    return folder;
}
