/* An ATen program as one of ONNX's operators: the walk over its nodes, its inputs and its results.
 * Start at cfx__onnx_exported. */
#include "export.h"

#include <cfx/rewrite.h>

#include "../dispatch/dispatch.h"

/* ---- rules ----------------------------------------------------------------------------------- */

static const cfx__onnx_rules *const tables[] = {
    &cfx__onnx_rules_math,   &cfx__onnx_rules_logic,  &cfx__onnx_rules_shape,
    &cfx__onnx_rules_index,  &cfx__onnx_rules_reduce, &cfx__onnx_rules_create,
    &cfx__onnx_rules_nn,     &cfx__onnx_rules_window, &cfx__onnx_rules_boxes,
    &cfx__onnx_rules_quant,  &cfx__onnx_rules_sizes,  &cfx__onnx_rules_complex,
    &cfx__onnx_rules_data};

static const cfx__onnx_rule *find_rule(const cfx__onnx_rules *table, const char *name) {
    for (int i = 0; name && i < table->n; i++)
        if (!strcmp(table->rows[i].name, name))
            return &table->rows[i];
    return NULL;
}

static bool is_complex(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    return r.kind == CFX_RESULT_TENSOR && cfx__dtype_is_complex(r.dtype);
}

/* Whether a node takes or gives complex numbers. */
static bool meets_complex(const cfx_node *n) {
    bool met = is_complex(n);
    cfx_each_input(n, u)
        met |= is_complex(u->node);
    return met;
}

/* The rule for a node that calls the operator of that name; of complex numbers there are few. */
static const cfx__onnx_rule *rule_for(const cfx_node *n, const char *name) {
    bool complex = meets_complex(n);
    const cfx__onnx_rule *found = complex ? find_rule(&cfx__onnx_rules_complex, name) : NULL;
    if (found)
        return found;
    for (int k = 0; k < COUNT(tables) && !found; k++)
        found = find_rule(tables[k], name);
    return complex && !cfx__export_holds_for_pairs(name) ? NULL : found;
}

/* The operators that have rules, and are not to be decomposed. */
static cfx_value kept(void) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int k = 0; k < COUNT(tables); k++)
        for (int i = 0; i < tables[k]->n; i++)
            if (cfx_op_find(tables[k]->rows[i].name))
                cfx_list_append(cfx_as_list(list), cfx_string_value(tables[k]->rows[i].name));
    return list;
}

/* ---- what rules read ------------------------------------------------------------------------- */

cfx_result cfx__export_result(const cfx__onnx_export *x) { return cfx_node_result(x->node); }

cfx_result cfx__export_given(const cfx__onnx_export *x, int i) {
    cfx_value v = x->args[i];
    return cfx_node_result(v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL);
}

bool cfx__export_is_pairs(const cfx__onnx_export *x, int i) {
    return x->args[i].tag == CFX_TAG_NODE && is_complex(cfx_as_node(x->args[i]));
}

cfx_value cfx__export_in(cfx__onnx_export *x, int i) {
    cfx_value v = x->args[i];
    if (v.tag != CFX_TAG_NODE)
        return cfx_is_none(v) ? v
                              : cfx__export_lacks("argument %d is %s, not a tensor", i,
                                                  cfx_value_repr(v));
    cfx_value now = x->values[cfx__node_of(cfx_as_node(v))->id];
    return now.tag == CFX_TAG_NODE ? now
                                   : cfx__export_lacks("ONNX has nothing for what %s gives",
                                                       cfx_as_node(v)->name);
}

cfx_value cfx__export_as(cfx__onnx_export *x, int i, cfx_dtype d) {
    cfx_value v = x->args[i];
    if (cfx_is_number(v))
        return cfx__export_number(x, v, d);
    cfx_result r = cfx__export_given(x, i);
    if (r.kind == CFX_RESULT_INT || r.kind == CFX_RESULT_FLOAT || r.kind == CFX_RESULT_BOOL)
        return cfx__export_scalar(x, v, d);
    v = cfx__export_in(x, i);
    return cfx_is_bad(v) || cfx_is_none(v) ? v : cfx__export_cast(x, v, r.dtype, d);
}

int cfx__export_dim(int64_t dim, int ndim) {
    int n = ndim ? ndim : 1;
    return (int)(dim < 0 ? dim + n : dim);
}

int cfx__export_ints(cfx__onnx_export *x, int i, int64_t *out) {
    cfx_value v = x->args[i];
    if (v.tag == CFX_TAG_INT)
        return (out[0] = cfx_integer(v)), 1;
    int64_t n = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE ? cfx_as_list(v)->len : 0;
    for (int64_t k = 0; k < n; k++) {
        cfx_value item = cfx_as_list(v)->items[k];
        if (k == CFX_MAX_DIMS || item.tag != CFX_TAG_INT) {
            cfx__export_lacks("its argument '%s' varies", x->schema->args[i].name);
            return -1;
        }
        out[k] = cfx_integer(item);
    }
    return (int)n;
}

bool cfx__export_is_size(const cfx_result *r, int dim, int64_t n) {
    cfx_value size = cfx_result_size(r, dim);
    return size.tag == CFX_TAG_INT && cfx_integer(size) == n;
}

bool cfx__export_is_read(const cfx__onnx_export *x, int64_t i) {
    cfx_each_user(x->node, u)
        if (cfx_node_is(u->user, "operator.getitem") && u->user->num_users &&
            cfx_integer(cfx_at(u->user->args, 1)) == i)
            return true;
    return false;
}

cfx_value cfx__export_lacks(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__text t = {0};
    cfx__text_vprintf(&t, fmt, ap);
    va_end(ap);
    if (cfx_ok())
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, "%s", t.data);
    cfx__text_release(&t);
    return cfx_bad();
}

/* ---- what rules make ------------------------------------------------------------------------- */

cfx_value cfx__export_put(cfx__onnx_export *x, cfx_op *op, cfx_args a) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    if (!cfx_ok() || cfx__dispatch_args_bad((cfx_site){0}, a))
        return cfx_bad();
    a = cfx__dispatch_args_split(a);
    int n = a.n;
    while (n && cfx_is_none(a.v[n - 1]))
        n--;
    cfx_node *made = cfx_graph_create(
        x->graph, CFX_CALL_FUNCTION,
        cfx_graph_target(x->graph, cfx__text_format("torch.ops.%s", cfx_op_name(op))),
        cfx_tuple_value(n, a.v), a.kw ? cfx_dict_value(a.kw) : cfx_none(),
        cfx__text_format("%s_%s", x->node->name, s->name), NULL);
    if (!made->graph)
        return cfx_bad();
    cfx__node_set_origin(made, x->node);
    return cfx_node_value(made);
}

cfx_value cfx__export_item(cfx__onnx_export *x, cfx_value v, int i) {
    if (cfx_is_bad(v))
        return v;
    cfx_node *made = cfx_graph_create(x->graph, CFX_CALL_FUNCTION,
                                      cfx_graph_target(x->graph, "operator.getitem"),
                                      cfx_tuple(v, i), cfx_none(),
                                      cfx__text_format("%s_%d", x->node->name, i), NULL);
    cfx_value count = cfx_node_get_meta(cfx_as_node(v), "onnx_results");
    if (cfx_is_none(count) || cfx_integer(count) <= i)
        cfx_node_set_meta(cfx_as_node(v), "onnx_results", cfx_int(i + 1));
    return made->graph ? cfx_node_value(made) : cfx_bad();
}

cfx_value cfx__export_cast(cfx__onnx_export *x, cfx_value v, cfx_dtype from, cfx_dtype to) {
    const cfx__onnx_type *t = cfx__onnx_type_of(to);
    if (from == to || cfx_is_bad(v))
        return v;
    if (!t)
        return cfx__export_lacks("it has no type %s", cfx_dtype_name(to));
    return PUT(Cast, v, CFX_KW(to, t->name));
}

/* A constant is an input of the program, or an attribute of the module of a sub-graph. */
cfx_value cfx__export_tensor(cfx__onnx_export *x, cfx_tensor *t) {
    if (cfx__obj_is_bad(t))
        return cfx_bad();
    cfx_node *made;
    const char *name = cfx__text_format("%s_const", x->node->name);
    if (!x->outer) {
        made = cfx_program_add_tensor(x->to, CFX_IN_CONSTANT, name, t);
    } else {
        const char *own = name;
        for (int i = 1; cfx_module_has(x->module, own); i++)
            own = cfx__text_format("%s_%d", name, i);
        cfx_module_set_attr(x->module, own, cfx_tensor_value(t));
        made = cfx_graph_get_attr(x->graph, own);
    }
    return made->graph ? cfx_node_value(made) : cfx_bad();
}

/* What a constant holds, bit by bit, as text. Scope. */
static const char *contents(const cfx_tensor *t) {
    cfx__text out = {0};
    size_t bytes = (size_t)t->numel * cfx_dtype_size((cfx_dtype)t->dtype);
    cfx__text_printf(&out, "%s %s ", cfx_dtype_name((cfx_dtype)t->dtype),
                     cfx__shape_text(t->ndim, t->shape));
    for (size_t i = 0; i < bytes; i++)
        cfx__text_printf(&out, "%02x", ((const unsigned char *)t->data)[i]);
    return cfx__text_take(&out);
}

/* A small constant, of which each graph has one. */
static cfx_value shared(cfx__onnx_export *x, cfx_tensor *t) {
    if (cfx__obj_is_bad(t))
        return cfx_bad();
    const char *key = contents(t);
    cfx_value known = cfx_dict_get(x->constants, key);
    if (!cfx_is_none(known))
        return known;
    cfx_value made = cfx__export_tensor(x, t);
    if (!cfx_is_bad(made))
        cfx_dict_set(x->constants, key, made);
    return made;
}

cfx_value cfx__export_number(cfx__onnx_export *x, cfx_value number, cfx_dtype d) {
    return shared(x, cfx__tensor_scalar(number, d));
}

cfx_value cfx__export_i64(cfx__onnx_export *x, int n, const int64_t *v) {
    int64_t len = n;
    return shared(x, cfx_tensor_new(CFX_I64, 1, &len, v));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The arguments of a call in the places of its schema, with defaults. */
static void bind(cfx__onnx_export *x, cfx_op *op) {
    x->schema = cfx__op_info_of(op)->schema;
    for (int i = 0; i < x->schema->nargs; i++)
        x->args[i] = cfx__node_arg(x->node, x->schema, i);
}

/* The main result of a node has the node's name. */
static void take_name(const cfx__onnx_export *x, cfx_value v) {
    cfx_node *made = v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
    if (made && made->op == CFX_CALL_FUNCTION && !cfx_graph_find(x->graph, x->node->name) &&
        !strncmp(made->name, x->node->name, strlen(x->node->name)))
        cfx_node_set_name(made, x->node->name);
}

/* What a node computes is noted of its main result. */
static void note_result(const cfx_node *n, cfx_value v) {
    cfx_value val = cfx_node_get_meta(n, "val");
    if (v.tag == CFX_TAG_NODE && cfx_as_node(v)->op == CFX_CALL_FUNCTION && !cfx_is_none(val) &&
        !is_complex(n))
        cfx_node_set_meta(cfx_as_node(v), "val", val);
}

/* Whether an input of the node is lacking, which was told already. */
static bool is_cut_off(const cfx__onnx_export *x, const cfx_node *n) {
    cfx_each_input(n, u) {
        if (cfx_is_bad(x->values[cfx__node_of(u->node)->id]))
            return true;
    }
    return false;
}

/* The operator that a node calls, NULL where it is none, and what its rule is called by. */
static cfx_op *operator_of(const cfx_node *n, const char **name) {
    cfx_op *op = n->target.fn ? NULL : n->target.op ? n->target.op : cfx__run_late_op(n);
    *name = op ? cfx_op_name(op) : n->target.name;
    if (*name && !strncmp(*name, "torch.ops.", 10))
        *name += 10;
    return op;
}

static const char *why_no_rule(const cfx_node *n, const cfx_op *op) {
    return meets_complex(n) ? "it computes with complex numbers, which ONNX does not have"
           : op && op->effects & CFX_RANDOM
               ? "it draws random numbers, which differ from one runtime to another"
               : "ONNX has no operator for it, and it is not made of others";
}

/* Whether the operator has no tensors for arguments, and gives one that is always the same, such as
 * a window; not a large one, nor of complex numbers. */
static bool is_fixed(const cfx__onnx_export *x, const cfx_node *n, cfx_op *op) {
    enum { MOST = 1 << 20 };
    const cfx_result r = cfx__export_result(x);
    int64_t numel = 1;
    bool fixed = op && r.kind == CFX_RESULT_TENSOR && r.shape && !cfx__dtype_is_complex(r.dtype);
    cfx_each_input(n, u)
        fixed &= !u->node;
    for (int i = 0; fixed && i < r.ndim; i++)
        fixed = (numel *= r.shape[i]) <= MOST;
    return fixed && cfx__op_is_pure(op, x->args);
}

static cfx_value computed_now(cfx__onnx_export *x, cfx_op *op) {
    cfx_value args[CFX_MAX_ARGS];
    memcpy(args, x->args, sizeof args);
    const cfx_value v = cfx__op_call_bound((cfx_site){0}, op, args);
    return v.tag == CFX_TAG_TENSOR ? cfx__export_tensor(x, cfx_contiguous(v)) : cfx_bad();
}

/* What one node gives in the new graph; bad, without an error, where an input is lacking. */
static cfx_value export_call(cfx__onnx_export *x, cfx_node *n) {
    bool cut = is_cut_off(x, n);
    if (cfx_node_takes_result(n)) {
        cfx_value whole = x->values[cfx__node_of(cfx_as_node(cfx_at(n->args, 0)))->id];
        if (whole.tag == CFX_TAG_TUPLE)
            return cfx_at(whole, cfx_integer(cfx_at(n->args, 1)));
        return cut ? cfx_bad()
                   : cfx__export_lacks("it takes a result apart that ONNX has no list for");
    }
    const char *higher = cfx_node_higher_order(n), *name;
    if (higher)
        return cut ? cfx_bad() : cfx__export_control(x, higher);
    cfx_op *op = operator_of(n, &name);
    const cfx__onnx_rule *rule = rule_for(n, name);
    if (op)
        bind(x, op);
    if (!rule && is_fixed(x, n, op))
        return computed_now(x, op);
    if (!rule)
        return cfx__export_lacks("%s", why_no_rule(n, op));
    if (cut)
        return cfx_bad();
    for (int64_t i = 0; !op && i < cfx_as_list(n->args)->len && i < CFX_MAX_ARGS; i++)
        x->args[i] = cfx_as_list(n->args)->items[i];
    return rule->fn(x, rule->op);
}

/* The path of the module that a node is of; NULL: none, or the whole. */
static const char *module_of(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return NULL;
    cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
    const char *path = last.tag == CFX_TAG_TUPLE ? cfx_text(cfx_at(last, 0)) : NULL;
    return path && *path ? path : NULL;
}

/* Why the node has no form becomes a line of the report, and the error is forgotten: there may be
 * more such nodes. */
static void report(cfx__onnx_export *x, const cfx_node *n) {
    const char *name = n->target.name ? n->target.name : cfx_opcode_name(n->op);
    const char *in = module_of(n);
    const char *line = cfx__text_format("%s (%s)%s%s: %s", n->name, name, in ? " of " : "",
                                        in ? in : "", cfx_error_last()->message);
    if (cfx__error_forgive())
        cfx_dict_set(x->lacking, line, cfx_bool(true));
}

static bool export_node(cfx__onnx_export *x, cfx_node *n) {
    size_t mark = cfx_scope_open();
    const cfx_node *around = x->node;
    x->node = n;
    cfx_value v = n->op == CFX_CALL_FUNCTION ? export_call(x, n)
                                             : cfx__export_lacks("it is no call of a function");
    if (!cfx_ok())
        report(x, n), v = cfx_bad();
    if (!cfx_is_bad(v)) {
        take_name(x, v);
        note_result(n, v);
    }
    x->values[cfx__node_of(n)->id] = cfx_value_keep(v);
    x->node = around;
    cfx_scope_close(mark);
    return cfx_ok();
}

/* An attribute of the module that is a tensor is a constant. */
static bool export_attr(cfx__onnx_export *x, cfx_module *m, cfx_node *n) {
    cfx_value v = cfx_module_attr(m, n->target.name);
    const cfx_node *around = x->node;
    x->node = n;
    if (v.tag == CFX_TAG_TENSOR)
        x->values[cfx__node_of(n)->id] = cfx_value_keep(cfx__export_tensor(x, cfx_as_tensor(v)));
    x->node = around;
    return cfx_ok();
}

/* Results as a tuple; a list of them is the same. */
static cfx_value export_results(cfx__onnx_export *x, cfx_node *output) {
    cfx_value results = cfx_at(output->args, 0), out = cfx_tuple_value(0, NULL);
    bool several = results.tag == CFX_TAG_TUPLE || results.tag == CFX_TAG_LIST;
    x->node = output;
    for (int64_t i = 0; i < (several ? cfx_as_list(results)->len : 1); i++) {
        cfx_value v = several ? cfx_as_list(results)->items[i] : results;
        if (v.tag == CFX_TAG_NODE) {
            cfx_node *from = cfx_as_node(v);
            v = x->values[cfx__node_of(from)->id];
            if (cfx_is_bad(v))
                return v;
            if (v.tag != CFX_TAG_NODE)
                return cfx__export_lacks("ONNX has nothing for what %s gives", from->name);
            if (is_complex(from))
                return cfx__export_lacks("%s is a result of complex numbers", from->name);
        } else if (cfx_is_number(v)) {
            v = cfx__export_number(x, v, cfx__dtype_of_number(v));
        } else if (!cfx_is_none(v)) {
            return cfx__export_lacks("%s is a result", cfx_value_repr(v));
        }
        cfx_list_append(cfx_as_list(out), v);
    }
    return cfx_ok() ? out : cfx_bad();
}

cfx_value cfx__export_nodes(cfx__onnx_export *x, cfx_graph *g) {
    cfx_each_node(g, n) {
        if (n->op == CFX_PLACEHOLDER)
            continue;
        if (n->op == CFX_OUTPUT) {
            cfx_value results = export_results(x, n);
            if (!cfx_ok())
                report(x, n);
            return results;
        }
        if (n->op == CFX_GET_ATTR ? !export_attr(x, (cfx_module *)g->owner, n)
                                  : !export_node(x, n))
            return cfx_bad();
    }
    return cfx_tuple_value(0, NULL);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A tensor of complex numbers is stored as that of their parts. */
static bool split_complex(cfx__onnx_export *x, const cfx_input_spec *s, cfx_node *n) {
    cfx_tensor *t = s->kind == CFX_IN_USER ? NULL : cfx_program_tensor(x->from, s);
    if (!is_complex(n))
        return true;
    if (!t) {
        cfx__export_lacks("it is an input of complex numbers, which ONNX does not have");
        report(x, n);
        return cfx_ok();
    }
    cfx_value pairs = cfx_tensor_value(cfx_view_as_real(t)), key = cfx_string_value(s->target);
    cfx_dict *to[] = {x->to->state, x->to->constants};
    for (int k = 0; k < 2 && cfx_ok(); k++)
        if (cfx_dict_find(to[k], key))
            cfx_dict_put(to[k], key, pairs);
    return cfx_ok();
}

/* The inputs, under the names that they have; what is a plain value is no input of ONNX's. */
static bool export_inputs(cfx__onnx_export *x) {
    cfx_graph *g = x->from->module->graph;
    const cfx_dict *from[] = {x->from->state, x->from->constants};
    cfx_dict *to[] = {x->to->state, x->to->constants};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < from[k]->len; i++)
            cfx_dict_put(to[k], from[k]->entries[i].key, from[k]->entries[i].value);
    for (int i = 0; i < x->from->ninputs; i++) {
        const cfx_input_spec *s = &x->from->inputs[i];
        cfx_node *old = cfx_graph_find(g, s->name);
        if (!old || s->constant || s->kind == CFX_IN_TOKEN)
            continue;
        cfx_node *n = cfx_graph_placeholder(x->graph, s->name, NULL, false, cfx_none());
        if (!n->graph)
            return false;
        if (strcmp(n->name, s->name))
            cfx_node_set_name(n, s->name);
        cfx_node_set_target(n, (cfx_target){.name = n->name});
        cfx_node_set_meta(n, "val", cfx_node_get_meta(old, "val"));
        cfx_program_add_input(x->to, *s);
        if (!split_complex(x, s, old))
            return false;
        x->values[cfx__node_of(old)->id] = cfx_value_keep(cfx_node_value(n));
    }
    return cfx_ok();
}

static bool is_result(const cfx_output_spec *s) {
    return s->kind == CFX_OUT_USER || s->kind == CFX_OUT_LOSS;
}

/* The results, then what is written to inputs and tensors, of which ONNX keeps nothing from one run
 * to the next. Results that are plain values are left out. */
static bool export_outputs(cfx__onnx_export *x, cfx_value results) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int written = 0; written < 2; written++)
        for (int64_t i = 0; i < cfx_as_list(results)->len; i++) {
            cfx_value v = cfx_as_list(results)->items[i];
            cfx_output_spec s = x->from->outputs[i];
            if (v.tag != CFX_TAG_NODE || is_result(&s) == (written == 1))
                continue;
            s.name = cfx_as_node(v)->name;
            cfx_list_append(cfx_as_list(out), v);
            cfx_program_add_output(x->to, s);
        }
    return cfx_graph_output(x->graph, out)->graph != NULL;
}

/* What has no form in ONNX, all of it. */
static void refuse(const cfx_dict *lacking) {
    enum { MOST = 50 };
    cfx__text t = {0};
    if (lacking->len == 1)
        cfx__text_puts(&t, "a node has no form in ONNX: ");
    else
        cfx__text_printf(&t, "%lld nodes have no form in ONNX:", (long long)lacking->len);
    for (int64_t i = 0; i < lacking->len && i < MOST; i++)
        cfx__text_printf(&t, "%s%s", lacking->len > 1 ? "\n    " : "",
                         cfx_text(lacking->entries[i].key));
    if (lacking->len > MOST)
        cfx__text_printf(&t, "\n    and %lld more", (long long)(lacking->len - MOST));
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, "%s", t.data);
    cfx__text_release(&t);
}

static void export_close(cfx__onnx_export *x, const cfx_graph *g) {
    for (size_t i = 0; i < g->made.len; i++)
        cfx_value_drop(x->values[i]);
    cfx__free(x->values);
}

cfx_program *cfx__onnx_exported(const cfx_program *p) {
    size_t mark = cfx_scope_open();
    cfx_program *core = cfx_decompose(cfx_to_aten(p), kept());
    if (cfx_failed(core))
        return cfx_scope_return(mark, &cfx__program_bad);
    cfx_module *gm = cfx_graph_module(cfx__module_new_raw("GraphModule", NULL), cfx_graph_new(),
                                      "GraphModule");
    cfx_graph *old = core->module->graph;
    cfx__onnx_export x = {.from = core,
                          .to = cfx_program_new(gm),
                          .module = gm,
                          .graph = gm->graph,
                          .constants = cfx_dict_new(),
                          .lacking = cfx_dict_new(),
                          .values = cfx__alloc0((old->made.len + 1) * sizeof *x.values)};
    cfx_value results = export_inputs(&x) ? cfx__export_nodes(&x, old) : cfx_bad();
    bool fine = !cfx_is_bad(results) && !x.lacking->len && export_outputs(&x, results);
    export_close(&x, old);
    if (fine)
        cfx_graph_eliminate_dead_code(x.graph);
    else if (cfx_ok())
        refuse(x.lacking);
    return cfx_scope_return(mark, fine && cfx_ok() ? x.to : &cfx__program_bad);
}
