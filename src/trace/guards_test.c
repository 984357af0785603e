/* What forward asks of a size that was to vary is told in PyTorch's words. */
#include <cfx/export.h>
#include <cfx/ops.h>

#include "dims.h"
#include "test.h"

static cfx_value equal_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_as_tensor(a.v[0]), cfx_as_tensor(a.v[1])));
}

static cfx_value above_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *x = cfx_as_tensor(a.v[0]);
    (void)self;
    return cfx_tensor_value(cfx_dim(x, 0) > 5 ? cfx_mul(x, 2) : x);
}

static cfx_value shifted_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(
        cfx_add(cfx_slice(cfx_as_tensor(a.v[0]), 0, 1, INT64_MAX), cfx_as_tensor(a.v[1])));
}

static cfx_value dims_of(const char *x, const char *y) {
    cfx_dict *all = cfx_dict_new();
    const char *names[] = {x, y};
    for (int i = 0; i < 2; i++)
        if (names[i]) {
            cfx_dict *own = cfx_dict_new();
            cfx_dict_put(own, cfx_int(0), cfx_string_value(names[i]));
            cfx_dict_set(all, i ? "y" : "x", cfx_dict_value(own));
        }
    return cfx_dict_value(all);
}

TEST(guards_two_sizes_are_equal) {
    cfx_module *m = cfx_module_new("M", equal_forward, "x, y");
    cfx_value in = cfx_tuple(cfx_ones(4, 3), cfx_ones(4, 3));
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, dims_of("B", "C"))));
    CHECK_ERROR("Constraints violated (C)!\n"
                "  - The values of C = L['y'].size()[0] and B = L['x'].size()[0] must always be "
                "equal.\nSuggested fixes:\n  C = B");
}

static cfx_value three_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_add(a.v[0], a.v[1]), a.v[2]));
}

static cfx_program *export_three(const int64_t size[2], const char *rows, const char *columns) {
    cfx_module *m = cfx_module_new("M", three_forward, "x, y, z");
    cfx_value x = cfx_tensor_value(cfx_ones(size[0], size[1]));
    cfx_dict *all = cfx_dict_new();
    const char *names[] = {"x", "y", "z"};
    for (int i = 0; i < 3; i++) {
        cfx_dict *own = cfx_dict_new();
        cfx_dict_put(own, cfx_int(0), cfx_string_value(rows));
        if (columns)
            cfx_dict_put(own, cfx_int(1), cfx_string_value(columns));
        cfx_dict_set(all, names[i], cfx_dict_value(own));
    }
    return cfx_export(m, cfx_tuple(x, x, x), CFX_NONE, cfx_dict_value(all));
}

TEST(guards_three_sizes_are_equal) {
    static const int64_t sizes[][2] = {{6, 3}, {5, 5}};
    for (int i = 0; i < 2; i++) {
        cfx_program *p = export_three(sizes[i], "Dim.AUTO", "Dim.AUTO");
        CHECK_INT(p->ranges->len, 2);
        CHECK(cfx_program_run(p, cfx_ones(4, 9), cfx_ones(4, 9), cfx_ones(4, 9)).tag ==
              CFX_TAG_TENSOR);
        CHECK_OK();
        cfx_program_run(p, cfx_ones(4, 9), cfx_ones(4, 9), cfx_ones(5, 9));
        CHECK(!cfx_ok());
        cfx_error_clear();
    }
    CHECK_INT(export_three(sizes[0], "Dim.AUTO", NULL)->ranges->len, 1);
    CHECK_OK();
}

TEST(guards_a_size_is_constant) {
    cfx_module *m = cfx_module_new("M", equal_forward, "x, y");
    cfx_value in = cfx_tuple(cfx_ones(6), cfx_ones(6));
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, dims_of("T", NULL))));
    CHECK_ERROR("Constraints violated (T)!\n"
                "  - You marked T as dynamic but your code specialized it to be a constant (6). If "
                "you're using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're "
                "using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.\n"
                "Suggested fixes:\n  T = 6");
}

TEST(guards_a_size_is_bounded) {
    cfx_module *m = cfx_module_new("M", above_forward, "x");
    cfx_value in = cfx_tuple_value(1, (cfx_value[]){cfx_tensor_value(cfx_ones(7, 3))});
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, dims_of("B", NULL))));
    CHECK_ERROR("Constraints violated (B)!\n"
                "  - Not all values of B = L['x'].size()[0] in the specified range satisfy the "
                "generated guard 6 <= L['x'].size()[0] and L['x'].size()[0] <= IntInfinity()\n"
                "Suggested fixes:\n  B = Dim('B', min=6)");
}

TEST(guards_sizes_are_related) {
    cfx_module *m = cfx_module_new("M", shifted_forward, "x, y");
    cfx_value in = cfx_tuple(cfx_ones(5, 3), cfx_ones(4, 3));
    CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, dims_of("B", "C"))));
    CHECK_ERROR(
        "Constraints violated (B)!\n"
        "  - The values of B = L['x'].size()[0] must always be related to the values of C = "
        "L['y'].size()[0] by B = C + 1.\nSuggested fixes:\n  B = C + 1");
}

/* ---- sizes that are made of others ----------------------------------------------------------- */

static cfx_value product_forward(cfx_module *self, cfx_args a) {
    cfx_tensor *y = cfx_as_tensor(a.v[1]);
    (void)self;
    return cfx_tensor_value(cfx_view(a.v[0], cfx_list(cfx_dim(y, 0), 2 * cfx_dim(y, 1))));
}

static cfx_value square_forward(cfx_module *self, cfx_args a) {
    int64_t n = cfx_dim(cfx_as_tensor(a.v[1]), 0);
    (void)self;
    return cfx_tensor_value(cfx_view(a.v[0], cfx_list(n, n)));
}

static cfx_value line_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(
        cfx_add(cfx_view(cfx_slice(a.v[0], 0, 3, INT64_MAX), cfx_list(-1, 2)), a.v[1]));
}

static cfx_value every_third_forward(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_add(cfx_slice(a.v[0], 0, 1, INT64_MAX, 3), a.v[1]));
}

static cfx_value all_dims(const char *x, const char *y0, const char *y1) {
    cfx_dict *all = cfx_dict_new(), *first = cfx_dict_new(), *second = cfx_dict_new();
    cfx_dict_put(first, cfx_int(0), cfx_string_value(x));
    cfx_dict_put(second, cfx_int(0), cfx_string_value(y0));
    if (y1)
        cfx_dict_put(second, cfx_int(1), cfx_string_value(y1));
    cfx_dict_set(all, "x", cfx_dict_value(first));
    cfx_dict_set(all, "y", cfx_dict_value(second));
    return cfx_dict_value(all);
}

static const struct {
    cfx_value (*forward)(cfx_module *self, cfx_args a);
    int64_t x, y[2];
    bool second; /* the second size of y varies too */
    const char *inferred, *ranges;
    int64_t others[2][3]; /* sizes that fit */
} made[] = {
    {product_forward, 24, {3, 4}, true,
     "Not all values of A = L['x'].size()[0] in the specified range are valid because A was "
     "inferred to be equal to 2*L['y'].size()[0]*L['y'].size()[1].",
     "{'2*s17*s94': (8, None), 's17': (2, None), 's94': (2, None)}", {{70, 5, 7}, {8, 2, 2}}},
    {square_forward, 9, {3, 1}, false,
     "Not all values of A = L['x'].size()[0] in the specified range are valid because A was "
     "inferred to be equal to L['y'].size()[0]**2.",
     "{'s17**2': (4, None), 's17': (2, None)}", {{49, 7, 1}, {4, 2, 1}}},
    {line_forward, 13, {5, 2}, false,
     "The values of A = L['x'].size()[0] must always be related to the values of B = "
     "L['y'].size()[0] by A = 2*B + 3.\nSuggested fixes:\n  A = 2*B + 3",
     "{'2*s17 + 3': (7, None), 's17': (2, None)}", {{17, 7, 2}, {7, 2, 2}}},
};

TEST(guards_a_size_is_made_of_others) {
    for (int i = 0; i < COUNT(made); i++) {
        cfx_module *m = cfx_module_new("M", made[i].forward, "x, y");
        cfx_value in = cfx_tuple(cfx_ones(made[i].x), cfx_ones(made[i].y[0], made[i].y[1]));
        const char *second = made[i].second ? "C" : NULL, *varies = second ? "Dim.AUTO" : NULL;
        CHECK(cfx_failed(cfx_export(m, in, CFX_NONE, all_dims("A", "B", second))));
        CHECK_ERROR(cfx__text_format("Constraints violated (A)!\n  - %s", made[i].inferred));
        cfx_program *p = cfx_export(m, in, CFX_NONE, all_dims("Dim.AUTO", "Dim.AUTO", varies));
        CHECK_OK();
        CHECK_STR(cfx_str(p->ranges), made[i].ranges);
        for (int k = 0; k < 2; k++) {
            const int64_t *n = made[i].others[k];
            cfx_program_run(p, cfx_ones(n[0]), cfx_ones(n[1], n[2]));
            CHECK_OK();
        }
        cfx_program_run(p, cfx_ones(made[i].x + 1), cfx_ones(made[i].y[0], made[i].y[1]));
        CHECK(!cfx_ok());
        cfx_error_clear();
    }
}

/* Three sizes of x for one of y: PyTorch keeps both symbols and a guard. */
TEST(guards_a_size_is_a_quotient) {
    cfx_module *m = cfx_module_new("M", every_third_forward, "x, y");
    cfx_program *p = cfx_export(m, cfx_tuple(cfx_ones(9), cfx_ones(3)), CFX_NONE,
                                dims_of("Dim.AUTO", "Dim.AUTO"));
    CHECK_OK();
    CHECK_STR(cfx_str(p->ranges), "{'s77': (2, None), '((s77 + 1)//3)': (1, None)}");
    for (int64_t n = 8; n <= 14; n++)
        CHECK_INT(cfx_dim(cfx_as_tensor(cfx_program_run(p, cfx_ones(n), cfx_ones((n + 1) / 3))), 0),
                  (n + 1) / 3);
    CHECK_OK();
}

/* ---- slices ---------------------------------------------------------------------------------- */

static cfx_value up_to(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(a.v[0], 0, CFX_NONE, a.v[1]));
}

static cfx_value from_the_end(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(a.v[0], 0, a.v[1]));
}

/* x[:n] and x[n:]: PyTorch compares n with 0 and with the size of x, so it is on that side of them
 * that the example is on. */
TEST(slices_bound_numbers_that_are_inputs) {
    static const struct {
        cfx_forward_fn *fn;
        int n, ok, bad;
        const char *range, *size;
    } cut[] = {{up_to, 5, 8, 9, "s86: VR[0, 8]", "f32[s86, 3]"},
                {up_to, 11, 12, 8, "s86: VR[9, int_oo]", "f32[8, 3]"},
                {up_to, -2, -8, 0, "s86: VR[-8, -1]", "f32[s86 + 8, 3]"},
                {from_the_end, 5, 0, -1, "s86: VR[0, 8]", "f32[8 - s86, 3]"}};
    for (int i = 0; i < (int)(sizeof cut / sizeof *cut); i++) {
        cfx_module *m = cfx_module_new("Slices", cut[i].fn, "x, n");
        cfx_tensor *x = cfx_randn(cfx_list(8, 3));
        cfx_program *p = cfx_export(m, cfx_tuple(x, cut[i].n), CFX_NONE,
                                    cfx_list(CFX_NONE, "Dim.AUTO"));
        if (!CHECK_OK())
            return;
        const char *text = cfx_program_str(p);
        CHECK(strstr(text, cut[i].range) && strstr(text, cut[i].size));
        CHECK(cfx_is_true(cfx_equal(cfx_program_run(p, x, cut[i].ok),
                                    cfx_forward(m, x, cut[i].ok))));
        CHECK_OK();
        cfx_program_run(p, x, cut[i].bad);
        CHECK(!cfx_ok() && strstr(cfx_error_last()->message, "Expected input at *args[1] to be"));
        cfx_error_clear();
    }
}

static cfx_value first_three(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(a.v[0], 0, 0, 3));
}

static cfx_value first_five(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(a.v[0], 0, CFX_NONE, 5));
}

static cfx_value last_three(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_slice(a.v[0], 0, -3));
}

static cfx_value rows_of_table(cfx_module *self, cfx_args a) {
    cfx_value n = cfx_size(cfx_as_tensor(a.v[0]), 0);
    return cfx_tensor_value(cfx_add(cfx_slice(cfx_attr(self, "table"), 0, 0, n), a.v[0]));
}

/* x[:3] and x[-3:]: the same is asked of the size itself, which is on that side of 3 that the
 * example is on. */
TEST(slices_bound_sizes) {
    static const struct {
        cfx_forward_fn *fn;
        int bad;
        const char *range, *size, *suggested;
    } cut[] = {{first_three, 2, "s77: VR[3, int_oo]", "f32[3, 3]", "n = Dim('n', min=3)"},
               {first_five, 5, "s77: VR[2, 4]", "f32[s77, 3]", "n = Dim('n', max=4)"},
               {last_three, 2, "s77: VR[3, int_oo]", "f32[3, 3]", "n = Dim('n', min=3)"},
               {rows_of_table, 9, "s77: VR[2, 8]", "f32[s77, 3]", "n = Dim('n', max=8)"}};
    for (int i = 0; i < COUNT(cut); i++) {
        cfx_module *m = cfx_module_new("Slices", cut[i].fn, "x");
        cfx_nn_buffer(m, "table", cfx_randn(cfx_list(8, 3)), true);
        cfx_value x = cfx_tuple(cfx_randn(cfx_list(4, 3)));
        cfx_program *p = cfx_export(m, x, CFX_NONE, dims_of("Dim.AUTO", NULL));
        if (!CHECK_OK())
            return;
        const char *text = cfx_program_str(p);
        CHECK(strstr(text, cut[i].range) && strstr(text, cut[i].size));
        cfx_program_run(p, cfx_randn(cfx_list(cut[i].bad, 3)));
        CHECK_ERROR("Expected input at *args[0].shape[0]");
        CHECK(cfx_failed(cfx_export(m, x, CFX_NONE, dims_of("n", NULL))));
        CHECK_ERROR(cut[i].suggested);
    }
}
