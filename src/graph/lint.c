/* Whether a graph is well-formed, in torch.fx's words; and the order of nodes put right. */
#include "meta.h"

/* ---- lint ----------------------------------------------------------------------------------- */

static bool check_inputs(const cfx_graph *g, const cfx_node *n) {
    cfx_each_input(n, u) {
        const cfx_node *arg = u->node;
        if (arg->graph != g) {
            cfx__fail_lines(
                CFX_RUNTIME_ERROR, (cfx_site){0},
                "Argument '%s' of Node '%s' does not belong to this Graph, but was used as an "
                "argument! If you are copying nodes from another graph, make sure to use "
                "``arg_transform`` on node_copy() to remap values\n%s",
                arg->name, n->name, cfx_graph_str(g));
            return false;
        }
        if (arg->erased || !cfx_node_precedes(arg, n)) {
            cfx__fail_lines(
                CFX_RUNTIME_ERROR, (cfx_site){0},
                "Argument '%s' of Node '%s' was used before it has been defined! Please check "
                "that Nodes in the graph are topologically ordered\n%s",
                arg->name, n->name, cfx_graph_str(g));
            return false;
        }
    }
    return true;
}

/* Whether the owner has what a get_attr or call_module names, atom by atom. */
static bool check_target(const cfx_node *n, const cfx_module *owner) {
    const char *path = n->target.name;
    cfx_value v = cfx_none();
    for (const char *atom = path, *end; owner; atom = end + 1, owner = cfx_as_module(v)) {
        end = strchr(atom, '.');
        int len = (int)(end ? (size_t)(end - atom) : strlen(atom));
        int before = atom > path ? (int)(atom - path) - 1 : 0;
        if (!cfx__module_get(owner, atom, (size_t)len, &v) || cfx_is_none(v)) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Node %s target %s references nonexistent attribute %.*s of %.*s", n->name,
                     path, len, atom, before, path);
            return false;
        }
        if (n->op == CFX_CALL_MODULE && v.tag != CFX_TAG_MODULE) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Node %s target %s %.*s of %.*s does not reference an nn.Module", n->name,
                     path, len, atom, before, path);
            return false;
        }
        if (!end)
            break;
        if (v.tag != CFX_TAG_MODULE) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Node %s target %s references nonexistent attribute %s of %.*s", n->name, path,
                     end + 1, (int)(end - path), path);
            return false;
        }
    }
    return true;
}

bool cfx__graph_lint(cfx_graph *g, const cfx_module *owner, const cfx_node **where) {
    const cfx_node *none;
    where = where ? where : &none;
    if (!cfx__graph_given(g))
        return false;
    cfx_each_node(g, n) {
        *where = n;
        if (n->graph != g) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Node '%s' does not belong to this Graph!",
                     n->name);
            return false;
        }
        if (!check_inputs(g, n))
            return false;
    }
    owner = owner ? owner : g->owner;
    static const cfx_opcode naming[] = {CFX_GET_ATTR, CFX_CALL_MODULE};
    for (int i = 0; owner && i < COUNT(naming); i++) /* one node speaks for all of its target */
        for (const cfx__target_row *row = g->rows[naming[i]]; row; row = row->next)
            if (row->first) {
                *where = &row->first->pub;
                if (!check_target(*where, owner))
                    return false;
            }
    return true;
}

static bool check_function(const cfx_node *n) {
    if (cfx__target_known(n->target))
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
             "Node %s calls %s, which is no function known here%s", n->name, n->target.name,
             cfx__dispatch_hint(n->target.name));
    return false;
}

bool cfx_graph_lint(cfx_graph *g, const cfx_module *owner) {
    if (!cfx__graph_lint(g, owner, NULL))
        return false;
    for (const cfx__target_row *row = g->rows[CFX_CALL_FUNCTION]; row; row = row->next)
        if (row->first && !check_function(&row->first->pub))
            return false;
    return true;
}

/* ---- the invariant -------------------------------------------------------------------------- */

typedef struct walk {
    const cfx_node *user;
    const cfx_use *next;
    cfx_dict *seen;
    bool good;
} walk;

/* The nodes in the arguments, each the first time, are the inputs, in order. */
static void check_use(cfx_node *used, void *data) {
    walk *w = data;
    if (cfx_dict_find(w->seen, cfx_node_value(used)))
        return;
    cfx_dict_put(w->seen, cfx_node_value(used), cfx_none());
    w->good = w->good && w->next && w->next->node == used && w->next->user == w->user;
    w->next = w->next ? w->next->next_input : NULL;
}

static const char *check_node(const cfx_graph *g, cfx_node *n) {
    size_t mark = cfx_scope_open();
    walk w = {n, n->inputs, cfx_dict_new(), true};
    cfx__node_each(n->args, check_use, &w);
    cfx__node_each(n->kwargs, check_use, &w);
    cfx_scope_close(mark);
    if (!w.good || w.next)
        return "its inputs are not the nodes in its arguments";
    const cfx_use *before = NULL, *last = NULL;
    cfx_each_input(n, u) {
        cfx_value held = u->long_ ? u->long_->items[u->place_] : cfx_node_value(u->node);
        if (u->prev_input_ != before || held.tag != CFX_TAG_NODE || cfx_as_node(held) != u->node)
            return "its list of inputs is broken";
        before = u;
    }
    int users = 0;
    cfx_each_user(n, u) {
        if (u->node != n || u->prev_ != last || u->user->erased)
            return "its list of users is broken";
        last = u;
        users++;
    }
    if (users != n->num_users || last != cfx__node_of(n)->last_user)
        return "its number of users is wrong";
    if (n->graph != g || n->erased)
        return "it is not of this graph";
    if (cfx_graph_find(g, n->name) != n)
        return "it is not found by its name";
    if (n->next ? n->next->prev != n || !cfx_node_precedes(n, n->next) : g->last != n)
        return "the list is broken behind it";
    const cfx__node *own = cfx__node_of(n);
    if (own->row != cfx__map_get(&g->targets[n->op], n->target.name) ||
        (own->row_prev ? own->row_prev->row_next : own->row->first) != own ||
        (own->row_next ? own->row_next->row_prev : own->row->last) != own)
        return "it is not in the index";
    return NULL;
}

bool cfx__graph_check(const cfx_graph *g) {
    int64_t count = 0;
    for (cfx_node *n = g->first; n; n = n->next, count++) {
        const char *why = check_node(g, n);
        if (why) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "node %s: %s", n->name, why);
            return false;
        }
    }
    if (count != g->len)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the graph counts its nodes wrongly");
    return count == g->len;
}

/* ---- sort ----------------------------------------------------------------------------------- */

/* Nodes are taken in the present order. One whose inputs are not all placed yet has to wait, and is
 * placed right behind the last of them: a list that is in order already stays as it is. */
typedef struct sorter {
    cfx_graph *g;
    enum { AHEAD, WAITING, PLACED } *state; /* by id */
    int *missing;                           /* by id: inputs that are not placed */
    VEC(cfx_node *) order;
    VEC(cfx_node *) ready; /* a stack */
} sorter;

static int count_missing(const sorter *s, const cfx_node *n) {
    int missing = 0;
    cfx_each_input(n, u)
        missing += u->node->graph == s->g && !u->node->erased &&
                   s->state[cfx__node_of(u->node)->id] != PLACED;
    return missing;
}

static int later_first(const void *a, const void *b) {
    return cfx_node_precedes(*(cfx_node *const *)a, *(cfx_node *const *)b) ? 1 : -1;
}

/* Places n, and what waited for nothing else. */
static void place(sorter *s, cfx_node *n) {
    VEC_PUSH(s->ready, n);
    while (s->ready.len) {
        n = s->ready.data[--s->ready.len];
        s->state[cfx__node_of(n)->id] = PLACED;
        VEC_PUSH(s->order, n);
        size_t before = s->ready.len;
        cfx_each_user(n, u) {
            uint32_t id = cfx__node_of(u->user)->id;
            if (u->user->graph == s->g && s->state[id] == WAITING && !--s->missing[id])
                VEC_PUSH(s->ready, u->user);
        }
        if (s->ready.len - before > 1)
            qsort(s->ready.data + before, s->ready.len - before, sizeof n, later_first);
    }
}

static void fail_cycle(const sorter *s) {
    cfx__text t = {0};
    cfx_each_node(s->g, n)
        if (s->state[cfx__node_of(n)->id] != PLACED)
            cfx__text_printf(&t, "%s%s", t.len ? ", " : "", n->name);
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Input graph has cycles, unable to add [%s]",
             t.data);
    cfx__text_release(&t);
}

static void relink(sorter *s) {
    cfx_graph *g = s->g;
    size_t n = s->order.len;
    cfx_node **order = s->order.data;
    bool same = true;
    cfx_node *now = g->first;
    for (size_t i = 0; i < n && same; i++, now = now->next)
        same = order[i] == now;
    if (same)
        return;
    for (size_t i = 0; i < n; i++) {
        order[i]->prev = i ? order[i - 1] : NULL;
        order[i]->next = i + 1 < n ? order[i + 1] : NULL;
    }
    g->first = order[0];
    g->last = order[n - 1];
    cfx__graph_renumber(g);
    g->version++;
    cfx__graph_count_edge(g);
}

bool cfx_graph_sort(cfx_graph *g) {
    if (!cfx__graph_given(g))
        return false;
    size_t made = g->made.len;
    sorter s = {.g = g,
                .state = cfx__alloc0(made * sizeof *s.state),
                .missing = cfx__alloc0(made * sizeof *s.missing)};
    for (cfx_node *n = g->first; n; n = n->next) {
        uint32_t id = cfx__node_of(n)->id;
        s.missing[id] = count_missing(&s, n);
        s.state[id] = WAITING;
        if (!s.missing[id])
            place(&s, n);
    }
    bool good = (int64_t)s.order.len == g->len;
    if (!good)
        fail_cycle(&s);
    else
        relink(&s);
    cfx__free(s.state);
    cfx__free(s.missing);
    VEC_FREE(s.order);
    VEC_FREE(s.ready);
    return good;
}
