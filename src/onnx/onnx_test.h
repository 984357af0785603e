/* Small ONNX files for tests, put together message by message. */
#ifndef CFX_ONNX_TEST_H
#define CFX_ONNX_TEST_H

#include <stdlib.h>
#include <sys/stat.h>

#include <cfx/pack.h>

#include "../tensor/tensor.h"
#include "files.h"
#include "onnx.h"

/* A graph or function being written: fields of its message. */
typedef struct made {
    cfx__text fields;
} made;

/* Ends a message and puts it into another. */
static inline void put_message(cfx__text *to, uint32_t number, cfx__text *message) {
    cfx__wire_put_bytes(to, number, message->data ? message->data : "", message->len);
    cfx__text_release(message);
}

/* Names with commas between them, one field each; "a,,b" has one left out. */
static inline void put_names(cfx__text *to, uint32_t number, const char *names) {
    for (const char *end; *names; names = *end ? end + 1 : end) {
        end = strchr(names, ',');
        end = end ? end : names + strlen(names);
        cfx__wire_put_bytes(to, number, names, (size_t)(end - names));
    }
}

static inline void put_tensor_fields(cfx__text *to, const cfx_tensor *t, const char *name) {
    t = cfx__tensor_contiguous(t);
    for (int i = 0; i < t->ndim; i++)
        cfx__wire_put_int(to, 1, t->shape[i]);
    cfx__wire_put_int(to, 2, cfx__onnx_type_of((cfx_dtype)t->dtype)->number);
    cfx__wire_put_text(to, 8, name);
    cfx__wire_put_bytes(to, 9, t->data ? t->data : "",
                        (size_t)(t->numel * cfx_dtype_size((cfx_dtype)t->dtype)));
}

/* An attribute: a number, text, list of such, tensor, or a graph that was made. */
static inline void put_attr(cfx__text *to, uint32_t number, const char *name, cfx_value v) {
    cfx__text a = {0}, t = {0};
    cfx__wire_put_text(&a, 1, name);
    cfx_value first = v.tag == CFX_TAG_LIST && cfx_as_list(v)->len ? cfx_at(v, 0) : cfx_int(0);
    for (int64_t i = 0; v.tag == CFX_TAG_LIST && i < cfx_as_list(v)->len; i++) {
        cfx_value x = cfx_at(v, i);
        if (x.tag == CFX_TAG_INT)
            cfx__wire_put_int(&a, 8, cfx_integer(x));
        else if (x.tag == CFX_TAG_FLOAT)
            cfx__wire_put_float(&a, 7, (float)cfx_number(x));
        else
            cfx__wire_put_text(&a, 9, cfx_text(x));
    }
    if (v.tag == CFX_TAG_INT)
        cfx__wire_put_int(&a, 3, cfx_integer(v));
    else if (v.tag == CFX_TAG_FLOAT)
        cfx__wire_put_float(&a, 2, (float)cfx_number(v));
    else if (v.tag == CFX_TAG_STR)
        cfx__wire_put_text(&a, 4, cfx_text(v));
    else if (v.tag == CFX_TAG_TENSOR)
        put_tensor_fields(&t, cfx_as_tensor(v), name), put_message(&a, 5, &t);
    cfx__wire_put_int(&a, 20, v.tag == CFX_TAG_INT     ? CFX__ONNX_INT
                              : v.tag == CFX_TAG_FLOAT ? CFX__ONNX_FLOAT
                              : v.tag == CFX_TAG_STR   ? CFX__ONNX_STRING
                              : v.tag == CFX_TAG_TENSOR ? CFX__ONNX_TENSOR
                              : first.tag == CFX_TAG_STR   ? CFX__ONNX_STRINGS
                              : first.tag == CFX_TAG_FLOAT ? CFX__ONNX_FLOATS
                                                           : CFX__ONNX_INTS);
    put_message(to, number, &a);
}

static inline void put_graph_attr(cfx__text *to, const char *name, made *g) {
    cfx__text a = {0};
    cfx__wire_put_text(&a, 1, name);
    put_message(&a, 6, &g->fields);
    cfx__wire_put_int(&a, 20, CFX__ONNX_GRAPH);
    put_message(to, 5, &a);
}

/* The beginning of a node, to which attributes are put, and its end: in field 1 of a graph, in 7 of
 * a function. */
static inline cfx__text node_begin(const char *op, const char *inputs, const char *outputs) {
    cfx__text n = {0};
    put_names(&n, 1, inputs);
    put_names(&n, 2, outputs);
    cfx__wire_put_text(&n, 4, op);
    return n;
}

static inline void node_end(made *g, uint32_t field, cfx__text *n) {
    put_message(&g->fields, field, n);
}

/* A node whole; attributes are a Python dict as text, NULL: none. */
static inline void put_node(made *g, const char *op, const char *inputs, const char *outputs,
                            const char *attrs) {
    cfx__text n = node_begin(op, inputs, outputs);
    cfx_value d = cfx_none();
    if (attrs)
        CHECK(cfx__value_literal(&attrs, &d) && d.tag == CFX_TAG_DICT);
    for (int64_t i = 0; d.tag == CFX_TAG_DICT && i < cfx_as_dict(d)->len; i++)
        put_attr(&n, 5, cfx_text(cfx_as_dict(d)->entries[i].key),
                 cfx_as_dict(d)->entries[i].value);
    node_end(g, 1, &n);
}

/* A value with its type: sizes are numbers or names. Field 11 is an input, 12 a result. */
static inline void put_value(made *g, uint32_t field, const char *name, cfx_dtype d,
                             const char *sizes) {
    cfx__text v = {0}, type = {0}, tensor = {0}, shape = {0};
    for (const char *end; *sizes; sizes = *end ? end + 1 : end) {
        cfx__text dim = {0};
        end = strchr(sizes, ',');
        end = end ? end : sizes + strlen(sizes);
        if (strspn(sizes, "0123456789") == (size_t)(end - sizes))
            cfx__wire_put_int(&dim, 1, strtoll(sizes, NULL, 10));
        else
            cfx__wire_put_bytes(&dim, 2, sizes, (size_t)(end - sizes));
        put_message(&shape, 1, &dim);
    }
    cfx__wire_put_int(&tensor, 1, cfx__onnx_type_of(d)->number);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    cfx__wire_put_text(&v, 1, name);
    put_message(&v, 2, &type);
    put_message(&g->fields, field, &v);
}

static inline void put_tensor(made *g, const char *name, const cfx_tensor *t) {
    cfx__text m = {0};
    put_tensor_fields(&m, t, name);
    put_message(&g->fields, 5, &m);
}

/* The model of a graph, with more fields of its own (NULL: none); the caller releases it. */
static inline cfx__text model_of(made *g, int64_t version, cfx__text *more) {
    cfx__text m = {0}, set = {0};
    cfx__wire_put_int(&m, 1, 8);
    cfx__wire_put_text(&set, 1, "");
    cfx__wire_put_int(&set, 2, version);
    put_message(&m, 8, &set);
    if (more) {
        cfx__text_add(&m, more->data, more->len);
        cfx__text_release(more);
    }
    put_message(&m, 7, &g->fields);
    return m;
}

static inline void write_bytes(const char *name, const char *data, size_t len) {
    FILE *f = fopen(test_path(name), "wb");
    CHECK(f && fwrite(data ? data : "", 1, len, f) == len && fclose(f) == 0);
}

/* Opens the model of a graph by way of a file, which is gone afterwards. */
static inline cfx_program *opened_with(made *g, int64_t version, cfx__text *more) {
    cfx__text m = model_of(g, version, more);
    write_bytes("m.onnx", m.data, m.len);
    cfx__text_release(&m);
    cfx_program *p = cfx_open(test_path("m.onnx"));
    test_unlink("m.onnx");
    test_folder_done();
    return p;
}
static inline cfx_program *opened(made *g, int64_t version) {
    return opened_with(g, version, NULL);
}

/* The result of a program as text. */
#define RUN(p, ...) cfx_str(cfx_program_run(p, __VA_ARGS__))

/* Where CFX_ONNX_CASES names a folder, a program with inputs and results goes there, as a case for
 * tools/onnx_peer. */
static inline void keep_case(const char *name, const cfx_program *p, cfx_value in, cfx_value out) {
    const char *dir = getenv("CFX_ONNX_CASES");
    if (!dir)
        return;
    cfx_value lists[] = {in, out};
    dir = cfx__text_format("%s/%s", dir, name);
    mkdir(dir, 0777);
    cfx_save(p, cfx__text_format("%s/model.pt2", dir));
    for (int k = 0; k < 2; k++) {
        cfx_dict *d = cfx_dict_new();
        for (int i = 0; i < cfx_len(lists[k]); i++)
            cfx_dict_set(d, cfx__text_format("%s%d", k ? "out" : "in", i), cfx_at(lists[k], i));
        cfx_safetensors_write(cfx__text_format("%s/%s.safetensors", dir, k ? "outputs" : "inputs"),
                              d, NULL);
    }
}

#endif
