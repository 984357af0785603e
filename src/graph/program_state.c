/* The tensors of a program by name: a state dict given to it. */
#include "graph.h"

static void note(cfx__text *out, const char *what, const char *name) {
    cfx__text_printf(out, "%s%s '%s'", out->len ? "; " : "", what, name);
}

/* What is wrong with giving `new` for `old`; false where nothing is. */
static bool differs(cfx__text *out, const char *name, const cfx_tensor *old, cfx_value v) {
    const cfx_tensor *new = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (new &&cfx__tensor_same_shape(old, new) && old->dtype == new->dtype)
        return false;
    note(out, "wrong", name);
    if (new)
        cfx__text_printf(out, " (%s %s where the program has %s %s)", cfx_dtype_name(new->dtype),
                         cfx__shape_text(new->ndim, new->shape), cfx_dtype_name(old->dtype),
                         cfx__shape_text(old->ndim, old->shape));
    else
        cfx__text_printf(out, " (%s, not a tensor)", cfx_value_type_name(v));
    return true;
}

bool cfx_program_load_state_dict(cfx_program *p, const cfx_dict *state, bool strict) {
    if (!state)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the state dict is NULL");
    if (!state || !cfx__program_given((cfx_site){0}, p))
        return false;
    size_t mark = cfx_scope_open();
    cfx__text wrong = {0};
    for (int64_t i = 0; i < p->state->len; i++) {
        const char *name = cfx_text(p->state->entries[i].key);
        const cfx_value *v = cfx_dict_find(state, p->state->entries[i].key);
        if (v)
            differs(&wrong, name, cfx_as_tensor(p->state->entries[i].value), *v);
        else if (strict)
            note(&wrong, "missing", name);
    }
    for (int64_t i = 0; strict && i < state->len; i++)
        if (!cfx_dict_find(p->state, state->entries[i].key))
            note(&wrong, "unknown", cfx_value_str(state->entries[i].key));
    bool fits = !wrong.len;
    if (!fits)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the state dict does not fit the program: %s",
                 wrong.data);
    for (int64_t i = 0; fits && i < state->len; i++)
        if (cfx_dict_find(p->state, state->entries[i].key))
            cfx_dict_put(p->state, state->entries[i].key, state->entries[i].value);
    cfx__text_release(&wrong);
    cfx_scope_close(mark);
    return fits;
}
