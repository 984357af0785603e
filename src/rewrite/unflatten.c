/* torch.export's unflatten: the nodes of a flat graph go back to the modules that ran them, by the
 * "nn_module_stack" of each. Start at cfx_program_unflatten; a frame is a module while its nodes
 * pass. */
#include "unflatten.h"

enum { DEEPEST = 1000 }; /* modules in modules, whatever a file says */

typedef struct level {
    const char *path, *type;
    int number; /* of the call, from 0 on */
} level;

typedef VEC(level) levels;

typedef struct frame {
    cfx__unflat *u;
    struct frame *parent;
    levels levels;
    const char *path, *name;          /* "a.b", and with the number of its call, "a.b@1" */
    const cfx_module_call *signature; /* of this call; NULL: not preserved */
    cfx_module *module;
    cfx_dict *nodes; /* node of the flat graph to node here; in order */
    cfx_dict *taken; /* the same, for what comes from outside */
    cfx_node *call;  /* in the parent's graph; NULL: the root */
} frame;

/* ---- which module a node is of --------------------------------------------------------------- */

static bool is_below(const char *path, const char *above) {
    size_t n = strlen(above);
    return !n ? *path != '\0' : !strncmp(path, above, n) && path[n] == '.';
}

static const char *text_at(cfx_value v, int64_t i) {
    bool list = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
    return list && i < cfx_as_list(v)->len ? cfx_text(cfx_as_list(v)->items[i]) : NULL;
}

/* The modules around a node, outermost first; what does not lie below the one before is left out.
 * A node of which nothing is known is where those before it are. */
static void read_levels(const frame *f, const cfx_node *n, levels *out) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    out->len = 0;
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len) {
        for (size_t i = 0; i < f->levels.len; i++)
            VEC_PUSH(*out, f->levels.data[i]);
        return;
    }
    VEC_PUSH(*out, ((level){.path = ""}));
    for (int64_t i = 0; i < cfx_as_dict(stack)->len; i++) {
        const char *key = cfx_text(cfx_as_dict(stack)->entries[i].key);
        cfx_value v = cfx_as_dict(stack)->entries[i].value;
        const char *path = text_at(v, 0), *type = text_at(v, 1);
        const char *at = key ? strrchr(key, '@') : NULL;
        if (!path || !*path)
            continue;
        if (!is_below(path, out->data[out->len - 1].path))
            break;
        VEC_PUSH(*out, ((level){path, type ? type : "", at ? (int)strtol(at + 1, NULL, 10) : 0}));
    }
}

static bool is_same(const level *a, const level *b) {
    return a->number == b->number && !strcmp(a->path, b->path);
}

static bool are_inside(const levels *l, const frame *f) {
    for (size_t i = 0; i < f->levels.len; i++)
        if (i >= l->len || !is_same(&l->data[i], &f->levels.data[i]))
            return false;
    return true;
}

/* ---- trees in graphs ------------------------------------------------------------------------- */

static cfx_node *spec_node(cfx_module *m, cfx_value spec) {
    const char *name = "_spec_0";
    for (int i = 1; cfx_module_has(m, name); i++)
        name = cfx__text_format("_spec_%d", i);
    cfx_module_set_attr(m, name, spec);
    return cfx_graph_get_attr(m->graph, name);
}

cfx_node *cfx__node_tree_unflatten(cfx_module *m, cfx_value leaves, cfx_value spec) {
    cfx_node *get = spec_node(m, spec);
    return cfx_graph_call_function(m->graph, "torch.utils._pytree.tree_unflatten",
                                   cfx_tuple(leaves, get), CFX_NONE);
}

cfx_node *cfx__node_tree_flatten(cfx_module *m, cfx_value tree, cfx_value spec) {
    cfx_node *get = spec_node(m, spec);
    return cfx_graph_call_function(m->graph, "torch.fx._pytree.tree_flatten_spec",
                                   cfx_tuple(tree, get), CFX_NONE);
}

static cfx_node *item(cfx_graph *g, cfx_node *of, cfx_value key) {
    return cfx_graph_call_function(g, "operator.getitem", cfx_tuple(of, key), CFX_NONE);
}

void cfx__node_tree_args(cfx_module *m, cfx_value leaves, cfx_value spec, bool in_turn,
                         cfx_value *args, cfx_value *kwargs) {
    const cfx_list *first = cfx_as_list(cfx_as_list(spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(spec)->items[1]);
    cfx_node *both = cfx__node_tree_unflatten(m, leaves, spec);
    cfx_node *list = item(m->graph, both, cfx_int(0));
    cfx_node *dict = in_turn ? NULL : item(m->graph, both, cfx_int(1));
    cfx_dict *kw = cfx_dict_new();
    *args = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < first->len; i++)
        cfx_list_append(cfx_as_list(*args), cfx_node_value(item(m->graph, list, cfx_int(i))));
    dict = dict ? dict : item(m->graph, both, cfx_int(1));
    for (int64_t i = 0; i < rest->len; i++)
        cfx_dict_put(kw, rest->entries[i].key,
                     cfx_node_value(item(m->graph, dict, rest->entries[i].key)));
    *kwargs = cfx_dict_value(kw);
}

/* ---- values from outside --------------------------------------------------------------------- */

static cfx_node *here(const frame *f, cfx_node *n);

static cfx_value here_value(cfx_node *n, void *f) {
    cfx_node *own = here(f, n);
    return own == cfx__node_bad ? cfx_bad() : cfx_node_value(own);
}

static const cfx_module_call *signature_of(const cfx__unflat *u, const char *path) {
    for (int i = 1; i < u->program->ncalls; i++) {
        const cfx_module_call *c = &u->program->calls[i];
        if (!strcmp(c->path, path))
            return cfx__module_call_known(c) && cfx__tree_is_call(c->in_spec) ? c : NULL;
    }
    return NULL;
}

/* The node of the flat graph that a leaf of a signature is, where it was computed by now; NULL
 * where it was not, or the leaf is a plain value. */
static cfx_node *computed(const cfx__unflat *u, cfx_value leaf) {
    const char *name = leaf.tag == CFX_TAG_NODE ? cfx_as_node(leaf)->name : NULL;
    cfx_node *n = name ? cfx_graph_find(u->flat, name) : NULL;
    return n && cfx_dict_find(u->seen, cfx_node_value(n)) ? n : NULL;
}

/* The leaves of a signature as nodes of a module; None for what is not computed: nobody uses it. */
static cfx_value leaves_here(const frame *f, const cfx_list *leaves, cfx_value out) {
    for (int64_t i = 0; i < leaves->len; i++) {
        cfx_node *n = computed(f->u, leaves->items[i]);
        cfx_list_append(cfx_as_list(out), n ? cfx_node_value(here(f, n))
                                          : leaves->items[i].tag == CFX_TAG_NODE
                                              ? cfx_none()
                                              : leaves->items[i]);
    }
    return out;
}

/* A placeholder before all others for a node of the flat graph, and the argument for it. */
static cfx_node *add_placeholder(const frame *f, cfx_node *n) {
    cfx_graph *g = f->module->graph;
    cfx_node *made = cfx__node_bad;
    CFX_INSERT_BEFORE(g, NULL)
        made = cfx_graph_placeholder(g, n->name, n->type, false, cfx_none());
    cfx__node_copy_meta(made, n);
    cfx_dict_put(f->taken, cfx_node_value(n), cfx_node_value(made));
    cfx_dict_put(f->u->origin, cfx_node_value(made), cfx_node_value(n));
    CFX_INSERT_BEFORE(f->parent->module->graph, f->call) {
        cfx_node *given = here(f->parent, n);
        if (given != cfx__node_bad)
            cfx_node_insert_arg(f->call, 0, cfx_node_value(given));
    }
    return made;
}

/* Arithmetic of sizes and what else export computes once for several modules: a module whose
 * signature is preserved cannot take it from outside, and computes it itself. */
static bool is_repeated(const cfx_node *n) {
    static const char *const calls[] = {"aten.sym_size.int", "aten.item.default",
                                        "aten.unbind.int",   "aten.sum.dim_IntList",
                                        "aten.view.default", "aten.diff.default"};
    if (cfx_node_is_getitem(n) && cfx_node_input(n, 0))
        return is_repeated(cfx_node_input(n, 0));
    bool repeated = n->op == CFX_CALL_FUNCTION && !strncmp(n->target.name, "operator.", 9);
    for (int i = 0; i < COUNT(calls) && n->op == CFX_CALL_FUNCTION; i++)
        repeated |= cfx_node_is(n, calls[i]);
    return repeated;
}

static cfx_node *repeat(const frame *f, cfx_node *n) {
    cfx_node *copy = cfx_graph_copy_node(f->module->graph, n, here_value, (void *)(uintptr_t)f);
    cfx_dict_put(f->nodes, cfx_node_value(n), cfx_node_value(copy));
    return copy;
}

static bool writes(const cfx_node *n) {
    return n->target.op && cfx__op_info_of(n->target.op)->writes;
}

/* What was written to a tensor that a preserved module reads: the tensor itself, where the module
 * that computed the value writes it back. */
static cfx_node *read_written(const frame *f, cfx_node *n) {
    cfx_node *of = writes(n) ? cfx_node_input(n, 0) : cfx__unflat_written(f->u, n);
    if (!of) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "Could not run remap_input() on op type: %s for node %s: module %s, whose "
                 "signature is preserved, is not given it, and it is no value of a tensor that the "
                 "program writes to",
                 cfx_opcode_name(n->op), n->name, f->path);
        return cfx__node_bad;
    }
    if (!writes(n)) {
        levels l = {0};
        read_levels(f, n, &l);
        const char *path = l.data[l.len - 1].path;
        cfx_value names = cfx_dict_get(f->u->written, path);
        if (cfx_is_none(names)) {
            names = cfx_dict_value(cfx_dict_new());
            cfx_dict_set(f->u->written, path, names);
        }
        cfx_dict_set(cfx_as_dict(names), n->name, cfx_node_value(of));
        VEC_FREE(l);
    }
    return here(f, of);
}

/* The node that stands in a module for one of the flat graph. */
static cfx_node *here(const frame *f, cfx_node *n) {
    const cfx_value *own = cfx_dict_find(f->nodes, cfx_node_value(n));
    own = own ? own : cfx_dict_find(f->taken, cfx_node_value(n));
    if (own)
        return cfx_as_node(*own);
    if (!f->parent && writes(n) && cfx_node_input(n, 0))
        return here(f, cfx_node_input(n, 0)); /* written inside a preserved module, and seen here */
    if (!f->parent) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s is used before it is computed", n->name);
        return cfx__node_bad;
    }
    if (n->op == CFX_PLACEHOLDER || !signature_of(f->u, f->path))
        return add_placeholder(f, n);
    return is_repeated(n) ? repeat(f, n) : read_written(f, n);
}

/* ---- a frame begins -------------------------------------------------------------------------- */

static cfx_module *new_module(const char *type) {
    cfx_module *m = cfx__module_new_raw("InterpreterModule", cfx__run_hooked);
    if (type)
        cfx_module_set_attr(m, "_ty", cfx_string_value(type));
    return m;
}

/* Puts a module below another; those on the way are made where they are missing. */
static void put_module(const frame *f, const char *accessor, cfx_module *m) {
    cfx_module *at = f->parent->module;
    const char *dot, *name = accessor;
    for (; (dot = strchr(name, '.')); name = dot + 1) {
        const char *own = cfx__string_new(name, (size_t)(dot - name))->text;
        cfx_module *next = cfx_module_find(at, own);
        if (!next) {
            size_t above = strlen(f->path) - strlen(dot);
            next = new_module(NULL);
            cfx_dict_set(f->u->made, cfx__string_new(f->path, above)->text,
                         cfx_module_value(next));
            cfx_nn_add(at, own, next);
        }
        at = next;
    }
    cfx_nn_add(at, name, m);
}

/* What the parent calls it: its path below the parent's, and the number of the call. A stretch of
 * nodes that belongs to a call which has ended has a number of its own. */
static const char *name_call(frame *f, int number) {
    const char *name = f->path;
    for (int i = number;; i++) {
        name = i ? cfx__text_format("%s@%d", f->path, i) : f->path;
        if (!cfx_dict_find(f->u->names, cfx_string_value(name)))
            break;
    }
    cfx_dict_set(f->u->names, name, cfx_none());
    f->name = name;
    size_t above = strlen(f->parent->path);
    return name + (above ? above + 1 : 0);
}

/* The arguments of a module whose signature is preserved are taken apart inside, and put together
 * outside. */
static void begin_preserved(frame *f) {
    const cfx_module_call *s = f->signature;
    cfx_graph *g = f->module->graph;
    const cfx_list *first = cfx_as_list(cfx_as_list(s->in_spec)->items[0]);
    const cfx_dict *rest = cfx_as_dict(cfx_as_list(s->in_spec)->items[1]);
    const cfx_list *inputs = cfx_as_list(s->inputs);
    cfx_value args = cfx_tuple_value(0, NULL), leaves = cfx_list_value(0, NULL), kwargs;
    cfx_dict *kw = cfx_dict_new();
    for (int64_t i = 0; i < first->len; i++)
        cfx_list_append(cfx_as_list(args),
                        cfx_node_value(cfx_graph_input(
                            g, cfx__text_format("_positional_arg_%lld", (long long)i))));
    for (int64_t i = 0; i < rest->len; i++)
        cfx_dict_put(kw, rest->entries[i].key,
                     cfx_node_value(cfx_graph_input(g, cfx_text(rest->entries[i].key))));
    cfx_node *flat =
        cfx__node_tree_flatten(f->module, cfx_tuple(args, cfx_dict_value(kw)), s->in_spec);
    for (int64_t i = 0; i < inputs->len; i++) {
        bool plain = inputs->items[i].tag != CFX_TAG_NODE;
        cfx_node *of = computed(f->u, inputs->items[i]);
        const char *name = plain ? cfx__text_format("_constant_%lld", (long long)i)
                                 : cfx_as_node(inputs->items[i])->name;
        cfx_node *leaf = cfx_graph_create(g, CFX_CALL_FUNCTION,
                                          cfx_graph_target(g, "operator.getitem"),
                                          cfx_tuple(flat, i), cfx_none(), name, NULL);
        if (of) {
            cfx__node_copy_meta(leaf, of);
            cfx_dict_put(f->taken, cfx_node_value(of), cfx_node_value(leaf));
        }
    }
    CFX_INSERT_BEFORE(f->parent->module->graph, f->call) {
        leaves_here(f->parent, inputs, leaves);
        cfx__node_tree_args(f->parent->module, leaves, s->in_spec, false, &args, &kwargs);
    }
    cfx_node_set_args(f->call, args);
    cfx_node_set_kwargs(f->call, kwargs);
}

static void begin(frame *f, const level *l) {
    const char *accessor = name_call(f, l->number);
    cfx_value held = cfx_dict_get(f->u->made, f->path);
    f->module = held.tag == CFX_TAG_MODULE && !strchr(accessor, '@') ? cfx_as_module(held)
                                                                     : new_module(NULL);
    cfx_module_set_attr(f->module, "_ty", cfx_string_value(l->type));
    cfx__graph_own(cfx_graph_new(), f->module);
    put_module(f, accessor, f->module);
    f->call = cfx_graph_call_module(f->parent->module->graph, accessor, cfx_none(), cfx_none());
    for (size_t i = 0; i < f->u->calls.len; i++)
        if (!strcmp(f->u->calls.data[i].path, f->path)) { /* they share what is below them */
            cfx__module_share_children(f->module, f->u->calls.data[i].module);
            break;
        }
    VEC_PUSH(f->u->calls, ((cfx__outlined){f->parent->module, f->parent->path, f->call, f->path,
                                           accessor, f->module}));
    f->signature = signature_of(f->u, f->name);
    if (f->signature)
        begin_preserved(f);
}

/* ---- a frame ends ---------------------------------------------------------------------------- */

static void note_val(cfx_node *n, const cfx_node *like) {
    cfx_value val = cfx_node_get_meta(like, "val");
    if (!cfx_is_none(val))
        cfx_node_set_meta(n, "val", val);
}

/* The results of a module whose signature is preserved, in its own tree. */
static void end_preserved(frame *f) {
    const cfx_list *outputs = cfx_as_list(f->signature->outputs);
    cfx_value leaves = leaves_here(f, outputs, cfx_tuple_value(0, NULL));
    cfx_node *tree = cfx__node_tree_unflatten(f->module, leaves, f->signature->out_spec);
    cfx_graph_output(f->module->graph, cfx_node_value(tree));
    cfx_node *flat = cfx__node_tree_flatten(f->parent->module, cfx_node_value(f->call),
                                            f->signature->out_spec);
    for (int64_t i = 0; i < outputs->len && cfx_ok(); i++) {
        cfx_node *of = computed(f->u, outputs->items[i]);
        if (!of)
            continue;
        cfx_node *taken = item(f->parent->module->graph, flat, cfx_int(i));
        note_val(taken, of);
        cfx_dict_put(f->parent->nodes, cfx_node_value(of), cfx_node_value(taken));
    }
}

static bool is_used_later(const frame *f, const cfx_node *n) {
    cfx_each_user(n, u) if (!cfx_dict_find(f->u->seen, cfx_node_value(u->user))) return true;
    return false;
}

/* What is used outside is given: one value, or a list of several. */
static void end(frame *f) {
    cfx_dict_remove(f->u->made, cfx_string_value(f->path));
    if (f->signature) {
        end_preserved(f);
        return;
    }
    cfx_value given = cfx_list_value(0, NULL), vals = cfx_list_value(0, NULL);
    cfx_list *from = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0; i < f->nodes->len; i++) {
        cfx_value n = f->nodes->entries[i].key;
        if (!is_used_later(f, cfx_as_node(n)))
            continue;
        cfx_list_append(from, n);
        cfx_list_append(cfx_as_list(given), f->nodes->entries[i].value);
        cfx_list_append(cfx_as_list(vals), cfx_node_get_meta(cfx_as_node(n), "val"));
    }
    cfx_graph_output(f->module->graph, from->len == 1 ? cfx_as_list(given)->items[0] : given);
    cfx_node_set_meta(f->call, "val", from->len == 1 ? cfx_as_list(vals)->items[0] : vals);
    for (int64_t i = 0; i < from->len && cfx_ok(); i++) {
        cfx_node *taken = f->call;
        if (from->len > 1) {
            taken = item(f->parent->module->graph, f->call, cfx_int(i));
            note_val(taken, cfx_as_node(from->items[i]));
        }
        cfx_dict_put(f->parent->nodes, from->items[i], cfx_node_value(taken));
    }
}

/* ---- all nodes ------------------------------------------------------------------------------- */

static bool copy_node(frame *f, cfx_node *n) {
    cfx_node *copy = cfx_graph_copy_node(f->module->graph, n, here_value, f);
    if (copy == cfx__node_bad)
        return false;
    cfx_value held = n->op == CFX_GET_ATTR
                         ? cfx_module_attr(f->u->program->module, n->target.name)
                         : cfx_none();
    if (!cfx_is_none(held) && !cfx_module_has(f->module, n->target.name))
        cfx_module_set_attr(f->module, n->target.name, held); /* the body of a loop or branch */
    cfx_dict_put(f->nodes, cfx_node_value(n), cfx_node_value(copy));
    cfx_dict_put(f->u->seen, cfx_node_value(n), cfx_none());
    return true;
}

/* Takes nodes from n on as long as they are of this module, or one below; the first that is not. */
static cfx_node *run_from(frame *f, cfx_node *n);

static cfx_node *run_below(frame *parent, const levels *l, cfx_node *n) {
    frame f = {.u = parent->u, .parent = parent, .nodes = cfx_dict_new(), .taken = cfx_dict_new()};
    if (++f.u->depth > DEEPEST) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "modules are more than %d deep in node %s",
                 DEEPEST, n->name);
        return NULL;
    }
    for (size_t i = 0; i <= parent->levels.len; i++)
        VEC_PUSH(f.levels, l->data[i]);
    f.path = f.levels.data[f.levels.len - 1].path;
    begin(&f, &f.levels.data[f.levels.len - 1]);
    n = cfx_ok() ? run_from(&f, n) : NULL;
    if (cfx_ok())
        end(&f);
    VEC_FREE(f.levels);
    f.u->depth--;
    return cfx_ok() ? n : NULL;
}

static cfx_node *run_from(frame *f, cfx_node *n) {
    levels l = {0};
    while (n && n->op != CFX_OUTPUT) {
        read_levels(f, n, &l);
        if (!are_inside(&l, f))
            break;
        if (l.len > f->levels.len)
            n = run_below(f, &l, n);
        else
            n = copy_node(f, n) ? cfx_node_after(n) : NULL;
    }
    VEC_FREE(l);
    return n;
}

static bool outline(cfx__unflat *u) {
    frame root = {.u = u, .module = u->root, .path = "", .name = "", .nodes = cfx_dict_new(),
                  .taken = cfx_dict_new()};
    VEC_PUSH(root.levels, ((level){.path = ""}));
    cfx_node *n = cfx_graph_first(u->flat);
    for (; n && n->op == CFX_PLACEHOLDER && copy_node(&root, n); n = cfx_node_after(n))
        cfx_dict_put(u->origin, *cfx_dict_find(root.nodes, cfx_node_value(n)), cfx_node_value(n));
    n = cfx_ok() ? run_from(&root, n) : NULL;
    bool fine = n && n->op == CFX_OUTPUT && copy_node(&root, n);
    VEC_FREE(root.levels);
    return fine;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *root_type(const cfx_graph *g) {
    cfx_each_node(g, n) {
        cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
        if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
            continue;
        cfx_value first = cfx_as_dict(stack)->entries[0].value;
        const char *path = text_at(first, 0);
        if (path && !*path)
            return text_at(first, 1);
    }
    return NULL;
}

cfx_module *cfx_program_unflatten(const cfx_program *p) {
    if (!cfx__program_whole((cfx_site){0}, p))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx__unflat u = {.program = p,
                     .flat = cfx_graph_copy(p->module->graph),
                     .root = cfx__program_shell("UnflattenedModule"),
                     .seen = cfx_dict_new(),
                     .origin = cfx_dict_new(),
                     .made = cfx_dict_new(),
                     .names = cfx_dict_new(),
                     .written = cfx_dict_new(),
                     .finals = cfx_dict_new()};
    const char *type = root_type(u.flat);
    if (type)
        cfx_module_set_attr(u.root, "_ty", cfx_string_value(type));
    cfx__graph_own(cfx_graph_new(), u.root);
    cfx__unflat_write(&u);
    bool fine = outline(&u);
    fine = fine && cfx__unflat_write_back(&u) && cfx__unflat_state(&u);
    if (fine) {
        cfx__unflat_join(&u);
        cfx__program_dress(u.root, p);
    }
    VEC_FREE(u.calls);
    return cfx_scope_return(mark, fine && cfx_ok() ? u.root : &cfx__module_bad);
}
