/* Unflattened modules: their tensors, one module for calls that do the same, and their order. */
#include <cfx/ops.h>

#include "../ops/views.h"
#include "unflatten.h"

/* ---- tensors --------------------------------------------------------------------------------- */

/* "encoder" of "encoder@1". */
static size_t base_length(const char *name) { return strcspn(name, "@"); }

static bool is_call_of(const char *name, const char *base, size_t n) {
    return base_length(name) == n && !strncmp(name, base, n);
}

typedef enum kind { PARAMETER, FROZEN, BUFFER, TRANSIENT, CONSTANT } kind;

static void put_tensor(cfx_module *m, const char *name, cfx_tensor *t, kind k) {
    if (k == PARAMETER || k == FROZEN) {
        cfx_nn_parameter(m, name, t);
        if (k == FROZEN)
            cfx_requires_grad(t, false);
    } else if (k == CONSTANT) {
        cfx_module_set_attr(m, name, cfx_tensor_value(t));
    } else {
        cfx_nn_buffer(m, name, t, k == BUFFER);
    }
}

typedef VEC(cfx_module *) module_set;

static void add_once(module_set *all, cfx_module *m) {
    for (size_t i = 0; i < all->len; i++)
        if (all->data[i] == m)
            return;
    VEC_PUSH(*all, m);
}

/* Puts a tensor at a path; every call of the modules on the way holds it. Calls share what is below
 * them, so that each module is met once, however many ways lead to it. */
static void assign(cfx_module *root, const char *path, cfx_tensor *t, kind k) {
    module_set now = {0}, next = {0};
    VEC_PUSH(now, root);
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        size_t n = (size_t)(dot - path);
        const char *own = cfx__string_new(path, n)->text;
        next.len = 0;
        for (size_t i = 0; i < now.len; i++) {
            cfx_module *m = now.data[i];
            if (!cfx_module_find(m, own))
                cfx_nn_add(m, own, cfx_module_new("Module", NULL, ""));
            for (int c = 0; c < cfx_module_count(m); c++)
                if (is_call_of(cfx_module_child_name(m, c), path, n))
                    add_once(&next, cfx_module_child(m, c));
        }
        module_set was = now;
        now = next;
        next = was;
    }
    for (size_t i = 0; i < now.len; i++)
        put_tensor(now.data[i], path, t, k);
    VEC_FREE(now);
    VEC_FREE(next);
}

/* What two tensors of a program share when they are one; scope. */
static const char *identity(const cfx_tensor *t) {
    return cfx__text_format("%p+%lld%s%s%s", (void *)t->storage, (long long)t->offset,
                            cfx_dtype_name((cfx_dtype)t->dtype),
                            cfx__shape_text(t->ndim, t->shape),
                            cfx__shape_text(t->ndim, t->stride));
}

/* A copy of the program's tensor; those that are one in the program are one copy. */
static cfx_tensor *own_copy(cfx_dict *copies, cfx_tensor *t) {
    const char *key = identity(t);
    cfx_value known = cfx_dict_get(copies, key);
    if (known.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(known);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_tensor *copy = t->data ? cfx__copied_as_it_lies(t) : t;
    cfx_set_grad_mode(before);
    cfx_dict_set(copies, key, cfx_tensor_value(copy));
    return copy;
}

static void assign_all(const cfx__unflat *u) {
    const cfx_program *p = u->program;
    cfx_dict *copies = cfx_dict_new(), *done = cfx_dict_new(), *kinds = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_input_spec *s = &p->inputs[i];
        cfx_tensor *t = cfx_program_tensor(p, s);
        if (!t || !s->target)
            continue;
        kind k = s->kind == CFX_IN_PARAMETER
                     ? (cfx__program_learns(p, s) ? PARAMETER : FROZEN)
                 : s->kind == CFX_IN_CONSTANT ? CONSTANT
                 : s->persistent              ? BUFFER
                                              : TRANSIENT;
        assign(u->root, s->target, own_copy(copies, t), k);
        cfx_dict_set(kinds, identity(t), cfx_int(k));
        cfx_dict_set(done, s->target, cfx_none());
    }
    for (int64_t i = 0; i < p->state->len; i++) { /* what no node reads is there all the same */
        cfx_tensor *t = cfx_as_tensor(p->state->entries[i].value);
        cfx_value same = cfx_dict_get(kinds, identity(t)); /* read under another name */
        if (!cfx_dict_find(done, p->state->entries[i].key))
            assign(u->root, cfx_text(p->state->entries[i].key), own_copy(copies, t),
                   same.tag == CFX_TAG_INT       ? (kind)cfx_integer(same)
                   : cfx_tensor_requires_grad(t) ? PARAMETER
                                                 : BUFFER);
    }
}

/* ---- inputs become attributes ---------------------------------------------------------------- */

/* Whether a path lies below a module's: what follows, or NULL. */
static const char *below(const char *path, const char *module) {
    size_t n = strlen(module);
    if (!n)
        return path;
    return !strncmp(path, module, n) && path[n] == '.' ? path + n + 1 : NULL;
}

/* The path below a module of the tensor that a placeholder of the flat graph stands for, under one
 * of the names that the tensor has; NULL where none is there. */
static const char *held_as(const cfx__unflat *u, const cfx_node *placeholder, const char *module) {
    const cfx_input_spec *own = cfx_program_input(
        u->program, cfx_graph_find(u->program->module->graph, placeholder->name));
    cfx_tensor *t = own ? cfx_program_tensor(u->program, own) : NULL;
    const char *path = t && own->target ? below(own->target, module) : NULL;
    if (path || !t)
        return path;
    const char *same = identity(t);
    for (int i = 0; i < u->program->ninputs; i++) {
        const cfx_input_spec *s = &u->program->inputs[i];
        cfx_tensor *other = s->target ? cfx_program_tensor(u->program, s) : NULL;
        path = other && !strcmp(identity(other), same) ? below(s->target, module) : NULL;
        if (path)
            return path;
    }
    for (int64_t i = 0; i < u->program->state->len; i++) {
        const struct cfx_entry *e = &u->program->state->entries[i];
        bool tied = !strcmp(identity(cfx_as_tensor(e->value)), same);
        path = tied ? below(cfx_text(e->key), module) : NULL;
        if (path)
            return path;
    }
    return NULL;
}

typedef struct sinking {
    const cfx__unflat *u;
    cfx_dict *removed; /* module to the numbers of its placeholders that are gone */
} sinking;

/* Calls give what is left of what a module took. */
static void shorten_calls(const sinking *s, const cfx_module *m) {
    cfx_each_node(m->graph, n) {
        cfx_module *callee = n->op == CFX_CALL_MODULE ? cfx_module_find(m, n->target.name) : NULL;
        const cfx_value *gone = callee ? cfx_dict_find(s->removed, cfx_module_value(callee)) : NULL;
        if (!gone || !cfx_as_dict(*gone)->len)
            continue;
        cfx_value args = cfx_tuple_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++)
            if (!cfx_dict_find(cfx_as_dict(*gone), cfx_int(i)))
                cfx_list_append(cfx_as_list(args), cfx_as_list(n->args)->items[i]);
        cfx_node_set_args(n, args);
    }
}

/* Placeholders for tensors that a module holds, or one below it, are read there. */
static void sink(sinking *s, cfx_module *m, const char *path) {
    if (cfx_dict_find(s->removed, cfx_module_value(m)))
        return;
    cfx_dict *gone = cfx_dict_new();
    cfx_dict_put(s->removed, cfx_module_value(m), cfx_dict_value(gone));
    for (int i = 0; i < cfx_module_count(m); i++) {
        const char *name = cfx_module_child_name(m, i);
        name = cfx__string_new(name, base_length(name))->text;
        sink(s, cfx_module_child(m, i), *path ? cfx__text_format("%s.%s", path, name) : name);
    }
    if (!m->graph || !cfx_graph_len(m->graph))
        return;
    shorten_calls(s, m);
    cfx_node *at = cfx_graph_first(m->graph);
    while (at && at->op == CFX_PLACEHOLDER)
        at = cfx_node_after(at);
    int64_t number = 0;
    cfx_each_node(m->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        const cfx_value *origin = cfx_dict_find(s->u->origin, cfx_node_value(n));
        const char *held = origin ? held_as(s->u, cfx_as_node(*origin), path) : NULL;
        int64_t k = number++;
        if (!held)
            continue;
        if (n->num_users) {
            CFX_INSERT_BEFORE(m->graph, at) {
                cfx_node *get = cfx_graph_get_attr(m->graph, held);
                cfx_node_replace_with_meta(n, cfx_node_value(get));
                at = get;
            }
        }
        cfx_graph_erase(n);
        cfx_dict_put(gone, cfx_int(k), cfx_none());
    }
}

bool cfx__unflat_state(cfx__unflat *u) {
    assign_all(u);
    sinking s = {u, cfx_dict_new()};
    if (cfx_ok())
        sink(&s, u->root, "");
    return cfx_ok();
}

/* ---- calls that do the same ------------------------------------------------------------------ */

typedef struct numbering {
    const cfx_graph *graph;
    uint32_t *place; /* by id */
} numbering;

static cfx_value place_of(cfx_node *n, void *user) {
    const numbering *p = user;
    return cfx_value_keep(cfx_string_value(
        cfx__text_format("%%%u", p->place[cfx__node_of(n)->id])));
}

/* All that a graph computes, names of nodes aside; scope. */
static const char *dump(const cfx_graph *g) {
    cfx__text out = {0};
    numbering p = {g, cfx__alloc(g->made.len * sizeof *p.place + 1)};
    uint32_t i = 0;
    for (const cfx_node *n = cfx_graph_first(g); n; n = cfx_node_after(n)) {
        p.place[cfx__node_of(n)->id] = i++;
        bool named = n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT;
        cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, place_of, &p));
        cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, place_of, &p));
        cfx__text_printf(&out, "%s[%s]%s%s\n", cfx_opcode_name(n->op), named ? n->target.name : "",
                         cfx_value_repr(args), cfx_value_repr(kwargs));
    }
    cfx__free(p.place);
    return cfx__text_take(&out);
}

/* A later call whose graph is that of an earlier one calls that one's module. */
static void join_call(const cfx__unflat *u, cfx__outlined *c) {
    const char *own = dump(c->module->graph);
    for (const cfx__outlined *seen = u->calls.data; seen < c; seen++) {
        if (strcmp(seen->path, c->path) || strcmp(seen->parent_path, c->parent_path) ||
            strcmp(dump(seen->module->graph), own))
            continue;
        cfx_module_remove(c->parent, c->name);
        cfx_node_set_target(c->call, (cfx_target){.name = seen->name});
        c->module = seen->module;
        c->name = seen->name;
        break;
    }
}

static int depth_of(const char *path) {
    int depth = 1;
    for (; (path = strchr(path, '.')); path++)
        depth++;
    return depth;
}

/* The deepest calls come first: those above them are equal if they call the same modules. */
static void join_equal(const cfx__unflat *u) {
    int deepest = 0;
    for (size_t i = 0; i < u->calls.len; i++) {
        const int depth = depth_of(u->calls.data[i].path);
        deepest = depth > deepest ? depth : deepest;
    }
    for (int depth = deepest; depth > 0; depth--)
        for (size_t i = 0; i < u->calls.len; i++) {
            cfx__outlined *c = &u->calls.data[i];
            if (strchr(c->name, '@') && depth_of(c->path) == depth)
                CFX_SCOPE
                    join_call(u, c);
        }
}

/* ---- calls that are counted ------------------------------------------------------------------ */

/* A module that stands for the calls of one, which come in their order. */
static cfx_value dispatch(cfx_module *self, cfx_args a) {
    cfx_value all = cfx_module_attr(self, "_call_modules");
    int64_t k = cfx_integer(cfx_module_attr(self, "_num_calls")), n = cfx_as_list(all)->len;
    cfx_module_set_attr(self, "_num_calls", cfx_int((k + 1) % n));
    cfx_value v = cfx__module_call((cfx_site){0}, cfx_as_module(cfx_as_list(all)->items[k % n]), a);
    if (cfx_is_bad(v))
        cfx_module_set_attr(self, "_num_calls", cfx_int(0));
    return v;
}

static cfx_module *new_dispatcher(cfx_value modules) {
    cfx_module *m = cfx__module_new_raw("InterpreterModuleDispatcher", dispatch);
    cfx_module *first = cfx_as_module(cfx_as_list(modules)->items[0]);
    cfx__module_share_children(m, first);
    for (int64_t i = 0; i < first->parameters->len; i++)
        cfx__module_adopt(m, cfx_text(first->parameters->entries[i].key), first,
                          cfx_text(first->parameters->entries[i].key));
    for (int64_t i = 0; i < first->buffers->len; i++)
        cfx__module_adopt(m, cfx_text(first->buffers->entries[i].key), first,
                          cfx_text(first->buffers->entries[i].key));
    for (int64_t i = 0; i < first->attrs->len; i++) { /* constants that others read by its path */
        const char *name = cfx_text(first->attrs->entries[i].key);
        if (*name != '_')
            cfx_module_set_attr(m, name, first->attrs->entries[i].value);
    }
    cfx_module_set_attr(m, "_ty", cfx_module_attr(first, "_ty"));
    cfx_module_set_attr(m, "_call_modules", modules);
    cfx_module_set_attr(m, "_num_calls", cfx_int(0));
    return m;
}

/* What the graph of its parent calls a module, without the number of the call. */
static const char *plain_name(const cfx__outlined *c) {
    return cfx__string_new(c->name, base_length(c->name))->text;
}

/* The calls of a preserved module become one module that counts. */
static void count_calls(const cfx__unflat *u, const char *path) {
    cfx_value modules = cfx_list_value(0, NULL);
    const cfx__outlined *first = NULL;
    for (size_t i = 0; i < u->calls.len; i++) {
        const cfx__outlined *c = &u->calls.data[i];
        if (strcmp(c->path, path))
            continue;
        first = first ? first : c;
        cfx_list_append(cfx_as_list(modules), cfx_module_value(c->module));
    }
    if (cfx_as_list(modules)->len < 2)
        return;
    for (size_t i = 0; i < u->calls.len; i++) {
        const cfx__outlined *c = &u->calls.data[i];
        if (strcmp(c->path, path))
            continue;
        if (strchr(c->name, '@'))
            cfx_module_remove(c->parent, c->name);
        cfx_node_set_target(c->call, (cfx_target){.name = plain_name(c)});
    }
    cfx_module_set_attr(first->parent, plain_name(first),
                        cfx_module_value(new_dispatcher(modules)));
}

/* ---- order ----------------------------------------------------------------------------------- */

static int64_t place_in(const cfx_dict *order, const char *path) {
    const cfx_value *at = cfx_dict_find(order, cfx_string_value(path));
    return at ? cfx_integer(*at) : INT64_MAX;
}

typedef struct child {
    int64_t place;
    const char *name;
    cfx_module *module;
} child;

static int compare(const void *a, const void *b) {
    const child *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Children in the order that the program knows; those that it does not know come last, as they
 * were. */
static void reorder(cfx_module *m, const char *path, const cfx_dict *order, cfx_dict *done) {
    int n = cfx_module_count(m);
    if (cfx_dict_find(done, cfx_module_value(m)))
        return;
    cfx_dict_put(done, cfx_module_value(m), cfx_none());
    child *all = cfx__alloc((size_t)n * sizeof *all + 1);
    for (int i = 0; i < n; i++) {
        const char *name = cfx__text_format("%s", cfx_module_child_name(m, i));
        const char *full = *path ? cfx__text_format("%s.%s", path, name) : name;
        int64_t place = place_in(order, full);
        all[i] = (child){place == INT64_MAX ? INT32_MAX + (int64_t)i : place, name,
                         cfx_module_child(m, i)};
        reorder(all[i].module, cfx__string_new(full, base_length(full))->text, order, done);
    }
    qsort(all, (size_t)n, sizeof *all, compare);
    for (int i = 0; i < n; i++) {
        cfx_keep(all[i].module);
        cfx_module_remove(m, all[i].name);
    }
    for (int i = 0; i < n; i++) {
        cfx_nn_add(m, all[i].name, all[i].module);
        cfx_drop(all[i].module);
    }
    cfx__free(all);
}

void cfx__unflat_join(cfx__unflat *u) {
    const cfx_program *p = u->program;
    cfx_dict *order = cfx_dict_new();
    join_equal(u);
    for (int i = 1; i < p->ncalls; i++) {
        const cfx_module_call *c = &p->calls[i];
        if (!strchr(c->path, '@') && !cfx_module_find(u->root, c->path)) /* it was never called */
            cfx_module_set_attr(u->root, c->path,
                                cfx_module_value(cfx_module_new("Module", NULL, "")));
        cfx_dict_set(order, c->path, cfx_int(i));
        if (cfx__module_call_known(c) && !strchr(c->path, '@'))
            count_calls(u, c->path);
    }
    reorder(u->root, "", order, cfx_dict_new());
}
