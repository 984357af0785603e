#include "test.h"

/* Doubles what it is given, and counts. */
typedef struct doubler {
    int calls, freed;
} doubler;

static cfx_value doubled(void *data, cfx_args a) {
    ((doubler *)data)->calls++;
    return cfx_tensor_value(cfx_mul(a.v[0], 2));
}
static void doubler_free(void *data) { ((doubler *)data)->freed++; }
static const cfx_object_type doubler_type = {
    .name = "doubler", .call = doubled, .free = doubler_free};

TEST(objects_are_hooks_and_freed_with_them) {
    doubler d = {0}, on_leaf = {0};
    CFX_SCOPE {
        cfx_tensor *x = cfx_requires_grad(cfx_ones(2), true), *y = cfx_mul(x, 3);
        CHECK(cfx_tensor_hook_object(y, cfx_object_value(&doubler_type, &d), false) > 0);
        int64_t id = cfx_tensor_hook_object(x, cfx_object_value(&doubler_type, &on_leaf), true);
        cfx_backward(cfx_sum(y), .retain_graph = true);
        CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([6., 6.])");
        CHECK(d.calls == 1 && on_leaf.calls == 1);
        CHECK(!cfx_tensor_hook_object(x, cfx_int(1), false));
        CHECK_ERROR("expected an object of the caller's, got int");
        cfx_tensor_unhook(x, id);
    }
    CHECK(d.freed == 1 && on_leaf.freed == 1);
}

TEST(the_tape_can_be_walked) {
    cfx_tensor *x = cfx_requires_grad(cfx_ones(2), true), *w = cfx_requires_grad(cfx_ones(2), true);
    cfx_tensor *a = cfx_mul(x, w), *y = cfx_sum(a), *plain = cfx_ones(2);
    cfx_grad_node *sum = cfx_tensor_grad_node(y), *mul = cfx_grad_node_next(sum, 0, NULL);
    CHECK_STR(cfx_grad_node_name(sum), "SumBackward0");
    CHECK(mul == cfx_tensor_grad_node(a) && cfx_grad_node_inputs(mul) == 2);
    CHECK_STR(cfx_grad_node_name(mul), "MulBackward0");
    int output = 7;
    cfx_grad_node *leaf = cfx_grad_node_next(mul, 1, &output);
    CHECK(leaf == cfx_tensor_grad_node(w) && output == 0);
    CHECK_STR(cfx_grad_node_name(leaf), "AccumulateGrad");
    CHECK(cfx_grad_node_leaf(leaf) == w && !cfx_grad_node_leaf(mul));
    CHECK(cfx_grad_node_inputs(leaf) == 0 && !cfx_grad_node_next(leaf, 0, NULL));
    CHECK(!cfx_tensor_grad_node(plain) && !cfx_grad_node_next(mul, 2, NULL));
    mul = cfx_tensor_grad_node(cfx_mul(plain, w));
    CHECK(!cfx_grad_node_next(mul, 0, NULL) && cfx_grad_node_next(mul, 1, NULL) == leaf);
}

/* x * x, whose gradient is told by hand: it reads the input, and counts. */
static cfx_value square_back(void *data, cfx_args a) {
    ((doubler *)data)->calls++;
    cfx_value x = cfx_as_list(a.v[0])->items[0], g = cfx_as_list(a.v[2])->items[0];
    if (cfx_as_list(a.v[1])->items[0].tag != CFX_TAG_NONE)
        cfx_fail(CFX_RUNTIME_ERROR, CFX_HERE, "an output that was not saved");
    return cfx_list(cfx_mul(cfx_mul(g, x), 2), cfx_none());
}
static const cfx_object_type square_type = {
    .name = "square", .call = square_back, .free = doubler_free};

static cfx_tensor *square(doubler *d, cfx_tensor *x) {
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *y = cfx_mul(x, x);
    cfx_set_grad_mode(mode);
    CHECK(cfx_grad_function(.name = "SquareBackward", .inputs = cfx_list(x, cfx_none()),
                            .outputs = cfx_list(y), .saved = cfx_list(x),
                            .object = cfx_object_value(&square_type, d)));
    return y;
}

TEST(functions_of_the_callers_are_on_the_tape) {
    doubler d = {0};
    CFX_SCOPE {
        cfx_tensor *x = cfx_requires_grad(cfx_tensor_from_value(cfx_list(1.0, 3.0)), true);
        cfx_tensor *y = square(&d, x);
        CHECK_STR(cfx_tensor_grad_fn(y), "SquareBackward");
        cfx_value g = cfx_grad(cfx_sum(y), x, .create_graph = true);
        cfx_tensor *first = cfx_as_tensor(cfx_as_list(g)->items[0]);
        CHECK_STR(cfx_str(cfx_detach(first)), "tensor([2., 6.])");
        cfx_backward(cfx_sum(first)); /* what was saved has its history again */
        CHECK_STR(cfx_str(cfx_tensor_grad(x)), "tensor([2., 2.])");
        y = square(&d, cfx_mul(x, 1));
        cfx_backward(cfx_sum(y));
        CHECK(!cfx_backward(cfx_sum(y)));
        CHECK_ERROR("Trying to backward through the graph a second time (or directly access saved "
                    "tensors after they have already been freed). Saved intermediate values of the "
                    "graph are freed when you call .backward() or autograd.grad(). Specify "
                    "retain_graph=True if you need to backward through the graph a second time or "
                    "if you need to access saved tensors after calling backward.");
        CHECK(d.calls == 2);
    }
    CHECK(d.freed == 2);
    CHECK(!cfx_grad_function(.name = "f", .inputs = cfx_list(1), .outputs = cfx_list(2)));
    CHECK_ERROR("f: a function on the tape needs a callable object, and lists of tensors for "
                "inputs, outputs and saved tensors");
}

TEST(a_function_may_write_to_its_input) {
    doubler d = {0};
    CFX_SCOPE { /* what is on the tape is freed before d is gone */
        cfx_tensor *leaf = cfx_requires_grad(cfx_ones(2), true), *x = cfx_mul(leaf, 1);
        cfx_grad_function_options o = {.name = "F", .inputs = cfx_list(x), .outputs = cfx_list(x)};
        o.object = cfx_object_value(&doubler_type, &d);
        CHECK(cfx_grad_function_from(CFX_HERE, o));
        CHECK_STR(cfx_tensor_grad_fn(x), "F");
        o.inputs = o.outputs = cfx_list(leaf);
        CHECK(!cfx_grad_function_from(CFX_HERE, o));
        CHECK_ERROR("a leaf Variable that requires grad is being used in an in-place operation.");
        o.inputs = o.outputs = cfx_list(cfx_select(x, 0, 0));
        CHECK(!cfx_grad_function_from(CFX_HERE, o));
        CHECK_ERROR("F writes to a view of another tensor, which a user-defined function cannot; "
                    "write to a tensor that is not a view, or return a new one");
    }
    CHECK(d.freed == 1);
}

TEST(gradients_that_are_not_numbers_are_found) {
    cfx_tensor *x = cfx_requires_grad(cfx_zeros(1), true);
    CHECK(!cfx_set_detect_anomaly(true));
    CHECK(!cfx_backward(cfx_sum(cfx_sqrt(cfx_mul(cfx_div(x, x), 0)))));
    CHECK_ERROR("Function 'SqrtBackward0' returned nan values in its 0th output.");
    CHECK(cfx_set_detect_anomaly(false));
    CHECK(cfx_backward(cfx_sum(cfx_sqrt(cfx_mul(cfx_div(x, x), 0)))));
}
