/* Opening programs: which layout an archive has, where its parts are, and its tensors as views into
 * the mapped file.
 *
 * There were four layouts. From 2.8 on all lies in one folder, models/NAME.json and data/ in it;
 * weights are storages of their own since 2.9, one torch.save file before. Until 2.7 there was no
 * folder: serialized_exported_program.json and torch.save files beside it. */
#include <unistd.h>

#include "../tensor/packed.h"
#include "pickle.h"
#include "pt2.h"

typedef struct archive {
    cfx__pt2_reader *r;
    cfx__zip *zip;
    const char *root;   /* of all names in it: "model/"; in the scope */
    const char *name;   /* of the program: "model" */
    cfx_program *program;
    cfx_dict *bases;    /* of the folder being read: see cfx__pack_base */
} archive;

/* ---- parts ----------------------------------------------------------------------------------- */

/* The entry at a path below the root; NULL when there is none. */
static cfx__zip_entry *part(archive *a, const char *fmt, ...) CFX_PRINTF(2, 3);
static cfx__zip_entry *part(archive *a, const char *fmt, ...) {
    cfx__text name = {0};
    cfx__text_puts(&name, a->root);
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vprintf(&name, fmt, ap);
    va_end(ap);
    cfx__zip_entry *e = cfx__zip_find(a->zip, name.data);
    cfx__text_release(&name);
    return e;
}

/* Whether there is any entry below a folder of the root. */
static bool has_folder(const archive *a, const char *folder) {
    size_t len = strlen(a->root), more = strlen(folder);
    for (size_t i = 0; i < a->zip->entries.len; i++) {
        const char *name = a->zip->entries.data[i].name;
        if (!strncmp(name, a->root, len) && !strncmp(name + len, folder, more))
            return true;
    }
    return false;
}

/* The text of a small part without blanks at its end; NULL when there is none; scope. */
static const char *small_text(archive *a, const char *name) {
    cfx__zip_entry *e = part(a, "%s", name);
    cfx__pack_bytes bytes;
    if (!e || e->size > 100 || !cfx__zip_read(a->zip, e, false, &bytes))
        return NULL;
    while (bytes.size && (bytes.data[bytes.size - 1] == '\n' || bytes.data[bytes.size - 1] == ' '))
        bytes.size--;
    return cfx__string_new(bytes.data, bytes.size)->text;
}

static bool read_json(archive *a, cfx__zip_entry *e, cfx__json_tree *tree) {
    cfx__pack_bytes bytes;
    return cfx__zip_read(a->zip, e, true, &bytes) &&
           cfx__json_read(tree, bytes.data, bytes.size,
                          cfx__text_format("%s in '%s'", e->name, a->r->path));
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor of a config: a view on the storage it names. An empty storage stands for a tensor whose
 * numbers were left out. NULL, with an error. */
static cfx_tensor *config_tensor(archive *a, const char *folder, const char *name,
                                 const cfx__json *j) {
    const cfx__json *path = cfx__pt2_want(a->r, j, "path_name", CFX__JSON_TEXT);
    const cfx__json *meta = path ? cfx__pt2_want(a->r, j, "tensor_meta", CFX__JSON_OBJECT) : NULL;
    cfx__pt2_meta m;
    if (!meta || !cfx__pt2_tensor_meta(a->r, meta, &m))
        return NULL;
    if (!m.known) {
        cfx__pt2_bad(a->r, "its sizes are symbolic");
        return NULL;
    }
    cfx__zip_entry *e = part(a, "%s/%s", folder, path->text);
    if (!e) {
        cfx__pt2_bad(a->r, "its data, %s/%.200s, is missing", folder, path->text);
        return NULL;
    }
    int64_t sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS];
    for (int i = 0; i < m.ndim; i++) {
        sizes[i] = cfx_integer(m.sizes[i]);
        strides[i] = cfx_integer(m.strides[i]);
    }
    bool empty = false;
    for (int i = 0; i < m.ndim; i++)
        empty |= sizes[i] == 0;
    if (!e->size)
        return empty ? cfx_tensor_new(m.dtype, m.ndim, sizes, NULL)
                     : cfx_tensor_fake(m.dtype, m.ndim, sizes, strides);
    cfx_tensor *base = cfx__pack_base(a->bases, a->zip, e, m.dtype);
    cfx_tensor *t =
        base ? cfx_tensor_view(base, m.ndim, sizes, strides, cfx_integer(m.offset)) : NULL;
    if (!t || cfx__obj_is_bad(t)) {
        cfx_error_note("tensor '%s' of '%s' has %llu bytes", name, a->r->path,
                       (unsigned long long)e->size);
        return NULL;
    }
    return t;
}

/* What only Python can make of its bytes (objects of classes, tensors of subclasses): they are
 * kept, to be written again. */
static bool keep_pickled(archive *a, const char *folder, const cfx__json *name,
                         const cfx__json *j) {
    const cfx__json *path = cfx__pt2_want(a->r, j, "path_name", CFX__JSON_TEXT);
    cfx__zip_entry *e = path ? part(a, "%s/%s", folder, path->text) : NULL;
    cfx__pack_bytes bytes;
    if (!path)
        return false;
    if (!e)
        return cfx__pt2_bad(a->r, "its data, %s/%.200s, is missing", folder, path->text);
    if (!cfx__zip_read(a->zip, e, false, &bytes))
        return false;
    cfx_dict *extra = a->program->extra;
    cfx_value objects = cfx_dict_get(extra, "objects");
    if (cfx_is_none(objects)) {
        objects = cfx_dict_value(cfx_dict_new());
        cfx_dict_set(extra, "objects", objects);
    }
    const cfx__json *param = cfx__json_get(j, "is_param"), *meta = cfx__json_get(j, "tensor_meta");
    cfx__text described = {0};
    if (meta)
        cfx__json_write(&described, meta);
    cfx_tensor *t = cfx__pack_bytes_tensor(bytes, CFX_U8);
    cfx_value kept = cfx_tuple(t, folder, cfx__json_is(param, CFX__JSON_BOOL) && param->b,
                               described.data ? described.data : "null");
    cfx_dict_put(cfx_as_dict(objects), cfx_string_value_n(name->text, name->len), kept);
    cfx__text_release(&described);
    return true;
}

static bool read_config(archive *a, const char *folder, const cfx__json *config, cfx_dict *into) {
    if (!cfx__json_is(config, CFX__JSON_OBJECT))
        return cfx__pt2_bad(a->r, "the list of tensors in %s is no object", folder);
    bool ok = true;
    cfx__json_pairs(config, k, v) {
        size_t mark = cfx_scope_open();
        a->r->node = cfx__text_format("%s", k->text);
        const cfx__json *pickled = cfx__json_get(v, "use_pickle");
        cfx_value key = cfx_string_value_n(k->text, k->len);
        if (cfx__json_is(pickled, CFX__JSON_BOOL) && pickled->b) {
            ok = keep_pickled(a, folder, k, v);
        } else {
            cfx_tensor *t = config_tensor(a, folder, k->text, v);
            ok = t && !cfx__obj_is_bad(t);
            if (ok)
                cfx_dict_put(into, key, cfx_tensor_value(t));
        }
        cfx_scope_close(mark);
        if (!ok)
            break;
    }
    a->r->node = NULL;
    return ok;
}

/* The tensors of a torch.save file: a dict of names. */
static bool read_saved(archive *a, cfx__zip_entry *e, cfx_dict *into) {
    cfx__pack_bytes bytes;
    if (!cfx__zip_read(a->zip, e, false, &bytes))
        return false;
    cfx_value v = cfx__pickle_load(cfx__text_format("%s in '%s'", e->name, a->r->path), bytes);
    if (cfx_is_none(v) || cfx_is_bad(v))
        return !cfx_is_bad(v);
    if (v.tag != CFX_TAG_DICT)
        return cfx__pt2_bad(a->r, "%s holds no dict of tensors", e->name);
    for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
        cfx_value key = cfx_as_dict(v)->entries[i].key, t = cfx_as_dict(v)->entries[i].value;
        if (key.tag != CFX_TAG_STR || t.tag != CFX_TAG_TENSOR)
            return cfx__pt2_bad(a->r, "%s holds something else than tensors by name", e->name);
        cfx_dict_put(into, key, t);
    }
    return true;
}

/* The tensors of data/weights or data/constants. */
static bool read_tensors(archive *a, const char *folder, const char *kind, cfx_dict *into) {
    cfx__zip_entry *e = part(a, "%s/%s_%s_config.json", folder, a->name, kind);
    cfx__zip_entry *saved = e ? NULL : part(a, "%s/%s.pt", folder, a->name);
    if (saved)
        return read_saved(a, saved, into);
    if (!e)
        return cfx__pt2_bad(a->r, "it has no %s/%s_%s_config.json", folder, a->name, kind);
    cfx__json_tree tree = {0};
    a->bases = cfx_dict_new();
    bool ok = read_json(a, e, &tree) &&
              read_config(a, folder, cfx__json_get(tree.items.data, "config"), into);
    cfx__json_release(&tree);
    return ok;
}

/* ---- archives -------------------------------------------------------------------------------- */

static void keep_bytes(archive *a, cfx_dict *into, const char *key, cfx__zip_entry *e) {
    cfx__pack_bytes bytes;
    if (e && cfx__zip_read(a->zip, e, false, &bytes))
        cfx_dict_set(into, key, cfx_tensor_value(cfx__pack_bytes_tensor(bytes, CFX_U8)));
}

/* Files of the user's, as bytes, from the folder that a layout has for them. */
static void read_files(archive *a, const char *folder) {
    cfx_dict *files = cfx_dict_new();
    size_t len = strlen(a->root), more = strlen(folder);
    for (size_t i = 0; i < a->zip->entries.len; i++) {
        cfx__zip_entry *e = &a->zip->entries.data[i];
        if (!strncmp(e->name, a->root, len) && !strncmp(e->name + len, folder, more))
            keep_bytes(a, files, e->name + len + more, e);
    }
    if (files->len)
        cfx_dict_set(a->program->extra, "files", cfx_dict_value(files));
}

/* The first input that stands for a tensor which the program does not have; NULL: none. */
static const cfx_input_spec *lacking(const cfx_program *p) {
    cfx_value objects = cfx_dict_get(p->extra, "objects");
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        bool tensor = s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_BUFFER ||
                      s->kind == CFX_IN_CONSTANT;
        if (!tensor || cfx_program_tensor(p, s) ||
            (objects.tag == CFX_TAG_DICT &&
             !cfx_is_none(cfx_dict_get(cfx_as_dict(objects), s->target))))
            continue;
        return s;
    }
    return NULL;
}

bool cfx__pt2_check_tensors(const cfx__pt2_reader *r, const cfx_program *p) {
    const cfx_input_spec *s = lacking(p);
    return !s || cfx__pt2_bad(r, "its input '%s' stands for '%s', which the file lacks", s->name,
                              s->target);
}

/* The names of the programs in the archive, a list; scope. */
static cfx_value model_names(const archive *a) {
    cfx_value names = cfx_list_value(0, NULL);
    size_t len = strlen(a->root);
    for (size_t i = 0; i < a->zip->entries.len; i++) {
        const char *name = a->zip->entries.data[i].name;
        size_t n = strlen(name);
        if (n >= len + 7 + 5 && !strncmp(name, a->root, len) &&
            !strncmp(name + len, "models/", 7) && !strcmp(name + n - 5, ".json"))
            cfx_list_append(cfx_as_list(names),
                            cfx_string_value_n(name + len + 7, n - len - 7 - 5));
    }
    return names;
}

/* The program that was asked for: the one called "model", or the only one, where none was. NULL,
 * with an error where there is none of that name or it is not clear which. */
static cfx__zip_entry *find_model(archive *a) {
    const cfx_list *names = cfx_as_list(model_names(a));
    a->name = a->r->name ? a->r->name : "model";
    if (!a->r->name && names->len == 1)
        a->name = cfx_text(names->items[0]);
    cfx__zip_entry *e = part(a, "models/%s.json", a->name);
    if (!e && names->len)
        cfx__pt2_bad(a->r, "it holds no program called %s; those that it holds are %s, and %s:%s "
                           "is one of them",
                     a->name, cfx_value_repr(cfx_list_value(names->len, names->items)), a->r->path,
                     cfx_text(names->items[0]));
    return e;
}

static bool read_model(archive *a, cfx__zip_entry *e) {
    static const char *const path[] = {"graph_module", "graph"};
    static const char *const names[] = {"nodes", "tensor_values"};
    cfx__json_tree tree = {0};
    cfx__pack_bytes bytes;
    cfx__json_part part[2];
    if (!cfx__zip_read(a->zip, e, true, &bytes))
        return false;
    cfx__json_find_parts(bytes.data, bytes.size, path, 2, names, 2, part);
    cfx__pt2_parts parts = {.text = bytes.data,
                            .what = cfx__text_format("%s in '%s'", e->name, a->r->path),
                            .nodes = part[0],
                            .tensors = part[1]};
    parts.file = (cfx__storage){
        .data = bytes.data, .size = bytes.size, .owner = bytes.owner, .release = cfx_drop};
    if (part[0].text > part[1].text) {
        cfx__json_part first = part[1];
        part[1] = part[0], part[0] = first;
    }
    bool ok = cfx__json_read_but(&tree, bytes.data, bytes.size, 2, part, parts.what);
    cfx__file_unload(&parts.file);
    a->r->parts = &parts;
    a->program = ok ? cfx__pt2_program(a->r, tree.items.data) : &cfx__program_bad;
    a->r->parts = NULL;
    cfx__json_release(&tree);
    return !cfx_failed(a->program);
}

static bool read_archive(archive *a) {
    const char *version = small_text(a, "archive_version");
    const char *order = small_text(a, "byteorder");
    if (version && strcmp(version, "0"))
        return cfx__pt2_bad(a->r, "its archive version is %s; 0 is the only one known", version);
    if (order && strcmp(order, "little"))
        return cfx__pt2_bad(a->r, "its numbers are in %s-endian order", order);
    cfx__zip_entry *model = find_model(a);
    if (!model && !cfx_ok())
        return false;
    if (!model && has_folder(a, "data/aotinductor/"))
        return cfx__pt2_bad(a->r, "it is an AOTInductor package: compiled code for one kind of "
                                  "machine, without a graph. Save the program itself with "
                                  "torch.export.save");
    if (!model)
        return cfx__pt2_bad(a->r, "it holds no program (models/model.json)");
    if (!read_model(a, model) ||
        !read_tensors(a, "data/weights", "weights", a->program->state) ||
        !read_tensors(a, "data/constants", "constants", a->program->constants))
        return false;
    keep_bytes(a, a->program->extra, "sample_inputs",
               part(a, "data/sample_inputs/%s.pt", a->name));
    read_files(a, "extra/");
    return cfx__pt2_check_tensors(a->r, a->program);
}

/* Up to 2.7. The first two releases call torch.save files .json, too. */
static bool read_old_archive(archive *a) {
    static const char *const suffixes[] = {"pt", "json"};
    cfx__zip_entry *model = part(a, "serialized_exported_program.json");
    if (!model)
        return cfx__pt2_bad(a->r, "it holds no program (serialized_exported_program.json)");
    if (!read_model(a, model))
        return false;
    for (int i = 0; i < COUNT(suffixes); i++) {
        cfx__zip_entry *state = part(a, "serialized_state_dict.%s", suffixes[i]);
        cfx__zip_entry *constants = part(a, "serialized_constants.%s", suffixes[i]);
        if ((state && !read_saved(a, state, a->program->state)) ||
            (constants && !read_saved(a, constants, a->program->constants)))
            return false;
    }
    keep_bytes(a, a->program->extra, "sample_inputs", part(a, "serialized_example_inputs.pt"));
    read_files(a, "extra_files/");
    return cfx__pt2_check_tensors(a->r, a->program);
}

/* The folder that all entries of a PT2 archive are in: that of "archive_format". NULL when there is
 * none; scope. */
static const char *find_root(const cfx__zip *z, const char *file) {
    size_t len = strlen(file);
    for (size_t i = 0; i < z->entries.len; i++) {
        const char *name = z->entries.data[i].name;
        size_t n = strlen(name);
        if (n > len && !strcmp(name + n - len, file) && strchr(name, '/') == name + n - len)
            return cfx__string_new(name, n - len + 1)->text;
    }
    return NULL;
}

/* Says what an archive is that holds no program. */
static bool refuse(archive *a) {
    const char *root = find_root(a->zip, "/data.pkl");
    if (!root)
        return cfx__pt2_bad(a->r, "it is a zip archive, but none that torch.export.save writes");
    a->root = root;
    bool script = part(a, "constants.pkl") || has_folder(a, "code/");
    return cfx__pt2_bad(a->r, script ? "it is a TorchScript file (torch.jit.save). Save the "
                                       "program with torch.export.save instead"
                                     : "it holds the objects of a torch.save, no program. Save "
                                       "the program with torch.export.save instead");
}

static cfx_program *open_archive(cfx__pt2_reader *r, cfx__pack_bytes bytes) {
    cfx__zip zip;
    archive a = {.r = r, .zip = &zip};
    bool ok = cfx__zip_open(&zip, cfx__text_format("'%s'", r->path), bytes);
    if (ok) {
        a.root = find_root(&zip, "/archive_format");
        if (a.root) {
            ok = read_archive(&a);
        } else {
            a.root = "";
            ok = part(&a, "version") ? read_old_archive(&a) : refuse(&a);
        }
    }
    cfx__zip_close(&zip);
    return ok ? a.program : &cfx__program_bad;
}

static cfx_program *open_named(const char *path, const char *name, cfx__pack_bytes bytes) {
    size_t mark = cfx_scope_open();
    cfx__pt2_reader r = {.path = path, .name = name};
    cfx_program *p = open_archive(&r, bytes);
    cfx__pt2_reader_close(&r);
    return cfx_scope_return(mark, p);
}

cfx_program *cfx__pt2_open(const char *path, cfx__pack_bytes bytes) {
    return open_named(path, NULL, bytes);
}

/* Where a path is no file and ends in ":NAME" behind that of one, the name; else NULL. */
static const char *name_in(const char *path) {
    const char *colon = strrchr(path, ':');
    if (!colon || colon == path || !colon[1] || strchr(colon, '/') || access(path, F_OK) == 0)
        return NULL;
    const char *file = cfx__string_new(path, (size_t)(colon - path))->text;
    return access(file, F_OK) == 0 ? colon + 1 : NULL;
}

cfx_program *cfx__pt2_open_file(const char *path) {
    size_t mark = cfx_scope_open();
    const char *name = name_in(path);
    if (name)
        path = cfx__string_new(path, (size_t)(name - 1 - path))->text;
    cfx__file_mapping *map = cfx__file_map(path);
    cfx_program *p = map ? open_named(path, name, (cfx__pack_bytes){map->data, map->size, map})
                         : &cfx__program_bad;
    cfx_drop(map);
    return cfx_scope_return(mark, p);
}

cfx_value cfx_archive_names(const char *path) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx__file_mapping *map = cfx__file_map(path);
    cfx__zip zip;
    cfx_value names = cfx_bad();
    if (map && cfx__zip_open(&zip, cfx__text_format("'%s'", path),
                             (cfx__pack_bytes){map->data, map->size, map})) {
        cfx__pt2_reader r = {.path = path};
        archive a = {.r = &r, .zip = &zip, .root = find_root(&zip, "/archive_format")};
        names = a.root ? model_names(&a) : cfx_list_value(0, NULL);
        if (!cfx_as_list(names)->len) {
            cfx__pt2_bad(&r, "it holds no programs with names");
            names = cfx_bad();
        }
    }
    if (map)
        cfx__zip_close(&zip);
    cfx_drop(map);
    return cfx_scope_return_value(mark, cfx_ok() ? names : cfx_bad());
}

cfx_value cfx_program_sample_inputs(const cfx_program *p) {
    if (!cfx__program_given((cfx_site){0}, p))
        return cfx_bad();
    cfx_value bytes = cfx_dict_get(p->extra, "sample_inputs");
    if (bytes.tag == CFX_TAG_TUPLE) /* of an export, not of a file */
        return bytes;
    if (bytes.tag != CFX_TAG_TENSOR || !cfx_as_tensor(bytes)->data)
        return cfx_none();
    const cfx_tensor *t = cfx_as_tensor(bytes);
    return cfx__pickle_load("what the file has for sample inputs",
                            (cfx__pack_bytes){t->data, (size_t)t->numel, t->storage});
}
