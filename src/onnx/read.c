/* .onnx files as programs: tensors of the file are parameters and constants, its inputs those of
 * the caller. Start at cfx__onnx_open. */
#include "onnx.h"

#include <ctype.h>

#include "../run/run.h"
#include "../tensor/tensor.h"

/* ---- names of tensors ------------------------------------------------------------------------ */

enum { MOST_DOTS = 32 }; /* of a path */

/* Whether a name is a path of modules: words with dots between them. */
static bool is_path(const char *name) {
    int dots = 0;
    char before = '.';
    for (; *name; before = *name++) {
        if (*name == '.' ? before == '.' : !isalnum((unsigned char)*name) && *name != '_')
            return false;
        dots += *name == '.';
    }
    return before != '.' && dots <= MOST_DOTS;
}

/* Whether a path leads through a tensor, or to where modules are. */
static bool is_crossed(const cfx__onnx_names *n, const char *path) {
    bool crossed = !cfx_is_none(cfx_dict_get(n->modules, path));
    for (const char *dot = strchr(path, '.'); dot && !crossed; dot = strchr(dot + 1, '.'))
        crossed = cfx_dict_find(n->taken, cfx_string_value_n(path, (size_t)(dot - path))) != NULL;
    return crossed;
}

/* What a tensor that the file calls so is called in the program: its own name, where that is a
 * path, unlike all others. Scope. */
static const char *target_for(cfx__onnx_names *n, const char *name) {
    bool path = is_path(name) && !is_crossed(n, name);
    const char *base = path ? name : cfx__onnx_identifier(*name ? name : "constant"), *own = base;
    cfx_value next = cfx_dict_get(n->next, base);
    int64_t i = cfx_is_none(next) ? 0 : cfx_integer(next);
    while (cfx_dict_find(n->taken, cfx_string_value(own)) ||
           !cfx_is_none(cfx_dict_get(n->modules, own)))
        own = cfx__text_format("%s_%lld", base, (long long)++i);
    cfx_dict_set(n->next, base, cfx_int(i));
    cfx_dict_set(n->taken, own, cfx_bool(true));
    for (const char *dot = strchr(own, '.'); dot; dot = strchr(dot + 1, '.'))
        cfx_dict_put(n->modules, cfx_string_value_n(own, (size_t)(dot - own)), cfx_bool(true));
    return own;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A placeholder called so, be it a word that Python has for itself. */
static cfx_node *placeholder(cfx_graph *g, const char *name) {
    cfx_node *n = cfx_graph_placeholder(g, name, NULL, false, cfx_none());
    if (n->graph && strcmp(n->name, name) && !cfx_graph_find(g, name))
        cfx_node_set_name(n, name);
    if (n->graph)
        cfx_node_set_target(n, (cfx_target){.name = n->name});
    return n;
}

/* Tensors of sub-graphs and functions are inputs of the whole, too. */
cfx_node *cfx__onnx_add_tensor(cfx__onnx_scope *s, cfx_tensor *t, const char *name) {
    cfx__onnx_scope *top = s;
    while (top->outer || top->caller)
        top = top->caller ? top->caller : top->outer;
    cfx__onnx_names *names = top->names;
    bool learns = cfx__dtype_is_floating((cfx_dtype)t->dtype) && !top->r->node;
    cfx_input_kind kind = learns ? CFX_IN_PARAMETER : CFX_IN_CONSTANT;
    const char *target = target_for(names, name);
    cfx_insert point = names->last ? cfx_graph_insert_after(top->graph, names->last)
                                   : cfx_graph_insert_before(top->graph, NULL);
    cfx_node *n = placeholder(top->graph, cfx__input_name(kind, target));
    cfx_graph_set_insert(top->graph, point);
    if (!n->graph)
        return NULL;
    names->last = n;
    cfx_node_set_meta(n, "val", cfx_tensor_value(cfx__tensor_faked(t)));
    cfx_dict_set(kind == CFX_IN_CONSTANT ? top->program->constants : top->program->state, target,
                 cfx_tensor_value(t));
    cfx_program_add_input(top->program,
                          (cfx_input_spec){.kind = kind, .name = n->name, .target = target});
    return cfx__onnx_lift(s, n);
}

/* Notes that elements have fewer bits than the dtype that holds them, or that none holds them. */
static void note_bits(cfx_node *n, const cfx__onnx_type *t) {
    if (t && (t->bits || t->dtype == CFX_DTYPE_COUNT))
        cfx_node_set_meta(n, "onnx_type", cfx_string_value(t->name));
}

/* A tensor of the file under the name that nodes have for it. */
static bool add_named(cfx__onnx_scope *s, const cfx__onnx_named *tensor, bool sparse) {
    size_t mark = cfx_scope_open();
    cfx_tensor *t = sparse ? cfx__onnx_sparse(s->r, tensor->what, tensor->name)
                           : cfx__onnx_tensor(s->r, tensor->what, tensor->name);
    cfx_node *n = cfx__obj_is_bad(t) ? NULL : cfx__onnx_add_tensor(s, t, tensor->name);
    bool fine = n && cfx__onnx_define(s, tensor->name, n);
    if (fine && !sparse)
        note_bits(n, cfx__onnx_tensor_elements(tensor->what));
    cfx_scope_close(mark);
    return fine;
}

bool cfx__onnx_tensors(cfx__onnx_scope *s, const cfx__onnx_graph *g) {
    bool fine = true;
    for (size_t i = 0; i < g->ntensors && fine; i++)
        fine = add_named(s, &g->tensors[i], false);
    for (size_t i = 0; i < g->nsparse && fine; i++)
        fine = add_named(s, &g->sparse[i], true);
    return fine;
}

/* An input that the file has a tensor for is no argument of the caller's. */
static bool has_tensor(const cfx__onnx_graph *g, cfx__map *tensors, const char *name) {
    if (!tensors->len)
        for (size_t i = 0; i < g->ntensors; i++)
            cfx__map_set(tensors, g->tensors[i].name, (void *)(uintptr_t)&g->tensors[i]);
    return cfx__map_get(tensors, name) != NULL;
}

/* The caller's inputs; what they are called in the file goes to `labels`. */
static bool add_inputs(cfx__onnx_scope *s, const cfx__onnx_graph *g, cfx__onnx_dims *dims,
                       cfx_list *labels) {
    cfx__map tensors = {0};
    bool fine = true;
    for (size_t i = 0; i < g->ninputs && fine; i++) {
        const cfx__onnx_named *in = &g->inputs[i];
        cfx_value val;
        if (has_tensor(g, &tensors, in->name))
            continue;
        cfx_node *n = placeholder(s->graph, cfx__onnx_identifier(in->name));
        fine = n->graph && cfx__onnx_val(s->r, in->what, in->name, dims, &val) &&
               cfx__onnx_define(s, in->name, n);
        if (!fine)
            break;
        if (!cfx_is_none(val))
            cfx_node_set_meta(n, "val", val);
        note_bits(n, cfx__onnx_elements(in->what));
        cfx_list_append(labels, cfx_string_value(in->name));
    }
    cfx__map_release(&tensors);
    return fine;
}

/* ---- results --------------------------------------------------------------------------------- */

static bool add_outputs(cfx__onnx_scope *s, const cfx__onnx_graph *g, cfx_list *labels) {
    cfx_value results = cfx_tuple_value(0, NULL);
    for (size_t i = 0; i < g->noutputs; i++) {
        cfx_node *n = cfx__onnx_value(s, g->outputs[i].name);
        if (!n)
            return false;
        cfx_list_append(cfx_as_list(results), cfx_node_value(n));
        cfx_list_append(labels, cfx_string_value(g->outputs[i].name));
        cfx_program_add_output(s->program, (cfx_output_spec){.kind = CFX_OUT_USER,
                                                             .name = n->name});
    }
    return cfx_graph_output(s->graph, results)->graph != NULL;
}

/* Whether all values are tensors: a sequence is a list, whose items a tree would take apart. */
static bool are_tensors(const cfx__onnx_named *values, size_t n) {
    bool tensors = true;
    for (size_t i = 0; i < n; i++)
        tensors &= cfx__onnx_kind_of(values[i].what) == CFX__ONNX_IS_TENSOR;
    return tensors;
}

/* One leaf for each; where `single`, one is not a tuple of itself. */
static cfx_value leaves(int64_t n, bool single) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_ellipsis());
    return single && n == 1 ? cfx_ellipsis() : out;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The kinds of values, by name. */
static cfx_value kinds_of(const cfx__onnx_named *values, size_t n) {
    cfx_dict *kinds = cfx_dict_new();
    for (size_t i = 0; i < n; i++)
        cfx_dict_set(kinds, values[i].name, cfx_int(cfx__onnx_kind_of(values[i].what)));
    return cfx_dict_value(kinds);
}

/* What the file says beside the program: versions, who made it, names and kinds of inputs and
 * results, names of sizes. */
static void note_file(cfx__onnx_scope *s, const cfx_list *inputs, const cfx_list *outputs,
                      const cfx__onnx_dims *dims) {
    const cfx__onnx_model *m = &s->r->model;
    cfx_dict *d = cfx_dict_new(), *sets = cfx_dict_new(), *sizes = cfx_dict_new();
    for (size_t i = 0; i < m->nopsets; i++)
        cfx_dict_set(sets, m->opsets[i].domain, cfx_int(m->opsets[i].version));
    for (int64_t i = 0; i < dims->names->len; i++) {
        const char *symbol = cfx_value_str(dims->names->entries[i].value);
        if (*cfx_text(dims->names->entries[i].key) != '?')
            cfx_dict_set(sizes, symbol, dims->names->entries[i].key);
        cfx_dict_set(s->program->ranges, symbol, cfx_tuple(0, cfx_none()));
    }
    cfx_dict_set(d, "ir_version", cfx_int(m->ir_version));
    cfx_dict_set(d, "opsets", cfx_dict_value(sets));
    cfx_dict_set(d, "producer", cfx_string_value(m->producer));
    cfx_dict_set(d, "producer_version", cfx_string_value(m->producer_version));
    cfx_dict_set(d, "inputs", cfx_list_value(inputs->len, inputs->items));
    cfx_dict_set(d, "outputs", cfx_list_value(outputs->len, outputs->items));
    cfx_dict_set(d, "input_kinds", kinds_of(m->graph->inputs, m->graph->ninputs));
    cfx_dict_set(d, "output_kinds", kinds_of(m->graph->outputs, m->graph->noutputs));
    cfx_dict_set(d, "sizes", cfx_dict_value(sizes));
    cfx_dict_set(s->program->extra, "onnx", cfx_dict_value(d));
}

/* The specifications of the caller's inputs come behind those of all tensors. */
static void add_user_specs(cfx__onnx_scope *s) {
    cfx_node *n = s->names->last ? cfx_node_after(s->names->last) : cfx_graph_first(s->graph);
    for (; n && n->op == CFX_PLACEHOLDER; n = cfx_node_after(n))
        cfx_program_add_input(s->program, (cfx_input_spec){.kind = CFX_IN_USER, .name = n->name});
}

static bool fill(cfx__onnx_scope *s) {
    const cfx__onnx_graph *g = s->r->model.graph;
    cfx__onnx_dims dims = {.names = cfx_dict_new()};
    cfx_value inputs = cfx_list_value(0, NULL), outputs = cfx_list_value(0, NULL);
    if (!add_inputs(s, g, &dims, cfx_as_list(inputs)) || !cfx__onnx_tensors(s, g) ||
        !cfx__onnx_nodes(s, g->nodes, g->nnodes))
        return false;
    add_user_specs(s);
    cfx__onnx_place_rest(s->graph, s->names->last);
    if (!add_outputs(s, g, cfx_as_list(outputs)))
        return false;
    cfx_program *p = s->program;
    if (are_tensors(g->inputs, g->ninputs))
        p->in_spec = cfx_value_keep(cfx_tuple(leaves(cfx_as_list(inputs)->len, false),
                                              cfx_dict_value(cfx_dict_new())));
    p->out_spec = cfx_value_keep(leaves(cfx_as_list(outputs)->len, true));
    note_file(s, cfx_as_list(inputs), cfx_as_list(outputs), &dims);
    return cfx_ok();
}

static cfx_program *read_program(cfx__onnx_reader *r) {
    cfx_graph *g = cfx_graph_new();
    cfx_module *gm = cfx_graph_module(cfx__module_new_raw("GraphModule", NULL), g, "GraphModule");
    cfx_program *p = cfx_program_new(gm);
    cfx__onnx_names names = {cfx_dict_new(), cfx_dict_new(), cfx_dict_new(), NULL};
    cfx__onnx_scope s = {.r = r,
                         .program = p,
                         .module = gm,
                         .graph = gm->graph,
                         .opsets = r->model.opsets,
                         .nopsets = r->model.nopsets,
                         .names = &names};
    bool fine = !cfx_failed(p) && fill(&s);
    cfx__onnx_scope_close(&s);
    return fine && cfx_program_infer(p) && cfx__onnx_data_sizes(p) ? p : &cfx__program_bad;
}

cfx_program *cfx__onnx_open(const char *path) {
    size_t mark = cfx_scope_open();
    cfx__file_mapping *map = cfx__file_map(path);
    if (!map)
        return &cfx__program_bad;
    cfx__onnx_reader r = {.path = path};
    bool fine = cfx__onnx_read_model(&r, (cfx__slice){map->size ? map->data : "", map->size});
    cfx_program *p = fine ? read_program(&r) : &cfx__program_bad;
    cfx__onnx_reader_close(&r);
    cfx_drop(map);
    return cfx_scope_return(mark, cfx_ok() ? p : &cfx__program_bad);
}
