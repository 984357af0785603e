/* Inputs of a program from a file: found by number or name, fitted to what the program takes, put
 * in the tree that it is called with. */
#include "look.h"

#include <string.h>

#include "../graph/graph.h"

static cfx_node *placeholder(const cfx_program *p, int i) {
    return cfx_graph_find(p->module->graph, p->inputs[i].name);
}

const char *cli_file_name(const cfx_program *p, bool input, int64_t i, const char *name) {
    cfx_value file = cfx_dict_get(p->extra, "onnx"), names = cfx_none();
    if (file.tag == CFX_TAG_DICT)
        names = cfx_dict_get(cfx_as_dict(file), input ? "inputs" : "outputs");
    bool there = names.tag == CFX_TAG_LIST && i < cfx_as_list(names)->len;
    const char *own = there ? cfx_text(cfx_as_list(names)->items[i]) : NULL;
    return own ? own : name;
}

cfx_value cli_find_input(const cfx_program *p, int i, int64_t k, const cfx_dict *file) {
    const char *name = p->inputs[i].name;
    cfx_value v = cfx_dict_get(file, cli_file_name(p, true, k, name));
    return cfx_is_none(v) ? cli_find_tensor(file, name, "in", k) : v;
}

/* What input i of a program says that it takes. */
static cfx_value declared(const cfx_program *p, int i) {
    return cfx_node_result(placeholder(p, i)).value;
}

/* "in0 (x): f32[3, 4], in1 ..."; scope. */
static const char *list_inputs(const cfx_program *p) {
    cfx__text out = {0};
    for (int i = 0, k = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER) {
            const cfx_value v = declared(p, i);
            cfx__text_printf(&out, "%sin%d (%s)", k ? ", " : "", k,
                             cli_file_name(p, true, k, p->inputs[i].name));
            if (p->inputs[i].constant || !cfx_is_none(v)) /* else nothing is noted of it */
                cfx__text_printf(&out, ": %s", p->inputs[i].constant
                                                   ? cfx_value_repr(p->inputs[i].value)
                                                   : cli_brief(v));
            k++;
        }
    return out.len ? cfx__text_take(&out) : "none";
}

static bool is_same(cfx_value a, cfx_value b) {
    return a.tag == CFX_TAG_TENSOR && b.tag == CFX_TAG_TENSOR &&
           cfx_as_tensor(a) == cfx_as_tensor(b);
}

/* The tensors of a file that no input is called like, as "'x' and 'y'"; scope. NULL: none. */
static const char *list_others(const cfx_program *p, const cfx_dict *file) {
    cfx__text out = {0};
    int others = 0;
    for (int64_t e = 0; e < file->len; e++) {
        bool wanted = false;
        for (int i = 0, k = 0; i < p->ninputs && !wanted; i++)
            if (p->inputs[i].kind == CFX_IN_USER)
                wanted = is_same(file->entries[e].value, cli_find_input(p, i, k++, file));
        if (!wanted && others++ < 3)
            cfx__text_printf(&out, "%s'%s'", others > 1 ? ", " : "",
                             cfx_value_str(file->entries[e].key));
    }
    if (others > 3)
        cfx__text_printf(&out, " and %d more", others - 3);
    return others ? cfx__text_take(&out) : NULL;
}

/* A number where the program takes a number; tensors as they are. */
static cfx_value fitted(const cfx_program *p, int i, cfx_value v) {
    cfx_value val = declared(p, i);
    bool number = p->inputs[i].constant || val.tag == CFX_TAG_SYM || cfx_is_number(val);
    return number && v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->numel == 1
               ? cfx__tensor_get(cfx_as_tensor(v), 0)
               : v;
}

/* Whether v is a picture in colours where the input takes one channel, and has the other sizes that
 * it takes. */
static bool is_coloured(const cfx_program *p, int i, cfx_value v) {
    const cfx_result r = cfx_node_result(placeholder(p, i));
    const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    int others = 0;
    if (!t || !cli_image_is_coloured() || r.kind != CFX_RESULT_TENSOR || r.ndim != t->ndim)
        return false;
    for (int k = 0; k < t->ndim; k++) {
        const cfx_value size = cfx_result_size(&r, k);
        if (size.tag != CFX_TAG_INT || cfx_integer(size) == t->shape[k])
            continue;
        if (cfx_integer(size) != 1 || t->shape[k] != 3)
            return false;
        others++;
    }
    return others == 1;
}

/* Several files as one word. */
static const char *one_line(const char *spec) {
    char *text = cfx__string_new(spec, strlen(spec))->text;
    for (char *p = strchr(text, '\n'); p; p = strchr(p, '\n'))
        *p = ' ';
    return text;
}

/* The caller's inputs in flattened order; false, with an error, where the file does not fit. */
bool cli_gather_inputs(const cfx_program *p, const char *path, const cfx_dict *file,
                       cfx_list *leaves) {
    int64_t used = 0;
    for (int i = 0, flat = 0, tensors = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        if (s->kind != CFX_IN_USER)
            continue;
        cfx_value v = cli_find_input(p, i, flat, file);
        if (cfx_is_none(v) && !s->constant)
            v = cli_find_tensor(file, NULL, "in", tensors);
        used += !cfx_is_none(v);
        if (cfx_is_none(v) && !s->constant) {
            const char *others = list_others(p, file);
            cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                     "%s has no input 'in%d' or '%s'%s%s; inputs are %s",
                     path ? one_line(path) : "(no --inputs)", flat,
                     cli_file_name(p, true, flat, s->name), others ? ", but has " : "",
                     others ? others : "", list_inputs(p));
            return false;
        }
        if (is_coloured(p, i, v)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "input '%s' takes pictures of one channel, %s: --image channels=grey makes "
                     "them so", s->name, cli_brief(declared(p, i)));
            return false;
        }
        cfx_list_append(leaves, cfx_is_none(v) ? s->value : fitted(p, i, v));
        flat++;
        tensors += !s->constant;
    }
    if (used >= file->len)
        return true;
    const char *others = list_others(p, file);
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
             "%s has %lld tensors, of which %lld can be used%s%s; inputs are %s", one_line(path),
             (long long)file->len, (long long)used, others ? ", not " : "", others ? others : "",
             list_inputs(p));
    return false;
}

/* The leaves as the arguments of a call. */
static cfx_args as_call(const cfx_program *p, cfx_value leaves) {
    if (cfx_is_none(p->in_spec))
        return (cfx_args){(int)cfx_as_list(leaves)->len, cfx_as_list(leaves)->items, NULL};
    cfx_value tree = cfx_tree_unflatten(p->in_spec, cfx_as_list(leaves));
    if (tree.tag != CFX_TAG_TUPLE || cfx_as_list(tree)->len != 2 ||
        cfx_as_list(tree)->items[0].tag != CFX_TAG_TUPLE ||
        cfx_as_list(tree)->items[1].tag != CFX_TAG_DICT)
        return (cfx_args){(int)cfx_as_list(leaves)->len, cfx_as_list(leaves)->items, NULL};
    const cfx_list *args = cfx_as_list(cfx_as_list(tree)->items[0]);
    return (cfx_args){(int)args->len, args->items, cfx_as_dict(cfx_as_list(tree)->items[1])};
}

cfx_value cli_call_inputs(cfx_program *p, cfx_value flat) {
    return cfx_program_inputs_from((cfx_site){0}, p, as_call(p, flat));
}

bool cli_read_inputs(const cfx_program *p, const char *path, cfx_list *flat) {
    cfx_dict *file = cli_read_tensors(path, "in");
    return file && cli_gather_inputs(p, path, file, flat);
}

cfx_value cli_inputs(cfx_program *p, const char *path) {
    cfx_value leaves = cfx_list_value(0, NULL);
    if (!cli_read_inputs(p, path, cfx_as_list(leaves)))
        return cfx_bad();
    return cli_call_inputs(p, leaves);
}

cfx_value cli_own_leaves(cfx_program *p, bool random) {
    cfx_value leaves = cfx_list_value(0, NULL);
    const bool samples = !random && cli_sample_inputs(p, cfx_as_list(leaves));
    if (!samples) {
        cfx_manual_seed(0);
        if (!cli_make_inputs(p, cfx_dict_new(), cfx_as_list(leaves)))
            return cfx_bad();
    }
    if (cfx_as_list(leaves)->len)
        cli_say("cfx: inputs are %s\n", samples ? "those saved in the program"
                                                : "random: normal floats, ones for the rest");
    return leaves;
}

cfx_value cli_own_inputs(cfx_program *p, bool random) {
    cfx_value leaves = cli_own_leaves(p, random);
    return cfx_is_bad(leaves) ? leaves : cli_call_inputs(p, leaves);
}
