/* Sizes that may vary, said of tensors or by other inputs. */
#include "test.h"

#include <cfx/ops.h>

static cfx_value forward(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value pair = cfx_at(a.v[1], 0);
    return cfx_tensor_value(cfx_add(a.v[0], cfx_mul(pair, cfx_as_tensor(cfx_at(a.v[1], 1)))));
}

static cfx_module *new_module(void) { return cfx_module_new("Sum", forward, "x, others"); }

TEST(sizes_are_said_of_tensors) {
    cfx_tensor *x = cfx_randn(3, 4), *y = cfx_randn(3, 4), *z = cfx_randn(4);
    cfx_value args = cfx_tuple(x, cfx_list(y, z));
    cfx_value dims = cfx_dict_of(0, "batch");
    cfx_program *p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE,
                                .shapes = cfx_list(cfx_tuple(x, dims), cfx_tuple(y, dims)));
    CHECK_OK();
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(7, 4), cfx_list(cfx_ones(7, 4), z))));
    cfx_program *q = cfx_export(
        new_module(), args, CFX_NONE,
        cfx_dict_of("x", dims, "others", cfx_list(dims, CFX_NONE)));
    CHECK_STR(cfx_program_str(p), cfx_program_str(q));
    CHECK_OK();
    p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE,
                   .shapes = cfx_list(cfx_tuple(cfx_ones(3, 4), dims)));
    CHECK_ERROR("Some tensors that were assigned shapes were not found in args. Maybe such tensors "
                "were copied when passing them as args?");
    p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE, .shapes = cfx_list(x));
    CHECK_ERROR("shapes are a list of pairs of a tensor and its sizes, not [tensor(");
    p = cfx_export(new_module(), args, CFX_NONE, cfx_dict_of("x", dims),
                   .shapes = cfx_list(cfx_tuple(x, dims)));
    CHECK_ERROR("sizes that may vary are said once: by dynamic, by shapes, or by "
                "additional_inputs");
}

TEST(sizes_are_found_from_other_inputs) {
    cfx_value args = cfx_tuple(cfx_ones(3, 4), cfx_list(cfx_ones(3, 4), cfx_ones(4)));
    cfx_value more = cfx_tuple(cfx_ones(5, 4), cfx_list(cfx_ones(5, 4), cfx_ones(4)));
    cfx_program *p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE,
                                .additional_inputs = cfx_list(cfx_tuple(more, CFX_NONE)));
    CHECK_OK();
    CHECK(!cfx_is_bad(cfx_program_run(p, cfx_ones(9, 4), cfx_list(cfx_ones(9, 4), cfx_ones(4)))));
    CHECK_OK();
    cfx_program_run(p, cfx_ones(9, 5), cfx_list(cfx_ones(9, 5), cfx_ones(5)));
    CHECK_ERROR("to be equal to 4, but got 5"); /* a size that was the same in both */
    cfx_value flat = cfx_tuple(cfx_ones(3), cfx_list(cfx_ones(3, 4), cfx_ones(4)));
    p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE,
                   .additional_inputs = cfx_list(cfx_tuple(flat, CFX_NONE)));
    CHECK_ERROR("The following inputs were found to have differing types, so they cannot be marked "
                "as dynamic: (tensor(");
    p = cfx_export(new_module(), args, CFX_NONE, CFX_NONE,
                   .additional_inputs = cfx_list(cfx_tuple(1, CFX_NONE)));
    CHECK_ERROR("additional inputs are a list of pairs of a tuple of arguments and a dict of "
                "keywords or None, not [(1, None)]");
}
