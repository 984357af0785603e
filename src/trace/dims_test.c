/* What the caller says of sizes that may vary, in PyTorch's words where it does
 * not fit. */
#include <cfx/export.h>
#include <cfx/ops.h>

#include "dims.h"
#include "test.h"

static cfx_value sums(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(
        cfx_add(cfx_sum(cfx_as_tensor(a.v[0])), cfx_sum(cfx_as_tensor(a.v[1]))));
}

static cfx_value added(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_as_tensor(a.v[0]), cfx_as_tensor(a.v[1])));
}

/* x + y[1:] */
static cfx_value shifted(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(
        cfx_add(cfx_as_tensor(a.v[0]), cfx_slice(cfx_as_tensor(a.v[1]), 0, 1, INT64_MAX)));
}

/* x + ones(6) + y[1:] */
static cfx_value fixed(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_tensor *x = cfx_add(cfx_as_tensor(a.v[0]), cfx_ones(6));
    return cfx_tensor_value(cfx_add(x, cfx_slice(cfx_as_tensor(a.v[1]), 0, 1, INT64_MAX)));
}

static cfx_value times(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(cfx_as_tensor(a.v[0]), a.v[1]));
}

static cfx_value pair(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_tensor_at(a.v[0], 0), cfx_sum(cfx_as_tensor(a.v[1]))));
}

static cfx_value entry(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value x = cfx_dict_get(cfx_as_dict(a.v[0]), "a");
    return cfx_tensor_value(cfx_add(cfx_as_tensor(x), cfx_sum(cfx_as_tensor(a.v[1]))));
}

/* Texts are read as Python writes them. */
static cfx_value read(const char *text) {
    cfx_value v = cfx_none();
    CHECK(cfx__value_literal(&text, &v));
    return v;
}

static const struct {
    const char *name;
    cfx_value (*forward)(cfx_module *self, cfx_args a);
    int64_t n, m; /* sizes of x and y */
    const char *dynamic, *error, *ranges;
} cases[] = {
#define X "L['x'].size()[0]"
#define Y "L['y'].size()[0]"
    {"typo", added, 5, 5, "{'z': {0: 'd'}, 'y': None}",
     "When `dynamic_shapes` is specified as a dict, its top-level keys must be "
     "the arg names ['x', 'y'] of `inputs`, but here they are ['z', 'y']. "
     "Alternatively, you could also ignore arg names entirely and specify "
     "`dynamic_shapes` as a list/tuple matching `inputs`.",
     NULL},
    {"list", sums, 5, 5, "[{0: 'd'}, None]", NULL, "{'s77': (0, None)}"},
    {"short list", sums, 5, 5, "[{0: 'd'}]",
     "Detected mismatch between the structure of `inputs` and "
     "`dynamic_shapes`: `inputs` has 2 elements, but `dynamic_shapes` has 1 "
     "elements",
     NULL},
    {"word", sums, 5, 5, "{'x': 'hello'}",
     "Unexpected input tensor shape hello specified at `dynamic_shapes['x']` "
     "(expected either a list/tuple of dimensions, or a dict mapping indices "
     "to dimensions, where each dimension is an int, a Dim, Dim.AUTO, "
     "Dim.STATIC, or Dim.DYNAMIC)",
     NULL},
    {"too many", sums, 5, 5, "{'x': ['d', None]}",
     "Expected dynamic shape spec ['d', None] specified at "
     "`dynamic_shapes['x']` to have the same length as the actual tensor shape "
     "torch.Size([5]) (expected 1, but got 2 instead)",
     NULL},
    {"no such dimension", sums, 5, 5, "{'x': {3: 'd'}}",
     "Dimension out of range (expected to be in range of [-1, 0], but got 3)", NULL},
    {"two definitions", sums, 5, 5, "{'x': {0: ('d', None, 10)}, 'y': {0: ('d', None, 20)}}",
     "Found different definitions Dim('d', min=0, max=10) and Dim('d', min=0, "
     "max=20) for the same symbolic dimension d!",
     NULL},
    {"not in range", sums, 5, 5, "{'x': {0: ('d', None, 4)}}", "5 not in range [2, 4]", NULL},
    {"number", sums, 5, 5, "{'x': {0: 5}, 'y': {0: 6}}",
     "Static shape constraint of 6 does not match input size of 5, for " Y, NULL},
    {"static", sums, 5, 6, "{'x': {0: 'Dim.STATIC'}, 'y': {0: 'Dim.AUTO'}}", NULL,
     "{'s17': (2, None)}"},
    {"one name, two sizes", sums, 5, 6, "{'x': {0: 'd'}, 'y': {0: 'd'}}",
     Y " = 6 is not equal to " X " = 5", NULL},
    {"derived", shifted, 5, 6, "{'x': {0: 'd'}, 'y': {0: 'd + 1'}}", NULL,
     "{'s77': (0, None), 's77 + 1': (1, None)}"},
    {"derived, another size", sums, 5, 9, "{'x': {0: 'd'}, 'y': {0: '2*d'}}",
     "Expected input " Y " to be equal to 2*d, where d = 5, but got 9", NULL},
    {"of no such form", sums, 6, 9, "{'x': {0: '2*d + 1'}}",
     "Expected shape[0] = 6 of input Tensor to be of the form 2*d + 1, where d "
     "is an integer",
     NULL},
    {"constant, derived", fixed, 6, 7, "{'x': {0: 'd'}, 'y': {0: 'd + 1'}}",
     "Constraints violated (d, d + 1)!\n  - You marked d as dynamic but your "
     "code specialized it to be a constant (6). If you're using mark_dynamic, "
     "either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, "
     "replace it with either Dim.STATIC or Dim.AUTO.\n  - You marked d + 1 as "
     "dynamic but your code specialized it to be a constant (7). If you're "
     "using mark_dynamic, either remove it or use maybe_mark_dynamic. If "
     "you're using Dim.DYNAMIC, replace it with either Dim.STATIC or "
     "Dim.AUTO.\nSuggested fixes:\n  d = 6",
     NULL},
    {"the larger of the smaller", shifted, 5, 6, "{'x': {0: 'dimx'}, 'y': {0: 'dimy'}}",
     "Constraints violated (dimy)!\n  - The values of dimy = " Y
     " must always be related to the values of dimx = " X
     " by dimy = dimx + 1.\nSuggested fixes:\n  dimy = dimx + 1",
     NULL},
    {"automatic beside named", added, 5, 5, "{'x': {0: 'Dim.AUTO'}, 'y': {0: 'd'}}", NULL,
     "{'s17': (0, None)}"},
    {"named beside automatic", added, 5, 5, "{'x': {0: 'd'}, 'y': {0: 'Dim.AUTO'}}", NULL,
     "{'s17': (2, None)}"},
    {"named with bounds", added, 5, 5, "{'x': {0: ('d', 3, 20)}, 'y': {0: 'Dim.AUTO'}}", NULL,
     "{'s17': (3, 20)}"},
    {"line of an automatic one", shifted, 5, 6, "{'x': {0: 'Dim.AUTO'}, 'y': {0: 'Dim.AUTO'}}",
     NULL, "{'s77': (2, None), 's77 + 1': (3, None)}"},
    {"line of a named one", shifted, 5, 6, "{'x': {0: 'd'}, 'y': {0: 'Dim.AUTO'}}",
     "Constraints violated (" Y ")!\n  - The values of " Y " = " Y
     " must always be related to the values of d = " X " by " Y " = d + 1.\nSuggested fixes:\n  " Y
     " = d + 1",
     NULL},
    {"dynamic, constant", added, 5, 5, "{'x': {0: 'Dim.DYNAMIC'}}",
     "Constraints violated (" X ")!\n  - You marked " X
     " as dynamic but your code specialized it to be a constant (5).",
     NULL},
    {"automatic, constant", added, 5, 5, "{'x': {0: 'Dim.AUTO'}}", NULL, "{}"},
    {"dynamic beside automatic", added, 5, 5, "{'x': {0: 'Dim.DYNAMIC'}, 'y': {0: 'Dim.AUTO'}}",
     NULL, "{'s17': (2, None)}"},
};

TEST(dims_are_said_in_pytorchs_words) {
    for (int i = 0; i < COUNT(cases); i++) {
        size_t mark = cfx_scope_open();
        cfx_module *m = cfx_module_new("M", cases[i].forward, "x, y");
        cfx_value in = cfx_tuple(cfx_ones(cases[i].n), cfx_ones(cases[i].m));
        cfx_program *p = cfx_export(m, in, CFX_NONE, read(cases[i].dynamic));
        bool fine = cases[i].error ? CHECK_ERROR(cases[i].error) : CHECK_OK();
        if (fine && !cases[i].error)
            fine = CHECK_STR(cfx_repr(cfx_dict_value(p->ranges)), cases[i].ranges);
        if (!fine)
            printf("    %s\n", cases[i].name);
        cfx_error_clear();
        cfx_scope_close(mark);
    }
}

TEST(dims_of_nested_inputs_fit_them) {
    cfx_module *m = cfx_module_new("M", pair, "x, y");
    cfx_value in = cfx_tuple(cfx_list(cfx_ones(5), cfx_ones(5)), cfx_ones(5));
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'x': [{0: 'd'}]}"))));
    CHECK_ERROR("Detected mismatch between the structure of `inputs` and "
                "`dynamic_shapes`: "
                "`inputs['x']` has 2 elements, but `dynamic_shapes['x']` has 1 elements");
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'x': {0: 'd'}}"))));
    CHECK_ERROR("`inputs['x']` is a <class 'list'>, but `dynamic_shapes['x']` is "
                "a <class 'dict'>");
    m = cfx_module_new("M", entry, "x, y");
    cfx_dict *x = cfx_dict_new();
    cfx_dict_set(x, "a", cfx_tensor_value(cfx_ones(5)));
    in = cfx_tuple(cfx_dict_value(x), cfx_ones(5));
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'x': {'b': {0: 'd'}}}"))));
    CHECK_ERROR("`inputs['x']` has keys ['a'], but `dynamic_shapes['x']` has keys ['b']");
}

/* Sizes of 0 and 1 broadcast, and are none of a range: where they are to vary that is told. */
TEST(dims_of_one_do_not_vary) {
    cfx_module *m = cfx_module_new("M", times, "x, n");
    cfx_value in = cfx_tuple(cfx_ones(1, 3), 3);
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'x': ['Dim.DYNAMIC', None]}"))));
    CHECK_ERROR("- Received user-specified dim hint Dim.DYNAMIC(min=None, max=None), but export "
                "0/1 specialized due to hint of 1 for dimension inputs['x'].shape[0].");
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'x': [('B', 1, 8), None]}"))));
    CHECK_ERROR("Constraints violated (B)!\n  - You marked B as dynamic but your code "
                "specialized it to be a constant (1).");
    cfx_export(m, in, CFX_NONE, read("{'x': ['Dim.AUTO', None]}"));
    CHECK_OK();
}

TEST(dims_of_numbers) {
    cfx_module *m = cfx_module_new("M", times, "x, n");
    cfx_value in = cfx_tuple(cfx_ones(5), 3);
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, read("{'n': 'd'}"))));
    CHECK_ERROR("Unable to specify input integers as dynamic through named Dims. "
                "Please use "
                "Dim.AUTO/DYNAMIC instead.");
    CHECK(cfx_failed(
        cfx_export(m, cfx_tuple(cfx_ones(5), 3.5), CFX_NONE, read("{'n': 'Dim.AUTO'}"))));
    CHECK_ERROR("Cannot associate shape Dim.AUTO specified at "
                "`dynamic_shapes['n']` to non-tensor "
                "type <class 'float'> at `inputs['n']` (expected None)");
    cfx_program *p = cfx_export(m, in, CFX_NONE, read("{'n': 'Dim.DYNAMIC'}"));
    CHECK_OK();
    cfx_value seven = cfx_program_run(p, cfx_ones(5), 7),
              less = cfx_program_run(p, cfx_ones(5), -2);
    CHECK_OK();
    CHECK_NEAR(cfx_number(cfx_item(cfx_sum(seven))), 35, 1e-6);
    CHECK_NEAR(cfx_number(cfx_item(cfx_sum(less))), -10, 1e-6);
}
