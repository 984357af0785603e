/* Names in generated code: what nodes and globals are called in one text.
 *
 * Nodes have their own names and functions those that torch.fx would give them. Where two things
 * would be called alike (a node and a function, two objects of one name, a word that Python has for
 * itself) the text is written again, and then every name is given when it is first met. */
#include "emit.h"

static const char *keep_text(cfx__emit_names *names, const char *text) {
    return cfx__arena_copy(&names->arena, text, strlen(text));
}

static const char *new_name(cfx__emit_names *names, const char *candidate, bool reserved_too) {
    return keep_text(names, cfx__name_create(&names->given, candidate, reserved_too));
}

const char *cfx__emit_node_name(cfx__emit_names *names, const cfx_node *n) {
    if (!names || !names->anew)
        return n->name;
    const char *name = cfx__map_get(&names->nodes, n->name);
    if (!name) {
        name = new_name(names, n->name, false);
        cfx__map_set(&names->nodes, n->name, (void *)name);
    }
    return name;
}

const char *cfx__emit_global_name(cfx__emit_names *names, const char *wanted, const char *target,
                                  const cfx_object *object) {
    size_t first = (size_t)(uintptr_t)cfx__map_get(&names->by_wanted, wanted);
    for (size_t i = first; i; i = names->globals.data[i - 1].next) {
        const cfx__emit_global *g = &names->globals.data[i - 1];
        bool same = object && g->object ? cfx__object_equal(object, g->object)
                                        : object == g->object && !strcmp(target, g->target);
        if (same)
            return g->name;
    }
    names->clash |= first || cfx_graph_find(names->g, wanted);
    cfx__emit_global g = {.target = keep_text(names, target), .object = object, .next = first};
    cfx_keep((cfx_object *)(uintptr_t)object);
    g.name = names->anew ? new_name(names, wanted, true) : keep_text(names, wanted);
    VEC_PUSH(names->globals, g);
    cfx__map_set(&names->by_wanted, keep_text(names, wanted),
                 (void *)(uintptr_t)names->globals.len);
    return g.name;
}

cfx_dict *cfx__emit_globals(const cfx__emit_names *names) {
    cfx_dict *d = cfx_dict_new();
    for (size_t i = 0; i < names->globals.len; i++) {
        const cfx__emit_global *g = &names->globals.data[i];
        cfx_dict_set(d, g->name, g->object ? cfx__value_of_object(g->object)
                                           : cfx_string_value(g->target));
    }
    return d;
}

void cfx__emit_names_release(cfx__emit_names *names) {
    cfx__map_release(&names->nodes);
    cfx__map_release(&names->by_wanted);
    cfx__namespace_release(&names->given);
    cfx__arena_release(&names->arena);
    for (size_t i = 0; i < names->globals.len; i++)
        cfx_drop((void *)(uintptr_t)names->globals.data[i].object);
    VEC_FREE(names->globals);
    *names = (cfx__emit_names){.g = names->g};
}
