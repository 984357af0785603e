/* The older layouts of .pt2 files, and archives that are something else. The samples are made here,
 * by hand: x + w, with w = [1, 2, 3] in a torch.save file of its own. */
#include "pickle.h"
#include "pt2.h"
#include "files.h"

#include <stdlib.h>

typedef struct sample {
    const char *path;
    cfx__zip_writer zip;
} sample;

static void begin(sample *s) {
    *s = (sample){.path = test_path("sample.pt2")};
    s->zip.file = fopen(s->path, "wb");
    CHECK(s->zip.file != NULL);
}

static void add(sample *s, const char *name, const char *text) {
    cfx__zip_add(&s->zip, name, text, strlen(text));
}

/* The program in the sample, whose file goes. */
static cfx_program *end(sample *s) {
    CHECK(cfx__zip_finish(&s->zip));
    CHECK(fclose(s->zip.file) == 0);
    cfx_program *p = cfx_open(s->path);
    CHECK_INT(test_folder_clear(), 1);
    return p;
}

/* ---- torch.save ------------------------------------------------------------------------------ */

#define PICKLED_TENSOR                                                                             \
    "ctorch._utils\n_rebuild_tensor_v2\n"                                                          \
    "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\3tQ"                       \
    "K\0K\3\x85K\1\x85\x89" "ccollections\nOrderedDict\n)RtR"

static const char state_pickle[] = "\x80\2ccollections\nOrderedDict\n)RX\1\0\0\0w" PICKLED_TENSOR
                                   "s}X\t\0\0\0_metadataNsb.";
static const char inputs_pickle[] = "\x80\2" PICKLED_TENSOR "\x85}\x86.";
static const char empty_pickle[] = "\x80\2}.";

static void add_saved(sample *s, const char *name, const char *pickle, size_t size) {
    static const float numbers[] = {1, 2, 3};
    char *bytes = NULL;
    size_t len = 0;
    cfx__zip_writer w = {.file = open_memstream(&bytes, &len)};
    cfx__zip_add(&w, "archive/data.pkl", pickle, size);
    cfx__zip_add(&w, "archive/byteorder", "little", 6);
    cfx__zip_add(&w, "archive/data/0", numbers, sizeof numbers);
    cfx__zip_add(&w, "archive/version", "3\n", 2);
    CHECK(cfx__zip_finish(&w));
    fclose(w.file);
    cfx__zip_add(&s->zip, name, bytes, len);
    free(bytes);
}

/* ---- model.json ------------------------------------------------------------------------------ */

#define TENSOR(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"
#define META(offset)                                                                               \
    "{\"dtype\": 7, \"sizes\": [{\"as_int\": 3}], \"requires_grad\": false, \"device\": "          \
    "{\"type\": \"cpu\", \"index\": null}, \"strides\": [{\"as_int\": 1}], "                       \
    "\"storage_offset\": " offset ", \"layout\": 7}"
#define GRAPH(meta)                                                                                \
    "{\"inputs\": [" TENSOR("p_w") ", " TENSOR("x") "], \"outputs\": [" TENSOR("add") "], "        \
    "\"nodes\": [{\"target\": \"torch.ops.aten.add.Tensor\", \"inputs\": [{\"name\": \"self\", "   \
    "\"arg\": " TENSOR("x") "}, {\"name\": \"other\", \"arg\": " TENSOR("p_w") "}, "               \
    "{\"name\": \"alpha\", \"arg\": {\"as_int\": 2}}], \"outputs\": [" TENSOR("add") "], "         \
    "\"metadata\": {}}], \"tensor_values\": {\"p_w\": " meta ", \"x\": " meta ", \"add\": " meta   \
    "}, \"sym_int_values\": {}, \"sym_bool_values\": {}}"
#define SPECS                                                                                      \
    "{\"input_specs\": [{\"parameter\": {\"arg\": {\"name\": \"p_w\"}, \"parameter_name\": "       \
    "\"w\"}}, {\"user_input\": {\"arg\": " TENSOR("x") "}}], \"output_specs\": "                   \
    "[{\"user_output\": {\"arg\": " TENSOR("add") "}}]}"
#define TREE "\"[1, {\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}]\""

/* Schema 1: a signature of dicts, a version that is one number, descriptions one level deeper. */
static const char model_1[] =
    "{\"graph_module\": {\"graph\": " GRAPH("{\"meta\": " META("0") "}") ", \"signature\": "
    "{\"inputs_to_parameters\": {\"p_w\": \"w\"}, \"inputs_to_buffers\": {}, \"user_inputs\": "
    "[\"x\"], \"user_outputs\": [\"add\"], \"buffers_to_mutate\": {}, \"backward_signature\": "
    "null}, \"call_spec\": {\"in_spec\": " TREE ", \"out_spec\": " TREE "}, "
    "\"module_call_graph\": []}, \"opset_version\": {\"aten\": 10}, \"range_constraints\": {}, "
    "\"equality_constraints\": [], \"schema_version\": 1, \"dialect\": \"ATEN\"}";
/* Schema 5 to 8, as of 2.3 to 2.8. */
static const char model_8[] =
    "{\"graph_module\": {\"graph\": " GRAPH(META("{\"as_int\": 0}")) ", \"signature\": " SPECS
    ", \"module_call_graph\": [{\"fqn\": \"\", \"signature\": {\"inputs\": [], \"outputs\": [], "
    "\"in_spec\": " TREE ", \"out_spec\": " TREE "}}]}, \"opset_version\": {\"aten\": 10}, "
    "\"range_constraints\": {}, \"schema_version\": {\"major\": 8, \"minor\": 7}, "
    "\"verifiers\": [\"TRAINING\"], \"torch_version\": \"2.7.0\"}";

static void check_program(cfx_program *p) {
    if (!CHECK_OK() || !CHECK(!cfx_failed(p)))
        return;
    CHECK_STR(cfx_node_format(cfx_graph_find(p->module->graph, "add")),
              "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
              "(args = (%x, %p_w), kwargs = {alpha: 2})");
    CHECK_INT(p->ninputs, 2);
    CHECK_INT(p->inputs[0].kind, CFX_IN_PARAMETER);
    CHECK_STR(p->inputs[0].target, "w");
    CHECK_INT(p->outputs[0].kind, CFX_OUT_USER);
    const cfx_tensor *w = cfx_program_tensor(p, &p->inputs[0]);
    CHECK(w && cfx_tensor_numel(w) == 3 && cfx_tensor_get(w, 2) == 3);
    CHECK_INT(p->out_spec.tag, CFX_TAG_ELLIPSIS);
}

TEST(layout_of_2_1_opens) {
    sample s;
    begin(&s);
    add(&s, "serialized_exported_program.json", model_1);
    add_saved(&s, "serialized_state_dict.json", state_pickle, sizeof state_pickle - 1);
    add(&s, "version", "1");
    check_program(end(&s));
}

TEST(layout_of_2_3_opens) {
    sample s;
    begin(&s);
    add(&s, "serialized_exported_program.json", model_8);
    add_saved(&s, "serialized_state_dict.pt", state_pickle, sizeof state_pickle - 1);
    add_saved(&s, "serialized_constants.pt", empty_pickle, sizeof empty_pickle - 1);
    add_saved(&s, "serialized_example_inputs.pt", inputs_pickle, sizeof inputs_pickle - 1);
    add(&s, "version", "8.7");
    add(&s, "extra_files/note.txt", "hello");
    cfx_program *p = end(&s);
    check_program(p);
    if (cfx_failed(p))
        return;
    CHECK_STR(cfx_repr(cfx_program_sample_inputs(p)), "((tensor([1., 2., 3.]),), {})");
    CHECK_INT(cfx_tensor_numel(cfx_as_tensor(
                  cfx_dict_get(cfx_as_dict(cfx_dict_get(p->extra, "files")), "note.txt"))),
              5);
}

TEST(layout_of_2_8_opens) {
    sample s;
    begin(&s);
    add_saved(&s, "m/data/weights/model.pt", state_pickle, sizeof state_pickle - 1);
    add_saved(&s, "m/data/constants/model.pt", empty_pickle, sizeof empty_pickle - 1);
    add(&s, "m/models/model.json", model_8);
    add(&s, "m/data/sample_inputs/model.pt", "");
    add(&s, "m/archive_format", "pt2");
    add(&s, "m/archive_version", "0");
    add(&s, "m/byteorder", "little");
    cfx_program *p = end(&s);
    check_program(p);
    CHECK(cfx_is_none(cfx_program_sample_inputs(p)));
}

TEST(archives_of_another_kind_are_named) {
    sample s;
    begin(&s);
    add(&s, "m/archive_format", "pt2");
    add(&s, "m/archive_version", "0");
    add(&s, "m/data/aotinductor/model/wrapper.so", "x");
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("AOTInductor package");
    begin(&s);
    add(&s, "m/data.pkl", "x");
    add(&s, "m/code/__torch__.py", "x");
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("TorchScript");
    begin(&s);
    add_saved(&s, "x", empty_pickle, sizeof empty_pickle - 1);
    add(&s, "archive/data.pkl", "x");
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("torch.save, no program");
    begin(&s);
    add(&s, "m/archive_format", "pt2");
    add(&s, "m/archive_version", "7");
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("archive version is 7");
    begin(&s);
    add(&s, "m/archive_format", "pt2");
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("no program");
    begin(&s);
    CHECK(cfx_failed(end(&s)));
    CHECK_ERROR("none that torch.export.save writes");
}
