/* .onnx files written: a program of onnx:: calls as messages of protobuf. Start at cfx__onnx_save.
 *
 * All but the tensors of the model is put together in memory; tensors go from where they are to the
 * file, or, where the whole would be more than a message can hold, to one of their own. */
#include "export.h"

#include <cfx/version.h>

#include "../dispatch/dispatch.h"

/* Protobuf's messages have up to 2 GB. */
enum { MOST_BYTES = INT32_MAX - (64 << 20), SMALL = 1024, ALIGNED = 64 };

/* A graph that is being written. */
typedef struct scope {
    cfx__text out;        /* fields of its GraphProto, tensors of the whole aside */
    cfx_dict *names;      /* of nodes, by name there; of results by "node.i" */
    const cfx_module *module;
    const struct scope *outer;
    struct writer *w;
} scope;

typedef struct writer {
    const cfx_program *program;
    cfx_dict *taken; /* names of values; in sub-graphs too */
} writer;

static void put_message(cfx__text *to, uint32_t number, cfx__text *message) {
    cfx__wire_put_bytes(to, number, message->data ? message->data : "", message->len);
    cfx__text_release(message);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name that no other value has. Scope. */
static const char *unique(writer *w, const char *name) {
    const char *own = name;
    for (int i = 1; !cfx_is_none(cfx_dict_get(w->taken, own)); i++)
        own = cfx__text_format("%s_%d", name, i);
    cfx_dict_set(w->taken, own, cfx_bool(true));
    return own;
}

/* Result i of a node; -1: it is the result. */
static const char *key_of(const cfx_node *n, int64_t i) {
    return i < 0 ? n->name : cfx__text_format("%s.%lld", n->name, (long long)i);
}

static const char *define(scope *s, const char *key, const char *name) {
    name = unique(s->w, name);
    cfx_dict_set(s->names, key, cfx_string_value(name));
    return name;
}

static const char *name_of(const scope *s, cfx_value v) {
    cfx_value name = v.tag == CFX_TAG_NODE ? cfx_dict_get(s->names, cfx_as_node(v)->name)
                                           : cfx_none();
    return cfx_is_none(name) ? "" : cfx_text(name);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The fields of a TensorProto but its numbers. */
static bool put_tensor_head(cfx__text *to, const cfx_tensor *t, const char *name) {
    const cfx__onnx_type *type = cfx__onnx_type_of((cfx_dtype)t->dtype);
    if (!type) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, "'%s': ONNX has no tensors of %s", name,
                 cfx_dtype_name((cfx_dtype)t->dtype));
        return false;
    }
    for (int i = 0; i < t->ndim; i++)
        cfx__wire_put_int(to, 1, t->shape[i]);
    cfx__wire_put_int(to, 2, type->number);
    cfx__wire_put_text(to, 8, name);
    return true;
}

static size_t bytes_of(const cfx_tensor *t) {
    return (size_t)t->numel * cfx_dtype_size((cfx_dtype)t->dtype);
}

static bool put_tensor(cfx__text *to, uint32_t number, const cfx_tensor *t, const char *name) {
    cfx__text m = {0};
    t = cfx__tensor_contiguous(t);
    bool fine = put_tensor_head(&m, t, name);
    cfx__wire_put_bytes(&m, 9, bytes_of(t) ? t->data : "", bytes_of(t));
    put_message(to, number, &m);
    return fine;
}

/* A value with its type, where that is known; sizes that vary are called as they are in the
 * program. A number is a tensor of one integer. */
static bool put_value(cfx__text *to, uint32_t number, const char *name, const cfx_result *r) {
    cfx__text v = {0}, type = {0}, tensor = {0}, shape = {0};
    bool tensors = r->kind == CFX_RESULT_TENSOR, known = r->kind != CFX_RESULT_UNKNOWN;
    const cfx__onnx_type *t = cfx__onnx_type_of(tensors ? r->dtype : CFX_I64);
    if (!t) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, "'%s': ONNX has no tensors of %s", name,
                 cfx_dtype_name(r->dtype));
        return false;
    }
    for (int i = 0; i < (tensors ? r->ndim : 1); i++) {
        cfx__text dim = {0};
        cfx_value size = tensors ? cfx_result_size(r, i) : cfx_int(1);
        if (size.tag == CFX_TAG_INT)
            cfx__wire_put_int(&dim, 1, cfx_integer(size));
        else
            cfx__wire_put_text(&dim, 2, cfx_value_str(size));
        put_message(&shape, 1, &dim);
    }
    cfx__wire_put_int(&tensor, 1, t->number);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    cfx__wire_put_text(&v, 1, name);
    if (known)
        cfx__wire_put_bytes(&v, 2, type.data, type.len);
    cfx__text_release(&type);
    put_message(to, number, &v);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_attr_end(cfx__text *to, cfx__text *a, cfx__onnx_attr_type type) {
    cfx__wire_put_int(a, 20, type);
    put_message(to, 5, a);
}

/* An attribute for an argument of a schema; types of elements are numbers in files. */
static bool put_attr(cfx__text *to, const cfx__schema_arg *arg, cfx_value v) {
    cfx__text a = {0};
    cfx__wire_put_text(&a, 1, arg->name);
    const cfx__onnx_type *type = v.tag == CFX_TAG_STR && (!strcmp(arg->name, "to") ||
                                                          !strcmp(arg->name, "dtype"))
                                     ? cfx__onnx_type_named(cfx_text(v))
                                     : NULL;
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    bool floats = arg->type == CFX__T_FLOAT;
    for (int64_t i = 0; list && i < cfx_len(v); i++)
        if (floats)
            cfx__wire_put_float(&a, 7, (float)cfx_number(cfx_at(v, i)));
        else
            cfx__wire_put_int(&a, 8, cfx_integer(cfx_at(v, i)));
    if (type)
        cfx__wire_put_int(&a, 3, type->number);
    else if (v.tag == CFX_TAG_STR)
        cfx__wire_put_text(&a, 4, cfx_text(v));
    else if (v.tag == CFX_TAG_TENSOR)
        put_tensor(&a, 5, cfx_as_tensor(v), "");
    else if (!list && floats)
        cfx__wire_put_float(&a, 2, (float)cfx_number(v));
    else if (!list)
        cfx__wire_put_int(&a, 3, cfx_integer(v));
    put_attr_end(to, &a, list && floats            ? CFX__ONNX_FLOATS
                         : list                    ? CFX__ONNX_INTS
                         : type                    ? CFX__ONNX_INT
                         : v.tag == CFX_TAG_STR    ? CFX__ONNX_STRING
                         : v.tag == CFX_TAG_TENSOR ? CFX__ONNX_TENSOR
                         : floats                  ? CFX__ONNX_FLOAT
                                                   : CFX__ONNX_INT);
    return cfx_ok();
}

static void put_input(scope *s, cfx__text *to, cfx_value v) {
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; list && i < cfx_len(v); i++)
        put_input(s, to, cfx_at(v, i));
    if (!list)
        cfx__wire_put_text(to, 1, name_of(s, v));
}

/* The results of a node under their names: one, or those that are taken of several. */
static void put_results(scope *s, cfx__text *to, const cfx_node *n, int64_t several) {
    if (!several)
        cfx__wire_put_text(to, 2, define(s, key_of(n, -1), n->name));
    for (int64_t i = 0; i < several; i++)
        cfx__wire_put_text(to, 2, define(s, key_of(n, i),
                                         cfx__text_format("%s_%lld", n->name, (long long)i)));
}

/* How many results a call has beside each other; 0: it is one alone. */
static int64_t count_results(const cfx_node *n) {
    cfx_value count = cfx_node_get_meta(n, "onnx_results");
    return cfx_is_none(count) ? 0 : cfx_integer(count);
}

static bool put_call(scope *s, const cfx_node *n) {
    const cfx__schema *schema = cfx__op_info_of(n->target.op)->schema;
    cfx__text m = {0};
    for (int64_t i = 0; i < cfx_len(n->args); i++)
        put_input(s, &m, cfx_at(n->args, i));
    put_results(s, &m, n, count_results(n));
    cfx__wire_put_text(&m, 3, n->name);
    cfx__wire_put_text(&m, 4, schema->name);
    bool fine = true;
    for (int i = schema->npositional; i < schema->nargs && fine; i++) {
        const cfx_value *v = n->kwargs.tag == CFX_TAG_DICT
                           ? cfx_dict_find(cfx_as_dict(n->kwargs),
                                           cfx_string_value(schema->args[i].name))
                           : NULL;
        if (v && !cfx_is_none(*v))
            fine = put_attr(&m, &schema->args[i], *v);
    }
    cfx__onnx_put_origin(&m, n);
    put_message(&s->out, 1, &m);
    return fine;
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

static bool put_nodes(scope *s, cfx_graph *g);

/* A sub-graph as an attribute: its first inputs are its own, for the others it uses what the graph
 * around it calls them. */
static bool put_graph_attr(scope *s, cfx__text *to, const char *attr, cfx_value reads, int64_t own,
                           cfx_value captured) {
    cfx_value m = cfx_module_attr((cfx_module *)s->module, cfx_as_node(reads)->target.name);
    scope sub = {.names = cfx_dict_new(), .module = cfx_as_module(m), .outer = s, .w = s->w};
    cfx__wire_put_text(&sub.out, 2, attr);
    int64_t i = 0;
    cfx_each_node(sub.module->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        cfx_result r = cfx_node_result(n);
        if (i < own) {
            if (!put_value(&sub.out, 11, define(&sub, n->name, n->name), &r))
                return false;
        } else {
            cfx_dict_set(sub.names, n->name,
                         cfx_string_value(name_of(s, cfx_at(captured, i - own))));
        }
        i++;
    }
    bool fine = put_nodes(&sub, sub.module->graph);
    cfx__text a = {0};
    cfx__wire_put_text(&a, 1, attr);
    put_message(&a, 6, &sub.out);
    put_attr_end(to, &a, CFX__ONNX_GRAPH);
    return fine;
}

static bool put_control(scope *s, const cfx_node *n, const char *higher) {
    const cfx_value *a = cfx_as_list(n->args)->items;
    cfx__text m = {0};
    bool fine, loop = !strcmp(higher, "onnx_loop"), branch = !strcmp(higher, "cond");
    put_input(s, &m, branch ? a[0] : a[1]);
    if (!branch)
        put_input(s, &m, a[2]);
    if (loop)
        put_input(s, &m, a[3]);
    int64_t count = count_results(n);
    put_results(s, &m, n, count ? count : 1);
    cfx__wire_put_text(&m, 3, n->name);
    cfx__wire_put_text(&m, 4, branch ? "If" : loop ? "Loop" : "Scan");
    if (branch) {
        fine = put_graph_attr(s, &m, "then_branch", a[1], 0, a[3]) &&
               put_graph_attr(s, &m, "else_branch", a[2], 0, a[3]);
    } else if (loop) {
        fine = put_graph_attr(s, &m, "body", a[0], 2 + cfx_len(a[3]), a[4]);
    } else {
        static const cfx__schema_arg scanned = {.name = "num_scan_inputs", .type = CFX__T_INT};
        fine = put_graph_attr(s, &m, "body", a[0], cfx_len(a[1]) + cfx_len(a[2]), a[3]) &&
               put_attr(&m, &scanned, cfx_int(cfx_len(a[2])));
    }
    cfx__onnx_put_origin(&m, n);
    put_message(&s->out, 1, &m);
    return fine;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* A result of the graph: a node of its own where a value is an input, or is given twice, or has a
 * name of its own: that of the tensor which it is to replace. */
static bool put_output(scope *s, cfx_value v, const char *named, cfx_dict *given) {
    const char *name = name_of(s, v);
    cfx_node *n = cfx_as_node(v);
    bool copy = named || n->op != CFX_CALL_FUNCTION || !cfx_is_none(cfx_dict_get(given, name));
    if (copy) {
        cfx__text m = {0};
        const char *own = unique(s->w, cfx__text_format("%s_out", named ? named : n->name));
        cfx__wire_put_text(&m, 1, name);
        cfx__wire_put_text(&m, 2, own);
        cfx__wire_put_text(&m, 3, own);
        cfx__wire_put_text(&m, 4, "Identity");
        put_message(&s->out, 1, &m);
        name = own;
    }
    cfx_dict_set(given, name, cfx_bool(true));
    cfx_result r = cfx_node_result(n);
    return put_value(&s->out, 12, name, &r);
}

/* The tensor that result i is to replace; NULL: none. */
static const char *replaced_by(const scope *s, int64_t i) {
    return s->outer ? NULL : s->w->program->outputs[i].target;
}

static bool put_node(scope *s, cfx_node *n) {
    const char *higher = cfx_node_higher_order(n);
    if (n->op == CFX_GET_ATTR) {
        cfx_value v = cfx_module_attr((cfx_module *)s->module, n->target.name);
        return v.tag != CFX_TAG_TENSOR ||
               put_tensor(&s->out, 5, cfx_as_tensor(v), define(s, n->name, n->name));
    }
    if (n->op == CFX_OUTPUT) {
        cfx_dict *given = cfx_dict_new();
        cfx_value results = cfx_at(n->args, 0);
        bool fine = true;
        for (int64_t i = 0; i < cfx_len(results) && fine; i++)
            fine = put_output(s, cfx_at(results, i), replaced_by(s, i), given);
        return fine;
    }
    if (n->op == CFX_PLACEHOLDER)
        return true;
    if (cfx_node_takes_result(n)) {
        const char *key = key_of(cfx_as_node(cfx_at(n->args, 0)), cfx_integer(cfx_at(n->args, 1)));
        cfx_dict_set(s->names, n->name, cfx_dict_get(s->names, key));
        return true;
    }
    return higher ? put_control(s, n, higher) : put_call(s, n);
}

static bool put_nodes(scope *s, cfx_graph *g) {
    cfx_each_node(g, n) {
        size_t mark = cfx_scope_open();
        bool fine = put_node(s, n);
        cfx_scope_close(mark);
        if (!fine || !cfx_ok())
            return false;
    }
    return true;
}

/* ---- tensors of the model -------------------------------------------------------------------- */

/* A tensor that goes to a file as it is. */
typedef struct {
    cfx__text head;  /* its message up to the numbers */
    cfx_tensor *t;   /* in one piece; counted; NULL where all of it is in the head */
    size_t bytes;
} stored;

typedef VEC(stored) stored_list;

static void put_pair(cfx__text *to, const char *key, const char *value) {
    cfx__text m = {0};
    cfx__wire_put_text(&m, 1, key);
    cfx__wire_put_text(&m, 2, value);
    put_message(to, 13, &m);
}

/* Where a tensor is in the file of data: its place, aligned. */
static size_t put_place(cfx__text *to, const char *file, size_t at, size_t bytes) {
    at = (at + ALIGNED - 1) / ALIGNED * ALIGNED;
    put_pair(to, "location", file);
    put_pair(to, "offset", cfx__text_format("%zu", at));
    put_pair(to, "length", cfx__text_format("%zu", bytes));
    cfx__wire_put_int(to, 14, 1);
    return at;
}

/* Whether the program writes to the tensor of an input. */
static bool is_state(const cfx_program *p, const cfx_input_spec *s) {
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].target && s->target && !strcmp(p->outputs[i].target, s->target))
            return true;
    return false;
}

/* Inputs of the program: those of the caller as inputs, tensors as they are stored. A tensor that
 * the program writes to is both: the caller may pass what a run before has made of it. */
static bool put_inputs(scope *s, const cfx_program *p, stored_list *tensors) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *spec = &p->inputs[i];
        cfx_node *n = cfx_graph_find(p->module->graph, spec->name);
        cfx_result r = cfx_node_result(n);
        if (!n || (spec->kind != CFX_IN_USER && !n->num_users))
            continue; /* nothing reads it */
        if (spec->kind == CFX_IN_USER) {
            if (!put_value(&s->out, 11, define(s, n->name, n->name), &r))
                return false;
            continue;
        }
        cfx_tensor *t = cfx_program_tensor(p, spec);
        if (!t) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the program has no tensor '%s'",
                     spec->target);
            return false;
        }
        stored one = {.t = cfx_keep(cfx__tensor_contiguous(t))};
        one.bytes = bytes_of(one.t);
        const char *name = define(s, n->name, spec->target);
        bool fine = put_tensor_head(&one.head, one.t, name) &&
                    (!is_state(p, spec) || put_value(&s->out, 11, name, &r));
        VEC_PUSH(*tensors, one);
        if (!fine)
            return false;
    }
    return cfx_ok();
}

static bool write_text(FILE *f, const cfx__text *t) {
    return !t->len || fwrite(t->data, 1, t->len, f) == t->len;
}

/* Tensors in a file of their own, small ones aside: their messages say where. */
static bool write_beside(FILE *f, const char *file, stored_list *tensors) {
    size_t at = 0;
    bool fine = true;
    static const char zeros[ALIGNED];
    for (size_t i = 0; i < tensors->len && fine; i++) {
        stored *one = &tensors->data[i];
        if (one->bytes < SMALL)
            continue;
        size_t place = put_place(&one->head, file, at, one->bytes);
        fine = fwrite(zeros, 1, place - at, f) == place - at &&
               fwrite(one->t->data, 1, one->bytes, f) == one->bytes;
        at = place + one->bytes;
        cfx_drop(one->t);
        one->t = NULL;
    }
    return fine;
}

/* The length of a tensor's message. */
static size_t length(const stored *one) {
    cfx__text head = {0};
    if (!one->t)
        return one->head.len;
    cfx__wire_put_head(&head, 9, one->bytes);
    size_t n = one->head.len + head.len + one->bytes;
    cfx__text_release(&head);
    return n;
}

/* The length of a field of so many bytes. */
static size_t field_length(uint32_t number, size_t bytes) {
    cfx__text head = {0};
    cfx__wire_put_head(&head, number, bytes);
    size_t n = head.len + bytes;
    cfx__text_release(&head);
    return n;
}

static size_t graph_length(const scope *s, const stored_list *tensors) {
    size_t n = s->out.len;
    for (size_t i = 0; i < tensors->len; i++)
        n += field_length(5, length(&tensors->data[i]));
    return n;
}

static bool write_tensor(FILE *f, const stored *one) {
    cfx__text head = {0};
    cfx__wire_put_head(&head, 5, length(one));
    bool fine = write_text(f, &head) && write_text(f, &one->head);
    head.len = 0;
    if (one->t)
        cfx__wire_put_head(&head, 9, one->bytes);
    fine = fine && write_text(f, &head) &&
           (!one->t || !one->bytes || fwrite(one->t->data, 1, one->bytes, f) == one->bytes);
    cfx__text_release(&head);
    return fine;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool write_model(FILE *f, const scope *s, const stored_list *tensors) {
    cfx__text m = {0}, set = {0};
    cfx__wire_put_int(&m, 1, CFX__ONNX_IR);
    cfx__wire_put_text(&m, 2, "cfx");
    cfx__wire_put_text(&m, 3, CFX_VERSION);
    cfx__wire_put_text(&set, 1, "");
    cfx__wire_put_int(&set, 2, CFX__ONNX_OPSET);
    put_message(&m, 8, &set);
    cfx__wire_put_head(&m, 7, graph_length(s, tensors));
    bool fine = write_text(f, &m) && write_text(f, &s->out);
    for (size_t i = 0; i < tensors->len && fine; i++)
        fine = write_tensor(f, &tensors->data[i]);
    cfx__text_release(&m);
    return fine;
}

/* Into one file, or two where the model would have more than so many bytes. */
static bool write_files(const char *path, const scope *s, stored_list *tensors, size_t most) {
    cfx__file_save model, data;
    const char *beside = cfx__text_format("%s.data", path), *slash = strrchr(beside, '/');
    if (!cfx__file_save_open(&model, path))
        return false;
    if (graph_length(s, tensors) <= most)
        return cfx__file_save_close(&model, write_model(model.file, s, tensors));
    if (!cfx__file_save_open_with(&data, beside, &model)) {
        cfx__file_save_close(&model, false);
        return false;
    }
    bool fine = write_beside(data.file, slash ? slash + 1 : beside, tensors) &&
                write_model(model.file, s, tensors);
    return cfx__file_save_close_pair(&model, &data, fine);
}

bool cfx__onnx_save(const cfx_program *p, const char *path) {
    return cfx__onnx_write(p, path, (size_t)MOST_BYTES);
}

bool cfx__onnx_write(const cfx_program *p, const char *path, size_t most) {
    size_t mark = cfx_scope_open();
    const cfx_program *q = cfx__onnx_exported(p);
    writer w = {q, cfx_dict_new()};
    scope s = {.names = cfx_dict_new(), .module = q->module, .w = &w};
    stored_list tensors = {0};
    bool fine = !cfx_failed(q);
    cfx__wire_put_text(&s.out, 2, "main_graph");
    fine = fine && put_inputs(&s, q, &tensors) && put_nodes(&s, q->module->graph) &&
           write_files(path, &s, &tensors, most);
    if (!fine)
        cfx_error_note("cannot write '%s'", path);
    for (size_t i = 0; i < tensors.len; i++) {
        cfx__text_release(&tensors.data[i].head);
        cfx_drop(tensors.data[i].t);
    }
    VEC_FREE(tensors);
    cfx__text_release(&s.out);
    cfx_scope_close(mark);
    return fine && cfx_ok();
}
