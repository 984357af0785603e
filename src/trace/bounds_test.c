/* What bounds numbers that only data tells: how many elements there are to pick from, and what they
 * are checked to be no more than. */
#include <cfx/emit.h>
#include <cfx/export.h>
#include <cfx/ops.h>

#include "dims.h"
#include "test.h"

#define X (cfx_as_tensor(a.v[0]))
#define N (cfx_as_tensor(a.v[1]))
#define PICKED(name, pick)                                                                         \
    static cfx_value name(cfx_module *self, cfx_args a) {                                          \
        (void)self;                                                                                \
        return pick;                                                                               \
    }

PICKED(all_places, CFX_V(cfx_nonzero(X)))
PICKED(by_mask, CFX_V(cfx_masked_select(X, cfx_gt(X, cfx_sum(N)))))
PICKED(all_true, cfx_at(cfx_py("torch.where", cfx_gt(X, 0)), 0))
PICKED(rows, CFX_V(cfx_index(X, cfx_list(cfx_gt(cfx_select(X, 1, 0), cfx_sum(N))))))
PICKED(each_once, cfx_at(cfx_py("torch.unique", X), 0))
PICKED(twice, CFX_V(cfx_nonzero(cfx_index(X, cfx_list(cfx_gt(X, 0))))))

/* No more elements are picked than there are, which the program asserts; where their number varies
 * as far as that is bounded. */
TEST(sizes_of_what_is_picked_are_bounded) {
    static const struct {
        const char *name;
        cfx_forward_fn *forward;
        const char *fixed, *bounded; /* of 3 rows, of up to 9 */
    } all[] = {{"nonzero", all_places, "u0: VR[0, 12]", "u0: VR[0, 36]"},
               {"masked_select", by_mask, "u0: VR[0, 12]", "u0: VR[0, 36]"},
               {"where", all_true, "u0: VR[0, 12]", "u0: VR[0, 36]"},
               {"rows", rows, "u0: VR[0, 3]", "u0: VR[0, 9]"},
               {"unique", each_once, "u0: VR[0, 12]", "u0: VR[0, 36]"},
               {"twice", twice, "u1: VR[0, 12]", "u1: VR[0, 36]"}};
    for (int i = 0; i < COUNT(all); i++)
        for (int dynamic = 0; dynamic < 3; dynamic++) {
            cfx_module *m = cfx_module_new("Picked", all[i].forward, "x, n");
            cfx_value args = cfx_tuple(cfx_randn(3, 4), cfx_tensor_from_value(cfx_list(0, 0)));
            cfx_value size = dynamic == 1 ? cfx_tuple("b", 2, 9) : cfx_string_value("b");
            cfx_dict *x = cfx_dict_new(), *sizes = cfx_dict_new();
            cfx_dict_put(x, cfx_int(0), size);
            cfx_dict_set(sizes, "x", cfx_dict_value(x));
            cfx_program *p = cfx_export(m, args, CFX_NONE,
                                        dynamic ? cfx_dict_value(sizes) : CFX_NONE);
            if (!CHECK_OK())
                continue;
            const char *text = cfx_program_str(p);
            const char *range = dynamic == 0   ? all[i].fixed
                                : dynamic == 1 ? all[i].bounded
                                               : "VR[0, 9223372036854775806]";
            if (!CHECK(strstr(text, range)) || !CHECK(!strstr(text, " <= ") == (dynamic == 2)))
                test_fail(CFX_HERE, "%s:\n%s", all[i].name, text);
            cfx_tensor *most = cfx_add(cfx_arange(dynamic ? 36 : 12, CFX_KW(dtype, cfx_f32)), 1);
            cfx_tensor *in = cfx_view(most, cfx_list(-1, 4));
            cfx_value n = cfx_at(args, 1);
            CHECK(cfx_is_true(cfx_equal(cfx_program_run(p, in, n), cfx_forward(m, in, n))));
            CHECK_OK();
        }
}

/* ---- checks beside sizes --------------------------------------------------------------------- */

#define ROWS cfx_size(X, 0)
#define OP(name, ...) cfx_py("operator." name, __VA_ARGS__)
#define CHECKED(name, most)                                                                        \
    static cfx_value name(cfx_module *self, cfx_args a) {                                          \
        (void)self;                                                                                \
        cfx_value k = cfx_item(N);                                                                 \
        cfx_check(OP("le", k, most), NULL);                                                        \
        return CFX_V(cfx_mul(X, k));                                                               \
    }

CHECKED(up_to_half, OP("floordiv", ROWS, 2))
CHECKED(up_to_rest, OP("mod", ROWS, 5))
CHECKED(up_to_quarter, OP("floordiv", OP("add", ROWS, 3), 4))
CHECKED(up_to_all, OP("mul", ROWS, cfx_size(X, 1)))
CHECKED(up_to_half_in_c, cfx_int(cfx_dim(X, 0) / 2))

/* What operators compute of an input's size is known; what C computes makes a constant of it. */
TEST(checks_compare_with_what_is_computed_of_sizes) {
    static const struct {
        cfx_forward_fn *forward;
        const char *asserted;
        int most; /* of 12 rows */
    } all[] = {{up_to_half, "u0 <= ((s77//2)) on", 6},
               {up_to_rest, "u0 <= (Mod(s77, 5)) on", 2},
               {up_to_quarter, "u0 <= (((s77 + 3)//4)) on", 3},
               {up_to_all, "u0 <= s27*s77 on", 36},
               {up_to_half_in_c, NULL, 0}};
    for (int i = 0; i < COUNT(all); i++) {
        cfx_module *m = cfx_module_new("Checked", all[i].forward, "x, n");
        cfx_value dims = cfx_dict_of("x", cfx_dict_of(0, "Dim.AUTO", 1, "Dim.AUTO"));
        cfx_value args = cfx_tuple(cfx_randn(8, 4), cfx_tensor_from_value(cfx_int(1)));
        cfx_program *p = cfx_export(m, args, CFX_NONE, dims);
        if (!CHECK_OK())
            continue;
        if (!all[i].asserted) {
            CHECK(strstr(cfx_program_str(p), "x: \"f32[8, s27]\""));
            continue;
        }
        if (!CHECK(strstr(cfx_program_str(p), all[i].asserted)))
            test_fail(CFX_HERE, "%s", cfx_program_str(p));
        for (int more = 0; more < 2; more++) {
            cfx_program_run(p, cfx_randn(12, 3),
                            cfx_tensor_from_value(cfx_int(all[i].most + more)));
            if (more)
                CHECK_ERROR("Runtime assertion failed for expression u0 <= ");
            else
                CHECK_OK();
        }
    }
}
