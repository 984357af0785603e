/* Where exported nodes come from: the modules around a call, the function that was called, and what
 * the modules whose signature is to be preserved took and gave. */
#include "export.h"

static cfx_value address(const void *p) { return cfx_int((int64_t)(intptr_t)p); }

/* ---- the function that was called ------------------------------------------------------------ */

static bool is_among(const char *name, const char *names) {
    size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* What Python's operators call. */
static const char *const operators[][2] = {
    {"getitem", "wrapper_descriptor.__getitem__"}, {"setitem", "wrapper_descriptor.__setitem__"},
    {"add", "method_descriptor.add"},         {"sub", "method_descriptor.sub"},
    {"mul", "method_descriptor.mul"},         {"truediv", "method_descriptor.div"},
    {"floordiv", "function.__floordiv__"},    {"mod", "method_descriptor.remainder"},
    {"pow", "method_descriptor.pow"},         {"matmul", "method_descriptor.matmul"},
    {"iadd", "method_descriptor.add_"},       {"isub", "method_descriptor.sub_"},
    {"imul", "method_descriptor.mul_"},       {"itruediv", "method_descriptor.div_"},
    {"and_", "method_descriptor.__and__"},    {"or_", "method_descriptor.__or__"},
    {"xor", "method_descriptor.__xor__"},     {"lshift", "method_descriptor.__lshift__"},
    {"rshift", "method_descriptor.__rshift__"}, {"neg", "method_descriptor.neg"},
    {"invert", "method_descriptor.bitwise_not"}, {"abs", "method_descriptor.abs"},
    {"lt", "method_descriptor.lt"},           {"le", "method_descriptor.le"},
    {"gt", "method_descriptor.gt"},           {"ge", "method_descriptor.ge"},
    {"eq", "method_descriptor.eq"},           {"ne", "method_descriptor.ne"}};

/* What they call where the tensor stands on the right. */
static const char *const reflected[][2] = {
    {"sub", "function.__rsub__"},       {"truediv", "function.__rdiv__"},
    {"floordiv", "function.__rfloordiv__"}, {"mod", "function.__rmod__"},
    {"pow", "function.__rpow__"},       {"matmul", "function.__rmatmul__"}};

static const char *operator_kind(const char *name, cfx_args a) {
    bool right = a.n == 2 && a.v[0].tag != CFX_TAG_TENSOR && a.v[1].tag == CFX_TAG_TENSOR;
    for (int i = 0; right && i < COUNT(reflected); i++)
        if (!strcmp(reflected[i][0], name))
            return reflected[i][1];
    for (int i = 0; i < COUNT(operators); i++)
        if (!strcmp(operators[i][0], name))
            return operators[i][1];
    return cfx__text_format("builtin_function_or_method.%s", name);
}

static const char *last_word(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* "builtin_function_or_method.linear": the class of a function in Python, and what it is called
 * there. Most of torch is C++; what is written in Python says so. Scope. */
static const char *python_kind(cfx_target t, cfx_args a) {
    static const char builtin[] =
        "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d "
        "conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity gelu "
        "hardshrink linear one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu "
        "scaled_dot_product_attention softplus softshrink";
    static const char functions[] =
        "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist "
        "chain_matmul einsum meshgrid norm split stft tensordot unique unique_consecutive sym_int "
        "sym_float sym_max sym_min sym_not sym_ite sym_sum _assert";
    static const char methods[] = "istft norm split stft unflatten unique unique_consecutive";
    const char *name = t.name, *last = last_word(name);
    if (!t.fn)
        return cfx__text_format("OpOverload.%s", strchr(name, '.') ? strchr(name, '.') + 1 : name);
    if (!strncmp(name, "operator.", 9))
        return operator_kind(last, a);
    if (!strncmp(name, "torch.ops.", 10))
        return cfx__text_format("OpOverloadPacket.%s", last);
    if (!strncmp(name, "Tensor.", 7))
        return cfx__text_format("%s.%s", is_among(last, methods) ? "function" : "method_descriptor",
                                last);
    if (!strncmp(name, "torch.nn.functional.", 20) && !strcmp(last, "logsigmoid"))
        return "builtin_function_or_method.log_sigmoid";
    if (!strncmp(name, "torch.nn.", 9) || !strncmp(name, "torch.functional.", 17))
        return cfx__text_format(
            "%s.%s", is_among(last, builtin) ? "builtin_function_or_method" : "function", last);
    static const char *const parts[] = {"fft", "linalg", "special"};
    for (int i = 0; i < COUNT(parts); i++)
        if (!strncmp(name + 6, parts[i], strlen(parts[i])) && name[6 + strlen(parts[i])] == '.')
            return cfx__text_format("builtin_function_or_method.%s_%s", parts[i], last);
    return cfx__text_format(
        "%s.%s", is_among(last, functions) ? "function" : "builtin_function_or_method", last);
}

/* A function that is called from outside another: nodes made meanwhile are its. */
static cfx_value see_function(cfx_mode *mode, cfx_target t, cfx_args a) {
    cfx__export *e = mode->user;
    size_t mark = cfx_scope_open();
    const char *kind = python_kind(t, a), *name = strchr(kind, '.') + 1;
    int64_t count = cfx_integer(cfx_dict_get(e->counts, kind)) + 1;
    cfx_dict_set(e->counts, kind, cfx_int(count));
    cfx_value_drop(e->torch_fn);
    e->torch_fn = cfx_value_keep(
        cfx_tuple(cfx__text_format("%s_%lld", name, (long long)count), kind));
    cfx_scope_close(mark);
    return cfx_mode_forward(mode, t, a);
}

/* ---- the modules around a call --------------------------------------------------------------- */

/* "L__self__layers.0", and for its second call "L__self__layers.0@1"; scope. */
static const char *level_key(const struct cfx__export_frame *f) {
    return f->number ? cfx__text_format("L__self__%s@%lld", f->path, (long long)f->number)
                     : cfx__text_format("L__self__%s", f->path);
}

void cfx__export_note(cfx__recorder *r, cfx_site at, cfx_node *n) {
    cfx__export *e = (cfx__export *)r;
    cfx_dict *levels = cfx_dict_new();
    cfx__text trace = {0};
    for (size_t i = 0; i < e->stack.len; i++) {
        const struct cfx__export_frame *f = &e->stack.data[i];
        cfx_dict_set(levels, level_key(f),
                     cfx_tuple(f->path, f->module->path ? f->module->path : f->module->type));
        if (i)
            cfx__export_put_frame(e, &trace, f->at);
    }
    bool own = !e->stack.len || e->stack.data[e->stack.len - 1].at.file != at.file ||
               e->stack.data[e->stack.len - 1].at.line != at.line;
    if (own)
        cfx__export_put_frame(e, &trace, at);
    if (levels->len)
        cfx_node_set_meta(n, "nn_module_stack", cfx_dict_value(levels));
    if (trace.len)
        cfx_node_set_meta(n, "stack_trace", cfx_string_value(trace.data));
    if (!cfx_is_none(e->torch_fn))
        cfx_node_set_meta(n, "torch_fn", e->torch_fn);
    if (!cfx_is_none(cfx__trace_annotation()))
        cfx_node_set_meta(n, "custom", cfx__trace_annotation());
    cfx__text_release(&trace);
}

/* The path of a module that is called: the way that the caller took to it, where that is known. */
static const char *path_of(const cfx__export *e, const cfx_module *m, cfx__nn_way way) {
    const struct cfx__export_frame *top = e->stack.len ? &e->stack.data[e->stack.len - 1] : NULL;
    const cfx_value *known = way.name ? cfx_dict_find(e->paths, address(way.from)) : NULL;
    const char *above = top && way.name && way.from == top->module ? top->path
                        : known                                    ? cfx_text(*known)
                                                                   : NULL;
    if (above)
        return *above ? cfx__text_format("%s.%s", above, way.name) : way.name;
    known = cfx_dict_find(e->paths, address(m));
    return known ? cfx_text(*known) : "";
}

/* ---- signatures that are preserved ----------------------------------------------------------- */

static bool is_preserved(const cfx__export *e, const char *path) {
    cfx_value list = e->preserve;
    for (int64_t i = 0; list.tag == CFX_TAG_LIST && i < cfx_as_list(list)->len; i++) {
        const char *own = cfx_text(cfx_as_list(list)->items[i]);
        if (own && !strcmp(own, path))
            return true;
    }
    return false;
}

/* The leaves of a tree as nodes or plain values; its spec. Bad with an error. */
static cfx_value take_leaves(cfx__export *e, cfx_site at, cfx_value tree, cfx_value *leaves) {
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value spec = cfx_tree_flatten(tree, flat);
    *leaves = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < flat->len; i++) {
        cfx_value v = flat->items[i];
        bool scalar = cfx_is_none(v) || v.tag == CFX_TAG_TENSOR || v.tag == CFX_TAG_STR ||
                      cfx_is_number(v);
        if (!scalar) {
            cfx_fail(CFX_ASSERTION_ERROR, at,
                     "Only Tensors or scalars are supported as pytree flattened inputs, got: %s",
                     cfx_value_repr(v));
            return cfx_bad();
        }
        v = v.tag == CFX_TAG_TENSOR ? cfx__record_arg(&e->recorder, at, v) : v;
        cfx_list_append(cfx_as_list(*leaves), v);
    }
    return spec;
}

static bool same_spec(cfx_value a, cfx_value b) {
    return !strcmp(cfx_tree_spec_text(a), cfx_tree_spec_text(b));
}

/* Whether a module is called as it was called before; PyTorch's words where it is not. */
static bool is_called_alike(const cfx__export *e, cfx_site at, const char *path,
                            const cfx_module_call *c) {
    size_t n = strlen(path);
    for (size_t i = 0; i < e->calls.len; i++) {
        const cfx_module_call *o = &e->calls.data[i];
        if (strncmp(o->path, path, n) || (o->path[n] && o->path[n] != '@'))
            continue;
        bool in = same_spec(o->in_spec, c->in_spec), out = same_spec(o->out_spec, c->out_spec);
        if (!in || !out)
            cfx_fail(CFX_ASSERTION_ERROR, at, "%s mismatch for %s: %s != %s",
                     in ? "out_spec" : "in_spec", path,
                     cfx_tree_spec_text(in ? o->out_spec : o->in_spec),
                     cfx_tree_spec_text(in ? c->out_spec : c->in_spec));
        return in && out;
    }
    return true;
}

static cfx_value call_preserved(cfx__export *e, const struct cfx__export_frame *f, cfx_args a) {
    cfx_module_call c = {.preserved = true};
    const char *path = f->number
                           ? cfx__text_format("%s@%lld", f->path, (long long)f->number)
                           : f->path;
    c.path = cfx__arena_copy(&e->arena, path, strlen(path));
    cfx_value given = cfx_tuple(cfx_tuple_value(a.n, a.v),
                                cfx_dict_value(a.kw ? a.kw : cfx_dict_new()));
    c.in_spec = take_leaves(e, f->at, given, &c.inputs);
    if (cfx_is_bad(c.in_spec))
        return cfx_bad();
    cfx_value_keep(c.in_spec);
    cfx_value_keep(c.inputs);
    cfx_value v = cfx__module_call(f->at, f->module, a);
    c.out_spec = cfx_value_keep(cfx_is_bad(v) ? v : take_leaves(e, f->at, v, &c.outputs));
    cfx_value_keep(c.outputs);
    bool fine = !cfx_is_bad(c.out_spec) && is_called_alike(e, f->at, f->path, &c);
    VEC_PUSH(e->calls, c);
    return fine ? v : cfx_bad();
}

static cfx_value call_module(cfx__nn_layer *self, cfx_site at, cfx_module *m, cfx__nn_way way,
                             cfx_args a) {
    cfx__export *e = (cfx__export *)((char *)self - offsetof(cfx__export, layer));
    const char *path = e->stack.len ? path_of(e, m, way) : "";
    int64_t number = cfx_integer(cfx_dict_get(e->entered, path));
    if (e->stack.len)
        cfx_dict_set(e->entered, path, cfx_int(number + 1));
    struct cfx__export_frame frame = {m, path, at, number};
    VEC_PUSH(e->stack, frame);
    cfx_value v = *path && is_preserved(e, path) ? call_preserved(e, &frame, a)
                                                 : cfx__module_call(at, m, a);
    e->stack.len--;
    return v;
}

bool cfx__levels_begin(cfx__export *e, cfx_value preserve) {
    e->preserve = preserve;
    e->counts = cfx_keep(cfx_dict_new());
    e->entered = cfx_keep(cfx_dict_new());
    for (int64_t i = 0; preserve.tag == CFX_TAG_LIST && i < cfx_as_list(preserve)->len; i++) {
        const char *path = cfx_text(cfx_as_list(preserve)->items[i]);
        if (path && *path && cfx_module_find(e->root, path))
            continue;
        cfx_fail(CFX_ATTRIBUTE_ERROR, (cfx_site){0}, "'%s' object has no attribute '%s'",
                 e->root->type, path ? path : cfx_value_repr(cfx_as_list(preserve)->items[i]));
        return false;
    }
    e->layer.call = call_module;
    e->mode = (cfx_mode){.handle = see_function, .user = e};
    return true;
}

void cfx__levels_end(cfx__export *e) {
    for (size_t i = 0; i < e->calls.len; i++) {
        cfx_value_drop(e->calls.data[i].inputs);
        cfx_value_drop(e->calls.data[i].outputs);
        cfx_value_drop(e->calls.data[i].in_spec);
        cfx_value_drop(e->calls.data[i].out_spec);
    }
    VEC_FREE(e->calls);
    cfx_value_drop(e->torch_fn);
    cfx_drop(e->counts);
    cfx_drop(e->entered);
}

static bool is_plain_alike(cfx_value a, cfx_value b) {
    bool alike = cfx_as_list(a)->len == cfx_as_list(b)->len;
    for (int64_t i = 0; alike && i < cfx_as_list(a)->len; i++) {
        cfx_value x = cfx_as_list(a)->items[i], y = cfx_as_list(b)->items[i];
        alike = x.tag == y.tag && (x.tag == CFX_TAG_NODE || cfx_equal_values(x, y));
    }
    return alike;
}

bool cfx__levels_agree(const cfx__export *e, const cfx__export *other) {
    bool agree = e->calls.len == other->calls.len;
    for (size_t i = 0; agree && i < e->calls.len; i++)
        agree = is_plain_alike(e->calls.data[i].inputs, other->calls.data[i].inputs) &&
                is_plain_alike(e->calls.data[i].outputs, other->calls.data[i].outputs);
    if (!agree)
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0},
                 "Symint input is not implemented yet for submodule call signature.");
    return agree;
}
