/* Loops of ONNX of which only data can tell how often they go round, and NonMaxSuppression, as
 * programs of ATen: while_loops that carry tensors of fixed shapes. */
#include "onnx_test.h"

#include <cfx/pack.h>
#include <cfx/rewrite.h>

static cfx_tensor *number(int64_t n) { return cfx_tensor_new(CFX_I64, 0, NULL, (int64_t[]){n}); }

/* A graph with input x of the sizes and, where it is named, a count n; and a body that carries a
 * value v like it. */
static void begin(made *g, made *body, bool counted, const char *sizes) {
    if (counted)
        put_value(g, 11, "n", CFX_I64, "");
    put_value(g, 11, "x", CFX_F32, sizes);
    put_value(body, 11, "i", CFX_I64, "");
    put_value(body, 11, "go", CFX_BOOL, "");
    put_value(body, 11, "v", CFX_F32, sizes);
}

/* The body gives `on`, the new value w and, where there is one, the row r. */
static cfx_program *end(made *g, made *body, const char *inputs, const char *sizes,
                        const char *row_sizes) {
    put_value(body, 12, "on", CFX_BOOL, "");
    put_value(body, 12, "w", CFX_F32, sizes);
    if (row_sizes)
        put_value(body, 12, "r", CFX_F32, row_sizes);
    cfx__text n = node_begin("Loop", inputs, row_sizes ? "y,rows" : "y");
    put_graph_attr(&n, "body", body);
    node_end(g, 1, &n);
    put_value(g, 12, "y", CFX_F32, sizes);
    if (row_sizes)
        put_value(g, 12, "rows", CFX_F32, *row_sizes ? cfx__text_format("k,%s", row_sizes) : "k");
    return opened(g, 18);
}

/* As ATen, and as a file of that. */
static cfx_program *converted(cfx_program *p) {
    CHECK(cfx_save(cfx_to_aten(p), test_path("m.pt2")));
    cfx_program *aten = cfx_open(test_path("m.pt2"));
    CHECK_OK();
    CHECK(strstr(cfx_program_str(aten), "higher_order.while_loop("));
    CHECK(!strstr(cfx_program_str(aten), "onnx"));
    test_unlink("m.pt2");
    test_folder_done();
    return aten;
}

#define CHECK_ALIKE(p, aten, ...) CHECK_STR(RUN(aten, __VA_ARGS__), RUN(p, __VA_ARGS__))

/* x is carried, and used in the body as well: no two operands of a while_loop may be the same. */
TEST(onnx_loop_that_a_count_ends_is_a_while_loop) {
    made g = {0}, body = {0};
    begin(&g, &body, true, "b,2");
    put_node(&body, "Identity", "go", "on", NULL);
    put_node(&body, "Add", "v,x", "w", NULL);
    cfx_program *p = end(&g, &body, "n,,x", "b,2", NULL), *aten = converted(p);
    cfx_tensor *x = cfx_full(cfx_list(1, 2), 1.0);
    CHECK_STR(RUN(p, number(3), x), "tensor([[4., 4.]])");
    for (int n = 0; n < 5; n++)
        CHECK_ALIKE(p, aten, number(n), cfx_ones(n + 1, 2));
    CHECK_ALIKE(p, aten, number(-2), x);
    CHECK(strstr(cfx_program_str(aten), "aten.clone.default(x)"));
    CHECK_OK();
}

/* What is collected lies in a buffer of as many rows as there may be rounds. */
TEST(onnx_loop_that_a_condition_ends_collects_what_there_was) {
    made g = {0}, body = {0};
    put_tensor(&g, "most", number(20));
    put_tensor(&g, "limit", cfx_full(cfx_list_value(0, NULL), 50.0));
    begin(&g, &body, false, "2");
    put_node(&body, "Add", "v,v", "w", NULL);
    put_node(&body, "Sub", "w,x", "r", NULL);
    put_node(&body, "ReduceSum", "w", "sum", "{'keepdims': 0}");
    put_node(&body, "Less", "sum,limit", "on", NULL);
    cfx_program *p = end(&g, &body, "most,,x", "2", "2"), *aten = converted(p);
    CHECK_STR(RUN(p, cfx_full(cfx_list(2), 8.0)),
              "(tensor([32., 32.]), tensor([[ 8.,  8.],\n        [24., 24.]]))");
    for (int n = -2; n < 60; n += 20)
        CHECK_ALIKE(p, aten, cfx_full(cfx_list(2), 1.0 * n));
    CHECK_OK();
}

TEST(onnx_loop_collects_as_often_as_it_is_told) {
    made g = {0}, body = {0};
    begin(&g, &body, true, "2");
    put_node(&body, "Identity", "go", "on", NULL);
    put_node(&body, "Add", "v,x", "w", NULL);
    put_node(&body, "ReduceSum", "w", "r", "{'keepdims': 0}");
    cfx_program *p = end(&g, &body, "n,,x", "2", ""), *aten = converted(p);
    for (int n = -1; n < 5; n++)
        CHECK_ALIKE(p, aten, number(n), cfx_full(cfx_list(2), 3.0));
    CHECK_OK();
}

/* How often is a size of the input, which varies: one loop for all, not one unrolled for each. */
TEST(onnx_loop_over_a_dynamic_size) {
    made g = {0}, body = {0};
    begin(&g, &body, false, "k,2");
    put_tensor(&g, "first", number(0));
    put_node(&g, "Shape", "x", "shape", NULL);
    put_node(&g, "Gather", "shape,first", "count", NULL);
    put_node(&body, "Identity", "go", "on", NULL);
    put_node(&body, "Add", "v,x", "w", NULL);
    put_node(&body, "Gather", "w,i", "r", NULL);
    cfx_program *p = end(&g, &body, "count,,x", "k,2", "2"), *aten = converted(p);
    for (int n = 2; n < 6; n++)
        CHECK_ALIKE(p, aten, cfx_reshape(cfx_arange(2.0 * n), cfx_list(n, 2)));
    CHECK_OK();
}

TEST(onnx_loops_in_loops_are_while_loops) {
    made g = {0}, body = {0}, inner = {0};
    begin(&g, &body, true, "2");
    put_value(&inner, 11, "j", CFX_I64, "");
    put_value(&inner, 11, "go2", CFX_BOOL, "");
    put_value(&inner, 11, "u", CFX_F32, "2");
    put_node(&inner, "Identity", "go2", "on2", NULL);
    put_node(&inner, "Mul", "i,j", "both", NULL);
    put_node(&inner, "Cast", "both", "add", "{'to': 1}");
    put_node(&inner, "Add", "u,add", "t", NULL);
    put_value(&inner, 12, "on2", CFX_BOOL, "");
    put_value(&inner, 12, "t", CFX_F32, "2");
    put_node(&body, "Identity", "go", "on", NULL);
    cfx__text n = node_begin("Loop", "n,,v", "w");
    put_graph_attr(&n, "body", &inner);
    node_end(&body, 1, &n);
    cfx_program *p = end(&g, &body, "n,,x", "2", NULL), *aten = converted(p);
    for (int k = 0; k < 5; k++)
        CHECK_ALIKE(p, aten, number(k), cfx_full(cfx_list(2), 3.0));
    CHECK_OK();
}

TEST(onnx_loop_that_grows_what_it_carries_has_no_form_in_aten) {
    made g = {0}, body = {0};
    begin(&g, &body, true, "q");
    put_node(&body, "Identity", "go", "on", NULL);
    put_node(&body, "Concat", "v,x", "w", "{'axis': 0}");
    cfx_program *p = end(&g, &body, "n,,x", "q", NULL);
    CHECK_STR(RUN(p, number(2), cfx_full(cfx_list(1), 1.0)), "tensor([1., 1., 1.])");
    CHECK(cfx_failed(cfx_to_aten(p)));
    CHECK_ERROR("carries tensors of fixed shapes");
}

/* Neither how many rounds there are at most nor when it ends is known before it runs. */
TEST(onnx_loop_without_a_bound_cannot_collect) {
    made g = {0}, body = {0};
    begin(&g, &body, false, "2");
    put_tensor(&g, "limit", cfx_full(cfx_list_value(0, NULL), 50.0));
    put_node(&body, "Add", "v,v", "w", NULL);
    put_node(&body, "Identity", "w", "r", NULL);
    put_node(&body, "ReduceSum", "w", "sum", "{'keepdims': 0}");
    put_node(&body, "Less", "sum,limit", "on", NULL);
    cfx_program *p = end(&g, &body, ",,x", "2", "2");
    CHECK_STR(RUN(p, cfx_full(cfx_list(2), 20.0)), "(tensor([40., 40.]), tensor([[40., 40.]]))");
    CHECK(cfx_failed(cfx_to_aten(p)));
    CHECK_ERROR("nothing says how large");
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static cfx_program *boxes_program(int64_t most, int center) {
    made g = {0};
    put_value(&g, 11, "boxes", CFX_F32, "n,b,4");
    put_value(&g, 11, "scores", CFX_F32, "n,c,b");
    put_tensor(&g, "most", number(most));
    put_tensor(&g, "overlap", cfx_full(cfx_list_value(0, NULL), 0.4));
    put_tensor(&g, "least", cfx_full(cfx_list_value(0, NULL), 0.2));
    put_node(&g, "NonMaxSuppression", "boxes,scores,most,overlap,least", "y",
             center ? "{'center_point_box': 1}" : NULL);
    put_value(&g, 12, "y", CFX_I64, "k,3");
    return opened(&g, 18);
}

/* Against class by class, with many scores that are the same. */
TEST(onnx_boxes_are_suppressed_in_one_loop) {
    static const int64_t most[] = {0, 1, 4, INT64_MAX};
    cfx_manual_seed(3);
    for (int k = 0; k < 4; k++) {
        cfx_program *p = boxes_program(most[k], k % 2), *aten = converted(p);
        for (int n = 1; n < 4; n++) {
            cfx_tensor *boxes = cfx_mul(cfx_rand(n, 17, 4), 6);
            cfx_tensor *scores = cfx_div(cfx_round(cfx_mul(cfx_rand(n, 3, 17), 4)), 4);
            CHECK_ALIKE(p, aten, boxes, scores);
        }
    }
    CHECK_OK();
}
