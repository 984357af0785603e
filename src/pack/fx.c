/* Programs as text: NAME.fx holds the graph and the signature (cfx_program_fx), the tensors are in
 * NAME.safetensors beside it, and in the metadata of that file what nobody edits: which tensors are
 * one ("ties"), how those lie that are not contiguous ("strides"), the metadata of nodes by name
 * ("nodes"), and what a .pt2 file said beside the program ("extra").
 *
 * Not kept are: sample inputs and other bytes, and where values start in their storage.
 *
 * A text that somebody wrote needs no signature. Tensors are then found by name: self.fc.weight in
 * the graph is the tensor "fc.weight" and becomes an input of its own, and a placeholder
 * p_fc_weight, b_... or c_... is the parameter, buffer or constant whose name reads so with '_' for
 * '.'. All other placeholders are the caller's. The same goes for what is new in a text that was
 * saved and then edited. */
#include <cfx/ops.h>

#include "../emit/emit.h"
#include "pt2.h"

#include <unistd.h>

/* The file with the tensors: "net.fx" to "net.safetensors", "net" too; scope. */
static const char *beside(const char *path) {
    const char *name = strrchr(path, '/'), *dot = strrchr(path, '.');
    const bool ends = dot && dot > (name ? name + 1 : path);
    return cfx__text_format("%.*s.safetensors", (int)(ends ? dot - path : (ptrdiff_t)strlen(path)),
                            path);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* All tensors by name; those that are another one are in `ties` instead. */
static cfx_dict *collect(const cfx_program *p, cfx_dict *ties) {
    cfx_dict *all = cfx_dict_new(), *seen = cfx_dict_new();
    const cfx_dict *from[] = {p->state, p->constants};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < from[k]->len; i++) {
            cfx_value key = from[k]->entries[i].key, v = from[k]->entries[i].value;
            if (v.tag != CFX_TAG_TENSOR)
                continue;
            const cfx_tensor *t = cfx_as_tensor(v);
            const char *what = cfx__text_format("%p %d %s %s", (void *)t->data, t->dtype,
                                                cfx__shape_text(t->ndim, t->shape),
                                                cfx__shape_text(t->ndim, t->stride));
            cfx_value first = cfx_dict_get(seen, what);
            if (!cfx_is_none(first) && t->numel) {
                cfx_dict_put(ties, key, first);
            } else {
                cfx_dict_set(seen, what, key);
                cfx_dict_put(all, key, v);
            }
        }
    return all;
}

/* The elements of memory from the first of t's to the last, with other strides; 0: they are none,
 * or reach further than tensors of programs do. */
static int64_t reach(const cfx_tensor *t, const int64_t *stride) {
    enum { LOOSEST = 64 };
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) {
        int64_t more;
        if (stride[i] < 0 || __builtin_mul_overflow(t->shape[i] - 1, stride[i], &more) ||
            __builtin_add_overflow(n, more, &n))
            return 0;
    }
    return n / LOOSEST > t->numel ? 0 : n;
}

/* How tensors lie that are not contiguous: the file has their elements in order. */
static cfx_dict *strides_of(const cfx_dict *tensors) {
    cfx_dict *out = cfx_dict_new();
    for (int64_t i = 0; i < tensors->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(tensors->entries[i].value);
        if (t->numel && !cfx__tensor_is_contiguous(t) && !cfx__tensor_overlaps_itself(t) &&
            reach(t, t->stride))
            cfx_dict_put(out, tensors->entries[i].key, cfx_ints_value(t->ndim, t->stride));
    }
    return out;
}

static bool put_json(cfx_dict *metadata, const char *key, const cfx_dict *d) {
    cfx__text t = {0};
    bool ok = cfx__json_value(&t, cfx_dict_value((cfx_dict *)d));
    if (ok)
        cfx_dict_set(metadata, key, cfx_string_value_n(t.data, t.len));
    cfx__text_release(&t);
    return ok;
}

/* The names that a file gave to the arguments of an operator that the registry lacks: "a,b". */
static void put_arg_names(cfx__text *t, cfx_value names) {
    if (names.tag != CFX_TAG_TUPLE)
        return;
    cfx__text joined = {0};
    for (int64_t i = 0; i < cfx_as_list(names)->len; i++)
        cfx__text_printf(&joined, "%s%s", i ? "," : "",
                         cfx_value_str(cfx_as_list(names)->items[i]));
    t->len--; /* the bracket that closes the metadata */
    cfx__json_comma(t);
    cfx__text_puts(t, "\"arg_names\": ");
    cfx__json_string(t, joined.data ? joined.data : "", joined.len);
    cfx__text_putc(t, '}');
    cfx__text_release(&joined);
}

/* Metadata of all nodes by name, those of graphs in the graph as "true_graph_0.relu". */
static void put_nodes(cfx__text *t, const cfx_module *m, const char *prefix) {
    cfx_each_node(m->graph, n) {
        if (!n->meta)
            continue;
        size_t mark = cfx_scope_open();
        const char *name = cfx__text_format("%s%s", prefix, n->name);
        cfx__json_comma(t);
        cfx__json_string(t, name, strlen(name));
        cfx__text_puts(t, ": ");
        cfx__pt2_put_metadata(t, n);
        put_arg_names(t, cfx_node_get_meta(n, "arg_names"));
        cfx_scope_close(mark);
    }
    for (int i = 0; i < cfx_module_count(m); i++)
        if (cfx_module_child(m, i)->graph)
            put_nodes(t, cfx_module_child(m, i),
                      cfx__text_format("%s%s.", prefix, cfx_module_child_name(m, i)));
}

static void put_metadata(cfx_dict *metadata, const cfx_module *m) {
    cfx__text t = {0};
    cfx__text_putc(&t, '{');
    put_nodes(&t, m, "");
    cfx__text_putc(&t, '}');
    cfx_dict_set(metadata, "nodes", cfx_string_value_n(t.data, t.len));
    cfx__text_release(&t);
}

/* Both files are replaced, or neither is. */
static bool save_pair(const char *path, const char *text, const cfx_dict *tensors,
                      const cfx_dict *metadata) {
    cfx__file_save first, second;
    if (!cfx__file_save_open(&first, path))
        return false;
    fputs(text, first.file);
    if (cfx__safetensors_put(&second, beside(path), &first, tensors, metadata))
        return cfx__file_save_close_pair(&first, &second, true);
    cfx__file_save_close(&first, false);
    return false;
}

/* What a .pt2 file said beside the program that is text: bytes are not kept. */
static const char *const extras[] = {
    "metadata",       "treespec_namedtuple_fields", "opset_version",
    "schema_version", "verifiers",                  "torch_version", "guards",
    "probed",
};

static bool put_extra(cfx_dict *metadata, const cfx_program *p) {
    cfx_dict *kept = cfx_dict_new();
    for (int i = 0; i < COUNT(extras); i++) {
        cfx_value v = cfx_dict_get(p->extra, extras[i]);
        if (!cfx_is_none(v))
            cfx_dict_set(kept, extras[i], v);
    }
    if (p->ncalls) {
        cfx__text calls = {0};
        cfx__pt2_put_calls(&calls, p);
        cfx_dict_set(kept, "module_call_graph", cfx_string_value_n(calls.data, calls.len));
        cfx__text_release(&calls);
    }
    return put_json(metadata, "extra", kept);
}

static void find_reader(const char *path, cfx_module *m, void *user) {
    const cfx_node **found = user;
    (void)path;
    for (const cfx_node *n = m->graph ? cfx_graph_first(m->graph) : NULL; n && !*found;
         n = cfx_node_after(n))
        if (n->target.op && n->target.op->effects & CFX_STORAGE)
            *found = n;
}

/* Tensors are written with their strides, but without the memory around them: false, with an error,
 * where a node may look at that. */
static bool keeps_what_is_read(const cfx_program *p, const cfx_dict *tensors) {
    const cfx_node *reader = NULL;
    cfx_module_walk(p->module, find_reader, &reader);
    for (int64_t i = 0; reader && i < tensors->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(tensors->entries[i].value);
        const size_t own = (size_t)(t->numel * cfx_dtype_size((cfx_dtype)t->dtype));
        if (!t->data || !t->storage || t->storage->size <= own)
            continue;
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%s lies in more memory than its own, which the format does not keep, and node %s "
                 "(%s) may read it by strides: save the program as .pt2",
                 cfx_text(tensors->entries[i].key), reader->name, reader->target.name);
        return false;
    }
    return true;
}

bool cfx__fx_save(const cfx_program *p, const char *path) {
    size_t mark = cfx_scope_open();
    cfx_dict *ties = cfx_dict_new(), *metadata = cfx_dict_new();
    cfx_dict *tensors = collect(p, ties);
    put_metadata(metadata, p->module);
    bool ok = keeps_what_is_read(p, tensors) && put_extra(metadata, p) &&
              put_json(metadata, "ties", ties) &&
              put_json(metadata, "strides", strides_of(tensors)) &&
              save_pair(path, cfx_program_fx(p), tensors, metadata);
    cfx_scope_close(mark);
    return ok;
}

/* ---- tensors by name ------------------------------------------------------------------------- */

/* "fc.weight" to "fc_weight", in place. */
static void mangle(char *name) {
    for (; *name; name++)
        *name = *name == '.' ? '_' : *name;
}

/* What placeholders are called after: mangled names to the tensors' own. */
static void map_names(const cfx_dict *tensors, cfx__map *names, cfx__arena *arena) {
    for (int64_t i = 0; i < tensors->len; i++) {
        const char *own = cfx_text(tensors->entries[i].key);
        char *name = cfx__arena_copy(arena, own, strlen(own));
        mangle(name);
        cfx__map_set(names, name, (void *)(uintptr_t)own);
    }
}

/* The placeholders of the tensors that the signature names. */
static cfx_dict *placeholders(const cfx_program *p) {
    cfx_dict *known = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target)
            cfx_dict_set(known, p->inputs[i].target,
                         cfx_node_value(cfx_graph_find(p->module->graph, p->inputs[i].name)));
    return known;
}

/* Tensors that the graph reads as attributes become placeholders before all others. */
static bool lift(const cfx_program *p, const cfx_dict *tensors) {
    cfx_graph *g = p->module->graph;
    cfx_node *first = cfx_graph_first(g);
    cfx_dict *made = placeholders(p);
    cfx_each_node(g, n) {
        if (n->op != CFX_GET_ATTR || cfx_dict_get(tensors, n->target.name).tag != CFX_TAG_TENSOR)
            continue;
        cfx_value known = cfx_dict_get(made, n->target.name);
        cfx_node *input = known.tag == CFX_TAG_NODE ? cfx_as_node(known) : NULL;
        if (cfx_is_none(known)) {
            cfx__text name = {0};
            cfx__text_printf(&name, "p_%s", n->target.name);
            mangle(name.data);
            CFX_INSERT_BEFORE(g, first)
                input = cfx_graph_placeholder(g, name.data, NULL, false, cfx_none());
            cfx__text_release(&name);
            cfx_dict_set(made, n->target.name, cfx_node_value(input));
        }
        cfx_node_replace(n, input);
        if (!cfx_graph_erase(n))
            return false;
    }
    return true;
}

/* Adds the inputs that the text does not list and that are called after a tensor. */
static void add_inputs(cfx_program *p, const cfx_dict *tensors) {
    static const char prefixes[] = "pbc";
    cfx__map names = {0};
    cfx__arena arena = {0};
    cfx_dict *listed = cfx_dict_new();
    map_names(tensors, &names, &arena);
    for (int i = 0; i < p->ninputs; i++)
        cfx_dict_set(listed, p->inputs[i].name, cfx_none());
    cfx_each_node(p->module->graph, n) {
        cfx_input_spec spec = {.name = n->name, .persistent = true};
        const char *k = n->name[0] && n->name[1] == '_' ? strchr(prefixes, n->name[0]) : NULL;
        if (n->op != CFX_PLACEHOLDER || !k || cfx_dict_find(listed, cfx_string_value(n->name)))
            continue;
        spec.kind = (cfx_input_kind)(CFX_IN_PARAMETER + (k - prefixes));
        spec.target = cfx__map_get(&names, n->name + 2);
        if (!spec.target)
            continue;
        cfx_program_add_input(p, spec);
        cfx__result_set_grad(n, cfx__input_learns(spec.kind, cfx_node_result(n).dtype));
    }
    cfx__map_release(&names);
    cfx__arena_release(&arena);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct source {
    cfx__pt2_reader r;
    cfx_dict *tensors, *metadata;
    bool alone; /* there is no file of tensors */
    cfx__json_tree nodes;
} source;

static cfx_value metadata_value(const source *s, const char *key) {
    cfx_value text = cfx_dict_get(s->metadata, key);
    return text.tag == CFX_TAG_STR
               ? cfx__json_parse(cfx_as_string(text)->text, cfx_as_string(text)->len, NULL)
               : cfx_none();
}

/* The node that "true_graph_0.relu" names; NULL where there is none any more. */
static cfx_node *node_at(const cfx_module *m, const char *path) {
    const char *dot;
    for (; m && m->graph && (dot = strchr(path, '.')); path = dot + 1)
        m = cfx_module_find(m, cfx__string_new(path, (size_t)(dot - path))->text);
    return m && m->graph ? cfx_graph_find(m->graph, path) : NULL;
}

static void read_nodes(source *s, const cfx_module *m) {
    cfx_value text = cfx_dict_get(s->metadata, "nodes");
    cfx__json_tree *tree = &s->nodes; /* shared values are kept under its texts */
    if (text.tag != CFX_TAG_STR ||
        !cfx__json_read(tree, cfx_as_string(text)->text, cfx_as_string(text)->len, NULL) ||
        tree->items.data->kind != CFX__JSON_OBJECT)
        return;
    cfx__json_pairs(tree->items.data, k, v) {
        size_t mark = cfx_scope_open();
        cfx_node *n = node_at(m, k->text);
        const cfx__json *names = cfx__json_get(v, "arg_names");
        if (n)
            cfx__pt2_node_meta(&s->r, n, v);
        if (n && cfx__json_is(names, CFX__JSON_TEXT))
            cfx_node_set_meta(n, "arg_names",
                              cfx__pt2_split_text(names->text, names->text + names->len, ','));
        cfx_scope_close(mark);
    }
}

/* A tensor with these strides; itself where they are none of its own. */
static cfx_tensor *laid_out(cfx_tensor *t, const cfx_list *strides) {
    int64_t stride[CFX_MAX_DIMS];
    if (strides->len != t->ndim || !t->numel)
        return t;
    for (int i = 0; i < t->ndim; i++)
        stride[i] = strides->items[i].tag == CFX_TAG_INT ? cfx_as_int(strides->items[i]) : -1;
    const int64_t n = reach(t, stride);
    if (!n)
        return t;
    cfx_tensor *all = cfx_zeros(cfx_list(n), CFX_KW(dtype, cfx_dtype_value((cfx_dtype)t->dtype)));
    cfx_tensor *to = cfx_as_strided(all, cfx_ints_value(t->ndim, t->shape),
                                    cfx_ints_value(t->ndim, stride), 0);
    if (cfx_ok() && cfx__tensor_overlaps_itself(to))
        return t;
    cfx_copy_(to, t);
    return to;
}

static void read_strides(source *s) {
    cfx_value strides = s->metadata ? metadata_value(s, "strides") : cfx_none();
    for (int64_t i = 0; strides.tag == CFX_TAG_DICT && i < cfx_as_dict(strides)->len; i++) {
        const cfx_value key = cfx_as_dict(strides)->entries[i].key,
                        v = cfx_as_dict(strides)->entries[i].value,
                        t = cfx_dict_get(s->tensors, cfx_text(key));
        if (t.tag == CFX_TAG_TENSOR && v.tag == CFX_TAG_LIST)
            cfx_dict_put(s->tensors, key,
                         cfx_tensor_value(laid_out(cfx_as_tensor(t), cfx_as_list(v))));
    }
}

static bool read_tensors(source *s, const char *path) {
    char *file = cfx__file_pending(path, beside(path));
    s->tensors = s->metadata = cfx_dict_new();
    s->alone = access(file, F_OK) != 0;
    if (!s->alone) { /* else a graph without tensors */
        s->tensors = cfx_safetensors_read(file);
        s->metadata = s->tensors ? cfx_safetensors_metadata(file) : NULL;
    }
    cfx__free(file);
    read_strides(s);
    cfx_value ties = s->metadata ? metadata_value(s, "ties") : cfx_none();
    for (int64_t i = 0; ties.tag == CFX_TAG_DICT && i < cfx_as_dict(ties)->len; i++) {
        const char *first = cfx_text(cfx_as_dict(ties)->entries[i].value);
        cfx_value t = first ? cfx_dict_get(s->tensors, first) : cfx_none();
        if (t.tag == CFX_TAG_TENSOR)
            cfx_dict_put(s->tensors, cfx_as_dict(ties)->entries[i].key, t);
    }
    return s->metadata != NULL && cfx_ok();
}

/* The tensors to the state or the constants, as the signature says. */
static void place_tensors(cfx_program *p, const cfx_dict *tensors) {
    cfx_dict *constants = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target && cfx__program_tensors(p, &p->inputs[i]) == p->constants)
            cfx_dict_set(constants, p->inputs[i].target, cfx_bool(true));
    for (int64_t i = 0; i < tensors->len; i++) {
        cfx_value key = tensors->entries[i].key;
        cfx_dict_put(cfx_dict_find(constants, key) ? p->constants : p->state, key,
                     tensors->entries[i].value);
    }
}

/* Equal, types and the order of keys included. */
static bool same_tree(cfx_value a, cfx_value b) {
    return cfx_is_none(a) == cfx_is_none(b) &&
           !strcmp(cfx_tree_spec_text(a), cfx_tree_spec_text(b));
}

/* How modules were called; the program itself only as long as its trees are those of the text. */
static void read_calls(source *s, cfx_program *p, const char *calls) {
    cfx__json_tree json = {0};
    cfx_value in = p->in_spec, out = p->out_spec;
    if (!calls || !cfx__json_read(&json, calls, strlen(calls), NULL))
        return;
    p->in_spec = p->out_spec = cfx_none();
    if (!cfx__pt2_read_calls(&s->r, p, json.items.data, NULL))
        cfx__error_forgive(); /* what somebody wrote there is no part of the program */
    cfx__json_release(&json);
    if (!same_tree(in, p->in_spec) || !same_tree(out, p->out_spec))
        cfx__program_forget_trees(p);
    cfx_value_drop(p->in_spec);
    cfx_value_drop(p->out_spec);
    p->in_spec = in;
    p->out_spec = out;
}

/* What was said beside the program. */
static void read_extra(source *s, cfx_program *p) {
    cfx_value extra = metadata_value(s, "extra");
    for (int i = 0; extra.tag == CFX_TAG_DICT && i < COUNT(extras); i++) {
        cfx_value v = cfx_dict_get(cfx_as_dict(extra), extras[i]);
        if (v.tag == CFX_TAG_STR || v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_DICT)
            cfx_dict_set(p->extra, extras[i], v);
    }
    read_calls(s, p, extra.tag == CFX_TAG_DICT
                         ? cfx_text(cfx_dict_get(cfx_as_dict(extra), "module_call_graph"))
                         : NULL);
}

/* Whether a text that stands alone needs no tensors: no input is one that a program holds, or is
 * called as those are. An error names the file that is missing. */
static bool stands_alone(const char *path, const cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *in = &p->inputs[i];
        const cfx_node *n = cfx_graph_find(p->module->graph, in->name);
        bool held = in->target && in->kind != CFX_IN_OBJECT;
        bool named = strchr("pbc", n->name[0]) && n->name[1] == '_' &&
                     cfx_node_result(n).kind == CFX_RESULT_TENSOR;
        if (!held && !named)
            continue;
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s': %s is a tensor of the program, and its file '%s' is not there", path,
                 n->name, beside(path));
        return false;
    }
    return true;
}

static cfx_program *read_program(source *s, const char *text) {
    cfx_program *p = cfx__program_parse(text, s->r.path);
    if (cfx_failed(p) || !lift(p, s->tensors))
        return &cfx__program_bad;
    read_nodes(s, p->module);
    add_inputs(p, s->tensors);
    if (!cfx_program_sync(p) || (s->alone && !stands_alone(s->r.path, p)))
        return &cfx__program_bad;
    read_extra(s, p);
    place_tensors(p, s->tensors);
    if (!cfx__pt2_check_tensors(&s->r, p))
        return &cfx__program_bad;
    cfx__program_infer_most(p);
    return p;
}

cfx_program *cfx__fx_open(const char *path) {
    cfx__file_mapping *map = cfx__file_map(path);
    if (!map)
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    source s = {.r = {.path = path}};
    const char *text = cfx__string_new(map->size ? map->data : "", map->size)->text;
    cfx_drop(map);
    cfx_program *p = read_tensors(&s, path) ? read_program(&s, text) : &cfx__program_bad;
    cfx__pt2_reader_close(&s.r);
    cfx__json_release(&s.nodes);
    return cfx_scope_return(mark, p);
}
