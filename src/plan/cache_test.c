/* Caches of attention: written where they lie by functional programs too, and read without copies
 * where heads share keys and values. */
#include "../rewrite/pass.h"
#include "plan.h"
#include "plan_test.h"

enum { WIDTH = 24, HEADS = 6, SHARED = 2, SIZE = 4, PLACES = 7 };

static cfx_tensor *by_heads(cfx_tensor *x) {
    return cfx_transpose(cfx_view(x, cfx_list(1, cfx_dim(x, 1), -1, SIZE)), 1, 2);
}

static cfx_tensor *repeated(cfx_tensor *x) {
    cfx_value wide = cfx_list(1, SHARED, HEADS / SHARED, PLACES, SIZE);
    return cfx_reshape(cfx_expand(cfx_unsqueeze(x, 2), wide), cfx_list(1, HEADS, PLACES, SIZE));
}

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x, cfx_tensor *at) {
    cfx_tensor *keys = cfx_attr(self, "keys"), *values = cfx_attr(self, "values");
    cfx_index_copy_(keys, 2, at, by_heads(cfx_call(self, "k", x)));
    cfx_index_copy_(values, 2, at, by_heads(cfx_call(self, "v", x)));
    cfx_tensor *seen = cfx_le(cfx_arange(PLACES), cfx_unsqueeze(at, 1));
    cfx_tensor *y = cfx_scaled_dot_product_attention(by_heads(cfx_call(self, "q", x)),
                                                     repeated(keys), repeated(values), seen);
    return cfx_reshape(cfx_transpose(y, 1, 2), cfx_list(1, -1, WIDTH));
}

static cfx_tensor *token(void) { return cfx_randn(cfx_list(1, 1, WIDTH)); }
static cfx_tensor *place(int i) { return cfx_tensor_from_value(cfx_list(i)); }

static cfx_program *attention_program(bool functional) {
    cfx_manual_seed(8);
    cfx_module *m = cfx_module_new("Attention", forward, "x, at");
    cfx_nn_add(m, "q", cfx_nn_linear(WIDTH, HEADS * SIZE));
    cfx_nn_add(m, "k", cfx_nn_linear(WIDTH, SHARED * SIZE));
    cfx_nn_add(m, "v", cfx_nn_linear(WIDTH, SHARED * SIZE));
    cfx_nn_buffer(m, "keys", cfx_zeros(1, SHARED, PLACES, SIZE), true);
    cfx_nn_buffer(m, "values", cfx_zeros(1, SHARED, PLACES, SIZE), true);
    cfx_program *p = cfx_export(m, cfx_tuple(token(), place(0)), cfx_none(), cfx_none());
    if (functional)
        CHECK(cfx_pass_apply(cfx_pass_find("functionalize"), p, NULL) > 0);
    return p;
}

static cfx_tensor *step(const cfx_executor *x, cfx_program *p, cfx_tensor *in, int at) {
    cfx_value args[] = {cfx_tensor_value(in), cfx_tensor_value(place(at))};
    return cfx_as_tensor(cfx_program_run_with(CFX_HERE, p, x, NULL, (cfx_args){2, args, NULL}));
}

static bool near(cfx_tensor *a, cfx_tensor *b) {
    return cfx_ok() && cfx_integer(cfx_allclose(a, b, 1e-5, 1e-6));
}

TEST(plan_writes_caches_in_place_and_shares_heads) {
    for (int functional = 0; functional < 2; functional++) {
        cfx_program *one = attention_program(functional), *two = attention_program(functional);
        const char *plan = cfx_program_plan(two, token(), place(0));
        CHECK(strstr(plan, "aten.index_copy_.default") && !strstr(plan, "index_copy.default"));
        CHECK(!strstr(plan, "expand") && !strstr(plan, "reshape  "));
        cfx_tensor *keys = cfx_as_tensor(cfx_dict_get(two->state, "keys"));
        const void *memory = cfx_tensor_data(keys);
        for (int i = 0; i < PLACES && cfx_ok(); i++) {
            cfx_tensor *x = token();
            CHECK(near(step(&cfx_interpreter, one, x, i), step(&cfx_planner, two, x, i)));
        }
        CHECK(near(cfx_as_tensor(cfx_dict_get(one->state, "keys")), keys));
        CHECK(cfx_tensor_data(cfx_as_tensor(cfx_dict_get(two->state, "keys"))) == memory);
        CHECK_OK();
    }
}

/* A buffer that is read after it was updated, or given to the caller, is copied as it says. */

TEST(plan_copies_what_is_read_again_after_an_update) {
    static const char *const names[] = {"w"};
    cfx_tensor *t[] = {cfx_randn(4, 4)};
    cfx_program *p = program_of(HEAD "p_w, cache, at, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("r", "relu.default", "y")
        CALL("new", "index_copy.default", "cache, 0, at, r")
        CALL("old", "sum.default", "cache")
        "        return (new, old)\n", tensors_of(1, names, t));
    p->outputs[0].kind = CFX_OUT_INPUT_MUTATION;
    p->outputs[0].target = "cache";
    cfx_tensor *a = cfx_randn(3, 4), *b = cfx_clone(a), *x = cfx_randn(1, 4);
    cfx_value args[] = {cfx_tensor_value(a), cfx_tensor_value(place(2)), cfx_tensor_value(x)};
    cfx_value want = cfx_program_run_with(CFX_HERE, p, &cfx_interpreter, NULL,
                                          (cfx_args){3, args, NULL});
    args[0] = cfx_tensor_value(b);
    cfx_value got = cfx_program_run_with(CFX_HERE, p, &cfx_planner, NULL,
                                         (cfx_args){3, args, NULL});
    CHECK(near(cfx_tensor_at(got, 0), cfx_tensor_at(want, 0)));
    CHECK(near(a, b));
    CHECK_OK();
}
