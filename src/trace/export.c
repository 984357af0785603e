/* Export: a module's forward, run once on fake tensors while every overload it calls is recorded
 * whole. Start at cfx__export_run. */
#include "export.h"

static cfx_value address(const void *p) { return cfx_int((int64_t)(intptr_t)p); }

/* "layers.0.weight" to "layers_0_weight"; scope */
static const char *flat_name(const char *prefix, const char *path) {
    cfx__text t = {0};
    cfx__text_puts(&t, prefix);
    for (; *path; path++)
        cfx__text_putc(&t, *path == '.' ? '_' : *path);
    return cfx__text_take(&t);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A placeholder, and the fake tensor that it gives; scope. */
static cfx_tensor *add_input(cfx__export *e, const char *name, cfx_input_spec spec,
                             const cfx_tensor *like) {
    cfx_node *n = cfx_graph_placeholder(e->recorder.graph, name, NULL, false, cfx_none());
    if (!n->graph)
        return &cfx__tensor_bad;
    if (strcmp(n->name, name) && !cfx_graph_find(e->recorder.graph, name))
        cfx_node_set_name(n, name); /* be it a word of Python's, as in PyTorch */
    spec.name = n->name;
    VEC_PUSH(e->inputs, spec);
    if (!like)
        return NULL;
    cfx_tensor *t = cfx__recorded_tensor(&e->recorder, n, like);
    cfx_value val = cfx__symbols_describe(&e->symbols, t);
    if (cfx_is_none(val)) {
        cfx_tensor *plain =
            cfx__tensor_empty((cfx_site){0}, t->dtype, true, t->ndim, t->shape, t->stride);
        plain->device = t->device;
        val = cfx_tensor_value(plain);
    }
    cfx_node_set_meta(n, "val", val);
    for (int i = 0; i < t->ndim; i++)
        cfx__symbols_know(&e->symbols, t->shape[i], n, i);
    return t;
}

typedef struct {
    cfx__export *e;
    bool parameters;
} lifting;

/* All parameters, or all buffers, of one module. A tensor with several names has an input for each,
 * and what reads it means the last. */
static void lift_held(const char *path, cfx_module *m, void *user) {
    lifting *l = user;
    cfx__export *e = l->e;
    const cfx_dict *tensors = l->parameters ? m->parameters : m->buffers;
    for (int64_t i = 0; tensors && i < tensors->len; i++) {
        cfx_value v = tensors->entries[i].value;
        if (v.tag != CFX_TAG_TENSOR)
            continue;
        size_t mark = cfx_scope_open();
        const char *own = cfx_text(tensors->entries[i].key);
        const char *full = *path ? cfx__text_format("%s.%s", path, own) : own;
        bool persistent = l->parameters || cfx_dict_find(e->state, cfx_string_value(full));
        cfx_input_spec spec = {.kind = l->parameters ? CFX_IN_PARAMETER : CFX_IN_BUFFER,
                               .target = cfx__arena_copy(&e->arena, full, strlen(full)),
                               .persistent = !l->parameters && persistent};
        cfx_tensor *t = add_input(e, flat_name(l->parameters ? "p_" : "b_", full), spec, v.tensor);
        cfx_dict_put(e->known, address(v.tensor), cfx_tensor_value(t));
        if (!persistent)
            cfx_dict_set(e->constants, full, v);
        cfx_scope_close(mark);
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Where a module is, and the tensors that it holds as plain attributes: constants, once used. */
static void note_module(const char *path, cfx_module *m, void *user) {
    cfx__export *e = user;
    if (!cfx_dict_find(e->paths, address(m)))
        cfx_dict_put(e->paths, address(m), cfx_string_value(path));
    for (int64_t i = 0; m->attrs && i < m->attrs->len; i++) {
        cfx_value v = m->attrs->entries[i].value;
        if (v.tag != CFX_TAG_TENSOR || cfx_dict_find(e->known, address(v.tensor)))
            continue;
        const char *own = cfx_text(m->attrs->entries[i].key);
        cfx_dict_put(e->held, address(v.tensor),
                     cfx_string_value(*path ? cfx__text_format("%s.%s", path, own) : own));
    }
}

/* A tensor that the recorder does not know becomes an input of the program. One that no module
 * holds was made by forward: what is used is a fresh copy of it, as in PyTorch. */
static cfx_value lift_constant(cfx__recorder *r, cfx_site at, cfx_tensor *t) {
    cfx__export *e = (cfx__export *)r;
    const cfx_value *known = cfx_dict_find(e->known, address(t));
    if (known)
        return cfx_node_value(cfx__recorded_node(r, *known));
    if (!t->data) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "a fake tensor that no recorded call made was used");
        return cfx_bad();
    }
    const cfx_value *held = cfx_dict_find(e->held, address(t));
    const char *path = held ? cfx_text(*held) : NULL;
    if (!path) {
        const char *module = e->stack.len ? e->stack.data[e->stack.len - 1].path : "";
        path = cfx__text_format("%s%slifted_tensor_%d", module, *module ? "." : "", e->lifted++);
    }
    cfx_dict_set(e->constants, path, cfx_tensor_value(t));
    cfx_insert before = cfx_graph_insert_before(r->graph, e->first_user);
    cfx_input_spec spec = {.kind = CFX_IN_CONSTANT,
                           .target = cfx__arena_copy(&e->arena, path, strlen(path))};
    cfx_tensor *fake = add_input(e, flat_name("c_", path), spec, t);
    cfx_graph_set_insert(r->graph, before);
    /* its specification belongs before those of the user's */
    cfx_input_spec last = e->inputs.data[e->inputs.len - 1];
    memmove(&e->inputs.data[e->nconstants + 1], &e->inputs.data[e->nconstants],
            (e->inputs.len - 1 - (size_t)e->nconstants) * sizeof last);
    e->inputs.data[e->nconstants++] = last;
    if (!held) {
        cfx_value copy = cfx_op_do_from(at, cfx_op_find("aten.lift_fresh_copy"),
                                        CFX_ARGS(cfx_tensor_value(fake)));
        fake = copy.tag == CFX_TAG_TENSOR ? copy.tensor : &cfx__tensor_bad;
    }
    cfx_dict_put(e->known, address(t), cfx_tensor_value(fake));
    cfx_list_append(e->kept, cfx_tensor_value(t));
    cfx_node *n = cfx__recorded_node(r, cfx_tensor_value(fake));
    return n ? cfx_node_value(n) : cfx_bad();
}

/* ---- the caller's inputs --------------------------------------------------------------------- */

typedef struct {
    cfx__export *e;
    cfx_value sizes; /* which of this argument's may vary, or None */
    cfx_dict *names; /* of the user's to symbols */
    cfx_list *leaves;
} taking;

static int64_t bound(cfx_value v, int i, int64_t other) {
    if (v.tag != CFX_TAG_TUPLE || v.list->len <= i || v.list->items[i].tag != CFX_TAG_INT)
        return other;
    return v.list->items[i].i;
}

/* The symbol for a size: one for each name, called after where it was first seen. */
static int64_t varying(taking *t, cfx_value what, const char *source) {
    cfx__export *e = t->e;
    cfx_value name = what.tag == CFX_TAG_TUPLE ? cfx_at(what, 0) : what;
    const char *text = cfx_text(name);
    if (!text) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "a size that may vary is given as a name or (name, least, most), not %s",
                 cfx_value_type_name(what));
        return 2;
    }
    int64_t least = bound(what, 1, 2), most = bound(what, 2, INT64_MAX);
    const char *symbol = cfx_text(cfx_dict_get(t->names, text));
    if (!symbol) {
        int number = cfx__symbol_number(source);
        do
            symbol = cfx__text_format("s%d", number++);
        while (cfx_dict_find(e->ranges, cfx_string_value(symbol)));
        cfx_dict_set(t->names, text, cfx_string_value(symbol));
        cfx_dict_set(e->ranges, symbol,
                     cfx_tuple(least, most == INT64_MAX ? cfx_none() : cfx_int(most)));
    }
    return cfx__symbols_add(&e->symbols, symbol, least, most);
}

static void take_tensor(taking *t, const char *name, const char *source, const cfx_tensor *x) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    bool varies = false;
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    memcpy(stride, x->stride, (size_t)x->ndim * sizeof *stride);
    for (int64_t i = 0; t->sizes.tag == CFX_TAG_DICT && i < t->sizes.dict->len; i++) {
        cfx_value dim = t->sizes.dict->entries[i].key, what = t->sizes.dict->entries[i].value;
        const char *text = cfx_text(dim);
        int64_t d = text ? strtoll(text, NULL, 10) : cfx_integer(dim);
        int at = cfx__shape_wrap_dim((cfx_site){0}, d, x->ndim);
        if (at < 0 || cfx_is_none(what))
            continue;
        shape[at] = varying(t, what, cfx__text_format("%s.size()[%d]", source, at));
        varies = true;
    }
    cfx_tensor like = *x;
    like.shape = shape;
    like.stride = stride;
    if (varies)
        cfx__strides_contiguous(x->ndim, shape, stride);
    cfx_tensor *fake =
        add_input(t->e, name, (cfx_input_spec){.kind = CFX_IN_USER}, &like);
    cfx_list_append(t->leaves, cfx_tensor_value(fake));
}

/* Names follow the way to the leaf: batch["pair"][0] is batch_pair_0. */
static void take(taking *t, const char *name, const char *source, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        take_tensor(t, name, source, v.tensor);
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < v.list->len; i++)
            take(t, cfx__text_format("%s_%lld", name, (long long)i),
                 cfx__text_format("%s[%lld]", source, (long long)i), v.list->items[i]);
    } else if (v.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < v.dict->len; i++) {
            const char *own = cfx_value_str(v.dict->entries[i].key);
            take(t, cfx__text_format("%s_%s", name, own),
                 cfx__text_format("%s[%s]", source, cfx_value_repr(v.dict->entries[i].key)),
                 v.dict->entries[i].value);
        }
    } else {
        cfx_input_spec spec = {.kind = CFX_IN_USER, .constant = true, .value = cfx_value_keep(v)};
        add_input(t->e, name, spec, NULL);
        cfx_list_append(t->leaves, v);
    }
    if (!t->e->first_user && t->e->inputs.len > (size_t)t->e->nconstants)
        t->e->first_user =
            cfx_graph_find(t->e->recorder.graph, t->e->inputs.data[t->e->nconstants].name);
}

/* What argument number i is called, or the one given by keyword. */
static const char *argument_name(const cfx_module *m, int64_t i) {
    const cfx__signature *s = m->own_->signature;
    for (int k = 0; s && k < s->n; k++)
        if (s->params[k].kind == CFX__VAR_ARGS && i >= k)
            return cfx__text_format("%s_%lld", s->params[k].name, (long long)(i - k));
    return s && i < s->n ? s->params[i].name : cfx__text_format("arg_%lld", (long long)i);
}

static void take_argument(taking *t, cfx_value dynamic, const char *name, cfx_value v) {
    t->sizes = dynamic.tag == CFX_TAG_DICT ? cfx_dict_get(dynamic.dict, name) : cfx_none();
    take(t, name, cfx__text_format("L['%s']", name), v);
}

/* The caller's inputs as placeholders; args and kwargs of fake tensors in their place. */
static bool take_inputs(cfx__export *e, cfx_value *args, cfx_value *kwargs, cfx_value dynamic) {
    cfx_list *real = cfx_list_value(0, NULL).list;
    taking t = {e, cfx_none(), cfx_dict_new(), cfx_list_value(0, NULL).list};
    cfx_value spec = cfx_tree_flatten(cfx_tuple(*args, *kwargs), real);
    e->in_spec = cfx_value_keep(spec);
    for (int64_t i = 0; i < args->list->len; i++)
        take_argument(&t, dynamic, argument_name(e->root, i), args->list->items[i]);
    for (int64_t i = 0; i < kwargs->dict->len; i++)
        take_argument(&t, dynamic, cfx_text(kwargs->dict->entries[i].key),
                      kwargs->dict->entries[i].value);
    if (!cfx_ok())
        return false;
    cfx_value both = cfx_tree_unflatten(spec, t.leaves);
    if (cfx_is_bad(both))
        return false;
    *args = cfx_at(both, 0);
    *kwargs = cfx_at(both, 1);
    return true;
}

/* ---- what the recorder asks ------------------------------------------------------------------ */

static cfx_op_fn *decomposition_for(cfx__recorder *r, cfx_op *op, bool early) {
    (void)r, (void)op, (void)early;
    return NULL; /* everything stays whole */
}

static cfx_value scalar(cfx__recorder *r, cfx_value v) {
    cfx__export *e = (cfx__export *)r;
    return v.tag == CFX_TAG_INT ? cfx__symbols_arg(&e->symbols, r, v.i) : v;
}

static cfx_value describe(cfx__recorder *r, cfx_node *n, const cfx_tensor *t) {
    cfx__export *e = (cfx__export *)r;
    for (int i = 0; i < t->ndim; i++)
        cfx__symbols_know(&e->symbols, t->shape[i], n, i);
    return e->symbols.assigned.len ? cfx__symbols_describe(&e->symbols, t) : cfx_none();
}

/* Line `line` of a file without blanks around it; "" where it cannot be read. */
static const char *source_line(cfx__export *e, const char *name, int line) {
    if (!e->file.name || strcmp(e->file.name, name)) {
        free(e->file.text);
        e->file.name = name;
        e->file.text = NULL;
        FILE *f = fopen(name, "rb");
        cfx__text text = {0};
        char block[4096];
        for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
            cfx__text_add(&text, block, n);
        if (f)
            fclose(f);
        e->file.text = text.data;
    }
    const char *p = e->file.text;
    for (int i = 1; p && i < line; i++)
        p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
    if (!p)
        return "";
    p += strspn(p, " \t");
    return cfx__string_new(p, strcspn(p, "\r\n"))->text;
}

static void put_frame(cfx__export *e, cfx__text *out, cfx_site at) {
    if (!at.file || !strncmp(at.file, "src/nn/layers", 13)) /* cfx has its own */
        return;
    const char *code = source_line(e, at.file, at.line);
    cfx__text_printf(out, "%sFile \"%s\", line %d, in forward\n    %s", out->len ? "\n  " : "",
                     at.file, at.line, *code ? code : "?");
}

static void note(cfx__recorder *r, cfx_site at, cfx_node *n) {
    cfx__export *e = (cfx__export *)r;
    cfx_dict *levels = cfx_dict_new();
    cfx__text trace = {0};
    for (size_t i = 0; i < e->stack.len; i++) {
        const struct cfx__export_frame *f = &e->stack.data[i];
        cfx_dict_set(levels, flat_name("L__self__", f->path),
                     cfx_tuple(f->path, f->module->path ? f->module->path : f->module->type));
        if (i)
            put_frame(e, &trace, f->at);
    }
    bool own = !e->stack.len || e->stack.data[e->stack.len - 1].at.file != at.file ||
               e->stack.data[e->stack.len - 1].at.line != at.line;
    if (own)
        put_frame(e, &trace, at);
    if (levels->len)
        cfx_node_set_meta(n, "nn_module_stack", cfx_dict_value(levels));
    if (trace.len)
        cfx_node_set_meta(n, "stack_trace", cfx_string_value(trace.data));
    cfx__text_release(&trace);
}

/* ---- what the nn room asks ------------------------------------------------------------------- */

static cfx_value export_call(cfx__nn_layer *self, cfx_site at, cfx_module *m, cfx_args a) {
    cfx__export *e = (cfx__export *)((char *)self - offsetof(cfx__export, layer));
    const cfx_value *path = cfx_dict_find(e->paths, address(m));
    struct cfx__export_frame frame = {m, path ? cfx_text(*path) : "", at};
    VEC_PUSH(e->stack, frame);
    cfx_value v = cfx__module_call(at, m, a);
    e->stack.len--;
    return v;
}

static cfx_value export_attr(cfx__nn_layer *self, cfx_site at, cfx_module *m, const char *path) {
    cfx__export *e = (cfx__export *)((char *)self - offsetof(cfx__export, layer));
    cfx_value v = cfx__module_read(at, m, path);
    const cfx_value *known =
        v.tag == CFX_TAG_TENSOR ? cfx_dict_find(e->known, address(v.tensor)) : NULL;
    return known ? *known : v;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void add_output(cfx__export *e, cfx_list *items, cfx_value v) {
    cfx_value arg = cfx__record_arg(&e->recorder, (cfx_site){0}, v);
    cfx_output_spec spec = {.kind = CFX_OUT_USER};
    if (arg.tag == CFX_TAG_NODE)
        spec.name = arg.node->name;
    else
        spec.value = cfx_value_keep(arg);
    VEC_PUSH(e->outputs, spec);
    cfx_list_append(items, arg);
}

static bool run_forward(cfx__export *e, cfx_value args, cfx_value kwargs) {
    cfx__record_begin(&e->recorder);
    e->layer = (cfx__nn_layer){.call = export_call, .attr = export_attr};
    cfx__nn_push(&e->layer);
    cfx_args a = {(int)args.list->len, args.list->items, kwargs.dict->len ? kwargs.dict : NULL};
    cfx_value result = cfx_forward_value_from((cfx_site){0}, e->root, a);
    cfx__nn_pop(&e->layer);
    cfx_value items = cfx_tuple_value(0, NULL);
    if (cfx_ok() && !cfx_is_bad(result)) {
        cfx_list *leaves = cfx_list_value(0, NULL).list;
        e->out_spec = cfx_value_keep(cfx_tree_flatten(result, leaves));
        for (int64_t i = 0; i < leaves->len; i++)
            add_output(e, items.list, leaves->items[i]);
    }
    cfx__record_end(&e->recorder);
    if (cfx_ok())
        cfx_graph_output(e->recorder.graph, items);
    return cfx_ok();
}

bool cfx__export_run(cfx__export *e, cfx_module *m, cfx_value args, cfx_value kwargs,
                     cfx_value dynamic) {
    *e = (cfx__export){.root = m,
                       .recorder = {.graph = cfx_keep(cfx_graph_new()),
                                    .decomposition_for = decomposition_for,
                                    .unknown_tensor = lift_constant,
                                    .scalar = scalar,
                                    .describe = describe,
                                    .note = note},
                       .known = cfx_keep(cfx_dict_new()),
                       .held = cfx_keep(cfx_dict_new()),
                       .paths = cfx_keep(cfx_dict_new()),
                       .kept = cfx_keep(cfx_list_value(0, NULL).list),
                       .state = cfx_keep(cfx_module_state_dict(m)),
                       .constants = cfx_keep(cfx_dict_new()),
                       .ranges = cfx_keep(cfx_dict_new())};
    cfx__symbols_begin(&e->symbols);
    cfx_module_walk(m, lift_held, &(lifting){e, true});
    cfx_module_walk(m, lift_held, &(lifting){e, false});
    cfx_module_walk(m, note_module, e);
    e->nconstants = (int)e->inputs.len;
    return cfx_ok() && take_inputs(e, &args, &kwargs, dynamic) && run_forward(e, args, kwargs);
}

void cfx__export_end(cfx__export *e) {
    for (size_t i = 0; i < e->inputs.len; i++)
        cfx_value_drop(e->inputs.data[i].value);
    for (size_t i = 0; i < e->outputs.len; i++)
        cfx_value_drop(e->outputs.data[i].value);
    VEC_FREE(e->inputs);
    VEC_FREE(e->outputs);
    VEC_FREE(e->stack);
    cfx__symbols_free(&e->symbols);
    free(e->file.text);
    cfx_value_drop(e->in_spec);
    cfx_value_drop(e->out_spec);
    cfx__arena_release(&e->arena);
    cfx_drop(e->known), cfx_drop(e->held), cfx_drop(e->paths), cfx_drop(e->kept);
    cfx_drop(e->state);
    cfx_drop(e->constants), cfx_drop(e->ranges);
    cfx_drop(e->recorder.graph);
}
