/* The tracer: how calls, module calls and attribute reads become nodes. Start at trace_call, which
 * the dispatcher asks before every call by name while a tracer is active. */
#include <cfx/export.h>
#include <cfx/ops.h>

#include "branch.h"
#include "trace.h"
#include "../value/walk.h"

/* ---- what the thread has --------------------------------------------------------------------- */

typedef struct {
    cfx__tracer *now;
    struct cfx__recorder *recorder;
    cfx_value custom;  /* what nodes are annotated with, a dict or None; counted */
    cfx_tensor *blank; /* whose storage, which holds nothing, all traced tensors share; counted */
} trace_state;

static void *state_make(void) {
    trace_state *s = cfx__alloc0(sizeof *s);
    s->custom = cfx_none();
    return s;
}

static void state_free(void *p) {
    cfx_drop(((trace_state *)p)->blank);
    cfx_value_drop(((trace_state *)p)->custom);
    cfx__free(p);
}

static trace_state *state(void) { return cfx__ctx_slot(CFX__SLOT_TRACE, state_make, state_free); }

cfx_value cfx_annotate(cfx_value custom) {
    trace_state *s = state();
    cfx_value was = s->custom;
    if (custom.tag != CFX_TAG_DICT && !cfx_is_none(custom)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "annotations are a dict, got %s",
                 cfx__value_python_type(custom));
        return cfx_bad();
    }
    s->custom = cfx_value_keep(custom);
    return cfx__value_scope_own(was);
}

cfx_value cfx__trace_annotation(void) { return state()->custom; }

static const cfx_tensor *blank(void) {
    trace_state *s = state();
    if (!s->blank) {
        size_t mark = cfx_scope_open();
        s->blank = cfx_keep(cfx__tensor_empty((cfx_site){0}, CFX_F32, true, 0, NULL, NULL));
        cfx_scope_close(mark);
    }
    return s->blank;
}

/* ---- traced tensors -------------------------------------------------------------------------- */

cfx_tensor *cfx__traced_tensor(cfx_node *n) {
    if (!n->graph)
        return &cfx__tensor_bad;
    cfx_tensor *t = cfx__tensor_alias(blank(), 0, NULL, NULL, cfx__node_of(n)->id);
    t->head.flags |= CFX__TRACED;
    t->proxy = cfx_keep(n->graph);
    return t;
}

cfx_tensor *cfx_proxy(cfx_node *n) {
    return cfx__node_given(n) ? cfx__traced_tensor(n) : &cfx__tensor_bad;
}

cfx_node *cfx_proxy_node_of(cfx_value v) {
    return cfx_is_bad(v) ? cfx__node_bad : cfx__traced_node(v);
}

/* The first traced node inside a value, or NULL. */
static bool note_traced(cfx_value v, void *found) {
    *(cfx_node **)found = cfx__traced_node(v);
    return !*(cfx_node **)found;
}

static cfx_node *any_traced(cfx_value v) {
    cfx_node *n = NULL;
    cfx__value_each(v, note_traced, &n);
    return n;
}

cfx_node *cfx__trace_any(cfx_args a) {
    cfx_node *n = NULL;
    for (int i = 0; i < a.n && !n; i++)
        n = any_traced(a.v[i]);
    return n || !a.kw ? n : any_traced(cfx_dict_value(a.kw));
}

/* ---- paths ----------------------------------------------------------------------------------- */

static cfx_value address(const void *p) { return cfx_int((int64_t)(intptr_t)p); }

static void note_tensors(cfx__tracer *t, const char *path, const cfx_dict *tensors,
                         bool parameters) {
    for (int64_t i = 0; tensors && i < tensors->len; i++) {
        cfx_value v = tensors->entries[i].value;
        if (v.tag != CFX_TAG_TENSOR || cfx_dict_find(t->tensor_paths, address(cfx_as_tensor(v))))
            continue;
        if (parameters)
            cfx_dict_put(t->parameters, address(cfx_as_tensor(v)), cfx_none());
        const char *name = cfx_text(tensors->entries[i].key);
        cfx_dict_put(t->tensor_paths, address(cfx_as_tensor(v)),
                     cfx_string_value(*path ? cfx__text_format("%s.%s", path, name) : name));
    }
}

static void note_module(const char *path, cfx_module *m, void *user) {
    cfx__tracer *t = user;
    CFX_SCOPE {
        if (!cfx_dict_find(t->module_paths, address(m)))
            cfx_dict_put(t->module_paths, address(m), cfx_string_value(path));
        note_tensors(t, path, m->parameters, true);
        note_tensors(t, path, m->buffers, t->config && t->config->proxy_buffer_attributes);
        note_tensors(t, path, m->attrs, false);
    }
}

/* The path of a module under the root, or NULL. */
static const char *path_of(cfx__tracer *t, const cfx_module *m) {
    const cfx_value *path = cfx_dict_find(t->module_paths, address(m));
    return path ? cfx_text(*path) : NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A tensor that is neither traced nor a parameter or buffer: root keeps it as a constant. */
static const char *constant_path(cfx__tracer *t, cfx_tensor *tensor) {
    const char *name = NULL;
    for (int i = 0; !name; i++) {
        const char *free_name = cfx__text_format("_tensor_constant%d", i);
        if (!cfx_module_has(t->root, free_name))
            name = free_name;
    }
    cfx_module_set_attr(t->root, name, cfx_tensor_value(tensor));
    cfx_dict_put(t->tensor_paths, address(tensor), cfx_string_value(name));
    return name;
}

/* Outside tracing the tensors of the module are looked at when one is needed; scope. False, with an
 * error, where no module has the graph. */
static bool learn_paths(cfx__tracer *t, cfx_site at) {
    if (!t->root) {
        cfx_fail(CFX_TYPE_ERROR, at,
                 "a tensor is combined with a node of a graph that belongs to no module, so "
                 "nothing can own the tensor: give the graph to a module first");
        return false;
    }
    t->module_paths = cfx_dict_new();
    t->tensor_paths = cfx_dict_new();
    t->parameters = cfx_dict_new();
    cfx_module_walk(t->root, note_module, t);
    return true;
}

static cfx_value tensor_arg(cfx__tracer *t, cfx_site at, cfx_value v) {
    if (!t->tensor_paths && !learn_paths(t, at))
        return cfx_bad();
    const cfx_value *known = cfx_dict_find(t->tensor_paths, address(cfx_as_tensor(v)));
    const char *path = known ? cfx_text(*known) : constant_path(t, cfx_as_tensor(v));
    cfx_node *n = cfx__tracer_node(t, at, CFX_GET_ATTR, (cfx_target){.name = path}, (cfx_args){0});
    return n->graph ? cfx_node_value(n) : cfx_bad();
}

/* A list or tuple of what its items become; a NamedTuple is made by a node of its own. */
static cfx_value list_arg(cfx__tracer *t, cfx_site at, cfx_value v) {
    cfx_value out = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), cfx__tracer_arg(t, at, cfx_as_list(v)->items[i]));
    const cfx_tree_type *type = cfx_tree_type_of(v);
    if (!type || !type->fields)
        return out;
    cfx_node *n = cfx__tracer_node(t, at, CFX_CALL_FUNCTION, (cfx_target){.name = type->path},
                                   (cfx_args){(int)cfx_as_list(out)->len,
                                              cfx_as_list(out)->items, NULL});
    return n->graph ? cfx_node_value(n) : cfx_bad();
}

static cfx_value dict_arg(cfx__tracer *t, cfx_site at, cfx_value v) {
    cfx_dict *out = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(v)->len; i++) {
        struct cfx_entry e = cfx_as_dict(v)->entries[i];
        if (any_traced(e.key)) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Keys for dictionaries used as an argument cannot contain a Node. Got key: %s",
                     cfx_value_repr(e.key));
            return cfx_bad();
        }
        cfx_dict_put(out, e.key, cfx__tracer_arg(t, at, e.value));
    }
    return cfx_dict_value(out);
}

/* The node that stands for a traced value in t's graph, as a value. */
static cfx_value node_arg(cfx__tracer *t, cfx_site at, cfx_node *n) {
    cfx_node *here = t->branch ? cfx__branch_lift(t->branch, n) : NULL;
    if (here)
        return cfx_node_value(here);
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "Found multiple different tracers while trying to trace an operation: %s belongs to "
             "another graph", n->name);
    return cfx_bad();
}

cfx_value cfx__tracer_arg(cfx__tracer *t, cfx_site at, cfx_value v) {
    cfx_node *n = cfx__traced_node(v);
    if (n)
        return n->graph == t->graph ? cfx_node_value(n) : node_arg(t, at, n);
    switch (v.tag) {
    case CFX_TAG_TENSOR: return tensor_arg(t, at, v);
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return list_arg(t, at, v);
    case CFX_TAG_DICT: return dict_arg(t, at, v);
    case CFX_TAG_SLICE:
        return cfx_slice_value(cfx__tracer_arg(t, at, cfx_as_slice(v)->start),
                               cfx__tracer_arg(t, at, cfx_as_slice(v)->stop),
                               cfx__tracer_arg(t, at, cfx_as_slice(v)->step));
    default: return v;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The module stack as a dict of key to (path, type), made once for each state of it. */
static cfx_value levels_now(cfx__tracer *t) {
    if (!cfx_is_none(t->levels) || !t->stack.len)
        return t->levels;
    cfx_dict *levels = cfx_keep(cfx_dict_new());
    for (size_t i = 0; i < t->stack.len; i++)
        cfx_dict_set(levels, t->stack.data[i].key,
                     cfx_tuple(t->stack.data[i].path, t->stack.data[i].type));
    return t->levels = cfx_dict_value(levels);
}

static void forget_levels(cfx__tracer *t) {
    cfx_value_drop(t->levels);
    t->levels = cfx_none();
}

static void push_level(cfx__tracer *t, cfx__trace_level level) {
    VEC_PUSH(t->stack, level);
    forget_levels(t);
}

static void pop_level(cfx__tracer *t) {
    t->stack.len--;
    forget_levels(t);
}

static void drop_origin(cfx__trace_origin *o) {
    cfx_drop(o->meta);
    *o = (cfx__trace_origin){0};
}

void cfx__tracer_forget(cfx__tracer *t) {
    for (int i = 0; i < CFX__ORIGINS; i++)
        drop_origin(&t->origins[i]);
}

/* Nodes of one line share their metadata until one of them changes its own. An origin keeps the
 * dict of the stack through `meta`, so its address tells stacks apart. */
static cfx_dict *shared_meta(cfx__tracer *t, cfx_site at) {
    cfx_value levels = levels_now(t);
    const void *key = cfx_is_none(levels) ? NULL : cfx__value_object(levels);
    size_t hash = ((uintptr_t)at.file >> 4) + (size_t)at.line + ((uintptr_t)key >> 5);
    cfx__trace_origin *o = &t->origins[hash % CFX__ORIGINS];
    if (o->meta && o->at.file == at.file && o->at.line == at.line && o->levels == key)
        return o->meta;
    drop_origin(o);
    cfx_dict *meta = cfx_keep(cfx_dict_new());
    if (at.file)
        cfx_dict_set(meta, "source", cfx_string_value(cfx__text_format("%s:%d", at.file, at.line)));
    if (key)
        cfx_dict_set(meta, "nn_module_stack", levels);
    *o = (cfx__trace_origin){at, key, meta};
    return meta;
}

static void add_meta(cfx__tracer *t, cfx_site at, cfx_node *n) {
    cfx_dict *meta = t->like ? t->like->meta : at.file || t->stack.len ? shared_meta(t, at) : NULL;
    n->meta = cfx_keep(meta);
}

/* The arguments as a frozen tuple, where they are traced tensors of this graph and plain values:
 * what nearly all calls have. One count, the caller's; bad where they are more than that. */
static cfx_value plain_args(cfx__tracer *t, cfx_args a) {
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag > CFX_TAG_TENSOR || a.v[i].tag == CFX_TAG_NODE ||
            (a.v[i].tag >= CFX_TAG_SLICE &&
             !(a.v[i].tag == CFX_TAG_TENSOR && (cfx_as_tensor(a.v[i])->head.flags & CFX__TRACED) &&
               cfx_as_tensor(a.v[i])->proxy == t->graph)))
            return cfx_bad();
    cfx_list *args = cfx__list_alloc(a.n);
    args->head.flags |= CFX__FROZEN;
    for (int i = 0; i < a.n; i++)
        args->items[i] = a.v[i].tag == CFX_TAG_TENSOR ? cfx_node_value(cfx__traced_node(a.v[i]))
                                                      : cfx_value_keep(a.v[i]);
    return cfx__value_of_list((cfx_value){.tag = CFX_TAG_TUPLE}, args);
}

/* The node for a call whose target has this row. */
static cfx_node *row_node(cfx__tracer *t, cfx_site at, cfx_opcode op, cfx__target_row *row,
                          cfx_args a) {
    size_t mark = cfx_scope_open();
    cfx_value args = a.n ? plain_args(t, a) : cfx_none();
    if (cfx_is_bad(args))
        args = cfx__tracer_arg(t, at, cfx_tuple_value(a.n, a.v));
    else if (a.n)
        cfx__scope_own(cfx__value_object(args));
    cfx_value kwargs = a.kw ? cfx__tracer_arg(t, at, cfx_dict_value(a.kw)) : cfx_none();
    cfx_node *n = cfx__node_bad;
    if (!cfx_is_bad(args) && !cfx_is_bad(kwargs))
        n = cfx__graph_create(t->graph, op, row, args, kwargs);
    if (n->graph)
        add_meta(t, at, n);
    cfx_scope_close(mark);
    return n;
}

cfx_node *cfx__tracer_node(cfx__tracer *t, cfx_site at, cfx_opcode op, cfx_target target,
                           cfx_args a) {
    cfx_node *n = row_node(t, at, op, cfx__graph_row(t->graph, op, target), a);
    if (n->graph && target.object)
        cfx__node_put_target(n, target);
    return n;
}

static cfx_value traced_result(cfx_node *n) { return cfx_tensor_value(cfx__traced_tensor(n)); }

/* ---- what the dispatcher asks ---------------------------------------------------------------- */

/* One number that was given, or is the default, for a list: Python hands on the number. */
static cfx_value unspread(const cfx__schema_arg *arg, cfx_args given, int i, cfx_value bound) {
    if (!arg->list || bound.tag != CFX_TAG_LIST || !cfx_as_list(bound)->len)
        return bound;
    cfx_value v = i < given.n ? given.v[i] : cfx_none();
    if (i >= given.n && given.kw)
        v = cfx_dict_get(given.kw, arg->name);
    bool said = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    return said ? v : arg->list_len ? cfx_as_list(bound)->items[0] : bound;
}

/* The Python functions of torch.nn.functional and torch.functional hand their arguments on with
 * defaults filled in: what must be given by position, the rest by name. (pad is one of them, though
 * an operator here.) Scope; a itself where it does not bind. */
static cfx_args handed_on(cfx_site at, cfx_target target, cfx_args a, cfx_value *bound) {
    cfx__op_info *info = target.op ? cfx__op_info_of(target.op) : NULL;
    bool there = !strncmp(target.name, "torch.nn.functional.", 20) ||
                 !strncmp(target.name, "torch.functional.", 17);
    if (!info || !there || !(info->python || target.op == &cfx_op_pad) ||
        !cfx__bind(info->schema, at, cfx__fn_gather(target.fn, a),
                   CFX__BIND_EXACT | CFX__BIND_NUMBERS, bound))
        return a;
    const cfx__schema *s = info->schema;
    cfx_args out = {0, bound, cfx_dict_new()}, given = cfx__dispatch_args_split(a);
    for (int i = 0; i < s->nargs; i++)
        bound[i] = unspread(&s->args[i], given, i, bound[i]);
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i].has_default)
            cfx_dict_set(out.kw, s->args[i].name, bound[i]);
        else
            bound[out.n++] = bound[i];
    bool one_by_one = given.n && out.n == 1 && s->args[0].list && !s->args[0].list_len &&
                      given.v[0].tag != CFX_TAG_LIST && given.v[0].tag != CFX_TAG_TUPLE;
    return one_by_one ? (cfx_args){given.n, given.v, out.kw} : out; /* meshgrid(x, y) */
}

/* Whether a call that writes to an operand is refused, and is one; torch.fx's words. */
static bool refuses(const cfx__tracer *t, cfx_site at, cfx_target target, cfx_args a) {
    cfx_value bound[CFX_MAX_ARGS];
    if (!t->config || !t->config->check_mutable_operations || !target.fn)
        return false;
    bool out = a.kw && !cfx_is_none(cfx_dict_get(a.kw, "out"));
    if (out) {
        cfx_dict *rest = cfx_dict_new();
        for (int64_t i = 0; i < a.kw->len; i++)
            cfx_dict_put(rest, a.kw->entries[i].key, a.kw->entries[i].value);
        cfx_dict_remove(rest, cfx_string_value("out"));
        a.kw = rest;
    }
    cfx_op *op = cfx__fn_overload(at, target.fn, a, bound);
    size_t n = strlen(target.name);
    if (op && out)
        op = cfx__op_out(op);
    else if (op && n > 1 && target.name[n - 1] == '_' && target.name[n - 2] != '_')
        op = cfx__op_inplace(op);
    const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    bool writes = info && info->writes;
    if (writes)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "Tried to trace mutable operation %s. FX only supports functional code, so "
                 "operations that mutate operands in-place (e.g. via `out` arguments) are not "
                 "supported",
                 info->schema->text);
    return writes;
}

/* The method that a call is in Python, with its "Tensor."; NULL for others. An operator on a tensor
 * that is not traced is one, constant.add(x), and two functions of torch.nn.functional are. */
static const char *method_of(const char *name, cfx_args a) {
    static const char *const methods[][2] = {
        {"+add", "Tensor.add"}, {"+sub", "Tensor.sub"}, {"+mul", "Tensor.mul"},
        {"+truediv", "Tensor.div"}, {"+mod", "Tensor.remainder"}, {"+pow", "Tensor.pow"},
        {"+matmul", "Tensor.matmul"}, {"+and_", "Tensor.__and__"}, {"+or_", "Tensor.__or__"},
        {"+xor", "Tensor.__xor__"}, {"+lshift", "Tensor.__lshift__"},
        {"+rshift", "Tensor.__rshift__"}, {"+lt", "Tensor.lt"}, {"+le", "Tensor.le"},
        {"+gt", "Tensor.gt"}, {"+ge", "Tensor.ge"}, {"+eq", "Tensor.eq"}, {"+ne", "Tensor.ne"},
        {"torch.nn.functional.tanh", "Tensor.tanh"},
        {"torch.nn.functional.sigmoid", "Tensor.sigmoid"}};
    bool constant = a.n == 2 && a.v[0].tag == CFX_TAG_TENSOR && !cfx__traced_node(a.v[0]);
    const char *operator_ = constant && !strncmp(name, "operator.", 9) ? name + 9 : "";
    for (int i = 0; i < COUNT(methods); i++)
        if (!strcmp(methods[i][0], name) ||
            (*methods[i][0] == '+' && !strcmp(methods[i][0] + 1, operator_)))
            return methods[i][1];
    return NULL;
}

cfx_value cfx__tracer_call(cfx__tracer *t, cfx_site at, cfx_target target, cfx_args a) {
    cfx_value bound[CFX_MAX_ARGS];
    if (refuses(t, at, target, a))
        return cfx_bad();
    a = handed_on(at, target, a, bound);
    cfx_opcode op = CFX_CALL_FUNCTION;
    const char *method = method_of(target.name, a), *name = method ? method : target.name;
    if (!strncmp(name, "Tensor.", 7)) {
        op = CFX_CALL_METHOD;
        name += 7;
    }
    cfx__target_row *row = cfx__graph_row_named(t->graph, op, name);
    return traced_result(row_node(t, at, op, row, a));
}

/* Whether a call takes something out of a list that is there: Python does that without a call. */
static bool takes_item(cfx_target target, cfx_args a) {
    bool list = a.n == 2 && (a.v[0].tag == CFX_TAG_LIST || a.v[0].tag == CFX_TAG_TUPLE ||
                             a.v[0].tag == CFX_TAG_DICT);
    return list && !any_traced(a.v[1]) && !strcmp(target.name, "operator.getitem");
}

static bool trace_call(cfx_site at, cfx_target target, cfx_args a, cfx_value *result) {
    cfx__tracer *t = cfx__tracer_now();
    if (!t || !cfx__trace_any(a) || takes_item(target, a))
        return false;
    *result = cfx__tracer_call(t, at, target, a);
    return true;
}

/* A change of the grad mode or of autocast, which is none where an operator does it inside. */
static cfx_value trace_mode(cfx_site at, const char *function, cfx_args a) {
    cfx__tracer *t = cfx__tracer_now();
    if (!t || cfx__dispatcher()->below)
        return cfx_none();
    cfx_node *n =
        cfx__tracer_node(t, at, CFX_CALL_FUNCTION, cfx_graph_target(t->graph, function), a);
    return n->graph ? cfx_node_value(n) : cfx_none();
}

/* ---- what the nn room asks ------------------------------------------------------------------- */

/* The level of a module that is called; a second call has a key of its own, "fc@1". */
static void push_call(cfx__tracer *t, const cfx_module *m, const char *path) {
    int64_t before = cfx_integer(cfx_dict_get(t->calls, path));
    cfx_dict_set(t->calls, path, cfx_int(before + 1));
    const char *key = before ? cfx__text_format("%s@%lld", path, (long long)before) : path;
    push_level(t, (cfx__trace_level){key, path, m->path});
}

static cfx_value trace_module(cfx__nn_layer *self, cfx_site at, cfx_module *m,
                              cfx__nn_way way, cfx_args a) {
    (void)way;
    cfx__tracer *t = (cfx__tracer *)((char *)self - offsetof(cfx__tracer, layer));
    const char *path = path_of(t, m);
    if (!path) {
        cfx_fail(CFX_NAME_ERROR, at, "module is not installed as a submodule");
        return cfx_bad();
    }
    bool own = t->config && t->config->is_leaf;
    bool leaf = t->leaves_only || (own ? t->config->is_leaf(t->config, m, path)
                                       : cfx_tracer_is_leaf(t->config, m, path));
    push_call(t, m, path);
    cfx_value v = leaf ? traced_result(cfx__tracer_node(t, at, CFX_CALL_MODULE,
                                                        (cfx_target){.name = path}, a))
                       : cfx__module_call(at, m, a);
    pop_level(t);
    return v;
}

/* A parameter that is read by name has one node however often it is read; anything else that is
 * used gets its node where it is used. */
static cfx_value trace_attr(cfx__nn_layer *self, cfx_site at, cfx_module *m, const char *path) {
    cfx__tracer *t = (cfx__tracer *)((char *)self - offsetof(cfx__tracer, layer));
    cfx_value v = cfx__module_read(at, m, path);
    if (v.tag != CFX_TAG_TENSOR)
        return v;
    const cfx_value *known = cfx_dict_find(t->parameters, address(cfx_as_tensor(v)));
    if (!known)
        return v;
    if (known->tag == CFX_TAG_NODE)
        return traced_result(cfx_as_node(*known));
    cfx_value n = cfx__tracer_arg(t, at, v);
    if (n.tag != CFX_TAG_NODE)
        return cfx_bad();
    cfx_dict_put(t->parameters, address(cfx_as_tensor(v)), n);
    return traced_result(cfx_as_node(n));
}

/* ---- begin and end --------------------------------------------------------------------------- */

cfx__tracer *cfx__tracer_now(void) { return state()->now; }

/* A sub-graph is traced over the same modules and tensors as the graph around it, but parameters
 * have a node of their own in it. */
static void share_paths(cfx__tracer *t) {
    const cfx__tracer *outer = t->outer;
    t->module_paths = cfx_keep(outer->module_paths);
    t->tensor_paths = cfx_keep(outer->tensor_paths);
    t->calls = cfx_keep(outer->calls);
    t->parameters = cfx_keep(cfx_dict_new());
    for (int64_t i = 0; i < outer->parameters->len; i++)
        cfx_dict_put(t->parameters, outer->parameters->entries[i].key, cfx_none());
    for (size_t i = 0; i < outer->stack.len; i++)
        VEC_PUSH(t->stack, outer->stack.data[i]);
}

struct cfx__recorder **cfx__recorder_slot(void) { return &state()->recorder; }

void cfx__tracer_begin(cfx__tracer *t) {
    cfx__dispatch *d = cfx__dispatcher();
    t->outer = state()->now;
    if (t->branch) {
        share_paths(t);
    } else {
        t->module_paths = cfx_keep(cfx_dict_new());
        t->tensor_paths = cfx_keep(cfx_dict_new());
        t->parameters = cfx_keep(cfx_dict_new());
        t->calls = cfx_keep(cfx_dict_new());
        cfx_module_walk(t->root, note_module, t);
    }
    t->layer = (cfx__nn_layer){.call = trace_module, .attr = trace_attr};
    cfx__nn_push(&t->layer);
    t->outer_layer = d->trace;
    t->outer_mode = d->mode;
    t->modes_before = cfx__modes_now();
    d->trace = trace_call;
    d->mode = trace_mode;
    state()->now = t;
}

void cfx__tracer_end(cfx__tracer *t) {
    state()->now = t->outer;
    cfx__dispatcher()->trace = t->outer_layer;
    cfx__dispatcher()->mode = t->outer_mode;
    cfx__modes_restore(t->modes_before);
    cfx__nn_pop(&t->layer);
    cfx_drop(t->module_paths);
    cfx_drop(t->tensor_paths);
    cfx_drop(t->parameters);
    cfx_drop(t->calls);
    VEC_FREE(t->stack);
    forget_levels(t);
    cfx__tracer_forget(t);
}
