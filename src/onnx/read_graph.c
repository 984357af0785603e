/* Converts nodes of an ONNX file: finds the row of the operator in the file's operator set, and
 * converts inputs and attributes to arguments. Start at cfx__onnx_nodes. */
#include "onnx.h"

#include <ctype.h>

#include "../dispatch/dispatch.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* "/block/Add_output_0" is block_Add_output_0. */
const char *cfx__onnx_identifier(const char *name) {
    cfx__text t = {0};
    while (*name && !isalnum((unsigned char)*name) && *name != '_')
        name++;
    if (!isalpha((unsigned char)*name) && *name != '_')
        cfx__text_putc(&t, '_');
    for (; *name; name++)
        cfx__text_putc(&t, isalnum((unsigned char)*name) ? *name : '_');
    return cfx__text_take(&t);
}

cfx_node *cfx__onnx_capture(cfx__onnx_scope *s, cfx_node *outer) {
    cfx_node *n = cfx__map_get(&s->lifted, outer->name);
    if (n)
        return n;
    cfx_insert point = s->last ? cfx_graph_insert_after(s->graph, s->last)
                               : cfx_graph_insert_before(s->graph, NULL);
    n = cfx_graph_placeholder(s->graph, outer->name, NULL, false, cfx_none());
    cfx_graph_set_insert(s->graph, point);
    s->last = n;
    cfx_list_append(s->captured, cfx_node_value(outer));
    cfx__map_set(&s->lifted, outer->name, n);
    return n;
}

cfx_node *cfx__onnx_lift(cfx__onnx_scope *s, cfx_node *of_whole) {
    while (s->caller)
        s = s->caller;
    return s->outer ? cfx__onnx_capture(s, cfx__onnx_lift(s->outer, of_whole)) : of_whole;
}

/* The node of this graph that a value of it, or of one around it, is; NULL where there is none. */
static cfx_node *find(cfx__onnx_scope *s, const char *name) {
    cfx_node *n = cfx__map_get(&s->values, name);
    cfx_node *outer = !n && s->outer ? find(s->outer, name) : NULL;
    return outer ? cfx__onnx_capture(s, outer) : n;
}

void cfx__onnx_scope_close(cfx__onnx_scope *s) {
    cfx__map_release(&s->values);
    cfx__map_release(&s->lifted);
}

cfx_node *cfx__onnx_value(cfx__onnx_scope *s, const char *name) {
    cfx_node *n = find(s, name);
    if (!n)
        cfx__onnx_bad(s->r, "it uses the value '%s', which nothing before it gives", name);
    return n;
}

bool cfx__onnx_define(cfx__onnx_scope *s, const char *name, cfx_node *n) {
    if (cfx__map_get(&s->values, name))
        return cfx__onnx_bad(s->r, "the value '%s' is given twice", name);
    cfx__map_set(&s->values, name, n);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Operator sets by the namespace that their rows are in. */
static const struct {
    const char *domain, *ns;
} domains[] = {
    {"", "onnx"},
    {"ai.onnx.ml", "onnx_ml"},
    {"ai.onnx.preview.training", "onnx_training"},
    {"com.microsoft", "onnx_microsoft"},
};

static const char *namespace_of(const char *domain) {
    for (int i = 0; i < COUNT(domains); i++)
        if (!strcmp(domains[i].domain, domain))
            return domains[i].ns;
    return NULL;
}

static int64_t version_of(const cfx__onnx_scope *s, const char *domain) {
    for (size_t i = 0; i < s->nopsets; i++)
        if (!strcmp(s->opsets[i].domain, domain))
            return s->opsets[i].version;
    return 1;
}

/* How many results of a node are asked for: up to the last that has a name. */
static size_t count_results(const cfx__onnx_node *n) {
    size_t count = n->noutputs;
    while (count && !*n->outputs[count - 1])
        count--;
    return count;
}

static const cfx__foreign_row *row_of(const cfx_op *op) { return op->row; }

/* Whether the results of a row are taken one by one, and how many there are: of a list any
 * number. */
static bool gives_several(cfx_op *op) {
    return row_of(op)->several || cfx__op_info_of(op)->nout > 1;
}

static int result_count(cfx_op *op) {
    return row_of(op)->several ? INT32_MAX : gives_several(op) ? cfx__op_info_of(op)->nout : 1;
}

/* The row for a node: of those with enough results that with the fewest, of these the newest that
 * is not newer than the file. *known is whether there is any of that name. */
static cfx_op *find_row(const cfx__onnx_scope *s, const cfx__onnx_node *n, bool *known) {
    const char *ns = namespace_of(n->domain);
    const cfx_fn *fn = ns ? cfx_fn_find(cfx__text_format("%s::%s", ns, n->op)) : NULL;
    int64_t version = version_of(s, n->domain);
    cfx_op *best = NULL;
    for (int i = 0; fn && i < fn->n; i++) {
        cfx_op *op = fn->ops[i];
        bool fits = row_of(op)->since <= version &&
                    (uint64_t)result_count(op) >= count_results(n);
        if (fits && (!best || result_count(op) < result_count(best) ||
                     (result_count(op) == result_count(best) &&
                      row_of(op)->since > row_of(best)->since)))
            best = op;
    }
    *known = fn != NULL;
    return best;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static cfx_value input(cfx__onnx_scope *s, const char *name) {
    if (!*name)
        return cfx_none();
    cfx_node *n = cfx__onnx_value(s, name);
    return n ? cfx_node_value(n) : cfx_bad();
}

/* The rest of the inputs as a list. */
static cfx_value rest(cfx__onnx_scope *s, const cfx__onnx_node *n, size_t from) {
    cfx_value list = cfx_list_value(0, NULL);
    for (size_t i = from; i < n->ninputs; i++) {
        cfx_value v = input(s, n->inputs[i]);
        if (cfx_is_bad(v))
            return v;
        cfx_list_append(cfx_as_list(list), v);
    }
    return list;
}

/* Whether an argument takes all inputs that are left; a list that is one input is a sequence, and
 * called so. */
static bool takes_rest(const cfx__schema_arg *a) {
    return a->list && a->type == CFX__T_TENSOR && strcmp(a->name, "input_sequence") != 0;
}

/* The inputs of a node as positional arguments. */
static bool read_inputs(cfx__onnx_scope *s, const cfx__onnx_node *n, const cfx__schema *schema,
                        cfx_list *args) {
    size_t i = 0;
    for (int k = 0; k < schema->npositional; k++) {
        const cfx__schema_arg *a = &schema->args[k];
        cfx_value v = takes_rest(a)    ? rest(s, n, i)
                      : i < n->ninputs ? input(s, n->inputs[i])
                                       : cfx_none();
        i = takes_rest(a) ? n->ninputs : i + 1;
        if (cfx_is_bad(v))
            return false;
        if (cfx_is_none(v) && !a->has_default && !a->optional)
            return cfx__onnx_bad(s->r, "its input '%s' is missing", a->name);
        cfx_list_append(args, v);
    }
    return i >= n->ninputs || cfx__onnx_bad(s->r, "it has %zu inputs, and takes %d", n->ninputs,
                                            schema->npositional);
}

static const cfx__schema_arg *keyword(const cfx__schema *schema, const char *name) {
    for (int i = schema->npositional; i < schema->nargs; i++)
        if (!strcmp(schema->args[i].name, name))
            return &schema->args[i];
    return NULL;
}

/* Attributes that say nothing of what a node computes: how results may lie in the memory of inputs,
 * in the first versions of the operator set, and the types of values. */
static bool is_needless(const cfx__onnx_attr *a) {
    return !strcmp(a->name, "consumed_inputs") || a->type == CFX__ONNX_TYPE;
}

static bool read_attrs(cfx__onnx_scope *s, const cfx__onnx_node *n, const cfx__schema *schema,
                       cfx_dict *kwargs) {
    for (size_t i = 0; i < n->nattrs; i++) {
        const cfx__onnx_attr *a = &n->attrs[i];
        const cfx__schema_arg *arg = schema ? keyword(schema, a->name) : NULL;
        if (schema && is_needless(a))
            continue;
        if (schema && !arg)
            return cfx__onnx_bad(s->r, "the operator has no attribute '%s'", a->name);
        if (a->ref)
            return cfx__onnx_bad(s->r, "attribute '%s' stands for one of a function, and there is "
                                 "none around it", a->name);
        if (!cfx_is_none(cfx_dict_get(kwargs, a->name)))
            return cfx__onnx_bad(s->r, "attribute '%s' is given twice", a->name);
        cfx_value v = cfx__onnx_attr_value(s, a, arg);
        if (cfx_is_bad(v))
            return false;
        if (arg && v.tag != CFX_TAG_NODE && !cfx__bind_takes(arg, v, 0))
            return cfx__onnx_bad(s->r, "attribute '%s' is %s, and should be %s", a->name,
                                 cfx_value_type_name(v), arg->type_text);
        if (!cfx_is_none(v))
            cfx_dict_set(kwargs, a->name, v);
    }
    for (int i = schema ? schema->npositional : 0; schema && i < schema->nargs; i++)
        if (!schema->args[i].has_default && !schema->args[i].optional &&
            cfx_is_none(cfx_dict_get(kwargs, schema->args[i].name)))
            return cfx__onnx_bad(s->r, "its attribute '%s' is missing", schema->args[i].name);
    return true;
}

/* Parts of equal size are as many as the node has results, where nothing else says it. */
static void count_parts(const cfx__onnx_node *n, const cfx__schema *schema, cfx_dict *kwargs) {
    bool counts = keyword(schema, "num_outputs") &&
                  cfx_is_none(cfx_dict_get(kwargs, "num_outputs")) &&
                  cfx_is_none(cfx_dict_get(kwargs, "split"));
    if (counts)
        cfx_dict_set(kwargs, "num_outputs", cfx_int((int64_t)n->noutputs));
}

/* Numbers are quantized to the type of their zero point, cast to that of another tensor or taken
 * from one, also where that has few bits. */
static void note_bits(const cfx__schema *schema, const cfx_list *args, cfx_dict *kwargs) {
    static const struct {
        const char *op, *keyword;
        int like;
    } rows[] = {{"QuantizeLinear", "output_dtype", 2},
                {"CastLike", "to", 1},
                {"GatherBlockQuantized", "data_type", 0}};
    for (int i = 0; i < COUNT(rows); i++) {
        if (strcmp(schema->name, rows[i].op) || args->len <= rows[i].like ||
            args->items[rows[i].like].tag != CFX_TAG_NODE ||
            !cfx_is_none(cfx_dict_get(kwargs, rows[i].keyword)))
            continue;
        cfx_value type = cfx_node_get_meta(cfx_as_node(args->items[rows[i].like]), "onnx_type");
        if (!cfx_is_none(type))
            cfx_dict_set(kwargs, rows[i].keyword, type);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

bool cfx__onnx_name_results(cfx__onnx_scope *s, const cfx__onnx_node *n, cfx_node *made,
                            bool several) {
    if (!several)
        return !n->noutputs || cfx__onnx_define(s, n->outputs[0], made);
    for (size_t i = 0; i < n->noutputs; i++) {
        if (!*n->outputs[i])
            continue;
        cfx_node *item = cfx_graph_create(
            s->graph, CFX_CALL_FUNCTION, cfx_graph_target(s->graph, "operator.getitem"),
            cfx_tuple(made, (int64_t)i), cfx_none(), cfx__onnx_identifier(n->outputs[i]), NULL);
        if (!item->graph || !cfx__onnx_define(s, n->outputs[i], item))
            return false;
        cfx_node_set_meta(item, "nn_module_stack", cfx_node_get_meta(made, "nn_module_stack"));
    }
    return true;
}

/* A tuple of arguments without what is left out at its end. */
static cfx_value trimmed(const cfx_list *args) {
    int64_t n = args->len;
    while (n && cfx_is_none(args->items[n - 1]))
        n--;
    return cfx_tuple_value(n, args->items);
}

/* "torch.ops.onnx.Reshape.default", or what an operator that is not known is called. Scope. */
static const char *target_of(const cfx__onnx_node *n, cfx_op *op) {
    if (op)
        return cfx__text_format("torch.ops.%s", cfx_op_name(op));
    const char *ns = namespace_of(n->domain);
    return cfx__text_format("torch.ops.%s.%s.default",
                            ns ? ns : cfx__onnx_identifier(n->domain), cfx__onnx_identifier(n->op));
}

static bool make_call(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    bool known, several;
    cfx_op *op = find_row(s, n, &known);
    const cfx__schema *schema = op ? cfx__op_info_of(op)->schema : NULL;
    if (known && !op)
        return cfx__onnx_bad(s->r, "version %lld of the operator set has no such operator with "
                             "%zu results", (long long)version_of(s, n->domain), count_results(n));
    cfx_value args = cfx_list_value(0, NULL);
    cfx_dict *kwargs = cfx_dict_new();
    if (schema) {
        if (!read_inputs(s, n, schema, cfx_as_list(args)))
            return false;
    } else if (cfx_is_bad(args = rest(s, n, 0))) {
        return false;
    }
    if (!read_attrs(s, n, schema, kwargs))
        return false;
    if (schema) {
        count_parts(n, schema, kwargs);
        note_bits(schema, cfx_as_list(args), kwargs);
    }
    several = op ? gives_several(op) : n->noutputs > 1;
    const char *name = several || !n->noutputs ? (*n->name ? n->name : n->op) : n->outputs[0];
    cfx_node *made = cfx_graph_create(s->graph, CFX_CALL_FUNCTION,
                                      cfx_graph_target(s->graph, target_of(n, op)),
                                      trimmed(cfx_as_list(args)),
                                      kwargs->len ? cfx_dict_value(kwargs) : cfx_none(),
                                      cfx__onnx_identifier(name), NULL);
    if (!made->graph)
        return false;
    cfx__onnx_note_origin(n, made);
    return cfx__onnx_name_results(s, n, made, several);
}

/* A constant is an input of the program, as a tensor of the graph is. */
static bool make_constant(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    cfx_tensor *t = cfx__onnx_constant(s, n);
    if (cfx__obj_is_bad(t) || n->noutputs != 1)
        return cfx_ok() && cfx__onnx_bad(s->r, "it has %zu results", n->noutputs);
    cfx_node *made = cfx__onnx_add_tensor(s, t, n->outputs[0]);
    return made && cfx__onnx_define(s, n->outputs[0], made);
}

static bool make_node(cfx__onnx_scope *s, const cfx__onnx_node *n) {
    const cfx__onnx_function *f = cfx__onnx_find_function(s->r, n);
    if (f)
        return cfx__onnx_inline(s, n, f);
    if (!*n->domain && !strcmp(n->op, "Constant"))
        return make_constant(s, n);
    bool made;
    return cfx__onnx_control(s, n, &made) && (made || make_call(s, n));
}

/* Where the order of nodes is found: files of tools that change models have nodes behind those that
 * use them. */
typedef struct {
    const cfx__onnx_node *nodes;
    size_t nstack;
    cfx__map givers;      /* value to the node that gives it, counted from 1 */
    unsigned char *state; /* of each node: 0 not met, 1 waits for others, 2 made */
    bool *fixed;          /* of each node: it computes with tensors of the file alone */
    size_t *stack;        /* nodes that wait, each for the one above it */
} ordering;

static const cfx__onnx_node *giver_not_met(const ordering *o, const char *name) {
    size_t at = (size_t)(uintptr_t)cfx__map_get(&o->givers, name);
    return at && o->state[at - 1] == 0 ? &o->nodes[at - 1] : NULL;
}

/* A node that n waits for, for its inputs or for what its sub-graphs use; NULL: none. */
static const cfx__onnx_node *missing(const ordering *o, const cfx__onnx_node *n) {
    const cfx__onnx_node *found = NULL;
    for (size_t i = 0; i < n->ninputs && !found; i++)
        found = giver_not_met(o, n->inputs[i]);
    for (size_t k = 0; k < n->nattrs && !found; k++) {
        const cfx__onnx_graph *g = n->attrs[k].g;
        for (size_t i = 0; g && i < g->nnodes && !found; i++)
            found = missing(o, &g->nodes[i]);
        for (size_t i = 0; g && i < g->noutputs && !found; i++)
            found = giver_not_met(o, g->outputs[i].name);
    }
    return found;
}

/* Whether a node that waits for no other needs, by way of others, what it gives: an error. */
static bool is_in_circle(cfx__onnx_scope *s, const ordering *o, const cfx__onnx_node *n) {
    for (size_t i = 0; i < n->ninputs; i++) {
        size_t at = (size_t)(uintptr_t)cfx__map_get(&o->givers, n->inputs[i]);
        if (at && o->state[at - 1] == 1 && !find(s, n->inputs[i]))
            return !cfx__onnx_bad(s->r, "it computes its own input '%s': nodes form a cycle",
                                  n->inputs[i]);
    }
    return false;
}

/* Makes node i, before it those that it waits for. */
static bool make_in_order(cfx__onnx_scope *s, ordering *o, size_t i) {
    bool fine = true;
    o->stack[o->nstack++] = i;
    while (o->nstack && fine) {
        size_t at = o->stack[o->nstack - 1];
        o->state[at] = o->state[at] ? o->state[at] : 1;
        const cfx__onnx_node *first = missing(o, &o->nodes[at]);
        if (first) {
            o->stack[o->nstack++] = (size_t)(first - o->nodes);
            continue;
        }
        size_t mark = cfx_scope_open();
        s->r->node = &o->nodes[at];
        fine = !is_in_circle(s, o, &o->nodes[at]) && make_node(s, &o->nodes[at]);
        cfx_scope_close(mark);
        o->state[at] = 2;
        o->nstack--;
    }
    return fine;
}

static bool has_graph(const cfx__onnx_node *n) {
    bool has = false;
    for (size_t k = 0; k < n->nattrs; k++)
        has |= n->attrs[k].g != NULL;
    return has;
}

static bool is_constant(const cfx__onnx_node *n) {
    return !strcmp(n->op, "Constant") && !*n->domain;
}

/* Whether a value is a tensor of the file, or made of such alone. */
static bool is_fixed(const cfx__onnx_scope *s, const ordering *o, const char *name) {
    size_t at = (size_t)(uintptr_t)cfx__map_get(&o->givers, name);
    const cfx_node *n = at ? NULL : cfx__map_get(&s->values, name);
    return at ? o->fixed[at - 1]
              : n && s->names->last && !cfx_node_precedes(s->names->last, n);
}

/* Sub-graphs use values without having them as inputs, so that beside them nothing is fixed. */
static void find_fixed(const cfx__onnx_scope *s, ordering *o, size_t n) {
    bool plain = !s->outer && !s->caller;
    for (size_t i = 0; i < n && plain; i++)
        plain = !has_graph(&o->nodes[i]);
    for (size_t i = 0; i < n && plain; i++) {
        const cfx__onnx_node *x = &o->nodes[i];
        o->fixed[i] = x->ninputs || is_constant(x);
        for (size_t k = 0; k < x->ninputs; k++)
            o->fixed[i] &= !*x->inputs[k] || is_fixed(s, o, x->inputs[k]);
    }
}

/* What is made of weights alone, such as weights that are dequantized, is made where it is needed:
 * exporters and quantizers put it before all else, apart from the layer that it is for. */
bool cfx__onnx_nodes(cfx__onnx_scope *s, const cfx__onnx_node *nodes, size_t n) {
    const cfx__onnx_node *around = s->r->node;
    ordering o = {.nodes = nodes};
    bool fine = true;
    o.state = cfx__alloc0(n + 1);
    o.fixed = cfx__alloc0(n + 1);
    o.stack = cfx__alloc((n + 1) * sizeof *o.stack);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i].noutputs; k++)
            if (*nodes[i].outputs[k])
                cfx__map_set(&o.givers, nodes[i].outputs[k], (void *)(uintptr_t)(i + 1));
    find_fixed(s, &o, n);
    for (size_t i = 0; i < n && fine; i++)
        if (o.state[i] != 2 && (!o.fixed[i] || is_constant(&nodes[i])))
            fine = make_in_order(s, &o, i);
    for (size_t i = 0; i < n && fine; i++) /* those that no other needs */
        fine = o.state[i] == 2 || make_in_order(s, &o, i);
    cfx__map_release(&o.givers);
    cfx__free(o.stack);
    cfx__free(o.state);
    cfx__free(o.fixed);
    s->r->node = around;
    return fine;
}
