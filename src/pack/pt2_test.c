/* Programs from .pt2 files that PyTorch wrote. */
#include "pt2.h"
#include "test.h"

#define ZOO CFX_TEST_DATA "/zoo/"

static const char *file_text(const char *path) {
    cfx__file_mapping *m = cfx__file_map(path);
    const char *text = m ? cfx__string_new(m->data, m->size)->text : "";
    cfx_drop(m);
    return text;
}

/* Equal but for blanks at the end. */
static void check_text(const char *name, const char *file, const char *got) {
    const char *want = file_text(cfx__text_format(ZOO "%s/%s.txt", name, file));
    size_t n = strlen(want), k = strlen(got);
    while (n && strchr(" \n", want[n - 1]))
        n--;
    while (k && strchr(" \n", got[k - 1]))
        k--;
    if (n != k || memcmp(got, want, n))
        test_fail(CFX_HERE, "%s of %s is not what PyTorch prints", file, name);
}

TEST(programs_open_and_print_as_in_torch) {
    static const char *const names[] = {"bf16_linear",     "cond",      "dyn_conv", "index_zoo",
                                        "mutating_buffer", "pytree_io", "seed_mlp", "while_loop"};
    for (int i = 0; i < COUNT(names); i++)
        CFX_SCOPE {
            cfx_program *p = cfx_open(cfx__text_format(ZOO "%s/model.pt2", names[i]));
            if (!CHECK_OK() || !CHECK(!cfx_failed(p)))
                continue;
            check_text(names[i], "graph", cfx_graph_str(p->module->graph));
            check_text(names[i], "code", cfx_module_code(p->module));
            check_text(names[i], "tabular", cfx_graph_tabular(p->module->graph));
            check_text(names[i], "readable",
                       cfx_module_readable(p->module, (cfx_readable_options){0}));
            CHECK(cfx_graph_lint(p->module->graph, p->module));
            CHECK(cfx__graph_check(p->module->graph));
        }
}

TEST(a_program_has_a_signature_and_tensors) {
    cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
    if (!CHECK(!cfx_failed(p)))
        return;
    CHECK_INT(p->ninputs, 5);
    CHECK_INT(p->noutputs, 1);
    CHECK_INT(p->inputs[0].kind, CFX_IN_PARAMETER);
    CHECK_STR(p->inputs[0].name, "p_fc1_weight");
    CHECK_STR(p->inputs[0].target, "fc1.weight");
    CHECK_INT(p->inputs[4].kind, CFX_IN_USER);
    CHECK_INT(p->outputs[0].kind, CFX_OUT_USER);
    const cfx_tensor *w = cfx_program_tensor(p, &p->inputs[0]);
    CHECK(w && cfx_tensor_ndim(w) == 2 && (uintptr_t)cfx_tensor_data(w) % 64 == 0);
    CHECK_STR(cfx_tree_spec_text(p->in_spec),
              "TreeSpec(tuple, None, [TreeSpec(tuple, None, [*]),\n  TreeSpec(dict, [], [])])");
    cfx_node *n = cfx_graph_find(p->module->graph, "linear");
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    CHECK_INT(stack.tag, CFX_TAG_DICT);
    CHECK(cfx_text(cfx_node_get_meta(n, "stack_trace")) != NULL);
}

TEST(trees_sizes_and_ranges_come_along) {
    cfx_program *p = cfx_open(ZOO "pytree_io/model.pt2");
    if (!CHECK(!cfx_failed(p)))
        return;
    CHECK_STR(cfx_repr(p->out_spec), "{'h': Ellipsis, 'stats': (Ellipsis, [Ellipsis, Ellipsis])}");
    p = cfx_open(ZOO "dyn_conv/model.pt2");
    if (!CHECK(!cfx_failed(p)))
        return;
    CHECK(p->ranges->len > 0);
    CHECK_INT(cfx_as_list(cfx_dict_get(p->extra, "guards"))->len, 4);
    cfx_value val = cfx_node_get_meta(cfx_graph_find(p->module->graph, "x"), "val");
    CHECK_INT(val.tag, CFX_TAG_DICT);
    cfx_value size = cfx_at(cfx_dict_get(cfx_as_dict(val), "shape"), 2);
    CHECK(size.tag == CFX_TAG_SYM && cfx_as_sym(size)->has_hint);
    CHECK_OK();
}

TEST(tensors_outlive_their_program) {
    cfx_tensor *w = NULL;
    CFX_SCOPE {
        cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
        if (CHECK(!cfx_failed(p)))
            w = cfx_keep(cfx_program_tensor(p, &p->inputs[1]));
    }
    CHECK(w && cfx_tensor_get(w, 0) == cfx_tensor_get(w, 0));
    cfx_drop(w);
}

TEST(what_is_no_program_is_named) {
    CHECK(cfx_failed(cfx_open(CFX_TEST_DATA "/none.pt2")));
    CHECK_ERROR(CFX_TEST_DATA "/none.pt2");
    CHECK(cfx_failed(cfx_open(ZOO "seed_mlp/tabular.txt")));
    CHECK_ERROR("it is not a zip archive");
    cfx_error_clear();
    CHECK(cfx_failed(cfx_open(ZOO "seed_mlp/readable.txt"))); /* a text of a program */
    CHECK_ERROR("and its file '" ZOO "seed_mlp/readable.safetensors' is not there");
}
