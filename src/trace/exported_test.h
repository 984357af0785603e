/* What tests of control flow in programs share: their code, and whether they give what their
 * modules give. */
#ifndef CFX__EXPORTED_TEST_H
#define CFX__EXPORTED_TEST_H

#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/layers.h>
#include <cfx/ops.h>
#include <cfx/pack.h>
#include <cfx/rewrite.h>

#include "files.h"
#include "test.h"
#include "trace.h"

/* The code of the child called so, from its first line on. */
static inline const char *code_of(cfx_program *p, const char *path) {
    cfx_module *m = *path ? cfx_module_find(p->module, path) : p->module;
    const char *code = m ? cfx_module_code(m) : "";
    while (*code == '\n')
        code++;
    return code;
}

/* As it is, saved and opened again, and decomposed, p gives what the module gives. Files of PyTorch
 * have no form for lists of numbers and tensors, those of cfx do. */
static inline void check_runs_as(const char *file, cfx_module *m, cfx_program *p, cfx_value args) {
    const char *path = test_path(file);
    CHECK(cfx_save(p, path));
    cfx_program *all[] = {p, cfx_open(path), cfx_decompose(p, CFX_NONE)};
    const cfx_list *a = cfx_as_list(args);
    cfx_list *want = cfx_as_list(cfx_list()), *got;
    cfx_tree_flatten(cfx_forward_value_from(CFX_HERE, m, (cfx_args){(int)a->len, a->items, NULL}),
                     want);
    for (int k = 0; k < 3 && CHECK_OK(); k++) {
        got = cfx_as_list(cfx_list());
        cfx_tree_flatten(
            cfx_program_run_from(CFX_HERE, all[k], (cfx_args){(int)a->len, a->items, NULL}), got);
        if (!CHECK_OK() || !CHECK_INT(got->len, want->len))
            return;
        for (int64_t i = 0; i < want->len; i++)
            CHECK(want->items[i].tag == CFX_TAG_TENSOR
                      ? cfx_is_true(cfx_allclose(got->items[i], want->items[i], 1e-4, 1e-6))
                      : cfx_equal_values(got->items[i], want->items[i]));
    }
    test_unlink(file);
    test_unlink("control.safetensors"); /* beside a .fx */
    test_folder_done();
}

static inline void check_runs(cfx_module *m, cfx_program *p, cfx_value args) {
    check_runs_as("control.pt2", m, p, args);
}

#define EXPORT(m, ...) cfx_export(m, cfx_tuple(__VA_ARGS__), CFX_NONE, CFX_NONE)

/* Sizes of dimension 0 of the input called so vary. */
static inline cfx_value batch_of(const char *name) {
    cfx_dict *sizes = cfx_dict_new(), *all = cfx_dict_new();
    cfx_dict_put(sizes, cfx_int(0), cfx_string_value("batch"));
    cfx_dict_set(all, name, cfx_dict_value(sizes));
    return cfx_dict_value(all);
}

#endif
