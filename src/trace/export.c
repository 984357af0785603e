/* Export: runs a module's forward once on fake tensors and records each overload called, before
 * its decomposition. Start at cfx__export_record; export_worlds.c chooses the sizes. */
#include "export.h"

static cfx_value address(const void *p) { return cfx_int((int64_t)(intptr_t)p); }

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A placeholder, and the fake tensor that it gives; scope. val is what its metadata says, None: the
 * tensor itself. */
static cfx_tensor *add_input(cfx__export *e, const char *name, cfx_input_spec spec,
                             const cfx_tensor *like, cfx_value val) {
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
    if (cfx_is_none(val))
        val = cfx_tensor_value(cfx__tensor_faked(t));
    cfx_node_set_meta(n, "val", val);
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
        cfx_tensor *t = add_input(e, cfx__input_name(spec.kind, full), spec,
                                  cfx_as_tensor(v), cfx_none());
        cfx_dict_put(e->known, address(cfx_as_tensor(v)), cfx_tensor_value(t));
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
        if (v.tag != CFX_TAG_TENSOR || cfx_dict_find(e->known, address(cfx_as_tensor(v))))
            continue;
        const char *own = cfx_text(m->attrs->entries[i].key);
        cfx_dict_put(e->held, address(cfx_as_tensor(v)),
                     cfx_string_value(*path ? cfx__text_format("%s.%s", path, own) : own));
    }
}

/* What a tensor that no module holds is called: after the module that runs. Scope. */
static const char *lifted_path(cfx__export *e) {
    const char *module = e->stack.len ? e->stack.data[e->stack.len - 1].path : "";
    return cfx__text_format("%s%slifted_tensor_%d", module, *module ? "." : "", e->lifted++);
}

/* An input before the user's for a tensor of the caller's. One that no module holds was made by
 * forward: what is used is a fresh copy of it, as in PyTorch. */
static cfx_tensor *add_constant(cfx__export *e, cfx_site at, cfx_tensor *t) {
    cfx_graph *graph = e->recorder.graph;
    const cfx_value *held = cfx_dict_find(e->held, address(t));
    const char *path = held ? cfx_text(*held) : lifted_path(e);
    cfx_dict_set(e->constants, path, cfx_tensor_value(t));
    cfx_insert before = cfx_graph_insert_before(graph, e->first_user);
    cfx_input_spec spec = {.kind = CFX_IN_CONSTANT,
                           .target = cfx__arena_copy(&e->arena, path, strlen(path))};
    cfx_tensor *fake = add_input(e, cfx__input_name(spec.kind, path), spec, t, cfx_none());
    cfx_graph_set_insert(graph, before);
    cfx_input_spec last = e->inputs.data[e->inputs.len - 1];
    memmove(&e->inputs.data[e->nconstants + 1], &e->inputs.data[e->nconstants],
            (e->inputs.len - 1 - (size_t)e->nconstants) * sizeof last);
    e->inputs.data[e->nconstants++] = last;
    if (held)
        return fake;
    cfx_value copy =
        cfx_op_do_from(at, cfx_op_find("aten.lift_fresh_copy"), CFX_ARGS(cfx_tensor_value(fake)));
    if (!(t->head.flags & CFX__LITERAL)) /* torch.tensor does that */
        copy = cfx_op_do_from(at, cfx_op_find("aten.detach_"), CFX_ARGS(copy));
    return copy.tag == CFX_TAG_TENSOR ? cfx_as_tensor(copy) : &cfx__tensor_bad;
}

/* Whether it is known because forward made it, or has it from elsewhere. */
static bool is_lifted(const cfx__export *e, const cfx_tensor *t) {
    for (int64_t i = 0; i < e->kept->len; i++)
        if (cfx_as_tensor(e->kept->items[i]) == t)
            return !cfx_dict_find(e->held, address(t));
    return false;
}

/* A tensor that the recorder does not know becomes an input of the program. */
static cfx_tensor *lift_constant(cfx__recorder *r, cfx_site at, cfx_tensor *t) {
    cfx__export *e = (cfx__export *)r;
    if (!cfx_dict_find(e->known, address(t))) {
        if (!t->data) {
            cfx_fail(CFX_RUNTIME_ERROR, at, "a fake tensor that no recorded call made was used");
            return &cfx__tensor_bad;
        }
        cfx__branch *inside = cfx__record_leave(r);
        cfx_dict_put(e->known, address(t), cfx_tensor_value(add_constant(e, at, t)));
        cfx__record_return(r, inside);
        cfx_list_append(e->kept, cfx_tensor_value(t));
    }
    return cfx_as_tensor(*cfx_dict_find(e->known, address(t)));
}

/* Parameters, buffers and tensors that are attributes. */
static bool holds(cfx__recorder *r, const cfx_tensor *t) {
    const cfx__export *e = (const cfx__export *)r;
    return cfx_dict_find(e->held, address(t)) ||
           (cfx_dict_find(e->known, address(t)) && !is_lifted(e, t));
}

/* "layers.0.weight" to "modules_layers_modules_0_parameters_weight", what PyTorch sorts by. */
static const char *place(cfx__recorder *r, const cfx_node *n) {
    const cfx__export *e = (const cfx__export *)r;
    const cfx_input_spec *in = NULL;
    for (size_t i = 0; i < e->inputs.len && !in; i++)
        if (!strcmp(e->inputs.data[i].name, n->name))
            in = &e->inputs.data[i];
    if (!in || !in->target)
        return NULL;
    cfx__text t = {0};
    const char *at = in->target;
    for (const char *dot; (dot = strchr(at, '.')); at = dot + 1)
        cfx__text_printf(&t, "modules_%.*s_", (int)(dot - at), at);
    cfx__text_printf(&t, "%s%s_",
                     in->kind == CFX_IN_PARAMETER ? "parameters_"
                     : in->kind == CFX_IN_BUFFER  ? "buffers_"
                                                  : "",
                     at);
    return cfx__text_take(&t);
}

/* ---- the caller's inputs --------------------------------------------------------------------- */

typedef struct {
    cfx__export *e;
    cfx__dims *dims;  /* not NULL: what varies is noted there, and nothing else done */
    cfx_list *leaves; /* the fake tensors */
} taking;

/* What the caller says of the sizes of a tensor: by number of the dimension, or in their order. */
static void note_dims(cfx__dims *d, const char *source, const cfx_tensor *x, cfx_value sizes) {
    if (sizes.tag == CFX_TAG_LIST || sizes.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(sizes)->len && i < x->ndim; i++)
            if (!cfx_is_none(cfx_as_list(sizes)->items[i]))
                cfx__dims_note(d, source, (int)i, x->shape[i], cfx_as_list(sizes)->items[i]);
    for (int64_t i = 0; sizes.tag == CFX_TAG_DICT && i < cfx_as_dict(sizes)->len; i++) {
        cfx_value dim = cfx_as_dict(sizes)->entries[i].key,
                  given = cfx_as_dict(sizes)->entries[i].value;
        const char *text = cfx_text(dim);
        int at = cfx__shape_wrap_dim((cfx_site){0},
                                     text ? strtoll(text, NULL, 10) : cfx_integer(dim), x->ndim);
        if (at >= 0 && !cfx_is_none(given))
            cfx__dims_note(d, source, at, x->shape[at], given);
    }
}

/* The strides of a tensor as expressions of its sizes: each is a size times a smaller stride, as it
 * is in the example, so that what lies by columns does so at other sizes; else it is a number. */
static cfx_value strides_with_symbols(const cfx_tensor *x, cfx_value shape) {
    cfx_value stride[CFX_MAX_DIMS];
    int order[CFX_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) { /* the smallest first, of equal ones the last */
        const int d = x->ndim - 1 - i;
        int k = i;
        for (; k > 0 && x->stride[order[k - 1]] > x->stride[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    for (int i = 0; i < x->ndim; i++) {
        const int d = order[i];
        stride[d] = cfx_int(x->stride[d]);
        for (int k = i; x->stride[d] > 1 && k-- > 0;)
            if (x->shape[order[k]] * x->stride[order[k]] == x->stride[d]) {
                stride[d] = cfx__sym_binary(CFX__SYM_MUL, stride[order[k]],
                                            cfx_as_list(shape)->items[order[k]]);
                break;
            }
    }
    return cfx_tuple_value(x->ndim, stride);
}

/* The tensor as metadata has it: with expressions for sizes. None where none varies. */
static cfx_value with_symbols(const cfx__export *e, const char *source, const cfx_tensor *x) {
    cfx_value shape = cfx_tuple_value(0, NULL);
    bool varies = false;
    for (int i = 0; i < x->ndim; i++) {
        cfx_value size = cfx__dims_find(e->dims, source, i);
        varies |= size.tag == CFX_TAG_SYM;
        cfx_list_append(cfx_as_list(shape), cfx_is_none(size) ? cfx_int(x->shape[i]) : size);
    }
    if (!varies)
        return cfx_none();
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value((cfx_dtype)x->dtype));
    cfx_dict_set(d, "stride", strides_with_symbols(x, shape));
    cfx_dict_set(d, "device", cfx_device_value(x->device));
    return cfx_dict_value(d);
}

static void take_tensor(taking *t, const char *name, const char *source, cfx_tensor *x,
                        cfx_value sizes) {
    if (t->dims) {
        note_dims(t->dims, source, x, sizes);
        return;
    }
    cfx_value val = with_symbols(t->e, source, x);
    cfx_value like = cfx_is_none(val) ? cfx_tensor_value(x)
                                      : cfx__worlds_tensor(&t->e->dims->worlds, t->e->k, val);
    if (like.tag != CFX_TAG_TENSOR)
        return;
    cfx_tensor *fake =
        add_input(t->e, name, (cfx_input_spec){.kind = CFX_IN_USER}, cfx_as_tensor(like), val);
    cfx_list_append(t->leaves, cfx_tensor_value(fake));
}

/* A number that may vary is an input, another value a constant. */
static void take_plain(taking *t, const char *name, const char *source, cfx_value v,
                       cfx_value sizes) {
    if (t->dims) {
        if (!cfx_is_none(sizes))
            cfx__dims_note(t->dims, source, CFX__NO_DIM, cfx_integer(v), sizes);
        return;
    }
    cfx_value number = cfx__dims_find(t->e->dims, source, CFX__NO_DIM);
    bool varies = number.tag == CFX_TAG_SYM;
    cfx_input_spec spec = {.kind = CFX_IN_USER, .constant = !varies,
                           .value = varies ? cfx_none() : cfx_value_keep(v)};
    add_input(t->e, name, spec, NULL, cfx_none());
    cfx_node *n = varies ? cfx_graph_find(t->e->recorder.graph, name) : NULL;
    if (n)
        cfx_node_set_meta(n, "val", number);
    cfx_list_append(t->leaves,
                    varies ? cfx__worlds_value(&t->e->dims->worlds, t->e->k, number) : v);
}

static cfx_value part(cfx_value sizes, int64_t i) {
    bool list = sizes.tag == CFX_TAG_LIST || sizes.tag == CFX_TAG_TUPLE;
    return list && i < cfx_as_list(sizes)->len ? cfx_as_list(sizes)->items[i] : cfx_none();
}

/* Names follow the way to the leaf: batch["pair"][0] is batch_pair_0. What is said of sizes is
 * nested as the argument is. */
static void take(taking *t, const char *name, const char *source, cfx_value v, cfx_value sizes) {
    if (v.tag == CFX_TAG_TENSOR) {
        take_tensor(t, name, source, cfx_as_tensor(v), sizes);
    } else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        const cfx_tree_type *type = cfx_tree_type_of(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            const char *field = type && type->fields ? type->fields[i]
                                                     : cfx__text_format("%lld", (long long)i);
            take(t, cfx__text_format("%s_%s", name, field),
                 cfx__text_format(type && type->fields ? "%s.%s" : "%s[%s]", source, field),
                 cfx_as_list(v)->items[i], part(sizes, i));
        }
    } else if (v.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
            cfx_value key = cfx_as_dict(v)->entries[i].key;
            const cfx_value *own =
                sizes.tag == CFX_TAG_DICT ? cfx_dict_find(cfx_as_dict(sizes), key) : NULL;
            take(t, cfx__text_format("%s_%s", name, cfx_value_str(key)),
                 cfx__text_format("%s[%s]", source, cfx_value_repr(key)),
                 cfx_as_dict(v)->entries[i].value, own ? *own : cfx_none());
        }
    } else {
        take_plain(t, name, source, v, sizes);
    }
    if (!t->dims && !t->e->first_user && t->e->inputs.len > (size_t)t->e->nconstants)
        t->e->first_user =
            cfx_graph_find(t->e->recorder.graph, t->e->inputs.data[t->e->nconstants].name);
}

const char *cfx__export_argument(const cfx__signature *s, int64_t i) {
    for (int k = 0; s && k < s->n; k++)
        if (s->params[k].kind == CFX__VAR_ARGS && i >= k)
            return cfx__text_format("%s_%lld", s->params[k].name, (long long)(i - k));
    return s && i < s->n ? s->params[i].name : cfx__text_format("arg_%lld", (long long)i);
}

/* Where PyTorch says that positional argument i is from: "L['x']", "L['rest'][0]" of *rest. */
static const char *argument_source(const cfx__signature *s, int64_t i) {
    for (int k = 0; s && k < s->n; k++)
        if (s->params[k].kind == CFX__VAR_ARGS && i >= k)
            return cfx__text_format("L['%s'][%lld]", s->params[k].name, (long long)(i - k));
    return cfx__text_format("L['%s']", cfx__export_argument(s, i));
}

/* The same of a keyword argument: "L['more']['x']" of **more. */
static const char *keyword_source(const cfx__signature *s, const char *name) {
    const char *more = NULL;
    for (int k = 0; s && k < s->n; k++) {
        if (s->params[k].kind == CFX__VAR_KEYWORDS)
            more = s->params[k].name;
        else if (s->params[k].kind != CFX__VAR_ARGS && !strcmp(s->params[k].name, name))
            return cfx__text_format("L['%s']", name);
    }
    return more ? cfx__text_format("L['%s']['%s']", more, name)
                : cfx__text_format("L['%s']", name);
}

static void take_argument(taking *t, cfx_value dynamic, const char *name, const char *source,
                          cfx_value v) {
    cfx_value sizes =
        dynamic.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(dynamic), name) : cfx_none();
    if (!t->dims)
        cfx_list_append(cfx_as_list(t->e->names), cfx_string_value(name));
    take(t, name, source, v, sizes);
}

static void take_arguments(taking *t, cfx_value args, cfx_value kwargs, cfx_value dynamic) {
    cfx__signature *made;
    const cfx__signature *s = cfx__root_signature(t->e->root, &made);
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        take_argument(t, dynamic, cfx__export_argument(s, i), argument_source(s, i),
                      cfx_as_list(args)->items[i]);
    for (int64_t i = 0; i < cfx_as_dict(kwargs)->len; i++) {
        const char *name = cfx_text(cfx_as_dict(kwargs)->entries[i].key);
        take_argument(t, dynamic, name, keyword_source(s, name),
                      cfx_as_dict(kwargs)->entries[i].value);
    }
    cfx__signature_free(made);
}

/* All arguments by their names, and what is said of *args for each of these. */
static cfx_value named_arguments(const cfx__request *r, const cfx__signature *s, cfx_value *spec) {
    cfx_dict *all = cfx_dict_new(), *said = cfx_dict_new();
    const cfx_list *args = cfx_as_list(r->args);
    for (int64_t i = 0; i < args->len; i++)
        cfx_dict_set(all, cfx__export_argument(s, i), args->items[i]);
    for (int64_t i = 0; i < cfx_as_dict(r->kwargs)->len; i++)
        cfx_dict_put(all, cfx_as_dict(r->kwargs)->entries[i].key,
                     cfx_as_dict(r->kwargs)->entries[i].value);
    for (int64_t i = 0; spec->tag == CFX_TAG_DICT && i < cfx_as_dict(*spec)->len; i++) {
        cfx_value key = cfx_as_dict(*spec)->entries[i].key,
                  own = cfx_as_dict(*spec)->entries[i].value;
        int rest = -1;
        for (int k = 0; s && k < s->n; k++)
            if (s->params[k].kind == CFX__VAR_ARGS && cfx_text(key) &&
                !strcmp(s->params[k].name, cfx_text(key)))
                rest = k;
        if (rest < 0 || (own.tag != CFX_TAG_LIST && own.tag != CFX_TAG_TUPLE))
            cfx_dict_put(said, key, own);
        else
            for (int64_t k = 0; k < cfx_as_list(own)->len; k++)
                cfx_dict_set(said, cfx__export_argument(s, rest + k), cfx_as_list(own)->items[k]);
    }
    if (spec->tag == CFX_TAG_DICT)
        *spec = cfx_dict_value(said);
    return cfx_dict_value(all);
}

void cfx__export_note_dims(cfx__request *r, cfx_value dynamic) {
    taking t = {&(cfx__export){.root = r->module}, &r->dims, NULL};
    cfx__signature *made;
    const cfx__signature *s = cfx__root_signature(r->module, &made);
    cfx_value inputs = named_arguments(r, s, &dynamic);
    cfx__signature_free(made);
    dynamic = cfx__spec_check(inputs, dynamic);
    if (!cfx_is_bad(dynamic))
        take_arguments(&t, r->args, r->kwargs, dynamic);
}

/* The caller's inputs as placeholders; args and kwargs of fake tensors in their place. */
static bool take_inputs(cfx__export *e, cfx_value *args, cfx_value *kwargs) {
    cfx_list *real = cfx_as_list(cfx_list_value(0, NULL));
    taking t = {e, NULL, cfx_as_list(cfx_list_value(0, NULL))};
    cfx_value spec = cfx_tree_flatten(cfx_tuple(*args, *kwargs), real);
    e->in_spec = cfx_value_keep(spec);
    take_arguments(&t, *args, *kwargs, cfx_none());
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

/* Everything stays whole but x.float(), x.bool() and their like: PyTorch, which does not have all
 * of these as operators, records them as conversions. */
static cfx_op_fn *decomposition_for(cfx__recorder *r, cfx_op *op, bool early) {
    (void)r, (void)early;
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    bool named = op->torch_ && !strncmp(op->torch_, "Tensor.", 7);
    bool cast = named && (!strncmp(s->name, "_cast_", 6) || !strcmp(s->ns, "cfx"));
    return cast ? op->decompose : NULL;
}

/* ---- what the nn room asks ------------------------------------------------------------------- */

cfx_value cfx__export_known(const cfx__export *e, cfx_value v) {
    const cfx_value *known =
        v.tag == CFX_TAG_TENSOR ? cfx_dict_find(e->known, address(cfx_as_tensor(v))) : NULL;
    return known ? *known : v;
}

static cfx_value export_attr(cfx__nn_layer *self, cfx_site at, cfx_module *m, const char *path) {
    cfx__export *e = (cfx__export *)((char *)self - offsetof(cfx__export, layer));
    return cfx__export_known(e, cfx__module_read(at, m, path));
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void add_output(cfx__export *e, cfx_list *items, cfx_value v) {
    cfx_value arg = cfx__record_arg(&e->recorder, (cfx_site){0}, v);
    cfx_output_spec spec = {.kind = CFX_OUT_USER};
    if (arg.tag == CFX_TAG_NODE)
        spec.name = cfx_as_node(arg)->name;
    else
        spec.value = cfx_value_keep(arg);
    VEC_PUSH(e->outputs, spec);
    cfx_list_append(items, arg);
}

static bool run_forward(cfx__export *e, cfx_value args, cfx_value kwargs) {
    cfx__before before = {0};
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx__assigned_begin(&before, e->root);
    cfx__record_begin(&e->recorder);
    e->layer.attr = export_attr;
    cfx__nn_push(&e->layer);
    cfx_function_mode_push(&e->mode);
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  cfx_as_dict(kwargs)->len ? cfx_as_dict(kwargs) : NULL};
    cfx_value result = cfx_forward_value_from((cfx_site){0}, e->root, a);
    if (cfx_ok() && !cfx_is_bad(result))
        e->out_spec = cfx_value_keep(cfx_tree_flatten(result, leaves));
    cfx__assigned_end(e, &before, leaves);
    cfx_function_mode_pop();
    cfx__nn_pop(&e->layer);
    cfx_value items = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < leaves->len && cfx_ok(); i++)
        add_output(e, cfx_as_list(items), leaves->items[i]);
    cfx__record_end(&e->recorder);
    if (cfx_ok())
        cfx_graph_output(e->recorder.graph, items);
    return cfx_ok();
}

bool cfx__export_record(cfx__export *e, cfx__request *r, int k) {
    cfx_value args = r->args, kwargs = r->kwargs;
    *e = (cfx__export){.root = r->module,
                       .dims = &r->dims,
                       .k = k,
                       .joints = &r->joints,
                       .recorder = {.graph = cfx_keep(cfx_graph_new()),
                                    .numbers = r->dims.worlds.symbols.len > 0,
                                    .decomposition_for = decomposition_for,
                                    .unknown_tensor = lift_constant,
                                    .data_size = cfx__unknown_size,
                                    .part_size = cfx__unknown_part,
                                    .sized = cfx__unknown_sized,
                                    .unknown = cfx__unknown_number,
                                    .holds = holds,
                                    .marks = &e->marks,
                                    .either = cfx__unknown_either,
                                    .place = place,
                                    .note = cfx__export_note},
                       .known = cfx_keep(cfx_dict_new()),
                       .held = cfx_keep(cfx_dict_new()),
                       .paths = cfx_keep(cfx_dict_new()),
                       .kept = cfx_keep(cfx_as_list(cfx_list_value(0, NULL))),
                       .state = cfx_keep(cfx_module_state_dict(r->module)),
                       .constants = cfx_keep(cfx_dict_new()),
                       .ranges = cfx_keep(cfx_dict_new()),
                       .names = cfx_value_keep(cfx_list_value(0, NULL))};
    cfx_module_walk(r->module, lift_held, &(lifting){e, true});
    cfx_module_walk(r->module, lift_held, &(lifting){e, false});
    cfx_module_walk(r->module, note_module, e);
    e->nconstants = (int)e->inputs.len;
    return cfx__levels_begin(e, r->preserve) && cfx_ok() && take_inputs(e, &args, &kwargs) &&
           run_forward(e, args, kwargs);
}

void cfx__export_end(cfx__export *e) {
    for (size_t i = 0; i < e->inputs.len; i++)
        cfx_value_drop(e->inputs.data[i].value);
    for (size_t i = 0; i < e->outputs.len; i++)
        cfx_value_drop(e->outputs.data[i].value);
    VEC_FREE(e->inputs);
    VEC_FREE(e->outputs);
    VEC_FREE(e->stack);
    VEC_FREE(e->read);
    cfx__levels_end(e);
    cfx__marks_free(&e->marks);
    cfx__free(e->file.text);
    cfx_value_drop(e->in_spec);
    cfx_value_drop(e->out_spec);
    cfx_value_drop(e->guards);
    cfx_value_drop(e->probed);
    cfx__arena_release(&e->arena);
    cfx_drop(e->known), cfx_drop(e->held), cfx_drop(e->paths), cfx_drop(e->kept);
    cfx_drop(e->state);
    cfx_drop(e->constants), cfx_drop(e->ranges), cfx_value_drop(e->names);
    cfx_drop(e->recorder.graph);
}
