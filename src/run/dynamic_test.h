/* Programs whose sizes vary, written in C: tables of them, and short names for what they call. */
#ifndef CFX__RUN_DYNAMIC_TEST_H
#define CFX__RUN_DYNAMIC_TEST_H

#include <cfx/layers.h>
#include <cfx/ops.h>

/* One program: what PyTorch makes of the same model is in tests/data/dynamic.txt, by its name. */
typedef struct {
    const char *name;
    cfx_value (*forward)(cfx_module *self, cfx_args a);
    void (*furnish)(cfx_module *self, const char *name); /* its parameters; NULL: none */
} dynamic_program;

extern const dynamic_program cfx__dynamic_calls[], cfx__dynamic_models[]; /* the last has no name */

#define END INT64_MAX
#define L(...) cfx_list(__VA_ARGS__)
#define N(t, i) cfx_dim(t, i)
#define CALL(name, ...) cfx_call(self, name, __VA_ARGS__)
#define AT(list, i) cfx_tensor_at(list, i)
#define P(name) cfx_attr(self, name)
#define ALL(t) cfx_slice(t, 0, 0, END) /* t[:] */

#endif
