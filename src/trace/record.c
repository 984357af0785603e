/* Recording: calls on fake tensors become nodes of an ATen graph. Start at record_call. Most
 * calls become a node and run on the fake tensors that stand for it. Exceptions: arithmetic on
 * plain numbers makes a node only with dynamic sizes; a query (size, stride) makes none unless
 * its answer depends on data; a decomposed call is recorded through its parts; in a functional
 * graph a write makes a new value; a number read from a tensor is marked (marks.h). */
#include <cfx/ops.h>

#include "record.h"
#include "../value/default.h"

/* ---- shadows --------------------------------------------------------------------------------- */

cfx_tensor *cfx__record_outline(const cfx_tensor *like) {
    cfx_tensor *t = cfx__tensor_faked(like);
    if (cfx__obj_is_bad(t))
        return t;
    t->storage->size = like->storage->size;
    t->offset = like->offset;
    return t;
}

cfx_tensor *cfx__recorded_tensor(cfx__recorder *r, cfx_node *n, const cfx_tensor *like) {
    if (!n->graph)
        return &cfx__tensor_bad;
    cfx_tensor *t = cfx__record_outline(like);
    if (cfx__obj_is_bad(t))
        return t;
    cfx__record_shadow_new(t)->node = n;
    return r->functional && !r->inside ? cfx__functional_new(t) : t;
}

cfx_node *cfx__recorded_node(cfx__recorder *r, cfx_value v) {
    if (v.tag != CFX_TAG_TENSOR || !cfx__record_shadow_of(cfx_as_tensor(v)))
        return NULL;
    cfx_tensor *inner = cfx__functional_value(r, cfx_as_tensor(v));
    cfx_node *n = cfx__obj_is_bad(inner) ? NULL : cfx__record_shadow_of(inner)->node;
    return n && r->branch ? cfx__branch_lift(r->branch, n) : n;
}

/* ---- arguments ------------------------------------------------------------------------------- */

cfx_value cfx__record_arg(cfx__recorder *r, cfx_site at, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_TENSOR: {
        cfx_node *n = cfx__recorded_node(r, v);
        if (n)
            return cfx_node_value(n);
        if (cfx_as_tensor(v)->head.flags & CFX__WRAPPED && cfx_as_tensor(v)->data)
            return cfx__tensor_get(cfx_as_tensor(v), 0);
        n = cfx__recorded_node(r, cfx_tensor_value(r->unknown_tensor(r, at, cfx_as_tensor(v))));
        return n ? cfx_node_value(n) : cfx_bad();
    }
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            cfx_value item = cfx__record_arg(r, at, cfx_as_list(v)->items[i]);
            if (cfx_is_bad(item))
                return item;
            cfx_list_append(cfx_as_list(out), item);
        }
        return out;
    }
    case CFX_TAG_DICT: {
        cfx_dict *out = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            cfx_dict_put(out, cfx_as_dict(v)->entries[i].key,
                         cfx__record_arg(r, at, cfx_as_dict(v)->entries[i].value));
        return cfx_dict_value(out);
    }
    case CFX_TAG_SYM: return r->scalar ? r->scalar(r, v) : v;
    case CFX_TAG_BOOL: { /* integers and floats are known again when recordings become one */
        const cfx__mark *m = cfx__mark_of(r, v);
        cfx_node *n = m && m->node && r->branch ? cfx__branch_lift(r->branch, m->node)
                      : m                       ? m->node
                                                : NULL;
        return n ? cfx_node_value(n) : cfx__value_plain(v);
    }
    default: {
        const cfx__record_mark *m = cfx__record_mark_of(r->log, v);
        return m && m->dim == CFX__A_NUMBER ? cfx_node_value(m->node)
               : m                          ? v
                                            : cfx__value_plain(v);
    }
    }
}

static bool is_default(const cfx__recorder *r, const cfx__schema_arg *a, cfx_value v) {
    return !cfx__record_is_marked(r->log, v) && cfx__schema_is_default(a, v);
}

/* The arguments of a node from bound ones: defaults at the end are left out. Scope. */
static void node_args(cfx__recorder *r, cfx_site at, const cfx__schema *s, cfx_value *bound,
                      cfx_value *args, cfx_value *kwargs) {
    cfx_value list = cfx_tuple_value(0, NULL);
    cfx_dict *kw = cfx_dict_new();
    int n = s->npositional;
    while (n > 0 && is_default(r, &s->args[n - 1], bound[n - 1]))
        n--;
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), cfx__record_arg(r, at, bound[i]));
    for (int i = s->npositional; i < s->nargs; i++)
        if (!is_default(r, &s->args[i], bound[i]))
            cfx_dict_set(kw, s->args[i].name, cfx__record_arg(r, at, bound[i]));
    *args = list;
    *kwargs = kw->len ? cfx_dict_value(kw) : cfx_none();
}

/* ---- nodes ----------------------------------------------------------------------------------- */

cfx_node *cfx__record_node(cfx__recorder *r, cfx_site at, cfx_target target, cfx_value args,
                           cfx_value kwargs, const char *name) {
    if (!cfx_ok())
        return cfx__node_bad;
    cfx_node *n =
        cfx_graph_create(r->graph, CFX_CALL_FUNCTION, target, args, kwargs, name, NULL);
    if (n->graph && r->like)
        cfx__node_of(n)->origin = cfx__node_of(r->like)->id + 1;
    if (n->graph)
        cfx__record_log_node(r, n);
    if (n->graph && r->note)
        r->note(r, at, n);
    return n;
}

/* What metadata says of a result. */
static void describe(cfx_node *n, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_node_set_meta(n, "val", cfx_tensor_value(cfx__tensor_faked(cfx_as_tensor(v))));
}

/* A tensor of its own that stands for n, though the operator may have given back an argument. */
static cfx_value stand_for(cfx_node *n, cfx_value v) {
    cfx_tensor *t = cfx_as_tensor(v);
    if (t->proxy || t->data)
        t = cfx__record_outline(t);
    if (!cfx__obj_is_bad(t))
        cfx__record_shadow_new(t)->node = n;
    return cfx_tensor_value(t);
}

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* Whether something of a result, or of a list of them, is to be taken from the node. */
static bool has_items(const cfx__recorder *r, cfx_value v) {
    for (int64_t i = 0; is_sequence(v) && i < cfx_as_list(v)->len; i++)
        if (has_items(r, cfx_as_list(v)->items[i]))
            return true;
    return v.tag == CFX_TAG_TENSOR || (v.tag == CFX_TAG_INT && r->numbers);
}

cfx_value cfx__record_results(cfx__recorder *r, cfx_site at, cfx_node *n, cfx_value like) {
    if (!n->graph || cfx_is_bad(like))
        return cfx_bad();
    describe(n, like);
    if (like.tag == CFX_TAG_TENSOR)
        return stand_for(n, like);
    if (!is_sequence(like) || !has_items(r, like))
        return like;
    cfx_value out = cfx__value_like(like), vals = cfx_tuple_value(0, NULL);
    cfx_target getitem = cfx_graph_target(r->graph, "operator.getitem");
    for (int64_t i = 0; i < cfx_as_list(like)->len; i++) {
        cfx_value v = cfx_as_list(like)->items[i];
        cfx_value val = v;
        if (v.tag != CFX_TAG_INT && has_items(r, v)) {
            cfx_node *item = cfx__record_node(r, at, getitem, cfx_tuple(n, i), cfx_none(), NULL);
            v = cfx__record_results(r, at, item, v);
            if (cfx_is_bad(v))
                return v;
            val = cfx_node_get_meta(item, "val");
        } else if (v.tag == CFX_TAG_INT && r->numbers) {
            cfx_node *item = cfx__record_node(r, at, getitem, cfx_tuple(n, i), cfx_none(), NULL);
            if (item->graph)
                cfx_node_set_meta(item, "val", cfx__value_plain(v));
            v = cfx__record_number(r, item, v);
        }
        cfx_list_append(cfx_as_list(out), v);
        cfx_list_append(cfx_as_list(vals), cfx__value_plain(val));
    }
    cfx_node_set_meta(n, "val", vals);
    return out;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What proxies are called: the operator's name without overload, "sum" of aten.sum.dim_IntList. */
static const char *node_name(const cfx__schema *s) {
    size_t n = strlen(s->name);
    cfx__text text = {0};
    bool magic = n > 4 && !strncmp(s->name, "__", 2) && !strcmp(s->name + n - 2, "__");
    const char *bare = magic ? cfx__string_new(s->name + 2, n - 4)->text : s->name;
    cfx__name_snake_case(&text, bare);
    return cfx__text_take(&text);
}

/* Exported programs assert what a tensor is before it is converted. */
static void record_assertion(cfx__recorder *r, cfx_site at, const cfx__schema *s, cfx_value v) {
    if (r->functional || strcmp(s->name, "to") || v.tag != CFX_TAG_TENSOR)
        return;
    cfx_op *op = cfx_op_find("aten._assert_tensor_metadata");
    const cfx_node *last = cfx_graph_last(r->graph);
    if (last && last->target.op == op && cfx_as_node(cfx_at(last->args, 0)) ==
                                             cfx__recorded_node(r, v))
        return; /* a program that is exported again has it already */
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "dtype", cfx_dtype_value((cfx_dtype)cfx_as_tensor(v)->dtype));
    cfx_dict_set(kw, "device", cfx_device_value(cfx_as_tensor(v)->device));
    cfx_dict_set(kw, "layout", cfx_layout_value(CFX_STRIDED));
    cfx__record_node(r, at, (cfx_target){.op = op, .name = cfx_op_name(op)},
                     cfx_tuple(cfx__record_arg(r, at, v)), cfx_dict_value(kw), NULL);
}

/* What Python passes to a constructor that its caller left out. */
static void fill_options(const cfx__schema *s, cfx_value *args) {
    bool makes = s->nargs && s->args[0].type != CFX__T_TENSOR; /* not like another tensor */
    for (int i = s->npositional; i < s->nargs; i++) {
        const cfx__schema_arg *a = &s->args[i];
        if (!cfx_is_none(args[i]) || !a->name || strcmp(s->name, "_to_copy") == 0)
            continue;
        if (!strcmp(a->name, "pin_memory") && strcmp(s->name, "to"))
            args[i] = cfx_bool(false);
        else if (makes && a->type == CFX__T_DEVICE)
            args[i] = cfx_device_value((cfx_device){CFX_CPU, -1});
    }
}

/* What a recorded call does inside is not recorded, the conversions of autocast among it. */
static cfx_value run_inside(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx__op_layer *layer = d->recorder;
    cfx__autocast *region = d->autocast;
    d->recorder = cfx__op_record_nothing;
    bool converts = false, good = !region || cfx__autocast_args(op, args, &converts);
    d->autocast = converts ? NULL : region;
    cfx_value result = good ? cfx__op_run(at, op, args) : cfx_bad();
    d->autocast = converts ? region : d->autocast; /* the call may have ended it */
    d->recorder = layer;
    return result;
}

/* A size that is asked for says whose it is. */
static bool record_size(cfx__recorder *r, cfx_op *op, const cfx_value *args, cfx_value *result) {
    cfx_tensor *t = r->log && op == &cfx_op_sym_size_int ? cfx_as_tensor(args[0]) : NULL;
    int64_t dim = t ? cfx_integer(args[1]) : 0;
    dim = t && dim < 0 ? dim + t->ndim : dim;
    if (!t || dim < 0 || dim >= t->ndim)
        return false;
    *result = cfx__record_size(r, t, (int)dim);
    return true;
}

/* Runs the shape rule, and makes a node of the call. */
static cfx_value record_leaf(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    const cfx__op_info *info = cfx__op_info_of(op);
    const cfx__schema *s = info->schema;
    cfx_value own[CFX_MAX_ARGS], list, kw;
    memcpy(own, args, (size_t)s->nargs * sizeof *own);
    cfx_value result = run_inside(at, op, own);
    if (!cfx_ok() || cfx_is_bad(result))
        return cfx_bad();
    record_assertion(r, at, s, args[0]);
    memcpy(own, args, (size_t)s->nargs * sizeof *own);
    if (!r->functional)
        fill_options(s, own);
    node_args(r, at, s, own, &list, &kw);
    cfx_node *n = cfx__record_node(r, at, (cfx_target){.op = op, .name = cfx_op_name(op)}, list,
                                   kw, node_name(s));
    if (r->sized && n->graph)
        r->sized(r, n);
    cfx_value made = cfx__record_results(r, at, n, result);
    if (cfx_is_bad(made) || info->form != CFX__INPLACE || args[0].tag != CFX_TAG_TENSOR)
        return made;
    cfx_tensor *self = cfx_as_tensor(args[0]);
    if (!cfx__record_shadow_of(self))
        self = r->unknown_tensor(r, at, self); /* the module's, for which another is recorded */
    if (!cfx__record_shadow_of(self))
        return made;
    cfx__record_shadow_of(self)->node = n; /* from now on the tensor is what was written to it */
    return args[0];
}

/* How Python spells arithmetic of plain numbers; NULL for other operators. */
static const char *number_function(const cfx_op *op, const cfx__schema *s) {
    static const char *const spelled[][2] = {
        {"add", "operator.add"},           {"sub", "operator.sub"},
        {"mul", "operator.mul"},           {"div", "operator.truediv"},
        {"floordiv", "operator.floordiv"}, {"floor_divide", "operator.floordiv"},
        {"remainder", "operator.mod"},     {"pow", "operator.pow"},
        {"neg", "operator.neg"},           {"lt", "operator.lt"},
        {"le", "operator.le"},             {"gt", "operator.gt"},
        {"ge", "operator.ge"},             {"eq", "operator.eq"},
        {"ne", "operator.ne"}};
    if (s->nrets != 1 || (s->rets[0].type != CFX__T_SCALAR && s->rets[0].type != CFX__T_FLOAT &&
                          s->rets[0].type != CFX__T_BOOL))
        return NULL;
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i].type != CFX__T_SCALAR)
            return NULL;
    for (int i = 0; i < COUNT(spelled); i++)
        if (!strcmp(spelled[i][0], s->name))
            return spelled[i][1];
    return strcmp(s->ns, "python") ? NULL : op->torch_;
}

/* Arithmetic of numbers is done, and noted: where sizes vary it may be asked how. */
static cfx_value record_number(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args,
                               const char *function) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value own[CFX_MAX_ARGS];
    for (int i = 0; i < s->nargs; i++)
        own[i] = cfx__value_plain(args[i]);
    cfx_value result = run_inside(at, op, own);
    bool noted = result.tag == CFX_TAG_INT || result.tag == CFX_TAG_FLOAT ||
                 (result.tag == CFX_TAG_BOOL && !r->functional);
    if (!cfx_ok() || cfx_is_bad(result))
        return result;
    cfx_args given = {s->nargs, args, NULL};
    const char *end = strchr(function, ' ');
    const char *name = end ? cfx__string_new(function, (size_t)(end - function))->text : function;
    const cfx_fn *fn = r->like ? r->like->target.fn : NULL;
    for (int i = 0; fn && i < fn->n; i++)
        if (fn->ops[i] == op) /* that of the program which is run again, by its own name */
            name = r->like->target.name;
    if (!r->numbers || !noted)
        return cfx__mark_result(r, name, given, result, NULL);
    for (int i = 0; i < s->nargs; i++)
        own[i] = cfx__record_arg(r, at, args[i]);
    cfx_node *n = cfx__record_node(r, at, cfx_graph_target(r->graph, name),
                                   cfx_tuple_value(s->nargs, own), cfx_none(), NULL);
    if (n->graph)
        cfx_node_set_meta(n, "val", result);
    return cfx__record_number(
        r, n, cfx__mark_result(r, name, given, result, n->graph ? n : NULL));
}

/* Questions about sizes and dtypes are answered, not recorded. */
static bool is_question(const cfx__op_info *info) {
    const cfx__schema *s = info->schema;
    return s->nrets == 1 && s->rets[0].type != CFX__T_TENSOR && s->rets[0].type != CFX__T_SCALAR;
}

/* A result in the dtype that the operator gives, which its parts need not compute in. */
static cfx_value given_as(cfx_site at, cfx_tensor *t, cfx_dtype d) {
    if (!t || cfx__obj_is_bad(t) || d == CFX_DTYPE_COUNT || t->dtype == d)
        return cfx_tensor_value(t);
    return cfx_op_do_from(at, &cfx_op__to_copy,
                          CFX_ARGS(t, CFX_KW(dtype, cfx_dtype_value(d))));
}

/* Runs what an operator is made of. Numbers that stand for tensors stay numbers. Bad without an
 * error where that gives nothing: such a call is left whole. */
static cfx_value record_parts(cfx_site at, cfx_op *op, cfx_op_fn *parts, cfx_value *args,
                              const cfx_dtype *given) {
    cfx__op_info *info = cfx__op_info_of(op);
    cfx__dispatch *d = cfx__dispatcher();
    cfx_value own[CFX_MAX_ARGS], out[CFX_MAX_OUTS];
    memcpy(own, args, (size_t)info->schema->nargs * sizeof *own);
    if (!(op->effects & CFX_NUMBERS)) /* whose rules read numbers as they are */
        cfx__op_settle(info->schema, own);
    cfx_op_call c = {.op = op, .at = at, .nargs = info->schema->nargs, .args = own,
                  .nout = info->nout, .fake = true};
    const char *outer = cfx__ctx()->op;
    cfx__ctx()->op = info->name;
    d->below++;
    parts(&c);
    bool gives = c.nout == 0 && !cfx_is_none(c.result);
    for (int i = 0; i < c.nout && cfx_ok(); i++) {
        gives |= c.out[i] != NULL;
        out[i] = given_as(at, c.out[i], given[i]);
    }
    d->below--;
    cfx__ctx()->op = outer;
    if (!cfx_ok() || !gives)
        return cfx_bad();
    return c.nout == 0 ? c.result : c.nout == 1 ? out[0] : cfx_tuple_value(c.nout, out);
}

static cfx_value record_opened(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_op_fn *parts,
                               cfx_value *args) {
    cfx_dtype given[CFX_MAX_OUTS];
    bool made = parts == op->decompose;
    int n = cfx__op_info_of(op)->schema->nargs;
    if (cfx__op_refuses(at, op, args, made ? NULL : given))
        return cfx_bad();
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)n * sizeof *own);
    uint32_t frame = cfx__record_frame_begin(r, n, args);
    cfx_value v = made ? cfx__op_decompose(at, op, own) : record_parts(at, op, parts, args, given);
    cfx__record_frame_end(r, frame);
    return v;
}

/* A write inside a decomposition: the tensor stands for the new value from then on. */
static cfx_value record_write(cfx_site at, cfx_op *op, cfx_value *args) {
    cfx_value v = cfx__op_call_bound(at, cfx__op_info_of(op)->functional, args);
    cfx__record_shadow *s =
        v.tag == CFX_TAG_TENSOR ? cfx__record_shadow_of(cfx_as_tensor(v)) : NULL;
    cfx__record_shadow *self = cfx__record_shadow_of(cfx_as_tensor(args[0]));
    if (!s || !self)
        return v;
    self->node = s->node;
    return args[0];
}

/* Python asks for a contiguous tensor without a call where it has one; a literal is lifted when it
 * becomes an input. */
static bool is_no_call(cfx__recorder *r, cfx_site at, const cfx_op *op, const cfx_value *args) {
    if (op == &cfx_op_lift_fresh && cfx_as_tensor(args[0])->head.flags & CFX__LITERAL)
        return !cfx_is_bad(cfx__record_arg(r, at, args[0]));
    if (r->functional || strcmp(cfx__op_info_of((cfx_op *)op)->schema->name, "contiguous"))
        return false;
    const cfx_tensor *t = cfx_as_tensor(args[0]);
    return cfx_integer(args[1]) == CFX_CHANNELS_LAST      ? cfx__tensor_is_channels_last(t)
           : cfx_integer(args[1]) == CFX_CHANNELS_LAST_3D ? cfx__tensor_is_channels_last_3d(t)
                                               : cfx__tensor_is_contiguous(t);
}

/* The call of an operator: by its parts, as a value of what it would write to, or whole. */
static cfx_value record_op(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    bool early = r->functional && !r->inside;
    cfx_op_fn *parts = r->decomposition_for(r, op, early);
    if (parts) {
        const cfx_value v = record_opened(r, at, op, parts, args);
        if (!cfx_is_bad(v) || !cfx_ok())
            return v;
    }
    if (early) {
        cfx_value v = cfx__functional_call(r, at, op, args);
        cfx__record_log_result(r, v);
        return v;
    }
    return r->functional && cfx__op_info_of(op)->form == CFX__INPLACE &&
                   args[0].tag == CFX_TAG_TENSOR
               ? record_write(at, op, args)
               : record_leaf(r, at, op, args);
}

/* A program that is decomposed has the conversions of autocast in it; one that is exported leaves
 * them to who runs it. */
static cfx_value record_converted(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx__autocast *region = d->autocast;
    bool converts = false, asks = r->functional && region;
    if (asks && !cfx__autocast_args(op, args, &converts)) return cfx_bad();
    d->autocast = converts ? NULL : region;
    cfx_value v = record_op(r, at, op, args);
    d->autocast = converts ? region : d->autocast;
    return v;
}

/* What the caller learns of a tensor, and what functions of Python's give, is marked where it is a
 * number. */
static bool record_question(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args,
                            cfx_value *result) {
    if (!r->marks || cfx__dispatcher()->below || r->asked_of == op)
        return false;
    cfx_args given = {cfx__op_info_of(op)->schema->nargs, args, NULL};
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)given.n * sizeof *own);
    r->asked_of = op;
    cfx_value v = cfx__op_call_bound(at, op, own);
    r->asked_of = NULL;
    *result = cfx_is_bad(v) ? v : cfx__mark_answer(r, op, given, v);
    return true;
}

static bool record_call(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result) {
    cfx__recorder *r = cfx__recorder_now();
    cfx__op_info *info = cfx__op_info_of(op);
    const char *function = r ? number_function(op, info->schema) : NULL;
    if (function) {
        *result = record_number(r, at, op, args, function);
        return true;
    }
    if (r && cfx__check_call(r, at, op, args, result))
        return true;
    if (r && !cfx__mark_settle(r, at, info->schema, args)) {
        *result = cfx_bad();
        return true;
    }
    if (r && record_size(r, op, args, result))
        return true;
    if (!r || info->python || is_question(info))
        return r && record_question(r, at, op, args, result);
    if (cfx__unknown_item(r, at, op, args, result))
        return true;
    if (is_no_call(r, at, op, args)) {
        *result = args[0];
        return true;
    }
    size_t mark = cfx_scope_open();
    cfx_value own[CFX_MAX_ARGS];
    memcpy(own, args, (size_t)info->schema->nargs * sizeof *own);
    cfx__unknown_count(r, op, args);
    *result = cfx_scope_return_value(mark, record_converted(r, at, op, own));
    cfx__implied_note(r, *result, (cfx_args){info->schema->nargs, args, NULL});
    return true;
}

/* ---- begin and end --------------------------------------------------------------------------- */

cfx__recorder *cfx__recorder_now(void) { return *cfx__recorder_slot(); }

static int64_t data_size(void) {
    cfx__recorder *r = cfx__recorder_now();
    return r && r->data_size ? r->data_size(r) : -1;
}

static int64_t part_size(int64_t n) {
    cfx__recorder *r = cfx__recorder_now();
    return r && r->part_size ? r->part_size(r, n) : n;
}

static bool varies(int64_t n) {
    cfx__recorder *r = cfx__recorder_now();
    return r && r->varies && r->varies(r, n);
}

/* A call that changes how those after it run: a node, which the export makes a region of. Programs
 * that are decomposed have none. */
static cfx_value record_mode(cfx_site at, const char *function, cfx_args a) {
    cfx__recorder *r = cfx__recorder_now();
    if (!r || r->functional || cfx__dispatcher()->recorder != record_call)
        return cfx_none();
    cfx_node *n = cfx__record_node(r, at, cfx_graph_target(r->graph, function),
                                   cfx_tuple_value(a.n, a.v), cfx_none(), NULL);
    return n->graph ? cfx_node_value(n) : cfx_none();
}

void cfx__record_branch_begin(cfx__recorder *r, cfx__branch *b) {
    *b = cfx__branch_new(r->graph, r->branch);
    r->branch = b;
    r->graph = b->graph;
}

void cfx__record_branch_end(cfx__recorder *r) {
    r->graph = r->branch->around;
    r->branch = r->branch->outer;
}

cfx__branch *cfx__record_leave(cfx__recorder *r) {
    cfx__branch *inside = r->branch;
    while (r->branch)
        cfx__record_branch_end(r);
    return inside;
}

void cfx__record_return(cfx__recorder *r, cfx__branch *inside) {
    r->branch = inside;
    r->graph = inside ? inside->graph : r->graph;
}

/* What the dispatcher asks of whoever records. */
static void set_hooks(cfx__dispatch *d, bool records, cfx__mode_fn *mode) {
    d->recorder = records ? record_call : NULL;
    d->mode = mode;
    d->data_size = records ? data_size : NULL;
    d->part_size = records ? part_size : NULL;
    d->varies = records ? varies : NULL;
}

void cfx__record_begin(cfx__recorder *r) {
    cfx__dispatch *d = cfx__dispatcher();
    r->outer = cfx__recorder_now();
    *cfx__recorder_slot() = r;
    r->fake_before = cfx_set_fake_mode(true);
    r->modes_before = cfx__modes_now();
    if (!r->functional)
        d->autocast = NULL; /* that of the caller is for who runs the program */
    d->below_autograd++;
    r->mode_before = d->mode;
    set_hooks(d, true, record_mode);
}

void cfx__record_end(cfx__recorder *r) {
    *cfx__recorder_slot() = r->outer;
    cfx_set_fake_mode(r->fake_before);
    cfx__autocast *region = r->modes_before.autocast, **now = &cfx__dispatcher()->autocast;
    cfx__modes_restore((cfx__modes){r->modes_before.grad, r->functional ? region : NULL});
    *now = r->functional ? *now : region; /* which was hidden, so that it is there still */
    cfx__dispatcher()->below_autograd--;
    set_hooks(cfx__dispatcher(), r->outer != NULL, r->mode_before);
}

cfx__record_pause cfx__record_pause_begin(void) {
    const cfx__record_pause p = {cfx__recorder_now(), cfx__dispatcher()->mode};
    *cfx__recorder_slot() = NULL;
    set_hooks(cfx__dispatcher(), false, NULL);
    return p;
}

void cfx__record_pause_end(cfx__record_pause p) {
    *cfx__recorder_slot() = p.recorder;
    set_hooks(cfx__dispatcher(), p.recorder != NULL, p.mode);
}
