/* Graphs: making, the list of nodes, insert points, erasing, finding, hooks. Start at
 * cfx_graph_create; what is in a node is node.c's business, the order keys are list.c's. */
#include "meta.h"

#include <ctype.h>

static void graph_free(void *p);

static const cfx__obj_type graph_type = {.name = "graph", .free = graph_free};

static const cfx__node bad_node = {
    .pub = {.name = "<bad>", .target = {.name = "<bad>"}, .erased = true}};
cfx_node *const cfx__node_bad = (cfx_node *)&bad_node.pub;

bool cfx__node_given(const cfx_node *n) {
    if (likely(n && n->graph))
        return true;
    if (cfx_ok())
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the node is %s", n ? "bad" : "NULL");
    return false;
}

cfx_graph cfx__graph_bad = {.head = {.refs = 1, .flags = CFX__BAD, .type = &graph_type}};

bool cfx__graph_given(const cfx_graph *g) {
    if (likely(g && !cfx__obj_is_bad(g)))
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the graph is %s", g ? "bad" : "NULL");
    return false;
}


cfx_graph *cfx_graph_new(void) {
    cfx_graph *g = cfx__obj_new(&graph_type, sizeof(cfx__graph_whole));
    size_t mark = cfx_scope_open();
    g->no_args = cfx_value_keep(cfx_tuple_value(0, NULL));
    g->no_kwargs = cfx_value_keep(cfx_dict_value(cfx_dict_new()));
    cfx_as_list(g->no_args)->head.flags |= CFX__FROZEN;
    cfx_as_dict(g->no_kwargs)->head.flags |= CFX__FROZEN;
    cfx_scope_close(mark);
    return g;
}

void cfx_graph_set_user(cfx_graph *g, void *user) {
    if (cfx__graph_given(g))
        g->user = user;
}

void *cfx_graph_user(const cfx_graph *g) { return g ? g->user : NULL; }

static cfx_value none_of(cfx_node *n, void *gone) {
    return n->graph == gone ? cfx_none() : cfx_node_value(n);
}

/* Takes the nodes of g out of the arguments of other graphs, which live on. */
static void take_back(cfx_graph *g) {
    for (size_t i = 0; i < g->made.len; i++)
        CFX_SCOPE {
            cfx_value users = cfx_node_users(&g->made.data[i]->pub);
            for (int64_t k = 0; k < cfx_as_list(users)->len; k++)
                if (cfx_as_node(cfx_as_list(users)->items[k])->graph != g)
                    cfx__node_map_args(cfx_as_node(cfx_as_list(users)->items[k]), none_of, g);
        }
}

static void graph_free(void *p) {
    cfx_graph *g = p;
    if (g->lent)
        take_back(g);
    cfx_drop(g->prepared);
    cfx_drop(g->values);
    cfx__graph_drop_metas(g);
    for (size_t i = 0; i < g->made.len; i++) {
        cfx_node *n = &g->made.data[i]->pub;
        if (g->foreign.len || g->borrows)
            cfx__node_drop_uses(n);
        if (cfx__value_object(n->args) != cfx__value_object(g->no_args))
            cfx_value_drop(n->args);
        if (cfx__value_object(n->kwargs) != cfx__value_object(g->no_kwargs))
            cfx_value_drop(n->kwargs);
        cfx_drop(n->meta);
        cfx_drop(n->target.object);
    }
    for (size_t i = 0; i < g->foreign.len; i++)
        cfx_drop(g->foreign.data[i]);
    VEC_FREE(g->foreign);
    for (size_t i = 0; i < g->subgraphs.len; i++)
        cfx_drop(g->subgraphs.data[i].graph);
    VEC_FREE(g->subgraphs);
    cfx__graph_drop_tree(g);
    VEC_FREE(g->made);
    cfx_value_drop(g->no_args);
    cfx_value_drop(g->no_kwargs);
    for (int op = 0; op < CFX__OPCODES; op++)
        cfx__map_release(&g->targets[op]);
    cfx__namespace_release(&g->names);
    cfx__arena_release(&g->arena);
}

static void disown(cfx_graph *g) { g->owner = NULL; }

static void copy_for(cfx_module *to, cfx_graph *g) {
    size_t mark = cfx_scope_open();
    cfx__graph_own(cfx_graph_copy(g), to);
    cfx_scope_close(mark);
}

void cfx__graph_own(cfx_graph *g, cfx_module *m) {
    static const cfx__module_graph_owner owner = {.gone = disown, .copy = copy_for};
    cfx__module_set_graph(m, g, &owner);
    if (g)
        g->owner = m;
}

cfx_graph *cfx__graph_subgraph(const cfx_graph *g, const char *name) {
    for (size_t i = 0; i < g->subgraphs.len; i++)
        if (!strcmp(g->subgraphs.data[i].name, name))
            return g->subgraphs.data[i].graph;
    return NULL;
}

void cfx__graph_add_subgraph(cfx_graph *g, const char *name, cfx_graph *sub) {
    struct cfx__graph_branch s = {cfx__arena_copy(&g->arena, name, strlen(name)), cfx_keep(sub)};
    VEC_PUSH(g->subgraphs, s);
}

/* ---- make ----------------------------------------------------------------------------------- */

cfx__node *cfx__graph_append(cfx_graph *g, cfx_opcode op, cfx__target_row *row, cfx__name *name) {
    cfx__node *own = cfx__arena_alloc(&g->arena, sizeof *own);
    cfx_node *n = &own->pub;
    own->id = (uint32_t)g->made.len;
    VEC_PUSH(g->made, own);
    own->name = name;
    name->node = n;
    n->name = name->text;
    n->op = op;
    n->target = row->target;
    n->graph = g;
    cfx__node_link(g, n, g->insert);
    cfx__target_row_add(row, own);
    g->len++;
    cfx__graph_count(g, n);
    return own;
}

/* Freezes the arguments: frozen ones with a count in a and k, or false with an error. */
static bool freeze_args(cfx_graph *g, cfx_value args, cfx_value kwargs, cfx_value *a,
                        cfx_value *k) {
    if (args.tag != CFX_TAG_TUPLE && args.tag != CFX_TAG_NONE && args.tag != CFX_TAG_BAD) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "args must be a tuple, got %s",
                 cfx__value_python_type(args));
        return false;
    }
    if (kwargs.tag != CFX_TAG_DICT && kwargs.tag != CFX_TAG_NONE && kwargs.tag != CFX_TAG_BAD) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "kwargs must be a dict, got %s",
                 cfx__value_python_type(kwargs));
        return false;
    }
    bool no_kwargs =
        cfx_is_none(kwargs) || (kwargs.tag == CFX_TAG_DICT && !cfx_as_dict(kwargs)->len);
    if (kwargs.tag == CFX_TAG_DICT && !cfx__graph_keywords_fit(cfx_as_dict(kwargs)))
        return false;
    *a = cfx_is_none(args) ? g->no_args : cfx__graph_freeze(args);
    *k = no_kwargs ? g->no_kwargs : cfx__graph_freeze(kwargs);
    if (likely(!cfx_is_bad(*a) && !cfx_is_bad(*k)))
        return true;
    if (!cfx_is_none(args))
        cfx_value_drop(*a);
    if (!no_kwargs)
        cfx_value_drop(*k);
    if (cfx_ok())
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "an argument of the node is bad");
    return false;
}

static cfx_node *create(cfx_graph *g, cfx_opcode op, cfx__target_row *row, cfx_target target,
                        cfx_value args, cfx_value kwargs, const char *name, const char *type) {
    cfx_value a, k;
    if (!cfx__limit_nodes(g->len + 1) || !cfx__limit_time() || !cfx__target_fits(op, target) ||
        !freeze_args(g, args, kwargs, &a, &k))
        return cfx__node_bad;
    cfx__name *candidate = name ? cfx__name_candidate(&g->names, name) : row->candidate;
    cfx_node *n = &cfx__graph_append(g, op, row, cfx__name_give(&g->names, candidate))->pub;
    cfx__node_put_target(n, target);
    if (type)
        n->type = cfx__arena_copy(&g->arena, type, strlen(type));
    cfx__node_put_args(n, a, k);
    for (cfx_graph_hooks *h = g->hooks, *next; h; h = next) {
        next = h->next_;
        if (h->created)
            h->created(h, n);
    }
    return n;
}

cfx_node *cfx__graph_create(cfx_graph *g, cfx_opcode op, cfx__target_row *row, cfx_value args,
                            cfx_value kwargs) {
    return create(g, op, row, row->target, args, kwargs, NULL, NULL);
}

cfx_node *cfx_graph_create(cfx_graph *g, cfx_opcode op, cfx_target target, cfx_value args,
                           cfx_value kwargs, const char *name, const char *type) {
    if (!cfx__graph_given(g))
        return cfx__node_bad;
    if ((unsigned)op >= CFX__OPCODES) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "op '%d' is not in _legal_ops", (int)op);
        return cfx__node_bad;
    }
    if (!target.name && target.op)
        target.name = cfx_op_name(target.op);
    if (!target.name) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "target None has type NoneType but a %s is expected",
                 op == CFX_CALL_FUNCTION ? "Callable" : "str");
        return cfx__node_bad;
    }
    bool function = target.object || (target.op && (!target.fn || strchr(target.name, '.')));
    if (op != CFX_CALL_FUNCTION && function) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "target %s has type function but a str is expected", target.name);
        return cfx__node_bad;
    }
    if (op == CFX_CALL_METHOD && !target.fn)
        target = cfx__graph_row_named(g, op, target.name)->target;
    return create(g, op, cfx__graph_row(g, op, target), target, args, kwargs, name, type);
}

/* The same by text alone. */
static cfx_node *create_named(cfx_graph *g, cfx_opcode op, const char *text, cfx_value args,
                              cfx_value kwargs, const char *type) {
    if (!cfx__graph_given(g))
        return cfx__node_bad;
    if (!text)
        return cfx_graph_create(g, op, (cfx_target){0}, args, kwargs, NULL, type);
    cfx__target_row *row = cfx__graph_row_named(g, op, text);
    return create(g, op, row, row->target, args, kwargs, NULL, type);
}

cfx_node *cfx_graph_placeholder(cfx_graph *g, const char *name, const char *type, bool has_default,
                                cfx_value fallback) {
    size_t mark = cfx_scope_open();
    cfx_value args = has_default ? cfx_tuple_value(1, &fallback) : cfx_none();
    cfx_node *n = create_named(g, CFX_PLACEHOLDER, name, args, cfx_none(), type);
    cfx_scope_close(mark);
    return n;
}

cfx_node *cfx_graph_input(cfx_graph *g, const char *name) {
    return cfx_graph_placeholder(g, name, NULL, false, cfx_none());
}

cfx_node *cfx_graph_get_attr(cfx_graph *g, const char *path) {
    return create_named(g, CFX_GET_ATTR, path, cfx_none(), cfx_none(), NULL);
}

/* A call of a function by its name, which has to be known where it is one of torch's. */
static cfx_node *unknown(cfx_site at, const char *what, const char *target) {
    size_t mark = cfx_scope_open();
    cfx_fail(CFX_NAME_ERROR, at, "no %s is called '%s'%s", what, target,
             cfx__dispatch_hint(target));
    cfx_scope_close(mark);
    return cfx__node_bad;
}

static cfx_node *call_function(cfx_site at, cfx_graph *g, const char *target, cfx_value args,
                               cfx_value kwargs) {
    if (g && target && !cfx__target_known(cfx_graph_target(g, target)))
        return unknown(at, "function", target);
    return create_named(g, CFX_CALL_FUNCTION, target, args, kwargs, NULL);
}

cfx_node *cfx_graph_call_function(cfx_graph *g, const char *target, cfx_value args,
                                  cfx_value kwargs) {
    return call_function((cfx_site){0}, g, target, args, kwargs);
}

/* Whether a text is names with dots between them. */
static bool is_path(const char *text) {
    const char *p = text;
    for (; *p == '_' || isalpha((unsigned char)*p); p++) {
        while (*p == '_' || isalnum((unsigned char)*p))
            p++;
        if (*p != '.')
            break;
    }
    return p > text && !*p;
}

cfx_node *cfx_graph_call_from(cfx_site at, cfx_graph *g, const char *target, cfx_args a) {
    if (cfx__dispatch_args_bad(at, a))
        return cfx__node_bad;
    if (target && !is_path(target)) {
        cfx_fail(CFX_NAME_ERROR, at, "'%s' cannot be the name of a function", target);
        return cfx__node_bad;
    }
    if (target && !strncmp(target, "torch.Tensor.", 13))
        target += 6;
    else if (target && !strncmp(target, "torch.ops.aten.", 15))
        target += 10;
    size_t mark = cfx_scope_open();
    cfx_site outer = cfx__site_enter(at);
    a = cfx__dispatch_args_split(a);
    cfx_value args = cfx_tuple_value(a.n, a.v), kw = a.kw ? cfx_dict_value(a.kw) : cfx_none();
    bool method = target && !strncmp(target, "Tensor.", 7);
    cfx_node *n;
    if (method && g && !cfx__graph_row_named(g, CFX_CALL_METHOD, target + 7)->target.fn)
        n = unknown(at, "method", target);
    else
        n = method ? create_named(g, CFX_CALL_METHOD, target + 7, args, kw, NULL)
                   : call_function(at, g, target, args, kw);
    cfx__site_leave(outer);
    cfx_scope_close(mark);
    return n;
}

cfx_node *cfx_graph_call_method(cfx_graph *g, const char *method, cfx_value args,
                                cfx_value kwargs) {
    return create_named(g, CFX_CALL_METHOD, method, args, kwargs, NULL);
}

cfx_node *cfx_graph_call_module(cfx_graph *g, const char *path, cfx_value args, cfx_value kwargs) {
    return create_named(g, CFX_CALL_MODULE, path, args, kwargs, NULL);
}

cfx_node *cfx_graph_output(cfx_graph *g, cfx_value result) {
    size_t mark = cfx_scope_open();
    cfx_node *n =
        create_named(g, CFX_OUTPUT, "output", cfx_tuple_value(1, &result), cfx_none(), NULL);
    cfx_scope_close(mark);
    return n;
}

/* ---- look ----------------------------------------------------------------------------------- */

int64_t cfx_graph_len(const cfx_graph *g) { return g ? g->len : 0; }
cfx_node *cfx_graph_first(const cfx_graph *g) { return g ? g->first : NULL; }
cfx_node *cfx_graph_last(const cfx_graph *g) { return g ? g->last : NULL; }

/* Walks through large graphs wait for memory: the node after the next is on its way while the
 * caller looks at the next. */
cfx_node *cfx_node_after(const cfx_node *n) {
    cfx_node *next = n ? n->next : NULL;
    while (next && next->erased)
        next = next->next;
    if (next)
        __builtin_prefetch(next->next);
    return next;
}

cfx_node *cfx_node_before(const cfx_node *n) {
    cfx_node *prev = n ? n->prev : NULL;
    while (prev && prev->erased)
        prev = prev->prev;
    if (prev)
        __builtin_prefetch(prev->prev);
    return prev;
}

cfx_node *cfx_graph_find(const cfx_graph *g, const char *name) {
    cfx__name *r = g && name ? cfx__name_find(&g->names, name) : NULL;
    return r ? r->node : NULL;
}

static int by_order(const void *a, const void *b) {
    uint64_t x = cfx__node_of(cfx_as_node(*((const cfx_value *)a)))->order;
    uint64_t y = cfx__node_of(cfx_as_node(*((const cfx_value *)b)))->order;
    return x < y ? -1 : x > y;
}

static void collect_row(cfx_list *out, const cfx__target_row *row) {
    for (cfx__node *n = row->first; n; n = n->row_next)
        cfx_list_append(out, cfx_node_value(&n->pub));
}

cfx_value cfx_graph_find_nodes(cfx_graph *g, cfx_opcode op, const char *target) {
    cfx_value list = cfx_list_value(0, NULL);
    if (!cfx__graph_given(g) || (unsigned)op >= CFX__OPCODES)
        return list;
    if (target) {
        const char *text = target;
        cfx__target_row *row = cfx__map_get(&g->targets[op], text);
        if (!row && op == CFX_CALL_FUNCTION)
            row = cfx__map_get(&g->targets[op], cfx_graph_target(g, text).name);
        if (row)
            collect_row(cfx_as_list(list), row);
    } else {
        for (cfx__target_row *row = g->rows[op]; row; row = row->next)
            collect_row(cfx_as_list(list), row);
    }
    cfx_list *l = cfx_as_list(list);
    for (int64_t i = 1; i < l->len; i++)
        if (by_order(&l->items[i - 1], &l->items[i]) > 0) {
            qsort(l->items, (size_t)l->len, sizeof *l->items, by_order);
            break;
        }
    return list;
}

cfx_node *cfx_graph_output_node(const cfx_graph *g) {
    if (!g || (g->last && g->last->op == CFX_OUTPUT))
        return g ? g->last : NULL;
    cfx_node *found = NULL;
    for (const cfx__target_row *row = g->rows[CFX_OUTPUT]; row; row = row->next)
        for (cfx__node *n = row->first; n; n = n->row_next)
            if (!found || cfx_node_precedes(found, &n->pub))
                found = &n->pub;
    return found;
}

const char *cfx_opcode_name(cfx_opcode op) {
    static const char *const names[] = {
        [CFX_PLACEHOLDER] = "placeholder", [CFX_GET_ATTR] = "get_attr",
        [CFX_CALL_FUNCTION] = "call_function", [CFX_CALL_METHOD] = "call_method",
        [CFX_CALL_MODULE] = "call_module", [CFX_OUTPUT] = "output"};
    return (unsigned)op < CFX__OPCODES ? names[op] : "?";
}

/* ---- insert points -------------------------------------------------------------------------- */

/* The place of an insert point now: past nodes that were erased meanwhile. */
static cfx_node *live(cfx_node *n) { return n && n->erased ? cfx_node_after(n) : n; }

static bool in_graph(const cfx_graph *g, const cfx_node *n, const char *side) {
    if (!cfx__graph_given(g) || (n && !cfx__node_given(n)))
        return false;
    if (n && n->graph != g)
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "Node to insert %s is not in graph.", side);
    return !n || n->graph == g;
}

cfx_insert cfx_graph_insert_before(cfx_graph *g, cfx_node *n) {
    cfx_insert was = {g ? g->insert : NULL};
    if (in_graph(g, n, "before"))
        g->insert = n ? live(n) : g->first;
    return was;
}

cfx_insert cfx_graph_insert_after(cfx_graph *g, cfx_node *n) {
    cfx_insert was = {g ? g->insert : NULL};
    if (in_graph(g, n, "after"))
        g->insert = n ? cfx_node_after(n) : NULL;
    return was;
}

void cfx_graph_set_insert(cfx_graph *g, cfx_insert point) {
    if (in_graph(g, point.before, "before"))
        g->insert = live(point.before);
}

/* ---- change --------------------------------------------------------------------------------- */

static cfx_value to_none(cfx_node *n, void *user) {
    (void)n;
    (void)user;
    return cfx_none();
}

/* "{relu: None, add: None}", as Python prints the users. */
static const char *users_text(const cfx_node *n) {
    cfx__text t = {0};
    cfx__text_putc(&t, '{');
    cfx_each_user(n, u)
        cfx__text_printf(&t, "%s%s: None", u == n->users ? "" : ", ", u->user->name);
    cfx__text_putc(&t, '}');
    return cfx__text_take(&t);
}

bool cfx_graph_erase(cfx_node *n) {
    if (!cfx__node_given(n))
        return false;
    if (n->erased)
        return true;
    if (n->num_users) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "Tried to erase Node %s but it still had %d users in the graph: %s!", n->name,
                 n->num_users, users_text(n));
        return false;
    }
    cfx_graph *g = n->graph;
    for (cfx_graph_hooks *h = g->hooks, *next; h; h = next) {
        next = h->next_;
        if (h->erased)
            h->erased(h, n);
    }
    if (g->insert == n)
        g->insert = cfx_node_after(n);
    cfx__target_row_remove(cfx__node_of(n));
    cfx__node_unlink(g, n);
    cfx__node_of(n)->name->node = NULL;
    n->erased = true;
    g->len--;
    cfx__node_map_args(n, to_none, NULL);
    return true;
}

/* Whether n can be moved beside `at`. */
static bool movable(const cfx_node *n, const cfx_node *at) {
    if (!cfx__node_given(n) || !cfx__node_given(at))
        return false;
    const char *why = n->graph != at->graph ? "Attempting to move a Node into a different Graph"
                      : n->erased           ? "Attempting to move a Node that was erased"
                      : at->erased          ? "Attempting to move a Node beside one that was erased"
                                            : NULL;
    if (why)
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "%s", why);
    return !why;
}

/* Moves n before `at` (NULL: to the end). An insert point at n stays where it is. */
static void move(cfx_node *n, cfx_node *at) {
    cfx_graph *g = n->graph;
    if (g->insert == n)
        g->insert = n->next;
    cfx__node_unlink(g, n);
    cfx__node_link(g, n, at);
    cfx__graph_count(g, n);
}

bool cfx_node_move_before(cfx_node *n, cfx_node *at) {
    if (!movable(n, at))
        return false;
    if (n != at && n->next != at)
        move(n, at);
    return true;
}

bool cfx_node_move_after(cfx_node *n, cfx_node *at) {
    if (!movable(n, at))
        return false;
    if (n != at && at->next != n)
        move(n, at->next);
    return true;
}

void cfx_graph_add_hooks(cfx_graph *g, cfx_graph_hooks *hooks) {
    if (!cfx__graph_given(g))
        return;
    if (!hooks) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the hooks of a graph are a struct, not NULL");
        return;
    }
    cfx_graph_hooks **end = &g->hooks;
    while (*end)
        end = &(*end)->next_;
    hooks->next_ = NULL;
    *end = hooks;
}

void cfx_graph_remove_hooks(cfx_graph *g, cfx_graph_hooks *hooks) {
    if (!cfx__graph_given(g))
        return;
    for (cfx_graph_hooks **h = &g->hooks; *h; h = &(*h)->next_)
        if (*h == hooks) {
            *h = hooks->next_;
            hooks->next_ = NULL;
            return;
        }
}
