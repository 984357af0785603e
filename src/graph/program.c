/* Programs: a GraphModule with its signature and tensors. Making and asking; the pack room reads
 * and writes them, the run room runs them. */
#include <cfx/program.h>

#include "graph.h"

static void drop_call(cfx_module_call *c) {
    cfx_value_drop(c->inputs);
    cfx_value_drop(c->outputs);
    cfx_value_drop(c->in_spec);
    cfx_value_drop(c->out_spec);
    cfx_value_drop(c->names);
}

static void program_free(void *obj) {
    cfx_program *p = obj;
    for (int i = 0; i < p->ninputs; i++)
        cfx_value_drop(p->inputs[i].value);
    for (int i = 0; i < p->noutputs; i++)
        cfx_value_drop(p->outputs[i].value);
    for (int i = 0; i < p->ncalls; i++)
        drop_call(&p->calls[i]);
    VEC_FREE(p->own_->calls);
    VEC_FREE(p->own_->inputs);
    VEC_FREE(p->own_->outputs);
    VEC_FREE(p->own_->placeholders);
    VEC_FREE(p->own_->numbers);
    VEC_FREE(p->own_->results);
    cfx__arena_release(&p->own_->arena);
    cfx_drop(p->own_->bound);
    cfx_drop(p->own_->prepared);
    pthread_mutex_destroy(&p->own_->lock);
    cfx__free(p->own_);
    cfx_value_drop(p->in_spec);
    cfx_value_drop(p->out_spec);
    cfx_drop(p->state);
    cfx_drop(p->constants);
    cfx_drop(p->ranges);
    cfx_drop(p->extra);
    cfx_drop(p->module);
}

static const cfx__obj_type program_type = {.name = "program", .free = program_free};

static const struct cfx__program bad_own;
static const cfx_dict bad_dict = {.head = {.refs = 1, .flags = CFX__BAD}};
cfx_program cfx__program_bad = {.head = {.refs = 1, .flags = CFX__BAD, .type = &program_type},
                                .module = &cfx__module_bad,
                                .state = (cfx_dict *)&bad_dict,
                                .constants = (cfx_dict *)&bad_dict,
                                .ranges = (cfx_dict *)&bad_dict,
                                .extra = (cfx_dict *)&bad_dict,
                                .own_ = (struct cfx__program *)&bad_own};

bool cfx__program_given(cfx_site at, const cfx_program *p) {
    if (likely(p && !cfx__obj_is_bad(p)))
        return true;
    cfx_fail(CFX_TYPE_ERROR, at, "the program is %s", p ? "bad" : "NULL");
    return false;
}

cfx_program *cfx_program_new(cfx_module *gm) {
    if (!cfx__module_given(gm) || !gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a program is made of a GraphModule, not of %s",
                 gm ? gm->type : "NULL");
        return &cfx__program_bad;
    }
    cfx_program *p = cfx__obj_new(&program_type, sizeof *p);
    p->own_ = cfx__alloc0(sizeof *p->own_);
    pthread_mutex_init(&p->own_->lock, NULL);
    p->module = cfx_keep(gm);
    p->state = cfx_keep(cfx_dict_new());
    p->constants = cfx_keep(cfx_dict_new());
    p->ranges = cfx_keep(cfx_dict_new());
    p->extra = cfx_keep(cfx_dict_new());
    return p;
}

const char *cfx_program_text(cfx_program *p, const char *text) {
    if (!text || !cfx__program_given((cfx_site){0}, p))
        return NULL;
    return cfx__arena_copy(&p->own_->arena, text, strlen(text));
}

void cfx_program_add_input(cfx_program *p, cfx_input_spec spec) {
    if (!cfx__program_given((cfx_site){0}, p))
        return;
    const cfx_node *n = spec.name ? cfx_graph_find(p->module->graph, spec.name) : NULL;
    spec.name = cfx_program_text(p, spec.name);
    spec.target = cfx_program_text(p, spec.target);
    spec.value = cfx_value_keep(spec.value);
    VEC_PUSH(p->own_->inputs, spec);
    VEC_PUSH(p->own_->placeholders, n && n->op == CFX_PLACEHOLDER ? n : NULL);
    if (n)
        cfx__program_number(p->own_, n, p->own_->inputs.len - 1);
    p->inputs = p->own_->inputs.data;
    p->ninputs = (int)p->own_->inputs.len;
    p->own_->synced = 0;
}

void cfx_program_add_output(cfx_program *p, cfx_output_spec spec) {
    if (!cfx__program_given((cfx_site){0}, p))
        return;
    const cfx_node *n = spec.name ? cfx_graph_find(p->module->graph, spec.name) : NULL;
    spec.name = cfx_program_text(p, spec.name);
    spec.target = cfx_program_text(p, spec.target);
    spec.value = cfx_value_keep(spec.value);
    VEC_PUSH(p->own_->outputs, spec);
    VEC_PUSH(p->own_->results, n);
    p->outputs = p->own_->outputs.data;
    p->noutputs = (int)p->own_->outputs.len;
    p->own_->synced = 0;
}

/* ---- calls of modules ------------------------------------------------------------------------ */

void cfx_program_add_call(cfx_program *p, cfx_module_call c) {
    if (!cfx__program_given((cfx_site){0}, p))
        return;
    c.path = cfx_program_text(p, c.path ? c.path : "");
    c.in_text_ = cfx_program_text(p, c.in_text_);
    c.out_text_ = cfx_program_text(p, c.out_text_);
    cfx_value_keep(c.inputs);
    cfx_value_keep(c.outputs);
    cfx_value_keep(c.in_spec);
    cfx_value_keep(c.out_spec);
    cfx_value_keep(c.names);
    VEC_PUSH(p->own_->calls, c);
    p->calls = p->own_->calls.data;
    p->ncalls = (int)p->own_->calls.len;
}

static bool are_there(cfx_value leaves) {
    if (leaves.tag != CFX_TAG_TUPLE)
        return false;
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++) {
        cfx_value v = cfx_as_list(leaves)->items[i];
        if (v.tag == CFX_TAG_NODE && cfx_as_node(v)->erased)
            return false;
    }
    return true;
}

bool cfx__module_call_known(const cfx_module_call *c) {
    return c->preserved && are_there(c->inputs) && are_there(c->outputs);
}

static cfx_value by_name(cfx_node *n, void *to) {
    cfx_node *same = cfx_graph_find(((cfx_program *)to)->module->graph, n->name);
    return same ? cfx_node_value(same) : cfx_bad();
}

/* The leaves in the terms of another graph; bad where one is not there. */
static cfx_value mapped(cfx_value leaves, cfx_node_map_fn *map, void *user) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(leaves)->len; i++) {
        cfx_value v = cfx_as_list(leaves)->items[i];
        v = v.tag == CFX_TAG_NODE ? map(cfx_as_node(v), user) : v;
        if (cfx_is_bad(v))
            return v;
        cfx_list_append(cfx_as_list(out), v);
    }
    return out;
}

void cfx__program_copy_calls(cfx_program *to, const cfx_program *from, cfx_node_map_fn *map,
                             void *user) {
    size_t mark = cfx_scope_open();
    for (int i = 0; i < from->ncalls; i++) {
        cfx_module_call c = from->calls[i];
        if (cfx__module_call_known(&c)) {
            c.inputs = mapped(c.inputs, map ? map : by_name, map ? user : to);
            c.outputs = mapped(c.outputs, map ? map : by_name, map ? user : to);
        }
        if (!cfx__module_call_known(&c))
            c.preserved = false, c.inputs = c.outputs = cfx_none();
        cfx_program_add_call(to, c);
    }
    cfx_scope_close(mark);
}

void cfx__program_forget_trees(cfx_program *p) {
    if (!p->ncalls)
        return;
    cfx_value_drop(p->calls[0].names);
    p->calls[0].names = cfx_none();
    p->calls[0].in_text_ = p->calls[0].out_text_ = NULL;
}

/* ---- what was found out ---------------------------------------------------------------------- */

bool cfx__program_seen(const cfx_program *p, uint64_t version) {
    return __atomic_load_n(&p->own_->seen, __ATOMIC_ACQUIRE) == version;
}

void cfx__program_see(cfx_program *p, uint64_t version) {
    __atomic_store_n(&p->own_->seen, version, __ATOMIC_RELEASE);
}

/* A number that changes with whatever may be wrong with a program. */
static void mix(uint64_t *all, uint64_t n) {
    *all = (*all ^ n) * 0x9e3779b97f4a7c15u + (*all >> 29);
}

static void mix_graph(const char *path, cfx_module *m, void *user) {
    (void)path;
    mix(user, (uintptr_t)m->graph);
    if (m->graph) {
        mix(user, m->graph->version);
        mix(user, m->graph->noted);
    }
}

static uint64_t state_of(const cfx_program *p) {
    uint64_t all = 1;
    const cfx_dict *dicts[] = {p->state, p->constants, p->ranges, p->extra};
    cfx_module_walk(p->module, mix_graph, &all);
    for (int i = 0; i < COUNT(dicts); i++) {
        mix(&all, (uintptr_t)dicts[i]);
        mix(&all, dicts[i]->changes_);
    }
    mix(&all, (uint64_t)p->ninputs << 32 | (uint32_t)p->noutputs);
    return all ? all : 1;
}

void cfx__program_sound(const cfx_program *p) {
    __atomic_store_n(&p->own_->sound, state_of(p), __ATOMIC_RELEASE);
}

bool cfx__program_is_sound(const cfx_program *p) {
    return __atomic_load_n(&p->own_->sound, __ATOMIC_ACQUIRE) == state_of(p);
}

void *cfx__program_bound(cfx_program *p) {
    cfx__lock(&p->own_->bound_lock);
    void *bound = cfx_keep(p->own_->bound);
    cfx__unlock(&p->own_->bound_lock);
    return bound;
}

void cfx__program_bind(cfx_program *p, void *bound) {
    cfx_keep(bound);
    cfx__lock(&p->own_->bound_lock);
    void *before = p->own_->bound;
    p->own_->bound = bound;
    cfx__unlock(&p->own_->bound_lock);
    cfx_drop(before);
}

cfx_dict *cfx__program_tensors(const cfx_program *p, const cfx_input_spec *spec) {
    return spec->kind == CFX_IN_PARAMETER || (spec->kind == CFX_IN_BUFFER && spec->persistent)
               ? p->state
               : p->constants;
}

cfx_tensor *cfx_program_tensor(const cfx_program *p, const cfx_input_spec *spec) {
    if (cfx_failed(p) || !spec || !spec->target)
        return NULL;
    cfx_value v = cfx_dict_get(cfx__program_tensors(p, spec), spec->target);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

void cfx__program_swap(cfx_program *a, cfx_program *b) {
    cfx_program was = *a;
    cfx_obj head = b->head;
    *a = *b;
    *b = was;
    a->head = was.head;
    b->head = head;
}
