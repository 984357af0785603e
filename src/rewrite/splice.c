/* Replaces nodes by others: where the new ones are inserted, how they refer to the surrounding
 * graph, and who uses them. Start at cfx__splice_do. */
#include "match.h"

/* ---- what a new node is ---------------------------------------------------------------------- */

/* A call of an overload with its arguments as export writes them: by position but for those that
 * only have a name, defaults at the end left out. */
static cfx_node *create_overload(cfx_graph *g, cfx_op *op, const cfx_value *bound,
                                 const char *name) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *kw = cfx_dict_new();
    int last = s->npositional;
    while (last > 0 && s->args[last - 1].has_default &&
           cfx_equal_values(bound[last - 1], s->args[last - 1].fallback))
        last--;
    for (int i = 0; i < last; i++)
        cfx_list_append(cfx_as_list(args), bound[i]);
    for (int i = s->npositional; i < s->nargs; i++)
        if (!s->args[i].has_default || !cfx_equal_values(bound[i], s->args[i].fallback))
            cfx_dict_set(kw, s->args[i].name, bound[i]);
    return cfx_graph_create(g, CFX_CALL_FUNCTION, (cfx_target){.op = op}, args, cfx_dict_value(kw),
                            name, NULL);
}

/* The overload of ATen that a function of torch.nn.functional stands for, bound; NULL where it is
 * more than that. */
static cfx_op *aten_of(const cfx__call *c, cfx_value *bound) {
    const cfx_fn *fn = cfx_fn_find(c->schema->name);
    cfx_value args[CFX_MAX_ARGS];
    int n = 0, last = c->schema->nargs;
    while (last > 0 && c->schema->args[last - 1].has_default &&
           cfx_equal_values(c->args[last - 1], c->schema->args[last - 1].fallback))
        last--;
    for (int i = 0; i < last; i++)
        if (cfx__arg_counts(c->schema, i))
            args[n++] = c->args[i];
    cfx_op *op = fn ? cfx__fn_overload((cfx_site){0}, fn, (cfx_args){n, args, NULL}, bound) : NULL;
    return op && !cfx__op_info_of(op)->python ? op : NULL;
}

cfx_op *cfx__call_aten(const cfx_node *n, cfx_value *bound) {
    cfx__call c;
    if (!cfx__call_of(n, &c))
        return NULL;
    cfx_op *op = c.op;
    memcpy(bound, c.args, sizeof c.args);
    bool in_place = c.key != cfx__target_key(CFX_CALL_FUNCTION, (cfx_target){.op = op});
    if (cfx__op_info_of(op)->python)
        op = cfx_node_is_getitem(n) ? NULL : aten_of(&c, bound);
    return op && in_place ? cfx__op_inplace(op) : op;
}

/* A call in ATen; n is the call in the replacement, which is made of other nodes. */
static cfx_node *create_aten(cfx__splice *s, const cfx_node *n, cfx_value args, cfx_value kwargs) {
    cfx_node like = *n;
    like.args = args;
    like.kwargs = kwargs;
    cfx__call c;
    cfx_value bound[CFX_MAX_ARGS];
    if (!cfx__call_of(&like, &c)) {
        cfx__rule_fail(s->text, "%s() takes no such arguments here: %s", n->target.name,
                       cfx_value_str(args));
        return cfx__node_bad;
    }
    cfx_op *op = cfx__call_aten(&like, bound);
    return op ? create_overload(s->graph, op, bound, n->name)
              : cfx_graph_create(s->graph, n->op, n->target, args, kwargs, n->name, NULL);
}

/* ---- copying --------------------------------------------------------------------------------- */

typedef struct copying {
    cfx__splice *s;
    cfx_dict *values; /* node of the replacement to what it is in the graph */
    bool aten;
} copying;

static cfx_value given(cfx_node *n, void *data) {
    const copying *c = data;
    const cfx_value *v = cfx_dict_find(c->values, cfx_node_value(n));
    return v ? cfx__graph_freeze(*v) : cfx_bad();
}

static bool is_all_numbers(cfx_value args) {
    for (int64_t i = 0; i < cfx_as_list(args)->len; i++)
        if (!cfx_is_number(cfx_as_list(args)->items[i]))
            return false;
    return cfx_as_list(args)->len > 0;
}

static cfx_value copy_call(copying *c, const cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, given, c));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, given, c));
    if (cfx_is_bad(args) || cfx_is_bad(kwargs))
        return cfx_bad();
    bool call = n->op == CFX_CALL_FUNCTION || n->op == CFX_CALL_METHOD;
    if (n->op == CFX_CALL_FUNCTION && n->target.fn && !cfx_as_dict(kwargs)->len &&
        is_all_numbers(args))
        return cfx_py_from((cfx_site){0}, n->target.name,
                           (cfx_args){(int)cfx_as_list(args)->len, cfx_as_list(args)->items, NULL});
    cfx_node *made =
        call && c->aten && (n->target.fn || n->target.op)
            ? create_aten(c->s, n, args, kwargs)
            : cfx_graph_create(c->s->graph, n->op, n->target, args, kwargs, n->name, n->type);
    return made == cfx__node_bad ? cfx_bad() : cfx_node_value(made);
}

/* Copies the replacement at the insert point; its result. */
static cfx_value copy_all(copying *c) {
    int next = 0;
    cfx_each_node(c->s->replacement, n) {
        cfx_value v;
        if (n->op == CFX_OUTPUT)
            return cfx__value_scope_own(cfx__node_map(cfx_at(n->args, 0), given, c));
        v = n->op == CFX_PLACEHOLDER ? c->s->inputs[next++] : copy_call(c, n);
        if (cfx_is_bad(v))
            return v;
        cfx_dict_put(c->values, cfx_node_value(n), v);
    }
    return cfx_none();
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool is_inside(const cfx__splice *s, const cfx_node *n) {
    for (int i = 0; i < s->pattern->ncalls; i++)
        if (cfx_as_node(*cfx__match_slot(s->table, s->pattern->calls[i])) == n)
            return true;
    return false;
}

/* The first user outside of a result, or, where there is none, what follows the last node. */
static cfx_node *insert_point(const cfx__splice *s) {
    cfx_node *first = NULL, *last = NULL;
    for (int i = 0; i < s->pattern->nreturned; i++) {
        cfx_node *n = cfx_as_node(*cfx__match_slot(s->table, s->pattern->returned[i]));
        cfx_each_user(n, u) if (!is_inside(s, u->user) &&
                                (!first || cfx_node_precedes(u->user, first)))
            first = u->user;
        last = !last || cfx_node_precedes(last, n) ? n : last;
    }
    return first ? first : cfx_node_after(last);
}

static void note_latest(cfx_node *n, void *latest) {
    cfx_node **at = latest;
    *at = !*at || cfx_node_precedes(*at, n) ? n : *at;
}

/* Whether something that the new nodes use comes after the place where they go. */
static bool uses_later(const cfx__splice *s, const cfx_node *at) {
    cfx_node *latest = NULL;
    for (int i = 0; i < s->ninputs; i++)
        cfx__node_each(s->inputs[i], note_latest, &latest);
    return latest && at && !cfx_node_precedes(latest, at);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void take_back(cfx__splice *s) {
    for (int64_t i = cfx_as_list(s->made)->len - 1; i >= 0; i--)
        cfx_graph_erase(cfx_as_node(cfx_as_list(s->made)->items[i]));
}

/* The results as a list of nodes; a bad value, with an error, where they are not as many nodes. */
static cfx_value results_of(const cfx__splice *s, cfx_value v) {
    bool several = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
    cfx_value list = several ? cfx_list_value(cfx_as_list(v)->len, cfx_as_list(v)->items)
                             : cfx_list_value(1, &v);
    bool nodes = cfx_as_list(list)->len == s->pattern->nreturned;
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++)
        nodes &= cfx_as_list(list)->items[i].tag == CFX_TAG_NODE;
    if (nodes)
        return list;
    cfx__rule_fail(s->text, "the pattern has %d result(s), which %s cannot take the place of",
                   s->pattern->nreturned, cfx_value_str(v));
    return cfx_bad();
}

static void put_in(cfx__splice *s, cfx__successors *successors) {
    for (int i = 0; i < s->pattern->nreturned; i++) {
        cfx_node *old = cfx_as_node(*cfx__match_slot(s->table, s->pattern->returned[i]));
        cfx_node *with = cfx_as_node(cfx_as_list(s->results)->items[i]);
        cfx_node_replace(old, with);
        if (successors && cfx__node_of(old)->id < successors->len)
            successors->by_id[cfx__node_of(old)->id] = with;
    }
    for (int i = s->pattern->ncalls - 1; i >= 0; i--) {
        cfx_node *n = cfx_as_node(*cfx__match_slot(s->table, s->pattern->calls[i]));
        if (!n->num_users)
            cfx_graph_erase(n);
    }
}

/* Every node that is made on the way is noted. */
typedef struct watching {
    cfx_graph_hooks hooks; /* first */
    cfx__splice *splice;
    const cfx_node *origin;
} watching;

static void note_made(cfx_graph_hooks *hooks, cfx_node *n) {
    watching *w = (watching *)hooks;
    cfx__node_set_origin(n, w->origin);
    cfx_list_append(cfx_as_list(w->splice->made), cfx_node_value(n));
}

static cfx_value build(cfx__splice *s, cfx_node *at, const cfx_node *anchor) {
    watching w = {{.created = note_made}, s, anchor};
    copying c = {s, cfx_dict_new(), anchor->target.op && !anchor->target.fn};
    cfx_insert before = at ? cfx_graph_insert_before(s->graph, at)
                           : cfx_graph_insert_after(s->graph, NULL);
    cfx_graph_add_hooks(s->graph, &w.hooks);
    cfx_value v = s->build ? s->build(s->user) : copy_all(&c);
    cfx_graph_remove_hooks(s->graph, &w.hooks);
    cfx_graph_set_insert(s->graph, before);
    return v;
}

bool cfx__splice_do(cfx__splice *s, cfx__successors *successors) {
    cfx_node *at = insert_point(s);
    cfx_node *anchor = cfx_as_node(*cfx__match_slot(s->table, s->pattern->anchors[0].node));
    s->made = cfx_list_value(0, NULL);
    s->unsorted |= uses_later(s, at);
    cfx_value v = build(s, at, anchor);
    s->results = cfx_ok() ? results_of(s, v) : cfx_bad();
    if (cfx_is_bad(s->results)) {
        take_back(s);
        return false;
    }
    put_in(s, successors);
    return true;
}
