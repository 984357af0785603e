/* Programs as modules: parameters and buffers under their own names, inputs as the model took them.
 * Start at cfx_program_module. */
#include "run.h"

/* The forward of such a module: inputs are checked before its graph runs. What is traced is not
 * looked at. */
static cfx_value forward(cfx_module *self, cfx_args a) {
    cfx_value ranges = cfx_module_attr(self, "range_constraints");
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_args given = a;
    if (cfx_is_tracing() || !cfx_integer(cfx_module_attr(self, "validate_inputs")))
        return cfx__run_hooked(self, a);
    if (!cfx__run_inputs((cfx_site){0}, self->graph, &given, flat))
        return cfx_bad();
    const cfx_dict *known = ranges.tag == CFX_TAG_DICT ? cfx_as_dict(ranges) : cfx_dict_new();
    return cfx__inputs_check((cfx_site){0}, self->graph, known, cfx_module_attr(self, "guards"),
                             given)
               ? cfx__run_hooked(self, a)
               : cfx_bad();
}

/* The node that reads what a lifted placeholder stood for. */
static void unlift(cfx_graph *g, cfx_node *placeholder, const char *path) {
    CFX_INSERT_BEFORE(g, placeholder) {
        cfx_node *read = cfx_graph_get_attr(g, path);
        cfx_dict *meta = placeholder->meta;
        for (int64_t i = 0; meta && i < meta->len; i++)
            cfx_node_set_meta(read, cfx_text(meta->entries[i].key), meta->entries[i].value);
        cfx_node_replace(placeholder, read);
    }
    cfx_graph_erase(placeholder);
}

/* The module's own handle of a tensor of the program's: the numbers are shared, but not whether
 * they want gradients, so that the program, which other threads may be running, stays as it is.
 * `made` has one for each tensor, under its address: what is tied stays tied. */
static cfx_tensor *own_handle(cfx_dict *made, cfx_tensor *t) {
    cfx_value key = cfx_int((int64_t)(intptr_t)t);
    const cfx_value *known = cfx_dict_find(made, key);
    if (known)
        return cfx_as_tensor(*known);
    cfx_tensor *own = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    cfx_dict_put(made, key, cfx_tensor_value(own));
    return own;
}

bool cfx__program_learns(const cfx_program *p, const cfx_input_spec *s) {
    const cfx_tensor *t = cfx_program_tensor(p, s);
    cfx_result noted = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
    return t && s->kind == CFX_IN_PARAMETER && cfx__input_learns(s->kind, (cfx_dtype)t->dtype) &&
           (noted.kind != CFX_RESULT_TENSOR || noted.requires_grad || t->head.flags & CFX__GRAD);
}

static void add_tensor(cfx_module *m, const cfx_program *p, const cfx_input_spec *s,
                       cfx_dict *made) {
    cfx_tensor *t = cfx_program_tensor(p, s);
    if (!t || cfx_module_has(m, s->target))
        return;
    t = own_handle(made, t);
    const char *dot = strrchr(s->target, '.'), *last = dot ? dot + 1 : s->target;
    size_t above = dot ? (size_t)(dot - s->target) : 0;
    cfx_module *owner = cfx__module_make(m, cfx__string_new(s->target, above)->text);
    if (owner && s->kind == CFX_IN_PARAMETER) {
        cfx_nn_parameter(owner, last, t);
        if (!cfx__program_learns(p, s))
            cfx_requires_grad(t, false);
    } else if (owner)
        cfx_nn_buffer(owner, last, t, s->kind == CFX_IN_BUFFER && s->persistent);
}

/* The results alone, after the writes that the other outputs stand for. */
static void unlift_output(const cfx_program *p, cfx_graph *g, cfx_node *const *nodes) {
    cfx_node *output = cfx_graph_output_node(g);
    cfx_value all =
        output && cfx_as_list(output->args)->len ? cfx_as_list(output->args)->items[0] : cfx_none();
    if ((all.tag != CFX_TAG_TUPLE && all.tag != CFX_TAG_LIST) ||
        cfx_as_list(all)->len != p->noutputs)
        return;
    cfx_value results = cfx_tuple_value(0, NULL);
    cfx_dict *copies = cfx_dict_new(); /* what is written, and a result as well, is the copy */
    for (int i = 0; i < p->noutputs; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        int at = cfx__program_written(p, &p->outputs[i]);
        if (at < 0 || v.tag != CFX_TAG_NODE)
            continue;
        CFX_INSERT_BEFORE(g, output) {
            cfx_node *copy = cfx_graph_call_function(g, "torch.ops.aten.copy_.default",
                                                     cfx_tuple(nodes[at], v), CFX_NONE);
            cfx_dict_put(copies, v, cfx_node_value(copy));
        }
    }
    for (int i = 0; i < p->noutputs; i++) {
        cfx_value v = cfx_as_list(all)->items[i];
        const cfx_value *copy = v.tag == CFX_TAG_NODE ? cfx_dict_find(copies, v) : NULL;
        if (p->outputs[i].kind == CFX_OUT_USER || p->outputs[i].kind == CFX_OUT_LOSS)
            cfx_list_append(cfx_as_list(results), copy ? *copy : v);
    }
    cfx_node_set_args(output, cfx_tuple_value(1, &results));
}

/* What forward calls its arguments; where nobody knows, as PyTorch does. */
static cfx_value argument_names(const cfx_program *p) {
    const cfx_list *first = cfx_as_list(cfx_as_list(p->in_spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(p->in_spec)->items[1]);
    cfx_value known = p->ncalls ? p->calls[0].names : cfx_none();
    if (known.tag == CFX_TAG_LIST && cfx_as_list(known)->len == first->len + rest->len)
        return known;
    cfx_value names = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < first->len; i++)
        cfx_list_append(cfx_as_list(names),
                        cfx_string_value(cfx__text_format("arg_%lld", (long long)i)));
    for (int64_t i = 0; i < rest->len; i++)
        cfx_list_append(cfx_as_list(names), rest->entries[i].key);
    return names;
}

cfx_module *cfx__program_shell(const char *type) { return cfx__module_new_raw(type, forward); }

void cfx__program_dress(cfx_module *m, const cfx_program *p) {
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        cfx_node *n = s->constant ? cfx_graph_find(m->graph, s->name) : NULL;
        if (n)
            cfx_node_set_meta(n, "constant", cfx_tuple_value(1, &s->value));
    }
    if (cfx__tree_is_call(p->in_spec))
        cfx_graph_set_tree(m->graph, argument_names(p), p->in_spec, p->out_spec);
    cfx_module_set_attr(m, "range_constraints", cfx_dict_value(p->ranges));
    cfx_module_set_attr(m, "guards", cfx_dict_get(p->extra, "guards"));
    cfx_module_set_attr(m, "validate_inputs", cfx_bool(true));
}

cfx_module *cfx_program_module(cfx_program *p) {
    if (!cfx__program_whole((cfx_site){0}, p))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_module *m = cfx__program_shell(p->module->type);
    cfx_graph *g = cfx_graph_copy(p->module->graph);
    for (int i = 0; i < cfx_module_count(p->module); i++)
        cfx_nn_add(m, cfx_module_child_name(p->module, i), cfx_module_child(p->module, i));
    cfx_node **nodes = cfx__alloc0((size_t)p->ninputs * sizeof *nodes);
    cfx_dict *made = cfx_dict_new();
    int k = 0;
    cfx_each_node(g, n) if (n->op == CFX_PLACEHOLDER && k < p->ninputs) nodes[k++] = n;
    unlift_output(p, g, nodes);
    for (int i = 0; i < k; i++) {
        if (p->inputs[i].kind == CFX_IN_USER || !p->inputs[i].target)
            continue;
        add_tensor(m, p, &p->inputs[i], made);
        unlift(g, nodes[i], p->inputs[i].target);
    }
    cfx__free(nodes);
    cfx__graph_own(g, m);
    cfx__program_dress(m, p);
    return cfx_scope_return(mark, cfx_ok() ? m : &cfx__module_bad);
}
