/* Programs that cannot be: each with one thing changed in a good model.json, and the sentence that
 * says what is wrong. */
#include "pickle.h"
#include "pt2.h"
#include "test.h"

#include <stdlib.h>

#define ZOO CFX_TEST_DATA "/zoo/"

/* Opens a program of the zoo after replacing the first `from` by `to` in its part `part`. */
static cfx_program *changed(const char *name, const char *part, const char *from, const char *to) {
    cfx__file_mapping *m = cfx__file_map(cfx__text_format(ZOO "%s/model.pt2", name));
    cfx__zip z;
    char *data = NULL;
    size_t size = 0;
    bool found = false;
    if (!CHECK(m && cfx__zip_open(&z, name, (cfx__pack_bytes){m->data, m->size, m})))
        return NULL;
    cfx__zip_writer w = {.file = open_memstream(&data, &size)};
    for (size_t i = 0; i < z.entries.len; i++) {
        cfx__zip_entry *e = &z.entries.data[i];
        cfx__pack_bytes b;
        CHECK(cfx__zip_read(&z, e, false, &b));
        const char *text = strstr(e->name, part) ? cfx__string_new(b.data, b.size)->text : NULL;
        const char *at = text ? strstr(text, from) : NULL;
        if (at && to) {
            const char *with =
                cfx__text_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
            cfx__zip_add(&w, e->name, with, strlen(with));
        } else if (!at) {
            cfx__zip_add(&w, e->name, b.data, b.size);
        }
        found |= at != NULL;
    }
    CHECK(cfx__zip_finish(&w) && found);
    fclose(w.file);
    cfx__zip_close(&z);
    cfx_drop(m);
    cfx_tensor *bytes = cfx_tensor_new(CFX_U8, 1, (int64_t[]){(int64_t)size}, data);
    free(data);
    return cfx__pt2_open("bad.pt2", (cfx__pack_bytes){bytes->data, size, bytes->storage});
}

#define MODEL "models/model.json"
#define WEIGHTS "model_weights_config.json"

TEST(programs_that_lie_are_refused) {
    static const struct {
        const char *part, *from, *to, *why;
    } cases[] = {
        {MODEL, "{\"graph_module\"", "[{\"graph_module\"", "line 1"},
        {MODEL, "\"graph_module\"", "\"module\"", "\"graph\" is missing"},
        {MODEL, "\"nodes\": [", "\"nodes\": 7, \"x\": [", "\"nodes\" is int, not a list"},
        {MODEL, "\"as_tensor\": {\"name\": \"p_fc1_weight\"}", "\"as_nothing\": 1",
         "\"as_nothing\""},
        {MODEL, "\"arg\": {\"as_tensor\": {\"name\": \"x\"}}",
         "\"arg\": {\"as_tensor\": {\"name\": \"linear_1\"}}",
         "uses 'linear_1', which nothing before it makes"},
        {MODEL, "\"outputs\": [{\"as_tensor\": {\"name\": \"relu\"}}]",
         "\"outputs\": [{\"as_tensor\": {\"name\": \"linear\"}}]", "'linear' is made twice"},
        {MODEL, "\"outputs\": [{\"as_tensor\": {\"name\": \"relu\"}}]",
         "\"outputs\": [{\"as_tensor\": {\"name\": \"gone\"}}]", "'gone' is described nowhere"},
        {MODEL, "\"target\": \"torch.ops.aten.relu.default\"", "\"target\": 1", "\"target\""},
        {MODEL, "\"sizes\": [{\"as_int\": ", "\"sizes\": [{\"as_int\": -", "below zero"},
        {MODEL, "\"strides\": [{\"as_int\": ", "\"strides\": [{\"as_float\": ",
         "a size is no integer"},
        {MODEL, "\"sizes\": [", "\"sizes\": [{\"as_int\": 1}, ", "3 sizes and 2 strides"},
        {MODEL, "\"dtype\": 7", "\"dtype\": 77", "number 77"},
        {MODEL, "\"major\": 8", "\"major\": 9", "8 is the newest"},
        {MODEL, "\"parameter\":", "\"something\":", "\"something\" are not known"},
        {MODEL, "\"parameter_name\": \"fc1.weight\"", "\"parameter_name\": \"fc9.weight\"",
         "stands for 'fc9.weight', which the file lacks"},
        {MODEL, "\"output_specs\": [", "\"output_specs\": [], \"x\": [", "the signature 0"},
        {MODEL, "\"input_specs\": [", "\"input_specs\": [], \"x\": [", "the signature lacks input"},
        {WEIGHTS, "\"path_name\": \"weight_0\"", "\"path_name\": \"weight_9\"",
         "data/weights/weight_9, is missing"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": ", "\"sizes\": [{\"as_int\": 9", "out of bounds"},
        {WEIGHTS, "\"storage_offset\": {\"as_int\": 0}",
         "\"storage_offset\": {\"as_int\": 9223372036854775807}", "out of bounds"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 14", "there is no dtype of number 14"},
        {WEIGHTS, "\"config\"", "\"konfig\"", "is no object"},
        {"archive_version", "0", "1", "archive version is 1"},
        {"byteorder", "little", "big", "big-endian"},
    };
    for (int i = 0; i < COUNT(cases); i++)
        CFX_SCOPE {
            CHECK(cfx_failed(changed("seed_mlp", cases[i].part, cases[i].from, cases[i].to)));
            CHECK_ERROR(cases[i].why);
        }
}

TEST(programs_without_a_part_are_refused) {
    CFX_SCOPE {
        CHECK(cfx_failed(changed("seed_mlp", WEIGHTS, "{", NULL)));
        CHECK_ERROR("it has no data/weights/model_weights_config.json");
        CHECK(cfx_failed(changed("seed_mlp", MODEL, "{", NULL)));
        CHECK_ERROR("it holds no program");
        CHECK(cfx_failed(changed("seed_mlp", "weights/weight_0", "", NULL)));
        CHECK_ERROR("is missing");
    }
}

/* Storages in one place of two dtypes: what is written to one is not known of the other. */
TEST(an_entry_of_two_dtypes_may_change_unseen) {
    static const float numbers[16] = {1};
    char *data = NULL;
    size_t size = 0;
    cfx__zip_writer w = {.file = open_memstream(&data, &size)};
    cfx__zip_add(&w, "w", (const char *)numbers, sizeof numbers);
    CHECK(cfx__zip_finish(&w));
    fclose(w.file);
    cfx_tensor *bytes = cfx_tensor_new(CFX_U8, 1, (int64_t[]){(int64_t)size}, data);
    free(data);
    cfx__zip z;
    CHECK(cfx__zip_open(&z, "w.zip", (cfx__pack_bytes){bytes->data, size, bytes->storage}));
    cfx__zip_entry *e = cfx__zip_find(&z, "w");
    cfx_dict *bases = cfx_dict_new();
    cfx_tensor *floats = cfx__pack_base(bases, &z, e, CFX_F32);
    CHECK(cfx__pack_base(bases, &z, e, CFX_F32) == floats && !floats->storage->foreign);
    cfx_tensor *ints = cfx__pack_base(bases, &z, e, CFX_I32);
    CHECK(ints->data == floats->data && ints->storage->foreign && floats->storage->foreign);
    CHECK(cfx__pack_base(bases, &z, e, CFX_F32) == floats);
    cfx__zip_close(&z);
    CHECK_OK();
}

TEST(weights_may_be_left_out) {
    cfx_program *p = changed("seed_mlp", "weights/weight_0", "", "");
    if (CHECK_OK() && CHECK(!cfx_failed(p)))
        CHECK(cfx_tensor_is_fake(cfx_program_tensor(p, &p->inputs[0])));
}

TEST(graphs_in_graphs_have_a_depth) {
    cfx__text deep = {0};
    static const char open[] =
        "{\"inputs\": [], \"outputs\": [], \"tensor_values\": {}, \"nodes\": [{\"target\": "
        "\"torch.ops.higher_order.cond\", \"outputs\": [], \"metadata\": {}, \"inputs\": "
        "[{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"g\", \"graph\": ";
    for (int i = 0; i < 60; i++)
        cfx__text_puts(&deep, open);
    cfx__text_puts(&deep, "{}");
    for (int i = 0; i < 60; i++)
        cfx__text_puts(&deep, "}}}]}]}");
    cfx__text model = {0};
    cfx__text_printf(&model, "\"graph_module\": {\"graph\": %s, \"unused\": ", deep.data);
    CHECK(cfx_failed(changed("seed_mlp", MODEL, "\"graph_module\": {\"graph\": ", model.data)));
    CHECK_ERROR("nested too deeply");
    cfx__text_release(&deep);
    cfx__text_release(&model);
}

TEST(tables_that_are_written_otherwise_are_read_as_they_were) {
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"{\"p_fc1_weight\": {\"dtype\"", "{\"p_\\u0066c1_weight\": {\"dtype\""},
        {"\"tensor_values\": {", "\"tensor_values\" :\n\t{ "},
        {"\"nodes\": [", "\"nodes\":[ \n"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        cfx_program *p = changed("seed_mlp", MODEL, cases[i].from, cases[i].to);
        CHECK_OK();
        CHECK(!cfx_failed(p) && cfx_node_result(cfx_graph_first(p->module->graph)).ndim == 2);
    }
    changed("seed_mlp", MODEL, "{\"p_fc1_weight\": {\"dtype\"",
            "{\"zz\": {\"dtype\": 7,}, \"p_fc1_weight\": {\"dtype\"");
    CHECK_ERROR("model.json in 'bad.pt2': line 1, column ");
    changed("seed_mlp", MODEL, "\"nodes\": [", "\"nodes\": [tru, ");
    CHECK_ERROR("model.json in 'bad.pt2': line 1, column ");
}
