/* Inputs for programs: its own samples, those of a file, and made-up ones for the rest. */
#include "look.h"

bool cli_sample_inputs(cfx_program *p, cfx_list *flat) {
    cfx_value sample = cfx_program_sample_inputs(p), leaves = cfx_list_value(0, NULL);
    if (cfx_is_bad(sample))
        cfx__error_forgive();
    if (sample.tag == CFX_TAG_TUPLE)
        cfx_tree_flatten(sample, cfx_as_list(leaves));
    int64_t users = 0;
    for (int i = 0; i < p->ninputs; i++)
        users += p->inputs[i].kind == CFX_IN_USER;
    if (cfx_as_list(leaves)->len != users)
        return false;
    for (int64_t i = 0; i < users; i++)
        cfx_list_append(flat, cfx_as_list(leaves)->items[i]);
    return true;
}

/* What a symbol is taken to be: the lower end of its range, 2 at least, for 1 means other things.
 */
static cfx_value smallest(const cfx_program *p, const cfx_sym *s) {
    if (s->op == CFX__SYM_INT)
        return cfx_int(s->hint);
    if (s->op != CFX__SYM_NAME)
        return cfx__sym_binary(s->op, smallest(p, s->a), smallest(p, s->b));
    cfx_value range = cfx_dict_get(p->ranges, s->name);
    cfx_value lo =
        range.tag == CFX_TAG_TUPLE && cfx_as_list(range)->len ? cfx_at(range, 0) : cfx_none();
    return cfx_int(lo.tag == CFX_TAG_INT && cfx_integer(lo) > 2 ? cfx_integer(lo) : 2);
}

static cfx_value made_up(const cfx_program *p, const cfx_input_spec *s) {
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, s->name));
    cfx_value sizes = cfx_list_value(0, NULL), dtype = cfx_dtype_value(r.dtype);
    if (s->constant)
        return s->value;
    if (r.value.tag == CFX_TAG_SYM)
        return smallest(p, cfx_as_sym(r.value));
    const char *type =
        cfx_text(cfx_node_get_meta(cfx_graph_find(p->module->graph, s->name), "onnx_type"));
    if (r.kind != CFX_RESULT_TENSOR) {
        if (type)
            cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
                     "input %s has elements of type %s, of which there are no tensors here",
                     s->name, type);
        else
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "input %s does not say what it is; give it with --inputs", s->name);
        return cfx_bad();
    }
    for (int i = 0; i < r.ndim; i++) {
        cfx_value size = cfx_result_size(&r, i);
        cfx_list_append(cfx_as_list(sizes),
                        size.tag == CFX_TAG_SYM ? smallest(p, cfx_as_sym(size)) : size);
    }
    if (cfx__dtype_is_float8(r.dtype))
        return cfx_tensor_value(cfx_to(cfx_randn(sizes), dtype));
    return cfx_tensor_value(cfx__dtype_is_float(r.dtype) ? cfx_randn(sizes, CFX_KW(dtype, dtype))
                                                         : cfx_ones(sizes, CFX_KW(dtype, dtype)));
}

bool cli_make_inputs(const cfx_program *p, const cfx_dict *file, cfx_list *flat) {
    for (int i = 0, k = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_value v = cli_find_input(p, i, k, file);
        cfx_list_append(flat, cfx_is_none(v) ? made_up(p, &p->inputs[i]) : v);
        k++;
    }
    return cfx_ok();
}
