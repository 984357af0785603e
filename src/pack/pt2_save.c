/* Writing .pt2 archives: the signature and what else stands in model.json beside the graph, the
 * lists of tensors and their storages. Tensors that share a storage share it in the file. */
#include "pickle.h"
#include "pt2.h"

#include <zlib.h>

typedef struct saver {
    const cfx_program *p; /* the one that is written now */
    const char *name;     /* of it in the archive */
    cfx_dict *weights, *constants; /* storages that were written, of all programs, to their files */
    int objects;          /* that were written */
    const char *path;
    const char *root; /* of all names: the file's name without its last suffix, and '/' */
    cfx__zip_writer zip;
} saver;

/* ---- the signature --------------------------------------------------------------------------- */

static void put_string(cfx__text *t, const char *text) {
    cfx__json_string(t, text ? text : "", text ? strlen(text) : 0);
}

/* {"arg": {"name": "p_w"}, "KEY": "w": what an input or result stands for, left open. */
static void put_target(cfx__text *t, const char *tag, const char *name, const char *key,
                       const char *target) {
    cfx__text_printf(t, "{\"%s\": {\"arg\": {\"name\": \"%s\"}", tag, name);
    if (key) {
        cfx__text_printf(t, ", \"%s\": ", key);
        put_string(t, target);
    }
}

/* Names are those of the graph as it is now: passes may have renamed nodes. */
static void put_input_spec(cfx__text *t, const cfx_program *p, const cfx_input_spec *s,
                           cfx_node *n) {
    const cfx__map none = {0}; /* inputs take no result of a call */
    switch (s->kind) {
    case CFX_IN_PARAMETER:
        put_target(t, "parameter", n->name, "parameter_name", s->target);
        break;
    case CFX_IN_BUFFER:
        put_target(t, "buffer", n->name, "buffer_name", s->target);
        cfx__text_printf(t, ", \"persistent\": %s", s->persistent ? "true" : "false");
        break;
    case CFX_IN_CONSTANT:
        put_target(t, "tensor_constant", n->name, "tensor_constant_name", s->target);
        break;
    case CFX_IN_OBJECT: {
        cfx_result r = cfx_node_result(n);
        bool known = r.kind == CFX_RESULT_OBJECT;
        const char *fqn = known ? cfx_text(cfx_dict_get(cfx_as_dict(r.value), "class_fqn")) : NULL;
        cfx__text_printf(t, "{\"custom_obj\": {\"arg\": {\"name\": \"%s\", \"class_fqn\": ",
                         n->name);
        put_string(t, fqn);
        cfx__text_puts(t, "}, \"custom_obj_name\": ");
        put_string(t, s->target);
        break;
    }
    case CFX_IN_TOKEN: put_target(t, "token", n->name, NULL, NULL); break;
    case CFX_IN_USER:
        if (s->constant) {
            cfx__text_printf(t, "{\"constant_input\": {\"name\": \"%s\", \"value\": ", n->name);
            cfx__pt2_write_reference(t, p, &none, s->value);
        } else {
            cfx__text_puts(t, "{\"user_input\": {\"arg\": ");
            cfx__pt2_write_reference(t, p, &none, cfx_node_value(n));
        }
        break;
    }
    cfx__text_puts(t, "}}");
}

static void put_output_spec(cfx__text *t, const cfx_program *p, const cfx__map *twins,
                            const cfx_output_spec *s, cfx_value v) {
    static const struct {
        const char *tag, *key;
    } kinds[] = {
        [CFX_OUT_LOSS] = {"loss_output", NULL},
        [CFX_OUT_BUFFER_MUTATION] = {"buffer_mutation", "buffer_name"},
        [CFX_OUT_PARAMETER_MUTATION] = {"parameter_mutation", "parameter_name"},
        [CFX_OUT_INPUT_MUTATION] = {"user_input_mutation", "user_input_name"},
        [CFX_OUT_PARAMETER_GRADIENT] = {"gradient_to_parameter", "parameter_name"},
        [CFX_OUT_INPUT_GRADIENT] = {"gradient_to_user_input", "user_input_name"},
        [CFX_OUT_TOKEN] = {"token", NULL},
    };
    if (s->kind == CFX_OUT_USER || v.tag != CFX_TAG_NODE) {
        cfx__text_puts(t, "{\"user_output\": {\"arg\": ");
        cfx__pt2_write_reference(t, p, twins, v);
    } else {
        put_target(t, kinds[s->kind].tag, cfx_as_node(v)->name, kinds[s->kind].key, s->target);
    }
    cfx__text_puts(t, "}}");
}

static bool put_signature(const cfx_program *p, const char *path, cfx__text *t) {
    cfx_node *output = cfx_graph_output_node(p->module->graph);
    cfx_value made = output ? cfx_as_list(output->args)->items[0] : cfx_none();
    bool tuple = made.tag == CFX_TAG_TUPLE || made.tag == CFX_TAG_LIST;
    int64_t count = tuple ? cfx_as_list(made)->len : 1, i = 0;
    cfx__text_puts(t, "{\"input_specs\": [");
    cfx_each_node(p->module->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        if (i)
            cfx__text_puts(t, ", ");
        if (i < p->ninputs)
            put_input_spec(t, p, &p->inputs[i], n);
        i++;
    }
    if (i != p->ninputs || count != p->noutputs) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "cannot write '%s': the graph has %lld inputs and %lld results, the signature %d "
                 "and %d",
                 path, (long long)i, (long long)count, p->ninputs, p->noutputs);
        return false;
    }
    cfx__text_puts(t, "], \"output_specs\": [");
    cfx__map twins = {0};
    cfx__pt2_find_twins(p->module->graph, &twins);
    for (i = 0; i < count; i++) {
        if (i)
            cfx__text_puts(t, ", ");
        put_output_spec(t, p, &twins, &p->outputs[i], tuple ? cfx_as_list(made)->items[i] : made);
    }
    cfx__map_release(&twins);
    cfx__text_puts(t, "]}");
    return true;
}

/* ---- model.json ------------------------------------------------------------------------------ */

/* What was kept of the file it came from, or else a default. */
static void put_kept(cfx__text *t, const cfx_program *p, const char *key, const char *fallback) {
    const char *kept = cfx_text(cfx_dict_get(p->extra, key));
    cfx__text_printf(t, ", \"%s\": %s", key, kept ? kept : fallback);
}

static void put_bound(cfx__text *t, const char *key, cfx_value v) {
    if (v.tag == CFX_TAG_INT)
        cfx__text_printf(t, "\"%s\": %lld", key, (long long)cfx_integer(v));
    else
        cfx__text_printf(t, "\"%s\": null", key);
}

static void put_ranges(cfx__text *t, const cfx_dict *ranges) {
    cfx__text_puts(t, ", \"range_constraints\": {");
    for (int64_t i = 0; i < ranges->len; i++) {
        cfx_value range = ranges->entries[i].value;
        bool pair = range.tag == CFX_TAG_TUPLE && cfx_as_list(range)->len == 2;
        if (i)
            cfx__text_puts(t, ", ");
        put_string(t, cfx_value_str(ranges->entries[i].key));
        cfx__text_puts(t, ": {");
        put_bound(t, "min_val", pair ? cfx_as_list(range)->items[0] : cfx_none());
        cfx__text_puts(t, ", ");
        put_bound(t, "max_val", pair ? cfx_as_list(range)->items[1] : cfx_none());
        cfx__text_putc(t, '}');
    }
    cfx__text_putc(t, '}');
}

/* A list of strings of `extra`; one string is a list of one. */
static void put_strings(cfx__text *t, const cfx_program *p, const char *from, const char *key,
                        const char *fallback) {
    cfx_value v = cfx_dict_get(p->extra, from);
    if (v.tag == CFX_TAG_STR)
        v = cfx_list_value(1, &v);
    cfx__text_printf(t, ", \"%s\": ", key);
    if (v.tag != CFX_TAG_LIST || !cfx_as_list(v)->len || !cfx__json_value(t, v))
        cfx__text_puts(t, fallback);
}

/* The schema whose fields are written here, and the release that has it. */
#define SCHEMA "{\"major\": 8, \"minor\": 17}"
#define RELEASE "2.11.0"

bool cfx__pt2_write_model(const cfx_program *p, const char *path, cfx__zip_writer *zip,
                          cfx__text *t) {
    cfx__text_puts(t, "{\"graph_module\": {\"graph\": ");
    if (!cfx__pt2_write_graph(p, path, zip, t))
        return false;
    cfx__text_puts(t, ", \"signature\": ");
    if (!put_signature(p, path, t))
        return false;
    cfx__text_puts(t, ", \"module_call_graph\": ");
    cfx__pt2_put_calls(t, p);
    put_kept(t, p, "metadata", "{}");
    put_kept(t, p, "treespec_namedtuple_fields", "{}");
    cfx__text_putc(t, '}');
    put_kept(t, p, "opset_version", "{\"aten\": 10}");
    put_ranges(t, p->ranges);
    cfx__text_puts(t, ", \"schema_version\": " SCHEMA);
    put_strings(t, p, "verifiers", "verifiers", "[\"TRAINING\"]");
    const char *release = cfx_text(cfx_dict_get(p->extra, "torch_version"));
    cfx__text_puts(t, ", \"torch_version\": ");
    put_string(t, release ? release : RELEASE);
    put_strings(t, p, "guards", "guards_code", "[]");
    cfx__text_putc(t, '}');
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void add(saver *s, const char *name, const void *data, size_t size) {
    size_t mark = cfx_scope_open();
    cfx__zip_add(&s->zip, cfx__text_format("%s%s", s->root, name), data, size);
    cfx_scope_close(mark);
}

/* The input that stands for a tensor of the state or the constants, by name; NULL: none. */
static const cfx_input_spec *input_of(const cfx__map *inputs, const char *name) {
    return cfx__map_get(inputs, name);
}

static cfx_node *placeholder_of(const cfx_program *p, const cfx_input_spec *spec) {
    return spec ? cfx_graph_find(p->module->graph, spec->name) : NULL;
}

/* One entry of a list of tensors. What the graph says of the input holds for its tensor too:
 * whether it wants a gradient, and the device it was on. */
static void put_entry(cfx__text *t, const saver *s, const cfx_input_spec *spec, const char *name,
                      const char *file, const cfx_tensor *v) {
    bool param = spec && spec->kind == CFX_IN_PARAMETER;
    cfx_result own = cfx_result_of(cfx_tensor_value((cfx_tensor *)v));
    cfx_result noted = cfx_node_result(placeholder_of(s->p, spec));
    bool known = noted.kind == CFX_RESULT_TENSOR;
    own.requires_grad =
        known ? noted.requires_grad
              : param && (cfx__dtype_is_floating(own.dtype) || cfx__dtype_is_complex(own.dtype));
    own.device = known ? noted.device : (cfx_device){CFX_CPU, -1};
    put_string(t, name);
    cfx__text_printf(t, ": {\"path_name\": \"%s\", \"is_param\": %s, \"use_pickle\": false, "
                        "\"tensor_meta\": ", file, param ? "true" : "false");
    cfx__pt2_put_tensor(t, &own);
    cfx__text_putc(t, '}');
}

/* Writes the storage of a tensor unless it was written; the name it has in the folder; scope. */
static const char *put_storage(saver *s, cfx_dict *written, const char *folder, const char *stem,
                               const cfx_tensor *v) {
    const cfx__storage *st = v->storage;
    bool empty = !v->data || !st || !v->numel;
    const char *key = cfx__text_format("%p %d", empty ? NULL : st->data, (int)v->dtype);
    cfx_value known = cfx_dict_get(written, key);
    if (!cfx_is_none(known))
        return cfx_text(known);
    const char *file = cfx__text_format("%s_%lld", stem, (long long)written->len);
    cfx_dict_set(written, key, cfx_string_value(file));
    add(s, cfx__text_format("%s/%s", folder, file), empty ? "" : st->data, empty ? 0 : st->size);
    return file;
}

/* Objects that only Python can make, as they came. */
static void put_objects(saver *s, cfx__text *t, const char *folder) {
    cfx_value objects = cfx_dict_get(s->p->extra, "objects");
    for (int64_t i = 0; objects.tag == CFX_TAG_DICT && i < cfx_as_dict(objects)->len; i++) {
        cfx_value o = cfx_as_dict(objects)->entries[i].value;
        if (o.tag != CFX_TAG_TUPLE || cfx_as_list(o)->len != 4 ||
            !cfx_text(cfx_as_list(o)->items[1]) ||
            strcmp(cfx_text(cfx_as_list(o)->items[1]), folder) ||
            cfx_as_list(o)->items[0].tag != CFX_TAG_TENSOR)
            continue;
        const cfx_tensor *bytes = cfx_as_tensor(cfx_as_list(o)->items[0]);
        if (t->data[t->len - 1] != '{')
            cfx__text_puts(t, ", ");
        put_string(t, cfx_value_str(cfx_as_dict(objects)->entries[i].key));
        cfx__text_printf(t,
                         ": {\"path_name\": \"custom_obj_%d\", \"is_param\": %s, "
                         "\"use_pickle\": true, \"tensor_meta\": %s}",
                         s->objects, cfx_integer(cfx_as_list(o)->items[2]) ? "true" : "false",
                         cfx_text(cfx_as_list(o)->items[3]));
        add(s, cfx__text_format("%s/custom_obj_%d", folder, s->objects++), bytes->data,
            (size_t)bytes->numel);
    }
}

static bool put_tensors(saver *s, const cfx__map *inputs, const char *folder, const char *stem,
                        cfx_dict *written, const cfx_dict *tensors) {
    const char *what = strrchr(folder, '/') + 1;
    cfx__text t = {0};
    bool ok = true;
    cfx__text_puts(&t, "{\"config\": {");
    for (int64_t i = 0; ok && i < tensors->len; i++) {
        size_t mark = cfx_scope_open();
        const char *name = cfx_text(tensors->entries[i].key);
        cfx_value v = tensors->entries[i].value;
        ok = name && v.tag == CFX_TAG_TENSOR;
        if (ok) {
            const char *file = put_storage(s, written, folder, stem, cfx_as_tensor(v));
            if (i)
                cfx__text_puts(&t, ", ");
            put_entry(&t, s, input_of(inputs, name), name, file, cfx_as_tensor(v));
        } else {
            cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "cannot write '%s': '%s' is no tensor", s->path,
                     name ? name : "?");
        }
        cfx_scope_close(mark);
    }
    put_objects(s, &t, folder);
    cfx__text_puts(&t, "}}");
    add(s, cfx__text_format("%s/%s_%s_config.json", folder, s->name, what), t.data, t.len);
    cfx__text_release(&t);
    return ok;
}

/* ---- the archive ----------------------------------------------------------------------------- */

static void put_bytes(saver *s, const char *name, cfx_value v) {
    bool has =
        v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->data && cfx_as_tensor(v)->dtype == CFX_U8;
    add(s, name, has ? cfx_as_tensor(v)->data : "", has ? (size_t)cfx_as_tensor(v)->numel : 0);
}

/* Two numbers of twenty digits, as PyTorch has them: of the names and of the content. */
static void put_id(saver *s) {
    char id[41];
    uint64_t names = cfx__text_hash(s->zip.directory.data, s->zip.directory.len);
    uint64_t content = crc32(0, (const Bytef *)s->zip.directory.data,
                             (uInt)(s->zip.directory.len & UINT32_MAX));
    snprintf(id, sizeof id, "%020llu%020llu", (unsigned long long)names,
             (unsigned long long)content);
    add(s, ".data/serialization_id", id, 40);
}

/* The example of an export, or the bytes of a file's. What torch.save cannot hold is left out. */
static cfx_value sample_bytes(const cfx_program *p) {
    cfx_value sample = cfx_dict_get(p->extra, "sample_inputs");
    if (sample.tag != CFX_TAG_TUPLE)
        return sample;
    sample = cfx__torch_bytes(sample);
    if (!cfx_ok() && cfx_error_last()->kind == CFX_TYPE_ERROR)
        cfx__error_forgive();
    return sample;
}

static bool put_model(saver *s) {
    cfx__text t = {0};
    cfx__zip_begin(&s->zip, cfx__text_format("%smodels/%s.json", s->root, s->name));
    bool ok = cfx__pt2_write_model(s->p, s->path, &s->zip, &t) && cfx_ok();
    cfx__zip_piece(&s->zip, t.data, t.len);
    if (ok)
        cfx__zip_end(&s->zip);
    cfx__text_release(&t);
    return ok;
}

static bool put_program(saver *s) {
    const cfx_program *p = s->p;
    cfx__map inputs = {0};
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target)
            cfx__map_set(&inputs, p->inputs[i].target, &p->inputs[i]);
    bool ok =
        put_tensors(s, &inputs, "data/weights", "weight", s->weights, p->state) &&
        put_tensors(s, &inputs, "data/constants", "tensor", s->constants, p->constants);
    cfx__map_release(&inputs);
    put_bytes(s, cfx__text_format("data/sample_inputs/%s.pt", s->name), sample_bytes(p));
    return ok;
}

/* Files that came with programs: of those that have one name the first. */
static void put_files(saver *s, int n, const cfx__pt2_entry *programs) {
    cfx_dict *all = cfx_dict_new();
    for (int k = 0; k < n; k++) {
        cfx_value files = cfx_dict_get(programs[k].program->extra, "files");
        for (int64_t i = 0; files.tag == CFX_TAG_DICT && i < cfx_as_dict(files)->len; i++)
            if (!cfx_dict_find(all, cfx_as_dict(files)->entries[i].key))
                cfx_dict_put(all, cfx_as_dict(files)->entries[i].key,
                             cfx_as_dict(files)->entries[i].value);
    }
    for (int64_t i = 0; i < all->len; i++)
        put_bytes(s, cfx__text_format("extra/%s", cfx_value_str(all->entries[i].key)),
                  all->entries[i].value);
}

/* Models come first: what a file has no form for is found before anything went into a pipe. */
static bool put_archive(saver *s, int n, const cfx__pt2_entry *programs) {
    for (int i = 0; i < 2 * n; i++) {
        s->p = programs[i % n].program;
        s->name = programs[i % n].name;
        if (!(i < n ? put_model(s) : put_program(s)))
            return false;
    }
    put_files(s, n, programs);
    add(s, "archive_format", "pt2", 3);
    add(s, "archive_version", "0", 1);
    add(s, ".data/version", "6\n", 2);
    add(s, "byteorder", "little", 6);
    put_id(s);
    return cfx__zip_finish(&s->zip);
}

/* "dir/net.v2.pt2" to "net.v2/". */
static const char *root_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return len ? cfx__text_format("%.*s/", (int)len, name) : "archive/";
}

bool cfx__pt2_save_all(const char *path, int n, const cfx__pt2_entry *programs) {
    size_t mark = cfx_scope_open();
    saver s = {.path = path, .root = root_of(path), .weights = cfx_dict_new(),
               .constants = cfx_dict_new()};
    cfx__file_save file;
    bool ok = cfx__file_save_open(&file, path);
    if (ok) {
        s.zip.file = file.file;
        s.zip.seekable = file.temp;
        ok = put_archive(&s, n, programs) && cfx_ok();
        cfx__zip_release(&s.zip);
        ok = cfx__file_save_close(&file, ok || s.zip.failed);
    }
    cfx_scope_close(mark);
    return ok;
}

bool cfx__pt2_save(const cfx_program *p, const char *path) {
    return cfx__pt2_save_all(path, 1, &(cfx__pt2_entry){"model", p});
}
