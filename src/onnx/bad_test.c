/* .onnx files that lie: each ends in a sentence that says what is wrong with it. */
#include "onnx_test.h"

#include <stdlib.h>

/* A model of one operator on x and w, with what `spoil` adds to the graph. */
static made plain(const char *op, const char *attrs) {
    made g = {0};
    int64_t n = 3;
    put_value(&g, 11, "x", CFX_F32, "3");
    put_tensor(&g, "w", cfx_tensor_new(CFX_F32, 1, &n, (float[]){1, 2, 3}));
    put_node(&g, op, "x,w", "y", attrs);
    put_value(&g, 12, "y", CFX_F32, "3");
    return g;
}

TEST(onnx_cut_anywhere_is_an_error) {
    made g = plain("Add", NULL);
    cfx__text m = model_of(&g, 17, NULL);
    for (size_t n = 0; n < m.len; n++) {
        write_bytes("m.onnx", m.data, n);
        CFX_SCOPE { CHECK(cfx_failed(cfx_open(test_path("m.onnx")))); }
        CHECK_ERROR("m.onnx");
    }
    write_bytes("m.onnx", m.data, m.len);
    CHECK(!cfx_failed(cfx_open(test_path("m.onnx"))));
    cfx__text_release(&m);
    test_unlink("m.onnx");
    test_folder_done();
}

TEST(onnx_garbled_anywhere_is_no_crash) {
    made g = plain("Gemm", "{'alpha': 0.5, 'transB': 1}");
    cfx__text m = model_of(&g, 17, NULL);
    for (size_t i = 0; i < m.len; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            char was = m.data[i];
            m.data[i] ^= (char)(1 << bit);
            write_bytes("m.onnx", m.data, m.len);
            CFX_SCOPE {
                cfx_program *p = cfx_open(test_path("m.onnx"));
                if (!cfx_failed(p))
                    cfx_program_run(p, cfx_zeros(3));
            }
            cfx_error_clear();
            m.data[i] = was;
        }
    cfx__text_release(&m);
    test_unlink("m.onnx");
    test_folder_done();
}

/* A mode that is not there is told when the program runs: it opens, and can be looked at. */
TEST(onnx_modes_that_are_not_there_open) {
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "1,1,4,4");
    put_value(&g, 11, "r", CFX_F32, "1,4");
    put_value(&g, 11, "i", CFX_I64, "1");
    put_node(&g, "RoiAlign", "x,r,i", "y", "{'mode': 'max'}");
    put_value(&g, 12, "y", CFX_F32, "1,1,1,1");
    cfx_program *p = opened(&g, 17);
    CHECK_OK();
    CHECK(strstr(cfx_graph_str(p->module->graph), "torch.ops.onnx.RoiAlign.default"));
    cfx_program_run(p, cfx_zeros(1, 1, 4, 4), cfx_zeros(1, 4),
                    cfx_zeros(cfx_list(1), CFX_KW(dtype, cfx_i64)));
    CHECK_ERROR("RoiAlign: the mode 'max' is not known here");
}

TEST(onnx_mistakes_of_nodes_are_named) {
    made g = plain("Add", "{'wrong': 1}");
    opened(&g, 17);
    CHECK_ERROR("a node Add: the operator has no attribute 'wrong'");
    g = plain("Transpose", "{'perm': 1.5}");
    opened(&g, 17);
    CHECK_ERROR("a node Transpose: it has 2 inputs, and takes 1");
    g = plain("Concat", NULL);
    opened(&g, 17);
    CHECK_ERROR("a node Concat: its attribute 'axis' is missing");
    g = plain("Concat", "{'axis': 'none'}");
    opened(&g, 17);
    CHECK_ERROR("a node Concat: attribute 'axis' is str, and should be int");
    g = plain("Add", NULL);
    put_node(&g, "Relu", "z", "r", NULL);
    opened(&g, 17);
    CHECK_ERROR("a node Relu: it uses the value 'z', which nothing before it gives");
    g = plain("Add", NULL);
    put_node(&g, "Relu", "x", "y", NULL);
    opened(&g, 17);
    CHECK_ERROR("a node Relu: the value 'y' is given twice");
    g = plain("Conv", NULL);
    opened(&g, 17);
    CHECK_ERROR("Conv: the weight has 1 dimensions, the input 1");
    g = plain("Cast", "{'to': 99}");
    opened(&g, 17);
    CHECK_ERROR("a node Cast");
    g = plain("Add", NULL);
    put_value(&g, 12, "nowhere", CFX_F32, "");
    opened(&g, 17);
    CHECK_ERROR("it uses the value 'nowhere', which nothing before it gives");
}

TEST(onnx_versions_that_are_not_known_are_refused) {
    made g = plain("Add", NULL);
    opened(&g, 99);
    CHECK_ERROR("it is of version 99 of ONNX's operator set, and the newest known here is 28");
    g = plain("Add", NULL);
    opened(&g, 0);
    CHECK_ERROR("it is of version 0 of ONNX's operator set, which there is not");
}

/* ONNX Runtime's optimizer puts the norm into models of versions that do not have it. */
TEST(onnx_layer_norm_of_an_old_version) {
    made g = plain("LayerNormalization", NULL);
    cfx_program *p = opened(&g, 13);
    CHECK_STR(RUN(p, cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0))),
              "tensor([-1.2247,  0.0000,  3.6742])");
    CHECK_OK();
}

TEST(onnx_operators_nobody_knows_are_shown_not_run) {
    made g = plain("Frobnicate", "{'how': [1, 2]}");
    cfx_program *p = opened(&g, 17);
    cfx_node *n = cfx_graph_find(p->module->graph, "y");
    CHECK_STR(cfx_node_format(n), "%y : [num_users=1] = call_function[target="
                                  "torch.ops.onnx.Frobnicate.default](args = (%x, %p_w), "
                                  "kwargs = {how: [1, 2]})");
    cfx_program_run(p, cfx_zeros(3));
    CHECK_ERROR("is not registered");
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void open_tensor(int64_t type, int64_t size, const char *raw, size_t len) {
    made g = {0};
    cfx__text t = {0};
    cfx__wire_put_int(&t, 1, size);
    cfx__wire_put_int(&t, 2, type);
    cfx__wire_put_text(&t, 8, "w");
    if (raw)
        cfx__wire_put_bytes(&t, 9, raw, len);
    put_message(&g.fields, 5, &t);
    put_value(&g, 12, "w", CFX_F32, "3");
    opened(&g, 17);
}

TEST(onnx_tensors_that_lie) {
    open_tensor(1, 3, "12345678", 8);
    CHECK_ERROR("tensor 'w' has 8 bytes, its shape [3] of float needs 12");
    open_tensor(1, -3, "12345678", 8);
    CHECK_ERROR("tensor 'w' has a size of -3");
    open_tensor(1, (int64_t)1 << 60, "12345678", 8);
    CHECK_ERROR("tensor 'w' has an absurd shape");
    open_tensor(1, (int64_t)1 << 40, NULL, 0);
    CHECK_ERROR("tensor 'w' has fewer numbers than its shape");
    open_tensor(77, 3, "12345678", 8);
    CHECK_ERROR("tensor 'w' has elements of type 77, which is not known");
    open_tensor(8, 1, "12345678", 8);
    CHECK_ERROR("tensor 'w' holds elements of type string, of which there are no tensors here");
}

/* ---- what unfolds ---------------------------------------------------------------------------- */

/* Functions f0 to fN, each of which calls the next `times`. */
static cfx_program *unfolding(int depth, int times, bool circular) {
    cfx__text all = {0};
    made g = {0};
    for (int i = 0; i < depth; i++) {
        made f = {0};
        cfx__wire_put_text(&f.fields, 1, cfx__text_format("f%d", i));
        put_names(&f.fields, 4, "x");
        put_names(&f.fields, 5, cfx__text_format("v%d", times));
        cfx__wire_put_text(&f.fields, 10, "mine");
        for (int k = 0; k < times; k++) {
            bool last = i + 1 == depth && !circular;
            cfx__text n = node_begin(last ? "Neg" : cfx__text_format("f%d", (i + 1) % depth),
                                     k ? cfx__text_format("v%d", k) : "x",
                                     cfx__text_format("v%d", k + 1));
            if (!last)
                cfx__wire_put_text(&n, 7, "mine");
            node_end(&f, 7, &n);
        }
        put_message(&all, 25, &f.fields);
    }
    put_value(&g, 11, "x", CFX_F32, "1");
    cfx__text n = node_begin("f0", "x", "y");
    cfx__wire_put_text(&n, 7, "mine");
    node_end(&g, 1, &n);
    put_value(&g, 12, "y", CFX_F32, "1");
    return opened_with(&g, 17, &all);
}

TEST(onnx_functions_do_not_unfold_without_bound) {
    CHECK(!cfx_failed(unfolding(3, 2, false)));
    unfolding(3, 1, true);
    CHECK_ERROR("functions call each other more than 64 deep");
    unfolding(40, 2, false);
    CHECK_ERROR("its functions stand for more than 250000 nodes");
}

TEST(onnx_functions_of_one_name_are_refused) {
    cfx__text all = {0};
    for (int i = 0; i < 2; i++) {
        made f = {0};
        cfx__wire_put_text(&f.fields, 1, "f");
        put_names(&f.fields, 4, "x");
        put_names(&f.fields, 5, "y");
        cfx__wire_put_text(&f.fields, 10, "mine");
        cfx__text n = node_begin(i ? "Neg" : "Abs", "x", "y");
        node_end(&f, 7, &n);
        put_message(&all, 25, &f.fields);
    }
    made g = {0};
    put_value(&g, 11, "x", CFX_F32, "1");
    cfx__text n = node_begin("f", "x", "y");
    cfx__wire_put_text(&n, 7, "mine");
    node_end(&g, 1, &n);
    put_value(&g, 12, "y", CFX_F32, "1");
    opened_with(&g, 17, &all);
    CHECK_ERROR("the function 'f' is given twice");
}

TEST(onnx_graphs_do_not_nest_without_bound) {
    made inner = {0};
    put_node(&inner, "Neg", "x", "y", NULL);
    put_value(&inner, 12, "y", CFX_F32, "1");
    for (int i = 0; i < 80; i++) {
        made outer = {0};
        cfx__text n = node_begin("Loop", "n,", "y");
        put_graph_attr(&n, "body", &inner);
        node_end(&outer, 1, &n);
        inner = outer;
    }
    opened(&inner, 17);
    CHECK_ERROR("graphs are nested more than 64 deep");
}
