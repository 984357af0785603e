/* A program's signature follows its graph. Each specification knows the node that it is of, so that
 * after an edit what was renamed or moved is found again, what is new is added, and what is gone is
 * left out, in the trees of arguments and results too. Start at cfx_program_sync. */
#include "meta.h"

/* ---- trees ----------------------------------------------------------------------------------- */

static bool is_branch(cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_DICT;
}

/* The tree without the leaves that are gone, by number from *k on. */
static cfx_value without(cfx_value tree, const bool *gone, int64_t *k) {
    if (tree.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < cfx_as_dict(tree)->len; i++) {
            cfx_value v = cfx_as_dict(tree)->entries[i].value;
            bool leaf = !is_branch(v), left = leaf && gone[*k];
            *k += leaf;
            if (!left)
                cfx_dict_put(d, cfx_as_dict(tree)->entries[i].key, leaf ? v : without(v, gone, k));
        }
        return cfx_dict_value(d);
    }
    cfx_value out = cfx__value_like(tree);
    for (int64_t i = 0; i < cfx_as_list(tree)->len; i++) {
        cfx_value v = cfx_as_list(tree)->items[i];
        bool leaf = !is_branch(v), left = leaf && gone[*k];
        *k += leaf;
        if (!left)
            cfx_list_append(cfx_as_list(out), leaf ? v : without(v, gone, k));
    }
    return out;
}

/* What happened to the leaves of a tree. */
typedef struct change {
    bool *gone;        /* by old number */
    int64_t old, added; /* how many there were, how many came */
    bool mixed;        /* they are in another order, or some came in between */
} change;

static int64_t count_leaves(cfx_value tree) {
    size_t mark = cfx_scope_open();
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(tree, leaves);
    int64_t n = leaves->len;
    cfx_scope_close(mark);
    return n;
}

/* Where new leaves go: the end of a tuple or list, or, of (args, kwargs), of the arguments. */
static cfx_list *open_end(cfx_value tree, bool inputs) {
    if (inputs)
        return cfx_as_dict(cfx_as_list(tree)->items[1])->len
                   ? NULL
                   : cfx_as_list(cfx_as_list(tree)->items[0]);
    return tree.tag == CFX_TAG_DICT ? NULL : cfx_as_list(tree);
}

/* Whether a tree has the shape that such a change can be made to. */
static bool is_known(cfx_value tree, bool inputs, const change *c) {
    bool pair = tree.tag == CFX_TAG_TUPLE && cfx_as_list(tree)->len == 2 &&
                cfx_as_list(tree)->items[0].tag == CFX_TAG_TUPLE &&
                cfx_as_list(tree)->items[1].tag == CFX_TAG_DICT;
    return !c->mixed && is_branch(tree) && (!inputs || pair) && count_leaves(tree) == c->old;
}

/* The tree after a change; None, which is a flat one, where it cannot be told. */
static void follow(cfx_value *tree, bool inputs, const change *c) {
    bool any = c->added || c->mixed;
    for (int64_t i = 0; i < c->old; i++)
        any |= c->gone[i];
    if (!any || cfx_is_none(*tree) || (!c->old && count_leaves(*tree) == c->added))
        return; /* nothing changed, or nothing was said of them yet */
    size_t mark = cfx_scope_open();
    cfx_value made = cfx_none();
    int64_t k = 0;
    if (is_known(*tree, inputs, c)) {
        made = without(*tree, c->gone, &k);
        cfx_list *end = c->added ? open_end(made, inputs) : NULL;
        for (int64_t i = 0; end && i < c->added; i++)
            cfx_list_append(end, cfx_ellipsis());
        if (c->added && !end)
            made = cfx_none();
    }
    cfx_value_keep(made);
    cfx_value_drop(*tree);
    *tree = made;
    cfx_scope_close(mark);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_user(const cfx_input_spec *s) { return s->kind == CFX_IN_USER; }

void cfx__program_number(struct cfx__program *own, const cfx_node *n, size_t number) {
    const uint32_t id = cfx__node_of(n)->id;
    while (own->numbers.len <= id)
        VEC_PUSH(own->numbers, -1);
    own->numbers.data[id] = (int)number;
}

/* The number of the input that a node is the placeholder of; -1: of none. What was noted of a node
 * of another graph, or of one that is gone, does not count. */
static int64_t number_of(const struct cfx__program *own, const cfx_node *n) {
    const uint32_t id = cfx__node_of(n)->id;
    const int64_t k = id < own->numbers.len ? own->numbers.data[id] : -1;
    return k >= 0 && k < (int64_t)own->inputs.len && own->placeholders.data[k] == n ? k : -1;
}

/* The number of the input that placeholder number k was; -1: it is new. One whose node is not known
 * is the one in its place. */
static int64_t old_input(const struct cfx__program *own, const cfx_node *n, size_t k) {
    const int64_t number = number_of(own, n);
    if (number >= 0)
        return number;
    return k < own->inputs.len && !own->placeholders.data[k] ? (int64_t)k : -1;
}

/* Results that are written to an input follow its name. */
static bool rename_written(cfx_program *p, const cfx_dict *names) {
    for (int i = 0; i < p->noutputs; i++) {
        cfx_output_spec *o = &p->outputs[i];
        if ((o->kind != CFX_OUT_INPUT_MUTATION && o->kind != CFX_OUT_INPUT_GRADIENT) || !o->target)
            continue;
        const char *now = cfx_text(cfx_dict_get(names, o->target));
        if (!now) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "result %s of the program is written to its input %s, which is gone",
                     o->name ? o->name : "", o->target);
            return false;
        }
        if (strcmp(now, o->target))
            o->target = cfx_program_text(p, now);
    }
    return true;
}

/* Replaces the inputs by those of the placeholders there are. */
static void sync_inputs(cfx_program *p, change *c, cfx_dict *names) {
    struct cfx__program *own = p->own_;
    VEC(cfx_input_spec) specs = {0};
    VEC(const cfx_node *) nodes = {0};
    bool *stays = cfx__alloc0(own->inputs.len + 1);
    int64_t last = -1, users = 0;
    for (cfx_node *n = p->module->graph->first; n; n = n->next) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        int64_t i = old_input(own, n, specs.len);
        cfx_input_spec s = {.kind = CFX_IN_USER};
        if (i >= 0) {
            s = own->inputs.data[i];
            stays[i] = true;
            if (is_user(&s)) {
                c->mixed |= i < last || c->added;
                last = i;
                if (s.name)
                    cfx_dict_set(names, s.name, cfx_string_value(n->name));
            }
        } else {
            c->added++;
        }
        if (!s.name || strcmp(s.name, n->name))
            s.name = cfx_program_text(p, n->name);
        VEC_PUSH(specs, s);
        VEC_PUSH(nodes, n);
    }
    for (size_t i = 0; i < own->inputs.len; i++) {
        if (is_user(&own->inputs.data[i]))
            c->gone[users++] = !stays[i];
        if (!stays[i])
            cfx_value_drop(own->inputs.data[i].value);
    }
    c->old = users;
    cfx__free(stays);
    own->held = 0;
    VEC_FREE(own->inputs);
    VEC_FREE(own->placeholders);
    memcpy(&own->inputs, &specs, sizeof specs);
    memcpy(&own->placeholders, &nodes, sizeof nodes);
    for (size_t i = 0; i < nodes.len; i++)
        cfx__program_number(own, nodes.data[i], i);
    p->inputs = own->inputs.data;
    p->ninputs = (int)own->inputs.len;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool is_result(const cfx_output_spec *s) {
    return s->kind == CFX_OUT_USER || s->kind == CFX_OUT_LOSS;
}

/* What the graph gives, one by one. A single value may be a tuple yet: it is one result where the
 * signature has one. */
static int64_t results_of(const cfx_program *p, const cfx_value **items) {
    const cfx_node *output = cfx_graph_output_node(p->module->graph);
    *items = output && cfx_as_list(output->args)->len ? cfx_as_list(output->args)->items : NULL;
    if (!*items)
        return 0;
    if ((*items)->tag != CFX_TAG_TUPLE && (*items)->tag != CFX_TAG_LIST)
        return p->noutputs ? 1 : 0;
    const cfx_list *l = cfx_as_list(*(*items));
    *items = l->items;
    return l->len;
}

/* Outputs there were, those of the same node in a row. */
typedef struct {
    const cfx_graph *graph;
    int64_t *first; /* by id of a node: its first output that is left, and 1; 0: none */
    int64_t *next;  /* by number of an output: that of the same node behind it, the same way */
} old_results;

static old_results old_results_of(const struct cfx__program *own, const cfx_graph *g) {
    old_results old = {g, cfx__alloc0((g->made.len + 1) * sizeof *old.first),
                       cfx__alloc0((own->outputs.len + 1) * sizeof *old.next)};
    for (size_t i = own->outputs.len; i-- > 0;) {
        const cfx_node *n = own->results.data[i];
        if (!n || n->graph != g)
            continue;
        int64_t *first = &old.first[cfx__node_of(n)->id];
        old.next[i] = *first;
        *first = (int64_t)i + 1;
    }
    return old;
}

/* The number of the output that result number k was: in its place where their number is the same,
 * else the first that is left of the same node; -1: it is new. */
static int64_t old_output(const old_results *old, bool same, cfx_value v, int64_t k) {
    if (same)
        return k;
    if (v.tag != CFX_TAG_NODE || cfx_as_node(v)->graph != old->graph)
        return -1;
    int64_t *first = &old->first[cfx__node_of(cfx_as_node(v))->id], number = *first - 1;
    if (number >= 0)
        *first = old->next[number];
    return number;
}

/* One output as the graph has it now. */
static void sync_output(cfx_program *p, cfx_output_spec *s, cfx_value v) {
    const char *name = v.tag == CFX_TAG_NODE ? cfx_as_node(v)->name : NULL;
    if (!name || !s->name || strcmp(name, s->name))
        s->name = cfx_program_text(p, name);
    cfx_value now = name ? cfx_none() : cfx_value_keep(v);
    cfx_value_drop(s->value);
    s->value = now;
}

static void sync_outputs(cfx_program *p, change *c) {
    struct cfx__program *own = p->own_;
    const cfx_value *items;
    int64_t count = results_of(p, &items), last = -1, users = 0;
    bool same = count == (int64_t)own->outputs.len;
    bool *taken = cfx__alloc0(own->outputs.len + 1);
    const old_results old = old_results_of(own, p->module->graph);
    VEC(cfx_output_spec) specs = {0};
    VEC(const cfx_node *) nodes = {0};
    for (int64_t k = 0; k < count; k++) {
        int64_t i = old_output(&old, same, items[k], k);
        cfx_output_spec s = i >= 0 ? own->outputs.data[i] : (cfx_output_spec){0};
        if (i >= 0)
            taken[i] = true;
        c->mixed |= i >= 0 && (i < last || (is_result(&s) && c->added));
        c->added += i < 0;
        last = i >= 0 ? i : last;
        sync_output(p, &s, items[k]);
        VEC_PUSH(specs, s);
        VEC_PUSH(nodes, items[k].tag == CFX_TAG_NODE ? cfx_as_node(items[k]) : NULL);
    }
    for (size_t i = 0; i < own->outputs.len; i++) {
        if (is_result(&own->outputs.data[i]))
            c->gone[users++] = !taken[i];
        if (!taken[i])
            cfx_value_drop(own->outputs.data[i].value);
    }
    c->old = users;
    cfx__free(taken);
    cfx__free(old.first);
    cfx__free(old.next);
    VEC_FREE(own->outputs);
    VEC_FREE(own->results);
    memcpy(&own->outputs, &specs, sizeof specs);
    memcpy(&own->results, &nodes, sizeof nodes);
    p->outputs = own->outputs.data;
    p->noutputs = (int)own->outputs.len;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Whether inputs and outputs are those of the graph, names included. */
static bool is_in_line(const cfx_program *p) {
    const struct cfx__program *own = p->own_;
    int i = 0;
    for (const cfx_node *n = p->module->graph->first; n; n = n->next)
        if (n->op == CFX_PLACEHOLDER &&
            (i >= p->ninputs || own->placeholders.data[i] != n || !p->inputs[i].name ||
             strcmp(p->inputs[i++].name, n->name)))
            return false;
    const cfx_value *items;
    int64_t count = results_of(p, &items);
    bool same = i == p->ninputs && count == p->noutputs;
    for (int64_t k = 0; same && k < count; k++) {
        const char *name = p->outputs[k].name;
        same = items[k].tag == CFX_TAG_NODE
                   ? own->results.data[k] == cfx_as_node(items[k]) && name &&
                         !strcmp(name, cfx_as_node(items[k])->name)
                   : !name && cfx_equal_values(p->outputs[k].value, items[k]);
    }
    return same;
}

static bool bring_in_line(cfx_program *p) {
    size_t mark = cfx_scope_open();
    cfx_value in = p->in_spec, out = p->out_spec;
    change inputs = {.gone = cfx__alloc0((size_t)p->ninputs + 1)};
    change outputs = {.gone = cfx__alloc0((size_t)p->noutputs + 1)};
    cfx_dict *names = cfx_dict_new();
    sync_inputs(p, &inputs, names);
    sync_outputs(p, &outputs);
    bool fine = rename_written(p, names);
    follow(&p->in_spec, true, &inputs);
    follow(&p->out_spec, false, &outputs);
    if (cfx__value_object(in) != cfx__value_object(p->in_spec) ||
        cfx__value_object(out) != cfx__value_object(p->out_spec))
        cfx__program_forget_trees(p);
    cfx__free(inputs.gone);
    cfx__free(outputs.gone);
    cfx_scope_close(mark);
    return fine;
}

bool cfx_program_sync(const cfx_program *program) {
    cfx_program *p = (cfx_program *)program; /* derived: const for its callers */
    if (!cfx__program_given((cfx_site){0}, p))
        return false;
    uint64_t edges = cfx__graph_edges(p->module->graph);
    if (__atomic_load_n(&p->own_->synced, __ATOMIC_ACQUIRE) == edges)
        return true;
    pthread_mutex_lock(&p->own_->lock); /* of threads that find it at once, one does it */
    bool fine = p->own_->synced == edges || is_in_line(p) || bring_in_line(p);
    if (fine)
        __atomic_store_n(&p->own_->synced, edges, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&p->own_->lock);
    return fine;
}

bool cfx__program_whole(cfx_site at, const cfx_program *p) {
    if (!cfx__program_given(at, p))
        return false;
    if (!cfx_graph_output_node(p->module->graph)) {
        cfx_fail(CFX_RUNTIME_ERROR, at, "the graph of the program has no output");
        return false;
    }
    return cfx_program_sync(p);
}

const cfx_input_spec *cfx_program_input(const cfx_program *p, const cfx_node *n) {
    if (!n || n->op != CFX_PLACEHOLDER || !cfx_program_sync(p))
        return NULL;
    const int64_t k = number_of(p->own_, n);
    return k < 0 ? NULL : &p->inputs[k];
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool is_taken(const cfx_program *p, const char *name) {
    cfx_value key = cfx_string_value(name);
    return cfx_dict_find(p->state, key) || cfx_dict_find(p->constants, key);
}

/* The name, or "name_1", "name_2" and so on: of thousands of names that are taken, a few are looked
 * at. Scope. */
static const char *free_name(const cfx_program *p, const char *name) {
    int64_t taken = 0, free = 1;
    if (!is_taken(p, name))
        return name;
    for (; is_taken(p, cfx__text_format("%s_%lld", name, (long long)free)); free *= 2)
        taken = free;
    while (free - taken > 1) {
        int64_t middle = taken + (free - taken) / 2;
        if (is_taken(p, cfx__text_format("%s_%lld", name, (long long)middle)))
            taken = middle;
        else
            free = middle;
    }
    return cfx__text_format("%s_%lld", name, (long long)free);
}

/* Adds the input that placeholder n, number k, stands for. */
static void insert_input(cfx_program *p, int k, const cfx_node *n, cfx_input_spec spec) {
    struct cfx__program *own = p->own_;
    size_t behind = own->inputs.len - (size_t)k;
    VEC_PUSH(own->inputs, spec);
    VEC_PUSH(own->placeholders, n);
    memmove(own->inputs.data + k + 1, own->inputs.data + k, behind * sizeof *own->inputs.data);
    memmove(own->placeholders.data + k + 1, own->placeholders.data + k,
            behind * sizeof *own->placeholders.data);
    own->inputs.data[k] = spec;
    own->placeholders.data[k] = n;
    for (size_t i = (size_t)k; i < own->inputs.len; i++)
        if (own->placeholders.data[i])
            cfx__program_number(own, own->placeholders.data[i], i);
    p->inputs = own->inputs.data;
    p->ninputs = (int)own->inputs.len;
}

/* A placeholder called "p_fc_weight" before `at`. */
static cfx_node *new_placeholder(cfx_graph *g, cfx_node *at, char prefix, const char *target,
                                 const cfx_tensor *t) {
    cfx_node *made = cfx__node_bad;
    cfx__text name = {0};
    cfx__text_printf(&name, "%c_%s", prefix, target);
    for (char *c = name.data; *c; c++)
        *c = *c == '.' ? '_' : *c;
    CFX_INSERT_BEFORE(g, at)
        made = cfx_graph_placeholder(g, name.data, NULL, false, cfx_none());
    cfx__text_release(&name);
    cfx_node_set_meta(made, "val", cfx_tensor_value(cfx__tensor_faked(t)));
    return made;
}

/* The node before which a tensor's placeholder goes, the first of the caller's own, and the number
 * of the input that it becomes. */
static cfx_node *first_of_users(cfx_program *p, int *number) {
    struct cfx__program *own = p->own_;
    int k = own->held;
    cfx_node *at = k ? own->placeholders.data[k - 1]->next : p->module->graph->first;
    while (at && at->op == CFX_PLACEHOLDER && k < p->ninputs && !is_user(&p->inputs[k]))
        at = at->next, k++;
    own->held = *number = k;
    return at;
}

cfx_node *cfx_program_add_tensor(cfx_program *p, cfx_input_kind kind, const char *target,
                                 cfx_tensor *t) {
    static const char prefixes[] = {[CFX_IN_PARAMETER] = 'p', [CFX_IN_BUFFER] = 'b',
                                    [CFX_IN_CONSTANT] = 'c'};
    if (!t || !target || kind < CFX_IN_PARAMETER || kind > CFX_IN_CONSTANT) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a tensor and its name are needed");
        return cfx__node_bad;
    }
    if (cfx__obj_is_bad(t) || !cfx_program_sync(p))
        return cfx__node_bad;
    size_t mark = cfx_scope_open();
    const char *unique = free_name(p, target);
    cfx_dict_set(kind == CFX_IN_CONSTANT ? p->constants : p->state, unique, cfx_tensor_value(t));
    int k;
    cfx_node *at = first_of_users(p, &k);
    cfx_node *made = new_placeholder(p->module->graph, at, prefixes[kind], unique, t);
    cfx__result_set_grad(made, cfx__input_learns(kind, (cfx_dtype)t->dtype));
    insert_input(p, k, made, (cfx_input_spec){.kind = kind,
                                              .name = cfx_program_text(p, made->name),
                                              .target = cfx_program_text(p, unique),
                                              .persistent = kind == CFX_IN_BUFFER});
    p->own_->synced = cfx__graph_edges(p->module->graph); /* as it was before, with this one */
    cfx_scope_close(mark);
    return made;
}
