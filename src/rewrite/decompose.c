/* Core ATen: runs a program again on fake tensors and records the decompositions. Start at
 * cfx_decompose; src/trace/record.c handles a single call. */
#include "decompose.h"

#include <cfx/ops.h>

#include "../base/given.h"

typedef cfx__recording recording;
typedef cfx__decomposing decomposing;

/* ---- the order of inputs --------------------------------------------------------------------- */

/* PyTorch makes a module of the program first, and the order of its inputs is then that of the
 * module's parameters, then of its buffers and constants: a module's own before its children's,
 * children in the order in which they first appear. */
typedef struct {
    const cfx_program *program;
    int *out, n;
} ordering;

static bool is_held(const cfx_input_spec *in, bool parameters) {
    return in->target && (parameters ? in->kind == CFX_IN_PARAMETER
                                     : in->kind == CFX_IN_BUFFER || in->kind == CFX_IN_CONSTANT);
}

/* Items are numbers of inputs, whose targets are looked at from `skip` characters on. */
static void put_tree(ordering *o, const cfx_list *items, size_t skip, bool parameters) {
    size_t mark = cfx_scope_open();
    cfx_dict *children = cfx_dict_new();
    for (int64_t i = 0; i < items->len; i++) {
        int64_t k = cfx_integer(items->items[i]);
        const cfx_input_spec *in = &o->program->inputs[k];
        const char *rest = in->target + skip, *dot = strchr(rest, '.');
        if (!dot) {
            if (is_held(in, parameters))
                o->out[o->n++] = (int)k;
            continue;
        }
        cfx_value name = cfx_string_value_n(rest, (size_t)(dot - rest));
        const cfx_value *known = cfx_dict_find(children, name);
        cfx_value list = known ? *known : cfx_list_value(0, NULL);
        if (!known)
            cfx_dict_put(children, name, list);
        cfx_list_append(cfx_as_list(list), cfx_int(k));
    }
    for (int64_t i = 0; i < children->len; i++)
        put_tree(o, cfx_as_list(children->entries[i].value),
                 skip + strlen(cfx_text(children->entries[i].key)) + 1, parameters);
    cfx_scope_close(mark);
}

/* Input number order[i] of the old program is number i of the new one; the caller frees it. */
static int *input_order(const cfx_program *p) {
    ordering o = {p, cfx__alloc((size_t)(p->ninputs + 1) * sizeof(int)), 0};
    size_t mark = cfx_scope_open();
    cfx_value held = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_TOKEN)
            o.out[o.n++] = i;
    for (int pass = 0; pass < 3; pass++) { /* parameters make the tree, then buffers, constants */
        static const cfx_input_kind kinds[] = {CFX_IN_PARAMETER, CFX_IN_BUFFER, CFX_IN_CONSTANT};
        for (int i = 0; i < p->ninputs; i++)
            if (p->inputs[i].kind == kinds[pass] && p->inputs[i].target)
                cfx_list_append(cfx_as_list(held), cfx_int(i));
    }
    put_tree(&o, cfx_as_list(held), 0, true);
    put_tree(&o, cfx_as_list(held), 0, false);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind != CFX_IN_TOKEN && !is_held(&p->inputs[i], true) &&
            !is_held(&p->inputs[i], false))
            o.out[o.n++] = i;
    cfx_scope_close(mark);
    return o.out;
}

/* ---- the program ----------------------------------------------------------------------------- */

static cfx_output_kind mutation_of(cfx_input_kind kind) {
    return kind == CFX_IN_BUFFER || kind == CFX_IN_CONSTANT ? CFX_OUT_BUFFER_MUTATION
           : kind == CFX_IN_PARAMETER                       ? CFX_OUT_PARAMETER_MUTATION
                                                            : CFX_OUT_INPUT_MUTATION;
}

static void add_output(cfx_program *to, cfx_output_spec spec, cfx_value v) {
    spec.name = v.tag == CFX_TAG_NODE ? cfx_as_node(v)->name : NULL;
    spec.value = v.tag == CFX_TAG_NODE ? cfx_none() : v;
    cfx_program_add_output(to, spec);
}

/* Results in order: what was written to, then the results there were. */
static void add_outputs(const cfx_program *from, cfx_program *to, const cfx_value *written,
                        cfx_value results) {
    for (int i = 0; i < from->ninputs; i++)
        if (written[i].tag == CFX_TAG_NODE) {
            const cfx_input_spec *in = &from->inputs[i];
            cfx_output_spec spec = {.kind = mutation_of(in->kind),
                                    .target = in->target ? in->target : in->name};
            add_output(to, spec, written[i]);
        }
    for (int64_t i = 0; i < cfx_as_list(results)->len; i++) {
        cfx_output_spec spec = {.kind = CFX_OUT_USER};
        if (i < from->noutputs)
            spec = from->outputs[i];
        add_output(to, spec, cfx_as_list(results)->items[i]);
    }
}

/* The ranges of a foreign program as far as it works. */
static cfx_dict *ranges_of(const decomposing *d) {
    cfx_dict *out = cfx_dict_new();
    for (int64_t i = 0; i < d->from->ranges->len; i++) {
        const char *name = cfx_text(d->from->ranges->entries[i].key);
        const cfx__symbol *s = name ? cfx__worlds_find(&d->worlds, name) : NULL;
        cfx_dict_put(out, d->from->ranges->entries[i].key,
                     s ? cfx_tuple(s->least, s->most < INT64_MAX ? cfx_int(s->most) : cfx_none())
                       : d->from->ranges->entries[i].value);
    }
    return out;
}

static void share(cfx_program *to, const decomposing *d) {
    const cfx_program *from = d->from;
    cfx_drop(to->state), to->state = cfx_keep(from->state);
    cfx_drop(to->constants), to->constants = cfx_keep(from->constants);
    cfx_drop(to->ranges), to->ranges = cfx_keep(d->bounded ? ranges_of(d) : from->ranges);
    for (int64_t i = 0; i < from->extra->len; i++)
        cfx_dict_put(to->extra, from->extra->entries[i].key, from->extra->entries[i].value);
    cfx_value aten = cfx_string_value("ATEN");
    if (cfx_dict_find(to->extra, cfx_string_value("verifiers")))
        cfx_dict_set(to->extra, "verifiers", cfx_list_value(1, &aten));
    to->in_spec = cfx_value_keep(from->in_spec);
    to->out_spec = cfx_value_keep(from->out_spec);
}

/* Beside what is pure, PyTorch drops here what draws numbers or looks for errors in vain. */
static bool stays(const cfx_node *n) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    if (op && (op == &cfx_op__linalg_check_errors ||
               ((op->effects & CFX_RANDOM) && !cfx__op_info_of(op)->writes)))
        return false;
    return cfx_node_is_impure(n);
}

/* Who uses numbers is found out when the worlds are merged. */
static bool is_asked_for(const cfx_node *n) {
    bool asked = n->target.op && n->target.op->effects & CFX_DATA_SHAPE; /* how much there is */
    return asked || cfx__merge_is_scalar(cfx_node_get_meta(n, "val"));
}

static bool stays_for_now(const cfx_node *n) { return is_asked_for(n) || stays(n); }
static bool stays_whole(const cfx_node *n) { return is_asked_for(n) || cfx_node_is_impure(n); }

/* user: whether operators stay whole, and with them all that is not pure. */
static void sweep(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph)
        cfx__graph_sweep(m->graph, *(const bool *)user ? stays_whole : stays_for_now);
}

static void settle(const char *path, cfx_module *m, void *user) {
    (void)path, (void)user;
    if (m->graph)
        cfx__graph_settle(m->graph);
}

static bool merge(decomposing *d, bool *guessed) {
    bool whole = d->whole || d->foreign;
    cfx__merge m = {.worlds = &d->worlds, .eager = true, .from = d->from->module->graph,
                    .stays = whole ? cfx_node_is_impure : stays};
    for (int k = 0; k < d->worlds.n; k++) {
        m.graph[k] = d->world[k].run.recorder.graph;
        m.root[k] = d->world[k].run.to;
        m.log[k] = d->world[k].run.recorder.log;
        if (d->worlds.n < 2)
            cfx__graph_sweep(m.graph[k], whole ? stays_whole : stays_for_now);
        cfx_module_walk(m.root[k], sweep, &whole);
    }
    bool fine = cfx__worlds_merge(&m);
    *guessed = m.guessed;
    return fine;
}

/* The results of the merged graph, less what was written to inputs. */
static cfx_value results_of(const recording *w) {
    cfx_value all = cfx_at(cfx_graph_output_node(w->run.recorder.graph)->args, 0);
    int64_t n = cfx_as_list(w->results)->len;
    return cfx_tuple_value(n, cfx_as_list(all)->items + (cfx_as_list(all)->len - n));
}

/* Whether an input is called so, or so with a number. */
static bool is_called(const char *name, const char *after) {
    size_t n = strlen(after);
    return !strncmp(name, after, n) && (!name[n] || name[n + strspn(name + n, "_0123456789")] == 0);
}

/* Inputs for tensors of the module are called after their paths, whatever they were called: a
 * tensor that a module has twice may have been called after the other one. */
static void rename_input(cfx_graph *g, cfx_input_spec *in) {
    const char *name = in->target ? cfx__input_name(in->kind, in->target) : NULL;
    cfx_node *n = name && !is_called(in->name, name) ? cfx_graph_find(g, in->name) : NULL;
    if (!n)
        return;
    cfx_node_rename(n, name);
    cfx_node_set_target(n, (cfx_target){.name = n->name});
    in->name = n->name;
}

/* A constant that is written to, which PyTorch refuses to decompose, is a buffer that is not saved
 * with the state. */
static cfx_input_spec input_of(const decomposing *d, const recording *w, int i) {
    cfx_input_spec in = d->from->inputs[i];
    if (in.kind == CFX_IN_PARAMETER || in.kind == CFX_IN_BUFFER || in.kind == CFX_IN_CONSTANT)
        rename_input(w->run.recorder.graph, &in);
    if (in.kind == CFX_IN_CONSTANT && w->written[i].tag == CFX_TAG_NODE) {
        in.kind = CFX_IN_BUFFER;
        in.persistent = false; /* its tensor is among the constants */
    }
    return in;
}

/* The node that computes now what a node of the old graph computed; bad where there is none. */
static cfx_value node_now(cfx_node *n, void *user) {
    const recording *w = user;
    cfx_value v = w->run.values[cfx__node_of(n)->id];
    const cfx__record_shadow *s =
        v.tag == CFX_TAG_TENSOR ? cfx__record_shadow_of(cfx_as_tensor(v)) : NULL;
    if (s && s->value)
        s = cfx__record_shadow_of(s->value);
    return s && s->node && !s->node->erased ? cfx_node_value(s->node) : cfx_bad();
}

static cfx_program *decomposed(decomposing *d) {
    recording *w = &d->world[0];
    bool guessed = false, fine = cfx__recordings_make(d) && merge(d, &guessed);
    while ((cfx__worlds_again(&d->worlds, guessed) || (!fine && cfx__worlds_larger(&d->worlds))) &&
           cfx__error_forgive()) {
        for (int k = 0; k < CFX__WORLDS; k++)
            cfx__recording_forget(&d->world[k]);
        d->worlds.n = 0;
        fine = cfx__recordings_make(d) && merge(d, &guessed);
    }
    if (!fine)
        return &cfx__program_bad;
    cfx__branch_names(w->run.recorder.graph, w->run.to);
    cfx_module *gm = cfx_graph_module(w->run.to, w->run.recorder.graph, w->run.from->type);
    cfx_program *p = cfx_program_new(gm);
    if (cfx_failed(p))
        return p;
    cfx_module_walk(gm, settle, NULL);
    share(p, d);
    for (int i = 0; i < d->from->ninputs; i++)
        cfx_program_add_input(p, input_of(d, w, d->order[i]));
    add_outputs(d->from, p, w->written, results_of(w));
    cfx__program_copy_calls(p, d->from, node_now, w);
    return p;
}

/* Whether the caller's table names operators, and what they are made of. */
static bool are_known(const cfx_decompose_options *o) {
    for (int i = 0; i < o->nown; i++) {
        const char *name = o->own[i].op;
        if (!cfx__given((cfx_site){0}, name, "operator") ||
            !cfx__given((cfx_site){0}, (const void *)o->own[i].fn, "decomposition"))
            return false;
        if (!cfx_op_find(name) && !cfx_fn_find(name)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "a decomposition is given for %s, and there is no such operator", name);
            return false;
        }
    }
    return true;
}

static cfx_program *decompose(const cfx_program *p, cfx_decompose_options o, bool whole,
                              bool foreign) {
    if (!cfx__program_whole((cfx_site){0}, p) || !cfx__program_binds(p) || !are_known(&o) ||
        !cfx_program_infer(p))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    int *order = input_order(p);
    decomposing d = {.from = p, .order = order, .options = o, .whole = whole,
                     .foreign = foreign, .worlds = {.bare = true}};
    cfx__worlds_of(&d.worlds, p);
    d.bounded = d.worlds.symbols.len && cfx__is_foreign(p->module);
    if (d.bounded)
        cfx__foreign_bound_sizes(&d);
    cfx_program *out = decomposed(&d);
    for (int k = 0; k < CFX__WORLDS; k++)
        cfx__recording_forget(&d.world[k]);
    cfx__worlds_free(&d.worlds);
    VEC_FREE(d.own.asked);
    VEC_FREE(d.undivided);
    cfx__free(order);
    return cfx_scope_return(mark, cfx_ok() ? out : &cfx__program_bad);
}

cfx_program *cfx_decompose(const cfx_program *p, cfx_value keep) {
    return decompose(p, (cfx_decompose_options){.keep = keep}, false, false);
}

cfx_program *cfx_decompose_by(const cfx_program *p, cfx_decompose_options options) {
    return decompose(p, options, options.only_own, false);
}

cfx_program *cfx_program_functionalize(const cfx_program *p) {
    return decompose(p, (cfx_decompose_options){0}, true, false);
}

cfx_program *cfx__open_foreign(const cfx_program *p) {
    return decompose(p, (cfx_decompose_options){0}, false, true);
}
