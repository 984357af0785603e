/* Targets: from text to what it names, the index of nodes by target, and what a call does beside
 * computing its result. Effects come from the operators' schemas; the few functions that are no
 * operators are in the tables here. */
#include "graph.h"

/* ---- text ----------------------------------------------------------------------------------- */

/* The spelling of a function that graphs show: the first one of the module torch. */
static const char *spelling(const cfx_fn *fn) {
    const char *all = fn->ops[0]->torch_;
    if (!all)
        return fn->name;
    const char *at = strstr(all, "torch.");
    if (!at)
        at = all;
    return cfx__string_new(at, strcspn(at, " "))->text;
}

/* All overloads of an operator, "aten.add" of torch.ops; NULL for one of them. */
static const cfx_fn *find_packet(const char *text) {
    const char *dot = strchr(text, '.');
    return dot && !strchr(dot + 1, '.') ? cfx_fn_find(text) : NULL;
}

/* What a call_function's text names; texts belong to the scope. */
static cfx_target resolve_function(const char *text) {
    const char *own;
    if (!strncmp(text, "torch.ops.", 10)) {
        const cfx_fn *packet = find_packet(text + 10);
        if (packet)
            return (cfx_target){.fn = packet, .op = packet->ops[0], .name = text};
        cfx_op *op = cfx_op_find(text + 10);
        return (cfx_target){.op = op, .name = op ? cfx_op_name(op) : text};
    }
    if (!strncmp(text, "aten.", 5) && find_packet(text))
        return resolve_function(cfx__text_format("torch.ops.%s", text));
    const cfx_fn *fn = cfx__fn_named(text, &own);
    if (fn && !strchr(text, '.'))
        fn = cfx__fn_named(spelling(fn), &own);
    if (fn)
        return (cfx_target){.fn = fn, .op = fn->ops[0], .name = own};
    cfx_op *op = strchr(text, '.') ? cfx_op_find(text) : NULL;
    if (op)
        return (cfx_target){.op = op, .name = cfx_op_name(op)};
    fn = cfx__fn_named_inplace(text, &own);
    if (fn)
        return (cfx_target){.fn = fn, .op = fn->ops[0], .name = own};
    if (!strchr(text, '.') && cfx__name_reserved(text)) {
        const char *full = cfx__text_format("builtins.%s", text);
        fn = cfx_fn_find(full);
        return (cfx_target){.fn = fn, .op = fn ? fn->ops[0] : NULL, .name = full};
    }
    return (cfx_target){.name = text};
}

static cfx_target resolve_method(const char *text) {
    const char *full = cfx__text_format("Tensor.%s", text), *own;
    const cfx_fn *fn = cfx_fn_find(full);
    if (!fn)
        fn = cfx__fn_named_inplace(full, &own);
    return (cfx_target){.fn = fn, .op = fn ? fn->ops[0] : NULL, .name = text};
}

/* ---- which operator -------------------------------------------------------------------------- */

/* "relu" for torch.relu, torch.nn.functional.relu, the method and every overload, "relu_" for what
 * writes to its argument; what follows the last dot where no operator is known. Static or scope. */
static const char *operator_name(cfx_target t) {
    const cfx__op_info *info = t.op ? cfx__op_info_of(t.op) : NULL;
    const char *dot = t.name ? strrchr(t.name, '.') : NULL;
    if (!info)
        return dot ? dot + 1 : t.name;
    const char *name = info->schema->name;
    size_t n = t.fn && t.name ? strlen(t.name) : 0;
    bool inplace = n > 1 && t.name[n - 1] == '_' && t.name[n - 2] != '_';
    return inplace && name[strlen(name) - 1] != '_' ? cfx__text_format("%s_", name) : name;
}

/* Whether the call is told to write to its argument: F.relu(x, inplace=True). */
static bool asks_inplace(const cfx_node *n) {
    const cfx__op_info *info = n->target.op ? cfx__op_info_of(n->target.op) : NULL;
    cfx_value v = cfx_dict_get(cfx_as_dict(n->kwargs), "inplace");
    for (int i = 0; info && i < info->schema->nargs && i < cfx_as_list(n->args)->len; i++)
        if (!strcmp(info->schema->args[i].name, "inplace"))
            v = cfx_as_list(n->args)->items[i];
    return (v.tag == CFX_TAG_BOOL && cfx_integer(v)) || (v.tag == CFX_TAG_INT && cfx_integer(v));
}

const char *cfx__node_operator(const cfx_node *n) {
    if (n->op == CFX_CALL_MODULE) {
        const cfx_module *m = cfx_module_find(n->graph->owner, n->target.name);
        return m ? m->type : NULL;
    }
    if (n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_METHOD)
        return NULL;
    const char *name = operator_name(n->target);
    return asks_inplace(n) ? cfx__text_format("%s_", name) : name;
}

static bool is_bare(const char *name) { return !strpbrk(name, ".:"); }

/* Whether a name that is not bare is the target's: its text, the overload or all of them. */
static bool is_named(cfx_target t, const char *name) {
    const char *own, *text = t.name && !strncmp(t.name, "torch.ops.", 10) ? t.name + 10 : t.name;
    if (!strncmp(name, "torch.ops.", 10))
        name += 10;
    cfx__fn_named(name, &own); /* torch.split is torch.functional.split */
    if (text && (!strcmp(text, name) || !strcmp(text, own)))
        return true;
    if (!t.op || t.fn)
        return false;
    if (strstr(name, "::"))
        return cfx_op_find(name) == t.op;
    const char *full = cfx_op_name(t.op), *overload = strrchr(full, '.');
    size_t n = (size_t)(overload - full);
    return !strcmp(full, name) || (strlen(name) == n && !strncmp(full, name, n));
}

bool cfx_target_is(cfx_target t, const char *name) {
    size_t mark = cfx_scope_open();
    const char *own = name && is_bare(name) ? operator_name(t) : NULL;
    bool is = own ? !strcmp(own, name) : name && is_named(t, name);
    cfx_scope_close(mark);
    return is;
}

bool cfx_node_is(const cfx_node *n, const char *name) {
    if (!n || !n->graph || !name)
        return false;
    if (n->op == CFX_CALL_MODULE) /* "nn.Linear" */
        name += !strncmp(name, "torch.nn.", 9) ? 9 : !strncmp(name, "nn.", 3) ? 3 : 0;
    size_t mark = cfx_scope_open();
    const char *own = cfx__node_operator(n);
    bool is = own && (is_bare(name) ? !strcmp(own, name)
                                    : n->op != CFX_CALL_MODULE && is_named(n->target, name));
    cfx_scope_close(mark);
    return is;
}

/* ---- the index ------------------------------------------------------------------------------- */

cfx_target cfx_graph_target(cfx_graph *g, const char *text) {
    if (!cfx__graph_given(g) || !text)
        return (cfx_target){.name = "<bad>"};
    return cfx__graph_row_named(g, CFX_CALL_FUNCTION, text)->target;
}

/* The __name__ of a function: "relu" of torch.relu, "add.Tensor" of the overload. */
static const char *function_name(cfx_target t) {
    if (t.op && !t.fn) {
        const char *dot = strchr(t.name, '.');
        return dot ? dot + 1 : t.name;
    }
    const char *last = strrchr(t.name, '.');
    if (last && !strncmp(t.name, "torch.ops.", 10)) { /* one that the registry does not have */
        const char *name = strchr(t.name + 10, '.');
        return name ? name + 1 : last + 1;
    }
    return last ? last + 1 : t.name;
}

static cfx__name *candidate_of(cfx_graph *g, cfx_opcode op, cfx_target t) {
    const char *text = op == CFX_CALL_FUNCTION ? function_name(t) : t.name;
    cfx__text out = {0};
    size_t n = strlen(text);
    bool magic = n > 4 && !strncmp(text, "__", 2) && !strcmp(text + n - 2, "__");
    if (magic && op != CFX_CALL_FUNCTION)
        text = cfx__string_new(text + 2, n - 4)->text;
    cfx__name_snake_case(&out, text);
    cfx__name *r = cfx__name_candidate(&g->names, out.data ? out.data : "");
    cfx__text_release(&out);
    return r;
}

void cfx__target_text(cfx__text *out, cfx_target t) {
    if (t.op && !t.fn && strncmp(t.name, "torch.", 6))
        cfx__text_puts(out, "torch.ops.");
    cfx__text_puts_line(out, t.name);
}

/* ---- the index ------------------------------------------------------------------------------ */

static cfx__target_row *row_new(cfx_graph *g, cfx_opcode op, cfx_target target) {
    size_t mark = cfx_scope_open();
    cfx__target_row *row = cfx__arena_alloc(&g->arena, sizeof *row);
    row->target = target;
    row->target.object = NULL; /* each node has its own */
    row->target.name = cfx__arena_copy(&g->arena, target.name, strlen(target.name));
    row->candidate = candidate_of(g, op, row->target);
    row->id = g->nrows++;
    row->next = g->rows[op];
    g->rows[op] = row;
    cfx__map_set(&g->targets[op], row->target.name, row);
    cfx_scope_close(mark);
    return row;
}

cfx__target_row *cfx__graph_row(cfx_graph *g, cfx_opcode op, cfx_target target) {
    cfx__target_row *row = cfx__map_get(&g->targets[op], target.name);
    return likely(row != NULL) ? row : row_new(g, op, target);
}

cfx__target_row *cfx__graph_row_named(cfx_graph *g, cfx_opcode op, const char *text) {
    cfx__target_row *row = cfx__map_get(&g->targets[op], text);
    if (likely(row != NULL))
        return row;
    size_t mark = cfx_scope_open();
    cfx_target t = {.name = text};
    if (op == CFX_CALL_FUNCTION)
        t = resolve_function(text);
    else if (op == CFX_CALL_METHOD)
        t = resolve_method(text);
    row = cfx__graph_row(g, op, t);
    if (strcmp(row->target.name, text)) /* the next one to ask finds it under this text too */
        cfx__map_set(&g->targets[op], cfx__arena_copy(&g->arena, text, strlen(text)), row);
    cfx_scope_close(mark);
    return row;
}

void cfx__target_row_add(cfx__target_row *row, cfx__node *n) {
    n->row = row;
    n->row_prev = row->last;
    n->row_next = NULL;
    *(row->last ? &row->last->row_next : &row->first) = n;
    row->last = n;
}

void cfx__target_row_remove(cfx__node *n) {
    *(n->row_prev ? &n->row_prev->row_next : &n->row->first) = n->row_next;
    *(n->row_next ? &n->row_next->row_prev : &n->row->last) = n->row_prev;
    n->row = NULL;
}

/* ---- predicates ------------------------------------------------------------------------------ */

static bool starts_with(const char *text, const char *start) {
    return !strncmp(text, start, strlen(start));
}

bool cfx_node_is_getitem(const cfx_node *n) {
    return n && n->op == CFX_CALL_FUNCTION && !n->target.object &&
           !strcmp(n->target.name, "operator.getitem");
}

bool cfx_node_takes_result(const cfx_node *n) {
    return cfx_node_is_getitem(n) && cfx_as_list(n->args)->len == 2 &&
           cfx_as_list(n->args)->items[0].tag == CFX_TAG_NODE &&
           cfx_as_list(n->args)->items[1].tag == CFX_TAG_INT;
}

const char *cfx__higher_order(const char *target) {
    static const char prefix[] = "torch.ops.higher_order.";
    return starts_with(target, prefix) ? target + strlen(prefix) : NULL;
}

const char *cfx_node_higher_order(const cfx_node *n) {
    return n && n->op == CFX_CALL_FUNCTION ? cfx__higher_order(n->target.name) : NULL;
}

bool cfx__higher_is(const cfx_node *n, const char *name) {
    const char *higher = cfx_node_higher_order(n);
    return higher && !strcmp(higher, name);
}

/* ---- effects -------------------------------------------------------------------------------- */

/* Whether a call that draws numbers in training is not told to: dropout(x, training=False). */
static bool is_at_rest(const cfx_node *n, cfx_op *op) {
    const cfx__op_info *info = cfx__op_info_of(op);
    for (int i = 0; info && !info->writes && !(op->effects & CFX_SIDE) && i < info->schema->nargs;
         i++) {
        if (strcmp(info->schema->args[i].name, "training"))
            continue;
        cfx_value v = cfx__node_arg(n, info->schema, i);
        return v.tag == CFX_TAG_BOOL && cfx_equal_values(v, cfx_bool(false));
    }
    return false;
}

static bool fn_is_impure(const cfx_node *n, const cfx_fn *fn) {
    for (int i = 0; i < fn->n; i++)
        if (!cfx__op_is_pure(fn->ops[i], NULL) && !is_at_rest(n, fn->ops[i]))
            return true;
    return false;
}

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(text, *list))
            return true;
    return false;
}

/* Python's operators that change their first operand. */
static const char *const inplace_operators[] = {
    "iadd", "iand", "ifloordiv", "ilshift", "imod", "imul",    "imatmul", "ior",
    "ipow", "irshift", "isub",   "itruediv", "ixor", "iconcat", "setitem", "delitem", NULL};

/* Functions that the registry need not know to be kept: by __name__. */
static const char *const side_effects[] = {
    "print", "set_grad_enabled", "_set_grad_enabled", "_enter_autocast", "_exit_autocast",
    "_record_function_enter", "_record_function_enter_new", "_record_function_exit",
    "accumulate_grad_", "_enter_inference_mode", "_exit_inference_mode", NULL};

static bool name_is_impure(const char *name) {
    return is_one_of(name, side_effects) || starts_with(name, "_assert") ||
           starts_with(name, "_check") || starts_with(name, "sym_constrain_range");
}

static bool ends_inplace(const char *name) {
    size_t n = strlen(name);
    return n > 1 && name[n - 1] == '_' && name[n - 2] != '_';
}

bool cfx__target_known(cfx_target t) {
    bool operator_ = starts_with(t.name, "operator.") || starts_with(t.name, "_operator.");
    if (t.op || t.object || starts_with(t.name, "torch.ops.") ||
        !(operator_ || starts_with(t.name, "torch.") || starts_with(t.name, "aten.")))
        return true;
    const char *name = function_name(t);
    return operator_ ? is_one_of(name, inplace_operators) : name_is_impure(name);
}

bool cfx__target_fits(cfx_opcode op, cfx_target t) {
    if (op != CFX_CALL_FUNCTION || t.op || t.object || cfx__name_is_dotted(t.name))
        return true;
    size_t mark = cfx_scope_open();
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "functions have names with dots between them, not %s",
             cfx_value_repr(cfx_string_value(t.name)));
    cfx_scope_close(mark);
    return false;
}

/* out= given, or inplace=True. */
static bool writes_by_keyword(const cfx_node *n) {
    if (!cfx_as_dict(n->kwargs)->len)
        return false;
    cfx_value inplace = cfx_dict_get(cfx_as_dict(n->kwargs), "inplace");
    return !cfx_is_none(cfx_dict_get(cfx_as_dict(n->kwargs), "out")) ||
           (inplace.tag == CFX_TAG_BOOL && cfx_integer(inplace));
}

static bool module_is_impure(const cfx_module *m) {
    if (!m || m->impure || cfx__module_has_effect(m))
        return true;
    if (m->graph)
        cfx_each_node(m->graph, n)
            if (n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT && cfx_node_is_impure(n))
                return true;
    return false;
}

/* Whether one of the sub-graphs that a cond or while_loop is given has effects. */
static bool branch_is_impure(const cfx_node *n) {
    cfx_each_input(n, u)
        if (u->node->op == CFX_GET_ATTR) {
            cfx_value v = cfx_module_attr(n->graph->owner, u->node->target.name);
            if (cfx_is_none(v) || (v.tag == CFX_TAG_MODULE && module_is_impure(cfx_as_module(v))))
                return true;
        }
    return false;
}

/* A function of which nobody knows what it does. */
static bool is_unregistered(cfx_target t) { return !t.op && !t.object && !t.fn; }

cfx_value cfx__node_arg(const cfx_node *n, const cfx__schema *s, int i) {
    if (i < cfx_as_list(n->args)->len)
        return cfx_as_list(n->args)->items[i];
    const cfx_value *v = cfx_dict_find(cfx_as_dict(n->kwargs), cfx_string_value(s->args[i].name));
    return v ? *v : s->args[i].fallback;
}

bool cfx__node_writes(const cfx_node *n, cfx_op *op, int i) {
    const cfx__op_info *info = cfx__op_info_of(op);
    cfx_value args[CFX_MAX_ARGS];
    if (!info->updated)
        return info->schema->args[i].writes;
    for (int k = 0; k < info->schema->nargs; k++)
        args[k] = cfx__node_arg(n, info->schema, k);
    return cfx__op_writes(op, args, i);
}

bool cfx__node_updates(const cfx_node *n, cfx_op *op) {
    bool any = false;
    for (int i = 0; !any && cfx__op_info_of(op)->updated >> i; i++)
        any = cfx__node_writes(n, op, i);
    return any;
}

/* The same of any overload of its function. */
static bool updates(const cfx_node *n, const cfx_fn *fn, cfx_op *op) {
    bool any = op && cfx__node_updates(n, op);
    for (int k = 0; fn && k < fn->n && !any; k++)
        any = cfx__node_updates(n, fn->ops[k]);
    return any;
}

static bool function_is_impure(const cfx_node *n) {
    cfx_target t = n->target;
    if (writes_by_keyword(n))
        return true;
    if (updates(n, t.fn, t.op))
        return true;
    if (t.op && !t.fn)
        return !cfx__op_is_pure(t.op, NULL) || name_is_impure(function_name(t));
    const char *name = function_name(t);
    if (starts_with(t.name, "operator.") || starts_with(t.name, "_operator."))
        return is_one_of(name, inplace_operators);
    if (name_is_impure(name))
        return true;
    if (cfx_node_higher_order(n))
        return branch_is_impure(n);
    const cfx_fn *fn = cfx_fn_find(t.name);
    if (fn ? fn_is_impure(n, fn) : ends_inplace(name) || is_unregistered(t))
        return true;
    return t.fn && fn_is_impure(n, t.fn);
}

static bool method_is_impure(const cfx_node *n) {
    const char *name = n->target.name;
    if (starts_with(name, "__"))
        return starts_with(name, "__i") ? strcmp(name, "__invert__") && strcmp(name, "__index__") &&
                                              strcmp(name, "__int__")
                                        : !strcmp(name, "__setitem__") ||
                                              !strcmp(name, "__delitem__");
    if (writes_by_keyword(n))
        return true;
    size_t mark = cfx_scope_open();
    const cfx_fn *fn = cfx_fn_find(cfx__text_format("Tensor.%s", name));
    cfx_scope_close(mark);
    return fn ? fn_is_impure(n, fn) : ends_inplace(name);
}

bool cfx_node_is_impure(const cfx_node *n) {
    if (!n || !n->graph)
        return true;
    switch (n->op) {
    case CFX_GET_ATTR: return false;
    case CFX_CALL_FUNCTION: return function_is_impure(n);
    case CFX_CALL_METHOD: return method_is_impure(n);
    case CFX_CALL_MODULE:
        return module_is_impure(cfx_module_find(n->graph->owner, n->target.name));
    default: return true;
    }
}

bool cfx__node_logs(const cfx_node *n) {
    const char *name = n->target.name;
    if (n->op != CFX_CALL_FUNCTION || cfx_node_higher_order(n))
        return cfx__higher_is(n, "print");
    name += starts_with(name, "torch.ops.") ? strlen("torch.ops.") : 0;
    return starts_with(name, "profiler._record_function_");
}
