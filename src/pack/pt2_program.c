/* Programs of model.json: the signature, ranges of sizes, and what is only kept to be written
 * again. */
#include "pt2.h"

/* ---- the signature --------------------------------------------------------------------------- */

/* The kinds of specs, with the key that names what they stand for. */
static const struct {
    const char *tag, *target;
    cfx_input_kind kind;
} input_kinds[] = {
    {"parameter", "parameter_name", CFX_IN_PARAMETER},
    {"buffer", "buffer_name", CFX_IN_BUFFER},
    {"user_input", NULL, CFX_IN_USER},
    {"tensor_constant", "tensor_constant_name", CFX_IN_CONSTANT},
    {"custom_obj", "custom_obj_name", CFX_IN_OBJECT},
    {"token", NULL, CFX_IN_TOKEN},
    {"constant_input", NULL, CFX_IN_USER},
};

static const struct {
    const char *tag, *target;
    cfx_output_kind kind;
} output_kinds[] = {
    {"user_output", NULL, CFX_OUT_USER},
    {"loss_output", NULL, CFX_OUT_LOSS},
    {"buffer_mutation", "buffer_name", CFX_OUT_BUFFER_MUTATION},
    {"parameter_mutation", "parameter_name", CFX_OUT_PARAMETER_MUTATION},
    {"user_input_mutation", "user_input_name", CFX_OUT_INPUT_MUTATION},
    {"gradient_to_parameter", "parameter_name", CFX_OUT_PARAMETER_GRADIENT},
    {"gradient_to_user_input", "user_input_name", CFX_OUT_INPUT_GRADIENT},
    {"token", NULL, CFX_OUT_TOKEN},
};

static bool read_target(cfx__pt2_reader *r, const cfx__json *v, const char *key,
                        const char **out) {
    const cfx__json *name = key ? cfx__pt2_want(r, v, key, CFX__JSON_TEXT) : NULL;
    *out = name ? name->text : NULL;
    return !key || name;
}

/* What an arg names ({"name": x}, {"as_tensor": {"name": x}}, {"as_sym_int": {"as_name": x}}), or
 * the plain value that it is. */
static bool read_arg(cfx__pt2_reader *r, const cfx__json *arg, const char **name,
                     cfx_value *value) {
    const cfx__json *v, *text = cfx__json_get(arg, "name");
    *name = NULL;
    if (!text) {
        const char *tag = cfx__pt2_union(r, arg, &v);
        if (!tag)
            return false;
        if (cfx__pt2_constant(r, tag, v, value))
            return !cfx_is_bad(*value);
        text = cfx__json_get(v, "name") ? cfx__json_get(v, "name") : cfx__json_get(v, "as_name");
    }
    if (!cfx__json_is(text, CFX__JSON_TEXT))
        return cfx__pt2_bad(r, "the signature names a value by something that is no string");
    *name = text->text;
    return true;
}

/* What a signature calls an input is what the graph calls it. */
static bool name_input(cfx__pt2_reader *r, const cfx_node *placeholder, const char *name,
                       cfx_input_spec *spec) {
    spec->name = placeholder->name;
    return !name || !strcmp(name, spec->name) ||
           cfx__pt2_bad(r, "input '%s' of the graph is '%.200s' in the signature", spec->name,
                        name);
}

static bool read_input_spec(cfx__pt2_reader *r, cfx_program *p, const cfx__json *j,
                            const cfx_node *placeholder) {
    const cfx__json *v;
    const char *tag = cfx__pt2_union(r, j, &v);
    int k = 0;
    while (tag && k < COUNT(input_kinds) && strcmp(input_kinds[k].tag, tag))
        k++;
    if (!tag || k == COUNT(input_kinds))
        return cfx__pt2_bad(r, "inputs of the kind \"%.60s\" are not known", tag ? tag : "?");
    cfx_input_spec spec = {.kind = input_kinds[k].kind, .persistent = true};
    const char *name = NULL;
    const cfx__json *persistent = cfx__json_get(v, "persistent");
    if (cfx__json_is(persistent, CFX__JSON_BOOL))
        spec.persistent = persistent->b;
    if (!read_target(r, v, input_kinds[k].target, &spec.target))
        return false;
    if (!strcmp(tag, "constant_input")) {
        const cfx__json *value;
        const char *kind = cfx__pt2_union(r, cfx__json_get(v, "value"), &value);
        spec.constant = true;
        if (!kind)
            return false;
        if (!cfx__pt2_constant(r, kind, value, &spec.value))
            return cfx__pt2_bad(r, "constants of the kind \"%.60s\" are not known", kind);
        if (cfx_is_bad(spec.value))
            return false;
    } else {
        if (!read_arg(r, cfx__json_get(v, "arg"), &name, &spec.value))
            return false;
        spec.constant = !name;
        if (spec.constant && spec.kind != CFX_IN_USER)
            return cfx__pt2_bad(r, "input '%s' of the graph is a plain value in the signature, and "
                                "stands for a tensor", placeholder->name);
    }
    if (!name_input(r, placeholder, name, &spec))
        return false;
    cfx_program_add_input(p, spec);
    return true;
}

static bool read_output_spec(cfx__pt2_reader *r, cfx_program *p, const cfx__json *j) {
    const cfx__json *v;
    const char *tag = cfx__pt2_union(r, j, &v);
    int k = 0;
    while (tag && k < COUNT(output_kinds) && strcmp(output_kinds[k].tag, tag))
        k++;
    if (!tag || k == COUNT(output_kinds))
        return cfx__pt2_bad(r, "results of the kind \"%.60s\" are not known", tag ? tag : "?");
    cfx_output_spec spec = {.kind = output_kinds[k].kind};
    if (!read_target(r, v, output_kinds[k].target, &spec.target) ||
        !read_arg(r, cfx__json_get(v, "arg"), &spec.name, &spec.value))
        return false;
    if (spec.name && !cfx_graph_find(p->module->graph, spec.name))
        return cfx__pt2_bad(r, "the signature has a result '%.200s', which nothing makes",
                            spec.name);
    cfx_program_add_output(p, spec);
    return true;
}

static bool read_signature(cfx__pt2_reader *r, cfx_program *p, const cfx__json *sig) {
    const cfx__json *inputs = cfx__pt2_want(r, sig, "input_specs", CFX__JSON_ARRAY);
    const cfx__json *outputs =
        inputs ? cfx__pt2_want(r, sig, "output_specs", CFX__JSON_ARRAY) : NULL;
    if (!outputs)
        return false;
    cfx_node *n = cfx_graph_first(p->module->graph);
    cfx__json_each(inputs, input) {
        size_t mark = cfx_scope_open();
        n = n && n->op == CFX_PLACEHOLDER ? n : NULL;
        bool ok = n ? read_input_spec(r, p, input, n)
                    : cfx__pt2_bad(r, "the signature has more inputs than the graph");
        cfx_scope_close(mark);
        if (!ok)
            return false;
        n = n ? n->next : NULL;
    }
    if (n && n->op == CFX_PLACEHOLDER)
        return cfx__pt2_bad(r, "the signature lacks input '%s' of the graph", n->name);
    cfx__json_each(outputs, output) {
        size_t mark = cfx_scope_open();
        bool ok = read_output_spec(r, p, output);
        cfx_scope_close(mark);
        if (!ok)
            return false;
    }
    const cfx_node *output = cfx_graph_output_node(p->module->graph);
    cfx_value made = output ? cfx_as_list(output->args)->items[0] : cfx_none();
    int64_t count = made.tag == CFX_TAG_TUPLE ? cfx_as_list(made)->len : 1;
    return p->noutputs == count ||
           cfx__pt2_bad(r, "the graph has %lld results, the signature %d", (long long)count,
                        p->noutputs);
}

/* ---- the signature of 2.1 -------------------------------------------------------------------- */

/* Dicts from the names of placeholders to what they stand for; all others are the caller's. */
static const struct {
    const char *key;
    cfx_input_kind kind;
} old_inputs[] = {
    {"inputs_to_parameters", CFX_IN_PARAMETER},
    {"inputs_to_buffers", CFX_IN_BUFFER},
    {"inputs_to_lifted_tensor_constants", CFX_IN_CONSTANT},
};

static void read_old_input(cfx_program *p, const cfx__json *sig, const cfx_node *n) {
    cfx_input_spec spec = {.kind = CFX_IN_USER, .name = n->name, .persistent = true};
    for (int i = 0; i < COUNT(old_inputs); i++) {
        const cfx__json *target = cfx__json_get(cfx__json_get(sig, old_inputs[i].key), n->name);
        if (!cfx__json_is(target, CFX__JSON_TEXT))
            continue;
        spec.kind = old_inputs[i].kind;
        spec.target = target->text;
    }
    cfx_program_add_input(p, spec);
}

static void read_old_output(cfx_program *p, const cfx__json *sig, cfx_value v) {
    cfx_output_spec spec = {.kind = CFX_OUT_USER, .value = v};
    if (v.tag == CFX_TAG_NODE) {
        spec.name = cfx_as_node(v)->name;
        spec.value = cfx_none();
        const cfx__json *buffer =
            cfx__json_get(cfx__json_get(sig, "buffers_to_mutate"), spec.name);
        if (cfx__json_is(buffer, CFX__JSON_TEXT)) {
            spec.kind = CFX_OUT_BUFFER_MUTATION;
            spec.target = buffer->text;
        }
    }
    cfx_program_add_output(p, spec);
}

static bool read_old_signature(cfx_program *p, const cfx__json *sig) {
    cfx_each_node(p->module->graph, n)
        if (n->op == CFX_PLACEHOLDER)
            read_old_input(p, sig, n);
    cfx_value made = cfx_as_list(cfx_graph_output_node(p->module->graph)->args)->items[0];
    if (made.tag != CFX_TAG_TUPLE)
        read_old_output(p, sig, made);
    for (int64_t i = 0; made.tag == CFX_TAG_TUPLE && i < cfx_as_list(made)->len; i++)
        read_old_output(p, sig, cfx_as_list(made)->items[i]);
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static cfx_value bound(const cfx__json *j) {
    return cfx__json_is(j, CFX__JSON_INT) ? cfx_int(j->i) : cfx_none();
}

static bool read_ranges(cfx__pt2_reader *r, cfx_program *p, const cfx__json *ranges) {
    if (!cfx__json_is(ranges, CFX__JSON_OBJECT))
        return true;
    cfx__json_pairs(ranges, k, v) {
        if (cfx__srepr_read(k->text, NULL).tag != CFX_TAG_SYM)
            return cfx__pt2_bad(r, "there is a range of \"%.60s\", which is no size", k->text);
        size_t mark = cfx_scope_open();
        cfx_value range = cfx_tuple(bound(cfx__json_get(v, "min_val")),
                                    bound(cfx__json_get(v, "max_val")));
        cfx_dict_put(p->ranges, cfx_string_value_n(k->text, k->len), range);
        cfx_scope_close(mark);
    }
    return true;
}

/* As values, or as the JSON text that will stand there again. */
static void keep_value(cfx_program *p, const char *key, const cfx__json *j) {
    size_t mark = cfx_scope_open();
    cfx_value v = j ? cfx__json_to_value(j) : cfx_none();
    if (!cfx_is_none(v))
        cfx_dict_set(p->extra, key, v);
    cfx_scope_close(mark);
}

static void keep_text(cfx_program *p, const char *key, const cfx__json *j) {
    if (!j)
        return;
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    cfx__json_write(&out, j);
    cfx_dict_set(p->extra, key, cfx_string_value_n(out.data, out.len));
    cfx__text_release(&out);
    cfx_scope_close(mark);
}

static bool read_version(cfx__pt2_reader *r, const cfx__json *root) {
    const cfx__json *version = cfx__json_get(root, "schema_version");
    const cfx__json *major = version && version->kind == CFX__JSON_INT
                                 ? version /* 2.1 and 2.2 have a number */
                                 : cfx__json_get(version, "major");
    enum { NEWEST = 8 };
    if (cfx__json_is(major, CFX__JSON_INT) && major->i > NEWEST)
        return cfx__pt2_bad(r, "its schema has version %lld; %d is the newest that is known",
                            (long long)major->i, NEWEST);
    return true;
}

/* All but the graph: what stands around it in model.json. */
static bool read_around(cfx__pt2_reader *r, cfx_program *p, const cfx__json *root) {
    const cfx__json *gm = cfx__pt2_want(r, root, "graph_module", CFX__JSON_OBJECT);
    const cfx__json *sig = gm ? cfx__pt2_want(r, gm, "signature", CFX__JSON_OBJECT) : NULL;
    bool old = cfx__json_is(cfx__json_get(sig, "user_inputs"), CFX__JSON_ARRAY);
    if (!sig || !(old ? read_old_signature(p, sig) : read_signature(r, p, sig)))
        return false;
    if (!cfx__pt2_read_calls(r, p, cfx__json_get(gm, "module_call_graph"),
                             cfx__json_get(gm, "call_spec")) ||
        !read_ranges(r, p, cfx__json_get(root, "range_constraints")))
        return false;
    keep_text(p, "metadata", cfx__json_get(gm, "metadata"));
    keep_text(p, "treespec_namedtuple_fields", cfx__json_get(gm, "treespec_namedtuple_fields"));
    keep_text(p, "opset_version", cfx__json_get(root, "opset_version"));
    keep_value(p, "schema_version", cfx__json_get(root, "schema_version"));
    keep_value(p, "torch_version", cfx__json_get(root, "torch_version"));
    const cfx__json *verifiers = cfx__json_get(root, "verifiers");
    keep_value(p, "verifiers", verifiers ? verifiers : cfx__json_get(root, "dialect"));
    keep_value(p, "guards", cfx__json_get(root, "guards_code"));
    return true;
}

cfx_program *cfx__pt2_program(cfx__pt2_reader *r, const cfx__json *root) {
    if (!read_version(r, root))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    const cfx__json *gm = cfx__json_get(root, "graph_module");
    const cfx__json *graph = cfx__pt2_want(r, gm, "graph", CFX__JSON_OBJECT);
    const cfx__json *specs = cfx__json_get(cfx__json_get(gm, "signature"), "input_specs");
    cfx_module *module = NULL;
    if (graph) {
        cfx__pt2_note_hints(r, graph); /* those in parts are noted where the parts are read */
        module = cfx__pt2_graph(r, graph,
                                cfx__json_is(specs, CFX__JSON_ARRAY) ? specs : NULL, 0);
    }
    cfx_program *p = module ? cfx_program_new(module) : &cfx__program_bad;
    bool fine = !cfx_failed(p) && read_around(r, p, root);
    return cfx_scope_return(mark, fine ? p : &cfx__program_bad);
}
